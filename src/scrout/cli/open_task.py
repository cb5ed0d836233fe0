"""Shared code of `fix`, `scout` and `gate`: makes a task from a repository and an issue, and opens its kit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scrout.base import TaskError
from scrout.cli import render
from scrout.config.settings import Settings
from scrout.git import GitError
from scrout.pipeline import Kit, build_missing, open_kit, open_task
from scrout.sandbox.workspace import Base, count_changed, find_source, make_base
from scrout.task import Task


@contextmanager
def open_with_progress(repo: Path, text: str, settings: Settings, *, dirty: bool) -> Iterator[tuple[Task, Kit]]:
    """Open the task and everything it needs; writes progress and left-out changes to standard error."""
    source = find_source(repo)
    changed = 0 if dirty else count_changed(source, settings.sandbox)
    if changed:
        render.say(f"note: {changed} uncommitted changes are left out: scrout works from HEAD. --dirty includes them.")
    with render.working() as progress:
        progress("copying the repository")
        task = open_task(repo, text, dirty=dirty, bounds=settings.sandbox)
        base = make_base(task.repo, task.base_commit, bounds=settings.sandbox)
        if base.submodules:
            render.say(f"note: submodules are left empty: {', '.join(base.submodules[:3])}")
        if settings.scout.subtree:
            _must_hold(base, settings.scout.subtree)
        asyncio.run(build_missing(task, settings, progress))
        with open_kit(task, settings, progress) as kit:
            if kit.task_sandbox.tier.strength == 0:
                render.say(
                    "warning: no isolation. Commands of this repository run as you, with your files and network."
                )
            if kit.task_sandbox.environment.missing:
                render.say(f"note: {kit.task_sandbox.environment.missing}")
            yield task, kit


def _must_hold(base: Base, subtree: str) -> None:
    try:
        kind = base.git("cat-file", "-t", f"{base.commit}:{subtree}").strip()
    except GitError:
        kind = b""
    if kind != b"tree":
        raise TaskError(
            f"the subtree {subtree!r} is not a folder in commit {base.commit[:10]}. Name one relative to the "
            f"repository's "
            "root; --dirty includes folders that are not committed."
        )
