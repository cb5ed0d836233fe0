"""Runs inside the sandbox, in the project's Python: runs unittest like `python -m unittest`, and writes a JUnit report.

The report goes to the file that SCROUT_UNITTEST_REPORT names, after all tests.
"""

from __future__ import annotations

import os
import sys
import unittest
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import quoteattr

if TYPE_CHECKING:
    TextTestResult = unittest.TextTestResult[Any]
else:
    TextTestResult = unittest.TextTestResult

ENDED: dict[str, str] = {}
"""The result of each test by its id, as an element of the report; empty: it passed."""


class JUnitResult(TextTestResult):
    """Records results. Once a test has failed, it stays failed."""

    def addSuccess(self, test: unittest.TestCase) -> None:
        super().addSuccess(test)
        ENDED.setdefault(test.id(), "")

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addExpectedFailure(test, err)
        ENDED.setdefault(test.id(), "")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        ENDED.setdefault(test.id(), "<skipped/>")

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        super().addError(test, err)
        ENDED[test.id()] = "<error/>"

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addFailure(test, err)
        ENDED[test.id()] = "<failure/>"

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        super().addUnexpectedSuccess(test)
        ENDED[test.id()] = "<failure/>"

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            ENDED[test.id()] = "<failure/>"


if __name__ == "__main__":
    report = Path(os.environ.pop("SCROUT_UNITTEST_REPORT"))
    sys.path[0] = str(Path.cwd())
    sys.argv[0] = "python -m unittest"
    runner = unittest.TextTestRunner(resultclass=JUnitResult, verbosity=2)
    run = unittest.main(module=None, testRunner=runner, exit=False)
    cases = [f"<testcase name={quoteattr(name)}>{how}</testcase>\n" for name, how in ENDED.items()]
    text = f"<testsuite>\n{''.join(cases)}</testsuite>\n"
    report.write_bytes(text.encode("utf-8", "xmlcharrefreplace"))
    sys.exit(not run.result.wasSuccessful())
