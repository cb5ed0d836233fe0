"""Runs inside the sandbox, in every Python that a watched command starts: records which lines of the repository ran and
which exceptions passed through them, and writes that to the outbox at exit.

Standard library only, any Python 3.8 or later. The watched code can forge its report, so it is evidence, never proof.
"""

import atexit
import collections
import json
import os
import sys
import threading

_ROOT = os.environ.get("SCROUT_WATCH_ROOT", "/") + os.sep
_OUTBOX = os.environ.get("SCROUT_WATCH_OUTBOX", "")
_MOST_RAISED = 400
_NAMELESS = ("<string>", "<stdin>")
"""Python's names for `-c` and a script on standard input."""
_lines = {}
# The last ones, because those that end a run come last.
_raised = collections.deque(maxlen=_MOST_RAISED)


def _enter(frame, event, argument):
    name = frame.f_code.co_filename
    if name in _NAMELESS and frame.f_globals.get("__name__") != "__main__":
        return None  # generated code, such as that of dataclasses, has the same name
    seen = _lines.get(name)
    if seen is None:
        seen = _lines[name] = set() if _is_ours(name) else False
    if seen is False:
        return None

    def inside(frame, event, argument):
        if event == "line":
            seen.add(frame.f_lineno)
        elif event == "exception":
            kind, value, _ = argument
            try:
                message = str(value)[:300]
            except Exception:
                message = ""
            _raised.append((name, frame.f_lineno, frame.f_code.co_name, kind.__name__, message))
        return inside

    return inside


def _is_ours(name):
    path = os.path.abspath(name)
    return name in _NAMELESS or (path.startswith(_ROOT) and "site-packages" not in path and not name.startswith("<"))


def _leave():
    sys.settrace(None)
    ran = {_path(name): sorted(seen) for name, seen in list(_lines.items()) if seen}
    raised = [(_path(row[0]), *row[1:]) for row in _raised]
    with open(os.path.join(_OUTBOX, "watch-%d.json" % os.getpid()), "w") as file:
        json.dump({"lines": ran, "raised": raised}, file)


def _path(name):
    return name if name.startswith("<") else os.path.abspath(name)


if _OUTBOX:
    atexit.register(_leave)
    threading.settrace(_enter)
    sys.settrace(_enter)
