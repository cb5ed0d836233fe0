"""Finds what the user wants to be studied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from scrout.base import StudyError
from scrout.batch.folder import FILE_NAME
from scrout.lab.study.sources.paper import Paper
from scrout.lab.study.sources.public import read_public, with_tasks
from scrout.lab.study.sources.source import Own, Source

TABLES = (".csv", ".jsonl", ".csv.gz", ".jsonl.gz")


def open_source(
    data: Path | None, place: str | None, batch: str, tasks: Path | None, pool: Sequence[str] = ()
) -> Source:
    """The paper's files, a batch's folder, a table of outcomes, or a ledger; `pool` names the fixers that count."""
    if (data is None) == (place is None):
        raise StudyError(
            "name what to study: --data (the paper's files, a batch's folder, or a table of outcomes) or --ledger URL."
        )
    found = _of_data(data, batch, tasks) if data is not None else _of_ledger(str(place), batch, tasks)
    if not pool:
        return found
    if isinstance(found, Paper):
        raise StudyError("--pool goes with outcomes of yours or a table, not with all of the paper's files.")
    return _only(found, pool)


def _of_data(data: Path, batch: str, tasks: Path | None) -> Source:
    if data.is_file() and data.name.endswith(TABLES):
        read = read_public(data, data.name.split(".")[0]).benchmark
        return Own(replace(with_tasks(read, tasks) if tasks else read, source=f"outcomes of {data}"), "grade")
    if not data.is_dir():
        raise StudyError(
            f"--data {data} is no folder, and no table ({', '.join(TABLES)}). Name the folder with the paper's files, "
            "that of a batch, or a table with model, instance_id and resolved."
        )
    if (data / FILE_NAME).is_file():
        from scrout.lab.study.sources.own import read_batch

        return read_batch(data, tasks)
    if batch or tasks:
        raise StudyError("--batch and --tasks go with a ledger or a batch's folder, not with the paper's files.")
    return Paper(data)


def _of_ledger(place: str, batch: str, tasks: Path | None) -> Own:
    from scrout.lab.study.sources.own import read_ledger

    return read_ledger(place, batch, tasks)


def _only(own: Own, pool: Sequence[str]) -> Own:
    """The fixers of a pool in every arm that has them all."""
    arms = {arm: played for arm, played in own.benchmark.played.items() if set(pool) <= set(played.fixers)}
    if not arms:
        known = sorted({fixer for played in own.benchmark.played.values() for fixer in played.fixers})
        raise StudyError(f"no arm has all of {', '.join(pool)}. These have outcomes: {', '.join(known)}")
    played = {arm: one.only(pool) for arm, one in arms.items()}
    return replace(own, benchmark=replace(own.benchmark, played=played))
