"""Hidden states by transformers, in this process: on the GPU where there is one, slowly where there is none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from scrout.base import ConfigError, ModelError, ScroutError
from scrout.models.chat import Message, Tool, message_json, tool_json
from scrout.records import State
from scrout.scout.hidden_state import checkpoint
from scrout.scout.hidden_state.checkpoint import Shape
from scrout.scout.hidden_state.hidden_state import Floats, cosine, normalized

MAX_EXCERPT = 300
"""Characters of a library's error that a message quotes."""
_ONE_AT_A_TIME = threading.Lock()


class Transformers:
    """One checkpoint. Its weights stay loaded for the process's life; one prompt at a time goes through them."""

    def __init__(self, where: str, layer: int) -> None:
        self.where = where
        self.layer = layer

    async def read(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> State:
        rows, digest, shape = await asyncio.to_thread(self._rows, messages, tools)
        return normalized(rows[shape.depth(self.layer)], digest, shape, self.layer)

    async def nearest(
        self, state: State, messages: Sequence[Message], tools: Sequence[Tool] = ()
    ) -> tuple[State, float]:
        """Of this prompt's states of all layers, the one most like a state that a server gave for it, and the cosine.

        Neighbours are alike (up to .99 in SmolLM2), so a cosine alone does not tell whether the layer is right.
        """
        rows, digest, shape = await asyncio.to_thread(self._rows, messages, tools)
        own = [normalized(rows[depth], digest, shape, depth) for depth in range(1, shape.layers)]
        return max(((one, cosine(one, state)) for one in own), key=lambda pair: pair[1])

    def _rows(self, messages: Sequence[Message], tools: Sequence[Tool]) -> tuple[Floats, str, Shape]:
        """The last token's state at every depth."""
        path = checkpoint.find(self.where)
        digest = checkpoint.digest(path)
        with _ONE_AT_A_TIME:
            try:
                tokenizer, model = _load(path, digest)
                config = model.config.get_text_config()
                shape = Shape(config.num_hidden_layers, config.hidden_size)
                shape.depth(self.layer)
                return _forward(tokenizer, model, messages, tools), digest, shape
            except ScroutError:
                raise
            except Exception as error:  # the libraries promise no types, and run what the checkpoint's files say
                said = f"{type(error).__name__}: {error}"[:MAX_EXCERPT]
                raise ModelError(
                    f"transformers gives no hidden state of {path} ({said}). Check that scout.model.checkpoint is "
                    "whole and fits into memory."
                ) from None


@lru_cache(maxsize=1)
def _load(path: Path, digest: str) -> tuple[Any, Any]:
    """Tokenizer and model, without its head: logits of every token of a long prompt are gigabytes."""
    try:
        import torch
        from transformers import AutoModel, AutoTokenizer
        from transformers.utils.logging import disable_progress_bar
    except ImportError as error:
        raise ConfigError(
            f'scout.model.state is "transformers", and {error.name} is not installed. Install scrout with its extra '
            "`states`, or read the state from the server that runs the model."
        ) from None
    disable_progress_bar()
    file = {"gguf_file": path.name} if path.is_file() else {}
    folder = str(path.parent if path.is_file() else path)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False, **file)
    model = AutoModel.from_pretrained(folder, local_files_only=True, trust_remote_code=False, dtype="auto", **file)
    return tokenizer, model.to("cuda" if torch.cuda.is_available() else "cpu").eval()


def _forward(tokenizer: Any, model: Any, messages: Sequence[Message], tools: Sequence[Tool]) -> Floats:
    import torch

    conversation = [message_json(message, parsed=True) for message in messages]
    offered = [tool_json(tool) for tool in tools]
    try:
        prompt = tokenizer.apply_chat_template(
            conversation, tools=offered or None, add_generation_prompt=True, tokenize=False
        )
    except Exception as error:  # a template is a program of the checkpoint's
        said = str(error)[:MAX_EXCERPT]
        raise ModelError(f"the checkpoint's chat template does not take this conversation: {said}") from None
    # The template has written the special tokens already.
    tokens = tokenizer(prompt, add_special_tokens=False, return_tensors="pt").to(model.device)
    with torch.inference_mode():
        output = model(**tokens, output_hidden_states=True, use_cache=False)
    last = torch.stack([state[0, -1] for state in output.hidden_states])
    rows: Floats = last.float().cpu().numpy()
    return rows
