"""The container tier's command line, and how it behaves when the engine is missing, refuses, or must be cut off."""

from __future__ import annotations

import asyncio
import os
import shlex
from pathlib import Path

import pytest

from scrout.base import SandboxError
from scrout.config.settings import SandboxSettings
from scrout.sandbox.probe import probe
from scrout.sandbox.tier import SANDBOX_UID, Command, Copy, Limits, Mount
from scrout.sandbox.tiers.container import Container, engine_environment


def command(folder: Path, *argv: str, limits: Limits | None = None) -> Command:
    (folder / "copy").mkdir(exist_ok=True)
    (folder / "scratch").mkdir(exist_ok=True)
    return Command(
        argv=list(argv),
        cwd="/code/re po",
        view=Copy(folder / "copy", "/code/re po", folder / "scratch", 0, 0),
        mounts=(Mount(Path("/opt/py,3"), "/opt/py,3"), Mount(folder / "out", "/opt/scrout/outbox", writable=True)),
        env={"PATH": "/usr/bin:/bin", "A": "b c"},
        aliases=("/testbed",),
        limits=limits or Limits(memory_mb=100, total_memory_mb=200, processes=30, file_mb=2, open_files=50),
    )


def stand_in(folder: Path, run: str, name: str = "docker") -> tuple[str, Path]:
    """A docker that records its arguments, one call a line, and on `run` does what it is told."""
    log = folder / "calls"
    program = folder / "bin" / name
    program.parent.mkdir()
    program.write_text(f'#!/bin/bash\nprintf "%q " "$@" >> {log}; echo >> {log}\ncase $1 in run) {run};; esac\n')
    program.chmod(0o755)
    return str(program), log


# Does what an engine does with the command at the end of its arguments.
OBEY = 'while [ "$1" != image ]; do shift; done; shift; exec /bin/sh "$@"'


def test_the_whole_command_line(tmp_path: Path) -> None:
    user = f"{SANDBOX_UID}:{SANDBOX_UID}" if os.geteuid() == 0 else f"{os.geteuid()}:{os.getegid()}"
    assert Container("/usr/bin/docker", "image").argv(command(tmp_path, "echo", "hi"), "scrout-1") == [
        *("/usr/bin/docker", "run", "--rm", "--init", "--interactive", "--pull=never", "--name=scrout-1"),
        *("--network=none", "--hostname=sandbox", "--ipc=private"),
        *("--cap-drop=ALL", "--security-opt=no-new-privileges", "--read-only"),
        "--tmpfs=/tmp:rw,nosuid,nodev,exec,mode=1777,size=2097152",
        f"--user={user}",
        *("--memory=200m", "--memory-swap=200m", "--pids-limit=30", "--shm-size=2097152"),
        *("--ulimit=fsize=2097152", "--ulimit=nofile=50", "--ulimit=core=0", "--ulimit=data=104857600"),
        f"--mount=type=bind,source={tmp_path}/copy,target=/code/re po",
        f"--mount=type=bind,source={tmp_path}/copy,target=/testbed",
        '--mount=type=bind,"source=/opt/py,3","target=/opt/py,3",readonly',
        f"--mount=type=bind,source={tmp_path}/out,target=/opt/scrout/outbox",
        *("--env=PATH=/usr/bin:/bin", "--env=A=b c", "--workdir=/code/re po", "--entrypoint=/bin/sh", "image", "-c"),
        'mkdir -p /tmp/home; echo "scrout: ready" >&2 && exec "$@" 2>&1',
        *("sh", "echo", "hi"),
    ]


def test_podman_gets_what_docker_does_not_know(tmp_path: Path) -> None:
    argv = Container("/usr/bin/podman", "image").argv(command(tmp_path, "true"), "n")
    assert "--read-only-tmpfs=false" in argv
    assert ("--userns=keep-id" in argv) == (os.geteuid() != 0)


async def test_a_command_runs_and_its_container_is_left_to_the_engine(tmp_path: Path) -> None:
    program, log = stand_in(tmp_path, OBEY)
    done = await Container(program, "image").run(command(tmp_path, "sh", "-c", "echo out; echo err >&2; exit 7"))
    assert (done.exit_code, done.text) == (7, "out\nerr\n")
    assert [line.split()[0] for line in log.read_text().splitlines()] == ["run"]


async def test_a_refusal_of_the_engine_is_no_failure_of_the_command(tmp_path: Path) -> None:
    program, _ = stand_in(tmp_path, "echo 'docker: no such image' >&2; exit 125")
    with pytest.raises(SandboxError, match="no such image"):
        await Container(program, "image").run(command(tmp_path, "true"))


async def test_at_the_time_limit_the_container_is_removed(tmp_path: Path) -> None:
    program, log = stand_in(tmp_path, OBEY)
    done = await Container(program, "image").run(command(tmp_path, "sleep", "30", limits=Limits(timeout_s=0.5)))
    assert done.timed_out
    run, removal = map(shlex.split, log.read_text().splitlines())
    name = next(word for word in run if word.startswith("--name=")).removeprefix("--name=")
    assert removal == ["rm", "--force", name]


async def test_a_cancelled_command_is_removed_too(tmp_path: Path) -> None:
    program, log = stand_in(tmp_path, OBEY)
    running = asyncio.create_task(Container(program, "image").run(command(tmp_path, "sleep", "30")))
    await asyncio.sleep(0.5)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert "rm --force" in log.read_text()


def test_the_engines_client_is_given_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "planted")
    monkeypatch.setenv("DOCKER_HOST", "unix:///somewhere")
    assert engine_environment()["DOCKER_HOST"] == "unix:///somewhere"
    assert "planted" not in engine_environment().values()


def test_without_an_image_or_an_engine_the_probe_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = probe(SandboxSettings(tier="container"))
    assert found.tier is None and "sandbox.image" in found.remedy
    monkeypatch.setenv("PATH", str(tmp_path))
    found = probe(SandboxSettings(tier="container", image="image"))
    assert found.tier is None and "neither docker nor podman" in found.detail and "Install" in found.remedy
    program, _ = stand_in(tmp_path, "true")
    Path(program).write_text("#!/bin/sh\necho 'cannot connect to the daemon' >&2; exit 1\n")
    monkeypatch.setenv("PATH", str(Path(program).parent))
    found = probe(SandboxSettings(tier="container", image="image"))
    assert found.tier is None and "cannot connect to the daemon" in found.detail
