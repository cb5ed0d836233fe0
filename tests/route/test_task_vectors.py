"""Vectors of known tasks: what is remembered comes back, folders add up, and damage is named."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.base import RouteError
from scrout.route.task_vectors import TITLES, TaskVectors, remember
from scrout.task import MAX_TITLE_CHARS, title_of

SPACE = "text/two/numbers"
ROWS = st.dictionaries(st.text("0123456789abcdef", min_size=1), st.tuples(*[st.floats(-1e6, 1e6, width=32)] * 3))


@given(ROWS, ROWS)
def test_what_is_remembered_comes_back(
    tmp_path_factory: pytest.TempPathFactory, first: dict[str, tuple[float, ...]], then: dict[str, tuple[float, ...]]
) -> None:
    folder = tmp_path_factory.mktemp("known")
    remember(folder, "state", first, {})
    remember(folder, "state", then, {})
    tasks = [*first, "missing", *then]
    has, rows = TaskVectors(folder).vectors("state", tasks)
    told = first | then
    assert has.tolist() == [task in told for task in tasks]
    expected = [told[task] for task in tasks if task in told]
    # Where all numbers are below 1 they are kept in half precision.
    assert not expected or np.allclose(rows, expected, rtol=1e-3, atol=1e-3)


def test_numbers_beyond_half_precision_are_kept(tmp_path: Path) -> None:
    remember(tmp_path, "recon", {"a": (123_456.0, 0.5)}, {})
    assert TaskVectors(tmp_path).vectors("recon", ["a"])[1].tolist() == [[123_456.0, 0.5]]


def test_spaces_are_apart_and_a_later_folder_counts(tmp_path: Path) -> None:
    shipped, own = tmp_path / "shipped", tmp_path / "own"
    remember(shipped, SPACE, {"a": (1.0, 0.0), "b": (0.0, 1.0)}, {"a": "old", "b": "kept"})
    remember(own, SPACE, {"a": (0.5, 0.5)}, {"a": "new"})
    remember(own, "other", {"c": (1.0,)}, {"c": "third"})
    known = TaskVectors(shipped, own)
    has, rows = known.vectors(SPACE, ["a", "b", "c"])
    assert (has.tolist(), rows.tolist()) == ([True, True, False], [[0.5, 0.5], [0.0, 1.0]])
    assert known.vectors("other", ["c"])[0].all() and not known.vectors("none", ["c"])[0].any()
    assert known.titles == {"a": "new", "b": "kept", "c": "third"}


def test_nothing_to_remember_leaves_nothing(tmp_path: Path) -> None:
    remember(tmp_path / "folder", SPACE, {}, {})
    assert not (tmp_path / "folder").exists()


def test_the_same_tasks_give_the_same_file(tmp_path: Path) -> None:
    vectors = {"b": (0.0, 1.0), "a": (1.0, 0.0)}
    for folder, order in (("one", "ab"), ("two", "ba")):
        for task in order:
            remember(tmp_path / folder, SPACE, {task: vectors[task]}, {task: task})
    files = [sorted(p for p in (tmp_path / name).iterdir() if p.stat().st_size) for name in ("one", "two")]
    assert [p.name for p in files[0]] == [p.name for p in files[1]] and len(files[0]) == 2
    assert [p.read_bytes() for p in files[0]] == [p.read_bytes() for p in files[1]]


def test_vectors_that_do_not_belong_are_refused(tmp_path: Path) -> None:
    remember(tmp_path, SPACE, {"a": (1.0, 0.0)}, {})
    with pytest.raises(RouteError, match=r"text/two/numbers has vectors of different sizes: \[2, 3\]"):
        remember(tmp_path, SPACE, {"b": (1.0, 0.0, 0.0)}, {})
    with pytest.raises(RouteError, match="values that are not numbers"):
        remember(tmp_path, SPACE, {"b": (float("nan"), 0.0)}, {})
    assert TaskVectors(tmp_path).vectors(SPACE, ["a", "b"])[0].tolist() == [True, False]
    remember(tmp_path / "other", SPACE, {"c": (1.0, 0.0, 0.0)}, {})
    with pytest.raises(RouteError, match="differ in size"):
        TaskVectors(tmp_path, tmp_path / "other").space(SPACE)


@given(st.binary(max_size=60))
def test_damaged_files_are_named(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    folder = tmp_path_factory.mktemp("known")
    remember(folder, "state", {"a": (1.0, 0.0)}, {"a": "title"})
    (vectors,) = folder.glob("*.npz")
    vectors.write_bytes(content)
    with pytest.raises(RouteError, match=f"{vectors.name} is damaged"):
        TaskVectors(folder).space("state")
    (folder / TITLES).write_bytes(b"[" + content)
    with pytest.raises(RouteError, match="only titles are lost"):
        _ = TaskVectors(folder).titles


def test_titles_that_are_none_are_named(tmp_path: Path) -> None:
    (tmp_path / TITLES).write_text("[]")
    with pytest.raises(RouteError, match="holds no titles"):
        _ = TaskVectors(tmp_path).titles


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RouteError, match=r"cannot write .*file.*route\.resumes"):
        remember(tmp_path / "file", SPACE, {"a": (1.0,)}, {})


def test_several_may_remember_at_once(tmp_path: Path) -> None:
    threads = [
        threading.Thread(target=remember, args=(tmp_path, SPACE, {f"task-{n}": (1.0, float(n))}, {f"task-{n}": "x"}))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    has, rows = TaskVectors(tmp_path).vectors(SPACE, [f"task-{n}" for n in range(8)])
    assert has.all() and rows[:, 1].tolist() == list(range(8))


def test_titles_are_one_short_line() -> None:
    assert title_of("\n \n  # Crash\nmore") == "Crash"
    assert title_of("x" * 1000) == "x" * MAX_TITLE_CHARS
    assert (title_of(""), title_of("a\ud800")) == ("", "a?")
