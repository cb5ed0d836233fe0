"""An OpenAI-compatible endpoint, over real HTTP on loopback: what is sent, what is refused, what is tried again."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import numpy as np
import pytest
from pydantic import JsonValue

from scrout.base import ConfigError, RouteError
from scrout.batch.jobs import refuse_unbounded
from scrout.config.folders import data_folder
from scrout.config.settings import EmbedderSettings, Settings
from scrout.ledger.audit import audit
from scrout.money import Price, Receipt, Usage
from scrout.pipeline import open_kit, open_task
from scrout.records import Decision, State
from scrout.route.embed import MAX_CHARS, HashedEmbedder, open_embedder
from scrout.route.embedder_account import SOCKET, on_the_bill
from scrout.route.embedders.endpoint import BATCH, TRIES, EndpointEmbedder
from scrout.route.embedding_cache import CachedEmbedder
from scrout.route.router import Router
from scrout.sandbox.tier import Tier
from scrout.trajectory import receipts

KEY = "sk-very-secret"


@dataclass
class Server:
    """Answers with hashed vectors of twice the length, in reverse order, unless a script says otherwise."""

    url: str = ""
    script: list[tuple[int, str, dict[str, str]]] = field(default_factory=list)
    """Status, body and headers of the next answers; status 0: the connection is dropped."""
    max_chars: int = 1_000_000
    bodies: list[dict[str, JsonValue]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)

    def answer(self, body: dict[str, JsonValue]) -> tuple[int, str, dict[str, str]]:
        if self.script:
            return self.script.pop(0)
        texts = body["input"]
        assert isinstance(texts, list)
        if any(len(str(text)) > self.max_chars for text in texts):
            return 400, '{"error": {"message": "maximum context length is 512 tokens"}}', {}
        rows = 2 * HashedEmbedder().embed([str(text) for text in texts])
        size = body.get("dimensions") or 512
        data = [{"object": "embedding", "index": n, "embedding": row[:size].tolist()} for n, row in enumerate(rows)]
        return 200, json.dumps({"object": "list", "data": data[::-1], "usage": {"prompt_tokens": 3 * len(texts)}}), {}


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            state.bodies.append(body)
            state.paths.append(self.path)
            state.keys.append(self.headers["authorization"])
            status, said, headers = state.answer(body)
            if not status:
                self.close_connection = True
                return
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(said.encode())))
            self.end_headers()
            self.wfile.write(said.encode())

        def log_message(self, format: str, *args: object) -> None: ...

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{httpd.server_port}/v1"
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield state
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def embedder(server: Server, waits: list[float] | None = None, **options: object) -> EndpointEmbedder:
    sleep = ([] if waits is None else waits).append
    return EndpointEmbedder(server.url, "some-model", KEY, sleep=sleep, **options)  # type: ignore[arg-type]


def test_rows_come_in_the_texts_order_and_with_length_one(server: Server) -> None:
    texts = ["the parser fails", "window colour", " \n", "lone \ud800"]
    own = embedder(server)
    rows = own.embed(texts)
    assert rows.dtype == np.float32 and rows.shape == (4, own.size) == (4, 512)
    assert np.allclose(rows[:2], HashedEmbedder().embed(texts[:2]), atol=1e-6)
    assert not rows[2].any() and np.linalg.norm(rows[3]) == pytest.approx(1, abs=1e-6)
    (body,) = server.bodies
    assert body["model"] == "some-model" and body["input"] == ["the parser fails", "window colour", "lone ?"]
    assert "dimensions" not in body and server.paths == ["/v1/embeddings"] and server.keys == [f"Bearer {KEY}"]


def test_many_texts_go_in_batches(server: Server) -> None:
    texts = [f"text {number}" for number in range(2 * BATCH + 1)]
    own = embedder(server)
    assert np.allclose(own.embed(texts), HashedEmbedder().embed(texts), atol=1e-6)
    assert [len(body["input"]) for body in server.bodies] == [BATCH, BATCH, 1]  # type: ignore[arg-type]


def test_fewer_dimensions_are_asked_for_and_expected(server: Server) -> None:
    own = embedder(server, dimensions=8)
    assert own.size == 8 and server.bodies == []
    assert own.embed(["the parser fails"]).shape == (1, 8)
    assert server.bodies[0]["dimensions"] == 8


def test_the_size_is_found_out_where_nothing_told_it(server: Server) -> None:
    assert embedder(server).embed([]).shape == (0, 512)
    assert len(server.bodies) == 1


def test_without_a_key_none_is_sent(server: Server) -> None:
    EndpointEmbedder(server.url + "/", "m", None).embed(["text"])
    assert server.keys == [None] and server.paths == ["/v1/embeddings"]


def test_the_name_tells_models_sizes_and_addresses_apart() -> None:
    def name(url: str = "http://a.example/v1", model: str = "m", dimensions: int | None = None) -> str:
        return EndpointEmbedder(url, model, KEY, dimensions=dimensions).name

    names = {name(), name("http://b.example/v1"), name(model="n"), name(dimensions=8)}
    assert len(names) == 4
    assert name("http://user:pass@a.example/v1/?token=abcdef") == name()


@pytest.mark.parametrize("status", [429, 500, 503, 0])
def test_what_may_pass_is_tried_again(server: Server, status: int) -> None:
    server.script = [(status, "busy", {})] * 2
    waits: list[float] = []
    assert embedder(server, waits).embed(["text"]).any()
    assert len(server.bodies) == 3 and len(waits) == 2 and 0 < waits[0] < waits[1]


def test_the_endpoints_own_wait_is_kept_and_bounded(server: Server) -> None:
    server.script = [
        (429, "", {"retry-after": "7"}),
        (503, "", {"retry-after": "0"}),
        (429, "", {"retry-after": "9999"}),
    ]
    waits: list[float] = []
    embedder(server, waits).embed(["text"])
    assert waits == [7, 0, 60]


def test_tries_come_to_an_end(server: Server) -> None:
    server.script = [(503, "still starting", {})] * 10
    with pytest.raises(RouteError, match=r"some-model at http://127.*status 503.*still starting"):
        embedder(server).embed(["text"])
    assert len(server.bodies) == TRIES


def test_a_refusal_is_not_tried_again_and_never_shows_the_key(server: Server) -> None:
    server.script = [(401, f"bad key {KEY}", {})]
    with pytest.raises(RouteError, match=r"key_env.*bad key \[key\]") as caught:
        embedder(server).embed(["text"])
    assert KEY not in str(caught.value) and len(server.bodies) == 1


def test_nothing_listens_there() -> None:
    waits: list[float] = []
    with pytest.raises(RouteError, match="Is it running"):
        EndpointEmbedder("http://127.0.0.1:9/v1", "m", None, sleep=waits.append).embed(["text"])
    assert len(waits) == TRIES - 1


@pytest.mark.parametrize(("url", "key"), [("ftp://x/v1", KEY), ("nonsense", KEY), ("http://127.0.0.1:9", "a\nb")])
def test_an_address_or_key_that_cannot_be_used_is_refused_before_a_request(url: str, key: str) -> None:
    with pytest.raises(RouteError, match=r"base_url is not|HTTP header cannot carry") as caught:
        EndpointEmbedder(url, "m", key).embed(["text"])
    assert key not in str(caught.value)


def rows(*embeddings: list[object]) -> str:
    return json.dumps({"data": [{"index": n, "embedding": one} for n, one in enumerate(embeddings)]})


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (rows([1.0, 0.0]), "1 embeddings for 2 texts"),
        (rows([1.0], [1.0], [1.0]), "3 embeddings for 2 texts"),
        ('{"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]}', "not one for each"),
        (rows([1.0, 0.0], [1.0]), "1 numbers instead of 2"),
        (rows([1.0, float("nan")], [1.0, 0.0]), "not finite"),
        (rows([1.0, 0.0], [1.0, float("inf")]), "not finite"),
        (rows([1.0, None], [1.0, 0.0]), "no embeddings"),
        (rows([], []), "no embeddings"),
        ("<html>hello</html>", "no embeddings.*hello"),
        ('{"error": "no such model"}', "no embeddings.*no such model"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(server: Server, said: str, reason: str) -> None:
    server.script = [(200, said, {})]
    with pytest.raises(RouteError, match=reason):
        embedder(server).embed(["one", "two"])
    assert len(server.bodies) == 1


def test_a_size_other_than_asked_for_is_refused(server: Server) -> None:
    server.script = [(200, rows([1.0, 0.0, 0.0]), {})]
    with pytest.raises(RouteError, match="3 numbers instead of 4"):
        embedder(server, dimensions=4).embed(["one"])


def test_large_numbers_and_zeros_are_brought_to_length_one_or_left(server: Server) -> None:
    server.script = [(200, rows([3e300, 4e300], [0.0, 0.0]), {})]
    assert embedder(server).embed(["one", "two"]) == pytest.approx(np.array([[0.6, 0.8], [0, 0]]))


def test_a_text_that_is_too_long_is_halved_and_others_are_not(server: Server) -> None:
    server.max_chars = 1000
    texts = ["short text", "word " * 600]
    got = embedder(server).embed(texts)
    assert np.allclose(got, HashedEmbedder().embed([texts[0], texts[1][:750]]), atol=1e-6)
    server.max_chars = 1
    with pytest.raises(RouteError, match="maximum context length"):
        embedder(server).embed(texts)


def test_what_follows_the_limit_is_not_sent(server: Server) -> None:
    embedder(server).embed(["x" * MAX_CHARS + "tail"])
    assert server.bodies[0]["input"] == ["x" * MAX_CHARS]


def test_tokens_that_were_made_here_are_sent_in_the_texts_place(server: Server) -> None:
    own = embedder(server, tokenize=lambda text: [len(text), 7], name="given", size=512)
    assert own.embed(["text", " ", "longer"]).any(axis=1).tolist() == [True, False, True]
    assert server.bodies[0]["input"] == [[4, 7], [6, 7]] and own.name == "given"
    server.max_chars = 1
    with pytest.raises(RouteError, match="maximum context length"):
        own.embed(["text"])  # half of the tokens would lack the closing one


def test_the_settings_open_it_with_a_cache(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBED_KEY", KEY)
    settings = EmbedderSettings(kind="endpoint", model="m", base_url=server.url, key_env="EMBED_KEY", dimensions=16)
    opened = open_embedder(settings)
    first = opened.embed(["a text", "another"])
    assert isinstance(opened, CachedEmbedder)
    assert first.shape == (2, 16) and server.keys == [f"Bearer {KEY}"]
    assert np.array_equal(open_embedder(settings).embed(["another"])[0], first[1])
    assert len(server.bodies) == 1


# What it costs

PRICE = {"input": "100", "output": "0"}


def metered_settings(server: Server, **more: object) -> Settings:
    given = {"kind": "endpoint", "model": "some-model", "base_url": server.url, "price": PRICE, **more}
    return Settings.model_validate({"route": {"embedder": given}})


class Asking(Router):
    """Wants the issue's vector, also where nothing was learned from any."""

    def route(self, text: str, state: State | None) -> Decision:
        self.embedder.embed([text])
        return super().route(text, state)


@pytest.mark.parametrize(("price", "cost"), [("100", "0.0003"), ("0", "0"), (None, None)])
async def test_a_runs_vector_is_on_its_bill(
    server: Server, make_repo: Callable[..., Path], tier: Tier, tmp_path: Path, price: str | None, cost: str | None
) -> None:
    settings = metered_settings(server, price=price and {"input": price, "output": "0"})
    cost_usd = None if cost is None else Decimal(cost)
    task = open_task(make_repo({"a.py": "x = 1\n"}), "the parser fails")
    with open_kit(task, settings) as kit:
        context = replace(kit.context, router=Asking(settings, tmp_path / "resumes"))
        stages = replace(kit, context=context).open(task)
        decision = await stages.route(await stages.scout())
        run = stages.run.close()
        (receipt,) = kit.ledger.receipts(run.id)
        assert (receipt.component, receipt.model, receipt.usage) == ("route", "some-model", Usage(input_tokens=3))
        assert decision.cost_usd == run.cost_usd == receipt.cost_usd == cost_usd
        assert run.lost_usd == (None if cost is None else 0) and audit(kit.ledger).problems == ()
        (trajectory,) = kit.context.attempts.glob("*/*/trajectory.jsonl")
    assert receipts(trajectory) == (receipt,) and server.keys == [None]


def test_outside_of_a_run_a_trajectory_says_what_was_paid(server: Server) -> None:
    own = embedder(server, price=Price(input=Decimal(100), output=Decimal(0)))
    own.embed(["one", "two"])
    (trajectory,) = (data_folder() / "traces").glob("embedder-*/trajectory.jsonl")
    assert [(one.cost_usd, one.estimated) for one in receipts(trajectory)] == [(Decimal("0.0006"), False)]
    assert KEY not in trajectory.read_text()
    server.script = [(200, rows([1.0] * 512), {})]  # without a count
    own.embed(["one"])
    paths = set((data_folder() / "traces").glob("embedder-*/trajectory.jsonl")) - {trajectory}
    assert [one.estimated for path in paths for one in receipts(path)] == [True]


async def test_a_call_that_may_cost_more_than_a_choice_may_is_not_sent(server: Server, tmp_path: Path) -> None:
    settings = metered_settings(server).route.embedder
    own = embedder(server, price=settings.price)
    booked: list[Receipt] = []
    async with on_the_bill(settings, tmp_path / "step", booked.append):
        with pytest.raises(RouteError, match=r"status 402.*left, and the next call may cost more"):
            await asyncio.to_thread(own.embed, ["x" * 16_000] * 30)
    assert not server.bodies and not booked


async def test_an_embedders_account_generates_nothing(server: Server, tmp_path: Path) -> None:
    settings = metered_settings(server).route.embedder
    async with on_the_bill(settings, tmp_path / "step", lambda receipt: None):
        way = httpx.AsyncHTTPTransport(verify=False, uds=str(SOCKET.get()))
        async with httpx.AsyncClient(transport=way, base_url="http://meter/v1") as client:
            body = {"model": "some-model", "messages": [{"role": "user", "content": "hi"}]}
            assert (await client.post("/chat/completions", json=body)).status_code == 404
    assert not server.bodies


def test_a_total_needs_the_embedders_price(server: Server) -> None:
    assert metered_settings(server).route.embedder.max_cost_usd == 30
    refuse_unbounded(metered_settings(server), Decimal(1))
    refuse_unbounded(metered_settings(server, price=None), None)
    with pytest.raises(ConfigError, match=r"route\.embedder\.price"):
        refuse_unbounded(metered_settings(server, price=None), Decimal(1))


def test_a_server_of_scrouts_own_is_asked_directly(server: Server) -> None:
    embedder(server, own_server=True).embed(["one"])
    assert server.paths == ["/v1/embeddings"] and server.keys == [f"Bearer {KEY}"]
    assert not list(data_folder().glob("traces/embedder-*"))
