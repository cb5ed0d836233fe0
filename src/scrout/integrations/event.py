"""Reads a forge's payload for an added label into one record.

The issue's title and body are those of that moment. They are untrusted: data for the scout, and never part of a
command, a path or a message.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasPath, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from scrout.base import ScroutError, first_problem

MAX_PAYLOAD_BYTES = 30_000_000
"""GitHub sends at most 25 MB."""
MAX_BODY_CHARS = 1_100_000
"""GitLab stores descriptions of up to a million characters."""

Kind = Literal["github", "gitlab"]
Login = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}(\[bot\])?$")]
Branch = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+/-]{0,199}$")]
Repository = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)+$", max_length=400)]
Number = Annotated[int, Field(gt=0, lt=2**53)]


class EventError(ScroutError):
    """A payload that does not match the forge's documentation."""


@dataclass(frozen=True)
class Person:
    login: str
    id: int
    is_bot: bool = False


@dataclass(frozen=True)
class Event:
    """Labels were added to an issue."""

    kind: Kind
    repository: str
    default_branch: str
    number: int
    """The issue's number, as written after #."""
    title: str
    body: str
    is_open: bool
    is_pull: bool
    is_confidential: bool
    added: tuple[str, ...]
    """The labels that this event added; empty: it is about something else."""
    sender: Person
    at: datetime
    edited_by: int | None = None
    edited_at: datetime | None = None
    """The last edit of the text, if the payload has it; GitLab's does."""

    @property
    def text(self) -> str:
        return f"{self.title}\n\n{self.body}".strip()

    @property
    def digest(self) -> str:
        return digest(self.title, self.body)


def digest(title: str, body: str) -> str:
    """Equal for equal issues; line endings do not count, because forges change them."""
    return hashlib.sha256(f"{_lines(title)}\0{_lines(body)}".encode(errors="surrogatepass")).hexdigest()


def read_payload(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_PAYLOAD_BYTES + 1)
    except OSError as error:
        raise EventError(f"the event {path}: {error.strerror}. Pass the payload's file with --event.") from None
    if len(raw) > MAX_PAYLOAD_BYTES:
        raise EventError(f"the event {path} has more than {MAX_PAYLOAD_BYTES:,} bytes, which no forge sends.")
    return raw


def read_event(kind: Kind, payload: bytes) -> Event:
    try:
        if kind == "github":
            return _GitHub.model_validate_json(payload).event()
        return _GitLab.model_validate_json(payload).event()
    except ValidationError as error:
        raise EventError(
            f"the payload is not an issue event ({first_problem(error)}). Start this from {_STARTS[kind]}."
        ) from None


_STARTS = {
    "github": "a workflow with `on: issues: types: [labeled]`",
    "gitlab": "a pipeline that a webhook for issue events has triggered",
}


def at(*path: str, default: Any = ...) -> Any:
    """A nested field of a document."""
    return Field(default=default, validation_alias=AliasPath(*path))


class _Payload(BaseModel):
    """Payloads have many more fields, and get new ones every year."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


_Title = Annotated[str, StringConstraints(max_length=2000)]
_Body = Annotated[str, StringConstraints(max_length=MAX_BODY_CHARS)]
_Label = Annotated[str, StringConstraints(min_length=1, max_length=255)]


class _GitHub(_Payload):
    """`issues`, with the action `labeled`."""

    action: Literal["labeled"]
    number: Number = at("issue", "number")
    title: _Title = at("issue", "title")
    body: _Body | None = at("issue", "body")
    state: Literal["open", "closed"] = at("issue", "state")
    updated_at: Annotated[datetime, Field(strict=False)] = at("issue", "updated_at")
    pull_request: dict[str, object] | None = at("issue", "pull_request", default=None)
    label: _Label = at("label", "name")
    sender_login: Login = at("sender", "login")
    sender_id: Number = at("sender", "id")
    sender_type: str = at("sender", "type")
    repository: Repository = at("repository", "full_name")
    default_branch: Branch = at("repository", "default_branch")

    def event(self) -> Event:
        is_bot = self.sender_type != "User" or self.sender_login.endswith("[bot]")
        return Event(
            kind="github",
            repository=self.repository,
            default_branch=self.default_branch,
            number=self.number,
            title=self.title,
            body=self.body or "",
            is_open=self.state == "open",
            is_pull=self.pull_request is not None,
            is_confidential=False,
            added=(self.label,),
            sender=Person(self.sender_login, self.sender_id, is_bot),
            at=_utc(self.updated_at),
        )


class _GitLabLabel(_Payload):
    title: _Label


class _LabelsChanged(_Payload):
    previous: tuple[_GitLabLabel, ...] = Field(default=(), strict=False)
    current: tuple[_GitLabLabel, ...] = Field(default=(), strict=False)


class _GitLab(_Payload):
    object_kind: Literal["issue"]
    user_id: Number = at("user", "id")
    username: Login = at("user", "username")
    repository: Repository = at("project", "path_with_namespace")
    default_branch: Branch = at("project", "default_branch")
    number: Number = at("object_attributes", "iid")
    title: _Title = at("object_attributes", "title")
    body: _Body | None = at("object_attributes", "description", default=None)
    state: Literal["opened", "closed"] = at("object_attributes", "state")
    updated_at: str = at("object_attributes", "updated_at")
    confidential: bool = at("object_attributes", "confidential", default=False)
    last_edited_at: str | None = at("object_attributes", "last_edited_at", default=None)
    last_edited_by_id: int | None = at("object_attributes", "last_edited_by_id", default=None)
    labels: _LabelsChanged = at("changes", "labels", default=_LabelsChanged())

    def event(self) -> Event:
        before = {label.title for label in self.labels.previous}
        added = (label.title for label in self.labels.current if label.title not in before)
        return Event(
            kind="gitlab",
            repository=self.repository,
            default_branch=self.default_branch,
            number=self.number,
            title=self.title,
            body=self.body or "",
            is_open=self.state == "opened",
            is_pull=False,
            is_confidential=self.confidential,
            added=tuple(dict.fromkeys(added)),
            sender=Person(self.username, self.user_id),
            at=_gitlab_time(self.updated_at, "updated_at"),
            edited_by=self.last_edited_by_id,
            edited_at=_gitlab_time(self.last_edited_at, "last_edited_at") if self.last_edited_at else None,
        )


def _gitlab_time(text: str, field: str) -> datetime:
    """GitLab writes `2026-11-17 02:03:04 UTC` in payloads, and ISO 8601 elsewhere."""
    try:
        return _utc(datetime.fromisoformat(text.strip().replace(" UTC", "+00:00")))
    except ValueError:
        raise EventError(f"the payload's {field} is not a time. Start this from {_STARTS['gitlab']}.") from None


def _utc(at: datetime) -> datetime:
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").strip()
