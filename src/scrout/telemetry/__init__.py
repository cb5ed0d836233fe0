"""Spans and metrics of runs, for an OpenTelemetry collector. If it is off, OpenTelemetry is not imported.

A run is observed through observer.py, in its own process; telemetry never runs in a sandbox or in the meter. A failing
collector does not affect runs.
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
"""How long a process waits, at its end, for unsent data."""


def is_on(settings: Settings) -> bool:
    """Whether telemetry is on. OTEL_SDK_DISABLED overrides the settings."""
    return settings.telemetry.enabled and os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() != "true"


def require(settings: Settings) -> None:
    """Raise a ConfigError before a run starts if telemetry is on but cannot work, for example without its extra."""
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
    """The observer of a run, called before its first step. `attempts` is the folder of its trajectories."""
    if not is_on(settings):
        return SILENT
    require(settings)
    from scrout.telemetry.exporter import open_exporter
    from scrout.telemetry.tracing import RunAttributes, Tracing

    about = RunAttributes(run.id, task, batch, arm, sandbox, resumed=run.resumed)
    return Tracing(open_exporter(settings.telemetry), settings, about, attempts)


def flush(timeout_s: float = FLUSH_S) -> bool:
    """Wait until all data is sent or given up, up to a time limit; False: time ran out."""
    module = sys.modules.get("scrout.telemetry.exporter")
    return module is None or bool(module.flush(timeout_s))
