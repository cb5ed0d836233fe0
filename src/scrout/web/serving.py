"""The dashboard at an address of this machine, until it is told to end."""

from __future__ import annotations

import socket
from contextlib import suppress
from dataclasses import dataclass

import uvicorn

from scrout.config import Settings
from scrout.service.listening import listen, url_of
from scrout.web import batches, fixers, frontier, runs, studies
from scrout.web.app import create_app
from scrout.web.code import warm_up
from scrout.web.desk import Desk


@dataclass(frozen=True)
class Server:
    """A dashboard that listens already."""

    url: str
    ledger: str
    _server: uvicorn.Server
    _socket: socket.socket

    def run(self) -> None:
        """Answer until the process is interrupted, which is how it is meant to end."""
        with suppress(KeyboardInterrupt):
            self._server.run(sockets=[self._socket])


def serve(settings: Settings, host: str, port: int, token: str) -> Server:
    """Listen at an address. What the ledger holds is looked through, and each list made once, before anybody asks."""
    listening = listen(host, port)
    app = create_app(settings, token)
    desk: Desk = app.state.desk
    desk.shelf.warm_up()
    warm_up()
    for look in (runs.look, batches.look_at_all, frontier.look, fixers.look, studies.look):
        look(desk, {})
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_graceful_shutdown=3,
    )
    return Server(f"{url_of(host, listening)}/", desk.ledger.name, uvicorn.Server(config), listening)
