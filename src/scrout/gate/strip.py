"""Takes a claim out of a handoff: the block, its files, and every sentence that asserts it or mentions its files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from scrout.handoff import FileRef, Handoff, Reproduction

_RUN = (
    r"(?:script|command|snippet|one-liner|test case|(?:failing|temporary|new|created|custom|generated) test"
    r"|pytest|unittest|run|running|ran|execut(?:ed|ing|ion)|invocation)s?"
)
_OUTCOME = r"(?:fail(?:s|ed|ing|ure)?|raise[sd]?|error(?:s|ed)?|exit(?:s|ed)?|crash(?:es|ed)?|throws?)"
_ASSERTS = re.compile(
    rf"\brepro(?:s|duc\w*)?\b|\b{_RUN}\b.{{0,120}}\b{_OUTCOME}\b|\b{_OUTCOME}\b.{{0,120}}\b{_RUN}\b"
    # In lower case or at the start: elsewhere `Confirm` is a name of the code.
    rf"|(?:(?-i:\b(?:confirm|verif))|^\W*(?:confirm|verif))\w*\b[^;]{{0,60}}\b(?:bug|issue|failure)\b",
    re.IGNORECASE | re.DOTALL,
)
_ENDED = re.compile(rf"\b{_OUTCOME}\b", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?])(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\betc\.)(?<!\bcf\.)(?<!\bvs\.)\s+|\n+")
_SCRIPT = re.compile(r"(?<![\w./-])[\w./-]+\.(?:py|sh|js|ts|rb|go|rs|php)\b")


def strip(handoff: Handoff, known: Callable[[str], bool] = lambda path: False) -> Handoff:
    """The handoff without its reproduction and without anything that says there is one.

    What is `known` is the repository's, though the claim runs it: a sentence about it goes if it says how that ended.
    """
    reproduction = handoff.reproduction or Reproduction()
    implicated = {ref.path for ref in handoff.files}
    used = {*_SCRIPT.findall(reproduction.command or ""), *reproduction.files}
    own = {path for path in used if not known(path) and (path in reproduction.files or path not in implicated)}
    about = _About(_file_names(own), _file_names(used))
    return handoff.model_copy(
        update={
            "reproduction": None,
            "files": tuple(_without_why(ref, about) for ref in handoff.files if ref.path not in own),
            "notes": without(handoff.notes, about),
            "dead_ends": tuple(end for end in handoff.dead_ends if not about(end)),
        }
    )


@dataclass(frozen=True)
class _About:
    """Tells sentences about the claim from others."""

    own: frozenset[str]
    """Names of files that exist only for the claim."""
    used: frozenset[str]
    """Names of all files that it runs."""

    def __call__(self, text: str) -> bool:
        if _ASSERTS.search(text) or _names_one(text, self.own):
            return True
        return _names_one(text, self.used) and _ENDED.search(text) is not None


def _file_names(paths: Iterable[str]) -> frozenset[str]:
    return frozenset(PurePosixPath(path).name for path in paths)


def _names_one(text: str, names: frozenset[str]) -> bool:
    return any(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) for name in names)


def _without_why(ref: FileRef, about: _About) -> FileRef:
    kept = [clause for clause in ref.why.split("; ") if not about(clause)]
    return ref.model_copy(update={"why": "; ".join(kept)})


def without(notes: str, about: Callable[[str], bool]) -> str:
    """Notes less the sentences about something. The space behind them goes too: what stays reads as it was written."""
    kept = []
    position = 0
    for gap in [*_SENTENCE.finditer(notes), None]:
        sentence = notes[position : gap.start() if gap else len(notes)]
        behind = gap[0] if gap else ""
        position = gap.end() if gap else position
        if not about(sentence):
            kept.append(sentence + behind)
        elif "\n" in behind and kept and not kept[-1].endswith("\n"):
            kept.append("\n")
    return re.sub(r"\n{3,}", "\n\n", "".join(kept)).strip()
