"""Reads fixers' outcomes on tasks: CSV or JSONL, with the tasks' texts inline or in another file."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from scrout.base import FrozenModel, RouteError
from scrout.money import CENT_FRACTION, Usd

Arm = Literal["solo", "handoff"]

MAX_BYTES = 200_000_000
"""Maximum size of a file, unpacked: all public benchmarks' texts take less. A larger file is a device or a log."""
MAX_USD = Decimal(99_999)
"""Maximum cost of one attempt; up to here, an amount survives JSON exactly."""
MAX_CALLS = 1_000_000

_TRUE, _FALSE = ("1", "true", "yes"), ("0", "false", "no")
_TEXT_FIELDS = ("text", "problem_statement")


class Outcome(FrozenModel):
    """One finished attempt of one fixer. Infrastructure failures are not outcomes."""

    instance_id: str = Field(min_length=1)
    task: str = Field(min_length=1)
    """Digest of the task's text; vectors of known tasks are stored by it."""
    resolved: bool
    cost_usd: Usd | None = Field(default=None, ge=0)
    api_calls: int | None = Field(default=None, ge=0)
    arm: Arm = "solo"
    """`handoff`: the fixer had a scout's handoff; `solo`: only the task's text."""

    @property
    def repository(self) -> str:
        return repository_of(self.instance_id)


@dataclass(frozen=True)
class OutcomeWithText:
    """An outcome with the text of its task, as scout and fixer read it."""

    outcome: Outcome
    text: str


def repository_of(instance_id: str) -> str:
    """The common prefix of one repository's task ids, as in SWE-bench."""
    return instance_id.rpartition("-")[0] or instance_id


def digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:32]


def join_texts(
    instance_id: str,
    text: str,
    resolved: bool,
    cost_usd: Decimal | None = None,
    arm: Arm = "solo",
    api_calls: int | None = None,
) -> OutcomeWithText:
    outcome = Outcome(
        instance_id=instance_id, task=digest(text), resolved=resolved, cost_usd=cost_usd, api_calls=api_calls, arm=arm
    )
    return OutcomeWithText(outcome, text)


def read_outcomes(path: Path, texts: Mapping[str, str]) -> list[OutcomeWithText]:
    """Read the outcomes in a .csv or .jsonl file; `texts` has the tasks by instance_id for rows without a text."""
    found = []
    for number, row in read_rows(path):
        where = f"{path}, row {number}"
        instance_id = _id(row)
        if not instance_id:
            raise RouteError(f"{where}: no instance_id. Each row needs instance_id and resolved.")
        text = _text(row) or texts.get(instance_id, "")
        if not text.strip():
            raise RouteError(
                f"{where}: the task {instance_id} is not known. Give its text with --tasks FILE, or in a column `text`."
            )
        found.append(
            join_texts(
                instance_id,
                text,
                _flag(row.get("resolved"), where),
                _amount(row.get("cost_usd"), where),
                _arm(row.get("arm"), where),
                _count(row.get("api_calls"), where),
            )
        )
    return found


def read_texts(path: Path) -> dict[str, str]:
    """Task texts by instance_id, from rows in SWE-bench's format; requirements and interface are appended."""
    texts: dict[str, str] = {}
    for number, row in read_rows(path):
        instance_id, text = _id(row), _text(row)
        if not instance_id or not text.strip():
            raise RouteError(f"{path}, row {number}: a task needs instance_id and problem_statement (or text).")
        if texts.setdefault(instance_id, text) != text:
            raise RouteError(f"{path}, row {number}: a second text of the task {instance_id}. Keep one for each task.")
    return texts


def read_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    plain = _read(path)
    kinds = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    return _csv_rows(path, plain) if kinds[-1:] == [".csv"] else _json_rows(path, plain)


def _read(path: Path) -> str:
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
            # A device never ends, so read only one byte too many.
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise RouteError(f"{path} has more than {MAX_BYTES:,} bytes. Name a .csv or .jsonl file.")
        return data.decode("utf-8-sig")
    except OSError as error:
        raise RouteError(f"{path}: {error.strerror or error}. Name a .csv or .jsonl file.") from None
    except (UnicodeDecodeError, EOFError, zlib.error) as error:
        raise RouteError(f"{path} cannot be read: {error}. Name a .csv or .jsonl file in UTF-8.") from None


def _csv_rows(path: Path, plain: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    reader = csv.DictReader(io.StringIO(plain, newline=""))
    number = 0
    try:
        reader.fieldnames = [name.strip() for name in reader.fieldnames or ()]
        for number, row in enumerate(reader, 1):
            if None in row:
                raise RouteError(
                    f"{path}, row {number}: more fields than the header has. Quote texts that contain commas."
                )
            yield number, row
    except csv.Error as error:
        raise RouteError(f"{path}, row {number + 1} is not CSV: {error}. Long texts are safer in JSONL.") from None


def _json_rows(path: Path, plain: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    # Not splitlines(), which also splits at characters that JSON allows within a string.
    for number, line in enumerate(plain.split("\n"), 1):
        if line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise RouteError(f"{path}, row {number} is not JSON: {error}. Write one object per line.") from None
            if not isinstance(row, dict):
                raise RouteError(f"{path}, row {number} is not an object. Write one object per line.")
            yield number, row


def _id(row: Mapping[str, Any]) -> str:
    value = row.get("instance_id")
    return "" if value is None else _unicode(str(value)).strip()


def _unicode(text: str) -> str:
    """JSON can encode lone surrogates, which no file and no embedder accepts."""
    return text.encode(errors="replace").decode()


def _text(row: Mapping[str, Any]) -> str:
    text = next((str(row[field]) for field in _TEXT_FIELDS if row.get(field)), "")
    for heading, field in (("Requirements:", "requirements"), ("New interfaces introduced:", "interface")):
        if text and row.get(field):
            text += f"\n\n{heading}\n{row[field]}"
    return _unicode(text)


def _flag(value: object, where: str) -> bool:
    plain = str(value).strip().lower()
    if plain not in (*_TRUE, *_FALSE):
        raise RouteError(f"{where}: resolved is {value!r}. Write true or false, or leave out attempts that never ran.")
    return plain in _TRUE


def _amount(value: object, where: str) -> Decimal | None:
    amount = _number(value, MAX_USD)
    if amount is not None and amount.is_nan():
        raise RouteError(f"{where}: cost_usd is {value!r}. Write dollars such as 0.42, or leave it empty if unknown.")
    return amount if amount is None else abs(amount).quantize(CENT_FRACTION)


def _count(value: object, where: str) -> int | None:
    # Tables with gaps often contain 37.0 for 37.
    count = _number(value, Decimal(MAX_CALLS))
    if count is not None and (count.is_nan() or count != count.to_integral_value()):
        raise RouteError(f"{where}: api_calls is {value!r}. Write a whole number, or leave it empty if unknown.")
    return None if count is None else int(count)


def _number(value: object, most: Decimal) -> Decimal | None:
    """None: empty. NaN: not a number from 0 to `most`."""
    text = "" if value is None else str(value).strip()
    try:
        number = Decimal(text) if text else None
    except InvalidOperation:
        number = Decimal("NaN")
    return Decimal("NaN") if number is not None and not (number.is_finite() and 0 <= number <= most) else number


def _arm(value: object, where: str) -> Arm:
    match str(value or "").strip().lower():
        case "solo" | "":
            return "solo"
        case "handoff":
            return "handoff"
    raise RouteError(f"{where}: arm is {value!r}. Write solo or handoff.")
