"""A collector that listens on loopback and reads what it is sent with OpenTelemetry's own protocol."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from scrout import telemetry
from scrout.config.settings import Settings
from scrout.fix.pool import completed
from scrout.models.chat import ToolCall
from scrout.models.scripted import ScriptedReply
from scrout.money import Receipt, Usage
from scrout.pipeline import open_kit, open_task, solve
from scrout.records import Run
from scrout.sandbox.tier import Tier
from scrout.telemetry import exporter


@dataclass(frozen=True)
class Span:
    """One that arrived."""

    name: str
    id: str
    parent: str
    trace: str
    kind: int
    began_ns: int
    ended_ns: int
    failed: bool
    message: str
    events: int
    schema: str
    attributes: dict[str, Any]
    resource: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.attributes[name]


@dataclass
class Collector:
    """All that came, raw and read."""

    port: int = 0
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    traces: list[ExportTraceServiceRequest] = field(default_factory=list)
    metrics_: list[ExportMetricsServiceRequest] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def raw(self) -> bytes:
        return b"\n".join(self.bodies)

    @property
    def spans(self) -> list[Span]:
        """By their beginning."""
        found = []
        for request in self.traces:
            for resource in request.resource_spans:
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        found.append(
                            Span(
                                name=span.name,
                                id=span.span_id.hex(),
                                parent=span.parent_span_id.hex(),
                                trace=span.trace_id.hex(),
                                kind=span.kind,
                                began_ns=span.start_time_unix_nano,
                                ended_ns=span.end_time_unix_nano,
                                failed=span.status.code == 2,
                                message=span.status.message,
                                events=len(span.events),
                                schema=scope.schema_url,
                                attributes={one.key: plain(one.value) for one in span.attributes},
                                resource={one.key: plain(one.value) for one in resource.resource.attributes},
                            )
                        )
        return sorted(found, key=lambda span: span.began_ns)

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name]

    def below(self, span: Span) -> list[Span]:
        return [other for other in self.spans if other.parent == span.id]

    @property
    def metrics(self) -> dict[str, Metric]:
        """The last state of each: sums are cumulative."""
        found = {}
        for request in self.metrics_:
            for resource in request.resource_metrics:
                for scope in resource.scope_metrics:
                    assert scope.schema_url.endswith("/1.41.1")
                    for metric in scope.metrics:
                        found[metric.name] = metric
        return found

    def points(self, name: str) -> list[tuple[dict[str, Any], float, int]]:
        """Attributes, sum and count of each; a counter's count is its sum."""
        metric = self.metrics[name]
        kind = metric.WhichOneof("data")
        if kind == "histogram":
            return [
                ({one.key: plain(one.value) for one in point.attributes}, point.sum, point.count)
                for point in metric.histogram.data_points
            ]
        return [
            ({one.key: plain(one.value) for one in point.attributes}, point.as_int, point.as_int)
            for point in metric.sum.data_points
        ]


def plain(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [plain(one) for one in value.array_value.values]
    return getattr(value, kind) if kind else None


@pytest.fixture
def collector() -> Iterator[Collector]:
    told = Collector()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            told.bodies.append(body)
            told.headers.append({name.lower(): value for name, value in self.headers.items()})
            if self.path == "/v1/traces":
                told.traces.append(ExportTraceServiceRequest.FromString(body))
            else:
                assert self.path == "/v1/metrics"
                told.metrics_.append(ExportMetricsServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    told.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield told
    exporter.close_all()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No variable of the machine's own says where to send."""
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    # The interpreter itself rather than a version manager's script, which takes a tenth of a second to start it.
    monkeypatch.setenv("PATH", str(Path(sys.base_prefix, "bin")), prepend=os.pathsep)
    yield
    exporter.abandon_all()


FILES = {
    "quokka.py": "def burrow(wombats):\n    return sum(wombats[1:])\n",
    # For unittest, which starts in a fraction of the time of pytest.
    "test_quokka.py": "import unittest\n\nfrom quokka import burrow\n\n\nclass BurrowTest(unittest.TestCase):\n"
    "    def test_none(self):\n        self.assertEqual(burrow([]), 0)\n",
}
ISSUE = (
    "The kookaburra forgets the first wombat\n\n```python\nfrom quokka import burrow\n\n"
    "assert burrow([1, 2]) == 3, burrow([1, 2])\n```\n\nAssertionError: 2\n"
)
FOREIGN = ("kookaburra", "wombat", "quokka", "burrow", "forgets", "assertionerror", "prices", "echidna", "platypus")
"""Words of the issue, the repository, the model and the patch, none of which is a word of scrout's own."""
USAGE = Usage(input_tokens=900, cache_read_tokens=100, output_tokens=50, reasoning_tokens=20)


def bash(command: str, text: str = "") -> ScriptedReply:
    return ScriptedReply(text, (ToolCall("c", "bash", json.dumps({"command": command})),), USAGE)


FIX = (
    bash("python -c 'import quokka'", "An echidna looks around."),
    bash(r"sed -i 's/wombats\[1:\]/wombats/' quokka.py; env"),
    ScriptedReply("The platypus is done.", usage=USAGE),
)
"""What a model says that mends it."""


def settings(collector: Collector | None, model: str = "", **more: object) -> Settings:
    """Telemetry to the collector (None: as the environment says), and a fixer behind the endpoint `model`."""
    table: dict[str, object] = {"telemetry": {"enabled": True, "endpoint": collector.url if collector else ""}}
    if model:
        price = {"input": 3.0, "output": 15.0, "cache_read": 0.3}
        fixer = {"name": "toy", "kind": "agent", "model": "toy-1", "base_url": model, "price": price}
        table["fixers"] = [fixer]
    for key, value in more.items():
        known = table.get(key)
        table[key] = {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value
    return completed(Settings.model_validate(table))


Story = Callable[..., tuple[Run, list[Receipt]]]


@pytest.fixture
def tell(make_repo: Callable[..., Path], tier: Tier) -> Story:
    """tell(settings, issue=ISSUE, files=FILES): a whole run, all of it sent; the run, and what the ledger has of it."""

    def told(
        given: Settings, issue: str = ISSUE, files: Mapping[str, str] = FILES, name: str = "plain"
    ) -> tuple[Run, list[Receipt]]:
        task = open_task(make_repo(files, name), issue)
        with open_kit(task, given) as kit:
            run = asyncio.run(solve(task, kit))
            receipts = [one for step in kit.ledger.steps(run.id) for one in step.receipts]
        telemetry.flush(20)
        return run, receipts

    return told


@pytest.fixture
def config(collector: Collector) -> Callable[..., Settings]:
    """config(base_url="", **sections): settings that tell this collector."""
    return lambda model="", **more: settings(collector, model, **more)


@pytest.fixture
def script() -> list[ScriptedReply]:
    return list(FIX)


@pytest.fixture
def look() -> ScriptedReply:
    return bash("ls")


@pytest.fixture
def files() -> dict[str, str]:
    return dict(FILES)


@pytest.fixture
def issue() -> str:
    return ISSUE
