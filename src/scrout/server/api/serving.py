"""The API at an address, until it is told to end."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import uvicorn

from scrout import telemetry
from scrout.config.settings import Settings, data_folder
from scrout.server.api.app import create_app
from scrout.server.api.callers import Callers, refuse_open
from scrout.server.api.store import ApiStore
from scrout.server.http_common import listen, url_of
from scrout.server.service import Service

FILE = "api.db"
GRACE_S = 5


@dataclass(frozen=True)
class ApiServer:
    """An API that listens already."""

    url: str
    _server: uvicorn.Server
    _socket: socket.socket

    def run(self) -> None:
        """Answer until the process is interrupted, which is how it is meant to end."""
        with suppress(KeyboardInterrupt):
            self._server.run(sockets=[self._socket])


class _Ending(uvicorn.Server):
    """What is under way ends first: then whoever waits for it is told, and need not be cut off."""

    def __init__(self, config: uvicorn.Config, end: Callable[[], Awaitable[None]]) -> None:
        super().__init__(config)
        self._end = end

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._end()
        await super().shutdown(sockets)


def capped(settings: Settings) -> Settings:
    """The settings with caps that are held for: under `paper` a last call may pass one, and a caller's budget."""
    return settings.model_copy(update={"fix": settings.fix.model_copy(update={"caps": "hard"})})


def serve(service: Service, host: str, port: int) -> ApiServer:
    """Listen at an address. Who may ask is in the service's settings."""
    refuse_open(host, service.settings.api)
    telemetry.require(service.settings)
    callers = Callers(service.settings.api)
    service = replace(service, settings=capped(service.settings))
    listening = listen(host, port)
    try:
        app = create_app(service, ApiStore(data_folder() / FILE), callers)
    except BaseException:
        listening.close()
        raise
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_graceful_shutdown=GRACE_S,
    )
    return ApiServer(url_of(host, listening), _Ending(config, app.state.end), listening)
