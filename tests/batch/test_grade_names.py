"""Names of tests that gold and report have from different folders."""

from __future__ import annotations

from scrout.batch.grading.test_names import JudgedTests, judge_names, places_of
from scrout.sandbox.reports import TestReport

FILES = ("tests/test_a.py", "tests/sub/test_b.py", "test_root.py", "lib/test_a.py")


def judged(
    tests: list[str], *passed: str, failed: str = "", skipped: str = "", files: tuple[str, ...] = FILES
) -> JudgedTests:
    report = TestReport(frozenset(passed), frozenset(failed.split()), frozenset(skipped.split()))
    return judge_names(places_of(tests, files), report, files.__contains__)


def test_places() -> None:
    tests = ["tests/test_a.py::C::t[x.py::y]", "sub/test_b.py::t", "repo/tests/test_a.py::t", "test_a.py::t", "a | b"]
    found = places_of([*tests, "sub.test_b.C.t", "t (sub.test_b.C)", "org.A.adds"], FILES)
    assert [place.name for place in found.values()] == [
        "tests.test_a.C.t[x.py::y]",
        "tests.sub.test_b.t",
        "tests.test_a.t",
        "",
        "",
        "tests.sub.test_b.C.t",
        "tests.sub.test_b.C.t",
        "",
    ]
    assert found["test_a.py::t"].rivals == ("lib/test_a.py", "tests/test_a.py")


def test_a_report_from_another_folder() -> None:
    one, other = "tests/test_a.py::C::t[p]", "tests/sub/test_b.py::t"
    assert judged([one, other], "test_a.C.t[p]", "sub.test_b.t").passed == {one, other}
    assert judged([one, other], "sub/test_b.py::t", failed="test_a.C.t[p]").passed == {other}
    assert judged([one], "repo.tests.test_a.C.t[p]").passed == set()
    assert judged(["test_b.py::t"], "tests.sub.test_b.t", "other.test_b.t").passed == {"test_b.py::t"}


def test_another_file_of_the_same_name_is_not_taken_for_it() -> None:
    test, files = "tests/test_a.py::t", ("tests/test_a.py", "test_a.py")
    assert judged([test], "test_a.t", files=files).passed == set()
    # The file itself did not get as far as its tests, or they were skipped.
    assert judged([test], "test_a.t", failed="tests.test_a", files=files[:1]).passed == set()
    assert judged([test], "test_a.t", skipped="tests.test_a.t", files=files[:1]).passed == set()


def test_folders_that_cannot_be_told_apart() -> None:
    tests = ["tests/test_a.py::t", "lib/test_a.py::t"]
    unclear = judged(tests, "test_a.t")
    assert unclear.passed == set() and unclear.ambiguous == tuple(
        f"{test} (names are relative to lib or tests)" for test in tests
    )
