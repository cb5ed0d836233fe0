"""Answers at their largest: within the bound, whole where half would be wrong, and sendable."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from scrout.handoff import FileRef, Handoff, Reproduction, render
from scrout.records import Attempt, Candidate, Check, Decision, Evidence, GatedHandoff, Run, Scouting
from scrout.server.mcp.answers import MAX_CHARS, ToolResult, fixed, gated, routed, scouted
from scrout.server.service import ServiceResult
from scrout.task import Task

LONG = 'quotes " and \\ backslashes\n\t' * 500
HANDOFF = Handoff(
    files=tuple(FileRef(path=f"folder/{number}/{'x' * 50}.py", why=LONG, confidence=0.5) for number in range(200)),
    reproduction=Reproduction(command="python a.py", claim=True, observed=LONG, files={"a.py": LONG}),
    notes=LONG,
)
NOTES = (LONG,) * 20


def must_fit(answer: ToolResult) -> None:
    assert len(answer.text) <= MAX_CHARS
    written = json.dumps(answer.data, ensure_ascii=False)
    assert len(written) <= MAX_CHARS
    (answer.text + written).encode()  # a client gets UTF-8


def run_with(patch: str) -> Run:
    attempt = Attempt(fixer="toy" * 100, patch=patch, stop="finished", detail=LONG, seconds=1, cost_usd=Decimal("0.5"))
    check = Check(outcome="passed", applies=True, reproduction="passes", tests="pass", detail=LONG, flags=(LONG,) * 30)
    return Run(
        id="20260101-000000-abcdef",
        task=Task(id="t", text=LONG, repo=Path("/repo"), base_commit="0" * 40),
        settings_digest="d",
        started=datetime.now(UTC),
        sandbox="bubblewrap",
        environment="none",
        attempts=(attempt,),
        checks=(check,),
        outcome="solved",
        cost_usd=Decimal("0.5"),
    )


def test_the_longest_scouting() -> None:
    scouting = Scouting(handoff=HANDOFF, text=render(HANDOFF), seconds=1, searcher=LONG)
    must_fit(scouted(ServiceResult("20260101-000000-abcdef", NOTES, scouting)))


def test_a_scouting_that_found_nothing() -> None:
    answer = scouted(ServiceResult("20260101-000000-abcdef", (), Scouting(handoff=Handoff(), text="", seconds=1)))
    must_fit(answer)
    assert "0 files, no failing command" in answer.text


def test_the_longest_verdict() -> None:
    result = GatedHandoff(
        verdict="real_failure",
        kept=True,
        materialized=True,
        reason=LONG,
        evidence=Evidence(command=LONG, exit_code=1, runs=2, output_tail=LONG),
        handoff=HANDOFF,
        text=render(HANDOFF),
        flags=NOTES,
    )
    must_fit(gated(ServiceResult("20260101-000000-abcdef", NOTES, result)))


def test_the_longest_decision() -> None:
    one = Candidate(fixer="toy", p_solve=0.5, expected_cost_usd=Decimal("0.1"), reason=LONG)
    others = tuple(one.model_copy(update={"fixer": f"fixer-{number}-{'y' * 900}"}) for number in range(300))
    made = Decision(fixer="toy", theta=0.3, degraded=False, fallback=False, reason=LONG, candidates=(one, *others))
    must_fit(routed(made))


@pytest.mark.parametrize("length", [100, 4_900, 5_100, 200_000])
def test_a_patch_is_whole_or_elsewhere(length: int) -> None:
    patch = "+" + "x" * length + "\n"
    answer = fixed(ServiceResult("20260101-000000-abcdef", NOTES, run_with(patch)))
    must_fit(answer)
    untrusted = answer.data["untrusted"]
    assert isinstance(untrusted, dict)
    assert untrusted.get("patch") == (patch if length <= 4_900 else None)
    assert ("read scrout://runs/20260101-000000-abcdef/patch" in answer.text) == (length > 4_900)


def test_a_patch_that_is_no_text_and_one_with_a_secret() -> None:
    must_fit(fixed(ServiceResult("20260101-000000-abcdef", (), run_with("+caf\udce9\r\n"))))
    answer = fixed(
        ServiceResult("20260101-000000-abcdef", (), run_with("+key = 'ghp_0123456789abcdefghijABCDEFGHIJ012345'\n"))
    )
    must_fit(answer)
    assert "ghp_0123" not in answer.text + json.dumps(answer.data) and "Secrets were cut" in answer.text
