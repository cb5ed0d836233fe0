"""What a program needs to be seen in the sandbox: layouts as installers make them, and some that really run there."""

from __future__ import annotations

import os
import shutil
import sys
import venv
from collections.abc import Iterable
from pathlib import Path

import pytest

from scrout.base import ConfigError
from scrout.fix import relay
from scrout.fix.presets import PRESETS
from scrout.fix.program import RUNNERS, find_preset, find_program
from scrout.programs import never_below
from scrout.sandbox.task_sandbox import TaskSandbox
from scrout.sandbox.tier import Mount

SYSTEM = "/usr/bin:/bin"


def script(path: Path, first: str, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{first}\n{text}")
    path.chmod(0o755)
    return path


def binary(path: Path) -> Path:
    """A native program: bash under another name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy("/bin/bash", path)
    return path


def link(path: Path, target: Path | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    return path


def shown(mounts: Iterable[Mount]) -> set[str]:
    return {mount.target for mount in mounts}


def make_venv(folder: Path) -> Path:
    venv.create(folder, symlinks=True)
    return folder


def test_what_lies_under_usr_needs_nothing() -> None:
    program = find_program("sh", SYSTEM)
    assert program.argv[0].startswith(("/usr/", "/bin/")) and program.mounts == ()


@pytest.mark.parametrize("entry", ["bin", "./bin", "", "{repo}/bin"])
def test_no_program_of_a_repository_passes_for_an_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    """It would spend for the caller, and its pyvenv.cfg would have any folder of the host mounted for it."""
    repo, secrets = tmp_path / "repo", tmp_path / "secrets"
    (secrets / "bin").mkdir(parents=True)
    for folder in (repo / "bin", repo):
        binary(folder / "agent")
    (repo / "pyvenv.cfg").write_text(f"home = {secrets}/bin\n")
    never_below(repo)
    monkeypatch.chdir(repo)
    monkeypatch.setenv("PATH", f"{entry.format(repo=repo)}:{SYSTEM}")
    with pytest.raises(ConfigError, match="'agent' is not on PATH"):
        find_program("agent")
    # Where scrout itself was started from, or what the user names by its path, is the user's choice.
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", str(repo / "bin" / "python"))
        assert find_program("agent").argv == (f"{repo}/bin/agent",)
    assert find_program(str(binary(tmp_path / "own" / "agent"))).argv == (f"{tmp_path}/own/agent",)


def test_an_npm_package_comes_with_everything_it_was_installed_with(tmp_path: Path) -> None:
    modules = tmp_path / "prefix" / "lib" / "node_modules"
    inner = script(modules / "outer" / "node_modules" / "agent" / "cli.js", "/usr/bin/env node")
    link(tmp_path / "prefix" / "bin" / "agent", "../lib/node_modules/outer/node_modules/agent/cli.js")
    node = binary(tmp_path / "node-20" / "bin" / "node")

    program = find_program("agent", f"{tmp_path}/prefix/bin:{node.parent}:{SYSTEM}")

    assert program.argv == (str(node), str(inner)), "inside, PATH may lead to no node, or to another one"
    assert shown(program.mounts) == {str(modules), str(node.parent)}
    assert all(str(mount.source) == mount.target and not mount.writable for mount in program.mounts)


def test_a_native_program_in_a_package_is_run_as_it_is(tmp_path: Path) -> None:
    real = binary(tmp_path / "node_modules" / "@maker" / "agent" / "bin" / "agent.exe")
    link(tmp_path / "node_modules" / ".bin" / "agent", "../@maker/agent/bin/agent.exe")
    program = find_program("agent", str(tmp_path / "node_modules" / ".bin"))
    assert program.argv == (str(real),) and shown(program.mounts) == {str(tmp_path / "node_modules")}


def test_a_native_program_of_its_own_comes_with_its_folder(tmp_path: Path) -> None:
    real = binary(tmp_path / "share" / "agent" / "versions" / "2.1")
    link(tmp_path / "bin" / "agent", link(tmp_path / "share" / "agent" / "current", real))
    program = find_program("agent", str(tmp_path / "bin"))
    assert program.argv == (str(real),) and shown(program.mounts) == {str(real.parent)}


def test_a_script_names_its_interpreter_through_options_of_env(tmp_path: Path) -> None:
    real = script(tmp_path / "tools" / "agent", "/usr/bin/env -S COLOR=0 interpreter --flag")
    interpreter = binary(tmp_path / "elsewhere" / "interpreter")
    program = find_program("agent", f"{real.parent}:{interpreter.parent}")
    assert program.argv == (str(interpreter), "--flag", str(real))
    assert shown(program.mounts) == {str(real.parent), str(interpreter.parent)}


async def test_a_program_of_a_virtual_environment_runs_with_its_own_python(tmp_path: Path, shop: TaskSandbox) -> None:
    # As pipx lays it out: the environment somewhere, and a link to its script on PATH.
    folder = make_venv(tmp_path / "pipx" / "venvs" / "agent")
    script(folder / "bin" / "agent", f"{folder}/bin/python", "import sys; print(sys.prefix, sys.argv[1:])\n")
    link(tmp_path / "bin" / "agent", folder / "bin" / "agent")

    program = find_program("agent", str(tmp_path / "bin"))
    done = await shop.run(shop.fresh(), [*program.argv, "one"], mounts=program.mounts)

    assert done.text == f"{folder} ['one']\n"
    assert str(folder) in shown(program.mounts)
    assert len(program.mounts) <= 2, "no more than the environment and the Python it was made from"


async def test_a_python_that_is_a_link_to_a_link_runs(tmp_path: Path, shop: TaskSandbox) -> None:
    named = link(tmp_path / "pythons" / "latest", sys.base_prefix)
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    hop = link(tmp_path / "links" / "python3.x", named / "bin" / python)
    folder = make_venv(tmp_path / "venv")
    (folder / "pyvenv.cfg").write_text(f"home = {named}/bin\n")
    for name in ("python", "python3"):
        (folder / "bin" / name).unlink()
    link(folder / "bin" / "python", hop)
    script(folder / "bin" / "agent", f"{folder}/bin/python", "import json, sys; print(sys.prefix)\n")

    program = find_program("agent", str(folder / "bin"))
    done = await shop.run(shop.fresh(), list(program.argv), mounts=program.mounts)

    assert done.text == f"{folder}\n"
    assert str(tmp_path / "links") not in shown(program.mounts), "of a folder of links the one alone"


async def test_an_environment_behind_a_link_runs(tmp_path: Path, shop: TaskSandbox) -> None:
    named = link(tmp_path / "current", make_venv(tmp_path / "venv-7"))
    script(named / "bin" / "agent", f"{named}/bin/python", "import sys; print(sys.prefix)\n")
    program = find_program("agent", str(named / "bin"))
    done = await shop.run(shop.fresh(), list(program.argv), mounts=program.mounts)
    assert (done.exit_code, done.text) == (0, f"{tmp_path}/venv-7\n")


async def test_a_script_of_an_interpreter_that_path_knows_runs_inside(tmp_path: Path, shop: TaskSandbox) -> None:
    interpreter = binary(tmp_path / "language" / "bin" / "shell-of-ours")
    real = script(tmp_path / "node_modules" / "agent" / "run", "/usr/bin/env shell-of-ours", 'echo "ran $1"\n')
    program = find_program("run", f"{real.parent}:{interpreter.parent}")
    done = await shop.run(shop.fresh(), [*program.argv, "it"], mounts=program.mounts)
    assert (done.exit_code, done.text) == (0, "ran it\n")


async def test_scrouts_own_python_runs_the_relay_inside(shop: TaskSandbox) -> None:
    program = find_program(os.path.realpath(sys.executable))  # noqa: ASYNC240
    argv = [*program.argv, "-I", "/opt/scrout/relay.py", "/no/socket", "8737", "--", "sh", "-c", "cat; exit 3"]
    mounts = (*program.mounts, Mount(Path(relay.__file__), "/opt/scrout/relay.py"))
    done = await shop.run(shop.fresh(), argv, mounts=mounts, stdin=b"a task")
    assert (done.exit_code, done.text) == (3, "a task")


def test_a_home_is_never_shown(tmp_path: Path) -> None:
    binary(Path.home() / "agent")
    with pytest.raises(ConfigError, match=r"would see that whole folder.*`mounts`"):
        find_program("agent", str(Path.home()))


def test_nor_is_a_folder_that_holds_a_home(tmp_path: Path) -> None:
    binary(tmp_path / "agent")
    assert Path.home().is_relative_to(tmp_path)
    with pytest.raises(ConfigError, match="`mounts`"):
        find_program("agent", str(tmp_path))


def test_a_folder_within_a_home_is(tmp_path: Path) -> None:
    real = binary(Path.home() / ".agent" / "bin" / "agent")
    assert shown(find_program("agent", str(real.parent)).mounts) == {str(real.parent)}


def test_a_missing_program_of_a_preset_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'claude' is not on PATH.*npm install --global @anthropic-ai/claude-code"):
        find_program("claude", str(tmp_path))


def test_a_missing_program_of_anybodys(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'my-agent' is not on PATH"):
        find_program("my-agent", str(tmp_path))


def test_a_missing_interpreter_is_told_by_its_name(tmp_path: Path) -> None:
    real = script(tmp_path / "tools" / "agent", "/usr/bin/env no-such-node")
    with pytest.raises(ConfigError, match="'no-such-node' is not on PATH"):
        find_program("agent", str(real.parent))


def test_a_shim_is_passed_over_for_the_program_itself(tmp_path: Path) -> None:
    script(tmp_path / "manager" / "shims" / "agent", "/bin/sh")
    real = binary(tmp_path / "manager" / "versions" / "1" / "bin" / "agent")
    assert find_program("agent", f"{tmp_path}/manager/shims:{real.parent}").argv == (str(real),)


def test_a_shim_alone_is_refused(tmp_path: Path) -> None:
    script(tmp_path / "manager" / "shims" / "agent", "/bin/sh")
    with pytest.raises(ConfigError, match="version manager's shim"):
        find_program("agent", str(tmp_path / "manager" / "shims"))


def test_links_in_a_circle_are_told(tmp_path: Path) -> None:
    # shutil.which passes over broken symlinks, so only a script's first line can name it.
    link(tmp_path / "a", tmp_path / "b")
    link(tmp_path / "b", tmp_path / "a")
    real = script(tmp_path / "tools" / "agent", str(tmp_path / "a"))
    with pytest.raises(ConfigError, match="broken symlink"):
        find_program("agent", str(real.parent))


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    real = binary(tmp_path / "tools" / "agent")
    assert find_program(str(real), SYSTEM).argv == (str(real),)


def test_a_runner_is_run_by_the_programs_own_python(tmp_path: Path) -> None:
    folder = make_venv(tmp_path / "venv")
    script(folder / "bin" / "mini", f"{folder}/bin/python")
    program = find_preset(PRESETS["mini"], str(folder / "bin"))
    assert program.argv == (f"{folder}/bin/python", "-I", f"{RUNNERS}/mini_runner.py")
    (runner,) = (mount for mount in program.mounts if mount.target == program.argv[-1])
    assert runner.source.is_file() and str(folder) in shown(program.mounts)


def test_without_a_runner_a_preset_is_its_program(tmp_path: Path) -> None:
    real = binary(tmp_path / "tools" / "claude")
    assert find_preset(PRESETS["claude-code"], str(real.parent)) == find_program("claude", str(real.parent))
