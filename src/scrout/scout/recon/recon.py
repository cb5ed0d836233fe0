"""recon, the embedded searcher: reads issue and repository, runs the issue's own code, ranks files by what it saw.

No language model, no network, no cost. Same input, same output, but for the seconds.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence

from scrout.config.settings import ScoutSettings
from scrout.handoff import FileRef, Handoff, render
from scrout.index.repository import Repository, read_repository
from scrout.records import Scouting, State
from scrout.sandbox.task_sandbox import TaskSandbox
from scrout.scout.recon.change_conventions import ChangeConvention, change_conventions
from scrout.scout.recon.executed_files import read_execution_trace
from scrout.scout.recon.ranker import load_model
from scrout.scout.recon.reproduce import ReproductionAttempt, reproduce
from scrout.scout.recon.search import ExaminedRepository, Ranked, Ranking, examine, judge
from scrout.scout.recon.signals import CLUE_KINDS, Clue
from scrout.task import Task

SPACE = "recon-3"

STATE_FEATURES: tuple[str, ...] = (
    "log_text_chars",
    "bullets",
    "quoted_names",
    "distinct_paths",
    "snake_case_names",
    "files_named_by_path",
    "files_named_by_symbol",
    "log_repository_files",
    "top_confidence",
    "margin",  # first confidence less the second
    "entropy",  # of the confidences, 0 one file to 1 all alike
    "files_expected",  # the confidences' sum
    "files_handed_on",
    "function_score",  # log odds of the likeliest function
    "log_function_lines",  # its length
    "log_suspect_lines",  # of the first file
    "log_suspect_commits",  # that touched it
    *(f"has_{kind}" for kind in CLUE_KINDS),  # 1: some clue of this kind
    "scripts_run",
    "reproduced",  # 1: the code failed when run
)
"""What each number of the state is, in order. A change of meaning is a new SPACE."""


_NO_FUNCTION = -9.0  # below what any function gets


async def recon(
    task: Task, task_sandbox: TaskSandbox, settings: ScoutSettings, progress: Callable[[str], None] = lambda words: None
) -> Scouting:
    """Search the repository at its base commit for what the issue is about."""
    started = time.monotonic()
    base, model = task_sandbox.base, load_model()
    repository = await asyncio.to_thread(read_repository, base.tree / ".git", base.commit, settings.subtree, progress)
    examined = await asyncio.to_thread(examine, task.text, repository, model.shortlist)
    found = await asyncio.to_thread(judge, examined, repository, settings.max_files, model)
    tried, seen = ReproductionAttempt(), []
    if settings.reproduce:
        suspects = [file.path for file in found.ranked[: settings.max_files]]
        tried = await reproduce(task.text, repository, task_sandbox, suspects=suspects)
    if (execution_trace := tried.execution_trace) is not None:
        seen = await asyncio.to_thread(
            lambda: list(read_execution_trace(execution_trace, examined.mentions, repository))
        )
        found = await asyncio.to_thread(judge, examined, repository, settings.max_files, model, seen)
    handoff = Handoff(
        files=(*(_reference(file) for file in found.named), *(_new(path) for path in found.new_files)),
        reproduction=tried.reproduction,
        dead_ends=(tried.dead_end,) if tried.dead_end else (),
        notes=_notes(found, tried, change_conventions(repository)),
    )
    clues = [*seen, *examined.signals.clues]
    return Scouting(
        handoff=handoff,
        text=await asyncio.to_thread(render, handoff),
        state=State(space=SPACE, vector=_vector(examined, repository, clues, found, tried)),
        seconds=round(time.monotonic() - started, 3),
    )


def survey(text: str, repository: Repository) -> State:
    """The state alone, for studies of many tasks: nothing is run, so nothing was reproduced."""
    model = load_model()
    examined = examine(text, repository, model.shortlist)
    found = judge(examined, repository, ScoutSettings().max_files, model)
    return State(
        space=SPACE, vector=_vector(examined, repository, list(examined.signals.clues), found, ReproductionAttempt())
    )


def _reference(file: Ranked) -> FileRef:
    return FileRef(path=file.path, regions=file.regions, confidence=file.confidence, why=_why(file))


def _new(path: str) -> FileRef:
    # The gate keeps a path that does not exist only if it is announced so.
    return FileRef(path=path, why="new file: the issue names its path, and it does not exist yet")


def _why(file: Ranked, most: int = 3) -> str:
    """The strongest clue of each kind."""
    best: dict[str, str] = {}
    for clue in file.clues:
        best.setdefault(clue.kind, clue.words)
    return "; ".join(list(best.values())[:most])


def _notes(found: Ranking, tried: ReproductionAttempt, usual: Sequence[ChangeConvention]) -> str:
    if not found.named:
        return "The repository holds no file that could be read. Nothing points anywhere."
    first = found.named[0]
    sentences = [f"{first.path} comes first: {_why(first) or 'nothing in the issue points at any file'}."]
    sentences += [f"{file.path} is next: {_why(file, 2)}." for file in found.named[1:2] if file.clues]
    if tried.reproduction is not None:
        source = "A test of the project" if tried.origin == "test" else "Code from the issue"
        sentences.append(f"{source} was run and failed; the files it went through count more.")
    elif tried.runs:
        sentences.append("Code from the issue was run and did not show the failure.")
    close = [
        file.path
        for file in found.ranked[len(found.named) :][:2]
        if file.confidence >= 0.5 * found.named[-1].confidence
    ]
    if close:
        sentences.append(f"Not named but close: {', '.join(close)}.")
    if first.confidence < 0.5:
        sentences.append("The evidence is thin, so look further if these files do not fit.")
    sentences += [str(habit) for habit in usual[:2]]
    return " ".join(sentences)


def _vector(
    examined: ExaminedRepository, repository: Repository, clues: list[Clue], found: Ranking, tried: ReproductionAttempt
) -> tuple[float, ...]:
    def files(*kinds: str) -> int:
        return len({clue.path for clue in clues if clue.kind in kinds})

    mentions = examined.mentions
    confidences = [file.confidence for file in found.ranked]
    top, second = (*confidences, 0.0, 0.0)[:2]
    present = {clue.kind for clue in clues}
    first = found.ranked[0].path if found.ranked else ""
    likeliest = found.functions[0] if found.functions else None
    vector = (
        math.log1p(mentions.chars),
        mentions.bullets,
        len(mentions.quoted),
        len(mentions.paths),
        mentions.snake_case,
        files("path", "place"),
        files("symbol"),
        math.log1p(len(repository.files)),
        top,
        top - second,
        _entropy(confidences),
        math.fsum(confidences),
        len(found.named),
        likeliest.score if likeliest else _NO_FUNCTION,
        math.log1p(likeliest.last - likeliest.first + 1) if likeliest else 0.0,
        math.log1p(repository.files[first].lines) if first in repository.files else 0.0,
        math.log1p(len(repository.history.touching.get(first, ()))),
        *(kind in present for kind in CLUE_KINDS),
        tried.runs,
        tried.reproduction is not None,
    )
    return tuple(round(float(number), 6) for number in vector)


def _entropy(confidences: list[float]) -> float:
    """How spread the confidence is: 0 for one file, 1 for all alike."""
    total = math.fsum(confidences)
    if len(confidences) < 2 or not total:
        return 0.0
    shares = [confidence / total for confidence in confidences]
    return -math.fsum(share * math.log(share) for share in shares if share) / math.log(len(confidences))
