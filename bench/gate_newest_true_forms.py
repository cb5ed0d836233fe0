"""True forms of the fourth set, `newest`: honest reproductions as scouts and reporters write them."""

from __future__ import annotations

from dataclasses import replace

from gate_forms import Form, Needs
from gate_newest_forms import CHECK, EXPECTED, SHOW, TEST, plain, run


def _true(kind: str, body: str, command: str = "", needs: Needs = "value", *, exit_zero: bool = False) -> Form:
    path, runner = run(body)
    return _shows(kind, command or runner, (path, body), needs=needs, exit_zero=exit_zero)


def _shows(kind: str, command: str, *files: tuple[str, str], needs: Needs = "value", exit_zero: bool = False) -> Form:
    cleaned = tuple((path, plain(text)) for path, text in files)
    return Form(kind, "true", plain(command), cleaned, needs, exit_zero=exit_zero, family="hard to see")


_REPORTS = (
    _true(
        "report_script",
        r"""
        #!/usr/bin/env python3
        '''Reproduction script for the issue in @function@.'''
        import sys
        import traceback
        @imports@


        def main():
            print('=' * 60)
            print('Testing @function@')
            print('=' * 60)
            try:
                @setup@
                result = @call@
            except Exception:
                print('ERROR: the call raised')
                traceback.print_exc()
                return 1
            expected = @right@
            print(f'Expected: {expected!r}')
            print(f'Actual:   {result!r}')
            if result == expected:
                print('\n✅ PASS')
                return 0
            print('\n❌ BUG CONFIRMED')
            return 1


        if __name__ == '__main__':
            sys.exit(main())
        """,
    ),
    _true(
        "report_script",
        """
        import sys
        @imports@


        def check(name, function, expected):
            try:
                actual = function()
            except Exception as error:
                print(f'[FAIL] {name}: raised {type(error).__name__}: {error}')
                return False
            status = 'PASS' if actual == expected else 'FAIL'
            print(f'[{status}] {name}: {actual!r} (expected {expected!r})')
            return status == 'PASS'


        @setup@
        results = [check('sanity', lambda: sorted([2, 1]), [1, 2]), check('issue', lambda: @call@, @right@)]
        print(f'{sum(results)}/{len(results)} passed')
        sys.exit(0 if all(results) else 1)
        """,
    ),
    _true(
        "report_script",
        """
        import sys
        @imports@


        def reproduce() -> bool:
            '''True if the bug is there.'''
            @setup@
            try:
                return @call@ != @right@
            except Exception as error:
                print('raised', repr(error))
                return True


        if reproduce():
            print('Bug reproduced')
            sys.exit(1)
        print('Bug not reproduced')
        """,
    ),
    _true(
        "report_script",
        """
        import os
        import sys
        sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '@source@'))
        import @top@
        print('using', @top@.__file__, getattr(@top@, '__version__', 'unknown version'))
        @prelude@
        actual = @call@
        expected = @right@
        print('actual  :', actual)
        print('expected:', expected)
        assert actual == expected, 'BUG: actual and expected differ'
        print('all good')
        """,
    ),
    _true(
        "report_script",
        """
        from __future__ import annotations

        import sys
        from typing import Any
        @imports@

        EXPECTED: Any = @right@


        def run_case() -> tuple[bool, Any]:
            @setup@
            value: Any = @call@
            return value == EXPECTED, value


        def main() -> int:
            ok, value = run_case()
            if not ok:
                print(f'FAILED: expected {EXPECTED!r} but got {value!r}', file=sys.stderr)
            return 0 if ok else 1


        raise SystemExit(main())
        """,
    ),
    _true(
        "report_script",
        """
        import inspect
        import platform
        import warnings
        import @module@ as module
        warnings.filterwarnings('ignore')
        print(platform.python_version(), module.__name__)
        print(inspect.getsource(module)[:200])
        @asserted@
        """,
        needs="",
    ),
    _true(
        "report_script",
        """
        # Step 1: set up
        @prelude@

        # Step 2: trigger the bug
        actual = @call@

        # Step 3: verify
        if not (actual == @right@):
            print('Reproduced: ', actual)
            raise Exception('Issue reproduced: %r != %r' % (actual, @right@))
        """,
    ),
)

_CASES = (
    _true(
        "table_of_cases",
        """
        @prelude@
        cases = [
            # (description, actual, expected)
            ('control', len('abc'), 3),
            ('from the issue', @call@, @right@),
        ]
        for description, actual, expected in cases:
            assert actual == expected, f'{description}: expected {expected!r}, got {actual!r}'
        """,
    ),
    _true(
        "table_of_cases",
        """
        @prelude@
        errors = []
        for attempt in range(5):
            result = @call@
            if result != @right@:
                errors.append(f'attempt {attempt}: {result!r}')
        if errors:
            print(*errors, sep='; ')
            raise SystemExit(1)
        """,
    ),
    _true(
        "table_of_cases",
        """
        import itertools
        @prelude@
        asks = {'plain': lambda: @call@, 'again': lambda: @call@}
        table = [(name, ask(), @right@) for name, ask in asks.items()]
        bad = list(itertools.filterfalse(lambda row: row[1] == row[2], table))
        print(f'{"case":<10}{"actual":<30}expected')
        for name, actual, expected in table:
            print(f'{name:<10}{actual!r:<30}{expected!r}')
        assert not bad, f'{len(bad)} cases are wrong'
        """,
    ),
    _true(
        "table_of_cases",
        """
        from dataclasses import dataclass, field
        @imports@


        @dataclass
        class Report:
            passed: int = 0
            failed: list = field(default_factory=list)

            def add(self, actual, expected):
                if actual == expected:
                    self.passed += 1
                else:
                    self.failed.append((actual, expected))


        report = Report()
        @setup@
        report.add(@call@, @right@)
        print(report)
        assert report.failed == [], report.failed
        """,
    ),
    _true(
        "table_of_cases",
        """
        import enum
        @prelude@


        class Status(enum.Enum):
            OK = 0
            WRONG = 1


        def classify(actual, expected):
            return Status.OK if actual == expected else Status.WRONG


        status = classify(@call@, @right@)
        print(status.name)
        raise SystemExit(status.value)
        """,
    ),
    _true(
        "table_of_cases",
        """
        from collections import Counter
        @prelude@
        tally = Counter('ok' if @call@ == @right@ else 'wrong' for _ in range(3))
        print(dict(tally))
        assert tally['wrong'] == 0
        """,
    ),
)

_PYTEST = (
    _true(
        "pytest_suite",
        """
        import pytest
        @imports@


        class TestRegression:
            @pytest.fixture(autouse=True)
            def prepare(self):
                @setup@
                self.ask = lambda: @call@

            def test_control(self):
                assert sorted('ba') == ['a', 'b']

            def test_issue(self):
                assert self.ask() == @right@
        """,
        "python -m pytest test_repro.py -vv --tb=long",
    ),
    _true(
        "pytest_suite",
        """
        import pytest
        @imports@

        pytestmark = pytest.mark.filterwarnings('ignore')
        EXPECTED = @right@


        @pytest.fixture(scope='module')
        def actual():
            @setup@
            value = @call@
            yield value
            print('teardown')


        def test_equal(actual):
            assert actual == EXPECTED, f'got {actual!r}'


        def test_type(actual):
            assert type(actual) is not None
        """,
        "pytest test_repro.py -x -q --no-header",
    ),
    _true(
        "pytest_suite",
        """
        import pytest
        @imports@


        @pytest.mark.parametrize(
            ('ask', 'expected'),
            [
                pytest.param(lambda: 1 + 1, 2, id='control'),
                pytest.param(lambda: issue(), @right@, id='issue'),
            ],
        )
        def test_cases(ask, expected):
            assert ask() == expected


        def issue():
            @setup@
            return @call@
        """,
        "python -m pytest 'test_repro.py::test_cases[issue]'",
    ),
    _true(
        "pytest_suite",
        """
        import json
        @imports@


        def test_issue(tmp_path, capsys):
            @setup@
            file = tmp_path / 'result.json'
            file.write_text(json.dumps({'result': repr(@call@)}))
            with capsys.disabled():
                print(file.read_text())
            assert json.loads(file.read_text()) == {'result': repr(@right@)}
        """,
    ),
    _true(
        "pytest_suite",
        """
        import pytest
        @imports@


        def test_issue():
            @setup@
            try:
                result = @call@
            except Exception as error:
                pytest.fail(f'raised {type(error).__name__}: {error}')
            assert result == @right@
        """,
        "python -m pytest -q test_repro.py 2>&1 | tail -n 20; exit ${PIPESTATUS[0]}",
        needs="raises",
    ),
    _shows("pytest_suite", "python -m pytest tests/ -q -k 'issue or regression'", ("tests/test_repro.py", TEST[1])),
    _shows(
        "pytest_suite",
        "cd tests && python -m pytest -q test_repro.py --rootdir=.",
        ("tests/__init__.py", ""),
        ("tests/helpers.py", "def same(actual, expected):\n    assert actual == expected\n    return True"),
        (
            "tests/test_repro.py",
            "from .helpers import same\n@imports@\n\n\ndef test_issue():\n    @setup@\n    same(@call@, @right@)",
        ),
    ),
    _true(
        "pytest_suite",
        """
        import pytest
        @imports@


        def test_issue(subtests=None):
            @setup@
            actual = @call@
            expected = @right@
            if isinstance(expected, float):
                assert actual == pytest.approx(expected, rel=1e-9)
            else:
                assert actual == expected
        """,
        "python -m pytest -p no:cacheprovider -q -rf test_repro.py",
    ),
    _shows("pytest_suite", "python -m pytest test_repro.py --maxfail=1 --disable-warnings -q", TEST, needs=""),
)

_UNITTEST = (
    _true(
        "unittest_suite",
        """
        import unittest
        @imports@


        class TestIssue(unittest.TestCase):
            maxDiff = None

            def setUp(self):
                self.expected = @right@

            def tearDown(self):
                del self.expected

            def test_issue(self):
                @setup@
                self.assertEqual(@call@, self.expected, msg='see the issue')


        if __name__ == '__main__':
            unittest.main(verbosity=2)
        """,
        "python test_repro.py",
    ),
    _true(
        "unittest_suite",
        """
        import unittest
        @imports@


        class TestIssue(unittest.TestCase):
            def test_cases(self):
                @setup@
                cases = (('control', abs(-1), 1), ('issue', @call@, @right@))
                for name, actual, expected in cases:
                    with self.subTest(case=name):
                        self.assertEqual(expected, actual)
        """,
        "python -m unittest -v test_repro.TestIssue.test_cases",
    ),
    _true(
        "unittest_suite",
        """
        import pprint
        import unittest
        @imports@


        class TestIssue(unittest.TestCase):
            def assert_same(self, actual, expected):
                self.assertMultiLineEqual(pprint.pformat(actual), pprint.pformat(expected))

            def test_issue(self):
                @setup@
                self.assert_same(@call@, @right@)
        """,
    ),
    _true(
        "unittest_suite",
        """
        import unittest
        @imports@


        class TestIssue(unittest.TestCase):
            def test_issue(self):
                @setup@
                try:
                    result = @call@
                except Exception as error:
                    self.fail(f'unexpected {error!r}')
                self.assertFalse(result != @right@)
        """,
        needs="raises",
    ),
    _true(
        "unittest_suite",
        """
        import sys
        import unittest
        @imports@


        class Issue(unittest.TestCase):
            def runTest(self):
                @setup@
                @in_unittest@


        suite = unittest.TestSuite([Issue()])
        result = unittest.TextTestRunner(stream=sys.stdout, verbosity=0).run(suite)
        sys.exit(len(result.failures) + len(result.errors))
        """,
        needs="",
    ),
    _true(
        "unittest_suite",
        """
        import unittest
        @imports@


        class TestIssue(unittest.TestCase):
            def test_issue(self):
                @setup@
                self.assertIn(@call@, [@right@])


        if __name__ == '__main__':
            program = unittest.main(argv=['repro'], exit=False)
            raise SystemExit(not program.result.wasSuccessful())
        """,
        "python test_repro.py",
    ),
    _shows(
        "unittest_suite",
        "python -m unittest discover -s tests -v 2>&1 | tail -15",
        (
            "tests/test_repro.py",
            """
            import unittest
            @imports@


            class TestIssue(unittest.TestCase):
                def test_issue(self):
                    @setup@
                    @in_unittest@
            """,
        ),
        needs="",
    ),
)

_DOCTEST = (
    _shows(
        "doctest_session",
        "python -m doctest -v repro.py",
        (
            "repro.py",
            """
            def issue():
                r'''Shows the issue.

                @session@
                '''
            """,
        ),
    ),
    _shows(
        "doctest_session",
        "python -m doctest -o NORMALIZE_WHITESPACE -o ELLIPSIS README_issue.md",
        ("README_issue.md", "# Issue\n\nSteps to reproduce:\n\n@session@\n"),
    ),
    _shows("doctest_session", "python -m pytest -q --doctest-glob='*.md' issue.md", ("issue.md", "@session@\n")),
)

_SHELL = (
    _shows(
        "shell_reproduction",
        """
        expected=$(cat <<'EOF'
        @right@
        EOF
        )
        actual=$(python show.py)
        if [[ "$actual" != "$expected" ]]; then
          echo "MISMATCH: $actual"
          exit 1
        fi
        """,
        SHOW,
    ),
    _shows("shell_reproduction", "if ! python repro.py; then echo 'reproduced'; exit 1; fi", CHECK, needs=""),
    _shows(
        "shell_reproduction",
        """
        tmp=$(mktemp -d)
        trap 'rm -rf "$tmp"' EXIT
        python show.py > "$tmp/actual" 2> "$tmp/errors" || { cat "$tmp/errors"; exit 1; }
        diff -u expected.txt "$tmp/actual"
        """,
        SHOW,
        EXPECTED,
    ),
    _shows("shell_reproduction", "python repro.py 2>&1 | tee run.log; exit ${PIPESTATUS[0]}", CHECK, needs=""),
    _shows("shell_reproduction", "PYTHONHASHSEED=0 PYTHONPATH=$PWD/@source@:$PWD python -u repro.py", CHECK, needs=""),
    _shows(
        "shell_reproduction",
        "python show.py | python -c 'import sys; sys.exit(sys.stdin.read().strip() != sys.argv[1])' @right|q@",
        SHOW,
    ),
    _shows(
        "shell_reproduction",
        "python show.py > actual.txt && python compare.py actual.txt expected.txt",
        SHOW,
        EXPECTED,
        (
            "compare.py",
            """
            import sys
            actual, expected = (open(name).read().strip() for name in sys.argv[1:])
            print('actual:  ', actual)
            print('expected:', expected)
            sys.exit(0 if actual == expected else 1)
            """,
        ),
    ),
    _shows(
        "shell_reproduction",
        """
        set -euo pipefail
        python3 - <<'PY'
        import sys
        @if_wrong@
            print(f"BUG: {result!r}", file=sys.stderr)
            sys.exit(3)
        print("no bug")
        PY
        """,
        needs="",
    ),
    _shows(
        "shell_reproduction", "bash -xe run.sh", ("run.sh", "export LANG=C.UTF-8\npython repro.py"), CHECK, needs=""
    ),
    _shows("shell_reproduction", "time timeout -k 2 8 python repro.py 2>&1 | cat", CHECK, needs=""),
    _shows(
        "shell_reproduction",
        """
        fails=0
        for i in 1 2 3; do
          python repro.py >/dev/null 2>&1 || fails=$((fails + 1))
        done
        echo "failed $fails of 3"
        [ $fails -eq 0 ]
        """,
        CHECK,
        needs="",
    ),
    _shows(
        "shell_reproduction",
        "python -c @shown|q@ > out.txt 2>&1; grep -Fxq -f expected.txt out.txt || { cat out.txt; exit 1; }",
        EXPECTED,
    ),
)

_RAISES = (
    _true(
        "caught_exception",
        """
        import sys
        @prelude@
        try:
            result = @call@
        except @wrong_type@ as error:
            print(f'BUG REPRODUCED: {type(error).__name__}: {error}')
            sys.exit(1)
        else:
            print('OK:', result)
        """,
        needs="raises",
    ),
    _true(
        "caught_exception",
        """
        @prelude@


        class IssueReproduced(Exception):
            '''The call failed as the issue says.'''


        try:
            value = @call@
        except Exception as error:
            raise IssueReproduced(f'{type(error).__name__}: {error}') from error
        assert value == @right@
        """,
        needs="raises",
    ),
    _true(
        "caught_exception",
        """
        import traceback
        @prelude@
        problem = None
        try:
            @call@
        except Exception:
            problem = traceback.format_exc()
        finally:
            print('call finished')
        assert problem is None, problem
        """,
        needs="raises",
    ),
    _true(
        "caught_exception",
        """
        @prelude@
        try:
            @call@
        except Exception as error:
            error.add_note('while checking the issue')
            raise
        """,
        needs="raises",
    ),
    _true(
        "caught_exception",
        """
        import pytest
        @imports@


        def test_does_not_raise():
            @setup@
            @call@
        """,
        needs="raises",
    ),
    _true(
        "caught_exception",
        """
        class WrongResult(AssertionError):
            def __init__(self, actual, expected):
                super().__init__(f'expected {expected!r}, got {actual!r}')
                self.actual, self.expected = actual, expected


        @if_wrong@
            raise WrongResult(result, expected)
        """,
    ),
)

_COMPARED = (
    _true(
        "normalized_comparison",
        """
        @prelude@


        def normalize(value):
            if isinstance(value, dict):
                return sorted((repr(key), normalize(item)) for key, item in value.items())
            if isinstance(value, (set, frozenset)):
                return sorted(map(repr, value))
            if isinstance(value, float):
                return round(value, 9)
            if isinstance(value, (list, tuple)):
                return [normalize(item) for item in value]
            return value


        actual, expected = normalize(@call@), normalize(@right@)
        assert actual == expected, f'{actual} != {expected}'
        """,
    ),
    _true(
        "normalized_comparison",
        """
        import json
        @prelude@


        def round_trip(value):
            return json.loads(json.dumps(value, default=repr))


        assert round_trip([@call@]) == round_trip([@right@]), 'differs after a round trip'
        """,
    ),
    _true(
        "normalized_comparison",
        """
        import math
        @prelude@


        def close(actual, expected):
            if isinstance(expected, float) and isinstance(actual, (int, float)):
                return math.isclose(actual, expected, rel_tol=1e-12)
            return type(actual) == type(expected) and actual == expected


        value = @call@
        assert close(value, @right@), value
        """,
    ),
    _true(
        "normalized_comparison",
        """
        import difflib
        import pprint
        @prelude@
        want = pprint.pformat(@right@, width=40).splitlines()
        got = pprint.pformat(@call@, width=40).splitlines()
        diff = '\\n'.join(difflib.unified_diff(want, got, 'expected', 'actual', lineterm=''))
        if diff:
            print(diff)
            raise SystemExit(1)
        """,
    ),
    _true(
        "normalized_comparison",
        """
        @prelude@


        class expect:
            def __init__(self, actual):
                self.actual = actual

            def to_equal(self, expected):
                if not self.actual == expected:
                    raise AssertionError(f'expected {self.actual!r} to equal {expected!r}')
                return self


        expect(@call@).to_equal(@right@)
        """,
    ),
    _true(
        "normalized_comparison",
        """
        from unittest import TestCase
        @prelude@
        TestCase().assertEqual(@call@, @right@)
        """,
    ),
    _true(
        "normalized_comparison",
        """
        import hashlib
        @prelude@
        digests = [hashlib.sha256(repr(value).encode()).hexdigest()[:12] for value in (@call@, @right@)]
        print(*digests)
        assert len(set(digests)) == 1, 'digests differ'
        """,
    ),
    _true(
        "normalized_comparison",
        """
        @prelude@
        result = @call@
        assert repr(result) == @right|r@, 'got: ' + repr(result)
        assert isinstance(result, type(@right@))
        """,
    ),
)

_CONCURRENT = (
    _true(
        "run_elsewhere",
        """
        import asyncio
        @imports@


        def ask():
            @setup@
            return @call@


        async def main():
            loop = asyncio.get_running_loop()
            return await asyncio.wait_for(loop.run_in_executor(None, ask), timeout=5)


        result = asyncio.run(main())
        assert result == @right@, f'got {result!r}'
        """,
    ),
    _true(
        "run_elsewhere",
        """
        import threading
        @imports@
        results, errors = {}, []


        def work(number):
            try:
                @setup@
                results[number] = @call@
            except Exception as error:
                errors.append(error)


        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors, errors
        assert all(value == @right@ for value in results.values()), results
        """,
    ),
    _true(
        "run_elsewhere",
        """
        import subprocess
        import sys
        done = subprocess.run([sys.executable, '-c', @shown|r@], capture_output=True, text=True, timeout=8)
        if done.returncode != 0:
            print(done.stderr)
            sys.exit(1)
        actual = done.stdout.strip()
        sys.exit(0 if actual == repr(@right@) else f'wrong output: {actual}')
        """,
    ),
    _true(
        "run_elsewhere",
        """
        import contextlib
        import io
        import os
        import tempfile
        @imports@

        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as out:
            before = os.getcwd()
            os.chdir(folder)
            try:
                @setup@
                print(repr(@call@))
            finally:
                os.chdir(before)
        shown = out.getvalue().rstrip()
        assert shown == repr(@right@), shown
        """,
    ),
    _true(
        "run_elsewhere",
        """
        import random
        import time
        from unittest import mock
        @imports@
        random.seed(0)
        with mock.patch('sys.argv', ['repro']):
            started = time.perf_counter()
            @setup@
            result = @call@
            print(f'took {time.perf_counter() - started:.4f} s')
        assert result == @right@, f'got {result!r}'
        """,
    ),
    _true(
        "run_elsewhere",
        """
        import cProfile
        @prelude@
        profile = cProfile.Profile()
        result = profile.runcall(lambda: @call@)
        if result != @right@:
            raise ValueError(f'wrong result {result!r}')
        """,
    ),
)

_LOGGED = (
    _true(
        "logged_result",
        """
        import logging
        import sys
        @prelude@
        logging.basicConfig(level=logging.DEBUG, format='%(levelname)s %(message)s', stream=sys.stdout)
        log = logging.getLogger('repro')
        actual = @call@
        log.info('actual: %r', actual)
        if actual != @right@:
            log.critical('the issue is reproduced')
            logging.shutdown()
            sys.exit(1)
        log.info('fine')
        """,
    ),
    _true(
        "logged_result",
        """
        import json
        import sys
        @prelude@
        actual = @call@
        report = {'actual': repr(actual), 'expected': repr(@right@), 'ok': actual == @right@}
        json.dump(report, sys.stdout, indent=2)
        sys.exit(not report['ok'])
        """,
    ),
    _true(
        "logged_result",
        """
        @prelude@
        actual = @call@
        expected = @right@
        print('PASS' if actual == expected else 'FAIL', '- expected', repr(expected), 'got', repr(actual))
        """,
        needs="wrong value",
        exit_zero=True,
    ),
    _true(
        "logged_result",
        """
        import pprint
        @prelude@
        pprint.pprint({'call': @call|r@, 'result': @call@}, width=100000)
        """,
        needs="wrong value",
        exit_zero=True,
    ),
    _true(
        "logged_result",
        """
        @prelude@
        print('Calling @function@ ...')
        try:
            result = @call@
            print('Result:', repr(result))
            print('No exception: cannot reproduce')
        except Exception as e:
            print(f'Exception type: {type(e).__name__}')
            print(f'Exception message: {e}')
            print('BUG REPRODUCED')
        """,
        needs="raises",
        exit_zero=True,
    ),
    _shows("logged_result", 'python -c @shown|q@; echo "exit status: $?"', needs="wrong value", exit_zero=True),
)

NEWEST_TRUE: tuple[Form, ...] = tuple(
    replace(form, split="newest")
    for form in (
        *_REPORTS,
        *_CASES,
        *_PYTEST,
        *_UNITTEST,
        *_DOCTEST,
        *_SHELL,
        *_RAISES,
        *_COMPARED,
        *_CONCURRENT,
        *_LOGGED,
    )
)
