"""The dashboard at an address of this machine, until it is told to end."""

from __future__ import annotations

from socket import socket

from starlette.applications import Starlette

from scrout.config.settings import Settings
from scrout.server.dashboard import batches, fixers, frontier, runs, studies
from scrout.server.dashboard.app import create_app
from scrout.server.dashboard.code import warm_up
from scrout.server.dashboard.page_context import PageContext
from scrout.server.serving import HttpServer, listen


class DashboardServer(HttpServer):
    def __init__(self, app: Starlette, host: str, listening: socket) -> None:
        super().__init__(app, host, listening)
        self.url += "/"
        self.ledger: str = app.state.page_context.ledger.name


def serve(settings: Settings, host: str, port: int, token: str) -> DashboardServer:
    """Listen at an address. What the ledger holds is looked through, and each list made once, before anybody asks."""
    listening = listen(host, port)
    app = create_app(settings, token)
    page_context: PageContext = app.state.page_context
    page_context.run_index.warm_up()
    warm_up()
    for look in (runs.look, batches.look_at_all, frontier.look, fixers.look, studies.look):
        look(page_context, {})
    return DashboardServer(app, host, listening)
