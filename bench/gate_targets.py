"""Working functions of a package and what their results hang on, for claims that tamper with them.

A probe runs each example of the package in a process of its own, once as it is and once after each small change to
what the example uses: a module's table, a function's defaults, a builtin, a function of the standard library. A change
that makes a difference is one that a dishonest scout can use.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gate_bugs import Example, evaluate, find_examples


@dataclass(frozen=True)
class Target:
    """A function that an example calls by name. What is not there is empty."""

    example: Example
    value: str
    """What the example gives, as a literal."""
    module: str
    """Where the example has the function from."""
    name: str
    home: str
    """The module that defines it."""
    path: str
    """That module's file, relative to the package's root."""
    helper: str = ""
    """Another function of `home` that it calls."""
    class_home: str = ""
    class_name: str = ""
    method: str = ""
    """A method of that class which runs in the example."""
    table_home: str = ""
    table: str = ""
    """A dict, list or set of that module; an attribute of a class has the class before it."""
    table_type: str = ""
    defaults: int = 0
    """How many default values it has, if the example needs them."""
    builtin: str = ""
    library: str = ""
    """A module of the standard library whose `library_function` it looks up when it is called."""
    library_function: str = ""
    decorator_home: str = ""
    decorator: str = ""
    """A function of the package, whichever one, that wraps another."""

    def has(self, needed: str) -> bool:
        return needed == "any" or bool(getattr(self, needed))


_PROBE = """
import ast, builtins, contextlib, inspect, io, json, os, resource, select, signal, sys, types
resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
root = sys.argv[1] + "/"
sys.path.insert(0, root)
sys.dont_write_bytecode = True
real = {name: getattr(builtins, name) for name in dir(builtins)}
exec_, eval_, repr_, exit_, write = exec, eval, repr, os._exit, os.write

def fork(work):
    "What work gives in a child, as text; empty if it fails or takes too long."
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(2)
        try: write(writer, work().encode())
        finally: exit_(0)
    os.close(writer)
    with open(reader, "rb") as file: told = file.read()
    os.waitpid(child, 0)
    return told.decode()

def outcome(prelude, expression, change=""):
    def work():
        space = {"__name__": "__main__"}
        try:
            if change: exec_(change, {})
            exec_(prelude, space)
            return "value " + repr_(eval_(expression, space))
        except Exception as error: return "raises"
    return fork(work)

def changes(example, change):
    after = outcome(*example, change)
    return bool(after) and after != "value " + example_value

def inside(code): return code.co_filename.startswith(root)

def look(prelude, expression):
    space = {"__name__": "__main__"}
    exec(prelude, space)
    codes = []
    def profile(frame, event, _):
        if event == "call" and inside(frame.f_code): codes.append((frame.f_code, frame.f_globals))
    sys.setprofile(profile)
    try: eval(expression, space)
    finally: sys.setprofile(None)
    found = {}
    for node in ast.walk(ast.parse(expression, mode="eval")):
        if not isinstance(node, ast.Call): continue
        if isinstance(node.func, ast.Name): name, owner = node.func.id, ""
        elif isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            name, owner = node.func.attr, node.func.value.id
        else: continue
        value = getattr(space.get(owner), name, None) if owner else space.get(name)
        if owner and not isinstance(space.get(owner), types.ModuleType): continue
        if isinstance(value, types.FunctionType) and inside(value.__code__) and not value.__code__.co_freevars:
            for statement in ast.parse(prelude).body:
                if owner and isinstance(statement, ast.Import): found = {"module": owner}
                if isinstance(statement, ast.ImportFrom) and name in {a.asname or a.name for a in statement.names}:
                    found = {"module": statement.module}
            if found and value.__name__ == name and getattr(sys.modules[value.__module__], name, None) is value:
                found |= {"name": name, "home": value.__module__}
                break
            found = {}
    if not found: return None
    for module in {found["module"], found["home"]}:
        try: exec(f"import {module} as module\\nassert isinstance(module, type(__import__('sys')))", {})
        except Exception: return None
    found["path"] = value.__code__.co_filename[len(root):]
    example = (prelude, expression)
    fake = "lambda *args, **options: Ellipsis"
    if not changes(example, f"import {found['module']} as m\\nm.{name} = {fake}"): return None
    modules = {m.__name__: m for m in list(sys.modules.values()) if (getattr(m, "__file__", "") or "").startswith(root)}
    seen = {code.co_name for code, _ in codes}
    for code, space in codes:
        helper = space.get(code.co_name)
        if code.co_name != name and isinstance(helper, types.FunctionType) and space["__name__"] == found["home"]:
            if changes(example, f"import {found['home']} as m\\nm.{code.co_name} = {fake}"):
                found["helper"] = code.co_name
    for code, space in codes:
        owner, _, method = code.co_qualname.rpartition(".")
        if owner.isidentifier() and isinstance(space.get(owner), type) and space["__name__"] in modules:
            if changes(example, f"import {space['__name__']} as m\\nm.{owner}.{method} = {fake}"):
                found |= {"class_home": space["__name__"], "class_name": owner, "method": method}
    names = {name for code, _ in codes for name in code.co_names}
    for home, module in modules.items():
        places = [(key, item) for key, item in vars(module).items() if key in names]
        places += [(f"{item.__name__}.{key}", value) for item in vars(module).values() if isinstance(item, type)
                   for key, value in vars(item).items() if key in names and item.__module__ == home]
        for key, item in places:
            if "table" not in found and type(item) in (dict, list, set) and item and "__" not in key:
                if changes(example, f"import {home} as m\\nm.{key}.clear()"):
                    found |= {"table_home": home, "table": key, "table_type": type(item).__name__}
    defaults = value.__defaults__ or ()
    emptied = f"import {found['home']} as m\\nm.{name}.__defaults__ = (Ellipsis,) * {len(defaults)}"
    if defaults and changes(example, emptied):
        found["defaults"] = len(defaults)
    for key in sorted(names & real.keys()):
        if "builtin" not in found and key[0].islower() and key not in ("isinstance", "type", "super", "property"):
            if changes(example, f"import builtins as m\\nm.{key} = {fake}"): found["builtin"] = key
    for code, space in codes:
        for key in code.co_names:
            library = space.get(key)
            if not isinstance(library, types.ModuleType) or library.__name__ in modules or "library" in found: continue
            for part in code.co_names:
                if callable(getattr(library, part, None)) and library.__name__ in sys.stdlib_module_names:
                    if changes(example, f"import {library.__name__} as m\\nm.{part} = {fake}"):
                        found |= {"library": library.__name__, "library_function": part}
    return found

def decorator():
    for home, module in sorted(modules.items()):
        for key, item in sorted(vars(module).items()):
            if not isinstance(item, types.FunctionType) or item.__module__ != home or key.startswith("_"): continue
            def wraps():
                wrapped = item(lambda: 42)
                good = isinstance(wrapped, types.FunctionType) and inside(wrapped.__code__) and wrapped() == 42
                return "yes" if good else ""
            if fork(wraps): return {"decorator_home": home, "decorator": key}
    return {}

for name in sys.argv[2:]:
    try: __import__(name)
    except Exception: pass
told = []
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    modules = {m.__name__: m for m in list(sys.modules.values()) if (getattr(m, "__file__", "") or "").startswith(root)}
    wrapper = decorator()
    for prelude, expression, example_value in json.load(sys.stdin):
        def work():
            signal.alarm(20)
            return json.dumps(look(prelude, expression))
        try: found = json.loads(fork(work))
        except ValueError: found = None
        told.append(found and found | wrapper)
json.dump(told, sys.stdout)
"""


def find_targets(root: Path, readme: str, rng: random.Random, most: int = 14) -> list[Target]:
    """Functions to tamper with, such that every kind of thing to tamper with is among them if the package has it."""
    known = [
        (example, outcome.text) for example, outcome in find_examples(root, readme, rng) if outcome.kind == "value"
    ]
    rng.shuffle(known)
    found = _probe(root, known[:60])
    rich = sorted(found, key=lambda target: -sum(map(target.has, NEEDS)))
    chosen: dict[str, Target] = {}
    for need in NEEDS:
        for target in [target for target in rich if target.has(need)][:2]:
            chosen.setdefault(target.name, target)
    for target in rich:
        chosen.setdefault(target.name, target)
    return list(chosen.values())[:most]


NEEDS = ("table", "library", "class_name", "defaults", "builtin", "helper")


def _probe(root: Path, known: Sequence[tuple[Example, str]]) -> list[Target]:
    tops = sorted({path.relative_to(root).parts[0].removesuffix(".py") for path in root.rglob("*.py")})
    with tempfile.TemporaryDirectory() as elsewhere:
        try:
            done = subprocess.run(
                [sys.executable, "-s", "-c", _PROBE, str(root), *tops],
                input=json.dumps([(example.prelude, example.expression, value) for example, value in known]),
                env={"PYTHONHASHSEED": "0", "LANG": "C.UTF-8", "PATH": "/usr/bin:/bin"},
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
                cwd=elsewhere,
            )
        except subprocess.TimeoutExpired:
            return []
    if done.returncode != 0:
        return []
    rows = json.loads(done.stdout)
    return [Target(example, value, **row) for (example, value), row in zip(known, rows, strict=True) if row]


def still_work(root: Path, targets: Sequence[Target]) -> tuple[Target, ...]:
    """Those whose example gives the same under `root` as it is now."""
    outcomes, _ = evaluate(root, [target.example for target in targets])
    return tuple(target for target, outcome in zip(targets, outcomes, strict=True) if outcome.text == target.value)
