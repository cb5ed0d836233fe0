"""The model of bench/episodes.py: a process of its own that answers chat completions with one script for everybody.

    python bench/episodes_endpoint.py < script.json

The script, a JSON line, says what each turn runs and what the last reply is. The last call that a request answers tells
its turn, so any number of conversations may go on at once, and may leave out old turns. It prints its address, then
serves until its input ends. GET /times gives when each request had arrived and when its answer was written, in seconds
of the monotonic clock, and forgets them. It does little: what it does takes from both sides of a comparison.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time

ANSWERED = re.compile(rb'"tool_call_id": ?"call_([0-9]+)"')
"""Quotes inside of a message carry a backslash, so this is never a message's text."""
PROMPT_TOKENS = 1_234_567
"""Stands where the number goes: a quarter of the request's bytes, which is about what a model would count."""
LENGTH = re.compile(rb"content-length: *([0-9]+)", re.I)

times: list[tuple[float, float]] = []


def completion(turn: int, command: str | None, text: str) -> str:
    message: dict[str, object] = {"role": "assistant", "content": text}
    if command is not None:
        call = {"name": "bash", "arguments": json.dumps({"command": command})}
        message["tool_calls"] = [{"id": f"call_{turn}", "type": "function", "function": call}]
    body = {
        "id": f"reply-{turn}",
        "object": "chat.completion",
        "created": 0,
        "model": "stand-in",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if command else "stop"}],
        "usage": {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": 40, "total_tokens": 40},
    }
    return json.dumps(body)


def answer(status: str, body: bytes) -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


async def serve(script: dict[str, list[str]]) -> None:
    # The two runners end differently: one by a handoff, the other by a command.
    replies = [completion(turn, command, "Let me look.") for turn, command in enumerate(script["commands"])]
    handoff = completion(len(replies), None, script["handoff"][0])
    submission = completion(len(replies), script["submission"][0], "I am done.")

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = LENGTH.search(head)
                body = await reader.readexactly(int(length[1])) if length else b""
                arrived = time.monotonic()
                if head.startswith(b"GET /times "):
                    said = answer("200 OK", json.dumps(times).encode())
                    times.clear()
                elif b"/chat/completions " not in head.partition(b"\r\n")[0]:
                    said = answer("404 Not Found", b"{}")
                else:
                    answered = ANSWERED.findall(body)
                    turn = int(answered[-1]) + 1 if answered else 0
                    last = submission if b'"submitter"' in body else handoff
                    reply = replies[turn] if turn < len(replies) else last
                    said = answer("200 OK", reply.replace(str(PROMPT_TOKENS), str(len(body) // 4)).encode())
                    times.append((arrived, time.monotonic()))
                writer.write(said)
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
    asyncio.run(serve(json.loads(sys.stdin.readline())))
