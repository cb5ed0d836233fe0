"""The cache on disk: shared, bounded, and never a reason to fail."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scrout.index import store as module
from scrout.index.store import TableStore


def names(store: TableStore) -> set[str]:
    return {path.name for path in store.folder.iterdir()}


def used_at(store: TableStore, name: str, second: int) -> None:
    os.utime(store.path(name), (second, second))


def test_what_is_put_is_got(tmp_path: Path) -> None:
    store = TableStore(tmp_path)
    store.put("a.npz", b"first")
    store.put("a.npz", b"second")
    assert (store.get("a.npz"), store.get("b.npz"), names(store)) == (b"second", None, {"a.npz"})
    store.drop("a.npz")
    store.drop("a.npz")
    assert store.get("a.npz") is None


def test_the_ones_used_longest_ago_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = TableStore(tmp_path)
    for second, name in enumerate(("a", "b", "c")):
        store.put(name, bytes(30))
        used_at(store, name, second)
    store.get("a")
    monkeypatch.setattr(module, "MAX_BYTES", 100)
    store.put("d", bytes(30))
    assert names(store) == {"a", "c", "d"}
    store.put("e", bytes(101))
    assert names(store) == set()


def test_leftovers_of_a_killed_process_count_and_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = TableStore(tmp_path)
    store.put("a", bytes(30))
    store.path(".making-x").write_bytes(bytes(80))
    used_at(store, ".making-x", 1)
    monkeypatch.setattr(module, "MAX_BYTES", 100)
    store.put("b", bytes(30))
    assert names(store) == {"a", "b"}


def test_names_come_by_last_use(tmp_path: Path) -> None:
    store = TableStore(tmp_path)
    for second, name in enumerate(("a.npz", "b.npz", "c.log", "d.npz")):
        store.put(name, b"x")
        used_at(store, name, second)
    store.get("a.npz")
    assert store.recent(".npz", 2) == ["a.npz", "d.npz"]
    assert TableStore(tmp_path / "none").recent(".npz", 2) == []


def test_what_is_in_the_way_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    store = TableStore(tmp_path / "file")
    store.put("a", b"x")
    assert store.get("a") is None
    store = TableStore(tmp_path)
    store.path("a").mkdir(parents=True)
    store.put("a", b"x")
    assert (store.get("a"), names(store)) == (None, {"a"})


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_cache_that_may_only_be_read_is_read(tmp_path: Path) -> None:
    store = TableStore(tmp_path)
    store.put("a", b"x")
    store.folder.chmod(0o500)
    store.put("b", b"x")
    assert (store.get("a"), store.get("b")) == (b"x", None)
    store.folder.chmod(0o700)


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        TableStore(tmp_path / "index").put("a", b"x")
    finally:
        os.umask(mask)
    store = TableStore(tmp_path / "index")
    assert store.path("a").stat().st_mode & 0o777 == 0o600
    assert store.folder.stat().st_mode & 0o777 == 0o700


def test_what_is_packed_belongs_to_its_name(tmp_path: Path) -> None:
    store = TableStore(tmp_path)
    store.pack("a", b"line\nline")
    store.pack("empty", b"")
    store.put("b", store.get("a") or b"")
    store.put("c", b"foreign")
    store.put("d", (store.get("a") or b"")[:-1])
    assert store.unpacked("a") == b"line\nline"
    assert store.unpacked("empty") == b""
    assert [store.unpacked(name) for name in ("b", "c", "d", "none")] == [None] * 4
