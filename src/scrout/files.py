"""Reads and writes files: atomic writes, lines that survive a kill, and reads that follow no symlink."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import secrets
import shutil
import stat
import tomllib
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, Generic, TypeVar

from pydantic import ValidationError

from scrout.base import FrozenModel, TaskError

R = TypeVar("R", bound=FrozenModel)


def write_atomic(path: Path, data: str | bytes, *, mode: int = 0o666, durable: bool = False) -> None:
    """Write a file so that a reader sees all of the new content or all of the old."""
    with atomic(path, mode=mode, durable=durable) as file:
        # Surrogates stand for bytes of a file that are not valid UTF-8. Write them as those bytes.
        file.write(data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data)


def write_plain(path: Path, data: bytes, *, replace: bool = True) -> None:
    """Write a file in an untrusted folder without following a symlink.

    Raises an OSError if there is a symlink, or, without `replace`, if the file exists. Devices are written directly.
    """
    if is_foreign_link(path):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if replace else os.O_EXCL)
    # Non-blocking, because the path may be a pipe.
    flags |= 0 if _is_device(path) else os.O_NOFOLLOW | os.O_NONBLOCK
    with os.fdopen(os.open(path, flags, 0o666), "wb") as file:
        file.write(data)


def is_foreign_link(path: Path) -> bool:
    """Whether `write_plain` refuses a path: it is a symlink, or is reached through one in a repository."""
    return not _is_device(path) and (path.is_symlink() or follows_foreign_link(path))


def follows_foreign_link(path: Path) -> bool:
    """Whether a path that the user named is reached through a symlink in a repository, which may point to any file."""
    absolute = path.absolute()
    steps = (*reversed(absolute.parents), absolute)
    return any(step.is_symlink() and lies_in_repository(step) for step in steps)


def lies_in_repository(path: Path) -> bool:
    """Whether a path's folder is part of a repository, with symlinks resolved or not."""
    folder = Path(os.path.realpath(path.parent))
    return any(os.path.lexists(top / ".git") for top in (folder, *folder.parents))


def _is_device(path: Path) -> bool:
    """/dev/stdout is a symlink too, but one of the system."""
    return path.absolute().is_relative_to("/dev")


@contextmanager
def atomic(path: Path, *, mode: int = 0o666, durable: bool = False) -> Iterator[IO[bytes]]:
    """Open a temporary file for writing; it replaces `path` when the block ends. An error removes it.

    `mode` is subject to the umask. `durable` waits until content and name are on the disk.
    """
    # Each writer uses a new name, so concurrent writers do not collide and no planted symlink is followed.
    part = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with open(part, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    if durable:
        sync(path.parent)


@contextmanager
def atomic_folder(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """Make a temporary folder; it becomes `path` when the block ends. An error removes it.

    `path` must be missing or empty by then. Only one process at a time may write it.
    """
    part = path.with_name(f".{path.name}.part")
    shutil.rmtree(part, ignore_errors=True)  # left by a process that was killed
    part.mkdir(parents=True)
    try:
        yield part
        if durable:
            for file in (part, *part.rglob("*")):
                sync(file)
        part.replace(path)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    if durable:
        sync(path.parent)


def remove_parts(folder: Path) -> None:
    """Remove what killed writers left in a folder. Call it only where no other process writes to the folder."""
    for part in folder.glob(".*.part"):
        if part.is_file():
            part.unlink()


def sync(path: Path) -> None:
    """Wait until a file, or the entries of a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


MOST_LEVELS = 100
"""Maximum number of folders above a file. No real repository is as deep."""


def is_inside(path: str) -> bool:
    """Whether a relative path is below a folder, by its parts alone."""
    parts = PurePosixPath(path).parts
    return 0 < len(parts) <= MOST_LEVELS and not path.startswith("/") and ".." not in parts and "\0" not in path


@contextmanager
def parent_beneath(root: Path, path: str) -> Iterator[tuple[int, str]]:
    """Open the folder that holds `path` without following a symlink; also returns the last part of the path."""
    *above, name = PurePosixPath(path).parts
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in above:
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        yield descriptor, name
    finally:
        os.close(descriptor)


def read_beneath(root: Path, path: str, most_bytes: int | None = None) -> bytes | None:
    """A regular file's bytes, read without following a symlink; None if it is missing or too large."""
    if not is_inside(path):
        return None
    try:
        with parent_beneath(root, path) as (parent, name):
            # Non-blocking, because a command may have put a pipe there.
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=parent)
            with os.fdopen(descriptor, "rb") as file:
                entry = os.fstat(descriptor)
                fits = most_bytes is None or entry.st_size <= most_bytes
                return file.read() if fits and stat.S_ISREG(entry.st_mode) else None
    except OSError:
        return None


def plain_beneath(root: Path, path: str) -> Path | None:
    """A file or folder below `root`, reached without following a symlink; None if there is none."""
    if not is_inside(path):
        return None
    found = root
    for part in PurePosixPath(path).parts:
        found = found / part
        try:
            mode = found.lstat().st_mode
        except OSError:
            return None
        if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
            return None
    return found


def real_beneath(root: Path, path: str) -> Path | None:
    """The target of a path below a folder, with symlinks followed; None if it leads out of the folder."""
    if "\0" in path:
        return None
    real = Path(os.path.realpath(root / path))
    return real if real.is_relative_to(os.path.realpath(root)) else None


def lies_beneath(root: Path, path: str) -> bool:
    """Whether a path below a folder exists (a symlink counts), and no symlink on the way leads out of the folder."""
    folder = real_beneath(root, os.path.dirname(path))  # noqa: PTH120
    return folder is not None and "\0" not in path and os.path.lexists(folder / os.path.basename(path))  # noqa: PTH119


MAX_TOML_CHARS = 2_000_000
_LONG_KEY = re.compile(
    r"""(?<![\w"'-])(?:(?:[\w-]++|"(?:[^"\\\n]|\\.){0,200}+"|'[^'\n]{0,200}+')[ \t]*+\.[ \t]*+){64}"""
)


def read_toml(text: str) -> dict[str, Any]:
    """Read a TOML table from an untrusted file; raises a ValueError.

    tomllib needs memory quadratic in the parts of a key: 400 kB of dots would exhaust any machine.
    """
    if len(text) > MAX_TOML_CHARS or _LONG_KEY.search(text):
        raise ValueError(f"it has more than {MAX_TOML_CHARS:,} characters, or a key of more than 64 parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


class JsonLines(Generic[R]):
    """An append-only file with one record per line.

    A kill can only cut off the last line. `durable` waits after each append until the line is on the disk.
    """

    def __init__(self, path: Path, kind: type[R], *, durable: bool = False) -> None:
        self.path = path
        self.kind = kind
        self.durable = durable

    def read(self) -> list[R]:
        """All records, oldest first. A last line that was cut off is ignored."""
        try:
            *lines, last = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        if self._is_record(last):
            lines.append(last)
        records = []
        for number, line in enumerate(lines, 1):
            try:
                if line.strip():
                    records.append(self.kind.model_validate_json(line))
            except ValidationError as error:
                problem = error.errors(include_url=False, include_input=False)[0]["msg"]
                raise TaskError(
                    f"{self.path}, line {number} cannot be read ({problem}). Remove the line, or start in a new folder."
                ) from None
        return records

    def append(self, *records: R) -> None:
        """Add records: all of them, or none if the disk is full."""
        # JSON cannot hold a lone surrogate, which text from outside may contain.
        dumped = (json.dumps(record.model_dump(mode="json"), ensure_ascii=False) for record in records)
        data = "".join(f"{line}\n" for line in dumped).encode("utf-8", "replace")
        with self.path.open("a+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # otherwise, two writers would treat each other's lines as cut off
            end = os.fstat(file.fileno()).st_size
            last = _last_line(file.fileno(), end)
            if self._is_record(last):  # an editor removed the line break
                data = b"\n" + data
            else:
                end -= len(last)
                file.truncate(end)
            try:
                while data:
                    data = data[os.write(file.fileno(), data) :]
                if self.durable:
                    os.fsync(file.fileno())
            except OSError:
                file.truncate(end)
                raise

    def _is_record(self, line: bytes) -> bool:
        try:
            self.kind.model_validate_json(line)
        except ValidationError:
            return False
        return True


def _last_line(descriptor: int, end: int) -> bytes:
    """The text after the last line break; empty if the last line is complete."""
    found = b""
    while end > 0 and b"\n" not in found:
        start = max(end - 65_536, 0)
        found = os.pread(descriptor, end - start, start) + found
        end = start
    return found.rpartition(b"\n")[2]


class LineFile:
    """A new file, written line by line, that only its owner can read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        """Bytes written so far."""
        self._torn = False
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def write_line(self, text: str) -> None:
        # If a full disk cut off the last line, start the next one on a new line.
        data = b"\n" * self._torn + text.encode() + b"\n"
        self.size += len(data)
        self._torn = True
        while data:
            data = data[os.write(self._file, data) :]
        self._torn = False

    def close(self) -> None:
        os.close(self._file)


class Lock:
    """A lock file with at most one holder on this machine; two Locks in one process exclude each other too.

    `with` waits for it. The kernel releases it when its holder dies.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._close: weakref.finalize[[int], Lock] | None = None

    def __enter__(self) -> None:
        self.take(wait=True)

    def __exit__(self, *exception: object) -> None:
        self.release()

    def take(self, *, wait: bool = False) -> bool:
        """Try to take the lock. True if this object holds it now, also if it did before."""
        if self._close is not None and self._close.alive:
            return True
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException as error:
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                return False
            raise
        self._close = weakref.finalize(self, os.close, descriptor)
        return True

    def release(self) -> None:
        """Release the lock. The file stays: removing it would let two holders lock two files of the same name."""
        if self._close is not None:
            self._close()

    def retire(self) -> None:
        """Release the lock and remove its file. Only for a lock that will never be taken again."""
        # A file that remains does no harm.
        with contextlib.suppress(OSError):
            self.path.unlink()
        self.release()


@contextmanager
def lock_folder(folder: Path, name: str = ".lock") -> Iterator[None]:
    """Hold a folder's lock while the block runs; creates the folder if it is missing."""
    lock = Lock(folder / name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        taken = lock.take()
    except OSError as error:
        raise TaskError(f"{folder}: {error.strerror}. Name a folder that you may write to.") from None
    if not taken:
        raise TaskError(f"another process is using {folder}. Wait until it ends, or name another folder.")
    with lock:
        yield
