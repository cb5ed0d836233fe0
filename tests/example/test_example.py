"""The bundled example: its tests miss the bug, the issue's script shows it, and one line repairs it.

The repaired line is written here and nowhere in the package, so that no fixer can read the answer off the example.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import scrout

EXAMPLE = Path(scrout.__file__).parent / "example"
ISSUE = (EXAMPLE / "issue.md").read_text(encoding="utf-8")
BUGGY_FILE = "larder/expiry.py"
BUGGY_LINE = "    if left <= 0:\n"
FIXED_LINE = "    if left < 0:\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the example, as its user would have it."""
    return shutil.copytree(EXAMPLE / "larder", tmp_path / "larder", ignore=shutil.ignore_patterns("__pycache__"))


def replace(project: Path, file: str, old: str, new: str) -> None:
    path = project / file
    source = path.read_text(encoding="utf-8")
    assert source.count(old) == 1, f"{old!r} is {source.count(old)} times in {file}"
    path.write_text(source.replace(old, new), encoding="utf-8")


def python(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # Two edits within a second leave size and mtime alike, and stale bytecode would then be run.
    environment = {**os.environ, "PYTHONPATH": str(project), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-S", *arguments]  # it needs no package
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=30)


def run_tests(project: Path) -> subprocess.CompletedProcess[str]:
    return python(project, "-m", "unittest")


def run_snippet(project: Path) -> subprocess.CompletedProcess[str]:
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", ISSUE, re.MULTILINE | re.DOTALL)
    return python(project, "-c", snippet)


def test_the_bug_is_seen_by_the_issue_alone_and_one_line_repairs_it(project: Path) -> None:
    before = run_tests(project)
    assert before.returncode == 0, before.stderr
    assert re.search(r"^Ran [1-9]\d+ tests", before.stderr, re.MULTILINE)

    failing = run_snippet(project)
    assert failing.returncode == 1
    assert failing.stderr.splitlines()[-1] in ISSUE.splitlines()
    assert failing.stderr.splitlines()[-1].startswith("AssertionError: ")

    replace(project, BUGGY_FILE, BUGGY_LINE, FIXED_LINE)
    assert run_snippet(project).returncode == 0
    after = run_tests(project)
    assert after.returncode == 0, after.stderr


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        (BUGGY_FILE, BUGGY_LINE, "    if left > 0:\n"),
        pytest.param(BUGGY_FILE, BUGGY_LINE, "    if left != 0:\n", marks=pytest.mark.slow),
        pytest.param(BUGGY_FILE, BUGGY_LINE, "    if left <= -2:\n", marks=pytest.mark.slow),
        (BUGGY_FILE, BUGGY_LINE, "    if False:\n"),
        ("larder/dates.py", "return (second - first).days", "return (second - first).days + 1"),
        pytest.param("larder/batches.py", "is not Freshness.EXPIRED", "is Freshness.EXPIRED", marks=pytest.mark.slow),
        pytest.param(
            "larder/shopping.py",
            "if available >= need.quantity:",
            "if available <= need.quantity:",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_wrong_edit_that_satisfies_the_issue_breaks_the_tests(project: Path, file: str, old: str, new: str) -> None:
    replace(project, file, old, new)
    assert run_snippet(project).returncode == 0
    assert run_tests(project).returncode == 1


def test_the_issue_does_not_name_the_place() -> None:
    assert Path(BUGGY_FILE).stem not in ISSUE
    assert "freshness" not in ISSUE


def test_the_example_is_data_and_no_part_of_the_package() -> None:
    assert not (EXAMPLE / "__init__.py").exists()
    with pytest.raises(ModuleNotFoundError):
        __import__("scrout.example.larder.larder.expiry")
