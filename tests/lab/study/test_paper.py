"""The paper's files as they are read, and what is said of files that cannot be used."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scrout.base import ScroutError, StudyError
from scrout.lab.study.sources.paper import GPT, KIMI, Paper

OUTCOMES = "receipts/outcomes_per_task.json"
ROUTING = "receipts/routing_scenarios.json"
CENSUS = "receipts/verify_census.csv"
LABELS = "labelrun/outcomes.jsonl"
FIRST = "repo0-00"


def change(path: Path, edit: Callable[[Any], object]) -> None:
    """A JSON file, changed in place."""
    stored = json.loads(path.read_text())
    edit(stored)
    path.write_text(json.dumps(stored))


def public(folder: Path, file: str, *rows: str) -> None:
    (folder / "outcomes").mkdir(exist_ok=True)
    head = "benchmark,model,instance_id,resolved,cost_usd,api_calls,run_date,mini_swe_agent_version"
    with gzip.open(folder / "outcomes" / file, "wt") as written:
        written.write("\n".join((head, *rows)) + "\n")


def test_fixers_alone_at_both_prices(small_paper: Path) -> None:
    paper = Paper(small_paper)
    listed, pinned = (
        one.only([KIMI, GPT]).cost[0].tolist() for one in (paper.evaluation.arm("solo"), paper.solo_pinned)
    )
    assert listed == [0.1, 0.5]  # Kimi's is pinned, GPT's is the list price
    assert pinned == [0.1, 0.25]
    assert paper.evaluation.arm("handoff").measured.sum(axis=0).tolist() == [24, 0, 0, 1]


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda stored: stored.pop("solo"), "no 'solo'"),
        (lambda stored: stored.update(solo=[1]), "'solo' is no object"),
        (lambda stored: stored["solo"].update({FIRST: 3}), f"{FIRST}: no 'family'"),
        (lambda stored: stored["system_union_pairs"].update({FIRST: []}), f"'{FIRST}' is no object"),
        (lambda stored: stored["solo"][FIRST].pop("kimi"), f"{FIRST}: no 'kimi'"),
        (lambda stored: stored["solo"][FIRST]["gpt"].pop("cost_usd_litellm"), "gpt: no 'cost_usd_litellm'"),
        (lambda stored: stored["solo"][FIRST]["opus"].update(cost_usd_litellm=-1), "opus: -1 is no cost"),
        (lambda stored: stored["solo"][FIRST]["opus"].update(steps="many"), "opus: 'many' is no cost or count"),
        (lambda stored: stored["solo"][FIRST]["opus"].update(cost_usd_litellm=float("nan")), "opus: nan is no cost"),
        (lambda stored: stored["solo"][FIRST]["opus"].update(resolved="no"), "opus: 'no' is no outcome"),
        (lambda stored: stored["system_union_pairs"].pop(FIRST), f"no '{FIRST}'"),
        (lambda stored: stored["system_union_pairs"][FIRST].update(gpt9={}), "the fixer 'gpt9' is not known"),
    ],
)
def test_an_odd_receipt_is_named(small_paper: Path, edit: Callable[[Any], object], said: str) -> None:
    change(small_paper / OUTCOMES, edit)
    with pytest.raises(StudyError) as told:
        _ = Paper(small_paper).evaluation
    assert said in str(told.value) and str(small_paper / OUTCOMES) in str(told.value)


def test_a_name_that_stands_twice_is_refused(small_paper: Path) -> None:
    (small_paper / OUTCOMES).write_text('{"solo": {}, "solo": {}}')
    with pytest.raises(StudyError, match=r"outcomes_per_task.json is not JSON: 'solo' stands twice .* released"):
        _ = Paper(small_paper).evaluation


@pytest.mark.parametrize("text", ["{", "", "[" * 100_000])
def test_what_is_not_json_is_refused(small_paper: Path, text: str) -> None:
    (small_paper / "published.json").write_text(text)
    with pytest.raises(StudyError, match=r"published\.json is not JSON"):
        _ = Paper(small_paper).published


@pytest.mark.parametrize("name", [OUTCOMES, ROUTING, CENSUS, LABELS, "published.json", "receipts/localization.json"])
def test_a_missing_file_is_named_with_where_it_comes_from(small_paper: Path, name: str) -> None:
    (small_paper / name).unlink()
    with pytest.raises(StudyError) as told:
        paper = Paper(small_paper)
        _ = (paper.published, paper.evaluation, paper.routing, paper.label_run)
    assert str(small_paper / name) in str(told.value) and "2608.04804" in str(told.value)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda stored: stored.pop("theta"), "no 'theta'"),
        (lambda stored: stored.update(anchor="somebody"), "the fixer 'somebody' is not known"),
        (lambda stored: stored["decisions"].pop(FIRST), f"no '{FIRST}'"),
        (lambda stored: stored["probability_vectors"][FIRST]["kimi-k2-5"].update(p_text=1.5), "p_text is 1.5"),
        (lambda stored: stored["probability_vectors"][FIRST].pop("kimi-k2-5"), "no 'kimi-k2-5'"),
    ],
)
def test_an_odd_routing_is_named(small_paper: Path, edit: Callable[[Any], object], said: str) -> None:
    change(small_paper / ROUTING, edit)
    with pytest.raises(StudyError) as told:
        _ = Paper(small_paper).routing
    assert said in str(told.value) and str(small_paper / ROUTING) in str(told.value)


@pytest.mark.parametrize(
    ("task", "said"), [(FIRST, f"row 25: a second row of {FIRST}"), ("repo9-99", "row 25: no outcome of repo9-99")]
)
def test_a_census_row_too_many_is_named(small_paper: Path, task: str, said: str) -> None:
    with (small_paper / CENSUS).open("a") as file:
        file.write(f"{task},forced,real_failure,true,true,1,true\n")
    with pytest.raises(StudyError, match=said):
        _ = Paper(small_paper).evaluation


def test_a_census_without_a_column_is_named(small_paper: Path) -> None:
    path = small_paper / CENSUS
    path.write_text(path.read_text().replace("failure_class", "class"))
    with pytest.raises(StudyError, match=r"verify_census.csv, row 1: no failure_class. Each row needs"):
        _ = Paper(small_paper).evaluation


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda stored: stored.update(rows={}), "'rows' is no list"),
        (lambda stored: stored["rows"][0].pop("recall"), f"{FIRST}: no 'recall'"),
        (lambda stored: stored["rows"][0].update(precision="high"), "precision is 'high'. Write a number from 0 to 1"),
        (lambda stored: stored["rows"][0].update(n_gold=None), f"{FIRST}: 'n_gold' is None. Write a whole number"),
        (lambda stored: stored["rows"].pop(0), f"no '{FIRST}'"),
    ],
)
def test_odd_localization_is_named(small_paper: Path, edit: Callable[[Any], object], said: str) -> None:
    change(small_paper / "receipts/localization.json", edit)
    with pytest.raises(StudyError) as told:
        _ = Paper(small_paper).evaluation
    assert said in str(told.value) and "localization.json" in str(told.value)


def test_published_figures_are_an_object(small_paper: Path) -> None:
    (small_paper / "published.json").write_text("[]")
    with pytest.raises(StudyError, match=r"'published\.json' is no object"):
        _ = Paper(small_paper).published


def test_a_task_localized_twice_is_named(small_paper: Path) -> None:
    change(small_paper / "receipts/localization.json", lambda stored: stored["rows"].append(stored["rows"][0]))
    with pytest.raises(StudyError, match=r"localization.json, row 25: a second one of repo0-00"):
        _ = Paper(small_paper).evaluation


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"fixer": "Somebody"}, "row 81: the fixer 'Somebody' is none of Kimi"),
        ({"arm": "alone"}, "row 81: the arm 'alone' is none of solo, handoff"),
        ({"cost_usd_pinned": -0.5}, "row 81: -0.5 is no cost"),
        ({"solved": 1}, "row 81: 1 is no outcome"),
        ({"fixer": None}, "row 81: no fixer"),
        ({}, "row 81: a second outcome of Kimi K2.5 on owner__name0-0"),
    ],
)
def test_an_odd_label_is_named(small_paper: Path, row: dict[str, object], said: str) -> None:
    path = small_paper / LABELS
    first = json.loads(path.read_text().splitlines()[0])
    with path.open("a") as file:
        file.write(json.dumps({**first, **row}) + "\n")
    with pytest.raises(StudyError) as told:
        _ = Paper(small_paper).label_run
    assert said in str(told.value) and str(path) in str(told.value)


def test_a_label_that_is_not_json_is_named(small_paper: Path) -> None:
    with (small_paper / LABELS).open("a") as file:
        file.write("{oops\n")
    with pytest.raises(ScroutError, match=r"outcomes.jsonl, row 81 is not JSON"):
        _ = Paper(small_paper).label_run


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("verified,,a__b-1,1,0.1,3,,2.0.0", "row 2: no model"),
        ("verified,m,a__b-2,yes,0.1,3,,2.0.0", "row 2: resolved is 'yes'. Write 1 or 0"),
        ("verified,m,a__b-2,1,nan,3,,2.0.0", "row 2: 'nan' is no cost"),
        ("verified,m,a__b-2,1,-2,3,,2.0.0", "row 2: '-2' is no cost"),
        ("verified,m,a__b-1,1,0.1,3,,2.0.0", "row 2: a second outcome of m on a__b-1"),
    ],
)
def test_an_odd_public_outcome_is_named(small_paper: Path, row: str, said: str) -> None:
    public(small_paper, "verified_mini_swe_agent.csv.gz", "verified,m,a__b-1,1,0.1,3,,2.0.0", row)
    with pytest.raises(StudyError) as told:
        Paper(small_paper).public("Verified")
    assert said in str(told.value) and "verified_mini_swe_agent.csv.gz" in str(told.value)


def test_only_what_compares_is_compared(small_paper: Path) -> None:
    public(
        small_paper,
        "verified_mini_swe_agent.csv.gz",
        "verified,new,a__b-1,1,0.1,3,,2.0.0",
        "verified,old,a__b-1,0,,,,1.0.0",
    )
    public(
        small_paper,
        "multilingual_mini_swe_agent.csv.gz",
        "multilingual,m,mrdoob__three,1,0.1,3,,2.0.0",
        "multilingual,m,mrdoob__three.js-27,1,0.1,3,,2.0.0",
        "multilingual,m,jqlang__jq-1,0,0.1,3,,2.0.0a0",
    )
    paper = Paper(small_paper)
    assert paper.public("Verified").arm("solo").fixers == ("new", "old")
    assert paper.comparable("Verified").arm("solo").fixers == ("new",)
    assert paper.comparable("Multilingual").ids == ("jqlang__jq-1",)
    assert np.isnan(paper.public("Verified").arm("solo").cost[0, 1])


def test_a_public_table_of_other_versions_alone_is_refused(small_paper: Path) -> None:
    public(small_paper, "verified_mini_swe_agent.csv.gz", "verified,old,a__b-1,0,,,,1.0.0")
    with pytest.raises(StudyError, match=r"no run of version 2.0.0"):
        Paper(small_paper).comparable("Verified")


def test_texts_and_languages_come_with_the_tasks_file(small_paper: Path) -> None:
    public(
        small_paper,
        "multilingual_mini_swe_agent.csv.gz",
        "multilingual,m,jqlang__jq-1,1,0.1,3,,2.0.0",
        "multilingual,m,jqlang__jq-2,0,0.1,3,,2.0.0",
    )
    (small_paper / "tasks").mkdir()
    with gzip.open(small_paper / "tasks/swebench_multilingual.jsonl.gz", "wt") as file:
        for number, gold in ((1, ["src/a.c", "src/b.c"]), (2, ["docs/x.md"])):
            row = {"instance_id": f"jqlang__jq-{number}", "repo": "jqlang/jq", "problem_statement": "It fails."}
            file.write(json.dumps({**row, "gold_files": gold}) + "\n")
    found = Paper(small_paper).public("Multilingual")
    assert found.texts["jqlang__jq-2"] == "It fails."
    assert found.languages == {"jqlang__jq-1": "C", "jqlang__jq-2": "C"}  # that of the repository


def test_repositories_of_pro_tasks_have_no_commit(small_paper: Path) -> None:
    ids = [f"instance_NodeBB__NodeBB-{digit * 40}-vnan" for digit in "ab"]
    public(small_paper, "pro_sweagent_resolved_only.csv.gz", *(f"pro,m,{task},1,,,," for task in ids))
    assert set(Paper(small_paper).public("Pro").repositories) == {"NodeBB__NodeBB"}


def test_parts_that_are_there(small_paper: Path) -> None:
    paper = Paper(small_paper)
    assert paper.has("evaluation") and paper.has("label run")
    assert not paper.has("Verified") and not paper.has("records")
    with pytest.raises(StudyError, match=r"verified_mini_swe_agent\.csv\.gz is not there"):
        paper.public("Verified")


def test_words_and_numbers_outside_of_what_is_known_are_refused(small_paper: Path) -> None:
    path = small_paper / CENSUS
    good = path.read_text()
    for old, new in ((",forced,", ",Forced,"), (",true,", ",True,")):
        if old in good:
            path.write_text(good.replace(old, new, 1))
            with pytest.raises(StudyError, match=r"verify_census\.csv, row \d"):
                _ = Paper(small_paper).evaluation
    path.write_text(good)
    change(small_paper / "receipts/localization.json", lambda stored: stored["rows"][0].update(recall=5))
    with pytest.raises(StudyError, match=r"localization\.json.*recall"):
        _ = Paper(small_paper).evaluation


@pytest.mark.parametrize("name", ["$\\frac{a}", "a$b$c"])
def test_a_name_is_no_formula_in_a_picture(name: str) -> None:
    from scrout.lab.study.figures import drawn
    from scrout.lab.study.report import Figure

    assert drawn(Figure("p", name, lambda axes: axes.set_xlabel(name) and None, name), "png").startswith(b"\x89PNG")


@pytest.mark.parametrize("study", ["spend", "replicate", "audit", "calibrate", "frontier", "handoff", "localize"])
@pytest.mark.parametrize("fault", ["unknown cost", "negative cost", "odd published", "empty label run"])
def test_no_fault_of_a_file_ends_in_a_traceback(small_paper: Path, study: str, fault: str) -> None:
    outcomes, published = small_paper / "receipts/outcomes_per_task.json", small_paper / "published.json"
    if fault == "unknown cost":
        change(outcomes, lambda stored: next(iter(stored["solo"].values()))["gpt"].update(cost_usd_pinned=None))
    elif fault == "negative cost":
        change(outcomes, lambda stored: next(iter(stored["solo"].values()))["gpt"].update(cost_usd_pinned=-1.0))
    elif fault == "odd published":
        published.write_text("[1, 2]")
    else:
        (small_paper / "labelrun/outcomes.jsonl").write_text("")
    module, shown = (import_module(f"scrout.lab.study.{study}{ending}") for ending in ("", "_report"))
    try:
        shown.report(module.study(Paper(small_paper)))
    except StudyError as error:
        assert len(str(error)) > 20
    if fault == "negative cost" and study == "spend":
        with pytest.raises(StudyError, match="outcomes_per_task"):
            module.study(Paper(small_paper))
