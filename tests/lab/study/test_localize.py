"""How well a scout finds the files: counted by hand, on one's own runs, and beside what the paper prints."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scrout.base import StudyError
from scrout.lab.study import localize, localize_report
from scrout.lab.study.localize import HandoffGroup, LocalizeStudy
from scrout.lab.study.report import ReportTable
from scrout.lab.study.sources.benchmark import ArmOutcomes, Benchmark, ScoutRecord
from scrout.lab.study.sources.paper import Paper
from scrout.lab.study.sources.source import Own
from scrout.lab.study.stats import wilson

DATA = Path(__file__).parents[3].parent / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"the paper's files are not at {DATA}")


def ranked(*hits: bool, gold: int) -> ScoutRecord:
    """A handoff that names as many files."""
    found = sum(hits)
    recall, precision = found / gold, found / max(1, len(hits))
    f1 = 2 * recall * precision / (recall + precision) if found else 0.0
    return ScoutRecord("spontaneous", "passed", True, False, len(hits), gold, recall, precision, f1, hits)


def own(*handoffs: ScoutRecord, languages: dict[str, str] | None = None) -> Own:
    ids = tuple(f"t{number}" for number in range(len(handoffs)))
    solved = np.array([[number % 2 == 0] for number in range(len(ids))])
    known, nothing = np.ones(solved.shape, dtype=bool), np.full(solved.shape, np.nan)
    benchmark = Benchmark(
        *("own runs", "batch b", ids, tuple("r" for _ in ids)),
        arms={"handoff": ArmOutcomes(("a",), known, solved, nothing, nothing)},
        scouted=dict(zip(ids, handoffs, strict=True)),
        languages=languages or {},
    )
    return Own(benchmark, "grade")


def group(found: LocalizeStudy, name: str) -> HandoffGroup:
    (one,) = (each for each in found.groups if each.name == name)
    return one


def test_groups_as_counted_by_hand(small_paper: Path) -> None:
    found = localize.study(Paper(small_paper))
    assert found.tasks == 24 and found.unknown == 0
    whole = group(found, "all (spontaneous and forced pooled)")
    assert whole.recall.value == pytest.approx(8 / 24 + 0.5 * 16 / 24)
    assert whole.all_gold == wilson(8, 24)
    assert (group(found, "spontaneous").tasks, group(found, "forced").tasks) == (18, 6)
    assert group(found, "repo0").recall.value == 1.0 and group(found, "repo1").recall.value == 0.5
    # Solved by whom the router chose: Opus on the first task, Kimi on the others.
    assert (group(found, "solved").tasks, group(found, "not solved").tasks) == (14, 10)
    assert whole.acc is None and any("Acc@k" in note for note in found.notes)
    assert {(one.group, one.measure) for one in found.compared} >= {("spontaneous", "recall"), ("solved", "all_gold")}
    assert all(one.p_holm >= one.apart.p for one in found.compared)


def test_accuracy_wants_every_gold_file_among_the_first() -> None:
    handoffs = (ranked(True, gold=1), ranked(False, True, gold=1), ranked(True, False, True, gold=2), ranked(gold=1))
    found = localize.study(own(*handoffs))
    (kind,) = (one for one in found.groups if one.by == "kind")
    assert kind.acc == {1: wilson(1, 4), 3: wilson(3, 4), 5: wilson(3, 4)}
    sheet = next(part for part in localize_report.report(found).parts if isinstance(part, ReportTable))
    assert sheet.columns[-3:] == ("Acc@1", "Acc@3", "Acc@5")


def test_kinds_are_pooled_only_where_it_is_said() -> None:
    found = localize.study(own(ranked(True, gold=1), ranked(True, gold=1)))
    assert [one.name for one in found.groups if one.by == "kind"] == ["spontaneous"]
    forced = replace(ranked(False, gold=1), kind="forced")
    both = localize.study(own(ranked(True, gold=1), forced))
    assert [one.name for one in both.groups if one.by == "kind"] == [
        *("all (forced and spontaneous pooled)", "forced", "spontaneous"),
    ]
    assert both.compared == ()  # one of each says nothing


def test_languages_and_handoffs_without_an_answer() -> None:
    unknown = ScoutRecord("spontaneous", "passed", True, False, 2)
    found = localize.study(own(ranked(True, gold=1), unknown, ranked(False, gold=1), languages={"t0": "Go"}))
    assert (found.tasks, found.unknown) == (2, 1)
    assert [one.name for one in found.groups if one.by == "language"] == ["Go", "unknown"]
    assert any("1 handoffs are left out" in note for note in localize_report.report(found).notes)
    with pytest.raises(StudyError, match="--tasks FILE"):
        localize.study(own(unknown))


def test_json_of_the_command(small_paper: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scrout", "study", "localize", "--data", str(small_paper), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout, parse_constant=pytest.fail)["tasks"] == 24


@needs_data
def test_as_the_paper_prints_it() -> None:
    paper = Paper(DATA)
    found = localize.study(paper)
    names = {"overall": "all (spontaneous and forced pooled)", "unsolved": "not solved"}
    for name, printed in paper.published["localization"]["rows"].items():
        ours = group(found, names.get(name, name))
        assert ours.tasks == printed["n"]
        assert ours.recall.value == pytest.approx(printed["recall"], abs=0.00051)
        assert ours.precision.value == pytest.approx(printed["precision"], abs=0.00051)
        assert 100 * ours.all_gold.value == pytest.approx(printed["all_gold_pct"], abs=0.051)
