"""Ties rows to clones: a path as it is, a clone among the user's folders, or one fetched once into the cache.

Fetching runs git alone, without hooks, prompts or a checkout, within a time limit, one process at a time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from scrout.batch.forms import Row
from scrout.config import cache_folder
from scrout.errors import TaskError
from scrout.git import ISOLATED, GitError, environment, text
from scrout.ledger.locks import Lock
from scrout.ledger.scrub import scrub
from scrout.sandbox.workspace import Source, find_source, private_folder, remove_folder
from scrout.task import Task

FETCH_S = 1800.0
"""For one clone or fetch."""
_NAME = re.compile(r"(?!\.)[\w.-]{1,100}/(?!\.)[\w.-]{1,100}")
_URL_CREDENTIALS = re.compile(r"://[^/@\s]{1,500}@")
_SAFE = (
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "protocol.ext.allow=never"),
    *("-c", "gc.auto=0"),
    *("-c", "maintenance.auto=false"),
)
_NO_QUESTIONS = {"GIT_SSH_COMMAND": "ssh -oBatchMode=yes", "GIT_ASKPASS": "/bin/false", "SSH_ASKPASS": "/bin/false"}


class FetchError(TaskError):
    """A repository or commit that could not be fetched, this time."""


class Repositories:
    """Where the repositories of a batch's rows are. May be shared by threads."""

    def __init__(self, folders: Sequence[Path], url: str = "", timeout_s: float = FETCH_S) -> None:
        self.folders = tuple(folders)
        self.url = url
        """Where a repository that is in no folder is cloned from, with {repo} for owner/name; empty: nowhere."""
        self.timeout_s = timeout_s
        self._sources: dict[str, Source] = {}
        self._refreshed: set[Path] = set()
        """Clones whose HEAD is known to be that of their origin."""

    def task(self, row: Row) -> Task:
        """The row on its clone, its commit verified; or a TaskError that names the row."""
        try:
            repo, commit = self._found(row)
        except TaskError as error:
            # Of the same kind: what could not be fetched may be fetched later.
            kind = FetchError if isinstance(error, FetchError) else TaskError
            raise kind(f"{row.source or 'task'}, {row.id}: {error}") from None
        return Task(id=row.id, text=row.text, repo=repo, base_commit=commit)

    def _found(self, row: Row) -> tuple[Path, str]:
        path = Path(row.repo)
        if path.is_absolute():
            source = self._source(path)
            return source.repo, source.head if row.base_commit == "HEAD" else _commit(source.repo, row.base_commit)
        if not _NAME.fullmatch(row.repo):
            raise TaskError(f"the repository {row.repo[:200]!r} is neither a folder nor owner/name.")
        own = self._in_folders(row.repo)
        if own is not None and not _is_bare(own):
            source = self._source(own)
            return source.repo, source.head if row.base_commit == "HEAD" else _commit(source.repo, row.base_commit)
        clone = self._clone(row.repo, str(own.resolve()) if own else self._address(row.repo))
        return clone, self._fetched(clone, row.base_commit)

    def _source(self, path: Path) -> Source:
        """Looked at once: a large work tree takes git a second."""
        if str(path) not in self._sources:
            self._sources[str(path)] = find_source(path)
        return self._sources[str(path)]

    def _in_folders(self, repo: str) -> Path | None:
        owner, name = repo.split("/")
        for folder in self.folders:
            for form in (repo, f"{owner}__{name}", f"{owner}+{name}", name):
                for found in (folder / form, folder / f"{form}.git"):
                    if (found / ".git").exists() or (found / "HEAD").is_file():
                        return found
        return None

    def _address(self, repo: str) -> str:
        if not self.url:
            looked = ", ".join(str(folder) for folder in self.folders) or "no folder was given"
            raise TaskError(
                f"the repository {repo} was not found ({looked}). Name a folder with its clone, or a URL with {{repo}} "
                "to clone it from."
            )
        if "{repo}" not in self.url:
            raise TaskError(f"the URL {_shown(self.url)} has no {{repo}} in it. Write one where owner/name belongs.")
        return self.url.replace("{repo}", repo)

    def _clone(self, repo: str, address: str) -> Path:
        """Without a checkout: workspaces are made from commits."""
        folder = private_folder(cache_folder() / "repositories")
        # By its address too: another mirror may hold other commits.
        name = f"{repo.replace('/', '__')}-{hashlib.sha256(address.encode()).hexdigest()[:8]}"
        clone, lock = folder / name, Lock(folder / f"{name}.lock")
        lock.take(wait=True)
        try:
            if not (clone / ".git").is_dir():
                making = folder / f".making-{name}"
                # The lock is ours, so what lies here was left by a process that died.
                remove_folder(making)
                try:
                    self._run("clone", "-q", "--no-checkout", "--template=", "--", address, str(making), cwd=folder)
                    making.rename(clone)
                finally:
                    remove_folder(making)
        except TaskError as error:
            raise FetchError(f"the repository {repo} cannot be fetched from {_shown(address)}: {error}") from None
        finally:
            lock.release()
        return clone

    def _fetched(self, clone: Path, commit: str) -> str:
        """A commit of a clone in the cache, which is asked for where it came later than the clone."""
        wanted = "origin/HEAD" if commit == "HEAD" else commit
        if commit != "HEAD" or clone in self._refreshed:
            with contextlib.suppress(TaskError):
                return _commit(clone, wanted)
        lock = Lock(clone.with_name(f"{clone.name}.lock"))
        lock.take(wait=True)
        try:
            self._run("fetch", "-q", "origin", *(() if commit == "HEAD" else (commit,)), cwd=clone)
        except TaskError as error:
            raise FetchError(f"commit {commit} is not in the clone {clone}, and cannot be fetched: {error}") from None
        finally:
            lock.release()
        self._refreshed.add(clone)
        return _commit(clone, wanted)

    def _run(self, *args: str, cwd: Path) -> None:
        """One git command that may use the network."""
        with subprocess.Popen(
            ["git", *_SAFE, *args],
            cwd=cwd,
            env={**environment(), **ISOLATED, **_NO_QUESTIONS},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            process_group=0,
        ) as process:
            try:
                _, said = process.communicate(timeout=self.timeout_s)
            except BaseException as error:
                # git has helpers that do the fetching; they end with it.
                os.killpg(process.pid, signal.SIGKILL)
                if isinstance(error, subprocess.TimeoutExpired):
                    raise TaskError(f"git {args[0]} took more than {self.timeout_s:g} seconds.") from None
                raise
        if process.returncode != 0:
            words = _shown(said.decode(errors="replace").strip())[-500:]
            raise TaskError(f"git {args[0]}: {words or f'exit code {process.returncode}'}")


def _commit(repo: Path, commit: str) -> str:
    try:
        return text("rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}", cwd=repo)
    except GitError:
        raise TaskError(
            f"commit {commit} is not in {repo}. Fetch it there (`git fetch origin {commit}`), or check the row."
        ) from None


def _is_bare(folder: Path) -> bool:
    with contextlib.suppress(GitError):
        return text("rev-parse", "--is-bare-repository", cwd=folder) == "true"
    return False


def _shown(words: str) -> str:
    """Without secrets that an address may hold."""
    return _URL_CREDENTIALS.sub("://", scrub(words))
