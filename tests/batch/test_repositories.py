"""Rows and their clones: a path, a folder of clones, a mirror that is cloned once, and what cannot be had."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scrout.base import TaskError
from scrout.batch.repositories import FetchError
from scrout.batch.tasks import Repositories, TaskRow
from scrout.config.folders import cache_folder
from scrout.sandbox.workspace import make_base

if TYPE_CHECKING:
    from conftest import MakeRepo

ABSENT = "f" * 40


def run_git(repo: Path, *args: str) -> bytes:
    identity = ("-c", "user.name=Test", "-c", "user.email=test@localhost", "-c", "commit.gpgSign=false")
    return subprocess.run(["git", *identity, *args], cwd=repo, check=True, capture_output=True).stdout


def row(repo: str | Path, commit: str = "HEAD", name: str = "task-1") -> TaskRow:
    return TaskRow(name, "It fails.", str(repo), commit, None, "tasks.jsonl:7")


def head(repo: Path) -> str:
    return run_git(repo, "rev-parse", "HEAD").decode().strip()


def commit_again(repo: Path) -> str:
    run_git(repo, "commit", "-q", "--allow-empty", "-m", "later")
    return head(repo)


def test_a_path_is_used_as_it_is(make_repo: MakeRepo) -> None:
    repo = make_repo({"a.py": "a = 1\n"})
    first = head(repo)
    second = commit_again(repo)
    found = Repositories(())
    assert found.task(row(repo)).base_commit == second
    task = found.task(row(repo, first[:10]))
    assert (task.id, task.text, task.repo, task.base_commit) == ("task-1", "It fails.", repo, first)


@pytest.mark.parametrize("name", ["owner/name", "owner__name", "owner+name", "name"])
def test_a_clone_is_found_under_any_of_its_names(make_repo: MakeRepo, tmp_path: Path, name: str) -> None:
    repo = make_repo({"a.py": "a = 1\n"}, f"clones/{name}")
    (tmp_path / "other").mkdir()
    task = Repositories([tmp_path / "other", tmp_path / "clones"]).task(row("owner/name"))
    assert task.repo == repo


def test_a_mirror_is_cloned_once_and_its_commits_can_be_worked_from(make_repo: MakeRepo, tmp_path: Path) -> None:
    repo = make_repo({"a.py": "a = 1\n"}, "mirror/owner/name")
    found = Repositories((), url=f"{tmp_path}/mirror/{{repo}}")
    head_commit = head(repo)
    task = found.task(row("owner/name", head_commit))
    assert task.repo.parent == cache_folder() / "repositories" and task.repo.name.startswith("owner__name-")
    assert make_base(task.repo, task.base_commit).read("a.py") == b"a = 1\n"
    shutil.rmtree(tmp_path / "mirror")
    assert Repositories((), url=f"{tmp_path}/mirror/{{repo}}").task(row("owner/name", head_commit)) == task
    with pytest.raises(FetchError, match="cannot be fetched"):  # whatever HEAD was, nobody can say what it is now
        Repositories((), url=f"{tmp_path}/mirror/{{repo}}").task(row("owner/name"))


def test_another_mirror_is_another_clone(make_repo: MakeRepo, tmp_path: Path) -> None:
    commits = []
    for number in (1, 2):
        repo = make_repo({"a.py": f"a = {number}\n"}, f"mirror{number}/owner/name")
        task = Repositories((), url=f"{tmp_path}/mirror{number}/{{repo}}").task(row("owner/name"))
        assert task.base_commit == head(repo)
        commits.append(task.base_commit)
        commit_again(repo)
        assert Repositories((), url=f"{tmp_path}/mirror{number}/{{repo}}").task(row("owner/name")).base_commit == head(
            repo
        )
    assert len(set(commits)) == 2


def test_a_commit_that_is_newer_than_the_clone_is_fetched(make_repo: MakeRepo, tmp_path: Path) -> None:
    repo = make_repo({"a.py": "a = 1\n"}, "mirror/owner/name")
    found = Repositories((), url=f"{tmp_path}/mirror/{{repo}}")
    found.task(row("owner/name"))
    later = commit_again(repo)
    assert found.task(row("owner/name", later)).base_commit == later
    with pytest.raises(TaskError, match=rf"tasks\.jsonl:7, task-1: commit {ABSENT} .*cannot be fetched"):
        found.task(row("owner/name", ABSENT))


def test_a_bare_clone_of_a_folder_is_cloned_from(make_repo: MakeRepo, tmp_path: Path) -> None:
    repo = make_repo({"a.py": "a = 1\n"})
    run_git(tmp_path, "clone", "-q", "--bare", str(repo), str(tmp_path / "clones" / "owner+name.git"))
    task = Repositories([tmp_path / "clones"]).task(row("owner/name", head(repo)))
    assert make_base(task.repo, task.base_commit).read("a.py") == b"a = 1\n"


def test_many_threads_make_one_clone(make_repo: MakeRepo, tmp_path: Path) -> None:
    make_repo({"a.py": "a = 1\n"}, "mirror/owner/name")
    start = threading.Barrier(4)

    def ask(number: int) -> Path:
        start.wait()
        return Repositories((), url=f"{tmp_path}/mirror/{{repo}}").task(row("owner/name", name=f"task-{number}")).repo

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(ask, range(4)))) == 1
    clone, lock = sorted(path.name for path in (cache_folder() / "repositories").iterdir())
    assert clone.startswith("owner__name-") and lock == f"{clone}.lock"


@pytest.mark.parametrize(
    ("repo", "url", "words"),
    [
        ("owner/name", "", "owner/name was not found .*URL with {repo}"),
        ("owner/name", "https://example.invalid/name", "has no {repo}"),
        ("owner/name", "/nowhere/{repo}", "cannot be fetched from /nowhere/owner/name: .*does not exist"),
        ("owner/name", "ext::sh -c 'touch /tmp/{repo}'", "cannot be fetched.*not allowed"),
        ("../../etc", "/nowhere/{repo}", "neither a folder nor owner/name"),
        ("--upload-pack=x/y z", "/nowhere/{repo}", "neither a folder nor owner/name"),
        ("/nowhere/at/all", "", "not a folder you can enter"),
    ],
)
def test_what_cannot_be_had_names_the_row(repo: str, url: str, words: str) -> None:
    with pytest.raises(TaskError, match=rf"(?s)^tasks\.jsonl:7, task-1: .*{words}"):
        Repositories((), url=url).task(row(repo))


def test_a_missing_commit_of_a_users_clone_is_left_to_the_user(make_repo: MakeRepo) -> None:
    repo = make_repo({"a.py": "a = 1\n"})
    with pytest.raises(TaskError, match=rf"commit {ABSENT} is not in .*git fetch origin"):
        Repositories(()).task(row(repo, ABSENT))


def test_a_password_of_the_address_is_not_shown() -> None:
    with pytest.raises(TaskError) as caught:
        Repositories((), url="https://me:hunter22222@127.0.0.1:9/{repo}").task(row("owner/name"))
    assert "hunter22222" not in str(caught.value)


def test_a_fetch_that_hangs_is_ended_with_its_helpers(tmp_path: Path) -> None:
    """A server that takes the connection and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/{{repo}}"
        with pytest.raises(TaskError, match="took more than 1 seconds"):
            Repositories((), url=url, timeout_s=1).task(row("owner/name"))
    assert [path.suffix for path in (cache_folder() / "repositories").iterdir()] == [".lock"]
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if url.encode()[:25] in _bytes(path)]


def _bytes(path: Path) -> bytes:
    try:
        # Our own arguments do not hold the address.
        return b"" if path.parent.name == str(os.getpid()) else path.read_bytes()
    except OSError:
        return b""
