"""Many patches: what is stored, resumed, skipped and counted. The tests that judge are one line of shell."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scrout.base import TaskError
from scrout.batch.grading.grade import Grade
from scrout.batch.grading.grade_batch import Arms, Grader, GradingReport, open_grade_store, report, reserve
from scrout.batch.grading.judge import digest, gold_digest
from scrout.batch.grading.patches import Prediction
from scrout.batch.repositories import Repositories
from scrout.batch.task_formats import TaskRow
from scrout.config.settings import Settings
from scrout.sandbox.tier import Tier
from scrout.sandbox.workspace import find_source
from scrout.task import Gold

if TYPE_CHECKING:
    from conftest import MakeRepo


def says(words: str) -> str:
    """A patch after which the repository's one file says something else."""
    return f"diff --git a/said b/said\n--- a/said\n+++ b/said\n@@ -1 +1 @@\n-wrong\n+{words}\n"


JUDGES = 'if grep -q right said; then echo "ok 1 - right"; else echo "not ok 1 - right"; fi; echo "ok 2 - runs"'
GOLD = Gold(patch=says("right"), fail_to_pass=("right",), pass_to_pass=("runs",), test_command=JUDGES)


@dataclass(frozen=True)
class Bench:
    """Tasks on one repository, and a folder for grades."""

    row: TaskRow
    out: Path
    tier: Tier

    def rows(self, *ids: str, gold: Gold | None = GOLD) -> list[TaskRow]:
        return [replace(self.row, id=task_id, gold=gold) for task_id in ids]

    async def grade(self, rows: list[TaskRow], arms: Arms, repeats: int = 1) -> GradingReport:
        with open_grade_store(self.out) as book:
            await Grader(book, Repositories(()), self.tier, Settings(), jobs=2, repeats=repeats).run(rows, arms)
            return report(rows, arms, book)

    def lines(self, name: str = "grades.jsonl") -> list[dict[str, object]]:
        return [json.loads(line) for line in (self.out / name).read_text().splitlines()]


@pytest.fixture
def bench(make_repo: MakeRepo, tier: Tier, tmp_path: Path) -> Bench:
    repo = make_repo({"said": "wrong\n"})
    return Bench(TaskRow("", "it is wrong", str(repo), find_source(repo).head), tmp_path / "out", tier)


def submitted(**patches: str) -> dict[str, Prediction]:
    return {task_id: Prediction(task_id, patch) for task_id, patch in patches.items()}


async def test_every_task_counts_and_every_verdict_is_told(bench: Bench) -> None:
    rows = [*bench.rows("a", "b", "c", "d", "e"), *bench.rows("plain", gold=None)]
    arms = {"": submitted(a=says("right"), b=says("other"), c="", d=says("right").replace("-wrong", "-lost"), f="x")}
    found = await bench.grade(rows, arms)
    (arm,) = found.arms
    assert arm.verdicts == {"resolved": 1, "unresolved": 1, "empty_patch": 1, "does_not_apply": 1}
    assert (arm.tasks, arm.missing, arm.rate) == (5, 1, 0.2)
    assert (found.without_gold, found.unknown, found.control_failed) == (("plain",), ("f",), ())
    assert {row["id"]: row["verdict"] for row in bench.lines()} == {one.id: one.verdict for one in arm.grades}


async def test_a_task_that_fails_its_controls_is_told_and_never_counted(bench: Bench) -> None:
    blind = GOLD.model_copy(update={"fail_to_pass": ()})
    unsolved = GOLD.model_copy(update={"patch": says("other")})
    rows = [*bench.rows("a"), *bench.rows("b", "c", gold=blind), *bench.rows("d", gold=unsolved)]
    arms = {"": submitted(a=says("right"), b=says("other"), c="", d=says("right"))}
    found = await bench.grade(rows, arms)
    assert [one.id for one in found.control_failed] == ["b", "c", "d"]
    assert ["they show nothing" in one.detail for one in found.control_failed] == [True, True, False]
    (arm,) = found.arms
    assert (arm.tasks, arm.verdicts, arm.control_failed, arm.missing) == (4, {"resolved": 1}, 3, 0)
    assert arm.rate == 1.0 and {row["verdict"] for row in bench.lines()} == {"resolved", "control_failed"}
    assert await bench.grade(rows, arms) == found and len(bench.lines()) == 4


async def test_a_grade_of_before_its_control_was_known_to_fail_is_replaced(bench: Bench) -> None:
    blind = GOLD.model_copy(update={"fail_to_pass": ()})
    rows, arms = bench.rows("b", gold=blind), {"": submitted(b=says("other"))}
    await bench.grade(rows, arms)
    (line,) = bench.lines()
    (bench.out / "grades.jsonl").write_text(json.dumps(line | {"verdict": "resolved", "runs": 1}) + "\n")
    found = await bench.grade(rows, arms)
    assert found.arms[0].verdicts == {} and [row["verdict"] for row in bench.lines()] == ["resolved", "control_failed"]


async def test_a_rerun_skips_what_is_graded_and_tries_again_what_infrastructure_failed(bench: Bench) -> None:
    rows = bench.rows("a", "b")
    rows[1] = replace(rows[1], repo=str(bench.out / "gone"))
    arms = {"": submitted(a=says("right"), b=says("right"))}
    first = await bench.grade(rows, arms)
    assert first.arms[0].verdicts == {"resolved": 1, "infrastructure": 1} and first.infrastructure == 1
    assert first.arms[0].rate == 1.0
    bad = next(one for one in first.arms[0].grades if one.id == "b")
    assert "gone" in bad.detail
    rows[0] = replace(rows[0], repo=str(bench.out / "gone"))  # it would fail if it were tried again
    rows[1] = bench.rows("b")[0]
    second = await bench.grade(rows, arms)
    assert second.arms[0].verdicts == {"resolved": 2}
    told = [(row["id"], row["verdict"]) for row in bench.lines()]
    assert {*told[:2]} == {("a", "resolved"), ("b", "infrastructure")} and told[2:] == [("b", "resolved")]


async def test_another_patch_gold_or_number_of_runs_is_graded_anew(bench: Bench) -> None:
    one = {"": submitted(a=says("right"))}
    await bench.grade(bench.rows("a"), one)
    await bench.grade(bench.rows("a"), one)
    assert len(bench.lines()) == len(bench.lines("controls.jsonl")) == 1
    await bench.grade(bench.rows("a"), {"": submitted(a=says("other"))})
    assert [row["verdict"] for row in bench.lines()] == ["resolved", "unresolved"]
    stricter = GOLD.model_copy(update={"pass_to_pass": ("runs", "never")})
    found = await bench.grade(bench.rows("a", gold=stricter), one)
    assert found.arms[0].grades[0].verdict == "control_failed" and "never" in found.control_failed[0].detail
    again = await bench.grade(bench.rows("a"), one, repeats=2)
    assert again.arms[0].grades[0].runs == 2
    assert len(bench.lines()) == 4 and len(bench.lines("controls.jsonl")) == 3


@pytest.mark.slow
async def test_the_last_line_of_a_task_is_that_of_the_patch_it_has_now(bench: Bench) -> None:
    for words in ("right", "other", "right", "right"):
        await bench.grade(bench.rows("a"), {"": submitted(a=says(words))})
    assert [row["verdict"] for row in bench.lines()] == ["resolved", "unresolved", "resolved"]


async def test_one_patch_of_two_arms_is_graded_once_and_stored_for_both(bench: Bench) -> None:
    arms = {"solo/x": submitted(a=says("right")), "handoff/routed": submitted(a=says("right"))}
    found = await bench.grade(bench.rows("a"), arms)
    assert [(arm.arm, arm.verdicts) for arm in found.arms] == [(arm, {"resolved": 1}) for arm in arms]
    assert [row["arm"] for row in bench.lines()] == ["solo/x", "handoff/routed"]
    assert len({row["seconds"] for row in bench.lines()}) == 1
    await bench.grade(bench.rows("a"), {**arms, "passthrough/x": submitted(a=says("right"))})
    assert [row["arm"] for row in bench.lines()] == ["solo/x", "handoff/routed", "passthrough/x"]


async def test_a_line_that_was_cut_off_is_graded_again(bench: Bench) -> None:
    arms = {"": submitted(a=says("right"), b=says("right"))}
    await bench.grade(bench.rows("a", "b"), arms)
    path = bench.out / "grades.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    found = await bench.grade(bench.rows("a", "b"), arms)
    assert found.arms[0].verdicts == {"resolved": 2} and len(bench.lines()) == 2
    path.write_bytes(b"nonsense\n" + whole)
    with pytest.raises(TaskError, match=r"grades.jsonl, line 1 .*Remove"):
        await bench.grade(bench.rows("a"), arms)


async def test_a_disk_that_takes_no_grades_is_told(bench: Bench) -> None:
    bench.out.mkdir()
    (bench.out / "grades.jsonl").symlink_to(bench.out / "nowhere" / "grades.jsonl")
    with pytest.raises(OSError, match=r"grades.jsonl"):
        await bench.grade(bench.rows("a", "b"), {"": submitted(a=says("right"), b=says("other"))})


def test_one_process_at_a_time_grades_into_a_folder(tmp_path: Path) -> None:
    with (
        open_grade_store(tmp_path / "out"),
        pytest.raises(TaskError, match="another process"),
        open_grade_store(tmp_path / "out"),
    ):
        pass
    (tmp_path / "file").write_text("")
    with pytest.raises(TaskError, match="may write to"), open_grade_store(tmp_path / "file" / "out"):
        pass


def test_a_run_id_stands_for_one_set_of_patches(tmp_path: Path) -> None:
    reserve(tmp_path, "first", {"": submitted(a="1")})
    reserve(tmp_path, "first", {"": submitted(a="1", b="2")})
    with pytest.raises(TaskError, match=r"'first' .* other patches \(1 differ, b first\).*another --run-id"):
        reserve(tmp_path, "first", {"": submitted(a="1", b="3")})
    reserve(tmp_path, "second", {"": submitted(b="3")})
    for name in ("", "../up", "a/b", "-x"):
        with pytest.raises(TaskError, match="cannot be a file name"):
            reserve(tmp_path, name, {"": submitted(a="1")})


def test_the_digest_of_a_gold_covers_all_that_judges() -> None:
    changes: list[Callable[[Gold], Gold]] = [
        lambda gold: gold.model_copy(update={"test_patch": "x"}),
        lambda gold: gold.model_copy(update={"fail_to_pass": ()}),
        lambda gold: gold.model_copy(update={"test_command": "x"}),
    ]
    digests = {gold_digest("c", GOLD), gold_digest("d", GOLD), *(gold_digest("c", change(GOLD)) for change in changes)}
    assert len(digests) == 5


def test_a_patch_of_any_bytes_has_a_digest_and_a_grade_no_field_that_is_unknown() -> None:
    assert digest("caf\udce9") != digest("cafe")
    with pytest.raises(ValueError, match="extra"):
        Grade.model_validate({"id": "a", "verdict": "resolved", "patch_digest": "", "gold_digest": "", "score": 1})


async def test_a_prediction_that_was_lost_is_nobodys_failure(bench: Bench) -> None:
    arms = {"x": {"a": Prediction("a", "", lost=True)}, "y": submitted(a="")}
    found = await bench.grade(bench.rows("a"), arms)
    assert [arm.verdicts for arm in found.arms] == [{"infrastructure": 1}, {"empty_patch": 1}]
    assert [arm.rate for arm in found.arms] == [None, 0.0]
