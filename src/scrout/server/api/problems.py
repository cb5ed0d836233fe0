"""How the API says what went wrong, after RFC 9457."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.responses import Response

from scrout.redact import redact
from scrout.server.api.schemas import Problem


class RequestRefused(HTTPException):
    """A request that is not carried out. `retry_s` says when it may be tried again; None: nobody knows."""

    def __init__(self, status: int, title: str, detail: str, retry_s: float | None = None) -> None:
        super().__init__(status, detail, {} if retry_s is None else {"retry-after": str(max(1, round(retry_s)))})
        self.title = title


def problem(status: int, title: str, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    told = Problem(title=title, status=status, detail=redact(detail).encode(errors="replace").decode())
    return Response(told.model_dump_json(), status, headers, "application/problem+json")
