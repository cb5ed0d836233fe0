"""The details of a run beyond an answer, read-only."""

from __future__ import annotations

import json

from scrout.base import LedgerError
from scrout.money import total_usd
from scrout.redact import redact_json
from scrout.server.mcp.answers import DATA, clean_patch, marked, shown
from scrout.server.service import Service

MAX_CHARS = 1_000_000


def whole(service: Service, run_id: str) -> str:
    """The run as JSON, without the scout's vector, which is useless to a reader."""
    run = service.run(run_id)
    stored = run.model_dump(mode="json", exclude={"scouting": {"state"}})
    return _bounded(run_id, redact_json(json.dumps({"about": DATA, "untrusted": stored})))


def handoff(service: Service, run_id: str) -> str:
    """The handoff after the gate; before the gate ran, the scout's."""
    run = service.run(run_id)
    text = run.gated.text if run.gated else run.scouting.text if run.scouting else ""
    if not text:
        raise LedgerError(f"run {run_id} has no handoff. Call scout on its issue.")
    return marked(shown(text))


def patch(service: Service, run_id: str) -> str:
    """The patch, after one line that `git apply` ignores."""
    text = clean_patch(service.run(run_id))
    if not text:
        raise LedgerError(f"run {run_id} has no patch. Read {run_id} itself for why.")
    return _bounded(run_id, f"{DATA}\n\n{text}")


def receipts(service: Service, run_id: str) -> str:
    booked = service.receipts(run_id)
    total = total_usd(one.cost_usd for one in booked)
    cost = None if total is None else float(total)
    rows = [one.model_dump(mode="json") for one in booked]
    return _bounded(run_id, redact_json(json.dumps({"cost_usd": cost, "receipts": rows})))


def _bounded(run_id: str, text: str) -> str:
    if len(text) > MAX_CHARS:
        raise LedgerError(f"that has {len(text):,} characters. Ask the user to run `scrout show {run_id}`.")
    return text
