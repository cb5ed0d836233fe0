"""Finds what the user wants to be studied."""

from __future__ import annotations

from pathlib import Path

from scrout.batch.folder import FILE_NAME
from scrout.errors import StudyError
from scrout.study.sources.paper import Paper
from scrout.study.sources.source import Source


def open_source(data: Path | None, place: str | None, batch: str, tasks: Path | None) -> Source:
    """The paper's files, a batch's folder, or a ledger."""
    if (data is None) == (place is None):
        raise StudyError("name what to study: --data DIR (the paper's files, or a batch's folder) or --ledger URL.")
    if data is not None and not data.is_dir():
        raise StudyError(f"--data {data} is no folder. Name the one with the paper's files, or that of a batch.")
    if data is not None and not (data / FILE_NAME).is_file():
        if batch or tasks:
            raise StudyError("--batch and --tasks go with a ledger or a batch's folder, not with the paper's files.")
        return Paper(data)
    from scrout.study.sources.own import read_batch, read_ledger

    return read_batch(data, tasks) if data is not None else read_ledger(str(place), batch, tasks)
