"""The page of a batch: what it shows, that it stands alone, and that nothing hostile gets through."""

from __future__ import annotations

import base64
import hashlib
import re
from datetime import UTC, datetime
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.base import TaskError
from scrout.batch.folder import Batch, BatchFolder
from scrout.batch.outputs.report import MAX_ROWS, page, write_report
from scrout.batch.outputs.results import (
    ArmResult,
    Cap,
    Census,
    Comparison,
    Costs,
    FixerUse,
    Graded,
    Localization,
    RepositoryResult,
    Share,
    Summary,
)
from scrout.batch.tasks import UnusableRow
from scrout.intervals import Estimate

TITLE = "Solve rate against dollars per task, by arm"
EVIL = "\"'></td></style></title><script>alert(1)</script><img src=x onerror=alert(1)><a href='javascript:1'>"
OURS = re.compile(
    "html|head|meta|title|style|body|main|section|h[123]|p|ul|li|b|div|table|thead|tbody|tr|th|td|dl|dt|dd"
    "|svg|defs|desc|pattern|path|circle|rect|polyline|text"
)
HARMLESS = re.compile(
    "charset|http-equiv|content|name|lang|class|id|scope|colspan|tabindex|role|aria-label|aria-hidden|viewbox|width"
    "|height|x|y|d|cx|cy|r|points|fill|text-anchor|patternunits"
)


class Seen(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.pictures: list[str] = []
        self.style = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        self.attributes += found.items()
        self.pictures += [found["aria-label"]] if "aria-label" in found else []
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["style"]:
            self.style += data
        else:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.words)


def costs(usd: str = "0", **more: Any) -> Costs:
    made: dict[str, Any] = dict(
        by_component={"scout": Decimal(0), "gate": 0, "route": 0, "fix": Decimal(usd), "check": 0},
        known_usd=Decimal(usd),
        lost_usd=Decimal(0),
        estimated_usd=Decimal(0),
        calls=3,
        unpriced_calls=0,
        estimated_calls=0,
    )
    return Costs(**{**made, **more})


def arm(label: str, **more: Any) -> ArmResult:
    made: dict[str, Any] = dict(
        arm=label,
        tasks=10,
        done=8,
        infrastructure=1,
        not_run=1,
        begun=0,
        solved=Share.make(4, 8),
        outcomes={"solved": 4},
        graded=None,
        paid=costs("1.60"),
        shared_usd=Decimal(0),
        shared_unpriced_calls=0,
        usd_a_task=Decimal("0.20"),
        usd_a_task_interval=Estimate(value=0.2, low=0.1, high=0.3),
        usd_a_solve=Decimal("0.40"),
        usd_a_resolve=None,
        seconds=80.0,
        seconds_a_task=10.0,
        caps=(),
        scout_stops={},
        census=(),
        localization=(),
        escalated=0,
        fixers=(),
        constant=False,
        repositories=(),
    )
    return ArmResult(**{**made, **more})


def summary(*arms: ArmResult, **more: Any) -> Summary:
    batch = Batch(
        id="20261116-090000-abcdef",
        settings_digest="settings-digest",
        tasks_digest="tasks-digest",
        tasks=10,
        arms=tuple(one.arm for one in arms),
        started=datetime(2026, 11, 16, 9, 0, tzinfo=UTC),
        scrout="9.8.7",
    )
    made: dict[str, Any] = dict(
        batch=batch, problems=(), costs=costs("3.20"), arms=arms, comparisons=(), unreadable_grades=0
    )
    return Summary(**{**made, **more})


def full(label: str, words: str) -> Summary:
    """A summary with something in every place, whose texts are `words`."""
    one = arm(
        label,
        graded=Graded(resolved=Share.make(3, 7), infrastructure=1, verdicts={words: 1}),
        shared_usd=Decimal("0.40"),
        usd_a_resolve=Decimal("0.53"),
        caps=(Cap(stop=words, hit=5, rescued=2, rescued_by_grade=1),),
        census=(
            Census(kind="spontaneous", handoffs=6, kept=2, verdicts={"real_failure": 2, "passed": 3, words: 1}),
            Census(kind="forced", handoffs=2, kept=0, verdicts={"no_repro": 2}),
        ),
        localization=(
            Localization(
                kind="spontaneous", tasks=6, recall=0.625, precision=0.75, all_gold=Share.make(3, 6), files=2.5
            ),
        ),
        fixers=(FixerUse(fixer=words, chosen=8, attempts=8, solved=4),),
        constant=True,
        repositories=(
            RepositoryResult(repository=words, done=8, graded=7, solved=4, resolved=3, cost_usd=Decimal("1.60")),
        ),
    )
    beside = Comparison(
        arm=label,
        baseline="strongest alone",
        baseline_arm=words,
        judged_by="grade",
        tasks=7,
        usd_a_task=Decimal("0.20"),
        baseline_usd_a_task=Decimal("0.80"),
        saved=0.75,
        solved=3,
        baseline_solved=4,
        only_arm=1,
        only_baseline=2,
        mix=0.31,
    )
    problem = UnusableRow(source=words, id=words, words=words)
    return summary(one, arm("solo/b"), comparisons=(beside,), problems=(problem,), command=words, unreadable_grades=2)


def test_the_page_shows_what_the_summary_says() -> None:
    seen = Seen(page(full("handoff/routed", "some words")))
    for words in (
        "10 tasks in 2 arms",
        "16 of 20 runs",
        "4 of 8: 50.0% (21.5–78.5)",
        "3 of 7: 42.9% (15.8–75.0)",
        "$0.2000 / $0.8000",
        "75.0%",
        "31.0%, here 42.9%",
        "2 kept of 6",
        "0 kept of 2",
        "0.625",
        "3 of 7, $1.60",
        "handoff/routed: the router chose some words every time.",
        "2 runs ended because an endpoint failed.",
        "settings-digest",
        "9.8.7",
    ):
        assert words in seen.text, words
    assert TITLE in seen.text
    assert "$2.00" in seen.text  # alone: what was paid, and the scouting that another arm paid for
    assert seen.pictures == [
        "Dollars by component, a bar for each arm",
        "Claims by what became of them",
    ]
    assert not seen.open


def test_the_page_stands_alone() -> None:
    text = page(full("handoff/routed", "words"))
    seen = Seen(text)
    digest = base64.b64encode(hashlib.sha256(seen.style.encode()).digest()).decode()
    policy = next(value for name, value in seen.attributes if name == "content" and "default-src" in value)
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert not re.search(r"https?:|//|@import|url\((?!#)", text.replace("<!doctype html>", ""))
    assert "prefers-color-scheme: dark" in seen.style and "max-width" in seen.style


def hostile(seen: Seen) -> list[str]:
    """What on a page is not of our making."""
    attributes = [name for name, _ in seen.attributes if not HARMLESS.fullmatch(name)]
    return [tag for tag in seen.tags if not OURS.fullmatch(tag)] + attributes


def test_hostile_text_stays_text() -> None:
    seen = Seen(page(full(f"handoff/{EVIL}", EVIL)))
    assert hostile(seen) == [] and not seen.open
    assert seen.text.count("<script>alert(1)</script>") > 5


@given(st.text(max_size=80), st.text(max_size=80))
def test_no_text_breaks_the_page(label: str, words: str) -> None:
    seen = Seen(page(full(f"solo/{label}", words)))
    assert hostile(seen) == [] and not seen.open
    assert not set("".join(seen.words)) & {"\0", "\x1b", "\u202e", "\u2066"}


def test_an_empty_batch_has_a_page() -> None:
    nothing = arm(
        "solo/a",
        done=0,
        infrastructure=0,
        not_run=10,
        solved=Share.make(0, 0),
        outcomes={},
        paid=costs(calls=0),
        usd_a_task=None,
        usd_a_task_interval=None,
        usd_a_solve=None,
        seconds=0.0,
        seconds_a_task=None,
    )
    seen = Seen(page(summary(nothing, costs=costs(calls=0))))
    assert "10 runs not finished" in seen.text and "No call with a known price" in seen.text
    assert (
        "nothing to compare costs with" in seen.text
        and TITLE not in seen.text
        and seen.pictures == []
        and not seen.open
    )


def test_a_free_arm_is_drawn_too() -> None:
    free = arm("solo/repair", paid=costs(), usd_a_task_interval=Estimate(value=0, low=0, high=0), usd_a_task=Decimal(0))
    seen = Seen(page(summary(free, costs=costs())))
    assert TITLE in seen.text and "$0.010" in seen.text


def test_unknown_costs_are_called_unknown_and_never_nothing() -> None:
    unknown = arm("solo/a", paid=costs("1.60", unpriced_calls=2), usd_a_task=None, usd_a_task_interval=None)
    seen = Seen(page(summary(unknown, costs=costs("1.60", unpriced_calls=2))))
    assert "2 calls without a known price" in seen.text and "$1.60 and more" in seen.text
    assert seen.words.count("unknown") == 3  # a task, alone, paid


def test_without_grades_the_check_is_not_sold_as_one() -> None:
    seen = Seen(page(summary(arm("solo/a"))))
    assert "Nothing was graded" in seen.text and "graded as resolved" not in seen.text
    assert "by the check, not graded" in seen.text


def test_arms_that_share_a_scouting_share_a_bar() -> None:
    census = (Census(kind="spontaneous", handoffs=8, kept=3, verdicts={"real_failure": 3, "passed": 5}),)
    unseen = (Census(kind="spontaneous", handoffs=8, kept=0, verdicts={"not_replayed": 8}),)
    arms = arm("handoff/a", census=census), arm("handoff/b", census=census), arm("passthrough/a", census=unseen)
    seen = Seen(page(summary(*arms)))
    assert seen.words.count("3 kept of 8") == 1 and "0 kept of 8" not in seen.text and "not_replayed" not in seen.text


def test_long_tables_are_cut_and_say_so() -> None:
    places = tuple(
        RepositoryResult(repository=f"owner/name-{number:04}", done=1, solved=1, resolved=None, cost_usd=None)
        for number in range(MAX_ROWS + 7)
    )
    seen = Seen(page(summary(arm("solo/a", repositories=places))))
    assert f"owner/name-{MAX_ROWS - 1:04}" in seen.text and f"owner/name-{MAX_ROWS:04}" not in seen.text
    assert "7 more are in summary.json." in seen.text


def test_it_is_written_whole_or_refused_with_the_next_step(tmp_path: Path) -> None:
    folder = BatchFolder(tmp_path / "out")
    folder.path.mkdir()
    made = full("solo/a", "\udce9")
    write_report(folder, made)
    assert folder.report.read_text(encoding="utf-8") == page(made)
    assert [path.name for path in folder.path.iterdir()] == ["report.html"]
    folder.report.unlink()
    folder.report.mkdir()
    with pytest.raises(TaskError, match="cannot be written"):
        write_report(folder, made)
