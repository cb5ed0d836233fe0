"""What a report says about a value: what came out, and what was expected. Read from comments, sentences and tables.

Nothing is guessed here. A value counts for the word right before it: "returns A instead of B" tells both, and a value
without such a word tells nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from scrout.syntax import is_literal

Role = Literal["expected", "actual"]

MAX_VALUE_CHARS = 300
MAX_LINE_CHARS = 2_000
MAX_MARKS = 8
MAX_ROWS = 50

_VERBS = (
    r"(?:be(?:en|come)?|equal|returned|return|given?|print(?:ed)?|yield|output|produced?|evaluate to|result in"
    r"|look like|raised?|parse(?:d)? (?:as|to|into)|come out as|read|say|show)"
)
_FILLER = (
    r"(?:\s+(?:the|a|an|me|us|back|value|string|list|result|exactly|just|like|as|is|was|to|something|raising|giving"
    r"|returning|printing|proper))*+"
)
_EXPECTED = (
    rf"\b(?:should|must|ought to|would)\s+(?:have\s+|rather\s+|instead\s+|probably\s+|really\s+)?{_VERBS}\b"
    r"|\bexpect(?:ed|ing|s)?\b(?:\s+(?:results?|outputs?|values?|answer|behaviou?r|outcome|return|it|this|that|to|here|be"
    r"|get|see|have|print|would|is|was|of))*+"
    r"|\binstead of\b|\brather than\b|\b(?:correct|right)\s+(?:answer|result|value|output)\b|\bwant(?:ed)?\b|\bnot\b"
)
_ACTUAL = (
    r"\b(?:returns?|returned|returning|gives?|gave|giving|yields?|prints?|printed|outputs?|produces?|produced"
    r"|results? in|evaluates? to|becomes?|became|comes? out as|ends? up (?:as|with)|shows?|is parsed as)\b"
    r"|\b(?:got|gets?|getting|received?|see)\b|^\W*(?:is|was|now)\b(?=\s*:)|^\W{0,4}(?:->|=>)"
    r"|\bactual(?:ly)?\b(?:\s+(?:results?|outputs?|values?|behaviou?r|is|was))*+|(?:\bbut\b|,)\s+(?:it\s+)?(?:is|was)\b|\bcurrently\b"
    r"|\b(?:raises?|raised|raising|throws?|threw|(?:fails?|failed|crash(?:es)?|dies|errors?(?: out)?) with)\b"
)
_MARK = re.compile(rf"(?P<expected>{_EXPECTED})|(?P<actual>{_ACTUAL})", re.I)
_BETWEEN = re.compile(rf"{_FILLER}[\s:=,>-]{{0,5}}")
_NEGATED = re.compile(r"(?:\b(?:not|never|no|cannot)|n['\u2019]t)\s+\S{0,12}\s?$", re.I)
_QUOTED = re.compile(r"``([^\n]{1,300}?)``|`([^`\n]{1,300})`")
_STRING = re.compile(r"[rbuRBU]{0,2}(?:'(?:[^'\\\n]|\\.)*+'|\"(?:[^\"\\\n]|\\.)*+\")")
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d[\d_]*+(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?(?:[jJ])?(?![\w])")
_WORD_VALUE = re.compile(r"(?:None|True|False|nan|inf)\b")
_NAME = re.compile(r"[A-Za-z_][\w.]{0,80}(?=\()")
EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.)*([A-Z]\w*(?:Error|Exception|Exit|Interrupt|Warning|Iteration|Found))\b")
_CLOSES = {"(": ")", "[": "]", "{": "}", "<": ">"}
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`(*])")
_CELL = re.compile(r"(?<!\\)\|")
_HEADS: dict[str, re.Pattern[str]] = {
    "code": re.compile(r"\b(?:input|expression|code|call|snippet|statement|example)\b", re.I),
    "actual": re.compile(r"\b(?:actual|got|current(?:ly)?|returns?|result|output|observed|gives|now)\b", re.I),
    "expected": re.compile(r"\b(?:expect\w*|should|want\w*|correct|desired)\b", re.I),
}


@dataclass(frozen=True)
class Told:
    """What a line or sentence says about one value, as it is written; empty: it does not say."""

    actual: str = ""
    expected: str = ""

    def __bool__(self) -> bool:
        return bool(self.actual or self.expected)


NOTHING = Told()


def sentences(line: str) -> list[str]:
    return _SENTENCE.split(line[:MAX_LINE_CHARS])


def read_told(text: str) -> Told:
    """The values that a sentence or comment gives for each role; the first of each counts."""
    found: dict[str, str] = {}
    text = text[:MAX_LINE_CHARS].replace("**", "").replace("__", "")
    first = len(text)
    for mark in islice(_MARK.finditer(text), MAX_MARKS):
        role = "expected" if mark["expected"] else "actual"
        if mark[0].lower() == "not" and "actual" not in found:
            continue  # "A, not B" says what B is only after A
        if mark[0].lower() != "not" and _NEGATED.search(text[max(0, mark.start() - 20) : mark.start()]):
            continue
        between = _BETWEEN.match(text, mark.end())
        value = leading_value(text[between.end() if between else mark.end() :])
        if value:
            found.setdefault(role, value)
            first = min(first, mark.start())
    # `B (expected A)`: what stands first, with no word before it, is what came out.
    value = leading_value(text.lstrip("#>=- \t")) if "expected" in found and "actual" not in found else ""
    if value and is_literal(value) and text.find(value) < first:
        found["actual"] = value
    return Told(found.get("actual", ""), found.get("expected", ""))


def leading_value(text: str) -> str:
    """The value that a text starts with: code between backticks, a literal, `Name(…)` or an exception; empty: none."""
    text = text.lstrip(" \t*_")[: MAX_VALUE_CHARS + 50]
    if quoted := _QUOTED.match(text):
        return (quoted[1] or quoted[2]).strip()
    if raised := EXCEPTION.match(text):
        return raised[0]
    for shape in (_STRING, _NUMBER, _WORD_VALUE):
        if match := shape.match(text):
            return match[0]
    start = name.end() if (name := _NAME.match(text)) else 0
    return text[: end + 1] if text[start : start + 1] in _CLOSES and (end := _closing(text, start)) else ""


def _closing(text: str, start: int) -> int:
    """Where a bracket is closed again; 0: nowhere."""
    open_brackets: list[str] = []
    at = start
    while at < len(text):
        if string := _STRING.match(text, at) if text[at] in "'\"" else None:
            at = string.end()
            continue
        if text[at] in _CLOSES:
            open_brackets.append(_CLOSES[text[at]])
        elif open_brackets and text[at] == open_brackets[-1]:
            open_brackets.pop()
            if not open_brackets:
                return at
        at += 1
    return 0


def find_expression(sentence: str) -> tuple[str, str]:
    """The call that a sentence is about, and the rest of the sentence; empty: it is about none."""
    for quoted in islice(_QUOTED.finditer(sentence[:MAX_LINE_CHARS]), MAX_MARKS):
        code = (quoted[1] or quoted[2]).strip()
        if "(" in code and not is_literal(code) and not _ends_in_mark(sentence[: quoted.start()]):
            return code, sentence[quoted.end() :]
    return "", ""


def _ends_in_mark(text: str) -> bool:
    """Whether what follows a text is a value that it gives a role."""
    text = text[-60:]
    for mark in _MARK.finditer(text):
        between = _BETWEEN.match(text, mark.end())
        if between and between.end() == len(text):
            return True
    return False


def read_table(lines: Sequence[str]) -> Iterator[tuple[str, Told]]:
    """Rows of a Markdown table with a column for the code and one for what was expected."""
    if len(lines) < 3 or not re.fullmatch(r"[\s|:-]+", lines[1]):
        return
    columns: dict[str, int] = {}
    for number, cell in enumerate(_cells(lines[0])):
        for role in ("expected", "actual", "code"):
            if role not in columns and _HEADS[role].search(cell):
                columns[role] = number
                break
    if not {"code", "expected"} <= columns.keys():
        return
    for line in lines[2 : MAX_ROWS + 2]:
        cells = _cells(line)
        if max(columns.values()) < len(cells):
            code, expected = cells[columns["code"]].strip("`"), cells[columns["expected"]].strip("`")
            actual = cells[columns["actual"]].strip("`") if "actual" in columns else ""
            yield code, Told(actual, expected)


def _cells(line: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in _CELL.split(line.strip().strip("|"))]
