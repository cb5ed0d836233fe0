"""The dashboard as an ASGI application: its pages, each also as JSON, and its error messages.

A page is made in two steps: a record with its data, and the page from it. Secrets are removed in between, so neither
page nor JSON can show one.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from socket import socket
from typing import TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from scrout.base import FrozenModel, ScroutError
from scrout.config.settings import Settings
from scrout.html import page_style
from scrout.redact import redact, redact_dumped
from scrout.server.dashboard import batches, fixers, frontier, run_page, runs, studies, turns
from scrout.server.dashboard.access import DashboardAccess, html_response, words_page
from scrout.server.dashboard.code import warm_up
from scrout.server.dashboard.page_context import Asked, BadQuestion, NotThere, PageContext, open_page_context
from scrout.server.serving import HttpServer, listen

ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><circle cx="7" cy="7" r="5" fill="none" '
    'stroke="#0b6bcb" stroke-width="2"/><path d="M11 11l4 4" stroke="#0b6bcb" stroke-width="2"/></svg>'
)

View = TypeVar("View", bound=FrozenModel)


def create_app(settings: Settings, token: str = "") -> Starlette:
    """The dashboard for these settings' ledger. With a token, a request without it sees nothing."""
    page_context = open_page_context(settings)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        page_context.run_index.close()
        page_context.ledger.close()

    known = (token,) if token else ()
    pages = _Pages(page_context, known)
    app = Starlette(
        routes=[
            Route("/", lambda request: RedirectResponse("/runs")),
            Route("/style.css", _asset(page_style(), "text/css")),
            Route("/icon.svg", _asset(ICON, "image/svg+xml")),
            *pages.both("/runs", runs.look, runs.show),
            *pages.both("/runs/{run}/steps/{step}", turns.look, turns.show),
            *pages.both("/runs/{run}", run_page.look, run_page.show),
            *pages.both("/batches", batches.look_at_all, batches.show_all),
            *pages.both("/batch", batches.look, batches.show),
            *pages.both("/frontier", frontier.look, frontier.show),
            *pages.both("/fixers", fixers.look, fixers.show),
            *pages.both("/studies", studies.look, studies.show),
            *pages.both("/study", studies.look_at_one, studies.show_one),
            Route("/study/picture.svg", lambda request: _svg(studies.picture(_asked(request)))),
        ],
        exception_handlers={HTTPException: _told, ScroutError: _told, Exception: _failed},
        lifespan=lifespan,
    )
    app.state.page_context = page_context
    app.router.redirect_slashes = False  # it would redirect to any host that the request names
    # The outermost layer, so that even an answer to a fault has the headers; middleware is added inside of it.
    app.middleware_stack = DashboardAccess(app.build_middleware_stack(), token=token)
    return app


class _Pages:
    def __init__(self, page_context: PageContext, known: tuple[str, ...]) -> None:
        self._desk = page_context
        self._known = known
        """Secrets that no redaction rule would find."""

    def both(self, path: str, look: Callable[[PageContext, Asked], View], show: Callable[[View], str]) -> list[Route]:
        """A page, and its data at the same path with `.json`."""

        def page(request: Request) -> Response:
            return html_response(show(self._cleaned(look(self._desk, _asked(request)))[0]))

        def twin(request: Request) -> Response:
            text = self._cleaned(look(self._desk, _asked(request)))[1]
            return Response(text, media_type="application/json")

        return [Route(f"{path}.json", twin), Route(path, page)]

    def _cleaned(self, view: View) -> tuple[View, str]:
        text = json.dumps(view.model_dump(mode="json"))
        clean = redact_dumped(text, self._known)
        return (view if clean == text else type(view).model_validate(json.loads(clean))), clean


def _asked(request: Request) -> Asked:
    return {**dict(request.query_params), **request.path_params}


def _asset(text: str, kind: str) -> Callable[[Request], Response]:
    return lambda request: Response(text, media_type=kind)


def _svg(text: str) -> Response:
    return Response(text, media_type="image/svg+xml")


def _told(request: Request, error: Exception) -> Response:
    """A message for errors of the user or the environment."""
    path = request.url.path
    if isinstance(error, HTTPException):
        if error.status_code == 404:
            words = "No page has this address. The links above lead to all there are."
            return words_page(path, 404, "Not there", words)
        return words_page(path, error.status_code, "Not possible", str(error.detail))
    titles: dict[type[Exception], tuple[int, str]] = {
        NotThere: (404, "Not there"),
        BadQuestion: (400, "Not understood"),
    }
    status, title = titles.get(type(error), (500, "It cannot be read"))
    return words_page(path, status, title, redact(str(error)))


def _failed(request: Request, error: Exception) -> Response:
    words = "This page failed. The terminal that serves it says how; please report it."
    return words_page(request.url.path, 500, "A fault of scrout's", words)


class DashboardServer(HttpServer):
    def __init__(self, app: Starlette, host: str, listening: socket) -> None:
        super().__init__(app, host, listening)
        self.url += "/"
        self.ledger: str = app.state.page_context.ledger.name


def serve(settings: Settings, host: str, port: int, token: str) -> DashboardServer:
    """Listen at an address. Reads the ledger and loads each list once before the first request."""
    listening = listen(host, port)
    app = create_app(settings, token)
    page_context: PageContext = app.state.page_context
    page_context.run_index.warm_up()
    warm_up()
    for look in (runs.look, batches.look_at_all, frontier.look, fixers.look, studies.look):
        look(page_context, {})
    return DashboardServer(app, host, listening)
