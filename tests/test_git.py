"""git as a subprocess: what it prints, what a user is told when it fails, and that nothing foreign has a say in it."""

from __future__ import annotations

import ast
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.conftest import MakeRepo, assert_linear, run_git

import scrout
import scrout.git
from scrout.base import TaskError
from scrout.git import GitDir, GitError, find_repository, make_git_dir, repository_at, version

Plant = Callable[[Path, Path], None]
"""Makes a repository hostile, given also a private one of the same user."""


def test_output_is_bytes_or_stripped_text(make_repo: MakeRepo) -> None:
    with find_repository(make_repo({"a": "x"})).borrowed() as git:
        assert git("cat-file", "blob", "HEAD:a") == b"x"
        assert git.text("rev-parse", "--abbrev-ref", "HEAD") == "main"
        assert git("hash-object", "--stdin", stdin=b"x") == git("rev-parse", "HEAD:a")


def test_a_failure_says_what_git_said(make_repo: MakeRepo) -> None:
    with (
        find_repository(make_repo({"a": "x"})).borrowed() as git,
        pytest.raises(GitError, match=r"git cat-file in .*nowhere"),
    ):
        git("cat-file", "blob", "HEAD:nowhere")


def test_a_missing_folder_is_not_a_missing_git(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"git cannot run in .*missing"):
        GitDir(tmp_path / "missing")("status")


def test_a_missing_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TaskError, match="Install git"):
        version()


def test_a_ctrl_c_of_the_terminal_does_not_reach_git_itself(tmp_path: Path) -> None:
    """It would die of it before scrout has noticed, and be told as a failure of git's."""
    make_git_dir(tmp_path / "git")
    group = GitDir(tmp_path / "git")("-c", "alias.group=!ps -o pgid= -p $$", "group")
    assert int(group) != os.getpgrp()


def test_a_signal_that_was_meant_for_scrout_is_not_an_error_of_git(tmp_path: Path) -> None:
    """It can reach git before that has a group of its own."""
    make_git_dir(tmp_path / "git")
    # What outlives git must not hold its output open: git may die before it knows that it has a child to end.
    wait = "exec sleep 60 > /dev/null 2>&1"
    once = f"!test -e {tmp_path}/tried || {{ touch {tmp_path}/tried; kill -INT $PPID; {wait}; }}; echo done"
    assert GitDir(tmp_path / "git")("-c", f"alias.once={once}", "once") == b"done\n"


def test_no_variable_of_the_caller_reaches_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("GIT_EXEC_PATH", "/nowhere")
    make_git_dir(tmp_path / "git")
    seen = GitDir(tmp_path / "git")("-c", "alias.seen=!env", "seen").decode()
    assert "secret" not in seen and "GIT_EXEC_PATH=/nowhere" not in seen and "GIT_ALLOW_PROTOCOL=\n" in seen


def test_a_repository_makes_git_say_no_more_than_fits(make_repo: MakeRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of attributes that git does not understand is told with the path of its file, which may be long."""
    monkeypatch.setattr(scrout.git, "_MOST_SAID_BYTES", 1000)
    heard: list[bytearray] = []
    hear = scrout.git._heard

    @contextmanager
    def listening(process: scrout.git.Process) -> Iterator[bytearray]:
        with hear(process) as said:
            heard.append(said)
            yield said

    monkeypatch.setattr(scrout.git, "_heard", listening)
    folder = "/".join(["d" * 200] * 10)
    repo = make_repo({f"{folder}/.gitattributes": "* /\n" * 1000, f"{folder}/a": "x\n"})
    GitDir.of(repo)("reset", "-q", "--hard", "HEAD")  # a pipe that nobody reads would stop it
    (repo / folder / "a").unlink()
    GitDir.of(repo)("reset", "-q", "--hard", "HEAD")
    assert len(heard[-1]) == 1000
    assert (repo / folder / "a").exists()


def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    make_git_dir(tmp_path / "git")
    with pytest.raises(GitError, match="took more than"):
        GitDir(tmp_path / "git")("-c", "alias.wait=!sleep 60", "wait", timeout_s=0.2)


def test_every_command_has_a_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrout.git, "LOCAL_S", 0.2)
    make_git_dir(tmp_path / "git")
    git = GitDir(tmp_path / "git")
    with pytest.raises(GitError, match="took more than"), git.start("-c", "alias.wait=!sleep 60", "wait") as process:
        assert process.stdout is not None
        process.stdout.read()
    with pytest.raises(GitError, match="took more than"):
        git("-c", "alias.wait=!sleep 60", "wait")


def test_no_protocol_is_allowed_unless_it_is_named(make_repo: MakeRepo, tmp_path: Path) -> None:
    repo = make_repo({"a": "x"})
    make_git_dir(tmp_path / "git")
    with pytest.raises(GitError, match="not allowed"):
        GitDir(tmp_path / "git")("fetch", "-q", f"file://{repo}", "main")
    GitDir(tmp_path / "git", protocols="file")("fetch", "-q", f"file://{repo}", "main")


def test_a_new_directory_is_one_as_git_makes_it(tmp_path: Path) -> None:
    make_git_dir(tmp_path / ".git", sha256=True)
    (tmp_path / "a").write_text("x")
    run_git(tmp_path, "add", "a")
    run_git(tmp_path, "commit", "-q", "-m", "one")
    assert len(find_repository(tmp_path).head()) == 64
    run_git(tmp_path, "fsck", "--strict")


def test_nothing_else_starts_git() -> None:
    """Lists that begin with "git" in other modules are for the sandbox, so these start no process of the host's."""
    root = Path(scrout.__file__).parent
    guilty = []
    for path in root.rglob("*.py"):
        text = path.read_text()
        if '"git"' not in text or "subprocess" not in text:  # most of them, and reading a tree takes its time
            continue
        tree = ast.parse(text)
        starts = any(
            isinstance(node, (ast.Import, ast.ImportFrom))
            and any(name.name.partition(".")[0] == "subprocess" for name in node.names)
            for node in ast.walk(tree)
        )
        named = any(
            isinstance(node, (ast.List, ast.Tuple))
            and node.elts
            and isinstance(node.elts[0], ast.Constant)
            and node.elts[0].value == "git"
            for node in ast.walk(tree)
        )
        if starts and named and path != root / "git.py":
            guilty.append(str(path.relative_to(root)))
    assert guilty == []


# Where a repository is


def test_references_are_found_wherever_git_keeps_them(make_repo: MakeRepo, tmp_path: Path) -> None:
    repo = make_repo({"a": "x"})
    head = run_git(repo, "rev-parse", "HEAD").decode().strip()
    assert find_repository(repo).head() == head
    run_git(repo, "pack-refs", "--all")
    assert find_repository(repo).head() == head
    run_git(repo, "checkout", "-q", "--detach")
    assert find_repository(repo).head() == head
    run_git(repo, "worktree", "add", "-q", str(tmp_path / "side"), "-b", "side")
    found = find_repository(tmp_path / "side")
    assert found.head() == head and found.common == repo / ".git"
    run_git(tmp_path, "clone", "-q", "--bare", str(repo), str(tmp_path / "bare"))
    with repository_at(tmp_path / "bare").borrowed() as git:
        assert git.text("rev-parse", "HEAD") == head


def test_the_git_directory_of_a_submodule(make_repo: MakeRepo) -> None:
    inner, outer = make_repo({"x": "x"}, "inner"), make_repo({"y": "y"}, "outer")
    run_git(outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "libs/inner")
    found = find_repository(outer / "libs" / "inner")
    assert found.work_tree == outer / "libs" / "inner"
    assert found.head() == run_git(inner, "rev-parse", "HEAD").decode().strip()


def test_a_configuration_is_read_in_linear_time(make_repo: MakeRepo) -> None:
    repo = make_repo({"a": "x"})

    def read(blanks: str) -> None:
        (repo / ".git" / "config").write_text(f'[remote "origin"]\n\turl = a{blanks}b\n')
        assert find_repository(repo).remote_url("origin") == f"a{blanks}b"

    assert_linear(read, " ", 5_000)


def test_a_folder_in_a_repository_names_no_submodule_of_it(make_repo: MakeRepo) -> None:
    """Such a folder may have been downloaded, and the submodule is private."""
    inner, outer = make_repo({"x": "private"}, "inner"), make_repo({"y": "y"}, "outer")
    run_git(outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "libs/in; ner")
    assert find_repository(outer / "libs" / "in; ner").head()
    download = outer / "download" / "hostile"
    download.mkdir(parents=True)
    (download / ".git").write_text("gitdir: ../../.git/modules/libs/in; ner\n")
    with pytest.raises(TaskError, match="knows nothing of it"):
        find_repository(download)


def _gitfile(repo: Path, private: Path) -> None:
    (repo / ".git").rename(repo / "old")
    (repo / ".git").write_text(f"gitdir: {private}/.git\n")


def _gitfile_through_a_link(repo: Path, private: Path) -> None:
    (repo / ".git").rename(repo / "old")
    (repo / "store").symlink_to(private / ".git")
    (repo / ".git").write_text("gitdir: store\n")


def _forged_work_tree(repo: Path, private: Path) -> None:
    """All that a linked work tree has, but for the main one, which is somebody else's."""
    (repo / ".git").rename(repo / "old")
    linked = repo / "old" / "worktrees" / "x"
    linked.mkdir(parents=True)
    (linked / "HEAD").write_text("ref: refs/heads/main\n")
    (linked / "gitdir").write_text(f"{repo}/.git\n")
    (linked / "commondir").write_text(f"{private}/.git\n")
    (repo / ".git").write_text(f"gitdir: {linked}\n")
    for name in ("objects", "refs"):
        (repo / "old" / name).rename(repo / "old" / f"{name}-away")


def _link(repo: Path, private: Path) -> None:
    (repo / ".git").rename(repo / "old")
    (repo / ".git").symlink_to(private / ".git")


def _linked(name: str) -> Plant:
    def plant(repo: Path, private: Path) -> None:
        path = repo / ".git" / name
        if path.exists():
            path.rename(repo / "old")
        path.symlink_to(private / ".git" / name)

    return plant


def _alternates(repo: Path, private: Path) -> None:
    (repo / ".git" / "objects" / "info").mkdir(exist_ok=True)
    (repo / ".git" / "objects" / "info" / "alternates").write_text(f"{private}/.git/objects\n")


def _large_alternates(repo: Path, private: Path) -> None:
    """Larger than what is read of a file, with holes: git reads the line all the same."""
    _alternates(repo, private)
    with (repo / ".git" / "objects" / "info" / "alternates").open("r+b") as file:
        file.truncate(300_000_000)


def _common(repo: Path, private: Path) -> None:
    (repo / ".git" / "commondir").write_text(f"{private}/.git\n")
    (repo / ".git" / "refs" / "heads" / "main").unlink()


@pytest.mark.parametrize(
    "plant",
    [
        _gitfile,
        _gitfile_through_a_link,
        _forged_work_tree,
        _link,
        _alternates,
        _large_alternates,
        _common,
        *map(_linked, ("HEAD", "refs", "refs/heads", "refs/heads/main", "objects", "objects/pack", "objects/info")),
    ],
)
def test_no_other_repository_of_the_machine_is_read(make_repo: MakeRepo, plant: Plant) -> None:
    repo, private = make_repo({"a": "x"}), make_repo({"secret": "private"}, "private")
    run_git(private, "repack", "-a", "-d", "-q")
    run_git(private, "update-server-info")
    head = run_git(private, "rev-parse", "HEAD").decode().strip()
    (private / ".git" / "refs" / "heads" / "main").write_text(f"{head}\n")
    plant(repo, private)
    try:
        found = find_repository(repo)
        with found.borrowed() as git:
            assert found.head() != head
            with pytest.raises(GitError):
                git("cat-file", "-p", head)
    except TaskError as error:
        assert "private" not in str(error).replace(str(private), "")


@pytest.mark.parametrize("name", ["real\0/x", "loop/x"])
@pytest.mark.parametrize("file", [".git", "gitdir", "worktree"])
def test_a_name_that_leads_nowhere_is_no_bug(make_repo: MakeRepo, file: str, name: str) -> None:
    """A path with a zero byte, or a link that leads to itself."""
    repo = make_repo({"a.txt": "x\n"})
    at = repo
    if file == "worktree":
        at = repo / "sub"
        at.mkdir()
        own = repo / ".git" / "modules" / "sub"
        shutil.copytree(repo / ".git", own, ignore=shutil.ignore_patterns("modules"))
        (own / "config").write_text(f"[core]\n\tworktree = {name}\n")
        (at / ".git").write_text("gitdir: ../.git/modules/sub\n")
    else:
        (repo / ".git").rename(repo / "real")
        own = repo / "real" / "worktrees" / "x" if file == "gitdir" else repo
        own.mkdir(parents=True, exist_ok=True)
        (own / "gitdir").write_text(name)
        (repo / ".git").write_text(f"gitdir: {'real/worktrees/x' if file == 'gitdir' else name}\n")
    (own / "loop").symlink_to("loop")
    with pytest.raises(TaskError, match="knows nothing of it"):
        find_repository(at)


def test_a_line_break_in_a_path_adds_no_other_repository(make_repo: MakeRepo) -> None:
    repo = make_repo({"a": "x"}, "a\nb")
    with pytest.raises(TaskError, match="line break"), find_repository(repo).borrowed():
        pass


def test_a_folder_that_looks_like_a_repository_is_none(make_repo: MakeRepo) -> None:
    repo = make_repo(
        {"b/HEAD": "ref: refs/heads/x\n", "b/refs/x": "", "b/objects/x": "", "b/config": "[core]\nbare = true\n"}
    )
    for path in (repo / "b", repo / "b" / "refs", repo / ".git", repo / ".git" / "objects"):
        with pytest.raises(TaskError, match=r"bare repository or looks like one.*Clone it"):
            find_repository(path)
