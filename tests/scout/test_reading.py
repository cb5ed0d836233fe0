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
