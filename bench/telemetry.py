"""What telemetry costs a run: the same task and the same replies, off, on, with content, and to a dead collector.

    python bench/telemetry.py [--rounds 20] [--turns 20] [--out bench/results/telemetry.json]

Each of the four is a process of its own, whose processor time is that of the run and of all that is made and sent in
it; collector and endpoint are further ones. They take turns within a round, and who goes first changes, so that
whatever else the machine does hits all alike. A ratio is the median over rounds of one side to `off` in the same round;
it includes the time until all is sent, save to the dead collector. What it costs when off is measured apart, a million
times: the seam that a step and a tool pass.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path

from record import record

from scrout import telemetry
from scrout.config.settings import Settings
from scrout.models.chat import ToolCall
from scrout.models.scripted import ScriptedEndpoint, ScriptedReply, ScriptedRequest
from scrout.money import Usage
from scrout.observer import SILENT, noted
from scrout.pipeline import open_kit, open_task, solve

FILES = {"cart.py": "def total(prices):\n    return sum(prices[1:])\n"}
USAGE = Usage(input_tokens=3_000, cache_read_tokens=1_000, output_tokens=150)
SIDES = ("off", "on", "content", "dead")
LOOPS = 1_000_000


def collect(port: Connection) -> None:
    """A collector that reads all and keeps nothing."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    port.send(server.server_address[1])
    server.serve_forever()


def answer(port: Connection, turns: int) -> None:
    """A model that looks around for a number of turns."""

    def reply(request: ScriptedRequest) -> ScriptedReply:
        messages = request.content["messages"]
        assert isinstance(messages, list)
        turn = sum(isinstance(one, dict) and one.get("role") == "tool" for one in messages)
        if turn >= turns:
            return ScriptedReply("Done.", usage=USAGE)
        call = ToolCall(f"c{turn}", "bash", json.dumps({"command": f"echo {turn}; cat cart.py"}))
        return ScriptedReply("Looking. " * 30, (call,), USAGE)

    with ScriptedEndpoint(reply, keep=False) as endpoint:
        port.send(endpoint.base_url)
        time.sleep(10**6)


@contextlib.contextmanager
def process(target: object, *args: object) -> Iterator[Connection]:
    """A process of its own, for the time of the block, and the way to it."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    child = spawn.Process(target=target, args=(theirs, *args), daemon=True)  # type: ignore[arg-type]
    child.start()
    try:
        yield ours
    finally:
        child.kill()
        child.join()


def settings_of(side: str, model: str, collector: str, dead: str) -> Settings:
    price = {"input": 1.0, "output": 5.0, "cache_read": 0.1}
    fixer = {"name": "toy", "kind": "agent", "model": "toy-1", "base_url": model, "price": price, "cap_calls": 500}
    told = {"enabled": side != "off", "content": side == "content", "endpoint": dead if side == "dead" else collector}
    return Settings.model_validate({"fixers": [fixer], "telemetry": told})


def work(pipe: Connection, repo: Path, settings: Settings, waits: bool) -> None:
    """One side: a run for each word that comes, and what it took in wall and processor seconds and in calls."""
    pipe.send("ready")
    while pipe.recv():
        task = open_task(repo, "total of cart.py leaves out the first price")
        with open_kit(task, settings) as kit:
            wall, cpu = time.perf_counter(), time.process_time()
            run = asyncio.run(solve(task, kit))
            if waits:
                telemetry.flush(20)
            pipe.send((time.perf_counter() - wall, time.process_time() - cpu, run.attempts[0].calls))
    started = time.perf_counter()
    telemetry.flush()
    pipe.send(time.perf_counter() - started)


def seam_ns() -> dict[str, float]:
    """What a step and a tool pass where nobody watches, beyond a loop that does nothing of it."""

    async def answered() -> str:
        return ""

    async def tools() -> tuple[float, float]:
        started = time.perf_counter()
        for _ in range(LOOPS):
            await answered()
        bare = time.perf_counter()
        for _ in range(LOOPS):
            await noted("bash", {}, answered())
        return bare - started, time.perf_counter() - bare

    started = time.perf_counter()
    for _ in range(LOOPS):
        with SILENT.step("fix", (), "", ()) as watched:
            watched.gave(None)  # type: ignore[arg-type]
    step = time.perf_counter() - started
    bare, with_seam = asyncio.run(tools())
    return {"step_ns": round(step / LOOPS * 1e9), "tool_ns": round((with_seam - bare) / LOOPS * 1e9)}


def imported_when_off() -> int:
    """Modules of OpenTelemetry that a run imports where it is off."""
    code = (
        "import sys, scrout.pipeline\nfrom scrout import telemetry\nfrom scrout.config.settings import Settings\n"
        "telemetry.require(Settings())\nprint(sum(name.startswith('opentelemetry') for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    wall: dict[str, list[float]] = {side: [] for side in SIDES}
    cpu: dict[str, list[float]] = {side: [] for side in SIDES}
    calls = 0
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name in ("DATA", "CACHE", "CONFIG"):
            os.environ[f"XDG_{name}_HOME"] = str(folder / name.lower())
        repo = folder / "shop"
        repo.mkdir()
        for name, text in FILES.items():
            (repo / name).write_text(text)
        identity = ("-c", "user.name=Bench", "-c", "user.email=bench@localhost")
        for command in (("init", "-q"), ("add", "--all"), (*identity, "commit", "-q", "-m", "base")):
            subprocess.run(["git", *command], cwd=repo, check=True)
        collector = f"http://127.0.0.1:{stack.enter_context(process(collect)).recv()}"
        model = stack.enter_context(process(answer, asked.turns)).recv()
        closed = stack.enter_context(socket.socket())
        closed.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{closed.getsockname()[1]}"
        sides = {}
        for side in SIDES:
            settings = settings_of(side, model, collector, dead)
            sides[side] = stack.enter_context(process(work, repo, settings, side in ("on", "content")))
            sides[side].recv()
        for number in range(-1, asked.rounds):  # the first is not counted: it makes what is made once
            for side in (*SIDES[number % 4 :], *SIDES[: number % 4]):
                sides[side].send(True)
                took, used, calls = sides[side].recv()
                if number >= 0:
                    wall[side].append(took)
                    cpu[side].append(used)
        sides["dead"].send(False)
        exit_s = sides["dead"].recv()
    result: dict[str, object] = {
        "rounds": asked.rounds,
        "calls_a_run": calls,
        "tools_a_run": asked.turns,
        "median_seconds": {side: round(statistics.median(wall[side]), 4) for side in SIDES},
        "median_cpu_seconds": {side: round(statistics.median(cpu[side]), 4) for side in SIDES},
        "wall_ratio_to_off": {side: _ratio(wall[side], wall["off"]) for side in SIDES[1:]},
        "cpu_ratio_to_off": {side: _ratio(cpu[side], cpu["off"]) for side in SIDES[1:]},
        "off": {**seam_ns(), "opentelemetry_modules_imported": imported_when_off()},
        "wait_at_the_end_with_a_dead_collector_seconds": round(exit_s, 2),
    }
    record(result, asked.out)


def _ratio(ours: list[float], off: list[float]) -> float:
    return round(statistics.median(one / other for one, other in zip(ours, off, strict=True)), 4)


if __name__ == "__main__":
    main()
