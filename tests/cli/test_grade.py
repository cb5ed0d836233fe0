"""`scrout batch grade`: a file of predictions and a whole batch's folder, resumed, learned from, and refused."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scrout.batch.folder import Batch, BatchFolder
from scrout.batch.outputs.predictions import write_predictions
from scrout.config.settings import FixerKey
from scrout.ledger.store import Ledger
from scrout.records import Attempt, Decision, Stop
from scrout.route.feedback import FILE
from scrout.route.resume import load
from scrout.sandbox.workspace import find_source
from scrout.task import Task

if TYPE_CHECKING:
    from conftest import Cli

FIX = """\
diff --git a/shop/cart.py b/shop/cart.py
--- a/shop/cart.py
+++ b/shop/cart.py
@@ -4,3 +4,3 @@
 def total(prices):
     \"\"\"The sum of all prices.\"\"\"
-    return sum(prices[1:])
+    return sum(prices)
"""
WRONG = FIX.replace("+    return sum(prices)", "+    return sum(prices[2:])")
TESTS = """\
diff --git a/tests/test_cart.py b/tests/test_cart.py
--- a/tests/test_cart.py
+++ b/tests/test_cart.py
@@ -7,2 +7,5 @@
     def test_empty(self):
         self.assertEqual(total([]), 0)
+
+    def test_all(self):
+        self.assertEqual(total([1, 2]), 3)
"""


def refused(cli: Cli, *args: str | Path, words: str) -> None:
    ended = cli("batch", "grade", *args)
    assert (ended.code, ended.out) == (2, b"") and words in ended.err, ended.err


@pytest.fixture
def tasks(shop_repo: Path, tmp_path: Path) -> Path:
    """One task that its tests judge, twice."""
    gold = {
        "patch": FIX,
        "test_patch": TESTS,
        "fail_to_pass": ["tests.test_cart.CartTest.test_all"],
        "pass_to_pass": ["tests.test_cart.CartTest.test_empty"],
    }
    head = find_source(shop_repo).head
    row = {"text": "total() is wrong", "repo": str(shop_repo), "base_commit": head, "gold": gold}
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(json.dumps({"id": task_id, **row}) + "\n" for task_id in ("shop-1", "shop-2")))
    return path


def predictions(path: Path, **patches: str) -> Path:
    rows = [
        {"instance_id": task_id.replace("_", "-"), "model_name_or_path": "m", "model_patch": patch}
        for task_id, patch in patches.items()
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.slow
def test_a_file_of_predictions(cli: Cli, tasks: Path, tmp_path: Path) -> None:
    file = predictions(tmp_path / "p.jsonl", shop_1=FIX, shop_2=WRONG, shop_3=FIX)
    first = cli("batch", "grade", file, "--tasks", tasks, "--run-id", "one", "--json")
    assert first.code == 0, first.err
    (arm,) = first.json()["arms"]
    assert (arm["tasks"], arm["verdicts"], arm["rate"]) == (2, {"resolved": 1, "unresolved": 1}, 0.5)
    assert arm["grades"][1]["failed"] == ["tests.test_cart.CartTest.test_all"]
    assert first.json()["unknown"] == ["shop-3"] and "no task has the id shop-3" in first.err
    stored = (tmp_path / "p.jsonl.grades" / "grades.jsonl").read_text().splitlines()
    assert len(stored) == 2

    again = cli("batch", "grade", file, "--tasks", tasks, "--run-id", "one")
    assert again.code == 0 and "0 patches of 0 tasks to grade" in again.err
    assert "50.0%" in again.out.decode() and "resolved" in again.out.decode()
    assert (tmp_path / "p.jsonl.grades" / "grades.jsonl").read_text().splitlines() == stored

    predictions(file, shop_1=WRONG, shop_2=WRONG)
    refused(cli, file, "--tasks", tasks, "--run-id", "one", words="Choose another --run-id")


@pytest.mark.slow
def test_killed_in_the_middle_it_goes_on(cli: Cli, tasks: Path, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in tasks.read_text().splitlines()]
    for row, wait in zip(rows, ("", "sleep 5; "), strict=True):
        judges = 'if grep -q "sum(prices)" shop/cart.py; then echo "ok 1 - all"; fi; echo "ok 2 - runs"'
        row["gold"] |= {"fail_to_pass": ["all"], "pass_to_pass": ["runs"], "test_command": wait + judges}
    tasks.write_text("".join(json.dumps(row) + "\n" for row in rows))
    file = predictions(tmp_path / "p.jsonl", shop_1=FIX, shop_2=FIX)
    grades = tmp_path / "p.jsonl.grades" / "grades.jsonl"
    args = ("batch", "grade", file, "--tasks", tasks, "--jobs", "1")
    with cli.started(*args) as process:
        while not (grades.exists() and grades.read_bytes().endswith(b"\n")) and process.poll() is None:
            time.sleep(0.1)
        process.kill()
    before = grades.read_text()
    assert len(before.splitlines()) == 1
    ended = cli(*args, "--json")
    assert ended.code == 0 and "1 patches of 1 tasks to grade" in ended.err, ended.err
    assert ended.json()["arms"][0]["verdicts"] == {"resolved": 2}
    assert grades.read_text().startswith(before) and len(grades.read_text().splitlines()) == 2


def test_infrastructure_is_told_apart(cli: Cli, tasks: Path, shop_repo: Path, tmp_path: Path) -> None:
    tasks.write_text(tasks.read_text().replace(find_source(shop_repo).head, "0" * 40))
    file = predictions(tmp_path / "p.jsonl", shop_1=FIX)
    ended = cli("batch", "grade", file, "--tasks", tasks, "--out", tmp_path / "g", "--json")
    (arm,) = ended.json()["arms"]
    assert (ended.code, arm["verdicts"], arm["missing"]) == (1, {"infrastructure": 1}, 1), ended.err
    assert "infrastructure: shop-1" in ended.err


def test_what_is_refused(cli: Cli, tasks: Path, tmp_path: Path) -> None:
    file = predictions(tmp_path / "p.jsonl", shop_1=FIX)
    refused(cli, file, "--tasks", tasks, "--learn", words="--learn needs the folder of a batch")
    refused(cli, file, "--tasks", tmp_path / "gone", words="gone")
    refused(cli, tmp_path / "gone", "--tasks", tasks, words="gone")
    refused(cli, tmp_path, "--tasks", tasks, words="holds no batch")
    bare = tmp_path / "bare.jsonl"
    bare.write_text('{"id": "a", "text": "t", "repo": "/r", "base_commit": "' + "0" * 40 + '"}\n')
    refused(cli, file, "--tasks", bare, words="no patch can be graded")
    official = cli("batch", "grade", file, "--tasks", tasks, "--harness", "official", env={"PATH": str(tmp_path)})
    assert official.code == 2 and "--harness own" in official.err and "Docker" in official.err


async def closed_run(ledger: Ledger, batch: Batch, task: Task, patch: str, stop: Stop) -> None:
    """A run of the batch whose fixer submitted a patch."""
    run = ledger.open(task, "s", sandbox="x", environment="x", batch=batch.id, arm="solo/toy")

    async def decided(_: Task) -> Decision:
        return Decision(fixer="toy", theta=0, degraded=False, fallback=False, reason="only one", candidates=())

    async def attempted(_: Task) -> Attempt:
        return Attempt(fixer="toy", patch=patch, stop=stop, detail="", seconds=1)

    await run.step("route", decided, task)
    await run.step("fix", attempted, task)
    run.close()


async def batch_of(tmp_path: Path, repo: Path, *runs: tuple[str, str, Stop]) -> Path:
    """The folder of a batch in which these tasks were run, as `scrout batch run` leaves it."""
    out = tmp_path / "out"
    out.mkdir()
    folder = BatchFolder(out)
    batch = folder.begin("s", "t", len(runs), ("solo/toy",), "1")
    source = find_source(repo)
    with Ledger(folder.ledger) as ledger:
        for task_id, patch, stop in runs:
            task = Task(id=task_id, text="total() is wrong", repo=source.repo, base_commit=source.head)
            await closed_run(ledger, batch, task, patch, stop)
        write_predictions(folder, batch, ledger)
    return out


def test_a_batch_teaches_its_fixers(cli: Cli, tasks: Path, shop_repo: Path, tmp_path: Path) -> None:
    out = asyncio.run(batch_of(tmp_path, shop_repo, ("shop-1", FIX, "finished"), ("shop-2", WRONG, "finished")))
    config = tmp_path / "toy.toml"
    config.write_text(
        f'[route]\nresumes = "{tmp_path / "resumes"}"\nembedder = {{ kind = "hashed" }}\n'
        '[[fixers]]\nname = "toy"\nkind = "agent"\nmodel = "toy-1"\nbase_url = "http://127.0.0.1:9/v1"\n'
        "price = { input = 3.0, output = 15.0 }\n"
    )
    ended = cli("batch", "grade", out, "--tasks", tasks, "--learn", "--config", config)
    assert ended.code == 0 and "solo/toy" in ended.out.decode(), ended.err
    assert "learned from 2 runs; 0 were known, 0 taught nothing" in ended.err
    (resume,) = load(tmp_path / "resumes").values()
    assert resume.key == FixerKey(agent="agent", model="toy-1")
    assert {one.instance_id: one.resolved for one in resume.outcomes} == {"shop-1": True, "shop-2": False}
    lines = [json.loads(line) for line in (tmp_path / "resumes" / FILE).read_text().splitlines()]
    assert [line["verdict"] for line in lines] == ["resolved", "unresolved"]
    assert [json.loads(line)["arm"] for line in (out / "grades.jsonl").read_text().splitlines()] == ["solo/toy"] * 2

    (arm,) = json.loads((out / "summary.json").read_text())["arms"]
    assert arm["graded"]["verdicts"] == {"resolved": 1, "unresolved": 1} and (out / "report.html").stat().st_size

    again = cli("batch", "grade", out, "--tasks", tasks, "--learn", "--config", config)
    assert "learned from 0 runs; 2 were known" in again.err
    assert len((tmp_path / "resumes" / FILE).read_text().splitlines()) == 2


def test_infrastructure_teaches_nothing(cli: Cli, tasks: Path, shop_repo: Path, tmp_path: Path) -> None:
    """Neither that of grading, here a commit that is not there, nor that of the run itself, a dead endpoint."""
    head, nowhere = find_source(shop_repo).head, "0" * 40
    out = asyncio.run(batch_of(tmp_path, shop_repo, ("shop-1", WRONG, "finished"), ("shop-2", "", "endpoint")))
    move(tasks, head, nowhere)
    ended = cli("batch", "grade", out, "--tasks", tasks, "--learn", "-c", f"route.resumes={tmp_path / 'resumes'}")
    assert ended.code == 1 and "learned from 0 runs; 0 were known, 0 taught nothing" in ended.err, ended.err
    assert "2 infrastructure" in ended.out.decode() and "before anything was submitted" in ended.err
    assert not (tmp_path / "resumes" / FILE).exists()


def move(tasks: Path, old: str, new: str) -> None:
    tasks.write_text(tasks.read_text().replace(old, new))
