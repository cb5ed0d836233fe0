"""Among edits that pass, the one with the most evidence comes first; what may be an accident is not proposed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scrout.fix.repair.choice import Survivor, can_stand
from scrout.fix.repair.edit_site import Edit

SOURCE = "def f(a):\n    return a < 1\n"


def survivor(
    kind: str = "boundary", before: str = "<", after: str = "<=", *, score: float = 1.0, tested: bool = True
) -> Survivor:
    return Survivor("m.py", 2, SOURCE, Edit(2, kind, score, 0, len(before), before, after), score, tested)


@pytest.mark.parametrize(
    "doubtful",
    [
        survivor("negation", "a", "not a"),
        survivor("comparison", "is", "is not"),
        survivor("comparison", "not  in", "in"),
        survivor("constant", "True", "False"),
        survivor("default", "a", "a or ()"),
        survivor("keyword", ", b=1", ""),
        survivor("reused", "", "a.check()\n    "),
    ],
    ids=lambda one: one.edit.kind,
)
def test_typical_accidents_give_way_to_an_edit_that_is_somewhat_less_likely(doubtful: Survivor) -> None:
    assert 0 < can_stand(doubtful, ()) < can_stand(survivor(score=0.9), ())


def test_a_typical_accident_that_is_unlikely_is_not_proposed() -> None:
    assert can_stand(survivor("arithmetic", "+", "-", score=0.14), ()) == 0
    assert can_stand(survivor("keyword", "", ", b=b", score=0.05), ()) > 0, "what is no typical accident needs no more"


def test_what_no_passing_test_runs_is_not_proposed() -> None:
    assert can_stand(survivor(tested=False), ()) == 0


@pytest.mark.parametrize("quote", "'\"")
def test_a_special_case_for_the_reproduction_is_not_proposed(quote: str) -> None:
    special = survivor("string", "'a'", f"{quote}given{quote}")
    assert can_stand(special, ("given",)) == 0
    assert can_stand(special, ("a Given one",)) == 0
    assert can_stand(special, ("other", "give")) > 0
    known = replace(special, source=f"{SOURCE}NAME = 'given'\n")
    assert can_stand(known, ("given",)) > 0


@pytest.mark.parametrize("kind", ["boundary", "arithmetic", "variable", "keyword", "no such kind"])
def test_nothing_stands_above_its_score(kind: str) -> None:
    """The search stops by this: what is left to try can be no better than its score."""
    assert can_stand(survivor(kind, score=0.5), ()) <= 0.5
