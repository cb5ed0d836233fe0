"""A stand-in for a model: speaks chat completions, responses and messages over real HTTP on loopback, plain and
streamed, and replies from a script.

It needs no key and costs nothing. Use it for tests, demonstrations and fault injection.
"""

from scrout.models.scripted.endpoint import ScriptedEndpoint
from scrout.models.scripted.script import (
    Cut,
    Drip,
    ErrorBody,
    Fault,
    Hang,
    Reset,
    Restart,
    ScriptedReply,
    ScriptedRequest,
    Stall,
    Status,
    Truncated,
)

__all__ = [
    "Cut",
    "Drip",
    "ErrorBody",
    "Fault",
    "Hang",
    "Reset",
    "Restart",
    "ScriptedEndpoint",
    "ScriptedReply",
    "ScriptedRequest",
    "Stall",
    "Status",
    "Truncated",
]
