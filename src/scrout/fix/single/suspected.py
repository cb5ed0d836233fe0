"""Chooses the code to show: functions that the failing run executed, passing tests did not, and the issue mentions;
then the handoff's files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from scrout.fix.repair.spectrum import Spectrum, contrast_of
from scrout.fix.repair.suspects import Suspect, rank
from scrout.fix.single.excerpts import Excerpt, Read, excerpt_around
from scrout.handoff import FileRef
from scrout.index.bm25 import bm25
from scrout.index.words import count_words
from scrout.records import GatedHandoff
from scrout.sandbox.replay import replay
from scrout.sandbox.suite import belongs_to_tests, find_suite, related_tests
from scrout.sandbox.task_sandbox import TaskSandbox

MOST_FUNCTIONS = 20
WORDS = 2.0
"""What the words of the report count for beside what ran (chosen on fresh2, bench/suspected.py)."""
MOST_TEST_FILES = 8
TESTS_S = 8.0


async def suspected_files(report: str, gated: GatedHandoff, task_sandbox: TaskSandbox) -> tuple[FileRef, ...]:
    """One entry per suspected function, likeliest first, then the files of the handoff."""
    named = gated.handoff.files
    reproduction = gated.handoff.reproduction
    if not gated.kept or reproduction is None or not reproduction.command or not task_sandbox.environment.python:
        return named
    workspace = task_sandbox.fresh()
    try:
        for path, content in reproduction.files.items():
            workspace.write(path, content.encode())
        seen = await replay(task_sandbox, workspace, reproduction.command, watch=True)
    finally:
        workspace.remove()
    if seen.execution_trace is None:
        return named
    sources = _sources(seen.execution_trace.lines, reproduction.files, task_sandbox)
    passing = await _passing(list(sources), task_sandbox)
    suspects = rank(sources, seen.execution_trace, passing, gated.handoff, reproduction.files)
    functions = rank_functions(suspects, report, task_sandbox.base.read)[:MOST_FUNCTIONS]
    return (*(FileRef(path=one.path, regions=((one.first, one.last),)) for one in functions), *named)


def rank_functions(suspects: Sequence[Suspect], report: str, read: Read) -> list[Excerpt]:
    """The functions around suspected statements, by the most suspected of each and by the words of the report."""
    scores: dict[Excerpt, float] = {}
    for one in suspects:
        excerpt = excerpt_around(one.path, (one.first_line, one.last_line), read)
        if excerpt:
            scores[excerpt] = max(one.score, scores.get(excerpt, 0.0))
    if not scores:
        return []
    alike = likeness(report, [f"{one.name}\n{one.text}" for one in scores])
    weighted = {
        one: score * (1 + WORDS * float(like)) for (one, score), like in zip(scores.items(), alike, strict=True)
    }
    return sorted(weighted, key=lambda one: -weighted[one])


def likeness(report: str, texts: Sequence[str]) -> npt.NDArray[np.float64]:
    """How much each text has of the report's words, rare ones above all; 1 for the one that has most."""
    wanted = {word: number for number, word in enumerate(count_words(report))}
    counts = [Counter(count_words(text)) for text in texts]
    rows = [
        (wanted[word], place, n) for place, words in enumerate(counts) for word, n in words.items() if word in wanted
    ]
    term, document, count = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    lengths = np.array([words.total() for words in counts])
    found = bm25(np.ones(len(wanted)), term, document, count, lengths)
    return found / max(float(found.max()), 1e-9)


def _sources(paths: Collection[str], own: Collection[str], task_sandbox: TaskSandbox) -> dict[str, str]:
    """The repository's files that ran. Paths come from inside the sandbox and may be forged."""
    ran = (path for path in sorted(paths) if path not in own and not belongs_to_tests(path))
    return {path: data.decode("utf-8", "replace") for path in ran if (data := task_sandbox.base.read(path))}


async def _passing(paths: Sequence[str], task_sandbox: TaskSandbox) -> Spectrum:
    """Lines that passing tests near these files execute; empty: no tests run here."""
    suite = await find_suite(task_sandbox)
    if suite is None:
        return {}
    near = [path for path in related_tests(task_sandbox.base, paths) if path in suite.files]
    files = near[:MOST_TEST_FILES] or suite.files
    workspace = task_sandbox.fresh()
    try:
        found = await contrast_of(task_sandbox, workspace, paths, files, TESTS_S, suite.runner, suite.options)
    finally:
        workspace.remove()
    return found.spectrum
