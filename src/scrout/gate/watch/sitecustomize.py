"""Runs inside the sandbox, in every Python that a claim's command starts. Notes what the repository's code did, and
whether the claim's own code changed the repository or Python under it.

Every frame is on one of three sides: the repository's (a file of the base commit), a library's (the interpreter's and
the environment's folders), or the claim's own (everything else). The state of the repository is remembered whenever
control leaves its code, and compared whenever control comes back. What changed in between was changed by the claim;
what the repository changes while it runs is its own affair. The code that runs must be what Python makes of the
committed source, whatever import hook or bytecode file it came through.

Standard library only, any Python 3.8 or later. It runs in the process that it watches, so code that was written
against it can switch it off or forge its report. It makes that harder, not impossible.
"""

import atexit
import builtins
import collections
import functools
import json
import opcode
import operator
import os
import re
import sys
import threading
import time
import types

# What is built in is looked up here first, so that a claim which replaces it does not reach this file.
globals().update({name: value for name, value in vars(builtins).items() if not name.startswith("_")})

_ROOT = os.environ.get("SCROUT_WATCH_ROOT", "/").rstrip("/") + os.sep
_OUTBOX = os.environ.get("SCROUT_WATCH_OUTBOX", "")
_FILES = os.environ.get("SCROUT_WATCH_FILES", "")
_KEY = os.environ.get("SCROUT_WATCH_KEY", "")
_HERE = os.path.dirname(os.path.abspath(__file__))
_VARIABLES = {name: value for name, value in os.environ.items() if name.startswith("SCROUT_WATCH_")}
_MOST_RAISED = 400
_MOST_NODES = 20_000
_MOST_WRITES = 200
_MOST_ITEMS = 5_000
"""Of a container whose items are compared; of a larger one only the length is."""
_MOST_CHILDREN = 500
_DEEPEST = 4
_FREE_S = 1.0
_SHARE = 0.3
"""Comparing may take this long, and then this share of the time that passes. After that only functions and classes are
compared, now and then and whenever the claim's own code fails."""
_NOW_AND_THEN = 64
_NAMELESS = ("<string>", "<stdin>")
"""What Python calls `-c` and a script on standard input."""
_INPUTS = frozenset(
    ["builtins.input", "builtins._", "getpass.getpass", "linecache.getlines", "pdb.set_trace", "threading.excepthook"]
)
"""Library functions that claims and test runners replace for good reasons: they are streams, or show something."""

_REPOSITORY, _OWN, _LIBRARY = "repository", "own", "library"
_compile, _open, _read, _close, _getframe, _clock = compile, os.open, os.read, os.close, sys._getframe, time.monotonic
_exit, _write_bytes, _rename, _getprofile = os._exit, os.write, os.rename, sys.getprofile
_lock = threading.Lock()
_quote = json.encoder.encode_basestring_ascii

_lines = {}
# The last ones, because what ends a run comes last.
_raised = collections.deque(maxlen=_MOST_RAISED)
_escaped = collections.deque(maxlen=_MOST_RAISED)
"""Exceptions that left a frame of the claim's own code."""
_fixed = {}
"""For each file of the claim's the variables that it had when something was raised, and whether the repository may have
changed their values."""
_calls = {}
"""Functions of the repository that the claim called, the last one last: how often, and what they gave, in order."""
_given = {}
_changed = []
"""Values that the claim gave to the repository, by frame, and those that were not the same afterwards."""
_sides = {}
_tracers = {}
_known_codes = {}
_namespaces = {}
"""Of modules of the repository by the number of their dictionary."""
_kinds = {}
"""Of modules of the repository, the class that each has."""
_names = set()
"""Of modules of the repository that were loaded."""
_nodes = {}
_libraries = {}
_modules = {}
_shared = {}
"""Containers of libraries, which change as they like, by number."""
_stand_ins = {}
"""What the claim put in place of functions of the standard library, by number: it counts if it is called."""
_state = {
    "tampered": "",
    "spent": 0.0,
    "fresh": True,
    "busy": False,
    "written": 0,
    "last": None,
    "child": False,
    "inside": 0,
    "crossings": 0,
    "unsure": False,
    "profiled": False,
    "writes": 0,
    "compared": False,
}
_started = _clock()


def _limits():
    return sys.getrecursionlimit(), getattr(sys, "get_int_max_str_digits", int)()


_LIMITS = _limits()


def _read_file(path):
    descriptor = _open(path, os.O_RDONLY)
    try:
        parts = []
        while True:
            part = _read(descriptor, 1 << 20)
            if not part:
                return b"".join(parts)
            parts.append(part)
    finally:
        _close(descriptor)


def _module_name(path):
    parts = path[:-3].split("/")
    parts = parts[1:] if parts[0] in ("src", "lib") else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _tracked_files():
    try:
        return frozenset(_read_file(_FILES).decode("utf-8", "surrogateescape").split("\0")) - {""}
    except OSError:
        return frozenset()


def _trusted_folders():
    """Where libraries are: not where the claim can write, unless the whole interpreter is there."""
    folders = {os.path.realpath(folder) + os.sep for folder in (sys.prefix, sys.base_prefix, sys.exec_prefix)}
    folders |= {os.path.abspath(folder) + os.sep for folder in (sys.prefix, sys.base_prefix, sys.exec_prefix)}
    locked = {folder for folder in folders if not os.access(folder, os.W_OK)}
    trusted = locked if any(os.__file__.startswith(folder) for folder in locked) else folders
    return (*trusted, _HERE + os.sep)


_TRACKED = _tracked_files()
_EXPECTED = frozenset(_module_name(path) for path in _TRACKED if path.endswith(".py"))
_TRUSTED = _trusted_folders()


# Sides


def _side_of(name):
    side = _sides.get(name)
    if side is None:
        side = _sides[name] = _find_side(name)
    return side


def _find_side(name):
    if name.startswith("<"):
        return _OWN if name.startswith("<doctest ") else _LIBRARY
    for path in (os.path.abspath(name), os.path.realpath(name)):
        if path.startswith(_ROOT) and path[len(_ROOT) :] in _TRACKED:
            return _REPOSITORY
        if path.startswith(_TRUSTED):
            return _LIBRARY
    return _OWN


def _side_of_frame(frame):
    name = frame.f_code.co_filename
    if name in _NAMELESS:
        # Generated code, as of dataclasses, bears the same name.
        return _OWN if frame.f_globals.get("__name__") == "__main__" else _LIBRARY
    return _side_of(name)


def _caller_side(frame):
    """Who called: libraries act for their caller."""
    frame = frame.f_back
    while frame is not None:
        side = _side_of_frame(frame)
        if side is not _LIBRARY:
            return side
        frame = frame.f_back
    return _OWN


# Tracing


def _enter(frame, event, argument):
    _state["unsure"] = False
    code = frame.f_code
    side = _side_of_frame(frame)
    if side is _LIBRARY:
        # Generated code, as of dataclasses, runs in the namespace of the module that asked for it.
        if code.co_name == "<module>" and id(frame.f_globals) not in _namespaces:
            frame.f_trace_lines = False
            if code.co_filename in _NAMELESS and frame.f_back and _side_of_frame(frame.f_back) is _REPOSITORY:
                _generated[id(frame.f_globals)] = frame.f_globals
            return _library_loads
        if code.co_filename.endswith("mock.py"):
            _see_mock(frame)
        elif code.co_filename in _NAMELESS and _is_copy(frame):
            _flag("the claim's own code runs a copy of the module %s" % frame.f_globals["__name__"])
        return None
    if side is _REPOSITORY:
        if _state["profiled"] and _is_own_profile(_getprofile()):
            _flag("the claim's own code runs within every call")
        if not any(code is known for known in _known_codes.get(_name_of(code), ())):
            _verify(frame)
        if code.co_name == "<module>":
            _namespaces[id(frame.f_globals)] = frame.f_globals
            _names.add(frame.f_globals.get("__name__"))
        if _caller_side(frame) is _OWN:
            _compare(libraries=True)
            _count(1)
            _given[frame] = [(value, copy) for value, copy in map(_with_copy, frame.f_locals.values()) if copy]
            if code.co_name not in ("<module>", "__init__"):
                _note_call(code)
        elif frame.f_back is not None and _is_program(frame.f_back):
            _note_call(code)
        _state["last"] = code
    elif _caller_side(frame) is _REPOSITORY:
        _count(-1)
        _remember()
    tracer = _tracers.get((code.co_filename, side))
    if tracer is None:
        tracer = _tracers[code.co_filename, side] = _tracer(code.co_filename, side)
    return tracer


def _tracer(name, side):
    seen = _lines.setdefault(name, set())
    failing = {}
    """By frame, what was raised in it last. It was handled if the frame ends with a return."""

    def inside(frame, event, argument):
        if event == "line":
            seen.add(frame.f_lineno)
            if failing and frame.f_code.co_flags & _YIELDS:
                failing.pop(frame, None)
            if side is _OWN:
                _compare()
        elif event == "exception":
            kind, value, _ = argument
            try:
                message = str(value)[:300]
            except Exception:
                message = ""
            _raised.append((name, frame.f_lineno, frame.f_code.co_name, kind.__name__, message))
            failing[frame] = _raised[-1]
            if side is _OWN:
                _note_variables(name, frame)
                _compare(libraries=True, always=len(_escaped) < _MOST_RAISED)
        elif event == "return":
            to = _caller_side(frame)
            failed = failing.pop(frame, None)
            if failed and frame.f_code.co_code[frame.f_lasti] in _RETURNS:
                failed = None
            if side is _OWN and failed:
                _escaped.append(failed)
            if side is _REPOSITORY and to is not _OWN and frame.f_back is not None and _is_program(frame.f_back):
                _note_result(frame.f_code, argument, failed, ())
            if side is _REPOSITORY and to is _OWN:
                changed = [value for value, copy in _given.pop(frame, ()) if _copied(value) != copy]
                if changed and frame.f_code.co_name == "__init__":
                    _note_call(frame.f_code)
                _note_result(frame.f_code, argument, failed, changed)
                _count(-1)
                _changed.extend(changed)
                _remember()
                if _state["child"]:
                    _write_child()
            elif side is _OWN and to is _REPOSITORY:
                _compare(libraries=True)
                _count(1)
        return inside

    return inside


_SCALARS = (int, float, complex, str, bytes, bool, type(None))
_CONTAINERS = {list: iter, tuple: iter, set: iter, frozenset: iter, dict: dict.items}
_MOST_COPIED = 1_000
_MOST_CALLS = 50
_MOST_RESULTS = 9
_GENERATORS = 0x20 | 0x200
"""Flags of code that yields; that it returns at last is no result."""
_YIELDS = _GENERATORS | 0x80
"""And of coroutines: what they do at each pause looks like a return."""
_RETURNS = frozenset(opcode.opmap[name] for name in ("RETURN_VALUE", "RETURN_CONST") if name in opcode.opmap)


def _copied(value, depth=0):
    """A value of plain data in a form that can be compared; None: it is more than that, and nobody knows its state."""
    if type(value) in _SCALARS:
        return (value,)
    items = _CONTAINERS.get(type(value))
    if items is None or depth > 3 or len(value) > _MOST_COPIED:
        return None
    parts = [_copied(part, depth + 1) for part in items(value)]
    return None if None in parts else (type(value), parts)


def _with_copy(value):
    return value, None if type(value) in _SCALARS else _copied(value)


def _note_variables(name, frame):
    if _state["busy"] or not _affordable():
        return
    before = _begin()
    try:
        noted = _fixed.setdefault(name, {})
        for variable, value in list(frame.f_locals.items())[:200]:
            fixed = _copied(value) is not None and not any(value is other for other in _changed)
            noted[variable] = noted.get(variable, True) and fixed
    finally:
        _end(before)


def _is_program(frame):
    """Whether a frame is the top of a program of the repository's, which the claim started."""
    return frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") == "__main__"


def _note_call(code):
    key = code.co_filename, code.co_firstlineno, code.co_name
    times, results = _calls.pop(key, (0, ()))
    if len(_calls) < _MOST_CALLS:
        _calls[key] = times + 1, results


def _note_result(code, value, failed, changed):
    """What a function gave to the claim, in words: plain data, the type of an exception, or a change of an argument."""
    key = code.co_filename, code.co_firstlineno, code.co_name
    ends = value is None and not failed and code.co_flags & _GENERATORS
    if key in _calls and not ends:
        result = failed[3] if failed else repr(value)[:1000] if _copied(value) is not None else ""
        result = "a changed argument" if changed and value is None else result
        times, results = _calls[key]
        results = tuple(other for other in results[-_MOST_RESULTS:] if other != result)
        _calls[key] = times, (*results, result)


def _count(step):
    """How many threads are in the repository's code: while another one is, nobody knows who changed something."""
    with _lock:
        _state["inside"] += step
        _state["crossings"] += 1


_generated = {}
"""Copies of its modules' names in which the repository itself runs code that it makes."""


def _is_copy(frame):
    """Whether code of the claim's runs in what it copied from a module of the repository's."""
    space = frame.f_globals
    known = id(space) in _namespaces or id(space) in _generated
    return space.get("__name__") in _names and not known and _caller_side(frame) is _OWN


def _library_loads(frame, event, argument):
    if event == "return":
        name = frame.f_globals.get("__name__")
        _add_library(name, frame.f_globals)
    return _library_loads


# What the repository is made of


def _verify(frame):
    """Whether code that says it is the repository's is what Python makes of the committed source."""
    code = frame.f_code
    if _state["tampered"]:
        return
    path = os.path.abspath(code.co_filename)
    if not path.endswith(".py"):
        _learn(code)
        return
    if _is_rewritten(frame):
        _learn(code)
        return
    try:
        made = _compile(_read_file(path), code.co_filename, "exec", dont_inherit=True)
    except Exception:
        made = None
    wanted = _all_codes(made) if made else ()
    if any(code == other for other in wanted):
        _learn(code)
    else:
        _flag("code runs as %s that is not in that file" % path[len(_ROOT) :])


def _is_rewritten(frame):
    """pytest gives assertions in tests other code."""
    rewrite = sys.modules.get("_pytest.assertion.rewrite")
    loader = getattr(frame.f_globals.get("__spec__"), "loader", None)
    return rewrite is not None and type(loader) is rewrite.AssertionRewritingHook


def _all_codes(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _all_codes(constant)


def _learn(code):
    for part in _all_codes(code):
        _known_codes.setdefault(_name_of(part), []).append(part)


def _name_of(code):
    return code.co_filename, code.co_firstlineno, code.co_name


class _Node:
    """Something whose parts must stay the same while the claim's own code runs."""

    __slots__ = ("depth", "label", "parts", "thing", "view")

    def __init__(self, label, thing, view, depth):
        self.label, self.thing, self.view, self.depth = label, thing, view, depth
        self.parts = {}


_lengths = {}
"""Numbers, each as one object: parts are compared by identity."""


def _length_of(thing):
    return {"the length": _lengths.setdefault(len(thing), len(thing))}


def _view_mapping(thing):
    return dict(dict.items(thing)) if len(thing) <= _MOST_ITEMS else _length_of(thing)


def _view_list(thing):
    return dict(enumerate(list.__iter__(thing))) if len(thing) <= _MOST_ITEMS else _length_of(thing)


def _view_deque(thing):
    items = collections.deque.__iter__(thing)
    return dict(enumerate(items)) if len(thing) <= _MOST_ITEMS else _length_of(thing)


def _view_set(thing):
    return dict(enumerate(set.__iter__(thing))) if len(thing) <= _MOST_ITEMS else _length_of(thing)


def _view_class(thing):
    return dict(_class_space(thing), __bases__=thing.__bases__, __class__=type(thing))


def _view_cell(thing):
    try:
        return {"a variable of it": thing.cell_contents}
    except ValueError:  # still empty
        return {}


def _view_instance(thing):
    parts = {"__class__": type(thing)}
    for base in type(thing).__mro__:
        for name, slot in _class_space(base).items():
            if type(slot) is types.MemberDescriptorType:
                parts[name] = _attribute(thing, name)
    parts.update(_attribute(thing, "__dict__") or {})
    return parts


def _attribute(thing, name):
    """Without code of the object's own, which may do anything."""
    try:
        return object.__getattribute__(thing, name)
    except AttributeError:
        return None


def _view_bytes(thing):
    return {"the content": sys.intern(bytes(thing).hex())} if len(thing) <= _MOST_ITEMS else _length_of(thing)


_class_space = type.__dict__["__dict__"].__get__
_VIEWS = (
    (dict, _view_mapping),
    (list, _view_list),
    (set, _view_set),
    (collections.deque, _view_deque),
    (bytearray, _view_bytes),
    (types.CellType, _view_cell),
    (types.SimpleNamespace, _view_instance),
)


def _find_view(thing):
    """How to look into something; None: it cannot change, or is not the repository's."""
    if isinstance(thing, type):
        return _view_class if _class_space(thing).get("__module__") in _names else None
    for kind, view in _VIEWS:
        if isinstance(thing, kind):
            return None if id(thing) in _shared else view
    return _view_instance if type(thing).__module__ in _names else None


def _insides(thing):
    """What can change inside of something that cannot. Setting code or defaults of a function is an audit event."""
    if isinstance(thing, types.FunctionType):
        is_theirs = id(thing.__globals__) in _namespaces
        defaults = (thing.__defaults__, thing.__kwdefaults__)
        return (*defaults, vars(thing), *(thing.__closure__ or ())) if is_theirs else ()
    if isinstance(thing, functools.partial):
        return (thing.func, thing.args, thing.keywords)
    if isinstance(thing, (staticmethod, classmethod)):
        return (thing.__func__,)
    if isinstance(thing, property):
        return (thing.fget, thing.fset, thing.fdel)
    if isinstance(thing, functools._lru_cache_wrapper):
        return (thing.__wrapped__,)
    if isinstance(thing, (tuple, frozenset)):
        return tuple(thing)[:_MOST_CHILDREN]
    return ()


def _add(thing, label, depth):
    if id(thing) in _nodes or len(_nodes) >= _MOST_NODES or depth > _DEEPEST:
        return
    for part in _insides(thing):
        _add(part, label, depth + 1)
    view = _find_view(thing)
    if view is not None:
        _nodes[id(thing)] = node = _Node(label, thing, view, depth)
        _refresh(node, view(thing))


def _refresh(node, parts):
    known = node.parts
    node.parts = parts
    for name, part in parts.items() if len(parts) <= _MOST_CHILDREN else ():
        if known.get(name) is not part and not _is_metadata(name):
            _add(part, "%s.%s" % (node.label, name) if isinstance(name, str) else node.label, node.depth + 1)


def _same(node, parts):
    # Keys of a dictionary are compared by what they are: a name may be made anew each time.
    return _all_same(node.parts.values(), parts.values()) and list(parts) == list(node.parts)


def _all_same(before, now):
    # Without id(), which is an audit event and so a call of the hook below.
    return len(before) == len(now) and all(map(operator.is_, before, now))


def _remember():
    """Take down what the repository looks like, whenever its code has had control."""
    if _state["busy"] or _state["tampered"]:
        return
    before = _begin()
    try:
        _adopt()
    finally:
        _end(before)
    _state["fresh"] = _state["inside"] == 0 and _affordable()
    if not _state["fresh"]:
        return
    crossings = _state["crossings"]
    before = _begin()
    try:
        for space in list(_namespaces.values()):
            _add(space, str(space.get("__name__")), 0)
        _kinds.update((name, type(sys.modules[name])) for name in list(_names) if name in sys.modules)
        for node in list(_nodes.values()):
            parts = node.view(node.thing)
            if not _same(node, parts):
                _refresh(node, parts)
    finally:
        _end(before)
    _state["fresh"] = crossings == _state["crossings"]  # else another thread was quicker


def _begin():
    _state["busy"] = True
    return _clock()


def _end(before):
    _state["busy"] = False
    _state["spent"] += _clock() - before


def _affordable():
    return _state["spent"] < _FREE_S + _SHARE * (_clock() - _started)


def _compare(libraries=False, always=False):
    """Look for what changed since the repository's code had control."""
    if _state["busy"] or _state["tampered"]:
        return
    affordable = _affordable()
    if not (affordable or always or (libraries and _state["crossings"] % _NOW_AND_THEN == 0)):
        return
    crossings = _state["crossings"]
    before = _begin()
    try:
        found = _changed_repository(_state["fresh"] and _state["inside"] == 0)
        if found and crossings != _state["crossings"]:  # perhaps by another thread, in the repository's code
            found = _changed_repository(False)
        if libraries:
            found = found or _changed_modules() or (affordable and _changed_libraries())
            _state["compared"] = affordable
    finally:
        _end(before)
    if found:
        _flag("the claim's own code changes %s" % found)


def _changed_repository(fresh):
    for node in list(_nodes.values()):
        if fresh or node.depth == 0 or node.view is _view_class:
            parts = node.view(node.thing)
            if not _same(node, parts):
                name = _difference(node, parts, fresh)
                if name is not None:
                    return "%s.%s" % (node.label, name)
                if fresh:
                    _refresh(node, parts)
    return ""


def _difference(node, parts, fresh):
    """The name of a part that changed; None: of none that matters. If nobody knows who did it, functions matter."""
    for name, value in node.parts.items():
        same = name in parts and parts[name] is value
        matters = fresh or isinstance(value, (types.FunctionType, type))
        if matters and not same and not _is_metadata(name) and (fresh or name in parts or not _deletes(node, name)):
            return name
    for name, value in parts.items():
        if fresh and name not in node.parts and not _may_be_new(node, name, value):
            return name
    return None


def _deletes(node, name):
    """Whether a module of the repository deletes a name of its own as it is loaded, perhaps after it was looked at."""
    path = node.thing.get("__file__") if node.view is _view_mapping else None
    if not isinstance(path, str) or not isinstance(name, str) or _side_of(path) is not _REPOSITORY:
        return False
    return re.search(rb"^del\b[^\n#]*\b%s\b" % re.escape(name.encode()), _read_file(path), re.M) is not None


_SPECIAL = frozenset(name for kind in (int, str, dict, list, types.FunctionType) for name in dir(kind)) | frozenset(
    ["__getattr__", "__enter__", "__exit__", "__set__", "__delete__", "__builtins__", "__bases__", "__missing__"]
)


def _is_metadata(name):
    """What libraries and test runners leave on modules and classes."""
    if not isinstance(name, str):
        return False
    if "__pytest" in name or "__unittest" in name or name in ("_classSetupFailed", "pytestmark"):
        return True
    # `_so_` are what enumerations look their members up in.
    return name.startswith("_") and name.endswith("_") and name not in _SPECIAL


def _may_be_new(node, name, value):
    if _is_metadata(name):
        return True
    if node.view is _view_class:
        return not any(name in _class_space(base) for base in node.thing.__mro__[1:]) and name not in _SPECIAL
    if node.view is _view_instance:
        return isinstance(_class_space(type(node.thing)).get(name), functools.cached_property)
    # Importing a submodule puts it into its package.
    child = sys.modules.get("%s.%s" % (node.label, name))
    return node.depth == 0 and child is value and _is_module(type(value))


def _is_module(kind):
    """Whether a class is that of modules, or a class of modules that a module of the repository holds.

    Some packages load their parts when they are first asked for. For this they put an object of their own in the place
    of a module.
    """
    if kind is types.ModuleType:
        return True
    holders = [space for space in _namespaces.values() if space.get(kind.__name__) is kind]
    return bool(holders) and issubclass(kind, types.ModuleType)


# What the repository stands on


def _add_library(name, space):
    if not isinstance(name, str) or name in ("__main__", "unittest.mock", "sitecustomize"):
        return
    _modules[name] = sys.modules.get(name)
    _shared[id(space)] = space
    _shared.update((id(value), value) for value in space.values() if isinstance(value, (dict, list, set)))
    kinds = [value for value in space.values() if isinstance(value, type) and value.__module__ == name]
    places = [(name, space), *(("%s.%s" % (name, kind.__name__), _class_space(kind)) for kind in kinds)]
    _libraries[name] = [_bindings(label, place) for label, place in places]


def _bindings(label, place):
    names = [key for key, value in place.items() if _is_callable(value) and "%s.%s" % (label, key) not in _INPUTS]
    return label, place, names, list(map(place.get, names)), list(place.values())


def _is_callable(value):
    return callable(value) or isinstance(value, (staticmethod, classmethod, property))


def _changed_libraries():
    recursion, digits = _limits()
    if recursion < _LIMITS[0] or digits != _LIMITS[1]:
        return "a limit of the interpreter"
    for bindings in list(_libraries.values()):
        for label, place, names, values, before in bindings:
            now = list(place.values())
            if _all_same(before, now):
                continue
            for name, old in zip(names, values):  # noqa: B905
                new = place.get(name)
                if old is not new and not _library_may_change(label, name, new):
                    if not _is_stand_in(label, old, new):
                        return "%s.%s" % (label, name)
                    _stand_ins[id(new)] = new, "%s.%s" % (label, name)
            before[:] = now
    return ""


def _library_may_change(label, name, new):
    """Packages patch themselves and each other, and some patch the standard library; it does not patch itself."""
    if label in ("warnings", "sys") and name.endswith(("hook", "showwarning", "_showwarnmsg_impl", "exitfunc")):
        return True
    code = getattr(new, "__code__", None)
    if isinstance(code, types.CodeType):
        by_library = _side_of(code.co_filename) is _LIBRARY
    else:
        kind = new if isinstance(new, type) else type(new)
        by_library = kind.__module__ in _libraries and kind.__module__ != "unittest.mock"
    maker = getattr(new, "__module__", None)
    standard = isinstance(maker, str) and maker.partition(".")[0] in _STANDARD
    return by_library and not (
        label.partition(".")[0] in _STANDARD and (standard or not isinstance(code, types.CodeType))
    )


def _is_stand_in(label, old, new):
    """Whether a mock replaces a function: it counts if the repository calls it, which is seen.

    What this file itself uses may not be replaced.
    """
    top = label.partition(".")[0]
    is_mock = any(kind.__module__ == "unittest.mock" for kind in type(new).__mro__)
    return is_mock and top in _STANDARD - _USED_HERE and isinstance(old, _FUNCTIONS)


_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)
_USED_HERE = {
    "builtins",
    "collections",
    "functools",
    "operator",
    "os",
    "posix",
    "posixpath",
    "genericpath",
    "re",
    "sys",
}
_USED_HERE |= {"threading", "_thread", "types"}


def _adopt():
    """What the repository did to modules and libraries while it ran is its own affair."""
    for name, known in list(_modules.items()):
        module = sys.modules.get(name)
        if known is not None and module not in (known, None):
            _add_library(name, vars(module))
    if not _state["compared"]:
        return
    for bindings in list(_libraries.values()):
        for _, place, names, values, before in bindings:
            now = list(place.values())
            if not _all_same(before, now):
                before[:] = now
                values[:] = map(place.get, names)


_STANDARD = frozenset(getattr(sys, "stdlib_module_names", sys.builtin_module_names))


def _changed_modules():
    """Modules that are not what their names say."""
    for name, kind in _kinds.items():
        if type(sys.modules.get(name)) not in (kind, type(None)):
            return "the class of the module %s" % name
    for name in _EXPECTED & sys.modules.keys():
        module = sys.modules[name]
        if type(module) is not types.ModuleType and _is_module(type(module)):
            continue
        space = getattr(module, "__dict__", None)
        path = getattr(module, "__file__", None)
        if id(space) not in _namespaces and not (isinstance(path, str) and _is_compiled(path)):
            return "the module %s" % name
    for name, module in _modules.items():
        if module is not None and sys.modules.get(name, module) is not module:
            return "the module %s" % name
    for name in _STANDARD & sys.modules.keys() - _modules.keys() - {"__main__"}:
        module = sys.modules[name]
        if module is not None and (not isinstance(module, types.ModuleType) or module.__spec__ is None):
            return "the module %s" % name
        if module is not None:
            _add_library(name, vars(module))
            if any(type(value) is types.FunctionType for value in vars(module).values()) and _is_built_in(module):
                return "the module %s" % name
    return ""


def _is_compiled(path):
    """Whether a module needs no Python: it was built, by nobody who runs here."""
    return path.endswith((".so", ".pyd")) or _side_of(path) is _LIBRARY


def _is_built_in(module):
    path = getattr(module, "__file__", None)
    return path is None or path.endswith(".so")


def _see_mock(frame):
    """A mock that stands for something of the repository's is no part of it, whatever it wraps."""
    if _caller_side(frame) is not _OWN:
        stand_in = _stand_ins.get(id(frame.f_locals.get("self")))
        if stand_in:
            _flag("the claim's own code changes %s" % stand_in[1])
        return
    if frame.f_code.co_name == "__init__":
        given = frame.f_locals
        for name in ("wraps", "spec", "spec_set"):
            if _is_repositorys(given.get(name)):
                _flag("the claim puts a mock in place of %s" % getattr(given[name], "__name__", "an object"))
    elif frame.f_code.co_name in ("__call__", "_mock_call"):
        _compare()


def _is_repositorys(thing):
    if thing is None:
        return False
    thing = getattr(thing, "__func__", thing)
    if isinstance(thing, types.ModuleType):
        return id(vars(thing)) in _namespaces
    if isinstance(thing, types.FunctionType):
        return id(thing.__globals__) in _namespaces
    return (thing if isinstance(thing, type) else type(thing)).__module__ in _names


# Telling


def _flag(reason):
    if not _state["tampered"]:
        _state["tampered"] = reason
        _write("tampered")


def _write(kind="watch"):
    ran = [(_path(name), sorted(seen)) for name, seen in list(_lines.items()) if seen]
    raised = [(_path(row[0]), *row[1:]) for row in list(_raised)]
    escaped = [(_path(row[0]), *row[1:]) for row in list(_escaped)]
    fixed = [(_path(name), [key for key in known if known[key]]) for name, known in list(_fixed.items())]
    calls = [
        (_path(path), line, name, times, list(results)) for (path, line, name), (times, results) in list(_calls.items())
    ]
    told = _json([_KEY, _state["tampered"], ran, raised, escaped, fixed, calls])
    target = os.path.join(_OUTBOX, "%s-%d" % (kind, os.getpid()))
    # A worker of a pool may be killed at any moment, and its last report must then still be whole.
    descriptor = _open(target + ".part", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        rest = told.encode()
        while rest:
            rest = rest[_write_bytes(descriptor, rest) :]
    finally:
        _close(descriptor)
    _rename(target + ".part", target + ".json")


def _json(value):
    """As json.dumps, which the claim may have replaced."""
    if isinstance(value, str):
        return _quote(value)
    if isinstance(value, (list, tuple)):
        return "[%s]" % ",".join(map(_json, value))
    return "%d" % value


def _write_child():
    """A worker of a pool is killed when its work is done, so it tells as it goes."""
    size = len(_raised) + sum(map(len, _lines.values()))
    if size != _state["written"] and _state["writes"] < _MOST_WRITES:
        _state.update(written=size, writes=_state["writes"] + 1)
        _write()


def _path(name):
    return name if name.startswith("<") else os.path.abspath(name)


def _leave():
    if _state["unsure"] and sys.gettrace() is not _enter:
        _flag(_SWITCHED_OFF)
    elif sys.gettrace() is None and not _state["tampered"] and _state["last"] is not None:
        # Nobody switched it off, so it ran out of stack together with the code that it watched.
        code = _state["last"]
        message = "maximum recursion depth exceeded"
        _raised.append((code.co_filename, code.co_firstlineno, code.co_name, "RecursionError", message))
    sys.settrace(None)
    _state["left"] = True
    _compare(libraries=True, always=True)
    _write()


def _leave_at_once(status):
    """In place of os._exit, which runs nothing on the way out."""
    frame = _getframe(1)
    while frame is not None and _side_of_frame(frame) is _LIBRARY:
        frame = frame.f_back
    if frame is not None:
        code = frame.f_code
        _raised.append((code.co_filename, frame.f_lineno, code.co_name, "SystemExit", str(status)))
    _leave()
    _exit(status)


def _forked():
    global _lock
    _lock = threading.Lock()  # another thread may have held it
    _state.update(child=True, busy=False, inside=0)


def _audit(event, arguments):
    if event not in _EVENTS:
        return
    if event == "sys.settrace":
        # Some set what is set, as doctest does. Python itself drops a witness that runs out of stack.
        by = _getframe(1).f_code.co_filename
        if (
            by not in (__file__, threading.__file__)
            and "left" not in _state
            and _depth() < sys.getrecursionlimit() - 50
        ):
            if _state["unsure"]:
                _flag(_SWITCHED_OFF)
            _state["unsure"] = True
    elif event == "sys.setprofile":
        _state["profiled"] = True  # what is set is known at the next call
    elif event == "sys.monitoring.register_callback":
        if _caller_side(_getframe(0)) is _OWN:
            _flag("the claim's own code runs within every call")
    elif event in ("object.__setattr__", "object.__delattr__"):
        thing = arguments[0]
        if isinstance(thing, types.FunctionType) and not thing.__code__.co_filename.startswith("<"):
            # Libraries may do so to themselves.
            side, by = _side_of(thing.__code__.co_filename), _side_of_frame(_getframe(1))
            if side is not _OWN and side is not by and _caller_side(_getframe(0)) is _OWN:
                _flag("the claim's own code changes %s.%s" % (thing.__qualname__, arguments[1]))
    elif event == "resource.setrlimit":
        if _caller_side(_getframe(0)) is _OWN:
            _flag("the claim's own code changes a limit of the process")
    else:
        if isinstance(arguments[-1], dict):
            _keep_watching(arguments[-1])
        if _caller_side(_getframe(0)) is _OWN:
            _keep_in_sight(arguments[0] if event == "os.system" else arguments[1])


def _is_own_profile(profile):
    """Whether a profile function is the claim's: it could raise in any function of the repository."""
    function = getattr(profile, "__func__", profile)
    if not isinstance(function, types.FunctionType):
        function = _class_space(type(profile)).get("__call__")
    code = getattr(function, "__code__", None)
    return code is not None and _side_of(code.co_filename) is _OWN


def _depth():
    frame, depth = _getframe(), 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    return depth


_SWITCHED_OFF = "the claim's own code switches off the witness"
_STARTS = ("subprocess.Popen", "os.exec", "os.posix_spawn")
_EVENTS = frozenset(
    [
        *(*_STARTS, "os.system", "sys.settrace", "sys.setprofile", "sys.monitoring.register_callback"),
        *("object.__setattr__", "object.__delattr__", "resource.setrlimit"),
    ]
)


def _keep_watching(variables):
    """Of a process that is started with an environment of its own."""
    variables.update(_VARIABLES)
    folders = variables.get("PYTHONPATH", "").split(os.pathsep)
    if _HERE not in folders:
        variables["PYTHONPATH"] = os.pathsep.join([_HERE, *filter(None, folders)])


_OUT_OF_SIGHT = re.compile(
    r"python[0-9.]*(?: +-[A-Za-z]+)*? +-[A-Za-z]*[EIS]|\benv +(?:-\S+ +)*(?:-i|-|--ignore-environment)(?: |$)"
    r"|\b(?:unset|-u) +PYTHONPATH"
)


def _keep_in_sight(words):
    """Of a process whose command asks Python to read no environment, or to load no sitecustomize."""
    is_list = isinstance(words, list)
    line = " ".join(map(os.fsdecode, words if isinstance(words, (list, tuple)) else [words]))
    found = _OUT_OF_SIGHT.search(line)
    if found is None or "python" not in line:
        return
    name = os.path.basename(os.fsdecode(words[0])) if is_list and words else ""
    if not name.startswith("python"):
        _flag("the claim's own code starts a Python out of sight")
        return
    options = 1
    while options < len(words) and os.fsdecode(words[options]).startswith("-"):
        plain = os.fsdecode(words[options])
        if plain in ("-c", "-m", "-", "--"):
            break
        words[options] = plain.replace("I", "s").replace("E", "").replace("S", "") if plain[1:2] not in "WX" else plain
        options += 1
    words[1:options] = [word for word in words[1:options] if word != "-"]


def _begin_watching():
    # Out of sight of the claim's code, but not of the processes that it starts.
    for name in _VARIABLES:
        os.environ.pop(name, None)
    for name, value in _VARIABLES.items():
        os.putenv(name, value)
    os.putenv("SCROUT_WATCH_CHILD", "1")
    _state["child"] = "SCROUT_WATCH_CHILD" in _VARIABLES
    _VARIABLES["SCROUT_WATCH_CHILD"] = "1"
    os._exit = _leave_at_once
    for name, module in list(sys.modules.items()):
        if _side_of(getattr(module, "__file__", None) or "<built in>") is _LIBRARY:
            _add_library(name, vars(module))
    _add_library("builtins", vars(builtins))
    os.register_at_fork(after_in_child=_forked)
    atexit.register(_leave)
    sys.addaudithook(_audit)
    threading.settrace(_enter)
    sys.settrace(_enter)


if os.environ.get("SCROUT_WATCH_TRIAL"):
    import _scrout_trial  # noqa: F401
elif _OUTBOX:
    _begin_watching()
