"""Plain copies as workspaces, and commands without a mount namespace, for tiers without overlays.

Each workspace costs time and disk space, unless the file system can share blocks between files. Without mounts, paths
in a command's arguments and environment are rewritten to host paths. Files are not rewritten: an editable install, for
example, still names the user's own tree.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from scrout.sandbox.process import measure, run_system
from scrout.sandbox.tier import Command, Copy
from scrout.sandbox.workspace import Workspace, steps, unlock

_CP = ("cp", "-Rpc") if sys.platform == "darwin" else ("cp", "-a", "--reflink=auto")


class CopiedWorkspace(Workspace):
    """A full copy of the base; `upper` holds all of it."""

    def make(self) -> None:
        self._make_folders("", "out", "scratch", "scratch/home")
        done = run_system(*_CP, str(self.base.tree), str(self.upper))
        if done.returncode != 0:
            raise OSError(0, done.stderr.decode(errors="replace").strip()[-300:])
        if os.geteuid() == 0:
            run_system("chown", "-R", "-h", f"{self.user}:{self.user}", str(self.upper)).check_returncode()
        self.unlock()
        self._made = {path: _stamp(self.upper / path) for path in _entries(self.upper)}

    @property
    def view(self) -> Copy:
        return Copy(self.upper, str(self.base.repo), self.folder / "scratch", *_size(self.base.tree))

    def changed(self) -> Iterator[str]:
        ours, theirs = set(_entries(self.upper)), set(_entries(self.base.tree))
        for path in ours | theirs:
            if path not in ours or path not in theirs or _stamp(self.upper / path) != self._made.get(path):
                yield path

    def _layer(self, path: str) -> Path | None:
        self.unlock()
        for step in steps(path):
            try:
                entry = (self.upper / step).lstat()
            except OSError:
                return None
            if not stat.S_ISDIR(entry.st_mode):
                break
            unlock(self.upper / step)
        return self.upper


class WithoutMounts:
    """Shared code of the tiers that cannot mount: commands run as the caller, among the host's files."""

    overlays = False
    mounts = False
    brings_tools = False

    @property
    def user(self) -> int:
        return os.geteuid()

    def standing(self, command: Command) -> None:
        return None


def in_folder(folder: str) -> tuple[str, ...]:
    """The prefix that starts a command in a folder, for sandboxes that cannot do that themselves."""
    return ("/bin/sh", "-c", 'cd "$0" && exec "$@"', folder)


@cache
def _size(tree: Path) -> tuple[int, int]:
    """Cached, because a base never changes."""
    return measure(tree)


def _entries(tree: Path) -> Iterator[str]:
    """Everything below a folder except folders and the top .git."""
    folders = [""]
    while folders:
        folder = folders.pop()
        try:
            entries = list(os.scandir(tree / folder))
        except OSError:
            continue
        for entry in entries:
            path = f"{folder}/{entry.name}".lstrip("/")
            if entry.is_dir(follow_symlinks=False):
                folders += [path] if path != ".git" else []
            else:
                yield path


def _stamp(path: Path) -> tuple[int, int]:
    """A stamp that differs after any change, undone or not: the ctime, which a command cannot set."""
    entry = path.lstat()
    return entry.st_ino, entry.st_ctime_ns


def at_host_paths(command: Command) -> Command:
    """The command with every mounted path replaced by its host path, for a tier that cannot mount."""
    view = command.view
    assert isinstance(view, Copy)
    moves = {mount.target: str(mount.source) for mount in command.mounts}
    moves |= {target: str(view.folder) for target in (view.target, *command.aliases)} | {"/tmp": str(view.scratch)}
    longest_first = sorted(moves, key=len, reverse=True)
    mention = re.compile(rf"(?<![\w.~/-])({'|'.join(map(re.escape, longest_first))})(?![\w.-])")

    def move(text: str) -> str:
        return mention.sub(lambda found: moves[found[1]], text)

    return replace(
        command,
        argv=[move(word) for word in command.argv],
        cwd=move(command.cwd),
        env={"TMPDIR": str(view.scratch)} | {name: move(value) for name, value in command.env.items()},
    )


def at_inside_paths(output: bytes, view: Copy) -> bytes:
    """Output with host paths replaced by the paths that other tiers show, which are the same in every run."""
    for here, inside in ((view.folder, view.target), (view.scratch, "/tmp")):
        output = output.replace(os.fsencode(here), os.fsencode(inside))
    return output
