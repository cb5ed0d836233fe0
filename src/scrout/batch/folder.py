"""A batch's output folder: what the batch is, where its parts lie, and that only one process drives it."""

from __future__ import annotations

import json
import secrets
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from scrout.errors import TaskError
from scrout.ledger.locks import Lock
from scrout.money import Record

FILE_NAME = "batch.json"


class Batch(Record):
    """What a batch is. Written once, when it begins."""

    id: str
    settings_digest: str
    tasks_digest: str
    tasks: int
    arms: tuple[str, ...]
    """Labels such as `handoff/routed`; each task is run once in each."""
    started: datetime
    scrout: str
    """The version that began it."""


class Folder:
    """The folder that `--out` names."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._lock = Lock(self.path / ".lock")

    @property
    def ledger(self) -> Path:
        return self.path / "ledger.db"

    @property
    def attempts(self) -> Path:
        """Trajectories, by the place of their step in the ledger."""
        return self.path / "attempts"

    @property
    def predictions(self) -> Path:
        return self.path / "predictions"

    @property
    def handoffs(self) -> Path:
        return self.path / "handoffs"

    @property
    def grades(self) -> Path:
        return self.path / "grades.jsonl"

    @property
    def summary(self) -> Path:
        return self.path / "summary.json"

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    def claim(self) -> None:
        """Make it this process's own, or say why that cannot be."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            taken = self._lock.take()
        except OSError as error:
            raise TaskError(f"--out {self.path}: {error.strerror}. Name a folder that you may write to.") from None
        if not taken:
            raise TaskError(f"another process runs the batch in {self.path}. Wait for it, or name another folder.")

    def release(self) -> None:
        self._lock.release()

    def read(self) -> Batch | None:
        """The batch that lies here; None: none does."""
        try:
            text = (self.path / FILE_NAME).read_text(encoding="utf-8")
            return Batch.model_validate(json.loads(text))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, ValidationError) as error:
            raise TaskError(f"{self.path / FILE_NAME} cannot be read: {error}. Name another folder.") from None

    def begin(self, settings_digest: str, tasks_digest: str, tasks: int, arms: tuple[str, ...], version: str) -> Batch:
        """The batch of this making: the one that lies here, or a new one. Another's folder is refused."""
        found = self.read()
        if found is None:
            if any(path.name != ".lock" for path in self.path.iterdir()):
                raise TaskError(f"{self.path} holds files and no batch. Name an empty or a new folder.")
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
            write_whole(self.path / FILE_NAME, batch.model_dump_json(indent=2) + "\n")
            return batch
        for what, there, here in (
            ("settings", found.settings_digest, settings_digest),
            ("tasks", found.tasks_digest, tasks_digest),
            ("arms", " ".join(found.arms), " ".join(arms)),
        ):
            if there != here:
                raise TaskError(
                    f"{self.path} holds a batch with other {what} ({there}; these are {here}). Go on with it as it was "
                    "begun, or name another folder."
                )
        return found


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a reader, or a run that was killed, sees all of it or the former one."""
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(text.encode("utf-8", "surrogateescape"))
    part.replace(path)
