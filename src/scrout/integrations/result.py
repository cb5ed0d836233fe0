"""What `work` leaves for `publish`: one JSON file, with a bound on everything in it.

`publish` reads it as if an attacker had written it: whoever breaks out of the sandbox in `work` can.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, ValidationError

from scrout import __version__
from scrout.base import FrozenModel, ScroutError
from scrout.integrations.admission import Admission
from scrout.integrations.event import Event
from scrout.integrations.forge import ForgeError
from scrout.integrations.label_rules import Verb
from scrout.integrations.markdown import plain
from scrout.money import Component, Receipt, Usd, total_usd
from scrout.records import Attempt, Check, CheckOutcome, Run, RunOutcome, ScoutStop, Stop, Verdict
from scrout.redact import redact
from scrout.text import usd

MAX_BYTES = 4_000_000
MAX_PATCH_CHARS = 500_000
MAX_HANDOFF_CHARS = 6_000
MAX_CANDIDATES = 20
MAX_NOTES = 10
MAX_ROWS = 40

Name = Annotated[str, StringConstraints(max_length=100)]
Line = Annotated[str, StringConstraints(max_length=500)]


class CandidateSummary(FrozenModel):
    """A fixer as the router saw it."""

    fixer: Name
    p_solve: float | None = Field(ge=0, le=1)
    cost_usd: Usd | None = Field(ge=0, lt=100_000)
    reason: Line


class DecisionSummary(FrozenModel):
    """The decision."""

    fixer: Name
    reason: Line
    offers: tuple[CandidateSummary, ...] = Field(max_length=MAX_CANDIDATES)


class HandoffSummary(FrozenModel):
    """The handoff, after the gate."""

    text: Annotated[str, StringConstraints(max_length=MAX_HANDOFF_CHARS)]
    searcher: Name
    stop: ScoutStop
    detail: Line
    verdict: Verdict | Literal["not_replayed"]
    reason: Line


class AttemptSummary(FrozenModel):
    """The last attempt."""

    fixer: Name
    stop: Stop
    detail: Line
    calls: int = Field(ge=0, lt=1_000_000)
    seconds: float = Field(ge=0, lt=1e7)


class CheckSummary(FrozenModel):
    """Its check."""

    outcome: CheckOutcome
    reproduction: Literal["passes", "fails", "none"]
    tests: Literal["pass", "fail", "none", "not_run"]
    tests_run: int = Field(ge=0, lt=10_000_000)
    detail: Line
    flags: tuple[Line, ...] = Field(max_length=MAX_NOTES)
    agreement: tuple[Line, ...] = Field(default=(), max_length=MAX_NOTES)
    doubts: tuple[Line, ...] = Field(default=(), max_length=MAX_NOTES)
    missing: tuple[Line, ...] = Field(default=(), max_length=MAX_NOTES)


class ReceiptSummary(FrozenModel):
    """The receipts of one model at one stage, added up."""

    component: Component
    fixer: Name
    model: Name
    calls: int = Field(ge=0, lt=1_000_000)
    prompt_tokens: int = Field(ge=0, lt=10**12)
    output_tokens: int = Field(ge=0, lt=10**12)
    cost_usd: Usd | None = Field(ge=0, lt=100_000)
    """None: a call had no known price."""


class WorkResult(FrozenModel):
    """All that `publish` may learn of the work."""

    version: Literal[1] = 1
    key: Annotated[str, StringConstraints(max_length=40)]
    """Of the admission that it was made for."""
    verb: Verb
    issue: int = Field(gt=0)
    digest: Annotated[str, StringConstraints(max_length=64)]
    commit: Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})$")]
    """What the patch is for."""
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
    """Why a patch that was made is not here; empty: it is, or none was made."""
    rows: tuple[ReceiptSummary, ...] = Field(default=(), max_length=MAX_ROWS)
    cost_usd: Usd | None = Field(default=Decimal(0), ge=0, lt=100_000)
    """None: unknown."""
    scrout: Name = __version__


def result_of(run: Run, receipts: Iterable[Receipt], admission: Admission, verb: Verb) -> WorkResult:
    """What a run came to, cut to the bounds and without secrets."""
    patch, withheld = _patch(run.patch)
    last = run.attempts[-1] if run.attempts else None
    check = run.checks[-1] if run.checks else None
    return WorkResult(
        key=admission.key,
        verb=verb,
        issue=admission.issue,
        digest=admission.digest,
        commit=run.task.base_commit,
        run=run.id,
        outcome="scouted" if verb == "scout" else run.outcome,
        sandbox=_name(run.sandbox),
        environment=_line(run.environment),
        scouted=_scouted(run),
        chosen=_chosen(run),
        tried=_tried(last) if last else None,
        checked=_checked(check) if check else None,
        patch=patch,
        withheld=withheld,
        rows=rows_of(receipts),
        cost_usd=run.cost_usd,
    )


def failure_of(
    error: ScroutError, admission: Admission, verb: Verb, commit: str, *, cost_usd: Decimal | None = Decimal(0)
) -> WorkResult:
    """That scrout could not work, and why. `cost_usd` is what it cost until then; None: nobody knows."""
    return WorkResult(
        key=admission.key,
        verb=verb,
        issue=admission.issue,
        digest=admission.digest,
        commit=commit,
        run="",
        outcome="failed",
        error=_line(str(error)),
        cost_usd=cost_usd,
    )


def read_result(path: Path, event: Event, admission: Admission, commit: str) -> WorkResult:
    """The result, if it is one, is bounded, and is of this admission; else a ForgeError."""
    try:
        # The artifact may hold a link or a pipe in the file's place.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise ForgeError(f"there is no result in {path.name}: {error.strerror}. Look at the job `work`.") from None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ForgeError(f"the result {path.name} is no file. Look at the job `work`.")
        with os.fdopen(handle, "rb", closefd=False) as file:
            raw = file.read(MAX_BYTES + 1)
    finally:
        os.close(handle)
    if len(raw) > MAX_BYTES:
        raise ForgeError(f"the result has more than {MAX_BYTES:,} bytes. Look at the job `work`.")
    try:
        result = WorkResult.model_validate_json(raw)
    except (ValidationError, RecursionError) as error:
        where = ""
        if isinstance(error, ValidationError):
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            where = f" ({plain('.'.join(map(str, first['loc'][:6])), 100) or 'as a whole'})"
        raise ForgeError(f"the result is not of the form that `scrout forge work` writes{where}.") from None
    expected = (admission.key, admission.verb, event.number, event.digest, commit)
    if (result.key, result.verb, result.issue, result.digest, result.commit) != expected:
        raise ForgeError("the result is of another run, issue or commit than this one.")
    if result.cost_usd is not None and result.cost_usd > admission.held_usd:
        claimed, held = usd(result.cost_usd, exact=True), usd(admission.held_usd, exact=True)
        raise ForgeError(f"the result claims a cost of {claimed}, and the run may cost {held}.")
    return result


def _patch(patch: str) -> tuple[str, str]:
    """The patch, or why it stays here. It is never changed: one with a part cut out is another patch."""
    try:
        patch.encode()
    except UnicodeEncodeError:
        return "", "it changes a file that is not UTF-8"
    if len(patch) > MAX_PATCH_CHARS:
        return "", f"it has {len(patch):,} characters; at most {MAX_PATCH_CHARS:,} are published"
    added = "\n".join(line for line in patch.split("\n") if line.startswith("+"))
    # Only here the key's own value is known.
    if redact(added) != added or redact(patch) != patch:
        return "", "it holds what looks like a secret"
    return patch, ""


def _tried(last: Attempt) -> AttemptSummary:
    return AttemptSummary(
        fixer=_name(last.fixer), stop=last.stop, detail=_line(last.detail), calls=last.calls, seconds=last.seconds
    )


def _checked(check: Check) -> CheckSummary:
    return CheckSummary(
        outcome=check.outcome,
        reproduction=check.reproduction,
        tests=check.tests,
        tests_run=check.tests_run,
        detail=_line(check.detail),
        flags=tuple(map(_line, check.flags[:MAX_NOTES])),
        agreement=tuple(map(_line, check.agreement[:MAX_NOTES])),
        doubts=tuple(map(_line, check.doubts[:MAX_NOTES])),
        missing=tuple(map(_line, check.missing[:MAX_NOTES])),
    )


def _scouted(run: Run) -> HandoffSummary | None:
    if run.scouting is None or run.gated is None:
        return None
    return HandoffSummary(
        text=plain(run.gated.text, MAX_HANDOFF_CHARS, lines=True),
        searcher=_name(run.scouting.searcher),
        stop=run.scouting.stop,
        detail=_line(run.scouting.detail),
        verdict=run.gated.verdict,
        reason=_line(run.gated.reason),
    )


def _chosen(run: Run) -> DecisionSummary | None:
    if run.decision is None:
        return None
    offers = tuple(
        CandidateSummary(
            fixer=_name(one.fixer),
            p_solve=one.p_solve,
            cost_usd=one.expected_cost_usd,
            reason=_line(one.reason),
        )
        for one in run.decision.candidates[:MAX_CANDIDATES]
    )
    return DecisionSummary(fixer=_name(run.decision.fixer), reason=_line(run.decision.reason), offers=offers)


def rows_of(receipts: Iterable[Receipt]) -> tuple[ReceiptSummary, ...]:
    """A row for each stage, fixer and model."""
    by_name: dict[tuple[Component, str, str], list[Receipt]] = {}
    for receipt in receipts:
        by_name.setdefault((receipt.component, receipt.fixer or "", receipt.model), []).append(receipt)
    return tuple(_row(*name, some) for name, some in list(by_name.items())[:MAX_ROWS])


def _row(component: Component, fixer: str, model: str, receipts: Sequence[Receipt]) -> ReceiptSummary:
    return ReceiptSummary(
        component=component,
        fixer=_name(fixer),
        model=_name(model),
        calls=len(receipts),
        prompt_tokens=sum(receipt.usage.prompt_tokens for receipt in receipts),
        output_tokens=sum(receipt.usage.output_tokens + receipt.usage.reasoning_tokens for receipt in receipts),
        cost_usd=total_usd(receipt.cost_usd for receipt in receipts),
    )


def _name(text: str) -> str:
    return plain(text, 100)


def _line(text: str) -> str:
    return plain(text, 500)
