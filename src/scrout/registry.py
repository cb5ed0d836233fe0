"""Parts by name: fixer kinds, sandbox tiers, searchers, embedders.

A part of scrout's own is one module in its registry's package, named like the part. Another package offers a part by an
entry point. A part is imported when it is first requested by name.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar, cast

from scrout.base import ConfigError

Part = TypeVar("Part")
ATTRIBUTE = "PART"
"""The name of the part in a scrout module."""


@dataclass(frozen=True)
class Registry(Generic[Part]):
    """All parts of one sort."""

    sort: str
    """Name of the sort, for messages."""
    package: str
    """Package with scrout's own parts."""
    group: str
    """Entry point group of other packages."""

    def names(self) -> tuple[str, ...]:
        """The names of all parts, sorted."""
        return tuple(sorted({*self._own(), *(one.name for one in self._others())}))

    def get(self, name: str) -> Part:
        """The part with that name; raises a ConfigError if there is none or its package cannot be imported."""
        if name in self._own():
            return cast(Part, getattr(importlib.import_module(f"{self.package}.{name}"), ATTRIBUTE))
        for entry in self._others():
            if entry.name == name:
                return self._load(entry)
        raise ConfigError(f"no {self.sort} is called {name!r}; there are {', '.join(self.names())}")

    def _own(self) -> tuple[str, ...]:
        folders = importlib.import_module(self.package).__path__
        return tuple(module.name for module in pkgutil.iter_modules(folders) if not module.name.startswith("_"))

    def _others(self) -> tuple[EntryPoint, ...]:
        return tuple(entry_points(group=self.group))

    def _load(self, entry: EntryPoint) -> Part:
        try:
            return cast(Part, entry.load())
        except Exception as error:  # The import may raise anything; the user has to see it.
            package = entry.dist.name if entry.dist else entry.value
            raise ConfigError(
                f"the {self.sort} {entry.name!r} of the package {package} cannot be imported: {error!r}. "
                "Install a version of it that fits this scrout, or uninstall it."
            ) from error
