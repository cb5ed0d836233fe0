"""The folder of a run, which one process at a time works in: what is in it is whole, or not there.

run.json          what it was started with; a call with other values is refused
episodes.jsonl    each finished episode with its reward (rollouts.py), its trace in traces/
adapters/step-N   LoRA weights after N steps, as peft saves them and servers load them
states/step-N     optimizer and random state that go with them
before/step-N     log-probabilities that the updates of the step after N are measured against
steps.jsonl       what each finished step did
"""

from __future__ import annotations

import errno
import io
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field, JsonValue, ValidationError

from scrout.base import ConfigError, FrozenModel, TaskError
from scrout.files import JsonLines, Lock, atomic_folder, remove_parts, write_atomic
from scrout.lab.train.grpo.reward import Weights

if TYPE_CHECKING:
    from scrout.lab.train.grpo.learner import Learner

CARD, STEPS = "run.json", "steps.jsonl"
STATES_KEPT = 2
_DISK = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM))


class GrpoSettings(FrozenModel):
    """What a run learns from, and how. All of it stays as it is for the whole run."""

    group: int = Field(default=8, ge=2)
    """Episodes a task, which are compared with each other."""
    tasks_per_step: int = Field(default=4, ge=1)
    updates: int = Field(default=1, ge=1)
    """Of the optimizer, for one step's episodes."""
    lr: float = Field(default=1e-5, gt=0)
    clip: float = Field(default=0.2, gt=0, lt=1)
    kl: float = Field(default=0.0, ge=0)
    """Weight of the distance to the checkpoint without an adapter; 0: it is not computed."""
    rank: int = Field(default=16, ge=1)
    """Of a new adapter."""
    seed: int = 0
    weights: Weights = Weights()


class GrpoCard(FrozenModel):
    """What a run was started with."""

    format: Literal[1] = 1
    checkpoint: str
    """Digest of the weights."""
    adapter: str
    """Digest of the adapter that it starts from; empty: a new one."""
    tasks: str
    """Digest of ids, texts, repositories, commits and files of the fixes."""
    searcher: dict[str, JsonValue]
    options: GrpoSettings


class GrpoStep(FrozenModel):
    """What one step did."""

    step: int
    """From 1; also the number of its adapter."""
    reward: float | None
    """Mean of all rewarded episodes; None: there was none."""
    parts: dict[str, float]
    """Means of what the reward is made of."""
    episodes: int
    unrewarded: dict[str, int]
    """Episodes without a reward, by how they ended."""
    groups_used: int
    groups_flat: int
    """Whose rewards were all alike, so that they taught nothing."""
    lost: dict[str, str]
    """Tasks with fewer than two rewarded episodes, and why."""
    unfit: dict[str, int]
    """Conversations that could not be made into tokens, by the reason."""
    documents: int
    tokens: int
    """That were learned."""
    loss: float
    """Of the first update."""
    kl: float | None
    """Mean a token, at the first update; None: not asked for."""
    clipped: float
    """Share of the tokens that the clip held, in the last update."""
    norm: float
    """Of the gradient, in the first update, before it was shortened."""
    rollout_seconds: float
    learning_seconds: float


class GrpoFolder:
    """A run's folder, which one process at a time works in."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.steps = JsonLines(path / STEPS, GrpoStep, durable=True)
        self._lock = Lock(path / ".lock")

    def __enter__(self) -> GrpoFolder:
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError(f"--out {self.path} is no folder. Name a new one, or that of a run.")
        self.path.mkdir(parents=True, exist_ok=True)
        if not (self.path / CARD).is_file() and any(name.name != ".lock" for name in self.path.iterdir()):
            raise ConfigError(f"--out {self.path} holds other things than a run. Name a new folder.")
        if not self._lock.take():
            raise ConfigError(f"another process trains in {self.path}. Wait for it, or name another folder.")
        remove_parts(self.path / "states")
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def adapter(self, step: int) -> Path:
        return self.path / "adapters" / f"step-{step}"

    def state(self, step: int) -> Path:
        return self.path / "states" / f"step-{step}"

    def require(self, card: GrpoCard) -> None:
        """Write down what the run starts with; or a ConfigError where it was started with something else."""
        path = self.path / CARD
        if not path.is_file():
            write_atomic(path, card.model_dump_json(indent=2) + "\n", durable=True)
            return
        try:
            known = GrpoCard.model_validate_json(path.read_bytes())
        except ValidationError:
            raise ConfigError(f"{path} was written by another scrout. Begin in a new folder.") from None
        for what in ("checkpoint", "adapter", "tasks"):
            if getattr(known, what) != getattr(card, what):
                raise ConfigError(f"{self.path} was started with another {what}. Pass that one, or a new folder.")
        now = {**card.searcher, **card.options.model_dump(mode="json")}
        before = {**known.searcher, **known.options.model_dump(mode="json")}
        for key in sorted({*now, *before}):
            if now.get(key) != before.get(key):
                raise ConfigError(
                    f"{self.path} was started with {key} {before.get(key)!r}, and now it is {now.get(key)!r}. Keep the "
                    "former, or begin in a new folder."
                )

    def is_new(self, steps: int) -> bool:
        """Whether not even the adapter that the run starts from is there; a TaskError where a later one is gone."""
        for path in (self.adapter(steps), self.state(steps)):
            if steps and not path.exists():
                raise TaskError(f"{path} is gone. Put it back, or begin in a new folder.")
        return not self.adapter(steps).is_dir() or not self.state(steps).is_file()

    def restore(self, step: int, learner: Learner) -> None:
        """Let the learner go on as it was after a step."""
        learner.restore(self.state(step).read_bytes())

    def save(self, step: int, learner: Learner) -> None:
        """Adapter and state, each whole or not there."""
        target, state = self.adapter(step), self.state(step)
        with atomic_folder(target, durable=True) as part:
            try:
                learner.save_adapter(part)
            except Exception as error:  # whatever the library makes of a disk that is full
                raise _as_os_error(error) from None
            if target.is_dir():  # of a try that was killed before its line was written
                shutil.rmtree(target)
        state.parent.mkdir(exist_ok=True)
        write_atomic(state, learner.state(), durable=True)

    def clear(self, step: int) -> None:
        """Drop what no later call can need."""
        for old in range(step - STATES_KEPT, -1, -1):
            path = self.state(old)
            if not path.exists():
                break
            path.unlink()
        shutil.rmtree(self.path / "before", ignore_errors=True)

    def before(self, step: int, sizes: Sequence[int], reference: bool) -> dict[str, Any] | None:
        """What an interrupted try has measured; None: nothing that fits."""
        path = self.path / "before" / f"step-{step}"
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as arrays:
                kept = {name: arrays[name] for name in arrays.files}
        except (OSError, ValueError):
            return None
        names = ["old", *(["reference"] if reference else [])]
        wanted = {f"{name}{number}": (size,) for name in names for number, size in enumerate(sizes)}
        return kept if {name: array.shape for name, array in kept.items()} == wanted else None

    def keep_before(self, step: int, arrays: Mapping[str, Any]) -> None:
        path = self.path / "before" / f"step-{step}"
        path.parent.mkdir(exist_ok=True)
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        write_atomic(path, buffer.getvalue(), durable=True)


@contextmanager
def disk_told(out: Path) -> Iterator[None]:
    """What a disk says, as an error that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno not in _DISK:
            raise
        raise ConfigError(
            f"{error.filename or out}: {error.strerror or error}. Make room, and repeat the command: finished episodes "
            "and steps are kept, and nothing is half written."
        ) from None


def _as_os_error(error: Exception) -> Exception:
    """Libraries wrap what the disk said in errors of their own."""
    if isinstance(error, OSError):
        return error
    code = next((code for code in _DISK if os.strerror(code) in str(error) or f"os error {code}" in str(error)), None)
    return error if code is None else OSError(code, os.strerror(code))
