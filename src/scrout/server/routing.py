"""One router for many calls: what it reads once is kept, and so is what it decided."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path

from scrout.config.settings import Settings
from scrout.pipeline import router
from scrout.records import Decision, State
from scrout.route.feedback import own_folder
from scrout.route.router import Router

MAX_KEPT = 10_000
"""Decisions; beyond it the one that was asked for least recently goes."""
LOOK_S = 1.0
"""How often the résumés are looked at for changes."""

Print = tuple[tuple[str, int, int], ...]


class SharedRouter:
    """Routes tasks from any thread. Résumés that have changed since are read again."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._one_at_a_time = threading.Lock()
        self._router: Router | None = None
        self._print: Print = ()
        self._looked = float("-inf")
        self._kept: OrderedDict[str, Decision] = OrderedDict()

    def route(self, text: str, state: State | None = None) -> Decision:
        key = hashlib.sha256(f"{state.model_dump_json() if state else ''}\0{text}".encode(errors="replace")).hexdigest()
        with self._one_at_a_time:
            chooser = self._fresh()
            if key not in self._kept:
                self._kept[key] = chooser.route(text, state)
                if len(self._kept) > MAX_KEPT:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
            return self._kept[key]

    def _fresh(self) -> Router:
        if self._router is None or time.monotonic() - self._looked >= LOOK_S:
            # Looked at before they are read: what changes meanwhile is then seen the next time.
            found = _print(own_folder(self._settings.route))
            if self._router is None or found != self._print:
                self._router, self._print = router(self._settings), found
                self._kept.clear()
            self._looked = time.monotonic()
        return self._router


def _print(folder: Path) -> Print:
    """What tells one state of a folder from another."""
    found = []
    for path in sorted(folder.rglob("*")):
        with suppress(FileNotFoundError):  # gone since
            about = path.stat()
            found.append((str(path), about.st_mtime_ns, about.st_size))
    return tuple(found)
