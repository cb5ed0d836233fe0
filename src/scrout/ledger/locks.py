"""Who works on a run right now. The kernel drops the lock when its holder dies, however it dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
import weakref
from pathlib import Path


class Lock:
    """One file, locked by at most one holder on this machine; two Locks of one process exclude each other too."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._close: weakref.finalize[[int], Lock] | None = None

    def take(self, *, wait: bool = False) -> bool:
        """True: it is ours, now or since before."""
        if self._close is not None and self._close.alive:
            return True
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
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
        """Let others take it. The file stays: removing it would let two holders lock two files of one name."""
        if self._close is not None:
            self._close()

    def retire(self) -> None:
        """The same, file and all, for one that nobody will take again."""
        # One that stays does no harm.
        with contextlib.suppress(OSError):
            self.path.unlink()
        self.release()
