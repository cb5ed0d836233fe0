"""Runs the commands of one task: its base, isolation tier, repository environment and fresh workspaces."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

from scrout.base import SandboxError
from scrout.config.settings import Settings
from scrout.sandbox.copies import CopiedWorkspace, at_inside_paths
from scrout.sandbox.environment import SHIMS, Environment, find_environment
from scrout.sandbox.output import Output
from scrout.sandbox.tier import Command, Completed, Copy, Limits, Mount, Tier, WarmSandbox
from scrout.sandbox.warm_sandbox import SHELL, unreadable_shell
from scrout.sandbox.workspace import AS_COMMITTED, Base, Workspace, Workspaces, make_base
from scrout.task import Task

PRISTINE_GIT = "/opt/scrout/git"
MOST_DIFF_BYTES = 100_000_000

# Uses a git directory of its own, so that a command that changes .git cannot change the diff. A nested .git would hide
# the files around it, and so would a mode that forbids reading them.
_DIFF = f"""
exec 2> /tmp/said
trap 'test $? = 0 || cat /tmp/said' EXIT
set -e
find . -path ./.git -prune -o \\( -type d ! -perm -700 -exec chmod u+rwx {{}} \\; , \\
  -type f ! -perm -400 -exec chmod u+r {{}} \\; , -name .git -prune -exec rm -rf {{}} + \\)
export GIT_DIR=/tmp/git GIT_WORK_TREE="$PWD"
mkdir -p $GIT_DIR/objects/info $GIT_DIR/info $GIT_DIR/refs
for part in HEAD config index refs packed-refs shallow; do
  if [ -e {PRISTINE_GIT}/$part ]; then cp -r --preserve=timestamps {PRISTINE_GIT}/$part $GIT_DIR/; fi
done
echo {PRISTINE_GIT}/objects > $GIT_DIR/objects/info/alternates
chmod -R u+w $GIT_DIR
echo '{AS_COMMITTED}' > $GIT_DIR/info/attributes
git add --all -- . ':(exclude,glob)**/__pycache__/**' ':(exclude,glob)**/.pytest_cache/**' "$@"
diff() {{ git diff --cached --binary --full-index --no-color --no-ext-diff --no-textconv HEAD; }}
# A name as git reads it in quotes: every byte in octal, with a backslash (134) before * ? [ and itself.
pattern() {{
  printf %s "$1" | od -An -v -to1 | tr -d '\\n' | sed 's/ \\(052\\|077\\|133\\|134\\)/ 134 \\1/g; s/ /\\\\/g'
}}
diff > /tmp/patch
if ! iconv -f utf-8 -t utf-8 /tmp/patch > /dev/null 2>&1; then
  # Bytes that are not UTF-8 cannot travel as text: such files go as binary hunks.
  git diff --cached --name-only -z HEAD | while IFS= read -r -d '' name; do
    git diff --cached --full-index HEAD -- ":(literal)$name" | iconv -f utf-8 -t utf-8 > /dev/null 2>&1 \\
      || printf '"/%s" -diff\\n' "$(pattern "$name")" >> $GIT_DIR/info/attributes
  done
  diff > /tmp/patch
fi
cat /tmp/patch
"""


class TaskSandbox:
    """Opened once per task and shared by every stage that runs commands."""

    def __init__(self, workspaces: Workspaces, tier: Tier, environment: Environment, limits: Limits) -> None:
        self.workspaces = workspaces
        self.tier = tier
        self.environment = environment
        self.limits = limits
        self._sessions: dict[Workspace, ShellSession] = {}

    @property
    def base(self) -> Base:
        return self.workspaces.base

    def fresh(self) -> Workspace:
        return self.workspaces.fresh()

    def root(self, workspace: Workspace) -> Path:
        """The repository's path inside of the sandbox."""
        return self.base.repo if self.tier.mounts else workspace.upper

    async def run(
        self,
        workspace: Workspace,
        argv: list[str],
        *,
        timeout_s: float | None = None,
        variables: Mapping[str, str] | None = None,
        mounts: tuple[Mount, ...] = (),
        aliases: tuple[str, ...] = (),
        stdin: bytes = b"",
        output: Output | None = None,
    ) -> Completed:
        """Run a program at the repository's root, in its environment."""
        await self._alone(workspace)
        view = workspace.view
        done = await self.tier.run(
            Command(
                argv=argv,
                cwd=str(self.base.repo),
                view=view,
                mounts=(*self.environment.mounts, *self._etc_mounts(), *mounts),
                env={**self.environment.variables, **(variables or {})},
                aliases=aliases,
                limits=self.limits if timeout_s is None else replace(self.limits, timeout_s=timeout_s),
                stdin=stdin,
                output=output,
            )
        )
        if self.tier.mounts or not isinstance(view, Copy):
            return done
        return replace(done, output=at_inside_paths(done.output, view))

    async def shell(self, workspace: Workspace, command: str, *, timeout_s: float | None = None) -> Completed:
        """Run a shell command under pipefail, so that a trailing pipe cannot hide a failure."""
        return await self.run(workspace, shell_argv(command), timeout_s=timeout_s)

    @asynccontextmanager
    async def session(self, workspace: Workspace, aliases: tuple[str, ...] = ()) -> AsyncIterator[ShellSession]:
        """A session for one agent's commands. They trust each other, so they can share a sandbox."""
        standing = self.tier.standing(
            Command(
                argv=(),
                cwd=str(self.base.repo),
                view=workspace.view,
                mounts=(*self.environment.mounts, *self._etc_mounts(), Mount(unreadable_shell(), SHELL)),
                env=self.environment.variables,
                aliases=aliases,
                limits=self.limits,
            )
        )
        session = self._sessions[workspace] = ShellSession(self, workspace, aliases, standing)
        try:
            yield session
        finally:
            del self._sessions[workspace]
            await session.rest()

    async def _alone(self, workspace: Workspace) -> None:
        """Wait until no other sandbox has the workspace mounted, and make it accessible."""
        if workspace in self._sessions:
            await self._sessions[workspace].rest()
        workspace.unlock()

    async def diff(self, workspace: Workspace, without: Sequence[str] = ()) -> str:
        """The changes since the base, as git prints them, without ignored files, caches and paths in `without`."""
        await self._alone(workspace)
        pristine = Mount(self.base.tree / ".git", PRISTINE_GIT)
        done = await self.tier.run(
            Command(
                # Without the environment's mounts: a .venv that is not ignored must not look like new files.
                argv=["bash", "-c", _DIFF, "diff", *(f":(exclude,top,literal){path}" for path in without)],
                cwd=str(self.base.repo),
                view=workspace.view,
                mounts=(pristine,),
                env=self.environment.variables | {"PATH": "/usr/bin:/bin"},
                limits=Limits(timeout_s=120, file_mb=2048, output_bytes=MOST_DIFF_BYTES),
            )
        )
        if done.exit_code != 0:
            why = "it took too long" if done.timed_out else done.text.strip()[-500:]
            raise SandboxError(f"git could not make the diff: {why}")
        if len(done.output) > MOST_DIFF_BYTES:
            raise SandboxError(f"the diff has more than {MOST_DIFF_BYTES:,} bytes. Add build output to .gitignore.")
        # git treats a symlink's target as text in every case, and a path may be any bytes.
        return done.output.decode("utf-8", "surrogateescape")

    async def apply(self, workspace: Workspace, patch: str) -> str:
        """Apply a patch to a workspace, completely or not at all; returns git's message, empty on success."""
        argv = ["git", "apply", "--whitespace=nowarn", "-"]
        done = await self.run(workspace, argv, stdin=patch.encode("utf-8", "surrogateescape"))
        return "" if done.exit_code == 0 else done.text.strip() or f"git apply: exit code {done.exit_code}"

    def _etc_mounts(self) -> Iterator[Mount]:
        folder = self.workspaces.shared
        yield Mount(folder / "bin", SHIMS)
        for name in ("passwd", "group", "hosts"):
            yield Mount(folder / name, f"/etc/{name}")


class ShellSession:
    """Runs one agent's shell commands in one workspace, one at a time, in a warm sandbox if the tier has one.

    Each command starts as in a new sandbox. Between commands, the workspace's files may be read and written.
    """

    def __init__(
        self, task_sandbox: TaskSandbox, workspace: Workspace, aliases: tuple[str, ...], standing: WarmSandbox | None
    ) -> None:
        self.task_sandbox = task_sandbox
        self.workspace = workspace
        self.aliases = aliases
        self._standing = standing
        self._turn = asyncio.Lock()
        self._edits = 0

    async def shell(self, command: str, *, timeout_s: float | None = None) -> Completed:
        """Like TaskSandbox.shell."""
        if self._standing is None:
            argv = shell_argv(command)
            return await self.task_sandbox.run(self.workspace, argv, timeout_s=timeout_s, aliases=self.aliases)
        async with self._turn:
            self.workspace.unlock()
            if self.workspace.edits != self._edits:
                # A mounted overlay caches files, and may not notice that the host changes its layers.
                await self._standing.close()
                self._edits = self.workspace.edits
            longest_s = self.task_sandbox.limits.timeout_s if timeout_s is None else timeout_s
            return await self._standing.shell(command, longest_s)

    async def rest(self) -> None:
        """End the sandbox, if there is one; the next command starts another."""
        if self._standing is not None:
            async with self._turn:
                await self._standing.close()


@contextmanager
def open_task_sandbox(task: Task, tier: Tier, settings: Settings) -> Iterator[TaskSandbox]:
    """Open everything that a task's commands need; removes all of it when the block ends."""
    base = make_base(task.repo, task.base_commit, bounds=settings.sandbox)
    if tier.brings_tools:
        environment = Environment("the container image", "python3", "", ())
    else:
        environment = find_environment(task.repo, settings.environment, base)
    bounds = settings.sandbox
    limits = Limits(
        timeout_s=bounds.timeout_s,
        memory_mb=bounds.memory_mb,
        total_memory_mb=bounds.total_memory_mb,
        processes=bounds.processes,
        file_mb=bounds.file_mb,
        disk_mb=bounds.disk_mb,
    )
    with open_workspaces(base, tier) as workspaces:
        _furnish(workspaces.shared, environment, tier.user)
        yield TaskSandbox(workspaces, tier, environment, limits)


def open_workspaces(base: Base, tier: Tier) -> Workspaces:
    """Workspaces of the kind that the tier supports."""
    return Workspaces(base, Workspace if tier.overlays else CopiedWorkspace, tier.user)


def _furnish(folder: Path, environment: Environment, user: int) -> None:
    """The few files that programs expect on any machine: the user's name, localhost, and a `python`."""
    group = user if os.geteuid() == 0 else os.getegid()
    (folder / "passwd").write_text(f"sandbox:x:{user}:{group}::/tmp/home:/bin/bash\n")
    (folder / "group").write_text(f"sandbox:x:{group}:\n")
    (folder / "hosts").write_text("127.0.0.1 localhost sandbox\n::1 localhost\n")
    shims = folder / "bin"
    shims.mkdir()
    if Path(environment.python).is_absolute():
        (shims / "python").symlink_to(environment.python)
    # The sandbox's user must be able to read these, whatever the caller's umask.
    for path in (folder, shims):
        path.chmod(0o755)
    for name in ("passwd", "group", "hosts"):
        (folder / name).chmod(0o644)


def shell_argv(command: str) -> list[str]:
    """The command line that gate, check and agents use for a shell command."""
    return ["bash", "-o", "pipefail", "-c", command]
