"""Access control of scrout's servers: host names, tokens, and security headers for browsers.

There is no encryption here: put a proxy with TLS in front of an address that others can reach.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import re
from collections.abc import Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scrout.base import ConfigError
from scrout.html import visible

MIN_TOKEN_CHARS = 24
HEADERS = {
    "content-security-policy": "default-src 'none'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""On every answer. A page that loads its own style sheet loosens the policy accordingly."""

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?", re.IGNORECASE)


class Access:
    """Rejects forbidden requests, and puts the same headers on every answer.

    It is the outermost layer, so that even an answer to a fault has the headers.
    """

    def __init__(self, app: ASGIApp, headers: Mapping[str, str] = HEADERS) -> None:
        self._app = app
        self._headers = headers

    async def refusal(self, request: Request) -> Response | None:
        raise NotImplementedError

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        refused = await self.refusal(Request(scope, receive))
        await (refused or self._app)(scope, receive, sending)


def is_loopback(host: str) -> bool:
    """Whether an address is reachable only from this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def names_this_server(headers: Headers, *, anywhere: bool) -> bool:
    """Whether a request's Host header is a loopback name.

    A page from elsewhere can point its own name here (DNS rebinding), but its Host header shows that name. `anywhere`:
    accept any well-formed name.
    """
    hosts = headers.getlist("host")
    match = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
    return match is not None and (anywhere or is_loopback(match[1].strip("[]")))


def is_another_site(headers: Headers) -> bool:
    """Whether a browser says that the request comes from a page of another site."""
    return headers.get("sec-fetch-site", "none") not in ("same-origin", "none")


def same(given: str, known: str) -> bool:
    """Compare two secrets in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), known.encode())


def bearer(headers: Mapping[str, str]) -> str:
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def read_token(variable: str, where: str) -> str:
    """The token in an environment variable; raises a ConfigError that says what is wrong with it.

    `where` names the variable's source.
    """
    token = os.environ.get(variable, "").strip()
    if len(token) < MIN_TOKEN_CHARS:
        how = f"has {len(token)} characters" if token else "is not set"
        raise ConfigError(
            f"{where}: the variable {variable} {how}; a token has {MIN_TOKEN_CHARS} or more. Make one with "
            f"`export {variable}=$(openssl rand -hex 24)`."
        )
    if not token.isascii() or visible(token) != token or " " in token:
        raise ConfigError(f"{where}: the token in {variable} must be printable ASCII without spaces.")
    return token
