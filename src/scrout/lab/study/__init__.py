"""Studies: what outcomes say about fixers, handoffs, gates and routers, recomputed from receipts or from a ledger.

Each study has two modules. `NAME.study(source)` computes a record of the paper's files or of your own runs; `--json`
prints it. `NAME_report.report(record)` makes tables and figures of that record and computes nothing.
"""

from __future__ import annotations

STUDIES = {
    "replicate": "The paper's tables from its receipts, ours beside the published ones.",
    "audit": "Whether a pool of fixers leaves a router anything to win.",
    "calibrate": "Feature sets by heads: how well probabilities are predicted, and what that saves.",
    "frontier": "Solve rate against cost: every fixer, mixture and policy.",
    "handoff": "What the handoff does to each fixer, paired by task.",
    "localize": "How well the files that a scout names fit the true ones.",
    "spend": "Where the money went, and over how many tasks it pays.",
}
"""Every study, and what it asks in one line."""
