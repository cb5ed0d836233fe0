"""What is written to the forge, and what never is: forged results, refused patches, failures on the way."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from scrout.integrations.admission import Admission
from scrout.integrations.budget import DailyBudget, spent
from scrout.integrations.ci_environment import CiEnvironment
from scrout.integrations.event import Event
from scrout.integrations.forge import ForgeError
from scrout.integrations.github import GitHub
from scrout.integrations.publish import PublishedLinks, Publisher
from scrout.integrations.remote import open_remote
from scrout.integrations.result import WorkResult, read_result

from .conftest import TOKEN, Server
from .test_patch import new_file

BRANCH = "scrout/issue-7-1001-1"
DAY = "2026-11-17"


@dataclass(frozen=True)
class Scene:
    """One publishing, with dollars held for it."""

    publisher: Publisher
    server: Server
    bare: Path
    file: Path
    budget: Callable[[], AbstractContextManager[DailyBudget]]

    def publish(self, result: WorkResult | bytes | None) -> PublishedLinks:
        if isinstance(result, WorkResult):
            self.file.write_text(result.model_dump_json())
        elif result is not None:
            self.file.write_bytes(result)
        return self.publisher.publish(self.file)

    def branches(self) -> set[str]:
        shown = subprocess.run(["git", "branch", "--format=%(refname:short)"], cwd=self.bare, capture_output=True)
        return set(shown.stdout.decode().split())

    def spent(self) -> Decimal:
        with self.budget() as book:
            return spent(book.day(DAY))

    def said(self) -> str:
        (comment,) = self.server.comments
        return str(comment["body"])


@pytest.fixture
def scene(
    event: Event,
    admission: Admission,
    place: CiEnvironment,
    github: Server,
    bare: Path,
    budget: Callable[[], AbstractContextManager[DailyBudget]],
    tmp_path: Path,
) -> Scene:
    with budget() as book:
        book.hold("1001-1", Decimal(1), Decimal(5), 7)
    publisher = Publisher(
        event=event,
        admission=admission.model_copy(update={"day": DAY}),
        place=place,
        forge=GitHub(github.url, "ada/larder", TOKEN),
        remote=lambda: open_remote(place.remote, "github", ""),
        budget=budget,
    )
    return Scene(publisher, github, bare, tmp_path / "result.json", budget)


def test_a_patch_becomes_a_pull_request_and_a_comment(scene: Scene, result: WorkResult, place: CiEnvironment) -> None:
    done = scene.publish(result)
    assert (done.pull, done.problem) == ("https://github.com/ada/larder/pull/8", "")
    (pull,) = scene.server.pulls
    assert (pull["head"], pull["base"], pull["title"]) == (BRANCH, "main", "scrout: patch for #7")
    assert "`passed`" in pull["body"] and "$0.25 in all" in pull["body"] and "larder/expiry.py" in pull["body"]
    assert "Pull request: https://github.com/ada/larder/pull/8" in scene.said()
    shown = subprocess.run(["git", "log", "--format=%P%n%B", BRANCH, "-1"], cwd=scene.bare, capture_output=True).stdout
    assert shown.decode().startswith(f"{place.commit}\nscrout: patch for #7\n")
    assert scene.spent() == Decimal("0.25")


def test_an_edit_while_it_worked_is_said(scene: Scene, result: WorkResult) -> None:
    scene.server.issue["body"] = "something else by now"
    assert scene.publish(result).pull and "edited meanwhile" in scene.said()
    assert "something else" not in scene.said()


def test_publishing_again_writes_nothing_twice(scene: Scene, result: WorkResult) -> None:
    first = scene.publish(result)
    assert scene.publish(result) == first
    assert len(scene.server.pulls) == len(scene.server.comments) == 1 and scene.spent() == Decimal("0.25")


def test_a_comment_with_our_mark_by_somebody_else_silences_nobody(scene: Scene, result: WorkResult) -> None:
    forged = {
        "id": 1,
        "html_url": "https://x",
        "user": {"login": "mallory", "id": 666},
        "body": "<!-- scrout 1001-1 -->",
    }
    scene.server.comments.append(forged)
    scene.publish(result)
    assert len(scene.server.comments) == 2


def test_a_branch_that_somebody_else_made_is_left_alone(scene: Scene, result: WorkResult) -> None:
    subprocess.run(["git", "branch", BRANCH, "main"], cwd=scene.bare, check=True)
    done = scene.publish(result)
    assert done.pull == "" and "other commits already" in scene.said() and not scene.server.pulls
    heads = subprocess.run(["git", "rev-parse", BRANCH, "main"], cwd=scene.bare, capture_output=True).stdout.split()
    assert heads[0] == heads[1]


@pytest.mark.parametrize(
    "patch, words",
    [
        (new_file(".github/workflows/ci.yml"), "runs by itself"),
        pytest.param(
            new_file("link", "/etc/passwd", "120000"), "links or submodules", marks=pytest.mark.slow, id="link"
        ),
        pytest.param("garbage", "does not apply", marks=pytest.mark.slow, id="garbage"),
        (new_file("a.py", f"k = 'ghp_{'a1' * 18}'\n"), "secret"),
    ],
)
def test_a_patch_that_may_not_be_published_is_told_and_not_pushed(
    scene: Scene, result: WorkResult, patch: str, words: str
) -> None:
    done = scene.publish(result.model_copy(update={"patch": patch}))
    assert done.pull == "" and words in scene.said() and "not published" in scene.said()
    assert scene.branches() == {"main", "scrout-budget"} and not scene.server.pulls
    assert scene.spent() == Decimal("0.25")


@pytest.mark.parametrize(
    "outcome",
    [
        "not_solved",
        "failed",
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("infrastructure", "interrupted", "scouted")),
    ],
)
def test_without_a_patch_that_stands_there_is_a_comment_alone(scene: Scene, result: WorkResult, outcome: str) -> None:
    done = scene.publish(WorkResult.model_validate(result.model_dump() | {"outcome": outcome}))
    assert done.comment and not done.pull and scene.branches() == {"main", "scrout-budget"}


def test_a_result_that_claims_to_be_solved_without_a_check_is_not_published(scene: Scene, result: WorkResult) -> None:
    assert result.checked
    for checked in (None, result.checked.model_copy(update={"outcome": "failed"})):
        scene.server.comments.clear()
        scene.publish(result.model_copy(update={"checked": checked}))
        assert "check did not pass" in scene.said() and not scene.server.pulls


def test_scouting_opens_no_pull_request_whatever_the_result_holds(scene: Scene, result: WorkResult) -> None:
    asked = replace(
        scene,
        publisher=replace(
            scene.publisher,
            admission=scene.publisher.admission.model_copy(update={"verb": "scout"}),
        ),
    )
    done = asked.publish(result.model_copy(update={"verb": "scout"}))
    assert done.comment and not done.pull and scene.branches() == {"main", "scrout-budget"}


def test_a_forge_that_opens_no_pull_request_gets_the_branch_and_the_reason(scene: Scene, result: WorkResult) -> None:
    scene.server.pull_status = 403
    done = scene.publish(result)
    assert done.pull == "" and BRANCH in scene.branches()
    assert "not permitted to create pull requests" in scene.said() and "Workflow permissions" in scene.said()


# Forged, broken and missing results

FORGED: list[dict[str, Any]] = [
    {"version": 2},
    {"extra": 1},
    {"key": "1002-1"},
    {"issue": 8},
    {"verb": "scout"},
    {"digest": "0" * 64},
    {"commit": "0" * 40},
    {"commit": "main"},
    {"run": "$(id)"},
    {"outcome": "approved"},
    {"cost_usd": -1},
    {"cost_usd": 1.01},
    {"cost_usd": "NaN"},
    {"patch": "x" * 500_001},
    {"patch": 1},
    {"sandbox": "x" * 101},
    {"error": "x" * 501},
    {"rows": [{}]},
    {"scouted": {"text": "x" * 6001}},
    {"chosen": {"fixer": "x", "reason": "y", "offers": [{"fixer": "x", "p_solve": 2, "cost_usd": 0, "reason": ""}]}},
    {"checked": {"outcome": "passed"}},
]


@pytest.mark.parametrize("forged", FORGED, ids=lambda one: next(iter(one)))
def test_a_forged_result_is_not_believed(
    event: Event, admission: Admission, place: CiEnvironment, result: WorkResult, tmp_path: Path, forged: dict[str, Any]
) -> None:
    file = tmp_path / "result.json"
    file.write_text(json.dumps(json.loads(result.model_dump_json()) | forged))
    with pytest.raises(ForgeError, match="result"):
        read_result(file, event, admission, place.commit)


def test_a_forged_result_is_not_believed_and_costs_what_was_held(scene: Scene, result: WorkResult) -> None:
    document = json.loads(result.model_dump_json()) | FORGED[0]
    done = scene.publish(json.dumps(document).encode())
    assert done.problem and not done.pull and not scene.server.pulls
    assert "nothing to show" in scene.said() and "$1.00 count for the day" in scene.said()
    assert scene.branches() == {"main", "scrout-budget"} and scene.spent() == 1


def test_bytes_that_are_no_result(scene: Scene) -> None:
    for raw in (b"", b"{", b"[]", b"\xff\xfe", b"[" * 200_000, b" " * 4_000_001, b'"@everyone /close"'):
        assert scene.publish(raw).problem
    assert scene.spent() == 1 and "@everyone" not in scene.said()


def test_a_result_that_is_missing_a_link_a_pipe_or_a_folder(scene: Scene, result: WorkResult, tmp_path: Path) -> None:
    secret = tmp_path / "elsewhere.json"
    secret.write_text(result.model_dump_json())
    assert scene.publish(None).problem
    scene.file.symlink_to(secret)
    assert scene.publish(None).problem
    scene.file.unlink()
    os.mkfifo(scene.file)
    assert scene.publish(None).problem
    scene.file.unlink()
    scene.file.mkdir()
    assert scene.publish(None).problem
    assert not scene.server.pulls and scene.spent() == 1


def test_a_cost_that_nobody_knows_counts_as_all_that_was_held(scene: Scene, result: WorkResult) -> None:
    scene.publish(result.model_copy(update={"cost_usd": None}))
    assert scene.spent() == 1 and "unknown in all" in scene.said()


def test_what_was_spent_is_settled_also_where_the_forge_then_fails(scene: Scene, result: WorkResult) -> None:
    scene.server.failing = 1000
    with pytest.raises(ForgeError):
        scene.publish(result)
    assert scene.spent() == Decimal("0.25")
    scene.server.failing = 0
    assert scene.publish(result).pull  # a second try of the same job goes on


# What was not admitted


def test_a_refusal_is_said_and_nothing_else_happens(scene: Scene, result: WorkResult) -> None:
    refused = scene.publisher.admission.model_copy(update={"go": "say", "reason": "the issue is closed.", "day": None})
    done = replace(scene.publisher, admission=refused).publish(scene.file)
    assert done.comment and "scrout does not work on this: the issue is closed." in scene.said()
    nothing = refused.model_copy(update={"go": "nothing"})
    assert replace(scene.publisher, admission=nothing).publish(scene.file) == PublishedLinks("")
    assert len(scene.server.comments) == 1 and scene.branches() == {"main", "scrout-budget"}


def test_an_admission_of_another_event_publishes_nothing(scene: Scene, result: WorkResult) -> None:
    scene.file.write_text(result.model_dump_json())
    others: list[dict[str, Any]] = [{"issue": 8}, {"digest": "0" * 64}, {"verb": None}]
    others += [{"go": "say", "issue": 8}, {"go": "say", "digest": "0" * 64}]
    for change in others:
        with pytest.raises(ForgeError):
            replace(scene.publisher, admission=scene.publisher.admission.model_copy(update=change)).publish(scene.file)
    assert not scene.server.comments and not scene.server.pulls
