"""Programs of the host: which ones are started, and where they stand then."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import pytest
from tests.conftest import MakeRepo, run_git

import scrout
from scrout.base import TaskError
from scrout.config.settings import EnvironmentSettings
from scrout.git import find_repository
from scrout.programs import find_program, never_below, search_path
from scrout.sandbox.environment import find_environment
from scrout.sandbox.process import run_system, system_program
from scrout.sandbox.workspace import find_source, make_base


def plant(path: Path, mark: Path, otherwise: str = "") -> Path:
    """A program that leaves a mark when it runs, or when it runs beside a certain file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\n{otherwise}touch {mark}\nexec /usr/bin/{path.name} "$@"\n')
    path.chmod(0o755)
    return path


def test_only_absolute_entries_outside_of_a_repository_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mine", "clone/bin", "here"):
        plant(tmp_path / name / "tool", tmp_path / "ran")
    (tmp_path / "link").symlink_to(tmp_path / "clone" / "bin")
    plant(tmp_path / "clone" / "hidden", tmp_path / "ran")
    (tmp_path / "mine" / "hidden").symlink_to(tmp_path / "clone" / "hidden")
    monkeypatch.chdir(tmp_path / "here")
    entries = ("", ".", "./x", "../here", "~/bin", f"{tmp_path}/clone/bin", f"{tmp_path}/link", f"{tmp_path}/mine")
    monkeypatch.setenv("PATH", os.pathsep.join(entries))
    never_below(tmp_path / "clone")
    assert search_path() == f"{tmp_path}/mine"
    assert find_program("tool") == f"{tmp_path}/mine/tool"
    assert find_program("hidden") is None


def test_no_program_of_the_main_work_tree_counts_in_a_linked_one(
    make_repo: MakeRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = make_repo({"a.py": "x = 1\n"})
    plant(repo / "bin" / "tool", tmp_path / "ran")
    run_git(repo, "worktree", "add", "-q", str(tmp_path / "side"))
    monkeypatch.setenv("PATH", f"{repo}/bin")
    assert find_repository(tmp_path / "side").common == repo / ".git"
    assert find_program("tool") is None


@pytest.mark.parametrize("inside", ["", "bare", "bare/refs"])
def test_no_program_of_a_repository_that_is_refused_counts(
    make_repo: MakeRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: str
) -> None:
    repo = make_repo({"a.py": "x = 1\n", "bare/HEAD": "x", "bare/objects/x": "", "bare/refs/x": ""})
    plant(repo / "bin" / "tool", tmp_path / "ran")
    plant(repo / "bare" / "bin" / "tool", tmp_path / "ran")
    if not inside:
        (repo / ".git" / "HEAD").unlink()
    monkeypatch.setenv("PATH", f"{repo}/bin:{repo}/bare/bin")
    with pytest.raises(TaskError):
        find_repository(repo / inside)
    assert find_program("tool") is None


@pytest.mark.parametrize("entry", ["tools", "./tools", "", "{repo}/tools"])
def test_no_program_of_the_repository_runs_for_one_of_the_hosts(
    make_repo: MakeRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    repo = make_repo({"a.py": "x = 1\n"})
    for name in ("git", "python3", "python", "cp", "rm", "chown", "chmod", "bwrap", "uv", "node"):
        plant(repo / "tools" / name, tmp_path / "ran")
        plant(repo / name, tmp_path / "ran")
    monkeypatch.chdir(repo)
    monkeypatch.setenv("PATH", entry.format(repo=repo), prepend=os.pathsep)
    source = find_source(repo)
    base = make_base(source.repo, source.head, dirty=True)
    found = find_environment(repo, EnvironmentSettings(), base)
    assert base.read("tools/git") is not None and not Path(found.python).is_relative_to(repo)
    assert not (tmp_path / "ran").exists()


def test_a_version_manager_does_not_read_what_a_repository_says(
    make_repo: MakeRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its scripts look for .tool-versions in the current folder, which may name a program in the repository."""
    repo = make_repo({"a.py": "x = 1\n", ".tool-versions": "python path:./x\n"})
    looks = 'if [ ! -e .tool-versions ] && [ ! -e "$PWD/.tool-versions" ]; then exec /usr/bin/${0##*/} "$@"; fi\n'
    for name in ("git", "python3"):
        plant(tmp_path / "shims" / name, tmp_path / "ran", looks)
    monkeypatch.chdir(repo)
    monkeypatch.setenv("PWD", str(repo))
    monkeypatch.setenv("PATH", f"{tmp_path}/shims:/usr/bin:/bin")
    source = find_source(repo)
    base = make_base(source.repo, source.head, dirty=True)
    assert find_environment(repo, EnvironmentSettings(), base).python
    assert not (tmp_path / "ran").exists()


def test_where_the_system_keeps_its_programs_elsewhere_none_of_the_repository_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(tmp_path / "clone" / "bin" / "tool-of-the-system", tmp_path / "ran")
    never_below(tmp_path / "clone")
    monkeypatch.setenv("PATH", f"{tmp_path}/clone/bin")
    assert system_program("tool-of-the-system") == "/usr/bin/tool-of-the-system"
    with pytest.raises(FileNotFoundError):
        run_system("tool-of-the-system")
    assert not (tmp_path / "ran").exists()


STARTING = re.compile(
    r"\b(subprocess\.(run|Popen|call|check_\w+)\(|create_subprocess_(exec|shell)\(|os\.(exec|spawn|posix_spawn)\w*\("
    r"|os\.(system|popen|fork|forkpty)\(|pty\.|ProcessPoolExecutor\(|multiprocessing\.)"
)
"""How a process is started."""


def test_few_modules_start_a_process() -> None:
    """Another one has to be thought about: what it starts, where, and with which variables."""
    root = Path(scrout.__file__).parent
    inside = ("gate/watch/", "check/inside/", "fix/repair/inside/", "sandbox/watch/", "batch/grading/inside/")
    starting = {
        name
        for path in root.rglob("*.py")
        if not (name := str(path.relative_to(root))).startswith(("example/", "lab/train/", *inside))
        and STARTING.search(path.read_text())
    }
    assert starting == {
        *("git.py", "index/reading.py", "models/proxy/client.py", "scout/serving.py", "batch/grading/harness.py"),
        *("sandbox/tiers/container.py", "sandbox/environment.py", "sandbox/keeper.py", "sandbox/tiers/bubblewrap.py"),
        # Programs of a login, and Python itself, on what you name.
        *("sandbox/process.py", "integrations/issue_source.py", "models/local_server.py"),
        # Inside of the sandbox.
        *("fix/relay.py",),
    }


def test_nothing_else_looks_a_program_up() -> None:
    """But: agents, which run inside the sandbox only, and the system's folders."""
    root = Path(scrout.__file__).parent
    allowed = {"programs.py", "fix/program.py", "sandbox/process.py"}
    looking = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if "which" in (text := path.read_text())
        and any(isinstance(node, ast.Attribute) and node.attr == "which" for node in ast.walk(ast.parse(text)))
    }
    assert looking == allowed
