# ruff: noqa: B905, PTH100, PTH105, PTH118, PTH123
# mypy: ignore-errors
"""Runs inside the sandbox, in every Python that a recorded command starts: notes which tests execute changed functions,
and, where the order asks for it, calls these functions again with varied arguments, each in a fork of its own.

The order comes as JSON in a variable, the report leaves as JSON in the outbox. Standard library only, any Python 3.8 or
later. A fork may change nothing outside of it: what would write, connect or start a program is refused and told. What
is reported comes from inside and can be forged.
"""

import atexit
import gc
import hashlib
import io
import json
import os
import random
import re
import select
import signal
import sys
import threading
import time
import types

_ROOT = os.environ.get("SCROUT_RECORD_ROOT", "/")
_OUTBOX = os.environ.get("SCROUT_RECORD_OUTBOX", "")
_INPUT_S = 0.5
_MAX_TEXT = 400
_MAX_NODES = 400
_MAX_LINES_OF = 300
"""Calls of a function whose lines are noted."""
_SAME_KEY = 6
_PER_TEST = 4
_MAX_ENTRIES = 20
_MAX_SIZE = 200
_NEAR = []
"""Whole numbers in the changed lines, and those beside them: where a condition changes its mind."""
_TEST_FILE = re.compile(r"(^|/)(test_[^/]*|[^/]*_test|tests|conftest)\.py$|(^|/)tests?/")
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{4,16}\b")
_FD_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_EFFECTS = (
    *("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown"),
    *("os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "os.kill", "os.putenv", "os.unsetenv"),
    *("os.utime", "os.startfile", "subprocess.Popen", "socket.connect", "socket.bind", "socket.sendto"),
    *("shutil.copyfile", "shutil.move", "shutil.rmtree", "sqlite3.connect", "signal.pthread_kill", "webbrowser.open"),
)


class _TimeUp(BaseException):
    pass


class _Effect(BaseException):
    pass


class _Recorder:
    def __init__(self, order):
        self.targets = {}
        for number, target in enumerate(order["targets"]):
            target["number"] = number
            path = os.path.join(_ROOT, target["path"])
            self.targets.setdefault(path, []).append(target)
        _NEAR.extend(dict.fromkeys(near for number in order["numbers"] for near in (number, number - 1, number + 1)))
        self.own = {os.path.join(_ROOT, path) for path in order["own"]}
        self.entries = {}
        self.described = set()
        self.vary = order["inputs"] > 0
        self.inputs_left = order["inputs"]
        self.per_call = order["per_call"]
        self.per_target = order["per_target"]
        self.ends = time.monotonic() + order["seconds"]
        self.files = {}
        self.kinds = {}
        self.codes = {}
        self.functions = {}
        self.calls = []
        self.keys = {}
        self.counts = {}
        self.tests = {}
        self.skipped = {}
        self.written = 0.0
        self.owner = os.getpid()
        self.busy = False

    # ---- which functions are entered

    def enter(self, frame, event, argument):
        code = frame.f_code
        known = self.codes.get(id(code))
        if known is None:
            known = self.codes[id(code)] = (code, *self.find(code))
        target, is_entry = known[1], known[2]
        if target is None or self.busy:
            return None
        if is_entry and os.getpid() == self.owner:
            return self.entered(target, frame)
        return None

    def find(self, code):
        name = code.co_filename
        targets = self.files.get(name)
        if targets is None:
            targets = self.files[name] = self.targets.get(os.path.abspath(name), ())
        for target in targets:
            if code.co_firstlineno == target["first"] and code.co_name == target["function"]:
                return target, True
        return None, False

    def entered(self, target, frame):
        label = target["label"]
        count = self.counts[label] = self.counts.get(label, 0) + 1
        context = _context(frame)
        touched = self.tests.setdefault(context, {})
        if self.vary and _is_start(frame):
            self.try_inputs(target, frame, context)
        if not target["changed"]:
            return None
        if len(self.entries) < _MAX_ENTRIES:
            self.note_entry(frame)
        if not target["lines"]:
            if label not in touched:
                touched[label] = True
                self.write(late=True)
            return None
        if touched.get(label) or (label in touched and count > _MAX_LINES_OF):
            return None
        touched.setdefault(label, False)
        changed = set(target["lines"])

        def inside(frame, event, argument):
            if event == "line" and frame.f_lineno in changed:
                touched[label] = True
                self.write(late=True)
                return None
            return inside

        return inside

    def note_entry(self, frame):
        """The function of the repository that the test or script itself called."""
        entry = None
        for _ in range(200):
            if frame is None:
                break
            kind = self.kinds.get(frame.f_code.co_filename)
            if kind is None:
                kind = self.kinds[frame.f_code.co_filename] = self.kind_of(frame.f_code.co_filename)
            if kind == "test":
                break
            if kind:
                entry = (kind, frame.f_code.co_firstlineno, frame.f_code.co_name)
            frame = frame.f_back
        if entry:
            self.entries[entry] = True

    def kind_of(self, name):
        """`test` for code that uses the repository, the path of the repository's own, empty for all other."""
        path = os.path.abspath(name)
        if path in self.own or name.startswith("<"):
            return "test"
        if not path.startswith(_ROOT + os.sep) or "site-packages" in path:
            return ""
        inside = path[len(_ROOT) + 1 :]
        return "test" if _TEST_FILE.search(inside) else inside

    # ---- varied inputs

    def try_inputs(self, target, frame, context):
        label = target["label"]
        if self.inputs_left <= 0 or time.monotonic() > self.ends:
            self.skip("no time or inputs were left")
            return
        self.busy = True
        trace = sys.gettrace()
        sys.settrace(None)
        try:
            call = _Call(target, frame)
            key = call.key()
            if key is None:
                return
            here, at = (label, context), (label, context, key)
            mine = self.keys.get(here, 0)
            alike = self.keys.get((label, key), 0)
            all_calls = self.keys.get(label, 0)
            number = self.keys[at] = self.keys.get(at, 0) + 1
            told = (label, call.described())
            if mine >= _PER_TEST or alike >= _SAME_KEY or all_calls >= self.per_target or told in self.described:
                return
            self.described.add(told)
            self.keys[here], self.keys[label, key], self.keys[label] = mine + 1, alike + 1, all_calls + 1
            function = self.function(frame)
            if function is None:
                self.skip("a function could not be found again")
                return
            row = {"target": label, "key": f"{key}#{number}", "context": context, "inputs": []}
            self.calls.append(row)
            for name, change in call.inputs(self.per_call):
                if self.inputs_left <= 0 or time.monotonic() > self.ends:
                    break
                self.inputs_left -= 1
                seen = _in_fork(lambda change=change: call.run(function, change, self))
                if seen is None:
                    self.skip("a call did not end in time")
                    seen = {"kind": "none"}
                row["inputs"].append((name, seen))
            self.write(late=True)
        finally:
            self.busy = False
            sys.settrace(trace)

    def function(self, frame):
        code = frame.f_code
        if code not in self.functions:
            found = [one for one in gc.get_referrers(code) if isinstance(one, types.FunctionType)]
            self.functions[code] = [one for one in found if one.__code__ is code]
        found = self.functions[code]
        if len(found) > 1 and code.co_freevars:
            found = [one for one in found if _closes_over(one, frame)]
        return found[0] if found else None

    def skip(self, why):
        self.skipped[why] = self.skipped.get(why, 0) + 1

    def write(self, late=False):
        now = time.monotonic()
        if os.getpid() != self.owner or (late and now - self.written < 0.5):
            return
        self.written = now
        entries = list(self.entries)
        row = {"tests": self.tests, "calls": self.calls, "skipped": self.skipped, "entries": entries}
        path = os.path.join(_OUTBOX, f"record-{os.getpid()}.json")
        busy, self.busy = self.busy, True
        try:
            with open(path + "~", "w") as file:
                json.dump(row, file)
            os.replace(path + "~", path)
        except OSError:
            pass
        finally:
            self.busy = busy

    def leave(self):
        if os.getpid() == self.owner:
            sys.settrace(None)
            self.write()


class _Call:
    """One call of a changed function, as it was entered."""

    def __init__(self, target, frame):
        self.target = target
        self.code = code = frame.f_code
        values = frame.f_locals
        count = code.co_argcount
        names = code.co_varnames
        self.positional = [(name, values[name]) for name in names[:count] if name in values]
        self.keywords = {name: values[name] for name in names[count : count + code.co_kwonlyargcount] if name in values}
        at = count + code.co_kwonlyargcount
        self.star, self.star_name, self.named, self.named_name = (), "", {}, ""
        if code.co_flags & 0x04:
            self.star_name = names[at]
            self.star, at = values.get(names[at], ()), at + 1
        if code.co_flags & 0x08:
            self.named_name = names[at]
            self.named = values.get(names[at], {})
        self.complete = len(self.positional) == count

    def values(self):
        every = [*self.positional, *self.keywords.items()]
        if self.star_name:
            every.append((self.star_name, self.star))
        if self.named_name:
            every.append((self.named_name, self.named))
        known = self.target["parameters"]
        return [(name, value) for name, value in every if known is None or name in known]

    def key(self):
        if not self.complete:
            return None
        try:
            told = [(name, _describe(value, shallow=True)) for name, value in self.values()]
        except Exception:
            return None
        return hashlib.sha256(repr(told).encode("utf-8", "replace")).hexdigest()[:16]

    def described(self):
        try:
            return hashlib.sha256(repr([(name, _describe(value)) for name, value in self.values()]).encode()).digest()
        except Exception:
            return b""

    def inputs(self, most):
        """Names of inputs, each with the parameter to replace and its value; first the call as it was."""
        yield "as called", None
        rows = []
        for index, (name, value) in enumerate(self.values()):
            is_self = index == 0 and name in ("self", "cls")
            try:
                made = list(_attributes(name, value)) if is_self else list(_variants(value, name))
            except Exception:
                continue
            rows.append([(label, (name, changed)) for label, changed in made])
        # One of each parameter in turn.
        sent = 0
        for turn in range(max((len(row) for row in rows), default=0)):
            for row in rows:
                if turn < len(row) and sent < most:
                    sent += 1
                    yield row[turn]

    def run(self, function, change, recorder):
        """In a fork: nothing that it does outlives it."""
        positional, keywords, star, named = self.positional, self.keywords, self.star, self.named
        if change is not None:
            place, changed = change
            if isinstance(changed, _SetAttribute):
                owner = next(value for name, value in positional if name == place)
                setattr(owner, changed.name, changed.value)
            elif place == self.star_name:
                star = changed
            elif place == self.named_name:
                named = changed
            elif place in keywords:
                keywords = dict(keywords, **{place: changed})
            else:
                positional = [(name, changed if name == place else value) for name, value in positional]
        everything = [(name, value) for name, value in [*positional, *keywords.items()]]
        everything += [("*", value) for value in star] + list(named.items())
        shown = ", ".join(f"{name}={_describe(value)}" for name, value in everything if name not in ("self", "cls"))
        before = [_state(value) for _, value in everything]
        lines, lines_told = set(), []
        printed = io.StringIO()
        sys.stdout = sys.stderr = printed
        random.seed(0)
        seen = {"shown": shown[:_MAX_TEXT]}
        known = {}

        def enter(frame, event, argument):
            code = frame.f_code
            inside = known.get(id(code), False)
            if inside is False:
                inside = known[id(code)] = within(code)
            return inside

        def within(code):
            for target in recorder.targets.get(os.path.abspath(code.co_filename), ()):
                if target["changed"] and target["first"] <= code.co_firstlineno <= target["last"]:
                    return tracer(target["number"])
            return None

        def tracer(number):
            def inside(frame, event, argument):
                if event == "line":
                    lines.add((number, frame.f_lineno))
                return inside

            return inside

        def traced():
            sys.settrace(enter)
            try:
                return _drive(function(*[one for _, one in positional], *star, **keywords, **named))
            finally:
                sys.settrace(None)

        try:
            signal.signal(signal.SIGALRM, _raise_time_up)
            signal.setitimer(signal.ITIMER_REAL, _INPUT_S)
            try:
                # This runs within a trace function, where nothing is traced unless it is asked for.
                value = sys.call_tracing(traced, ())
            finally:
                lines_told = [f"{number}:{line}" for number, line in sorted(lines)]
            seen.update(kind="returned", value=_describe(value), real=_is_real(value))
        except _Effect as error:
            seen.update(kind="effect", value=str(error))
        except _TimeUp:
            seen.update(kind="timeout")
        except BaseException as error:
            seen.update(kind="raised", value=type(error).__name__, where=_where(error), message=str(error)[:200])
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        seen["lines"] = lines_told
        if _refused:
            seen.update(kind="effect", value=_refused[0])
        seen["printed"] = _ADDRESS.sub("0x", printed.getvalue())[:_MAX_TEXT]
        after = [_state(value) for _, value in everything]
        makes = self.code.co_name == "__init__"  # what it sets is what it gives
        seen["changed"] = [
            {place: new[place] for place in new if (makes or place in old) and old.get(place) != new[place]}
            for old, new in zip(before, after)
        ]
        return seen


class _SetAttribute:
    def __init__(self, name, value):
        self.name, self.value = name, value


_refused = []


def _in_fork(work):
    """What `work` returned in a fork, as JSON would have it; None: it died or did not end in time."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(read)
            null = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(null, stream)
            sys.addaudithook(_refuse)
            data = json.dumps(work()).encode()
            os.write(write, data[:60000])
        except BaseException:
            pass
        finally:
            os._exit(0)
    os.close(write)
    data, ends = b"", time.monotonic() + 3 * _INPUT_S
    while True:
        ready, _, _ = select.select([read], [], [], max(0, ends - time.monotonic()))
        if not ready:
            os.kill(pid, signal.SIGKILL)
            break
        piece = os.read(read, 65536)
        if not piece:
            break
        data += piece
    os.close(read)
    os.waitpid(pid, 0)
    try:
        return json.loads(data)
    except ValueError:
        return None


def _refuse(event, arguments):
    if event == "open":
        mode, flags = arguments[1], arguments[2]
        writes = any(letter in mode for letter in "wax+") if isinstance(mode, str) else False
        if not writes and not (isinstance(flags, int) and flags & _FD_WRITES):
            return
    elif event not in _EFFECTS:
        return
    _refused.append(event)
    raise _Effect(event)


def _raise_time_up(number, frame):
    raise _TimeUp


def _drive(value):
    """What a generator or coroutine gives, as far as it goes by itself."""
    if isinstance(value, types.CoroutineType):
        try:
            for _ in range(100):
                value.send(None)
        except StopIteration as stopped:
            return stopped.value
        raise _Effect("await")
    if isinstance(value, types.AsyncGeneratorType):
        raise _Effect("await")
    if isinstance(value, types.GeneratorType):
        items = []
        for item in value:
            items.append(item)
            if len(items) >= 50:
                break
        return items
    return value


def _is_real(value):
    """Whether there is something in it: None, False and what is empty is what swallowed work leaves."""
    if value is None or value is False:
        return False
    try:
        return not (isinstance(value, (str, bytes, list, tuple, dict, set, frozenset)) and len(value) == 0)
    except Exception:
        return True


def _where(error):
    """The innermost function of the repository that it passed."""
    where, trace = "", error.__traceback__
    while trace is not None:
        name = os.path.abspath(trace.tb_frame.f_code.co_filename)
        if name.startswith(_ROOT + os.sep) and "site-packages" not in name:
            where = f"{name[len(_ROOT) + 1 :]}::{trace.tb_frame.f_code.co_name}"
        trace = trace.tb_next
    return where


def _context(frame):
    """The test that runs; empty: none."""
    test = os.environ.get("SCROUT_RECORD_CONTEXT") or os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    if test:
        return test
    if "unittest" not in sys.modules:
        return ""
    for _ in range(200):
        frame = frame.f_back
        if frame is None:
            return ""
        code = frame.f_code
        if code.co_name == "run" and code.co_filename.endswith("case.py") and "unittest" in code.co_filename:
            test = frame.f_locals.get("self")
            return test.id() if hasattr(test, "id") else ""
    return ""


def _is_start(frame):
    """Whether a call has just begun: a generator is entered again for each of its values."""
    code = frame.f_code
    if not code.co_flags & (0x20 | 0x80 | 0x200):
        return True
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    return set(frame.f_locals) <= {*code.co_varnames[:count], *code.co_freevars}


def _closes_over(function, frame):
    try:
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
        return all(cell.cell_contents is frame.f_locals.get(name) for name, cell in cells.items())
    except ValueError:
        return False


def _variants(value, name):
    """Values like this one, each with a name. They depend on nothing but the value."""
    if isinstance(value, bool):
        yield f"{name} flipped", not value
    elif type(value) is int:
        for other in dict.fromkeys((value + 1, value - 1, *_NEAR, 0, 1, -1, value * 2, -value)):
            if other != value:
                yield f"{name}={other}", other
    elif type(value) is float:
        for other in (value + 1, value / 2, 0.0, 1.0, -1.0, -value):
            if other != value:
                yield f"{name}={other!r}", other
    elif type(value) is str:
        yield from _texts(value, name, " ", "\u00e9")
    elif type(value) is bytes:
        yield from _texts(value, name, b" ", b"\xe9")
    elif type(value) in (list, tuple):
        yield from _sequences(value, name)
    elif type(value) is dict:
        yield from _mappings(value, name)
    elif type(value) in (set, frozenset):
        yield f"{name} empty", type(value)()
    if value is not None and type(value) in (bool, int, float, str, bytes, list, tuple, dict):
        yield f"{name}=None", None


def _texts(value, name, space, letter):
    words = value.split(space)
    made = [
        ("without a word", space.join(words[: len(words) // 2] + words[len(words) // 2 + 1 :])),
        ("with a larger number", _larger(value)),
        ("longer", value + value),
        ("without its end", value[:-1]),
        ("empty", value[:0]),
        ("with a space", value + space),
        ("in upper case", value.upper()),
        ("in lower case", value.lower()),
        ("one character", value[:1]),
        ("after a space", space + value),
        ("with a letter", value + letter),
        ("without its start", value[1:]),
        ("without a middle character", value[: len(value) // 2] + value[len(value) // 2 + 1 :]),
        ("with a middle space", value[: len(value) // 2] + space + value[len(value) // 2 :]),
        ("words reversed", space.join(words[::-1])),
        ("in title case", value.title()),
    ]
    made[3:3] = _resized(value)
    known = {value}
    for label, other in made:
        if other not in known:
            known.add(other)
            yield f"{name} {label}", other


def _resized(value):
    """As long as a number in the changed lines says."""
    sizes = [size for size in _NEAR if 1 < size < _MAX_SIZE and size != len(value)] if len(value) else []
    return [(f"of length {size}", (value * (size // len(value) + 1))[:size]) for size in sizes]


def _larger(value):
    """With the first number ten times as large and more."""
    digits = rb"[0-9]+" if isinstance(value, bytes) else r"[0-9]+"
    seven = b"7" if isinstance(value, bytes) else "7"
    return re.sub(digits, lambda found: found.group() + seven, value, count=1)


def _sequences(value, name):
    kind = type(value)
    if len(value):
        yield f"{name} empty", kind()
        yield f"{name} twice", value + value
    if len(value) > 1:
        yield f"{name} without its last item", value[:-1]
        yield f"{name} with one item", value[:1]
        yield f"{name} reversed", value[::-1]
    for label, other in _resized(value):
        yield f"{name} {label}", other
    for index in (0, len(value) - 1)[: len(value)]:
        for label, other in list(_variants(value[index], f"{name}[{index}]"))[:4]:
            yield label, kind([*value[:index], other, *value[index + 1 :]])
    yield f"{name} as the other kind of sequence", (tuple if kind is list else list)(value)


def _mappings(value, name):
    if value:
        yield f"{name} empty", {}
        keys = list(value)
        yield f"{name} without its last key", {key: value[key] for key in keys[:-1]}
        for key in keys[:3]:
            for label, other in list(_variants(value[key], f"{name}[{repr(key)[:40]}]"))[:4]:
                yield label, dict(value, **{key: other}) if isinstance(key, str) else {**value, key: other}


def _attributes(name, value):
    """An object with one plain attribute changed."""
    state = getattr(value, "__dict__", None)
    if not isinstance(state, dict) or isinstance(value, type):
        return
    for attribute in sorted(state):
        if type(state[attribute]) in (bool, int, str, list, tuple):
            limit = 1 if type(state[attribute]) is bool else 2
            for label, other in list(_variants(state[attribute], f"{name}.{attribute}"))[:limit]:
                yield label, _SetAttribute(attribute, other)


def _state(value):
    """What a call may change of an argument, by place."""
    try:
        if isinstance(value, (list, dict, set, bytearray)):
            return {"": _describe(value)}
        state = getattr(value, "__dict__", None)
        if isinstance(state, dict) and not isinstance(value, (type, types.ModuleType, types.FunctionType)):
            return {str(key): _describe(item) for key, item in list(state.items())[:40]}
    except Exception:
        return {}
    return {}


def _describe(value, shallow=False):
    """A value as text that is the same in another process."""
    left = [_MAX_NODES]
    text = _describe_part(value, left, shallow, 0)
    if len(text) > _MAX_TEXT:
        digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
        text = f"{text[:_MAX_TEXT]}... ({digest})"
    return text.encode("utf-8", "replace").decode()


def _describe_part(value, left, shallow, depth):
    left[0] -= 1
    if left[0] < 0 or depth > 6:
        return "..."

    def part(item):
        return _describe_part(item, left, shallow, depth + 1)

    kind = type(value)
    if value is None or kind in (bool, int, float, complex, str, bytes):
        return repr(value)
    if kind in (list, tuple):
        return "{}({})".format(kind.__name__, ", ".join(part(item) for item in value))
    if kind is dict:
        return "{{{}}}".format(", ".join(f"{part(key)}: {part(item)}" for key, item in value.items()))
    if kind in (set, frozenset):
        return "{}{{{}}}".format(kind.__name__, ", ".join(sorted(part(item) for item in value)))
    if isinstance(value, type) or kind in (types.FunctionType, types.BuiltinFunctionType, types.ModuleType):
        return "{} {}".format(kind.__name__, getattr(value, "__qualname__", getattr(value, "__name__", "")))
    if isinstance(value, BaseException):
        return f"{kind.__name__}(...)"
    if shallow:
        return f"<{kind.__name__}>"
    if kind.__repr__ is not object.__repr__:
        try:
            return "<{} {}>".format(kind.__name__, _ADDRESS.sub("0x", repr(value)))
        except Exception:
            return f"<{kind.__name__}>"
    state = getattr(value, "__dict__", None)
    if isinstance(state, dict):
        return "<{} {}>".format(kind.__name__, ", ".join(f"{key}={part(state[key])}" for key in sorted(state)))
    return f"<{kind.__name__}>"


if _OUTBOX and os.environ.get("SCROUT_RECORD_ORDER"):
    _recorder = _Recorder(json.loads(os.environ["SCROUT_RECORD_ORDER"]))
    atexit.register(_recorder.leave)
    threading.settrace(_recorder.enter)
    sys.settrace(_recorder.enter)
