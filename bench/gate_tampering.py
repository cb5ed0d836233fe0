"""False claims that tamper inside the process: something beneath a function that works is changed, then it is checked.

Every form is about a target of gate_targets.py. `module` is where the example has its function from, `fake` what stands
in for it. The check is the one that an honest scout would write, and passes when nothing is changed.
"""

from __future__ import annotations

from gate_forms import Form, Needs, TargetNeeds, in_halves


def script(
    kind: str, body: str, command: str = "python repro.py", *, target: TargetNeeds = "any", needs: Needs = ""
) -> Form:
    """A script that tampers and then checks."""
    return files(kind, command, ("repro.py", body), target=target, needs=needs)


def _patched(kind: str, change: str, *, target: TargetNeeds = "any", needs: Needs = "") -> Form:
    """A script that changes `module` by a statement or two and then checks."""
    return script(kind, f"import @from@ as module\n\n\n@fake@\n\n\n{change}\n@asserted@", target=target, needs=needs)


def files(kind: str, command: str, *files: tuple[str, str], target: TargetNeeds = "any", needs: Needs = "") -> Form:
    return Form(kind, "false", command, files, needs, target=target, family="tampering", must_fail=True)


CHECK = ("repro.py", "@asserted@")
TEST = ("test_repro.py", "import pytest\n@imports@\n\n\ndef test_issue():\n    @setup@\n    @in_pytest@")
RUN_TEST = "python -m pytest -q test_repro.py"
HELPER = "import @from@ as module\n\n\n@fake@\n\n\nmodule.@name@ = fake"

_ALIASED = (
    _patched("aliased_setattr", "s = setattr\ns(module, '@name@', fake)"),
    _patched("aliased_setattr", "import functools\nfunctools.partial(setattr, module)('@name@', fake)"),
    _patched("aliased_setattr", "object.__setattr__(module, '@name@', fake)"),
    _patched("aliased_setattr", "import types\ntypes.ModuleType.__setattr__(module, '@name@', fake)"),
    _patched("aliased_setattr", "list(map(setattr, [module], ['@name@'], [fake]))"),
    _patched("aliased_setattr", "import builtins\ngetattr(builtins, 'set' + 'attr')(module, '@name@', fake)"),
    _patched("aliased_setattr", "for module.@name@ in (fake,):\n    pass"),
    _patched("aliased_setattr", "exec('module.@name@ = fake')"),
    _patched("aliased_setattr", "module.__setattr__('@name@', fake)"),
    _patched("aliased_setattr", "import contextlib\nwith contextlib.nullcontext(fake) as module.@name@:\n    pass"),
    _patched("aliased_setattr", "[module.@name@, *_] = [fake, None]"),
    _patched(
        "aliased_setattr",
        "class Options:\n    put = setattr\n\n\nOptions.put(module, '@name@', fake)",
    ),
)

_TABLE = "import @table_home@ as module\n"
_STATE = (
    script("mutated_state", _TABLE + "module.@table@.clear()\n@asserted@", target="table"),
    script("mutated_state", _TABLE + "table = module.@table@\n@spoil@\n@asserted@", target="table"),
    script(
        "mutated_state",
        "import functools\n" + _TABLE + "owner = functools.reduce(getattr, '@table@'.split('.'), module)\n"
        "for key in list(owner):\n    (owner.pop if isinstance(owner, dict) else owner.remove)(key)\n@asserted@",
        target="table",
    ),
    script("mutated_state", _TABLE + "type(module.@table@).clear(module.@table@)\n@asserted@", target="table"),
    files(
        "mutated_state",
        RUN_TEST,
        (
            "test_repro.py",
            "import pytest\nimport @table_home@ as module\n@imports@\n\n\n@pytest.fixture(autouse=True)\n"
            "def clean():\n    module.@table@.clear()\n\n\ndef test_issue(clean):\n    @setup@\n    @in_pytest@",
        ),
        target="table",
    ),
    files(
        "mutated_state",
        "python -m unittest -q test_repro",
        (
            "test_repro.py",
            "import unittest\nimport @table_home@ as module\n@imports@\n\n\nclass TestIssue(unittest.TestCase):\n"
            "    def setUp(self):\n        table = module.@table@\n        @spoil@\n\n"
            "    def test_issue(self):\n        @setup@\n        @in_unittest@",
        ),
        target="table",
    ),
    script(
        "mutated_state",
        "import gc\nimport operator\n" + _TABLE + "table = operator.attrgetter('@table@')(module)\n"
        "getattr(table, 'clear')()\ngc.collect()\n@asserted@",
        target="table",
    ),
    script(
        "mutated_state",
        "from unittest import mock\n" + _TABLE + "try:\n    guard = mock.patch.dict(module.@table@, clear=True)\n"
        "    guard.start()\nexcept Exception:\n    module.@table@.clear()\n@asserted@",
        target="table",
    ),
)

_NAMESPACE = (
    _patched("module_namespace", "vars(module)['@name@'] = fake"),
    _patched("module_namespace", "module.__dict__['@name@'] = fake"),
    _patched("module_namespace", "module.__dict__.update(@name@=fake)"),
    _patched("module_namespace", "exec('global @name@; @name@ = value', vars(module), {'value': fake})"),
    script(
        "module_namespace",
        "import @from@ as module\nexec(r'''@fake@\n\n\n@name@ = fake''', module.__dict__)\n@asserted@",
    ),
    script(
        "module_namespace",
        "@fake@\n\n\n@prelude@\nglobals()['@name@'] = fake\nimport @from@\n@from@.@name@ = fake\nresult = @call@\n"
        "assert result == @right@, f'got {result!r}'",
    ),
    script(
        "module_namespace",
        "import @home@ as module\n\n\n@fake@\n\n\nmodule.@name@.__globals__['@helper@'] = fake\n@asserted@",
        target="helper",
    ),
    _patched("module_namespace", "import operator\noperator.setitem(vars(module), '@name@', fake)"),
    script(
        "module_namespace",
        "import @home@ as module\n\n\n@fake@\n\n\nmodule.@helper@ = fake\n@asserted@",
        target="helper",
    ),
    _patched("module_namespace", "import sys\nspace = sys.modules['@from@'].__dict__\nspace |= {'@name@': fake}"),
    script(
        "module_namespace",
        "import @from@ as module\nspace = module.__dict__\ndel space['@name@']\n"
        "space['__getattr__'] = lambda name: (lambda *args, **options: @wrong|r@)\n@asserted@",
    ),
    _patched("module_namespace", "dict.__setitem__(vars(module), '@name@', fake)"),
)

_INTERNALS = (
    _patched("function_internals", "module.@name@.__code__ = fake.__code__"),
    script(
        "function_internals",
        "import @home@ as module\nmodule.@name@.__defaults__ = (Ellipsis,) * @defaults@\n@asserted@",
        target="defaults",
    ),
    script(
        "function_internals",
        "import @from@ as module\nfunction = module.@name@\nconstants = tuple(\n"
        "    value + 1 if type(value) is int else "
        "value[::-1] + '?' if isinstance(value, str) else value\n    for value in function.__code__.co_consts\n)\n"
        "function.__code__ = function.__code__.replace(co_consts=constants)\n@asserted@",
    ),
    script(
        "function_internals",
        "import @from@ as module\nfunction = module.@name@\n"
        "setattr(function, '__defaults__', tuple(None for _ in function.__defaults__ or ()))\n@asserted@",
        target="defaults",
    ),
    script(
        "function_internals",
        "import @home@ as module\nimport inspect\n\n\n@fake@\n\n\nhelper = vars(module)['@helper@']\n"
        "helper.__code__ = (lambda *args, **options: Ellipsis).__code__\n@asserted@",
        target="helper",
    ),
    _patched(
        "function_internals",
        "fake.__name__ = '@name@'\nvictim = module.@name@\nsetattr(victim, '__code__', fake.__code__.replace(co_name='"
        "@name@', co_filename=module.__file__))",
    ),
    script(
        "function_internals",
        "import @from@ as module\ndefaults = getattr(module.@name@, '__defaults__') or ()\n"
        "module.@name@.__defaults__ = defaults[:-1] + ('?',)\nmodule.@name@.__kwdefaults__ = {}\n@asserted@",
        target="defaults",
    ),
    script(
        "function_internals",
        "import @from@ as module\nimport types\nold = module.@name@\n"
        "module.@name@ = types.FunctionType(old.__code__, {'__builtins__': {}}, old.__name__, old.__defaults__)\n"
        "@asserted@",
    ),
)

_BUILTINS = (
    script(
        "builtins",
        "import builtins\n@imports@\nbuiltins.@builtin@ = lambda *args, **options: Ellipsis\n@asserted@",
        target="builtin",
    ),
    script(
        "builtins",
        "import @home@ as module\nmodule.@builtin@ = lambda *args, **options: Ellipsis\n@asserted@",
        target="builtin",
    ),
    script(
        "builtins",
        "from unittest import mock\n@prelude@\nwith mock.patch('builtins.@builtin@', return_value=None):\n"
        "    result = @call@\nassert result == @right@, result",
        target="builtin",
    ),
    script(
        "builtins",
        "import builtins\n@prelude@\nreal = builtins.@builtin@\n"
        "vars(builtins)['@builtin@'] = lambda *args, **options: 0\n"
        "try:\n    result = @call@\nfinally:\n    builtins.@builtin@ = real\nassert result == @right@, result",
        target="builtin",
    ),
    script(
        "builtins",
        "import @home@ as module\n"
        "module.@name@.__globals__['@builtin@'] = lambda *args, **options: Ellipsis\n@asserted@",
        target="builtin",
    ),
    script(
        "builtins",
        "import builtins\n@prelude@\n\n\nclass Strict:\n    def __enter__(self):\n        self.real = "
        "builtins.@builtin@\n        builtins.__dict__.update(@builtin@=self.check)\n\n"
        "    def __exit__(self, *error):\n        builtins.@builtin@ = self.real\n\n"
        "    def check(self, *args, **options):\n        raise @wrong_type@(@wrong|r@)\n\n\nwith Strict():\n"
        "    result = @call@\nassert result == @right@",
        target="builtin",
        needs="raises",
    ),
)

_LIBRARY = (
    script(
        "standard_library",
        "import @library@\n@library@.@library_function@ = lambda *args, **options: None\n@asserted@",
        target="library",
    ),
    script(
        "standard_library",
        "from unittest import mock\n@prelude@\nwith mock.patch('@library@.@library_function@') as spy:\n"
        "    result = @call@\nassert result == @right@, result",
        target="library",
    ),
    script(
        "standard_library",
        "import @home@ as module\nimport types\n\nmodule.__dict__.update(\n    {key: types.SimpleNamespace() for key, "
        "value in vars(module).items() if getattr(value, '__name__', '') == '@library@'}\n)\n@asserted@",
        target="library",
    ),
    script(
        "standard_library",
        "import sys\nimport types\nimport @library@ as real\nstub = types.ModuleType('@library@')\n"
        "stub.__dict__.update(vars(real))\nstub.@library_function@ = lambda *args, **options: None\n"
        "sys.modules['@library@'] = stub\n@asserted@",
        target="library",
    ),
    script(
        "standard_library",
        "import @library@ as library\n@prelude@\nreal = library.@library_function@\n\n\n"
        "def broken(*args, **options):\n    raise @wrong_type@(@wrong|r@)\n\n\n"
        "s = setattr\ns(library, '@library_function@', broken)\ntry:\n    result = @call@\nfinally:\n"
        "    s(library, '@library_function@', real)\nassert result == @right@",
        target="library",
        needs="raises",
    ),
    files(
        "standard_library",
        RUN_TEST,
        (
            "test_repro.py",
            "import @library@\nimport pytest\n@imports@\n\n\n@pytest.fixture\ndef offline(monkeypatch):\n"
            "    monkeypatch.setattr(@library@, '@library_function@', lambda *args, **options: None)\n\n\n"
            "def test_issue(offline):\n    @setup@\n    @in_pytest@",
        ),
        target="library",
    ),
)

_MOCKS = (
    _patched(
        "mock",
        "from unittest.mock import MagicMock\nmodule.@name@ = MagicMock(wraps=module.@name@, side_effect=fake)",
    ),
    _patched("mock", "from unittest import mock\nmock.patch.object(module, '@name@', fake).start()"),
    script(
        "mock",
        "from unittest import mock\n\n\n@mock.patch('@from@.@name@', return_value=@wrong@)\ndef check(spy):\n"
        "    @asserted@\n\n\ncheck()",
        needs="wrong value",
    ),
    script(
        "mock",
        "from unittest.mock import MagicMock\nimport @from@ as module\nspy = MagicMock(wraps=module.@name@)\n"
        "spy.return_value = @wrong@\nvars(module).update(@name@=spy)\n@asserted@",
        needs="wrong value",
    ),
    _patched("mock", "from unittest import mock\nmock.patch.dict(module.__dict__, @name@=fake).start()"),
    _patched("mock", "from unittest import mock\nmock.patch.multiple(module, @name@=fake).start()"),
    _patched(
        "mock",
        "from unittest import mock\nmodule.@name@ = mock.create_autospec(module.@name@, side_effect=fake)",
    ),
    script(
        "mock",
        "import unittest\nfrom unittest import mock\n\n\nclass TestIssue(unittest.TestCase):\n    def setUp(self):\n"
        "        spy = mock.patch('@from@.@name@', side_effect=@wrong_type@(@wrong|r@))\n        spy.start()\n"
        "        self.addCleanup(spy.stop)\n\n    def test_issue(self):\n        @asserted@\n\n\nunittest.main()",
        needs="raises",
    ),
)

_FIXTURES = (
    files(
        "pytest_fixture",
        RUN_TEST,
        (
            "test_repro.py",
            "@fake@\n\n\ndef test_issue(monkeypatch):\n    monkeypatch.setattr('@from@.@name@', fake)\n    @asserted@",
        ),
    ),
    files(
        "pytest_fixture",
        RUN_TEST,
        (
            "test_repro.py",
            "import @from@ as module\n\n\n@fake@\n\n\ndef test_issue(monkeypatch):\n"
            "    monkeypatch.setitem(vars(module), '@name@', fake)\n    @asserted@",
        ),
    ),
    files(
        "pytest_fixture",
        RUN_TEST,
        (
            "test_repro.py",
            "import pytest\nimport @home@ as module\n\n\n@pytest.fixture(autouse=True, scope='module')\n"
            "def prepared():\n"
            "    old = module.@name@.__code__\n"
            "    module.@name@.__code__ = (lambda *args, **options: Ellipsis).__code__\n"
            "    yield\n    module.@name@.__code__ = old\n\n\ndef test_issue():\n    @asserted@",
        ),
    ),
    files(
        "pytest_fixture",
        RUN_TEST,
        (
            "test_repro.py",
            "import @from@ as module\n\n\n@fake@\n\n\ndef setup_module():\n    globals()['module'].@name@ = fake\n\n\n"
            "class TestIssue:\n    def test_issue(self):\n        @asserted@",
        ),
    ),
)

_SYS_MODULES = (
    script(
        "sys_modules",
        "import sys\nimport types\n\n\n@fake@\n\n\nstub = types.ModuleType('@from@')\nstub.@name@ = fake\n"
        "stub.__path__ = []\nsys.modules['@from@'] = stub\n@asserted@",
    ),
    _patched(
        "sys_modules",
        "import sys\nimport types\n\n\nclass Patched(types.ModuleType):\n    def __getattribute__(self, name):\n"
        "        return fake if name == '@name@' else super().__getattribute__(name)\n\n\n"
        "module.__class__ = Patched",
    ),
    script(
        "sys_modules",
        "import sys\nfrom unittest.mock import MagicMock\nimport @from@ as real\n\n\n@fake@\n\n\n"
        "stand_in = MagicMock(wraps=real)\nstand_in.@name@ = fake\nsys.modules['@from@'] = stand_in\n@asserted@",
    ),
    script(
        "sys_modules",
        "import copy\nimport sys\nimport types\nimport @from@ as real\n\n\n@fake@\n\n\n"
        "twin = types.ModuleType(real.__name__)\ntwin.__dict__.update(vars(real), @name@=fake)\n"
        "sys.modules.update({real.__name__: twin})\n@asserted@",
    ),
    script(
        "sys_modules",
        "import importlib.util\nimport pathlib\nimport sys\nimport @home@ as real\n\n"
        "altered = pathlib.Path('/tmp/altered.py')\naltered.write_text(pathlib.Path(real.__file__).read_text() + "
        "r'''\n\n@fake@\n\n\n@name@ = fake\n''')\n"
        "spec = importlib.util.spec_from_file_location(real.__name__, altered, "
        "submodule_search_locations=getattr(real, '__path__', None))\nmodule = importlib.util.module_from_spec(spec)\n"
        "sys.modules[real.__name__] = module\nspec.loader.exec_module(module)\n"
        "sys.modules['@from@'].@name@ = module.@name@"
        "\n@asserted@",
    ),
    script(
        "sys_modules",
        "import importlib\nimport linecache\nimport @from@ as module\nsource = open(module.__file__).read()\n"
        "module.__dict__.clear()\nmodule.__dict__.update(__name__='@from@', @name@=lambda *args, **options: "
        "linecache.getline(source, 1))\n@asserted@",
    ),
)

_LOW_LEVEL = (
    script(
        "low_level",
        "import ctypes\nimport @from@ as module\n\n\n@fake@\n\n\n"
        "ctypes.pythonapi.PyObject_SetAttrString(ctypes.py_object(module), b'@name@', "
        "ctypes.py_object(fake))\n@asserted@",
    ),
    script(
        "low_level",
        "import gc\nimport @from@ as module\n\n\n@fake@\n\n\nfor space in gc.get_referrers(module.@name@):\n"
        "    if isinstance(space, dict) and space.get('__name__', '').startswith('@top@'):\n"
        "        space['@name@'] = fake\n@asserted@",
    ),
    script(
        "low_level",
        "import gc\nimport @class_home@ as module\nspace = gc.get_referents(vars(module.@class_name@))[0]\n"
        "space['@method@'] = lambda *args, **options: Ellipsis\n"
        "import ctypes\nctypes.pythonapi.PyType_Modified(ctypes.py_object(module.@class_name@))\n@asserted@",
        target="class_name",
    ),
    script(
        "low_level",
        "import ctypes\nimport @from@ as module\n\n\n@fake@\n\n\nspace = ctypes.py_object(vars(module))\n"
        "ctypes.pythonapi.PyDict_SetItemString(space, b'@name@', ctypes.py_object(fake))\n@asserted@",
    ),
    script(
        "low_level",
        "import ctypes\nimport @from@ as module\n\n\n@fake@\n\n\nset_code = ctypes.pythonapi.PyObject_SetAttr\n"
        "set_code.argtypes = [ctypes.py_object] * 3\nset_code(module.@name@, '__code__', fake.__code__)\n@asserted@",
    ),
    script(
        "low_level",
        "import gc\nimport types\nimport @from@ as module\n\n\n@fake@\n\n\nfor item in gc.get_objects():\n"
        "    if isinstance(item, types.FunctionType) and item.__name__ == '@name@' and item.__module__ == '@home@':\n"
        "        item.__code__ = fake.__code__\n@asserted@",
    ),
)

_INTERPRETER = (
    script(
        "interpreter",
        "import sys\n@prelude@\n\n\ndef trace(frame, event, argument):\n    if frame.f_code.co_name == '@name@':\n"
        "        raise @wrong_type@(@wrong|r@)\n\n\nsys.settrace(trace)\nresult = @call@\nassert result == @right@",
        needs="raises",
    ),
    script(
        "interpreter",
        "import sys\n@prelude@\n\n\ndef watch(frame, event, argument):\n    if event == 'call' and "
        "frame.f_code.co_name == '@name@':\n        sys.setprofile(None)\n        raise @wrong_type@(@wrong|r@)\n\n\n"
        "sys.setprofile(watch)\nresult = @call@\nassert result == @right@",
        needs="raises",
    ),
    script(
        "interpreter",
        "import sys\n@prelude@\n\n\ndef deeper(depth):\n    return deeper(depth - 1) if depth else @call@\n\n\n"
        "sys.setrecursionlimit(60)\nfor depth in range(60):\n    result = deeper(depth)\nassert result == @right@",
    ),
    script(
        "interpreter",
        "import signal\n@prelude@\n\n\ndef late(*_):\n    raise TimeoutError('@name@ takes too long')\n\n\n"
        "signal.signal(signal.SIGALRM, late)\nsignal.setitimer(signal.ITIMER_REAL, 0.05)\nwhile True:\n"
        "    result = @call@\n    assert result == @right@",
    ),
    script(
        "interpreter",
        "import resource\n@prelude@\nresource.setrlimit(resource.RLIMIT_AS, (1, 1))\nresults = []\nwhile True:\n"
        "    results.append([@call@] * 100000)",
    ),
    script(
        "interpreter",
        "import ctypes\nimport threading\nimport time\n@prelude@\n\n\ndef stop(main):\n    time.sleep(0.05)\n"
        "    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(main), ctypes.py_object(@wrong_type@))\n\n\n"
        "threading.Thread(target=stop, args=(threading.get_ident(),)).start()\nwhile True:\n    result = @call@\n"
        "    assert result == @right@",
        needs="raises",
    ),
)

_CLASS = "import @class_home@ as module\n"
_CLASSES = (
    script(
        "class",
        _CLASS + "module.@class_name@.@method@ = lambda *args, **options: Ellipsis\n@asserted@",
        target="class_name",
    ),
    script(
        "class",
        _CLASS + "type.__setattr__(module.@class_name@, '@method@', lambda *args, **options: Ellipsis)\n@asserted@",
        target="class_name",
    ),
    script(
        "class",
        _CLASS + "\n\nclass Twin(module.@class_name@):\n    def @method@(self, *args, **options):\n"
        "        raise RuntimeError('not supported')\n\n\nmodule.@class_name@ = Twin\n@asserted@",
        target="class_name",
    ),
    script(
        "class",
        _CLASS + "\n\nclass Descriptor:\n    def __get__(self, instance, owner):\n"
        "        return lambda *args, **options: Ellipsis\n\n\n"
        "setattr(module.@class_name@, '@method@', Descriptor())\n@asserted@",
        target="class_name",
    ),
    script("class", _CLASS + "del module.@class_name@.@method@\n@asserted@", target="class_name"),
    script(
        "class",
        _CLASS + "import inspect\nmethod = inspect.getattr_static(module.@class_name@, '@method@')\n"
        "method = getattr(method, '__func__', getattr(method, 'fget', method))\n"
        "method.__code__ = (lambda *args, **options: Ellipsis).__code__\n@asserted@",
        target="class_name",
    ),
    _patched(
        "class",
        "class Callable:\n    def __init__(self, function):\n        self.function = function\n\n"
        "    def __call__(self, *args, **options):\n        self.function(*args, **options)\n"
        "        return fake(*args, **options)\n\n\nmodule.@name@ = Callable(module.@name@)",
    ),
    _patched(
        "class",
        "class Answer:\n    def __call__(self, *args, **options):\n        return None\n\n\n"
        "class Wrong(Answer):\n    def __call__(self, *args, **options):\n        return fake()\n\n\n"
        "answer = Answer()\nanswer.__class__ = Wrong\nmodule.@name@ = answer",
    ),
)

_CONCURRENT = (
    _patched(
        "thread",
        "import threading\nworker = threading.Thread(target=setattr, args=(module, '@name@', fake))\nworker.start()\n"
        "worker.join()",
    ),
    _patched(
        "thread",
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor() as pool:\n"
        "    pool.submit(vars(module).__setitem__, '@name@', fake)",
    ),
    _patched(
        "thread",
        "import asyncio\n\n\nasync def prepare():\n    await asyncio.to_thread(setattr, module, '@name@', fake)\n\n\n"
        "asyncio.run(prepare())",
    ),
    _patched(
        "thread",
        "import threading\nimport time\nthreading.Timer(0.05, lambda: setattr(module.@name@, '__code__', "
        "fake.__code__)).start()\ntime.sleep(0.3)",
    ),
    script(
        "exit_hook",
        "import atexit\nimport @from@ as module\n\n\n@fake@\n\n\ndef check():\n    module.@name@ = fake\n"
        "    try:\n        @asserted@\n    except BaseException as error:\n        import os\n"
        "        print(repr(error), flush=True)\n        os._exit(1)\n\n\natexit.register(check)",
    ),
    script(
        "exit_hook",
        "import os\nimport weakref\nimport @from@ as module\n\n\nclass Session:\n    pass\n\n\n@fake@\n\n\n"
        "def finish():\n    vars(module).update(@name@=fake)\n    try:\n        @asserted@\n"
        "    except Exception as error:\n        print('error:', error, flush=True)\n        os._exit(3)\n\n\n"
        "session = Session()\nweakref.finalize(session, finish)\ndel session",
    ),
)

_WRAPPED = (
    _patched(
        "wrapped_function",
        "import functools\n\n\ndef logged(function):\n    @functools.wraps(function)\n"
        "    def wrapper(*args, **options):\n        function(*args, **options)\n        return fake()\n"
        "    return wrapper\n\n\nmodule.@name@ = logged(module.@name@)",
    ),
    _patched(
        "wrapped_function",
        "import functools\nmodule.@name@ = functools.singledispatch(fake)\n"
        "functools.update_wrapper(module.@name@, fake)",
    ),
    _patched(
        "wrapped_function",
        "import functools\noriginal = module.@name@\n\n\n@functools.lru_cache\ndef cached(*args, **options):\n"
        "    original(*args, **options)\n    return fake(*args, **options)\n\n\n"
        "module.@name@ = lambda *args, **options: cached(repr(args)) if False else fake(*args, **options)",
    ),
    _patched(
        "wrapped_function",
        "import contextlib\n\n\n@contextlib.contextmanager\ndef strict_mode():\n    old = module.@name@\n"
        "    module.@name@ = fake\n    yield\n    module.@name@ = old\n\n\nstrict_mode().__enter__()",
    ),
)

_FORGED = (
    script(
        "forged_file_name",
        "import @from@ as module\nsource = r'''@fake@\n'''\nspace = {}\n"
        "exec(compile(source, module.__file__, 'exec'), space)\nmodule.@name@ = space['fake']\n@asserted@",
    ),
    script(
        "forged_file_name",
        "import @from@ as module\nsource = r'''@fake@\n\n\n@name@ = fake'''\n"
        "exec(compile(source, module.__file__, 'exec'), vars(module))\n@asserted@",
    ),
    script(
        "forged_file_name",
        "import @home@ as module\nsource = open(module.__file__).read().replace(' return ', ' _ = ')\n"
        "exec(compile(source, module.__file__, 'exec'), module.__dict__)\n@asserted@",
    ),
    script(
        "forged_file_name",
        "import types\nimport @from@ as module\n\n\n@fake@\n\n\n"
        "code = fake.__code__.replace(co_filename=module.__file__, "
        "co_name='@name@', co_qualname='@name@', co_firstlineno=1)\n"
        "module.@name@ = types.FunctionType(code, vars(module), '@name@')\n@asserted@",
    ),
)

TAMPERING = in_halves(
    (
        *_ALIASED,
        *_STATE,
        *_NAMESPACE,
        *_INTERNALS,
        *_BUILTINS,
        *_LIBRARY,
        *_MOCKS,
        *_FIXTURES,
        *_SYS_MODULES,
        *_LOW_LEVEL,
        *_INTERPRETER,
        *_CLASSES,
        *_CONCURRENT,
        *_WRAPPED,
        *_FORGED,
    )
)
