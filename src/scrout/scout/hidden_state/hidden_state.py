"""The searcher's hidden state, for the router: one prompt in, one vector out, whichever program runs the weights.

It is read before anything is decoded: the prompt as the chat template renders it, up to where the reply would begin;
its last token; the output of one decoder layer (`checkpoint.py` says which, in all three numberings); divided by its
length and rounded to float16. The paper does not say which request's prompt that is. Whoever reads says so in `save`;
episodes use their last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from scrout.agent.dialects import dialect
from scrout.base import ConfigError, ModelError
from scrout.config.settings import SearcherSettings
from scrout.models.chat import Message, Tool
from scrout.records import State
from scrout.scout.hidden_state.checkpoint import Shape

Floats = npt.NDArray[np.float32]

SAVED_VERSION = 1


class States(Protocol):
    """One way to a state."""

    async def read(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> State:
        """The state at the end of this prompt."""
        ...


async def read_state(
    settings: SearcherSettings, messages: Sequence[Message], tools: Sequence[Tool] = (), *, socket: Path
) -> State:
    """The state at the end of this prompt, from where `scout.model.state` says. A request made for it passes the
    meter's socket.

    Of the tools, the prompt has what the dialect's requests carry: elsewhere the messages explain them.
    """
    return await states(settings, socket).read(messages, dialect(settings.dialect).offer(tools).tools)


def states(settings: SearcherSettings, socket: Path) -> States:
    """The way that `scout.model.state` names."""
    from scrout.scout.hidden_state import in_process, servers

    match settings.state:
        case "transformers":
            return in_process.Transformers(settings.checkpoint, settings.state_layer)
        case "vllm":
            return servers.Vllm(settings, socket)
        case "sglang":
            return servers.Sglang(settings, socket)
        case "none":
            raise ConfigError('scout.model.state is "none"; set it to transformers, vllm or sglang to have a state.')


def normalized(hidden: Floats, digest: str, shape: Shape, layer: int) -> State:
    """A vector as a model gave it, made a state; ModelError where it cannot be one."""
    if hidden.shape != (shape.width,):
        raise ModelError(
            f"the hidden state has shape {hidden.shape}, and checkpoint {digest} has states of {shape.width} numbers. "
            "Does the server run other weights, or give more than one layer?"
        )
    length = float(np.linalg.norm(hidden.astype(np.float64)))
    if not np.isfinite(length) or length == 0:
        raise ModelError(f"the hidden state of checkpoint {digest} is not finite, or all zeros. Restart the server.")
    vector = (hidden / length).astype(np.float16)
    return State(space=shape.space(digest, layer), vector=tuple(vector.astype(np.float64).tolist()))


def cosine(one: State, other: State) -> float:
    """How alike two states are, 1 at most; 0 for states of different sizes."""
    a, b = np.array(one.vector), np.array(other.vector)
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b))) if a.shape == b.shape else 0.0


@dataclass(frozen=True)
class SavedState:
    """A state as it was kept."""

    state: State
    request: str
    """Whose prompt it was read from, in words."""


def save(path: Path, state: State, request: str = "the last request's prompt") -> None:
    """Keep a state beside its run: float16, with where it comes from."""
    _, digest, layer, token, _ = state.space.split("/")
    np.savez_compressed(
        path,
        version=np.array(SAVED_VERSION),
        vector=np.array(state.vector, dtype=np.float16),
        space=np.array(state.space),
        checkpoint=np.array(digest),
        layer=np.array(int(layer.removeprefix("layer"))),
        token=np.array(token),
        request=np.array(request),
    )


def load(path: Path) -> SavedState:
    """What `save` kept. Nothing in the file is run."""
    try:
        # numpy leaves a file open that it cannot read.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
            if int(kept["version"]) != SAVED_VERSION:
                raise ValueError("another version")
            vector = tuple(kept["vector"].astype(np.float64).tolist())
            return SavedState(State(space=str(kept["space"]), vector=vector), str(kept["request"]))
    except (OSError, ValueError, LookupError, TypeError, EOFError, BadZipFile) as error:
        raise ConfigError(
            f"{path} is no state that scrout kept ({error}). Read it again from the run's trace."
        ) from None
