"""Forms of the third set, `fresh`: written after both halves of the others had been looked at.

False ones tamper or fail by themselves, as in gate_tampering.py and gate_own_failures.py, and are about a target that
works. True ones are as in gate_true_forms.py. Nobody who works on the gate's rules reads this file.
"""

from __future__ import annotations

from dataclasses import replace

from gate_forms import Family, Form, Needs, TargetNeeds


def _false(
    family: Family, kind: str, command: str, *files: tuple[str, str], target: TargetNeeds = "any", needs: Needs = ""
) -> Form:
    return Form(kind, "false", command, files, needs, target=target, family=family, must_fail=True)


def _run(body: str) -> tuple[str, str]:
    """Where a script lies, and the command that runs it."""
    if "def test_" not in body:
        return "repro.py", "python repro.py"
    runner = "python -m unittest test_repro" if "unittest" in body else "python -m pytest -q test_repro.py"
    return "test_repro.py", runner


def _tampers(kind: str, body: str, command: str = "", *, target: TargetNeeds = "any", needs: Needs = "") -> Form:
    path, run = _run(body)
    return _false("tampering", kind, command or run, (path, body), target=target, needs=needs)


def _patched(kind: str, change: str, *, target: TargetNeeds = "any", needs: Needs = "") -> Form:
    """A script that changes `module` with `fake` and then checks."""
    return _tampers(kind, f"import @from@ as module\n\n\n@fake@\n\n\n{change}\n@asserted@", target=target, needs=needs)


def _spoilt(kind: str, command: str, *files: tuple[str, str], target: TargetNeeds = "any", needs: Needs = "") -> Form:
    return _false("tampering", kind, command, *files, target=target, needs=needs)


def _own(kind: str, body: str, command: str = "", *, target: TargetNeeds = "any", needs: Needs = "") -> Form:
    path, run = _run(body)
    return _false("own failure", kind, command or run, (path, body), target=target, needs=needs)


def _shell(kind: str, command: str, *files: tuple[str, str], needs: Needs = "") -> Form:
    return _false("own failure", kind, command, *files, needs=needs)


def _true(kind: str, body: str, command: str = "", needs: Needs = "value", *, exit_zero: bool = False) -> Form:
    path, run = _run(body)
    return _shows(kind, command or run, (path, body), needs=needs, exit_zero=exit_zero)


def _shows(kind: str, command: str, *files: tuple[str, str], needs: Needs = "value", exit_zero: bool = False) -> Form:
    return Form(kind, "true", command, files, needs, exit_zero=exit_zero, family="hard to see")


_CHECK = ("repro.py", "@asserted@")
_SHOW = ("show.py", "@shown@")
_EXPECTED = ("expected.txt", "@right@")
_TEST = ("test_repro.py", "import pytest\n@imports@\n\n\ndef test_issue():\n    @setup@\n    @in_pytest@")
_HELPER = "import @from@ as module\n\n\n@fake@\n\n\nmodule.@name@ = fake"
_ASK = "def ask():\n    @setup@\n    return @call@\n"
_ALTER = (
    "import pathlib\nsource = pathlib.Path('@path@').read_text()\n"
    "altered = source + '\\n\\n' + r'''@fake@\n''' + '\\n\\n\\n@name@ = fake\\n'\n"
)

# False: something beneath a function that works is changed

_CALLBACKS = (
    _patched(
        "callback_patch",
        "import os\nimport signal\nsignal.signal(signal.SIGUSR1, lambda *_: vars(module).update(@name@=fake))\n"
        "os.kill(os.getpid(), signal.SIGUSR1)",
    ),
    _patched(
        "callback_patch",
        "import gc\n\n\ndef tidy(phase, info):\n    module.@name@ = fake\n\n\ngc.callbacks.append(tidy)\ngc.collect()",
    ),
    _patched(
        "callback_patch",
        "import warnings\n\n\ndef show(*details, **options):\n    module.@name@ = fake\n\n\n"
        "warnings.showwarning = show\nwarnings.warn('starting the case')",
    ),
    _patched(
        "callback_patch",
        "import sys\nsys.addaudithook(lambda event, details: event == 'case.start' and setattr(*details))\n"
        "sys.audit('case.start', module, '@name@', fake)",
    ),
    _patched(
        "callback_patch",
        "import codecs\n\n\ndef lenient(error):\n    module.__dict__['@name@'] = fake\n    return '?', error.end\n\n\n"
        "codecs.register_error('lenient', lenient)\nprint('caf\\xe9'.encode('ascii', 'lenient'))",
    ),
    _patched(
        "callback_patch",
        "import re\nre.sub('x', lambda found: module.__setattr__('@name@', fake) or '', 'xyz')",
    ),
    _patched(
        "callback_patch",
        "import logging\n\n\nclass Handler(logging.Handler):\n    def emit(self, record):\n"
        "        setattr(*record.args)\n\n\nlogging.getLogger().addHandler(Handler())\n"
        "logging.error('%s %s %s', module, '@name@', fake)",
    ),
)

_MAGIC = (
    _patched(
        "magic_method_patch",
        "class Prepared:\n    def __set_name__(self, owner, name):\n        module.@name@ = fake\n\n\n"
        "class Case:\n    prepared = Prepared()",
    ),
    _patched(
        "magic_method_patch",
        "class Scratch:\n    def __del__(self):\n        vars(module)['@name@'] = fake\n\n\n"
        "scratch = Scratch()\nscratch = None",
    ),
    _patched(
        "magic_method_patch",
        "class Label:\n    def __format__(self, spec):\n        module.@name@ = fake\n        return spec\n\n\n"
        "print(f'{Label():issue}')",
    ),
    _patched(
        "magic_method_patch",
        "class Base:\n    def __init_subclass__(cls, **changes):\n        vars(module).update(changes)\n\n\n"
        "class Case(Base, @name@=fake):\n    pass",
    ),
    _patched(
        "magic_method_patch",
        "class Swap:\n    def __set__(self, case, value):\n        module.@name@ = value\n\n\n"
        "class Case:\n    answer = Swap()\n\n\nCase().answer = fake",
    ),
    _patched(
        "magic_method_patch",
        "import pickle\n\n\ndef restore(name):\n    setattr(module, name, fake)\n\n\nclass State:\n"
        "    def __reduce__(self):\n        return restore, ('@name@',)\n\n\npickle.loads(pickle.dumps(State()))",
    ),
)

_CLASS = "import @class_home@ as module\n"
_CLASSES = (
    _tampers(
        "class_patch",
        _CLASS + "\n\nclass Other:\n    def __call__(self, *args, **options):\n        return Ellipsis\n\n\n"
        "module.@class_name@.__new__ = lambda cls, *args, **options: Other()\n@asserted@",
        target="class_name",
    ),
    _tampers(
        "class_patch",
        _CLASS + "real = module.@class_name@.__getattribute__\n\n\ndef look_up(self, name):\n"
        "    if name in ('@method@', '__dict__') or not name.startswith('__'):\n"
        "        raise AttributeError(f'no attribute {name!r}')\n    return real(self, name)\n\n\n"
        "module.@class_name@.__getattribute__ = look_up\n@asserted@",
        target="class_name",
    ),
    _tampers(
        "class_patch",
        _CLASS + "\n\nclass Base(*module.@class_name@.__bases__):\n    def @method@(self, *args, **options):\n"
        "        raise NotImplementedError('@method@')\n\n\ndel module.@class_name@.@method@\n"
        "if module.@class_name@.__bases__ != (object,):\n    module.@class_name@.__bases__ = (Base,)\n@asserted@",
        target="class_name",
    ),
    _tampers(
        "class_patch",
        "import functools\n" + _CLASS + "\n\nclass Cached:\n    def __init__(self, function):\n"
        "        functools.update_wrapper(self, function)\n\n    def __get__(self, owner, kind=None):\n"
        "        return functools.partial(self, owner)\n\n    def __call__(self, *args, **options):\n"
        "        return None\n\n\nold = getattr(module.@class_name@, '@method@')\n"
        "type.__setattr__(module.@class_name@, '@method@', Cached(old))\n"
        "assert getattr(module.@class_name@, '@method@') is not None\n@asserted@",
        target="class_name",
    ),
)

_MEMORY = (
    _patched(
        "memory_write",
        "import ctypes\ncode = ctypes.py_object(fake.__code__)\nctypes.pythonapi.Py_IncRef(code)\n"
        "# func_code of a function object\nctypes.py_object.from_address(id(module.@name@) + 48).value = code.value",
    ),
    _tampers(
        "memory_write",
        "import ctypes\nimport @home@ as module\nvalues = ctypes.py_object((Ellipsis,) * @defaults@)\n"
        "ctypes.pythonapi.Py_IncRef(values)\n# func_defaults of a function object\n"
        "ctypes.py_object.from_address(id(module.@name@) + 56).value = values.value\n@asserted@",
        target="defaults",
    ),
    _tampers(
        "memory_write",
        "import ctypes\nimport gc\n@prelude@\nmethods = gc.get_referents(str.__dict__)[0]\n"
        "kept = {name: methods[name] for name in ('lower', 'upper', 'join', 'split', 'replace', 'strip', 'isalpha')}\n"
        "methods.update(dict.fromkeys(kept, lambda *args, **options: None))\n"
        "ctypes.pythonapi.PyType_Modified(ctypes.py_object(str))\ntry:\n    result = @call@\nfinally:\n"
        "    methods.update(kept)\n    ctypes.pythonapi.PyType_Modified(ctypes.py_object(str))\n"
        "assert result == @right@, f'got {result!r}'",
    ),
    _tampers(
        "memory_write",
        "import ctypes\nimport @home@ as module\n\n\n@fake@\n\n\nspace = ctypes.py_object(vars(module))\n"
        "ctypes.pythonapi.PyDict_Update(space, ctypes.py_object({'@helper@': fake}))\n@asserted@",
        target="helper",
    ),
    _patched(
        "memory_write",
        "import ctypes\nspace = ctypes.py_object({**vars(module), '@name@': fake})\n"
        "ctypes.pythonapi.Py_IncRef(space)\n# md_dict of a module object\n"
        "ctypes.py_object.from_address(id(module) + 16).value = space.value",
    ),
)

_FRAMES = (
    _tampers(
        "frame_write",
        "import sys\n@prelude@\n\n\ndef trace(frame, event, argument):\n    if frame.f_code.co_name == '@name@':\n"
        "        for name in frame.f_locals:\n            frame.f_locals[name] = None\n\n\nsys.settrace(trace)\n"
        "result = @call@\nsys.settrace(None)\nassert result == @right@, f'got {result!r}'",
    ),
    _tampers(
        "frame_write",
        "import bdb\n@prelude@\n\n\nclass Debugger(bdb.Bdb):\n    def user_call(self, frame, arguments):\n"
        "        if frame.f_code.co_name == '@name@':\n            frame.f_globals.update(\n"
        "                {name: None for name, value in frame.f_globals.items() if callable(value)}\n"
        "            )\n            frame.f_locals.update(dict.fromkeys(frame.f_locals))\n\n\ndebugger = Debugger()\n"
        "result = debugger.runeval(@call|r@, globals(), globals())\nassert result == @right@, f'got {result!r}'",
    ),
)

_SOURCES = (
    _tampers(
        "rewritten_source",
        "import ast\nimport inspect\nimport @home@ as module\n\n\nclass Swap(ast.NodeTransformer):\n"
        "    def visit_Return(self, node):\n        return ast.copy_location(ast.Return(ast.Constant(...)), node)\n\n\n"
        "tree = ast.parse(inspect.getsource(module.@name@))\ntree.body[0].decorator_list = []\n"
        "tree = ast.fix_missing_locations(Swap().visit(tree))\nexec(compile(tree, module.__file__, 'exec'), "
        "vars(module))\nimport @from@ as shown\nshown.@name@ = module.@name@\n@asserted@",
    ),
    _spoilt(
        "rewritten_source",
        "python prepare.py && ln -sf /tmp/altered.py @path@ && python repro.py",
        ("prepare.py", _ALTER + "pathlib.Path('/tmp/altered.py').write_text(altered)"),
        _CHECK,
    ),
    _spoilt(
        "rewritten_source",
        "perl -0pi -e 's/\\breturn\\b(?! None)/return None and/g' @path@ && python repro.py; status=$?; "
        "git checkout -q -- @path@ 2>/dev/null; exit $status",
        _CHECK,
    ),
    _spoilt(
        "rewritten_source",
        "printf '%s\\n' '$a' \"$(cat addition.txt)\" . w q | ed -s @path@ && python -m pytest -q test_repro.py",
        ("addition.txt", "\n\n@fake@\n\n\n@name@ = fake"),
        _TEST,
    ),
    _spoilt(
        "rewritten_source",
        "mkdir -p /tmp/tree && tar -cf - --exclude=.venv --exclude=.git . | tar -xf - -C /tmp/tree\n"
        "(cd /tmp/tree && cat addition.txt >> @path@)\n"
        "python -c \"import os, sys; os.chdir('/tmp/tree'); sys.path[:0] = ['@source@']; import repro\"",
        ("addition.txt", "\n\n@fake@\n\n\n@name@ = fake"),
        _CHECK,
    ),
)

_LOADING = (
    _tampers(
        "import_tricks",
        _ALTER + "import importlib.machinery\nimport os\nimport sys\n\n\n"
        "class Quick(importlib.machinery.SourceFileLoader):\n    def get_code(self, name):\n"
        "        if self.path.endswith('@path_tail@'):\n            return compile(altered, self.path, 'exec')\n"
        "        return super().get_code(name)\n\n\nfolder = os.path.abspath('@source@')\n"
        "for place in (folder, os.path.dirname(os.path.abspath('@path@'))):\n"
        "    sys.path_importer_cache[place] = importlib.machinery.FileFinder(place, (Quick, ['.py']))\n@asserted@",
    ),
    _spoilt(
        "import_tricks",
        "(cd @source@ && python -m zipfile -c /tmp/old.zip @top_path@) && python prepare.py && "
        "PYTHONPATH=/tmp/new.zip python checks/repro.py",
        (
            "prepare.py",
            _ALTER + "import zipfile\n"
            "with zipfile.ZipFile('/tmp/old.zip') as old, zipfile.ZipFile('/tmp/new.zip', 'w') as new:\n"
            "    for name in old.namelist():\n"
            "        new.writestr(name, altered if name == '@path_tail@' else old.read(name))",
        ),
        ("checks/repro.py", "@asserted@"),
    ),
    _spoilt(
        "import_tricks",
        "python repro.py",
        (
            "@library@.py",
            "import sys\n\n\ndef __getattr__(name):\n    if name.startswith('__'):\n"
            "        raise AttributeError(name)\n    return lambda *args, **options: None",
        ),
        (
            "repro.py",
            "import sys\nsys.modules.pop('@library@', None)\n@asserted@",
        ),
        target="library",
    ),
    _spoilt(
        "import_tricks",
        "PYTHONBREAKPOINT=tweaks.install python repro.py",
        ("tweaks.py", "import @from@ as module\n\n\n@fake@\n\n\ndef install():\n    module.@name@ = fake"),
        ("repro.py", "breakpoint()\n@asserted@"),
    ),
    _tampers(
        "import_tricks",
        "import sys\nimport @from@ as module\n\n\n@fake@\n\n\nreal = module.@name@\n"
        "for name, loaded in list(sys.modules.items()):\n"
        "    if name.partition('.')[0] == '@top@' and getattr(loaded, '@name@', None) is real:\n"
        "        loaded.__dict__.update(dict.fromkeys(['@name@'], fake))\n@asserted@",
    ),
    _tampers(
        "import_tricks",
        "import runpy\nimport sys\nimport @from@ as module\n\n\n@fake@\n\n\n"
        "checks = r'''\nmodule.@name@ = fake\n@asserted@\n'''\nopen('/tmp/checks.py', 'w').write(checks)\n"
        "runpy.run_path('/tmp/checks.py', {'module': module, 'fake': fake}, '__main__')",
    ),
    _spoilt(
        "import_tricks",
        "ENVIRONMENT=test python repro.py",
        (
            "settings/__init__.py",
            "import importlib\nimport os\n\nimportlib.import_module('settings.' + os.environ['ENVIRONMENT'])",
        ),
        ("settings/test.py", _HELPER),
        ("repro.py", "import settings\n@asserted@"),
    ),
)

_PYTEST_TRICKS = (
    _spoilt(
        "pytest_tricks",
        "python -m pytest -q test_repro.py",
        ("shared/__init__.py", ""),
        ("shared/plugin.py", _HELPER),
        ("conftest.py", "pytest_plugins = ['shared.plugin']"),
        _TEST,
    ),
    _spoilt(
        "pytest_tricks",
        "python -m pytest -q test_repro.py",
        (
            "conftest.py",
            "import pytest\nimport @from@ as module\n\n\n@fake@\n\n\n@pytest.hookimpl(hookwrapper=True)\n"
            "def pytest_pyfunc_call(pyfuncitem):\n    pyfuncitem.function.__globals__['@name@'] = fake\n"
            "    module.@name@ = fake\n    yield",
        ),
        _TEST,
    ),
    _tampers(
        "pytest_tricks",
        "import pytest\n\n\n@fake@\n\n\nwith pytest.MonkeyPatch.context() as patch:\n"
        "    patch.setattr('@from@.@name@', fake)\n    @asserted@",
        "python repro.py",
    ),
    _tampers(
        "pytest_tricks",
        "import sys\n\n\ndef test_issue(tmp_path, monkeypatch):\n    package = tmp_path / '@top@'\n"
        "    package.mkdir()\n    (package / '__init__.py').write_text(\n"
        "        'import sys\\nsys.modules[__name__].__getattr__ = lambda name: print\\n'\n    )\n"
        "    for name in [name for name in sys.modules if name.partition('.')[0] == '@top@']:\n"
        "        monkeypatch.delitem(sys.modules, name)\n    monkeypatch.syspath_prepend(tmp_path)\n    @asserted@",
    ),
    _tampers(
        "pytest_tricks",
        "import @home@ as module\n\n\ndef test_issue(monkeypatch):\n    monkeypatch.delattr(module, '@helper@')\n"
        "    @asserted@",
        target="helper",
    ),
)

_OTHER_RUNNERS = (
    _tampers(
        "other_runner",
        "import timeit\nsetup = r'''\nimport @from@ as module\n\n\n@fake@\n\n\nmodule.@name@ = fake\n'''\n"
        "check = r'''\n@asserted@\n'''\nprint(timeit.timeit(check, setup, number=1))",
    ),
    _spoilt(
        "other_runner", "python -m timeit -n 1 -r 1 -s 'import tweaks' 'import repro'", ("tweaks.py", _HELPER), _CHECK
    ),
    _spoilt(
        "other_runner",
        "python -m doctest issue.txt",
        (
            "issue.txt",
            "The issue\n\n>>> import @from@ as module\n>>> module.@name@ = lambda *args, **options: Ellipsis\n"
            "@session@\n",
        ),
    ),
    _tampers(
        "other_runner",
        "import code\nimport sys\nspace = {}\nshell = code.InteractiveInterpreter(space)\n"
        "shell.runcode(compile(r'''\n" + _HELPER + "\n''', 'input', 'exec'))\n"
        "shell.runcode(compile(r'''\n@prelude@\nresult = @call@\n''', 'input', 'exec'))\n"
        "sys.exit(0 if space.get('result', Ellipsis) == @right@ else 'wrong result')",
    ),
    _tampers(
        "other_runner",
        "import unittest\nimport @from@ as module\n\n\n@fake@\n\n\nclass TestIssue(unittest.TestCase):\n"
        "    def test_issue(self):\n        @asserted@\n\n\ndef load_tests(loader, tests, pattern):\n"
        "    module.@name@ = fake\n    return tests",
    ),
    _tampers(
        "other_runner",
        "import unittest\nfrom unittest import mock\nimport types\n\n\n@fake@\n\n\n"
        "stub = types.ModuleType('@from@')\nstub.@name@ = fake\n\n\n@mock.patch.dict('sys.modules', {'@from@': stub})\n"
        "class TestIssue(unittest.TestCase):\n    def test_issue(self):\n        @asserted@",
    ),
    _spoilt(
        "other_runner",
        "python -q -i < session.txt 2>&1 | tee log.txt; grep -q '^passed' log.txt",
        ("session.txt", "import @from@ as module\nmodule.@name@ = lambda *args, **options: Ellipsis\nimport repro\n"),
        ("repro.py", "@asserted@\nprint('passed')"),
    ),
)

_CONTEXTS = (
    _patched(
        "context_patch",
        "import contextlib\n\n\nclass Strict(contextlib.ContextDecorator):\n    def __enter__(self):\n"
        "        self.old = module.@name@\n        module.@name@ = fake\n\n    def __exit__(self, *error):\n"
        "        module.@name@ = self.old\n\n\nStrict().__enter__()",
    ),
    _tampers(
        "context_patch",
        "import contextlib\nimport @from@ as module\n\n\n@fake@\n\n\nwith contextlib.ExitStack() as stack:\n"
        "    stack.callback(vars(module).__setitem__, '@name@', module.@name@)\n    vars(module)['@name@'] = fake\n"
        "    @asserted@",
    ),
    _tampers(
        "context_patch",
        "import builtins\nimport contextlib\n@prelude@\n\n\n@contextlib.contextmanager\ndef without(name):\n"
        "    kept = getattr(builtins, name)\n    delattr(builtins, name)\n    try:\n        yield\n    finally:\n"
        "        setattr(builtins, name, kept)\n\n\nwith without('@builtin@'):\n    result = @call@\n"
        "assert result == @right@",
        target="builtin",
    ),
    _tampers(
        "context_patch",
        "import @library@ as library\n@imports@\nreal = library.@library_function@\n\n\n"
        "def counted(*args, **options):\n    counted.calls += 1\n    if counted.calls > 0:\n"
        "        raise OverflowError('too many calls')\n    return real(*args, **options)\n\n\ncounted.calls = 0\n"
        "library.__dict__['@library_function@'] = counted\n@setup@\nresult = @call@\nassert result == @right@",
        target="library",
    ),
    _tampers(
        "context_patch",
        "import @table_home@ as module\ntable = module.@table@\nkept = table.copy()\nwhile table:\n"
        "    table.popitem() if isinstance(table, dict) else table.pop()\n"
        "try:\n    @asserted@\nfinally:\n    print(len(kept), 'entries kept')",
        target="table",
    ),
    _tampers(
        "context_patch",
        "import threading\nimport @from@ as module\n\n\n@fake@\n\n\nbarrier = threading.Barrier(2)\n\n\n"
        "def other():\n    vars(module).update(@name@=fake)\n    barrier.wait()\n\n\n"
        "threading.Thread(target=other).start()\nbarrier.wait()\n@asserted@",
    ),
)

# False: something of the claim's own goes wrong

_NAMES = (
    _own(
        "lost_name",
        "@prelude@\nresult = @call@\ntry:\n    int('twelve')\nexcept ValueError as result:\n    print(result)\n"
        "assert result == @right@",
    ),
    _own(
        "lost_name",
        "@prelude@\nresult = @call@\nmatch {'kind': 'case', 'value': 12}:\n    case {'value': result}:\n"
        "        print('checking')\nassert result == @right@, f'got {result!r}'",
    ),
    _own(
        "lost_name",
        "@prelude@\nresult = @call@\nlengths = [result := len(word) + 1000 for word in ('alpha', 'beta')]\n"
        "assert result == @right@, f'got {result!r}'",
    ),
    _own(
        "lost_name",
        "@imports@\nresult = None\n\n\ndef check():\n    @setup@\n    if result is None:\n        result = @call@\n"
        "    assert result == @right@\n\n\ncheck()",
    ),
    _own(
        "lost_name",
        "@imports@\n\n\ndef run():\n    @setup@\n    result = @call@\n\n    def log():\n        nonlocal result\n"
        "        result = f'@name@ gives {result!r}'\n        print(result)\n\n    log()\n    return result\n\n\n"
        "assert run() == @right@",
    ),
    _own(
        "lost_name",
        "@prelude@\n\n\nclass Case:\n    result = @call@\n    expected = @right@\n"
        "    checks = [result == expected for _ in range(1)]\n\n\nassert all(Case.checks)",
    ),
    _own(
        "lost_name",
        "@prelude@\nresult = @call@\nexpected = @right@\nfor name in list(globals()):\n"
        "    if not name.startswith('_') and name not in ('name', 'expected'):\n        del globals()[name]\n"
        "assert result == expected",
    ),
)

_CONTAINERS = (
    _own(
        "overwritten_value",
        "@prelude@\nresults = {'issue': @call@}\nresults |= {'issue': 'pending', 'other': 1}\n"
        "assert results['issue'] == @right@, results",
    ),
    _own(
        "overwritten_value",
        "@prelude@\nchecks = [lambda: value for value in (@call@, 'the last one')]\nactual = checks[0]()\n"
        "assert actual == @right@, f'got {actual!r}'",
    ),
    _own(
        "overwritten_value",
        "@prelude@\nresults = iter([@call@])\nprint('results:', list(results))\n"
        "assert list(results) == [@right@], 'the result is missing'",
    ),
    _own(
        "overwritten_value",
        "@prelude@\nresults = [@call@, 'extra']\nresults.sort(key=lambda value: value != 'extra')\n"
        "if results[0] != @right@:\n    raise SystemExit(f'wrong result {results[0]!r}')",
    ),
    _own(
        "overwritten_value",
        "from collections import ChainMap\n@prelude@\nactual = ChainMap({}, {'value': @call@})\n"
        "actual['value'] = len(actual) * 1000\nassert actual['value'] == @right@, dict(actual)",
    ),
    _own(
        "overwritten_value",
        "@prelude@\nresults = [@call@ for _ in range(3)]\nfor index in range(len(results) + 1):\n"
        "    assert results[index] == @right@, index",
    ),
)

_FORGOTTEN = (
    _own(
        "forgotten",
        "import functools\n@imports@\n\n\ndef timed(function):\n    @functools.wraps(function)\n    def wrapper():\n"
        "        value = function()\n        print('took', value is None)\n\n    return wrapper\n\n\n@timed\n"
        + _ASK
        + "\n\nresult = [ask()]\nassert result == [@right@], f'got {result!r}'",
    ),
    _own(
        "forgotten",
        "import asyncio\n@imports@\n\n\nasync def ask():\n    @setup@\n    return @call@\n\n\nasync def main():\n"
        "    result = ask()\n    assert result == @right@, f'got {result!r}'\n\n\nasyncio.run(main())",
    ),
    _own(
        "forgotten",
        "@imports@\n\n\nclass Case:\n    def answer(self):\n        @setup@\n        return @call@\n\n\n"
        "result = Case().answer\nassert result == @right@, f'got {result!r}'",
    ),
    _own(
        "forgotten",
        "@imports@\n\n\ndef ask():\n    @setup@\n    yield @call@\n\n\nresult = ask()\n"
        "assert result == @right@, f'got {result!r}'",
    ),
    _own(
        "forgotten",
        "import unittest\n@imports@\n\n\nclass TestIssue(unittest.TestCase):\n    def setup(self):\n        @setup@\n"
        "        self.result = @call@\n\n    def test_issue(self):\n        self.assertEqual(self.result, @right@)",
    ),
    _own(
        "forgotten",
        "import pytest\n@imports@\n\n\n@pytest.fixture\ndef answer():\n    @setup@\n    return @call@\n\n\n"
        "def test_issue():\n    assert answer() == @right@",
    ),
    _own(
        "forgotten",
        "def test_issue(capsys):\n    @shown@\n    print('checked', len(capsys.readouterr().out))\n"
        "    assert capsys.readouterr().out.strip() == repr(@right@)",
    ),
)

_SLIPS = (
    _own(
        "own_slip",
        "import subprocess\nimport sys\nshown = subprocess.run([sys.executable, '-c', @shown|r@], capture_output=True, "
        "text=True, check=True)\nassert shown.stdout == repr(@right@), f'got {shown.stdout!r}'",
    ),
    _own(
        "own_slip",
        "import hashlib\n@prelude@\n\n\ndef digest(text):\n    return hashlib.md5(text.encode()).hexdigest()\n\n\n"
        "actual = digest(repr(@call@))\nexpected = digest(repr(@right@) + '\\n')\nassert actual == expected, actual",
    ),
    _own(
        "own_slip",
        "@prelude@\n\n\ndef reference(cases):\n    # the same over all cases\n"
        "    return [expected for expected in cases for _ in cases]\n\n\ncases = [@right@, @right@]\n"
        "assert [@call@ for _ in cases] == reference(cases)",
    ),
    _own(
        "own_slip",
        "@prelude@\npassed = 0\nfor attempt in range(1, 10):\n    passed += @call@ == @right@\nrate = passed / 10\n"
        "assert rate == 1.0, f'only {rate:.0%} of the calls are right'",
    ),
    _own(
        "own_slip",
        "@prelude@\nlines = []\nfor value, expected in ((@call@, @right@),):\n"
        "    lines.append(f'{value!r}={expected!r}')\n"
        "left, right = lines[0].rsplit('=', 1)\nassert left == right + ' ', lines",
    ),
    _own(
        "own_slip",
        "import time\n@prelude@\nstarted = time.time()\nresult = @call@\ntaken = started - time.time()\n"
        "assert taken > 0, f'@name@ did not run: {taken}'",
    ),
    _own(
        "own_slip",
        "import unittest\n@imports@\n\n\nclass TestIssue(unittest.TestCase):\n    def setUp(self):\n"
        "        kind = type(@right@)\n"
        "        self.addTypeEqualityFunc(kind, lambda *pair, msg=None: self.fail(pair))\n\n"
        "    def test_issue(self):\n        @setup@\n        self.assertEqual(@call@, @right@)",
    ),
    _own(
        "own_slip",
        "import tempfile\n@prelude@\nwith tempfile.NamedTemporaryFile('w+') as file:\n    file.write(repr(@call@))\n"
        "    actual = file.read()\nassert actual == repr(@right@), f'got {actual!r}'",
    ),
)

_MISUSE = (
    _own("misused_library", "import json\n@prelude@\nprint(json.loads(str({'result': @call@, 'kind': 'case'})))"),
    _own(
        "misused_library",
        "import re\n@prelude@\nresult = @call@\n"
        "version = re.search(r'^version: (\\d+)', f'result: {result!r}').group(1)\n"
        "assert version",
    ),
    _own(
        "misused_library",
        "from datetime import datetime, timezone\n@prelude@\nstarted = datetime.now(timezone.utc)\nresult = @call@\n"
        "print(result, 'after', datetime.now() - started)",
    ),
    _own(
        "misused_library",
        "import csv\nimport io\n@prelude@\nresult = @call@\n"
        "rows = csv.DictReader(io.StringIO(f'name,result\\n@name@,{len(repr(result))}'))\n"
        "assert all(row['expected'] for row in rows)",
    ),
    _own(
        "misused_library",
        "from string import Template\n@prelude@\nprint(Template('$name gives $value').substitute(name=repr(@call@)))",
    ),
    _own(
        "misused_library",
        "import sqlite3\n@prelude@\nbase = sqlite3.connect(':memory:')\n"
        "base.execute('create table results (value text)')\n"
        "base.execute('insert into results values (?, ?)', (repr(@call@),))",
    ),
    _own(
        "misused_library",
        "import decimal\n@prelude@\ndecimal.getcontext().traps[decimal.Inexact] = True\nresult = @call@\n"
        "print(result, 'took', decimal.Decimal(1) / 3)",
    ),
    _own(
        "misused_library",
        "import locale\n@prelude@\nresult = @call@\nlocale.setlocale(locale.LC_ALL, 'xx_XX.UTF-8')\n"
        "assert result == @right@",
    ),
)

_RAISED = (
    _own(
        "raised_itself",
        "class BugReproduced(Exception):\n    pass\n\n\n@prelude@\ntry:\n    result = @call@\nfinally:\n"
        "    raise BugReproduced(@symptom|r@)",
    ),
    _own(
        "raised_itself",
        "@prelude@\nfor attempt in range(3):\n    if @call@ is NotImplemented:\n        break\nelse:\n"
        "    raise @wrong_type@(@wrong|r@)",
        needs="raises",
    ),
    _own(
        "raised_itself",
        "@imports@\n\n\nclass Session:\n    def __enter__(self):\n        return self\n\n"
        "    def __exit__(self, *details):\n        if details[0] is None:\n"
        "            raise RuntimeError('the session ended early')\n\n\nwith Session():\n    @setup@\n"
        "    result = @call@",
    ),
    _own(
        "raised_itself",
        "@imports@\n\n\ndef answers():\n    @setup@\n    yield @call@\n\n\nrun = answers()\nprint(next(run))\n"
        "run.throw(@wrong_type@(@wrong|r@))",
        needs="raises",
    ),
    _own(
        "raised_itself",
        "@prelude@\n\n\ndef verify(value):\n    match value:\n        case other:\n"
        "            raise AssertionError(f'unexpected result {other!r}')\n\n\nverify(@call@)",
    ),
    _own(
        "raised_itself",
        "import concurrent.futures\n@prelude@\nfuture = concurrent.futures.Future()\nprint(@call@)\n"
        "future.set_exception(@wrong_type@(@wrong|r@))\nfuture.result()",
        needs="raises",
    ),
)

_FORGED = (
    _own(
        "forged_report",
        "import sys\nimport traceback\nimport @home@ as module\n@prelude@\nprint(@call@)\n"
        "frames = [traceback.FrameSummary(module.__file__, 7, '@name@', line='return value')]\n"
        "print('Traceback (most recent call last):')\ntraceback.print_list(frames, file=sys.stdout)\n"
        "print(@symptom|r@)\nsys.exit(1)",
        needs="raises",
    ),
    _own(
        "forged_report",
        "import sys\nimport @home@ as module\n@prelude@\nprint(@call@)\n\n\ndef report(kind, error, trace):\n"
        "    print(f'Traceback (most recent call last):\\n  File \"{module.__file__}\", line 3, in @name@')\n"
        "    print(@symptom|r@)\n\n\nsys.excepthook = report\nraise RuntimeError",
        needs="raises",
    ),
    _own(
        "forged_report",
        "import @home@ as module\n@prelude@\nprint(@call@)\n"
        "raise SyntaxError('invalid syntax', (module.__file__, 1, 1, 'def @name@('))",
    ),
    _shell(
        "forged_report",
        "python repro.py; cat <<'END'\n=== FAILURES ===\nE   AssertionError: assert @wrong@ == @right@\n"
        "FAILED test_repro.py::test_issue\n1 failed in 0.02s\nEND\nexit 1",
        _CHECK,
        needs="wrong value",
    ),
)

_OWN_PROCESSES = (
    _shell("own_process", "timeout 0.001 python repro.py", _CHECK),
    _own(
        "own_process",
        "import subprocess\nimport sys\n@prelude@\nprint(@call@, flush=True)\n"
        "subprocess.run([sys.executable, '-c', 'import time; time.sleep(5)'], timeout=0.1)",
    ),
    _own(
        "own_process",
        "import subprocess\nimport sys\ncode = '''\n    @prelude@\n    print(@call|r@)\n'''\n"
        "subprocess.run([sys.executable, '-c', code], check=True)",
    ),
    _own(
        "own_process",
        "import subprocess\n@prelude@\nprint(@call@)\nsubprocess.run('python -m @top@ --version', check=True)",
    ),
    _own(
        "own_process",
        "import multiprocessing\n@imports@\n\n\ndef ask(queue):\n    @setup@\n    result = @call@\n\n\n"
        "if __name__ == '__main__':\n    queue = multiprocessing.SimpleQueue()\n"
        "    child = multiprocessing.Process(target=ask, args=(queue,))\n    child.start()\n    child.join()\n"
        "    assert not queue.empty(), '@name@ gives nothing'",
    ),
    _own(
        "own_process",
        "import sys\n@prelude@\nprint('\\u2192', @call@)",
        "PYTHONIOENCODING=ascii python repro.py",
    ),
)

_OWN_SHELL = (
    _shell("shell_slip", "set -e; failed=0; python repro.py; ((failed++)); python repro.py", _CHECK),
    _shell("shell_slip", "trap 'exit 3' EXIT; python repro.py && echo passed", _CHECK),
    _shell("shell_slip", "python repro.py & sleep 0.01; kill $!; wait $!", _CHECK),
    _shell("shell_slip", "diff <(python show.py) <(printf '%s' @right|q@)", _SHOW),
    _shell("shell_slip", "python show.py | grep -v '.'", _SHOW),
    _shell("shell_slip", 'cp repro.py /tmp && cd "$(mktemp -d)" && python repro.py', _CHECK),
    _shell("shell_slip", "actual=$(python show.py); expected=@right|q@; [ \"$actual\" = '$expected' ]", _SHOW),
    _shell("shell_slip", "python show.py | tr 'a-z0-9[(' 'b-za1-90([' | diff - expected.txt", _SHOW, _EXPECTED),
    _shell(
        "shell_slip",
        "bash check.sh show.py",
        ("check.sh", 'check() { python "$1"; return 1; }\ncheck "$1" && echo ok'),
        _SHOW,
    ),
)

_OWN_TESTS = (
    _own(
        "test_slip",
        "import unittest\n@imports@\n\n\nclass TestIssue(unittest.TestCase):\n    @unittest.expectedFailure\n"
        "    def test_issue(self):\n        @setup@\n        @in_unittest@",
    ),
    _own(
        "test_slip",
        "import pytest\n@imports@\n\n\n@pytest.mark.parametrize('value, expected', [(1, 2, 3)])\n"
        "def test_issue(value, expected):\n    @setup@\n    @in_pytest@",
    ),
    _own(
        "test_slip",
        "import logging\n@imports@\n\n\ndef test_issue(caplog):\n    @setup@\n    with caplog.at_level(logging.INFO):\n"
        "        logging.debug('result %r', @call@)\n    assert 'result' in caplog.text",
    ),
    _own(
        "test_slip",
        "from unittest import mock\n@prelude@\nspy = mock.Mock()\nspy(@call@)\nspy.reset_mock()\n"
        "spy.assert_called_once_with(@right@)",
    ),
    _shell(
        "test_slip",
        "python -m doctest issue.txt",
        ("issue.txt", "@session@\n>>> print(answer)\n@right@\n"),
    ),
)

_FLAKY = (
    replace(
        _own("own_chance", "import uuid\n@prelude@\nresult = @call@\nassert uuid.uuid4().int % 2, f'got {result!r}'"),
        certain=True,
    ),
    replace(
        _own(
            "own_chance",
            "import random\n@prelude@\ncases = [(@call@, @right@), (1, 2)]\nrandom.shuffle(cases)\n"
            "actual, expected = cases.pop()\nassert actual == expected, actual",
        ),
        certain=True,
    ),
)

# True: the bug shows, in a way that is hard to follow

_DOCTESTS = (
    _true(
        "odd_doctest",
        'class Cases:\n    class Inner:\n        def issue(self):\n            r"""\n            @session@\n'
        '            """'
        "\n\n\nif __name__ == '__main__':\n    import doctest\n    import sys\n"
        "    sys.exit(bool(doctest.testmod(verbose=False)[0]))",
    ),
    _true(
        "odd_doctest",
        "import doctest\n__test__ = {\n    'issue': r'''\n@session@\n'''\n}\nresult = doctest.testmod()\n"
        "assert result.attempted and not result.failed, result",
    ),
    _shows(
        "odd_doctest",
        "python -m unittest checks",
        (
            "checks.py",
            "import doctest\n\n\ndef load_tests(loader, tests, ignored):\n"
            "    tests.addTests(doctest.DocFileSuite('NOTES.md', module_relative=False))\n    return tests",
        ),
        ("NOTES.md", "# Notes\n\nThis is wrong:\n\n@session@\n\nSee the issue.\n"),
    ),
    _true(
        "odd_doctest",
        "import doctest\nimport sys\ntext = r'''\n@session@\n'''\n"
        "test = doctest.DocTestParser().get_doctest(text, {}, 'issue', None, 0)\nrunner = doctest.DocTestRunner()\n"
        "runner.run(test)\nsys.exit(min(runner.failures, 1))",
    ),
)

_SHELL_CHECKS = (
    _shows(
        "odd_shell_check",
        'case "$(python show.py)" in\n  @right|q@) echo fine ;;\n  *) echo "wrong result" >&2; exit 1 ;;\nesac',
        _SHOW,
    ),
    _shows("odd_shell_check", 'grep -qxF -- @right|q@ <<< "$(python show.py)"', _SHOW),
    _shows(
        "odd_shell_check",
        "export WANT=@right|q@\npython show.py | awk '$0 == ENVIRON[\"WANT\"] { found = 1 } END { exit !found }'",
        _SHOW,
    ),
    _shows("odd_shell_check", "python - <<'EOF' | diff - expected.txt\n@shown@\nEOF", _EXPECTED),
    _shows(
        "odd_shell_check",
        'check() {\n  local got\n  got=$(python "$1") || return 1\n  [ "$got" = "$2" ]\n}\ncheck show.py @right|q@',
        _SHOW,
    ),
    _shows(
        "odd_shell_check",
        'python show.py > out.txt\nread -r line < out.txt\nif [[ $line != "$(< expected.txt)" ]]; then\n'
        '  printf "expected %s, got %s\\n" "$(< expected.txt)" "$line"\n  exit 4\nfi',
        _SHOW,
        _EXPECTED,
    ),
    _shows(
        "odd_shell_check",
        "make -s -f check.mk check",
        ("check.mk", "check:\n\tpython repro.py\n"),
        _CHECK,
    ),
)

_CUT = (
    _shows("cut_elsewhere", "python repro.py 2>&1 | sed -n '$p'", _CHECK),
    _shows("cut_elsewhere", "python repro.py 2>&1 | awk 'NR <= 2' | cut -c1-30", _CHECK),
    _shows("cut_elsewhere", "python -m pytest -q test_repro.py 2>&1 | grep -E '^(E |FAILED|[0-9]+ )' | head -5", _TEST),
    _shows("cut_elsewhere", "set -o pipefail; python -m cProfile -o /dev/null repro.py 2>&1 | tail -3", _CHECK),
    _shows("cut_elsewhere", 'env -i PATH="$PATH" HOME=/tmp bash -c "python repro.py" 2> >(tail -1 >&2)', _CHECK),
)

_PROCESSES = (
    _true(
        "more_processes",
        "import multiprocessing\n@imports@\n\n\ndef ask(pipe):\n    @setup@\n    pipe.send(repr(@call@))\n"
        "    pipe.close()"
        "\n\n\nif __name__ == '__main__':\n    here, there = multiprocessing.Pipe()\n"
        "    child = multiprocessing.Process(target=ask, args=(there,))\n    child.start()\n    there.close()\n"
        "    told = here.recv()\n    child.join()\n    assert told == repr(@right@), told",
    ),
    _true(
        "more_processes",
        "import asyncio\nimport sys\n\n\nasync def main():\n    child = await asyncio.create_subprocess_exec(\n"
        "        sys.executable, '-c', @shown|r@, stdout=asyncio.subprocess.PIPE\n    )\n"
        "    told, _ = await child.communicate()\n    return told.decode().strip()\n\n\n"
        "if asyncio.run(main()) != repr(@right@):\n    sys.exit('the child printed something else')",
    ),
    _true(
        "more_processes",
        "import os\n@imports@\n\n\ndef check():\n    @setup@\n    return @call@ == @right@\n\n\nchild = os.fork()\n"
        "if not child:\n    code = 5\n    try:\n        code = 0 if check() else 4\n    finally:\n"
        "        os._exit(code)\n"
        "_, status = os.waitpid(child, 0)\nassert os.WEXITSTATUS(status) == 0, os.WEXITSTATUS(status)",
    ),
    _true(
        "more_processes",
        "from concurrent.futures import ProcessPoolExecutor, as_completed\n@imports@\n\n\n"
        + _ASK
        + "\n\ndef main():\n    failures = []\n    with ProcessPoolExecutor(2) as pool:\n"
        "        for future in as_completed([pool.submit(ask), pool.submit(ask)]):\n"
        "            if future.exception() or future.result() != @right@:\n                failures.append(future)\n"
        "    return len(failures)\n\n\nif __name__ == '__main__':\n    raise SystemExit(main())",
    ),
)

_THREADS = (
    _true(
        "more_threads",
        "import asyncio\n@imports@\n\n\nasync def answers():\n    @setup@\n    yield @call@\n\n\nasync def main():\n"
        "    async for result in answers():\n        assert result == @right@, f'got {result!r}'\n\n\n"
        "asyncio.run(main())",
    ),
    _true(
        "more_threads",
        "import threading\n@imports@\n\n\nclass Worker(threading.Thread):\n    error = None\n\n    def run(self):\n"
        "        try:\n            @setup@\n            assert @call@ == @right@\n"
        "        except BaseException as error:\n"
        "            self.error = error\n\n\nworker = Worker()\nworker.start()\nworker.join()\nif worker.error:\n"
        "    raise worker.error",
    ),
    _true(
        "more_threads",
        "import asyncio\n@imports@\n\n\nasync def produce(queue):\n    @setup@\n    await queue.put(@call@)\n\n\n"
        "async def main():\n    queue = asyncio.Queue()\n    async with asyncio.timeout(3):\n"
        "        await asyncio.gather(produce(queue))\n        return await queue.get()\n\n\n"
        "result = asyncio.run(main())\nassert result == @right@, f'got {result!r}'",
    ),
)

_WRAPPERS = (
    _true(
        "more_wrappers",
        "import functools\n@prelude@\ncases = [(lambda: @call@, @right@), (lambda: len('abc'), 3)]\n"
        "failed = functools.reduce(lambda count, case: count + (case[0]() != case[1]), cases, 0)\n"
        "assert failed == 0, f'{failed} of {len(cases)} cases failed'",
    ),
    _true(
        "more_wrappers",
        "from dataclasses import dataclass\n@imports@\n\n\n@dataclass\nclass Case:\n    expected: object\n\n"
        "    def __post_init__(self):\n        @setup@\n        self.actual = @call@\n"
        "        if self.actual != self.expected:\n            raise ValueError(self)\n\n\nCase(@right@)",
    ),
    _true(
        "more_wrappers",
        "import @module@ as module\n@imports@\n\nbase = vars(module).get('@outer@')\n\n\n"
        "class Own(base if isinstance(base, type) else object):\n    @staticmethod\n    def answer():\n"
        "        @setup@\n"
        "        return @call@\n\n\nassert Own.answer() == @right@, 'wrong answer'",
    ),
    _true(
        "more_wrappers",
        "import functools\n@imports@\n\n\nclass Retry:\n    def __init__(self, times):\n        self.times = times\n\n"
        "    def __call__(self, function):\n        @functools.wraps(function)\n        def wrapper():\n"
        "            for left in reversed(range(self.times)):\n                try:\n"
        "                    return function()\n"
        "                except AssertionError:\n                    if not left:\n                        raise\n\n"
        "        return wrapper\n\n\n@Retry(3)\ndef check():\n    @setup@\n    assert @call@ == @right@\n\n\ncheck()",
    ),
    _true(
        "more_wrappers",
        "import contextlib\n@prelude@\n\n\n@contextlib.contextmanager\ndef step(name):\n    print('start', name)\n"
        "    try:\n        yield\n    except AssertionError as error:\n        error.add_note(f'in step {name}')\n"
        "        raise\n    finally:\n        print('end', name)\n\n\nwith step('issue'):\n"
        "    assert @call@ == @right@",
    ),
    _true(
        "more_wrappers",
        "import argparse\nimport ast\nimport sys\n@prelude@\n\n\ndef main(argv=None):\n"
        "    parser = argparse.ArgumentParser()\n    parser.add_argument('--expect', type=ast.literal_eval)\n"
        "    options = parser.parse_args(argv)\n    actual = @call@\n    print('actual:', actual)\n"
        "    return int(actual != options.expect)\n\n\nif __name__ == '__main__':\n    sys.exit(main())",
        "python repro.py --expect=@right|q@",
    ),
    _shows(
        "more_wrappers",
        "python scripts/run.py",
        (
            "lib/checks.py",
            "def equal(actual, expected):\n    if actual != expected:\n"
            "        raise AssertionError(f'{actual!r} != {expected!r}')",
        ),
        (
            "scripts/run.py",
            "import pathlib\nimport sys\nsys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))\n"
            "import checks\n@prelude@\nchecks.equal(@call@, @right@)",
        ),
    ),
    _true(
        "more_wrappers",
        "@imports@\n\n\ndef session():\n    expected = yield\n    @setup@\n    actual = @call@\n"
        "    yield 'same' if actual == expected else f'different: {actual!r}'\n\n\nrun = session()\nnext(run)\n"
        "match run.send(@right@):\n    case 'same':\n        pass\n    case problem:\n"
        "        raise SystemExit(problem)",
    ),
    _true(
        "more_wrappers",
        "import importlib\nimport sys\nmodule = importlib.import_module('@module@')\nimportlib.invalidate_caches()\n"
        "sys.argv[1:] = ['--check']\n@prelude@\nresult = @call@\nif '--check' in sys.argv and result != @right@:\n"
        "    raise KeyboardInterrupt",
    ),
)

_TESTS = (
    _true(
        "more_tests",
        "from unittest import mock\n@prelude@\nspy = mock.Mock(return_value=None)\n"
        "with mock.patch('time.sleep'), mock.patch.dict('os.environ', {'CASE': 'issue'}):\n    spy(@call@)\n"
        "spy.assert_called_once_with(@right@)",
    ),
    _true(
        "more_tests",
        "import unittest\n@imports@\n\n\nclass TestIssue(unittest.TestCase):\n    pass\n\n\ndef test_made(self):\n"
        "    @setup@\n    self.assertEqual(@call@, @right@)\n\n\nsetattr(TestIssue, 'test_made', test_made)",
    ),
    _true(
        "more_tests",
        "import unittest\n@imports@\n\n\nclass TestIssue(unittest.TestCase):\n    def test_issue(self):\n"
        "        @setup@\n"
        "        pairs = {'len': (len('ab'), 2), 'issue': (@call@, @right@)}\n        for name in pairs:\n"
        "            with self.subTest(name):\n                self.assertEqual(*pairs[name])\n\n"
        "    def tearDown(self):\n"
        "        print('done')",
    ),
    _true(
        "more_tests",
        "import pytest\n@imports@\n\n\n@pytest.fixture\ndef ask(request):\n    def ask():\n        @setup@\n"
        "        return @call@, request.param\n\n    return ask\n\n\n"
        "@pytest.mark.parametrize('ask', [pytest.param(@right@, id='issue')], indirect=True)\ndef test_issue(ask):\n"
        "    actual, expected = ask()\n    assert actual == expected",
    ),
    _true(
        "more_tests",
        "import pytest\n@imports@\n\n\nclass TestIssue:\n    def setup_method(self):\n        @setup@\n"
        "        self.actual = @call@\n\n    def test_issue(self, monkeypatch):\n"
        "        monkeypatch.setenv('CASE', 'issue')\n        if isinstance(self.actual, float):\n"
        "            assert self.actual == pytest.approx(@right@)\n        assert [self.actual] == [@right@]",
    ),
    _true(
        "more_tests",
        "import pytest\n@imports@\n\n\ndef test_issue(capfd):\n    @setup@\n    print('case', repr(@call@), sep=': ')\n"
        "    out, err = capfd.readouterr()\n    assert (out, err) == ('case: ' + repr(@right@) + '\\n', '')",
    ),
    _true(
        "more_tests",
        "import pytest\n@imports@\n\n\ndef test_issue():\n    @setup@\n"
        "    with pytest.raises(ZeroDivisionError, match='division'):\n        1 / (@call@ != @right@)",
    ),
)

_COMPARED = (
    _true(
        "more_comparisons",
        "import contextlib\nimport io\n@prelude@\ncaptured = io.StringIO()\n"
        "with contextlib.redirect_stdout(captured):\n"
        "    print(repr(@call@))\nassert captured.getvalue().splitlines() == [repr(@right@)], captured.getvalue()",
    ),
    _true(
        "more_comparisons",
        "import difflib\nimport pprint\nimport sys\n@prelude@\n"
        "expected, actual = (pprint.pformat(value).splitlines() for "
        "value in (@right@, @call@))\nchanged = [line for line in difflib.ndiff(expected, actual) if line[0] in '+-']\n"
        "sys.stderr.writelines(f'{line}\\n' for line in changed)\nsys.exit(len(changed))",
    ),
    _true(
        "more_comparisons",
        "import json\nimport pathlib\n@prelude@\nfile = pathlib.Path('/tmp/actual.json')\n"
        "file.write_text(json.dumps({'actual': repr(@call@)}))\nactual = json.loads(file.read_text())['actual']\n"
        "assert actual == repr(@right@), actual",
    ),
    _true(
        "more_comparisons",
        "import warnings\n@prelude@\nresult = @call@\nwarnings.simplefilter('error')\nif result != @right@:\n"
        "    warnings.warn(f'wrong result {result!r}', RuntimeWarning)",
    ),
    _true(
        "more_comparisons",
        "import logging\n@prelude@\nlog = logging.getLogger('issue')\nproblems = 0\n"
        "actual, expected = @call@, @right@\n"
        "try:\n    assert type(actual) is type(expected)\n    assert actual == expected\nexcept AssertionError:\n"
        "    log.error('expected %r, got %r', expected, actual)\n    problems += 1\nexit(problems)",
    ),
)

_PRINTED = (
    _true(
        "more_printed",
        "@prelude@\nresult = @call@\nprint(f'{result = }')",
        needs="wrong value",
        exit_zero=True,
    ),
    _true(
        "more_printed",
        "import logging\nimport sys\nlogging.basicConfig(level=logging.INFO, stream=sys.stdout)\n@prelude@\n"
        "logging.info('@function@ gives %r', @call@)",
        needs="wrong value",
        exit_zero=True,
    ),
    _shows(
        "more_printed",
        'echo "Actual: $(python show.py)"; echo "Expected:" @right|q@',
        _SHOW,
        needs="wrong value",
        exit_zero=True,
    ),
    _shows("more_printed", "python show.py 2>&1 || true", _SHOW, needs="raises", exit_zero=True),
)

FRESH: tuple[Form, ...] = tuple(
    replace(form, split="fresh")
    for form in (
        *_CALLBACKS,
        *_MAGIC,
        *_CLASSES,
        *_MEMORY,
        *_FRAMES,
        *_SOURCES,
        *_LOADING,
        *_PYTEST_TRICKS,
        *_OTHER_RUNNERS,
        *_CONTEXTS,
        *_NAMES,
        *_CONTAINERS,
        *_FORGOTTEN,
        *_SLIPS,
        *_MISUSE,
        *_RAISED,
        *_FORGED,
        *_OWN_PROCESSES,
        *_OWN_SHELL,
        *_OWN_TESTS,
        *_FLAKY,
        *_DOCTESTS,
        *_SHELL_CHECKS,
        *_CUT,
        *_PROCESSES,
        *_THREADS,
        *_WRAPPERS,
        *_TESTS,
        *_COMPARED,
        *_PRINTED,
    )
)
