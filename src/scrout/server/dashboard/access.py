"""Access control of the dashboard: token, host names, and browser policy.

Without a token, the dashboard answers only to names of this machine; other users of the machine can still read it. With
a token, a request without it learns nothing, under any name. If there is no page to show, the answer is a message.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from urllib.parse import parse_qs, quote

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp

from scrout.base import ConfigError
from scrout.html import render, visible
from scrout.server.access import (
    HEADERS,
    MIN_TOKEN_CHARS,
    Access,
    bearer,
    is_another_site,
    is_loopback,
    names_this_server,
    read_token,
    same,
)


def html_response(page: str, status: int = 200) -> Response:
    return Response(page, status, media_type="text/html")


def words_page(path: str, status: int, title: str, words: str) -> Response:
    """A message as an answer, in the requested format."""
    if path.endswith(".json"):
        return JSONResponse({"error": title, "detail": visible(words)}, status)
    return html_response(render("dashboard/words.html", title=title, words=words), status)


def sign_in_page(after: str, *, failed: bool = False) -> Response:
    return html_response(render("dashboard/sign_in.html", after=after, failed=failed), 403 if failed else 200)


SESSION_S = 12 * 3600
COOKIE = "scrout_session"
MAX_FORM_BYTES = 4096
PUBLIC = frozenset({"/login", "/style.css", "/icon.svg"})
POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

_UNTIL = re.compile(r"[0-9]{1,12}")
_LOCAL_PATH = re.compile(r"/(?![/\\])[^\\\x00-\x20\x7f]*")


class DashboardAccess(Access):
    def __init__(self, app: ASGIApp, token: str = "") -> None:
        super().__init__(app, {**HEADERS, "content-security-policy": POLICY})
        self._token = token
        """Empty: no token is needed."""

    async def refusal(self, request: Request) -> Response | None:
        path = request.url.path
        if not names_this_server(request.headers, anywhere=bool(self._token)):
            words = "This dashboard answers to localhost alone. To reach it by another name, start it with a token."
            return words_page(path, 421, "Another host", words)
        if path == "/login" and request.method == "POST" and self._token:
            return await self._sign_in(request)
        if request.method not in ("GET", "HEAD"):
            answer = words_page(path, 405, "Reading only", "The dashboard reads. Use GET or HEAD.")
            answer.headers["allow"] = "GET, HEAD"
            return answer
        if path == "/login":
            return sign_in_page(_next(request.query_params.get("next", ""))) if self._token else RedirectResponse("/")
        if not self._token or path in PUBLIC or self._is_known(request):
            return None
        if path.endswith(".json") or "text/html" not in request.headers.get("accept", ""):
            answer = words_page(path, 401, "A token is needed", "Send it as `Authorization: Bearer TOKEN`.")
            answer.headers["www-authenticate"] = "Bearer"
            return answer
        wanted = path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"/login?next={quote(wanted)}", 303)

    def _is_known(self, request: Request) -> bool:
        if given := bearer(request.headers):
            return same(given, self._token)
        until, _, proof = request.cookies.get(COOKIE, "").partition(".")
        return bool(_UNTIL.fullmatch(until)) and int(until) > time.time() and same(proof, self._proof(until))

    async def _sign_in(self, request: Request) -> Response:
        if is_another_site(request.headers):
            words = "Another site sent this form. Open the dashboard itself."
            return words_page(request.url.path, 403, "Another site", words)
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MAX_FORM_BYTES:
                words = "That is no token: it is longer than a form of this page can be."
                return words_page(request.url.path, 413, "Too long", words)
        given = parse_qs(body.decode("utf-8", "replace"))
        after = _next(given.get("next", [""])[0])
        if not same(given.get("token", [""])[0].strip(), self._token):
            return sign_in_page(after, failed=True)
        until = str(int(time.time()) + SESSION_S)
        answer = RedirectResponse(after, 303)
        answer.set_cookie(
            COOKIE,
            f"{until}.{self._proof(until)}",
            max_age=SESSION_S,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer

    def _proof(self, until: str) -> str:
        """A proof that the browser once had the token; the token itself is never stored in a browser."""
        return hmac.new(self._token.encode(), f"session until {until}".encode(), hashlib.sha256).hexdigest()


def token_for(host: str, variable: str) -> str:
    """The token of a dashboard at this address; empty: none. Raises a ConfigError if it must have one."""
    if variable:
        return read_token(variable, "--token-env")
    if is_loopback(host):
        return ""
    raise ConfigError(
        f"--host {host} lets other machines connect and read every run. Put a token of {MIN_TOKEN_CHARS} "
        "characters or more into an environment variable and name that: --token-env VAR"
    )


def _next(path: str) -> str:
    """The page after signing in: always one of the dashboard, whatever was requested."""
    return path if _LOCAL_PATH.fullmatch(path) else "/"
