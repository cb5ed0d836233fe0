"""The router as a whole: résumés, vectors, heads and calibrations in real folders, one decision out."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from scrout.base import RouteError
from scrout.config.settings import Fixer, FixerKey, RouteSettings, Settings
from scrout.fix.kinds.agent import AgentFixer
from scrout.fix.kinds.repair import RepairFixer
from scrout.intervals import Z95
from scrout.money import CENT_FRACTION, Price
from scrout.records import Candidate, Decision, State
from scrout.route import calibrate, difficulty, heads, resume, text_counts
from scrout.route.calibrate import Calibration
from scrout.route.difficulty import DifficultyHead
from scrout.route.embed import HashedEmbedder
from scrout.route.heads import ResumeHead
from scrout.route.heldout import by_difficulty, fit_difficulty, fit_resumes
from scrout.route.outcome_table import OutcomeTable, combination, group_folds
from scrout.route.outcomes import Arm, OutcomeWithText, digest, join_texts
from scrout.route.resume import ResumeVectors, build_resume, keep, resume_vectors
from scrout.route.router import BORROWED_SD, Router
from scrout.route.stats import Floats
from scrout.route.task_vectors import TaskVectors, remember
from scrout.task import title_of

EMBEDDER = HashedEmbedder()
TEXT = f"text/{EMBEDDER.name}"
RECON = "recon-3"
SPACES = (text_counts.SPACE, RECON)
RECON_NAMES = ("top_confidence", "files")
N = 120
KIMI_KEY, OPUS_KEY = FixerKey(agent="agent", model="kimi-k2.5"), FixerKey(agent="agent", model="opus-4-6")


def agent(name: str, model: str, output_usd: str = "10", resume: str = "", effort: str = "") -> Fixer:
    price = Price(input=Decimal(1), output=Decimal(output_usd))
    return AgentFixer(name=name, model=model, base_url="http://localhost/v1", price=price, resume=resume, effort=effort)


REPAIR = RepairFixer(name="repair")
KIMI, OPUS = agent("kimi", "kimi-k2.5", "2.5"), agent("opus", "opus-4-6", "25")
NEW = agent("new", "nobody-knows-it", "5")


def pool(*fixers: Fixer, **route: object) -> Settings:
    return Settings(fixers=fixers, route=RouteSettings.model_validate(route))


# Made-up tasks: long texts and an unsure scout mean hard ones.


def issue(words: int, number: int = 0) -> str:
    topic = "parser grammar token" if number % 2 else "socket timeout retry"
    return " ".join(f"{topic.split()[at % 3]}" for at in range(words)) + f" fails in case {number}"


def words_of(number: int) -> int:
    return 4 + (number * 37) % 300


def sureness(number: int) -> float:
    return (number * 53) % 100 / 100


TEXTS = [issue(words_of(at), at) for at in range(N)]
STATES: Floats = np.array([[sureness(at), at % 5] for at in range(N)])
EASY, HARD = issue(12), issue(100)
SURE, UNSURE = State(space=RECON, vector=(0.95, 2.0)), State(space=RECON, vector=(0.05, 2.0))


@cache
def table() -> OutcomeTable:
    ease = 2.0 - np.log1p([words_of(at) for at in range(N)]) + 3 * STATES[:, 0]
    odds = 1.5 * (ease - ease.mean())[:, None] + np.array([0.0, 2.0])
    ids = tuple(f"repo{at % 8}-{at}" for at in range(N))
    return OutcomeTable(
        ids=ids,
        groups=tuple(one.rpartition("-")[0] for one in ids),
        fixers=(str(KIMI_KEY), str(OPUS_KEY)),
        resolved=np.random.default_rng(0).random((N, 2)) < 1 / (1 + np.exp(-odds)),
        cost=np.exp(-0.4 * (ease - ease.mean()))[:, None] * np.array([0.20, 0.80]),
        measured=np.ones((N, 2), dtype=bool),
    )


def history(column: int, size: int = N, arm: Arm = "handoff", flip: bool = False) -> list[OutcomeWithText]:
    rows = table()
    return [
        join_texts(
            rows.ids[at],
            TEXTS[at],
            bool(rows.resolved[at, column]) != flip,
            Decimal(f"{rows.cost[at, column]:.4f}"),
            arm,
        )
        for at in range(size)
    ]


def features(spaces: Sequence[str]) -> tuple[Floats, list[str]]:
    """Of all tasks, and their names."""
    parts = {
        text_counts.SPACE: (np.array([text_counts.count(text) for text in TEXTS], dtype=np.float64), text_counts.NAMES),
        RECON: (STATES, RECON_NAMES),
    }
    chosen = [parts[space] for space in sorted(spaces)]
    return np.concatenate([rows for rows, _ in chosen], axis=1), [name for _, names in chosen for name in names]


@cache
def head_of(*spaces: str) -> DifficultyHead:
    rows, names = features(spaces)
    return fit_difficulty(table(), rows, names, spaces)


def know(folder: Path) -> None:
    """The tasks' vectors in every space."""
    for space, rows in (
        (TEXT, EMBEDDER.embed(TEXTS)),
        (text_counts.SPACE, np.array([text_counts.count(text) for text in TEXTS])),
        (RECON, STATES.astype(np.float32)),
    ):
        titles = {digest(text): title_of(text) for text in TEXTS}
        remember(folder, space, dict(zip(titles, rows, strict=True)), titles)


def add(folder: Path, key: FixerKey, rows: Sequence[OutcomeWithText]) -> None:
    keep(build_resume(key, rows), rows, EMBEDDER, folder)


Teach = Callable[..., Path]


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Résumés of two fixers and the vectors of their tasks, to be copied: making them takes a second."""
    made = tmp_path_factory.mktemp("taught")
    know(made)
    add(made, KIMI_KEY, history(0))
    add(made, OPUS_KEY, history(1))
    return made


@pytest.fixture
def teach(taught: Path) -> Teach:
    """teach(folder, *combinations): the same in a folder of one's own, with a head for each of the combinations."""

    def copied(folder: Path, *combinations: Sequence[str]) -> Path:
        shutil.copytree(taught, folder, dirs_exist_ok=True)
        for spaces in combinations:
            difficulty.save(head_of(*spaces), folder)
        return folder

    return copied


@cache
def calibration() -> Calibration:
    rows, names = features(SPACES)
    folds = group_folds(table().groups)
    measured = replace(table(), p=by_difficulty(table(), rows, names, SPACES, folds))
    return calibrate.calibrate(measured, folds, policy="value", arm="handoff", spaces=SPACES)


def settings_of(folder: Path, spaces: Sequence[str], theta: float, solve_usd: float) -> None:
    """A calibration with settings for one combination alone."""
    name = combination(spaces)
    update = {"spaces": tuple(spaces), "thetas": {name: theta}, "solve_usds": {name: solve_usd}}
    calibrate.save(calibration().model_copy(update=update), folder)


@pytest.fixture
def none(tmp_path: Path) -> Path:
    """In place of what is shipped."""
    return tmp_path / "nothing"


@pytest.fixture
def folder(tmp_path: Path, teach: Teach) -> Path:
    return teach(tmp_path / "own", SPACES, SPACES[:1])


def of(decision: Decision, fixer: str) -> Candidate:
    return next(candidate for candidate in decision.candidates if candidate.fixer == fixer)


def mean_usd(rows: Sequence[OutcomeWithText]) -> Decimal:
    costs = [one.outcome.cost_usd for one in rows if one.outcome.cost_usd is not None]
    return (sum(costs, Decimal(0)) / len(costs)).quantize(CENT_FRACTION)


def probability(decision: Decision, fixer: str) -> float:
    p = of(decision, fixer).p_solve
    assert p is not None
    return p


# Who is judged by what


@pytest.mark.parametrize("exists", [True, False])
def test_a_fresh_install_goes_to_the_most_expensive_agent(tmp_path: Path, none: Path, exists: bool) -> None:
    folder = tmp_path if exists else tmp_path / "missing"
    decision = Router(pool(KIMI, OPUS, REPAIR, NEW), folder, EMBEDDER, none).route("it fails", None)
    assert (decision.fixer, decision.fallback, decision.abstained) == ("opus", True, False)
    assert decision.reason.startswith("no fixer's probability and cost are both known, so the anchor opus takes it")
    assert [candidate.fixer for candidate in decision.candidates] == ["repair", "kimi", "new", "opus"]
    assert all(candidate.p_solve is None and candidate.evidence == "" for candidate in decision.candidates)
    assert [candidate.expected_cost_usd for candidate in decision.candidates] == [Decimal(0), None, None, None]


def test_a_fixer_goes_by_its_own_resume(folder: Path, none: Path) -> None:
    decision = Router(pool(KIMI, OPUS), folder, EMBEDDER, none).route(EASY, SURE)
    kimi, opus = of(decision, "kimi"), of(decision, "opus")
    solved = int(table().resolved[:, 0].sum())
    assert kimi.evidence == f"its own résumé, {solved} of {N} solved"
    for one in (kimi, opus):
        assert one.p_solve is not None and one.p_low is not None and one.p_high is not None
        assert 0 < one.p_low < one.p_solve < one.p_high < 1
        assert one.p_by_space == {"counts-1+recon-3": one.p_solve}
    assert probability(decision, "kimi") < probability(decision, "opus")
    assert not decision.degraded and decision.spaces == ("counts-1", "recon-3")


def test_easy_tasks_go_to_the_cheap_fixer_and_hard_ones_to_the_strong(folder: Path, none: Path) -> None:
    router = Router(pool(KIMI, OPUS, solve_usd="4"), folder, EMBEDDER, none)
    easy, hard = router.route(EASY, SURE), router.route(HARD, UNSURE)
    assert (easy.fixer, hard.fixer) == ("kimi", "opus")
    assert not easy.fallback and not hard.fallback and easy.policy == "value"
    for column, name in enumerate(("kimi", "opus")):
        assert probability(easy, name) > probability(hard, name) + 0.1
        assert of(easy, name).expected_cost_usd == of(hard, name).expected_cost_usd == mean_usd(history(column))
    assert "a solve is taken to be worth $4.00" in easy.reason and of(easy, "kimi").reason in easy.reason
    assert "would add" in of(easy, "opus").reason


def test_what_the_scout_measured_counts(folder: Path, none: Path) -> None:
    router = Router(pool(KIMI, OPUS), folder, EMBEDDER, none)
    middle = issue(60)
    assert probability(router.route(middle, SURE), "kimi") > probability(router.route(middle, UNSURE), "kimi") + 0.1


@pytest.mark.parametrize(
    ("fixer", "known"),
    [
        (agent("kimi", "moonshotai/kimi-k2.5"), "mini/kimi-k2.5"),
        (agent("kimi", "kimi-k2.5", effort="high"), "mini/kimi-k2.5"),
        (agent("kimi", "kimi-k2.5", effort="high"), "mini/kimi-k2.5@high"),
    ],
)
def test_a_resume_of_the_same_model_is_borrowed_and_named(folder: Path, none: Path, fixer: Fixer, known: str) -> None:
    (folder / "agent%2Fkimi-k2.5.resume.json").unlink()
    add(folder, FixerKey.parse(known), history(0))
    decision = Router(pool(fixer, OPUS), folder, EMBEDDER, none).route(EASY, SURE)
    assert of(decision, "kimi").evidence.startswith(f"the résumé of {known}, ")
    assert probability(decision, "kimi") > 0.5


def test_a_borrowed_resume_is_believed_less_than_an_own_one(folder: Path, none: Path) -> None:
    own = of(Router(pool(KIMI, OPUS), folder, EMBEDDER, none).route(HARD, UNSURE), "kimi")
    (folder / "agent%2Fkimi-k2.5.resume.json").unlink()
    add(folder, FixerKey.parse("mini/kimi-k2.5"), history(0))
    decision = Router(pool(KIMI, OPUS), folder, EMBEDDER, none).route(HARD, UNSURE)
    assert log_odds_sd(of(decision, "kimi")) == pytest.approx(math.hypot(log_odds_sd(own), BORROWED_SD), rel=0.05)
    assert log_odds_sd(own) < 0.9 * log_odds_sd(of(decision, "kimi"))


def log_odds_sd(candidate: Candidate) -> float:
    """What an interval of 95% was made from."""
    assert candidate.p_low is not None and candidate.p_high is not None
    low, high = (math.log(p / (1 - p)) for p in (candidate.p_low, candidate.p_high))
    return (high - low) / 2 / Z95


def test_a_resume_with_too_few_outcomes_does_not_displace_a_borrowed_one(folder: Path, none: Path) -> None:
    (folder / "agent%2Fkimi-k2.5.resume.json").unlink()
    add(folder, FixerKey.parse("mini/kimi-k2.5"), history(0))
    grown = build_resume(KIMI_KEY, history(0))
    resume.save(grown.model_copy(update={"outcomes": grown.outcomes[:5]}), folder)
    decision = Router(pool(KIMI, OPUS), folder, EMBEDDER, none).route(EASY, SURE)
    assert of(decision, "kimi").evidence.startswith("the résumé of mini/kimi-k2.5, ")


def test_a_fixer_of_unknown_probability_is_taken_only_as_the_anchor(folder: Path, none: Path) -> None:
    chosen = Router(pool(NEW, KIMI, dial=1), folder, EMBEDDER, none).route(HARD, UNSURE)
    assert chosen.fixer == "kimi" and of(chosen, "new").p_solve is None
    assert of(chosen, "new").reason == "its probability is unknown" and of(chosen, "new").expected_cost_usd is None
    alone = Router(pool(NEW, agent("other", "nor-this-one"), anchor="new"), folder, EMBEDDER, none).route(EASY, SURE)
    assert (alone.fixer, alone.fallback) == ("new", True)


def test_a_named_resume_counts_instead_of_its_own(folder: Path, none: Path) -> None:
    named = agent("kimi", "kimi-k2.5", resume="agent/opus-4-6")
    stranger = agent("stranger", "its-name-says-nothing", resume="agent/kimi-k2.5")
    decision = Router(pool(named, OPUS, stranger), folder, EMBEDDER, none).route(EASY, SURE)
    assert of(decision, "kimi").evidence.startswith("the résumé of agent/opus-4-6, ")
    assert probability(decision, "kimi") == pytest.approx(probability(decision, "opus"), abs=0.01)
    assert of(decision, "kimi").expected_cost_usd != of(decision, "stranger").expected_cost_usd
    assert of(decision, "stranger").evidence.startswith("the résumé of agent/kimi-k2.5, ")


def test_a_named_resume_that_is_not_there_is_refused(folder: Path, none: Path) -> None:
    wrong = agent("kimi", "kimi-k2.5", resume="mini/kimi@high")
    with pytest.raises(RouteError, match=r"'kimi' uses the résumé mini/kimi@high, .* These exist: agent/kimi-k2\.5, a"):
        Router(pool(wrong, OPUS), folder, EMBEDDER, none).route(EASY, SURE)


def test_a_named_resume_that_is_still_growing_counts_for_nothing(folder: Path, none: Path) -> None:
    key = FixerKey.parse("mine/kimi")
    grown = build_resume(key, history(0))
    resume.save(grown.model_copy(update={"outcomes": grown.outcomes[:5]}), folder)
    decision = Router(pool(agent("kimi", "x", resume="mine/kimi"), OPUS), folder, EMBEDDER, none).route(EASY, SURE)
    assert of(decision, "kimi").p_solve is None and decision.fixer == "opus"


def test_repair_costs_nothing_and_wins_on_its_probability(folder: Path, none: Path) -> None:
    add(folder, REPAIR.key, [join_texts(one.outcome.instance_id, one.text, one.outcome.resolved) for one in history(0)])
    decision = Router(pool(KIMI, REPAIR), folder, EMBEDDER, none).route(EASY, SURE)
    assert (decision.fixer, of(decision, "repair").expected_cost_usd) == ("repair", Decimal(0))


def test_costs_of_a_pool_are_compared_in_one_arm(tmp_path: Path, none: Path) -> None:
    expensive, cheap = mean_usd(history(1)), mean_usd(history(0))

    def costs(kimi: list[OutcomeWithText], opus: list[OutcomeWithText]) -> list[Decimal | None]:
        add(tmp_path, KIMI_KEY, kimi)
        add(tmp_path, OPUS_KEY, opus)
        decision = Router(pool(KIMI, OPUS), tmp_path, EMBEDDER, none).route(EASY, None)
        return [of(decision, name).expected_cost_usd for name in ("kimi", "opus")]

    both = [*history(1, arm="solo"), *history(0, arm="handoff")]
    assert costs(history(0, arm="handoff"), both) == [cheap, cheap]
    # One that was never tried with a handoff: the other's cost without one stands beside it.
    assert costs(history(0, arm="solo"), both) == [cheap, expensive]
    # Where an arm is missing, the other one is better than nothing.
    assert costs(history(0, arm="solo"), history(1, arm="handoff")) == [cheap, expensive]


def test_a_cost_that_no_outcome_tells_is_unknown(folder: Path, none: Path) -> None:
    add(folder, NEW.key, [join_texts(one.outcome.instance_id, one.text, one.outcome.resolved) for one in history(0)])
    decision = Router(pool(KIMI, OPUS, NEW), folder, EMBEDDER, none).route(EASY, None)
    assert of(decision, "new").expected_cost_usd is None and of(decision, "new").p_solve is not None
    assert of(decision, "kimi").expected_cost_usd == mean_usd(history(0))


def test_costs_follow_the_fixers_price(folder: Path, none: Path) -> None:
    known = build_resume(OPUS_KEY, history(1), price=OPUS.price)
    resume.save(known, folder)
    assert OPUS.price is not None
    twice = Price(input=OPUS.price.input * 2, output=OPUS.price.output * 2)
    for price, factor in ((OPUS.price, 1), (twice, 2)):
        fixer = OPUS.model_copy(update={"price": price})
        decision = Router(pool(KIMI, fixer), folder, EMBEDDER, none).route(EASY, SURE)
        assert of(decision, "opus").expected_cost_usd == mean_usd(history(1)) * factor


def test_of_two_outcomes_of_a_task_the_one_with_a_handoff_counts(folder: Path, none: Path) -> None:
    alone = Router(pool(KIMI, OPUS), folder, EMBEDDER, none).route(EASY, SURE)
    for rows in ([*history(0), *history(0, arm="solo", flip=True)], [*history(0, arm="solo", flip=True), *history(0)]):
        add(folder, KIMI_KEY, rows)
        assert probability(Router(pool(KIMI, OPUS), folder, EMBEDDER, none).route(EASY, SURE), "kimi") == pytest.approx(
            probability(alone, "kimi")
        )


def test_without_a_head_probabilities_are_base_rates_and_it_says_so(tmp_path: Path, none: Path, teach: Teach) -> None:
    decision = Router(pool(KIMI, OPUS), teach(tmp_path), EMBEDDER, none).route(EASY, SURE)
    solved = int(table().resolved[:, 0].sum())
    assert probability(decision, "kimi") == (solved + 1) / (N + 2) and of(decision, "kimi").p_by_space == {}
    assert decision.degraded and decision.spaces == ()
    assert decision.reason.endswith("degraded: no head is fitted, so probabilities are base rates")


# Spaces that are missing


def test_without_a_state_the_head_of_the_text_counts(folder: Path, tmp_path: Path, none: Path, teach: Teach) -> None:
    router = Router(pool(KIMI, OPUS), folder, EMBEDDER, none)
    without = router.route(HARD, None)
    assert without.degraded and without.spaces == ("counts-1",)
    assert without.reason.endswith("degraded: the recon-3 head needs a state that the scout did not give")
    only = Router(pool(KIMI, OPUS), teach(tmp_path / "only", SPACES[:1]), EMBEDDER, none).route(HARD, None)
    assert without.candidates == only.candidates and not only.degraded
    assert probability(without, "kimi") != probability(router.route(HARD, UNSURE), "kimi")


@pytest.mark.parametrize(("route", "key"), [({"policy": "value"}, "solve_usd"), ({"policy": "paper"}, "theta")])
def test_settings_of_one_combination_are_not_used_for_another(
    folder: Path, none: Path, route: dict[str, object], key: str, teach: Teach
) -> None:
    if key == "theta":
        paper_heads(folder)
        settings_of(folder, (TEXT, RECON), 0.77, 0.0)
    else:
        settings_of(folder, SPACES, 0.77, 123.0)
    router = Router(pool(KIMI, OPUS, **route), folder, EMBEDDER, none)
    whole, part = router.route(EASY, SURE), router.route(EASY, None)
    assert (whole.theta, part.theta) == (0.77, 0.30)
    assert part.degraded and not whole.degraded
    if key == "solve_usd":
        assert "worth $123.00" in whole.reason and "worth $123.00" not in part.reason
        fresh = Router(pool(KIMI, OPUS), teach(folder.parent / "fresh", SPACES, SPACES[:1]), EMBEDDER, none)
        assert part.reason == fresh.route(EASY, None).reason  # not by the other one's dial either


def test_a_calibration_of_other_fixers_does_not_count(folder: Path, none: Path) -> None:
    settings_of(folder, SPACES, 0.77, 123.0)
    third = FixerKey(agent="agent", model="nobody-knows-it")
    add(folder, third, history(1, flip=True))
    same = Router(pool(KIMI, OPUS), folder, EMBEDDER, none).route(EASY, SURE)
    wider = Router(pool(KIMI, OPUS, NEW), folder, EMBEDDER, none).route(EASY, SURE)
    assert "worth $123.00" in same.reason and "worth $123.00" not in wider.reason
    assert (same.theta, wider.theta) == (0.77, RouteSettings().theta)


def test_where_only_a_head_with_a_state_is_fitted_its_absence_is_told(tmp_path: Path, none: Path, teach: Teach) -> None:
    decision = Router(pool(KIMI, OPUS), teach(tmp_path, SPACES), EMBEDDER, none).route(EASY, None)
    assert decision.degraded and decision.spaces == () and of(decision, "kimi").p_by_space == {}
    assert "the recon-3 head needs a state that the scout did not give" in decision.reason
    assert decision.reason.endswith("so probabilities are base rates")


def test_a_state_without_a_head_degrades_openly(folder: Path, none: Path) -> None:
    router = Router(pool(KIMI, OPUS), folder, EMBEDDER, none)
    other = router.route(EASY, State(space="recon-9", vector=(1.0,)))
    assert other.degraded and "the scout's state (recon-9) has no fitted head" in other.reason
    assert other.candidates == router.route(EASY, None).candidates


def test_a_state_whose_head_is_there_is_not_degraded_by_other_heads(folder: Path, none: Path) -> None:
    other = DifficultyHead.from_json(head_of(*SPACES).to_json())
    other.spaces = ("counts-1", "zebra-1")
    difficulty.save(other, folder)
    decision = Router(pool(KIMI, OPUS), folder, EMBEDDER, none).route(EASY, State(space="zebra-1", vector=(0.5, 1.0)))
    assert not decision.degraded and decision.spaces == ("counts-1", "zebra-1")


@pytest.mark.parametrize("policy", ["value", "paper"])
@pytest.mark.parametrize("vector", [(math.nan, 1.0), (math.inf, 1.0), (0.5,), (0.5, 1.0, 2.0), ()])
def test_a_state_that_cannot_be_used_is_refused(
    folder: Path, none: Path, policy: str, vector: tuple[float, ...]
) -> None:
    paper_heads(folder)
    with pytest.raises(RouteError):
        Router(pool(KIMI, OPUS, policy=policy), folder, EMBEDDER, none).route(EASY, State(space=RECON, vector=vector))


# Hidden states


def of_checkpoint(name: str, layer: int = -4) -> State:
    return State(space=f"hidden/{name * 16}/layer{layer}/last/2", vector=(0.6, 0.8))


def hidden_head(folder: Path, space: str, policy: str) -> None:
    if policy == "paper":
        head = ResumeHead.from_json(paper_heads(folder)[RECON].to_json())
        head.space = space
        heads.save(head, folder)
    else:
        judge = DifficultyHead.from_json(head_of(*SPACES).to_json())
        judge.spaces = tuple(sorted((text_counts.SPACE, space)))
        difficulty.save(judge, folder)


@pytest.mark.parametrize("policy", ["value", "paper"])
def test_a_state_of_another_checkpoint_is_refused(folder: Path, none: Path, policy: str) -> None:
    hidden_head(folder, of_checkpoint("a").space, policy)
    router = Router(pool(KIMI, OPUS, policy=policy), folder, EMBEDDER, none)
    with pytest.raises(
        RouteError, match=r"state is of checkpoint b{16}, .* fitted on states of a{16}\. Scout with that"
    ):
        router.route(EASY, of_checkpoint("b"))
    assert of_checkpoint("a").space in router.route(EASY, of_checkpoint("a")).spaces or policy == "paper"
    assert router.route(EASY, of_checkpoint("a", layer=-5)).degraded
    assert router.route(EASY, None).degraded and router.route(EASY, SURE).fixer


def test_where_no_head_takes_hidden_states_one_degrades_openly(folder: Path, none: Path) -> None:
    assert Router(pool(KIMI, OPUS), folder, EMBEDDER, none).route(EASY, of_checkpoint("b")).degraded


def test_a_pool_of_one_takes_any_checkpoint(folder: Path, none: Path) -> None:
    hidden_head(folder, of_checkpoint("a").space, "value")
    assert Router(pool(KIMI), folder, EMBEDDER, none).route(EASY, of_checkpoint("b")).fixer == "kimi"


# Abstention, pools of one


def test_a_task_unlike_all_goes_to_the_anchor(folder: Path, none: Path) -> None:
    far = State(space=RECON, vector=(0.9, 1e9))
    for route in ({}, {"dial": 0}, {"min_solve": 0.01}, {"max_usd": "0.5"}):
        decision = Router(pool(KIMI, OPUS, **route), folder, EMBEDDER, none).route(EASY, far)
        assert (decision.fixer, decision.abstained, decision.fallback) == ("opus", True, True)
        assert "far from every task with a known outcome" in decision.reason
        assert of(decision, "kimi").reason == "the task is far from every known one"
    named = Router(pool(KIMI, OPUS, anchor="kimi"), folder, EMBEDDER, none).route(EASY, far)
    assert (named.fixer, named.abstained) == ("kimi", True)
    assert not Router(pool(KIMI, OPUS), folder, EMBEDDER, none).route(EASY, SURE).abstained


@pytest.mark.parametrize("fixer", [REPAIR, NEW])
def test_a_pool_of_one(folder: Path, none: Path, fixer: Fixer) -> None:
    decision = Router(pool(fixer), folder, EMBEDDER, none).route(EASY, SURE)
    assert (decision.fixer, decision.fallback, decision.degraded) == (fixer.name, True, False)
    assert decision.reason == "the only fixer in the pool" == decision.candidates[0].reason


def test_a_pool_of_one_that_reaches_theta_is_no_fallback(folder: Path, none: Path) -> None:
    decision = Router(pool(OPUS), folder, EMBEDDER, none).route(EASY, None)
    assert (decision.fixer, decision.fallback) == ("opus", False) and probability(decision, "opus") > 0.3
    assert Router(pool(OPUS, theta=1.0), folder, EMBEDDER, none).route(EASY, None).fallback


# Two folders


def test_the_users_resume_wins_over_the_shipped_one(tmp_path: Path, teach: Teach) -> None:
    shipped, own = teach(tmp_path / "shipped", SPACES, SPACES[:1]), tmp_path / "own"
    before = Router(pool(KIMI, OPUS), own, EMBEDDER, shipped).route(EASY, SURE)
    assert not before.degraded and before.fixer  # all of it from what is shipped
    add(own, KIMI_KEY, history(0, size=60, flip=True))
    after = Router(pool(KIMI, OPUS), own, EMBEDDER, shipped).route(EASY, SURE)
    solved = 60 - int(table().resolved[:60, 0].sum())
    assert of(after, "kimi").evidence == f"its own résumé, {solved} of 60 solved"
    assert of(after, "kimi").p_solve != of(before, "kimi").p_solve
    assert of(after, "opus") == of(before, "opus").model_copy(update={"reason": of(after, "opus").reason})


def test_the_users_head_and_settings_win_over_the_shipped_ones(tmp_path: Path, teach: Teach) -> None:
    shipped, own = teach(tmp_path / "shipped", SPACES), tmp_path / "own"
    settings_of(shipped, SPACES, 0.5, 7.0)
    before = Router(pool(KIMI, OPUS), own, EMBEDDER, shipped).route(HARD, UNSURE)
    flat = DifficultyHead.from_json(head_of(*SPACES).to_json())
    flat.slope_ = 0.0
    difficulty.save(flat, own)
    settings_of(own, SPACES, 0.6, 8.0)
    after = Router(pool(KIMI, OPUS), own, EMBEDDER, shipped).route(HARD, UNSURE)
    assert (before.theta, after.theta) == (0.5, 0.6)
    assert "worth $7.00" in before.reason and "worth $8.00" in after.reason
    assert probability(after, "kimi") > probability(before, "kimi") + 0.05


def test_a_damaged_folder_is_noticed_at_the_first_task_and_not_before(folder: Path, none: Path) -> None:
    (folder / "counts-1.difficulty.json").write_text("{")
    router = Router(pool(KIMI, OPUS), folder, EMBEDDER, none)
    with pytest.raises(RouteError, match=r"counts-1\.difficulty\.json"):
        router.route(EASY, None)


# The paper's policy


def paper_heads(folder: Path) -> dict[str, ResumeHead]:
    known = TaskVectors(folder)
    resumes = resume.load(folder)
    rows = {TEXT: EMBEDDER.embed(TEXTS), RECON: STATES.astype(np.float32)}
    for space, vectors in rows.items():
        stands = [resume_vectors(resumes[key], known, space) for key in (KIMI_KEY, OPUS_KEY)]
        heads.save(fit_resumes(table(), space, vectors, stands, np.ones(N, dtype=bool)), folder)
    return heads.load(folder)


def test_the_paper_takes_the_mean_of_its_heads(folder: Path, none: Path) -> None:
    paper = paper_heads(folder)
    router = Router(pool(KIMI, OPUS, policy="paper"), folder, EMBEDDER, none)
    decision = router.route(EASY, SURE)
    assert not decision.degraded and decision.spaces == (RECON, TEXT) and decision.policy == "paper"
    own, known = resume.load(folder)[KIMI_KEY], TaskVectors(folder)
    stands: dict[str, ResumeVectors | None] = {space: resume_vectors(own, known, space) for space in (TEXT, RECON)}
    vectors = {TEXT: EMBEDDER.embed([EASY]), RECON: np.array([SURE.vector])}
    expected = {
        space: float(paper[space].predict_proba(vectors[space], [one])[0]) for space, one in stands.items() if one
    }
    assert of(decision, "kimi").p_by_space == pytest.approx(expected)
    assert probability(decision, "kimi") == pytest.approx(sum(expected.values()) / 2)
    # Its recipe gives no interval, and that of the base rate would be of another number.
    assert all(one.p_low is None and one.p_high is None for one in decision.candidates)


@pytest.mark.parametrize(("theta", "fixer", "fallback"), [(0.0, "kimi", False), (1.0, "opus", True)])
def test_the_paper_walks_from_cheap_to_expensive(
    folder: Path, none: Path, theta: float, fixer: str, fallback: bool
) -> None:
    paper_heads(folder)
    decision = Router(pool(OPUS, KIMI, policy="paper", theta=theta), folder, EMBEDDER, none).route(EASY, SURE)
    assert (decision.fixer, decision.fallback, decision.theta) == (fixer, fallback, theta)
    assert [candidate.fixer for candidate in decision.candidates] == ["kimi", "opus"]


def test_a_new_fixer_joins_the_papers_pool_without_a_new_fit(folder: Path, none: Path) -> None:
    paper_heads(folder)
    add(folder, NEW.key, history(1, size=40))
    decision = Router(pool(KIMI, OPUS, NEW, policy="paper"), folder, EMBEDDER, none).route(EASY, SURE)
    assert set(of(decision, "new").p_by_space) == {TEXT, RECON} and not decision.degraded


def test_the_paper_without_a_state_goes_by_the_text_alone(folder: Path, none: Path) -> None:
    paper_heads(folder)
    decision = Router(pool(KIMI, OPUS, policy="paper"), folder, EMBEDDER, none).route(EASY, None)
    assert decision.degraded and decision.spaces == (TEXT,) and set(of(decision, "kimi").p_by_space) == {TEXT}
    assert decision.reason.endswith("degraded: the recon-3 head needs a state that the scout did not give")


def test_a_space_that_no_resume_has_tasks_in_does_not_count(folder: Path, none: Path) -> None:
    paper_heads(folder)
    settings_of(folder, (TEXT, RECON), 0.77, 0.0)
    (folder / "recon-3.vectors.npz").unlink()
    decision = Router(pool(KIMI, OPUS, policy="paper"), folder, EMBEDDER, none).route(EASY, SURE)
    assert decision.spaces == (TEXT,) and decision.theta == 0.30
    assert decision.degraded and "agent/kimi-k2.5 has no tasks in recon-3" in decision.reason


def test_a_theta_of_the_users_wins_over_the_calibrated(folder: Path, none: Path) -> None:
    paper_heads(folder)
    settings_of(folder, (TEXT, RECON), 0.77, 0.0)
    thetas = [
        Router(pool(KIMI, OPUS, policy="paper", **given), folder, EMBEDDER, none).route(EASY, SURE).theta
        for given in ({}, {"theta": 0.30}, {"theta": 0.6})
    ]
    assert thetas == [0.77, 0.30, 0.6]


# Neighbours


def test_the_nearest_tasks_come_with_who_solved_them(folder: Path, none: Path) -> None:
    router = Router(pool(KIMI, OPUS, REPAIR), folder, EMBEDDER, none)
    text = TEXTS[7].replace("case 7", "case 7 again")
    found = router.nearest(text, most=3)
    assert len(found) == 3 and [one.similarity for one in found] == sorted(
        (one.similarity for one in found), reverse=True
    )
    assert found[0].title == title_of(TEXTS[7]) and found[0].similarity > 0.8
    kimi, opus = table().resolved[7].tolist()
    ends = (("kimi", kimi), ("opus", opus))
    assert found[0].solved_by == tuple(name for name, solved in ends if solved)
    assert found[0].failed_by == tuple(name for name, solved in ends if not solved)


def test_a_task_is_not_its_own_neighbour(folder: Path, none: Path) -> None:
    found = Router(pool(KIMI, OPUS), folder, EMBEDDER, none).nearest(TEXTS[7], most=N + 5)
    assert len(found) == N - 1 and sum(one.similarity > 0.999 for one in found) == 0


def test_where_nothing_is_known_nothing_is_near(tmp_path: Path, none: Path) -> None:
    assert Router(pool(KIMI, OPUS), tmp_path, EMBEDDER, none).nearest(EASY) == []


# Always


@pytest.mark.parametrize("policy", ["value", "paper"])
@pytest.mark.parametrize("state", [SURE, None])
def test_equal_tasks_get_equal_decisions_that_survive_storage(
    folder: Path, none: Path, policy: str, state: State | None
) -> None:
    paper_heads(folder)
    settings = pool(KIMI, OPUS, REPAIR, NEW, policy=policy)
    router = Router(settings, folder, EMBEDDER, none)
    decision = router.route(EASY, state)
    assert decision == router.route(EASY, state) == Router(settings, folder, EMBEDDER, none).route(EASY, state)
    assert Decision.model_validate_json(decision.model_dump_json()) == decision
    backwards = Router(pool(NEW, REPAIR, OPUS, KIMI, policy=policy), folder, EMBEDDER, none)
    assert backwards.route(EASY, state).fixer == decision.fixer


@pytest.mark.parametrize("policy", ["value", pytest.param("paper", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "piece",
    [
        "",
        "\0",
        "\ud800",
        "\u202e",
        "é\u0301",
        "\n",
        " ",
        "`",
        "x/.",
        "_a",
        "```\n",
        "Aa",
        "日本",
        "\U0001f600",
        "%s{0}",
    ],
)
def test_odd_texts_are_safe(folder: Path, none: Path, policy: str, piece: str) -> None:
    if policy == "paper":
        paper_heads(folder)
    router = Router(pool(KIMI, OPUS, policy=policy), folder, EMBEDDER, none)
    text = piece * (200_000 // max(1, len(piece)))
    decision = router.route(text, SURE)
    assert decision.fixer in ("kimi", "opus")
    assert all(0 <= probability(decision, name) <= 1 for name in ("kimi", "opus"))
    assert router.nearest(text, most=1)
