"""Removes secrets from text before it is stored.

It knows the values of this process's secret-looking environment variables, and common formats of keys. It misses
secrets in other formats, split or encoded. It limits damage; it is no reason to let a command see a secret.
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
"""Shorter values are words like `true`; removing those would ruin the text."""

_WITH_PASSWORD = re.compile(r"(\w{1,40}://)[^\s/@]{1,500}@")
"""A URL that contains a user name or password."""
_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|APIKEY)S?([_0-9]|$)", re.IGNORECASE)

_ADDRESS_NAME = re.compile(r"(URL|URI|DSN)$", re.IGNORECASE)
"""A variable that may hold a URL with a password, such as a database's."""

# Every repetition is bounded or ends at a character that starts no other match, so that hostile text cannot make the
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
"""Parts of the patterns. Searching for these first takes a fraction of the time, and most texts have none."""

Json = dict[str, "Json"] | list["Json"] | str | int | float | None


def redact(text: str, known: Iterable[str] = ()) -> str:
    """Replace each secret in a text by `[secret]`; `known` are secrets that no rule here would find."""
    return _cut(text, _literal_secrets(known))


def redact_command(command: str) -> str:
    """A command line without secrets, and without user names and passwords in URLs."""
    return redact(_WITH_PASSWORD.sub(rf"\1{MARK}@", command))


def redact_json(text: str, known: Iterable[str] = ()) -> str:
    """Redact every string of a JSON document, keys included, as `json.dumps` writes it; numbers stay."""
    return json.dumps(_walk(json.loads(text), _literal_secrets(known)))


def redact_dumped(text: str, known: Iterable[str] = ()) -> str:
    """Redact the output of `json.dumps`; parses it only if it may contain a secret."""
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
    """Longest first, so that a secret within another leaves no remainder."""
    values = {
        value.strip()
        # Check names first: this runs several times per turn, and few names look secret.
        for name in os.environ
        if _names_a_secret(name)
        # Variables like GOOGLE_APPLICATION_CREDENTIALS name a file. A path is not a secret, and records are full of
        # paths.
        and not os.path.exists(value := os.environ[name])  # noqa: PTH110
    }
    values = values.union(*(_of_address(os.environ[name]) for name in os.environ if _ADDRESS_NAME.search(name)))
    return sorted((value for value in values.union(known) if len(value) >= MIN_LENGTH), key=len, reverse=True)


@lru_cache(maxsize=64)
def _of_address(url: str) -> frozenset[str]:
    """The user name and password in a URL, together, and the password alone."""
    with suppress(ValueError):
        parts = urlsplit(url.strip())
        if parts.password:
            return frozenset({parts.netloc.rpartition("@")[0], parts.password, unquote(parts.password)})
    return frozenset()


@lru_cache(maxsize=1024)
def _names_a_secret(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None
