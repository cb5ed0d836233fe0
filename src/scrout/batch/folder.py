"""A batch's output folder: its definition, and the paths of its parts."""

from __future__ import annotations

import os
import secrets
from datetime import UTC, datetime
from pathlib import Path

from pydantic import Field

from scrout.base import FrozenModel, TaskError
from scrout.files import write_atomic
from scrout.ledger.store import Ledger

FILE_NAME = "batch.json"
_OLD = "before-"
"""Name prefix of folders with a batch that was started over."""


class Batch(FrozenModel):
    """The definition of a batch. Written once, when it starts."""

    id: str = Field(pattern=r"^[0-9A-Za-z-]{1,100}$")
    """Part of a folder's name."""
    settings_digest: str
    tasks_digest: str
    tasks: int
    arms: tuple[str, ...]
    """Labels such as `handoff/routed`; each task runs once in each."""
    started: datetime
    scrout: str
    """The scrout version that started it."""


class BatchFolder:
    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.ledger = self.path / "ledger.db"
        self.attempts = self.path / "attempts"
        """Trajectories, by the place of their step in the ledger."""
        self.runs = self.path / "runs.txt"
        """The ids of runs that ended, one per line: the ledger must have them when the batch continues."""
        self.predictions = self.path / "predictions"
        self.handoffs = self.path / "handoffs"
        self.grades = self.path / "grades.jsonl"
        self.summary = self.path / "summary.json"
        self.report = self.path / "report.html"

    def note(self, run: str) -> None:
        """Record a run that was paid for."""
        with self.runs.open("a", encoding="utf-8") as file:
            file.write(f"{run}\n")
            file.flush()
            os.fsync(file.fileno())

    def must_be_in(self, ledger: Ledger, batch: Batch) -> None:
        """Raise a TaskError unless the ledger has every recorded run; otherwise, continuing would pay for them
        again.
        """
        known = set(self.runs.read_text(encoding="utf-8").split()) if self.runs.is_file() else set()
        if self.attempts.is_dir():
            known |= {path.name for path in self.attempts.iterdir()}
        missing = sorted(known - {run.id for run in ledger.runs_of(batch.id)})
        if missing:
            raise TaskError(
                f"{len(missing)} of the {len(known)} runs of batch {batch.id} are not in the ledger {ledger.name}: "
                f"{missing[0]} is one. Continuing would pay for them again. Restore the ledger, or start again with "
                f"--start-over."
            )

    def set_aside(self) -> None:
        """Make room for a new batch: moves all files into a folder below."""
        found = self.read()
        if found is not None:
            old = self.path / f"{_OLD}{found.id}"
            old.mkdir()
            for path in list(self.path.iterdir()):
                if path.name != ".lock" and not path.name.startswith(_OLD):
                    path.rename(old / path.name)

    def read(self) -> Batch | None:
        """The batch in this folder; None: there is none."""
        # The folder may come from elsewhere, and a symlink in it could redirect writes.
        links = [path for path in self.path.iterdir() if path.is_symlink()] if self.path.is_dir() else []
        if links:
            raise TaskError(
                f"{links[0]} is a symlink, and scrout does not follow symlinks in a batch's folder. Remove it."
            )
        try:
            return Batch.model_validate_json((self.path / FILE_NAME).read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise TaskError(f"{self.path / FILE_NAME} cannot be read: {error}. Name another folder.") from None

    def begin(self, settings_digest: str, tasks_digest: str, tasks: int, arms: tuple[str, ...], version: str) -> Batch:
        """Start a batch, or continue the same one; raises a TaskError if the folder has a different one."""
        found = self.read()
        if found is None:
            if any(path.name != ".lock" and not path.name.startswith(_OLD) for path in self.path.iterdir()):
                raise TaskError(f"{self.path} contains files that are not a batch. Name an empty or a new folder.")
            now = datetime.now(UTC)
            batch = Batch(
                id=f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}",
                settings_digest=settings_digest,
                tasks_digest=tasks_digest,
                tasks=tasks,
                arms=arms,
                started=now,
                scrout=version,
            )
            write_atomic(self.path / FILE_NAME, batch.model_dump_json(indent=2) + "\n")
            return batch
        for what, there, here in (
            ("settings", found.settings_digest, settings_digest),
            ("tasks", found.tasks_digest, tasks_digest),
            ("arms", " ".join(found.arms), " ".join(arms)),
        ):
            if there != here:
                raise TaskError(
                    f"{self.path} holds a batch with other {what} ({there}; these are {here}). Continue it with the "
                    f"same ones, or name another folder."
                )
        return found
