"""Views and edits the files of one workspace: view a file or folder, create a file, replace a text in one.

It works on the host's side of the sandbox and follows no symlink, so a symlink that a command planted cannot lead it
out of the repository. It explains refusals in words for the model.
"""

from __future__ import annotations

import posixpath
import shlex

from scrout.base import SandboxError
from scrout.sandbox.task_sandbox import ShellSession
from scrout.text import plural

CONTAINER_ROOTS = ("/testbed", "/app", "/workspace")
"""The path where models expect a repository."""
MOST_BYTES = 5_000_000
"""Larger files are rarely source code; the shell can show parts of them."""
MOST_PLACES = 10
LINES_AROUND = 4
"""Lines shown before and after an edit."""

# Folders, an empty name, then everything else, separated by NUL, because a name may contain any other byte.
_LIST = r"""
test -e "./$1" || test -L "./$1" || exit 3
top=$(pwd -P)
cd -P -- "./$1" 2> /dev/null && test "$PWD" = "$top${1:+/$1}" || exit 4
find . -mindepth 1 -maxdepth 2 -name '.*' -prune -o -type d -print0
printf '\0'
find . -mindepth 1 -maxdepth 2 -name '.*' -prune -o ! -type d -print0
"""


class CannotEdit(Exception):
    """The reason for a refusal, in words for the model."""


class Editor:
    """A path is relative to the repository, or absolute below its root or the root that containers use."""

    def __init__(self, session: ShellSession) -> None:
        self.session = session
        self.workspace = session.workspace

    async def view(self, path: str, lines: tuple[int, int] | None = None) -> str:
        """A file's lines with their numbers (-1 as last line: the end), or a folder's entries, two levels deep."""
        place = self._place(path)
        data = self.workspace.read(place) if place else None
        if data is None:
            return await self._list(place)
        return _numbered(_text(data, place), place, *(lines or (1, -1)))

    def create(self, path: str, content: str) -> str:
        """Write a whole file and the folders above it. Replaces an existing file."""
        place = self._place(path)
        there = place and self.workspace.read(place) is not None
        self._write(place, content.encode())
        return f"{place} was {'written over' if there else 'written'} ({_lines(content)})."

    def str_replace(self, path: str, old: str, new: str) -> str:
        """Replace a text that occurs exactly once."""
        place = self._place(path)
        data = self.workspace.read(place) if place else None
        if data is None:
            raise CannotEdit(f"{place or '.'} is not a file. `create` writes a new one.")
        _text(data, place)
        if not old or old == new:
            raise CannotEdit("old_str is empty." if not old else "old_str and new_str are the same.")
        if b"\r\n" in data and data.count(b"\r\n") == data.count(b"\n"):
            # The model saw the lines without carriage returns.
            old, new = (text.replace("\r\n", "\n").replace("\n", "\r\n") for text in (old, new))
        found = data.count(old.encode())
        if found != 1:
            raise CannotEdit(_not_once(data, old.encode(), found, place))
        start = data.index(old.encode())
        data = data.replace(old.encode(), new.encode())
        self._write(place, data)
        first = data.count(b"\n", 0, start) + 1
        around = (max(first - LINES_AROUND, 1), first + new.count("\n") + LINES_AROUND)
        return f"{place} was changed. It now reads:\n{_numbered(_text(data, place), place, *around)}"

    def _place(self, path: str) -> str:
        """The path relative to the root; empty: the root."""
        repo = str(self.workspace.base.repo)
        plain = posixpath.normpath(f"/{path.lstrip('/')}" if path.startswith("/") else path)
        for root in sorted((repo, *CONTAINER_ROOTS), key=len, reverse=True):
            if plain == root or plain.startswith(f"{root}/"):
                plain = plain[len(root) + 1 :] or "."
                break
        if plain.startswith("/") or plain.split("/")[0] == "..":
            raise CannotEdit(f"{path!r} is outside of the repository, which is at {repo}.")
        if any(part.lower() == ".git" for part in plain.split("/")):
            raise CannotEdit(f"{path!r} belongs to git, and is not for editing.")
        return "" if plain == "." else plain

    def _write(self, place: str, data: bytes) -> None:
        try:
            self.workspace.write(place, data)
        except SandboxError as error:
            # The model must not see the workspace's path on the host.
            raise CannotEdit(str(error).replace(f"{self.workspace.upper}/", "")) from None

    async def _list(self, place: str) -> str:
        done = await self.session.shell(f"set -- {shlex.quote(place)}\n{_LIST}")
        if done.exit_code == 3:
            raise CannotEdit(f"{place} does not exist.")
        if done.exit_code != 0:
            raise CannotEdit(f"{place or '.'} is neither a file nor a folder, or lies behind a link; use the shell.")
        folders, _, others = (f"\0{done.text}").partition("\0\0")
        names = [f"{name}/" for name in folders.split("\0") if name] + [name for name in others.split("\0") if name]
        shown = "\n".join(sorted(name.removeprefix("./") for name in names))
        return f"{place or '.'}/ holds, two levels deep and without hidden files:\n{shown or '(nothing)'}"


def _text(data: bytes, place: str) -> str:
    if len(data) > MOST_BYTES:
        raise CannotEdit(f"{place} has {len(data):,} bytes, which is too much here; use the shell.")
    if b"\0" in data:
        raise CannotEdit(f"{place} is a binary file of {len(data):,} bytes.")
    return data.decode("utf-8", "replace")


def _numbered(text: str, place: str, first: int, last: int) -> str:
    if not text:
        return f"{place} is empty."
    lines = text.removesuffix("\n").split("\n")
    last = len(lines) if last == -1 else min(last, len(lines))
    if not 1 <= first <= last:
        raise CannotEdit(f"{place} has {_lines(text)}; the first and last of view_range must lie in them, in order.")
    shown = (f"{number:6}\t{lines[number - 1].removesuffix(chr(13))}" for number in range(first, last + 1))
    return "\n".join(shown)


def _lines(text: str) -> str:
    number = text.count("\n") + (not text.endswith("\n") and bool(text))
    return plural(number, "line")


def _not_once(data: bytes, old: bytes, found: int, place: str) -> str:
    if not found:
        return f"old_str is not in {place}. It must be the same to the last space; view the place and copy it."
    places, start = list[int](), -1
    while len(places) < MOST_PLACES and (start := data.find(old, start + len(old) if places else 0)) >= 0:
        places.append(data.count(b"\n", 0, start) + 1)
    where = ", ".join(map(str, places)) + (", ..." if found > len(places) else "")
    return f"old_str is in {place} {found} times, from lines {where} on. Add lines around it, so that it is there once."
