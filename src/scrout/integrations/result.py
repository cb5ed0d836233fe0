"""The result that `work` leaves for `publish`: one JSON file, with limits on everything in it.

`publish` treats it as an attacker's input, because a process that breaks out of the sandbox in `work` can write it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar

from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, StringConstraints, ValidationError, ValidationInfo

from scrout import __version__
from scrout.base import FrozenModel, ScroutError, first_problem
from scrout.integrations.admission import Admission, Verb
from scrout.integrations.event import Event
from scrout.integrations.forge import ForgeError
from scrout.integrations.markdown import plain
from scrout.money import Component, Receipt, Usd, total_usd
from scrout.records import CheckOutcome, Run, RunOutcome, ScoutStop, Stop, Verdict
from scrout.redact import redact
from scrout.text import usd

MAX_BYTES = 4_000_000
MAX_PATCH_CHARS = 500_000
MAX_HANDOFF_CHARS = 6_000
MAX_CANDIDATES = 20
MAX_NOTES = 10
MAX_ROWS = 40

Cleaned = TypeVar("Cleaned", str, tuple[object, ...])


def _made_here(clean: Callable[[Cleaned], Cleaned]) -> BeforeValidator:
    """Values from a record are cut to their limit; values read from the file are refused beyond it."""

    def validate(value: Cleaned, info: ValidationInfo) -> Cleaned:
        return clean(value) if info.mode == "python" else value

    return BeforeValidator(validate)


Name = Annotated[str, _made_here(lambda text: plain(text, 100)), StringConstraints(max_length=100)]
Line = Annotated[str, _made_here(lambda text: plain(text, 500)), StringConstraints(max_length=500)]
Notes = Annotated[tuple[Line, ...], _made_here(lambda notes: notes[:MAX_NOTES]), Field(max_length=MAX_NOTES)]


class _Summary(FrozenModel):
    @classmethod
    def of(cls, record: BaseModel | None) -> Self | None:
        """The fields of a record with the same names."""
        return None if record is None else cls.model_validate(record, from_attributes=True)


class CandidateSummary(_Summary):
    fixer: Name
    p_solve: float | None = Field(ge=0, le=1)
    cost_usd: Usd | None = Field(ge=0, lt=100_000, validation_alias=AliasChoices("cost_usd", "expected_cost_usd"))
    reason: Line


class DecisionSummary(_Summary):
    fixer: Name
    reason: Line
    offers: Annotated[
        tuple[CandidateSummary, ...],
        _made_here(lambda offers: offers[:MAX_CANDIDATES]),
        Field(max_length=MAX_CANDIDATES, validation_alias=AliasChoices("offers", "candidates")),
    ]


class HandoffSummary(FrozenModel):
    """The handoff, after the gate."""

    text: Annotated[
        str,
        _made_here(lambda text: plain(text, MAX_HANDOFF_CHARS, lines=True)),
        StringConstraints(max_length=MAX_HANDOFF_CHARS),
    ]
    searcher: Name
    stop: ScoutStop
    detail: Line
    verdict: Verdict | Literal["not_replayed"]
    reason: Line


class AttemptSummary(_Summary):
    fixer: Name
    stop: Stop
    detail: Line
    calls: int = Field(ge=0, lt=1_000_000)
    seconds: float = Field(ge=0, lt=1e7)


class CheckSummary(_Summary):
    outcome: CheckOutcome
    reproduction: Literal["passes", "fails", "none"]
    tests: Literal["pass", "fail", "none", "not_run"]
    tests_run: int = Field(ge=0, lt=10_000_000)
    detail: Line
    flags: Notes
    agreement: Notes = ()
    doubts: Notes = ()
    missing: Notes = ()


class ReceiptSummary(FrozenModel):
    """The receipts of one model at one stage, added up."""

    component: Component
    fixer: Name
    model: Name
    calls: int = Field(ge=0, lt=1_000_000)
    prompt_tokens: int = Field(ge=0, lt=10**12)
    output_tokens: int = Field(ge=0, lt=10**12)
    cost_usd: Usd | None = Field(ge=0, lt=100_000)


class WorkResult(FrozenModel):
    """Everything that `publish` learns about the work."""

    version: Literal[1] = 1
    key: Annotated[str, StringConstraints(max_length=40)]
    """The id of its admission."""
    verb: Verb
    issue: int = Field(gt=0)
    digest: Annotated[str, StringConstraints(max_length=64)]
    commit: Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})$")]
    run: Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z-]{0,40}$")]
    outcome: RunOutcome | Literal["scouted", "failed"]
    """`failed`: scrout itself could not work, and `error` says why."""
    error: Line = ""
    sandbox: Name = ""
    environment: Line = ""
    scouted: HandoffSummary | None = None
    chosen: DecisionSummary | None = None
    tried: AttemptSummary | None = None
    checked: CheckSummary | None = None
    patch: Annotated[str, StringConstraints(max_length=MAX_PATCH_CHARS)] = ""
    withheld: Line = ""
    """Why an existing patch is not included; empty: it is, or there is none."""
    rows: tuple[ReceiptSummary, ...] = Field(default=(), max_length=MAX_ROWS)
    cost_usd: Usd | None = Field(default=Decimal(0), ge=0, lt=100_000)
    scrout: Name = __version__


def result_of(run: Run, receipts: Iterable[Receipt], admission: Admission, verb: Verb) -> WorkResult:
    """A run's result, cut to the limits and without secrets."""
    patch, withheld = _patch(run.patch)
    return WorkResult(
        key=admission.key,
        verb=verb,
        issue=admission.issue,
        digest=admission.digest,
        commit=run.task.base_commit,
        run=run.id,
        outcome="scouted" if verb == "scout" else run.outcome,
        sandbox=run.sandbox,
        environment=run.environment,
        scouted=_scouted(run),
        chosen=DecisionSummary.of(run.decision),
        tried=AttemptSummary.of(run.attempts[-1] if run.attempts else None),
        checked=CheckSummary.of(run.checks[-1] if run.checks else None),
        patch=patch,
        withheld=withheld,
        rows=rows_of(receipts),
        cost_usd=run.cost_usd,
    )


def failure_of(
    error: ScroutError, admission: Admission, verb: Verb, commit: str, *, cost_usd: Decimal | None = Decimal(0)
) -> WorkResult:
    """The result if scrout could not work. `cost_usd` is the cost until then; None: unknown."""
    return WorkResult(
        key=admission.key,
        verb=verb,
        issue=admission.issue,
        digest=admission.digest,
        commit=commit,
        run="",
        outcome="failed",
        error=str(error),
        cost_usd=cost_usd,
    )


def read_result(path: Path, event: Event, admission: Admission, commit: str) -> WorkResult:
    """The result; raises a ForgeError if it is not valid, too large, or for another admission."""
    try:
        # The artifact may contain a symlink or a pipe instead of the file.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise ForgeError(f"there is no result in {path.name}: {error.strerror}. Look at the job `work`.") from None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ForgeError(f"the result {path.name} is not a file. Look at the job `work`.")
        with os.fdopen(handle, "rb", closefd=False) as file:
            raw = file.read(MAX_BYTES + 1)
    finally:
        os.close(handle)
    if len(raw) > MAX_BYTES:
        raise ForgeError(f"the result has more than {MAX_BYTES:,} bytes. Look at the job `work`.")
    try:
        result = WorkResult.model_validate_json(raw)
    except (ValidationError, RecursionError) as error:
        where = f" ({plain(first_problem(error), 200)})" if isinstance(error, ValidationError) else ""
        raise ForgeError(f"the result is not of the form that `scrout forge work` writes{where}.") from None
    expected = (admission.key, admission.verb, event.number, event.digest, commit)
    if (result.key, result.verb, result.issue, result.digest, result.commit) != expected:
        raise ForgeError("the result belongs to another run, issue or commit. Run the job `work` again.")
    if result.cost_usd is not None and result.cost_usd > admission.held_usd:
        claimed, held = usd(result.cost_usd, exact=True), usd(admission.held_usd, exact=True)
        raise ForgeError(f"the result claims a cost of {claimed}, but the run may cost at most {held}.")
    return result


def _patch(patch: str) -> tuple[str, str]:
    """The patch, or why it is left out. It is never changed, because a shortened patch is another patch."""
    try:
        patch.encode()
    except UnicodeEncodeError:
        return "", "it changes a file that is not UTF-8"
    if len(patch) > MAX_PATCH_CHARS:
        return "", f"it has {len(patch):,} characters; at most {MAX_PATCH_CHARS:,} are published"
    added = "\n".join(line for line in patch.split("\n") if line.startswith("+"))
    # Only this place knows the key's value.
    if redact(added) != added or redact(patch) != patch:
        return "", "it holds what looks like a secret"
    return patch, ""


def _scouted(run: Run) -> HandoffSummary | None:
    if run.scouting is None or run.gated is None:
        return None
    return HandoffSummary(
        text=run.gated.text,
        searcher=run.scouting.searcher,
        stop=run.scouting.stop,
        detail=run.scouting.detail,
        verdict=run.gated.verdict,
        reason=run.gated.reason,
    )


def rows_of(receipts: Iterable[Receipt]) -> tuple[ReceiptSummary, ...]:
    by_name: dict[tuple[Component, str, str], list[Receipt]] = {}
    for receipt in receipts:
        by_name.setdefault((receipt.component, receipt.fixer or "", receipt.model), []).append(receipt)
    return tuple(
        ReceiptSummary(
            component=component,
            fixer=fixer,
            model=model,
            calls=len(some),
            prompt_tokens=sum(receipt.usage.prompt_tokens for receipt in some),
            output_tokens=sum(receipt.usage.output_tokens + receipt.usage.reasoning_tokens for receipt in some),
            cost_usd=total_usd(receipt.cost_usd for receipt in some),
        )
        for (component, fixer, model), some in list(by_name.items())[:MAX_ROWS]
    )
