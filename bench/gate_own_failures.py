"""False claims that fail by themselves: they call a function that works, and then something of their own goes wrong.

Every form is about a target of gate_targets.py. What fails looks like the issue's symptom where it can.
"""

from __future__ import annotations

from gate_forms import Form, Needs, TargetNeeds, in_halves


def _script(
    kind: str, body: str, command: str = "python repro.py", *, target: TargetNeeds = "any", needs: Needs = ""
) -> Form:
    path = "test_repro.py" if "def test_" in body else "repro.py"
    if path == "test_repro.py" and command == "python repro.py":
        command = "python -m unittest test_repro" if "unittest" in body else "python -m pytest -q test_repro.py"
    return _files(kind, command, (path, body), target=target, needs=needs)


def _files(kind: str, command: str, *files: tuple[str, str], target: TargetNeeds = "any", needs: Needs = "") -> Form:
    return Form(kind, "false", command, files, needs, target=target, family="own failure", must_fail=True)


_REBOUND = (
    _script(
        "rebound_name",
        "import os\n@prelude@\nresult = @call@\nresult = os.path.basename('/tmp/result')\n"
        "assert result == @right@, f'got {result!r}'",
    ),
    _script(
        "rebound_name",
        'import json\n@prelude@\nresult = @call@\nfor result in json.loads(\'["first", "second"]\'):\n    pass\n'
        "assert result == @right@, f'got {result!r}'",
    ),
    _script(
        "rebound_name",
        "import re\n@prelude@\nresult = @call@\nif (result := re.sub('a', 'b', 'banana')) != @right@:\n"
        "    raise SystemExit(f'wrong result: {result!r}')",
    ),
    _script(
        "rebound_name",
        "@prelude@\n@name@ = str.upper\nresult = @name@('value')\nassert result == @right@, f'got {result!r}'",
    ),
    _script(
        "rebound_name",
        "import hashlib\n@prelude@\nresult = @call@\nwith open(__file__, 'rb') as result:\n"
        "    result = hashlib.sha1(result.read()).hexdigest()\nassert result == @right@, result",
    ),
    _script(
        "rebound_name",
        "import textwrap\n@prelude@\n\n\ndef check(result):\n    result = textwrap.shorten('some other text', 9)\n"
        "    return result\n\n\nactual = check(@call@)\nassert actual == @right@, actual",
    ),
    _script(
        "rebound_name",
        "import math\n@imports@\n\n\ndef test_issue():\n    @setup@\n    result = @call@\n    result = math.sqrt(2)\n"
        "    assert result == @right@",
    ),
    _script(
        "rebound_name",
        "from collections import Counter as @name@\nresult = @name@('hello')\nassert result == @right@, result",
    ),
)

_OWN_RAISE = (
    _script(
        "own_raise",
        "import sys\nimport traceback\n@prelude@\ntry:\n    result = @call@\n    raise @wrong_type@(@wrong|r@)\n"
        "except @wrong_type@:\n    traceback.print_exc()\n    sys.exit(1)",
        needs="raises",
    ),
    _script(
        "own_raise",
        "@prelude@\ntry:\n    print(@call@)\nexcept Exception:\n    raise\nelse:\n    raise ValueError(@symptom|r@)",
    ),
    _script(
        "own_raise",
        "@prelude@\ntry:\n    result = @call@\n    if result:\n        raise RuntimeError(f'unexpected {result!r}')\n"
        "    raise RuntimeError('nothing came back')\nfinally:\n    print('done')",
    ),
    _script(
        "own_raise",
        "@prelude@\n\n\ndef check():\n    try:\n        result = @call@\n        raise @wrong_type@(@wrong|r@)\n"
        "    except @wrong_type@ as error:\n        raise AssertionError('@name@ failed') from error\n\n\ncheck()",
        needs="raises",
    ),
    _script(
        "own_raise",
        "import contextlib\n@prelude@\nwith contextlib.ExitStack() as stack:\n"
        "    stack.callback(lambda: {}['@name@'])\n    result = @call@",
    ),
    _script(
        "own_raise",
        "import logging\n@prelude@\ntry:\n    result = @call@\n    raise @wrong_type@(@wrong|r@)\n"
        "except Exception as error:\n    logging.exception('@name@ crashed')\n    raise SystemExit(f'{error}')",
        needs="raises",
    ),
)

_EVAL = (
    _script("eval_constant", "@prelude@\nresult = @call@\nassert eval('1 + 1 == 3'), f'got {result!r}'"),
    _script("eval_constant", "@prelude@\nresult = @call@\nexec('assert False, \"wrong result\"')"),
    _script(
        "eval_constant",
        "import ast\n@prelude@\nresult = @call@\nactual = ast.literal_eval(@wrong|r@)\n"
        "assert actual == @right@, f'got {actual!r}'",
        needs="wrong value",
    ),
    _script(
        "eval_constant",
        "@prelude@\nresult = @call@\nspace = {'result': result}\nactual = eval(@wrong|r@, space)\n"
        "assert actual == @right@, f'got {actual!r}'",
        needs="wrong value",
    ),
    _script(
        "eval_constant",
        "@prelude@\nresult = @call@\ncode = compile('raise @wrong_type@(' + repr(@wrong|r@) + ')', '@path@', 'exec')\n"
        "exec(code)",
        needs="raises",
    ),
    _script(
        "eval_constant",
        "import json\n@prelude@\nprint(@call@)\nactual = json.loads('{\"result\": null}')['result']\n"
        "assert actual is not None, '@name@ gives None'",
    ),
)

_OWN_VALUE = (
    _script("own_value", "@prelude@\nresult = @call@\ncases = ['first', 'second']\nassert len(cases) == 3, cases"),
    _script("own_value", "@prelude@\nseen = []\nresult = @call@\nassert seen, f'@name@ called nothing: {result!r}'"),
    _script(
        "own_value",
        "@prelude@\nactual, expected = @wrong@, @right@\nprint(@call@)\nassert actual == expected, f'got {actual!r}'",
        needs="wrong value",
    ),
    _script(
        "own_value",
        "import unittest\n@imports@\n\n\nclass TestIssue(unittest.TestCase):\n    def test_issue(self):\n"
        "        @setup@\n"
        "        result = @call@\n        broken = result != @right@\n        self.assertTrue(broken is not False)",
    ),
    _script(
        "own_value",
        "import pytest\n@imports@\n\n\n@pytest.mark.parametrize('actual', [@wrong@])\ndef test_issue(actual):\n"
        "    @setup@\n    print(@call@)\n    assert actual == @right@",
        needs="wrong value",
    ),
    _script(
        "own_value",
        "from dataclasses import dataclass\n@prelude@\n\n\n@dataclass\nclass Case:\n    result: object = None\n"
        "    passed: bool = False\n\n\ncase = Case(@call@)\nassert case.passed, f'got {case.result!r}'",
    ),
    _script(
        "own_value",
        "@prelude@\nerrors = 0\ntry:\n    result = @call@\n    errors += 1\nexcept Exception:\n    errors += 1\n"
        "raise SystemExit(errors)",
    ),
    _script(
        "own_value",
        "@prelude@\nhistory = {'before': @right@, 'after': @wrong@}\nprint('now:', @call@)\n"
        "if history['before'] != history['after']:\n    raise SystemExit('regression: ' + repr(history['after']))",
        needs="wrong value",
    ),
)

_LIBRARY = (
    _script("library_misuse", "@prelude@\nresult = @call@\nprint(int(f'{result!r} items'))"),
    _script("library_misuse", "import re\n@prelude@\nresult = @call@\nassert re.match('(' + repr(result)[:0], 'x')"),
    _script(
        "library_misuse",
        "import json\n@prelude@\nresult = @call@\nprint(json.dumps({'result': result, 'kind': type(result)}))",
    ),
    _script(
        "library_misuse",
        "import struct\n@prelude@\nresult = @call@\nstruct.unpack('>I', repr(result).encode() + b'..')",
    ),
    _script(
        "library_misuse",
        "import subprocess\n@prelude@\nresult = @call@\nsubprocess.check_output(['grep', '-q', 'x', '/dev/null'])",
    ),
    _script("library_misuse", "import decimal\n@prelude@\nresult = @call@\nprint(decimal.Decimal(f'{result!r}..'))"),
    _script("library_misuse", "@prelude@\nresult = @call@\nprint('{0} gives {1}'.format(result))"),
    _script(
        "library_misuse",
        "import importlib.metadata\n@prelude@\nresult = @call@\nprint(importlib.metadata.version('@top@-extras'))",
    ),
)

_OWN_CODE = (
    _script(
        "own_class",
        "import @class_home@ as module\n\n\nclass Own(module.@class_name@):\n    def __init__(self):\n        pass\n\n"
        "    def check(self):\n        return self.missing_part\n\n\nOwn().check()",
        target="class_name",
    ),
    _script(
        "own_class",
        "import @class_home@ as module\n\n\nclass Own(module.@class_name@):\n    def __new__(cls, *args):\n"
        "        raise NotImplementedError('to be written')\n\n\nprint(Own())",
        target="class_name",
    ),
    _script(
        "own_class",
        "@prelude@\n\n\nclass Checker:\n    def __init__(self, result):\n        self.result = result\n\n"
        "    def verify(self):\n        raise AssertionError(f'got {self.result!r}')\n\n\nChecker(@call@).verify()",
    ),
    _script(
        "own_class",
        "@prelude@\n\n\nclass Always:\n    def __eq__(self, other):\n        return False\n\n\nresult = @call@\n"
        "expected = Always()\nassert result == expected, f'got {result!r}'",
    ),
    _script(
        "own_callback",
        "@prelude@\n\n\nclass OwnError(Exception):\n    pass\n\n\nclass Own:\n    def __getattr__(self, name):\n"
        "        raise OwnError(name)\n\n    def __iter__(self):\n        raise OwnError('iter')\n\n"
        "    __str__ = __len__ = __int__ = __bool__ = __float__ = __index__ = __repr__ = __iter__\n"
        "    __eq__ = __lt__ = __gt__ = __add__ = __contains__ = __getitem__ = lambda self, other: self.__iter__()\n"
        "    __hash__ = None\n\n\ntry:\n    @call_own@\nexcept OwnError:\n    raise\nexcept Exception:\n    pass",
    ),
    _script(
        "own_callback",
        "@prelude@\n\n\nclass Broken(Exception):\n    pass\n\n\nclass Own(str):\n"
        "    def __getattribute__(self, name):\n"
        "        raise Broken(f'no {name}')\n\n    def __len__(self):\n        raise Broken('length')\n\n"
        "    def __iter__(self):\n        raise Broken('iteration')\n\n    __str__ = __len__\n\n\n"
        "try:\n    print(@call_own@)\nexcept Broken as error:\n    raise SystemExit(f'@name@ failed: {error}')\n"
        "except Exception:\n    pass",
    ),
    _script(
        "own_callback",
        "import @decorator_home@ as module\n\n\ndef callback():\n    raise ValueError('inside the callback')\n\n\n"
        "module.@decorator@(callback)()",
    ),
    _script(
        "own_callback",
        "@prelude@\nresults = sorted([@call@] * 3, key=lambda value: {}[repr(value)])\nassert results",
    ),
)

_AFTER = (
    _script("after_success", "import os\n@asserted@\nos.remove('/tmp/case_that_was_never_written')"),
    _script("after_success", "import atexit\nimport os\n@asserted@\natexit.register(os._exit, 1)"),
    _script("after_success", "@asserted@\nprint('result', result, 'differs', flush=True)\n__import__('sys').exit(1)"),
    _script(
        "after_success",
        "import unittest\n@imports@\n\n\nclass TestIssue(unittest.TestCase):\n    def tearDown(self):\n"
        "        self.folder.cleanup()\n\n    def test_issue(self):\n        @setup@\n        @in_unittest@",
    ),
    _script(
        "after_success",
        "import pytest\n@imports@\n\n\n@pytest.fixture\ndef folder():\n    yield '/tmp'\n"
        "    raise OSError('not empty')\n\n\n"
        "def test_issue(folder):\n    @setup@\n    @in_pytest@",
    ),
    _script("after_success", "@asserted@", "python repro.py && test -s report.txt"),
    _script("after_success", "@asserted@", "set -e; python repro.py; diff expected.txt actual.txt"),
    _script(
        "after_success",
        "import threading\nimport os\n@asserted@\nthreading.excepthook = lambda args: os._exit(1)\n"
        "worker = threading.Thread(target=lambda: 1 / 0)\nworker.start()\nworker.join()",
    ),
)

_TESTS = (
    _script(
        "own_test",
        "import unittest\n@imports@\n\n\nclass TestIssue(unittest.TestCase):\n    def setUp(self):\n"
        "        self.data = open('tests/fixtures/data.json').read()\n\n    def test_issue(self):\n        @setup@\n"
        "        @in_unittest@",
    ),
    _script(
        "own_test",
        "import pytest\n@imports@\n\n\ndef test_issue():\n    @setup@\n    print(@call@)\n"
        "    with pytest.raises(ValueError):\n        int('3')",
    ),
    _script(
        "own_test",
        "import unittest\n@imports@\n\n\nclass TestIssue(unittest.TestCase):\n    def test_issue(self):\n"
        "        @setup@\n"
        "        for number in range(3):\n            with self.subTest(number=number):\n"
        "                print(@call@)\n"
        "                self.assertEqual(number, 0)",
    ),
    _script(
        "own_test",
        "import pytest\n@imports@\n\n\n@pytest.mark.xfail(strict=True)\ndef test_issue():\n    @setup@\n"
        "    @in_pytest@",
    ),
    _files(
        "own_test",
        "python -m doctest issue.txt",
        ("issue.txt", "The function is broken.\n\n@session@\n\n>>> len('abc')\n4\n"),
    ),
    _files(
        "own_test",
        "python -m pytest -q --doctest-glob='*.txt' issue.txt",
        ("issue.txt", "The function is broken.\n\n@session@\n\n>>> sorted([3, 1, 2])\n[3, 2, 1]\n"),
    ),
)

_FORGED = (
    _script(
        "forged_traceback",
        "import sys\nimport @home@ as module\n@prelude@\nprint(@call@)\n"
        "print('Traceback (most recent call last):', file=sys.stderr)\n"
        "print(f'  File \"{module.__file__}\", line 12, in @name@', file=sys.stderr)\n"
        "print(@symptom|r@, file=sys.stderr)\nsys.exit(1)",
        needs="raises",
    ),
    _script(
        "forged_traceback",
        "import @home@ as module\n@prelude@\nprint(@call@)\n"
        "code = compile('raise @wrong_type@(' + repr(@wrong|r@) + ')', "
        "module.__file__, 'exec')\nexec(code, vars(module).copy())",
        needs="raises",
    ),
    _script(
        "forged_traceback",
        "import types\n@prelude@\nimport @home@ as module\n\n\ndef @name@_inner():\n"
        "    raise @wrong_type@(@wrong|r@)\n\n\n"
        "print(@call@)\ncode = @name@_inner.__code__.replace(co_filename=module.__file__, co_name='@name@')\n"
        "types.FunctionType(code, vars(module))()",
        needs="raises",
    ),
    _script(
        "forged_traceback",
        "import sys\n@prelude@\nframe = None\n\n\ndef watch(current, event, _):\n    global frame\n"
        "    if current.f_code.co_name == '@name@':\n        frame = current\n\n\nsys.setprofile(watch)\n"
        "result = @call@\n"
        "sys.setprofile(None)\nimport types\ntrace = types.TracebackType(None, frame, 0, frame.f_code.co_firstlineno)\n"
        "raise @wrong_type@(@wrong|r@).with_traceback(trace)",
        needs="raises",
    ),
)

_CONCURRENT = (
    _script(
        "own_concurrency",
        "from concurrent.futures import ProcessPoolExecutor\n@prelude@\nif __name__ == '__main__':\n"
        "    with ProcessPoolExecutor(1) as pool:\n        print(pool.submit(lambda: @call@).result())",
    ),
    _script(
        "own_concurrency",
        "import asyncio\n@prelude@\n\n\nasync def main():\n    result = @call@\n"
        "    await asyncio.wait_for(asyncio.sleep(5), 0.01)\n    return result\n\n\nasyncio.run(main())",
    ),
    _script(
        "own_concurrency",
        "import queue\nimport threading\n@prelude@\nresults = queue.Queue()\n"
        "worker = threading.Thread(target=lambda: @call@)\nworker.start()\nworker.join()\n"
        "print(results.get(timeout=0.1))",
    ),
    _script(
        "own_concurrency",
        "import asyncio\n@prelude@\n\n\nasync def main():\n    return await @call@\n\n\nasyncio.run(main())",
    ),
)

_SHELL = (
    _script("own_shell_check", "@prelude@\nprint(@call@)", "python repro.py | grep -q 'all tests passed'"),
    _script("own_shell_check", "@prelude@\nprint(@call@)", 'test "$(python repro.py | wc -l)" -eq 7'),
    _script(
        "own_shell_check", "@asserted@", "python repro.py && python -c 'import sys; sys.exit(\"@name@ is broken\")'"
    ),
    _script("own_shell_check", "@asserted@", "test -n \"$(python repro.py 2>&1)\" || { echo '@name@ fails'; exit 1; }"),
    _files(
        "own_shell_check",
        "bash check.sh",
        ("check.sh", "set -u\npython repro.py\nif [ $? -eq 0 ]; then echo FAIL; exit 1; fi"),
        ("repro.py", "@asserted@"),
    ),
    _files(
        "own_shell_check",
        "bash check.sh",
        ("check.sh", "set -e\npython repro.py > out.txt\ngrep -q reproduced out.txt"),
        ("repro.py", "@asserted@"),
    ),
)

_WARNINGS = (
    _script("own_warning", "import warnings\n@asserted@\nwarnings.warn('@name@ is wrong')", "python -W error repro.py"),
    _script(
        "own_warning",
        "import warnings\n@prelude@\nwarnings.simplefilter('error')\nresult = @call@\n"
        "warnings.warn(f'@name@ gave {result!r}', RuntimeWarning)",
    ),
)

OWN_FAILURES = in_halves(
    (
        *_REBOUND,
        *_OWN_RAISE,
        *_EVAL,
        *_OWN_VALUE,
        *_LIBRARY,
        *_OWN_CODE,
        *_AFTER,
        *_TESTS,
        *_FORGED,
        *_CONCURRENT,
        *_SHELL,
        *_WARNINGS,
    )
)
