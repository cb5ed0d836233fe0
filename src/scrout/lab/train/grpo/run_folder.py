"""The folder of a GRPO run. One process at a time works in it, and each file is whole or not there.

run.json          what it was started with; a call with other values is refused
episodes.jsonl    each finished episode with its reward (rollouts.py), its trace in traces/
adapters/step-N   LoRA weights after N steps, as peft saves them and servers load them
states/step-N     the optimizer's state that goes with them
steps.jsonl       what each finished step did
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field, JsonValue

from scrout.base import ConfigError, FrozenModel, TaskError
from scrout.files import JsonLines, atomic_folder, remove_parts, write_atomic
from scrout.lab.train.grpo.reward import Weights
from scrout.lab.train.run_card import keep_card, require_run_or_empty

if TYPE_CHECKING:
    from scrout.lab.train.grpo.learner import Learner

CARD, STEPS = "run.json", "steps.jsonl"
STATES_KEPT = 2
_DISK = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM))


class GrpoSettings(FrozenModel):
    """How a run learns. All but `chunk_tokens` stays as it is for the whole run."""

    group_size: int = Field(default=8, ge=2)
    """Episodes per task, which are compared with each other."""
    tasks_per_step: int = Field(default=4, ge=1)
    learning_rate: float = Field(default=1e-5, gt=0)
    rank: int = Field(default=16, ge=1)
    """Of a new adapter."""
    seed: int = 0
    chunk_tokens: int = Field(default=1024, ge=1)
    """Tokens whose logits exist at once."""
    weights: Weights = Weights()
    """Of the reward."""


PRESETS = {"default": GrpoSettings()}


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
    settings: GrpoSettings


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
    norm: float
    """Of the gradient, before it was shortened."""
    rollout_seconds: float
    learning_seconds: float


class GrpoFolder:
    """A run's folder, which its caller has locked."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.steps = JsonLines(path / STEPS, GrpoStep, durable=True)

    def open(self, card: GrpoCard) -> None:
        """Begin a run, or go on with this one; a TaskError if it was started with something else."""
        require_run_or_empty(self.path / CARD)
        keep_card(self.path / CARD, card)
        remove_parts(self.path / "states")

    def adapter(self, step: int) -> Path:
        return self.path / "adapters" / f"step-{step}"

    def state(self, step: int) -> Path:
        return self.path / "states" / f"step-{step}"

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


@contextmanager
def disk_errors(out: Path) -> Iterator[None]:
    """Errors of the disk, with what to do."""
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
