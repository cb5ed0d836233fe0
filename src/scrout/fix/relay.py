"""Joins a loopback port to a unix socket while a program runs: `python relay.py SOCKET PORT -- PROGRAM ARGUMENT...`.

It runs inside the sandbox, on any Python from 3.8 on, so that an agent without a network reaches the meter outside. It
does not inspect the data and does not limit the agent: any process that can reach the socket may use it. It does not
forward signals either, because a sandbox is ended as a whole.
"""

from __future__ import annotations

import asyncio
import os
import sys

CHUNK_BYTES = 65536
BACKLOG = 512
BROKEN, NOT_FOUND = 125, 127
"""Exit codes if the port cannot be opened or the program cannot be started. Other codes are the program's own."""


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy data immediately, then half-close: the other direction may have more data."""
    while True:
        chunk = await reader.read(CHUNK_BYTES)
        if not chunk:
            break
        writer.write(chunk)
        await writer.drain()
    writer.write_eof()


async def join(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection, until both directions have ended or one is broken."""
    try:
        inner, outer = await asyncio.open_unix_connection(path)
    except OSError:
        writer.close()
        return
    ways = [asyncio.ensure_future(copy(reader, outer)), asyncio.ensure_future(copy(inner, writer))]
    try:
        await asyncio.gather(*ways)
    except OSError:
        pass  # the client or the socket is gone, so the error has no recipient
    finally:
        for way in ways:
            way.cancel()
        outer.close()
        writer.close()


async def relay(path: str, port: int, argv: list[str]) -> int:
    """Listen, run the program, and return its exit code. Drops connections that are still open when it ends."""
    try:
        await asyncio.start_server(lambda *ends: join(path, *ends), "127.0.0.1", port, backlog=BACKLOG)
    except OSError as error:
        print(f"relay: port {port} cannot be had: {error}", file=sys.stderr, flush=True)
        return BROKEN
    try:
        program = await asyncio.create_subprocess_exec(*argv)
    except OSError as error:
        print(f"relay: {argv[0]} cannot be started: {error}", file=sys.stderr, flush=True)
        return NOT_FOUND
    code = await program.wait()
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    if len(sys.argv) < 5 or sys.argv[3] != "--":
        sys.exit("usage: relay.py SOCKET PORT -- PROGRAM ARGUMENT...")
    # Not asyncio.run, which would wait for open connections and report each.
    os._exit(asyncio.new_event_loop().run_until_complete(relay(sys.argv[1], int(sys.argv[2]), sys.argv[4:])))
