"""The model of bench/batch.py: that of bench/episodes_endpoint.py, with time to think and an end for each side.

    python bench/batch_endpoint.py < script.json

The script, a JSON line, has the `commands` of the turns, the last `reply` of a model that has just to stop, the
`submission` of mini-SWE-agent, which ends by a command, and `think_s`. It prints its address, then serves until its
input ends. GET /calls gives how many calls it has answered since it was asked last.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass

from episodes_endpoint import ANSWERED, LENGTH, PROMPT_TOKENS, answer, completion


@dataclass(frozen=True)
class Script:
    commands: list[str]
    reply: str
    submission: str
    think_s: float


async def serve(script: Script) -> None:
    turns = [completion(turn, command, "Let me look.") for turn, command in enumerate(script.commands)]
    reply = completion(len(turns), None, script.reply)
    submission = completion(len(turns), script.submission, "I am done.")
    calls = 0

    def said(body: bytes) -> bytes:
        answered = ANSWERED.findall(body)
        turn = int(answered[-1]) + 1 if answered else 0
        last = submission if b'"submitter"' in body else reply
        text = turns[turn] if turn < len(turns) else last
        return answer("200 OK", text.replace(str(PROMPT_TOKENS), str(len(body) // 4)).encode())

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal calls
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = LENGTH.search(head)
                body = await reader.readexactly(int(length[1])) if length else b""
                if head.startswith(b"GET /calls "):
                    writer.write(answer("200 OK", str(calls).encode()))
                    calls = 0
                elif b"/chat/completions " not in head.partition(b"\r\n")[0]:
                    writer.write(answer("404 Not Found", b"{}"))
                else:
                    if script.think_s:
                        await asyncio.sleep(script.think_s)
                    writer.write(said(body))
                    calls += 1
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(client, "127.0.0.1", 0, limit=2**20, backlog=1024)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    async with server:
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve(Script(**json.loads(sys.stdin.readline()))))
