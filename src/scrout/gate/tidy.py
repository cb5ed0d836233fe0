"""Mechanical checks of a handoff's files: paths that exist, regions inside them, no duplicates."""

from __future__ import annotations

from scrout.handoff import FileRef, Handoff
from scrout.sandbox.workspace import Base

CONTAINER_ROOTS = ("/app", "/testbed", "/workspace")
"""Where searchers that ran in a container saw the repository."""


def tidy(handoff: Handoff, base: Base) -> Handoff:
    """The handoff with only files that exist or are announced as new, each named once, regions clipped."""
    merged: dict[str, FileRef] = {}
    for ref in handoff.files:
        path = _existing(ref.path, base)
        if path is None and not _announced_new(ref):
            continue
        path = path or ref.path
        regions = _clip(ref.regions, base.read(path))
        first = merged.get(path)
        if first is None:
            merged[path] = ref.model_copy(update={"path": path, "regions": regions})
        else:
            both = tuple(dict.fromkeys((*first.regions, *regions)))
            merged[path] = first.model_copy(update={"regions": both})
    return handoff.model_copy(update={"files": tuple(merged.values())})


def _existing(path: str, base: Base) -> str | None:
    """The path as the repository has it: as written, without a container's root, or below lib/ or src/."""
    candidates = [path]
    for root in CONTAINER_ROOTS:
        name = root.lstrip("/") + "/"
        if path.lstrip("/").startswith(name):
            candidates.append(path.lstrip("/").removeprefix(name))
    candidates += [f"{folder}/{path}" for folder in ("lib", "src")]
    return next((candidate for candidate in candidates if base.read(candidate) is not None), None)


def _announced_new(ref: FileRef) -> bool:
    return ref.why.lower().startswith("new file")


def _clip(regions: tuple[tuple[int, int], ...], content: bytes | None) -> tuple[tuple[int, int], ...]:
    length = len((content or b"").splitlines())
    return tuple((max(first, 1), min(last, length)) for first, last in regions if first <= length)
