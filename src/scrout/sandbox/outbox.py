"""Files that a command left in its outbox for the host. They may be forged, so the host reads a limited amount."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from scrout.files import read_beneath

MOST_FILES = 200
"""Maximum number of files, one per process of a command."""


def read_outbox(folder: Path, most_bytes: int) -> Iterator[bytes]:
    """The content of each regular file. A file that exceeds the total of `most_bytes` is skipped."""
    left = most_bytes
    for entry in islice(folder.iterdir(), MOST_FILES):
        if (content := read_beneath(folder, entry.name, left)) is not None:
            left -= len(content)
            yield content


def has_more(folder: Path, most_bytes: int) -> bool:
    """Whether `read_outbox` skips something because of its size or number."""
    sizes = [entry.lstat().st_size for entry in islice(folder.iterdir(), MOST_FILES + 1)]
    return len(sizes) > MOST_FILES or sum(sizes) > most_bytes
