"""What a kept claim rests on."""

from __future__ import annotations

import pytest

from scrout.config.settings import GateSettings
from scrout.gate.gate import gate
from scrout.handoff import Basis, Handoff, Reproduction

from .test_claims import Claim, Till, _gate

PRINTS = """\
a, b, c = till.split(10, 3)
out = f"{a} gold\\n {b} silver\\n{c}"
print(out)
assert out == "4 gold\\n 3 silver\\n3", "printed:\\n" + out
"""
CLAIMS: dict[str, tuple[Claim, Basis]] = {
    "the exception that the report tells of": (
        Claim(
            "", "real_failure", "till.mean([])\n", issue="`mean([])` dies with `ZeroDivisionError: division by zero`"
        ),
        "verbatim",
    ),
    "the report's own assertion": (
        Claim(
            "",
            "real_failure",
            "assert sum(till.split(10, 3)) == 10\n",
            issue="It loses money:\n\n```python\nassert sum(till.split(10, 3)) == 10\n```\n",
        ),
        "verbatim",
    ),
    "a value that the report calls wrong": (
        Claim("", "reproduced_exit_zero", "print(till.split(10, 3))\n", issue="`split(10, 3)` gives `[3, 3, 3]`."),
        "confirmed",
    ),
    "a line of the report that fails in another way than told": (
        Claim(
            "", "real_failure", "print(till.mean([]))\n", issue="Wrong mean:\n\n```python\nprint(till.mean([]))\n```\n"
        ),
        "assumed",
    ),
    "an expectation that the report does not have": (
        Claim("", "real_failure", "assert sum(till.split(10, 3)) == 10\n", issue="split() loses money"),
        "assumed",
    ),
}


@pytest.mark.parametrize("name", CLAIMS)
async def test_a_kept_claim_says_what_it_rests_on(till: Till, name: str) -> None:
    claim, basis = CLAIMS[name]
    gated = await _gate(till, claim)
    assert (gated.verdict, gated.basis) == (claim.verdict, basis), gated.reason
    assert gated.verified == (basis != "assumed")


LINES = {
    "shown": ("Got:\n\n```\n3 gold\n 3 silver\n3\n```\n\nExpected:\n\n```\n4 gold\n 3 silver\n3\n```\n", True),
    "with another indentation": ("Got:\n\n```\n3 gold\n3 silver\n3\n```\n", False),
    "expected": ("Expected:\n\n```\n3 gold\n 3 silver\n3\n```\n", False),
    "a part of what is shown": ("Got:\n\n```\n3 gold\n 3 silver\n3\n3\n```\n", False),
}
"""Reports of several lines, and whether they tell that these are wrong."""


@pytest.mark.parametrize("name", LINES)
async def test_several_printed_lines_are_told_where_the_report_shows_them(till: Till, name: str) -> None:
    issue, is_told = LINES[name]
    task, task_sandbox = till
    reproduction = Reproduction(
        files={"shows_it.py": f"import till\n{PRINTS}"}, command="python shows_it.py", claim=True, basis="confirmed"
    )
    task = task.model_copy(update={"text": issue})
    gated = await gate(task, Handoff(reproduction=reproduction), task_sandbox, GateSettings(runs=2, timeout_s=20))
    assert (gated.verdict == "real_failure" and gated.basis == "confirmed") == is_told, gated.reason
