"""Verdicts on runs: what is learned from them, what is refused, and when predictions and results have parted."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from scrout.base import RouteError
from scrout.config.settings import Fixer, FixerKey, RouteSettings, Settings
from scrout.fix.kinds.agent import AgentFixer
from scrout.fix.kinds.repair import RepairFixer
from scrout.handoff import FileRef, Handoff
from scrout.money import Price, Receipt, Usage
from scrout.records import (
    Attempt,
    Candidate,
    Decision,
    Evidence,
    GatedHandoff,
    Run,
    RunOutcome,
    Scouting,
    State,
    Stop,
)
from scrout.route.embed import HashedEmbedder, Vectors
from scrout.route.feedback import (
    FILE,
    MIN_DRIFT,
    WINDOW,
    Feedback,
    Grade,
    LearningReport,
    Verdict,
    drift,
    from_run,
    history,
    join,
    learn,
    nearness,
    own_folder,
    record,
)
from scrout.route.outcomes import digest, join_texts
from scrout.route.resume import MIN_OUTCOMES, build_resume, find, keep, load, text_space
from scrout.route.task_vectors import TaskVectors
from scrout.task import Task

EMBEDDER = HashedEmbedder()
REPAIR = RepairFixer(name="repair")
TOY = AgentFixer(
    name="toy",
    model="toy-1",
    effort="high",
    base_url="http://127.0.0.1:9/v1",
    price=Price(input=Decimal(1), output=Decimal(1)),
)
KEY = FixerKey(agent="agent", model="toy-1", effort="high")
STATE = State(space="recon-2", vector=(5.0, 70_000.0, 0.25))


def pool(folder: Path, *fixers: Fixer) -> Settings:
    return Settings(fixers=fixers or (REPAIR, TOY), route=RouteSettings(resumes=str(folder)))


def run(
    number: int = 1,
    *,
    fixer: str = "toy",
    model: str = "toy-1",
    stop: Stop = "finished",
    patch: str = "diff",
    files: bool = True,
    outcome: RunOutcome = "solved",
    tried: bool = True,
) -> Run:
    handoff = Handoff(files=(FileRef(path="shop/cart.py"),) if files else ())
    receipt = Receipt(component="fix", model=model, usage=Usage(), cost_usd=Decimal("0.125"), at=datetime.now(UTC))
    attempt = Attempt(
        fixer=fixer,
        patch=patch,
        stop=stop,
        detail="",
        seconds=1.0,
        calls=7,
        cost_usd=Decimal("0.25"),
        receipts=() if fixer == "repair" else (receipt, receipt),
    )
    first = Attempt(fixer="repair", patch="", stop="nothing_found", detail="", seconds=1.0)
    probabilities = {"repair": 0.1, "toy": 0.75}
    return Run(
        id=f"20261116-0000{number:02}-abcdef",
        task=Task(
            id=f"shop-{number:010}", text=f"issue {number} of the shop", repo=Path("/shop"), base_commit="0" * 40
        ),
        settings_digest="d",
        started=datetime.now(UTC),
        sandbox="bubblewrap",
        environment="none",
        scouting=Scouting(handoff=handoff, text="", state=STATE, seconds=1.0),
        gated=GatedHandoff(
            verdict="no_repro",
            kept=False,
            materialized=False,
            reason="",
            evidence=Evidence(),
            handoff=handoff,
            text="",
        ),
        decision=Decision(
            fixer="toy",
            theta=0.3,
            degraded=False,
            fallback=False,
            reason="",
            candidates=tuple(
                Candidate(fixer=name, p_solve=p, expected_cost_usd=None, reason="") for name, p in probabilities.items()
            ),
        ),
        attempts=(first, attempt) if tried else (),
        outcome=outcome,
    )


def ended(number: int, verdict: Verdict | Grade, key: FixerKey = KEY, p_solve: float | None = 0.5) -> LearningReport:
    return LearningReport(
        run=f"run-{number}",
        key=key,
        verdict=verdict,
        instance_id=f"shop-{number}",
        text=f"issue {number}",
        arm="handoff",
        cost_usd=None,
        api_calls=None,
        p_solve=p_solve,
        state=None,
    )


# From a run


def test_the_last_attempt_is_what_is_learned(tmp_path: Path) -> None:
    one = from_run(run(), "merged", pool(tmp_path))
    assert (one.run, one.key, one.verdict, one.p_solve) == ("20261116-000001-abcdef", KEY, "merged", 0.75)
    assert one.told == join_texts("shop-0000000001", "issue 1 of the shop", True, Decimal("0.25"), "handoff", 7)
    assert one.state == STATE
    assert from_run(run(fixer="repair"), "merged", pool(tmp_path)).key == FixerKey(agent="repair")


@pytest.mark.parametrize(("verdict", "resolved"), [("merged", True), ("reverted", False), ("wrong", False)])
def test_verdicts(tmp_path: Path, verdict: Verdict, resolved: bool) -> None:
    outcome = from_run(run(files=False), verdict, pool(tmp_path)).told.outcome
    assert (outcome.resolved, outcome.arm) == (resolved, "solo")


@pytest.mark.parametrize(
    ("judged", "verdict", "words"),
    [
        (run(tried=False, outcome="interrupted"), "merged", "no fixer made an attempt in run .* \\(interrupted\\)"),
        (run(stop="endpoint"), "wrong", "the endpoint of toy failed, which says nothing about the fixer"),
        (run(patch=""), "merged", "ended without a patch, so there is no patch to call merged. Use `wrong`"),
        (run(patch=""), "reverted", "so there is no patch to call reverted"),
        (run(fixer="gone"), "merged", "was tried by 'gone', which is not in the pool.*--config"),
        (run(model="toy-0"), "merged", "toy was toy-0 in run .* and is toy-1 now.*--config"),
    ],
)
def test_what_would_teach_something_false_is_refused(tmp_path: Path, judged: Run, verdict: Verdict, words: str) -> None:
    with pytest.raises(RouteError, match=words):
        record(judged, verdict, pool(tmp_path / "resumes"), EMBEDDER)
    assert not (tmp_path / "resumes").exists()


def test_a_run_without_a_patch_can_be_wrong(tmp_path: Path) -> None:
    lesson, _ = record(run(patch=""), "wrong", pool(tmp_path), EMBEDDER)
    assert (lesson.resume.n, lesson.resume.solved) == (1, 0)


# Learning


def test_a_first_verdict_starts_a_growing_resume_with_its_vectors(tmp_path: Path) -> None:
    settings = pool(tmp_path / "resumes")
    lesson, former = record(run(), "merged", settings, EMBEDDER)
    folder = own_folder(settings.route)
    assert former is None and lesson.replaced == () and lesson.resume.growing
    assert load(folder) == {KEY: lesson.resume} and lesson.resume.source == "your own runs"
    known, task = TaskVectors(folder), digest("issue 1 of the shop")
    has, rows = known.vectors("recon-2", [task])
    assert has.all() and rows[0].tolist() == list(STATE.vector)
    (text,) = known.vectors(text_space(EMBEDDER), [task])[1]
    assert np.allclose(text, EMBEDDER.embed(["issue 1 of the shop"])[0], atol=1e-3)
    assert known.titles == {task: "issue 1 of the shop"}
    (line,) = history(folder)
    assert (line.run, line.key, line.verdict, line.p_solve) == ("20261116-000001-abcdef", KEY, "merged", 0.75)


def test_the_last_word_on_a_run_counts(tmp_path: Path) -> None:
    settings = pool(tmp_path)
    record(run(1), "merged", settings, EMBEDDER)
    record(run(2), "merged", settings, EMBEDDER)
    lesson, former = record(run(1), "reverted", settings, EMBEDDER)
    assert former is not None and former.verdict == "merged"
    assert lesson.replaced == ("shop-0000000001",) and (lesson.resume.n, lesson.resume.solved) == (2, 1)
    assert [line.verdict for line in history(tmp_path)] == ["merged", "merged", "reverted"]
    changed = pool(tmp_path, REPAIR, TOY.model_copy(update={"effort": "low"}))
    with pytest.raises(RouteError, match="was judged as one of agent/toy-1@high, and its fixer is agent/toy-1@low now"):
        record(run(1), "merged", changed, EMBEDDER)


def test_verdicts_join_what_was_added_from_a_file(tmp_path: Path) -> None:
    rows = [join_texts(f"file-{n}", f"task {n}", n % 2 == 0) for n in range(30)]
    keep(build_resume(KEY, rows, source="runs.csv"), rows, EMBEDDER, tmp_path)
    lesson, _ = record(run(), "wrong", pool(tmp_path), EMBEDDER)
    assert (lesson.resume.n, lesson.resume.solved, lesson.resume.source) == (31, 15, "runs.csv; your own runs")
    again, _ = record(run(2), "wrong", pool(tmp_path), EMBEDDER)
    assert (again.resume.n, again.resume.source) == (32, "runs.csv; your own runs")


def test_a_graded_batch_teaches_several_fixers(tmp_path: Path) -> None:
    other = FixerKey(agent="agent", model="toy-2")
    batch = [ended(n, "resolved" if n % 3 else "unresolved") for n in range(MIN_OUTCOMES)]
    batch += [ended(n, "unresolved", other) for n in range(5)]
    lessons = learn(batch, tmp_path, EMBEDDER)
    assert {key: (one.resume.n, one.resume.solved) for key, one in lessons.items()} == {KEY: (25, 16), other: (5, 0)}
    known = load(tmp_path)
    assert find(KEY, known) == lessons[KEY].resume and find(other, known) is None
    assert len(history(tmp_path)) == 30
    assert learn([], tmp_path, EMBEDDER) == {} and load(tmp_path) == known


def test_several_may_learn_at_once(tmp_path: Path) -> None:
    threads = [
        threading.Thread(target=learn, args=([ended(number, "merged")], tmp_path, EMBEDDER)) for number in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert load(tmp_path)[KEY].n == len(history(tmp_path)) == 8


def test_a_task_counts_once_for_each_arm() -> None:
    solo, handoff = ended(1, "wrong"), ended(1, "merged")
    solo = replace(solo, arm="solo")
    joined, replaced = join([solo.told.outcome], [handoff.told.outcome])
    assert len(joined) == 2 and replaced == ()
    joined, replaced = join(joined, [replace(solo, verdict="merged").told.outcome])
    assert [one.resolved for one in joined] == [True, True] and replaced == ("shop-1",)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RouteError, match=r"cannot write .*file.*route\.resumes"):
        learn([ended(1, "merged")], tmp_path / "file", EMBEDDER)


@pytest.mark.parametrize("line", [b"{", b"[]", b'{"run": "x"}', b"\xff"])
def test_a_broken_line_is_named(tmp_path: Path, line: bytes) -> None:
    learn([ended(1, "merged")], tmp_path, EMBEDDER)
    with (tmp_path / FILE).open("ab") as file:
        file.write(line + b"\n")
    with pytest.raises(RouteError, match=r"feedback\.jsonl, line 2 cannot be read .* Remove the line"):
        history(tmp_path)


def test_the_file_only_grows(tmp_path: Path) -> None:
    learn([ended(1, "merged")], tmp_path, EMBEDDER)
    before = (tmp_path / FILE).read_bytes()
    learn([ended(1, "wrong", p_solve=None)], tmp_path, EMBEDDER)
    after = (tmp_path / FILE).read_bytes()
    assert after.startswith(before)
    line = json.loads(after[len(before) :])
    assert set(line) == {"run", "key", "verdict", "when", "p_solve"} and line["p_solve"] is None
    assert Feedback.model_validate(line).when.tzinfo is not None


# Drift


def test_drift_is_how_far_results_are_from_predictions(tmp_path: Path) -> None:
    learn([ended(n, "merged" if n < 2 else "wrong", p_solve=0.6) for n in range(10)], tmp_path, EMBEDDER)
    (found,) = drift(tmp_path)
    assert (found.key, found.n, found.predicted, found.observed) == (KEY, 10, 0.6, 0.2)
    assert found.z == pytest.approx((2 - 6) / math.sqrt(10 * 0.6 * 0.4), abs=1e-3)
    for words in (
        "agent/toy-1@high does worse",
        "2 of its last 10",
        "0.60 was expected",
        "z -2.6",
        "scrout fixers add",
    ):
        assert words in found.notice


def test_a_fixer_may_do_better_than_predicted(tmp_path: Path) -> None:
    learn([ended(n, "merged", p_solve=0.3) for n in range(10)], tmp_path, EMBEDDER)
    (found,) = drift(tmp_path)
    assert found.z > 2 and "does better" in found.notice


@pytest.mark.parametrize(
    ("ends", "p_solve"),
    [
        (["wrong"] * (MIN_DRIFT - 1), 0.9),  # too few
        (["merged"] * 6 + ["wrong"] * 4, 0.6),  # as predicted
        (["merged"] * 4 + ["wrong"] * 6, 0.6),  # within probability
    ],
)
def test_no_notice_without_a_reason(tmp_path: Path, ends: list[Verdict], p_solve: float) -> None:
    learn([ended(n, verdict, p_solve=p_solve) for n, verdict in enumerate(ends)], tmp_path, EMBEDDER)
    (found,) = drift(tmp_path)
    assert found.n == len(ends) and found.notice == ""


def test_only_predicted_runs_and_last_words_count(tmp_path: Path) -> None:
    assert drift(tmp_path) == []
    learn([ended(n, "wrong", p_solve=None) for n in range(20)], tmp_path, EMBEDDER)
    assert drift(tmp_path) == []
    learn([ended(n, "wrong", p_solve=0.5) for n in range(30, 42)], tmp_path, EMBEDDER)
    assert drift(tmp_path)[0].notice
    learn([ended(n, "merged", p_solve=0.5) for n in range(30, 36)], tmp_path, EMBEDDER)
    (found,) = drift(tmp_path)
    assert (found.n, found.observed, found.z, found.notice) == (12, 0.5, 0.0, "")


def test_what_was_wrong_long_ago_is_forgotten(tmp_path: Path) -> None:
    learn([ended(n, "wrong", p_solve=0.9) for n in range(30)], tmp_path, EMBEDDER)
    for n in range(WINDOW):
        learn([ended(100 + n, "merged" if n % 2 else "wrong", p_solve=0.5)], tmp_path, EMBEDDER)
    (found,) = drift(tmp_path)
    assert (found.n, found.predicted, found.notice) == (WINDOW, 0.5, "")


def test_certainty_that_fails_is_a_finite_surprise(tmp_path: Path) -> None:
    learn([ended(n, "wrong", p_solve=1.0) for n in range(10)], tmp_path, EMBEDDER)
    (found,) = drift(tmp_path)
    assert math.isfinite(found.z) and "does worse" in found.notice


# Nearness


class Angle:
    """Embeds "60" as the direction of 60 degrees."""

    name = "angle"
    size = 2

    def embed(self, texts: Sequence[str]) -> Vectors:
        angles = np.radians([float(text) for text in texts])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


@pytest.mark.parametrize(
    ("mine", "cosine", "words"),
    [
        (["0.2", "3.1", "3.1", "7.4"], 1.0, "as near to its tasks as those are to each other"),
        (["84", "88", "100"], 0.5, "far from its tasks"),
    ],
)
def test_how_near_the_users_tasks_are(tmp_path: Path, mine: list[str], cosine: float, words: str) -> None:
    rows = [join_texts(f"t-{n}", str(n), n % 2 == 0) for n in range(29)]  # from 0 to 28 degrees, one apart
    resume = build_resume(KEY, rows)
    keep(resume, rows, Angle(), tmp_path)
    found = nearness(mine, resume, TaskVectors(tmp_path), Angle())
    assert found is not None and found.tasks == 3
    assert found.median == pytest.approx(cosine, abs=2e-3) and words in found.words
    assert found.among_own == pytest.approx(math.cos(math.radians(1)), abs=2e-3)
    assert f"median cosine {cosine:.2f}" in found.words


def test_nothing_is_said_of_nearness_without_runs_or_vectors(tmp_path: Path) -> None:
    rows = [join_texts(f"t-{n}", str(n), n % 2 == 0) for n in range(25)]
    resume = build_resume(KEY, rows)
    keep(resume, rows, Angle(), tmp_path)
    assert nearness([], resume, TaskVectors(tmp_path), Angle()) is None
    assert nearness(["a text"], resume, TaskVectors(tmp_path), EMBEDDER) is None
