"""Builds a repository's environment: runs its recipes line by line, in a sandbox with network.

A build runs code of the project and of its dependencies. It sees the base commit, the caller's programs and package
index configuration, and writes to its own folder. It can use the host's network, loopback included. The size of that
folder is not limited.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from scrout.base import SandboxError
from scrout.config.settings import EnvironmentSettings
from scrout.files import plain_beneath
from scrout.git import GitError, find_repository
from scrout.programs import find_program
from scrout.sandbox.environment import Environment, find_environment, plan_environment
from scrout.sandbox.environment_cache import BuiltEnvironment, FailedBuild, Slot, cached_environments, downloads, evict
from scrout.sandbox.process import measure
from scrout.sandbox.registries import find_registries, without_credentials
from scrout.sandbox.task_sandbox import open_workspaces
from scrout.sandbox.tier import Command, Completed, Limits, Mount, Tier
from scrout.sandbox.workspace import Base, Workspace, remove_folder

MOST_LEFT = 1000
"""Maximum number of paths that a build may leave in the repository; each is mounted for every later command."""
_HOME = "/opt/scrout/home"
_CACHE = "/opt/scrout/cache"
_TAIL_CHARACTERS = 4_000
_LIMITS = Limits(
    memory_mb=16_384,
    processes=2048,
    file_mb=8192,
    total_memory_mb=16_384,
    disk_mb=20_480,
    files=2_000_000,
    output_bytes=200_000,
)
# In a script of several lines, reports which one failed. Every bash of the build reads it, so the outermost reports
# last.
_TRAP = """trap 'printf "\\n[failed] %s\\n" "$BASH_COMMAND"' ERR\n"""
_FAILED_LINE = re.compile(r"^\[failed\] (.+)$", re.M)
_COMPLAINT = re.compile(r"error|not found|no such|cannot|could not|unable|denied|failed", re.IGNORECASE)

Progress = Callable[[str], None]


async def build_environment(
    base: Base,
    tier: Tier,
    settings: EnvironmentSettings,
    progress: Progress = lambda words: None,
    *,
    force: bool = False,
) -> Environment:
    """Build the missing environments that have not failed before, with `force` all of them. The result names what is
    still missing.
    """
    plan = plan_environment(base.repo, settings, base)
    if plan.slots and not tier.mounts:
        raise SandboxError(
            f"an environment must be built at the path where it is mounted later, and the {tier.name} tier cannot "
            f"mount anything. Use the "
            "bubblewrap tier, or install the project's dependencies into a .venv in the repository."
        )
    for slot in plan.slots:
        async with cached_environments(
            slot, lambda: progress("waiting for another process that builds this environment")
        ):
            if force or not (slot.built() or slot.failed()):
                outcome = await _Build(slot, base, tier, plan.start, settings, progress).run()
                if isinstance(outcome, FailedBuild):
                    slot.folder.with_suffix(".failed").write_text(outcome.model_dump_json(), encoding="utf-8")
    evict(settings.keep)
    return find_environment(base.repo, settings, base)


class _Build:
    """The build of one recipe into the cache."""

    def __init__(
        self,
        slot: Slot,
        base: Base,
        tier: Tier,
        start: Environment,
        settings: EnvironmentSettings,
        progress: Progress,
    ) -> None:
        self.slot = slot
        self.base = base
        self.tier = tier
        self.start = start
        self.settings = settings
        self.progress = progress
        # The slot is locked, so existing files were left by a process that died.
        self.making = slot.folder.with_name(f".making-{slot.key}")
        self.registries = find_registries(_HOME)

    async def run(self) -> BuiltEnvironment | FailedBuild:
        started = time.monotonic()
        remove_folder(self.making)
        try:
            self._furnish()
            with open_workspaces(self.base, self.tier) as workspaces:
                workspace = workspaces.fresh()
                failure = await self._lines(workspace, started + self.settings.timeout_s)
                left = failure or await self._keep_what_is_left(workspace)
            if isinstance(left, FailedBuild):
                return left
            return self._finish(left, time.monotonic() - started)
        except OSError as error:
            raise SandboxError(
                f"building an environment failed under {self.making.parent}: {error}. Free some disk space, or point "
                f"XDG_CACHE_HOME at a larger disk."
            ) from None
        finally:
            remove_folder(self.making)

    def _furnish(self) -> None:
        """The folders that a build writes to and its configuration, all owned by the sandbox's user."""
        self.making.mkdir(mode=0o755)
        root, home, cache = self.making / "root", self.making / "home", downloads(self.base.repo)
        parents = [home / PurePosixPath(mount.target).relative_to(_HOME).parent for mount in self._home_mounts()]
        for folder in (root, home, self.making / "tree", cache, home / "tmp", *parents):
            folder.mkdir(parents=True, exist_ok=True)
        exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in self.registries.variables.items())
        for path, content in (
            (home / ".bash_env", exports + _TRAP),
            *((root / n, c) for n, c in self.slot.recipe.files),
        ):
            path.write_text(content, encoding="utf-8")
            path.chmod(0o600)
        (self.making / "passwd").write_text(f"sandbox:x:{self.tier.user}:{self.tier.user}::{_HOME}:/bin/bash\n")
        (self.making / "passwd").chmod(0o644)
        if os.geteuid() == 0:
            for top in (root, home, cache):
                for path in (top, *(top.rglob("*") if top != cache else ())):
                    os.chown(path, self.tier.user, self.tier.user, follow_symlinks=False)

    def _home_mounts(self) -> list[Mount]:
        return [mount for mount in self.registries.mounts if PurePosixPath(mount.target).is_relative_to(_HOME)]

    async def _lines(self, workspace: Workspace, deadline: float) -> FailedBuild | None:
        lines = self.slot.recipe.lines
        for number, line in enumerate(lines, 1):
            shown = without_credentials(" ".join(line.split()))
            self.progress(f"building the environment, {number} of {len(lines)}: {shown[:100]}")
            left_s = max(deadline - time.monotonic(), 0.1)
            done = await self._command(workspace, ["bash", "-E", "-e", "-o", "pipefail", "-c", line], left_s)
            if done.exit_code != 0:
                return self._failed(line, done)
        return None

    async def _command(
        self, workspace: Workspace, argv: list[str], timeout_s: float, *, network: bool = True
    ) -> Completed:
        workspace.unlock()
        limits = Limits(**{**vars(_LIMITS), "timeout_s": timeout_s})
        mounts = (
            *self.start.mounts,
            Mount(self.making / "root", self.slot.place, writable=True),
            Mount(self.making / "home", _HOME, writable=True),
            Mount(downloads(self.base.repo), _CACHE, writable=True),
            Mount(self.making / "passwd", "/etc/passwd"),
            *_uv(),
            *self.registries.mounts,
        )
        return await self.tier.run(
            Command(
                argv=argv,
                cwd=str(self.base.repo),
                view=workspace.view,
                mounts=mounts,
                env=self._variables(),
                limits=limits,
                network=network,
            )
        )

    def _variables(self) -> dict[str, str]:
        recipe = self.slot.recipe
        path = [*(self.slot.placed(folder) for folder in recipe.path), self.start.path]
        path += [str(PurePosixPath(mount.target).parent) for mount in _uv()]
        return {
            **self.start.variables,
            "HOME": _HOME,
            "TMPDIR": f"{_HOME}/tmp",
            "BASH_ENV": f"{_HOME}/.bash_env",
            "CI": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "PIP_CACHE_DIR": f"{_CACHE}/pip",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_INPUT": "1",
            "UV_CACHE_DIR": f"{_CACHE}/uv",
            "npm_config_cache": f"{_CACHE}/npm",
            "npm_config_update_notifier": "false",
            "SCROUT_ENV": self.slot.place,
            **self._version(),
            **{name: self.slot.placed(value) for name, value in recipe.variables},
            "PATH": ":".join(path),
        }

    def _version(self) -> dict[str, str]:
        """The last tag's version: the base has no tags, and a package of version 0.1 breaks its dependents."""
        try:
            with find_repository(self.base.repo).borrowed() as git:
                tag = git.text("describe", "--tags", "--abbrev=0", self.base.commit)
        except GitError:
            return {}
        number = re.search(r"(?<![0-9])(?<![0-9]\.)[0-9]+(\.[0-9]+)+$", tag)
        return {"SETUPTOOLS_SCM_PRETEND_VERSION": number[0]} if number else {}

    def _failed(self, line: str, done: Completed) -> FailedBuild:
        output = without_credentials(done.text.strip())
        named = _FAILED_LINE.findall(output)
        output = _FAILED_LINE.sub("", output).strip()
        if done.timed_out:
            reason = f"stopped after {self.settings.timeout_s:g} seconds in all (environment.timeout_s)"
        else:
            lines = [one.strip() for one in output.splitlines() if one.strip()]
            complaints = [one for one in lines if _COMPLAINT.search(one)]
            reason = [f"exit code {done.exit_code}", *lines[-1:], *complaints[-1:]][-1]
        return self._failure(without_credentials(named[-1] if named and "\n" in line else line), reason, output)

    def _failure(self, line: str, reason: str, output: str = "") -> FailedBuild:
        return FailedBuild(
            kind=self.slot.recipe.kind,
            repo=str(self.base.repo),
            line=line,
            reason=reason[:500],
            output_tail=output[-_TAIL_CHARACTERS:],
        )

    async def _keep_what_is_left(self, workspace: Workspace) -> tuple[str, ...] | FailedBuild:
        """Move the files that the build left in the repository next to the environment, and return their paths."""
        argv = ["git", "status", "--porcelain", "-z", "--ignored", "--untracked-files=normal"]
        done = await self._command(workspace, argv, 120, network=False)
        if done.exit_code != 0:
            return self._failed(" ".join(argv), done)
        kept: list[str] = []
        for entry in sorted(done.output.decode("utf-8", errors="surrogateescape").split("\0"), key=lambda e: e[3:]):
            state, path = entry[:2], entry[3:].rstrip("/")
            # Of paths that git does not ignore, only folders: their mount points are empty later, so they are never in
            # a patch.
            if state not in ("??", "!!") or (state == "??" and not entry.endswith("/")):
                continue
            if PurePosixPath(path).name == "__pycache__" or any(_is_below(path, other) for other in kept):
                continue
            if self._move(workspace.upper, path):
                kept.append(path)
        if len(kept) > MOST_LEFT:
            reason = f"the build left {len(kept):,} separate files in the repository; at most {MOST_LEFT:,} are mounted"
            return self._failure("", reason)
        return tuple(kept)

    def _move(self, upper: Path, path: str) -> bool:
        """False: it is not a regular file or folder in the repository. Its name comes from inside the sandbox."""
        source = plain_beneath(upper, path)
        if source is None:
            return False
        target = self.making / "tree" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)
        return True

    def _finish(self, left: tuple[str, ...], seconds: float) -> BuiltEnvironment:
        remove_folder(self.making / "home")
        (self.making / "passwd").unlink()
        size_bytes = sum(measure(self.making / name)[0] for name in ("root", "tree"))
        built = BuiltEnvironment(
            kind=self.slot.recipe.kind,
            repo=str(self.base.repo),
            source=self.slot.recipe.source,
            left=left,
            seconds=round(seconds, 1),
            size_bytes=size_bytes,
        )
        (self.making / "built.json").write_text(built.model_dump_json(), encoding="utf-8")
        self.slot.forget()
        self.making.rename(self.slot.folder)
        return built


def _is_below(path: str, other: str) -> bool:
    return PurePosixPath(path).is_relative_to(other)


def _uv() -> tuple[Mount, ...]:
    """The uv program alone: the folder around it may be ~/.local/bin."""
    found = find_program("uv")
    program = Path(os.path.realpath(found)) if found else None
    return () if program is None or program.is_relative_to("/usr") else (Mount(program, str(program)),)
