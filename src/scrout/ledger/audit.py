"""Derives every total of a ledger from its receipts, and reports stored totals that differ.

It repairs nothing. It reads run by run, so a ledger of any size fits into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial

from scrout.base import FrozenModel, LedgerError
from scrout.ledger.receipts import digest_receipts
from scrout.ledger.store import Ledger, RunDetail, StepRecord
from scrout.money import Usd, known_usd, total_usd
from scrout.records import Attempt, Decision, Run, Scouting
from scrout.text import usd

_exact = partial(usd, exact=True, unknown="an unknown cost")
"""An audit shows every digit: two sums that differ must not look equal."""


class BatchTotal(FrozenModel):
    """A batch's totals, by its receipts."""

    batch: str
    runs: int = 0
    receipts: int = 0
    paid_usd: Usd = Decimal(0)
    """Of all calls with a known price, interrupted steps included."""
    unpriced: int = 0
    """Receipts without a known price."""
    estimated: int = 0
    """Receipts at the reserved amount, because the provider reported no usage."""


class AuditReport(FrozenModel):
    """The number of examined records, and the discrepancies."""

    runs: int
    receipts: int
    problems: tuple[str, ...]
    """Each names a run or a batch and the figures that disagree; empty: every cent is accounted for."""
    flags: tuple[str, ...] = ()
    """Calls of interrupted steps without a recorded end: each is booked at the reserved amount, and may have cost
    less.
    """
    estimated: int = 0
    """Receipts at the reserved amount, from any step."""
    batches: tuple[BatchTotal, ...] = ()


def audit(ledger: Ledger, progress: Callable[[int, int], None] = lambda done, of: None) -> AuditReport:
    """Examine every run, finished or not. `progress` gets the number of examined runs and their total."""
    run_ids = ledger.run_ids()
    receipts = estimated = 0
    problems: list[str] = []
    flags: list[str] = []
    batches: dict[str, BatchTotal] = {}
    for number, run_id in enumerate(run_ids):
        progress(number, len(run_ids))
        try:
            story = ledger.story(run_id)
        except LedgerError as error:
            problems.append(str(error))
            continue
        receipts += story.receipts
        estimated += sum(receipt.estimated for step in story.steps for receipt in step.receipts)
        problems += (f"run {run_id}: {problem}" for problem in _in_story(story))
        flags += (f"run {run_id}: {flag}" for step in story.steps for flag in _cut_off(step))
        batch = story.derived.batch
        if batch:
            batches[batch] = _added(batches.get(batch) or BatchTotal(batch=batch), story)
    problems += (problem for total in batches.values() for problem in _in_batch(ledger, total))
    return AuditReport(
        runs=len(run_ids),
        receipts=receipts,
        problems=tuple(problems),
        flags=tuple(flags),
        estimated=estimated,
        batches=tuple(batches[batch] for batch in sorted(batches)),
    )


def _in_story(story: RunDetail) -> Iterator[str]:
    for step in story.steps:
        yield from _in_step(step)
    yield from _in_run(story.stored, story.derived)
    attached = sum(len(step.receipts) for step in story.steps)
    if attached != story.receipts:
        yield f"{story.receipts} receipts are booked on it, and its steps have {attached} of them"


def _in_step(step: StepRecord) -> Iterator[str]:
    made = step.result
    calls = [receipt.call for receipt in step.receipts if receipt.call]
    twice = sorted({call for call in calls if calls.count(call) > 1}) if len(set(calls)) < len(calls) else []
    if twice:
        yield f"step {step.id} ({step.name}) has these calls more than once: {', '.join(map(str, twice))}"
    match made:
        case Attempt():
            name = f"the attempt of {made.fixer}"
        case Scouting():
            name = f"the scouting of {made.searcher}"
        case Decision():
            name = f"the choice of {made.fixer}"
        case _:
            # An interrupted step has payments, but no total to compare them with.
            if step.receipts and (made is not None or step.name not in ("fix", "scout", "route")):
                yield f"step {step.id} ({step.name}) is no attempt, yet has {len(step.receipts)} receipts"
            return
    total = total_usd(receipt.cost_usd for receipt in step.receipts)
    if made.cost_usd != total:
        yield (
            f"{name} (step {step.id}) says {_exact(made.cost_usd)}, "
            f"its {len(step.receipts)} receipts sum to {_exact(total)}"
        )
    if not isinstance(made, Decision) and step.receipts_digest != digest_receipts(step.receipts):
        yield f"{name} (step {step.id}) was stored with other receipts than the {len(step.receipts)} that are booked"


def _in_run(stored: Run, derived: Run) -> Iterator[str]:
    if stored.cost_usd != derived.cost_usd:
        yield f"it was closed at {_exact(stored.cost_usd)}, its receipts sum to {_exact(derived.cost_usd)}"
    for field in Run.model_fields:
        if field != "cost_usd" and getattr(stored, field) != getattr(derived, field):
            yield f"`{field}` differs between the closed run and its steps"


def _cut_off(step: StepRecord) -> Iterator[str]:
    """Whether it was interrupted during a call."""
    open_calls = [receipt for receipt in step.receipts if receipt.estimated] if step.result is None else []
    if open_calls:
        held = total_usd(receipt.cost_usd for receipt in open_calls)
        yield (
            f"step {step.id} ({step.name}) was interrupted with {len(open_calls)} calls under way, settled at the "
            f"{_exact(held)} that was reserved"
        )


def _added(total: BatchTotal, story: RunDetail) -> BatchTotal:
    booked = [receipt for step in story.steps for receipt in step.receipts]
    return BatchTotal(
        batch=total.batch,
        runs=total.runs + 1,
        receipts=total.receipts + len(booked),
        paid_usd=total.paid_usd + known_usd(receipt.cost_usd for receipt in booked),
        unpriced=total.unpriced + sum(receipt.cost_usd is None for receipt in booked),
        estimated=total.estimated + sum(receipt.estimated for receipt in booked),
    )


def _in_batch(ledger: Ledger, total: BatchTotal) -> Iterator[str]:
    try:
        spent = ledger.spent_usd(total.batch)
    except (LedgerError, ArithmeticError) as error:
        yield f"batch {total.batch}: its receipts cannot be added up ({type(error).__name__})"
        return
    if spent != total.paid_usd:
        paid = _exact(total.paid_usd)
        yield f"batch {total.batch}: it has spent {_exact(spent)}, the steps of its runs have paid {paid}"
