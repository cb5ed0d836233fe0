"""How much of an endpoint's answer is read, so that none takes the memory or the time of everything else here.

The longest answers that models write, 128,000 tokens, are about a megabyte of text and 40 of events.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

MAX_ANSWER_BYTES = 32_000_000
"""Of one that comes whole. Log probabilities of every token fit in it."""
MAX_STREAM_BYTES = 64_000_000
"""Of one that comes as events: each token has some 300 bytes around it."""
MAX_EVENT_BYTES = 4_000_000
"""Of one event. The last one of the responses API repeats all of the answer."""
MAX_VALUES = 1_000_000
"""Values in one JSON document. One of two bytes takes seventy when it is read, so that bytes alone bound little."""
PIECE_BYTES = 65_536
ENCODINGS = frozenset({"gzip", "x-gzip", "deflate"})


def has_too_many_values(document: bytes | bytearray) -> bool:
    """Whether a JSON document may have more than are read. Signs within a text count, too: no answer has so many."""
    return len(document) > MAX_VALUES and sum(map(document.count, (b",", b"[", b"{"))) > MAX_VALUES


class Decompressor:
    """Undoes a compression that nobody asked for, a piece at a time: a few bytes can stand for gigabytes."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=zlib.MAX_WBITS + 32)  # gzip or zlib, whichever it is

    @property
    def ended(self) -> bool:
        return self._stream.eof

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """What some bytes stand for; zlib.error: they are no such bytes."""
        while data and not self._stream.eof:
            if piece := self._stream.decompress(data, PIECE_BYTES):
                yield piece
            data = self._stream.unconsumed_tail
