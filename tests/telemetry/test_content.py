"""What leaves and what does not: a collector is somebody else's machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from scrout.config.settings import Settings, TelemetrySettings
from scrout.models.chat import ToolCall
from scrout.models.scripted import ScriptedEndpoint, ScriptedReply
from scrout.money import Usage
from scrout.telemetry import content, names
from scrout.telemetry.content import MAX_CHARS, Censor, provider_of, server_of
from scrout.telemetry.exporter import open_exporter
from scrout.trajectory import ModelRequest, ModelResponse

if TYPE_CHECKING:
    from conftest import Collector, Story

SHAPED = "sk-proj-0123456789abcdefghij"
"""Known by its shape."""
KEY = "hunter2-and-more"
"""Known only as the value of the variable that a fixer names."""
HEADER = "collectors-own-password"
VERSE = "a line of the issue that nobody else would write"
WORDS = (
    "kookaburra",
    "wombat",
    "quokka",
    "burrow",
    "forgets",
    "assertionerror",
    "echidna",
    "platypus",
    "sed -i",
    VERSE,
)


def keyed(base_url: str) -> list[dict[str, Any]]:
    price = {"input": 3.0, "output": 15.0}
    fixer = {"name": "toy", "kind": "agent", "model": "toy-1", "base_url": base_url, "price": price}
    return [fixer | {"key_env": "TOY"}]


@pytest.fixture
def hostile(script: list[ScriptedReply]) -> list[ScriptedReply]:
    """A model that repeats secrets, calls what there is none of, and ends its answers with words of its own."""
    usage = script[0].usage
    telling = ToolCall("x", f"wombat {SHAPED}", json.dumps({"command": f"echo {SHAPED} {KEY}"}))
    return [
        ScriptedReply(f"platypus {SHAPED} {KEY} {HEADER}", (telling,), usage, finish_reason="kookaburra"),
        ScriptedReply("", (ToolCall("y", "bash", json.dumps({"command": f"echo {SHAPED}; env"})),), usage),
        *script,
    ]


@pytest.mark.parametrize("content", [False, True])
def test_no_secret_arrives_and_no_word_unless_it_is_wanted(
    collector: Collector,
    tell: Story,
    config: Callable[..., Settings],
    hostile: list[ScriptedReply],
    issue: str,
    monkeypatch: pytest.MonkeyPatch,
    content: bool,
) -> None:
    monkeypatch.setenv("TOY", KEY)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"authorization=Basic%20{HEADER}")
    text = f"{issue}\n{VERSE}\n{SHAPED} {KEY} {HEADER}\n"
    with ScriptedEndpoint(hostile) as endpoint:
        given = config(fixers=keyed(endpoint.base_url), telemetry={"content": content})
        run, receipts = tell(given, text)
    assert run.outcome == "solved" and len(receipts) == 5
    assert {told["authorization"] for told in collector.headers} == {f"Basic {HEADER}"}
    raw = collector.raw.lower()
    assert not [secret for secret in (SHAPED, KEY, HEADER) if secret.encode() in raw]
    arrived = {word for word in WORDS if word.encode() in raw}
    assert arrived == (set(WORDS) if content else set())
    # The environment of this process, telemetry's variables too, is in no sandbox.
    assert not [request for request in endpoint.requests if "OTEL_" in request.body]
    assert len(collector.named("execute_tool unknown")) == 1
    assert collector.named("chat toy-1")[0][names.FINISH_REASONS] == ["_OTHER"]
    if content:
        (root,) = collector.named("scrout.run")
        assert VERSE in root[names.ISSUE] and "[secret]" in root[names.ISSUE] and "+++ b/quokka.py" in root[names.PATCH]
        first, *_, last = collector.named("chat toy-1")
        (said,) = json.loads(last[names.OUTPUT_MESSAGES])
        assert said["parts"] == [{"type": "text", "content": "The platypus is done."}] and said["role"] == "assistant"
        asked = json.loads(first[names.INPUT_MESSAGES])
        assert [one["role"] for one in asked] == ["system", "user"] and VERSE in asked[1]["parts"][0]["content"]
        tools = [json.loads(one[names.TOOL_ARGUMENTS]) for one in collector.named("execute_tool bash")]
        assert tools[1] == {"command": "python -c 'import quokka'"}


@pytest.mark.parametrize("content", [False, True])
def test_what_went_wrong_is_a_class_and_its_words_only_where_wanted(
    collector: Collector, tell: Story, config: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch, content: bool
) -> None:
    """The fault is in a stage of ours, and its message quotes the repository."""
    from scrout.base import GateError
    from scrout.pipeline import Stages

    async def gate(*args: object) -> None:
        raise GateError(f"quokka.py: {VERSE} {SHAPED}")

    monkeypatch.setattr(Stages, "_gate", gate)
    with pytest.raises(GateError):
        tell(config(telemetry={"content": content}))
    from scrout import telemetry

    telemetry.flush(20)
    gated, root = collector.named("scrout.gate")[0], collector.named("scrout.run")[0]
    assert gated.failed and root.failed and {one[names.ERROR_TYPE] for one in (gated, root)} == {"GateError"}
    assert {span.events for span in collector.spans} == {0}
    assert SHAPED.encode() not in collector.raw
    assert (gated.message, VERSE.encode() in collector.raw) == (
        (f"quokka.py: {VERSE} [secret]", True) if content else ("", False)
    )


def test_texts_are_cut_and_a_secret_at_the_cut_leaves_no_half() -> None:
    censor = Censor(Settings())
    cut = censor.content("-" * (MAX_CHARS - 10) + SHAPED + " " + "y" * 50)
    assert cut.startswith("-" * (MAX_CHARS - 10) + "[secret]") and len(cut) < MAX_CHARS + 40 and "sk-p" not in cut
    said = ModelResponse(
        text="t" * 30_000, reasoning="r" * 30_000, calls=({"name": "n" * 999, "arguments": "a" * 30_000},)
    )
    assert len(censor.said(said, "stop")) < MAX_CHARS + 1000 and json.loads(censor.said(said, "stop"))
    asked = ModelRequest(new=tuple({"role": "user", "content": "w" * 9000} for _ in range(200)))
    assert len(censor.asked(asked)) < 2 * MAX_CHARS and json.loads(censor.asked(asked))


def test_half_a_character_does_not_take_its_batch_along(collector: Collector) -> None:
    """It could not be sent, nor could what is sent together with it."""
    out = open_exporter(TelemetrySettings(enabled=True, endpoint=collector.url))
    censor = Censor(Settings())
    for text in ("caf\udce9", "whole"):
        out.span("one", None, {names.DETAIL: censor.content(text)}).end()
    out.flush(20)
    assert [span[names.DETAIL] for span in collector.spans] == ["caf?", "whole"] and out.lost == 0


@pytest.mark.parametrize(
    ("base_url", "api", "provider"),
    [
        ("https://api.anthropic.com/v1", "messages", "anthropic"),
        ("https://us-east5-aiplatform.googleapis.com/v1", "chat", "gcp.vertex_ai"),
        ("https://mine.openai.azure.com/openai/v1", "responses", "azure.ai.openai"),
        ("https://notapi.openai.com.example/v1", "chat", "openai"),
        ("http://127.0.0.1:8000/v1", "messages", "anthropic"),
        ("http://127.0.0.1:8000/v1", "", "openai"),
        ("not an address", "chat", "openai"),
    ],
)
def test_who_is_asked(base_url: str, api: str, provider: str) -> None:
    assert provider_of(base_url, api) == provider


def test_of_an_endpoint_its_host_and_port_alone() -> None:
    told = server_of("https://ada:password@models.example/secret/v1?key=1")
    assert told == {names.SERVER_ADDRESS: "models.example", names.SERVER_PORT: 443}


def test_buckets_are_summed_as_the_conventions_count() -> None:
    usage = Usage(
        input_tokens=1,
        cache_read_tokens=2,
        cache_write_tokens=4,
        cache_write_1h_tokens=8,
        output_tokens=16,
        reasoning_tokens=32,
    )
    assert content.token_facts(usage) == {
        names.INPUT_TOKENS: 15,
        names.CACHE_READ_TOKENS: 2,
        names.CACHE_WRITE_TOKENS: 12,
        names.OUTPUT_TOKENS: 48,
        names.REASONING_TOKENS: 32,
    }
