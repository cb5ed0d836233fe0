"""Re-derives every total of a ledger from its receipts, and says where the stored ones differ. It repairs nothing."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from scrout.errors import LedgerError
from scrout.ledger.store import Ledger, Step, total_usd
from scrout.money import Record
from scrout.records import Attempt, Run, Scouting


class AuditReport(Record):
    """What was examined, and what does not add up."""

    runs: int
    receipts: int
    problems: tuple[str, ...]
    """Each names a run and the figures that disagree; empty: every cent is accounted for."""


def audit(ledger: Ledger) -> AuditReport:
    """Examine every run, finished or not."""
    run_ids = ledger.run_ids()
    receipts = 0
    problems: list[str] = []
    for run_id in run_ids:
        try:
            steps = ledger.steps(run_id)
            stored, derived = ledger.run(run_id), ledger.derive(run_id)
        except LedgerError as error:
            problems.append(str(error))
            continue
        receipts += sum(len(step.receipts) for step in steps)
        problems += (f"run {run_id}: {problem}" for step in steps for problem in _in_step(step))
        problems += (f"run {run_id}: {problem}" for problem in _in_run(stored, derived))
    return AuditReport(runs=len(run_ids), receipts=receipts, problems=tuple(problems))


def _in_step(step: Step) -> Iterator[str]:
    made = step.result
    if not isinstance(made, Attempt | Scouting):
        # A step that was cut off has paid for what it did, and has no total of its own to compare.
        if step.receipts and (made is not None or step.name not in ("fix", "scout")):
            yield f"step {step.id} ({step.name}) is no attempt, yet has {len(step.receipts)} receipts"
        return
    name = f"the attempt of {made.fixer}" if isinstance(made, Attempt) else f"the scouting of {made.searcher}"
    total = total_usd(receipt.cost_usd for receipt in step.receipts)
    # A scouting without a call may cost all the same, such as a machine's time.
    if made.cost_usd != total and (step.receipts or isinstance(made, Attempt)):
        yield (
            f"{name} (step {step.id}) says {_usd(made.cost_usd)}, "
            f"its {len(step.receipts)} receipts sum to {_usd(total)}"
        )
    if made.receipts != step.receipts:
        yield (
            f"{name} (step {step.id}) holds {len(made.receipts)} receipts "
            f"({_usd(total_usd(receipt.cost_usd for receipt in made.receipts))}) that differ from the "
            f"{len(step.receipts)} booked ({_usd(total)})"
        )


def _in_run(stored: Run, derived: Run) -> Iterator[str]:
    if stored.cost_usd != derived.cost_usd:
        yield f"it was closed at {_usd(stored.cost_usd)}, its receipts and scouting sum to {_usd(derived.cost_usd)}"
    for field in Run.model_fields:
        if field != "cost_usd" and getattr(stored, field) != getattr(derived, field):
            yield f"`{field}` differs between the closed run and its steps"


def _usd(amount: Decimal | None) -> str:
    return "an unknown cost" if amount is None else f"${amount:f}"
