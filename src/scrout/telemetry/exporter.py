"""Sends spans and metrics to one collector, with the SDK's providers and a thread that sends on request.

It never uses OpenTelemetry's global providers: a program that uses scrout keeps its own. Only threads that die with the
process wait for a collector, and at the end they get a limited time.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import Histogram
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.version import __version__ as SDK_VERSION
from opentelemetry.trace import Span, SpanKind

from scrout import __version__
from scrout.base import ConfigError
from scrout.config.settings import TelemetrySettings
from scrout.telemetry import FLUSH_S, names

NAME = "scrout"
Value = str | bool | int | float | Sequence[str]
Attributes = Mapping[str, Value]

_log = logging.getLogger("scrout.telemetry")
# A collector that is down is reported once, at the end and by scrout. The program's own handlers still get the
# exporter's logs.
logging.getLogger("opentelemetry").addHandler(logging.NullHandler())


class Exporter:
    """One collector, from the settings and the environment."""

    def __init__(self, settings: TelemetrySettings) -> None:
        self.content = settings.content
        base = settings.endpoint
        traces = OTLPSpanExporter(endpoint=f"{base}/v1/traces" if base else None)
        self._exporter = _Counted(traces)
        self._metric_exporter = OTLPMetricExporter(endpoint=f"{base}/v1/metrics" if base else None)
        self.address = _host(traces._endpoint)
        resource = _resource(settings.service_name)
        self._tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._queue = _Queue(self._exporter)
        self._tracers.add_span_processor(self._queue)
        reader = PeriodicExportingMetricReader(self._metric_exporter)
        self._meters = MeterProvider([reader], resource, shutdown_on_exit=False)
        self._tracer = self._tracers.get_tracer(NAME, __version__, names.SCHEMA_URL)
        meter = self._meters.get_meter(NAME, __version__, names.SCHEMA_URL)

        def histogram(name: str, unit: str, about: str, buckets: Sequence[float]) -> Histogram:
            return meter.create_histogram(name, unit, about, explicit_bucket_boundaries_advisory=buckets)

        called, worked = "How long model calls, attempts and tools took.", "How long this process worked on a run."
        self.tokens = histogram(names.TOKEN_USAGE, "{token}", "Tokens of model calls.", names.TOKEN_BUCKETS)
        self.durations = histogram(names.OPERATION_DURATION, "s", called, names.DURATION_BUCKETS)
        self.runs = meter.create_counter(names.RUNS, "{run}", "Runs that came to their end.")
        self.run_costs = histogram(names.RUN_COST, "{USD}", "What a run cost, in US dollars.", names.COST_BUCKETS)
        self.run_durations = histogram(names.RUN_DURATION, "s", worked, names.RUN_BUCKETS)
        self._traces: set[Span] = set()
        """Observers whose runs have not ended."""
        self._told = threading.Condition()
        self._asked = self._done = 0
        self._closed = False
        threading.Thread(target=self._send, name="scrout-telemetry", daemon=True).start()

    def span(
        self,
        name: str,
        parent: Span | None,
        attributes: Attributes,
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        began_ns: int | None = None,
    ) -> Span:
        """Start a span; without a parent, it starts a new trace. Other spans in this process are never its parent."""
        context = Context() if parent is None else trace.set_span_in_context(parent, Context())
        return self._tracer.start_span(name, context, kind, attributes, start_time=began_ns, record_exception=False)

    def begin_trace(self, name: str, attributes: Attributes) -> Span:
        span = self.span(name, None, attributes)
        self._traces.add(span)
        return span

    def end_trace(self, span: Span) -> None:
        self._traces.discard(span)
        span.end()

    @property
    def lost(self) -> int:
        """Spans that the collector has not accepted."""
        return self._queue.ended - self._exporter.taken

    def nudge(self) -> int:
        """Request that all data is sent, without waiting. The returned number identifies the request."""
        with self._told:
            self._asked += 1
            self._told.notify_all()
            return self._asked

    def flush(self, timeout_s: float) -> bool:
        """Like `nudge`, but waits; False: it takes longer."""
        number = self.nudge()
        with self._told:
            return self._told.wait_for(lambda: self._done >= number, timeout_s)

    def leave(self) -> None:
        """End the open spans of runs that are no longer in progress."""
        for span in list(self._traces):
            span.set_attribute(names.OUTCOME, names.INTERRUPTED)
            self.end_trace(span)

    def abandon(self) -> None:
        """Stop sending and retrying."""
        with self._told:
            self._closed = True
            self._told.notify_all()
        self._exporter.shutdown()
        self._metric_exporter.shutdown()

    def close(self) -> None:
        """Send the remaining data, and end the threads; for a collector that answers."""
        self.flush(FLUSH_S)
        self._tracers.shutdown()
        self._meters.shutdown()
        with self._told:
            self._closed = True
            self._told.notify_all()

    def _send(self) -> None:
        while True:
            with self._told:
                self._told.wait_for(lambda: self._closed or self._asked > self._done)
                number = self._asked
                if self._closed:
                    return
            try:
                self._tracers.force_flush()
                self._meters.force_flush()
            except Exception as error:  # a collector can make an exporter raise anything
                _log.debug("telemetry was not sent: %s", type(error).__name__)
            with self._told:
                self._done = number
                self._told.notify_all()


class _Queue(BatchSpanProcessor):
    ended = 0

    def on_end(self, span: ReadableSpan) -> None:
        if span.context is not None and span.context.trace_flags.sampled:
            self.ended += 1
        super().on_end(span)


class _Counted(SpanExporter):
    def __init__(self, inner: SpanExporter) -> None:
        self.taken = 0
        self._inner = inner

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._inner.export(spans)
        if result is SpanExportResult.SUCCESS:
            self.taken += len(spans)
        return result

    def shutdown(self) -> None:
        self._inner.shutdown()


_outlets: dict[tuple[TelemetrySettings, frozenset[tuple[str, str]]], Exporter] = {}
_lock = threading.Lock()


def open_exporter(settings: TelemetrySettings) -> Exporter:
    """The exporter of these settings and this environment; raises a ConfigError if it cannot be made."""
    environment = frozenset((name, value) for name, value in os.environ.items() if name.startswith("OTEL_"))
    with _lock:
        known = _outlets.get((settings, environment))
        if known is None:
            try:
                known = _outlets[settings, environment] = Exporter(settings)
            except (ValueError, OSError) as error:
                raise ConfigError(
                    f"telemetry cannot start: {error}. Check telemetry.endpoint and the OTEL_ variables, or turn it "
                    "off: -c telemetry.enabled=false"
                ) from None
        return known


def flush(timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    for each in list(_outlets.values()):
        each.nudge()
    return all([each.flush(max(0.0, deadline - time.monotonic())) for each in list(_outlets.values())])


def close_all() -> None:
    """Close every exporter, for a program that continues without them."""
    for each in _taken():
        each.close()


def abandon_all() -> None:
    """Close every exporter at once, without sending the rest."""
    for each in _taken():
        each.abandon()


def _taken() -> list[Exporter]:
    with _lock:
        taken = list(_outlets.values())
        _outlets.clear()
        return taken


@atexit.register
def _at_exit() -> None:
    for each in _outlets.values():
        each.leave()
    flush(FLUSH_S)
    for each in _taken():
        each.abandon()
        if each.lost:
            _log.warning("telemetry: %s did not take %d spans; the ledger has all of them", each.address, each.lost)


def _resource(service_name: str) -> Resource:
    """The resource of this process.

    Detectors that read the command line or the host are left out, because a command line may contain an issue.
    """
    own = {
        "service.name": NAME,
        "service.version": __version__,
        # Distinguishes the sums of several processes.
        "service.instance.id": str(uuid.uuid4()),
        "telemetry.sdk.name": "opentelemetry",
        "telemetry.sdk.language": "python",
        "telemetry.sdk.version": SDK_VERSION,
    }
    named = Resource({"service.name": service_name} if service_name else {})
    return Resource(own).merge(OTELResourceDetector().detect()).merge(named)


def _host(url: str) -> str:
    """A URL without possible secrets."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}:{parts.port}" if parts.port else f"{parts.scheme}://{parts.hostname}"
