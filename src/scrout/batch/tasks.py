"""Reads task files: JSON, JSON lines, either of them gzipped, Parquet, or a folder of issues.

An unusable row is recorded as a Problem with its line and id. A source without any readable row raises a TaskError.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from scrout.base import TaskError
from scrout.batch.repositories import Repositories
from scrout.batch.task_formats import TaskRow, read_row, row_name
from scrout.files import follows_foreign_link
from scrout.sandbox.workspace import find_source
from scrout.task import MAX_ISSUE_BYTES, issue_text

__all__ = ["Repositories", "TaskFile", "TaskRow", "UnusableRow", "read_tasks"]

MAX_FILE_BYTES = 2_000_000_000
"""Unpacked size. Larger than any published task set; a gzipped file can claim any size."""
ISSUES = (".md", ".txt")
"""Suffixes of issues in a folder."""


@dataclass(frozen=True)
class UnusableRow:
    source: str
    id: str
    """Empty: the id could not be read."""
    words: str


@dataclass(frozen=True)
class TaskFile:
    rows: tuple[TaskRow, ...]
    problems: tuple[UnusableRow, ...]
    digest: str
    """Digest of ids, texts, repositories and commits, not of gold."""


def read_tasks(source: Path, repo: Path | None = None) -> TaskFile:
    """All tasks of a file, or of a folder of issues about `repo`; raises a TaskError if there are none."""
    rows: dict[str, TaskRow] = {}
    problems: list[UnusableRow] = []
    for found in _folder(source, repo) if source.is_dir() else _file(source):
        if isinstance(found, UnusableRow):
            problems.append(found)
        elif found.id in rows:
            words = f"the id was seen before, in {rows[found.id].source}. The first one counts; give this one another."
            problems.append(UnusableRow(found.source, found.id, words))
        else:
            rows[found.id] = found
    if not rows and not problems:
        raise TaskError(f"{source} holds no tasks. Pass a task file, or a folder with *.md or *.txt issues.")
    return TaskFile(tuple(rows.values()), tuple(problems), _digest(rows.values()))


def _digest(rows: Iterable[TaskRow]) -> str:
    told = [[row.id, row.text, row.repo, row.base_commit] for row in rows]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def _folder(folder: Path, repo: Path | None) -> Iterator[TaskRow | UnusableRow]:
    """Each file is one issue about the repository."""
    if repo is None:
        raise TaskError(f"{folder} is a folder of issues. Name the repository that they are about with --repo.")
    try:
        files = sorted(file for file in folder.iterdir() if file.suffix in ISSUES and file.is_file())
    except OSError as error:
        raise TaskError(f"{folder}: {error.strerror}. Check the path and its permissions.") from None
    # The commit itself: with just HEAD, an interrupted batch could continue with another commit.
    head = find_source(repo).head
    for file in files:
        source, row_id = _shown(file), file.stem.encode(errors="replace").decode()
        try:
            if file.is_symlink() or follows_foreign_link(file):
                # The folder may come with a repository, and the symlink may point to any file of the user.
                raise TaskError(
                    "it is a symlink or is reached through one, and scrout does not follow symlinks. Put the file "
                    "itself there."
                )
            with file.open("rb") as opened:
                text = issue_text(opened.read(MAX_ISSUE_BYTES + 1), source)
            yield TaskRow(row_id, text, str(repo.resolve()), head, source=source)
        except TaskError as error:
            yield UnusableRow(source, row_id, str(error))
        except OSError as error:
            yield UnusableRow(source, row_id, f"it cannot be read: {error.strerror}.")


def _file(path: Path) -> Iterator[TaskRow | UnusableRow]:
    name = path.name.removesuffix(".gz")
    if name.endswith(".parquet"):
        yield from _parquet(path)
        return
    raw, cut = _read(path)
    found = list(_rows(raw, path))
    if b"\0" in raw[:4096] and not any(isinstance(one, TaskRow) for one in found):
        raise TaskError(f"the task file {path} is binary. Pass JSON, JSON lines, or Parquet with its ending .parquet.")
    yield from found
    if cut:
        yield UnusableRow(_shown(path), "", f"the file ends in the middle: {cut}. What came before was read.")


def _rows(raw: bytes, path: Path) -> Iterator[TaskRow | UnusableRow]:
    whole = _whole(raw) if raw.lstrip()[:1] in (b"[", b"{") else None
    if isinstance(whole, list):
        for number, value in enumerate(whole, 1):
            yield _row(value, f"{_shown(path)}[{number}]", path)
    elif isinstance(whole, dict):
        yield from _object(whole, path)
    else:
        yield from _lines(raw, path)


def _object(whole: dict[str, object], path: Path) -> Iterator[TaskRow | UnusableRow]:
    if row_name(whole) or not all(isinstance(value, dict) for value in whole.values()):
        yield _row(whole, f"{_shown(path)}:1", path)
        return
    for name, value in whole.items():
        assert isinstance(value, dict)
        yield _row(value if row_name(value) else {"instance_id": name, **value}, f"{_shown(path)}[{name[:80]}]", path)


def _lines(raw: bytes, path: Path) -> Iterator[TaskRow | UnusableRow]:
    for number, line in enumerate(raw.split(b"\n"), 1):
        if not line.strip():
            continue
        source = f"{_shown(path)}:{number}"
        try:
            value = json.loads(line.decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            yield UnusableRow(source, "", f"the line is not UTF-8 (byte {error.start}).")
        except json.JSONDecodeError as error:
            yield UnusableRow(
                source, "", f"the line is not JSON ({error.msg}, column {error.colno}). It may be cut off."
            )
        except (ValueError, RecursionError):
            yield UnusableRow(
                source, "", "the line cannot be read as JSON: a number is too long, or it is nested too deeply."
            )
        else:
            yield _row(value, source, path)


def _row(value: object, source: str, path: Path) -> TaskRow | UnusableRow:
    if not isinstance(value, dict):
        return UnusableRow(
            source, "", "it is not a JSON object. Each task is an object with an id, a repo and a base_commit."
        )
    try:
        row = read_row(value, source)
    except TaskError as error:
        return UnusableRow(source, row_name(value)[:200], str(error))
    beside = path.resolve().parent / row.repo
    # A path is relative to the file that contains it, not to the current folder.
    here = row.repo.startswith(("./", "../")) or (not Path(row.repo).is_absolute() and _is_folder(beside))
    return TaskRow(row.id, row.text, str(beside.resolve()), row.base_commit, row.gold, source) if here else row


def _whole(raw: bytes) -> object:
    """The file as one JSON document; None: it is not one."""
    try:
        return json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None


def _read(path: Path) -> tuple[bytes, str]:
    """The file's bytes, and a problem with its end."""
    try:
        with path.open("rb") as opened:
            zipped = opened.read(2) == b"\x1f\x8b"
            opened.seek(0)
            raw, cut = _unzip(path) if zipped else (opened.read(MAX_FILE_BYTES + 1), "")
    except OSError as error:
        raise TaskError(f"the task file {path}: {error.strerror or error}. Check the path.") from None
    if len(raw) > MAX_FILE_BYTES:
        raise TaskError(f"the task file {path} has more than {MAX_FILE_BYTES:,} bytes. Split it.")
    return raw, cut


def _unzip(path: Path) -> tuple[bytes, str]:
    parts: list[bytes] = []
    size = 0
    with gzip.open(path) as opened:
        while size <= MAX_FILE_BYTES:
            try:
                part = opened.read(1 << 20)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                return b"".join(parts), str(error) or "it is cut off"
            if not part:
                break
            parts.append(part)
            size += len(part)
    return b"".join(parts), ""


def _parquet(path: Path) -> Iterator[TaskRow | UnusableRow]:
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise TaskError(f"{path} is Parquet, which needs pyarrow. Install it: pip install 'scrout[parquet]'") from None
    try:
        values = parquet.read_table(path).to_pylist()
    except (OSError, arrow.ArrowException) as error:
        raise TaskError(f"the task file {path} cannot be read as Parquet: {str(error)[:200]}. Check it.") from None
    for number, value in enumerate(values, 1):
        yield _row(value, f"{_shown(path)}[{number}]", path)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def _shown(path: Path) -> str:
    return path.name.encode(errors="replace").decode()
