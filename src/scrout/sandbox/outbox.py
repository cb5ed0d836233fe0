"""What a command left in its outbox for the host to read. It may be forged, so the host reads no more than so much."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from scrout.files import read_beneath

MOST_FILES = 200
"""One for each process of a command."""


def read_outbox(folder: Path, most_bytes: int) -> Iterator[bytes]:
    """The content of each regular file. One that would make more than `most_bytes` of all of them counts as none."""
    left = most_bytes
    for entry in islice(folder.iterdir(), MOST_FILES):
        if (content := read_beneath(folder, entry.name, left)) is not None:
            left -= len(content)
            yield content


def has_more(folder: Path, most_bytes: int) -> bool:
    """Whether `read_outbox` leaves something out for its size or number."""
    sizes = [entry.lstat().st_size for entry in islice(folder.iterdir(), MOST_FILES + 1)]
    return len(sizes) > MOST_FILES or sum(sizes) > most_bytes
