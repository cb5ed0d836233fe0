"""A patch to be read: two columns of line numbers, colours, and what is long folded. Nothing of it is trusted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from scrout.html import Html, element, escape
from scrout.server.dashboard.layout import soft
from scrout.text import clip

MAX_ROWS = 4000
"""Of a whole patch; the JSON has all of it."""
FOLD_ROWS = 150
"""A file with more is folded."""
MAX_LINE_CHARS = 1000

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(.*)")
_HEADER = re.compile(r'diff --git (?:"?a/(?P<old>.*?)"?) (?:"?b/(?P<new>.*?)"?)', re.S)


@dataclass
class FileDiff:
    """What a patch does to one file."""

    name: str
    rows: list[tuple[str, int | None, int | None, str]] = field(default_factory=list)
    """Kind (`+`, `-`, ` `, `@` or `i` for what git says of the file), old and new number, text."""

    @property
    def added(self) -> int:
        return sum(row[0] == "+" for row in self.rows)

    @property
    def removed(self) -> int:
        return sum(row[0] == "-" for row in self.rows)


def read(patch: str) -> list[FileDiff]:
    """The files of a patch; what is no patch comes out as lines of one file without a name."""
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
    return files


def show(patch: str) -> Html:
    """The patch as a page shows it."""
    files = read(patch)
    if not files:
        return soft("Nothing was changed.")
    room = MAX_ROWS
    parts = []
    for one in files:
        parts.append(_file(one, max(0, room)))
        room -= len(one.rows)
    return Html("".join(parts))


def _file(one: FileDiff, room: int) -> Html:
    counts = element(
        "span", element("span", f"+{one.added}", class_="good"), " ", element("span", f"−{one.removed}", class_="bad")
    )
    summary = element("summary", element("code", one.name or "patch"), " ", counts)
    rows = "".join(_rows(one.rows[:room]))
    names = "".join(f'<th scope="col">{name}</th>' for name in ("old line", "new line", "code"))
    head = f'<thead class="unseen"><tr>{names}</tr></thead>'
    table = element("table", Html(f"{head}<tbody>{rows}</tbody>"), class_="diff")
    left = [soft(f"{len(one.rows) - room:,} more lines are in this page's JSON.")] if len(one.rows) > room else []
    scroll = element(
        "div", table, class_="scroll", tabindex="0", role="region", **{"aria-label": f"Changes to {one.name}"}
    )
    is_open = {"open": ""} if len(one.rows) <= FOLD_ROWS else {}
    return element("details", summary, scroll, *left, class_="card change", **is_open)


_KINDS = {"+": "added", "-": "removed", "@": "hunk", "i": "told", " ": ""}


def _rows(rows: list[tuple[str, int | None, int | None, str]]) -> Iterator[str]:
    for kind, old, new, text in rows:
        sign, shown = kind if kind in "+- " else "", clip(text, MAX_LINE_CHARS)
        yield (
            f'<tr class="{_KINDS[kind]}"><td class="at">{"" if old is None else old}</td>'
            f'<td class="at">{"" if new is None else new}</td><td><pre>{sign}{escape(shown)}</pre></td></tr>'
        )
