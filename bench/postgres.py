"""A PostgreSQL server of our own, on a socket that only we know. Benchmarks and tests share it."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

REMEDY = "run scripts/add-postgres .venv, or install PostgreSQL 13 or later"


class NoPostgres(Exception):
    """None of the programs found here can be started; the text says why and what to do."""


@contextmanager
def postgres(folder: Path, *settings: str) -> Iterator[str]:
    """Its address. The folder is empty or absent, its path short: a socket's name has a limit."""
    folder.mkdir(exist_ok=True)
    who: dict[str, Any] = {}
    if os.getuid() == 0:  # which PostgreSQL refuses
        nobody = pwd.getpwnam("nobody")
        who = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": ()}
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        folder.parent.chmod(folder.parent.stat().st_mode | 0o011)  # to be passed through
    program, data = _initialised(folder, who)
    settings = (f"unix_socket_directories={folder}", "listen_addresses=", "shared_buffers=16MB", *settings)
    argv = [program, "-D", data, *(part for setting in settings for part in ("-c", setting))]
    log = folder / "log"
    with (
        log.open("wb") as output,
        subprocess.Popen(argv, cwd=folder, env={}, stdout=output, stderr=output, **who) as server,
    ):
        try:
            address = f"postgresql://scrout@/postgres?host={folder}"
            _wait(address, server, log)
            yield address
        finally:
            server.send_signal(signal.SIGQUIT)  # nobody needs its files again


def _initialised(folder: Path, who: dict[str, Any]) -> tuple[Path, Path]:
    """The server's program and the data folder made for it, by the first programs that this user may run."""
    trouble = "no initdb found"
    for programs in _programs():
        data = folder / f"data-{programs.parent.name}"
        initdb = [programs / "initdb", "-D", data, "-U", "scrout", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"]
        try:
            subprocess.run(initdb, check=True, capture_output=True, text=True, cwd=folder, env={}, **who)
        except (OSError, subprocess.CalledProcessError) as error:
            trouble = f"{programs}: {getattr(error, 'stderr', '') or error}".strip()
        else:
            return programs / "postgres", data
    raise NoPostgres(f"no PostgreSQL server can be started here ({trouble}): {REMEDY}")


def _programs() -> Iterator[Path]:
    """Folders that may have a server's programs: the package that carries them, then this machine's own."""
    package = importlib.util.find_spec("pgserver")
    for folder in (package.submodule_search_locations or []) if package else []:
        yield Path(folder) / "pginstall" / "bin"
    on_path = shutil.which("initdb")
    if on_path:
        yield Path(on_path).resolve().parent
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)


def _wait(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    import psycopg

    for _ in range(300):
        try:
            psycopg.connect(address).close()
        except psycopg.OperationalError:
            if server.poll() is not None:
                raise NoPostgres(f"the server ended: {log.read_text()}") from None
            time.sleep(0.1)
        else:
            return
    raise NoPostgres(f"the server does not answer: {log.read_text()}")
