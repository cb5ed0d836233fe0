"""Fits a conversation into a model's context: drops the oldest turns, and keeps the opening (system prompt and issue)
and the newest turns. Long texts are clipped in the middle.

A turn is an assistant's message with the answers to it. It is dropped as a whole, so that no answer is left without its
call. Dropped turns never return, so that the start of the prompt stays the same for endpoints' caches. The note about
dropped turns is at the end of the issue, because many chat templates require user and assistant to alternate.

Nothing is counted twice. A new turn is estimated at one token per byte, which is an upper bound, or counted by a local
tokenizer, until the endpoint's next usage report gives the actual number. The server is asked to count only if the sum
does not fit. If it cannot, a new turn is estimated at one token per two bytes.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from scrout.agent.dialect import RequestTools
from scrout.agent.tools import drop_middle
from scrout.base import ConfigError
from scrout.models.chat import Message, Tool
from scrout.money import Usage
from scrout.text import plural

BYTES_PER_TOKEN = 2
"""Estimate if the server does not count. Prose and code have more than three bytes per token."""
MESSAGE_TOKENS = 16
"""Maximum bytes that a chat template adds around a message."""
MARKER_TOKENS = 40
LEAST_CHARS = 40
"""No text is clipped below this."""
LEAST_SHARE = 8
"""A usage report is ignored if it makes a new turn smaller than its estimate by more than this factor."""


class Counts(Protocol):
    """The part of Chat that a Window needs."""

    async def count(self, messages: Sequence[Message], tools: Sequence[Tool]) -> int | None:
        """Tokens of a prompt as the server counts them; None: it does not count."""
        ...


@dataclass
class _Part:
    """The opening, or one turn."""

    said: tuple[Message, ...]
    shown: tuple[Message, ...]
    """With long texts clipped, if needed."""
    limit: int
    """Length of its longest text, in characters."""
    besides: str = ""
    """Other parts of the prompt that belong to it: for the opening, the tools."""
    tokens: int = 0
    counted: bool = False
    """False: `tokens` is an upper bound."""


class Window:
    """The part of one conversation that the model sees."""

    def __init__(self, chat: Counts, room_tokens: int, refit: float, tokenizer: str = "") -> None:
        self.chat = chat
        self.room_tokens = room_tokens
        """Room for the prompt: the model's context minus the reply and a margin."""
        self.refit = refit
        """Share of the rejected length that a harder fit keeps."""
        self.tokenizer = tokenizer
        """A tokenizer.json; empty: the server counts, if it can."""
        self._parts: list[_Part] = []
        self._dropped = 0
        self._bytes_per_token = 1
        self._local: Callable[[str], int] | None = None

    async def fit(
        self, messages: Sequence[Message], offer: RequestTools, *, harder: bool = False
    ) -> tuple[Message, ...]:
        """The messages to send. `harder`: the endpoint rejected the last fit as too long."""
        self._take(messages, offer)
        room = self.room_tokens
        if harder:
            room = int(min(room, await self._count(self._kept, offer)) * self.refit)
        opening, newest = self._parts[:1], self._parts[-1]
        if self._sum(opening) > room // 2:
            await self._clip(opening[0], opening, room // 2, offer)
        over = self._sum(self._kept) > room and await self._count(self._kept, offer) > room
        while over and self._dropped < len(self._parts) - 2:
            self._dropped += 1
            over = self._sum(self._kept) > room or await self._count(self._kept, offer) > room
        if over:
            await self._clip(newest, self._kept, room, offer)
        return self._messages(self._kept)

    def learn(self, usage: Usage) -> None:
        """Use the endpoint's token count for the last fit."""
        least = sum(part.tokens if part.counted else part.tokens // LEAST_SHARE for part in self._kept)
        self._learn(self._kept, max(usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens, least))

    @property
    def _kept(self) -> list[_Part]:
        return [*self._parts[:1], *self._parts[1 + self._dropped :]]

    def _take(self, messages: Sequence[Message], offer: RequestTools) -> None:
        """Split the messages into parts, and estimate the new ones."""
        given = list(_split(messages))
        same = 0
        while same < min(len(given), len(self._parts)) and given[same] == self._parts[same].said:
            same += 1
        del self._parts[same:]
        for said in given[same:]:
            part = _Part(said, said, max((len(message.content) for message in said), default=0))
            if not self._parts:
                part.besides = json.dumps([[tool.name, tool.description, tool.parameters] for tool in offer.tools])
            part.tokens = self._estimate(part)
            self._parts.append(part)
        self._dropped = max(min(self._dropped, len(self._parts) - 2), 0)

    async def _clip(self, part: _Part, parts: list[_Part], room: int, offer: RequestTools) -> None:
        """Shorten the longest texts of one part until the parts fit, or nothing is left to shorten."""
        tokens = await self._count(parts, offer)
        while tokens > room and part.limit > LEAST_CHARS:
            part.limit = max(int(part.limit * min(max(room / tokens, 0.5), 0.8)), LEAST_CHARS)
            part.shown = tuple(
                said if said.role == "system" else replace(said, content=drop_middle(said.content, part.limit))
                for said in part.said
            )
            part.tokens, part.counted = self._estimate(part), False
            tokens = await self._count(parts, offer)

    async def _count(self, parts: list[_Part], offer: RequestTools) -> int:
        tokens = None if self.tokenizer else await self.chat.count(self._messages(parts), offer.tools)
        if tokens is not None:
            self._bytes_per_token = 1
            self._learn(parts, tokens)
            return tokens
        if self._bytes_per_token == 1:
            self._bytes_per_token = BYTES_PER_TOKEN
            for part in self._parts:
                part.tokens = part.tokens if part.counted else self._estimate(part)
        return self._sum(parts)

    def _sum(self, parts: list[_Part]) -> int:
        return sum(part.tokens for part in parts) + (MARKER_TOKENS if self._dropped else 0)

    def _learn(self, parts: list[_Part], tokens: int) -> None:
        """Make the parts add up to the count: the estimated ones share the rest."""
        difference = tokens - self._sum(parts)
        new = [part for part in parts if not part.counted]
        estimate = sum(part.tokens for part in new)
        for part in new:
            part.tokens, part.counted = -(-part.tokens * max(estimate + difference, 0) // estimate), True
        if not new and parts:
            parts[0].tokens += difference

    def _messages(self, parts: list[_Part]) -> tuple[Message, ...]:
        messages = [message for part in parts for message in part.shown]
        if self._dropped:
            marker = f"[{plural(self._dropped, 'earlier turn')} left out here]"
            issue = max((at for at, message in enumerate(parts[0].shown) if message.role == "user"), default=None)
            if issue is None:
                messages.insert(len(parts[0].shown), Message("user", marker))
            else:
                messages[issue] = replace(messages[issue], content=f"{messages[issue].content}\n\n{marker}")
        return tuple(messages)

    def _estimate(self, part: _Part) -> int:
        texts = [part.besides]
        for message in part.shown:
            texts += (message.content, *(word for call in message.calls for word in (call.name, call.arguments)))
        if self.tokenizer:
            self._local = self._local or _tokenizer(self.tokenizer)
            tokens = sum(map(self._local, texts))
        else:
            size = sum(len(text.encode("utf-8", "replace")) for text in texts)
            tokens = -(-size // self._bytes_per_token)
        return tokens + MESSAGE_TOKENS * len(part.shown)


def _split(messages: Sequence[Message]) -> Iterator[tuple[Message, ...]]:
    """The opening, then each turn."""
    start = 0
    for at, message in enumerate(messages):
        if at and message.role == "assistant":
            yield tuple(messages[start:at])
            start = at
    yield tuple(messages[start:])


def _tokenizer(path: str) -> Callable[[str], int]:
    try:
        package = importlib.import_module("tokenizers")
    except ImportError:
        raise ConfigError(
            f"counting tokens with {path} needs the package tokenizers. Install it: pip install 'scrout[tokenizer]', "
            f"or leave scout.model.tokenizer empty"
        ) from None
    try:
        known = package.Tokenizer.from_str(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}. scout.model.tokenizer names a model's tokenizer.json.") from None
    except Exception as error:  # the package raises nothing more specific
        raise ConfigError(
            f"{path} is not a tokenizer.json: {error}. Name the one beside the model's weights."
        ) from None

    def count(text: str) -> int:
        # A lone surrogate has no bytes to count.
        return len(known.encode(text.encode("utf-8", "replace").decode(), add_special_tokens=False).ids)

    return count
