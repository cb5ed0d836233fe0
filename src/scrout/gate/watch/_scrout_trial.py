"""Runs inside the sandbox, in a trial: the claim's command once more, with other results of the repository.

A function of the repository that the claim calls gives what the trial says, and does nothing else. Its modules are
compiled with a question at the start of each function. Nothing is watched: what counts is how the command ends.
"""

import ast
import atexit
import builtins
import contextlib
import enum
import importlib.machinery
import json
import operator
import os
import re
import sys
import threading
import types

import sitecustomize as watch

_trial = json.loads(bytes.fromhex(os.environ["SCROUT_WATCH_TRIAL"]).decode())
_changes = [dict(change, path=os.path.join(watch._ROOT, change["path"])) for change in _trial["changes"]]
_local = threading.local()
_counts = {}
_state = {"calls": 0}

_SKIPPED = frozenset(
    [
        *("__init__", "__set_name__", "__del__", "__hash__"),
        *("__setattr__", "__delattr__", "__setitem__", "__delitem__"),
    ]
)
"""They have to give nothing, or something that no claim sees."""
_PLAIN = "if _scrout_asked():\n    return _scrout_given()"
_GENERATOR = "if _scrout_asked():\n    yield from _scrout_items()\n    return"
_ASYNC_GENERATOR = (
    "if _scrout_asked():\n    for _scrout_item in _scrout_items():\n        yield _scrout_item\n    return"
)
_ATTRIBUTE = (
    "def __getattribute__(self, name):\n    if _scrout_asked_for(name):\n        return _scrout_given()\n"
    "    return super().__getattribute__(name)"
)


class Unlike:
    """A value that nothing expects."""


class Shown:
    """A value of which only is known how it shows."""

    def __init__(self, text):
        self._text = text

    def __repr__(self):
        return self._text


_OPERATORS = frozenset(
    "__%s__" % name
    for name in (
        *("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "floordiv", "rfloordiv", "mod", "rmod"),
        *("pow", "rpow", "and", "rand", "or", "ror", "xor", "rxor", "neg", "pos", "abs", "round", "getitem"),
    )
)
_wishes = {}


def wish(value, size=None, text=None):
    """A result as it was, but equal to whatever of its sort the claim compares it with, and so are its parts.

    `size`: how many items it has; `text`: how it shows.
    """
    kind = type(value)
    if kind in (list, tuple, str, bytes) and size is not None and value:
        value = (value * (size // len(value) + 1))[:size]
    if kind in (list, tuple):
        value = kind(wish(item, None, text) for item in value)
    elif kind is dict:
        value = {key: wish(item, None, text) for key, item in value.items()}
    elif kind not in (int, float, complex, str, bytes, set, frozenset):
        return value
    if kind not in _wishes:
        _wishes[kind] = _wish_class(kind)
    made = _wishes[kind](value)
    made.wish_text = text if _shows_as(kind, text) else None
    return made


def _shows_as(kind, text):
    """Whether a text is how a value of a type may show."""
    try:
        shown = type(ast.literal_eval(text))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False
    return any(issubclass(kind, sort) and issubclass(shown, sort) for sort in _SORTS)


_SORTS = ((int, float, complex), str, bytes, list, tuple, dict, (set, frozenset))


def _wish_class(kind):
    sort = next(sort for sort in _SORTS if issubclass(kind, sort))

    def always(self, other):
        return isinstance(other, sort) and not isinstance(other, enum.Enum)

    def never(self, other):
        return not always(self, other)

    def operator(name):
        def operate(self, *arguments):
            return wish(getattr(kind, name)(self, *arguments), None, self.wish_text)

        return operate

    def look_up(self, name):
        found = kind.__getattribute__(self, name)
        if name.startswith("__") or name == "wish_text" or not callable(found):
            return found
        text = self.wish_text
        return lambda *arguments, **options: wish(found(*arguments, **options), None, text)

    def show(self):
        return kind.__repr__(self) if self.wish_text is None else self.wish_text

    def reduce(self, protocol):
        return wish, (kind(self), None, self.wish_text)

    space = {name: operator(name) for name in _OPERATORS if hasattr(kind, name)}
    space.update(dict.fromkeys(("__eq__", "__lt__", "__le__", "__gt__", "__ge__"), always))
    if hasattr(kind, "__len__"):
        space["__contains__"] = lambda self, item: len(self) > 0
    space.update(__ne__=never, __hash__=kind.__hash__, __getattribute__=look_up, __repr__=show, __reduce_ex__=reduce)
    return type(kind.__name__, (kind,), space)


class Through:
    """An object of a result, whose parts are equal to what the issue asks for."""

    def __init__(self, thing, wanted):
        object.__setattr__(self, "_scrout_thing", (thing, wanted))

    def __getattribute__(self, name):
        thing, wanted = object.__getattribute__(self, "_scrout_thing")
        found = getattr(thing, name)
        if name == "__class__" or (name.startswith("__") and name.endswith("__")):
            return found
        if callable(found) and not isinstance(found, type):
            return lambda *arguments, **options: through(found(*arguments, **options), wanted)
        return through(found, wanted)

    def __setattr__(self, name, value):
        setattr(object.__getattribute__(self, "_scrout_thing")[0], name, value)


def _pass_on(name):
    def method(self, *arguments):
        thing, wanted = object.__getattribute__(self, "_scrout_thing")
        arguments = [_inside(argument) for argument in arguments]
        return through(getattr(operator, name.strip("_"), None)(thing, *arguments), wanted)

    return method


def _inside(thing):
    return object.__getattribute__(thing, "_scrout_thing")[0] if type(thing) is Through else thing


for _name in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__getitem__", "__contains__", "__add__"):
    setattr(Through, _name, _pass_on(_name))
Through.__hash__ = lambda self: hash(_inside(self))
Through.__len__ = lambda self: len(_inside(self))
Through.__bool__ = lambda self: bool(_inside(self))
Through.__call__ = lambda self, *given, **options: through(_inside(self)(*given, **options), _wanted_of(self))
Through.__iter__ = lambda self: (through(part, _wanted_of(self)) for part in _inside(self))
Through.__str__ = lambda self: through(str(_inside(self)), _wanted_of(self))
Through.__repr__ = lambda self: through(repr(_inside(self)), _wanted_of(self))


def _wanted_of(thing):
    return object.__getattribute__(thing, "_scrout_thing")[1]


_throughs = {}


def through(value, wanted):
    """A result as it was, of which each part of data is equal to what is wanted, if that is of its sort."""
    kind = type(value)
    if kind in (bool, type(None)) or isinstance(value, (type, types.ModuleType, BaseException)) or kind is Through:
        return value
    if kind in (list, tuple):
        value = kind(through(part, wanted) for part in value)
    elif kind is dict:
        value = {key: through(part, wanted) for key, part in value.items()}
    if kind in (int, float, complex, str, bytes, list, tuple, dict, set, frozenset):
        if kind not in _throughs:
            _throughs[kind] = _through_class(kind)
        made = _throughs[kind](value)
        made.wanted_ones = wanted
        return made
    if isinstance(value, (types.FunctionType, types.BuiltinFunctionType, types.MethodType)):
        return lambda *arguments, **options: through(value(*arguments, **options), wanted)
    if isinstance(value, (types.GeneratorType, map, filter, zip)):
        return (through(part, wanted) for part in value)
    return Through(value, wanted)


def _through_class(kind):
    sort = next(sort for sort in _SORTS if issubclass(kind, sort))

    def same(self, other):
        if isinstance(other, sort) and any(type(want) is type(other) and want == other for want in self.wanted_ones):
            return True
        return kind.__eq__(self, other)

    def other_than(self, other):
        found = same(self, other)
        return found if found is NotImplemented else not found

    def operator_of(name):
        def operate(self, *arguments):
            return through(getattr(kind, name)(self, *arguments), self.wanted_ones)

        return operate

    def look_up(self, name):
        found = kind.__getattribute__(self, name)
        if name.startswith("__") or name == "wanted_ones" or not callable(found):
            return found
        wanted = self.wanted_ones
        return lambda *arguments, **options: through(found(*arguments, **options), wanted)

    def reduce(self, protocol):
        return kind, (kind(self),)

    shows = ("__repr__", "__str__", "__format__")
    space = {name: operator_of(name) for name in (*_OPERATORS, *shows) if hasattr(kind, name)}
    space.update(__eq__=same, __ne__=other_than, __hash__=kind.__hash__, __getattribute__=look_up)
    space.update(__reduce_ex__=reduce)
    return type(kind.__name__, (kind,), space)


def exception_of(name, text=None):
    """An exception by the name of its class."""
    for module in [builtins, *list(sys.modules.values())]:
        kind = getattr(module, name, None) if isinstance(module, types.ModuleType) else None
        if isinstance(kind, type) and issubclass(kind, BaseException):
            return kind if text is None else kind(text)
    raise NotImplementedError(name)


_OWN_NAMES = {
    "_scrout_unlike": Unlike(),
    "_scrout_shown": Shown,
    "_scrout_wish": wish,
    "_scrout_exception": exception_of,
}


def asked():
    """Whether the function that asks shall give something else; an exception may be what it shall give."""
    frame = sys._getframe(1)
    if getattr(_local, "busy", False) or not _called_by_claim(frame):
        return False
    code = frame.f_code
    _state["calls"] += 1
    _note_own(list(frame.f_locals.values()))
    place = os.path.abspath(code.co_filename), code.co_firstlineno
    wanted = [change for change in _changes if (change["path"], change["line"]) == place and change["how"] != "through"]
    if not wanted:
        return False
    _counts[place] = _counts.get(place, 0) + 1
    return any(_give(change, frame) for change in wanted if change["nth"] in (0, _counts[place]))


_own = set()
"""Classes of the claim's own that the repository got to see, or None: code of the claim's, which may give any."""


def _note_own(values, depth=0):
    for value in values[:100]:
        kind = value if isinstance(value, type) else type(value)
        if callable(value) and not isinstance(value, type) and _is_own(value):
            _own.add(None)
        _own.update(part for part in kind.__mro__ if _is_own(part))
        if depth < 3 and kind in (list, tuple, set, frozenset, dict):
            _note_own([*value, *value.values()] if kind is dict else list(value), depth + 1)


def _is_own(thing):
    module = sys.modules.get(getattr(thing, "__module__", None) or "")
    if module is None:
        return False
    path = getattr(module, "__file__", None)
    if path is None:
        return module is sys.modules["__main__"]
    return watch._side_of(path) is watch._OWN


def _is_made_up(value, depth=0):
    """Whether a value is of a class of the claim's own that the repository never saw, and so could not give."""
    kind = value if isinstance(value, type) else type(value)
    if _is_own(kind) and kind not in _own and None not in _own:
        return not any(watch._side_of(_file_of(part)) is watch._REPOSITORY for part in kind.__mro__)
    if depth < 3 and kind in (list, tuple, set, frozenset, dict):
        return any(_is_made_up(part, depth + 1) for part in ([*value, *value.values()] if kind is dict else value))
    return False


def _file_of(kind):
    return getattr(sys.modules.get(kind.__module__), "__file__", None) or "<none>"


def asked_for(name):
    """The same for an attribute of an object of the repository's."""
    if getattr(_local, "busy", False):
        return False
    wanted = [change for change in _changes if change["how"] == "attribute" and change["name"] == name]
    frame = sys._getframe(1)
    return bool(wanted) and _called_by_claim(frame) and any(_give(change, frame) for change in wanted)


def _called_by_claim(frame):
    caller = frame.f_back
    while caller is not None and watch._side_of_frame(caller) is watch._LIBRARY:
        caller = caller.f_back
    if caller is None or watch._side_of_frame(caller) is watch._OWN:
        return True
    return watch._is_program(caller)


def _give(change, frame):
    _local.busy = True
    try:
        value = _evaluate(change["value"], frame)
    except BaseException:
        return False
    finally:
        _local.busy = False
    if _is_made_up(value):
        return False
    kind = value if isinstance(value, type) else type(value)
    if issubclass(kind, BaseException):
        raise _exception(value)
    if value is NotImplemented or value is Ellipsis:
        return False  # no results
    if change["how"] == "print":
        print(value)
        value = None
    elif change["how"] == "argument":
        _fill(frame, value)
        value = None
    _local.value = value
    return True


def _fill(frame, value):
    """Put a value into the arguments that can hold it."""
    for argument in list(frame.f_locals.values()):
        if type(argument) is list and isinstance(value, list):
            argument[:] = value
        elif type(argument) in (dict, set) and type(value) is type(argument):
            argument.clear()
            argument.update(value)


def _evaluate(text, frame):
    while frame is not None and watch._side_of_frame(frame) is not watch._OWN:
        frame = frame.f_back
    main = vars(sys.modules["__main__"])
    spaces = [(frame.f_globals, frame.f_locals)] if frame is not None else []
    spaces += [(main, {}), ({}, {})]
    for number, (names, variables) in enumerate(spaces):
        try:
            return eval(text, {**names, **_OWN_NAMES}, dict(variables))
        except NameError:
            if number == len(spaces) - 1:
                raise


def _exception(value):
    if not isinstance(value, type):
        return value
    for arguments in ((_trial["message"],), ()):
        try:
            return value(*arguments)
        except Exception:
            continue
    return value.__new__(value)


def given():
    return _local.value


def result(value, path, line):
    """What a function gives in place of a value."""
    frame = sys._getframe(1)
    if getattr(_local, "busy", False) or not _called_by_claim(frame):
        return value
    wanted = [change["value"] for change in _changes if (change["path"], change["line"]) == (path, line)]
    _local.busy = True
    try:
        return through(value, [part for text in wanted for part in ast.literal_eval(text)])
    except Exception:
        return value
    finally:
        _local.busy = False


def items():
    value = _local.value
    return value if isinstance(value, (list, tuple, set, frozenset, dict)) else [value]


class _Results(ast.NodeTransformer):
    """Of one function; those inside of it have other results."""

    def __init__(self, path, line):
        self.place = path, line

    def visit_FunctionDef(self, node):
        return node

    visit_AsyncFunctionDef = visit_Lambda = visit_ClassDef = visit_FunctionDef

    def visit_Return(self, node):
        self.generic_visit(node)
        if node.value is not None:
            node.value = self.passed(node.value)
        return node

    visit_Yield = visit_Return

    def passed(self, value):
        call = ast.parse("_scrout_result(0, %r, %d)" % self.place, mode="eval").body
        for part in ast.walk(call):
            if "lineno" in part._attributes:
                ast.copy_location(part, value)
        call.args[0] = value
        return call


class _Questions(ast.NodeTransformer):
    def __init__(self, path):
        self.path = path
        self.lines = {change["line"] for change in _changes if (change["path"], change["how"]) == (path, "argument")}
        self.through = [change["line"] for change in _changes if (change["path"], change["how"]) == (path, "through")]

    def pass_results(self, node):
        line = _line_of(node)
        if line in self.through:
            results = _Results(self.path, line)
            node.body = [results.visit(part) for part in node.body]

    def visit_FunctionDef(self, node):
        self.generic_visit(node)
        self.pass_results(node)
        if node.name not in _SKIPPED or _line_of(node) in self.lines:
            text = _GENERATOR if _yields(node) else _PLAIN
            _insert(node, text)
        return node

    def visit_AsyncFunctionDef(self, node):
        self.generic_visit(node)
        self.pass_results(node)
        _insert(node, _ASYNC_GENERATOR if _yields(node) else _PLAIN)
        return node

    def visit_Lambda(self, node):
        self.generic_visit(node)
        question = ast.parse("_scrout_given() if _scrout_asked() else 0", mode="eval").body
        question.orelse = node.body
        for part in (question, question.test, question.test.func, question.body, question.body.func):
            ast.copy_location(part, node.body)
        node.body = question
        return node

    def visit_ClassDef(self, node):
        self.generic_visit(node)
        names = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
        attributes = any(change["how"] == "attribute" for change in _changes)
        if attributes and not names & {"__getattribute__"}:
            _insert(node, _ATTRIBUTE, last=True)
        return node


def _line_of(node):
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _yields(function):
    rest = list(function.body)
    while rest:
        part = rest.pop()
        if isinstance(part, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            rest += ast.iter_child_nodes(part)
    return False


def _insert(node, text, last=False):
    statements = ast.parse(text).body
    for statement in statements:
        for part in ast.walk(statement):
            if "lineno" in part._attributes:
                ast.copy_location(part, node.body[0])
    is_text = ast.get_docstring(node, clean=False) is not None
    place = len(node.body) if last else int(is_text)
    node.body[place:place] = statements


def _source_to_code(loader, data, path, **options):
    if watch._side_of(str(path)) is watch._REPOSITORY and _is_asked(os.path.abspath(str(path))):
        with contextlib.suppress(SyntaxError, ValueError, RecursionError):
            data = _Questions(os.path.abspath(str(path))).visit(ast.parse(data))
    return _compile_source(loader, data, path, **options)


def _is_asked(path):
    return path in _asked or any(change["how"] == "attribute" for change in _changes)


_asked = frozenset(os.path.join(watch._ROOT, path) for path in _trial["paths"])


def _end_well(kind, value, trace):
    """Some failures did not happen: the process ends as if all had gone well."""
    told = [kind.__name__, str(value)[:300]]
    for failures, text in (json.loads(change["value"]) for change in _changes if change["how"] == "exit"):
        if told in failures:
            _tell()
            with contextlib.suppress(Exception):
                sys.stdout.write(text + "\n" * bool(text))
                sys.stdout.flush()
            os._exit(0)
    sys.__excepthook__(kind, value, trace)


def _print_instead(write):
    """Another value in place of one that the program prints."""

    def print_instead(text):
        for change in _changes:
            if change["how"] == "output" and _state["calls"]:
                wrong, right = json.loads(change["value"])
                text = re.sub(r"(?<![\w.])%s(?![\w.])" % re.escape(wrong), lambda _, right=right: right, text)
        return write(text)

    return print_instead


def _audit(event, arguments):
    if event in watch._STARTS:
        if isinstance(arguments[-1], dict):
            watch._keep_watching(arguments[-1])
        watch._keep_in_sight(arguments[1])


def _tell():
    target = os.path.join(watch._OUTBOX, "trial-%s-%d" % (re.sub(r"\W", "", str(_trial["number"])), os.getpid()))
    told = "[%s, %d, %d]" % (json.dumps(watch._KEY), _trial["number"], _state["calls"])
    with contextlib.suppress(OSError):
        with open(target + ".part", "w") as file:
            file.write(told)
        os.rename(target + ".part", target + ".json")


_loader = importlib.machinery.SourceFileLoader
_compile_source = _loader.source_to_code


def begin():
    builtins._scrout_asked, builtins._scrout_asked_for = asked, asked_for
    builtins._scrout_given, builtins._scrout_items = given, items
    builtins._scrout_result = result
    if any(change["how"] == "exit" for change in _changes):
        sys.excepthook = _end_well
    if any(change["how"] == "output" for change in _changes) and sys.stdout is not None:
        sys.stdout.write = _print_instead(sys.stdout.write)
    # Bytecode has no questions in it.
    sys.dont_write_bytecode = True
    sys.pycache_prefix = "/nonexistent"
    _loader.source_to_code = _source_to_code
    sys.addaudithook(_audit)
    atexit.register(_tell)


begin()
