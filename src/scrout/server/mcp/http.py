"""The same server over streamable HTTP, on loopback and nowhere else.

A page in the user's browser can reach loopback too: Host and Origin must be this server's own, and where a token is set
every request carries it.
"""

from __future__ import annotations

from collections.abc import Callable

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from scrout.server.http_common import bearer, listen, same
from scrout.server.mcp.server import make_server
from scrout.server.service import Service

HOST = "127.0.0.1"
PATH = "/mcp"
GRACE_S = 5
"""For calls under way when the server is told to end."""


class WithToken:
    """Lets requests pass that carry the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not same(bearer(Headers(scope=scope)), self._token):
            words = "Send the header Authorization: Bearer TOKEN, with the token that this server was started with."
            await PlainTextResponse(words, 401, {"WWW-Authenticate": "Bearer"})(scope, receive, send)
            return
        await self._app(scope, receive, send)


async def serve_http(
    service: Service, *, allow_fix: bool, port: int, token: str | None, ready: Callable[[str], None]
) -> None:
    """Serve until told to end. Port 0 takes a free one; `ready` hears the address."""
    with listen(HOST, port) as listener:
        taken = listener.getsockname()[1]
        names = [f"{host}:{taken}" for host in (HOST, "localhost")]
        security = TransportSecuritySettings(allowed_hosts=names, allowed_origins=[f"http://{name}" for name in names])
        server = make_server(service, allow_fix=allow_fix)
        app: ASGIApp = server.streamable_http_app(streamable_http_path=PATH, transport_security=security)
        if token is not None:
            app = WithToken(app, token)
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, timeout_graceful_shutdown=GRACE_S, server_header=False
        )
        ready(f"http://{HOST}:{taken}{PATH}")
        await uvicorn.Server(config).serve(sockets=[listener])
