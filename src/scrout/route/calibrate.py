"""Measures what a router would have solved and spent on tasks with known outcomes, compared with simpler ways.

Probabilities are held out by repository, and so are settings: each fold gets the one that the other folds choose. The
policies are `paper` (a theta) and `value` (the worth of a solve); only the `Rule` differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt
from pydantic import Field, ValidationError

from scrout.base import FrozenModel, RouteError
from scrout.config.settings import Settings
from scrout.intervals import Estimate
from scrout.route import difficulty, text_counts
from scrout.route.heldout import by_difficulty, by_resumes
from scrout.route.outcome_table import Bools as Bools
from scrout.route.outcome_table import Ints as Ints
from scrout.route.outcome_table import OutcomeTable as OutcomeTable
from scrout.route.outcome_table import combination as combination
from scrout.route.outcome_table import group_folds as group_folds
from scrout.route.outcome_table import read_table as read_table
from scrout.route.outcomes import Arm, digest
from scrout.route.policy import Dial
from scrout.route.resume import text_space
from scrout.route.resume_store import alone, write
from scrout.route.stats import Floats as Floats
from scrout.route.stats import climbs, estimate, hull_at, resamples
from scrout.route.task_vectors import TaskVectors
from scrout.text import percent, usd

Policy = Literal["paper", "value"]
Kind = Literal["ours", "cheapest", "strongest", "constant", "mix", "oracle"]

MIN_TASKS = 25
"""With fewer tasks, no figure would be meaningful."""
MAX_SETTINGS = 201
MAX_SWEEP = 25
CONSTANT = 0.95
"""A router that takes one fixer this often equals that fixer."""
EPS = 1e-9

FILE = "calibration.json"


class Rule(Protocol):
    """A policy with one setting to calibrate."""

    def settings(self, p: Floats, costs: Floats) -> Floats:
        """Candidate settings for these tasks, ascending: both ends, and the midpoints between changes of a choice."""
        ...

    def choices(self, p: Floats, costs: Floats, settings: Floats) -> Ints:
        """A row per setting, a column per task: the index of the chosen fixer."""
        ...


@dataclass(frozen=True)
class Walk:
    """The paper's rule: the cheapest fixer whose probability reaches theta, otherwise the anchor."""

    anchor: int | None = None
    """Its column; None: chosen for each task, as the router does."""

    def settings(self, p: Floats, costs: Floats) -> Floats:
        known = np.unique(p[np.isfinite(p)])
        return _spread_over(np.concatenate([[0.0], (known[1:] + known[:-1]) / 2, [1.0]]))

    def choices(self, p: Floats, costs: Floats, settings: Floats) -> Ints:
        order = np.argsort(costs, kind="stable")
        best_so_far = np.maximum.accumulate(np.where(np.isfinite(p), p, -np.inf)[:, order], axis=1)
        reached = best_so_far[None, :, :] >= settings[:, None, None]
        return np.where(reached.any(axis=2), order[reached.argmax(axis=2)], _anchors(self.anchor, p, costs))


@dataclass(frozen=True)
class Worth:
    """Maximizes probability times the worth of a solve, minus the mean cost; the anchor if nothing is known."""

    anchor: int | None = None
    """Its column; None: chosen for each task, as the router does."""

    def settings(self, p: Floats, costs: Floats) -> Floats:
        prices = np.unique(climbs(p, costs)[0])
        # Prices differ by factors, so use the geometric mean.
        return _spread_over(np.concatenate([[0.0], np.sqrt(prices[1:] * prices[:-1]), 2 * prices[-1:]]))

    def choices(self, p: Floats, costs: Floats, settings: Floats) -> Ints:
        order = np.argsort(costs, kind="stable")
        known = (np.isfinite(p) & np.isfinite(costs))[:, order]
        # Slightly above 0, so that of two equally cheap fixers the likelier one is taken.
        solve_usd = np.maximum(settings, 1e-12)[:, None, None]
        gain = np.where(
            known, solve_usd * np.where(known, p[:, order], 0.0) - np.where(known, costs[order], 0.0), -np.inf
        )
        return np.where(known.any(axis=1), order[gain.argmax(axis=2)], _anchors(self.anchor, p, costs))


def rules(anchor: int | None = None) -> dict[Policy, Rule]:
    return {"paper": Walk(anchor), "value": Worth(anchor)}


@dataclass(frozen=True)
class Picked:
    """The cheapest setting that solves as much as the strongest fixer alone."""

    setting: float
    reached: bool
    """False: none does, and this is the one that solves most."""


@dataclass(frozen=True, eq=False)
class MatchedChoices:
    """The rule's choice for each task, with a setting chosen on other tasks."""

    table: OutcomeTable
    """The tasks with outcomes of every fixer."""
    choices: Ints
    by_fold: tuple[Picked, ...]

    @property
    def resolved(self) -> Floats:
        return self.table.resolved[np.arange(len(self.choices)), self.choices].astype(np.float64)

    @property
    def cost(self) -> Floats:
        return self.table.cost[np.arange(len(self.choices)), self.choices]


class SweepPoint(FrozenModel):
    """One setting on all tasks. Pairs without an outcome make the solve rate an interval."""

    setting: float
    solve_low: float
    solve_high: float
    """If all of them succeed."""
    usd: float | None
    """Mean dollars per task, with a fixer's mean for unknown costs; None: that mean is unknown too."""
    unmeasured: int
    """Tasks whose pair has no outcome."""


class Baseline(FrozenModel):
    """A simpler strategy, and its comparison with the router."""

    name: str
    kind: Kind
    solve: float
    usd: float
    solve_gain: Estimate | None = None
    """The router's solve rate minus this one's. None: it is the router."""
    saving: Estimate | None = None
    """The share of this one's cost that the router saves.

    None: it is the router, has the same cost by construction, or is free.
    """


class Calibration(FrozenModel):
    version: Literal[1] = 1
    made: date
    policy: Policy
    arm: Arm
    fixers: tuple[str, ...]
    tasks: int
    """Tasks with an outcome of every fixer; the figures are of these."""
    left_out: int
    repositories: int
    folds: int
    tolerance: float
    """Tolerated loss of solve rate against the strongest fixer alone."""
    spaces: tuple[str, ...]
    setting: float
    """Chosen on all tasks: a theta, or the worth of a solve in dollars."""
    thetas: dict[str, float] = Field(default_factory=dict)
    """By combination of feature spaces. A missing combination has no theta; another's does not apply."""
    solve_usds: dict[str, float] = Field(default_factory=dict)
    """The same for the worth of a solve."""
    dial: Dial
    ours: Baseline
    ours_solve: Estimate
    ours_usd: Estimate
    over_hull: Estimate | None
    """The router's solve rate minus that of the best random mix of fixers at its cost; None: no mix is that cheap."""
    baselines: tuple[Baseline, ...]
    shares: dict[str, float]
    by_fold: tuple[float, ...]
    sweep: tuple[SweepPoint, ...]
    warnings: tuple[str, ...] = ()

    @property
    def strongest(self) -> Baseline:
        return next(line for line in self.baselines if line.kind == "strongest")

    def theta(self, spaces: Iterable[str]) -> float | None:
        """The calibrated theta of exactly these spaces; None: there is none."""
        return self.thetas.get(combination(spaces))

    def solve_usd(self, spaces: Iterable[str]) -> float | None:
        """The calibrated worth of a solve for exactly these spaces; None: there is none."""
        return self.solve_usds.get(combination(spaces))


def pick(table: OutcomeTable, rule: Rule, tolerance: float = 0.0) -> Picked:
    """The cheapest setting whose solve rate reaches the strongest fixer's."""
    costs = table.mean_costs
    settings = rule.settings(table.probabilities, costs)
    chosen = rule.choices(table.probabilities, costs, settings)
    rows = np.arange(len(table.ids))
    solve, usd = table.resolved[rows, chosen].mean(axis=1), table.cost[rows, chosen].mean(axis=1)
    reached = solve >= table.resolved.mean(axis=0).max() - tolerance - EPS
    if reached.any():
        at = np.lexsort((settings, -solve, np.where(reached, usd, np.inf)))[0]
    else:
        at = np.lexsort((settings, usd, -solve))[0]
    return Picked(float(settings[at]), bool(reached.any()))


def matched(table: OutcomeTable, folds: Ints, rule: Rule, tolerance: float = 0.0) -> MatchedChoices:
    """The matched-point rule, held out: each fold uses the setting that the other folds choose."""
    whole = np.asarray(table.measured.all(axis=1))
    tasks, folds = table.rows(whole).priced(), folds[whole]
    choices = np.zeros(len(folds), dtype=np.int64)
    by_fold = []
    for fold in np.unique(folds):
        test = np.asarray(folds == fold)
        if test.all():
            raise RouteError("every task is in one fold. Add outcomes of another repository.")
        known, new = tasks.rows(~test), tasks.rows(test)
        picked = pick(known, rule, tolerance)
        choices[test] = rule.choices(new.probabilities, known.mean_costs, np.array([picked.setting]))[0]
        by_fold.append(picked)
    return MatchedChoices(tasks, choices, tuple(by_fold))


def sweep(table: OutcomeTable, rule: Rule, settings: Sequence[float] | None = None) -> list[SweepPoint]:
    """Each setting over all tasks, with bounds for pairs without an outcome. None: all candidate settings."""
    costs = table.mean_costs
    tried = rule.settings(table.probabilities, costs) if settings is None else np.array(settings, dtype=np.float64)
    chosen = rule.choices(table.probabilities, costs, tried)
    rows = np.arange(len(table.ids))
    measured = table.measured[rows, chosen]
    solved = table.resolved[rows, chosen] & measured
    usd = np.where(table.measured & np.isfinite(table.cost), table.cost, costs)[rows, chosen].mean(axis=1)
    return [
        SweepPoint(
            setting=float(setting),
            solve_low=float(solved[at].mean()),
            solve_high=float((solved[at] | ~measured[at]).mean()),
            usd=float(usd[at]) if np.isfinite(usd[at]) else None,
            unmeasured=int((~measured[at]).sum()),
        )
        for at, setting in enumerate(tried)
    ]


def constant_warning(choices: Ints, fixers: Sequence[str]) -> str:
    """A warning if the router nearly always takes the same fixer; empty: it does not."""
    counts = np.bincount(choices, minlength=len(fixers))
    share = counts.max() / len(choices)
    if share < CONSTANT:
        return ""
    name, often = fixers[int(counts.argmax())], percent(share, 0)
    return f"this router is a constant: it takes {name} for {often} of the tasks, and {name} alone needs no router"


def calibrate(
    table: OutcomeTable,
    folds: Ints,
    *,
    policy: Policy,
    arm: Arm,
    spaces: Sequence[str],
    anchor: str = "",
    tolerance: float = 0.0,
    progress: Callable[[str], None] = lambda words: None,
) -> Calibration:
    """Calibrate a policy's setting and compare it with every baseline. `anchor`: empty as in the settings."""
    _enough(table)
    if anchor and anchor not in table.fixers:
        raise RouteError(
            f"the anchor {anchor} has no outcomes; there are some of {', '.join(table.fixers)}. Add its own."
        )
    by_policy = rules(table.fixers.index(anchor) if anchor else None)
    rule = by_policy[policy]
    progress(f"choosing a setting on each of {len(np.unique(folds))} folds")
    ours = matched(table, folds, rule, tolerance)
    tasks = ours.table
    picked = {name: pick(tasks, one, tolerance).setting for name, one in by_policy.items()}
    progress(f"resampling {len(tasks.ids)} tasks")
    draws = resamples(len(tasks.ids))
    means = _Means.of(ours.resolved, ours.cost, draws)
    alone = [_Means.of(tasks.resolved[:, at], tasks.cost[:, at], draws) for at in range(len(tasks.fixers))]
    mixed = _mixed(means, alone)
    over_hull = estimate(means.solve - mixed.solve, means.solves - mixed.solves) if mixed else None
    key = combination(spaces)
    shares = np.bincount(ours.choices, minlength=len(tasks.fixers)) / len(ours.choices)
    points = sweep(table, rule)
    return Calibration(
        made=date.today(),
        policy=policy,
        arm=arm,
        fixers=tasks.fixers,
        tasks=len(tasks.ids),
        left_out=len(table.ids) - len(tasks.ids),
        repositories=len(set(tasks.groups)),
        folds=len(ours.by_fold),
        tolerance=tolerance,
        spaces=tuple(sorted(spaces)),
        setting=picked[policy],
        thetas={key: picked["paper"]},
        solve_usds={key: picked["value"]},
        dial=Dial.fit(tasks.probabilities, tasks.mean_costs),
        ours=Baseline(name=policy, kind="ours", solve=means.solve, usd=means.usd),
        ours_solve=estimate(means.solve, means.solves),
        ours_usd=estimate(means.usd, means.usds),
        over_hull=over_hull,
        baselines=tuple(_baselines(means, alone, mixed, tasks, draws)),
        shares=dict(zip(tasks.fixers, shares.tolist(), strict=True)),
        by_fold=tuple(one.setting for one in ours.by_fold),
        sweep=tuple(points[at] for at in _spread(len(points), MAX_SWEEP)),
        warnings=_warnings(ours, over_hull),
    )


def calibrate_folder(
    folder: Path,
    tasks: Path | None,
    settings: Settings,
    *,
    arm: Arm,
    policy: Policy,
    known: Sequence[Path] = (),
    progress: Callable[[str], None] = lambda words: None,
) -> Calibration:
    """The same from files of outcomes, with the router's probabilities, from heads fitted on other repositories.

    `known` are folders with task vectors and fitted heads. If every task has a state that a head accepts, the figures
    use text and state together, and the settings for the text alone are included.
    """
    progress(f"reading {folder}")
    table, texts = read_table(folder, tasks, arm)
    _enough(table)
    folds = group_folds(table.groups)
    named = settings.fixer(settings.route.anchor) if settings.route.anchor else None
    anchor = named.resume or str(named.key) if named else ""
    progress(f"predicting {len(texts)} tasks for {len(table.fixers)} fixers")
    found, missing = _predicted(table, texts, folds, settings, policy, known)
    made = [
        calibrate(
            table.with_probabilities(p), folds, policy=policy, arm=arm, spaces=spaces, anchor=anchor, progress=progress
        )
        for spaces, p in found
    ]
    settings_of_all: dict[str, dict[str, float]] = {"thetas": {}, "solve_usds": {}}
    for one in made:
        settings_of_all["thetas"] |= one.thetas
        settings_of_all["solve_usds"] |= one.solve_usds
    return made[-1].model_copy(update={**settings_of_all, "warnings": (*made[-1].warnings, *missing)})


def save(calibration: Calibration, folder: Path) -> Path:
    """Write it into the folder; keeps settings of other combinations if they have the same fixers and arm."""
    path = folder / FILE
    with alone(folder, "calibration"):
        former = load(folder)
        if former and (former.fixers, former.arm) == (calibration.fixers, calibration.arm):
            thetas, solve_usds = former.thetas | calibration.thetas, former.solve_usds | calibration.solve_usds
            calibration = calibration.model_copy(update={"thetas": thetas, "solve_usds": solve_usds})
        write(path, calibration.model_dump_json(indent=1).encode())
    return path


def changed(former: Calibration | None, now: Calibration) -> list[str]:
    """A calibration's settings compared with the former ones; a line per combination of spaces."""
    lines = []
    for key in sorted({*now.thetas, *now.solve_usds}):
        parts = []
        for name, show, found, before in (
            ("theta", "{:.3f}".format, now.thetas, former.thetas if former else {}),
            ("a solve is worth", usd, now.solve_usds, former.solve_usds if former else {}),
        ):
            if key in found:
                new, old = (show(one[key]) if key in one else "" for one in (found, before))
                was = "new" if not old else "as before" if old == new else f"was {old}"
                parts.append(f"{name} {new} ({was})")
        lines.append(f"{key}: {', '.join(parts)}")
    gone = sorted({*former.thetas, *former.solve_usds} - {*now.thetas, *now.solve_usds}) if former else []
    if former and gone:
        lines.append(f"{', '.join(gone)}: no longer set, as that was of {len(former.fixers)} fixers, {former.arm} arm")
    return lines


def load(folder: Path) -> Calibration | None:
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        return Calibration.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise RouteError(f"{path} is not a calibration: {error}. Make it again with `scrout calibrate`.") from None


@dataclass(frozen=True, eq=False)
class _Means:
    """A solve rate and dollars per task, over the tasks and over each resample of them."""

    solve: float
    usd: float
    solves: Floats
    usds: Floats

    @classmethod
    def of(cls, resolved: npt.ArrayLike, cost: Floats, draws: Floats) -> _Means:
        solved = np.asarray(resolved, dtype=np.float64)
        return cls(float(solved.mean()), float(cost.mean()), draws @ solved, draws @ cost)

    def beside(self, other: _Means, name: str, kind: Kind) -> Baseline:
        """The other strategy, with the router's advantages over it."""
        saving = None
        if other.usd > 0 and kind != "mix":
            drawn = np.divide(self.usds, other.usds, out=np.full(len(self.usds), np.nan), where=other.usds > 0)
            saving = estimate(1 - self.usd / other.usd, 1 - drawn)
        gain = estimate(self.solve - other.solve, self.solves - other.solves)
        return Baseline(name=name, kind=kind, solve=other.solve, usd=other.usd, solve_gain=gain, saving=saving)


def _mixed(ours: _Means, alone: Sequence[_Means]) -> _Means | None:
    """The best random mix of fixers at the router's cost; None: none is that cheap.

    A resample in which the router costs less than every fixer is compared with the cheapest, which spent more.
    """
    solve = float(hull_at(np.array([one.usd for one in alone]), np.array([one.solve for one in alone]), ours.usd))
    usds, solves = (np.column_stack([getattr(one, name) for one in alone]) for name in ("usds", "solves"))
    drawn = hull_at(usds, solves, np.maximum(ours.usds, usds.min(axis=1)))
    return _Means(solve, ours.usd, drawn, ours.usds) if np.isfinite(solve) else None


def _baselines(
    ours: _Means, alone: Sequence[_Means], mixed: _Means | None, table: OutcomeTable, draws: Floats
) -> list[Baseline]:
    """Every fixer alone, from cheap to expensive, then the mix at the router's cost and the oracle."""
    cheapest = min(alone, key=lambda one: (one.usd, -one.solve))
    strongest = min(alone, key=lambda one: (-one.solve, one.usd))
    lines = []
    for fixer, one in sorted(zip(table.fixers, alone, strict=True), key=lambda pair: pair[1].usd):
        kinds: list[Kind] = ["cheapest"] if one is cheapest else []
        kinds += ["strongest"] if one is strongest else []
        lines += [ours.beside(one, f"always {fixer}", kind) for kind in kinds or ["constant"]]
    if mixed:
        lines.append(ours.beside(mixed, "random mix at our cost", "mix"))
    rows, best = np.arange(len(table.ids)), _oracle(table)
    oracle = _Means.of(table.resolved[rows, best], table.cost[rows, best], draws)
    return [*lines, ours.beside(oracle, "oracle", "oracle")]


def _predicted(
    table: OutcomeTable, texts: Sequence[str], folds: Ints, settings: Settings, policy: Policy, known: Sequence[Path]
) -> tuple[list[tuple[tuple[str, ...], Floats]], tuple[str, ...]]:
    """Probabilities by the combinations of spaces that all tasks have, the largest last; and why a larger one is
    missing.
    """
    if policy == "paper":
        from scrout.route.embed import open_embedder

        embedder = open_embedder(settings.route.embedder)
        space = text_space(embedder)
        return [((space,), by_resumes(table, {space: embedder.embed(texts)}, folds))], ()
    features = np.array([text_counts.count(text) for text in texts], dtype=np.float64)
    found: list[tuple[tuple[str, ...], Floats]] = [
        ((text_counts.SPACE,), by_difficulty(table, features, text_counts.NAMES, [text_counts.SPACE], folds))
    ]
    missing = []
    states = TaskVectors(*known)
    digests = [digest(text) for text in texts]
    for spaces, head in sorted(difficulty.load(*known).items(), key=lambda item: len(item[0])):
        if text_counts.SPACE not in spaces or len(spaces) == 1:
            continue
        has, parts = np.ones(len(texts), dtype=bool), []
        for space in spaces:
            there, rows = (has, features) if space == text_counts.SPACE else states.vectors(space, digests)
            has = has & there
            parts.append(rows)
        if has.all():
            joined = np.concatenate([np.asarray(part, dtype=np.float64) for part in parts], axis=1)
            found.append((spaces, by_difficulty(table, joined, head.names, spaces, folds)))
        else:
            lacking = f"{int((~has).sum())} of {len(texts)} tasks have no known state"
            missing.append(f"{lacking}, so nothing was calibrated for {combination(spaces)}")
    return found, tuple(missing)


def _enough(table: OutcomeTable) -> None:
    if len(table.fixers) < 2:
        raise RouteError(f"{', '.join(table.fixers)} is the only fixer. Add the outcomes of another on the same tasks.")
    whole = int(table.measured.all(axis=1).sum())
    if whole < MIN_TASKS:
        counts = table.measured.sum(axis=0)
        least = int(counts.argmin())
        raise RouteError(
            f"{whole} tasks have an outcome of all {len(table.fixers)} fixers, and calibration needs {MIN_TASKS}. "
            f"Add outcomes of {table.fixers[least]}, which has {counts[least]} of {len(table.ids)}, or leave it out."
        )


def _oracle(table: OutcomeTable) -> Ints:
    """For each task, the cheapest fixer that solves it; if none does, the cheapest."""
    solving = np.where(table.resolved, table.cost, np.inf)
    chosen: Ints = np.where(table.resolved.any(axis=1), solving.argmin(axis=1), table.cost.argmin(axis=1))
    return chosen


def _warnings(ours: MatchedChoices, over_hull: Estimate | None) -> tuple[str, ...]:
    said = [constant_warning(ours.choices, ours.table.fixers)]
    short = sum(not picked.reached for picked in ours.by_fold)
    if short:
        said.append(f"in {short} of {len(ours.by_fold)} folds no setting solved as much as the strongest fixer alone")
    if over_hull is None:
        said.append("it costs less than the cheapest fixer alone, so no random mix compares with it")
    elif over_hull.high < 0:
        said.append("it does worse than drawing fixers at random at the same cost")
    elif over_hull.low <= 0:
        said.append("not shown to beat drawing fixers at random at the same cost: the interval reaches 0")
    return tuple(words for words in said if words)


def _spread_over(found: Floats) -> Floats:
    """At most MAX_SETTINGS of them, ascending."""
    rising = np.unique(found)
    return rising[_spread(len(rising), MAX_SETTINGS)]


def _spread(n: int, most: int) -> list[int]:
    """At most this many indexes among n, evenly spaced, both ends included."""
    return list(range(n)) if n <= most else np.linspace(0, n - 1, most).round().astype(int).tolist()


def _anchors(named: int | None, p: Floats, costs: Floats) -> Ints:
    """The anchor's column for each task: the likeliest fixer if all its probabilities are known, otherwise the most
    expensive.
    """
    if named is not None:
        return np.full(len(p), named, dtype=np.int64)
    order = np.argsort(-np.where(np.isfinite(costs), costs, -np.inf), kind="stable")
    likeliest = order[np.where(np.isfinite(p), p, -np.inf)[:, order].argmax(axis=1)]
    anchors: Ints = np.where(np.isfinite(p).all(axis=1), likeliest, order[0])
    return anchors
