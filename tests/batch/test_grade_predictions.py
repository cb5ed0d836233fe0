"""Files of predictions as others write them, and those of a batch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scrout.base import TaskError
from scrout.batch.folder import BatchFolder
from scrout.batch.grading.patches import Prediction, prediction_files, read_arms, read_predictions

ROW = {"instance_id": "a", "model_name_or_path": "m", "model_patch": "diff"}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(ROW) + "\n\n",
        "\ufeff" + json.dumps(ROW),
        json.dumps([ROW]),
        json.dumps({"a": {"model_patch": "diff", "model_name_or_path": "m"}}),
        json.dumps([{"instance_id": "a", "patch": "diff", "prefix": "p", "model_name_or_path": "m"}]),
        json.dumps(ROW, indent=1).replace("\n", ""),
    ],
)
def test_forms(tmp_path: Path, text: str) -> None:
    path = tmp_path / "predictions"
    path.write_text(text)
    assert read_predictions(path) == {"a": Prediction("a", "diff", "m")}
    assert read_arms(path) == {"": read_predictions(path)} and prediction_files(path) == {"": path}


def test_bytes_that_are_no_text_travel_in_a_patch(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"instance_id": "a", "model_patch": "caf\\udce9"}\n')
    assert read_predictions(path)["a"].patch == "caf\udce9"


def test_no_patch_is_an_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"instance_id": "a", "model_patch": null}\n{"instance_id": "b"}\n')
    assert [one.patch for one in read_predictions(path).values()] == ["", ""]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "holds no predictions"),
        ('{"instance_id": "a"}\n{"instance', r"p.jsonl:2: .*cut off"),
        ('{"model_patch": "x"}\n{}', r"p.jsonl:1: there is no instance_id"),
        ('{"instance_id": "a", "model_patch": 3}\n{}', r"patch of a is not text"),
        ('[{"instance_id": "a"}, {"instance_id": "a"}]', r"p.jsonl\[2\]: a already has a prediction"),
        ("[1]", "it is not an object"),
        ('{"instance_id": "a", "model_patch": "\\ud800"}\n', "half a character"),
        ("[" * 100_000, "not JSON"),
        ("\0", "not JSON"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(text)
    with pytest.raises(TaskError, match=words):
        read_predictions(path)


def test_files_that_are_not_text_or_not_there(tmp_path: Path) -> None:
    (tmp_path / "p").write_bytes(b"\xff")
    with pytest.raises(TaskError, match="not UTF-8"):
        read_predictions(tmp_path / "p")
    with pytest.raises(TaskError, match="Check the path"):
        read_predictions(tmp_path / "gone")


def test_a_batch_has_its_arms(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="no batch"):
        read_arms(tmp_path)
    out = tmp_path / "out"
    out.mkdir()
    folder = BatchFolder(out)
    folder.begin("s", "t", 1, ("handoff/routed", "solo/x"), "1")
    with pytest.raises(TaskError, match="no predictions yet"):
        read_arms(out)
    folder.predictions.mkdir()
    (folder.predictions / "solo-x.jsonl").write_text(json.dumps(ROW) + "\n")
    assert read_arms(out) == {"solo/x": {"a": Prediction("a", "diff", "m")}}
