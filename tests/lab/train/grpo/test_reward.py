"""The reward: bounded, fair to bad luck, and not to be had without searching."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from scrout.config.settings import SearcherSettings
from scrout.handoff import FileRef, Handoff
from scrout.lab.train.grpo.reward import Reward, Weights, advantages, reward
from scrout.money import Receipt, Usage
from scrout.records import Scouting, ScoutStop

ALLOWED = SearcherSettings(turns=20, max_tokens=100)
PATHS = [f"src/{name}.py" for name in "abcdefghij"]

paths = st.sets(st.sampled_from(PATHS))
some_paths = st.sets(st.sampled_from(PATHS), min_size=1)
stops = st.sampled_from(["finished", "forced", "malformed", "cap_usd", "timeout"])
weights = st.builds(
    Weights,
    files=st.floats(0.01, 1),
    reproduction=st.floats(0.2, 1),
    commitment=st.floats(0, 1),
    length=st.floats(0, 0.19),
    forced=st.floats(0, 1),
    beta=st.floats(0.5, 5),
)


def scouted(files: object, stop: ScoutStop = "finished", turns: int = 5, tokens: int = 0) -> Scouting:
    usage = Usage(output_tokens=tokens)
    receipt = Receipt(
        component="scout",
        fixer=None,
        model="toy",
        usage=usage,
        cost_usd=Decimal(0),
        estimated=False,
        at=datetime.now(UTC),
    )
    refs = tuple(FileRef(path=path) for path in sorted(files))  # type: ignore[call-overload]
    return Scouting(handoff=Handoff(files=refs), text="", seconds=1, stop=stop, turns=turns, receipts=(receipt,))


def worth(scouting: Scouting, gold: object, verified: bool | None = False, by: Weights | None = None) -> Reward:
    found = reward(scouting, sorted(gold), ALLOWED, verified, by)  # type: ignore[call-overload]
    assert found is not None
    return found


@given(
    paths, some_paths, stops, st.integers(0, 50), st.integers(0, 5000), st.sampled_from([None, False, True]), weights
)
def test_every_part_is_from_0_to_1(
    named: set[str], gold: set[str], stop: ScoutStop, turns: int, tokens: int, verified: bool | None, by: Weights
) -> None:
    told = worth(scouted(named, stop, turns, tokens), gold, verified, by)
    assert all(-1e-12 <= part <= 1 + 1e-12 for part in told.model_dump().values() if part is not None)
    assert (told.total > 0) == bool(named & gold)


def test_what_each_part_is() -> None:
    told = worth(scouted({"a.py", "b.py"}, "forced", turns=5, tokens=1000), {"a.py", "c.py"}, True)
    assert (told.recall, told.precision, told.found) == (0.5, 0.5, pytest.approx(0.5))
    assert (told.verified, told.committed, told.brevity) == (1, 0.5, 0.5)  # half of 20 turns' 100 tokens each
    assert told.total == pytest.approx(0.5 * (0.5 + 0.3 + 0.1 * 0.5 + 0.1 * 0.5))
    best = worth(scouted({"a.py"}, turns=0), {"a.py"}, True)
    assert best.total == pytest.approx(1)
    # Where the gate was not asked, the rest counts for all.
    assert worth(scouted({"a.py"}, turns=0), {"a.py"}, None).total == pytest.approx(1)


@pytest.mark.parametrize("stop", ["endpoint", "crashed"])
def test_infrastructure_has_no_reward(stop: ScoutStop) -> None:
    assert reward(scouted({"a.py"}, stop), ["a.py"], ALLOWED, True) is None


def test_a_conversation_that_no_endpoint_takes_is_the_models_own() -> None:
    told = reward(scouted((), "crashed"), ["a.py"], ALLOWED, False, refused=True)
    assert told is not None and told.total == 0


def test_a_lost_call_is_not_counted_as_length() -> None:
    whole = scouted({"a.py"}, turns=1, tokens=2000)
    lost = whole.model_copy(
        update={"receipts": tuple(r.model_copy(update={"estimated": True}) for r in whole.receipts)}
    )
    assert worth(whole, {"a.py"}).brevity == 0
    assert worth(lost, {"a.py"}).brevity == 0.95


# An honest episode took its turns and found a file of the fix. Whatever does without that earns less.
honest = st.tuples(st.sampled_from(["finished", "forced"]), st.integers(1, 20), st.booleans())


@given(honest, some_paths, weights)
def test_never_handing_over_earns_less(how: tuple[ScoutStop, int, bool], gold: set[str], by: Weights) -> None:
    stop, turns, verified = how
    fair = worth(scouted({min(gold)}, stop, turns), gold, verified, by).total
    for ended in ("malformed", "timeout", "cap_usd"):
        assert worth(scouted((), ended, turns=20), gold, False, by).total == 0 < fair


@given(honest, some_paths, paths, weights)
def test_an_empty_or_a_wrong_handoff_earns_less_however_quick(
    how: tuple[ScoutStop, int, bool], gold: set[str], guess: set[str], by: Weights
) -> None:
    stop, turns, verified = how
    fair = worth(scouted({min(gold)}, stop, turns), gold, verified, by).total
    # A reproduction of something else does not help it.
    assert worth(scouted(guess - gold, turns=0), gold, True, by).total == 0 < fair


@given(some_paths, some_paths, st.integers(0, 20), st.booleans(), weights)
def test_a_file_too_many_always_costs(named: set[str], gold: set[str], turns: int, verified: bool, by: Weights) -> None:
    few = worth(scouted(named, turns=turns), gold, verified, by).total
    many = worth(scouted({*named, "vendor/other.py"}, turns=turns), gold, verified, by).total
    assert many < few or (many == few == 0)


@given(st.integers(1, 3), st.integers(1, 20))
def test_naming_every_file_earns_less_than_finding_half_of_them_forced_and_late(size: int, turns: int) -> None:
    gold = {f"gold/{number}.py" for number in range(2 * size)}
    everything = gold | {f"other/{number}.py" for number in range(100)}
    half = {f"gold/{number}.py" for number in range(size)} | {f"other/{number}.py" for number in range(size)}
    assert worth(scouted(everything, turns=0), gold).total < worth(scouted(half, "forced", turns), gold).total


@given(some_paths, st.integers(1, 20), weights)
def test_handing_over_at_once_earns_less_than_a_reproduction(gold: set[str], turns: int, by: Weights) -> None:
    at_once = worth(scouted(gold, turns=0), gold, False, by).total
    assert at_once < worth(scouted(gold, turns=turns), gold, True, by).total


def test_weights_under_which_haste_pays_are_refused() -> None:
    with pytest.raises(ValidationError, match="handing over at once"):
        Weights(length=0.3, reproduction=0.3)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=16))
def test_advantages_are_centred_and_of_one_size(rewards: list[float]) -> None:
    found = advantages(rewards)
    if found is None:
        assert max(rewards) - min(rewards) <= 1e-9
        return
    assert sum(found) == pytest.approx(0, abs=1e-9)
    assert sum(value**2 for value in found) <= len(found) * (1 + 1e-9)
    assert [a < b for a in rewards for b in rewards if abs(a - b) > 1e-6] == [
        a < b
        for one, a in zip(rewards, found, strict=True)
        for other, b in zip(rewards, found, strict=True)
        if abs(one - other) > 1e-6
    ]


def test_groups_that_are_alike_or_alone_teach_nothing() -> None:
    assert advantages([0.4, 0.4, 0.4]) is None
    assert advantages([0.4]) is None
    # A difference of next to nothing stays one.
    assert max(advantages([0.4, 0.401]) or ()) == pytest.approx(0.01)
