"""Reads predictions from any source: rows for SWE-bench's harness or SWE-bench Pro's script, or a batch's folder."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from scrout.base import TaskError
from scrout.batch.folder import BatchFolder
from scrout.batch.outputs.predictions import file_names
from scrout.records import Run

MAX_BYTES = 2_000_000_000


@dataclass(frozen=True)
class Prediction:
    id: str
    patch: str
    model: str = ""
    lost: bool = False
    """True: infrastructure ended it, which is not the fixer's failure, even if there is half a patch."""


def read_arms(source: Path) -> dict[str, dict[str, Prediction]]:
    """Predictions by arm and task. The arm is empty for a file."""
    if not source.is_dir():
        return {"": read_predictions(source)}
    folder = BatchFolder(source)
    batch = folder.read()
    if batch is None:
        raise TaskError(f"{source} holds no batch. Pass the --out of `scrout batch run`, or predictions.")
    paths = prediction_files(source)
    arms = {arm: read_predictions(path) for arm, path in paths.items() if path.exists()}
    if not arms:
        raise TaskError(f"{folder.predictions} holds no predictions yet. Let `scrout batch run` write them first.")
    return arms


def mark_lost(arms: Mapping[str, Mapping[str, Prediction]], runs: Iterable[Run]) -> dict[str, dict[str, Prediction]]:
    """Mark the predictions whose last finished run was ended by infrastructure. `runs` are oldest first."""
    ends = {(run.arm, run.task.id): run.outcome for run in runs if run.finished}
    return {
        arm: {one.id: replace(one, lost=ends.get((arm, one.id)) == "infrastructure") for one in predictions.values()}
        for arm, predictions in arms.items()
    }


def prediction_files(source: Path) -> dict[str, Path]:
    if not source.is_dir():
        return {"": source}
    folder = BatchFolder(source)
    batch = folder.read()
    names = file_names(batch.arms) if batch else {}
    return {arm: folder.predictions / f"{name}.jsonl" for arm, name in names.items()}


def read_predictions(path: Path) -> dict[str, Prediction]:
    """Predictions by task. Raises a TaskError with line and id for an invalid row or a second row for a task."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise TaskError(f"the predictions {path}: {error.strerror}. Check the path.") from None
    if len(raw) > MAX_BYTES:
        raise TaskError(f"the predictions {path} have more than {MAX_BYTES:,} bytes. Split them.")
    found: dict[str, Prediction] = {}
    for place, value in _values(raw, path):
        one = _prediction(value, place)
        if one.id in found:
            raise TaskError(f"{place}: {one.id} already has a prediction. Keep one row for each task.")
        found[one.id] = one
    if not found:
        raise TaskError(f"{path} holds no predictions. Each row has an instance_id and a model_patch.")
    return found


def _values(raw: bytes, path: Path) -> Iterator[tuple[str, object]]:
    """Each row with its position: from a JSON array, an object by task, or lines."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TaskError(f"the predictions {path} are not UTF-8 (byte {error.start}). Save them as UTF-8.") from None
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        whole = None
    if isinstance(whole, list):
        yield from ((f"{path.name}[{number}]", value) for number, value in enumerate(whole, 1))
    elif isinstance(whole, dict) and "instance_id" not in whole:
        for task_id, value in whole.items():
            fields = value if isinstance(value, dict) else {"model_patch": value}
            yield f"{path.name}[{task_id[:80]}]", {"instance_id": task_id, **fields}
    else:
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                yield f"{path.name}:{number}", _json(line, f"{path.name}:{number}")


def _json(line: str, place: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        raise TaskError(f"{place}: the line is not JSON; it may be cut off. Write the file again.") from None


def _prediction(value: object, place: str) -> Prediction:
    if not isinstance(value, dict):
        raise TaskError(f"{place}: it is not an object. Each row has an instance_id and a model_patch.")
    task_id, patch = value.get("instance_id"), value.get("model_patch", value.get("patch"))
    if not isinstance(task_id, str) or not task_id:
        raise TaskError(f"{place}: there is no instance_id. Name the task that the patch is for.")
    if patch is not None and not isinstance(patch, str):
        raise TaskError(f"{place}: the patch of {task_id} is not text. Give a diff as git prints it.")
    try:
        f"{task_id}{patch}".encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise TaskError(
            f"{place}: it contains half a character (a lone surrogate). Give a diff as git prints it."
        ) from None
    return Prediction(task_id, patch or "", str(value.get("model_name_or_path", "")))
