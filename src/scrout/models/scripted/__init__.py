"""A stand-in for a model: speaks chat completions, responses and messages over real HTTP on loopback, plain and
streamed, and says what a script tells it to.

It needs no key, costs nothing and thinks nothing; it is for tests, demonstrations and rehearsing faults.
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
