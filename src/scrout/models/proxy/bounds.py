"""Limits for an endpoint's answer, so that one answer cannot take the memory or time of all others.

The longest answers that models write, 128,000 tokens, are about a megabyte of text and 40 of events.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

MAX_ANSWER_BYTES = 32_000_000
"""Maximum size of a complete answer. Log probabilities of every token fit in it."""
MAX_STREAM_BYTES = 64_000_000
"""Maximum size of a stream: each token has some 300 bytes around it."""
MAX_EVENT_BYTES = 4_000_000
"""Maximum size of one event. The last one of the responses API repeats the whole answer."""
MAX_VALUES = 1_000_000
"""Values in one JSON document. A value of two bytes takes seventy in memory, so limiting bytes is not enough."""
PIECE_BYTES = 65_536
ENCODINGS = frozenset({"gzip", "x-gzip", "deflate"})


def has_too_many_values(document: bytes | bytearray) -> bool:
    """Whether a JSON document may have too many values.

    It also counts characters within texts; no answer has so many.
    """
    return len(document) > MAX_VALUES and sum(map(document.count, (b",", b"[", b"{"))) > MAX_VALUES


class Decompressor:
    """Undoes an unrequested compression piece by piece, because a few bytes can expand to gigabytes."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=zlib.MAX_WBITS + 32)  # gzip or zlib, detected automatically

    @property
    def ended(self) -> bool:
        return self._stream.eof

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """The decompressed bytes; raises zlib.error if they are not compressed data."""
        while data and not self._stream.eof:
            if piece := self._stream.decompress(data, PIECE_BYTES):
                yield piece
            data = self._stream.unconsumed_tail
