"""The benchmark of strangers' issues: its rows are those of the data, its patches and environments what it says."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared/data"
PATCH = """\
diff --git a/one.py b/one.py
--- a/one.py
+++ b/one.py
@@ -1 +1 @@
-a
+b
@@ -9 +9 @@
-c
+d
diff --git a/two.py b/two.py
--- a/two.py
+++ b/two.py
@@ -1 +1 @@
-e
+f
@@ -9 +9 @@
-g
+h
"""


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    yield importlib.import_module("real_issues")


@pytest.mark.skipif(not DATA.is_dir(), reason="the issues are not here")
def test_every_row_is_an_issue_with_code_of_a_project_that_may_be_looked_at(bench: ModuleType) -> None:
    issues = {row["instance_id"]: row for row in bench.given(DATA)}
    rows = [json.loads(line) for line in bench.ROWS.read_text(encoding="utf-8").splitlines()]
    assert len({row["id"] for row in rows}) == len(rows) > 200
    for row in rows:
        issue = issues[row["id"]]
        assert (row["repo"], row["base_commit"]) == (issue["repo"], issue["base_commit"])
        assert row["half"] == bench.half_of(row["id"])
        assert bench.has_code(bench.once(issue["problem_statement"]))
        assert (row["code"] == "import") == bench.imports(issue["problem_statement"], bench.PROJECTS[row["repo"]][0])


def test_half_of_the_hunks_keeps_their_files(bench: ModuleType) -> None:
    assert bench.half_of_hunks(PATCH) == PATCH.partition("diff --git a/two.py")[0]
    one, _, _ = PATCH.partition("@@ -9")
    assert bench.half_of_hunks(one) == ""
    three = PATCH.rpartition("@@ -9")[0]
    assert bench.half_of_hunks(three) == one


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Title of it\nbody\n\nTitle of it\nbody\n", "Title of it\nbody"),
        ("Title of it\nTitle of it is wrong\n", "Title of it\nTitle of it is wrong\n"),
        ("Title of it\nbody\n", "Title of it\nbody\n"),
    ],
)
def test_a_text_that_is_there_twice_is_read_once(bench: ModuleType, text: str, expected: str) -> None:
    assert bench.once(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See\n```\nf()\n```", True),
        ("See\n>>> f()", True),
        ("Traceback (most recent call last):", True),
        ("See:\n\n    x = f(1)\n", True),
        ("Please add it.\n\n- one\n    - two (three)\n", False),
    ],
)
def test_code_is_found_in_a_text(bench: ModuleType, text: str, expected: bool) -> None:
    assert bench.has_code(text) is expected


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("setup.cfg", "[options.entry_points]\nconsole_scripts =\n    tool = pkg.cli:main\n"),
        ("pyproject.toml", '[project]\nname = "pkg"\n[project.scripts]\ntool = "pkg.cli:main"\n'),
        ("setup.py", 'setup(entry_points={"console_scripts": ["tool = pkg.cli:main"]})\n'),
    ],
)
def test_commands_of_a_project_are_installed(bench: ModuleType, tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    about = tmp_path / ".venv/lib/python3.11/site-packages/pkg-99.0.dist-info"
    about.mkdir(parents=True)
    (tmp_path / ".venv/bin").mkdir()
    bench.add_entry_points(tmp_path, "pkg")
    assert (about / "entry_points.txt").read_text() == "[console_scripts]\ntool = pkg.cli:main\n"
    assert "from pkg.cli import main" in (tmp_path / ".venv/bin/tool").read_text()


def test_a_verified_claim_that_the_fix_does_not_turn_counts_against_it(bench: ModuleType) -> None:
    row = {"repo": "a/b", "verdict": "real_failure", "basis": "verbatim", "first_file_right": True}
    rows = [
        {**row, "id": "1", "reproduction": "true", "fix": "passed", "wrong": ["half", "failed"]},
        {**row, "id": "2", "reproduction": "false", "fix": "failed", "wrong": ["half", "passed"]},
        {**row, "id": "3", "reproduction": "none", "verdict": "no_repro", "basis": None},
        {"repo": "a/b", "id": "4", "left_out": "cannot be imported"},
    ]
    summary = bench.summarize(rows)
    assert (summary["verified_and_true"]["count"], summary["verified_and_true"]["of"]) == (1, 2)
    assert (summary["wrong_patches"]["passed"]["count"], summary["upstream_fix"]["failed"]["count"]) == (1, 1)
    assert (summary["judged"], summary["left_out"]) == (3, {"cannot be imported": 1})
