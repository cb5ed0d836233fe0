"""The router that the paper released, from its two files: `router_spec.json` and `router_head.npz`.

It reads and writes those files, and computes the released probabilities and decisions from them and a task's vectors.
It fits nothing and is not scrout's router: pool, order of prices and theta come from the spec, not from scrout.toml.

    router_spec.json   pool, cheap_order, anchor, theta of the blend, text_only.theta, the pinned embedder, the state's
                       key; other keys are kept as they are
    router_head.npz    pool, and for the spaces `text` and `state` each `_s` and `_f` (centroids of solved and failed
                       tasks, a row a fixer), `_p` (base rates), `_scaler_mean`, `_scaler_scale`, `_coef`, `_intercept`

One thing differs on purpose. Without a state, the release compares the text head's probability with the theta of the
blend, although its spec has another theta for the text alone. Here, a single space uses its own theta, or is refused;
`as_released=True` gives the release's behaviour.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict, Field, ValidationError, model_validator

from scrout.base import FrozenModel, RouteError
from scrout.files import atomic

SPEC_FILE = "router_spec.json"
HEAD_FILE = "router_head.npz"

MAX_BYTES = 64_000_000
"""Maximum size of a file or an unpacked array. The release has 0.15 million; a larger file is something else."""

Space = Literal["text", "state"]
SPACES: tuple[Space, ...] = get_args(Space)

Array = npt.NDArray[np.float32] | npt.NDArray[np.float64]
Vector = Sequence[float] | Array

FEATURES = 6

_SUFFIXES = {
    "solved": "s",
    "failed": "f",
    "base_rate": "p",
    "mean": "scaler_mean",
    "scale": "scaler_scale",
    "coef": "coef",
    "intercept": "intercept",
}
"""Names of a space's arrays in the file, by field of Head."""

_AGAIN = "Take both files from one release again."


class SpaceThreshold(FrozenModel):
    """The threshold of a single space."""

    model_config = ConfigDict(extra="allow")

    theta: float = Field(ge=0, le=1)


class EmbedderPin(FrozenModel):
    """The embedder that made the text vectors."""

    model_config = ConfigDict(extra="allow")

    id: str
    revision: str | None = None
    max_seq_length: int | None = None
    """In tokens; longer texts are cut."""


class StatePin(FrozenModel):
    """The searcher's hidden state."""

    model_config = ConfigDict(extra="allow")

    key: str
    """When and where it is taken: `state_pre_-4` is before decoding, layer -4."""


class RouterSpec(FrozenModel):
    """`router_spec.json`. Keys that are not used are kept unchanged."""

    model_config = ConfigDict(extra="allow")

    pool: tuple[str, ...] = Field(min_length=1)
    """Fixers in the order of the arrays' rows."""
    cheap_order: tuple[str, ...]
    """Fixers in the order in which `decide` tries them."""
    anchor: str
    theta: float = Field(ge=0, le=1)
    """Of both spaces together."""
    text_only: SpaceThreshold | None = None
    """None: the text alone cannot decide."""
    state_only: SpaceThreshold | None = None
    """None, as in the release: the state alone cannot decide."""
    embedder: EmbedderPin | None = None
    hidden_state: StatePin | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> RouterSpec:
        for key, names in (("pool", self.pool), ("cheap_order", self.cheap_order)):
            if len(set(names)) < len(names):
                raise ValueError(f"{key} names a fixer twice: {', '.join(names)}")
        for name in (*self.cheap_order, self.anchor):
            if name not in self.pool:
                raise ValueError(f"{name!r} is not in the pool: {', '.join(self.pool)}")
        return self


class ReleasedDecision(FrozenModel):
    fixer: str
    theta: float
    """The threshold for the probabilities."""
    p_by_fixer: dict[str, float]
    """Mean over the given spaces."""
    p_by_space: dict[Space, dict[str, float]]
    """By space and fixer, for the given spaces."""
    fallback: bool
    """True: no fixer reached theta, so the anchor was taken."""


def decide(
    spec: RouterSpec, p_by_space: Mapping[Space, Mapping[str, float]], *, as_released: bool = False
) -> ReleasedDecision:
    """Choose from each space's probabilities by fixer: takes their mean, then the first in cheap order that reaches
    theta.
    """
    theta = _theta(spec, p_by_space, as_released)
    spaces = list(p_by_space.values())
    p_by_fixer = {fixer: sum(probabilities[fixer] for probabilities in spaces) / len(spaces) for fixer in spec.pool}
    cleared = next((fixer for fixer in spec.cheap_order if p_by_fixer[fixer] >= theta), None)
    return ReleasedDecision(
        fixer=spec.anchor if cleared is None else cleared,
        theta=theta,
        p_by_fixer=p_by_fixer,
        p_by_space={space: dict(probabilities) for space, probabilities in p_by_space.items()},
        fallback=cleared is None,
    )


def _theta(spec: RouterSpec, given: Mapping[Space, object], as_released: bool) -> float:
    if not given:
        raise RouteError("neither a text vector nor a state was given. Pass at least the text's.")
    if len(given) == len(SPACES) or (as_released and "text" in given):
        return spec.theta
    (space,) = given
    point = spec.text_only if space == "text" else spec.state_only
    if point is None:
        raise RouteError(
            f"{SPEC_FILE} has no {space}_only.theta, so the {space} alone cannot decide. "
            "Pass both vectors, or calibrate a theta for this space and add it."
        )
    return point.theta


@dataclass(frozen=True, eq=False)
class Head:
    """One space's résumés and logistic regression, in their stored precision."""

    solved: Array
    """A row per fixer: mean vector of the tasks it solved."""
    failed: Array
    base_rate: Array
    mean: Array
    """Of each feature, with `scale`: the standard scaler."""
    scale: Array
    coef: Array
    intercept: Array
    """One number."""

    def predict_proba(self, vector: Vector) -> list[float]:
        """The probability of a solve, one per fixer. || The vector is normalized; zeros have cosine 0 to everything.

        Rounding is the release's: single precision up to the cosines, double from there. `heads.features` is exact,
        and would differ from published probabilities near theta.
        """
        x = self._unit(vector)
        return [
            self._probability(_cosine(x, solved), _cosine(x, failed), p)
            for solved, failed, p in zip(self.solved, self.failed, self.base_rate.tolist(), strict=True)
        ]

    def _probability(self, s: float, f: float, p: float) -> float:
        row = np.array([s, f, s - f, p, s * p, (s - f) * p])
        logit = (row - self.mean) / self.scale @ self.coef + float(self.intercept[0])
        with np.errstate(over="ignore"):  # an infinite denominator is a probability of 0
            return float(1.0 / (1.0 + np.exp(-logit)))

    def _unit(self, vector: Vector) -> npt.NDArray[np.float32]:
        with np.errstate(over="ignore"):
            x = np.asarray(vector, dtype=np.float32)
            length = np.linalg.norm(x)
        size = self.solved.shape[1]
        if x.shape != (size,):
            raise RouteError(f"a vector of shape {x.shape}, where the head has ({size},). Make it as the spec says.")
        if not np.isfinite(length):
            raise RouteError("a vector whose length is not finite. Make it again.")
        return x / length if length > 0 else x


def _cosine(x: npt.NDArray[np.float32], centroid: Array) -> float:
    # The added number keeps a centroid of zeros from dividing by zero, and has no effect on others.
    return float(x @ centroid / (np.linalg.norm(centroid) + 1e-12))


@dataclass(frozen=True, eq=False)
class Released:
    """The complete released router."""

    spec: RouterSpec
    text: Head
    state: Head

    @classmethod
    def load(cls, folder: Path) -> Released:
        """Read both files; raises a RouteError if one is missing, damaged or inconsistent with the other."""
        spec = _read_spec(folder / SPEC_FILE)
        text, state = _read_heads(folder / HEAD_FILE, spec.pool)
        return cls(spec, text, state)

    def save(self, folder: Path) -> None:
        """Write both files atomically, unless `load` would refuse them."""
        # Any, because numpy's types treat every keyword as its one option.
        arrays: dict[str, Any] = {"pool": np.array(self.spec.pool)}
        for space, head in (("text", self.text), ("state", self.state)):
            arrays |= {f"{space}_{suffix}": getattr(head, field) for field, suffix in _SUFFIXES.items()}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with atomic(folder / SPEC_FILE) as spec, atomic(folder / HEAD_FILE) as heads:
                np.savez(heads, **arrays)
                heads.flush()
                spec.write(self.spec.model_dump_json(indent=2, exclude_unset=True).encode() + b"\n")
                spec.flush()
                _read_heads(Path(heads.name), _read_spec(Path(spec.name)).pool)
        except OSError as error:
            raise RouteError(f"cannot write to {folder}: {error.strerror}. Choose another folder.") from None
        except RouteError as error:
            raise RouteError(f"nothing was written to {folder}, as it could not be read again: {error}") from None

    def decide(
        self, *, text: Vector | None = None, state: Vector | None = None, as_released: bool = False
    ) -> ReleasedDecision:
        """Choose a fixer from the vectors of a task; None: missing, so the other space decides alone.

        `as_released` compares a text without a state with the theta of the blend, as the release does.
        """
        given: tuple[tuple[Space, Head, Vector | None], ...]
        given = (("text", self.text, text), ("state", self.state, state))
        p_by_space: dict[Space, dict[str, float]] = {}
        for space, head, vector in given:
            if vector is not None:
                try:
                    probabilities = head.predict_proba(vector)
                except RouteError as error:
                    raise RouteError(f"{space}: {error}") from None
                p_by_space[space] = dict(zip(self.spec.pool, probabilities, strict=True))
        return decide(self.spec, p_by_space, as_released=as_released)


def _read_spec(path: Path) -> RouterSpec:
    try:
        return RouterSpec.model_validate_json(_read(path))
    except ValidationError as error:
        raise RouteError(f"{path} is not a released router's spec: {error}. {_AGAIN}") from None


def _read_heads(path: Path, pool: tuple[str, ...]) -> tuple[Head, Head]:
    arrays = _read_arrays(path)
    rows = arrays["pool"].tolist()
    if rows != list(pool):
        raise RouteError(f"{path}: pool is {rows!r:.200}, and {list(pool)} in {SPEC_FILE}. {_AGAIN}")
    text, state = (_head(path, space, arrays, len(pool)) for space in SPACES)
    return text, state


def _read_arrays(path: Path) -> dict[str, npt.NDArray[np.generic]]:
    """The arrays of a release by name; others are not read."""
    data = _read(path)
    try:
        archive = np.load(io.BytesIO(data), allow_pickle=False)
        sizes_bytes = {info.filename: info.file_size for info in archive.zip.infolist()}
    except Exception as error:  # damaged bytes raise any error of zipfile, zlib or numpy
        raise RouteError(f"{path} is not a readable npz file: {error}. {_AGAIN}") from None
    arrays = {}
    for name in ("pool", *(f"{space}_{suffix}" for space in SPACES for suffix in _SUFFIXES.values())):
        size_bytes = sizes_bytes.get(f"{name}.npy")
        if size_bytes is None:
            raise RouteError(f"{path} has no array {name}. {_AGAIN}")
        if size_bytes > MAX_BYTES:
            raise RouteError(f"{path}: {name} unpacks to {size_bytes:,} bytes, over {MAX_BYTES:,}. {_AGAIN}")
        try:
            arrays[name] = archive[name]
        except Exception as error:  # as above
            raise RouteError(f"{path}: {name} cannot be read: {error}. {_AGAIN}") from None
    return arrays


def _head(path: Path, space: Space, arrays: Mapping[str, npt.NDArray[np.generic]], fixers: int) -> Head:
    """A space's arrays; raises a RouteError unless they are numbers and match each other and the pool."""
    size = arrays[f"{space}_s"].shape[-1:]
    row = (FEATURES,)
    shapes = {"solved": (fixers, *size), "failed": (fixers, *size), "base_rate": (fixers,), "intercept": (1,)}
    shapes |= {"mean": row, "scale": row, "coef": row}
    numbers: dict[str, Array] = {}
    for field, shape in shapes.items():
        name = f"{space}_{_SUFFIXES[field]}"
        array = arrays[name]
        if array.shape != shape or array.size == 0:
            raise RouteError(f"{path}: {name} has shape {array.shape}, not {shape}. {_AGAIN}")
        if array.dtype not in (np.float32, np.float64):
            raise RouteError(f"{path}: {name} holds {array.dtype}, not float32 or float64. {_AGAIN}")
        if not np.isfinite(array).all():
            raise RouteError(f"{path}: {name} contains a number that is not finite. {_AGAIN}")
        array.setflags(write=False)
        numbers[field] = cast(Array, array)
    head = Head(**numbers)
    if not ((head.base_rate >= 0) & (head.base_rate <= 1)).all():
        raise RouteError(f"{path}: {space}_p holds a base rate outside of 0 to 1. {_AGAIN}")
    if not (head.scale > 0).all():
        raise RouteError(f"{path}: {space}_scaler_scale holds a scale that is not above 0. {_AGAIN}")
    return head


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise RouteError(f"{path}: {error.strerror}. A release has {SPEC_FILE} and {HEAD_FILE} side by side.") from None
    if len(data) > MAX_BYTES:
        raise RouteError(f"{path} has more than {MAX_BYTES:,} bytes. {_AGAIN}")
    return data
