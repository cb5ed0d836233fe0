"""What an encoder adds to recon, on planted numbers: no model is loaded."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from scrout.lab.train.ranker import RegressionRows, TaskRows

BENCH = Path(__file__).parents[2] / "bench"
VECTORS = {"issue": (1.0, 0.0), "near": (1.0, 0.0), "middle": (0.6, 0.8), "far": (0.0, 1.0)}


def encode(texts: Sequence[str], tokens: int) -> np.ndarray:
    return np.array([VECTORS[text] for text in texts], dtype=np.float32)


@pytest.fixture
def embeddings(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("embeddings")


def planted(bench: ModuleType, repo: str, gold: int, leak: bool = False) -> Any:
    """Four files with a function each. Only what the encoder reads tells which changed, unless the weights leak it."""
    changed = np.arange(4) == gold
    told = changed * 1.0 if leak else np.zeros(4)
    files = RegressionRows(repo, ("flat",), np.zeros((4, 1)), changed)
    functions = RegressionRows(repo, ("file", "flat"), np.column_stack([told, np.zeros(4)]), changed)
    paths = tuple(f"{name}.py" for name in "abcd")
    return bench.Case(
        lessons=TaskRows(files, files, functions),
        paths=paths,
        functions=tuple((path, "f", "function") for path in paths),
        file_of=np.arange(4),
        issue="issue",
        likely=np.array([3, 1, 2, 0]),
        texts=tuple("near" if row == gold else "far" for row in (3, 1, 2, 0)),
        answer=bench.Answer((paths[gold],), {}),
        gold=frozenset({(paths[gold], "f")}),
    )


def test_the_nearest_function_speaks_for_its_file(embeddings: ModuleType) -> None:
    case = replace(
        planted(embeddings, "a/one", 0),
        functions=(("b.py", "f", "function"), ("b.py", "g", "function"), ("c.py", "f", "function")),
        file_of=np.array([1, 1, 2]),
        likely=np.array([0, 2]),
        texts=("near", "middle"),
    )
    near = embeddings.nearness(case, encode)
    assert near.functions == pytest.approx([1.0, -1.0, -1.0], abs=1e-4)  # the second was not embedded
    assert near.files == pytest.approx([-1.0, 1.0, -1.0, -1.0], abs=1e-4)


def test_a_task_without_functions_has_no_nearness(embeddings: ModuleType) -> None:
    case = replace(planted(embeddings, "a/one", 0), functions=(), file_of=np.zeros(0, dtype=np.int64), texts=())
    near = embeddings.nearness(case, encode)
    assert near.files.tolist() == [0.0] * 4 and near.functions.tolist() == []


def test_a_text_is_read_once(embeddings: ModuleType) -> None:
    read: list[str] = []

    def noted(texts: Sequence[str], tokens: int) -> np.ndarray:
        read.extend(texts)
        return encode(texts, tokens)

    remembered = embeddings.remembering(noted)
    for texts in (["near", "far", "near"], ["middle", "far"]):
        assert (remembered(texts, 96) == encode(texts, 96)).all()
    assert read == ["near", "far", "middle"]
    remembered(["far"], 256)  # cut elsewhere, so it is another text
    assert read[3:] == ["far"]


def test_a_signal_that_tells_is_found_and_paired_by_task(embeddings: ModuleType) -> None:
    pytest.importorskip("sklearn", reason="fitting needs scikit-learn")
    cases = [planted(embeddings, repo, gold) for repo in ("a/one", "a/two") for gold in range(4) for _ in range(8)]
    report = embeddings.report(cases, [embeddings.nearness(case, encode) for case in cases])
    # All files look alike without the encoder, so the first stays first: right in one task of four.
    assert report["without"]["first_right"] == 0.25
    assert report["with"]["first_right"] == report["alone"]["first_right"] == 1.0
    assert report["with_less_without"]["first_right"]["mean"] == 0.75
    low, high = report["with_less_without"]["first_right"]["interval"]
    assert 0.5 < low < 0.75 < high < 1.0
    assert report["n"] == report["function_n"] == 64 and report["texts"] == {"functions": 256, "distinct": 2}


def test_functions_have_a_signal_of_their_own(embeddings: ModuleType) -> None:
    pytest.importorskip("sklearn", reason="fitting needs scikit-learn")
    cases = [planted(embeddings, repo, gold) for repo in ("a/one", "a/two") for gold in range(4)]
    near = [embeddings.nearness(case, encode) for case in cases]
    for own in near:
        own.files[0] = own.files.max()  # the first file looks as good as the right one
    found = embeddings.predict(cases, near)
    assert [own.ranking[0] for own in found] == ["a.py"] * 8
    assert [own.functions[0] for own in found] == [(f"{name}.py", "f") for name in "abcd"] * 2


def test_what_shipped_weights_know_of_a_task_is_not_used(embeddings: ModuleType) -> None:
    pytest.importorskip("sklearn", reason="fitting needs scikit-learn")
    cases = [planted(embeddings, repo, gold, leak=True) for repo in ("a/one", "a/two") for gold in range(4)]
    firsts = [found.functions[0] for found in embeddings.predict(cases, None)]
    assert firsts == [("a.py", "f")] * 8


def test_differences_leave_out_tasks_without_a_figure(embeddings: ModuleType) -> None:
    ours = [{"f1": 0.9, "function_acc 5": 1.0}, {"f1": 0.3}]
    theirs = [{"f1": 0.4, "function_acc 5": 0.0}, {"f1": 0.3}]
    found = embeddings.differences(ours, theirs)
    assert found["f1"] == {"mean": 0.25, "interval": [0.0, 0.5]}
    assert found["function_acc 5"] == {"mean": 1.0, "interval": [1.0, 1.0]}
    assert embeddings.means(ours) == {"f1": 0.6, "function_acc 5": 1.0}


def test_a_class_is_no_function_and_a_name_counts_once(embeddings: ModuleType) -> None:
    case = replace(
        planted(embeddings, "a/one", 1),
        functions=(
            ("a.py", "A", "class"),
            ("b.py", "f", "function"),
            ("b.py", "f", "function"),
            ("c.py", "g", "function"),
        ),
    )
    found = embeddings.ranked(case, np.array([0.1, 0.9, 0.2, 0.0]), np.array([4.0, 3.0, 2.0, 1.0]))
    assert found.functions == (("b.py", "f"), ("c.py", "g"))
    assert found.ranking == ("b.py", "c.py", "a.py", "d.py") and found.named == ("b.py",)
    figures = embeddings.figures(case, found)
    assert figures["first_right"] == figures["f1"] == figures["function_acc 5"] == 1.0
    assert embeddings.figures(case, embeddings.ranked(case, np.arange(4.0), None))["function_acc 10"] == 0.0
    assert "function_acc 5" not in embeddings.figures(replace(case, gold=frozenset()), found)


def test_whitespace_takes_no_room(embeddings: ModuleType) -> None:
    text = embeddings.function_text("a.py", "f", ["def f():", "        return  1", "x" * 600])
    assert text.startswith("a.py f\ndef f(): return 1 xxx") and len(text) == len("a.py f\n") + 500
