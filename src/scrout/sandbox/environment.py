"""The repository's own environment: which interpreter and dependencies its commands run with, and where they lie.

A first form: the repository's virtual environment, else the caller's Python. Everything is mounted read-only at the
path it has on the host, because virtual environments and editable installs hold absolute paths.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from scrout.errors import ConfigError
from scrout.sandbox.tier import Mount

SHIMS = "/opt/scrout/bin"
"""Where `python` is put when only `python3` exists, as on a bare Debian."""
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
        }


def find_environment(repo: Path, venv: str = "") -> Environment:
    """The repository's environment: the one named, its .venv or venv, else the caller's Python."""
    names = (venv,) if venv else (".venv", "venv")
    for name in names:
        folder = repo / name
        if (folder / "pyvenv.cfg").is_file():
            return _from_venv(folder, f"the repository's {name}")
    if venv:
        raise ConfigError(f"environment.venv is {venv!r}, but {repo / venv} holds no virtual environment (pyvenv.cfg).")
    return _from_caller()


def _from_venv(folder: Path, label: str) -> Environment:
    home = ""
    for line in (folder / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace").splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "home":
            home = value.strip()
    mounts = [Mount(folder, str(folder))]
    if folder.is_symlink():
        mounts.append(Mount(folder.resolve(), str(folder.resolve())))
    # The file may have come with the repository and name any folder of the host's; only a Python is let in.
    mounts += [mount for mount in _prefix_mounts(Path(home)) if home and _holds_python(mount.source)]
    python = folder / "bin" / "python"
    return Environment(label, str(python), f"{folder / 'bin'}:{_SYSTEM_PATH}", tuple(mounts))


def _holds_python(prefix: Path) -> bool:
    return any(prefix.glob("lib*/python3*/os.py"))


def _from_caller() -> Environment:
    found = shutil.which("python3") or shutil.which("python")
    if found is None:
        return Environment("no Python on PATH", "", _SYSTEM_PATH, ())
    # Version managers put a shell script there; the interpreter itself knows best where it is.
    script = "import sys; print(sys.executable); print(sys.prefix); print(sys.base_prefix)"
    try:
        told = subprocess.run([found, "-I", "-c", script], capture_output=True, text=True, check=True, timeout=30)
        executable, prefix, base_prefix = told.stdout.splitlines()[-3:]
    except (OSError, subprocess.SubprocessError, ValueError):
        return Environment(f"{found} does not run", "", _SYSTEM_PATH, ())
    if not Path(executable).is_relative_to(prefix) and not executable.startswith("/usr/"):
        executable = os.path.realpath(executable)  # started through a link from a folder that is not mounted
    mounts = [*_prefix_mounts(Path(prefix) / "bin"), *_prefix_mounts(Path(base_prefix) / "bin")]
    binaries = str(Path(executable).parent)
    path = f"{binaries}:{SHIMS}:{_SYSTEM_PATH}" if not binaries.startswith("/usr/bin") else f"{SHIMS}:{_SYSTEM_PATH}"
    kind = "the caller's virtual environment" if prefix != base_prefix else "the caller's Python"
    return Environment(f"{kind} {prefix}", executable, path, tuple(dict.fromkeys(mounts)))


def _prefix_mounts(binaries: Path) -> list[Mount]:
    """The installation that a `bin` folder belongs to, unless /usr, which is always there."""
    real = Path(os.path.realpath(binaries)).parent
    prefixes = [prefix for prefix in dict.fromkeys((binaries.parent, real)) if prefix != Path("/")]
    return [Mount(prefix, str(prefix)) for prefix in prefixes if not prefix.is_relative_to("/usr")]
