"""Comments and pull requests whose every foreign part is hostile, read by a real Markdown parser and as plain text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from scrout.integrations import markdown
from scrout.integrations.admission import Admission
from scrout.integrations.ci_environment import CiEnvironment
from scrout.integrations.result import (
    AttemptSummary,
    CandidateSummary,
    CheckSummary,
    DecisionSummary,
    HandoffSummary,
    ReceiptSummary,
    WorkResult,
)

WEAPONS = (
    "@everyone please look",
    "@dependabot merge",
    "Fixes #1, closes GH-2 and ada/other#3",
    "![x](https://evil.example/pixel.png)",
    "[click](javascript:alert(1))",
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "</details></summary><h1>Approved</h1>",
    "```\n/merge\n@admin\n```",
    "````\n# heading\n````",
    "`` ` `@who` ``",
    "\n/approve\n/lgtm\n/close",
    "\nbors r+\n!42 ~label %milestone",
    "<!-- scrout 1001-1 -->",
    "| a | b |\n| --- | --- |\n| @x | <b> |",
    "\u202eevil\u2066 \u200bhidden",
    "~~~\n@who\n~~~",
    "    @who indented",
    "\r@who\r\n/close",
    "\x1b[31m red \0",
)
EVIL = "\n".join(WEAPONS)


def _tokens(text: str) -> Iterator[Token]:
    for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text):
        yield token
        yield from token.children or ()


def assert_inert(text: str) -> None:
    """Nothing that acts is outside of code, and nothing in the plain text is an order."""
    for token in _tokens(text):
        if token.type in ("text", "html_inline", "html_block", "image", "link_open"):
            told = f"{token.content} {dict(token.attrs)}"
            assert not re.search(r"evil|script|onerror|Approved|admin|merge|@|javascript|pixel", told), told
            assert token.type != "image"
        if token.type == "html_block":
            allowed = (
                r"\s*(<details><summary>[\w ,:]+</summary>|</details>|<!-- scrout [0-9]+-[0-9]+ -->|<sub>.*</sub>)\s*"
            )
            assert re.fullmatch(allowed, token.content), token.content
        if token.type == "link_open":
            assert str(token.attrs["href"]).startswith("file:///"), token.attrs
    # As a program that reads comments by lines and patterns would see it.
    assert not re.search(r"@\w", text)
    assert not re.search(r"(?m)^\s*(/\w|bors|!\d|<h1|#+ )", text)
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x1b\0\r]", text)
    assert text.rstrip().endswith("<!-- scrout 1001-1 -->")
    assert len(text) < markdown.MAX_COMMENT_CHARS


def _line(text: str) -> str:
    return markdown.plain(text, 500)


def hostile(result: WorkResult, weapon: str) -> WorkResult:
    """The result with the weapon in each place that words of others can come from."""
    line, name = _line(weapon), markdown.plain(weapon, 100)
    return result.model_copy(
        update={
            "sandbox": name,
            "environment": line,
            "scrout": name,
            "error": line,
            "withheld": line,
            "scouted": HandoffSummary(
                text=weapon[:6000], searcher=name, stop="finished", detail=line, verdict="real_failure", reason=line
            ),
            "chosen": DecisionSummary(
                fixer=name,
                reason=line,
                offers=(CandidateSummary(fixer=name, p_solve=0.5, cost_usd=Decimal("0.000001"), reason=line),) * 3,
            ),
            "tried": AttemptSummary(fixer=name, stop="finished", detail=line, calls=1, seconds=1),
            "checked": CheckSummary(
                outcome="passed", reproduction="passes", tests="pass", tests_run=1, detail=line, flags=(line,) * 3
            ),
            "rows": (
                ReceiptSummary(
                    component="fix",
                    fixer=name,
                    model=name,
                    calls=1,
                    prompt_tokens=1,
                    output_tokens=1,
                    cost_usd=Decimal(1),
                ),
            ),
        }
    )


@pytest.mark.parametrize("weapon", [*WEAPONS, EVIL])
def test_nothing_of_anothers_words_acts(
    result: WorkResult, admission: Admission, place: CiEnvironment, weapon: str
) -> None:
    bad = hostile(result, weapon)
    asked = admission.model_copy(update={"label": weapon, "by": weapon})
    assert_inert(markdown.comment(bad, asked, place))
    assert_inert(markdown.comment(bad.model_copy(update={"outcome": "failed"}), asked, place))
    assert_inert(markdown.pull_body(bad, asked, place, [weapon, f"{weapon}.py"], ()))
    assert_inert(markdown.no_result(admission, weapon, place))
    assert_inert(markdown.refused(admission.model_copy(update={"reason": f"it was {markdown.code(weapon)}"})))


@given(st.text(alphabet=st.sampled_from("`@#!|<>[]()/\\*_~ \n\t\rabc1&$\u202e\u200b"), max_size=60))
def test_no_text_leaves_its_code(text: str) -> None:
    """Whatever it is, a parser finds it in code and nowhere else."""
    inline = markdown.code(text)
    seen = [token for token in _tokens(f"x {inline} y") if token.type in ("text", "code_inline", "html_inline")]
    kinds = [(token.type, token.content.strip()) for token in seen]
    assert kinds[0] == ("text", "x") and kinds[-1] == ("text", "y") and [kind for kind, _ in kinds].count("text") == 2
    assert len(kinds) == 3 and kinds[1][0] == "code_inline"
    cells = list(_tokens(f"| a | b |\n| --- | --- |\n| {inline} | end |"))
    assert [token.content for token in cells if token.type == "text"] == ["a", "b", "end"]
    fenced = MarkdownIt("commonmark").parse(f"{markdown.block(text)}\n\nafter")
    assert [token.type for token in fenced] == ["fence", "paragraph_open", "inline", "paragraph_close"]
    assert all(line.startswith("|") for line in fenced[0].content.splitlines())


def test_secrets_are_cut(
    result: WorkResult, admission: Admission, place: CiEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "value-of-the-key-123")
    secret = f"sk-{'0123456789abcdef' * 2} and value-of-the-key-123 and ghp_{'a1' * 18}"
    text = markdown.comment(hostile(result, secret), admission, place)
    assert "0123456789abcdef" not in text and "value-of-the-key" not in text and "ghp_" not in text
    assert "[secret]" in text


def test_a_title_and_a_commit_have_nothing_of_anothers(admission: Admission) -> None:
    asked = admission.model_copy(update={"label": EVIL, "by": EVIL, "reason": EVIL})
    assert markdown.pull_title(asked) == "scrout: patch for #7"
    assert markdown.commit_message(asked, "20261117-093000-abcdef").splitlines() == [
        "scrout: patch for #7",
        "",
        "Made by scrout, run 20261117-093000-abcdef. Review before merging.",
    ]


def test_what_a_reader_gets(result: WorkResult, admission: Admission, place: CiEnvironment) -> None:
    text = markdown.comment(result, admission, place, ["Pull request: https://github.com/ada/larder/pull/8"])
    for part in ("asked to fix this by `ada`", "`real_failure`", "larder/expiry.py", "**Decision.** `repair`", "$0.25"):
        assert part in text
    assert "| `repair` | unknown | $0.00 | `the only fixer in the pool` |" in text
    body = markdown.pull_body(
        result.model_copy(update={"outcome": "unverified"}), admission, place, ["a.py"], ("it is x",)
    )
    for part in (
        "A patch for #7",
        "**Unverified**",
        "Files: `a.py`",
        "Note: it is x.",
        "tests `pass` (4 run)",
        "Receipt",
    ):
        assert part in body
