"""The part of GitLab's REST API that a label needs.

A pipeline's payload comes through a trigger, and anyone with the trigger's token can write one. So scrout asks GitLab
who added the label, and does not trust the payload.
"""

from __future__ import annotations

from datetime import datetime

from scrout.integrations.event import Event, Person, at
from scrout.integrations.forge import Answered, ForgeIssue, Http, IssueEdit, Part, PullRefused, listed, parsed

DEVELOPER = 30
"""The access level that may push."""
MAX_PAGES = 10


class _Issue(Part):
    title: str
    description: str | None
    state: str
    labels: list[str]
    web_url: str


class _User(Part):
    id: int
    username: str
    bot: bool = False


class _LabelEvent(Part):
    id: int
    user_id: int | None = at("user", "id", default=None)
    label: str = at("label", "name", default="")
    action: str


class _Member(Part):
    id: int
    access_level: int
    state: str = "active"


class _Note(Part):
    id: int
    body: str
    author_id: int = at("author", "id")


class _Pull(Part):
    web_url: str


class GitLab:
    def __init__(self, api_url: str, project: str, token: str) -> None:
        self._project = f"/projects/{project}"
        self._http = Http(api_url, {"PRIVATE-TOKEN": token, "User-Agent": "scrout"})

    def issue(self, number: int) -> ForgeIssue:
        found = self._issue(number)
        return ForgeIssue(found.title, found.description or "", found.state == "opened", frozenset(found.labels))

    def labeller(self, event: Event, label: str) -> Person | None:
        last: _LabelEvent | None = None
        for page in range(1, MAX_PAGES + 1):
            query = {"per_page": 100, "page": page}
            path = f"{self._project}/issues/{event.number}/resource_label_events"
            found = listed(_LabelEvent, self._http.get(path, query))
            for one in found:
                if one.label == label and (last is None or one.id > last.id):
                    last = one
            if len(found) < 100:
                break
        else:
            return None  # too many to be sure of having the last one
        if last is None or last.action != "add" or last.user_id is None:
            return None
        user = parsed(_User, self._http.get(f"/users/{last.user_id}"))
        return Person(user.username, user.id, is_bot=user.bot)

    def may_write(self, person: Person) -> bool:
        try:
            found = parsed(_Member, self._http.get(f"{self._project}/members/all/{person.id}"))
        except Answered as error:
            if error.status == 404:
                return False
            raise
        return found.id == person.id and found.access_level >= DEVELOPER and found.state == "active"

    def edits(self, event: Event) -> tuple[IssueEdit, ...]:
        if event.edited_at is None:
            return ()
        # The payload only has the editor's number, which is enough to compare with the sender's.
        return (IssueEdit(event.sender.login if event.edited_by == event.sender.id else "", event.edited_at),)

    def comment(self, number: int, body: str, mark: str, since: datetime) -> str:
        path = f"{self._project}/issues/{number}/notes"
        me = parsed(_User, self._http.get("/user"))
        address = self._issue(number).web_url
        for page in range(1, MAX_PAGES + 1):
            query: dict[str, str | int] = {"per_page": 100, "page": page, "sort": "desc", "order_by": "created_at"}
            found = listed(_Note, self._http.get(path, query))
            for one in found:
                if one.author_id == me.id and one.body.rstrip().endswith(mark):
                    return f"{address}#note_{one.id}"
            if len(found) < 100:
                break
        return f"{address}#note_{parsed(_Note, self._http.post(path, {'body': body})).id}"

    def open_pull(self, *, head: str, base: str, title: str, body: str) -> str:
        path = f"{self._project}/merge_requests"
        found = listed(_Pull, self._http.get(path, {"source_branch": head, "per_page": 1}))
        if found:
            return found[0].web_url
        wanted = {"source_branch": head, "target_branch": base, "title": title, "description": body}
        try:
            return parsed(_Pull, self._http.post(path, {**wanted, "remove_source_branch": True})).web_url
        except Answered as error:
            if error.status in (403, 409, 422):
                raise PullRefused(str(error)) from None
            raise

    def _issue(self, number: int) -> _Issue:
        return parsed(_Issue, self._http.get(f"{self._project}/issues/{number}"))
