"""Prunes traces and trajectories. The ledger itself is never pruned.

A trajectory is changed only if the ledger knows its run and the run is not in progress; those of other ledgers stay
unchanged. A scouting's trace belongs to no run, so it stays if it was written within the last day.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from scrout.base import FrozenModel
from scrout.config.settings import RetentionSettings
from scrout.files import write_atomic
from scrout.ledger.store import RUN_ID, Ledger
from scrout.trajectory import FILE_NAME, BilledCall, Line, ModelRequest, ModelResponse, RefusedCall, read

FRESH = timedelta(days=1)
GIGABYTE = 1_000_000_000
REDACTED = "[removed]"

Why = Literal["days", "max_gb", "text"]


@dataclass(frozen=True)
class TraceFolder:
    """The traces of a run's attempts, or of one scouting."""

    path: Path
    at: datetime
    """When its run ended, or its last write."""
    size: int
    run_id: str = ""
    """Empty: the trace of a scouting."""


class PrunedTraces(FrozenModel):
    folder: Path
    run: str
    what: Literal["removed", "redacted"]
    why: Why
    """The setting that requires it."""
    freed_bytes: int


class Pruning(FrozenModel):
    dry_run: bool
    pruned: tuple[PrunedTraces, ...]
    kept: int
    """Folders that stay unchanged, or as they were redacted."""
    kept_bytes: int
    left_alone: int
    """Folders of runs in progress, or of another ledger."""


def prune(
    ledger: Ledger,
    attempts: Sequence[Path],
    traces: Path,
    settings: RetentionSettings,
    *,
    dry_run: bool = False,
    now: datetime | None = None,
) -> Pruning:
    """Remove and redact according to the settings: runs below each of `attempts`, scoutings below `traces`."""
    now = now or datetime.now(UTC)
    found, left_alone = _folders(ledger, attempts, traces, now)
    pruned: list[PrunedTraces] = []
    for one, why in _unwanted(found, settings, now):
        with ledger.left_alone(one.run_id) if one.run_id else nullcontext(True) as free:
            done = (_redact(one, dry_run) if why == "text" else _remove(one, why, dry_run)) if free else None
        left_alone += not free  # another process has continued it meanwhile
        pruned += [done] if done else []
    freed = {one.folder: one.freed_bytes for one in pruned}
    removed = [one for one in pruned if one.what == "removed"]
    return Pruning(
        dry_run=dry_run,
        pruned=tuple(pruned),
        kept=len(found) - len(removed),
        kept_bytes=sum(one.size - freed.get(one.path, 0) for one in found),
        left_alone=left_alone,
    )


def _folders(ledger: Ledger, attempts: Sequence[Path], traces: Path, now: datetime) -> tuple[list[TraceFolder], int]:
    """Folders, oldest first, and the number that must not be changed."""
    found: list[TraceFolder] = []
    left_alone = 0
    for path in (path for folder in dict.fromkeys(attempts) for path in _below(folder)):
        if not RUN_ID.fullmatch(path.name):  # a ledger from elsewhere could name any folder
            left_alone += 1
            continue
        ended = ledger.ended(path.name)
        with ledger.left_alone(path.name) as free:
            if ended is not None and free:
                found.append(TraceFolder(path, ended, _size(path), path.name))
            else:
                left_alone += 1
    for path in _below(traces):
        written = datetime.fromtimestamp(max(file.lstat().st_mtime for file in (path, *_files(path))), UTC)
        if now - written >= FRESH:
            found.append(TraceFolder(path, written, _size(path)))
        else:
            left_alone += 1
    return sorted(found, key=lambda one: one.at), left_alone


def _unwanted(
    found: Sequence[TraceFolder], settings: RetentionSettings, now: datetime
) -> Iterator[tuple[TraceFolder, Why]]:
    """Folders that are too old, then the oldest until the rest fits, and all others if no text is kept."""
    left = sum(one.size for one in found)
    for one in found:
        if settings.days is not None and now - one.at > timedelta(days=settings.days):
            left -= one.size
            yield one, "days"
        elif settings.max_gb is not None and left > settings.max_gb * GIGABYTE:
            left -= one.size
            yield one, "max_gb"
        elif not settings.text:
            yield one, "text"


def _remove(one: TraceFolder, why: Why, dry_run: bool) -> PrunedTraces:
    if not dry_run:
        shutil.rmtree(one.path)
    return PrunedTraces(folder=one.path, run=one.run_id, what="removed", why=why, freed_bytes=one.size)


def _redact(one: TraceFolder, dry_run: bool) -> PrunedTraces | None:
    """None: there is nothing to redact. A scouting's trace is all text, so it is removed."""
    if not one.run_id:
        return _remove(one, "text", dry_run)
    texts = [file for file in _files(one.path) if file.name != FILE_NAME or not _is_redacted(file)]
    if not texts:
        return None
    freed = 0
    for file in texts:
        freed += file.lstat().st_size
        if file.name == FILE_NAME:
            freed -= _rewrite(file, dry_run)
        elif not dry_run:
            file.unlink()
    return PrunedTraces(folder=one.path, run=one.run_id, what="redacted", why="text", freed_bytes=freed)


def _is_redacted(trajectory: Path) -> bool:
    return all(line == _without_text(line) for line in read(trajectory))


def _rewrite(trajectory: Path, dry_run: bool) -> int:
    """Rewrite a trajectory without text; returns its size. Every call's payment stays."""
    lines = [_without_text(line).model_dump_json() for line in read(trajectory)]
    text = "".join(f"{line}\n" for line in lines).encode()
    if not dry_run:
        write_atomic(trajectory, text, mode=0o600)
    return len(text)


def _without_text(line: Line) -> Line:
    if isinstance(line, BilledCall):
        said = ModelResponse(finish=line.said.finish, error=REDACTED if line.said.error else "")
        return line.model_copy(update={"asked": ModelRequest(left_out=True), "said": said})
    if isinstance(line, RefusedCall):
        return line.model_copy(update={"asked": ModelRequest(left_out=True), "error": REDACTED})
    return line


def _below(folder: Path) -> list[Path]:
    with suppress(FileNotFoundError):
        return sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())
    return []


def _files(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder):
        yield from (Path(parent, name) for name in names)


def _size(folder: Path) -> int:
    return sum(file.lstat().st_size for file in _files(folder))
