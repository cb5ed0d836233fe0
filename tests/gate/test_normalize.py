"""Paths as searchers write them, against a repository that is really there."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.gate.normalize import normalize_handoff
from scrout.handoff import FileRef, Handoff, Reproduction
from scrout.sandbox.workspace import Base

CONTENT = "one\ntwo\nthree\n"


@pytest.fixture
def base(tmp_path: Path) -> Base:
    """A base without history; tidying only looks at files."""
    tree = tmp_path / "tree"
    for name in ("a.py", "lib/deep/part.py", "src/pkg/core.py", "app/views.py", "workspace/inner.py"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(CONTENT)
    (tree / "link.py").symlink_to("/etc/passwd")
    (tmp_path / "outside.py").write_text("secret\n")
    return Base(Path("/home/somebody/project"), "0" * 40, tree)


def _paths(base: Base, *names: str, why: str = "") -> list[str]:
    return [
        ref.path
        for ref in normalize_handoff(Handoff(files=tuple(FileRef(path=name, why=why) for name in names)), base).files
    ]


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("a.py", "a.py"),
        ("./a.py", "a.py"),
        ("/app/a.py", "a.py"),
        ("app/a.py", "a.py"),
        ("/testbed/a.py", "a.py"),
        ("workspace/a.py", "a.py"),
        ("deep/part.py", "lib/deep/part.py"),
        ("/app/deep/part.py", "lib/deep/part.py"),
        ("app/deep/part.py", "lib/deep/part.py"),
        ("pkg/core.py", "src/pkg/core.py"),
        ("app/views.py", "app/views.py"),
        ("/app/app/views.py", "app/views.py"),
        ("workspace/inner.py", "workspace/inner.py"),
    ],
)
def test_path_is_found_where_the_repository_has_it(base: Base, written: str, found: str) -> None:
    assert _paths(base, written) == [found]


@pytest.mark.parametrize(
    "name",
    [
        *("no.py", "lib", "lib/deep", "src/", "a.py/b.py", "link.py", ".git/config"),
        *("", ".", "..", "../outside.py", "lib/../../outside.py", "/app/../outside.py", "/etc/passwd"),
        *("~/x.py", "C:/x.py", "a\0.py", "a.py\n", "x" * 5000),
    ],
)
def test_path_that_names_no_file_of_the_repository_is_dropped(base: Base, name: str) -> None:
    assert _paths(base, name, "a.py") == ["a.py"]


def test_new_file_is_kept_only_if_it_is_announced_and_possible(base: Base) -> None:
    assert _paths(base, "lib/new.py", why="new file: holds the parser") == ["lib/new.py"]
    assert _paths(base, "lib/new.py", why="a new file") == []
    assert _paths(base, "lib/deep", "../new.py", "/etc/new.py", why="new file") == []
    announced = FileRef(path="lib/new.py", regions=((1, 5),), why="New file")
    assert normalize_handoff(Handoff(files=(announced,)), base).files[0].regions == ()


def test_a_link_tells_nothing_of_the_hosts_files(base: Base, tmp_path: Path) -> None:
    (base.tree / "away").symlink_to(tmp_path)
    (base.tree / "home").symlink_to("lib")
    assert (tmp_path / "outside.py").exists() and not (tmp_path / "missing.py").exists()
    names = ("away/outside.py", "away/missing.py")
    assert _paths(base, *names, why="new file") == list(names)
    assert _paths(base, "home/new.py", "home/deep/part.py", why="new file") == ["home/new.py"]


def test_regions_are_clipped_to_the_file(base: Base) -> None:
    ref = FileRef(path="a.py", regions=((2, 99), (4, 8), (-5, 1), (3, 2), (10**12, 10**12)))
    assert normalize_handoff(Handoff(files=(ref,)), base).files[0].regions == ((2, 3), (1, 1))


def test_duplicates_are_merged_at_their_best_rank(base: Base) -> None:
    files = (
        FileRef(path="/app/a.py", regions=((1, 1),), why="first"),
        FileRef(path="pkg/core.py"),
        FileRef(path="a.py", regions=((3, 3), (1, 1)), confidence=0.7, why="second"),
    )
    assert normalize_handoff(Handoff(files=files), base).files == (
        FileRef(path="a.py", regions=((1, 1), (3, 3)), confidence=0.7, why="first"),
        FileRef(path="src/pkg/core.py"),
    )


def test_reproduction_from_a_container_comes_home(base: Base) -> None:
    claim = Reproduction(
        command="cd /app && python /app/check.py --url http://host/app/x --other /application /tmp/app",
        files={"/app/check.py": "import sys\nsys.path.insert(0, '/testbed')\n"},
        claim=True,
    )
    home = normalize_handoff(Handoff(reproduction=claim), base).reproduction
    assert home is not None
    repo = "/home/somebody/project"
    assert home.command == f"cd {repo} && python {repo}/check.py --url http://host/app/x --other /application /tmp/app"
    assert home.files == {"check.py": f"import sys\nsys.path.insert(0, '{repo}')\n"}


def test_a_root_that_is_no_container_here_stays(base: Base) -> None:
    inside = Base(Path("/workspace/project"), base.commit, base.tree)
    claim = Reproduction(command="cd /workspace/project && python x.py", claim=True)
    assert normalize_handoff(Handoff(reproduction=claim), inside).reproduction == claim


@given(st.text(max_size=30) | st.text(alphabet="/.abpy\\ ~", max_size=20))
def test_whatever_the_path_the_file_is_inside(base: Base, name: str) -> None:
    for path in _paths(base, name, f"/app/{name}"):
        assert (base.tree / path).resolve().is_relative_to(base.tree) and (base.tree / path).is_file()
