"""Finds the host programs that scrout starts: by absolute path, and never in a repository.

PATH may contain relative entries (`./node_modules/.bin`, or an empty one) and absolute ones inside of a clone, where a
repository's author can place programs. Only absolute entries outside of every known repository count, here and for
programs that a started program looks up itself.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

NEUTRAL = "/"
"""Working directory for host programs. A version manager's script reads files of its working directory."""
_foreign: set[str] = set()
"""Repositories that this process has looked at, with symlinks resolved."""


def never_below(folder: Path) -> None:
    """Never start a program from this folder: it is untrusted."""
    _foreign.add(os.path.realpath(folder))


def find_program(name: str, folders: Iterable[str] | None = None) -> str | None:
    """The absolute path of a program on PATH or in these folders; None if there is none that may be started."""
    for folder in search_path().split(os.pathsep) if folders is None else folders:
        found = shutil.which(name, path=folder)
        if found and not _is_foreign(found):
            return found
    return None


def search_path() -> str:
    """PATH without relative entries and entries in a repository."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(folder for folder in folders if folder.startswith("/") and not _is_foreign(folder))


def variables() -> dict[str, str]:
    """The caller's environment for a program started in NEUTRAL."""
    return {**os.environ, "PATH": search_path(), "PWD": NEUTRAL}


def _is_foreign(path: str) -> bool:
    real = Path(os.path.realpath(path))
    # Copied, because another thread may add a repository meanwhile.
    return any(real.is_relative_to(folder) for folder in tuple(_foreign))
