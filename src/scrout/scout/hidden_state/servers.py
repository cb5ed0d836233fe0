"""Hidden states from the server that runs the searcher. It is asked for a reply of one token, and gives the state along
with it: SGLang in the answer, vLLM in a file on its own disk, so scrout must run on the same machine.

vLLM writes such a file for every request, not only for ours, up to 0.2 GB each: `sweep` removes them.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from pydantic import BaseModel, Field, JsonValue, TypeAdapter, ValidationError

from scrout.base import ModelError
from scrout.config.folders import cache_folder
from scrout.config.settings import Sampling, SearcherSettings
from scrout.models.chat import CallRefused, Chat, Message, Tool
from scrout.models.unix_socket import SocketTransport
from scrout.records import State
from scrout.scout.hidden_state import checkpoint
from scrout.scout.hidden_state.checkpoint import Shape
from scrout.scout.hidden_state.hidden_state import Floats, normalized

WRITTEN_S = 30.0
"""How long vLLM may take to write a file that it has announced."""
STALE_S = 60.0
"""A file of vLLM's that nobody has come for in so long is nobody's."""
MAX_HEADER_BYTES = 1_000_000
GREEDY = Sampling(temperature=0.0)


class Vllm:
    """A vLLM server that was started as `scrout searcher serve` says."""

    def __init__(self, settings: SearcherSettings, socket: Path, folder: Path | None = None) -> None:
        self.settings = settings
        self.socket = socket
        """The meter's."""
        self.folder = folder or storage()
        """Where the server puts its files."""

    async def read(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> State:
        digest, shape = await asyncio.to_thread(_served, self.settings)
        answer = await _ask(self.settings, messages, tools, {}, self.socket)
        if answer.kv_transfer_params is None:
            raise _without_state(self.settings)
        path = Path(answer.kv_transfer_params.hidden_states_path)
        hidden = await asyncio.to_thread(_take, path, self.folder, answer.usage.prompt_tokens)
        return normalized(hidden, digest, shape, self.settings.state_layer)


class Sglang:
    """An SGLang server that was started as `scrout searcher serve --engine sglang` says."""

    def __init__(self, settings: SearcherSettings, socket: Path) -> None:
        self.settings = settings
        self.socket = socket

    async def read(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> State:
        digest, shape = await asyncio.to_thread(_served, self.settings)
        answer = await _ask(self.settings, messages, tools, {"return_hidden_states": "last"}, self.socket)
        hidden = answer.choices[0].hidden_states
        if hidden is None:
            raise _without_state(self.settings)
        return normalized(np.array(hidden, dtype=np.float32), digest, shape, self.settings.state_layer)


class _Transfer(BaseModel):
    hidden_states_path: str


class _Choice(BaseModel):
    hidden_states: list[float] | None = None


class _Usage(BaseModel):
    prompt_tokens: int = Field(gt=0)


class _Answer(BaseModel):
    """What the two servers add to a chat completion."""

    choices: list[_Choice] = Field(min_length=1)
    usage: _Usage
    kv_transfer_params: _Transfer | None = None


async def _ask(
    settings: SearcherSettings,
    messages: Sequence[Message],
    tools: Sequence[Tool],
    fields: Mapping[str, JsonValue],
    socket: Path,
) -> _Answer:
    """One request for one token, and everything that the server says to it."""
    # A salt of its own, as in an episode: no prefix is shared, and another's cached prompt changes nothing.
    salt = f"state-{secrets.token_hex(4)}" if settings.cache_salt else ""
    way = SocketTransport(socket, settings.base_url)
    async with Chat(
        settings.base_url,
        settings.model,
        settings.key(),
        sampling=GREEDY,
        cache_salt=salt,
        extra=fields,
        transport=way,
    ) as chat:
        try:
            reply = await chat.complete(messages, tools, 1)
        except CallRefused as refused:
            advice = " Raise scout.model.cap_usd." if refused.stop == "cap_usd" else ""
            raise ModelError(f"{settings.model} was not asked: {refused}.{advice}") from None
    try:
        return _Answer.model_validate_json(reply.answer)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise ModelError(
            f"{settings.model}: the answer cannot be read for its hidden state ({where}: {problem['msg']}). Start the "
            "server as `scrout searcher serve` says."
        ) from None


def _served(settings: SearcherSettings) -> tuple[str, Shape]:
    path = checkpoint.find(settings.checkpoint)
    shape = checkpoint.shape(path)
    shape.depth(settings.state_layer)
    return checkpoint.digest(path), shape


def _without_state(settings: SearcherSettings) -> ModelError:
    return ModelError(
        f"{settings.model} answered without a hidden state. Start the server with the command that "
        f"`scrout searcher serve --engine {settings.state}` prints."
    )


def storage() -> Path:
    """Where a vLLM server of this user puts its states: in memory where the system has a file system for that."""
    memory = Path("/dev/shm")
    return memory / f"scrout-states-{os.getuid()}" if memory.is_dir() else cache_folder() / "states"


def sweep(folder: Path, older_s: float = STALE_S) -> int:
    """Delete files that nobody came for, and say how many."""
    swept = 0
    for path in folder.glob("*.safetensors"):
        with contextlib.suppress(OSError):
            if time.time() - path.lstat().st_mtime > older_s:
                _remove(path)
                swept += 1
    return swept


def _take(path: Path, folder: Path, prompt_tokens: int) -> Floats:
    """The state of the prompt's last token, out of a file that is then gone."""
    # What a server answers is not to make scrout read or delete any other file.
    # Unlike the method of a path, islink raises nothing where no file can have the name.
    if path.parent != folder or path.suffix != ".safetensors" or os.path.islink(path):  # noqa: PTH114
        raise ModelError(
            f"the server wrote its hidden states to {path}, not into {folder}. Start it with the command that "
            "`scrout searcher serve` prints."
        )
    try:
        _wait_until_written(path)
        hidden = read_last(path, prompt_tokens)
    except FileNotFoundError:
        raise ModelError(
            f"{path} is not there: vLLM writes hidden states to its own disk. Run scrout on the same machine, or use "
            'scout.model.state = "transformers".'
        ) from None
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read as hidden states ({error}).") from None
    finally:
        _remove(path)
        sweep(folder)
    return hidden


def _remove(path: Path) -> None:
    for file in (path, path.with_name(f"{path.name}.lock")):
        with contextlib.suppress(OSError, ValueError):  # the server chose the name, which may be none
            file.unlink(missing_ok=True)


def _wait_until_written(path: Path) -> None:
    """vLLM holds a lock beside the file while it writes. Versions without one write before they answer."""
    lock = path.with_name(f"{path.name}.lock")
    until = time.monotonic() + WRITTEN_S
    with contextlib.suppress(FileNotFoundError), lock.open("rb") as held:
        while True:
            try:
                return fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > until:
                    raise ValueError(f"not written within {WRITTEN_S:g} s") from None
                time.sleep(0.02)


_HEADER = TypeAdapter(dict[str, JsonValue])
_WIDTHS = {"BF16": 2, "F16": 2, "F32": 4}


class _Tensor(BaseModel):
    dtype: str
    shape: tuple[int, int, int]
    data_offsets: tuple[int, int]


def read_last(path: Path, prompt_tokens: int) -> Floats:
    """One row of `hidden_states` [tokens, layers, width] in a safetensors file, without reading the rest of it."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if size > MAX_HEADER_BYTES:
            raise ValueError("no safetensors header")
        tensor = _Tensor.model_validate(_HEADER.validate_json(file.read(size)).get("hidden_states"))
        tokens, layers, width = tensor.shape
        if tensor.dtype not in _WIDTHS:
            raise ValueError(f"dtype {tensor.dtype}")
        if layers != 1 or tokens != prompt_tokens:
            raise ValueError(f"{tokens} tokens of {layers} layers, where {prompt_tokens} tokens of 1 were asked for")
        row_bytes = width * _WIDTHS[tensor.dtype]
        if row_bytes > os.fstat(file.fileno()).st_size:  # before memory is set aside for it
            raise ValueError("it ends too early")
        file.seek(8 + size + tensor.data_offsets[0] + (tokens - 1) * row_bytes)
        raw = file.read(row_bytes)
    if len(raw) != row_bytes:
        raise ValueError("it ends too early")
    if tensor.dtype == "BF16":
        # The upper half of a float32.
        return (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(raw, "<f2" if tensor.dtype == "F16" else "<f4").astype(np.float32)
