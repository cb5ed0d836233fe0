"""Bases hold a commit and its ancestors and nothing else; workspaces are written and read without leaving them."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.base import SandboxError, TaskError
from scrout.config.folders import cache_folder
from scrout.sandbox.task_sandbox import TaskSandbox
from scrout.sandbox.workspace import Workspaces, count_changed, find_source, make_base

AS_ROOT = os.geteuid() == 0


def git(repo: Path, *args: str) -> str:
    identity = ("-c", "user.name=Test", "-c", "user.email=test@localhost")
    done = subprocess.run(["git", *identity, *args], cwd=repo, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(repo: Path, name: str, content: str) -> str:
    (repo / name).write_text(content)
    git(repo, "add", "--all")
    git(repo, "commit", "-q", "-m", content)
    return git(repo, "rev-parse", "HEAD")


def digest(folder: Path) -> str:
    """Of every name, mode, link and byte below a folder."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        entry = path.lstat()
        found.update(f"{path}\0{entry.st_mode}\0{entry.st_mtime_ns}\0".encode(errors="surrogateescape"))
        if path.is_symlink():
            found.update(str(path.readlink()).encode())
        elif path.is_file():
            found.update(path.read_bytes())
    return found.hexdigest()


# Sources


def test_the_top_is_found_from_a_subfolder(make_repo) -> None:
    repo = make_repo({"a/b/c.txt": "x"})
    source = find_source(repo / "a" / "b")
    assert source.repo == repo.resolve()
    assert source.head == git(repo, "rev-parse", "HEAD")
    assert count_changed(source) == 0


def test_changes_are_counted(make_repo) -> None:
    repo = make_repo({"a.txt": "x", ".gitignore": "*.log"})
    (repo / "a.txt").write_text("y")
    (repo / "new.txt").write_text("y")
    (repo / "x.log").write_text("y")
    assert count_changed(find_source(repo)) == 2


def test_a_change_within_the_second_in_which_git_looked_is_counted(make_repo) -> None:
    """Of the same size: only the time of the index itself tells git to read the file."""
    repo = make_repo({"a.txt": "x"})
    file = repo / "a.txt"
    for _ in range(100):
        file.write_text("x")
        git(repo, "add", "a.txt")
        added = file.stat()
        file.write_text("y")
        if int(added.st_mtime) == int(file.stat().st_mtime):
            break
    while int(time.time()) == int(file.stat().st_mtime):
        time.sleep(0.02)
    assert count_changed(find_source(repo)) == 1


def test_submodules_are_listed(make_repo) -> None:
    inner, outer = make_repo({"x": "x"}, "inner"), make_repo({"y": "y"}, "outer")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "libs/in ner")
    git(outer, "commit", "-q", "-m", "submodule")
    source = find_source(outer)
    base = make_base(source.repo, source.head)
    assert base.submodules == ("libs/in ner",) and base.read("y") == b"y"
    assert make_base(source.repo, source.head, dirty=True).read("y") == b"y"


def test_what_is_not_a_repository_is_refused(make_repo, tmp_path: Path) -> None:
    repo = make_repo({"file": "x"})
    empty = tmp_path / "empty"
    empty.mkdir()
    unborn = tmp_path / "unborn"
    git(tmp_path, "init", "-q", str(unborn))
    bare = tmp_path / "bare"
    git(tmp_path, "clone", "-q", "--bare", str(repo), str(bare))
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path, words in [
        (empty, "not a git repository.*git init"),
        (unborn, "no commits yet.*Make a first commit"),
        (bare, "bare repository.*Clone it"),
        (repo / "file", "not a folder.*--repo"),
        (tmp_path / "missing", "not a folder.*--repo"),
        (loop, "not a folder.*--repo"),
    ]:
        with pytest.raises(TaskError, match=words):
            find_source(path)


def test_git_variables_of_the_caller_do_not_redirect(make_repo, monkeypatch: pytest.MonkeyPatch) -> None:
    repo, other = make_repo({"a": "x"}), make_repo({"b": "y"}, "other")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
    source = find_source(repo)
    assert source.repo == repo.resolve() and count_changed(source) == 0
    assert make_base(source.repo, source.head).read("a") == b"x"


def test_hooks_and_monitors_of_the_repository_do_not_run(make_repo, tmp_path: Path) -> None:
    repo = make_repo({"a": "x"})
    ran = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    git(repo, "config", "core.fsmonitor", str(program))
    for hook in ("post-checkout", "pre-commit", "post-commit", "reference-transaction", "post-index-change"):
        (repo / ".git" / "hooks").mkdir(exist_ok=True)
        shutil.copy(program, repo / ".git" / "hooks" / hook)
    (repo / "a").write_text("y")
    source = find_source(repo)
    make_base(source.repo, source.head, dirty=True)
    assert not ran.exists()


@pytest.mark.skipif(AS_ROOT, reason="root may enter any folder")
def test_a_folder_that_may_not_be_entered(make_repo) -> None:
    repo = make_repo({"a/b": "x"})
    (repo / "a").chmod(0)
    try:
        with pytest.raises(TaskError):
            find_source(repo / "a")
        assert find_source(repo).repo == repo.resolve()
    finally:
        (repo / "a").chmod(0o755)


def test_a_tree_with_a_symlink_loop(make_repo) -> None:
    repo = make_repo({"a": "x"})
    (repo / "loop").symlink_to("loop")
    (repo / "up").symlink_to("..")
    head = commit(repo, "b", "y")
    base = make_base(repo, head)
    assert base.read("loop") is None and base.read("up/repo/a") is None and base.read("b") == b"y"
    assert make_base(repo, head, dirty=True).read("b") == b"y"


# Bases


def test_only_ancestors_are_in_a_base(make_repo) -> None:
    """A later commit, another branch, a tag, a stash, the reflog, and a dangling object."""
    repo = make_repo({"a": "x"})
    head = git(repo, "rev-parse", "HEAD")
    hidden = [commit(repo, "later", "later secret")]
    git(repo, "tag", "-a", "v1", "-m", "tag secret")
    hidden.append(git(repo, "rev-parse", "v1"))
    git(repo, "checkout", "-q", "-b", "side")
    hidden.append(commit(repo, "side", "side secret"))
    (repo / "side").write_text("stash secret")
    git(repo, "stash", "-q")
    hidden.append(git(repo, "rev-parse", "stash@{0}"))
    git(repo, "checkout", "-q", "main")
    git(repo, "reset", "-q", "--hard", head)
    (repo / "loose").write_text("dangling secret")
    hidden.append(git(repo, "hash-object", "-w", "loose"))
    (repo / "loose").unlink()
    git(repo, "config", "remote.origin.url", "https://user:secret@localhost/x")

    base = make_base(repo, head)
    listed = base.git("cat-file", "--batch-all-objects", "--batch-check").decode()
    assert len(listed.splitlines()) == 3  # one commit, its tree, its blob
    assert not any(name in listed for name in hidden)
    for path in base.tree.rglob("*"):
        if path.is_file():
            assert b"secret" not in path.read_bytes(), path
    assert base.git("for-each-ref", "--format=%(refname)").decode().split() == ["refs/heads/main"]
    assert not (base.tree / ".git" / "objects" / "info" / "alternates").exists()
    assert base.git("status", "--porcelain") == b""


async def test_a_command_finds_no_later_commit(make_repo, task_sandbox) -> None:
    repo = make_repo({"a": "x"})
    head = git(repo, "rev-parse", "HEAD")
    later = commit(repo, "a", "the answer")
    git(repo, "reset", "-q", "--hard", head)
    with task_sandbox(repo) as shop:
        for asked in (f"git show {later}", "git log --all --reflog -p", "git fsck --lost-found", "git stash list -p"):
            assert "the answer" not in (await shop.shell(shop.fresh(), asked)).text
        assert (await shop.shell(shop.fresh(), "git log --oneline | wc -l")).text.strip() == "1"


def test_history_up_to_the_commit_is_kept(make_repo) -> None:
    repo = make_repo({"a": "1"})
    for number in range(5):
        head = commit(repo, "a", str(number))
    base = make_base(repo, head)
    assert len(base.git("log", "--format=%H").split()) == 6
    assert base.git("rev-parse", "HEAD").decode().strip() == head
    assert make_base(repo, head) == base


def test_a_shallow_clone(make_repo, tmp_path: Path) -> None:
    repo = make_repo({"a": "1"})
    for number in range(5):
        commit(repo, "a", str(number))
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth", "2", f"file://{repo}", str(clone))
    base = make_base(clone, git(clone, "rev-parse", "HEAD"))
    assert len(base.git("log", "--format=%H").split()) == 2
    assert base.read("a") == b"4"


def test_a_work_tree_of_another_repository(make_repo, tmp_path: Path) -> None:
    repo = make_repo({"a": "1"})
    git(repo, "worktree", "add", "-q", str(tmp_path / "side"), "-b", "side")
    source = find_source(tmp_path / "side")
    (tmp_path / "side" / "new").write_text("x")
    assert make_base(source.repo, source.head, dirty=True).read("new") == b"x"


def test_a_repository_with_long_object_names(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    git(tmp_path, "init", "-q", "--object-format=sha256", str(repo))
    head = commit(repo, "a", "x")
    assert len(head) == 64
    assert make_base(repo, head).read("a") == b"x"


def test_a_commit_that_does_not_exist(make_repo) -> None:
    repo = make_repo({"a": "x"})
    with pytest.raises(TaskError, match=r"history of .* at 000000000000 cannot be read"):
        make_base(repo, "0" * 40)
    assert leftovers("bases") == []


def leftovers(kind: str) -> list[str]:
    return sorted(path.name for path in (cache_folder() / kind).iterdir() if path.name != ".lock")


# The uncommitted tree


def test_a_snapshot_of_the_work_tree(make_repo) -> None:
    repo = make_repo({"kept": "1", "changed": "1", "deleted": "1", ".gitignore": "*.log\n", "staged": "1"})
    (repo / ".git" / "info").mkdir(exist_ok=True)
    (repo / ".git" / "info" / "exclude").write_text("private\n")
    (repo / "changed").write_text("2")
    (repo / "deleted").unlink()
    (repo / "new").write_text("2")
    (repo / "x.log").write_text("ignored")
    (repo / "private").write_text("ignored")
    (repo / "staged").write_text("2")
    git(repo, "add", "staged")
    (repo / "staged").write_text("3")
    before = digest(repo)
    source = find_source(repo)
    base = make_base(source.repo, source.head, dirty=True)
    assert digest(repo) == before
    assert base.read("changed") == base.read("new") == b"2"
    assert base.read("staged") == b"3"
    assert base.read("deleted") is base.read("x.log") is base.read("private") is None
    assert base.git("rev-parse", "HEAD^").decode().strip() == source.head
    again = make_base(source.repo, source.head, dirty=True)
    assert again == base
    assert make_base(source.repo, base.commit) == base
    (repo / "new").write_text("3")
    assert make_base(source.repo, source.head, dirty=True).commit != base.commit


def test_a_snapshot_is_not_signed_or_reworded(make_repo) -> None:
    """The user's own configuration would otherwise make it prompt, or differ from one moment to the next."""
    repo = make_repo({"a": "1"})
    (repo / "a").write_text("2")
    source = find_source(repo)
    plain = make_base(source.repo, source.head, dirty=True).commit
    (Path(os.environ["HOME"]) / ".gitconfig").write_text(
        "[commit]\n gpgSign = true\n[gpg]\n program = false\n[user]\n name = Somebody\n[log]\n showSignature = true\n"
    )
    assert make_base(source.repo, source.head, dirty=True).commit == plain


def test_the_users_ignore_file_counts(make_repo) -> None:
    repo = make_repo({"a": "1"})
    (repo / "notes.private").write_text("x")
    (Path(os.environ["HOME"]) / ".gitconfig").write_text("[core]\n excludesFile = ~/ignore\n")
    (Path(os.environ["HOME"]) / "ignore").write_text("*.private\n")
    source = find_source(repo)
    assert make_base(source.repo, source.head, dirty=True).read("notes.private") is None


# Many at once, crashes, no room


def test_the_same_base_from_many_processes(make_repo) -> None:
    repo = make_repo({f"f{number}": "x" * number for number in range(50)})
    head = git(repo, "rev-parse", "HEAD")
    script = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from scrout.sandbox.workspace import Workspaces, make_base
        base = make_base(Path(sys.argv[1]), sys.argv[2])
        with Workspaces(base) as workspaces:
            workspaces.fresh().write("c/b", b"x")
        print(base.tree)
        """
    )
    with ThreadPoolExecutor(4) as pool:
        ran = pool.map(lambda _: run_python(script, str(repo), head), range(4))
        assert len(set(ran)) == 1
    assert len(leftovers("bases")) == 1
    assert leftovers("workspaces") == []


def run_python(script: str, *args: str) -> str:
    done = subprocess.run([sys.executable, "-c", script, *args], capture_output=True, text=True, env=with_source())
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def with_source() -> dict[str, str]:
    import scrout

    return {**os.environ, "PYTHONPATH": str(Path(scrout.__file__).parents[1])}


def test_what_a_crash_leaves_goes_at_the_next_start(make_repo) -> None:
    repo = make_repo({"a": "x"})
    base = make_base(repo, git(repo, "rev-parse", "HEAD"))
    script = textwrap.dedent(
        """
        import os, signal, sys
        from pathlib import Path
        from scrout.sandbox.workspace import Workspaces, make_base, _claim
        from scrout.config.folders import cache_folder
        base = make_base(Path(sys.argv[1]), sys.argv[2])
        making, lock = _claim(cache_folder() / "bases", ".making-")
        (making / "tree").mkdir()
        with Workspaces(base) as workspaces:
            workspaces.fresh().write("c/b", b"x")
            print("ready", flush=True)
            sys.stdin.read()
        """
    )
    command = [sys.executable, "-c", script, str(repo), base.commit]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=with_source()) as child:
        assert child.stdout is not None and child.stdout.readline() == b"ready\n"
        with Workspaces(base):
            assert len(leftovers("workspaces")) == 2  # a living process keeps its own
        child.send_signal(signal.SIGKILL)
    assert len(leftovers("workspaces")) == 1
    assert len(leftovers("bases")) == 2
    with Workspaces(base) as workspaces:
        assert workspaces.folder is not None
        assert leftovers("workspaces") == [workspaces.folder.name]
    make_base(repo, base.commit, dirty=True)
    assert not any(name.startswith(".making") for name in leftovers("bases"))


def test_a_cache_that_cannot_be_written(make_repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = make_repo({"a": "x"})
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(SandboxError, match="XDG_CACHE_HOME"):
        make_base(repo, git(repo, "rev-parse", "HEAD"))


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", disk], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("a small disk cannot be mounted here")
    try:
        monkeypatch.setenv("XDG_CACHE_HOME", str(disk))
        yield disk
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.parametrize("content", [secrets.token_bytes(5_000_000), b"x" * 5_000_000], ids=["pack", "checkout"])
def test_a_full_disk(make_repo, small_disk: Path, content: bytes) -> None:
    """The pack does not fit, or it does and the files do not."""
    repo = make_repo({"big": content})
    with pytest.raises(SandboxError, match=r"(?s)could not be copied to.*XDG_CACHE_HOME"):
        make_base(repo, git(repo, "rev-parse", "HEAD"))
    assert leftovers("bases") == []


# Files of a workspace


async def test_written_files_are_seen_and_read_back(shop: TaskSandbox) -> None:
    workspace = shop.fresh()
    workspace.write("deep/er/new.txt", b"new\n")
    workspace.write("file.txt", b"changed\n")
    done = await shop.shell(workspace, "cat deep/er/new.txt file.txt && echo more >> file.txt")
    assert done.text == "new\nchanged\n"
    assert workspace.read("file.txt") == b"changed\nmore\n"
    assert workspace.read("deep/er") is None
    assert sorted(workspace.changed()) == ["deep/er/new.txt", "file.txt"]
    assert shop.fresh().read("file.txt") == b"tracked\n"


async def test_the_mode_of_a_file_stays(make_repo, task_sandbox) -> None:
    repo = make_repo({"run.sh": "#!/bin/sh\n"})
    (repo / "run.sh").chmod(0o755)
    git(repo, "commit", "-qam", "mode")
    with task_sandbox(repo) as shop:
        workspace = shop.fresh()
        workspace.write("run.sh", b"#!/bin/sh\necho ran\n")
        assert (await shop.shell(workspace, "./run.sh")).text == "ran\n"
        await shop.shell(workspace, "chmod 700 run.sh")
        workspace.write("run.sh", b"#!/bin/sh\necho again\n")
        assert (await shop.shell(workspace, "stat -c %a run.sh; ./run.sh")).text == "700\nagain\n"


async def test_what_a_command_deleted_stays_deleted(make_repo, task_sandbox) -> None:
    with task_sandbox(make_repo({"pkg/a.py": "a", "pkg/b.py": "b", "top.py": "t"})) as shop:
        gone = shop.fresh()
        await shop.shell(gone, "rm -rf pkg top.py")
        assert gone.read("pkg/a.py") is gone.read("top.py") is None
        assert {"pkg/a.py", "pkg/b.py", "top.py"} <= set(gone.changed())
        gone.write("pkg/a.py", b"new")
        gone.write("top.py", b"new")
        assert gone.read("pkg/b.py") is None
        assert (await shop.shell(gone, "ls pkg; cat pkg/a.py top.py")).text == "a.py\nnewnew"

        anew = shop.fresh()
        await shop.shell(anew, "rm -rf pkg; mkdir pkg; echo c > pkg/c.py")
        assert anew.read("pkg/a.py") is None
        assert anew.read("pkg/c.py") == b"c\n"
        assert {"pkg/a.py", "pkg/b.py", "pkg/c.py"} <= set(anew.changed())


async def test_a_link_that_a_command_replaced_is_not_followed_on_the_host(
    make_repo, task_sandbox, tmp_path: Path
) -> None:
    """It may lead to the whole disk, and was one file of the repository's."""
    (tmp_path / "private" / "inner").mkdir(parents=True)
    for folder in ("private", "private/inner"):
        (tmp_path / folder / "secretname").touch()
    repo = make_repo({"a.py": "a"})
    (repo / "link").symlink_to(tmp_path / "private")
    git(repo, "add", "link")
    git(repo, "commit", "-q", "-m", "a link")
    with task_sandbox(repo) as shop:
        for trick in (
            *("rm link", "rm link; echo x > link", "touch -h link"),
            *("rm link; mkdir link; echo x > link/new", "rm link; mkdir link; touch link/inner"),
        ):
            workspace = shop.fresh()
            await shop.shell(workspace, trick)
            assert set(workspace.changed()) <= {"link", "link/new", "link/inner"} and set(workspace.changed()), trick


async def test_changes_cannot_be_hidden(make_repo, task_sandbox) -> None:
    with task_sandbox(make_repo({"pkg/a.py": "a"})) as shop:
        for trick in (
            "echo x >> pkg/a.py; chmod 000 pkg",
            "mv pkg elsewhere; ln -s elsewhere pkg",
            "rm -rf pkg; mkdir pkg",
            "rm -rf pkg; echo x > pkg",
        ):
            workspace = shop.fresh()
            await shop.shell(workspace, trick)
            assert "pkg/a.py" in set(workspace.changed()), trick


@pytest.mark.parametrize(
    "plant",
    [
        "ln -s {victim} file",
        "ln -s {folder} way",
        "mkdir way; ln -s {folder} way/on",
        "mkfifo file",
        "mkdir file",
        "echo x > way",
    ],
)
async def test_the_host_does_not_follow_what_a_command_planted(shop: TaskSandbox, tmp_path: Path, plant: str) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("untouched")
    workspace = shop.fresh()
    await shop.shell(workspace, plant.format(victim=victim / "file", folder=victim))
    path = "file" if "file" in plant.split("{")[0] or plant.endswith(" file") else "way/on/file"
    path = "way/file" if plant.endswith(" way") else path
    assert workspace.read(path) is None
    with pytest.raises(SandboxError, match="cannot be written"):
        workspace.write(path, b"overwritten")
    assert (victim / "file").read_text() == "untouched"


def test_a_symlink_of_the_repository_itself_is_not_followed(make_repo, task_sandbox, tmp_path: Path) -> None:
    repo = make_repo({"real/a": "x"})
    (repo / "way").symlink_to("real")
    (repo / "link").symlink_to(tmp_path / "victim")
    commit(repo, "b", "y")
    with task_sandbox(repo) as shop:
        workspace = shop.fresh()
        for path in ("way/new", "link", "real"):
            with pytest.raises(SandboxError, match="cannot be written"):
                workspace.write(path, b"x")
            assert workspace.read(path) is None
    assert not (tmp_path / "victim").exists()


async def test_a_hard_link_planted_by_a_command_is_cut(shop: TaskSandbox) -> None:
    workspace = shop.fresh()
    await shop.shell(workspace, "echo x > a; ln a b")
    workspace.write("a", b"y\n")
    assert workspace.read("b") == b"x\n"


NO_PATHS = ["", ".", "..", "../x", "a/../../x", "/etc/passwd", "a\0b", "x" * 300, "a/" * 3000 + "b"]


@pytest.mark.parametrize("path", NO_PATHS, ids=[str(number) for number in range(len(NO_PATHS))])
def test_paths_that_are_none(shop: TaskSandbox, path: str) -> None:
    workspace = shop.fresh()
    assert workspace.read(path) is None
    assert shop.base.read(path) is None
    with pytest.raises(SandboxError):
        workspace.write(path, b"x")


@given(path=st.text(max_size=40), data=st.binary(max_size=20))
def test_any_path_is_written_inside_or_refused(shop: TaskSandbox, path: str, data: bytes) -> None:
    workspace = shop.fresh()
    try:
        workspace.write(path, data)
    except (SandboxError, UnicodeEncodeError):
        return
    assert workspace.read(path) == data
    assert len(list(workspace.changed())) == 1


async def test_a_workspace_of_any_shape_can_be_removed(shop: TaskSandbox) -> None:
    workspace = shop.fresh()
    script = "import os\nfor _ in range(1200):\n    os.mkdir('d'); os.chdir('d')"
    await shop.shell(workspace, f'python3 -c "{script}"; mkdir -p x/y; touch x/y/z; chmod 000 x/y x; chmod 500 .')
    list(workspace.changed())
    workspace.remove()
    assert not workspace.folder.exists()
    workspace.remove()


async def test_a_strict_umask_of_the_caller(make_repo, task_sandbox) -> None:
    before = os.umask(0o077)
    try:
        with task_sandbox(make_repo({"a/b.txt": "x\n"})) as shop:
            workspace = shop.fresh()
            done = await shop.shell(workspace, "cat a/b.txt; python -c 'print(1)'; whoami; echo y > a/b.txt")
            assert done.text == "x\n1\nsandbox\n"
            assert "+y" in await shop.diff(workspace)
    finally:
        os.umask(before)
