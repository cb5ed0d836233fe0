"""Tables on disk, one file per tree, shared by processes. If they are lost or cannot be written, only time is lost."""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

from scrout.files import write_atomic

VERSION = 3
"""Part of every path: raise it when the parsing of files changes."""

MAX_BYTES = 2_000_000_000
"""Total size; the least recently used files are removed."""


class TableStore:
    """A folder of files by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / f"v{VERSION}"

    def get(self, name: str) -> bytes | None:
        """None: missing, or not readable."""
        path = self.folder / name
        try:
            data = path.read_bytes()
        except OSError:
            return None
        with contextlib.suppress(OSError):  # a read-only cache also works
            os.utime(path)
        return data

    def put(self, name: str, data: bytes) -> None:
        """Write a file completely or not at all, also with other writers."""
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomic(self.folder / name, data, mode=0o600)
        self._prune()

    def unpacked(self, name: str) -> bytes | None:
        """The content that `pack` stored; None: missing or damaged."""
        try:
            own, _, data = zlib.decompress(self.get(name) or b"").partition(b"\n")
        except zlib.error:
            return None
        return data if own == name.encode() else None

    def pack(self, name: str, data: bytes) -> None:
        """Store with name and checksum, for formats that cannot detect damage themselves."""
        self.put(name, zlib.compress(name.encode() + b"\n" + data, 1))

    def drop(self, name: str) -> None:
        """Remove a damaged file."""
        with contextlib.suppress(OSError):
            (self.folder / name).unlink()

    def path(self, name: str) -> Path:
        """The path of a file, if it exists."""
        return self.folder / name

    def recent(self, suffix: str, most: int) -> list[str]:
        """Names, the most recently used first."""
        aged = sorted(self._aged(), reverse=True)
        return [path.name for _, _, path in aged if path.name.endswith(suffix)][:most]

    def _aged(self) -> Iterator[tuple[float, int, Path]]:
        with contextlib.suppress(OSError):
            for path in self.folder.iterdir():
                with contextlib.suppress(OSError):
                    about = path.stat()
                    yield about.st_mtime, about.st_size, path

    def _prune(self) -> None:
        left = MAX_BYTES
        for _, size, path in sorted(self._aged(), reverse=True):
            left -= size
            if left < 0:
                with contextlib.suppress(OSError):
                    path.unlink()
