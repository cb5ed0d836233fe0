"""What the meter adds to a call: the same traffic to the same stand-in, directly and through the meter, in one run.

    python bench/proxy.py [--rounds 8] [--calls 384] [--think-s 1.0] [--out bench/results/proxy.json]

64 callers, each on a connection of its own, take plain and streamed calls of three protocols in turn. A call says how
long the stand-in shall think, which is spread around --think-s, and its latency is what it took beyond that: until the
first byte of the answer, and until the last. Callers begin at different times within --think-s. Rounds with and without
the meter alternate, and so does which of a pair goes first, so that whatever else the machine does hits both alike.
What the meter adds is the difference of the two sides' quantiles. Throughput is measured apart, with no thinking: there
everything waits for a core, and stand-in, callers and meter share those of one machine. The processor time of the
meter's process depends less on what else runs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import numpy as np
from record import record

from scrout.models.proxy.caps import Account
from scrout.models.proxy.client import open_proxy_client
from scrout.models.scripted import Hang, ScriptedEndpoint, ScriptedReply, ScriptedRequest
from scrout.money import Price, Receipt, Usage

MODEL = "scripted"
CONCURRENT = 64
PROMPT_CHARS = 16_000
"""About what an agent sends after a few turns."""
REPLY = "The condition in the loop lets the last item pass. " * 12
USAGE = Usage(input_tokens=3_000, cache_read_tokens=1_000, output_tokens=150)
PRICE = Price(input=Decimal(1), output=Decimal(5), cache_read=Decimal("0.1"))
THINK = re.compile(r"think ([0-9.]+) s")

Side = Literal["direct", "metered"]
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[], Awaitable[Connection]]


@dataclass(frozen=True)
class Call:
    """One request."""

    kind: str
    """Protocol, and whether it is streamed."""
    think_s: float
    content: bytes
    """As it goes over the wire."""


@dataclass(frozen=True)
class Timing:
    kind: str
    first_s: float
    """Until the first byte of the answer, thinking left out."""
    last_s: float


def reply(request: ScriptedRequest) -> ScriptedReply:
    told = THINK.search(request.body)
    think_s = float(told[1]) if told else 0.0
    return ScriptedReply(text=REPLY, usage=USAGE, fault=Hang(think_s) if think_s else None)


def serve() -> None:
    """The stand-in, in a process of its own until its input ends."""
    with ScriptedEndpoint(reply, keep=False) as endpoint:
        print(endpoint.base_url, flush=True)
        sys.stdin.read()


@contextmanager
def stand_in() -> Iterator[str]:
    """Its address, up to and with /v1."""
    with subprocess.Popen(
        [sys.executable, __file__, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


@asynccontextmanager
async def open_account(base_url: str, book: Callable[[Receipt], None]) -> AsyncIterator[Connect]:
    """A way to the stand-in that passes the meter."""
    with tempfile.TemporaryDirectory() as folder:
        account = Account(
            fixer="bench",
            model=MODEL,
            base_url=base_url,
            key="sk-bench",
            price=PRICE,
            cap_usd=Decimal(1_000_000),
            cap_calls=10_000_000,
            trajectory=str(Path(folder) / "trajectory.jsonl"),
        )
        async with open_proxy_client(account, book) as proxy_endpoint:
            yield lambda: asyncio.open_unix_connection(str(proxy_endpoint.socket))


def calls(count: int, think_s: float, seed: int) -> list[Call]:
    """Six kinds in turn. Times to think differ, so that answers do not come in waves."""
    probability = random.Random(seed)
    kinds = [(path, streamed) for path in ("chat/completions", "responses", "messages") for streamed in (False, True)]
    return [_call(*kinds[number % len(kinds)], probability.uniform(0.5, 1.5) * think_s) for number in range(count)]


def _call(path: str, streamed: bool, think_s: float) -> Call:
    prompt = f"think {think_s:.4f} s. " + "def total(items): return sum(item.price for item in items)\n" * 400
    message = {"role": "user", "content": prompt[:PROMPT_CHARS]}
    body: dict[str, object] = {"model": MODEL, "stream": streamed}
    match path:
        case "responses":
            body |= {"input": [message], "max_output_tokens": 4096}
        case "messages":
            body |= {"messages": [message], "max_tokens": 4096}
        case _:
            body |= {"messages": [message], "max_tokens": 4096}
    content = json.dumps(body).encode()
    head = f"POST /v1/{path} HTTP/1.1\r\nhost: stand-in\r\ncontent-type: application/json\r\ncontent-length: "
    kind = f"{path.partition('/')[0]}, {'streamed' if streamed else 'plain'}"
    return Call(kind, float(f"{think_s:.4f}"), f"{head}{len(content)}\r\n\r\n".encode() + content)


async def exchange(connection: Connection, call: Call) -> Timing:
    """One call on a connection that stays open."""
    reader, writer = connection
    started = time.perf_counter()
    writer.write(call.content)
    head = await reader.readuntil(b"\r\n\r\n")
    first_s = time.perf_counter() - started
    lines = head.decode("latin-1").lower().split("\r\n")
    if " 200 " not in lines[0]:
        raise RuntimeError(f"{call.kind}: {lines[0]}")
    headers = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
    if "content-length" in headers:
        await reader.readexactly(int(headers["content-length"]))
    else:
        await _drain(reader)
    return Timing(call.kind, first_s - call.think_s, time.perf_counter() - started - call.think_s)


async def _drain(reader: asyncio.StreamReader) -> None:
    """To the end of an answer in chunks."""
    size = -1
    while size:
        size = int(await reader.readline(), 16)
        await reader.readexactly(size + len("\r\n"))


async def traffic(connect: Connect, work: Sequence[Call], spread_s: float = 0.0) -> tuple[list[Timing], float]:
    """Every call's timing, and how long all took. CONCURRENT callers share the work, and begin at some time within
    `spread_s`: agents do not all start in the same instant."""
    left = iter(work)
    timings: list[Timing] = []

    async def caller(connection: Connection) -> None:
        await asyncio.sleep(random.random() * spread_s)
        for call in left:
            timings.append(await exchange(connection, call))

    connections = [await connect() for _ in range(CONCURRENT)]
    started = time.perf_counter()
    try:
        await asyncio.gather(*(caller(connection) for connection in connections))
        return timings, time.perf_counter() - started
    finally:
        for _, writer in connections:
            writer.close()


async def cpu_s(connect: Connect) -> float:
    """Processor time so far of the process at the other end of a unix socket."""
    _, writer = await connect()
    credentials = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    writer.close()
    pid, _, _ = struct.unpack("3i", credentials)
    return _cpu_s(pid)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def rounds(base_url: str, options: argparse.Namespace) -> dict[str, object]:
    address = urlsplit(base_url)
    receipts: list[Receipt] = []
    latency: dict[Side, list[Timing]] = {"direct": [], "metered": []}
    rates: dict[Side, list[float]] = {"direct": [], "metered": []}
    async with open_account(base_url, receipts.append) as through_meter:
        ways: dict[Side, Connect] = {
            "direct": lambda: asyncio.open_connection(address.hostname, address.port),
            "metered": through_meter,
        }
        for connect in ways.values():
            await traffic(connect, calls(CONCURRENT * 2, 0.0, seed=0))
        before_s = await cpu_s(through_meter)
        sides: list[Side] = ["direct", "metered"]
        for number in range(options.rounds):
            for side in sides if number % 2 else reversed(sides):
                work = calls(options.calls, options.think_s, seed=number)
                timings, _ = await traffic(ways[side], work, spread_s=options.think_s)
                latency[side] += timings
                _, seconds = await traffic(ways[side], calls(options.calls, 0.0, seed=number))
                rates[side].append(options.calls / seconds)
        used_s = await cpu_s(through_meter) - before_s
    expected = CONCURRENT * 2 + options.rounds * options.calls * 2
    if len(receipts) != expected or any(receipt.cost_usd != PRICE.cost(USAGE) for receipt in receipts):
        raise RuntimeError(f"{len(receipts)} receipts for {expected} calls, or one of a wrong amount")
    each_ms = round(1000 * used_s / (options.rounds * options.calls * 2), 3)
    return {"receipts": len(receipts), "meter_cpu_ms_per_call": each_ms, **report(latency, rates)}


def report(latency: dict[Side, list[Timing]], rates: dict[Side, list[float]]) -> dict[str, object]:
    """Quantiles in milliseconds, of all calls and of each kind; throughputs as the rounds' medians."""
    kinds = ["all", *sorted({timing.kind for timing in latency["direct"]})]
    return {
        "latency_ms": {kind: _compared(latency, kind) for kind in kinds},
        "calls_per_second": {side: round(float(np.median(rates[side])), 1) for side in rates},
    }


def _compared(latency: dict[Side, list[Timing]], kind: str) -> dict[str, dict[str, float]]:
    table: dict[str, dict[str, float]] = {"direct": {}, "metered": {}, "added": {}}
    for side, timings in latency.items():
        chosen = [timing for timing in timings if kind in ("all", timing.kind)]
        for edge, values in (("first", [one.first_s for one in chosen]), ("last", [one.last_s for one in chosen])):
            for share in (50, 99):
                table[side][f"{edge} byte p{share}"] = round(1000 * float(np.percentile(values, share)), 3)
    for key, value in table["metered"].items():
        table["added"][key] = round(value - table["direct"][key], 3)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--calls", type=int, default=384, help="in each round")
    parser.add_argument("--think-s", type=float, default=1.0)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    with stand_in() as base_url:
        found = asyncio.run(rounds(base_url, options))
    setting = {"concurrent": CONCURRENT, "rounds": options.rounds, "calls_a_round": options.calls}
    record({**setting, "think_s": options.think_s, "prompt_chars": PROMPT_CHARS, **found}, options.out)


if __name__ == "__main__":
    main()
