"""Forges that answer over real HTTP, real repositories behind them, and what they send when a label is added."""

from __future__ import annotations

import json
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

import scrout
from scrout.git import GitDir, make_git_dir
from scrout.integrations.admission import Admission
from scrout.integrations.budget import DailyBudget
from scrout.integrations.ci_environment import CiEnvironment
from scrout.integrations.event import Event, read_event
from scrout.integrations.remote import Remote, open_remote
from scrout.integrations.result import (
    AttemptSummary,
    CandidateSummary,
    CheckSummary,
    DecisionSummary,
    HandoffSummary,
    WorkResult,
)

TOKEN = "loopback-token-0123456789"
AT = datetime(2026, 11, 17, 9, 30, tzinfo=UTC)
EXAMPLE = Path(scrout.__file__).parent / "example"
TITLE, _, BODY = (EXAMPLE / "issue.md").read_text(encoding="utf-8").partition("\n\n")

Json = Any


def github_payload(**changes: Json) -> dict[str, Json]:
    """`issues`, action `labeled`, in the shape that GitHub documents. `a__b=value` changes a field within another."""
    payload: dict[str, Json] = {
        "action": "labeled",
        "issue": {
            "id": 2_000_000_001,
            "node_id": "I_kwDO",
            "number": 7,
            "title": TITLE,
            "body": BODY,
            "state": "open",
            "locked": False,
            "author_association": "NONE",
            "user": {"login": "mallory", "id": 666, "type": "User", "site_admin": False},
            "labels": [{"id": 1, "name": "scrout-fix", "color": "ededed", "default": False}],
            "comments": 0,
            "created_at": "2026-11-16T08:00:00Z",
            "updated_at": "2026-11-17T09:30:00Z",
            "html_url": "https://github.com/ada/larder/issues/7",
        },
        "label": {"id": 1, "name": "scrout-fix", "color": "ededed", "default": False, "description": None},
        "repository": {
            "id": 99,
            "name": "larder",
            "full_name": "ada/larder",
            "private": False,
            "owner": {"login": "ada", "id": 1, "type": "User"},
            "default_branch": "main",
        },
        "sender": {"login": "ada", "id": 1, "type": "User", "site_admin": False},
    }
    return _changed(payload, changes)


def gitlab_payload(**changes: Json) -> dict[str, Json]:
    """An issue event of GitLab, in the shape that it documents."""
    payload: dict[str, Json] = {
        "object_kind": "issue",
        "event_type": "issue",
        "user": {"id": 1, "name": "Ada", "username": "ada", "avatar_url": "", "email": "[REDACTED]"},
        "project": {
            "id": 42,
            "name": "larder",
            "path_with_namespace": "ada/larder",
            "default_branch": "main",
            "web_url": "https://gitlab.example.com/ada/larder",
        },
        "object_attributes": {
            "id": 301,
            "iid": 7,
            "title": TITLE,
            "description": BODY,
            "state": "opened",
            "action": "update",
            "author_id": 666,
            "confidential": False,
            "created_at": "2026-11-16 08:00:00 UTC",
            "updated_at": "2026-11-17 09:30:00 UTC",
            "last_edited_at": None,
            "last_edited_by_id": None,
            "url": "https://gitlab.example.com/ada/larder/-/issues/7",
        },
        "labels": [{"id": 2, "title": "bug"}, {"id": 3, "title": "scrout-fix"}],
        "changes": {
            "labels": {
                "previous": [{"id": 2, "title": "bug", "type": "ProjectLabel"}],
                "current": [
                    {"id": 2, "title": "bug", "type": "ProjectLabel"},
                    {"id": 3, "title": "scrout-fix", "type": "ProjectLabel"},
                ],
            }
        },
    }
    return _changed(payload, changes)


def _changed(payload: dict[str, Json], changes: dict[str, Json]) -> dict[str, Json]:
    for path, value in changes.items():
        *parents, last = path.split("__")
        place = payload
        for parent in parents:
            place = place[parent]
        place[last] = value
    return payload


@dataclass
class Server:
    """What a forge would say, and what it was asked to write."""

    url: str = ""
    issue: dict[str, Json] = field(default_factory=dict)
    rights: dict[str, tuple[str, int]] = field(default_factory=lambda: {"ada": ("admin", 1), "mallory": ("read", 666)})
    edits: dict[str, Json] = field(
        default_factory=lambda: {"lastEditedAt": None, "editor": None, "timelineItems": {"nodes": []}}
    )
    comments: list[dict[str, Json]] = field(default_factory=list)
    pulls: list[dict[str, Json]] = field(default_factory=list)
    pull_status: int = 201
    asked: list[str] = field(default_factory=list)
    failing: int = 0
    """How many requests from now on get a 502."""
    label_events: list[dict[str, Json]] = field(default_factory=list)
    users: dict[int, dict[str, Json]] = field(
        default_factory=lambda: {1: {"id": 1, "username": "ada"}, 666: {"id": 666, "username": "mallory"}}
    )
    members: dict[int, int] = field(default_factory=lambda: {1: 40, 666: 20})


def _github(server: Server, method: str, path: str, query: dict[str, str], body: Json) -> tuple[int, Json]:
    repo = "/repos/ada/larder"
    if path == "/graphql":
        return 200, {"data": {"repository": {"issue": server.edits}}}
    if path == f"{repo}/issues/7":
        return 200, server.issue
    if found := re.fullmatch(rf"{repo}/collaborators/([^/]+)/permission", path):
        known = server.rights.get(found[1])
        if known is None:
            return 404, {"message": "Not Found"}
        return 200, {"permission": known[0], "role_name": known[0], "user": {"login": found[1], "id": known[1]}}
    if path == f"{repo}/issues/7/comments":
        if method == "POST":
            number = len(server.comments) + 1
            address = f"https://github.com/ada/larder/issues/7#issuecomment-{number}"
            user = {"login": "github-actions[bot]", "id": 41898282, "type": "Bot"}
            server.comments.append({"id": number, "html_url": address, "user": user, **body})
            return 201, server.comments[-1]
        start = (int(query["page"]) - 1) * int(query["per_page"])
        return 200, server.comments[start : start + int(query["per_page"])]
    if path == f"{repo}/pulls":
        if method == "POST":
            if server.pull_status != 201:
                return server.pull_status, {"message": "GitHub Actions is not permitted to create pull requests."}
            server.pulls.append({"html_url": "https://github.com/ada/larder/pull/8", "number": 8, **body})
            return 201, server.pulls[-1]
        return 200, [pull for pull in server.pulls if f"ada:{pull['head']}" == query["head"]]
    return 404, {"message": "Not Found"}


def _gitlab(server: Server, method: str, path: str, query: dict[str, str], body: Json) -> tuple[int, Json]:
    project = "/projects/42"
    if path == "/user":
        return 200, {"id": 77, "username": "project_42_bot", "bot": True}
    if found := re.fullmatch(r"/users/(\d+)", path):
        return 200, server.users[int(found[1])]
    if found := re.fullmatch(rf"{project}/members/all/(\d+)", path):
        who = int(found[1])
        if who not in server.members:
            return 404, {"message": "404 Not found"}
        return 200, {**server.users[who], "access_level": server.members[who], "state": "active"}
    if path == f"{project}/issues/7":
        return 200, server.issue
    if path == f"{project}/issues/7/resource_label_events":
        return 200, server.label_events
    if path == f"{project}/issues/7/notes":
        if method == "POST":
            server.comments.append({"id": len(server.comments) + 1, "author": {"id": 77, "username": "bot"}, **body})
            return 201, server.comments[-1]
        return 200, server.comments[::-1]
    if path == f"{project}/merge_requests":
        if method == "POST":
            server.pulls.append({"web_url": "https://gitlab.example.com/ada/larder/-/merge_requests/1", **body})
            return 201, server.pulls[-1]
        return 200, [pull for pull in server.pulls if pull["source_branch"] == query["source_branch"]]
    return 404, {"message": "404 Not found"}


@contextmanager
def _serving(server: Server, answer: Callable[..., tuple[int, Json]], header: tuple[str, str]) -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer("GET")

        def do_POST(self) -> None:
            self._answer("POST")

        def _answer(self, method: str) -> None:
            address = urlsplit(self.path)
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            query = {key: values[0] for key, values in parse_qs(address.query).items()}
            server.asked.append(f"{method} {address.path}")
            if self.headers.get(header[0]) != header[1]:
                status, document = 401, {"message": "Bad credentials"}
            elif server.failing > 0:
                server.failing -= 1
                status, document = 502, {"message": "Bad gateway"}
            else:
                status, document = answer(server, method, address.path, query, json.loads(raw) if raw else None)
            content = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    server.url = f"http://127.0.0.1:{listening.server_port}"
    try:
        yield server
    finally:
        listening.shutdown()
        thread.join()
        listening.server_close()


@pytest.fixture
def github() -> Iterator[Server]:
    server = Server(issue=github_payload()["issue"])
    with _serving(server, _github, ("Authorization", f"Bearer {TOKEN}")) as serving:
        yield serving


@pytest.fixture
def gitlab() -> Iterator[Server]:
    issue = {
        "title": TITLE,
        "description": BODY,
        "state": "opened",
        "labels": ["bug", "scrout-fix"],
        "web_url": "https://gitlab.example.com/ada/larder/-/issues/7",
    }
    label = {"id": 3, "name": "scrout-fix"}
    added = {"id": 142, "user": {"id": 1, "username": "ada"}, "label": label, "action": "add"}
    server = Server(issue=issue, label_events=[added])
    with _serving(server, _gitlab, ("PRIVATE-TOKEN", TOKEN)) as serving:
        yield serving


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled example as a repository, and the forge's own copy of it; made once."""
    folder = tmp_path_factory.mktemp("made")
    repo = folder / "larder"
    shutil.copytree(EXAMPLE / "larder", repo, ignore=shutil.ignore_patterns("__pycache__"))
    who = {f"GIT_{role}_{part}": "larder" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    make_git_dir(repo / ".git")
    git = GitDir.of(repo).with_variables(**who)
    git("add", "--all")
    git("commit", "-q", "-m", "larder 0.4.1")
    config = shutil.copytree(repo / ".git", folder / "bare") / "config"
    config.write_text(config.read_text().replace("bare = false", "bare = true"))
    return folder


@pytest.fixture
def larder(tmp_path: Path, made: Path) -> Path:
    """The bundled example as a repository."""
    return shutil.copytree(made / "larder", tmp_path / "larder")


@pytest.fixture
def bare(tmp_path: Path, made: Path) -> Path:
    """The forge's own copy of it."""
    return shutil.copytree(made / "bare", tmp_path / "forge" / "ada" / "larder.git")


@pytest.fixture
def place(larder: Path, bare: Path) -> CiEnvironment:
    commit = (larder / ".git" / "refs" / "heads" / "main").read_text().strip()
    return CiEnvironment(
        kind="github",
        api_url="http://127.0.0.1:9",
        server_url=f"file://{bare.parents[1]}",
        repository="ada/larder",
        project="ada/larder",
        run="1001",
        attempt=1,
        commit=commit,
        payload=None,
    )


@pytest.fixture
def remote(place: CiEnvironment) -> Iterator[Remote]:
    with open_remote(place.remote, "github", "") as opened:
        yield opened


@pytest.fixture
def event() -> Event:
    return read_event("github", json.dumps(github_payload()).encode())


@pytest.fixture
def budget(place: CiEnvironment) -> Callable[[], AbstractContextManager[DailyBudget]]:
    """The repository's budget, opened anew each time as every job does."""

    @contextmanager
    def opened() -> Iterator[DailyBudget]:
        with open_remote(place.remote, "github", "") as remote:
            yield DailyBudget(remote, now=lambda: AT)

    return opened


@pytest.fixture
def admission(event: Event) -> Admission:
    return Admission(
        go="work",
        verb="fix",
        issue=7,
        digest=event.digest,
        label="scrout-fix",
        by="ada",
        key="1001-1",
        held_usd=Decimal("1.00"),
    )


@pytest.fixture
def result(event: Event, place: CiEnvironment) -> WorkResult:
    """Of a fix that stands; its patch changes one line."""
    patch = """diff --git a/larder/expiry.py b/larder/expiry.py
--- a/larder/expiry.py
+++ b/larder/expiry.py
@@ -34,7 +34,7 @@ def freshness(best_before: date | None, today: date, warn_days: int = WARN_DAYS)
     left = days_left(best_before, today)
     if left is None:
         return Freshness.FRESH
-    if left <= 0:
+    if left < 0:
         return Freshness.EXPIRED
     if left <= warn_days:
         return Freshness.SOON
"""
    offer = CandidateSummary(fixer="repair", p_solve=None, cost_usd=Decimal(0), reason="the only fixer in the pool")
    return WorkResult(
        key="1001-1",
        verb="fix",
        issue=7,
        digest=event.digest,
        commit=place.commit,
        run="20261117-093000-abcdef",
        outcome="solved",
        sandbox="bubblewrap",
        environment="the caller's Python",
        scouted=HandoffSummary(
            text="<files>\nlarder/expiry.py\n</files>\nSTOP",
            searcher="recon",
            stop="finished",
            detail="",
            verdict="real_failure",
            reason="AssertionError",
        ),
        chosen=DecisionSummary(fixer="repair", reason="the only fixer in the pool", offers=(offer,)),
        tried=AttemptSummary(fixer="repair", stop="finished", detail="one edit", calls=0, seconds=3),
        checked=CheckSummary(
            outcome="passed", reproduction="passes", tests="pass", tests_run=4, detail="fine", flags=()
        ),
        patch=patch,
        cost_usd=Decimal("0.25"),
    )
