"""Cuts secrets out of text before it is stored.

It knows the values of this process's own secret-looking environment variables, and common shapes of keys. A secret of
another shape, split or encoded passes: this limits damage, it is not a reason to let a command see a secret.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from urllib.parse import unquote, urlsplit

MARK = "[secret]"
MIN_LENGTH = 8
"""Shorter values are words like `true`, and cutting those out would ruin the text."""

_WITH_PASSWORD = re.compile(r"(\w{1,40}://)[^\s/@]{1,500}@")
"""An address with a name or password in it."""
_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|APIKEY)S?([_0-9]|$)", re.IGNORECASE)

_ADDRESS_NAME = re.compile(r"(URL|URI|DSN)$", re.IGNORECASE)
"""A variable that may hold an address with a password, such as a database's."""

# Every repetition is bounded or ends at a character that starts no other match: text is hostile, and must not make the
# search slow. No possessive groups: Python 3.11.2, which Debian 12 has, gets them wrong.
_SHAPES = re.compile(
    r"""
      (?=[Aghrsx])                                            # cheap, and most places fail here
      (?: (?<![A-Za-z0-9_])                                   # not \b: prose of other scripts has no spaces
        | (?<=\\[abefnrtv0]) | (?<=\\u[0-9A-Fa-f]{4})         # behind an escape, as in quoted or JSON text
        | (?<=\[K) | (?<=\[m) | (?<=[\[0-9;][0-9]m)           # behind a terminal's colour
      )
      (?: sk-(?=[A-Za-z_-]{0,60}[0-9])[A-Za-z0-9_-]{16,}      # a digit: `sk-estimator-doc-link` is a CSS class
        | [sr]k_(?:live|test)_[A-Za-z0-9]{16,}
        | gh[oprsu]_[A-Za-z0-9]{20,}
        | github_pat_[A-Za-z0-9_]{20,}
        | glpat-[A-Za-z0-9_-]{20,}
        | hf_[A-Za-z0-9]{30,}
        | A[KS]IA[A-Z0-9]{16}\b
        | xox[a-z]-[A-Za-z0-9-]{10,}
        | AIza[A-Za-z0-9_-]{30,}
      )
    | (?<=\b[Bb]earer[ ])[A-Za-z0-9._~+/-]{16,}=*
    | -----BEGIN[ ][A-Z0-9 ]{0,30}PRIVATE[ ]KEY[A-Z ]{0,10}-----
      (?:
          (?:[^-]|-(?!----))*-----END[ ][A-Z0-9 ]{0,30}PRIVATE[ ]KEY[A-Z ]{0,10}-----
        | (?:\W{0,8}[A-Za-z0-9+/=]{40,})+                   # the end of the block was cut off
      )
    """,
    re.VERBOSE,
)

_STARTS = (
    *("sk-", "sk_", "rk_", "gho_", "ghp_", "ghr_", "ghs_", "ghu_", "github_pat_", "glpat-", "hf_"),
    *("AKIA", "ASIA", "xox", "AIza", "earer ", "-----BEGIN"),
)
"""Parts of the shapes. Looking for these first takes a fraction of the time, and most texts have none."""

Json = dict[str, "Json"] | list["Json"] | str | int | float | None


def redact(text: str, known: Iterable[str] = ()) -> str:
    """The text with each secret replaced by `[secret]`; `known` are some that no rule here would find."""
    return _cut(text, _literal_secrets(known))


def redact_command(command: str) -> str:
    """A command line without secrets, names and passwords in addresses included."""
    return redact(_WITH_PASSWORD.sub(rf"\1{MARK}@", command))


def redact_json(text: str, known: Iterable[str] = ()) -> str:
    """The same for every string of a JSON document, keys included, as `json.dumps` writes it; numbers stay."""
    return json.dumps(_walk(json.loads(text), _literal_secrets(known)))


def redact_dumped(text: str, known: Iterable[str] = ()) -> str:
    """The same for what `json.dumps` has just written, without reading it where nothing in it could be a secret."""
    secrets = _literal_secrets(known)
    signs = (*_STARTS, *(json.dumps(secret)[1:-1] for secret in secrets))
    return json.dumps(_walk(json.loads(text), secrets)) if any(sign in text for sign in signs) else text


def _walk(value: Json, secrets: list[str]) -> Json:
    if isinstance(value, str):
        return _cut(value, secrets)
    if isinstance(value, list):
        return [_walk(item, secrets) for item in value]
    if isinstance(value, dict):
        return {_cut(key, secrets): _walk(item, secrets) for key, item in value.items()}
    return value


def _cut(text: str, secrets: list[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, MARK)
    return _SHAPES.sub(MARK, text) if any(start in text for start in _STARTS) else text


def _literal_secrets(known: Iterable[str]) -> list[str]:
    """Longest first, so that a secret within another leaves no rest."""
    values = {
        value.strip()
        # Names first: this is asked for several times a turn, and few of them are telling.
        for name in os.environ
        if _names_a_secret(name)
        # GOOGLE_APPLICATION_CREDENTIALS and its like name a file; the path is no secret, and records are full of paths.
        and not os.path.exists(value := os.environ[name])  # noqa: PTH110
    }
    values = values.union(*(_of_address(os.environ[name]) for name in os.environ if _ADDRESS_NAME.search(name)))
    return sorted((value for value in values.union(known) if len(value) >= MIN_LENGTH), key=len, reverse=True)


@lru_cache(maxsize=64)
def _of_address(url: str) -> frozenset[str]:
    """The name and password in an address, together and the password by itself."""
    with suppress(ValueError):
        parts = urlsplit(url.strip())
        if parts.password:
            return frozenset({parts.netloc.rpartition("@")[0], parts.password, unquote(parts.password)})
    return frozenset()


@lru_cache(maxsize=1024)
def _names_a_secret(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None
