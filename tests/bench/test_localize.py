"""Measuring the search: scores of made-up predictions, whole runs on a made-up clone, and a clone without a future."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from scrout.git import make_git_dir

BENCH = Path(__file__).parents[2] / "bench"


CODE = """LIMIT = 3


class Cart:
    size = 1

    def total(self):
        def tax(price):
            return price * 2

        return tax(LIMIT)


def checkout(cart):
    return cart.total()
"""


def git(repo: Path, *args: str) -> str:
    identity = ("-c", "user.name=Test", "-c", "user.email=test@localhost", "-c", "commit.gpgSign=false")
    done = subprocess.run(["git", *identity, *args], cwd=repo, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(repo: Path, files: dict[str, str]) -> str:
    for name, content in files.items():
        (repo / name).write_text(content)
    git(repo, "add", "--all")
    git(repo, "commit", "-q", "-m", "Change " + " and ".join(files))
    return git(repo, "rev-parse", "HEAD")


@dataclass(frozen=True)
class Clone:
    """A bare clone with the history old, base, future."""

    mirrors: Path
    git_dir: Path
    old: str
    base: str
    future: str


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    work, git_dir = tmp_path / "work", tmp_path / "mirrors" / "Owner+Name" / "repo"
    work.mkdir()
    git(work, "init", "-q", "-b", "main")
    old = commit(work, {"large.txt": "words\n", "cart.py": "LIMIT = 3\n"})
    base = commit(work, {"large.txt": "other words\n", "cart.py": CODE, "stock.py": "def put(item):\n    pass\n"})
    future = commit(work, {"cart.py": CODE.replace("* 2", "* 3")})
    git(work, "tag", "released")
    git_dir.parent.mkdir(parents=True)
    shutil.copytree(work / ".git", git_dir)
    git(git_dir, "config", "core.bare", "true")
    return Clone(tmp_path / "mirrors", git_dir, old, base, future)


def task(clone: Clone, **fields: object) -> str:
    row = {
        "instance_id": "owner__name-1",
        "repo": "owner/name",
        "base_commit": clone.base,
        "problem_statement": "Cart.total is wrong: tax() doubles the price",
        "gold_files": ["cart.py"],
        "gold_regions": {"cart.py": [[9, 9]]},
        "created_at": "2020-01-01T00:00:00Z",
    }
    return json.dumps({**row, **fields}) + "\n"


def bench(script: str, clone: Clone, rows: str, *more: str) -> subprocess.CompletedProcess[str]:
    folder = clone.mirrors.parent
    (folder / "tasks.jsonl").write_text(rows)
    command = [sys.executable, str(BENCH / script), "--tasks", "tasks.jsonl", "--mirrors", "mirrors", *more]
    env = {**os.environ, "PYTHONPATH": str(BENCH.parent / "src"), "XDG_CACHE_HOME": str(folder / "cache")}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def localize(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("localize")


def test_one_score(localize: ModuleType) -> None:
    answer = localize.Answer(("a.py", "b.py"), {})
    found = localize.Prediction(("a.py", "x.py", "y.py"), ("a.py", "x.py", "y.py", "b.py"), (("a.py", "f"),))
    score = localize.score(found, answer, frozenset({("a.py", "f")}))
    assert (score.recall, score.precision, score.all_gold, score.files_named) == (0.5, pytest.approx(1 / 3), 0.0, 3.0)
    assert score.f1 == pytest.approx(0.4)
    assert score.file_acc == (0.0, 0.0, 1.0, 1.0)
    assert score.function_acc == (1.0, 1.0)


def test_nothing_named_is_no_precision_and_no_function_is_left_out(localize: ModuleType) -> None:
    answer = localize.Answer(("a.py",), {})
    scores = [localize.score(localize.Prediction((), ()), answer)]
    scores.append(localize.score(localize.Prediction(("a.py",), ("a.py",)), answer, frozenset({("a.py", "f")})))
    result = localize.summary(scores)
    assert (result["n"], result["precision"], result["recall"], result["function_n"]) == (2, 0.5, 0.5, 1)
    assert result["function_acc"] == {"5": 0.0, "10": 0.0}


def test_an_interval_holds_the_mean_and_is_the_same_every_time(localize: ModuleType) -> None:
    low, high = localize.interval([0.0, 1.0] * 50)
    assert 0.3 < low < 0.5 < high < 0.7
    assert localize.interval([0.0, 1.0] * 50) == [low, high]
    assert localize.interval([]) is None


def test_long_form_text(localize: ModuleType) -> None:
    row = {"problem_statement": json.dumps("It\nfails"), "requirements": "Must work", "interface": '"odd" text'}
    expected = 'It\nfails\n\nRequirements:\nMust work\n\nNew interfaces introduced:\n"odd" text'
    assert localize.text_of(row) == expected


def test_a_limit_spreads_and_mirrors_match_in_any_case(localize: ModuleType, tmp_path: Path) -> None:
    mirror = tmp_path / "mirrors" / "Owner+Name" / "repo"
    make_git_dir(mirror, bare=True)
    row = {
        "repo": "owner/name",
        "base_commit": "0" * 40,
        "problem_statement": "x",
        "gold_files": ["a.go", "b.go", "c.md"],
    }
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text("".join(json.dumps({**row, "instance_id": str(number)}) + "\n" for number in range(10)))
    taken = localize.read_tasks(tasks, tmp_path / "mirrors", 2)
    assert [query.id for query, _ in taken] == ["0", "5"]
    alternates = taken[0][0].git_dir / "objects" / "info" / "alternates"
    assert alternates.read_text() == f"{mirror}/objects\n"
    assert taken[0][1].language == "go"


@pytest.mark.slow
def test_a_run_end_to_end(clone: Clone) -> None:
    rows = task(clone) + task(clone, instance_id="owner__name-2", base_commit="0" * 40)
    done = bench("localize.py", clone, rows, "--json", "--jobs", "2", "--predictions", "found.jsonl")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["n"], result["unread"], result["recall"], result["file_acc"]["1"]) == (1, ["owner__name-2"], 1, 1)
    assert (result["function_n"], result["function_acc"]) == (1, {"5": 1.0, "10": 1.0})
    assert result["bm25"]["file_acc"]["5"] == 1
    assert set(result["by_repo"]) == {"owner/name"} and set(result["by_language"]) == {"py"}
    assert result["seconds"]["cold_p95"] > 0 and result["seconds"]["warm_median"] > 0 and result["peak_mb"] > 1
    (line,) = (clone.mirrors.parent / "found.jsonl").read_text().splitlines()
    found = json.loads(line)
    assert found["instance_id"] == "owner__name-1"
    assert found["files"] == found["ranking"][: len(found["files"])]
    assert "cart.py::Cart.total" in found["functions"] and "cart.py::Cart" not in found["functions"]


@pytest.mark.parametrize(
    ("lines", "names"),
    [
        ((9, 9), {"Cart.total.tax"}),
        ((7, 11), {"Cart.total", "Cart.total.tax"}),
        ((5, 5), set()),
        ((1, 1), set()),
        ((11, 14), {"Cart.total", "checkout"}),
    ],
)
def test_gold_functions_are_the_innermost_ones(
    localize: ModuleType,
    clone: Clone,
    monkeypatch: pytest.MonkeyPatch,
    lines: tuple[int, int],
    names: set[str],
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(clone.mirrors.parent / "cache"))
    repository = localize.read_repository(clone.git_dir, clone.base)
    answer = localize.Answer(("cart.py",), {"cart.py": [lines], "gone.py": [(1, 1)]})
    assert localize.gold_functions(repository, answer) == {("cart.py", name) for name in names}


def test_the_past_alone_is_kept(clone: Clone, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    lost = git(clone.git_dir, "rev-parse", f"{clone.old}:large.txt")
    (clone.git_dir / "objects" / lost[:2] / lost[2:]).unlink()
    past = importlib.import_module("leaks").past_only(clone.git_dir, clone.base, tmp_path / "past.git")
    assert git(past, "for-each-ref", "--format=%(objectname)") == clone.base
    kept = git(past, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").splitlines()
    reachable = git(past, "rev-list", "--objects", "--missing=allow-any", clone.base).splitlines()
    assert sorted(kept) == sorted(line.split()[0] for line in reachable)
    assert {clone.old, clone.base} <= set(kept) and not {clone.future, lost} & set(kept)
    assert git(past, "show", f"{clone.base}:cart.py") == CODE.strip()


@pytest.mark.slow
def test_leaks_says_identical_and_counts_what_it_cannot_read(clone: Clone) -> None:
    done = bench("leaks.py", clone, task(clone) + task(clone, instance_id="owner__name-2", base_commit="0" * 40))
    result = json.loads(done.stdout)
    assert (result["n"], result["identical"], result["differing"]) == (2, 1, ["owner__name-2"])
    assert done.returncode == 1
