"""The endpoint itself: an HTTP server in a separate thread, which answers even if the user's event loop is blocked."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

from scrout.models.proxy import http
from scrout.models.scripted.protocols import PROTOCOLS, Json, Wire, count_tokens
from scrout.models.scripted.script import (
    Cut,
    Drip,
    ErrorBody,
    Hang,
    Reset,
    Restart,
    ScriptedReply,
    ScriptedRequest,
    Stall,
    Status,
    Truncated,
)

HOST = "127.0.0.1"
CONTEXT_TOKENS = 32_768
BACKLOG = 512

Script = Sequence[ScriptedReply] | Callable[[ScriptedRequest], ScriptedReply]


class ScriptedEndpoint:
    """A context manager that listens on a free loopback port and answers each request with one reply of the script.

    The script is a sequence, or a function of the request, which is called in the server's thread. `requests` has the
    requests for a reply, in order of arrival. Requests about tokens and models need no script and are not in it.
    """

    def __init__(
        self,
        replies: Script,
        *,
        models: Sequence[str] = ("scripted",),
        tokenizer: bool = True,
        keep: bool = True,
    ) -> None:
        self.requests: list[ScriptedRequest] = []
        self.served = 0
        """Requests for a reply."""
        self.connections = 0
        """Number of connections so far."""
        self._replies: Script = replies if callable(replies) else tuple(replies)
        self._models = tuple(models)
        self._tokenizer = tokenizer
        """Whether it offers vLLM's /tokenize."""
        self._keep = keep
        """False: `requests` stays empty, for runs whose conversations would fill the memory."""
        self._port = 0
        self._thread: threading.Thread | None = None
        self._end: Callable[[], object] = lambda: None
        self._listener: asyncio.Server | None = None
        self._talks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    @property
    def base_url(self) -> str:
        if not self._port:
            raise RuntimeError("the endpoint listens only inside `with`")
        return f"http://{HOST}:{self._port}/v1"

    def __enter__(self) -> ScriptedEndpoint:
        listener = _listen(0)
        self._port = listener.getsockname()[1]
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run(listener, ready)), daemon=True)
        self._thread.start()
        ready.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        if self._thread is not None:
            self._thread.join()

    async def _run(self, listener: socket.socket, ready: threading.Event) -> None:
        loop, end = asyncio.get_running_loop(), asyncio.Event()
        self._end = lambda: loop.call_soon_threadsafe(end.set)
        await self._open(listener)
        ready.set()
        await end.wait()
        await self._close()

    async def _open(self, listener: socket.socket) -> None:
        self._listener = await asyncio.start_server(self._connected, sock=listener, backlog=BACKLOG)

    async def _close(self, *, but: asyncio.Task[None] | None = None) -> None:
        """Stop listening and drop every connection, except the task that calls this."""
        if self._listener is not None:
            self._listener.close()
        ending = [task for task in self._talks if task is not but]
        for writer in self._talks.values():
            _abort(writer)
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        # A transport closes its socket in a later iteration of the loop.
        await asyncio.sleep(0)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._converse(reader, writer))
        self._talks[task] = writer
        self.connections += 1
        task.add_done_callback(self._talks.pop)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                asked = await http.read(reader, writer)
                request = ScriptedRequest(asked.path, asked.headers, asked.body.decode("utf-8", "replace"))
                if not await self._answer(asked.method, request, writer):
                    break
                if request.headers.get("connection", "").lower() == "close":
                    break
        except http.BadRequest as error:
            writer.write(_plain(error.status, "{}"))
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    async def _answer(self, method: str, request: ScriptedRequest, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; False: the connection has ended."""
        path = request.path.partition("?")[0]
        wire = PROTOCOLS.get(path) if method == "POST" else None
        if wire is not None:
            return await self._perform(self._take(request, wire), request, wire, writer)
        status, answer = 404, PROTOCOLS["/v1/chat/completions"].error(f"no such path: {method} {path}")
        if (method, path) == ("GET", "/v1/models"):
            status, answer = 200, {"object": "list", "data": [_about(model) for model in self._models]}
        elif (method, path) == ("POST", "/tokenize") and self._tokenizer:
            status, answer = 200, {"count": count_tokens(request), "max_model_len": CONTEXT_TOKENS}
        writer.write(_plain(status, json.dumps(answer)))
        await writer.drain()
        return True

    def _take(self, request: ScriptedRequest, wire: Wire) -> ScriptedReply:
        """Record a request and return the script's answer."""
        missing = [key for key in wire.needs if not request.content.get(key)]
        if missing or not isinstance(request.content["model"], str):
            return ScriptedReply(fault=Status(400, message=f"the body needs {' and '.join(wire.needs)}"))
        self.served += 1
        if self._keep:
            self.requests.append(request)
        if callable(self._replies):
            try:
                return self._replies(request)
            # the script is the user's; report its error in the answer, where the user can see it
            except Exception as error:
                return ScriptedReply(fault=Status(500, message=f"the script raised {error!r}"))
        if self.served > len(self._replies):
            message = f"the script has {len(self._replies)} replies and this is request {self.served}"
            return ScriptedReply(fault=Status(500, message=message))
        return self._replies[self.served - 1]

    async def _perform(
        self, reply: ScriptedReply, request: ScriptedRequest, wire: Wire, writer: asyncio.StreamWriter
    ) -> bool:
        fault = reply.fault
        answer = _encoded(reply, request, wire)
        match fault:
            case Reset():
                _abort(writer)
                return False
            case Restart(seconds):
                await self._close(but=asyncio.current_task())
                await asyncio.sleep(seconds)
                await self._open(_listen(self._port))
                return False
            case Hang(seconds):
                await asyncio.sleep(seconds)
            case Stall(seconds):
                half = len(answer) // 2
                writer.write(answer[:half])
                await asyncio.sleep(seconds)
                answer = answer[half:]
            case Drip(pause_s):
                for byte in answer:
                    await asyncio.sleep(pause_s)
                    writer.write(bytes([byte]))
                    await writer.drain()
                return True
            case Cut():
                answer = answer[: len(answer) // 2]
        writer.write(answer)
        await writer.drain()
        return not isinstance(fault, Cut)


def _encoded(reply: ScriptedReply, request: ScriptedRequest, wire: Wire) -> bytes:
    """The complete HTTP answer."""
    if isinstance(reply.fault, Status):
        return _plain(reply.fault.code, json.dumps(wire.error(reply.fault.message)), reply.fault.headers)
    streamed = request.content.get("stream") is True
    if isinstance(reply.fault, ErrorBody):
        error = json.dumps(wire.error(reply.fault.message))
        parts = [f"event: error\ndata: {error}\n\n" if streamed else error]
    elif streamed:
        parts = list(wire.events(reply, request))
    else:
        parts = [json.dumps(wire.whole(reply, request))]
    if isinstance(reply.fault, Truncated):
        text = "".join(parts)
        parts = [text[: len(text) // 2]]
    return _stream(parts) if streamed else _plain(200, parts[0])


def _plain(status: int, body: str, headers: Mapping[str, str] | None = None) -> bytes:
    return http.whole(status, body.encode(), headers)


def _stream(events: Sequence[str]) -> bytes:
    head = http.head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"})
    return head + b"".join(http.chunk(event.encode()) for event in events) + http.LAST_CHUNK


def _about(model: str) -> Json:
    return {"id": model, "object": "model", "created": 0, "owned_by": "scripted", "max_model_len": CONTEXT_TOKENS}


def _listen(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((HOST, port))
    return listener


def _abort(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    if connection is not None and connection.fileno() >= 0:
        # With a linger time of zero, closing sends RST instead of FIN.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
