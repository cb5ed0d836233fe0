"""The folders for the user's configuration, data and caches."""

from __future__ import annotations

import os
from pathlib import Path

from scrout.base import ConfigError

FILE_NAME = "scrout.toml"


def user_file() -> Path:
    """The user's own scrout.toml; a repository's scrout.toml is applied on top of it."""
    return user_folder("XDG_CONFIG_HOME", ".config") / FILE_NAME


def data_folder() -> Path:
    """Folder of the ledger and résumés."""
    return user_folder("XDG_DATA_HOME", ".local/share")


def cache_folder() -> Path:
    """Folder of files that can be made again."""
    return user_folder("XDG_CACHE_HOME", ".cache")


def user_folder(variable: str, below_home: str) -> Path:
    """scrout's folder under an XDG base directory."""
    base = os.environ.get(variable, "")
    # The XDG specification says to ignore relative values.
    folder = Path(base) if base.startswith("/") else Path.home() / below_home
    if not folder.is_absolute():
        raise ConfigError(f"HOME is {str(Path.home())!r}, which is not an absolute path. Set HOME to an absolute path.")
    return folder / "scrout"
