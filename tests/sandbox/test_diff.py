"""The diff of a workspace is what git prints for the same change in a clone, whatever a command did to its .git."""

from __future__ import annotations

import asyncio
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from scrout.base import SandboxError
from scrout.sandbox import task_sandbox as task_sandbox_module
from scrout.sandbox.task_sandbox import TaskSandbox

FILES: dict[str, str | bytes] = {
    "file.txt": "one\ntwo\nthree\n",
    "crlf.txt": b"one\r\ntwo\r\n",
    "open-end.txt": "no newline",
    "latin.txt": b"caf\xe9\n",
    "binary.dat": bytes(range(256)) * 4,
    "long.txt": "".join(f"line {number}\n" for number in range(50)),
    "pkg/mod.py": "x = 1\n",
    "pkg/deep/a.py": "a = 1\n",
    "pkg/deep/b.py": "b = 1\n",
    "empty.txt": "",
    "we ird[1]*.txt": b"\xff\n",
    ".gitignore": "*.log\nbuild/\n",
}
PLAIN = {
    "edit": "sed -i s/two/2/ file.txt",
    "new": "echo hello > new.txt",
    "new in new folders": "mkdir -p a/b/c && echo hello > a/b/c/new.txt",
    "delete": "rm file.txt",
    "delete a folder": "rm -rf pkg",
    "folder made anew": "rm -rf pkg/deep && mkdir pkg/deep && echo 'b = 2' > pkg/deep/b.py",
    "folder becomes a file": "rm -rf pkg && echo file > pkg",
    "file becomes a folder": "rm file.txt && mkdir file.txt && echo x > file.txt/x",
    "rename": "mv long.txt moved.txt",
    "rename a folder": "mv pkg renamed",
    "mode": "chmod +x file.txt",
    "mode and content": "chmod +x file.txt && echo four >> file.txt",
    "symlink": "ln -s file.txt link && ln -s /etc/passwd outside && ln -s nowhere dangling",
    "file becomes a symlink": "ln -sf pkg file.txt",
    "binary": "head -c 300 /dev/zero | tr '\\0' '\\1' >> binary.dat && printf '\\0\\1' > new.bin",
    "crlf": "printf 'one\\r\\nTWO\\r\\n' > crlf.txt",
    "no newline at end": "printf 'still none' > open-end.txt && printf 'x' > new.txt",
    "empty": "touch nothing && : > file.txt",
    "spaces and quotes": "echo x > 'a b' && echo x > 'a\"b' && echo x > \"a'b\" && echo x > 'tab\there' && echo x > -n",
    "newline in a name": "echo x > $'a\\nb'",
    "unicode name": "echo x > grüße.txt",
    "name that is not UTF-8": "echo x > $'caf\\xe9.txt'",
    "ignored": "echo x > a.log && mkdir build && echo x > build/out && echo y >> file.txt",
    "attributes": "echo 'file.txt text eol=crlf' > .gitattributes && echo x >> file.txt",
    "same size, same times": "touch -r file.txt .git/t && sed -i s/one/ONE/ file.txt && touch -r .git/t file.txt",
}
HOSTILE = {
    "commits": "git -c user.name=x -c user.email=x commit -qam done",
    "another branch": "git checkout -q -b other && git -c user.name=x -c user.email=x commit -qam done",
    "no .git": "rm -rf .git",
    ".git is a file": "rm -rf .git && echo gitdir: /nowhere > .git",
    "bad index": "echo junk > .git/index",
    "assume unchanged": "git update-index --assume-unchanged file.txt",
    "excluded": "mkdir -p .git/info && echo '*' > .git/info/exclude",
    "external diff": "git config diff.external false; mkdir .git/info; echo '*.txt -text' > .git/info/attributes",
    "clean filter": "mkdir .git/info; git config filter.x.clean false; echo '*.txt filter=x' > .git/info/attributes",
    "fsmonitor": "git config core.fsmonitor 'touch /tmp/ran'",
    "home config": "echo '[core]\n excludesFile = /tmp/all' > ~/.gitconfig; echo '*' > /tmp/all",
    "lock": "touch .git/index.lock",
    "unreadable": "chmod 000 file.txt",
    "closed folder": "chmod 000 .",
    "caches": "mkdir __pycache__ pkg/__pycache__ && touch __pycache__/x.pyc pkg/__pycache__/y.pyc",
    "pipe and socket": "mkfifo pipe; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"s\")'",
}


def git_diff(repo: Path, tmp_path: Path, command: str) -> bytes:
    """The same change in a clone, as git alone would report it."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", repo, clone], check=True)
    subprocess.run(["bash", "-c", command], cwd=clone, check=True)
    subprocess.run(["git", "add", "--all"], cwd=clone, check=True)
    asked = ["git", "diff", "--cached", "--binary", "--full-index", "HEAD"]
    return subprocess.run(asked, cwd=clone, check=True, capture_output=True).stdout


async def change(shop: TaskSandbox, command: str) -> str:
    workspace = shop.fresh()
    done = await shop.shell(workspace, command)
    assert done.exit_code == 0, done.text
    return await shop.diff(workspace)


async def applied(shop: TaskSandbox, patch: str) -> str:
    workspace = shop.fresh()
    assert await shop.apply(workspace, patch) == ""
    return await shop.diff(workspace)


# Changes that do not touch each other's files, made at once by default.
TOGETHER = {
    "contents and names": (
        *("edit", "rename", "delete a folder", "binary", "crlf", "no newline at end", "symlink", "spaces and quotes"),
        *("newline in a name", "unicode name", "name that is not UTF-8"),
    ),
    "folders": ("new", "delete", "rename a folder", "new in new folders"),
    "kinds": ("file becomes a folder", "folder made anew"),
    "modes": ("mode and content", "folder becomes a file"),
    "links": ("file becomes a symlink", "new"),
    "sizes": ("same size, same times", "ignored", "delete a folder"),
    "nothing": ("empty",),
    "attributes": ("attributes",),
}
HOSTILE_BY_DEFAULT = ("commits", ".git is a file", "bad index", "assume unchanged", "excluded", "clean filter")
HOSTILE_BY_DEFAULT += ("home config", "lock", "unreadable", "closed folder", "caches")


def some(commands: dict[str, str], default: tuple[str, ...]) -> list[object]:
    """One of each sort by default."""
    return [
        pytest.param(command, id=name, marks=() if name in default else pytest.mark.slow)
        for name, command in commands.items()
    ]


@pytest.fixture(scope="module")
def full(shared_task_sandbox):  # type: ignore[no-untyped-def]
    with shared_task_sandbox(FILES) as shop:
        yield shop


@pytest.mark.parametrize(
    "command",
    [
        *(pytest.param(" && ".join(PLAIN[one] for one in names), id=name) for name, names in TOGETHER.items()),
        *some(PLAIN, ()),
    ],
)
async def test_byte_for_byte_as_git(full: TaskSandbox, tmp_path: Path, command: str) -> None:
    patch = await change(full, command)
    assert patch.encode() == git_diff(full.base.repo, tmp_path, command)
    assert patch
    assert await applied(full, patch) == patch


EDIT = "echo four >> file.txt"


@pytest.fixture(scope="module")
def edited(full: TaskSandbox, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return git_diff(full.base.repo, tmp_path_factory.mktemp("edited"), EDIT)


@pytest.mark.parametrize("trick", some(HOSTILE, HOSTILE_BY_DEFAULT))
async def test_nothing_done_to_the_repository_changes_the_diff(full: TaskSandbox, edited: bytes, trick: str) -> None:
    assert (await change(full, f"{EDIT}; {trick}")).encode() == edited


@pytest.mark.parametrize(
    "command",
    [
        "printf 'th\\xe9\\n' >> latin.txt",
        pytest.param("printf '\\xfe\\n' > 'we ird[1]*.txt'", marks=pytest.mark.slow),
        "printf '\\xfe\\n' > $'a\\nb\\\\c\"d'",
        pytest.param("printf '\\xfe\\n' > $'caf\\xe9'; echo text > plain.txt", marks=pytest.mark.slow),
        "rm latin.txt; mv 'we ird[1]*.txt' elsewhere; printf '\\xfe' >> elsewhere",
    ],
)
async def test_bytes_that_are_not_text_travel_as_binary(full: TaskSandbox, command: str) -> None:
    workspace = full.fresh()
    await full.shell(workspace, command)
    patch = await full.diff(workspace)
    assert "GIT binary patch" in patch
    assert await applied(full, patch) == patch
    other = full.fresh()
    assert await full.apply(other, patch) == ""
    listing = "find . -path ./.git -prune -o -type f -print0 | sort -z | xargs -0 sha256sum"
    assert (await full.shell(workspace, listing)).text == (await full.shell(other, listing)).text


async def test_a_link_to_a_path_that_is_no_text(full: TaskSandbox) -> None:
    patch = await change(full, "ln -s $'caf\\xe9' link")
    assert "+caf\udce9" in patch
    assert await applied(full, patch) == patch


async def test_a_repository_inside_is_seen_as_files(full: TaskSandbox) -> None:
    patch = await change(full, "mkdir inner && cd inner && git init -q && echo x > y && git add y")
    assert "inner/y" in patch and "160000" not in patch


async def test_no_change_is_empty(full: TaskSandbox) -> None:
    assert await full.diff(full.fresh()) == ""
    assert await change(full, "touch file.txt; mkdir folder; cp file.txt x; rm x") == ""


async def test_paths_can_be_left_out(full: TaskSandbox) -> None:
    workspace = full.fresh()
    for path in ("check [1].py", "pkg/check.py", "kept.py"):
        workspace.write(path, b"x = 1\n")
    patch = await full.diff(workspace, without=("check [1].py", "pkg/check.py"))
    assert "kept.py" in patch and "check" not in patch


async def test_taking_the_diff_twice_gives_it_twice(full: TaskSandbox) -> None:
    workspace = full.fresh()
    await full.shell(workspace, "echo x > new; mkdir sub; git init -q sub; echo y > sub/z")
    assert await full.diff(workspace) == await full.diff(workspace)


async def test_a_patch_that_does_not_fit_changes_nothing(full: TaskSandbox) -> None:
    patch = await change(full, "sed -i s/two/2/ file.txt; echo x > new.txt")
    workspace = full.fresh()
    workspace.write("file.txt", b"something else\n")
    assert "file.txt" in await full.apply(workspace, patch)
    assert workspace.read("new.txt") is None


@pytest.mark.parametrize("target", ["../outside.txt", "/tmp/outside.txt", ".git/config"])
async def test_a_patch_does_not_leave_the_repository(full: TaskSandbox, target: str) -> None:
    patch = f"--- /dev/null\n+++ b/{target}\n@@ -0,0 +1 @@\n+x\n"
    assert await full.apply(full.fresh(), patch) != ""
    assert not Path(full.base.repo.parent, "outside.txt").exists()  # noqa: ASYNC240


async def test_a_patch_does_not_write_through_a_symlink(full: TaskSandbox) -> None:
    workspace = full.fresh()
    await full.shell(workspace, "ln -s /tmp way")
    patch = "diff --git a/way/x b/way/x\nnew file mode 100644\n--- /dev/null\n+++ b/way/x\n@@ -0,0 +1 @@\n+x\n"
    assert "symbolic link" in await full.apply(workspace, patch)


async def test_a_diff_too_large_is_an_error_and_never_cut(full: TaskSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_sandbox_module, "MOST_DIFF_BYTES", 10_000)
    with pytest.raises(SandboxError, match="more than 10,000 bytes"):
        await change(full, "seq 10000 > numbers.txt")


async def test_an_edit_within_the_second_of_the_checkout_is_seen(make_repo, task_sandbox) -> None:
    """git takes a file of the same size and second for unchanged, unless its index is as old as the file."""
    with ExitStack() as stack:
        edited = []
        for number in range(2):
            shop = stack.enter_context(task_sandbox(make_repo({"a.txt": f"{number:02}\n"}, f"repo{number}")))
            edited.append((shop, shop.fresh()))
            await shop.shell(edited[-1][1], "echo xx > a.txt")
        await asyncio.sleep(1.1)  # the diff's copy of the index is younger than the edit
        for shop, workspace in edited:
            assert "+xx" in await shop.diff(workspace)
