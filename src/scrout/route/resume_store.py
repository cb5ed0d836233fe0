"""The folder that résumés, vectors, heads and a calibration are kept in: how it is written, by one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scrout.base import RouteError
from scrout.files import Lock, write_atomic


def write(path: Path, data: bytes) -> None:
    """Replace a file of the folder in one step; a RouteError if that cannot be done."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, data)
    except OSError as error:
        raise unwritable(path, error) from None


@contextmanager
def alone(folder: Path, what: str) -> Iterator[None]:
    """Nobody else changes what is kept under this name meanwhile: reading, adding and writing takes three steps."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = Lock(folder / f".{what}.lock")
        lock.take(wait=True)
    except OSError as error:
        raise unwritable(folder, error) from None
    with lock:
        yield


def unwritable(path: Path, error: OSError) -> RouteError:
    return RouteError(f"cannot write {path}: {error.strerror or error}. Choose a folder with `route.resumes`.")
