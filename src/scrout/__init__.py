"""scrout: scout, then route. Importing this package costs nothing; names load on first use."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from scrout.config.settings import Settings
    from scrout.handoff import Handoff
    from scrout.pipeline import solve, solve_issue
    from scrout.records import Run
    from scrout.task import Task

__all__ = ["Handoff", "Run", "Settings", "Task", "__version__", "solve", "solve_issue"]

_HOMES = {
    "Handoff": "scrout.handoff",
    "Run": "scrout.records",
    "Settings": "scrout.config.settings",
    "Task": "scrout.task",
    "solve_issue": "scrout.pipeline",
    "solve": "scrout.pipeline",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'scrout' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
