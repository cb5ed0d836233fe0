"""Where a program of the host's lies, and the folders that it needs to be seen in the sandbox.

Everything is mounted read-only at the path that it has outside, because packages hold absolute paths. What lies under
/usr is there already. Not covered: programs of `pip install --user`, and version managers' shims, which are told.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scrout import programs
from scrout.base import ConfigError
from scrout.fix.presets import PRESETS, Preset
from scrout.programs import search_path
from scrout.sandbox.tier import Mount

RUNNERS = "/opt/scrout"
"""The folder inside for scripts of ours that a program's interpreter runs."""
MOST_LINKS = 40
MOST_INTERPRETERS = 4

_SYSTEM = tuple(Path("/", name) for name in ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"))
_TOO_WIDE = {Path("/", name) for name in ("", "home", "root", "tmp", "opt", "var", "etc", "srv", "mnt", "media", "run")}
_ASSIGNMENT = re.compile(r"\w+=")


@dataclass(frozen=True)
class Program:
    """A program as the sandbox starts it."""

    argv: tuple[str, ...]
    """What its arguments follow: its path, behind its interpreter's where a script could miss that one inside."""
    mounts: tuple[Mount, ...]


def find_preset(preset: Preset, path: str | None = None) -> Program:
    """The program of a preset; where it has a runner, that one and the interpreter for it."""
    program = find_program(preset.command[0], path)
    if not preset.runner:
        return program
    source = Path(__file__).with_name(preset.runner)
    target = f"{RUNNERS}/{preset.runner}"
    # Isolated: variables that are there for the repository's Python must not lead this one to other modules.
    return Program((_interpreter(program), "-I", target), (*program.mounts, Mount(source, target)))


def find_program(name: str, path: str | None = None) -> Program:
    """A program by its name on PATH, or by its path. PATH is the caller's, and behind it scrout's own environment."""
    found = _which(name, path)
    argv, folders = _needs(found, path, MOST_INTERPRETERS)
    mounts: list[Mount] = []
    for source, target in folders:
        _refuse_wide(name, target)
        if not _covered(target, mounts):
            mounts.append(Mount(source, str(target)))
    return Program(argv, tuple(mounts))


def _which(name: str, path: str | None) -> Path:
    if "/" in name and (named := shutil.which(name)):
        return Path(named).absolute()
    # Never one of a repository's: it would get the caller's money, and say which folders of the host it must see.
    folders = (path or search_path()).split(os.pathsep)
    # A shim asks its version manager, which is not there inside.
    if found := programs.find_program(name, [folder for folder in folders if Path(folder).name != "shims"]):
        return Path(found)
    # Where scrout itself is installed, that may be.
    if own := shutil.which(name, path=str(Path(sys.executable).parent)):
        return Path(own)
    if shim := programs.find_program(name, folders):
        raise ConfigError(
            f"{shim} is a version manager's shim, which does not work in the sandbox. Put the folder of the program "
            f"itself on PATH (`pyenv which {name}` or a similar command prints it), or write its absolute path in "
            f"the command."
        )
    raise ConfigError(f"The program {name!r} is not on PATH. {_install(name)}")


def _install(name: str) -> str:
    for preset in PRESETS.values():
        if preset.command[0] == name:
            return f"Install it: {preset.install}"
    return "Install it, or name its whole path in the command."


def _needs(program: Path, path: str | None, depth: int) -> tuple[tuple[str, ...], list[tuple[Path, Path]]]:
    """How a program is started, and what must be seen for it: where each thing lies, and where it is seen."""
    program, links = _follow(program)
    folders = [*_homes(program), *links]
    words = _shebang(program)
    if not words or not depth:
        return (str(program),), folders
    by_name = Path(words[0]).name == "env"
    name, *options = _env_words(words) if by_name else words
    interpreter = _which(name, path) if by_name else Path(name)
    argv, more = _needs(interpreter, path, depth - 1)
    # Inside, PATH may lead to another interpreter, and a link to this one be missing.
    if by_name or (argv[0] != name and not _is_system(interpreter)):
        return (*argv, *options, str(program)), folders + more
    return (str(program),), folders + more


def _follow(program: Path) -> tuple[Path, list[tuple[Path, Path]]]:
    """The file behind links. In a virtual environment it is the link itself, whose place tells Python where it is."""
    for _ in range(MOST_LINKS):
        program = Path(os.path.realpath(program.parent), program.name)
        if _in_venv(program):
            return program, list(_links(program))
        if not program.is_symlink():
            return program, []
        program = program.parent / program.readlink()
    raise ConfigError(f"{program} is a broken symlink. Install the program again.")


def _links(program: Path) -> Iterator[tuple[Path, Path]]:
    """A virtual environment's Python may be a link to a link in some folder that has no other part in it."""
    real = Path(os.path.realpath(program))
    for _ in range(MOST_LINKS):
        if not program.is_symlink():
            return
        program = Path(os.path.normpath(program.parent / program.readlink()))
        if not _is_system(program):
            yield real, program


def _homes(program: Path) -> Iterator[tuple[Path, Path]]:
    """Where a program lives: its virtual environment, its npm packages, its Python, else the folder around it."""
    if _in_venv(program):
        prefix = program.parent.parent
        yield prefix, prefix
        yield from _base_prefixes(prefix)
        return
    modules = [parent for parent in program.parents if parent.name == "node_modules"]
    prefix = program.parent.parent
    folder = modules[-1] if modules else prefix if _holds_python(prefix) else program.parent
    if not _is_system(folder):
        yield folder, folder


def _base_prefixes(venv: Path) -> Iterator[tuple[Path, Path]]:
    for line in (venv / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace").splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "home" and value.strip():
            named = Path(value.strip()).parent
            real = Path(os.path.realpath(value.strip())).parent
            yield from ((real, seen) for seen in dict.fromkeys((real, named)) if not _is_system(seen))


def _in_venv(program: Path) -> bool:
    return (program.parent.parent / "pyvenv.cfg").is_file()


def _holds_python(prefix: Path) -> bool:
    return any(prefix.glob("lib*/python3*/os.py"))


def _is_system(path: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in _SYSTEM)


def _shebang(program: Path) -> list[str]:
    """The words of a script's first line; none for anything else."""
    try:
        with program.open("rb") as file:
            first = file.readline(4096)
    except OSError as error:
        raise ConfigError(f"{program} cannot be read: {error.strerror}. Install the program again.") from None
    return first[2:].decode(errors="replace").split() if first.startswith(b"#!") else []


def _env_words(words: list[str]) -> list[str]:
    """The interpreter that env is to find, and what it is given; without the variables that env would set for it."""
    for place, word in enumerate(words[1:], start=1):
        if not word.startswith("-") and not _ASSIGNMENT.match(word):
            return words[place:]
    raise ConfigError(f"a script's first line, {' '.join(words)!r}, names no interpreter.")


def _interpreter(program: Program) -> str:
    """What runs the script that a program is."""
    if len(program.argv) > 1:
        return program.argv[0]
    script = Path(program.argv[0])
    if _in_venv(script):
        # Not from the script's first line, which is a shell's where the path is too long for one.
        return str(script.parent / "python")
    words = _shebang(script)
    if not words:
        raise ConfigError(f"{script} is not a script, so scrout cannot tell which Python runs it. Install it with pip.")
    return words[0]


def _refuse_wide(name: str, folder: Path) -> None:
    if folder in _TOO_WIDE or Path.home().is_relative_to(folder):
        raise ConfigError(
            f"{name} is in {folder}, and the agent would see that whole folder. Move the program to a folder of its "
            f"own, or list what it needs under the fixer's `mounts`."
        )


def _covered(target: Path, mounts: list[Mount]) -> bool:
    return any(target.is_relative_to(mount.target) for mount in mounts)
