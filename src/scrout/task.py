"""A task to fix (Task), and its known answer, which only grading may see (Gold)."""

from __future__ import annotations

import hashlib
from pathlib import Path

from scrout.base import FrozenModel, TaskError

MAX_ISSUE_BYTES = 1_000_000
"""No issue is larger; a larger file is a log or database passed by mistake."""

MAX_TITLE_CHARS = 100


class Task(FrozenModel):
    """One issue of one repository at one commit. The same text goes to scout, router and fixer."""

    id: str
    text: str
    repo: Path
    """Absolute path of the repository's work tree; sandboxed commands see it at the same path."""
    base_commit: str
    """Full object id; a snapshot made by scrout if the uncommitted tree was requested."""
    dirty: bool = False
    """True: base_commit is a snapshot of the work tree, uncommitted changes included."""


class Gold(FrozenModel):
    """The known answer to a task. No stage takes it as an argument."""

    patch: str
    test_patch: str = ""
    """Patch that adds the tests that judge; empty: they are in the repository already."""
    files: tuple[str, ...] = ()
    fail_to_pass: tuple[str, ...] = ()
    """Tests that fail before the fix and pass after it, as their runner names them."""
    pass_to_pass: tuple[str, ...] = ()
    test_command: str = ""
    """Command that runs these tests; empty: detected from the project."""


def issue_text(raw: bytes, source: str) -> str:
    """Decode an issue; raises a TaskError if it is too large, binary, not UTF-8 or empty."""
    if len(raw) > MAX_ISSUE_BYTES:
        raise TaskError(
            f"the issue in {source} has {len(raw):,} bytes; at most {MAX_ISSUE_BYTES:,} are read. "
            "Pass the issue's text without its attachments."
        )
    if b"\0" in raw:
        raise TaskError(f"the issue in {source} is binary. Pass plain text or Markdown.")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TaskError(f"the issue in {source} is not UTF-8 (byte {error.start}). Save it as UTF-8 text.") from None
    if not text.strip():
        raise TaskError(f"the issue in {source} is empty. Describe what is wrong, or pipe it in with --issue -.")
    return text.replace("\r\n", "\n")


def title_of(text: str) -> str:
    """An issue's title: its first line with text, without Markdown's marks."""
    first = next((title for line in text.splitlines() if (title := line.strip(" #\t"))), "")
    return first[:MAX_TITLE_CHARS].encode(errors="replace").decode()


def task_id(repo: Path, base_commit: str, text: str) -> str:
    """A short id, the same for the same issue at the same commit."""
    digest = hashlib.sha256(f"{base_commit}\0{text}".encode()).hexdigest()
    # A folder's name may not be valid UTF-8; an id must be.
    name = repo.name.encode(errors="replace").decode()
    return f"{name}-{digest[:10]}"
