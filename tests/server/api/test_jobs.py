"""Stages as jobs: every operation, progress, keys, calling off, and what a killed server leaves."""

from __future__ import annotations

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import httpx
import jsonschema
import pytest

from scrout.config.settings import Settings
from scrout.ledger.opening import open_ledger
from scrout.models.chat import ToolCall
from scrout.models.scripted import ScriptedEndpoint, ScriptedReply
from scrout.models.scripted.script import Hang, ScriptedRequest
from scrout.money import Usage

if TYPE_CHECKING:
    from conftest import Server

USAGE = Usage(input_tokens=1000, output_tokens=50)
"""$0.0011."""
SAW = "sed -i s/prices.1:./prices/ shop/cart.py"


def _fixing(request: ScriptedRequest) -> ScriptedReply:
    """A fixer: one command, then it is done."""
    if len(request.content["messages"]) > 2:  # type: ignore[arg-type]
        return ScriptedReply(text="done", usage=USAGE)
    return ScriptedReply(calls=(ToolCall(id="1", name="bash", arguments={"command": SAW}),), usage=USAGE)


def _sleepers(seconds: str) -> int:
    """Processes that sleep for so long, wherever they run."""
    found = subprocess.run(["pgrep", "-xf", f"sleep {seconds}"], capture_output=True, text=True, check=False)
    return len(found.stdout.split())


def _as_described(described: dict[str, Any], name: str, record: object) -> None:
    schema = {"$ref": f"#/components/schemas/{name}", "components": described["components"]}
    jsonschema.Draft202012Validator(schema).validate(record)


def test_every_stage_gives_what_the_description_says(server: Server) -> None:
    with server.running() as api:
        described = httpx.get(f"{api.url}/openapi.json", verify=False).json()
        assert httpx.get(f"{api.url}/healthz", verify=False).json() == {"status": "ok"}
        jobs = {}
        for stage in ("scout", "gate", "route", "fix"):
            begun = api.client.post(f"/v1/{stage}", json={"issue": server.issue})
            assert begun.status_code == (200 if stage == "route" else 202), begun.text
            assert begun.headers["location"] == f"/v1/jobs/{begun.json()['id']}"
            jobs[stage] = api.ended(begun.json()["id"])
            _as_described(described, "Job", jobs[stage])
        for job in jobs.values():
            assert job["status"] == "done" and job["cost_usd"] == 0, job
            assert job["result"] and not job["error"]
        scouting = jobs["scout"]["result"]["scouting"]
        assert scouting["handoff"]["files"][0]["path"] == "shop/cart.py" and "state" not in scouting
        assert jobs["gate"]["result"]["gated"]["verdict"]
        assert jobs["route"]["result"]["decision"]["fixer"] == "repair" and not jobs["route"]["run"]
        assert jobs["fix"]["result"]["run"]["id"] == jobs["fix"]["run"]
        # One run: gate and fix went on from what the scout had found.
        assert jobs["scout"]["run"] == jobs["gate"]["run"] == jobs["fix"]["run"]
        by_run = api.client.post("/v1/route", json={"run": jobs["scout"]["run"]}).json()
        assert by_run["result"]["decision"]["fixer"] == "repair"
        listed = api.client.get("/v1/jobs").json()
        _as_described(described, "JobList", listed)
        assert [job["stage"] for job in listed["jobs"]] == ["route", "fix", "route", "gate", "scout"]
        assert all(job["result"] is None and job["status"] == "done" for job in listed["jobs"])
        assert len(api.client.get("/v1/jobs", params={"limit": 2}).json()["jobs"]) == 2
        again = api.client.delete(f"/v1/jobs/{jobs['fix']['id']}").json()
        assert again == jobs["fix"], "one that has ended stays as it is"


def test_progress_is_told_and_can_be_taken_up_again(server: Server) -> None:
    with server.running() as api:
        begun = api.client.post("/v1/scout", json={"issue": server.issue}).json()
        *told, last = api.events(begun["id"])
        assert [number for number, _, _ in told] == list(range(1, len(told) + 1))
        assert {"said": "scouting the repository"} in [data for _, _, data in told]
        assert last[:2] == (len(told) + 1, "job") and last[2]["status"] == "done" and last[2]["result"]
        # Late ones hear how it ended.
        assert [event[1] for event in api.events(begun["id"], after=1)] == ["job"]

        body = {"issue": server.issue, "handoff": server.slow(0.51)}
        begun = api.client.post("/v1/gate", json=body).json()
        api.at_work(begun["id"], "replaying")
        *told, last = api.events(begun["id"], after=1)
        assert [number for number, _, _ in told][:1] == [2] and last[1] == "job"
        assert api.client.head(f"/v1/jobs/{begun['id']}/events").status_code == 200


def test_a_job_is_waited_for_as_long_as_it_is_asked_to(server: Server) -> None:
    with server.running() as api:
        scouted = api.client.post("/v1/scout", params={"wait": 60}, json={"issue": server.issue})
        assert scouted.status_code == 200 and scouted.json()["status"] == "done"
        body = {"issue": server.issue, "handoff": server.slow(211.1)}
        begun = api.client.post("/v1/gate", params={"wait": 0.1}, json=body)
        assert begun.status_code == 202 and begun.json()["status"] == "running"
        job = begun.json()["id"]
        waited = api.client.get(f"/v1/jobs/{job}", params={"wait": 0.1}).json()
        assert waited["status"] == "running" and waited["ended"] is None


def test_calling_off_ends_the_sandbox_and_what_is_in_it(server: Server) -> None:
    with server.running() as api:
        body = {"issue": server.issue, "handoff": server.slow(213.7)}
        job = api.client.post("/v1/gate", json=body).json()["id"]
        api.at_work(job, "replaying")
        while not _sleepers("213.7"):
            time.sleep(0.01)
        with ThreadPoolExecutor(4) as pool:
            ended = list(pool.map(lambda _: api.client.delete(f"/v1/jobs/{job}").json(), range(4)))
        assert {one["status"] for one in ended} == {"called_off"} and not _sleepers("213.7")
        assert api.client.get(f"/v1/jobs/{job}").json()["status"] == "called_off"
        # One that has not begun to work can be ended, too.
        many = [api.client.post("/v1/gate", json=body).json()["id"] for _ in range(6)]
        assert all(api.client.delete(f"/v1/jobs/{one}").json()["status"] == "called_off" for one in many)
        assert not _sleepers("213.7")


def test_a_key_makes_one_job_whoever_sends_it_how_often(server: Server) -> None:
    server.configure(server.caller, server.caller.replace('"ci"', '"other"').replace("CI_AUTH", "OTHER_AUTH"))
    key = {"Idempotency-Key": "the-same"}
    body = {"issue": server.issue}
    with server.running() as api:
        with ThreadPoolExecutor(8) as pool:
            ask = lambda _: api.client.post("/v1/scout", json=body, headers=key)  # noqa: E731
            answers = list(pool.map(ask, range(16)))
        assert {answer.status_code for answer in answers} <= {200, 202}, [answer.text for answer in answers]
        (job,) = {answer.json()["id"] for answer in answers}
        done = api.ended(job)
        other = api.client.post("/v1/scout", json={"issue": "something else"}, headers=key)
        assert other.status_code == 422 and "Use a new one" in other.json()["detail"]
        # A key is a caller's and a stage's own.
        assert api.client.post("/v1/route", json=body, headers=key).json()["id"] != job
        headers = {"Authorization": f"Bearer {server.env['OTHER_AUTH']}"}
        theirs = httpx.Client(base_url=api.url, headers=headers, verify=False)
        with theirs:
            assert theirs.post("/v1/route", json=body, headers=key).status_code == 200
            assert theirs.get(f"/v1/jobs/{job}").status_code == theirs.delete(f"/v1/jobs/{job}").status_code == 404
            assert theirs.get(f"/v1/jobs/{job}/events").status_code == 404
            assert len(theirs.get("/v1/jobs").json()["jobs"]) == 1
        assert len([one for one in api.client.get("/v1/jobs").json()["jobs"] if one["stage"] == "scout"]) == 1
    with server.running() as api:
        again = api.client.post("/v1/scout", json=body, headers=key)
        assert again.status_code == 200 and again.json() == done


@pytest.mark.slow
def test_a_killed_server_leaves_nothing_behind_that_is_not_told(server: Server) -> None:
    """Its job is interrupted, what it paid is on the bill, and the same key goes on without paying again."""
    waits: list[float] = [120.0]

    def script(request: ScriptedRequest) -> ScriptedReply:
        if len(request.content["messages"]) <= 2 or not waits:  # type: ignore[arg-type]
            return _fixing(request)
        return ScriptedReply(text="done", usage=USAGE, fault=Hang(waits.pop()))

    key = {"Idempotency-Key": "once"}
    with ScriptedEndpoint(script) as endpoint:
        server.configure(server.caller, server.agent("small", endpoint.base_url))
        with server.process() as api:
            job = api.client.post("/v1/fix", json={"issue": server.issue}, headers=key).json()["id"]
            while endpoint.served < 2:
                time.sleep(0.01)
            assert api.budget()["held_usd"] == 2
            api.kill()
        with server.running() as api:
            told = api.client.get(f"/v1/jobs/{job}").json()
            assert told["status"] == "interrupted" and "again" in told["error"] and told["ended"]
            budget = api.budget()
            # One call was answered; the other was under way and may be billed.
            assert budget["held_usd"] == 0 and 0.0011 < budget["spent_usd"] <= 2
            assert told["cost_usd"] == budget["spent_usd"] and told["run"]
            again = api.client.post("/v1/fix", json={"issue": server.issue}, headers=key)
            assert again.json()["id"] == job and again.status_code == 202
            done = api.ended(job)
            assert done["status"] == "done" and done["run"] == told["run"], done
            run = done["result"]["run"]
            assert run["outcome"] in ("solved", "unverified") and "prices[1:]" in run["attempts"][-1]["patch"]
            assert endpoint.served == 4, "two calls of the killed attempt, two of the next"
            settled = api.budget()
            assert settled["spent_usd"] == pytest.approx(done["cost_usd"]) == pytest.approx(run["cost_usd"])
        with open_ledger(Settings()) as ledger:
            (run_id,) = ledger.run_ids()
            steps = [step.name for step in ledger.steps(run_id) if step.status == "done"]
        assert steps.count("scout") == 1, "it was scouted once"
        assert "0 problems" in server.scrout("ledger", "audit")


def test_a_server_that_is_ended_interrupts_its_jobs_and_tells_who_waits(server: Server) -> None:
    body = {"issue": server.issue, "handoff": server.slow(217.3)}
    with ThreadPoolExecutor(2) as pool, server.running() as api:
        job = api.client.post("/v1/gate", json=body).json()["id"]
        api.at_work(job, "replaying")
        told = pool.submit(lambda: list(api.events(job)))
        waited = pool.submit(lambda: api.client.get(f"/v1/jobs/{job}", params={"wait": 60}).json())
        time.sleep(0.3)
        api.end()
        assert waited.result()["status"] == told.result()[-1][2]["status"] == "interrupted"
    assert not _sleepers("217.3")


def test_jobs_and_requests_are_rationed(server: Server) -> None:
    server.configure(server.caller.replace("jobs = 8", "jobs = 2").replace("100000", "60"))
    body = {"issue": server.issue, "handoff": server.slow(219.9)}
    with server.running() as api:
        assert [api.client.post("/v1/gate", json=body).status_code for _ in range(2)] == [202, 202]
        third = api.client.post("/v1/scout", json={"issue": server.issue})
        assert third.status_code == 429 and int(third.headers["retry-after"]) >= 1
        assert "2 at a time" in third.json()["detail"]
        assert api.client.post("/v1/route", json={"issue": server.issue}).status_code == 200
        statuses = [api.client.get("/v1/budget").status_code for _ in range(60)]
        assert set(statuses) == {200, 429} and httpx.get(f"{api.url}/healthz", verify=False).status_code == 200
        refused = next(r for _ in range(99) if (r := api.client.get("/v1/budget")).status_code == 429)
        assert int(refused.headers["retry-after"]) >= 1 and "60 times a minute" in refused.json()["detail"]


def test_what_may_cost_needs_a_budget(server: Server, endpoint: ScriptedEndpoint) -> None:
    pool = server.agent("small", endpoint.base_url)
    server.configure(server.caller.replace("budget_usd = 100", "budget_usd = 1.99"), pool)
    with server.running() as api:
        refused = api.client.post("/v1/fix", json={"issue": server.issue})
        assert refused.status_code == 402 and "$2.00" in refused.json()["detail"], refused.text
        assert "budget_usd" in refused.json()["detail"] and api.budget()["held_usd"] == 0
        assert api.client.get("/v1/jobs").json() == {"jobs": []}
        assert api.client.post("/v1/scout", json={"issue": server.issue}).status_code == 202, "recon is free"
    server.configure(
        server.caller.replace("budget_usd = 100", "budget_usd = 0"), pool.replace("1,", "0,").replace("2 }", "0 }")
    )
    with server.running() as api:
        assert api.client.post("/v1/fix", json={"issue": server.issue}).status_code == 202, "its tokens are free"
    assert not any(request.headers.get("authorization") is None for request in endpoint.requests)


def test_fixes_at_once_never_pass_the_budget(server: Server) -> None:
    """Of five that may cost $2 each, a budget of $5 lets two in at a time."""
    with ScriptedEndpoint(_fixing) as endpoint:
        server.configure(
            server.caller.replace("budget_usd = 100", "budget_usd = 5"), server.agent("small", endpoint.base_url)
        )
        with server.running() as api, ThreadPoolExecutor(5) as pool:
            issues = [f"{server.issue} ({number})" for number in range(5)]
            begun = list(pool.map(lambda issue: api.client.post("/v1/fix", json={"issue": issue}), issues))
            assert sorted(one.status_code for one in begun) == [202, 202, 402, 402, 402]
            assert api.budget()["remaining_usd"] == pytest.approx(1, abs=0.1)
            done = [api.ended(one.json()["id"]) for one in begun if one.status_code == 202]
            assert {one["status"] for one in done} == {"done"}
            budget = api.settled()
            assert budget["spent_usd"] == pytest.approx(sum(one["cost_usd"] for one in done)) == pytest.approx(0.0044)


def test_a_caller_may_what_its_entry_says(server: Server) -> None:
    server.configure(server.caller.replace('may = ["scout", "gate", "route", "fix", "auto"]', 'may = ["route"]'))
    with server.running() as api:
        for stage in ("scout", "gate", "fix"):
            refused = api.client.post(f"/v1/{stage}", json={"issue": server.issue})
            assert refused.status_code == 403 and "`may`" in refused.json()["detail"]
        assert api.client.post("/v1/route", json={"issue": server.issue}).status_code == 200
        assert api.chat().status_code == 403 and api.client.get("/v1/models").json()["data"] == []
        assert api.budget()["may"] == ["route"]
