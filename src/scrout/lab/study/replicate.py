"""`replicate`: the paper's tables from its receipts, cell by cell; or the same tables about one's own runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, TypeGuard

import numpy as np

from scrout.base import FrozenModel
from scrout.intervals import Estimate
from scrout.lab.study.audit import Overlap, published_pools
from scrout.lab.study.replicate_records import RegatedRecord, judge_all
from scrout.lab.study.replicate_tables import (
    Attempts,
    PairedEffect,
    PaperTables,
    Probabilities,
    Threshold,
    by_name,
    effects,
    probabilities,
    routed,
    sweep,
    tables,
    way_name,
)
from scrout.lab.study.sources.paper import FLASH, GPT, KIMI, MAX_STEPS, OPUS, PARTS, SHARED_USD, Paper, Part
from scrout.lab.study.sources.source import Source
from scrout.lab.study.stats import Paired, bootstrap, mean_of, paired
from scrout.route.outcome_table import Bools
from scrout.text import usd

Place = tuple[str, ...]
"""Where a figure stands: its table, then the keys down to it."""
Status = Literal["agrees", "differs", "contradicted", "not backed"]
"""`differs`: the receipts ought to give it, and give another. `contradicted`: they give another of something alike."""

ENDS = ("low", "high")
_ROUNDING = 1e-9
_NOT_FIGURES = ("source", "backed", "columns")


@dataclass(frozen=True)
class ReceiptValue:
    """What the receipts say of one cell."""

    value: float
    slack: float = 0.0
    """By how much it may differ beyond the rounding of what is printed: an end of a bootstrap depends on its seed."""
    otherwise: Status = "differs"
    """What it is called if it is another."""
    note: str = ""


class PublishedCell(FrozenModel):
    """One published figure, and ours."""

    table: str
    name: str
    ours: float | None
    """None: the receipts do not say."""
    published: float
    digits: int
    """Decimals that the published one is printed with."""
    status: Status
    note: str
    """What ours is, where it is not the same thing to the letter; empty: it is."""


def cells(published: Mapping[str, Any], said: Mapping[Place, ReceiptValue]) -> tuple[PublishedCell, ...]:
    """Every figure that is published, in its order."""
    return tuple(_cell(place, figure, said.get(place)) for place, figure in _published_figures(published, ()))


def _cell(place: Place, published: float, said: ReceiptValue | None) -> PublishedCell:
    digits = _digits(published)
    labels = [part for part in place[1:] if part != "rows"]
    if said is not None and math.isnan(said.value):
        said = None  # a cost behind it is unknown
    if said is None:
        status: Status = "not backed"
    else:
        off = abs(said.value - published) - said.slack
        status = "agrees" if off <= 0.5 * 10**-digits + _ROUNDING else said.otherwise
    return PublishedCell(
        table=place[0],
        name=", ".join(labels),
        ours=said.value if said else None,
        published=float(published),
        digits=digits,
        status=status,
        note=said.note if said else "",
    )


def _published_figures(
    stored: object, place: Place, columns: Sequence[str] = ()
) -> Iterator[tuple[Place, int | float]]:
    """Each number below, with its place. A list's numbers are of the table's columns, or the ends of an interval."""
    if isinstance(stored, Mapping):
        columns = stored.get("columns", columns)
        for key, value in stored.items():
            if key not in _NOT_FIGURES:
                yield from _published_figures(value, (*place, key), columns)
    elif isinstance(stored, list):
        names = columns if len(stored) == len(columns) else ENDS
        for name, value in zip(names, stored, strict=False):
            yield from _published_figures(value, (*place, name))
    elif _is_figure(stored):
        yield place, stored


def _is_figure(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _digits(figure: float) -> int:
    """As it is written: 24.0 has one decimal, and 24 is rounded to the whole."""
    exponent = Decimal(str(figure)).as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


CAP_USD = 2.0
"""What an attempt of the paper's was allowed to cost."""
ROUTER = "router"
_WAYS = {
    "router theta 0.30": ROUTER,
    "Opus 4.6 solo": way_name(OPUS, "solo"),
    "Kimi K2.5 solo": way_name(KIMI, "solo"),
    "GPT-5.2 solo": way_name(GPT, "solo"),
    "no router (Kimi + handoff)": way_name(KIMI, "handoff"),
}
"""The rows of the published main table, in our words."""
_ON_LEADERBOARD = {
    FLASH: "Gemini 3 Flash",
    OPUS: "Claude 4.6 Opus",
    KIMI: "Kimi K2.5",
    GPT: "GPT-5.2 (high reasoning)",
}


class Beside(FrozenModel):
    """The router as it was run beside another way."""

    way: str
    paired: Paired
    """First the other way, then the router."""


class Fresh(FrozenModel):
    """A fixer alone on the fresh tasks of the label run, and on public ones."""

    fixer: str
    tasks: int
    fresh: Estimate
    public: float | None
    """On the public tasks that are in the data, which are not all that the published rate is of. None: none is."""
    public_tasks: int


class Receipts(FrozenModel):
    """The paper's tables, recomputed."""

    evaluation: PaperTables
    router: tuple[Beside, ...]
    anchor: str
    """Of the released router: who takes what reaches no threshold."""
    on_routed: PairedEffect | None
    """What the handoff does to the cheapest fixer on the tasks that the router gave it. None: it gave it none."""
    label_run: tuple[PairedEffect, ...]
    label_run_usd: float
    """All attempts of the label run whose cost is known."""
    fresh: tuple[Fresh, ...]
    sweep: tuple[Threshold, ...]
    probabilities: tuple[Probabilities, ...]
    """Of the cheapest fixer, by each head."""
    expensive_attempts: dict[str, int]
    """By fixer alone: attempts that cost as much as they may, or more."""
    pools: tuple[Overlap, ...]
    absent: tuple[Part, ...]
    """What of the paper's files is not there: of its cells nothing is said."""


def recompute(paper: Paper) -> Receipts:
    """All tables from the receipts."""
    evaluation, routing = paper.evaluation, paper.routing
    label_run = paper.label_run if paper.has("label run") else None
    router = routed(evaluation, routing)
    to_cheapest = np.array([fixer == KIMI for fixer in routing.decisions])
    solo = evaluation.arm("solo")
    others = {way_name(fixer, "solo"): solo.resolved[:, at] for at, fixer in enumerate(solo.fixers)}
    others[way_name(KIMI, "handoff")] = evaluation.arm("handoff").only([KIMI]).resolved[:, 0]
    costs = [played.cost for played in label_run.played.values()] if label_run else []
    return Receipts(
        evaluation=tables(evaluation, shared_usd=SHARED_USD, more=[router], solved=router.resolved, cap=MAX_STEPS),
        router=tuple(Beside(way=name, paired=paired(other, router.resolved)) for name, other in others.items()),
        anchor=routing.anchor,
        on_routed=next((one for one in effects(evaluation, to_cheapest) if one.fixer == KIMI), None),
        label_run=effects(label_run) if label_run else (),
        label_run_usd=float(sum(np.nansum(cost) for cost in costs)),
        fresh=_fresh(paper) if label_run else (),
        sweep=sweep(evaluation, paper.solo_pinned, routing, _thetas(paper)),
        probabilities=probabilities(routing),
        expensive_attempts={fixer: int((solo.cost[:, at] >= CAP_USD).sum()) for at, fixer in enumerate(solo.fixers)},
        pools=published_pools(paper),
        absent=tuple(part for part in PARTS if not paper.has(part)),
    )


def _thetas(paper: Paper) -> list[float]:
    rows = paper.published.get("theta_sweep", {}).get("rows", {}) if paper.has("published") else {}
    return [float(theta) for theta in rows] or [paper.routing.theta]


def _fresh(paper: Paper) -> tuple[Fresh, ...]:
    played, found = paper.label_run.arm("solo"), []
    for at, fixer in enumerate(played.fixers):
        solved = played.resolved[played.measured[:, at], at]
        public = _public(paper, _ON_LEADERBOARD[fixer])
        found.append(
            Fresh(
                fixer=fixer,
                tasks=len(solved),
                fresh=bootstrap(len(solved), mean_of(solved)),
                public=float(public.mean()) if public.size else None,
                public_tasks=public.size,
            )
        )
    return tuple(found)


def _public(paper: Paper, model: str) -> Bools:
    """What a model solved of the public tasks that it tried; empty: nothing is known."""
    if not paper.has("Multilingual"):
        return np.zeros(0, dtype=bool)
    played = paper.public("Multilingual").arm("solo")
    at = played.column(model)
    solved: Bools = played.resolved[played.measured[:, at], at]
    return solved


def said(found: Receipts) -> dict[Place, ReceiptValue]:
    """What the receipts say, by the place of the published cell."""
    return {
        **_main(found),
        **_anchors(found),
        **_sweep(found),
        **_probabilities(found),
        **_localization(found),
        **_census(found),
        **_caps(found),
        **_redistribution(found.label_run),
        **_fresh_cells(found.fresh),
        **(_on_routed(found.on_routed) if found.on_routed else {}),
        **_pools(found.pools),
        **_spend(found),
    }


def _main(found: Receipts) -> dict[Place, ReceiptValue]:
    told: dict[Place, ReceiptValue] = {("main_results", "n"): ReceiptValue(found.evaluation.tasks)}
    ways = by_name(found.evaluation.ways)
    for row, name in _WAYS.items():
        at = ("main_results", "rows", row)
        if way := ways.get(name):
            told[(*at, "solves")] = ReceiptValue(way.solves)
            told[(*at, "rate_pct")] = ReceiptValue(100 * way.rate.value)
            told |= _known((*at, "usd_per_task"), way.usd_task)
            told |= _known((*at, "usd_per_solve"), way.usd_solve)
            told |= _known((*at, "points_over_mixing"), way.over_mix, 100)
    return told


def _known(path: Place, figure: Estimate | None, times: float = 1) -> dict[Place, ReceiptValue]:
    return {path: ReceiptValue(times * figure.value)} if figure else {}


def _anchors(found: Receipts) -> dict[Place, ReceiptValue]:
    pair = next((one for one in found.evaluation.pairs if {one.first, one.second} == {GPT, OPUS}), None)
    if pair is None:
        return {}
    both = pair.paired
    opus, gpt = (both.gained, both.lost) if pair.second == OPUS else (both.lost, both.gained)
    return {
        ("paired_anchors", "opus_only"): ReceiptValue(opus),
        ("paired_anchors", "gpt_only"): ReceiptValue(gpt),
        ("paired_anchors", "mcnemar_p"): ReceiptValue(both.p),
        ("paired_anchors", "delta_points"): ReceiptValue(100 * (opus - gpt) / both.tasks),
    }


def _sweep(found: Receipts) -> dict[Place, ReceiptValue]:
    told: dict[Place, ReceiptValue] = {}
    for row in found.sweep:
        at = ("theta_sweep", "rows", f"{row.theta:.2f}")
        told |= {(*at, "split", fixer): ReceiptValue(tasks) for fixer, tasks in row.split.items()}
        told[(*at, "solves")] = ReceiptValue(row.solves)
        told[(*at, "solves", "low")] = ReceiptValue(round(row.least.value * found.evaluation.tasks))
        told[(*at, "solves", "high")] = ReceiptValue(round(row.most.value * found.evaluation.tasks))
        told[(*at, "usd_per_task")] = ReceiptValue(row.usd_task.value)
        told |= _known((*at, "usd_per_solve"), row.usd_solve)
    return told


def _probabilities(found: Receipts) -> dict[Place, ReceiptValue]:
    told: dict[Place, ReceiptValue] = {}
    for head in found.probabilities:
        at = ("gate_probability", head.head)
        told[(*at, "sd")] = ReceiptValue(head.sd)
        told[(*at, "support", "low")] = ReceiptValue(head.lowest)
        told[(*at, "support", "high")] = ReceiptValue(head.highest)
    if found.on_routed:
        told[("gate_probability", "gated_to_cheapest")] = ReceiptValue(found.on_routed.paired.tasks)
    return told


def _localization(found: Receipts) -> dict[Place, ReceiptValue]:
    told: dict[Place, ReceiptValue] = {}
    for group in found.evaluation.located:
        at = ("localization", "rows", group.group)
        told[(*at, "n")] = ReceiptValue(group.n)
        told[(*at, "recall")] = ReceiptValue(group.recall.value)
        told[(*at, "precision")] = ReceiptValue(group.precision.value)
        told[(*at, "all_gold_pct")] = ReceiptValue(100 * group.all_gold.value)
        told[(*at, "gold_files")] = ReceiptValue(group.gold_files)
        if group.group == "overall":
            told[("localization", "median_files_named")] = ReceiptValue(group.named_median)
            told[("localization", "mean_gold_files")] = ReceiptValue(group.gold_files)
    return told


def _census(found: Receipts) -> dict[Place, ReceiptValue]:
    told: dict[Place, ReceiptValue] = {}
    for claims in found.evaluation.claims:
        overall = claims.group == "overall"
        at = ("verify_census", "by_set", "all" if overall else claims.group)
        told[(*at, "n")] = ReceiptValue(claims.n)
        told[(*at, "claiming")] = ReceiptValue(claims.claiming)
        told |= _known((*at, "genuine_pct"), claims.genuine, 100)
        told |= _known((*at, "stripped_pct"), claims.passes, 100)
        if overall:
            told |= {("verify_census", "classes", verdict): ReceiptValue(n) for verdict, n in claims.verdicts.items()}
    return told


def _caps(found: Receipts) -> dict[Place, ReceiptValue]:
    told: dict[Place, ReceiptValue] = {}
    alone = {one.fixer: one for one in found.evaluation.attempts if one.arm == "solo" and one.at_cap is not None}
    loosely: Mapping[str, tuple[Callable[[Attempts], float | None], str]] = {
        "hit_2usd_cap": (lambda one: found.expensive_attempts[one.fixer], f"attempts of {usd(CAP_USD)} or more"),
        "auto_submitted": (lambda one: one.at_cap, f"attempts that reach {MAX_STEPS} steps"),
        "solves_rescued": (lambda one: one.solved_at_cap, f"solved attempts that reach {MAX_STEPS} steps"),
        "rate_without_rescue_pct": (
            lambda one: 100 * (one.solved - (one.solved_at_cap or 0)) / one.n,
            f"without the solves that reach {MAX_STEPS} steps",
        ),
    }
    for fixer, one in alone.items():
        told[("caps", "hit_50_turn_cap_pct", fixer)] = ReceiptValue(100 * (one.at_cap or 0) / one.n)
        if one.most_expensive_usd is not None:
            told[("caps", "max_attempt_usd", fixer)] = ReceiptValue(one.most_expensive_usd)
        for row, (figure, note) in loosely.items():
            value = figure(one)
            if value is not None:
                told[("caps", row, fixer)] = ReceiptValue(value, otherwise="contradicted", note=note)
    return told


def _redistribution(found: Sequence[PairedEffect]) -> dict[Place, ReceiptValue]:
    told: dict[Place, ReceiptValue] = {}
    for one in found:
        both, pooled = one.paired, one.fixer == "pooled"
        at = ("redistribution", "rows", one.fixer)
        told |= {
            ("redistribution", "n"): ReceiptValue(both.tasks),
            (*at, "solo"): ReceiptValue(100 * both.first),
            (*at, "handoff"): ReceiptValue(100 * both.second),
            (*at, "delta"): ReceiptValue(100 * both.change.value),
            (*at, "b"): ReceiptValue(both.gained),
            (*at, "c"): ReceiptValue(both.lost),
            (*at, "p"): ReceiptValue(both.p),
        }
        for end, value in zip(ENDS, (both.change.low, both.change.high), strict=True):
            told[(*at, "ci", end)] = ReceiptValue(
                100 * value,
                slack=100 / both.tasks,
                otherwise="contradicted" if pooled else "differs",
                note="a bootstrap over tasks, the four pairs of a task drawn together" if pooled else "",
            )
    return told


def _fresh_cells(found: Sequence[Fresh]) -> dict[Place, ReceiptValue]:
    told: dict[Place, ReceiptValue] = {}
    for one in found:
        at = ("bench_versus_fresh", "rows", one.fixer)
        told[(*at, "fresh")] = ReceiptValue(one.fresh.value)
        for end, value in zip(ENDS, (one.fresh.low, one.fresh.high), strict=True):
            told[(*at, "ci", end)] = ReceiptValue(value, slack=1 / one.tasks)
        if one.public is not None:
            note = f"of the {one.public_tasks} tasks that are in the public table"
            told[(*at, "public")] = ReceiptValue(one.public, otherwise="not backed", note=note)
            told[(*at, "gap")] = ReceiptValue(100 * (one.fresh.value - one.public), otherwise="not backed", note=note)
    return told


def _on_routed(effect: PairedEffect) -> dict[Place, ReceiptValue]:
    both = effect.paired
    figures = {
        "n": both.tasks,
        "handoff_pct": 100 * both.second,
        "solo_pct": 100 * both.first,
        "delta": 100 * both.change.value,
        "b": both.gained,
        "c": both.lost,
        "p": both.p,
    }
    return {("handoff_on_routed", name): ReceiptValue(figure) for name, figure in figures.items()}


def _pools(found: Sequence[Overlap]) -> dict[Place, ReceiptValue]:
    told: dict[Place, ReceiptValue] = {}
    for one in found:
        at = ("audit", "rows", one.benchmark)
        told[(*at, "best")] = ReceiptValue(one.best)
        if one.containment is not None:
            told[(*at, "containment")] = ReceiptValue(one.containment)
        if one.shell is not None:
            told[(*at, "shell_pct")] = ReceiptValue(100 * one.shell)
    return told


def _spend(found: Receipts) -> dict[Place, ReceiptValue]:
    attempts, at = found.evaluation.attempts, ("spend_usd", "evaluation")
    alone = {one.fixer: one.usd for one in attempts if one.arm == "solo" and one.usd is not None}
    handed = [one for one in attempts if one.arm == "handoff"]
    told: dict[Place, ReceiptValue] = {
        (*at, row): ReceiptValue(alone[fixer])
        for row, fixer in (("GPT-5.2 solo", GPT), ("Opus 4.6 solo", OPUS), ("Kimi K2.5 solo", KIMI))
        if fixer in alone
    }
    told[(*at, "system arm")] = ReceiptValue(
        sum(one.usd or 0.0 for one in handed),
        otherwise="contradicted",
        note=f"the sum of the {sum(one.n for one in handed)} attempts with handoff",
    )
    if "label run" not in found.absent:
        told[("spend_usd", "label_run", "fixer API")] = ReceiptValue(
            found.label_run_usd, otherwise="contradicted", note="the sum of its attempts' known costs"
        )
    ways = by_name(found.evaluation.ways)
    expensive, ours = ways.get(way_name(OPUS, "solo")), ways.get(ROUTER)
    if expensive and expensive.usd_task and ours and ours.usd_task:
        told[("spend_usd", "saving_per_task")] = ReceiptValue(expensive.usd_task.value - ours.usd_task.value)
    return told


class Replication(FrozenModel):
    """Tables recomputed, and what was published beside them."""

    tables: PaperTables
    """Of the paper's evaluation, or of one's own runs."""
    receipts: Receipts | None
    """None: one's own runs."""
    regated: tuple[RegatedRecord, ...]
    """The paper's whole verification records, judged by our gate."""
    cells: tuple[PublishedCell, ...]
    """Every figure that is published. Empty: one's own runs."""


def study(source: Source) -> Replication:
    """The tables of a source."""
    if not isinstance(source, Paper):
        return Replication(tables=tables(source.alike(source.benchmark)), receipts=None, regated=(), cells=())
    found = recompute(source)
    return Replication(
        tables=found.evaluation,
        receipts=found,
        regated=judge_all(source.verify_records) if source.has("records") else (),
        cells=cells(source.published, said(found)) if source.has("published") else (),
    )
