"""Where the money went, and over how many tasks what was paid once comes back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, get_args

import numpy as np

from scrout.base import FrozenModel, StudyError
from scrout.batch.jobs import ROUTED
from scrout.intervals import Estimate
from scrout.lab.study.sources.benchmark import ArmOutcomes, Benchmark, FixerOutcomes
from scrout.lab.study.sources.paper import GPT, KIMI, OPUS, SHARED_USD, Paper, Prices
from scrout.lab.study.sources.source import Own, Source
from scrout.lab.study.stats import bootstraps, mean_of, ratio_of
from scrout.money import Usd
from scrout.records import Arm
from scrout.text import usd

MICRO = Decimal("0.000001")
_PRINTED = {("solo", GPT): "GPT-5.2 solo", ("solo", OPUS): "Opus 4.6 solo", ("solo", KIMI): "Kimi K2.5 solo"}
"""Rows of the published table of spend, by what the receipts tell of it."""


class ArmSpend(FrozenModel):
    """What one fixer's attempts in one arm came to."""

    benchmark: str
    arm: Arm
    fixer: str
    tasks: int
    """With a known cost."""
    unknown: int
    """Attempts whose cost is not known: they are in no figure."""
    usd: Usd
    other_usd: Usd | None
    """At the other price list of the receipts; None: there is none, it lacks a cost, or it comes to the same."""
    a_task: Estimate
    a_solve: Estimate | None
    """None: nothing was solved."""
    published: float | None
    """The total that is printed; None: none is."""


class Item(FrozenModel):
    """An amount by its name."""

    name: str
    usd: Usd
    published: float | None = None
    """None: nothing is printed of it."""


class Booked(FrozenModel):
    """What the ledger says of an arm of one's own runs, those included that do not count."""

    arm: str
    usd: Usd
    """Of calls with a known price."""
    calls: int
    unpriced_calls: int
    """While there are any, the true cost is unknown."""
    lost_usd: Usd
    """For steps that came to nothing."""
    estimated_usd: Usd
    """Booked at the reserve, because nobody said what the call had cost."""


class Payback(FrozenModel):
    """A system beside a fixer alone."""

    system: str
    anchor: str
    tasks: int
    """On which both have a known cost."""
    usd: float
    """The system's dollars a task, without what is paid once."""
    saving: Estimate
    """Dollars a task; negative: it costs more."""
    solves: Estimate | None
    """The system's solve rate less the anchor's; None: they are not judged alike."""
    once_usd: Usd | None
    """Paid once; None: not known."""
    pays_after: int | None
    """Tasks; None: it never does, or nothing is known to be paid once."""
    pays_after_low: int | None
    """With the largest saving of the interval."""
    pays_after_high: int | None
    """With the smallest; None: that is no saving."""


class SpendStudy(FrozenModel):
    arms: tuple[ArmSpend, ...]
    components: tuple[Item, ...]
    """Where it went, by part of the system; empty: not known."""
    once: tuple[Item, ...]
    """Paid once, before the first task."""
    booked: tuple[Booked, ...]
    """Empty: there is no ledger."""
    paybacks: tuple[Payback, ...]
    notes: tuple[str, ...]


def study(source: Source) -> SpendStudy:
    """Of the paper's evaluation and label run, or of one's own runs."""
    return _paper(source) if isinstance(source, Paper) else _own(source)


def _paper(paper: Paper) -> SpendStudy:
    published = paper.published.get("spend_usd", {})
    printed, labelling = published.get("evaluation", {}), published.get("label_run", {})
    evaluation = _arms(paper.evaluation, [paper.evaluation_at(prices) for prices in get_args(Prices)], printed)
    label_run = _arms(paper.label_run, [], {})
    handed = [arm for arm in evaluation if arm.arm == "handoff"]
    once = [Item(name=name, usd=_usd(float(amount))) for name, amount in published.get("training", {}).items()]
    once += [Item(name=_LABELS, usd=_usd(float(labelling["total"])))] if "total" in labelling else []
    return SpendStudy(
        arms=(*evaluation, *label_run),
        components=(
            Item(name="fixers with handoff, every pair", usd=_sum(handed), published=printed.get("system arm")),
            Item(name="searcher and sandbox, shared", usd=_usd(SHARED_USD)),
            Item(name="fixers of the label run", usd=_sum(label_run), published=labelling.get("fixer API")),
        ),
        once=tuple(once),
        booked=(),
        paybacks=tuple(_paper_paybacks(paper, once)),
        notes=(
            "Solo rows of GPT-5.2 and Opus are at litellm's prices, all others at what providers charged.",
            f"Searcher and sandbox of the evaluation, {usd(SHARED_USD)}, and what was paid once are as printed: no "
            "receipt has them, but for the label run's fixers. The former is spread over the tasks of each system.",
            "A system without a router needs no label run.",
            "Paying back counts dollars alone: where solve rates differ, the two do not buy the same.",
        ),
    )


def _own(own: Own) -> SpendStudy:
    benchmark = own.benchmark
    return SpendStudy(
        arms=tuple(_arms(benchmark, [], {})),
        components=tuple(Item(name=name, usd=usd) for name, usd in benchmark.paid.items()),
        once=(),
        booked=tuple(
            Booked(
                arm=label,
                usd=costs.known_usd,
                calls=costs.calls,
                unpriced_calls=costs.unpriced_calls,
                lost_usd=costs.lost_usd,
                estimated_usd=costs.estimated_usd,
            )
            for label, costs in own.costs.items()
        ),
        paybacks=tuple(_own_paybacks(own)),
        notes=(
            *(() if own.judged_by == "grade" else (_BY_CHECK,)),
            "Dollars a task are of runs that count, with the scouting that they used, whoever paid for it; components "
            "are of all that was paid, each cent once.",
            "Nothing is known of what was paid once, such as training a searcher, so savings stand without it.",
        ),
    )


_LABELS = "label run"
_BY_CHECK = (
    "Solves are those of the check, which passes no patch without a verified reproduction; runs alone have none, so "
    "solve rates are not compared. Grade the batch: scrout batch grade DIR --tasks FILE"
)


def _arms(
    benchmark: Benchmark, lists: Sequence[Mapping[Arm, ArmOutcomes]], printed: Mapping[str, Any]
) -> list[ArmSpend]:
    found = []
    for arm, outcomes in benchmark.arms.items():
        for one in outcomes.each():
            known = one.measured & np.isfinite(one.cost)
            if known.any():
                cost, solved = one.cost[known], one.resolved[known]
                total = math.fsum(cost)
                listed = [math.fsum(prices[arm].of(one.name).cost[known]) for prices in lists]
                each = bootstraps(len(cost), {"task": mean_of(cost), "solve": ratio_of(cost, solved)})
                found.append(
                    ArmSpend(
                        benchmark=benchmark.name,
                        arm=arm,
                        fixer=one.name,
                        tasks=len(cost),
                        unknown=int((one.measured & ~known).sum()),
                        usd=_usd(total),
                        # Where the other list differs by a cent, as one that is not known of each task never does.
                        other_usd=next((_usd(other) for other in listed if abs(other - total) >= 0.01), None),
                        a_task=each["task"],
                        a_solve=each["solve"] if solved.any() else None,
                        published=printed.get(_PRINTED.get((arm, one.name), "")),
                    )
                )
    if not found:
        raise StudyError(f"{benchmark.source}: no cost is known. Give prices to the fixers' models and run again.")
    return found


def _paper_paybacks(paper: Paper, once: Sequence[Item]) -> list[Payback]:
    """The routed system, and its main fixer with every handoff and no router, beside each fixer alone."""
    evaluation = paper.evaluation
    handed, alone = evaluation.arm("handoff"), evaluation.arm("solo")
    shared = SHARED_USD / len(evaluation.ids)
    routed, constant = handed.chosen("routed", paper.routing.decisions), handed.of(KIMI)
    training = [item for item in once if item.name != _LABELS]
    systems = [
        (replace(system, name=name, cost=system.cost + shared), _sum(paid) if paid else None)
        for name, system, paid in (("routed", routed, once), (f"{KIMI} with handoff", constant, training))
    ]
    anchors = [replace(one, name=f"{one.name} alone") for one in alone.each()]
    # What is cheaper than the strongest without any system at all is the baseline of every saving.
    systems.append((anchors[alone.column(KIMI)], Decimal(0)))
    return [
        payback
        for system, amount in systems
        for anchor in anchors
        if anchor.name != system.name
        for payback in _payback(system, anchor, amount)
    ]


def _own_paybacks(own: Own) -> list[Payback]:
    """Every column with handoff, the routed one first, beside every fixer alone."""
    benchmark, judged_alike = own.benchmark, own.judged_by == "grade"
    ways = {
        arm: [
            replace(outcomes.of(fixer), name=f"{fixer} alone" if arm == "solo" else f"{fixer} with handoff")
            for fixer in sorted(outcomes.fixers, key=lambda name: name != ROUTED)
        ]
        for arm, outcomes in benchmark.arms.items()
    }
    return [
        payback
        for system in ways.get("handoff", [])
        for anchor in ways.get("solo", [])
        for payback in _payback(system, anchor, None, judged_alike=judged_alike)
    ]


def _payback(
    system: FixerOutcomes, anchor: FixerOutcomes, once_usd: Decimal | None, *, judged_alike: bool = True
) -> list[Payback]:
    """On the tasks that both have; none where there are none."""
    both = system.measured & anchor.measured & np.isfinite(system.cost) & np.isfinite(anchor.cost)
    tasks = int(both.sum())
    if not tasks:
        return []
    found = bootstraps(
        tasks,
        {
            "saving": mean_of((anchor.cost - system.cost)[both]),
            "solves": mean_of(system.resolved[both].astype(float) - anchor.resolved[both]),
        },
    )
    saving = found["saving"]
    middle, low, high = (_pays_after(once_usd, usd) for usd in (saving.value, saving.high, saving.low))
    return [
        Payback(
            system=system.name,
            anchor=anchor.name,
            tasks=tasks,
            usd=float(system.cost[both].mean()),
            saving=saving,
            solves=found["solves"] if judged_alike else None,
            once_usd=once_usd,
            pays_after=middle,
            pays_after_low=low,
            pays_after_high=high,
        )
    ]


def _pays_after(once_usd: Decimal | None, saving: float) -> int | None:
    return None if once_usd is None or saving <= 0 else math.ceil(float(once_usd) / saving)


def _usd(amount: float) -> Decimal:
    return Decimal(str(amount)).quantize(MICRO)


def _sum(arms: Sequence[ArmSpend | Item]) -> Decimal:
    return sum((arm.usd for arm in arms), Decimal(0))
