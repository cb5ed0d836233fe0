"""Which programs of the host scrout starts: by absolute path, and never one that a repository brings along.

PATH can hold entries that mean another folder wherever a process stands (`./node_modules/.bin`, or an empty one), and
absolute ones inside of a clone. A program found there is the stranger's. So only absolute entries outside of every
repository at hand count, here and for what a program started from here looks up itself.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

NEUTRAL = "/"
"""The current folder of a program of the host's. A version manager's script reads files of the folder it stands in."""
_foreign: set[str] = set()
"""Repositories that this process has looked at, symlinks resolved."""


def never_below(folder: Path) -> None:
    """Take no program from a folder from now on: it came from a stranger."""
    _foreign.add(os.path.realpath(folder))


def find_program(name: str, folders: Iterable[str] | None = None) -> str | None:
    """The absolute path of a program on PATH, or in these folders; None: there is none that may be started."""
    for folder in search_path().split(os.pathsep) if folders is None else folders:
        found = shutil.which(name, path=folder)
        if found and not _is_foreign(found):
            return found
    return None


def search_path() -> str:
    """PATH without relative entries, and without those that lie in a repository."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(folder for folder in folders if folder.startswith("/") and not _is_foreign(folder))


def variables() -> dict[str, str]:
    """The caller's own environment for a program that is started in NEUTRAL."""
    return {**os.environ, "PATH": search_path(), "PWD": NEUTRAL}


def _is_foreign(path: str) -> bool:
    real = Path(os.path.realpath(path))
    # A copy, because another thread may look at one more repository meanwhile.
    return any(real.is_relative_to(folder) for folder in tuple(_foreign))
