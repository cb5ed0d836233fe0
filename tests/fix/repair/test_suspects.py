"""Suspicion: what only the failing run executed, what the scout named and where the exception came from rank first."""

from __future__ import annotations

from scrout.fix.repair.suspects import MOST_SUSPECTS, Suspect, escaped, rank
from scrout.handoff import FileRef, Handoff
from scrout.sandbox.replay import ExecutionTrace, Raised

SOURCE = """\
LIMIT = 3

def f(a):
    b = a + 1
    if (b >
            LIMIT):
        b = 0
    return b
"""


def execution_trace(*lines: int, path: str = "m.py", raised: tuple[Raised, ...] = ()) -> ExecutionTrace:
    return ExecutionTrace({path: frozenset(lines)}, raised)


def first_lines(suspects: tuple[Suspect, ...]) -> list[int]:
    return [suspect.first_line for suspect in suspects]


def test_only_statements_that_ran_are_suspected_and_one_over_two_lines_once() -> None:
    suspects = rank({"m.py": SOURCE}, execution_trace(1, 4, 6, 5, 8), {}, Handoff())
    assert first_lines(suspects) == [4, 5, 8, 1]
    assert [(one.first_line, one.last_line) for one in suspects if one.first_line == 5] == [(5, 6)]
    assert suspects[0].score == 1.0 > suspects[-1].score


def test_what_passing_tests_run_too_is_suspected_less() -> None:
    passing = {"m.py": {4: 2, 5: 1, 7: 1, 8: 2}}
    suspects = rank({"m.py": SOURCE}, execution_trace(4, 5, 7, 8), passing, Handoff())
    assert first_lines(suspects) == [5, 7, 4, 8]


def test_a_condition_is_suspected_for_the_way_it_led() -> None:
    passing = {"m.py": {4: 9, 5: 9, 6: 9, 7: 9, 8: 9}}
    not_entered = rank({"m.py": SOURCE}, execution_trace(4, 5, 6, 8), passing, Handoff())
    assert first_lines(not_entered)[0] == 5, "no passing test went past it"
    entered = rank({"m.py": SOURCE}, execution_trace(4, 5, 6, 7, 8), {"m.py": {4: 9, 5: 9, 6: 9, 8: 9}}, Handoff())
    assert first_lines(entered)[:2] == [7, 5], "only the failing run entered"


def test_the_condition_of_a_raise_shares_its_blame() -> None:
    source = "def f(a):\n    b = a\n    if a > 3:\n        raise ValueError(a)\n    return b\n"
    frame = Raised("m.py", 4, "f", "ValueError", "4")
    suspects = rank({"m.py": source}, execution_trace(2, 3, 4, raised=(frame,)), {}, Handoff())
    assert first_lines(suspects) == [3, 4, 2]


def test_the_handoff_raises_its_files_and_most_its_regions() -> None:
    sources = {"a.py": SOURCE, "m.py": SOURCE}
    failing = ExecutionTrace({"a.py": frozenset({4}), "m.py": frozenset({4, 8})}, ())
    handoff = Handoff(files=(FileRef(path="m.py", regions=((8, 9),)),))
    suspects = rank(sources, failing, {}, handoff)
    assert [(one.path, one.first_line) for one in suspects] == [("m.py", 8), ("m.py", 4), ("a.py", 4)]


def test_the_frames_of_an_escaped_exception_come_first_innermost_leading() -> None:
    caught = Raised("m.py", 4, "f", "KeyError", "'k'")
    inner = Raised("m.py", 7, "f", "ValueError", "bad")
    outer = Raised("m.py", 8, "f", "ValueError", "bad")
    at_last = Raised("repro.py", 2, "<module>", "ValueError", "bad")
    raised = (caught, inner, outer, at_last)
    assert escaped(raised, {"repro.py"}) == (inner, outer)
    suspects = rank({"m.py": SOURCE}, execution_trace(4, 5, 7, 8, raised=raised), {}, Handoff(), {"repro.py"})
    assert first_lines(suspects) == [7, 8, 4, 5]


def test_an_exception_of_the_reproductions_own_blames_no_frame() -> None:
    caught = Raised("m.py", 4, "f", "KeyError", "'k'")
    own = Raised("repro.py", 2, "<module>", "AssertionError", "")
    assert escaped((caught, own), {"repro.py"}) == ()
    assert escaped((caught,), {"repro.py"}) == ()


def test_the_number_of_suspects_is_bounded() -> None:
    source = "def f():\n" + "    g()\n" * 500
    assert len(rank({"m.py": source}, execution_trace(*range(2, 502)), {}, Handoff())) == MOST_SUSPECTS
