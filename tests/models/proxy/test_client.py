"""Accounts with the meter's real process: what survives when it, or whoever opened an account, is killed."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import httpx
import pytest

from scrout.base import ModelError
from scrout.models.chat import Chat, Message
from scrout.models.proxy import client
from scrout.models.proxy.caps import Account
from scrout.models.proxy.client import ProxyClient, open_proxy_client
from scrout.models.scripted import Hang, ScriptedEndpoint, ScriptedReply
from scrout.models.unix_socket import SocketTransport
from scrout.money import Price, Receipt, Usage
from scrout.trajectory import read, receipts

KEY = "sk-very-secret-0123456789"
PRICE = Price(input=Decimal(3), output=Decimal(15))
USAGE = Usage(input_tokens=200, output_tokens=50)
REPLY = ScriptedReply("fine", usage=USAGE)
HELLO = (Message("user", "hi"),)
BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 900}


@pytest.fixture(scope="module", autouse=True)
def runtime() -> Iterator[Path]:
    """Sockets of this module's own, so that its tests share one process and kill nobody else's."""
    folder = Path(tempfile.mkdtemp(prefix="meter", dir="/tmp"))
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("XDG_RUNTIME_DIR", str(folder))
        environment.setenv("SOME_API_KEY", KEY)
        yield folder
    for pid in pids(folder):
        os.kill(pid, signal.SIGTERM)
    shutil.rmtree(folder)


def pids(folder: Path) -> set[int]:
    """Processes that were started for this folder."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            told = entry.read_bytes()
        except OSError:
            continue
        if str(folder).encode() in told and b"scrout.models.proxy.process" in told:
            found.add(int(entry.parent.name))
    return found


def account(endpoint: ScriptedEndpoint | None, trajectory: Path, *, cap_calls: int = 50) -> Account:
    return Account(
        fixer="f",
        model="m",
        base_url=endpoint.base_url if endpoint else "http://127.0.0.1:9/v1",
        key=KEY,
        price=PRICE,
        cap_usd=Decimal(2),
        cap_calls=cap_calls,
        trajectory=str(trajectory),
    )


async def ask(proxy_endpoint: ProxyClient) -> httpx.Response:
    async with httpx.AsyncClient(
        transport=httpx.AsyncHTTPTransport(verify=False, uds=str(proxy_endpoint.socket)), timeout=20
    ) as client:
        return await client.post("http://door/v1/chat/completions", json=BODY)


def process_of(proxy_endpoint: ProxyClient) -> int:
    return int(proxy_endpoint.socket.name.partition("-")[0])


async def until(true: Callable[[], bool], seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def lives(pid: int) -> bool:
    """Not gone, and not waiting to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_a_call_is_booked_as_it_ends_and_the_key_is_nowhere(tmp_path: Path, runtime: Path) -> None:
    booked: list[Receipt] = []
    with ScriptedEndpoint([REPLY]) as endpoint:
        async with open_proxy_client(account(endpoint, tmp_path / "t"), booked.append) as proxy_endpoint:
            assert (await ask(proxy_endpoint)).json()["choices"][0]["message"]["content"] == "fine"
            await until(lambda: len(booked) == 1)
            assert not proxy_endpoint.ended.done()
            told = Path(f"/proc/{process_of(proxy_endpoint)}")
            assert KEY.encode() not in told.joinpath("environ").read_bytes() + told.joinpath("cmdline").read_bytes()
            assert int(told.joinpath("stat").read_text().rpartition(")")[2].split()[1]) != os.getpid()
        assert endpoint.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert booked == proxy_endpoint.receipts == list(receipts(tmp_path / "t"))
    assert (booked[0].usage, proxy_endpoint.fault, proxy_endpoint.fault_status) == (USAGE, "", 200)
    files = [path for folder in (runtime, tmp_path) for path in folder.rglob("*") if path.is_file()]
    assert any(path.name == "log" for path in files)
    assert not any(KEY in path.read_text(errors="replace") for path in files)
    assert not proxy_endpoint.socket.exists()


async def test_accounts_opened_at_once_share_a_process_and_nothing_else(tmp_path: Path) -> None:
    books: list[list[Receipt]] = [[] for _ in range(5)]
    processes = set()

    async def attempt(number: int) -> None:
        async with open_proxy_client(account(endpoint, tmp_path / f"{number}"), books[number].append) as proxy_endpoint:
            processes.add(process_of(proxy_endpoint))
            for _ in range(number + 1):
                assert (await ask(proxy_endpoint)).status_code == 200

    with ScriptedEndpoint(lambda _: REPLY) as endpoint:
        await asyncio.gather(*(attempt(number) for number in range(5)))
    assert len(processes) == 1
    assert [[receipt.call for receipt in book] for book in books] == [list(range(1, n + 2)) for n in range(5)]


async def test_the_opener_learns_of_a_cap_and_the_agent_does_not(tmp_path: Path) -> None:
    with ScriptedEndpoint([REPLY]) as endpoint:
        async with open_proxy_client(account(endpoint, tmp_path / "t", cap_calls=1), lambda _: None) as proxy_endpoint:
            await ask(proxy_endpoint)
            silent = asyncio.create_task(ask(proxy_endpoint))
            assert await asyncio.wait_for(proxy_endpoint.ended, 10) == ("cap_calls", "all 1 calls used")
            assert not silent.done()
        with pytest.raises(httpx.HTTPError):
            await silent
    assert len(proxy_endpoint.receipts) == 1


async def test_the_end_of_a_block_that_is_cancelled_loses_no_receipt(tmp_path: Path) -> None:
    booked: list[Receipt] = []

    async def attempt() -> None:
        async with open_proxy_client(account(endpoint, tmp_path / "t"), booked.append) as proxy_endpoint:
            await ask(proxy_endpoint)

    with ScriptedEndpoint([ScriptedReply(fault=Hang(30))]) as endpoint:
        task = asyncio.create_task(attempt())
        await until(lambda: endpoint.served == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert [(one.estimated, one.call) for one in booked] == [(True, 1)]


async def test_a_killed_meter_ends_the_attempt_and_what_it_held_is_booked(tmp_path: Path) -> None:
    booked: list[Receipt] = []
    with ScriptedEndpoint([REPLY, ScriptedReply(fault=Hang(30))]) as endpoint:
        async with open_proxy_client(account(endpoint, tmp_path / "t"), booked.append) as proxy_endpoint:
            await ask(proxy_endpoint)
            hanging = asyncio.create_task(ask(proxy_endpoint))
            await until(lambda: endpoint.served == 2)
            killed = process_of(proxy_endpoint)
            os.kill(killed, signal.SIGKILL)
            stop, detail = await asyncio.wait_for(proxy_endpoint.ended, 10)
            with pytest.raises(httpx.HTTPError):
                await hanging
    assert stop == "endpoint" and "process ended" in detail
    assert [(one.call, one.estimated) for one in booked] == [(1, False), (2, True)]
    assert booked[1].cost_usd == PRICE.cost(booked[1].usage)
    async with open_proxy_client(account(None, tmp_path / "next"), booked.append) as proxy_endpoint:
        assert process_of(proxy_endpoint) != killed
        assert [path.name for path in proxy_endpoint.socket.parent.glob("[0-9]*")] == [proxy_endpoint.socket.name], (
            "sockets of the dead"
        )


async def test_a_chat_through_a_killed_meter_ends_at_once_and_says_so(tmp_path: Path) -> None:
    with ScriptedEndpoint([REPLY] * 3) as endpoint:
        async with open_proxy_client(account(endpoint, tmp_path / "t"), lambda receipt: None) as opened:
            way = SocketTransport(opened.socket, endpoint.base_url)
            async with Chat(endpoint.base_url, "m", None, transport=way, sleep=at_once) as chat:
                assert (await chat.complete(HELLO, (), 900)).text == "fine"
                os.kill(process_of(opened), signal.SIGKILL)
                await asyncio.wait_for(opened.ended, 10)
                with pytest.raises(ModelError, match="the meter's process ended"):
                    await chat.complete(HELLO, (), 900)
    assert endpoint.served == 1


async def test_what_is_free_goes_to_the_endpoint_directly(tmp_path: Path) -> None:
    with ScriptedEndpoint([REPLY], tokenizer=True) as endpoint:
        async with open_proxy_client(account(endpoint, tmp_path / "t"), lambda receipt: None) as opened:
            way = SocketTransport(opened.socket, endpoint.base_url)
            async with Chat(endpoint.base_url, "m", None, transport=way) as chat:
                assert await chat.count(HELLO, ())
                await chat.complete(HELLO, (), 900)
    assert [receipt.call for receipt in opened.receipts] == [1]
    assert [line.kind for line in read(tmp_path / "t")] == ["header", "held", "call", "end"]


async def at_once(seconds: float) -> None:
    """Nobody waits in a test."""


RUNNER = """
import asyncio, sys
from pathlib import Path
import httpx
from scrout.models.proxy.caps import Account
from scrout.models.proxy.client import open_proxy_client

async def main():
    account = Account.model_validate_json(sys.stdin.readline())
    async with open_proxy_client(account, lambda receipt: None) as door:
        transport = httpx.AsyncHTTPTransport(verify=False, uds=str(door.socket))
        async with httpx.AsyncClient(transport=transport, timeout=60) as client:
            body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 900}
            await client.post("http://door/v1/chat/completions", json=body)

asyncio.run(main())
"""


async def test_a_killed_runner_leaves_a_record_that_is_settled(tmp_path: Path) -> None:
    trajectory = tmp_path / "t"
    with ScriptedEndpoint([ScriptedReply(fault=Hang(30))]) as endpoint:
        runner = await asyncio.create_subprocess_exec(sys.executable, "-c", RUNNER, stdin=subprocess.PIPE)
        assert runner.stdin is not None
        runner.stdin.write(account(endpoint, trajectory).model_dump_json().encode() + b"\n")
        await until(lambda: endpoint.served == 1)
        runner.kill()
        await runner.wait()
        await until(lambda: [line.kind for line in read(trajectory)] == ["header", "held", "call", "end"])
    assert [one.estimated for one in receipts(trajectory)] == [True]


@pytest.mark.slow
async def test_the_process_ends_when_nobody_has_needed_it_for_a_while(tmp_path: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="meter", dir="/tmp"))
    hurried = "import sys; from scrout.models.proxy import process; process.LINGER_S = 0.2; process.main()"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", hurried, str(folder))
    try:
        await until((folder / "control").exists)
        reader, writer = await asyncio.open_unix_connection(str(folder / "control"))
        writer.write(b"no account\n")
        assert json.loads(await reader.readline())["kind"] == "failed"
        writer.close()
        reader, writer = await asyncio.open_unix_connection(str(folder / "control"))
        writer.write(account(None, tmp_path / "t").model_dump_json().encode() + b"\n")
        assert json.loads(await reader.readline())["kind"] == "opened"
        await asyncio.sleep(0.6)
        assert process.returncode is None, "an open account keeps it"
        writer.write_eof()
        assert json.loads(await reader.readline())["kind"] == "closed"
        writer.close()
        assert await asyncio.wait_for(process.wait(), 10) == 0
        assert not (folder / "control").exists()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        shutil.rmtree(folder)


async def test_no_module_of_the_current_folder_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Started as `python -m` has it, with the current folder on the path."""
    repository, marker = tmp_path / "repository", tmp_path / "imported"
    repository.mkdir()
    for name in ("httptools", "httpx", "pydantic"):
        repository.joinpath(f"{name}.py").write_text(f"open({str(marker)!r}, 'w').close()\nraise SystemExit(3)\n")
    folder = Path(tempfile.mkdtemp(prefix="meter", dir="/tmp"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.chdir(repository)
    monkeypatch.setattr(sys, "path", [str(repository), *sys.path])
    try:
        async with open_proxy_client(account(None, tmp_path / "t"), lambda _: None) as proxy_endpoint:
            assert lives(process_of(proxy_endpoint))
        assert not marker.exists()
    finally:
        for pid in pids(folder):
            os.kill(pid, signal.SIGTERM)
        shutil.rmtree(folder)


async def test_a_folder_that_others_can_read_gets_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(tempfile.mkdtemp(prefix="meter", dir="/tmp"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    try:
        async with open_proxy_client(account(None, tmp_path / "t"), lambda _: None) as proxy_endpoint:
            process = process_of(proxy_endpoint)
        proxy_endpoint.socket.parent.chmod(0o755)
        with pytest.raises(ModelError, match="not a folder of yours alone"):
            async with open_proxy_client(account(None, tmp_path / "u"), lambda _: None):
                pass
        os.kill(process, signal.SIGTERM)
    finally:
        shutil.rmtree(folder)


async def test_a_record_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("of an earlier attempt")
    with pytest.raises(ModelError, match="File exists"):
        async with open_proxy_client(account(None, tmp_path / "t"), lambda _: None):
            pass
    assert (tmp_path / "t").read_text() == "of an earlier attempt"


def test_a_network_namespace_has_a_meter_of_its_own() -> None:
    """One that was started outside of it has another loopback, and would not find the endpoint."""
    script = "from scrout.models.proxy.client import _folder; print(_folder().name)"
    apart = ["unshare", "--net", sys.executable, "-c", script]
    done = subprocess.run(apart, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no network namespace can be made here: {done.stderr.strip()}")
    assert done.stdout.strip() != client._folder().name
