"""Vectors of the tasks with known outcomes: one file per feature space, one row per task.

Résumés name tasks by digest and contain no vectors, so fixers that tried the same tasks share them, and a new feature
space needs no new résumé.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from scrout.base import RouteError
from scrout.route.resume_store import alone, file_name, write
from scrout.task import MAX_TITLE_CHARS

Rows = npt.NDArray[np.float32]

TITLES = "titles.json"
_SUFFIX = ".vectors.npz"


class TaskVectors:
    """Tasks in one or more folders; if two have the same task, the last folder wins."""

    def __init__(self, *folders: Path) -> None:
        self.folders = folders
        self._spaces: dict[str, tuple[dict[str, int], Rows]] = {}

    def vectors(self, space: str, tasks: Sequence[str]) -> tuple[npt.NDArray[np.bool_], Rows]:
        """Which of the tasks have a vector in the space, and these vectors in their order."""
        place, rows = self.space(space)
        found = np.array([task in place for task in tasks], dtype=bool)
        return found, rows[[place[task] for task in tasks if task in place]]

    def space(self, name: str) -> tuple[dict[str, int], Rows]:
        """Row by task, and the rows."""
        if name not in self._spaces:
            place: dict[str, int] = {}
            parts: list[Rows] = []
            for folder in self.folders:
                if (stored := _read(folder / file_name(name, _SUFFIX))) is not None:
                    tasks, rows = stored
                    start = sum(map(len, parts))
                    place |= {task: start + at for at, task in enumerate(tasks)}
                    parts.append(rows)
            if len({part.shape[1] for part in parts}) > 1:
                raise RouteError(f"the vectors of {name} differ in size: {self._where(name)}. Remove the wrong file.")
            self._spaces[name] = (place, np.concatenate(parts) if parts else np.zeros((0, 0), dtype=np.float32))
        return self._spaces[name]

    @cached_property
    def titles(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for folder in self.folders:
            found |= _read_titles(folder)
        return found

    def _where(self, space: str) -> str:
        return ", ".join(str(folder / file_name(space, _SUFFIX)) for folder in self.folders)


def remember(
    folder: Path, space: str, vectors: Mapping[str, Sequence[float] | Rows], titles: Mapping[str, str]
) -> None:
    """Add tasks to a folder, by digest; an existing one gets its new vector."""
    if not vectors:
        return
    with alone(folder, "known"):
        tasks, rows = _read(folder / file_name(space, _SUFFIX)) or ([], None)
        kept = dict(zip(tasks, rows, strict=True)) if rows is not None else {}
        kept |= {task: np.asarray(vector, dtype=np.float32) for task, vector in vectors.items()}
        sizes = {len(vector) for vector in kept.values()}
        if len(sizes) > 1:
            raise RouteError(f"the space {space} has vectors of different sizes: {sorted(sizes)}. Build it again.")
        if not all(np.isfinite(vector).all() for vector in kept.values()):
            raise RouteError(
                f"a vector for {space} contains values that are not numbers. Embed or scout the task again."
            )
        write(folder / file_name(space, _SUFFIX), _packed(kept))
        told = _read_titles(folder) | {task: title[:MAX_TITLE_CHARS] for task, title in titles.items()}
        write(folder / TITLES, json.dumps(told, ensure_ascii=False, sort_keys=True).encode())


def _packed(vectors: Mapping[str, Rows]) -> bytes:
    """Sorted by task, so that the same tasks give the same file.

    Normalized rows are stored in half precision, which is small enough to ship; a scout's counts may not fit into it.
    """
    tasks = sorted(vectors)
    rows = np.array([vectors[task] for task in tasks], dtype=np.float32)
    file = io.BytesIO()
    small = np.abs(rows).max(initial=0) <= 1
    np.savez_compressed(file, tasks=np.array(tasks, dtype=np.str_), rows=rows.astype(np.float16) if small else rows)
    return file.getvalue()


def _read(path: Path) -> tuple[list[str], Rows] | None:
    if not path.is_file():
        return None
    try:
        with np.load(path, allow_pickle=False) as stored:
            tasks, rows = stored["tasks"].tolist(), stored["rows"].astype(np.float32)
    except Exception as error:
        raise RouteError(f"{path} is damaged ({error}). Remove it, and add the fixers' outcomes again.") from None
    if rows.ndim != 2 or len(rows) != len(tasks) or not np.isfinite(rows).all():
        raise RouteError(f"{path} is damaged: its rows do not fit. Remove it, and add the fixers' outcomes again.")
    return tasks, rows


def _read_titles(folder: Path) -> dict[str, str]:
    try:
        found = json.loads((folder / TITLES).read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise RouteError(f"{folder / TITLES} cannot be read ({error}). Remove it; only titles are lost.") from None
    if not isinstance(found, dict):
        raise RouteError(f"{folder / TITLES} holds no titles. Remove it; only titles are lost.")
    return {str(task): str(title) for task, title in found.items()}
