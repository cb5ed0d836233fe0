"""The part of GitHub's REST API that a label needs."""

from __future__ import annotations

from datetime import datetime

from pydantic import JsonValue

from scrout.integrations.event import Event, Person, at
from scrout.integrations.forge import Answered, ForgeIssue, Http, IssueEdit, Part, PullRefused, listed, parsed

OWN_LOGIN = "github-actions[bot]"
"""The account of a job's token."""
MAX_PAGES = 10
_EDITS = """query($owner: String!, $name: String!, $number: Int!) {
  repository(owner: $owner, name: $name) { issue(number: $number) {
    lastEditedAt
    editor { login }
    timelineItems(last: 1, itemTypes: [RENAMED_TITLE_EVENT]) {
      nodes { ... on RenamedTitleEvent { createdAt actor { login } } }
    }
  } }
}"""


class _Named(Part):
    name: str


class _Issue(Part):
    title: str
    body: str | None
    state: str
    labels: list[_Named]


class _Permission(Part):
    permission: str
    user_id: int | None = at("user", "id", default=None)


class _Comment(Part):
    body: str | None
    html_url: str
    login: str = at("user", "login", default="")


class _Pull(Part):
    html_url: str


class _Renamed(Part):
    createdAt: datetime
    login: str = at("actor", "login", default="")


class _Edits(Part):
    last: datetime | None = at("data", "repository", "issue", "lastEditedAt")
    editor: str = at("data", "repository", "issue", "editor", "login", default="")
    renamed: list[_Renamed] = at("data", "repository", "issue", "timelineItems", "nodes")


class GitHub:
    """One repository of GitHub, or of a GitHub Enterprise Server."""

    def __init__(self, api_url: str, repository: str, token: str) -> None:
        self._repository = repository
        self._http = Http(
            api_url,
            {
                "Authorization": f"Bearer {token}",
                "Accept": "application/vnd.github+json",
                "X-GitHub-Api-Version": "2022-11-28",
                "User-Agent": "scrout",
            },
        )
        # An Enterprise Server has REST at /api/v3 and GraphQL at /api/graphql.
        self._graphql = "/api/graphql" if api_url.rstrip("/").endswith("/api/v3") else "/graphql"

    def issue(self, number: int) -> ForgeIssue:
        found = parsed(_Issue, self._http.get(f"/repos/{self._repository}/issues/{number}"))
        labels = frozenset(label.name for label in found.labels)
        return ForgeIssue(found.title, found.body or "", found.state == "open", labels)

    def labeller(self, event: Event, label: str) -> Person | None:
        # GitHub itself made the payload: only GitHub can start a workflow with one.
        return event.sender if label in self.issue(event.number).labels else None

    def may_write(self, person: Person) -> bool:
        try:
            answer = self._http.get(f"/repos/{self._repository}/collaborators/{person.login}/permission")
        except Answered as error:
            if error.status == 404:  # not a collaborator
                return False
            raise
        found = parsed(_Permission, answer)
        # `triage` is reported as read here, `maintain` as write. A login can change its owner, an id cannot.
        return found.permission in ("admin", "write") and found.user_id == person.id

    def edits(self, event: Event) -> tuple[IssueEdit, ...]:
        owner, name = self._repository.split("/")
        variables: dict[str, JsonValue] = {"owner": owner, "name": name, "number": event.number}
        answer = self._http.query(self._graphql, {"query": _EDITS, "variables": variables})
        found = parsed(_Edits, answer)
        edits = [IssueEdit(one.login, one.createdAt) for one in found.renamed]
        return (*edits, IssueEdit(found.editor, found.last)) if found.last else tuple(edits)

    def comment(self, number: int, body: str, mark: str, since: datetime) -> str:
        path = f"/repos/{self._repository}/issues/{number}/comments"
        for page in range(1, MAX_PAGES + 1):
            query: dict[str, str | int] = {"per_page": 100, "page": page, "since": since.strftime("%Y-%m-%dT%H:%M:%SZ")}
            found = listed(_Comment, self._http.get(path, query))
            for one in found:
                if one.login == OWN_LOGIN and (one.body or "").rstrip().endswith(mark):
                    return one.html_url
            if len(found) < 100:
                break
        return parsed(_Comment, self._http.post(path, {"body": body})).html_url

    def open_pull(self, *, head: str, base: str, title: str, body: str) -> str:
        path = f"/repos/{self._repository}/pulls"
        owner = self._repository.partition("/")[0]
        found = listed(_Pull, self._http.get(path, {"head": f"{owner}:{head}", "state": "all", "per_page": 1}))
        if found:
            return found[0].html_url
        try:
            answer = self._http.post(path, {"head": head, "base": base, "title": title, "body": body})
        except Answered as error:
            if error.status in (403, 422):
                raise PullRefused(str(error)) from None
            raise
        return parsed(_Pull, answer).html_url
