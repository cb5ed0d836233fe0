"""Kills whatever takes part in a batch, at random, and sees whether anything is lost, done twice or paid unseen.

    python bench/kill.py [--kills 100] [--seed 1] [--scenes here,postgres,ray,ray+postgres] [--kinds runner,proxy]
        [--out bench/results/kill.json]

A batch is small: 6 tasks in 2 arms, 3 at once, each with a fix of two edits by the built-in agent, and in one arm with
a scouting of two calls by a model that costs money. It runs until a kill -9 hits one of its parts: the runner, the
metering proxy, a process in an attempt's sandbox, a process of a local Ray; or until the server ends one of its
connections to the ledger in PostgreSQL. Then the same command is run again, if the kill has ended it, until the batch
is complete; a complete one is followed by another until all kills are done.

The model is a stand-in that counts: each answer uses a number of output tokens that no other one uses, and what was
asked and answered is kept, whether or not the answer ever arrived. At the end of a batch:

- each task has one finished run in each arm, and no run is left open; no step that was done was done again;
- no number is in the ledger twice, and all answered calls are there: with their number, or, where they were cut off, as
  a receipt at what was held for them, counted by task;
- `scrout ledger audit` finds nothing, and no command has ended in a traceback;
- the predictions are, byte for byte, those of a batch that nobody disturbed.

All of it runs in a network namespace of its own with loopback only: Ray would bind the machine's address.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from postgres import postgres
from record import record

import scrout
from scrout.batch.folder import BatchFolder
from scrout.batch.ray_worker import RayProcess
from scrout.ledger.store import Ledger
from scrout.models.chat import ToolCall
from scrout.models.scripted import Hang, ScriptedEndpoint, ScriptedReply, ScriptedRequest, Stall
from scrout.money import Receipt, Usage
from scrout.records import Run

INSIDE = "SCROUT_KILL_INSIDE"
"""Set once this runs in its own network namespace."""
TASKS = 6
ARMS = ("solo", "handoff")
FIXER = "toy"
SEARCHER = "seer-1"
HANDOFF = (
    "<files>\ncart.py\n</files>\n<notes>\nThe slice drops a price, and the mean divides by too much.\n</notes>\nSTOP"
)
AT_ONCE = 3
FIRST_NUMBER = 100_000
"""Far above the most that is ever held for an answer."""
MOST_TOKENS = 2_048
PATIENCE_S = 300.0
"""For a command to end by itself, or to be killed."""
MOST_STARTS = 20
"""Of one command, beyond its kills: then something is wrong."""
SCENES: dict[str, Mapping[str, int]] = {
    "here": {"runner": 4, "proxy": 2, "agent": 4},
    "postgres": {"runner": 3, "proxy": 2, "agent": 2, "connection": 5},
    "ray": {"runner": 1, "proxy": 1, "agent": 1, "ray worker": 4},
    "ray+postgres": {"runner": 1, "ray worker": 3, "connection": 3},
}
"""What is killed in each, and how often one among the others."""
SHARES = {"here": 40, "postgres": 40, "ray": 10, "ray+postgres": 10}
"""Of the kills, in percent."""

# Without tests: running them would take most of the time, and nothing of that is in question here.
FILES = {
    "cart.py": "def total(prices):\n    s = 0\n    for price in prices[1:]:\n        s += price\n    return s\n\n\n"
    "def mean(prices):\n    return total(prices) / (len(prices) + 1)\n",
}
EDITS = (r"s/prices\[1:\]/prices/", r"s/(len(prices) + 1)/len(prices)/")
GIT = ("git", "-c", "user.name=Bench", "-c", "user.email=bench@localhost", "-c", "commit.gpgSign=false")


@dataclass
class Counting:
    """The stand-in's mind. It goes on to the next edit when it has seen the last one succeed, as a model would."""

    mark: str
    """In the command line of whatever an attempt runs."""
    seed: int = 1
    answered: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    """By task, turn and number of each call, since `afresh`."""
    calls: int = 0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._number = FIRST_NUMBER
        self._lock = threading.Lock()

    def afresh(self) -> None:
        """Forget what was answered; numbers go on."""
        with self._lock:
            self.answered.clear()

    def __call__(self, request: ScriptedRequest) -> ScriptedReply:
        messages = request.content["messages"]
        assert isinstance(messages, list)
        told = [str(one["content"]) for one in messages if isinstance(one, dict) and one.get("role") == "tool"]
        mended = sum(any(f"mended-{edit}" in answer for answer in told) for edit in range(len(EDITS)))
        with self._lock:
            self._number += 1
            self.calls += 1
            self.answered[re.findall(r"task-\d+", request.body)[0]].append((len(told), self._number))
        usage = Usage(input_tokens=900, output_tokens=self._number)
        pause_s = self._random.uniform(0.02, 0.25)
        fault = Stall(pause_s) if self._random.random() < 0.5 else Hang(pause_s)
        if request.content["model"] == SEARCHER:
            look = ToolCall("look", "bash", json.dumps({"command": f"sleep 0.2 && echo looked # {self.mark}"}))
            return ScriptedReply(HANDOFF if told else "", () if told else (look,), usage, fault=fault)
        if mended == len(EDITS):
            return ScriptedReply("Both are mended.", usage=usage, fault=fault)
        command = f"sed -i '{EDITS[mended]}' cart.py && sleep 0.2 && echo mended-{mended} # {self.mark}"
        call = ToolCall(f"call_{len(told)}", "bash", json.dumps({"command": command}))
        return ScriptedReply(calls=(call,), usage=usage, fault=fault)


@dataclass(frozen=True)
class Place:
    """Folders, tasks and settings that all batches share."""

    folder: Path
    tasks: Path
    config: Path

    @property
    def environment(self) -> dict[str, str]:
        own = {f"XDG_{name}_HOME": str(self.folder / name.lower()) for name in ("DATA", "CACHE", "CONFIG")}
        return {
            **os.environ,
            **own,
            "HOME": str(self.folder / "home"),
            "XDG_RUNTIME_DIR": str(self.folder / "run"),
            "RAY_TMPDIR": str(self.folder / "ray"),
            "RAY_USAGE_STATS_ENABLED": "0",
            "PYTHONPATH": str(Path(scrout.__file__).parents[1]),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        }


def make_place(folder: Path, base_url: str, tasks: int = TASKS, *, searcher: bool = False) -> Place:
    """A broken repository, tasks on it, and settings with the stand-in as a fixer, and perhaps as the searcher."""
    for name in ("home", "run", "ray"):
        (folder / name).mkdir(mode=0o700)
    repo = folder / "repo"
    repo.mkdir()
    for name, content in FILES.items():
        (repo / name).write_text(content)
    for args in (("init", "-q", "-b", "main"), ("add", "--all"), ("commit", "-q", "-m", "base")):
        subprocess.run([*GIT, *args], cwd=repo, check=True, capture_output=True)
    head = subprocess.run([*GIT, "rev-parse", "HEAD"], cwd=repo, check=True, capture_output=True, text=True)
    rows = [
        {
            "id": f"task-{number}",
            "text": f"task-{number}: total([1, 2]) of cart.py gives 2 and should give 3, and mean() is too small.",
            "repo": str(repo),
            "base_commit": head.stdout.strip(),
        }
        for number in range(tasks)
    ]
    path = folder / "tasks.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = folder / "batch.toml"
    # What is cut off is paid at its reserve, out of the same budget: it must last for all kills.
    paid = f'base_url = "{base_url}"\ncap_usd = 10.0\nmax_tokens = {MOST_TOKENS}\n'
    paid += "price = { input = 0.1, output = 0.2 }\n"
    searching = f'[scout]\nsearcher = "model"\n[scout.model]\nmodel = "{SEARCHER}"\nturns = 4\n{paid}'
    config.write_text(
        f'[[fixers]]\nname = "{FIXER}"\nkind = "agent"\nmodel = "toy-1"\n{paid}{searching if searcher else ""}'
    )
    return Place(folder, path, config)


@dataclass
class Batch:
    """One batch, as the command line runs it."""

    place: Place
    out: Path
    address: str = ""
    """Of a PostgreSQL ledger; empty: it is a file."""
    ray: bool = False
    at_once: int = AT_ONCE
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0

    @property
    def settings(self) -> tuple[str, ...]:
        return ("-c", f"ledger.url={self.address}") if self.address else ()

    def start(self) -> None:
        """The same command, each time."""
        argv = [sys.executable, "-m", "scrout", "batch", "run", str(self.place.tasks), "--out", str(self.out)]
        argv += ["--config", str(self.place.config), "--jobs", str(self.at_once), "--arms", ",".join(ARMS)]
        argv += ["--fixers", FIXER, *self.settings, *(("--ray", "local") if self.ray else ())]
        self.starts += 1
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                argv,
                cwd=self.place.folder,
                env=self.place.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )

    @property
    def log(self) -> Path:
        """What all starts said."""
        return self.out.with_name(f"{self.out.name}.log")

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def missing(self) -> list[tuple[str, str]]:
        """Tasks and arms without a finished run."""
        ended = {(run.task.id, run.arm) for run in self.runs() if _is_final(run)}
        rows = self.place.tasks.read_text().splitlines()
        wanted = ((json.loads(row)["id"], arm) for row in rows for arm in _labels())
        return [key for key in wanted if key not in ended]

    def ledger(self) -> Ledger:
        return Ledger(self.address or self.out / "ledger.db")

    def runs(self) -> list[Run]:
        batch = BatchFolder(self.out).read()
        if batch is None:
            return []
        with self.ledger() as ledger:
            return ledger.runs_of(batch.id)

    def predictions(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted((self.out / "predictions").glob("*.jsonl"))}

    def finish(self) -> None:
        """Run it until nothing is missing."""
        for _ in range(MOST_STARTS):
            if not self.running:
                if self.starts and not self.missing:
                    return
                self.start()
            assert self.process is not None
            self.process.wait(PATIENCE_S)
        raise AssertionError(f"not complete after {self.starts} starts: {self.log.read_text()[-3000:]}")


def _labels() -> list[str]:
    return [f"{arm}/{FIXER}" for arm in ARMS]


def _is_final(run: Run) -> bool:
    return run.finished is not None and run.outcome != "infrastructure"


@dataclass(frozen=True)
class Books:
    """What a batch came to, and what the stand-in knows of it."""

    runs: int
    infrastructure: int
    """Runs that ended because a part of the machinery had; each was tried again."""
    repeated_steps: int
    """Steps that began again because they had been cut off."""
    answered: int
    """Calls that reached the stand-in."""
    numbered: int
    """Of these, in the ledger with their number."""
    cut_off: int
    """Of these, in the ledger at what was held for them."""
    unsent: int
    """Receipts at what was held for a call that never got to the stand-in."""
    missing: int
    doubled: int
    problems: tuple[str, ...]


def examine(batch: Batch, answered: Mapping[str, Sequence[tuple[int, int]]], expected: Mapping[str, bytes]) -> Books:
    """Hold a complete batch against the stand-in's own record."""
    runs, problems = batch.runs(), list[str]()
    finals = Counter((run.task.id, run.arm) for run in runs if _is_final(run))
    problems += (f"{task} {arm} has {count} finished runs" for (task, arm), count in finals.items() if count != 1)
    problems += (f"{task} {arm} was never finished" for task, arm in batch.missing)
    problems += (f"run {run.id} of {run.task.id} {run.arm} was left open" for run in runs if run.finished is None)
    receipts: dict[str, list[Receipt]] = defaultdict(list)
    repeated = 0
    with batch.ledger() as ledger:
        for run in runs:
            steps = ledger.steps(run.id)
            begun = Counter(step.input_digest for step in steps if step.status == "started")
            done = Counter(step.input_digest for step in steps if step.status == "done")
            repeated += sum(count - 1 for count in begun.values())
            problems += (f"run {run.id} did a step {count} times" for count in done.values() if count > 1)
            receipts[run.task.id] += (receipt for step in steps for receipt in step.receipts)
    missing = doubled = numbered = cut_off = unsent = 0
    for task in sorted({*answered, *receipts}):
        told = {number for _, number in answered.get(task, ())}
        booked = Counter(one.usage.output_tokens for one in receipts[task] if not one.estimated)
        estimates = sum(one.estimated for one in receipts[task])
        without = len(told - booked.keys())
        problems += (f"{task}: number {number} was never given" for number in booked.keys() - told)
        numbered += len(told & booked.keys())
        doubled += sum(count - 1 for count in booked.values())
        cut_off += min(without, estimates)
        missing += max(0, without - estimates)
        unsent += max(0, estimates - without)
    problems += [f"{missing} calls are missing from the ledger"] if missing else []
    problems += [f"{doubled} calls are in the ledger twice"] if doubled else []
    problems += _audited(batch)
    problems += (
        [f"a command ended in a traceback, see {batch.log.name}"] if b"Traceback" in batch.log.read_bytes() else []
    )
    written = batch.predictions()
    differing = [name for name in expected if written.get(name) != expected[name]]
    problems += (f"{name} differs from that of the undisturbed batch" for name in differing)
    return Books(
        runs=len(runs),
        infrastructure=sum(run.outcome == "infrastructure" for run in runs),
        repeated_steps=repeated,
        answered=sum(map(len, answered.values())),
        numbered=numbered,
        cut_off=cut_off,
        unsent=unsent,
        missing=missing,
        doubled=doubled,
        problems=tuple(problems),
    )


def _audited(batch: Batch) -> list[str]:
    where = batch.settings or ("-c", f"ledger.path={batch.out / 'ledger.db'}")
    argv = [sys.executable, "-m", "scrout", "ledger", "audit", *where]
    done = subprocess.run(argv, cwd=batch.place.folder, env=batch.place.environment, capture_output=True, text=True)
    return [] if done.returncode == 0 else [f"audit: {line}" for line in (done.stdout + done.stderr).splitlines()]


class Killer:
    """Finds one process of a kind and kills it."""

    def __init__(self, batch: Batch, mark: str, seed: random.Random) -> None:
        self.batch = batch
        self.mark = mark
        self.random = seed

    def kill(self, kind: str) -> bool:
        """False: there is none of that kind right now."""
        if kind == "connection":
            return self._end_connection()
        find = {"runner": self._runner, "proxy": self._proxies, "agent": self._agents, "ray worker": self._workers}
        found = find[kind]()
        if not found:
            return False
        with suppress(ProcessLookupError):
            os.kill(self.random.choice(found), signal.SIGKILL)
            if kind == "runner":
                assert self.batch.process is not None
                self.batch.process.wait(PATIENCE_S)
            return True
        return False

    def _runner(self) -> list[int]:
        return [self.batch.process.pid] if self.batch.process is not None and self.batch.running else []

    def _proxies(self) -> list[int]:
        own = str(self.batch.place.folder / "run")
        return [pid for pid, argv in processes() if "scrout.models.proxy.process" in argv and argv[-1].startswith(own)]

    def _agents(self) -> list[int]:
        """A command of an attempt, what it started, and the sandbox around it."""
        ours = Path("/proc/self/ns/pid").readlink()
        inside: list[int] = []
        for pid, argv in processes():
            if self.mark in argv[-1] and argv[0] == "bash":
                inside += [pid, *_parent(pid), *_children(pid)]
        return [pid for pid in inside if _namespace(pid) not in ("", str(ours))]

    def _workers(self) -> list[int]:
        ours, title = str(Path("/proc/self/ns/net").readlink()), f"ray::{RayProcess.__name__}"
        return [pid for pid, argv in processes() if argv[0].startswith(title) and _namespace(pid, "net") == ours]

    def _end_connection(self) -> bool:
        import psycopg

        with psycopg.connect(self.batch.address, autocommit=True, application_name="killer") as db:
            found = [pid for (pid,) in db.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'scrout'")]
            if not found:
                return False
            ((ended,),) = db.execute("SELECT pg_terminate_backend(%s)", (self.random.choice(found),)).fetchall()
            return bool(ended)


def processes() -> Iterator[tuple[int, list[str]]]:
    """All that have a command line."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            argv = (folder / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
            if argv[0]:
                yield int(folder.name), argv


def _namespace(pid: int, kind: str = "pid") -> str:
    with suppress(OSError):
        return str(Path(f"/proc/{pid}/ns/{kind}").readlink())
    return ""


def _parent(pid: int) -> list[int]:
    with suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text()
        return [int(found) for found in re.findall(r"^PPid:\s*(\d+)", status, re.MULTILINE)]
    return []


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def disturb(batch: Batch, model: Counting, kinds: Mapping[str, int], most: int, seed: random.Random) -> Counter[str]:
    """Run a batch to its end, and kill something now and then, at most so often. What was killed, by kind."""
    killer, killed = Killer(batch, model.mark, seed), Counter[str]()
    while killed.total() < most:
        if not batch.running:
            if batch.starts and not batch.missing:
                return killed
            if batch.starts > most + MOST_STARTS:
                break  # and `finish` says why
            batch.start()
        _wait(batch, model, seed)
        wanted = seed.choices(list(kinds), list(kinds.values()))[0]
        deadline = time.monotonic() + 5
        while batch.running and time.monotonic() < deadline:
            if killer.kill(wanted):
                killed[wanted] += 1
                break
            time.sleep(0.005)
    batch.finish()
    return killed


def _wait(batch: Batch, model: Counting, seed: random.Random) -> None:
    """For a few more calls mostly, and then a moment; else for any time, which may be before the first."""
    calls = model.calls + seed.randint(1, 4)
    deadline = time.monotonic() + (5 if seed.random() < 0.8 else seed.uniform(0.2, 3))
    while batch.running and model.calls < calls and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(seed.uniform(0, 0.3))


def enter_namespace() -> None:
    """Start over in a network namespace with nothing but loopback."""
    if INSIDE in os.environ:
        return
    user = () if os.getuid() == 0 else ("--map-root-user",)
    shell = f'ip link set lo up && {INSIDE}=1 exec "$@"'
    os.execvp("unshare", ["unshare", "--net", *user, "sh", "-c", shell, "sh", sys.executable, *sys.argv])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scenes", default=",".join(SCENES))
    parser.add_argument("--kinds", default="", help="kill only these; default: all that a scene has")
    parser.add_argument("--tasks", type=int, default=TASKS, help="of a batch")
    parser.add_argument("--keep", type=Path, help="a folder to work in that stays; default: one that does not")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    enter_namespace()
    with tempfile.TemporaryDirectory(prefix="scrout-kill-", ignore_cleanup_errors=True) as name:
        kinds = args.kinds.split(",") if args.kinds else sorted({kind for scene in SCENES.values() for kind in scene})
        result = run(args.keep or Path(name), args.scenes.split(","), kinds, args.kills, args.tasks, args.seed)
    record(result, args.out)
    if result["problems"]:
        raise SystemExit(1)


def run(
    folder: Path, scenes: Sequence[str], kinds: Sequence[str], kills: int, tasks: int, number: int
) -> dict[str, object]:
    """All scenes, and what they came to."""
    seed, began = random.Random(number), time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    model = Counting(mark=f"{folder.name}-{os.getpid()}-{time.time_ns()}", seed=number)
    killed: dict[str, Counter[str]] = {}
    books: list[Books] = []
    problems: list[str] = []
    with ExitStack() as stack:
        endpoint = stack.enter_context(ScriptedEndpoint(model, keep=False))
        any_postgres = any("postgres" in scene for scene in scenes)
        address = stack.enter_context(postgres(folder / "pg")) if any_postgres else ""
        place = make_place(folder, endpoint.base_url, tasks, searcher=True)
        calm = Batch(place, folder / "calm")
        calm.finish()
        expected = calm.predictions()
        undisturbed = examine(calm, model.answered, expected)
        problems += (f"undisturbed: {problem}" for problem in undisturbed.problems)
        _tell("undisturbed", undisturbed, began)
        shares = sum(SHARES[scene] for scene in scenes)
        for scene in scenes:
            killed[scene] = Counter()
            share = round(kills * SHARES[scene] / shares)
            weights = {kind: weight for kind, weight in SCENES[scene].items() if kind in kinds}
            while True:
                model.afresh()
                out = folder / f"{scene}-{len(books)}"
                batch = Batch(place, out, address if "postgres" in scene else "", "ray" in scene)
                now = disturb(batch, model, weights, share - killed[scene].total(), seed)
                killed[scene] += now
                book = examine(batch, model.answered, expected)
                books.append(book)
                problems += (f"{out.name}: {problem}" for problem in book.problems)
                if book.repeated_steps > now.total() * AT_ONCE:
                    problems.append(f"{out.name}: {book.repeated_steps} steps repeated, more than were in flight")
                _tell(f"{out.name} {dict(killed[scene])}", book, began)
                if killed[scene].total() >= share:
                    break
                if not now:
                    raise SystemExit(f"{scene}: a whole batch ran and no {' or '.join(weights)} was found to kill")
    return _result(killed, books, tasks, problems, time.monotonic() - began)


def _tell(what: str, book: Books, began: float) -> None:
    print(f"{time.monotonic() - began:.0f} s  {what}  {book}", file=sys.stderr, flush=True)


def _result(
    killed: Mapping[str, Counter[str]], books: Sequence[Books], tasks: int, problems: Sequence[str], seconds: float
) -> dict[str, object]:
    def total(of: Callable[[Books], int]) -> int:
        return sum(map(of, books))

    return {
        "kills": sum(counts.total() for counts in killed.values()),
        "kills_by_kind": dict(sum(killed.values(), Counter[str]())),
        "kills_by_scene": {scene: dict(counts) for scene, counts in killed.items()},
        "batches": len(books),
        "tasks_in_arms": len(books) * tasks * len(ARMS),
        "runs": total(lambda book: book.runs),
        "runs_retried_as_infrastructure": total(lambda book: book.infrastructure),
        "steps_repeated": total(lambda book: book.repeated_steps),
        "calls_answered": total(lambda book: book.answered),
        "in_the_ledger_with_their_number": total(lambda book: book.numbered),
        "in_the_ledger_at_the_reserve": total(lambda book: book.cut_off),
        "missing": total(lambda book: book.missing),
        "doubled": total(lambda book: book.doubled),
        "held_but_never_sent": total(lambda book: book.unsent),
        "problems": list(problems),
        "seconds": round(seconds),
    }


if __name__ == "__main__":
    main()
