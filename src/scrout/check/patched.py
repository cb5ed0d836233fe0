"""A workspace with a patch."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from scrout.base import SandboxError
from scrout.sandbox.task_sandbox import TaskSandbox
from scrout.sandbox.workspace import Workspace


@asynccontextmanager
async def patched_workspace(
    task_sandbox: TaskSandbox, patch: str, files: Mapping[str, str] | None = None
) -> AsyncIterator[Workspace]:
    """The base with a patch, or without one if it is empty, and with other files; removed at the end."""
    workspace = task_sandbox.fresh()
    try:
        refusal = await task_sandbox.apply(workspace, patch) if patch else ""
        if refusal:
            raise SandboxError(f"a part of the patch does not apply without the others: {refusal[-300:]}")
        for path, content in (files or {}).items():
            workspace.write(path, content.encode())
        yield workspace
    finally:
        workspace.remove()
