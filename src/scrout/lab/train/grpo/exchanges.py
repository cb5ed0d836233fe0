"""An episode's trace as tokens to learn from: every prompt as it was sent, every reply that the model gave to it.

Token ids that the server reports (vLLM's `return_token_ids`) are used as they are. Otherwise texts are tokenized again,
which may split a reply in another way than the model did. The end of a reply that was cut off has no loss.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from pydantic import BaseModel, JsonValue, ValidationError

from scrout.lab.train.episodes import chat_exchanges, completion_of
from scrout.lab.train.tokenization import ChatExample, ChatTokenizer, Document, Json, UntrainableExample, views
from scrout.models.chat import Message, ToolCall, message_json
from scrout.scout.trace import Exchange, Recorded


@dataclass(frozen=True)
class ChatExchange:
    """One request and the reply to it."""

    prompt: tuple[Json, ...]
    reply: Json
    tools: tuple[Json, ...]
    cut_off: bool
    """The reply was ended by its limit, not by the model."""
    prompt_ids: tuple[int, ...] = ()
    reply_ids: tuple[int, ...] = ()
    """Empty: the server did not report them."""


class _Choice(BaseModel):
    token_ids: list[int] | None = None


class _Ids(BaseModel):
    prompt_token_ids: list[int] | None = None
    choices: list[_Choice] = []


class _Request(BaseModel):
    messages: list[dict[str, JsonValue]]
    tools: list[dict[str, JsonValue]] = []


def read_exchanges(recorded: Recorded) -> list[ChatExchange]:
    """All that the model said in an episode, the demanded handoff included; tries that gave no reply are left out."""
    found = (_exchange(event) for event in chat_exchanges(recorded))
    return [one for one in found if one is not None]


def tokenize_exchanges(replies: Sequence[ChatExchange], template: ChatTokenizer) -> tuple[list[Document], list[str]]:
    """The tokens of an episode, and why some of it has none."""
    if replies and all(one.prompt_ids and one.reply_ids for one in replies):
        return _exact(replies), []
    found: list[Document] = []
    problems: list[str] = []
    for tools, group in groupby(replies, key=lambda one: json.dumps(one.tools)):
        part = list(group)
        cuts = iter([one.cut_off for one in part])
        for view in views([(one.prompt, one.reply) for one in part], json.loads(tools)):
            # Each reply is learned in one view, and both go in order.
            ends = [next(cuts) for _ in view.trained_turns]
            try:
                found.append(_without_ends(template.document(view), view, ends))
            except UntrainableExample as unfit:
                problems.append(str(unfit))
    return found, problems


def _exchange(event: Exchange) -> ChatExchange | None:
    completion = completion_of(event)
    if completion is None:
        return None
    try:
        request = _Request.model_validate_json(event.request)
        ids = _Ids.model_validate_json(event.response)
    except ValidationError:
        return None
    choice = completion.choices[0]
    given = choice.message.tool_calls or ()
    calls = tuple(
        ToolCall(call.id or f"call_{number}", call.function.name, call.function.arguments)
        for number, call in enumerate(given)
    )
    # As the loop writes it into the next prompt, so that this one is seen to go on where the last one ended.
    reply = message_json(Message("assistant", choice.message.content or "", calls if request.tools else ()))
    return ChatExchange(
        prompt=tuple(request.messages),
        reply=reply,
        tools=tuple(request.tools),
        cut_off=choice.finish_reason == "length",
        prompt_ids=tuple(ids.prompt_token_ids or ()),
        reply_ids=tuple(ids.choices[0].token_ids or ()),
    )


def _exact(replies: Sequence[ChatExchange]) -> list[Document]:
    """By the server's own ids; a prompt that goes on where the one before it ended is of the same document."""
    found: list[tuple[list[int], list[bool]]] = []
    for one in replies:
        prompt = list(one.prompt_ids)
        ids, learned = found[-1] if found else ([], [])
        if not found or prompt[: len(ids)] != ids:
            ids, learned = [], []
            found.append((ids, learned))
        fresh = prompt[len(ids) :]
        ids += [*fresh, *one.reply_ids]
        learned += [*(False for _ in fresh), *(True for _ in one.reply_ids)]
    return [Document(np.array(ids, np.int32), np.array(learned, np.bool_)) for ids, learned in found]


def _without_ends(document: Document, view: ChatExample, cut_off: Sequence[bool]) -> Document:
    """The same, without the ends that the template put behind replies which were cut off."""
    if not any(cut_off):
        return document
    loss_mask = document.loss_mask.copy()
    edges = np.flatnonzero(np.diff(np.concatenate(([False], loss_mask, [False])).astype(np.int8)))
    ends = edges[1::2]
    if len(ends) != len(view.trained_turns):
        raise UntrainableExample("a reply that was cut off cannot be found among its tokens")
    loss_mask[[end - 1 for end, cut in zip(ends, cut_off, strict=True) if cut]] = False
    return replace(document, loss_mask=loss_mask)
