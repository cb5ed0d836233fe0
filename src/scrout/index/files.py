"""The files of one commit, read from git objects alone: follows no symlink and does not read the work tree."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from scrout.base import TaskError
from scrout.git import GitDir

MAX_FILE_BYTES = 1_000_000
"""Larger files are data, not written by hand."""

Role = Literal["source", "test", "docs", "example", "config", "data", "changelog"]

_REGULAR = ("100644", "100755")
FOREIGN = re.compile(
    r"(^|/)(node_modules|bower_components|_?vendor|vendored|third[_-]party|site-packages|dist|__pycache__)/"
    r"|(^|/)(package-lock\.json|npm-shrinkwrap\.json|pnpm-lock\.yaml|go\.sum|(yarn|poetry|uv|pdm|flake)\.lock)$"
    r"|(^|/)(pipfile|cargo|gemfile|composer)\.lock$"
    r"|(\.min\.(js|css)|\.map|_pb2(_grpc)?\.pyi?|\.pb\.(go|cc|h)|[._]generated\.\w+)$",
    re.IGNORECASE,
)
"""Paths of files that other projects or programs wrote."""
# The first role whose pattern matches the path, otherwise the one of its suffix.
_ROLES: tuple[tuple[Role, re.Pattern[str]], ...] = (
    ("test", re.compile(r"(^|/)(tests?|__tests__|specs?|e2e|testdata|fixtures)/", re.IGNORECASE)),
    ("test", re.compile(r"(^|/)(test_[^/]*|conftest\.py|[^/]*[._](test|spec)\.\w+|[^/]*Tests?\.(java|kt|cs|php))$")),
    (
        "changelog",
        re.compile(r"(^|/)(changelog|changes|history|news|releases?)[\w-]*(\.(md|rst|txt))?$", re.IGNORECASE),
    ),
    ("docs", re.compile(r"(^|/)docs?/", re.IGNORECASE)),
    ("example", re.compile(r"(^|/)(examples?|samples?|demos?|tutorials?|bench|benchmarks?)/", re.IGNORECASE)),
)
_SUFFIX_ROLES: dict[str, Role] = {
    **dict.fromkeys((".md", ".rst", ".txt", ".adoc", ".tex"), "docs"),
    **dict.fromkeys((".toml", ".yaml", ".yml", ".ini", ".cfg"), "config"),
    **dict.fromkeys((".json", ".csv", ".tsv", ".svg", ".po", ".pot", ".xml", ".ipynb"), "data"),
}


@dataclass(frozen=True)
class FileEntry:
    """A file that is worth reading, judging by its name and size."""

    path: str
    blob: str
    role: Role


@dataclass(frozen=True)
class Listing:
    """The files of a commit."""

    entries: tuple[FileEntry, ...]
    taken: frozenset[str]
    """Every name at the repository's root, including files that are left out."""


def list_files(git_dir: Path, commit: str, subtree: str = "") -> Listing:
    """The files of a commit, without symlinks, submodules, and vendored, generated, locked and very large files."""
    listed = GitDir(git_dir)("ls-tree", "-r", "-z", "-l", "--full-tree", commit)
    below = f"{subtree.strip('/')}/" if subtree.strip("/") else ""
    entries = []
    taken = set()
    for line in listed.split(b"\0")[:-1]:
        about, _, raw_path = line.partition(b"\t")
        mode, _, blob, size = about.decode("ascii").split()
        path = raw_path.decode("utf-8", errors="surrogateescape")
        taken.add(path.partition("/")[0])
        if not path.startswith(below):
            continue
        # The size of an object that a partial clone lacks is not a number.
        readable = mode in _REGULAR and size.isdigit() and int(size) <= MAX_FILE_BYTES
        # A handoff has one path per line, so a path that cannot be printed cannot be part of one.
        if readable and path.isprintable() and not FOREIGN.search(path):
            entries.append(FileEntry(path, blob, role(path)))
    return Listing(tuple(entries), frozenset(taken))


def read_blobs(git_dir: Path, blobs: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """The contents of blobs in the requested order, without missing ones."""
    with GitDir(git_dir).start("cat-file", "--batch") as process:
        assert process.stdin is not None and process.stdout is not None
        # One request, one answer: neither side's pipe can fill up.
        for blob in blobs:
            with contextlib.suppress(BrokenPipeError):
                os.write(process.stdin.fileno(), f"{blob}\n".encode())
            header = process.stdout.readline().split()
            if header[1:] == [b"missing"]:
                continue
            size = int(header[2]) if header else 0
            data = process.stdout.read(size + 1)
            if len(data) <= size:  # git stops in the middle of a damaged object
                raise TaskError(f"git cannot read object {blob} in {git_dir}. Look for damage with `git fsck`.")
            yield blob, data[:-1]


def role(path: str) -> Role:
    """The role of a file, judging by its path."""
    by_pattern = next((role for role, pattern in _ROLES if pattern.search(path)), None)
    return by_pattern or _SUFFIX_ROLES.get(PurePosixPath(path).suffix.lower(), "source")
