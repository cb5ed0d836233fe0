"""A model's answer as edits: search and replace blocks, or a whole function, parsed leniently and applied exactly."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from scrout.fix.single.excerpts import Excerpt, parses
from scrout.index.symbols import language_of, read_symbols

MOST_EDITS = 20
_SEARCH = re.compile(r"\s{0,8}<{5,9} ?(?:SEARCH|ORIGINAL|HEAD)?\s*")
_DIVIDER = re.compile(r"\s{0,8}={5,9}\s*")
_REPLACE = re.compile(r"\s{0,8}>{5,9} ?(?:REPLACE|UPDATED)?.{0,40}")
_FENCE = re.compile(r"\s{0,8}(?:```|~~~)[\w+.-]*\s*")


class UnusableAnswer(Exception):
    """Why an answer cannot be used, in words for the model."""


@dataclass(frozen=True)
class Replacement:
    """Lines to replace, and their replacement."""

    path: str
    """Empty: the answer does not say."""
    search: str
    replace: str


def apply_answer(answer: str, excerpts: Sequence[Excerpt], texts: Mapping[str, str]) -> dict[str, str]:
    """The files that an answer changes, with their new texts. Only files in the prompt can be changed."""
    if answer != answer.encode("utf-8", "replace").decode():
        raise UnusableAnswer("it holds half of a surrogate pair, which no file can take")
    blocks = list(_blocks(answer, excerpts))
    changed = dict(texts)
    if blocks:
        for block in blocks[:MOST_EDITS]:
            path, text = _replaced(block, excerpts, changed)
            changed[path] = text
    else:
        for path, text in _whole_functions(answer, excerpts, changed):
            changed[path] = text
    changed = {path: text for path, text in changed.items() if text != texts[path]}
    if not changed:
        raise UnusableAnswer("it changes nothing: it has no edit in the requested form, or repeats the code as it was")
    broken = [path for path, text in changed.items() if parses(path, texts[path]) and not parses(path, text)]
    if broken:
        raise UnusableAnswer(f"with it {broken[0]} is no valid Python: look at indentation and brackets")
    return changed


def _blocks(answer: str, excerpts: Sequence[Excerpt]) -> Iterator[Replacement]:
    shown = {excerpt.path for excerpt in excerpts}
    path, search, replace, part = "", list[str](), list[str](), "outside"
    for line in answer.splitlines():
        if part == "outside":
            if _SEARCH.fullmatch(line):
                part, search, replace = "search", [], []
            else:
                path = next((one for one in shown if one in line), path)
        elif part == "search":
            if _DIVIDER.fullmatch(line):
                part = "replace"
            else:
                search.append(line)
        elif _REPLACE.fullmatch(line):
            yield Replacement(path, "\n".join(_unfenced(search)), "\n".join(_unfenced(replace)))
            part = "outside"
        else:
            replace.append(line)
    if part == "replace" and replace:  # small models forget the end mark
        yield Replacement(path, "\n".join(_unfenced(search)), "\n".join(_unfenced(replace)))


def _unfenced(lines: list[str]) -> list[str]:
    """Text without code fences at both ends."""
    if len(lines) > 1 and _FENCE.fullmatch(lines[0]) and _FENCE.fullmatch(lines[-1]):
        return lines[1:-1]
    return lines[:-1] if lines and _FENCE.fullmatch(lines[-1]) else lines


def _replaced(block: Replacement, excerpts: Sequence[Excerpt], texts: Mapping[str, str]) -> tuple[str, str]:
    """The file, and its text with the block applied."""
    wanted = block.search.strip("\n").split("\n")
    if not block.search.strip():
        raise UnusableAnswer("a SEARCH part is empty: copy into it the lines that are to be replaced")
    paths = [block.path] if block.path else list(dict.fromkeys(excerpt.path for excerpt in excerpts))
    for path in paths:
        lines = texts[path].split("\n")
        places = _places(lines, wanted, exact=True) or _places(lines, wanted, exact=False)
        if len(places) > 1:
            spans = [(one.first - 1, one.last) for one in excerpts if one.path == path]
            places = [at for at in places if any(first <= at < last for first, last in spans)][:1] or places
        if len(places) == 1:
            at = places[0]
            new = _indented_like(lines[at : at + len(wanted)], wanted, block.replace.strip("\n"))
            if lines[at].endswith("\r"):
                new = [f"{line}\r" for line in new]
            return path, "\n".join([*lines[:at], *new, *lines[at + len(wanted) :]])
        if places:
            raise UnusableAnswer(f"the SEARCH lines stand {len(places)} times in {path}: add lines around them")
    raise UnusableAnswer(
        f"these SEARCH lines are not in {' or '.join(paths)}: {wanted[0].strip()[:80]!r}. Copy them exactly as shown"
    )


def _places(lines: Sequence[str], wanted: Sequence[str], *, exact: bool) -> list[int]:
    """Positions of these lines, ignoring trailing spaces, and without `exact` also leading ones."""

    def plain(line: str) -> str:
        return line.rstrip() if exact else line.strip()

    goal = [plain(line) for line in wanted]
    have = [plain(line) for line in lines]
    starts = (at for at, line in enumerate(have[: len(have) - len(goal) + 1]) if line == goal[0])
    return [at for at in starts if have[at : at + len(goal)] == goal]


def _indented_like(found: Sequence[str], wanted: Sequence[str], replace: str) -> list[str]:
    """The new lines, shifted by the difference between the old lines' indentation and the answer's."""
    if not replace:
        return []
    stood = next((_indent(line) for line in found if line.strip()), "")
    said = next((_indent(line) for line in wanted if line.strip()), "")
    if stood == said:
        return replace.split("\n")
    new = textwrap.dedent(replace).split("\n")
    own = next((_indent(line) for line in replace.split("\n") if line.strip()), "")
    lead = stood + own[len(said) :] if own.startswith(said) else stood
    return [lead + line if line.strip() else line for line in new]


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _whole_functions(answer: str, excerpts: Sequence[Excerpt], texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Replace shown functions by functions of the same name in the answer."""
    for code in _fenced(answer):
        for excerpt in excerpts:
            name = excerpt.name.rpartition(".")[2]
            language = language_of(excerpt.path, "source")
            written = read_symbols(textwrap.dedent(code).encode(), language).definitions if name else ()
            new = next((one for one in written if one.name.rpartition(".")[2] == name and one.kind == "function"), None)
            if new is None:
                continue
            lines = texts[excerpt.path].split("\n")
            body = textwrap.dedent("\n".join(textwrap.dedent(code).split("\n")[new.first - 1 : new.last]))
            lead = _indent(lines[excerpt.first - 1])
            moved = [lead + line if line.strip() else line for line in body.split("\n")]
            if not body.lstrip().startswith("@"):  # keep decorators that the answer leaves out
                kept = [line for line in lines[excerpt.first - 1 : excerpt.last] if line.strip()]
                decorators = next((at for at, line in enumerate(kept) if not line.lstrip().startswith("@")), 0)
                moved = [*kept[:decorators], *moved]
            yield excerpt.path, "\n".join([*lines[: excerpt.first - 1], *moved, *lines[excerpt.last :]])
            return


def _fenced(answer: str) -> Iterator[str]:
    """The text between fences; all of it if there are none."""
    lines, inside, any_found = list[str](), False, False
    for line in answer.splitlines():
        if _FENCE.fullmatch(line):
            if inside and lines:
                any_found = True
                yield "\n".join(lines)
            lines, inside = [], not inside
        elif inside:
            lines.append(line)
    if inside and lines:
        yield "\n".join(lines)
    elif not any_found:
        yield answer
