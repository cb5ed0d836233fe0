"""The folder that résumés, vectors, heads and a calibration are kept in: how it is written, by one at a time."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scrout.errors import RouteError
from scrout.ledger.locks import Lock


def write(path: Path, data: bytes) -> None:
    """In one step: a reader sees the old file or the new one, never a part."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".write-", dir=path.parent) as draft:
            (Path(draft) / "draft").write_bytes(data)
            (Path(draft) / "draft").replace(path)
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
    try:
        yield
    finally:
        lock.release()


def unwritable(path: Path, error: OSError) -> RouteError:
    return RouteError(f"cannot write {path}: {error.strerror or error}. Choose a folder with `route.resumes`.")
