"""Whose label counts, for which text. Asked of a forge that answers over HTTP."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scrout.integrations.admission import AcceptedLabel, LabelRules, RefusedLabel, judge
from scrout.integrations.event import Event, read_event
from scrout.integrations.forge import Answered, ForgeError
from scrout.integrations.github import GitHub

from .conftest import BODY, TOKEN, Server, github_payload


def judged(server: Server, rules: LabelRules | None = None, **changes: Any) -> AcceptedLabel | RefusedLabel:
    event = read_event("github", json.dumps(github_payload(**changes)).encode())
    return judge(event, GitHub(server.url, "ada/larder", TOKEN), rules or LabelRules())


def refused(found: AcceptedLabel | RefusedLabel, words: str, *, aloud: bool) -> None:
    assert isinstance(found, RefusedLabel) and words in found.reason and found.aloud is aloud, found


def test_a_label_of_somebody_who_may_push_counts_whoever_wrote_the_issue(github: Server) -> None:
    found = judged(github)
    assert isinstance(found, AcceptedLabel)
    assert (found.verb, found.label, found.by.login) == ("fix", "scrout-fix", "ada")
    github.issue["labels"] = [{"name": "scrout"}]
    assert judged(github, label__name="scrout").verb == "scout"  # type: ignore[union-attr]


def test_labels_that_are_not_ours_ask_nothing_of_the_forge(github: Server) -> None:
    refused(judged(github, label__name="bug"), "no label of ours", aloud=False)
    refused(judged(github, label__name="Scrout-Fix"), "no label of ours", aloud=False)
    assert github.asked == []


@pytest.mark.parametrize("right", ["read", "triage", "none", "maintainer?"])
def test_nobody_who_may_not_push_is_heard(github: Server, right: str) -> None:
    # Whoever has triage may add labels, and no more.
    github.rights["ada"] = (right, 1)
    refused(judged(github), "may not push", aloud=False)


def test_nobody_outside_of_the_repository_is_heard(github: Server) -> None:
    refused(judged(github, sender__login="stranger", sender__id=5), "may not push", aloud=False)
    # An account that took over a login which somebody trusted gave up.
    github.rights["ada"] = ("admin", 4321)
    refused(judged(github), "may not push", aloud=False)


def test_programs_and_pull_requests_are_not_heard(github: Server) -> None:
    refused(judged(github, sender__type="Bot"), "no person", aloud=False)
    refused(judged(github, sender__login="github-actions[bot]"), "no person", aloud=False)
    refused(judged(github, issue__pull_request={"url": "x"}), "pull request", aloud=False)


def test_a_list_of_people_narrows_and_never_widens(github: Server) -> None:
    assert isinstance(judged(github, LabelRules(people=frozenset({"ada"}))), AcceptedLabel)
    refused(judged(github, LabelRules(people=frozenset({"grace"}))), "not among the people", aloud=False)
    named = LabelRules(people=frozenset({"mallory"}))
    refused(judged(github, named, sender__login="mallory", sender__id=666), "may not push", aloud=False)


def test_a_label_that_was_taken_off_again_is_withdrawn(github: Server) -> None:
    github.issue["labels"] = []
    refused(judged(github), "not on the issue any more", aloud=False)


def test_a_closed_issue_is_left_alone(github: Server) -> None:
    refused(judged(github, issue__state="closed"), "closed", aloud=True)
    github.issue["state"] = "closed"
    refused(judged(github), "closed", aloud=True)


@pytest.mark.parametrize("field, text", [("title", "Other"), ("body", "Other"), ("body", None)])
def test_text_that_was_edited_after_the_label_is_refused(github: Server, field: str, text: str | None) -> None:
    github.issue[field] = text
    refused(judged(github), "edited after", aloud=True)


def test_text_that_was_edited_just_before_the_label_is_refused(github: Server) -> None:
    github.edits |= {"lastEditedAt": "2026-11-17T09:29:30Z", "editor": {"login": "mallory"}}
    refused(judged(github), "less than 60 seconds before", aloud=True)
    assert isinstance(judged(github, LabelRules(quiet_s=10)), AcceptedLabel)
    # Whoever adds the label knows what they wrote themselves.
    github.edits["editor"] = {"login": "Ada"}
    assert isinstance(judged(github), AcceptedLabel)


def test_an_edit_by_nobody_knows_whom_counts_as_a_strangers(github: Server) -> None:
    github.edits |= {"lastEditedAt": "2026-11-17T09:29:30Z", "editor": None}
    refused(judged(github), "less than 60 seconds before", aloud=True)


def test_a_title_that_was_changed_counts_too(github: Server) -> None:
    renamed = {"createdAt": "2026-11-17T09:30:00Z", "actor": {"login": "mallory"}}
    github.edits["timelineItems"] = {"nodes": [renamed]}
    refused(judged(github), "edited after", aloud=True)
    renamed["createdAt"] = "2026-11-17T09:00:00Z"
    assert isinstance(judged(github), AcceptedLabel)


def test_text_that_scrout_cannot_read_is_said(github: Server) -> None:
    github.issue |= {"title": " ", "body": None}
    refused(judged(github, issue__title=" ", issue__body=None), "empty", aloud=True)
    github.issue |= {"title": "t", "body": "a\0b"}
    refused(judged(github, issue__title="t", issue__body="a\0b"), "binary", aloud=True)


def test_a_forge_that_fails_admits_nobody(github: Server) -> None:
    github.failing = 100
    with pytest.raises(Answered, match="502"):
        judged(github)
    github.failing = 1
    assert isinstance(judged(github), AcceptedLabel)


@pytest.mark.parametrize("body", [[], "text", {"permission": "admin"}, {"permission": ["admin"], "user": {"id": 1}}])
def test_answers_of_another_form_admit_nobody(github: Server, body: Any) -> None:
    github.issue = body
    with pytest.raises(ForgeError):
        judged(github)


def test_the_token_is_in_no_message(github: Server, event: Event) -> None:
    wrong = "another-token-abcdefgh"
    with pytest.raises(Answered) as error:
        GitHub(github.url, "ada/larder", wrong).issue(7)
    assert "401" in str(error.value) and wrong not in str(error.value) and BODY not in str(error.value)
