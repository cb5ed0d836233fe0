"""Traces: what is in them, that a change in one is noticed, and that a part of one is worth something."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import ssl
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.agent.dialect import ToolUse
from scrout.base import ModelError, TaskError
from scrout.config.settings import ScoutSettings
from scrout.models.chat import Chat, Message, Tool, ToolCall, certificates
from scrout.models.scripted import Hang, ScriptedEndpoint, ScriptedReply, Status
from scrout.money import Price, Usage
from scrout.records import Scouting
from scrout.redact import MARK
from scrout.sandbox.task_sandbox import TaskSandbox
from scrout.scout.episode import episode, replay
from scrout.scout.prompts import read_prompts
from scrout.scout.trace import EpisodeHeader, Exchange, Recorded, ReplayedTransport, Trace, clean_body
from scrout.task import Task

ISSUE = "total() leaves out the first price"
HANDOFF = "<files>\ncart.py\n</files>\n<repro>\ncommand: python check.py\nreproduced: true\nobserved: 2\n</repro>\nSTOP"
USAGE = Usage(input_tokens=100, output_tokens=10)
SCRIPT = (
    ScriptedReply(
        calls=(ToolCall("a", "bash", json.dumps({"command": "echo seen; echo 'assert 0' > check.py"})),), usage=USAGE
    ),
    ScriptedReply("Hm.", usage=USAGE),
    ScriptedReply(HANDOFF, usage=USAGE),
)


@pytest.fixture
def shop(task_sandbox_over: Callable[..., AbstractContextManager[TaskSandbox]]) -> Iterator[TaskSandbox]:
    with task_sandbox_over({"cart.py": "def total(prices):\n    return sum(prices[1:])\n"}) as opened:
        yield opened


def search(shop: TaskSandbox, replies: tuple[ScriptedReply, ...] = SCRIPT, key_env: str = "") -> Scouting:
    with ScriptedEndpoint(replies) as server:
        return asyncio.run(begin(shop, server, key_env))


async def begin(shop: TaskSandbox, server: ScriptedEndpoint, key_env: str = "") -> Scouting:
    price = Price(input=Decimal(1), output=Decimal(1))
    model = {"model": "toy", "base_url": server.base_url, "key_env": key_env, "price": price}
    task = Task(id="shop/1 é", text=ISSUE, repo=shop.base.repo, base_commit=shop.base.commit)
    return await episode(task, shop, ScoutSettings.model_validate({"searcher": "model", "model": model}))


def lines(path: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def rewritten(trace: str, change: Callable[[list[dict[str, Any]]], object]) -> Path:
    told = lines(trace)
    change(told)
    path = Path(trace).with_name("changed.jsonl")
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in told), encoding="utf-8")
    return path


def test_a_trace_tells_the_whole_episode_to_its_owner_alone(shop: TaskSandbox) -> None:
    found = search(shop)
    path = Path(found.trace)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    header, *rest, end = lines(path)
    assert path.parent.name == header["salt"] and header["salt"].startswith("shop_1__-")
    assert (header["issue"], header["base_commit"]) == (ISSUE, shop.base.commit)
    assert header["settings"]["sampling"]["seed"] is not None and len(header["prompts_digest"]) == 16
    assert [line["kind"] for line in rest] == ["http", "tool", "http", "http", "left"]
    assert (
        "seen" in rest[1]["answer"] and json.loads(rest[0]["request"])["seed"] == header["settings"]["sampling"]["seed"]
    )
    assert end["scouting"] == found.model_dump(mode="json")
    assert rewritten(found.trace, lambda told: None).read_bytes() == path.read_bytes()


def _first(told: list[dict[str, Any]], kind: str, number: int = 0) -> dict[str, Any]:
    return [line for line in told if line["kind"] == kind][number]


CHANGES: dict[str, tuple[Callable[[list[dict[str, Any]]], object], str]] = {
    "issue": (lambda told: told[0].update(issue=ISSUE.replace("first", "worst")), "line 2: request 1 differs"),
    "prompt": (lambda told: told[0]["prompts"].update(system="Be brief."), "line 2: request 1 differs"),
    "request": (
        lambda told: _first(told, "http", 1).update(request=_first(told, "http", 1)["request"].replace("seen", "seem")),
        "line 4: request 2 differs",
    ),
    "response": (
        lambda told: _first(told, "http", 1).update(response=_first(told, "http", 1)["response"].replace("Hm.", "Hm!")),
        "line 5: request 3 differs",
    ),
    "command": (
        lambda told: _first(told, "http").update(response=_first(told, "http")["response"].replace("seen", "sewn")),
        "line 3: call 1 differs",
    ),
    "answer": (lambda told: _first(told, "tool").update(answer="[exit code 0]\nseem\n"), "line 4: request 2 differs"),
    "handoff": (
        lambda told: _first(told, "http", 2).update(
            response=_first(told, "http", 2)["response"].replace("cart.py", "card.py")
        ),
        "ends otherwise",
    ),
    "file": (lambda told: _first(told, "left").update(files={"check.py": "assert 1\n"}), "ends otherwise"),
    "result": (lambda told: told[-1]["scouting"].update(stop="forced"), "ends otherwise"),
    "a step less": (lambda told: told.pop(2), "line 3: request 2 differs"),
    "a step more": (lambda told: told.insert(2, told[1]), "line 3: request 2 differs"),
    "a step more at the end": (lambda told: told.insert(5, told[4]), "line 6: the episode is over after 4 requests"),
    "unknown field": (lambda told: told[1].update(extra=1), "line 2"),
}


CHANGES_BY_DEFAULT = ("response", "command", "file", "a step less", "a step more at the end", "unknown field")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in CHANGES_BY_DEFAULT else pytest.mark.slow) for name in CHANGES]
)
def test_a_change_is_refused_and_located(shop: TaskSandbox, name: str) -> None:
    trace = search(shop).trace
    change, located = CHANGES[name]
    path = rewritten(trace, change)
    with pytest.raises(TaskError, match=located) as caught:
        asyncio.run(replay(path))
    assert str(path) in str(caught.value)


def test_a_part_of_a_trace_replays_as_far_as_it_goes_and_says_so(shop: TaskSandbox) -> None:
    found = search(shop)
    whole = Path(found.trace).read_bytes()
    ends = [place + 1 for place, byte in enumerate(whole) if byte == 10]
    for number, end in enumerate(ends[:-1]):
        path = Path(found.trace).with_name("part.jsonl")
        path.write_bytes(whole[: end + 20])  # and a part of the line behind it
        part = asyncio.run(replay(path))
        assert f"ends without a result after {min(number, 4)} requests and calls" in part.detail
        # The last two cuts have the handoff, the last of them also its file.
        assert bool(part.handoff.files) == (number >= 4)
        assert part.handoff == found.handoff or number < 5


def test_an_episode_that_was_cancelled_leaves_a_trace(shop: TaskSandbox) -> None:
    async def cancelled() -> None:
        with ScriptedEndpoint((SCRIPT[0], ScriptedReply("Hm.", fault=Hang(60)))) as server:
            working = asyncio.create_task(begin(shop, server))
            while len(server.requests) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working

    asyncio.run(cancelled())
    (trace,) = Path(os.environ["XDG_DATA_HOME"], "scrout", "traces").glob("*/trace.jsonl")
    assert lines(trace)[-1]["error"] == "CancelledError"
    part = asyncio.run(replay(trace))
    assert "ends without a result after 3 requests and calls" in part.detail and part.stop == "crashed"


@pytest.mark.parametrize("content", [b"", b"{}\n", b"[1]\n", b"\xff\xfe\n", b"not json\n", b'{"kind": "end"}\n'])
def test_what_is_no_trace_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(content)
    with pytest.raises(TaskError, match=r"trace\.jsonl"):
        asyncio.run(replay(path))
    with pytest.raises(TaskError, match="Check the path"):
        asyncio.run(replay(tmp_path / "absent.jsonl"))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
SECRET = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"


@given(JSON, st.sampled_from([None, 2]), st.booleans())
def test_a_body_without_a_secret_stays_as_it_is(document: Any, indent: int | None, ascii_only: bool) -> None:
    body = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
    assert clean_body(body) == body and clean_body(body[:-1] + "~") == body[:-1] + "~"


@given(JSON, st.booleans())
def test_a_body_with_a_secret_loses_it_alone(document: Any, escaped: bool) -> None:
    body = json.dumps({"said": document, "key": f"it is {SECRET}."})
    if escaped:
        body = body.replace("ghp_", "\\u0067hp_")
    assert json.loads(clean_body(body)) == {"said": document, "key": f"it is {MARK}."}


class Saying:
    """A toolbox whose one tool says what it is to say."""

    tools: tuple[Tool, ...] = ()

    def __init__(self, text: str) -> None:
        self.text = text

    async def use(self, call: ToolUse) -> str:
        return self.text


@pytest.mark.parametrize("length", [5_000, 9_000, 40_000])
async def test_a_secret_at_the_place_where_an_answer_is_cut_leaves_no_part(tmp_path: Path, length: int) -> None:
    trace = Trace(tmp_path / "t" / "trace.jsonl")
    for place in (0, length, length // 2, *range(430, 510, 3), *range(length - 510, length - 430, 3)):
        text = f"{'-' * place} {SECRET} {'=' * (length - place)}"
        answer = await trace.toolbox(Saying(text), 1_000).use(ToolUse("say"))
        assert "ghp_" not in answer and "456789" not in answer and len(answer) < 1_100
        assert answer.startswith(text[: min(place, 500)]) and answer.endswith("=" * min(length - place, 500))
    trace.close()


@pytest.mark.parametrize("rest", [" x\n", "\n", ""])
async def test_secrets_cut_out_beside_it_do_not_move_half_a_one_into_view(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rest: str
) -> None:
    secret = "correct-horse-battery-staple-0123456789"
    monkeypatch.setenv("SOME_TOKEN", secret)
    trace = Trace(tmp_path / "t" / "trace.jsonl")
    for number in range(400, 460):
        answer = await trace.toolbox(Saying((secret + rest) * number), 8_000).use(ToolUse("say"))
        assert not any(part in answer for part in ("corr", "horse", "staple", "6789"))
    trace.close()


# What an endpoint says


async def asked(trace: Trace, base_url: str, key: str | None = None) -> str:
    """What a client that is recorded says of the reply, or of the failure."""
    transport = trace.transport(base_url, key, httpx.AsyncHTTPTransport(verify=certificates()))
    try:
        async with Chat(base_url, "toy", key, 5, transport=transport, sleep=at_once) as chat:
            return (await chat.complete((Message("user", "hello"),), (), 10)).text
    except ModelError as error:
        return str(error)


async def at_once(seconds: float) -> None:
    """Nobody waits in a test."""


@pytest.fixture
def trace(tmp_path: Path) -> Iterator[Trace]:
    opened = Trace(tmp_path / "t" / "trace.jsonl")
    yield opened
    opened.close()


PLAIN = "plain-value-4711-abcdef"
"""A key that no shape and no name of a variable gives away."""


async def test_an_endpoint_that_echoes_its_key_does_not_get_it_into_the_trace(trace: Trace) -> None:
    said = f"bad key {PLAIN}"
    for fault in (Status(401, message=said), Status(400, message=json.dumps({"detail": {PLAIN: said}}))):
        with ScriptedEndpoint([ScriptedReply(fault=fault)] * 3) as server:
            await asked(trace, server.base_url, PLAIN)
            await asked(trace, f"{server.base_url}?api-key={PLAIN}")
            await asked(trace, server.base_url.replace("://", f"://{PLAIN}@"))
            assert len(server.requests) == 3
    answer = await trace.toolbox(Saying(f"KEY={PLAIN}"), 1_000).use(ToolUse("say", {"of": PLAIN}))
    assert answer == f"KEY={MARK}"
    told = trace.path.read_text()
    assert PLAIN not in told and told.count(f"bad key {MARK}") == 6


def test_a_key_with_any_name_stays_out_of_an_episodes_trace(shop: TaskSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENROUTER", PLAIN)
    told = Path(search(shop, (ScriptedReply(f"I know {PLAIN}"), *SCRIPT), "OPENROUTER").trace).read_text()
    # The meter has cut it out before the trace could.
    assert PLAIN not in told and "I know [key]" in told


async def test_a_secret_in_the_path_is_cut_out_and_the_trace_still_replays(trace: Trace) -> None:
    with ScriptedEndpoint([ScriptedReply("hi")]) as server:
        base_url = server.base_url.replace("/v1", f"/{SECRET}/v1")
        assert "status 404" in await asked(trace, base_url)
    (line,) = lines(trace.path)
    assert SECRET not in json.dumps(line) and line["path"] == f"/{MARK}/v1/chat/completions"
    recorded = replayable(trace.path)
    async with Chat(
        base_url.replace(SECRET, MARK), "toy", None, transport=ReplayedTransport(recorded), sleep=at_once
    ) as chat:
        with pytest.raises(ModelError, match="status 404"):
            await chat.complete((Message("user", "hello"),), (), 10)
    recorded.require_over()


def replayable(path: Path) -> Recorded:
    """The exchanges of a trace, behind a header."""
    header = {
        "task_id": "t",
        "base_commit": "0" * 40,
        "root": "/repo",
        "issue": ISSUE,
        "settings": {"model": "toy"},
        "salt": "s",
        "prompts": read_prompts("").model_dump(mode="json"),
        "prompts_digest": "",
        "tools": [],
    }
    whole = path.with_name("whole.jsonl")
    head = EpisodeHeader.model_validate(header).model_dump_json()
    whole.write_text(head + "\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    return Recorded(whole)


async def test_what_a_replay_did_not_come_to_is_said(trace: Trace) -> None:
    with ScriptedEndpoint([ScriptedReply("hi")] * 2) as server:
        for _ in range(2):
            await asked(trace, server.base_url)
    recorded = replayable(trace.path)
    async with Chat(server.base_url, "toy", None, transport=ReplayedTransport(recorded)) as chat:
        await chat.complete((Message("user", "hello"),), (), 10)
        with pytest.raises(TaskError, match=r"line 3: the episode is over after 1 requests and calls, and 2 were"):
            recorded.require_over()
        await chat.complete((Message("user", "hello"),), (), 10)
    recorded.require_over()


@pytest.mark.parametrize("error", ["DecodingError", "ReadError", "ConnectTimeout", "TooManyRedirects"])
async def test_what_a_transport_raised_is_raised_again(trace: Trace, error: str) -> None:
    trace.write(Exchange(method="GET", path="/", request="", error=error, seconds=0))
    async with httpx.AsyncClient(transport=ReplayedTransport(replayable(trace.path))) as client:
        with pytest.raises(httpx.RequestError) as caught:
            await client.get("http://toy.invalid/")
    assert type(caught.value).__name__ == error


async def test_a_header_that_is_not_ascii_is_an_answer_like_any(trace: Trace) -> None:
    body = b'{"error": {"message": "no such model"}}'
    head = b"HTTP/1.1 400 X\r\ncontent-type: text/pl\xe4in\r\nretry-after: \xff\r\ncontent-length: %d\r\n\r\n"
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1_000_000)
                connection.sendall(head % len(body) + body)

        threading.Thread(target=answer, daemon=True).start()
        said = await asked(trace, f"http://127.0.0.1:{listening.getsockname()[1]}/v1")
    assert "no such model" in said
    assert lines(trace.path)[0]["headers"] == {"content-type": "text/pl?in", "retry-after": "?"}


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
@pytest.mark.parametrize("scheme", ["https", "HTTPS"])
def test_a_server_that_nobody_vouches_for_gets_no_key(trace: Trace, tmp_path: Path, scheme: str) -> None:
    options = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=evil"]
    files = {"-keyout": tmp_path / "key.pem", "-out": tmp_path / "certificate.pem"}
    subprocess.run(
        ["openssl", "req", *options, *(str(part) for pair in files.items() for part in pair)],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files["-out"], files["-keyout"])
    heard: list[bytes] = []

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(10_000))
        writer.close()

    async def ask() -> str:
        async with await asyncio.start_server(hear, "127.0.0.1", 0, ssl=context) as server:
            return await asked(trace, f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", PLAIN)

    assert "ConnectError" in asyncio.run(ask()) and not heard
