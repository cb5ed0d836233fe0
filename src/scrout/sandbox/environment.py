"""The repository's environment: the interpreter and dependencies of its commands, and their folders.

In this order: the repository's virtual environment and node_modules, a build of `scrout env build`, the caller's
programs. Finding is quick and builds nothing. Host folders are mounted read-only at their own paths, because virtual
environments and editable installs contain absolute paths.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from scrout.base import ConfigError
from scrout.config.folders import cache_folder, data_folder
from scrout.config.settings import EnvironmentSettings
from scrout.files import read_beneath
from scrout.git import find_repository
from scrout.programs import NEUTRAL, find_program, variables
from scrout.sandbox.environment_cache import Slot, slot
from scrout.sandbox.environment_recipes import VENV, Recipe, find_recipes
from scrout.sandbox.tier import Mount
from scrout.sandbox.workspace import Base

SHIMS = "/opt/scrout/bin"
"""Folder for a `python` link if only `python3` exists, as on a bare Debian."""
_MOST_CFG_BYTES = 100_000
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


@dataclass(frozen=True)
class Environment:
    """The part of the host that a command of the repository needs to see."""

    label: str
    """Its source, in words."""
    python: str
    """Absolute path of the interpreter, the same inside and outside; empty: none."""
    path: str
    """PATH inside of the sandbox."""
    mounts: tuple[Mount, ...]
    sets: tuple[tuple[str, str], ...] = ()
    """More variables."""
    missing: str = ""
    """Warning about missing dependencies, with the reason and the next step; empty: none is known to be missing."""

    @property
    def variables(self) -> dict[str, str]:
        return {
            "PATH": self.path,
            "HOME": "/tmp/home",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "USER": "sandbox",
            # Otherwise, cache files would end up in the patch.
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
            "GIT_CONFIG_NOSYSTEM": "1",
            **dict(self.sets),
        }


@dataclass(frozen=True)
class EnvironmentPlan:
    """A repository's environment, and the builds that it would need."""

    start: Environment
    """The environment without any build."""
    slots: tuple[Slot, ...]
    """Recipes that the repository's own environment does not satisfy, built or not."""


def find_environment(repo: Path, settings: EnvironmentSettings, base: Base | None = None) -> Environment:
    """The environment for commands of the repository. Without a base, the project's requirements are unknown."""
    plan = plan_environment(repo, settings, base)
    found, missing, labels = plan.start, [], []
    for each in plan.slots:
        failed = each.failed()
        if each.built():
            found = _with_built(found, each)
            labels.append(f"{each.recipe.kind} environment built from {each.recipe.source}")
        elif failed:
            missing.append(
                f"the environment for {each.recipe.source} could not be built ({failed.line or 'the build'}: "
                f"{failed.reason}); change what it names or environment.setup, or run `scrout env build --force`."
            )
        else:
            missing.append(
                f"{each.recipe.source} asks for dependencies, and no environment was built for them; run "
                "`scrout env build`, or install them into a .venv in the repository."
            )
    # If Python came with a build, do not use the caller's.
    if plan.start.label and not any(each.recipe.installs_python and each.built() for each in plan.slots):
        labels.insert(0, plan.start.label)
    return replace(found, label="; ".join(labels), missing=" ".join(missing))


def plan_environment(repo: Path, settings: EnvironmentSettings, base: Base | None) -> EnvironmentPlan:
    """Find the repository's environment and the recipes that apply."""
    recipes = find_recipes(base, settings.setup) if base else ()
    own = _own_venv(repo, settings, base)
    start = own or _from_caller()
    if _is_real_folder(repo / "node_modules"):
        modules = Mount(repo / "node_modules", str(repo / "node_modules"))
        start = replace(start, label=f"{start.label}; its node_modules", mounts=(*start.mounts, modules))
        recipes = tuple(recipe for recipe in recipes if recipe.kind != "npm")
    if own:
        recipes = tuple(recipe for recipe in recipes if not recipe.installs_python)
    if base is None:
        return EnvironmentPlan(start, ())
    for name, find in _TOOLS.items():
        if settings.setup or base.read(name) is not None:
            start = find(start)
    return EnvironmentPlan(start, tuple(slot(recipe, base, _identity(recipe, start)) for recipe in recipes))


def _identity(recipe: Recipe, start: Environment) -> str:
    """The interpreter's identity, if a build depends on it."""
    return os.path.realpath(start.python) if recipe.installs_python and start.python else ""


def _with_built(environment: Environment, built: Slot) -> Environment:
    recipe = built.recipe
    paths = [built.placed(folder) for folder in recipe.path]
    path, python = environment.path, environment.python
    if recipe.installs_python:
        # A program that the project lacks must not be found in the caller's environment, with other dependencies.
        system, caller = _SYSTEM_PATH.split(":"), str(Path(python).parent)
        path = ":".join(folder for folder in path.split(":") if folder in system or folder != caller)
        python = built.placed(f"{VENV}/bin/python")
    sets = tuple((name, built.placed(value)) for name, value in (*recipe.variables, *recipe.later))
    return replace(
        environment,
        python=python,
        path=":".join((*paths, path)),
        mounts=(*environment.mounts, *built.use()),
        sets=(*environment.sets, *sets),
    )


def _own_venv(repo: Path, settings: EnvironmentSettings, base: Base | None) -> Environment | None:
    """The virtual environment named in the settings, otherwise the repository's, unless a setup command replaces it.

    A committed one is not used: it is not the user's installation, and names host folders to mount.
    """
    if settings.venv:
        folder = repo / settings.venv
        if not (folder / "pyvenv.cfg").is_file():
            raise ConfigError(
                f"environment.venv is {settings.venv!r}, but {folder} holds no virtual environment (pyvenv.cfg)."
            )
        if _is_tracked(repo, settings.venv, base):
            raise ConfigError(
                f"environment.venv is {settings.venv!r}, which is committed to the repository, so its author made "
                f"it. Name an environment that you made."
            )
        return _from_venv(repo, folder, f"the repository's {settings.venv}")
    for name in () if settings.setup else (".venv", "venv"):
        folder = repo / name
        is_venv = _is_real_folder(folder) and read_beneath(folder, "pyvenv.cfg", _MOST_CFG_BYTES) is not None
        if is_venv and not _is_tracked(repo, name, base):
            return _from_venv(repo, folder, f"the repository's {name}")
    return None


def _is_tracked(repo: Path, name: str, base: Base | None) -> bool:
    """Whether this path is committed, at the base or at HEAD, whose files are in the work tree."""
    inside = os.path.relpath(os.path.normpath(repo / name), repo)
    if Path(inside).parts[:1] == (os.pardir,):
        return False
    if base is not None and os.path.lexists(base.tree / inside):
        return True
    found = find_repository(repo)
    if not found.head():
        return False
    with found.borrowed() as git:
        if git("ls-tree", "-z", "--full-tree", "HEAD", "--", inside):
            return True
        # A case-insensitive disk also finds `.VENV`.
        top = Path(inside).parts[0]
        listed = map(os.fsdecode, git("ls-tree", "-z", "--full-tree", "--name-only", "HEAD").split(b"\0"))
        return any(name != top and name.casefold() == top.casefold() for name in listed)


def _is_real_folder(folder: Path) -> bool:
    """Whether it is a folder and not a symlink, which could come with the repository and point to any host folder."""
    return folder.is_dir() and not folder.is_symlink()


def _from_venv(repo: Path, folder: Path, label: str) -> Environment:
    home = ""
    content = read_beneath(folder, "pyvenv.cfg", _MOST_CFG_BYTES) or b""
    for line in content.decode("utf-8", "surrogateescape").splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "home":
            home = value.strip()
    mounts = [Mount(folder, str(folder))]
    if folder.is_symlink():
        mounts.append(Mount(folder.resolve(), str(folder.resolve())))
    if home.startswith("/") and "\0" not in home:
        named = _prefix_mounts(Path(os.path.normpath(home)))
        mounts += [mount for mount in named if _is_installation(repo, mount)]
    python = folder / "bin" / "python"
    return Environment(label, str(python), f"{folder / 'bin'}:{_SYSTEM_PATH}", tuple(mounts))


def _is_installation(repo: Path, mount: Mount) -> bool:
    """Whether a folder named by pyvenv.cfg may be mounted: it must be a Python installation of the user or the system.

    The file may come with the repository, for example in an archive, and name any host folder.
    """
    prefix = mount.source
    for path in (Path(mount.target), prefix):
        # Nothing in a repository counts, least of all its symlinks.
        if path.is_relative_to(repo) or repo.is_relative_to(path):
            return False
    if any(around.is_relative_to(prefix) for around in (Path.home().resolve(), cache_folder(), data_folder())):
        return False
    if prefix.stat().st_uid not in (0, os.geteuid()):
        return False
    return any(prefix.glob("bin/python3*")) and any(prefix.glob("lib*/python3*/os.py"))


def _from_caller() -> Environment:
    found = find_program("python3") or find_program("python")
    if found is None:
        return Environment("no Python on PATH", "", _SYSTEM_PATH, ())
    try:
        executable, prefix, base_prefix = _asked(found, frozenset(variables().items()))
    except (OSError, subprocess.SubprocessError, ValueError):
        return Environment(f"{found} does not run", "", _SYSTEM_PATH, ())
    if not Path(executable).is_relative_to(prefix) and not executable.startswith("/usr/"):
        executable = os.path.realpath(executable)  # started through a symlink in a folder that is not mounted
    mounts = [*_prefix_mounts(Path(prefix) / "bin"), *_prefix_mounts(Path(base_prefix) / "bin")]
    binaries = str(Path(executable).parent)
    path = f"{binaries}:{SHIMS}:{_SYSTEM_PATH}" if not binaries.startswith("/usr/bin") else f"{SHIMS}:{_SYSTEM_PATH}"
    kind = "the caller's virtual environment" if prefix != base_prefix else "the caller's Python"
    return Environment(f"{kind} {prefix}", executable, path, tuple(dict.fromkeys(mounts)))


@lru_cache(maxsize=16)
def _asked(python: str, env: frozenset[tuple[str, str]]) -> tuple[str, str, str]:
    """The path that an interpreter itself reports, because the program may be a version manager's script.

    Takes a tenth of a second, so a batch asks once. The script reads variables and files of the current folder, so it
    never runs in a repository.
    """
    script = "import sys; print(sys.executable); print(sys.prefix); print(sys.base_prefix)"
    told = subprocess.run(
        [python, "-I", "-c", script], cwd=NEUTRAL, env=dict(env), capture_output=True, text=True, check=True, timeout=30
    )
    executable, prefix, base_prefix = told.stdout.splitlines()[-3:]
    return executable, prefix, base_prefix


def _prefix_mounts(binaries: Path) -> list[Mount]:
    """The installation that a `bin` folder belongs to, unless it is /usr, which is always mounted."""
    real = Path(os.path.realpath(binaries)).parent
    found = {prefix: Path(os.path.realpath(prefix)) for prefix in (binaries.parent, real)}
    system = (Path("/"), Path("/usr"))
    return [
        Mount(source, str(prefix))
        for prefix, source in found.items()
        if source.is_dir() and source != system[0] and not prefix.is_relative_to(system[1])
    ]


# Programs of other languages outside of /usr


def _node(environment: Environment) -> Environment:
    program = _program("node")
    if program is None:
        return environment
    prefix = program.parent.parent
    # Not the prefix itself, which may be ~/.local.
    folders = [folder for folder in (prefix / "bin", prefix / "lib" / "node_modules") if folder.is_dir()]
    return _with_tool(environment, program.parent, folders)


def _go(environment: Environment) -> Environment:
    program = _program("go")
    if program is None or not (program.parent.parent / "src" / "runtime").is_dir():
        return environment
    return _with_tool(environment, program.parent, [program.parent.parent])


def _cargo(environment: Environment) -> Environment:
    """cargo as rustup installs it, without the rest of ~/.cargo, which contains the registry's token."""
    found = find_program("cargo")
    rustup = Path(os.environ.get("RUSTUP_HOME") or Path.home() / ".rustup")
    if found is None or found.startswith("/usr/") or not rustup.is_dir():
        return environment
    binaries = Path(found).parent
    environment = _with_tool(environment, binaries, [binaries, rustup])
    return replace(environment, sets=(*environment.sets, ("RUSTUP_HOME", str(rustup))))


_TOOLS: dict[str, Callable[[Environment], Environment]] = {"package.json": _node, "go.mod": _go, "Cargo.toml": _cargo}


def _program(name: str) -> Path | None:
    """The real path of a program on PATH; None if there is none, or it is under /usr, which is always mounted."""
    found = find_program(name)
    real = Path(os.path.realpath(found)) if found else None
    return None if real is None or real.is_relative_to("/usr") else real


def _with_tool(environment: Environment, binaries: Path, folders: list[Path]) -> Environment:
    mounts = tuple(Mount(folder, str(folder)) for folder in folders)
    # Before the system's folders, as on the caller's PATH; after Python's, which may contain other versions of the same
    # programs.
    path = environment.path.replace(_SYSTEM_PATH, f"{binaries}:{_SYSTEM_PATH}")
    return replace(environment, path=path, mounts=(*environment.mounts, *mounts))
