"""Cache of built environments and failed builds, bounded, and keyed by every input of a build."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeVar

from pydantic import ValidationError

from scrout.base import FrozenModel
from scrout.config.folders import cache_folder
from scrout.files import Lock, plain_beneath
from scrout.sandbox.environment_recipes import Recipe
from scrout.sandbox.tier import Mount
from scrout.sandbox.workspace import Base, private_folder, remove_folder

PLACE = "/opt/scrout/env"
"""Mount point of built environments. Their scripts contain its absolute path, so it is the same in every sandbox."""
IN_USE_S = 3600.0
"""An environment that was requested this recently may be mounted, so it is not evicted."""
_FORMAT = "1"

R = TypeVar("R", bound=FrozenModel)


class BuiltEnvironment(FrozenModel):
    """Record of a finished build."""

    kind: str
    repo: str
    source: str
    left: tuple[str, ...]
    """Paths that the build left in the repository, relative to it: compiled modules, node_modules, metadata."""
    seconds: float
    size_bytes: int


class FailedBuild(FrozenModel):
    """Record of a failed build. It is repeated only if its inputs change or the user forces it."""

    kind: str
    repo: str
    line: str
    """The line that failed; empty: none."""
    reason: str
    output_tail: str = ""


@dataclass(frozen=True)
class Slot:
    """One recipe's place in the cache, existing or not."""

    recipe: Recipe
    key: str
    folder: Path

    @property
    def place(self) -> str:
        """Its path inside of the sandbox."""
        return f"{PLACE}/{self.key}"

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def tree(self) -> Path:
        """The files that were left in the repository."""
        return self.folder / "tree"

    def placed(self, text: str) -> str:
        return text.replace("$SCROUT_ENV", self.place)

    def built(self) -> BuiltEnvironment | None:
        return _read(self.folder / "built.json", BuiltEnvironment)

    def failed(self) -> FailedBuild | None:
        return _read(self.folder.with_suffix(".failed"), FailedBuild)

    def use(self) -> tuple[Mount, ...]:
        """The mounts and variables of a built environment; marks it as used now."""
        built = self.built()
        assert built is not None
        with contextlib.suppress(OSError):
            os.utime(self.folder / "built.json")
        mounts = [Mount(self.root, self.place)]
        for path in built.left:
            # Only paths in the slot itself: another path, or a symlink, could name any host folder.
            if source := plain_beneath(self.tree, path):
                mounts.append(Mount(source, str(PurePosixPath(built.repo, path))))
        return tuple(mounts)

    def forget(self) -> None:
        self.folder.with_suffix(".failed").unlink(missing_ok=True)
        remove_folder(self.folder)


def slot(recipe: Recipe, base: Base, interpreter: str) -> Slot:
    """The slot of this recipe's build for this repository, existing or not."""
    contents = {path: hashlib.sha256(base.read(path) or b"").hexdigest() for path in recipe.inputs}
    commit = base.commit if recipe.per_commit else ""
    depends = [_FORMAT, repr(recipe), contents, os.fsencode(base.repo).hex(), interpreter, commit]
    key = hashlib.sha256(json.dumps(depends).encode()).hexdigest()[:20]
    return Slot(recipe, key, _folder() / key)


@asynccontextmanager
async def cached_environments(slot: Slot, waiting: Callable[[], None]) -> AsyncIterator[None]:
    """Hold this slot's lock while the block runs."""
    lock = Lock(slot.folder.with_suffix(".lock"))
    while not lock.take():
        waiting()
        await asyncio.sleep(0.2)
    with lock:
        yield


def evict(keep: int) -> None:
    """Remove the least recently used builds beyond `keep`, except those that may be in use."""
    found = sorted(_folder().glob("[0-9a-f]*/built.json"), key=_last_use, reverse=True)
    for path in found[keep:]:
        if time.time() - _last_use(path) > IN_USE_S:
            remove_folder(path.parent)


def clear(repo: Path | None) -> tuple[int, int]:
    """Remove the builds for a repository (None: for all), failed ones included. Returns their number and bytes."""
    count, size_bytes = 0, 0
    for folder, record in _entries():
        if repo is not None and record.repo != str(repo):
            continue
        count += 1
        size_bytes += record.size_bytes if isinstance(record, BuiltEnvironment) else 0
        folder.with_suffix(".failed").unlink(missing_ok=True)
        remove_folder(folder)
    remove_folder(_downloads() if repo is None else downloads(repo))
    return count, size_bytes


def downloads(repo: Path) -> Path:
    """Download folder of package managers, one per repository, so that a build cannot affect other repositories."""
    return _downloads() / hashlib.sha256(os.fsencode(repo)).hexdigest()[:20]


def _downloads() -> Path:
    return private_folder(cache_folder() / "downloads")


def _entries() -> Iterator[tuple[Path, BuiltEnvironment | FailedBuild]]:
    for path in sorted(_folder().glob("[0-9a-f]*")):
        record = _read(path / "built.json", BuiltEnvironment) if path.is_dir() else None
        failure = _read(path, FailedBuild) if path.suffix == ".failed" else None
        if found := record or failure:
            yield path.with_suffix(""), found


def _folder() -> Path:
    return private_folder(cache_folder() / "environments")


def _last_use(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _read(path: Path, kind: type[R]) -> R | None:
    try:
        return kind.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
