"""The reader of patches says what git says, for any change that can be made to a repository."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.check.patch import FileChange, read_patch, with_texts

IDENTITY = ("-c", "user.name=Test", "-c", "user.email=test@localhost", "-c", "commit.gpgSign=false")
# As TaskSandbox.diff prints it.
DIFF = ("diff", "--cached", "--binary", "--full-index", "--no-color", "--no-ext-diff", "--no-textconv")

NAMES = (
    *("plain.py", "a b.py", " b/ c", 'quo"te', "back\\slash", "tab\there", "new\nline", "grüße.txt", "-n", "b/b/b"),
    *("deep/er/x.py", "deep b/deep", "a => b", "{x", "caf\udce9.txt", "diff --git a", "dev/null"),
)
CONTENTS = (
    *(b"", b"one\n", b"one\ntwo\nthree\n", b"no end", b"\n\n", b"\0\1binary", bytes(range(256)) * 8, b"cr\rin\r\nit\n"),
    *(
        b"-- a/removed\n++ b/added\n",
        b"diff --git a/x b/x\n@@ -1 +1 @@\n",
        b"\x0cform \xe2\x80\xa8 feed\n",
        b"x\n" * 50,
    ),
    *(b"GIT binary patch\nliteral 3\n", b"rename from x\nnew file mode 100755\n", b"index 0..1 120000\n"),
)
FILE = st.tuples(st.sampled_from(CONTENTS), st.sampled_from(("file", "executable", "symlink")))
TREE = st.dictionaries(st.sampled_from(NAMES), FILE, max_size=7)


def run_git(repo: Path, *args: str, stdin: bytes | None = None) -> bytes:
    return subprocess.run(["git", *IDENTITY, *args], cwd=repo, input=stdin, check=True, capture_output=True).stdout


def lay(folder: Path, tree: dict[str, tuple[bytes, str]]) -> None:
    """The tree's files and nothing else, .git aside; a name that another one needs as its folder is left out."""
    for entry in folder.iterdir():
        if entry.name != ".git":
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    for name, (content, form) in tree.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if form == "symlink":
                path.symlink_to(os.fsdecode(content.replace(b"\0", b"") or b"x")[:200])
            else:
                path.write_bytes(content)
                path.chmod(0o755 if form == "executable" else 0o644)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            continue


def as_git_says(repo: Path, *form: str) -> list[str]:
    return os.fsdecode(run_git(repo, *DIFF, *form, "-z")).split("\0")[:-1]


def statuses(repo: Path) -> list[tuple[str, str | None, str | None]]:
    """Letter, old name and new name of each file, as `git diff --name-status` has them."""
    found, parts = [], iter(as_git_says(repo, "--name-status"))
    for letter in parts:
        name = next(parts)
        if letter.startswith("R"):
            found.append(("R", name, next(parts)))
        elif letter == "T":  # printed as one file deleted and one added
            found += [("D", name, None), ("A", None, name)]
        else:
            found.append((letter, None if letter == "A" else name, None if letter == "D" else name))
    return found


def letter(change: FileChange) -> str:
    return {"added": "A", "deleted": "D", "renamed": "R", "changed": "M", "mode": "M"}[change.kind]


@given(before=TREE, after=TREE, kept=st.booleans())
def test_names_kinds_and_lines_are_what_git_says(tmp_path: Path, empty_repo: Path, before, after, kept) -> None:
    repo = tmp_path / "any"
    shutil.rmtree(repo, ignore_errors=True)
    shutil.copytree(empty_repo, repo)
    lay(repo, before)
    run_git(repo, "add", "--all")
    run_git(repo, "commit", "-q", "--allow-empty", "-m", "base")
    lay(repo, {**before, **after} if kept else after)
    run_git(repo, "add", "--all")
    printed = run_git(repo, *DIFF)
    try:
        patch = printed.decode()
    except UnicodeDecodeError:
        return  # such files travel as binary hunks, which only the task sandbox sees to
    changes = read_patch(patch)

    assert "".join(change.section for change in changes) == patch
    assert [(letter(change), change.old, change.new) for change in changes] == statuses(repo)
    assert [numbers(change) for change in changes] == numstat(repo, patch)
    modes = {line.split("\t", 1)[1]: line[:6] for line in staged(repo)}
    for change in changes:
        # Of a file that is only renamed git prints no mode.
        if change.new and not (change.kind == "renamed" and not change.new_mode):
            assert change.new_mode == modes[change.new]


def staged(repo: Path) -> list[str]:
    return os.fsdecode(run_git(repo, "ls-files", "--stage", "-z")).split("\0")[:-1]


def numbers(change: FileChange) -> str:
    if change.is_binary:
        return "-\t-"
    return f"{len(change.added)}\t{len(change.removed)}"


def numstat(repo: Path, patch: str) -> list[str]:
    """Lines added and removed of each file, as `git apply` counts them."""
    if not patch:
        return []
    told = run_git(repo, "apply", "--numstat", "-z", "-", stdin=patch.encode())
    return ["\t".join(line.split("\t")[:2]) for line in os.fsdecode(told).split("\0")[:-1]]


@pytest.mark.parametrize(
    ("header", "old", "new"),
    [
        ("diff --git a/x b/x b/x b/x\nold mode 100644\nnew mode 100755\n", "x b/x", "x b/x"),
        ('diff --git "a/\\303\\266.py" "b/\\303\\266.py"\nold mode 100644\nnew mode 100755\n', "ö.py", "ö.py"),
        ("diff --git a/a.py b/b c.py\nsimilarity index 100%\nrename from a.py\nrename to b c.py\n", "a.py", "b c.py"),
        ("diff --git a/a b/c\nsimilarity index 100%\ncopy from a\ncopy to c\n", None, "c"),
        ("diff --git a/e b/e\nnew file mode 100644\nindex 0000..e69d\n", None, "e"),
    ],
)
def test_names_without_a_line_of_text(header: str, old: str | None, new: str | None) -> None:
    [change] = read_patch(header)
    assert (change.old, change.new) == (old, new)


def test_bytes_of_text_and_of_binary_files(make_repo) -> None:
    repo = make_repo({"grown.bin": bytes(range(256)) * 40, "x.txt": "ä\n"})
    (repo / "grown.bin").write_bytes(bytes(range(256)) * 40 + os.urandom(3000))
    (repo / "new.bin").write_bytes(b"\0" * 70_000)
    (repo / "x.txt").write_text("ä\nöö\n")
    run_git(repo, "add", "--all")
    sizes = {change.path: change.added_bytes for change in read_patch(run_git(repo, *DIFF).decode())}
    assert sizes["new.bin"] == 70_000
    assert sizes["x.txt"] == 5
    assert 3000 <= sizes["grown.bin"] < 3100


async def test_texts_are_read_on_both_sides_and_no_link_is_followed(make_repo, task_sandbox) -> None:
    with task_sandbox(make_repo({"a.txt": "a\n", "gone.txt": "gone\n", "deep/b.bin": b"\0"})) as shop:
        workspace = shop.fresh()
        await shop.shell(workspace, "echo A > a.txt; rm gone.txt; ln -s /etc/passwd link; printf '\\0x' > deep/b.bin")
        changes = with_texts(read_patch(await shop.diff(workspace)), shop.base, workspace)
    assert {change.path: (change.before, change.after) for change in changes} == {
        "a.txt": ("a\n", "A\n"),
        "gone.txt": ("gone\n", None),
        "link": (None, None),
        "deep/b.bin": (None, None),
    }
    assert {change.path: change.target for change in changes if change.is_symlink} == {"link": "/etc/passwd"}


def test_text_that_is_no_patch_has_no_changes() -> None:
    assert read_patch("") == read_patch("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n") == ()


def test_a_section_applies_alone(make_repo) -> None:
    repo = make_repo({"a.txt": "a\n", "b.txt": "b\n"})
    (repo / "a.txt").write_text("A\n")
    (repo / "b.txt").write_text("B\n")
    run_git(repo, "add", "--all")
    changes = read_patch(run_git(repo, *DIFF).decode())
    run_git(repo, "reset", "-q", "--hard")
    run_git(repo, "apply", "-", stdin=changes[1].section.encode())
    assert [(repo / name).read_text() for name in ("a.txt", "b.txt")] == ["a\n", "B\n"]
