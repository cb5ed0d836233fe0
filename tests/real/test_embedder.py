"""A real model file as an embedder."""

from __future__ import annotations

import numpy as np
import pytest

from scrout.base import ModelError
from scrout.config.settings import EmbedderSettings
from scrout.models import local_server
from scrout.models.local_server import ServedModel
from scrout.route.embed import open_embedder
from scrout.route.embedders.gguf import GgufEmbedder

from .conftest import smollm2


@pytest.fixture(scope="module")
def embedder(_packages: None) -> GgufEmbedder:
    return GgufEmbedder(EmbedderSettings(kind="gguf", path=str(smollm2()), pooling="mean"))


def test_a_model_file_gives_rows_of_length_one(embedder: GgufEmbedder) -> None:
    rows = embedder.embed(["a crash on start", "", "segmentation fault at launch", "words and words " * 9_000])
    assert rows.shape == (4, embedder.size) and rows.dtype == np.float32
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1, 0, 1, 1], abs=1e-5)
    assert not np.allclose(rows[0], rows[2])


def test_the_name_is_the_files_and_the_poolings(embedder: GgufEmbedder) -> None:
    last = open_embedder(EmbedderSettings(kind="gguf", path=str(smollm2()), pooling="last"))
    assert embedder.name.startswith("gguf-") and embedder.name.endswith("-mean")
    assert last.name == embedder.name.replace("-mean", "-last")


def test_a_file_that_is_no_model_is_told(_packages: None, tmp_path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF and nothing else")
    with pytest.raises(ModelError, match="cannot serve"):
        local_server.start(ServedModel(path=str(tmp_path / "model.gguf")), tmp_path / "log")
