"""Runs inside the sandbox, in a trial: the claim's command once more, with other results of the repository.

A function of the repository that the claim calls gives what the trial says, and does nothing else. Its modules are
compiled with a question at the start of each function. Nothing is watched: what counts is how the command ends.
"""

import ast
import atexit
import contextlib
import importlib.machinery
import json
import os
import re
import sys
import threading

import sitecustomize as watch

_trial = json.loads(os.environ["SCROUT_WATCH_TRIAL"])
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
    """A result as it was, but equal to whatever the claim compares it with, and so are its parts.

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
    made.wish_text = text
    return made


def _wish_class(kind):
    def always(self, *others):
        return True

    def never(self, *others):
        return False

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


_OWN_NAMES = {"_scrout_unlike": Unlike(), "_scrout_shown": Shown, "_scrout_wish": wish}


def asked():
    """Whether the function that asks shall give something else; an exception may be what it shall give."""
    frame = sys._getframe(1)
    if getattr(_local, "busy", False) or not _called_by_claim(frame):
        return False
    code = frame.f_code
    _state["calls"] += 1
    place = os.path.abspath(code.co_filename), code.co_firstlineno
    wanted = [change for change in _changes if (change["path"], change["line"]) == place]
    if not wanted:
        return False
    _counts[place] = _counts.get(place, 0) + 1
    return any(_give(change, frame) for change in wanted if change["nth"] in (0, _counts[place]))


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


def items():
    value = _local.value
    return value if isinstance(value, (list, tuple, set, frozenset, dict)) else [value]


class _Questions(ast.NodeTransformer):
    def visit_FunctionDef(self, node):
        self.generic_visit(node)
        if node.name not in _SKIPPED:
            text = _GENERATOR if _yields(node) else _PLAIN
            _insert(node, text)
        return node

    def visit_AsyncFunctionDef(self, node):
        self.generic_visit(node)
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
    if watch._side_of(str(path)) is watch._REPOSITORY:
        with contextlib.suppress(SyntaxError, ValueError, RecursionError):
            data = _Questions().visit(ast.parse(data))
    return _compile_source(loader, data, path, **options)


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
    import builtins

    builtins._scrout_asked, builtins._scrout_asked_for = asked, asked_for
    builtins._scrout_given, builtins._scrout_items = given, items
    # Bytecode has no questions in it.
    sys.dont_write_bytecode = True
    sys.pycache_prefix = "/nonexistent"
    _loader.source_to_code = _source_to_code
    sys.addaudithook(_audit)
    atexit.register(_tell)


begin()
