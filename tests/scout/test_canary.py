"""Each check of the canary against a server that is right, and against one that is wrong in just that."""

from __future__ import annotations

import asyncio
import json
import secrets
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner
from pydantic import JsonValue

from scrout.agent.dialect import ToolUse, Turn
from scrout.agent.dialects import dialect
from scrout.base import ConfigError, ModelError
from scrout.cli.searcher.canary import command
from scrout.config.settings import DialectName, SearcherSettings
from scrout.models.chat import ToolCall, certificates
from scrout.models.proxy.client import open_proxy_client
from scrout.models.scripted import Cut, ScriptedEndpoint, ScriptedReply, ScriptedRequest, Status
from scrout.models.scripted.protocols import count_tokens
from scrout.money import Receipt, Usage
from scrout.scout.account import account_of
from scrout.scout.canary import Canary, canary, require

Script = Callable[[ScriptedRequest], ScriptedReply]

CALL = Turn("Let me look.", (ToolUse("bash", {"command": "ls -la"}),))


def said(request: ScriptedRequest) -> str:
    """What the prompt asks for."""
    messages = request.content["messages"]
    assert isinstance(messages, list) and isinstance(messages[-1], dict)
    return str(messages[-1]["content"])


def healthy(request: ScriptedRequest) -> ScriptedReply:
    """A server that does all it should."""
    usage = Usage(input_tokens=count_tokens(request), output_tokens=4)
    if said(request).startswith("Count from"):
        return ScriptedReply("1 2 3", usage=replace_usage(usage, output_tokens=16), finish_reason="length")
    if "Use bash" in said(request):
        return ScriptedReply(dialect("xml").render(CALL).content, usage=usage)
    if request.content.get("temperature") == 0:
        return ScriptedReply("oak ash elm", usage=usage)
    return ScriptedReply(f"draw {request.content.get('seed')}", usage=usage)


def replace_usage(usage: Usage, **changed: int) -> Usage:
    return usage.model_copy(update=changed)


def searcher(base_url: str, **changed: JsonValue) -> SearcherSettings:
    given: dict[str, JsonValue] = {
        "preset": "paper",
        "model": "scripted",
        "base_url": base_url,
        "price": {"input": 1.0, "output": 2.0},
    }
    return SearcherSettings.model_validate(given | changed)


async def ask(script: Script, tokenizer: bool = True, **changed: JsonValue) -> Canary:
    with ScriptedEndpoint(script, tokenizer=tokenizer) as endpoint:
        return await canary(searcher(endpoint.base_url, **changed))


def outcomes(found: Canary) -> dict[str, str]:
    return {finding.name: finding.outcome for finding in found.findings}


def detail(found: Canary, name: str) -> str:
    return next(finding.detail for finding in found.findings if finding.name == name)


async def test_a_healthy_server_passes_every_check() -> None:
    found = await ask(healthy)
    names = ("model", "greedy", "drawn", "max_tokens", "cache_salt", "count", "call")
    assert outcomes(found) == dict.fromkeys(names, "ok") and found.failed == ""
    assert found.calls > 8 and found.cost_usd is not None and Decimal(0) < found.cost_usd < Decimal("0.01")


async def test_certificates_that_are_loaded_are_not_loaded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    certificates()
    monkeypatch.delattr(ssl, "create_default_context")
    assert (await ask(healthy)).failed == ""


async def test_nobody_there() -> None:
    with ScriptedEndpoint(healthy) as endpoint:
        gone = endpoint.base_url
    found = await canary(searcher(gone))
    assert outcomes(found) == {"model": "failed"} and "Is the server running?" in found.failed
    assert found.calls == 0


async def test_another_model() -> None:
    found = await ask(healthy, model="SuperScout-7B")
    assert outcomes(found) == {"model": "failed"}
    assert "serves scripted, and scout.model.model is 'SuperScout-7B'" in found.failed


async def test_a_context_that_is_too_short() -> None:
    found = await ask(healthy, context_tokens=100_000)
    assert outcomes(found) == {"model": "failed"} and "32,768 tokens" in found.failed


async def test_a_key_that_is_refused_is_found_out_before_anything_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY_KEY", "sk-secret")
    found = await ask(
        lambda request: ScriptedReply(fault=Status(401, message="bad key sk-secret")), key_env="CANARY_KEY"
    )
    assert outcomes(found) == {"model": "ok", "greedy": "failed"}
    assert "401" in found.failed and "sk-secret" not in found.failed


async def test_a_key_that_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CANARY_KEY", raising=False)
    found = await ask(healthy, key_env="CANARY_KEY")
    assert outcomes(found) == {"model": "failed"} and "CANARY_KEY" in found.failed


async def test_a_server_that_draws_when_told_not_to() -> None:
    draws = iter(range(1000))

    def script(request: ScriptedRequest) -> ScriptedReply:
        return replace(healthy(request), text=f"draw {next(draws)}")

    found = await ask(script)
    assert outcomes(found)["greedy"] == "failed" and "two greedy replies" in found.failed
    assert outcomes(found)["drawn"] == "ok", "the other checks still run"


async def test_a_server_that_is_greedy_when_told_to_draw() -> None:
    def script(request: ScriptedRequest) -> ScriptedReply:
        reply = healthy(request)
        return replace(reply, text="oak ash elm") if reply.text.startswith("draw") else reply

    found = await ask(script)
    assert outcomes(found)["drawn"] == "failed" and "overrides the request's sampling" in found.failed
    assert outcomes(found)["call"] == "ok", "the other checks still run"


async def test_the_sampling_of_the_settings_is_what_is_drawn_with() -> None:
    with ScriptedEndpoint(healthy) as endpoint:
        await canary(searcher(endpoint.base_url))
        drawn = [request.content for request in endpoint.requests if request.content.get("seed") is not None]
    assert all((one["temperature"], one["top_k"], one["stop"]) == (0.9, -1, ["<|im_end|>"]) for one in drawn)
    assert len({one["seed"] for one in drawn}) == 3


async def test_an_endpoint_without_temperature_is_told_of_and_used() -> None:
    def script(request: ScriptedRequest) -> ScriptedReply:
        if request.content.get("temperature") == 0:
            return ScriptedReply(fault=Status(400, message="temperature is not supported"))
        return healthy(request)

    found = await ask(script, preset="", dialect="xml")
    assert outcomes(found)["greedy"] == "note" and "takes no temperature" in detail(found, "greedy")


async def test_max_tokens_that_is_not_kept() -> None:
    def script(request: ScriptedRequest) -> ScriptedReply:
        reply = healthy(request)
        if reply.finish_reason == "length":
            return replace(reply, usage=Usage(input_tokens=9, output_tokens=900), finish_reason="stop")
        return reply

    found = await ask(script)
    assert outcomes(found)["max_tokens"] == "failed" and "has 900" in found.failed


async def test_a_salt_that_is_refused() -> None:
    def script(request: ScriptedRequest) -> ScriptedReply:
        if "cache_salt" in request.content:
            return ScriptedReply(fault=Status(422, message="extra fields not permitted"))
        return healthy(request)

    found = await ask(script)
    assert outcomes(found)["cache_salt"] == "failed" and "422" in found.failed


async def test_a_salt_without_effect() -> None:
    def script(request: ScriptedRequest) -> ScriptedReply:
        reply = healthy(request)
        if "cache_salt" in request.content and reply.usage:
            return replace(reply, usage=replace_usage(reply.usage, input_tokens=3, cache_read_tokens=160))
        return reply

    found = await ask(script)
    assert outcomes(found)["cache_salt"] == "failed" and "160 tokens" in found.failed


async def test_no_salt_is_sent_where_none_is_wanted() -> None:
    with ScriptedEndpoint(healthy) as endpoint:
        found = await canary(searcher(endpoint.base_url, cache_salt=False))
        assert not any("cache_salt" in request.content for request in endpoint.requests)
    assert outcomes(found)["cache_salt"] == "note"


async def test_a_tokenizer_that_counts_something_else() -> None:
    def script(request: ScriptedRequest) -> ScriptedReply:
        reply = healthy(request)
        assert reply.usage
        return replace(reply, usage=replace_usage(reply.usage, input_tokens=reply.usage.input_tokens + 40))

    found = await ask(script)
    assert outcomes(found)["count"] == "failed" and "then reads as" in found.failed


async def test_a_server_that_does_not_count_is_told_of() -> None:
    found = await ask(healthy, tokenizer=False)
    assert outcomes(found)["count"] == "note" and found.failed == ""


@pytest.mark.parametrize("reply", ["I would run ls.", "<function=ls>\n</function>", "<function=bash>\n<parameter=comm"])
async def test_replies_without_a_call_that_can_be_run(reply: str) -> None:
    def script(request: ScriptedRequest) -> ScriptedReply:
        return replace(healthy(request), text=reply) if "Use bash" in said(request) else healthy(request)

    found = await ask(script)
    assert outcomes(found)["call"] == "failed" and "3 replies hold no call" in found.failed


async def test_one_good_call_in_three_is_enough() -> None:
    def script(request: ScriptedRequest) -> ScriptedReply:
        bad = "Use bash" in said(request) and request.content.get("seed") != 3
        return replace(healthy(request), text="Hm.") if bad else healthy(request)

    assert outcomes(await ask(script))["call"] == "ok"


@pytest.mark.parametrize("name", ["native", "fenced", "json"])
async def test_the_call_is_asked_for_in_the_settings_dialect(name: DialectName) -> None:
    def script(request: ScriptedRequest) -> ScriptedReply:
        if "Use bash" not in said(request):
            return healthy(request)
        assert bool(request.content.get("tools")) is (name == "native")
        assert ("response_format" in request.content) is (name == "json")
        usage = Usage(input_tokens=9, output_tokens=9)
        if name == "native":
            return ScriptedReply(calls=(ToolCall("1", "bash", '{"command": "ls"}'),), usage=usage)
        return ScriptedReply(dialect(name).render(CALL).content, usage=usage)

    assert outcomes(await ask(script, dialect=name))["call"] == "ok"


# Hidden states


class Sglang(BaseHTTPRequestHandler):
    """In front of the stand-in, adds what SGLang documents."""

    hidden: JsonValue = None

    def do_GET(self) -> None:
        self._send({"data": [{"id": "scripted"}]})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        request = ScriptedRequest(self.path, {}, body)
        if self.path == "/tokenize":
            return self._send({"count": count_tokens(request)})
        reply = healthy(request)
        assert reply.usage
        choice = {"message": {"content": reply.text}, "finish_reason": reply.finish_reason or "stop"}
        if "return_hidden_states" in request.content:
            choice["hidden_states"] = self.hidden
        tokens = {"prompt_tokens": reply.usage.input_tokens, "completion_tokens": reply.usage.output_tokens}
        self._send({"choices": [choice], "usage": tokens})

    def _send(self, answer: JsonValue) -> None:
        raw = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: object) -> None:
        """Silence."""


@pytest.fixture
def sglang(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(Sglang, "hidden", [0.5, -0.5, 0.5, 0.5])
    with ThreadingHTTPServer(("127.0.0.1", 0), Sglang) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    folder = tmp_path / "weights"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"num_hidden_layers": 28, "hidden_size": 4}))
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


async def test_the_state_is_there(sglang: str, weights: Path) -> None:
    found = await canary(searcher(sglang, state="sglang", checkpoint=str(weights)))
    assert outcomes(found)["state"] == "ok" and found.failed == ""
    assert "4 numbers in hidden/" in detail(found, "state")


@pytest.mark.parametrize(
    ("hidden", "reason"),
    [(None, "without a hidden state"), ([1.0] * 8, "states of 4 numbers"), ([0.0] * 4, "all zeros")],
)
async def test_a_state_that_is_missing_or_wrong(
    sglang: str, weights: Path, monkeypatch: pytest.MonkeyPatch, hidden: JsonValue, reason: str
) -> None:
    monkeypatch.setattr(Sglang, "hidden", hidden)
    found = await canary(searcher(sglang, state="sglang", checkpoint=str(weights)))
    assert outcomes(found)["state"] == "failed" and reason in found.failed


async def test_a_checkpoint_that_is_not_there(sglang: str, weights: Path) -> None:
    found = await canary(searcher(sglang, state="sglang", checkpoint=str(weights / "nowhere")))
    assert outcomes(found)["state"] == "failed" and "no folder and no file" in found.failed


async def test_without_a_servers_state_there_is_no_layer_to_compare() -> None:
    with ScriptedEndpoint(healthy) as endpoint:
        found = await canary(searcher(endpoint.base_url), layer=True)
    assert outcomes(found)["layer"] == "note"


# The command


def run(*args: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(command, list(args), standalone_mode=False)
    if isinstance(result.exception, ConfigError):
        raise result.exception
    return int(result.return_value or 0), result.stdout, result.stderr


def config(tmp_path: Path, base_url: str) -> str:
    path = tmp_path / "scrout.toml"
    model = f'preset = "paper"\nmodel = "scripted"\nbase_url = "{base_url}"\nprice = {{ input = 0.0, output = 0.0 }}\n'
    path.write_text(f"[scout.model]\n{model}")
    return str(path)


def test_one_line_a_check_and_the_exit_code(tmp_path: Path) -> None:
    with ScriptedEndpoint(healthy) as endpoint:
        code, out, _ = run("--config", config(tmp_path, endpoint.base_url))
    assert code == 0
    assert [line.split(":")[0] for line in out.splitlines()[:2]] == ["ok model", "ok greedy"]
    assert out.rstrip().splitlines()[-1].strip().endswith("calls, $0.00")


def test_a_failure_ends_with_its_reason(tmp_path: Path) -> None:
    with ScriptedEndpoint(healthy, models=("other",)) as endpoint:
        code, out, err = run("--json", "--config", config(tmp_path, endpoint.base_url))
    found = Canary.model_validate_json(out)
    assert code == 1 and found.failed and "no episode should start" in err and "serves other" in err


def test_settings_without_a_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"scout\.model\.model is not set"):
        run("--repo", str(tmp_path))


async def required(settings: SearcherSettings, folder: Path) -> list[Receipt]:
    """What an episode pays for the check."""
    booked: list[Receipt] = []
    async with open_proxy_client(account_of(settings, folder / secrets.token_hex(4)), booked.append) as client:
        await require(settings, client.socket)
    return booked


async def test_a_server_that_passed_is_not_asked_again(tmp_path: Path) -> None:
    with ScriptedEndpoint(healthy) as endpoint:
        settings = searcher(endpoint.base_url)
        booked = await required(settings, tmp_path)
        paid = len(booked)
        seeded = settings.model_copy(update={"sampling": settings.sampling.model_copy(update={"seed": 7})})
        booked += await required(seeded, tmp_path)
    assert paid == len(booked) == len(endpoint.requests) > 5
    assert all(receipt.component == "scout" and receipt.cost_usd for receipt in booked)


async def test_episodes_that_start_at_once_share_one_check(tmp_path: Path) -> None:
    with ScriptedEndpoint(healthy) as endpoint:
        settings = searcher(endpoint.base_url)
        booked = await asyncio.gather(*(required(settings, tmp_path) for _ in range(8)))
        alone = (await canary(settings)).calls
    assert sum(map(len, booked)) == alone and len(endpoint.requests) == 2 * alone


def test_each_event_loop_may_check(tmp_path: Path) -> None:
    async def two(settings: SearcherSettings) -> list[str]:
        ended = await asyncio.gather(*(required(settings, tmp_path) for _ in range(2)), return_exceptions=True)
        return [type(end).__name__ for end in ended]

    with ScriptedEndpoint(healthy) as endpoint:
        wrong = searcher(endpoint.base_url, model="other")
        assert [asyncio.run(two(wrong)) for _ in range(2)] == [["ModelError", "ModelError"]] * 2
        right = searcher(endpoint.base_url)
        assert [asyncio.run(two(right)) for _ in range(2)] == [["list", "list"]] * 2


async def test_a_try_whose_reply_was_lost_is_booked_at_its_worst() -> None:
    tries = iter(range(1000))

    def losing(request: ScriptedRequest) -> ScriptedReply:
        reply = healthy(request)
        return replace(reply, fault=Cut()) if next(tries) == 0 else reply

    booked: list[Receipt] = []
    with ScriptedEndpoint(losing) as endpoint:
        found = await canary(searcher(endpoint.base_url), book=booked.append)
    assert found.failed == "" and found.calls == len(booked) == len(endpoint.requests)
    assert [receipt.estimated for receipt in booked[:2]] == [True, False] and (booked[0].cost_usd or 0) > 0
    assert found.cost_usd is None


async def test_a_cap_that_is_too_small_ends_the_check_and_is_not_passed() -> None:
    booked: list[Receipt] = []
    with ScriptedEndpoint(healthy) as endpoint:
        found = await canary(searcher(endpoint.base_url, cap_usd="0.0002"), book=booked.append)
    assert "scout.model.cap_usd is 0.0002" in found.failed and outcomes(found).get("call") is None
    assert sum(receipt.cost_usd or 0 for receipt in booked) <= Decimal("0.0002")


async def test_without_a_price_the_cost_is_not_known() -> None:
    found = await ask(healthy, price=None)
    assert found.failed == "" and found.calls > 8 and found.cost_usd is None


async def test_a_base_url_with_a_query_is_asked_for_its_models_too() -> None:
    with ScriptedEndpoint(healthy, models=("another",)) as endpoint:
        found = await canary(searcher(f"{endpoint.base_url}?api-version=1"))
    assert outcomes(found) == {"model": "failed"} and "serves another" in found.failed


async def test_a_call_within_thoughts_is_none() -> None:
    def script(request: ScriptedRequest) -> ScriptedReply:
        reply = healthy(request)
        return replace(reply, text=f"<think>\n{reply.text}\n</think>\nHm.") if "Use bash" in said(request) else reply

    assert outcomes(await ask(script))["call"] == "failed"


async def test_no_episode_starts_on_a_server_that_fails_and_its_calls_are_booked(tmp_path: Path) -> None:
    def deaf(request: ScriptedRequest) -> ScriptedReply:
        return ScriptedReply("I would rather talk.", usage=Usage(input_tokens=10, output_tokens=5))

    booked: list[Receipt] = []
    with ScriptedEndpoint(deaf) as endpoint:
        settings = searcher(endpoint.base_url)
        for number in range(2):  # a failure is not remembered: the server may be mended
            async with open_proxy_client(account_of(settings, tmp_path / str(number)), booked.append) as client:
                with pytest.raises(ModelError, match=r"does not pass the canary: drawn: .*; call: "):
                    await require(settings, client.socket)
    assert len(booked) == len(endpoint.requests) > 10


async def test_what_an_endpoint_does_not_count_is_booked_at_its_worst_and_shown_as_unknown() -> None:
    def silent(request: ScriptedRequest) -> ScriptedReply:
        return replace(healthy(request), usage=None)

    booked: list[Receipt] = []
    with ScriptedEndpoint(silent) as endpoint:
        found = await canary(searcher(endpoint.base_url), book=booked.append)
    assert found.cost_usd is None
    assert booked and all(receipt.estimated and receipt.cost_usd for receipt in booked)
