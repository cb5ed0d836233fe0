"""The frozen record that all records extend, and the errors: one type per boundary.

An error's message names the value that is wrong and the next step to take.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError


class FrozenModel(BaseModel):
    """A frozen record that refuses fields it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ScroutError(Exception):
    """Something a user or the world got wrong; shown without a traceback. A bug raises anything else."""


class ConfigError(ScroutError):
    """scrout.toml, `-c key=value`, or a name that the configuration does not know."""


class TaskError(ScroutError):
    """The repository or the issue text cannot be used as given."""


class SandboxError(ScroutError):
    """No isolation, no room, or a workspace that could not be made."""


class HandoffError(ScroutError):
    """A handoff document that holds nothing readable."""


class GateError(ScroutError):
    """The gate could not reach a verdict."""


class RouteError(ScroutError):
    """A résumé, head or pool that the router cannot use."""


class StudyError(ScroutError):
    """Outcomes, receipts or a ledger that a study cannot use as given."""


class ModelError(ScroutError):
    """An endpoint that is unreachable, refuses, or answers outside its protocol."""


class LedgerError(ScroutError):
    """The ledger cannot be opened, or disagrees with its own receipts."""


def first_problem(error: ValidationError) -> str:
    """What is wrong with a document, and where, without quoting it: `issue.number: Input should be a valid integer`."""
    problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part)[:40] for part in problem["loc"][:6]) or "as a whole"
    return f"{where}: {problem['msg']}"
