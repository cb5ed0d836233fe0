"""Recipes: the settings of a training run, from a preset or a TOML file, with single values changed."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from scrout.base import ConfigError, FrozenModel
from scrout.files import read_toml

R = TypeVar("R", bound=FrozenModel)


def read_recipe(source: str, changes: Iterable[str], presets: Mapping[str, R]) -> R:
    """The settings that `source` names, a preset or a file; empty: the first preset. Changes are `key=value`."""
    default = next(iter(presets.values()))
    table: dict[str, Any] = presets[source].model_dump() if source in presets else _read(source)
    for change in changes:
        key, equals, raw = change.partition("=")
        if not equals or not key:
            raise ConfigError(f"-s {change!r}: write KEY=VALUE, for example -s seed=1.")
        *parents, name = key.split(".")
        into: Any = table
        for parent in parents:
            into = into.setdefault(parent, {})
            if not isinstance(into, dict):
                raise ConfigError(f"-s {change!r}: {parent} is not a table. Set it in a file.")
        into[name] = _value(raw)
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


def _value(raw: str) -> object:
    """As TOML reads it; other text is a string."""
    try:
        return tomllib.loads(f"value = {raw}")["value"]
    except tomllib.TOMLDecodeError:
        return raw
