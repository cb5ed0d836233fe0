"""Spans and metrics of runs, for an OpenTelemetry collector. Off, nothing of OpenTelemetry is imported.

A run is watched through one seam (observer.py), in the process that runs it; nothing of this is ever in a sandbox or in
the meter. Whatever happens to a collector, a run does not notice.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from scrout.base import ConfigError
from scrout.observer import SILENT, RunObserver

if TYPE_CHECKING:
    from scrout.config.settings import Settings
    from scrout.ledger.store import OpenRun
    from scrout.task import Task

FLUSH_S = 2.0
"""What a process waits, at its end, for what it has not sent yet."""


def is_on(settings: Settings) -> bool:
    """Whether anybody is told of runs. OTEL_SDK_DISABLED has the last word."""
    return settings.telemetry.enabled and os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() != "true"


def require(settings: Settings) -> None:
    """A ConfigError where telemetry is on and cannot be, such as without its extra: said before a run begins."""
    if is_on(settings):
        try:
            from scrout.telemetry.exporter import open_exporter
        except ImportError as error:
            raise ConfigError(
                f"telemetry.enabled is true and needs OpenTelemetry ({error.name or error} is missing). Install it: "
                "pip install 'scrout[otel]' (in a clone --editable '.[otel]'), or turn it off: -c "
                "telemetry.enabled=false"
            ) from None
        open_exporter(settings.telemetry)


def watch(
    settings: Settings, run: OpenRun, task: Task, *, batch: str = "", arm: str = "", sandbox: str = "", attempts: Path
) -> RunObserver:
    """What is to be told of a run, before its first step. `attempts` is where its trajectories go."""
    if not is_on(settings):
        return SILENT
    require(settings)
    from scrout.telemetry.exporter import open_exporter
    from scrout.telemetry.tracing import RunAttributes, Tracing

    about = RunAttributes(run.id, task, batch, arm, sandbox, resumed=run.resumed)
    return Tracing(open_exporter(settings.telemetry), settings, about, attempts)


def flush(timeout_s: float = FLUSH_S) -> bool:
    """Wait until all that is known has been sent or given up, for so long at most; False: time ran out."""
    module = sys.modules.get("scrout.telemetry.exporter")
    return module is None or bool(module.flush(timeout_s))
