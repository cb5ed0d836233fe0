"""How far batches go on more machines, by simulation from the measured cost of each stage.

    python bench/scale.py [--postgres] [--out bench/results/scale.json] [--figure docs/figures/scale.svg]

One machine is simulated event by event: tasks in flight that wait for its cores, the meter's one process, the slots
that copy repositories, the ledger, and the model, which is only time. What our parts cost is read from bench/results;
what depends on the work (calls a task, the model's speed, the project's own commands) is assumed, and every assumption
stands in the result beside its value. A fleet is that machine many times, until something that all share is used up;
those limits are plain arithmetic.

With --postgres, the processor time of a server for a receipt is measured first, through `OpenRun.book`.
SCROUT_LEDGER_URL names it; it has to run on this machine, and the database has to be empty. Without, the figure of the
last result is used. Not simulated: machines that fail, networks, memory, providers' rate limits, and the core that the
meter shares with the others.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import multiprocessing
import os
import random
import sys
import tracemalloc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from html import escape
from pathlib import Path

from ledger import write_in_process
from record import record

from scrout.batch.jobs import BatchJob, JobResult, jobs_of
from scrout.batch.local_worker import MOST_OPENING
from scrout.batch.ray_worker import EACH
from scrout.batch.runner import Runner
from scrout.batch.tasks import TaskRow
from scrout.ledger.store import Ledger
from scrout.money import Budget, Decimal

RESULTS = Path(__file__).parent / "results"
DAY_S = 86_400
CONNECTIONS = 97
"""PostgreSQL's max_connections, less those that it keeps for its superuser."""
MILLION = 1_000_000
STEPS = 5
"""Scout, gate, route, fix, check: each is written when it begins and when it ends."""
ROOM = 0.7
"""The part of what a shared server can do that is planned with: beyond it waits grow faster than work."""


@dataclass(frozen=True)
class Figure:
    """A number and where it is from."""

    value: float
    unit: str
    source: str


@dataclass(frozen=True)
class Costs:
    """What our parts take, in seconds of one core unless the name says otherwise."""

    recon_cold_s: float
    recon_warm_s: float
    gate_s: float
    turn_s: float
    """Loop and sandbox, a short command included."""
    meter_s: float
    """Of a call, in the meter's one process."""
    copy_s: float
    """A commit's first workspace, 5,000 files."""
    diff_s: float
    check_s: float
    """Beside the project's tests."""
    write_s: float
    """One transaction of the ledger in a file."""


@dataclass(frozen=True)
class Load:
    """What a task is like. All of it is assumed."""

    calls: int = 30
    think_s: float = 8.0
    """Of the model, a call."""
    command_s: float = 0.5
    """Of a core, for what the agent runs in a turn: searches are nothing, tests are much."""
    tests_s: float = 20.0
    """Of a core, for the project's tests in gate and check."""
    new_commits: float = 0.5
    """The part of tasks whose commit this machine has not seen."""
    base_mb: float = 100.0
    """On disk, of a commit with its history."""
    trace_kb: float = 10.0
    """In the trajectory, a call."""
    ledger_kb: float = 40.0
    """In the ledger, a task."""


@dataclass(frozen=True)
class Machine:
    cores: int = 16
    disk_gb: float = 1000.0
    """For the cache of repositories."""
    memory_gb: float = 64.0

    @property
    def in_flight(self) -> int:
        """As `scrout batch run --ray` fills it."""
        return EACH * self.cores


@dataclass
class Station:
    """Servers with one queue, first come first served."""

    free_at: list[float]
    busy_s: float = 0.0

    def serve(self, now: float, seconds: float) -> float:
        """When it is done."""
        done = max(now, self.free_at[0]) + seconds
        heapq.heapreplace(self.free_at, done)
        self.busy_s += seconds
        return done


@dataclass(frozen=True)
class Outcome:
    """What a simulated machine did."""

    in_flight: int
    tasks_per_day: float
    seconds_per_task: float
    busy: Mapping[str, float]
    """The part of the time that each station's servers worked."""


def simulate(costs: Costs, load: Load, machine: Machine, in_flight: int, tasks: int, seed: int = 0) -> Outcome:
    """Run tasks through one machine; those of the beginning and the end are not counted."""
    dice = random.Random(seed)
    stations = {
        "cores": Station([0.0] * machine.cores),
        "meter": Station([0.0]),
        "opening": Station([0.0] * MOST_OPENING),
        "ledger": Station([0.0]),
    }

    def varied(mean: float) -> float:
        return dice.expovariate(1 / mean) if mean else 0.0

    def task() -> Iterator[tuple[str, float]]:
        is_new = dice.random() < load.new_commits
        if is_new:
            yield "opening", costs.copy_s
        yield "cores", costs.recon_cold_s if is_new else costs.recon_warm_s
        yield "cores", costs.gate_s + varied(load.tests_s / 4)
        for _ in range(load.calls):
            yield "meter", costs.meter_s
            yield "", varied(load.think_s)
            yield "ledger", costs.write_s
            yield "cores", costs.turn_s + varied(load.command_s)
        yield "cores", costs.diff_s + costs.check_s + varied(load.tests_s * 3 / 4)
        yield "ledger", costs.write_s * (2 + 2 * STEPS)

    waiting = [(0.0, number, 0.0, task()) for number in range(in_flight)]
    started, ended = in_flight, list[tuple[float, float]]()
    while waiting:
        now, number, began, steps = heapq.heappop(waiting)
        step = next(steps, None)
        if step is not None:
            where, seconds = step
            done = stations[where].serve(now, seconds) if where else now + seconds
            heapq.heappush(waiting, (done, number, began, steps))
            continue
        ended.append((now, now - began))
        if started < tasks:
            heapq.heappush(waiting, (now, started, now, task()))
            started += 1
    # Tasks that began together stay together for a while.
    steady = ended[2 * in_flight : tasks - in_flight]
    seconds = steady[-1][0] - steady[0][0]
    return Outcome(
        in_flight=in_flight,
        tasks_per_day=DAY_S * (len(steady) - 1) / seconds,
        seconds_per_task=sum(took for _, took in steady) / len(steady),
        busy={name: one.busy_s / len(one.free_at) / ended[-1][0] for name, one in stations.items()},
    )


def measured(postgres: Figure) -> dict[str, Figure]:
    """What is known of our parts."""
    return {
        "recon, commit not seen": _from("localize_timing", "s", 1, "seconds", "cold_median"),
        "recon, commit seen": _from("localize_timing", "s", 1, "seconds", "warm_median"),
        "gate of a short script": _from("demo", "s", 1, "by_stage_median_seconds", "gate"),
        "check of a small project": _from("demo", "s", 1, "by_stage_median_seconds", "check"),
        "agent's turn": _from("episodes", "s", 1e-3, "throughput", "sides", "scrout", "median_cpu_ms_a_turn"),
        "meter, a call": _from("proxy", "s", 1e-3, "meter_cpu_ms_per_call"),
        "copy of a commit, 5,000 files": _from("sandbox", "s", 1e-3, "workspace", "first_ms"),
        "diff of 5,000 files": _from("sandbox", "s", 1e-3, "workspace", "diff_median_ms"),
        "ledger in a file": _from("ledger", "receipts/s", 1, "one_process_64_writers_receipts_a_second", 0),
        "ledger in PostgreSQL, a receipt": postgres,
        "driver's memory, a job": driver_kb(),
    }


TARGETS = {"ledger": 5000.0}
"""Where a bench has no result yet: what it is held to."""


def _from(name: str, unit: str, factor: float, *path: str | int) -> Figure:
    where = f"bench/results/{name}.json: {' / '.join(map(str, path))}"
    file = RESULTS / f"{name}.json"
    if not file.exists():
        return Figure(TARGETS[name], unit, f"assumed, the target of bench/{name}.py: it has no result yet")
    value = json.loads(file.read_text(encoding="utf-8"))
    for key in path:
        value = value[key]
    return Figure(round(factor * value, 6), unit, where)


def driver_kb(jobs: int = 20_000) -> Figure:
    """What the process that hands out a batch keeps for each of its jobs, issue included."""

    class Nobody:
        async def run(self, job: BatchJob, known: str, say: object) -> JobResult:
            return JobResult("solved")

    tracemalloc.start()
    rows = [TaskRow(f"task-{number}", "x" * 2000 + str(number), "repo", "0" * 40) for number in range(jobs)]
    runner = Runner(jobs_of(rows, ("handoff",), ()), Nobody(), Budget(None, None), lambda job: Decimal(0), at_once=1)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert runner.progress.total == jobs
    return Figure(round(used / jobs / 1000, 2), "KB", f"measured here: {jobs} jobs with issues of 2 KB")


def postgres_s(url: str, processes: int = 4, each: int = 50) -> Figure:
    """What a receipt takes of a server's cores, booked by processes with 16 runs each."""
    if not url:
        last = RESULTS / "scale.json"
        if not last.exists():
            raise SystemExit("no server has been measured yet: pass --postgres")
        return Figure(**json.loads(last.read_text(encoding="utf-8"))["measured"]["ledger in PostgreSQL, a receipt"])
    import psycopg

    with psycopg.connect(url) as server:
        ((told,),) = server.execute("SELECT pg_read_file('postmaster.pid')").fetchall()
    with Ledger(url) as book:
        book.runs(1)  # makes the tables
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(processes)
    workers = [context.Process(target=write_in_process, args=(url, 16, each, together)) for _ in range(processes)]
    before = _ended_s(int(told.split()[0]))
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if any(worker.exitcode for worker in workers):
        raise SystemExit("a writer failed")
    used = _ended_s(int(told.split()[0])) - before
    booked = processes * 16 * each
    source = f"measured here: {booked} receipts by {processes} processes, runs and steps included"
    return Figure(round(used / booked, 6), "s", source)


def _ended_s(pid: int) -> float:
    """Processor time of a process's children that have ended: a server has one for each connection."""
    parts = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return (int(parts[13]) + int(parts[14])) / os.sysconf("SC_CLK_TCK")


def costs_of(found: Mapping[str, Figure]) -> Costs:
    return Costs(
        recon_cold_s=found["recon, commit not seen"].value,
        recon_warm_s=found["recon, commit seen"].value,
        gate_s=found["gate of a short script"].value,
        turn_s=found["agent's turn"].value,
        meter_s=found["meter, a call"].value,
        copy_s=found["copy of a commit, 5,000 files"].value,
        diff_s=found["diff of 5,000 files"].value,
        check_s=found["check of a small project"].value,
        write_s=1 / found["ledger in a file"].value,
    )


@dataclass(frozen=True)
class Limit:
    """Something that ends growth before cores do."""

    name: str
    tasks_per_day: float
    machines: float | None
    """At which all of them together reach it; None: each machine has its own."""
    why: str


def limits(found: Mapping[str, Figure], load: Load, machine: Machine, each_per_day: float) -> list[Limit]:
    """What machines share, and what each has one of; smallest first."""
    writes = load.calls + 2 + 2 * STEPS
    write_s = found["ledger in PostgreSQL, a receipt"].value
    jobs = machine.memory_gb * 1e6 / found["driver's memory, a job"].value
    opening_s = load.new_commits * found["copy of a commit, 5,000 files"].value
    meter_s = load.calls * found["meter, a call"].value
    disk = machine.disk_gb * 1000 / (load.new_commits * load.base_mb)

    def shared(name: str, tasks_per_day: float, why: str) -> Limit:
        return Limit(name, round(tasks_per_day), round(tasks_per_day / each_per_day, 1), why)

    def own(name: str, tasks_per_day: float, why: str) -> Limit:
        return Limit(name, round(tasks_per_day), None, why)

    every = [
        own("disk for commits", disk, f"tasks until {machine.disk_gb:g} GB are full: no commit is removed"),
        own("slots that copy commits", DAY_S * MOST_OPENING / opening_s, f"{MOST_OPENING} of them"),
        own("meter", DAY_S / meter_s, "one process"),
        shared("ledger in a file", each_per_day, "its locks serve one machine; a second is refused"),
        shared(
            "connections to PostgreSQL",
            CONNECTIONS / machine.cores * each_per_day,
            f"{CONNECTIONS} by default, and each core's process keeps one",
        ),
        shared(
            "writes to PostgreSQL",
            ROOM * DAY_S * machine.cores / (writes * write_s),
            f"{writes} transactions a task, and {ROOM:.0%} of a server with {machine.cores} cores",
        ),
        shared("one driver", jobs, f"jobs of a batch that fit in {machine.memory_gb:g} GB"),
    ]
    return sorted(every, key=lambda limit: limit.tasks_per_day)


def needs(
    found: Mapping[str, Figure], load: Load, machine: Machine, each_per_day: float, day: float
) -> dict[str, float]:
    """What so many tasks a day ask of everything."""
    a_second = day / DAY_S
    writes = load.calls + 2 + 2 * STEPS
    machines = math.ceil(day / each_per_day)
    return {
        "tasks_per_day": round(day),
        "machines": machines,
        "model_calls_per_second": round(a_second * load.calls, 1),
        "model_calls_at_once": round(a_second * load.calls * load.think_s),
        "ledger_transactions_per_second": round(a_second * writes, 1),
        "ledger_part_of_one_server": round(
            a_second * writes * found["ledger in PostgreSQL, a receipt"].value / machine.cores, 3
        ),
        "ledger_gb_per_day": round(day * load.ledger_kb / 1e6, 1),
        "ledger_connections": machines * machine.cores,
        "traces_gb_per_day": round(day * load.calls * load.trace_kb / 1e6, 1),
        "trace_appends_per_second": round(a_second * load.calls * 2),
        "commits_gb_per_day": round(day * load.new_commits * load.base_mb / 1e3),
        "driver_gb": round(day * found["driver's memory, a job"].value / 1e6, 1),
        "meter_busy": round(a_second * load.calls * found["meter, a call"].value / machines, 3),
    }


def figure(curves: Mapping[str, Sequence[tuple[float, float]]], stops: Sequence[Limit]) -> str:
    """Tasks a day against machines, both by powers of ten, and where growth stops."""
    width, height, left, right, top, bottom = 720, 460, 84, 24, 50, 50
    low, high, most = 1e3, 1e8, 1e3

    def x(machines: float) -> float:
        return left + (width - left - right) * math.log(machines) / math.log(most)

    def y(tasks: float) -> float:
        return height - bottom - (height - top - bottom) * math.log(tasks / low) / math.log(high / low)

    def text(at: tuple[float, float], words: str, anchor: str = "start", colour: str = "#333") -> str:
        place = f'x="{at[0]:.1f}" y="{at[1]:.1f}" font-size="11" text-anchor="{anchor}" fill="{colour}"'
        return f"<text {place}>{escape(words)}</text>"

    def line(points: Sequence[tuple[float, float]], colour: str, dashes: str = "") -> str:
        told = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in points)
        return f'<polyline points="{told}" fill="none" stroke="{colour}" stroke-dasharray="{dashes}"/>'

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        text((left, 20), "Tasks a day by machines of 16 cores"),
        text((left, 36), "lines: simulated; dashed: where something that all of them share is used up, as it is now"),
        line([(1, high), (1, low), (most, low)], "#333"),
    ]
    for power in range(4):
        parts.append(text((x(10**power), height - bottom + 16), f"{10**power:,}", "middle"))
    for power in range(3, 9):
        parts.append(text((left - 6, y(10**power) + 4), f"{10**power:,}", "end"))
    parts.append(text((width / 2, height - 12), "machines", "middle"))
    parts.append(line([(1, MILLION), (most, MILLION)], "#bbb"))
    parts.append(text((left + 6, y(MILLION) - 4), "a million", colour="#999"))
    shared = [limit for limit in stops if limit.machines is not None]
    for number, limit in enumerate(shared):
        parts.append(line([(1, limit.tasks_per_day), (most, limit.tasks_per_day)], "#d62728", "5 4"))
        # Some lie close to each other.
        at = left + 150 + (number % 2) * 200
        parts.append(text((at, y(limit.tasks_per_day) - 4), limit.name, colour="#d62728"))
    below, above = (8, 14, "start"), (-8, -6, "end")
    for (name, points), colour, (right_by, down_by, anchor) in zip(
        curves.items(), ("#1f77b4", "#2ca02c"), (below, above), strict=True
    ):
        parts.append(line(points, colour))
        at = x(points[2][0]) + right_by, y(points[2][1]) + down_by
        parts.append(text(at, name, anchor, colour))
    return "\n".join([*parts, "</svg>\n"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--postgres", action="store_true", help="Measure the server that SCROUT_LEDGER_URL names.")
    parser.add_argument("--tasks", type=int, default=2000, help="Simulated for each point.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--figure", type=Path)
    asked = parser.parse_args()
    found = measured(postgres_s(os.environ["SCROUT_LEDGER_URL"] if asked.postgres else ""))
    costs, machine = costs_of(found), Machine()
    loads = {"with the project's commands": Load(), "scrout alone": replace(Load(), command_s=0.0, tests_s=0.0)}
    in_flight = [16, 32, 64, machine.in_flight, 512]
    one: dict[str, list[Outcome]] = {}
    for name, load in loads.items():
        one[name] = [simulate(costs, load, machine, n, max(asked.tasks, 10 * n), asked.seed) for n in in_flight]
        print(f"{name}: {[round(outcome.tasks_per_day) for outcome in one[name]]} tasks a day", file=sys.stderr)
    usual = Load()
    each = one["with the project's commands"][in_flight.index(machine.in_flight)].tasks_per_day
    stops = limits(found, usual, machine, each)
    days = [each, 10 * each, MILLION]
    result: dict[str, object] = {
        "measured": {name: asdict(figure) for name, figure in found.items()},
        "assumed": {"load": asdict(usual), "machine": asdict(machine), "room": ROOM},
        "one_machine": {
            name: [
                {
                    "in_flight": outcome.in_flight,
                    "tasks_per_day": round(outcome.tasks_per_day),
                    "seconds_per_task": round(outcome.seconds_per_task, 1),
                    "busy": {station: round(part, 3) for station, part in outcome.busy.items()},
                }
                for outcome in outcomes
            ]
            for name, outcomes in one.items()
        },
        "limits": [asdict(limit) for limit in stops],
        "needs": [needs(found, usual, machine, each, day) for day in days],
    }
    if asked.figure:
        ends = {name: outcomes[in_flight.index(machine.in_flight)].tasks_per_day for name, outcomes in one.items()}
        curves = {name: [(m, m * rate) for m in (1, 10, 100, 1000)] for name, rate in ends.items()}
        asked.figure.write_text(figure(curves, stops), encoding="utf-8")
    record(result, asked.out)


if __name__ == "__main__":
    main()
