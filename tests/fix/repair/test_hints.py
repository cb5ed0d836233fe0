"""What a reproduction says about a bug: its words, and the exception that escaped."""

from __future__ import annotations

from scrout.fix.repair.hints import MOST_WORDS, Hints, functions_named, hints
from scrout.sandbox.replay import Raised


def raised(kind: str, message: str) -> tuple[Raised, ...]:
    return (Raised("m.py", 3, "f", kind, message), Raised("m.py", 9, "g", kind, message))


def test_words_come_from_python_only() -> None:
    told = hints(["with raises(KeyError):\n    f('one')\n", "no python ("], ())
    assert told == Hints(strings=("one",), exceptions=("KeyError",))


def test_a_name_without_a_value_is_read_from_the_message() -> None:
    local = "cannot access local variable 'total' where it is not associated with a value"
    assert hints([], raised("UnboundLocalError", local)).unbound == "total"
    assert hints([], raised("NameError", "name 'tota' is not defined")).unbound == "tota"
    told = hints([], raised("AttributeError", "'Queue' object has no attribute 'size'"))
    assert (told.unbound, told.attribute) == ("", "size")


def test_a_huge_reproduction_gives_a_bounded_number_of_words() -> None:
    source = "\n".join(f"f('word {number}')" for number in range(1000))
    assert len(hints([source], ()).strings) == MOST_WORDS


def test_a_test_is_found_by_its_name() -> None:
    source = "def test_a():\n    f('a')\n\nclass T:\n    async def test_b(self):\n        f('b')\n"
    assert [hints([one], ()).strings for one in functions_named(source, "test_b")] == [("b",)]
    assert list(functions_named(source, "test_c")) == list(functions_named("no python (", "test_a")) == []
