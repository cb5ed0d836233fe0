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
        (">>> from app import f\n>>> f(1)\n'a'   # now\n'b'   # how it should be\n", ("'a'", "'b'")),
        (f"{CODE}\n**Is:**\n\n```\na b\n```\n\n**Should be:**\n\n```\na c\n```\n", ("a b", "a c")),
        ("from app import f\nf(1)  # False, but both are empty -> True\n", ("False", "True")),
        (
            "from app import f\nf(1)  # 2024-05-06 08:00, should be 2024-05-01 08:00\n",
            ("2024-05-06 08:00", "2024-05-01 08:00"),
        ),
        (
            "from app import f\nprint(f(1))\n# a\n# b\n#\n# should be one line:\n# a|b\n",
            ("a\nb", "a|b"),
        ),
        (
            ">>> from app import f\n>>> f(1)\n'a'\n>>> f(2) == 1\nFalse\n\nI'd want it, i.e. True in the last line.\n",
            ("False", "True"),
        ),
        (">>> from app import f\n>>> f(1)\n[1, 2]\n\nThe first should be 3.\n", ("[1, 2]", "[3, 2]")),
        (">>> from app import f\n>>> f(1)\nBox([1])\n\nIt should not be stored: `Box([])`.\n", ("Box([1])", "Box([])")),
        (
            "```python\nfrom app import f\nf(1)\nf(2)\n```\nreturns `17` and `58`, respectively, instead of `16`.\n",
            ("58", "16"),
        ),
        (
            "```python\nfrom app import f\nf(1)\nf(2)\n```\nExpected:\n\n1. `'a'`\n2. `'b'`\n\nGot:\n\n"
            "1. `'A'`\n2. `'B'`\n",
            ("'B'", "'b'"),
        ),
        (f"Actual output:\n\n```\na b\n```\n\nExpected output:\n\n```\na c\n```\n\n{CODE}", ("a b", "a c")),
        (
            "`f(2)` returns `[3]`, and that is odd! Obviously it should return `[2]`, which is what `g` gives.\n",
            ("[3]", "[2]"),
        ),
        (
            'from app import f\nf(1)  # app.Error: near "3": bad\n      # expected [1] here too\n',
            ("app.Error", "[1]"),
        ),
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
        # An arrow may show several steps, or a value of another type.
        "from app import f\nf(1)  # 1 -> 2 -> 3\n",
        "from app import f\nf(1)  # 1, but as text -> '1'\n",
        "from app import f\nf(1)  # 1, after f(2) -> 2\n",
        # It may be an example of what goes in.
        ">>> from app import f, Box\n>>> f(1)\nBox([1])\n\nIt should work without one, too: `Box([])`.\n",
        # Not of what is shown, or of no one statement.
        ">>> from app import f\n>>> f(1)\n[1, 2]\n\nThe third should be 3.\n",
        ">>> from app import f\n>>> f(1)\n[1, 2]\n\nThe first should be 'a'.\n",
        ">>> from app import f\n>>> f(1)\nBox([1])\n\nIt should not be stored: `Bag([])`.\n",
        ">>> from app import f\n>>> f(1)\nBox([1])\n>>> f(2)\nBox([2])\n\nIt should not be stored: `Box([])`.\n",
        "```python\nfrom app import f\nf(1)\nf(2)\n```\nreturns `1`, `2` and `3`, respectively, instead of `4`.\n",
        "```python\nfrom app import f\nf(1)\nf(2)\n```\nExpected:\n\n1. `'a'`\n\nGot:\n\n1. `'A'`\n2. `'B'`\n",
        # A remark ends what came out; a text of one line may go on with words.
        "from app import f\nprint(f(1))\n# a\n# should be b, as it is in print(f(2))\n",
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


OUTPUTS = "{code}\nExpected:\n\n```python\nimport b\nf(a, b)\n```\n\nGot:\n\n```python\nimport a\nf(b, a)\n```\n"


def test_code_that_is_expected_of_code_is_what_it_prints() -> None:
    (script,) = find_scripts(OUTPUTS.format(code=CODE), {"app": ""})
    assert (script.output.actual, script.output.expected) == ("import a\nf(b, a)\n", "import b\nf(a, b)\n")


def test_code_below_a_heading_that_uses_the_same_is_no_output() -> None:
    report = OUTPUTS.format(code=CODE).replace("import a", "from app import f").replace("import b", "from app import f")
    scripts = find_scripts(report, {"app": ""})
    assert len(scripts) == 3
    assert not any(script.output.actual or script.output.expected for script in scripts)


def test_one_block_of_code_below_a_heading_is_what_fails() -> None:
    report = f"{CODE}\n### Actual behavior\n\n```python\nimport b\nfrom app import g\ng(b)\n```\n"
    assert [script.source for script in find_scripts(report, {"app": ""})][-1] == "import b\nfrom app import g\ng(b)\n"


def test_a_plugin_that_a_text_names_is_used() -> None:
    (script,) = find_scripts("```python\nimport other\nother.run(plugins=['app.more'])\n```\n", {"app": "src"})
    assert script.root == "src"


def test_a_module_is_imported_by_all_of_its_name() -> None:
    exports = {"app": "import app", "app.deep.inside": "import app.deep.inside"}
    (script,) = find_scripts("```python\nprint(app.deep.inside.f(1))\n```\n", {"app": ""}, exports)
    assert script.source.startswith("import app.deep.inside\n")


def test_a_name_may_be_given_behind_the_code() -> None:
    report = "```python\nbox.f(1)  # 2, expected 3\n```\n\n(box is an `app.Box(1)`)\n"
    (script,) = find_scripts(report, {"app": ""}, {"app": "import app"})
    assert script.source.startswith("import app\nbox = app.Box(1)\n")


def test_what_an_interpreter_shows_is_asked_for() -> None:
    shown = 'Traceback (most recent call last):\n  File "<stdin>", line 1\n  File "a.py", line 3, in {}\nKeyError: 1\n'
    for function, source in (("__repr__", "repr(app.f(1))"), ("f", "app.f(1)")):
        (script,) = find_scripts(f">>> import app\n>>> app.f(1)\n{shown.format(function)}", {"app": ""})
        assert script.source == f"import app\n{source}\n"


def test_a_traceback_belongs_to_the_only_call_of_a_report() -> None:
    report = "```\nTraceback (most recent call last):\n  ...\nKeyError: 1\n```\n\n"
    report += "Or as a call: `f({})`. It should just work.\n"
    exports = {"f": "from app import f", "g": "from app import g"}
    (script,) = find_scripts(report.format(1), {"app": ""}, exports)
    assert (script.source, script.expected) == ("from app import f\nf(1)\n", "KeyError")
    assert find_scripts(f"{report.format(1)} `g(2)` is fine.\n", {"app": ""}, exports) == ()


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
        (
            "`Box().f(...)` of\n\n| in | result | should be |\n|---|---|---|\n| `'a'` | `'b'` | `'c'` |\n",
            "Box().f('a')\n",
            [("'b'", "'c'")],
        ),
        # What the project follows says what should be; another program or setting does not. A column has one type.
        (
            "v | `f(v)` | PEP 440\n---|---|---\n`2.0` | False | True\n`2.0rc1` | False | False\n",
            "v = '2.0'\nf(v)\nv = '2.0rc1'\nf(v)\n",
            [("False", "True"), ("False", "False")],
        ),
        ("v | `f(v)` | other\n---|---|---\n`[1]` | False | TypeError: 1\n", "", []),
        ("v | `f(v)` | RFC section\n---|---|---\n`[1]` | False | 4.2\n", "", []),
    ],
)
def test_a_table_of_examples(table: str, source: str, expected: list[tuple[str, str]]) -> None:
    exports = {"f": "from app import f", "Box": "from app import Box", "app": "import app"}
    scripts = find_scripts(f"It is wrong.\n\n{table}\n", {"app": ""}, exports)
    if not expected:
        assert not any(ask.told.expected for script in scripts for ask in script.asks)
        return
    script = scripts[0]
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
