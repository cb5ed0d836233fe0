"""Paths of a command for tiers that mount nothing, and workspaces that are copies."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from scrout.sandbox.copies import CopiedWorkspace, at_host_paths
from scrout.sandbox.tier import Command, Copy, Mount
from scrout.sandbox.workspace import Workspaces, find_source, make_base


def moved(*argv: str, **env: str) -> Command:
    return at_host_paths(
        Command(
            argv=list(argv),
            cwd="/home/me/repo",
            view=Copy(Path("/cache/copy"), "/home/me/repo", Path("/cache/scratch"), 0, 0),
            mounts=(
                Mount(Path("/home/me/repo/.venv"), "/home/me/repo/.venv"),
                Mount(Path("/cache/bin"), "/opt/scrout/bin"),
            ),
            env=env,
            aliases=("/testbed",),
        )
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/me/repo/a.py", "/cache/copy/a.py"),
        ("cd /home/me/repo && ls", "cd /cache/copy && ls"),
        ("--root=/home/me/repo", "--root=/cache/copy"),
        ("'/testbed/x'", "'/cache/copy/x'"),
        ("/home/me/repo/.venv/bin/python", "/home/me/repo/.venv/bin/python"),
        ("/home/me/repository", "/home/me/repository"),
        ("/home/me/repo.git", "/home/me/repo.git"),
        ("/var/tmp/x ~/tmp ./tmp", "/var/tmp/x ~/tmp ./tmp"),
        ("cat /tmp/x", "cat /cache/scratch/x"),
    ],
)
def test_paths_are_spelled_as_the_host_has_them(text: str, expected: str) -> None:
    assert moved(text).argv == [expected]


def test_environment_and_folder_move_too() -> None:
    command = moved(PATH="/home/me/repo/.venv/bin:/opt/scrout/bin:/usr/bin", HOME="/tmp/home")
    assert command.cwd == "/cache/copy"
    assert command.env == {
        "TMPDIR": "/cache/scratch",
        "PATH": "/home/me/repo/.venv/bin:/cache/bin:/usr/bin",
        "HOME": "/cache/scratch/home",
    }


@pytest.fixture
def copies(make_repo: Callable[..., Path]) -> Workspaces:
    source = find_source(make_repo({"a.txt": "one\n", "d/b.txt": "two\n", "run": "three\n"}))
    return Workspaces(make_base(source.repo, source.head), CopiedWorkspace, os.geteuid())


def test_a_change_is_seen_whatever_its_time_says(copies: Workspaces) -> None:
    with copies:
        workspace = copies.fresh()
        assert list(workspace.changed()) == []
        path = workspace.upper / "a.txt"
        before = path.stat()
        path.write_text("ONE\n")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        (workspace.upper / "run").chmod(0o755)
        (workspace.upper / "d" / "b.txt").unlink()
        (workspace.upper / "d" / "b.txt").symlink_to("/etc/passwd")
        assert set(workspace.changed()) == {"a.txt", "run", "d/b.txt"}
        assert workspace.read("d/b.txt") is None
        assert copies.base.read("a.txt") == b"one\n"


def test_writing_follows_no_link(copies: Workspaces, tmp_path: Path) -> None:
    with copies:
        workspace = copies.fresh()
        (workspace.upper / "out").symlink_to(tmp_path)
        with pytest.raises(Exception, match="not a folder"):
            workspace.write("out/planted", b"x")
        assert not (tmp_path / "planted").exists()


def test_the_view_knows_what_the_base_held(copies: Workspaces) -> None:
    with copies:
        view = copies.fresh().view
        assert isinstance(view, Copy)
        assert view.base_files > 4 and view.base_bytes > 0
