"""Counts the tokens of a prompt on the server that will read it, template included. || Exact, free and optional: an
unsupported method is detected once, and a fault gives no count instead of an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import httpx
from pydantic import JsonValue

from scrout.base import ModelError

TIMEOUT_S = 10.0
MAX_FAULTS = 3
"""Stop asking after this many seconds: a count is not worth the wait."""

Post = Callable[[str, Mapping[str, JsonValue]], Awaitable[JsonValue]]
"""Takes a path below the server's root and a body; returns the answer, None if it was refused."""
Way = Callable[[Mapping[str, JsonValue]], Awaitable[int | None]]


class Counter:
    """Finds a counting method that the server supports, and uses it."""

    def __init__(self, post: Post) -> None:
        self._post = post
        self._ways: tuple[Way, ...] = (self._by_messages, self._by_template)
        self._faults = 0

    @property
    def can(self) -> bool:
        """False: the server is known not to count."""
        return bool(self._ways)

    async def count(self, prompt: Mapping[str, JsonValue]) -> int | None:
        """Tokens of a prompt (model, messages and tools as in a chat completion); None: unknown."""
        for way in self._ways:
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    tokens = await way(prompt)
            except (TimeoutError, httpx.HTTPError, ModelError, ValueError, RecursionError):
                self._faults += 1
                if self._faults >= MAX_FAULTS:
                    self._ways = ()
                return None
            if tokens is not None:
                self._ways = (way,)
                return tokens
        if len(self._ways) > 1:  # a method that has worked may fail for one prompt and work for the next
            self._ways = ()
        return None

    async def _by_messages(self, prompt: Mapping[str, JsonValue]) -> int | None:
        """vLLM and SGLang."""
        answer = await self._post("tokenize", prompt)
        count = answer.get("count") if isinstance(answer, dict) else None
        return count if isinstance(count, int) and count > 0 else None

    async def _by_template(self, prompt: Mapping[str, JsonValue]) -> int | None:
        """llama.cpp."""
        answer = await self._post("apply-template", prompt)
        text = answer.get("prompt") if isinstance(answer, dict) else None
        if not isinstance(text, str):
            return None
        answer = await self._post("tokenize", {"content": text, "add_special": True, "parse_special": True})
        tokens = answer.get("tokens") if isinstance(answer, dict) else None
        return len(tokens) if isinstance(tokens, list) and tokens else None
