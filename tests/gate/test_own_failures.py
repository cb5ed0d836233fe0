"""Failures of a claim's own code beside harmless calls of the repository, and true claims in unusual forms."""

from __future__ import annotations

import pytest

from scrout.records import KEPT

from .conftest import but_slow
from .test_claims import IMPORTS, Claim, Till, _gate

OWN = [
    Claim(
        "a name bound to a result of the standard library",
        "unrelated_failure",
        "import math\nparts = till.split(9, 3)\nparts = math.floor(3.7)\nassert parts == 4\n",
    ),
    Claim(
        "a name bound anew in a function",
        "unrelated_failure",
        "import math\ndef main():\n    total = sum(till.split(9, 3))\n    total = math.ceil(8.2)\n"
        "    assert total == 10\nmain()\n",
    ),
    Claim(
        "a name bound anew in a loop",
        "unrelated_failure",
        "for total in (9,):\n    got = sum(till.split(total, 3))\n    got = len('abc')\n    assert got == total\n",
    ),
    Claim(
        "a name bound anew in a try",
        "unrelated_failure",
        "try:\n    got = sum(till.split(9, 3))\n    got = len('abc')\nexcept ValueError:\n    got = 0\n"
        "assert got == 9\n",
    ),
    Claim(
        "a name of another function",
        "unrelated_failure",
        "def show(value):\n    print(value)\n\nshow(till.mean([1]))\nvalue = len('abc')\nassert value == 4\n",
    ),
    Claim(
        "a branch that did not run",
        "unrelated_failure",
        "till.mean([1])\ntotal = 9\nif len(sys.argv) > 5:\n    total = sum(till.split(9, 3))\nassert total == 10\n",
    ),
    Claim(
        "its own raise in a try with a harmless call",
        "unrelated_failure",
        "try:\n    till.mean([1])\n    raise ZeroDivisionError('division by zero')\n"
        "except ZeroDivisionError as error:\n    print(error)\n    sys.exit(1)\n",
    ),
    Claim(
        "its own raise in a try that catches nothing",
        "unrelated_failure",
        "try:\n    till.mean([1])\n    raise AssertionError('split loses money')\nfinally:\n    print('done')\n",
    ),
    Claim(
        "its own raise in a try that raises again",
        "unrelated_failure",
        "try:\n    x = till.mean([1])\n    raise RuntimeError('broken')\nexcept RuntimeError as error:\n"
        "    raise AssertionError('broken') from error\n",
    ),
    Claim(
        "its own error in a try",
        "unrelated_failure",
        "try:\n    till.mean([1])\n    1 / 0\nexcept ZeroDivisionError:\n    sys.exit(1)\n",
    ),
    Claim(
        "its own error in a function that a try calls",
        "unrelated_failure",
        "def boom():\n    raise ValueError('x')\n\ntry:\n    till.mean([1])\n    boom()\n"
        "except ValueError:\n    sys.exit(1)\n",
    ),
    Claim(
        "a package that is not installed",
        "environment_missing",
        "import importlib.metadata\ntill.split(9, 3)\nimportlib.metadata.version('till')\n",
    ),
    Claim(
        "an exception of a mock that the repository calls",
        "own_error",
        "from unittest import mock\ntill.money.each([1], mock.Mock(side_effect=ValueError('no stub')))\n",
    ),
    Claim(
        "an exception of its own type that the repository did not raise",
        "own_error",
        "from concurrent.futures import Future\nfrom operator import methodcaller\n\nclass StubError(Exception):\n"
        "    pass\n\nstub = Future()\nstub.set_exception(StubError())\n"
        "till.money.each([stub], methodcaller('result'))\n",
    ),
    Claim(
        "eval of a constant",
        "unrelated_failure",
        "total = eval('3 + 3 + 3')\ntill.mean([total])\nassert total == 10\n",
    ),
    Claim(
        "eval of a list", "unrelated_failure", "parts = eval('[3, 3, 3]')\ntill.mean(parts)\nassert sum(parts) == 10\n"
    ),
    Claim(
        "eval that raises what is reported",
        "own_error",
        "total = till.mean([1]) + eval('1 / 0')\n",
    ),
    Claim(
        "a list that it only passed",
        "unrelated_failure",
        "parts = [3, 3, 3]\ntill.mean(parts)\nassert sum(parts) == 10\n",
    ),
    Claim(
        "an example of arithmetic",
        "unrelated_failure",
        command="python -m doctest check.txt",
        files={"check.txt": ">>> import till\n>>> _ = till.mean([1])\n>>> 1 + 1\n3\n"},
    ),
    Claim(
        "an example with a mistake",
        "own_error",
        command="python -m doctest check.txt",
        files={"check.txt": ">>> import till\n>>> till.mean([1]) + nothing\n3\n"},
    ),
    Claim(
        "a failed example that was only printed",
        "nonzero_other",
        "till.mean([1])\nprint('File \"check.txt\", line 2, in check.txt\\nFailed example:\\n    till.mean([1])\\n'\n"
        "      'Expected:\\n    2\\nGot:\\n    1\\n')\nsys.exit(1)\n",
        files={"check.txt": ">>> import till\n>>> till.mean([1])\n2\n"},
    ),
    Claim(
        "a constant that the shell looks for",
        "nonzero_other",
        "till.mean([1])\nprint('[3, 3, 3]')\n",
        "python shows_it.py | grep -q '4, 3, 3'",
    ),
    Claim(
        "another value that the shell looks for",
        "nonzero_other",
        "print(till.mean([1]))\n",
        "test \"$(python shows_it.py)\" = '[4, 3, 3]'",
    ),
    Claim(
        "a shell script that fails by itself",
        "nonzero_other",
        "print(till.split(10, 3))\n",
        "bash check.sh",
        files={"check.sh": "python shows_it.py\nfalse\n"},
    ),
    Claim(
        "its own raise whatever came back",
        "unrelated_failure",
        "try:\n    got = till.mean([1])\n    if got:\n        raise RuntimeError(f'unexpected {got!r}')\n"
        "    raise RuntimeError('nothing came back')\nfinally:\n    print('done')\n",
    ),
    Claim(
        "its own raise about something that came back",
        "unrelated_failure",
        "got = till.label('a')\nif got:\n    raise RuntimeError(f'unexpected {got!r}')\n",
    ),
    Claim(
        "a parameter beside a call",
        "unrelated_failure",
        command="python -m pytest -q test_it.py",
        files={
            "test_it.py": f"{IMPORTS}import pytest\n\n@pytest.mark.parametrize('got', [8])\ndef test_sum(got):\n"
            "    print(till.split(10, 3))\n    assert got == 9\n"
        },
    ),
    Claim("a right value, printed", "passed", "print(till.split(9, 3))\n"),
    Claim("a value of its own, printed", "passed", "till.split(10, 3)\nprint([3, 3, 3])\n"),
    Claim(
        "the value that should be, printed",
        "passed",
        "print(till.mean([1, 3]))\n",
        issue="mean() is wrong\n\nmean([1, 3]) should be 2.0, but mean([]) dies.",
    ),
    Claim(
        "a name that a loop binds anew",
        "unrelated_failure",
        "import json\ngot = till.mean([1])\nfor got in json.loads('[1, 2]'):\n    pass\nassert got == 1.0\n",
    ),
    Claim(
        "a field of its own beside a result",
        "unrelated_failure",
        "from dataclasses import dataclass\n\n@dataclass\nclass Case:\n    result: object = None\n"
        "    passed: bool = False\n\ncase = Case(till.mean([1]))\nassert case.passed, case.result\n",
    ),
    Claim(
        "a value of its own that equals nothing",
        "unrelated_failure",
        "class Never:\n    def __eq__(self, other):\n        return False\n\nwanted = Never()\n"
        "got = till.mean([1])\nassert got == wanted\n",
    ),
    Claim(
        "a constant that is evaluated beside a result",
        "unrelated_failure",
        "space = {'got': till.mean([1])}\nactual = eval('[3, 3, 3]', space)\nassert actual == [4, 3, 3]\n",
    ),
    Claim(
        "an error of a library's in an assertion",
        "own_error",
        "import re\nassert re.match('(' + repr(till.mean([1]))[:0], 'x')\n",
    ),
    Claim(
        "its own exception through the repository",
        "unrelated_failure",
        "class Broken(Exception):\n    pass\n\ndef label(value):\n    raise Broken('no label')\n\n"
        "try:\n    print(till.each([1], label))\nexcept Broken as error:\n"
        "    raise SystemExit(f'each fails: {error}')\n",
    ),
    Claim(
        "a number that is the same either way",
        "unrelated_failure",
        "errors = 0\ntry:\n    got = till.mean([1])\n    errors += 1\nexcept Exception:\n    errors += 1\n"
        "raise SystemExit(errors)\n",
    ),
    Claim(
        "a helper of its own that gives a constant",
        "unrelated_failure",
        "import helpers\ntill.mean([1])\nassert helpers.total() == 10\n",
        files={"helpers.py": "import till\n\n\ndef total():\n    till.split(10, 3)\n    return 9\n"},
    ),
    Claim(
        "the value that should be, where the wrong one goes on",
        "passed",
        "print(till.mean([1, 3]))\n",
        issue="mean() is wrong\n\nmean([1, 3])\n\nExpected: `'2.0'`\nActual: `'2.0??'`",
    ),
    Claim(
        "a shell that hides Python from the witness",
        "tampered",
        "import subprocess\ntill.mean([1])\n"
        "line = 'env -i python3 -c \"import till; till.split = 1; till.split(1)\"'\n"
        "assert not subprocess.run(line, shell=True).returncode\n",
    ),
    Claim(
        "a Python that is not watched",
        "nonzero_other",
        command="python -c 'import till; till.mean([1])'; unset PYTHONPATH; python -c 'import till; "
        "assert sum(till.split(10, 3)) == 10'",
    ),
]

TRUE = [
    Claim(
        "an exception that comes again where the object is shown",
        "real_failure",
        "from till import report\npurse = report.Purse({'fee': 1})\n\ndef show(*_):\n    try:\n"
        "        repr(purse)\n    except AttributeError:\n        pass\n\nsys.excepthook = show\npurse.empty()\n",
        issue="Purse.empty() raises AttributeError: 'Purse' object has no attribute 'coins'",
    ),
    Claim(
        "a field of its own that holds a result",
        "real_failure",
        "from dataclasses import dataclass\n\n@dataclass\nclass Case:\n    actual: object\n    expected: object\n\n"
        "    @property\n    def passed(self):\n        return self.actual == self.expected\n\n"
        "case = Case(sum(till.split(10, 3)), 10)\nassert case.passed, case\n",
    ),
    Claim(
        "an object of its own class below one of the repository's",
        "real_failure",
        "class Mine(till.shelf.Rack):\n    pass\n\nmine = Mine([3, 1])\nassert mine.first() == 1\n",
        issue="Rack.first() gives the wrong one",
    ),
    Claim("a file as an argument", "real_failure", "till.mean([])\n", 'python -c "$(cat shows_it.py)"'),
    Claim(
        "a file through a pipe", "real_failure", "assert sum(till.split(10, 3)) == 10\n", "cat shows_it.py | python -"
    ),
    Claim(
        "an exit code that a comparison gives",
        "real_failure",
        "wrong = [1] if sum(till.split(10, 3)) != 10 else []\nraise SystemExit(1 if wrong else 0)\n",
    ),
    Claim(
        "a helper of its own in another file",
        "real_failure",
        "import helpers\nassert helpers.total() == 10\n",
        files={"helpers.py": "from till import split\n\n\ndef total():\n    return sum(split(10, 3))\n"},
    ),
    Claim(
        "a name that another file of its own gives",
        "real_failure",
        "from helpers import total as ask\nassert ask() == 10\n",
        files={"helpers.py": "import till\n\n\ndef total():\n    return sum(till.split(10, 3))\n"},
    ),
    Claim(
        "another Python in its place",
        "real_failure",
        "import os\ncode = 'import till\\nassert sum(till.split(10, 3)) == 10'\n"
        "os.execv(sys.executable, [sys.executable, '-c', code])\n",
    ),
    Claim(
        "a Python that reads no environment",
        "real_failure",
        "import subprocess\n"
        "code = 'import sys; sys.path.insert(0, \".\"); import till; print(sum(till.split(10, 3)))'\n"
        "done = subprocess.run([sys.executable, '-I', '-c', code], capture_output=True, text=True)\n"
        "assert done.stdout.strip() == '10', done\n",
    ),
    Claim(
        "an argument that the repository changed",
        "real_failure",
        "values = [1, 3]\ntill.shelf.arrange(values)\nassert values == [1, 3]\n",
        issue="arrange() sorts the wrong way round",
    ),
    Claim(
        "a function under a decorator of the repository",
        "real_failure",
        "@till.shelf.doubled\ndef value():\n    return 2\n\nassert value() == 4\n",
        issue="doubled() is wrong",
    ),
    Claim(
        "a method of its own",
        "real_failure",
        "class Check:\n    def total(self):\n        return sum(till.split(10, 3))\n\nassert Check().total() == 10\n",
    ),
    Claim(
        "a helper method of a test",
        "real_failure",
        command="python -m unittest test_x",
        files={
            "test_x.py": "import unittest, till\nclass T(unittest.TestCase):\n    def total(self, *args):\n"
            "        return sum(till.split(*args))\n    def test_x(self):\n"
            "        self.assertEqual(self.total(10, 3), 10)\n"
        },
    ),
    Claim("os._exit", "real_failure", "import os\nif sum(till.split(10, 3)) != 10:\n    os._exit(1)\n"),
    Claim(
        "a pool of processes",
        "real_failure",
        "from multiprocessing import Pool\nif __name__ == '__main__':\n    with Pool(2) as pool:\n"
        "        pool.map(till.mean, [[1], []])\n",
    ),
    Claim(
        "an executor",
        "real_failure",
        "from concurrent.futures import ProcessPoolExecutor\nif __name__ == '__main__':\n"
        "    with ProcessPoolExecutor(1) as pool:\n        assert sum(pool.submit(till.split, 10, 3).result()) == 10\n",
    ),
    Claim(
        "a forked process",
        "real_failure",
        "import os\npid = os.fork()\nif pid == 0:\n    os._exit(0 if sum(till.split(10, 3)) == 10 else 1)\n"
        "_, status = os.waitpid(pid, 0)\nsys.exit(os.waitstatus_to_exitcode(status))\n",
    ),
    Claim(
        "KeyboardInterrupt",
        "real_failure",
        "till.shelf.stop()\n",
        issue="stop() raises KeyboardInterrupt instead of returning",
    ),
    Claim(
        "an example in a text",
        "real_failure",
        command="python -m doctest check.txt",
        files={"check.txt": "Money:\n\n>>> import till\n>>> parts = till.split(10, 3)\n>>> sum(parts)\n10\n"},
    ),
    Claim(
        "an example in a module",
        "real_failure",
        command="python -m doctest check.py",
        files={"check.py": 'import till\n\n\ndef f():\n    """\n    >>> sum(till.split(10, 3))\n    10\n    """\n'},
    ),
    Claim(
        "an example that raises",
        "real_failure",
        command="python -m doctest check.txt",
        files={"check.txt": ">>> import till\n>>> till.mean([])\n0\n"},
    ),
    Claim(
        "an example of the repository's",
        "real_failure",
        command="python -m doctest till/shelf.py",
        issue="the example of summed() is wrong",
    ),
    Claim(
        "examples that pytest runs",
        "real_failure",
        command="python -m pytest -q --doctest-glob='*.txt' check.txt",
        files={"check.txt": ">>> import till\n>>> sum(till.split(10, 3))\n10\n"},
    ),
    Claim("grep", "real_failure", command="python -m till 10 | grep -q '\\[4, 3, 3\\]'"),
    Claim("not grep", "real_failure", command="! python -m till 10 | grep -qF '[3, 3, 3]'"),
    Claim("test", "real_failure", command="test \"$(python -m till 10)\" = '[4, 3, 3]'"),
    Claim("brackets", "real_failure", command="[ \"$(python -m till 10)\" = '[4, 3, 3]' ] || exit 1"),
    Claim(
        "a variable",
        "real_failure",
        "print(till.split(10, 3))\n",
        "out=$(python shows_it.py)\n[[ \"$out\" == '[4, 3, 3]' ]]",
    ),
    Claim(
        "a shell script",
        "real_failure",
        command="bash check.sh",
        files={
            "check.sh": "#!/bin/bash\nset -e\nout=$(python -m till 10)\nif [ \"$out\" != '[4, 3, 3]' ]; then\n"
            '  echo "wrong: $out"\n  exit 1\nfi\n'
        },
    ),
    Claim(
        "a shell script that only runs",
        "real_failure",
        "till.mean([])\n",
        "bash check.sh",
        files={"check.sh": "set -e\npython shows_it.py\n"},
    ),
    Claim("a wrong value, printed", "reproduced_exit_zero", "print('got:', till.split(10, 3))\n"),
    Claim("the repository's program", "reproduced_exit_zero", command="python -m till 10"),
    Claim(
        "its own endless recursion",
        "own_error",
        "class Case:\n    @property\n    def result(self):\n        value = till.mean([1])\n"
        "        return self.result or value\n\n\nassert Case().result == 1\n",
    ),
    Claim("endless recursion", "real_failure", "till.shelf.deep(1)\n", issue="deep(1) ends in a RecursionError"),
    Claim(
        "endless recursion below another",
        "real_failure",
        "till.shelf.dive(1)\n",
        issue="dive(1) ends in a RecursionError",
    ),
    Claim(
        "code that the repository cannot compile",
        "real_failure",
        "till.shelf.worked_out('3')\n",
        issue="worked_out('3') raises SyntaxError: invalid syntax",
    ),
    Claim("only the last line", "real_failure", "till.mean([])\n", command="python shows_it.py 2>&1 | tail -1"),
    Claim(
        "no output at all", "real_failure", "assert sum(till.split(10, 3)) == 10\n", "python shows_it.py 2>/dev/null"
    ),
    Claim(
        "a test behind tail",
        "real_failure",
        command="python -m pytest -q test_it.py 2>&1 | tail -2",
        files={"test_it.py": f"{IMPORTS}def test_sum():\n    assert sum(till.split(10, 3)) == 10\n"},
    ),
    Claim(
        "a fixture that gives a function",
        "real_failure",
        command="python -m pytest -q checks/test_it.py",
        files={
            "checks/conftest.py": "import pytest\nimport till\n\n@pytest.fixture(scope='session')\ndef ask():\n"
            "    return lambda: sum(till.split(10, 3))\n",
            "checks/test_it.py": "class TestIt:\n    def test_sum(self, ask):\n        assert ask() == 10\n",
        },
    ),
    Claim(
        "its own raise about a result", "real_failure", "got = till.split(10, 3)\nif got:\n    raise ValueError(got)\n"
    ),
    Claim(
        "expects an exception",
        "real_failure",
        "try:\n    till.split(10, 3)\n    raise AssertionError('no error')\nexcept ValueError:\n    pass\n",
    ),
    Claim(
        "a check in a try",
        "real_failure",
        "def check():\n    assert sum(till.split(10, 3)) == 10\n\ntry:\n    check()\nexcept AssertionError:\n"
        "    print('lost')\n    sys.exit(1)\n",
    ),
]


@pytest.mark.parametrize("claim", OWN, ids=lambda claim: claim.name)
async def test_its_own_failure_is_not_blamed_on_the_repository(till: Till, claim: Claim) -> None:
    gated = await _gate(till, claim)
    assert (gated.verdict, gated.reason) == (claim.verdict, gated.reason)
    assert gated.verdict not in KEPT


@pytest.mark.parametrize("claim", but_slow(TRUE, "examples that pytest runs", "a test behind tail"))
async def test_true_claim_in_an_unusual_form_is_kept(till: Till, claim: Claim) -> None:
    gated = await _gate(till, claim)
    assert (gated.verdict, gated.reason) == (claim.verdict, gated.reason)


async def test_an_interruption_of_its_own_is_no_failure_of_the_repository(till: Till) -> None:
    script = (
        "import _thread, threading\nthreading.Timer(0.3, _thread.interrupt_main).start()\n"
        "while True:\n    till.each(range(99), till.label)\n"
    )
    issue = "each() ends with KeyboardInterrupt"
    gated = await _gate(till, Claim("an interruption of its own", "killed", script, issue=issue))
    # The interrupt may hit the witness, which is then taken for switched off.
    assert gated.verdict in ("killed", "tampered")
