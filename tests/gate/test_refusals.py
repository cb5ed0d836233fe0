"""The repository says no: a bug if the issue is about that, a mistake of the reproduction's if it is not."""

from __future__ import annotations

import pytest

from scrout.config.settings import GateSettings
from scrout.gate.gate import gate
from scrout.gate.observation import reported
from scrout.handoff import Handoff, Reproduction
from scrout.records import Evidence, GatedHandoff
from scrout.sandbox.task_sandbox import TaskSandbox
from scrout.task import Task

Till = tuple[Task, TaskSandbox]
VALUE = "Wrong price\n\n`price('7')` gives `7`, not `8`."
OTHER_TYPE = "Wrong price\n\n`price('7')` dies with `ZeroDivisionError: division by zero`."
OTHER_MESSAGE = "ValueError in price\n\n```\n>>> price('7')\nValueError: the till is shut\n```"


async def gated(till: Till, issue: str, script: str, observed: str | None = None) -> GatedHandoff:
    """What becomes of a script whose scout honestly says what it saw, unless told otherwise."""
    task, task_sandbox = till
    files = {"shows_it.py": f"from till import shelf\n{script}\n"}
    if observed is None:
        claim = Reproduction(files=files, command="python shows_it.py", claim=True)
        first = await gate(task, Handoff(reproduction=claim), task_sandbox, GateSettings())
        observed = _last_line(first.evidence)
    claim = Reproduction(files=files, command="python shows_it.py", claim=True, observed=observed)
    task = task.model_copy(update={"text": issue})
    return await gate(task, Handoff(reproduction=claim), task_sandbox, GateSettings())


def _last_line(evidence: Evidence) -> str:
    return evidence.output_tail.strip().splitlines()[-1]


@pytest.mark.parametrize("issue", [VALUE, OTHER_TYPE, OTHER_MESSAGE], ids=["value", "type", "message"])
@pytest.mark.parametrize(
    "script",
    [
        "shelf.reproduce_bug('7')",  # refused by the module's __getattr__
        "shelf.price(7)",  # by a check, some calls down
        "shelf.find('pear')",  # with an exception of the package's own
        "shelf.Shelf(1, 2, no_such_option=True)",  # by what its arguments were handed on to
        "try:\n    shelf.price(7)\nexcept ValueError as error:\n    raise RuntimeError('the bug') from error",
    ],
    ids=["name", "check", "own type", "handed on", "raised from"],
)
async def test_a_refusal_that_the_issue_is_not_about_is_not_kept(issue: str, script: str, till: Till) -> None:
    found = await gated(till, issue, script)
    assert found.verdict == "unrelated_failure", found.reason
    assert "refused" in found.reason


@pytest.mark.parametrize(
    ("issue", "script"),
    [
        ("price(7) is refused\n\nI get a ValueError, but 7 is a price.", "shelf.price(7)"),
        ("ValueError: price does not take numbers", "shelf.price(7)"),  # what follows in a title is prose
        ("price fails\n\n```\nValueError: not a price: 12\n```", "shelf.price(7)"),  # the same, of another value
        ("Goods are missing\n\n`find('apple')` ends in till.shelf.NoSuchGoods", "shelf.find('apple')"),
        ("Cannot look up\n\nIt says: module 'till.shelf' has no attribute 'sale'", "shelf.sale(1)"),
        ("Shelf: TypeError when given two lists", "shelf.Shelf([], [])"),
        ("price crashes when I give it a number", "shelf.price(7)"),
        ("It dies\n\nSince today `ValueError: not a price: 7`.", "try:\n    shelf.price(7)\nexcept ValueError as e:\n"
         "    raise RuntimeError('the bug') from e"),
    ],
)  # fmt: skip
async def test_a_refusal_that_the_issue_is_about_is_kept(issue: str, script: str, till: Till) -> None:
    found = await gated(till, issue, script)
    assert found.verdict == "real_failure", found.reason


@pytest.mark.parametrize(
    ("issue", "observed"),
    [
        ("price crashes when I give it a number", "Segmentation fault"),  # the scout saw something else
        ("total crashes when I give it a number", None),  # of another function
        ("price gives 7 for a number", None),  # of no failure at all
    ],
)
async def test_prose_must_speak_of_it(issue: str, observed: str | None, till: Till) -> None:
    found = await gated(till, issue, "shelf.price(7)", observed)
    assert found.verdict == "unrelated_failure", found.reason


async def test_an_exception_that_is_no_refusal_needs_no_issue(till: Till) -> None:
    found = await gated(till, VALUE, "shelf.price('seven')")  # int() raises it, nobody meant to
    assert found.verdict == "real_failure", found.reason


async def test_without_an_issue_nothing_disagrees(till: Till) -> None:
    assert (await gated(till, " ", "shelf.price(7)")).verdict == "real_failure"


async def test_a_caught_refusal_of_the_reported_type_is_not_the_reported_one(till: Till) -> None:
    script = "try:\n    shelf.price(7)\nexcept ValueError as error:\n    print('ValueError:', error)"
    assert (await gated(till, OTHER_MESSAGE, script)).verdict == "passed"
    same = OTHER_MESSAGE.replace("the till is shut", "not a price: 9")
    assert (await gated(till, same, script)).verdict == "reproduced_exit_zero"


@pytest.mark.parametrize(
    ("message", "issue", "told"),
    [
        ("bad", "A KeyError", True),
        ("bad", "A MyKeyError", False),
        ("no coins left", "Dies\n\nKeyError: no coins\nand KeyError elsewhere", True),
        ("no coins left", "Dies\n\nKeyError: wrong drawer", False),
        ("no coins left", "It says:\nno coins   left", True),
        ("a", "It says a", False),
        ("", "Dies\n\nKeyError: wrong drawer", True),
    ],
)
def test_what_an_issue_tells_of(message: str, issue: str, told: bool) -> None:
    assert reported("KeyError", message, issue) is told
