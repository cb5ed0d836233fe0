"""The three APIs that generate, as the meter reads them: the requested model and output limit of a request, the usage
and text of an answer. It leaves what it cannot parse unchanged.
"""

from __future__ import annotations

import json
import math
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from pydantic import JsonValue

from scrout.models.proxy import usage as usages
from scrout.models.proxy.bounds import has_too_many_values
from scrout.money import Usage
from scrout.trajectory import ApiName

Json = dict[str, JsonValue]

MIN_THINKING_TOKENS = 1024
"""The least that the messages API takes as a budget for thinking."""


MAX_NUMBER = 10**9
"""What is asked for beyond it is no number of tokens or answers."""


@dataclass
class _ToolCall:
    """A tool that is called, as far as it has come."""

    id: JsonValue = ""
    name: JsonValue = ""
    arguments: list[str] = field(default_factory=list)


@dataclass
class AnswerReader:
    """The text and usage of an answer so far. Texts are kept in pieces, since adding to one copies it."""

    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    tool_calls: list[_ToolCall] = field(default_factory=list)
    finish: str = ""
    usage: Usage | None = None
    """None: not reported, or not yet."""
    error: str = ""
    """What an answer with status 200 says went wrong; empty: nothing."""
    ended: bool = False
    """The answer is whole: the stream said itself that it is over."""
    has_more: bool = False
    """It has content that a model may have written, in any form."""

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @property
    def reasoning(self) -> str:
        return "".join(self.thoughts)

    @property
    def calls(self) -> list[Json]:
        """Each with id, name and arguments."""
        return [{"id": call.id, "name": call.name, "arguments": "".join(call.arguments)} for call in self.tool_calls]

    @property
    def wrote(self) -> bool:
        """Whether it has any content from a model."""
        return self.has_more or bool(self.tool_calls) or any(self.texts) or any(self.thoughts)

    def call(self, number: int) -> _ToolCall:
        while len(self.tool_calls) <= number:
            self.tool_calls.append(_ToolCall())
        return self.tool_calls[number]


@dataclass(frozen=True)
class Api:
    """One API."""

    name: ApiName
    path: str
    """Path below the endpoint's /v1."""
    limits: tuple[str, ...]
    """Keys that limit the output; the first is set where there is none. Empty: there is no output."""
    turns: str
    """The key of the conversation."""
    not_written: frozenset[str]
    """Keys of an answer, and of what is in it, that hold nothing a model writes."""
    read_whole: Callable[[Json, AnswerReader], None]
    read_event: Callable[[Json, AnswerReader], None]

    def limit(self, request: Json) -> int | None:
        """The most output tokens that a request asks for; None: it sets no limit."""
        if not self.limits:  # it has no output
            return 0
        asked = [request[key] for key in self.limits if request.get(key) is not None]
        if (
            asked
            and isinstance(thinking := request.get("thinking"), dict)
            and thinking.get("budget_tokens") is not None
        ):
            asked.append(thinking["budget_tokens"])  # some endpoints let a model write at least that
        # Which of two an endpoint goes by, and what it makes of one that is no number, is not known here.
        numbers = [value for value in asked if type(value) is int and 0 < value <= MAX_NUMBER]
        return max(numbers) if numbers and len(numbers) == len(asked) else None

    def limited(self, request: Json, tokens: int, key: str = "") -> Json:
        """The request with less output; `key` is what the endpoint wants a limit to be called, if it has said so."""
        keys = [asked for asked in self.limits if asked in request] or [key or self.limits[0]]
        lowered: Json = {**request, **dict.fromkeys(keys, tokens)}
        thinking = request.get("thinking")
        if isinstance(thinking, dict) and isinstance(budget := thinking.get("budget_tokens"), int) and budget >= tokens:
            if tokens > MIN_THINKING_TOKENS:
                lowered["thinking"] = {**thinking, "budget_tokens": max(MIN_THINKING_TOKENS, tokens // 2)}
            else:
                lowered["thinking"] = {"type": "disabled"}
        return lowered


_NOT_WRITTEN = frozenset(
    {
        *("id", "object", "type", "role", "model", "index", "status", "created", "created_at", "usage", "error"),
        *("service_tier", "request_id", "obfuscation"),
    }
)
_CHAT_NOT_WRITTEN = _NOT_WRITTEN | {
    *("finish_reason", "native_finish_reason", "stop_reason", "matched_stop", "content_filter_results", "provider"),
    *("system_fingerprint", "prompt_logprobs", "prompt_token_ids", "prompt_filter_results", "kv_transfer_params"),
    "hidden_states",
}
_RESPONSES_NOT_WRITTEN = _NOT_WRITTEN | {
    *("sequence_number", "response_id", "item_id", "output_index", "content_index", "summary_index", "event_id"),
    # What was asked for, repeated.
    *("instructions", "tools", "tool_choice", "temperature", "top_p", "top_logprobs", "max_output_tokens", "metadata"),
    *("parallel_tool_calls", "previous_response_id", "reasoning", "truncation", "store", "background", "user"),
    *("max_tool_calls", "prompt_cache_key", "safety_identifier", "incomplete_details", "completed_at", "billing"),
    *(
        "format",
        "verbosity",
        "prompt",
        "prompt_cache_retention",
        "conversation",
        "frequency_penalty",
        "presence_penalty",
    ),
}
_MESSAGES_NOT_WRITTEN = _NOT_WRITTEN | {
    "stop_reason",
    "stop_sequence",
    "stop_details",
    "container",
    "context_management",
}


def _chat_whole(answer: Json, said: AnswerReader) -> None:
    said.usage = usages.of_chat(answer.get("usage"))
    for choice in _objects(answer.get("choices")):
        said.finish = _text(choice.get("finish_reason"))
        _chat_message(_object(choice.get("message")), said)


def _chat_event(event: Json, said: AnswerReader) -> None:
    if event.get("usage"):
        said.usage = usages.of_chat(event["usage"]) or said.usage
    for choice in _objects(event.get("choices")):
        said.finish = _text(choice.get("finish_reason")) or said.finish
        _chat_message(_object(choice.get("delta")), said)


def _chat_message(message: Json, said: AnswerReader) -> None:
    said.texts.append(_text(message.get("content")))
    said.thoughts.append(_text(message.get("reasoning_content")) or _text(message.get("reasoning")))
    for place, call in enumerate(_objects(message.get("tool_calls"))):
        index = call.get("index")
        mine = said.call(index if isinstance(index, int) and 0 <= index < 1000 else place)
        function = _object(call.get("function"))
        mine.id = _text(call.get("id")) or mine.id
        mine.name = _text(function.get("name")) or mine.name
        mine.arguments.append(_text(function.get("arguments")))


def _responses_whole(answer: Json, said: AnswerReader) -> None:
    said.usage = usages.of_responses(answer.get("usage")) or said.usage
    said.finish = _text(answer.get("status"))
    if error := _object(answer.get("error")):
        said.error = _text(error.get("message")) or "an error without a message"
    said.texts, said.thoughts, said.tool_calls = [], [], []
    said.has_more = said.has_more or bool(answer.get("output"))
    for item in _objects(answer.get("output")):
        said.texts += [_text(part.get("text")) for part in _objects(item.get("content"))]
        said.thoughts += [_text(part.get("text")) for part in _objects(item.get("summary"))]
        if _text(item.get("type")).endswith("_call"):
            arguments = item.get("arguments", item.get("input", item.get("action")))
            said.tool_calls.append(
                _ToolCall(
                    _text(item.get("call_id")),
                    _text(item.get("name")) or _text(item.get("type")),
                    [arguments if isinstance(arguments, str) else json.dumps(arguments)],
                )
            )


def _responses_event(event: Json, said: AnswerReader) -> None:
    kind = _text(event.get("type")).removeprefix("response.")
    if kind in ("completed", "incomplete", "failed"):
        said.ended = True
        _responses_whole(_object(event.get("response")), said)
    elif kind.endswith(".delta"):
        said.texts.append(_text(event.get("delta")) if kind == "output_text.delta" else "")
    elif kind == "error":
        said.error = _text(event.get("message")) or "an error without a message"


def _messages_whole(answer: Json, said: AnswerReader) -> None:
    said.usage = usages.of_messages(answer.get("usage"))
    said.finish = _text(answer.get("stop_reason"))
    for block in _objects(answer.get("content")):
        _messages_block(block, said)


def _messages_block(block: Json, said: AnswerReader) -> None:
    said.texts.append(_text(block.get("text")))
    said.thoughts.append(_text(block.get("thinking")))
    if block.get("type") == "tool_use":
        given = block.get("input")
        said.tool_calls.append(_ToolCall(block.get("id"), block.get("name"), [json.dumps(given)] if given else []))


def _messages_event(event: Json, said: AnswerReader) -> None:
    match event.get("type"):
        case "message_start":
            said.usage = usages.of_messages(_object(event.get("message")).get("usage"))
        case "message_delta":
            # Cumulative, and of late with the input once more; what it does not repeat holds as it was.
            known = _wire(said.usage) | {key: n for key, n in _object(event.get("usage")).items() if n is not None}
            said.usage = usages.of_messages(known) or said.usage
            said.finish = _text(_object(event.get("delta")).get("stop_reason")) or said.finish
        case "content_block_start":
            _messages_block(_object(event.get("content_block")), said)
        case "content_block_delta":
            delta = _object(event.get("delta"))
            _messages_block({key: delta[key] for key in ("text", "thinking") if key in delta}, said)
            if said.tool_calls and "partial_json" in delta:
                said.tool_calls[-1].arguments.append(_text(delta["partial_json"]))
        case "message_stop":
            said.ended = True
        case "error":
            said.error = _text(_object(event.get("error")).get("message")) or "an error without a message"


def _wire(usage: Usage | None) -> Json:
    if usage is None:
        return {}
    return {
        "input_tokens": usage.input_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens + usage.cache_write_1h_tokens,
        "cache_creation": {"ephemeral_1h_input_tokens": usage.cache_write_1h_tokens},
        "output_tokens": usage.output_tokens,
    }


_EMBEDDINGS_NOT_WRITTEN = _NOT_WRITTEN | {"data"}


def _embeddings_whole(answer: Json, said: AnswerReader) -> None:
    said.usage = usages.of_embeddings(answer.get("usage"))
    said.finish = "embedded"


CHAT = Api(
    "chat",
    "chat/completions",
    ("max_tokens", "max_completion_tokens"),
    "messages",
    _CHAT_NOT_WRITTEN,
    _chat_whole,
    _chat_event,
)
RESPONSES = Api(
    "responses",
    "responses",
    ("max_output_tokens",),
    "input",
    _RESPONSES_NOT_WRITTEN,
    _responses_whole,
    _responses_event,
)
MESSAGES = Api(
    "messages", "messages", ("max_tokens",), "messages", _MESSAGES_NOT_WRITTEN, _messages_whole, _messages_event
)
APIS = {api.path: api for api in (CHAT, RESPONSES, MESSAGES)}
"""Those that generate."""
EMBEDDINGS = Api("embeddings", "embeddings", (), "input", _EMBEDDINGS_NOT_WRITTEN, _embeddings_whole, lambda *_: None)
PAID = frozenset({*APIS, EMBEDDINGS.path})
"""Their paths, and that of the one that embeds."""


def answers(request: Json) -> int:
    """How many a request asks for; 0: it cannot be told."""
    asked = request.get("n")
    if asked is None:
        return 1
    return asked if type(asked) is int and 0 < asked <= MAX_NUMBER else 0


PICTURES = ("image", "image_url", "input_image")


def pictures(turn: JsonValue) -> int:
    """How many an entry of a conversation has."""
    return sum(part.get("type") in PICTURES for part in parts(turn))


def tool_references(turn: JsonValue) -> int:
    """How many names of tools an entry has, in place of which an endpoint puts what it was told of the tool."""
    return sum(part.get("type") == "tool_reference" for part in parts(turn))


def is_cut(request: Json) -> bool:
    """Whether the endpoint may leave some of the prompt out, by a rule of its own."""
    management = _object(request.get("context_management"))
    edits: list[Json] = [{**edit, "type": _text(edit.get("type"))[:14]} for edit in _objects(management.get("edits"))]
    return request.get("truncation") == "auto" or any(edit != _KEEPS_ALL for edit in edits)


_KEEPS_ALL: Json = {"type": "clear_thinking", "keep": "all"}


def without_cache_control(turn: JsonValue) -> JsonValue:
    """An entry without its marks of what a prompt cache should keep. Agents move them from call to call."""
    if not isinstance(turn, dict):
        return turn
    marked = {key: value for key, value in turn.items() if key != "cache_control"}
    for key in ("content", "output"):
        if isinstance(parts := marked.get(key), list):
            marked[key] = [without_cache_control(part) for part in parts]
    return marked


def is_models_own(turn: JsonValue) -> bool:
    """Whether a model wrote an entry. Endpoints leave its thoughts out of a prompt that goes on long enough."""
    if not isinstance(turn, dict):
        return False
    return turn.get("role") == "assistant" or _text(turn.get("type")).endswith(("_call", "reasoning"))


def parts(turn: JsonValue) -> Iterator[Json]:
    """What an entry is made of, and what the results of tools in it are."""
    if not isinstance(turn, dict):
        return
    for key in ("content", "output"):
        inner = turn.get(key)
        for part in _objects(inner if isinstance(inner, list) else [inner]):
            yield part
            yield from _objects(part.get("content"))


_BLANK = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_MAX_TAIL = 3
"""Bytes of a blank line that may have come without its last."""


class Stream:
    """Server-sent events of one answer, parsed from chunks of any size."""

    def __init__(self, api: Api, said: AnswerReader, *, drop_usage: bool) -> None:
        self.api = api
        self.said = said
        self.drop_usage = drop_usage
        """Whether the chunk with the usage alone is one that the caller did not ask for."""
        self._begun = bytearray()
        """Of an event that has not ended, but for its last bytes, in which a blank line may have begun."""
        self._tail = b""

    def feed(self, data: bytes) -> bytes:
        """Take a chunk; returns the bytes to pass on: all, unless a chunk is to be dropped; then whole events."""
        *events, rest = _events(self._tail + data)
        if events:
            events[0] = bytes(self._begun) + events[0]
            self._begun.clear()
        self._begun += rest[:-_MAX_TAIL]
        self._tail = rest[-_MAX_TAIL:]
        kept = [event for event in events if self._keep(event)]
        return b"".join(kept) if self.drop_usage else data

    @property
    def begun_bytes(self) -> int:
        """Of an event that has not ended."""
        return len(self._begun) + len(self._tail)

    def flush(self) -> bytes:
        """The bytes left at the end of a stream that was cut off within an event."""
        rest = bytes(self._begun) + self._tail
        self._begun.clear()
        self._tail = b""
        return rest if self._keep(rest) and self.drop_usage else b""

    def _keep(self, event: bytes) -> bool:
        data = b"\n".join([line[5:].strip() for line in event.splitlines() if line.startswith(b"data:")])
        if data == b"[DONE]":
            self.said.ended = True
            return True
        parsed = parse(data)
        if parsed is None:
            self.said.has_more = self.said.has_more or bool(data)  # what cannot be read here may be text elsewhere
            return True
        if error := parsed.get("error"):
            self.said.error = _text(_object(error).get("message")) or _text(error) or "an error without a message"
        self.api.read_event(parsed, self.said)
        _look_for_more(self.api, parsed, self.said)
        return not (self.drop_usage and parsed.get("usage") and parsed.get("choices") == [])


def _events(data: bytes) -> list[bytes]:
    """Each with the blank line that ends it, and last what has not ended."""
    if b"\r" not in data:  # as nearly always, and a search for one form of blank line takes a tenth of the time
        *ended, rest = data.split(b"\n\n")
        return [*(event + b"\n\n" for event in ended), rest]
    edges = [0, *(blank.end() for blank in _BLANK.finditer(data)), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


def read_whole(api: Api, body: bytes, said: AnswerReader) -> None:
    """Parse an answer that is not a stream."""
    parsed = parse(body)
    if parsed is None:
        return
    error = parsed.get("error")
    if error:
        said.error = _text(_object(error).get("message")) or str(error)[:300]
    api.read_whole(parsed, said)
    _look_for_more(api, parsed, said)
    said.ended = True


def _look_for_more(api: Api, document: Json, said: AnswerReader) -> None:
    """Whether there is any content that a model may have written, anywhere, because no list of places is complete."""
    # Beside an error there may be words about it.
    is_error = (bool(document.get("error")) and not document.get("usage")) or document.get("type") == "error"
    inner: list[JsonValue] = [] if said.has_more or is_error else [document]
    while inner:
        match inner.pop():
            case dict() as found:
                inner += [value for key, value in found.items() if key not in api.not_written]
            case list() as found:
                inner += found
            case value if value:
                said.has_more = True
                return


def parse(body: bytes) -> Json | None:
    """A JSON object; None: it is not one, or has too many values."""
    if has_too_many_values(body):
        return None
    try:
        # As text: of bytes the encoding would be guessed first, which takes as long as reading a short event.
        parsed: JsonValue = json.loads(body.removeprefix(BOM_UTF8).decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def parse_request(body: bytes) -> Json | None:
    """A JSON object in UTF-8 that every server reads alike; None: it is none. Of a key that is there twice, servers
    take either."""
    if has_too_many_values(body):
        return None
    try:
        parsed = _strictly(body.decode())
        if b"\\u" in body:  # an escape can be half of a character, which servers refuse, drop or replace
            parsed = _strictly(_dumped(parsed).encode("utf-8", "replace").decode())
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def canonical(request: Mapping[str, JsonValue]) -> bytes:
    """The body that says exactly what was read and checked: UTF-8, each key once."""
    return _dumped(dict(request)).encode()


def _strictly(text: str) -> JsonValue:
    parsed: JsonValue = json.loads(text, object_pairs_hook=_once, parse_constant=_refuse, parse_float=_finite)
    return parsed


def _dumped(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:20]} is beyond the numbers that servers know")
    return number


def _once(pairs: list[tuple[str, JsonValue]]) -> Json:
    read = dict(pairs)
    if len(read) < len(pairs):
        raise ValueError("a key is there twice")
    return read


def _refuse(constant: str) -> JsonValue:
    raise ValueError(f"{constant} is no JSON")


def _object(value: JsonValue) -> Json:
    return value if isinstance(value, dict) else {}


def _objects(value: JsonValue) -> Iterator[Json]:
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())


def _text(value: JsonValue) -> str:
    """Text, also where it comes in parts."""
    if isinstance(value, list):
        return "".join(_text(part.get("text")) for part in _objects(value))
    return value if isinstance(value, str) else ""


def error_body(api: Api, message: str, kind: str = "api_error") -> Json:
    """An error in the API's own form."""
    error: Mapping[str, JsonValue] = {"type": kind, "message": message}
    return {"type": "error", "error": dict(error)} if api is MESSAGES else {"error": {**error, "code": None}}
