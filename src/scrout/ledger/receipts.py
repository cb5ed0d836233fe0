"""Receipts are stored once, in rows.

A stored result has the digest of its receipts, which an audit compares with the rows. Reading a result attaches the
rows to it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from scrout.money import Receipt

_RECEIPTS = TypeAdapter(tuple[Receipt, ...])

Execute = Callable[[str, Sequence[Any]], Iterable[tuple[Any, ...]]]


def digest_receipts(receipts: Iterable[Receipt], redact: Callable[[str], str] = str) -> str:
    """Digest of all fields of the rows.

    Empty usage buckets are left out, so that a new kind of bucket changes no digest.
    """
    said = [
        [
            *(one.component, one.fixer and redact(one.fixer), redact(one.model)),
            *(None if one.cost_usd is None else float(one.cost_usd), one.estimated, one.at.timestamp(), one.call),
            {bucket: tokens for bucket, tokens in one.usage.model_dump().items() if tokens},
        ]
        for one in receipts
    ]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:32]


def read_receipts(stored: Sequence[dict[str, Any]]) -> tuple[Receipt, ...]:
    return _RECEIPTS.validate_python(stored)


def store_once(execute: Execute) -> None:
    """Remove the copies of receipts from stored results and closed runs of earlier versions; the tables must allow it.

    A result keeps the digest of its copy. A closed run keeps a copy that none of its results has.
    """
    for (run_id,) in list(execute("SELECT id FROM run", ())):
        copies: list[Any] = []
        paying = "SELECT id, result FROM step WHERE run_id = ? AND result_type IN ('Attempt', 'Scouting')"
        for step_id, text in list(execute(f"{paying} AND status = 'done'", (run_id,))):
            result = _object(text)
            copy = result.get("receipts")
            if isinstance(copy, list) and (digest := _digest_of_copy(copy)):
                copies.append(copy)
                stored = json.dumps(result | {"receipts": digest})
                execute("UPDATE step SET result = ? WHERE id = ?", (stored, step_id))
        for (text,) in list(execute("SELECT run FROM close WHERE run_id = ?", (run_id,))):
            run = _object(text)
            parts = [run.get("scouting"), *(run.get("attempts") or ())]
            known = [part for part in parts if isinstance(part, dict) and part.get("receipts") in copies]
            for part in known:
                del part["receipts"]
            if known:
                execute("UPDATE close SET run = ? WHERE run_id = ?", (json.dumps(run), run_id))


def _object(text: str) -> dict[str, Any]:
    """Empty: it is not an object; reading the run will report that."""
    try:
        said = json.loads(text)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _digest_of_copy(copy: list[Any]) -> str:
    """Empty: it is not a list of receipts; reading the run will report that."""
    try:
        return digest_receipts(read_receipts(copy))
    except ValidationError:
        return ""
