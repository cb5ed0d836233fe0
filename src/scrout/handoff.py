"""The handoff: what a scout tells a fixer, as a record and in the wire form that models read and write."""

from __future__ import annotations

from typing import Literal

from scrout.money import Record

MAX_BYTES = 4096

Kind = Literal["spontaneous", "forced"]


class FileRef(Record):
    """A file the change is likely to touch."""

    path: str
    """Relative to the repository's root, with forward slashes."""
    regions: tuple[tuple[int, int], ...] = ()
    """First and last line, both counted from 1 and included; empty: the whole file."""
    confidence: float | None = None
    """Probability that the fix changes this file; None: the scout gave none."""
    why: str = ""


class Reproduction(Record):
    """How to see the bug: files to write, a command to run from the repository's root, and what was seen."""

    files: dict[str, str] = {}
    command: str | None = None
    claim: bool = False
    """True: the scout says that the command fails because of the bug."""
    observed: str = ""


class Handoff(Record):
    """One page for the fixer, files best first."""

    kind: Kind = "spontaneous"
    files: tuple[FileRef, ...] = ()
    reproduction: Reproduction | None = None
    dead_ends: tuple[str, ...] = ()
    notes: str = ""
