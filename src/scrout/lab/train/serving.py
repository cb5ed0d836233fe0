"""A small server of chat completions over transformers, on loopback: for training rigs and small evaluations.

Any OpenAI-compatible server does instead; this one needs no GPU and nothing but the extra `train`. It has vLLM's forms
where OpenAI has none: token ids, /tokenize, and LoRA weights that are swapped while it runs. One reply is generated at
a time, and requests wait for their turn. It does not stream, calls are not read out of the text (so a searcher behind
it speaks a text dialect), and what it cannot do it refuses.

The same prompt, seed and settings give the same text. What a conversation's turns have in common is computed once; as
everywhere, that moves the last bits of the numbers, so a tie between two tokens may fall the other way.
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
import json
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from pydantic import BaseModel, Field, JsonValue, ValidationError

from scrout.base import ConfigError
from scrout.lab.train.lora import load_model, require_lora
from scrout.lab.train.tokenization import ChatTokenizer, UntrainableExample
from scrout.models.proxy import http

HOST = "127.0.0.1"
BACKLOG = 512
PREFILL_TOKENS = 1024
"""Of a prompt at once: a long one's attention would fill the memory."""
MAX_EXCERPT = 300
GREEDY_BELOW = 1e-5

# What would change the reply, and the values with which it does not.
_NEUTRAL: dict[str, tuple[JsonValue, ...]] = {
    "n": (1,),
    "stream": (False,),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "repetition_penalty": (1,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "min_p": (0,),
    "logit_bias": ({},),
    "response_format": ({"type": "text"},),
}

Json = dict[str, JsonValue]
Body = TypeVar("Body", bound=BaseModel)


class CheckpointServer:
    """A context manager: loads a checkpoint, then answers on a loopback port from a thread of its own."""

    def __init__(
        self,
        checkpoint: Path,
        *,
        adapter: Path | None = None,
        name: str = "",
        port: int = 0,
        adapters: Path | None = None,
        threads: int | None = None,
    ) -> None:
        self.checkpoint = checkpoint
        """Folder as transformers saves it, or a GGUF file."""
        self.adapter = adapter
        """LoRA weights that are served beside the checkpoint, under their folder's name."""
        self.name = name or checkpoint.resolve().stem
        """Of the bare checkpoint."""
        self.port = port
        """0: any that is free."""
        self.adapters = adapters
        """Below it lies what /v1/load_lora_adapter may load; None: nothing may be."""
        self.threads = threads
        """That compute; None: torch's own choice. Counts for the whole process."""
        self._generator: _Generator | None = None
        self._thread: threading.Thread | None = None
        self._turn = asyncio.Lock()
        self._over = threading.Event()
        self._end: Callable[[], object] = lambda: None
        self._talks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    @property
    def base_url(self) -> str:
        if self._thread is None:
            raise RuntimeError("the server listens only inside `with`")
        return f"http://{HOST}:{self.port}/v1"

    @property
    def model(self) -> str:
        """What to ask for: the adapter it was started with, else the checkpoint."""
        return self.adapter.resolve().name if self.adapter else self.name

    def __enter__(self) -> CheckpointServer:
        listener = _listen(self.port)
        try:
            generator = _Generator.load(self.checkpoint, self.threads)
            if self.adapter:
                if self.model == self.name:
                    raise ConfigError(f"checkpoint and adapter are both called {self.name!r}. Pass another name.")
                require_lora(self.adapter)
                generator.load_adapter(self.model, self.adapter)
        except BaseException:
            listener.close()
            raise
        self._generator = generator
        self.port = listener.getsockname()[1]
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run(listener, ready)), daemon=True)
        self._thread.start()
        ready.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._end()
        self.wait()

    def wait(self) -> None:
        """Until it ends, which it does not do by itself."""
        if self._thread is not None:
            self._thread.join()

    async def _run(self, listener: socket.socket, ready: threading.Event) -> None:
        loop, end = asyncio.get_running_loop(), asyncio.Event()
        self._end = lambda: loop.call_soon_threadsafe(end.set)
        server = await asyncio.start_server(self._connected, sock=listener, backlog=BACKLOG)
        ready.set()
        await end.wait()
        server.close()
        talks = list(self._talks)
        for task, writer in self._talks.items():
            writer.transport.abort()
            task.cancel()
        await asyncio.gather(*talks, return_exceptions=True)
        # A transport closes its socket in a later round of the loop.
        await asyncio.sleep(0)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._converse(reader, writer))
        self._talks[task] = writer
        task.add_done_callback(self._talks.pop)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            last = False
            while not last:
                asked = await http.read(reader, writer)
                last = asked.last
                writer.write(await self._answer(asked, lambda: self._over.is_set() or reader.at_eof()))
                await writer.drain()
        except http.BadRequest as error:
            writer.write(http.whole(error.status, b"{}"))
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, _GivenUp):
            pass
        finally:
            writer.close()

    async def _answer(self, asked: http.HttpRequest, given_up: Callable[[], bool]) -> bytes:
        try:
            answer = await self._do(asked, given_up)
        except _Refusal as refusal:
            return http.whole(refusal.status, _encode(_error(refusal.status, str(refusal))))
        except _GivenUp:
            raise
        except Exception as error:  # the libraries promise no types; memory may be full
            said = f"{type(error).__name__}: {error}"[:MAX_EXCERPT]
            return http.whole(500, _encode(_error(500, f"the model failed ({said})")))
        return http.whole(200, _encode(answer))

    async def _do(self, asked: http.HttpRequest, given_up: Callable[[], bool]) -> JsonValue:
        assert self._generator is not None
        generator = self._generator
        path = asked.path.partition("?")[0]
        match asked.method, path:
            case "GET", "/v1/models":
                return {"object": "list", "data": [_about(name, generator) for name in self._served(generator)]}
            case "POST", "/tokenize":
                count = _read(_Count, asked.body)
                ids = generator.prompt(count.messages, count.tools, count.add_generation_prompt)
                return {"count": len(ids), "max_model_len": generator.context, "tokens": list(ids)}
            case "POST", "/v1/chat/completions":
                return await self._complete(_read_completion(asked.body), given_up)
            case "POST", "/v1/load_lora_adapter":
                return await self._load(_read(_Load, asked.body))
        raise _Refusal(404, f"no such path: {asked.method} {path}")

    def _served(self, generator: _Generator) -> list[str]:
        return [self.name, *generator.adapters]

    async def _complete(self, ask: _Completion, given_up: Callable[[], bool]) -> Json:
        assert self._generator is not None
        generator = self._generator
        name = ask.model or self.model
        if name not in self._served(generator):
            raise _Refusal(404, f"the model {name!r} does not exist; there is {', '.join(self._served(generator))}")
        prompt = generator.prompt(ask.messages, ask.tools)
        room = generator.context - len(prompt)
        wanted = ask.max_completion_tokens or ask.max_tokens
        if room < (wanted or 1):
            raise _Refusal(
                400,
                f"the model's maximum context length is {generator.context} tokens. The prompt has {len(prompt)}"
                + (f", and {wanted} are asked for in the reply." if wanted else "."),
            )
        async with self._turn:
            # It may have been swapped while this request waited.
            adapter = "" if name == self.name else generator.adapters[name]
            spoken = await asyncio.to_thread(generator.generate, prompt, ask, wanted or room, adapter, given_up)
        choice: Json = {
            "index": 0,
            "message": {"role": "assistant", "content": spoken.text},
            "finish_reason": spoken.finish_reason,
        }
        answer: Json = {
            "id": f"chatcmpl-{secrets.token_hex(8)}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": name,
            "choices": [choice],
            "usage": {
                "prompt_tokens": len(prompt),
                "completion_tokens": len(spoken.ids),
                "total_tokens": len(prompt) + len(spoken.ids),
                "prompt_tokens_details": {"cached_tokens": spoken.reused},
            },
        }
        if ask.return_token_ids:
            answer["prompt_token_ids"] = list(prompt)
            choice["token_ids"] = list(spoken.ids)
        return answer

    async def _load(self, load: _Load) -> JsonValue:
        assert self._generator is not None
        generator = self._generator
        if self.adapters is None:
            raise _Refusal(400, "this server loads no adapters. Start it with --adapters and the folder they lie in.")
        folder = _below(self.adapters, load.lora_path)
        if load.lora_name == self.name:
            raise _Refusal(400, f"{load.lora_name!r} is the checkpoint's own name")
        async with self._turn:
            if load.lora_name in generator.adapters and not load.load_inplace:
                raise _Refusal(
                    400, f"the adapter {load.lora_name!r} is loaded already. Send load_inplace to replace it."
                )
            try:
                await asyncio.to_thread(generator.load_adapter, load.lora_name, folder)
            except ConfigError as error:
                raise _Refusal(400, str(error)) from None
        return f"Success: {load.lora_name!r} is loaded."


@dataclass(frozen=True)
class _Spoken:
    ids: tuple[int, ...]
    """With the token that ended it."""
    text: str
    finish_reason: str
    reused: int
    """Tokens of the prompt that were computed before."""


@dataclass(frozen=True)
class _Past:
    """What was computed of one conversation."""

    whose: tuple[str, str]
    """Adapter and salt: what differs in them shares nothing."""
    prompt: int
    """Tokens of it that were the prompt."""
    ids: tuple[int, ...]
    cache: Any


@dataclass
class _Generator:
    """A model and its tokenizer. Not for two threads at once, but for `prompt`."""

    model: Any
    template: ChatTokenizer
    context: int
    ends: frozenset[int]
    adapters: dict[str, str] = field(default_factory=dict)
    """By name, what the library calls them: other names than its modules may have are allowed here."""
    _peft: Any = None
    _loaded: int = 0
    _pasts: list[_Past] = field(default_factory=list)
    """Newest first, together no longer than the context."""

    @property
    def tokenizer(self) -> Any:
        return self.template.tokenizer

    @classmethod
    def load(cls, path: Path, threads: int | None) -> _Generator:
        if not path.exists():
            raise ConfigError(f"{path} is no folder and no file. Name a checkpoint's folder, or a GGUF file.")
        template = ChatTokenizer.load(path)
        import torch

        if threads:
            torch.set_num_threads(threads)
        # Half precision is slow on most CPUs, and its draws differ more from those of the trainer.
        model = load_model(path, "bfloat16" if torch.cuda.is_available() else "float32")
        config = model.config.get_text_config()
        given = [model.generation_config.eos_token_id, config.eos_token_id, template.tokenizer.eos_token_id]
        ends = {one for some in given for one in (some if isinstance(some, list) else [some]) if one is not None}
        context = getattr(config, "max_position_embeddings", None) or template.tokenizer.model_max_length
        return cls(model.eval(), template, int(context), frozenset(ends))

    def load_adapter(self, name: str, folder: Path) -> None:
        """Serve these LoRA weights under a name, in place of those that had it; a ConfigError leaves all as it was."""
        library: Any = import_module("peft")
        key = f"adapter{self._loaded}"
        self._loaded += 1
        first, peft = self._peft is None, self._peft
        try:
            if first:
                peft = library.PeftModel(self.model, library.PeftConfig.from_pretrained(str(folder)), adapter_name=key)
            taken = peft.load_adapter(str(folder), adapter_name=key)
            if taken.missing_keys or taken.unexpected_keys:
                raise ValueError(
                    f"its weights are of other layers: {[*taken.missing_keys, *taken.unexpected_keys][:2]}"
                )
        except Exception as error:  # the library promises no types
            if first and peft is not None:
                peft.unload()
            elif peft is not None and key in peft.peft_config:
                peft.delete_adapter(key)
            said = f"{type(error).__name__}: {error}"[:MAX_EXCERPT]
            raise ConfigError(
                f"the adapter {folder} does not load ({said}). Was it trained from this checkpoint?"
            ) from None
        self._peft = peft
        former = self.adapters.get(name)
        self.adapters[name] = key
        if former is not None:
            # None may be deleted while it is in use.
            peft.set_adapter(key)
            peft.delete_adapter(former)
            self._pasts = [past for past in self._pasts if past.whose[0] != former]

    def prompt(self, messages: Sequence[Json], tools: Sequence[Json] | None, begin: bool = True) -> tuple[int, ...]:
        """The tokens of a conversation; `begin`: up to where the reply starts."""
        try:
            text = self.template.text(messages, tools or (), ask=begin)
        except UntrainableExample as unfit:
            raise _Refusal(400, str(unfit)) from None
        # The template has written the special tokens already.
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def generate(
        self, prompt: tuple[int, ...], ask: _Completion, most: int, adapter: str, given_up: Callable[[], bool]
    ) -> _Spoken:
        import torch

        draws = torch.Generator(device=self.model.device)
        draws.manual_seed(secrets.randbits(63) if ask.seed is None else _stirred(ask.seed, prompt))
        stops = ask.stops
        ends = self.ends | {end for stop in stops if (end := self._special(stop)) is not None}
        ids: list[int] = []
        finish_reason, whose = "length", (adapter, ask.cache_salt or "")
        if self._peft is not None and adapter:
            self._peft.set_adapter(adapter)
        bare = self._peft is not None and not adapter
        with torch.inference_mode(), self._peft.disable_adapter() if bare else nullcontext():
            cache, reused = self._past(whose, prompt)
            new = prompt[reused:]
            while len(ids) < most and finish_reason == "length":
                logits = self._forward(new, cache, given_up)
                token = _draw(logits, ask, draws)
                ids.append(token)
                new = (token,)
                if token in ends or (stops and self._stopped(ids, stops)):
                    finish_reason = "stop"
        self._keep(_Past(whose, len(prompt), (*prompt, *ids[:-1]), cache))
        text = self.tokenizer.decode(ids, skip_special_tokens=True)
        if finish_reason == "stop":
            text = text[: min((at for stop in stops if (at := text.find(stop)) >= 0), default=None)]
        return _Spoken(tuple(ids), text, finish_reason, reused)

    def _forward(self, ids: tuple[int, ...], cache: Any, given_up: Callable[[], bool]) -> Any:
        """The logits behind the last of these tokens, which the cache takes in."""
        import torch

        for start in range(0, len(ids), PREFILL_TOKENS):
            if given_up():
                raise _GivenUp
            part = torch.tensor([ids[start : start + PREFILL_TOKENS]], device=self.model.device)
            output = self.model(input_ids=part, past_key_values=cache, use_cache=True, logits_to_keep=1)
        return output.logits[0, -1].float()

    def _past(self, whose: tuple[str, str], prompt: tuple[int, ...]) -> tuple[Any, int]:
        """A cache, and how many of the prompt's tokens it holds. At least one is left, to have logits of."""
        from transformers import DynamicCache

        alike = [(_common(past.ids, prompt[:-1]), past) for past in self._pasts if past.whose == whose]
        common, past = max(alike, key=lambda pair: pair[0], default=(0, None))
        if past is None or not common:
            return DynamicCache(config=self.model.config), 0
        # Tensors are shared and not written to: a longer cache has new ones.
        cache = copy.copy(past.cache)
        cache.layers = [copy.copy(layer) for layer in past.cache.layers]
        cache.crop(common - len(past.ids))
        return cache, common

    def _keep(self, new: _Past) -> None:
        from transformers.cache_utils import DynamicLayer

        # Layers that forget, such as those of a sliding window, cannot go back to a prefix.
        if any(type(layer) is not DynamicLayer for layer in new.cache.layers):
            return
        others = [past for past in self._pasts if past.whose != new.whose or _common(past.ids, new.ids) < past.prompt]
        self._pasts, room = [], self.context
        for past in (new, *others):
            room -= len(past.ids)
            if room >= 0 or past is new:
                self._pasts.append(past)

    def _special(self, text: str) -> int | None:
        """The special token that a text is; None: it is none, and is looked for in what was written."""
        token = self.tokenizer.convert_tokens_to_ids(text)
        return token if token in self.tokenizer.all_special_ids else None

    def _stopped(self, ids: Sequence[int], stops: Sequence[str]) -> bool:
        # Each token has a byte or more, but for special ones.
        tail = self.tokenizer.decode(ids[-(max(len(stop.encode()) for stop in stops) + 8) :], skip_special_tokens=True)
        return any(stop in tail for stop in stops)


def _draw(logits: Any, ask: _Completion, draws: Any) -> int:
    """The next token."""
    import torch

    if ask.temperature < GREEDY_BELOW:
        return int(logits.argmax())
    logits = logits / ask.temperature
    if 0 < ask.top_k < len(logits):
        logits = logits.masked_fill(logits < logits.topk(ask.top_k).values[-1], -torch.inf)
    probabilities = logits.softmax(-1)
    if ask.top_p < 1:
        ordered, order = probabilities.sort(descending=True, stable=True)
        # Those go before which the others have the whole share already; the likeliest stays.
        probabilities = probabilities.index_fill(0, order[ordered.cumsum(0) - ordered >= ask.top_p], 0)
    return int(torch.multinomial(probabilities, 1, generator=draws))


def _stirred(seed: int, prompt: tuple[int, ...]) -> int:
    """A seed of the prompt's own: an episode sends one seed with all its turns, and drawing them with the same numbers
    would let it say the same again wherever the probabilities are alike."""
    return int.from_bytes(hashlib.sha256(repr((seed, prompt)).encode()).digest()[:8], "big") >> 1


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two sequences begin with alike."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (mine, yours) in enumerate(pairs) if mine != yours), min(len(one), len(other)))


class _Refusal(Exception):
    """A request that gets no reply, and why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _GivenUp(Exception):
    """Nobody waits for the reply any more. Control flow, not an error."""


class _Conversation(BaseModel):
    messages: list[Json] = Field(min_length=1)
    tools: list[Json] | None = None


class _Count(_Conversation):
    add_generation_prompt: bool = True


class _Completion(_Conversation):
    model: str = ""
    """Empty: what the server was started for."""
    temperature: float = Field(default=1.0, ge=0, le=100)
    top_p: float = Field(default=1.0, gt=0, le=1)
    top_k: int = Field(default=-1, ge=-1)
    seed: int | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    stop: str | list[str] | None = None
    return_token_ids: bool = False
    cache_salt: str | None = None

    @property
    def stops(self) -> tuple[str, ...]:
        given = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return tuple(filter(None, given))


class _Load(BaseModel):
    lora_name: str = Field(min_length=1)
    lora_path: str = Field(min_length=1)
    load_inplace: bool = False


def _read(kind: type[Body], body: bytes) -> Body:
    """A request's body without its nulls, which mean the default; else a refusal with the first thing that is wrong."""
    try:
        given = json.loads(body)
        if not isinstance(given, dict):
            raise ValueError
    except (ValueError, RecursionError):
        raise _Refusal(400, "the body is no JSON object") from None
    try:
        return kind.model_validate({key: value for key, value in given.items() if value is not None})
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise _Refusal(400, f"{where}: {problem['msg']}") from None


def _read_completion(body: bytes) -> _Completion:
    ask = _read(_Completion, body)
    given = json.loads(body)
    for key, neutral in _NEUTRAL.items():
        if given.get(key) is not None and given[key] not in neutral:
            raise _Refusal(400, f"{key}: this server knows only {json.dumps(neutral[0])}, or nothing")
    return ask


def _below(adapters: Path, asked: str) -> Path:
    """The folder with LoRA weights that was asked for, if it is one that may be loaded."""
    folder = Path(asked).resolve()
    if not folder.is_relative_to(adapters.resolve()):
        raise _Refusal(400, f"{asked!r} is not below the folder of --adapters")
    try:
        require_lora(folder)
    except ConfigError as error:
        raise _Refusal(404, str(error)) from None
    return folder


def _about(name: str, generator: _Generator) -> JsonValue:
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": "scrout",
        "max_model_len": generator.context,
    }


def _error(status: int, message: str) -> JsonValue:
    kind = {400: "BadRequestError", 404: "NotFoundError"}.get(status, "InternalServerError")
    return {"error": {"message": message, "type": kind, "param": None, "code": status}}


def _encode(answer: JsonValue) -> bytes:
    return json.dumps(answer).encode()


def _listen(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except OSError as error:
        listener.close()
        raise ConfigError(f"port {port} of {HOST} cannot be used: {error.strerror}. Pass another one.") from None
    return listener
