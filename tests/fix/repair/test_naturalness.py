"""How usual an edit is goes by what the project says elsewhere, and by nothing that only looks like code."""

from __future__ import annotations

from scrout.fix.repair.edit_site import Edit
from scrout.fix.repair.naturalness import Naturalness, words

PROJECT = "def f(self):\n    self.close(force=True)\n    return self.close(force=True)\n"


def edit_of(source: str, before: str, after: str) -> Edit:
    start = source.index(before)
    return Edit(1, "keyword", 1.0, start, start + len(before), before, after)


def test_words_are_names_strings_and_signs_without_comments() -> None:
    assert words("a **= 'b c'  # d\n\treturn x[-1]") == ["a", "**=", "'b c'", "\n", "return", "x", "[", "-", "1", "]"]


def test_what_is_said_elsewhere_is_more_usual_than_what_is_not() -> None:
    wording = Naturalness([PROJECT])
    source = "def g(self):\n    self.close()\n"
    known, unknown, other = (
        wording.usual(source, edit_of(source, "close()", after))
        for after in ("close(force=True)", "close(never=True)", "close(never=always)")
    )
    assert 1 >= known > unknown > other > 0


def test_signs_that_the_project_does_not_use_are_no_strangers() -> None:
    source = "def g(a, b):\n    return a < b\n"
    wording = Naturalness([source])
    assert wording.usual(source, edit_of(source, "<", "<=")) > 2 * wording.usual(source, edit_of(source, "a <", "zz <"))


def test_an_empty_project_knows_nothing() -> None:
    source = "x = 1\n"
    assert 0 < Naturalness([]).usual(source, edit_of(source, "1", "2")) <= 1
