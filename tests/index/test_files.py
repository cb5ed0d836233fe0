"""Which files of a commit are worth reading, and their contents."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scrout.base import TaskError
from scrout.index.files import MAX_FILE_BYTES, list_files, read_blobs

if TYPE_CHECKING:
    from conftest import Commit


def listed(repo: Path, commit: str, subtree: str = "") -> list[str]:
    return [entry.path for entry in list_files(repo / ".git", commit, subtree).entries]


def blob(repo: Path, path: str) -> str:
    return subprocess.run(["git", "rev-parse", f"HEAD:{path}"], cwd=repo, capture_output=True, text=True).stdout.strip()


def stored_at(repo: Path, path: str) -> Path:
    name = blob(repo, path)
    return repo / ".git" / "objects" / name[:2] / name[2:]


def test_links_and_unreadable_names_are_left_out(repo: Path, commit: Commit) -> None:
    (repo / "app").mkdir()
    (repo / "link.py").symlink_to("/etc/passwd")
    (repo / "loop").symlink_to("app")
    head = commit({"app/core.py": "1", "app/größe x.py": "2", "app/new\nline.py": "3", "app/\udcff.py": "4"})
    assert listed(repo, head) == ["app/core.py", "app/größe x.py"]
    assert list_files(repo / ".git", head).taken == {"app", "link.py", "loop"}


def test_very_large_files_are_left_out(repo: Path, commit: Commit) -> None:
    assert listed(repo, commit({"a.py": b"x" * MAX_FILE_BYTES, "b.py": b"x" * (MAX_FILE_BYTES + 1)})) == ["a.py"]


FOREIGN = (
    "node_modules/x/index.js",
    "web/bower_components/x.js",
    "vendor/github.com/x/y.go",
    "pkg/_vendor/x.py",
    "third_party/x.c",
    "third-party/x.c",
    "env/lib/site-packages/x.py",
    "dist/bundle.js",
    "a/__pycache__/x.py",
    "package-lock.json",
    "web/yarn.lock",
    "Cargo.lock",
    "go.sum",
    "app/site.min.js",
    "app/site.js.map",
    "app/api_pb2.py",
    "app/api.pb.go",
    "app/types.generated.ts",
)


def test_vendored_locked_and_generated_files_go_by_their_names(repo: Path, commit: Commit) -> None:
    own = ("app/distance.py", "app/generated.py", "src/locks/yarn.py", "vendors.py")
    assert listed(repo, commit(dict.fromkeys((*own, *FOREIGN), "x"))) == list(own)


def test_what_is_ignored_is_not_there(repo: Path, commit: Commit) -> None:
    head = commit({".gitignore": "build/\n*.tmp\n", "a.py": "1", "build/b.py": "2", "c.tmp": "3"})
    (repo / "untracked.py").write_text("4")
    assert listed(repo, head) == [".gitignore", "a.py"]


@pytest.mark.parametrize("subtree", ["pkgs/one", "/pkgs/one/", "pkgs/one/"])
def test_a_subtree_is_a_folder_and_what_is_below(repo: Path, commit: Commit, subtree: str) -> None:
    head = commit({"pkgs/one/a.py": "1", "pkgs/one/b/c.py": "2", "pkgs/one_more/d.py": "3", "root.py": "4"})
    assert listed(repo, head, subtree) == ["pkgs/one/a.py", "pkgs/one/b/c.py"]
    assert list_files(repo / ".git", head, subtree).taken == {"pkgs", "root.py"}
    assert listed(repo, head, "pkgs/none") == []


def test_an_object_that_a_clone_lacks_is_left_out(repo: Path, commit: Commit) -> None:
    head = commit({"a.py": "first", "b.py": "second", "c.py": "third"})
    blobs = [blob(repo, path) for path in ("a.py", "b.py", "c.py")]
    stored_at(repo, "b.py").unlink()
    assert listed(repo, head) == ["a.py", "c.py"]
    assert list(read_blobs(repo / ".git", blobs)) == [(blobs[0], b"first"), (blobs[2], b"third")]


def test_contents_come_in_the_order_asked_for(repo: Path, commit: Commit) -> None:
    contents = [b"", b"\n", b"no end", b"a missing\n", bytes(range(256)) * 999]
    commit({str(number): content for number, content in enumerate(contents)})
    blobs = [blob(repo, str(number)) for number in (4, 0, 2, 1, 3, 4)]
    assert list(read_blobs(repo / ".git", blobs)) == [
        (name, contents[number]) for name, number in zip(blobs, (4, 0, 2, 1, 3, 4), strict=True)
    ]


def test_a_damaged_object_is_said_not_passed_over(repo: Path, commit: Commit) -> None:
    commit({"a.py": "\n".join(str(number**7) for number in range(20_000)), "b.py": "fine"})
    path = stored_at(repo, "a.py")
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:40_000])
    with pytest.raises(TaskError, match="git fsck"):
        list(read_blobs(repo / ".git", [blob(repo, "a.py"), blob(repo, "b.py")]))
