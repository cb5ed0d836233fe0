from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from scrout.config import Fixer, RouteSettings, Settings
from scrout.errors import RouteError
from scrout.money import Price
from scrout.records import Candidate, Decision, State
from scrout.route import heads, resume
from scrout.route.embed import HashedEmbedder
from scrout.route.heads import ResumeHead, fit_head
from scrout.route.resume import Arm, Outcome, Resume, build_resume
from scrout.route.router import Router

EMBEDDER = HashedEmbedder()
PARSING = "parser grammar token lexer syntax tree unexpected indentation comment"
NETWORK = "socket timeout connection retry proxy header redirect certificate"
STATE = State(space="recon", vector=(1.0, 2.0))


def agent(name: str, output_usd: str) -> Fixer:
    price = Price(input=Decimal(1), output=Decimal(output_usd))
    return Fixer(name=name, kind="agent", model="m", base_url="http://localhost/v1", price=price)


REPAIR = Fixer(name="repair", kind="repair")
KIMI, GPT, OPUS = agent("kimi", "2.5"), agent("gpt", "14"), agent("opus", "25")


def pool(*fixers: Fixer, theta: float = 0.30, anchor: str = "") -> Settings:
    return Settings(fixers=fixers, route=RouteSettings(theta=theta, anchor=anchor))


def issue(vocabulary: str, number: int) -> str:
    words = vocabulary.split()
    return " ".join(words[(number * step) % len(words)] for step in (1, 2, 3, 5)) + f" fails in case {number}"


def history(cost_usd: str | None, parsing: int, network: int, arm: Arm = "handoff") -> list[Outcome]:
    """Twenty tasks of each vocabulary, with so many of each solved."""
    return [
        Outcome(
            instance_id=f"{vocabulary[:6]}-{number}",
            text=issue(vocabulary, number),
            resolved=number < solved,
            cost_usd=None if cost_usd is None else Decimal(cost_usd),
            arm=arm,
        )
        for vocabulary, solved in ((PARSING, parsing), (NETWORK, network))
        for number in range(20)
    ]


def teach(folder: Path, fit: bool = False, **histories: list[Outcome]) -> None:
    resumes = {fixer: build_resume(fixer, rows, EMBEDDER) for fixer, rows in histories.items()}
    for one in resumes.values():
        resume.save(one, folder)
    if fit:
        heads.save(fit_head(resumes, histories, EMBEDDER), folder)


def of(decision: Decision, fixer: str) -> Candidate:
    return next(candidate for candidate in decision.candidates if candidate.fixer == fixer)


@pytest.mark.parametrize("exists", [True, False])
def test_a_fresh_install_goes_to_the_most_expensive_agent(tmp_path: Path, exists: bool) -> None:
    folder = tmp_path if exists else tmp_path / "missing"
    decision = Router(pool(KIMI, OPUS, REPAIR, GPT), folder).route("it fails", None)
    assert (decision.fixer, decision.fallback, decision.degraded) == ("opus", True, False)
    assert decision.reason == "no fixer has a résumé yet, so the anchor opus takes it"
    assert [candidate.fixer for candidate in decision.candidates] == ["repair", "kimi", "gpt", "opus"]
    assert all(candidate.p_solve is None for candidate in decision.candidates)
    assert [candidate.expected_cost_usd for candidate in decision.candidates] == [Decimal(0), None, None, None]
    assert of(decision, "kimi").reason == "no résumé yet (it takes 25 outcomes), so its chance is unknown"
    assert of(decision, "opus").reason.startswith("the anchor, as no fixer reaches theta 0.30; no résumé yet")


@pytest.mark.parametrize("fixer", [REPAIR, KIMI])
def test_a_pool_of_one(tmp_path: Path, fixer: Fixer) -> None:
    decision = Router(pool(fixer), tmp_path).route("it fails", STATE)
    assert (decision.fixer, decision.fallback) == (fixer.name, True)
    assert decision.reason == "the only fixer in the pool" == decision.candidates[0].reason


def test_a_pool_of_one_that_reaches_theta_is_no_fallback(tmp_path: Path) -> None:
    teach(tmp_path, kimi=history("0.21", 15, 15))
    decision = Router(pool(KIMI), tmp_path).route("it fails", None)
    assert (decision.fixer, decision.fallback) == ("kimi", False)
    assert decision.reason == "the only fixer in the pool" == decision.candidates[0].reason


def test_without_a_head_the_base_rate_decides_and_says_so(tmp_path: Path) -> None:
    teach(tmp_path, kimi=history("0.21", 4, 4), gpt=history("0.42", 10, 9), opus=history("0.78", 15, 15))
    decision = Router(pool(OPUS, GPT, KIMI, REPAIR), tmp_path).route(issue(PARSING, 1), None)
    assert (decision.fixer, decision.fallback, decision.degraded) == ("gpt", False, False)
    assert decision.reason == "gpt is the cheapest fixer that reaches theta: 0.48 reaches theta 0.30"
    kimi, gpt, opus = (of(decision, name) for name in ("kimi", "gpt", "opus"))
    assert kimi.p_solve == 9 / 42 and gpt.p_solve == 20 / 42 and kimi.p_by_space == {}
    assert kimi.reason == "0.21 is below theta 0.30 (from its base rate, 8 of 40, as no head is fitted)"
    assert "0.48 reaches theta 0.30" in gpt.reason and "for $0.42, and no cheaper fixer does" in gpt.reason
    assert opus.reason.startswith("clears theta but costs $0.78 where gpt costs $0.42")
    assert "no résumé yet" in of(decision, "repair").reason


def test_the_head_learns_who_is_good_at_what(tmp_path: Path) -> None:
    teach(tmp_path, fit=True, kimi=history("0.21", 18, 2), gpt=history("0.42", 3, 17))
    router = Router(pool(KIMI, GPT, theta=0.5), tmp_path)
    for number in range(20, 26):  # issues that neither has seen
        parsing, network = router.route(issue(PARSING, number), None), router.route(issue(NETWORK, number), None)
        assert (parsing.fixer, network.fixer) == ("kimi", "gpt")
        assert not parsing.fallback and not network.fallback
        kimi = of(network, "kimi")
        assert kimi.p_solve is not None and kimi.p_solve < 0.5 and kimi.p_by_space == {"text": kimi.p_solve}
        assert "is below theta 0.50 (from the text head)" in kimi.reason


def test_a_new_fixer_joins_without_a_new_fit(tmp_path: Path) -> None:
    teach(tmp_path, fit=True, kimi=history("0.21", 18, 2), gpt=history("0.42", 3, 17))
    teach(tmp_path, opus=history("0.10", 2, 18))
    decision = Router(pool(KIMI, GPT, OPUS, theta=0.5), tmp_path).route(issue(NETWORK, 21), None)
    assert decision.fixer == "opus"
    assert of(decision, "gpt").reason.startswith("clears theta but costs $0.42 where opus costs $0.10")


def test_when_none_reaches_theta_the_anchor_takes_it(tmp_path: Path) -> None:
    teach(tmp_path, kimi=history("0.90", 4, 4), opus=history("0.78", 5, 5))
    decision = Router(pool(KIMI, OPUS, theta=0.425), tmp_path).route("it fails", None)
    # By what it cost, not by its price.
    assert (decision.fixer, decision.fallback) == ("kimi", True)
    assert decision.reason == "no fixer reaches theta 0.425, so the anchor kimi takes it"
    assert of(decision, "kimi").reason.startswith("the anchor, as no fixer reaches theta 0.425; 0.214 is below")
    named = Router(pool(KIMI, OPUS, theta=0.425, anchor="opus"), tmp_path).route("it fails", None)
    assert (named.fixer, named.fallback) == ("opus", True)


def test_a_newcomer_is_not_the_anchor_for_being_unknown(tmp_path: Path) -> None:
    teach(tmp_path, opus=history("0.78", 4, 4))
    decision = Router(pool(KIMI, OPUS), tmp_path).route("it fails", None)
    assert (decision.fixer, decision.fallback) == ("opus", True)
    assert of(decision, "kimi").expected_cost_usd is None


def test_repair_with_a_resume_wins_on_its_chance(tmp_path: Path) -> None:
    teach(tmp_path, repair=history("0", 8, 8))
    decision = Router(pool(KIMI, REPAIR), tmp_path).route("it fails", None)
    assert (decision.fixer, decision.fallback) == ("repair", False)
    assert "for $0.00" in of(decision, "repair").reason


def test_the_expected_cost_is_with_handoff_else_solo_else_unknown(tmp_path: Path) -> None:
    solo = history("0.31", 9, 9, arm="solo")
    teach(tmp_path, kimi=solo, gpt=solo + history("0.20", 9, 9), opus=history(None, 9, 9))
    decision = Router(pool(KIMI, GPT, OPUS), tmp_path).route("it fails", None)
    costs = {candidate.fixer: candidate.expected_cost_usd for candidate in decision.candidates}
    assert costs == {"gpt": Decimal("0.20"), "kimi": Decimal("0.31"), "opus": None}
    assert decision.fixer == "gpt"
    assert of(decision, "opus").reason.startswith("clears theta but costs an unknown amount where gpt costs $0.20")


def test_equal_costs_go_to_the_lower_output_price(tmp_path: Path) -> None:
    teach(tmp_path, kimi=history("0.05", 9, 9), gpt=history("0.05", 9, 9))
    decision = Router(pool(GPT, KIMI), tmp_path).route("it fails", None)
    assert decision.fixer == "kimi"
    assert of(decision, "gpt").reason.startswith("clears theta but is not cheaper than kimi ($0.0500)")


def test_a_near_miss_shows_the_digits_that_decide(tmp_path: Path) -> None:
    teach(tmp_path, kimi=history("0.21", 6, 6), opus=history("0.78", 2, 2))
    decision = Router(pool(KIMI, OPUS, theta=0.31), tmp_path).route("it fails", None)
    assert of(decision, "kimi").reason.startswith("0.3095 is below theta 0.3100")


@pytest.mark.parametrize("fit", [True, False])
def test_a_state_without_a_head_degrades_openly(tmp_path: Path, fit: bool) -> None:
    teach(tmp_path, fit=fit, kimi=history("0.21", 18, 12), gpt=history("0.42", 13, 17))
    router = Router(pool(KIMI, GPT), tmp_path)
    with_state, without = router.route("it fails", STATE), router.route("it fails", None)
    assert with_state.degraded and not without.degraded
    assert with_state.reason.endswith("; degraded to the issue's text: the scout's state (recon) has no fitted head")
    assert with_state.candidates == without.candidates


def test_a_head_that_misses_its_state_degrades_openly(tmp_path: Path) -> None:
    histories = {"kimi": history("0.21", 18, 12), "gpt": history("0.42", 13, 17)}
    teach(tmp_path, fit=True, **histories)
    state_head = ResumeHead.from_json(heads.load(tmp_path)["text"].to_json())
    state_head.space = "recon"
    heads.save(state_head, tmp_path)
    router = Router(pool(KIMI, GPT), tmp_path)
    missing = router.route("it fails", None)
    assert missing.degraded and "the recon head needs a state that the scout did not give" in missing.reason
    given = router.route("it fails", STATE)
    assert given.degraded and "no résumé has centroids for the recon head" in given.reason


def of_checkpoint(digest: str, layer: int = -4) -> State:
    return State(space=f"hidden/{digest}/layer{layer}/last/2", vector=(0.6, 0.8))


def with_state_head(folder: Path, space: str) -> Router:
    """A router whose folder also has a head for this space."""
    teach(folder, fit=True, kimi=history("0.21", 18, 12), gpt=history("0.42", 13, 17))
    head = ResumeHead.from_json(heads.load(folder)["text"].to_json())
    head.space = space
    heads.save(head, folder)
    return Router(pool(KIMI, GPT), folder)


def test_a_state_of_another_checkpoint_is_refused(tmp_path: Path) -> None:
    router = with_state_head(tmp_path, of_checkpoint("aaaaaaaaaaaaaaaa").space)
    with pytest.raises(
        RouteError, match=r"state is of checkpoint b{16}, .* fitted on states of a{16}\. Scout with that"
    ):
        router.route("it fails", of_checkpoint("bbbbbbbbbbbbbbbb"))


def test_of_the_heads_for_hidden_states_one_has_to_fit(tmp_path: Path) -> None:
    with_state_head(tmp_path, of_checkpoint("bbbbbbbbbbbbbbbb").space)
    router = with_state_head(tmp_path, of_checkpoint("aaaaaaaaaaaaaaaa").space)
    assert router.route("it fails", of_checkpoint("bbbbbbbbbbbbbbbb")).degraded
    with pytest.raises(RouteError, match=r"states of a{16}, b{16}"):
        router.route("it fails", of_checkpoint("cccccccccccccccc"))


@pytest.mark.parametrize(
    ("fitted", "given"),
    [
        ("recon", of_checkpoint("aaaaaaaaaaaaaaaa")),
        (of_checkpoint("aaaaaaaaaaaaaaaa").space, STATE),
        (of_checkpoint("aaaaaaaaaaaaaaaa").space, None),
        (of_checkpoint("aaaaaaaaaaaaaaaa").space, of_checkpoint("aaaaaaaaaaaaaaaa", layer=-5)),
    ],
    ids=["no head for any model", "recon's state", "no state", "another layer"],
)
def test_other_spaces_that_do_not_meet_degrade_openly(tmp_path: Path, fitted: str, given: State | None) -> None:
    decision = with_state_head(tmp_path, fitted).route("it fails", given)
    assert decision.degraded and "degraded to the issue's text" in decision.reason


def test_a_pool_of_one_asks_for_no_state(tmp_path: Path) -> None:
    with_state_head(tmp_path, of_checkpoint("aaaaaaaaaaaaaaaa").space)
    assert Router(pool(KIMI), tmp_path).route("it fails", of_checkpoint("bbbbbbbbbbbbbbbb")).fixer == "kimi"


def test_a_resume_of_another_embedder_is_refused(tmp_path: Path) -> None:
    one = build_resume("kimi", history("0.21", 9, 9), EMBEDDER)
    resume.save(Resume.model_validate(one.model_dump() | {"embedder": "other"}), tmp_path)
    with pytest.raises(RouteError, match=r"résumé of kimi .* made with other, .* embedded with hashed-512-1"):
        Router(pool(KIMI, GPT), tmp_path).route("it fails", None)


def test_a_corrupt_folder_is_noticed_at_the_first_task_and_not_before(tmp_path: Path) -> None:
    (tmp_path / "text.head.json").write_text("{")
    router = Router(pool(KIMI, GPT), tmp_path)
    with pytest.raises(RouteError, match=r"text\.head\.json"):
        router.route("it fails", None)


def test_equal_tasks_get_equal_decisions_that_survive_storage(tmp_path: Path) -> None:
    teach(tmp_path, fit=True, kimi=history("0.21", 18, 2), gpt=history("0.42", 3, 17))
    settings = pool(KIMI, GPT, REPAIR)
    decision = Router(settings, tmp_path).route("", STATE)
    assert decision == Router(settings, tmp_path).route("", STATE)
    assert Decision.model_validate_json(decision.model_dump_json()) == decision
