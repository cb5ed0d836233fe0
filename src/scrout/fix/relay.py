"""Joins a loopback port to a unix socket while a program runs: `python relay.py SOCKET PORT -- PROGRAM ARGUMENT...`.

It runs inside the sandbox, on any Python from 3.8 on, so that an agent without a network reaches the meter outside. It
looks at nothing that passes, and is no part of what bounds the agent: whoever can reach the socket may use it. Nor
does it pass on a signal to the program: a sandbox is ended whole.
"""

from __future__ import annotations

import asyncio
import os
import sys

CHUNK_BYTES = 65536
BACKLOG = 512
BROKEN, NOT_FOUND = 125, 127
"""Exit codes: the port cannot be had, the program cannot be started. Any other is the program's own."""


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on what comes as it comes, and its end: the other way may have more to say."""
    while True:
        chunk = await reader.read(CHUNK_BYTES)
        if not chunk:
            break
        writer.write(chunk)
        await writer.drain()
    writer.write_eof()


async def join(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection, until both ways have ended or either is broken."""
    try:
        inner, outer = await asyncio.open_unix_connection(path)
    except OSError:
        writer.close()
        return
    ways = [asyncio.ensure_future(copy(reader, outer)), asyncio.ensure_future(copy(inner, writer))]
    try:
        await asyncio.gather(*ways)
    except OSError:
        pass  # the client or the socket is gone; there is nobody to tell
    finally:
        for way in ways:
            way.cancel()
        outer.close()
        writer.close()


async def relay(path: str, port: int, argv: list[str]) -> int:
    """Listen, run the program, and give its exit code. What still flows when it ends is dropped."""
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
    # Not asyncio.run, which would wait for the connections that are still open, and complain of each.
    os._exit(asyncio.new_event_loop().run_until_complete(relay(sys.argv[1], int(sys.argv[2]), sys.argv[4:])))
