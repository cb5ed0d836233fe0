"""Claims that change the repository, or Python under it, before they fail; and honest ones that look alike."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from scrout.config.settings import GateSettings, Settings
from scrout.gate.gate import gate
from scrout.handoff import Handoff, Reproduction
from scrout.records import GatedHandoff
from scrout.sandbox.task_sandbox import TaskSandbox, open_task_sandbox
from scrout.sandbox.tier import Tier
from scrout.task import Task

from .conftest import _git, but_slow

ISSUE = """add() is off by one

`add(2, 2)` gives `5`. It should give 4. Also `half(0)` dies with `ZeroDivisionError: division by zero`.
"""
FILES = {
    "shop/proxy.py": (
        "class Proxy:\n    __slots__ = ('target',)\n\n    def __init__(self, target):\n"
        "        object.__setattr__(self, 'target', target)\n\n    def __getattr__(self, name):\n"
        "        return getattr(object.__getattribute__(self, 'target'), name)\n\n\n"
        "class Thing:\n    size = 3\n\n\nthing = Proxy(Thing())\n\n\ndef size():\n    return thing.size\n"
    ),
    "shop/made.py": (
        "def make(code):\n    space = dict(globals())\n    exec(f'def made(value):\\n    return {code}\\n', space)\n"
        "    return space['made']\n"
    ),
    "shop/lazy/__init__.py": (
        "import sys\nimport types\n\n\ndef load(name):\n    return lambda value: value + 1\n\n\n"
        "class _Lazy(types.ModuleType):\n    def __getattr__(self, name):\n        found = load(name)\n"
        "        setattr(self, name, found)\n        return found\n\n\n"
        "old = sys.modules[__name__]\nnew = _Lazy(__name__)\nnew.__dict__.update(old.__dict__)\n"
        "sys.modules[__name__] = new\ndel new.new, new.old\n"
    ),
    "shop/lines.py": (
        "from dataclasses import dataclass\n\n\n@dataclass\nclass Line:\n    price: int\n\n\n"
        "def cost(line):\n    return line.price\n"
    ),
    "shop/__init__.py": "from shop.core import Box, add, double, half, scaled, total\n",
    "shop/core.py": """\
import enum
import functools
import json
import math
import types

RATES = {"a": 2, "deep": {"x": [1, 2]}}
NAMES = ["one", "two"]
LIMIT = 10
HOOKS = []
_cache = {}
_calls = 0
_table = None


def add(left, right):
    return left + right + 1


def half(value):
    return 1 / value


def double(value, factor=2, *, offset=0):
    return value * factor + offset


def scaled(name):
    return math.floor(RATES[name] * 1.5)


def text(value):
    return json.dumps(value, sort_keys=True)


def total(values):
    return sum(values)


def limited(value):
    return min(value, LIMIT)


def named(index):
    return NAMES[index]


def deep():
    return sum(RATES["deep"]["x"])


@functools.lru_cache(maxsize=None)
def slow(value):
    return value + 1


def cached(value):
    global _calls, _table
    _calls += 1
    if _table is None:
        _table = {"made": "late"}
    _cache[value] = value * 2
    Box.made += 1
    return _cache[value]


def register(function):
    HOOKS.append(function)
    return function


def run_hooks(value):
    return [hook(value) for hook in HOOKS]


def traced(function):
    @functools.wraps(function)
    def inner(*args):
        return add(function(*args), 0)

    return inner


def make_adder(step):
    def adder(value):
        return value + step

    return adder


add_three = make_adder(3)


class Box:
    size = 3
    made = 0

    def __init__(self, items=()):
        self.items = list(items)

    def count(self):
        return len(self.items)

    @property
    def first(self):
        return self.items[0]

    @functools.cached_property
    def last(self):
        return self.items[-1]


class Plugin:
    known = []

    def __init_subclass__(cls):
        Plugin.known.append(cls)


SETTINGS = types.SimpleNamespace(step=1)
BUFFER = bytearray(b"ab")
twice = functools.partial(double, factor=2)


def stepped(value):
    return value + SETTINGS.step


def first_byte():
    return BUFFER[0]


def gather(value, into=[]):
    return [*into, value]


class Pair:
    __slots__ = ("left", "right")

    def __init__(self):
        self.left, self.right = 1, 2

    def sum(self):
        return self.left + self.right


PAIR = Pair()


class Side(enum.Flag):
    LEFT = 1
    RIGHT = 2


def sides(side):
    return side.value + 1


DEFAULT = Box(["x"])
""",
    "tests/test_mocked.py": """\
from unittest import mock

from shop import core


def test_mocked():
    box = mock.Mock(spec=core.Box)
    with mock.patch.object(core, "LIMIT", 3), mock.patch("math.floor", return_value=1):
        assert core.limited(box.count.call_count + core.add(2, 2)) == 2
""",
    "shop/extra.py": "def three():\n    return 3\n",
    "shop/late.py": "from shop import extra\n\n\ndef late():\n    return extra.three()\n",
    "shop/pieces/__init__.py": "",
    "shop/pieces/one.py": "ONE = 1\n\n\ndef one():\n    return ONE\n",
    "tests/test_shop.py": "from shop import half\n\n\ndef test_half():\n    assert half(2) == 0.5\n",
}


@dataclass(frozen=True)
class Case:
    """A script of the claim's, or several files and a command."""

    name: str
    script: str = ""
    command: str = "python shows.py"
    files: dict[str, str] = field(default_factory=dict)


START = "import sys\nimport shop\nfrom shop import core\n"

TAMPERING = [
    Case(
        "the class of a module",
        "import types\nshop.add(1, 1)\n\n\nclass Patched(types.ModuleType):\n    def __getattribute__(self, name):\n"
        "        return (lambda a, b: 5) if name == 'add' else super().__getattribute__(name)\n\n\n"
        "shop.__class__ = Patched\nassert shop.add(2, 2) == 4\n",
    ),
    Case(
        "a module that has generated code",
        "import shop.lines\nshop.lines.__setattr__('cost', lambda line: 5)\nshop.add(1, 1)\n"
        "assert shop.lines.cost(shop.lines.Line(4)) == 4\n",
    ),
    Case("an aliased setattr", "put = setattr\nput(core, 'LIMIT', 1)\nassert core.limited(5) == 5\n"),
    Case("object.__setattr__", "type(core).__setattr__(core, 'LIMIT', 1)\nassert core.limited(5) == 5\n"),
    Case("a change through vars()", "vars(core)['LIMIT'] = 1\nassert core.limited(5) == 5\n"),
    Case("a change through __globals__", "core.add.__globals__['LIMIT'] = 1\nassert core.limited(5) == 5\n"),
    Case("a change through sys.modules", "sys.modules['shop.core'].LIMIT = 1\nassert core.limited(5) == 5\n"),
    Case("exec in the module", "exec('LIMIT = 1', vars(core))\nassert core.limited(5) == 5\n"),
    Case("a dictionary changed in place", "core.RATES.update(a=9)\nassert shop.scaled('a') == 3\n"),
    Case("a dictionary changed through an alias", "rates = core.RATES\nrates['a'] = 9\nassert shop.scaled('a') == 3\n"),
    Case("a list changed in place", "core.NAMES.reverse()\nassert core.named(0) == 'one'\n"),
    Case("a list deep inside", "core.RATES['deep']['x'].append(7)\nassert core.deep() == 3\n"),
    Case("an added name that hides a builtin", "vars(core)['sum'] = max\nassert shop.total([1, 2]) == 3\n"),
    Case(
        "a changed copy of a module",
        "import inspect\nspace = dict(vars(core))\nexec(inspect.getsource(core.half).replace('1 /', '2 /'), space)\n"
        "assert space['half'](2) == shop.half(2)\n",
    ),
    Case(
        "a mock of a function that the repository calls",
        "from unittest import mock\nwith mock.patch('math.floor', return_value=0):\n    scaled = shop.scaled('a')\n"
        "assert scaled == 3\n",
    ),
    Case("__code__", "core.half.__code__ = (lambda value: 1 / 0).__code__\nshop.half(3)\n"),
    Case("__defaults__", "core.double.__defaults__ = (3,)\nassert shop.double(2) == 4\n"),
    Case("__kwdefaults__", "core.double.__kwdefaults__['offset'] = 1\nassert shop.double(2) == 4\n"),
    Case("a closure", "core.add_three.__closure__[0].cell_contents = 4\nassert core.add_three(1) == 4\n"),
    Case("an attribute of a class", "shop.Box.count = lambda self: 1 / 0\nshop.Box().count()\n"),
    Case("a method that is deleted", "del shop.Box.count\nshop.Box().count()\n"),
    Case("a counter of a class", "shop.Box.made += 1\nshop.add(1, 1)\nassert core.Box.made == 0\n"),
    Case(
        "a special method", "shop.Box.__len__ = lambda self: 1 / 0\nassert shop.Box().count() + len(shop.Box()) == 0\n"
    ),
    Case("a property", "shop.Box.first = property(lambda self: 1 / 0)\nshop.Box([1]).first\n"),
    Case("an object of the module", "core.DEFAULT.items.clear()\ncore.DEFAULT.first\n"),
    Case("an object with slots", "core.PAIR.left = 5\nassert core.PAIR.sum() == 3\n"),
    Case("a namespace", "core.SETTINGS.step = 5\nassert core.stepped(1) == 2\n"),
    Case("bytes", "core.BUFFER[0] = 1\nassert core.first_byte() == 97\n"),
    Case("a default that is a list", "core.gather.__defaults__[0].append(9)\nassert core.gather(1) == [1]\n"),
    Case("a partial function", "core.twice.keywords['factor'] = 3\nassert core.twice(2) == 4\n"),
    Case(
        "a mock in place of a module",
        "from unittest.mock import MagicMock\nsys.modules['shop.extra'] = MagicMock()\n"
        "import shop.late\nassert shop.late.late() == 3\n",
    ),
    Case(
        "a path of the standard library",
        "import os\nold = os.getcwd\nos.getcwd = lambda: 1 / 0\n"
        "try:\n    shop.half(2)\nfinally:\n    os.getcwd = old\nassert shop.total([1]) == 2\n",
    ),
    Case(
        "the memory that it may take",
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31))\nassert shop.add(2, 2) == 4\n",
    ),
    Case("a builtin", "import builtins\nbuiltins.sum = lambda values: 0\nassert shop.total([1, 2]) == 3\n"),
    Case("a builtin by another builtin", "import builtins\nbuiltins.sum = max\nassert shop.total([1, 2]) == 3\n"),
    Case("the standard library", "import json\njson.dumps = lambda *a, **k: ''\nassert core.text(1) == '1'\n"),
    Case("the standard library by itself", "import json\njson.dumps = json.loads\ncore.text({})\n"),
    Case(
        "the standard library before the import",
        files={
            "shows.py": "import json\njson.dumps = lambda *a, **k: 1\nfrom shop import core\nassert core.text(1) == '1'"
        },
    ),
    Case("a C module", "import math\nmath.floor = lambda value: 0\nassert shop.scaled('a') == 3\n"),
    Case(
        "a C module before the import",
        files={"shows.py": "import math\nmath.floor = lambda value: 0\nimport shop\nassert shop.scaled('a') == 3\n"},
    ),
    Case(
        "a class of the standard library",
        "import json\njson.JSONEncoder.encode = lambda self, o: ''\nassert core.text(1) == '1'\n",
    ),
    Case(
        "code of the standard library",
        "import json\njson.dumps.__code__ = (lambda *a, **k: '').__code__\nassert core.text(1) == '1'\n",
    ),
    Case("the recursion limit", "sys.setrecursionlimit(30)\nshop.half(2)\nassert shop.total([1]) == 2\n"),
    Case(
        "mock.patch, undone",
        "from unittest import mock\nwith mock.patch('shop.core.add', return_value=7):\n"
        "    got = core.add(2, 2)\nassert shop.total([got]) == 4\n",
    ),
    Case(
        "mock.patch.object on a class",
        "from unittest import mock\n"
        "with mock.patch.object(shop.Box, 'count', return_value=9):\n    got = shop.Box().count()\nassert got == 0\n",
    ),
    Case(
        "mock.patch.dict",
        "from unittest import mock\nwith mock.patch.dict(core.RATES, a=9):\n    assert shop.scaled('a') == 3\n",
    ),
    Case(
        "MagicMock around a function",
        "from unittest.mock import MagicMock\nadd = MagicMock(wraps=core.add)\n"
        "add.return_value = 5\nassert add(2, 2) == 4\n",
    ),
    Case(
        "MagicMock around a module",
        "from unittest.mock import MagicMock\ncore = MagicMock(wraps=core)\n"
        "core.total.return_value = 5\nshop.half(2)\nassert core.total([2, 2]) == 4\n",
    ),
    Case(
        "an autospec",
        "from unittest import mock\nadd = mock.create_autospec(core.total, return_value=5)\n"
        "shop.half(2)\nassert add([2, 2]) == 4\n",
    ),
    Case(
        "a change that is undone",
        "old = core.total\ncore.total = max\ngot = core.total([1, 2])\ncore.total = old\n"
        "shop.half(2)\nassert got == 3\n",
    ),
    Case(
        "a change in a callback",
        "def change(value):\n    core.RATES['a'] = 9\n    return value\n"
        "core.register(change)\ncore.run_hooks(1)\nassert shop.scaled('a') == 3\n",
    ),
    Case(
        "a change by a thread",
        "import threading\nthread = threading.Thread(target=core.RATES.update, args=({'a': 9},))\n"
        "thread.start()\nthread.join()\nassert shop.scaled('a') == 3\n",
    ),
    Case(
        "an import hook that rewrites the source",
        files={
            "shows.py": (
                "import importlib.machinery, sys\nold = importlib.machinery.SourceFileLoader.get_data\n"
                "def get_data(self, path):\n    data = old(self, path)\n"
                "    return data.replace(b'1 / value', b'1 / 0') if path.endswith('core.py') else data\n"
                "importlib.machinery.SourceFileLoader.get_data = get_data\n"
                "importlib.machinery.SourceFileLoader.path_stats = lambda self, path: {'mtime': 0, 'size': 0}\n"
                "import shop\nshop.half(2)\n"
            )
        },
    ),
    Case(
        "a finder of its own",
        files={
            "shows.py": (
                "import sys, importlib.util, importlib.machinery\n"
                "class Loader(importlib.machinery.SourceFileLoader):\n"
                "    def source_to_code(self, data, path, **more):\n"
                "        return super().source_to_code(data.replace(b'1 / value', b'1 / 0'), path)\n"
                "class Finder:\n    @staticmethod\n    def find_spec(name, path=None, target=None):\n"
                "        if name == 'shop.core':\n"
                "            return importlib.util.spec_from_file_location(name, 'shop/core.py', "
                "loader=Loader(name, 'shop/core.py'))\n"
                "sys.meta_path.insert(0, Finder)\nimport shop\nshop.half(2)\n"
            )
        },
    ),
    Case(
        "a module put in place",
        files={
            "shows.py": (
                "import sys, types\nfake = types.ModuleType('shop.extra')\nfake.three = lambda: 1 / 0\n"
                "import shop\nsys.modules['shop.extra'] = shop.extra = fake\nfrom shop import late\nlate.late()\n"
            )
        },
    ),
    Case(
        "a profile function that raises",
        "def watch(frame, event, argument):\n    if event == 'call' and frame.f_code.co_name == 'add':\n"
        "        sys.setprofile(None)\n        raise ZeroDivisionError('division by zero')\n\n\n"
        "sys.setprofile(watch)\nassert shop.add(1, 1) == 3\n",
    ),
    Case(
        "the same in a thread",
        "import threading\nfound = []\n\n\ndef watch(frame, event, argument):\n"
        "    if event == 'call' and frame.f_code.co_name == 'add':\n        sys.setprofile(None)\n"
        "        raise ZeroDivisionError('division by zero')\n\n\n"
        "threading.setprofile(watch)\nthread = threading.Thread(target=lambda: found.append(shop.add(1, 1)))\n"
        "thread.start()\nthread.join()\nassert found == [3]\n",
    ),
    Case(
        "a lazy module that the claim changes",
        "import shop.lazy\nshop.lazy.first(1)\nshop.lazy.anything = lambda value: shop.add(1, 1)\n"
        "assert shop.lazy.anything(2) == 2\n",
    ),
    Case(
        "another lazy module in its place",
        "import shop.lazy\nshop.lazy.first(1)\nfake = type(shop.lazy)('shop.lazy')\n"
        "fake.anything = lambda value: shop.add(1, 1)\nsys.modules['shop.lazy'] = shop.lazy = fake\n"
        "assert shop.lazy.anything(2) == 2\n",
    ),
    Case(
        "a lazy module of the claim's own in place of a module",
        "import types\nshop.add(1, 1)\n\n\nclass _LazyModule(types.ModuleType):\n    def __getattr__(self, name):\n"
        "        return lambda value: shop.add(1, 1)\n\n\n"
        "sys.modules['shop.late'] = shop.late = _LazyModule('shop.late')\n"
        "assert shop.late.late(2) == 2\n",
    ),
    Case(
        "a package elsewhere on the path",
        files={
            "other/shop/__init__.py": "def half(value):\n    return 1 / 0\n",
            "shows.py": "import sys\nsys.path.insert(0, 'other')\nimport shop\nassert shop.half(2) == 0.5\n",
        },
    ),
    Case(
        "a helper outside of the tree",
        command=(
            "mkdir -p /tmp/h && echo 'from shop import core; core.LIMIT = 1' > /tmp/h/helper.py && "
            "PYTHONPATH=/tmp/h:. python -c 'import helper, shop.core; assert shop.core.limited(5) == 5'"
        ),
    ),
    Case(
        "a user's site folder",
        command=(
            'd=$(python -m site --user-site); mkdir -p $d && echo \'import sys; sys.path.insert(0, "."); '
            "import shop.core; shop.core.LIMIT = 1' > $d/usercustomize.py && "
            "PYTHONPATH=. python -c 'import shop.core; assert shop.core.limited(5) == 5'"
        ),
    ),
    Case(
        "a conftest that changes",
        command="python -m pytest -q test_it.py",
        files={
            "conftest.py": "from shop import core\ncore.RATES['a'] = 9\n",
            "test_it.py": "import shop\n\n\ndef test_it():\n    assert shop.scaled('a') == 3\n",
        },
    ),
    Case(
        "a fixture that changes",
        command="python -m pytest -q test_it.py",
        files={
            "test_it.py": "import shop\nfrom shop import core\n\n\ndef test_it(monkeypatch):\n"
            "    monkeypatch.setattr('shop.core.LIMIT', 1)\n    assert core.limited(5) == 5\n",
        },
    ),
    Case(
        "a subprocess",
        "import subprocess\ncode = 'from shop import core; core.LIMIT = 1; print(core.limited(5))'\n"
        "shop.half(2)\ngot = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True).stdout\n"
        "assert got.strip() == '5', got\n",
    ),
    Case(
        "a subprocess with an environment of its own",
        "import subprocess, os\n"
        "code = 'from shop import core; core.LIMIT = 1; print(core.limited(5))'\nshop.half(2)\n"
        "got = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, env={}).stdout\n"
        "assert got.strip() == '5', got\n",
    ),
    Case(
        "a forked process",
        "import os\nread, write = os.pipe()\nif os.fork() == 0:\n    core.LIMIT = 1\n"
        "    os.write(write, str(core.limited(5)).encode())\n    os._exit(0)\n"
        "shop.half(2)\ngot = os.read(read, 9)\nassert got == b'5'\n",
    ),
    Case("a change before os._exit", "import os\ncore.LIMIT = 1\nif core.limited(5) != 5:\n    os._exit(1)\n"),
    Case(
        "bytecode",
        command=(
            "python - <<'END'\nimport importlib.util, importlib._bootstrap_external as b, os\n"
            "source = open('shop/core.py').read().replace('1 / value', '1 / 0')\n"
            "stat = os.stat('shop/core.py')\ncode = compile(source, os.path.abspath('shop/core.py'), 'exec')\n"
            "os.makedirs('shop/__pycache__', exist_ok=True)\n"
            "open(importlib.util.cache_from_source('shop/core.py'), 'wb').write("
            "b._code_to_timestamp_pyc(code, int(stat.st_mtime), stat.st_size))\n"
            "END\nPYTHONPATH=. python -c 'import shop; shop.half(2)'"
        ),
    ),
    Case(
        "bytecode without a source",
        files={"shows.py": "import shop.gone\nshop.gone.half(2)\n"},
        command=(
            "python - <<'END'\nimport importlib._bootstrap_external as b, os\n"
            "code = compile('def half(value):\\n    return 1 / 0\\n', os.path.abspath('shop/core.py'), 'exec')\n"
            "open('shop/gone.pyc', 'wb').write(b._code_to_timestamp_pyc(code, 0, 0))\nEND\npython shows.py"
        ),
    ),
    Case(
        "code under the repository's name",
        "space = {}\n"
        "exec(compile('\\n' * 17 + 'def half(value):\\n    return 1 / 0\\n', core.__file__, 'exec'), space)\n"
        "shop.total([1])\nspace['half'](2)\n",
    ),
    Case(
        "the witness switched off",
        "trace = sys.gettrace()\nsys.settrace(None)\ncore.LIMIT = 1\ngot = core.limited(5)\n"
        "core.LIMIT = 10\nsys.settrace(trace)\nshop.half(2)\nassert got == 5\n",
    ),
    Case(
        "a word of the witness's", "import os\nprint(os.environ.get('SCROUT_WATCH_KEY'))\nassert shop.add(2, 2) == 4\n"
    ),
]

HONEST = [
    Case("a module that puts another in its place", "from shop.lazy import anything\nassert anything(2) == 2\n"),
    Case(
        "the same, imported after other code has run",
        "shop.add(1, 1)\nimport shop.lazy\nassert shop.lazy.any(2) == 2\n",
    ),
    Case("an object that stands for another", "import shop.proxy\nassert shop.proxy.size() == 4\n"),
    Case("a cache, a counter and a late table", "for _ in range(3):\n    core.cached(2)\nassert core.cached(2) == 5\n"),
    Case("flags", "both = core.Side.LEFT | core.Side.RIGHT\nassert core.sides(both) == 3\n"),
    Case("mocks in the repository's own tests", command="python -m pytest -q tests/test_mocked.py"),
    Case(
        "a mock of a function that the repository does not call",
        "from unittest import mock\nwith mock.patch('time.sleep'):\n    total = shop.add(2, 2)\nassert total == 4\n",
    ),
    Case(
        "code that the repository makes",
        "from shop.made import make\nmake('value - 1')(4)\nassert shop.add(2, 2) == 4\n",
    ),
    Case(
        "a profiler",
        "import cProfile\nprofiler = cProfile.Profile()\nprofiler.enable()\ngot = shop.add(2, 2)\nprofiler.disable()\n"
        "assert got == 4\n",
    ),
    Case("lru_cache", "core.slow(1)\ncore.slow(2)\nassert core.slow(1) == 3\n"),
    Case(
        "the repository's own registry",
        "@core.register\ndef hook(value):\n    return value\n\nassert core.run_hooks(1) == [2]\n",
    ),
    Case("a subclass that registers", "class Mine(core.Plugin):\n    pass\n\nassert core.Plugin.known == []\n"),
    Case("a submodule imported later", "import shop.pieces.one\nassert shop.pieces.one.one() == 2\n"),
    Case("objects of its own", "box = shop.Box()\nbox.items.append(1)\nbox.extra = 2\nassert box.count() == 2\n"),
    Case("a cached property of an object of the module", "core.DEFAULT.last\nassert core.DEFAULT.count() == 2\n"),
    Case(
        "other output and input",
        "import io, contextlib\nsys.stdin = io.StringIO('2')\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n    got = shop.add(2, 2)\nassert got == 4\n",
    ),
    Case(
        "an answer to input()",
        "import builtins\nbuiltins.input = lambda *a: '2'\nassert shop.add(int(input()), 2) == 4\n",
    ),
    Case("an environment variable", "import os\nos.environ['SHOP'] = '1'\nassert shop.add(2, 2) == 4\n"),
    Case(
        "a mock as an argument", "from unittest.mock import Mock\nbox = shop.Box([Mock()])\nassert box.count() == 2\n"
    ),
    Case(
        "warnings as errors",
        "import warnings\nwith warnings.catch_warnings(record=True):\n"
        "    warnings.simplefilter('error')\n    got = shop.add(2, 2)\nassert got == 4\n",
    ),
    Case("a larger recursion limit", "sys.setrecursionlimit(5000)\nassert shop.add(2, 2) == 4\n"),
    Case("many calls", "for number in range(3000):\n    core.cached(number)\nassert shop.add(2, 2) == 4\n"),
    Case("the repository loaded again", "import importlib\nimportlib.reload(core)\nassert core.add(2, 2) == 4\n"),
    Case(
        "threads",
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(4) as pool:\n"
        "    got = list(pool.map(core.cached, range(50)))\nassert got[1] == 3\n",
    ),
    Case(
        "unittest",
        command="python -m unittest -q test_it",
        files={
            "test_it.py": (
                "import unittest\nimport shop\n\n\nclass Test(unittest.TestCase):\n    def test_it(self):\n"
                "        with self.assertRaises(ZeroDivisionError):\n            shop.half(0)\n"
                "        self.assertEqual(shop.add(2, 2), 4)\n"
            )
        },
    ),
    Case(
        "pytest with fixtures",
        command="python -m pytest -q test_it.py",
        files={
            "conftest.py": "import pytest\n\n\n@pytest.fixture\ndef two():\n    return 2\n",
            "test_it.py": "import shop\n\n\ndef test_it(two, tmp_path, capsys, monkeypatch):\n"
            "    monkeypatch.setenv('SHOP', '1')\n    monkeypatch.chdir(tmp_path)\n    assert shop.add(two, 2) == 4\n",
        },
    ),
    Case(
        "beside the repository's own tests",
        command="python -m pytest -q tests",
        files={"tests/test_new.py": "import shop\n\n\ndef test_it():\n    assert shop.add(2, 2) == 4\n"},
    ),
    Case(
        "a subprocess",
        "import subprocess, os\ncode = 'import shop; print(shop.add(2, 2))'\n"
        "got = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True,\n"
        "                     env={'PATH': os.environ['PATH']}).stdout\nassert got.strip() == '4', got\n",
    ),
    Case(
        "an exception that it handles",
        "try:\n    shop.half(0)\nexcept ZeroDivisionError:\n    sys.exit(1)\n",
    ),
]


Shop = tuple[Task, TaskSandbox]


@pytest.fixture(scope="module")
def shop_task(tier: Tier, light_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    repo = tmp_path_factory.mktemp("shop") / "repo"
    for name, content in FILES.items():
        path = repo / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    for args in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "Start")):
        _git(repo, *args)
    task = Task(id="shop", text=ISSUE, repo=repo.resolve(), base_commit=_git(repo, "rev-parse", "HEAD"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("PATH", str(light_python), prepend=os.pathsep)
        with open_task_sandbox(task, tier, Settings()) as task_sandbox:
            yield task, task_sandbox


async def _gate(shop: Shop, case: Case) -> GatedHandoff:
    task, task_sandbox = shop
    files = dict(case.files)
    if case.script:
        files["shows.py"] = START + case.script
    claim = Reproduction(files=files, command=case.command, claim=True)
    return await gate(task, Handoff(reproduction=claim), task_sandbox, GateSettings(timeout_s=20))


@pytest.mark.parametrize("case", TAMPERING, ids=lambda case: case.name)
async def test_what_the_claim_changed_is_no_bug_of_the_repository(shop_task: Shop, case: Case) -> None:
    gated = await _gate(shop_task, case)
    assert (gated.verdict, gated.reason) == ("tampered", gated.reason), gated.evidence.output_tail


@pytest.mark.parametrize("case", but_slow(HONEST, "beside the repository's own tests", "pytest with fixtures"))
async def test_what_the_repository_changes_itself_is_no_tampering(shop_task: Shop, case: Case) -> None:
    gated = await _gate(shop_task, case)
    assert (gated.verdict, gated.reason) == ("real_failure", gated.reason), gated.evidence.output_tail
