"""Workspaces that are full copies: a change counts, also one that was undone."""

from __future__ import annotations

from scrout.config.settings import Settings
from scrout.sandbox.task_sandbox import open_task_sandbox
from scrout.sandbox.tier import Tier
from scrout.sandbox.tiers.bubblewrap import Bubblewrap, find_program
from scrout.sandbox.workspace import find_source
from scrout.task import Task


async def test_what_was_changed_and_put_back_counts(make_repo, tier: Tier) -> None:
    program = find_program()
    assert program is not None  # `tier` skips where there is none
    source = find_source(make_repo({"a.py": "a = 1\n", "b.py": "b = 1\n", "c/d.py": "d = 1\n"}))
    task = Task(id="t", text="x", repo=source.repo, base_commit=source.head)
    with open_task_sandbox(task, Bubblewrap(program, overlays=False), Settings()) as shop:
        workspace = shop.fresh()
        assert set(workspace.changed()) == set()
        await shop.shell(workspace, "cat b.py; git status --short; echo x > new.txt")
        assert set(workspace.changed()) == {"new.txt"}
        await shop.shell(workspace, "sed -i s/1/2/ a.py; sed -i s/2/1/ a.py; touch -d '2001-01-01' c/d.py")
        assert set(workspace.changed()) == {"new.txt", "a.py", "c/d.py"}
        assert await shop.diff(workspace) == await shop.diff(workspace)
        assert "a.py" not in await shop.diff(workspace)
