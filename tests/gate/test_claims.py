"""Claims as honest, sloppy and hostile scouts make them, replayed in the real sandbox."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from scrout.config.settings import GateSettings
from scrout.gate.gate import gate
from scrout.handoff import FileRef, Handoff, Reproduction
from scrout.records import KEPT, GatedHandoff, Verdict
from scrout.sandbox.task_sandbox import TaskSandbox
from scrout.task import Task

Till = tuple[Task, TaskSandbox]
THEIRS = ("till", "till/money.py")
"""What the claims' files may have in common with the repository."""
IMPORTS = "import sys\nimport till\n"


@dataclass(frozen=True)
class Claim:
    """A reproduction and what the gate has to make of it."""

    name: str
    verdict: Verdict
    script: str = ""
    """Written to shows_it.py, after the imports."""
    command: str = "python shows_it.py"
    files: dict[str, str] = field(default_factory=dict)
    issue: str | None = None
    """None: the repository's own issue."""
    timeout_s: float = 20.0


TRUE = [
    Claim(
        "caught, printed, counted, exit 1",
        "real_failure",
        "import traceback\nbad = 0\ntry:\n    till.mean([])\nexcept Exception:\n    traceback.print_exc()\n"
        "    bad += 1\nif bad:\n    sys.exit(1)\n",
    ),
    Claim(
        "caught, printed, exit 1",
        "real_failure",
        "try:\n    till.mean([])\nexcept ZeroDivisionError as error:\n    print(error)\n    sys.exit(1)\n",
    ),
    Claim("assert on a result", "real_failure", "assert sum(till.split(10, 3)) == 10\n"),
    Claim(
        "assert on a variable",
        "real_failure",
        "parts = till.split(10, 3)\ntotal = sum(parts)\nassert total == 10, total\n",
    ),
    Claim("exception in repository code", "real_failure", "till.mean([])\n"),
    Claim("one-liner", "real_failure", command="python -c 'import till; assert sum(till.split(10, 3)) == 10'"),
    Claim("one-liner that raises", "real_failure", command='python -c "import till; till.mean([])"'),
    Claim(
        "heredoc",
        "real_failure",
        command="python - <<'EOF'\nimport till\nparts = till.split(10, 3)\nassert sum(parts) == 10\nEOF",
    ),
    Claim(
        "script written by the command",
        "real_failure",
        command="cat > /tmp/r.py <<'EOF'\nimport till\n"
        "assert sum(till.split(10, 3)) == 10\nEOF\nPYTHONPATH=. python /tmp/r.py",
    ),
    Claim(
        "exit code of its own",
        "real_failure",
        "parts = till.split(10, 3)\nif sum(parts) != 10:\n    print('lost', 10 - sum(parts))\n    sys.exit(1)\n",
    ),
    Claim("exit code from a flag", "real_failure", "ok = sum(till.split(10, 3)) == 10\nsys.exit(0 if ok else 1)\n"),
    Claim(
        "exit code from main",
        "real_failure",
        "def main():\n    if sum(till.split(10, 3)) == 10:\n        return 0\n"
        "    print('lost')\n    return 1\n\nsys.exit(main())\n",
    ),
    Claim(
        "counted failures",
        "real_failure",
        "failures = []\nfor total in (9, 10):\n    parts = till.split(total, 3)\n"
        "    if sum(parts) != total:\n        failures.append(total)\nassert not failures\n",
    ),
    Claim(
        "exit code of a one-liner",
        "real_failure",
        command='python -c "\nimport sys, till\nif sum(till.split(10, 3)) != 10:\n    sys.exit(1)\n"',
    ),
    Claim(
        "unittest",
        "real_failure",
        command="python -m unittest test_split -v",
        files={
            "test_split.py": "import unittest\nimport till\n\n\nclass SplitTest(unittest.TestCase):\n"
            "    def setUp(self):\n        self.parts = till.split(10, 3)\n\n"
            "    def test_sum(self):\n        self.assertEqual(sum(self.parts), 10)\n"
        },
    ),
    Claim(
        "unittest that expects no exception",
        "real_failure",
        command="python -m unittest tests.test_new",
        files={
            "tests/test_new.py": "import unittest\nimport till\n\n\nclass MeanTest(unittest.TestCase):\n"
            "    def test_message(self):\n        with self.assertRaises(ValueError):\n            till.split(10, 3)\n"
        },
    ),
    Claim(
        "caught, printed, exit 0",
        "reproduced_exit_zero",
        "try:\n    till.mean([])\nexcept ZeroDivisionError as error:\n    print('bug:', error)\n",
    ),
    Claim(
        "caught with a traceback, exit 0",
        "reproduced_exit_zero",
        command="python - <<'EOF'\nimport till, traceback\ntry:\n    till.mean([])\n"
        "except Exception:\n    traceback.print_exc()\nEOF",
    ),
    Claim("hidden by tail", "real_failure", "till.mean([])\n", command="python shows_it.py 2>&1 | tail -3"),
    Claim("hidden by head", "real_failure", "till.mean([])\n", command="python shows_it.py 2>&1 | head -50"),
    Claim("from a container", "real_failure", "till.mean([])\n", command="cd /app && python shows_it.py"),
    Claim(
        "from a container, absolute",
        "real_failure",
        "assert till.split(1, 2) == [1, 0]\n",
        command="python /app/shows_it.py",
    ),
    Claim(
        "from a container, in the script",
        "real_failure",
        command="cd /testbed && python check/shows_it.py",
        files={
            "check/shows_it.py": "import sys\nsys.path.insert(0, '/testbed')\n"
            "import till\nassert till.split(1, 2) == [1, 0]\n"
        },
    ),
    Claim(
        "own PYTHONPATH",
        "real_failure",
        "assert till.split(1, 2) == [1, 0]\n",
        command='PYTHONPATH="$PWD" python shows_it.py',
    ),
    Claim("on standard error", "real_failure", "print('wrong', file=sys.stderr)\nassert till.mean([1, 2]) == 1\n"),
    Claim(
        "exception group",
        "real_failure",
        "errors = []\nfor values in ([], [1]):\n    try:\n        till.mean(values)\n    except Exception as error:\n"
        "        errors.append(error)\nif errors:\n    raise ExceptionGroup('bugs', errors)\n",
    ),
    Claim(
        "chained, the repository's first",
        "real_failure",
        "try:\n    till.mean([])\nexcept ZeroDivisionError as error:\n"
        "    raise RuntimeError('mean is broken') from error\n",
    ),
    Claim(
        "chained inside the repository",
        "real_failure",
        "till.strict('x')\n",
        issue="strict('x') dies with LookupError, and should give None.",
    ),
    Claim("wrong operand, as reported", "real_failure", "print(till.Budget(1) + till.Budget(2))\n"),
    Claim(
        "expected exception that does not come",
        "real_failure",
        "try:\n    till.split(10, 3)\nexcept ValueError:\n    sys.exit(0)\nprint('no error')\nsys.exit(1)\n",
    ),
]

QUIET = "parts = till.split(9, 3)\nif parts == [0]:\n    sys.exit(2)\n"
"""Calls the repository, is content, and exits with 0."""

FALSE = [
    Claim("the shell exits, in a branch", "nonzero_other", QUIET, "if python shows_it.py; then exit 1; fi"),
    Claim("the shell exits, in a group", "nonzero_other", QUIET, "python shows_it.py && { exit 1; }"),
    Claim("a path to false", "nonzero_other", QUIET, "python shows_it.py; /bin/false"),
    Claim("a quote that hides the exit", "nonzero_other", QUIET, "python shows_it.py; exit 1 # don't"),
    Claim("another program's failure", "nonzero_other", QUIET, "python shows_it.py; ls /nonexist > /dev/null 2>&1"),
    Claim(
        "a script elsewhere, then false",
        "nonzero_other",
        command=f"cat > /tmp/r.py <<'END'\n{IMPORTS}{QUIET}END\nPYTHONPATH=. python /tmp/r.py; /bin/false",
    ),
    Claim(
        "a file in place of Python's own",
        "tampered",
        "till.mean([])\n",
        files={"queue.py": "X = 1\n"},
    ),
    Claim(
        "prints a traceback that never happened, then exits",
        "nonzero_other",
        "till.mean([1])\nprint(open('log.txt').read())\nsys.exit(1)\n",
    ),
    Claim(
        "prints a traceback that it caught, then another program fails",
        "nonzero_other",
        "import traceback\ntry:\n    till.mean([])\nexcept Exception:\n    traceback.print_exc()\n",
        command="python shows_it.py; bash -c 'exit 1'",
    ),
    Claim(
        "prints a traceback that it caught, then exits anyway",
        "unrelated_failure",
        "import traceback\ntry:\n    till.mean([])\nexcept Exception:\n    traceback.print_exc()\nsys.exit(1)\n",
    ),
    Claim("passes", "passed", "assert till.mean([1, 3]) == 2\n"),
    Claim("says Error, exits 0", "passed", "till.split(1, 2)\nprint('Error: ZeroDivisionError: division by zero')\n"),
    Claim("prints a log of the repository", "passed", command="cat log.txt"),
    Claim(
        "caught exception that no issue names",
        "passed",
        "try:\n    till.strict('x')\nexcept LookupError as error:\n    print('LookupError', error)\n",
    ),
    Claim(
        "exception that the repository handles itself",
        "passed",
        "print(till.label('pear'), 'KeyError: pear')\n",
        issue="label() raises KeyError: 'pear'",
    ),
    Claim(
        "exception that the repository handles itself, one-liner",
        "passed",
        command="python -c \"import till; till.label('pear'); print('KeyError pear')\"",
        issue="label() raises KeyError: 'pear'",
    ),
    Claim(
        "another failure each time",
        "flaky",
        "import os\nname = f'Bug{os.urandom(8).hex()}Error'\ntry:\n    till.mean([])\n"
        "except ZeroDivisionError as error:\n    raise type(name, (Exception,), {})('broken') from error\n",
    ),
    Claim("fails only when watched", "flaky", "values = [] if sys.gettrace() else [1]\ntill.mean(values)\n"),
    Claim("timeout", "timeout", "import time\ntill.split(1, 2)\ntime.sleep(60)\n", timeout_s=1.0),
    Claim("missing script", "missing_file", command="python nowhere.py"),
    Claim("missing folder", "missing_file", command="cd nowhere && python shows_it.py"),
    Claim("wrong name", "import_error", "from till import nope\n"),
    Claim("wrong module", "import_error", "import till.nope\n"),
    Claim("not installed", "environment_missing", "import surely_not_installed\n"),
    Claim(
        "not installed, in a test",
        "environment_missing",
        command="python -m unittest test_x",
        files={"test_x.py": "import surely_not_installed\n"},
    ),
    Claim("syntax error", "syntax_error", "till.split(1\n"),
    Claim("syntax error of a one-liner", "syntax_error", command="python -c 'import till; assert ='"),
    Claim("usage of the repository's program", "usage_error", command="python -m till --nope"),
    Claim("usage of python", "usage_error", command="python --nope"),
    Claim(
        "no tests, unittest",
        "no_tests",
        command="python -m unittest test_x",
        files={"test_x.py": "import till\ntill.split(1, 2)\n"},
    ),
    Claim("assert False", "unrelated_failure", command="python -c 'assert False'"),
    Claim("assert False in a file", "unrelated_failure", command="python x.py", files={"x.py": "assert False\n"}),
    Claim("import, then assert False", "unrelated_failure", "assert False\n"),
    Claim("import, then raise", "unrelated_failure", "raise ValueError('the bug')\n"),
    Claim("a constant of the repository", "unrelated_failure", "assert till.RATE == 4\n"),
    Claim("isolated python", "unrelated_failure", command="python -I -c 'assert False'"),
    Claim("harmless call, then assert False", "unrelated_failure", "till.mean([1])\nassert False\n"),
    Claim(
        "harmless call, then its own sum",
        "unrelated_failure",
        "till.mean([1])\ntotal = sum([3, 3, 3])\nassert total == 10, 'split loses money'\n",
    ),
    Claim(
        "harmless call, then its own raise",
        "unrelated_failure",
        "x = till.mean([1])\nraise AssertionError(f'wrong: {x}')\n",
    ),
    Claim(
        "harmless call, then its own raise of the reported type",
        "unrelated_failure",
        "till.mean([1])\nraise ZeroDivisionError('division by zero')\n",
    ),
    Claim("harmless call, then exit", "unrelated_failure", "till.mean([1])\nprint('FAILED')\nsys.exit(1)\n"),
    Claim(
        "harmless call, then exit in a one-liner",
        "unrelated_failure",
        command="python -c 'import till, sys; till.mean([1]); sys.exit(1)'",
    ),
    Claim(
        "harmless call, then self.fail",
        "unrelated_failure",
        command="python -m unittest test_x",
        files={
            "test_x.py": "import unittest, till\nclass T(unittest.TestCase):\n    def test_x(self):\n"
            "        value = till.mean([1])\n        self.fail(f'wrong: {value}')\n"
        },
    ),
    Claim(
        "harmless call, then assertTrue(False)",
        "unrelated_failure",
        command="python -m unittest test_x",
        files={
            "test_x.py": "import unittest, till\nclass T(unittest.TestCase):\n    def test_x(self):\n"
            "        value = till.mean([1])\n        self.assertTrue(False, value)\n"
        },
    ),
    Claim("exit 1", "nonzero_other", command="exit 1"),
    Claim("false", "nonzero_other", command="false"),
    Claim("passes, then false", "nonzero_other", "till.mean([1])\n", command="python shows_it.py; false"),
    Claim("passes, then exit", "nonzero_other", "assert till.mean([1]) == 1\n", command="python shows_it.py && exit 3"),
    Claim(
        "prints a traceback that it caught, then false",
        "nonzero_other",
        "import traceback\ntry:\n    till.mean([])\nexcept Exception:\n    traceback.print_exc()\n",
        command="python shows_it.py; false",
    ),
    Claim("prints a log, then false", "nonzero_other", command="cat log.txt; false"),
    Claim("grep finds nothing", "nonzero_other", command="grep -rn nothing_like_this till"),
    Claim(
        "grep behind a passing script",
        "nonzero_other",
        "print(till.mean([1]))\n",
        command="python shows_it.py | grep nothing",
    ),
    Claim("program that refuses rightly", "nonzero_other", command="python -m till -- -5"),
    Claim("own NameError", "own_error", "till.mean([1])\nprint(undefined_name)\n"),
    Claim("own wrong arguments", "own_error", "till.split(1)\n"),
    Claim("own wrong arguments, issue names the type", "own_error", "till.mean([1])\ntill.split()\n"),
    Claim("own AttributeError", "own_error", "till.mean([1])\ntill.no_such_function(1)\n"),
    Claim("own error inside a callback", "own_error", "till.each([1], lambda value: undefined_name)\n"),
    Claim(
        "own error while handling",
        "own_error",
        "try:\n    till.mean([])\nexcept ZeroDivisionError as error:\n    print(error.nope)\n",
    ),
    Claim(
        "own error in one test of two",
        "own_error",
        command="python -m unittest test_x",
        files={
            "test_x.py": "import unittest, till\nclass T(unittest.TestCase):\n"
            "    def test_a(self):\n        till.mean([1])\n        undefined_name\n"
            "    def test_b(self):\n        self.assertEqual(sum(till.split(10, 3)), 10)\n"
        },
    ),
    Claim("bad quoting", "syntax_error", command="python -c 'import till"),
    Claim("kills itself", "killed", command="python -c 'import os, till; till.mean([1]); os.kill(os.getpid(), 9)'"),
    Claim("segfault", "killed", command="python -c 'import ctypes, till; till.mean([1]); ctypes.string_at(0)'"),
    Claim("aborts", "killed", "till.mean([1])\nimport os\nos.abort()\n"),
    Claim(
        "cut off by a pipe",
        "nonzero_other",
        "while True:\n    print('x' * 1000, till.mean([1]))\n",
        command="python shows_it.py 2>/dev/null | head -1",
    ),
    Claim("exit 141", "nonzero_other", command="exit 141"),
    Claim(
        "edits the source",
        "tampered",
        "till.mean([1])\n",
        command="sed -i 's/sum(values)/None/' till/money.py && python shows_it.py",
    ),
    Claim(
        "edits the source and restores it",
        "tampered",
        "till.mean([1])\n",
        command="sed -i 's/sum(values)/None/' till/money.py; python shows_it.py; r=$?; git checkout -q till; exit $r",
    ),
    Claim(
        "deletes a file", "tampered", "till.money.rates()\n", command="rm data/rates/today.txt && python shows_it.py"
    ),
    Claim("deletes a folder", "tampered", "till.money.rates()\n", command="rm -r data && python shows_it.py"),
    Claim(
        "replaces a folder",
        "tampered",
        "till.money.rates()\n",
        command="rm -r data/rates && mkdir data/rates && touch data/rates/new.txt && python shows_it.py",
    ),
    Claim(
        "replaces a link by a folder",
        "tampered",
        "till.mean([])\n",
        command="rm link && mkdir link && touch link/x && python shows_it.py",
    ),
    Claim(
        "locks a folder",
        "tampered",
        "till.money.rates()\n",
        command="rm -r data/rates; chmod 0 data; python shows_it.py",
    ),
    Claim("replaces a link", "tampered", "till.mean([])\n", command="rm link && ln -s /etc link && python shows_it.py"),
    Claim(
        "renames the package",
        "tampered",
        "till.mean([])\n",
        command="mv till other && ln -s other till && python shows_it.py",
    ),
    Claim("goes back in history", "tampered", "till.mean([])\n", command="git rm -rq data && python shows_it.py"),
    Claim(
        "overwrites the source",
        "tampered",
        "till.mean([])\n",
        files={"till/money.py": "def mean(values):\n    return 1 / 0\n"},
    ),
    Claim("replaces the package by a module of its own", "tampered", "till.mean([])\n", files={"till": "x\n"}),
    Claim("command not found", "command_not_found", command="surely-no-such-command --now"),
    Claim("no pytest-like module", "environment_missing", command="python -m surely_not_installed"),
    Claim(
        "huge output, then its own failure",
        "unrelated_failure",
        "for _ in range(20000):\n    print('x' * 200)\ntill.mean([1])\nassert False\n",
    ),
    Claim("goes elsewhere", "missing_file", "till.mean([])\n", command="cd /tmp && python shows_it.py"),
    Claim(
        "leaves a process behind",
        "passed",
        command="(sleep 30 &) ; python -c 'import till; till.mean([1])'",
        timeout_s=5.0,
    ),
    Claim(
        "monkeypatches a function",
        "tampered",
        "till.money.mean = lambda values: 1 / 0\nassert till.money.mean([1]) == 1\n",
    ),
    Claim(
        "monkeypatches with mock",
        "tampered",
        "from unittest import mock\nwith mock.patch('till.money.split', return_value=[3]):\n"
        "    assert sum(till.money.split(10, 3)) == 10\n",
    ),
    Claim(
        "monkeypatches a constant",
        "tampered",
        "till.money.LABELS['a'] = 'wrong'\ntill.money.LABELS = {}\nassert till.label('a') == 'apple'\n",
    ),
    Claim(
        "no network",
        "environment_missing",
        "import urllib.request\ntill.each(['http://example.org'], urllib.request.urlopen)\n",
    ),
    Claim(
        "counts in a file that a clean run does not have",
        "passed",
        "import pathlib\ncount = pathlib.Path('/tmp/count')\nseen = int(count.read_text()) if count.exists() else 0\n"
        "count.write_text(str(seen + 1))\nassert seen == 0 or till.mean([1]) == 2\n",
    ),
]


PYTEST = [
    Claim("real", "real_failure", "def test_sum():\n    assert sum(till.split(10, 3)) == 10\n", command="test_it.py"),
    Claim("exception", "real_failure", "def test_mean():\n    assert till.mean([]) == 0\n", command="test_it.py"),
    Claim(
        "exception that does not come",
        "real_failure",
        "import pytest\ndef test_split():\n    with pytest.raises(ValueError):\n        till.split(10, 3)\n",
        command="test_it.py",
    ),
    Claim(
        "hidden by tail",
        "real_failure",
        "def test_sum():\n    assert sum(till.split(10, 3)) == 10\n",
        command="test_it.py 2>&1 | tail -20",
    ),
    Claim("passes", "passed", "def test_mean():\n    assert till.mean([1]) == 1\n", command="test_it.py"),
    Claim(
        "assert False",
        "unrelated_failure",
        "def test_mean():\n    assert till.mean([1]) == 1\n    assert False\n",
        command="test_it.py",
    ),
    Claim("own error", "own_error", "def test_mean():\n    till.mean([1])\n    undefined_name\n", command="test_it.py"),
    Claim(
        "own error beside a real failure",
        "own_error",
        "def test_a():\n    assert till.mean([1]) == 2\ndef test_b():\n    till.mean([1])\n    undefined_name\n",
        command="test_it.py",
    ),
    Claim("missing fixture", "own_error", "def test_mean(no_such_fixture):\n    till.mean([])\n", command="test_it.py"),
    Claim("not installed", "environment_missing", "import surely_not_installed\n", command="test_it.py"),
    Claim("syntax error", "syntax_error", "def test_mean(:\n", command="test_it.py"),
    Claim("no tests", "no_tests", "def helper():\n    till.mean([])\n", command="test_it.py"),
    Claim("missing file", "missing_file", command="nowhere.py"),
    Claim("usage", "usage_error", command="--no-such-option"),
]
PYTEST_BY_DEFAULT = ("real", "own error beside a real failure", "no tests", "usage")


def _handoff(claim: Claim) -> Handoff:
    files = dict(claim.files)
    if claim.script:
        files["shows_it.py"] = IMPORTS + claim.script
    own = [FileRef(path=name, why="new file") for name in files if name not in THEIRS]
    mentions = [f"{name} was run" for name in files]
    return Handoff(
        files=(FileRef(path="till/money.py", regions=((12, 13),)), *own),
        reproduction=Reproduction(files=files, command=claim.command, claim=True, observed="OBSERVED-BY-SCOUT"),
        dead_ends=(*mentions, "the tests are not involved"),
        notes=f"split() divides whole numbers. {' '.join(mentions)}. The command fails, which reproduces the bug.",
    )


async def _gate(till: Till, claim: Claim) -> GatedHandoff:
    task, task_sandbox = till
    if claim.issue is not None:
        task = task.model_copy(update={"text": claim.issue})
    return await gate(task, _handoff(claim), task_sandbox, GateSettings(timeout_s=claim.timeout_s))


@pytest.mark.parametrize("claim", TRUE, ids=lambda claim: claim.name)
async def test_true_claim_is_kept_with_what_was_seen(till: Till, claim: Claim) -> None:
    gated = await _gate(till, claim)
    assert (gated.verdict, gated.reason) == (claim.verdict, gated.reason)
    assert gated.kept and gated.materialized
    assert gated.evidence.runs == 2
    reproduction = gated.handoff.reproduction
    assert reproduction is not None and reproduction.command
    assert reproduction.observed == gated.evidence.output_tail
    assert "OBSERVED-BY-SCOUT" not in gated.text
    assert "reproduced: true" in gated.text


@pytest.mark.parametrize("claim", FALSE, ids=lambda claim: claim.name)
async def test_false_claim_is_gone_without_a_trace(till: Till, claim: Claim) -> None:
    gated = await _gate(till, claim)
    assert (gated.verdict, gated.reason) == (claim.verdict, gated.reason)
    assert not gated.kept and not gated.materialized and gated.reason
    assert gated.verdict not in KEPT
    assert gated.handoff.reproduction is None
    own = [name for name in claim.files if name not in THEIRS]
    record = gated.handoff.model_dump_json()
    for trace in ("shows_it", "reproduces", "OBSERVED-BY-SCOUT", *own):
        assert trace not in gated.text
        assert trace not in record
    assert "till/money.py:12-13" in gated.text
    assert "split() divides whole numbers." in gated.text
    assert "the tests are not involved" in gated.text


@pytest.mark.parametrize(
    "claim",
    [
        pytest.param(claim, id=claim.name, marks=() if claim.name in PYTEST_BY_DEFAULT else pytest.mark.slow)
        for claim in PYTEST
    ],
)
async def test_claim_made_with_pytest(till: Till, claim: Claim) -> None:
    plain = "python -m pytest -q"
    files = {"test_it.py": IMPORTS + claim.script} if claim.script else {}
    gated = await _gate(till, replace(claim, script="", files=files, command=f"{plain} {claim.command}"))
    assert (gated.verdict, gated.reason) == (claim.verdict, gated.reason)
    assert gated.kept == (claim.verdict in KEPT)


@pytest.mark.parametrize(
    ("reproduction", "verdict"),
    [
        (None, "no_repro"),
        (Reproduction(command="python x.py", claim=False), "claim_not_true"),
        (Reproduction(command=None, claim=True), "no_command"),
        (Reproduction(command="null", claim=True), "no_command"),
        (Reproduction(command="python x.py " + "<<a " * 50_000, claim=True), "usage_error"),
    ],
)
async def test_nothing_to_replay(till: Till, reproduction: Reproduction | None, verdict: Verdict) -> None:
    task, task_sandbox = till
    handoff = Handoff(reproduction=reproduction, notes="split() divides. I reproduced it with x.py.")
    gated = await gate(task, handoff, task_sandbox, GateSettings())
    assert (gated.verdict, gated.kept, gated.evidence.runs) == (verdict, False, 0)
    assert gated.handoff.reproduction is None
    assert gated.handoff.notes == "split() divides."


async def test_container_claim_can_be_run_by_those_who_know_no_container(till: Till) -> None:
    task, _ = till
    gated = await _gate(till, next(claim for claim in TRUE if claim.name == "from a container"))
    assert gated.handoff.reproduction is not None
    assert gated.handoff.reproduction.command == f"cd {task.repo} && python shows_it.py"
    assert gated.evidence.command == gated.handoff.reproduction.command


async def test_hostile_paths_of_a_claim_are_never_written(till: Till) -> None:
    task, task_sandbox = till
    paths = ("../escaped.py", "/etc/escaped.py", ".git/hooks/escaped", "till/../../escaped.py", "link/escaped.py")
    for path in paths:
        claim = Reproduction(files={path: "import till\ntill.mean([])\n"}, command="false", claim=True)
        gated = await gate(task, Handoff(reproduction=claim), task_sandbox, GateSettings())
        assert not gated.kept
        assert "escaped" not in gated.text
    assert not list(task_sandbox.base.tree.parent.rglob("*escaped*"))
    assert not list(task.repo.parent.rglob("*escaped*"))
