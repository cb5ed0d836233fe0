"""The repository's own environment: which interpreter and dependencies its commands run with, and where they lie.

A virtual environment and node_modules of the repository's, else what `scrout env build` made, else the caller's own
programs. Finding is quick and builds nothing. What lies on the host is mounted read-only at the path it has there,
because virtual environments and editable installs hold absolute paths.
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
"""Where `python` is put when only `python3` exists, as on a bare Debian."""
_MOST_CFG_BYTES = 100_000
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


@dataclass(frozen=True)
class Environment:
    """What a command of the repository needs to see."""

    label: str
    """Where it came from, for people."""
    python: str
    """Absolute path of the interpreter, inside as outside; empty: there is none."""
    path: str
    """PATH inside."""
    mounts: tuple[Mount, ...]
    sets: tuple[tuple[str, str], ...] = ()
    """Further variables."""
    missing: str = ""
    """That dependencies the project asks for are not installed, why, and the next step; empty: nothing is known to be
    missing."""

    @property
    def variables(self) -> dict[str, str]:
        return {
            "PATH": self.path,
            "HOME": "/tmp/home",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "USER": "sandbox",
            # A stray cache file would otherwise end up in the patch.
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
            "GIT_CONFIG_NOSYSTEM": "1",
            **dict(self.sets),
        }


@dataclass(frozen=True)
class EnvironmentPlan:
    """What a repository has, and what would have to be built for it."""

    start: Environment
    """What there is without any build."""
    slots: tuple[Slot, ...]
    """One for each recipe that nothing of the repository's own satisfies, built or not."""


def find_environment(repo: Path, settings: EnvironmentSettings, base: Base | None = None) -> Environment:
    """What commands of the repository run with. Without a base nothing is known of what the project asks for."""
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
    # Where Python came with a build, the caller's has no part in it.
    if plan.start.label and not any(each.recipe.installs_python and each.built() for each in plan.slots):
        labels.insert(0, plan.start.label)
    return replace(found, label="; ".join(labels), missing=" ".join(missing))


def plan_environment(repo: Path, settings: EnvironmentSettings, base: Base | None) -> EnvironmentPlan:
    """Which recipes apply, after what the repository has of its own."""
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
    """The interpreter, where a build depends on it."""
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
    """The virtual environment that is named, else one the repository has, unless a setup command takes its place.

    Not one that is committed: it is no installation of the user's, and says which folders of the host to mount.
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
    """Whether anything at this path is committed, at the base or at HEAD, whose files the work tree holds."""
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
        # A disk that does not tell cases apart finds `.VENV` too.
        top = Path(inside).parts[0]
        listed = map(os.fsdecode, git("ls-tree", "-z", "--full-tree", "--name-only", "HEAD").split(b"\0"))
        return any(name != top and name.casefold() == top.casefold() for name in listed)


def _is_real_folder(folder: Path) -> bool:
    """Not a link, which may have come with the repository and name any folder of the host's."""
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
    """Whether a folder that pyvenv.cfg names may be mounted: a Python of the user's or the system's, and no more.

    The file may have come with the repository, in an archive say, and name any folder of the host's.
    """
    prefix = mount.source
    for path in (Path(mount.target), prefix):
        # Of a repository nothing counts, its links least of all.
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
        executable = os.path.realpath(executable)  # started through a link from a folder that is not mounted
    mounts = [*_prefix_mounts(Path(prefix) / "bin"), *_prefix_mounts(Path(base_prefix) / "bin")]
    binaries = str(Path(executable).parent)
    path = f"{binaries}:{SHIMS}:{_SYSTEM_PATH}" if not binaries.startswith("/usr/bin") else f"{SHIMS}:{_SYSTEM_PATH}"
    kind = "the caller's virtual environment" if prefix != base_prefix else "the caller's Python"
    return Environment(f"{kind} {prefix}", executable, path, tuple(dict.fromkeys(mounts)))


@lru_cache(maxsize=16)
def _asked(python: str, env: frozenset[tuple[str, str]]) -> tuple[str, str, str]:
    """Where an interpreter says that it is. A version manager's script may stand for it, which takes a tenth of a
    second, so a batch asks once, and goes by variables and by files around the current folder: never in a repository.
    """
    script = "import sys; print(sys.executable); print(sys.prefix); print(sys.base_prefix)"
    told = subprocess.run(
        [python, "-I", "-c", script], cwd=NEUTRAL, env=dict(env), capture_output=True, text=True, check=True, timeout=30
    )
    executable, prefix, base_prefix = told.stdout.splitlines()[-3:]
    return executable, prefix, base_prefix


def _prefix_mounts(binaries: Path) -> list[Mount]:
    """The installation that a `bin` folder belongs to, unless /usr, which is always there."""
    real = Path(os.path.realpath(binaries)).parent
    found = {prefix: Path(os.path.realpath(prefix)) for prefix in (binaries.parent, real)}
    system = (Path("/"), Path("/usr"))
    return [
        Mount(source, str(prefix))
        for prefix, source in found.items()
        if source.is_dir() and source != system[0] and not prefix.is_relative_to(system[1])
    ]


# Programs of other languages, where they lie outside of /usr


def _node(environment: Environment) -> Environment:
    program = _program("node")
    if program is None:
        return environment
    prefix = program.parent.parent
    # Not the prefix itself, which can be somebody's ~/.local.
    folders = [folder for folder in (prefix / "bin", prefix / "lib" / "node_modules") if folder.is_dir()]
    return _with_tool(environment, program.parent, folders)


def _go(environment: Environment) -> Environment:
    program = _program("go")
    if program is None or not (program.parent.parent / "src" / "runtime").is_dir():
        return environment
    return _with_tool(environment, program.parent, [program.parent.parent])


def _cargo(environment: Environment) -> Environment:
    """cargo, as rustup installs it. Not all of ~/.cargo, which holds the registry's token."""
    found = find_program("cargo")
    rustup = Path(os.environ.get("RUSTUP_HOME") or Path.home() / ".rustup")
    if found is None or found.startswith("/usr/") or not rustup.is_dir():
        return environment
    binaries = Path(found).parent
    environment = _with_tool(environment, binaries, [binaries, rustup])
    return replace(environment, sets=(*environment.sets, ("RUSTUP_HOME", str(rustup))))


_TOOLS: dict[str, Callable[[Environment], Environment]] = {"package.json": _node, "go.mod": _go, "Cargo.toml": _cargo}


def _program(name: str) -> Path | None:
    """Where a program on PATH really lies; None: nowhere, or under /usr, which is always there."""
    found = find_program(name)
    real = Path(os.path.realpath(found)) if found else None
    return None if real is None or real.is_relative_to("/usr") else real


def _with_tool(environment: Environment, binaries: Path, folders: list[Path]) -> Environment:
    mounts = tuple(Mount(folder, str(folder)) for folder in folders)
    # Before the system's, as on the caller's PATH; behind Python's, which may lie beside them in another version.
    path = environment.path.replace(_SYSTEM_PATH, f"{binaries}:{_SYSTEM_PATH}")
    return replace(environment, path=path, mounts=(*environment.mounts, *mounts))
