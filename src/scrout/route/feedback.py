"""Learns from the user's own runs: their outcomes, drift of predictions, and similarity of their tasks.

Each verdict is added to the fixer's résumé. It is also appended to a file, with the probability predicted when the
fixer was chosen, because a résumé that has learned no longer shows the original prediction.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from scrout.base import ConfigError, FrozenModel, RouteError, TaskError
from scrout.config.folders import data_folder
from scrout.config.settings import FixerKey, RouteSettings, Settings
from scrout.files import JsonLines
from scrout.records import Run, State
from scrout.route import resume as resumes
from scrout.route.embed import Embedder
from scrout.route.outcomes import Arm, Outcome, OutcomeWithText, digest, join_texts
from scrout.route.resume import MIN_OUTCOMES, Resume, text_space
from scrout.route.resume_store import alone, unwritable
from scrout.route.task_vectors import Rows, TaskVectors, remember
from scrout.task import title_of

Verdict = Literal["merged", "reverted", "wrong"]
Grade = Literal["resolved", "unresolved"]
"""The verdict's source for a batch's grader."""

FILE = "feedback.jsonl"
RESUMES = "resumes"
"""Name of the lock on the folder while a résumé changes."""
OWN = "your own runs"
"""The résumé's source for outcomes learned from verdicts."""

MIN_DRIFT = 10
"""Minimum number of verdicts to report drift: a few surprises are chance."""
MAX_Z = 2.0
WINDOW = 50
"""Number of latest verdicts to judge drift by: what a résumé has learned since must not count against it forever."""
MAX_RUNS = 200
"""Number of latest runs whose tasks represent the user's."""

Vectors = Mapping[str, Sequence[float] | Rows]

_SURE = 0.001
"""Probabilities are clipped to this distance from 0 and 1; otherwise, one surprise against a certain prediction
would be infinite.
"""


class Feedback(FrozenModel):
    """One line of the file: a run's prediction and verdict. The last line of a run counts."""

    run: str = Field(min_length=1)
    key: FixerKey
    verdict: Verdict | Grade
    when: datetime
    p_solve: float | None = Field(default=None, ge=0, le=1)
    """The probability of the fixer when it was chosen; None: it had no résumé."""

    @property
    def resolved(self) -> bool:
        return good(self.verdict)


@dataclass(frozen=True)
class LearningReport:
    """An attempt with a known outcome, and everything to store about it."""

    run: str
    key: FixerKey
    verdict: Verdict | Grade
    instance_id: str
    text: str
    """The task's text, as scout and fixer read it."""
    arm: Arm
    cost_usd: Decimal | None
    api_calls: int | None
    p_solve: float | None
    """Predicted when the fixer was chosen; None: it had no résumé."""
    state: State | None
    """The scout's; None: it gave none."""

    @property
    def told(self) -> OutcomeWithText:
        return join_texts(self.instance_id, self.text, good(self.verdict), self.cost_usd, self.arm, self.api_calls)


@dataclass(frozen=True)
class LearnedResume:
    """A résumé after learning."""

    resume: Resume
    replaced: tuple[str, ...]
    """Tasks whose former outcome was replaced."""


class Drift(FrozenModel):
    key: FixerKey
    n: int
    """The latest WINDOW verdicts on runs with a prediction."""
    predicted: float
    observed: float
    z: float
    """Their difference in standard deviations; below 0: it does worse than predicted."""
    notice: str
    """In words, with the next step; empty: prediction and result agree, or there are too few to tell."""


class Nearness(FrozenModel):
    """The similarity of the user's tasks to those of a résumé, by cosine of the text vectors."""

    tasks: int
    """Different tasks in the user's latest runs."""
    median: float
    """Of their cosine to the nearest task of the résumé."""
    among_own: float
    """The same median of the résumé's tasks, each to the nearest of the others."""
    words: str


def good(verdict: Verdict | Grade) -> bool:
    return verdict in ("merged", "resolved")


def own_folder(settings: RouteSettings) -> Path:
    return Path(settings.resumes) if settings.resumes else data_folder() / "resumes"


def from_run(run: Run, verdict: Verdict, settings: Settings) -> LearningReport:
    """The run's last attempt with its verdict; raises a RouteError if learning from it would be wrong."""
    if not run.attempts:
        raise RouteError(
            f"no fixer made an attempt in run {run.id} ({run.outcome}). Choose another run from `scrout runs`."
        )
    attempt = run.attempts[-1]
    if attempt.stop == "endpoint":
        raise RouteError(
            f"in run {run.id} the endpoint of {attempt.fixer} failed, which says nothing about the fixer. Run the "
            f"task again with `scrout fix`, and judge that run."
        )
    if verdict != "wrong" and not attempt.patch:
        raise RouteError(f"run {run.id} ended without a patch, so there is no patch to call {verdict}. Use `wrong`.")
    try:
        fixer = settings.fixer(attempt.fixer)
    except ConfigError:
        raise RouteError(
            f"run {run.id} was tried by {attempt.fixer!r}, which is not in the pool, so scrout cannot tell its "
            f"model. Pass the settings of that run: --config FILE."
        ) from None
    models = {receipt.model for receipt in attempt.receipts}
    if models and fixer.model not in models:
        raise RouteError(
            f"{fixer.name} was {', '.join(sorted(models))} in run {run.id} and is {fixer.model} now. Name the settings "
            "of that run: --config FILE."
        )
    candidates = run.decision.candidates if run.decision else ()
    return LearningReport(
        run=run.id,
        key=fixer.key,
        verdict=verdict,
        instance_id=run.task.id,
        text=run.task.text,
        arm="handoff" if run.gated and run.gated.handoff.files else "solo",
        cost_usd=attempt.cost_usd,
        api_calls=attempt.calls,
        p_solve=next((one.p_solve for one in candidates if one.fixer == attempt.fixer), None),
        state=run.scouting.state if run.scouting else None,
    )


def record(run: Run, verdict: Verdict, settings: Settings, embedder: Embedder) -> tuple[LearnedResume, Feedback | None]:
    """Learn a verdict on a run; returns what was learned, and the run's former verdict."""
    folder = own_folder(settings.route)
    one = from_run(run, verdict, settings)
    former = next((line for line in reversed(history(folder)) if line.run == run.id), None)
    if former and former.key != one.key:
        raise RouteError(
            f"run {run.id} was judged as one of {former.key}, and its fixer is {one.key} now. Name the settings of "
            "that run: --config FILE."
        )
    return learn([one], folder, embedder)[one.key], former


def learn(outcomes: list[LearningReport], folder: Path, embedder: Embedder) -> dict[FixerKey, LearnedResume]:
    """Let the user's résumés in the folder learn from attempts with known outcomes; creates missing résumés.

    A task counts once for each fixer and arm: its last outcome.
    """
    texts = {digest(one.text): one.text for one in outcomes}
    lessons: dict[FixerKey, LearnedResume] = {}
    with alone(folder, RESUMES):
        resumes.remember_texts(texts, embedder, folder)
        for space, rows in _states(outcomes).items():
            remember(folder, space, rows, {task: title_of(texts[task]) for task in rows})
        known = resumes.load(folder)
        for key in dict.fromkeys(one.key for one in outcomes):
            former = known.get(key)
            new = [one.told.outcome for one in outcomes if one.key == key]
            joined, replaced = join(former.outcomes if former else (), new)
            source = former.source if former else ""
            price = former.price if former else None
            resume = Resume(key=key, outcomes=joined, source=with_source(source, OWN), price=price, made=date.today())
            resumes.save(resume, folder)
            lessons[key] = LearnedResume(resume, replaced)
        _append(folder, outcomes)
    return lessons


def join(former: Iterable[Outcome], new: Iterable[Outcome]) -> tuple[tuple[Outcome, ...], tuple[str, ...]]:
    """All outcomes, one for each task and arm, new ones winning; and the tasks whose former outcome was replaced."""
    outcomes = {(one.instance_id, one.arm): one for one in former}
    replaced = []
    for one in new:
        if (one.instance_id, one.arm) in outcomes:
            replaced.append(one.instance_id)
        outcomes[one.instance_id, one.arm] = one
    return tuple(outcomes.values()), tuple(replaced)


def with_source(former: str, new: str) -> str:
    """The sources, without duplicates."""
    sources = [source for source in former.split("; ") if source]
    return "; ".join(dict.fromkeys([*sources, new]))


def history(folder: Path) -> list[Feedback]:
    """Every line of the folder's file, oldest first."""
    path = folder / FILE
    try:
        return JsonLines(path, Feedback).read()
    except OSError as error:
        raise RouteError(f"{path}: {error.strerror or error}. Make it readable.") from None
    except TaskError as error:
        raise RouteError(str(error)) from None


def drift(folder: Path) -> list[Drift]:
    """The drift between predictions and results for each fixer with verdicts on predicted runs."""
    last = {one.run: one for one in history(folder)}
    by_key: dict[FixerKey, list[Feedback]] = {}
    for one in sorted(last.values(), key=lambda one: one.when):
        if one.p_solve is not None:
            by_key.setdefault(one.key, []).append(one)
    return [_drift(key, by_key[key][-WINDOW:]) for key in sorted(by_key, key=str)]


def nearness(texts: Iterable[str], resume: Resume, known: TaskVectors, embedder: Embedder) -> Nearness | None:
    """The similarity of the user's tasks to those of a résumé; None: there are none, or the résumé's have no
    vectors.
    """
    tasks = list(dict.fromkeys(outcome.task for outcome in resume.outcomes))
    mine = list(dict.fromkeys(text for text in texts if text.strip()))
    _, theirs = known.vectors(text_space(embedder), tasks)
    if not mine or len(theirs) < 2:
        return None
    theirs = _unit(theirs)
    nearest = (_unit(embedder.embed(mine)) @ theirs.T).max(axis=1)
    among = theirs @ theirs.T
    np.fill_diagonal(among, -1)
    own = among.max(axis=1)
    median = float(np.median(nearest))
    if median >= np.quantile(own, 0.25):
        words = "your tasks are as near to its tasks as those are to each other"
    elif median >= np.quantile(own, 0.05):
        words = "your tasks are farther from its tasks than most of those are from each other"
    else:
        words = (
            "your tasks are far from its tasks: take its probabilities with care until some of your own outcomes join"
        )
    return Nearness(
        tasks=len(mine),
        median=round(median, 4),
        among_own=round(float(np.median(own)), 4),
        words=f"{words} (median cosine {median:.2f}, among its own {np.median(own):.2f})",
    )


def _drift(key: FixerKey, lines: Sequence[Feedback]) -> Drift:
    ends = np.array([one.resolved for one in lines], dtype=float)
    probabilities = np.clip(np.array([one.p_solve for one in lines], dtype=float), _SURE, 1 - _SURE)
    z = float((ends - probabilities).sum() / math.sqrt((probabilities * (1 - probabilities)).sum()))
    predicted, observed, n = float(probabilities.mean()), float(ends.mean()), len(lines)
    notice = ""
    if n >= MIN_DRIFT and abs(z) > MAX_Z:
        how = "worse" if z < 0 else "better"
        notice = (
            f"{key} does {how} on your tasks than predicted: {int(ends.sum())} of its last {n} judged runs ended well "
            f"({observed:.2f}), where {predicted:.2f} was expected (z {z:+.1f}). Its probabilities here are off: "
            f"measure it on {MIN_OUTCOMES} tasks of yours or more and give them to `scrout fixers add` with --replace."
        )
    return Drift(key=key, n=n, predicted=round(predicted, 4), observed=round(observed, 4), z=round(z, 3), notice=notice)


def _states(outcomes: Iterable[LearningReport]) -> dict[str, Vectors]:
    found: dict[str, dict[str, Sequence[float] | Rows]] = {}
    for one in outcomes:
        if one.state is not None:
            found.setdefault(one.state.space, {})[digest(one.text)] = one.state.vector
    return dict(found)


def _append(folder: Path, outcomes: Iterable[LearningReport]) -> None:
    now = datetime.now(UTC)
    lines = [Feedback(run=one.run, key=one.key, verdict=one.verdict, when=now, p_solve=one.p_solve) for one in outcomes]
    path = folder / FILE
    try:
        JsonLines(path, Feedback).append(*lines)
    except OSError as error:
        raise unwritable(path, error) from None


def _unit(rows: Rows) -> Rows:
    """Stored vectors lost some precision; a text without a word stays zeros."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)
