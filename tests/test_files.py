"""How things are written: what readers, other writers, full disks and killed processes find."""

from __future__ import annotations

import json
import os
import resource
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import scrout
from scrout.base import FrozenModel, TaskError
from scrout.files import (
    JsonLines,
    LineFile,
    Lock,
    atomic,
    atomic_folder,
    lies_beneath,
    lock_folder,
    read_toml,
    real_beneath,
    remove_parts,
    write_atomic,
    write_plain,
)


class Row(FrozenModel):
    number: int
    text: str = ""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """An empty folder."""
    folder = tmp_path / "here"
    folder.mkdir()
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@contextmanager
def full_disk(limit: int) -> Iterator[None]:
    """No file gets larger than this."""
    former = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, former[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, former)


def in_threads(work: Callable[[int], None], count: int) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# Files


@pytest.mark.parametrize("durable", [False, True])
def test_a_write_replaces_the_file_and_leaves_nothing_else(here: Path, durable: bool) -> None:
    path = here / "file"
    write_atomic(path, "old")
    write_atomic(path, "naïve \udcff", durable=durable)
    assert path.read_bytes() == "naïve ".encode() + b"\xff"
    assert names(here) == ["file"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_writer_that_fails_leaves_the_old_content(here: Path, error: type[BaseException]) -> None:
    path = here / "file"
    path.write_text("old")
    with pytest.raises(error), atomic(path) as file:
        file.write(b"half of the")
        file.flush()
        assert path.read_text() == "old"
        raise error
    assert path.read_text() == "old" and names(here) == ["file"]


def test_a_full_disk_leaves_the_old_content(here: Path) -> None:
    path = here / "file"
    path.write_text("old")
    with full_disk(1000), pytest.raises(OSError, match="too large"):
        write_atomic(path, bytes(2000))
    assert path.read_text() == "old" and names(here) == ["file"]


def test_a_target_that_cannot_be_replaced_leaves_no_temporary_file(here: Path) -> None:
    (here / "folder" / "inside").mkdir(parents=True)
    with pytest.raises(OSError):
        write_atomic(here / "folder", "text")
    with pytest.raises(FileNotFoundError):
        write_atomic(here / "none" / "file", "text")
    assert names(here) == ["folder"]


@pytest.mark.parametrize(("asked", "mask", "given"), [(0o666, 0o022, 0o644), (0o600, 0o022, 0o600), (0o600, 0, 0o600)])
def test_permissions_are_those_asked_for_from_the_first_byte(here: Path, asked: int, mask: int, given: int) -> None:
    path = here / "file"
    path.write_text("old")
    path.chmod(0o777)
    former = os.umask(mask)
    try:
        with atomic(path, mode=asked) as file:
            assert mode(Path(file.name)) == given
    finally:
        os.umask(former)
    assert mode(path) == given


def test_a_link_is_replaced_and_what_it_points_to_is_untouched(here: Path) -> None:
    victim, path = here / "victim", here / "file"
    victim.write_text("precious")
    path.symlink_to(victim)
    write_atomic(path, "new")
    assert victim.read_text() == "precious"
    assert path.read_text() == "new" and not path.is_symlink()


def test_a_plain_file_is_written_through_no_link_and_into_no_pipe(tmp_path: Path) -> None:
    write_plain(tmp_path / "file", b"one")
    write_plain(tmp_path / "file", b"two")
    with pytest.raises(FileExistsError):
        write_plain(tmp_path / "file", b"three", replace=False)
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "dangling").symlink_to(tmp_path / "new")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "dangling", "pipe"):
        with pytest.raises(OSError):
            write_plain(tmp_path / name, b"three")
    assert (tmp_path / "file").read_bytes() == b"two" and not (tmp_path / "new").exists()
    write_plain(Path("/dev/null"), b"three")


@pytest.mark.parametrize(
    "path", ["repo/out/file", "repo/sub/out/file", "repo/out/../file", "mine/out/file", "inner/out/file"]
)
def test_no_link_of_a_repository_leads_a_plain_file_elsewhere(tmp_path: Path, path: str) -> None:
    """`--out out/file` in a clone whose `out` is a committed link would write into any folder."""
    for folder in ("repo/.git", "repo/sub", "victim/.git", "plain"):
        (tmp_path / folder).mkdir(parents=True)
    for link in ("repo/out", "repo/sub/out"):
        (tmp_path / link).symlink_to(tmp_path / "victim")
    (tmp_path / "mine").symlink_to(tmp_path / "repo")
    (tmp_path / "inner").symlink_to(tmp_path / "repo" / "sub")
    with pytest.raises(OSError, match="symbolic links"):
        write_plain(tmp_path / path, b"x")
    assert not [file for file in tmp_path.rglob("file") if file.is_file()]
    # A link outside of repositories is the user's own.
    for name in ("mine/file", "mine/sub/file"):
        write_plain(tmp_path / name, b"x")
    (tmp_path / "own").symlink_to(tmp_path / "plain")
    write_plain(tmp_path / "own" / "file", b"x")
    assert (tmp_path / "plain" / "file").read_bytes() == b"x"


def test_another_library_may_write_by_name(here: Path) -> None:
    with atomic(here / "file") as file:
        Path(file.name).write_text("by name")
    assert (here / "file").read_text() == "by name"


def test_a_name_of_full_length_can_be_written(here: Path) -> None:
    write_atomic(here / ("n" * 255), "text")
    assert names(here) == ["n" * 255]


def test_concurrent_writers_never_mix(here: Path) -> None:
    path = here / "file"
    seen = set()

    def work(number: int) -> None:
        for _ in range(20):
            write_atomic(path, str(number) * 100_000)
            seen.add(path.read_text())

    in_threads(work, 4)
    assert seen <= {str(number) * 100_000 for number in range(4)}
    assert names(here) == ["file"]


def test_leftovers_of_killed_writers_can_be_removed(here: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from scrout.files import atomic\n"
        "with atomic(Path(sys.argv[1])) as file: file.write(b'x'); file.flush(); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", script, str(here / "file")], check=False)
    assert len(names(here)) == 1 and not (here / "file").exists()
    (here / "other.part").touch()
    remove_parts(here)
    remove_parts(here / "none")
    assert names(here) == ["other.part"]


@pytest.mark.parametrize("durable", [False, True])
def test_a_folder_is_there_whole_or_not_at_all(here: Path, durable: bool) -> None:
    path = here / "deep" / "folder"
    with pytest.raises(ValueError, match="no"), atomic_folder(path) as part:
        (part / "a").touch()
        raise ValueError("no")
    assert names(path.parent) == []
    (path.parent / ".folder.part").mkdir()
    (path.parent / ".folder.part" / "left by a kill").touch()
    with atomic_folder(path, durable=durable) as part:
        (part / "sub").mkdir()
        (part / "sub" / "a").write_text("a")
        assert not path.exists()
    assert names(path.parent) == ["folder"] and names(path) == ["sub"]


def test_a_folder_that_holds_something_is_not_replaced(here: Path) -> None:
    path = here / "folder"
    path.mkdir()
    (path / "mine").touch()
    with pytest.raises(OSError), atomic_folder(path) as part:
        (part / "a").touch()
    assert names(here) == ["folder"] and names(path) == ["mine"]


# TOML


@pytest.mark.parametrize(
    "text",
    [
        ".".join(["a"] * 200_000) + " = 1",
        " . ".join(["a"] * 200_000) + " = 1",
        ".".join(['"\\""'] * 100_000) + " = 1",
        ".".join(["''"] * 100_000) + " = 1",
        "[t]\nx = {" + ".".join(["a-b"] * 100_000) + " = 1}",
        "[" + ".".join(["a"] * 200_000) + "]",
        "a = " + "[" * 100_000,
        "a = " + "{a = " * 100_000,
        "a = " + "9" * 100_000,
        "a = 1\n" * 1_000_000,
    ],
    ids=lambda text: text[:20],
)
def test_no_toml_takes_more_than_it_has(text: str) -> None:
    """A dotted key of 200,000 parts would take 160 GB."""
    with pytest.raises(ValueError):
        read_toml(text)


def test_ordinary_toml_is_read() -> None:
    sentence = "Up to 1.2.3.4, e.g. in a.b.c.d; " * 20
    assert read_toml(f'[tool."a.b".c]\nd.e = "{sentence}"') == {"tool": {"a.b": {"c": {"d": {"e": sentence}}}}}


def test_nothing_else_reads_toml() -> None:
    """But: what the user typed, and the user's own prices."""
    root = Path(scrout.__file__).parent
    found = {str(path.relative_to(root)) for path in root.rglob("*.py") if "tomllib.load" in path.read_text()}
    assert found == {"files.py", "config/loading.py", "models/prices.py"}


# Lines


@pytest.mark.parametrize("durable", [False, True])
def test_records_come_back_in_order(here: Path, durable: bool) -> None:
    lines = JsonLines(here / "log", Row, durable=durable)
    assert lines.read() == []
    lines.append(Row(number=1, text="a\nb"), Row(number=2, text="naïve"))
    lines.append(Row(number=3))
    assert [row.number for row in lines.read()] == [1, 2, 3]
    assert [json.loads(line)["number"] for line in (here / "log").read_text().splitlines()] == [1, 2, 3]


def test_half_a_character_costs_itself_alone(here: Path) -> None:
    lines = JsonLines(here / "log", Row)
    lines.append(Row(number=1, text="a\ud800b"))
    assert [row.text for row in lines.read()] == ["a?b"]


@pytest.mark.parametrize("torn", [b'{"number": 2, "te', b"{", b"\xff", b'{"number": 2, "text": "' + b"x" * 200_000])
def test_a_torn_last_line_counts_as_never_written(here: Path, torn: bytes) -> None:
    path = here / "log"
    lines = JsonLines(path, Row)
    lines.append(Row(number=1))
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    assert lines.read() == [Row(number=1)]
    assert path.read_bytes() == whole + torn, "reading changes nothing"
    lines.append(Row(number=3))
    assert lines.read() == [Row(number=1), Row(number=3)]
    assert path.read_bytes().startswith(whole + b'{"number": 3')


def test_a_first_line_that_was_torn_goes_too(here: Path) -> None:
    path = here / "log"
    path.write_bytes(b'{"numb')
    JsonLines(path, Row).append(Row(number=1))
    assert JsonLines(path, Row).read() == [Row(number=1)]


def test_a_whole_record_without_a_line_break_is_kept(here: Path) -> None:
    path = here / "log"
    path.write_text('{"number": 1}\n\n{"number": 2}')
    lines = JsonLines(path, Row)
    assert [row.number for row in lines.read()] == [1, 2]
    lines.append(Row(number=3))
    assert [row.number for row in lines.read()] == [1, 2, 3]


def test_a_full_disk_leaves_nothing_of_a_record(here: Path) -> None:
    path = here / "log"
    lines = JsonLines(path, Row)
    lines.append(Row(number=1))
    before = path.read_bytes()
    with full_disk(1000), pytest.raises(OSError, match="too large"):
        lines.append(Row(number=2), Row(number=3, text="x" * 2000))
    assert path.read_bytes() == before


@pytest.mark.parametrize("bad", ["{", "[]", '{"number": "many"}'])
def test_a_broken_line_is_named(here: Path, bad: str) -> None:
    path = here / "log"
    path.write_text(f'{{"number": 1}}\n{bad}\n{{"number": 3}}\n')
    with pytest.raises(TaskError, match=r"log, line 2 cannot be read .*Remove the line"):
        JsonLines(path, Row).read()


def test_concurrent_appends_lose_nothing(here: Path) -> None:
    def work(number: int) -> None:
        for count in range(20):
            JsonLines(here / "log", Row).append(Row(number=number * 20 + count, text="x" * 10_000))

    in_threads(work, 4)
    assert sorted(row.number for row in JsonLines(here / "log", Row).read()) == list(range(80))


def test_a_line_file_is_new_private_and_survives_a_full_disk(here: Path) -> None:
    path = here / "new" / "log"
    former = os.umask(0)
    try:
        file = LineFile(path)
    finally:
        os.umask(former)
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    with pytest.raises(FileExistsError):
        LineFile(path)
    file.write_line("one")
    with full_disk(8), pytest.raises(OSError, match="too large"):
        file.write_line("two is too long")
    file.write_line("three")
    file.close()
    assert path.read_text().splitlines() == ["one", "two ", "three"]


# Locks


HOLDER = """
import sys
from pathlib import Path
from scrout.files import Lock
lock = Lock(Path(sys.argv[1]))
print(lock.take(), flush=True)
sys.stdin.read()
"""


@contextmanager
def holder(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that holds the lock until its input ends."""
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"True\n"
        yield process


def test_a_lock_has_one_holder_and_ends_with_its_process(here: Path) -> None:
    lock = Lock(here / "lock")
    with holder(lock.path) as process:
        assert not lock.take()
        process.kill()
    assert lock.take() and lock.take(), "a holder may take it again"
    assert not Lock(lock.path).take(), "another Lock of the same process is another holder"
    lock.release()
    assert Lock(lock.path).take()


def test_with_waits_for_the_lock_and_releases_it(here: Path) -> None:
    path = here / "lock"
    with holder(path) as process:
        assert process.stdin is not None
        threading.Timer(0.2, process.stdin.close).start()
        with Lock(path):
            assert process.wait(10) == 0
            assert not Lock(path).take()
    with pytest.raises(ValueError, match="body"), Lock(path):
        raise ValueError("body")
    assert Lock(path).take()


def test_a_lock_that_is_dropped_is_released(here: Path) -> None:
    lock = Lock(here / "lock")
    assert lock.take()
    del lock
    assert Lock(here / "lock").take()


def test_a_retired_lock_leaves_no_file(here: Path) -> None:
    lock = Lock(here / "lock")
    assert lock.take()
    assert mode(lock.path) == 0o600
    lock.retire()
    lock.retire()
    assert names(here) == []


def test_a_folder_is_worked_in_by_one_process(here: Path) -> None:
    folder = here / "new" / "out"
    with lock_folder(folder), lock_folder(folder, ".other"):
        with pytest.raises(TaskError, match=r"another process is using .*out\. Wait"), lock_folder(folder):
            pass
        assert names(folder) == [".lock", ".other"]
    with lock_folder(folder):
        pass
    (here / "file").touch()
    with pytest.raises(TaskError, match=r"file: .*Name a folder that you may write to"), lock_folder(here / "file"):
        pass


@pytest.mark.parametrize(
    ("path", "there"),
    [
        *(
            ("a", True),
            ("link", True),
            ("inner/b", True),
            ("broken", True),
            ("missing", False),
            ("inner/missing", False),
        ),
        # Whatever the host has there.
        *(("link/secret", False), ("link/missing", False), ("../outside/secret", False), ("/etc/passwd", False)),
        *(
            ("a/../a", True),
            ("loop/x", False),
            ("a\0", False),
            ("\0/a", False),
            ("x" * 5000, False),
            ("x" * 300, False),
        ),
    ],
)
def test_nothing_lies_beneath_a_folder_by_a_link_out_of_it(tmp_path: Path, path: str, there: bool) -> None:
    root = tmp_path / "root"
    for folder in (root / "folder", tmp_path / "outside"):
        folder.mkdir(parents=True)
    for file in (root / "a", root / "folder" / "b", tmp_path / "outside" / "secret"):
        file.touch()
    for name, to in {"link": tmp_path / "outside", "inner": "folder", "broken": "gone", "loop": "loop"}.items():
        (root / name).symlink_to(to)
    (tmp_path / "seen").symlink_to(root)
    assert lies_beneath(root, path) == lies_beneath(tmp_path / "seen", path) == there
    assert real_beneath(root, "link/secret") is real_beneath(root, "link") is None
    assert real_beneath(root, "inner/b") == (root / "folder" / "b").resolve()
