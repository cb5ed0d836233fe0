"""Builds: what they may see and do, what is kept of them, and how a failed one is reported.

Plain tests build with setup commands that install nothing; the slow ones ask the package index.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scrout.config.folders import cache_folder
from scrout.config.settings import EnvironmentSettings, Settings
from scrout.sandbox.environment import find_environment, plan_environment
from scrout.sandbox.environment_build import build_environment
from scrout.sandbox.environment_cache import IN_USE_S, clear
from scrout.sandbox.tier import Tier
from scrout.sandbox.workspace import Base, find_source, make_base


def base_of(repo: Path) -> Base:
    source = find_source(repo)
    return make_base(source.repo, source.head)


def run(setup: str, **more: object) -> Settings:
    return Settings(environment=EnvironmentSettings.model_validate({"setup": setup, **more}))


@pytest.fixture
def no_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one on PATH no virtual environment is made first, which takes seconds."""
    folder = tmp_path / "few programs"
    folder.mkdir()
    for name in ("chmod", "chown", "cp", "git", "rm"):
        (folder / name).symlink_to(shutil.which(name) or "")
    monkeypatch.setenv("PATH", str(folder))


async def test_what_a_build_makes_is_seen_later_and_cannot_be_changed(
    make_repo, tier: Tier, task_sandbox, no_python
) -> None:
    repo = make_repo({"a.txt": "tracked\n", ".gitignore": "made/\n*.so\n"})
    settings = run(
        """
        mkdir -p "$SCROUT_ENV/bin" made/deep
        printf '#!/bin/sh\\necho tool runs\\n' > "$SCROUT_ENV/bin/tool" && chmod +x "$SCROUT_ENV/bin/tool"
        echo generated > made/deep/file
        echo compiled > fast.so
        echo not ignored > stray.txt
        mkdir unignored && echo folder > unignored/file
        ln -s /etc made/link && ln -s /etc linked.so
        echo changed > a.txt
        """
    )
    built = await build_environment(base_of(repo), tier, settings.environment)
    assert built.missing == "" and "environment.setup" in built.label
    with task_sandbox(repo, settings) as shop:
        workspace = shop.fresh()
        seen = await shop.shell(workspace, "tool; cat made/deep/file fast.so unignored/file a.txt; ls")
        assert seen.text.split("\n")[:5] == ["tool runs", "generated", "compiled", "folder", "tracked"]
        assert "stray" not in seen.text and "linked" not in seen.text
        for path in ('"$(dirname "$(command -v tool)")"/x', "made/x", "fast.so", "unignored/x"):
            assert (await shop.shell(workspace, f"echo x > {path}")).exit_code != 0, path
        assert await shop.diff(workspace) == ""
    assert not (repo / "made").exists() and not (repo / "fast.so").exists()


async def test_a_build_cannot_name_a_folder_of_the_host_as_left_by_it(
    make_repo, tier: Tier, task_sandbox, no_python, tmp_path: Path
) -> None:
    """What a build left is asked of git in its sandbox, where the build can have put another program in its place."""
    private = tmp_path / "private"
    private.mkdir()
    (private / "key").write_text("planted secret")
    repo = make_repo({"a.txt": "tracked\n"})
    names = (f"{private}/", f"../../..{private}/", f"real/../../..{private}/", f"link{private}/", "real/")
    printed = "\\\\0".join(f"?? {name}" for name in names)
    settings = run(
        f"""
        mkdir -p "$SCROUT_ENV/bin" real && echo kept > real/file && ln -s / link
        printf '#!/bin/sh\\nprintf "{printed}\\\\0"\\n' > "$SCROUT_ENV/bin/git" && chmod +x "$SCROUT_ENV/bin/git"
        """
    )
    built = await build_environment(base_of(repo), tier, settings.environment)
    assert all(mount.source.is_relative_to(cache_folder()) for mount in built.mounts)
    with task_sandbox(repo, settings) as shop:
        seen = await shop.shell(shop.fresh(), f"cat real/file {private}/key")
        assert seen.text.startswith("kept\n") and "planted" not in seen.text
    assert (private / "key").exists()


async def test_a_failing_line_is_named_remembered_and_tried_again_when_forced(make_repo, tier: Tier, no_python) -> None:
    repo = make_repo({"a": ""})
    base = base_of(repo)
    settings = run(
        "echo fine\necho tried >> /opt/scrout/cache/tries\necho no such thing >&2; false\necho never"
    ).environment
    words: list[str] = []
    failed = await build_environment(base, tier, settings, words.append)
    assert "could not be built (false: no such thing)" in failed.missing and "--force" in failed.missing
    assert words == ["building the environment, 1 of 1: " + " ".join(settings.setup.split())[:100]]
    assert await build_environment(base, tier, settings) == failed == find_environment(repo, settings, base)
    assert tries() == 1
    await build_environment(base, tier, settings, force=True)
    assert tries() == 2
    # Another command is another build.
    assert (await build_environment(base, tier, run("true").environment)).missing == ""


def tries() -> int:
    (file,) = (cache_folder() / "downloads").glob("*/tries")
    return len(file.read_text().split())


async def test_a_build_that_takes_too_long(make_repo, tier: Tier, no_python) -> None:
    settings = run("sleep 60", timeout_s=0.5).environment
    found = await build_environment(base_of(make_repo({"a": ""})), tier, settings)
    assert "sleep 60: stopped after 0.5 seconds" in found.missing


async def test_two_builders_build_once(make_repo, tier: Tier, no_python) -> None:
    base = base_of(make_repo({"a": ""}))
    settings = run("echo tried >> /opt/scrout/cache/tries; sleep 0.5").environment
    words: list[str] = []
    both = await asyncio.gather(*(build_environment(base, tier, settings, words.append) for _ in range(2)))
    assert both[0] == both[1] and both[0].missing == "" and tries() == 1
    assert any("another process" in said for said in words)


async def test_a_cancelled_build_leaves_nothing(make_repo, tier: Tier, no_python) -> None:
    base = base_of(make_repo({"a": ""}))
    settings = run("sleep 60").environment
    building = asyncio.create_task(build_environment(base, tier, settings))
    while not list((cache_folder() / "environments").glob(".making-*/root")):  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    building.cancel()
    with pytest.raises(asyncio.CancelledError):
        await building
    assert [path.suffix for path in (cache_folder() / "environments").iterdir()] == [".lock"]
    assert "no environment was built" in find_environment(base.repo, settings, base).missing


async def test_network_for_the_build_and_for_nothing_else(make_repo, tier: Tier, task_sandbox, no_python) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connect = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]}"
        settings = run(connect)
        repo = make_repo({"a": ""})
        assert (await build_environment(base_of(repo), tier, settings.environment)).missing == ""
        with task_sandbox(repo, settings) as shop:
            assert (await shop.shell(shop.fresh(), connect)).exit_code != 0


async def test_a_build_sees_the_index_configuration_and_nothing_else_of_the_user(
    make_repo, tier: Tier, no_python, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Path(os.environ["HOME"])
    (home / ".config" / "pip").mkdir(parents=True)
    (home / ".config" / "pip" / "pip.conf").write_text(f"[global]\nfind-links =\n  {tmp_path}/wheels\n")
    (home / "private.txt").write_text("planted secret")
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / "here.whl").write_text("")
    monkeypatch.setenv("PIP_INDEX_URL", "https://user:hunter2hunter2@index.example/simple")
    monkeypatch.setenv("SOME_API_KEY", "another-secret-value")
    settings = run(
        f"ls {tmp_path}/wheels; cat ~/.config/pip/pip.conf; cat {home}/private.txt || true; id -u; env\n"
        "echo $PIP_INDEX_URL\n"
        "test ! -w ~/.config/pip/pip.conf || echo writable\nfalse"
    ).environment
    base = base_of(make_repo({"a": ""}))
    await build_environment(base, tier, settings)
    failed = plan_environment(base.repo, settings, base).slots[0].failed()
    assert failed is not None
    said = failed.output_tail
    assert "here.whl" in said and "find-links" in said and "https://[secret]@index.example/simple" in said
    assert "hunter2" not in said and "SOME_API_KEY" not in said and "planted" not in said and "writable" not in said
    assert "\n0\n" not in said


async def test_credentials_are_on_no_command_line(make_repo, tier: Tier, no_python, monkeypatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://user:hunter2hunter2@index.example/simple")
    base = base_of(make_repo({"a": ""}))
    building = asyncio.create_task(build_environment(base, tier, run("sleep 30").environment))
    lines: list[bytes] = []
    while not any(line.startswith(b"sleep") for line in lines):
        lines = command_lines()
        await asyncio.sleep(0.05)
    building.cancel()
    with pytest.raises(asyncio.CancelledError):
        await building
    assert not any(b"hunter2" in line for line in lines)


def command_lines() -> list[bytes]:
    """Of every process there is."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            lines.append(path.read_bytes())
    return lines


async def test_only_so_many_are_kept(make_repo, tier: Tier, no_python) -> None:
    base = base_of(make_repo({"a": ""}))
    first, second = run("echo 1", keep=1).environment, run("echo 2", keep=1).environment
    await build_environment(base, tier, first)
    (built,) = (cache_folder() / "environments").glob("*/built.json")
    # In use until a moment ago: it stays though there is one too many.
    await build_environment(base, tier, second)
    assert not find_environment(base.repo, first, base).missing
    long_ago = time.time() - IN_USE_S - 1
    os.utime(built, (long_ago, long_ago))
    await build_environment(base, tier, run("echo 3", keep=2).environment)
    assert find_environment(base.repo, first, base).missing and not find_environment(base.repo, second, base).missing


async def test_clearing(make_repo, tier: Tier, no_python) -> None:
    here, there = base_of(make_repo({"a": ""}, "here")), base_of(make_repo({"a": ""}, "there"))
    settings = run("echo 1").environment
    for base in (here, there):
        await build_environment(base, tier, settings)
    await build_environment(here, tier, run("false").environment)
    assert clear(here.repo)[0] == 2
    assert find_environment(here.repo, settings, here).missing
    assert "no environment was built" in find_environment(here.repo, run("false").environment, here).missing
    assert not find_environment(there.repo, settings, there).missing
    assert clear(None)[0] == 1


async def test_another_commit_is_another_build_only_where_it_matters(make_repo, no_python) -> None:
    repo = make_repo({"package.json": '{"dependencies": {"x": "1"}}', "a.js": ""})
    settings = EnvironmentSettings()

    def key(chosen: EnvironmentSettings) -> str:
        return plan_environment(repo, chosen, base_of(repo)).slots[0].key

    def commit(path: str, content: str) -> None:
        (repo / path).write_text(content)
        identity = ("-c", "user.name=T", "-c", "user.email=t@localhost")
        subprocess.run(["git", *identity, "commit", "-qam", "next"], cwd=repo, check=True)

    before, before_setup = key(settings), key(run("true").environment)
    commit("a.js", "changed\n")
    assert key(settings) == before and key(run("true").environment) != before_setup
    commit("package.json", '{"dependencies": {"x": "2"}}')
    assert key(settings) != before


# With the package index


@pytest.fixture(scope="session")
def index(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("index")
    argv = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "--no-cache-dir",
        "-d",
        str(folder),
        "iniconfig",
    ]
    try:
        subprocess.run(argv, check=True, capture_output=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"the package index cannot be reached: {error}")


@pytest.fixture
def python_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.base_prefix, "bin")), prepend=os.pathsep)


@pytest.mark.slow
async def test_requirements(make_repo, tier: Tier, task_sandbox, index, python_on_path) -> None:
    repo = make_repo({"requirements.txt": "iniconfig==2.0.0\n", "tests/conftest.py": ""})
    built = await build_environment(base_of(repo), tier, EnvironmentSettings())
    assert built.missing == "" and built.label == "python environment built from requirements.txt, tests/conftest.py"
    with task_sandbox(repo) as shop:
        workspace = shop.fresh()
        done = await shop.shell(
            workspace, "python -c 'import iniconfig; print(iniconfig.__file__)' && pytest --version"
        )
        assert done.exit_code == 0 and built.python.removesuffix("/bin/python") in done.text
        assert (await shop.shell(workspace, f"touch {built.python}2")).exit_code != 0
        assert await shop.diff(workspace) == ""


@pytest.mark.slow
async def test_a_project_is_imported_as_it_was_patched(
    make_repo, tier: Tier, task_sandbox, index, python_on_path
) -> None:
    project = '[build-system]\nrequires = ["setuptools>=61"]\nbuild-backend = "setuptools.build_meta"\n[project]\n'
    project += 'name = "widget"\nversion = "1.0"\ndependencies = ["iniconfig"]\n'
    project += '[project.optional-dependencies]\ntest = ["pytest"]\n'
    test = "import iniconfig, widget\ndef test_answer(): assert widget.answer == 2\n"
    repo = make_repo({"pyproject.toml": project, "src/widget/__init__.py": "answer = 1\n", "tests/test_it.py": test})
    built = await build_environment(base_of(repo), tier, EnvironmentSettings())
    assert built.missing == "", built.missing
    with task_sandbox(repo) as shop:
        workspace = shop.fresh()
        assert (await shop.shell(workspace, "pytest -q")).exit_code == 1
        workspace.write("src/widget/__init__.py", b"answer = 2\n")
        done = await shop.shell(workspace, "pytest -q")
        assert done.exit_code == 0, done.text
        assert "egg-info" not in await shop.diff(workspace)
    assert not list(repo.rglob("*.egg-info"))


@pytest.mark.slow
async def test_a_requirement_that_does_not_exist(make_repo, tier: Tier, index, python_on_path) -> None:
    repo = make_repo({"requirements.txt": "iniconfig==0.0.0.dev999\n"})
    found = await build_environment(base_of(repo), tier, EnvironmentSettings())
    assert "python -m pip install -r requirements.txt: ERROR: No matching distribution found" in found.missing


NODE_PACKAGE = '{"name": "x", "version": "1.0.0", "dependencies": {"is-number": "7.0.0"}}'


@pytest.fixture
def node_lock(tmp_path: Path) -> str:
    if not shutil.which("npm"):
        pytest.skip("npm is not installed")
    folder = tmp_path / "lock"
    folder.mkdir()
    (folder / "package.json").write_text(NODE_PACKAGE)
    argv = ["npm", "install", "--package-lock-only", "--ignore-scripts", "--no-audit", "--no-fund"]
    try:
        subprocess.run(argv, cwd=folder, check=True, capture_output=True, timeout=60)
    except subprocess.SubprocessError as error:
        pytest.skip(f"the npm registry cannot be reached: {error}")
    return (folder / "package-lock.json").read_text()


@pytest.mark.slow
async def test_node_modules(make_repo, tier: Tier, task_sandbox, node_lock: str) -> None:
    repo = make_repo({"package.json": NODE_PACKAGE, "package-lock.json": node_lock, ".gitignore": "node_modules\n"})
    built = await build_environment(base_of(repo), tier, EnvironmentSettings())
    assert built.missing == "" and "npm environment built from package.json" in built.label
    with task_sandbox(repo) as shop:
        workspace = shop.fresh()
        done = await shop.shell(workspace, "node -e 'console.log(require(\"is-number\")(5))'")
        assert done.text == "true\n"
        assert (await shop.shell(workspace, "touch node_modules/x")).exit_code != 0
        assert await shop.diff(workspace) == ""
