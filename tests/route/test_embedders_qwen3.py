"""Qwen3-Embedding: which token is taken and how much is read, on a random model of two layers."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scrout.base import RouteError
from scrout.config.settings import EmbedderSettings
from scrout.route.embed import open_embedder
from scrout.route.embedders.qwen3 import MAX_TOKENS, Qwen3Embedder

needs_transformers = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("torch", "transformers", "tokenizers")),
    reason="needs the extra states: pip install 'scrout[states]'",
)
needs_tokenizers = pytest.mark.skipif(
    find_spec("tokenizers") is None, reason="needs the extra tokenizer: pip install 'scrout[tokenizer]'"
)

WORDS = ("<unk>", "<end>", "the", "parser", "fails", "window")
END = WORDS.index("<end>")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint's tokenizer, which closes every text with a token of its own, and stand-ins for the rest."""
    made = tmp_path / "qwen3"
    made.mkdir()
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": END, "content": "<end>", "single_word": False, "lstrip": False, "rstrip": False}
            | {"normalized": False, "special": True}
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "<end>", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {"<end>": {"id": "<end>", "ids": [END], "tokens": ["<end>"]}},
        },
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {word: n for n, word in enumerate(WORDS)}, "unk_token": "<unk>"},
    }
    (made / "tokenizer.json").write_text(json.dumps(tokenizer))
    (made / "config.json").write_text(json.dumps({"model_type": "qwen3", "hidden_size": 32}))
    (made / "model.safetensors").write_bytes(b"weights that nobody loads")
    return made


@pytest.fixture
def model(folder: Path) -> Any:
    """The random model, saved into the folder."""
    import torch
    from transformers import Qwen3Config, Qwen3Model

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(WORDS),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        initializer_range=0.5,
    )
    made = Qwen3Model(config).eval()
    made.save_pretrained(folder)
    return made


@needs_transformers
def test_the_row_is_the_last_tokens_state_divided_by_its_length(folder: Path, model: Any) -> None:
    import torch

    embedder = Qwen3Embedder(folder)
    rows = embedder.embed(["the parser fails", "", "window"])
    assert rows.dtype == np.float32 and rows.shape == (3, embedder.size) == (3, 32) and not rows[1].any()
    for row, ids in ((rows[0], [2, 3, 4, END]), (rows[2], [5, END])):
        with torch.inference_mode():
            states = model(torch.tensor([ids])).last_hidden_state[0].numpy()
        assert np.allclose(row, states[-1] / np.linalg.norm(states[-1]), atol=1e-5)
        assert not np.allclose(row, states[-2] / np.linalg.norm(states[-2]), atol=1e-2)


@needs_transformers
def test_a_row_does_not_depend_on_its_neighbours(folder: Path, model: Any) -> None:
    embedder = Qwen3Embedder(folder)
    assert np.array_equal(embedder.embed(["the parser fails", "window"])[1], embedder.embed(["window"])[0])


@needs_transformers
def test_the_settings_open_it(folder: Path, model: Any) -> None:
    opened = open_embedder(EmbedderSettings(preset="paper", checkpoint=str(folder)))
    assert np.linalg.norm(opened.embed(["the parser fails"])) == pytest.approx(1, abs=1e-5)
    (folder / "model.safetensors").unlink()
    with pytest.raises(RouteError, match=r"no \*\.safetensors"):
        open_embedder(EmbedderSettings(preset="paper", checkpoint=str(folder))).embed(["another"])


@needs_transformers
def test_weights_that_cannot_be_loaded_are_refused(folder: Path) -> None:
    with pytest.raises(RouteError, match="transformers cannot load"):
        Qwen3Embedder(folder).embed(["the parser"])


@needs_tokenizers
def test_a_long_text_is_cut_before_the_closing_token(folder: Path) -> None:
    embedder = Qwen3Embedder(folder)
    ids = embedder.tokens_of("parser " * MAX_TOKENS + "window")
    assert MAX_TOKENS == 4096 and ids == [WORDS.index("parser")] * 4095 + [END]
    assert embedder.tokens_of("the lone \ud800") == [2, 0, 0, END]
    assert embedder.tokens_of(" \n") == []


@needs_tokenizers
def test_a_server_is_sent_the_same_tokens_and_gets_the_same_name(folder: Path) -> None:
    asked: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            said = json.dumps({"data": [{"index": 0, "embedding": [2.0] * 32}]}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, format: str, *args: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as httpd:
        threading.Thread(target=httpd.handle_request).start()
        url = f"http://127.0.0.1:{httpd.server_port}/v1"
        opened = open_embedder(EmbedderSettings(preset="paper", checkpoint=str(folder), base_url=url))
        assert np.linalg.norm(opened.embed(["the parser fails"])) == pytest.approx(1, abs=1e-5)
    assert asked[0]["model"] == "Qwen/Qwen3-Embedding-0.6B" and asked[0]["input"] == [[2, 3, 4, END]]
    assert opened.name == Qwen3Embedder(folder).name and opened.size == 32


def test_the_name_follows_weights_configuration_and_tokenizer(folder: Path) -> None:
    names = {Qwen3Embedder(folder).name}
    assert Qwen3Embedder(folder).name in names
    for file in ("model.safetensors", "config.json", "tokenizer.json"):
        (folder / file).write_bytes((folder / file).read_bytes() + b" ")
        names.add(Qwen3Embedder(folder).name)
    assert len(names) == 4 and all(name.startswith("qwen3-embedding-4096-") for name in names)


def test_a_model_of_another_kind_is_refused(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": "bert", "hidden_size": 32}')
    with pytest.raises(RouteError, match="'bert' model, not 'qwen3'"):
        _ = Qwen3Embedder(folder).size
    (folder / "config.json").write_text("{}")
    with pytest.raises(RouteError, match="not a model's configuration"):
        _ = Qwen3Embedder(folder).size


@pytest.mark.skipif(find_spec("torch") is not None, reason="torch is installed here")
def test_what_is_not_installed_comes_with_the_commands(folder: Path) -> None:
    with pytest.raises(RouteError, match=r"torch.*pip install 'scrout\[states\]'.*vllm serve"):
        open_embedder(EmbedderSettings(kind="qwen3", checkpoint=str(folder)))


@pytest.mark.skipif(find_spec("tokenizers") is not None, reason="tokenizers is installed here")
def test_a_server_needs_no_torch_here_but_the_tokenizer(folder: Path) -> None:
    with pytest.raises(RouteError, match=r"needs tokenizers,.*pip install 'scrout\[tokenizer\]'"):
        open_embedder(EmbedderSettings(kind="qwen3", checkpoint=str(folder), base_url="http://127.0.0.1:9/v1"))
