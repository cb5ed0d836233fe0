"""Writes a batch's predictions for graders, one pair of files per arm, and each task's handoff for fixers.

`<arm>.jsonl` is for SWE-bench's harness, `<arm>.pro.json` for SWE-bench Pro's script. The bytes depend only on the
patches and the order of tasks, not on when or in how many sessions they were made.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from scrout.base import TaskError
from scrout.batch.folder import Batch, BatchFolder
from scrout.files import atomic, write_atomic
from scrout.ledger.store import Ledger
from scrout.records import Run
from scrout.redact import MARK

MAX_NAME_CHARS = 120
"""Maximum length of a file name without its suffix; file systems allow 255 bytes."""

_SAFE = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._+=@-]{{0,{MAX_NAME_CHARS - 1}}}")


@dataclass(frozen=True)
class Predictions:
    arm: str
    path: Path
    """Rows for SWE-bench's harness."""
    pro: Path
    """The same for SWE-bench Pro's script."""
    rows: int
    missing: tuple[str, ...]
    """Tasks without a finished run: they have no row."""
    altered: tuple[str, ...]
    """Tasks whose stored patch may not apply, because something like a secret was cut out of it."""


def write_predictions(
    folder: BatchFolder, batch: Batch, ledger: Ledger, task_ids: Sequence[str] = ()
) -> tuple[Predictions, ...]:
    """Write the current results. `task_ids` is the order of rows; other tasks follow by id."""
    counted: dict[str, dict[str, str]] = {arm: {} for arm in batch.arms}
    seen: set[str] = set()
    for head in ledger.runs_of(batch.id):
        seen.add(head.task.id)
        if head.finished is not None:
            counted.setdefault(head.arm, {})[head.task.id] = head.id
    order = list(dict.fromkeys([*task_ids, *sorted(seen)]))
    writer = _Writer(folder, batch, ledger, file_names(order))
    names = file_names(counted)
    with disk_explained(folder):
        folder.predictions.mkdir(exist_ok=True)
        folder.handoffs.mkdir(exist_ok=True)
        return tuple(writer.write(arm, names[arm], counted[arm]) for arm in counted)


@contextmanager
def disk_explained(folder: BatchFolder) -> Iterator[None]:
    """Turn an error of the disk into one with the next step."""
    try:
        yield
    except OSError as error:
        raise TaskError(
            f"the batch's results cannot be written to {folder.path}: {error.strerror or error}. Free some disk "
            f"space or make the folder writable, and run the same command again; finished runs are kept."
        ) from None


def file_names(names: Iterable[str]) -> dict[str, str]:
    """A readable file name for each, all different even if case is ignored."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        plain = name.replace("/", "-")
        if not _SAFE.fullmatch(plain) or plain.casefold() in taken:
            plain = f"{_cleaned(plain)}-{_digest(name)}"
        taken.add(plain.casefold())
        found[name] = plain
    return found


@dataclass(frozen=True)
class _Writer:
    folder: BatchFolder
    batch: Batch
    ledger: Ledger
    tasks: dict[str, str]
    """File names by task, in the order of rows."""
    told: set[str] = field(default_factory=set)
    """Tasks whose handoff is already written."""

    def write(self, arm: str, name: str, run_ids: dict[str, str]) -> Predictions:
        """Write the files of one arm, run by run: a batch's patches need not fit into memory."""
        path, pro = self.folder.predictions / f"{name}.jsonl", self.folder.predictions / f"{name}.pro.json"
        present = [task_id for task_id in self.tasks if task_id in run_ids]
        altered: list[str] = []
        with atomic(pro) as array, atomic(path) as lines:
            array.write(b"[")
            for number, task_id in enumerate(present):
                run = self.ledger.run(run_ids[task_id])
                row = {"instance_id": task_id, "model_name_or_path": f"scrout-{name}", "model_patch": run.patch}
                lines.write(f"{json.dumps(row)}\n".encode())
                # The script stores results under the prefix: with the patch's digest in it, no patch gets another's
                # result.
                prefix = f"scrout-{self.batch.id}-{name}-{_digest(run.patch)}"
                pro_row = {"instance_id": task_id, "model_patch": run.patch, "prefix": prefix}
                array.write(f"{',' if number else ''}\n{json.dumps(pro_row)}".encode())
                if MARK in run.patch:
                    altered.append(task_id)
                self._tell(task_id, run)
            array.write(b"\n]\n")
        missing = tuple(task_id for task_id in self.tasks if task_id not in run_ids)
        return Predictions(arm, path, pro, len(present), missing, tuple(altered))

    def _tell(self, task_id: str, run: Run) -> None:
        """Write the task's handoff, if this is the first run with one that was scouted and replayed."""
        if task_id in self.told or run.scouting is None or run.scouting.searcher == "none":
            return
        if run.gated is not None and run.gated.verdict != "not_replayed":
            path, text = self.folder.handoffs / f"{self.tasks[task_id]}.txt", run.gated.text
            # Replacing a file waits for the disk, and most of thousands exist from the last session.
            if not path.exists() or path.read_bytes() != text.encode("utf-8", "surrogateescape"):
                write_atomic(path, text)
            self.told.add(task_id)


def _cleaned(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_+=@-]+", "-", name).strip("-")[: MAX_NAME_CHARS - 13] or "task"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
