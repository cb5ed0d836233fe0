"""Outcomes as files bring them, one at a time, and as the arrays that studies work on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scrout.base import StudyError
from scrout.lab.study.sources.benchmark import ArmOutcomes

MAX_AMOUNT = 1_000_000
"""Dollars, steps or files of one attempt: what is more is no count of them."""


@dataclass(frozen=True)
class FixerEpisode:
    """One fixer on one task."""

    resolved: bool
    cost: float
    """Dollars; nan: unknown."""
    steps: float
    """Calls of the model; nan: unknown."""


def played(ids: Sequence[str], fixers: Sequence[str], found: Mapping[tuple[str, str], FixerEpisode]) -> ArmOutcomes:
    """Outcomes by task and fixer, as arrays."""
    shape = len(ids), len(fixers)
    measured, resolved = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
    cost, steps = np.full(shape, np.nan), np.full(shape, np.nan)
    row, column = ({name: at for at, name in enumerate(names)} for names in (ids, fixers))
    for (task, fixer), one in found.items():
        if fixer not in column:
            raise StudyError(f"an outcome of {fixer!r}, which is none of {', '.join(fixers)}. Leave its rows out.")
        at = row[task], column[fixer]
        measured[at], resolved[at], cost[at], steps[at] = True, one.resolved, one.cost, one.steps
    return ArmOutcomes(tuple(fixers), measured, resolved, cost, steps)


def add(found: dict[tuple[str, str], FixerEpisode], key: tuple[str, str], episode: FixerEpisode, where: str) -> None:
    if key in found:
        raise StudyError(f"{where}: a second outcome of {key[1]} on {key[0]}. Keep one.")
    found[key] = episode


def amount_of(value: object, where: str) -> float:
    """A number that is not negative; nan: none is told."""
    if value is None or value == "":
        return math.nan
    try:
        amount = float(str(value))
    except ValueError:
        amount = math.nan
    if isinstance(value, bool) or not 0 <= amount <= MAX_AMOUNT:
        raise StudyError(f"{where}: {value!r} is no cost or count. Write a number from 0, or leave it empty.")
    return amount


def word_of(value: object, name: str, where: str) -> str:
    """A name, as a file has it."""
    if not isinstance(value, str) or not value.strip():
        raise StudyError(f"{where}: {name} is {value!r:.80}. Write a name.")
    return value


def flag_of(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise StudyError(f"{where}: {value!r} is no outcome. Write true or false.")
    return value
