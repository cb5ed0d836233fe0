"""What an episode costs besides the model: per turn, and with 64 of them at once beside mini-SWE-agent's batch runner.

    python bench/episodes.py [--mini PYTHON] [--out bench/results/episodes.json]

The model is bench/episodes_endpoint.py, a process of its own that answers at once. PYTHON is an interpreter with
mini-SWE-agent 2.4.6 and litellm 1.105.0; without it the comparison is left out.

Overhead: of each turn the time between an answer and the next request, less what the command took. The latter is taken
twice: in the sandbox (what is left is our loop) and bare (what is left is loop and sandbox).

Throughput: both sides run the same commands in the same number of turns, one after the other in every round, the first
one changing. The interval is that of the median: the smallest and the largest of n rounds, with confidence 1 - 2^(1-n).

Targets: under 15 ms a turn; at least 3 times the turns a second.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import IO
from urllib.request import urlopen

from record import record

import scrout
from scrout.config.settings import ScoutSettings, SearcherSettings, Settings
from scrout.money import Price
from scrout.pipeline import open_task
from scrout.records import Scouting
from scrout.sandbox.probe import require_tier
from scrout.sandbox.task_sandbox import TaskSandbox, open_task_sandbox, shell_argv
from scrout.sandbox.tier import Command, Completed, Tier, WarmSandbox
from scrout.scout.episode import episode
from scrout.task import Task

HERE = Path(__file__).parent
EXAMPLE = Path(scrout.__file__).parent / "example"
GREP = "grep -rn best_before --include=*.py . | head"
COMMANDS = {"grep through a pipe": GREP, "8,000 characters": "seq 2000"}
HANDOFF = "<files>\nlarder/expiry.py\n</files>\n<notes>\nThe last day does not count.\n</notes>\nSTOP"
SUBMISSION = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
MOST_TURNS = 40
PR_SET_CHILD_SUBREAPER = 36


@dataclass
class TimedTier:
    """A tier that keeps how long each command took."""

    inner: Tier
    seconds: list[float] = field(default_factory=list)

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    async def run(self, command: Command) -> Completed:
        return await self.time(self.inner.run(command))

    def standing(self, command: Command) -> TimedStanding | None:
        inner = self.inner.standing(command)
        return TimedStanding(inner, self) if inner else None

    async def time(self, running: Coroutine[None, None, Completed]) -> Completed:
        began = time.monotonic()
        try:
            return await running
        finally:
            self.seconds.append(time.monotonic() - began)


@dataclass(frozen=True)
class TimedStanding:
    inner: WarmSandbox
    tier: TimedTier

    async def shell(self, text: str, timeout_s: float) -> Completed:
        return await self.tier.time(self.inner.shell(text, timeout_s))

    async def close(self) -> None:
        await self.inner.close()


@dataclass(frozen=True)
class Endpoint:
    base_url: str

    def times(self) -> list[tuple[float, float]]:
        """When each request since the last question had arrived, and when its answer was written."""
        with urlopen(f"{self.base_url.removesuffix('/v1')}/times") as answer:
            return [(arrived, sent) for arrived, sent in json.load(answer)]


@contextmanager
def serving(command: str, turns: int) -> Iterator[Endpoint]:
    script = {"commands": [command] * turns, "handoff": [HANDOFF], "submission": [SUBMISSION]}
    with _process([sys.executable, str(HERE / "episodes_endpoint.py")]) as (send, receive):
        send(script)
        yield Endpoint(receive())


@contextmanager
def _process(argv: list[str]) -> Iterator[tuple[Callable[[object], None], Callable[[], str]]]:
    """A process that is sent JSON lines and answers with lines; it ends with its input."""
    pipe = subprocess.PIPE
    with tempfile.TemporaryFile("w+") as talk, subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=talk) as process:

        def send(document: object) -> None:
            assert process.stdin is not None
            process.stdin.write(json.dumps(document).encode() + b"\n")
            process.stdin.flush()

        def receive() -> str:
            assert process.stdout is not None
            if line := process.stdout.readline():
                return line.decode().strip()
            raise SystemExit(f"{argv[-1]} ended early:\n{_end_of(talk)}")

        yield send, receive
        if process.stdin is not None:
            process.stdin.close()


def _end_of(talk: IO[str]) -> str:
    talk.seek(0)
    return talk.read()[-3000:]


def searcher(endpoint: Endpoint) -> ScoutSettings:
    """One tool and no shortlist, as mini-SWE-agent has it."""
    return ScoutSettings(
        searcher="model",
        model=SearcherSettings(
            model="stand-in",
            base_url=endpoint.base_url,
            price=Price(input=Decimal(1), output=Decimal(4)),
            cap_usd=Decimal(100),
            tools=("bash",),
            shortlist=False,
            turns=MOST_TURNS + 10,
        ),
    )


async def one_episode(task: Task, task_sandbox: TaskSandbox, endpoint: Endpoint) -> Scouting:
    done = await episode(task, task_sandbox, searcher(endpoint), lambda words: None, lambda receipt: None)
    if done.stop != "finished" or done.handoff.kind != "spontaneous":
        raise SystemExit(f"an episode ended with {done.stop}: {done.detail}")
    return done


def overhead(task: Task, tier: Tier, command: str, rounds: int) -> dict[str, object]:
    """What a turn takes beyond model and command, in ms."""
    loop, whole, sandboxed, bare, cpu = (list[float]() for _ in range(5))
    with serving(command, MOST_TURNS) as endpoint:
        for number in range(rounds + 1):
            timed = TimedTier(tier)
            with open_task_sandbox(task, timed, Settings()) as task_sandbox:
                timed.seconds.clear()
                used = time.process_time()
                asyncio.run(one_episode(task, task_sandbox, endpoint))
                used = time.process_time() - used
            times, commands = endpoint.times(), timed.seconds[:MOST_TURNS]
            assert len(times) == MOST_TURNS + 1
            if number == 0:  # imports and caches
                continue
            bare += [_bare(command, task.repo) for _ in commands]
            sandboxed += commands
            cpu.append(used / len(times))
            for (_, sent), (arrived, _), inside in zip(times, times[1:], commands, strict=False):
                loop.append(arrived - sent - inside)
                whole.append(arrived - sent)
    usual = statistics.median(bare)
    return {
        "turns": len(loop),
        "loop_ms": _spread(loop),
        "our_process_cpu_ms_median": round(1000 * statistics.median(cpu), 2),
        "loop_and_sandbox_ms": _spread([seconds - usual for seconds in whole]),
        "command_in_sandbox_ms": _spread(sandboxed),
        "command_bare_ms": _spread(bare),
    }


def _bare(command: str, folder: Path) -> float:
    began = time.monotonic()
    subprocess.run(shell_argv(command), cwd=folder, check=True, stdout=subprocess.PIPE)
    return time.monotonic() - began


def _spread(seconds: Sequence[float]) -> dict[str, float]:
    return {
        "median": round(1000 * statistics.median(seconds), 2),
        "p95": round(1000 * statistics.quantiles(seconds, n=20)[-1], 2),
    }


@dataclass(frozen=True)
class Batch:
    """What one side did in one round."""

    seconds: float
    cpu_seconds: float
    turns: int

    @property
    def turns_per_second(self) -> float:
        return self.turns / self.seconds


def ours(task: Task, task_sandbox: TaskSandbox, endpoint: Endpoint, episodes: int) -> Batch:
    async def batch() -> list[Scouting]:
        return await asyncio.gather(*(one_episode(task, task_sandbox, endpoint) for _ in range(episodes)))

    began, used = time.monotonic(), _cpu_seconds()
    done = asyncio.run(batch())
    return Batch(time.monotonic() - began, _cpu_seconds() - used, sum(scouting.turns for scouting in done))


def _cpu_seconds() -> float:
    """Of this process and all that it started. bwrap does not wait for its child: such orphans are ours to wait for."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def throughput(task: Task, tier: Tier, mini: str, episodes: int, turns: int, rounds: int) -> dict[str, object]:
    """Turns a second of both, side by side."""
    bwrap = {"environment_class": "bubblewrap", "executable": _bwrap()}
    with (
        serving(GREP, turns - 1) as endpoint,
        _process([mini, str(HERE / "episodes_mini.py")]) as (send, receive),
        open_task_sandbox(task, tier, Settings()) as task_sandbox,
    ):
        send({"repo": str(task.repo), "base_url": endpoint.base_url, "issue": task.text})

        def theirs(environment: dict[str, str], count: int) -> Batch:
            send({"environment": environment, "episodes": count})
            return Batch(**json.loads(receive()))

        sides: dict[str, Callable[[int], Batch]] = {
            "scrout": lambda count: ours(task, task_sandbox, endpoint, count),
            "mini, local": lambda count: theirs({"environment_class": "local"}, count),
            "mini, bubblewrap": lambda count: theirs(bwrap, count),
        }
        batches: dict[str, list[Batch]] = {name: [] for name in sides}
        for number in range(rounds + 1):
            order = list(sides) if number % 2 else list(reversed(sides))
            for name in order:
                batch = sides[name](episodes if number else 2)  # the first round warms both up
                endpoint.times()
                if number:
                    batches[name].append(batch)
                    print(f"{name}: {batch.turns_per_second:.1f} turns/s", file=sys.stderr)
    assert len({batch.turns for side in batches.values() for batch in side}) == 1
    return {
        "episodes": episodes,
        "turns_each": turns,
        "rounds": rounds,
        "isolation": {
            "scrout": f"{tier.name}: each episode in a workspace and, without network, a sandbox of its own",
            "mini, local": "none: commands run as the caller, in one folder for all",
            "mini, bubblewrap": "its own bubblewrap arguments: network and environment open, one folder for all",
        },
        "sides": {name: _figures(side) for name, side in batches.items()},
        "ratio": {name: _ratio(batches["scrout"], side) for name, side in batches.items() if name != "scrout"},
    }


def _bwrap() -> str:
    from scrout.sandbox.tiers.bubblewrap import find_program

    return find_program() or "bwrap"


def _figures(side: Sequence[Batch]) -> dict[str, object]:
    return {
        "turns_per_second": [round(batch.turns_per_second, 1) for batch in side],
        "median_turns_per_second": round(statistics.median(batch.turns_per_second for batch in side), 1),
        "median_cpu_ms_a_turn": round(statistics.median(1000 * batch.cpu_seconds / batch.turns for batch in side), 1),
    }


def _ratio(mine: Sequence[Batch], theirs: Sequence[Batch]) -> dict[str, object]:
    ratios = [a.turns_per_second / b.turns_per_second for a, b in zip(mine, theirs, strict=True)]
    return {
        "median": round(statistics.median(ratios), 2),
        "interval": [round(min(ratios), 2), round(max(ratios), 2)],
        "confidence": round(1 - 2 ** (1 - len(ratios)), 3),
    }


@contextmanager
def example() -> Iterator[Task]:
    """The bundled example as a task; ledger, traces and caches are in a folder that goes with it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ |= {f"XDG_{kind}_HOME": str(folder / kind) for kind in ("CACHE", "DATA", "CONFIG")}
        # What the sandbox's own user sees of the repository is a view; the peers read it as it is.
        repo = shutil.copytree(EXAMPLE / "larder", folder / "larder", ignore=shutil.ignore_patterns("__pycache__"))
        for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "base"]):
            identity = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"]
            subprocess.run(["git", *identity, *arguments], cwd=repo, check=True)
        yield open_task(repo, (EXAMPLE / "issue.md").read_text(encoding="utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mini", metavar="PYTHON", help="an interpreter that has mini-SWE-agent")
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with example() as task:
        tier = require_tier(Settings().sandbox)
        result: dict[str, object] = {
            "sandbox": tier.name,
            "overhead": {name: overhead(task, tier, command, asked.rounds) for name, command in COMMANDS.items()},
            "overhead_target_ms": 15,
        }
        if asked.mini:
            result |= {
                "throughput": throughput(task, tier, asked.mini, asked.episodes, asked.turns, asked.rounds),
                "throughput_target_ratio": 3,
                "mini_versions": _versions(asked.mini),
            }
        result["load_1_min"] = round(os.getloadavg()[0], 2)
    record(result, asked.out)


def _versions(python: str) -> dict[str, str]:
    ask = "import json; from importlib.metadata import version as v; print(json.dumps({n: v(n) for n in %r}))"
    names = ["mini-swe-agent", "litellm", "openai"]
    done = subprocess.run([python, "-c", ask % names], check=True, stdout=subprocess.PIPE)
    return dict(json.loads(done.stdout))


if __name__ == "__main__":
    main()
