"""What a replayed failure rests on, as far as the gate can see it: the report tells of this very failure, or does not.

The gate looks at the run and the issue's text alone. Recon compares statement by statement and may know more; a claim
that came in the wire form brings no word of its own.
"""

from __future__ import annotations

from dataclasses import replace

from scrout.gate.agree import reported
from scrout.gate.printed import reported_value
from scrout.gate.scene import Finding, Scene
from scrout.records import KEPT
from scrout.sandbox.replay import Replay
from scrout.sandbox.reports import Traceback, read_tracebacks

_ASSERTIONS = ("AssertionError", "Failed")
MAX_END_CHARS = 20_000
LEAST_LINE_CHARS = 12
"""Of a line that is not found in a report by chance."""


def with_basis(finding: Finding, run: Replay, scene: Scene) -> Finding:
    """The finding with its basis, if it keeps the claim and the report tells of what the run showed."""
    if finding.verdict not in KEPT:
        return finding
    tracebacks = read_tracebacks(run.output[-MAX_END_CHARS:])
    last = tracebacks[-1] if tracebacks else None
    if last and last.type not in _ASSERTIONS and reported(last.type, last.message, scene.issue):
        return replace(finding, basis="verbatim")
    if last and _is_reporters(last, scene):
        return replace(finding, basis="verbatim")
    if finding.verdict == "reproduced_exit_zero" or reported_value(run, scene) is not None:
        return replace(finding, basis="confirmed")
    return finding


def _is_reporters(last: Traceback, scene: Scene) -> bool:
    """Whether the line that fails is one that the report shows: its own assertion, say."""
    issue = "".join(scene.issue.split())
    for frame in reversed(last.frames):
        for text in scene.sources.of(scene.relative(frame.path)):
            line = "".join("".join(text.splitlines()[frame.line - 1 : frame.line]).split())
            return len(line) >= LEAST_LINE_CHARS and line in issue
    return False
