"""What the handoff does: on a folder that can be counted by hand, on one's own arms, and on the paper's files."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scrout.base import StudyError
from scrout.lab.study import handoff, handoff_report
from scrout.lab.study.handoff import SubgroupEffect
from scrout.lab.study.handoff_setup import draw_batch
from scrout.lab.study.report import Figure, ReportTable
from scrout.lab.study.sources.benchmark import ArmOutcomes, Benchmark, ScoutRecord
from scrout.lab.study.sources.paper import Paper
from scrout.lab.study.sources.source import Own
from scrout.lab.study.stats import mean_difference
from scrout.records import Arm

DATA = Path(__file__).parents[3].parent / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"the paper's files are not at {DATA}")
KIMI, GPT, OPUS = "Kimi K2.5", "GPT-5.2", "Claude Opus 4.6"


def own(solved: Mapping[Arm, Mapping[str, Sequence[int]]], tasks: int = 12, scouted: bool = True) -> Own:
    """Own runs: by arm and fixer the numbers of the tasks that it solves."""
    arms = {
        arm: ArmOutcomes(
            tuple(columns),
            np.ones((tasks, len(columns)), dtype=bool),
            np.array([[task in one for one in columns.values()] for task in range(tasks)]),
            np.full((tasks, len(columns)), 0.1),
            np.array([[float(task) for _ in columns] for task in range(tasks)]),
        )
        for arm, columns in solved.items()
    }
    ids = tuple(f"t{task}" for task in range(tasks))
    told = {name: ScoutRecord("spontaneous", "passed", True, False, 1) for name in ids} if scouted else {}
    repositories = tuple(f"r{task % 2}" for task in range(tasks))
    return Own(Benchmark("own runs", "batch b", ids, repositories, arms, told), "grade")


def look(found: handoff.HandoffStudy, fixer: str, group: str) -> SubgroupEffect:
    (one,) = (each for each in found.looks if each.fixer == fixer and each.group == group)
    return one


def test_effects_and_looks_as_counted_by_hand(small_paper: Path) -> None:
    found = handoff.study(Paper(small_paper))
    kimi = next(one for one in found.effects if one.fixer == KIMI and one.benchmark.startswith("Pro"))
    assert (kimi.paired.tasks, kimi.paired.gained, kimi.paired.lost, kimi.selected) == (24, 3, 1, False)
    assert kimi.kinds == "18 spontaneous, 6 forced"
    assert kimi.usd == pytest.approx(0.1) and kimi.usd_change and kimi.usd_change.value == pytest.approx(0.02)
    routed = next(one for one in found.effects if one.tasks)
    assert routed.paired.tasks == 23 and routed.p_holm is None
    chosen = next(one for one in found.effects if one.fixer == OPUS and one.benchmark.startswith("Pro"))
    assert chosen.selected and chosen.p_holm is None and chosen.paired.tasks == 1
    long = look(found, KIMI, "GPT-5.2 alone took all 50 steps")
    assert (long.inside.paired.gained, long.inside.paired.lost) == (3, 0)
    assert (long.outside.paired.gained, long.outside.paired.lost) == (0, 1)
    assert long.between.change.value == pytest.approx(3 / 12 + 1 / 12)
    whole = look(found, KIMI, "the handoff names every gold file")
    assert (whole.inside.paired.tasks, whole.inside.paired.gained) == (8, 1)
    real = look(found, KIMI, "its claim failed for real")
    assert (real.inside.paired.tasks, real.inside.paired.gained, real.inside.paired.lost) == (6, 2, 0)
    (effort,) = (one for one in found.efforts if one.fixer == KIMI)
    assert effort.capped and effort.steps_change.value < 0
    assert (effort.capped.first * 24, effort.capped.second * 24) == pytest.approx((8, 4))


def test_looks_are_adjusted_as_a_family(small_paper: Path) -> None:
    found = handoff.study(Paper(small_paper))
    family = [one for one in found.looks if one.benchmark.startswith("Pro")]
    assert len(family) > 3
    best = min(family, key=lambda one: one.between.p)
    assert best.p_holm == pytest.approx(min(1.0, len(family) * best.between.p))
    assert all(one.inside.p_holm >= one.inside.paired.p for one in family)


def test_a_task_whose_fixers_agree_counts_once_when_pooled(small_paper: Path) -> None:
    found = handoff.study(Paper(small_paper))
    (label,) = (one for one in found.pooled if one.benchmark == "label run")
    # Task 1 is unsolved alone by two of the four fixers, and solved with the handoff by all.
    assert (label.pairs, label.tasks, label.gained, label.lost) == (40, 10, 2, 0)
    assert label.p == 1.0
    assert label.change.value == pytest.approx(2 / 40)


def test_a_rule_is_chosen_on_other_repositories_only() -> None:
    # The handoff helps in one repository and hurts in the other, so what one teaches is wrong for the other.
    first, second = range(0, 12, 2), range(1, 12, 2)
    found = handoff.study(own({"solo": {"a": tuple(second)}, "handoff": {"a": tuple(first)}}))
    (rule,) = (one for one in found.injections if one.possible)
    assert rule.over_never.second == 0.0
    assert set(rule.chosen) == {"always", "never"}


def test_the_gate_is_judged_where_claims_were_passed_through() -> None:
    everything, most = tuple(range(12)), tuple(range(3, 12))
    found = handoff.study(own({"passthrough": {"a": most}, "handoff": {"a": everything}, "solo": {"a": most}}))
    (gate,) = found.gates
    assert (gate.paired.gained, gate.paired.lost) == (3, 0)
    assert any(isinstance(part, ReportTable) and "gate" in part.title for part in handoff_report.report(found).parts)
    assert not any("pass-through" in note for note in found.notes)


def test_a_fixer_is_never_measured_by_its_own_length() -> None:
    solved = {"a": (1, 2), "b": (3,)}
    found = handoff.study(own({"solo": solved, "handoff": {"a": (1, 2, 3), "b": (3, 4)}}, scouted=False))
    assert {(one.fixer, one.yardstick) for one in found.looks} == {("a", "b"), ("b", "a")}


def test_power_grows_with_tasks_and_reaches_what_is_needed(small_paper: Path) -> None:
    found = handoff.study(Paper(small_paper))
    (one,) = (each for each in found.powers if each.measured_on.startswith("Pro"))
    assert one.differ == pytest.approx(4 / 24)
    needed = one.needed[0.8]
    assert needed is not None and needed > one.tasks
    assert [power for tasks, power in one.curve if tasks >= needed and power < 0.79] == []


def test_without_pairs_there_is_nothing_to_say() -> None:
    with pytest.raises(StudyError, match="--arms solo,handoff"):
        handoff.study(own({"solo": {"a": (1,)}}))


def test_arms_that_the_check_judged_are_not_compared() -> None:
    """It passes nothing without a reproduction, and runs alone have none: the handoff would win by default."""
    graded = own({"solo": {"a": ()}, "handoff": {"a": (1, 2, 3)}})
    found = handoff.study(replace(graded, judged_by="check"))
    assert not found.comparable and not found.effects and not found.looks and not found.powers
    assert [one.fixer for one in found.efforts] == ["a"]
    assert "cannot be compared" in handoff_report.report(found).findings[0]
    assert handoff.study(graded).effects


def test_the_report_says_what_was_left_out(small_paper: Path) -> None:
    told = handoff_report.report(handoff.study(Paper(small_paper)))
    assert any("pass-through" in note for note in told.notes)
    assert any("3 gained" in line or "b/c 3/1" in line for line in told.findings)
    assert {part.name for part in told.parts if isinstance(part, Figure)} == {
        *("handoff-effects", "handoff-looks", "handoff-power"),
    }


def test_groups_without_a_difference_are_not_told_apart() -> None:
    inside = np.arange(20) < 10
    assert mean_difference(np.tile([0.0, 1.0], 10), inside).p == 1.0
    # Half of the 20 ways to choose 3 of 6 hold two of the three gained tasks or more.
    assert mean_difference(np.array([1.0, 1.0, 0.0, 1.0, 0.0, 0.0]), np.arange(6) < 3).p == 1.0
    # One of the 56 ways to choose 3 of 8 holds all three.
    uneven = mean_difference(np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, -1.0]), np.arange(8) < 3)
    assert uneven.p == pytest.approx(2 / 56)
    by_probability = np.random.default_rng(3).integers(-1, 2, 60).astype(float)
    nudged = by_probability + np.linspace(0, 1e-6, 60)
    half = np.arange(60) % 3 == 0
    assert mean_difference(by_probability, half).p == pytest.approx(mean_difference(nudged, half).p, abs=0.04)
    far = mean_difference(np.where(inside, 1.0, 0.0), inside)
    assert far.change.value == 1.0 and far.p < 0.001
    with pytest.raises(StudyError, match="no two groups"):
        mean_difference(np.ones(3), np.ones(3, dtype=bool))


def test_json_of_the_command_holds_no_nan(small_paper: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scrout", "study", "handoff", "--data", str(small_paper), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout, parse_constant=pytest.fail)
    assert found["claimed"] == [KIMI, GPT]


def test_a_batch_is_drawn_by_repository_and_can_be_run(tmp_path: Path) -> None:
    tasks = tmp_path / "all.jsonl"
    rows = [
        {"id": f"t{number}", "text": "An issue.", "repo": f"o/r{number % 10 // 7}", "base_commit": "c" * 40}
        for number in range(400)
    ]
    rows[0]["gold"] = {"patch": "diff", "files": ["x.py"]}  # type: ignore[assignment]
    tasks.write_text("".join(json.dumps(row) + "\n" for row in rows))
    drawn = draw_batch(tasks, tmp_path / "set up", ["a"], effect=0.15)
    written = [json.loads(line) for line in drawn.file.read_text().splitlines()]
    assert drawn.needed == drawn.drawn == len(written) < 400 and drawn.power >= 0.8
    small = sum(row["repo"] == "o/r1" for row in written)
    assert abs(small - 0.3 * drawn.drawn) <= 1
    assert draw_batch(tasks, tmp_path / "again", ["a"], effect=0.15).file.read_text() == drawn.file.read_text()
    other = draw_batch(tasks, tmp_path / "other", ["a"], effect=0.15, seed=1)
    assert other.file.read_text() != drawn.file.read_text()
    assert "--arms solo,handoff,passthrough --fixers a" in drawn.commands[0] and "'" in drawn.commands[0]
    few = draw_batch(tasks, tmp_path / "few", ["a"], effect=0.01)
    assert few.drawn == 400 and few.power < 0.8 and few.ungraded == 399
    assert json.loads(few.file.read_text().splitlines()[0])["gold"]["files"] == ["x.py"]
    with pytest.raises(StudyError, match="Name the fixers"):
        draw_batch(tasks, tmp_path, [])
    with pytest.raises(StudyError, match="does not fit"):
        draw_batch(tasks, tmp_path, ["a"], effect=0.5)


@needs_data
def test_the_exploratory_figures_on_the_receipts() -> None:
    found = handoff.study(Paper(DATA))
    long = look(found, KIMI, "GPT-5.2 alone took all 50 steps")
    assert (long.inside.paired.tasks, long.inside.paired.gained, long.inside.paired.lost) == (97, 22, 8)
    assert round(100 * long.inside.paired.change.value, 1) == 14.4
    assert round(100 * long.outside.paired.change.value, 1) == -2.4
    whole = look(found, KIMI, "the handoff names every gold file").inside.paired
    assert (whole.tasks, whole.gained, whole.lost) == (66, 10, 3)
    real = look(found, KIMI, "its claim failed for real").inside.paired
    assert (real.tasks, real.gained, real.lost) == (50, 4, 4)
    (effort,) = (one for one in found.efforts if one.fixer == KIMI)
    assert effort.capped and (round(266 * effort.capped.first), round(266 * effort.capped.second)) == (128, 97)
    pooled = {one.benchmark: one for one in found.pooled}["label run"]
    assert (pooled.gained, pooled.lost, pooled.pairs) == (29, 22, 396)
    routed = next(one for one in found.effects if one.tasks)
    assert (routed.paired.tasks, routed.paired.gained, routed.paired.lost) == (263, 35, 25)
