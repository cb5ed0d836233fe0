"""Opens an account with the meter's process, starting the process if needed, and receives its events."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from pydantic import JsonValue

from scrout import __version__
from scrout.base import ModelError
from scrout.files import Lock
from scrout.models.chat import METER_STOPS
from scrout.models.proxy.caps import Account
from scrout.models.proxy.process import CONTROL
from scrout.models.unix_socket import GONE
from scrout.money import Receipt
from scrout.records import Stop
from scrout.trajectory import receipts

START_S = 30.0
CLOSE_S = 10.0
TRIES = 3
"""A process that is about to end may accept a connection and then disappear."""
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


class ProxyClient:
    """An open account."""

    def __init__(self, socket: Path, book: Callable[[Receipt], None]) -> None:
        self.socket = socket
        """URL of the meter's HTTP endpoint."""
        self.receipts: list[Receipt] = []
        self.ended: asyncio.Future[tuple[Stop, str]] = asyncio.get_running_loop().create_future()
        """Why the attempt has ended: a cap was reached, or the meter is gone."""
        self.fault = ""
        """The last call's error, in words; empty: none. Known when the account is closed."""
        self.fault_status: int | None = None
        """The endpoint's status for it; None: there was no answer."""
        self.fault_own = False
        """Whether the meter refused it."""
        self.silent_s = 0.0
        """How long the endpoint had been silent to a call in progress at the end."""
        self._book = book
        self._closed = False

    def end(self, stop: Stop, detail: str) -> None:
        if not self.ended.done():
            self.ended.set_result((stop, detail))

    def take(self, receipt: Receipt) -> None:
        self.receipts.append(receipt)
        self._book(receipt)

    async def follow(self, reader: asyncio.StreamReader) -> None:
        """Receive events until the meter has closed the account, or is gone."""
        with contextlib.suppress(ConnectionError):
            while line := await reader.readline():
                event: dict[str, JsonValue] = json.loads(line)
                match event["kind"]:
                    case "settled":
                        self.take(Receipt.model_validate(event["receipt"]))
                    case "stop":
                        self.end(METER_STOPS[str(event["stop"])], str(event["detail"]))
                    case "closed":
                        self.fault, self._closed = str(event["fault"]), True
                        self.fault_status = int(str(event["status"])) if event["status"] else None
                        self.fault_own, self.silent_s = bool(event["own"]), float(str(event["silent_s"]))
        if not self._closed:
            self.fault = GONE
            self.end("endpoint", GONE)

    def recover(self, trajectory: Path) -> None:
        """Read from the trajectory what the meter could no longer send."""
        if self._closed or not trajectory.exists():
            return
        known = {receipt.call for receipt in self.receipts}
        for receipt in receipts(trajectory):
            if receipt.call not in known:
                self.take(receipt)


@asynccontextmanager
async def open_proxy_client(account: Account, book: Callable[[Receipt], None]) -> AsyncIterator[ProxyClient]:
    """An account for the duration of the block.

    `book` gets each receipt as its call ends; all have arrived at the end.
    """
    reader, writer, socket = await _open(account)
    proxy_endpoint = ProxyClient(socket, book)
    following = asyncio.create_task(proxy_endpoint.follow(reader))
    try:
        yield proxy_endpoint
    finally:
        # The answer to the end includes the last receipts, and a cancellation must not lose them.
        with contextlib.suppress(OSError, RuntimeError):
            writer.write_eof()
        await asyncio.shield(_finish(following, writer))
        proxy_endpoint.recover(Path(account.trajectory))


async def _finish(following: asyncio.Task[None], writer: asyncio.StreamWriter) -> None:
    try:
        await asyncio.wait([following], timeout=CLOSE_S)
    finally:
        following.cancel()
        writer.close()
    await asyncio.gather(following, return_exceptions=True)


async def _open(account: Account) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, Path]:
    said = b""
    for _ in range(TRIES):
        reader, writer = await _reach(_folder())
        try:
            with contextlib.suppress(ConnectionError):
                writer.write(account.model_dump_json().encode() + b"\n")
                await writer.drain()
                said = await reader.readline()
        except BaseException:
            writer.close()
            raise
        if said:
            event = json.loads(said)
            if event["kind"] == "opened":
                return reader, writer, Path(event["socket"])
            writer.close()
            raise ModelError(f"the meter could not open {account.trajectory}: {event['detail']}. Is the disk full?")
        writer.close()
    raise ModelError("the meter's process ends as soon as it is asked. Run the same command again.")


async def _reach(folder: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the process; starts it if needed."""
    with contextlib.suppress(OSError):
        return await _connect(folder)
    lock = Lock(folder / "lock")
    await asyncio.to_thread(lock.take, wait=True)
    try:
        with contextlib.suppress(OSError):
            return await _connect(folder)
        pid = _start(folder)
        deadline = asyncio.get_running_loop().time() + START_S
        while asyncio.get_running_loop().time() < deadline and _lives(pid):
            with contextlib.suppress(OSError):
                return await _connect(folder)
            await asyncio.sleep(0.02)
    finally:
        lock.release()
    said = (folder / "log").read_text(errors="replace").strip().splitlines()[-1:]
    raise ModelError(f"the meter's process did not start: {' '.join(said) or 'it said nothing'}. See {folder / 'log'}.")


async def _connect(folder: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_unix_connection(str(folder / CONTROL), limit=2**22)


def _start(folder: Path) -> int:
    names = {*_INHERITED, *_PROXIES, *map(str.lower, _PROXIES)}
    env = {name: value for name, value in os.environ.items() if name in names}
    # Without the current folder, like -P: it is often the repository, and its modules must not be imported.
    env["PYTHONPATH"] = os.pathsep.join(part for part in sys.path if part and not _is_current(part))
    argv = [sys.executable, "-P", "-m", "scrout.models.proxy.process", str(folder)]
    # Through a shell that ends at once, so that the process is not a child that scrout must wait for.
    detached = ["/bin/sh", "-c", '"$@" > /dev/null & echo $!', "sh", *argv]
    with (folder / "log").open("wb") as log:
        done = subprocess.run(
            detached,
            env=env,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            check=True,
        )
    return int(done.stdout)


def _is_current(folder: str) -> bool:
    try:
        return Path(folder).samefile(".")
    except OSError:
        return False


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def _folder() -> Path:
    """The folder of sockets: short, because a socket's path may only have about a hundred bytes, and accessible
    only to its owner.
    """
    network = ""
    # A meter in another network namespace has another loopback, without the endpoint.
    with contextlib.suppress(OSError):
        network = str(Path("/proc/self/ns/net").stat().st_ino)
    told = hashlib.sha256(f"{__version__}\0{__file__}\0{network}".encode()).hexdigest()[:8]
    name = f"scrout-{os.geteuid()}-{told}"
    # XDG_RUNTIME_DIR may name a folder that no longer exists, in another user's shell or one that a timer started.
    for base in (os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir(), "/tmp"):
        folder = Path(base, name)
        if base.startswith("/") and len(base) < 50:
            with contextlib.suppress(OSError):
                folder.mkdir(mode=0o700, exist_ok=True)
                break
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o077:
        raise ModelError(f"{folder} is not a folder of yours alone, so no key is sent through it. Remove it.")
    return folder
