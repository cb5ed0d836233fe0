"""Mechanical repairs of a handoff: paths that exist, regions inside them, no duplicates, no container's root."""

from __future__ import annotations

import re
from pathlib import Path

from scrout.handoff import FileRef, Handoff, Reproduction, normalize
from scrout.sandbox.workspace import Base

CONTAINER_ROOTS = ("/app", "/testbed", "/workspace")
"""Where searchers that ran in a container saw the repository."""


def normalize_handoff(handoff: Handoff, base: Base) -> Handoff:
    """The handoff with only files that exist or are announced as new, each named once, regions clipped."""
    handoff = normalize(handoff)
    refs = []
    for ref in handoff.files:
        path = _existing(ref.path, base)
        if path is not None:
            refs.append(ref.model_copy(update={"path": path, "regions": _clip(ref.regions, base.read(path))}))
        elif _announced_new(ref) and not base.has(ref.path):
            refs.append(ref.model_copy(update={"regions": ()}))
    reproduction = handoff.reproduction and _at_home(handoff.reproduction, base.repo)
    return normalize(handoff.model_copy(update={"files": tuple(refs), "reproduction": reproduction}))


def _existing(path: str, base: Base) -> str | None:
    """The path as the repository has it: as written, without a container's root, or below lib/ or src/."""
    roots = (f"{root.removeprefix('/')}/" for root in CONTAINER_ROOTS)
    shorter = [path.removeprefix(root) for root in roots if path.startswith(root)]
    candidates = [path, *shorter, *(f"{folder}/{name}" for folder in ("lib", "src") for name in (path, *shorter))]
    return next((candidate for candidate in candidates if base.read(candidate) is not None), None)


def _announced_new(ref: FileRef) -> bool:
    return ref.why.lower().startswith("new file")


def _clip(regions: tuple[tuple[int, int], ...], content: bytes | None) -> tuple[tuple[int, int], ...]:
    length = len((content or b"").splitlines())
    return tuple((first, min(last, length)) for first, last in regions if first <= length)


def _at_home(reproduction: Reproduction, repo: Path) -> Reproduction:
    """A reproduction from a container, with the repository's path here: fixer and check know no container."""
    if not re.fullmatch(r"[\w./+-]+", str(repo)):
        return reproduction  # would need quoting, and where it stands may be quoted already
    for root in CONTAINER_ROOTS:
        if repo.is_relative_to(root):
            continue  # here the root means what it says
        mention = re.compile(rf"(?<![\w./~-]){root}(?![\w.-])")
        reproduction = reproduction.model_copy(
            update={
                "command": reproduction.command and mention.sub(str(repo), reproduction.command),
                "files": {path: mention.sub(str(repo), text) for path, text in reproduction.files.items()},
            }
        )
    return reproduction
