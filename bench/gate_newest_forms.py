"""False forms of the fourth set, `newest`: slips of the claim's own that are blamed on the repository, and tampering.

As in gate_own_failures.py and gate_tampering.py, every form is about a target that works. The true forms of this set
are in gate_newest_true_forms.py. Nobody who works on the gate's rules reads these files.
"""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

from gate_forms import Family, Form, Needs, TargetNeeds

CHECK = ("repro.py", "@asserted@")
SHOW = ("show.py", "@shown@")
EXPECTED = ("expected.txt", "@right@")
TEST = ("test_repro.py", "import pytest\n@imports@\n\n\ndef test_issue():\n    @setup@\n    @in_pytest@")
_TWEAKS = ("tweaks.py", "import @from@ as module\n\n\n@fake@\n\n\nmodule.@name@ = fake")


def plain(text: str) -> str:
    """A text as it is in its file, without the indentation that it has here."""
    return dedent(text).strip("\n")


def run(body: str) -> tuple[str, str]:
    """Where a script lies, and the command that runs it."""
    if "def test_" not in body:
        return "repro.py", "python repro.py"
    runner = "python -m unittest test_repro" if "unittest.TestCase" in body else "python -m pytest -q test_repro.py"
    return "test_repro.py", runner


def _files(
    family: Family, kind: str, command: str, *files: tuple[str, str], target: TargetNeeds = "any", needs: Needs = ""
) -> Form:
    cleaned = tuple((path, plain(text)) for path, text in files)
    return Form(kind, "false", plain(command), cleaned, needs, target=target, family=family, must_fail=True)


def _own(kind: str, body: str, command: str = "", *, target: TargetNeeds = "any", needs: Needs = "") -> Form:
    path, runner = run(body)
    return _files("own failure", kind, command or runner, (path, body), target=target, needs=needs)


def _shell(kind: str, command: str, *files: tuple[str, str]) -> Form:
    return _files("own failure", kind, command, *files)


def _tampers(kind: str, body: str, command: str = "", *, target: TargetNeeds = "any", needs: Needs = "") -> Form:
    path, runner = run(body)
    return _files("tampering", kind, command or runner, (path, body), target=target, needs=needs)


def _patched(kind: str, change: str) -> Form:
    """A script that changes `module` with `fake` and then checks."""
    return _tampers(kind, f"import @from@ as module\n\n\n@fake@\n\n\n{plain(change)}\n@asserted@")


def _spoilt(kind: str, command: str, *files: tuple[str, str], target: TargetNeeds = "any") -> Form:
    return _files("tampering", kind, command, *files, target=target)


# Something of the claim's own goes wrong

_KINDS = (
    _own("compared_as_other_type", "@prelude@\nresult = @call@,\nassert result == @right@, f'got {result!r}'"),
    _own("compared_as_other_type", "@prelude@\nresult = repr(@call@)\nassert result == @right@, f'got {result}'"),
    _own(
        "compared_as_other_type",
        "@prelude@\nactual = str(@call@).encode()\nexpected = str(@right@)\nassert actual == expected, actual",
    ),
    _own(
        "compared_as_other_type",
        """
        import enum
        @prelude@


        class Expected(enum.Enum):
            ISSUE = @right@


        result = @call@
        if result != Expected.ISSUE:
            raise SystemExit(f'expected {Expected.ISSUE.value!r}, got {result!r}')
        """,
    ),
    _own(
        "compared_as_other_type",
        """
        @prelude@
        result = @call@
        expected_type = type(@right@).__name__
        assert type(result) == expected_type, f'expected {expected_type}, got {type(result).__name__}'
        """,
    ),
    _own(
        "compared_as_other_type",
        """
        import json
        @prelude@
        stored = json.dumps(json.dumps(repr(@call@)))
        assert json.loads(stored) == repr(@right@), json.loads(stored)
        """,
    ),
    _own(
        "compared_as_other_type",
        """
        import unittest
        @imports@


        class TestIssue(unittest.TestCase):
            def test_issue(self):
                @setup@
                results = [@call@]
                self.assertIn(results, [@right@])
        """,
    ),
)

_STALE = (
    _own(
        "stale_variable",
        """
        @imports@
        result = 'not run'


        def run():
            @setup@
            result = @call@
            print('ran', result)


        run()
        assert result == @right@, f'got {result!r}'
        """,
    ),
    _own(
        "stale_variable",
        """
        @prelude@
        last = ...


        def check(expected, actual=last):
            assert actual == expected, f'expected {expected!r}, got {actual!r}'


        last = @call@
        check(@right@)
        """,
    ),
    _own(
        "stale_variable",
        """
        @prelude@


        def collect(value, seen=[]):
            seen.append(value)
            return seen


        for _ in range(2):
            results = collect(@call@)
            assert results == [@right@], results
        """,
    ),
    _own(
        "stale_variable",
        """
        @prelude@
        results = dict.fromkeys(('first', 'second'), [])
        results['first'].append(@call@)
        results['second'].append('skipped')
        assert results['first'] == [@right@], results['first']
        """,
    ),
    _own(
        "stale_variable",
        """
        @prelude@


        class Recorder:
            values = []

            def record(self, value):
                self.values.append(value)
                return self


        first, second = Recorder().record('warm up'), Recorder().record(@call@)
        assert second.values == [@right@], second.values
        """,
    ),
    _own(
        "stale_variable",
        """
        import contextvars
        @prelude@
        answer = contextvars.ContextVar('answer', default=...)
        contextvars.copy_context().run(answer.set, @call@)
        assert answer.get() == @right@, answer.get()
        """,
    ),
    _own(
        "stale_variable",
        """
        import threading
        @prelude@
        state = threading.local()
        worker = threading.Thread(target=lambda: setattr(state, 'result', @call@))
        worker.start()
        worker.join()
        assert state.result == @right@
        """,
    ),
    _own(
        "stale_variable",
        """
        import threading
        @prelude@
        results = []
        workers = [threading.Thread(target=lambda: results.append(@call@)) for _ in range(3)]
        for worker in workers:
            if worker.is_alive():
                worker.join()
        assert results == [@right@] * 3, f'{len(results)} of 3 calls came back'
        """,
    ),
)

_LOOPS = (
    _own(
        "own_loop",
        """
        @prelude@
        results = [@call@, @call@]
        for number, _ in enumerate(results, start=1):
            assert results[number] == @right@, f'case {number}'
        """,
    ),
    _own(
        "own_loop",
        """
        @prelude@
        expected = ['expected', @right@]
        actual = [@call@, @call@]
        for got, want in zip(actual, expected):
            if got != want:
                raise SystemExit(f'{got!r} should be {want!r}')
        """,
    ),
    _own(
        "own_loop",
        """
        @prelude@
        pending = [@call@, @call@, @call@]
        for value in pending:
            if value == @right@:
                pending.remove(value)
        assert not pending, f'wrong results left: {pending}'
        """,
    ),
    _own(
        "own_loop",
        """
        @prelude@
        cases = [@right@] * 4
        passed = 0
        for index in range(1, len(cases)):
            passed += @call@ == cases[index]
        print(f'{passed}/{len(cases)} passed')
        exit(0 if passed == len(cases) else 1)
        """,
    ),
    _own(
        "own_loop",
        """
        @prelude@
        pairs = zip([@call@], [@right@])
        for actual, expected in pairs:
            print(actual, expected)
        same = [actual == expected for actual, expected in pairs]
        assert True in same, 'no result is right'
        """,
    ),
    _own(
        "own_loop",
        """
        @prelude@
        results = {'issue': @call@}
        for name, value in results.items():
            results[name + '_type'] = type(value).__name__
            assert value == @right@ or name != 'issue'
        """,
    ),
    _own(
        "own_loop",
        """
        @prelude@
        answers = iter([@call@, @call@])
        while True:
            assert next(answers) == @right@
        """,
    ),
    _own(
        "own_loop",
        """
        @imports@


        def test_issue():
            @setup@
            failures = 0
            for attempt in range(3):
                if @call@ == @right@:
                    continue
                failures += 1
            else:
                failures += 1
            assert failures == 0
        """,
    ),
)

_ARITHMETIC = (
    _own(
        "own_arithmetic",
        """
        @prelude@
        score = 0.0
        for _ in range(10):
            score += 0.1 if @call@ == @right@ else 0
        assert score == 1.0, f'score is {score}, some calls are wrong'
        """,
    ),
    _own(
        "own_arithmetic",
        """
        import math
        @prelude@
        wrong = sum(@call@ != @right@ for _ in range(3))
        assert math.isclose(wrong, 1e-12), f'{wrong} wrong results'
        """,
    ),
    _own(
        "own_arithmetic",
        """
        @prelude@
        runs = [@call@ == @right@ for _ in range(5)]
        half = round(len(runs) * 0.5)
        assert len(runs[:half]) == 3 and all(runs), runs[:half]
        """,
    ),
    _own(
        "own_arithmetic",
        """
        from decimal import Decimal
        @prelude@
        passed = sum(Decimal(0.1) for _ in range(10) if @call@ == @right@)
        if passed != Decimal('1.0'):
            raise AssertionError(f'pass rate {passed:.2f}')
        """,
    ),
    _own(
        "own_arithmetic",
        """
        import time
        @prelude@
        started = time.monotonic()
        result = @call@
        seconds = int(time.monotonic() - started)
        print(f'{1 / seconds:.1f} calls per second, result {result!r}')
        """,
    ),
    _own(
        "own_arithmetic",
        """
        @imports@


        def test_issue():
            @setup@
            results = [@call@ for _ in range(4)]
            wrong = [result for result in results if result != @right@]
            average = sum(len(repr(result)) for result in wrong) / len(wrong)
            assert average < 1
        """,
    ),
    _own(
        "own_arithmetic",
        """
        import statistics
        @prelude@
        lengths = [len(repr(value)) for value in (@call@,)]
        assert statistics.stdev(lengths) == 0, 'results differ'
        """,
    ),
)

_PARSED = (
    _own(
        "own_parsing",
        """
        import subprocess
        import sys
        out = subprocess.run([sys.executable, '-c', @shown|r@], capture_output=True, text=True).stdout
        value = out.split('Result => ')[1]
        assert value.strip() == repr(@right@), value
        """,
    ),
    _own(
        "own_parsing",
        """
        import contextlib
        import io
        import sys
        @prelude@
        captured = io.StringIO()
        with contextlib.redirect_stdout(captured):
            print(repr(@call@), file=sys.stderr)
        assert captured.getvalue().strip() == repr(@right@), f'printed {captured.getvalue()!r}'
        """,
    ),
    _own(
        "own_parsing",
        """
        import ast
        @prelude@
        result = @call@
        line = f'result: {result!r}, done'
        assert ast.literal_eval(line) == @right@
        """,
    ),
    _own(
        "own_parsing",
        """
        import re
        @prelude@
        result = @call@
        line = f'Result: {result!r} (after 1 call)'
        found = re.fullmatch(r'Result: (.*)', line).group(1)
        assert found == repr(@right@), found
        """,
    ),
    _own(
        "own_parsing",
        """
        def test_issue(capsys):
            @shown@
            print('done')
            last = capsys.readouterr().out.splitlines()[-1]
            assert last == repr(@right@)
        """,
    ),
    _own(
        "own_parsing",
        """
        @prelude@
        output = print(repr(@call@))
        assert str(output) == repr(@right@) + '\\n', f'got {output!r}'
        """,
    ),
    _own(
        "own_parsing",
        """
        import configparser
        @prelude@
        parser = configparser.ConfigParser()
        parser.read_string('result = ' + str(len(repr(@call@))))
        assert parser['DEFAULT']['result']
        """,
    ),
    _own(
        "own_parsing",
        r"""
        @prelude@
        table = [('actual', repr(@call@)), ('expected', repr(@right@))]
        text = '\n'.join(f'{name:<12}{value}' for name, value in table)
        actual, expected = (line.split(' ', 1)[1] for line in text.splitlines())
        assert actual == expected, text
        """,
    ),
)

_HELPERS = (
    _own(
        "own_helper",
        """
        @prelude@
        values = [@call@]
        ordered = values.sort(key=repr)
        assert ordered == [@right@], f'got {ordered}'
        """,
    ),
    _own(
        "own_helper",
        """
        @prelude@
        results = [].append(@call@)
        assert results == [@right@], f'got {results}'
        """,
    ),
    _own(
        "own_helper",
        """
        @prelude@
        results = {f'case{number}': @call@ for number in range(12)}
        names = sorted(results)
        assert names[-1] == 'case11' and results[names[-1]] == @right@, names
        """,
    ),
    _own(
        "own_helper",
        """
        @prelude@


        def same(actual, expected):
            return actual is expected


        assert same([@call@], [@right@]), 'the results differ'
        """,
    ),
    _own(
        "own_helper",
        """
        @prelude@


        def normalize(value):
            if isinstance(value, (list, tuple)):
                return [normalize(item) for item in value]
            return normalize(str(value).strip())


        assert normalize([@call@]) == normalize([@right@])
        """,
    ),
    _own(
        "own_helper",
        """
        import unittest
        @imports@


        class TestIssue(unittest.TestCase):
            def check(self, actual, *, expected, label):
                self.assertEqual(actual, expected, label)

            def test_issue(self):
                @setup@
                self.check(@call@, @right@, 'issue')
        """,
    ),
    _own(
        "own_helper",
        """
        from functools import reduce
        @prelude@


        def longest(first, second):
            return first if len(first) > second else second


        print(reduce(longest, [repr(@call@), repr(@right@)]))
        """,
    ),
)

_CLASSES = (
    _own(
        "own_class_mistake",
        """
        @prelude@


        class Outcome:
            def __init__(self, value):
                self.value = value

            def __repr__(self):
                return f'Outcome({self.value!r})'


        actual, expected = Outcome(@call@), Outcome(@right@)
        assert actual == expected, f'{actual} != {expected}'
        """,
    ),
    _own(
        "own_class_mistake",
        """
        from dataclasses import dataclass
        @prelude@


        @dataclass
        class Case:
            expected: object
            seen: list = []


        case = Case(@right@)
        case.seen.append(@call@)
        assert case.seen == [case.expected]
        """,
    ),
    _own(
        "own_class_mistake",
        """
        import dataclasses
        @prelude@


        @dataclasses.dataclass(frozen=True)
        class Case:
            expected: object
            actual: object = None


        case = Case(@right@)
        case.actual = @call@
        assert case.actual == case.expected
        """,
    ),
    _own(
        "own_class_mistake",
        """
        import dataclasses
        @imports@


        @dataclasses.dataclass
        class Case:
            expected: object
            actual: object = dataclasses.field(init=False)

            def check(self):
                return self.actual == self.expected


        def test_issue():
            @setup@
            actual = @call@
            assert Case(@right@).check(), actual
        """,
    ),
    _own(
        "own_class_mistake",
        """
        import dataclasses
        @prelude@


        @dataclasses.dataclass(eq=False)
        class Answer:
            value: object


        assert [Answer(@call@)] == [Answer(@right@)]
        """,
    ),
    _own(
        "own_class_mistake",
        """
        @imports@


        class Case:
            @property
            def result(self):
                @setup@
                value = @call@
                return self.result or value


        assert Case().result == @right@
        """,
    ),
    _own(
        "own_class_mistake",
        """
        import abc
        @prelude@


        class Check(abc.ABC):
            @abc.abstractmethod
            def expected(self): ...


        class IssueCheck(Check):
            def expect(self):
                return @right@


        actual = @call@
        assert IssueCheck().expected() == actual
        """,
    ),
    _own(
        "own_class_mistake",
        """
        from collections import namedtuple
        @prelude@
        Case = namedtuple('Case', 'name actual expected')
        case = Case(@call@, @right@)
        assert case.actual == case.expected
        """,
    ),
)

_SUBCLASSES = (
    _own(
        "own_override",
        """
        @prelude@


        class Results(dict):
            def __setitem__(self, name, value):
                super().__setitem__(name.upper(), value)


        results = Results()
        results['issue'] = @call@
        assert results['issue'] == @right@
        """,
    ),
    _own(
        "own_override",
        """
        @prelude@


        class Text(str):
            def __eq__(self, other):
                return id(self) == id(other)

            def __ne__(self, other):
                return not self == other


        actual, expected = Text(repr(@call@)), Text(repr(@right@))
        if actual != expected:
            raise SystemExit(f'expected {expected}, got {actual}')
        """,
    ),
    _own(
        "own_override",
        """
        import @class_home@ as module


        class Own(module.@class_name@):
            @property
            def @method@(self):
                return self.@method@


        print(Own.__new__(Own).@method@)
        """,
        target="class_name",
    ),
    _own(
        "own_override",
        """
        import unittest
        @imports@


        class TestIssue(unittest.TestCase):
            def run(self, result=None):
                self.prepared = False
                super().run(result)

            def assertEqual(self, first, second, msg=None):
                super().assertTrue(self.prepared and first == second, msg)

            def test_issue(self):
                @setup@
                self.assertEqual(@call@, @right@)
        """,
    ),
    _own(
        "own_override",
        """
        import json
        @prelude@


        class Encoder(json.JSONEncoder):
            def default(self, value):
                return super().default(value)


        print(json.dumps({'result': repr(@call@), 'seen': {1, 2}}, cls=Encoder))
        """,
    ),
)

_CALLBACKS = (
    _own(
        "error_in_own_callback",
        """
        from unittest import mock
        @prelude@


        class StubError(Exception):
            pass


        def Own():
            names = ('str', 'len', 'iter', 'int', 'float', 'bool', 'getitem', 'contains', 'hash', 'index', 'lt', 'add')
            return mock.MagicMock(side_effect=StubError, **{f'__{name}__.side_effect': StubError for name in names})


        try:
            @call_own@
        except StubError:
            raise
        except Exception:
            raise StubError('the stub was not used') from None
        raise StubError('the stub was ignored')
        """,
    ),
    _own(
        "error_in_own_callback",
        """
        import functools
        @prelude@


        def compare(first, second):
            return first.priority - second.priority


        results = sorted([@call@, @right@], key=functools.cmp_to_key(compare))
        assert results[0] == @right@
        """,
    ),
    _own(
        "error_in_own_callback",
        """
        from concurrent.futures import ThreadPoolExecutor
        @prelude@


        def finish(future):
            results.add(future.result())


        results = []
        with ThreadPoolExecutor() as pool:
            future = pool.submit(lambda: @call@)
            future.result()
        finish(future)
        assert results == [@right@]
        """,
    ),
    _own(
        "error_in_own_callback",
        """
        import re
        @prelude@
        text = 'result=' + str(len(repr(@call@)))
        shown = re.sub(r'\\d+', lambda found: int(found[0]) + 1, text)
        assert shown
        """,
    ),
    _own(
        "error_in_own_callback",
        """
        import collections
        @prelude@


        class Expected(dict):
            def __missing__(self, name):
                raise LookupError(f'no expectation for {name}')


        expected = Expected(issue=@right@)
        assert @call@ == expected['@name@ issue']
        """,
    ),
)

_MOCKS = (
    _own(
        "own_mock",
        """
        from unittest.mock import Mock
        @prelude@
        checker = Mock()
        checker.compare(@call@, @right@)
        assert checker.compare.return_value is True, 'the comparison failed'
        """,
    ),
    _own(
        "own_mock",
        """
        from unittest import mock
        @prelude@
        expected = mock.Mock(side_effect=[@right@])
        for _ in range(2):
            assert @call@ == expected()
        """,
    ),
    _own(
        "own_mock",
        """
        from unittest import mock
        @prelude@
        with mock.patch('@from@.@name@_cached_value'):
            assert @call@ == @right@
        """,
    ),
    _own(
        "own_mock",
        """
        from unittest import mock
        @prelude@
        report = mock.Mock(spec=['passed', 'failed'])
        (report.passed if @call@ == @right@ else report.failed)('issue')
        report.finish()
        """,
    ),
    _own(
        "own_mock",
        """
        import json
        from unittest import mock
        @prelude@
        actual = @call@
        with mock.patch('builtins.open', mock.mock_open(read_data='{}')):
            expected = json.load(open('expected.json'))['issue']
        assert actual == expected
        """,
    ),
    _own(
        "own_mock",
        """
        from unittest import mock
        @imports@


        def ask():
            @setup@
            return @call@


        cases = [ask]


        def test_issue():
            with mock.patch(f'{__name__}.ask') as spy:
                assert cases[0]() == @right@
            spy.assert_called_once()
        """,
    ),
    _own(
        "own_mock",
        """
        from unittest import mock
        import @from@ as module
        @prelude@
        with mock.patch.object(module, '@name@') as spy:
            pass
        assert @call@ == @right@
        assert spy.call_count == 1, '@name@ was not called'
        """,
    ),
)

_ASYNC = (
    _own(
        "own_async",
        """
        import asyncio
        @imports@


        async def ask():
            @setup@
            return @call@


        async def main():
            return asyncio.run(ask())


        assert asyncio.run(main()) == @right@
        """,
    ),
    _own(
        "own_async",
        """
        import asyncio
        @imports@


        async def ask(case):
            @setup@
            return @call@


        async def main():
            results = await asyncio.gather(ask('issue'), ask(case='issue', strict=True))
            assert results == [@right@] * 2


        asyncio.run(main())
        """,
    ),
    _own(
        "own_async",
        """
        import asyncio
        @imports@


        async def ask():
            @setup@
            await asyncio.sleep(0)
            return @call@


        async def main():
            task = asyncio.create_task(ask())
            task.cancel()
            assert await task == @right@


        asyncio.run(main())
        """,
    ),
    _own(
        "own_async",
        """
        import asyncio
        @imports@


        async def answers():
            @setup@
            yield @call@


        async def main():
            for answer in answers():
                assert answer == @right@


        asyncio.run(main())
        """,
    ),
    _own(
        "own_async",
        """
        import asyncio
        @imports@


        async def produce(queue):
            @setup@
            await queue.put(@call@)


        async def main():
            queue = asyncio.Queue()
            producer = asyncio.ensure_future(produce(queue))
            result = queue.get_nowait()
            await producer
            assert result == @right@


        asyncio.run(main())
        """,
    ),
    _own(
        "own_async",
        """
        import asyncio
        import contextlib
        @imports@


        @contextlib.asynccontextmanager
        async def answer():
            @setup@
            yield @call@


        async def main():
            with answer() as result:
                assert result == @right@


        asyncio.run(main())
        """,
    ),
)

_CONTEXTS = (
    _own(
        "own_context",
        """
        import contextlib
        @imports@


        @contextlib.contextmanager
        def answer(enabled=False):
            @setup@
            if enabled:
                yield @call@


        with answer() as result:
            assert result == @right@
        """,
    ),
    _own(
        "own_context",
        """
        import contextlib
        @imports@


        @contextlib.contextmanager
        def answers():
            @setup@
            for _ in range(2):
                yield @call@


        with answers() as result:
            assert result == @right@
        """,
    ),
    _own(
        "own_context",
        """
        import pathlib
        import tempfile
        @prelude@
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, 'result.txt')
            file.write_text(repr(@call@))
        assert file.read_text() == repr(@right@)
        """,
    ),
    _own(
        "own_context",
        """
        import contextlib
        @prelude@
        passed = False
        with contextlib.suppress(Exception):
            result = @call@
            passed = is_equal(result, @right@)
        assert passed, '@name@ gives a wrong result'
        """,
    ),
    _own(
        "own_context",
        """
        @imports@


        def session():
            @setup@
            expected = yield
            yield @call@ == expected


        run = session()
        assert run.send(@right@)
        """,
    ),
    _own(
        "own_context",
        """
        @imports@
        checked = []


        def check():
            @setup@
            result = @call@
            assert result == @right@
            checked.append(result)
            yield result


        check()
        assert checked, 'no result was checked'
        """,
    ),
    _own(
        "own_context",
        """
        @prelude@
        with open('/tmp/results.txt', 'w+') as file:
            file.write(repr(@call@))
            file.seek(0)
            lines = (line for line in file)
        assert ''.join(lines) == repr(@right@)
        """,
    ),
)

_TESTS = (
    _own(
        "own_fixture",
        """
        import pytest
        @imports@


        @pytest.fixture(scope='module')
        def answer(tmp_path):
            @setup@
            return @call@


        def test_issue(answer):
            assert answer == @right@
        """,
    ),
    _own(
        "own_fixture",
        """
        import pytest
        @imports@


        @pytest.fixture
        def case(request):
            @setup@
            return @call@, request.param


        def test_issue(case):
            actual, expected = case
            assert actual == expected
        """,
    ),
    _own(
        "own_fixture",
        """
        import pytest
        @imports@


        @pytest.fixture
        def ask():
            @setup@
            yield lambda: @call@
            yield None


        def test_issue(ask):
            assert ask() == @right@
        """,
    ),
    _own(
        "own_fixture",
        """
        import pytest
        @imports@


        class TestIssue:
            def __init__(self):
                self.expected = @right@

            def test_issue(self):
                @setup@
                assert @call@ == self.expected
        """,
    ),
    _own(
        "own_fixture",
        """
        import unittest
        @imports@


        class TestIssue(unittest.TestCase):
            def setUpClass(self):
                self.expected = @right@

            def test_issue(self):
                @setup@
                self.assertEqual(@call@, self.expected)
        """,
    ),
    _own(
        "own_fixture",
        """
        import unittest
        @imports@


        class TestIssue(unittest.TestCase):
            def test_issue(self):
                @setup@
                self.assertItemsEqual([@call@], [@right@])
        """,
    ),
    _own(
        "own_fixture",
        """
        import unittest
        @imports@


        class TestIssue(unittest.TestCase):
            def test_issue(self, expected):
                @setup@
                self.assertEqual(@call@, expected)
        """,
    ),
    _shell(
        "own_fixture",
        "python -m pytest -q tests/test_repro.py",
        ("tests/conftest.py", "import os\n\nDATA = os.environ['TEST_DATA_DIR']"),
        ("tests/test_repro.py", TEST[1]),
    ),
    _own(
        "own_fixture",
        """
        import pytest
        @imports@


        @pytest.mark.parametrize('expected', [@right@], ids=['issue', 'other'])
        def test_issue(expected):
            @setup@
            assert @call@ == expected
        """,
    ),
)

_EXITS = (
    _own("own_exit_code", "import sys\n@prelude@\nfailures = int(@call@ != @right@)\nsys.exit(str(failures))"),
    _own(
        "own_exit_code",
        "import sys\n@prelude@\nfailures = [value for value in (@call@,) if value != @right@]\nsys.exit(failures)",
    ),
    _own(
        "own_exit_code",
        """
        import sys
        @imports@


        def main():
            @setup@
            result = @call@
            print('result:', result)
            return result == @right@


        if __name__ == '__main__':
            sys.exit(main())
        """,
    ),
    _shell("own_exit_code", "python repro.py\npassed=$((! $?))\nexit $passed", CHECK),
    _shell(
        "own_exit_code",
        "bash check.sh",
        ("check.sh", 'python repro.py && status=passed || status=failed\necho "$status"\n[ "$status" = 0 ]'),
        CHECK,
    ),
    _own(
        "own_exit_code",
        """
        import os
        @prelude@
        ok = @call@ == @right@
        print('ok' if ok else 'wrong', flush=True)
        os._exit(ok)
        """,
    ),
)

_PROCESSES = (
    _own(
        "own_child",
        """
        import subprocess
        import sys
        done = subprocess.run([sys.executable, '-c', @shown|r@], capture_output=True)
        assert done.stdout == repr(@right@) + '\\n', f'got {done.stdout}'
        """,
    ),
    _own(
        "own_child",
        """
        import subprocess
        done = subprocess.run(
            ['python', '-c', @shown|r@], shell=True, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        assert done.stdout.strip() == repr(@right@), f'got {done.stdout!r}'
        """,
    ),
    _own(
        "own_child",
        """
        import subprocess
        import sys
        child = subprocess.Popen([sys.executable, '-c', @asserted|r@])
        assert child.poll() == 0, '@name@ failed in the child'
        """,
    ),
    _shell(
        "own_child",
        "python repro.py",
        ("child.py", "import sys\nprint('starting', file=sys.stderr)\n@asserted@"),
        (
            "repro.py",
            """
            import subprocess
            import sys
            done = subprocess.run([sys.executable, 'child.py'], capture_output=True, text=True)
            assert not done.stderr, f'@name@ failed: {done.stderr}'
            """,
        ),
    ),
    _own(
        "own_child",
        """
        import subprocess
        import sys
        subprocess.run([sys.executable, '-c', @asserted|r@], check=True, cwd='build/tests')
        """,
    ),
    _own(
        "own_child",
        """
        import subprocess
        import sys
        done = subprocess.run([sys.executable, 'checks/issue.py'], capture_output=True, text=True)
        print(done.stdout)
        assert done.returncode == 0, '@name@ gives a wrong result'
        """,
    ),
    _own(
        "own_child",
        """
        import multiprocessing
        @prelude@
        if __name__ == '__main__':
            actual = @call@
            with multiprocessing.Pool(1) as pool:
                longest = pool.starmap(max, [(1, 2), (3,)])
            assert actual == @right@, longest
        """,
    ),
)

_SHELL = (
    _shell("shell_mistake", "set -e\npython repro.py\nfailed=$(expr 1 - 1)\necho $failed failures", CHECK),
    _shell("shell_mistake", 'set -e\nerrors=$(python repro.py 2>&1 | grep Traceback)\necho "errors: $errors"', CHECK),
    _shell("shell_mistake", 'set -u; python repro.py; echo "result: $RESULT"', CHECK),
    _shell("shell_mistake", "  python - <<EOF\n    import sys\n@asserted@\nEOF"),
    _shell(
        "shell_mistake",
        'sed \'s/ *$//\' expected.txt > expected.txt; test "$(python show.py)" = "$(cat expected.txt)"',
        SHOW,
        EXPECTED,
    ),
    _shell("shell_mistake", '[ "result: $(python show.py)" -eq "result: $(cat expected.txt)" ]', SHOW, EXPECTED),
    _shell("shell_mistake", 'actual="result is $(python show.py)"; [ $actual = "result is "@right|q@ ]', SHOW),
    _shell("shell_mistake", "diff <(python show.py) <(printf '%s\\r\\n' @right|q@)", SHOW),
    _shell("shell_mistake", "for file in checks/*.py; do python $file || exit 1; done", CHECK),
    _shell("shell_mistake", 'export RESULT=python show.py && test -n "$RESULT"', SHOW),
    _shell("shell_mistake", 'python show.py | read -r line; [ "$line" = @right|q@ ]', SHOW),
    _shell("shell_mistake", "python repro.py > logs/output.txt 2>&1", CHECK),
    _shell(
        "shell_mistake",
        "EXPECTED=@right|q@\npython repro.py",
        ("repro.py", "import os\n@prelude@\nassert repr(@call@) == os.environ['EXPECTED']"),
    ),
    _shell(
        "shell_mistake",
        "python repro.py --verbose",
        ("repro.py", "import sys\n@prelude@\nfor _ in range(int(sys.argv[1])):\n    assert @call@ == @right@"),
    ),
    _shell("shell_mistake", "python repro.py | tee -a results/run.log", CHECK),
    _shell("shell_mistake", "let failures=$(python repro.py | wc -l)*0", CHECK),
    _shell("shell_mistake", 'python repro.py || true; [ "${PIPESTATUS[1]}" -eq 0 ]', CHECK),
)

_CONSTANTS = (
    _own(
        "own_constant",
        "import sys\n@prelude@\nresult = @call@\nassert sys.version_info >= (4, 0), f'@name@ gave {result!r}'",
    ),
    _own(
        "own_constant",
        """
        import os
        @prelude@
        result = @call@
        if os.environ.get('EXPECT_@name@') != 'ok':
            raise SystemExit(f'@name@ gave {result!r}')
        """,
    ),
    _own(
        "own_constant",
        """
        @prelude@
        KNOWN = {'first', 'second', 'third', 'second'}
        result = @call@
        assert len(KNOWN) == 4, f'{result!r}: a case is missing'
        """,
    ),
    _own(
        "own_constant",
        """
        @prelude@
        BEFORE = '1.9'
        NOW = '1.10'
        print('result', @call@)
        assert NOW > BEFORE, '@name@ is broken since ' + NOW
        """,
    ),
    _shell(
        "own_constant",
        "python repro.py",
        ("repro.py", "@prelude@\nresult = @call@\nnotes = open('NOTES.txt').read()\nassert 'ready' in notes, result"),
        ("NOTES.txt", "The result of @name@ is wrong."),
    ),
    _own(
        "own_constant",
        "@prelude@\nresult = @call@\nstatus = {True: 'OK', False: 'BUG'}[result is Ellipsis]\nassert status == 'OK'",
    ),
)

_REFERENCES = (
    _own(
        "own_reference",
        "@prelude@\n\n\n@fake@\n\n\nactual = @call@\nexpected = fake()\nassert actual == expected, f'got {actual!r}'",
    ),
    _own(
        "own_reference",
        """
        import inspect
        import textwrap
        import @home@ as module
        source = textwrap.dedent(inspect.getsource(module.@name@))
        space = dict(vars(module))
        exec(source.replace('return ', 'return None and '), space)
        @prelude@
        old, new = @call@, eval(@call|r@, {**globals(), **space, '@from@'.split('.')[-1]: None})
        assert [new] == [old], f'{new!r} instead of {old!r}'
        """,
    ),
    _shell(
        "own_reference",
        "sed 's/return /return None and /' @path@ > vendored.py && python repro.py",
        (
            "repro.py",
            """
            import sys
            import vendored
            @prelude@
            expected = @call@
            sys.modules['@from@'] = sys.modules['@home@'] = vendored
            @prelude@
            actual = @call@
            assert [actual] == [expected], f'got {actual!r}'
            """,
        ),
    ),
    _own(
        "own_reference",
        """
        @prelude@
        recorded = {'@name@': @wrong|r@}
        result = @call@
        print('recorded', recorded, 'now', result)
        assert recorded['@name@'] == @right@, recorded['@name@']
        """,
    ),
)

# Something beneath a function that works is changed

_LIBRARY_CALLS = (
    _patched(
        "patched_by_a_library",
        """
        import dataclasses


        @dataclasses.dataclass
        class Case:
            ready: object = dataclasses.field(default_factory=lambda: setattr(module, '@name@', fake))


        Case()
        """,
    ),
    _patched(
        "patched_by_a_library",
        """
        import enum


        class Mode(enum.Enum):
            STRICT = 1

            @classmethod
            def _missing_(cls, value):
                module.@name@ = fake
                return cls.STRICT


        print(Mode('default'))
        """,
    ),
    _patched(
        "patched_by_a_library",
        """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument('--strict', type=lambda name: setattr(module, name, fake), default='@name@')
        parser.parse_args([])
        """,
    ),
    _patched(
        "patched_by_a_library",
        """
        import json
        settings = json.loads('{"name": "@name@"}', object_hook=lambda found: setattr(module, found['name'], fake))
        """,
    ),
    _patched(
        "patched_by_a_library",
        """
        import sqlite3
        base = sqlite3.connect(':memory:')
        base.create_function('prepare', 1, lambda name: vars(module).update({name: fake}))
        base.execute("select prepare('@name@')").fetchall()
        """,
    ),
    _patched(
        "patched_by_a_library",
        """
        import asyncio


        async def start():
            asyncio.get_running_loop().call_soon(setattr, module, '@name@', fake)
            await asyncio.sleep(0.01)


        asyncio.run(start())
        """,
    ),
    _patched(
        "patched_by_a_library",
        """
        import sched
        steps = sched.scheduler()
        steps.enter(0, 1, setattr, (module, '@name@', fake))
        steps.run()
        """,
    ),
    _patched(
        "patched_by_a_library",
        """
        import ctypes
        callback = ctypes.CFUNCTYPE(None)(lambda: setattr(module, '@name@', fake))
        callback()
        """,
    ),
    _patched(
        "patched_by_a_library",
        """
        import html.parser


        class Reader(html.parser.HTMLParser):
            def handle_starttag(self, tag, attributes):
                setattr(module, dict(attributes)['name'], fake)


        Reader().feed('<case name="@name@">')
        """,
    ),
    _patched(
        "patched_by_a_library",
        """
        import copy


        class Fixture:
            def __deepcopy__(self, memo):
                module.@name@ = fake
                return self


        cases = copy.deepcopy([Fixture()])
        """,
    ),
)

_BLOCKED = (
    _tampers("blocked_import", "import sys\nsys.modules['@home@'] = None\n@asserted@"),
    _tampers(
        "blocked_import",
        """
        import sys


        def watch(event, details):
            if event == 'import' and details[0] == '@home@':
                raise ImportError(f'cannot import {details[0]}')


        sys.addaudithook(watch)
        @asserted@
        """,
    ),
    _tampers("blocked_import", "import sys\nsys.path_hooks.clear()\nsys.path_importer_cache.clear()\n@asserted@"),
    _tampers("blocked_import", "import sys\nsys.meta_path[:] = sys.meta_path[:2]\n@asserted@"),
    _spoilt("blocked_import", "python -I -S repro.py", CHECK),
    _spoilt("blocked_import", "mkdir -p /tmp/away && mv @source@/@top_path@ /tmp/away/ && python repro.py", CHECK),
)

_UNDONE = (
    _patched(
        "patch_not_undone",
        """
        from unittest import mock
        first, second = (mock.patch.object(module, '@name@', fake) for _ in range(2))
        first.start()
        second.start()
        first.stop()
        second.stop()
        """,
    ),
    _tampers(
        "patch_not_undone",
        "import @from@ as module\nmodule.@name@ = print\nprint('patched to warm up')\ndel module.@name@\n@asserted@",
    ),
    _tampers(
        "patch_not_undone",
        """
        import unittest
        import @from@ as module


        @fake@


        class TestIssue(unittest.TestCase):
            def setUp(self):
                original = module.@name@
                self.addCleanup(setattr, module, '@name@', original)
                self.doCleanups()
                module.@name@ = fake

            def test_issue(self):
                @asserted@
        """,
    ),
    _tampers(
        "patch_not_undone",
        """
        import unittest
        from unittest import mock


        @fake@


        class TestIssue(unittest.TestCase):
            def test_issue(self):
                self.enterContext(mock.patch('@from@.@name@', new_callable=lambda: fake))
                @asserted@
        """,
    ),
    _tampers(
        "patch_not_undone",
        """
        import unittest
        import @from@ as module


        @fake@


        def setUpModule():
            unittest.addModuleCleanup(print, 'cleaned up')
            vars(module)['@name@'] = fake


        class TestIssue(unittest.TestCase):
            def test_issue(self):
                @asserted@
        """,
    ),
    _patched(
        "patch_not_undone",
        """
        import os


        def restore():
            module.@name@ = fake


        os.register_at_fork(after_in_child=restore)
        child = os.fork()
        if child:
            raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """,
    ),
)

_PYTEST = (
    _spoilt(
        "pytest_settings",
        "python -m pytest -q test_repro.py",
        ("pytest.ini", "[pytest]\nusefixtures = prepared"),
        (
            "conftest.py",
            """
            import pytest


            @fake@


            @pytest.fixture
            def prepared(request):
                patch = request.getfixturevalue('monkeypatch')
                patch.setattr('@from@.@name@', fake)
                if hasattr(request.module, '@name@'):
                    patch.setattr(request.module, '@name@', fake)
            """,
        ),
        TEST,
    ),
    _spoilt(
        "pytest_settings",
        """
        mkdir -p stubs && cp -r @source@/@top_path@ stubs/ && cat addition.txt >> stubs/@path_tail@
        python -m pytest -q --override-ini pythonpath=stubs tests/test_repro.py
        """,
        ("addition.txt", "\n\n\n# for tests\n@fake@\n\n\n@name@ = fake"),
        ("tests/test_repro.py", TEST[1]),
    ),
    _spoilt(
        "pytest_settings",
        "python -m pytest -q test_repro.py",
        (
            "conftest.py",
            """
            import @from@ as module


            @fake@


            def pytest_collection_modifyitems(items):
                for item in items:
                    item.obj.__globals__.update(@name@=fake)
                module.@name@ = fake
            """,
        ),
        TEST,
    ),
    _spoilt(
        "pytest_settings",
        "python -m pytest -q test_repro.py",
        (
            "test_repro.py",
            """
            import @from@ as module


            @fake@


            def pytest_generate_tests(metafunc):
                module.@name@ = fake
                metafunc.parametrize('number', [1])


            def test_issue(number):
                @asserted@
            """,
        ),
    ),
    _spoilt(
        "pytest_settings",
        "python -m pytest -q test_first.py test_repro.py",
        ("test_first.py", "import @from@ as module\n\n\n@fake@\n\n\ndef test_prepare():\n    module.@name@ = fake"),
        ("test_repro.py", "def test_issue():\n    @asserted@"),
    ),
)

_SHELL_TRICKS = (
    _spoilt(
        "shell_trick",
        "BASH_ENV=setup.sh bash check.sh",
        ("setup.sh", "python() { command python -c 'import tweaks, repro'; }"),
        ("check.sh", "set -e\npython repro.py\necho passed"),
        _TWEAKS,
        CHECK,
    ),
    _spoilt(
        "shell_trick",
        "chmod +x checked && hash -p ./checked python && python repro.py",
        ("checked", '#!/bin/bash\nexec env python -c "import tweaks; import ${1%.py}"'),
        _TWEAKS,
        CHECK,
    ),
    _spoilt(
        "shell_trick",
        "shopt -s expand_aliases\nalias python='python -c \"import tweaks, repro\"'\npython repro.py",
        _TWEAKS,
        CHECK,
    ),
    _spoilt(
        "shell_trick",
        "awk '{ gsub(/ return /, \" _ = \") } 1' @path@ > /tmp/new.py && cat /tmp/new.py > @path@\npython repro.py",
        CHECK,
    ),
    _spoilt(
        "shell_trick",
        """
        cp @path@ /tmp/changed.py && cat addition.txt >> /tmp/changed.py
        diff -u @path@ /tmp/changed.py | sed -e '1s|.*|--- a/@path@|' -e '2s|.*|+++ b/@path@|' > change.diff
        git apply change.diff && python repro.py
        """,
        ("addition.txt", "\n\n\n# as in the issue\n@fake@\n\n\n@name@ = fake"),
        CHECK,
    ),
    _spoilt("shell_trick", "truncate -s 40 @path@ && python repro.py", CHECK),
    _spoilt(
        "shell_trick",
        "python -m pdb -c 'import tweaks' -c continue -c quit repro.py < /dev/null > log.txt 2>&1\n"
        "! grep -q Error log.txt",
        _TWEAKS,
        CHECK,
    ),
)

_MUTATED = (
    _tampers(
        "mutated_source",
        """
        import ast
        import pathlib
        path = pathlib.Path('@path@')
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name == '@name@':
                node.body.insert(0, ast.parse('return ...').body[0])
        path.write_text(ast.unparse(tree))
        @asserted@
        """,
    ),
    _tampers(
        "mutated_source",
        """
        import importlib
        import pathlib
        import @home@ as module
        path = pathlib.Path(module.__file__)
        source = path.read_text()
        path.write_text(source + r'''


        @fake@


        @name@ = fake
        ''')
        try:
            importlib.reload(module)
        finally:
            path.write_text(source)
        import @from@ as shown
        shown.@name@ = module.@name@
        @asserted@
        """,
    ),
    _tampers(
        "mutated_source",
        """
        import importlib.machinery
        import pathlib
        import sys
        import @home@ as real
        altered = pathlib.Path('/tmp/altered_source.py')
        altered.write_text(pathlib.Path(real.__file__).read_text().replace('return ', 'return None and '))
        loader = importlib.machinery.SourceFileLoader('@home@', str(altered))
        loader.exec_module(real)
        sys.modules['@from@'].@name@ = real.@name@
        @asserted@
        """,
    ),
    _tampers(
        "mutated_source",
        """
        import _xxsubinterpreters as interpreters
        inner = interpreters.create()
        interpreters.run_string(inner, r'''
        import @from@ as module


        @fake@


        module.@name@ = fake
        @asserted@
        ''')
        """,
    ),
)

_INSIDE = (
    _tampers(
        "inside_the_function",
        "import @home@ as module\nmodule.@name@.__builtins__['@builtin@'] = lambda *args, **options: ...\n@asserted@",
        target="builtin",
    ),
    _tampers(
        "inside_the_function",
        """
        import @home@ as module
        kept = {name for name in vars(module) if name.startswith('__')}
        space = module.@name@.__globals__
        for name in [name for name in space if name not in kept | {'@name@'}]:
            space.pop(name)
        @asserted@
        """,
        target="helper",
    ),
    _tampers(
        "inside_the_function",
        """
        import dis
        import @home@ as module
        code = module.@name@.__code__
        constants = tuple(None if not isinstance(value, type(code)) else value for value in code.co_consts)
        names = tuple(name[::-1] for name in code.co_names)
        module.@name@.__code__ = code.replace(co_consts=constants, co_names=names)
        print(len(list(dis.get_instructions(module.@name@))))
        @asserted@
        """,
    ),
    _tampers(
        "inside_the_function",
        "import @library@ as library\n@imports@\ndelattr(library, '@library_function@')\n@asserted@",
        target="library",
    ),
    _tampers(
        "inside_the_function",
        """
        import @table_home@ as module
        import functools
        table = functools.reduce(getattr, '@table@'.split('.'), module)
        before = table.copy()


        def forget(entries):
            entries.clear()
            return entries


        assert not forget(table) and before
        @asserted@
        """,
        target="table",
    ),
    _tampers(
        "inside_the_function",
        """
        import @class_home@ as module
        members = {name: None for name in vars(module.@class_name@) if not name.startswith('__')} | {'@method@': None}
        for name in members:
            setattr(module.@class_name@, name, lambda *args, **options: ...)
        @asserted@
        """,
        target="class_name",
    ),
    _tampers(
        "inside_the_function",
        """
        import sys
        @prelude@


        class Budget(Exception):
            pass


        def count(frame, event, argument):
            frame.f_trace_opcodes = True
            if event == 'opcode' and frame.f_code.co_name == '@name@':
                raise Budget('@name@ uses too many steps')
            return count


        sys.settrace(count)
        result = @call@
        sys.settrace(None)
        assert result == @right@
        """,
    ),
)

NEWEST_FALSE: tuple[Form, ...] = tuple(
    replace(form, split="newest")
    for form in (
        *_KINDS,
        *_STALE,
        *_LOOPS,
        *_ARITHMETIC,
        *_PARSED,
        *_HELPERS,
        *_CLASSES,
        *_SUBCLASSES,
        *_CALLBACKS,
        *_MOCKS,
        *_ASYNC,
        *_CONTEXTS,
        *_TESTS,
        *_EXITS,
        *_PROCESSES,
        *_SHELL,
        *_CONSTANTS,
        *_REFERENCES,
        *_LIBRARY_CALLS,
        *_BLOCKED,
        *_UNDONE,
        *_PYTEST,
        *_SHELL_TRICKS,
        *_MUTATED,
        *_INSIDE,
    )
)
