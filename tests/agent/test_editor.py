"""The editor on a real workspace: what it shows and writes, and that nothing leads it out of the repository."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.agent.editor import MOST_BYTES, CannotEdit, Editor
from scrout.sandbox.task_sandbox import TaskSandbox

FILES = {
    "top.py": "a = 1\nb = 2\n\nc = 3\n",
    "pkg/mod.py": "x\n",
    "pkg/deep/er/low.py": "x\n",
    ".hidden/file": "x\n",
    "windows.txt": "one\r\ntwo\r\nthree\r\n",
    "latin.txt": b"caf\xe9\nna\xefve\n",
    "binary": b"\x7fELF\0\0",
    "twice.txt": "same\nother\nsame\n",
    "empty": "",
}


@pytest.fixture
def opened(task_sandbox_over) -> Iterator[TaskSandbox]:
    with task_sandbox_over(FILES) as shop:
        yield shop


@pytest.fixture
async def editor(opened: TaskSandbox) -> AsyncIterator[Editor]:
    async with opened.session(opened.fresh()) as session:
        yield Editor(session)


# Looking


async def test_lines_are_numbered(editor: Editor) -> None:
    assert await editor.view("top.py") == "     1\ta = 1\n     2\tb = 2\n     3\t\n     4\tc = 3"
    assert await editor.view("top.py", (2, 3)) == "     2\tb = 2\n     3\t"
    assert await editor.view("windows.txt", (3, -1)) == "     3\tthree"
    assert await editor.view("empty") == "empty is empty."
    assert await editor.view("latin.txt", (1, 1)) == "     1\tcaf\ufffd"


async def test_a_folder_is_shown_two_levels_deep(editor: Editor) -> None:
    editor.create("pkg/a b\nc.py", "")
    seen = await editor.view(".")
    assert seen.splitlines()[1:] == [
        "binary",
        "empty",
        "latin.txt",
        "pkg/",
        "pkg/a b",
        "c.py",
        "pkg/deep/",
        "pkg/mod.py",
        "top.py",
        "twice.txt",
        "windows.txt",
    ]
    assert (await editor.view("pkg/deep")).splitlines()[1:] == ["er/", "er/low.py"]


async def test_a_folder_is_shown_as_it_is_now(editor: Editor, opened: TaskSandbox) -> None:
    await opened.shell(editor.workspace, "rm -r pkg/deep; mkdir pkg/void")
    assert (await editor.view("pkg")).splitlines()[1:] == ["mod.py", "void/"]
    assert (await editor.view("pkg/void")).splitlines()[1:] == ["(nothing)"]
    with pytest.raises(CannotEdit, match="does not exist"):
        await editor.view("pkg/deep")


@pytest.mark.parametrize("path", ["top.py", "./top.py", "pkg/../top.py", "//testbed/top.py", "/app/top.py"])
async def test_a_path_in_any_form(path: str, editor: Editor) -> None:
    assert (await editor.view(path, (1, 1))).endswith("a = 1")


async def test_paths_below_the_repositorys_own_root(editor: Editor) -> None:
    root = editor.workspace.base.repo
    assert (await editor.view(f"{root}/pkg//mod.py")).endswith("x")
    for path in (str(root), f"{root}/", "/testbed", "", "."):
        assert "top.py" in await editor.view(path)


@pytest.mark.parametrize("path", ["binary", "nothing.py", "pkg/nothing/x.py", "top.py/x"])
async def test_what_cannot_be_shown_is_said(path: str, editor: Editor) -> None:
    with pytest.raises(CannotEdit, match=path):
        await editor.view(path)


async def test_a_huge_file_is_left_to_the_shell(editor: Editor) -> None:
    editor.workspace.write("huge", b"x\n" * MOST_BYTES)
    with pytest.raises(CannotEdit, match="use the shell"):
        await editor.view("huge")
    with pytest.raises(CannotEdit, match="use the shell"):
        editor.str_replace("huge", "x", "y")


# Writing


async def test_create_makes_folders_and_writes_over(editor: Editor, opened: TaskSandbox) -> None:
    assert editor.create("new/folder/n.py", "one\ntwo") == "new/folder/n.py was written (2 lines)."
    assert editor.create("new/folder/n.py", "one\n") == "new/folder/n.py was written over (1 line)."
    done = await opened.shell(editor.workspace, "cat new/folder/n.py && echo more >> new/folder/n.py")
    assert (done.exit_code, done.text) == (0, "one\n")


def test_one_occurrence_is_replaced_and_shown(editor: Editor) -> None:
    seen = editor.str_replace("top.py", "b = 2\n", "b = 20\nbb = 21\n")
    assert editor.workspace.read("top.py") == b"a = 1\nb = 20\nbb = 21\n\nc = 3\n"
    assert "     2\tb = 20\n     3\tbb = 21" in seen
    editor.str_replace("/testbed/top.py", "bb = 21\n", "")
    assert editor.workspace.read("top.py") == b"a = 1\nb = 20\n\nc = 3\n"
    assert editor.str_replace("pkg/mod.py", "x\n", "").endswith("pkg/mod.py is empty.")


def test_line_ends_of_windows_are_kept(editor: Editor) -> None:
    editor.str_replace("windows.txt", "one\ntwo", "1\n2\n2b")
    assert editor.workspace.read("windows.txt") == b"1\r\n2\r\n2b\r\nthree\r\n"


def test_bytes_that_are_no_text_survive_an_edit(editor: Editor) -> None:
    editor.str_replace("latin.txt", "caf", "the caf")
    assert editor.workspace.read("latin.txt") == b"the caf\xe9\nna\xefve\n"


@pytest.mark.parametrize(
    ("path", "old", "new", "words"),
    [
        ("twice.txt", "same", "x", "2 times, from lines 1, 3 on"),
        ("top.py", "b  = 2", "x", "not in top.py"),
        ("top.py", "", "x", "empty"),
        ("top.py", "a", "a", "the same"),
        ("none.py", "a", "b", "not a file"),
        ("pkg", "a", "b", "not a file"),
        ("binary", "ELF", "b", "binary"),
    ],
)
def test_any_other_number_of_occurrences_changes_nothing(
    path: str, old: str, new: str, words: str, editor: Editor
) -> None:
    with pytest.raises(CannotEdit, match=words):
        editor.str_replace(path, old, new)
    assert not list(editor.workspace.changed())


def test_many_places_are_not_all_named(editor: Editor) -> None:
    editor.create("many", "x\n" * 50)
    with pytest.raises(CannotEdit, match=r"50 times, from lines 1, 2, .* 10, \.\.\. on"):
        editor.str_replace("many", "x", "y")


texts = st.text(st.sampled_from("ab\n\r é"), max_size=12)


@given(content=texts, old=texts, new=texts)
def test_a_replacement_is_one_or_none(content: str, old: str, new: str, editor: Editor) -> None:
    # Files with Windows line ends have a rule of their own.
    content = content.replace("\r\n", "\n")
    editor.create("f", content)
    try:
        editor.str_replace("f", old, new)
    except CannotEdit:
        assert content.count(old) != 1 or old in ("", new)
        assert editor.workspace.read("f") == content.encode()
    else:
        assert content.count(old) == 1
        assert editor.workspace.read("f") == content.replace(old, new).encode()


# What stays out of reach


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../x",
        "/testbed/../etc/passwd",
        "pkg/../../x",
        "/testbed-old/top.py",
        "~/x/../../../y",
        "/",
        "//etc",
    ],
)
async def test_outside_of_the_repository(path: str, editor: Editor) -> None:
    for attempt in (lambda: editor.create(path, "x"), lambda: editor.str_replace(path, "a", "b")):
        with pytest.raises(CannotEdit, match="outside"):
            attempt()
    with pytest.raises(CannotEdit, match="outside"):
        await editor.view(path)


@pytest.mark.parametrize(
    "path", [".git", ".git/config", "/testbed/.git/HEAD", "pkg/../.git/config", "pkg/.GIT/hooks/x"]
)
async def test_gits_own_files(path: str, editor: Editor) -> None:
    with pytest.raises(CannotEdit, match="git"):
        editor.create(path, "x")
    with pytest.raises(CannotEdit, match="git"):
        await editor.view(path)


async def test_links_are_not_followed(editor: Editor, opened: TaskSandbox, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("hush")
    commands = f"ln -s {secret} out; ln -s {secret}/key key; ln -s pkg inside; mkfifo pipe; ln -s nowhere dangling"
    assert (await opened.shell(editor.workspace, commands)).exit_code == 0
    for path in ("out/key", "key", "inside/mod.py", "pipe", "dangling", "out/new", "dangling/new"):
        for attempt in (
            lambda path=path: editor.create(path, "x"),
            lambda path=path: editor.str_replace(path, "h", "b"),
        ):
            with pytest.raises(CannotEdit) as told:
                attempt()
            assert str(editor.workspace.folder) not in str(told.value)
    for path in ("out", "out/key", "key", "inside", "inside/deep", "pipe", "dangling"):
        with pytest.raises(CannotEdit, match=path):
            await editor.view(path)
    assert list(secret.iterdir()) == [secret / "key"] and (secret / "key").read_text() == "hush"


@pytest.mark.parametrize("path", ["pkg", "", ".", "top.py/x", "x" * 300, "x" * 300 + "/y", "a/" * 150 + "b"])
def test_what_cannot_be_written_is_said_without_the_hosts_paths(path: str, editor: Editor) -> None:
    with pytest.raises(CannotEdit) as told:
        editor.create(path, "x")
    assert str(editor.workspace.folder) not in str(told.value)
    assert not [name for name in editor.workspace.changed() if name != "a"]
