"""Runs inside the sandbox, in every Python that a watched command starts: notes which lines of the repository ran and
which exceptions passed through them, and leaves that in the outbox when the interpreter exits.

Standard library only, any Python 3.8 or later. What it reports comes from inside and can be forged by the code
it watches: evidence for finding a fault, never a proof.
"""

import atexit
import json
import os
import sys
import threading

_ROOT = os.environ.get("SCROUT_WATCH_ROOT", "/") + os.sep
_OUTBOX = os.environ.get("SCROUT_WATCH_OUTBOX", "")
_MOST_RAISED = 400
_lines = {}
_raised = []


def _enter(frame, event, argument):
    name = frame.f_code.co_filename
    seen = _lines.get(name)
    if seen is None:
        path = os.path.abspath(name)
        ours = path.startswith(_ROOT) and "site-packages" not in path and not name.startswith("<")
        seen = _lines[name] = set() if ours else False
    if seen is False:
        return None

    def inside(frame, event, argument):
        if event == "line":
            seen.add(frame.f_lineno)
        elif event == "exception" and len(_raised) < _MOST_RAISED:
            kind, value, _ = argument
            try:
                message = str(value)[:300]
            except Exception:
                message = ""
            _raised.append((name, frame.f_lineno, frame.f_code.co_name, kind.__name__, message))
        return inside

    return inside


def _leave():
    sys.settrace(None)
    ran = {os.path.abspath(name): sorted(seen) for name, seen in list(_lines.items()) if seen}
    raised = [(os.path.abspath(row[0]), *row[1:]) for row in _raised]
    with open(os.path.join(_OUTBOX, "watch-%d.json" % os.getpid()), "w") as file:
        json.dump({"lines": ran, "raised": raised}, file)


if _OUTBOX:
    atexit.register(_leave)
    threading.settrace(_enter)
    sys.settrace(_enter)
