"""What giving the handoff only where it pays would come to, with the rule chosen on other repositories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from scrout.base import FrozenModel
from scrout.lab.study.handoff.effects import Pairs
from scrout.lab.study.handoff.looks import splits
from scrout.lab.study.stats import Paired, paired
from scrout.route.outcome_table import Bools, group_folds
from scrout.text import percent

QUARTERS = (0.25, 0.5, 0.75)


class Injection(FrozenModel):
    """A rule that says which tasks get the handoff, simulated on tasks that were tried both ways."""

    benchmark: str
    fixer: str
    known: str
    """What the rule may know, in words."""
    possible: bool
    """Whether that is known before the fixer starts."""
    rules: tuple[str, ...]
    """That it chose among, `always` and `never` included."""
    chosen: tuple[str, ...]
    """By fold."""
    given: float
    """Share of the tasks that got the handoff."""
    over_never: Paired
    over_always: Paired
    usd: float | None
    """Mean dollars a task, scouting left out; None: unknown."""


def injections(pairs: Pairs, most_steps: int | None) -> list[Injection]:
    """By what is known before the fixer starts, and by what could only be known later; none for one repository."""
    if len(set(pairs.tasks.repositories)) < 2:
        return []
    found = []
    before = dict(_before(pairs))
    if before:
        found.append(_simulated(pairs, "scout and issue", before, possible=True))
    if after := _after(pairs, most_steps):
        found.append(_simulated(pairs, "also another's run and the answer", before | after, possible=False))
    return found


def _simulated(pairs: Pairs, known: str, rules: Mapping[str, Bools], *, possible: bool) -> Injection:
    """Each fold by the rule that solves most in the others; of equal ones the first."""
    n = len(pairs.tasks.ids)
    tried = {"always": np.ones(n, dtype=bool), "never": np.zeros(n, dtype=bool), **rules}
    folds = group_folds(pairs.tasks.repositories)
    given, chosen = np.zeros(n, dtype=bool), []
    for fold in np.unique(folds):
        test = folds == fold
        solved = {name: int(_solved(pairs, mask)[~test].sum()) for name, mask in tried.items()}
        best = max(solved, key=solved.__getitem__)
        given[test] = tried[best][test]
        chosen.append(best)
    solved_so = _solved(pairs, given)
    usd = np.where(given, pairs.after_usd, pairs.before_usd)
    return Injection(
        benchmark=pairs.tasks.name,
        fixer=pairs.fixer,
        known=known,
        possible=possible,
        rules=tuple(tried),
        chosen=tuple(chosen),
        given=float(given.mean()),
        over_never=paired(pairs.before, solved_so),
        over_always=paired(pairs.after, solved_so),
        usd=float(np.nanmean(usd)) if np.isfinite(usd).any() else None,
    )


def _solved(pairs: Pairs, given: Bools) -> Bools:
    solved: Bools = np.where(given, pairs.after, pairs.before)
    return solved


def _before(pairs: Pairs) -> Iterator[tuple[str, Bools]]:
    """Rules that could be followed."""
    told = [pairs.tasks.scouted.get(task) for task in pairs.tasks.ids]
    if any(one is not None for one in told):
        yield "spontaneous handoffs", np.array([one is not None and one.kind == "spontaneous" for one in told])
        yield "kept claims", np.array([one is not None and one.kept for one in told])
        for least in (2, 3):
            yield f"{least} files named or more", np.array([one is not None and one.named >= least for one in told])
    lengths = np.array([float(len(pairs.tasks.texts.get(task, ""))) for task in pairs.tasks.ids])
    if lengths.any():
        for share in QUARTERS:
            yield f"issues longer than {percent(share, 0)} of them", lengths > np.quantile(lengths, share)


def _after(pairs: Pairs, most_steps: int | None) -> dict[str, Bools]:
    """Rules that look ahead: would it help at all to know that much?"""
    return {split.group: split.inside for split in splits(pairs, most_steps)}
