"""Python of an issue's text that uses the repository, made complete where that takes no invention. Nothing runs here.

A script comes with what the report says about its statements: what each gave, and what was expected. A pair counts only
where the report fixes it: on the same line, in the same sentence, or as many values as statements, in order. Two values
that belong together and to no statement are left to a run: one statement may give the value that is complained of.
"""

from __future__ import annotations

import ast
import builtins
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from itertools import islice, takewhile
from typing import Literal

from scrout.scout.recon.blocks import MAX_BLOCKS, MAX_TEXT_CHARS, Block, is_session, read_session, segments
from scrout.scout.recon.commands import inline_python
from scrout.scout.recon.expectations import (
    EXCEPTION,
    MAX_LINE_CHARS,
    NOTHING,
    StatedValue,
    Table,
    closing_bracket,
    closing_value,
    find_expressions,
    is_about_each,
    judges,
    leading_value,
    names_a_role,
    quote_call,
    raised_name,
    read_actual_values,
    read_expected_values,
    read_placed_values,
    read_places,
    read_quoted,
    read_stated_values,
    read_table,
    read_told_below,
    read_told_of,
    sentences,
)
from scrout.syntax import SourceText, is_literal, parse_python

MAX_SCRIPTS = 5
MAX_SCRIPT_CHARS = 65_536
MAX_ASKS = 20
"""Statements of a script that a report says something about."""
MAX_TABLES = 8
"""Each is read beside the code above it."""
MAX_OUTPUT_CHARS = 3_000
MAX_CHAINS = 200
MAX_MIXED_LINES = 60
"""Of a block in which code is looked for that output follows."""
LEAST_SENTENCE_WORDS = 7
"""Of a line that ends with a colon and is no heading."""

_PYTHON_TAGS = ("", "python", "py", "python3", "pycon", "ipython", "ipython3", "python-console", "pytb", "doctest")
_TRACEBACK = re.compile(r"^.*Traceback \(most recent call last\).*$", re.M)
_FRAME = re.compile(r'^  File "[^"\n]+", line \d+', re.M)
_EXCEPTION = re.compile(r"^(?:\w+\.)*(\w*(?:Error|Exception|Exit|Interrupt|Warning|Group))(?::.*)?$", re.M)
_ALIASES = {"np": "import numpy as np", "pd": "import pandas as pd"}
"""Names that everybody gives the same module."""
_HOMES = (
    "typing",
    "dataclasses",
    "datetime",
    "decimal",
    "enum",
    "collections",
    "pathlib",
    "fractions",
    "functools",
    "io",
)
"""Modules whose names are used without telling where they come from, best known first."""
DOTTED = re.compile(r"(?<![\w./])[A-Za-z_]\w{0,60}(?:\.[A-Za-z_]\w{0,60}){1,6}")
_CONSTRUCTORS = (
    *(
        "set",
        "frozenset",
        "dict",
        "list",
        "tuple",
        "bytes",
        "bytearray",
        "range",
        "float",
        "complex",
        "date",
        "datetime",
    ),
    *("timedelta", "time", "array"),
)
"""What makes a value and has a name in lower case."""
_OBJECTS = re.compile(r"\b(?:but|wrong|incorrect|although|though|should|bug)\b", re.I)
_KIND = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*\(")
_OPPOSITE = {"True": "False", "False": "True"}
_NOT_VALUES = (ast.Lambda, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr, ast.comprehension, ast.Compare)

_HEADING = re.compile(r"^\s*(?:#{1,6}\s|\*\*|__|[-*]\s+\*\*)|:\**\s*$|^\s*[A-Z][\w ]{2,40}\??$")
_EXPECTED_HEAD = re.compile(
    r"\bexpect(?:ed|ation)?\b|\b(?:should|must|would)\s+(?:be|have|return|give|print|look|happen|output|see)\b"
    r"|\bcorrect (?:output|result|behaviou?r)\b|\bdesired\b|\bwant(?:ed)?\b",
    re.I,
)
_ACTUAL_HEAD = re.compile(
    r"\bactual(?:ly)?\b|\bcurrent(?:ly)?\b|\bobserved\b|\bgot\b|\bi (?:get|see)\b|\b(?:we|it) gets?\b|\boutputs?\b"
    r"|\bresults?\b|\bprints?\b|\bwhat happen(?:s|ed)\b|\binstead\b|\breturns?\b|\bgives?\b",
    re.I,
)
_BARE_HEADS = {
    "actual": re.compile(r"^\W*+(?:is|was|now|today|wrong|incorrect|got)\W*+", re.I),
    "expected": re.compile(r"^\W*+(?:right|correct|wanted|desired)\W*+", re.I),
}
"""Headings of one word."""
_OUTPUT_HEAD = re.compile(r"\b(?:output|printed|prints?|result)\b\W*$", re.I)
"""Of a block that is no code of the report's, even if it reads like some."""
_LABEL = re.compile(
    r"\W*(?:the\s+)?(?:(?P<expected>expected)|(?P<actual>actual|got|observed|current))\b[^:]{0,40}:", re.I
)
_FIRST_DONE = re.compile(r"\W*(?:after|once|having|following|with)\b", re.I)
"""Begins a sentence whose first call comes before the others."""
_GOES_ON = re.compile(
    r"\W*(?:(?:but|and|so|obviously|clearly|of course|surely|imho|i think|i guess|i believe|in my opinion)\b,?\s+){0,2}"
    r"(?:it|this|that|I|we|expected|instead"
    r"|the (?:(?:correct|right|expected) )?(?:result|output|answer|value))\b",
    re.I,
)
"""Begins a sentence about the call of the sentence before."""
_MADE = re.compile(r"^[ \t]*+(?:>>> )?(\w+) = (?:((?:\w+\.)*[A-Z]\w*)\(\)[ \t]*$)?", re.M)
_EXITS = re.compile(r"\bexits? (?:with )?(?:(?:an? )?(?:exit )?(?:code|status) )?(?:of )?[1-9]", re.I)
"""What a program is expected to do that could not do its work."""
_IN_BRACKETS = re.compile(r"\(\s*`?([A-Za-z_]\w*)`? (?:=|is(?: an?)?) (?=[`\w'\"\[{(])")
_ABOUT = re.compile(r"(?:for|from|in|with|here)\b")
"""Begins what a report says about a value behind it."""
_DENIED = re.compile(
    r"\b(?:no|not|never|without|instead of|rather than|like|same|gone|caught|catch|handled?|swallow\w*|ignored?"
    r"|suppress\w*|avoid\w*|fixed|disappears?|currently|now)\b|n['\u2019]t\b",
    re.I,
)
_INSTEAD_OF_SOME = re.compile(r"\b(?:instead of|rather than)\b", re.I)
_NAME = re.compile(r"[A-Za-z_][\w.]*")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_ITEM = re.compile(r"\s{0,3}(\d)[.)]\s+")
_FUNCTION = re.compile(r"([A-Za-z_][\w.]*+)(?:\((?:\.{3}|\u2026)?\))?|([A-Za-z_].{0,200})\((?:\.{3}|\u2026)\)")
"""A function by its name, or what a call without its arguments is made of: `Parser().parse(...)`."""
_ROLE_BEGINS = re.compile(r"\W{0,4}(?:expected|should|must|instead|but)\b", re.I)
_GIVES_BLOCK = re.compile(
    r"`?\s*,?\s*(?:(?:it|this|that)\s+)?(?:(?:I|we)\s+(?:get|see)"
    r"|(?:returns?|gives?|yields?|prints?|produces?|outputs?|renders?)(?: me)?"
    r"|(?:fails?|crash(?:es)?|dies|raises?|throws?)(?: with)?)(?:\s+(?:this|the following)(?:\s+\w+)?)?\s*[:.]?\s*"
)
"""Between a call and the block that shows what it gives."""
_INSTEAD_OF = re.compile(r"\b(?:instead of|rather than)\W{0,5}$", re.I)
_GIVES = re.compile(r"\s{0,9}(?:(?:->|=>|got|gives|prints)\s{0,9}:?)?")
_BUT_EXPECTED = re.compile(r"(?<=\s)(?:expected|should be)\b")
_IN_REPR = re.compile(r"^ *File .*, in __(?:repr|str)__$", re.M)
_REMARK = re.compile(r"(?<![ \t])[ \t]{2,}+#[ \t]*+([^\n]*+)")
"""Behind what a session answered."""
_NOT_EXPECTED = re.compile(r"\b(?:un|not (?:as |what i )?)expected\b|\bunexpected\b", re.I)


@dataclass(frozen=True)
class Ask:
    """A statement of a script that shows a value, with what the report says about it."""

    line: int
    """The last one of the statement."""
    told: StatedValue = NOTHING


@dataclass(frozen=True)
class Script:
    """Python from an issue that uses something of the repository."""

    source: str
    root: str
    """Folder that has to be on Python's path; empty: the repository's root is enough."""
    expected: str | None = None
    """The exception that the issue shows for it; None: it shows none."""
    runner: Literal["pytest", "unittest"] | None = None
    """What has to call the tests that it defines; None: it defines none."""
    asks: tuple[Ask, ...] = ()
    pairs: tuple[StatedValue, ...] = ()
    """Values that the report pairs with each other and with no statement."""
    output: StatedValue = NOTHING
    """All that it prints, if the report tells that as a whole."""
    unpaired: tuple[str, ...] = ()
    """Expected values that belong to no statement for certain."""
    expressions: tuple[str, ...] = ()
    """What the report tells as Python that can be evaluated here: `Decimal("1.5")`, `[first, last]`."""

    @property
    def wanted(self) -> tuple[str, ...]:
        """Exceptions that the report expects."""
        told = (*(ask.told for ask in self.asks), *self.pairs)
        values = (*(one.expected for one in told), *self.unpaired)
        return tuple(dict.fromkeys(raised[1] for value in values if (raised := EXCEPTION.match(value))))

    @property
    def says_what_is_right(self) -> bool:
        return any(ask.told.expected for ask in self.asks) or any(pair.expected for pair in (*self.pairs, self.output))


def judged_exceptions(text: str) -> dict[str, bool]:
    """The exceptions that a report's sentences name where they judge, and whether they surely call them right."""
    found: dict[str, bool] = {}
    section = ""
    for line in segments(text[:MAX_TEXT_CHARS]):
        if isinstance(line, Block):
            continue
        if _is_heading(line) and (_role_of(line) or line.lstrip().startswith(("#", "*"))):
            section = _role_of(line)  # a short line without a mark may be a sentence of the section
        for sentence in sentences(line):
            right = read_told_below(section, sentence).expected
            below = _expected_exception(sentence) if section == "expected" else ""
            sure = {name for name in (raised_name(right, sentence), below) if name}
            judged = judges(sentence) or section == "expected"
            named = {raised[1] for raised in islice(EXCEPTION.finditer(sentence), MAX_ASKS)} if judged else set()
            if judged and _EXITS.search(sentence):
                sure.add(SystemExit.__name__)
            for name in sorted(named | sure):
                found[name] = found.get(name, False) or name in sure
    return found


def find_scripts(
    text: str, top_levels: Mapping[str, str], exports: Mapping[str, str] | None = None
) -> tuple[Script, ...]:
    """Candidates in the order of the text, those with unknown names last.

    `exports` has the import statement for each name that the repository's packages offer.
    """
    earlier: list[_Piece] = []
    complete: dict[str, Script] = {}
    incomplete: dict[str, Script] = {}
    for shown in islice(_shown(text[:MAX_TEXT_CHARS]), MAX_BLOCKS):
        piece = _Piece(shown.source)
        whole, unknown = _completed(piece, earlier, shown.given, exports or {})
        earlier.append(piece)
        tree = _parse(whole)
        root = _root(tree, top_levels)
        asks, pairs, output, unpaired = shown.settled()
        is_used = _does_something(piece.tree) or any(ask.told.expected for ask in asks)
        if tree is None or root is None or len(whole) > MAX_SCRIPT_CHARS or not is_used:
            continue
        head, expressions = _evaluable([*(ask.told for ask in asks), *pairs], whole, exports or {})
        whole = head + whole
        above = whole.count("\n") - shown.source.count("\n")
        asks = tuple(replace(ask, line=ask.line + above) for ask in asks)
        found = incomplete if unknown else complete
        script = Script(whole, root, shown.error, _runner(tree), asks, pairs, output, unpaired, expressions)
        if whole not in found or not found[whole].says_what_is_right:
            found[whole] = script
    return tuple((complete | incomplete).values())[:MAX_SCRIPTS]


@dataclass
class _Shown:
    """A piece of code as the report shows it, while what is said about it is being collected."""

    source: str
    error: str | None = None
    asks: list[Ask] = field(default_factory=list)
    loose: list[StatedValue] = field(default_factory=list)
    """What lines near it say, each by itself."""
    outputs: dict[str, str] = field(default_factory=dict)
    """Blocks that are headed as expected or actual."""
    role: str = ""
    """Of code right below such a heading, which may be what the code before gave; empty: it is below none."""
    misplaced: list[str] = field(default_factory=list)
    """Values that are expected of examples that are not shown."""
    examples: list[int] | None = None
    """Which of the statements the report counts, once it does."""
    given: dict[str, str] = field(default_factory=dict)
    """Assignments in the sentences before, by their names."""
    labelled: dict[str, list[str]] = field(default_factory=lambda: {"actual": [], "expected": []})
    """All that stands behind a label on its line."""

    def place(self, told: Sequence[tuple[int, StatedValue]]) -> bool:
        """Give values to some examples, by their places; False: the report means others than are shown."""
        if self.examples is None:
            answered = [number for number, ask in enumerate(self.asks) if ask.told.actual]
            self.examples = answered or list(range(len(self.asks)))
        if not told or len(self.examples) < 2 or not all(place < len(self.examples) for place, _ in told):
            return False
        for place, values in told:
            self._tell(self.examples[place], values)
        return True

    def tell_each(self, values: Sequence[StatedValue]) -> bool:
        """Give values to all calls that are statements of their own, in order; False: they are not as many."""
        body = self.tree.body if self.tree else []
        lines = [
            node.end_lineno or 0 for node in body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        ]
        if not 1 < len(lines) <= MAX_ASKS or len(values) not in (1, len(lines)):
            return False
        asked = {ask.line: ask for ask in self.asks}
        asked |= {line: Ask(line) for line in lines if line not in asked}
        self.asks = [asked[line] for line in sorted(asked)]
        self.__dict__.pop("by_code", None)
        places = [number for number, ask in enumerate(self.asks) if ask.line in lines]
        for number, told in zip(places, values if len(values) > 1 else [*values] * len(places), strict=True):
            self._tell(number, told)
        return True

    def expect_of(self, code: str, told: StatedValue) -> bool:
        """Give an expected value to the one statement that is written so and did not give it; False: there is none."""
        written = [number for number in self.by_code.get(code, ()) if number < len(self.asks)]
        numbers = [number for number in written if not _is_same(self.asks[number].told.actual, told.expected)]
        if len(numbers) != 1 or not told.expected:
            return False
        self._tell(numbers[0], StatedValue(expected=told.expected))
        return True

    def place_inside(self, places: Sequence[int], expected: str) -> bool:
        """Give a value to one place of the only list that came out; False: there is none, or not of such values."""
        lists = [
            (number, value) for number, ask in enumerate(self.asks) if (value := _list(ask.told.actual)) is not None
        ]
        if len(lists) != 1 or len(places) != 1 or self.asks[lists[0][0]].told.expected or not is_literal(expected):
            return False
        number, values = lists[0]
        place, right = places[0], ast.literal_eval(expected)
        if not -1 <= place < len(values) or type(values[place]) is not type(right) or right in values:
            return False
        values[place] = right
        self._tell(number, StatedValue(expected=repr(values)))
        return True

    def expect_alike(self, expected: str) -> bool:
        """Give a value to the one statement that shows an object of its kind: `dict_keys([])`; False: there is none."""
        kind = _KIND.match(expected)
        if kind is None or re.search(rf"\b{re.escape(kind[0][:-1])}\b", self.source):
            return False  # an example of what goes in
        alike = [number for number, ask in enumerate(self.asks) if ask.told.actual.startswith(kind[0])]
        if len(alike) != 1 or self.asks[alike[0]].told.expected or _is_same(self.asks[alike[0]].told.actual, expected):
            return False
        self._tell(alike[0], StatedValue(expected=expected))
        return True

    def _tell(self, number: int, told: StatedValue) -> None:
        known = self.asks[number].told
        both = StatedValue(known.actual or told.actual, known.expected or told.expected)
        self.asks[number] = replace(self.asks[number], told=both)

    @cached_property
    def tree(self) -> ast.Module | None:
        return _parse(self.source)

    @cached_property
    def bound(self) -> set[str]:
        return bound_names(self.tree or ast.Module([], []))

    @cached_property
    def by_code(self) -> dict[str, list[int]]:
        """The statements that the report may speak of, by how they are written."""
        numbers = {ask.line: number for number, ask in enumerate(self.asks)}
        found: dict[str, list[int]] = {}
        text = SourceText(self.source)
        for node in self.tree.body if self.tree else ():
            if isinstance(node, ast.Expr) and node.end_lineno in numbers:
                same = found.setdefault(text.of(node), [])
                if len(same) < MAX_ASKS:
                    same.append(numbers[node.end_lineno])
        return found

    def settled(self) -> tuple[tuple[Ask, ...], tuple[StatedValue, ...], StatedValue, tuple[str, ...]]:
        """Statements with their values, pairs without a statement, the output as a whole, and what is left over."""
        output = StatedValue(self.outputs.get("actual", ""), self.outputs.get("expected", ""))
        unknown = sum(not ask.told.expected for ask in self.asks)
        if self.asks and max(len(text.strip().splitlines()) for text in (output.actual, output.expected)) <= 1:
            output = NOTHING  # what one statement shows
        for role in ("actual", "expected"):
            block = self.outputs.get(role, "").strip()
            lines = block.splitlines()
            if block and (len(lines) == 1 or len(lines) == unknown):
                self.loose += [StatedValue(**{role: line.strip()}) for line in lines]
            elif block and unknown == 1 and not _TRACEBACK.search(block):
                self.loose.append(StatedValue(**{role: block}))
        both = [told for told in self.loose if told.actual and told.expected]
        expected = [told.expected for told in self.loose if told.expected and not told.actual]
        actual = [told.actual for told in self.loose if told.actual and not told.expected]
        free = [number for number, ask in enumerate(self.asks) if not ask.told.expected]
        if expected and len(expected) < len(free):
            # Of a statement that is shown to give the value already, it is not expected.
            right = {" ".join(value.split()) for value in expected}
            free = [number for number in free if " ".join(self.asks[number].told.actual.split()) not in right]
        if both and len(both) == len(free) and not expected:
            for number, told in zip(free, both, strict=True):
                known = self.asks[number].told
                self.asks[number] = replace(
                    self.asks[number], told=StatedValue(known.actual or told.actual, told.expected)
                )
            both = []
        elif expected and len(expected) == len(free) and not both:
            given = actual if len(actual) == len(free) else [""] * len(free)
            for number, value, came in zip(free, expected, given, strict=True):
                known = self.asks[number].told
                self.asks[number] = replace(self.asks[number], told=StatedValue(known.actual or came, value))
            expected = []
        elif expected and len(expected) == len(actual):
            both += [StatedValue(came, value) for came, value in zip(actual, expected, strict=True)]
            expected = []
        elif self.error and len(expected) == 1 and EXCEPTION.fullmatch(expected[0]):
            both.append(StatedValue(self.error, expected.pop()))  # another exception than the one that is shown
        if len(expected) == 1 and expected[0] in _OPPOSITE and not actual:
            both.append(StatedValue(_OPPOSITE[expected[0]], expected.pop()))  # there is no third value
        if len(self.labelled["actual"]) == len(self.labelled["expected"]):
            # As text: a run tells whether all of the line is the value.
            raw = zip(self.labelled["actual"], self.labelled["expected"], strict=True)
            both += [StatedValue(came, value) for came, value in raw if _reads_alike(came, value)]
        return (
            tuple(self.asks[:MAX_ASKS]),
            tuple(both[:MAX_ASKS]),
            output,
            tuple([*expected, *self.misplaced][:MAX_ASKS]),
        )


def _shown(text: str) -> Sequence[_Shown]:
    """Python in the order of the text, with what the text says about each piece."""
    reader = _Reader()
    for part in segments(text):
        if isinstance(part, Block):
            reader.end_table()
            reader.read_block(part)
        elif "|" in part:
            reader.table.append(part)
        else:
            reader.end_table()
            reader.read_line(part)
    reader.end()
    return _without_outputs(reader.found)


def _without_outputs(found: Sequence[_Shown]) -> list[_Shown]:
    """The pieces without code that another one gave: a formatter's, say, with one block expected and one that came out.

    One of the two alone may be the code that the report is about.
    """
    kept: list[_Shown] = []
    for piece in found:
        before = next((one for one in reversed(kept) if not one.role), None)
        if before is None or not piece.role or before.outputs.get(piece.role) not in (None, piece.source):
            piece.role = ""
        kept.append(piece)
    outputs: set[int] = set()
    for number, piece in enumerate(kept):
        following = list(takewhile(lambda one: one.role, kept[number + 1 :])) if not piece.role else []
        shown = {one.role: one.source for one in reversed(following)}
        if following and {*shown, *piece.outputs} == {"actual", "expected"}:
            piece.outputs = {**shown, **piece.outputs}
            outputs |= {id(one) for one in following if piece.outputs[one.role] == one.source}
    return [piece for piece in kept if id(piece) not in outputs]


class _Reader:
    """Reads a report from its beginning to its end."""

    def __init__(self) -> None:
        self.found: list[_Shown] = []
        self.before: list[StatedValue] = []
        """What is said before there is any code."""
        self.section = ""
        self.table: list[str] = []
        self.tables = 0
        self.quoted: list[str] = []
        """Expressions in sentences since the last block."""
        self.given_by: dict[str, str] = {}
        """What calls give, below a heading that says so."""
        self.open_call = ""
        """A call that the last line says the next block is given by."""
        self.open_output = "", ""
        """Such a call with that block, for the line behind it."""
        self.alone = ""
        """The role of the line before, if it is the first below such a heading."""
        self.below = ""
        """The role that the heading right above gives; empty: something has come in between."""
        self.headed = True
        """Whether all that is said stands below headings."""
        self.items: dict[str, dict[int, str]] = {"actual": {}, "expected": {}}
        """The items of numbered lists below headings."""
        self.early: dict[str, str] = {}
        """Blocks that are headed as expected or actual before there is any code."""
        self.raised = ""
        """The exception of a traceback that belongs to no code."""
        self.calls: set[str] = set()
        """All calls in sentences."""
        self.given: dict[str, str] = {}
        """Assignments in sentences."""

    def _add(self, pieces: Iterable[_Shown]) -> None:
        for piece in pieces:
            piece.given = self.given
            self.found.append(piece)

    def read_block(self, block: Block) -> None:
        self.below = self.alone = ""
        call, self.open_call = self.open_call, ""
        if call and (raised := _last_exception(block.code)):
            self._add([_Shown(f"{call}\n", raised, [Ask(1, StatedValue(raised))])])
            return
        if call and not _does_something(_parse(block.code) or ast.Module([], [])):
            self.open_output = call, block.code.strip()
            return
        if not self.found and _TRACEBACK.match(block.code):
            self.raised = _last_exception(block.code) or ""
        role = _labelled(block.above) or self.section or _role_of(block.above)
        before = len(self.found)
        self._add(_in_block(block, role, self.found))
        if role and not self.found:
            self.early.setdefault(role, block.code)
        elif not before and self.early.keys() == {"actual", "expected"}:
            for told, output in self.early.items():
                _add_output(self.found[0], told, output)
        self.quoted = []
        if self.found and self.before:
            self.found[-1].loose += self.before
            self.before = []
        is_told = bool(self.found) and role in self.found[-1].outputs
        if is_told or not _is_heading(block.above):
            self.section = ""

    def end_table(self) -> None:
        lines, self.table = self.table, []
        table = read_table(lines) if self.tables < MAX_TABLES else None
        if table is not None:
            self.tables += 1
            self.quoted = self.quoted[-MAX_ASKS:]
            quoted = [code for code in reversed(self.quoted) if "(" in code]
            named = (_FUNCTION.fullmatch(code) for code in self.quoted)
            names = {one[1] or one[2] for one in named if one and (one[1] or _is_expression(one[2]))}
            sources = [*quoted, *(piece.source for piece in self.found[-MAX_ASKS:])]
            self._add(_from_table(table, sources, names.pop() if len(names) == 1 else ""))
        elif lines:
            for line in lines:
                self.read_line(line)

    def read_line(self, line: str) -> None:
        self._read_alone(line)
        if role := _labelled(line) or (_role_of(line) if _is_heading(line) else ""):
            self.section = role
            self.below = role if _is_heading(line) else ""
        elif _is_heading(line) and len(line.split()) < LEAST_SENTENCE_WORDS:
            self.section = ""
        if self.found and (label := _LABEL.match(line)) and (value := line[label.end() :].strip()):
            self.found[-1].labelled[label.lastgroup or ""].append(value)
        if self.found and self.section and (item := _ITEM.match(line)):
            value = leading_value(line[item.end() :])
            if value or self.items[self.section]:
                self.items[self.section][int(item[1])] = value
                return
        line = quote_call(line)
        known = self._remember(line)
        open_call = self.open_output
        self.open_output = self.open_output if not line.strip() else ("", "")
        for sentence in sentences(line):
            if self.found and (value := closing_value(sentence)) and self.found[-1].expect_alike(value):
                continue
            calls = [(code, rest) for code, rest in find_expressions(sentence, known) if _is_expression(code)]
            if calls:
                open_call = self._read_calls(sentence, calls)
                continue
            if self.found and self.found[-1].place(read_placed_values(sentence)):
                continue
            told = read_told_below(self.section, sentence)
            if self.found and told.expected and read_places(sentence):
                if not told.actual and self.found[-1].place_inside(read_places(sentence), told.expected):
                    continue
                self.found[-1].misplaced.append(told.expected)
                continue
            if self.found and self._tell_each(sentence, told):
                continue
            if not told and self.section == "expected" and (raised := _expected_exception(sentence)):
                told = StatedValue(expected=raised)
            if not told and self.section and (value := _whole_value(sentence)):
                told = StatedValue(**{self.section: value})
            begins = _GOES_ON.match(sentence) or (_INSTEAD_OF_SOME.search(sentence) if open_call[1] else None)
            goes_on = begins and _is_about_one(sentence, told.expected)
            if open_call[0] and goes_on and told.expected and not told.actual:
                code, actual = open_call
                self._tell(code, StatedValue(actual, told.expected), raised_name(actual))
            elif told:
                several = read_expected_values(sentence) if not told.actual else ()
                stated = [StatedValue(expected=value) for value in several] if len(several) > 1 else [told]
                (self.found[-1].loose if self.found else self.before).extend(stated)
                self.headed = self.headed and bool(self.section)

    def _tell_items(self) -> None:
        """Give the items of numbered lists below headings to the calls of the code before, in order."""
        actual, expected = self.items["actual"], self.items["expected"]
        if actual and actual.keys() == expected.keys() == set(range(1, len(actual) + 1)):
            self.found[-1].tell_each([StatedValue(actual[number], expected[number]) for number in sorted(actual)])

    def _tell_each(self, sentence: str, told: StatedValue) -> bool:
        """Give what a sentence says of each of several calls, or lists for them in their order, to the last code."""
        if told.expected and not told.actual and is_about_each(sentence):
            return self.found[-1].tell_each([StatedValue(expected=told.expected)])
        listed = read_actual_values(sentence) if told.actual else ()
        if told.expected:
            if len(listed) < 2 or "respectively" not in sentence:
                return False
            self.found[-1].tell_each([StatedValue(value, told.expected) for value in listed])
            return True  # else it is about others than are shown
        return len(listed) > 1 and self.found[-1].tell_each([StatedValue(value) for value in listed])

    def _read_alone(self, line: str) -> None:
        """Keep the only line below a heading as it is."""
        role, self.below = self.below, self.below if not line.strip() else ""
        if self.found and role and line.strip():
            self.found[-1].labelled[role].append(line.strip(" \t`"))
            self.alone = role
        elif self.found and self.alone and line.strip():
            self.found[-1].labelled[self.alone].pop()  # it goes on, so it was not all
            self.alone = ""
        else:
            self.alone = ""

    def _remember(self, line: str) -> set[str]:
        """Keep what a line quotes; and the expressions in it that the code before says enough for."""
        bound = self.found[-1].bound if self.found else set()
        written = self.found[-1].by_code if self.found else {}
        known = {code for code in read_quoted(line) if code in written}
        for code in (*read_quoted(line), *_set_in_brackets(line)):
            if name := _assigned(code):
                # Two values of one name are two cases.
                if name in self.given or len(self.given) < MAX_ASKS:
                    self.given[name] = code if self.given.get(name, code) == code else ""
            elif _is_expression(code):
                self.quoted.append(code)
                if "(" in code and not is_literal(code):
                    self.calls.add(code)
                names = _Piece(code).missing
                if "." in code and names and all(name in bound or name in self.given for name in names):
                    known.add(code)
        return known

    def _read_calls(self, sentence: str, calls: Sequence[tuple[str, str]]) -> tuple[str, str]:
        """Take what a sentence says of its calls; the only one, with what it gives, if the next sentence may go on."""
        if len(calls) > 1 and _FIRST_DONE.match(sentence):
            return "", ""  # the others depend on the first one, and on what else the sentence says
        for number, (code, rest) in enumerate(calls):
            told = read_told_of(sentence.partition(code)[0] if not number else "", rest)
            if self.section == "expected" and told.actual and not told.expected:
                told = StatedValue(self.given_by.get(code, ""), told.actual)
            elif self.section == "actual" and told.actual:
                self.given_by[code] = told.actual
            raised = raised_name(told.actual, rest)
            if len(calls) == 1 and not rest.strip(" .:,") and sentence.strip().startswith("`"):
                self._add([_Shown(f"{code}\n", asks=[Ask(1)])])  # a line of its own
                self.found[-1].loose, self.before = self.before, []
            elif told.expected or raised:
                self._tell(code, told, raised)
        if len(calls) == 1 and not told and _GIVES_BLOCK.fullmatch(rest):
            self.open_call = code
        return (code, told.actual) if len(calls) == 1 and not told.expected else ("", "")

    def _tell(self, code: str, told: StatedValue, raised: str) -> None:
        if not (self.found and self.found[-1].expect_of(code, told)):
            self._add([_Shown(f"{code}\n", raised or None, [Ask(1, told)])])

    def end(self) -> None:
        """If there is no other code, the only call that the text quotes is what it is about."""
        self.end_table()
        self._tell_items()
        if len(self.calls) != 1:
            return
        call = next(iter(self.calls))
        if not self.found and self.before and self.headed:
            self._add([_Shown(f"{call}\n", asks=[Ask(1)], loose=self.before)])
        elif self.raised and not any(piece.error for piece in self.found):
            self._add([_Shown(f"{call}\n", self.raised, [Ask(1, StatedValue(self.raised))])])


def _from_table(table: Table, sources: Sequence[str], named: str) -> Iterator[_Shown]:
    """The examples of a table, as one script; or those that raise an exception, if it does not say what is expected."""
    examples = list(_examples(table, sources, named))
    lines: list[str] = []
    asks: list[Ask] = []
    if not any(told.expected for _, told in examples):
        for example, told in examples:
            if raised := raised_name(told.actual):
                yield _Shown(f"{example}\n", raised, [Ask(example.count("\n") + 1, told)])
        return
    for example, told in examples:
        lines += example.split("\n")
        asks.append(Ask(len(lines), told))
    if asks:
        yield _Shown("\n".join(lines) + "\n", asks=asks)
    word = re.fullmatch(r"[a-z]+", table.actual_head.lower())
    if word and asks and len(lines) == len(asks) and not names_a_role(word[0]):
        # The column may be about something that the result has: its `status`, say.
        for name in (word[0], f"{word[0]}_code"):
            yield _Shown("".join(f"({line}).{name}\n" for line in lines), asks=list(asks))


def _examples(table: Table, sources: Sequence[str], named: str) -> Iterator[tuple[str, StatedValue]]:
    """Calls, values of names that some code leaves open (what heads a column, or the first of `sources` that does), or
    arguments of a function that heads a column or is `named` before."""
    head = re.fullmatch(r"([A-Za-z_][\w.]*)\((\w*|\.{3}|\u2026)\)", table.actual_head)
    function = head[1] if head and head[2] not in table.heads else "" if head else named
    opened = table.actual_head if _is_expression(table.actual_head) and (head is None or not function) else ""
    pieces = [_Piece(source) for source in (opened, *sources) if source]
    template = next((piece for piece in pieces if piece.open.intersection(table.heads)), None)
    columns = [[cells[number] for cells, _ in table.rows] for number in range(len(table.heads))]
    are_texts = [any(_argument(cell) == repr(cell) for cell in column) for column in columns]
    for cells, told in table.rows:
        cell = cells[0]
        is_call = _is_expression(cell) and not is_literal(cell) and "(" in cell
        if template is not None and (template.source == opened or not is_call):
            given = [
                f"{name} = {repr(value) if is_text and _NUMBER.fullmatch(value) else _argument(value)}"
                for name, value, is_text in zip(table.heads, cells, are_texts, strict=True)
                if name in template.open
            ]
            yield "\n".join([*given, template.source.strip()]), told
        elif is_call:
            yield cell, told
        elif function and (is_literal(cell) or not head):
            yield f"{function}({cell if is_literal(cell) else repr(cell)})", told


def _argument(cell: str) -> str:
    """A cell as Python: a literal, a call, or else the text that it is."""
    return cell if is_literal(cell) or ("(" in cell and _is_expression(cell)) else repr(cell)


def _in_block(block: Block, role: str, known: Sequence[_Shown]) -> Iterator[_Shown]:
    """The code in a block; or nothing, where it is a value or an output of the code before."""
    yield from (_Shown(code) for code in inline_python(block))
    known = [piece for piece in known if not piece.role] or known
    if is_session(block.code):
        yield _from_session(block, role)
        return
    source, output = _code_with_output(block)
    is_code = _does_something(_parse(source) or ast.Module([], []))
    is_shown_below = is_code and bool(_TRACEBACK.match(output))
    if not is_shown_below and (
        _TRACEBACK.match(block.code) or (_FRAME.search(block.code) and _parse(block.code) is None)
    ):
        if known and known[-1].error is None:
            known[-1].error = _last_exception(block.code)
        if known and role == "actual" and len(block.code) <= MAX_OUTPUT_CHARS:
            known[-1].outputs.setdefault(role, block.code)  # it may have been printed
        return
    if not role and not block.above and not is_code:
        role = "actual"  # right below code: what that gave
    is_output = bool(_OUTPUT_HEAD.search(block.above)) and not is_session(block.code)
    if role and known and (is_output or not is_code):
        _add_output(known[-1], role, block.code)
    elif source.strip():
        asks, loose = _asks(source)
        shown = _Shown(source, _last_exception(output), asks, loose)
        labelled = [label for label in map(_LABEL.match, output.splitlines()) if label]
        if len(labelled) == len(output.strip().splitlines()) == 2:
            for label in labelled:
                shown.labelled[label.lastgroup or ""].append(label.string[label.end() :].strip())
        elif output and shown.error is None:
            _add_output(shown, "actual", output)
        if role and known and not output and _role_of(block.above) == role and not _uses_same(shown, known[-1]):
            shown.role = role
        yield shown


def _uses_same(one: _Shown, other: _Shown) -> bool:
    """Whether two pieces of code import the same, so that one is not what the other gave."""
    return not _Piece(one.source).imports.keys().isdisjoint(_Piece(other.source).imports)


def _add_output(shown: _Shown, role: str, output: str) -> None:
    if len(output) <= MAX_OUTPUT_CHARS:
        shown.outputs.setdefault(role, output)
    if role == "actual" and shown.error is None:
        shown.error = _last_exception(output)


def _code_with_output(block: Block) -> tuple[str, str]:
    """The Python that a block begins with, and what some paste below it; none: it does not begin with code."""
    if block.tag not in _PYTHON_TAGS or _value(block.code):
        return "", ""
    lines = block.code.splitlines()
    tree = _parse(block.code)
    count = len(lines) if tree else 0
    if tree and 0 < _last_line(tree) < (tree.body[-1].end_lineno or 0):
        count = _last_line(tree)
    if tree is None:
        end = _TRACEBACK.search(block.code)
        most = block.code[: end.start()].count("\n") if end else len(lines)
        tried = ((count, _parse("\n".join(lines[:count]))) for count in range(min(most, MAX_MIXED_LINES), 0, -1))
        count = next((count for count, part in tried if part and _last_line(part) == count), 0)
    rest = lines[count:]
    if all(line.startswith(">") for line in rest if line.strip()):
        rest = [line.removeprefix(">").strip() for line in rest]
    return ("\n".join(lines[:count]) + "\n", "\n".join(rest).strip("\n")) if count else ("", "")


def _last_line(tree: ast.Module) -> int:
    """Where the last statement ends that does something or shows a value, rather than being one; 0: there is none."""
    bound = bound_names(tree)
    for node in reversed(tree.body):
        names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        shows = isinstance(node, ast.Expr) and bool(names) and names <= bound
        if shows or not isinstance(node, ast.Expr | ast.AnnAssign) or _does_something(ast.Module([node], [])):
            return node.end_lineno or node.lineno
    return 0


def _is_heading(line: str) -> bool:
    return bool(_HEADING.search(line)) and len(line) < 120


def _labelled(line: str) -> str:
    """What a line says with its first word: `Expected output, in any order:`; empty: nothing."""
    label = _LABEL.match(line)
    return (label.lastgroup or "") if label and not _NOT_EXPECTED.match(line) else ""


def _role_of(line: str) -> str:
    """What a heading, or the line above a block, says of the values below it; empty: nothing."""
    if _NOT_EXPECTED.search(line):
        return "actual"
    if bare := next((role for role, words in _BARE_HEADS.items() if words.fullmatch(line)), ""):
        return bare
    if _INSTEAD_OF.search(line):
        return "expected"
    expected, actual = _EXPECTED_HEAD.search(line), _ACTUAL_HEAD.search(line)
    if expected and actual:
        # "Expected output:" and "but should print:" are expected, "expected X but got:" is not.
        turned = re.search(r"\b(?:but|instead|however)\b", line, re.I)
        return "actual" if turned and _ACTUAL_HEAD.search(_EXPECTED_HEAD.sub("", line)) else "expected"
    return "expected" if expected else "actual" if actual else ""


def _whole_value(sentence: str) -> str:
    """The value that a line consists of; empty: it says more, or none."""
    plain = sentence.strip().lstrip("-*> \t")
    value = leading_value(plain)
    rest = plain.partition(value)[2].lstrip("`* \t") if value else ""
    is_about = plain.startswith("`") and _ABOUT.match(rest)
    return value if not rest or rest[0] in ".,;(" or is_about else ""


def _is_about_one(sentence: str, expected: str) -> bool:
    """Whether a sentence quotes nothing, or first what it expects and then no more than names."""
    first, *others = read_quoted(sentence) or [expected]
    return (not others or first == expected) and all(_NAME.fullmatch(other) for other in others)


def _expected_exception(sentence: str) -> str:
    """The one exception that a sentence about what is expected names; empty: none, or not to be raised."""
    named = {raised[1] for raised in islice(EXCEPTION.finditer(sentence), 3)}
    return named.pop() if len(named) == 1 and not _DENIED.search(sentence) else ""


def _changed_to(comment: str) -> StatedValue:
    """What a comment begins and ends with, if an arrow stands behind an objection: `1, but has two -> 2`."""
    before, arrow, expected = comment.strip().rpartition(" -> ")
    actual = leading_value(before, markup=False) if arrow else ""
    said = before.strip()[len(actual) :]
    alike = (
        is_literal(actual)
        and is_literal(expected)
        and type(ast.literal_eval(actual)) is type(ast.literal_eval(expected))
    )
    return StatedValue(actual, expected) if alike and _OBJECTS.search(said) and "->" not in said else NOTHING


def _told_beside(comment: str) -> tuple[str, str] | None:
    """A comment beside a statement with what came out as it is, and one below it with what is expected."""
    found = _BUT_EXPECTED.search(comment)
    if not found:
        return None
    before = comment[: found.start()].rstrip().removesuffix(" but")
    before = before[:-1] if before[-1:] in (",", ";") and before[-1:] != comment[-1:] else before
    lead = _GIVES.match(before)
    actual, expected = (
        before[lead.end() if lead else 0 :].strip(),
        comment[found.end() :].strip().removeprefix(":").strip(),
    )
    return (actual, expected) if actual and expected else None


def _reads_alike(came: str, expected: str) -> bool:
    """Whether what stands behind two labels may be values of one statement, rather than a value and words about one."""
    came, expected = came.strip("`"), expected.strip("`")
    words, others = ([*map(str.lower, re.findall(r"\w+", text))] for text in (came, expected))
    if len(came.split()) == len(expected.split()) and set(words) & set(others):
        return True
    if is_literal(came) and is_literal(expected):
        return True
    if len(expected.split()) == len(came.split()) == 1 and re.search(r"\d", expected):
        return True
    return bool(others) and {word for word in others if word.isalpha()} <= set(words)


def _is_same(one: str, other: str) -> bool:
    return " ".join(one.split()) == " ".join(other.split())


def _from_session(block: Block, role: str) -> _Shown:
    """What was typed and answered. Lines that are not Python, such as magic, go."""
    lines: list[str] = []
    asks: list[Ask] = []
    for typed, answer in read_session(block.code):
        if _parse(typed) is None:
            continue
        lines += typed.split("\n")
        said = _comment(typed)
        if "\n" not in answer and (remark := _REMARK.search(answer)):
            answer, said = answer[: remark.start()], f"{said} {remark[1]}"
        told = _answers(answer) or read_stated_values(said, markup=False)
        if _is_expression(typed) and told.actual and told.expected and "\n" in answer and _answers(answer):
            asks.append(Ask(len(lines), told))
        elif _is_expression(typed) and not _TRACEBACK.search(answer) and answer:
            given = StatedValue(expected=answer) if role == "expected" else StatedValue(answer, told.expected)
            asks.append(Ask(len(lines), given))
        elif _is_expression(typed):
            raised = _last_exception(answer) or ""
            if raised and _IN_REPR.search(answer) and "\n" not in typed and _is_expression(shown := f"repr({typed})"):
                lines[-1] = shown  # an interpreter shows what a file does not
            asks.append(Ask(len(lines), StatedValue(raised or told.actual, told.expected)))
    return _Shown("\n".join(lines).rstrip() + "\n", _last_exception(block.code), asks)


def _told_in_lines(source: str) -> dict[int, StatedValue]:
    """What comments say that have lines for themselves: what came out, a line such as `# should be:`, what should.

    By the line above them.
    """
    blocks: dict[int, list[str]] = {}
    first = last = 0
    for line, text, has_line in _comments(source):
        if has_line:
            first = first if line == last + 1 else line
            last = line
            blocks.setdefault(first - 1, []).append(text.rstrip())
    found = {}
    for above, texts in blocks.items():
        heads = [at for at, text in enumerate(texts) if text.endswith(":") and _EXPECTED_HEAD.search(text)]
        if len(heads) == 1 and 0 < heads[0] < len(texts) - 1:
            came, expected = ("\n".join(part).strip("\n") for part in (texts[: heads[0]], texts[heads[0] + 1 :]))
            found[above] = StatedValue(came, expected) if came and expected else NOTHING
    return found


def _answers(answer: str) -> StatedValue:
    """Two lines below what was typed, each with a remark: one that came out, and one that should."""
    lines = answer.split("\n")
    remarks = [remark for line in lines if (remark := _REMARK.search(line))]
    roles = {_role_of(remark[1]): remark for remark in remarks}
    if len(lines) != 2 or roles.keys() != {"actual", "expected"}:
        return NOTHING
    values = {role: remark.string[: remark.start()].strip() for role, remark in roles.items()}
    return StatedValue(**values)


def _comment(source: str) -> str:
    found = [text for _, text, _ in _comments(source)]
    return found[-1] if found else ""


def _comments(source: str) -> Iterator[tuple[int, str, bool]]:
    """Comments, each with its line and whether it has the line for itself."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (tokenize.TokenError, SyntaxError):
        return
    for token in tokens:
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# \t"), not token.line[: token.start[1]].strip()


def _commented(source: str, tree: ast.Module) -> tuple[dict[int, str], list[str]]:
    """What comments say about the statement that ends on each line; and what may be said about two.

    A comment that has lines for itself is about the statement above it or about the one below. Where it stands between
    two, others decide that can only be about one; an arrow is a result of what is above.
    """
    ends = {node.end_lineno or node.lineno for node in ast.walk(tree) if isinstance(node, ast.stmt)}
    starts = {
        node.lineno: node.end_lineno or node.lineno
        for node in reversed(list(ast.walk(tree)))
        if isinstance(node, ast.Expr | ast.Assign)
    }
    about: dict[int, str] = {}
    alone: list[tuple[int, int, str]] = []
    for line, text, has_line in _comments(source):
        if not has_line:
            about[line] = _joined(about[line], text) if line in about else text
        elif alone and alone[-1][1] == line - 1:
            alone[-1] = (alone[-1][0], line, _joined(alone[-1][2], text))
        else:
            alone.append((line, line, text))
    beside = set(about)
    told = [
        (first - 1, last + 1, text)
        for first, last, text in alone
        if read_stated_values(text) or (first - 1 in beside and _labelled(text) == "expected")
    ]
    votes = {above in ends for above, below, _ in told if (above in ends) != (below in starts)}
    loose = []
    for above, below, text in told:
        if above in ends and (
            below not in starts or votes == {True} or above in beside or text.startswith(("->", "=>"))
        ):
            about[above] = _joined(about[above], text) if above in about else text
        elif below in starts and (above not in ends or votes == {False}):
            end = starts[below]
            about[end] = f"{text} {about[end]}" if end in about else text
        else:
            loose.append(text)
    return about, loose


def _joined(comment: str, further: str) -> str:
    """Two lines of a comment; what begins with its role ends the message of an exception before it."""
    ends = EXCEPTION.match(comment) and _ROLE_BEGINS.match(further) and comment[-1:].isalnum()
    return f"{comment}{'; ' if ends else ' '}{further}"


def _asks(source: str) -> tuple[list[Ask], list[StatedValue]]:
    """The statements of a script that show a value: what is printed, what a comment tells of, and its last line.

    And pairs of values that comments give to none for certain.
    """
    tree = _parse(source)
    if tree is None:
        return [], []
    comments, loose = _commented(source, tree)
    lines = _told_in_lines(source)
    found: dict[int, Ask] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Expr | ast.Assign) or isinstance(getattr(node, "value", None), ast.Constant):
            continue
        line = node.end_lineno or node.lineno
        comment = comments.get(line, "")
        told = lines.get(line, NOTHING) or _changed_to(comment) or read_stated_values(comment, markup=False)
        if not told.expected and (both := _told_beside(comment)) and _reads_alike(*both):
            told = StatedValue(*both)
        printed = isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name)
        printed = printed and isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "print"
        is_last = isinstance(node, ast.Expr) and bool(tree.body) and node is tree.body[-1]
        if told or (isinstance(node, ast.Expr) and (printed or is_last)):
            found[line] = Ask(line, told or StatedValue(_value(comment)))
    unsure = (read_stated_values(text, markup=False) for text in loose)
    return [found[line] for line in sorted(found)], [told for told in unsure if told.actual and told.expected]


def _last_exception(code: str) -> str | None:
    start = _TRACEBACK.search(code)
    start = start or _FRAME.search(code)  # some paste its end alone
    named = _EXCEPTION.findall(code[start.end() :]) if start else []
    if not named and (alone := EXCEPTION.match(code.strip())) and code.strip().count("\n") < 2:
        return alone[1]
    return named[-1] if named else None


def _assigned(line: str) -> str:
    """The name that a line gives a value, and does no more; empty: it is something else."""
    tree = _parse(line) if "=" in line else None
    match tree.body if tree else []:
        case [ast.Assign(targets=[ast.Name(id=name)])]:
            return name
    return ""


def _set_in_brackets(line: str) -> Iterator[str]:
    """Assignments that a line makes in brackets: "(t = Table('events'))", "(t is `Table('events')`)"."""
    for start in islice(_IN_BRACKETS.finditer(line[:MAX_LINE_CHARS]), MAX_TABLES):
        end = closing_bracket(line[:MAX_LINE_CHARS], start.start())
        if end:
            yield f"{start[1]} = {line[start.end() : end].strip('` .')}"


def _list(text: str) -> list[object] | None:
    """The list that a text is; None: it is none."""
    value = ast.literal_eval(text) if is_literal(text) else None
    return value if isinstance(value, list) else None


def _is_expression(line: str) -> bool:
    tree = _parse(line)
    return tree is not None and len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr)


def _value(text: str) -> str:
    """A Python literal, as written; empty: it is none."""
    text = text.strip()
    return text if len(text) <= MAX_OUTPUT_CHARS and is_literal(text) else ""


def _parse(source: str) -> ast.Module | None:
    """None: not Python, or nested too deeply to be."""
    try:
        return parse_python(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


class _Piece:
    """Source, the names that it binds, and those that it uses and does not bind."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.tree = _parse(source) or ast.Module([], [])
        self.bound = bound_names(self.tree)
        self.imports = _imports(self.tree)
        used = {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name)}
        self.open = used - self.bound
        self.missing = self.open - set(dir(builtins)) - {"__file__", "__name__"}
        calls = [node.func for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        self.called = {function.id for function in calls if isinstance(function, ast.Name)}

    @cached_property
    def chains(self) -> list[str]:
        """The dotted names in it, shorter ones of the same object first."""
        nodes = [node for node in ast.walk(self.tree) if isinstance(node, ast.Attribute)]
        return sorted({name for node in nodes[:MAX_CHAINS] if DOTTED.fullmatch(name := ast.unparse(node))}, key=len)


def _completed(
    piece: _Piece, earlier: Sequence[_Piece], given: Mapping[str, str], exports: Mapping[str, str]
) -> tuple[str, bool]:
    """The source with what it needs of earlier blocks, of sentences and of imports; and whether a name is still
    unknown."""
    missing = set(piece.missing)
    head: list[str] = []
    for other in reversed(earlier):
        wanted = missing & other.bound
        imports = [other.imports.get(name) for name in sorted(wanted)]
        if all(imports):
            head = [statement for statement in imports if statement] + head
            missing -= wanted
        else:
            head.insert(0, other.source.rstrip())
            missing = (missing - other.bound) | other.missing
    for name in sorted(missing):
        if source := given.get(name):
            head.insert(0, source)
            missing = (missing - {name}) | _Piece(source).missing
    dotted = {chain.partition(".")[0]: exports[chain] for chain in piece.chains if chain in exports}
    head = [*(dotted[name] for name in sorted(missing & dotted.keys())), *head]
    missing -= dotted.keys()
    called = {f"{name}()": name for name in missing & piece.called}
    offered = {name: exports[call] for call, name in sorted(called.items()) if call in exports}
    offered |= {
        name: statement
        for name in sorted(missing - offered.keys())
        if (statement := exports.get(name) or _standard(name, called=name in piece.called))
    }
    head = [*offered.values(), *head]
    return "\n".join([*dict.fromkeys(head), piece.source]), bool(missing - offered.keys())


def _evaluable(told: Sequence[StatedValue], source: str, exports: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Values of a report that are Python made of what a script knows; and imports that they need beside it."""
    bound = _Piece(source).bound
    known = {*bound, *dir(builtins)}
    found: list[str] = []
    head: dict[str, None] = {}
    for value in dict.fromkeys(value for one in told for value in (one.actual, one.expected)):
        tree = _parse(value) if value and not is_literal(value) else None
        if tree is None or not _is_expression(value) or (value.isidentifier() and value not in bound):
            continue
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        calls = [ast.unparse(node.func).rpartition(".")[2] for node in ast.walk(tree) if isinstance(node, ast.Call)]
        attributes = [node.value for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
        modules = {node.id for node in attributes if isinstance(node, ast.Name)} & sys.stdlib_module_names
        imports = {
            name: f"import {name}" if name in modules else exports.get(name) or _standard(name)
            for name in sorted(names - known)
        }
        made = all(call[:1].isupper() or call in _CONSTRUCTORS for call in calls)
        if made and all(imports.values()) and not any(isinstance(node, _NOT_VALUES) for node in ast.walk(tree)):
            head |= dict.fromkeys(filter(None, imports.values()))
            found.append(value)
    return "".join(f"{statement}\n" for statement in head), tuple(found[:MAX_ASKS])


def _standard(name: str, *, called: bool = False) -> str | None:
    """The import that everybody means by a name: an alias, a module of the standard library, or something in one.

    A module is not what is `called`.
    """
    if name in _ALIASES:
        return _ALIASES[name]
    home = next((home for home in _HOMES if name in dir(import_module(home)) and not name.startswith("_")), None)
    if name in sys.stdlib_module_names and not name.startswith("_") and not (called and home):
        return f"import {name}"
    return f"from {home} import {name}" if home else None


def bound_names(tree: ast.AST) -> set[str]:
    """The names that code sets, defines or imports."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name) | ast.ExceptHandler(name=str(name)):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names.update(alias.asname or alias.name.partition(".")[0] for alias in aliases)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.add(name)
    return names


def _imports(tree: ast.Module) -> dict[str, str]:
    """The statement that binds a name, for each that an import and nothing else binds."""
    found: dict[str, str] = {}
    others: set[str] = set()
    for node in tree.body:
        names = bound_names(node)
        others |= names & found.keys()
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= dict.fromkeys(names, ast.unparse(node))
        else:
            others |= names
    return {name: statement for name, statement in found.items() if name not in others}


def _root(tree: ast.Module | None, top_levels: Mapping[str, str]) -> str | None:
    """Where what the script imports of the repository lies; None: it imports nothing of it."""
    roots = []
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Import):
            roots += [top_levels.get(alias.name.partition(".")[0]) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            roots.append(top_levels.get(node.module.partition(".")[0]))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and DOTTED.fullmatch(node.value):
            roots.append(top_levels.get(node.value.partition(".")[0]))  # a plugin, which others import by its name
    return max((root for root in roots if root is not None), default=None)


def _does_something(tree: ast.Module) -> bool:
    """A bare word in an indented paragraph is Python too. Importing may be what fails, or defining a class."""
    return any(
        isinstance(node, ast.Call | ast.Import | ast.ImportFrom | ast.Assert)
        or (isinstance(node, ast.ClassDef) and bool(node.bases or node.decorator_list))
        for node in ast.walk(tree)
    )


def _runner(tree: ast.Module) -> Literal["pytest", "unittest"] | None:
    cases = [node for node in tree.body if isinstance(node, ast.ClassDef) and any(map(_is_test, node.body))]
    if any(map(_is_test, tree.body)):
        return "pytest"
    for_unittest = all(any("TestCase" in ast.unparse(base) for base in case.bases) for case in cases)
    return ("unittest" if for_unittest else "pytest") if cases else None


def _is_test(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test")


def find_imports(sources: Iterable[str], text: str = "") -> dict[str, str]:
    """The import statement that most of some files have for each name: of those from a module that the text speaks of,
    if there are any."""
    counted: dict[str, Counter[str]] = {}
    modules: set[str] = set()
    for source in sources:
        tree = _parse(source)
        for node in ast.walk(tree) if tree else ():
            for alias in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
                name = alias.asname or alias.name
                if isinstance(node, ast.ImportFrom) and not node.level and node.module != "__future__":
                    modules.add((node.module or "").partition(".")[0])
                    said = f"from {node.module} import {alias.name}"
                elif isinstance(node, ast.Import) and (alias.asname or "." not in alias.name):
                    said = f"import {alias.name}"
                else:
                    continue
                if name.isidentifier():
                    said += f" as {alias.asname}" if alias.asname else ""
                    counted.setdefault(name, Counter())[said] += 1
    words = set(re.findall(r"[a-z]{4,}", text.lower()))
    return {module: f"import {module}" for module in modules} | {
        name: max(statements.most_common(), key=lambda one: _speaks_of(one[0], words))[0]
        for name, statements in counted.items()
    }


def find_objects(pages: Iterable[str], imports: Mapping[str, str]) -> dict[str, str]:
    """The statements that make an object under the name that a project's pages give it: `ureg = UnitRegistry()`.

    Only where that is how they mostly set the name, and with calls without arguments of what can be imported: nothing
    else has to be known for them.
    """
    counted: dict[str, Counter[str]] = {}
    for page in pages:
        for name, call in islice(_MADE.findall(page[:MAX_TEXT_CHARS]), MAX_BLOCKS):
            counted.setdefault(name, Counter())[call] += 1
    found = {}
    for name, calls in counted.items():
        classes: Counter[str] = Counter()
        for call, count in calls.items():
            classes[call.rpartition(".")[2]] += count
        made, count = classes.most_common(1)[0]
        written = [call for call, _ in calls.most_common() if call.rpartition(".")[2] == made]
        offered = next((call for call in written if imports.get(call.partition(".")[0])), "")
        if offered and 2 * count > calls.total():
            found[name] = f"{imports[offered.partition('.')[0]]}\n{name} = {offered}()"
    return found


def _speaks_of(statement: str, words: Collection[str]) -> bool:
    """Whether a module below a package begins with one of some words: `webargs.flaskparser` with `flask`."""
    parts = statement.split()[1].split(".")[1:]
    return any(part[:end] in words for part in parts for end in range(4, len(part) + 1))


def find_exports(sources: Mapping[str, str]) -> dict[str, str]:
    """The import statement for each public name of the repository's packages; `sources` has their top modules.

    A name that a package shares with something in it is that with `()` behind it, and the package without.
    """
    found: dict[str, str] = {}
    for package, source in sources.items():
        tree = _parse(source)
        for node in tree.body if tree else ():
            match node:
                case ast.ImportFrom(level=level, module=module) if level or f"{module}.".startswith(f"{package}."):
                    names = bound_names(node)  # what it imports of others it does not offer
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    names = {name}
                case ast.Assign() | ast.AnnAssign():
                    names = bound_names(node)
                case _:
                    continue
            for name in sorted(names):
                if name.isidentifier() and not name.startswith("_"):
                    found.setdefault(name, f"from {package} import {name}")
    called = {f"{package}()": found[package] for package in sources if package in found}
    return found | {package: f"import {package}" for package in sources} | called
