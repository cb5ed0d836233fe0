"""What is left of a handoff whose claim was false: nothing of the claim, and everything else."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.gate.strip import strip
from scrout.handoff import FileRef, Handoff, Reproduction, parse, render

RECORDS = Path(__file__).parents[3] / "shared/data/receipts/verify_records.jsonl"
CLAIM = Reproduction(files={"check_bug.py": "assert False\n"}, command="python check_bug.py", claim=True)
SAYS_SO = re.compile(r"\breproduc|\bscript\b.*\b(fails|raised|raises)\b|\bfails with\b", re.IGNORECASE)


def _records() -> list[dict[str, str]]:
    if not RECORDS.is_file():
        return []
    rows = [json.loads(line) for line in RECORDS.read_text().splitlines()]
    return [{"id": row["task_id"], "text": row["handoff_text"], "type": row["handoff_type"]} for row in rows]


@pytest.mark.skipif(not RECORDS.is_file(), reason="the published verification records are not here")
@pytest.mark.parametrize("row", _records(), ids=lambda row: row["id"][9:40])
def test_real_handoffs_lose_the_claim_and_keep_the_rest(row: dict[str, str]) -> None:
    handoff = parse(row["text"])
    stripped = strip(handoff)
    assert stripped.reproduction is None
    assert "<repro>" not in render(stripped)
    implicated = {Path(ref.path).name for ref in handoff.files}
    scripts = set(re.findall(r"[\w-]+\.py\b", (handoff.reproduction and handoff.reproduction.command) or ""))
    for name in scripts - implicated:
        assert name not in stripped.notes
    assert not SAYS_SO.search(stripped.notes), stripped.notes
    # What goes is whole sentences about the claim: the rest is there, word for word and in order.
    gone = [one for one in re.split(r"(?<=[.!?]) ", handoff.notes) if one not in stripped.notes]
    for sentence in gone:
        assert re.search(r"reproduc|fail|rais|error|exit", sentence, re.I) or any(name in sentence for name in scripts)
    assert len(gone) <= 3
    assert stripped.files == handoff.files


@pytest.mark.parametrize(
    "sentence",
    [
        "Running check_bug.py fails.",
        "The bug reproduces at base.",
        "I wrote a reproduction.",
        "See /app/check_bug.py for details!",
        "The script exits with 1.",
        "A failing test was added and raises KeyError.",
        "It raised ValueError when the command was run.",
        "This confirms the bug.",
    ],
)
def test_sentence_about_the_claim_goes(sentence: str) -> None:
    notes = f"The parser lives in a.py, e.g. its lexer. {sentence} Look at line 3."
    stripped = strip(Handoff(reproduction=CLAIM, notes=notes, dead_ends=(sentence, "not the cache")))
    assert stripped.notes == "The parser lives in a.py, e.g. its lexer. Look at line 3."
    assert stripped.dead_ends == ("not the cache",)


@pytest.mark.parametrize(
    "sentence",
    [
        "The loader raises KeyError for an empty file.",
        "parse() fails on tabs.",
        "The commander module is not involved.",
        "precheck_bug.py is another file.",
    ],
)
def test_other_sentence_stays(sentence: str) -> None:
    assert strip(Handoff(reproduction=CLAIM, notes=sentence)).notes == sentence


def test_lines_stay_lines() -> None:
    notes = "- lexer in a.py\n- check_bug.py fails\n- grammar in b.py\n\nMore below."
    assert strip(Handoff(reproduction=CLAIM, notes=notes)).notes == "- lexer in a.py\n- grammar in b.py\n\nMore below."


def test_files_of_the_claim_go_and_reasons_that_assert_it() -> None:
    files = (
        FileRef(path="check_bug.py", why="new file"),
        FileRef(path="a.py", confidence=0.5, why="check_bug.py fails here"),
        FileRef(path="b.py", why="defines parse()"),
    )
    stripped = strip(Handoff(reproduction=CLAIM, files=files))
    assert stripped.files == (FileRef(path="a.py", confidence=0.5), files[2])


def test_a_file_of_the_repository_that_the_claim_ran_is_still_talked_about() -> None:
    claim = Reproduction(command="python -m pytest tests/test_lexer.py", claim=True)
    notes = "tests/test_lexer.py covers the lexer. Running test_lexer.py fails."
    stripped = strip(Handoff(reproduction=claim, notes=notes), {"tests/test_lexer.py"}.__contains__)
    assert stripped.notes == "tests/test_lexer.py covers the lexer."


@given(st.text(alphabet="ab .!?\n`é-", max_size=200), st.text(alphabet="ab .!?\n", max_size=100))
def test_nothing_is_invented_and_twice_is_once(before: str, after: str) -> None:
    handoff = Handoff(reproduction=CLAIM, notes=f"{before} Running check_bug.py fails. {after}")
    stripped = strip(handoff)
    assert "check_bug" not in stripped.notes
    assert strip(stripped.model_copy(update={"reproduction": CLAIM})).notes == stripped.notes
    remaining = iter(handoff.notes.split())
    assert all(word in remaining for word in stripped.notes.split())


def test_a_name_of_the_code_is_no_word_about_the_claim() -> None:
    why = "defines `Confirm`; defines Confirm; tests/test_prompt.py reads like the issue; confirmed the bug"
    handoff = Handoff(files=(FileRef(path="a.py", why=why),), reproduction=Reproduction(command="python x.py"))
    kept = strip(handoff).files[0].why
    assert kept == "defines `Confirm`; defines Confirm; tests/test_prompt.py reads like the issue"
