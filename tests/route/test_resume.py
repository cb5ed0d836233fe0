"""Résumés: what they count, what they refuse, whom they stand in for, and how they are kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from scrout.base import RouteError
from scrout.config.settings import FixerKey
from scrout.money import Price
from scrout.route.embed import HashedEmbedder, Vectors
from scrout.route.outcomes import Arm, OutcomeWithText, join_texts
from scrout.route.resume import (
    MIN_OUTCOMES,
    Resume,
    build_resume,
    extended,
    find,
    keep,
    load,
    resume_vectors,
    same_model,
    save,
    text_space,
)
from scrout.route.task_vectors import TaskVectors

KIMI = FixerKey(agent="mini", model="kimi-k2")


class TwoNumbers:
    """Embeds "3 4" as (0.6, 0.8)."""

    name = "two-numbers"
    size = 2

    def embed(self, texts: Sequence[str]) -> Vectors:
        rows = np.array([[float(number) for number in text.split()] for text in texts], dtype=np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def one(
    number: int, resolved: bool, cost: str | None = "0.10", arm: Arm = "handoff", text: str = ""
) -> OutcomeWithText:
    return join_texts(
        f"task-{number}", text or f"issue number {number}", resolved, None if cost is None else Decimal(cost), arm
    )


def past(n: int = MIN_OUTCOMES, first: int = 0) -> list[OutcomeWithText]:
    return [one(number, number % 2 == 0) for number in range(first, first + n)]


def grown(key: FixerKey | str = KIMI, n: int = MIN_OUTCOMES) -> Resume:
    return build_resume(FixerKey.parse(key) if isinstance(key, str) else key, past(n))


def growing(key: FixerKey, n: int = 1) -> Resume:
    return Resume(key=key, outcomes=tuple(join_texts.outcome for join_texts in past(n)), made=grown().made)


def test_counts_rate_and_interval() -> None:
    resume = build_resume(KIMI, [one(number, number < 10) for number in range(25)], source="a study")
    assert (resume.key, resume.n, resume.solved, resume.base_rate, resume.source) == (KIMI, 25, 10, 0.4, "a study")
    assert not resume.growing
    low, high = resume.interval
    assert (round(low, 4), round(high, 4)) == (0.2340, 0.5926)  # Wilson's interval of 10 in 25


def test_costs_are_means_of_each_arm_where_known() -> None:
    rows = [one(n, n % 2 == 0, "0.10") for n in range(23)] + [one(23, True, "0.34"), one(24, True, None)]
    resume = build_resume(KIMI, rows)
    assert (resume.cost_usd("handoff"), resume.cost_usd("solo")) == (Decimal("0.11"), None)
    both = build_resume(KIMI, [*rows, one(1, True, "0.50", "solo"), one(2, True, "0", "solo")])
    assert (both.cost_usd("handoff"), both.cost_usd("solo")) == (Decimal("0.11"), Decimal("0.50"))
    free = build_resume(KIMI, [one(n, n % 2 == 0, "0") for n in range(25)])
    assert free.cost_usd("handoff") == 0


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (past(24), "mini/kimi-k2 has 24 of 25 outcomes. Run it on 1 more"),
        ([], "0 of 25"),
        ([one(n, True) for n in range(30)], "solved 30 of its 30 tasks. Add tasks that it fails"),
        ([one(n, False) for n in range(30)], "solved 0 of its 30 tasks. Add tasks that it solves"),
        ([*past(30), one(7, True)], "2 outcomes of 'task-7' \\(handoff\\)"),
    ],
)
def test_a_history_that_teaches_nothing_is_refused(rows: list[OutcomeWithText], words: str) -> None:
    with pytest.raises(RouteError, match=words):
        build_resume(KIMI, rows)


def test_records_refuse_what_cannot_be() -> None:
    with pytest.raises(ValidationError):
        one(1, True, "-0.01")
    outcome = one(1, True).outcome
    with pytest.raises(ValidationError, match="2 outcomes of 'task-1'"):
        Resume(key=KIMI, outcomes=(outcome, outcome), made=grown().made)
    with pytest.raises(ValidationError):
        Resume(key=KIMI, outcomes=(), made=grown().made)


def test_new_outcomes_join_and_replace_only_when_told_so() -> None:
    resume = build_resume(KIMI, [*past(25), one(3, True, arm="solo")])
    joined = build_resume(KIMI, extended(resume, past(5, first=25)))
    assert (joined.n, joined.solved) == (31, resume.solved + 2)
    again = [one(3, True), one(4, False), one(99, True)]
    with pytest.raises(RouteError, match=r"already has an outcome of 'task-3' \(handoff\) and 1 more. With --replace"):
        extended(resume, again)
    replaced = build_resume(KIMI, extended(resume, again, replace=True))
    assert (replaced.n, replaced.solved) == (27, resume.solved + 1)
    assert sum(outcome.instance_id == "task-3" for outcome in replaced.outcomes) == 2  # one for each arm
    with pytest.raises(RouteError, match="2 outcomes of 'task-99'"):
        build_resume(KIMI, extended(resume, [one(99, True), one(99, False)], replace=True))


# In a feature space


def test_centroids_are_means_of_what_was_solved_and_failed(tmp_path: Path) -> None:
    rows = [one(n, True, text="1 0" if n % 2 else "0 1") for n in range(10)]
    rows += [one(n, False, text="3 4") for n in range(10, 25)]
    resume, embedder = build_resume(KIMI, rows), TwoNumbers()
    keep(resume, rows, embedder, tmp_path)
    known = TaskVectors(tmp_path)
    assert load(tmp_path) == {KIMI: resume}
    assert known.titles[rows[0].outcome.task] == "0 1"
    found = resume_vectors(resume, known, text_space(embedder))
    assert found is not None and (found.name, found.base_rate) == ("mini/kimi-k2", 0.4)
    assert found.solved == pytest.approx([0.5, 0.5]) and found.failed == pytest.approx([0.6, 0.8], abs=1e-3)
    assert resume_vectors(resume, known, "another space") is None
    solved = Resume(key=KIMI, outcomes=resume.outcomes[:10], made=resume.made)
    assert resume_vectors(solved, known, text_space(embedder)) is None


# Whose résumé


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("anthropic/claude-opus-4.6", "claude-4-6-opus", True),
        ("claude-opus-4-6-20260115", "claude-opus-4-6", True),
        ("claude-opus-4-6@2026-01-15", "claude-opus-4-6-latest", True),
        ("moonshotai/kimi-k2:free", "Kimi-K2-Instruct", True),
        ("claude-opus-4-6", "claude-opus-4-5", False),
        ("claude-opus-4-6", "claude-sonnet-4-6", False),
        ("gpt-5.2", "gpt-5.2-mini", False),
        ("qwen2.5-coder:7b", "qwen2.5-coder:32b", False),
        ("模型", "模式", False),
        ("latest", "chat", False),
        ("latest", "latest", True),
        ("", "", False),
    ],
)
def test_spellings_of_a_model(one: str, other: str, same: bool) -> None:
    assert same_model(one, other) is same_model(other, one) is same


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("agent/gpt-5.2@high", "agent/gpt-5.2@high"),
        ("codex/gpt-5.2@high", "agent/gpt-5.2@high"),
        ("codex/openai/gpt-5.2", "mini/gpt-5.2"),
        ("agent/gpt-5.2@low", "agent/gpt-5.2@high"),  # no such effort: the agent decides
        ("repair", "repair"),
        ("agent/kimi-k2", None),
        ("agent", None),
    ],
)
def test_a_fixer_goes_by_its_own_resume_else_by_the_nearest_of_its_model(wanted: str, found: str | None) -> None:
    known = {one.key: one for one in map(grown, ("agent/gpt-5.2@high", "mini/gpt-5.2", "repair", "mini/gpt-5.2-mini"))}
    resume = find(FixerKey.parse(wanted), known)
    assert (None if resume is None else str(resume.key)) == found


def test_a_growing_resume_is_passed_over(tmp_path: Path) -> None:
    own = growing(FixerKey(agent="agent", model="kimi-k2"), 24)
    assert own.growing and find(own.key, {own.key: own}) is None
    public = grown("mini/kimi-k2", 40)
    assert find(own.key, {own.key: own, public.key: public}) is public

    shipped, mine = tmp_path / "shipped", tmp_path / "mine"
    save(public, shipped)
    save(growing(public.key), mine)
    assert load(shipped, mine) == {public.key: public} and load(mine)[public.key].n == 1
    save(grown(public.key, 25), mine)
    assert load(shipped, mine)[public.key].n == 25


# Files


@given(st.lists(st.decimals(0, 99, places=10), min_size=MIN_OUTCOMES, max_size=40), st.data())
def test_what_is_saved_is_loaded(
    tmp_path_factory: pytest.TempPathFactory, costs: list[Decimal], data: st.DataObject
) -> None:
    rows = [
        one(n, n % 2 == 0, str(cost), data.draw(st.sampled_from(["solo", "handoff"]))) for n, cost in enumerate(costs)
    ]
    resume = build_resume(KIMI, rows, source="ä")
    folder = tmp_path_factory.mktemp("resumes")
    save(resume, folder)
    assert load(folder) == {KIMI: resume}


def test_a_missing_or_empty_folder_holds_no_resume(tmp_path: Path) -> None:
    assert load(tmp_path) == {} == load(tmp_path / "missing")


def test_names_stay_in_the_folder_and_apart(tmp_path: Path) -> None:
    names = ["a/b", "a-b", "a/../up", "a//etc/x", "a/b@high", "a.b", "a/..%2F", "a/…"]
    folder = tmp_path / "deep" / "resumes"
    for name in names:
        save(grown(name), folder)
    assert {str(key) for key in load(folder)} == set(names)
    assert [path for path in tmp_path.rglob("*.json") if path.parent != folder] == []


def test_saving_again_replaces_and_leaves_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "resumes"
    save(grown(n=25), folder)
    path = save(grown(n=31), folder)
    assert load(folder)[KIMI].n == 31
    assert load(folder)[KIMI] is load(folder)[KIMI], "the same bytes are read once"
    assert list(folder.iterdir()) == [path]


def test_a_folder_that_cannot_be_written_is_an_error_of_the_users(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RouteError, match=r"cannot write .*kimi"):
        save(grown(), tmp_path / "file")
    with pytest.raises(RouteError, match=r"cannot write .*file"):
        keep(grown(), past(), HashedEmbedder(), tmp_path / "file")


OUTCOME = json.loads(one(1, True).outcome.model_dump_json())


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 1},
        {"unknown": 1},
        {"made": "yesterday"},
        {"outcomes": []},
        {"outcomes": [OUTCOME, OUTCOME]},
        {"outcomes": [OUTCOME | {"arm": "both"}]},
        {"key": {"agent": "No Agent"}},
    ],
)
def test_a_file_that_does_not_add_up_is_named(tmp_path: Path, changes: dict[str, object]) -> None:
    path = save(grown(), tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(RouteError, match=r"kimi-k2\.resume\.json: not a résumé .*Build it again") as caught:
        load(tmp_path)
    assert "\n" not in str(caught.value)


@given(st.binary(max_size=60))
def test_a_corrupt_file_is_named(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("resumes") / "mini%2Fkimi-k2.resume.json"
    path.write_bytes(content)
    with pytest.raises(RouteError, match=r"kimi-k2\.resume\.json"):
        load(path.parent)


def test_a_file_under_another_fixers_name_is_refused(tmp_path: Path) -> None:
    save(grown(), tmp_path).rename(tmp_path / "opus.resume.json")
    with pytest.raises(RouteError, match=r"opus\.resume\.json is the résumé of mini/kimi-k2. Rename it"):
        load(tmp_path)


def test_costs_follow_the_price_of_the_day() -> None:
    """A model that became half as dear is expected to cost half; where no price is known, what was paid stands."""
    price = Price(input=Decimal(3), output=Decimal(15), cache_read=Decimal("0.3"))
    half = Price(input=Decimal("1.5"), output=Decimal("7.5"), cache_read=Decimal("0.15"))
    told_ones = [join_texts(f"shop-{n}", f"text {n}", n % 2 == 0, Decimal("0.40")) for n in range(30)]
    known = build_resume(FixerKey.parse("mini/shopper-1"), told_ones, price=price)
    assert known.expected_cost_usd(price, "solo") == known.expected_cost_usd(None, "handoff") == Decimal("0.40")
    assert known.expected_cost_usd(half, "solo") == Decimal("0.20")
    assert build_resume(FixerKey.parse("mini/shopper-1"), told_ones).expected_cost_usd(half, "solo") == Decimal("0.40")
    free = Price(input=Decimal(0), output=Decimal(0))
    assert build_resume(FixerKey.parse("mini/shopper-1"), told_ones, price=free).expected_cost_usd(
        half, "solo"
    ) == Decimal("0.40")
