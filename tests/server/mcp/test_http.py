"""The same over streamable HTTP: a real port, and who may use it."""

from __future__ import annotations

import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import httpx
import pytest

pytest.importorskip("mcp.server.mcpserver", reason="the extra mcp is not installed")

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from scrout.config.settings import Settings
from scrout.ledger.opening import open_ledger

if TYPE_CHECKING:
    from conftest import Server

TOKEN = "0123456789abcdef-of-a-test"
ISSUE = "total() in shop/cart.py leaves out the first price"
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
USUAL = {"Accept": "application/json, text/event-stream"}


@asynccontextmanager
async def connected(address: str, headers: Mapping[str, str], mode: Any = "auto") -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers=dict(headers), timeout=120) as http,
        Client(streamable_http_client(address, http_client=http), mode=mode) as client,
    ):
        yield client


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_two_calls_at_once_with_a_token(server: Server, mode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", TOKEN)
    runs: list[str] = []
    heard: list[str] = []

    async def progress(done: float, of: float | None, words: str | None) -> None:
        heard.append(words or "")

    with server.http("--token-env", "SHOP_TOKEN", "--allow-fix") as address:
        async with connected(address, {"Authorization": f"Bearer {TOKEN}"}, mode) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]

            async def call(issue: str) -> None:
                result = await client.call_tool("scout", {"issue": issue}, progress_callback=progress)
                assert result.structured_content and not result.is_error
                runs.append(result.structured_content["run"])

            async with anyio.create_task_group() as group:
                group.start_soon(call, ISSUE)
                group.start_soon(call, f"{ISSUE}, always")
            read = await client.read_resource(f"scrout://runs/{runs[0]}/handoff")
    assert tools == ["scout", "gate", "route", "fix"]
    assert len(set(runs)) == 2 and "scouting the repository" in heard and "shop/cart.py" in read.model_dump_json()


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_call_that_is_called_off_is_interrupted(server: Server, mode: Any) -> None:
    slow = "<repro>\ncommand: sleep 313.7\nreproduced: true\nobserved: boom\n</repro>\nSTOP"
    at_work, ended = anyio.Event(), False

    async def progress(done: float, of: float | None, words: str | None) -> None:
        if words == "replaying the scout's claim":
            at_work.set()

    with server.http() as address:
        async with connected(address, {}, mode) as client:
            async with anyio.create_task_group() as group:
                call = {"issue": ISSUE, "handoff": slow}
                group.start_soon(partial(client.call_tool, "gate", call, progress_callback=progress))
                with anyio.fail_after(60):
                    await at_work.wait()
                group.cancel_scope.cancel()
            with open_ledger(Settings()) as book, anyio.fail_after(60):
                while not ended:  # told before the server ends, which would end it too
                    await anyio.sleep(0.1)
                    ended = book.steps(book.run_ids()[0])[-1].error.startswith("CancelledError")


def test_who_is_refused(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", TOKEN)
    with server.http("--token-env", "SHOP_TOKEN") as address:
        bearer = {"Authorization": f"Bearer {TOKEN}"}

        def status(headers: Mapping[str, str], body: object = HELLO) -> int:
            return httpx.post(address, json=body, headers={**USUAL, **headers}, timeout=60, verify=False).status_code

        assert status(bearer) == 200
        assert status({}) == status({"Authorization": "Bearer wrong"}) == status({"Authorization": TOKEN}) == 401
        assert (
            httpx.get(address, headers=USUAL, verify=False).status_code
            == httpx.delete(address, verify=False).status_code
            == 401
        )
        own = address.removesuffix("/mcp")
        assert status({**bearer, "Origin": own}) == 200
        for origin in ("http://evil.example", "http://127.0.0.1:1", "null", f"{own}.evil.example"):
            assert status({**bearer, "Origin": origin}) == 403, origin
        for host in ("evil.example", "127.0.0.1.evil.example", "127.0.0.1:1", "0.0.0.0"):
            assert status({**bearer, "Host": host}) == 421, host
        assert status(bearer, {**HELLO, "padding": "x" * 5_000_000}) == 413
        assert status(bearer) == 200


def test_only_loopback_listens(server: Server) -> None:
    with server.http() as address:
        port = int(address.split(":")[2].removesuffix("/mcp"))
        assert httpx.post(address, json=HELLO, headers=USUAL, timeout=60, verify=False).status_code == 200
        with socket.socket() as other, pytest.raises(OSError):
            other.settimeout(5)
            other.connect(("127.0.0.2", port))  # loopback too, so a server on all addresses would answer


def test_what_does_not_start(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "--token-env" in server.fails("--http", "--allow-fix")
    assert "SHOP_TOKEN" in server.fails("--http", "--token-env", "SHOP_TOKEN")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"--port {port}" in server.fails("--http", "--port", str(port))
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    assert "pip install 'scrout[mcp]'" in server.fails("--http")
