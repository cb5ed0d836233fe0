"""Solve rate against cost: every fixer, mixture and policy; which pools leave a router anything to win; a second try.

Everything is held against the best random mix of fixers at the same cost, which needs no look at a task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from scrout.base import FrozenModel, RouteError, StudyError
from scrout.lab.study.frontier import released
from scrout.lab.study.frontier.escalation import Escalation, escalation
from scrout.lab.study.frontier.fields import COUNTS, CostPlane, HeldOutArm, evaluation_field, field_of, seen_by_arm
from scrout.lab.study.frontier.figures import field_picture, or_never, pools_picture, second_picture
from scrout.lab.study.frontier.pools import SIZE, PoolCensus, every_pool
from scrout.lab.study.frontier.report_tables import (
    ablations,
    break_even,
    extremes,
    kinds,
    plane,
    pools_sheet,
    routed,
    seconds,
)
from scrout.lab.study.policies import PolicyPoint, alone
from scrout.lab.study.report import Figure, ReportTable, StudyReport, interval, points, usd_interval
from scrout.lab.study.sources.benchmark import Benchmark
from scrout.lab.study.sources.paper import Absent, Paper, PublicName
from scrout.lab.study.sources.source import Own, Source
from scrout.records import Arm
from scrout.text import percent, usd


class Frontier(FrozenModel):
    """What `scrout study frontier` finds."""

    source: str
    fields: tuple[CostPlane, ...]
    pools: tuple[PoolCensus, ...]
    escalations: tuple[Escalation, ...]
    left_out: tuple[str, ...]
    """What the source lacks, and what to do."""


@dataclass(frozen=True)
class _Part:
    """All about one benchmark."""

    field: CostPlane
    pools: PoolCensus | None = None
    escalations: tuple[Escalation, ...] = ()


def study(source: Source) -> Frontier:
    """Each benchmark of the source: its plane, all its pools, and what a second try adds."""
    parts, left_out = [], []
    for name, make in _parts(source).items():
        try:
            parts.append(make())
        except (Absent, RouteError) as error:
            left_out.append(f"{name}: {error}")
    if not parts:
        raise StudyError("nothing to compare. " + " ".join(left_out))
    return Frontier(
        source=str(source),
        fields=tuple(part.field for part in parts),
        pools=tuple(part.pools for part in parts if part.pools),
        escalations=tuple(one for part in parts for one in part.escalations),
        left_out=tuple(left_out),
    )


def _parts(source: Source) -> dict[str, Callable[[], _Part]]:
    if isinstance(source, Own):
        return {source.benchmark.name: lambda: _own(source.comparable)}
    return {
        "evaluation": lambda: _Part(evaluation_field(source)),
        "label run": lambda: _label_run(source),
        "Verified": lambda: _leaderboard(source, "Verified"),
        "Multilingual": lambda: _leaderboard(source, "Multilingual"),
    }


def _label_run(paper: Paper) -> _Part:
    benchmark = paper.label_run
    seen = seen_by_arm(benchmark)
    coverage = _coverage(paper)
    added = released.shared_usd(paper)
    escalations = tuple(
        escalation(f"{benchmark.name}, {_arm(arm)}", alone(one.table, shared_usd=added * (arm == "handoff")), coverage)
        for arm, one in seen.items()
    )
    return _Part(field_of(benchmark, seen, added), None, escalations)


def _leaderboard(paper: Paper, name: PublicName) -> _Part:
    benchmark = paper.comparable(name)
    return _with_pools(benchmark, seen_by_arm(benchmark), _coverage(paper))


def _own(benchmark: Benchmark) -> _Part:
    seen = seen_by_arm(benchmark)
    scouted = benchmark.scouted.values()
    coverage = float(np.mean([one.kept for one in scouted])) if scouted else None
    return _with_pools(benchmark, seen, coverage)


def _with_pools(benchmark: Benchmark, seen: Mapping[Arm, HeldOutArm], coverage: float | None) -> _Part:
    first = next(iter(seen.values()))
    fixers = len(first.table.fixers)
    worths = {f"${worth:g}": worth for worth in released.WORTHS}
    return _Part(
        field_of(benchmark, seen),
        every_pool(benchmark.name, first.table, first.best, first.folds, worths) if fixers >= SIZE else None,
        (escalation(benchmark.name, alone(first.table), coverage),) if fixers > 1 else (),
    )


def _coverage(paper: Paper) -> float | None:
    """Share of the evaluation's tasks whose reproduction genuinely fails; None: nothing says so."""
    try:
        scouted = paper.evaluation.scouted.values()
    except Absent:
        return None
    return float(np.mean([one.verdict == "real_failure" for one in scouted])) if scouted else None


def report(result: Frontier) -> StudyReport:
    """Tables and pictures of it."""
    parts: list[ReportTable | Figure] = []
    for field in result.fields:
        parts += [plane(field), field_picture(field)]
    if result.pools:
        parts += [pools_sheet(result.pools), kinds(result.pools), extremes(result.pools), ablations(result.pools)]
        parts += [*routed(result.pools), pools_picture(result.pools)]
    if result.escalations:
        parts += [seconds(result.escalations), break_even(result.escalations)]
        parts += [second_picture(one) for one in result.escalations]
    findings = [line for field in result.fields for line in _field_findings(field)]
    findings += [line for pools in result.pools for line in _pool_findings(pools)]
    findings += [_second_finding(one) for one in result.escalations]
    return StudyReport("The frontier of cost and solve rate", findings, parts, _notes(result))


def _field_findings(field: CostPlane) -> list[str]:
    by_name = {spot.name: spot for spot in field.spots}
    fixed = [spot for spot in field.spots if spot.kind in ("alone", "handoff")]
    whole = by_name.get("oracle, also with handoff") or by_name["oracle, alone"]
    strongest = max(fixed, key=lambda spot: (spot.solve.value, -spot.usd.value))
    said = [
        f"{field.benchmark}: the strongest constant is {strongest.name} ({interval(strongest.solve)} at "
        f"{usd(strongest.usd.value, 3)} a task); an oracle would solve {percent(whole.solve.value)} at "
        f"{usd(whole.usd.value, 3)}."
    ]
    looked = [spot for spot in field.spots if spot.family]
    tried = [spot for spot in looked if not spot.unmeasured]
    if tried:
        beside = [spot.over_constants or spot.over_mix for spot in tried]
        above, below = sum(one.low > 0 for one in beside), sum(one.high < 0 for one in beside)
        constant = sum(len(spot.shares) == 1 for spot in tried)
        said.append(
            f"{field.benchmark}: of {len(tried)} settings of policies {above} are shown above the best random mix of "
            f"constants at their cost and {below} below; {constant} take one fixer for every task."
        )
    if unknown := [spot.unmeasured for spot in looked if spot.unmeasured]:
        said.append(
            f"{field.benchmark}: {len(unknown)} further settings take {min(unknown)} to {max(unknown)} pairs that "
            "nobody measured, so that only bounds can be given."
        )
    if field.differs:
        others = [f"{spot.name}: {field.differs[spot.name]}" for spot in looked if spot.family == "worth, blend"]
        said += [
            _router_finding(by_name[released.ROUTER]),
            f"Of the paper's {field.tasks} decisions, the value policy on the same probabilities makes others on: "
            f"{'; '.join(others)}.",
        ]
    return said


def _router_finding(router: PolicyPoint) -> str:
    handed = (
        f", and {points(router.over_constants)} where that with handoff may be mixed in"
        if router.over_constants
        else ""
    )
    return (
        f"The paper's router solves {interval(router.solve)} at {usd_interval(router.usd)} a task: "
        f"{points(router.over_mix)} points over a mix of fixers alone{handed}."
    )


def _pool_findings(one: PoolCensus) -> list[str]:
    least, median, most = one.oracle_gain
    first = one.ablations[0]
    said = [
        f"{one.benchmark}, {len(one.pools)} pools of {SIZE}: in {percent(one.constant)} one fixer is both cheapest and "
        f"strongest, so a constant is the whole hull; in {percent(one.lead_not_shown)} the strongest is not shown to "
        f"beat the cheapest. Perfect routing would add {points(median)} points to mixing in the median ("
        f"{points(least)} to {points(most)}), luck of single attempts included.",
        f"{one.benchmark}: at theta {first.theta:.2f} the cheapest fixer's solve rate reaches it in "
        f"{percent(first.cheapest)} of the pools, where `no router` is the cheapest fixer: {percent(first.saved)} "
        f"cheaper than the strongest, at {points(-first.given_up)} points, medians over pools.",
    ]
    if one.routed:
        above = max(share for _, share, _, _ in one.routed.values())
        below = [share for _, _, share, _ in one.routed.values()]
        said.append(
            f"{one.benchmark}: the value policy by counts of the text is shown above the mix in {percent(above)} of "
            f"the pools at best, and below it in {percent(min(below))} to {percent(max(below))}, by what "
            "a solve is worth."
        )
    return said


def _second_finding(one: Escalation) -> str:
    perfect = next(each for each in one.grid if each.recall == 1 and each.false_alarms == 0)
    named = one.named[0]
    return (
        f"A second try on {one.benchmark} ({one.first}, then {one.second}; simulated): {points(perfect.over_mix)} "
        f"points over the mix under a perfect verifier, {points(named.over_mix)} under {named.verifier}; with 10% "
        f"false alarms the least recall that is enough is {or_never(one.break_even['0.1'])}."
    )


def _notes(result: Frontier) -> list[str]:
    said = [
        "Intervals are 95%, from resampling tasks (percentile; $/solve by BCa); settings are held. Each way beside a "
        "mix is one of many looks, and none is adjusted: read an interval that just leaves 0 out with care.",
        "The oracle takes for each task the cheapest fixer that solves it, and where none does the cheapest.",
        f"Policies: `theta` walks from the cheapest up, `a solve` weighs what it is worth. `{COUNTS}` and résumés are "
        "held out by repository, expected costs too.",
    ]
    return [*said, *(f"Left out: {line}" for line in result.left_out)]


def _arm(arm: Arm) -> str:
    return "with handoff" if arm == "handoff" else arm
