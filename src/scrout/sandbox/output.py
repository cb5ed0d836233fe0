"""Bounded output of a command."""

from __future__ import annotations


class Output:
    """Keeps the first and the last half of a stream within a limit."""

    def __init__(self, limit: int) -> None:
        self.half = limit // 2
        self.head = bytearray()
        self.tail = bytearray()
        self.dropped = 0

    def add(self, chunk: bytes) -> None:
        room = self.half - len(self.head)
        self.head += chunk[:room]
        self.tail += chunk[room:]
        excess = len(self.tail) - self.half
        if excess > 0:
            del self.tail[:excess]
            self.dropped += excess

    def joined(self) -> bytes:
        gap = f"\n[{self.dropped:,} bytes left out]\n".encode() if self.dropped else b""
        return bytes(self.head) + gap + bytes(self.tail)
