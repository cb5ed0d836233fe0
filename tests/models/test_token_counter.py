"""Counting tokens on the server, as servers differ in it."""

from __future__ import annotations

import json
from collections.abc import Callable

import httpx
import pytest

from scrout.models.chat import Chat, Message, Tool
from scrout.models.scripted import ScriptedEndpoint, ScriptedReply
from scrout.models.token_counter import MAX_FAULTS

HELLO = (Message("user", "hello"),)
TOOL = Tool("bash", "runs a command", {"type": "object"})

Answer = Callable[[httpx.Request], httpx.Response]


class Server:
    """Answers questions by path, and remembers them."""

    def __init__(self, **answers: Answer) -> None:
        self.answers = {"/" + path.replace("_", "-"): answer for path, answer in answers.items()}
        self.asked: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.path)
        answer = self.answers.get(request.url.path)
        return answer(request) if answer else httpx.Response(404, text="not here")

    def chat(self, base_url: str = "http://toy.invalid/v1") -> Chat:
        return Chat(base_url, "toy", "sk-0", transport=httpx.MockTransport(self))


async def test_by_messages_as_vllm_does() -> None:
    with ScriptedEndpoint([]) as endpoint:
        async with Chat(endpoint.base_url, "toy", None) as chat:
            short = await chat.count(HELLO, [])
            more = await chat.count(HELLO, [TOOL])
            long = await chat.count((*HELLO, Message("user", "x" * 400)), [])
    assert short and more and long and short < more and long - short > 100
    assert endpoint.requests == []


def llama_tokenize(request: httpx.Request) -> httpx.Response:
    body = json.loads(request.content)
    assert body.get("parse_special", True)
    return httpx.Response(200, json={"tokens": list(range(len(body.get("content", "").split())))})


def llama_template(request: httpx.Request) -> httpx.Response:
    prompt = " ".join(str(message["content"]) for message in json.loads(request.content)["messages"])
    return httpx.Response(200, json={"prompt": f"<s> {prompt}"})


async def test_by_template_as_llama_cpp_does() -> None:
    server = Server(tokenize=llama_tokenize, apply_template=llama_template)
    chat = server.chat()
    assert await chat.count((Message("user", "one two three"),), []) == 4
    assert server.asked == ["/tokenize", "/apply-template", "/tokenize"]
    assert await chat.count(HELLO, []) == 2
    assert server.asked[3:] == ["/apply-template", "/tokenize"]


async def test_an_older_sglang_counts_no_messages() -> None:
    server = Server(tokenize=lambda request: httpx.Response(422, json={"detail": "prompt: field required"}))
    chat = server.chat()
    assert await chat.count(HELLO, []) is None
    asked = len(server.asked)
    assert await chat.count(HELLO, []) is None and len(server.asked) == asked == 2


async def test_who_offers_nothing_is_asked_once() -> None:
    server = Server()
    chat = server.chat("http://toy.invalid/gate/way/v1/")
    for _ in range(3):
        assert await chat.count(HELLO, []) is None
    assert server.asked == ["/gate/way/tokenize", "/gate/way/apply-template"]


def lost(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadError("lost")


@pytest.mark.parametrize(
    "answer",
    [
        lost,
        lambda request: httpx.Response(500),
        lambda request: httpx.Response(200, text="{"),
        lambda request: httpx.Response(200, text="[" * 10**5),
    ],
)
async def test_faults_are_never_fatal_and_soon_avoided(answer: Answer) -> None:
    server = Server(tokenize=answer)
    chat = server.chat()
    for _ in range(MAX_FAULTS + 3):
        assert await chat.count(HELLO, []) is None
    assert len(server.asked) == MAX_FAULTS


@pytest.mark.parametrize("count", [0, -3, "7", None, [7], 2.5])
async def test_a_count_that_is_none(count: object) -> None:
    server = Server(tokenize=lambda request: httpx.Response(200, json={"count": count}))
    assert await server.chat().count(HELLO, []) is None


async def test_a_way_that_works_may_refuse_one_prompt() -> None:
    answers = iter([{"count": 7}, None, {"count": 9}])

    def answer(request: httpx.Request) -> httpx.Response:
        found = next(answers)
        return httpx.Response(200, json=found) if found else httpx.Response(400)

    chat = Server(tokenize=answer).chat()
    assert [await chat.count(HELLO, []) for _ in range(3)] == [7, None, 9]


async def test_a_key_or_address_that_cannot_be_used_gives_no_count() -> None:
    assert await Chat("nonsense", "toy", None).count(HELLO, []) is None
    assert await Chat("http://toy.invalid/v1", "toy", "bad key").count(HELLO, []) is None


async def test_an_endpoint_without_a_tokenizer() -> None:
    with ScriptedEndpoint([ScriptedReply("hi")], tokenizer=False) as endpoint:
        async with Chat(endpoint.base_url, "toy", None) as chat:
            assert await chat.count(HELLO, []) is None
