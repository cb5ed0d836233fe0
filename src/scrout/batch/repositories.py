"""Finds or makes the clone of each task row: a path, a clone among the user's folders, or one fetched once into the
cache.

Fetching runs git without hooks, prompts or a checkout, within a time limit, one process at a time.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from scrout.base import TaskError
from scrout.batch.task_formats import TaskRow
from scrout.config.folders import cache_folder
from scrout.files import Lock, atomic_folder
from scrout.git import NETWORK, GitDir, GitError, clone, find_repository, is_git_dir, repository_at
from scrout.redact import redact
from scrout.sandbox.workspace import SourceRepository, find_source, private_folder
from scrout.task import Task

FETCH_S = 1800.0
"""Time limit of one clone or fetch."""
_NAME = re.compile(r"(?!\.)[\w.-]{1,100}/(?!\.)[\w.-]{1,100}")
_URL_CREDENTIALS = re.compile(r"://[^/@\s]{1,500}@")


class FetchError(TaskError):
    """A repository or commit could not be fetched this time."""


class Repositories:
    """The repositories of a batch's rows. Threads may share it."""

    def __init__(self, folders: Sequence[Path], url: str = "", timeout_s: float = FETCH_S) -> None:
        self.folders = tuple(folders)
        self.url = url
        """URL for repositories that are in no folder, with {repo} for owner/name; empty: none are cloned."""
        self.timeout_s = timeout_s
        self._sources: dict[str, SourceRepository] = {}
        self._heads: dict[Path, str] = {}
        """HEAD of the origin of each clone, if requested."""

    def task(self, row: TaskRow) -> Task:
        """The task on its clone, with a verified commit; raises a TaskError that names the row."""
        try:
            repo, commit = self._found(row)
        except TaskError as error:
            # The same type of error: a failed fetch may work later.
            kind = FetchError if isinstance(error, FetchError) else TaskError
            raise kind(f"{row.source or 'task'}, {row.id}: {error}") from None
        return Task(id=row.id, text=row.text, repo=repo, base_commit=commit)

    def _found(self, row: TaskRow) -> tuple[Path, str]:
        path = Path(row.repo)
        if path.is_absolute():
            source = self._source(path)
            return source.repo, source.head if row.base_commit == "HEAD" else _commit(source.repo, row.base_commit)
        if not _NAME.fullmatch(row.repo):
            raise TaskError(f"the repository {row.repo[:200]!r} is neither a folder nor owner/name.")
        own = self._in_folders(row.repo)
        if own is not None and not is_git_dir(own):
            source = self._source(own)
            return source.repo, source.head if row.base_commit == "HEAD" else _commit(source.repo, row.base_commit)
        address = str(own.resolve()) if own else self._address(row.repo)
        kept = self._clone(row.repo, address)
        return kept, self._fetched(kept, address, row.base_commit)

    def _source(self, path: Path) -> SourceRepository:
        """Cached: a large work tree takes git a second."""
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
            raise TaskError(f"the URL {_shown(self.url)} has no {{repo}}. Write {{repo}} where owner/name belongs.")
        return self.url.replace("{repo}", repo)

    def _clone(self, repo: str, address: str) -> Path:
        """Without a checkout, because workspaces are made from commits."""
        folder = private_folder(cache_folder() / "repositories")
        # Keyed by the URL too: another mirror may have other commits.
        name = f"{repo.replace('/', '__')}-{hashlib.sha256(address.encode()).hexdigest()[:8]}"
        kept = folder / name
        with Lock(folder / f"{name}.lock"):
            if (kept / ".git").is_dir():
                return kept
            try:
                with atomic_folder(kept) as part:
                    local = _local(address)
                    if local is None:
                        clone(address, part, self.timeout_s)
                    else:
                        _copy(local, part / ".git")
            except TaskError as error:
                words = _shown(str(error))[-500:]
                raise FetchError(f"the repository {repo} cannot be fetched from {_shown(address)}: {words}") from None
        return kept

    def _fetched(self, kept: Path, address: str, commit: str) -> str:
        """A commit of a clone in the cache; fetched if it is newer than the clone."""
        if commit == "HEAD" and kept in self._heads:
            return self._heads[kept]
        if commit != "HEAD":
            with contextlib.suppress(TaskError):
                return _commit(kept, commit)
        try:
            with Lock(kept.with_name(f"{kept.name}.lock")):
                local = _local(address)
                if local is not None:
                    found = repository_at(local)
                    found.copy_objects(kept / ".git" / "objects")
                    head = found.head()
                else:
                    wanted = () if commit == "HEAD" else (commit,)
                    GitDir(kept / ".git", protocols=NETWORK)("fetch", "-q", "origin", *wanted, timeout_s=self.timeout_s)
                    head = "origin/HEAD"
            fetched = _commit(kept, head if commit == "HEAD" else commit)
        except TaskError as error:
            words = _shown(str(error))
            raise FetchError(f"commit {commit} is not in the clone {kept} and cannot be fetched: {words}") from None
        if commit == "HEAD":
            self._heads[kept] = fetched
        return fetched


def _local(address: str) -> Path | None:
    """The path of a repository on this machine; None: it is on another machine."""
    path = Path(address.removeprefix("file://"))
    return path if path.is_absolute() else None


def _copy(path: Path, git_dir: Path) -> None:
    """A copy of a repository on this machine; a clone would run git on it."""
    if not path.is_dir():
        raise TaskError(f"{path} does not exist. Check the path.")
    found = repository_at(path)
    found.copy_references(git_dir)
    found.copy_objects(git_dir / "objects")


def _commit(repo: Path, commit: str) -> str:
    try:
        with find_repository(repo).borrowed() as git:
            return git.text("rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}")
    except GitError:
        raise TaskError(
            f"commit {commit} is not in {repo}. Fetch it there (`git fetch origin {commit}`), or check the row."
        ) from None


def _shown(words: str) -> str:
    """A URL without secrets."""
    return _URL_CREDENTIALS.sub("://", redact(words))
