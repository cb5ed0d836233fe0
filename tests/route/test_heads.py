"""The paper's heads: six features, a standard scaler and a logistic regression, as scikit-learn has them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.base import RouteError
from scrout.route.embed import Vectors
from scrout.route.heads import Floats, ResumeHead, features, load, save
from scrout.route.resume import ResumeVectors

Plane = tuple[float, float]
SPACE = "text/plane"


def stands(name: str, solved_at: Plane, failed_at: Plane, base_rate: float) -> ResumeVectors:
    return ResumeVectors(name, np.array(solved_at), np.array(failed_at), base_rate)


def at(*degrees: float) -> Vectors:
    turns = np.radians(degrees)
    return np.column_stack([np.cos(turns), np.sin(turns)]).astype(np.float32)


EAST = stands("east", (1.0, 0.0), (0.0, 1.0), 0.4)
WEST = stands("west", (-0.5, 0.5), (0.6, 0.2), 0.5)
TASKS = np.concatenate([at(*range(0, 181, 20))] * 2)
STANDINGS = [EAST] * 10 + [WEST] * 10
RESOLVED = [bool(int(bit)) for bit in "11101010000100010111"]


def fitted() -> ResumeHead:
    return ResumeHead(SPACE).fit(TASKS, STANDINGS, RESOLVED)


def objective(x: Floats, y: Floats, w: Floats) -> float:
    """Written out from its definition: half the squared coefficients and the log loss; w ends with the intercept."""
    p = 1 / (1 + np.exp(-(x @ w[:-1] + w[-1])))
    return float(0.5 * (w[:-1] ** 2).sum() - (y * np.log(p) + (1 - y) * np.log(1 - p)).sum())


def test_the_six_features() -> None:
    half = stands("half", (3.0, 0.0), (0.0, 0.2), 0.5)
    (row,) = features(at(60), [half])
    c, s = math.cos(math.radians(60)), math.sin(math.radians(60))
    assert row == pytest.approx([c, s, c - s, 0.5, c * 0.5, (c - s) * 0.5], abs=1e-6)


def test_a_vector_of_zeros_has_cosine_zero() -> None:
    (row,) = features(np.zeros((1, 2)), [EAST])
    assert row.tolist() == [0, 0, 0, 0.4, 0, 0]


def test_the_stored_values_of_scikit_learn() -> None:
    # StandardScaler and LogisticRegression(C=1.0, tol=1e-12) of scikit-learn on the same rows.
    head = fitted()
    assert head.mean_ == pytest.approx([0.20051009, 0.37323493, -0.17272484, 0.45, 0.10025505, -0.05800601], abs=1e-7)
    assert head.scale_ == pytest.approx([0.69627272, 0.59640228, 1.12182632, 0.05, 0.31056227, 0.52318003], abs=1e-7)
    assert head.coef_ == pytest.approx([0.4051057, -0.1005669, 0.3048978, -0.3443666, 0.195765, 0.2230857], abs=1e-6)
    assert head.intercept_ == pytest.approx(-0.0084174, abs=1e-6)
    probabilities = head.predict_proba(TASKS, STANDINGS)[[0, 9, 10, 19]]
    assert probabilities == pytest.approx([0.827358, 0.271781, 0.1196962, 0.7683923], abs=1e-6)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_scikit_learn_itself_agrees(seed: int) -> None:
    linear_model = pytest.importorskip("sklearn.linear_model", reason="scikit-learn is not installed")
    preprocessing = pytest.importorskip("sklearn.preprocessing", reason="scikit-learn is not installed")
    draws = np.random.default_rng(seed)
    vectors = draws.normal(size=(80, 5))
    centroids = draws.normal(size=(4, 2, 5))
    pool = [
        ResumeVectors(str(i), solved, failed, rate)
        for i, ((solved, failed), rate) in enumerate(zip(centroids, (0.3, 0.5, 0.55, 0.8), strict=True))
    ]
    standings = [pool[i % 4] for i in range(80)]
    resolved = (draws.random(80) < [one.base_rate for one in standings]).tolist()
    head = ResumeHead(SPACE).fit(vectors, standings, resolved)
    rows = features(vectors, standings)
    scaler = preprocessing.StandardScaler().fit(rows)
    theirs = linear_model.LogisticRegression(C=1.0, max_iter=1000, tol=1e-10).fit(scaler.transform(rows), resolved)
    assert head.mean_ == pytest.approx(scaler.mean_, abs=1e-12)
    assert head.scale_ == pytest.approx(scaler.scale_, abs=1e-12)
    assert head.coef_ == pytest.approx(theirs.coef_[0], abs=1e-4)
    expected = theirs.predict_proba(scaler.transform(rows))[:, 1]
    assert head.predict_proba(vectors, standings) == pytest.approx(expected, abs=1e-4)


@given(st.lists(st.booleans(), min_size=20, max_size=20).filter(lambda bits: 0 < sum(bits) < 20), st.data())
def test_no_neighbour_of_the_fit_is_better(bits: list[bool], data: st.DataObject) -> None:
    degrees = data.draw(st.lists(st.floats(0, 360), min_size=20, max_size=20))
    vectors = at(*degrees)
    head = ResumeHead(SPACE).fit(vectors, STANDINGS, bits)
    x = (features(vectors, STANDINGS) - head.mean_) / head.scale_
    y = np.array(bits, dtype=float)
    w = np.append(head.coef_, head.intercept_)
    p = head.predict_proba(vectors, STANDINGS)
    gradient = np.append(head.coef_ + x.T @ (p - y), (p - y).sum())
    assert np.abs(gradient).max() < 1e-6
    best = objective(x, y, w)
    for axis in range(len(w)):
        for distance in (-0.1, -0.01, 0.01, 0.1):
            assert objective(x, y, w + distance * np.eye(len(w))[axis]) > best


def test_features_that_never_vary_leave_the_mean_of_the_outcomes() -> None:
    head = ResumeHead(SPACE).fit(at(*[45] * 4), [EAST] * 4, [True, False, False, False])
    assert head.scale_.tolist() == [1.0] * 6
    assert head.coef_ == pytest.approx([0.0] * 6, abs=1e-9)
    assert head.intercept_ == pytest.approx(math.log(1 / 3))
    assert head.predict_proba(at(200), [EAST])[0] == pytest.approx(0.25, abs=1e-6)


def test_perfectly_separable_outcomes_settle() -> None:
    head = ResumeHead(SPACE).fit(at(*[0] * 500, *[90] * 500), [EAST] * 1000, [True] * 500 + [False] * 500)
    east, north = head.predict_proba(at(0, 90), [EAST] * 2)
    assert east > 0.95 and north < 0.05


@pytest.mark.parametrize("resolved", [[True] * 20, [False] * 20])
def test_one_kind_of_outcome_is_refused(resolved: list[bool]) -> None:
    with pytest.raises(RouteError, match="of 20 outcomes are solved"):
        ResumeHead(SPACE).fit(TASKS, STANDINGS, resolved)


def test_vectors_of_another_size_are_refused() -> None:
    with pytest.raises(RouteError, match=r"shape \(1, 3\) and centroids of shape \(1, 2\) do not pair"):
        fitted().predict_proba(np.ones((1, 3)), [EAST])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e300])
def test_vectors_that_are_no_numbers_are_refused(bad: float) -> None:
    with pytest.raises(RouteError, match="not numbers or are too large"):
        fitted().predict_proba([[bad, 1.0]], [EAST])
    rows = TASKS.astype(np.float64)
    rows[3, 0] = bad
    with pytest.raises(RouteError, match="not numbers or are too large"):
        ResumeHead(SPACE).fit(rows, STANDINGS, RESOLVED)


@given(st.tuples(*[st.floats(width=32, allow_nan=False, allow_infinity=False)] * 2))
def test_any_vector_of_numbers_has_a_probability(vector: Plane) -> None:
    (p,) = fitted().predict_proba([vector], [WEST])
    assert 0 <= p <= 1


def test_a_fixer_that_was_not_fitted_on_gets_a_probability() -> None:
    south = stands("south", (0.0, -1.0), (0.0, 1.0), 0.5)
    near, far = fitted().predict_proba(at(270, 90), [south] * 2)
    assert 0 < far < near < 1


def test_json_gives_back_the_same_head(tmp_path: Path) -> None:
    head = fitted()
    path = save(head, tmp_path / "new")
    assert path.name == "text%2Fplane.head.json"  # so no space can name a file elsewhere
    back = load(tmp_path / "none", tmp_path / "new")[SPACE]
    assert (back.space, back.rows_) == (SPACE, 20)
    assert np.array_equal(back.predict_proba(TASKS, STANDINGS), head.predict_proba(TASKS, STANDINGS))
    assert back.to_json() == head.to_json()


def test_a_later_folder_wins(tmp_path: Path) -> None:
    mine = ResumeHead(SPACE).fit(TASKS, STANDINGS, [not one for one in RESOLVED])
    save(fitted(), tmp_path / "shipped")
    save(mine, tmp_path / "own")
    assert load(tmp_path / "shipped", tmp_path / "own")[SPACE].to_json() == mine.to_json()
    assert load(tmp_path / "own", tmp_path / "shipped")[SPACE].to_json() == fitted().to_json()


@pytest.mark.parametrize(
    "changes",
    [
        {"coef": [0.0] * 5},
        {"scale": [0.0] * 6},
        {"intercept": math.nan},
        {"space": "../text"},
        {"version": 1},
        {"x": 1},
    ],
)
def test_a_head_that_cannot_be_used_is_named(tmp_path: Path, changes: dict[str, object]) -> None:
    path = save(fitted(), tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(RouteError, match=r"text%2Fplane\.head\.json: not a fitted head"):
        load(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]", b"[" * 100_000])
def test_a_file_that_is_no_head_is_named(tmp_path: Path, content: bytes) -> None:
    save(fitted(), tmp_path).write_bytes(content)
    with pytest.raises(RouteError, match=r"text%2Fplane\.head\.json: not a fitted head"):
        load(tmp_path)


def test_a_head_under_another_spaces_name_is_refused(tmp_path: Path) -> None:
    save(fitted(), tmp_path).rename(tmp_path / "state.head.json")
    with pytest.raises(RouteError, match=r"is the head of space 'text/plane'\. Rename it to text%2Fplane"):
        load(tmp_path)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RouteError, match=r"cannot write .*Choose a folder with `route\.resumes`"):
        save(fitted(), tmp_path / "file")
