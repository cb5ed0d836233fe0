"""The folder of résumés, vectors, heads and a calibration: file names, reading, and locks for writers."""

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
    """Different names give different files, and none is outside of the folder: `/` becomes %2F."""
    return quote(name, safe=safe) + suffix


def read_all(
    folders: Iterable[Path],
    suffix: str,
    read: Callable[[bytes], T],
    file_of: Callable[[T], str],
    words: Callable[[T], str],
) -> Iterator[T]:
    """The content of all files with this suffix, folder by folder.

    A file whose name does not match its content is refused, because the next save would create a second one.
    """
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
    """Lock these files against other processes: reading, adding and writing takes three steps."""
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
