"""A scouting as one HTML page for people: where to look, why, and the code itself, read from the base commit.

The page needs no network and has no script. Issue, paths, code, notes and outputs are hostile: the template escapes
them, and a policy in the page forbids scripts and remote loads besides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import groupby

from pygments.lexer import Lexer  # type: ignore[import-untyped]
from pygments.lexers import find_lexer_class_for_filename  # type: ignore[import-untyped]
from pygments.token import Comment, Keyword, Name, Number, String, Text, _TokenType  # type: ignore[import-untyped]

from scrout import __version__
from scrout.handoff import FileRef
from scrout.html import Html, element, escape, fragment, render, visible
from scrout.index.files import MAX_FILE_BYTES, read_blobs
from scrout.records import Scouting
from scrout.sandbox.workspace import Base
from scrout.task import Task
from scrout.text import clip, duration, excerpt, usd

MAX_FILES = 20
MAX_REGION_LINES = 200
MAX_PAGE_BYTES = 2_000_000
MAX_TEXT_CHARS = 20_000
"""Of the issue, of an observed output, and of each file of the reproduction."""
MAX_LINE_CHARS = 500
MAX_PATH_BYTES = 4096
CONTEXT_LINES = 3
FOLD_LINES = 100
"""Shown on each side of a fold that is longer than twice this."""
OPENING_LINES = 40
"""Shown of a file without regions."""
MAX_COLOURED_CHARS = 200_000
"""Colouring has to read a file from its start; beyond this the code stays plain."""
PART_CHARS = 2_000
"""Of the code that is coloured at once. A string that goes on in the next part loses its colour."""

NO_SOURCE = "Not a text file of this commit: new, binary, a link, or larger than 1 MB."
PAGE_FULL = "Left out: the page is full."

_COLOURS: tuple[tuple[_TokenType, str], ...] = (
    (Comment, "c"),
    (String, "s"),
    (Number, "m"),
    (Keyword, "k"),
    (Name.Function, "f"),
    (Name.Class, "f"),
    (Name.Decorator, "b"),
    (Name.Builtin, "b"),
    (Name.Exception, "b"),
    (Name.Tag, "k"),
)
_WORD = re.compile(r"([^\W\d]\w{2,79})")
_FENCE = re.compile(r"^```[^\n]*\n(.*?)(?:^```[ \t]*$|\Z)", re.M | re.S)
_QUOTED = re.compile(r"`([^`\n]{1,200})`")
_CODE_LIKE = re.compile(
    r"\b(?:[a-z\d]+(?:_[a-z\d]+)+|_+[a-z]\w+|[A-Z]?[a-z\d]+(?:[A-Z][a-z\d]*)+|\w{3,80}(?=\())\b", re.A
)


def page(task: Task, found: Scouting, sources: Mapping[str, str], where: str = "") -> str:
    """The page, at most MAX_PAGE_BYTES. `sources` are files at the base commit; `where` says how commands were run."""
    refs = found.handoff.files[:MAX_FILES]

    def made(code: Iterable[Html]) -> str:
        return render(
            "scout_report.html",
            title=_title(task.text),
            task=task,
            found=found,
            refs=refs,
            issue=issue_section(task.text),
            code=code,
            origin=_origin(task, found, where),
        )

    room = MAX_PAGE_BYTES - len(made(()).encode())
    return made(_code_sections(refs, sources, names_in(task.text), room))


def read_sources(base: Base, paths: Iterable[str]) -> dict[str, str]:
    """Text files of the base commit, from git objects: no link is followed, no work tree is looked at."""
    wanted = sorted({path for path in paths if _is_plain(path)})
    if not wanted:
        return {}
    # To list all of a large repository takes long. Behind `--` and taken by the letter, a path from a handoff is
    # neither an option nor a pattern.
    listed = base.git("--literal-pathspecs", "ls-tree", "-z", "-l", "--full-tree", base.commit, "--", *wanted)
    blobs: dict[str, str] = {}
    for line in listed.split(b"\0")[:-1]:
        about, _, raw_path = line.partition(b"\t")
        mode, _, blob, size = about.decode("ascii").split()
        if mode.startswith("100") and int(size) <= MAX_FILE_BYTES:
            blobs[raw_path.decode("utf-8", errors="surrogateescape")] = blob
    contents = dict(read_blobs(base.tree / ".git", set(blobs.values())))
    return {
        path: contents[blob].decode("utf-8", errors="replace")
        for path, blob in blobs.items()
        if path in wanted and blob in contents and b"\0" not in contents[blob]
    }


def _is_plain(path: str) -> bool:
    """Whether a commit can hold a file of this path, and a command can be given it."""
    try:
        raw = path.encode("utf-8", errors="surrogateescape")
    except UnicodeEncodeError:
        return False
    parts = raw.split(b"/")
    return len(raw) <= MAX_PATH_BYTES and b"\0" not in raw and not {b"", b".", b".."} & set(parts)


def issue_section(text: str) -> Html:
    """Fenced code as code, the rest as it was written; empty where the issue is its title alone."""
    _, _, rest = text.strip().partition("\n")
    parts: list[tuple[bool, str]] = []
    end = 0
    shown = excerpt(rest.strip("\n"))
    for fence in _FENCE.finditer(shown):
        parts += [(False, shown[end : fence.start()].strip("\n")), (True, fence[1])]
        end = fence.end()
    parts.append((False, shown[end:].strip("\n")))
    return fragment("scouting.html", "issue", parts) if shown.strip() else Html()


def _origin(task: Task, found: Scouting, where: str) -> list[tuple[str, str]]:
    ran = found.handoff.reproduction.command if found.handoff.reproduction else None
    facts = {
        "commit": task.base_commit + (" (a snapshot of uncommitted work)" if task.dirty else ""),
        "command run": ran or "none that failed",
        "run in": where,
        "scouting took": duration(found.seconds),
        "cost": usd(found.cost_usd),
        "searcher": " ".join(word for word in (found.searcher, found.state.space if found.state else "") if word),
        "scrout": __version__,
    }
    return [(name, excerpt(value, 1000)) for name, value in facts.items()]


def _code_sections(
    refs: tuple[FileRef, ...], sources: Mapping[str, str], names: frozenset[str], room: int
) -> Iterator[Html]:
    """One for each file; what does not fit loses its folds first, then its code."""
    if refs:
        yield code_legend()
    for rank, ref in enumerate(refs, 1):
        if ref.path not in sources:
            section = file_section(rank, ref, why=NO_SOURCE)
        else:
            lines, spans = lines_of(sources[ref.path]), spans_of(ref)
            painted = coloured(ref.path, lines, names)
            for folds in (True, False):
                candidate = file_section(rank, ref, code_table(rank, lines, painted, spans, folds=folds))
                if len(candidate.encode()) <= room:
                    section = candidate
                    break
            else:
                section = file_section(rank, ref, why=PAGE_FULL)
        room -= len(section.encode())
        yield section


def code_legend() -> Html:
    return fragment("scouting.html", "legend")


def file_section(rank: int, ref: FileRef, code: Html | str = "", why: str = "") -> Html:
    """A file with its code; without, `why` there is none."""
    return fragment("scouting.html", "file", rank, ref, code, why)


def spans_of(ref: FileRef) -> list[tuple[int, int]]:
    return [(max(1, first), min(last, first + MAX_REGION_LINES - 1)) for first, last in ref.regions]


def split_lines(source: str) -> list[str]:
    """As an editor counts them: by line feed alone."""
    return source.replace("\r\n", "\n").removesuffix("\n").split("\n")


def lines_of(source: str) -> list[str]:
    """The same as they are shown: overlong ones are cut."""
    lines = split_lines(visible(source.replace("\r\n", "\n")))
    return [clip(line, MAX_LINE_CHARS) for line in lines]


def code_table(rank: int, lines: list[str], coloured: list[Html], spans: list[tuple[int, int]], *, folds: bool) -> Html:
    """Regions marked, with some context; what lies between is folded."""
    hit = {number for first, last in spans for number in range(first, min(last, len(lines)) + 1)}
    near = {n + by for n in hit for by in range(-CONTEXT_LINES, CONTEXT_LINES + 1)} or set(range(1, OPENING_LINES + 1))
    # A link's target: where each region starts.
    ids = {first: f"file-{rank}-line-{first}" for first, _ in spans}
    parts: list[Html] = []
    for shown, numbers in _stretches(near, len(lines)):
        if shown:
            rows = (_row(n, coloured[n - 1], hit=n in hit, id_=ids.get(n, "")) for n in numbers)
            parts.append(element("pre", *rows, class_="code", tabindex="0"))
        elif folds:
            parts.append(_fold(numbers, coloured))
        else:
            which = f"lines {numbers[0]}-{numbers[-1]}" if len(numbers) > 1 else f"line {numbers[0]}"
            parts.append(element("p", f"{which} left out", class_="pad soft"))
    return Html("".join(parts))


def _stretches(near: set[int], count: int) -> Iterator[tuple[bool, range]]:
    """Lines that are shown and lines that are not, by turns."""
    after = 1
    numbers = sorted(number for number in near if 1 <= number <= count)
    for _, group in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        if run[0] > after:
            yield False, range(after, run[0])
        after = run[-1] + 1
        yield True, range(run[0], after)
    if after <= count:
        yield False, range(after, count + 1)


def _fold(numbers: range, coloured: list[Html]) -> Html:
    rows = [_row(number, coloured[number - 1]) for number in numbers]
    if len(rows) > 2 * FOLD_LINES:
        note = element("span", f"{len(rows) - 2 * FOLD_LINES} lines left out", class_="left")
        rows = [*rows[:FOLD_LINES], note, *rows[-FOLD_LINES:]]
    count = f"{len(numbers)} lines" if len(numbers) > 1 else "1 line"
    words = f"{count} ({numbers[0]}-{numbers[-1]})" if len(numbers) > 1 else f"{count} ({numbers[0]})"
    return element("details", element("summary", words), element("pre", *rows, class_="code", tabindex="0"))


def _row(number: int, line: Html, *, hit: bool = False, id_: str = "") -> Html:
    attributes = (' class="hit"' if hit else "") + (f' id="{id_}"' if id_ else "")
    return Html(f'<span{attributes} data-line="{number}">{line or " "}</span>')


_NEW_LINE = (Text, "\n")


def _parts(lines: list[str]) -> Iterator[str]:
    """The lines in parts that a lexer, which may take the square of its text, reads in no time."""
    part: list[str] = []
    size = 0
    for line in lines:
        if part and size + len(line) > PART_CHARS:
            yield "\n".join(part)
            part, size = [], 0
        part.append(line)
        size += len(line) + 1
    yield "\n".join(part)


def coloured(path: str, lines: list[str], names: frozenset[str]) -> list[Html]:
    """Each line as markup; plain where nobody knows the language, or where the colouring disagrees with the text."""
    kind_of = _lexer_class(path.rpartition("/")[2])
    if kind_of is None or sum(map(len, lines)) > MAX_COLOURED_CHARS or max(map(len, lines), default=0) > PART_CHARS:
        return [_marked(line, names) for line in lines]
    seen: list[str] = []
    coloured: list[list[str]] = []
    lexer = kind_of(stripnl=False, ensurenl=False)
    for kind, value in (token for part in _parts(lines) for token in (_NEW_LINE, *lexer.get_tokens(part))):
        colour, code = _colour(kind)
        for number, piece in enumerate(value.split("\n")):
            if number:
                seen.append("")
                coloured.append([])
            if piece:
                seen[-1] += piece
                inner = _marked(piece, names) if code else escape(piece)
                coloured[-1].append(f'<span class="{colour}">{inner}</span>' if colour else inner)
    # A lexer for odd formats may drop or add something, and then no line number could be trusted.
    return [
        Html("".join(coloured[at])) if at < len(seen) and seen[at] == line else _marked(line, names)
        for at, line in enumerate(lines)
    ]


@lru_cache(maxsize=1024)
def _colour(kind: _TokenType) -> tuple[str, bool]:
    """The class of a kind of token, and whether the issue may name it; a name of the language's own says nothing."""
    colour = next((colour for family, colour in _COLOURS if kind in family), "")
    return colour, kind in Text or (kind in Name and kind not in Name.Builtin)


@lru_cache(maxsize=1024)
def _lexer_class(name: str) -> Callable[..., Lexer] | None:
    """None: nobody knows the language."""
    found: Callable[..., Lexer] | None = find_lexer_class_for_filename(name)
    return found


def names_in(text: str) -> frozenset[str]:
    """Words of the issue that look like names in code: quoted, called, in snake_case or CamelCase, or from a block."""
    code = (match[1] for pattern in (_FENCE, _QUOTED) for match in pattern.finditer(text[:MAX_TEXT_CHARS]))
    called = set(_CODE_LIKE.findall(text[:MAX_TEXT_CHARS]))
    quoted = {word for part in code for word in _WORD.findall(part)}
    return frozenset(name for name in quoted | called if not name.startswith("__"))


def _marked(text: str, names: frozenset[str]) -> Html:
    """Escaped, with the issue's names marked."""
    if names.isdisjoint(_WORD.findall(text)):
        return escape(text)
    words = _WORD.split(text)
    return Html("".join(f"<mark>{escape(word)}</mark>" if word in names else escape(word) for word in words))


def _title(text: str) -> str:
    first = text.strip().partition("\n")[0].strip(" #\t")
    return first[:200] or "An issue"
