"""The container tier: one Docker or Podman container per command, from an image with the project's tool chain.

Covered: what the engine isolates, with no network, no capabilities, no new privileges, a read-only root, an ordinary
user, and limits on memory, processes, files and time. Not covered: bugs of the kernel or the engine, and the image's
content: use one that you trust. The repository is a copy, mounted at its own path, so that editable installs see it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from scrout.config.settings import SandboxSettings
from scrout.programs import NEUTRAL, find_program, search_path
from scrout.sandbox.probe import trial
from scrout.sandbox.process import SAY_READY, Process, kill_group, run_process
from scrout.sandbox.tier import Command, Completed, Copy, Mount, ProbedTier, sandbox_user

_MEBIBYTE = 1024 * 1024


@dataclass(frozen=True)
class Container:
    """Runs commands in containers of one image."""

    program: str
    """Absolute path of docker or podman."""
    image: str
    name: ClassVar[str] = "container"
    strength: ClassVar[int] = 3
    weakness: ClassVar[str] = ""
    overlays = False
    mounts = True
    brings_tools = True

    @classmethod
    def probe(cls, settings: SandboxSettings) -> ProbedTier:
        if not settings.image:
            step = "Set sandbox.image to one with bash, git and the dependencies."
            return ProbedTier(cls.name, None, "no image is named", step)
        program, why = find_engine()
        if not program:
            return ProbedTier(cls.name, None, why, "Install and start Docker or Podman.")
        found = trial(cls(program, settings.image), f"{program} with {settings.image}")
        return found if found.tier else replace(found, remedy="Pull the image first, and see that it has bash.")

    @property
    def user(self) -> int:
        return sandbox_user()

    def standing(self, command: Command) -> None:
        return None

    async def run(self, command: Command) -> Completed:
        name = f"scrout-{secrets.token_hex(8)}"

        async def end(process: Process) -> None:
            # If the client dies, the container keeps running. So the engine is asked to remove it, even after a normal
            # end, because a container whose client was stopped early may still be starting.
            if process.returncode is None:
                await self._remove(name)
            await kill_group(process)

        assert isinstance(command.view, Copy)
        # Podman's monitor writes a file into its start folder when a container runs out of memory.
        folder = command.view.scratch
        return await run_process(self.argv(command, name), command, end=end, env=engine_environment(), folder=folder)

    def argv(self, command: Command, name: str) -> list[str]:
        """The complete command line."""
        limits, view = command.limits, command.view
        assert isinstance(view, Copy)
        tmpfs = f"rw,nosuid,nodev,exec,mode=1777,size={limits.file_mb * _MEBIBYTE}"
        argv = [self.program, "run", "--rm", "--init", "--interactive", "--pull=never", f"--name={name}"]
        argv += [f"--network={'host' if command.network else 'none'}", "--hostname=sandbox", "--ipc=private"]
        argv += ["--cap-drop=ALL", "--security-opt=no-new-privileges", "--read-only", f"--tmpfs=/tmp:{tmpfs}"]
        argv += [f"--user={self.user}:{self.user if os.geteuid() == 0 else os.getegid()}"]
        if Path(self.program).name == "podman":
            # crun would raise this limit by itself, which an engine inside of a container may not. --pids-limit bounds
            # the processes; this limit is shared by all processes of the sandbox's user.
            argv += ["--ulimit=nproc=4096", "--read-only-tmpfs=false"]
            # Without this, a rootless caller would be root inside, and another user on the files.
            argv += ["--userns=keep-id"] if os.geteuid() != 0 else []
        argv += [f"--memory={limits.total_memory_mb}m", f"--memory-swap={limits.total_memory_mb}m"]
        argv += [f"--pids-limit={limits.processes}", f"--shm-size={limits.file_mb * _MEBIBYTE}"]
        argv += [f"--ulimit=fsize={limits.file_mb * _MEBIBYTE}", f"--ulimit=nofile={limits.open_files}"]
        argv += ["--ulimit=core=0", f"--ulimit=data={limits.memory_mb * _MEBIBYTE}"]
        argv += [_mount(Mount(view.folder, target, writable=True)) for target in (view.target, *command.aliases)]
        argv += [_mount(mount) for mount in command.mounts]
        # An empty PATH means the image's own.
        argv += [f"--env={key}={value}" for key, value in command.env.items() if value or key != "PATH"]
        # Not the image's entry point, which may be anything.
        argv += [f"--workdir={command.cwd}", "--entrypoint=/bin/sh", self.image]
        return [*argv, "-c", f"mkdir -p /tmp/home; {SAY_READY}", "sh", *command.argv]

    async def _remove(self, name: str) -> None:
        # Podman waits ten seconds for a container to end by itself; Docker does not, and has no such option.
        impatient = ("--time=0",) if "podman" in Path(self.program).name else ()
        for _ in range(3):
            removing = await asyncio.create_subprocess_exec(
                *(self.program, "rm", "--force", *impatient, name),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                env=engine_environment(),
                cwd=NEUTRAL,
            )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(20):
                    if await removing.wait() == 0:
                        return
            if removing.returncode is None:
                removing.kill()
            await asyncio.sleep(0.1)


def _mount(mount: Mount) -> str:
    # As CSV, because a path may contain a comma.
    fields = ["type=bind", f"source={mount.source}", f"target={mount.target}"]
    fields += [] if mount.writable else ["readonly"]
    quote = ('"' + field.replace('"', '""') + '"' if set(field) & set(',"') else field for field in fields)
    return f"--mount={','.join(quote)}"


def engine_environment() -> Mapping[str, str]:
    """Variables that a client needs to find its engine. They are not passed on to containers."""
    names = [name for name in os.environ if name.startswith(("DOCKER_", "CONTAINER_", "CONTAINERS_"))]
    names += ["HOME", "XDG_RUNTIME_DIR"]
    return {"PATH": search_path()} | {name: os.environ[name] for name in names if name in os.environ}


def find_engine() -> tuple[str, str]:
    """A client whose engine answers, or empty and the reason."""
    said = ""
    for name in ("docker", "podman"):
        program = find_program(name)
        if program is None:
            continue
        try:
            done = subprocess.run(
                [program, "info"],
                capture_output=True,
                text=True,
                timeout=15,
                check=False,
                env=dict(engine_environment()),
                cwd=NEUTRAL,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            said = said or f"{name}: {error}"
            continue
        if done.returncode == 0:
            return program, ""
        said = said or f"{name} has no engine: {done.stderr.strip()[-200:]}"
    return "", said or "neither docker nor podman is installed"


PART = Container
