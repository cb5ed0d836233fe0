"""Pages from the Jinja2 templates in templates/. Text is untrusted: templates escape everything that is not `Html`, and
show a mark in place of control characters.
"""

from __future__ import annotations

import base64
import hashlib
import re
from datetime import datetime
from functools import cache
from importlib.resources import files as package_files
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlencode

from markupsafe import Markup
from markupsafe import escape as _escape

from scrout.text import clip, duration, excerpt, percent, plural, usd

if TYPE_CHECKING:
    from jinja2 import Environment

Html = Markup
"""Markup that scrout made. Everything else is text."""

T = TypeVar("T")

# Control characters, and characters that reverse the direction of text.
_HIDDEN = dict.fromkeys(
    {*range(32), *range(127, 160), *range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2066, 0x206A), 0xFEFF}
    - {9, 10},
    "\ufffd",
)
_QUOTED = re.compile(r"`([^`\n]{1,200})`")


def render(template: str, **values: object) -> str:
    """Render a page from a file in templates/."""
    return _environment().get_template(template).render(values)


def fragment(template: str, macro: str, *values: object) -> Html:
    """Render a part of a page from a template's macro."""
    made: Html = getattr(_environment().get_template(template).module, macro)(*values)
    return made


def element(name: str, *children: str, **attributes: str) -> Html:
    """An SVG element. Text in it and in its attributes is escaped; Html is not."""
    words = "".join(f' {key.rstrip("_")}="{escape(value)}"' for key, value in attributes.items())
    inner = "".join(child if isinstance(child, Html) else escape(child) for child in children)
    return Html(f"<{name}{words}>{inner}</{name}>")


def escape(text: str) -> Html:
    """Escape text."""
    return _escape(visible(text))


def inline(text: str) -> Html:
    """Escape text, and mark up `quoted` words as code."""
    parts = _QUOTED.split(text)
    return Html("".join(f"<code>{escape(part)}</code>" if at % 2 else escape(part) for at, part in enumerate(parts)))


def visible(text: str) -> str:
    """Escape text, with a mark in place of each control character."""
    if text.isascii() and text.isprintable():
        return text
    return text.translate(_HIDDEN).encode(errors="replace").decode()


@cache
def style_sheet(*names: str) -> Html:
    """Several style sheets of templates/ joined."""
    folder = package_files("scrout").joinpath("templates")
    return Html("".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names))


@cache
def page_style() -> Html:
    """The style sheet of every page."""
    return style_sheet("style.css", "plot.css")


def address(path: str, **query: object) -> str:
    """A URL with these query parameters; empty ones are left out."""
    asked = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(asked)}" if asked else path


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("scrout"),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        extensions=["jinja2.ext.do"],
    )
    style = page_style()
    made.globals |= {
        "address": address,
        "style": style,
        "style_digest": base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
    }
    made.filters |= {
        "clip": clip,
        "count": _count,
        "duration": duration,
        "excerpt": excerpt,
        "inline": inline,
        "minute": _minute,
        "percent": percent,
        "plural": plural,
        "usd": usd,
    }
    return made


def _shown(value: T) -> T | str:
    return value if isinstance(value, Html) else visible(str(value))


def _count(number: int) -> str:
    return f"{number:,}"


def _minute(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}"
