"""What is told of a stage and of a call: numbers, words of closed sets, names of the user's own, and, apart, texts."""

from __future__ import annotations

from decimal import Decimal

from pydantic import BaseModel

from scrout.money import Usage
from scrout.records import Attempt, Check, Decision, GatedHandoff, Scouting
from scrout.telemetry import names
from scrout.telemetry.exporter import Value
from scrout.trajectory import BilledCall

NO_ANSWER = "no_answer"
INCOMPLETE = "incomplete"


def of(result: BaseModel) -> dict[str, Value]:
    match result:
        case Scouting():
            files = len(result.handoff.files)
            return {names.STOP: result.stop, names.TURNS: result.turns, names.FILES: files, **_cost(result.cost_usd)}
        case GatedHandoff():
            return {names.VERDICT: result.verdict, names.KEPT: result.kept}
        case Decision():
            return {names.CANDIDATES: len(result.candidates), names.FALLBACK: result.fallback}
        case Attempt():
            patched, cost = bool(result.patch), _cost(result.cost_usd)
            return {names.STOP: result.stop, names.CALLS: result.calls, names.PATCHED: patched, **cost}
        case Check():
            return {names.CHECK: result.outcome, names.TESTS: result.tests, names.TESTS_RUN: result.tests_run}
    return {}


def _cost(cost_usd: Decimal | None) -> dict[str, Value]:
    """Nothing where it is unknown."""
    return {} if cost_usd is None else {names.COST: float(cost_usd)}


def names_of(result: BaseModel) -> dict[str, str]:
    match result:
        case Scouting():
            return {names.SEARCHER: result.searcher}
        case Decision():
            return {names.FIXER: result.fixer, names.POLICY: result.policy}
        case Attempt():
            return {names.FIXER: result.fixer, names.HANDOFF_MODE: result.handoff}
    return {}


def texts_of(result: BaseModel) -> dict[str, str]:
    """Content, which leaves only where the user wants it to."""
    match result:
        case Scouting():
            return {names.HANDOFF: result.text, names.DETAIL: result.detail}
        case GatedHandoff() | Decision():
            return {names.DETAIL: result.reason}
        case Attempt():
            return {names.PATCH: result.patch, names.DETAIL: result.detail}
        case Check():
            return {names.DETAIL: result.detail}
    return {}


def tokens(usage: Usage) -> dict[str, Value]:
    """The conventions count cached tokens as input too, and reasoning as output; our buckets are disjoint."""
    parts = {
        names.CACHE_READ_TOKENS: usage.cache_read_tokens,
        names.CACHE_WRITE_TOKENS: usage.cache_write_tokens + usage.cache_write_1h_tokens,
        names.REASONING_TOKENS: usage.reasoning_tokens,
    }
    return {
        names.INPUT_TOKENS: usage.prompt_tokens,
        names.OUTPUT_TOKENS: usage.output_tokens + usage.reasoning_tokens,
        **{name: count for name, count in parts.items() if count},
    }


def error_of(call: BilledCall) -> str:
    """What was wrong with a call that may have been billed; empty: nothing."""
    if call.status is None:
        return NO_ANSWER
    if not 200 <= call.status < 300:
        return str(call.status)
    return INCOMPLETE if call.said.error else ""
