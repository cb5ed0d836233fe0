"""Would aiohttp do for the two HTTP sides of the proxy? Processor time a call of each, ours and aiohttp's, in one run.

    pip install aiohttp; python bench/proxy_sides.py [--calls 1200] [--rounds 5] [--out FILE]

The client side sends the calls of bench/proxy.py, plain and streamed, to the stand-in, one after the other on one
connection, and reads each answer to its end. The server side reads the same calls from a unix socket and gives a fixed
answer; the peer that sends them is the same for both and its time counts, so the difference of the two is the figure.
Both do less with aiohttp than the proxy needs: nothing is bounded, redacted or written down.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
from aiohttp import web
from proxy import Call, _call, exchange, stand_in
from record import record

from scrout.models.proxy import http
from scrout.models.proxy.upstream import Upstream

CALLS = [
    _call(path, streamed, 0.0) for path in ("chat/completions", "responses", "messages") for streamed in (False, True)
]
HEADERS = {"content-type": "application/json", "authorization": "Bearer sk-bench"}
ANSWER = b'{"choices": []}' * 40

One = Callable[[Call], Awaitable[object]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with stand_in() as base_url:
        client = asyncio.run(client_side(base_url, options.calls, options.rounds))
    with tempfile.TemporaryDirectory() as folder:
        server = asyncio.run(server_side(Path(folder), options.calls, options.rounds))
    result = {"aiohttp": aiohttp.__version__, "calls": options.calls, "rounds": options.rounds}
    record({**result, "client_cpu_ms_per_call": client, "server_cpu_ms_per_call": server}, options.out)


async def client_side(base_url: str, calls: int, rounds: int) -> dict[str, float]:
    upstream, root = Upstream(base_url), base_url.removesuffix("/v1")

    async def ours(call: Call) -> None:
        path, body = _parts(call)
        await (await upstream.ask("POST", path, HEADERS, body)).rest()

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1), auto_decompress=False) as session:

        async def theirs(call: Call) -> None:
            path, body = _parts(call)
            async with session.post(root + path, data=body, headers=HEADERS) as answer:
                await answer.read()

        return await _compared({"ours": ours, "aiohttp": theirs}, calls, rounds)


async def server_side(folder: Path, calls: int, rounds: int) -> dict[str, float]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            while True:
                await http.read(reader, writer)
                writer.write(http.whole(200, ANSWER))
                await writer.drain()
        writer.close()

    async def handle(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=ANSWER, content_type="application/json")

    app = web.Application(client_max_size=http.MAX_BODY_BYTES)
    app.router.add_post("/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.UnixSite(runner, str(folder / "aiohttp")).start()
    server = await asyncio.start_unix_server(serve, str(folder / "ours"), limit=2**20)
    try:
        sides: dict[str, One] = {}
        for name in ("ours", "aiohttp"):
            connection = await asyncio.open_unix_connection(str(folder / name))
            sides[name] = lambda call, connection=connection: exchange(connection, call)
        return await _compared(sides, calls, rounds)
    finally:
        server.close()
        await runner.cleanup()


async def _compared(sides: dict[str, One], calls: int, rounds: int) -> dict[str, float]:
    """Median of the rounds, in milliseconds."""
    measured: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, one in sides.items():
            before = time.process_time()
            for number in range(calls):
                await one(CALLS[number % len(CALLS)])
            measured[name].append((time.process_time() - before) / calls * 1000)
    return {name: round(statistics.median(values), 3) for name, values in measured.items()}


def _parts(call: Call) -> tuple[str, bytes]:
    head, _, body = call.content.partition(b"\r\n\r\n")
    return head.split(b" ")[1].decode(), body


if __name__ == "__main__":
    main()
