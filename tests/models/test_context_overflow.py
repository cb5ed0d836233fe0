"""What servers really say when a request is too long, and what only sounds like it."""

from __future__ import annotations

import httpx
import pytest

from scrout.models.chat import Chat, Message, Overflow, RequestRejected

TOO_LONG = [
    pytest.param(
        400,
        """{"object":"error","message":"This model's maximum context length is 16384 tokens. However, you """
        "requested 19591 tokens (9591 in the messages, 10000 in the completion). Please reduce the "
        'length of the messages or completion.","type":"BadRequestError","param":null,"code":400}',
        id="vLLM",
    ),
    pytest.param(
        400,
        """{"error":{"message":"This model's maximum context length is 2048 tokens. However, you requested """
        "2045 output tokens and your prompt contains at least 8 input tokens, for a total of at least "
        "2053 tokens. Please reduce the length of the input prompt or the number of requested output "
        "tokens. (parameter=input_tokens, "
        'value=8)","type":"BadRequestError","param":"input_tokens","code":400}}',
        id="vLLM of 2026",
    ),
    pytest.param(
        400,
        '{"object":"error","message":"The decoder prompt (length 10127) is longer than the maximum model '
        "length of 8192. Make sure that `max_model_len` is no smaller than the number of text tokens "
        'plus multimodal tokens.","type":"BadRequestError","param":null,"code":400}',
        id="vLLM, decoder prompt",
    ),
    pytest.param(
        400,
        '{"object":"error","message":"max_tokens must be at least 1, got -186.","type":"BadRequestError","code":400}',
        id="vLLM, no room for a reply",
    ),
    pytest.param(
        400,
        """{"object":"error","message":"The input (61709 tokens) is longer than the model's context length """
        '(40960 tokens).","type":"BadRequestError","param":null,"code":400}',
        id="SGLang",
    ),
    pytest.param(
        400,
        """{"object":"error","message":"Requested token count exceeds the model's maximum context length """
        "of 64000 tokens. You requested a total of 71897 tokens: 7897 tokens from the input messages and "
        '64000 tokens for the completion.","type":"BadRequestError","code":400}',
        id="SGLang, in sum",
    ),
    pytest.param(
        400,
        '{"message":"Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens). Use '
        'a shorter input or enable --allow-auto-truncate."}',
        id="SGLang, small memory",
    ),
    pytest.param(
        400,
        '{"error":{"code":400,"message":"request (4390 tokens) exceeds the available context size (4096 '
        "tokens), try increasing "
        'it","type":"exceed_context_size_error","n_prompt_tokens":4390,"n_ctx":4096}}',
        id="llama.cpp",
    ),
    pytest.param(
        500,
        '{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}',
        id="llama.cpp, 500",
    ),
    pytest.param(
        200,
        '{"error":{"code":400,"message":"the request exceeds the available context size. try increasing '
        "the context size or enable context "
        'shift","type":"exceed_context_size_error","n_prompt_tokens":14429,"n_ctx":8192}}',
        id="llama.cpp, 200",
    ),
    pytest.param(
        400,
        '{"error":{"message":"Requested tokens (2285) exceed context window of 2048","type":"invalid_request_error"}}',
        id="llama-cpp-python",
    ),
    pytest.param(
        400,
        """{"error":{"message":"This model's maximum context length is 4097 tokens. However, your messages """
        "resulted in 6988 tokens. Please reduce the length of the "
        'messages.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}',
        id="OpenAI",
    ),
    pytest.param(
        400,
        '{"error":{"message":"Your input exceeds the context window of this model. Please adjust your '
        'input and try again.","type":"invalid_request_error","code":"context_length_exceeded"}}',
        id="OpenAI, newer",
    ),
    pytest.param(
        400,
        '{"error":{"message":"Input tokens exceed the configured limit of 272000 tokens. Your messages '
        'resulted in 509178 tokens. Please reduce the length of the messages."}}',
        id="Azure",
    ),
    pytest.param(
        400,
        '{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 208310 '
        'tokens > 200000 maximum"},"request_id":"req_0"}',
        id="Anthropic",
    ),
    pytest.param(
        400,
        '{"type":"error","error":{"type":"invalid_request_error","message":"input length and '
        "`max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length or "
        '`max_tokens` and try again"}}',
        id="Anthropic, in sum",
    ),
    pytest.param(
        413,
        '{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}',
        id="Anthropic, 413",
    ),
    pytest.param(
        400,
        '{"message":"Input is too long for requested model."}',
        id="Bedrock",
    ),
    pytest.param(
        400,
        '{"error":"the input length exceeds the context length"}',
        id="Ollama",
    ),
    pytest.param(
        422,
        '{"error":{"message":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= '
        '4096. Given: 8740 `inputs` tokens and 500 `max_new_tokens`","http_status_code":422}}',
        id="TGI",
    ),
    pytest.param(
        422,
        '{"error":"Input validation error: `inputs` must have less than 1024 tokens. Given: 3168"}',
        id="TGI, input alone",
    ),
    pytest.param(
        400,
        '{"error":{"message":"litellm.ContextWindowExceededError: litellm.BadRequestError: '
        'VertexAIException","type":null,"param":null,"code":"400"}}',
        id="LiteLLM",
    ),
    pytest.param(
        400,
        """{"error":{"message":"This endpoint's maximum context length is 131072 tokens. However, you """
        "requested about 141607 tokens (10535 of text input, 131072 in the output). Please reduce the "
        'length of either one, or use the \\"middle-out\\" transform to compress your prompt '
        'automatically.","code":400}}',
        id="OpenRouter",
    ),
    pytest.param(
        200,
        """{"error":{"message":"This endpoint's maximum context length is 131072 tokens. However, you """
        'requested about 141607 tokens","code":400,"metadata":{"provider_name":"Chutes"}}}',
        id="OpenRouter, 200",
    ),
    pytest.param(
        400,
        '{"error":"The number of tokens to keep from the initial prompt is greater than the context '
        "length (n_keep: 13055>= n_ctx: 4096). Try to load the model with a larger context length, or "
        'provide a shorter input."}',
        id="LM Studio",
    ),
    pytest.param(
        400,
        '{"error":"Trying to keep the first 10136 tokens when context the overflows. However, the model '
        'is loaded with context length of only 7866 tokens, which is not enough."}',
        id="LM Studio, older",
    ),
    pytest.param(
        400,
        '{"error":"Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)"}',
        id="LM Studio, n_keep",
    ),
    pytest.param(
        400,
        '[{"error":{"code":400,"message":"The input token count (2800010) exceeds the maximum number of '
        'tokens allowed (1048575).","status":"INVALID_ARGUMENT"}}]',
        id="Gemini",
    ),
    pytest.param(
        400,
        '{"object":"error","message":"Prompt contains 40000 tokens and 0 draft tokens, too large for '
        'model with 32768 maximum context length","type":"invalid_request_error","code":"3051"}',
        id="Mistral",
    ),
]
OTHERWISE = [
    pytest.param(
        400,
        '{"error":{"message":"Invalid value for `tools`: too many functions"}}',
        id="tools",
    ),
    pytest.param(
        400,
        '{"error":{"message":"max_tokens must be at least 1, got 0."}}',
        id="max_tokens",
    ),
    pytest.param(
        400,
        """{"error":{"message":"Invalid 'user': string too long. Expected a string with maximum length """
        '64","code":"string_above_max_length"}}',
        id="another field",
    ),
    pytest.param(
        404,
        '{"error":{"message":"The model `toy` does not exist"}}',
        id="no such model",
    ),
    pytest.param(
        429,
        '{"error":{"message":"Rate limit reached: Limit 30000, Used 29000, Requested 4000"}}',
        id="rate",
    ),
    pytest.param(
        500,
        '{"error":{"message":"CUDA out of memory"}}',
        id="memory",
    ),
    pytest.param(400, "x" * 30_000 + "maximum context length", id="far behind in an echo"),
]


async def ends(status: int, body: str) -> RequestRejected:
    transport = httpx.MockTransport(lambda request: httpx.Response(status, text=body))

    async def at_once(seconds: float) -> None:
        return None

    chat = Chat("http://toy.invalid/v1", "toy", None, transport=transport, sleep=at_once)
    with pytest.raises(RequestRejected) as caught:
        await chat.complete((Message("user", "hello"),), [], 10)
    return caught.value


@pytest.mark.parametrize(("status", "body"), TOO_LONG)
async def test_too_long(status: int, body: str) -> None:
    error = await ends(status, body)
    assert isinstance(error, Overflow)
    assert error.status == (400 if status == 200 else status)


@pytest.mark.parametrize(("status", "body"), OTHERWISE)
async def test_not_too_long(status: int, body: str) -> None:
    assert type(await ends(status, body)) is RequestRejected
