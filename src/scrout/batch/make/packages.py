"""A published package as a git repository, with a virtual environment for its tests.

pip runs in a sandbox with network: reading a source's metadata runs its build, and installed wheels can run code when
Python starts. Dependencies are installed from wheels only. The package itself is not installed: a path file in the
environment names the repository, and a copy of its metadata gives its version.
"""

from __future__ import annotations

import asyncio
import email
import os
import re
import shlex
import shutil
import sys
import tarfile
import tempfile
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from scrout.base import SandboxError, TaskError
from scrout.config.folders import cache_folder
from scrout.config.settings import EnvironmentSettings
from scrout.files import Lock, read_toml
from scrout.git import GitDir, make_git_dir
from scrout.sandbox.environment import find_environment
from scrout.sandbox.registries import find_registries, without_credentials
from scrout.sandbox.task_sandbox import open_workspaces
from scrout.sandbox.tier import Command, Completed, Limits, Mount, Tier
from scrout.sandbox.workspace import make_base, private_folder, remove_folder

MOST_FILES = 20_000
MOST_BYTES = 200_000_000
INSTALL_S = 600.0
INSTALL_MB = 20_480
_HOME, _DROP = "/opt/scrout/home", "/opt/scrout/packages"
_OURS = (".git", ".venv", ".gitignore", ".gitattributes")
_IGNORED = ".venv/\n__pycache__/\n*.py[co]\n.pytest_cache/\n"
_REQUIREMENT = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:==([A-Za-z0-9][A-Za-z0-9.+!_-]*))?")
_FOR_TESTS = re.compile(r"tests?|testing", re.IGNORECASE)
_EXTRA = re.compile(r"""(?:\(|(?<!\s))\s*+extra\s*+==\s*+["']([^"']+)["']\s*+\)?""")
_AUTHOR = {
    f"GIT_{role}_{key}": value
    for role in ("AUTHOR", "COMMITTER")
    for key, value in (("NAME", "scrout"), ("EMAIL", "scrout@localhost"), ("DATE", "2024-01-01T00:00:00Z"))
}

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Package:
    name: str
    version: str
    repo: Path
    good: str
    """The commit with its published source."""

    @property
    def git(self) -> GitDir:
        return GitDir.of(self.repo)

    def read(self, path: str) -> str | None:
        """A file of the good commit; None: there is none, or it is not text."""
        try:
            # With \\r\\n unchanged, because the text is written back.
            return self.git("cat-file", "blob", f"{self.good}:{path}").decode()
        except (TaskError, UnicodeDecodeError):
            return None

    def commit(self, files: Mapping[str, str]) -> str:
        """A commit without parents, so that no history reveals a fix: the good one with some files replaced."""
        git = self.git.with_variables(GIT_INDEX_FILE=str(self.repo / ".git" / "scrout-index"))
        git("read-tree", self.good)
        for path, text in files.items():
            blob = git("hash-object", "-w", "--stdin", stdin=text.encode()).decode().strip()
            git("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}")
        return _commit_tree(git, git.text("write-tree"))

    def keep(self, commit: str) -> None:
        """Protect a commit from git's garbage collection."""
        self.git("update-ref", f"refs/tasks/{commit}", commit)

    def diff(self, old: str, new: str) -> str:
        options = ("--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--full-index")
        return self.git("diff", *options, old, new).decode("utf-8", "surrogateescape")

    def show(self, commit: str) -> None:
        self.git("update-ref", "refs/heads/main", commit)
        self.git("reset", "-q", "--hard", commit)


def split(requirement: str) -> tuple[str, str]:
    """Name and version of NAME or NAME==VERSION; the version is empty if there is none."""
    match = _REQUIREMENT.fullmatch(requirement)
    if match is None:
        raise TaskError(f"{requirement[:100]!r} is not a package. Write NAME or NAME==VERSION.")
    return normal(match[1]), match[2] or ""


def normal(name: str) -> str:
    """A package's normalized name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def open_package(requirement: str, repo: Path, tier: Tier, progress: Progress) -> Package:
    """Make a new repository with the package at `repo`, replacing an old one, ready to run its tests."""
    name, version = split(requirement)
    remove_folder(repo)
    repo.mkdir(parents=True)
    make_git_dir(repo / ".git")
    git = GitDir.of(repo)
    venv.EnvBuilder(symlinks=True).create(repo / ".venv")
    sdist = _cached(name, version)
    if sdist is None:
        progress(f"{name}: downloading its source")
        sdist = asyncio.run(_download(requirement, name, repo, tier))
    unpack(sdist, repo)
    (repo / ".gitignore").write_text(_IGNORED)
    version = _version(sdist, name)
    git("add", "--all")
    good = _commit_tree(git, git.text("write-tree"))
    git("update-ref", "refs/heads/main", good)
    progress(f"{name}: installing what its tests need")
    _install(name, version, repo, tier)
    return Package(name, version, repo, good)


def _commit_tree(git: GitDir, tree: str) -> str:
    return git.with_variables(**_AUTHOR).text("commit-tree", tree, "-m", "State")


def _cached(name: str, version: str) -> Path | None:
    """Only for an exact version, because the index decides which one is newest."""
    files = sorted(_sdists().glob("*.tar.gz")) if version else []
    return next((file for file in files if _named(file) == (name, version)), None)


def _sdists() -> Path:
    return private_folder(cache_folder() / "packages")


def _named(sdist: Path) -> tuple[str, str]:
    name, _, version = sdist.name.removesuffix(".tar.gz").rpartition("-")
    return normal(name), version


def _version(sdist: Path, name: str) -> str:
    named, version = _named(sdist)
    if named != name:
        raise TaskError(f"the source of {name} is called {sdist.name[:100]}. Name the package as its index does.")
    return version


async def _download(requirement: str, name: str, repo: Path, tier: Tier) -> Path:
    """Download into the cache, with pip, which runs the source's build to read its metadata."""
    with tempfile.TemporaryDirectory(dir=_sdists()) as made:
        drop = Path(made) / "drop"
        drop.mkdir()
        wanted = ("--no-deps", "--no-binary", name, "--dest", _DROP, "--", requirement)
        done = await _run_pip(("download", *wanted), repo, tier, Mount(drop, _DROP, writable=True))
        found = sdist_of(name, drop)
        if done.exit_code != 0 or found is None:
            said = without_credentials(done.text.strip())[-300:] or "there is no .tar.gz of it"
            raise TaskError(f"the source of {requirement} cannot be downloaded: {said}")
        kept = _sdists() / found.name
        shutil.copyfile(found, kept)
    return kept


def sdist_of(name: str, folder: Path) -> Path | None:
    """A package's source among the downloaded files.

    Its build ran there, and could create a file with another package's name.
    """
    files = (file for file in folder.glob("*.tar.gz") if file.is_file() and not file.is_symlink())
    return next((file for file in files if _named(file)[0] == name), None)


async def _run_pip(arguments: Sequence[str], repo: Path, tier: Tier, into: Mount) -> Completed:
    """Run pip in a sandbox with network and one writable folder, beside an empty repository.

    Never on the host: pip runs a source's build, and installed wheels can run code whenever that Python starts.
    """
    if not tier.mounts:
        raise SandboxError(
            f"pip runs in a sandbox that mounts a folder for it, and {tier.name} mounts none. Use the bubblewrap tier."
        )
    git = GitDir.of(repo)
    empty = _commit_tree(git, git("mktree").decode().strip())
    git("update-ref", "refs/scrout/empty", empty)
    base, environment = make_base(repo, empty), find_environment(repo, EnvironmentSettings(venv=str(_pip())))
    registries = find_registries(_HOME)
    with tempfile.TemporaryDirectory(dir=_sdists()) as made, open_workspaces(base, tier) as workspaces:
        home = Path(made) / "home"
        parents = [Path(mount.target).parent for mount in registries.mounts if mount.target.startswith(_HOME)]
        inside = [home / parent.relative_to(_HOME) for parent in parents]
        for folder in (home, home / "tmp", *inside):
            folder.mkdir(parents=True, exist_ok=True)
        # In a file, because others can see a process's arguments and variables.
        exports = "".join(f"export {key}={shlex.quote(value)}\n" for key, value in registries.variables.items())
        (home / ".bash_env").write_text(exports)
        if os.geteuid() == 0:
            for path in (home, *home.rglob("*"), into.source, *into.source.rglob("*")):
                os.chown(path, tier.user, tier.user, follow_symlinks=False)
        workspace = workspaces.fresh()
        workspace.unlock()
        pip = ("python", "-I", "-m", "pip", *arguments)
        return await tier.run(
            Command(
                argv=["bash", "-c", shlex.join(pip)],
                cwd=str(repo),
                view=workspace.view,
                mounts=(*environment.mounts, Mount(home, _HOME, writable=True), into, *registries.mounts),
                env={
                    **environment.variables,
                    "HOME": _HOME,
                    "TMPDIR": f"{_HOME}/tmp",
                    "BASH_ENV": f"{_HOME}/.bash_env",
                    "PIP_NO_CACHE_DIR": "1",
                    "PIP_NO_INPUT": "1",
                    "PIP_QUIET": "1",
                    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
                },
                limits=Limits(timeout_s=INSTALL_S, processes=1024, disk_mb=INSTALL_MB),
                network=True,
            )
        )


def unpack(sdist: Path, into: Path) -> None:
    """Extract the regular files of an sdist, without its top folder, symlinks, and anything named like git's."""
    count = size = 0
    try:
        with tarfile.open(sdist) as archive:
            for member in archive:
                path = PurePosixPath(*PurePosixPath(member.name).parts[1:])
                unfit = path.is_absolute() or ".." in path.parts or not str(path).isprintable()
                # In any case: some disks do not tell .GIT from .git.
                ours = any(part.lower() in _OURS for part in path.parts)
                if not member.isfile() or unfit or ours or not path.parts:
                    continue
                count, size = count + 1, size + member.size
                if count > MOST_FILES or size > MOST_BYTES:
                    raise TaskError(
                        f"{sdist.name} unpacks to more than {MOST_FILES:,} files or {MOST_BYTES:,} bytes. Take another."
                    )
                opened = archive.extractfile(member)
                assert opened is not None
                (into / path).parent.mkdir(parents=True, exist_ok=True)
                with opened, (into / path).open("wb") as target:
                    shutil.copyfileobj(opened, target)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise TaskError(f"{sdist.name} cannot be unpacked: {error}. Remove it from {sdist.parent}.") from None


def _install(name: str, version: str, repo: Path, tier: Tier) -> None:
    # First, while the folder is as venv made it: pip may leave symlinks there.
    (packages,) = (repo / ".venv" / "lib").glob("python3*/site-packages")
    roots = [repo, *([repo / "src"] if (repo / "src").is_dir() else [])]
    (packages / "scrout_package.pth").write_text("".join(f"{root}\n" for root in reversed(roots)))
    told = repo / "PKG-INFO"
    if told.is_file():
        metadata = packages / f"{name.replace('-', '_')}-{version}.dist-info"
        metadata.mkdir(exist_ok=True)
        shutil.copyfile(told, metadata / "METADATA")
    needed, tests = list(_requirements(repo, tests=False)), list(_requirements(repo, tests=True))
    for requirements in (["pytest", *needed, *tests], ["pytest", *needed]):
        if asyncio.run(_installs(repo, requirements, tier)):
            return
    raise TaskError(f"the dependencies of {name} {version} cannot be installed from wheels. Choose another package.")


def _pip() -> Path:
    """A virtual environment with pip, made once, because scrout's own may not have pip."""
    folder = _sdists() / f"pip-{sys.version_info.major}.{sys.version_info.minor}"
    with Lock(_sdists() / "pip.lock"):
        if not (folder / "bin" / "pip").exists():
            venv.EnvBuilder(with_pip=True, symlinks=True, clear=True).create(folder)
    return folder


async def _installs(repo: Path, requirements: list[str], tier: Tier) -> bool:
    folder = repo / ".venv"
    python = ("--python", str(folder / "bin" / "python"))
    wanted = ("install", "--only-binary", ":all:", "--", *requirements)
    done = await _run_pip((*python, *wanted), repo, tier, Mount(folder, str(folder), writable=True))
    return done.exit_code == 0


def _requirements(repo: Path, *, tests: bool) -> Iterator[str]:
    """From the metadata in an sdist; pip evaluates their markers."""
    try:
        told = (repo / "PKG-INFO").read_text(encoding="utf-8", errors="replace")
    except OSError:
        told = ""
    requirements = email.message_from_string(told).get_all("Requires-Dist") or list(_egg_requirements(repo))
    for line in requirements:
        requirement, _, marker = str(line).partition(";")
        extra = _EXTRA.search(marker)
        if extra is None and not tests:
            yield _plain(requirement, marker)
        elif extra is not None and tests and _FOR_TESTS.fullmatch(extra[1]):
            rest = re.sub(r"^\s*+and\s++|(?<!\s)\s++and\s*+$", "", _EXTRA.sub("", marker))
            yield _plain(requirement, rest)
    if tests:
        yield from _groups(repo)


def _plain(requirement: str, marker: str) -> str:
    # pip would interpret an option or a URL as a command, not as a package.
    requirement = requirement.strip()
    if not requirement[:1].isalnum() or "@" in requirement or "/" in requirement:
        raise TaskError(
            f"the package depends on {requirement[:100]!r}, which is not a package name. Choose another package."
        )
    return f"{requirement} ; {marker.strip()}" if marker.strip() else requirement


def _egg_requirements(repo: Path) -> Iterator[str]:
    """In setuptools' older format, from before metadata included them."""
    for file in sorted((*repo.glob("*.egg-info/requires.txt"), *repo.glob("src/*.egg-info/requires.txt")))[:1]:
        marker = ""
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("["):
                extra, _, condition = line.strip("[]").partition(":")
                parts = [f'extra == "{extra}"'] if extra else []
                marker = " and ".join([*parts, *([condition] if condition else [])])
            elif line.strip():
                yield f"{line.strip()};{marker}"


def _groups(repo: Path) -> Iterator[str]:
    try:
        told = read_toml((repo / "pyproject.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    groups = told.get("dependency-groups", {})
    for name, lines in groups.items() if isinstance(groups, dict) else ():
        if _FOR_TESTS.fullmatch(str(name)) and isinstance(lines, list):
            yield from (_plain(*line.partition(";")[::2]) for line in lines if isinstance(line, str))
