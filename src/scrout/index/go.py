"""Definitions and imports of Go, by its lines: gofmt formats all Go alike, so unindented lines are declarations.

Types inside of a function are not read, and code that was not formatted by gofmt is read in part.
"""

from __future__ import annotations

import re

from scrout.index.definition import Definition, Kind

# No match is tried twice: an unterminated string or comment extends to the end of the line or the text.
_STRING_OR_COMMENT = re.compile(
    r"//[^\n]*|(?s:/\*.*?(?:\*/|\Z))|`[^`]*(?:`|\Z)"
    r"""|"[^"\\\n]*(?:\\[^\n]?[^"\\\n]*)*"?|'[^'\\\n]*(?:\\[^\n]?[^'\\\n]*)*'?"""
)
_FUNCTION = re.compile(r"func[ \t]+(?:\(([^)]*)\)[ \t]*)?(\w+)")
_RECEIVER = re.compile(r"(?<!\w)(\w++)[ \t]*+(?:\[[^\[\]]*+\][ \t]*+)?$")
_OTHER = re.compile(r"(type|const|var)[ \t]+(?:(\w+)|\()")
_GROUPED = re.compile(r"\t(\w+)")
_LABEL = re.compile(r"\w+:\s*$")
_IMPORT = re.compile(r'^import[ \t]+(?:[\w.]+[ \t]+)?"([^"\n]{1,200})"|^import[ \t]*\(([^)]*)', re.M)
_IMPORTED = re.compile(r'^[ \t]*(?:[\w.]+[ \t]+)?"([^"\n]{1,200})"', re.M)


def read_go(text: str) -> tuple[list[Definition], list[str]]:
    """Definitions in the order of their lines, and imported paths."""
    imports = [path for one, many in _IMPORT.findall(text) for path in ([one] if one else _IMPORTED.findall(many))]
    return _definitions(_STRING_OR_COMMENT.sub(_mask, text)), imports


def _mask(match: re.Match[str]) -> str:
    found = match[0]
    # Lines of a string are not empty, unlike those of a comment, and neither is at the margin.
    return "\n\t" * found.count("\n") if found[0] == "/" else '""' + "\n\t\x01" * found.count("\n")


def _definitions(masked: str) -> list[Definition]:
    found: list[Definition] = []
    name, first, body, last = "", 0, 0, 0  # the open declaration, and the last line that is not empty
    kind: Kind = "function"
    group = ""  # the keyword before the open parenthesis
    for number, line in enumerate((*masked.split("\n"), "end of file"), 1):
        start = line[:1]
        match = _GROUPED.match(line) if group else None
        if match or (start not in "\t \r})" and not _LABEL.match(line)):
            if name:
                found.append(Definition(name, first, last, (body or last) if kind == "function" else last + 1, kind))
            name, first, body = "", number, 0
            if match:
                name, kind = match[1], "class" if group == "type" else "constant"
            elif match := _FUNCTION.match(line):
                receiver = _RECEIVER.search(match[1] or "")
                name, kind, group = f"{receiver[1]}.{match[2]}" if receiver else match[2], "function", ""
            elif match := _OTHER.match(line):
                name, kind = match[2] or "", "class" if match[1] == "type" else "constant"
                group = "" if name else match[1]
            else:
                group = ""
        if start == ")" and group:
            if name:
                found.append(Definition(name, first, last, last + 1, kind))
            name = group = ""
        stripped = line.rstrip()
        if stripped:
            last = number
            if name and not body and stripped[-1] == "{":
                body = number
    return found
