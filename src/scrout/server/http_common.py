"""What every server of scrout's has in common: where it listens, who may mean it, and what a browser may do with it."""

from __future__ import annotations

import hmac
import ipaddress
import os
import re
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING

from scrout.base import ConfigError
from scrout.html import visible

if TYPE_CHECKING:
    from starlette.types import Message, Send

MIN_TOKEN_CHARS = 24
BACKLOG = 512
HEADERS = {
    "content-security-policy": "default-src 'none'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Of every answer. A page that loads its own style sheet loosens the policy by that much."""

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?", re.IGNORECASE)


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens at an address; port 0 takes a free one."""
    try:
        (family, _, _, _, address), *_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        # With the protocol named, asyncio turns Nagle's waiting off for what is accepted.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            # From now on, so that who reads where it is may come at once.
            listening.listen(BACKLOG)
        except OSError:
            listening.close()
            raise
    except OSError as error:
        raise ConfigError(
            f"--host {host} --port {port}: {error.strerror or error}. Name another port, or 0 for a free one."
        ) from None
    return listening


def url_of(host: str, listening: socket.socket) -> str:
    """Where a server that listens there is found."""
    return f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can mean itself by it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def names_this_machine(hosts: list[str]) -> bool:
    """Whether the Host headers of a request are one name of loopback: a page from elsewhere can point a name of its own
    here (DNS rebinding), and is told apart by that name."""
    match = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
    return match is not None and is_loopback(match[1].strip("[]"))


def is_host(hosts: list[str]) -> bool:
    """Whether they are one well-formed name, whichever it is."""
    return len(hosts) == 1 and _HOST.fullmatch(hosts[0]) is not None


def with_security_headers(send: Send, headers: Mapping[str, str]) -> Send:
    """`send`, with these headers on every answer."""
    from starlette.datastructures import MutableHeaders

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(headers)
        await send(message)

    return sending


def same(given: str, known: str) -> bool:
    """Whether two secrets are equal, in a time that tells nothing of where they differ."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), known.encode())


def bearer(headers: Mapping[str, str]) -> str:
    """The token that a request carries; empty: none."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def read_token(variable: str, where: str) -> str:
    """The token in an environment variable, or a ConfigError that says what is wrong with it. `where` named it."""
    token = os.environ.get(variable, "").strip()
    if len(token) < MIN_TOKEN_CHARS:
        how = f"has {len(token)} characters" if token else "is not set"
        raise ConfigError(
            f"{where}: the variable {variable} {how}; a token has {MIN_TOKEN_CHARS} or more. Make one with "
            f"`export {variable}=$(openssl rand -hex 24)`."
        )
    if not token.isascii() or visible(token) != token or " " in token:
        raise ConfigError(f"{where}: the token in {variable} must be of letters, digits and signs of ASCII, no spaces.")
    return token
