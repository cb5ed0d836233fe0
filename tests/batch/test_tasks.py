"""Task files: every form that is read, and what becomes of rows that cannot be."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.base import TaskError
from scrout.batch.tasks import TaskFile, TaskRow, read_tasks
from scrout.git import GitDir

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SETS = Path(__file__).parents[3] / "shared" / "data" / "tasks"


def own(name: str, **more: object) -> dict[str, object]:
    return {"id": name, "text": f"{name} is broken", "repo": "owner/name", "base_commit": COMMIT, **more}


def published(name: str, **more: object) -> dict[str, object]:
    return {
        "instance_id": name,
        "repo": "owner/name",
        "base_commit": COMMIT,
        "problem_statement": "It fails.",
        "patch": "diff --git a/pkg/a.py b/pkg/a.py\n--- a/pkg/a.py\n+++ b/pkg/a.py\n@@ -1 +1 @@\n-a\n+b\n",
        "test_patch": "",
        "FAIL_TO_PASS": '["tests/test_a.py::test_one"]',
        "PASS_TO_PASS": ["tests/test_a.py::test_two"],
        **more,
    }


def written(path: Path, *lines: object) -> Path:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + "\n")
    return path


def ids(found: TaskFile) -> list[str]:
    return [row.id for row in found.rows]


def test_our_own_form_with_gold_and_its_source(tmp_path: Path) -> None:
    gold = {"patch": "p", "files": ["a.py"], "fail_to_pass": ["t::a"], "test_command": "pytest"}
    found = read_tasks(written(tmp_path / "tasks.jsonl", own("one"), "", own("two", gold=gold)))
    assert not found.problems
    assert found.rows[0] == TaskRow("one", "one is broken", "owner/name", COMMIT, None, "tasks.jsonl:1")
    assert found.rows[1].source == "tasks.jsonl:3"
    assert found.rows[1].gold is not None and found.rows[1].gold.files == ("a.py",)


def test_swebench_rows_have_their_tests_as_a_list_or_as_the_json_of_one(tmp_path: Path) -> None:
    (row,) = read_tasks(written(tmp_path / "rows.jsonl", published("owner__name-1"))).rows
    assert row.gold is not None
    assert row.gold.fail_to_pass == ("tests/test_a.py::test_one",)
    assert row.gold.pass_to_pass == ("tests/test_a.py::test_two",)
    assert row.gold.files == ("pkg/a.py",)


@pytest.mark.parametrize("form", ["list", "by_name", "gzip_lines", "gzip_list"])
def test_the_same_rows_in_every_file_form(tmp_path: Path, form: str) -> None:
    rows = [published("a"), published("b")]
    lines = "\n".join(json.dumps(row) for row in rows).encode()
    content = {
        "list": json.dumps(rows, indent=2).encode(),
        "by_name": json.dumps({str(row.pop("instance_id")): row for row in [dict(row) for row in rows]}).encode(),
        "gzip_lines": gzip.compress(lines),
        "gzip_list": gzip.compress(json.dumps(rows).encode()),
    }[form]
    path = tmp_path / ("rows.json.gz" if form.startswith("gzip") else "rows.json")
    path.write_bytes(content)
    plain = tmp_path / "rows.jsonl"
    plain.write_bytes(lines)
    assert ids(read_tasks(path)) == ["a", "b"]
    assert read_tasks(path).digest == read_tasks(plain).digest


def test_parquet_rows(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow (the extra `parquet`)")
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow (the extra `parquet`)")
    path = tmp_path / "rows.parquet"
    parquet.write_table(pyarrow.Table.from_pylist([published("a"), published("b", base_commit="?")]), path)
    found = read_tasks(path)
    assert ids(found) == ["a"]
    assert [(problem.source, problem.id) for problem in found.problems] == [("rows.parquet[2]", "b")]
    path.write_bytes(b"PAR1 and then nothing")
    with pytest.raises(TaskError, match=r"rows\.parquet cannot be read as Parquet"):
        read_tasks(path)


def test_pro_text_is_put_together_and_a_quoted_field_is_decoded(tmp_path: Path) -> None:
    quoted = json.dumps('say "it"\nagain')
    row = published("pro", problem_statement=quoted, requirements="- one", interface='"left alone" or "not"')
    (found,) = read_tasks(written(tmp_path / "pro.jsonl", row)).rows
    expected = 'say "it"\nagain\n\nRequirements:\n- one\n\nNew interfaces introduced:\n"left alone" or "not"'
    assert found.text == expected


@pytest.mark.parametrize("stored", [r'"caf\u00E9"', '"a\\/b"', '"open', "[1]", '"'])
def test_a_field_that_would_not_be_encoded_the_same_way_stays(tmp_path: Path, stored: str) -> None:
    (found,) = read_tasks(written(tmp_path / "rows.jsonl", published("a", problem_statement=stored))).rows
    assert found.text == stored


def test_problems_name_line_and_id_and_the_rest_goes_on(tmp_path: Path) -> None:
    path = written(
        tmp_path / "tasks.jsonl",
        own("good"),
        own("no commit", base_commit="main"),
        own("good", text="another"),
        {"text": "nameless"},
        "[1, 2]",
        own("odd", surprise=1),
        own("wrong gold", gold={"patch": 3}),
        published("odd tests", FAIL_TO_PASS="not json"),
        own("empty", text="  "),
        own("nowhere", repo=None),
        own("last"),
        '{"id": "cut off", "te',
    )
    found = read_tasks(path)
    assert ids(found) == ["good", "last"]
    assert found.rows[0].text == "good is broken"
    told = {problem.source: (problem.id, problem.words) for problem in found.problems}
    assert [told[f"tasks.jsonl:{line}"][0] for line in range(2, 11)] == [
        *("no commit", "good", "", "", "odd", "wrong gold", "odd tests", "empty", "nowhere"),
    ]
    words = [
        (2, "base_commit is 'main'"),
        (3, "tasks.jsonl:1"),
        (4, "neither an `id`"),
        (5, "not a JSON object"),
        (6, "'surprise'"),
        (7, "gold.patch"),
        (8, "FAIL_TO_PASS"),
        (9, "is empty"),
        (10, "`repo` is missing"),
        (12, "cut off"),
    ]
    for line, part in words:
        assert part in told[f"tasks.jsonl:{line}"][1]


def test_a_gzipped_file_that_ends_early_gives_what_was_whole(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl.gz"
    lines = "".join(json.dumps(own(f"task {number}", text=f"{number:0200}")) + "\n" for number in range(5000))
    path.write_bytes(gzip.compress(lines.encode())[:-200])
    found = read_tasks(path)
    assert 0 < len(found.rows) < 5000
    assert "ends in the middle" in found.problems[-1].words


def test_the_digest_is_of_the_tasks_and_not_of_their_gold(tmp_path: Path) -> None:
    plain = read_tasks(written(tmp_path / "a.jsonl", own("one")))
    with_gold = read_tasks(written(tmp_path / "b.jsonl", own("one", gold={"patch": "p"})))
    other = read_tasks(written(tmp_path / "c.jsonl", own("one", text="something else")))
    assert plain.digest == with_gold.digest != other.digest


def test_a_repository_beside_the_file_is_found_from_anywhere(tmp_path: Path) -> None:
    (tmp_path / "set" / "repositories" / "one").mkdir(parents=True)
    path = written(tmp_path / "set" / "tasks.jsonl", own("a", repo="repositories/one"), own("b", repo="../gone"))
    assert [row.repo for row in read_tasks(path).rows] == [
        str(tmp_path / "set" / "repositories" / "one"),
        str(tmp_path / "gone"),
    ]


def test_no_link_in_a_folder_of_issues_is_followed(tmp_path: Path, make_repo: Callable[..., Path]) -> None:
    """The folder may be the repository's own, and the link name any file of the user's."""
    repo = make_repo({"a.py": "x = 1\n", "issues/one.md": "It fails."})
    secret = tmp_path / "secret.md"
    secret.write_text("the secret\n")
    (repo / "issues" / "two.md").symlink_to(secret)
    found = read_tasks(repo / "issues", repo)
    assert [row.id for row in found.rows] == ["one"] and [problem.id for problem in found.problems] == ["two"]
    assert "symlink" in found.problems[0].words and "the secret" not in str(found)


def test_a_folder_of_issues(tmp_path: Path, make_repo: Callable[..., Path]) -> None:
    repo = make_repo({"a.py": ""})
    head = GitDir.of(repo).text("rev-parse", "HEAD")
    folder = tmp_path / "issues"
    folder.mkdir()
    (folder / "2-crash.md").write_text("It crashes.\n")
    (folder / "1-slow.txt").write_text("It is slow.\n")
    (folder / "3-empty.md").write_text("")
    (folder / "notes.pdf").write_bytes(b"%PDF")
    found = read_tasks(folder, repo)
    assert [(row.id, row.base_commit, row.repo) for row in found.rows] == [
        ("1-slow", head, str(repo)),
        ("2-crash", head, str(repo)),
    ]
    assert [(problem.source, problem.id) for problem in found.problems] == [("3-empty.md", "3-empty")]
    with pytest.raises(TaskError, match="--repo"):
        read_tasks(folder)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "holds no tasks"), (b"\n \n", "holds no tasks"), (b"\x00\x01", "binary"), (None, "No such file")],
)
def test_a_source_that_holds_nothing_is_an_error(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "tasks.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(TaskError, match=words):
        read_tasks(path)


@pytest.mark.skipif(not SETS.is_dir(), reason="needs ../shared/data")
def test_the_published_sets_are_read_whole() -> None:
    counts = {path.name: read_tasks(path) for path in sorted(SETS.glob("*.jsonl.gz"))}
    assert {name: len(found.rows) for name, found in counts.items()} == {
        "swebench_dev.jsonl.gz": 225,
        "swebench_lite.jsonl.gz": 300,
        "swebench_multilingual.jsonl.gz": 300,
        "swebench_verified.jsonl.gz": 500,
    }
    for found in counts.values():
        assert not found.problems
        assert all(row.gold is not None and row.gold.files for row in found.rows)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(
    [
        "id",
        "instance_id",
        "text",
        "repo",
        "base_commit",
        "gold",
        "problem_statement",
        "patch",
        "requirements",
        "FAIL_TO_PASS",
        "PASS_TO_PASS",
        "gold_files",
        "test_command",
        "interface",
        "other",
    ]
)
BAD_LINES = (
    st.binary(max_size=60).filter(lambda line: b"\n" not in line)
    | st.dictionaries(NAMES, VALUES, max_size=6).map(lambda value: json.dumps(value).encode())
    | VALUES.map(lambda value: json.dumps(value).encode())
)


@given(before=st.lists(BAD_LINES, max_size=4), after=st.lists(BAD_LINES, max_size=4))
def test_no_bad_line_loses_a_good_one(tmp_path: Path, before: list[bytes], after: list[bytes]) -> None:
    path = tmp_path / "mixed.jsonl"
    good = json.dumps(own("the good one")).encode()
    path.write_bytes(b"\n".join([b"{}", *before, good, *after]) + b"\n")
    found = read_tasks(path)
    assert "the good one" in ids(found)
    lines = sum(1 for line in path.read_bytes().split(b"\n") if line.strip())
    assert len(found.rows) + len(found.problems) == lines


@given(content=st.binary(max_size=300) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_no_file_raises_anything_but_a_task_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "any.json"
    path.write_bytes(content)
    try:
        found = read_tasks(path)
    except TaskError:
        return
    assert found.rows or found.problems


def test_half_a_character_in_an_answer_is_a_problem_of_its_row(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text("\n".join(json.dumps(one) for one in (own("a", gold={"patch": "\ud800"}), own("b"))))
    found = read_tasks(path)
    assert [row.id for row in found.rows] == ["b"] and [problem.id for problem in found.problems] == ["a"]
