from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.base import RouteError
from scrout.route.artifact import HEAD_FILE, MAX_BYTES, SPEC_FILE, Head, Released, RouterSpec, SpaceThreshold, decide

RECEIPTS = Path(__file__).parents[3] / "shared/data/receipts/routing_scenarios.json"

POOL = ("strong", "cheap")
SPEC = {
    "recipe": "mean of two heads — a key that decides nothing",
    "pool": ["strong", "cheap"],
    "anchor": "strong",
    "theta": 0.3,
    "text_only": {"recipe": "text head only", "theta": 0.425, "claim_bearing": False},
    "cheap_order": ["cheap", "strong"],
    "mean_solo_cost": {"strong": 0.7834, "cheap": 0.2078},
    "embedder": {"id": "some/embedder", "revision": "97b0c614", "max_seq_length": 4096, "normalize": True},
    "hidden_state": {"key": "state_pre_-4", "source": "end of the prompt"},
}


def arrays() -> dict[str, np.ndarray]:
    """Two fixers; text vectors of two numbers, states of three."""
    return {
        "pool": np.array(POOL),
        "text_s": np.array([[1, 0], [0, 2]], np.float32),
        "text_f": np.array([[0, 1], [3, 4]], np.float32),
        "text_p": np.array([0.5, 0.25]),
        "text_scaler_mean": np.array([0.1, 0, 0, 0.5, 0, 0]),
        "text_scaler_scale": np.array([0.5, 1, 2, 1, 1, 1]),
        "text_coef": np.array([1.0, -1, 2, 3, 0.5, -2]),
        "text_intercept": np.array([-0.2]),
        "state_s": np.array([[1, 0, 0], [0, 0, 5]], np.float32),
        "state_f": np.array([[1, 0, 0], [0, 0, -5]], np.float32),
        "state_p": np.array([0.5, 0.5]),
        "state_scaler_mean": np.zeros(6),
        "state_scaler_scale": np.ones(6),
        "state_coef": np.array([0.0, 0, 1, 0, 0, 0]),
        "state_intercept": np.array([0.0]),
    }


def write(folder: Path, spec: object = SPEC, **changed: np.ndarray) -> Path:
    (folder / SPEC_FILE).write_text(json.dumps(spec, ensure_ascii=False), encoding="utf-8")
    np.savez(folder / HEAD_FILE, **(arrays() | changed))
    return folder


def without(name: str) -> dict[str, object]:
    return {key: value for key, value in SPEC.items() if key != name}


def logistic(t: float) -> float:
    return 1 / (1 + math.exp(-t))


# Decisions


def test_a_worked_example(tmp_path: Path) -> None:
    decision = Released.load(write(tmp_path)).decide(text=[1, 0], state=[0, 0, 1])
    # strong, text: cos 1 and 0, so features 1, 0, 1, .5, .5, .5; scaled 1.8, 0, .5, 0, .5, .5; times the coefficients
    # 1.8 + 0 + 1 + 0 + .25 - 1 and the intercept -.2: 1.85.
    # cheap, text: cos 0 and .6, so 0, .6, -.6, .25, 0, -.15; scaled -.2, .6, -.3, -.25, 0, -.15; and likewise
    # -.2 - .6 - .6 - .75 + 0 + .3 - .2: -2.05.
    # state: cos 0 and 0 for strong, 1 and -1 for cheap, of which the difference counts: 0 and 2.
    text = {"strong": logistic(1.85), "cheap": logistic(-2.05)}
    state = {"strong": 0.5, "cheap": logistic(2)}
    assert decision.p_by_space["text"] == pytest.approx(text, abs=1e-6)
    assert decision.p_by_space["state"] == pytest.approx(state, abs=1e-6)
    assert decision.p_by_fixer == pytest.approx({"strong": 0.682064, "cheap": 0.497425}, abs=1e-6)
    assert (decision.fixer, decision.theta, decision.fallback) == ("cheap", 0.3, False)


def test_the_length_of_a_vector_does_not_count(tmp_path: Path) -> None:
    released = Released.load(write(tmp_path))
    short = released.decide(text=[0.6, 0.8], state=[0, 0.6, 0.8])
    long = released.decide(text=np.array([60.0, 80.0]), state=np.array([0, 3, 4], np.float32))
    assert long.p_by_fixer == pytest.approx(short.p_by_fixer, abs=1e-6)


def test_a_vector_of_zeros_is_as_far_from_every_centroid(tmp_path: Path) -> None:
    decision = Released.load(write(tmp_path)).decide(text=[1, 0], state=[0, 0, 0])
    assert decision.p_by_space["state"] == {"strong": 0.5, "cheap": 0.5}


def test_a_centroid_of_zeros_has_cosine_zero(tmp_path: Path) -> None:
    released = Released.load(write(tmp_path, state_s=np.zeros((2, 3), np.float32)))
    assert released.decide(text=[1, 0], state=[0, 0, 1]).p_by_space["state"] == pytest.approx(
        {"strong": 0.5, "cheap": logistic(1)}
    )


def test_logits_beyond_what_exp_can_hold(tmp_path: Path) -> None:
    released = Released.load(write(tmp_path, text_intercept=np.array([-5000.0]), state_intercept=np.array([5000.0])))
    decision = released.decide(text=[1, 0], state=[0, 0, 1])
    assert decision.p_by_space == {"text": dict.fromkeys(POOL, 0.0), "state": dict.fromkeys(POOL, 1.0)}


SPEC_OF_THREE = RouterSpec(pool=("dear", "mid", "low"), cheap_order=("low", "mid", "dear"), anchor="mid", theta=0.5)


@pytest.mark.parametrize(
    ("text", "fixer", "fallback"),
    [
        ((0.9, 0.9, 0.9), "low", False),
        ((0.9, 0.5, 0.4), "mid", False),
        ((0.5, 0.4, 0.4), "dear", False),
        ((0.4, 0.3, 0.4), "mid", True),
    ],
)
def test_the_first_in_cheap_order_that_reaches_theta_else_the_anchor(
    text: tuple[float, ...], fixer: str, fallback: bool
) -> None:
    probabilities = dict(zip(SPEC_OF_THREE.pool, text, strict=True))
    decision = decide(SPEC_OF_THREE, {"text": probabilities, "state": probabilities})
    assert (decision.fixer, decision.fallback) == (fixer, fallback)


# A missing space


def test_a_text_alone_is_compared_with_its_own_theta_and_not_with_the_blends() -> None:
    spec = SPEC_OF_THREE.model_copy(update={"text_only": SpaceThreshold(theta=0.7)})
    probabilities = {"dear": 0.8, "mid": 0.6, "low": 0.4}
    decision = decide(spec, {"text": probabilities})
    assert (decision.fixer, decision.theta, decision.p_by_fixer) == ("dear", 0.7, probabilities)
    as_released = decide(spec, {"text": probabilities}, as_released=True)
    assert (as_released.fixer, as_released.theta) == ("mid", 0.5)


def test_the_theta_of_the_text_is_read_from_the_spec(tmp_path: Path) -> None:
    released = Released.load(write(tmp_path))
    decision = released.decide(text=[1, 0])
    assert (decision.theta, list(decision.p_by_space)) == (0.425, ["text"])
    assert released.decide(text=[1, 0], as_released=True).theta == 0.3


def test_a_state_alone_is_refused_until_the_spec_has_a_theta_for_it(tmp_path: Path) -> None:
    released = Released.load(write(tmp_path))
    for as_released in (False, True):
        with pytest.raises(RouteError, match=r"no state_only\.theta.*Pass both vectors"):
            released.decide(state=[0, 0, 1], as_released=as_released)
    own = Released.load(write(tmp_path, SPEC | {"state_only": {"theta": 0.6}}))
    assert own.decide(state=[0, 0, 1]).theta == 0.6


def test_a_text_alone_is_refused_without_its_theta(tmp_path: Path) -> None:
    released = Released.load(write(tmp_path, without("text_only")))
    with pytest.raises(RouteError, match=r"no text_only\.theta"):
        released.decide(text=[1, 0])
    assert released.decide(text=[1, 0], as_released=True).theta == 0.3


def test_no_vector_at_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RouteError, match="neither"):
        Released.load(write(tmp_path)).decide(as_released=True)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ([1, 0, 0], r"text: a vector of shape \(3,\), where the head has \(2,\)"),
        ([[1, 0]], r"text: a vector of shape \(1, 2\)"),
        ([math.nan, 0], "text: a vector whose length is not finite"),
        ([1e200, 0], "text: a vector whose length is not finite"),
        ([1e30, 0], "text: a vector whose length is not finite"),
    ],
)
def test_a_vector_that_does_not_fit_is_refused(tmp_path: Path, text: Any, what: str) -> None:
    with pytest.raises(RouteError, match=what):
        Released.load(write(tmp_path)).decide(text=text, state=[0, 0, 1])


# Against an independent reading of the recipe


def slow_probability(x: Sequence[float], files: dict[str, Any], space: str, row: int) -> float:
    """The recipe in plain Python: cosine, StandardScaler.transform, LogisticRegression.predict_proba."""

    def cosine(a: Sequence[float], b: Sequence[float]) -> float:
        lengths = math.sqrt(math.fsum(v * v for v in a)) * math.sqrt(math.fsum(v * v for v in b))
        return math.fsum(v * w for v, w in zip(a, b, strict=True)) / lengths if lengths else 0.0

    def of(suffix: str) -> Any:
        return files[f"{space}_{suffix}"].tolist()

    s, f, p = cosine(x, of("s")[row]), cosine(x, of("f")[row]), of("p")[row]
    features = [s, f, s - f, p, s * p, (s - f) * p]
    scaled = [(v - m) / d for v, m, d in zip(features, of("scaler_mean"), of("scaler_scale"), strict=True)]
    return logistic(math.fsum(v * w for v, w in zip(scaled, of("coef"), strict=True)) + of("intercept")[0])


@given(
    seed=st.integers(0, 2**32 - 1),
    fixers=st.integers(1, 5),
    sizes=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    theta=st.floats(0, 1),
    precision=st.sampled_from([np.float32, np.float64]),
)
def test_every_probability_and_choice_is_the_recipes(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    fixers: int,
    sizes: tuple[int, int],
    theta: float,
    precision: type[np.floating[Any]],
) -> None:
    rng = np.random.default_rng(seed)
    pool = [f"fixer {number}" for number in range(fixers)]
    files: dict[str, np.ndarray] = {"pool": np.array(pool)}
    vectors = {}
    for space, size in zip(("text", "state"), sizes, strict=True):
        vectors[space] = rng.normal(size=size).astype(np.float32)
        files |= {f"{space}_{end}": rng.normal(size=(fixers, size)).astype(precision) for end in "sf"}
        files |= {f"{space}_{end}": rng.normal(size=6) for end in ("scaler_mean", "coef")}
        files[f"{space}_p"] = rng.uniform(size=fixers)
        files[f"{space}_scaler_scale"] = rng.uniform(0.2, 2, size=6)
        files[f"{space}_intercept"] = rng.normal(size=1)
    order = rng.permutation(pool).tolist()
    anchor = str(rng.choice(pool))
    spec = {"pool": pool, "cheap_order": order, "anchor": anchor, "theta": theta}
    folder = tmp_path_factory.mktemp("release")
    (folder / SPEC_FILE).write_text(json.dumps(spec), encoding="utf-8")
    np.savez(folder / HEAD_FILE, **files)

    decision = Released.load(folder).decide(text=vectors["text"], state=vectors["state"])

    expected = {
        fixer: sum(slow_probability(vectors[space].tolist(), files, space, row) for space in ("text", "state")) / 2
        for row, fixer in enumerate(pool)
    }
    assert decision.p_by_fixer == pytest.approx(expected, abs=2e-5)
    if all(abs(p - theta) > 2e-5 for p in expected.values()):
        cleared = [fixer for fixer in order if expected[fixer] >= theta]
        assert decision.fixer == (cleared[0] if cleared else anchor)
        assert decision.fallback == (not cleared)


def test_the_published_decisions() -> None:
    if not RECEIPTS.is_file():
        pytest.skip("the paper's receipts are not here")
    published = json.loads(RECEIPTS.read_text(encoding="utf-8"))
    by_task = published["probability_vectors"]
    spec = RouterSpec(
        pool=tuple(next(iter(by_task.values()))),
        cheap_order=tuple(published["cheap_order"]),
        anchor=published["anchor"],
        theta=published["theta"],
    )
    fallbacks = 0
    chosen = {}
    for task, by_fixer in by_task.items():
        decision = decide(
            spec,
            {
                "text": {fixer: p["p_text"] for fixer, p in by_fixer.items()},
                "state": {fixer: p["p_state"] for fixer, p in by_fixer.items()},
            },
        )
        assert decision.p_by_fixer == pytest.approx({fixer: p["p_blend"] for fixer, p in by_fixer.items()}, abs=1.1e-6)
        chosen[task] = decision.fixer
        fallbacks += decision.fallback
    assert len(chosen) == 266
    assert chosen == published["decisions"]
    assert fallbacks == published["fallback_fires"]


# Files


def test_what_was_read_is_written_again(tmp_path: Path) -> None:
    source, copy = tmp_path / "source", tmp_path / "deep" / "copy"
    source.mkdir()
    Released.load(write(source)).save(copy)
    assert sorted(path.name for path in copy.iterdir()) == [HEAD_FILE, SPEC_FILE]
    assert json.loads((copy / SPEC_FILE).read_text(encoding="utf-8")) == SPEC
    with np.load(copy / HEAD_FILE, allow_pickle=False) as archive:
        assert set(archive.files) == set(arrays())
        for name, array in arrays().items():
            assert archive[name].dtype == array.dtype
            assert (archive[name] == array).all()
    vectors = {"text": [0.3, 0.7], "state": [0.1, 0.2, -0.5]}
    assert Released.load(copy).decide(**vectors) == Released.load(source).decide(**vectors)


def test_the_pins_are_there_to_compare_with(tmp_path: Path) -> None:
    spec = Released.load(write(tmp_path)).spec
    assert spec.embedder is not None
    assert spec.hidden_state is not None
    assert (spec.embedder.id, spec.embedder.revision, spec.embedder.max_seq_length) == (
        "some/embedder",
        "97b0c614",
        4096,
    )
    assert spec.hidden_state.key == "state_pre_-4"


def test_what_could_not_be_read_is_not_written(tmp_path: Path) -> None:
    folder = tmp_path / "release"
    folder.mkdir()
    good = Released.load(write(folder))
    before = (folder / HEAD_FILE).read_bytes()
    text = Head(**(vars(good.text) | {"solved": good.text.solved[:1]}))
    with pytest.raises(RouteError, match=r"nothing was written to .* text_s has shape \(1, 2\), not \(2, 2\)"):
        Released(good.spec, text, good.state).save(folder)
    assert (folder / HEAD_FILE).read_bytes() == before
    assert sorted(path.name for path in folder.iterdir()) == [HEAD_FILE, SPEC_FILE]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    released = Released.load(write(tmp_path))
    with pytest.raises(RouteError, match=r"cannot write to .* Choose another folder"):
        released.save(tmp_path / SPEC_FILE / "below")


@pytest.mark.parametrize(
    ("name", "damaged", "what"),
    [
        ("text_s", np.ones((3, 2), np.float32), r"shape \(3, 2\), not \(2, 2\)"),
        ("text_s", np.float64(1), r"shape \(\), not \(2,\)"),
        ("text_s", np.ones((2, 0), np.float32), r"shape \(2, 0\)"),
        ("text_f", np.ones((2, 3), np.float32), r"shape \(2, 3\), not \(2, 2\)"),
        ("state_p", np.ones(3), r"shape \(3,\), not \(2,\)"),
        ("state_p", np.array([0.5, 1.5]), "base rate outside of 0 to 1"),
        ("text_scaler_mean", np.ones(5), r"shape \(5,\), not \(6,\)"),
        ("text_scaler_scale", np.array([1.0, 1, 0, 1, 1, 1]), "not above 0"),
        ("state_coef", np.ones((1, 6)), r"shape \(1, 6\), not \(6,\)"),
        ("state_coef", np.array([1.0, 1, math.nan, 1, 1, 1]), "not finite"),
        ("state_intercept", np.float64(1), r"shape \(\), not \(1,\)"),
        ("state_intercept", np.array([1]), "holds int64"),
        ("text_coef", np.array(["a"] * 6), "holds <U1"),
        ("text_coef", np.array([object()] * 6), "cannot be read"),
        ("pool", np.array(["cheap", "strong"]), r"\['cheap', 'strong'\], and \['strong', 'cheap'\] in router_spec"),
        ("pool", np.array([b"strong", b"cheap"]), r"is \[b'strong'"),
        ("pool", np.array("strong"), "is 'strong'"),
    ],
)
def test_a_damaged_array_is_named(tmp_path: Path, name: str, damaged: np.ndarray, what: str) -> None:
    write(tmp_path, **{name: damaged})
    with pytest.raises(RouteError, match=f"{name} .*{what}.*Take both files"):
        Released.load(tmp_path)


@pytest.mark.parametrize("name", arrays())
def test_a_missing_array_is_named(tmp_path: Path, name: str) -> None:
    write(tmp_path)
    np.savez(tmp_path / HEAD_FILE, **{key: value for key, value in arrays().items() if key != name})
    with pytest.raises(RouteError, match=f"has no array {name}\\. Take both files"):
        Released.load(tmp_path)


def test_an_array_that_unpacks_to_too_much_is_refused_unread(tmp_path: Path) -> None:
    write(tmp_path)
    with zipfile.ZipFile(tmp_path / HEAD_FILE, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("notes.npy", b"other arrays do not matter")
    Released.load(tmp_path)
    with (
        zipfile.ZipFile(tmp_path / HEAD_FILE, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("pool.npy", "w") as member,
    ):
        for _ in range(MAX_BYTES // 1_000_000 + 1):
            member.write(bytes(1_000_000))
    with pytest.raises(RouteError, match="pool unpacks to 65,000,000 bytes"):
        Released.load(tmp_path)


def test_a_header_that_promises_more_than_there_is(tmp_path: Path) -> None:
    write(tmp_path)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**15,)})
    with zipfile.ZipFile(tmp_path / HEAD_FILE, "w") as archive:
        for name, array in arrays().items():
            data = io.BytesIO()
            np.save(data, array)
            archive.writestr(f"{name}.npy", header.getvalue() if name == "state_p" else data.getvalue())
    with pytest.raises(RouteError, match="state_p cannot be read"):
        Released.load(tmp_path)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: b"no archive",
        lambda data: data[: len(data) // 2],
        lambda data: b"\x93NUMPY" + data,
        lambda data: data + bytes(MAX_BYTES),
    ],
)
def test_a_file_of_arrays_that_is_no_archive(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = write(tmp_path) / HEAD_FILE
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(RouteError, match=r"router_head\.npz .*Take both files"):
        Released.load(tmp_path)


@given(at=st.floats(0, 1, exclude_max=True), byte=st.integers(1, 255))
def test_one_wrong_byte_is_refused_or_harmless(tmp_path_factory: pytest.TempPathFactory, at: float, byte: int) -> None:
    folder = write(tmp_path_factory.mktemp("release"))
    path = folder / HEAD_FILE
    data = bytearray(path.read_bytes())
    data[int(at * len(data))] ^= byte
    path.write_bytes(data)
    try:
        released = Released.load(folder)
    except RouteError as error:
        assert HEAD_FILE in str(error)
    else:
        # What an archive's checksums do not cover is not content.
        assert (released.text.coef == arrays()["text_coef"]).all()


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        ([], "router_spec.json is not a released router's spec"),
        (without("theta"), "theta"),
        (without("cheap_order"), "cheap_order"),
        (SPEC | {"theta": 1.5}, "theta"),
        (SPEC | {"theta": math.nan}, "theta"),
        (SPEC | {"text_only": {"recipe": "no theta"}}, "text_only"),
        (SPEC | {"anchor": "stranger"}, "'stranger' is not in the pool: strong, cheap"),
        (SPEC | {"cheap_order": ["cheap", "stranger"]}, "'stranger' is not in the pool"),
        (SPEC | {"cheap_order": ["cheap", "cheap"]}, "cheap_order names a fixer twice"),
        (SPEC | {"pool": ["strong", "strong", "cheap"]}, "pool names a fixer twice"),
        (SPEC | {"pool": []}, "pool"),
    ],
)
def test_a_spec_that_cannot_be_used(tmp_path: Path, spec: object, what: str) -> None:
    write(tmp_path, spec)
    with pytest.raises(RouteError, match=f"(?s){what}.*Take both files"):
        Released.load(tmp_path)


@pytest.mark.parametrize("name", [SPEC_FILE, HEAD_FILE])
def test_a_file_that_is_not_there(tmp_path: Path, name: str) -> None:
    (write(tmp_path) / name).unlink()
    with pytest.raises(RouteError, match=f"{name}: No such file.*side by side"):
        Released.load(tmp_path)
