"""Recipes: the settings of a training run, from a preset or a TOML file, with single values changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from scrout.base import ConfigError, FrozenModel
from scrout.config.loading import set_key
from scrout.files import read_toml

R = TypeVar("R", bound=FrozenModel)


def read_recipe(source: str, changes: Iterable[str], presets: Mapping[str, R]) -> R:
    """The settings that `source` names, a preset or a file; empty: the first preset. Changes are `key=value`."""
    default = next(iter(presets.values()))
    table: dict[str, Any] = presets[source].model_dump() if source in presets else _read(source)
    for change in changes:
        set_key(table, change, option="-s", example="seed=1")
    try:
        return type(default).model_validate(table)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        key = ".".join(map(str, problem["loc"]))
        known = ", ".join(type(default).model_fields)
        raise ConfigError(
            f"the recipe's {key}: {problem['msg'].removeprefix('Value error, ')}. It may have {known}."
        ) from None


def _read(source: str) -> dict[str, Any]:
    if not source:
        return {}
    try:
        return read_toml(Path(source).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"the recipe {source} cannot be read ({error}). Name a preset or a TOML file.") from None
