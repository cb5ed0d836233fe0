"""A stranger's repository may hold any configuration, link and object. None of it runs, leaks or fills the disk."""

from __future__ import annotations

import hashlib
import os
import struct
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import MakeRepo, OpenTaskSandbox, run_git

import scrout.git
from scrout.base import TaskError
from scrout.config.settings import SandboxSettings
from scrout.git import find_repository
from scrout.sandbox import workspace
from scrout.sandbox.workspace import Workspaces, count_changed, find_source, make_base


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Leaves a mark when it runs."""
    path = tmp_path / "program"
    path.write_text(f"#!/bin/sh\necho ran >> {tmp_path}/ran\ncat\n")
    path.chmod(0o755)
    return path


CONFIGURED = [
    ("filter.f.clean", "{program}"),
    ("filter.f.smudge", "{program}"),
    ("filter.f.process", "{program}"),
    ("core.fsmonitor", "{program}"),
    ("core.sshCommand", "{program}"),
    ("core.editor", "{program}"),
    ("core.pager", "{program}"),
    ("core.askPass", "{program}"),
    ("core.gitProxy", "{program}"),
    ("core.alternateRefsCommand", "{program}"),
    ("core.hooksPath", "{folder}"),
    ("diff.external", "{program}"),
    ("diff.f.textconv", "{program}"),
    ("diff.f.command", "{program}"),
    ("merge.f.driver", "{program}"),
    ("gpg.program", "{program}"),
    ("log.showSignature", "true"),
    ("credential.helper", "{program}"),
    ("uploadpack.packObjectsHook", "{program}"),
    ("trailer.x.command", "{program}"),
    ("interactive.diffFilter", "{program}"),
    ("sequence.editor", "{program}"),
    ("include.path", "{folder}/more"),
]


def test_no_program_that_a_repository_names_runs(make_repo: MakeRepo, program: Path, tmp_path: Path) -> None:
    repo = make_repo({"a.txt": "x\n", "b.txt": "x\n", ".gitattributes": "* filter=f diff=f merge=f\n"})
    (tmp_path / "more").write_text(f'[filter "f"]\n\tclean = {program}\n[core]\n\tfsmonitor = {program}\n')
    for hook in ("post-checkout", "pre-commit", "post-commit", "reference-transaction", "post-index-change"):
        (tmp_path / hook).symlink_to(program)
    for key, value in CONFIGURED:
        run_git(repo, "config", key, value.format(program=program, folder=tmp_path))
    (repo / "a.txt").write_text("y\n")
    os.utime(repo / "b.txt", (1, 1))  # git must look whether it changed
    source = find_source(repo)
    assert count_changed(source) >= 1
    base = make_base(source.repo, source.head)
    dirty = make_base(source.repo, source.head, dirty=True)
    assert dirty.read("a.txt") == b"y\n" and base.read("a.txt") == b"x\n"
    patch = dirty.git("diff", "--no-ext-diff", base.commit, dirty.commit)
    (repo / "a.txt").write_text("x\n")
    with find_repository(repo).borrowed(with_work_tree=True) as git:
        git("apply", "-", stdin=patch)
    assert (repo / "a.txt").read_text() == "y\n"
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("settings", [("core.sshCommand", "ssh://127.0.0.1/x"), ("remote.origin.uploadpack", "{repo}")])
def test_a_missing_object_is_not_fetched(
    make_repo: MakeRepo, program: Path, tmp_path: Path, settings: tuple[str, str]
) -> None:
    repo = make_repo({"a.txt": "x\n", "b.txt": "y\n"})
    blob = run_git(repo, "rev-parse", "HEAD:a.txt").decode().strip()
    (repo / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    key, url = settings
    for name, value in (
        (key, str(program)),
        ("remote.origin.url", url.format(repo=repo)),
        ("remote.origin.promisor", "true"),
        ("extensions.partialClone", "origin"),
        ("core.repositoryFormatVersion", "1"),
    ):
        run_git(repo, "config", name, value)
    source = find_source(repo)
    with pytest.raises(Exception, match=r"a\.txt|missing|unable to read|cannot be read|could not be copied"):
        make_base(source.repo, source.head)
    assert not (tmp_path / "ran").exists()


def test_a_repository_inside_is_not_asked(make_repo: MakeRepo, program: Path, tmp_path: Path) -> None:
    """Its own configuration would count for what git asks of it."""
    outer = make_repo({"a.txt": "x\n"})
    inner = make_repo({"b.txt": "x\n"}, "repo/inner")
    run_git(inner, "config", "core.fsmonitor", str(program))
    run_git(inner, "config", "filter.f.clean", str(program))
    (inner / ".git" / "info").mkdir(exist_ok=True)
    (inner / ".git" / "info" / "attributes").write_text("* filter=f\n")
    (inner / "b.txt").write_text("y\n")
    head = run_git(inner, "rev-parse", "HEAD").decode().strip()
    run_git(outer, "update-index", "--add", "--cacheinfo", f"160000,{head},inner")
    run_git(outer, "commit", "-q", "-m", "with a repository inside")
    source = find_source(outer)
    base = make_base(source.repo, source.head, dirty=True)
    assert base.submodules == ("inner",)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("was_file", [False, True])
def test_a_snapshot_tells_no_commit_of_another_repository(make_repo: MakeRepo, was_file: bool) -> None:
    private = make_repo({"b.txt": "x\n"}, "private")
    secret = run_git(private, "rev-parse", "HEAD").decode().strip()
    repo = make_repo({"a.txt": "x\n", "sub": "x\n"} if was_file else {"a.txt": "x\n"})
    if was_file:
        (repo / "sub").unlink()
    else:
        run_git(repo, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")
        run_git(repo, "commit", "-q", "-m", "with a submodule")
    (repo / "sub").mkdir(exist_ok=True)
    (repo / "sub" / ".git").write_text(f"gitdir: {private}/.git\n")
    source = find_source(repo)
    base = make_base(source.repo, source.head, dirty=True)
    assert secret not in base.git.text("ls-tree", "-r", base.commit)


@pytest.mark.parametrize("name", ["info/exclude", "index", "packed-refs", "shallow", "HEAD", "refs/heads/main"])
def test_no_link_in_a_git_directory_is_followed(make_repo: MakeRepo, tmp_path: Path, name: str) -> None:
    repo = make_repo({"a.txt": "x\n"})
    secret = tmp_path / "secret"
    secret.write_text("the secret\n")
    path = repo / ".git" / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(secret)
    try:
        source = find_source(repo)
        base = make_base(source.repo, source.head, dirty=True)
    except TaskError as error:
        assert "the secret" not in str(error)
        return
    for file in base.tree.rglob("*"):
        assert not file.is_file() or b"the secret" not in file.read_bytes()


def test_neither_replacements_nor_grafts_nor_forged_graphs_show_a_later_commit(make_repo: MakeRepo) -> None:
    repo = make_repo({"a.txt": "x\n"})
    head = run_git(repo, "rev-parse", "HEAD").decode().strip()
    (repo / "a.txt").write_text("the answer\n")
    run_git(repo, "commit", "-qam", "later")
    later = run_git(repo, "rev-parse", "HEAD").decode().strip()
    run_git(repo, "commit-graph", "write", "--reachable")
    run_git(repo, "reset", "-q", "--hard", head)
    run_git(repo, "replace", "-f", head, later)
    (repo / ".git" / "info").mkdir(exist_ok=True)
    (repo / ".git" / "info" / "grafts").write_text(f"{head} {later}\n")
    base = make_base(repo, head)
    assert base.read("a.txt") == b"x\n"
    assert base.git.text("log", "--format=%H") == head


def test_a_few_objects_that_unfold_to_many_paths_are_counted_first(make_repo: MakeRepo) -> None:
    repo = make_repo({"a.txt": "x\n"})
    entry = run_git(repo, "ls-tree", "HEAD", "a.txt")
    for _ in range(7):
        tree = run_git(repo, "mktree", stdin=entry).decode().strip()
        entry = "".join(f"040000 tree {tree}\t{number}\n" for number in range(10)).encode()
    tree = run_git(repo, "mktree", stdin=entry).decode().strip()
    commit = run_git(repo, "commit-tree", tree, "-m", "ten million paths").decode().strip()
    run_git(repo, "update-ref", "refs/heads/bomb", commit)
    with pytest.raises(TaskError, match=r"more than 200,000 paths.*sandbox\.repo_paths"):
        make_base(repo, commit)


def _pack(repo: Path, at: int, objects: list[tuple[str, bytes, str]]) -> None:
    """A pack whose index has a name of our choice for each object."""
    body = b"PACK" + struct.pack(">II", 2, len(objects))
    listed = []
    for kind, data, name in objects:
        size, head = len(data) >> 4, ({"commit": 1, "tree": 2, "blob": 3}[kind] << 4) | (len(data) & 15)
        entry = b""
        while size:
            entry, head, size = entry + bytes([head | 128]), size & 127, size >> 7
        entry += bytes([head]) + zlib.compress(data)
        listed.append((bytes.fromhex(name), len(body), zlib.crc32(entry)))
        body += entry
    body += hashlib.sha1(body).digest()
    listed.sort()
    index = b"\xfftOc" + struct.pack(">I", 2)
    index += b"".join(struct.pack(">I", sum(name[0] <= first for name, _, _ in listed)) for first in range(256))
    index += b"".join(name for name, _, _ in listed)
    index += b"".join(struct.pack(">I", crc) for _, _, crc in listed)
    index += b"".join(struct.pack(">I", offset) for _, offset, _ in listed) + body[-20:]
    path = repo / ".git" / "objects" / "pack" / f"pack-{body[-20:].hex()}"
    for suffix, content in ((".pack", body), (".idx", index + hashlib.sha1(index).digest())):
        path.with_suffix(suffix).write_bytes(content)
        os.utime(path.with_suffix(suffix), (at, at))


def _named(kind: str, data: bytes) -> tuple[str, bytes, str]:
    return kind, data, hashlib.sha1(f"{kind} {len(data)}\0".encode() + data).hexdigest()


def test_what_two_packs_say_differently_is_counted_as_it_is_checked_out(make_repo: MakeRepo) -> None:
    """No hash is looked at where git reads a pack, so one object can be small for the count and large for the copy."""
    repo = make_repo({"a.txt": "x\n"})
    objects = [_named("blob", b"x")]
    mode = "100644"
    for _ in range(3):
        entry = bytes.fromhex(objects[-1][2])
        objects.append(_named("tree", b"".join(f"{mode} {n}\0".encode() + entry for n in range(10))))
        mode = "40000"
    root = _named("tree", b"40000 t\0" + bytes.fromhex(objects[-1][2]))
    who = "a <a> 1 +0000"
    first = _named("commit", f"tree {root[2]}\nauthor {who}\ncommitter {who}\n\nx\n".encode())
    second = _named("commit", f"tree {root[2]}\nparent {first[2]}\nauthor {who}\ncommitter {who}\n\nx\n".encode())
    _pack(repo, 1_000_000_000, [*objects, root, first])
    _pack(repo, 1_700_000_000, [root, second, ("tree", b"", objects[-1][2])])
    assert run_git(repo, "ls-tree", "-r", second[2]) == b""  # or it shows nothing
    with pytest.raises(TaskError, match=r"sandbox\.repo_paths"):
        make_base(repo, second[2], bounds=SandboxSettings(repo_paths=50))


def test_an_index_that_names_other_files_is_not_believed(
    make_repo: MakeRepo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Git would look at them, and wait for ever on a pipe beside them."""
    monkeypatch.setattr(workspace, "LOOK_S", 20)
    (tmp_path / "out").mkdir()
    for number, (name, place) in enumerate(
        {"agit/x/f": ".git/x/f", "agit/y/f": ".GIT/y/f", "abcdef/f": "../out/f"}.items()
    ):
        repo = make_repo({name: "x"}, f"repo-{number}")
        index = repo / ".git" / "index"
        forged = index.read_bytes()[:-20].replace(name.encode(), place.encode())
        index.write_bytes(forged + hashlib.sha1(forged).digest())
        path = repo / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("y")
        os.mkfifo(path.parent / ".gitattributes")
        if place.startswith(".GIT"):
            with pytest.raises(TaskError, match="pipe"):
                count_changed(find_source(repo))
        else:
            assert count_changed(find_source(repo)) == 0


def test_a_folder_that_is_a_link_by_now(make_repo: MakeRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it leads to is not read: neither the file of that name nor the attributes beside it."""
    monkeypatch.setattr(scrout.git, "LOCAL_S", 20)
    repo = make_repo({"d/f": "x", "e": "y"})
    host = tmp_path / "host"
    host.mkdir()
    (host / "f").write_text("the secret")
    os.mkfifo(host / ".gitattributes")
    (repo / "d" / "f").unlink()
    (repo / "d").rmdir()
    (repo / "d").symlink_to(host)
    source = find_source(repo)
    base = make_base(source.repo, source.head, dirty=True)
    assert base.read("d/f") is None and (base.tree / "d").is_symlink() and base.read("e") == b"y"
    assert make_base(source.repo, source.head).read("d/f") == b"x"


def test_a_pipe_in_the_place_of_a_file_is_no_content(make_repo: MakeRepo) -> None:
    repo = make_repo({"a": "x", "b": "y"})
    (repo / "a").unlink()
    os.mkfifo(repo / "a")
    source = find_source(repo)
    base = make_base(source.repo, source.head, dirty=True)
    assert base.read("a") is None and base.read("b") == b"y"


def test_attributes_of_a_work_tree_are_not_read_for_objects(
    make_repo: MakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrout.git, "LOCAL_S", 20)
    repo = make_repo({"a": "x"})
    os.mkfifo(repo / ".gitattributes")
    source = find_source(repo)
    assert make_base(source.repo, source.head).read("a") == b"x"


def test_a_folder_that_may_be_entered_and_not_listed_hides_nothing(
    make_repo: MakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git asks for files in it by their names."""
    repo = make_repo({"d/f": "x"})
    (repo / "d").chmod(0o311)
    listed = os.scandir

    def scandir(path: str) -> Iterator[os.DirEntry[str]]:
        if os.stat(path).st_mode & 0o777 == 0o311:  # noqa: PTH116
            raise PermissionError(13, "Permission denied", path)  # also to root
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(TaskError, match="may be entered and not listed"):
        count_changed(find_source(repo))


def test_a_branch_whose_name_is_no_text(make_repo: MakeRepo) -> None:
    repo = make_repo({"a": "x"})
    heads = os.fsencode(repo / ".git" / "refs" / "heads")
    os.rename(heads + b"/main", heads + b"/\xff")  # noqa: PTH104
    (repo / ".git" / "HEAD").write_bytes(b"ref: refs/heads/\xff\n")
    source = find_source(repo)
    assert count_changed(source) == 0 and make_base(source.repo, source.head).read("a") == b"x"


@pytest.mark.parametrize("tables", ["0x1-0x1-aa.ref\n", "../../../pipe\n"])
def test_tables_of_references_of_a_repository_inside(make_repo: MakeRepo, tables: str) -> None:
    repo = make_repo({"a": "x"})
    folder = repo / "inner" / ".git" / "reftable"
    folder.mkdir(parents=True)
    (folder / "tables.list").write_text(tables)
    os.mkfifo(repo / "pipe" if "/" in tables else folder / tables.strip())
    with pytest.raises(TaskError, match="reftable"):
        count_changed(find_source(repo))


def test_they_are_counted_before_git_holds_them_in_memory(make_repo: MakeRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """`git status` and `git read-tree` would, as soon as somebody asks what changed."""
    repo = make_repo({f"{number}.txt": "x\n" for number in range(30)})
    ran: list[str] = []
    started = subprocess.Popen

    class Watched(started):  # type: ignore[misc, valid-type]
        def __init__(self, argv: list[str], **given: object) -> None:
            ran.extend(word for word in argv if word in ("status", "read-tree"))
            super().__init__(argv, **given)

    monkeypatch.setattr(subprocess, "Popen", Watched)
    source = find_source(repo)
    for dirty in (True, False):
        with pytest.raises(TaskError, match=r"more than 20 paths.*sandbox\.repo_paths"):
            make_base(source.repo, source.head, dirty=dirty, bounds=SandboxSettings(repo_paths=20))
    with pytest.raises(TaskError, match=r"more than 20 paths.*sandbox\.repo_paths"):
        count_changed(source, SandboxSettings(repo_paths=20))
    assert ran == []
    assert count_changed(source, SandboxSettings(repo_paths=40)) == 0 and ran


def test_a_tree_that_cannot_be_listed_does_not_pass_for_a_small_one(make_repo: MakeRepo) -> None:
    repo = make_repo({"a.txt": "x\n", "b/c.txt": "y\n"})
    tree = run_git(repo, "rev-parse", "HEAD:b").decode().strip()
    (repo / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    with pytest.raises(TaskError, match="git fsck"):
        count_changed(find_source(repo))


PIPES = (
    *(".gitignore", ".gitattributes", "sub/.gitignore", "sub/.gitattributes"),
    *(".git/HEAD", ".git/index", ".git/packed-refs", ".git/shallow", ".git/info/exclude", ".git/refs/heads/main"),
    *(".git/objects/info/alternates", ".git/objects/pack/pack-1.idx", ".git/objects/pack/pack-1.pack"),
)


@pytest.mark.parametrize("name", PIPES)
def test_git_waits_on_no_pipe(make_repo: MakeRepo, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive can hold one where git reads a file, and nobody would ever write to it."""
    monkeypatch.setattr(scrout.git, "LOCAL_S", 20)  # so that the test ends, too
    repo = make_repo({"a.txt": "x\n", "sub/b.txt": "x\n"})
    path = repo / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    with pytest.raises(TaskError) as told:
        count_changed(find_source(repo))
    assert "took more than" not in str(told.value)


NESTED = ("HEAD", "commondir", "config", "packed-refs", "refs/heads/main", "PSEUDO")


def _nested(folder: Path) -> Path:
    for name in ("objects", "refs/heads"):
        (folder / name).mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "refs" / "heads" / "main").write_text("ref: PSEUDO\n")
    return folder


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("name", NESTED)
def test_git_waits_on_no_pipe_of_a_repository_inside(
    make_repo: MakeRepo, name: str, linked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """git asks such a one what is checked out there, wherever its `.git` leads."""
    monkeypatch.setattr(scrout.git, "LOCAL_S", 20)
    repo = make_repo({"a.txt": "x\n"})
    head = run_git(repo, "rev-parse", "HEAD").decode().strip()
    run_git(repo, "update-index", "--add", "--cacheinfo", f"160000,{head},sub")
    run_git(repo, "commit", "-qm", "with a repository inside")
    inside = _nested(repo / ("elsewhere" if linked else "sub/.git"))
    if linked:
        (repo / "sub").mkdir()
        (repo / "sub" / ".git").write_text("gitdir: ../elsewhere\n")
    (inside / name).unlink(missing_ok=True)
    os.mkfifo(inside / name)
    for ask in (count_changed, lambda source: make_base(source.repo, source.head, dirty=True)):
        with pytest.raises(TaskError, match="is a pipe"):
            ask(find_source(repo))


@pytest.mark.parametrize(
    ("name", "to"), [("commondir", "/dev/zero"), ("refs/heads/main", "/dev/zero"), ("commondir", "common")]
)
def test_git_reads_no_device_for_a_file_of_a_repository_inside(make_repo: MakeRepo, name: str, to: str) -> None:
    repo = make_repo({"a.txt": "x\n"})
    inside = _nested(repo / "sub" / ".git")
    (inside / name).unlink(missing_ok=True)
    if to == "common":
        (_nested(repo / "common") / "config").symlink_to("/dev/zero")
        (inside / name).write_text("../../common\n")
    else:
        (inside / name).symlink_to(to)
    with pytest.raises(TaskError, match="a device"):
        count_changed(find_source(repo))


@pytest.mark.parametrize(
    ("file", "folder"),
    [
        ("gitdir: ../elsewhere \n", "elsewhere "),
        ("gitdir: ../elsewhere\0x\n", "elsewhere"),
        ("gitdir: ../elsewhere\n\0", "elsewhere\n"),
    ],
)
def test_what_names_a_repository_inside_is_read_as_git_reads_it(
    make_repo: MakeRepo, file: str, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else one folder is looked at, and git reads another."""
    monkeypatch.setattr(workspace, "LOOK_S", 20)
    monkeypatch.setattr(scrout.git, "LOCAL_S", 20)
    repo = make_repo({"a.txt": "x\n"})
    inside = _nested(repo / folder)
    (inside / "HEAD").unlink()
    os.mkfifo(inside / "HEAD")
    (repo / "sub").mkdir()
    (repo / "sub" / ".git").write_text(file)
    with pytest.raises(TaskError, match="is a pipe"):
        count_changed(find_source(repo))


@pytest.mark.parametrize("name", ["logs/x", "objects/x", "worktrees/x/HEAD", "\xa0refs/x"])
def test_git_follows_no_reference_out_of_the_references(
    make_repo: MakeRepo, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes any path for the name of one, and waits on a pipe there."""
    monkeypatch.setattr(workspace, "LOOK_S", 20)
    monkeypatch.setattr(scrout.git, "LOCAL_S", 20)
    repo = make_repo({"a.txt": "x\n"})
    inside = _nested(repo / "sub" / ".git")
    (inside / "refs" / "heads" / "main").write_text(f"ref: {name}\n")
    (inside / name).parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(inside / name)
    with pytest.raises(TaskError, match="names a file that is no reference"):
        count_changed(find_source(repo))


def test_what_is_committed_in_another_encoding_fits_too(make_repo: MakeRepo) -> None:
    """Each of these bytes is nine in UTF-8."""
    repo = make_repo({".gitattributes": "big working-tree-encoding=TSCII\n"})
    (repo / "big").write_bytes(b"\x87" * 300_000)
    with pytest.raises(TaskError, match="more than"):
        make_base(repo, find_source(repo).head, dirty=True, bounds=SandboxSettings(repo_mb=1))


def test_an_ordinary_repository_inside_is_no_obstacle(make_repo: MakeRepo) -> None:
    repo = make_repo({"a.txt": "x\n"})
    inner = make_repo({"b.txt": "x\n"}, "repo/inner")
    run_git(inner, "worktree", "add", "-q", str(repo / "side"))
    run_git(inner, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
    source = find_source(repo)
    assert count_changed(source) == 2
    assert make_base(source.repo, source.head, dirty=True).read("a.txt") == b"x\n"


def test_files_with_holes_are_not_read_for_their_names(make_repo: MakeRepo) -> None:
    """A kilobyte on the disk that says it has gigabytes. git would hold all of it in memory, or break."""
    repo = make_repo({"a.txt": "x\n"})
    with (repo / ".gitignore").open("wb") as file:
        file.truncate(3_000_000_000)
    with pytest.raises(TaskError, match=r"\.gitignore is .* larger than"):
        count_changed(find_source(repo))


def test_what_is_not_committed_is_counted_first(make_repo: MakeRepo) -> None:
    repo = make_repo({"a.txt": "x\n"})
    source = find_source(repo)
    for number in range(10):
        (repo / f"{number}.txt").write_text("x\n")
    with pytest.raises(TaskError, match=r"not committed.*sandbox\.repo_paths"):
        make_base(source.repo, source.head, dirty=True, bounds=SandboxSettings(repo_paths=5))
    with (repo / "holes").open("wb") as file:
        file.truncate(3_000_000)
    with pytest.raises(TaskError, match=r"not committed.*sandbox\.repo_mb"):
        make_base(source.repo, source.head, dirty=True, bounds=SandboxSettings(repo_mb=2))
    assert make_base(source.repo, source.head, dirty=True, bounds=SandboxSettings(repo_mb=4)).read("9.txt") == b"x\n"


def test_a_path_that_no_disk_takes_is_refused_before_it_is_held(make_repo: MakeRepo) -> None:
    repo = make_repo({"a.txt": "x\n"})
    blob = run_git(repo, "rev-parse", "HEAD:a.txt").decode().strip()
    tree = run_git(repo, "mktree", stdin=f"100644 blob {blob}\t{'a' * 5_000_000}\n".encode()).decode().strip()
    commit = run_git(repo, "commit-tree", tree, "-m", "a long name").decode().strip()
    with pytest.raises(TaskError, match="too long"):
        make_base(repo, commit)


def test_a_file_of_gigabytes_is_not_held_in_memory(make_repo: MakeRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = make_repo({"pyproject.toml": "x" * 10_000, "a.py": "x"})
    source = find_source(repo)
    base = make_base(source.repo, source.head)
    assert len(base.read("pyproject.toml") or b"") == 10_000
    monkeypatch.setattr(workspace, "MOST_READ_BYTES", 9_999)
    assert base.read("pyproject.toml") is None and base.read("a.py") == b"x"
    with Workspaces(base) as workspaces:
        assert workspaces.fresh().read("pyproject.toml") is None


def test_git_has_a_bound_on_its_memory(make_repo: MakeRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """An object of some kilobytes can stand for gigabytes."""
    repo = make_repo({"a.txt": "x\n", "big": "\0" * 50_000_000})
    with find_repository(repo).borrowed() as git:
        assert len(git("cat-file", "--batch", "--filters", stdin=b"HEAD:big big\n")) > 50_000_000
        monkeypatch.setattr(scrout.git, "_MEMORY_BYTES", 30_000_000)
        with git.start("cat-file", "--batch", "--filters") as process:
            output, _ = process.communicate(b"HEAD:big big\n")
    assert len(output) < 1000 and process.returncode != 0


def test_a_large_file_under_many_names_is_counted_first(make_repo: MakeRepo) -> None:
    repo = make_repo({f"{number}.txt": "x" * 100_000 for number in range(30)})
    source = find_source(repo)
    with pytest.raises(TaskError, match=r"2 MB.*sandbox\.repo_mb"):
        make_base(source.repo, source.head, bounds=SandboxSettings(repo_mb=2))
    assert make_base(source.repo, source.head, bounds=SandboxSettings(repo_mb=4)).read("1.txt")


def test_history_is_bounded_too(make_repo: MakeRepo) -> None:
    """A few kilobytes of deltas can stand for gigabytes of what was once committed."""
    repo = make_repo({"a.txt": os.urandom(3_000_000)})
    (repo / "a.txt").write_text("x\n")
    run_git(repo, "commit", "-qam", "small")
    source = find_source(repo)
    with pytest.raises(TaskError, match=r"history.*2 MB.*sandbox\.repo_mb"):
        make_base(source.repo, source.head, bounds=SandboxSettings(repo_mb=2))
    assert make_base(source.repo, source.head, bounds=SandboxSettings(repo_mb=4)).read("a.txt") == b"x\n"


async def test_attributes_of_a_commit_make_no_file_larger(make_repo: MakeRepo, task_sandbox: OpenTaskSandbox) -> None:
    """With an identifier and an encoding that it names, each byte would take fifty on the disk."""
    repo = make_repo({"a.txt": "$Id$\n" * 100})
    attributes = "a.txt text ident working-tree-encoding=UTF-32LE\n"
    blob = run_git(repo, "hash-object", "-w", "--stdin", stdin=attributes.encode()).decode().strip()
    run_git(repo, "update-index", "--add", "--cacheinfo", f"100644,{blob},.gitattributes")
    run_git(repo, "commit", "-qm", "attributes")
    with task_sandbox(repo) as shop:
        workspace = shop.fresh()
        assert workspace.read("a.txt") == b"$Id$\n" * 100
        await shop.shell(workspace, "echo more >> a.txt")
        patch = await shop.diff(workspace)
        assert "\n+more\n" in patch and patch.count("\n+") == 2  # its head has one
        assert await shop.apply(shop.fresh(), patch) == ""


def test_files_with_odd_names_are_in_a_snapshot(make_repo: MakeRepo) -> None:
    repo = make_repo({"a b": "1", "ü": "1", '"q"': "1"})
    for name in ("a b", "ü", '"q"', "new\nline", "-dash", ":(top)magic"):
        (repo / name).write_text("2")
    (repo / "link").symlink_to("/etc/passwd")
    source = find_source(repo)
    base = make_base(source.repo, source.head, dirty=True)
    for name in ("a b", "ü", '"q"', "new\nline", "-dash", ":(top)magic"):
        assert base.read(name) == b"2"
    assert (base.tree / "link").is_symlink() and base.read("link") is None


def test_git_of_the_host_never_sees_it(make_repo: MakeRepo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever git may yet learn to run: no process starts with a foreign git directory or folder to find one in."""
    repo = make_repo({"a.txt": "x\n"})
    (repo / "a.txt").write_text("y\n")
    seen: list[str] = []
    started = subprocess.Popen

    class Watched(started):  # type: ignore[misc, valid-type]
        def __init__(self, argv: list[str], **given: object) -> None:
            if Path(argv[0]).name == "git":
                variables = given["env"]
                assert isinstance(variables, dict)
                seen.append(variables["GIT_DIR"] if "config" not in argv else "")
            super().__init__(argv, **given)

    monkeypatch.setattr(subprocess, "Popen", Watched)
    source = find_source(repo)
    make_base(source.repo, source.head, dirty=True)
    assert len(seen) > 5
    assert not [path for path in seen if path.startswith(str(repo))]
