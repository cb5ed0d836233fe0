"""The one-call fixer against the stand-in: which answers win, what is asked again, and what at a cap is submitted."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

import scrout
from scrout.config.settings import Settings
from scrout.fix.repair.source import statements
from scrout.fix.repair.suspects import Suspect
from scrout.fix.single.suspected import rank_functions
from scrout.models.scripted import ScriptedEndpoint, ScriptedReply
from scrout.money import Usage
from scrout.records import Run
from scrout.sandbox.tier import Tier

FILES = {
    "cart.py": "def first(prices):\n    return prices[0]\n\n\ndef total(prices):\n    return sum(prices[1:])\n",
    "test_cart.py": (
        "import unittest\n\nfrom cart import first, total\n\n\nclass CartTest(unittest.TestCase):\n"
        "    def test_empty(self):\n        self.assertEqual(total([]), 0)\n\n"
        "    def test_first(self):\n        self.assertEqual(first([3, 4]), 3)\n"
    ),
}
ISSUE = (
    "total leaves out the first price\n\n```python\nfrom cart import total\n\n"
    "assert total([1, 2]) == 3, total([1, 2])\n```\n\nAssertionError: 2\n"
)
USAGE = Usage(input_tokens=700, output_tokens=60)


def answer(replace: str, search: str = "    return sum(prices[1:])") -> ScriptedReply:
    return ScriptedReply(f"cart.py\n<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE", usage=USAGE)


WRONG, RIGHT = answer("    return sum(prices[2:])"), answer("    return sum(prices)")


@pytest.fixture
def solve(make_repo: Callable[..., Path], tier: Tier) -> Callable[..., Run]:
    def solve(
        endpoint: ScriptedEndpoint, issue: str = ISSUE, files: Mapping[str, str | bytes] = FILES, **keys: object
    ) -> Run:
        entry = {"name": "one", "kind": "single", "model": "toy", "base_url": endpoint.base_url}
        price = {"input": 1, "output": 2}
        settings = Settings.model_validate({"fixers": [entry | {"price": price} | keys]})
        return scrout.solve_issue(make_repo(files), issue, settings)

    return solve


def prompts(endpoint: ScriptedEndpoint) -> list[str]:
    return [json.loads(request.body)["messages"][-1]["content"] for request in endpoint.requests]


def test_one_call_solves_it(solve: Callable[..., Run]) -> None:
    with ScriptedEndpoint([RIGHT]) as endpoint:
        run = solve(endpoint)
    assert run.outcome == "solved" and "+    return sum(prices)" in run.patch
    (attempt,) = run.attempts
    assert (attempt.stop, attempt.calls) == ("finished", 1) and attempt.cost_usd == sum(
        receipt.cost_usd or 0 for receipt in attempt.receipts
    )
    (prompt,) = prompts(endpoint)
    assert (
        "total leaves out the first price" in prompt
        and "AssertionError" in prompt
        and "return sum(prices[1:])" in prompt
    )


@pytest.mark.parametrize(
    ("script", "calls"),
    [([WRONG, RIGHT], 2), ([ScriptedReply("No idea.", usage=USAGE), RIGHT], 2)],
    ids=["wrong", "unusable"],
)
def test_the_next_answer_is_tried(solve: Callable[..., Run], script: Sequence[ScriptedReply], calls: int) -> None:
    with ScriptedEndpoint(script) as endpoint:
        run = solve(endpoint)
    assert (run.outcome, run.attempts[0].calls) == ("solved", calls), run.attempts[0].detail


def test_an_unusable_answer_is_told_why(solve: Callable[..., Run]) -> None:
    with ScriptedEndpoint([answer("x", search="    return mean(prices)"), RIGHT]) as endpoint:
        assert solve(endpoint).outcome == "solved"
    assert "not in cart.py: 'return mean(prices)'" in prompts(endpoint)[1]


def test_wrong_answers_alone_are_no_solution(solve: Callable[..., Run]) -> None:
    with ScriptedEndpoint([WRONG] * 3) as endpoint:
        run = solve(endpoint)
    assert run.outcome == "not_solved" and run.attempts[0].calls == 3
    assert "the check calls failed" in run.attempts[0].detail


def test_at_a_cap_the_best_answer_so_far_is_submitted(solve: Callable[..., Run]) -> None:
    with ScriptedEndpoint([WRONG, RIGHT]) as endpoint:
        run = solve(endpoint, cap_calls=1)
    assert run.attempts[0].stop == "cap_calls" and "+    return sum(prices[2:])" in run.patch


def test_without_a_reproduction_the_first_usable_answer_is_unverified(solve: Callable[..., Run]) -> None:
    with ScriptedEndpoint([RIGHT]) as endpoint:
        run = solve(endpoint, issue="The function total in cart.py leaves out the first price")
    assert (run.outcome, run.attempts[0].calls) == ("unverified", 1)


def test_bytes_that_are_no_utf8_stay_what_they_are(solve: Callable[..., Run]) -> None:
    cart = b"# -*- coding: latin-1 -*-\nNAME = 'caf\xe9'\n\n\n" + FILES["cart.py"].encode()
    with ScriptedEndpoint([RIGHT] * 3) as endpoint:
        run = solve(endpoint, files=FILES | {"cart.py": cart})
    assert [line for line in run.patch.splitlines() if line.startswith("-") and "---" not in line] == [
        "-    return sum(prices[1:])"
    ]


def test_functions_with_the_words_of_the_report_come_first() -> None:
    code = b"def parse_date(text):\n    return split(text)\n\ndef split(text):\n    return text.split()\n"
    suspects = [suspect("a.py", code, line, score) for line, score in ((5, 1.0), (2, 0.8))]
    read = {"a.py": code}.get
    assert [one.name for one in rank_functions(suspects, "It fails.", read)] == ["split", "parse_date"]
    assert [one.name for one in rank_functions(suspects, "parse_date takes no date", read)] == ["parse_date", "split"]
    assert rank_functions([], "It fails.", read) == []


def suspect(path: str, code: bytes, line: int, score: float) -> Suspect:
    found = next(one for one in statements(code.decode()) if one.first_line == line)
    return Suspect(path, found, score)
