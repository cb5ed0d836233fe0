"""Answers of the dashboard that are no page of its own: words where there is nothing to show, and the sign-in."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from scrout.html import render, visible


def html_response(page: str, status: int = 200) -> Response:
    return Response(page, status, media_type="text/html")


def words_page(path: str, status: int, title: str, words: str) -> Response:
    """An answer in words where there is nothing to show, in the form that was asked for."""
    if path.endswith(".json"):
        return JSONResponse({"error": title, "detail": visible(words)}, status)
    return html_response(render("dashboard/words.html", title=title, words=words), status)


def sign_in_page(after: str, *, failed: bool = False) -> Response:
    return html_response(render("dashboard/sign_in.html", after=after, failed=failed), 403 if failed else 200)
