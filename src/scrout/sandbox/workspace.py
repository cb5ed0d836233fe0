"""A repository at its base commit, and copy-on-write workspaces over it.

A Base holds only the base commit and its ancestors: no other ref, no reflog, no stash, no object of a later commit. It
is made once for each commit and then only read. A Workspace is an empty upper layer on it; the overlay exists only
inside the sandbox, so nothing is ever mounted on the host.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from scrout.base import SandboxError, TaskError
from scrout.config.folders import cache_folder
from scrout.config.settings import SandboxSettings
from scrout.files import Lock, is_inside, lies_beneath, parent_beneath, read_beneath
from scrout.git import Foreign, GitDir, GitError, find_repository, make_git_dir, users_ignore_file
from scrout.sandbox.process import run_system
from scrout.sandbox.tier import SANDBOX_UID, Copy, Overlay, sandbox_user

BRANCH = "refs/heads/main"
MOST_READ_BYTES = 50_000_000
"""Maximum size of one file, which is held in memory. A few kilobytes of objects can be a file of gigabytes."""
_MOST_ENTRY_BYTES = 4096 + 200
"""Maximum length of a path (the kernel's limit) and of git's line about it."""
LOOK_S = 300.0
"""Time limit for git to scan a work tree: patterns of .gitignore can keep it busy forever."""
_OUTSIDE = re.compile(rb"(?i)(\A|\0)/|(\A|[/\0])(\.\.?|\.git)[/\0]")
"""A path that leads out of a work tree, or into its git directory."""
AS_COMMITTED = "* -ident -working-tree-encoding"
"""Attributes of every base: with the repository's own, a file could be fifty times as large on disk."""
_SNAPSHOT_AUTHOR = {
    "GIT_AUTHOR_NAME": "scrout",
    "GIT_AUTHOR_EMAIL": "scrout@localhost",
    "GIT_COMMITTER_NAME": "scrout",
    "GIT_COMMITTER_EMAIL": "scrout@localhost",
}


@dataclass(frozen=True)
class SourceRepository:
    """A user's repository, checked and ready for use."""

    repo: Path
    """Top of the work tree, absolute, with symlinks resolved."""
    store: Path
    """Folder of its objects and references."""
    head: str


def find_source(path: Path) -> SourceRepository:
    """The repository at or above a path; raises a TaskError if there is none or it has no commit."""
    # Not Path.is_dir, which raises if a folder on the way cannot be entered.
    if not os.path.isdir(path) or not os.access(path, os.X_OK):  # noqa: PTH112
        raise TaskError(f"{path} is not a folder you can enter. Pass the repository's folder with --repo.")
    found = find_repository(path)
    head = found.head()
    if not head:
        raise TaskError(f"{found.name} has no commits yet. Make a first commit.")
    return SourceRepository(repo=found.name, store=found.common, head=head)


def count_changed(source: SourceRepository, bounds: SandboxSettings | None = None) -> int:
    """The number of paths that differ from HEAD, untracked ones included."""
    found = find_repository(source.repo)
    look = (*_own_ignores(), "status", "--porcelain=v1", "-z", "--untracked-files=normal", "--ignore-submodules=all")
    with found.borrowed(with_work_tree=True) as git:
        # `status` and `read-tree` hold every path of HEAD in memory.
        _must_fit(git, source.repo, source.head, bounds or SandboxSettings(), sizes=False)
        found.copy_ignored(git.path)
        found.copy_index(git)
        try:
            if _OUTSIDE.search(git("ls-files", "-z")):
                raise GitError("the index names files that are not of the work tree, which git would look at")
            status = git(*look, timeout_s=LOOK_S)
        except GitError:  # an index of many files, a damaged one or a forged one
            (git.path / "index").unlink(missing_ok=True)
            git("read-tree", "HEAD")
            status = git(*look, timeout_s=LOOK_S)
    return len(status.split(b"\0")) - 1


def _own_ignores() -> tuple[str, ...]:
    return "-c", f"core.excludesFile={users_ignore_file()}"


@dataclass(frozen=True)
class Base:
    """A commit of a repository, checked out once and never written again."""

    repo: Path
    """The repository's path for the user; commands see it at the same path."""
    commit: str
    tree: Path
    """The checkout, with a .git that ends at this commit."""

    @property
    def git(self) -> GitDir:
        """git commands about this commit and its ancestors."""
        return GitDir.of(self.tree)

    @cached_property
    def submodules(self) -> tuple[str, ...]:
        """Folders of submodules. They are left empty."""
        listed = self.git("ls-tree", "-r", "-z", self.commit).split(b"\0")
        return tuple(os.fsdecode(entry.split(b"\t", 1)[1]) for entry in listed if entry.startswith(b"160000 "))

    def read(self, path: str) -> bytes | None:
        """A file's bytes; None if it is not a regular file, or too large."""
        return read_beneath(self.tree, path, MOST_READ_BYTES)

    def has(self, path: str) -> bool:
        """Whether a path exists (a symlink counts). False if a symlink on the way leads out of the base."""
        return lies_beneath(self.tree, path)


def make_base(repo: Path, commit: str, *, dirty: bool = False, bounds: SandboxSettings | None = None) -> Base:
    """The base of a commit, from the cache or newly made. `dirty` adds a snapshot of the work tree on top."""
    folder = private_folder(cache_folder() / "bases")
    if not dirty:
        tree = folder / base_key(repo, commit) / "tree"
        if tree.is_dir():
            return Base(repo, commit, tree)
    found = find_repository(repo)
    making, lock = _claim(folder, ".making-")
    try:
        tree = making / "tree"
        with found.borrowed() as git:
            _must_fit(git, repo, commit, bounds or SandboxSettings())
            _copy_history(git, repo, commit, tree, bounds or SandboxSettings())
        # Check again: two packs may contain different content for one object, and only the copy's are verified against
        # their ids.
        _must_fit(GitDir.of(tree), repo, commit, bounds or SandboxSettings())
        if dirty:
            commit = _commit_work_tree(found, tree, commit, bounds or SandboxSettings())
            # In UTF-8, a file of another encoding may be twelve times as large.
            _must_fit(GitDir.of(tree), repo, commit, bounds or SandboxSettings())
        _check_out(tree, commit)
        _hand_over(Base(repo, commit, tree))
        final = folder / base_key(repo, commit)
        try:
            making.rename(final)
        except OSError:
            # Another process may have been first; its copy is as good.
            if not (final / "tree").is_dir():
                raise
        return Base(repo, commit, final / "tree")
    except OSError as error:
        raise SandboxError(
            f"{repo} could not be copied to {folder}: {error}. Free some disk space, or point XDG_CACHE_HOME at a "
            f"larger disk."
        ) from None
    finally:
        remove_folder(making)
        lock.release()


def _must_fit(git: GitDir, repo: Path, commit: str, bounds: SandboxSettings, *, sizes: bool = True) -> None:
    """Count files first: a few kilobytes of objects can refer to themselves often enough to fill any disk."""
    paths = size_bytes = 0
    rest = b""
    long = ("-l",) if sizes else ()
    with git.start("ls-tree", "-r", "-t", *long, "-z", "--full-tree", commit) as process:
        assert process.stdout is not None
        while chunk := process.stdout.read(1 << 20):
            *entries, rest = (rest + chunk).split(b"\0")
            paths += len(entries)
            for entry in entries if sizes else ():
                size = entry.partition(b"\t")[0].rpartition(b" ")[2]
                size_bytes += int(size) if size.isdigit() else 0
            try:
                if len(max((*entries, rest), key=len)) > _MOST_ENTRY_BYTES:
                    raise TaskError(
                        f"{repo} has a path at {commit[:12]} that is too long for a file system. Rename it, and commit."
                    )
                _must_be_within(bounds, paths, size_bytes, f"{repo} at {commit[:12]}")
            except TaskError:
                process.kill()
                raise
    if process.returncode != 0:
        # If git did not list it, it was not counted.
        raise TaskError(f"the history of {repo} at {commit[:12]} cannot be read. Try `git fsck` there.")


def _must_be_within(bounds: SandboxSettings, paths: int, size_bytes: int, what: str) -> None:
    if paths > bounds.repo_paths or size_bytes > bounds.repo_mb * 1_000_000:
        raise TaskError(
            f"{what} has more than {bounds.repo_paths:,} paths or {bounds.repo_mb:,} MB. If that is what you expect, "
            "raise sandbox.repo_paths or sandbox.repo_mb."
        )


def _check_out(tree: Path, commit: str) -> None:
    (tree / ".git" / "info").mkdir(exist_ok=True)
    (tree / ".git" / "info" / "attributes").write_text(f"{AS_COMMITTED}\n")
    try:
        GitDir.of(tree)("reset", "-q", "--hard", commit)
    except GitError as error:
        raise OSError(str(error)) from None  # git does not report that the disk is full
    (tree / ".git" / "ORIG_HEAD").unlink(missing_ok=True)


def _hand_over(base: Base) -> None:
    """Give the tree to the sandbox's user, and refresh the index; otherwise, every diff would read every file again."""
    if os.geteuid() == 0:
        owner = f"{SANDBOX_UID}:{SANDBOX_UID}"
        run_system("chown", "-R", "-h", owner, str(base.tree)).check_returncode()
        base.git("update-index", "-q", "--refresh")
        os.chown(base.tree / ".git" / "index", SANDBOX_UID, SANDBOX_UID)


def base_key(repo: Path, commit: str) -> str:
    """The name of a base's folder in the cache."""
    return hashlib.sha256(f"{repo}\0{commit}".encode(errors="surrogateescape")).hexdigest()[:20]


def _copy_history(git: GitDir, repo: Path, commit: str, tree: Path, bounds: SandboxSettings) -> None:
    """Copy the objects reachable from the commit, and no others, into a new repository at `tree`."""
    make_git_dir(tree / ".git", f"ref: {BRANCH}", sha256=len(commit) == 64)
    # A pack of the reachable objects: unlike a clone, it has no refs or alternates. Old objects that a partial clone
    # never fetched stay missing: only the base itself must be complete.
    packer = ("pack-objects", "--revs", "--stdout", "-q", "--delta-base-offset", "--missing=allow-any")
    with tempfile.TemporaryFile() as said, git.start(*packer, stderr=said) as pack:
        assert pack.stdin is not None and pack.stdout is not None
        with contextlib.suppress(BrokenPipeError), pack.stdin:
            pack.stdin.write(f"{commit}\n".encode())
        # A few kilobytes of deltas can become gigabytes here, if their base objects are not reachable.
        unpacker = ("index-pack", "--stdin", f"--max-input-size={bounds.repo_mb * 1_000_000}")
        with GitDir.of(tree).start(*unpacker, stdin=pack.stdout, stderr=said) as unpack:
            # Only the reader may hold this end; otherwise, the packer would wait forever for a reader that died.
            pack.stdout.close()
            assert unpack.stdout is not None
            unpack.stdout.read()
        pack.wait()
        said.seek(0)
        message = said.read().decode(errors="replace").strip()
    if pack.returncode != 0 or unpack.returncode != 0:
        if "No space left" in message:
            raise OSError(message)
        if "maximum allowed size" in message:
            raise TaskError(
                f"the history of {repo} at {commit[:12]} has more than {bounds.repo_mb:,} MB. If that is what you "
                "expect, raise sandbox.repo_mb."
            )
        raise TaskError(f"the history of {repo} at {commit[:12]} cannot be read: {message}. Try `git fsck` there.")
    if (git.path / "shallow").is_file():
        shutil.copyfile(git.path / "shallow", tree / ".git" / "shallow")
    (tree / ".git" / BRANCH).write_text(f"{commit}\n")


def _commit_work_tree(found: Foreign, tree: Path, head: str, bounds: SandboxSettings) -> str:
    """Commit the user's files as they are. Writes objects and index only into the copy."""
    found.check_work_tree()
    ours, theirs = GitDir.of(tree), GitDir(tree / ".git", found.work_tree)
    found.copy_ignored(ours.path)
    theirs("read-tree", head)
    # Neither `git add`, which would query nested repositories, nor `git ls-files`, which would look behind a folder
    # that has become a symlink.
    theirs("update-index", "-q", "--refresh")
    # Keep HEAD's commits of submodules: their folders may name any repository, and a base leaves them empty.
    differ = theirs("diff-files", "-z", "--name-only", "--ignore-submodules=all").split(b"\0")
    gone = theirs("diff-files", "-z", "--name-only", "--ignore-submodules=all", "--diff-filter=D").split(b"\0")
    look = (*_own_ignores(), "ls-files", "-z", "--others", "--exclude-standard")
    others = theirs(*look, timeout_s=LOOK_S).split(b"\0")
    entries = {name: _lstat(Path(found.name, os.fsdecode(name))) for name in {*differ, *others} - {*gone, b""}}
    # Skip a pipe in a file's place; a folder with a trailing slash is a repository.
    kept = {name: entry for name, entry in entries.items() if entry and not name.endswith(b"/") and _is_content(entry)}
    # Sparse files take no space here, but their full size in the copy.
    sizes = sum(entry.st_size for entry in kept.values())
    _must_be_within(bounds, len(entries) + len(gone), sizes, f"what is not committed in {found.name}")
    removed = {*gone, *differ} - {*kept, b""}
    theirs("update-index", "--force-remove", "-z", "--stdin", stdin=b"".join(name + b"\0" for name in removed))
    theirs("update-index", "--add", "-z", "--stdin", stdin=b"".join(name + b"\0" for name in kept))
    # Use HEAD's date, so that the same tree gives the same commit and its base is found in the cache.
    date = ours.text("log", "-1", "--format=%cI", head)
    author = {**_SNAPSHOT_AUTHOR, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    # Not `git commit`, which would scan the files again.
    return ours.with_variables(**author).text(
        "commit-tree", ours.text("write-tree"), "-p", head, "-m", "Work tree as found"
    )


class Workspace:
    """One writable view of a base. The host reads and writes its files only while no command runs in it."""

    def __init__(self, base: Base, folder: Path, user: int) -> None:
        self.base = base
        self.folder = folder
        self.user = user
        self.edits = 0
        """How often the host changed it. A sandbox that has it mounted may not notice a change."""

    def make(self) -> None:
        """Create it, without changes."""
        self._make_folders("", "upper", "work", "out")

    def _make_folders(self, *names: str) -> None:
        for name in names:
            (self.folder / name).mkdir()
            (self.folder / name).chmod(0o755)  # independent of the caller's umask
            if name and os.geteuid() == 0:
                os.chown(self.folder / name, self.user, self.user)

    @property
    def view(self) -> Overlay | Copy:
        """The view of the repository to give to a command."""
        return Overlay(self.base.tree, self.upper, self.folder / "work", str(self.base.repo))

    @property
    def outbox(self) -> Path:
        """A folder outside the repository where commands leave files for the host."""
        return self.folder / "out"

    @property
    def upper(self) -> Path:
        """The folder of all changes, in overlayfs format."""
        return self.folder / "upper"

    def unlock(self) -> None:
        """Make the repository's folder accessible again, in case a command or the caller's umask closed it."""
        self.edits += unlock(self.upper, 0o755)

    def write(self, path: str, data: bytes) -> None:
        """Write a file of the repository. Raises an error if a command placed a symlink or the like on the way."""
        self.edits += 1
        try:
            mode = self._clear_way(path)
            with parent_beneath(self.upper, path) as (parent, name):
                # A new file, because a command may have linked the old one elsewhere.
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=parent)
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
                with os.fdopen(os.open(name, flags, 0o644, dir_fd=parent), "wb") as file:
                    file.write(data)
                    os.fchmod(file.fileno(), mode)
                    if os.geteuid() == 0:
                        os.fchown(file.fileno(), self.user, self.user)
        except (OSError, ValueError) as error:  # ValueError: a null character
            raise SandboxError(f"{path!r} cannot be written in the workspace: {error}") from None

    def read(self, path: str) -> bytes | None:
        """A file as the next command will see it; None if it is not a regular file, or too large."""
        layer = self._layer(path) if is_inside(path) else None
        return None if layer is None else read_beneath(layer, path, MOST_READ_BYTES)

    def changed(self) -> Iterator[str]:
        """Files outside .git that differ from the base, new and deleted ones included, in no order."""
        folders = [""]
        while folders:
            folder = folders.pop()
            if _is_opaque(self.upper / folder):
                yield from (path for path in self._base_files(folder) if not os.path.lexists(self.upper / path))
            with contextlib.suppress(OSError):
                self.edits += unlock(self.upper / folder)
                for entry in os.scandir(self.upper / folder):
                    path = f"{folder}/{entry.name}".lstrip("/")
                    if path == ".git":
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(path)
                    else:
                        yield path
                        yield from self._base_files(path)

    def _base_files(self, folder: str) -> Iterator[str]:
        place = self.base.tree / folder
        if Path(os.path.realpath(place)) != Path(os.path.realpath(self.base.tree), folder):
            return  # it was a symlink, or below one, wherever that points on the host
        for top, _, files in os.walk(place):
            yield from (os.path.relpath(Path(top, name), self.base.tree) for name in files)

    def _layer(self, path: str) -> Path | None:
        """The layer in which the next command would find this path; None: it is deleted."""
        self.unlock()
        opaque = False
        for step in steps(path):
            entry = _lstat(self.upper / step)
            if entry is None:
                return None if opaque else self.base.tree
            if _is_whiteout(entry):
                return None
            if not stat.S_ISDIR(entry.st_mode):
                break
            self.edits += unlock(self.upper / step)
            opaque = opaque or _is_opaque(self.upper / step)
        return self.upper

    def _clear_way(self, path: str) -> int:
        """Create the folders above a file in the upper layer; returns the mode for the file."""
        if not is_inside(path):
            raise SandboxError(f"{path!r} is not a path inside the repository")
        mode = 0o644
        *above, last = steps(path)
        for step in (*above, last):
            layer = self._layer(str(step))
            seen = None if layer is None else _lstat(layer / step)
            wanted = "file" if step == last else "folder"
            if seen is not None and not (stat.S_ISREG if step == last else stat.S_ISDIR)(seen.st_mode):
                raise SandboxError(f"{path!r} cannot be written: {str(step)!r} is not a {wanted}")
            if step == last:
                return mode if seen is None else stat.S_IMODE(seen.st_mode)
            self._make_folder(step)
        return mode

    def _make_folder(self, step: PurePosixPath) -> None:
        folder = self.upper / step
        entry = _lstat(folder)
        deleted = entry is not None and _is_whiteout(entry)
        if deleted:
            folder.unlink()
        if entry is None or deleted:
            folder.mkdir()
            folder.chmod(0o755)
            if os.geteuid() == 0:
                os.chown(folder, self.user, self.user)
        if deleted:
            # The base's files below stay deleted.
            for name in _OPAQUE:
                with contextlib.suppress(OSError):
                    os.setxattr(folder, name, b"y")
        unlock(folder)

    def remove(self) -> None:
        """Delete the workspace. Safe to call twice."""
        remove_folder(self.folder)


class Workspaces:
    """Makes workspaces over one base and removes them at the end; the next start removes those of a crash."""

    def __init__(self, base: Base, form: type[Workspace] = Workspace, user: int | None = None) -> None:
        self.base = base
        self.form = form
        self.user = sandbox_user() if user is None else user
        self.folder: Path | None = None
        self._lock: Lock | None = None

    def __enter__(self) -> Workspaces:
        self.folder, self._lock = _claim(private_folder(cache_folder() / "workspaces"))
        self.shared.mkdir()
        self.shared.chmod(0o755)
        return self

    def __exit__(self, *exception: object) -> None:
        assert self.folder is not None and self._lock is not None
        remove_folder(self.folder)
        self._lock.release()

    @property
    def shared(self) -> Path:
        """A folder for files that all these workspaces share."""
        if self.folder is None:
            raise RuntimeError("Workspaces is a context manager: enter it first")
        return self.folder / "shared"

    def fresh(self) -> Workspace:
        """A new workspace."""
        workspace = self.form(self.base, self.shared.with_name(secrets.token_hex(6)), self.user)
        try:
            workspace.make()
        except OSError as error:
            raise SandboxError(
                f"a workspace could not be made in {self.folder}: {error.strerror}. Free some disk space."
            ) from None
        return workspace


def remove_folder(folder: Path) -> None:
    """Delete a folder that commands wrote to, whatever its modes and depth."""
    # An overlay's work folder has mode 000, which only root can enter.
    with contextlib.suppress(OSError, RecursionError):
        shutil.rmtree(folder)
    if not os.path.lexists(folder):
        return
    for command in (("chmod", "-R", "u+rwx"), ("rm", "-rf")):
        run_system(*command, "--", str(folder))


def empty_folder(folder: Path) -> None:
    """Delete the content of a folder that commands wrote to, but not the folder."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            remove_folder(entry)
        else:
            entry.unlink()


def private_folder(folder: Path) -> Path:
    """Create a folder that other users cannot read; raises a SandboxError if that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise SandboxError(
            f"{folder} cannot be created: {error.strerror}. Point XDG_CACHE_HOME at a folder you may write to."
        ) from None
    return folder


def _claim(root: Path, prefix: str = "") -> tuple[Path, Lock]:
    """Make a new folder with a lock for this process; first removes the folders of dead processes.

    The lock ends with the process. A second lock on the root keeps other processes from removing a folder between its
    creation and its locking.
    """
    try:
        with Lock(root / ".lock"):
            _remove_abandoned(root, prefix)
            folder = root / f"{prefix}{os.getpid()}-{secrets.token_hex(4)}"
            folder.mkdir(mode=0o700)
            lock = Lock(folder / "lock")
            lock.take(wait=True)
            return folder, lock
    except OSError as error:
        raise SandboxError(
            f"{root} cannot be used: {error.strerror}. Free some disk space, or point XDG_CACHE_HOME at a folder you "
            f"may write to."
        ) from None


def _remove_abandoned(root: Path, prefix: str) -> None:
    for folder in root.glob(f"{prefix}[0-9]*-*"):
        lock = Lock(folder / "lock")
        with contextlib.suppress(OSError):  # it is already gone
            if lock.take():
                remove_folder(folder)
                lock.release()


_OPAQUE = ("trusted.overlay.opaque", "user.overlay.opaque")
"""How overlayfs marks a folder that hides the lower one; the attribute depends on the user and the options of the
mount.
"""


def _is_opaque(folder: Path) -> bool:
    for name in _OPAQUE:
        with contextlib.suppress(OSError):
            return os.getxattr(folder, name, follow_symlinks=False) == b"y"
    return False


def _is_whiteout(entry: os.stat_result) -> bool:
    """Whether this is overlayfs's mark for a deleted file."""
    return stat.S_ISCHR(entry.st_mode) and entry.st_rdev == 0


def _is_content(entry: os.stat_result) -> bool:
    """Whether it is a file or a symlink. A folder in a file's place may be a repository, which is ignored."""
    return stat.S_ISREG(entry.st_mode) or stat.S_ISLNK(entry.st_mode)


def _lstat(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except OSError:
        return None


def unlock(folder: Path, least: int = 0o700) -> bool:
    """Make a folder accessible that a command may have closed; False: it is accessible already."""
    mode = stat.S_IMODE(folder.lstat().st_mode)
    closed = mode & least != least
    if closed:
        folder.chmod(mode | least)
    return closed


def steps(path: str) -> list[PurePosixPath]:
    """The folders above a path, outermost first, then the path."""
    pure = PurePosixPath(path)
    return [*list(reversed(pure.parents))[1:], pure]
