# ruff: noqa: PTH100, PTH109, PTH118
# mypy: ignore-errors
"""Runs inside the sandbox: some of the project's tests under pytest, counting for each line of the repository how many
passing tests ran it. The order comes as JSON on standard input, the answer leaves as JSON on standard output, after the
time limit with what is known by then. Standard library and pytest only; what it tells may be forged, which costs time.
"""

import json
import os
import signal
import sys


class _Spectrum:
    """A pytest plugin."""

    def __init__(self, root, wanted):
        self.root = root
        self.wanted = {os.path.join(root, path): path for path in wanted}
        self.counts = {path: {} for path in wanted}
        self.known = {}
        self.passed = []
        self.now = set()
        self.good = True

    def enter(self, frame, event, argument):
        name = frame.f_code.co_filename
        path = self.known.get(name, False)
        if path is False:
            path = self.known[name] = self.wanted.get(os.path.abspath(name))
        if path is None:
            return None
        add = self.now.add

        def inside(frame, event, argument):
            if event == "line":
                add((path, frame.f_lineno))
            return inside

        return inside

    def pytest_runtest_logstart(self, nodeid):
        self.name = nodeid
        self.now, self.good = set(), True
        sys.settrace(self.enter)

    def pytest_runtest_logreport(self, report):
        self.good = self.good and report.passed

    def pytest_runtest_logfinish(self):
        sys.settrace(None)
        if self.good:
            self.passed.append(self.name)
            for path, line in self.now:
                lines = self.counts[path]
                lines[line] = lines.get(line, 0) + 1


def main():
    order = json.load(sys.stdin)
    answers = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    sys.path[0] = os.getcwd()
    import pytest

    spectrum = _Spectrum(order["root"], order["wanted"])

    def tell(finished):
        sys.settrace(None)
        row = {"passed": spectrum.passed, "counts": spectrum.counts, "finished": finished}
        with os.fdopen(answers, "w") as file:
            json.dump(row, file)
        os._exit(0)

    signal.signal(signal.SIGALRM, lambda *_: tell(False))
    signal.alarm(max(1, int(order["seconds"])))
    pytest.main(["-o", "addopts=", "-p", "no:cacheprovider", "-q", *order["files"]], plugins=[spectrum])
    tell(True)


if __name__ == "__main__":
    main()
