"""A stand-in for a model: speaks chat completions over real HTTP on loopback, and says what a script tells it to.

It needs no key, costs nothing and thinks nothing; it is for tests, demonstrations and rehearsing faults.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

from scrout.models.chat import ToolCall
from scrout.money import Usage


@dataclass(frozen=True)
class Status:
    """Answer with this status and an error body."""

    code: int
    headers: Mapping[str, str] = field(default_factory=dict)
    message: str = "scripted fault"


@dataclass(frozen=True)
class Reset:
    """Drop the connection without an answer."""


@dataclass(frozen=True)
class Hang:
    """Wait, then answer as scripted."""

    seconds: float


@dataclass(frozen=True)
class Truncated:
    """Status 200, and JSON that ends in the middle."""


@dataclass(frozen=True)
class ErrorBody:
    """Status 200, and an error where the completion should be."""

    message: str = "scripted fault"


Fault = Status | Reset | Hang | Truncated | ErrorBody


@dataclass(frozen=True)
class ScriptedReply:
    """One answer of the script."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None
    """None: no usage is reported."""
    finish_reason: str = ""
    """Empty: what fits, `tool_calls` or `stop`."""
    fault: Fault | None = None


@dataclass(frozen=True)
class Request:
    """What the endpoint was sent."""

    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: str


class ScriptedEndpoint:
    """A context manager: listens on a free loopback port and gives one reply of the script to each request."""

    def __init__(self, replies: Sequence[ScriptedReply]) -> None:
        self.requests: list[Request] = []
        self._replies = tuple(replies)
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._server: _Server | None = None

    @property
    def base_url(self) -> str:
        if self._server is None:
            raise RuntimeError("the endpoint listens only inside `with`")
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> ScriptedEndpoint:
        self._server = _Server(self)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def take(self, request: Request) -> ScriptedReply:
        """Record a request and give the script's answer to it."""
        with self._lock:
            self.requests.append(request)
            number = len(self.requests)
        if number > len(self._replies):
            message = f"the script has {len(self._replies)} replies and this is request {number}"
            return ScriptedReply(fault=Status(500, message=message))
        return self._replies[number - 1]

    def wait(self, seconds: float) -> None:
        """Sleep, but not beyond the end of the `with` block."""
        self._closing.wait(seconds)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, endpoint: ScriptedEndpoint) -> None:
        self.endpoint = endpoint
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        # A client that gave up on a hanging answer is part of the script.
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", "0"))).decode("utf-8", "replace")
        headers = {name.lower(): value for name, value in self.headers.items()}
        if self.path != "/v1/chat/completions":
            return self._send(404, _error(f"no such path: {self.path}"))
        model = _requested_model(body)
        if model is None:
            return self._send(400, _error("the body needs a `model` and `messages`"))
        reply = self.server.endpoint.take(Request(self.path, headers, body))
        completion = _completion(reply, model)
        match reply.fault:
            case Status(code, extra, message):
                self._send(code, _error(message), extra)
            case Reset():
                # Lingering for zero seconds makes close() send RST instead of FIN.
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
            case Hang(seconds):
                self.server.endpoint.wait(seconds)
                self._send(200, completion)
            case Truncated():
                self._send(200, completion[: len(completion) // 2])
            case ErrorBody(message):
                self._send(200, _error(message))
            case None:
                self._send(200, completion)

    def _send(self, status: int, body: str, headers: Mapping[str, str] | None = None) -> None:
        raw = body.encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: object) -> None:
        """Silence: stderr belongs to the program that is being tested."""


def _requested_model(body: str) -> str | None:
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(request, dict) or not request.get("messages"):
        return None
    model = request.get("model")
    return model if isinstance(model, str) else None


def _error(message: str) -> str:
    return json.dumps({"error": {"message": message, "type": "scripted"}})


def _completion(reply: ScriptedReply, model: str) -> str:
    message: dict[str, object] = {"role": "assistant", "content": reply.text or None}
    if reply.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in reply.calls
        ]
    finish_reason = reply.finish_reason or ("tool_calls" if reply.calls else "stop")
    completion: dict[str, object] = {
        "id": "scripted",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
    }
    if reply.usage is not None:
        usage = reply.usage
        prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        completion["usage"] = {
            "prompt_tokens": prompt,
            "completion_tokens": usage.output_tokens,
            "total_tokens": prompt + usage.output_tokens,
            "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        }
    return json.dumps(completion)
