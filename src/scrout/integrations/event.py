"""What a forge sends when a label is added, read into one record.

The issue's title and body are those of this moment. They are a stranger's words: data for the scout, and never part of
a command, a path or a message.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from scrout.base import ScroutError

MAX_PAYLOAD_BYTES = 30_000_000
"""GitHub sends at most 25 MB."""
MAX_BODY_CHARS = 1_100_000
"""GitLab keeps descriptions of up to a million."""

Kind = Literal["github", "gitlab"]
Login = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}(\[bot\])?$")]
Branch = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+/-]{0,199}$")]
Repository = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)+$", max_length=400)]
Number = Annotated[int, Field(gt=0, lt=2**53)]


class EventError(ScroutError):
    """A payload that is not what the forge's documentation says."""


@dataclass(frozen=True)
class Person:
    """An account of the forge."""

    login: str
    id: int
    is_bot: bool = False


@dataclass(frozen=True)
class Event:
    """Labels were added to an issue."""

    kind: Kind
    repository: str
    """Owner and name."""
    default_branch: str
    number: int
    """The issue's, as people write it behind #."""
    title: str
    body: str
    is_open: bool
    is_pull: bool
    is_confidential: bool
    added: tuple[str, ...]
    """The labels that this event has added; empty: it is about something else."""
    sender: Person
    """Who has added them, by what the payload says."""
    at: datetime
    """When they were added."""
    edited_by: int | None = None
    edited_at: datetime | None = None
    """The last edit of the text, where the payload says it; GitLab's does."""

    @property
    def text(self) -> str:
        """The issue as the scout reads it."""
        return f"{self.title}\n\n{self.body}".strip()

    @property
    def digest(self) -> str:
        return digest(self.title, self.body)


def digest(title: str, body: str) -> str:
    """Equal for equal issues; line ends do not count, since forges change them."""
    return hashlib.sha256(f"{_lines(title)}\0{_lines(body)}".encode(errors="surrogatepass")).hexdigest()


def read_payload(path: Path) -> bytes:
    """The file that the forge's runner has left, or an EventError that names it."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_PAYLOAD_BYTES + 1)
    except OSError as error:
        raise EventError(f"the event {path}: {error.strerror}. Pass the payload's file with --event.") from None
    if len(raw) > MAX_PAYLOAD_BYTES:
        raise EventError(f"the event {path} has more than {MAX_PAYLOAD_BYTES:,} bytes, which no forge sends.")
    return raw


def read_event(kind: Kind, payload: bytes) -> Event:
    """The event, or an EventError that names what is missing."""
    try:
        if kind == "github":
            return _GitHub.model_validate_json(payload).event()
        return _GitLab.model_validate_json(payload).event()
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part)[:40] for part in first["loc"][:6]) or "as a whole"
        raise EventError(
            f"the payload is no event of an issue ({where}: {first['msg']}). Start this from {_STARTS[kind]}."
        ) from None


_STARTS = {
    "github": "a workflow with `on: issues: types: [labeled]`",
    "gitlab": "a pipeline that a webhook for issue events has triggered",
}


class _Part(BaseModel):
    """Payloads have many more fields, and new ones every year."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


_Title = Annotated[str, StringConstraints(max_length=2000)]
_Body = Annotated[str, StringConstraints(max_length=MAX_BODY_CHARS)]
_Label = Annotated[str, StringConstraints(min_length=1, max_length=255)]


class _User(_Part):
    login: Login
    id: Number
    type: str

    def person(self) -> Person:
        return Person(self.login, self.id, is_bot=self.type != "User" or self.login.endswith("[bot]"))


class _LabelPart(_Part):
    name: _Label


class _Issue(_Part):
    number: Number
    title: _Title
    body: _Body | None
    state: Literal["open", "closed"]
    updated_at: Annotated[datetime, Field(strict=False)]
    pull_request: dict[str, object] | None = None


class _Repo(_Part):
    full_name: Repository
    default_branch: Branch


class _GitHub(_Part):
    """`issues`, with the action `labeled`."""

    action: Literal["labeled"]
    issue: _Issue
    label: _LabelPart
    sender: _User
    repository: _Repo

    def event(self) -> Event:
        return Event(
            kind="github",
            repository=self.repository.full_name,
            default_branch=self.repository.default_branch,
            number=self.issue.number,
            title=self.issue.title,
            body=self.issue.body or "",
            is_open=self.issue.state == "open",
            is_pull=self.issue.pull_request is not None,
            is_confidential=False,
            added=(self.label.name,),
            sender=self.sender.person(),
            at=_utc(self.issue.updated_at),
        )


class _Member(_Part):
    id: Number
    username: Login


class _Project(_Part):
    path_with_namespace: Repository
    default_branch: Branch


class _GitLabLabel(_Part):
    title: _Label


class _GitLabIssue(_Part):
    iid: Number
    title: _Title
    description: _Body | None = None
    state: Literal["opened", "closed"]
    updated_at: str
    confidential: bool = False
    last_edited_at: str | None = None
    last_edited_by_id: int | None = None


class _LabelsChanged(_Part):
    previous: tuple[_GitLabLabel, ...] = Field(default=(), strict=False)
    current: tuple[_GitLabLabel, ...] = Field(default=(), strict=False)


class _Changes(_Part):
    labels: _LabelsChanged = _LabelsChanged()


class _GitLab(_Part):
    """An issue event."""

    object_kind: Literal["issue"]
    user: _Member
    project: _Project
    object_attributes: _GitLabIssue
    changes: _Changes = _Changes()

    def event(self) -> Event:
        issue = self.object_attributes
        before = {label.title for label in self.changes.labels.previous}
        added = (label.title for label in self.changes.labels.current if label.title not in before)
        return Event(
            kind="gitlab",
            repository=self.project.path_with_namespace,
            default_branch=self.project.default_branch,
            number=issue.iid,
            title=issue.title,
            body=issue.description or "",
            is_open=issue.state == "opened",
            is_pull=False,
            is_confidential=issue.confidential,
            added=tuple(dict.fromkeys(added)),
            sender=Person(self.user.username, self.user.id),
            at=_gitlab_time(issue.updated_at, "updated_at"),
            edited_by=issue.last_edited_by_id,
            edited_at=_gitlab_time(issue.last_edited_at, "last_edited_at") if issue.last_edited_at else None,
        )


def _gitlab_time(text: str, field: str) -> datetime:
    """GitLab writes `2026-11-17 02:03:04 UTC` in payloads, and ISO 8601 elsewhere."""
    try:
        return _utc(datetime.fromisoformat(text.strip().replace(" UTC", "+00:00")))
    except ValueError:
        raise EventError(f"the payload's {field} is no time. Start this from {_STARTS['gitlab']}.") from None


def _utc(at: datetime) -> datetime:
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").strip()
