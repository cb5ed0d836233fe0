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
from scrout.sandbox.reports import read_tracebacks

_ASSERTIONS = ("AssertionError", "Failed")
MAX_END_CHARS = 20_000


def with_basis(finding: Finding, run: Replay, scene: Scene) -> Finding:
    """The finding with its basis, if it keeps the claim and the report tells of what the run showed."""
    if finding.verdict not in KEPT:
        return finding
    tracebacks = read_tracebacks(run.output[-MAX_END_CHARS:])
    last = tracebacks[-1] if tracebacks else None
    if last and last.type not in _ASSERTIONS and reported(last.type, last.message, scene.issue):
        return replace(finding, basis="verbatim")
    if finding.verdict == "reproduced_exit_zero" or reported_value(run, scene) is not None:
        return replace(finding, basis="confirmed")
    return finding
