"""What every page has: head, navigation and foot. Text is escaped where it is put in: see scrout.html."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from urllib.parse import urlencode

from starlette.responses import JSONResponse, Response

from scrout.html import Html, element, escape, visible

SECTIONS = {"/runs": "Runs", "/batches": "Batches", "/frontier": "Frontier", "/fixers": "Fixers", "/studies": "Studies"}
OUTCOME_WORDS = {
    "solved": "solved",
    "unverified": "unverified",
    "not_solved": "not solved",
    "infrastructure": "infrastructure",
    "interrupted": "not finished",
    "unjudged": "not judged",
}
_QUOTED = re.compile(r"`([^`\n]{1,200})`")
_TONES = {
    "solved": "good",
    "unverified": "warn",
    "not_solved": "bad",
    "infrastructure": "bad",
    "interrupted": "soft",
    "unjudged": "soft",
}


def page(title: str, *parts: Html, here: str = "", twin: str = "", refresh_s: int = 0) -> Html:
    """A whole page. `twin` is where its data are as JSON; `refresh_s`: the browser asks again after so long."""
    links = [
        element("a", name, href=path, **({"aria-current": "page"} if path == here else {}))
        for path, name in SECTIONS.items()
    ]
    brand = element("a", "scrout", href="/", class_="brand")
    nav = element("nav", brand, *links, **{"aria-label": "Sections"})
    skip = element("a", "Skip to the content", href="#content", class_="skip")
    same = [element("a", "This page as JSON", href=twin)] if twin else []
    foot = element("footer", *same, element("span", "Read-only: nothing here changes a run."))
    main = element("main", *parts, id="content", tabindex="-1")
    return _document(title, element("body", skip, nav, main, foot), refresh_s)


def words_page(path: str, status: int, title: str, words: str) -> Response:
    """An answer in words where there is nothing to show, in the form that was asked for."""
    if path.endswith(".json"):
        return JSONResponse({"error": title, "detail": visible(words)}, status)
    back = element("p", element("a", "All runs", href="/runs"))
    body = page(title, element("h1", title), element("p", inline(words), class_="prose"), back)
    return html_response(body, status)


def sign_in_page(after: str, *, failed: bool = False) -> Response:
    """Asks for the token."""
    wrong = [element("p", "That is not the token.", class_="bad", role="alert")] if failed else []
    field = Html(
        '<input id="token" name="token" type="password" required autofocus autocomplete="current-password">'
        f'<input type="hidden" name="next" value="{escape(after)}">'
    )
    label = element("label", "Token", for_="token")
    form = element(
        "form",
        label,
        field,
        element("button", "Sign in", type="submit"),
        method="post",
        action="/login",
        class_="sign-in",
    )
    about = element("p", "It is in the environment variable that the dashboard was started with.", class_="soft")
    body = element("body", element("main", element("h1", "Sign in"), *wrong, form, about, id="content"))
    return html_response(_document("Sign in", body), 403 if failed else 200)


def html_response(body: Html, status: int = 200) -> Response:
    return Response(f"<!doctype html>\n{body}\n", status, media_type="text/html")


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    caption: str,
    numbers: Sequence[str] = (),
    stacked: bool = True,
) -> Html:
    """Rows whose first cell names them. `numbers` are columns to the right; `stacked`: on a phone a row is a card.

    A column in which no row has anything is left out.
    """
    kept = [at for at in range(len(columns)) if at == 0 or any(row[at] for row in rows)]
    columns, rows = [columns[at] for at in kept], [[row[at] for at in kept] for row in rows]
    aligned = [{"class_": "number"} if name in numbers else {} for name in columns]
    head = element("tr", *(element("th", name, scope="col", **how) for name, how in zip(columns, aligned, strict=True)))
    body = []
    for row in rows:
        first = element("th", row[0], scope="row")
        cells = [
            element("td", cell, **{"data-label": name}, **how)
            for name, cell, how in zip(columns[1:], row[1:], aligned[1:], strict=True)
        ]
        body.append(element("tr", first, *cells))
    whole = element(
        "table",
        element("caption", caption),
        element("thead", head),
        element("tbody", *body),
        class_="stacked" if stacked else "plain",
    )
    return element("div", whole, class_="card scroll", tabindex="0", role="region", **{"aria-label": caption})


def refreshing(every_s: int, still: bool, path: str, **query: str) -> Html:
    """That a page is asked for again and again, and a way to stop it: what somebody reads must not move away."""
    told = "This page is not refreshed. " if still else f"This page is refreshed every {every_s} s. "
    words = "Go on refreshing" if still else "Stop refreshing"
    return element("p", told, link(words, path, **query, still="" if still else "1"), class_="soft")


def section(title: str, *children: Html, **attributes: str) -> Html:
    return element("section", element("h2", title), *children, **attributes)


def card(*children: Html) -> Html:
    return element("div", *children, class_="card pad")


def facts(pairs: Sequence[tuple[str, str]]) -> Html:
    """Short facts in a row; an empty one is left out."""
    return element(
        "ul", *(element("li", f"{name} ", element("b", value)) for name, value in pairs if value), class_="facts"
    )


def definitions(pairs: Sequence[tuple[str, str]]) -> Html:
    """Names and what they are; an empty one is left out."""
    cells = [cell for name, value in pairs if value for cell in (element("dt", name), element("dd", value))]
    return element("dl", *cells)


def soft(words: str) -> Html:
    return element("p", inline(words), class_="soft")


def inline(words: str) -> Html:
    """Text with `quoted` words as code."""
    parts = _QUOTED.split(words)
    return Html("".join(element("code", part) if at % 2 else escape(part) for at, part in enumerate(parts)))


def block(text: str) -> Html:
    """Output or code, as it is."""
    return element("pre", text.rstrip(), class_="block", tabindex="0")


def badge(word: str, tone: str) -> Html:
    return element("span", word, class_=f"badge {tone}")


def outcome(word: str, *, going: bool = False) -> Html:
    """What a run came to, in a word and a colour."""
    return badge(
        "in progress" if going else OUTCOME_WORDS.get(word, word), "soft" if going else _TONES.get(word, "soft")
    )


def link(text: str, path: str, **query: str) -> Html:
    return element("a", text, href=address(path, **query))


def address(path: str, **query: str) -> str:
    asked = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(asked)}" if asked else path


def moment(at: datetime) -> Html:
    """A time, in UTC."""
    return element("time", f"{at:%Y-%m-%d %H:%M}", datetime=at.isoformat(), title=f"{at:%Y-%m-%d %H:%M:%S} UTC")


def _document(title: str, body: Html, refresh_s: int = 0) -> Html:
    again = [Html(f'<meta http-equiv="refresh" content="{refresh_s}">')] if refresh_s else []
    head = element(
        "head",
        Html('<meta charset="utf-8">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        *again,
        element("title", f"{title} · scrout"),
        Html('<link rel="icon" href="/icon.svg" type="image/svg+xml">'),
        Html('<link rel="stylesheet" href="/style.css">'),
    )
    return element("html", head, body, lang="en")
