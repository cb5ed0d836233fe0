"""Outcomes of several fixers on the same tasks, and their division into folds.

All fitting and calibration starts from such a table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from scrout.base import RouteError
from scrout.route.outcomes import Arm, OutcomeWithText, read_outcomes, read_rows, read_texts, repository_of
from scrout.route.stats import Floats

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

FOLDS = 5
_ENDINGS = (".csv", ".jsonl", ".csv.gz", ".jsonl.gz")


@dataclass(frozen=True, eq=False)
class OutcomeTable:
    """Outcomes of several fixers on the same tasks: a row per task, a column per fixer."""

    ids: tuple[str, ...]
    groups: tuple[str, ...]
    """The repository of each task: tasks of one repository are always in the same fold."""
    fixers: tuple[str, ...]
    resolved: Bools
    cost: Floats
    """Dollars; nan: unknown."""
    measured: Bools
    """Whether the pair has an outcome."""
    p: Floats | None = None
    """Held-out probabilities, nan if unknown; None: not computed yet."""

    def __post_init__(self) -> None:
        shape = (len(self.ids), len(self.fixers))
        for name in ("resolved", "cost", "measured", "p"):
            array = getattr(self, name)
            if array is not None and array.shape != shape:
                raise RouteError(f"{name} has shape {array.shape}, not {shape} (tasks by fixers). Build it again.")
        if len(self.groups) != len(self.ids):
            raise RouteError(f"{len(self.groups)} repositories for {len(self.ids)} tasks. Name one for each task.")

    @property
    def probabilities(self) -> Floats:
        if self.p is None:
            raise RouteError("the table has no probabilities. Add held-out ones first.")
        return self.p

    @property
    def mean_costs(self) -> Floats:
        """Each fixer's mean known cost; nan: none is known."""
        known = self.measured & np.isfinite(self.cost)
        sums, counts = np.where(known, self.cost, 0.0).sum(axis=0), known.sum(axis=0)
        means: Floats = np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)
        return means

    def rows(self, mask: Bools) -> OutcomeTable:
        at = np.flatnonzero(mask)
        return replace(
            self,
            ids=tuple(self.ids[i] for i in at),
            groups=tuple(self.groups[i] for i in at),
            resolved=self.resolved[at],
            cost=self.cost[at],
            measured=self.measured[at],
            p=None if self.p is None else self.p[at],
        )

    def with_probabilities(self, p: Floats) -> OutcomeTable:
        return replace(self, p=p)

    def priced(self) -> OutcomeTable:
        """Costs, with the fixer's mean for unknown ones."""
        means = self.mean_costs
        for fixer, mean in zip(self.fixers, means, strict=True):
            if np.isnan(mean):
                raise RouteError(f"no cost of {fixer} is known. Add cost_usd to its outcomes, or leave the fixer out.")
        return replace(self, cost=np.where(np.isfinite(self.cost) & self.measured, self.cost, means))


def combination(spaces: Iterable[str]) -> str:
    """The key of several feature spaces together."""
    return "+".join(sorted(spaces))


def group_folds(groups: Sequence[str], k: int = FOLDS) -> Ints:
    """The fold of each task: assigns whole groups, the largest first, to the fold with the fewest tasks."""
    sizes = Counter(groups)
    if len(sizes) < 2:
        raise RouteError(
            f"{len(sizes)} repository in {len(groups)} tasks. Folds need two: add outcomes of another repository."
        )
    filled = [0] * min(k, len(sizes))
    fold_of: dict[str, int] = {}
    for group, size in sorted(sizes.items(), key=lambda item: (-item[1], item[0])):
        fold_of[group] = filled.index(min(filled))
        filled[fold_of[group]] += size
    return np.array([fold_of[group] for group in groups], dtype=np.int64)


def read_table(folder: Path, tasks: Path | None, arm: Arm) -> tuple[OutcomeTable, list[str]]:
    """Read the outcomes of one arm in a folder, one file per fixer: a table without probabilities, and the tasks'
    texts.
    """
    if not folder.is_dir():
        raise RouteError(f"{folder} is not a folder. Name one with a .csv or .jsonl file for each fixer.")
    files = sorted(path for path in folder.iterdir() if path.name.endswith(_ENDINGS))
    if not files:
        raise RouteError(f"{folder} has no {', '.join(_ENDINGS)} file. Put one there for each fixer.")
    texts = read_texts(tasks) if tasks else {}
    groups = (
        {str(row["instance_id"]).strip(): str(row["repo"]) for _, row in read_rows(tasks) if row.get("repo")}
        if tasks
        else {}
    )
    found = _Found(groups)
    for path in files:
        for (_, row), told in zip(read_rows(path), read_outcomes(path, texts), strict=True):
            if told.outcome.arm == arm:
                found.add(_fixer(path, row), told, str(row.get("repo") or ""), path)
    if not found.outcomes:
        other = "solo" if arm == "handoff" else "handoff"
        raise RouteError(f"{folder} has no outcome of arm {arm}. Add some, or calibrate on the other: --arm {other}")
    return found.table()


@dataclass
class _Found:
    """Outcomes collected from files, in any order."""

    groups: dict[str, str]
    """Repositories by task, if given."""
    outcomes: dict[tuple[str, str], OutcomeWithText] = field(default_factory=dict)

    def add(self, fixer: str, told: OutcomeWithText, repo: str, path: Path) -> None:
        task = told.outcome.instance_id
        if (task, fixer) in self.outcomes:
            raise RouteError(f"{path}: {fixer} has two outcomes of {task} ({told.outcome.arm}). Keep one.")
        self.outcomes[task, fixer] = told
        if repo:
            self.groups[task] = repo

    def table(self) -> tuple[OutcomeTable, list[str]]:
        ids = tuple(dict.fromkeys(task for task, _ in sorted(self.outcomes)))
        fixers = tuple(sorted({fixer for _, fixer in self.outcomes}))
        shape = (len(ids), len(fixers))
        resolved, measured, cost = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool), np.full(shape, np.nan)
        row, column = ({name: at for at, name in enumerate(names)} for names in (ids, fixers))
        texts: dict[str, str] = {}
        for (task, fixer), told in self.outcomes.items():
            at = row[task], column[fixer]
            measured[at], resolved[at] = True, told.outcome.resolved
            if told.outcome.cost_usd is not None:
                cost[at] = float(told.outcome.cost_usd)
            if texts.setdefault(task, told.text) != told.text:
                raise RouteError(f"the outcomes of {task} have different texts. Give one with --tasks FILE.")
        # As in a résumé: 0 among other costs is a missing receipt.
        cost[(cost == 0) & (np.nan_to_num(cost) > 0).any(axis=0)] = np.nan
        groups = tuple(self.groups.get(task) or repository_of(task) for task in ids)
        return OutcomeTable(ids, groups, fixers, resolved, cost, measured), [texts[task] for task in ids]


def _fixer(path: Path, row: Mapping[str, object]) -> str:
    """The fixer's column, otherwise the file's name."""
    named = str(row.get("fixer") or row.get("model") or "").strip()
    ending = max((ending for ending in _ENDINGS if path.name.endswith(ending)), key=len)
    return named or unquote(path.name.removesuffix(ending))
