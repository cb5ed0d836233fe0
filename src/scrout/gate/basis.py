"""What a replayed failure rests on, as far as the gate can see it: the report tells of this very failure, or does not.

The gate looks at the run and the issue's text alone. Recon compares statement by statement and may know more; a claim
that came in the wire form brings no word of its own.
"""

from __future__ import annotations

from dataclasses import replace

from scrout.gate.observation import reported
from scrout.gate.printed import reported_value
from scrout.gate.replay_context import Classification, ReplayContext
from scrout.records import KEPT
from scrout.sandbox.replay import Replay
from scrout.sandbox.reports import Traceback, read_tracebacks

_ASSERTIONS = ("AssertionError", "Failed")
MAX_END_CHARS = 20_000
LEAST_LINE_CHARS = 12
"""Of a line that is not found in a report by chance."""


def with_basis(finding: Classification, run: Replay, replay_context: ReplayContext) -> Classification:
    """The finding with its basis, if it keeps the claim and the report tells of what the run showed."""
    if finding.verdict not in KEPT:
        return finding
    tracebacks = read_tracebacks(run.output[-MAX_END_CHARS:])
    last = tracebacks[-1] if tracebacks else None
    if last and last.type not in _ASSERTIONS and reported(last.type, last.message, replay_context.issue):
        return replace(finding, basis="verbatim")
    if last and _is_reporters(last, replay_context):
        return replace(finding, basis="verbatim")
    if finding.verdict == "reproduced_exit_zero" or reported_value(run, replay_context) is not None:
        return replace(finding, basis="confirmed")
    return finding


def _is_reporters(last: Traceback, replay_context: ReplayContext) -> bool:
    """Whether the assertion that fails is one that the report shows."""
    if last.type not in _ASSERTIONS:
        return False  # a line of the report can fail by what was put around it
    issue = "".join(replay_context.issue.split())
    for frame in reversed(last.frames):
        for text in replay_context.sources.of(replay_context.relative(frame.path)):
            line = "".join("".join(text.splitlines()[frame.line - 1 : frame.line]).split())
            return len(line) >= LEAST_LINE_CHARS and line in issue
    return False
