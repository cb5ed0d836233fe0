"""`scrout calibrate` on outcomes that a text gives away: what it prints, draws, warns of and refuses."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np
import pytest

from scrout.route import difficulty, text_counts
from scrout.route.calibrate import Calibration, load
from scrout.route.heldout import fit_difficulty
from scrout.route.outcome_table import read_table
from scrout.route.outcomes import digest
from scrout.route.task_vectors import remember

if TYPE_CHECKING:
    from conftest import Cli

WITHOUT_MODEL = ("-c", "route.embedder.kind=hashed")


AGENT = """
[[fixers]]
name = "{name}"
kind = "agent"
model = "{name}"
effort = "{effort}"
base_url = "http://127.0.0.1:9/v1"
price = {{ input = 1, output = 1 }}
"""
EASY = "A typo in the label of a button"
HARD = "Deadlock: threads race for a lock\n" + "".join(
    f"- the lock of `worker_{at}` is never released\n" for at in range(40)
)


def write_outcomes(folder: Path, repositories: int = 10, arm: str = "handoff") -> Path:
    """Short tasks are solved by both fixers, of the long ones most by the dear one and none by the cheap one."""
    folder.mkdir()
    for fixer, cost_usd in (("mini%2Fcheap", "0.05"), ("mini%2Fdear@high", "0.50")):
        with (folder / f"{fixer}.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["instance_id", "resolved", "cost_usd", "arm", "text"])
            for at in range(8 * repositories):
                easy = at // repositories % 2 == 0
                solved = easy or ("dear" in fixer and at % 8 > 0)
                text = f"{EASY if easy else HARD}, number {at}"
                rows.writerow([f"team__project{at % repositories}-{at}", int(solved), cost_usd, arm, text])
    return folder


@pytest.mark.parametrize(
    ("policy", "space"), [pytest.param("paper", "text/hashed-512-1", marks=pytest.mark.slow), ("value", "counts-1")]
)
def test_a_calibration_with_everything_beside_it(cli: Cli, tmp_path: Path, policy: str, space: str) -> None:
    folder, picture = write_outcomes(tmp_path / "outcomes"), tmp_path / "picture.svg"
    args = ("calibrate", "--outcomes", folder, "--policy", policy, *WITHOUT_MODEL)
    run = cli(*args, "--json", "--plot", picture)
    assert run.code == 0, run.err
    found = Calibration.model_validate_json(run.out)
    assert (found.policy, found.arm, found.tasks, found.repositories) == (policy, "handoff", 80, 10)
    assert found.fixers == ("mini/cheap", "mini/dear@high") and found.strongest.name == "always mini/dear@high"
    assert list(found.thetas) == list(found.solve_usds) == [space]
    # The texts tell what is easy, so the cheap fixer gets what it can solve.
    assert found.over_hull is not None and found.over_hull.clear and found.over_hull.value > 0.05
    assert ElementTree.fromstring(picture.read_text()).tag.endswith("svg")
    shown = cli(*args)
    assert shown.code == 0 and b"\x1b" not in shown.out
    for words in (
        "ours",
        "mini/cheap",
        "(cheapest)",
        "(strongest)",
        "random mix",
        "oracle",
        "takes mini/cheap 50%",
    ):
        assert words in shown.out.decode()
    assert "... reading" in shown.err


def test_the_policy_of_the_settings_counts_without_an_option(cli: Cli, tmp_path: Path) -> None:
    folder = write_outcomes(tmp_path / "outcomes", arm="solo")
    args = ("calibrate", "--outcomes", folder, "--arm", "solo", "--json", *WITHOUT_MODEL)
    assert cli(*args).json()["policy"] == "value"
    assert cli(*args, "-c", "route.policy=paper").json()["policy"] == "paper"


@pytest.mark.slow
def test_a_calibration_that_is_saved_counts_from_then_on(cli: Cli, tmp_path: Path) -> None:
    outcomes, kept = write_outcomes(tmp_path / "outcomes"), tmp_path / "kept"
    own = (*WITHOUT_MODEL, "-c", f"route.resumes={kept}")
    first = cli("calibrate", "--outcomes", outcomes, "--save", *own)
    assert first.code == 0, first.err
    stored = load(kept)
    assert stored is not None and stored.policy == "value" and text_counts.SPACE in stored.solve_usds
    assert f"saved to {kept}" in first.err and "counts-1: theta" in first.err
    assert "counts for a pool of exactly these fixers: mini/cheap, mini/dear@high" in first.err
    again = cli("calibrate", "--outcomes", outcomes, "--save", *own)
    assert f"a solve is worth ${stored.setting:.2f} (as before)" in again.err
    # The settings of the other policy join those that are there.
    paper = cli("calibrate", "--outcomes", outcomes, "--save", "--policy", "paper", *own)
    assert "text/hashed-512-1: theta" in paper.err and "(new)" in paper.err
    both = load(kept)
    assert both is not None and set(both.thetas) == {text_counts.SPACE, "text/hashed-512-1"}

    pool = tmp_path / "scrout.toml"
    pool.write_text(
        "".join(AGENT.format(name=name, effort=effort) for name, effort in (("cheap", ""), ("dear", "high")))
    )
    for name in ("mini%2Fcheap", "mini%2Fdear@high"):
        added = cli("fixers", "add", name.replace("%2F", "/"), "--outcomes", outcomes / f"{name}.csv", *own)
        assert added.code == 0, added.err
    issue = tmp_path / "issue.md"
    issue.write_text(EASY)
    routed = cli("route", "--issue", issue, "--explain", "--json", "--config", pool, *own)
    assert routed.code == 0, routed.err
    assert f"a solve is worth ${stored.setting:.2f}" in str(routed.json()["goal"])
    last = cli("calibrate", "--outcomes", outcomes, "--save", "--config", pool, *own)
    assert last.code == 0 and "counts for a pool" not in last.err, last.err


def test_without_the_option_nothing_is_saved(cli: Cli, tmp_path: Path) -> None:
    outcomes, kept = write_outcomes(tmp_path / "outcomes"), tmp_path / "kept"
    ended = cli("calibrate", "--outcomes", outcomes, *WITHOUT_MODEL, "-c", f"route.resumes={kept}")
    assert ended.code == 0 and not kept.exists() and "saved" not in ended.err


def test_known_states_count_where_every_task_has_one(cli: Cli, tmp_path: Path) -> None:
    outcomes, kept = write_outcomes(tmp_path / "outcomes"), tmp_path / "kept"
    table, texts = read_table(outcomes, None, "handoff")
    # The state tells what the text hides nothing of: whether the task is a long one.
    states = {digest(text): [float("Deadlock" in text), float(at % 3)] for at, text in enumerate(texts)}
    rows = np.array([[*text_counts.count(text), *states[digest(text)]] for text in texts], dtype=np.float64)
    spaces = (text_counts.SPACE, "recon-9")
    difficulty.save(fit_difficulty(table, rows, [*text_counts.NAMES, "top_confidence", "margin"], spaces), kept)
    remember(kept, "recon-9", dict(list(states.items())[1:]), {})
    args = ("calibrate", "--outcomes", outcomes, "--json", *WITHOUT_MODEL, "-c", f"route.resumes={kept}")
    lacking = cli(*args)
    assert lacking.code == 0, lacking.err
    assert Calibration.model_validate_json(lacking.out).spaces == (text_counts.SPACE,)
    said = "1 of 80 tasks have no known state, so nothing was calibrated for counts-1+recon-9"
    assert said in lacking.err
    remember(kept, "recon-9", dict(list(states.items())[:1]), {})
    whole = cli(*args)
    found = Calibration.model_validate_json(whole.out)
    assert found.spaces == spaces and set(found.thetas) == set(found.solve_usds) == {"counts-1", "counts-1+recon-9"}
    assert said not in whole.err


def test_what_cannot_be_calibrated_says_why(cli: Cli, tmp_path: Path) -> None:
    folder = write_outcomes(tmp_path / "outcomes")
    one = write_outcomes(tmp_path / "one", repositories=1)
    for repeat in one.iterdir():  # enough tasks, all of one repository
        lines = repeat.read_text().splitlines()
        more = [line.replace("project0-", f"project0-{at}") for at in range(1, 5) for line in lines[1:]]
        repeat.write_text("\n".join([*lines, *more]))
    for args, words in (
        (("--outcomes", tmp_path / "nowhere"), "is not a folder"),
        (("--outcomes", folder, "--arm", "solo"), "--arm handoff"),
        (("--outcomes", folder, "--plot", tmp_path / "picture.png"), ".svg"),
        (("--outcomes", folder, "--plot", tmp_path / "no" / "picture.svg"), "Create it first"),
        (("--outcomes", one), "another repository"),
    ):
        run = cli("calibrate", *args, *WITHOUT_MODEL)
        assert (run.code, run.out) == (2, b"") and words in run.err, run.err
        assert "Traceback" not in run.err
