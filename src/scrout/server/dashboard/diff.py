"""Shows a patch: two columns of line numbers, colours, and long files folded. The patch is untrusted."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from scrout.html import Html, fragment
from scrout.text import clip

MAX_ROWS = 4000
"""Maximum rows of a whole patch; the JSON has all."""
FOLD_ROWS = 150
"""Files with more rows are folded."""
MAX_LINE_CHARS = 1000

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(.*)")
_HEADER = re.compile(r'diff --git (?:"?a/(?P<old>.*?)"?) (?:"?b/(?P<new>.*?)"?)', re.S)


@dataclass
class FileDiff:
    name: str
    rows: list[tuple[str, int | None, int | None, str]] = field(default_factory=list)
    """Kind (`+`, `-`, ` `, `@` or `i` for git's own lines), old and new number, text."""

    room: int = MAX_ROWS
    """Number of its rows that a page shows."""

    @property
    def shown(self) -> list[tuple[str, int | None, int | None, str]]:
        return [(kind, old, new, clip(text, MAX_LINE_CHARS)) for kind, old, new, text in self.rows[: self.room]]

    @property
    def left(self) -> int:
        return max(0, len(self.rows) - self.room)

    @property
    def is_open(self) -> bool:
        return len(self.rows) <= FOLD_ROWS

    @property
    def added(self) -> int:
        return sum(row[0] == "+" for row in self.rows)

    @property
    def removed(self) -> int:
        return sum(row[0] == "-" for row in self.rows)


def read(patch: str) -> list[FileDiff]:
    """The files of a patch; text that is not a patch becomes lines of one file without a name."""
    files: list[FileDiff] = []
    old = new = old_left = new_left = 0
    for line in patch.removesuffix("\n").split("\n") if patch else ():
        inside = old_left > 0 or new_left > 0
        if not inside and line.startswith("diff --git "):
            match = _HEADER.fullmatch(line)
            files.append(FileDiff(match["new"] if match else line.removeprefix("diff --git ")))
            continue
        if not files:
            files.append(FileDiff(""))
        rows = files[-1].rows
        hunk = _HUNK.match(line) if not inside else None
        if hunk:
            old, new = int(hunk[1]), int(hunk[3])
            old_left, new_left = (int(hunk[2] or 1), int(hunk[4] or 1))
            rows.append(("@", None, None, line))
        elif inside and line.startswith("+"):
            rows.append(("+", None, new, line[1:]))
            new, new_left = new + 1, new_left - 1
        elif inside and line.startswith("-"):
            rows.append(("-", old, None, line[1:]))
            old, old_left = old + 1, old_left - 1
        elif inside and line[:1] in ("", " "):
            rows.append((" ", old, new, line[1:]))
            old, new, old_left, new_left = old + 1, new + 1, old_left - 1, new_left - 1
        elif not line.startswith(("index ", "--- ", "+++ ")):
            rows.append(("i", None, None, line))
    room = MAX_ROWS
    for one in files:
        one.room, room = max(0, room), room - len(one.rows)
    return files


def show(patch: str) -> Html:
    return fragment("dashboard/diff.html", "patch", read(patch))
