"""A command can leave whatever it likes in its outbox; the host reads a bounded part of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scrout.sandbox.outbox import MOST_FILES, has_more, read_outbox


@pytest.fixture
def outbox(tmp_path: Path) -> Path:
    folder = tmp_path / "outbox"
    folder.mkdir()
    return folder


def test_the_bytes_of_all_files_are_bounded_together(outbox: Path) -> None:
    for number in range(10):
        (outbox / str(number)).write_bytes(b"x" * 30)
    assert [len(content) for content in read_outbox(outbox, 100)] == [30, 30, 30]


def test_a_file_that_does_not_fit_leaves_room_for_others(outbox: Path) -> None:
    (outbox / "large").write_bytes(b"x" * 101)
    (outbox / "small").write_bytes(b"small")
    assert list(read_outbox(outbox, 100)) == [b"small"]


def test_the_number_of_files_is_bounded(outbox: Path) -> None:
    for number in range(MOST_FILES + 20):
        (outbox / str(number)).touch()
    assert len(list(read_outbox(outbox, 100))) == MOST_FILES


def test_links_pipes_and_folders_are_no_reports(outbox: Path) -> None:
    (outbox / "link").symlink_to("/etc/passwd")
    (outbox / "folder").mkdir()
    os.mkfifo(outbox / "pipe")
    assert list(read_outbox(outbox, 100_000)) == []


def test_more_than_is_read_is_told(outbox: Path) -> None:
    (outbox / "one").write_bytes(b"x" * 60)
    assert not has_more(outbox, 100)
    (outbox / "two").write_bytes(b"x" * 60)
    assert has_more(outbox, 100)
    for number in range(MOST_FILES):
        (outbox / str(number)).touch()
    assert has_more(outbox, 1_000)
