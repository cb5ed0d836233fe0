"""Definitions from single lines, for languages without a grammar and files that a grammar cannot parse."""

from __future__ import annotations

import re
from collections.abc import Iterator

from scrout.index.definition import Definition

# One line each, matched against short lines only, so that no hostile file can slow them down. For the same reason,
# groups of words end in a blank that the words cannot contain.
_DEFINES = {
    "javascript": (
        r"\s*(?:export\s+)?(?:default\s+)?(?:declare\s+)?(?:abstract\s+)?(?:async\s+)?"
        r"(?:function\b\s*\*?|class|interface|enum|type|namespace)\s*\b([\w$]+)",
        r"\s*(?:export\s+)?(?:const|let|var)\s+([\w$]+)[^=]*=\s*(?:async\b\s*)?(?:function\b|\(|[\w$]+\s*=>)",
        r"\s+(?:(?:public|private|protected|static|async|get|set|override)\s+)*([\w$#]+)\s*\([^;]*\{\s*$",
    ),
    "java": (
        r"\s*(?:[\w@]+\s+)*(?:class|interface|enum|record|object|trait|struct)\s+(\w+)",
        r"\s*(?:[\w@]+\s+)*(?:fun|def)\s+(?:\w+\.)?(\w+)",
        r"\s*(?:[\w<>\[\],.?@]+\s+)+(\w+)\s*\([^;=]*$",
    ),
    "c": (
        r"\s*(?:typedef\s+)?(?:class|struct|enum|union|namespace)\s+(?:class\s+)?(\w+)[^;]*$",
        r"(?:[\w:<>,~*&]+\s+)+[*&]*([\w:~]+)\s*\([^;]*$",
        r"\s*#\s*define\s+(\w+)",
    ),
    "rust": (
        r"\s*(?:pub(?:\([^)]*\))?\s+)?(?:(?:async|unsafe|const|default|extern)\s+)*(?:fn|struct|enum|trait|mod|type|union)\s+(\w+)",
        r"\s*macro_rules!\s*(\w+)",
    ),
    "ruby": (r"\s*(?:def\s+(?:self\.)?|class\s+|module\s+)([\w:]+[?!=]?)",),
    "php": (r"\s*(?:\w+\s+)*(?:function|class|interface|trait|enum)\s+&?(\w+)",),
}
_OUTLINES = {language: re.compile("|".join(f"(?:{part})" for part in parts)) for language, parts in _DEFINES.items()}
_ALIKE = {
    **dict.fromkeys(("typescript", "tsx", "component"), "javascript"),
    **dict.fromkeys(("cpp", "header"), "c"),
    "java-like": "java",
}
_NOT_A_NAME = re.compile(
    r"(if|for|while|switch|catch|return|else|function|new|do|with|throw|await|sizeof|defined|extends)$"
)
_CLASS = re.compile(
    r"[^(={]{0,200}\b(class|interface|enum|record|object|trait|struct|union|namespace|module|mod|type)\s"
)
_MAX_CHARS = 300


def outline(text: str, language: str) -> Iterator[Definition]:
    """Definitions by their first line; each ends where the indentation returns."""
    pattern = _OUTLINES.get(_ALIKE.get(language, language))
    lines = text.split("\n")
    owners: list[Definition] = []
    for index, line in enumerate(lines if pattern else ()):
        if len(line) > _MAX_CHARS or line.isspace() or not pattern or not (match := pattern.match(line)):
            continue
        name = next(group for group in match.groups() if group is not None)
        if not _NOT_A_NAME.match(name):
            while owners and owners[-1].last <= index:
                owners.pop()
            qualified = f"{owners[-1].name}.{name}" if owners else name
            last = _end(lines, index)
            is_class = _CLASS.match(line) is not None
            body = last + 1 if is_class else min(index + 2, last)
            owners.append(Definition(qualified, index + 1, last, body, "class" if is_class else "function"))
            yield owners[-1]


def _end(lines: list[str], start: int) -> int:
    indent = len(lines[start]) - len(lines[start].lstrip())
    last = start
    for index in range(start + 1, len(lines)):
        stripped = lines[index].lstrip()
        if stripped and len(lines[index]) - len(stripped) <= indent:
            if stripped.startswith(("}", "end", ")")):
                return index + 1
            if not stripped.startswith("{"):
                break
        elif stripped:
            last = index
    return last + 1
