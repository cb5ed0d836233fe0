"""Any program as a fixer: it runs inside the sandbox, on the workspace, with no network but the way to the meter.

A relay inside joins a loopback port to the meter's socket, so that to the program the meter is an HTTP endpoint. It is
given a key that is none. Its home is empty but for what a preset writes there, and is gone when it ends.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

from scrout.base import ConfigError
from scrout.config.settings import Fixer
from scrout.fix import relay
from scrout.fix.presets import PRESETS, Preset, fill
from scrout.fix.program import RUNNERS, Program, find_preset
from scrout.fix.prompt import fill as fill_prompt
from scrout.records import Stop
from scrout.redact import redact
from scrout.sandbox.output import Output
from scrout.sandbox.process import system_program
from scrout.sandbox.task_sandbox import TaskSandbox
from scrout.sandbox.tier import Mount
from scrout.sandbox.workspace import Workspace

LOG_NAME = "agent.log"
LOG_BYTES = 8_000_000
"""Kept of what the program prints: the first and the last half."""
PORT = 8377
GRACE_S = 60.0
"""The caller's clock ends the attempt; the sandbox's own only stands behind it."""
NO_KEY = "no-key"
_INSIDE = "/opt/scrout/attempt"
_SOCKET = "/opt/scrout/meter"
_RELAY = "/opt/scrout/relay.py"
_SETTLE_IN = f'cp -r {_INSIDE}/home/. "$HOME" && exec "$@"'
"""For sh. Copied, because programs write beside their settings."""


def preset_of(fixer: Fixer) -> Preset:
    """How the fixer's program is called."""
    if fixer.kind == "mini":
        preset = PRESETS["mini"]
    elif fixer.preset:
        preset = PRESETS[fixer.preset]
    else:
        preset = Preset(protocol="chat", command=fixer.command, install="")
    return replace(preset, env={**preset.env, **fixer.env})


def refuse(fixer: Fixer, task_sandbox: TaskSandbox) -> None:
    """A ConfigError where the program cannot be run here; said before anything is paid."""
    tier = task_sandbox.tier
    if tier.name not in ("bubblewrap", "container"):
        raise ConfigError(
            f"fixer {fixer.name!r} runs a program, which needs a sandbox that can show it the meter and nothing else: "
            f"bubblewrap or container, and this one is {tier.name}. Choose another with --sandbox; `scrout doctor` "
            "says what is missing."
        )
    if not tier.brings_tools:
        find_preset(preset_of(fixer))
    for path in fixer.mounts:
        if not Path(path).exists():
            raise ConfigError(f"fixer {fixer.name!r} mounts {path}, which does not exist. Correct its `mounts`.")


async def work(
    fixer: Fixer, text: str, socket: Path, workspace: Workspace, task_sandbox: TaskSandbox, folder: Path
) -> tuple[Stop, str]:
    """Run the fixer's program in the workspace to its end; how that was, and in words. Its log goes to the folder."""
    prompt = text if fixer.kind == "mini" else fill_prompt("command.md", task=text)
    preset = fill(
        preset_of(fixer),
        model=fixer.model,
        effort=fixer.effort,
        url=f"http://127.0.0.1:{PORT}",
        key=NO_KEY,
        prompt_file=f"{_INSIDE}/prompt.md",
    )
    inside = _furnish(folder / "inside", prompt, preset)
    program = _image_program(preset) if task_sandbox.tier.brings_tools else find_preset(preset)
    argv = [*program.argv, *preset.command[1:]]
    mounts = (
        *program.mounts,
        *(Mount(Path(path), path) for path in fixer.mounts),
        Mount(inside, _INSIDE),
        Mount(socket, _SOCKET),
        Mount(Path(relay.__file__), _RELAY),
    )
    output = Output(LOG_BYTES)
    try:
        done = await task_sandbox.run(
            workspace,
            ["/bin/sh", "-c", _SETTLE_IN, "sh", _python(task_sandbox), "-I", _RELAY, _SOCKET, str(PORT), "--", *argv],
            timeout_s=fixer.cap_seconds + GRACE_S,
            variables=preset.env,
            mounts=mounts,
            stdin=prompt.encode("utf-8", "replace"),
            output=output,
        )
    finally:  # at a cap this is cancelled, and the log is wanted most
        said = redact(output.joined().decode("utf-8", "replace"))
        with contextlib.suppress(OSError):  # a log that cannot be kept is no reason to lose the work
            (folder / LOG_NAME).write_text(said, encoding="utf-8", errors="replace")
    if done.exit_code == 0:
        return "finished", f"{fixer.agent} ended by itself"
    last = " ".join(said.split())[-300:]
    return "crashed", f"{fixer.agent} ended with exit code {done.exit_code}: {last or 'it said nothing'}"


def _image_program(preset: Preset) -> Program:
    """The program where it comes with a container's image, by its name there."""
    if not preset.runner:
        return Program(preset.command[:1], ())
    target = f"{RUNNERS}/{preset.runner}"
    return Program(("python3", target), (Mount(Path(__file__).with_name(preset.runner), target),))


def _furnish(inside: Path, prompt: str, preset: Preset) -> Path:
    """The prompt, and what is to be in the program's home; the sandbox's user reads them, whoever that is."""
    home = inside / "home"
    home.mkdir(parents=True)
    (inside / "prompt.md").write_text(prompt, encoding="utf-8", errors="replace")
    for name, content in preset.files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(content, encoding="utf-8")
    for path in (inside, *inside.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return inside


def _python(task_sandbox: TaskSandbox) -> str:
    """For the relay: the system's, whatever the project has."""
    if task_sandbox.tier.brings_tools:
        return "python3"
    system = system_program("python3")
    return system if system.startswith("/") else task_sandbox.environment.python or system
