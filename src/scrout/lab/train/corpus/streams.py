"""Documents out of files of any size, one at a time: JSON (one, an array, or one behind the other), JSONL, Parquet,
each also gzipped. Unreadable documents are reported in their place, and reading goes on after them if possible."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pydantic import JsonValue

from scrout.base import TaskError

ENDINGS = (".json", ".jsonl", ".traj", ".parquet")
CHUNK = 1 << 20
MAX_CHARS = 200_000_000
"""Of one document; a longer one is no trajectory."""
PARQUET_ROWS = 16


@dataclass(frozen=True)
class UnreadableDocument:
    why: str


Found = tuple[str, "dict[str, JsonValue] | UnreadableDocument"]
"""Where it stands, and what it is."""


def files(sources: list[Path]) -> list[Path]:
    """The files that are named, and those below folders that are named, in order."""
    found: list[Path] = []
    for source in sources:
        if source.is_dir():
            below = sorted(path for path in source.rglob("*") if path.is_file() and _ending(path))
            if not below:
                raise TaskError(f"{source} holds no {', '.join(ENDINGS)} file, gzipped or not. Name another folder.")
            found += below
        elif not source.is_file():
            raise TaskError(f"{source} is not there. Name files or folders with trajectories.")
        elif not _ending(source):
            raise TaskError(f"{source} is none of {', '.join(ENDINGS)}, gzipped or not. Name a file of one of these.")
        else:
            found.append(source)
    return found


def documents(path: Path) -> Iterator[Found]:
    if _ending(path) == ".parquet":
        yield from _parquet(path)
        return
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            text = io.TextIOWrapper(file, encoding="utf-8", errors="replace")
            yield from _lines(path, text) if _ending(path) == ".jsonl" else _values(path, text)
    except (OSError, EOFError, zlib.error) as error:
        yield str(path), UnreadableDocument(f"the file breaks off: {error}")


def _ending(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz")
    return next((ending for ending in ENDINGS if name.endswith(ending)), "")


def _lines(path: Path, file: IO[str]) -> Iterator[Found]:
    number = 0
    while line := file.readline(MAX_CHARS):
        number += 1
        if line.strip():
            yield f"{path}:{number}", _document(line)


def _document(text: str) -> dict[str, JsonValue] | UnreadableDocument:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        return UnreadableDocument(f"no JSON: {error}")
    return value if isinstance(value, dict) else UnreadableDocument(f"no JSON object but {type(value).__name__}")


def _values(path: Path, file: IO[str]) -> Iterator[Found]:
    """Objects of an array, or one behind the other. Each is read when it is whole."""
    decoder, buffer, number = json.JSONDecoder(), "", 0
    while True:
        buffer = buffer.lstrip("[], \t\r\n")
        value, end, problem = None, 0, ""
        if buffer:
            try:
                value, end = decoder.raw_decode(buffer)
            except (ValueError, RecursionError) as error:
                problem = str(error)
        if not end:
            # At least as much again, so that what is read anew each time adds up to no more than twice the whole.
            more = file.read(max(CHUNK, len(buffer))) if len(buffer) < MAX_CHARS else ""
            if not more:
                if buffer:
                    yield f"{path}:{number + 1}", UnreadableDocument(f"no JSON, and what follows it is lost: {problem}")
                return
            buffer += more
            continue
        buffer = buffer[end:]
        number += 1
        known = value if isinstance(value, dict) else UnreadableDocument(f"no JSON object but {type(value).__name__}")
        yield f"{path}:{number}", known


def _parquet(path: Path) -> Iterator[Found]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise TaskError(f"{path}: Parquet needs pyarrow. Install it: pip install 'scrout[parquet]'") from None
    number = 0
    try:
        # What is read ahead would be a row group twice. One is held as its writer made it: less cannot be read.
        with ParquetFile(path, pre_buffer=False, buffer_size=CHUNK) as file:
            for batch in file.iter_batches(batch_size=PARQUET_ROWS):
                for at in range(len(batch)):
                    number += 1
                    yield f"{path}:{number}", _row(batch.slice(at, 1))
    except (ArrowException, OSError) as error:
        yield f"{path}:{number + 1}", UnreadableDocument(f"no Parquet: {str(error).splitlines()[0]}")


def _row(batch: Any) -> dict[str, JsonValue] | UnreadableDocument:
    try:
        row: dict[str, JsonValue] = batch.to_pylist()[0]
    except ValueError as error:
        return UnreadableDocument(f"its text is no Unicode: {error}")
    return row
