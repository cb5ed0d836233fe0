"""What a report says about a value: what came out, and what was expected. Read from comments, sentences and tables.

Nothing is guessed here. A value counts for the word right before it: "returns A instead of B" tells both, and a value
without such a word tells nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
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
    r"(?:\s+(?:the|a|an|me|us|back|value|string|list|result|exactly|just|like|as|is|was|equal|to|something|raising|giving"
    r"|returning|printing|proper)\b)*+"
)
_EXPECTED = (
    r"\b(?:should|must|ought to|would|ha(?:s|ve) to|needs? to|(?:is|are) supposed to)\s+"
    rf"(?:have\s+|rather\s+|instead\s+|probably\s+|really\s+)?(?:{_VERBS}|happen)\b"
    r"|\b(?:I['\u2019]d|would)\s+have\s+(?:thought|hoped for|liked)\b"
    r"|\bexpect(?:ed|ing|s)?\b(?:\s+(?:results?|outputs?|values?|answer|behaviou?r|outcome|return|it|this|that|to|here|be"
    r"|get|see|have|print|would|is|was|of|give|yield|produce|raise|throw|become|show)\b)*+"
    rf"|\bused to\s+{_VERBS}\b|\binstead of\b|\brather than\b"
    r"|\b(?:correct|right)\s+(?:answer|result|value|output)\b|\bwant(?:ed)?\b|\bnot\b"
)
_ACTUAL = (
    r"\b(?:returns?|returned|returning|gives?|gave|giving|yields?|prints?|printed|outputs?|produces?|produced"
    r"|results? in|evaluates? to|becomes?|became|comes? out as|ends? up (?:as|with)|shows?|is parsed as)\b"
    r"|\b(?:turn(?:s|ed)? into|renders? as|is (?:rendered|shown) as|c[oa]mes? back as"
    r"|is (?:turned|converted|changed) (?:to|into))\b"
    r"|\b(?:got|gets?|getting|received?|see)\b|^\W{0,4}(?:->|=>|\u2192)"
    r"|^\W*(?:is|was|now|have|results?|observed)\b(?:\s+(?:results?|outputs?|values?|behaviou?r))?(?=\W{0,3}:)"
    r"|\bactual(?:ly)?\b(?:\s+(?:results?|outputs?|values?|behaviou?r|is|was))*+|(?:\bbut\b|,)\s+(?:it\s+)?(?:is|was)\b|\bcurrently\b"
    r"|\b(?:raises?|raised|raising|throws?|threw|(?:fails?|failed|crash(?:es)?|dies|errors?(?: out)?) with)\b"
)
_MARK = re.compile(rf"(?P<expected>{_EXPECTED})|(?P<actual>{_ACTUAL})", re.I)
_BETWEEN = re.compile(rf"{_FILLER}[\s:=,*-]{{0,5}}(?:(?<=[=-])>\s?)?")
_ADJECTIVES = re.compile(
    r"(?:\s*+(?:(?:the|an?|its|their|our|own|bare|plain|raw|proper|clear|clean|nice|good|better|helpful|friendly|generic"
    r"|specific|custom|normal|usual|unhandled|uncaught|unexpected|strange|weird|odd|cryptic|confusing|misleading|obscure"
    r"|ugly|internal|low-level|built-?in|standard|some|kind of|type of|subclass of|with|raising|throwing)\b"
    r"|\w+['\u2019]s\b|`\w+`['\u2019]s\b))++\s++(?=`?(?:[A-Za-z_]\w*\.)*[A-Z])"
)
"""What may stand before the name of an exception, which nothing else looks like."""
_NAMED = r"(?<![\w.])`?(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Warning|Iteration|Found)\b`?"
_PASSIVE = re.compile(
    rf"(?P<expected>{_NAMED}(?=\s+(?:(?:should|must|would|ought to)\s+(?:be|have been)"
    r"\s+(?:(?:a|the)\s+)?(?:raised|thrown|expected|appropriate|better|right|correct|proper|more helpful)"
    r"|(?:is|was)\s+expected)\b))"
    rf"|(?P<actual>{_NAMED}(?=\s+(?:is|was|gets|got|being)\s+(?:raised|thrown)\b))"
)
"""An exception that comes before what is said about it."""
_RAISES = re.compile(r"\b(?:rais|throw|threw)\w*\s+(?:an?\s+|the\s+)?(?=`?(?:[A-Za-z_]\w*\.)*[A-Z][a-z]+[A-Z])", re.I)
_CLASS = re.compile(r"`?((?:[A-Za-z_]\w*\.)*[A-Z][a-z]+[A-Z]\w*)(?![\w.(])")
"""What is raised, whatever the end of its name: `httpx.InvalidURL`."""
_VALUE_EXPECTED = re.compile(
    r"(?P<value>`[^`\n]{1,300}`|'[^'\n]{0,300}'|\"[^\"\n]{0,300}\"|(?<![\w.])-?\d+(?:\.\d+)?)"
    r"\s+(?:(?:is|was|were|would be)\s+(?:what\s+(?:I|we)(?:\s+had|['\u2019]d)?\s+)?(?:expect(?:ed)?|want(?:ed)?)"
    r"|would (?:be|have been) (?:correct|right))\b"
)
_LATER = re.compile(
    r"(?P<named>,\s+(?:so|i\.e\.|namely|that is),?|:)\s+"
    r"(?=[\[{(`'\"]|b['\"]|(?<=i\.e\.\s)(?:True|False|None|-?\d+)\b)"
)
"""Before a value that a sentence gives behind what it says of it: "I expected both to be kept: 'a' and 'b'"."""
_ENDS_IN_VALUE = re.compile(r":\s{1,3}`([^`\n]{1,300})`\s{0,3}[.!]?\s{0,3}$")
_CLAUSE_ENDS = re.compile(r"`?\s{0,3}(?:[.,;!?)]|and\b|(?:in|for)\s+the\s+(?:first|last)\b|$)")
_EMPTY = re.compile(r"(?:an\s+)?empty\s+(list|string|dict|tuple)\b")
_EMPTY_VALUES = {"list": "[]", "string": "''", "dict": "{}", "tuple": "()"}
_NEXT_VALUE = re.compile(r"`?(?:,|\s+and|,\s+and)\s+")
_PLACE_NAMES = ("first", "second", "third", "fourth", "fifth")
_PLACE = re.compile(
    rf"(?:\b(?:the|for)\s{{1,3}}|^\W{{0,3}}(?=[FSTL]))(?P<name>{'|'.join(_PLACE_NAMES)}|last)(?:\s{{1,3}}(?P<count>two|three|four))?"
    rf"(?P<more>(?:,?(?:\s{{1,3}}and)?\s{{1,3}}(?:the\s{{1,3}})?(?:{'|'.join(_PLACE_NAMES)}|last)\b){{0,4}})"
    r"(?=(?<=\bin the last)\sline\b|(?<=\bin the first)\sline\b"
    r"|\s{1,3}(?:ones?|calls?|examples?|cases?|results?|should|must|to|I|is|was|would)\b|\s?[,.:(]|\s?$)",
    re.I,
)
_COUNTS = {"two": 2, "three": 3, "four": 4}
_EACH = re.compile(
    r"\b(?:each|all|both|every(?: single)? one)\s+(?:one\s+)?(?:of\s+(?:them|these|those)\b"
    r"|(?:of\s+)?(?:the\s+)?(?:(?:two|three|four|five)\b|(?:calls|cases|examples|times)\b))"
    r"|\b(?:for|in|from|by)\s+(?:each|all|both)(?=\s*(?:[.,;:()]|$))",
    re.I,
)
_SUBJECT = re.compile(
    r"\s+to\s+(?:be|return|give|equal|print|yield|output|produce|raise|evaluate to|result in|become|show|contain)\b"
)
"""Behind a call: "I expected `f(1)` to return 2"."""
_OUGHT = re.compile(r"\s+(?:should|must|ought)\b")
_IS = re.compile(r"\s+(?:is|was|equals)\s+(?=\S)")
_COPULA = re.compile(r"^(?:is|was)\s+(?!not\b)")
_GIVES = re.compile(r"\s{0,3}(?:->|=>|\u2192|(?:returns?|returned|gives?|gave|yields?|raises?|should|must|is|was)\s)")
_INSTEAD = re.compile(r"\b(?:instead of|rather than)\b", re.I)
_WISH = re.compile(r"\b(?:could|should|must|ought|would|expect(?:ed)?|want(?:ed)?|please)\b", re.I)
_JUDGES = re.compile(
    rf"{_WISH.pattern}|\b(?:right|correct\w*|proper(?:ly)?|better|prefer\w*|rather|instead|appropriate|suitable|sensible"
    r"|helpful|nicer?|documented)\b",
    re.I,
)
_STRONG = re.compile(r"\b(?:got|gets?|actual\w*|current\w*|instead|but|now|however|rather|raise[sd]?|fail\w*)\b", re.I)
_LABEL_ENDS = re.compile(r"\s(?:-{1,2}|[\u2013\u2014])\s")
"""Where a remark begins behind a value with a label: `Expected: 3 - f(2) gives 4 too`."""
_NEGATED = re.compile(r"(?:\b(?:not|never|no|cannot)|n['\u2019]t)\s+\S{0,12}\s?$", re.I)
_MARKUP = re.compile(r"(`[^`\n]*+`)|\*\*|__")
_ELEMENT = re.compile(r"<([A-Za-z][\w-]*+)[^<>\n]*+>")
_QUOTED = re.compile(r"``([^\n]{1,300}?)``|`([^`\n]{1,300})`")
_IN_QUOTES = re.compile(r"`[^`\n]*+`|(?<!\w)\"[^\"\n]*+\"")
_STRING = re.compile(r"[rbuRBU]{0,2}(?:'(?:[^'\\\n]|\\.)*+'|\"(?:[^\"\\\n]|\\.)*+\")")
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d[\d_]*+(?:\.\d++)?|\.\d++)(?:[eE][-+]?\d++)?(?:[jJ])?(?!\w|[-:/.]\d)")
"""A number, and no part of a date, a time, a version or a fraction."""
_WORD_VALUE = re.compile(r"(?:None|True|False|nan|inf)\b")
_NAME = re.compile(r"[A-Za-z_][\w.]{0,80}(?=\()")
EXCEPTION = re.compile(
    r"(?<!\w)(?<!\w\.)(?:(?:[A-Za-z_]\w*\.)*(?=[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Warning|Iteration|Found)\b)"
    r"|(?:[A-Za-z_]\w*\.)+(?=Error\b))([A-Z]\w*)"
)
_PROSE = re.compile(r"[\[(]\s*[A-Za-z][\w']*(?:\s+[A-Za-z][\w'-]*){2}|\[[^\]\n]*\]\(")
"""A remark in brackets, or a link."""
_WORDS = re.compile(r"(?!(?:None|True|False|nan|inf)$)[A-Za-z][a-z'/]*(?:[ -][\w'/]+)*[.!?]*(?: \([\w .,'/-]*\))?")
"""A remark rather than a value, in the cell of a table."""
_VAGUE = re.compile(
    r"\b(?:doesn['\u2019]?t|does not|isn['\u2019]?t|not) (?:really )?(?:matter|important)\b|\bin any order\b"
    r"|\broughly\b|\bapproximately\b|\bor (?:something )?similar\b|\bor something\b|\bor so\b"
    r"|\bor was it\b|\bother way a?round\b|\bfor one of (?:them|these|those)\b|\bnot sure which\b",
    re.I,
)
_SPACE_IS_FREE = re.compile(
    r"\b(?:white[ -]?space|spacing|indentation|newlines|line (?:breaks|ends))\b[^.;()\n]{0,40}?"
    r"\b(?:doesn['\u2019]?t|does not|don['\u2019]?t|do not) (?:really )?matter",
    re.I,
)
"""Says of white space what `_VAGUE` says of a value; it is not compared anyway."""
_CLOSES = {"(": ")", "[": "]", "{": "}", "<": ">"}
_SENTENCE = re.compile(r"(?<=[.!?])(?<!\bi\.e\.)(?<!\be\.g\.)\s+(?=[A-Z`(*])")
_PART = re.compile(r"[,;]\s|\s(?:but|while)\s")
_CELL = re.compile(r"(?<!\\)\|")
_AUTHORITY = re.compile(
    r"\b(?:PEP|RFC|ISO|IEEE|ECMA|ANSI|POSIX|C\d\d|spec(?:ification)?s?|standard|docs?|documentation|manual)\b"
)
"""In the head of a column: what has to be, by something that the project follows."""
_HEADS: dict[str, re.Pattern[str]] = {
    "code": re.compile(r"\b(?:input|expression|code|call|snippet|statement|example)\b", re.I),
    "actual": re.compile(
        r"\b(?:actual|got|i get|current(?:ly)?|returns?|result|output|observed|gives|found|now)\b", re.I
    ),
    "expected": re.compile(r"\b(?:expect\w*|should|want\w*|need(?:ed)?|correct|desired)\b", re.I),
}


@dataclass(frozen=True)
class StatedValue:
    """What a line or sentence says about one value, as it is written; empty: it does not say."""

    actual: str = ""
    expected: str = ""

    def __bool__(self) -> bool:
        return bool(self.actual or self.expected)


NOTHING = StatedValue()


def sentences(line: str) -> list[str]:
    """The sentences of a line. What is quoted or in brackets belongs to the sentence around it."""
    line = line[:MAX_LINE_CHARS]
    found: list[str] = []
    start = 0
    for gap in _SENTENCE.finditer(line):
        said = line[start : gap.start()]
        if said.count('"') % 2 == said.count("`") % 2 == 0 and said.count("(") <= said.count(")"):
            found.append(said)
            start = gap.end()
    return [*found, line[start:]]


def read_stated_values(text: str, *, markup: bool = True) -> StatedValue:
    """The values that a sentence or comment gives for each role; the first of each counts."""
    found: dict[str, str] = {}
    text = text[:MAX_LINE_CHARS]
    if markup:
        text = _MARKUP.sub(lambda found: found[1] or "", text)
    first = len(text)
    remark = len(text)
    quotes = [quote.span() for quote in _IN_QUOTES.finditer(text)]
    for mark in islice(_MARK.finditer(text), MAX_MARKS):
        if mark.start() > remark:
            break
        if _is_quoted(text, mark, quotes):
            continue
        role = "expected" if mark["expected"] else "actual"
        if mark[0].lower() == "not" and "actual" not in found:
            if "expected" not in found:
                continue  # "A, not B" says what B is only after A
            role = "actual"
        if _INSTEAD.match(mark[0]) and "actual" not in found and _WISH.search(text, 0, mark.start()):
            role = "actual"  # "it should give A instead of B"
        if mark[0].lower() != "not" and _NEGATED.search(text[max(0, mark.start() - 20) : mark.start()]):
            continue
        between = _BETWEEN.match(text, mark.end())
        start = between.end() if between else mark.end()
        value = (
            leading_value(text[start:], markup=markup)
            or _exception_after(text, mark.end())
            or (_later_value(text, mark.end(), markup=markup) if role == "expected" else _raised(text, mark))
        )
        if value:
            found.setdefault(role, value)
            first = min(first, mark.start())
            if ":" in text[mark.end() : start] and (
                end := _LABEL_ENDS.search(text, max(start, text.find(value, start) + len(value)))
            ):
                remark = min(remark, end.start())
    for passive in islice(_PASSIVE.finditer(text), MAX_MARKS):
        if not _NEGATED.search(text[max(0, passive.start() - 20) : passive.start()]):
            found.setdefault(passive.lastgroup or "", passive[0].strip("`"))
    for named in islice(_VALUE_EXPECTED.finditer(text), MAX_MARKS):
        found.setdefault("expected", named["value"].strip("`"))
    # `B (expected A)`: what stands first, with no word before it, is what came out.
    plain = _COPULA.sub("", text.lstrip("#>=- \t"))
    value = leading_value(plain, markup=markup) if "expected" in found and "actual" not in found else ""
    is_value = is_literal(value) or plain.startswith("`") or EXCEPTION.match(value)
    if value not in ("", found.get("expected")) and is_value and text.find(value) < first:
        found["actual"] = value
    return StatedValue(found.get("actual", ""), found.get("expected", ""))


def _is_quoted(text: str, mark: re.Match[str], quotes: Sequence[tuple[int, int]]) -> bool:
    """Whether a word is no word of the reporter's: it stands in quotes, or in the message of an exception."""
    if any(start < mark.start() < end for start, end in quotes):
        return True
    messages = [
        raised.end()
        for raised in EXCEPTION.finditer(text, 0, mark.start())
        if text[raised.end()] == ":" and not any(start < raised.start() < end for start, end in quotes)
    ]
    said = text[messages[-1] : mark.start()].rstrip() if messages else ""
    if not messages:
        return False
    closed = all(said.count(one) <= said.count(other) for one, other in _CLOSES.items())
    return mark[0].lower() == "not" or not closed or not said.endswith((",", ";", "."))


def read_told_below(section: str, sentence: str) -> StatedValue:
    """As read_told, for a sentence below a heading: "Returns 3" is expected where the heading says so."""
    told = read_stated_values(sentence)
    if section == "expected" and told.actual and not told.expected and not _STRONG.search(sentence):
        return StatedValue(expected=told.actual)
    return told


def _exception_after(text: str, start: int) -> str:
    """The exception that a text names next, with no more than adjectives before it; empty: none."""
    before = _ADJECTIVES.match(text[: start + 100], start)
    named = EXCEPTION.match(text[before.end() :].lstrip("`")[:MAX_VALUE_CHARS]) if before else None
    return named[0] if named else ""


def _raised(text: str, mark: re.Match[str]) -> str:
    """What a word such as `raises` stands before; empty: it is another word."""
    raises = _RAISES.search(text, mark.start(), mark.end() + 100)
    named = _CLASS.match(text, raises.end()) if raises and raises.start() <= mark.end() else None
    return named[1] if named else ""


def _later_value(text: str, start: int, *, markup: bool) -> str:
    """The literal that a clause ends with; after a colon only one of several examples is meant by it."""
    later = _LATER.search(text, start)
    if later is None or (later["named"] == ":" and not read_places(text)):
        return ""
    value = leading_value(text[later.end() :], markup=markup)
    ends = _CLAUSE_ENDS.match(text, text.find(value, later.end()) + len(value))
    return value if ends and is_literal(value) else ""


def leading_value(text: str, *, markup: bool = True) -> str:
    """The value that a text starts with: code between backticks, a literal, `Name(…)` or an exception; empty: none.

    Without markup backticks are part of the value.
    """
    text = text.lstrip(" \t*_" if markup else " \t")[: MAX_VALUE_CHARS + 50]
    if quoted := _QUOTED.match(text):
        return (quoted[1] or quoted[2]).strip() if markup else quoted[0]
    if raised := EXCEPTION.match(text):
        return raised[0]
    if empty := _EMPTY.match(text):
        return _EMPTY_VALUES[empty[1]]
    for shape in (_STRING, _NUMBER, _WORD_VALUE):
        if match := shape.match(text):
            inside = match[0][1:-1] if shape is _STRING else ""
            return (
                inside if (raised := EXCEPTION.match(inside)) and inside[raised.end() :][:1] in ("", ":") else match[0]
            )
    if _PROSE.match(text):
        return ""
    if element := _ELEMENT.match(text):
        end = text.rfind(closing := f"</{element[1]}>")
        if end > 0:
            return text[: end + len(closing)]
    start = name.end() if (name := _NAME.match(text)) else 0
    return text[: end + 1] if text[start : start + 1] in _CLOSES and (end := closing_bracket(text, start)) else ""


def closing_bracket(text: str, start: int) -> int:
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


def read_places(sentence: str) -> tuple[int, ...]:
    """Which of several examples a sentence speaks of, from 0 on, the last as -1: "the first two", "the last one"."""
    found: list[int] = []
    for place in islice(_PLACE.finditer(sentence[:MAX_LINE_CHARS]), MAX_MARKS):
        names = [place["name"], *re.findall(r"\w+", place["more"])]
        numbers = [_PLACE_NAMES.index(name.lower()) for name in names if name.lower() in _PLACE_NAMES]
        numbers += [-1] * (names[-1].lower() == "last")
        if place["count"]:
            if place["name"].lower() != "first" or len(numbers) > 1:
                return ()
            numbers = list(range(_COUNTS[place["count"].lower()]))
        found += numbers
    return tuple(dict.fromkeys(found))


def read_placed_values(sentence: str) -> list[tuple[int, StatedValue]]:
    """What a sentence says of some of several examples, by their places."""
    for parts in ([sentence], _PART.split(sentence[:MAX_LINE_CHARS])[:MAX_MARKS]):
        found: list[tuple[int, StatedValue]] = []
        for part in parts:
            places, values = read_places(part), read_expected_values(part)
            if places and len(places) == len(values):
                found += [(place, StatedValue(expected=value)) for place, value in zip(places, values, strict=True)]
            elif len(places) == 1 and (told := read_stated_values(part)):
                found.append((places[0], told))
        if found:
            return found
    return []


def read_expected_values(sentence: str) -> tuple[str, ...]:
    """The values that a sentence expects, if it lists several: "I expected 'a' and 'b'"."""
    return _listed(sentence, read_stated_values(sentence).expected)


def read_actual_values(sentence: str) -> tuple[str, ...]:
    """The values that came out, if a sentence lists several."""
    return _listed(sentence, read_stated_values(sentence).actual)


def closing_value(sentence: str) -> str:
    """The code that a sentence ends with behind a colon, if it says what should be; empty: it does not."""
    ends = _ENDS_IN_VALUE.search(sentence[:MAX_LINE_CHARS])
    return ends[1].strip() if ends and _WISH.search(sentence, 0, ends.start()) else ""


def is_about_each(sentence: str) -> bool:
    """Whether what a sentence says counts for every one of several examples."""
    return bool(_EACH.search(sentence[:MAX_LINE_CHARS]))


def judges(sentence: str) -> bool:
    """Whether a sentence may say what would be right."""
    return bool(_JUDGES.search(sentence[:MAX_LINE_CHARS]))


def _listed(sentence: str, value: str) -> tuple[str, ...]:
    """A value of a sentence, and those that it lists behind it."""
    sentence = sentence[:MAX_LINE_CHARS]
    found = [value] if value else []
    at = sentence.find(value) + len(value)
    while value and at >= len(value) and (gap := _NEXT_VALUE.match(sentence, at)) and len(found) < MAX_MARKS:
        value = leading_value(sentence[gap.end() :])
        at = sentence.find(value, gap.end()) + len(value)
        if value:
            found.append(value)
    return tuple(found)


def find_expressions(sentence: str, known: Collection[str] = ()) -> list[tuple[str, str]]:
    """The calls, and what else is `known`, that a sentence is about, each with what it says up to the next one."""
    sentence = sentence[:MAX_LINE_CHARS]
    places: list[tuple[int, int, str]] = []
    for quoted in islice(_QUOTED.finditer(sentence), MAX_MARKS):
        code = (quoted[1] or quoted[2]).strip()
        after = _SUBJECT.match(sentence, quoted.end()) or _OUGHT.match(sentence, quoted.end())
        is_subject = after or not _ends_in_mark(sentence[: quoted.start()])
        if ("(" in code or code in known) and not is_literal(code) and is_subject:
            places.append((quoted.start(), quoted.end(), code))
    ends = [*(start for start, _, _ in places[1:]), len(sentence)]
    return [(code, sentence[start:end]) for (_, start, code), end in zip(places, ends, strict=False)]


def quote_call(line: str) -> str:
    """A line that begins with a call and says what it gives, with the call between backticks."""
    plain = line.lstrip(" \t-*>")
    name = _NAME.match(plain[:MAX_LINE_CHARS])
    end = closing_bracket(plain[:MAX_VALUE_CHARS], name.end()) + 1 if name else 0
    return f"`{plain[:end]}`{plain[end:]}" if end > 1 and _GIVES.match(plain, end) else line


def read_told_of(before: str, rest: str) -> StatedValue:
    """What a sentence says about a call in it, by the words before and behind it."""
    if subject := _SUBJECT.match(rest):
        rest = f"expected {rest[subject.end() :]}"
    told = read_stated_values(rest)
    if (named := _IS.match(rest)) and told.expected and not told.actual:
        told = StatedValue(leading_value(rest[named.end() :]), told.expected)
    if not told.expected and (mark := _INSTEAD.search(before)):
        told = StatedValue(told.actual, read_stated_values(before[mark.start() :]).expected)
    return told


def _ends_in_mark(text: str) -> bool:
    """Whether what follows a text is a value that it gives a role."""
    text = text[-60:]
    for mark in _MARK.finditer(text):
        between = _BETWEEN.match(text, mark.end())
        if between and between.end() == len(text):
            return True
    return False


@dataclass(frozen=True)
class Table:
    """A table of examples: what goes in, what came out, what was expected."""

    heads: tuple[str, ...]
    """Of the columns of what goes in, the most telling first."""
    actual_head: str
    rows: tuple[tuple[tuple[str, ...], StatedValue], ...]
    """What goes in, as it is written, and what the row says about it."""


def read_table(lines: Sequence[str]) -> Table | None:
    """A Markdown table with a column for what was expected, or with exceptions that came out; None: it is none."""
    if len(lines) < 3 or not re.fullmatch(r"[\s|:-]+", lines[1]):
        return None
    heads = _cells(lines[0])
    columns: dict[str, int] = {}
    for number, cell in enumerate(heads):
        for role in ("expected", "actual", "code"):
            if role not in columns and _HEADS[role].search(cell):
                columns[role] = number
                break
    inputs = [number for number in range(len(heads)) if number not in (columns.get("expected"), columns.get("actual"))]
    if "actual" not in columns and len(heads) == 3 and len(inputs) == 2:
        columns["actual"] = inputs.pop(0 if columns.get("code") == inputs[1] else 1)
    calls = [number for number in inputs if "(" in heads[number]]
    if "actual" not in columns and len(calls) == 1 and len(inputs) > 1:
        columns["actual"] = calls[0]  # what a call with the other columns' values gives
        inputs.remove(calls[0])
    if "actual" in columns and "expected" not in columns and len(inputs) > 1:
        # What agrees here and there is of the same kind.
        both = [
            (number, any(cells[number : number + 1] == [cells[columns["actual"]]] for cells in map(_cells, lines[2:])))
            for number in inputs
            if _AUTHORITY.search(heads[number])
        ]
        if len(both) == 1 and both[0][1]:
            columns["expected"] = both[0][0]
            inputs.remove(both[0][0])
    if not columns.keys() & {"expected", "actual"} or not inputs:
        return None
    inputs.sort(key=lambda number: number != columns.get("code"))
    rows = []
    for line in lines[2 : MAX_ROWS + 2]:
        cells = _cells(line)
        if len(cells) > max(columns.values()):
            cells += [""] * (len(heads) - len(cells))
            wanted = cells[columns["expected"]] if "expected" in columns else ""
            told = StatedValue(_cell(cells[columns["actual"]]) if "actual" in columns else "", _cell(wanted))
            if _WORDS.fullmatch(wanted) and not _WORDS.fullmatch(told.actual):
                told = StatedValue(told.actual)  # "same", "none", "at most 3", "same (ok)"
            rows.append((tuple(_cell(cells[number]) for number in inputs), told))
    if "expected" not in columns and not any(EXCEPTION.match(told.actual) for _, told in rows):
        return None
    actual_head = _cell(heads[columns["actual"]]) if "actual" in columns else ""
    return Table(tuple(heads[number].strip("`") for number in inputs), actual_head, tuple(rows))


def _cell(text: str) -> str:
    """What a cell holds, without a remark behind what it quotes and a verb before an exception."""
    if (verb := re.match(r"(?:raises?|throws?)\s+(?:an?\s+)?`?", text)) and EXCEPTION.match(text, verb.end()):
        return text[verb.end() :].strip("`")
    quoted = _QUOTED.match(text)
    return (quoted[1] or quoted[2]).strip() if quoted else text


def read_quoted(line: str) -> list[str]:
    """What a line has between backticks."""
    quoted = islice(_QUOTED.finditer(line[:MAX_LINE_CHARS]), MAX_MARKS)
    return [(code[1] or code[2]).strip() for code in quoted]


def raised_name(value: str, said: str = "") -> str:
    """The class of an exception, by the end of its name or as a text says that it is raised; empty: it is none."""
    if raised := EXCEPTION.match(value):
        return raised[1]
    named = _CLASS.fullmatch(value) if _RAISES.search(said) else None
    return named[1].rpartition(".")[2] if named else ""


def is_vague(text: str) -> bool:
    """Whether a report says that what it expects need not be so to the letter, or doubts which value belongs where."""
    return bool(_VAGUE.search(_SPACE_IS_FREE.sub("", text)))


def names_a_role(head: str) -> bool:
    """Whether the head of a column says what its values are to the report, and nothing about the result."""
    return any(words.search(head) for words in _HEADS.values())


def _cells(line: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in _CELL.split(line.strip().strip("|"))]
