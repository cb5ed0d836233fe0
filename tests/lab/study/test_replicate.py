"""Published cells beside recomputed ones: by hand on a small folder, and every one of the paper's on its receipts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scrout.base import StudyError
from scrout.lab.study import replicate, replicate_report
from scrout.lab.study.figures import drawn
from scrout.lab.study.replicate import PublishedCell, ReceiptValue, Replication, cells
from scrout.lab.study.replicate_records import judge
from scrout.lab.study.replicate_tables import by_name
from scrout.lab.study.report import Figure, ReportTable
from scrout.lab.study.sources.benchmark import ArmOutcomes, Benchmark, ScoutRecord
from scrout.lab.study.sources.paper import KIMI, OPUS, Paper
from scrout.lab.study.sources.source import Own
from scrout.records import Arm

DATA = Path(__file__).parents[3].parent / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"the paper's files are not at {DATA}")
SHARED = 5.13


def publish(folder: Path, **tables: Any) -> None:
    (folder / "published.json").write_text(json.dumps(tables))


def cell(found: Replication, table: str, name: str) -> PublishedCell:
    (one,) = (each for each in found.cells if (each.table, each.name) == (table, name))
    return one


def test_a_cell_agrees_if_ours_rounds_to_it() -> None:
    said = {("t", "rows", "a", "x"): ReceiptValue(0.1374), ("t", "rows", "b", "x"): ReceiptValue(0.1386)}
    first, second = cells({"t": {"backed": True, "rows": {"a": {"x": 0.137}, "b": {"x": 0.137}}}}, said)
    assert (first.name, first.status, first.digits) == ("a, x", "agrees", 3)
    assert second.status == "differs"


def test_whole_numbers_are_counts_or_rounded_to_be() -> None:
    said = {("t", "share"): ReceiptValue(22.3), ("t", "count"): ReceiptValue(23)}
    share, count = cells({"t": {"share": 22, "count": 22}}, said)
    assert (share.status, count.status) == ("agrees", "differs")


def test_an_end_of_a_bootstrap_may_be_off_by_a_task() -> None:
    published = {"t": {"ci": [0.0, 10.1]}}
    near = {("t", "ci", "low"): ReceiptValue(-1.01, slack=1.01), ("t", "ci", "high"): ReceiptValue(12.2, slack=1.01)}
    assert [one.status for one in cells(published, near)] == ["agrees", "differs"]


def test_a_list_goes_by_the_columns_of_its_table() -> None:
    published = {"caps": {"columns": ["A", "B"], "hits": [1, None]}, "plain": {"n": 3, "flag": True, "word": "x"}}
    found = cells(published, {("caps", "hits", "A"): ReceiptValue(2, otherwise="contradicted", note="of another kind")})
    assert [(one.table, one.name, one.status) for one in found] == [
        ("caps", "hits, A", "contradicted"),
        ("plain", "n", "not backed"),
    ]
    assert found[0].note == "of another kind" and found[1].ours is None


def test_ways_as_counted_by_hand(small_paper: Path) -> None:
    found = replicate.study(Paper(small_paper))
    ways = by_name(found.tables.ways)
    assert {name: way.solves for name, way in ways.items()} == {
        "Kimi K2.5 solo": 12,
        "GPT-5.2 solo": 6,
        "Claude Opus 4.6 solo": 16,
        "Kimi K2.5 with handoff": 14,
        "router": 14,
    }
    handed, router = ways["Kimi K2.5 with handoff"], ways["router"]
    assert handed.usd_task and handed.usd_task.value == pytest.approx(0.12 + SHARED / 24)
    assert router.usd_task and router.usd_task.value == pytest.approx((23 * 0.12 + 0.4 + SHARED) / 24)
    assert router.usd_solve and router.usd_solve.value == pytest.approx((23 * 0.12 + 0.4 + SHARED) / 14)
    # The mixing line runs from Kimi (0.1, 1/2) to Opus at list price (1.0, 2/3); GPT-5.2 lies below it.
    at = 0.12 + SHARED / 24
    assert handed.over_mix and handed.over_mix.value == pytest.approx(14 / 24 - (0.5 + (at - 0.1) / 0.9 / 6))
    assert ways["Kimi K2.5 solo"].over_mix is None
    assert any("Claude Opus 4.6 with handoff is left out" in note for note in found.tables.notes)


def test_gaps_of_the_sweep_are_filled_by_the_papers_rule(small_paper: Path) -> None:
    rows = {
        "0.30": {"solves": 14},
        "0.60": {"solves": [1, 24], "usd_per_task": round((0.4 + 23 * 0.5 + SHARED) / 24, 3)},
    }
    publish(small_paper, theta_sweep={"rows": rows})
    found = replicate.study(Paper(small_paper))
    assert found.receipts
    low, high = found.receipts.sweep
    assert low.split[KIMI] == 24 and low.unmeasured == 0
    # All reach no threshold and go to Opus, which was run with the handoff on one task.
    assert high.split[OPUS] == 24 and high.unmeasured == 23
    assert high.solves == 1 + 16
    assert high.usd_task_priced == pytest.approx((0.4 + 23 * 0.5 + SHARED) / 24)
    assert [one.status for one in found.cells] == ["agrees"] * 4


def test_the_scout_and_the_caps_as_counted_by_hand(small_paper: Path) -> None:
    found = replicate.study(Paper(small_paper)).tables
    overall = next(one for one in found.located if one.group == "overall")
    assert (overall.n, overall.recall.value) == (24, pytest.approx(2 / 3))
    assert overall.all_gold.value == pytest.approx(1 / 3)
    groups = {
        one.group: (one.n, one.claiming, one.genuine and round(one.genuine.value * one.n)) for one in found.claims
    }
    assert groups == {"overall": (24, 24, 6), "spontaneous": (18, 18, 5), "forced": (6, 6, 1)}
    kimi = next(one for one in found.attempts if (one.fixer, one.arm) == (KIMI, "solo"))
    assert (kimi.at_cap, kimi.solved_at_cap, kimi.solved) == (8, 4, 12)
    assert kimi.usd == pytest.approx(2.4)


def test_a_cell_that_differs_fails_the_command_and_is_named(small_paper: Path) -> None:
    row = {"solves": 13, "rate_pct": 50.0, "usd_per_task": 0.1}
    publish(small_paper, main_results={"n": 24, "rows": {"Kimi K2.5 solo": row}}, decoding={"n": 450})
    command = [sys.executable, "-m", "scrout", "study", "replicate", "--data", str(small_paper), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "differs: main_results, Kimi K2.5 solo, solves: ours 12, published 13" in done.stderr
    document = json.loads(done.stdout)
    assert Counter(one["status"] for one in document["cells"]) == {"agrees": 3, "differs": 1, "not backed": 1}
    assert "NaN" not in done.stdout


def test_what_is_not_in_the_folder_is_said(small_paper: Path) -> None:
    found = replicate.study(Paper(small_paper))
    assert found.receipts and found.receipts.absent == ("Verified", "Multilingual", "Pro", "records")
    shown = replicate_report.report(found)
    assert any("Not in the folder: Multilingual" in note for note in shown.notes)
    assert not shown.failed
    (small_paper / "published.json").unlink()
    without = replicate.study(Paper(small_paper))
    assert without.cells == () and without.tables == found.tables


def own(arms: dict[Arm, ArmOutcomes], scouted: dict[str, ScoutRecord] | None = None, tasks: int = 30) -> Own:
    ids = tuple(f"t{number}" for number in range(tasks))
    names = tuple(f"repo{number % 3}" for number in range(tasks))
    return Own(Benchmark("own runs", "batch b", ids, names, arms, scouted=scouted or {}), "grade")


def played(tasks: int = 30, **solved: Callable[[int], bool]) -> ArmOutcomes:
    """Fixers at 5 cents an attempt, by which tasks they solve."""
    columns = np.array([[solves(task) for solves in solved.values()] for task in range(tasks)])
    ones = np.ones(columns.shape)
    return ArmOutcomes(tuple(solved), ones.astype(bool), columns, 0.05 * ones, 10 * ones)


def test_the_same_tables_of_own_runs() -> None:
    scouted = {
        f"t{number}": ScoutRecord("spontaneous", "passed", True, False, 1, 1, 1.0, 1.0, 1.0) for number in range(30)
    }
    found = replicate.study(
        own(
            {
                "solo": played(a=lambda task: task < 10, b=lambda task: task < 20),
                "handoff": played(a=lambda task: task < 18, b=lambda task: task < 20),
            },
            scouted,
        )
    )
    assert found.cells == () and found.receipts is None
    effects = {one.fixer: (one.paired.gained, one.paired.lost, one.paired.tasks) for one in found.tables.effects}
    assert effects == {"a": (8, 0, 30), "b": (0, 0, 30), "pooled": (8, 0, 30)}
    (pair,) = found.tables.pairs
    assert (pair.first, pair.second, pair.paired.gained) == ("a", "b", 10)
    shown = replicate_report.report(found)
    titles = [part.title for part in shown.parts]
    assert "Main results" in titles and "Published cells" not in titles
    assert any("it is clear for a." in line for line in shown.findings)
    for part in shown.parts:
        if isinstance(part, Figure):
            assert drawn(part, "svg").startswith(b"<?xml")


def test_own_runs_of_one_arm_say_what_they_lack() -> None:
    shown = replicate_report.report(replicate.study(own({"handoff": played(a=lambda task: task < 10)})))
    assert any("No two fixers alone" in note for note in shown.notes)
    assert any("No replayed claims" in note for note in shown.notes)
    (way,) = (part for part in shown.parts if isinstance(part, ReportTable) and part.title == "Main results")
    assert way.rows[0][:2] == ["a with handoff", "10 of 30"]


def test_a_way_that_few_tasks_were_tried_with_is_left_out() -> None:
    few = played(a=lambda task: True, b=lambda task: True)
    few.measured[5:, 1] = False
    found = replicate.study(own({"solo": few})).tables
    assert [(way.name, way.tasks) for way in found.ways] == [("a solo", 30)]
    assert found.notes == ("b solo is left out of the main table: 5 of 30 tasks tried.",)


def test_unknown_costs_are_no_costs() -> None:
    free = played(a=lambda task: task < 3)
    free.cost[:] = np.nan
    (way,) = replicate.study(own({"solo": free})).tables.ways
    assert way.usd_task is None and way.usd_solve is None
    assert "nan" not in replicate.study(own({"solo": free})).model_dump_json().lower()


def test_nothing_at_all_is_refused() -> None:
    with pytest.raises(StudyError, match="neither an outcome nor a handoff"):
        replicate.study(own({}))


def record(text: str, **verify: object) -> dict[str, object]:
    return {
        **{"task_id": "instance_a__b-0123456789", "failure_class": "real_failure", "handoff_text": text},
        "verify": {"verified": True, **verify},
    }


@pytest.mark.parametrize(
    ("command", "code", "output", "verdict", "fate"),
    [
        ("python x.py", 1, "python: can't open file 'x.py': [Errno 2] No such file", "missing_file", "another class"),
        ("python x.py", -1, "", "timeout", "another class"),
        ("python x.py", 0, "fine", "passed", "another class"),
        ("python x.py | grep wrong", 1, "", "nonzero_other", "another class"),
        ("python x.py | tail", 0, "something", None, "open"),
        ("rm y && python x.py", 1, "", None, "open"),
    ],
)
def test_a_released_record_is_judged_by_our_rules(
    command: str, code: int, output: str, verdict: str | None, fate: str
) -> None:
    text = f"<files>\nb/a.py\n</files>\n<repro>\ncommand: {command}\nreproduced: true\nobserved: x\n</repro>\nSTOP"
    found = judge(record(text, returncode=code, output_tail=output))
    assert (found.verdict, found.fate, found.task) == (verdict, fate, "b-01234567")
    assert found.kept is not True


def test_a_record_without_its_verification_is_refused() -> None:
    with pytest.raises(StudyError, match="a__b-1 lacks `verify`"):
        judge({"task_id": "a__b-1", "handoff_text": ""})


@needs_data
def test_every_backed_cell_of_the_paper_agrees() -> None:
    found = replicate.study(Paper(DATA))
    shown = replicate_report.report(found)
    assert shown.failed == []
    counts = Counter(one.status for one in found.cells)
    assert (counts["agrees"], counts["contradicted"]) == (207, 12)
    by_table = {one.table for one in found.cells if one.status == "agrees"}
    assert by_table == {
        *("main_results", "paired_anchors", "theta_sweep", "gate_probability", "localization", "verify_census", "caps"),
        *("redistribution", "bench_versus_fresh", "handoff_on_routed", "audit", "spend_usd"),
    }
    contradicted = {one.name: one.ours for one in found.cells if one.status == "contradicted"}
    assert contradicted["hit_2usd_cap, Claude Opus 4.6"] == 6
    assert contradicted["evaluation, system arm"] == pytest.approx(90.09, abs=0.005)
    assert contradicted["pooled, ci, low"] == pytest.approx(-2.3, abs=1.1)
    priced = [round(row.usd_task_priced, 3) for row in (found.receipts.sweep if found.receipts else ())]
    assert priced[2:] == [0.171, 0.210, 0.367]
    assert Counter(one.fate for one in found.regated) == {"same class": 10, "another class": 7, "open": 7}
    assert sum(one.release_kept and one.kept is False for one in found.regated) == 12


@needs_data
def test_flipped_outcomes_fail_the_cells_that_rest_on_them_and_no_other(tmp_path: Path) -> None:
    labels = (DATA / "labelrun/outcomes.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in labels]
    solved = {(row["task_id"], row["fixer"], row["arm"]): row["solved"] for row in rows}
    # One that Opus solves both alone and with the handoff is lost with it.
    lost = next(task for task, fixer, arm in solved if fixer == OPUS and arm == "handoff" and _both(solved, task))
    for row in rows:
        if (row["task_id"], row["fixer"], row["arm"]) == (lost, OPUS, "handoff"):
            row["solved"] = False
    receipts = json.loads((DATA / "receipts/outcomes_per_task.json").read_text())
    routing = json.loads((DATA / "receipts/routing_scenarios.json").read_text())["probability_vectors"]
    # One that GPT-5.2 and Opus solve, and that no threshold takes from Kimi, is no longer solved by GPT-5.2.
    task = next(
        task
        for task, row in receipts["solo"].items()
        if row["gpt"]["resolved"] and row["opus"]["resolved"] and row["gpt"]["steps"] < 50
        if routing[task]["kimi-k2-5"]["p_blend"] > 0.5
    )
    receipts["solo"][task]["gpt"]["resolved"] = False
    changed = {
        "receipts/outcomes_per_task.json": json.dumps(receipts),
        "labelrun/outcomes.jsonl": "".join(json.dumps(row) + "\n" for row in rows),
    }
    folder = _beside(tmp_path, changed)
    shown = replicate_report.report(replicate.study(Paper(folder)))
    failed = {line.partition(": ours")[0] for line in shown.failed}
    assert failed == {
        *(f"main_results, GPT-5.2 solo, {column}" for column in ("solves", "rate_pct", "usd_per_solve")),
        *(f"paired_anchors, {column}" for column in ("opus_only", "mcnemar_p", "delta_points")),
        *(f"redistribution, {OPUS}, {column}" for column in ("handoff", "delta", "c", "p")),
        *(f"redistribution, pooled, {column}" for column in ("handoff", "delta", "c", "p")),
    }


def _both(solved: dict[tuple[str, str, str], bool], task: str) -> bool:
    return solved[task, OPUS, "solo"] and solved[task, OPUS, "handoff"]


def _beside(folder: Path, changed: dict[str, str]) -> Path:
    """A folder with links to the paper's files, but for those that are changed."""
    copy = folder / "copy"
    for path in DATA.rglob("*"):
        name = path.relative_to(DATA)
        if path.is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            if str(name) in changed:
                (copy / name).write_text(changed[str(name)])
            else:
                (copy / name).symlink_to(path)
    return copy
