"""The handoff: what a scout tells a fixer, as a record and in the wire form that models read and write.

    <files>
    src/app/views.py:12-40,88-91
    </files>
    <why>
    src/app/views.py: 0.83 the traceback ends here
    </why>
    <repro>
    command: python check.py
    reproduced: true
    observed: ZeroDivisionError: division by zero
    <file path="check.py">
    | from app import views
    |
    </file>
    </repro>
    <dead_ends>
    - the cache is not involved
    </dead_ends>
    <notes>
    Free text.
    </notes>
    STOP

The old form has files without regions, and no `<why>`, `<file>` or `<dead_ends>`; its readers look for the blocks and
fields they know and pass over ours, which is why confidence has a block of its own and files come after `observed`. A
path that could be misread is written in double quotes. Text that looks like our tags (or, in a command, like the next
field) carries a backslash, `<\\/notes>`, which the reader takes off again: nothing breaks out of its block, and file
contents and commands survive exactly.

`parse(render(h), h.kind) == normalize(h)` for whatever fits the size limit, except for the basis of a reproduction:
neither it nor the kind is in the wire form. This module never looks at a repository; the gate checks whether a path
exists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Literal

from pydantic import Field, ValidationError
from pydantic_core import from_json as decode_json

from scrout.base import FrozenModel, HandoffError

MAX_BYTES = 4096
MAX_LINES = 1000
"""Maximum number of paths, dead ends or reproduction files that are read; no page needs more."""
MAX_REGIONS = 100
MAX_PATH_CHARS = 1000
MAX_LINE_NUMBER = 999_999_999

Kind = Literal["spontaneous", "forced"]
Basis = Literal["verbatim", "confirmed", "assumed"]
"""What a reproduction rests on. `verbatim`: the reporter's own code fails as reported. `confirmed`: the expected value
is the report's, and a run gave the actual value that it reports. `assumed`: anything weaker."""


class FileRef(FrozenModel):
    """A file the change is likely to touch."""

    path: str
    """Relative to the repository's root, with forward slashes."""
    regions: tuple[tuple[int, int], ...] = ()
    """First and last line, both counted from 1 and included; empty: the whole file."""
    confidence: float | None = None
    """Probability that the fix changes this file; None: the scout gave none."""
    why: str = ""


class Reproduction(FrozenModel):
    """How to see the bug: files to write, a command to run from the repository's root, and the output that was seen."""

    files: dict[str, str] = Field(default_factory=dict)
    command: str | None = None
    claim: bool = False
    """True: the scout claims that the command fails because of the bug."""
    observed: str = ""
    basis: Basis = "assumed"
    """Set by recon, which compares the run with the report. A handoff that is read from a document has `assumed`: a
    document cannot vouch for itself, so the gate compares again.
    """


class Handoff(FrozenModel):
    """One page for the fixer, files best first."""

    kind: Kind = "spontaneous"
    files: tuple[FileRef, ...] = ()
    reproduction: Reproduction | None = None
    dead_ends: tuple[str, ...] = ()
    notes: str = ""


_BLOCKS = "files|why|repro|dead_ends|notes"
# A tag counts at the start of a line or right behind another one, a closing tag also at the end of a line; elsewhere it
# is more likely to be quoted text. The `>` may be missing where the line ends. Here and below, quantifiers are
# possessive wherever the input has no length limit: reading takes linear time, whatever is read.
_TAG = re.compile(
    rf"(?:^|(?<=>))[ \t]*+<(?P<slash>/?)(?P<name>{_BLOCKS})[ \t]*+(?:>|$)|</(?P<end>{_BLOCKS})>(?=[ \t]*+$)",
    re.A | re.I | re.M,
)
_TAG_TEXT = re.compile(rf'<(\\*+/?(?:(?:{_BLOCKS})[ \t]*+(?:>|$)|file(?:>|[ ]path=")))', re.A | re.I | re.M)
_TAG_ESCAPED = re.compile(_TAG_TEXT.pattern.replace("<(", r"<\\(", 1), re.A | re.I | re.M)
_FIELD = re.compile(r"^[ \t]*+(command|reproduced|observed)[ \t]*+:", re.A | re.I | re.M)
_FIELD_TEXT = re.compile(r"^([ \t]*+)(\\*+(?:command|reproduced|observed)[ \t]*+:)", re.A | re.I | re.M)
_FIELD_ESCAPED = re.compile(r"^([ \t]*+)\\(\\*+(?:command|reproduced|observed)[ \t]*+:)", re.A | re.I | re.M)
_FILE = re.compile(r'^<file path="([^"\n]*+)">\n((?:\|[^\n]*+\n)*)</file>[ \t]*+$', re.M)

# Control characters but newline and tab, line separators, text-direction overrides, and halves of surrogate pairs.
_CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_NOT_IN_PATH = re.compile(f'[\t\n<>"]|{_CONTROL.pattern}|^~|^[A-Za-z]:|^[^/]*:/')
_CONTAINERS = ("/app/", "/testbed/", "/workspace/")

_BULLET = re.compile(r"^(?:[-*+•]|[0-9]{1,3}[.)])\s+")
_DEAD_END_BULLET = re.compile(r"^[-*•](?:\s+|$)")
_REGIONS = r"[0-9]{1,9}(?:-[0-9]{1,9})?(?:,[ ]?[0-9]{1,9}(?:-[0-9]{1,9})?)*"
_SPAN = re.compile(rf":({_REGIONS})(?::[0-9]++)?$")
_REMARK = re.compile(r"(?::\s|\s[-–—#])(.*)|\s\(([^()]*+)")
_ENDS_AS_FILE = re.compile(r"\.\w{1,10}$")
"""Whether a path with spaces can be told from prose."""
_CONFIDENCE = re.compile(r"(\?|0\.[0-9]{1,6}|1\.0{1,6})(?:\s+|$)")
_WRAPPED = re.compile(r"```[^`\n]*+\n([^`]*+)```|`([^`]++)`")
_NOTHING = frozenset(("", "-", "null", "none", "n/a"))


def parse(text: str, kind: Kind = "spontaneous") -> Handoff:
    """Read the wire form, old or new, field by field: broken fields are left out."""
    text = text.replace("\r\n", "\n").rstrip()
    if text.endswith(("\nSTOP", ">STOP", "> STOP")):
        text = text.removesuffix("STOP").rstrip()
    blocks, loose = _blocks(text)
    if "repro" not in blocks and (start := _command_start(loose)) is not None:
        loose, blocks["repro"] = loose[:start], loose[start:]
    refs = _refs(blocks["files"]) if "files" in blocks else [ref for ref in _refs(loose) if _sure(ref.path)]
    if not (blocks or refs):
        raise HandoffError(
            f"the handoff that starts with {text[:40]!r} has no <files>, <repro> or <notes> block and names no path. "
            "Pass what `scrout scout` printed, with or without --json."
        )
    paths = {ref.path for ref in refs}
    refs += [ref for ref in _refs(blocks.get("why", "")) if ref.path in paths]
    return normalize(
        Handoff(
            kind=kind,
            files=tuple(refs),
            reproduction=_reproduction(blocks["repro"]) if "repro" in blocks else None,
            dead_ends=tuple(_DEAD_END_BULLET.sub("", line) for line in _lines(blocks.get("dead_ends", ""))),
            notes=_unescape(blocks.get("notes", "")),
        )
    )


def render(handoff: Handoff, *, paper: bool = False, max_bytes: int = MAX_BYTES) -> str:
    """The wire form, at most max_bytes of UTF-8. `paper` writes the old form: paths, claim and notes, nothing else.

    _SACRIFICES is the order in which parts shrink until it fits. A command is never shortened; if not even the best
    file fits beside it, the reproduction is dropped.
    """
    page = normalize(handoff)
    if paper:
        page = _with_files(page, (FileRef(path=ref.path) for ref in page.files))
        page = _with_scripts(page, 0).model_copy(update={"dead_ends": ()})
    if max_bytes < _size(Handoff()):
        raise ValueError(f"max_bytes is {max_bytes}; a handoff without content takes {_size(Handoff())}")
    return _wire(_trim(page, max_bytes))


def normalize(handoff: Handoff) -> Handoff:
    """The handoff as the wire form can carry it; this form is also safe to show.

    Text loses control characters and outer whitespace, a command also the backticks around it; reasons and dead ends
    become one line. Repeated paths are merged at their best rank; those that do not stay inside the repository, or hold
    `<`, `>` or `"`, are dropped. Regions run forward from line 1 on; confidence has two decimals. File contents lose
    control characters only (so CRLF becomes LF).
    """
    merged: dict[str, FileRef] = {}
    for ref in handoff.files:
        path = _path(ref.path)
        if path is not None:
            clean = FileRef(
                path=path, regions=_regions(ref.regions), confidence=_probability(ref.confidence), why=_line(ref.why)
            )
            merged[path] = _merge(merged[path], clean) if path in merged else clean
    reproduction = handoff.reproduction
    if reproduction is not None:
        scripts: dict[str, str] = {}
        for name, content in islice(reproduction.files.items(), MAX_LINES):
            path = _path(name)
            if path is not None:
                scripts.setdefault(path, _text(content))
        reproduction = Reproduction(
            files=scripts,
            command=_command(reproduction.command or ""),
            claim=reproduction.claim,
            observed=_text(reproduction.observed).strip(),
            basis=reproduction.basis,
        )
    return Handoff(
        kind=handoff.kind,
        files=tuple(merged.values())[:MAX_LINES],
        reproduction=reproduction,
        dead_ends=tuple(line for text in handoff.dead_ends[:MAX_LINES] if (line := _line(text))),
        notes=_text(handoff.notes).strip(),
    )


def from_json(data: bytes | str) -> Handoff:
    """Read a Handoff record, or a document that has one under "handoff", such as that of `scrout scout --json`."""
    try:
        document = decode_json(data)
    except ValueError as error:
        raise HandoffError(
            f"the handoff is not valid JSON: {error}. Pass what `scrout scout --json` printed."
        ) from None
    if isinstance(document, dict) and "handoff" in document:
        document = document["handoff"]
    try:
        handoff = normalize(Handoff.model_validate(document))
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in problem["loc"]) or "document"
        raise HandoffError(
            f"the handoff's `{where}` is wrong: {problem['msg']}. Pass what `scrout scout --json` printed."
        ) from None
    if handoff.reproduction is None:
        return handoff
    reproduction = handoff.reproduction.model_copy(update={"basis": "assumed"})
    return handoff.model_copy(update={"reproduction": reproduction})


def read(data: bytes) -> Handoff:
    """Read a handoff in either form: JSON if it starts with a brace, else the wire form."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    if data.lstrip().startswith(b"{"):
        return from_json(data)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise HandoffError(f"the handoff is not UTF-8 (byte {error.start}). Save it as UTF-8 text.") from None
    return parse(text)


def _blocks(text: str) -> tuple[dict[str, str], str]:
    """The text of every block, and the text outside of them."""
    found: dict[str, list[str]] = {}
    loose: list[str] = []
    current = ""
    position = 0
    for tag in _TAG.finditer(text):
        between = text[position : tag.start()]
        position = tag.end()
        name = (tag["name"] or tag["end"]).lower()
        closing = bool(tag["slash"] or tag["end"])
        if closing and not current and name not in found:
            found[name] = [between]  # the opening tag is missing or broken
            continue
        (found[current] if current else loose).append(between)
        if closing:
            # Treat the closing tag of another block as a slip: the open block continues.
            current = "" if name == current else current
        elif name == "repro" and name in found:
            current = ""  # Two reproductions cannot be merged; keep the first.
        else:
            found.setdefault(name, [])
            current = name
    (found[current] if current else loose).append(text[position:])
    return {name: "\n".join(parts) for name, parts in found.items()}, "\n".join(loose)


def _command_start(text: str) -> int | None:
    return next((field.start() for field in _FIELD.finditer(text) if field[1].lower() == "command"), None)


def _reproduction(block: str) -> Reproduction:
    scripts = {match[1]: _unquote(match[2]) for match in islice(_FILE.finditer(block), MAX_LINES)}
    block = _FILE.sub("", block)
    # A field starts once; `observed` is the last one we write, and whatever it quotes is its own.
    starts: dict[str, re.Match[str]] = {}
    for match in _FIELD.finditer(block):
        starts.setdefault(match[1].lower(), match)
    ends = [*[match.start() for match in starts.values()][1:], len(block)]
    fields = {
        name: _unescape(block[match.end() : end]).strip()
        for (name, match), end in zip(starts.items(), ends, strict=False)
    }
    claim = fields.get("reproduced", "").lower().split(maxsplit=1)
    return Reproduction(
        files=scripts,
        command=_FIELD_ESCAPED.sub(r"\1\2", fields.get("command", "")),
        claim=bool(claim) and claim[0].strip("`*.,;") in ("true", "yes"),
        observed=fields.get("observed", ""),
    )


def _refs(block: str) -> list[FileRef]:
    refs = (_file_line(line) for line in _lines(block))
    return [ref for ref in refs if ref is not None]


def _file_line(line: str) -> FileRef | None:
    """Parse `path` or `path:12-40,88`, with an optional bullet before it and remark after it; None if there is no
    usable path.
    """
    line = _BULLET.sub("", line)
    if line.startswith("```"):
        return None
    quoted = line.startswith('"') and line.find('"', 1) > 0
    name, rest = line[1:].split('"', 1) if quoted else ("", line)
    remark = _REMARK.search(rest)
    head = rest[: remark.start()] if remark else rest
    head = head.replace("`", "").replace("**", "").strip()
    span = _SPAN.search(head)
    if not quoted:
        name = head[: span.start()] if span else head
        if name.lower() in _NOTHING or (" " in name and not _ENDS_AS_FILE.search(name)):
            return None
    path = _path(name)
    if path is None:
        return None
    note = (remark[1] or remark[2] or "").strip() if remark else ""
    confidence = _CONFIDENCE.match(note)
    return FileRef(
        path=path,
        regions=tuple(_region(part) for part in span[1].split(",")[:MAX_REGIONS]) if span else (),
        confidence=float(confidence[1]) if confidence and confidence[1] != "?" else None,
        why=note[confidence.end() :] if confidence else note,
    )


def _region(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def _lines(block: str) -> list[str]:
    lines = (line.strip() for line in _unescape(block).strip().split("\n", MAX_LINES)[:MAX_LINES])
    return [line for line in lines if line]


def _sure(path: str) -> bool:
    """Whether a word outside of any block is certainly a path."""
    return re.search(r"/|\.\w", path) is not None and not re.search(r"\s", path)


def _text(text: str) -> str:
    return _CONTROL.sub("", text.replace("\r\n", "\n"))


def _line(text: str) -> str:
    return " ".join(_text(text).split())


def _command(text: str) -> str | None:
    text = _text(text).strip()
    wrapped = _WRAPPED.fullmatch(text)
    if wrapped:
        text = (wrapped[1] or wrapped[2] or "").strip()
    return None if text.lower() in _NOTHING else text


def _path(name: str) -> str | None:
    """The normalized path inside the repository; None if it is not a path, or leads outside or into git's folder."""
    name = name.replace("\\", "/")
    prefix = next((prefix for prefix in _CONTAINERS if name.startswith(prefix)), "")
    name = name.removeprefix(prefix)
    if name.startswith("/") or len(name) > MAX_PATH_CHARS:
        return None
    parts = [part for part in name.split("/") if part not in ("", ".")]
    path = "/".join(parts)
    if not path or path != path.strip() or _NOT_IN_PATH.search(path):
        return None
    return None if any(part == ".." or part.lower() == ".git" for part in parts) else path


def _regions(regions: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    clipped = ([min(max(line, 1), MAX_LINE_NUMBER) for line in region] for region in regions)
    return tuple(dict.fromkeys((min(region), max(region)) for region in clipped))[:MAX_REGIONS]


def _probability(value: float | None) -> float | None:
    if value is None or value != value:
        return None
    return round(min(max(0.0, value), 1.0), 2)  # 0.0 comes first, so that -0.0 does not win the tie.


def _merge(first: FileRef, again: FileRef) -> FileRef:
    known = [value for value in (first.confidence, again.confidence) if value is not None]
    return FileRef(
        path=first.path,
        regions=_regions(first.regions + again.regions),
        confidence=max(known, default=None),
        why=first.why or again.why,
    )


def _wire(page: Handoff) -> str:
    """The wire form of a normalized page."""
    lines = ["<files>", *(_path_text(ref.path) + _region_text(ref.regions) for ref in page.files), "</files>"]
    remarks = [
        f"{_path_text(ref.path)}: {_confidence_text(ref.confidence)} {_escape(ref.why)}".rstrip()
        for ref in page.files
        if ref.why or ref.confidence is not None
    ]
    if remarks:
        lines += ["<why>", *remarks, "</why>"]
    if page.reproduction is not None:
        command = page.reproduction.command
        lines += [
            "<repro>",
            "command: " + ("null" if command is None else _FIELD_TEXT.sub(r"\1\\\2", _escape(command))),
            f"reproduced: {str(page.reproduction.claim).lower()}",
            f"observed: {_escape(page.reproduction.observed)}",
        ]
        for path, content in page.reproduction.files.items():
            lines += [f'<file path="{path}">', *_quote(content), "</file>"]
        lines.append("</repro>")
    if page.dead_ends:
        lines += ["<dead_ends>", *(f"- {_escape(text)}" for text in page.dead_ends), "</dead_ends>"]
    if page.notes:
        lines += ["<notes>", _escape(page.notes), "</notes>"]
    return "\n".join([*lines, "STOP"])


def _size(page: Handoff) -> int:
    return len(_wire(page).encode())


def _path_text(path: str) -> str:
    return path if _file_line(path) == FileRef(path=path) else f'"{path}"'


def _confidence_text(confidence: float | None) -> str:
    return "?" if confidence is None else f"{confidence:.2f}"


def _region_text(regions: tuple[tuple[int, int], ...]) -> str:
    spans = (f"{first}-{last}" if first != last else str(first) for first, last in regions)
    return ":" + ",".join(spans) if regions else ""


def _escape(text: str) -> str:
    return _TAG_TEXT.sub(r"<\\\1", text)


def _unescape(text: str) -> str:
    return _TAG_ESCAPED.sub(r"<\1", text)


def _quote(content: str) -> list[str]:
    return [f"| {line}" if line else "|" for line in _escape(content).split("\n")]


def _unquote(block: str) -> str:
    lines = block.removesuffix("\n").split("\n")
    return _unescape("\n".join(line.removeprefix("|").removeprefix(" ") for line in lines))


_OBSERVED_FLOOR_BYTES = 400
_SQUEEZED_FLOOR_BYTES = 80


def _trim(page: Handoff, max_bytes: int) -> Handoff:
    without = page.model_copy(update={"reproduction": None})
    if page.reproduction and len((page.reproduction.command or "").encode()) > max_bytes:
        return _trim(without, max_bytes)
    for shrink in _SACRIFICES:
        if _size(page) <= max_bytes:
            return page
        page = _most(page, shrink, max_bytes)
    if _size(page) <= max_bytes:
        return page
    if page.reproduction is not None:
        return _trim(without, max_bytes)
    return Handoff(kind=page.kind)


def _most(page: Handoff, shrink: Callable[[Handoff, int], Handoff], max_bytes: int) -> Handoff:
    """The page with as much of one part as fits, found by bisection; as little as possible if nothing fits."""
    low, high = 0, max_bytes  # A part that fits never has more bytes or items than the page has bytes.
    if _size(shrink(page, 0)) > max_bytes:
        return shrink(page, 0)
    while low < high:
        middle = (low + high + 1) // 2
        if _size(shrink(page, middle)) <= max_bytes:
            low = middle
        else:
            high = middle - 1
    return shrink(page, low)


def _squeeze(text: str, max_bytes: int) -> str:
    """A text's beginning and end, with a line between them that says how much was cut; empty if there is no room."""
    data = text.encode()
    if len(data) <= max_bytes:
        return text
    if max_bytes < _SQUEEZED_FLOOR_BYTES:
        return ""
    half = (max_bytes - len(f"\n[{len(data)} bytes left out]\n")) // 2
    head, tail = (part.decode(errors="ignore") for part in (data[:half], data[-half:]))
    return f"{head}\n[{len(data) - 2 * half} bytes left out]\n{tail}"


def _with_files(page: Handoff, files: Iterable[FileRef]) -> Handoff:
    return page.model_copy(update={"files": tuple(files)})


def _with_observed(page: Handoff, max_bytes: int) -> Handoff:
    if page.reproduction is None:
        return page
    observed = _squeeze(page.reproduction.observed, max_bytes)
    return page.model_copy(update={"reproduction": page.reproduction.model_copy(update={"observed": observed})})


def _with_short_observed(page: Handoff, max_bytes: int) -> Handoff:
    return _with_observed(page, max(max_bytes, _OBSERVED_FLOOR_BYTES))


def _with_notes(page: Handoff, max_bytes: int) -> Handoff:
    return page.model_copy(update={"notes": _squeeze(page.notes, max_bytes)})


def _with_dead_ends(page: Handoff, count: int) -> Handoff:
    return page.model_copy(update={"dead_ends": page.dead_ends[:count]})


def _with_reasons(page: Handoff, count: int) -> Handoff:
    bare = (FileRef(path=ref.path, regions=ref.regions) for ref in page.files[count:])
    return _with_files(page, (*page.files[:count], *bare))


def _with_scripts(page: Handoff, count: int) -> Handoff:
    if page.reproduction is None:
        return page
    scripts = dict(islice(page.reproduction.files.items(), count))
    return page.model_copy(update={"reproduction": page.reproduction.model_copy(update={"files": scripts})})


def _with_regions(page: Handoff, count: int) -> Handoff:
    return _with_files(page, (*page.files[:count], *(FileRef(path=ref.path) for ref in page.files[count:])))


def _with_best_files(page: Handoff, count: int) -> Handoff:
    return _with_files(page, page.files[: max(count, 1)])


_SACRIFICES = (
    _with_short_observed,
    _with_notes,
    _with_dead_ends,
    _with_reasons,
    _with_observed,
    _with_scripts,
    _with_regions,
    _with_best_files,
)
