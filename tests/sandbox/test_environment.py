"""Commands see the repository's own environment, the patched tree, and no folder that a repository asks for by name."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from tests.conftest import run_git

from scrout.base import ConfigError
from scrout.config.settings import EnvironmentSettings, Settings
from scrout.sandbox.environment import find_environment
from scrout.sandbox.workspace import Base, find_source, make_base


def make_venv(folder: Path, python: str | Path = sys.executable) -> Path:
    """A virtual environment, and its folder for packages."""
    if python == sys.executable:
        venv.create(folder, symlinks=True)  # as `python -m venv` does, without its start
    else:
        subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    return next(folder.glob("lib/python3*/site-packages"))


async def test_an_editable_install_sees_the_patched_tree(make_repo, task_sandbox) -> None:
    repo = make_repo({"src/pkg/__init__.py": "answer = 1\n", ".gitignore": ".venv\n"})
    (make_venv(repo / ".venv") / "pkg.pth").write_text(f"{repo}/src\n")
    with task_sandbox(repo) as shop:
        assert shop.environment.label == "the repository's .venv"
        workspace = shop.fresh()
        workspace.write("src/pkg/__init__.py", b"answer = 2\n")
        done = await shop.shell(workspace, "python -c 'import pkg, sys; print(pkg.answer, sys.prefix)'")
        assert done.text == f"2 {repo}/.venv\n"
        assert (await shop.shell(workspace, "touch .venv/x")).exit_code != 0
        assert ".venv" not in await shop.diff(workspace)


async def test_a_named_environment_behind_a_symlink(make_repo, task_sandbox, tmp_path: Path) -> None:
    repo = make_repo({"a.py": ""})
    packages = make_venv(tmp_path / "kept elsewhere")
    (packages / "found.py").write_text("x = 1\n")
    (repo / "env").symlink_to(tmp_path / "kept elsewhere")
    settings = Settings(environment=EnvironmentSettings(venv="env"))
    with task_sandbox(repo, settings) as shop:
        assert (await shop.shell(shop.fresh(), "python -c 'import found'")).exit_code == 0


@pytest.mark.parametrize("venv", ["../env", "{repo}/../env"])
def test_a_named_environment_beside_the_repository(make_repo, tmp_path: Path, venv: str) -> None:
    make_venv(tmp_path / "env")
    repo = make_repo({"a": ""})
    found = find_environment(repo, EnvironmentSettings(venv=venv.format(repo=repo)))
    assert Path(found.python).parts[-2:] == ("bin", "python") and found.label.endswith(venv.format(repo=repo))


@pytest.mark.parametrize("venv", ["env", "loop", "link/env", "envs/../../env", "a\0b"])
def test_a_named_environment_that_is_none(make_repo, venv: str) -> None:
    repo = make_repo({"a": ""})
    (repo / "loop").symlink_to("loop")
    (repo / "link").symlink_to("/")
    with pytest.raises(ConfigError, match=re.escape(f"environment.venv is {venv!r}")):
        find_environment(repo, EnvironmentSettings(venv=venv))


async def test_a_repository_cannot_ask_for_a_folder_of_the_host(make_repo, task_sandbox, tmp_path: Path) -> None:
    """pyvenv.cfg names the folder of its interpreter, and may have come with the clone."""
    private = tmp_path / "private"
    (private / "bin").mkdir(parents=True)
    (private / "key").write_text("planted secret")
    for home in (private / "bin", private / "bin" / ".." / "bin", private):
        repo = make_repo({"a": ""}, f"repo-{len(str(home))}")
        (repo / ".venv").mkdir()
        (repo / ".venv" / "pyvenv.cfg").write_text(f"home = {home}\n")
        with task_sandbox(repo) as shop:
            assert "planted" not in (await shop.shell(shop.fresh(), f"cat {private}/key; ls {private}")).text


def test_a_committed_environment_in_other_letters_is_none_of_the_users(make_repo) -> None:
    """On a disk that does not tell cases apart it is found under the usual name."""
    repo = make_repo({".VENV/pyvenv.cfg": "home = /usr/bin\n"})
    (repo / ".venv").mkdir()
    (repo / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    assert "the repository's" not in find_environment(repo, EnvironmentSettings()).label


@pytest.mark.parametrize("at", ["link/bin", "link/../link/bin", "folder/bin"])
@pytest.mark.parametrize("committed", [True, False])
async def test_a_repository_cannot_ask_for_the_whole_host(
    make_repo, task_sandbox, tmp_path: Path, at, committed
) -> None:
    """Neither by a link of its own, such as one in a submodule, nor by an installation that is a link."""
    secret = tmp_path / "secret.txt"
    secret.write_text("planted secret")
    repo = make_repo({"a": ""})
    (repo / "link").symlink_to("/")
    (repo / "folder").mkdir()
    (repo / "folder" / "bin").symlink_to("/bin")
    (repo / ".venv" / "bin").mkdir(parents=True)
    (repo / ".venv" / "bin" / "python").symlink_to("/usr/bin/python3")
    (repo / ".venv" / "pyvenv.cfg").write_text(f"home = {repo / at}\n")
    if committed:
        run_git(repo, "add", "--all", "--force")
        run_git(repo, "commit", "-q", "-m", "environment")
    with task_sandbox(repo) as shop:
        assert ("the repository's .venv" in shop.environment.label) is not committed
        paths = (str(secret), f"{repo}/link{secret}", f"{repo}/folder/bin/..{secret}")
        assert "planted" not in (await shop.shell(shop.fresh(), f"cat {' '.join(paths)}")).text


@pytest.mark.parametrize("folder", ["/", "{home}", "{home}/.local", "{home}/env", "{root}"])
def test_no_folder_around_the_users_files_passes_for_a_python(make_repo, tmp_path, monkeypatch, folder: str) -> None:
    home, root = Path.home(), tmp_path / "all"
    for prefix in (home, home / ".local", root):
        (prefix / "bin").mkdir(parents=True)
        (prefix / "bin" / "python3").touch()
        (prefix / "lib" / "python3.11").mkdir(parents=True)
        (prefix / "lib" / "python3.11" / "os.py").touch()
    (home / "env").symlink_to(home)
    repo = make_repo({"a": ""}, "all/repo")
    (repo / ".venv").mkdir()
    named = folder.format(home=home, root=root)
    (repo / ".venv" / "pyvenv.cfg").write_text(f"home = {named}/bin\n")
    monkeypatch.setenv("XDG_DATA_HOME", str(home / ".local" / "share"))
    found = find_environment(repo, EnvironmentSettings())
    assert [mount.source for mount in found.mounts] == [repo / ".venv"]


@pytest.mark.parametrize("venv", ["env", "./env/", "{repo}/env", "../repo/env"])
def test_a_committed_environment_is_not_taken_by_its_name_either(make_repo, venv: str) -> None:
    repo = make_repo({"env/pyvenv.cfg": "home = /usr/bin\n"})
    with pytest.raises(ConfigError, match="committed"):
        find_environment(repo, EnvironmentSettings(venv=venv.format(repo=repo)))


async def test_a_repository_cannot_replace_what_builds_the_sandbox(make_repo, task_sandbox) -> None:
    """.venv/bin is first on PATH; as root its `setpriv` would have run before root was dropped."""
    names = ("setpriv", "unshare", "prlimit", "sh")
    repo = make_repo({"a": ""})
    (repo / ".venv" / "bin").mkdir(parents=True)
    (repo / ".venv" / "pyvenv.cfg").write_text("version = 3.11\n")
    for name in names:
        (repo / ".venv" / "bin" / name).write_text("#!/bin/bash\nid -u; echo replaced\n")
        (repo / ".venv" / "bin" / name).chmod(0o755)
    with task_sandbox(repo) as shop:
        done = await shop.shell(shop.fresh(), "echo fine")
        assert done.text == "fine\n"


async def test_python_exists_by_both_names(shop) -> None:
    done = await shop.shell(shop.fresh(), "python -c 'print(1)' && python3 -c 'print(2)'")
    assert done.text == "1\n2\n"


async def test_an_interpreter_in_a_private_home_reached_by_a_link(
    make_repo, task_sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Path(os.environ["HOME"])
    make_venv(home / "hidden" / "env")
    (home / "bin").mkdir()
    (home / "bin" / "python3").symlink_to(home / "hidden" / "env" / "bin" / "python3")
    (home / "secret").write_text("planted secret")
    monkeypatch.setenv("PATH", f"{home}/bin:/usr/bin:/bin")
    with task_sandbox(make_repo({"a": ""})) as shop:
        done = await shop.shell(shop.fresh(), f"python -c 'import json; print(1)'; cat {home}/secret")
        assert done.text.startswith("1\n") and "planted" not in done.text


def install_python(prefix: Path) -> Path:
    """An installation of its own, as pyenv and conda make them: the system's interpreter at another prefix."""
    system = Path(os.path.realpath("/usr/bin/python3"))
    library = Path("/usr/lib") / system.name
    if not (library / "os.py").is_file():
        pytest.skip("no Python of the system's to copy")
    (prefix / "bin").mkdir(parents=True)
    (prefix / "lib").mkdir()
    shutil.copy(system, prefix / "bin" / "python3")
    (prefix / "bin" / "python").symlink_to("python3")
    (prefix / "lib" / system.name).symlink_to(library)
    (prefix / "lib" / "beside.txt").write_text("part of it\n")
    return prefix / "bin" / "python3"


@pytest.mark.parametrize(
    ("manager", "how"),
    [
        ("pyenv", "venv"),
        ("conda", "on PATH"),
        pytest.param("conda", "venv", marks=pytest.mark.slow),
        pytest.param("pyenv", "on PATH", marks=pytest.mark.slow),
    ],
)
async def test_a_version_managers_python_works_and_is_read_only(
    manager: str, how: str, make_repo, task_sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lies in the home folder, of which nothing else is to be seen."""
    home = Path(os.environ["HOME"])
    prefix = home / {"pyenv": ".pyenv/versions/3.11.9", "conda": "miniconda3/envs/work"}[manager]
    python = install_python(prefix)
    if manager == "conda":
        (prefix / "conda-meta").mkdir()
        (prefix / "conda-meta" / "history").write_text("")
    (prefix.parent / "secret").write_text("planted secret")
    repo = make_repo({"a.py": "", ".gitignore": ".venv\n"})
    if how == "venv":
        make_venv(repo / ".venv", python)
    else:
        monkeypatch.setenv("PATH", str(python.parent), prepend=os.pathsep)
    with task_sandbox(repo) as shop:
        workspace = shop.fresh()
        done = await shop.shell(workspace, "python -c 'import json, sys; print(sys.base_prefix)'")
        assert done.text == f"{prefix}\n"
        attempts = f"echo x > {prefix}/lib/new; echo x > {python}; echo x >> {prefix}/lib/beside.txt; rm {python}"
        await shop.shell(workspace, f"{attempts}; mv {prefix} {prefix}-gone")
        seen = await shop.shell(workspace, f"cat {prefix}/lib/beside.txt {prefix.parent}/secret; python -c 'print(1)'")
    assert seen.text.startswith("part of it\n") and seen.text.endswith("1\n") and "planted" not in seen.text
    assert python.stat().st_size > 1000 and not (prefix / "lib" / "new").exists()


def test_no_python_and_a_broken_one(make_repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = make_repo({"a": ""})
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    assert find_environment(repo, EnvironmentSettings()).label == "no Python on PATH"
    (folder / "python3").write_text("#!/bin/sh\nexit 1\n")
    (folder / "python3").chmod(0o755)
    assert find_environment(repo, EnvironmentSettings()).label.endswith("does not run")


async def test_a_repository_inside_the_callers_environment(
    make_repo, task_sandbox, tmp_path: Path, monkeypatch
) -> None:
    """`env/src/project` is an old habit of pip's: the environment must not cover the workspace."""
    make_venv(tmp_path / "env")
    monkeypatch.setenv("PATH", f"{tmp_path}/env/bin:/usr/bin:/bin")
    repo = make_repo({"file.txt": "old\n"}, "env/src/project")
    with task_sandbox(repo) as shop:
        workspace = shop.fresh()
        workspace.write("file.txt", b"new\n")
        assert (
            await shop.shell(workspace, "cat file.txt; echo more >> file.txt; cat file.txt")
        ).text == "new\nnew\nmore\n"
    assert (repo / "file.txt").read_text() == "old\n"


def base_of(repo: Path) -> Base:
    source = find_source(repo)
    return make_base(source.repo, source.head)


def test_what_is_missing_and_the_next_step(make_repo) -> None:
    repo = make_repo({"requirements.txt": "attrs\n", "package.json": '{"dependencies": {"x": "1"}}'})
    found = find_environment(repo, EnvironmentSettings(), base_of(repo))
    assert "requirements.txt asks for dependencies" in found.missing and "scrout env build" in found.missing
    assert "package.json asks for dependencies" in found.missing
    (repo / "node_modules").mkdir()
    make_venv(repo / ".venv")
    found = find_environment(repo, EnvironmentSettings(), base_of(repo))
    assert (found.missing, found.label) == ("", "the repository's .venv; its node_modules")


def test_a_setup_command_comes_before_a_venv_that_is_not_named(make_repo) -> None:
    repo = make_repo({"a": ""})
    make_venv(repo / "venv")
    setup = EnvironmentSettings(setup="echo ok")
    assert "environment.setup" in find_environment(repo, setup, base_of(repo)).missing
    named = find_environment(repo, EnvironmentSettings(setup="echo ok", venv="venv"), base_of(repo))
    assert (named.label, named.missing) == ("the repository's venv", "")


async def test_node_modules_of_the_repository(make_repo, task_sandbox) -> None:
    repo = make_repo({"package.json": "{}", ".gitignore": "node_modules\n"})
    (repo / "node_modules" / "here").mkdir(parents=True)
    with task_sandbox(repo) as shop:
        workspace = shop.fresh()
        assert (await shop.shell(workspace, "ls node_modules")).text == "here\n"
        assert (await shop.shell(workspace, "touch node_modules/x")).exit_code != 0


async def test_node_modules_that_are_a_link_to_a_folder_of_the_host(make_repo, task_sandbox, tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "key").write_text("planted secret")
    repo = make_repo({"package.json": "{}"})
    (repo / "node_modules").symlink_to(tmp_path / "private")
    with task_sandbox(repo) as shop:
        assert "planted" not in (await shop.shell(shop.fresh(), "cat node_modules/key")).text


async def test_programs_of_other_languages_outside_of_usr(make_repo, task_sandbox, tmp_path: Path, monkeypatch) -> None:
    """They are found and started; what lies beside them in the user's folders is not seen."""
    home = Path(os.environ["HOME"])
    files = {
        "node/bin/node": "echo node $0",
        "go/bin/go": "echo go $0",
        "go/src/runtime/x": "",
        ".cargo/bin/cargo": "echo cargo $RUSTUP_HOME",
        ".cargo/credentials.toml": "planted secret",
        ".rustup/settings.toml": "",
        "node/private": "planted secret",
    }
    for path, content in files.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(f"#!/bin/sh\n{content}\n")
        (home / path).chmod(0o755)
    monkeypatch.setenv("PATH", f"{home}/node/bin:{home}/go/bin:{home}/.cargo/bin:/usr/bin:/bin")
    monkeypatch.delenv("RUSTUP_HOME", raising=False)
    repo = make_repo({"package.json": "{}", "go.mod": "module m\n", "Cargo.toml": ""})
    with task_sandbox(repo) as shop:
        done = await shop.shell(shop.fresh(), f"go; cargo; node; cat {home}/.cargo/c* {home}/node/private")
        assert done.text.splitlines()[:2] == [f"go {home}/go/bin/go", f"cargo {home}/.rustup"]
        assert f"node {home}/node/bin/node" in done.text and "planted" not in done.text
