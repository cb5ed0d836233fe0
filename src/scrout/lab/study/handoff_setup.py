"""Sets up a batch that can tell what handoff and gate do: enough tasks, drawn at random, and the commands to run it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from scrout.base import FrozenModel, StudyError
from scrout.batch.tasks import TaskRow, read_tasks
from scrout.files import write_atomic
from scrout.lab.study.stats import ALPHA, power, tasks_needed
from scrout.records import Arm

ARMS: tuple[Arm, ...] = ("solo", "handoff", "passthrough")
DIFFER = 0.2
"""Share of tasks on which two arms of a fixer differ, as the paper's evaluation has it."""


class Drawn(FrozenModel):
    """A batch that waits to be run."""

    needed: int | None
    """Tasks that the effect takes; None: too many to count."""
    drawn: int
    """Fewer, if there are no more."""
    power: float
    """With those."""
    ungraded: int
    """Of them, tasks without an answer: only the check will judge them."""
    file: Path
    commands: tuple[str, ...]
    """To run it, to grade it and to study it."""

    @property
    def enough(self) -> bool:
        """Whether there are as many tasks as it takes."""
        return self.needed is not None and self.drawn >= self.needed


def draw_batch(
    tasks: Path,
    folder: Path,
    fixers: Sequence[str],
    *,
    effect: float = 0.04,
    differ: float = DIFFER,
    wanted: float = 0.8,
    arms: Sequence[Arm] = ARMS,
    seed: int = 0,
) -> Drawn:
    """Draw as many tasks as an effect takes into FOLDER/tasks.jsonl, each repository by its share.

    `effect` is the change of the solve rate, `differ` the share of tasks on which two arms differ, `wanted` the power.
    """
    if not fixers:
        raise StudyError("arms are paired by fixer, and a router may choose another in each. Name the fixers.")
    if not 0 < effect <= differ <= 1:
        raise StudyError(f"an effect of {effect} does not fit arms that differ on {differ} of the tasks. Give less.")
    rows = read_tasks(tasks).rows
    if not rows:
        raise StudyError(f"{tasks} has no task that can be used. Name a file of tasks.")
    gain, loss = (differ + effect) / 2, (differ - effect) / 2
    level = ALPHA / len(fixers)  # as the study corrects for their number
    needed = tasks_needed(gain, loss, wanted, level)
    chosen = _drawn(rows, min(len(rows), needed or len(rows)), seed)
    folder.mkdir(parents=True, exist_ok=True)
    file, out = folder / "tasks.jsonl", folder / "batch"
    write_atomic(file, "".join(f"{json.dumps(_written(row))}\n" for row in chosen))
    commands = (
        [
            "scrout",
            "batch",
            "run",
            str(file),
            "--out",
            str(out),
            "--arms",
            ",".join(arms),
            "--fixers",
            ",".join(fixers),
        ],
        ["scrout", "batch", "grade", str(out), "--tasks", str(file)],
        ["scrout", "study", "handoff", "--data", str(out), "--tasks", str(file)],
    )
    return Drawn(
        needed=needed,
        drawn=len(chosen),
        power=power(len(chosen), gain, loss, level),
        ungraded=sum(row.gold is None for row in chosen),
        file=file,
        commands=tuple(map(shlex.join, commands)),
    )


def _drawn(rows: Sequence[TaskRow], count: int, seed: int) -> list[TaskRow]:
    """Of each repository its share, by largest remainders; in the order of the file."""
    places: dict[str, list[int]] = {}
    for at, row in enumerate(rows):
        places.setdefault(row.repo, []).append(at)
    shares = {repo: count * len(found) / len(rows) for repo, found in places.items()}
    quotas = {repo: int(share) for repo, share in shares.items()}
    # The order of the file decides between equal remainders.
    for repo in sorted(shares, key=lambda repo: quotas[repo] - shares[repo])[: count - sum(quotas.values())]:
        quotas[repo] += 1
    rng = np.random.default_rng(seed)
    chosen = (int(at) for repo, found in places.items() for at in rng.permutation(found)[: quotas[repo]])
    return [rows[at] for at in sorted(chosen)]


def _written(row: TaskRow) -> dict[str, object]:
    """A row of scrout's own form."""
    told = {"id": row.id, "text": row.text, "repo": row.repo, "base_commit": row.base_commit}
    return told | ({"gold": row.gold.model_dump(mode="json")} if row.gold else {})
