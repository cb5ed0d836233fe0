"""A study as a page, and the last result of each study of each source, kept so that the dashboard can show it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from pydantic import Field, ValidationError

from scrout.base import FrozenModel
from scrout.config.folders import data_folder
from scrout.files import write_atomic
from scrout.html import render
from scrout.lab.study.report import Figure, ReportTable, StudyReport
from scrout.redact import redact

MAX_KEPT = 50
"""Older ones go."""
FORMAT = 1


class SavedFigure(FrozenModel):
    title: str
    told: str
    """The same in words."""
    svg: str


class SavedStudy(FrozenModel):
    format: int = Field(default=FORMAT, ge=FORMAT, le=FORMAT)
    id: str = Field(pattern=r"^[a-z]+-[0-9a-f]{12}$")
    study: str
    title: str
    source: str
    """What was studied."""
    command: str
    """How to make it again."""
    at: datetime
    findings: tuple[str, ...]
    failed: tuple[str, ...] = ()
    parts: tuple[ReportTable | SavedFigure, ...]
    notes: tuple[str, ...] = ()


def save_study(study: str, report: StudyReport, source: str, command: str) -> SavedStudy:
    """Store a report in place of the last one of the same study and source."""
    digest = hashlib.sha256(source.encode(errors="replace")).hexdigest()[:12]
    made = SavedStudy(
        id=f"{study}-{digest}",
        study=study,
        title=report.title,
        source=redact(source),
        command=command,
        at=datetime.now(UTC),
        findings=_clean(report.findings),
        failed=_clean(report.failed),
        parts=tuple(
            ReportTable(part.title, [*_clean(part.columns)], [[*_clean(row)] for row in part.rows], redact(part.note))
            if isinstance(part, ReportTable)
            else SavedFigure(title=part.title, told=redact(part.told), svg=_svg(part).decode())
            for part in report.parts
        ),
        notes=_clean(report.notes),
    )
    folder = saved_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomic(folder / f"{made.id}.json", made.model_dump_json())
    for old in sorted(folder.glob("*.json"), key=lambda one: one.stat().st_mtime, reverse=True)[MAX_KEPT:]:
        old.unlink(missing_ok=True)
    return made


def _svg(figure: Figure) -> bytes:
    from scrout.lab.study.figures import drawn

    return drawn(figure, "svg")


def page(report: StudyReport, source: str, command: str) -> str:
    """The study as one HTML page that opens offline. `source` says what was studied, `command` how to make it again."""
    return render(
        "study_report.html",
        report=report,
        title=report.title,
        source=source,
        command=command,
        drawn=lambda figure: base64.b64encode(_svg(figure)).decode(),
    )


def all_saved() -> list[SavedStudy]:
    """Newest first. What cannot be read is left out: it is of another version, or damaged."""
    found = []
    for path in saved_folder().glob("*.json"):
        with suppress(OSError, ValidationError, UnicodeDecodeError):
            found.append(_read(path, path.stat().st_mtime_ns))
    return sorted(found, key=lambda one: one.at, reverse=True)


@lru_cache(maxsize=2 * MAX_KEPT)
def _read(path: Path, changed_ns: int) -> SavedStudy:
    return SavedStudy.model_validate_json(path.read_text(encoding="utf-8"))


def saved_folder() -> Path:
    return data_folder() / "studies"


def _clean(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(redact(one).encode(errors="replace").decode() for one in words)
