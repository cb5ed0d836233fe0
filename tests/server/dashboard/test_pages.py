"""What the pages and their twins say."""

from __future__ import annotations

import asyncio
import html
import json
import re
import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from scrout.base import ConfigError
from scrout.cli.dashboard import command
from scrout.config.settings import Settings
from scrout.git import GitDir
from scrout.handoff import FileRef
from scrout.lab.study.report import Figure, ReportTable, StudyReport
from scrout.lab.study.saved import save_study
from scrout.server.dashboard import code, diff, run_index
from scrout.server.dashboard.app import serve

AddRun = Callable[..., str]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer is of this moment."""
    monkeypatch.setattr(run_index, "REFRESH_S", 0)


async def ids(web: httpx.AsyncClient, **asked: str) -> list[str]:
    answer = await web.get("/runs.json", params=asked)
    assert answer.status_code == 200
    return [run["id"] for run in answer.json()["runs"]]


async def test_an_empty_ledger_says_how_to_begin(web: httpx.AsyncClient) -> None:
    assert (await web.get("/")).headers["location"] == "/runs"
    assert "scrout demo" in (await web.get("/runs")).text
    for path in ("/batches", "/frontier", "/fixers", "/studies"):
        assert (await web.get(path)).status_code == 200


async def test_runs_are_filtered_and_totalled(add_run: AddRun, web: httpx.AsyncClient) -> None:
    one = add_run("The larder forgets time zones", fixer="a", arm="solo/a", batch="b-1", cost="0.25")
    two = add_run("Rounding is wrong in the pantry", fixer="b", arm="solo/b", batch="b-1", cost="1", check="failed")
    three = add_run("Import fails", fixer="b", arm="solo/b", batch="b-2", cost=None)
    still = add_run("Import fails late", fixer="b", close=False)
    assert await ids(web) == [still, three, two, one]
    assert await ids(web, outcome="solved") == [three, one]
    assert await ids(web, outcome="interrupted") == [still]
    assert await ids(web, fixer="b") == [three, two]
    assert await ids(web, arm="solo/b", batch="b-1") == [two]
    assert await ids(web, words="ZONE larder") == [one]
    assert await ids(web, words="imp") == [still, three]
    assert await ids(web, words="import pantry") == []
    assert await ids(web, words="***") == []
    assert await ids(web, since="2000-01-01", until="2999-01-01") == [still, three, two, one]
    assert await ids(web, until="2000-01-01") == []
    totals = (await web.get("/runs.json", params={"batch": "b-1"})).json()["totals"]
    assert totals == {
        "runs": 2,
        "outcomes": {"not_solved": 1, "solved": 1},
        "cost_usd": 1.25,
        "unpriced": 0,
        "unjudged_usd": 0,
    }
    whole = (await web.get("/runs.json")).json()["totals"]
    assert (whole["runs"], whole["cost_usd"], whole["unpriced"]) == (4, 1.5, 1)
    page = (await web.get("/runs?fixer=b")).text
    assert '<option value="b" selected="">b</option>' in page


async def test_an_unknown_cost_is_unknown_everywhere(add_run: AddRun, web: httpx.AsyncClient) -> None:
    add_run(batch="b", arm="solo/a", cost="0.30")
    add_run(batch="b", arm="solo/a", cost=None)
    still = add_run(batch="b", arm="solo/a", cost=None, close=False)
    lines = {run["id"]: run["cost_usd"] for run in (await web.get("/runs.json")).json()["runs"]}
    assert lines[still] is (await web.get(f"/runs/{still}.json")).json()["run"]["cost_usd"] is None
    for path in ("/batch?name=b", "/runs"):
        page = (await web.get(path)).text
        assert "$0.30" in page and "$0.10" not in page and "$0.15" not in page, "the mean is of runs of known cost"


async def test_pages_of_runs_lead_to_each_other(
    add_run: AddRun, web: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrout.server.dashboard.runs.PAGE", 2)
    made = [add_run(f"issue {number}") for number in range(5)][::-1]
    first = (await web.get("/runs.json")).json()
    assert [run["id"] for run in first["runs"]] == made[:2]
    assert first["newer"] is None
    second = (await web.get(f"/runs.json?before={first['older']}")).json()
    assert [run["id"] for run in second["runs"]] == made[2:4]
    third = (await web.get(f"/runs.json?before={second['older']}")).json()
    assert [run["id"] for run in third["runs"]] == made[4:]
    assert third["older"] is None
    back = (await web.get(f"/runs.json?after={third['newer']}")).json()
    assert [run["id"] for run in back["runs"]] == made[2:4]
    again = (await web.get(f"/runs.json?after={back['newer']}")).json()
    assert [run["id"] for run in again["runs"]] == made[:2]
    assert again["newer"] is None


async def test_what_is_begun_and_closed_meanwhile_shows_up(
    add_run: AddRun, web: httpx.AsyncClient, ledger_path: Path
) -> None:
    from scrout.ledger.store import Ledger
    from scrout.task import Task

    add_run("first")
    assert len(await ids(web)) == 1
    task = Task(id="t", text="second", repo=Path("/r"), base_commit="c" * 40)
    with Ledger(ledger_path) as ledger:
        run = ledger.open(task, "s", sandbox="none", environment="none", batch="b", arm="solo/x")
        newest = (await web.get("/runs.json")).json()["runs"][0]
        assert (newest["id"], newest["finished"], newest["outcome"]) == (run.id, None, "interrupted")
        assert (await web.get("/batch.json?name=b")).json()["batch"]["live"]
        assert 'http-equiv="refresh"' in (await web.get("/batch?name=b")).text
        assert 'http-equiv="refresh"' not in (await web.get("/batch?name=b&still=1")).text
        run.close()
        newest = (await web.get("/runs.json")).json()["runs"][0]
        assert newest["finished"] is not None
        assert newest["outcome"] == "not_solved"
        assert not (await web.get("/batch.json?name=b")).json()["batch"]["live"]


async def test_a_run_that_was_left_alone_is_not_in_progress(
    add_run: AddRun, web: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = add_run(close=False, batch="b")
    again = 'http-equiv="refresh"'
    for path in (f"/runs/{run}", "/batches", "/batch?name=b"):
        page = (await web.get(path)).text
        assert again in page, path
        assert "Stop refreshing" in page
        quiet = (await web.get(path, params={"still": "1", "name": "b"})).text
        assert again not in quiet, path
        assert "Go on refreshing" in quiet
    assert "in progress" in (await web.get("/runs")).text
    monkeypatch.setattr(run_index, "BETWEEN_STEPS_S", 0)
    for path in ("/runs", f"/runs/{run}"):
        page = (await web.get(path)).text
        assert again not in page
        assert "in progress" not in page
        assert "not finished" in page


async def test_another_ledger_at_the_same_place_is_read_anew(
    add_run: AddRun, web: httpx.AsyncClient, ledger_path: Path, web_settings: object
) -> None:
    from scrout.server.dashboard.app import create_app

    add_run("old one")
    assert len(await ids(web)) == 1
    for path in ledger_path.parent.glob("ledger.db*"):
        if path.is_file():
            path.unlink()
    new = add_run("new one")
    transport = httpx.ASGITransport(create_app(web_settings))  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as other:
        assert await ids(other) == [new]
        assert await ids(other, words="old") == []


async def test_a_story_has_every_part(add_run: AddRun, web: httpx.AsyncClient, make_repo: Callable[..., Path]) -> None:
    source = "one = 1\ntwo = 2\nthree = 3\n" + "four = 4\n" * 4
    repo = make_repo({"larder/shelf.py": source})
    run = add_run(
        "Shelves fall\n\nAll of them.",
        repo=repo,
        commit=GitDir.of(repo).text("rev-parse", "HEAD"),
        notes="mind the gap",
    )
    page = (await web.get(f"/runs/{run}")).text
    for part in (
        "Shelves fall",
        "All of them.",
        "mind the gap",
        "real failure",
        "42%",
        "30% to 60%",
        "$0.20",
        "chosen",
    ):
        assert part in page, part
    assert '<span class="hit" id="file-1-line-2" data-line="2">' in page
    assert '<tr class="removed"><td class="at">8</td><td class="at"></td><td><pre>-removed line</pre></td></tr>' in page
    assert '<tr class="added"><td class="at"></td><td class="at">8</td><td><pre>+added line</pre></td></tr>' in page
    assert "some-model" in page
    assert "line 7 left out" in page
    twin = (await web.get(f"/runs/{run}.json")).json()
    assert twin["run"]["id"] == run
    shown = {"first": 1, "text": "\n".join(source.split("\n")[:6])}
    assert twin["sources"] == {"larder/shelf.py": {"lines": 7, "parts": [shown]}}
    bill = twin["bills"][0]
    assert (bill["component"], bill["fixer"], bill["calls"], bill["cost_usd"]) == ("fix", "agent-a", 1, 0.25)
    assert [one["name"] for one in twin["history"] if one["status"] == "done"] == [
        "scout",
        "gate",
        "route",
        "fix",
        "check",
    ]


async def test_no_git_runs_on_the_repository_of_a_story(
    add_run: AddRun, web: httpx.AsyncClient, make_repo: Callable[..., Path], tmp_path: Path, monkeypatch
) -> None:
    """Its configuration would be in force, and its alternates read."""
    repo = make_repo({"larder/shelf.py": "one = 1\n"})
    run = add_run(repo=repo, commit=GitDir.of(repo).text("rev-parse", "HEAD"))
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$GIT_DIR $*" >> {tmp_path}/asked\nexec /usr/bin/git "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    assert "larder/shelf.py" in (await web.get(f"/runs/{run}.json")).json()["sources"]
    asked = (tmp_path / "asked").read_text()
    assert "cat-file" in asked and str(repo) not in asked


def test_of_a_long_file_only_what_is_shown_is_kept() -> None:
    whole = "def f():\n    pass\n\n" + "x = 1\n" * 5000 + "class Shelf:\n" + "    y = 2\r\n" * 30 + "\n\n"
    twice = [FileRef(path="a.py", regions=((5020, 5021),)), FileRef(path="a.py", regions=((2, 3), (9999, 9999)))]
    source = code.cut(twice, whole)
    assert source.lines == 5036
    assert [(part.first, len(part.text.split("\n"))) for part in source.parts] == [(5004, 21), (1, 6)]
    last, first = ("".join(code.sections([ref], {"a.py": source}, "")[1:]) for ref in twice)
    assert 'class="hit" id="file-1-line-5020" data-line="5020">    y = <' in last
    assert "lines 1-5016 left out" in last
    assert "lines 5025-5036 left out" in last
    assert '<span class="hit" data-line="3"> </span>' in first
    assert "lines 7-5036 left out" in first


async def test_a_story_says_where_its_code_is_gone(add_run: AddRun, web: httpx.AsyncClient) -> None:
    run = add_run()
    assert "The code is not shown: commit cccccccccc is no longer in" in (await web.get(f"/runs/{run}")).text


@pytest.mark.parametrize(
    "path", ["../x", "/etc/passwd", "--help", ":/a.py", "*.py", "larder", "a\0b", "\ud800", "x" * 200_000]
)
async def test_a_path_that_no_commit_has_shows_no_code(
    path: str, add_run: AddRun, web: httpx.AsyncClient, make_repo: Callable[..., Path]
) -> None:
    repo = make_repo({"larder/shelf.py": "one = 1\n", "a.py": "two = 2\n"})
    run = add_run(repo=repo, commit=GitDir.of(repo).text("rev-parse", "HEAD"), path=path)
    answer = await web.get(f"/runs/{run}.json")
    assert answer.status_code == 200
    assert (answer.json()["sources"], answer.json()["sources_note"]) == ({}, "")
    assert "Not a text file of this commit" in (await web.get(f"/runs/{run}")).text


async def test_a_column_without_anything_is_left_out(add_run: AddRun, web: httpx.AsyncClient) -> None:
    add_run()
    assert ">Arm</th>" not in (await web.get("/runs")).text
    add_run(arm="solo/a", batch="b")
    assert ">Arm</th>" in (await web.get("/runs")).text


async def test_a_run_is_found_by_the_beginning_of_its_id(add_run: AddRun, web: httpx.AsyncClient) -> None:
    run = add_run()
    assert (await web.get(f"/runs/{run[:-2]}.json")).json()["run"]["id"] == run


async def test_a_conversation_is_told_turn_by_turn(
    add_run: AddRun, web: httpx.AsyncClient, ledger_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrout.server.dashboard.turns.PAGE", 2)
    run = add_run()
    history = (await web.get(f"/runs/{run}.json")).json()["history"]
    step = next(one["step"] for one in history if one["name"] == "fix" and one["status"] == "started")
    lines = [{"kind": "header", "model": "gpt-large"}]
    for number in (1, 2, 3):
        receipt = {
            "component": "fix",
            "model": "m",
            "usage": {"input_tokens": 7},
            "cost_usd": 0.5,
            "at": "2026-11-16T10:00:00Z",
        }
        said = {"text": f"thought {number}", "calls": [{"name": "bash", "arguments": {"command": f"ls {number}"}}]}
        new = [{"role": "assistant", "content": "echo"}, {"role": "tool", "content": f"seen {number}"}]
        lines.append(
            {"kind": "call", "call": number, "api": "chat", "status": 200, "asked": {"new": new}, "said": said}
            | {"receipt": receipt, "seconds": 1.0}
        )
    folder = ledger_path.parent / "attempts" / run / str(step)
    folder.mkdir(parents=True)
    (folder / "trajectory.jsonl").write_text("\n".join(json.dumps(line) for line in lines) + '\n{"kind": "call", "cal')
    first = (await web.get(f"/runs/{run}/steps/{step}.json")).json()
    assert first["model"] == "gpt-large"
    assert [turn["text"] for turn in first["turns"]] == ["thought 1", "thought 2"]
    assert first["turns"][0]["asked"][1] == {"who": "tool", "text": "seen 1"}
    assert first["turns"][0]["calls"] == [{"who": "bash", "text": "ls 1"}]
    assert first["more"]
    page = (await web.get(f"/runs/{run}/steps/{step}?first=2")).text
    assert "thought 3" in page
    assert "thought 1" not in page
    assert "<h1>Fix, turn by turn</h1>" in page
    assert page.count("its answer, sent back") == 1
    assert (
        f'<a href="/runs/{run}/steps/{step}">Its conversation, turn by turn</a>' in (await web.get(f"/runs/{run}")).text
    )


async def test_the_frontier_sets_routing_beside_the_mixing_line(add_run: AddRun, web: httpx.AsyncClient) -> None:
    for number in range(4):
        add_run(
            task_id=f"t{number}",
            batch="b",
            arm="solo/cheap",
            fixer="cheap",
            cost="0.10",
            check="passed" if number < 1 else "failed",
        )
        add_run(
            task_id=f"t{number}",
            batch="b",
            arm="solo/dear",
            fixer="dear",
            cost="1.10",
            check="passed" if number < 3 else "failed",
        )
        add_run(
            task_id=f"t{number}",
            batch="b",
            arm="handoff/routed",
            fixer="dear",
            cost="0.60",
            check="passed" if number < 3 else "failed",
        )
    view = (await web.get("/frontier.json?batch=b")).json()
    assert view["line"] == [[0.1, 0.25], [1.1, 0.75]]
    points = {point["label"]: point for point in view["points"]}
    assert points["handoff/routed"]["over_line"] == pytest.approx(0.25)
    assert points["solo/cheap"]["baseline"] == "always the cheapest"
    assert points["solo/dear"]["baseline"] == "always the strongest"
    assert any("the router was a constant" in words for words in view["findings"])
    page = (await web.get("/frontier?batch=b")).text
    assert page.count("<circle") == 2 and page.count('<rect class="mark routed"') == 1
    assert "25.0 points above" in page


async def test_a_patch_that_nothing_could_judge_counts_neither_way(add_run: AddRun, web: httpx.AsyncClient) -> None:
    for number in range(3):
        given = {"task_id": f"t{number}", "batch": "b"}
        add_run(**given, arm="solo/cheap", fixer="cheap", cost="0.10", check="unverified")
        add_run(**given, arm="solo/dear", fixer="dear", cost="1", check="unverified")
        add_run(**given, arm="handoff/routed", fixer="dear", cost="0.60", check="passed")
    view = (await web.get("/frontier.json?batch=b")).json()
    points = {point["label"]: point for point in view["points"]}
    alone = points["solo/dear"]
    assert (alone["solved"], alone["done"], alone["unverified"], alone["low"]) == (0, 3, 3, 0)
    assert alone["high"] > 0.99
    assert not any("strongest" in point["baseline"] for point in view["points"])
    assert any("3 of 3 of solo/cheap" in words and "grade the batch" in words for words in view["findings"])


async def test_a_graded_batch_is_judged_by_its_grades(
    add_run: AddRun, web: httpx.AsyncClient, ledger_path: Path
) -> None:
    from scrout.batch.folder import Batch, BatchFolder
    from scrout.batch.outputs.summary import summarize
    from scrout.ledger.store import Ledger

    arms, folder = ("handoff/a", "solo/a"), BatchFolder(ledger_path.parent)
    for arm in arms:
        for number in range(2):
            add_run(task_id=f"t{number}", batch="b", arm=arm, fixer="a", check="unverified")
    about = {"id": "b", "settings_digest": "s", "tasks_digest": "t", "tasks": 2, "arms": arms}
    batch = Batch.model_validate(about | {"started": "2026-11-16T10:00:00Z", "scrout": "0"})
    grades = [
        {"id": f"t{number}", "arm": arm, "verdict": "resolved" if arm == "solo/a" else "unresolved"}
        for arm in arms
        for number in range(2)
    ]
    folder.grades.write_text("".join(json.dumps(grade) + "\n" for grade in grades))
    with Ledger(ledger_path) as ledger:
        summarize(folder, batch, ledger)
    view = (await web.get("/frontier.json?batch=b")).json()
    assert view["judged_by"] == "grade"
    assert [(one["label"], one["solved"], one["unverified"], one["usd"]) for one in view["points"]] == [
        ("handoff/a", 0, 0, 0.25),
        ("solo/a", 2, 0, 0.25),
    ]
    add_run(task_id="t9", batch="b", arm="solo/a", fixer="a")
    assert (await web.get("/frontier.json?batch=b")).json()["judged_by"] == "check"


async def test_a_fixer_that_was_named_by_hand_was_not_routed(add_run: AddRun, web: httpx.AsyncClient) -> None:
    add_run(fixer="a", choice=False)
    assert [point["label"] for point in (await web.get("/frontier.json")).json()["points"]] == ["handoff/a"]
    add_run(fixer="a")
    points = {point["label"]: point["done"] for point in (await web.get("/frontier.json")).json()["points"]}
    assert points == {"handoff/a": 2, "handoff/routed": 1}


async def test_marks_at_one_place_have_names_at_different_places(add_run: AddRun, web: httpx.AsyncClient) -> None:
    for arm in ("solo/a", "solo/b", "solo/c"):
        add_run(batch="b", arm=arm, fixer=arm[-1])
    page = (await web.get("/frontier?batch=b")).text
    names = re.findall(r'<text x="([\d.]+)" y="([\d.]+)" class="name"', page)
    assert len(set(names)) == 3
    assert re.findall(r'class="tick" text-anchor="middle">([^<]+)', page)[:3] == ["$0.00", "$0.05", "$0.10"]


async def test_batches_tell_arms_and_progress(add_run: AddRun, web: httpx.AsyncClient, ledger_path: Path) -> None:
    add_run(batch="b-7", arm="solo/a", cost="0.5")
    add_run(batch="b-7", arm="handoff/a", cost="1", check="failed")
    about = {"id": "b-7", "settings_digest": "s", "tasks_digest": "t", "tasks": 3, "arms": ["solo/a", "handoff/a"]}
    about |= {"started": "2026-11-16T10:00:00Z", "scrout": "0"}
    (ledger_path.parent / "batch.json").write_text(json.dumps(about))
    view = (await web.get("/batch.json?name=b-7")).json()
    assert view["batch"]["expected"] == 6
    assert view["batch"]["totals"]["cost_usd"] == 1.5
    assert [(arm["arm"], arm["expected"]) for arm in view["arms"]] == [("handoff/a", 3), ("solo/a", 3)]
    assert "2 of 6" in (await web.get("/batches")).text
    about["arms"].append("solo/b")
    (ledger_path.parent / "batch.json").write_text(json.dumps(about))
    assert "0 of 3" in (await web.get("/batch?name=b-7")).text


async def test_fixers_are_shown_with_price_and_resume(web: httpx.AsyncClient) -> None:
    view = (await web.get("/fixers.json")).json()
    assert [one["name"] for one in view["pool"]] == ["repair"]
    assert len(view["resumes"]) >= 10
    assert all(one["public"] and 0 <= one["low"] <= one["high"] <= 1 for one in view["resumes"])


async def test_studies_name_their_command_and_what_they_lack(
    add_run: AddRun, web: httpx.AsyncClient, ledger_path: Path
) -> None:
    add_run()
    view = (await web.get("/studies.json")).json()
    frontier = next(study for study in view["studies"] if study["name"] == "frontier")
    assert frontier["command"] == f"scrout study frontier --ledger {ledger_path} --html frontier.html"
    assert not frontier["ready"]
    assert "1 runs are done" in frontier["lacks"]


async def test_what_had_nothing_to_solve_counts_for_no_solve(add_run: AddRun, web: httpx.AsyncClient) -> None:
    add_run("Import fails", cost="0.25")
    talk = add_run("hello", cost="3", outcome="unjudged", arm="auto", repo=Path("/"))
    page = (await web.get("/runs")).text
    assert "not judged" in page and f'"under">{talk}<' in page
    assert re.search(r"paid <b>\$3\.25</b>", page) and re.search(r"a solve <b>\$0\.25</b>", page)
    assert "1 of 1 done (100%)" in page
    frontier = (await web.get("/frontier.json")).text
    assert "3.0" not in frontier and "auto" not in frontier


async def test_a_study_that_was_made_is_shown_with_its_tables_and_pictures(web: httpx.AsyncClient) -> None:
    pytest.importorskip("matplotlib")
    hostile = "<script>alert(1)</script>"
    parts = [
        ReportTable(f"By fixer {hostile}", ["fixer", "$"], [[hostile, "1.00"]]),
        Figure("p", "A plot", lambda axes: axes.set_title("plot"), f"rises {hostile}"),
    ]
    made = save_study(
        "spend", StudyReport("Spend", [f"Half went to `small` {hostile}"], parts), f"ledger {hostile}", "scrout study"
    )
    listed = (await web.get("/studies")).text
    assert f"/study?id={made.id}" in listed and "<script" not in listed
    page = (await web.get("/study", params={"id": made.id})).text
    assert "<code>small</code>" in page and "1.00" in page and "<script" not in page
    (source,) = re.findall(r'<img class="plot" alt="[^"]*" src="([^"]+)">', page)
    picture = await web.get(html.unescape(source))
    assert picture.headers["content-type"].startswith("image/svg+xml") and "<svg" in picture.text
    assert "default-src 'none'" in picture.headers["content-security-policy"]
    twin = (await web.get("/study.json", params={"id": made.id})).json()
    assert twin["title"] == "Spend" and twin["parts"][0]["rows"] == [[hostile, "1.00"]]
    for wrong in ("", "../ledger", "spend-000000000000", f"{made.id}.json"):
        assert (await web.get("/study", params={"id": wrong})).status_code == 404
    for number in ("1", "", "999999", "-1"):
        answer = await web.get("/study/picture.svg", params={"id": made.id, "number": number})
        assert answer.status_code in (400, 404)


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/runs?outcome=good", 400, "It is one of solved"),
        ("/runs?before=x", 400, "is not a number"),
        ("/runs?before=9999999999999999999999", 400, "is not a number"),
        ("/runs?since=yesterday", 400, "Write a day such as"),
        ("/runs?since=9999-12-31&until=9999-12-31", 200, "No run is like that"),
        ("/runs.json?before=x", 400, '{"error":"Not understood","detail":"`before`'),
        ("/nowhere.json", 404, '{"error":"Not there"'),
        ("/runs/", 404, "No page has this address"),
        ("/runs?words=" + "x" * 600, 400, "the limit is 500"),
        ("/runs/20200101-000000-ffffff", 404, "no run in"),
        ("/runs/20200101-000000-ffffff/steps/1", 404, "no run in"),
        ("/batch", 404, "no run belongs to a batch"),
        ("/frontier?batch=none", 404, "no run belongs to a batch"),
        ("/nowhere", 404, "No page has this address"),
    ],
)
async def test_what_cannot_be_shown_is_said_in_words(
    path: str, status: int, words: str, web: httpx.AsyncClient
) -> None:
    answer = await web.get(path)
    assert answer.status_code == status
    assert words in answer.text


async def test_many_readers_at_once_get_whole_answers(add_run: AddRun, web: httpx.AsyncClient) -> None:
    run = add_run()
    paths = ["/runs", f"/runs/{run}", "/batches", "/frontier", "/fixers.json"] * 6
    answers = await asyncio.gather(*(web.get(path) for path in paths))
    assert {answer.status_code for answer in answers} == {200}


def test_a_diff_is_read_whatever_it_is() -> None:
    assert diff.read("") == []
    (odd,) = diff.read("no patch at all\n@@ nonsense\n")
    assert [row[0] for row in odd.rows] == ["i", "i"]
    first, second = diff.read(
        "diff --git a/a b/a\nnew file mode 100644\n--- /dev/null\n+++ b/a\n@@ -0,0 +1,2 @@\n+--- not a header\n"
        "+diff --git a/x b/x\n"
        "diff --git a/b b/b\n@@ -5 +5 @@\n-x\n+y\n\\ No newline at end of file\n"
    )
    assert (first.name, first.added, first.removed) == ("a", 2, 0)
    assert first.rows[-1] == ("+", None, 2, "diff --git a/x b/x")
    assert second.rows == [
        ("@", None, None, "@@ -5 +5 @@"),
        ("-", 5, None, "x"),
        ("+", None, 5, "y"),
        ("i", None, None, "\\ No newline at end of file"),
    ]


def test_who_reads_the_address_may_ask_at_once(web_settings: Settings) -> None:
    server = serve(web_settings, "127.0.0.1", 0, "")
    with closing(server._socket), socket.create_connection(("127.0.0.1", int(server.url.split(":")[2][:-1])), 5):
        pass


def test_serving_to_others_is_refused_without_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_TOKEN", raising=False)
    for arguments in (["--host", "0.0.0.0"], ["--token-env", "NO_SUCH_TOKEN"]):
        found = CliRunner().invoke(command, [*arguments, "--port", "0"])
        assert isinstance(found.exception, ConfigError)
