"""A fixer's résumé: what it solved, what it failed, and what it cost, learned from outcomes and kept as one file."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import numpy as np
from pydantic import Field, FiniteFloat, ValidationError, model_validator

from scrout.errors import RouteError
from scrout.money import CENT_FRACTION, Record, Usd
from scrout.route.embed import Embedder

MIN_OUTCOMES = 25
"""The smallest history that the method was shown to work with."""

SUFFIX = ".resume.json"

Arm = Literal["solo", "handoff"]


class Outcome(Record):
    """One finished attempt of one fixer. Infrastructure failures are not outcomes."""

    instance_id: str
    text: str
    """The task's text, as scout and fixer read it."""
    resolved: bool
    cost_usd: Usd | None = Field(ge=0)
    """None: unknown."""
    arm: Arm
    """`handoff`: the fixer had a scout's handoff; `solo`: the task's text alone."""


class Resume(Record):
    """What the router knows about a fixer."""

    version: Literal[1] = 1
    fixer: str = Field(min_length=1)
    embedder: str
    """The name of the embedder that made the vectors."""
    n: int
    solved: int
    solo_cost_usd: Usd | None
    """Mean over the solo attempts whose cost is known; None: there are none."""
    handoff_cost_usd: Usd | None
    """Mean over the with-handoff attempts whose cost is known; None: there are none."""
    solved_centroid: tuple[FiniteFloat, ...]
    """Mean vector of the tasks it solved."""
    failed_centroid: tuple[FiniteFloat, ...]
    """Mean vector of the tasks it failed."""

    @property
    def base_rate(self) -> float:
        return self.solved / self.n

    @model_validator(mode="after")
    def _adds_up(self) -> Resume:
        if not 0 < self.solved < self.n:
            raise ValueError(f"{self.solved} solved of {self.n}: a résumé needs some of both")
        if len(self.solved_centroid) != len(self.failed_centroid):
            raise ValueError(f"centroids of {len(self.solved_centroid)} and {len(self.failed_centroid)} numbers")
        return self


def build_resume(fixer: str, outcomes: Sequence[Outcome], embedder: Embedder) -> Resume:
    """The résumé of a fixer, or a RouteError that says what its outcomes lack."""
    n, solved = len(outcomes), sum(outcome.resolved for outcome in outcomes)
    if n < MIN_OUTCOMES:
        raise RouteError(f"{fixer} has {n} of {MIN_OUTCOMES} outcomes. Run it on {MIN_OUTCOMES - n} more tasks first.")
    (key, count), *_ = Counter((outcome.instance_id, outcome.arm) for outcome in outcomes).most_common(1)
    if count > 1:
        raise RouteError(f"{fixer} has {count} outcomes of {key[0]!r} ({key[1]}). Keep one for each task and arm.")
    if solved in (0, n):
        missing = "fails" if solved else "solves"
        raise RouteError(f"{fixer} solved {solved} of its {n} tasks. Add tasks that it {missing}.")
    vectors = embedder.embed([outcome.text for outcome in outcomes])
    resolved = np.array([outcome.resolved for outcome in outcomes])
    return Resume(
        fixer=fixer,
        embedder=embedder.name,
        n=n,
        solved=solved,
        solo_cost_usd=_mean_cost_usd(outcomes, "solo"),
        handoff_cost_usd=_mean_cost_usd(outcomes, "handoff"),
        solved_centroid=tuple(vectors[resolved].mean(axis=0, dtype=np.float64).tolist()),
        failed_centroid=tuple(vectors[~resolved].mean(axis=0, dtype=np.float64).tolist()),
    )


def save(resume: Resume, folder: Path) -> Path:
    """Write a résumé into the folder, replacing the fixer's former one, and say where."""
    path = folder / _file_name(resume.fixer)
    write(path, resume.model_dump_json())
    return path


def load(folder: Path) -> dict[str, Resume]:
    """Every résumé in the folder by fixer; none when there is no such folder."""
    resumes: dict[str, Resume] = {}
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            resume = Resume.model_validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            raise RouteError(f"{path} is not a readable résumé: {error}. Build it again or delete it.") from None
        if path.name != _file_name(resume.fixer):
            raise RouteError(f"{path} is the résumé of {resume.fixer!r}. Rename it to {_file_name(resume.fixer)}.")
        resumes[resume.fixer] = resume
    one_embedder(resumes.values())
    return resumes


def one_embedder(resumes: Iterable[Resume]) -> None:
    """Refuse résumés whose vectors do not compare."""
    by_name = {resume.embedder: resume.fixer for resume in resumes}
    if len(by_name) > 1:
        made = ", ".join(f"{fixer} with {name}" for name, fixer in sorted(by_name.items()))
        raise RouteError(f"résumés of different embedders do not compare: {made}. Build them again with one embedder.")


def write(path: Path, text: str) -> None:
    """Replace a file in one step: a reader sees the old text or the new one, never a part."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".write-", dir=path.parent) as folder:
            draft = Path(folder) / "draft"
            draft.write_text(text, encoding="utf-8")
            draft.replace(path)
    except OSError as error:
        raise RouteError(f"cannot write {path}: {error.strerror}. Choose a folder with `route.resumes`.") from None


def _file_name(fixer: str) -> str:
    """Different fixers get different names, and no name leaves the folder: `/` becomes %2F."""
    return quote(fixer, safe="") + SUFFIX


def _mean_cost_usd(outcomes: Sequence[Outcome], arm: Arm) -> Decimal | None:
    known = [outcome.cost_usd for outcome in outcomes if outcome.arm == arm and outcome.cost_usd is not None]
    return (sum(known, Decimal(0)) / len(known)).quantize(CENT_FRACTION) if known else None
