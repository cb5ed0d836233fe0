"""What `fix`, `scout` and `gate` have in common: a repository and an issue become a task with its kit, aloud."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scrout.cli import render
from scrout.config import Settings
from scrout.pipeline import Kit, open_kit, open_task
from scrout.sandbox.workspace import find_source
from scrout.task import Task


@contextmanager
def opened(repo: Path, text: str, settings: Settings, *, dirty: bool) -> Iterator[tuple[Task, Kit]]:
    """The task and everything it needs; standard error hears what is left out and what is going on."""
    source = find_source(repo)
    if source.changed and not dirty:
        render.say(
            f"note: {source.changed} uncommitted changes are left out: scrout works from HEAD. --dirty includes them."
        )
    if source.submodules:
        render.say(f"note: submodules are left empty: {', '.join(source.submodules[:3])}")
    with render.working() as progress:
        progress("copying the repository")
        task = open_task(repo, text, dirty=dirty)
        with open_kit(task, settings, progress) as kit:
            yield task, kit
