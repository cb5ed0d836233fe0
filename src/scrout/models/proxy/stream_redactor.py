"""Cuts secrets out of an answer as it passes, whatever pieces it comes in."""

from __future__ import annotations

from collections.abc import Iterable


class StreamRedactor:
    """Cuts secrets out of bytes that come in whatever pieces."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self.secrets = tuple(secret.encode() for secret in secrets)
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """What can be passed on: all but an end that may be the beginning of a secret."""
        data = self._rest + data
        for secret in self.secrets:
            data = data.replace(secret, b"[key]")
        end = len(data) - max((_begun(secret, data) for secret in self.secrets), default=0)
        self._rest = data[end:]
        return data[:end]

    def flush(self) -> bytes:
        rest, self._rest = self._rest, b""
        return rest


def _begun(secret: bytes, data: bytes) -> int:
    """How many of its bytes the data ends with."""
    if data.endswith(b"\n"):  # as every event does
        return 0
    return next((n for n in range(min(len(secret) - 1, len(data)), 0, -1) if data.endswith(secret[:n])), 0)
