# ruff: noqa: PTH100, PTH110, PTH118
# mypy: ignore-errors
"""Runs inside the sandbox: the doctests of some modules. The order comes as JSON in the first argument, the answer
leaves as JSON on standard output. Standard library only, any Python 3.8 or later.
"""

import doctest
import hashlib
import importlib
import json
import os
import signal
import sys
import time

_OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL
_TEST_S = 5


class _TimeUp(BaseException):
    pass


class _Runner(doctest.DocTestRunner):
    """Remembers the numbers of the examples that hold, and prints nothing."""

    def __init__(self):
        super().__init__(verbose=False, optionflags=_OPTIONS)
        self.held = []

    def report_start(self, out, test, example):
        pass

    def report_success(self, out, test, example, got):
        self.held.append(test.examples.index(example))

    def report_failure(self, out, test, example, got):
        pass

    def report_unexpected_exception(self, out, test, example, exc_info):
        pass


def _module(path):
    """The module of a file, imported by the name that it has in its package."""
    folder, name = os.path.split(os.path.abspath(path))
    parts = [] if name == "__init__.py" else [name[: -len(".py")]]
    while os.path.exists(os.path.join(folder, "__init__.py")):
        folder, package = os.path.split(folder)
        parts.insert(0, package)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module(".".join(parts))


def _time_up(number, frame):
    raise _TimeUp


def main():
    order = json.loads(sys.argv[1])
    answers = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    ends = time.monotonic() + order["seconds"]
    signal.signal(signal.SIGALRM, _time_up)
    told = {}
    for path in order["paths"]:
        try:
            signal.alarm(max(1, int(ends - time.monotonic())))
            module = _module(path)
            tests = doctest.DocTestFinder(exclude_empty=True).find(module, module.__name__)
        except BaseException:  # a module may do anything when it is imported
            continue
        for test in tests:
            if not test.examples or time.monotonic() > ends:
                continue
            name = "{}::{}".format(path, test.name[len(module.__name__) :].lstrip(".") or "module")
            os.environ["SCROUT_RECORD_CONTEXT"] = name
            told[name] = {"held": _run(test), "count": len(test.examples), "digest": _digest(test)}
            del os.environ["SCROUT_RECORD_CONTEXT"]
    signal.alarm(0)
    with os.fdopen(answers, "w") as file:
        json.dump(told, file)


def _run(test):
    runner = _Runner()
    try:
        signal.alarm(_TEST_S)
        runner.run(test, out=lambda text: None)
    except BaseException:
        pass  # it did not end, so no further example holds
    finally:
        signal.alarm(0)
    return runner.held


def _digest(test):
    """Of what it says, so that one that was rewritten is known."""
    return hashlib.sha256(repr([(one.source, one.want) for one in test.examples]).encode()).hexdigest()[:16]


if __name__ == "__main__":
    main()
