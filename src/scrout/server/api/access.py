"""What stands before every address: whose token it is, how often that one asks, and that no web page asks in its name.

Without callers only names of this machine are answered to, so that a page from elsewhere cannot point a name of its own
here. A browser's page is told by what browsers say of it, and refused: nothing here is for pages.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from scrout.server.api.callers import LOCAL, Callers
from scrout.server.api.problems import problem
from scrout.server.http_common import HEADERS, is_host, names_this_machine, with_security_headers

OWN_SITES = ("same-origin", "none")


class ApiAccess:
    """Lets in those who may, and puts the same rules on every answer."""

    def __init__(self, app: ASGIApp, callers: Callers, public: set[str]) -> None:
        self._app = app
        self._callers = callers
        self._public = public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        answer = self._answer(Request(scope, receive))
        await (answer or self._app)(scope, receive, with_security_headers(send, HEADERS))

    def _answer(self, request: Request) -> Response | None:
        """None: the request may pass."""
        hosts = request.headers.getlist("host")
        if not (is_host(hosts) if self._callers.named else names_this_machine(hosts)):
            return problem(
                421,
                "Another host",
                "This server answers to localhost alone. Name callers in its scrout.toml for others.",
            )
        if request.headers.get("sec-fetch-site", "none") not in OWN_SITES or "origin" in request.headers:
            return problem(403, "A page", "Requests of web pages are refused. Ask from a program.")
        if request.scope["path"] in self._public:
            request.state.caller = LOCAL
            return None
        caller = self._callers.of(request.headers)
        if caller is None:
            detail = "Send the header Authorization: Bearer TOKEN, with a token that the server's scrout.toml names."
            return problem(401, "A token is needed", detail, {"www-authenticate": "Bearer"})
        wait_s = self._callers.wait_s(caller)
        if wait_s:
            words = f"Caller {caller.name!r} may ask {caller.requests_a_minute} times a minute."
            return problem(429, "Too many requests", words, {"retry-after": str(max(1, round(wait_s)))})
        request.state.caller = caller
        return None
