"""The same server over streamable HTTP, on loopback and nowhere else.

A page in the user's browser can reach loopback too: Host and Origin must be this server's own, and where a token is set
every request carries it.
"""

from __future__ import annotations

from collections.abc import Callable

from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp

from scrout.server.access import Access, bearer, same
from scrout.server.mcp.server import make_server
from scrout.server.service import Service
from scrout.server.serving import HttpServer, listen

HOST = "127.0.0.1"
PATH = "/mcp"


class TokenAccess(Access):
    def __init__(self, app: ASGIApp, token: str) -> None:
        super().__init__(app)
        self._token = token

    async def refusal(self, request: Request) -> Response | None:
        if same(bearer(request.headers), self._token):
            return None
        words = "Send the header Authorization: Bearer TOKEN, with the token that this server was started with."
        return PlainTextResponse(words, 401, {"WWW-Authenticate": "Bearer"})


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
            app = TokenAccess(app, token)
        http = HttpServer(app, HOST, listener)
        ready(f"{http.url}{PATH}")
        await http.serve()
