"""How servers say that a request is too long for the model. There is no common code, so this matches their words."""

from __future__ import annotations

import re

MAX_READ = 20_000
"""Characters of an answer to search; a server that echoes the request puts its own words first."""

_PAYLOAD_TOO_LARGE = 413

_WORDS = re.compile(
    "|".join(
        (
            r"maximum context length",  # OpenAI, vLLM, SGLang, OpenRouter, DeepSeek, Mistral
            r"context_length_exceeded",  # the code of OpenAI and compatible servers
            r"exceeds? the context (?:window|length)",  # OpenAI's responses, Ollama
            r"ContextWindowExceededError",  # LiteLLM
            r"longer than the model\S{1,8} context length",  # SGLang, its apostrophe possibly escaped
            r"exceeds the maximum allowed length",  # SGLang
            r"longer than the maximum model length",  # vLLM
            r"max_tokens must be at least 1, got -",  # vLLM: the room that the prompt left for the reply
            r"exceed_context_size_error|exceeds the available context size|context size has been exceeded",  # llama.cpp
            r"exceeds? context (?:window|length|limit)",  # llama-cpp-python, LM Studio, Anthropic
            r"(?:prompt|input) is too long",  # Anthropic, Bedrock
            r"`inputs` (?:tokens \+ `max_new_tokens` must be|must have less than)",  # TGI
            r"initial prompt is greater than the context length|tokens when context the overflows",  # LM Studio
            r"n_keep \(\d+\) >= n_ctx",  # LM Studio
            r"exceeds the maximum number of tokens allowed",  # Gemini
            r"input tokens exceed the configured limit",  # Azure
        )
    ),
    re.IGNORECASE,
)


def too_long(status: int | None, answer: str) -> bool:
    """Whether an error says that the request is too long.

    It comes with 400, 413, 422, 500, or 200 and an error in the body.
    """
    return status == _PAYLOAD_TOO_LARGE or bool(_WORDS.search(answer, 0, MAX_READ))
