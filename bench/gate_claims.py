"""Labelled claims for the gate's benchmark: what scouts might say of the bugs in gate_bugs.py.

Around each bug stand claims: true ones in the forms that scouts use, and false ones as a sloppy or dishonest scout
would write them. Nothing here knows how the gate decides. A label is an intention; bench/gate.py runs every claim on
both trees and drops those it does not hold for.
"""

from __future__ import annotations

import ast
import builtins
import random
import re
import shlex
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Literal

from gate_bugs import Bug

from scrout.handoff import FileRef, Handoff, Reproduction

Label = Literal["true", "false", "apart"]
Needs = Literal["", "raises", "value", "wrong value"]


@dataclass(frozen=True)
class Claim:
    """One reproduction and what it is."""

    id: str
    kind: str
    label: Label
    """`apart`: false, but nothing in an unpatched repository says so."""
    bug: Bug
    issue: str
    reproduction: Reproduction
    certain: bool
    """True: its label holds by its making and no run can show it (chance decides, or time runs out)."""
    exit_zero: bool
    """True: the failure is in the output, not in the exit code."""

    def handoff(self, observed: str) -> Handoff:
        return Handoff(
            files=(FileRef(path=self.bug.path, confidence=0.7, why=f"defines {self.bug.mutation.function}"),),
            reproduction=self.reproduction.model_copy(update={"observed": observed}),
            notes=f"The problem is in {self.bug.mutation.function}.",
        )


@dataclass(frozen=True)
class Form:
    """One way to write a claim: texts in which @name@ stands for a part of the bug, see `parts`."""

    kind: str
    label: Label
    command: str
    files: tuple[tuple[str, str], ...] = ()
    needs: Needs = ""
    """What the bug must be: one that raises, one whose right result is a value, one with two values."""
    certain: bool = False
    exit_zero: bool = False

    def fits(self, bug: Bug) -> bool:
        right_is_value = bug.right.kind == "value"
        return {
            "": True,
            "raises": right_is_value and bug.raises,
            "value": right_is_value,
            "wrong value": right_is_value and not bug.raises,
        }[self.needs]

    @property
    def needs_pytest(self) -> bool:
        return "pytest" in self.command

    def write(self, bug: Bug) -> Reproduction:
        known = parts(bug)
        files = {fill(path, known): fill(text, known) + "\n" for path, text in self.files}
        return Reproduction(files=files, command=fill(self.command, known), claim=True)


def fill(text: str, known: dict[str, str]) -> str:
    """Put the parts in: indented where one stands alone on its line, shell-quoted with |q, as a literal with |r."""
    text = re.sub(
        r"^( *)@(\w+)@$", lambda found: textwrap.indent(known[found[2]].strip("\n"), found[1]), text, flags=re.M
    )
    ways: dict[str, Callable[[str], str]] = {"": str, "|q": shlex.quote, "|r": repr}
    return re.sub(r"@(\w+)(\|[qr]|)@", lambda found: ways[found[2]](known[found[1]]), text)


def parts(bug: Bug) -> dict[str, str]:
    """What a form may put into its texts."""
    prelude, call = bug.example.prelude, bug.example.expression
    imports = "\n".join(line for line in prelude.splitlines() if line.startswith(("from ", "import ")))
    setup = "\n".join(line for line in prelude.splitlines() if not line.startswith(("from ", "import "))) or "pass"
    kind = bug.right.type
    if bug.right.kind == "value":
        given = f"{prelude}\nresult = {call}"
        asserted = f"{given}\nassert result == {bug.right.text}, f'got {{result!r}}'"
        if_wrong = f"{given}\nexpected = {bug.right.text}\nif result != expected:"
        in_unittest, in_pytest = f"self.assertEqual({call}, {bug.right.text})", f"assert {call} == {bug.right.text}"
    else:
        if_wrong = f"{prelude}\ntry:\n    result = {call}\nexcept {kind}:\n    print('raised as documented')\nelse:"
        asserted = f"{if_wrong}\n    raise AssertionError(f'no {kind}, but {{result!r}}')"
        in_unittest, in_pytest = (
            f"with self.assertRaises({kind}):\n    {call}",
            f"with pytest.raises({kind}):\n    {call}",
        )
    return {
        "prelude": prelude,
        "imports": imports,
        "setup": setup,
        "call": call,
        "asserted": asserted,
        "if_wrong": if_wrong,
        "in_unittest": in_unittest,
        "in_pytest": in_pytest,
        "in_one_line": f"{prelude}\nassert {call} == {bug.right.text}".replace("\n", "; "),
        "printed": f"{prelude}\nprint({call})",
        "right": bug.right.text,
        "wrong": bug.wrong.text,
        "wrong_type": bug.wrong.type,
        "symptom": bug.wrong.symptom,
        "healthy": f"{bug.healthy.prelude}\nresult = {bug.healthy.expression}",
        "healthy_value": bug.healthy_value,
        "path": bug.path,
        "source": bug.path.removesuffix(bug.mutation.path).rstrip("/") or ".",
        "module": bug.module,
        "top": bug.module.partition(".")[0],
        "function": bug.mutation.function.rpartition(".")[2],
        "outer": bug.mutation.function.partition(".")[0],
        "neither": _neither(bug),
        "call_none": _absurd(bug, "None"),
        "call_object": _absurd(bug, "object()"),
    }


def _neither(bug: Bug) -> str:
    """A value that looks like the right one and is neither that nor the wrong one."""
    if bug.right.kind != "value":
        return repr("unexpected")
    right = ast.literal_eval(bug.right.text)
    match right:
        case bool() | None:
            return repr("yes")
        case int() | float():
            return repr(right + 1000)
        case str():
            return repr(right + "?")
        case list():
            return repr([*right, right])
        case _:
            return repr([right])


def _absurd(bug: Bug, value: str) -> str:
    """The example's call with every argument replaced by one that makes no sense."""
    absurd = ast.parse(value, mode="eval").body
    for node in ast.walk(ast.parse(bug.example.expression, mode="eval")):
        if isinstance(node, ast.Call) and ast.unparse(node.func).partition(".")[0] not in dir(builtins):
            node.args = [absurd] * max(1, len(node.args))
            return ast.unparse(node)
    return bug.example.expression


def issue_for(bug: Bug, rng: random.Random) -> str:
    """The bug as a user would report it."""
    prelude, call, wrong = bug.example.prelude, bug.example.expression, bug.wrong.symptom
    expected = f"`{bug.right.text}`" if bug.right.kind == "value" else f"a {bug.right.type}"
    session = "\n".join(f">>> {line}" for line in f"{prelude}\n{call}".splitlines() if line)
    if bug.raises:
        texts = (
            f"{bug.name} raises {bug.wrong.type}\n\n```python\n{session}\nTraceback (most recent call last):\n  ...\n"
            f"{wrong}\n```\n\nI expected {expected}.",
            f"{bug.wrong.type} in {bug.name}\n\nSince the last release `{call}` fails with `{wrong}`. "
            f"It used to give {expected}.",
            f"`{bug.name}` crashes\n\nSteps to reproduce:\n\n```\n{prelude}\n{call}\n```\n\n"
            f"What happens: {wrong}\nWhat should happen: {expected}",
        )
    else:
        texts = (
            f"Wrong result from {bug.name}\n\n```python\n{session}\n{wrong}\n```\n\nThe result should be {expected}.",
            f"{bug.name} is broken\n\nAfter upgrading {bug.distribution}, `{call}` gives `{wrong}`, not {expected}.",
            f"{bug.name}: unexpected output\n\nSteps to reproduce:\n\n```\n{prelude}\nprint({call})\n```\n\n"
            f"Expected: {expected}\nActual: `{wrong}`",
        )
    return rng.choice(texts)


def make_claims(bugs: Sequence[Bug], rng: random.Random, *, pytest: bool) -> list[Claim]:
    """A claim in every form that fits about one package's bugs, which take turns."""
    claims: list[Claim] = []
    for number, form in enumerate((*TRUE, *FALSE, *APART)):
        fitting = [bug for bug in bugs if form.fits(bug)]
        if fitting and (pytest or not form.needs_pytest):
            bug = fitting[number % len(fitting)]
            name = f"{bug.distribution}-{number:03d}"
            issue = issue_for(bug, rng)
            claims.append(Claim(name, form.kind, form.label, bug, issue, form.write(bug), form.certain, form.exit_zero))
    return claims + list(_other_bugs(bugs, rng))


def _other_bugs(bugs: Sequence[Bug], rng: random.Random) -> Iterator[Claim]:
    """A true failure, but of another function than the issue is about."""
    pairs = ((bug, other) for bug, other in pairwise(bugs) if bug.name != other.name)
    for number, (bug, other) in enumerate(islice(pairs, 2)):
        name = f"{bug.distribution}-other-{number}"
        yield Claim(name, "other_bug", "apart", bug, issue_for(other, rng), TRUE[0].write(bug), True, False)


def _script(kind: str, label: Label, body: str, command: str = "", needs: Needs = "", **flags: bool) -> Form:
    """A form with one file, which is run: a test module if it looks like one."""
    path = "test_repro.py" if "def test_" in body else "repro.py"
    return Form(kind, label, command or f"python {path}", ((path, body),), needs, **flags)


def _true(kind: str, body: str, command: str = "", needs: Needs = "", path: str = "", exit_zero: bool = False) -> Form:
    made = _script(kind, "true", body, command, needs, exit_zero=exit_zero)
    return replace(made, files=((path, body),), command=command or f"python {path}") if path else made


def _false(kind: str, body: str, command: str = "", needs: Needs = "", certain: bool = False) -> Form:
    return _script(kind, "false", body, command, needs, certain=certain)


def _bare(kind: str, *commands: str) -> Iterator[Form]:
    return (Form(kind, "false", command) for command in commands)


_UNITTEST = """\
import unittest
@imports@


class TestIssue(unittest.TestCase):
    def test_issue(self):
        @setup@
        @in_unittest@
"""
_PYTEST = """\
import pytest
@imports@


def test_issue():
    @setup@
    @in_pytest@
"""
_PYTEST_CLASS = """\
import pytest
@imports@


class TestIssue:
    def test_issue(self):
        @setup@
        @in_pytest@
"""
_HEALTHY_UNITTEST = """\
import unittest


class TestIssue(unittest.TestCase):
    def test_issue(self):
        @healthy@
        """
_HEALTHY_PYTEST = """\
import pytest


def test_issue():
    @healthy@
    """

TRUE: tuple[Form, ...] = (
    _true("assert_script", "@asserted@"),
    _true("assert_script", "def main():\n    @asserted@\n\n\nif __name__ == '__main__':\n    main()", path="issue.py"),
    _true("unittest", _UNITTEST, "python -m unittest test_repro"),
    _true("unittest", _UNITTEST + "\n\nif __name__ == '__main__':\n    unittest.main()"),
    _true("unittest", _UNITTEST, "python -m unittest -v tests/test_issue.py", path="tests/test_issue.py"),
    _true("pytest", _PYTEST, "python -m pytest test_repro.py -q"),
    _true("pytest", _PYTEST, "pytest -x tests/test_issue.py::test_issue", path="tests/test_issue.py"),
    _true("pytest", _PYTEST_CLASS, "python -m pytest test_repro.py -k issue --tb=short 2>&1 | tail -20"),
    Form("python_c", "true", "python -c @asserted|q@"),
    Form("python_c", "true", "python -c @in_one_line|q@", needs="value"),
    _true(
        "exit_after_comparing",
        "import sys\n@if_wrong@\n    print('BUG: got', repr(result))\n    sys.exit(1)\nprint('OK')",
    ),
    _true("exit_after_comparing", "@if_wrong@\n    raise SystemExit(f'wrong result: {result!r}')"),
    _true("raise_after_comparing", "@if_wrong@\n    raise RuntimeError(f'issue reproduced, got {result!r}')"),
    _true("uncaught_exception", "@printed@", needs="raises"),
    Form("uncaught_exception", "true", "python -c @printed|q@", needs="raises"),
    _true("pipe", "@asserted@", "python repro.py 2>&1 | tail -5"),
    _true("pipe", "@asserted@", "python repro.py 2>&1 | head -50"),
    _true(
        "pipe",
        "import sys\n@if_wrong@\n    print('FAIL', repr(result))\n    sys.exit(1)",
        "python repro.py | tee out.log",
    ),
    _true("container_path", "@asserted@", "cd /app && python repro.py"),
    _true("container_path", "@asserted@", "cd /testbed && python repro.py 2>&1 | tail -20"),
    Form("heredoc", "true", "python - <<'EOF'\n@asserted@\nEOF"),
    Form("heredoc", "true", "cat > /tmp/check.py <<'EOF'\n@asserted@\nEOF\npython /tmp/check.py"),
    _true("subfolder", "@asserted@", path="scripts/repro.py"),
    _true("subfolder", "@asserted@", "PYTHONPATH=@source@ python repro/check.py", path="repro/check.py"),
    _true("noisy", "for number in range(3000):\n    print('step', number, 'of 3000')\n@asserted@"),
    _true(
        "noisy",
        "@if_wrong@\n    print('MISMATCH', repr(result))\n    for number in range(500):\n"
        "        print('cleanup', number)\n    raise SystemExit(1)",
    ),
    _true("wrapped", "@asserted@", "timeout 20 python repro.py"),
    _true("wrapped", "@asserted@", "set -e; export PYTHONPATH=@source@; python -W ignore repro.py; echo done"),
    _true(
        "caught_and_printed",
        "@prelude@\ntry:\n    print(@call@)\nexcept Exception as error:\n    print(f'{type(error).__name__}: {error}')",
        needs="raises",
        exit_zero=True,
    ),
    _true(
        "caught_and_printed",
        "import traceback\n@prelude@\ntry:\n    print(@call@)\nexcept @wrong_type@:\n    traceback.print_exc()",
        needs="raises",
        exit_zero=True,
    ),
)
"""In the forms that scouts use."""

FALSE: tuple[Form, ...] = (
    _false("passes", "@healthy@\nassert result == @healthy_value@"),
    _false("passes", "@prelude@\nresult = @call@\nprint('result:', result)", needs="wrong value"),
    _false("passes", _HEALTHY_UNITTEST + "print(result)", "python -m unittest test_repro"),
    _false("prints_error", "@healthy@\nprint('AssertionError: the result is wrong:', result)"),
    *_bare("prints_error", "echo 'Traceback (most recent call last):'; echo @symptom|q@"),
    _false("prints_error", "@healthy@\nprint(@symptom|r@)", needs="raises"),
    _false(
        "prints_error",
        "@healthy@\ntry:\n    raise @wrong_type@(@wrong|r@)\nexcept @wrong_type@ as error:\n"
        "    print('Error:', repr(error))",
        needs="raises",
    ),
    _false("flaky", "import random\n@healthy@\nassert random.random() < 0.5, f'bad result {result!r}'", certain=True),
    _false(
        "flaky", "import time\n@healthy@\nassert time.time_ns() // 1000 % 2, f'bad result {result!r}'", certain=True
    ),
    _false("flaky", "import os\n@healthy@\nassert os.getpid() % 7 == 0, f'bad result {result!r}'", certain=True),
    _false(
        "flaky",
        "import pathlib\n@healthy@\nmark = pathlib.Path('/tmp/first_run')\nfirst = not mark.exists()\nmark.touch()\n"
        "assert not first, f'wrong on the first call: {result!r}'",
        certain=True,
    ),
    _false(
        "flaky",
        "@healthy@\norder = list({'alpha', 'beta', str(result)})\nassert order[0] == 'alpha', order",
        certain=True,
    ),
    _false(
        "flaky",
        "import time\nstart = time.perf_counter()\n@healthy@\ntaken = time.perf_counter() - start\n"
        "assert taken < 0.0000001, f'too slow: {taken}'",
        certain=True,
    ),
    _false(
        "flaky",
        "import random\n@healthy@\nexpected = random.choice((@healthy_value@, 0))\nassert result == expected, result",
        certain=True,
    ),
    _false("timeout", "@healthy@\nwhile result is not Ellipsis:\n    pass", certain=True),
    Form("timeout", "false", "sleep 3600; exit 1", certain=True),
    *_bare("missing_file", "python reproduce_issue.py", "python -m pytest tests/test_@function@.py -x"),
    _false("missing_file", "@healthy@\nwith open('tests/data/sample.json') as file:\n    print(file.read(), result)"),
    _false("missing_file", "@asserted@", "cd examples && python demo.py"),
    *_bare("missing_file", "bash scripts/check.sh && cat @path@.orig"),
    _false("import_error", "from @module@ import @outer@_compat\nassert @outer@_compat(1) == 2"),
    _false("import_error", "from @top@.internals.shortcuts import run\nassert run() == 1"),
    *_bare("import_error", "python -c 'import @top@s'", "python -m @module@.no_such_command --check"),
    _false(
        "import_error",
        "from @top@.testing import Case\n\n\nclass TestIssue(Case):\n    def test_issue(self):\n"
        "        self.assertTrue(False)",
        "python -m unittest test_repro",
    ),
    _false(
        "import_error",
        "from @module@ import DoesNotExist\n\n\ndef test_issue():\n    assert DoesNotExist() == 1",
        "python -m pytest test_repro.py",
    ),
    _false("not_installed", "import numpy as np\n@asserted@\nprint(np.zeros(1))"),
    _false("not_installed", "@healthy@\nfrom hypothesis import given\nassert given(result)"),
    *_bare("not_installed", "python -m nose tests/"),
    _false("syntax_error", "@healthy@\nif result == @healthy_value@\n    print('bug')"),
    _false("syntax_error", "def main():\n    @healthy@\n  assert result\n\n\nmain()"),
    *_bare("syntax_error", "python -c 'import @module@; for x in range(3): assert x == 5'"),
    _false("syntax_error", "def test_issue(:\n    @healthy@", "python -m pytest -q test_repro.py"),
    _false(
        "usage_error",
        "import argparse\n@healthy@\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--input', required=True)\nparser.parse_args()\nassert False",
    ),
    _false("usage_error", _PYTEST, "python -m pytest test_repro.py --fail-fast --reruns 3"),
    _false("usage_error", "@asserted@", "python --run repro.py"),
    _false("usage_error", _UNITTEST, "python -m unittest --failfirst test_repro"),
    _false("no_tests", _PYTEST, "python -m pytest test_repro.py -k regression"),
    _false("no_tests", "def check():\n    assert False\n\n\n# def test_check", "pytest test_repro.py"),
    _false("no_tests", _UNITTEST, "python -m unittest test_repro.TestIssue.test_other"),
    *_bare("no_tests", "python -m unittest @module@"),
    _false("own_error", "@healthy@\nassert reslt == @healthy_value@"),
    _false("own_error", "import @top@\n@healthy@\n@top@.reproduce_bug(result)"),
    _false("own_error", "@healthy@\n\n\ndef check(value):\n    return value\n\n\ncheck(result, 'strict', True)"),
    _false("own_error", "from @module@ import @outer@\n@outer@(*range(40), no_such_option=True)"),
    _false("own_error", "@healthy@\ncases = {'first': result}\nprint(cases['second'])"),
    _false("own_error", "@healthy@\nprint(result.value_of_the_answer)"),
    _false("own_error", "@healthy@\nprint('result: ' + 1 + result)"),
    _false("own_error", "@healthy@\nfirst, second, third, *rest = [result]\nassert first == second"),
    _false("own_error", "@healthy@\nanswer = input('continue? ')\nassert answer == 'y', result"),
    _false(
        "own_error",
        "def test_issue(package_fixture):\n    @healthy@\n    assert package_fixture == result",
        "python -m pytest test_repro.py",
    ),
    *_bare(
        "bad_quoting",
        "python -c 'import @module@; print('a b'); assert 0 == 1'",
        'python -c "import @module@; assert (1 == 1',
        "python -c import @module@; print(1)",
    ),
    *_bare("assert_false", "python -c 'assert False'"),
    _false("assert_false", "import @module@\nassert False, 'the issue is reproduced'"),
    _false("assert_false", "@healthy@\nprint(result)\nassert False, @symptom|r@"),
    _false("assert_false", "@healthy@\nraise AssertionError(@symptom|r@)"),
    _false("assert_false", "@prelude@\nresult = @call@\nassert @right@ == @wrong@, result", needs="wrong value"),
    _false("assert_false", _HEALTHY_UNITTEST + "self.fail('reproduced')", "python -m unittest test_repro"),
    _false("assert_false", _HEALTHY_PYTEST + "pytest.fail(f'bug: {result!r}')", "python -m pytest test_repro.py -q"),
    _false("assert_false", _HEALTHY_PYTEST + "assert 'actual' == 'expected'", "python -m pytest test_repro.py -q"),
    *_bare("bare_exit", "exit 1", "python -c 'import sys; sys.exit(1)'"),
    _false("bare_exit", "import sys\n@healthy@\nprint('BUG REPRODUCED', result)\nsys.exit(1)"),
    _false("bare_exit", "@prelude@\nprint('actual:', @call@)\nraise SystemExit('bug reproduced')", needs="wrong value"),
    _false("bare_exit", "import os\n@healthy@\nprint(result, flush=True)\nos._exit(1)"),
    _false("bare_exit", "@healthy@", "python repro.py; echo @symptom|q@; exit 1"),
    *_bare(
        "grep_no_match",
        "grep -n 'fixed in the next release' @path@",
        "test -f CHANGELOG.rst && diff @path@ CHANGELOG.rst",
    ),
    _false("grep_no_match", "@healthy@\nprint(result)", "python repro.py | grep -i 'everything is fine'"),
    *_bare("false_command", "false", "python -c 'import @module@' && false"),
    _false("false_command", "@healthy@", "! python repro.py"),
    _false("outside_failure", "import json\n@healthy@\njson.loads('{broken: ' + str(result))"),
    _false(
        "outside_failure", "from datetime import datetime\n@healthy@\ndatetime.strptime('x' + repr(result), '%Y-%m-%d')"
    ),
    _false("outside_failure", "import subprocess\n@healthy@\nsubprocess.run(['ls', '/no/such/folder'], check=True)"),
    _false(
        "outside_failure", "import urllib.request\n@healthy@\nurllib.request.urlopen('http://127.0.0.1:9/', timeout=2)"
    ),
    _false(
        "own_copy",
        "def @function@(*args, **options):\n    return @wrong@\n\n\nassert @function@(1) == @right@",
        needs="wrong value",
    ),
    _false(
        "own_copy",
        "import @module@\n\n\ndef @function@(*args):\n    # copied from @path@\n    return @wrong@\n\n\n@healthy@\n"
        "actual = @function@(result)\nassert actual == @right@, actual",
        needs="wrong value",
    ),
    _false(
        "own_copy",
        "import @module@\n\n\ndef @function@(*args):\n    raise @wrong_type@(@wrong|r@)\n\n\n@function@('x')",
        needs="raises",
    ),
    Form(
        "own_copy",
        "false",
        "python repro.py",
        (
            ("repro.py", "from convert import convert\n@healthy@\nconvert(result)"),
            (
                "convert.py",
                "import @module@\n\n\ndef convert(value):\n    raise ValueError(f'cannot convert {value!r}')",
            ),
        ),
    ),
    _false(
        "monkeypatched",
        "import @module@ as module\nmodule.@outer@ = lambda *args: 'patched'\n"
        "assert module.@outer@('x') == 'right', 'wrong result'",
    ),
    _false(
        "monkeypatched",
        "from unittest import mock\nimport @module@ as module\n"
        "with mock.patch.object(module, '@outer@', side_effect=ValueError('boom')):\n    module.@outer@('x')",
    ),
    _false(
        "monkeypatched",
        "import @module@ as module\n\n\ndef test_issue(monkeypatch):\n"
        "    monkeypatch.setattr(module, '@outer@', lambda *args: None)\n    assert module.@outer@('x') == 1",
        "python -m pytest test_repro.py",
    ),
    _false(
        "damaged_file",
        "@asserted@\n@healthy@\nassert result == @healthy_value@",
        "sed -i 's/return /return not /' @path@ && python repro.py",
    ),
    *_bare(
        "damaged_file",
        "rm @path@ && python -c 'import @module@'",
        "echo 'raise RuntimeError(\"broken\")' >> @path@; python -c 'import @module@'",
    ),
    _false("damaged_file", "@healthy@", "git checkout HEAD~1 -- @path@ && python repro.py"),
    _false("damaged_file", "@healthy@", ": > @path@; python repro.py && python -c 'from @module@ import @outer@'"),
    _false(
        "damaged_file",
        "import pathlib\npath = pathlib.Path('@path@')\n"
        "path.write_text(path.read_text() + '\\nraise ValueError(\"bad\")\\n')\nimport @module@",
    ),
    Form(
        "overwritten_source",
        "false",
        "python repro.py",
        (
            ("@path@", "def @outer@(*args, **options):\n    raise ValueError('overwritten')"),
            ("repro.py", "from @module@ import @outer@\n@outer@('x')"),
        ),
    ),
    Form(
        "overwritten_source",
        "false",
        "python -m pytest test_repro.py",
        (
            (
                "conftest.py",
                "import pytest\n\n\n@pytest.fixture(autouse=True)\ndef broken():\n    raise ValueError('bad')",
            ),
            ("test_repro.py", _HEALTHY_PYTEST + "assert result == @healthy_value@"),
        ),
    ),
    Form(
        "overwritten_source",
        "false",
        "python repro/run.py",
        (
            ("repro/@top@.py", "def @outer@(*args):\n    raise KeyError(args)"),
            ("repro/run.py", "from @top@ import @outer@\n@outer@('x')"),
        ),
    ),
    *_bare("killed", "kill -9 $$"),
    _false("killed", "import os\nimport signal\n@healthy@\nprint(result)\nos.kill(os.getpid(), signal.SIGKILL)"),
    _false("killed", "import os\n@healthy@\nprint(result)\nos.abort()"),
    _false("segfault", "import ctypes\n@healthy@\nctypes.string_at(0)"),
    _false("segfault", "import faulthandler\n@healthy@\nfaulthandler.enable()\nfaulthandler._sigsegv()"),
    _false("lost_in_pipe", "@healthy@\nprint(result)", "python repro.py | grep -c FAILED"),
    _false("lost_in_pipe", "@healthy@", "python missing.py 2>/dev/null | head -20"),
    _false("lost_in_pipe", "@healthy@", "python repro.py > /dev/null 2>&1 | false"),
    _false("command_not_found", "@asserted@", "pyhton repro.py"),
    _false("command_not_found", _PYTEST, "tox -e py311 -- test_repro.py"),
    _false("command_not_found", "@asserted@", "./repro.py"),
    *_bare("exit_141", "yes | head -1"),
    _false("exit_141", "@healthy@\nfor _ in range(200000):\n    print(result)", "python repro.py | head -1"),
)
"""As a sloppy or dishonest scout would write them."""

APART: tuple[Form, ...] = (
    _script("wrong_expectation", "apart", "@prelude@\nassert @call@ == @neither@", needs="wrong value"),
    _script("wrong_expectation", "apart", "@healthy@\nassert result == [@neither@], result", needs="value"),
    _script(
        "wrong_expectation",
        "apart",
        "@healthy@\nif result == @healthy_value@:\n    raise SystemExit('the bug is there')",
    ),
    _script("misuse", "apart", "@prelude@\nprint(@call_none@)"),
    _script("misuse", "apart", "@prelude@\nprint(@call_object@)"),
)
"""False, though the package itself really behaves as shown."""
