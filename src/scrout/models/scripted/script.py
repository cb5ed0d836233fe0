"""The elements of a script: replies, faults, and the requests that they answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from pydantic import JsonValue

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
class Stall:
    """Wait in the middle of the answer."""

    seconds: float


@dataclass(frozen=True)
class Drip:
    """Answer as scripted, with a pause before every byte."""

    pause_s: float


@dataclass(frozen=True)
class Cut:
    """Close the connection in the middle of the answer."""


@dataclass(frozen=True)
class Truncated:
    """Status 200, and JSON that ends in the middle."""


@dataclass(frozen=True)
class ErrorBody:
    """Status 200, and an error where the reply should be."""

    message: str = "scripted fault"


@dataclass(frozen=True)
class Restart:
    """Drop every connection and close the port, then open it again."""

    seconds: float


Fault = Status | Reset | Hang | Stall | Drip | Cut | Truncated | ErrorBody | Restart


@dataclass(frozen=True)
class ScriptedReply:
    """One reply of the script. It is sent completely, whatever limit the request sets."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None
    """None: no usage is reported, or zeros if the protocol requires numbers."""
    finish_reason: str = ""
    """As chat completions name it; empty: `tool_calls` or `stop`, whichever fits."""
    fault: Fault | None = None
    reasoning: str = ""


@dataclass(frozen=True)
class ScriptedRequest:
    """A request that the endpoint received."""

    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: str

    @cached_property
    def content(self) -> Mapping[str, JsonValue]:
        """The body's JSON object; empty if it is not one."""
        try:
            parsed: JsonValue = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        return parsed if isinstance(parsed, dict) else {}
