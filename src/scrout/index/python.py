"""Definitions and imports of Python, by its lines: several times as fast as a parser, and able to read broken files.

Strings, comments and continued lines are removed first; then indentation marks the end of a definition. If an open
bracket continues to the left of the definition around it, after a line that ends in neither bracket nor comma, it
counts as closed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from keyword import iskeyword

from scrout.index.definition import Definition, Kind

# Marks each line that continues a string or a backslash, so that it is neither empty nor a statement.
_CONTINUED = "\n\x01"
# An unterminated string extends to the end of the text, so that no part is matched twice.
_STRING_OR_COMMENT = re.compile(
    r"#[^\n]*"
    r'|"""[^"\\]*(?:(?:\\.?|"(?!""))[^"\\]*)*(?:"""|\Z)'
    r"|'''[^'\\]*(?:(?:\\.?|'(?!''))[^'\\]*)*(?:'''|\Z)"
    r'|"[^"\\\n]*(?:\\(?:\r\n|.)?[^"\\\n]*)*"?'
    r"|'[^'\\\n]*(?:\\(?:\r\n|.)?[^'\\\n]*)*'?"
    r"|\\\r?\n",
    re.S,
)
_DEFINITION = re.compile(r"(?:async[ \t]+)?(def|class)[ \t\x01]+(\w+)")
_CONSTANT = re.compile(r"(?:type[ \t]+(\w+)[ \t]*(?:\[.*\][ \t]*)?|(\w+)[ \t]*(?::[^=]+)?)=(?!=)")
_IMPORT = re.compile(
    r"^[ \t]*(?:\w+:[ \t]*)?"
    r"(?:from(?:[ \t]|\n\x01)*([\w.]{1,300})(?:[ \t]|\n\x01)*\bimport\b((?:[ \t]|\n\x01)*\([^()]*|(?:[^\n;(]|\n\x01)*)"
    r"|import[ \t]((?:[^\n;]|\n\x01)*))",
    re.M,
)
_IMPORTED = re.compile(r"[^\W\d][\w.]*|\*")


def read_python(text: str) -> tuple[list[Definition], list[str]]:
    """Definitions in the order of their first lines, and imports."""
    masked = _STRING_OR_COMMENT.sub(_mask, text)
    return _definitions(masked.expandtabs() if "\t" in masked else masked), list(python_imports(masked))


def python_imports(text: str) -> Iterator[str]:
    """The imports in lines of any text: `a.b`, `a.b.name` for a name from a module, relative ones with their dots."""
    for module, names, plain in _IMPORT.findall(text):
        for part in (names or plain).lstrip(" \t\n\x01(").split(","):
            if name := _IMPORTED.match(part.lstrip(" \t\r\n\x01")):
                yield name[0] if not module else f"{module}{name[0]}" if module[-1] == "." else f"{module}.{name[0]}"


def _mask(match: re.Match[str]) -> str:
    found = match[0]
    lines = found.count("\n")
    if lines:
        return f'""{_CONTINUED * lines}' if found[0] != "\\" else _CONTINUED
    return "" if found[0] == "#" else '""'


class _Open:
    """A definition whose end is not reached yet."""

    def __init__(self, name: str, kind: Kind, indent: int, first: int) -> None:
        self.name, self.kind, self.indent, self.first = name, kind, indent, first
        self.body = 0

    def close(self, last: int) -> Definition:
        body = last + 1 if self.kind != "function" else self.body or last
        return Definition(self.name, self.first, last, body, self.kind)


def _definitions(masked: str) -> list[Definition]:
    found: list[Definition] = []
    owners: list[_Open] = []
    header = begun = None  # the last one before it, and right after the colon of its header
    decorated, decorated_indent = 0, 0  # line and indentation of the first of the preceding decorators
    continued = False
    last = 0
    for number, line in enumerate(masked.split("\n"), 1):
        stripped = line.strip()
        if not stripped:
            continue
        if begun is not None:
            begun.body, begun = number, None
        start = stripped[0]
        match = _DEFINITION.match(stripped) if start in "dac" else None
        if match or not (continued or start in "\x01)]}"):
            indent = len(line) - len(line.lstrip())
            while owners and indent <= owners[-1].indent:
                found.append(owners.pop().close(last))
            if match:
                name = f"{owners[-1].name}.{match[2]}" if owners else match[2]
                header = _Open(name, "class" if match[1] == "class" else "function", indent, decorated or number)
                owners.append(header)
            elif start == "@":
                decorated, decorated_indent = decorated or number, indent
            elif indent == 0 and (match := _CONSTANT.match(stripped)) and not iskeyword(match[1] or match[2]):
                owners.append(_Open(match[1] or match[2], "class" if match[1] else "constant", 0, number))
            # A decorator's arguments are farther right.
            if start != "@" and indent <= decorated_indent:
                decorated = 0
        if header is not None and stripped[-1] == ":":
            header, begun = None, header
        continued = stripped[-1] in "([{,"
        last = number
    found += [each.close(last) for each in reversed(owners)]
    return sorted(found, key=lambda each: (each.first, -each.last))
