"""A conversation as a model's tokens, and which of them the model wrote itself.

The text is the chat template's, and is made into tokens as a whole, as a server does with a prompt. What the model
wrote is found in it by what the template puts before and behind a reply. That is only sound where texts hold no token
of the template's own and where a template leaves earlier turns as they were, so both are checked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import JsonValue

from scrout.base import ConfigError

Json = Mapping[str, JsonValue]
Ids = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

MAX_EXCERPT = 300
BATCH_CHARS = 1_000_000
"""Of texts that are made into tokens together, by all cores."""
_PROBE = "Probe0"


@dataclass(frozen=True)
class ChatExample:
    """A conversation as the model saw it."""

    messages: tuple[Json, ...]
    trained_turns: frozenset[int]
    """Indexes of the replies that the model wrote with exactly this before them."""
    tools: tuple[Json, ...] = ()


@dataclass(frozen=True)
class Document:
    ids: Ids
    loss_mask: Bools
    """What the model wrote itself, with the token that ends its turn."""

    def __len__(self) -> int:
        return len(self.ids)


class UntrainableExample(Exception):
    """Why a view has no tokens that could be learned from: a few words that many share."""


def views(said: Iterable[tuple[Sequence[Json], Json]], tools: Sequence[Json] = ()) -> list[ChatExample]:
    """An episode's prompts and replies, in order. A prompt that goes on where the one before it ended is of the same
    view; one from which earlier turns are gone begins another."""
    found: list[ChatExample] = []
    for prompt, reply in said:
        messages, learned = (*prompt, reply), frozenset({len(prompt)})
        if found and messages[: len(found[-1].messages)] == found[-1].messages:
            learned |= found.pop().trained_turns
        found.append(ChatExample(messages, learned, tuple(tools)))
    return found


class ChatTokenizer:
    """A tokenizer with its chat template."""

    def __init__(self, tokenizer: Any, where: str = "the checkpoint") -> None:
        self.tokenizer = tokenizer
        self.where = where
        if not tokenizer.chat_template:
            raise ConfigError(
                f"the tokenizer of {where} has no chat template, so how it writes a conversation is unknown. Use the "
                "instruct version of the model, or put its chat_template.jinja into the folder."
            )
        if not tokenizer.is_fast:
            raise ConfigError(f"the tokenizer of {where} has no tokenizer.json. Save it as a fast tokenizer.")

    @classmethod
    def load(cls, checkpoint: Path) -> ChatTokenizer:
        """Of a folder as transformers saves it, or a GGUF file."""
        with needs_extra():
            from transformers import AutoTokenizer
        try:
            tokenizer = AutoTokenizer.from_pretrained(**pretrained(checkpoint))
        except Exception as error:  # the library promises no types, and reads what the folder holds
            said = f"{type(error).__name__}: {error}"[:MAX_EXCERPT]
            raise ConfigError(f"{checkpoint} holds no tokenizer that loads ({said}). Is the download whole?") from None
        return cls(tokenizer, str(checkpoint))

    def text(self, messages: Sequence[Json], tools: Sequence[Json] = (), *, ask: bool = False) -> str:
        """As the template writes it; `ask`: up to where the next reply begins."""
        try:
            text = self.tokenizer.apply_chat_template(
                [_parsed(message) for message in messages],
                tools=list(tools) or None,
                add_generation_prompt=ask,
                tokenize=False,
            )
        except Exception as error:  # a template is a program of the checkpoint's, and a text may be no text
            raise UntrainableExample(f"the chat template does not take it ({str(error)[:MAX_EXCERPT]})") from None
        return str(text)

    def count(self, messages: Sequence[Json], tools: Sequence[Json] = ()) -> int:
        """Tokens of a prompt."""
        text = self.text(messages, tools, ask=True)
        return len(self._encoder.encode(text, add_special_tokens=False).ids)

    def document(self, view: ChatExample) -> Document:
        """The tokens of one view; UntrainableExample where it has none to learn from."""
        document = next(self.documents([view]))
        if isinstance(document, UntrainableExample):
            raise document
        return document

    def documents(self, of: Iterable[ChatExample]) -> Iterator[Document | UntrainableExample]:
        """The tokens of many views, in their order. While a batch is made into tokens, the next is written out."""
        with ThreadPoolExecutor(1) as encoding:
            under_way: tuple[list[_Written | UntrainableExample], Future[list[Any]]] | None = None
            for batch in self._batches(of):
                texts = [one.text for one in batch if isinstance(one, _Written)]
                coming = encoding.submit(self._encoder.encode_batch, texts, add_special_tokens=False)
                if under_way is not None:
                    yield from _marked(under_way[0], under_way[1].result())
                under_way = batch, coming
            if under_way is not None:
                yield from _marked(under_way[0], under_way[1].result())

    def _batches(self, of: Iterable[ChatExample]) -> Iterator[list[_Written | UntrainableExample]]:
        batch: list[_Written | UntrainableExample] = []
        chars = 0
        for view in of:
            try:
                text = self.text(view.messages, view.tools)
                batch.append(_Written(text, self._replies(text, view)))
                chars += len(text)
            except UntrainableExample as unfit:
                batch.append(unfit)
            if chars > BATCH_CHARS:
                yield batch
                batch, chars = [], 0
        if batch:
            yield batch

    def _replies(self, text: str, view: ChatExample) -> list[tuple[int, int]]:
        """From where to where the replies that are learned go."""
        opening, ending = self._frame
        said = "\0".join(text for message in view.messages for text in _texts(message))
        if any(token in said for token in self._own) or opening.strip() in said:
            raise UntrainableExample("its text holds a token of the chat template")
        found, at = [], 0
        for index, message in enumerate(view.messages):
            if message.get("role") != "assistant":
                continue
            start = text.find(opening, at)
            end = text.find(ending, start + len(opening)) + len(ending)
            if start < 0 or end < start:
                raise UntrainableExample("a reply cannot be found in the template's text")
            if index in view.trained_turns:
                found.append((start + len(opening), end))
            at = end
        if text.find(opening, at) >= 0:
            raise UntrainableExample("a reply cannot be found in the template's text")
        return found

    @cached_property
    def _encoder(self) -> Any:
        return self.tokenizer.backend_tokenizer

    @cached_property
    def _own(self) -> tuple[str, ...]:
        """Texts of tokens that mean something to the template and not to a reader."""
        added = self.tokenizer.added_tokens_decoder.values()
        return tuple(token.content for token in added if token.special and len(token.content) > 1)

    @cached_property
    def _frame(self) -> tuple[str, str]:
        """What stands before a reply, and what ends it."""
        asked: list[Json] = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
        reply: Json = {"role": "assistant", "content": _PROBE}
        before, opened = self.text(asked), self.text(asked, ask=True)
        once = self.text([*asked, reply])
        twice = self.text([*asked, reply, {"role": "user", "content": "u"}, reply])
        opening = opened.removeprefix(before)
        if not opened.startswith(before) or not opening or not once.startswith(opened + _PROBE):
            raise ConfigError(
                f"the chat template of {self.where} does not begin a reply in its history as it asks for one, so what "
                "a model learns would not be what it is asked. Use a template that does."
            )
        if not twice.startswith(once):
            raise ConfigError(
                f"the chat template of {self.where} rewrites earlier replies, as some do with thoughts. A model would "
                "learn to write after a history that it never sees. Use a template that leaves them as they are."
            )
        tail = once.removeprefix(opened + _PROBE)
        first = min((token for token in self._own if token in tail), key=tail.index, default=None)
        if first is None:
            raise ConfigError(
                f"the chat template of {self.where} ends a reply without a token of its own, so it is unknown "
                "where it ends. Use a template that does, such as ChatML."
            )
        return opening, tail[: tail.index(first) + len(first)]


@dataclass(frozen=True)
class _Written:
    """A view as the template writes it."""

    text: str
    replies: list[tuple[int, int]]
    """From where to where those go that are learned."""


def _marked(
    batch: Sequence[_Written | UntrainableExample], encodings: Iterable[Any]
) -> Iterator[Document | UntrainableExample]:
    whole = iter(encodings)
    for one in batch:
        if isinstance(one, UntrainableExample):
            yield one
            continue
        encoding = next(whole)
        learned = np.zeros(len(encoding.ids), dtype=np.bool_)
        for start, end in one.replies:
            first, last = _token(encoding, range(start, end)), _token(encoding, range(end - 1, start - 1, -1))
            if first is not None and last is not None:
                # One that reaches over from the prompt was not the model's choice.
                learned[first + (encoding.token_to_chars(first)[0] < start) : last + 1] = True
        yield Document(np.array(encoding.ids, dtype=np.int32), learned)


@contextmanager
def needs_extra() -> Iterator[None]:
    """Around imports of packages of the extra: what to do where one is missing."""
    try:
        yield
    except ImportError as error:
        raise ConfigError(
            f"training needs {error.name or error}, which is not installed. Install the packages of the extra: "
            "pip install 'scrout[train]', after the torch build for this machine (docs/research/training.md)."
        ) from None


def pretrained(checkpoint: Path) -> dict[str, Any]:
    """How transformers loads a folder or a GGUF file: from the disk, and none of the code that it may bring along."""
    where: dict[str, Any] = {"pretrained_model_name_or_path": str(checkpoint)}
    if checkpoint.is_file():
        where = {"pretrained_model_name_or_path": str(checkpoint.parent), "gguf_file": checkpoint.name}
    return {**where, "local_files_only": True, "trust_remote_code": False}


def _parsed(message: Json) -> dict[str, Any]:
    """With a call's arguments as an object, as templates want them."""
    calls = message.get("tool_calls")
    if not calls:
        return dict(message)
    assert isinstance(calls, list)
    parsed = []
    for call in calls:
        assert isinstance(call, dict)
        function = call["function"]
        assert isinstance(function, dict)
        given = function.get("arguments")
        with suppress(ValueError, RecursionError):
            given = json.loads(given) if isinstance(given, str) else given
        parsed.append({**call, "function": {**function, "arguments": given}})
    return {**message, "tool_calls": parsed}


def _texts(part: object) -> Iterator[str]:
    """Every text of a message as the template gets to see it: calls' arguments are objects there."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, Mapping):
        for key, value in (_parsed(part) if "tool_calls" in part else part).items():
            yield str(key)
            yield from _texts(value)
    elif isinstance(part, list | tuple):
        for one in part:
            yield from _texts(one)


def _token(encoding: Any, places: range) -> int | None:
    """The token at the first of these characters that has one; some tokenizers leave white space out."""
    tokens: Callable[[int], int | None] = encoding.char_to_token
    return next((token for place in places if (token := tokens(place)) is not None), None)
