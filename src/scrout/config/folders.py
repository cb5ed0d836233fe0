"""Where scrout keeps what is the user's: configuration, data and caches."""

from __future__ import annotations

import os
from pathlib import Path

from scrout.base import ConfigError

FILE_NAME = "scrout.toml"


def user_file() -> Path:
    """The user's own scrout.toml, on top of which a repository's own applies."""
    return user_folder("XDG_CONFIG_HOME", ".config") / FILE_NAME


def data_folder() -> Path:
    """Where the ledger and résumés live."""
    return user_folder("XDG_DATA_HOME", ".local/share")


def cache_folder() -> Path:
    """Where everything lives that can be made again."""
    return user_folder("XDG_CACHE_HOME", ".cache")


def user_folder(variable: str, below_home: str) -> Path:
    """scrout's folder under an XDG base directory."""
    base = os.environ.get(variable, "")
    # The XDG specification has relative values ignored.
    folder = Path(base) if base.startswith("/") else Path.home() / below_home
    if not folder.is_absolute():
        raise ConfigError(f"HOME is {str(Path.home())!r}, which is not an absolute path. Set HOME to an absolute path.")
    return folder / "scrout"
