"""The frozen record that all records extend, and one error type per boundary.

An error's message names the value that is wrong and the next step to take.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError


class FrozenModel(BaseModel):
    """A frozen record that refuses fields it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ScroutError(Exception):
    """An error with a cause outside of scrout, such as wrong input; shown without a traceback. A bug raises other
    types.
    """


class ConfigError(ScroutError):
    """A mistake in scrout.toml, `-c key=value`, or a name that is not in the configuration."""


class TaskError(ScroutError):
    """The repository or the issue text cannot be used as given."""


class SandboxError(ScroutError):
    """There is no isolation or no disk space, or a workspace could not be made."""


class HandoffError(ScroutError):
    """A handoff document without readable content."""


class GateError(ScroutError):
    """The gate could not reach a verdict."""


class RouteError(ScroutError):
    """A résumé, head or pool that the router cannot use."""


class StudyError(ScroutError):
    """Outcomes, receipts or a ledger that a study cannot use."""


class ModelError(ScroutError):
    """An endpoint that is unreachable, refuses, or answers outside its protocol."""


class LedgerError(ScroutError):
    """The ledger cannot be opened, or disagrees with its own receipts."""


def first_problem(error: ValidationError) -> str:
    """Where a document is wrong and why, without quoting it: `issue.number: Input should be a valid integer`."""
    problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part)[:40] for part in problem["loc"][:6]) or "as a whole"
    return f"{where}: {problem['msg']}"
