"""An explanation against the policies it explains: what it says would change a decision does, and nothing nearer."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.base import RouteError
from scrout.config.settings import Fixer, FixerKey, RouteSettings, Settings
from scrout.fix.kinds.agent import AgentFixer
from scrout.money import Price
from scrout.records import Candidate, State
from scrout.route import difficulty, text_counts
from scrout.route.embed import HashedEmbedder
from scrout.route.explain import Counterfactual, Explanation, change_words, changes, decided, explain, goal_words
from scrout.route.heldout import fit_difficulty
from scrout.route.outcome_table import OutcomeTable
from scrout.route.outcomes import OutcomeWithText, digest, join_texts
from scrout.route.policy import INFINITE, Goal, GoalKind, goal_of
from scrout.route.resume import build_resume, keep
from scrout.route.router import Router
from scrout.route.task_vectors import remember
from scrout.task import title_of

EMBEDDER = HashedEmbedder()
KINDS: tuple[GoalKind, ...] = ("theta", "min_solve", "max_usd", "solve_usd")


def agent(name: str) -> Fixer:
    price = Price(input=Decimal(1), output=Decimal(1))
    return AgentFixer(name=name, model=name, base_url="http://localhost/v1", price=price)


def candidate(fixer: str, p: float | None, cost: str | None) -> Candidate:
    return Candidate(fixer=fixer, p_solve=p, expected_cost_usd=None if cost is None else Decimal(cost), reason="")


def pool(names: Sequence[str], **route: object) -> Settings:
    return Settings(fixers=tuple(map(agent, names)), route=RouteSettings.model_validate(route))


# What would change a decision

MINI, STRONG = candidate("mini", 0.71, "0.05"), candidate("strong", 0.77, "0.55")
TWO = pool(["mini", "strong"])


def told_changes(goal: Goal) -> list[str]:
    return [f"{one.to} {change_words(one)}" for one in changes([MINI, STRONG], goal, TWO)]


@pytest.mark.parametrize(
    ("goal", "words"),
    [
        (
            Goal("solve_usd", Decimal(5)),
            [
                "strong if a solve were worth more than $8.33",
                "strong if an attempt of mini cost more than $0.25 instead of $0.05",
                "strong if an attempt of strong cost less than $0.35 instead of $0.55",
            ],
        ),
        (
            Goal("solve_usd", INFINITE),
            ["mini if a solve were worth less than $8.33"],
        ),
        (
            Goal("min_solve", Decimal("0.5")),
            [
                "strong with a least probability above 0.71",
                "strong if an attempt of mini cost more than $0.55 instead of $0.05",
                "strong if an attempt of strong cost less than $0.05 instead of $0.55",
            ],
        ),
        (
            Goal("max_usd", Decimal("0.60")),
            [
                "mini with less than $0.55 to spend",
                "mini if an attempt of strong cost more than $0.60 instead of $0.55",
            ],
        ),
        (
            Goal("theta", Decimal("0.75")),
            ["mini with theta of 0.71 or less"],
        ),
    ],
)
def test_changes_are_told_in_numbers(goal: Goal, words: list[str]) -> None:
    assert told_changes(goal) == words


def test_an_amount_to_spend_is_told_so_that_it_suffices() -> None:
    odd = [candidate("mini", 0.71, "0.0512"), candidate("strong", 0.77, "0.5512")]
    for now, taken, words, enough in (
        ("0.30", "mini", "with $0.56 or more to spend", "0.56"),
        ("0.60", "strong", "with less than $0.55 to spend", "0.5499"),
    ):
        assert decided(odd, Goal("max_usd", Decimal(now)), TWO) == taken
        (change,) = [one for one in changes(odd, Goal("max_usd", Decimal(now)), TWO) if one.of == "max_usd"]
        assert change_words(change) == words
        assert decided(odd, Goal("max_usd", Decimal(enough)), TWO) == change.to != taken


def test_a_dial_is_told_in_positions_too() -> None:
    goal = goal_of([MINI, STRONG], RouteSettings(dial=0.2))
    (up,) = [one for one in changes([MINI, STRONG], goal, TWO) if one.of == "solve_usd"]
    assert (up.to, up.dial) == ("strong", pytest.approx(0.5)) and "a dial above 0.50" in change_words(up)
    for position, taken in ((0.49, "mini"), (0.51, "strong")):
        assert decided([MINI, STRONG], goal_of([MINI, STRONG], RouteSettings(dial=position)), TWO) == taken


some_candidates = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(0, 20).map(lambda n: n / 20)),
        st.one_of(st.none(), st.integers(0, 300).map(lambda n: str(Decimal(n) / 100))),
    ),
    min_size=2,
    max_size=5,
).map(lambda rows: [candidate(f"f{at}", p, cost) for at, (p, cost) in enumerate(rows)])
some_goals = st.sampled_from(KINDS).flatmap(
    lambda kind: st.builds(
        Goal,
        st.just(kind),
        st.integers(0, 41).map(lambda n: Decimal(n) / 40 if kind in ("theta", "min_solve") else Decimal(n) / 7),
    )
)


def applied(
    change: Counterfactual, amount: Decimal, candidates: list[Candidate], goal: Goal, settings: Settings
) -> str:
    if change.of != "cost_usd":
        return decided(candidates, Goal(goal.kind, amount), settings)
    changed = [
        one.model_copy(update={"expected_cost_usd": amount}) if one.fixer == change.fixer else one for one in candidates
    ]
    return decided(changed, goal, settings)


@given(some_candidates, some_goals)
def test_a_change_is_one_and_nothing_nearer_is(candidates: list[Candidate], goal: Goal) -> None:
    settings = pool([one.fixer for one in candidates])
    taken = decided(candidates, goal, settings)
    for change in changes(candidates, goal, settings):
        now = goal.amount if change.of != "cost_usd" else change.now
        assert now is not None and change.to != taken
        step = Decimal("1e-6") if change.above else -Decimal("1e-6")
        assert applied(change, change.amount + step, candidates, goal, settings) == change.to
        for share in ("0", "0.3", "0.9", "0.999"):
            nearer = now + (change.amount - now) * Decimal(share)
            assert applied(change, nearer, candidates, goal, settings) == taken


@given(some_candidates, some_goals, st.integers(0, 40))
def test_whatever_goal_decides_otherwise_was_told_of(candidates: list[Candidate], goal: Goal, part: int) -> None:
    settings = pool([one.fixer for one in candidates])
    other = Decimal(part) / 40 if goal.kind in ("theta", "min_solve") else Decimal(part) / 3
    if decided(candidates, Goal(goal.kind, other), settings) != decided(candidates, goal, settings):
        told_of = [one for one in changes(candidates, goal, settings) if one.of == goal.kind]
        assert any(one.above == (other > goal.amount) for one in told_of)


def test_goals_are_told_as_a_person_would() -> None:
    for settings, words in (
        (RouteSettings(solve_usd=Decimal(5)), "a solve is worth $5.00 to you"),
        (RouteSettings(min_solve=0.8), "the cheapest fixer with a probability of 0.80 or more"),
        (RouteSettings(max_usd=Decimal("0.4")), "the likeliest fixer for $0.40 or less"),
        (RouteSettings(policy="paper", theta=0.425), "reaches theta, 0.425; if none does, the anchor"),
        (RouteSettings(dial=1.0), "the likeliest, whatever it costs"),
        (RouteSettings(), "none is named, so the dial is at 0.5"),
    ):
        assert words in goal_words(goal_of([MINI, STRONG], settings))
    assert "by calibration" in goal_words(goal_of([MINI, STRONG], RouteSettings(), solve_usd=Decimal(9)))


# The whole, on made-up tasks whose length is what makes them hard

N = 120
TEXTS = [f"Case {at} of {at % 7}: " + "the parser fails again " * (2 + at * 37 % 120) for at in range(N)]
SHORT, LONG = (
    "In case 200 " + "the parser fails again " * 4,
    "Everything is slow and " + "the parser fails again " * 100,
)
FEATURES = np.array([text_counts.count(text) for text in TEXTS], dtype=np.float64)


def taught(folder: Path, fitted: bool = True) -> Path:
    """Two fixers, of which the dear one solves all and the cheap one the shorter half, at a cost that grows."""
    long = np.array([len(text) > 1400 for text in TEXTS])
    odd = np.arange(N) % 9 == 0
    resolved = np.column_stack([~long ^ odd, ~odd])
    cost = np.exp(FEATURES[:, [0]] - FEATURES[:, 0].mean()) * np.array([0.1, 0.5])
    ids = tuple(f"repo{at % 8}-{at}" for at in range(N))
    names = ("agent/mini", "agent/strong")
    groups = tuple(one.rpartition("-")[0] for one in ids)
    rows = OutcomeTable(ids, groups, names, resolved, cost, np.ones((N, 2), dtype=bool))
    for column, name in enumerate(names):
        history: list[OutcomeWithText] = [
            join_texts(ids[at], TEXTS[at], bool(resolved[at, column]), Decimal(f"{cost[at, column]:.4f}"), "handoff")
            for at in range(N)
        ]
        keep(build_resume(FixerKey.parse(name), history), history, EMBEDDER, folder)
    titles = {digest(text): title_of(text) for text in TEXTS}
    remember(folder, text_counts.SPACE, dict(zip(titles, FEATURES.astype(np.float32), strict=True)), titles)
    if fitted:
        difficulty.save(fit_difficulty(rows, FEATURES, text_counts.NAMES, [text_counts.SPACE]), folder)
    return folder


def explained(
    folder: Path, text: str, state: State | None = None, names: Sequence[str] = ("mini", "strong"), **route: object
) -> Explanation:
    router = Router(pool(names, **route), folder, EMBEDDER, shipped=folder / "nothing")
    found = explain(router, text, state)
    assert found.decision == router.route(text, state)
    assert Explanation.model_validate_json(found.model_dump_json()) == found
    return found


def test_a_task_is_placed_among_known_ones(tmp_path: Path) -> None:
    taught(tmp_path)
    short, long = (explained(tmp_path, text).difficulty for text in (TEXTS[0], LONG))
    assert short is not None and long is not None and short.known_tasks == N
    assert short.easier_than is not None and long.easier_than is not None
    assert short.easier_than > 0.9 > 0.4 > long.easier_than and short.effort < 1 < long.effort
    first = long.drivers[0]
    assert first.features == ("log_chars",) and first.log_odds < 0
    assert first.words.startswith(f"{len(LONG):,} characters of text (") and first.words.endswith(" is usual)")
    # What the features add makes up the ease.
    assert abs(long.ease - sum(one.log_odds for one in long.drivers)) < 0.1


def test_the_nearest_tasks_come_with_who_solved_them(tmp_path: Path) -> None:
    found = explained(taught(tmp_path), TEXTS[1] + "and one more time")
    first = found.nearest[0]
    assert first.title.startswith("Case 1 of 1: the parser") and first.similarity > 0.9
    assert (first.solved_by, first.failed_by) == (("mini", "strong"), ())
    failed = explained(tmp_path, TEXTS[9] + "and one more time").nearest[0]
    assert failed.title.startswith("Case 9 of 2") and failed.failed_by == ("strong",)
    assert [one.similarity for one in found.nearest] == sorted((one.similarity for one in found.nearest), reverse=True)


def test_an_embedder_that_fails_takes_nothing_but_the_nearest_tasks(tmp_path: Path) -> None:
    class Broken:
        name = "broken"
        dimensions = 3

        def embed(self, texts: Sequence[str]) -> np.ndarray:  # type: ignore[type-arg]
            raise RouteError("the endpoint does not answer. Start it.")

    folder = taught(tmp_path)
    remember(folder, "text/broken", {"a": [1.0, 0.0, 0.0]}, {"a": "a"})
    found = explain(Router(TWO, folder, Broken(), shipped=folder / "nothing"), SHORT, None)  # type: ignore[arg-type]
    assert found.nearest == () and found.nearest_missing == "the endpoint does not answer. Start it."
    assert found.decision.fixer in ("mini", "strong") and found.changes


def test_a_goal_is_explained_by_the_same_numbers_as_it_decides(tmp_path: Path) -> None:
    folder = taught(tmp_path)
    found = explained(folder, TEXTS[10], solve_usd=Decimal("0.01"))
    (up,) = [one for one in found.changes if one.of == "solve_usd" and one.above]
    assert found.decision.fixer == "mini" and up.to == "strong"
    more, less = (up.amount * Decimal(factor) for factor in ("1.01", "0.99"))
    assert explained(folder, TEXTS[10], solve_usd=more).decision.fixer == "strong"
    assert explained(folder, TEXTS[10], solve_usd=less).decision.fixer == "mini"


def test_far_from_everything_it_says_who_would_have_been_taken(tmp_path: Path) -> None:
    text = "\n".join(f"- `name_{at}` in src/a{at}/b.py raises SomeError{at}" for at in range(3000))
    found = explained(taught(tmp_path), text, dial=0.0)
    assert found.decision.abstained and found.difficulty is not None and found.difficulty.far
    assert (found.decision.fixer, found.otherwise, found.changes) == ("strong", "mini", ())


def test_without_a_head_probabilities_are_base_rates_and_that_is_said(tmp_path: Path) -> None:
    found = explained(taught(tmp_path, fitted=False), SHORT)
    assert found.difficulty is None and found.decision.spaces == () and found.changes
    assert any("base rates" in words for words in found.missing)


def test_one_fixer_alone_has_nothing_to_change(tmp_path: Path) -> None:
    found = explained(taught(tmp_path), SHORT, names=("mini",))
    assert (found.decision.fixer, found.changes, found.wants_state) == ("mini", (), False)


def test_fixers_that_nothing_is_known_of_are_explained_too(tmp_path: Path) -> None:
    found = explained(tmp_path, SHORT)
    assert found.decision.fallback and found.changes == () and found.nearest == ()
    assert found.nearest_missing and not found.wants_state


def test_a_state_is_wanted_where_a_head_takes_one(tmp_path: Path) -> None:
    folder = taught(tmp_path)
    assert not explained(folder, SHORT).wants_state
    sure = np.column_stack([FEATURES, np.arange(N) % 10 / 10])
    table = OutcomeTable(
        tuple(f"repo{at % 8}-{at}" for at in range(N)),
        tuple(f"repo{at % 8}" for at in range(N)),
        ("agent/mini", "agent/strong"),
        np.column_stack([np.arange(N) % 10 > 4, np.arange(N) % 10 > 1]),
        np.ones((N, 2)),
        np.ones((N, 2), dtype=bool),
    )
    spaces = [text_counts.SPACE, "recon-9"]
    difficulty.save(fit_difficulty(table, sure, [*text_counts.NAMES, "top_confidence"], spaces), folder)
    without = explained(folder, SHORT)
    assert without.wants_state and without.missing
    given = explained(folder, SHORT, State(space="recon-9", vector=(0.9,)))
    assert not given.wants_state and given.missing == () and given.decision.spaces == tuple(spaces)
    assert given.difficulty is not None and given.difficulty.easier_than is None
    assert any(
        one.words == "the scout is 90% sure of its first file (45% is usual)" for one in given.difficulty.drivers
    )
