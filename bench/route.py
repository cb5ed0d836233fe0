"""What the router is worth on real outcomes, beside everything simpler.

    python bench/route.py --data DIR [--json] [--predictions FILE.csv] [--figure FILE.svg] [--out FILE.json]

DIR is laid out as described in src/scrout/lab/train/public.py, with `outcomes/verified_mini_swe_agent.csv.gz` and
`tasks/swebench_verified.jsonl.gz` beside. Recon's states are read from bench/results/states_*.npz (bench/states.py).
Verified: the 12 models of mini-SWE-agent 2.0.0. Multilingual: 13 models on the tasks that all of them tried.

Folds are whole repositories, and everything is nested: for each test fold, heads, résumés and settings come from the
other folds alone, with probabilities of their tasks predicted in inner folds. Nothing reads gold, difficulty labels, or
other models' outcomes of a test task; the rows under `hindsight` do, and are there to show what more could be known.

arms (each a way to predict probabilities; all choose by what a solve is worth, but `paper`, which walks by theta)
    base rate       every task alike
    knn             share solved among the 25 nearest training tasks (MiniLM), shrunk to the base rate
    logistic        a penalized logistic regression on MiniLM for each model
    paper           the paper's recipe on MiniLM
    ours, text      difficulty.py on counts of the text; lessons of the public sets join the training folds
    ours            the same with recon's state
auc_within_fixer    mean over models of the AUC of its probabilities, all test folds together
auc_within_fold     the same within each test fold, weighted by pairs: free of shifts between folds
points_over_hull    solve rate less that of the best random mix of the pool's models at the same dollars a task, the
                    mix taken in hindsight on the same tasks. By what a solve is worth: nothing is matched, so a model
                    that looked strongest by luck is not chased
headline            all top-level figures and the predictions are of one router: a solve is worth $10
saving              share of the dollars saved beside the cheapest constant or mixture that, on the training folds,
                    solves as much as the strongest model (the rival). `tolerance` points of solve rate may be given
                    up on the training folds; `saving_over_mix` gives the rival the same tolerance
escalation          simulated: where a failed patch is proven wrong by a kept reproduction, the next model tries. A
                    wrong patch is caught with the gate's measured recall, a right one is suspected with its measured
                    false rate at most, on the share of tasks that have a reproduction (`coverage`). Assumed: catches
                    are independent of the task. Beside it, the same if only half of the wrong patches are caught
onboarding          one model's ability from 50 outcomes instead of all, the pool's other models as they are
intervals           95%, from resampling tasks 2,000 times (AUC and Brier 500, pools of four 200), settings held
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from record import record

from scrout.config.settings import EmbedderSettings
from scrout.intervals import Estimate
from scrout.lab.train.public import read_label_run, read_multilingual, tabulate
from scrout.plot import Mark
from scrout.route import difficulty, heldout, text_counts
from scrout.route.calibrate import OutcomeTable, Walk, Worth, group_folds
from scrout.route.calibration_plot import beside
from scrout.route.difficulty import DifficultyData
from scrout.route.embed import open_embedder
from scrout.route.outcomes import read_rows, read_texts
from scrout.route.resume import SHIPPED
from scrout.route.stats import Floats, estimate, hull_at, mix, resamples

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Predict = Callable[["Data", Bools, Bools], Floats]
"""Probabilities of the tasks in the second mask, learned from those in the first."""

VERSION = "2.0.0"
PAPER4 = (
    "Claude Opus 4.6",
    "GPT-5-2 (high reasoning)",
    "Gemini 3 Flash (high reasoning)",
    "Kimi K2.5 (high reasoning)",
)
POOL = 4
NEIGHBOURS, SHRINK = 25, 10.0
RIDGE = 30.0
INNER = 4
TOLERANCES = (0.0, 0.01)
WORTHS = (1.0, 3.0, 10.0, 30.0)
HEADLINE = 10.0
"""Dollars a solve is worth where one figure has to be named."""
COVERAGES = (0.19, 0.5, 1.0)
"""0.19: the share of the paper's handoffs whose reproduction genuinely fails (50 of 266); 1: every task has one."""
HALF = 0.5
"""Wrong patches caught, should the gate's recall on claims say too much of patches."""
FIRST = 3.0
"""What a solve is worth in the first try where a second one may follow."""
ONBOARDED = 50
ONBOARDINGS = 20
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, eq=False)
class Data:
    """One benchmark: outcomes, and what may be known of its tasks before any fixer runs."""

    table: OutcomeTable
    counted: Floats
    states: Floats
    names: tuple[str, ...]
    """Of the states' numbers."""
    space: str
    vectors: npt.NDArray[np.float32]
    text_space: str
    gold_lines: Floats
    """Lines that the true patch changes; for hindsight alone."""
    lessons: tuple[DifficultyData, DifficultyData]
    """Of other tasks: for counts, and for counts and states."""


@dataclass(frozen=True, eq=False)
class Fold:
    """One split: the tasks to learn from with their inner held-out probabilities, and the tasks to decide."""

    known: Bools
    inner: Floats
    new: Bools
    probabilities: Floats


@dataclass(frozen=True, eq=False)
class Spent:
    """What came of decisions, task by task; shares of tasks where a mixture decided."""

    solved: Floats
    cost: Floats


def nested(data: Data, predict: Predict) -> list[Fold]:
    """Every outer fold, with probabilities of its training tasks predicted in folds of their own."""
    groups = data.table.groups
    outer = group_folds(groups)
    found = []
    for fold in np.unique(outer):
        known, new = outer != fold, outer == fold
        at = np.flatnonzero(known)
        inner_folds = group_folds([groups[i] for i in at.tolist()], INNER)
        inner = np.zeros((len(at), len(data.table.fixers)))
        for one in np.unique(inner_folds):
            learn, held = (_mask(at[chosen], len(groups)) for chosen in (inner_folds != one, inner_folds == one))
            inner[inner_folds == one] = predict(data, learn, held)
        found.append(Fold(known, inner, new, predict(data, known, new)))
    return found


def base_rate(data: Data, known: Bools, new: Bools) -> Floats:
    return np.tile(data.table.resolved[known].mean(axis=0), (int(new.sum()), 1))


def knn(data: Data, known: Bools, new: Bools) -> Floats:
    similar = data.vectors[new] @ data.vectors[known].T
    nearest = np.argsort(-similar, axis=1, kind="stable")[:, :NEIGHBOURS]
    resolved = data.table.resolved[known]
    return (resolved[nearest].sum(axis=1) + SHRINK * resolved.mean(axis=0)) / (NEIGHBOURS + SHRINK)


def logistic(data: Data, known: Bools, new: Bools) -> Floats:
    x = data.vectors[known].astype(np.float64)
    mean, scale = x.mean(axis=0), x.std(axis=0)
    z, held = (x - mean) / scale, (data.vectors[new] - mean) / scale
    probabilities = np.zeros((len(held), len(data.table.fixers)))
    for column in range(probabilities.shape[1]):
        w, intercept = _logistic(z, data.table.resolved[known, column].astype(np.float64))
        probabilities[:, column] = 1 / (1 + np.exp(-(held @ w + intercept)))
    return probabilities


def paper(data: Data, known: Bools, new: Bools) -> Floats:
    standings = heldout.standings(data.table, data.vectors, known)
    head = heldout.fit_resumes(data.table, data.text_space, data.vectors, standings, known)
    probabilities = np.zeros((int(new.sum()), len(standings)))
    for column, standing in enumerate(standings):
        assert standing is not None
        probabilities[:, column] = head.predict_proba(data.vectors[new], [standing] * len(probabilities))
    return probabilities


def ours_text(data: Data, known: Bools, new: Bools) -> Floats:
    return _ours(data, data.counted, text_counts.NAMES, [text_counts.SPACE], data.lessons[0], known, new)


def ours(data: Data, known: Bools, new: Bools) -> Floats:
    features = np.concatenate([data.counted, data.states], axis=1)
    names, spaces = (*text_counts.NAMES, *data.names), [text_counts.SPACE, data.space]
    return _ours(data, features, names, spaces, data.lessons[1], known, new)


def _ours(
    data: Data,
    features: Floats,
    names: Sequence[str],
    spaces: Sequence[str],
    more: DifficultyData,
    known: Bools,
    new: Bools,
) -> Floats:
    table = data.table.rows(known)
    head = heldout.fit_difficulty(table, features[known], names, spaces, more)
    return heldout.predict(head, table, features[known], features[new])


ARMS: dict[str, Predict] = {
    "base rate": base_rate,
    "knn": knn,
    "logistic": logistic,
    "paper": paper,
    "ours, text": ours_text,
    "ours": ours,
}


def gold_size(data: Data, known: Bools, new: Bools) -> Floats:
    """In hindsight: the size of the true patch in place of all that we measure."""
    features = np.log1p(data.gold_lines)[:, None]
    head = heldout.fit_difficulty(data.table.rows(known), features[known], ["top_confidence"], ["gold"])
    return heldout.predict(head, data.table.rows(known), features[known], features[new])


def others(data: Data, known: Bools, new: Bools) -> Floats:
    """In hindsight: what the other models made of the same task."""
    probabilities = np.zeros((int(new.sum()), len(data.table.fixers)))
    for column in range(probabilities.shape[1]):
        rate = np.delete(data.table.resolved, column, axis=1).mean(axis=1)[:, None]
        one = replace(
            data.table,
            fixers=data.table.fixers[column : column + 1],
            resolved=data.table.resolved[:, [column]],
            cost=data.table.cost[:, [column]],
            measured=data.table.measured[:, [column]],
        )
        head = heldout.fit_difficulty(one.rows(known), rate[known], ["top_confidence"], ["others"])
        probabilities[:, column] = heldout.predict(head, one.rows(known), rate[known], rate[new])[:, 0]
    return probabilities


OTHERS = "other models' outcomes"
HINDSIGHT: dict[str, Predict] = {"size of the true patch": gold_size, OTHERS: others}


def pooled(table: OutcomeTable, folds: Sequence[Fold]) -> Floats:
    probabilities = np.zeros(table.resolved.shape)
    for fold in folds:
        probabilities[fold.new] = fold.probabilities
    return probabilities


def quality(table: OutcomeTable, folds: Sequence[Fold]) -> dict[str, object]:
    """How good the probabilities are."""
    p, y = pooled(table, folds), table.resolved
    draws = np.random.default_rng(0).integers(0, len(p), (500, len(p)))
    aucs = np.array([_auc_within(p[draw], y[draw]) for draw in draws])
    brier = ((p - y) ** 2).mean(axis=1)
    return {
        "auc_within_fixer": _rounded(estimate(_auc_within(p, y), aucs)),
        "auc_within_fold": round(_auc_within_fold(table, folds), 4),
        "brier": _rounded(estimate(float(brier.mean()), brier[draws].mean(axis=1))),
        "reliability": _reliability(p, y),
    }


def decide(table: OutcomeTable, folds: Sequence[Fold], pool: Sequence[int], walk: bool, tolerance: float) -> Ints:
    """The model for each task, with a setting that the training folds chose; the pool's own columns."""
    choices = np.zeros(len(table.ids), dtype=np.int64)
    for fold in folds:
        resolved, cost = (values[fold.known][:, pool] for values in (table.resolved, table.cost))
        costs, inner = cost.mean(axis=0), fold.inner[:, pool]
        rule = Walk(int(resolved.mean(axis=0).argmax())) if walk else Worth()
        settings = rule.settings(inner, costs)
        chosen = rule.choices(inner, costs, settings)
        rows = np.arange(len(inner))
        # What is expected of a setting by the probabilities themselves is far less noisy than what came of it.
        expected = inner[rows, chosen].mean(axis=1)
        spent = cost[rows, chosen].mean(axis=1)
        target = inner.mean(axis=0).max() - tolerance
        reached = expected >= target - 1e-12
        setting = settings[np.where(reached, spent, np.inf).argmin()] if reached.any() else settings[expected.argmax()]
        choices[fold.new] = rule.choices(fold.probabilities[:, pool], costs, np.array([setting]))[0]
    return choices


def rival(table: OutcomeTable, folds: Sequence[Fold], pool: Sequence[int], tolerance: float) -> Spent:
    """The cheapest constant or mixture that solves as much as the strongest on the training folds."""
    solved, cost = np.zeros(len(table.ids)), np.zeros(len(table.ids))
    for fold in folds:
        rates = table.resolved[fold.known][:, pool].mean(axis=0)
        costs = table.cost[fold.known][:, pool].mean(axis=0)
        shares = _cheapest_mix(rates, costs, rates.max() - tolerance)
        solved[fold.new] = table.resolved[fold.new][:, pool] @ shares
        cost[fold.new] = table.cost[fold.new][:, pool] @ shares
    return Spent(solved, cost)


def taken(table: OutcomeTable, pool: Sequence[int], choices: Ints) -> Spent:
    rows = np.arange(len(choices))
    return Spent(table.resolved[:, pool][rows, choices].astype(np.float64), table.cost[:, pool][rows, choices])


def over_hull(table: OutcomeTable, pool: Sequence[int], spent: Spent, draws: Floats) -> Estimate:
    """In percentage points."""
    solves, costs = draws @ table.resolved[:, pool], draws @ table.cost[:, pool]
    own, paid = draws @ spent.solved, draws @ spent.cost
    drawn = own - hull_at(costs, solves, np.maximum(paid, costs.min(axis=1)))
    at = max(float(spent.cost.mean()), float(table.cost[:, pool].mean(axis=0).min()))
    alone = hull_at(table.cost[:, pool].mean(axis=0), table.resolved[:, pool].mean(axis=0), at)
    return estimate(100 * (float(spent.solved.mean()) - float(alone)), 100 * drawn)


def saving(spent: Spent, other: Spent, draws: Floats) -> Estimate:
    return estimate(1 - float(spent.cost.sum() / other.cost.sum()), 1 - (draws @ spent.cost) / (draws @ other.cost))


def by_worth(table: OutcomeTable, folds: Sequence[Fold], pool: Sequence[int], solve_usd: float) -> Ints:
    """The model for each task, where a solve is worth so much; nothing is chosen on outcomes but the probabilities."""
    choices = np.zeros(len(table.ids), dtype=np.int64)
    for fold in folds:
        costs = table.cost[fold.known][:, pool].mean(axis=0)
        choices[fold.new] = Worth().choices(fold.probabilities[:, pool], costs, np.array([solve_usd]))[0]
    return choices


def pool_report(
    table: OutcomeTable, folds: Sequence[Fold], pool: Sequence[int], walk: bool, draws: Floats
) -> dict[str, object]:
    """One arm on one pool: by what a solve is worth, and matched to the strongest on the training folds."""
    result: dict[str, object] = {}
    best = rival(table, folds, pool, 0.0)
    result["rival"] = {
        "solve_rate": round(float(best.solved.mean()), 4),
        "usd_per_task": round(float(best.cost.mean()), 4),
    }
    result["by_worth"] = {
        f"${solve_usd:g}": _told(table, pool, by_worth(table, folds, pool, solve_usd), best, draws)
        for solve_usd in WORTHS
    }
    for tolerance in TOLERANCES:
        same = rival(table, folds, pool, tolerance)
        choices = decide(table, folds, pool, walk, tolerance)
        told = _told(table, pool, choices, best, draws)
        told["saving_over_mix"] = _rounded(saving(taken(table, pool, choices), same, draws))
        told["mix_solve_rate"] = round(float(same.solved.mean()), 4)
        result[f"tolerance {tolerance:g}"] = told
    spent = taken(table, pool, by_worth(table, folds, pool, HEADLINE))
    saved, hull = saving(spent, best, draws), over_hull(table, pool, spent, draws)
    result["saving_over_best_constant"] = round(saved.value, 4)
    result["saving_over_best_constant_ci"] = [round(saved.low, 4), round(saved.high, 4)]
    result["points_over_hull"] = round(hull.value, 2)
    result["points_over_hull_ci"] = [round(hull.low, 2), round(hull.high, 2)]
    return result


def _told(table: OutcomeTable, pool: Sequence[int], choices: Ints, best: Spent, draws: Floats) -> dict[str, object]:
    """What came of decisions, beside the rival and the hull."""
    spent = taken(table, pool, choices)
    gained = spent.solved - best.solved
    shares = np.bincount(choices, minlength=len(pool)) / len(choices)
    return {
        "solve_rate": round(float(spent.solved.mean()), 4),
        "usd_per_task": round(float(spent.cost.mean()), 4),
        "usd_per_solve": round(float(spent.cost.sum() / spent.solved.sum()), 4),
        "solve_points_beside_rival": _rounded(estimate(100 * float(gained.mean()), 100 * (draws @ gained)), 2),
        "saving_over_rival": _rounded(saving(spent, best, draws)),
        "points_over_hull": _rounded(over_hull(table, pool, spent, draws), 2),
        "shares": {table.fixers[at]: round(float(share), 3) for at, share in zip(pool, shares, strict=True) if share},
    }


def every_pool(table: OutcomeTable, folds: Sequence[Fold], walk: bool) -> dict[str, object]:
    """Medians over all pools of four; the interval is that of the median under resampled tasks."""
    pools = list(itertools.combinations(range(len(table.fixers)), POOL))
    draws = resamples(len(table.ids), 200)
    result: dict[str, object] = {"pools": len(pools)}
    for tolerance in TOLERANCES:
        ours_, bests, sames, hulls, points, mixed = [], [], [], [], [], []
        for pool in pools:
            spent = taken(table, pool, decide(table, folds, pool, walk, tolerance))
            best, same = rival(table, folds, pool, 0.0), rival(table, folds, pool, tolerance)
            ours_.append(spent.cost)
            bests.append(best.cost)
            sames.append(same.cost)
            points.append(100 * float((spent.solved - best.solved).mean()))
            mixed.append(100 * float((same.solved - best.solved).mean()))
            hulls.append(over_hull(table, pool, spent, resamples(len(table.ids), 2)).value)
        cost, best_cost, same_cost = (np.array(rows) for rows in (ours_, bests, sames))
        result[f"tolerance {tolerance:g}"] = {
            "median_saving_over_rival": _rounded(_median_saving(cost, best_cost, draws)),
            "median_saving_over_mix": _rounded(_median_saving(cost, same_cost, draws)),
            "median_saving_of_mix_over_rival": _rounded(_median_saving(same_cost, best_cost, draws)),
            "median_solve_points_beside_rival": round(float(np.median(points)), 2),
            "median_solve_points_of_mix": round(float(np.median(mixed)), 2),
            "share_of_pools_within_a_point": round(float((np.array(points) >= -1.0).mean()), 3),
            "median_points_over_hull": round(float(np.median(hulls)), 2),
            "worst_points_over_hull": round(float(min(hulls)), 2),
        }
    for solve_usd in WORTHS:
        hulls, points, costs, best_costs = [], [], [], []
        for pool in pools:
            spent, best = taken(table, pool, by_worth(table, folds, pool, solve_usd)), rival(table, folds, pool, 0.0)
            hulls.append(over_hull(table, pool, spent, draws[:2]).value)
            points.append(100 * float((spent.solved - best.solved).mean()))
            costs.append(spent.cost)
            best_costs.append(best.cost)
        result[f"worth ${solve_usd:g}"] = {
            "median_saving_over_rival": _rounded(_median_saving(np.array(costs), np.array(best_costs), draws)),
            "median_solve_points_beside_rival": round(float(np.median(points)), 2),
            "share_of_pools_within_a_point": round(float((np.array(points) >= -1.0).mean()), 3),
            "worst_points_over_hull": round(float(min(hulls)), 2),
            "median_points_over_hull": round(float(np.median(hulls)), 2),
            "mean_points_over_hull": round(float(np.mean(hulls)), 2),
            "share_of_pools_at_most_half_a_point_below": round(float((np.array(hulls) >= -0.5).mean()), 3),
        }
    return result


def _median_saving(cost: Floats, other: Floats, draws: Floats) -> Estimate:
    drawn = np.median(1 - (cost @ draws.T) / (other @ draws.T), axis=0)
    return estimate(float(np.median(1 - cost.sum(axis=1) / other.sum(axis=1))), drawn)


def escalated(
    table: OutcomeTable, folds: Sequence[Fold], pool: Sequence[int], gate: Mapping[str, float]
) -> Iterator[tuple[float, float, Spent]]:
    """First the router's choice at a low worth, as a failure can be mended; where it is caught, the likeliest other."""
    rows = np.arange(len(table.ids))
    first = by_worth(table, folds, pool, FIRST)
    probabilities = pooled(table, folds)[:, pool]
    probabilities[rows, first] = -1.0
    second = probabilities.argmax(axis=1)
    (right, paid), (right_then, paid_then) = (
        (table.resolved[:, pool][rows, choice], table.cost[:, pool][rows, choice]) for choice in (first, second)
    )
    for coverage, recall in itertools.product(COVERAGES, (gate["recall"], HALF)):
        # Over many runs of the check: how often the second model gets the task.
        again = coverage * np.where(right, gate["false_rate"], recall)
        yield coverage, recall, Spent((1 - again) * right + again * right_then, paid + again * paid_then)


def escalation(
    table: OutcomeTable, folds: Sequence[Fold], pool: Sequence[int], gate: Mapping[str, float]
) -> list[dict[str, object]]:
    draws = resamples(len(table.ids))
    found: list[dict[str, object]] = []
    for coverage, recall, spent in escalated(table, folds, pool, gate):
        hull = over_hull(table, pool, spent, draws)
        found.append(
            {
                "coverage": coverage,
                "wrong_patches_caught": recall,
                "solve_rate": round(float(spent.solved.mean()), 4),
                "usd_per_task": round(float(spent.cost.mean()), 4),
                "points_over_hull": round(hull.value, 2),
                "points_over_hull_ci": [round(hull.low, 2), round(hull.high, 2)],
            }
        )
    return found


def onboarding(data: Data, pools: Sequence[Sequence[int]]) -> dict[str, object]:
    """Each model in turn is new: its ability comes from 50 outcomes of the training folds instead of all."""
    table = data.table
    features = np.concatenate([data.counted, data.states], axis=1)
    names, spaces = (*text_counts.NAMES, *data.names), [text_counts.SPACE, data.space]
    folds = group_folds(table.groups)
    rng = np.random.default_rng(0)
    full = np.zeros(table.resolved.shape)
    few = np.zeros((ONBOARDINGS, *table.resolved.shape))
    for fold in np.unique(folds):
        known, new = folds != fold, folds == fold
        rows = table.rows(known)
        head = heldout.fit_difficulty(rows, features[known], names, spaces, data.lessons[1])
        full[new] = heldout.predict(head, rows, features[known], features[new])
        for repeat in range(ONBOARDINGS):
            measured = np.zeros(rows.measured.shape, dtype=bool)
            for column in range(len(table.fixers)):
                measured[rng.choice(len(measured), ONBOARDED, replace=False), column] = True
            few[repeat][new] = heldout.predict(head, replace(rows, measured=measured), features[known], features[new])
    gaps = []
    for pool in pools:
        costs = table.cost[:, pool].mean(axis=0)
        for solve_usd in (1.0, 3.0, 10.0):
            rule, setting = Worth(), np.array([solve_usd])
            seen = taken(table, pool, rule.choices(full[:, pool], costs, setting)[0]).solved.mean()
            for column in range(len(pool)):
                for repeat in range(ONBOARDINGS):
                    p = full[:, pool].copy()
                    p[:, column] = few[repeat][:, pool[column]]
                    gaps.append(100 * (seen - taken(table, pool, rule.choices(p, costs, setting)[0]).solved.mean()))
    return {
        "outcomes": ONBOARDED,
        "mean_gap_points": round(float(np.mean(gaps)), 2),
        "p95_gap_points": round(float(np.quantile(gaps, 0.95)), 2),
        "worst_gap_points": round(float(np.max(gaps)), 2),
        "mean_absolute_chance_error": round(float(np.abs(few - full).mean()), 4),
    }


def read_verified(data: Path) -> tuple[OutcomeTable, dict[str, str], dict[str, str]]:
    outcomes = data / "outcomes" / "verified_mini_swe_agent.csv.gz"
    rows = [row for _, row in read_rows(outcomes) if row["mini_swe_agent_version"] == VERSION]
    ids, models = sorted({row["instance_id"] for row in rows}), sorted({row["model"] for row in rows})
    resolved, cost = np.zeros((len(ids), len(models)), dtype=bool), np.full((len(ids), len(models)), np.nan)
    place, column = ({name: at for at, name in enumerate(names)} for names in (ids, models))
    for row in rows:
        at = place[row["instance_id"]], column[row["model"]]
        resolved[at], cost[at] = row["resolved"] == "1", float(row["cost_usd"])
    repos = _repos(data / "tasks" / "swebench_verified.jsonl.gz")
    groups = tuple(repos[name] for name in ids)
    table = OutcomeTable(
        tuple(ids), groups, tuple(models), resolved, cost, np.ones(resolved.shape, dtype=bool)
    ).priced()
    return table, read_texts(data / "tasks" / "swebench_verified.jsonl.gz"), repos


def read_data(data: Path, benchmark: str) -> tuple[Data, list[str]]:
    multilingual, label_run = tabulate(read_multilingual(data)), tabulate(read_label_run(data))
    if benchmark == "verified":
        table, texts, _ = read_verified(data)
        other = [(*multilingual, "multilingual"), (*label_run, "label")]
    else:
        table, texts = multilingual
        other = [(*label_run, "label")]
    space, names, states = _states(benchmark)
    table = table.rows(np.array([name in states for name in table.ids]) & table.measured.all(axis=1)).priced()
    embedder = open_embedder(EmbedderSettings(kind="minilm"))
    gold = _gold_lines(data / "tasks" / f"swebench_{benchmark}.jsonl.gz")
    read = [texts[name] for name in table.ids]
    found = Data(
        table=table,
        counted=np.array([text_counts.count(text) for text in read], dtype=np.float64),
        states=np.array([states[name] for name in table.ids]),
        names=names,
        space=space,
        vectors=embedder.embed(read),
        text_space=f"text/{embedder.name}",
        gold_lines=np.array([gold[name] for name in table.ids]),
        lessons=_lessons(other),
    )
    return found, read


def _lessons(sets: Sequence[tuple[OutcomeTable, dict[str, str], str]]) -> tuple[DifficultyData, DifficultyData]:
    of_counts, of_both = [], []
    for table, texts, name in sets:
        counted = np.array([text_counts.count(texts[one]) for one in table.ids], dtype=np.float64)
        of_counts.append(heldout.lessons(table, counted))
        _, _, states = _states(name)
        seen = np.array([one in states for one in table.ids])
        rows = np.array([states[one] for one in table.ids if one in states])
        of_both.append(heldout.lessons(table.rows(seen), np.concatenate([counted[seen], rows], axis=1)))
    first, second = (all_[0] if len(all_) == 1 else all_[0].joined(all_[1]) for all_ in (of_counts, of_both))
    return first, second


def _states(name: str) -> tuple[str, tuple[str, ...], dict[str, Floats]]:
    with np.load(RESULTS / f"states_{name}.npz", allow_pickle=False) as stored:
        rows = dict(zip(stored["ids"].tolist(), stored["rows"].astype(np.float64), strict=True))
        return str(stored["space"]), tuple(stored["names"].tolist()), rows


def _repos(tasks: Path) -> dict[str, str]:
    return {row["instance_id"]: row["repo"] for _, row in read_rows(tasks)}


def _gold_lines(tasks: Path) -> dict[str, float]:
    found = {}
    for _, row in read_rows(tasks):
        spans = [span for regions in row["gold_regions"].values() for span in regions]
        found[row["instance_id"]] = float(sum(last - first + 1 for first, last in spans))
    return found


def _languages(tasks: Path, data: Data) -> list[str]:
    """By the commonest suffix of the changed files: for a test in hindsight alone."""
    found = {}
    for _, row in read_rows(tasks):
        suffixes = [Path(name).suffix for name in row["gold_files"] if Path(name).suffix != ".md"] or [""]
        found[row["instance_id"]] = max(sorted(set(suffixes)), key=suffixes.count)
    return [found[name] for name in data.table.ids]


def _cheapest_mix(rates: Floats, costs: Floats, target: float) -> Floats:
    """How often to draw each, so that the rate reaches the target at the least cost."""
    low, high = float(costs.min()), float(costs[rates.argmax()])
    if float(hull_at(costs, rates, low)) >= target:
        return mix(costs, rates, low)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if float(hull_at(costs, rates, middle)) >= target - 1e-12 else (middle, high)
    return mix(costs, rates, high)


def _logistic(z: Floats, y: Floats) -> tuple[Floats, float]:
    a = np.column_stack([z, np.ones(len(z))])
    penalty = np.append(np.full(z.shape[1], RIDGE * 10), 1e-9)
    w = np.zeros(a.shape[1])
    for _ in range(25):
        p = 1 / (1 + np.exp(-(a @ w)))
        step = np.linalg.solve((a.T * (p * (1 - p))) @ a + np.diag(penalty), a.T @ (p - y) + penalty * w)
        w -= step
        if np.abs(step).max() < 1e-8:
            break
    return w[:-1], float(w[-1])


def _auc(p: Floats, y: Bools) -> float:
    """The share of pairs of a solved and a failed task that the probabilities put in the right order; ties count
    half.
    """
    order = np.argsort(p, kind="stable")
    _, start, number = np.unique(p[order], return_index=True, return_counts=True)
    ranks = np.empty(len(p))
    ranks[order] = np.repeat(start + (number + 1) / 2, number)
    solved = int(y.sum())
    pairs = solved * (len(y) - solved)
    return float((ranks[y].sum() - solved * (solved + 1) / 2) / pairs) if pairs else float("nan")


def _auc_within(p: Floats, y: Bools) -> float:
    return float(np.nanmean([_auc(p[:, at], y[:, at]) for at in range(y.shape[1])]))


def _auc_within_fold(table: OutcomeTable, folds: Sequence[Fold]) -> float:
    total = weight = 0.0
    for fold in folds:
        y = table.resolved[fold.new]
        for at in range(y.shape[1]):
            pairs = float(y[:, at].sum() * (~y[:, at]).sum())
            if pairs:
                total, weight = total + pairs * _auc(fold.probabilities[:, at], y[:, at]), weight + pairs
    return total / weight


def _reliability(p: Floats, y: Bools, bins: int = 8) -> list[list[float]]:
    """Mean probability and share solved in groups of equal size."""
    order = np.argsort(p, axis=None, kind="stable")
    groups = np.array_split(order, bins)
    return [[round(float(p.ravel()[one].mean()), 3), round(float(y.ravel()[one].mean()), 3)] for one in groups]


def _mask(at: Ints, n: int) -> Bools:
    mask = np.zeros(n, dtype=bool)
    mask[at] = True
    return mask


def _rounded(one: Estimate, digits: int = 4) -> list[float]:
    """Value, low, high."""
    return [round(one.value, digits), round(one.low, digits), round(one.high, digits)]


def measure(
    data: Data, texts: Sequence[str], pools: Mapping[str, Sequence[int]], gate: Mapping[str, float]
) -> dict[str, object]:
    draws = resamples(len(data.table.ids))
    arms: dict[str, dict[str, object]] = {}
    folds: dict[str, list[Fold]] = {}
    for name, predict in (ARMS | HINDSIGHT).items():
        print(name, file=sys.stderr)
        folds[name] = nested(data, predict)
        arm = quality(data.table, folds[name])
        arms[name] = arm
        if (
            name == OTHERS
        ):  # each model's probability leaves out its own outcome, so comparing them would favour failures
            continue
        arm["pools"] = {
            title: pool_report(data.table, folds[name], pool, name == "paper", draws) for title, pool in pools.items()
        }
        if name in ("base rate", "paper", "ours, text", "ours", *HINDSIGHT):
            arm["pools_of_four"] = every_pool(data.table, folds[name], name == "paper")
    mine = arms["ours"]
    auc, brier = mine["auc_within_fixer"], mine["brier"]
    assert isinstance(auc, list) and isinstance(brier, list)
    onboarded = onboarding(data, list(pools.values()))
    return {
        "tasks": len(data.table.ids),
        "models": list(data.table.fixers),
        "auc_within_fixer": auc[0],
        "auc_within_fixer_ci": auc[1:],
        "brier": brier[0],
        "pools": mine["pools"],
        "median_saving_pools_of_four": mine["pools_of_four"][f"worth ${HEADLINE:g}"]["median_saving_over_rival"],  # type: ignore[index]
        "onboarding_gap_points": onboarded["mean_gap_points"],
        "onboarding": onboarded,
        "escalation": {title: escalation(data.table, folds["ours"], pool, gate) for title, pool in pools.items()},
        "solo": {
            name: [round(float(data.table.resolved[:, at].mean()), 4), round(float(data.table.cost[:, at].mean()), 4)]
            for at, name in enumerate(data.table.fixers)
        },
        "baselines": {name: arm for name, arm in arms.items() if name != "ours" and name not in HINDSIGHT},
        "ours": mine,
        "hindsight": {name: arms[name] for name in HINDSIGHT},
        "_folds": folds,
    }


def transfer(data: Data) -> dict[str, object]:
    """The head that ships, which has seen none of these tasks: how well ease and effort alone order them."""
    head = difficulty.load(SHIPPED)[tuple(sorted((text_counts.SPACE, data.space)))]
    judged = head.judge(np.concatenate([data.counted, data.states], axis=1))
    ease = np.repeat(judged.ease[:, None], len(data.table.fixers), axis=1)
    draws = np.random.default_rng(0).integers(0, len(ease), (500, len(ease)))
    aucs = np.array([_auc_within(ease[draw], data.table.resolved[draw]) for draw in draws])
    effort, cost = np.log(judged.cost_factor), np.log(np.maximum(data.table.cost, 1e-4)).mean(axis=1)
    return {
        "auc_of_ease_within_fixer": _rounded(estimate(_auc_within(ease, data.table.resolved), aucs)),
        "correlation_of_effort_with_log_cost": round(float(np.corrcoef(effort, cost)[0, 1]), 3),
        "share_far": round(float(judged.far.mean()), 4),
    }


def tastes(data: Data, languages: Sequence[str]) -> dict[str, object]:
    """Whether some models are better at some languages, beyond chance: a permutation test on the interaction."""
    names = np.array(languages)
    rng = np.random.default_rng(0)

    def interaction(of: npt.NDArray[np.str_]) -> float:
        total = 0.0
        rates = {one: data.table.resolved[of == one].mean(axis=0) for one in sorted(set(languages))}
        mean = np.mean(list(rates.values()), axis=0)
        for one, rate in rates.items():
            rest = rate - rate.mean() - mean + mean.mean()
            total += float((of == one).sum() * (rest**2).sum())
        return total

    seen = interaction(names)
    drawn = [interaction(rng.permutation(names)) for _ in range(1000)]
    return {"languages": len(set(languages)), "p": round((1 + sum(one >= seen for one in drawn)) / 1001, 3)}


def figure(table: OutcomeTable, folds: Sequence[Fold], gate: Mapping[str, float]) -> str:
    """The pool of 12: every model alone, ours by what a solve is worth, and with a second try."""
    pool, draws = list(range(len(table.fixers))), resamples(len(table.ids))
    solo = {
        name.removesuffix(" (high reasoning)"): (float(table.cost[:, at].mean()), float(table.resolved[:, at].mean()))
        for at, name in enumerate(table.fixers)
    }
    spent = taken(table, pool, by_worth(table, folds, pool, HEADLINE))
    marks = [Mark(f"ours, a solve worth ${HEADLINE:g}", *_means(spent, draws), "square", routed=True)]
    for coverage, recall, spent in escalated(table, folds, pool, gate):
        if recall != HALF:
            name = f"with a second try, {coverage:.0%} checked"
            marks.append(Mark(name, *_means(spent, draws), "triangle", routed=True))
    return beside(
        f"SWE-bench Verified, {len(table.ids)} tasks, {len(solo)} models of mini-SWE-agent {VERSION}",
        "circles: alone; dashed: mixing all; dotted: mixing two; square: ours; triangles: simulated escalation; 95%",
        solo,
        marks,
    )


def _means(spent: Spent, draws: Floats) -> tuple[Estimate, Estimate]:
    usd, solve = (estimate(float(values.mean()), draws @ values) for values in (spent.cost, spent.solved))
    return usd, solve


def write_predictions(path: Path, data: Data, folds: Sequence[Fold], pools: Mapping[str, Sequence[int]]) -> None:
    outer = group_folds(data.table.groups)
    probabilities = pooled(data.table, folds)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["pool", "instance_id", "fixer", "fold", "p_solve", "chosen"])
        for title, pool in pools.items():
            choices = by_worth(data.table, folds, pool, HEADLINE)
            for task, name in enumerate(data.table.ids):
                for place, at in enumerate(pool):
                    row = (title, name, data.table.fixers[at], int(outer[task]), f"{probabilities[task, at]:.6f}")
                    writer.writerow([*row, int(choices[task] == place)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--json", action="store_true", help="print the result alone")
    parser.add_argument("--predictions", type=Path)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    gate = json.loads((RESULTS / "gate.json").read_text())["gate"]
    catches = {"recall": gate["recall"], "false_rate": gate["false_kept_rate_at_most"]}
    verified, texts = read_data(options.data, "verified")
    names = verified.table.fixers
    pools = {"all12": list(range(len(names))), "paper4": [names.index(name) for name in PAPER4]}
    result = measure(verified, texts, pools, catches)
    folds = result.pop("_folds")
    assert isinstance(folds, dict)
    if options.predictions:
        write_predictions(options.predictions, verified, folds["ours"], pools)
    if options.figure:
        options.figure.write_text(figure(verified.table, folds["ours"], catches), encoding="utf-8")
    other, _ = read_data(options.data, "multilingual")
    print("multilingual", file=sys.stderr)
    second = measure(other, [], {"all13": list(range(len(other.table.fixers)))}, catches)
    second.pop("_folds")
    second["tastes"] = tastes(other, _languages(options.data / "tasks" / "swebench_multilingual.jsonl.gz", other))
    whole = {"gate": catches, **result, "transfer": transfer(verified), "multilingual": second}
    record(whole, options.out)


if __name__ == "__main__":
    main()
