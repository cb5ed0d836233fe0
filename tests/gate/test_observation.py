"""What the scout says it saw, compared with what the replay showed."""

from __future__ import annotations

import pytest

from scrout.config.settings import GateSettings
from scrout.gate.gate import gate
from scrout.gate.observation import disagreement, overlap
from scrout.handoff import Handoff, Reproduction
from scrout.records import Verdict
from scrout.sandbox.task_sandbox import TaskSandbox
from scrout.task import Task

SEEN = "Traceback (most recent call last):\n  File \"/repo/a.py\", line 3, in f\nKeyError: 'coins'\n"


def test_machines_differ_and_that_is_no_disagreement() -> None:
    said = SEEN.replace("/repo/", "/app/").replace("line 3", "line 17")
    assert overlap(said, SEEN) == 1.0
    assert disagreement(f"OBSERVATION:\n{said}", SEEN) == ""


def test_another_exception_is_told_of() -> None:
    assert disagreement("app.errors.CoinError: no coins", SEEN) == "the scout says it saw CoinError, which was not seen"


def test_nothing_in_common_is_told_of() -> None:
    assert "nothing in common" in disagreement("segmentation fault", SEEN)


def test_no_observation_does_not_disagree() -> None:
    assert overlap("", SEEN) is None
    assert disagreement("", SEEN) == ""


@pytest.mark.parametrize(
    ("observed", "verdict", "remark"),
    [
        ("ZeroDivisionError: division by zero", "real_failure", ""),
        ("KeyError: 'a'", "real_failure", "the scout says it saw KeyError, which was not seen"),
    ],
)
async def test_the_reason_says_so_and_the_verdict_stays(
    observed: str, verdict: Verdict, remark: str, till: tuple[Task, TaskSandbox]
) -> None:
    task, task_sandbox = till
    claim = Reproduction(command='python -c "import till; till.mean([])"', claim=True, observed=observed)
    gated = await gate(task, Handoff(reproduction=claim), task_sandbox, GateSettings())
    assert gated.verdict == verdict
    assert gated.reason.endswith(remark)
    assert ("the scout says" in gated.reason) == bool(remark)


@pytest.mark.parametrize(
    ("observed", "verdict"),
    [
        ("", "real_failure"),  # nothing disagrees
        ("TypeError: 'NoneType' object is not iterable", "real_failure"),
        ("'NoneType' object is not iterable", "real_failure"),
        ("one coin of ten is gone", "unrelated_failure"),
    ],
)
async def test_an_argument_of_the_wrong_type_deep_down_is_no_bug_that_nobody_saw(
    observed: str, verdict: Verdict, till: tuple[Task, TaskSandbox]
) -> None:
    task, task_sandbox = till
    task = task.model_copy(update={"text": "The price of nothing should be zero."})
    claim = Reproduction(
        command='python -c "from till import shelf; shelf.summed(None)"', claim=True, observed=observed
    )
    gated = await gate(task, Handoff(reproduction=claim), task_sandbox, GateSettings())
    assert gated.verdict == verdict, gated.reason
