"""A check of a patch that a shell command makes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from scrout.check.check import check
from scrout.handoff import Basis, Handoff, Reproduction
from scrout.records import Attempt, Check, Evidence, GatedHandoff
from scrout.sandbox.task_sandbox import TaskSandbox

CheckPatch = Callable[..., Awaitable[Check]]


@pytest.fixture
def check_patch() -> CheckPatch:
    async def check_patch(
        shop: TaskSandbox, change: str, script: str, basis: Basis = "verbatim", report: str = ""
    ) -> Check:
        """Make a patch with a shell command, then check it with a script as reproduction."""
        workspace = shop.fresh()
        done = await shop.shell(workspace, change)
        assert done.exit_code == 0, done.text
        patch = await shop.diff(workspace)
        gated = GatedHandoff(
            verdict="real_failure",
            kept=True,
            materialized=True,
            reason="",
            evidence=Evidence(),
            handoff=Handoff(
                reproduction=Reproduction(files={"shown.py": script}, command="python shown.py", claim=True)
            ),
            text="",
            basis=basis,
        )
        attempt = Attempt(fixer="by hand", patch=patch, stop="finished", detail="", seconds=0)
        return await check(report, gated, attempt, shop)

    return check_patch
