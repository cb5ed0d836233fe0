"""The same on GitLab, where a payload is only as true as the trigger's token is secret."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scrout.cli.main import scrout as cli
from scrout.integrations.admission import AcceptedLabel, LabelRules, RefusedLabel, judge
from scrout.integrations.ci_environment import CiEnvironment
from scrout.integrations.event import read_event
from scrout.integrations.gitlab import GitLab
from scrout.integrations.result import WorkResult

from .conftest import TOKEN, Server, gitlab_payload


def judged(server: Server, **changes: Any) -> AcceptedLabel | RefusedLabel:
    event = read_event("gitlab", json.dumps(gitlab_payload(**changes)).encode())
    return judge(event, GitLab(server.url, "42", TOKEN), LabelRules())


def refused(found: AcceptedLabel | RefusedLabel, words: str) -> None:
    assert isinstance(found, RefusedLabel) and words in found.reason, found


def label_event(number: int, who: int, action: str, label: str = "scrout-fix") -> dict[str, Any]:
    return {"id": number, "user": {"id": who, "username": "x"}, "label": {"id": 3, "name": label}, "action": action}


def test_a_developers_label_counts(gitlab: Server) -> None:
    found = judged(gitlab)
    assert isinstance(found, AcceptedLabel) and (found.verb, found.by.login) == ("fix", "ada")
    gitlab.members[1] = 30
    assert isinstance(judged(gitlab), AcceptedLabel)


def test_a_payload_that_claims_another_sender_is_not_believed(gitlab: Server) -> None:
    """Whoever has the trigger's token can write any payload; who added the label is GitLab's to say."""
    gitlab.label_events = [label_event(142, 666, "add")]
    refused(judged(gitlab), "may not push")
    gitlab.label_events = []
    refused(judged(gitlab), "the forge does not say who added it")
    gitlab.label_events = [label_event(1, 1, "add"), label_event(2, 1, "remove")]
    refused(judged(gitlab), "not on the issue any more")
    gitlab.label_events = [label_event(1, 1, "add"), label_event(3, 666, "add"), label_event(2, 1, "remove")]
    refused(judged(gitlab), "may not push")
    gitlab.label_events = [label_event(1, 1, "add", "other")]
    refused(judged(gitlab), "does not say who")


def test_a_payload_with_another_text_is_not_believed(gitlab: Server) -> None:
    refused(judged(gitlab, object_attributes__description="run this instead"), "edited after")


def test_guests_reporters_bots_and_confidential_issues(gitlab: Server) -> None:
    refused(judged(gitlab, object_attributes__confidential=True), "confidential")
    gitlab.members[1] = 20
    refused(judged(gitlab), "may not push")
    del gitlab.members[1]
    refused(judged(gitlab), "may not push")
    gitlab.users[1]["bot"] = True
    refused(judged(gitlab), "no person")


def test_an_edit_just_before_by_somebody_else(gitlab: Server) -> None:
    edited: dict[str, Any] = {"object_attributes__last_edited_at": "2026-11-17 09:29:45 UTC"}
    refused(judged(gitlab, **edited, object_attributes__last_edited_by_id=666), "before the label")
    assert isinstance(judged(gitlab, **edited, object_attributes__last_edited_by_id=1), AcceptedLabel)


def test_the_commands_of_admit_and_publish(
    gitlab: Server,
    place: CiEnvironment,
    result: WorkResult,
    bare: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    payload, output, file = tmp_path / "payload.json", tmp_path / "admission.env", tmp_path / "result.json"
    payload.write_text(json.dumps(gitlab_payload()))
    told = {
        "GITLAB_CI": "true",
        "TRIGGER_PAYLOAD": str(payload),
        "CI_API_V4_URL": gitlab.url,
        "CI_SERVER_URL": place.server_url,
        "CI_PROJECT_PATH": "ada/larder",
        "CI_PROJECT_ID": "42",
        "CI_PIPELINE_ID": "1001",
        "CI_COMMIT_SHA": place.commit,
        "SCROUT_FORGE_OUTPUT": str(output),
        "SCROUT_FORGE_TOKEN": TOKEN,
    }
    monkeypatch.delenv("GITHUB_OUTPUT", raising=False)
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    CliRunner().invoke(cli, ["forge", "admit", "--run-usd", "1", "--day-usd", "5"], catch_exceptions=False)
    variables = dict(line.split("=", 1) for line in output.read_text().splitlines())
    assert variables["SCROUT_GO"] == "work"
    file.write_text(result.model_dump_json())
    args = ["forge", "publish", "--admission", variables["SCROUT_ADMISSION"], "--result", str(file)]
    for _ in range(2):
        CliRunner().invoke(cli, args, catch_exceptions=False)
    (request,), (note,) = gitlab.pulls, gitlab.comments
    assert (request["source_branch"], request["target_branch"]) == ("scrout/issue-7-1001-1", "main")
    assert "/-/merge_requests/1" in note["body"]
    for text in (note["body"], request["description"]):
        assert not [line for line in text.splitlines() if line.startswith("/")], "a quick action"
    shown = subprocess.run(["git", "show", "scrout/issue-7-1001-1"], cwd=bare, capture_output=True, check=True).stdout
    assert b"+    if left < 0:" in shown
