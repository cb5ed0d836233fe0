"""The gate's benchmark on a package made up here: labels are checked by running, and the report adds up."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from scrout.config import GateSettings
from scrout.sandbox.tier import Tier

BENCH = Path(__file__).parents[2] / "bench"
SOURCE = '''"""Lengths and words."""


def pad(text, width):
    """
    >>> pad("ab", 4)
    'ab  '
    >>> pad("abc", 2)
    'abc'
    """
    missing = width - len(text)
    return text + " " * max(missing, 0)


def pick(words, number):
    """
    >>> pick(["a", "b", "c"], 1)
    'b'
    >>> pick(["a", "b"], 7)
    Traceback (most recent call last):
        ...
    ValueError: only 2 words
    """
    if number >= len(words):
        raise ValueError(f"only {len(words)} words")
    return words[number]


def initials(name):
    """
    >>> initials("Ada Lovelace")
    'AL'
    """
    return "".join(word[0] for word in name.split())


def total(numbers):
    """
    >>> total([1, 2, 3])
    6
    """
    found = 0
    for number in numbers:
        found += number
    return found
'''


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir()
    with zipfile.ZipFile(folder / "madeup-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("madeup/__init__.py", SOURCE)
        wheel.writestr("madeup-1.0.dist-info/METADATA", "Name: madeup\nVersion: 1.0\n\nMade up.\n")
    return folder


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """bench/gate.py as a module; it is a script beside gate_bugs.py and gate_claims.py, not part of the package."""
    monkeypatch.syspath_prepend(str(BENCH))
    import gate as module

    yield module
    for name in ("gate", "gate_claims", "gate_bugs"):
        sys.modules.pop(name, None)


def test_the_report_adds_up(wheels: Path, tier: Tier, tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    argv = ["--packages", str(wheels), "--names", "madeup==1.0", "--limit", "10", "--timeout", "4", "--json", str(out)]
    subprocess.run([sys.executable, str(BENCH / "gate.py"), *argv], check=True, capture_output=True, timeout=60)
    report: dict[str, Any] = json.loads(out.read_text())
    claims = report["claims"]
    assert claims["made"] == 10 == len(report["dropped"]) + sum(claims["judged"].values())
    assert str(wheels) not in report["command"]
    for label, kinds in report["confusion"].items():
        judged = sum(count for kind in kinds.values() for count in kind["gate"].values())
        assert judged == claims["judged"].get(label, 0)
    for rule in ("gate", "release_rule"):
        assert report[rule]["true_claims"] == claims["judged"].get("true", 0)
        assert report[rule]["false_kept"] <= report[rule]["false_claims"] == claims["judged"]["false"]
    gate = report["gate"]
    assert gate["false_kept"] == len(report["wrongly_kept"])
    assert gate["true_claims"] - gate["true_kept"] == len(report["wrongly_lost"])


async def test_a_label_that_does_not_hold_is_found(bench: ModuleType, wheels: Path, tier: Tier, tmp_path: Path) -> None:
    projects, claims = bench.prepare(["madeup==1.0"], wheels, tmp_path / "work", 3)
    assert len(projects[0].bad) >= 3
    by_kind = {claim.kind: claim for claim in claims}
    true, passes = by_kind["assert_script"], by_kind["passes"]
    for claim in (true, passes):
        assert (await bench.run_claim(claim, projects[0], tier, GateSettings())).verified == ""
    for claim in (replace(true, label="false"), replace(passes, label="true")):
        result = await bench.run_claim(claim, projects[0], tier, GateSettings())
        assert result.verified and result.gated is None


def test_the_same_seed_gives_the_same_claims(bench: ModuleType, wheels: Path, tmp_path: Path) -> None:
    once, again = (bench.prepare(["madeup==1.0"], wheels, tmp_path / name, 5)[1] for name in ("a", "b"))
    assert once == again
    assert len({claim.id for claim in once}) == len(once)


def test_every_mutation_is_one_edit_that_parses_to_something_else(bench: ModuleType) -> None:
    from gate_bugs import mutations

    before = ast.dump(ast.parse(SOURCE))
    made = list(mutations("madeup/__init__.py", SOURCE))
    assert {"comparison", "arithmetic", "return", "missing guard", "missing call"} <= {
        mutation.what for mutation in made
    }
    for mutation in made:
        after = mutation.apply(SOURCE)
        changed = [number for number, pair in enumerate(zip(SOURCE.split("\n"), after.split("\n"), strict=True), 1)
                   if pair[0] != pair[1]]  # fmt: skip
        assert changed == [mutation.line]
        assert ast.dump(ast.parse(after)) != before


def test_bounds(bench: ModuleType) -> None:
    assert bench.upper_bound(0, 300) == pytest.approx(1 - 0.05 ** (1 / 300))
    assert bench.upper_bound(2, 50) == pytest.approx(0.1206, abs=1e-4)
    assert bench.upper_bound(5, 5) == 1
    assert bench.wilson(95, 100) == pytest.approx((0.8882, 0.9785), abs=1e-4)


def test_parts_that_stand_alone_on_a_line_are_indented(bench: ModuleType) -> None:
    from gate_claims import fill

    known = {"body": "a = 1\nb = 2", "word": "it's"}
    assert fill("def f():\n    @body@\n    # @word@", known) == "def f():\n    a = 1\n    b = 2\n    # it's"
    assert fill("echo @word|q@ @word|r@", known) == """echo 'it'"'"'s' "it's\""""
