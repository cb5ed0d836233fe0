"""A repository at its base commit, and copy-on-write workspaces over it.

A Base holds the base commit and its ancestors and nothing else: no other ref, no reflog, no stash, no object from which
a later commit could be read. It is made once for each commit and then only read. A Workspace is an empty upper layer on
it; the overlay exists only inside the sandbox, so nothing is ever mounted on the host.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
import shutil
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from scrout.config import cache_folder
from scrout.errors import SandboxError, TaskError
from scrout.git import ISOLATED, GitError, environment, git, text
from scrout.sandbox.bubblewrap import SANDBOX_UID
from scrout.sandbox.tier import Overlay

BRANCH = "refs/heads/main"
_SNAPSHOT_AUTHOR = {
    "GIT_AUTHOR_NAME": "scrout",
    "GIT_AUTHOR_EMAIL": "scrout@localhost",
    "GIT_COMMITTER_NAME": "scrout",
    "GIT_COMMITTER_EMAIL": "scrout@localhost",
}


@dataclass(frozen=True)
class Source:
    """A user's repository, found and fit for use."""

    repo: Path
    """Top of the work tree, absolute, symlinks resolved."""
    head: str
    changed: int
    """How many paths differ from HEAD, untracked ones included."""
    submodules: tuple[str, ...]


def find_source(path: Path) -> Source:
    """The repository at or above a path, or a TaskError that says what is missing."""
    if not path.is_dir():
        raise TaskError(f"{path} is not a folder. Pass the repository's folder with --repo.")
    try:
        top = text("rev-parse", "--show-toplevel", cwd=path)
    except GitError as error:
        if "dubious ownership" in str(error) or "must be run in a work tree" in str(error):
            raise
        raise TaskError(f"{path} is not a git repository. Run `git init` and commit there, or pass --repo.") from None
    repo = Path(top).resolve()
    try:
        head = text("rev-parse", "--verify", "HEAD^{commit}", cwd=repo)
    except GitError:
        raise TaskError(f"{repo} has no commits yet. Commit once, so that there is a base to work from.") from None
    status = git("status", "--porcelain=v1", "-z", "--untracked-files=normal", "--ignore-submodules=all", cwd=repo)
    tree = git("ls-tree", "-r", "-z", head, cwd=repo)
    submodules = tuple(
        os.fsdecode(entry.split(b"\t", 1)[1]) for entry in tree.split(b"\0") if entry.startswith(b"160000 ")
    )
    return Source(repo=repo, head=head, changed=len(status.split(b"\0")) - 1, submodules=submodules)


@dataclass(frozen=True)
class Base:
    """A commit of a repository, checked out once, never written again."""

    repo: Path
    """Where the repository lies for its user, and where commands see it."""
    commit: str
    tree: Path
    """The checkout, with a .git that ends at this commit."""

    def git(self, *args: str, stdin: bytes | None = None) -> bytes:
        """Ask git about this commit and its ancestors."""
        # A named directory, because git refuses to discover one that belongs to the sandbox's user.
        return git(*args, cwd=self.tree, stdin=stdin, env={**ISOLATED, "GIT_DIR": str(self.tree / ".git")})

    def read(self, path: str) -> bytes | None:
        """A file's bytes; None where there is no regular file. Symlinks are not followed."""
        return _read_beneath(self.tree, path)


def make_base(repo: Path, commit: str, *, dirty: bool = False) -> Base:
    """The base for a commit, from the cache or made now. `dirty` puts a snapshot of the work tree on top of it."""
    folder = _private(cache_folder() / "bases")
    if not dirty:
        tree = folder / _key(repo, commit) / "tree"
        if tree.is_dir():
            return Base(repo, commit, tree)
    _remove_abandoned(folder, ".making-*")
    making = _private(folder / f".making-{os.getpid()}-{secrets.token_hex(4)}")
    lock = _lock(making)
    try:
        tree = making / "tree"
        _copy_history(repo, commit, tree)
        if dirty:
            commit = _commit_work_tree(repo, tree)
        git("reset", "-q", "--hard", commit, cwd=tree, env=ISOLATED)
        _forget_past_positions(tree)
        if os.geteuid() == 0:
            subprocess.run(["chown", "-R", "-h", f"{SANDBOX_UID}:{SANDBOX_UID}", tree], check=True)
        final = folder / _key(repo, commit)
        # Another process may have been first; its copy is as good.
        with contextlib.suppress(OSError):
            making.rename(final)
        return Base(repo, commit, final / "tree")
    except OSError as error:
        raise SandboxError(
            f"no copy of {repo} could be made under {folder}: {error.strerror}. Free some room there, or point "
            "XDG_CACHE_HOME at a larger disk."
        ) from None
    finally:
        remove_folder(making)
        os.close(lock)


def _key(repo: Path, commit: str) -> str:
    return hashlib.sha256(f"{repo}\0{commit}".encode(errors="surrogateescape")).hexdigest()[:20]


def _copy_history(repo: Path, commit: str, tree: Path) -> None:
    """Into a new repository at `tree`: the objects reachable from the commit, and no others."""
    git("init", "-q", "--template=", str(tree), cwd=repo, env=ISOLATED)
    # A pack of what the commit reaches: unlike a clone it knows no refs, and alternates are not carried over.
    packer = ["git", "pack-objects", "--revs", "--stdout", "-q", "--delta-base-offset"]
    pipe = subprocess.PIPE
    with subprocess.Popen(packer, cwd=repo, env=environment(), stdin=pipe, stdout=pipe, stderr=pipe) as pack:
        assert pack.stdin is not None and pack.stderr is not None
        pack.stdin.write(f"{commit}\n".encode())
        pack.stdin.close()
        unpack = subprocess.run(
            ["git", "index-pack", "--stdin"],
            cwd=tree,
            env=environment(),
            stdin=pack.stdout,
            capture_output=True,
            check=False,
        )
        said = pack.stderr.read()
    if pack.returncode != 0 or unpack.returncode != 0:
        message = (said or unpack.stderr).decode(errors="replace").strip()
        if "No space left" in message:
            raise SandboxError(f"the disk under {tree} is full: {message}. Free some room, or set XDG_CACHE_HOME.")
        raise TaskError(f"the history of {repo} at {commit[:12]} cannot be read: {message}. Try `git fsck` there.")
    shallow = repo / text("rev-parse", "--git-path", "shallow", cwd=repo)
    if shallow.is_file():
        shutil.copyfile(shallow, tree / ".git" / "shallow")
    git("update-ref", BRANCH, commit, cwd=tree, env=ISOLATED)
    git("symbolic-ref", "HEAD", BRANCH, cwd=tree, env=ISOLATED)


def _commit_work_tree(repo: Path, tree: Path) -> str:
    """Commit the user's files as they are, writing objects and index into our copy only."""
    git_dir = tree / ".git"
    exclude = repo / text("rev-parse", "--git-path", "info/exclude", cwd=repo)
    if exclude.is_file():
        (git_dir / "info").mkdir(exist_ok=True)
        shutil.copyfile(exclude, git_dir / "info" / "exclude")
    ours = (f"--git-dir={git_dir}", f"--work-tree={repo}")
    git(*ours, "read-tree", "HEAD", cwd=repo)
    git(*ours, "add", "--all", "--", ".", cwd=repo)
    # The date of HEAD, so that the same tree is the same commit and its base is found in the cache.
    date = text("log", "-1", "--format=%cI", cwd=tree)
    names = {**_SNAPSHOT_AUTHOR, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    git(*ours, "commit", "-q", "--allow-empty", "--no-verify", "-m", "Work tree as found", cwd=repo, env=names)
    return text("rev-parse", "HEAD", cwd=tree)


def _forget_past_positions(tree: Path) -> None:
    git_dir = tree / ".git"
    shutil.rmtree(git_dir / "logs", ignore_errors=True)
    for name in ("ORIG_HEAD", "FETCH_HEAD"):
        (git_dir / name).unlink(missing_ok=True)


class Workspace:
    """One writable view of a base. Files are read and written here only while no command runs in it."""

    def __init__(self, base: Base, folder: Path) -> None:
        self.base = base
        self.folder = folder

    @property
    def overlay(self) -> Overlay:
        return Overlay(self.base.tree, self.folder / "upper", self.folder / "work", str(self.base.repo))

    @property
    def outbox(self) -> Path:
        """A folder outside the repository that commands may write to, for what the host wants to read afterwards."""
        return self.folder / "out"

    def write(self, path: str, data: bytes) -> None:
        """Write a file of the repository. A symlink on the way, which a command may have planted, is an error."""
        with _parent_beneath(self.folder / "upper", path, make=True) as (parent, name):
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
            with os.fdopen(os.open(name, flags, 0o644, dir_fd=parent), "wb") as file:
                file.write(data)
                _give_to_sandbox(file.fileno())
                mode = _mode_beneath(self.base.tree, path)
                if mode is not None:
                    os.fchmod(file.fileno(), mode)

    def read(self, path: str) -> bytes | None:
        """A file as the next command will see it; None where there is none."""
        changed = _read_beneath(self.folder / "upper", path)
        if changed is not None or os.path.lexists(self.folder / "upper" / path):
            return changed
        return self.base.read(path)

    def changed(self) -> Iterator[str]:
        """Paths outside .git that differ from the base or are new, deletions included, in no order."""
        upper = self.folder / "upper"
        for folder, names, files in os.walk(upper):
            if Path(folder) == upper and ".git" in names:
                names.remove(".git")
            for name in files:
                yield os.path.relpath(Path(folder, name), upper)

    def remove(self) -> None:
        """Delete it. Safe to call twice."""
        remove_folder(self.folder)


class Workspaces:
    """Makes workspaces over one base and removes them all at the end; a crash's leftovers go at the next start."""

    def __init__(self, base: Base) -> None:
        self.base = base
        self.folder: Path | None = None
        self._lock: int | None = None

    def __enter__(self) -> Workspaces:
        root = _private(cache_folder() / "workspaces")
        _remove_abandoned(root, "*")
        self.folder = _private(root / f"{os.getpid()}-{secrets.token_hex(4)}")
        self._lock = _lock(self.folder)
        self.shared.mkdir(mode=0o755)
        return self

    def __exit__(self, *exception: object) -> None:
        assert self.folder is not None and self._lock is not None
        remove_folder(self.folder)
        os.close(self._lock)

    @property
    def shared(self) -> Path:
        """A folder for what all these workspaces are given."""
        if self.folder is None:
            raise RuntimeError("Workspaces is a context manager: enter it first")
        return self.folder / "shared"

    def fresh(self) -> Workspace:
        """A workspace in which nothing has happened yet."""
        folder = self.shared.with_name(secrets.token_hex(6))
        try:
            for name in ("", "upper", "work", "out"):
                (folder / name).mkdir(mode=0o755)
                if name and os.geteuid() == 0:
                    os.chown(folder / name, SANDBOX_UID, SANDBOX_UID)
        except OSError as error:
            raise SandboxError(f"no workspace fits in {self.folder}: {error.strerror}. Free some room.") from None
        return Workspace(self.base, folder)


def remove_folder(folder: Path) -> None:
    """Delete a folder that sandboxed commands wrote to: overlay work folders have mode 000, and modes are anyone's."""

    def unlock_and_retry(function: object, path: str, _: object) -> None:
        for target in (Path(path).parent, Path(path)):
            with contextlib.suppress(OSError):
                if not target.is_symlink():
                    target.chmod(0o700)
        with contextlib.suppress(OSError):
            if Path(path).is_dir() and not Path(path).is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                Path(path).unlink()

    if folder.exists():
        shutil.rmtree(folder, onerror=unlock_and_retry)
        shutil.rmtree(folder, ignore_errors=True)


def _private(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise SandboxError(
            f"{folder} cannot be made: {error.strerror}. Point XDG_CACHE_HOME at a folder you may write to."
        ) from None
    return folder


def _lock(folder: Path) -> int:
    """Held for as long as this process lives, so that others can tell an abandoned folder."""
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def _remove_abandoned(root: Path, pattern: str) -> None:
    for folder in root.glob(pattern):
        try:
            descriptor = os.open(folder / "lock", os.O_RDWR)
        except OSError:
            continue  # just being made or removed
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_folder(folder)
        except BlockingIOError:
            pass  # in use
        finally:
            os.close(descriptor)


def _give_to_sandbox(descriptor: int) -> None:
    if os.geteuid() == 0:
        os.fchown(descriptor, SANDBOX_UID, SANDBOX_UID)


@contextlib.contextmanager
def _parent_beneath(root: Path, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """The open folder that holds `path`, and its last part, reached without following a symlink or leaving root."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts:
        raise SandboxError(f"{path!r} is not a path inside the repository")
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=descriptor)
                    if os.geteuid() == 0:
                        os.chown(part, SANDBOX_UID, SANDBOX_UID, dir_fd=descriptor, follow_symlinks=False)
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        yield descriptor, parts[-1]
    finally:
        os.close(descriptor)


def _read_beneath(root: Path, path: str) -> bytes | None:
    try:
        with _parent_beneath(root, path) as (parent, name):
            # Non-blocking, because a command can leave a pipe where a file was.
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=parent)
            with os.fdopen(descriptor, "rb") as file:
                return file.read() if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    except OSError:
        return None


def _mode_beneath(root: Path, path: str) -> int | None:
    try:
        with _parent_beneath(root, path) as (parent, name):
            return stat.S_IMODE(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    except OSError:
        return None
