"""Asks an endpoint which models it serves, and explains a bad answer in words. This costs nothing."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel, ValidationError

from scrout.models.chat import certificates

TIMEOUT_S = 3.0
MAX_BYTES = 5_000_000
_NAMED = 5


@dataclass(frozen=True)
class EndpointAnswer:
    """The result of asking an endpoint for its models."""

    problem: str = ""
    """Empty: it answers, and there is no problem."""
    next_step: str = ""
    models: tuple[str, ...] | None = None
    """The models that it serves; None: it does not say."""


class _Model(BaseModel):
    id: str


class _Models(BaseModel):
    data: list[_Model]


def list_models(base_url: str, headers: Mapping[str, str], key_name: str) -> EndpointAnswer:
    """Request `base_url`/models. `key_name` is the key's name in messages; empty: no key is sent."""
    where = shown_url(base_url)
    try:
        response, body = asyncio.run(_ask(base_url, headers))
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError, TimeoutError) as error:
        step = f"Check base_url ({where}) and that the server runs."
        return EndpointAnswer(f"{where} cannot be reached ({type(error).__name__})", step)
    status = response.status_code
    if status in (401, 403):
        if not key_name:
            return EndpointAnswer(f"{where} wants a key ({status})", "Set key_env to the variable that holds it.")
        return EndpointAnswer(f"{where} refuses the key in {key_name} ({status})", f"Check the key in {key_name}.")
    if status >= 500 or status == 429:
        return EndpointAnswer(f"{where} answers with status {status}", "Try again later.")
    if "html" in response.headers.get("content-type", "") or body.lstrip()[:1] == b"<":
        step = "Set base_url to the address of its API, which usually ends in /v1."
        return EndpointAnswer(f"{where}/models is a web page (status {status}), not an API", step)
    try:
        return EndpointAnswer(models=tuple(model.id for model in _Models.model_validate_json(body).data))
    except ValidationError:
        return EndpointAnswer()  # many endpoints list nothing


async def _ask(base_url: str, headers: Mapping[str, str]) -> tuple[httpx.Response, bytes]:
    body = bytearray()
    async with (
        # For the whole request: httpx restarts its own timeout with every byte.
        asyncio.timeout(TIMEOUT_S),
        # A server on this machine is never behind a proxy.
        httpx.AsyncClient(verify=certificates(), timeout=TIMEOUT_S, trust_env=not _is_loopback(base_url)) as client,
        client.stream("GET", f"{base_url.rstrip('/')}/models", headers=dict(headers)) as response,
    ):
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > MAX_BYTES:
                break
    return response, bytes(body)


def missing_model(answer: EndpointAnswer, model: str) -> EndpointAnswer:
    """The same answer, with a problem if its list lacks this model."""
    if answer.problem or not answer.models or model in answer.models:
        return answer
    others = ", ".join(answer.models[:_NAMED])
    return EndpointAnswer(f"the endpoint does not serve {model!r}", f"Set model to one that it serves: {others}.")


def _is_loopback(url: str) -> bool:
    return urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")


def shown_url(url: str) -> str:
    """A URL without possible secrets: user, password and query. If it is malformed, more is removed, never less."""
    return re.sub(r"^(\w+://)?.*@|[?#].*", r"\1", url, flags=re.DOTALL)
