"""Predictions: what graders get, byte by byte, and which run of a task it comes from."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.base import TaskError
from scrout.batch.folder import BatchFolder
from scrout.batch.outputs.predictions import MAX_NAME_CHARS, Predictions, file_names, write_predictions
from scrout.handoff import Handoff
from scrout.ledger.store import Ledger, Result
from scrout.records import Attempt, Check, Evidence, GatedHandoff, Scouting
from scrout.task import Task

ARMS = ("handoff/routed", "solo/toy")
PATCH = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-caf\udce9\n+café\n"


class Made:
    """A batch whose runs a test writes as a runner would."""

    def __init__(self, path: Path, arms: tuple[str, ...] = ARMS) -> None:
        self.folder = BatchFolder(path)
        self.folder.path.mkdir(parents=True, exist_ok=True)
        self.batch = self.folder.begin("settings", "tasks", 3, arms, "1.0")
        self.ledger = Ledger(self.folder.ledger)

    async def run(
        self, task_id: str, arm: str = ARMS[0], patch: str = PATCH, *, gated: str = "", close: bool = True
    ) -> None:
        task = Task(id=task_id, text="An issue.", repo=Path("/home/me/larder"), base_commit="c" * 40)
        run = self.ledger.open(task, "settings", sandbox="none", environment="none", batch=self.batch.id, arm=arm)
        if arm.startswith("solo/"):
            await run.step("scout", _gives(Scouting(handoff=Handoff(), text="", seconds=0, searcher="none")), task)
        else:
            await run.step("scout", _gives(Scouting(handoff=Handoff(), text="as claimed", seconds=0)), task)
        verdict = "not_replayed" if arm.startswith("passthrough/") else "no_repro"
        kept = GatedHandoff(
            verdict=verdict,
            kept=False,
            materialized=False,
            reason="",
            evidence=Evidence(),
            handoff=Handoff(),
            text=gated or f"handoff of {task_id}\n",
        )
        await run.step("gate", _gives(kept), task)
        attempt = Attempt(fixer="toy", patch=patch, stop="finished", detail="", seconds=1)
        await run.step("fix", _gives(attempt), task)
        check = Check(outcome="unverified", applies=True, reproduction="none", tests="none")
        await run.step("check", _gives(check), task)
        if close:
            run.close()

    def write(self, *task_ids: str) -> dict[str, Predictions]:
        return {written.arm: written for written in write_predictions(self.folder, self.batch, self.ledger, task_ids)}

    def files(self) -> dict[str, bytes]:
        """Everything that was written, but for the batch's own records."""
        folders = (self.folder.predictions, self.folder.handoffs)
        return {
            str(file.relative_to(self.folder.path)): file.read_bytes() for each in folders for file in each.iterdir()
        }


def _gives(result: Result) -> Callable[..., Awaitable[Result]]:
    async def stage(*args: object) -> Result:
        return result

    return stage


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Made]]:
    opened: list[Made] = []

    def open_one(name: str = "out", arms: tuple[str, ...] = ARMS) -> Made:
        opened.append(Made(tmp_path / name, arms))
        return opened[-1]

    yield open_one
    for one in opened:
        one.ledger.close()


def found(folder: Path, pattern: str) -> list[Path]:
    return list(folder.rglob(pattern))


def rows(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_an_arm_has_a_file_for_each_grader(make: Callable[..., Made]) -> None:
    made = make()
    await made.run("b")
    await made.run("a", patch="")
    await made.run("a", "solo/toy")
    written = made.write("b", "a", "c")
    routed = written["handoff/routed"]
    assert routed.path.name == "handoff-routed.jsonl" and routed.pro.name == "handoff-routed.pro.json"
    assert rows(routed.path) == [
        {"instance_id": "b", "model_name_or_path": "scrout-handoff-routed", "model_patch": PATCH},
        {"instance_id": "a", "model_name_or_path": "scrout-handoff-routed", "model_patch": ""},
    ]
    pro = json.loads(routed.pro.read_text())
    assert [set(row) for row in pro] == 2 * [{"instance_id", "model_patch", "prefix"}]
    assert [(row["instance_id"], row["model_patch"]) for row in pro] == [("b", PATCH), ("a", "")]
    assert (routed.rows, routed.missing) == (2, ("c",))
    assert (written["solo/toy"].rows, written["solo/toy"].missing) == (1, ("b", "c"))


async def test_an_arm_without_a_finished_run_has_empty_files(make: Callable[..., Made]) -> None:
    made = make()
    await made.run("a", close=False)
    written = made.write("a")["handoff/routed"]
    assert written.path.read_text() == "" and json.loads(written.pro.read_text()) == []
    assert written.missing == ("a",) and not list(made.folder.handoffs.iterdir())


async def test_the_last_closed_run_counts(make: Callable[..., Made]) -> None:
    made = make()
    await made.run("a", patch="first")
    await made.run("a", patch="second")
    await made.run("a", patch="third", close=False)
    assert [row["model_patch"] for row in rows(made.write("a")["handoff/routed"].path)] == ["second"]


async def test_order_and_sessions_do_not_change_a_byte(make: Callable[..., Made]) -> None:
    whole, torn = make("whole"), make("torn")
    for task_id in ("a", "b", "c"):
        await whole.run(task_id, patch=f"patch {task_id}")
    await torn.run("c", patch="patch c")
    await torn.run("a", patch="lost", close=False)
    torn.write("a", "b", "c")
    torn.ledger.close()
    torn.ledger = Ledger(torn.folder.ledger)
    await torn.run("b", patch="patch b")
    await torn.run("a", patch="patch a")  # goes on with the run that was interrupted, whose steps are kept
    whole.write("a", "b", "c")
    torn.write("a", "b", "c")
    jsonl = "predictions/handoff-routed.jsonl"
    first, second = whole.files(), torn.files()
    assert set(first) == set(second)
    expected = first[jsonl].replace(b"patch a", b"lost")
    assert second[jsonl] == expected
    before = torn.files()
    torn.write("a", "b", "c")
    assert torn.files() == before


async def test_a_prefix_is_of_one_batch_arm_and_patch(make: Callable[..., Made]) -> None:
    one, other = make("one"), make("other")

    def prefixes(made: Made) -> set[str]:
        return {row["prefix"] for done in made.write().values() for row in json.loads(done.pro.read_text())}

    for made in (one, other):
        await made.run("a")
        await made.run("a", "solo/toy")
    assert len(prefixes(one) | prefixes(other)) == 4
    before = prefixes(one)
    await one.run("a", patch="another patch")
    assert len(prefixes(one) - before) == 1
    assert all(set(prefix) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") for prefix in before)


async def test_a_handoff_is_written_once_as_the_gate_left_it(make: Callable[..., Made]) -> None:
    made = make(arms=("passthrough/toy", "solo/toy", "handoff/toy"))
    await made.run("a", "passthrough/toy", gated="not replayed")
    await made.run("a", "solo/toy", gated="of no scout")
    await made.run("a", "handoff/toy", gated="after the gate")
    await made.run("b", "solo/toy")
    made.write("a", "b")
    assert {file.name: file.read_text() for file in made.folder.handoffs.iterdir()} == {"a.txt": "after the gate"}


async def test_hostile_ids_stay_in_the_folder(make: Callable[..., Made], tmp_path: Path) -> None:
    made = make()
    ids = ["../../escape", "/etc/passwd", "..", "a\0b\n", "x" * 5000, ".hidden", "Case", "case", "a/b", "a-b"]
    for task_id in ids:
        await made.run(task_id)
    written = made.write(*ids)["handoff/routed"]
    assert [row["instance_id"] for row in rows(written.path)] == ids
    assert len(list(made.folder.handoffs.iterdir())) == len(ids)
    assert all(made.folder.handoffs in path.parents for path in found(tmp_path, "*escape*"))


async def test_a_patch_that_lost_a_secret_is_told(make: Callable[..., Made]) -> None:
    made = make()
    await made.run("a", patch="+key = 'sk-proj-A1b2C3d4E5f6G7h8I9j0'\n")
    await made.run("b")
    assert made.write("a", "b")["handoff/routed"].altered == ("a",)


async def test_a_place_that_cannot_be_written_is_an_error_with_the_next_step(make: Callable[..., Made]) -> None:
    made = make()
    await made.run("a")
    made.folder.predictions.write_text("in the way")
    with pytest.raises(TaskError, match=r"cannot be written.*run the same command again"):
        made.write("a")


@given(st.lists(st.text(max_size=200), unique=True, max_size=8))
def test_file_names_are_safe_and_never_two_alike(names: list[str]) -> None:
    found = file_names(names)
    assert list(found) == names
    assert len({name.casefold() for name in found.values()}) == len(names)
    for name in found.values():
        assert re.fullmatch(r"[A-Za-z0-9_+=@][A-Za-z0-9._+=@-]*", name) and len(name) <= MAX_NAME_CHARS
