"""Among edits that pass, the one with the most evidence is taken; where nothing tells them apart, none is."""

from __future__ import annotations

import pytest

from scrout.fix.repair.choice import Survivor, best, standing
from scrout.fix.repair.place import Edit

SOURCE = "def f(a):\n    return a < 1\n"


def survivor(
    kind: str = "boundary",
    before: str = "<",
    after: str = "<=",
    *,
    line: int = 2,
    score: float = 1.0,
    tested: bool = True,
) -> Survivor:
    return Survivor("m.py", line, SOURCE, Edit(line, kind, score, 0, len(before), before, after), score, tested)


def chosen(*survivors: Survivor, spoken: tuple[str, ...] = ()) -> int | None:
    return best(survivors, [standing(one, spoken) for one in survivors])


def test_the_likelier_one_of_a_statement_is_taken() -> None:
    assert chosen(survivor(score=0.3), survivor(score=0.5), survivor(score=0.4)) == 1
    assert chosen(survivor(score=0.3), survivor(score=0.3)) == 0, "among equals the first in order"


@pytest.mark.parametrize(
    "doubtful",
    [
        survivor("negation", "a", "not a"),
        survivor("comparison", "is", "is not"),
        survivor("comparison", "not  in", "in"),
        survivor("constant", "True", "False"),
        survivor("condition", " and a.x", ""),
        survivor("keyword", ", b=1", ""),
        survivor("returned", "g()", "a"),
        survivor("early exit", "", "if a:\n        return\n    "),
        survivor(tested=False),
    ],
    ids=lambda one: one.edit.kind,
)
def test_typical_accidents_give_way_to_an_edit_that_is_somewhat_less_likely(doubtful: Survivor) -> None:
    assert chosen(doubtful, survivor(score=0.9)) == 1
    assert chosen(doubtful) == 0, "alone it may be taken"


def test_alone_and_unlikely_it_is_not_taken() -> None:
    assert chosen(survivor("arithmetic", "+", "-", score=0.14)) is None
    assert chosen(survivor("arithmetic", "+", "-", score=0.14), survivor("keyword", "", ", b=b", score=0.05)) == 1
    assert chosen(survivor("keyword", "", ", b=b", score=0.05)) == 0, "what is no typical accident needs no more"


def test_a_special_case_for_the_reproduction_gives_way() -> None:
    special = survivor("string", "'a'", "'given'")
    assert chosen(special, survivor(score=0.5), spoken=("given",)) == 1
    assert chosen(special, survivor(score=0.5), spoken=("other",)) == 0


def test_three_equal_places_say_nothing() -> None:
    assert chosen(*(survivor(line=line) for line in (2, 4))) == 0
    assert chosen(*(survivor(line=line) for line in (2, 4, 6))) is None


def test_several_edits_of_one_statement_speak_for_the_place() -> None:
    others = [survivor(line=line) for line in (4, 6)]
    assert chosen(survivor(score=1.1), survivor("constant", "1", "2", score=0.3), *others) == 0


def test_a_clear_one_stands_against_many_faint_ones() -> None:
    faint = [survivor(line=line, score=0.3) for line in range(4, 20)]
    assert chosen(*faint, survivor(score=0.6)) == len(faint)


def test_of_nothing_nothing_is_taken() -> None:
    assert chosen() is None
