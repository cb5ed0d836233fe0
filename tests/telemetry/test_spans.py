"""Real runs, told to a real collector: what arrives is the run as the ledger has it."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics

import scrout
from scrout import telemetry
from scrout.models.scripted import ScriptedEndpoint, ScriptedReply, Status
from scrout.money import Receipt
from scrout.pipeline import open_kit, open_task, solve
from scrout.sandbox.tier import Tier
from scrout.telemetry import names

if TYPE_CHECKING:
    from conftest import Collector, Story

CLIENT, INTERNAL = 3, 1
HANDOFF = "<files>\nquokka.py:1-2\n</files>\n<notes>\nThe slice.\n</notes>\nSTOP"


def tokens(collector: Collector, kind: str) -> float:
    return sum(total for given, total, _ in collector.points(names.TOKEN_USAGE) if given[names.TOKEN_TYPE] == kind)


def assert_same_tokens(collector: Collector, receipts: list[Receipt]) -> None:
    """What the ledger has, in metrics and on spans."""
    usages = [receipt.usage for receipt in receipts]
    sent, made = (
        sum(one.prompt_tokens for one in usages),
        sum(one.output_tokens + one.reasoning_tokens for one in usages),
    )
    assert (tokens(collector, "input"), tokens(collector, "output")) == (sent, made)
    chats = [span for span in collector.spans if names.INPUT_TOKENS in span.attributes]
    assert (sum(one[names.INPUT_TOKENS] for one in chats), sum(one[names.OUTPUT_TOKENS] for one in chats)) == (
        sent,
        made,
    )
    assert len(chats) == len(receipts)


def test_a_run_is_told_stage_by_stage(
    collector: Collector,
    tell: Story,
    config: Callable[..., scrout.Settings],
    files: dict[str, str],
    issue: str,
) -> None:
    began_ns = time.time_ns()
    run, _ = tell(config(), issue, files)
    took_s = (time.time_ns() - began_ns) / 1e9
    assert run.outcome == "solved"
    (root,) = collector.named("scrout.run")
    assert (root[names.RUN], root[names.TASK], root[names.OUTCOME]) == (run.id, run.task.id, "solved")
    assert (root[names.COST], root[names.FIXER], root.kind, root.parent) == (0.0, "repair", INTERNAL, "")
    stages = collector.below(root)
    assert [span.name for span in stages] == [f"scrout.{stage}" for stage in ("scout", "gate", "route", "fix", "check")]
    assert {span.trace for span in collector.spans} == {root.trace} and len(collector.spans) == 6
    scout, gate, route, fix, check = stages
    assert run.gated and (scout[names.SEARCHER], gate[names.VERDICT]) == ("recon", run.gated.verdict)
    assert (route[names.FIXER], fix[names.STOP], check[names.CHECK]) == ("repair", "finished", "passed")
    for before, after in pairwise(stages):
        assert root.began_ns <= before.began_ns <= before.ended_ns <= after.began_ns <= root.ended_ns
    assert {span.schema for span in collector.spans} == {"https://opentelemetry.io/schemas/1.41.1"}
    assert root.resource["service.name"] == "scrout" and root.resource["service.version"] == scrout.__version__
    ((given, count, _),) = collector.points(names.RUNS)
    assert (given, count) == ({names.OUTCOME: "solved", names.FIXER: "repair"}, 1)
    assert [collector.metrics[name].unit for name in (names.RUN_COST, names.RUN_DURATION)] == ["{USD}", "s"]
    assert (root.ended_ns - root.began_ns) / 1e9 <= collector.points(names.RUN_DURATION)[0][1] <= took_s
    # Not a line of the issue, not a path, not a line of the patch.
    lines = [line.strip() for line in (issue + run.patch).splitlines() if len(line.strip()) > 12]
    assert len(lines) > 8 and not [line for line in (*lines, *files) if line.encode() in collector.raw]


def test_a_models_calls_are_its_receipts(
    collector: Collector, tell: Story, config: Callable[..., scrout.Settings], script: list[ScriptedReply]
) -> None:
    with ScriptedEndpoint([ScriptedReply(fault=Status(429, {"retry-after": "0"})), *script]) as endpoint:
        run, receipts = tell(config(endpoint.base_url))
        port = int(endpoint.base_url.split(":")[2].split("/")[0])
    assert run.outcome == "solved" and len(receipts) == 3
    assert_same_tokens(collector, receipts)
    (agent,) = collector.named("invoke_agent toy")
    (fix,) = collector.named("scrout.fix")
    assert agent.parent == fix.id and agent[names.FIXER_KEY] == "agent/toy-1" and agent[names.CALLS] == 3
    assert agent[names.COST] == float(run.cost_usd or 0) > 0
    refused, *chats = collector.named("chat toy-1")
    assert refused.failed and refused[names.ERROR_TYPE] == "429" and names.INPUT_TOKENS not in refused.attributes
    for chat, receipt in zip(chats, receipts, strict=True):
        assert (chat.kind, chat.parent, chat.failed) == (CLIENT, agent.id, False)
        assert (chat[names.OPERATION], chat[names.PROVIDER], chat[names.MODEL]) == ("chat", "openai", "toy-1")
        assert (chat[names.SERVER_ADDRESS], chat[names.SERVER_PORT]) == ("127.0.0.1", port)
        assert (chat[names.INPUT_TOKENS], chat[names.OUTPUT_TOKENS]) == (1000, 70)
        assert chat[names.CACHE_READ_TOKENS] == 100 and names.CACHE_WRITE_TOKENS not in chat.attributes
        assert chat[names.REASONING_TOKENS] == 20 and chat[names.COST] == float(receipt.cost_usd or 0)
        assert fix.began_ns <= chat.began_ns <= chat.ended_ns <= fix.ended_ns
        assert chat[names.CONVERSATION].startswith(run.id)
    assert [chat[names.FINISH_REASONS] for chat in chats] == [["tool_calls"], ["tool_calls"], ["stop"]]
    first, second = collector.named("execute_tool bash")
    assert first.parent == agent.id and (first[names.TOOL], first[names.TOOL_TYPE]) == ("bash", "function")
    order = [chats[0].ended_ns, first.began_ns, first.ended_ns, chats[1].ended_ns, second.ended_ns, chats[2].ended_ns]
    assert order == sorted(order)
    timed = Counter({given[names.OPERATION]: 0 for given, _, _ in collector.points(names.OPERATION_DURATION)})
    for given, _, count in collector.points(names.OPERATION_DURATION):
        timed[given[names.OPERATION]] += count
    assert timed == {"chat": 4, "invoke_agent": 1, "execute_tool": 2}
    ((_, cost, _),) = collector.points(names.RUN_COST)
    assert cost == float(run.cost_usd or 0)


@pytest.mark.parametrize("price", [pytest.param(0.0, marks=pytest.mark.slow), 1.0])
def test_a_searchers_calls_too_through_the_meter_or_past_it(
    collector: Collector, tell: Story, config: Callable[..., scrout.Settings], look: ScriptedReply, price: float
) -> None:
    with ScriptedEndpoint([look, ScriptedReply(HANDOFF, usage=look.usage)]) as endpoint:
        model = {"model": "m", "base_url": endpoint.base_url, "price": {"input": price, "output": price}}
        run, receipts = tell(config(scout={"searcher": "model", "model": model | {"shortlist": False}}))
    assert run.scouting and run.scouting.stop == "finished" and len(receipts) == 2
    assert_same_tokens(collector, receipts)
    (agent,) = collector.named("invoke_agent searcher")
    (scout,) = collector.named("scrout.scout")
    assert agent.parent == scout.id and scout[names.TURNS] == 2
    first, second = collector.named("chat m")
    (tool,) = collector.named("execute_tool bash")
    assert {first.parent, second.parent, tool.parent} == {agent.id}
    assert first.began_ns < first.ended_ns <= tool.began_ns <= tool.ended_ns <= second.ended_ns


@pytest.mark.slow
def test_what_a_former_session_told_is_not_told_again(
    collector: Collector,
    config: Callable[..., scrout.Settings],
    script: list[ScriptedReply],
    files: dict[str, str],
    issue: str,
    make_repo: Callable[..., Path],
    tier: Tier,
) -> None:
    task = open_task(make_repo(files), issue)

    def interrupt(words: str) -> None:
        if words == "checking the patch":
            raise KeyboardInterrupt

    with ScriptedEndpoint(script) as endpoint:
        given = config(endpoint.base_url)
        with pytest.raises(KeyboardInterrupt), open_kit(task, given, interrupt) as kit:
            asyncio.run(solve(task, kit))
        with open_kit(task, given) as kit:
            run = asyncio.run(solve(task, kit))
            receipts = [one for step in kit.ledger.steps(run.id) for one in step.receipts]
    telemetry.flush(20)
    assert len(receipts) == 3
    assert_same_tokens(collector, receipts)
    broken, whole = collector.named("scrout.run")
    assert broken[names.RUN] == whole[names.RUN] == run.id and broken.trace != whole.trace
    assert (broken[names.OUTCOME], broken[names.ERROR_TYPE], broken.failed) == (
        "interrupted",
        "KeyboardInterrupt",
        True,
    )
    assert (whole[names.OUTCOME], whole[names.RESUMED], whole[names.COST]) == ("solved", True, float(run.cost_usd or 0))
    reused = [span.name for span in collector.below(whole) if span.attributes.get(names.REUSED)]
    assert reused == [f"scrout.{stage}" for stage in ("scout", "gate", "route", "fix")]
    assert [(total, count) for _, total, count in collector.points(names.RUNS)] == [(1, 1)]


@pytest.mark.slow
async def test_runs_at_the_same_time_are_traces_of_their_own(
    collector: Collector,
    config: Callable[..., scrout.Settings],
    script: list[ScriptedReply],
    files: dict[str, str],
    issue: str,
    make_repo: Callable[..., Path],
    tier: Tier,
) -> None:
    """Several in one event loop, each with tools and calls of its own, all to one collector."""
    tasks = [open_task(make_repo(files, f"plain-{number}"), f"{issue}\n{number}") for number in range(2)]

    async def one(number: int, base_url: str) -> scrout.Run:
        with open_kit(tasks[number], config(base_url)) as kit:
            return await solve(tasks[number], kit)

    def reply(request: object) -> ScriptedReply:
        return script[str(request).count("tool_call_id")]

    with ScriptedEndpoint(reply) as endpoint:
        runs = await asyncio.gather(*(one(number, endpoint.base_url) for number in range(2)))
    telemetry.flush(20)
    assert {run.outcome for run in runs} == {"solved"}
    roots = {span.trace: span for span in collector.named("scrout.run")}
    assert len(roots) == 2 and {root[names.RUN] for root in roots.values()} == {run.id for run in runs}
    for trace, root in roots.items():
        mine = [span for span in collector.spans if span.trace == trace]
        ids = {span.id for span in mine}
        assert all(span.parent in ids for span in mine if span is not root and span.parent)
        assert Counter(span.name for span in mine) == {
            **{f"scrout.{stage}": 1 for stage in ("run", "scout", "gate", "route", "fix", "check")},
            "invoke_agent toy": 1,
            "chat toy-1": 3,
            "execute_tool bash": 2,
        }
        told = {
            span[key].partition("/")[0]
            for span in mine
            for key in (names.RUN, names.CONVERSATION)
            if key in span.attributes
        }
        assert told == {root[names.RUN]}


def test_the_names_are_those_of_the_pinned_conventions() -> None:
    assert f"https://opentelemetry.io/schemas/{names.SEMCONV_VERSION}" == names.SCHEMA_URL
    known = {value for key, value in vars(gen_ai_attributes).items() if key.startswith("GEN_AI_")}
    ours = {value for value in vars(names).values() if isinstance(value, str) and value.startswith("gen_ai.")}
    metrics = {gen_ai_metrics.GEN_AI_CLIENT_TOKEN_USAGE, gen_ai_metrics.GEN_AI_CLIENT_OPERATION_DURATION}
    assert metrics == {names.TOKEN_USAGE, names.OPERATION_DURATION} and ours - metrics <= known and len(ours) >= 20
    operations = {one.value for one in gen_ai_attributes.GenAiOperationNameValues}
    assert {names.CHAT, names.INVOKE_AGENT, names.EXECUTE_TOOL} <= operations
    assert set(names.PROVIDERS.values()) <= {one.value for one in gen_ai_attributes.GenAiProviderNameValues}


def test_the_page_has_every_name_and_no_other() -> None:
    page = (Path(__file__).parents[2] / "docs" / "telemetry.md").read_text()
    told = set(re.findall(r"`((?:scrout|gen_ai|server|error)\.[\w.]+)`", page)) - {"scrout.toml"}
    public = [str(value) for name, value in vars(names).items() if not name.startswith("_")]
    ours = {value for value in public if re.match(r"(scrout|gen_ai|server|error)\.", value)}
    stages = {f"scrout.{stage}" for stage in ("run", "scout", "gate", "route", "fix", "check")}
    assert told == ours | stages
    assert names.SEMCONV_VERSION in page
