"""The user's package index configuration for a build: variables, configuration files, local indexes.

A build can read the credentials in it, like any install on the user's machine. They never appear on command lines or in
records.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from scrout.redact import MARK, redact
from scrout.sandbox.tier import Mount

_VARIABLE = re.compile(
    r"""PIP_(INDEX_URL|EXTRA_INDEX_URL|FIND_LINKS|NO_INDEX|TRUSTED_HOST|CERT|CLIENT_CERT|PROXY|(DEFAULT_)?TIMEOUT|RETRIES
        |CONSTRAINT|PREFER_BINARY|ONLY_BINARY|NO_BINARY)
      | UV_(INDEX\w*|DEFAULT_INDEX|EXTRA_INDEX_URL|FIND_LINKS|NO_INDEX|NATIVE_TLS|INSECURE_HOST|HTTP_TIMEOUT)
      | NPM_CONFIG_(REGISTRY|CAFILE|(HTTPS_)?PROXY|NOPROXY|STRICT_SSL|(?=\S*AUTH)\S++)
      | GO(PROXY|PRIVATE|NOPROXY|SUMDB|NOSUMDB|INSECURE) | CARGO_(HTTP|NET|REGISTRY|REGISTRIES)_\w+
      | (HTTPS?|ALL|NO)_PROXY | SSL_CERT_(FILE|DIR) | (REQUESTS|CURL)_CA_BUNDLE | NODE_EXTRA_CA_CERTS
      | GIT_SSL_CAINFO""",
    re.VERBOSE | re.IGNORECASE,
)
_NAMES_A_PLACE = re.compile(r"INDEX|FIND.LINKS|CERT|CA.?FILE|CA.BUNDLE|CONSTRAINT|REGISTRY", re.IGNORECASE)
_SYSTEM_FILES = ("/etc/pip.conf", "/etc/xdg/pip/pip.conf", "/etc/npmrc", "/etc/uv/uv.toml")
_USER_FILES = (".config/pip/pip.conf", ".pip/pip.conf", ".npmrc", ".config/uv/uv.toml")
_URL_CREDENTIALS = re.compile(r"://[^/@\s]{1,500}@")


@dataclass(frozen=True)
class Registries:
    """The configuration that package managers need to find an index."""

    variables: dict[str, str]
    mounts: tuple[Mount, ...]
    """The user's files, mounted in the home folder given to find_registries."""


def find_registries(home: str) -> Registries:
    """The caller's configuration; `home` is the build's home folder."""
    variables = {name: value for name, value in os.environ.items() if _VARIABLE.fullmatch(name)}
    files = [(Path(name), name) for name in _SYSTEM_FILES]
    files += [(Path.home() / name, f"{home}/{name}") for name in _USER_FILES]
    if named := os.environ.get("PIP_CONFIG_FILE"):
        files.append((Path(named), f"{home}/pip.conf"))
        variables["PIP_CONFIG_FILE"] = f"{home}/pip.conf" if named != os.devnull else named
    found = [Mount(source, target) for source, target in files if source.is_file()]
    words = [word for name, value in variables.items() if _NAMES_A_PLACE.search(name) for word in value.split()]
    words += [word for mount in found for word in _values(mount.source)]
    return Registries(variables, (*found, *_local(words)))


def without_credentials(text: str) -> str:
    """Text without credentials, safe to show and store."""
    return _URL_CREDENTIALS.sub(f"://{MARK}@", redact(text))


def _values(path: Path) -> Iterator[str]:
    """Values in an ini-like file that may name a file or folder; a value may continue on the next line."""
    key = ""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        name, equals, value = line.partition("=")
        if equals and not line[:1].isspace():
            key, line = name, value
        if _NAMES_A_PLACE.search(key):
            yield from line.split()


def _local(words: Iterable[str]) -> Iterator[Mount]:
    """Indexes and certificates on this machine."""
    private = (Path("/"), Path.home(), *Path.home().parents)
    for word in dict.fromkeys(words):
        place = Path(unquote(urlsplit(word).path) if word.startswith("file://") else word)
        if place.name == "simple":
            place = place.parent  # its pages link to files beside it
        covered = any(place.is_relative_to(folder) for folder in ("/usr", "/etc/ssl/certs"))
        if place.is_absolute() and place.exists() and not covered and place not in private:
            yield Mount(place, str(place))
