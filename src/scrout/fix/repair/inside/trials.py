# ruff: noqa: PTH100, PTH109, PTH116, PTH118, PTH120, PTH123, B905, SIM105
# mypy: ignore-errors
"""Runs inside the sandbox: one Python command on many edited versions of a repository, one fork for each.

What the command imports is imported once, before the forks; a run of pytest is taken farther, up to its first test.
Each fork then gives the functions it finds in memory their edited code. An edit outside of functions in memory is tried
cold: its file is edited, and the fork imports the repository itself. It reads an order as JSON from standard input, and
writes answers as JSON lines to standard output. Standard library only, Python 3.8 or later. The code under trial shares
this process's user and can forge an answer: a trial that passes is a hint, to be confirmed outside.
"""

import __future__

import gc
import importlib
import json
import os
import runpy
import select
import signal
import sys
import time
import types

_CLOCK = 1_000_000_000
_FUTURE = 0
for _name in __future__.all_feature_names:
    _FUTURE |= getattr(__future__, _name).compiler_flag
_CANNOT = -1
"""The answer for an edit that cannot be applied to functions in memory."""


def main():
    order = json.load(sys.stdin)
    answers = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    sys.path[0] = os.path.dirname(os.path.abspath(order["name"])) if order["kind"] == "script" else os.getcwd()
    # Compiled files make imports faster; they are deleted with the workspace.
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if order["preload"] is None:
        learned = _learn({**order, "preload": ()}, answers)
        order.update(preload=learned.get("loaded", ()), own=learned.get("own", ()))
        _tell(answers, {"loaded": order["preload"], "own": order["own"]})
    _preload(order)
    if order["warm"]:
        _warm(order, answers)
        os._exit(0)
    gc.freeze()
    if order["learn"]:
        learned = _learn(order, answers)
        _tell(answers, {"modules": order["preload"], "code": learned["code"], "seconds": learned["seconds"]})
        _bound(order, learned["seconds"])
    for index, trial in enumerate(order["trials"]):
        seconds, code = _cold(order, answers, index, trial)
        _tell(answers, {"trial": index, "code": code, "seconds": seconds})


def _bound(order, seconds):
    """A trial may take a multiple of the time that the unedited run just took."""
    order["timeout_s"] = min(order["timeout_s"], order["slower"] * seconds + order["least_s"])


def _tell(answers, row):
    os.write(answers, json.dumps(row).encode() + b"\n")


def _preload(order):
    """Import the modules that forks may share. If an import loads a file of the repository, start again without it."""
    for name in order["preload"]:
        try:
            importlib.import_module(name)
        except BaseException:  # an import may do anything, exit included; the trial will show it
            continue
        if any(_inside(module, order["root"]) for module in list(sys.modules.values())):
            top = name.partition(".")[0]
            order["preload"] = [one for one in order["preload"] if one.partition(".")[0] != top]
            _again(order)


def _again(order):
    read, write = os.pipe()
    if os.fork() == 0:
        os.close(read)
        with os.fdopen(write, "w") as file:
            json.dump(order, file)
        os._exit(0)
    os.close(write)
    os.dup2(read, 0)
    os.execv(sys.executable, [sys.executable, *order["argv"]])


def _inside(module, root):
    name = getattr(module, "__file__", None)
    return isinstance(name, str) and name.startswith(root + os.sep) and "site-packages" not in name


def _learn(order, answers):
    """How the unedited command ends, and the modules it loaded: the repository's own, and others."""
    read, write = os.pipe()

    def run():
        code = _run(order)
        plugins = _plugins()
        known = [
            (name, _inside(module, order["root"]))
            for name, module in list(sys.modules.items())
            if name not in ("__main__", "__mp_main__")
            and getattr(module, "__file__", None)
            and name.partition(".")[0] not in plugins
        ]
        told = {"loaded": [name for name, own in known if not own], "own": [name for name, own in known if own]}
        with os.fdopen(write, "w") as file:
            json.dump(told, file)
        return code

    pid = _fork(answers, run)
    os.close(write)
    began = time.monotonic()
    data = b""
    while select.select([read], [], [], max(0.0, began + order["timeout_s"] - time.monotonic()))[0]:
        chunk = os.read(read, 1 << 16)
        if not chunk:
            break
        data += chunk
    seconds, code = _wait(pid, began, order["timeout_s"])
    try:
        told = json.loads(data)
    except ValueError:
        told = {}
    return {"code": code, "seconds": seconds, **told}


def _plugins():
    """Packages that pytest must import itself, because it rewrites their asserts."""
    try:
        from importlib.metadata import distributions

        names = set()
        for one in distributions():
            if any(entry.group == "pytest11" for entry in one.entry_points):
                names |= {str(file).partition("/")[0].partition(".")[0] for file in one.files or ()}
        return names
    except Exception:  # a package's metadata is broken: then all packages are shared
        return set()


def _cold(order, answers, index, trial):
    text = order["texts"][trial["path"]]
    place = os.path.join(order["root"], trial["path"])
    before = os.stat(place)
    with open(place, "rb") as file:
        whole = file.read()
    mark = b"\xef\xbb\xbf" if whole.startswith(b"\xef\xbb\xbf") else b""
    try:
        with open(place, "wb") as file:
            file.write(mark + _edited(text, trial).encode())
        # Compiled files are compared by whole seconds.
        stamp = _CLOCK + order["first"] + index
        os.utime(place, (stamp, stamp))
        return _wait(_fork(answers, lambda: _run(order)), time.monotonic(), order["timeout_s"])
    finally:
        with open(place, "wb") as file:
            file.write(whole)
        os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))


def _edited(text, trial):
    return text[: trial["start"]] + trial["after"] + text[trial["end"] :]


def _run(order):
    sys.argv = [order["name"], *order["arguments"]]
    try:
        if order["kind"] == "module":
            runpy.run_module(order["name"], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(order["name"], run_name="__main__")
    except SystemExit as left:
        if left.code is None:
            return 0
        return left.code & 0xFF if isinstance(left.code, int) else 1
    except BaseException:  # end as the interpreter itself would
        return 1
    return 0


def _in_memory(order, answers, run):
    """Run the trials, each in a fork with edited functions. `run` gets the changes, and returns the exit code."""
    functions, compiled = _functions(order), {}
    gc.freeze()
    if order["learn"]:
        pid, began = _fork(answers, lambda: run([])), time.monotonic()
        seconds, code = _wait(pid, began, order["timeout_s"])
        _tell(answers, {"code": code, "seconds": seconds, "modules": order["preload"]})
        _bound(order, seconds)
    for index, trial in enumerate(order["trials"]):
        began = time.monotonic()
        code = _CANNOT
        changes = _changes(order["texts"][trial["path"]], trial, functions, compiled)
        if changes:
            pid = _fork(answers, lambda: run(changes))  # noqa: B023
            _, code = _wait(pid, began, order["timeout_s"])
        _tell(answers, {"trial": index, "code": code, "seconds": time.monotonic() - began})


def _change(changes):
    for function, code in changes:
        function.__code__ = code


class _AtFirstTest:
    """A pytest plugin."""

    def __init__(self, order, answers):
        self.order = order
        self.answers = answers
        self.forked = False

    def pytest_runtestloop(self, session):
        if session.testsfailed or not session.items:
            os._exit(0)
        self.forked = True
        _in_memory(self.order, self.answers, lambda changes: _tests(session, changes))
        os._exit(0)

    def pytest_runtest_makereport(self, item, call):
        # The first failure decides, and reporting it takes longer than most tests.
        if self.forked and call.excinfo is not None and not _may_be_meant(item, call.excinfo.value):
            os._exit(1)

    def pytest_assertrepr_compare(self):
        return ["differs"] if self.forked else None


def _may_be_meant(item, error):
    return type(error).__name__ in ("Skipped", "SkipTest", "XFailed") or item.get_closest_marker("xfail") is not None


def _warm(order, answers):
    if order["name"] == "pytest":
        _warm_pytest(order, answers)
        return
    for name in order["own"]:
        try:
            importlib.import_module(name)
        except BaseException:  # then it cannot be tried warm: the command may bring its own modules
            return
    _in_memory(order, answers, lambda changes: _changed_run(order, changes))


def _changed_run(order, changes):
    _change(changes)
    return _run(order)


def _warm_pytest(order, answers):
    import pytest

    plugin = _AtFirstTest(order, answers)
    for name in ("pytest_runtestloop", "pytest_runtest_makereport", "pytest_assertrepr_compare"):
        pytest.hookimpl(tryfirst=True)(getattr(_AtFirstTest, name))
    sys.argv = [order["name"], *order["arguments"]]
    pytest.main(list(order["arguments"]), plugins=[plugin])


def _tests(session, changes):
    _change(changes)
    for index, item in enumerate(session.items):
        following = session.items[index + 1] if index + 1 < len(session.items) else None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail or session.shouldstop:
            break
    return 1 if session.testsfailed else 0


def _functions(order):
    """Every function in memory by its place in the source."""
    found = {}
    wanted = {os.path.join(order["root"], path): path for path in order["texts"]}
    for one in gc.get_objects():
        if type(one) is types.FunctionType:
            path = wanted.get(os.path.abspath(one.__code__.co_filename))
            if path is not None:
                found.setdefault((path, one.__code__.co_firstlineno, one.__code__.co_name), []).append(one)
    return found


def _changes(text, trial, functions, compiled):
    """Functions in memory, each with its new code; empty: not possible."""
    path, line, name = trial["path"], trial["def_line"], trial["def_name"]
    live = functions.get((path, line, name))
    if not live:
        return []
    first, last = trial["unit"]
    shift = len(trial["after"]) - (trial["end"] - trial["start"])
    if (path, line, name) not in compiled:
        compiled[path, line, name] = _compiled(text, text[first:last], trial, live[0])
    old = compiled[path, line, name]
    new = _compiled(text, _edited(text, trial)[first : last + shift], trial, live[0])
    if old is None or new is None:
        return []
    changes = []
    for one, other in _pairs(old, new):
        for function in functions.get((path, one.co_firstlineno, one.co_name), ()):
            if function.__code__.co_freevars != other.co_freevars:
                return []
            changes.append((function, other))
    return changes


def _compiled(text, source, trial, live):
    """The function's code; the lines above it are left empty, so that line numbers stay right."""
    above = "\n" * text.count("\n", 0, trial["unit"][0])
    if trial["owner"]:
        above = above[1:] + trial["owner"]
    try:
        module = compile(above + source, live.__code__.co_filename, "exec", live.__code__.co_flags & _FUTURE, True)
    except (SyntaxError, ValueError):
        return None
    return _find(module, trial["def_line"], trial["def_name"])


def _inner(code):
    return [one for one in code.co_consts if isinstance(one, types.CodeType)]


def _find(code, line, name):
    for one in _inner(code):
        if one.co_firstlineno == line and one.co_name == name:
            return one
        found = _find(one, line, name)
        if found is not None:
            return found
    return None


def _pairs(old, new):
    yield old, new
    if [one.co_name for one in _inner(old)] == [one.co_name for one in _inner(new)]:
        for one, other in zip(_inner(old), _inner(new)):
            yield from _pairs(one, other)


def _fork(answers, run):
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.close(answers)
        os.setsid()
        code = run()
    finally:
        os._exit(code)


def _wait(pid, began, timeout_s):
    """Seconds and exit code; None: stopped at its limit. Leaves no process behind."""
    left = began + timeout_s - time.monotonic()
    code = None
    if _ended(pid, left):
        _, status = os.waitpid(pid, 0)
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
    seconds = time.monotonic() - began
    try:
        os.killpg(pid, signal.SIGKILL)
    except OSError:
        pass
    if code is None:
        os.waitpid(pid, 0)
    return seconds, code


def _ended(pid, seconds):
    """Whether the process ends within these seconds. Does not reap it."""
    try:
        handle = os.pidfd_open(pid)
    except (AttributeError, OSError):  # before Python 3.9, not on Linux, or denied
        return _ended_by_asking(pid, seconds)
    try:
        return bool(select.select([handle], [], [], max(0.0, seconds))[0])
    finally:
        os.close(handle)


def _ended_by_asking(pid, seconds):
    until, pause = time.monotonic() + seconds, 0.001
    while time.monotonic() < until:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return True
        time.sleep(pause)
        pause = min(0.01, pause * 1.3)
    return False


if __name__ == "__main__":
    main()
