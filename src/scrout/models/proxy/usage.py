"""The usage reports of the three APIs, as disjoint buckets. An implausible report counts as none."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field, JsonValue, ValidationError

from scrout.money import Usage

# The upper bound keeps the cost finite. No call has an empty prompt, so zero means that the endpoint did not count.
_Tokens = Annotated[int, Field(ge=0, le=10**9)]
_Prompt = Annotated[int, Field(gt=0, le=10**9)]


class _Cached(BaseModel):
    cached_tokens: _Tokens | None = None
    cache_write_tokens: _Tokens | None = None


class _Thought(BaseModel):
    reasoning_tokens: _Tokens | None = None


class _Chat(BaseModel):
    prompt_tokens: _Prompt
    completion_tokens: _Tokens
    total_tokens: _Tokens | None = None
    prompt_tokens_details: _Cached | None = None
    completion_tokens_details: _Thought | None = None


class _Responses(BaseModel):
    input_tokens: _Prompt
    output_tokens: _Tokens
    input_tokens_details: _Cached | None = None
    output_tokens_details: _Thought | None = None


class _Embeddings(BaseModel):
    prompt_tokens: _Prompt


class _Pass(BaseModel):
    """A pass of a call over its conversation: a pass that summarizes is billed, but not in the totals."""

    type: str = ""
    input_tokens: _Tokens = 0
    output_tokens: _Tokens = 0


class _Kept(BaseModel):
    ephemeral_5m_input_tokens: _Tokens | None = None
    ephemeral_1h_input_tokens: _Tokens | None = None


class _Messages(BaseModel):
    input_tokens: _Tokens = 0
    cache_creation_input_tokens: _Tokens | None = None
    cache_creation: _Kept | None = None
    iterations: list[_Pass] | None = None
    cache_read_input_tokens: _Tokens | None = None
    output_tokens: _Tokens


def of_chat(raw: JsonValue) -> Usage | None:
    """Usage of a chat completion."""
    try:
        wire = _Chat.model_validate(raw)
    except ValidationError:
        return None
    # Some endpoints count reasoning only in the total, but still bill it.
    completion = max(wire.completion_tokens, (wire.total_tokens or 0) - wire.prompt_tokens)
    return _split(wire.prompt_tokens, completion, wire.prompt_tokens_details, wire.completion_tokens_details)


def of_responses(raw: JsonValue) -> Usage | None:
    """Usage of the responses API."""
    try:
        wire = _Responses.model_validate(raw)
    except ValidationError:
        return None
    return _split(wire.input_tokens, wire.output_tokens, wire.input_tokens_details, wire.output_tokens_details)


def of_embeddings(raw: JsonValue) -> Usage | None:
    """Usage of embeddings, which have no output."""
    try:
        return Usage(input_tokens=_Embeddings.model_validate(raw).prompt_tokens)
    except ValidationError:
        return None


def of_messages(raw: JsonValue) -> Usage | None:
    """Usage of the messages API, which counts reasoning as output."""
    try:
        wire = _Messages.model_validate(raw)
    except ValidationError:
        return None
    kept = wire.cache_creation or _Kept()
    hour = kept.ephemeral_1h_input_tokens or 0
    # If the parts are more than the whole, the parts are billed.
    written = max(wire.cache_creation_input_tokens or 0, hour + (kept.ephemeral_5m_input_tokens or 0))
    read = wire.cache_read_input_tokens or 0
    if not wire.input_tokens + read + written:
        return None
    further = [one for one in wire.iterations or () if one.type != "message"]
    return Usage(
        input_tokens=wire.input_tokens + sum(one.input_tokens for one in further),
        cache_read_tokens=read,
        cache_write_tokens=written - hour,
        cache_write_1h_tokens=hour,
        output_tokens=wire.output_tokens + sum(one.output_tokens for one in further),
    )


def believable(usage: Usage | None, *, wrote: bool) -> Usage | None:
    """The report if it is plausible: written text has tokens. None: it counts as no report."""
    if usage is not None and wrote and not usage.output_tokens + usage.reasoning_tokens:
        return None
    return usage


def _split(prompt: int, completion: int, cached: _Cached | None, thought: _Thought | None) -> Usage:
    """If a part is reported as larger than the whole, the whole counts."""
    read = min((cached.cached_tokens or 0) if cached else 0, prompt)
    written = min((cached.cache_write_tokens or 0) if cached else 0, prompt - read)
    reasoning = min((thought.reasoning_tokens or 0) if thought else 0, completion)
    return Usage(
        input_tokens=prompt - read - written,
        cache_read_tokens=read,
        cache_write_tokens=written,
        output_tokens=completion - reasoning,
        reasoning_tokens=reasoning,
    )
