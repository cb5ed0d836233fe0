"""Serves the model files that fixers name. Each has one server on loopback, started on demand and stopped when idle."""

from __future__ import annotations

import asyncio
import atexit
import os
import secrets
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Timer

from scrout.base import ModelError
from scrout.config.folders import cache_folder
from scrout.models import local_server
from scrout.models.local_server import ServedModel

IDLE_S = 600.0
"""A model stays in memory for this long after its last use."""
_BESIDE_BYTES = 600_000_000
"""Memory of a server besides the file's size: the context, and the program."""


@dataclass
class _Running:
    process: subprocess.Popen[str]
    model: ServedModel
    base_url: str
    users: int = 0
    idle: Timer | None = None


_running: dict[tuple[str, int, int], _Running] = {}
_lock = Lock()


@asynccontextmanager
async def serve(path: str, context_tokens: int, threads: int = 0) -> AsyncIterator[tuple[str, str]]:
    """The address and key of a server for this file; raises a ModelError if none can run."""
    place = (path, context_tokens, threads or max(1, (os.cpu_count() or 2) // 2))
    running = await asyncio.to_thread(_use, place)
    try:
        yield running.base_url, running.model.key
    finally:
        _release(place, running)


def _use(place: tuple[str, int, int]) -> _Running:
    with _lock:
        running = _running.get(place)
        if running is None or running.process.poll() is not None:
            running = _running[place] = _start(*place)
        if running.idle:
            running.idle.cancel()
        running.users += 1
        return running


def _start(name: str, context_tokens: int, threads: int) -> _Running:
    path = Path(name).expanduser()
    _refuse_too_large(path)
    model = ServedModel(path=str(path), context_tokens=context_tokens, threads=threads, key=secrets.token_urlsafe(24))
    logs = cache_folder() / "models"
    logs.mkdir(parents=True, exist_ok=True, mode=0o700)
    server = local_server.start(model, logs / f"{path.stem}-{os.getpid()}.log")
    atexit.register(local_server.stop, server.process)
    return _Running(server.process, model, server.base_url)


def _refuse_too_large(path: Path) -> None:
    if not path.is_file():
        raise ModelError(f"the model file {path} does not exist. Set `model_file` to a file that ends in .gguf.")
    needed, free = path.stat().st_size + _BESIDE_BYTES, _free_bytes()
    if free is not None and needed > free:
        raise ModelError(
            f"{path.name} needs about {needed / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free. Close other "
            f"programs, or use a smaller model file."
        )


def _free_bytes() -> int | None:
    """Memory that is available without swapping; None: this system does not report it."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


def _release(place: tuple[str, int, int], running: _Running) -> None:
    with _lock:
        running.users -= 1
        if running.users == 0:
            running.idle = Timer(IDLE_S, _end, (place, running))
            running.idle.daemon = True
            running.idle.start()


def _end(place: tuple[str, int, int], running: _Running) -> None:
    with _lock:
        if running.users == 0:
            local_server.stop(running.process)
            if _running.get(place) is running:
                del _running[place]
