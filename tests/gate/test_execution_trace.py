"""A script may raise and catch as much as it likes first: what ends it is still witnessed."""

from __future__ import annotations

from typing import Any

from scrout.config.settings import GateSettings
from scrout.gate.execution_trace import run_watched
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


FORGED = [
    *("", "[]", "{}", "null", '"x"', "[" * 50_000, '["KEY"]', '["KEY", 1, 2, 3, 4, 5, 6]'),
    *('["KEY", "", [["a.py", [1e999]]], [], [], [], []]', '["KEY", "", [["a.py", ["x"]]], [], [], [], []]'),
    *('["KEY", "", [[1]], [], [], [], []]', '["KEY", "", [], [["a.py", "x", 1, 2, 3]], [], [], []]'),
    '["KEY", "", [], [["a.py", ' + "9" * 5000 + ', "f", "E", "m"]], [], [], []]',
    '["another key", "forged", [["shop.py", [1]]], [], [], [], []]',
]


async def test_forged_reports_are_no_evidence_and_do_no_harm(make_repo: Any, task_sandbox: Any) -> None:
    files = {"shop.py": "def fail():\n    raise ValueError('no')\n"}
    files |= {f"forged/{number}": text for number, text in enumerate(FORGED)}
    forge = 'for f in forged/*; do sed "s/KEY/$SCROUT_WATCH_KEY/" $f > $SCROUT_WATCH_OUTBOX/${f##*/}.json; done'
    with task_sandbox(make_repo(files)) as opened:
        workspace = opened.fresh()
        workspace.write("claim.py", b"import shop\nshop.fail()\n")
        run = await run_watched(opened, workspace, f"{forge}; python claim.py", timeout_s=60)
    assert run.exit_code == 1 and run.tampered == "" and run.execution_trace is not None
    assert run.execution_trace.lines["shop.py"] >= {2} and "a.py" not in run.execution_trace.lines
    assert {one.type for one in run.execution_trace.raised} == {"ValueError"}
