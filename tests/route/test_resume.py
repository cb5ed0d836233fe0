from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from scrout.errors import RouteError
from scrout.route.embed import HashedEmbedder, Vectors
from scrout.route.resume import MIN_OUTCOMES, Arm, Outcome, Resume, build_resume, load, save

EMBEDDER = HashedEmbedder()


class TwoNumbers:
    """Embeds "3 4" as (0.6, 0.8)."""

    name = "two-numbers"
    size = 2

    def embed(self, texts: Sequence[str]) -> Vectors:
        rows = np.array([[float(number) for number in text.split()] for text in texts], dtype=np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def outcome(number: int, resolved: bool, cost: str | None = "0.10", arm: Arm = "handoff", text: str = "") -> Outcome:
    return Outcome(
        instance_id=f"task-{number}",
        text=text or f"issue number {number}",
        resolved=resolved,
        cost_usd=None if cost is None else Decimal(cost),
        arm=arm,
    )


def history(n: int = MIN_OUTCOMES) -> list[Outcome]:
    return [outcome(number, number % 2 == 0) for number in range(n)]


def test_counts_rate_and_centroids() -> None:
    solved = [outcome(number, True, text="1 0" if number % 2 else "0 1") for number in range(10)]
    failed = [outcome(number, False, text="3 4") for number in range(10, 25)]
    resume = build_resume("kimi", solved + failed, TwoNumbers())
    assert (resume.fixer, resume.embedder, resume.n, resume.solved) == ("kimi", "two-numbers", 25, 10)
    assert resume.base_rate == 0.4
    assert resume.solved_centroid == pytest.approx((0.5, 0.5))
    assert resume.failed_centroid == pytest.approx((0.6, 0.8))


def test_costs_are_means_of_each_arm_where_known() -> None:
    rows = [outcome(n, n % 2 == 0, "0.10") for n in range(23)] + [outcome(23, True, "0.34"), outcome(24, True, None)]
    resume = build_resume("kimi", rows, EMBEDDER)
    assert resume.handoff_cost_usd == Decimal("0.11")
    assert resume.solo_cost_usd is None
    both = build_resume("kimi", [*rows, outcome(1, True, "0.50", "solo")], EMBEDDER)
    assert (both.handoff_cost_usd, both.solo_cost_usd) == (Decimal("0.11"), Decimal("0.50"))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (history(24), "kimi has 24 of 25 outcomes. Run it on 1 more"),
        ([], "0 of 25"),
        ([outcome(n, True) for n in range(30)], "solved 30 of its 30 tasks. Add tasks that it fails"),
        ([outcome(n, False) for n in range(30)], "solved 0 of its 30 tasks. Add tasks that it solves"),
        ([*history(30), outcome(7, True)], "2 outcomes of 'task-7' \\(handoff\\)"),
    ],
)
def test_a_history_that_teaches_nothing_is_refused(rows: list[Outcome], words: str) -> None:
    with pytest.raises(RouteError, match=words):
        build_resume("kimi", rows, EMBEDDER)


def test_a_negative_cost_is_refused() -> None:
    with pytest.raises(ValidationError):
        outcome(1, True, "-0.01")


@settings(deadline=None, max_examples=30)
@given(st.lists(st.decimals(0, 99, places=10), min_size=MIN_OUTCOMES, max_size=40), st.data())
def test_what_is_saved_is_loaded(
    tmp_path_factory: pytest.TempPathFactory, costs: list[Decimal], data: st.DataObject
) -> None:
    rows = [
        outcome(n, n % 2 == 0, str(cost), data.draw(st.sampled_from(["solo", "handoff"])))
        for n, cost in enumerate(costs)
    ]
    resume = build_resume("kimi", rows, EMBEDDER)
    folder = tmp_path_factory.mktemp("resumes")
    save(resume, folder)
    assert load(folder) == {"kimi": resume}


def test_a_missing_or_empty_folder_holds_no_resume(tmp_path: Path) -> None:
    assert load(tmp_path) == {} == load(tmp_path / "missing")


def test_names_stay_in_the_folder_and_apart(tmp_path: Path) -> None:
    names = ["a/b", "a-b", "../up", "..", "text.head"]
    folder = tmp_path / "deep" / "resumes"
    for name in names:
        save(build_resume(name, history(), EMBEDDER), folder)
    assert set(load(folder)) == set(names)
    assert [path for path in tmp_path.rglob("*.json") if path.parent != folder] == []


def test_saving_again_replaces_and_leaves_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "resumes"
    save(build_resume("kimi", history(25), EMBEDDER), folder)
    path = save(build_resume("kimi", history(31), EMBEDDER), folder)
    assert load(folder)["kimi"].n == 31
    assert list(folder.iterdir()) == [path]


def test_a_folder_that_cannot_be_written_is_an_error_of_the_users(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RouteError, match=r"cannot write .*kimi"):
        save(build_resume("kimi", history(), EMBEDDER), tmp_path / "file")


def stored(tmp_path: Path, **changes: object) -> Path:
    path = save(build_resume("kimi", history(), EMBEDDER), tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return path


@pytest.mark.parametrize(
    "changes",
    [
        {"solved": 26},
        {"solved": 0},
        {"n": 0},
        {"version": 2},
        {"unknown": 1},
        {"solved_centroid": [0.5]},
        {"solved_centroid": ["x"]},
        {"failed_centroid": [float("nan")] * 512},
    ],
)
def test_a_file_that_does_not_add_up_is_named(tmp_path: Path, changes: dict[str, object]) -> None:
    stored(tmp_path, **changes)
    with pytest.raises(RouteError, match=r"kimi\.resume\.json is not a readable résumé"):
        load(tmp_path)


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_a_corrupt_file_is_named(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("resumes") / "kimi.resume.json"
    path.write_bytes(content)
    with pytest.raises(RouteError, match=r"kimi\.resume\.json"):
        load(path.parent)


def test_a_file_under_another_fixers_name_is_refused(tmp_path: Path) -> None:
    stored(tmp_path).rename(tmp_path / "opus.resume.json")
    with pytest.raises(RouteError, match=r"opus\.resume\.json is the résumé of 'kimi'"):
        load(tmp_path)


def test_resumes_of_two_embedders_are_refused(tmp_path: Path) -> None:
    resume = build_resume("kimi", history(), EMBEDDER)
    save(resume, tmp_path)
    save(Resume.model_validate(resume.model_dump() | {"fixer": "opus", "embedder": "other"}), tmp_path)
    with pytest.raises(RouteError, match="kimi with hashed-512-1, opus with other"):
        load(tmp_path)
