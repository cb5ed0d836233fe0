"""What is sent to the API, and what it answers."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import ConfigDict, Field, JsonValue

from scrout.base import FrozenModel
from scrout.money import Usd
from scrout.records import Decision, GatedHandoff, Run, Scouting
from scrout.server.service import MAX_HANDOFF_CHARS
from scrout.task import MAX_ISSUE_BYTES

Stage = Literal["scout", "gate", "route", "fix"]
Status = Literal["running", "done", "failed", "called_off", "interrupted"]

MAX_BODY_BYTES = 8_000_000
"""Of a request. An issue's bytes may be escaped to six times as many."""
MAX_WAIT_S = 60.0
MAX_KEY_CHARS = 255
MAX_NAME_CHARS = 200
"""Of a conversation."""


class ApiRequest(FrozenModel):
    """What is sent must have the types that are asked for: 1 is no text and no truth."""

    model_config = ConfigDict(strict=True)


class ScoutRequest(ApiRequest):
    """An issue of a repository."""

    issue: str = Field(min_length=1, max_length=MAX_ISSUE_BYTES, pattern=r"\S")
    """The issue's full text, code blocks included."""
    repo: str = Field(default="", max_length=4096)
    """Folder of the repository, relative to the server's; empty: that itself."""
    dirty: bool = False
    """Include uncommitted changes."""


class FixRequest(ScoutRequest):
    """An issue to fix, under the caps of the server's scrout.toml."""


class GateRequest(ScoutRequest):
    """A claim to replay."""

    handoff: str = Field(default="", max_length=MAX_HANDOFF_CHARS)
    """The handoff with the claim, in wire form or as JSON; empty: the scout's own."""


class RouteRequest(ApiRequest):
    """A task to choose a fixer for; one of the two."""

    issue: str = Field(default="", max_length=MAX_ISSUE_BYTES)
    run: str = Field(default="", max_length=100)
    """A run that has scouted it, which makes for a better choice."""


class Answer(FrozenModel):
    """What a stage gave. One of the four is there."""

    scouting: Scouting | None = None
    """Without its state, a vector that the router reads by the run."""
    gated: GatedHandoff | None = None
    decision: Decision | None = None
    run: Run | None = None
    notes: tuple[str, ...] = ()
    """What the caller should know of how it was made."""


class Job(FrozenModel):
    """One call of a stage."""

    id: str
    stage: Stage
    status: Status
    """`interrupted`: the server was ended before it was done. The same request goes on with it."""
    created: datetime
    ended: datetime | None = None
    """None: it is under way."""
    said: str = ""
    """What it was last known to be at."""
    run: str = ""
    """In the ledger; empty: it has none, or none yet."""
    cost_usd: Usd | None = None
    """What this job paid; None: not known before its end."""
    error: str = ""
    """Why it failed, and what to do; else empty."""
    result: dict[str, JsonValue] | None = None
    """An Answer; None: it is not done."""


class JobList(FrozenModel):
    jobs: tuple[Job, ...]
    """Newest first, without their results."""


class CallerBudget(FrozenModel):
    """What a caller may do, and what is left of it."""

    caller: str
    may: tuple[str, ...]
    budget_usd: Usd
    """A day, by UTC."""
    spent_usd: Usd
    """Today."""
    held_usd: Usd
    """For what is under way."""
    remaining_usd: Usd
    requests_a_minute: int
    jobs: int


class Problem(FrozenModel):
    """What went wrong, after RFC 9457."""

    title: str
    status: int
    detail: str
    """What is wrong, and the next step."""
