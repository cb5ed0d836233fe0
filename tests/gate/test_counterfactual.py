"""A failed check counts if another result of the repository makes the claim pass, and only then."""

from __future__ import annotations

import pytest

from scrout.gate.counterfactual import candidates
from scrout.gate.python import failure_places
from scrout.gate.replay_context import ReplayContext
from scrout.gate.sources import Sources
from scrout.records import KEPT

from .test_claims import IMPORTS, Claim, Till, _gate

OWN = [
    Claim(
        "one of several failures in one message",
        "unrelated_failure",
        "failures = []\nif till.split(10, 3) != [4, 3, 3]:\n    failures.append('ten')\n"
        "if [4, 3] != [4, 4, 3]:\n    failures.append('eleven')\nassert not failures, '\\n'.join(failures)\n",
    ),
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
        "a text that is compared with how it shows",
        "unrelated_failure",
        "result = repr(till.shelf.tidied('1'))\nassert result == '1', result\n",
    ),
    Claim(
        "a list that is compared with a tuple",
        "unrelated_failure",
        "assert till.each([-1, 2], abs) == (1, 2)\n",
    ),
    Claim(
        "a check in another file that fails with any result",
        "unrelated_failure",
        "from checks import verify\nverify(till.split(9, 3), [3, 3, 3])\n",
        files={"checks.py": "def verify(actual, expected):\n    assert actual is expected == None\n"},
    ),
    Claim(
        "a result of another type than what stands beside it",
        "unrelated_failure",
        "expected = ['expected', [3, 3, 3]]\nfor got, want in zip([till.split(9, 3), till.split(9, 3)], expected):\n"
        "    if got != want:\n        raise SystemExit(f'{got!r} should be {want!r}')\n",
        issue="`label(3)` is wrong",
    ),
    Claim(
        "a procedure that gives nothing, as it should",
        "unrelated_failure",
        "result = till.shelf.arrange([2, 1])\nbroken = result != None\nassert broken is not False\n",
        issue="till is broken\n\nExpected: `True`\nActual: `False`",
    ),
    Claim(
        "any other result, for another call than the issue's",
        "unrelated_failure",
        "def main():\n    return till.shelf.arrange([2, 1]) == None\n\nsys.exit(main())\n",
        issue="`arrange(['b', 1])` gives `None`, not a TypeError.",
    ),
    Claim(
        "an index of its own that is out of range, in the words of the issue",
        "unrelated_failure",
        "results = [till.split(9, 3), till.split(9, 3)]\nfor number, _ in enumerate(results, start=1):\n"
        "    assert results[number] == [3, 3, 3]\n",
        issue="`split(9, 0)` fails with `IndexError: list index out of range`",
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
        "a value that only the claim's own code could make",
        "unrelated_failure",
        "import enum\n\nclass Expected(enum.Enum):\n    ISSUE = [3, 3, 3]\n\n"
        "assert till.split(9, 3) == Expected.ISSUE\n",
    ),
    Claim(
        "a result that the issue calls right",
        "unrelated_failure",
        "want = ['expected', [3, 3, 3]]\ngot = [till.split(9, 3), till.split(9, 3)]\n"
        "for one, other in zip(got, want):\n    if one != other:\n        sys.exit(f'{one} should be {other}')\n",
        issue="split is broken\n\n`split(9, 3)` gives `[3, 3]`, not `[3, 3, 3]`.",
    ),
    Claim(
        "a result of another type than the claim asks for",
        "unrelated_failure",
        "from till import report\nassert report.report(3).lines[0].text == b'3 coins'\n",
        issue="report(3).lines[0].text is `4 coins`, it should be `3 coins`",
    ),
    Claim(
        "a part that the issue asks for of another one",
        "unrelated_failure",
        "from till import report\nfound = report.report(3)\nassert found.lines == 'three coins'\n",
        issue="report(3).lines[0].text gives `'3 coins'`, it should be `'three coins'`",
    ),
    Claim(
        "a check that only the right items of a generator fail",
        "unrelated_failure",
        "from till import report\nbroken = list(report.coins(3)) != [2, 1]\nassert broken is not False\n",
    ),
    Claim(
        "a program beside one that fails",
        "nonzero_other",
        command="python -c 'import till; till.mean([])' 2>/dev/null; [ 1 -eq 0 ]",
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
    Claim(
        "several failures in one message",
        "real_failure",
        "failures = []\nif till.split(10, 3) != [4, 3, 3]:\n    failures.append('ten')\n"
        "if till.split(11, 3) != [4, 4, 3]:\n    failures.append('eleven')\n"
        "assert not failures, '\\n'.join(failures)\n",
    ),
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
        "a part of an object of a library's",
        "real_failure",
        "from till import report\nassert report.report(3).lines[0].text == 'three coins'\n",
        issue="report(3).lines[0].text gives `'3 coins'`, it should be `'three coins'`",
    ),
    Claim(
        "a class by how it shows",
        "real_failure",
        "from till import report\nassert repr(report.kind(2)) == \"<class 'till.report.Coin'>\"\n",
        issue="repr(kind(2)) gives `'None'`, it should be `\"<class 'till.report.Coin'>\"`",
    ),
    Claim(
        "an argument that the constructor changes",
        "real_failure",
        "from till import report\nrates = {'fee': 2}\nreport.Purse(rates)\nassert rates['fee'] == 2\n",
        issue="Purse(rates) changes the rates: `rates['fee']` gives 4",
    ),
    Claim(
        "an exception by its name",
        "real_failure",
        "try:\n    got = till.split(10, 3)\nexcept Exception as error:\n"
        "    if 'ValueError' not in [kind.__name__ for kind in type(error).__mro__]:\n"
        "        raise AssertionError('expected ValueError')\nelse:\n"
        "    raise AssertionError('expected ValueError, got ' + repr(got))\n",
        issue="`split(10, 3)` gives [3, 3, 3]. This must be a ValueError.",
    ),
    Claim(
        "a text that the shell quotes",
        "real_failure",
        command='grep -qxF -- \'[4, 3, 3]\'"" <<< "$(python -m till 10)"',
        issue="split(10, 3) gives `[3, 3, 3]`, it should be `[4, 3, 3]`",
    ),
    Claim(
        "a text of a here-document",
        "real_failure",
        "print(len(till.split(10, 3)) == 4)\n",
        command="expected=$(cat <<'EOF'\nTrue\nEOF\n)\nactual=$(python shows_it.py)\n"
        'if [[ "$actual" != "$expected" ]]; then\n  echo "MISMATCH: $actual"\n  exit 1\nfi',
        issue="`len(till.split(10, 3)) == 4` gives `False`, not `True`",
    ),
    Claim(
        "a crash before the shell's check",
        "real_failure",
        "print(repr(till.mean([])))\n",
        command='case "$(python shows_it.py)" in\n  \'0\'".0") ;;\n  *) exit 1 ;;\nesac',
        issue="`mean([])` crashes: ZeroDivisionError: division by zero. What should happen: `0.0`",
    ),
    Claim(
        "failures that the shell counts",
        "real_failure",
        "assert till.split(10, 3) == [4, 3, 3]\n",
        command="fails=0\nfor i in 1 2; do\n  python shows_it.py >/dev/null 2>&1 || fails=$((fails + 1))\ndone\n"
        "[ $fails -eq 0 ]",
        issue="split(10, 3) gives `[3, 3, 3]`, it should be `[4, 3, 3]`",
    ),
    Claim(
        "a child process that fails",
        "real_failure",
        "import subprocess\ncode = 'import till\\nassert till.split(10, 3) == [4, 3, 3]'\n"
        "subprocess.run([sys.executable, '-c', code], check=True)\n",
    ),
    Claim(
        "an environment of its own",
        "real_failure",
        "assert till.split(10, 3) == [4, 3, 3]\n",
        command='env -i PATH="$PATH" HOME=/tmp bash -c "python shows_it.py" 2> /dev/null',
    ),
    Claim(
        "examples that follow from one that fails",
        "real_failure",
        command="python -m doctest notes.md",
        files={"notes.md": ">>> import till\n>>> middle = till.mean([])\n>>> half = middle / 2\n>>> half\n0.0\n"},
    ),
    Claim(
        "examples that follow from one that fails, in a suite",
        "real_failure",
        command="python -m unittest checks",
        files={
            "checks.py": "import doctest\n\n\ndef load_tests(loader, tests, ignored):\n"
            "    tests.addTests(doctest.DocFileSuite('notes.md', module_relative=False))\n    return tests\n",
            "notes.md": ">>> import till\n>>> middle = till.mean([])\n>>> middle.total_of_all_coins\n0.0\n",
        },
    ),
    Claim(
        "a failure in a generator of the claim's, again and again",
        "real_failure",
        "from collections import Counter\n"
        "tally = Counter('ok' if till.shelf.deep(0) == 0 else 'wrong' for _ in range(3))\nassert tally['wrong'] == 0\n",
        issue="`deep(0)` fails with RecursionError: maximum recursion depth exceeded",
    ),
    Claim(
        "a call in a child, after others",
        "real_failure",
        "import os\nfrom till.report import report\nreport(1)\nreport(2)\nreader, writer = os.pipe()\n"
        "if os.fork() == 0:\n    os.write(writer, repr(report(3)).encode())\n    os._exit(0)\n"
        "os.close(writer)\nos.wait()\ntold = os.read(reader, 10000).decode()\n"
        "assert told == 'Report(coins=3, whole=(1, 2, 3))', told\n",
        issue="`repr(report(3))` gives `namespace(lines=[namespace(text='3 coins')])`, "
        "not `'Report(coins=3, whole=(1, 2, 3))'`",
    ),
    Claim(
        "another exception than the one that is handled, out of sight",
        "real_failure",
        "try:\n    till.mean([])\nexcept ValueError:\n    print('refused as it should')\n",
        command="failed=0\nfor run in 1 2; do\n  python shows_it.py > /dev/null 2>&1 || failed=$((failed + 1))\ndone\n"
        "[ $failed -eq 0 ]",
    ),
    Claim(
        "a constructor's exception, caught and printed",
        "real_failure",
        "import traceback\nfrom till.report import Share\n\ndef main():\n    try:\n        Share([])\n"
        "    except Exception:\n        traceback.print_exc()\n        return 1\n    return 0\n\nsys.exit(main())\n",
    ),
    Claim(
        "a result in an f-string",
        "real_failure",
        "result = f'the rack: {till.shelf.Rack([7])!s}'\nassert result == 'the rack: [8]', result\n",
        issue="`f'the rack: {rack!s}'` gives `'the rack: [7]'`, not `'the rack: [8]'`",
    ),
    Claim(
        "the items of a dictionary",
        "real_failure",
        "from till.report import stock\nassert sorted(stock().items()) == [('apple', 1), ('pear', 2)]\n",
        issue="`sorted(stock().items())` gives `[]`, not `[('apple', 1), ('pear', 2)]`",
    ),
    Claim(
        "a check in another file",
        "real_failure",
        "from checks import same\nrack = till.shelf.Rack([[1]])\nsame(rack.first() is rack.goods, True)\n",
        files={"checks.py": "def same(actual, expected):\n    assert actual == expected\n    return True\n"},
        issue="`rack.first()` is another object than `rack.goods`",
    ),
    Claim(
        "an example about an object that an earlier one could not change",
        "real_failure",
        command="python -m doctest notes.md",
        files={
            "notes.md": ">>> from till.report import Shelves\n>>> shelves = Shelves()\n>>> shelves.share([])\n"
            ">>> shelves.half\n[3, 3]\n"
        },
    ),
    Claim(
        "a sleep that is left out",
        "real_failure",
        "import time\nfrom unittest import mock\nwith mock.patch('time.sleep'):\n    parts = till.split(10, 3)\n"
        "assert parts == [4, 3, 3]\n",
    ),
    Claim(
        "a module that the repository loads anew",
        "real_failure",
        "from till import report\nassert report.tag('<a/>') == 'a'\n",
    ),
    Claim(
        "a value that is logged",
        "reproduced_exit_zero",
        "import logging\nlogging.basicConfig(level=logging.INFO, stream=sys.stdout)\n"
        "logging.info('split gives %r', till.split(10, 3))\n",
        issue="`split(10, 3)` gives `[3, 3, 3]`, it should be `[4, 3, 3]`",
    ),
    Claim(
        "a result that is also the argument",
        "reproduced_exit_zero",
        "print(repr(till.shelf.tidied('Hello World')))\n",
        issue="Wrong result\n\n>>> tidied('Hello World')\n'Hello World'\n\nThe result should be `'hello world'`.",
    ),
    Claim(
        "a short text of an object",
        "reproduced_exit_zero",
        "purse = till.shelf.Rack([7])\nactual, expected = str(purse), '[8]'\n"
        "print('PASS' if actual == expected else 'FAIL', '- expected', repr(expected), 'got', repr(actual))\n",
        issue="`str(purse)` gives `'[7]'`, not `'[8]'`.",
    ),
    Claim(
        "a syntax error that the repository raises, without its head",
        "real_failure",
        "till.shelf.worked_out('1')\n",
        command="python shows_it.py 2>&1 | tail -3",
        issue="worked_out('1') raises SyntaxError",
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


def test_code_that_is_named_after_an_object_has_the_same_place_in_each_run(till: Till) -> None:
    _, task_sandbox = till
    replay_context = ReplayContext("", Sources({}), task_sandbox.base)
    told = 'Traceback (most recent call last):\n  File "memory:{}", line 3, in render\n    x\nNameError: name\n'
    first, second = (failure_places(told.format(place), replay_context) for place in ("0x7f00aa10", "0x7f00bb20"))
    assert first == second == ["NameError memory:0x:3"]
