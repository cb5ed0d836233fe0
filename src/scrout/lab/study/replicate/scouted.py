"""How the scout does: the files that it names, and what becomes of the reproductions that it claims."""

from __future__ import annotations

from collections import Counter

import numpy as np

from scrout.base import FrozenModel
from scrout.intervals import Estimate
from scrout.lab.study.sources.benchmark import Benchmark, ScoutRecord
from scrout.lab.study.stats import bootstraps, mean_of, wilson
from scrout.route.outcome_table import Bools

_PASSES = ("passed_stripped", "passed")
"""In the paper's words and in ours."""


class Located(FrozenModel):
    """How well the files that were named fit the true ones: means over a group of tasks."""

    group: str
    n: int
    recall: Estimate
    precision: Estimate
    all_gold: Estimate
    """Share of tasks with every true file named."""
    gold_files: float
    named_median: float


class Claims(FrozenModel):
    """What became of the reproductions that were claimed."""

    group: str
    n: int
    claiming: int
    verdicts: dict[str, int]
    genuine: Estimate | None
    """Of those claiming, the share that fails for real. None: nobody claims."""
    passes: Estimate | None
    """Of those claiming, the share whose command succeeds on the unpatched repository."""
    kept: int
    """Claims that survived the gate."""


def located(benchmark: Benchmark, solved: Bools | None) -> tuple[Located, ...]:
    """How well handoffs name the files, by group; only where the true ones are known."""
    found = []
    for name, group in _groups(benchmark, solved).items():
        known = [one for one in group if one.gold]
        if known:
            recall, precision = ([getattr(one, figure) for one in known] for figure in ("recall", "precision"))
            drawn = bootstraps(len(known), {"recall": mean_of(recall), "precision": mean_of(precision)})
            found.append(
                Located(
                    group=name,
                    n=len(known),
                    recall=drawn["recall"],
                    precision=drawn["precision"],
                    all_gold=wilson(sum(one.all_gold for one in known), len(known)),
                    gold_files=float(np.mean([one.gold for one in known if one.gold])),
                    named_median=float(np.median([one.named for one in known])),
                )
            )
    return tuple(found)


def claims(benchmark: Benchmark) -> tuple[Claims, ...]:
    """What the gate made of claims, overall and by kind of handoff."""
    found = []
    for name in ("overall", "spontaneous", "forced"):
        group = [one for one in _groups(benchmark).get(name, ()) if one.verdict]
        claiming = [one for one in group if one.claimed]
        if group:
            genuine = sum(one.verdict == "real_failure" for one in claiming)
            passes = sum(one.verdict in _PASSES for one in claiming)
            found.append(
                Claims(
                    group=name,
                    n=len(group),
                    claiming=len(claiming),
                    verdicts=dict(Counter(one.verdict for one in group).most_common()),
                    genuine=wilson(genuine, len(claiming)) if claiming else None,
                    passes=wilson(passes, len(claiming)) if claiming else None,
                    kept=sum(one.kept for one in claiming),
                )
            )
    return tuple(found)


def _groups(benchmark: Benchmark, solved: Bools | None = None) -> dict[str, list[ScoutRecord]]:
    """Handoffs overall, by kind, by repository, and by whether the task was solved."""
    overall = [benchmark.scouted[task] for task in benchmark.ids if task in benchmark.scouted]
    groups: dict[str, list[ScoutRecord]] = {"overall": overall}
    for kind in ("spontaneous", "forced"):
        groups[kind] = [one for one in overall if one.kind == kind]
    outcomes = [""] * len(benchmark.ids) if solved is None else ["solved" if yes else "unsolved" for yes in solved]
    for names in (benchmark.repositories, outcomes):
        for name in sorted(set(names) - {""}):
            groups[name] = [
                benchmark.scouted[task]
                for task, of in zip(benchmark.ids, names, strict=True)
                if of == name and task in benchmark.scouted
            ]
    return {name: group for name, group in groups.items() if group}
