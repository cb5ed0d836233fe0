"""The formats of a task file's rows: scrout's own, SWE-bench's, SWE-bench Pro's, and recon's task sets.

Rows are untrusted: a missing or wrong field raises a TaskError that names it, never another exception.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from scrout.base import TaskError, first_problem
from scrout.task import Gold, issue_text

Fields = Mapping[str, object]
"""A JSON object with unchecked values."""

MOST_ID_CHARACTERS = 200
_COMMIT = re.compile(r"[0-9a-fA-F]{7,64}")
_PATCHED = re.compile(r"^diff --git a/(.+) b/(.+)$", re.MULTILINE)
_OWN_FIELDS = frozenset(("id", "text", "repo", "base_commit", "gold"))


@dataclass(frozen=True)
class TaskRow:
    """One task of a task file, without a clone yet."""

    id: str
    text: str
    repo: str
    """A path (absolute, or relative to the task file), or owner/name."""
    base_commit: str
    """HEAD: the repository's commit when the task starts."""
    gold: Gold | None = None
    """Data for grading and studies only. None: the file has none."""
    source: str = ""


def read_row(fields: Fields, source: str) -> TaskRow:
    row_id = row_name(fields)
    if not row_id:
        raise TaskError("it has neither an `id` nor an `instance_id`. Each task needs a name of its own.")
    if len(row_id) > MOST_ID_CHARACTERS or not row_id.isprintable():
        raise TaskError(
            f"its id has {len(row_id):,} characters or contains characters that cannot be printed. Give it a short "
            f"name."
        )
    base_commit = _text(fields, "base_commit").strip()
    if not (_COMMIT.fullmatch(base_commit) or base_commit == "HEAD"):
        raise TaskError(f"its base_commit is {base_commit[:80]!r}. Give the commit's hexadecimal id, or HEAD.")
    repo = _text(fields, "repo").strip()
    if not repo or not repo.isprintable():
        raise TaskError(f"its repo is {repo[:80]!r}. Give a path, or owner/name.")
    if "id" in fields:
        unknown = sorted(set(fields) - _OWN_FIELDS)
        if unknown:
            raise TaskError(f"it has a field {unknown[0][:80]!r} that tasks of this form do not have. Remove it.")
        text, gold = _text(fields, "text"), _own_gold(fields.get("gold"))
    else:
        text, gold = _statement(fields), _published_gold(fields)
    if gold is not None:
        _bytes("".join((gold.patch, gold.test_patch, gold.test_command, *gold.fail_to_pass, *gold.pass_to_pass)))
    return TaskRow(row_id, issue_text(_bytes(text), "this row"), repo, base_commit, gold, source)


def row_name(fields: Fields) -> str:
    found = fields["id"] if "id" in fields else fields.get("instance_id")
    return found.strip() if isinstance(found, str) else ""


def _statement(fields: Fields) -> str:
    """The issue; for SWE-bench Pro with its requirements and interface, as its fixers got them."""
    text = _unquoted(_text(fields, "problem_statement"))
    if "requirements" not in fields and "interface" not in fields:
        return text
    requirements, interface = (_unquoted(_text(fields, name, default="")) for name in ("requirements", "interface"))
    return f"{text}\n\nRequirements:\n{requirements}\n\nNew interfaces introduced:\n{interface}"


def _unquoted(text: str) -> str:
    """Decode a field that is itself a JSON string, if encoding it again gives exactly the same text."""
    if not (len(text) > 1 and text[0] == text[-1] == '"'):
        return text
    try:
        decoded = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(decoded, str):
        return text
    again = (json.dumps(decoded), json.dumps(decoded, ensure_ascii=False))
    return decoded if text in again else text


def _own_gold(told: object) -> Gold | None:
    if told is None:
        return None
    try:
        return Gold.model_validate(told)
    except ValidationError as error:
        raise TaskError(f"its gold cannot be used (gold.{first_problem(error)}).") from None


def _published_gold(fields: Fields) -> Gold | None:
    """SWE-bench's fields, or only the files if the patch is missing."""
    patch = _text(fields, "patch", default="")
    files = _names(fields, "gold_files")
    if not patch and not files:
        return None
    return Gold(
        patch=patch,
        test_patch=_text(fields, "test_patch", default=""),
        files=files or tuple(dict.fromkeys(new for _, new in _PATCHED.findall(patch))),
        fail_to_pass=_names(fields, "FAIL_TO_PASS", "fail_to_pass"),
        pass_to_pass=_names(fields, "PASS_TO_PASS", "pass_to_pass"),
        test_command=_text(fields, "test_command", default=""),
    )


def _text(fields: Fields, name: str, default: str | None = None) -> str:
    value = fields.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise TaskError(f"its `{name}` is {_kind(value)}. It must be text.")
    return value


def _names(fields: Fields, *names: str) -> tuple[str, ...]:
    """A list of names, or its JSON."""
    name = next((name for name in names if fields.get(name) is not None), "")
    value = fields.get(name)
    if value is None:
        return ()
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else []
        except (ValueError, RecursionError):
            raise TaskError(f"its `{name}` is text, but not a JSON list. Give a list of tests.") from None
    if not isinstance(value, Sequence) or not all(isinstance(one, str) for one in value):
        raise TaskError(f"its `{name}` is {_kind(value)}. It must be a list of texts.")
    return tuple(value)


def _kind(value: object) -> str:
    kinds = {type(None): "missing", bool: "true or false", int: "a number", float: "a number", dict: "an object"}
    return kinds.get(type(value), "text" if isinstance(value, str) else "a list")


def _bytes(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise TaskError("its text holds half of a character (a lone surrogate). Save it as UTF-8.") from None
