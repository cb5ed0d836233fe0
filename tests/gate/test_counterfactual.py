"""A failed check counts if another result of the repository makes the claim pass, and only then."""

from __future__ import annotations

import pytest

from scrout.gate.counterfactual import candidates
from scrout.gate.replay_context import ReplayContext
from scrout.gate.sources import Sources
from scrout.records import KEPT

from .test_claims import IMPORTS, Claim, Till, _gate

OWN = [
    Claim(
        "a result that the claim puts another value over",
        "unrelated_failure",
        "found = {'parts': till.split(9, 3)}\nfound |= {'parts': 'later'}\nassert found['parts'] == [3, 3, 3]\n",
    ),
    Claim(
        "a variable that every closure shares",
        "unrelated_failure",
        "shown = [lambda: value for value in (till.split(9, 3), 'the last')]\nassert shown[0]() == [3, 3, 3]\n",
    ),
    Claim(
        "an iterator that is used up",
        "unrelated_failure",
        "parts = iter(till.split(9, 3))\nprint(list(parts))\nassert list(parts) == [3, 3, 3]\n",
    ),
    Claim(
        "a function that is not called",
        "unrelated_failure",
        "class Case:\n    def answer(self):\n        return till.split(9, 3)\n\nprint(Case().answer())\n"
        "assert Case().answer == [3, 3, 3]\n",
    ),
    Claim(
        "a coroutine that nobody waits for",
        "unrelated_failure",
        "import asyncio\n\nasync def ask():\n    return till.split(9, 3)\n\nasync def main():\n    await ask()\n"
        "    assert ask() == [3, 3, 3]\n\nasyncio.run(main())\n",
    ),
    Claim(
        "a rate that cannot be one",
        "unrelated_failure",
        "right = 0\nfor attempt in range(1, 10):\n    right += till.split(9, 3) == [3, 3, 3]\n"
        "assert right / 10 == 1.0, 'not always right'\n",
    ),
    Claim(
        "an output with its line end",
        "unrelated_failure",
        "import subprocess\ncode = 'import till; print(till.split(9, 3))'\n"
        "out = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)\n"
        "assert out.stdout == '[3, 3, 3]'\n",
    ),
    Claim(
        "a raise after any result",
        "unrelated_failure",
        "def verify(value):\n    match value:\n        case other:\n"
        "            raise AssertionError(f'got {other!r}')\n\nverify(till.split(9, 3))\n",
    ),
    Claim(
        "a loop that nothing ends",
        "unrelated_failure",
        "for attempt in range(3):\n    if till.split(9, 3) is NotImplemented:\n        break\nelse:\n"
        "    raise ValueError('split fails')\n",
        issue="split() raises ValueError: split fails",
    ),
    Claim(
        "a check that only the right result fails",
        "unrelated_failure",
        "assert till.split(9, 3) != [3, 3, 3]\n",
        issue="split(10, 3) gives [3, 3], it should be [3, 3, 3]",
    ),
    Claim(
        "a check of the shell's that no output passes",
        "nonzero_other",
        command="actual=$(python -c 'import till; print(till.split(9, 3))'); want='[3, 3, 3]'; "
        "[ \"$actual\" = '$want' ]",
    ),
    Claim(
        "probability",
        "unrelated_failure",
        "import os\ntill.split(9, 3)\nassert os.urandom(1)[0] >= 255, 'bad luck'\n",
    ),
]

THEIRS = [
    Claim("a result", "real_failure", "assert till.split(10, 3) == [4, 3, 3]\n"),
    Claim("a part of a result", "real_failure", "assert till.split(10, 3)[0] == 4\n"),
    Claim("what is made of a result", "real_failure", "assert sum(till.split(10, 3)) == 10\n"),
    Claim("the length of a result", "real_failure", "assert len(till.split(10, 3)) == 4\n"),
    Claim(
        "several results",
        "real_failure",
        "for total, parts in ((10, [4, 3, 3]), (11, [4, 4, 3])):\n    assert till.split(total, 3) == parts\n",
    ),
    Claim(
        "several tests",
        "real_failure",
        command="python -m unittest test_it",
        files={
            "test_it.py": "import unittest\nimport till\n\n\nclass TestSplit(unittest.TestCase):\n"
            "    def test_ten(self):\n        self.assertEqual(till.split(10, 3), [4, 3, 3])\n\n"
            "    def test_eleven(self):\n        self.assertEqual(till.split(11, 3), [4, 4, 3])\n"
        },
    ),
    Claim(
        "an attribute",
        "real_failure",
        "budget = till.Budget(till.split(10, 3))\nprint(budget)\nassert budget.coins == [4, 3, 3]\n",
    ),
    Claim(
        "a wrong result by name",
        "real_failure",
        "if till.split(10, 3) == [3, 3, 3]:\n    sys.exit('a coin is gone')\n",
    ),
    Claim(
        "an exception that is missing",
        "real_failure",
        "try:\n    till.split(10, 3)\nexcept ValueError:\n    pass\nelse:\n    sys.exit('no ValueError')\n",
        issue="split(10, 3) should raise ValueError, since 10 cannot be split by 3",
    ),
    Claim(
        "a `case` of the shell's",
        "real_failure",
        command='case "$(python -m till 10)" in\n  "[4, 3, 3]") echo fine ;;\n  *) exit 1 ;;\nesac',
        issue="split(10, 3) gives `[3, 3, 3]`, it should be `[4, 3, 3]`",
    ),
    Claim(
        "a warning as an error",
        "real_failure",
        "import warnings\nwarnings.simplefilter('error')\nparts = till.split(10, 3)\nif parts != [4, 3, 3]:\n"
        "    warnings.warn('wrong parts')\n",
        issue="split(10, 3) gives `[3, 3, 3]`, it should be `[4, 3, 3]`",
    ),
]


@pytest.mark.parametrize("claim", OWN, ids=lambda claim: claim.name)
async def test_failure_that_no_result_avoids_is_not_kept(claim: Claim, till: Till) -> None:
    gated = await _gate(till, claim)
    assert gated.verdict == claim.verdict, gated.reason


@pytest.mark.parametrize("claim", THEIRS, ids=lambda claim: claim.name)
async def test_failure_that_another_result_avoids_is_kept(claim: Claim, till: Till) -> None:
    gated = await _gate(till, claim)
    assert gated.verdict in KEPT, gated.reason


def test_what_the_issue_and_the_claim_both_name_is_tried_first(till: Till) -> None:
    _, task_sandbox = till
    source = f"{IMPORTS}limit = 7\nassert till.split(10, 3) == [4, 3, 3]\nassert limit == 8\n"
    issue = "split(10, 3) gives `[3, 3, 3]`, it should be `[4, 3, 3]`"
    replay_context = ReplayContext(
        issue, Sources({"shows_it.py": (source,)}), task_sandbox.base, brought={"shows_it.py": source}
    )
    assert candidates(replay_context)[0] == "[4, 3, 3]"
