"""Conversations of `scrout/auto` are told of as runs are."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from scrout import telemetry
from scrout.config.settings import Caller, Settings
from scrout.ledger.opening import open_ledger
from scrout.models.scripted import ScriptedEndpoint, ScriptedReply
from scrout.money import Usage
from scrout.server.api.conversations import Conversations
from scrout.server.api.store import ApiStore

if TYPE_CHECKING:
    from conftest import Collector

USAGE = Usage(input_tokens=900, output_tokens=50)


async def test_a_conversation_is_a_trace_without_its_words(
    collector: Collector, config: Callable[..., Settings], tmp_path: Path
) -> None:
    caller = Caller(name="ci", token_env="-", may=("auto",), budget_usd=Decimal(10))
    request = {"model": "scrout/auto", "messages": [{"role": "user", "content": "the kookaburra forgets"}]}
    with ScriptedEndpoint([ScriptedReply("a wombat", usage=USAGE)] * 2) as endpoint:
        settings = config(endpoint.base_url)
        store = ApiStore(tmp_path / "api.db")
        conversations = Conversations(settings, store, open_ledger(settings))
        for _ in range(2):
            spoken = await conversations.ask(caller, dict(request), "")
            assert b"a wombat" in b"".join([part async for part in spoken.body])
            spoken.close()
        await conversations.close()
        store.close()
    telemetry.flush(20)
    (run,) = collector.named("scrout.run")
    assert (run["scrout.arm"], run["scrout.outcome"], run["scrout.fixer"]) == ("auto", "unjudged", "toy")
    chats = collector.named("chat toy-1")
    assert [chat["gen_ai.usage.input_tokens"] for chat in chats] == [900, 900]
    assert {chat.trace for chat in chats} == {run.trace}
    assert b"kookaburra" not in collector.raw and b"wombat" not in collector.raw
