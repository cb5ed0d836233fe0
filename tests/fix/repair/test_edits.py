"""Edits replace exactly their span, compile, and hold the repair of each kind of mistake they are meant for."""

from __future__ import annotations

import ast
import random
import sysconfig
import warnings
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.fix.repair.edits import PRIORS, edits, edits_of, statements
from scrout.fix.repair.hints import Hints
from scrout.fix.repair.naturalness import Naturalness

STDLIB = Path(sysconfig.get_path("stdlib"))
MODULES = ("textwrap", "heapq", "bisect", "calendar", "fnmatch", "shlex", "string", "statistics", "difflib", "csv")


def every_line(source: str) -> range:
    return range(1, source.count("\n") + source.count("\r") + 2)


def results(source: str) -> list[str]:
    return [edit.apply(source) for edit in edits(source, every_line(source))]


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("def f(a, b):\n    return a < b\n", "def f(a, b):\n    return a <= b\n"),
        ("def f(a, b):\n    return a not  in b\n", "def f(a, b):\n    return a in b\n"),
        ("def f(a, b):\n    return (a) is (b)\n", "def f(a, b):\n    return (a) is not (b)\n"),
        ("def f(a, b):\n    return a == b\n", "def f(a, b):\n    return a != b\n"),
        ("def f(a, b):\n    return a and b\n", "def f(a, b):\n    return a or b\n"),
        ("def f(a, b):\n    return a + b\n", "def f(a, b):\n    return a - b\n"),
        ("def f(a, b):\n    a += b\n    return a\n", "def f(a, b):\n    a -= b\n    return a\n"),
        ("def f(a, b):\n    return a / b\n", "def f(a, b):\n    return a // b\n"),
        ("def f(a, b):\n    return a - b\n", "def f(a, b):\n    return b - a\n"),
        ("def f(a, b, c):\n    return a - b - c\n", "def f(a, b, c):\n    return c - (a - b)\n"),
        ("def f(a, b, c):\n    return (a + b) / c\n", "def f(a, b, c):\n    return c / (a + b)\n"),
        ("def f(a):\n    return a[:3]\n", "def f(a):\n    return a[:4]\n"),
        ("def f(a, n):\n    return a[:n]\n", "def f(a, n):\n    return a[:n + 1]\n"),
        ("def f(a):\n    return a[len(a)]\n", "def f(a):\n    return a[len(a) - 1]\n"),
        ("def f(n):\n    return range(n)\n", "def f(n):\n    return range(n + 1)\n"),
        ("def f(n):\n    return range(1, n - 1)\n", "def f(n):\n    return range(1, n)\n"),
        ("def f():\n    return True\n", "def f():\n    return False\n"),
        ("def f(first, last):\n    return g(first, last)\n", "def f(first, last):\n    return g(last, first)\n"),
        ("def f(width, height):\n    return width * width\n", "def f(width, height):\n    return width * height\n"),
        (
            "class A:\n    def f(self):\n        return self.start\n    def g(self):\n        return self.end\n",
            "class A:\n    def f(self):\n        return self.end\n    def g(self):\n        return self.end\n",
        ),
        ("def f(a):\n    return max(a)\n", "def f(a):\n    return min(a)\n"),
        ("def f(a):\n    return a.lstrip()\n", "def f(a):\n    return a.strip()\n"),
        ("def f(a):\n    if a.x:\n        g()\n", "def f(a):\n    if not a.x:\n        g()\n"),
        ("def f(a):\n    if not (a or g()):\n        g()\n", "def f(a):\n    if (a or g()):\n        g()\n"),
        ("def f(a):\n    return [b for b in a if b]\n", "def f(a):\n    return [b for b in a if not b]\n"),
        ("def f(a):\n    return len(a)\n", "def f(a):\n    return len(a or ())\n"),
        ("def f(a):\n    return a.upper()\n", 'def f(a):\n    return (a or "").upper()\n'),
        ("def f(a, b=1):\n    pass\n", "def f(a, b=2):\n    pass\n"),
        ("LIMIT = 10\n", "LIMIT = 9\n"),
        ("def f(a):\n    if a:\n        g()\n", "def f(a):\n    if a is not None:\n        g()\n"),
        ("def f(a):\n    if not a:\n        g()\n", "def f(a):\n    if a is None:\n        g()\n"),
        ("def f(a, b):\n    return a or b\n", "def f(a, b):\n    return (a if a is not None else b)\n"),
        ("def f(a, k):\n    return a[k]\n", "def f(a, k):\n    return a.get(k)\n"),
        ("def f(a, k):\n    return a.get(k)\n", "def f(a, k):\n    return a.get(k, 0)\n"),
        ("def f(a):\n    return None\n", 'def f(a):\n    return ""\n'),
        (
            "def f(a):\n    return isinstance(a, int)\n",
            "def f(a):\n    return isinstance(a, (int, str))\n",
        ),
        ("def f(a):\n    return [a]\n", "def f(a):\n    return list(a)\n"),
        ("def f(a):\n    return a\n", "def f(a):\n    return tuple(a)\n"),
        ("def f(a):\n    return str(a)\n", "def f(a):\n    return a\n"),
        ("def f(a):\n    return a[1:]\n", "def f(a):\n    return a\n"),
        (
            "def g(a, deep):\n    pass\ndef f(a, deep):\n    return g(a)\n",
            "def g(a, deep):\n    pass\ndef f(a, deep):\n    return g(a, deep)\n",
        ),
        (
            "def f(a, n):\n    h(a, size=n)\n    return h(n)\n",
            "def f(a, n):\n    h(a, size=n)\n    return h(n, size=n)\n",
        ),
        (
            "def f(a):\n    h(a.strip())\n    return a\n",
            "def f(a):\n    h(a.strip())\n    return a.strip()\n",
        ),
        (
            "def f(a):\n    if a in ('x', 'y', 'z'):\n        pass\n    return a in ('x', 'y')\n",
            "def f(a):\n    if a in ('x', 'y', 'z'):\n        pass\n    return a in ('x', 'y', 'z')\n",
        ),
        (
            "class A:\n    def f(self):\n        self.check()\n        return 1\n    def g(self):\n        return 2\n",
            "class A:\n    def f(self):\n        self.check()\n        return 1\n"
            "    def g(self):\n        self.check()\n        return 2\n",
        ),
        ("def f(a):\n    raise KeyError(a)\n", "def f(a):\n    raise ValueError(a)\n"),
        ("def f(a):\n    a.close()\n    a.flush()\n", "def f(a):\n    a.flush()\n    a.close()\n"),
        (
            "def f(a):\n    for b in a:\n        g(b)\n        h(a)\n",
            "def f(a):\n    for b in a:\n        g(b)\n    h(a)\n",
        ),
        ("def f(*args, **kw):\n    return g(*args)\n", "def f(*args, **kw):\n    return g(*args, **kw)\n"),
        ("def f(*parts):\n    return g(1)\n", "def f(*parts):\n    return g(1, *parts)\n"),
        (
            "class A:\n    def __init__(self):\n        self.old = self.new = 1\n"
            "    def clear(self):\n        self.old = None\n",
            "class A:\n    def __init__(self):\n        self.old = self.new = 1\n"
            "    def clear(self):\n        self.old = None\n        self.new = None\n",
        ),
        (
            'def f(names):\n    """Sorted."""\n    names.sort()\n    return names\n',
            'def f(names):\n    """Sorted."""\n    names = list(names)\n    names.sort()\n    return names\n',
        ),
        ("def f(a):\n\treturn len(a)\n", "def f(a):\n\tif a is None:\n\t\ta = []\n\treturn len(a)\n"),
        ("def f(a):\n    return a\n", "def f(a):\n    return a.copy()\n"),
        ("def f(a):\n    return a\n", "def f(a):\n    return a.strip()\n"),
        ("def f(a):\n    return g('0-9]', a)\n", "def f(a):\n    return g('[0-9]', a)\n"),
        ("def f(a):\n    return g('(a', a)\n", "def f(a):\n    return g('(a)', a)\n"),
    ],
)
def test_the_right_edit_is_among_those_offered(wrong: str, right: str) -> None:
    assert right in results(wrong)


def test_the_likeliest_come_first() -> None:
    source = "def f(a, b):\n    g(a)\n    if a < b:\n        return a + 1\n"
    offered = list(edits(source, every_line(source)))
    assert (offered[0].line, offered[0].kind, offered[0].before, offered[0].after) == (3, "boundary", "<", "<=")
    assert [edit.prior for edit in offered] == sorted((edit.prior for edit in offered), reverse=True)
    assert next(edits(source, [3])).kind == "boundary"
    assert next(edits(source, [3], PRIORS | {"off by one": 9.0})).kind == "off by one"


def test_only_the_statements_on_the_given_lines_are_edited() -> None:
    source = "def f(a):\n    if (\n        a < 1\n    ):\n        a = 2\n    return a - 3\n"
    assert {edit.before for edit in edits(source, [6]) if edit.kind == "constant"} == {"3"}
    assert {edit.before for edit in edits(source, [2]) if edit.kind == "constant"} == {"1"}
    assert list(edits(source, [])) == []


def test_line_endings_comments_and_wide_characters_stay() -> None:
    source = 'def f(größe):\r\n    # "ä"\r\n    return "日本" * 2, größe  <  3  # über\r\n'
    right = source.replace("<  3", "<=  3")
    assert right in results(source)
    started = "def f(a):\r\n\tif a is None:\r\n\t\ta = []\r\n\ta.g()\r\n"
    assert started in results("def f(a):\r\n\ta.g()\r\n")


def test_operators_in_comments_and_parentheses_are_told_apart() -> None:
    source = "x = [(a  # a < b\n    ) < (b), c]\n"
    assert source.replace(") < (", ") <= (") in results(source)


@pytest.mark.parametrize("source", ["", "def f(:\n", "a\0b", "(" * 5000, "\ufeffx = 1"])
def test_what_is_not_python_has_no_edits(source: str) -> None:
    assert statements(source) == ()
    assert list(edits(source, every_line(source))) == []


def test_a_long_table_gives_a_bounded_number() -> None:
    source = f"TABLE = [{', '.join(str(n) for n in range(500))}]\n"
    assert 0 < len(list(edits(source, [1]))) <= 240


@st.composite
def pieces_of_real_code(draw: st.DrawFn) -> tuple[str, str]:
    """Some top-level statements of a standard library module, as they are or with other line endings and names."""
    path = STDLIB / f"{draw(st.sampled_from(MODULES))}.py"
    source = path.read_text(encoding="utf-8")
    body = ast.parse(source).body
    first = draw(st.integers(0, len(body) - 1))
    last = draw(st.integers(first, min(first + 5, len(body) - 1)))
    lines = source.splitlines(keepends=True)
    piece = "".join(lines[body[first].lineno - 1 : body[last].end_lineno])
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    word = draw(st.sampled_from(["self", "sélf", "自己"]))
    return piece.replace("self", word).replace("\n", newline), newline


@given(piece=pieces_of_real_code(), seed=st.integers(0, 2**16))
def test_an_edit_changes_its_span_and_nothing_else(piece: tuple[str, str], seed: int) -> None:
    source, newline = piece
    lines = source.split(newline)
    chosen = random.Random(seed).sample(range(1, len(lines) + 1), min(8, len(lines)))
    seen = set()
    for edit in islice(edits(source, chosen), 60):
        after = edit.apply(source)
        assert source[edit.start : edit.end] == edit.before
        assert edit.line == source[: edit.start].count(newline) + 1
        assert after.startswith(source[: edit.start]) and after.endswith(source[edit.end :])
        assert len(after) == len(source) - len(edit.before) + len(edit.after)
        assert after != source and after not in seen
        assert edit.after.count("\n") == edit.after.count(newline)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(after, "<edit>", "exec")
        seen.add(after)


@pytest.mark.parametrize(
    ("wrong", "right", "hints"),
    [
        (
            "def f(a):\n    if a:\n        b = 1\n    return b\n",
            "def f(a):\n    b = None\n    if a:\n        b = 1\n    return b\n",
            Hints(unbound="b"),
        ),
        (
            "class A:\n    def __init__(self, size):\n        self.x = 1\n",
            "class A:\n    def __init__(self, size):\n        self.x = 1\n        self.size = size\n",
            Hints(attribute="size"),
        ),
        (
            "def f(a, other):\n    if a:\n        b = 1\n    return b\n",
            "def f(a, other):\n    b = other\n    if a:\n        b = 1\n    return b\n",
            Hints(unbound="b"),
        ),
    ],
    ids=["unbound", "attribute", "from a parameter"],
)
def test_what_the_reproduction_says_adds_edits(wrong: str, right: str, hints: Hints) -> None:
    offered = [edit.apply(wrong) for edit, _ in edits_of(wrong, statements(wrong), hints=hints)]
    assert right in offered
    assert right not in results(wrong)


def test_no_string_comes_from_the_reproduction() -> None:
    source = "WORDS = {'AND': 1, 'FROM': 1, 'OR': 1, 'TABLE': 2}\nNAMES = ['identifer', 'name']\n"
    hints = Hints(strings=("identifier", "from a where b"))
    offered = [edit.apply(source) for edit, _ in edits_of(source, statements(source), hints=hints)]
    assert sorted(offered) == sorted(results(source)) != []


def test_an_expression_is_not_put_around_itself() -> None:
    source = "def f(a, b):\n    return a + b\n"
    assert "def f(a, b):\n    return (a + b) + b\n" not in results(source)


def test_statements_about_different_things_stay_in_order() -> None:
    source = "def f(a, b):\n    a.g()\n    b.h()\n"
    assert "order" not in {edit.kind for edit in edits(source, every_line(source))}


def test_what_is_usual_in_the_project_comes_first() -> None:
    source = "def f(name):\n    return look(name)\n"
    usual = "def g(one):\n    return look(one.lower())\n\n\ndef h(name):\n    return look(name.lower())\n"
    for project, expected in ((usual, "name.lower()"), (usual.replace("lower", "strip"), "name.strip()")):
        made = edits_of(source, statements(source), wording=Naturalness([source, project]))
        calls = [edit.after for edit, _ in made if edit.after in ("name.lower()", "name.strip()")]
        assert calls[0] == expected


HIDING = """\
def f(a, b):
    try:
        g(a)
    except KeyError:
        b = 1
    for c in a:
        if c is None:
            continue
        b.d = c
    if not b:
        raise ValueError(a)
    return a['k']
"""


def losses(source: str) -> tuple[int, int, tuple[str, ...]]:
    """Ways out, statements that do not leave, and exceptions caught."""
    nodes = list(ast.walk(ast.parse(source)))
    leaves = [one for one in nodes if isinstance(one, ast.Return | ast.Raise | ast.Continue | ast.Break)]
    others = [one for one in nodes if isinstance(one, ast.Expr | ast.Assign | ast.AugAssign)]
    caught = tuple(ast.unparse(one.type) for one in nodes if isinstance(one, ast.ExceptHandler) and one.type)
    return len(leaves), len(others), caught


def check_nothing_is_lost(source: str, after: str) -> None:
    (leaves, others, caught), (leaves_then, others_then, caught_then) = losses(source), losses(after)
    assert (leaves_then, caught_then) == (leaves, caught) and others_then >= others, after


def test_no_edit_leaves_early_drops_a_statement_or_catches_more() -> None:
    hints = Hints(strings=("k",), exceptions=("KeyError", "TypeError"), unbound="b", attribute="d")
    offered = [edit.apply(HIDING) for edit, _ in edits_of(HIDING, statements(HIDING), hints=hints)]
    assert len(offered) > 100
    for after in offered:
        check_nothing_is_lost(HIDING, after)


def test_no_condition_is_added_or_dropped() -> None:
    source = "def f(a, b):\n    if a.x and b:\n        g(a)\n    if a is None:\n        h(b)\n"
    functions = [ast.parse(after).body[0] for after in results(source)]
    firsts = [function.body[0] for function in functions if isinstance(function, ast.FunctionDef)]
    tests = [ast.unparse(first.test) for first in firsts if isinstance(first, ast.If) and first.body[0].col_offset == 8]
    tests = [test for test in tests if test not in ("a is None", "b is None")]  # a parameter brought into form
    assert all(test.count(" and ") + test.count(" or ") == 1 for test in tests), tests


@given(piece=pieces_of_real_code())
def test_nothing_is_lost_in_real_code(piece: tuple[str, str]) -> None:
    source, newline = piece
    for edit in islice(edits(source, every_line(source)), 60):
        check_nothing_is_lost(source.replace(newline, "\n"), edit.apply(source).replace(newline, "\n"))


def test_a_flag_is_not_asked_for_none() -> None:
    source = "def f(a, deep{}):\n    if deep:\n        g(a)\n"
    for default, expected in (("=False", False), ("=None", True), ("", True)):
        made = source.format(default)
        assert (made.replace("if deep:", "if deep is not None:") in results(made)) is expected
