"""What a repository asks for, read from files that may hold anything."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.sandbox.environment_recipes import Recipe, find_recipes
from scrout.sandbox.workspace import Base

PROJECT = '[build-system]\nrequires = ["setuptools"]\n[project]\nname = "p"\nversion = "1"\n'
VENV = 'python3 -m venv "$SCROUT_ENV/venv"'
PIP = "python -m pip install"
PINNED = 'python -m pip install -c "$SCROUT_ENV/constraints.txt"'


@pytest.fixture
def no_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with a Python and nothing else; programs may be added to the folder."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    program(folder, "python3")
    return folder


def program(folder: Path, name: str) -> None:
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)


def recipes(tree: Path, files: Mapping[str, str | bytes], setup: str = "") -> tuple[Recipe, ...]:
    for path, content in files.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_bytes(content if isinstance(content, bytes) else content.encode())
    return find_recipes(Base(Path("/repo"), "0" * 40, tree), setup)


PYTHON = {
    "nothing": ({"README.md": "hello", "pyproject.toml": "[tool.black]\nline-length = 100\n"}, None),
    "requirements": (
        {
            "requirements.txt": "a",
            "requirements-dev.txt": "b",
            "requirements/docs.txt": "c",
            "requirements/test.txt": "d",
        },
        [f"{PIP} -r requirements-dev.txt -r requirements.txt -r requirements/test.txt"],
    ),
    "requirements and a project": (
        {"requirements.txt": "a", "pyproject.toml": PROJECT},
        [f"{PIP} -r requirements.txt", f"{PIP} -e ."],
    ),
    "extras": (
        {"pyproject.toml": PROJECT + '[project.optional-dependencies]\ndocs = ["s"]\ntest = ["x"]\ndev = ["y"]\n'},
        [f"{PIP} -e '.[test,dev]'"],
    ),
    "groups that include each other": (
        {
            "pyproject.toml": PROJECT
            + '[dependency-groups]\nlint = ["ruff"]\ntest = ["pytest>8", {include-group = "more"}]\n'
            + 'more = ["hypothesis", {include-group = "test"}]\n'
        },
        [f"{PIP} 'pytest>8' hypothesis", f"{PIP} -e ."],
    ),
    "an application is not installed, its dependencies are": (
        {"pyproject.toml": '[project]\nname = "app"\ndependencies = ["httpx<1"]\n'},
        [f"{PIP} 'httpx<1'"],
    ),
    "poetry": (
        {
            "pyproject.toml": '[build-system]\nrequires = ["poetry-core"]\n[tool.poetry]\nname = "p"\n'
            '[tool.poetry.group.test.dependencies]\npython = "^3.9"\npytest = "^8.1"\nattrs = "*"\n'
            'anyio = {version = "~4.0", extras = ["trio"]}\nhere = {path = "../here"}\nten = "10.*"\n'
            '[tool.poetry.group.docs.dependencies]\nsphinx = "*"\n'
        },
        [f"{PIP} 'pytest>=8.1' attrs 'anyio[trio]>=4.0' 'ten==10.*'", f"{PIP} -e ."],
    ),
    "poetry without a package": (
        {
            "pyproject.toml": '[build-system]\nrequires = ["poetry-core"]\n[tool.poetry]\npackage-mode = false\n'
            '[tool.poetry.dependencies]\npython = "^3.9"\nrich = ">=13,<14"\n'
        },
        [f"{PIP} 'rich>=13,<14'"],
    ),
    "hatch and pdm": (
        {
            "pyproject.toml": PROJECT
            + '[tool.hatch.envs.test]\ndependencies = ["pytest-cov"]\n[tool.pdm.dev-dependencies]\ntest = ["moto"]\n'
        },
        [f"{PIP} moto pytest-cov", f"{PIP} -e ."],
    ),
    "setup.cfg": (
        {"setup.cfg": "[metadata]\nname = p\n[options.extras_require]\ntests =\n  pytest\ndocs = sphinx\n"},
        [f"{PIP} -e '.[tests]'"],
    ),
    "setup.py": (
        {"setup.py": "import x\nextras = {'dev': []}\nsetup(extras_require={'test': ['a'], 'x': []})"},
        [f"{PIP} -e '.[dev,test]'"],
    ),
    "setup.py that is no Python": ({"setup.py": "print 'old'"}, [f"{PIP} -e ."]),
    "tox": (
        {
            "setup.py": "",
            "tox.ini": "[testenv]\nextras = fast\ndeps =\n  -r{toxinidir}/ci/reqs.txt\n"
            "  py38: mock>=2\n  {env:X}\n  attrs\n",
        },
        [f"{PIP} -r ci/reqs.txt", f"{PIP} 'mock>=2' attrs", f"{PIP} -e '.[fast]'"],
    ),
    "tox does not count where the project says it": (
        {"setup.py": "setup(extras_require={'test': []})", "tox.ini": "[testenv]\ndeps = attrs\n"},
        [f"{PIP} -e '.[test]'"],
    ),
    "nox": (
        {
            "setup.py": "",
            "noxfile.py": "def tests(session):\n  session.install('-r', 'dev/reqs.txt', 'attrs')\n"
            "  session.install('-e', '.[cli]')\ndef docs(session):\n  session.install('sphinx')\n",
        },
        [f"{PIP} -r dev/reqs.txt", f"{PIP} attrs", f"{PIP} -e '.[cli]'"],
    ),
    "pytest, where the tests ask for it": ({"setup.py": "", "tests/conftest.py": ""}, [f"{PIP} -e .", f"{PIP} pytest"]),
    "an option is no requirement": (
        {"pyproject.toml": PROJECT + '[dependency-groups]\ndev = ["--index-url=http://elsewhere", "a; rm -rf /"]\n'},
        [f"{PIP} 'a; rm -rf /'", f"{PIP} -e ."],
    ),
}


@pytest.mark.parametrize("name", PYTHON)
def test_python(name: str, tmp_path: Path, no_tools: Path) -> None:
    files, lines = PYTHON[name]
    found = recipes(tmp_path / "tree", files)
    assert [list(recipe.lines) for recipe in found] == ([] if lines is None else [[VENV, *lines]])


UV_LOCK = """version = 1
[[package]]
name = "p"
source = { editable = "." }
[[package]]
name = "attrs"
version = "23.2.0"
source = { registry = "https://index.example/simple" }
[[package]]
name = "two"
version = "1"
source = { registry = "https://index.example/simple" }
[[package]]
name = "two"
version = "2"
source = { registry = "https://index.example/simple" }
[[package]]
name = "odd; name"
version = "1"
source = { registry = "https://index.example/simple" }
"""


def test_a_uv_lock_with_and_without_uv(tmp_path: Path, no_tools: Path) -> None:
    files = {"uv.lock": UV_LOCK, "pyproject.toml": PROJECT}
    (without,) = recipes(tmp_path / "tree", files)
    assert (without.kind, without.lines) == ("python", (VENV, f"{PINNED} -e ."))
    assert without.files == (("constraints.txt", "attrs==23.2.0\n"),)
    program(no_tools, "uv")
    (found,) = recipes(tmp_path / "tree", files)
    assert found.lines == (VENV, "uv sync --frozen --all-extras --all-groups")
    assert ("UV_PROJECT_ENVIRONMENT", "$SCROUT_ENV/venv") in found.variables


def test_a_poetry_lock_pins_what_pip_installs(tmp_path: Path, no_tools: Path) -> None:
    lock = '[[package]]\nname = "attrs"\nversion = "23.2.0"\n'
    lock += '[[package]]\nname = "forked"\nversion = "1.0"\n[package.source]\ntype = "git"\nurl = "https://x"\n'
    (found,) = recipes(tmp_path / "tree", {"poetry.lock": lock, "pyproject.toml": PROJECT})
    assert found.files == (("constraints.txt", "attrs==23.2.0\n"),) and found.inputs[0] == "poetry.lock"


def test_inputs_are_the_files_that_decide(tmp_path: Path, no_tools: Path) -> None:
    files = {
        "requirements.txt": "-r sub/../more/a.txt\n-c ../outside.txt",
        "more/a.txt": "-r b.txt\n",
        "more/b.txt": "x",
    }
    (found,) = recipes(tmp_path / "tree", {**files, "setup.py": "", "README.md": ""})
    assert set(found.inputs) == {"requirements.txt", "more/a.txt", "more/b.txt", "setup.py"}


@pytest.mark.parametrize("text", ["setup(ext_modules=[])", "from Cython.Build import cythonize", "x = 1"])
def test_compiled_code_is_of_one_commit(text: str, tmp_path: Path, no_tools: Path) -> None:
    (found,) = recipes(tmp_path / "tree", {"setup.py": text})
    assert found.per_commit is (text != "x = 1")


def test_a_setup_command_takes_the_place_of_all(tmp_path: Path, no_tools: Path) -> None:
    files = {"requirements.txt": "a", "package.json": '{"dependencies": {"x": "1"}}'}
    (found,) = recipes(tmp_path / "tree", files, "make deps\n")
    assert (found.kind, found.lines, found.source) == ("setup", (VENV, "make deps"), "environment.setup")
    (no_tools / "python3").unlink()
    assert recipes(tmp_path / "tree", {}, "make deps")[0].lines == ("make deps",)


def test_other_languages(tmp_path: Path, no_tools: Path) -> None:
    files = {
        "package.json": '{"devDependencies": {"x": "1"}}',
        "go.mod": "module m\n\nrequire (\n\tx v1\n)\n",
        "Cargo.toml": '[package]\nname = "c"\n[dependencies]\nserde = "1"\n',
    }
    npm, go, cargo = recipes(tmp_path / "tree", files)
    assert npm.lines == ("npm install --ignore-scripts --no-audit --no-fund --no-package-lock",)
    assert go.lines == ("go mod download",) and go.later == (("GOPROXY", "off"),)
    assert ("GOMODCACHE", "$SCROUT_ENV/gomod") in go.variables
    assert cargo.lines == ("cargo fetch",) and cargo.later == (("CARGO_NET_OFFLINE", "true"),)
    npm, _, cargo = recipes(tmp_path / "tree", {"package-lock.json": "{}", "Cargo.lock": ""})
    assert npm.lines == ("npm ci --ignore-scripts --no-audit --no-fund",)
    assert npm.inputs == ("package.json", "package-lock.json")
    assert cargo.lines == ("cargo fetch --locked",)


def test_languages_without_dependencies_ask_for_nothing(tmp_path: Path, no_tools: Path) -> None:
    files = {"package.json": '{"name": "x"}', "go.mod": "module m\ngo 1.22\n", "Cargo.toml": "[package]\n"}
    assert recipes(tmp_path / "tree", files) == ()
    assert recipes(tmp_path / "tree", {"go.mod": "require x v1", "vendor/modules.txt": ""}) == ()


def test_a_devcontainer_counts_where_nothing_else_is_known(tmp_path: Path, no_tools: Path) -> None:
    text = """{
      // a comment with "quotes"
      "image": "x", /* another */ "name": "https://not.a/comment",
      "onCreateCommand": ["pip", "install", "a b"],
      "postCreateCommand": {"one": "make one", "two": ["make", "two"],},
    }"""
    (found,) = recipes(tmp_path / "tree", {".devcontainer/devcontainer.json": text})
    assert found.lines == (VENV, "pip install 'a b'", "make one", "make two")
    (found,) = recipes(tmp_path / "tree", {"requirements.txt": "a"})
    assert found.kind == "python"


def test_a_link_in_the_place_of_a_file_is_not_followed(tmp_path: Path, no_tools: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "secret").write_text("a")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "test.txt").write_text("a")
    (tmp_path / "tree" / "pyproject.toml").symlink_to(tmp_path / "secret")
    (tmp_path / "tree" / "requirements").symlink_to(tmp_path / "folder")
    assert recipes(tmp_path / "tree", {}) == ()


READ = ("pyproject.toml", "setup.py", "setup.cfg", "tox.ini", "noxfile.py", "uv.lock", "poetry.lock", "package.json")
READ += ("requirements.txt", "go.mod", "Cargo.toml", ".devcontainer.json")
SNIPPETS = (
    b"[project]\n",
    b"[tool.poetry]\n",
    b"x = [1, {}]\n",
    b"dev = 3\n",
    b"[[package]]\n",
    b'{"a": [',
    b"[testenv]\n",
)
SNIPPETS += (
    b"deps = a\n",
    b"extras_require = {1: 2}\n",
    b"\xff\x00",
    b"def test(s):\n  session.install(*a, 'b')\n",
    b"'''",
)
SNIPPETS += (
    b"[dependency-groups]\n",
    b'dev = [{include-group = "dev"}, 4]\n',
    b'"postCreateCommand": [1, {}]}',
    b"%(x)s",
)


@given(contents=st.dictionaries(st.sampled_from(READ), st.lists(st.sampled_from(SNIPPETS), max_size=4), max_size=4))
def test_no_content_breaks_the_reading(
    tmp_path_factory: pytest.TempPathFactory, contents: dict[str, list[bytes]]
) -> None:
    tree = tmp_path_factory.mktemp("tree")
    for recipe in recipes(tree, {path: b"".join(parts) for path, parts in contents.items()}):
        assert recipe.lines and all(line.strip() for line in recipe.lines)


@pytest.mark.parametrize("name", ["pyproject.toml", "package.json", "setup.py", ".devcontainer.json"])
def test_deep_nesting_is_read_as_nothing(name: str, tmp_path: Path, no_tools: Path) -> None:
    start = "x = " if name.endswith(("toml", "py")) else ""
    found = recipes(tmp_path / "tree", {name: start + "[" * 100_000})
    assert not any("[" * 10 in line for recipe in found for line in recipe.lines)


def test_a_package_that_needs_nothing_has_no_recipe(tmp_path: Path) -> None:
    build = '[build-system]\nrequires = ["setuptools"]\n[project]\nname = "larder"\n'
    package = {"larder/__init__.py": ""}
    assert recipes(tmp_path / "alone", {"pyproject.toml": build, **package}) == ()
    assert recipes(tmp_path / "needs", {"pyproject.toml": build + 'dependencies = ["six"]\n', **package})
    assert recipes(tmp_path / "dynamic", {"pyproject.toml": build + 'dynamic = ["dependencies"]\n', **package})
    assert recipes(tmp_path / "src", {"pyproject.toml": build, "src/larder/__init__.py": ""})
