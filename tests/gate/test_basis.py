"""What a kept claim rests on."""

from __future__ import annotations

import pytest

from scrout.handoff import Basis

from .test_claims import Claim, Till, _gate

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
