"""Task sandboxes that many tests share: each of them takes workspaces of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from scrout.config.settings import Settings
from scrout.sandbox.task_sandbox import TaskSandbox, open_task_sandbox
from scrout.sandbox.tier import Tier
from scrout.sandbox.workspace import find_source
from scrout.task import Task

Shared = Callable[[Mapping[str, str | bytes]], AbstractContextManager[TaskSandbox]]


@pytest.fixture(scope="session")
def shared_task_sandbox(tier: Tier, light_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Shared:
    """shared_task_sandbox(files): a task sandbox for fixtures of a wider scope."""

    @contextmanager
    def opened(files: Mapping[str, str | bytes]) -> Iterator[TaskSandbox]:
        folder = tmp_path_factory.mktemp("shared")
        repo = folder / "repo"
        for name, content in files.items():
            (repo / name).parent.mkdir(parents=True, exist_ok=True)
            (repo / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        for step in ("init -q -b main", "add --all", "-c user.name=a -c user.email=b commit -q -m base"):
            subprocess.run(["git", *step.split()], cwd=repo, check=True)
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("XDG_CACHE_HOME", str(folder / "cache"))
            environment.setenv("PATH", str(light_python), prepend=os.pathsep)
            source = find_source(repo)
            task = Task(id="task", text="an issue", repo=source.repo, base_commit=source.head)
            with open_task_sandbox(task, tier, Settings()) as task_sandbox:
                yield task_sandbox

    return opened
