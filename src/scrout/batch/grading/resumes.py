"""Teaches the fixers' résumés with the grades of a batch. Patches that could not be judged are ignored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from scrout.base import RouteError
from scrout.batch.folder import Batch
from scrout.batch.grading.grade import UNCOUNTED, Grade
from scrout.batch.grading.judge import digest
from scrout.config.settings import FixerKey, Settings
from scrout.ledger.store import Ledger
from scrout.route.embed import Embedder
from scrout.route.feedback import LearnedResume, LearningReport, from_run, history, learn, own_folder


@dataclass(frozen=True)
class TaughtResumes:
    learned: int
    known: int
    """Runs whose grade was learned before."""
    skipped: tuple[str, ...]
    """Why a run was ignored, a sentence each."""
    by_fixer: Mapping[FixerKey, LearnedResume]


def teach(
    batch: Batch, ledger: Ledger, grades: Mapping[tuple[str, str], Grade], settings: Settings, embedder: Embedder
) -> TaughtResumes:
    """Let each fixer's résumé learn from the graded runs of a batch. `grades` are by task and arm."""
    folder = own_folder(settings.route)
    said = {line.run: line.verdict for line in history(folder)}
    last = {(head.task.id, head.arm): head.id for head in ledger.runs_of(batch.id) if head.finished}
    new: list[LearningReport] = []
    skipped: list[str] = []
    known = 0
    for place, run_id in last.items():
        graded = grades.get(place)
        if graded is None or graded.verdict in UNCOUNTED:
            continue
        run = ledger.run(run_id)
        if digest(run.patch) != graded.patch_digest:
            skipped.append(f"run {run_id} has another patch than the one that was graded")
            continue
        resolved = graded.verdict == "resolved"
        try:
            one = from_run(run, "merged" if resolved else "wrong", settings)
        except RouteError as error:
            skipped.append(str(error))
            continue
        one = replace(one, verdict="resolved" if resolved else "unresolved")
        if said.get(run_id) == one.verdict:
            known += 1
        else:
            new.append(one)
    lessons = learn(new, folder, embedder) if new else {}
    return TaughtResumes(len(new), known, tuple(skipped), lessons)
