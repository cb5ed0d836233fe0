"""Any program as a fixer: it runs inside the sandbox, on the workspace, with no network except a connection to the
meter.

A relay inside joins a loopback port to the meter's socket, so that the program sees the meter as an HTTP endpoint. Its
key is a dummy. Its home is empty except for files of the preset, and is removed when it ends.
"""

from __future__ import annotations

import contextlib
import posixpath
import re
from abc import abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator, model_validator

from scrout.base import ConfigError
from scrout.config.settings import ChatApi
from scrout.fix.kind import Ended, ModelFixer, ModelJob
from scrout.fix.presets import HOMES, PRESETS, Preset, fill

if TYPE_CHECKING:
    from scrout.fix.program import Program
    from scrout.sandbox.task_sandbox import TaskSandbox

LOG_NAME = "agent.log"
LOG_BYTES = 8_000_000
"""Maximum log size: the first and the last half are kept."""
PORT = 8377
GRACE_S = 60.0
"""The caller's timeout ends the attempt; the sandbox's own is only a fallback."""
NO_KEY = "no-key"
_INSIDE = "/opt/scrout/attempt"
_SOCKET = "/opt/scrout/meter"
_RELAY = "/opt/scrout/relay.py"
_SETTLE_IN = f'cp -r {_INSIDE}/home/. "$HOME" && exec "$@"'
"""For sh. Copied, because programs write beside their settings."""


class ProgramFixer(ModelFixer):
    """A fixer that is a separate program."""

    env: dict[str, str] = Field(default={})
    """Variables of the program; may contain {model}, {effort}, {url}, {key} and {prompt_file}."""
    mounts: tuple[str, ...] = ()
    """More folders that the program needs; absolute paths."""

    @field_validator("mounts")
    @classmethod
    def _mounts_are_absolute(cls, mounts: tuple[str, ...]) -> tuple[str, ...]:
        if not all(mount.startswith("/") for mount in mounts):
            raise ValueError("`mounts` are absolute paths")
        return mounts

    @property
    @abstractmethod
    def preset_used(self) -> Preset:
        """How to call the program."""

    def _with_env(self, preset: Preset) -> Preset:
        return replace(preset, env={**preset.env, **self.env})

    def prompt(self, task: str) -> str:
        """The prompt for the program."""
        from scrout.fix.prompt import fill as fill_prompt

        return fill_prompt("command.md", task=task)

    def missing(self) -> str:
        from scrout.fix.program import find_preset

        try:
            find_preset(self.preset_used)
        except ConfigError as error:
            return str(error)
        return ""

    def refuse(self, task_sandbox: TaskSandbox) -> None:
        from scrout.fix.program import find_preset

        tier = task_sandbox.tier
        if not tier.mounts:
            raise ConfigError(
                f"fixer {self.name!r} runs a program, which needs the sandbox tier bubblewrap or container. This one "
                f"is {tier.name}. Choose another with --sandbox; `scrout doctor` says what is missing."
            )
        if not tier.brings_tools:
            find_preset(self.preset_used)
        for path in self.mounts:
            if not Path(path).exists():
                raise ConfigError(f"fixer {self.name!r} mounts {path}, which does not exist. Correct its `mounts`.")

    def leftovers(self) -> tuple[str, ...]:
        return self.preset_used.leftovers

    async def work(self, job: ModelJob) -> Ended:
        """Run the program in the workspace to its end. Its log goes to the attempt's folder."""
        from scrout.fix import relay
        from scrout.fix.program import find_preset
        from scrout.redact import redact
        from scrout.sandbox.output import Output
        from scrout.sandbox.tier import Mount

        task_sandbox, folder = job.task_sandbox, job.given.folder
        prompt = self.prompt(job.prompt)
        preset = fill(
            self.preset_used,
            model=self.model,
            effort=self.effort,
            url=f"http://127.0.0.1:{PORT}",
            key=NO_KEY,
            prompt_file=f"{_INSIDE}/prompt.md",
        )
        inside = _furnish(folder / "inside", prompt, preset)
        program = _image_program(preset) if task_sandbox.tier.brings_tools else find_preset(preset)
        relayed = [_python(task_sandbox), "-I", _RELAY, _SOCKET, str(PORT), "--"]
        mounts = (
            *program.mounts,
            *(Mount(Path(path), path) for path in self.mounts),
            Mount(inside, _INSIDE),
            Mount(job.socket, _SOCKET),
            Mount(Path(relay.__file__), _RELAY),
        )
        output = Output(LOG_BYTES)
        try:
            done = await task_sandbox.run(
                job.workspace,
                ["/bin/sh", "-c", _SETTLE_IN, "sh", *relayed, *program.argv, *preset.command[1:]],
                timeout_s=self.cap_seconds + GRACE_S,
                variables=preset.env,
                mounts=mounts,
                stdin=prompt.encode("utf-8", "replace"),
                output=output,
            )
        finally:  # a cap cancels this, and then the log is most useful
            said = redact(output.joined().decode("utf-8", "replace"))
            with contextlib.suppress(OSError):  # a log that cannot be stored is no reason to lose the work
                (folder / LOG_NAME).write_text(said, encoding="utf-8", errors="replace")
        if done.exit_code == 0:
            return "finished", f"{self.agent} ended by itself"
        last = " ".join(said.split())[-300:]
        return "crashed", f"{self.agent} ended with exit code {done.exit_code}: {last or 'no output'}"


class CommandFixer(ProgramFixer):
    kind: Literal["command"] = "command"
    preset: Literal["", "claude-code", "codex", "aider", "opencode"] = ""
    """A program that scrout can call."""
    command: tuple[str, ...] = ()
    """The program and its arguments, if no preset fits.

    May contain {model}, {effort}, {url} (the endpoint without /v1), {key} and {prompt_file}; the task is also on
    standard input.
    """

    @model_validator(mode="before")
    @classmethod
    def _agents_have_a_home(cls, given: Any) -> Any:
        # With the user's own endpoint, the maker's key would be sent to a third party.
        if isinstance(given, dict) and not given.get("base_url"):
            return HOMES.get(str(given.get("preset")), {}) | given
        return given

    @model_validator(mode="after")
    def _is_one_program(self) -> CommandFixer:
        if bool(self.preset) == bool(self.command):
            raise ValueError(f"fixer {self.name!r} of kind command needs `preset` or `command`, one of the two")
        return self

    @property
    def agent(self) -> str:
        if self.preset:
            return self.preset
        return re.sub(r"[^a-z0-9._-]", "-", posixpath.basename(self.command[0]).lower()).lstrip("._-") or "command"

    @property
    def api(self) -> ChatApi:  # type: ignore[override]
        return PRESETS[self.preset].protocol if self.preset else ""

    @property
    def preset_used(self) -> Preset:
        own = Preset(protocol="chat", command=self.command, install="")
        return self._with_env(PRESETS[self.preset] if self.preset else own)


def _image_program(preset: Preset) -> Program:
    """The program in a container's image, by its name there."""
    from scrout.fix.program import RUNNERS, Program
    from scrout.sandbox.tier import Mount

    if not preset.runner:
        return Program(preset.command[:1], ())
    target = f"{RUNNERS}/{preset.runner}"
    return Program(("python3", target), (Mount(Path(__file__).parents[1] / preset.runner, target),))


def _furnish(inside: Path, prompt: str, preset: Preset) -> Path:
    """The prompt and the files of the program's home, readable for the sandbox's user."""
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
    """Python for the relay: the system's, independent of the project's."""
    from scrout.sandbox.process import system_program

    if task_sandbox.tier.brings_tools:
        return "python3"
    system = system_program("python3")
    return system if system.startswith("/") else task_sandbox.environment.python or system


PART = CommandFixer
