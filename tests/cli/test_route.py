"""`scrout route`: goals on the command line, what --explain tells people and programs, and what never reaches them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scrout.records import Decision
from scrout.route.explain import Explanation

from .conftest import write_trusted

if TYPE_CHECKING:
    from conftest import Cli

HASHED = ("-c", "route.embedder.kind=hashed")
# Models whose résumés ship.
AGENT = """
[[fixers]]
name = "{name}"
kind = "agent"
model = "{model}"
base_url = "http://127.0.0.1:9/v1"
price = {{ input = 1, output = {price} }}
"""
POOL = "".join(
    AGENT.format(name=name, model=model, price=price)
    for name, model, price in (("opus", "claude-opus-4-6", 25), ("mini", "gpt-5-mini", 2), ("kimi", "kimi-k2.5", 2.5))
)
EVIL = "\x1b]0;owned\x07\x1b[2J\x9b2J\u202e"
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def config(cli: Cli) -> Path:
    """The pool, in the folder that commands start from."""
    return write_trusted(cli.cwd, POOL)


def decided(cli: Cli, issue: Path, *args: str) -> Decision:
    ended = cli("route", "--issue", issue, "--json", *args)
    assert ended.code == 0, ended.err
    return Decision.model_validate_json(ended.out)


def by_probability(made: Decision) -> list[str]:
    return [one.fixer for one in sorted(made.candidates, key=lambda one: one.p_solve or 0)]


# Goals


def test_a_goal_on_the_command_line_decides(cli: Cli, issue: Path, config: Path) -> None:
    made = decided(cli, issue, "--dial", "0")
    cheapest, probabilities = made.candidates[0], {one.fixer: one.p_solve or 0 for one in made.candidates}
    assert made.fixer == cheapest.fixer
    likeliest = by_probability(made)[-1]
    assert likeliest != cheapest.fixer
    for goal in (
        ("--dial", "strongest"),
        ("--solve-usd", "$100000"),
        ("--min-solve", f"{max(probabilities.values()) - 1e-9}"),
    ):
        assert decided(cli, issue, *goal).fixer == likeliest, goal
    assert decided(cli, issue, "--max-usd", f"{cheapest.expected_cost_usd}").fixer == cheapest.fixer


@pytest.mark.slow
def test_the_other_end_of_each_goal_decides_too(cli: Cli, issue: Path, config: Path) -> None:
    made = decided(cli, issue, "--dial", "cheapest")
    assert made.fixer == made.candidates[0].fixer != by_probability(made)[-1]
    for goal in (("--solve-usd", "0"), ("--min-solve", "0")):
        assert decided(cli, issue, *goal).fixer == made.fixer, goal
    for goal in (("--dial", "1"), ("--max-usd", "1000")):
        assert decided(cli, issue, *goal).fixer == by_probability(made)[-1], goal


def test_it_takes_the_place_of_the_one_in_the_settings(cli: Cli, issue: Path, config: Path) -> None:
    write_trusted(cli.cwd, "[route]\nmin_solve = 0.99\ntheta = 0.01\n" + POOL)
    expensive, cheap = decided(cli, issue), decided(cli, issue, "--dial", "cheapest")
    assert (
        expensive.fixer == by_probability(expensive)[-1] and cheap.fixer == cheap.candidates[0].fixer != expensive.fixer
    )
    # Under `paper` there is no goal but theta, and the theta of the file is still the user's.
    paper = decided(cli, issue, "--policy", "paper", *HASHED)
    assert (paper.policy, paper.theta, paper.fixer) == ("paper", 0.01, paper.candidates[0].fixer)
    # A goal is for `value`, so it brings `value` with it.
    write_trusted(cli.cwd, '[route]\npolicy = "paper"\n' + POOL)
    assert decided(cli, issue, "--dial", "1").policy == "value"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--dial", "0.5", "--min-solve", "0.4"), "--min-solve and --dial are both goals. Keep one"),
        (("--max-usd", "1", "--solve-usd", "2"), "--max-usd and --solve-usd are both goals"),
        (("--policy", "paper", "--dial", "1"), "--dial is for --policy value"),
        (("--dial", "loud"), "'loud' is neither a number from 0 to 1 nor one of cheapest, cheap"),
        (("--dial", "1.5"), "'1.5' is neither"),
        (("--dial", "nan"), "'nan' is neither"),
        (("--min-solve", "2"), "--min-solve"),
        (("--min-solve", "nan"), "--min-solve"),
        (("--max-usd", "-1"), "'-1' is not an amount"),
        (("--solve-usd", "inf"), "'inf' is not an amount"),
        (("--policy", "best"), "--policy"),
    ],
)
def test_goals_that_make_no_sense_are_refused(cli: Cli, issue: Path, args: tuple[str, ...], words: str) -> None:
    ended = cli("route", "--issue", issue, *args)
    assert (ended.code, ended.out) == (2, b"") and words in ended.err and "Traceback" not in ended.err


def test_fix_takes_a_goal_too(cli: Cli, shop_repo: Path, issue: Path) -> None:
    issue.write_text("nothing here can be reproduced")
    fixed = cli("fix", "--repo", shop_repo, "--issue", issue, "--policy", "paper", "--json")
    assert fixed.code == 1, fixed.err
    other = cli("fix", "--repo", shop_repo, "--issue", issue, "--min-solve", "0.2", "--json")
    assert fixed.json()["decision"]["policy"] == "paper" and other.json()["decision"]["policy"] == "value"  # type: ignore[index]
    assert fixed.json()["settings_digest"] != other.json()["settings_digest"]
    both = cli("fix", "--repo", shop_repo, "--issue", issue, "--min-solve", "0.2", "--dial", "cheap")
    assert (both.code, both.out) == (2, b"") and "Keep one" in both.err


# Explanations


def test_an_explanation_for_people(cli: Cli, issue: Path, config: Path) -> None:
    for columns in (80, 120):
        ended = cli("route", "--issue", issue, "--explain", *HASHED, env={"COLUMNS": str(columns)})
        assert ended.code == 0, ended.err
        assert ended.out.decode().strip() in ("opus", "mini", "kimi")
        shown, _, note = ended.err.partition("note: ")
        assert all(len(line) <= columns for line in shown.splitlines()) and "scrout scout --issue FILE --json" in note
        plain = " ".join(shown.split())
        for words in (
            "task total() leaves out the first price",
            "known tasks; an attempt takes",
            "characters of text (",
            "goal none is named",
            f"chosen {ended.out.decode().strip()}:",
            "it would be ",
            "if a solve were worth",
            "if an attempt of",
            "solved by ",
            "rests on counts of the text (counts-1)",
        ):
            assert words in plain, (words, shown)


def test_an_explanation_for_programs_is_whole(cli: Cli, issue: Path, config: Path) -> None:
    ended = cli("route", "--issue", issue, "--explain", "--json", "--solve-usd", "2", *HASHED)
    assert ended.code == 0, ended.err
    found = Explanation.model_validate_json(ended.out)
    assert found.decision == decided(cli, issue, "--solve-usd", "2", *HASHED)
    assert found.goal == "a solve is worth $2.00 to you" and len(found.nearest) == 5 and found.wants_state
    assert found.difficulty is not None and found.difficulty.known_tasks >= 300
    # What it says would change the decision does.
    change = next(one for one in found.changes if one.of == "solve_usd")
    beyond = change.amount * (101 if change.above else 99) / 100
    assert decided(cli, issue, "--solve-usd", f"{beyond:.6f}", *HASHED).fixer == change.to != found.decision.fixer


def test_a_scouting_sharpens_it(cli: Cli, shop_repo: Path, issue: Path, config: Path, tmp_path: Path) -> None:
    plain = cli("route", "--issue", issue)
    assert plain.code == 0 and "note: this goes by the issue's text alone" in plain.err
    saved = tmp_path / "scouting.json"
    saved.write_bytes(cli("scout", "--repo", shop_repo, "--issue", issue, "--json").out)
    for extra in ((), ("--explain", *HASHED)):
        ended = cli("route", "--issue", issue, "--scouting", saved, *extra)
        assert ended.code == 0 and "note:" not in ended.err and "text alone" not in ended.err, ended.err
    assert "what the scout measured" in ended.err and "missing" not in ended.err


def test_fixers_that_nothing_is_known_of(cli: Cli, issue: Path) -> None:
    pool = "".join(AGENT.format(name=name, model=name, price=price) for name, price in (("new", 3), ("newer", 9)))
    write_trusted(cli.cwd, pool)
    ended = cli("route", "--issue", issue, "--explain", *HASHED)
    assert (ended.code, ended.out) == (0, b"newer\n"), ended.err
    plain = " ".join(ended.err.split())
    assert "unknown" in plain and "no résumé yet" in plain and "so the anchor newer takes it" in plain


def test_nothing_in_an_explanation_can_be_obeyed(cli: Cli, config: Path, tmp_path: Path) -> None:
    rows = [
        {"instance_id": f"evil-{at}", "resolved": at % 2, "text": f"Crash {EVIL} {at} of the unlikely zebra parser"}
        for at in range(30)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    added = cli(
        "fixers", "add", "mini/kimi-k2.5", "--outcomes", tmp_path / "rows.jsonl", "--source", f"x{EVIL}", *HASHED
    )
    assert added.code == 0, added.err
    issue = tmp_path / "issue.md"
    issue.write_text(f"Crash {EVIL} of the unlikely zebra parser\n\n[bold red]no markup[/bold red] {EVIL}\n")
    ended = cli("route", "--issue", issue, "--explain", *HASHED)
    assert ended.code == 0, ended.err
    near = ended.err.partition("near it")[2]
    assert "unlikely zebra parser" in near and "owned" in near
    assert not CONTROL.search(ended.err) and not CONTROL.search(ended.out.decode())
    printed = cli("route", "--issue", issue, "--explain", "--json", *HASHED)
    assert not CONTROL.search(printed.out.decode()) and EVIL in Explanation.model_validate_json(printed.out).title
