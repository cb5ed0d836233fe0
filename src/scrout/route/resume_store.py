"""The folder that résumés, vectors, heads and a calibration are kept in: how it is written, by one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from scrout.base import RouteError
from scrout.files import Lock, write_atomic

T = TypeVar("T")


def write(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, data)
    except OSError as error:
        raise unwritable(path, error) from None


def file_name(name: str, suffix: str, safe: str = "") -> str:
    """Different names get different files, and none leaves the folder: `/` becomes %2F."""
    return quote(name, safe=safe) + suffix


def read_all(
    folders: Iterable[Path],
    suffix: str,
    read: Callable[[bytes], T],
    file_of: Callable[[T], str],
    words: Callable[[T], str],
) -> Iterator[T]:
    """What the files with this ending hold, folder by folder. One that is called otherwise than what it holds is
    refused, since what is saved next would lie beside it."""
    for folder in folders:
        for path in sorted(folder.glob(f"*{suffix}")):
            try:
                found = read(path.read_bytes())
            except (OSError, RouteError) as error:
                raise RouteError(f"{path}: {error}") from None
            if path.name != file_of(found):
                raise RouteError(f"{path} is {words(found)}. Rename it to {file_of(found)}.")
            yield found


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
