"""The tools and resources, with the SDK's own client, in this process or over a pipe to a real one."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

pytest.importorskip("mcp.server.mcpserver", reason="the extra mcp is not installed")

from mcp import Client, MCPError
from mcp.types import CallToolResult, TextContent, TextResourceContents

from scrout.config.settings import Settings
from scrout.ledger.audit import audit
from scrout.ledger.opening import open_ledger
from scrout.server.mcp.answers import DATA, MAX_CHARS

from ...conftest import SHOP_ISSUE

if TYPE_CHECKING:
    from conftest import Server


def said(result: CallToolResult) -> str:
    """The text of an answer, both forms of which are short."""
    (block,) = result.content
    assert isinstance(block, TextContent)
    assert len(block.text) <= MAX_CHARS
    assert len(json.dumps(result.structured_content, ensure_ascii=False)) <= MAX_CHARS
    return block.text


def data(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, said(result)
    assert result.structured_content is not None
    return result.structured_content


def has_bug(repo: Path) -> bool:
    return "prices[1:]" in Path(repo, "shop/cart.py").read_text()


def apply(patch: str, repo: Path) -> None:
    subprocess.run(["git", "apply", "-"], input=patch.encode(), cwd=repo, check=True)


def wait_for(command: str, wanted: bool) -> None:
    """Until a process of exactly this command is there, or is not."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        if wanted == any(row.strip() == command for row in listed.splitlines()):
            return
        time.sleep(0.1)
    raise AssertionError(f"{command} is {'not ' if wanted else ''}running")


async def resource(client: Client, uri: str) -> str:
    (content,) = (await client.read_resource(uri)).contents
    assert isinstance(content, TextResourceContents)
    return content.text


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_tools_are_few_and_short(server: Server, mode: Any) -> None:
    async with Client(server.inside(), mode=mode) as client:
        tools = (await client.list_tools()).tools
        templates = (await client.list_resource_templates()).resource_templates
    assert [tool.name for tool in tools] == ["scout", "gate", "route"]
    assert sum(len(tool.model_dump_json(exclude_none=True)) for tool in tools) < 3_000
    assert {template.uri_template for template in templates} == {
        "scrout://runs/{run}",
        *(f"scrout://runs/{{run}}/{part}" for part in ("handoff", "patch", "receipts")),
    }


async def test_fix_is_refused_where_it_is_not_allowed(server: Server) -> None:
    async with Client(server.inside()) as client:
        result = await client.call_tool("fix", {"issue": SHOP_ISSUE})
    assert result.is_error and "fix" in said(result)
    with open_ledger(Settings()) as book:
        assert book.run_ids() == []


@pytest.mark.slow
async def test_scout_gate_route_and_fix_are_one_run(server: Server) -> None:
    heard: list[str] = []

    async def progress(done: float, of: float | None, words: str | None) -> None:
        heard.append(words or "")

    async with Client(server.stdio("--allow-fix")) as client:
        scouted = await client.call_tool("scout", {"issue": SHOP_ISSUE}, progress_callback=progress)
        gated = await client.call_tool("gate", {"issue": SHOP_ISSUE})
        run = data(scouted)["run"]
        routed = await client.call_tool("route", {"run": run})
        fixed = await client.call_tool("fix", {"issue": SHOP_ISSUE})
        handoff = await resource(client, f"scrout://runs/{run}/handoff")
        patch = await resource(client, f"scrout://runs/{run}/patch")
        receipts = await resource(client, f"scrout://runs/{run}/receipts")
        whole = await resource(client, f"scrout://runs/{run}")
    assert "shop/cart.py:" in data(scouted)["untrusted"]["handoff"] and DATA in said(scouted)
    assert "scouting the repository" in heard
    assert (data(gated)["run"], data(gated)["verdict"], data(gated)["kept"]) == (run, "real_failure", True)
    assert "AssertionError" in data(gated)["untrusted"]["evidence"] and "verdict: real_failure (kept)" in said(gated)
    assert data(routed)["fixer"] == "repair" and "fixer: repair" in said(routed)
    answer = data(fixed)
    assert (answer["run"], answer["outcome"], answer["applied"], answer["cost_usd"]) == (run, "solved", False, 0)
    assert answer["untrusted"]["patch"] in patch and DATA in patch and DATA in handoff
    assert json.loads(receipts) == {"cost_usd": 0, "receipts": []}
    assert json.loads(whole)["untrusted"]["outcome"] == "solved" and json.loads(whole)["about"] == DATA
    assert has_bug(server.repo)
    apply(patch, server.repo)
    assert not has_bug(server.repo)
    with open_ledger(Settings()) as book:
        assert book.run_ids() == [run]
        assert [step.name for step in book.steps(run) if step.result] == ["scout", "gate", "route", "fix", "check"]
        assert not audit(book).problems


async def test_a_handoff_of_the_clients_own_is_replayed_in_a_run_by_itself(server: Server) -> None:
    claim = "<files>\nshop/cart.py\n</files>\n<repro>\ncommand: true\nreproduced: true\nobserved: boom\n</repro>\nSTOP"
    async with Client(server.inside()) as client:
        scouted = await client.call_tool("scout", {"issue": SHOP_ISSUE})
        gated = await client.call_tool("gate", {"issue": SHOP_ISSUE, "handoff": claim})
        again = await client.call_tool("scout", {"issue": SHOP_ISSUE})
    assert data(gated)["verdict"] == "passed" and not data(gated)["kept"]
    assert "command: true" not in data(gated)["untrusted"]["handoff"]
    assert data(gated)["run"] != data(scouted)["run"] == data(again)["run"]


async def test_route_by_the_text_alone_runs_nothing(server: Server) -> None:
    async with Client(server.inside("-c", "sandbox.tier=seatbelt")) as client:
        routed = await client.call_tool("route", {"issue": SHOP_ISSUE})
    assert data(routed)["fixer"] == "repair" and data(routed)["candidates"][0]["reason"]


@pytest.fixture
def changed(server: Server) -> Server:
    Path(server.repo, "shop/basket.py").write_text("def whole_sum(prices):\n    return sum(prices[1:])\n")
    return server


async def test_uncommitted_changes_count_when_asked_for(changed: Server) -> None:
    issue = {"issue": "whole_sum in shop/basket.py leaves out the first price"}
    async with Client(changed.inside()) as client:
        without = await client.call_tool("scout", issue)
        with_them = await client.call_tool("scout", {**issue, "dirty": True})
    assert any("uncommitted" in note for note in data(without)["notes"]) and not data(with_them)["notes"]
    assert "shop/basket.py:" in data(with_them)["untrusted"]["handoff"]


async def test_two_calls_at_once(server: Server) -> None:
    issues = [SHOP_ISSUE, SHOP_ISSUE.replace("leaves out", "forgets")]
    runs: list[str] = []

    async with Client(server.inside()) as client:

        async def call(issue: str) -> None:
            runs.append(data(await client.call_tool("scout", {"issue": issue}))["run"])

        async with anyio.create_task_group() as group:
            for issue in (*issues, SHOP_ISSUE):
                group.start_soon(call, issue)
    assert len(set(runs)) == 3
    with open_ledger(Settings()) as book:
        assert sorted(book.run_ids()) == sorted(runs)


SLOW = "<repro>\ncommand: sleep {}\nreproduced: true\nobserved: boom\n</repro>\nSTOP"


async def test_a_call_that_is_called_off_ends_its_sandbox(server: Server) -> None:
    async with Client(server.inside()) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "gate", {"issue": SHOP_ISSUE, "handoff": SLOW.format("311.7")})
            await anyio.to_thread.run_sync(wait_for, "sleep 311.7", True)
            group.cancel_scope.cancel()
        await anyio.to_thread.run_sync(wait_for, "sleep 311.7", False)
        after = await client.call_tool("route", {"issue": SHOP_ISSUE})
    assert not after.is_error
    with open_ledger(Settings()) as book:
        (run,) = book.runs()
        assert run.outcome == "interrupted" and run.gated is None
        assert book.steps(run.id)[-1].error.startswith("CancelledError")


@pytest.mark.parametrize("end", ["hang up", pytest.param("terminate", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_a_server_that_ends_leaves_nothing_running(server: Server, end: str) -> None:
    started = server.stdio()
    seconds = f"312.{os.getpid()}"
    call = {"name": "gate", "arguments": {"issue": SHOP_ISSUE, "handoff": SLOW.format(seconds)}}
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    messages: list[dict[str, object]] = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
    ]
    with subprocess.Popen(
        [started.command, *started.args], env=started.env, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as process:
        assert process.stdin
        process.stdin.write("".join(json.dumps(one) + "\n" for one in messages).encode())
        process.stdin.flush()
        wait_for(f"sleep {seconds}", True)
        process.stdin.close() if end == "hang up" else process.terminate()
        process.wait(30)
    wait_for(f"sleep {seconds}", False)
    with open_ledger(Settings()) as book:
        assert book.steps(book.run_ids()[0])[-1].error.startswith("CancelledError")


async def test_errors_name_the_next_step(server: Server) -> None:
    async with Client(server.inside("-c", "sandbox.tier=seatbelt")) as client:
        results = {
            "empty": await client.call_tool("scout", {"issue": "  "}),
            "no handoff in it": await client.call_tool("gate", {"issue": SHOP_ISSUE, "handoff": "{]"}),
            "no sandbox": await client.call_tool("scout", {"issue": SHOP_ISSUE}),
            "no such run": await client.call_tool("route", {"run": "20200101-000000-abcdef"}),
        }
        with pytest.raises(MCPError, match="no run"):
            await client.read_resource("scrout://runs/20200101-000000-abcdef")
    for name, result in results.items():
        assert result.is_error and "Traceback" not in said(result) and said(result).count(".") >= 2, name
