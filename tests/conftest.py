"""Fixtures that every folder of tests may use: real repositories, the real sandbox, and nobody's own folders."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from scrout.config import Settings
from scrout.sandbox.probe import probe
from scrout.sandbox.tier import Tier
from scrout.sandbox.workshop import Workshop, open_workshop
from scrout.sandbox.workspace import find_source
from scrout.task import Task

MakeRepo = Callable[..., Path]
OpenWorkshop = Callable[..., AbstractContextManager[Workshop]]

# A shell starts what it puts into the background with interrupts ignored, and every process below would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

IDENTITY = ("-c", "user.name=Test", "-c", "user.email=test@localhost", "-c", "commit.gpgSign=false")


def run_git(repo: Path, *args: str, stdin: bytes | None = None) -> bytes:
    """git as a user would run it, with an identity."""
    return subprocess.run(["git", *IDENTITY, *args], cwd=repo, input=stdin, check=True, capture_output=True).stdout


def point_folders_to(folder: Path, environment: pytest.MonkeyPatch) -> None:
    environment.setenv("HOME", str(folder / "home"))
    for variable in ("XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        environment.setenv(variable, str(folder / variable.lower()))


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bases, workspaces, ledgers and configuration land under tmp_path, never in the user's folders."""
    (tmp_path / "home").mkdir()
    point_folders_to(tmp_path, monkeypatch)


@pytest.fixture(scope="session")
def tier(tmp_path_factory: pytest.TempPathFactory) -> Tier:
    """The strongest isolation of this machine; tests that need one are skipped where there is none."""
    with pytest.MonkeyPatch.context() as environment:
        point_folders_to(tmp_path_factory.mktemp("probe"), environment)
        probed = probe()
    if probed.tier is None:
        pytest.skip(f"no isolation tier here: {probed.detail}. {probed.remedy}")
    return probed.tier


@pytest.fixture
def make_repo(tmp_path: Path) -> MakeRepo:
    """make_repo(files, name="repo"): a git repository with these files in one commit."""

    def make(files: Mapping[str, str | bytes], name: str = "repo") -> Path:
        repo = tmp_path / name
        repo.mkdir(parents=True)
        run_git(repo, "init", "-q", "-b", "main")
        for path, content in files.items():
            (repo / path).parent.mkdir(parents=True, exist_ok=True)
            (repo / path).write_bytes(content if isinstance(content, bytes) else content.encode())
        run_git(repo, "add", "--all")
        run_git(repo, "commit", "-q", "--allow-empty", "-m", "base")
        return repo

    return make


@pytest.fixture
def workshop(tier: Tier, monkeypatch: pytest.MonkeyPatch) -> OpenWorkshop:
    """workshop(repo, settings=Settings()): a Workshop at the repository's HEAD, as a context manager."""
    # The interpreter itself rather than a version manager's script, which takes a tenth of a second to start it.
    monkeypatch.setenv("PATH", str(Path(sys.base_prefix, "bin")), prepend=os.pathsep)

    def opened(repo: Path, settings: Settings | None = None) -> AbstractContextManager[Workshop]:
        source = find_source(repo)
        task = Task(id="task", text="an issue", repo=source.repo, base_commit=source.head)
        return open_workshop(task, tier, settings or Settings())

    return opened


@pytest.fixture
def shop(make_repo: MakeRepo, workshop: OpenWorkshop) -> Iterator[Workshop]:
    """A workshop over a repository with one file, for tests that do not care which."""
    with workshop(make_repo({"file.txt": "tracked\n"})) as opened:
        yield opened
