"""The ranking, its cut and its regions, on small real repositories; no sandbox is needed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.index.repository import Repository, read_repository
from scrout.scout.recon.ranker import load_model
from scrout.scout.recon.search import SHORTLIST, Ranked, cut, examine, judge, search
from scrout.scout.recon.signals import Clue

FILES = {
    "app/__init__.py": "",
    "app/parser.py": "import re\n\n\ndef parse_header(line):\n    return re.split(':', line)\n\n\ndef other():\n    0",
    "app/render.py": "from app.parser import parse_header\n\n\nclass Page:\n    def show(self):\n        return 1\n",
    "app/mailer.py": "def deliver(message):\n    raise RuntimeError('the relay refused the message')\n",
    "app/billing.py": "def invoice(customer):\n    return customer\n",
    "tests/test_parser.py": "from app.parser import parse_header\n\n\ndef test_it():\n    parse_header('a')\n",
    "docs/parser.md": "The parser reads a header line. parse_header parse_header\n",
    "CHANGELOG.md": "parser header line fixed\n",
}


def git(repo: Path, *args: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    done = subprocess.run(["git", *identity, *args], cwd=repo, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(repo: Path, files: dict[str, str], message: str) -> str:
    for name, content in files.items():
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(content)
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", message)
    return git(repo, "rev-parse", "HEAD")


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "-q")
    commit(folder, FILES, "start")
    return folder


@pytest.fixture
def repository(repo: Path) -> Repository:
    return read_repository(repo / ".git", "HEAD")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("parse_header loses the value when the header line has two colons", "app/parser.py"),
        ("RuntimeError: the relay refused the message", "app/mailer.py"),
        ("`Page.show` returns the wrong number", "app/render.py"),
        ("The invoice of app/billing.py drops the customer", "app/billing.py"),
    ],
)
def test_the_file_that_the_text_is_about_comes_first(repository: Repository, text: str, path: str) -> None:
    found = search(text, repository)
    assert found.ranked[0].path == found.named[0].path == path
    assert found.named[0].clues


def test_functions_are_ranked_with_their_lines(repository: Repository) -> None:
    found = search("parse_header loses the value when the header line has two colons", repository)
    best = found.functions[0]
    assert (best.path, best.name, best.first, best.last) == ("app/parser.py", "parse_header", 4, 5)
    assert (4, 5) in found.named[0].regions


def test_a_spelled_out_path_that_does_not_exist_is_a_new_file(repository: Repository) -> None:
    text = "Add app/templates_new.py with a Page, next to app/render.py; not /etc/passwd, ../../x.py or nowhere/y.py"
    assert search(text, repository).new_files == ("app/templates_new.py",)


def test_past_commits_that_read_like_the_issue_speak_for_what_they_changed(repo: Path) -> None:
    before = search("dunning letters go out twice", read_repository(repo / ".git", "HEAD"))
    commit(repo, {"app/billing.py": FILES["app/billing.py"] + "\n\nX = 1\n"}, "Fix dunning letters")
    commit(repo, {"notes.txt": "nothing\n"}, "Unrelated")
    after = search("dunning letters go out twice", read_repository(repo / ".git", "HEAD"))
    assert after.ranked[0].path == "app/billing.py"
    probability = {file.path: file.confidence for file in before.ranked}
    assert after.ranked[0].confidence > probability["app/billing.py"]


def test_a_later_commit_changes_nothing(repo: Path) -> None:
    base = git(repo, "rev-parse", "HEAD")
    before = search("the relay refused the message", read_repository(repo / ".git", base))
    commit(repo, {"app/mailer.py": "def deliver(m):\n    return m\n"}, "the relay refused the message: fixed in mailer")
    assert search("the relay refused the message", read_repository(repo / ".git", base)) == before


@pytest.mark.slow
def test_every_process_finds_the_same(repo: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from scrout.index.repository import read_repository\n"
        "from scrout.scout.recon.search import search\n"
        "print(search('parse_header and `Page` fail: header line', read_repository(Path(sys.argv[1]), 'HEAD')))\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script, str(repo / ".git")],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(outputs) == 1


def test_what_ran_is_named_also_where_it_is_on_no_shortlist(repo: Path) -> None:
    decoys = {f"app/relay_{n}.py": f"def relay_{n}(message):\n    return message\n" for n in range(SHORTLIST + 10)}
    commit(repo, {**decoys, "zz/q.py": "def q():\n    return 1 / 0\n"}, "more")
    repository = read_repository(repo / ".git", "HEAD")
    examined = examine("relay message relay", repository, load_model().shortlist)
    assert "zz/q.py" not in [repository.paths[row] for row in examined.rows.tolist()]
    raised = Clue("raised", "zz/q.py", "the exception passed line 2", 0.84, (1, 2))
    first = judge(examined, repository, 5, load_model(), [raised]).ranked[0]
    assert (first.path, first.confidence, first.regions) == ("zz/q.py", 0.84, ((1, 2),))


def test_a_repository_without_files_gives_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "x")
    found = search("anything", read_repository(tmp_path / ".git", "HEAD"))
    assert (found.ranked, found.named, found.functions) == ((), (), ())


@given(st.text(max_size=400))
def test_any_text_can_be_searched_for(text: str) -> None:
    found = search(text, _SHARED.repository())
    assert all(0 <= file.confidence <= 1 for file in found.ranked)
    assert 1 <= len(found.named) <= 5


class _Shared:
    """One repository for all examples of a property test."""

    def __init__(self) -> None:
        self._read: Repository | None = None

    def repository(self) -> Repository:
        if self._read is None:
            folder = Path(tempfile.mkdtemp())
            git(folder, "init", "-q")
            commit(folder, FILES, "start")
            self._read = read_repository(folder / ".git", "HEAD")
        return self._read


_SHARED = _Shared()


@given(st.lists(st.floats(0, 1), max_size=30), st.integers(1, 8))
def test_the_cut_promises_the_most(probabilities: list[float], most: int) -> None:
    ranked = [Ranked(str(row), probability, ()) for row, probability in enumerate(sorted(probabilities, reverse=True))]
    named = cut(ranked, most)
    expected = max(1.0, sum(probabilities))
    promise = [
        2 * sum(file.confidence for file in ranked[:k]) / (k + expected) for k in range(1, len(ranked[:most]) + 1)
    ]
    assert named == tuple(ranked[: len(named)]) and len(named) <= most
    assert bool(named) == bool(ranked)
    if named:
        assert promise[len(named) - 1] == pytest.approx(max(promise))


def test_sure_files_are_all_named_and_doubtful_ones_are_not() -> None:
    sure = [Ranked(name, 0.9, ()) for name in "abc"]
    doubtful = [Ranked(name, 0.05, ()) for name in "defgh"]
    assert cut([*sure, *doubtful], 8) == tuple(sure)


def test_the_weights_know_every_signal_and_no_other(repository: Repository) -> None:
    model = load_model()
    examined = examine("parse_header", repository, model.shortlist)
    assert model.shortlist.weights.keys() == examined.signals.values.keys()
    assert model.files.weights.keys() == examined.values.keys()
    assert model.functions.weights.keys() == examined.ranked_functions.values.keys() | {"file"}


def test_a_traceback_names_its_functions_though_their_lines_have_moved(repo: Path) -> None:
    code = "".join(f"def step_{name}(value):\n    return value\n\n\n" for name in ("one", "two", "three"))
    commit(repo, {"app/steps.py": code}, "steps")
    text = 'It fails.\n\n  File "/x/app/steps.py", line 950, in step_three\n'
    found = search(text, read_repository(repo / ".git", "HEAD"))
    assert (found.functions[0].path, found.functions[0].name) == ("app/steps.py", "step_three")


def test_functions_are_those_of_code_and_not_of_tests(repository: Repository) -> None:
    found = search("test_it fails: parse_header splits the wrong way", repository)
    assert found.functions
    assert all(function.path.startswith("app/") for function in found.functions)
