"""Fitting the ranker, and what it refuses to learn from."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from scrout.base import TaskError
from scrout.lab.train.blocklist import refuse_blocked
from scrout.lab.train.ranker import RegressionRows, fit, held_out, learn, read_tasks, scored
from scrout.scout.recon.ranker import load_model

ROW = {"instance_id": "a__b-1", "repo": "a/b", "base_commit": "0" * 40, "problem_statement": "x"}


def tasks(path: Path, *rows: dict[str, str]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(
    "planted",
    [
        {"repo": "django/django"},
        {"repo": "Django/Django"},
        {"repo": "somebody/sympy"},
        {"instance_id": "pytest-dev__pytest-5692"},
    ],
)
def test_a_row_of_a_measuring_repository_is_refused(tmp_path: Path, planted: dict[str, str]) -> None:
    with pytest.raises(TaskError):
        read_tasks([tasks(tmp_path / "rows.jsonl", ROW, {**ROW, **planted})])
    assert len(read_tasks([tasks(tmp_path / "rows.jsonl", ROW)])) == 1


def test_learning_refuses_it_too(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="django"):
        learn({**ROW, "repo": "django/django"}, tmp_path)


def test_what_ships_was_trained_on_none_of_them() -> None:
    from importlib.resources import files

    stored = json.loads((files("scrout.scout.recon") / "weights.json").read_text())
    assert stored["trained_on"]["repositories"]
    refuse_blocked(stored["trained_on"]["repositories"])
    assert load_model().files.weights


def examples(count: int) -> list[RegressionRows]:
    """Tasks of ten files, whose changed one has the largest first signal; the second signal is noise."""
    random = np.random.default_rng(0)
    made = []
    for number in range(count):
        values = random.normal(size=(10, 2))
        changed = values[:, 0] == values[:, 0].max()
        made.append(RegressionRows(f"repo-{number % 9}", ("signal", "noise"), values, changed))
    return made


def test_a_signal_is_learned_and_noise_is_not() -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is in the extra `train`")
    model = fit(examples(300), 1.0)
    assert model.weights["signal"] > 1 > 5 * abs(model.weights["noise"])


def test_held_out_probabilities_are_honest() -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is in the extra `train`")
    made = examples(300)
    found = scored(held_out(made, 1.0))
    assert found["tasks"] == len(made)
    assert found["first_right"] > 0.95
    assert 0.7 < found["promised_over_kept"] < 1.3
