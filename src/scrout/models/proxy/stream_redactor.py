"""Removes secrets from an answer as it streams, even if a secret is split between chunks."""

from __future__ import annotations

from collections.abc import Iterable


class StreamRedactor:
    """Removes secrets from a stream of bytes."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self.secrets = tuple(secret.encode() for secret in secrets)
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """Take a chunk; returns all bytes so far except an end that may be the start of a secret."""
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
    """How many of the secret's first bytes are at the end of the data."""
    if data.endswith(b"\n"):  # as in every event
        return 0
    return next((n for n in range(min(len(secret) - 1, len(data)), 0, -1) if data.endswith(secret[:n])), 0)
