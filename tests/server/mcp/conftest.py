"""A server in this process or one of its own, the SDK's own client, and a small project with a bug."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING, Any

import pytest
from click import ClickException

import scrout
from scrout.base import ScroutError
from scrout.cli import render
from scrout.cli.main import scrout as commands
from scrout.sandbox.tier import Tier

from ...conftest import SHOP

if TYPE_CHECKING:
    from mcp import StdioServerParameters
    from mcp.server.mcpserver import MCPServer

    from scrout.server.service import Service

SERVE = "from scrout.cli.main import main; main()"


@dataclass(frozen=True)
class Server:
    """`scrout mcp` on one folder."""

    repo: Path
    env: Mapping[str, str] = field(default_factory=dict)

    def inside(self, *args: str) -> MCPServer[Any]:
        """In this process, for a client in it."""
        from scrout.server.mcp import server

        made: list[MCPServer[Any]] = []

        async def note(service: Service, *, allow_fix: bool) -> None:
            made.append(server.make_server(service, allow_fix=allow_fix))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(server, "serve_stdio", note)
            # In a thread: this one may have an event loop, and the command makes its own.
            with ThreadPoolExecutor(1) as pool:
                pool.submit(self._run, *args).result()
        return made[0]

    def _run(self, *args: str) -> None:
        commands.main(["mcp", "--repo", str(self.repo), *args], standalone_mode=False)

    def stdio(self, *args: str) -> StdioServerParameters:
        """As a process, started as a client would."""
        from mcp import StdioServerParameters

        return StdioServerParameters(
            command=sys.executable, args=["-c", SERVE, "mcp", "--repo", str(self.repo), *args], env=dict(self.env)
        )

    @contextmanager
    def http(self, *args: str) -> Iterator[str]:
        """The address that it listens at, in a thread of this process."""
        from scrout.server.mcp import server as http
        from scrout.server.serving import HttpServer

        made: list[HttpServer] = []
        addresses: Queue[str] = Queue()

        def noted(*given: Any) -> HttpServer:
            made.append(HttpServer(*given))
            return made[-1]

        with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as pool:
            patch.setattr(http, "HttpServer", noted)
            patch.setattr(render, "say", addresses.put)
            ended = pool.submit(self._run, "--http", "--port", "0", *args)
            ended.add_done_callback(lambda _: addresses.put(""))
            try:
                said = addresses.get()
                address = re.search(r"http://\S+/mcp", said)
                assert address, said or ended.exception()
                yield address[0]
            finally:
                for one in made:
                    one._server.should_exit = True
                ended.result()

    def fails(self, *args: str) -> str:
        """What it says when it does not start."""
        with pytest.raises((ScroutError, ClickException)) as refused:
            self._run(*args)
        return str(refused.value)


@pytest.fixture
def serve(tier: Tier, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], Server]:
    # The interpreter itself rather than a version manager's script, which takes a tenth of a second to start it.
    monkeypatch.setenv("PATH", str(Path(sys.base_prefix, "bin")), prepend=os.pathsep)
    env = {**os.environ, "PYTHONPATH": str(Path(scrout.__file__).parent.parent)}
    return lambda repo: Server(repo, env)


@pytest.fixture
def server(serve: Callable[[Path], Server], make_repo: Callable[..., Path]) -> Server:
    """For a project whose tests pass and whose `total` is wrong."""
    return serve(make_repo(SHOP))
