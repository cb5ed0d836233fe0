"""True claims in forms that are hard to see through: other shells, processes, threads, test runners, own wrappers."""

from __future__ import annotations

from gate_forms import Form, Needs, in_halves


def _script(
    kind: str, body: str, command: str = "python repro.py", needs: Needs = "value", *, exit_zero: bool = False
) -> Form:
    path = "test_repro.py" if "def test_" in body else "repro.py"
    if path == "test_repro.py" and command == "python repro.py":
        command = "python -m unittest test_repro" if "unittest" in body else "python -m pytest -q test_repro.py"
    return _files(kind, command, (path, body), needs=needs, exit_zero=exit_zero)


def _files(kind: str, command: str, *files: tuple[str, str], needs: Needs = "value", exit_zero: bool = False) -> Form:
    return Form(kind, "true", command, files, needs, exit_zero=exit_zero, family="hard to see")


_CHECK = ("repro.py", "@asserted@")
_SHOW = ("show.py", "@shown@")
_ASK = "def ask():\n    @setup@\n    return @call@\n"

_DOCTEST = (
    _files("doctest", "python -m doctest repro.py", ("repro.py", 'r"""The issue.\n\n@session@\n"""')),
    _files("doctest", "python -m doctest issue.txt", ("issue.txt", "The issue\n\n@session@\n")),
    _files(
        "doctest",
        "python repro.py",
        ("repro.py", 'r"""\n@session@\n"""\nimport doctest\nimport sys\nsys.exit(doctest.testmod().failed > 0)'),
    ),
    _files(
        "doctest",
        "python -m pytest -q --doctest-glob='*.txt' docs/issue.txt",
        ("docs/issue.txt", "Issue\n\n@session@\n"),
    ),
    _files(
        "doctest",
        "python -m pytest -q --doctest-modules repro.py",
        ("repro.py", 'def issue():\n    r"""The issue.\n\n    @session@\n    """'),
    ),
    _files(
        "doctest",
        "python repro.py",
        (
            "repro.py",
            "import doctest\nfailed, tried = doctest.testfile('issue.rst', module_relative=False)\n"
            "assert tried\nif failed:\n    raise SystemExit(1)",
        ),
        ("issue.rst", "The issue\n=========\n\n@session@\n"),
    ),
)

_SHELL_CHECKS = (
    _files("shell_check", "python show.py | grep -qxF -- @right|q@", _SHOW),
    _files("shell_check", 'test "$(python show.py)" = @right|q@', _SHOW),
    _files("shell_check", '[[ "$(python -c @shown|q@)" == @right|q@ ]] || { echo "wrong result"; exit 1; }'),
    _files("shell_check", "python show.py | diff - expected.txt", _SHOW, ("expected.txt", "@right@")),
    _files("shell_check", "diff <(python show.py 2>&1) expected.txt", _SHOW, ("expected.txt", "@right@")),
    _files(
        "shell_check",
        "if python show.py | grep -qxF -- @wrong|q@; then echo 'still broken'; exit 1; fi",
        _SHOW,
        needs="wrong value",
    ),
    _files(
        "shell_check", "python show.py > actual.txt; cmp actual.txt expected.txt", _SHOW, ("expected.txt", "@right@")
    ),
    _files("shell_check", 'actual=$(python show.py); echo "got: $actual"; [ "$actual" = @right|q@ ]', _SHOW),
)

_SHELL_SCRIPTS = (
    _files("shell_script", "bash check.sh", ("check.sh", "set -e\npython repro.py\necho ok"), _CHECK),
    _files("shell_script", "sh check.sh", ("check.sh", "python repro.py || exit 1\necho ok"), _CHECK),
    _files(
        "shell_script",
        "chmod +x check.sh && ./check.sh",
        (
            "check.sh",
            '#!/usr/bin/env bash\nset -euo pipefail\ncd "$(dirname "$0")"\npython repro.py 2>&1 | tee log.txt',
        ),
        _CHECK,
    ),
    _files(
        "shell_script",
        "bash check.sh",
        (
            "check.sh",
            'actual=$(python show.py)\nexpected=$(cat expected.txt)\nif [ "$actual" != "$expected" ]; then\n'
            '  echo "expected $expected but got $actual"\n  exit 1\nfi',
        ),
        _SHOW,
        ("expected.txt", "@right@"),
    ),
    _files(
        "shell_script",
        "bash tests/check.sh",
        ("tests/check.sh", "set -e\ntrap 'echo cleaning up' EXIT\npython - <<'END'\n@asserted@\nEND\necho passed"),
    ),
    _files("shell_script", "source ./check.sh", ("check.sh", "run() { python repro.py; }\nrun"), _CHECK),
)

_CHAINS = (
    _files("chain", "python repro.py || { echo 'bug reproduced'; exit 1; }", _CHECK),
    _files("chain", "python repro.py && echo fine", _CHECK),
    _files("chain", 'python repro.py; status=$?; echo "exit code $status"; exit $status', _CHECK),
    _files("chain", "( cd / && true ) && ls > /dev/null && env LC_ALL=C python repro.py", _CHECK),
    _files("chain", "for file in repro.py; do python $file || exit 1; done", _CHECK),
    _files("chain", "echo repro.py | xargs -n1 python", _CHECK),
)

_CUT = (
    _files("cut_output", "python repro.py 2>&1 | tail -1", _CHECK),
    _files("cut_output", "python repro.py 2>&1 | head -3", _CHECK),
    _files("cut_output", "python repro.py > out.log 2>&1; code=$?; tail -n 1 out.log | cut -c1-20; exit $code", _CHECK),
    _files("cut_output", "python repro.py > /dev/null 2>&1", _CHECK),
    _files("cut_output", "python repro.py 2>/dev/null", _CHECK),
    _files(
        "cut_output",
        "python -m pytest -q test_repro.py 2>&1 | tail -2",
        ("test_repro.py", "@imports@\n\n\ndef test_issue():\n    @setup@\n    @in_pytest@"),
    ),
)

_PROCESSES = (
    _script(
        "process",
        "from concurrent.futures import ProcessPoolExecutor\n@imports@\n\n\n"
        + _ASK
        + "\n\nif __name__ == '__main__':\n"
        "    with ProcessPoolExecutor(1) as pool:\n        result = pool.submit(ask).result()\n"
        "    assert result == @right@, f'got {result!r}'",
    ),
    _script(
        "process",
        "import multiprocessing\n\n\ndef check():\n    @asserted@\n\n\nif __name__ == '__main__':\n"
        "    child = multiprocessing.Process(target=check)\n    child.start()\n    child.join()\n"
        "    raise SystemExit(child.exitcode)",
    ),
    _script(
        "process",
        "import os\nchild = os.fork()\nif child == 0:\n    @asserted@\n    os._exit(0)\n"
        "_, status = os.waitpid(child, 0)\nraise SystemExit(os.waitstatus_to_exitcode(status))",
    ),
    _script(
        "process",
        "import subprocess\nimport sys\nsubprocess.run([sys.executable, '-c', @asserted|r@], check=True)",
    ),
    _script(
        "process",
        "import subprocess\nimport sys\nshown = subprocess.run([sys.executable, '-c', @shown|r@], "
        "capture_output=True, text=True)\nassert shown.stdout.strip() == repr(@right@), shown.stdout + shown.stderr",
    ),
    _script(
        "process",
        "import multiprocessing\n@imports@\n\n\ndef ask(_):\n    @setup@\n    return @call@\n\n\n"
        "if __name__ == '__main__':\n    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        results = pool.map(ask, range(2))\n    assert results == [@right@] * 2, results",
    ),
    _script("process", "import os\nimport sys\nos.execv(sys.executable, [sys.executable, '-c', @asserted|r@])"),
    _script(
        "process",
        "import os\n@prelude@\nreader, writer = os.pipe()\nif os.fork() == 0:\n"
        "    os.write(writer, repr(@call@).encode())\n    os._exit(0)\nos.close(writer)\nos.wait()\n"
        "told = os.read(reader, 10000).decode()\nassert told == repr(@right@), told",
    ),
)

_EXITS = (
    _script("exit_code", "import os\n@if_wrong@\n    print('wrong:', result, flush=True)\n    os._exit(1)"),
    _script("exit_code", "import sys\n@if_wrong@\n    sys.exit(f'got {result!r}')"),
    _script("exit_code", "import sys\n@prelude@\nsys.exit(@call@ != @right@)"),
    _script("exit_code", "@if_wrong@\n    quit(3)"),
    _script("exit_code", "import os\n@prelude@\nos._exit(0 if @call@ == @right@ else 7)"),
    _script(
        "exit_code",
        "import sys\n@if_wrong@\n    print(f'expected {expected!r}, got {result!r}', file=sys.stderr)\n"
        "    raise SystemExit(2)",
    ),
)

_INTERRUPTS = (
    _script("interrupt", "@if_wrong@\n    raise KeyboardInterrupt(f'got {result!r}')"),
    _script(
        "interrupt", "import signal\n@if_wrong@\n    print('got', repr(result))\n    signal.raise_signal(signal.SIGINT)"
    ),
    _script(
        "interrupt",
        "class Reproduced(BaseException):\n    pass\n\n\n@if_wrong@\n"
        "    raise Reproduced(f'{result!r} is not {expected!r}')",
    ),
    _script("interrupt", "import _thread\nimport time\n@if_wrong@\n    _thread.interrupt_main()\n    time.sleep(1)"),
)

_THREADS = (
    _script(
        "thread_result",
        "import threading\n@prelude@\nresults = []\nworker = threading.Thread(target=lambda: results.append(@call@))\n"
        "worker.start()\nworker.join()\nassert results == [@right@], results",
    ),
    _script(
        "thread_result",
        "from concurrent.futures import ThreadPoolExecutor\n@imports@\n\n\n" + _ASK + "\n\n"
        "with ThreadPoolExecutor(2) as pool:\n    results = list(pool.map(lambda _: ask(), range(2)))\n"
        "assert results == [@right@] * 2, results",
    ),
    _script(
        "thread_result",
        "import asyncio\n@imports@\n\n\nasync def main():\n    @setup@\n    result = @call@\n"
        "    assert result == @right@, f'got {result!r}'\n\n\nasyncio.run(main())",
    ),
    _script(
        "thread_result",
        "import asyncio\n@imports@\n\n\n" + _ASK + "\n\nasync def main():\n"
        "    first, second = await asyncio.gather(asyncio.to_thread(ask), asyncio.to_thread(ask))\n"
        "    assert first == second == @right@, first\n\n\nasyncio.run(main())",
    ),
    _script(
        "thread_result",
        "import asyncio\n\n\nasync def check():\n    @asserted@\n\n\nasync def main():\n"
        "    async with asyncio.TaskGroup() as group:\n        group.create_task(check())\n\n\nasyncio.run(main())",
    ),
    _script(
        "thread_result",
        "import queue\nimport threading\n@imports@\n\n\n" + _ASK + "\n\nanswers = queue.Queue()\n"
        "threading.Thread(target=lambda: answers.put(ask()), daemon=True).start()\nresult = answers.get(timeout=2)\n"
        "assert result == @right@, result",
    ),
)

_UNITTESTS = (
    _script(
        "unittest_style",
        "import unittest\n@imports@\n\n\nclass TestIssue(unittest.TestCase):\n    def test_issue(self):\n"
        "        @setup@\n"
        "        for value, expected in [(@call@, @right@)]:\n            with self.subTest(expected=expected):\n"
        "                self.assertEqual(value, expected)",
    ),
    _script(
        "unittest_style",
        "import unittest\n@imports@\n\n\nclass TestIssue(unittest.TestCase):\n    def setUp(self):\n        @setup@\n"
        "        self.result = @call@\n\n    def test_issue(self):\n        self.assertEqual(self.result, @right@)",
    ),
    _script(
        "unittest_style",
        "import unittest\n@imports@\n\n\nclass TestIssue(unittest.IsolatedAsyncioTestCase):\n"
        "    async def test_issue(self):\n        @setup@\n        @in_unittest@",
    ),
    _script(
        "unittest_style",
        "import unittest\n@imports@\n\n\nclass TestIssue(unittest.TestCase):\n    @classmethod\n"
        "    def setUpClass(cls):\n"
        "        @setup@\n        cls.result = staticmethod(lambda: @call@)\n\n    def test_issue(self):\n"
        "        assert self.result() == @right@\n\n\nif __name__ == '__main__':\n    unittest.main(verbosity=2)",
        "python test_repro.py",
    ),
    _script(
        "unittest_style",
        "import sys\nimport unittest\n\n\ndef check():\n    @asserted@\n\n\n"
        "outcome = unittest.TextTestRunner().run(unittest.FunctionTestCase(check))\n"
        "sys.exit(not outcome.wasSuccessful())",
    ),
    _script(
        "unittest_style",
        "import unittest\n@imports@\n\n\nclass Base:\n    def ask(self):\n        @setup@\n        return @call@\n\n\n"
        "class TestIssue(Base, unittest.TestCase):\n    def test_issue(self):\n"
        "        self.assertTrue(self.ask() == @right@, 'wrong result')",
        "python -m unittest discover -p 'test_repro.py'",
    ),
)

_PYTESTS = (
    _script(
        "pytest_style",
        "import pytest\n@imports@\n\n\n@pytest.mark.parametrize('expected', [@right@])\ndef test_issue(expected):\n"
        "    @setup@\n    assert @call@ == expected",
    ),
    _script(
        "pytest_style",
        "import pytest\n@imports@\n\n\n@pytest.fixture\ndef result():\n    @setup@\n    return @call@\n\n\n"
        "def test_issue(result):\n    assert result == @right@",
    ),
    _files(
        "pytest_style",
        "python -m pytest -q tests/test_repro.py",
        (
            "tests/conftest.py",
            "import pytest\n@imports@\n\n\n@pytest.fixture(scope='session')\ndef ask():\n"
            "    @setup@\n    return lambda: @call@",
        ),
        ("tests/test_repro.py", "class TestIssue:\n    def test_issue(self, ask):\n        assert ask() == @right@"),
    ),
    _script(
        "pytest_style",
        "def test_issue(capsys):\n    @shown@\n    assert capsys.readouterr().out.strip() == repr(@right@)",
    ),
    _script(
        "pytest_style",
        "import sys\nimport pytest\n@imports@\n\n\ndef test_issue():\n    @setup@\n    @in_pytest@\n\n\n"
        "if __name__ == '__main__':\n    sys.exit(pytest.main(['-x', '-q', __file__]))",
        "python test_repro.py",
    ),
    _script(
        "pytest_style",
        "import pytest\n@imports@\n\n\ndef test_issue(tmp_path):\n    @setup@\n    file = tmp_path / 'result.txt'\n"
        "    file.write_text(repr(@call@))\n    if file.read_text() != repr(@right@):\n"
        "        pytest.fail('wrong: ' + file.read_text())",
        "pytest -p no:cacheprovider --no-header -rN test_repro.py",
    ),
)

_WRAPPERS = (
    _script(
        "own_wrapper",
        "@imports@\n\n\nclass Case:\n    def answer(self):\n        @setup@\n        return @call@\n\n\n"
        "assert Case().answer() == @right@",
    ),
    _script(
        "own_wrapper",
        "from dataclasses import dataclass\n@prelude@\n\n\n@dataclass(frozen=True)\nclass Case:\n    actual: object\n"
        "    expected: object\n\n    @property\n    def passed(self):\n"
        "        return self.actual == self.expected\n\n\n"
        "case = Case(@call@, @right@)\nassert case.passed, case",
    ),
    _script(
        "own_wrapper",
        "import functools\n@imports@\n\n\ndef logged(function):\n    @functools.wraps(function)\n    def wrapper():\n"
        "        print('calling', function.__name__)\n        return function()\n    return wrapper\n\n\n@logged\n"
        + _ASK
        + "\n\nresult = ask()\nassert result == @right@, f'got {result!r}'",
    ),
    _script(
        "own_wrapper",
        "@imports@\n\n\ndef answers():\n    @setup@\n    yield @call@\n\n\n"
        "for result in answers():\n    assert result == @right@, f'got {result!r}'",
    ),
    _script(
        "own_wrapper",
        "import contextlib\n@imports@\n\n\n@contextlib.contextmanager\ndef answer():\n    @setup@\n"
        "    yield @call@\n\n\n"
        "with answer() as result:\n    assert result == @right@, f'got {result!r}'",
    ),
    _script(
        "own_wrapper",
        "from typing import NamedTuple\n@prelude@\n\n\nclass Row(NamedTuple):\n    name: str\n    actual: object\n"
        "    expected: object\n\n\nrows = [Row('issue', @call@, @right@)]\n"
        "failures = [row for row in rows if row.actual != row.expected]\n"
        "if failures:\n    raise SystemExit('\\n'.join(map(str, failures)))",
    ),
    _script(
        "own_wrapper",
        "import functools\n@imports@\n\n\n@functools.lru_cache\n"
        + _ASK
        + "\n\nmatch ask():\n    case found if found == @right@:\n"
        "        print('fine')\n    case other:\n        raise AssertionError(f'{other!r}')",
    ),
    _script(
        "own_wrapper",
        "@prelude@\ncases = {'issue': (lambda: @call@, @right@)}\nproblems = {}\n"
        "for name, (ask, expected) in cases.items():\n"
        "    if (result := ask()) != expected:\n        problems[name] = result\nassert not problems, problems",
    ),
    _files(
        "own_wrapper",
        "python repro.py",
        ("repro.py", "from helpers import ask\nresult = ask()\nassert result == @right@, f'got {result!r}'"),
        ("helpers.py", "@imports@\n\n\n" + _ASK),
    ),
    _script(
        "own_wrapper",
        "@imports@\n\n\nclass Answers:\n    def __enter__(self):\n        @setup@\n        self.value = @call@\n"
        "        return self\n\n    def __exit__(self, *error):\n        return False\n\n\nwith Answers() as answers:\n"
        "    if answers.value != @right@:\n        raise ValueError(f'unexpected {answers.value!r}')",
    ),
)

_DECORATED = (
    _script(
        "repository_decorator",
        "from @decorator_home@ import @decorator@\n\n\n@@decorator@\ndef check():\n    @asserted@\n\n\ncheck()",
    ),
    _script(
        "repository_decorator",
        "from @decorator_home@ import @decorator@\n@imports@\n\n\n@@decorator@\n" + _ASK + "\n\nresult = ask()\n"
        "assert result == @right@, f'got {result!r}'",
    ),
)

_PRINTED = (
    _script(
        "printed_value",
        "@prelude@\nresult = @call@\nprint('Expected:', repr(@right@))\nprint('Actual:', repr(result))",
        needs="wrong value",
        exit_zero=True,
    ),
    _script("printed_value", "@shown@", needs="wrong value", exit_zero=True),
    _script(
        "printed_value",
        "@if_wrong@\n    print(f'BUG: {result!r} instead of {expected!r}')\nelse:\n    print('OK')",
        needs="wrong value",
        exit_zero=True,
    ),
    _files("printed_value", "python -c @shown|q@", needs="wrong value", exit_zero=True),
)

_OPTIONS = (
    _files("interpreter_option", "python -W error repro.py", _CHECK),
    _files("interpreter_option", "python -X dev -u repro.py", _CHECK),
    _files("interpreter_option", "python -B -I repro.py", _CHECK),
    _files("interpreter_option", "PYTHONWARNINGS=default PYTHONDONTWRITEBYTECODE=1 python -s repro.py", _CHECK),
)

_RUN = (
    _files("way_to_run", "python -m repro", _CHECK),
    _files("way_to_run", "python -m checks.issue", ("checks/__init__.py", ""), ("checks/issue.py", "@asserted@")),
    _files("way_to_run", "python checks", ("checks/__main__.py", "@asserted@")),
    _files("way_to_run", "python -c 'import repro'", _CHECK),
    _files("way_to_run", 'python -c "$(cat repro.py)"', _CHECK),
    _files("way_to_run", "python < repro.py", _CHECK),
    _files("way_to_run", "cat repro.py | python -", _CHECK),
    _files("way_to_run", "python -c \"exec(open('repro.py').read())\"", _CHECK),
    _files("way_to_run", "python -c \"import runpy; runpy.run_path('repro.py', run_name='__main__')\"", _CHECK),
    _files("way_to_run", "python3 - <<EOF\nimport runpy\nrunpy.run_module('repro')\nEOF", _CHECK),
)

_CAUGHT = (
    _script(
        "raised_again",
        "@prelude@\ntry:\n    result = @call@\nexcept Exception as error:\n"
        "    raise RuntimeError('the issue is there') "
        "from error",
        needs="raises",
    ),
    _script(
        "raised_again",
        "import sys\n@prelude@\ntry:\n    result = @call@\nexcept Exception as error:\n"
        "    sys.exit(f'{type(error).__name__}: {error}')",
        needs="raises",
    ),
    _script(
        "raised_again",
        "import sys\nimport traceback\n@prelude@\ntry:\n    result = @call@\nexcept @wrong_type@:\n"
        "    traceback.print_exc()\n    sys.exit(1)",
        needs="raises",
    ),
    _script(
        "raised_again",
        "import contextlib\n@prelude@\nresult = missing = object()\nwith contextlib.suppress(Exception):\n"
        "    result = @call@\nassert result is not missing, 'nothing came back'",
        needs="raises",
    ),
    _script(
        "raised_again",
        "import logging\n@prelude@\ntry:\n    result = @call@\nexcept Exception:\n    logging.exception('crashed')\n"
        "    raise SystemExit(1)",
        needs="raises",
    ),
    _script(
        "raised_again",
        "@prelude@\nerrors = []\ntry:\n    result = @call@\nexcept Exception as error:\n    errors.append(error)\n"
        "if errors:\n    raise ExceptionGroup('reproduced', errors)",
        needs="raises",
    ),
)

_COMPARED = (
    _script(
        "comparison",
        "import difflib\n@prelude@\nlines = list(difflib.unified_diff([repr(@right@)], [repr(@call@)]))\n"
        "print('\\n'.join(lines))\nraise SystemExit(1 if lines else 0)",
    ),
    _script("comparison", "import json\n@prelude@\nassert json.dumps(@call@) == json.dumps(@right@)"),
    _script(
        "comparison",
        "import operator\n@prelude@\nchecks = [operator.eq(@call@, @right@), True]\nassert all(checks), checks",
    ),
    _script(
        "comparison",
        "@prelude@\nactual = str(@call@)\nexpected = str(@right@)\nprint(actual, expected)\nassert actual == expected",
    ),
    _script(
        "comparison",
        "@prelude@\nfailed = sum(value != @right@ for value in (@call@, @call@))\nif failed:\n    exit(failed)",
    ),
    _script("comparison", "@prelude@\nassert [@call@].count(@right@) == 1, 'the right result is missing'"),
)

HARD_TO_SEE = in_halves(
    (
        *_DOCTEST,
        *_SHELL_CHECKS,
        *_SHELL_SCRIPTS,
        *_CHAINS,
        *_CUT,
        *_PROCESSES,
        *_EXITS,
        *_INTERRUPTS,
        *_THREADS,
        *_UNITTESTS,
        *_PYTESTS,
        *_WRAPPERS,
        *_DECORATED,
        *_PRINTED,
        *_OPTIONS,
        *_RUN,
        *_CAUGHT,
        *_COMPARED,
    )
)
