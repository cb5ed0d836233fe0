"""Fetches an issue of GitHub or GitLab by its number or address, as a text.

A clone's configuration names the forge of its `origin`, and may be wrong on purpose. So a token is sent only to the
forge that it was issued for, by the rules of gh and glab. GITHUB_TOKEN and GH_TOKEN are for github.com, or for the
server whose job this is. GH_ENTERPRISE_TOKEN is for the host in GH_HOST. GITLAB_TOKEN is for the host in GITLAB_HOST,
otherwise for the server whose job this is, otherwise for gitlab.com.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote, urlsplit

from pydantic import AliasChoices, AliasPath, Field, JsonValue

from scrout.git import Foreign, find_repository
from scrout.integrations.forge import Answered, ForgeError, Http, Part, listed, parsed
from scrout.programs import NEUTRAL, find_program, variables

MAX_COMMENTS = 100
LOGIN_TIMEOUT_S = 10.0

_NUMBER = re.compile(r"#?([1-9][0-9]{0,11})")
_ISSUE_PATH = re.compile(
    r"/(?P<project>[\w.-]+(?:/[\w.-]+)+?)/(?:-/)?(?:issues|work_items)/(?P<number>[1-9][0-9]{0,11})/?"
)
_REMOTE = re.compile(
    r"(?:(?:https?|ssh|git)://(?:[^/@\s]*@)?|[\w.-]+@)(?P<host>[\w.-]+)(?::\d+(?=/))?[:/](?P<project>[\w./-]+)"
)
_PICTURE = re.compile(r"!\[[^\]\n]{0,200}\]\((\S{1,500}?)\)|<img\b[^>\n]{0,300}?\bsrc=[\"']([^\"'\n]{1,500})")


@dataclass(frozen=True)
class IssueAddress:
    host: str
    project: str
    number: int

    @property
    def forge(self) -> Literal["github", "gitlab"]:
        if self.host in ("github.com", os.environ.get("GH_HOST")):
            return "github"
        if self.host in ("gitlab.com", os.environ.get("GITLAB_HOST")):
            return "gitlab"
        raise ForgeError(
            f"the issue is at {self.host}, which is neither github.com nor gitlab.com. If you run GitHub or GitLab "
            f"there, set GH_HOST or GITLAB_HOST to it; otherwise, save the issue's text in a file."
        )


@dataclass(frozen=True)
class FetchedIssue:
    text: str
    pictures: tuple[str, ...]
    """URLs of images in it. They are not fetched."""
    comments: int = 0
    """The comments in the text."""


class _Issue(Part):
    title: str
    body: str | None = None
    description: str | None = None


class _Comment(Part):
    body: str | None
    by: str = Field(
        default="an unknown user",
        validation_alias=AliasChoices(AliasPath("user", "login"), AliasPath("author", "username")),
    )
    system: bool = False
    """Notes by GitLab itself, such as that a label was added."""


def find_issue(source: str, repo: Path) -> IssueAddress | None:
    """The issue of a number or an address; None: the source is neither."""
    if found := _NUMBER.fullmatch(source):
        host, project = _origin(find_repository(repo))
        return IssueAddress(host, project, int(found[1]))
    if not source.startswith(("https://", "http://")):
        return None
    parts = urlsplit(source.strip())
    path = _ISSUE_PATH.fullmatch(parts.path)
    if path is None or not parts.hostname:
        raise ForgeError(
            f"{source[:200]} is not the address of an issue. One looks like https://github.com/OWNER/NAME/issues/1."
        )
    return IssueAddress(parts.hostname, path["project"], int(path["number"]))


def fetch_issue(address: IssueAddress, *, comments: bool = False) -> FetchedIssue:
    """The issue's current state. Without a token, only public ones can be read."""
    read = _from_github if address.forge == "github" else _from_gitlab
    try:
        issue, said = read(address, comments)
    except Answered as error:
        if error.status not in (401, 403, 404):
            raise
        names = "GITHUB_TOKEN, or log in with gh" if address.forge == "github" else "GITLAB_TOKEN, or log in with glab"
        if address.forge == "github" and address.host != "github.com":
            names = "GH_ENTERPRISE_TOKEN, or log in with gh"
        raise ForgeError(
            f"issue {address.number} of {address.project} at {address.host} cannot be read (status {error.status}). "
            f"Check the number. If the project is not public, set {names}."
        ) from None
    body = (issue.body or issue.description or "").strip()
    replies = [f"Comment by {one.by}:\n\n{one.body}" for one in said if one.body and not one.system]
    text = "\n\n".join(part for part in (issue.title.strip(), body, *replies) if part) + "\n"
    pictures = tuple(dict.fromkeys(a or b for a, b in _PICTURE.findall(text)))
    return FetchedIssue(text, pictures, len(replies))


def _from_github(address: IssueAddress, comments: bool) -> tuple[_Issue, list[_Comment]]:
    own = address.host == (urlsplit(os.environ.get("GITHUB_SERVER_URL", "")).hostname or "github.com")
    names: tuple[str, ...] = ("GITHUB_TOKEN", "GH_TOKEN") if own else ()
    if not own and address.host == os.environ.get("GH_HOST"):
        names = ("GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN")
    token = _token(names, ("gh", "auth", "token", "--hostname", address.host))
    default = "https://api.github.com" if address.host == "github.com" else f"https://{address.host}/api/v3"
    headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28", "User-Agent": "scrout"}
    authorization = _authorization(token, "Authorization", "Bearer ")
    http = Http((own and os.environ.get("GITHUB_API_URL")) or default, headers | authorization)
    path = f"/repos/{address.project}/issues/{address.number}"
    return _read(http, path, f"{path}/comments", {"per_page": MAX_COMMENTS}, comments)


def _from_gitlab(address: IssueAddress, comments: bool) -> tuple[_Issue, list[_Comment]]:
    job = os.environ.get("CI_SERVER_HOST") or "gitlab.com"
    own = address.host == (os.environ.get("GITLAB_HOST") or job)
    token = _token(("GITLAB_TOKEN",) if own else (), ("glab", "config", "get", "token", "--host", address.host))
    default = f"https://{address.host}/api/v4"
    given = os.environ.get("CI_API_V4_URL") if address.host == job else ""
    http = Http(given or default, _authorization(token, "PRIVATE-TOKEN"))
    path = f"/projects/{quote(address.project, safe='')}/issues/{address.number}"
    return _read(http, path, f"{path}/notes", {"per_page": MAX_COMMENTS, "sort": "asc"}, comments)


def _read(
    http: Http, path: str, comments_path: str, query: Mapping[str, str | int], comments: bool
) -> tuple[_Issue, list[_Comment]]:
    issue = parsed(_Issue, http.get(path))
    answer: JsonValue = http.get(comments_path, query) if comments else []
    return issue, listed(_Comment, answer)


def _authorization(token: str, header: str, scheme: str = "") -> dict[str, str]:
    return {header: f"{scheme}{token}"} if token else {}


def _token(names: tuple[str, ...], login: tuple[str, ...]) -> str:
    """From the environment, otherwise from the forge's own program if you are logged in; empty: none."""
    for name in names:
        if token := os.environ.get(name, "").strip():
            return token
    program, *args = login
    found = find_program(program)
    if found is None:
        return ""
    try:
        asked = [found, *args]
        done = subprocess.run(
            asked,
            cwd=NEUTRAL,
            env=variables(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=LOGIN_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    token = done.stdout.strip()
    return token if done.returncode == 0 and token.isascii() and token.isprintable() and " " not in token else ""


def _origin(repository: Foreign) -> tuple[str, str]:
    """Host and project of the clone's `origin`."""
    address = repository.remote_url("origin")
    found = _REMOTE.fullmatch(address)
    # A path with `..` could reach other parts of the forge than issues.
    if found is None or not {".", ".."}.isdisjoint(found["project"].split("/")):
        shown = re.sub(r"//[^/@]*@", "//", address)
        told = f"its origin is {shown[:200]!r}" if address else "it has no remote named origin"
        raise ForgeError(
            f"{repository.name}: {told}, so scrout cannot tell where its issues are. Pass the issue's address, or "
            "its text in a file."
        )
    return found["host"], found["project"].strip("/").removesuffix(".git")
