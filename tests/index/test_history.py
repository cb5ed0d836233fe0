"""What commits up to a base changed and said."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scrout.index.history import MOST_FILES, Commit, History, read_history
from scrout.index.store import TableStore


class Repo:
    """A repository that is built commit by commit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "-q", "-b", "main")

    def git(self, *args: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgSign=false")
        done = subprocess.run(["git", *identity, *args], cwd=self.folder, check=True, capture_output=True)
        return done.stdout.decode().strip()

    def commit(self, message: str, *paths: str) -> str:
        for path in paths:
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_text(message)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "--allow-empty-message", "--cleanup=verbatim", "-m", message)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "repo")


@pytest.fixture
def store(tmp_path: Path) -> TableStore:
    return TableStore(tmp_path / "store")


def told(repo: Repo, commit: str, store: TableStore) -> list[tuple[str, tuple[str, ...]]]:
    history = read_history(repo.folder / ".git", commit, store)
    return [(commit.message.strip(), commit.paths) for commit in history.commits]


def test_only_ancestors_are_told_newest_first_and_without_merges(repo: Repo, store: TableStore) -> None:
    repo.commit("first", "a.py")
    repo.git("checkout", "-q", "-b", "side")
    repo.commit("merged", "b.py")
    repo.git("checkout", "-q", "main")
    repo.commit("second", "a.py")
    repo.git("merge", "-q", "-m", "a merge", "side")
    base = repo.commit("base", "a.py", "c.py")
    repo.git("tag", "later", repo.commit("later", "a.py"))
    repo.git("checkout", "-q", "-b", "other", "HEAD~3")
    repo.commit("elsewhere", "a.py")
    history = told(repo, base, store)
    assert history[0] == ("base", ("a.py", "c.py"))
    assert sorted(history[1:]) == [("first", ("a.py",)), ("merged", ("b.py",)), ("second", ("a.py",))]
    assert history.index(("second", ("a.py",))) < history.index(("first", ("a.py",)))


def test_a_sweep_carries_no_paths(repo: Repo, store: TableStore) -> None:
    repo.commit("many", *(f"{n:02}.py" for n in range(MOST_FILES)))
    base = repo.commit("too many", *(f"{n:02}.py" for n in range(MOST_FILES + 1)))
    (_, swept), (_, many) = told(repo, base, store)
    assert (swept, len(many)) == ((), MOST_FILES)


def test_odd_names_and_messages_are_kept_apart(repo: Repo, store: TableStore) -> None:
    odd = ("\x01a", "\x01b\x02c", "\n", "a\nb", "b c", "größe", 'quo"te')
    repo.commit("", "plain")
    repo.commit("nothing")
    repo.commit("\x01\x02 message\n\nbody\x02plain\n", "plain")
    base = repo.commit("odd", *odd)
    assert told(repo, base, store) == [
        ("odd", tuple(sorted(odd))),
        ("\x01\x02 message\n\nbody\x02plain", ("plain",)),
        ("nothing", ()),
        ("", ("plain",)),
    ]


def test_a_name_that_is_no_text_does_not_end_the_reading(repo: Repo, store: TableStore) -> None:
    (repo.folder / "x\udcff.py").write_text("x")
    base = repo.commit("a message", "y.py")
    assert told(repo, base, store) == [("a message", ("x\ufffd.py", "y.py"))]


@pytest.mark.parametrize("damage", [b"", b"foreign", "cut"])
def test_a_damaged_record_is_made_again(repo: Repo, store: TableStore, damage: bytes | str) -> None:
    base = repo.commit("a message", "a.py")
    path = store.path(f"{base}.log")
    told(repo, base, store)
    whole = path.read_bytes()
    path.write_bytes(damage if isinstance(damage, bytes) else whole[:-3])
    assert told(repo, base, store) == [("a message", ("a.py",))]
    assert path.read_bytes() == whole


def test_what_is_stored_needs_no_git(repo: Repo, store: TableStore, tmp_path: Path) -> None:
    base = repo.commit("a message", "a.py")
    told(repo, base, store)
    assert [own.paths for own in read_history(tmp_path / "gone", base, store).commits] == [("a.py",)]
    assert read_history(repo.folder / ".git", "0" * 40, store) == History()


def test_a_shallow_clone_is_not_the_last_word(repo: Repo, store: TableStore, tmp_path: Path) -> None:
    repo.commit("old", "a.py")
    base = repo.commit("new", "a.py", "b.py")
    repo.git("clone", "-q", "--bare", "--depth=1", f"file://{repo.folder}", str(tmp_path / "shallow.git"))
    assert len(read_history(tmp_path / "shallow.git", base, store).commits) == 1
    assert [message for message, _ in told(repo, base, store)] == ["new", "old"]


def test_commits_are_found_by_path_and_by_words() -> None:
    history = History((Commit("fix the parser", ("a", "b")), Commit("docs", ("c",)), Commit("parser: parser", ("a",))))
    assert history.touching == {"a": [0, 2], "b": [0], "c": [1]}
    scores = history.bm25({"parser": 1.0, "unknown": 1.0})
    assert scores[2] > scores[0] > scores[1] == 0
    assert History().bm25({"parser": 1.0}).tolist() == []
