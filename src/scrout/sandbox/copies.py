"""Workspaces that are plain copies, and commands without a mount namespace, for tiers that cannot show an overlay.

A copy costs time and room for each workspace, unless the disk can share blocks between files. Where nothing can be
mounted, paths in a command are rewritten to where things lie on the host. That reaches its arguments and environment,
not what its files hold: an editable install, say, still names the user's own tree.
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
    """A full copy of the base: what lies in `upper` is all there is."""

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
    """What is the same of all tiers that can mount nothing: commands run as the caller, among the host's files."""

    overlays = False
    mounts = False
    brings_tools = False

    @property
    def user(self) -> int:
        return os.geteuid()

    def standing(self, command: Command) -> None:
        return None


def in_folder(folder: str) -> tuple[str, ...]:
    """What starts a command in a folder, where the sandbox itself cannot."""
    return ("/bin/sh", "-c", 'cd "$0" && exec "$@"', folder)


@cache
def _size(tree: Path) -> tuple[int, int]:
    """A base never changes, so it is measured once."""
    return measure(tree)


def _entries(tree: Path) -> Iterator[str]:
    """Everything below but folders and the top .git."""
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
    """Differs after any change, undone or not: of all times this is the one that a command cannot set."""
    entry = path.lstat()
    return entry.st_ino, entry.st_ctime_ns


def at_host_paths(command: Command) -> Command:
    """The same command for a tier that mounts nothing: every path that a mount would have moved is spelled out."""
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
    """What a command printed, with the paths that other tiers would have shown: they are the same in every run."""
    for here, inside in ((view.folder, view.target), (view.scratch, "/tmp")):
        output = output.replace(os.fsencode(here), os.fsencode(inside))
    return output
