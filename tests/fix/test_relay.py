"""The relay as the sandbox runs it: a process of its own between a program and a unix socket."""

from __future__ import annotations

import ast
import contextlib
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scrout.fix import relay

SOURCE = Path(relay.__file__)
TIMEOUT_S = 30

CLIENT = """
import os, socket, sys
def connect():
    return socket.create_connection(("127.0.0.1", int(sys.argv[1])))
def everything(connection):
    got = b""
    while chunk := connection.recv(65536):
        got += chunk
    return got
"""
"""In front of what a test's program does."""


@contextmanager
def serving(path: Path, answer: Callable[[socket.socket], None]) -> Iterator[None]:
    """A unix socket whose every connection is answered in a thread of its own."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(128)

    def one(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            answer(connection)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=one, args=(listener.accept()[0],), daemon=True).start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        accepting.join()
        listener.close()


def everything(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(65536), b""))


def echo(connection: socket.socket) -> None:
    while chunk := connection.recv(65536):
        connection.sendall(chunk)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def relayed(path: Path, *argv: str, stdin: bytes = b"", port: int = 0) -> subprocess.CompletedProcess[bytes]:
    """Run a program behind the relay; `PORT` among its arguments is the relay's."""
    port = port or free_port()
    words = [str(port) if word == "PORT" else word for word in argv]
    command = [sys.executable, "-W", "error", str(SOURCE), str(path), str(port), "--", *words]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=TIMEOUT_S, check=False)


def client(path: Path, code: str) -> str:
    """What a program of these lines prints behind the relay."""
    done = relayed(path, sys.executable, "-c", CLIENT + code, "PORT")
    assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode()
    return done.stdout.decode().strip()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s"


def test_the_end_of_one_way_leaves_the_other_open(path: Path) -> None:
    def answer_after_the_end(connection: socket.socket) -> None:
        asked = everything(connection)
        connection.sendall(b"%d bytes, then: " % len(asked) + asked[-5:])

    code = "c = connect(); c.sendall(b'x' * 3_000_000 + b'hello'); c.shutdown(socket.SHUT_WR); print(everything(c))"
    with serving(path, answer_after_the_end):
        assert client(path, code) == "b'3000005 bytes, then: hello'"


def test_the_end_of_the_answer_reaches_a_client_that_has_more_to_say(path: Path) -> None:
    heard: list[bytes] = []
    whole = threading.Event()

    def end_first(connection: socket.socket) -> None:
        connection.sendall(b"bye")
        connection.shutdown(socket.SHUT_WR)
        heard.append(everything(connection))
        whole.set()

    def wait(connection: socket.socket) -> None:
        whole.wait(TIMEOUT_S)

    turns = iter((end_first, wait))
    # The second connection ends once the first was heard to its end: with the program all that still flows is dropped.
    code = "c = connect(); print(everything(c)); c.sendall(b'more'); c.shutdown(socket.SHUT_WR); everything(connect())"
    with serving(path, lambda connection: next(turns)(connection)):
        assert client(path, code) == "b'bye'"
    assert heard == [b"more"]


def test_nothing_waits_for_more_to_come(path: Path) -> None:
    def in_step(connection: socket.socket) -> None:
        for number in range(20):
            connection.sendall(b"%02d" % number)
            assert connection.recv(2) == b"%02d" % number

    code = "c = connect()\nfor _ in range(20): c.sendall(c.recv(2))\nprint('all')"
    with serving(path, in_step):
        assert client(path, code) == "all"


def test_64_connections_at_once(path: Path) -> None:
    code = """
open_ones = [connect() for _ in range(64)]
for number, c in enumerate(open_ones):
    c.sendall(b"%d" % number * 10_000)
    c.shutdown(socket.SHUT_WR)
print(sum(everything(c) == b"%d" % number * 10_000 for number, c in enumerate(open_ones)))
"""
    with serving(path, echo):
        assert client(path, code) == "64"


def test_a_client_that_vanishes_harms_no_other(path: Path) -> None:
    gone = threading.Semaphore(0)

    def answer(connection: socket.socket) -> None:
        try:
            echo(connection)
        finally:
            gone.release()

    code = """
import struct
for _ in range(8):
    c = connect()
    c.sendall(b"x")
    c.recv(1)
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    c.close()
c = connect()
c.sendall(b"here")
c.shutdown(socket.SHUT_WR)
print(everything(c))
"""
    with serving(path, answer):
        assert client(path, code) == "b'here'"
        for _ in range(9):
            assert gone.acquire(timeout=TIMEOUT_S), "a connection stayed open on the socket's side"


def test_without_the_socket_a_connection_is_closed(path: Path) -> None:
    code = """
for _ in range(3):
    try:
        print(connect().recv(1))
    except ConnectionResetError:
        print(b"")
"""
    assert client(path, code).split() == ["b''"] * 3


def test_the_program_has_the_streams_and_its_exit_code_is_the_relays(path: Path) -> None:
    done = relayed(path, "sh", "-c", "cat; echo oops >&2; exit 7", stdin=b"a task\n")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"a task\n", b"oops\n")


def test_a_signal_is_told_as_a_shell_tells_it(path: Path) -> None:
    assert relayed(path, "sh", "-c", "kill -SEGV $$").returncode == 128 + signal.SIGSEGV


def test_a_program_that_is_not_there(path: Path) -> None:
    done = relayed(path, "no-such-program")
    assert done.returncode == relay.NOT_FOUND and b"no-such-program cannot be started" in done.stderr


def test_a_port_that_is_taken(path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        done = relayed(path, "true", port=other.getsockname()[1])
    assert done.returncode == relay.BROKEN and b"cannot be had" in done.stderr


def test_it_ends_with_the_program_whatever_is_still_connected(path: Path) -> None:
    code = """
c = connect()
c.sendall(b"x")
c.recv(1)
if os.fork() == 0:
    os.close(1), os.close(2)
    c.recv(1)  # ends only when the relay does
    os._exit(0)
print("parent is done")
"""
    with serving(path, echo):
        assert client(path, code) == "parent is done"


def test_it_is_written_for_old_pythons_and_needs_nothing_installed() -> None:
    tree = ast.parse(SOURCE.read_text(), feature_version=(3, 8))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert imported and imported <= sys.stdlib_module_names
    assert {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)} == {"__future__"}


@pytest.mark.parametrize(
    "version",
    ["3.8", *(pytest.param(version, marks=pytest.mark.slow) for version in ("3.9", "3.10", "3.12")), "3.13"],
)
def test_other_pythons_run_it(path: Path, version: str) -> None:
    found = shutil.which(f"python{version}")
    if found is None or subprocess.run([found, "--version"], capture_output=True, check=False).returncode:
        pytest.skip(f"no Python {version} here")
    argv = [found, str(SOURCE), str(path), str(free_port()), "--", "sh", "-c", "exit 5"]
    assert subprocess.run(argv, capture_output=True, timeout=TIMEOUT_S, check=False).returncode == 5
