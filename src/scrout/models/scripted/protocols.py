"""Encodes one reply in three protocols: chat completions, responses and messages; each whole, and as a stream's
events.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Protocol

from pydantic import JsonValue

from scrout.models.chat import ToolCall
from scrout.models.scripted.script import ScriptedReply, ScriptedRequest
from scrout.money import Usage

Json = dict[str, JsonValue]

PIECE = 24
"""Characters of text per event of a stream."""


class Wire(Protocol):
    """One protocol."""

    needs: tuple[str, ...]
    """Required keys of a request."""

    def whole(self, reply: ScriptedReply, request: ScriptedRequest) -> Json: ...

    def events(self, reply: ScriptedReply, request: ScriptedRequest) -> Iterator[str]: ...

    def error(self, message: str) -> Json: ...


class ChatCompletions:
    needs: tuple[str, ...] = ("model", "messages")

    def whole(self, reply: ScriptedReply, request: ScriptedRequest) -> Json:
        message: Json = {"role": "assistant", "content": reply.text or None}
        if reply.reasoning:
            message["reasoning_content"] = reply.reasoning
        if reply.calls:
            message["tool_calls"] = [_function(call) for call in reply.calls]
        completion = self._about(request, "chat.completion")
        completion["choices"] = [{"index": 0, "message": message, "finish_reason": _finish(reply)}]
        if reply.usage is not None:
            completion["usage"] = self._usage(reply.usage)
        return completion

    def events(self, reply: ScriptedReply, request: ScriptedRequest) -> Iterator[str]:
        options = request.content.get("stream_options")
        counted = isinstance(options, dict) and options.get("include_usage") is True

        def chunk(delta: Json, finish_reason: str | None = None) -> str:
            about = self._about(request, "chat.completion.chunk")
            about["choices"] = [{"index": 0, "delta": delta, "finish_reason": finish_reason}]
            return _event(about | {"usage": None} if counted else about)

        yield chunk({"role": "assistant", "content": ""})
        yield from (chunk({"reasoning_content": piece}) for piece in _pieces(reply.reasoning))
        yield from (chunk({"content": piece}) for piece in _pieces(reply.text))
        for index, call in enumerate(reply.calls):
            yield chunk({"tool_calls": [{"index": index, **_function(ToolCall(call.id, call.name, ""))}]})
            for piece in _pieces(call.arguments):
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        yield chunk({}, _finish(reply))
        if counted:
            usage = self._usage(reply.usage) if reply.usage else None
            yield _event(self._about(request, "chat.completion.chunk") | {"choices": [], "usage": usage})
        yield "data: [DONE]\n\n"

    def error(self, message: str) -> Json:
        return {"error": {"message": message, "type": "scripted"}}

    def _about(self, request: ScriptedRequest, kind: str) -> Json:
        return {"id": "chatcmpl-scripted", "object": kind, "created": 0, "model": request.content["model"]}

    def _usage(self, usage: Usage) -> Json:
        prompt, completion = _prompt_tokens(usage), _written(usage)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
            "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        }


class Responses:
    needs: tuple[str, ...] = ("model", "input")

    def whole(self, reply: ScriptedReply, request: ScriptedRequest) -> Json:
        cut = _finish(reply) == "length"
        return self._about(request, "incomplete" if cut else "completed") | {
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "output": list(self._items(reply)),
            "usage": self._usage(reply.usage) if reply.usage else None,
        }

    def events(self, reply: ScriptedReply, request: ScriptedRequest) -> Iterator[str]:
        for number, (kind, event) in enumerate(self._sequence(reply, request)):
            about: Json = {"type": f"response.{kind}", "sequence_number": number}
            yield _event(about | event, f"response.{kind}")

    def error(self, message: str) -> Json:
        return {"error": {"message": message, "type": "scripted", "code": None, "param": None}}

    def _sequence(self, reply: ScriptedReply, request: ScriptedRequest) -> Iterator[tuple[str, Json]]:
        begun: Json = {"response": self._about(request, "in_progress") | {"output": []}}
        yield "created", begun
        yield "in_progress", begun
        for index, item in enumerate(self._items(reply)):
            at: Json = {"output_index": index}
            where: Json = at | {"item_id": item["id"]}
            match item["type"]:
                case "reasoning":
                    yield "output_item.added", at | {"item": item | {"summary": []}}
                    yield from _filling(
                        "reasoning_summary", "reasoning_summary", where, "summary_index", item["summary"]
                    )
                case "message":
                    yield "output_item.added", at | {"item": item | {"status": "in_progress", "content": []}}
                    yield from _filling("content", "output", where, "content_index", item["content"])
                case "function_call":
                    yield "output_item.added", at | {"item": item | {"status": "in_progress", "arguments": ""}}
                    for piece in _pieces(str(item["arguments"])):
                        yield "function_call_arguments.delta", where | {"delta": piece}
                    done: Json = {"name": item["name"], "arguments": item["arguments"]}
                    yield "function_call_arguments.done", where | done
            yield "output_item.done", at | {"item": item}
        whole = self.whole(reply, request)
        yield str(whole["status"]), {"response": whole}

    def _about(self, request: ScriptedRequest, status: str) -> Json:
        return {
            "id": "resp_scripted",
            "object": "response",
            "created_at": 0,
            "model": request.content["model"],
            "status": status,
            "error": None,
        }

    def _items(self, reply: ScriptedReply) -> Iterator[Json]:
        if reply.reasoning:
            thought: Json = {"type": "summary_text", "text": reply.reasoning}
            yield {"type": "reasoning", "id": "rs_scripted", "summary": [thought]}
        if reply.text or not reply.calls:
            said: Json = {"type": "output_text", "text": reply.text, "annotations": []}
            about: Json = {"type": "message", "id": "msg_scripted", "status": "completed", "role": "assistant"}
            yield about | {"content": [said]}
        for number, call in enumerate(reply.calls):
            about = {"type": "function_call", "id": f"fc_{number}", "call_id": call.id, "status": "completed"}
            yield about | {"name": call.name, "arguments": call.arguments}

    def _usage(self, usage: Usage) -> Json:
        prompt, completion = _prompt_tokens(usage), _written(usage)
        return {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": usage.cache_read_tokens},
            "output_tokens": completion,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
            "total_tokens": prompt + completion,
        }


def _filling(name: str, texts: str, where: Json, index: str, parts: JsonValue) -> Iterator[tuple[str, Json]]:
    """The events that fill the parts of a responses item with text."""
    for number, part in enumerate(parts if isinstance(parts, list) else ()):
        if isinstance(part, dict):
            place = where | {index: number}
            yield f"{name}_part.added", place | {"part": part | {"text": ""}}
            for piece in _pieces(str(part["text"])):
                yield f"{texts}_text.delta", place | {"delta": piece}
            yield f"{texts}_text.done", place | {"text": part["text"]}
            yield f"{name}_part.done", place | {"part": part}


class Messages:
    needs: tuple[str, ...] = ("model", "messages", "max_tokens")

    def whole(self, reply: ScriptedReply, request: ScriptedRequest) -> Json:
        blocks: list[JsonValue] = [block for block, _ in self._blocks(reply)]
        return self._about(request, reply.usage or Usage()) | {"content": blocks, "stop_reason": self._stop(reply)}

    def events(self, reply: ScriptedReply, request: ScriptedRequest) -> Iterator[str]:
        usage = reply.usage or Usage()
        begun = self._about(request, usage.model_copy(update={"output_tokens": 0, "reasoning_tokens": 0}))
        yield self._event("message_start", {"message": begun})
        for index, (block, deltas) in enumerate(self._blocks(reply)):
            empty = block | {key: value for key, value in _NOTHING.items() if key in block}
            yield self._event("content_block_start", {"index": index, "content_block": empty})
            for delta in deltas:
                yield self._event("content_block_delta", {"index": index, "delta": delta})
            yield self._event("content_block_stop", {"index": index})
        end: Json = {"stop_reason": self._stop(reply), "stop_sequence": None}
        yield self._event("message_delta", {"delta": end, "usage": {"output_tokens": _written(usage)}})
        yield self._event("message_stop", {})

    def error(self, message: str) -> Json:
        return {"type": "error", "error": {"type": "api_error", "message": message}}

    def _about(self, request: ScriptedRequest, usage: Usage) -> Json:
        hour = usage.cache_write_1h_tokens
        return {
            "id": "msg_scripted",
            "type": "message",
            "role": "assistant",
            "model": request.content["model"],
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {
                "input_tokens": usage.input_tokens,
                "cache_creation_input_tokens": usage.cache_write_tokens + hour,
                **({"cache_creation": {"ephemeral_1h_input_tokens": hour}} if hour else {}),
                "cache_read_input_tokens": usage.cache_read_tokens,
                "output_tokens": _written(usage),
            },
        }

    def _stop(self, reply: ScriptedReply) -> str:
        names = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}
        return names.get(_finish(reply), _finish(reply))

    def _blocks(self, reply: ScriptedReply) -> Iterator[tuple[Json, list[Json]]]:
        """Each block of the content, with the deltas that fill it in a stream."""
        if reply.reasoning:
            yield (
                {"type": "thinking", "thinking": reply.reasoning, "signature": ""},
                [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(reply.reasoning)],
            )
        if reply.text:
            yield (
                {"type": "text", "text": reply.text},
                [{"type": "text_delta", "text": piece} for piece in _pieces(reply.text)],
            )
        for call in reply.calls:
            arguments = ScriptedRequest("", {}, call.arguments).content
            yield (
                {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(arguments)},
                [{"type": "input_json_delta", "partial_json": piece} for piece in _pieces(json.dumps(arguments))],
            )

    def _event(self, kind: str, event: Json) -> str:
        about: Json = {"type": kind}
        return _event(about | event, kind)


_NOTHING: Json = {"text": "", "thinking": "", "input": {}}


PROTOCOLS: dict[str, Wire] = {
    "/v1/chat/completions": ChatCompletions(),
    "/v1/responses": Responses(),
    "/v1/messages": Messages(),
}


def count_tokens(request: ScriptedRequest) -> int:
    """The stand-in's tokenizer: one token per four characters of messages (or prompt) and tools, as compact JSON."""
    counted = [request.content.get(key) for key in ("messages", "prompt", "tools")]
    return -(-len(json.dumps(counted, ensure_ascii=False, separators=(",", ":"))) // 4)


def _event(data: Json, name: str = "") -> str:
    return (f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n"


def _function(call: ToolCall) -> Json:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _pieces(text: str) -> Iterator[str]:
    return (text[start : start + PIECE] for start in range(0, len(text), PIECE))


def _finish(reply: ScriptedReply) -> str:
    return reply.finish_reason or ("tool_calls" if reply.calls else "stop")


def _prompt_tokens(usage: Usage) -> int:
    return usage.prompt_tokens


def _written(usage: Usage) -> int:
    return usage.output_tokens + usage.reasoning_tokens
