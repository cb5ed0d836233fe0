"""Takes a claim out of a handoff: the block, its files, and every sentence of the notes that asserts it."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from scrout.handoff import Handoff, Reproduction

_ASSERTS = re.compile(
    r"\b(reproduc\w*|repro|fail(s|ed|ing|ure)?\b.{0,60}\b(script|command|snippet)"
    r"|(script|command|snippet)\b.{0,60}\b(fail(s|ed|ing|ure)?|raise[sd]?|exit(s|ed)?))\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\"'(])|\n+")


def strip(handoff: Handoff) -> Handoff:
    """The handoff without its reproduction and without anything that says there is one."""
    names = _names(handoff.reproduction)
    kept = [ref for ref in handoff.files if handoff.reproduction is None or ref.path not in handoff.reproduction.files]
    return handoff.model_copy(
        update={
            "reproduction": None,
            "files": tuple(kept),
            "notes": _without(handoff.notes, names),
            "dead_ends": tuple(end for end in handoff.dead_ends if not _mentions(end, names)),
        }
    )


def _names(reproduction: Reproduction | None) -> tuple[str, ...]:
    """What a sentence about the claim would mention: its files and scripts."""
    if reproduction is None:
        return ()
    scripts = re.findall(r"[\w./-]+\.(?:py|sh|js|ts|rb|go|rs|php)\b", reproduction.command or "")
    return tuple(dict.fromkeys(PurePosixPath(path).name for path in (*reproduction.files, *scripts)))


def _without(notes: str, names: tuple[str, ...]) -> str:
    sentences = (part.strip() for part in _SENTENCE.split(notes))
    return " ".join(part for part in sentences if part and not _ASSERTS.search(part) and not _mentions(part, names))


def _mentions(sentence: str, names: tuple[str, ...]) -> bool:
    return any(name in sentence for name in names)
