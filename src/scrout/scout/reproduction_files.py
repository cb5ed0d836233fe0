"""What a searcher left in its workspace: the new files that its reproduction needs, so that they can be written again.

Which those are is a guess from names: what the command names, what these files name in turn, and what a test runner
reads unasked. Where the command names none of them, all are taken.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from scrout.git import GitError
from scrout.sandbox.workspace import Base, Workspace
from scrout.scout.trace import LeftFiles, clean

MAX_FILES = 20
MAX_BYTES = 60_000
"""Of all files together: a fixer is shown them."""
MAX_LOOKED_AT = 5_000
"""Changed files beyond this many are a build's or a package manager's."""
IGNORED_S = 30.0
"""For git to say which files are ignored: a pattern can keep it busy for ever."""

_CACHES = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", "node_modules"})
_UNNAMED = ("conftest.py", "__init__.py")


def find_reproduction_files(command: str | None, workspace: Workspace) -> LeftFiles:
    """What of the workspace a reproduction's command needs, and which files of the repository are not as they were."""
    if command is None:
        return LeftFiles()
    base = workspace.base
    paths = sorted(_looked_at(workspace))
    changed = [path for path in paths if base.has(path) and workspace.read(path) != base.read(path)]
    new = [path for path in paths if not base.has(path)]
    ignored = _ignored(new, base)
    texts = {path: text for path in new if path not in ignored and (text := _text(workspace, path)) is not None}
    return LeftFiles(files=_bounded(_needed(command, texts)), changed=tuple(clean(path) for path in changed))


def _looked_at(workspace: Workspace) -> Iterator[str]:
    for number, path in enumerate(workspace.changed()):
        if number >= MAX_LOOKED_AT:
            return
        if not _CACHES.intersection(PurePosixPath(path).parts):
            yield path


def _ignored(paths: list[str], base: Base) -> frozenset[str]:
    """Those that the base commit's own rules ignore."""
    names = b"".join(os.fsencode(path) + b"\0" for path in paths)
    try:
        found = base.git("check-ignore", "--no-index", "-z", "--stdin", stdin=names, timeout_s=IGNORED_S)
    except GitError:  # also where none of them is, or where the patterns of the repository take too long
        return frozenset()
    return frozenset(os.fsdecode(name) for name in found.split(b"\0") if name)


def _text(workspace: Workspace, path: str) -> str | None:
    content = workspace.read(path)
    if content is None or len(content) > MAX_BYTES or b"\0" in content:
        return None
    try:
        path.encode()
        return clean(content.decode())
    except UnicodeError:
        return None


def _needed(command: str, texts: Mapping[str, str]) -> dict[str, str]:
    chosen = {path: text for path, text in texts.items() if _names(command, path) or _names_folder(command, path)}
    if not chosen:
        return dict(texts)
    unread = list(chosen.values())
    while unread:
        said = unread.pop()
        for path, text in texts.items():
            if path not in chosen and (_names(said, path) or _goes_along(path, chosen)):
                chosen[path] = text
                unread.append(text)
    return chosen


def _names(text: str, path: str) -> bool:
    """Whether a text names a file, with its suffix or as a module."""
    name = PurePosixPath(path).name
    stem = name.partition(".")[0]
    return name in text or (len(stem) > 2 and re.search(rf"(?<!\w){re.escape(stem)}(?!\w)", text) is not None)


def _names_folder(command: str, path: str) -> bool:
    folders = (folder for folder in PurePosixPath(path).parents if folder.name)
    return any(re.search(rf"(?<![\w.-]){re.escape(folder.name)}(?![\w.-])", command) for folder in folders)


def _goes_along(path: str, chosen: Mapping[str, str]) -> bool:
    folder = PurePosixPath(path).parent
    return PurePosixPath(path).name in _UNNAMED and any(folder in PurePosixPath(other).parents for other in chosen)


def _bounded(files: Mapping[str, str]) -> dict[str, str]:
    kept: dict[str, str] = {}
    room = MAX_BYTES
    for path, text in files.items():
        size = len(text.encode())
        if size <= room and len(kept) < MAX_FILES:
            kept[path] = text
            room -= size
    return kept
