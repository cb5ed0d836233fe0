"""A fixer's résumé: its known outcomes and their costs. One file per fixer; vectors are in task_vectors.py.

A résumé belongs to agent, model and effort, independent of names in a pool. If a fixer has none, it may borrow that of
the same model with another agent or effort, and the decision says so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, ValidationError, model_validator

from scrout.base import FrozenModel, RouteError, first_problem
from scrout.config.settings import FixerKey
from scrout.intervals import wilson
from scrout.money import CENT_FRACTION, Price, Usage
from scrout.route import text_counts
from scrout.route.embed import Embedder
from scrout.route.outcomes import Arm, Outcome, OutcomeWithText
from scrout.route.resume_store import file_name, read_all, write
from scrout.route.task_vectors import TaskVectors, remember
from scrout.task import title_of

MIN_OUTCOMES = 25
"""The smallest history that the method was shown to work with."""

SUFFIX = ".resume.json"
SHIPPED = Path(__file__).parent / "shipped"
"""Résumés of public models, their tasks and the fitted heads."""

TYPICAL = Usage(input_tokens=100_000, cache_read_tokens=900_000, output_tokens=4_000)
"""Typical proportions of an attempt's tokens, to compare price lists. 250 read per written token is between the medians
of Claude 4.5 Sonnet (157) and GPT-5 (453) in SWE-bench Pro's trajectories; nine tenths cached is an assumption.
"""

# Parts in which providers' names of one model differ: a date, a release channel, an implied size.
_IDLE = re.compile(r"^(\d{6,8}|preview|latest|instruct|chat|exp|experimental|free|nitro|floor)$")


class Resume(FrozenModel):
    version: Literal[2] = 2
    key: FixerKey
    outcomes: tuple[Outcome, ...] = Field(min_length=1)
    """Fewer than MIN_OUTCOMES: it is still growing, and is not used for decisions."""
    source: str = ""
    price: Price | None = None
    """The token prices when the outcomes were paid; None: unknown, so costs are used unchanged."""
    made: date

    @property
    def n(self) -> int:
        return len(self.outcomes)

    @property
    def solved(self) -> int:
        return sum(outcome.resolved for outcome in self.outcomes)

    @property
    def growing(self) -> bool:
        return self.n < MIN_OUTCOMES

    @property
    def base_rate(self) -> float:
        return self.solved / self.n

    @property
    def interval(self) -> tuple[float, float]:
        return wilson(self.solved, self.n)

    def cost_usd(self, arm: Arm) -> Decimal | None:
        """Mean over the attempts of this arm with known cost; None: there are none.

        A cost of exactly 0 among others is a missing receipt, not a free attempt.
        """
        known = [outcome.cost_usd for outcome in self.outcomes if outcome.arm == arm and outcome.cost_usd is not None]
        paid = [cost for cost in known if cost > 0]
        chosen = paid or known
        return (sum(chosen, Decimal(0)) / len(chosen)).quantize(CENT_FRACTION) if chosen else None

    def expected_cost_usd(self, price: Price | None, arm: Arm) -> Decimal | None:
        """Expected cost of an attempt at current prices, from this arm, otherwise from the other one; None: unknown."""
        cost_usd = self.cost_usd(arm)
        if cost_usd is None:
            cost_usd = self.cost_usd("solo" if arm == "handoff" else "handoff")
        if cost_usd is None or price is None or self.price is None or not self.price.cost(TYPICAL):
            return cost_usd
        return (cost_usd * price.cost(TYPICAL) / self.price.cost(TYPICAL)).quantize(CENT_FRACTION)

    @model_validator(mode="after")
    def _holds_each_once(self) -> Resume:
        if twice := _twice(self.outcomes):
            raise ValueError(f"{twice}; keep one for each task and arm")
        return self


@dataclass(frozen=True)
class ResumeVectors:
    """A résumé in one feature space, as in the paper: centroids of solved and failed tasks, the base rate."""

    name: str
    solved: npt.NDArray[np.float64]
    failed: npt.NDArray[np.float64]
    base_rate: float


def build_resume(
    key: FixerKey,
    told: Sequence[OutcomeWithText],
    *,
    source: str = "",
    price: Price | None = None,
    made: date | None = None,
) -> Resume:
    """The résumé of a fixer; raises a RouteError that says what its outcomes lack."""
    n, solved = len(told), sum(one.outcome.resolved for one in told)
    if n < MIN_OUTCOMES:
        raise RouteError(f"{key} has {n} of {MIN_OUTCOMES} outcomes. Run it on {MIN_OUTCOMES - n} more tasks first.")
    outcomes = tuple(one.outcome for one in told)
    if twice := _twice(outcomes):
        raise RouteError(f"{key} has {twice}. Keep one for each task and arm.")
    if solved in (0, n):
        missing = "fails" if solved else "solves"
        raise RouteError(f"{key} solved {solved} of its {n} tasks. Add tasks that it {missing}.")
    return Resume(key=key, outcomes=outcomes, source=source, price=price, made=made or date.today())


def _twice(outcomes: Iterable[Outcome]) -> str:
    """Duplicates in words; empty: none."""
    (((instance_id, arm), count),) = Counter((one.instance_id, one.arm) for one in outcomes).most_common(1)
    return f"{count} outcomes of {instance_id!r} ({arm})" if count > 1 else ""


def extended(former: Resume, new: Sequence[OutcomeWithText], *, replace: bool = False) -> list[OutcomeWithText]:
    """A résumé's outcomes joined with new ones; if both have the same task and arm, `replace` is needed and the new one
    counts.

    Former outcomes have no text; the folder's vectors represent it.
    """
    fresh = {(one.outcome.instance_id, one.outcome.arm) for one in new}
    kept = [one for one in former.outcomes if (one.instance_id, one.arm) not in fresh]
    twice = [one for one in former.outcomes if (one.instance_id, one.arm) in fresh]
    if twice and not replace:
        more = f" and {len(twice) - 1} more" if len(twice) > 1 else ""
        raise RouteError(
            f"{former.key} already has an outcome of {twice[0].instance_id!r} ({twice[0].arm}){more}. With --replace "
            "the new ones count; or leave them out."
        )
    return [*(OutcomeWithText(one, "") for one in kept), *new]


def keep(resume: Resume, told: Iterable[OutcomeWithText], embedder: Embedder, folder: Path) -> Path:
    """Write a résumé into the folder, with the vectors of its tasks' texts; returns its path."""
    remember_texts({one.outcome.task: one.text for one in told}, embedder, folder)
    return save(resume, folder)


def remember_texts(texts: Mapping[str, str], embedder: Embedder, folder: Path) -> None:
    """Add tasks, by digest, in the spaces that need only their text."""
    titles = {task: title_of(text) for task, text in texts.items()}
    embedded = dict(zip(texts, embedder.embed(list(texts.values())), strict=True))
    remember(folder, text_space(embedder), embedded, titles)
    remember(folder, text_counts.SPACE, {task: text_counts.count(text) for task, text in texts.items()}, titles)


def text_space(embedder: Embedder) -> str:
    """The feature space of task texts with this embedder."""
    return f"text/{embedder.name}"


def resume_vectors(resume: Resume, known: TaskVectors, space: str) -> ResumeVectors | None:
    has, vectors = known.vectors(space, [outcome.task for outcome in resume.outcomes])
    resolved = np.array([outcome.resolved for outcome in resume.outcomes], dtype=bool)[has]
    if resolved.all() or not resolved.any():
        return None
    solved, failed = (vectors[mask].mean(axis=0, dtype=np.float64) for mask in (resolved, ~resolved))
    return ResumeVectors(str(resume.key), solved, failed, float(resolved.mean()))


def find(key: FixerKey, resumes: Mapping[FixerKey, Resume]) -> Resume | None:
    """A fixer's résumé, otherwise the nearest one of the same model: with its effort first, then with its agent.

    Growing résumés are skipped: a first verdict must not displace hundreds of public outcomes.
    """
    grown = [resume for resume in resumes.values() if not resume.growing]
    own = [resume for resume in grown if resume.key == key]
    same = own or [resume for resume in grown if same_model(resume.key.model, key.model)]
    return max(
        same,
        key=lambda resume: (resume.key.effort == key.effort, resume.key.agent == key.agent, resume.n, str(resume.key)),
        default=None,
    )


def same_model(one: str, other: str) -> bool:
    """Whether two names mean the same model: `anthropic/claude-opus-4.6` and `claude-4-6-opus` do."""
    if not one or not other:
        return False
    mine, others = _plain(one), _plain(other)
    return mine == others if any(mine) else one == other


def save(resume: Resume, folder: Path) -> Path:
    """Write a résumé into the folder, replacing the fixer's former one; returns its path."""
    path = folder / file_of(resume)
    write(path, resume.model_dump_json().encode())
    return path


def load(*folders: Path) -> dict[FixerKey, Resume]:
    """Every résumé in the folders by key, later folders winning; none if the folder does not exist.

    A growing résumé does not replace a complete one.
    """
    resumes: dict[FixerKey, Resume] = {}
    for resume in read_all(folders, SUFFIX, _read, file_of, lambda one: f"the résumé of {one.key}"):
        former = resumes.get(resume.key)
        if former is None or former.growing or not resume.growing:
            resumes[resume.key] = resume
    return resumes


def file_of(resume: Resume) -> str:
    return file_name(str(resume.key), SUFFIX, safe="@")


@lru_cache(maxsize=64)
def _read(content: bytes) -> Resume:
    """Cached, because a server reads the same files for every decision, and a table reads them twice."""
    try:
        return Resume.model_validate_json(content)
    except ValidationError as error:
        raise RouteError(f"not a résumé ({first_problem(error)}). Build it again with `scrout fixers add`.") from None


def _plain(model: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The identifying parts of a model's name: its words in any order, its numbers in theirs; no provider, date or
    channel.
    """
    own = model.lower().rpartition("/")[2]
    own = re.sub(r"\d{4}-\d{2}-\d{2}", "", own)
    parts = [part for part in re.findall(r"[a-z]+|\d+", own) if not _IDLE.match(part)]
    return tuple(sorted(part for part in parts if not part.isdigit())), tuple(part for part in parts if part.isdigit())
