"""Where the money went: counted by hand, on one's own runs, and beside what the paper prints."""

from __future__ import annotations

import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from scrout.base import StudyError
from scrout.batch.outputs.results import Costs
from scrout.lab.study import spend, spend_report
from scrout.lab.study.sources.benchmark import ArmOutcomes, Benchmark
from scrout.lab.study.sources.paper import Paper
from scrout.lab.study.sources.source import Own
from scrout.lab.study.spend import Payback, SpendStudy
from scrout.records import Arm

DATA = Path(__file__).parents[3].parent / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"the paper's files are not at {DATA}")


def played(*usd: float) -> ArmOutcomes:
    """One fixer that solves every task but the first; nan: the cost is unknown."""
    cost = np.array([[one] for one in usd])
    solved = np.arange(len(usd))[:, None] > 0
    return ArmOutcomes(("a",), np.ones(cost.shape, dtype=bool), solved, cost, np.full(cost.shape, np.nan))


def own(arms: dict[Arm, ArmOutcomes]) -> Own:
    ids = tuple(f"t{number}" for number in range(3))
    paid = {"scout": Decimal("0.3"), "fix": Decimal("2")}
    costs = Costs(
        **{"by_component": {"scout": Decimal("0.3"), "fix": Decimal(2)}, "known_usd": Decimal("2.3")},
        **{"lost_usd": Decimal("0.2"), "estimated_usd": Decimal(0)},
        **{"calls": 7, "unpriced_calls": 1, "estimated_calls": 0},
    )
    return Own(Benchmark("own runs", "batch b", ids, ids, arms, paid=paid), "check", {"handoff/a": costs})


def payback(found: SpendStudy, system: str, anchor: str) -> Payback:
    (one,) = (each for each in found.paybacks if (each.system, each.anchor) == (system, anchor))
    return one


def test_arms_as_counted_by_hand(small_paper: Path) -> None:
    found = spend.study(Paper(small_paper))
    kimi = next(arm for arm in found.arms if (arm.fixer, arm.arm) == ("Kimi K2.5", "solo"))
    assert (kimi.usd, kimi.other_usd, kimi.published) == (Decimal("2.4"), Decimal("4.8"), 2.4)
    assert kimi.a_solve and kimi.a_solve.value == pytest.approx(0.2)
    handed, shared, labels = found.components
    assert handed.usd == Decimal("3.28") and handed.published == 3.0  # 24 x 0.12 and 0.40
    assert shared.usd == Decimal("5.13")
    assert labels.usd == Decimal("20")  # 10 tasks x 2 arms x (0.1 + 0.2 + 0.3 + 0.4)
    assert any("$3.28, printed is $3.00" in line for line in spend_report.report(found).findings)


def test_what_is_paid_once_comes_back_by_the_saving(small_paper: Path) -> None:
    found = spend.study(Paper(small_paper))
    constant = payback(found, "Kimi K2.5 with handoff", "Claude Opus 4.6 alone")
    saving = 1.0 - 0.12 - 5.13 / 24  # Opus alone is at litellm's prices
    assert constant.saving.value == pytest.approx(saving)
    assert constant.once_usd == 10 and constant.pays_after == int(np.ceil(10 / saving))
    routed = payback(found, "routed", "Claude Opus 4.6 alone")
    assert routed.once_usd == 50 and routed.pays_after_low and routed.pays_after and routed.pays_after_high
    assert routed.pays_after_low <= routed.pays_after <= routed.pays_after_high
    loss = payback(found, "routed", "Kimi K2.5 alone")
    assert loss.saving.high < 0 and loss.pays_after is None
    cheapest = payback(found, "Kimi K2.5 alone", "Claude Opus 4.6 alone")
    assert cheapest.once_usd == 0 and cheapest.pays_after == 0


def test_own_runs_with_unknown_costs() -> None:
    found = spend.study(own({"solo": played(0.5, 0.7, float("nan")), "handoff": played(0.2, 0.2, 0.2)}))
    solo = next(arm for arm in found.arms if arm.arm == "solo")
    assert (solo.tasks, solo.unknown, solo.usd) == (2, 1, Decimal("1.2"))
    one = payback(found, "a with handoff", "a alone")
    assert one.tasks == 2 and one.saving.value == pytest.approx(0.4) and one.once_usd is None
    assert one.solves is None  # the check does not judge both alike
    assert [(item.name, item.usd) for item in found.components] == [("scout", Decimal("0.3")), ("fix", Decimal(2))]
    findings = spend_report.report(found).findings
    assert any("7 calls" in line for line in findings) and any("no known price" in line for line in findings)
    json.loads(found.model_dump_json(), parse_constant=pytest.fail)


def test_without_any_cost_there_is_nothing_to_say() -> None:
    nothing = played(float("nan"), float("nan"), float("nan"))
    with pytest.raises(StudyError, match="no cost is known"):
        spend.study(own({"solo": nothing}))


def test_json_of_the_command(small_paper: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scrout", "study", "spend", "--data", str(small_paper), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(json.loads(done.stdout, parse_constant=pytest.fail)["once"]) == 3


@needs_data
def test_beside_what_the_paper_prints() -> None:
    paper = Paper(DATA)
    found = spend.study(paper)
    printed = [arm for arm in found.arms if arm.published is not None]
    assert len(printed) == 3
    assert all(float(arm.usd) == pytest.approx(arm.published, abs=0.0051) for arm in printed)
    handed = found.components[0]
    assert round(handed.usd, 2) == Decimal("90.09") and handed.published == 86.49
    opus = payback(found, "routed", "Claude Opus 4.6 alone")
    spent = paper.published["spend_usd"]
    assert opus.saving.value == pytest.approx(spent["saving_per_task"], abs=0.0051)
    assert opus.pays_after == pytest.approx(spent["amortizes_in_tasks"], abs=5)
    assert opus.once_usd == spent["one_off_total"]
