"""Outcomes from files: what is written is read back, and whatever is broken is named, never a traceback."""

from __future__ import annotations

import csv
import gzip
import json
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.base import RouteError
from scrout.route.outcomes import MAX_USD, OutcomeWithText, digest, join_texts, read_outcomes, read_texts

FIELDS = ("instance_id", "resolved", "cost_usd", "api_calls", "arm", "text")

# Every character that a file in UTF-8 can hold; CSV cannot hold NUL in every Python.
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).filter(str.strip)
OUTCOMES = st.lists(
    st.builds(
        join_texts,
        instance_id=TEXTS.map(str.strip).filter(bool),
        text=TEXTS,
        resolved=st.booleans(),
        cost_usd=st.none() | st.decimals(0, MAX_USD, places=10),
        arm=st.sampled_from(["solo", "handoff"]),
        api_calls=st.none() | st.integers(0, 10_000),
    ),
    max_size=5,
)


def row(one: OutcomeWithText) -> dict[str, object]:
    outcome = one.outcome
    return {
        "instance_id": outcome.instance_id,
        "resolved": outcome.resolved,
        "cost_usd": outcome.cost_usd,
        "api_calls": outcome.api_calls,
        "arm": outcome.arm,
        "text": one.text,
    }


def written(folder: Path, name: str, content: str) -> Path:
    path = folder / name
    path.write_bytes(content.encode())
    return path


@given(OUTCOMES)
def test_what_is_written_as_csv_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, outcomes: list[OutcomeWithText]
) -> None:
    path = tmp_path_factory.mktemp("csv") / "outcomes.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(row(one) for one in outcomes)
    assert read_outcomes(path, {}) == outcomes


@given(OUTCOMES, st.booleans())
def test_what_is_written_as_jsonl_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, outcomes: list[OutcomeWithText], ascii_only: bool
) -> None:
    lines = [json.dumps(row(one), default=str, ensure_ascii=ascii_only) + "\n" for one in outcomes]
    assert read_outcomes(written(tmp_path_factory.mktemp("jsonl"), "o.jsonl", "".join(lines)), {}) == outcomes


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner, max_size=2)
)


@given(st.lists(st.dictionaries(st.sampled_from(FIELDS), ANYTHING), min_size=1, max_size=3))
def test_rows_of_anything_are_read_or_named(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, object]]
) -> None:
    content = "\n".join(json.dumps(one) for one in rows)
    path = written(tmp_path_factory.mktemp("any"), "o.jsonl", content)
    try:
        read = read_outcomes(path, {})
    except RouteError as error:
        assert f"{path}, row " in str(error)
    else:
        assert len(read) == len(rows)


@given(st.binary(max_size=80), st.sampled_from(["o.csv", "o.jsonl", "o.csv.gz", "o.jsonl.gz"]))
def test_files_of_anything_are_read_or_named(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, name: str
) -> None:
    path = tmp_path_factory.mktemp("bytes") / name
    path.write_bytes(content)
    for read in (lambda: read_outcomes(path, {}), lambda: read_texts(path)):
        try:
            assert not read()
        except RouteError as error:
            assert str(path) in str(error)


@given(st.text(st.sampled_from('instance_id,resolved"\n\r\t 10truefalse;'), max_size=120))
def test_almost_csv_is_read_or_named(tmp_path_factory: pytest.TempPathFactory, body: str) -> None:
    path = written(tmp_path_factory.mktemp("almost"), "o.csv", f"instance_id,resolved,text\n{body}")
    try:
        read_outcomes(path, {})
    except RouteError as error:
        assert f"{path}, row " in str(error)


GOOD = {"instance_id": "shop-1", "resolved": True, "text": "an issue"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"instance_id": " "}, "no instance_id"),
        ({"text": None}, "the task shop-1 is not known. Give its text with --tasks"),
        ({"resolved": None}, "resolved is None"),
        ({"resolved": "maybe"}, "resolved is 'maybe'"),
        ({"cost_usd": -0.1}, "cost_usd is -0.1"),
        ({"cost_usd": "NaN"}, "cost_usd is 'NaN'"),
        ({"cost_usd": "1e400"}, "cost_usd is '1e400'"),
        ({"cost_usd": "$3"}, "cost_usd is '\\$3'"),
        ({"api_calls": 1.5}, "api_calls is 1.5"),
        ({"api_calls": "1e9"}, "api_calls is '1e9'"),
        ({"arm": "both"}, "arm is 'both'. Write solo or handoff"),
    ],
)
def test_what_is_wrong_in_a_row_is_named(tmp_path: Path, change: dict[str, object], words: str) -> None:
    path = written(tmp_path, "o.jsonl", json.dumps(GOOD) + "\n\n" + json.dumps(GOOD | change) + "\n")
    with pytest.raises(RouteError, match=rf"o\.jsonl, row 3: .*{words}"):
        read_outcomes(path, {})


def test_what_spreadsheets_and_tables_write(tmp_path: Path) -> None:
    content = (
        "\ufeffinstance_id, resolved, cost_usd, api_calls, arm\r\nshop-1, True, 0.5, 37.0, Handoff\r\nshop-2,no,,,\r\n"
    )
    path = written(tmp_path, "o.CSV", content)
    read = read_outcomes(path, {"shop-1": "one", "shop-2": "two"})
    assert read == [
        join_texts("shop-1", "one", True, Decimal("0.5"), "handoff", 37),
        join_texts("shop-2", "two", False, None, "solo", None),
    ]


def test_a_comma_in_an_unquoted_text_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, "o.csv", "instance_id,resolved,text\na,1,fine\nb,1,oh, no\n")
    with pytest.raises(RouteError, match="row 2: more fields than the header has"):
        read_outcomes(path, {})


def test_packed_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "o.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(GOOD).encode()))
    assert read_outcomes(path, {}) == [join_texts("shop-1", "an issue", True)]
    path.write_bytes(gzip.compress(json.dumps(GOOD).encode())[:-6])
    with pytest.raises(RouteError, match=r"o\.jsonl\.gz cannot be read"):
        read_outcomes(path, {})


@pytest.mark.parametrize("path", ["/dev/zero", "missing.csv", "."])
def test_what_is_no_file_is_named(path: str) -> None:
    with pytest.raises(RouteError, match=rf"{path}.* Name a \.csv or \.jsonl file"):
        read_outcomes(Path(path), {})


def test_texts_join_what_benchmarks_keep_apart(tmp_path: Path) -> None:
    rows = [
        {"instance_id": " a-1 ", "problem_statement": "It fails.", "requirements": "It must not.", "interface": "f()"},
        {"instance_id": "a-2", "text": "Plain."},
        {"instance_id": "a-2", "text": "Plain."},
    ]
    path = written(tmp_path, "tasks.jsonl", "\n".join(map(json.dumps, rows)))
    joined = "It fails.\n\nRequirements:\nIt must not.\n\nNew interfaces introduced:\nf()"
    assert read_texts(path) == {"a-1": joined, "a-2": "Plain."}
    path.write_text("\n".join(map(json.dumps, [*rows, {"instance_id": "a-2", "text": "Other."}])))
    with pytest.raises(RouteError, match="row 4: a second text of the task a-2"):
        read_texts(path)
    path.write_text('{"instance_id": "a-3"}')
    with pytest.raises(RouteError, match="row 1: a task needs instance_id and problem_statement"):
        read_texts(path)


def test_the_rows_own_text_counts_before_the_tasks(tmp_path: Path) -> None:
    path = written(tmp_path, "o.jsonl", json.dumps(GOOD))
    assert read_outcomes(path, {"shop-1": "another"})[0].outcome.task == digest("an issue") != digest("another")


def test_halves_of_characters_are_replaced(tmp_path: Path) -> None:
    path = written(tmp_path, "o.jsonl", r'{"instance_id": "a\ud800", "resolved": 1, "text": "b\udfff"}')
    (one,) = read_outcomes(path, {})
    assert (one.outcome.instance_id, one.text) == ("a?", "b?")
