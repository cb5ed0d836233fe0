"""`replicate`: the paper's tables from its receipts, cell by cell; or the same tables about one's own runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, TypeGuard

import numpy as np

from scrout.base import FrozenModel
from scrout.intervals import Estimate
from scrout.lab.study.audit import Overlap, published_pools
from scrout.lab.study.replicate_records import RegatedRecord, judge_all
from scrout.lab.study.replicate_tables import (
    Pair,
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


class RouterComparison(FrozenModel):
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
    router: tuple[RouterComparison, ...]
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


def recompute_tables(paper: Paper) -> Receipts:
    evaluation, routing = paper.evaluation, paper.routing
    label_run = paper.label_run if paper.has("label run") else None
    router = routed(evaluation, routing)
    to_cheapest = np.array([fixer == KIMI for fixer in routing.decisions])
    solo = evaluation.arm("solo")
    others = {way_name(fixer, "solo"): solo.resolved[:, at] for at, fixer in enumerate(solo.fixers)}
    others[way_name(KIMI, "handoff")] = evaluation.arm("handoff").only([KIMI]).resolved[:, 0]
    costs = [outcomes.cost for outcomes in label_run.arms.values()] if label_run else []
    return Receipts(
        evaluation=tables(evaluation, shared_usd=SHARED_USD, more=[router], solved=router.resolved, cap=MAX_STEPS),
        router=tuple(
            RouterComparison(way=name, paired=paired(other, router.resolved)) for name, other in others.items()
        ),
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
    found = []
    for one in paper.label_run.arm("solo").each():
        solved = one.resolved[one.measured]
        public = _public(paper, _ON_LEADERBOARD[one.name])
        found.append(
            Fresh(
                fixer=one.name,
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
    one = paper.public("Multilingual").arm("solo").of(model)
    return one.resolved[one.measured]


def receipt_values(found: Receipts) -> dict[Place, ReceiptValue]:
    """What the receipts say, by the place of the published cell."""
    pairs = {frozenset((one.first, one.second)): one for one in found.evaluation.pairs}
    anchors = pairs.get(frozenset((GPT, OPUS)))
    return {
        **_main_values(found),
        **(_anchor_values(anchors) if anchors else {}),
        **_sweep_values(found),
        **_scouting_values(found.evaluation),
        **_cap_values(found),
        **_handoff_values(found),
        **_fresh_values(found.fresh),
        **_spend_values(found),
    }


def _values(at: Place, figures: Mapping[str, float | None]) -> dict[Place, ReceiptValue]:
    """The figures that are known, each at its name below a place."""
    return {(*at, name): ReceiptValue(figure) for name, figure in figures.items() if figure is not None}


def _ends(at: Place, low: float, high: float, **how: Any) -> dict[Place, ReceiptValue]:
    return {(*at, end): ReceiptValue(value, **how) for end, value in zip(ENDS, (low, high), strict=True)}


def _value(found: Estimate | None, times: float = 1) -> float | None:
    return times * found.value if found else None


def _main_values(found: Receipts) -> dict[Place, ReceiptValue]:
    values = _values(("main_results",), {"n": found.evaluation.tasks})
    ways = by_name(found.evaluation.ways)
    for row, name in _WAYS.items():
        if way := ways.get(name):
            values |= _values(
                ("main_results", "rows", row),
                {
                    "solves": way.solves,
                    "rate_pct": 100 * way.rate.value,
                    "usd_per_task": _value(way.usd_task),
                    "usd_per_solve": _value(way.usd_solve),
                    "points_over_mixing": _value(way.over_mix, 100),
                },
            )
    return values


def _anchor_values(anchors: Pair) -> dict[Place, ReceiptValue]:
    both = anchors.paired
    opus, gpt = (both.gained, both.lost) if anchors.second == OPUS else (both.lost, both.gained)
    return _values(
        ("paired_anchors",),
        {"opus_only": opus, "gpt_only": gpt, "mcnemar_p": both.p, "delta_points": 100 * (opus - gpt) / both.tasks},
    )


def _sweep_values(found: Receipts) -> dict[Place, ReceiptValue]:
    """Thresholds, and what the heads say of the cheapest fixer."""
    values: dict[Place, ReceiptValue] = {}
    for row in found.sweep:
        at = ("theta_sweep", "rows", f"{row.theta:.2f}")
        values |= _values((*at, "split"), row.split)
        values |= _ends((*at, "solves"), *(round(end.value * found.evaluation.tasks) for end in (row.least, row.most)))
        costs = {"usd_per_task": row.usd_task.value, "usd_per_solve": _value(row.usd_solve)}
        values |= _values(at, {"solves": row.solves, **costs})
    for head in found.probabilities:
        values |= _values(("gate_probability", head.head), {"sd": head.sd})
        values |= _ends(("gate_probability", head.head, "support"), head.lowest, head.highest)
    return values


def _scouting_values(tables: PaperTables) -> dict[Place, ReceiptValue]:
    """Localization, and what became of the claims."""
    values: dict[Place, ReceiptValue] = {}
    for group in tables.located:
        values |= _values(
            ("localization", "rows", group.group),
            {
                "n": group.n,
                "recall": group.recall.value,
                "precision": group.precision.value,
                "all_gold_pct": 100 * group.all_gold.value,
                "gold_files": group.gold_files,
            },
        )
        if group.group == "overall":
            means = {"median_files_named": group.named_median, "mean_gold_files": group.gold_files}
            values |= _values(("localization",), means)
    for claims in tables.claims:
        values |= _values(
            ("verify_census", "by_set", "all" if claims.group == "overall" else claims.group),
            {
                "n": claims.n,
                "claiming": claims.claiming,
                "genuine_pct": _value(claims.genuine, 100),
                "stripped_pct": _value(claims.passes, 100),
            },
        )
        if claims.group == "overall":
            values |= _values(("verify_census", "classes"), claims.verdicts)
    return values


def _cap_values(found: Receipts) -> dict[Place, ReceiptValue]:
    """Attempts that reach a limit. Where the release counts something similar, a difference is no failure."""
    values: dict[Place, ReceiptValue] = {}
    reach = f"that reach {MAX_STEPS} steps"
    for one in found.evaluation.attempts:
        if one.arm != "solo" or one.at_cap is None:
            continue
        rescued = one.solved_at_cap or 0
        exact = {"hit_50_turn_cap_pct": 100 * one.at_cap / one.n, "max_attempt_usd": one.most_expensive_usd}
        values |= {("caps", row, one.fixer): ReceiptValue(value) for row, value in exact.items() if value is not None}
        similar = {
            "hit_2usd_cap": (found.expensive_attempts[one.fixer], f"attempts of {usd(CAP_USD)} or more"),
            "auto_submitted": (one.at_cap, f"attempts {reach}"),
            "solves_rescued": (rescued, f"solved attempts {reach}"),
            "rate_without_rescue_pct": (100 * (one.solved - rescued) / one.n, f"without the solves {reach}"),
        }
        for row, (value, note) in similar.items():
            values[("caps", row, one.fixer)] = ReceiptValue(value, otherwise="contradicted", note=note)
    return values


def _handoff_values(found: Receipts) -> dict[Place, ReceiptValue]:
    """What the handoff changes, on the label run and on the tasks that the router gave to the cheapest fixer."""
    values: dict[Place, ReceiptValue] = {}
    for one in found.label_run:
        both, at, pooled = one.paired, ("redistribution", "rows", one.fixer), one.fixer == "pooled"
        values |= _values(("redistribution",), {"n": both.tasks})
        values |= _values(at, {"solo": 100 * both.first, "handoff": 100 * both.second, **_change_values(both)})
        values |= _ends(
            (*at, "ci"),
            *(100 * both.change.low, 100 * both.change.high),
            slack=100 / both.tasks,
            otherwise="contradicted" if pooled else "differs",
            note="a bootstrap over tasks, the four pairs of a task drawn together" if pooled else "",
        )
    if found.on_routed:
        both = found.on_routed.paired
        rates = {"n": both.tasks, "handoff_pct": 100 * both.second, "solo_pct": 100 * both.first}
        values |= _values(("handoff_on_routed",), {**rates, **_change_values(both)})
        values |= _values(("gate_probability",), {"gated_to_cheapest": both.tasks})
    return values


def _change_values(both: Paired) -> dict[str, float | None]:
    return {"delta": 100 * both.change.value, "b": both.gained, "c": both.lost, "p": both.p}


def _fresh_values(found: Sequence[Fresh]) -> dict[Place, ReceiptValue]:
    values: dict[Place, ReceiptValue] = {}
    for one in found:
        at = ("bench_versus_fresh", "rows", one.fixer)
        values |= _values(at, {"fresh": one.fresh.value})
        values |= _ends((*at, "ci"), one.fresh.low, one.fresh.high, slack=1 / one.tasks)
        if one.public is not None:
            note = f"of the {one.public_tasks} tasks that are in the public table"
            for name, value in (("public", one.public), ("gap", 100 * (one.fresh.value - one.public))):
                values[(*at, name)] = ReceiptValue(value, otherwise="not backed", note=note)
    return values


def _spend_values(found: Receipts) -> dict[Place, ReceiptValue]:
    """What attempts cost, and the figures of the published pools."""
    attempts, at = found.evaluation.attempts, ("spend_usd", "evaluation")
    alone = {one.fixer: one.usd for one in attempts if one.arm == "solo"}
    handed = [one for one in attempts if one.arm == "handoff"]
    rows = {"GPT-5.2 solo": GPT, "Opus 4.6 solo": OPUS, "Kimi K2.5 solo": KIMI}
    values = _values(at, {row: alone.get(fixer) for row, fixer in rows.items()})
    values[(*at, "system arm")] = ReceiptValue(
        sum(one.usd or 0.0 for one in handed),
        otherwise="contradicted",
        note=f"the sum of the {sum(one.n for one in handed)} attempts with handoff",
    )
    if "label run" not in found.absent:
        values[("spend_usd", "label_run", "fixer API")] = ReceiptValue(
            found.label_run_usd, otherwise="contradicted", note="the sum of its attempts' known costs"
        )
    ways = by_name(found.evaluation.ways)
    expensive, ours = (ways[name].usd_task if name in ways else None for name in (way_name(OPUS, "solo"), ROUTER))
    if expensive and ours:
        values |= _values(("spend_usd",), {"saving_per_task": expensive.value - ours.value})
    for one in found.pools:
        shell = None if one.shell is None else 100 * one.shell
        figures = {"best": one.best, "containment": one.containment, "shell_pct": shell}
        values |= _values(("audit", "rows", one.benchmark), figures)
    return values


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
    if not isinstance(source, Paper):
        return Replication(tables=tables(source.alike(source.benchmark)), receipts=None, regated=(), cells=())
    found = recompute_tables(source)
    return Replication(
        tables=found.evaluation,
        receipts=found,
        regated=judge_all(source.verify_records) if source.has("records") else (),
        cells=cells(source.published, receipt_values(found)) if source.has("published") else (),
    )
