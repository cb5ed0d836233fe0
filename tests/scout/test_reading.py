"""How an issue's text is taken apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.scout.recon.mentions import read_mentions
from scrout.scout.recon.scripts import MAX_SCRIPT_CHARS, MAX_SCRIPTS, find_scripts

from ..conftest import assert_linear

MARKDOWN = st.lists(
    st.sampled_from(
        [
            "```",
            "```python",
            "~~~",
            ">>> import app",
            "... x",
            "import app",
            "    ",
            "`a.b`",
            '"',
            'File "a.py", line 3',
        ]
    )
    | st.text(max_size=20)
).map("\n".join)


@given(MARKDOWN)
def test_any_text_can_be_read(text: str) -> None:
    mentions = read_mentions(text)
    assert mentions.chars <= len(text)
    scripts = find_scripts(text, {"app": ""})
    assert len(scripts) <= MAX_SCRIPTS
    for script in scripts:
        assert "app" in script.source
        compile(script.source, "x", "exec")


@pytest.mark.parametrize(
    "piece",
    [
        *("a.", "`", '"', "_a", ">>> ", "a:1"),
        *(
            pytest.param(piece, marks=pytest.mark.slow)
            for piece in ("'a ", "/a", "Aa", "- ", "x: ", "```\n", "aError", "\\")
        ),
    ],
)
def test_no_text_takes_long(piece: str) -> None:
    assert_linear(read_mentions, piece, 5_000)
    assert_linear(lambda text: find_scripts(text, {"app": ""}), piece, 5_000)


def test_scripts_are_bounded() -> None:
    blocks = "".join(f"```python\nimport app\nx = {n}\n```\n" for n in range(20))
    assert len(find_scripts(blocks, {"app": ""})) == MAX_SCRIPTS
    assert find_scripts("```python\nimport app\n" + "x = 1\n" * (MAX_SCRIPT_CHARS // 6) + "```\n", {"app": ""}) == ()


@pytest.mark.parametrize("tag", ["bash", "json", "diff", "text"])
def test_blocks_of_other_languages_are_not_python(tag: str) -> None:
    assert find_scripts(f"```{tag}\nimport app\n```\n", {"app": ""}) == ()


CODE = "```python\nfrom app import f\nprint(f(1))\n```\n"


def told(text: str) -> list[tuple[str, str]]:
    """What a report says of the statements of its script, and of none for certain."""
    (script, *_) = find_scripts(text, {"app": ""}, {"f": "from app import f", "Box": "from app import Box"})
    both = [*(ask.told for ask in script.asks), *script.pairs]
    return [(one.actual, one.expected) for one in both if one.expected]


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        # A comment and one below it may give texts as they are.
        (
            'from app import f\nstr(f(1))  # SELECT "a" LIMIT 1, 2\n           # expected: SELECT "a" LIMIT 1\nf(2)\n',
            ('SELECT "a" LIMIT 1, 2', 'SELECT "a" LIMIT 1'),
        ),
        # A line alone below a heading is the value.
        (f"{CODE}\n**Expected result:**\n\n2024-06-15 12:00\n\n**Actual result:**\n\n2024-01-01 12:00\n", None),
        (f"{CODE}\nExpected: aabb.cc01\nGot: aa:bb:cc:1\n", ("aa:bb:cc:1", "aabb.cc01")),
        (f"{CODE}\nExpected: False\nGot: True\n\nAlso (1+2j) should become (1-2j) there.\n", ("True", "False")),
        # What is between backticks is no markup.
        (f"{CODE}\nExpected: `**a** b`\nGot: `**a**  b`\n", ("**a**  b", "**a** b")),
        # There is no third truth value.
        (">>> from app import f\n>>> f(1)\n'a'\n>>> f(2) in f\nFalse\n\nI expected True there.\n", ("False", "True")),
        ('f("a") \u2192 1, expected 2\n', ("1", "2")),
        ("```\n>>> f(1)\n1\n>>> f(2)\n2\n```\nSecond should be 3.\n", ("2", "3")),
        ("```\nf(1)\ngot:      [1, 2]\nexpected: [1, 2, 3]\n```\n", ("[1, 2]", "[1, 2, 3]")),
        (f"{CODE}\nObserved result: `'a'`\nExpected result: `'b'`\n", ("'a'", "'b'")),
        ("**Current**\n\n`f(2)` -> `[3]`\n\n**Desired**\n\n`f(2)` -> `[2]`\n", ("[3]", "[2]")),
        ("`f(2)` used to return `[2]`, now it returns `[3]`.\n", ("[3]", "[2]")),
        # A session's answer may have a remark behind it.
        (">>> from app import f\n>>> f(1)\n<p>a</p>     # <- hm, should be <p>b</p>\n", ("<p>a</p>", "<p>b</p>")),
    ],
)
def test_what_a_report_says_of_a_statement(report: str, expected: tuple[str, str] | None) -> None:
    text = f"```python\n{report}```\n" if report.startswith("from") else report
    assert (expected or ("2024-01-01 12:00", "2024-06-15 12:00")) in told(text)


@pytest.mark.parametrize(
    "report",
    [
        "from app import f\nstr(f(1))  # SELECT 1\n           # expected: the same without a number\n",
        f"{CODE}\n**Expected result:**\n\nnothing printed\n\n**Actual result:**\n\n1 line\n",
        f"{CODE}\n**Expected result:**\n\n1 a\n2 b\n\n**Actual result:**\n\n1 b\n2 a\n",
        f"{CODE}\nExpected: nothing at all\nGot: 1 output\n",
    ],
)
def test_words_about_a_value_are_no_value(report: str) -> None:
    assert told(f"```python\n{report}```\n" if report.startswith("from") else report) == []


def test_below_a_heading_for_output_code_is_output() -> None:
    report = (
        "```python\nfrom app import f\nprint(f('import b, a'))\n```\n\n**Output**\n\n```\nimport b\nimport c\n```\n\n"
    )
    (script,) = find_scripts(f"{report}**Expected output**\n\n```\nimport a\nimport b\n```\n", {"app": ""})
    assert (script.output.actual, script.output.expected) == ("import b\nimport c\n", "import a\nimport b\n")


@pytest.mark.parametrize(
    ("table", "source", "expected"),
    [
        # A call that heads a column is made with the values of the others, even if they hide a builtin.
        (
            "format | text | `f(format, text)` in 1.9 | should be\n---|---|---|---\n"
            "`{:d}` | `4 x` | None | `<Box 4>`\n",
            "format = '{:d}'\ntext = '4 x'\nf(format, text)\n",
            [("None", "<Box 4>")],
        ),
        (
            "(b = Box(2))\n\n| value | `f(b, value)` | should be |\n|---|---|---|\n| `Box(1)` | 1 | 2 |\n",
            "b = Box(2)\nvalue = Box(1)\nf(b, value)\n",
            [("1", "2")],
        ),
        # Dots are arguments that the table gives; a remark in brackets makes "same" no value.
        (
            "With `app.f(...)`:\n\n| in | out | should be |\n|---|---|---|\n"
            "| `*a*` | `b` | `c` |\n| `x` | `<x>` | same (ok) |\n",
            "app.f('*a*')\napp.f('x')\n",
            [("b", "c")],
        ),
    ],
)
def test_a_table_of_examples(table: str, source: str, expected: list[tuple[str, str]]) -> None:
    exports = {"f": "from app import f", "Box": "from app import Box", "app": "import app"}
    script, *_ = find_scripts(f"It is wrong.\n\n{table}\n", {"app": ""}, exports)
    assert script.source.endswith(source)
    assert [(ask.told.actual, ask.told.expected) for ask in script.asks if ask.told.expected] == expected


def test_an_exception_in_a_table_without_expectations_is_what_is_wrong() -> None:
    table = "x | `f(x)`\n---|---\n`[1]` | `1`\n`{1}` | TypeError: no set\n"
    (script,) = find_scripts(f"Sets fail.\n\n{table}\n", {"app": ""}, {"f": "from app import f"})
    assert (script.source, script.expected) == ("from app import f\nx = {1}\nf(x)\n", "TypeError")


def test_a_block_may_show_what_a_sentence_says_of_a_call() -> None:
    report = "`f(Box(1))` gives\n\n    a 1\n\nwhat is wrong, instead of `a '1'`. So does f(2).\n"
    assert told(report) == [("a 1", "a '1'")]


def test_what_is_called_is_no_module() -> None:
    (script,) = find_scripts(
        "```python\nprint(app.f(time(6, 30), time.min))\n```\n", {"app": ""}, {"app": "import app"}
    )
    assert "from datetime import time\n" in script.source


def test_a_traceback_belongs_to_the_call_of_the_sentence_before() -> None:
    report = "When I call `f(None)` I get:\n\n```\nTraceback (most recent call last):\n  ...\nTypeError: no\n```\n"
    (script,) = find_scripts(f"{report}\nI'd expect `None` back.\n", {"app": ""}, {"f": "from app import f"})
    assert (script.source, script.expected) == ("from app import f\nf(None)\n", "TypeError")
    assert [(ask.told.actual, ask.told.expected) for ask in script.asks] == [("TypeError", "None")]
