"""The dashboard at an address of this machine, until it is told to end."""

from __future__ import annotations

import socket
from contextlib import suppress
from dataclasses import dataclass

import uvicorn

from scrout.config.settings import Settings
from scrout.server.dashboard import batches, fixers, frontier, runs, studies
from scrout.server.dashboard.app import create_app
from scrout.server.dashboard.code import warm_up
from scrout.server.dashboard.page_context import PageContext
from scrout.server.http_common import listen, url_of


@dataclass(frozen=True)
class DashboardServer:
    """A dashboard that listens already."""

    url: str
    ledger: str
    _server: uvicorn.Server
    _socket: socket.socket

    def run(self) -> None:
        """Answer until the process is interrupted, which is how it is meant to end."""
        with suppress(KeyboardInterrupt):
            self._server.run(sockets=[self._socket])


def serve(settings: Settings, host: str, port: int, token: str) -> DashboardServer:
    """Listen at an address. What the ledger holds is looked through, and each list made once, before anybody asks."""
    listening = listen(host, port)
    app = create_app(settings, token)
    page_context: PageContext = app.state.page_context
    page_context.run_index.warm_up()
    warm_up()
    for look in (runs.look, batches.look_at_all, frontier.look, fixers.look, studies.look):
        look(page_context, {})
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_graceful_shutdown=3,
    )
    return DashboardServer(f"{url_of(host, listening)}/", page_context.ledger.name, uvicorn.Server(config), listening)
