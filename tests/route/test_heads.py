from __future__ import annotations

import json
import math
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrout.errors import RouteError
from scrout.route.embed import HashedEmbedder, Vectors
from scrout.route.heads import ResumeHead, features, fit_head, load, save
from scrout.route.resume import Outcome, Resume, build_resume

Plane = tuple[float, float]


def resume(fixer: str, solved_at: Plane, failed_at: Plane, solved: int, n: int) -> Resume:
    return Resume(
        fixer=fixer,
        embedder="plane",
        n=n,
        solved=solved,
        solo_cost_usd=None,
        handoff_cost_usd=None,
        solved_centroid=solved_at,
        failed_centroid=failed_at,
    )


def at(*degrees: float) -> Vectors:
    turns = np.radians(degrees)
    return np.column_stack([np.cos(turns), np.sin(turns)]).astype(np.float32)


EAST = resume("east", (1.0, 0.0), (0.0, 1.0), 10, 25)
WEST = resume("west", (-0.5, 0.5), (0.6, 0.2), 20, 40)
TASKS = np.concatenate([at(*range(0, 181, 20))] * 2)
RESUMES = [EAST] * 10 + [WEST] * 10
RESOLVED = [bool(int(bit)) for bit in "11101010000100010111"]


def fitted() -> ResumeHead:
    return ResumeHead("plane").fit(TASKS, RESUMES, RESOLVED)


def objective(x: np.ndarray, y: np.ndarray, w: np.ndarray) -> float:
    """Written out from its definition: half the squared coefficients and the log loss; w ends with the intercept."""
    p = 1 / (1 + np.exp(-(x @ w[:-1] + w[-1])))
    return float(0.5 * (w[:-1] ** 2).sum() - (y * np.log(p) + (1 - y) * np.log(1 - p)).sum())


def test_the_six_features() -> None:
    half = resume("half", (3.0, 0.0), (0.0, 0.2), 1, 2)
    (row,) = features(at(60), [half])
    c, s = math.cos(math.radians(60)), math.sin(math.radians(60))
    assert row == pytest.approx([c, s, c - s, 0.5, c * 0.5, (c - s) * 0.5], abs=1e-6)


def test_a_vector_of_zeros_has_cosine_zero() -> None:
    (row,) = features(np.zeros((1, 2), dtype=np.float32), [EAST])
    assert row.tolist() == [0, 0, 0, 0.4, 0, 0]


def test_the_values_of_scikit_learn() -> None:
    # StandardScaler and LogisticRegression(C=1.0, tol=1e-12) of scikit-learn on the same rows.
    head = fitted()
    assert head.mean_ == pytest.approx([0.20051009, 0.37323493, -0.17272484, 0.45, 0.10025505, -0.05800601], abs=1e-7)
    assert head.scale_ == pytest.approx([0.69627272, 0.59640228, 1.12182632, 0.05, 0.31056227, 0.52318003], abs=1e-7)
    assert head.coef_ == pytest.approx([0.4051057, -0.1005669, 0.3048978, -0.3443666, 0.195765, 0.2230857], abs=1e-6)
    assert head.intercept_ == pytest.approx(-0.0084174, abs=1e-6)
    chances = head.predict_proba(TASKS, RESUMES)[[0, 9, 10, 19]]
    assert chances == pytest.approx([0.827358, 0.271781, 0.1196962, 0.7683923], abs=1e-6)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.booleans(), min_size=20, max_size=20).filter(lambda bits: 0 < sum(bits) < 20), st.data())
def test_no_neighbour_of_the_fit_is_better(bits: list[bool], data: st.DataObject) -> None:
    degrees = data.draw(st.lists(st.floats(0, 360), min_size=20, max_size=20))
    vectors = at(*degrees)
    head = ResumeHead("plane").fit(vectors, RESUMES, bits)
    x = (features(vectors, RESUMES) - head.mean_) / head.scale_
    y = np.array(bits, dtype=float)
    w = np.append(head.coef_, head.intercept_)
    p = head.predict_proba(vectors, RESUMES)
    gradient = np.append(head.coef_ + x.T @ (p - y), (p - y).sum())
    assert np.abs(gradient).max() < 1e-6
    best = objective(x, y, w)
    for axis in range(len(w)):
        for distance in (-0.1, -0.01, 0.01, 0.1):
            assert objective(x, y, w + distance * np.eye(len(w))[axis]) > best


def test_features_that_never_vary_leave_the_mean_of_the_outcomes() -> None:
    head = ResumeHead("plane").fit(at(*[45] * 4), [EAST] * 4, [True, False, False, False])
    assert head.scale_.tolist() == [1.0] * 6
    assert head.coef_ == pytest.approx([0.0] * 6, abs=1e-9)
    assert head.intercept_ == pytest.approx(math.log(1 / 3))
    assert head.predict_proba(at(200), [EAST])[0] == pytest.approx(0.25, abs=1e-6)


def test_perfectly_separable_outcomes_settle() -> None:
    head = ResumeHead("plane").fit(at(*[0] * 500, *[90] * 500), [EAST] * 1000, [True] * 500 + [False] * 500)
    east, north = head.predict_proba(at(0, 90), [EAST] * 2)
    assert east > 0.95 and north < 0.05


@pytest.mark.parametrize("resolved", [[True] * 20, [False] * 20])
def test_one_kind_of_outcome_is_refused(resolved: list[bool]) -> None:
    with pytest.raises(RouteError, match="of 20 outcomes are solved"):
        ResumeHead("plane").fit(TASKS, RESUMES, resolved)


def test_another_embedder_or_size_is_refused() -> None:
    with pytest.raises(RouteError, match="résumé of east was made with plane, the text head with other"):
        ResumeHead("other").fit(TASKS, RESUMES, RESOLVED)
    with pytest.raises(RouteError, match=r"\(1, 3\)"):
        fitted().predict_proba(np.ones((1, 3), dtype=np.float32), [EAST])


def test_a_fixer_that_was_not_fitted_on_gets_a_chance() -> None:
    south = resume("south", (0.0, -1.0), (0.0, 1.0), 13, 26)
    near, far = fitted().predict_proba(at(270, 90), [south] * 2)
    assert 0 < far < near < 1


def test_json_gives_back_the_same_head(tmp_path: Path) -> None:
    head = fitted()
    save(head, tmp_path)
    back = load(tmp_path)["text"]
    assert (back.space, back.embedder, back.rows_) == ("text", "plane", 20)
    assert np.array_equal(back.predict_proba(TASKS, RESUMES), head.predict_proba(TASKS, RESUMES))
    assert back.to_json() == head.to_json()


@pytest.mark.parametrize(
    "changes",
    [{"coef": [0.0] * 5}, {"scale": [0.0] * 6}, {"intercept": float("nan")}, {"space": "../text"}, {"version": 2}],
)
def test_a_head_that_cannot_be_used_is_named(tmp_path: Path, changes: dict[str, object]) -> None:
    path = save(fitted(), tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(RouteError, match=r"text\.head\.json: not a fitted head"):
        load(tmp_path)


def test_a_head_under_another_spaces_name_is_refused(tmp_path: Path) -> None:
    save(fitted(), tmp_path).rename(tmp_path / "state.head.json")
    with pytest.raises(RouteError, match="is the head of space 'text'"):
        load(tmp_path)


def test_fit_head_takes_every_outcome_of_every_fixer() -> None:
    embedder = HashedEmbedder()
    outcomes = {
        fixer: [
            Outcome(
                instance_id=f"t{n}",
                text=f"{'parser' if n % 2 else 'socket'} issue {n}",
                resolved=bool(n % 2) == likes_parsers or n == 3,
                cost_usd=Decimal("0.1"),
                arm="handoff",
            )
            for n in range(30)
        ]
        for fixer, likes_parsers in (("a", True), ("b", False))
    }
    resumes = {fixer: build_resume(fixer, rows, embedder) for fixer, rows in outcomes.items()}
    head = fit_head(resumes, outcomes, embedder)
    assert (head.rows_, head.embedder, head.space) == (60, embedder.name, "text")
    rows = [(row, resumes[fixer]) for fixer in outcomes for row in outcomes[fixer]]
    direct = ResumeHead(embedder.name).fit(
        embedder.embed([row.text for row, _ in rows]), [one for _, one in rows], [row.resolved for row, _ in rows]
    )
    assert head.to_json() == direct.to_json()
    with pytest.raises(RouteError, match="b has outcomes but no résumé"):
        fit_head({"a": resumes["a"]}, outcomes, embedder)
