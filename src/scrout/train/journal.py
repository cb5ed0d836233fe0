"""A list on disk that only grows: a record a line, each on the disk before anything goes on. A kill can cut off the
last line alone, which then counts as never written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import ValidationError

from scrout.errors import TaskError
from scrout.ledger.locks import Lock
from scrout.money import Record

R = TypeVar("R", bound=Record)


class Journal(Generic[R]):
    """One that may be appended to by one process."""

    def __init__(self, path: Path, kind: type[R]) -> None:
        self.path = path
        self.kind = kind

    def read(self) -> list[R]:
        """Every whole record."""
        try:
            raw = self.path.read_bytes()
        except FileNotFoundError:
            return []
        records = []
        for number, line in enumerate(raw.split(b"\n")[:-1], 1):
            try:
                records.append(self.kind.model_validate_json(line))
            except ValidationError as error:
                problem = error.errors(include_url=False, include_input=False)[0]
                raise TaskError(
                    f"{self.path}, line {number}: {problem['msg']}. The file was changed, or another scrout wrote it; "
                    "begin in a new folder."
                ) from None
        return records

    def append(self, record: R) -> None:
        """Written, or nothing of it."""
        line = record.model_dump_json().encode() + b"\n"
        with self.path.open("a+b") as file:
            whole = _whole_bytes(file.fileno())
            os.ftruncate(file.fileno(), whole)
            try:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                os.ftruncate(file.fileno(), whole)
                raise


def _whole_bytes(descriptor: int) -> int:
    """Up to the end of the last whole line."""
    end = os.fstat(descriptor).st_size
    while end > 0:
        start = max(end - 65_536, 0)
        at = os.pread(descriptor, end - start, start).rfind(b"\n")
        if at >= 0:
            return start + at + 1
        end = start
    return 0


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """One process at a time works in a folder, which is made where it is missing."""
    lock = Lock(folder / ".lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        taken = lock.take()
    except OSError as error:
        raise TaskError(f"{folder}: {error.strerror}. Name a folder that you may write to.") from None
    if not taken:
        raise TaskError(f"another process works in {folder}. Wait for it, or name another folder.")
    try:
        yield
    finally:
        lock.release()


def sync(path: Path) -> None:
    """Have a file, or a folder's names, on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
