"""A patch as `git diff --binary --full-index` prints it, read into what it does to each file.

Read, not judged: whether a patch applies is for git to say, what is doubtful about it for flags.py. A diff without
git's own header lines has no changes here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from scrout.files import read_beneath
from scrout.sandbox.workspace import Base, Workspace

MOST_READ_BYTES = 400_000
"""A hand-written file is smaller; of a larger one only the lines of the patch are looked at."""

MOST_TEXT_BYTES = 2_000_000
"""Of all files together; those after it are not read."""

SYMLINK = "120000"
SUBMODULE = "160000"

Kind = Literal["added", "deleted", "renamed", "changed", "mode"]

# No line of a hunk can look like one: text has a sign in front, and what is binary has no spaces.
_SECTION = re.compile(r"^diff --git ", re.MULTILINE)
_BODY = re.compile(r"^(?=@@ |GIT binary patch$|Binary files )", re.MULTILINE)
_SIZE = re.compile(r"^(?:literal|delta) ([0-9]{1,12})$", re.MULTILINE)
_ESCAPE = re.compile(rb'\\([abfnrtv"\\]|[0-3][0-7]{2})')
_LETTERS = dict(zip(b'abfnrtv"\\', b'\a\b\f\n\r\t\v"\\', strict=True))
_FIELDS = (
    *("old mode ", "new mode ", "deleted file mode ", "new file mode ", "rename from ", "rename to ", "copy to "),
    *("index ", "--- ", "+++ "),
)


@dataclass(frozen=True)
class FileChange:
    """What a patch does to one file. A file that becomes a symlink is two changes: one deleted, one added."""

    old: str | None
    """None: there was no such file."""
    new: str | None
    """None: it is gone."""
    section: str
    """Its part of the patch, to be applied without the others."""
    old_mode: str = ""
    new_mode: str = ""
    """As git writes them; empty: there is none, or the patch does not say."""
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    """Lines without their ends."""
    is_binary: bool = False
    added_bytes: int = 0
    """Of a binary file: what git stores, all of it or the difference, before compression."""
    before: str | None = None
    after: str | None = None
    """The file's text; None: not read, no regular file, or more than MOST_READ_BYTES."""

    @property
    def path(self) -> str:
        """The newer of its names."""
        return self.new or self.old or ""

    @property
    def kind(self) -> Kind:
        if self.old is None:
            return "added"
        if self.new is None:
            return "deleted"
        if self.old != self.new:
            return "renamed"
        return "changed" if self.is_binary or self.added or self.removed else "mode"

    @property
    def is_symlink(self) -> bool:
        """Whether there is a symlink afterwards."""
        return self.new_mode == SYMLINK

    @property
    def target(self) -> str:
        """Where the symlink leads."""
        return "\n".join(self.added) if self.is_symlink else ""


def read_patch(patch: str) -> tuple[FileChange, ...]:
    """The changes of a patch, in its order."""
    starts = [match.start() for match in _SECTION.finditer(patch)]
    return tuple(_read(patch[start:end]) for start, end in pairwise([*starts, len(patch)]))


def with_texts(changes: Sequence[FileChange], base: Base, patched: Workspace) -> tuple[FileChange, ...]:
    """The changes, with each text file as it is at the base and where the patch was applied."""
    read: list[FileChange] = []
    left = MOST_TEXT_BYTES
    for change in changes:
        if left > 0 and not change.is_binary:
            before = read_beneath(base.tree, change.old, MOST_READ_BYTES) if change.old else None
            after = patched.read(change.new) if change.new else None
            left -= len(before or b"") + len(after or b"")
            change = replace(change, before=_text(before), after=_text(after))
        read.append(change)
    return tuple(read)


def _text(content: bytes | None) -> str | None:
    if content is None or len(content) > MOST_READ_BYTES:
        return None
    return content.decode("utf-8", errors="replace")


def _read(section: str) -> FileChange:
    body = _BODY.search(section)
    head = section[: body.start()] if body else section
    rest = section[body.start() :] if body else ""
    title, *lines = head.split("\n")
    fields = {name: line.removeprefix(name) for line in lines for name in _FIELDS if line.startswith(name)}
    old, new = _names(title, fields)
    is_binary = rest.startswith(("GIT ", "Binary "))
    added = () if is_binary else _lines(rest, "+")
    size = _SIZE.search(rest) if is_binary else None
    same_mode = fields.get("index ", "").partition(" ")[2]
    return FileChange(
        old=old,
        new=new,
        section=section,
        old_mode=fields.get("old mode ") or fields.get("deleted file mode ") or (same_mode if old else ""),
        new_mode=fields.get("new mode ") or fields.get("new file mode ") or (same_mode if new else ""),
        added=added,
        removed=() if is_binary else _lines(rest, "-"),
        is_binary=is_binary,
        added_bytes=int(size[1]) if size else sum(len(line.encode()) + 1 for line in added),
    )


def _lines(hunks: str, sign: str) -> tuple[str, ...]:
    # Not splitlines, which also breaks at characters that a line may hold.
    return tuple(line[1:] for line in hunks.split("\n") if line.startswith(sign))


def _names(title: str, fields: dict[str, str]) -> tuple[str | None, str | None]:
    """Names are told best where there is one a line; the title alone is left where no line and no name changed."""
    both = _name_of_both(title.removeprefix("diff --git "))
    old = _unquoted(fields.get("rename from ")) or _unprefixed(fields.get("--- ")) or both
    new = _unquoted(fields.get("rename to ") or fields.get("copy to ")) or _unprefixed(fields.get("+++ ")) or both
    # Of a copy nothing but the new file differs from what was there.
    is_new = "new file mode " in fields or "copy to " in fields
    return (None if is_new else old), (None if "deleted file mode " in fields else new)


def _name_of_both(names: str) -> str:
    """The one name in `a/name b/name`, which may itself hold spaces."""
    if names.startswith('"'):
        return _unquoted(names[: (len(names) - 1) // 2])[2:]
    return names[2 : (len(names) - 1) // 2]


def _unprefixed(name: str | None) -> str:
    """Without a/ or b/, and without the tab that git puts behind a name with a space."""
    if name is None or name == "/dev/null":
        return ""
    return _unquoted(name.removesuffix("\t"))[2:]


def _unquoted(name: str | None) -> str:
    """A name as the file system has it: git puts quotes around one with unusual bytes."""
    if name is None or not (name.startswith('"') and name.endswith('"')):
        return name or ""
    plain = _ESCAPE.sub(_unescaped, name[1:-1].encode())
    return plain.decode("utf-8", errors="surrogateescape")


def _unescaped(match: re.Match[bytes]) -> bytes:
    told = match[1]
    return bytes((_LETTERS[told[0]] if len(told) == 1 else int(told, 8),))
