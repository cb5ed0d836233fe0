"""The API at an address, until it is told to end."""

from __future__ import annotations

from dataclasses import replace

from scrout import telemetry
from scrout.config.folders import data_folder
from scrout.config.settings import Settings
from scrout.server.api.app import create_app
from scrout.server.api.callers import Callers, refuse_open
from scrout.server.api.store import ApiStore
from scrout.server.service import Service
from scrout.server.serving import HttpServer, listen

FILE = "api.db"


def capped(settings: Settings) -> Settings:
    """The settings with caps that are held for: under `paper` a last call may pass one, and a caller's budget."""
    return settings.model_copy(update={"fix": settings.fix.model_copy(update={"caps": "hard"})})


def serve(service: Service, host: str, port: int) -> HttpServer:
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
    return HttpServer(app, host, listening, app.state.end)
