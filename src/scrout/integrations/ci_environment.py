"""The runner's environment of a step, read from environment variables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scrout.integrations.event import Kind
from scrout.integrations.forge import Forge, ForgeError

TOKEN = "SCROUT_FORGE_TOKEN"
"""Environment variable with the token of `admit` and `publish`. `work` refuses to run if it is set."""
WRITERS = (TOKEN, "GITHUB_TOKEN", "GH_TOKEN", "GITLAB_TOKEN")
"""Usual names of tokens that may write."""

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_URL = re.compile(r"(https?|file)://[^\s@?#]{1,500}")
_PATH = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)+")


@dataclass(frozen=True)
class CiEnvironment:
    kind: Kind
    api_url: str
    server_url: str
    repository: str
    project: str
    """The API's name for it."""
    run: str
    """The forge's number of this run."""
    attempt: int
    commit: str
    """The run's commit: that of the default branch when the label was added."""
    payload: Path | None
    """Path of the event; None: unknown."""

    @property
    def key(self) -> str:
        """Key of this attempt in the budget."""
        return f"{self.run}-{self.attempt}"

    @property
    def remote(self) -> str:
        return f"{self.server_url}/{self.repository}.git"

    @property
    def run_url(self) -> str:
        middle = "actions/runs" if self.kind == "github" else "-/pipelines"
        return f"{self.server_url}/{self.repository}/{middle}/{self.run}"


def find_ci_environment(environment: Mapping[str, str]) -> CiEnvironment:
    """Read the variables; raises a ForgeError that names a missing one."""
    kind: Kind = "gitlab" if environment.get("GITLAB_CI") == "true" else "github"

    def told(name: str, form: re.Pattern[str]) -> str:
        value = environment.get(name, "").strip()
        if not form.fullmatch(value):
            what = "is not set" if not value else "has another form than the runner gives it"
            raise ForgeError(
                f"{name} {what}. Run this in a job of {'GitHub Actions' if kind == 'github' else 'GitLab'}."
            )
        return value

    digits = re.compile(r"[0-9]{1,20}")
    if kind == "gitlab":
        names = ("CI_API_V4_URL", "CI_SERVER_URL", "CI_PROJECT_PATH", "CI_PIPELINE_ID", "CI_COMMIT_SHA")
        project, attempt, payload = told("CI_PROJECT_ID", digits), 1, environment.get("TRIGGER_PAYLOAD", "")
    else:
        name = environment.get("GITHUB_EVENT_NAME", "")
        if name != "issues":
            raise ForgeError(
                f"the event is {name[:40]!r}, not 'issues'. Start this from `on: issues: types: [labeled]`."
            )
        names = ("GITHUB_API_URL", "GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID", "GITHUB_SHA")
        project, attempt = told("GITHUB_REPOSITORY", _PATH), int(told("GITHUB_RUN_ATTEMPT", digits))
        payload = environment.get("GITHUB_EVENT_PATH", "")
    api_url, server_url, repository, run, commit = map(told, names, (_URL, _URL, _PATH, digits, _COMMIT))
    path = Path(payload) if payload else None
    return CiEnvironment(kind, api_url, server_url, repository, project, run, attempt, commit, path)


def find_token(environment: Mapping[str, str]) -> str:
    token = environment.get(TOKEN, "").strip()
    if not re.fullmatch(r"[\x21-\x7e]{8,1000}", token):
        raise ForgeError(f"{TOKEN} is empty. Pass the job's token in it: docs/github.md says how.")
    return token


def connect(place: CiEnvironment, token: str) -> Forge:
    if place.kind == "gitlab":
        from scrout.integrations.gitlab import GitLab

        return GitLab(place.api_url, place.project, token)
    from scrout.integrations.github import GitHub

    return GitHub(place.api_url, place.repository, token)
