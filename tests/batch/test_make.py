"""Tasks of our own: what is made wrong, what is hidden, what the issue says, and that the answer is one."""

from __future__ import annotations

import ast
import io
import json
import random
import tarfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scrout.base import TaskError
from scrout.batch.make.issues import ObservedFailure, gives_away, issue_with_code, issue_without_code
from scrout.batch.make.make import MadeTasks, make_tasks, seed_package
from scrout.batch.make.mutations import OPERATORS, compiles, mutations
from scrout.batch.make.packages import Package, _requirements, open_package, sdist_of, split, unpack
from scrout.batch.make.scripts import FailingScript, NotedFailure, make_script, read_failures, without_tests
from scrout.batch.tasks import Repositories, TaskRow, read_tasks
from scrout.config.folders import cache_folder
from scrout.config.settings import Settings
from scrout.git import GitDir
from scrout.sandbox.suite import Suite, run_suite
from scrout.sandbox.task_sandbox import open_task_sandbox
from scrout.sandbox.tier import Tier

if TYPE_CHECKING:
    from conftest import MakeRepo

SOURCE = '''"""Numbers and words."""


def clamp(value, low=0, high=10):
    """The nearest value in a range."""
    if value < low:
        return low
    if value > high:
        return high
    return value


def title(text, small=("of", "the")):
    """Words with a capital, but for small ones."""
    words = []
    for number, word in enumerate(text.split()):
        if number and word in small:
            words.append(word)
        else:
            words.append(word.capitalize())
    return " ".join(words)


def ratio(part, whole, digits=2):
    """A share, or None of nothing."""
    if not whole:
        return None
    return round(part / whole, digits)
'''
TESTS = """import pytest

from tally.core import clamp, ratio, title


@pytest.mark.parametrize("value", range(11))
def test_inside(value):
    assert clamp(value) == value


@pytest.mark.parametrize(("value", "expected"), [(-5, 0), (-1, 0)])
def test_below(value, expected):
    assert clamp(value) == expected


def test_above():
    assert clamp(11) == 10
    assert clamp(99, high=50) == 50


@pytest.mark.parametrize("word", ["a", "b", "c", "d", "e", "f", "g", "h"])
def test_word(word):
    assert title(word) == word.upper()


def test_small_words():
    assert title("end of the road") == "End of the Road"


def test_ratio():
    assert ratio(1, 3) == 0.33
    assert ratio(1, 3, digits=1) == 0.3


def test_ratio_of_nothing():
    assert ratio(1, 0) is None


@pytest.mark.parametrize("number", range(1, 9))
def test_whole(number):
    assert ratio(number, number) == 1
"""
FILES = {"tally/__init__.py": "", "tally/core.py": SOURCE, "tests/test_core.py": TESTS, "PKG-INFO": "Name: tally\n"}


@pytest.fixture
def package(make_repo: MakeRepo, venv_with_pytest: Path, monkeypatch: pytest.MonkeyPatch) -> Package:
    """Its tests run with pytest."""
    monkeypatch.setenv("PATH", str(venv_with_pytest / "bin"), prepend=":")
    repo = make_repo(FILES, "set/repositories/tally")
    return Package("tally", "1.0", repo, GitDir.of(repo).text("rev-parse", "HEAD"))


def rows_of(made: MadeTasks, folder: Path) -> tuple[TaskRow, ...]:
    (folder / "tasks.jsonl").write_text("".join(f"{row}\n" for row in made.rows))
    found = read_tasks(folder / "tasks.jsonl")
    assert not found.problems
    return found.rows


@pytest.mark.slow
async def test_a_task_fails_and_is_fixed_as_its_answer_says(package: Package, tier: Tier, tmp_path: Path) -> None:
    made = await seed_package(package, MadeTasks(requirement="tally", count=1, seed=3), tier)
    (row,) = rows_of(made, tmp_path / "set")
    assert row.gold is not None and made.words == ""
    assert (made.origins[0].id, row.gold.files) == (row.id, ("tally/core.py",))
    task = Repositories(()).task(row)
    assert GitDir.of(task.repo).text("log", "--format=%P", task.base_commit) == ""
    suite = Suite("pytest", ())
    with open_task_sandbox(task, tier, Settings()) as task_sandbox:
        results = []
        for patches in ((), (row.gold.test_patch,), (row.gold.test_patch, row.gold.patch)):
            workspace = task_sandbox.fresh()
            for patch in patches:
                assert await task_sandbox.apply(workspace, patch) == ""
            results.append(await run_suite(task_sandbox, workspace, suite, timeout_s=60))
    shown, unfixed, fixed = results
    assert not shown.failed and len(shown.passed) >= 20
    assert unfixed.failed == set(row.gold.fail_to_pass)
    assert not fixed.failed and fixed.passed >= {*row.gold.fail_to_pass, *row.gold.pass_to_pass}
    removed = [line[1:] for line in row.gold.patch.splitlines() if line.startswith(("-", "+")) and line[1:2] == " "]
    assert removed and not gives_away(row.text, "tally/core.py", removed)


@pytest.mark.slow
async def test_a_seed_gives_the_same_tasks_and_another_gives_others(package: Package, tier: Tier) -> None:
    first, again, other = [
        await seed_package(package, MadeTasks(requirement="tally", count=count, seed=seed), tier, jobs)
        for count, seed, jobs in ((2, 1, 1), (2, 1, 3), (1, 2, 2))
    ]
    assert first == again
    assert [origin.function for origin in first.origins] == list({o.function: 1 for o in first.origins})
    assert not set(other.rows) <= set(first.rows)


@pytest.mark.slow
async def test_a_package_without_enough_tests_says_how_many_pass(
    make_repo: MakeRepo, tier: Tier, venv_with_pytest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(venv_with_pytest / "bin"), prepend=":")
    repo = make_repo({**FILES, "tests/test_core.py": "def test_one():\n    assert True\n"})
    head = GitDir.of(repo).text("rev-parse", "HEAD")
    with pytest.raises(TaskError, match=r"tally 1\.0 cannot be used: 1 of its tests pass"):
        await seed_package(Package("tally", "1.0", repo, head), MadeTasks(requirement="tally", count=1, seed=1), tier)


@pytest.mark.slow
def test_from_a_source_archive_to_a_task_file(tier: Tier, tmp_path: Path) -> None:
    """Needs the package index that pip is configured with, for pytest."""
    (cache_folder() / "packages").mkdir(parents=True)
    archive(cache_folder() / "packages" / "tally-1.0.tar.gz", {f"tally-1.0/{path}": FILES[path] for path in FILES})
    said: list[str] = []
    (made,) = make_tasks(["Tally==1.0"], tmp_path / "out", tier, count=1, progress=said.append)
    if "cannot be installed" in made.words:
        pytest.skip(made.words)
    assert len(made.rows) == 1 and made.version == "1.0", made.words
    (row,) = read_tasks(tmp_path / "out" / "tasks.jsonl").rows
    assert Repositories(()).task(row).repo == tmp_path / "out" / "repositories" / "tally"
    said.clear()
    assert make_tasks(["Tally==1.0"], tmp_path / "out", tier, count=1, progress=said.append) == (made,)
    assert not said


def wheel(folder: Path, name: str, files: dict[str, str]) -> None:
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as made:
        about = f"{name}-1.0.dist-info"
        for path, text in {
            **files,
            f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
            f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{about}/RECORD": "",
        }.items():
            made.writestr(path, text)


@pytest.mark.slow
def test_neither_a_source_nor_its_wheels_run_on_the_host(
    tier: Tier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python finds modules in its current folder, and runs path files of wheels; pip builds what a name leads to."""
    index, mark = tmp_path / "index", tmp_path / "ran"
    index.mkdir()
    run = f"import pathlib; pathlib.Path({str(mark)!r}).touch()\n"
    wheel(index, "pytest", {"evil.pth": run, "pytest.py": ""})
    wheel(index, "other", {"other.pth": run})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    (cache_folder() / "packages").mkdir(parents=True)
    asks = "Name: tally\nRequires-Dist: other\nRequires-Dist: missing; extra == 'test'\n"
    files = FILES | {"PKG-INFO": asks, "pip/__init__.py": run, "pip/__main__.py": run, "setup.py": run, "json.py": run}
    archive(cache_folder() / "packages" / "tally-1.0.tar.gz", {f"tally-1.0/{path}": files[path] for path in files})
    package = open_package("tally==1.0", tmp_path / "tally", tier, lambda words: None)
    assert list((package.repo / ".venv").glob("lib/*/site-packages/other.pth"))
    assert not mark.exists()
    with pytest.raises(TaskError, match="not a package name"):
        list(_requirements_of(tmp_path / "local", "."))


def _requirements_of(folder: Path, name: str) -> list[str]:
    folder.mkdir()
    (folder / "PKG-INFO").write_text(f"Name: x\nRequires-Dist: {name}\n")
    return list(_requirements(folder, tests=False))


def test_every_operator_makes_something_and_changes_one_place() -> None:
    source = SOURCE + "\n\ndef more(a, b=None):\n    c = 0\n    c = a\n    d = [1, 2, c]\n    for one in d:\n"
    source += "        b = one\n        c = b\n        if one and b or c:\n            return clamp(one, low=c)\n"
    source += "    return d[0] if a else 'none'\n"
    found = mutations(source, range(1, 200), random.Random(1))
    assert {mutation.operator for mutation in found} == set(OPERATORS)
    for mutation in found:
        wrong = mutation.apply(source)
        assert wrong != source
        assert wrong.startswith(source[: mutation.start]) and wrong.endswith(source[mutation.end :])
    assert sum(compiles(mutation.apply(source)) for mutation in found) > len(found) / 2


def test_lines_that_no_test_runs_are_left_alone() -> None:
    assert {mutation.function for mutation in mutations(SOURCE, range(4, 12), random.Random(1))} == {"clamp"}


def test_hidden_tests_leave_no_trace() -> None:
    text = (
        "import a\n\n\nclass Tests:\n    def test_one(self):\n        a.one()\n\n    @mark\n    def test_two(self):\n"
    )
    text += "        a.two()\n\n\ndef test_three():\n    pass\n\n\n# about four\ndef test_four():\n    pass\n"
    assert without_tests(text, ["t.py::Tests::test_two[x]", "t.py::test_three"]) == (
        "import a\n\n\nclass Tests:\n    def test_one(self):\n        a.one()\n\n"
        "# about four\ndef test_four():\n    pass\n"
    )
    empty = without_tests(text, ["t.py::Tests::test_two", "t.py::Tests::test_one"])
    assert empty is not None and "class Tests:\n    pass\n" in empty and "test_two" not in empty
    assert without_tests(text, ["t.py::Tests::test_inherited"]) is None
    assert without_tests("def broken(:\n", ["t.py::test_one"]) is None


def failure(test: str, line: int, **params: str) -> NotedFailure:
    return NotedFailure(f"tests/test_core.py::{test}", params, (line,), "AssertionError", "")


def line_of(words: str) -> int:
    return next(number for number, line in enumerate(TESTS.splitlines(), 1) if words in line)


def test_a_test_becomes_what_a_person_would_type() -> None:
    script = make_script(TESTS, failure("test_above", line_of("high=50")))
    assert script is not None
    assert script.text == "from tally.core import clamp\n\nassert clamp(99, high=50) == 50\n"
    assert (script.call, script.left, script.right) == ("clamp", "clamp(99, high=50)", "50")
    given = make_script(TESTS, failure("test_below[-5-0]", line_of("== expected"), value="-5", expected="0"))
    assert given is not None and given.check == "assert clamp(-5) == 0"


def test_unittest_and_expected_exceptions_become_plain_python() -> None:
    text = "import unittest\nfrom tally import parse\n\n\nclass T(unittest.TestCase):\n    def test_a(self):\n"
    text += "        x = parse('1')\n        self.assertEqual(x, 1)\n\n    def test_b(self):\n"
    text += "        with self.assertRaises(ValueError):\n            parse('')\n"
    equal, raising = (
        make_script(text, NotedFailure(f"t.py::T::{name}", {}, (line,), "AssertionError", ""))
        for name, line in (("test_a", 8), ("test_b", 11))
    )
    assert equal is not None and equal.text == "from tally import parse\n\nx = parse('1')\n\nassert x == 1\n"
    assert raising is not None and raising.raises == "ValueError"
    ast.parse(raising.text)
    assert "pytest" not in raising.text and "self" not in raising.text


def test_a_script_keeps_what_it_needs_and_nothing_else() -> None:
    text = "from .. import parse, other\n\n\ndef test_a(text, error):\n    x = other(1)\n    x = 'unread'\n"
    text += "    x = parse(text)\n    if error is None:\n        assert x == 1\n    else:\n        assert x == error\n"
    found = NotedFailure("src/tally/test/t.py::test_a[a]", {"text": "'1'", "error": "None"}, (9,), "AssertionError", "")
    script = make_script(text, found)
    assert script is not None and script.text == "from tally import parse\n\nx = parse('1')\n\nassert x == 1\n"


@pytest.mark.parametrize(
    "test",
    [
        "def test_a(tmp_path):\n    assert tmp_path == 1\n",
        "from .helpers import check\n\ndef test_a():\n    check(1)\n",
        "def check(x):\n    assert x\n\ndef test_a():\n    check(0)\n",
        "class T:\n    def test_a(self):\n        assert self.thing == 1\n",
    ],
)
def test_a_test_that_needs_more_than_itself_becomes_no_script(test: str) -> None:
    name = "t.py::T::test_a" if "class" in test else "t.py::test_a"
    line = len(test.splitlines())
    assert make_script(test, NotedFailure(name, {}, (line,), "AssertionError", "")) is None


def test_notes_from_inside_are_read_as_material() -> None:
    told = {"test": "t.py::test_a", "params": {"x": "1"}, "frames": [["/r/t.py", 3], ["/r/pkg.py", 9]]}
    good = json.dumps({**told, "type": "KeyError", "message": "'x'"})
    forged = ["not json", "[]", json.dumps({**told, "frames": 3}), json.dumps({"test": 1})]
    found = read_failures("\n".join([*forged, good]), "/r")
    assert found == {"t.py::test_a": NotedFailure("t.py::test_a", {"x": "1"}, (3,), "KeyError", "'x'")}


SCRIPT = FailingScript("from tally import clamp", "assert clamp(11) == 10", "clamp", "clamp(11)", "10")


def test_an_issue_about_a_value_says_what_was_called_expected_and_got() -> None:
    texts = {
        issue_with_code(ObservedFailure(SCRIPT, got="11", expected="10"), random.Random(seed)) for seed in range(20)
    }
    assert len(texts) == 3
    for text in texts:
        assert text.startswith("`clamp` returns `11` instead of `10`\n")
        assert "from tally import clamp" in text and "clamp(11)" in text


def test_an_issue_about_an_exception() -> None:
    raised = issue_with_code(ObservedFailure(SCRIPT, error="KeyError", message="'x'"), random.Random(1))
    assert raised.startswith("KeyError from `clamp`\n") and "KeyError: 'x'" in raised
    silent = issue_with_code(
        ObservedFailure(FailingScript("", "try: ...", "clamp", raises="ValueError")), random.Random(1)
    )
    assert "Expected: `ValueError`" in silent


def test_an_issue_without_an_example_tells_what_was_seen() -> None:
    seen = NotedFailure(
        "t.py::test_small_words[a]", {"word": "'a'"}, (1,), "AssertionError", "assert 'A' == 'a' at 0x7f00"
    )
    text = issue_without_code("tally", seen, "x = title(word)", "title")
    assert text.startswith("Problem with `title`: small words\n")
    assert "word = 'a'" in text and "assert 'A' == 'a'" in text and "0x7f" not in text


def test_an_issue_that_names_the_place_or_the_line_gives_it_away() -> None:
    changed = ["    if value > high:", "    pass"]
    assert gives_away("see tally/core.py", "tally/core.py", changed)
    assert gives_away("it says `if value  > high:` there", "tally/core.py", changed)
    assert not gives_away("clamp(11) is 11, and pass is a keyword", "tally/core.py", changed)


@pytest.mark.parametrize("name", ["", "-r file", "a b", "https://example.invalid/x", "../x", "a==1;b"])
def test_what_is_no_package_is_refused(name: str) -> None:
    with pytest.raises(TaskError, match="NAME==VERSION"):
        split(name)


def archive(path: Path, files: dict[str, str], links: dict[str, str] | None = None) -> Path:
    with tarfile.open(path, "w:gz") as made:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            made.addfile(member, io.BytesIO(text.encode()))
        for name, target in (links or {}).items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            made.addfile(member)
    return path


def test_an_archive_cannot_write_outside_or_bring_a_git_of_its_own(tmp_path: Path) -> None:
    files = {
        "p-1/ok.py": "ok",
        "p-1/../../evil.py": "evil",
        "/abs/evil.py": "top folder gone",
        "p-1/.git/config": "[core]",
        "p-1/sub/.gitattributes": "* filter=x",
        "p-1/.GIT/config": "[core]",
        "p-1/sub/.GitAttributes": "* filter=x",
        "p-1/way/through.py": "through a link",
    }
    into = tmp_path / "in" / "side"
    into.mkdir(parents=True)
    unpack(archive(tmp_path / "p-1.tar.gz", files, {"p-1/way": str(tmp_path), "p-1/link": "/etc/passwd"}), into)
    found = {str(path.relative_to(tmp_path / "in")) for path in (tmp_path / "in").rglob("*") if path.is_file()}
    assert {"side/ok.py", "side/way/through.py"} <= found
    assert all(name.startswith("side/") for name in found)
    assert not any(".git" in name.lower() for name in found) and not (into / "link").exists()
    assert not (tmp_path / "through.py").exists() and not (into / "way").is_symlink()


def test_a_build_leaves_no_source_of_another_package(tmp_path: Path) -> None:
    """It would be kept, and taken for that package's the next time."""
    for name in ("numpy-2.0.0.tar.gz", "a-1.0.tar.gz"):
        (tmp_path / name).touch()
    (tmp_path / "tally-9.9.tar.gz").symlink_to("/etc/passwd")
    assert sdist_of("tally", tmp_path) is None
    (tmp_path / "Tally-1.0.tar.gz").touch()
    assert sdist_of("tally", tmp_path) == tmp_path / "Tally-1.0.tar.gz"


def test_a_broken_archive_is_named(tmp_path: Path) -> None:
    (tmp_path / "p-1.tar.gz").write_bytes(b"\x1f\x8b not an archive")
    with pytest.raises(TaskError, match=r"p-1\.tar\.gz cannot be unpacked"):
        unpack(tmp_path / "p-1.tar.gz", tmp_path)
