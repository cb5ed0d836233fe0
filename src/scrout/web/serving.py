"""The dashboard at an address of this machine, until it is told to end."""

from __future__ import annotations

import socket
from contextlib import suppress
from dataclasses import dataclass

import uvicorn

from scrout.config import Settings
from scrout.errors import ConfigError
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
    """Listen at an address. What the ledger holds is looked through before anybody asks."""
    listening = _listen(host, port)
    app = create_app(settings, token)
    desk: Desk = app.state.desk
    desk.shelf.refresh()
    warm_up()
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_graceful_shutdown=3,
    )
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{listening.getsockname()[1]}/"
    return Server(url, desk.ledger.name, uvicorn.Server(config), listening)


def _listen(host: str, port: int) -> socket.socket:
    try:
        (family, _, _, _, address), *_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        # With the protocol named, asyncio turns Nagle's waiting off for what is accepted.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        raise ConfigError(
            f"--host {host} --port {port}: {error.strerror or error}. Name another port, or 0 for a free one."
        ) from None
    return listening
