"""A script may raise and catch as much as it likes first: what ends it is still witnessed."""

from __future__ import annotations

from scrout.config.settings import GateSettings
from scrout.gate.gate import gate
from scrout.handoff import Handoff, Reproduction
from scrout.sandbox.task_sandbox import TaskSandbox
from scrout.task import Task

FILL = "for _ in range(1000):\n    try:\n        int('x')\n    except ValueError:\n        pass\n"
SOURCE = {"shop.py": "def total(prices):\n    return sum(prices) + 1\n\ndef first(items):\n    return items[0]\n"}


async def verdict(shop: TaskSandbox, script: str) -> str:
    task = Task(id="t", text="total is wrong", repo=shop.base.repo, base_commit=shop.base.commit)
    claim = Reproduction(files={"r.py": script}, command="python r.py", claim=True)
    return (await gate(task, Handoff(reproduction=claim), shop, GateSettings())).verdict


async def test_a_real_failure_after_many_exceptions_is_kept(make_repo, task_sandbox) -> None:
    with task_sandbox(make_repo(SOURCE)) as shop:
        assert await verdict(shop, f"from shop import first\n{FILL}first([])\n") == "real_failure"


async def test_a_printed_traceback_after_many_exceptions_is_not(make_repo, task_sandbox) -> None:
    with task_sandbox(make_repo(SOURCE)) as shop:
        script = (
            f"import os, sys\nfrom shop import total\ntotal([1])\n{FILL}"
            "print('Traceback (most recent call last):')\n"
            "print('  File \"' + os.getcwd() + '/shop.py\", line 5, in first')\nprint('IndexError: no')\nsys.exit(1)\n"
        )
        assert await verdict(shop, script) not in ("real_failure", "reproduced_exit_zero")
