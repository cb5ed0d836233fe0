"""What forges send, read; and what is not what they send, refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scrout.integrations.event import EventError, read_event

from .conftest import AT, BODY, TITLE, github_payload, gitlab_payload


def read(payload: dict[str, Any]) -> Any:
    kind = "gitlab" if "object_kind" in payload else "github"
    return read_event(kind, json.dumps(payload).encode())


def test_a_label_on_github() -> None:
    event = read(github_payload())
    assert (event.repository, event.default_branch, event.number) == ("ada/larder", "main", 7)
    assert (event.title, event.body, event.added, event.at) == (TITLE, BODY, ("scrout-fix",), AT)
    assert (event.sender.login, event.sender.id, event.sender.is_bot) == ("ada", 1, False)
    assert event.is_open and not event.is_pull and event.text.startswith(TITLE)


def test_a_label_on_gitlab_is_what_is_new_among_them() -> None:
    event = read(gitlab_payload())
    assert event.added == ("scrout-fix",) and event.at == AT and event.sender.login == "ada"
    assert read(gitlab_payload(changes={})).added == ()
    removed = gitlab_payload()
    both = removed["changes"]["labels"]
    both["previous"], both["current"] = both["current"], both["previous"]
    assert read(removed).added == ()


def test_forges_that_send_no_body_and_other_line_ends() -> None:
    assert read(github_payload(issue__body=None)).text == TITLE
    unix, windows = read(github_payload()), read(github_payload(issue__body=BODY.replace("\n", "\r\n")))
    assert unix.digest == windows.digest != read(github_payload(issue__body=BODY + "!")).digest


def test_accounts_that_are_no_people_are_told() -> None:
    assert read(github_payload(sender__type="Bot")).sender.is_bot
    assert read(github_payload(sender__login="dependabot[bot]")).sender.is_bot
    assert read(github_payload(sender__type="Organization")).sender.is_bot


@pytest.mark.parametrize(
    "changes",
    [
        {"action": "opened"},
        {"action": "unlabeled"},
        {"label": None},
        {"label__name": ""},
        {"label__name": "x" * 300},
        {"issue": None},
        {"issue__number": 0},
        {"issue__number": "7; rm -rf"},
        {"issue__number": True},
        {"issue__title": None},
        {"issue__body": 3},
        {"issue__body": "x" * 1_200_000},
        {"issue__state": "weird"},
        {"issue__updated_at": "yesterday"},
        {"sender": None},
        {"sender__login": "../../orgs/x"},
        {"sender__login": "ada\n"},
        {"sender__id": None},
        {"repository__full_name": "larder"},
        {"repository__full_name": "ada/larder?x=1"},
        {"repository__default_branch": "--upload-pack=x"},
        {"repository__default_branch": "a b"},
    ],
)
def test_what_is_no_event_of_a_label_is_refused_without_quoting_it(changes: dict[str, Any]) -> None:
    with pytest.raises(EventError, match="not an issue event") as refused:
        read(github_payload(**changes))
    assert "labeled" in str(refused.value) and "rm -rf" not in str(refused.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"object_kind": "note"},
        {"object_attributes__iid": -1},
        {"object_attributes__state": "open"},
        {"object_attributes__updated_at": "soon"},
        {"user__username": "a/b"},
        {"project__path_with_namespace": "x"},
        {"changes__labels": [1]},
    ],
)
def test_the_same_for_gitlab(changes: dict[str, Any]) -> None:
    with pytest.raises(EventError):
        read(gitlab_payload(**changes))


@pytest.mark.parametrize("raw", [b"", b"null", b"[]", b"{", b"\xff", b'{"action": "labeled"}', b"[" * 100_000])
def test_bytes_that_are_no_payload(raw: bytes) -> None:
    with pytest.raises(EventError):
        read_event("github", raw)


def test_a_pull_request_is_told() -> None:
    assert read(github_payload(issue__pull_request={"url": "https://api.github.com/x"})).is_pull
