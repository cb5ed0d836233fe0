"""Every git process on the host starts here, and none of them reads a configuration that scrout did not write.

A repository's configuration can name programs: filters, monitors, helpers, transports. So git never runs on a foreign
git directory. It runs on one of scrout's own, which borrows the objects of the foreign one and holds copies of its
references. What is copied is read without following a link.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import IO

from scrout.base import TaskError
from scrout.files import read_beneath
from scrout.programs import NEUTRAL, find_program, never_below, search_path

MOST_BYTES = 1_000_000_000
"""Of one command's output, which is held in memory."""
MOST_REFERENCES = 100_000
LOCAL_S = 1800.0
"""For a command that asks for no time of its own."""
_MOST_FILE_BYTES = 200_000_000
"""Of an index or a list of references."""
_MOST_NAMED_BYTES = 10_000_000
"""Of a file that git reads whole because of its name."""
_MOST_SAID_BYTES = 100_000
"""Of what one command says beside its output."""
_MEMORY_BYTES = 2_000_000_000
"""Of one process. A few kilobytes of objects can stand for gigabytes, and git holds most of what it reads in memory."""
_PACKING_MEMORY_BYTES = 8_000_000_000
_PACKING = ("clone", "fetch", "index-pack", "pack-objects")
"""Commands that hold a list of all objects."""
_NETWORK_VARIABLES = re.compile(r"(?i)(ssh_\w+|\w*_proxy|ssl_\w+|home|user|logname|xdg_runtime_dir)")
_OPTIONS = (
    "--no-optional-locks",
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.attributesFile=/dev/null"),
    *("-c", "core.quotePath=false"),
    *("-c", "core.logAllRefUpdates=false"),
    # What lies beside borrowed objects may lie about them.
    *("-c", "core.commitGraph=false"),
    *("-c", "core.multiPackIndex=false"),
    *("-c", "pack.useBitmapIndexes=false"),
    *("-c", "credential.helper="),
    *("-c", "diff.ignoreSubmodules=all"),
    *("-c", "gc.auto=0"),
    *("-c", "maintenance.auto=false"),
    *("-c", "safe.bareRepository=explicit"),
    *("-c", "submodule.recurse=false"),
)
_VARIABLES = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "/bin/false",
    "SSH_ASKPASS": "/bin/false",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
    "LC_ALL": "C",
}
_OF_THE_TERMINAL = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
Process = subprocess.Popen[bytes]
Stream = int | IO[bytes]
NETWORK = "https:http:ssh:git"
"""The protocols of a repository on another machine."""
_READ_BY_NAME = (".gitignore", ".gitattributes", ".gitmodules", ".mailmap")
_READ_WHOLE = ("HEAD", "commondir", "config", "config.worktree", "tables.list")
_OBJECT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_REFERENCE = re.compile(r"refs/(?!.*\.\.)[^\x00-\x20\x7f~^:?*\[\\]{1,1000}")
_SYMBOLIC = re.compile(rf"ref:[ \t\r\n]*(?:{_REFERENCE.pattern}|[A-Z_]{{1,100}})[ \t\r\n]*")
"""What a file says that is a name for another reference, one that lies among the others or beside HEAD."""


class GitError(TaskError):
    """A git command that failed, with what it said."""


@dataclass(frozen=True)
class GitDir:
    """A git directory that scrout made, and commands on it. Never one that somebody else made."""

    path: Path
    work_tree: Path | None = None
    protocols: str = ""
    """What commands may reach, by the names of git's protocols with colons between; empty: nothing."""
    variables: tuple[tuple[str, str], ...] = ()
    """More of git's environment."""

    def __call__(
        self, *args: str, stdin: bytes = b"", timeout_s: float | None = None, most_bytes: int = MOST_BYTES
    ) -> bytes:
        """Standard output of one command."""
        return _run(args, self._cwd, self._variables, stdin, timeout_s, most_bytes)

    def text(self, *args: str) -> str:
        """Standard output as stripped text."""
        return self(*args).decode("utf-8", errors="surrogateescape").strip()

    @contextmanager
    def start(
        self, *args: str, stdin: Stream = subprocess.PIPE, stderr: Stream = subprocess.DEVNULL
    ) -> Iterator[Process]:
        """A command whose output the caller reads. When the block ends, so has the command."""
        process = _start(args, self._cwd, self._variables, stdin, stderr)
        with _ended(process, LOCAL_S) as late, process:
            yield process
        if late.is_set():
            raise GitError(f"git {args[0]} took more than {LOCAL_S:g} seconds.")

    @property
    def _cwd(self) -> Path:
        return self.work_tree or self.path

    @property
    def _variables(self) -> dict[str, str]:
        tree = {"GIT_WORK_TREE": str(self.work_tree)} if self.work_tree else {}
        return {**_environment(self.protocols), "GIT_DIR": str(self.path), **tree, **dict(self.variables)}

    def with_variables(self, **more: str) -> GitDir:
        """The same, with these variables of git's set too."""
        return replace(self, variables=(*self.variables, *more.items()))

    @classmethod
    def of(cls, repo: Path) -> GitDir:
        """That of a work tree which scrout laid out."""
        return cls(repo / ".git", repo)


def make_git_dir(path: Path, head: str = "ref: refs/heads/main", *, bare: bool = False, sha256: bool = False) -> None:
    """A new git directory, as `git init` makes it without a template."""
    for folder in ("objects/info", "objects/pack", "refs/heads", "refs/tags"):
        (path / folder).mkdir(parents=True)
    (path / "HEAD").write_bytes(f"{head}\n".encode("utf-8", "surrogateescape"))
    lines = [f"repositoryformatversion = {int(sha256)}", "filemode = true", f"bare = {str(bare).lower()}"]
    extensions = "[extensions]\n\tobjectFormat = sha256\n" if sha256 else ""
    (path / "config").write_text("[core]\n" + "".join(f"\t{line}\n" for line in lines) + extensions)


def version() -> str:
    """What git says that it is."""
    return _run(("--version",), Path("/"), _environment("")).decode(errors="replace").strip()


def clone(address: str, folder: Path, timeout_s: float) -> None:
    """Clone a repository over the network, without a checkout."""
    arguments = ("clone", "-q", "--no-checkout", "--template=", "--", address, str(folder))
    _run(arguments, folder.parent, _environment(NETWORK), timeout_s=timeout_s)


# Foreign repositories


@dataclass(frozen=True)
class Foreign:
    """A repository that somebody else made: where it lies. Nothing here runs git on it."""

    work_tree: Path | None
    """None: it is bare."""
    own: Path
    """Its git directory, with HEAD and index."""
    common: Path
    """Where objects and references are: the same, or for a linked work tree that of the main one."""

    @property
    def name(self) -> Path:
        """For people."""
        return self.work_tree or self.own

    def head(self) -> str:
        """The commit that HEAD names; empty: there is none yet."""
        said = self._read(self.own, "HEAD")
        if _OBJECT.fullmatch(said):
            return said
        name = said.removeprefix("ref:").strip()
        if name == "refs/heads/.invalid":
            raise TaskError(f"{self.name} keeps references as a reftable. Run `git refs migrate --ref-format=files`.")
        if not said.startswith("ref:") or not _REFERENCE.fullmatch(name):
            raise TaskError(f"{self.name}: HEAD names nothing. Check out a branch or commit there.")
        found = self._read(self.common, name)
        if not found:
            packed = re.search(rf"(?m)^([0-9a-f]+) {re.escape(name)}$", self._read(self.common, "packed-refs"))
            found = packed[1] if packed else ""
        if found and not _OBJECT.fullmatch(found):
            raise TaskError(f"{self.name}: {name} names no commit. Look for damage with `git fsck`.")
        return found

    def remote_url(self, name: str) -> str:
        """The address of a remote as the configuration has it; empty: there is none."""
        return _configured(self._read(self.common, "config"), f'remote "{name}"', "url")

    @contextmanager
    def borrowed(self, *, with_work_tree: bool = False) -> Iterator[GitDir]:
        """A git directory of scrout's own with this one's objects and references, gone when the block ends.

        Without the work tree: git would read attributes there, also where it is asked for objects alone.
        """
        if with_work_tree:
            self.check_work_tree()
        with tempfile.TemporaryDirectory(prefix="scrout-git-") as folder:
            path = Path(folder, ".git")
            self.copy_references(path, bare=not with_work_tree)
            (path / "objects" / "info" / "alternates").write_bytes(os.fsencode(self._objects()) + b"\n")
            yield GitDir(path, self.work_tree if with_work_tree else None)

    def check_work_tree(self) -> None:
        """Before git reads the work tree: some files it opens by their names, whatever they are."""
        for entry in _all_below(self.work_tree, leave_out=".git") if self.work_tree else ():
            if entry.name in _READ_BY_NAME and not entry.is_symlink():  # git follows none of these
                _must_be_readable(Path(entry.path))
            elif entry.name == ".git" and Path(entry.path).parent != self.work_tree:
                _check_nested(Path(entry.path))

    def copy_references(self, path: Path, *, bare: bool = True) -> None:
        """Make a git directory with this one's references."""
        head = self.head()
        make_git_dir(path, self._read(self.own, "HEAD"), bare=bare, sha256=len(head) == 64)
        for name in ("packed-refs", "shallow"):
            if (content := _content(self.common, name)) is not None:
                (path / name).write_bytes(content)
        for number, name in enumerate(_files_below(self.common, "refs/heads", "refs/tags", "refs/remotes")):
            if number > MOST_REFERENCES:
                raise TaskError(
                    f"{self.name} has over {MOST_REFERENCES:,} references. Run `git pack-refs --all` there."
                )
            if (content := read_beneath(self.common, name, 4096)) is not None:
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                (path / name).write_bytes(content)

    def copy_index(self, to: GitDir) -> None:
        """What its index knows of the files' times spares git reading them all."""
        with contextlib.suppress(FileNotFoundError):
            written_ns = (self.own / "index").lstat().st_mtime_ns
            content = _content(self.own, "index")
            if content is not None:
                (to.path / "index").write_bytes(content)
                # Git reads a file that changed in the second in which the index was written: its times say nothing.
                os.utime(to.path / "index", ns=(written_ns, written_ns))

    def copy_ignored(self, to: Path) -> None:
        """What the repository ignores beside its .gitignore files."""
        content = _content(self.common, "info/exclude")
        if content is not None:
            (to / "info").mkdir(exist_ok=True)
            (to / "info" / "exclude").write_bytes(content)

    def copy_objects(self, to: Path) -> None:
        """Bring every object that `to`, a folder of objects, lacks."""
        objects = self._objects()
        for name in _files_below(objects, "."):
            target = to / name
            if name == "info/alternates" or name.endswith((".lock", ".keep")) or target.exists():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                target.hardlink_to(objects / name)
            except OSError:  # on another disk, or somebody else's
                shutil.copyfile(objects / name, target)

    def _objects(self) -> Path:
        """The folder of its objects, if all of them are its own."""
        objects = self.common / "objects"
        if b"\n" in os.fsencode(objects):
            # It is written as a line of a file, and the rest of it would name another folder.
            raise TaskError(f"{str(self.name)!r} has a line break in its path. Move the repository.")
        # Whatever it holds: git reads more of it than we would.
        if os.path.lexists(objects / "info" / "alternates") and _content(objects, "info/alternates") != b"":
            raise TaskError(
                f"{self.name} borrows objects of another repository (objects/info/alternates). Make it stand alone: "
                "`git repack -a -d && rm .git/objects/info/alternates`."
            )
        if objects.is_symlink():
            raise TaskError(f"{objects} is a symlink, and scrout follows none in a repository. Pass a clone instead.")
        for entry in _all_below(objects):
            if entry.is_symlink() or not (entry.is_file() or entry.is_dir()):
                what = (
                    "a symlink, and scrout follows none" if entry.is_symlink() else "no file, which git would wait on"
                )
                raise TaskError(f"{entry.path} is {what} in a repository. Pass a clone instead.")
        return objects

    def _read(self, folder: Path, name: str) -> str:
        return (_content(folder, name) or b"").decode("utf-8", "surrogateescape").strip()


def find_repository(path: Path) -> Foreign:
    """The repository whose work tree holds a folder, or a TaskError that says what is missing."""
    folder = path.resolve()
    bare: Path | None = None
    for top in (folder, *folder.parents):
        if os.path.lexists(top / ".git"):
            never_below(top)  # also if it is refused
            if bare is None:
                return _at(top)
            break
        if bare is None and is_git_dir(top):
            never_below(top)
            bare = top
    if bare is not None:
        raise TaskError(f"{bare} is a bare repository or looks like one. Clone it, and pass the clone with --repo.")
    raise TaskError(f"{path} is not a git repository. Run `git init` and commit there, or pass --repo.")


def repository_at(path: Path) -> Foreign:
    """The same, or the bare repository at a path that the user named, such as a mirror."""
    folder = path.resolve()
    if not is_git_dir(folder):
        return find_repository(path)
    never_below(folder)
    return Foreign(None, folder, folder)


def is_git_dir(folder: Path) -> bool:
    """Whether git would take a folder for a git directory."""
    return os.path.lexists(folder / "HEAD") and all(os.path.lexists(folder / name) for name in ("objects", "refs"))


def _at(top: Path) -> Foreign:
    entry = top / ".git"
    if entry.is_symlink():
        raise TaskError(f"{entry} is a symlink, and scrout follows none in a repository. Pass a clone instead.")
    if entry.is_dir():
        if not is_git_dir(entry):
            raise TaskError(f"{top} is not a git repository: its .git lacks HEAD, objects or refs. Run `git init`.")
        return Foreign(top, entry, entry)
    named = (_content(top, ".git", 10_000) or b"").decode("utf-8", "surrogateescape")
    if not named.startswith("gitdir:"):
        raise TaskError(f"{top} is not a git repository: {entry} names no git directory. Run `git init` there.")
    own = _real(top / named.removeprefix("gitdir:").strip())
    # Such a file can name any repository of this machine: that one must know of this work tree.
    if own.parent.name == "worktrees" and _links_back(own, entry):
        if own.parent.parent.name == ".git":
            never_below(own.parent.parent.parent)  # the main work tree is as much the stranger's
        return Foreign(top, own, own.parent.parent)
    if _is_submodule(top, own):
        return Foreign(top, own, own)
    raise TaskError(
        f"{entry} names a git directory elsewhere that knows nothing of it. Pass a clone, a work tree of "
        "`git worktree`, or a submodule."
    )


def _links_back(own: Path, entry: Path) -> bool:
    said = (_content(own, "gitdir", 10_000) or b"").decode("utf-8", "surrogateescape").strip()
    return bool(said) and _real((own / said).parent) / ".git" == entry and is_git_dir(own.parent.parent)


def _real(path: Path) -> Path:
    """Where a path of a stranger's leads. Not Path's own method, which raises for a link that leads to itself."""
    return Path(os.path.realpath(str(path).replace("\0", "")))


def _is_submodule(top: Path, own: Path) -> bool:
    """Whether the git directory lies in that of the repository around the work tree, and names this work tree."""
    try:
        around = find_repository(top.parent)
    except TaskError:
        return False
    if not own.is_relative_to(around.own / "modules") or not is_git_dir(own):
        return False
    # A folder that was downloaded into the user's repository can name any submodule of it.
    texts = ((_content(own, name) or b"").decode("utf-8", "surrogateescape") for name in ("config", "config.worktree"))
    return any(_real(own / said) == top for text in texts if (said := _configured(text, "core", "worktree")))


def _configured(text: str, section: str, key: str) -> str:
    """A value of a git configuration, read as text and without git; empty: there is none."""
    inside, value = False, ""
    for line in text.splitlines():
        if header := re.match(r"\s*\[(.*?)\]", line):
            inside = header[1] == section
        elif inside:
            name, _, said = map(str.strip, line.partition("="))
            if name == key and said:
                value = re.sub(r"\\(.)", r"\1", said.removeprefix('"').removesuffix('"'))
    return value.replace("\0", "")


def _check_nested(entry: Path) -> None:
    """Of a repository inside of a work tree git wants to know what is checked out, and follows whatever leads there."""
    _must_be_readable(entry)
    folder = entry.parent / _named_in(entry, "gitdir: ") if entry.is_file() else entry
    _check_nested_folder(folder)
    if common := _named_in(folder / "commondir"):
        _check_nested_folder(folder / common)


def _check_nested_folder(folder: Path) -> None:
    for path in (*folder.glob("*"), *(folder / "reftable").glob("*")):
        _must_be_readable(path, _MOST_NAMED_BYTES if path.name in _READ_WHOLE else _MOST_FILE_BYTES)
        _check_symbolic(path)
    tables = folder / "reftable" / "tables.list"
    if tables.is_file() and b"/" in tables.read_bytes():
        raise TaskError(f"{tables} names files of other folders, and git would read them. Remove {folder}.")
    refs = folder / "refs"
    if refs.is_symlink():
        raise TaskError(f"{refs} is a symlink, and scrout follows none in a repository. Remove it.")
    for number, entry in enumerate(_all_below(refs)):
        if number > MOST_REFERENCES or (entry.is_symlink() and entry.is_dir()):
            raise TaskError(f"{entry.path} is a symlink, or one of too many references. Remove {folder}.")
        _must_be_readable(Path(entry.path))
        _check_symbolic(Path(entry.path))


def _check_symbolic(path: Path) -> None:
    """A reference may name another one, and git takes any path below the folder for such a name."""
    said = _named_in(path)
    if said.startswith("ref:") and not _SYMBOLIC.fullmatch(said):
        raise TaskError(f"{path} names a file that is no reference, and git would read it. Remove {path}.")


def _named_in(path: Path, before: str = "") -> str:
    """What such a file names, as git reads it: blanks are part of a name. Empty: nothing."""
    try:
        with path.open("rb") as file:
            said = file.read(10_000).decode("utf-8", "surrogateescape")
    except OSError:
        return ""
    return said.removeprefix(before).rstrip("\r\n").partition("\0")[0]


def _must_be_readable(path: Path, most_bytes: int = _MOST_NAMED_BYTES) -> None:
    """Nothing, a folder, or a file of some size, links followed: git waits on a pipe, and reads a device for ever."""
    try:
        about = path.stat()
    except (OSError, ValueError):
        return
    if not stat.S_ISDIR(about.st_mode) and (not stat.S_ISREG(about.st_mode) or about.st_size > most_bytes):
        raise TaskError(
            f"{path} is a pipe, a device, or larger than {most_bytes:,} bytes, and git would read it. Remove it."
        )


def _files_below(root: Path, *names: str) -> Iterator[str]:
    """Regular files in folders of a folder, relative to it; no link is followed."""
    for name in names:
        for entry in _all_below(root / name) if not (root / name).is_symlink() else ():
            if entry.is_file(follow_symlinks=False):
                yield os.path.relpath(entry.path, root)


def _all_below(folder: Path, leave_out: str = "") -> Iterator[os.DirEntry[str]]:
    """Everything in a folder and in its folders but those of one name; no link is followed."""
    folders = [str(folder)]
    while folders:
        current = folders.pop()
        try:
            with os.scandir(current) as entries:
                for entry in entries:
                    yield entry
                    if entry.is_dir(follow_symlinks=False) and entry.name != leave_out:
                        folders.append(entry.path)
        except OSError as error:
            if isinstance(error, PermissionError) and os.access(current, os.X_OK):
                # Git asks for what it knows the name of.
                raise TaskError(f"{current} may be entered and not listed. Run `chmod u+r` on it.") from None


def _content(folder: Path, name: str, most_bytes: int = _MOST_FILE_BYTES) -> bytes | None:
    """A file of a git directory; None: there is none, or a link. One that is too large does not count as missing."""
    content = read_beneath(folder, name, most_bytes)
    path = folder / name
    if content is None and os.path.lexists(path) and not path.is_symlink() and not path.is_dir():
        raise TaskError(
            f"{path} is not a plain file of at most {most_bytes:,} bytes. That is no ordinary repository: pass a clone."
        )
    return content


def users_ignore_file() -> str:
    """What the user ignores in every repository: the one thing that counts of the user's own configuration."""
    return _ignore_file(os.environ.get("HOME", ""), os.environ.get("XDG_CONFIG_HOME", ""))


@lru_cache(maxsize=1)
def _ignore_file(home: str, config_home: str) -> str:
    variables = _environment("") | {"HOME": home, "XDG_CONFIG_HOME": config_home}
    variables.pop("GIT_CONFIG_GLOBAL")
    with contextlib.suppress(GitError):  # it has no such line
        return os.fsdecode(_run(("config", "--global", "--path", "core.excludesFile"), Path("/"), variables)).strip()
    return str(Path(config_home or Path(home, ".config"), "git", "ignore"))


# Processes


def _environment(protocols: str) -> dict[str, str]:
    """Nothing of the caller's but what finds programs and, for the network, a way out."""
    kept = {"PATH": search_path()} | {name: value for name, value in os.environ.items() if name == "TMPDIR"}
    if protocols:
        kept |= {name: value for name, value in os.environ.items() if _NETWORK_VARIABLES.fullmatch(name)}
    return {"HOME": "/nonexistent", **kept, **_VARIABLES, "GIT_ALLOW_PROTOCOL": protocols}


def _run(
    args: Sequence[str],
    cwd: Path,
    variables: Mapping[str, str],
    stdin: bytes = b"",
    timeout_s: float | None = None,
    most_bytes: int = MOST_BYTES,
    *,
    again: bool = False,
) -> bytes:
    limit_s = timeout_s or LOCAL_S
    with tempfile.TemporaryFile() as asked:
        asked.write(stdin)
        asked.seek(0)
        process = _start(args, cwd, variables, asked, subprocess.PIPE)
        with process, _heard(process) as said, _ended(process, limit_s) as late:
            assert process.stdout is not None
            output = process.stdout.read(most_bytes + 1)
            if len(output) <= most_bytes:
                process.wait()
    words = said.decode(errors="replace").strip()
    if len(output) > most_bytes:
        raise GitError(f"git {args[0]} in {cwd} wrote more than {most_bytes:,} bytes. That is no ordinary repository.")
    if late.is_set():
        raise GitError(f"git {args[0]} took more than {limit_s:g} seconds.")
    if -process.returncode in _OF_THE_TERMINAL and not again:
        # It came while git had no group of its own yet, and was meant for scrout, which ends by itself.
        return _run(args, cwd, variables, stdin, timeout_s, most_bytes, again=True)
    if process.returncode != 0:
        raise GitError(f"git {args[0]} in {cwd}: {words or f'exit code {process.returncode}'}")
    return output


@contextmanager
def _heard(process: Process) -> Iterator[bytearray]:
    """The first of what a process says beside its output. The rest is dropped: lines of a repository's attributes that
    git does not understand would fill any disk, each told with the path of its file.
    """
    said = bytearray()

    def listen() -> None:
        assert process.stderr is not None
        while part := os.read(process.stderr.fileno(), 65_536):
            said.extend(part[: _MOST_SAID_BYTES - len(said)])

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    try:
        yield said
    finally:
        listener.join()


@contextmanager
def _ended(process: Process, timeout_s: float) -> Iterator[threading.Event]:
    """When the block or the time is over, a process that still runs ends, with those that it started."""
    late = threading.Event()

    def end() -> None:
        if process.poll() is None:
            late.set()
            os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(timeout_s, end)
    timer.daemon = True
    timer.start()
    try:
        yield late
    finally:
        timer.cancel()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def _start(args: Sequence[str], cwd: Path, variables: Mapping[str, str], stdin: Stream, stderr: Stream) -> Process:
    program = find_program("git")
    if program is None:
        raise TaskError("git is not installed or not on PATH. Install git 2.39 or later.")
    if not os.access(cwd, os.X_OK):
        raise TaskError(f"git cannot run in {cwd}. Check that it exists and that you may enter it.")
    try:
        process = subprocess.Popen(
            # git itself enters the folder: a version manager's script in its place would read files there.
            [program, "-C", str(cwd.absolute()), *_OPTIONS, *args],
            cwd=NEUTRAL,
            env=variables,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            # A terminal sends Ctrl-C to the whole group. Were git to die of it first, that would look like git's error.
            process_group=0,
        )
    except OSError as error:
        raise TaskError(f"{program} cannot run: {error.strerror}. Check the installation of git.") from None
    if sys.platform == "linux":
        memory = _PACKING_MEMORY_BYTES if args[0] in _PACKING else _MEMORY_BYTES
        with contextlib.suppress(OSError):  # it has ended
            resource.prlimit(process.pid, resource.RLIMIT_DATA, (memory, memory))
    return process
