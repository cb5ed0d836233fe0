"""What the pages and their twins say."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from scrout.cli.serve import command
from scrout.errors import ConfigError
from scrout.git import text
from scrout.web import diff, shelf

AddRun = Callable[..., str]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer is of this moment."""
    monkeypatch.setattr(shelf, "REFRESH_S", 0)


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
    assert totals == {"runs": 2, "outcomes": {"not_solved": 1, "solved": 1}, "cost_usd": 1.25, "unpriced": 0}
    whole = (await web.get("/runs.json")).json()["totals"]
    assert (whole["runs"], whole["cost_usd"], whole["unpriced"]) == (4, 1.5, 1)
    page = (await web.get("/runs?fixer=b")).text
    assert '<option value="b" selected="">b</option>' in page


async def test_pages_of_runs_lead_to_each_other(
    add_run: AddRun, web: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrout.web.runs.PAGE", 2)
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


async def test_another_ledger_at_the_same_place_is_read_anew(
    add_run: AddRun, web: httpx.AsyncClient, ledger_path: Path, web_settings: object
) -> None:
    from scrout.web.app import create_app

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
    repo = make_repo({"larder/shelf.py": "one = 1\ntwo = 2\nthree = 3\nfour = 4\n"})
    run = add_run(
        "Shelves fall\n\nAll of them.", repo=repo, commit=text("rev-parse", "HEAD", cwd=repo), notes="mind the gap"
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
    twin = (await web.get(f"/runs/{run}.json")).json()
    assert twin["run"]["id"] == run
    assert twin["sources"] == {"larder/shelf.py": "one = 1\ntwo = 2\nthree = 3\nfour = 4\n"}
    bill = twin["bills"][0]
    assert (bill["component"], bill["fixer"], bill["calls"], bill["cost_usd"]) == ("fix", "agent-a", 1, 0.25)
    assert [one["name"] for one in twin["history"] if one["status"] == "done"] == [
        "scout",
        "gate",
        "route",
        "fix",
        "check",
    ]


async def test_a_story_says_where_its_code_is_gone(add_run: AddRun, web: httpx.AsyncClient) -> None:
    run = add_run()
    assert "The code is not shown: commit cccccccccc is no longer in" in (await web.get(f"/runs/{run}")).text


async def test_a_run_is_found_by_the_beginning_of_its_id(add_run: AddRun, web: httpx.AsyncClient) -> None:
    run = add_run()
    assert (await web.get(f"/runs/{run[:-2]}.json")).json()["run"]["id"] == run


async def test_a_conversation_is_told_turn_by_turn(
    add_run: AddRun, web: httpx.AsyncClient, ledger_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrout.web.turns.PAGE", 2)
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
        new = [{"role": "tool", "content": f"seen {number}"}]
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
    assert first["turns"][0]["asked"] == [{"who": "tool", "text": "seen 1"}]
    assert "ls 1" in first["turns"][0]["calls"][0]["text"]
    assert first["more"]
    page = (await web.get(f"/runs/{run}/steps/{step}?first=2")).text
    assert "thought 3" in page
    assert "thought 1" not in page


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
    assert page.count("<circle") == 3
    assert "25.0 points above" in page


async def test_batches_tell_arms_and_progress(add_run: AddRun, web: httpx.AsyncClient, ledger_path: Path) -> None:
    add_run(batch="b-7", arm="solo/a", cost="0.5")
    add_run(batch="b-7", arm="handoff/a", cost="1", check="failed")
    about = {"id": "b-7", "settings_digest": "s", "tasks_digest": "t", "tasks": 3, "arms": ["solo/a", "handoff/a"]}
    about |= {"started": "2026-11-16T10:00:00Z", "scrout": "0"}
    (ledger_path.parent / "batch.json").write_text(json.dumps(about))
    view = (await web.get("/batch.json?name=b-7")).json()
    assert view["batch"]["expected"] == 6
    assert view["batch"]["totals"]["cost_usd"] == 1.5
    assert [arm["arm"] for arm in view["arms"]] == ["handoff/a", "solo/a"]
    assert "2 of 6" in (await web.get("/batches")).text


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
    assert "1 runs were judged" in frontier["lacks"]


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/runs?outcome=good", 400, "It is one of solved"),
        ("/runs?before=x", 400, "is no number"),
        ("/runs?before=9999999999999999999999", 400, "is no number"),
        ("/runs?since=yesterday", 400, "Write a day such as"),
        ("/runs?words=" + "x" * 600, 400, "at most 500"),
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


def test_serving_to_others_is_refused_without_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_TOKEN", raising=False)
    for arguments in (["--host", "0.0.0.0"], ["--token-env", "NO_SUCH_TOKEN"]):
        found = CliRunner().invoke(command, [*arguments, "--port", "0"])
        assert isinstance(found.exception, ConfigError)
