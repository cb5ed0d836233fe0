"""recon, the embedded searcher: reads issue and repository, runs the issue's own code, and ranks files by clues.

No model, no network, no cost. Same input, same output, but for the seconds.
"""

from __future__ import annotations

import asyncio
import math
import time

from scrout.config import ScoutSettings
from scrout.handoff import FileRef, Handoff, render
from scrout.index.repository import Repository, read_repository
from scrout.records import Scouting, State
from scrout.sandbox.workshop import Workshop
from scrout.scout.recon.evidence import KINDS, SIGNALS, Clue, Mentions, by_run, read_mentions
from scrout.scout.recon.rank import Ranked, cut, entropy, rank, regions
from scrout.scout.recon.reproduce import Tried, reproduce
from scrout.task import Task

SPACE = "recon-1"

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
    "files_handed_on",
    *(f"has_{kind}" for kind in KINDS),  # 1: some clue of this kind
    "scripts_run",
    "reproduced",  # 1: the code failed when run
)
"""What each number of the state is, in order. A change of meaning is a new SPACE."""


async def recon(task: Task, workshop: Workshop, settings: ScoutSettings) -> Scouting:
    """Search the repository at its base commit for what the issue is about."""
    started = time.monotonic()
    mentions = read_mentions(task.text)
    base = workshop.base
    repository = await asyncio.to_thread(read_repository, base.tree / ".git", base.commit, mentions.words)
    tried = await reproduce(task.text, repository, workshop) if settings.reproduce else Tried()
    clues = await asyncio.to_thread(_clues, mentions, repository, tried)
    ranked = rank(clues, repository)
    kept = cut(ranked, settings.max_files)
    handoff = Handoff(
        files=tuple(_reference(file) for file in kept),
        reproduction=tried.reproduction,
        dead_ends=(tried.dead_end,) if tried.dead_end else (),
        notes=_notes(kept, ranked, tried),
    )
    return Scouting(
        handoff=handoff,
        text=render(handoff),
        state=State(space=SPACE, vector=_vector(mentions, repository, clues, ranked, kept, tried)),
        seconds=round(time.monotonic() - started, 3),
    )


def _clues(mentions: Mentions, repository: Repository, tried: Tried) -> list[Clue]:
    if tried.witness is None:
        return [clue for signal in SIGNALS for clue in signal(mentions, repository)]
    mentions = mentions.without_scaffolding()
    seen = list(by_run(tried.witness, mentions, repository))
    return seen + [clue for signal in SIGNALS for clue in signal(mentions, repository)]


def _reference(file: Ranked) -> FileRef:
    return FileRef(path=file.path, regions=regions(file), confidence=round(file.confidence, 3), why=_why(file))


def _why(file: Ranked, most: int = 3) -> str:
    """The strongest clue of each kind."""
    best: dict[str, str] = {}
    for clue in file.clues:
        best.setdefault(clue.kind, clue.words)
    return "; ".join(list(best.values())[:most])


def _notes(kept: tuple[Ranked, ...], ranked: tuple[Ranked, ...], tried: Tried) -> str:
    if not kept:
        return "The repository holds no file that could be read. Nothing points anywhere."
    first = kept[0]
    sentences = [f"{first.path} comes first: {_why(first) or 'nothing in the issue points at any file'}."]
    sentences += [f"{file.path} is next: {_why(file, 2)}." for file in kept[1:2] if file.clues]
    if tried.reproduction is not None:
        sentences.append("Code from the issue was run and failed; the files it went through count more.")
    elif tried.runs:
        sentences.append("Code from the issue was run and did not show the failure.")
    weak = first.confidence < 0.5
    sentences.append(
        f"{len(ranked)} files share something with the issue and {len(kept)} are named here"
        + ("; the evidence is thin, so look further if they do not fit." if weak else ".")
    )
    return " ".join(sentences)


def _vector(
    mentions: Mentions,
    repository: Repository,
    clues: list[Clue],
    ranked: tuple[Ranked, ...],
    kept: tuple[Ranked, ...],
    tried: Tried,
) -> tuple[float, ...]:
    def files(*kinds: str) -> int:
        return len({clue.path for clue in clues if clue.kind in kinds})

    top = ranked[0].confidence if ranked else 0.0
    second = ranked[1].confidence if len(ranked) > 1 else 0.0
    present = {clue.kind for clue in clues}
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
        entropy(ranked),
        len(kept),
        *(kind in present for kind in KINDS),
        tried.runs,
        tried.reproduction is not None,
    )
    return tuple(round(float(number), 6) for number in vector)
