"""`scrout/auto`: a conversation is routed once and then kept, every call is booked, and every cap holds."""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from scrout.config.folders import data_folder
from scrout.config.settings import Settings
from scrout.ledger.opening import open_ledger
from scrout.ledger.store import Ledger
from scrout.models.scripted import ScriptedEndpoint, ScriptedReply
from scrout.models.scripted.script import Cut, Drip, Hang, Reset, ScriptedRequest, Stall, Status
from scrout.money import Usage

if TYPE_CHECKING:
    from conftest import Server

USAGE = Usage(input_tokens=1000, output_tokens=50)
COST = 0.0011
"""Of a call with that usage, at a dollar a million in and two out."""


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with open_ledger(Settings()) as opened:
        yield opened


def _pool(server: Server, endpoint: ScriptedEndpoint, small: str = "", api: str = "", budget: str = "100") -> None:
    """Two fixers that can talk, one that cannot, and a caller."""
    server.configure(
        f"[api]\n{api}",
        server.caller.replace("budget_usd = 100", f"budget_usd = {budget}"),
        '[[fixers]]\nname = "repair"\nkind = "repair"\n',
        server.agent("small", endpoint.base_url, f'resume = "mini/gpt-5-mini"\n{small}'),
        server.agent("big", endpoint.base_url, small),
    )


def _said(response: httpx.Response) -> str:
    text: str = response.raise_for_status().json()["choices"][0]["message"]["content"]
    return text


def test_a_conversation_is_routed_once_and_kept(server: Server, endpoint: ScriptedEndpoint, ledger: Ledger) -> None:
    """Twenty first requests at once, then more, later and after a restart: one fixer, however the pool is ordered."""
    _pool(server, endpoint, api="idle_s = 1")
    with server.running() as api:
        with ThreadPoolExecutor(20) as pool:
            first = list(pool.map(lambda _: api.chat(), range(20)))
        assert {answer.status_code for answer in first} == {200}, first[0].text
        (fixer,) = {answer.headers["x-scrout-fixer"] for answer in first}
        (run_id,) = {answer.headers["x-scrout-run"] for answer in first}
        (reason,) = {answer.headers["x-scrout-reason"] for answer in first}
        assert reason and {_said(answer) for answer in first} == {f"hello from {fixer}-model"}
        assert first[0].headers["x-scrout-model"] == f"{fixer}-model"
        # What follows in a conversation has the same beginning.
        turns = [{"role": "user", "content": "fix the total"}, {"role": "assistant", "content": "ok"}]
        more = api.chat(messages=[*turns, {"role": "user", "content": "and now the rest"}])
        assert more.headers["x-scrout-run"] == run_id
        assert api.budget()["held_usd"] > 0
        budget = api.settled()  # it has been quiet
        assert budget["spent_usd"] == pytest.approx(21 * COST)
        later = api.chat()
        assert later.headers["x-scrout-fixer"] == fixer and later.headers["x-scrout-run"] != run_id
        another = api.chat(headers={"X-Scrout-Conversation": "another"})
        assert another.headers["x-scrout-run"] not in (run_id, later.headers["x-scrout-run"])
        named = api.chat("something else", headers={"X-Scrout-Conversation": "another"})
        assert named.headers["x-scrout-run"] == another.headers["x-scrout-run"]
    run = ledger.run(run_id)
    assert run.outcome == "unjudged" and run.decision and run.decision.fixer == fixer
    assert run.arm == "auto" and run.task.text == "fix the total" and run.decision.reason.startswith(reason[:20])
    (attempt,) = run.attempts
    assert attempt.fixer == fixer and attempt.calls == 21 and float(run.cost_usd or 0) == pytest.approx(21 * COST)
    assert len(ledger.run_ids()) == 3
    assert "0 problems" in server.scrout("ledger", "audit")

    # The other one would be chosen now, were it not kept.
    losing = "big" if fixer == "small" else "small"
    config = server.repo.parent / f"{server.repo.name}.toml"
    config.write_text(config.read_text() + f'\n[route]\nanchor = "{losing}"\nmin_solve = 1\n')
    with server.running() as api:
        assert api.chat().headers["x-scrout-fixer"] == fixer
        assert api.chat("a new one").headers["x-scrout-fixer"] == losing
    # One that is gone is not kept.
    config.write_text(config.read_text().replace(f'name = "{fixer}"', 'name = "renamed"'))
    with server.running() as api:
        assert api.chat().headers["x-scrout-fixer"] == losing


def test_a_stream_passes_as_it_comes_and_is_booked(server: Server) -> None:
    def script(request: ScriptedRequest) -> ScriptedReply:
        fault = Stall(600) if "never ends" in request.body else None
        return ScriptedReply(text="one two three four five", usage=USAGE, fault=fault)

    with ExitStack() as endpoints:
        _pool(server, endpoints.enter_context(ScriptedEndpoint(script)), api="idle_s = 0.2")
        with server.running() as api, endpoints:
            body = {"model": "scrout/auto", "stream": True, "messages": [{"role": "user", "content": "fix it"}]}
            with api.client.stream("POST", "/v1/chat/completions", json=body) as answer:
                assert (
                    answer.headers["content-type"].startswith("text/event-stream") and answer.headers["x-scrout-fixer"]
                )
                *came, last = [line for line in answer.iter_lines() if line]
            assert last == "data: [DONE]"
            said = [json.loads(line[6:]) for line in came]
            assert "".join(one["choices"][0]["delta"].get("content") or "" for one in said) == "one two three four five"
            assert not any(one.get("usage") for one in said), "it was not asked for"
            assert api.settled()["spent_usd"] == pytest.approx(COST)
            # Of an answer that stalls, what there is comes: it is not held back until its end.
            body["messages"] = [{"role": "user", "content": "this never ends"}]
            with api.client.stream("POST", "/v1/chat/completions", json=body) as answer:
                assert next(answer.iter_lines()).startswith("data: {")


@pytest.mark.slow
def test_a_client_that_goes_away_is_billed_all_the_same(server: Server) -> None:
    """In the middle of a stream, and before anything came: the call goes on, and is booked by its usage."""

    def script(request: ScriptedRequest) -> ScriptedReply:
        fault = Stall(0.3) if request.content.get("stream") else Hang(0.4)
        return ScriptedReply(text="one two three four", usage=USAGE, fault=fault)

    with ScriptedEndpoint(script) as endpoint:
        _pool(server, endpoint, api="idle_s = 1.5")
        with server.running() as api:
            body = {"model": "scrout/auto", "stream": True, "messages": [{"role": "user", "content": "fix it"}]}
            with api.client.stream("POST", "/v1/chat/completions", json=body) as answer:
                next(answer.iter_bytes(1))
            with pytest.raises(httpx.ReadTimeout):
                api.client.post("/v1/chat/completions", json={**body, "stream": False}, timeout=0.2)
            assert endpoint.served == 2
            # Nobody talks, so the conversation is quiet, and its account is closed.
            assert api.settled()["spent_usd"] == pytest.approx(2 * COST)


def test_the_fixers_caps_hold_for_the_whole_conversation(server: Server, endpoint: ScriptedEndpoint) -> None:
    """Over several accounts, a restart and a kill; another conversation has caps of its own."""
    _pool(server, endpoint, "cap_calls = 5", api="idle_s = 0.2")
    with server.running() as api:
        assert [api.chat().status_code for _ in range(2)] == [200, 200]
        api.settled()
        assert api.chat().status_code == 200
        api.settled()
    with server.process() as killed:
        assert killed.chat().status_code == 200
        killed.kill()
    with server.running() as api:
        assert api.budget()["spent_usd"] == pytest.approx(4 * COST) and api.budget()["held_usd"] == 0
        with ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(lambda _: api.chat(), range(6)))
        assert Counter(answer.status_code for answer in answers) == {200: 1, 429: 5}
        refused = next(answer for answer in answers if answer.status_code == 429).json()["error"]
        assert "5 calls" in refused["message"] and refused["type"] == "insufficient_quota"
        assert api.chat().status_code == 429 and endpoint.served == 5
        assert api.chat("another one").status_code == 200


@pytest.mark.slow
def test_dollars_are_capped_too_and_so_is_the_budget(server: Server, ledger: Ledger) -> None:
    with ScriptedEndpoint(
        lambda _: ScriptedReply(text="ok", usage=Usage(input_tokens=1, output_tokens=1000))
    ) as endpoint:
        _pool(server, endpoint, "cap_usd = 0.011", api="idle_s = 0.2")
        with server.running() as api:
            statuses = [api.chat().status_code for _ in range(12)]
            assert set(statuses) == {200, 429} and statuses == sorted(statuses)
            spent = api.settled()["spent_usd"]
            assert len(ledger.run_ids()) == 1, "what is refused makes no run"
            assert 0.002 <= spent <= 0.011 and spent == pytest.approx(statuses.count(200) * 0.002001)
        _pool(server, endpoint, api="idle_s = 0.2", budget=f"{spent + 0.016:.6f}")
        with server.running() as api:
            statuses = [api.chat(f"talk {number}").status_code for number in range(3)]
            assert statuses == [200, 402, 402], "all that is left is held for the first"
            refused = api.chat("talk 2").json()["error"]
            assert "budget_usd" in refused["message"] and refused["type"] == "insufficient_quota"
            assert api.settled()["spent_usd"] == pytest.approx(spent + 0.002001)
            long = api.chat("x" * 20_000)
            assert long.status_code == 402 and "this call may cost more" in long.json()["error"]["message"]
            api.settled()
            assert api.chat("talk 1").status_code == 200, "what was not spent is there again"


def test_endpoints_that_fail(server: Server) -> None:
    faults: dict[str, Any] = {
        "500": Status(500),
        "401": Status(401, message="Incorrect API key provided: endpoint-key-5b1d2c"),
        "429": Status(429, headers={"retry-after": "7"}),
        "reset": Reset(),
        "cut": Cut(),
    }

    def script(request: ScriptedRequest) -> ScriptedReply:
        content = request.content["messages"][0]["content"]  # type: ignore[index,call-overload]
        return ScriptedReply(text="some words", usage=USAGE, fault=faults.get(str(content)))

    with ScriptedEndpoint(script) as endpoint:
        _pool(server, endpoint, api="idle_s = 0.2")
        with server.running(quiet=False) as api:
            failed = api.chat("500")
            assert failed.status_code == 500 and failed.headers["x-scrout-fixer"] and failed.json()["error"]
            limited = api.chat("429")
            assert limited.status_code == 429 and limited.headers["retry-after"] == "7"
            for _ in range(2):
                unusable = api.chat("401")
                assert unusable.status_code == 502 and "key" in unusable.json()["error"]["message"]
                assert server.env["POOL_AUTH"] not in unusable.text
            assert api.chat("reset").status_code == 502
            assert api.settled()["spent_usd"] > 0, "what was lost on the way may have been billed"
            with pytest.raises(httpx.RemoteProtocolError):
                api.chat("cut", stream=True)
            assert api.chat("fine").status_code == 200
    with server.running() as api:  # nobody listens there any more
        dead = api.chat("fine")
        assert dead.status_code in (502, 503) and dead.json()["error"]["message"]
    assert "0 problems" in server.scrout("ledger", "audit")


@pytest.mark.slow
def test_nothing_stays_open(server: Server) -> None:
    """Files and sockets of the server, after talks that ended, broke off, were left or refused, and after jobs."""

    def script(request: ScriptedRequest) -> ScriptedReply:
        fault = Drip(0.001) if request.content.get("stream") else None
        return ScriptedReply(text="one two three", usage=USAGE, fault=fault)

    def use(api: Any, number: int) -> None:
        assert api.chat(f"talk {number}").status_code == 200
        body = {"model": "scrout/auto", "stream": True, "messages": [{"role": "user", "content": f"left {number}"}]}
        with api.client.stream("POST", "/v1/chat/completions", json=body) as answer:
            if number % 2:
                next(answer.iter_bytes(1))
        assert api.chat(tools=[{"type": "web_search"}]).status_code == 400
        job = api.client.post("/v1/route", json={"issue": f"issue {number}"}).json()["id"]
        assert [kind for _, kind, _ in api.events(job)] == ["job"]

    with ScriptedEndpoint(script) as endpoint:
        _pool(server, endpoint, api="idle_s = 0.2")
        with server.process() as api:
            files = Path(f"/proc/{api.process.pid}/fd")
            counts = []
            for first in (0, 10):
                for number in range(first, first + 8):
                    use(api, number)
                api.settled()
                counts.append(len(list(files.iterdir())))
            assert counts[1] <= counts[0] + 2, counts


def test_a_server_without_the_endpoints_key_says_so(server: Server, endpoint: ScriptedEndpoint) -> None:
    _pool(server, endpoint)
    bare = type(server)(server.repo, {**server.env, "POOL_AUTH": ""})
    with bare.running() as api:
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: api.chat(), range(8)))
        assert {answer.status_code for answer in answers} == {503}
        assert "POOL_AUTH" in answers[0].json()["error"]["message"]
        assert api.budget()["held_usd"] == 0 and not endpoint.served


def test_keys_stay_where_they_belong(server: Server) -> None:
    """The endpoint's is not told to a client, nor the client's to the endpoint."""

    def script(request: ScriptedRequest) -> ScriptedReply:
        return ScriptedReply(text=f"you sent {request.headers.get('authorization')}", usage=USAGE)

    with ScriptedEndpoint(script) as endpoint:
        _pool(server, endpoint)
        key, token = server.env["POOL_AUTH"], server.env["CI_AUTH"]
        with server.running() as api:
            whole = api.chat(headers={"X-Api-Key": token, "Cookie": token, "OpenAI-Organization": token})
            streamed = api.chat(stream=True)
        for answer in (whole, streamed):
            assert answer.status_code == 200 and "you sent" in answer.text and key not in answer.text
            assert key not in str(answer.headers)
        for request in endpoint.requests:
            assert request.headers["authorization"] == f"Bearer {key}"
            assert token not in str(request.headers) + request.body


def test_what_is_no_conversation_is_refused(server: Server, endpoint: ScriptedEndpoint) -> None:
    _pool(server, endpoint)
    with server.running() as api:
        (about,) = api.client.get("/v1/models").json()["data"]
        assert about["id"] == "scrout/auto"
        wrong: list[tuple[dict[str, Any], int, str]] = [
            ({"model": "gpt-5"}, 404, "scrout/auto"),
            ({"model": None}, 404, "scrout/auto"),
            ({"messages": []}, 400, "messages"),
            ({"messages": "hello"}, 400, "messages"),
            ({"messages": [{"role": "system", "content": "be kind"}]}, 400, "user"),
            ({"messages": [{"role": "user", "content": "  "}]}, 400, "user"),
            ({"tools": [{"type": "web_search"}]}, 400, "web_search"),
            ({"web_search_options": {"user_location": None}}, 400, "web_search"),
        ]
        for change, status, words in wrong:
            refused = api.chat(**change)
            assert refused.status_code == status and words in refused.json()["error"]["message"], refused.text
        for name in ("", "two words", "x" * 201, "é"):
            headers = {"X-Scrout-Conversation": name.encode()}
            assert api.chat(headers=headers).status_code == 422, name
        assert not endpoint.served
        parts = [
            {"type": "text", "text": "fix it"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
        ]
        assert api.chat(messages=[{"role": "user", "content": parts}]).status_code == 200
        odd = '{"model": "scrout/auto", "messages": [{"role": "user", "content": "\\ud800 \\u0000 x"}]}'
        headers = {"Content-Type": "application/json"}
        assert api.client.post("/v1/chat/completions", content=odd, headers=headers).status_code == 200
        assert api.chat("größer 大").status_code == 200
        assert "größer 大" in endpoint.requests[-1].body, "as it came: escapes would count as more tokens"
    server.configure(server.caller)
    with server.running() as api:
        nobody = api.chat()
        assert nobody.status_code == 404 and "[[fixers]]" in nobody.json()["error"]["message"]
        assert api.client.get("/v1/models").json()["data"] == []


@pytest.mark.slow
def test_a_server_that_is_killed_in_a_call_books_it_once(server: Server, ledger: Ledger) -> None:
    with ScriptedEndpoint(lambda _: ScriptedReply(text="ok", usage=USAGE, fault=Hang(60))) as endpoint:
        _pool(server, endpoint)
        with server.process() as api, ThreadPoolExecutor(1) as pool:
            asking = pool.submit(api.chat)
            while not endpoint.served:
                time.sleep(0.01)
            held = api.budget()["held_usd"]
            api.kill()
            with pytest.raises(httpx.HTTPError):
                asking.result()
        for _ in range(2):
            with server.running() as api:
                budget = api.budget()
                assert budget["held_usd"] == 0 and 0 < budget["spent_usd"] <= held
    (run_id,) = ledger.run_ids()
    (receipt,) = (receipt for step in ledger.steps(run_id) for receipt in step.receipts)
    assert receipt.estimated and float(receipt.cost_usd or 0) == budget["spent_usd"]
    assert "0 problems" in server.scrout("ledger", "audit")


def test_a_server_that_is_ended_lets_an_answer_come_in(server: Server, ledger: Ledger) -> None:
    with ScriptedEndpoint(lambda _: ScriptedReply(text="ok", usage=USAGE, fault=Hang(0.5))) as endpoint:
        _pool(server, endpoint)
        with ThreadPoolExecutor(1) as pool, server.running() as api:
            asking = pool.submit(api.chat)
            while not endpoint.served:
                time.sleep(0.01)
            api.end()
            assert _said(asking.result()) == "ok"
    (run_id,) = ledger.run_ids()
    assert ledger.run(run_id).outcome == "unjudged" and not _receipts(ledger, run_id)[0].estimated
    with sqlite3.connect(data_folder() / "api.db") as db:
        assert db.execute("SELECT count(*) FROM spending WHERE cost_usd IS NULL").fetchone() == (0,)
    db.close()


def _receipts(ledger: Ledger, run_id: str) -> list[Any]:
    return [receipt for step in ledger.steps(run_id) for receipt in step.receipts]


@pytest.mark.slow
def test_openai_s_own_client(server: Server, endpoint: ScriptedEndpoint, tmp_path: Path) -> None:
    openai = pytest.importorskip("openai")
    _pool(server, endpoint)
    with server.running() as api:
        client = openai.OpenAI(base_url=f"{api.url}/v1", api_key=server.env["CI_AUTH"], max_retries=0)
        messages = [{"role": "user", "content": "fix the total"}]
        assert [model.id for model in client.models.list()] == ["scrout/auto"]
        whole = client.chat.completions.create(model="scrout/auto", messages=messages)
        assert whole.choices[0].message.content.startswith("hello from")
        parts = client.chat.completions.create(
            model="scrout/auto", messages=messages, stream=True, stream_options={"include_usage": True}
        )
        said = list(parts)
        assert "".join(part.choices[0].delta.content or "" for part in said if part.choices).startswith("hello from")
        assert said[-1].usage.prompt_tokens == 1000
        with pytest.raises(openai.NotFoundError, match="scrout/auto"):
            client.chat.completions.create(model="gpt-5", messages=messages)
        client.close()
        stranger = openai.OpenAI(base_url=f"{api.url}/v1", api_key="wrong", max_retries=0)
        with stranger, pytest.raises(openai.AuthenticationError):
            stranger.models.list()
