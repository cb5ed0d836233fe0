"""Solve rate against cost: every fixer, mixture and policy; which pools leave a router anything to win; a second try.

Everything is held against the best random mix of fixers at the same cost, which needs no look at a task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import ne

import numpy as np

from scrout.base import FrozenModel, RouteError, StudyError
from scrout.lab.study.calibrate_heads import base_rates, by_difficulty_head, by_resume_head, feature_sets, held_out
from scrout.lab.study.frontier_pools import SIZE, Escalation, PoolCensus, escalation, pool_census
from scrout.lab.study.policies import Policy, PolicyPoint, alone, oracle, policy_points, rule_policies, uniform_policy
from scrout.lab.study.report import arm_words
from scrout.lab.study.sources.benchmark import Benchmark
from scrout.lab.study.sources.paper import FIXERS, OPUS, SHARED_USD, Absent, FilledPairs, Paper, PublicName, fill_gaps
from scrout.lab.study.sources.source import Own, Source
from scrout.records import Arm
from scrout.route.calibrate import Rule, Walk, Worth
from scrout.route.outcome_table import Ints, OutcomeTable, group_folds
from scrout.route.stats import Floats, hull
from scrout.text import usd

THETAS = (0.25, 0.30, 0.35, 0.40, 0.50)
ROUTER = "the paper's router"
WORTHS = (1.0, 3.0, 10.0, 30.0)
"""Dollars that a solve may be worth."""


def shared_usd(paper: Paper) -> float:
    """What searcher and sandbox cost a task of the evaluation."""
    return SHARED_USD / len(paper.evaluation.ids)


def fixers_alone(paper: Paper) -> list[Policy]:
    """Those that tried every task without a handoff."""
    return alone(paper.evaluation.table("solo").priced())


def fixers_handed(paper: Paper) -> list[Policy]:
    """Those that tried every task with one."""
    outcomes = paper.evaluation.arm("handoff")
    whole = [fixer for at, fixer in enumerate(outcomes.fixers) if outcomes.measured[:, at].all()]
    return alone(paper.evaluation.table("handoff", whole), "handoff", " + handoff", shared_usd(paper))


def released_bounds(paper: Paper) -> list[Policy]:
    """No choice at all, and perfect choice: the cheapest that solves, without handoff and with it."""
    without, handed = fixers_alone(paper), fixers_handed(paper)
    return [
        uniform_policy(without),
        oracle(without, "oracle, alone"),
        *([oracle([*without, *handed], "oracle, also with handoff")] if handed else []),
    ]


def released_policies(paper: Paper) -> list[Policy]:
    """The paper's decisions; then its walk, and the value policy, by the blend, the text and the state."""
    said, pairs = paper.routing, fill_gaps(paper.evaluation, paper.solo_pinned)
    costs, order = expected_costs(paper), np.arange(len(FIXERS), dtype=np.float64)
    walk, worth = Walk(anchor=FIXERS.index(OPUS)), Worth(anchor=FIXERS.index(OPUS))
    found = [_released_policy(ROUTER, "", np.array([FIXERS.index(name) for name in said.decisions]), pairs)]
    for space, probabilities in (("blend", said.blend), ("text", said.text), ("state", said.state)):
        thetas = {f"theta {theta:.2f}, {space}": theta for theta in THETAS}
        worths = {f"${usd:g} a solve, {space}": usd for usd in WORTHS}
        found += _released_policies(f"theta, {space}", walk, probabilities, order, thetas, pairs)
        found += _released_policies(f"worth, {space}", worth, probabilities, costs, worths, pairs)
    return found


def expected_costs(paper: Paper) -> Floats:
    """What each fixer was known to cost before the evaluation: its mean in the label run, with handoff."""
    return paper.label_run.table("handoff").mean_costs


def _released_policies(
    family: str, rule: Rule, probabilities: Floats, costs: Floats, settings: dict[str, float], pairs: FilledPairs
) -> list[Policy]:
    chosen = rule.choices(probabilities, costs, np.array(list(settings.values())))
    return [_released_policy(name, family, row, pairs) for name, row in zip(settings, chosen, strict=True)]


def _released_policy(name: str, family: str, chosen: Ints, pairs: FilledPairs) -> Policy:
    taken = pairs.taken(chosen)
    return Policy(
        name,
        "policy",
        taken.resolved.astype(np.float64),
        taken.cost,
        family,
        tuple(FIXERS[at] for at in chosen),
        ~taken.measured,
        taken.likely,
    )


MIN_TASKS = 10
"""Below it no figure would mean anything."""
COUNTS, BASE = "counts", "base rates"
ARMS: tuple[Arm, ...] = ("solo", "handoff")


class HullCorner(FrozenModel):
    usd: float
    solve: float


class CostPlane(FrozenModel):
    benchmark: str
    source: str
    tasks: int
    spots: tuple[PolicyPoint, ...]
    hull: tuple[HullCorner, ...]
    """Of the fixers alone."""
    hull_handed: tuple[HullCorner, ...]
    """Of those with handoff as well; empty: none has every task."""
    differs: dict[str, int]
    """By policy, tasks that it decides otherwise than the released router; empty: there is none."""
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class HeldOutArm:
    """Outcomes of an arm in which every pair is measured, with probabilities that each task had no part in."""

    table: OutcomeTable
    folds: Ints | None
    """None: all tasks are of one repository."""
    probabilities: Mapping[str, Floats]
    """By what they are made of."""

    @property
    def best(self) -> Floats | None:
        """What our own router goes by, as far as it is known."""
        return self.probabilities.get(COUNTS)


def evaluation_plane(paper: Paper) -> CostPlane:
    """The paper's 266 tasks, with its router's probabilities."""
    without, handed = fixers_alone(paper), fixers_handed(paper)
    notes = [
        _handoff_note(shared_usd(paper)),
        "Where a pair has no episode with handoff, the fixer's solo episode stands in; Gemini 3 Flash, which has none, "
        "counts as $0 and unsolved, as in the paper. `Solved, if` has the bounds if all such outcomes fail or succeed, "
        "and `$ full` the cost with Flash at its measured mean.",
        "The value policy takes its expected costs from the label run. The task texts are not in the data, so our own "
        "router could not be asked: these are our policies on the paper's probabilities.",
    ]
    try:
        policies = released_policies(paper)
    except Absent as error:
        policies = []
        notes.append(f"No policy: {error}")
    ways = [*without, *handed, *released_bounds(paper), *policies]
    return CostPlane(
        benchmark=paper.evaluation.name,
        source=paper.evaluation.source,
        tasks=len(paper.evaluation.ids),
        spots=policy_points(ways, without, handed),
        hull=_hull(without),
        hull_handed=_hull([*without, *handed]) if handed else (),
        differs={way.name: sum(map(ne, way.choices, policies[0].choices)) for way in policies},
        notes=tuple(notes),
    )


def held_out_arms(benchmark: Benchmark) -> dict[Arm, HeldOutArm]:
    """Each arm on the tasks that every fixer tried in every arm; where there are too few, the first arm alone."""
    tables = _priced_arms(benchmark)
    first = next(iter(tables))
    whole = {arm: np.asarray(table.measured.all(axis=1)) for arm, table in tables.items()}
    common = np.logical_and.reduce(list(whole.values()))
    if common.sum() < MIN_TASKS:
        tables, common = {first: tables[first]}, whole[first]
    if common.sum() < MIN_TASKS:
        raise StudyError(
            f"{benchmark.name}: {int(common.sum())} tasks were tried by all of {', '.join(tables[first].fixers)}, and "
            f"it takes {MIN_TASKS}. Run more tasks, or leave out the fixer that has fewest."
        )
    return {arm: _seen(benchmark, table.rows(common)) for arm, table in tables.items()}


def cost_plane(benchmark: Benchmark, seen: Mapping[Arm, HeldOutArm], handoff_usd: float = 0.0) -> CostPlane:
    """Every fixer alone and with handoff, policies on held-out probabilities, and both ends of knowing nothing and all.

    `handoff_usd` is what a task with handoff costs beside its fixer, where the outcomes leave it out.
    """
    arms = list(seen)
    without = alone(seen[arms[0]].table)
    handed = [way for arm in arms[1:] for way in alone(seen[arm].table, "handoff", " + handoff", handoff_usd)]
    ways = [*without, *handed, uniform_policy(without), oracle(without, "oracle, alone")]
    if handed:
        ways.append(oracle([*without, *handed], "oracle, also with handoff"))
    notes = [_handoff_note(handoff_usd)] if handed and handoff_usd else []
    notes += _lacking(benchmark, seen)
    for arm, one in seen.items():
        ending, added = (" + handoff", handoff_usd) if handed and arm == arms[-1] else ("", 0.0)
        ways += _arm_policies(one, ending, added)
    return CostPlane(
        benchmark=benchmark.name,
        source=benchmark.source,
        tasks=len(seen[arms[0]].table.ids),
        spots=policy_points(ways, without, handed),
        hull=_hull(without),
        hull_handed=_hull([*without, *handed]) if handed else (),
        differs={},
        notes=tuple(notes),
    )


def _lacking(benchmark: Benchmark, seen: Mapping[Arm, HeldOutArm]) -> list[str]:
    """What could not be looked at."""
    said = [
        f"The arm {arm} is left out: its costs are unknown, or fewer than {MIN_TASKS} tasks were tried in every arm."
        for arm in benchmark.arms
        if arm in ARMS and arm not in seen
    ]
    if "solo" not in seen:
        said.append("Only the arm with handoff is here, so each fixer alone is each with its handoff.")
    if any(one.folds is None for one in seen.values()):
        said.append("All tasks are of one repository, so nothing can be held out and there is no policy.")
    elif any(COUNTS not in one.probabilities for one in seen.values()):
        said.append("Texts are unknown, or outcomes too few to learn from, so policies go by base rates alone.")
    return said


def _arm_policies(seen: HeldOutArm, ending: str, added_usd: float) -> list[Policy]:
    if seen.folds is None:
        return []
    found = []
    for name, probabilities in seen.probabilities.items():
        if name in (COUNTS, BASE):
            settings = {f"${usd:g} a solve, {name}{ending}": usd for usd in WORTHS}
            # Base rates look at no task: they are the fixers themselves.
            rule: Rule = Worth()
            family = "" if name == BASE else f"worth, {name}{ending}"
        else:
            settings = {f"theta {theta:.2f}, {name}{ending}": theta for theta in THETAS}
            rule, family = Walk(), f"theta, {name}{ending}"
        found += rule_policies(
            seen.table, seen.folds, probabilities, rule, settings, family=family, shared_usd=added_usd
        )
    return found


def _seen(benchmark: Benchmark, table: OutcomeTable) -> HeldOutArm:
    if len(set(table.groups)) < 2:
        return HeldOutArm(table, None, {})
    folds = group_folds(table.groups)
    probabilities = {BASE: base_rates(table, folds)}
    if all(benchmark.texts.get(task) for task in table.ids):
        counted, *texts = feature_sets([benchmark.texts[task] for task in table.ids])
        text = next(one for one in reversed(texts) if one.directed)
        try:
            probabilities[COUNTS] = held_out(by_difficulty_head, table, counted, folds)
            probabilities[f"résumés of {text.name}"] = held_out(by_resume_head, table, text, folds)
        except RouteError:
            pass  # too few outcomes of both kinds to fit; base rates stay
    return HeldOutArm(table, folds, probabilities)


def _priced_arms(benchmark: Benchmark) -> dict[Arm, OutcomeTable]:
    """The arms with fixers whose costs are known, and these fixers alone."""
    found: dict[Arm, OutcomeTable] = {}
    for arm in ARMS:
        if arm not in benchmark.arms:
            continue
        table = benchmark.table(arm)
        chosen = [fixer for fixer, cost in zip(table.fixers, table.mean_costs, strict=True) if np.isfinite(cost)]
        if chosen:
            found[arm] = benchmark.table(arm, chosen).priced()
    if not found:
        raise StudyError(
            f"{benchmark.name}: no cost of any fixer is known in the arms {' and '.join(ARMS)}, and a frontier needs "
            "costs. Run a batch through the meter, or name other data."
        )
    return found


def _handoff_note(added_usd: float) -> str:
    return f"A way with handoff costs {usd(added_usd, 4)} a task more, for searcher and sandbox."


def _hull(ways: Sequence[Policy]) -> tuple[HullCorner, ...]:
    corners = hull(np.array([(way.cost.mean(), way.solved.mean()) for way in ways]))
    return tuple(HullCorner(usd=float(usd), solve=float(solve)) for usd, solve in corners)


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
    field: CostPlane
    pools: PoolCensus | None = None
    escalations: tuple[Escalation, ...] = ()


def study(source: Source) -> Frontier:
    """Each benchmark of the source: its plane_table, all its pools, and what a second try adds."""
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
        "evaluation": lambda: _Part(evaluation_plane(source)),
        "label run": lambda: _label_run(source),
        "Verified": lambda: _leaderboard(source, "Verified"),
        "Multilingual": lambda: _leaderboard(source, "Multilingual"),
    }


def _label_run(paper: Paper) -> _Part:
    benchmark = paper.label_run
    seen = held_out_arms(benchmark)
    coverage = _coverage(paper)
    added = shared_usd(paper)
    escalations = tuple(
        escalation(
            f"{benchmark.name}, {arm_words(arm)}", alone(one.table, shared_usd=added * (arm == "handoff")), coverage
        )
        for arm, one in seen.items()
    )
    return _Part(cost_plane(benchmark, seen, added), None, escalations)


def _leaderboard(paper: Paper, name: PublicName) -> _Part:
    benchmark = paper.comparable(name)
    return _with_pools(benchmark, held_out_arms(benchmark), _coverage(paper))


def _own(benchmark: Benchmark) -> _Part:
    seen = held_out_arms(benchmark)
    scouted = benchmark.scouted.values()
    coverage = float(np.mean([one.kept for one in scouted])) if scouted else None
    return _with_pools(benchmark, seen, coverage)


def _with_pools(benchmark: Benchmark, seen: Mapping[Arm, HeldOutArm], coverage: float | None) -> _Part:
    first = next(iter(seen.values()))
    fixers = len(first.table.fixers)
    worths = {f"${worth:g}": worth for worth in WORTHS}
    return _Part(
        cost_plane(benchmark, seen),
        pool_census(benchmark.name, first.table, first.best, first.folds, worths) if fixers >= SIZE else None,
        (escalation(benchmark.name, alone(first.table), coverage),) if fixers > 1 else (),
    )


def _coverage(paper: Paper) -> float | None:
    """Share of the evaluation's tasks whose reproduction genuinely fails; None: nothing says so."""
    try:
        scouted = paper.evaluation.scouted.values()
    except Absent:
        return None
    return float(np.mean([one.verdict == "real_failure" for one in scouted])) if scouted else None
