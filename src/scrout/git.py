"""git as a subprocess: never a hook, never a helper program from configuration, never a prompt."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from scrout.errors import TaskError

# A repository's own configuration can name programs to run; none of these commands has a use for one.
_HARMLESS = (
    "--no-optional-locks",
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.quotePath=false"),
    *("-c", "gc.auto=0"),
    *("-c", "maintenance.auto=false"),
    *("-c", "protocol.ext.allow=never"),
)
ISOLATED = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
"""For repositories of scrout's own making: nothing of the user's configuration applies."""


class GitError(TaskError):
    """A git command that failed, with what it said."""


def git(*args: str, cwd: Path, stdin: bytes | None = None, env: Mapping[str, str] | None = None) -> bytes:
    """Standard output of one git command."""
    try:
        done = subprocess.run(
            ["git", *_HARMLESS, *args],
            cwd=cwd,
            input=stdin if stdin is not None else b"",
            capture_output=True,
            env={**environment(), **(env or {})},
            check=False,
            # A terminal sends Ctrl-C to the whole group. Were git to die of it first, that would look like git's error.
            process_group=0,
        )
    except OSError as error:
        if shutil.which("git") is None:
            raise TaskError("git is not installed or not on PATH. Install git 2.30 or later.") from None
        raise TaskError(f"git cannot run in {cwd}: {error.strerror}. Check that you may enter that folder.") from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}"
        raise GitError(f"git {args[0]} in {cwd}: {said}")
    return done.stdout


def text(*args: str, cwd: Path, env: Mapping[str, str] | None = None) -> str:
    """Standard output as stripped text."""
    return git(*args, cwd=cwd, env=env).decode("utf-8", errors="surrogateescape").strip()


def environment() -> dict[str, str]:
    """The caller's environment without what would redirect git, prompt, or download."""
    # GIT_DIR and its like would redirect every command to another repository.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**kept, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", "GIT_ATTR_NOSYSTEM": "1", "GIT_LFS_SKIP_SMUDGE": "1"}
