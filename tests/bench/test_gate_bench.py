"""The gate's benchmark on a package made up here: labels are checked by running, and the report adds up."""

from __future__ import annotations

import ast
import json
import random
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from scrout.config.settings import GateSettings
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

SHOP = '''
import math

PRICES = {"apple": 2.5}


def whole(number):
    return int(math.floor(number))


def price(name, count=3):
    """
    >>> price("apple")
    6
    """
    return whole(PRICES[name]) * count
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
    for name in [name for name in sys.modules if name == "gate" or name.startswith("gate_")]:
        del sys.modules[name]


@pytest.mark.slow
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
    assert report["not_judged_in_time"] == report["judged_in_earlier_runs"] == 0
    assert list(tmp_path.glob("*.jsonl")) == []


@pytest.mark.slow
async def test_a_label_that_does_not_hold_is_found(bench: ModuleType, wheels: Path, tier: Tier, tmp_path: Path) -> None:
    projects, claims = bench.prepare(["madeup==1.0"], wheels, tmp_path / "work", 3)
    assert len(projects[0].bad) >= 3
    by_kind = {claim.form.kind: claim for claim in claims}
    true, passes, tampers = by_kind["assert_script"], by_kind["passes"], by_kind["aliased_setattr"]
    harmless = tampers.reproduction.model_copy(update={"command": "true"})
    for claim in (true, passes, tampers):
        assert (await bench.run_claim(claim, projects[0], tier, 10, GateSettings())).verified == ""
    for claim in (relabel(true, "false"), relabel(passes, "true"), replace(tampers, reproduction=harmless)):
        result = await bench.run_claim(claim, projects[0], tier, 10, GateSettings())
        assert result.verified and result.gated is None


@pytest.mark.slow
def test_a_run_that_was_stopped_is_taken_up(
    bench: ModuleType, wheels: Path, tier: Tier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "report.json"
    argv = ["gate.py", "--packages", str(wheels), "--names", "madeup==1.0", "--limit", "4", "--json", str(out)]
    monkeypatch.setattr(sys, "argv", argv)
    judge, judged = bench.run_claim, []

    class Stopped(Exception):
        """Unlike an interrupt, it lets the event loop end what other tasks have begun."""

    async def stop_after_two(claim: Any, *arguments: Any) -> Any:
        if len(judged) == 2:
            raise Stopped
        judged.append(claim.id)
        return await judge(claim, *arguments)

    monkeypatch.setattr(bench, "run_claim", stop_after_two)
    with pytest.raises(Stopped):
        bench.main()
    monkeypatch.setattr(sys, "argv", [*argv, "--minutes", "0"])
    bench.main()
    report = json.loads(out.read_text())
    known = report["judged_in_earlier_runs"]
    assert 0 < known == report["claims"]["made"] <= 2
    assert report["not_judged_in_time"] == 4 - known
    monkeypatch.setattr(sys, "argv", argv)
    monkeypatch.setattr(bench, "run_claim", judge)
    bench.main()
    report = json.loads(out.read_text())
    assert (report["claims"]["made"], report["judged_in_earlier_runs"], report["not_judged_in_time"]) == (4, known, 0)


@pytest.mark.slow
async def test_results_of_another_gate_are_not_taken_up(
    bench: ModuleType, wheels: Path, tier: Tier, tmp_path: Path
) -> None:
    projects, claims = bench.prepare(["madeup==1.0"], wheels, tmp_path / "work", 3)
    claim = next(claim for claim in claims if claim.form.kind == "assert_script")
    result = await bench.run_claim(claim, projects[0], tier, 10, GateSettings())
    bench.ResultFile(tmp_path / "results", GateSettings()).add(result)
    assert bench.ResultFile(tmp_path / "results", GateSettings()).find(claim) == result
    assert bench.ResultFile(tmp_path / "results", GateSettings(runs=3)).find(claim) is None


def relabel(claim: Any, label: str) -> Any:
    return replace(claim, form=replace(claim.form, label=label))


@pytest.mark.slow
async def test_labels_can_be_checked_without_the_gate(
    bench: ModuleType, wheels: Path, tier: Tier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(bench, "gate")
    projects, claims = bench.prepare(["madeup==1.0"], wheels, tmp_path / "work", 3)
    chosen = [claim for claim in claims if claim.form.kind in ("own_value", "exit_code")]
    results = await bench.run_all(chosen, projects, tier, 10, None)
    report = bench.label_summary(results)
    assert (
        report["claims"]["made"]
        == len(chosen)
        == sum(not result.verified for result in results) + len(report["dropped"])
    )
    assert report["kinds"]["true, hard to see, held"]["exit_code"]["hold"] >= 1


@pytest.mark.slow
def test_the_same_seed_gives_the_same_claims(bench: ModuleType, wheels: Path, tmp_path: Path) -> None:
    once, again = (bench.prepare(["madeup==1.0"], wheels, tmp_path / name, 5)[1] for name in ("a", "b"))
    assert once == again
    assert len({claim.id for claim in once}) == len(once)


@pytest.mark.slow
def test_every_form_is_used_for_as_many_packages_as_asked(bench: ModuleType, wheels: Path, tmp_path: Path) -> None:
    for name in ("twin", "triple"):
        with zipfile.ZipFile(wheels / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}/__init__.py", SOURCE)
            wheel.writestr(f"{name}-1.0.dist-info/METADATA", f"Name: {name}\nVersion: 1.0\n\nMade up.\n")
    names = ["madeup==1.0", "twin==1.0", "triple==1.0"]
    _, claims = bench.prepare(names, wheels, tmp_path / "work", 3, each=1)
    uses = Counter(claim.id.partition("-")[2] for claim in claims)
    assert len(uses) > 200 and set(uses.values()) == {1}
    assert {claim.bug.distribution for claim in claims} == {"madeup", "twin", "triple"}


def test_both_halves_of_the_harder_forms_hold_every_kind(bench: ModuleType) -> None:
    from gate_claims import HALVES

    kinds = {form.kind for form in HALVES}
    for split in ("seen", "held"):
        assert {form.kind for form in HALVES if form.split == split} == kinds


@pytest.mark.parametrize(("split", "false", "true"), [("fresh", 30, 20), ("newest", 90, 60)])
def test_later_forms_are_many_and_of_kinds_of_their_own(bench: ModuleType, split: str, false: int, true: int) -> None:
    from gate_claims import APART, FALSE, HARD, TRUE

    later = [form for form in HARD if form.split == split]
    labels = Counter(form.label for form in later)
    assert labels["false"] >= false and labels["true"] >= true
    others = (*TRUE, *FALSE, *APART, *(form for form in HARD if form.split != split))
    assert not {form.kind for form in later} & {form.kind for form in others}


def test_no_two_forms_are_the_same(bench: ModuleType) -> None:
    from gate_claims import APART, FALSE, HARD, TRUE

    written = Counter((form.command, form.files, form.needs) for form in (*TRUE, *FALSE, *APART, *HARD))
    assert [text for text, uses in written.items() if uses > 1] == []


def test_no_package_is_in_two_groups(bench: ModuleType) -> None:
    names = Counter(name.partition("==")[0] for group in bench.GROUPS.values() for name in group)
    assert set(names.values()) == {1}


@pytest.mark.parametrize("value", ["it's", "back\\slash", "two\nlines"])
@pytest.mark.parametrize("raises", [False, True])
def test_every_script_of_the_harder_forms_is_python(bench: ModuleType, value: str, raises: bool) -> None:
    from gate_bugs import Bug, Example, Mutation, Outcome
    from gate_claims import HARD
    from gate_forms import pretend
    from gate_targets import Target

    example = Example("quote", "from shop import quote", "quote('x')")
    names = {"helper": "tidy", "class_home": "shop", "class_name": "Till", "method": "add", "builtin": "len"}
    names |= {"table_home": "shop", "table": "PRICES", "table_type": "dict", "library": "re", "library_function": "sub"}
    target = Target(example, repr(value), "shop", "quote", "shop", "shop.py", defaults=1, **names)
    target = replace(target, decorator_home="shop", decorator="cached")
    right, wrong = Outcome("value", repr(value)), Outcome("value", "None")
    change = Mutation("shop.py", "quote", 1, 0, 0, "", "return")
    bug = pretend(target, Bug(change, example, right, wrong, example, "1", "shop", "shop", "shop.py"), raises=raises)
    for form in (form for form in HARD if form.fits(bug)):
        for path, text in form.write(bug, target).files.items():
            if path.endswith(".py"):
                ast.parse(text)
                for node in ast.walk(ast.parse(text)):
                    # Scripts inside scripts, too.
                    if isinstance(node, ast.Constant) and isinstance(node.value, str) and "def fake" in node.value:
                        ast.parse(node.value)


def test_a_target_is_what_the_example_calls_and_hangs_on(bench: ModuleType, tmp_path: Path) -> None:
    from gate_targets import find_targets, still_work

    root = tmp_path / "root"
    (root / "shop").mkdir(parents=True)
    file = root / "shop" / "__init__.py"
    file.write_text(SHOP)
    targets = find_targets(root, "", random.Random(1))
    (price,) = (target for target in targets if target.name == "price")
    assert (price.module, price.home, price.path) == ("shop", "shop", "shop/__init__.py")
    assert (price.table, price.table_type, price.helper) == ("PRICES", "dict", "whole")
    assert (price.builtin, price.library, price.library_function) == ("int", "math", "floor")
    assert price.defaults == 1 and price.value == "6" and not price.decorator
    assert price in still_work(root, targets)
    file.write_text(SHOP.replace("* count", "+ count"))
    assert price not in still_work(root, targets)


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
    # Binomials of this size are no floats.
    assert bench.upper_bound(1000, 2000) == pytest.approx(0.5186, abs=3e-4)


def test_parts_that_stand_alone_on_a_line_are_indented(bench: ModuleType) -> None:
    from gate_forms import fill

    known = {"body": "a = 1\nb = 2", "word": "it's"}
    assert fill("def f():\n    @body@\n    # @word@", known) == "def f():\n    a = 1\n    b = 2\n    # it's"
    assert fill("echo @word|q@ @word|r@", known) == """echo 'it'"'"'s' "it's\""""
