"""The evaluation: real episodes with a scripted endpoint in the real sandbox, and the arithmetic of its figures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from scrout.base import TaskError
from scrout.cli.train.evaluate import command
from scrout.handoff import Handoff
from scrout.lab.train.episodes import infrastructure_failed
from scrout.lab.train.evaluate.episode import Arm, EvaluationEpisode, in_form
from scrout.lab.train.evaluate.evaluate import read_evaluation
from scrout.lab.train.evaluate.score import Score, compare, score
from scrout.models.scripted import Hang, ScriptedEndpoint, ScriptedReply, ScriptedRequest, Status
from scrout.money import Usage
from scrout.records import Scouting, ScoutStop
from scrout.sandbox.tier import Tier

FILES = {"shop/cart.py": "def total(prices):\n    return sum(prices[1:])\n", "shop/stock.py": "ITEMS = []\n"}
LOOK = "Look.\n<function=bash>\n<parameter=command>ls shop</parameter>\n</function>"
BROKEN = "Look.\n<function=bash>\n<parameter=command>ls shop"
PAGE = "<files>\nshop/cart.py\nshop/stock.py\n</files>\n<notes>\nThe slice.\n</notes>\nSTOP"
BARE = "<files>\nshop/cart.py\n"
USAGE = Usage(input_tokens=100, output_tokens=10)


def say(text: str) -> ScriptedReply:
    return ScriptedReply(text, usage=USAGE)


def replies(request: ScriptedRequest) -> int:
    """How many the model has given in this episode."""
    messages = request.content["messages"]
    assert isinstance(messages, list)
    return sum(message["role"] == "assistant" for message in messages)  # type: ignore[index,call-overload]


def issue(request: ScriptedRequest) -> str:
    return str(request.content["messages"][1]["content"])  # type: ignore[index,call-overload]


def searcher(request: ScriptedRequest) -> ScriptedReply:
    """Greedy looks around until it is made to hand over; sampled writes one bad call, looks, and hands over."""
    if request.content["temperature"] == 0:
        return say(BARE if replies(request) == 3 else LOOK)
    return say((BROKEN, LOOK, PAGE)[replies(request)])


@pytest.fixture
def tasks(make_repo: Callable[..., Path], tmp_path: Path, tier: Tier) -> Path:
    """Two tasks, and one whose gold files are not known."""
    repo = make_repo(FILES)
    gold = (("shop/cart.py",), ("shop/cart.py", "shop/none.py"), None)
    rows: list[dict[str, Any]] = [
        {"id": f"shop-{at}", "text": f"total() is wrong ({at})", "repo": str(repo), "base_commit": "HEAD"}
        for at in range(3)
    ]
    for row, files in zip(rows, gold, strict=True):
        row["gold"] = {"patch": "", "files": files} if files else None
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def arguments(tasks: Path, out: Path, base_url: str, *more: str) -> list[str]:
    model = {"model": "toy", "base_url": base_url, "dialect": "xml", "turns": 3, "shortlist": False}
    settings = [f"scout.model.{key}={json.dumps(value)}" for key, value in model.items()]
    settings.append("scout.model.price={input=0,output=0}")
    return [str(tasks), "--out", str(out), *(part for one in settings for part in ("-c", one)), *more]


def evaluation(tasks: Path, out: Path, server: ScriptedEndpoint, *more: str) -> Result:
    return CliRunner().invoke(command, arguments(tasks, out, server.base_url, *more), standalone_mode=False)


def scored(result: Result) -> Score:
    assert result.exception is None, result.exception
    return Score.model_validate_json(result.stdout)


def value(found: Score, arm: str, measure: str) -> float | None:
    measures = next(one.measures for one in found.arms if one.arm == arm)
    estimate = measures[measure]  # type: ignore[index]
    return None if estimate is None else pytest.approx(estimate.value)  # type: ignore[return-value]


def test_both_arms_are_run_and_scored_with_forced_handoffs_apart(tasks: Path, tmp_path: Path) -> None:
    with ScriptedEndpoint(searcher) as server:
        result = evaluation(tasks, tmp_path / "evaluate", server, "--draws", "2", "--json")
        sent = [request.content for request in server.requests]
    found = scored(result)
    assert result.return_value == 0
    assert "1 rows" in result.stderr
    assert [(arm.arm, arm.tasks, arm.episodes, arm.handoffs, arm.forced) for arm in found.arms] == [
        ("greedy", 2, 2, 0, 2),
        ("sampled", 2, 4, 4, 0),
    ]
    # Gold is one of one file, and one of two; sampled names two files, of which one is gold in both tasks.
    assert value(found, "sampled", "find_rate") == 0.75
    assert value(found, "sampled", "precision_per_handoff") == 0.5
    assert value(found, "sampled", "files_per_handoff") == 2
    assert value(found, "sampled", "all_gold_per_handoff") == 0.5
    assert value(found, "sampled", "well_formed") == 1
    assert value(found, "sampled", "valid_calls") == 0.5
    assert value(found, "sampled", "malformed_episodes") == 1
    # What was forced never counts as found.
    assert value(found, "greedy", "find_rate") == value(found, "greedy", "emission") == 0
    assert value(found, "greedy", "find_rate_with_forced") == value(found, "greedy", "recall_per_forced") == 0.75
    assert value(found, "greedy", "recall_per_handoff") is None
    assert value(found, "greedy", "emission_forced") == 1
    assert value(found, "greedy", "well_formed_forced") == 0
    assert value(found, "greedy", "valid_calls") == 1
    assert found.decoding is not None
    assert found.decoding.every.ratio is None
    assert {one["temperature"] for one in sent} == {0, 0.9}
    assert {one["top_p"] for one in sent if one["temperature"]} == {1.0}
    assert len({one["seed"] for one in sent if one["temperature"]}) == 4
    card, episodes = read_evaluation(tmp_path / "evaluate")
    assert (card.tasks, card.draws, card.model, len(card.prompts)) == (2, 2, "toy", 16)
    assert "base_url" not in json.dumps(card.settings)
    assert all((tmp_path / "evaluate" / one.trace).is_file() for one in episodes)


def test_the_table_names_both_arms_and_the_finding(tasks: Path, tmp_path: Path) -> None:
    def mostly(request: ScriptedRequest) -> ScriptedReply:
        return say(PAGE if request.content["temperature"] or "(0)" in issue(request) else "I wonder.")

    with ScriptedEndpoint(mostly) as server:
        text = evaluation(tasks, tmp_path / "evaluate", server).stdout
    assert "2 tasks, 2 episodes" in text
    assert "turns with a valid call" in text
    finding = " ".join(text.split())
    assert "sampled finds 0.750, greedy 0.500, 1.50 times as much" in finding
    assert "2.00 by handing over more often (171% of it, in logarithms) x 0.75 by recall per handoff" in finding


def test_an_evaluation_that_was_killed_goes_on_where_it_was(tasks: Path, tmp_path: Path) -> None:
    """SIGKILL in the third of four episodes: the first two are kept, and asked of nobody again."""

    def hanging(request: ScriptedRequest) -> ScriptedReply:
        hangs = "(1)" in issue(request) and replies(request) == 1
        return ScriptedReply(LOOK, usage=USAGE, fault=Hang(60)) if hangs else searcher(request)

    out = tmp_path / "evaluate"
    with ScriptedEndpoint(hanging) as server:
        words = arguments(tasks, out, server.base_url, "--parallel", "1")
        started = [sys.executable, "-c", "from scrout.cli.main import main; main()", "train", "evaluate", *words]
        with subprocess.Popen(started, env=os.environ, start_new_session=True, stderr=subprocess.DEVNULL) as process:
            while not any("(1)" in issue(one) and replies(one) for one in server.requests):
                assert process.poll() is None
                time.sleep(0.05)
            os.killpg(process.pid, signal.SIGKILL)
    assert len((out / "episodes.jsonl").read_text().splitlines()) == 2
    with (out / "episodes.jsonl").open("a") as file:
        file.write('{"task": "shop-1", "ar')
    with ScriptedEndpoint(searcher) as server:
        found = scored(evaluation(tasks, out, server, "--parallel", "1", "--json"))
        assert not any("(0)" in issue(one) for one in server.requests)
    assert (found.episodes, found.expected) == (4, 4)
    assert len({(one.task, one.arm, one.draw) for one in read_evaluation(out)[1]}) == 4


def test_what_infrastructure_failed_is_not_scored_and_tried_again(tasks: Path, tmp_path: Path) -> None:
    def refusing(request: ScriptedRequest) -> ScriptedReply:
        return ScriptedReply(fault=Status(401)) if "(1)" in issue(request) else searcher(request)

    out = tmp_path / "evaluate"
    with ScriptedEndpoint(refusing) as server:
        result = evaluation(tasks, out, server, "--arms", "sampled", "--json")
    found = scored(result)
    assert (result.return_value, found.episodes, found.expected) == (1, 1, 2)
    assert "endpoint" in found.not_scored["shop-1 sampled 0"]
    assert value(found, "sampled", "find_rate") == 1
    with ScriptedEndpoint(searcher) as server:
        result = evaluation(tasks, out, server, "--arms", "sampled", "--json")
    assert (result.return_value, scored(result).not_scored) == (0, {})
    assert value(scored(result), "sampled", "find_rate") == 0.75


def test_a_conversation_that_the_endpoint_does_not_take_is_the_models(tasks: Path, tmp_path: Path) -> None:
    def overflowing(request: ScriptedRequest) -> ScriptedReply:
        return ScriptedReply(fault=Status(400, message="maximum context length")) if replies(request) else say(LOOK)

    with ScriptedEndpoint(overflowing) as server:
        found = scored(evaluation(tasks, tmp_path / "evaluate", server, "--arms", "greedy", "--limit", "1", "--json"))
    assert (found.arms[0].stops, found.not_scored) == ({"crashed": 1}, {})
    assert value(found, "greedy", "find_rate") == 0


def test_a_sandbox_that_fails_is_infrastructure() -> None:
    def ended(stop: ScoutStop) -> Scouting:
        return Scouting(handoff=Handoff(), text="", seconds=0, stop=stop)

    assert infrastructure_failed(ended("crashed"), refused=False)
    assert not infrastructure_failed(ended("crashed"), refused=True)
    assert infrastructure_failed(ended("endpoint"), refused=True)
    assert not infrastructure_failed(ended("timeout"), refused=False)


def test_an_episode_that_takes_too_long_is_a_timeout(tasks: Path, tmp_path: Path) -> None:
    with ScriptedEndpoint(lambda request: ScriptedReply(LOOK.replace("ls shop", "sleep 30"), usage=USAGE)) as server:
        more = ("--arms", "greedy", "--limit", "1", "--json", "-c", "scout.model.episode_s=1.5")
        found = scored(evaluation(tasks, tmp_path / "evaluate", server, *more))
    assert found.arms[0].stops == {"timeout": 1}
    assert value(found, "greedy", "timeouts") == 1


def test_another_evaluations_folder_is_refused(tasks: Path, tmp_path: Path) -> None:
    out = tmp_path / "evaluate"
    with ScriptedEndpoint(searcher) as server:
        assert evaluation(tasks, out, server, "--limit", "1", "--arms", "sampled").exception is None
        asked = server.served
        for more, words in (
            (("--limit", "1", "--arms", "greedy"), "started with arms"),
            (("--limit", "2", "--arms", "sampled"), "started with tasks 1, and now it is 2"),
            (("--limit", "1", "--arms", "sampled", "--draws", "3"), "started with draws 1, and now it is 3"),
            (
                ("--limit", "1", "--arms", "sampled", "-c", "scout.model.turns=9"),
                r"settings\.model\.turns 3, and now it is 9",
            ),
        ):
            with pytest.raises(TaskError, match=words):
                raise evaluation(tasks, out, server, *more).exception or AssertionError
        assert server.served == asked
        with pytest.raises(TaskError, match=r"holds other files and no evaluation\.json"):
            raise evaluation(tasks, tmp_path, server).exception or AssertionError
        (out / "evaluation.json").write_text("{")
        with pytest.raises(TaskError, match="cannot be read"):
            raise evaluation(tasks, out, server, "--limit", "1", "--arms", "sampled").exception or AssertionError


def test_tasks_without_gold_or_repository_are_named(tasks: Path, tmp_path: Path) -> None:
    lines = tasks.read_text().splitlines()
    tasks.write_text(lines[2])
    with ScriptedEndpoint(searcher) as server:
        with pytest.raises(TaskError, match="none of the 1 tasks says which files"):
            raise evaluation(tasks, tmp_path / "none", server).exception or AssertionError
        tasks.write_text(json.dumps({**json.loads(lines[0]), "repo": str(tmp_path / "gone")}))
        result = evaluation(tasks, tmp_path / "gone-evaluation", server, "--arms", "greedy", "--json")
    found = scored(result)
    assert (result.return_value, found.arms, len(found.not_scored)) == (1, (), 1)


def test_two_evaluations_are_compared_task_by_task(tasks: Path, tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    with ScriptedEndpoint(lambda request: say("I wonder.")) as server:
        scored(evaluation(tasks, before, server, "--arms", "sampled", "--json"))
    with ScriptedEndpoint(searcher) as server:
        found = scored(evaluation(tasks, after, server, "--arms", "sampled", "--baseline", str(before), "--json"))
        with pytest.raises(TaskError, match="holds no evaluation"):
            raise evaluation(tasks, after, server, "--baseline", str(tmp_path)).exception or AssertionError
    changes = {one.measure: one for one in found.changes}
    rate = changes["find_rate"]
    assert (rate.before, rate.after, rate.change.value, rate.tasks) == (0, 0.75, 0.75, 2)
    assert changes["find_rate"].change.low == 0.5
    assert changes["valid_calls"].change.value == 0.5


def test_a_handoff_is_in_form_only_to_the_letter() -> None:
    assert in_form(PAGE)
    assert in_form(f"I know enough.\n\n{PAGE}\n")
    for broken in (
        BARE,
        PAGE.removesuffix("\nSTOP"),
        PAGE.replace("</files>", ""),
        PAGE.replace("<notes>", "<notes>\n<files>\n</files>"),
        PAGE.replace("<files>", "</files>"),
        f"<files>\na\n</files>\n{PAGE}",
        "<notes>\nnothing\n</notes>\nSTOP",
        "STOP",
    ):
        assert not in_form(broken), broken


def made(
    task: int, arm: Arm, *, found: int | None = None, stop: ScoutStop = "finished", draw: int = 0
) -> EvaluationEpisode:
    """One whose handoff names `found` of two gold files; None: there is no handoff."""
    kind = None if found is None else "forced" if stop == "forced" else "spontaneous"
    return EvaluationEpisode(
        task=f"t{task}",
        arm=arm,
        draw=draw,
        seed=0,
        stop="cap_usd" if found is None and stop == "finished" else stop,
        kind=kind,  # type: ignore[arg-type]
        files=("a", "b")[: found or 0] or (("x",) if kind else ()),
        gold=("a", "b"),
        well_formed=True,
        calls=3,
        malformed=0,
        thoughts=0,
    )


def arm_of(arm: Arm, tasks: int, handoffs: int, halves: int) -> list[EvaluationEpisode]:
    """Handoffs on the first tasks; together they find so many halves of the gold."""
    counts = [halves // handoffs + (at < halves % handoffs) for at in range(handoffs)]
    return [made(at, arm, found=counts[at] if at < handoffs else None) for at in range(tasks)]


def test_the_published_finding_follows_from_episodes_like_the_papers() -> None:
    """450 tasks, 323 handoffs at recall 0.426 sampled, 96 at 0.517 greedy."""
    published = Path(__file__).parents[4] / "shared" / "data" / "published.json"
    paper: dict[str, Any] = json.loads(published.read_text())["decoding"] if published.is_file() else {}
    found = score([*arm_of("sampled", 450, 323, 275), *arm_of("greedy", 450, 96, 99)])
    for arm, rates in (("sampled", (0.306, 0.718, 0.426)), ("greedy", (0.110, 0.213, 0.517))):
        told = paper.get(arm, {})
        names = ("find_rate", "emission", "recall_per_handoff")
        assert tuple(told.get(name, rate) for name, rate in zip(names, rates, strict=True)) == rates
        measures = next(one.measures for one in found.arms if one.arm == arm)
        figures = [measures[name] for name in names]  # type: ignore[index]
        assert [one.value for one in figures if one] == pytest.approx(rates, abs=0.0016)
        assert all(one and one.low < one.value < one.high for one in figures)
    assert found.decoding is not None
    split = found.decoding.every
    assert split.ratio and split.emission_ratio and split.recall_ratio
    assert split.ratio.value == pytest.approx(2.8, abs=0.05)
    assert split.ratio.value == pytest.approx(split.emission_ratio.value * split.recall_ratio.value)
    assert split.emission_ratio.value == pytest.approx(0.718 / 0.213, rel=0.01)
    assert split.recall_ratio.value == pytest.approx(0.426 / 0.517, rel=0.01)
    assert split.emission_share is not None
    assert split.emission_share > 1  # recall per handoff goes the other way
    assert split == found.decoding.matched


def test_timeouts_are_matched_by_leaving_their_tasks_out_of_both_arms() -> None:
    """Greedy times out on 24 of 450 tasks, on half of which sampled found all: as with the paper, 426 are left."""
    greedy = [made(at, "greedy", found=1 if at < 96 else None) for at in range(450)]
    late = [*greedy[:426], *(made(at, "greedy", stop="timeout") for at in range(426, 450))]
    sampled = [made(at, "sampled", found=2 if at < 120 or at >= 438 else None) for at in range(450)]
    decoding = score([*late, *sampled]).decoding
    assert decoding is not None
    assert decoding.matched is not None
    assert (decoding.every.tasks, decoding.matched.tasks) == (450, 426)
    assert decoding.every.ratio is not None
    assert decoding.every.ratio.value == pytest.approx(132 / 48)
    assert decoding.matched.ratio is not None
    assert decoding.matched.ratio.value == pytest.approx(120 / 48)
    # A timeout of one draw of the other arm counts as well.
    both = score([*late, *sampled, made(0, "sampled", stop="timeout", draw=1)]).decoding
    assert both is not None
    assert both.matched is not None
    assert both.matched.tasks == 425
    every = score([made(0, "greedy", stop="timeout"), made(0, "sampled", found=2)]).decoding
    assert every is not None
    assert every.matched is None


def test_draws_share_the_weight_of_their_task() -> None:
    """Three draws that find all on one task, one that finds nothing on another: half, not three quarters."""
    found = score([*(made(0, "sampled", found=2, draw=draw) for draw in range(3)), made(1, "sampled", found=0)])
    assert value(found, "sampled", "find_rate") == 0.5
    assert value(found, "sampled", "emission") == 1
    assert value(found, "sampled", "recall_per_handoff") == 0.5
    rate = found.arms[0].measures["find_rate"]
    assert rate is not None
    assert (rate.low, rate.high) == (0, 1)


def test_forced_handoffs_are_never_pooled_with_the_others() -> None:
    found = score([made(0, "sampled", found=2), made(1, "sampled", found=1, stop="forced"), made(2, "sampled")])
    third = pytest.approx(1 / 3)
    assert value(found, "sampled", "find_rate") == third
    assert value(found, "sampled", "find_rate_with_forced") == 0.5
    assert value(found, "sampled", "emission") == value(found, "sampled", "emission_forced") == third
    assert value(found, "sampled", "recall_per_handoff") == 1
    assert value(found, "sampled", "recall_per_forced") == 0.5


def test_a_comparison_needs_common_tasks() -> None:
    with pytest.raises(TaskError, match="no task and arm in common"):
        compare([made(0, "greedy", found=1)], [made(1, "greedy", found=1)])
    same = [made(at, "greedy", found=at % 3) for at in range(9)]
    assert all(one.change.value == one.change.low == one.change.high == 0 for one in compare(same, same))
