"""What a pool leaves to a router: figures by hand, routers where there is something to win, and the paper's columns."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from math import comb
from pathlib import Path

import numpy as np
import pytest

from scrout.base import StudyError
from scrout.lab.study import audit, audit_report
from scrout.lab.study.audit import FAMILIES, Routed, overlap, routed, spread
from scrout.lab.study.figures import drawn
from scrout.lab.study.report import Figure
from scrout.lab.study.sources.benchmark import ArmOutcomes, Benchmark
from scrout.lab.study.sources.paper import Paper
from scrout.lab.study.sources.source import Own
from scrout.records import Arm

DATA = Path(__file__).parents[3].parent / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"the paper's files are not at {DATA}")

Solves = Callable[[int], bool]


def played(tasks: int, fixers: Mapping[str, Solves]) -> ArmOutcomes:
    resolved = np.array([[solves(task) for solves in fixers.values()] for task in range(tasks)])
    nothing = np.full(resolved.shape, np.nan)
    return ArmOutcomes(tuple(fixers), np.ones(resolved.shape, dtype=bool), resolved, nothing, nothing)


def benchmark(tasks: int, arms: Mapping[Arm, ArmOutcomes], *, texts: bool = True) -> Benchmark:
    """Tasks of ten repositories, which their texts name; every other one is in Go and speaks of other things."""
    ids = tuple(f"t{number}" for number in range(tasks))
    in_go = [number % 2 == 1 for number in range(tasks)]
    places = [f"{'abcdefghij'[number % 10] * 4} module" for number in range(tasks)]
    words = {True: "goroutine channel deadlock in the scheduler", False: "dataframe column index raises KeyError"}
    return Benchmark(
        name="tasks",
        source="batch b",
        ids=ids,
        repositories=tuple(f"repo{number % 10}" for number in range(tasks)),
        arms=arms,
        languages={task: "Go" if go else "Python" for task, go in zip(ids, in_go, strict=True)},
        texts={task: f"{words[go]} {place}" for task, go, place in zip(ids, in_go, places, strict=True)}
        if texts
        else {},
    )


def test_figures_by_hand() -> None:
    # a solves 0-5, b 4-7, c 0-1: pairs share 2 of 4, 2 of 2, 0 of 2.
    found = overlap("by hand", played(10, {"a": lambda n: n < 6, "b": lambda n: 4 <= n < 8, "c": lambda n: n < 2}))
    assert (found.best_fixer, found.best, found.n) == ("a", 0.6, 10)
    assert found.containment == pytest.approx((0.5 + 1 + 0) / 3)
    # Some but not all: 0-7. Exactly one: 2, 3 and 6, 7.
    assert found.shell == pytest.approx(4 / 8)
    assert found.any == pytest.approx(0.8)


def test_a_pool_that_agrees_everywhere_has_no_shell() -> None:
    pool = played(30, {"a": lambda n: n < 6, "b": lambda n: n < 6})
    found, sampled = overlap("same", pool), spread(pool)
    assert (found.containment, found.shell) == (1.0, None)
    assert sampled.shell is None and sampled.containment and sampled.containment.low == pytest.approx(1.0)


def test_a_fixer_that_solves_nothing_is_contained_in_nobody() -> None:
    found = overlap("none", played(5, {"a": lambda n: True, "b": lambda n: False}))
    assert found.containment is None and found.shell == 1.0


def test_intervals_hold_the_figures() -> None:
    pool = played(200, {"a": lambda n: n % 3 > 0, "b": lambda n: n % 5 > 1, "c": lambda n: n % 2 == 0})
    found, sampled = overlap("", pool), spread(pool)
    assert sampled.best.low < found.best < sampled.best.high
    assert sampled.containment and found.containment
    assert sampled.containment.low < found.containment < sampled.containment.high
    assert sampled.shell and found.shell and sampled.shell.low < found.shell < sampled.shell.high


def test_a_pool_of_one_is_refused() -> None:
    with pytest.raises(StudyError, match=r"a pool of 1 \(a\) leaves nothing to compare. Add outcomes"):
        overlap("one", played(5, {"a": lambda n: True}))
    alone = Own(benchmark(5, {"solo": played(5, {"a": lambda n: True})}), "grade")
    with pytest.raises(StudyError, match=r"batch b: no arm has two fixers \(solo: a\).* Run the same tasks"):
        audit.study(alone)


def test_fixers_that_share_no_task_are_named() -> None:
    apart = played(4, {"a": lambda n: True, "b": lambda n: True})
    apart.measured[:2, 0] = apart.measured[2:, 1] = False
    with pytest.raises(StudyError, match="no task was tried by all of a, b"):
        audit.study(Own(benchmark(4, {"solo": apart}), "grade"))


def test_routers_find_what_there_is_to_win() -> None:
    """One fixer solves Python and the other Go, but for every seventh task: language and words tell which."""
    knows = {"python": lambda n: n % 2 == 0 and n % 7 > 0, "go": lambda n: n % 2 == 1 and n % 7 > 0}
    found = routed(benchmark(100, {"solo": played(100, knows)}), ("python", "go"))
    assert isinstance(found, Routed)
    ways = {family.name: family for family in found.families}
    able = sum(n % 7 > 0 for n in range(100)) / 100
    for name in FAMILIES:
        assert ways[name].rate == pytest.approx(able), name
        assert ways[name].beside_best.lost == 0
        assert (ways[name].p_holm or 0) < 0.001
    without = ways["no router: the best of the other folds"]
    assert without.rate < 0.6 and without.p_holm is None


def test_routers_do_not_see_the_tasks_they_are_measured_on() -> None:
    """Who solves a task hangs on its repository alone, and a repository is never on both sides."""
    lucky = {"even": lambda n: n % 10 in (0, 2, 4), "odd": lambda n: n % 10 in (6, 8)}
    found = routed(benchmark(100, {"solo": played(100, lucky)}), ("even", "odd"))
    assert isinstance(found, Routed)
    assert found.leader.beside_best.change.value <= 0


def test_too_little_to_learn_from_is_said() -> None:
    two = {"a": lambda n: n % 2 == 0, "b": lambda n: n % 3 == 0}
    assert "no texts" in str(routed(benchmark(50, {"solo": played(50, two)}, texts=False), ("a", "b")))
    assert "12 tasks of 10 repositories" in str(routed(benchmark(12, {"solo": played(12, two)}), ("a", "b")))


def test_own_runs_with_five_fixers_in_two_arms() -> None:
    five: dict[str, Solves] = {f"f{step}": (lambda n, step=step: n % step > 0) for step in range(2, 7)}
    arms: dict[Arm, ArmOutcomes] = {
        "solo": played(60, five),
        "handoff": played(60, {"f2": five["f2"], "routed": five["f3"]}),
    }
    found = audit.study(Own(benchmark(60, arms), "grade"))
    assert [one.benchmark for one in found.published] == ["tasks, solo"]
    assert found.published[0].best == pytest.approx(50 / 60)
    (pools,) = found.pools
    assert (pools.pools, len(pools.each), pools.below_published) == (comb(5, 4), 5, None)
    shown = audit_report.report(found)
    assert any(line.startswith("tasks, solo (60 tasks): best 0.833") for line in shown.findings)
    assert [part.name for part in shown.parts if isinstance(part, Figure)] == ["audit-pools"]
    for part in shown.parts:
        if isinstance(part, Figure):
            assert drawn(part, "svg").startswith(b"<?xml")


def test_own_pools_without_a_task_or_a_solve_are_left_out() -> None:
    five = played(40, {f"f{number}": lambda n: n % 2 == 0 for number in range(5)})
    found = audit.study(Own(benchmark(40, {"solo": five}), "grade"))
    assert found.pools == () and any("no pool of 4 whose fixers" in note for note in found.notes)
    mixed = played(40, {f"f{step}": (lambda n, step=step: n % step > 0) for step in range(2, 7)})
    mixed.measured[1:, 0] = False  # only one task has all five
    (pools,) = audit.study(Own(benchmark(40, {"solo": mixed}), "grade")).pools
    assert (pools.pools, pools.fewest_tasks) == (5, 1)


def test_the_command_on_a_folder_without_public_tables(small_paper: Path) -> None:
    command = [sys.executable, "-m", "scrout", "study", "audit", "--data", str(small_paper), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["published"] == []
    assert [one["benchmark"] for one in document["others"]][:2] == ["label run", "label run, with handoff"]
    assert "Verified: its outcomes are not in the folder." in document["notes"]
    assert "NaN" not in done.stdout


def test_a_folder_without_any_outcome_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"verified_mini_swe_agent\.csv\.gz is not there.*docs/research/studies\.md"):
        audit.study(Paper(tmp_path))


@needs_data
def test_the_published_columns_and_every_pool_of_four() -> None:
    found = audit.study(Paper(DATA))
    columns = [
        (one.benchmark, one.n, round(one.best, 3), round(one.containment or 0, 3), round(100 * (one.shell or 0), 1))
        for one in found.published
    ]
    assert columns == [
        ("Verified", 500, 0.768, 0.941, 21.5),
        ("Multilingual", 296, 0.726, 0.912, 20.8),
        ("Pro", 561, 0.449, 0.773, 30.8),
    ]
    assert [(one.benchmark, one.pools) for one in found.pools] == [
        ("Verified", comb(12, 4)),
        ("Multilingual", comb(13, 4)),
        ("Pro", comb(9, 4)),
    ]
    for one, pools in zip(found.published, found.pools, strict=True):
        (same,) = (each for each in pools.each if set(each.fixers) == set(one.fixers))
        assert (same.n, same.shell) == (one.n, one.shell) and same.containment == pytest.approx(one.containment)
    assert [one.benchmark for one in found.routers] == ["Verified", "Multilingual", "label run"]
    for one in found.routers:
        assert {family.name for family in one.families} > set(FAMILIES)
        # As in the paper: none is clearly better than the best model.
        assert not any(family.p_holm is not None and family.beside_best.change.low > 0 for family in one.families)
    assert any(note.startswith("Pro: no texts") for note in found.notes)
    shown = audit_report.report(found)
    assert any("best 0.768, containment 0.941, unique-solver shell 21.5%" in line for line in shown.findings)
