"""Finds a host program and the folders that it needs inside of the sandbox.

Everything is mounted read-only at its host path, because packages contain absolute paths. /usr is always mounted. Not
supported: programs of `pip install --user`, and version managers' shims, which are reported.
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
"""Folder inside of the sandbox for scrout's scripts that a program's interpreter runs."""
MOST_LINKS = 40
MOST_INTERPRETERS = 4

_SYSTEM = tuple(Path("/", name) for name in ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"))
_TOO_WIDE = {Path("/", name) for name in ("", "home", "root", "tmp", "opt", "var", "etc", "srv", "mnt", "media", "run")}
_ASSIGNMENT = re.compile(r"\w+=")


@dataclass(frozen=True)
class Program:
    """A program for the sandbox to start."""

    argv: tuple[str, ...]
    """The start of its command line: its path, after its interpreter's path if a script could not find that one
    inside.
    """
    mounts: tuple[Mount, ...]


def find_preset(preset: Preset, path: str | None = None) -> Program:
    """A preset's program, or its runner script with the program's interpreter."""
    program = find_program(preset.command[0], path)
    if not preset.runner:
        return program
    source = Path(__file__).with_name(preset.runner)
    target = f"{RUNNERS}/{preset.runner}"
    # Isolated mode: variables for the repository's Python must not change this one's modules.
    return Program((_interpreter(program), "-I", target), (*program.mounts, Mount(source, target)))


def find_program(name: str, path: str | None = None) -> Program:
    """A program by its name or path. Searches the caller's PATH, then scrout's own environment."""
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
    # Never a program in a repository: it would spend the caller's money and choose host folders to mount.
    folders = (path or search_path()).split(os.pathsep)
    # A shim calls its version manager, which does not exist inside.
    if found := programs.find_program(name, [folder for folder in folders if Path(folder).name != "shims"]):
        return Path(found)
    # scrout's own environment may contain it.
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
    """How to start a program, and what to mount for it: host paths and paths inside."""
    program, links = _follow(program)
    folders = [*_homes(program), *links]
    words = _shebang(program)
    if not words or not depth:
        return (str(program),), folders
    by_name = Path(words[0]).name == "env"
    name, *options = _env_words(words) if by_name else words
    interpreter = _which(name, path) if by_name else Path(name)
    argv, more = _needs(interpreter, path, depth - 1)
    # Inside, PATH may lead to another interpreter, and a symlink to this one may be missing.
    if by_name or (argv[0] != name and not _is_system(interpreter)):
        return (*argv, *options, str(program)), folders + more
    return (str(program),), folders + more


def _follow(program: Path) -> tuple[Path, list[tuple[Path, Path]]]:
    """The file behind symlinks.

    In a virtual environment, the symlink itself, because its place tells Python the environment.
    """
    for _ in range(MOST_LINKS):
        program = Path(os.path.realpath(program.parent), program.name)
        if _in_venv(program):
            return program, list(_links(program))
        if not program.is_symlink():
            return program, []
        program = program.parent / program.readlink()
    raise ConfigError(f"{program} is a broken symlink. Install the program again.")


def _links(program: Path) -> Iterator[tuple[Path, Path]]:
    """A virtual environment's Python may be a symlink to a symlink in an otherwise unrelated folder."""
    real = Path(os.path.realpath(program))
    for _ in range(MOST_LINKS):
        if not program.is_symlink():
            return
        program = Path(os.path.normpath(program.parent / program.readlink()))
        if not _is_system(program):
            yield real, program


def _homes(program: Path) -> Iterator[tuple[Path, Path]]:
    """The folders of a program: its virtual environment, npm packages, Python, or its own folder."""
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
    """The words of a script's first line; empty for anything else."""
    try:
        with program.open("rb") as file:
            first = file.readline(4096)
    except OSError as error:
        raise ConfigError(f"{program} cannot be read: {error.strerror}. Install the program again.") from None
    return first[2:].decode(errors="replace").split() if first.startswith(b"#!") else []


def _env_words(words: list[str]) -> list[str]:
    """The interpreter that env starts, and its arguments, without the variables that env sets."""
    for place, word in enumerate(words[1:], start=1):
        if not word.startswith("-") and not _ASSIGNMENT.match(word):
            return words[place:]
    raise ConfigError(f"a script's first line, {' '.join(words)!r}, names no interpreter.")


def _interpreter(program: Program) -> str:
    """The interpreter of a script."""
    if len(program.argv) > 1:
        return program.argv[0]
    script = Path(program.argv[0])
    if _in_venv(script):
        # Not from the script's first line, which names a shell if the path is too long.
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
