"""What stands before every address: whose token it is, how often that one asks, and that no web page asks in its name.

Without callers only names of this machine are answered to. A browser's page is told by what browsers say of it, and
refused: nothing here is for pages.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from scrout.server.access import Access, is_another_site, names_this_server
from scrout.server.api.callers import LOCAL, Callers
from scrout.server.api.problems import problem


class ApiAccess(Access):
    def __init__(self, app: ASGIApp, callers: Callers, public: set[str]) -> None:
        super().__init__(app)
        self._callers = callers
        self._public = public

    async def refusal(self, request: Request) -> Response | None:
        if not names_this_server(request.headers, anywhere=self._callers.named):
            return problem(
                421,
                "Another host",
                "This server answers to localhost alone. Name callers in its scrout.toml for others.",
            )
        if is_another_site(request.headers) or "origin" in request.headers:
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
