"""`scrout batch run` as users meet it: what it says, what it refuses, and how it is interrupted and taken up again."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from scrout.batch.runner import BatchProgress
from scrout.cli.batch.run import shown
from scrout.models.chat import ToolCall
from scrout.models.scripted import ScriptedEndpoint, ScriptedReply, ScriptedRequest
from scrout.money import Budget, Usage

if TYPE_CHECKING:
    from conftest import Cli, Ended

USAGE = Usage(input_tokens=900, output_tokens=50)
TASKS = 2
CALLS = 2
"""Of one attempt."""
PATIENCE_S = 300.0
CAP_USD = 2.0
"""Of an attempt."""
FILES = {"cart.py": "def total(prices):\n    return sum(prices[1:])\n"}


@dataclass
class Model:
    """Mends and says so. It can be made to wait before it answers, and tells when it was asked."""

    tasks: list[str] = field(default_factory=list)
    """Asked about, a call each."""
    asked: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)

    def __call__(self, request: ScriptedRequest) -> ScriptedReply:
        self.tasks.append(re.findall(r"task-\d+", request.body)[0])
        self.asked.set()
        self.go.wait(PATIENCE_S)
        messages = request.content["messages"]
        assert isinstance(messages, list)
        if any(isinstance(one, dict) and one.get("role") == "tool" for one in messages):
            return ScriptedReply("Mended.", usage=USAGE)
        command = r"sed -i 's/prices\[1:\]/prices/' cart.py"
        return ScriptedReply(calls=(ToolCall("call", "bash", json.dumps({"command": command})),), usage=USAGE)


@dataclass
class Scene:
    """Two tasks, and a command that runs them one after the other."""

    cli: Cli
    tasks: Path
    out: Path
    config: Path
    model: Model

    def args(self, *more: str, fixer: str = "toy", out: Path | None = None) -> tuple[str, ...]:
        command = ("batch", "run", str(self.tasks), "--out", str(out or self.out), "--config", str(self.config))
        return (*command, "--jobs", "1", "--arms", "solo", "--fixers", fixer, *more)

    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.tasks.read_text().splitlines()]

    def predictions(self, out: Path | None = None) -> bytes:
        return ((out or self.out) / "predictions" / "solo-toy.jsonl").read_bytes()


@pytest.fixture
def scene(cli: Cli, make_repo: Callable[..., Path], tmp_path: Path) -> Iterator[Scene]:
    repo = make_repo(FILES)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repo, capture_output=True, text=True, check=True).stdout
    tasks, config, model = tmp_path / "tasks.jsonl", tmp_path / "batch.toml", Model()
    rows = [
        {"id": f"task-{n}", "text": f"task-{n}: total() is wrong.", "repo": str(repo), "base_commit": head.strip()}
        for n in range(TASKS)
    ]
    tasks.write_text("".join(json.dumps(row) + "\n" for row in rows))
    model.go.set()
    with ScriptedEndpoint(model, keep=False) as endpoint:
        config.write_text(
            f'[[fixers]]\nname = "toy"\nkind = "agent"\nmodel = "toy-1"\nbase_url = "{endpoint.base_url}"\n'
            f"cap_usd = {CAP_USD}\nprice = {{ input = 3.0, output = 15.0 }}\n"
            '[[fixers]]\nname = "repair"\nkind = "repair"\n'
        )
        yield Scene(cli, tasks, tmp_path / "out", config, model)
        model.go.set()


def ended(scene: Scene, *args: str) -> Ended:
    done = scene.cli(*args)
    assert "Traceback" not in done.err, done.err
    return done


def audited(scene: Scene, *ledger: str) -> tuple[int, int, list[str]]:
    """Runs, receipts and problems."""
    report = json.loads(ended(scene, "ledger", "audit", "--json", *ledger).out)
    return report["runs"], report["receipts"], report["problems"]


def hear(words: str, process: subprocess.Popen[bytes]) -> None:
    """Read standard error until these words pass by."""
    assert process.stderr is not None
    seen = b""
    while words.encode() not in seen:
        line = process.stderr.readline()
        assert line, f"ended before it said {words!r}: {seen.decode()}"
        seen += line


def test_lines_on_a_pipe_and_one_document_on_standard_output(scene: Scene) -> None:
    done = ended(scene, *scene.args("--json"))
    assert done.code == 0, done.err
    lines = done.err.splitlines()
    assert [line for line in lines if line.startswith("task-")] == [
        f"task-{n}  solo/toy  unverified  $0.0069" for n in range(TASKS)
    ]
    assert "2 of 2 done: 2 unverified; $0.01 spent in all" in lines
    assert lines[-1] == f"report: {scene.out / 'report.html'}"
    assert "\x1b" not in done.err
    (arm,) = json.loads(done.out)["arms"]
    assert (arm["arm"], arm["tasks"], arm["done"], arm["not_run"]) == ("solo/toy", TASKS, TASKS, 0)
    assert json.loads((scene.out / "summary.json").read_text()) == json.loads(done.out)
    assert [json.loads(row)["instance_id"] for row in scene.predictions().splitlines()] == [
        row["id"] for row in scene.rows()
    ]
    again = ended(scene, "batch", "show", str(scene.out), "--json")
    assert (again.code, again.json()) == (0, json.loads(done.out))
    table = ended(scene, "batch", "show", str(scene.out))
    assert table.out.decode().splitlines()[3].split()[:8] == ["solo/toy", "2", "of", "2", "0", "of", "2", "(0%)"]


def test_a_folder_without_a_batch_is_refused(scene: Scene, tmp_path: Path) -> None:
    empty = ended(scene, "batch", "show", str(tmp_path))
    assert empty.code == 2 and "holds no summary of a batch" in empty.err


def test_how_far_it_is() -> None:
    budget = Budget(Decimal(5), None)
    budget.spent_usd = Decimal("1.25")
    far = BatchProgress(total=10, before=0, outcomes=Counter(solved=2, unverified=1), began=0.0)
    far.running["task-7", "solo/toy"] = "toy: 3 of 50 calls"
    first, second = shown(far, budget).splitlines()
    assert first.startswith("3 of 10 done, 1 running, 2 solved, 1 unverified, $1.25 of $5.00 spent, ")
    assert "a minute" in first and first.endswith(" left")
    assert second == "  task-7  solo/toy  toy: 3 of 50 calls"


def test_ctrl_c_lets_the_running_task_end_and_the_batch_goes_on_later(scene: Scene) -> None:
    scene.model.go.clear()
    with scene.cli.started(*scene.args()) as process:
        assert scene.model.asked.wait(PATIENCE_S)
        os.kill(process.pid, signal.SIGINT)
        hear("finishing 1 running tasks; Ctrl-C again abandons them", process)
        scene.model.go.set()
        _, err = process.communicate(timeout=PATIENCE_S)
    said = err.decode()
    assert process.returncode == 130, said
    assert "1 of 2 done: 1 unverified" in said and "Traceback" not in said
    assert "stopped: interrupted. Run the same command again to go on." in said
    again = ended(scene, *scene.args())
    assert again.code == 0 and "1 of 2 are done" in again.err, again.err
    assert Counter(scene.model.tasks) == {f"task-{n}": CALLS for n in range(TASKS)}
    patches = {row["instance_id"]: row["model_patch"] for row in map(json.loads, scene.predictions().splitlines())}
    assert set(patches) == {row["id"] for row in scene.rows()} and len(set(patches.values())) == 1


@pytest.mark.parametrize(
    "signals",
    [(signal.SIGINT, signal.SIGINT), pytest.param((signal.SIGTERM,), marks=pytest.mark.slow)],
    ids=["twice", "terminated"],
)
@pytest.mark.slow
def test_an_abandoned_task_is_taken_up_again(scene: Scene, tmp_path: Path, signals: tuple[int, ...]) -> None:
    scene.model.go.clear()
    with scene.cli.started(*scene.args()) as process:
        assert scene.model.asked.wait(PATIENCE_S)
        for number in signals[:-1]:
            os.kill(process.pid, number)
            hear("finishing 1 running tasks", process)
        os.kill(process.pid, signals[-1])
        _, err = process.communicate(timeout=PATIENCE_S)
    said = err.decode()
    assert process.returncode == 130 and "Traceback" not in said, said
    assert "0 of 2 done: nothing" in said and "stopped: interrupted." in said
    (spent,) = re.findall(r"nothing; \$([0-9.]+) spent in all", said)
    assert 0 < float(spent) < CAP_USD / 2, "what was held for the one call, not for the whole attempt"
    scene.model.go.set()
    ledger = ("-c", f"ledger.path={scene.out / 'ledger.db'}")
    # The call that was cut off, at what was held for it.
    assert audited(scene, *ledger) == (1, 1, [])
    again = ended(scene, *scene.args())
    assert again.code == 0 and "2 of 2 done: 2 unverified" in again.err, again.err
    assert audited(scene, *ledger) == (TASKS, TASKS * CALLS + 1, [])
    assert ended(scene, *scene.args(out=tmp_path / "calm")).code == 0
    assert scene.predictions() == scene.predictions(tmp_path / "calm") != b""


def test_rows_that_cannot_be_run_stop_no_others(scene: Scene) -> None:
    first, second = scene.rows()
    third = first | {"id": "task-2"}
    lines = [
        json.dumps(first),
        json.dumps(second | {"base_commit": "f" * 40}),
        json.dumps(first | {"text": "The same again."}),
        '["no", "object"]',
        json.dumps({"instance_id": "task-9", "problem_statement": "task-9: wrong", "repo": "nobody/nothing"}),
        json.dumps(third)[:-20],
        json.dumps(third),
    ]
    scene.tasks.write_text("\n".join(lines))
    done = ended(scene, *scene.args(fixer="repair"))
    assert done.code == 1
    for words in (
        r"warning: tasks.jsonl:3 \(task-0\): the id was seen before, in tasks.jsonl:1",
        r"warning: tasks.jsonl:4 \(no id\): it is not a JSON object",
        r"warning: tasks.jsonl:5 \(task-9\): .*base_commit",
        r"warning: tasks.jsonl:6 \(no id\): the line is not JSON .*may be cut off",
        rf"task-1  solo/repair  failed  .*tasks.jsonl:2, task-1: commit {'f' * 40} is not in",
        r"3 of 3 done: 1 failed, 2 not_solved",
        r"not run: task-1 solo/repair: tasks.jsonl:2",
    ):
        assert re.search(words, done.err), f"{words}\n{done.err}"
    summary = json.loads((scene.out / "summary.json").read_text())
    assert (summary["arms"][0]["done"], summary["arms"][0]["not_run"]) == (2, 1)


def test_a_row_that_was_mended_makes_it_another_batch(scene: Scene) -> None:
    """A folder has the predictions of one set of tasks, so the message has to say what to do."""
    assert ended(scene, *scene.args(fixer="repair")).code == 0
    scene.tasks.write_text("".join(json.dumps(row) + "\n" for row in scene.rows()[:1]))
    refused(
        ended(scene, *scene.args(fixer="repair")),
        str(scene.out),
        "other tasks",
        "name another folder",
    )


def refused(done: Ended, *words: str) -> None:
    """A user's error that names these, and nothing on standard output."""
    assert (done.code, done.out) == (2, b""), done.err
    last = done.err.strip().splitlines()[-1]
    assert last.lower().startswith("error: "), done.err
    for word in words:
        assert word in done.err, f"{word!r} is not in {done.err!r}"


def test_what_is_refused(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "broken.jsonl").write_text('{"id": "a"\n')
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").touch()
    config = ("--config", str(scene.config))
    out = ("--out", str(scene.out), *config)
    tasks = ("batch", "run", str(scene.tasks))
    for args, words in (
        (
            (*tasks, "--out", str(tmp_path / "file" / "out"), *config),
            ("file/out", "Name a folder that you may write to"),
        ),
        ((*tasks, "--out", str(tmp_path / "full"), *config), ("full", "not a batch", "Name an empty or a new folder")),
        ((*tasks, *out, "--fixers", "nobody"), ("nobody", "toy", "repair")),
        ((*tasks, *out, "--arms", "solo,duet"), ("solo,duet", "passthrough")),
        ((*tasks, *out, "--arms", ""), ("name one or more of solo",)),
        ((*tasks, *out, "--jobs", "0"), ("--jobs",)),
        ((*tasks, *out, "--cap-usd", "1", "-c", "fix.caps=paper"), ("cannot limit the batch", "leave out --cap-usd")),
        (("batch", "run", str(tmp_path / "none.jsonl"), *out), ("none.jsonl", "Check the path")),
        (("batch", "run", str(tmp_path / "empty.jsonl"), *out), ("empty.jsonl", "holds no tasks")),
        (("batch", "run", str(tmp_path / "broken.jsonl"), *out), ("none of the 1 rows is a valid task", "not JSON")),
        (("batch", "run", str(tmp_path / "full"), *out), ("folder of issues", "--repo")),
    ):
        refused(ended(scene, *args), *words)
    assert scene.model.tasks == [] and not scene.out.exists()


def test_a_folder_goes_on_as_it_was_begun(scene: Scene) -> None:
    assert ended(scene, *scene.args(fixer="repair")).code == 0
    refused(
        ended(scene, *scene.args("-c", "gate.runs=3", fixer="repair")),
        str(scene.out),
        "other settings",
    )
    refused(
        ended(scene, *scene.args(fixer="toy")),
        str(scene.out),
        "other arms",
        "solo/repair",
        "solo/toy",
    )
    again = ended(scene, *scene.args(fixer="repair"))
    assert again.code == 0 and "2 of 2 are done" in again.err


@pytest.mark.slow
def test_one_process_drives_a_batch(scene: Scene) -> None:
    scene.model.go.clear()
    with scene.cli.started(*scene.args()) as process:
        assert scene.model.asked.wait(PATIENCE_S)
        refused(ended(scene, *scene.args()), "another process is using", str(scene.out))
        os.kill(process.pid, signal.SIGTERM)
        process.communicate(timeout=PATIENCE_S)
