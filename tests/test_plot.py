"""The picture of cost against solve rate, as a reader of its SVG finds it."""

from __future__ import annotations

import math
from itertools import combinations, pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrout.intervals import Estimate, wilson
from scrout.plot import HEIGHT, LETTER, WIDTH, Mark, cost_plot, svg_file, ticks


def exact(value: float) -> Estimate:
    return Estimate(value=value, low=value, high=value)


def mark(name: str, usd: float, solved: int = 5, *, routed: bool = False) -> Mark:
    low, high = wilson(solved, 10)
    return Mark(name, exact(usd), Estimate(value=solved / 10, low=low, high=high), routed=routed, detail="a detail")


def texts(root: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    return [one for one in root.iter("text") if one.attrib["class"] == kind]


def test_it_says_what_it_shows() -> None:
    marks = [mark("solo/a", 0.1, 3), mark("handoff/routed", 0.5, 8, routed=True)]
    root = ElementTree.fromstring(cost_plot("Rates & costs", marks, [(0.1, 0.3), (0.3, 0.5)]))
    assert root.attrib["role"] == "img" and root.findtext("title") == "Rates & costs"
    told = "solo/a: 30.0% solved (10.8% to 60.3%) at $0.1000 per task (a detail)"
    assert (root.findtext("desc") or "").startswith(told)
    assert next(one.findtext("title") for one in root.iter("circle")) == told
    labels = {one.text for one in texts(root, "tick")}
    assert {"solved", "dollars per task", "$0.00", "$0.50", "0%", "100%"} <= labels
    assert {one.text for one in texts(root, "name")} == {"solo/a", "handoff/routed"}
    kinds = [one.attrib["class"] for one in root.iter("polyline")]
    assert kinds.count("mix") == 1 and kinds.count("span") == kinds.count("span routed") == 1


@given(st.lists(st.tuples(st.floats(0, 20), st.integers(0, 10), st.booleans()), min_size=1, max_size=14))
@settings(max_examples=40, deadline=None)
def test_everything_is_inside_and_no_name_covers_another(ways: list[tuple[float, int, bool]]) -> None:
    marks = [mark(f"handoff/model-{at}", usd, n, routed=routed) for at, (usd, n, routed) in enumerate(ways)]
    root = ElementTree.fromstring(cost_plot("t", marks))
    for one in root.iter("circle"):
        assert 0 < float(one.attrib["cx"]) < WIDTH and 0 < float(one.attrib["cy"]) < HEIGHT
    names = [(float(one.attrib["x"]), float(one.attrib["y"]), one.text or "") for one in texts(root, "name")]
    for (x, y, name), (other_x, other_y, other) in combinations(names, 2):
        apart = x + len(name) * LETTER <= other_x + 0.2 or other_x + len(other) * LETTER <= x + 0.2
        assert apart or abs(y - other_y) >= 13.8


def test_a_file_stands_alone() -> None:
    root = ElementTree.fromstring(svg_file("A title", "a key", [mark("<a>", 0.0)]))
    words = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"A title", "a key", "<a>", "$0.010"} <= set(words)


@pytest.mark.parametrize(("low", "high"), [(0, 0), (0, 0.0123), (0.31, 0.32), (0, 1), (0, 1234.5)])
def test_ticks_are_round_and_enclose(low: float, high: float) -> None:
    found = ticks(low, high)
    assert found[0] <= low and found[-1] >= high and 2 <= len(found) <= 8
    steps = {round(math.log10(after - before) % 1, 6) for before, after in pairwise(found)}
    assert len(steps) == 1 and steps <= {0.0, 1.0, *(round(math.log10(n), 6) for n in (2, 2.5, 5))}
