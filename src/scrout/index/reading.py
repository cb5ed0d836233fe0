"""Reads blobs into tables, in several processes if there are many.

`python -m scrout.index.reading` is such a process: keys on standard input, tables on standard output. They are plain
processes, because multiprocessing would run the user's own script again.
"""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from scrout.index.files import read_blobs
from scrout.index.symbols import Symbols, read_symbols
from scrout.index.tables import Tables, dumps, loads, merge, tabulate
from scrout.programs import NEUTRAL

WORTH_A_PROCESS = 400
"""Fewer files are read faster than a process starts."""
MOST_PROCESSES = 8


def read(git_dir: Path, keys: Sequence[str]) -> Tables:
    """Tables of the contents with these keys (blob and language)."""
    processes = min(os.cpu_count() or 1, MOST_PROCESSES, len(keys) // WORTH_A_PROCESS)
    if processes < 2:
        return _read(git_dir, keys)
    # Distributed in turn: neighbours are alike, so every process gets its share of the large ones.
    shares = [keys[start::processes] for start in range(processes)]
    started = [_start(git_dir) for _ in shares]
    for process, share in zip(started, shares, strict=True):
        _ask(process, share)
    parts = []
    for process, share in zip(started, shares, strict=True):
        out, _ = process.communicate()
        parts.append((loads(out) if process.returncode == 0 else None) or _read(git_dir, share))
    return merge(parts)


def _start(git_dir: Path) -> subprocess.Popen[bytes]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(str(Path(part).absolute()) for part in sys.path if part)}
    # -P: the current folder is often the repository, and its modules must not be imported.
    argv = [sys.executable, "-P", "-m", "scrout.index.reading", str(git_dir)]
    return subprocess.Popen(
        argv,
        cwd=NEUTRAL,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        process_group=0,
    )


def _ask(process: subprocess.Popen[bytes], keys: Sequence[str]) -> None:
    # Read completely before anything is written back, so that neither side waits for the other.
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin:
        process.stdin.write("\n".join(keys).encode())
    process.stdin = None


def _read(git_dir: Path, keys: Sequence[str]) -> Tables:
    return tabulate(_documents(git_dir, keys))


def _documents(git_dir: Path, keys: Sequence[str]) -> Iterator[tuple[str, Symbols]]:
    languages: dict[str, list[str]] = {}
    for key in keys:
        blob, _, language = key.partition(" ")
        languages.setdefault(blob, []).append(language)
    for blob, data in read_blobs(git_dir, languages):
        for language in languages[blob]:
            yield f"{blob} {language}", read_symbols(data, language)


def main() -> None:
    """The main function of a process."""
    # Garbage collection would take a third of the time and find nothing.
    gc.disable()
    keys = sys.stdin.read().split("\n")
    sys.stdout.buffer.write(dumps(_read(Path(sys.argv[1]), keys)))


if __name__ == "__main__":
    main()
