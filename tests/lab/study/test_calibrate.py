"""Predictions where outcomes follow from the text, or do not; the control on probabilities that are set by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from scrout.base import StudyError
from scrout.cli.main import scrout
from scrout.lab.study import stats
from scrout.lab.study.calibrate import Calibrations, shrinkage, study
from scrout.lab.study.calibrate_heads import auc_of, auc_within, reliability, squared_error
from scrout.lab.study.calibrate_report import report
from scrout.lab.study.figures import drawn
from scrout.lab.study.report import Figure, ReportTable
from scrout.lab.study.sources.benchmark import ArmOutcomes, Benchmark
from scrout.lab.study.sources.paper import KIMI, Paper
from scrout.lab.study.sources.source import Own
from scrout.records import Arm
from scrout.route.embed import HashedEmbedder
from scrout.route.outcome_table import Bools

DATA = Path(__file__).parents[3].parent / "shared" / "data"
with_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"the paper's files are not in {DATA}")

TASKS = 60
SHORT, LONG = "A button is blue.", "\n".join(f"- `part_{line}` of pack/a_{line}.py is wrong" for line in range(60))


def played(resolved: Bools, measured: Bools | None = None) -> ArmOutcomes:
    """A cheap fixer and one ten times as dear."""
    shape = resolved.shape
    cost = np.broadcast_to(np.array([0.1, 1.0]), shape)
    return ArmOutcomes(
        ("cheap", "dear"),
        np.ones(shape, bool) if measured is None else measured,
        resolved,
        cost,
        np.full(shape, np.nan),
    )


def benchmark(arms: dict[Arm, ArmOutcomes], repositories: int = 6) -> Benchmark:
    """Every other task is short."""
    ids = tuple(f"task-{number}" for number in range(TASKS))
    return Benchmark(
        name="made up",
        source="a test",
        ids=ids,
        repositories=tuple(f"repo-{number // 2 % repositories}" for number in range(TASKS)),
        arms=arms,
        texts={task: (LONG if number % 2 else SHORT) for number, task in enumerate(ids)},
    )


def by_length() -> Bools:
    """The cheap fixer solves the short tasks, the dear one all but one of each kind."""
    numbers = np.arange(TASKS)
    return np.column_stack([numbers % 2 == 0, ~np.isin(numbers, (0, 1))])


@pytest.fixture(scope="module", autouse=True)
def _quick() -> Iterator[None]:
    """A tenth of the draws of an interval, the embedder that is always there, and networks that choose among two
    penalties on two folds: most of the time goes there."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("scrout.lab.study.calibrate_heads.embedders", lambda: {"hashed text": HashedEmbedder()})
        patched.setattr("scrout.lab.study.calibrate.bootstraps", partial(stats.bootstraps, draws=1_000))
        patched.setattr("scrout.lab.study.calibrate_heads.NETWORK_PENALTIES", (100.0, 10.0))
        patched.setattr("scrout.lab.study.calibrate_heads.INNER_FOLDS", 2)
        yield


@pytest.fixture(scope="module")
def told() -> Calibrations:
    """Of outcomes that follow from the text; with handoff only five tasks were tried."""
    few = np.zeros((TASKS, 2), dtype=bool)
    few[:5] = True
    return study(Own(benchmark({"solo": played(by_length()), "handoff": played(by_length(), few)}), "grade"))


def test_what_follows_from_the_text_is_found_and_routed_by(told: Calibrations) -> None:
    (space,) = told.spaces
    base, cell = space.cells[0], next(one for one in space.cells if (one.features, one.head) == ("counts", "logistic"))
    assert base.auc_within is not None and base.auc_within.value == pytest.approx(0.5)
    assert cell.auc_within is not None and cell.auc_within.value > 0.9
    assert cell.brier_gain.low > 0 and cell.p_holm < 0.05
    assert cell.matched.saving is not None and cell.matched.saving.low > 0.3
    assert cell.matched.over_mix.low > 0
    assert not cell.matched.constant
    assert (space.strongest, space.tasks, space.repositories) == ("dear", TASKS, 6)


def test_what_does_not_is_not() -> None:
    resolved = np.random.default_rng(3).random((TASKS, 2)) < 0.5
    (space,) = study(Own(benchmark({"solo": played(resolved)}), "grade")).spaces
    assert not [cell for cell in space.cells[1:] if cell.p_holm < 0.05 and cell.brier_gain.value > 0]


def test_heads_that_compare_directions_take_no_counts(told: Calibrations) -> None:
    cells = {(cell.features, cell.head) for cell in told.spaces[0].cells}
    assert ("hashed text", "résumés, LR") in cells
    assert ("counts", "résumés, LR") not in cells and ("counts", "MLP") in cells


def test_an_arm_with_too_few_tasks_is_left_out_and_said(told: Calibrations) -> None:
    assert [space.arm for space in told.spaces] == ["solo"]
    assert "arm handoff: 5 tasks have a text" in told.left_out[0]
    assert any("arm handoff" in note for note in report(told).notes)


def test_where_nothing_can_be_said_the_next_step_is() -> None:
    with pytest.raises(StudyError, match="1 repository in 60 tasks"):
        study(Own(benchmark({"solo": played(by_length())}, repositories=1), "grade"))
    alone = played(by_length()).only(["cheap"])
    with pytest.raises(StudyError, match="cheap is the only fixer"):
        study(Own(benchmark({"solo": alone}), "grade"))


def test_the_report_has_both_tables_and_its_picture_can_be_drawn(told: Calibrations) -> None:
    shown = report(told)
    titles = [part.title for part in shown.parts if isinstance(part, ReportTable)]
    assert any("how well" in title for title in titles) and any("saves" in title for title in titles)
    (picture,) = (part for part in shown.parts if isinstance(part, Figure))
    assert drawn(picture, "png").startswith(b"\x89PNG")
    assert "shown to predict better" in shown.findings[0]


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=30))
def test_auc_by_counting_pairs(rows: list[tuple[int, bool]]) -> None:
    solved = [p for p, y in rows if y]
    failed = [p for p, y in rows if not y]
    probabilities, outcomes = np.array([float(p) for p, _ in rows]), np.array([y for _, y in rows])
    (found,) = auc_of(probabilities, outcomes)(np.full((1, len(rows)), 1 / len(rows)))
    if not solved or not failed:
        assert np.isnan(found)
        return
    wins = sum((a > b) + 0.5 * (a == b) for a in solved for b in failed)
    assert found == pytest.approx(wins / (len(solved) * len(failed)))


def test_auc_over_all_tasks_is_that_of_sklearn() -> None:
    generator = np.random.default_rng(0)
    probabilities, solved = generator.random(40).round(1), generator.random(40) < 0.4
    everything = np.full((1, 40), 1 / 40)
    assert auc_of(probabilities, solved)(everything)[0] == pytest.approx(roc_auc_score(solved, probabilities))


def test_a_task_drawn_twice_counts_twice() -> None:
    probabilities, solved = np.array([0.1, 0.5, 0.4, 0.9]), np.array([False, False, True, True])
    shares = np.array([[0.25, 0.5, 0.25, 0.0]])
    assert auc_of(probabilities, solved)(shares)[0] == pytest.approx(roc_auc_score([0, 0, 0, 1], [0.1, 0.5, 0.5, 0.4]))
    only_solved = np.array([[0.0, 0.0, 1.0, 0.0]])
    assert np.isnan(auc_of(probabilities, solved)(only_solved)[0])


def test_within_compares_one_fixer_in_one_fold_alone() -> None:
    # The second fold is easier and has the lower probabilities; within each fold the order is right.
    probabilities = np.array([[0.8], [0.9], [0.1], [0.2]])
    solved = np.array([[False], [True], [False], [True]])
    everything, folds = np.full((1, 4), 0.25), np.array([0, 0, 1, 1])
    assert auc_of(probabilities, solved)(everything)[0] == pytest.approx(0.75)
    assert auc_within(probabilities, solved, folds)(everything)[0] == 1.0


def test_errors_and_groups_leave_out_what_is_unknown() -> None:
    probabilities = np.array([[0.5, np.nan], [1.0, 0.0]])
    solved = np.array([[True, True], [True, True]])
    assert squared_error(probabilities, solved).tolist() == [0.25, 0.5]
    low, high = reliability(probabilities, solved, groups=2)
    assert (low.attempts, low.predicted, high.attempts, high.predicted) == (2, 0.25, 1, 1.0)


@pytest.fixture
def swapped(small_paper: Path) -> Path:
    """By text the cheapest fixer has .2 on 6 of 24 tasks, by state .3 on one of these; everything else is high."""
    path = small_paper / "receipts" / "routing_scenarios.json"
    routing: dict[str, Any] = json.loads(path.read_text())
    for number, probabilities in enumerate(routing["probability_vectors"].values()):
        for name, one in probabilities.items():
            text = 0.2 if name == "kimi-k2-5" and number < 6 else 0.9
            state = 0.3 if number == 0 else 0.5
            one.update(p_text=text, p_state=state, p_blend=(text + state) / 2)
    routing["decisions"] = {
        task: "kimi-k2-5" if number else "gemini-3-flash" for number, task in enumerate(routing["decisions"])
    }
    path.write_text(json.dumps(routing))
    return small_paper


def test_the_control_counts_what_each_swap_diverts(swapped: Path) -> None:
    control = shrinkage(Paper(swapped))
    released, mean, permuted, text, state, _ = (one.diverted for one in control.swaps)
    assert (released.value, mean.value, text.value, state.value) == (1, 0, 6, 0)
    assert permuted.value == pytest.approx(0.25, abs=0.05)
    assert control.swaps[0].as_released.value == 24 and control.swaps[1].as_released.value == 23
    # The text would take these six, of which Kimi solves 0, 1, 2, 4 and 5 with the handoff.
    assert control.solved_where_text_diverts == pytest.approx(5 / 6)


def test_without_a_label_run_that_is_large_enough_the_control_is_still_shown(swapped: Path) -> None:
    done = CliRunner().invoke(scrout, ["study", "calibrate", "--data", str(swapped), "--json"])
    found = json.loads(done.stdout, parse_constant=lambda word: pytest.fail(f"{word} in the JSON"))
    assert found["spaces"] == [] and found["control"]["tasks"] == 24
    assert "it takes 25" in found["left_out"][0]


@with_data
def test_on_the_receipts_a_constant_in_the_states_place_decides_nearly_the_same() -> None:
    control = shrinkage(Paper(DATA))
    released, mean, _, text, *_ = (one.diverted.value for one in control.swaps)
    assert (released, mean, text) == (3, 2, 66)
    aucs = {one.space: one.auc for one in control.orders if (one.fixer, one.arm) == (KIMI, "handoff")}
    assert {space: round(one.value, 3) for space, one in aucs.items()} == {
        "text": 0.501,
        "state": 0.575,
        "blend": 0.517,
    }
    assert control.blend_over_text.low < 0 < control.blend_over_text.high


@with_data
@pytest.mark.slow
def test_on_the_label_run_no_cell_is_shown_to_beat_base_rates() -> None:
    found = study(Paper(DATA))
    assert [space.arm for space in found.spaces] == ["solo", "handoff"]
    assert found.published[0].name == "A text"
    for space in found.spaces:
        assert not [cell for cell in space.cells[1:] if cell.p_holm < 0.05 and cell.brier_gain.value > 0]
