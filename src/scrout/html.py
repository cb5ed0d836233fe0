"""Pages of HTML that open offline. Text is hostile: whatever is not of type `Html` is escaped where it is put into a
page, so forgetting is not possible, and a policy in the page forbids scripts and remote loads besides."""

from __future__ import annotations

import base64
import hashlib
import html

# What a browser would obey or hide: control characters, and what reverses the direction of text.
_HIDDEN = dict.fromkeys(
    {*range(32), *range(127, 160), *range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2066, 0x206A), 0xFEFF}
    - {9, 10},
    "\ufffd",
)


class Html(str):
    """Markup of our own making. Everything else is text."""


def document(title: str, style: str, body: Html, *, images: bool = False) -> Html:
    """A whole page: `body` is a body element, `style` the only style sheet that it obeys.

    `images`: pictures that are written into the page itself are shown; none is ever loaded.
    """
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    policy += "; img-src data:" if images else ""
    head = element(
        "head",
        Html('<meta charset="utf-8">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html('<meta name="referrer" content="no-referrer">'),
        element("title", f"{title} · scrout"),
        element("style", Html(style)),
    )
    return element("html", head, body, lang="en")


def element(name: str, *children: str, **attributes: str) -> Html:
    """An element; text in it and in its attributes is escaped, Html is not."""
    words = "".join(f' {key.rstrip("_")}="{escape(value)}"' for key, value in attributes.items())
    inner = "".join(child if isinstance(child, Html) else escape(child) for child in children)
    return Html(f"<{name}{words}>{inner}</{name}>")


def escape(text: str) -> Html:
    """Text as Html."""
    return Html(html.escape(visible(text)))


def visible(text: str) -> str:
    """Text with a mark in place of each character that a browser would obey or hide."""
    if text.isascii() and text.isprintable():
        return text
    return text.translate(_HIDDEN).encode(errors="replace").decode()
