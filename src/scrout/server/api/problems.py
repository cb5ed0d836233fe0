"""How the API says what went wrong, after RFC 9457."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response

from scrout.redact import redact
from scrout.server.api.schemas import Problem


class RequestRefused(Exception):
    """A request that is not carried out: a status of HTTP, and why."""

    def __init__(self, status: int, title: str, detail: str, retry_s: float | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.title = title
        self.detail = detail
        self.retry_s = retry_s
        """When it may be tried again; None: nobody knows."""

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.retry_s is None else {"retry-after": str(max(1, round(self.retry_s)))}


def problem(status: int, title: str, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """An answer that says what went wrong."""
    told = Problem(title=title, status=status, detail=redact(detail).encode(errors="replace").decode())
    return Response(told.model_dump_json(), status, headers, "application/problem+json")
