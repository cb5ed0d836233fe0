"""A repository's requirements, read from its files at the base commit: one recipe per ecosystem.

The files are only parsed here, never run. environment_build.py runs a recipe's lines in a sandbox with network. Not
covered: projects below the top folder, a devcontainer's image, and pins of Yarn or pnpm; `environment.setup` is for
those.
"""

from __future__ import annotations

import ast
import configparser
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Literal

from scrout.files import read_toml
from scrout.programs import find_program
from scrout.sandbox.workspace import Base
from scrout.syntax import parse_python

Kind = Literal["setup", "python", "uv", "npm", "go", "cargo", "devcontainer"]

VENV = "$SCROUT_ENV/venv"
MOST_INPUTS = 200


@dataclass(frozen=True)
class Recipe:
    """How to install one ecosystem's dependencies. `$SCROUT_ENV` is the folder that is kept and mounted later."""

    kind: Kind
    lines: tuple[str, ...]
    """Shell lines, run one by one at the repository's root. The first failure ends the build."""
    inputs: tuple[str, ...]
    """Files of the repository whose content is part of the cache key."""
    path: tuple[str, ...] = ()
    """Folders to put in front of PATH, in the build and later."""
    variables: tuple[tuple[str, str], ...] = ()
    """Variables, in the build and later."""
    later: tuple[tuple[str, str], ...] = ()
    """Variables after the build, where there is no network."""
    files: tuple[tuple[str, str], ...] = ()
    """Files to write into `$SCROUT_ENV` before the first line runs."""
    per_commit: bool = False
    """True: it compiles the repository's code, so each commit needs its own build."""

    @property
    def source(self) -> str:
        """The files that require it, in words."""
        named = ", ".join(self.inputs[:3]) + (", ..." if len(self.inputs) > 3 else "")
        return "environment.setup" if self.kind == "setup" else named

    @property
    def installs_python(self) -> bool:
        return f"{VENV}/bin" in self.path


def find_recipes(base: Base, setup: str = "") -> tuple[Recipe, ...]:
    """One recipe for each ecosystem of the repository, or only the user's setup command if there is one."""
    if setup.strip():
        return (_setup("setup", (setup.strip(),), ()),)
    found = [_python(base), _npm(base), _go(base), _cargo(base)]
    return tuple(recipe for recipe in found if recipe) or tuple(_devcontainer(base))


def _setup(kind: Kind, lines: tuple[str, ...], inputs: tuple[str, ...]) -> Recipe:
    recipe = Recipe(
        kind,
        lines,
        inputs,
        path=("$SCROUT_ENV/bin",),
        variables=(("npm_config_prefix", "$SCROUT_ENV"), *_CARGO, *_GO),
        # The files that the commands read are unknown.
        per_commit=True,
    )
    if not (find_program("python3") or find_program("python")):
        return recipe
    # Gives `pip install` a place to install to.
    return replace(
        recipe,
        lines=(*_PYTHON_VENV, *lines),
        path=(f"{VENV}/bin", *recipe.path),
        variables=(("VIRTUAL_ENV", VENV), *recipe.variables),
    )


def _devcontainer(base: Base) -> Iterator[Recipe]:
    for path in (".devcontainer/devcontainer.json", ".devcontainer.json"):
        text = _COMMENT.sub(lambda match: match[1] or "", _text(base, path))
        try:
            told = _table(json.loads(_TRAILING_COMMA.sub(lambda match: match[1] or match[2], text)))
        except (ValueError, RecursionError):
            continue
        stages = (told.get(name) for name in ("onCreateCommand", "updateContentCommand", "postCreateCommand"))
        lines = tuple(line for stage in stages for line in _devcontainer_lines(stage))
        if lines:
            yield _setup("devcontainer", lines, (path,))
            return


# Strings are matched first and kept, so that a comment sign in a string is left alone.
_STRING = r'("[^"\\]*+(?:\\.?[^"\\]*+)*(?:"|\Z))'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*+|/\*.*?(?:\*/|\Z)", re.S)
_TRAILING_COMMA = re.compile(rf"{_STRING}|,\s*+([\]}}])", re.S)


def _devcontainer_lines(stage: object) -> list[str]:
    if isinstance(stage, str):
        return [stage] if stage.strip() else []
    if isinstance(stage, list):
        return [shlex.join(_strings(stage))] if stage else []
    return [line for part in _table(stage).values() for line in _devcontainer_lines(part) if not isinstance(part, dict)]


# Python

_PYTHON_VENV = (f'python3 -m venv "{VENV}"',)
_TESTING = frozenset(("test", "tests", "testing", "dev", "devel", "develop", "development", "ci", "pytest"))
_REQUIREMENT_FILE = re.compile(
    r"""(requirements|reqs?)([-_.](dev|devel|develop|development|tests?|testing|ci))?\.txt
      | (dev|devel|develop|development|tests?|testing|ci)[-_.](requirements|reqs?)\.txt
      | requirements/(base|main|common|requirements|default|production|dev|develop|development|tests?|testing|ci)\.txt
      | tests?/requirements\.txt""",
    re.VERBOSE,
)
_INCLUDE = re.compile(r"^[^\S\n]*+(?:-r|--requirement|-c|--constraint)[\s=]*(\S+)", re.M)
_PLAIN_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_PLAIN_VERSION = re.compile(r"[0-9][A-Za-z0-9.!+_-]*")
_COMPILES = re.compile(
    r"ext_modules|Extension\(|cythonize|cffi_modules|[Cc]ython|mesonpy|scikit_build_core|maturin|setuptools.rust|pybind11"
)
_DESCRIBES = ("pyproject.toml", "setup.py", "setup.cfg")
_TEST_SETTINGS = ("pytest.ini", "conftest.py", "tests/conftest.py", "test/conftest.py")


@dataclass(frozen=True)
class PythonRequirements:
    """The Python requirements of one file."""

    path: str
    files: tuple[str, ...] = ()
    """Requirement files."""
    requirements: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()
    """Extras of the project itself."""
    for_tests: bool = True
    """False: only runtime dependencies, which say nothing about its tests."""


def _python(base: Base) -> Recipe | None:
    asked = [part for read in (_requirements, _pyproject, _setup_cfg, _setup_py) for part in read(base)]
    if not any(part.for_tests for part in asked):
        asked += [*_tox(base), *_nox(base)]
    installable, wants_pytest = _is_installable(base), _wants_pytest(base)
    if not (asked or wants_pytest) and (not installable or _runs_as_it_lies(base)):
        return None
    lock, pins = _lock(base)
    files = _unique(name for part in asked for name in part.files)
    named = _unique(
        (*lock, *files, *_included(base, files), *(part.path for part in asked), *_DESCRIBES, *_TEST_SETTINGS)
    )
    recipe = Recipe(
        "python",
        _PYTHON_VENV,
        tuple(name for name in named if base.read(name) is not None)[:MOST_INPUTS],
        path=(f"{VENV}/bin",),
        variables=(("VIRTUAL_ENV", VENV),),
        per_commit=any(_COMPILES.search(_text(base, name)) for name in _DESCRIBES),
    )
    if lock == ("uv.lock",) and find_program("uv"):
        return _uv(recipe, wants_pytest and "pytest" not in pins)
    pip = "python -m pip install" + (f' -c "$SCROUT_ENV/{_PINS}"' if pins else "")
    lines = list(_PYTHON_VENV)
    if files:
        lines.append(f"{pip} {' '.join(f'-r {shlex.quote(name)}' for name in files)}")
    # An option in place of a requirement could redirect pip.
    requirements = _unique(each for part in asked for each in part.requirements if not each.startswith("-"))
    if requirements:
        lines.append(f"{pip} {shlex.join(requirements)}")
    if installable:
        extras = ",".join(_unique(extra for part in asked for extra in part.extras if _PLAIN_NAME.fullmatch(extra)))
        lines.append(f"{pip} -e {shlex.quote(f'.[{extras}]') if extras else '.'}")
    if wants_pytest:
        lines.append(f"{pip} pytest")
    pinned = "".join(f"{name}=={version}\n" for name, version in sorted(pins.items()))
    return replace(recipe, lines=tuple(lines), files=((_PINS, pinned),) if pins else ())


_PINS = "constraints.txt"


def _uv(recipe: Recipe, add_pytest: bool) -> Recipe:
    lines = ("uv sync --frozen --all-extras --all-groups", *(("uv pip install pytest",) if add_pytest else ()))
    ours = (("UV_PROJECT_ENVIRONMENT", VENV), ("UV_PYTHON_DOWNLOADS", "never"), ("UV_LINK_MODE", "copy"))
    return replace(recipe, kind="uv", lines=(*_PYTHON_VENV, *lines), variables=(*recipe.variables, *ours))


def _is_installable(base: Base) -> bool:
    """Whether `pip install -e .` works; a [project] table alone often belongs to an application."""
    told = _toml(base, "pyproject.toml")
    poetry = _table(_table(told.get("tool")).get("poetry"))
    if poetry.get("package-mode") is False:
        return False
    return "build-system" in told or base.read("setup.py") is not None or "metadata" in _ini(base, "setup.cfg")


def _runs_as_it_lies(base: Base) -> bool:
    """Whether a package at the top declares no dependencies and compiles nothing, so that any Python can import it in
    place.
    """
    project = _table(_toml(base, "pyproject.toml").get("project"))
    name = str(project.get("name", "")).replace("-", "_")
    return (
        bool(name)
        and not project.get("dependencies")
        and "dependencies" not in _strings(project.get("dynamic"))
        and base.read("setup.py") is None
        and base.read(f"{name}/__init__.py") is not None
        and not any(_COMPILES.search(_text(base, file)) for file in _DESCRIBES)
    )


def _requirements(base: Base) -> Iterator[PythonRequirements]:
    for folder in ("", "requirements/", "tests/", "test/"):
        for name in _names(base, folder):
            if _REQUIREMENT_FILE.fullmatch(folder + name):
                for_tests = not _TESTING.isdisjoint(re.split(r"[-_./]", folder + name))
                yield PythonRequirements(folder + name, files=(folder + name,), for_tests=for_tests)


def _included(base: Base, files: Iterable[str]) -> list[str]:
    """Further requirement files that these files include."""
    seen = list(files)
    for path in seen:
        for name in _INCLUDE.findall(_text(base, path)):
            included = _normal(PurePosixPath(path).parent / name)
            if included not in seen and len(seen) < MOST_INPUTS:
                seen.append(included)
    return seen


def _pyproject(base: Base) -> Iterator[PythonRequirements]:
    told = _toml(base, "pyproject.toml")
    project, tool = _table(told.get("project")), _table(told.get("tool"))
    if not _is_installable(base):
        poetry = _poetry_requirements(_table(_table(tool.get("poetry")).get("dependencies")))
        needs = (*_strings(project.get("dependencies")), *poetry)
        if needs:
            yield PythonRequirements("pyproject.toml", requirements=needs, for_tests=False)
    extras = [*_table(project.get("optional-dependencies")), *_table(_table(tool.get("poetry")).get("extras"))]
    yield from _asked("pyproject.toml", (), (name for name in extras if name.lower() in _TESTING))
    yield from _asked("pyproject.toml", _groups(_table(told.get("dependency-groups"))))
    yield from _asked("pyproject.toml", _tool_requirements(tool))


def _groups(groups: Mapping[str, object]) -> Iterator[str]:
    """Requirements of test groups, and of the groups that they include."""
    queue = [name for name in groups if name.lower() in _TESTING]
    for name in queue:
        for each in _list(groups.get(name)):
            if isinstance(each, str):
                yield each
            included = _table(each).get("include-group")
            if isinstance(included, str) and included not in queue:
                queue.append(included)


def _tool_requirements(tool: Mapping[str, object]) -> Iterator[str]:
    """Development requirements of tools other than pip: poetry, uv, pdm, hatch."""
    poetry = _table(tool.get("poetry"))
    yield from _poetry_requirements(_table(poetry.get("dev-dependencies")))
    for name, group in _table(poetry.get("group")).items():
        if name.lower() in _TESTING:
            yield from _poetry_requirements(_table(_table(group).get("dependencies")))
    yield from _strings(_table(tool.get("uv")).get("dev-dependencies"))
    yield from _groups(_table(_table(tool.get("pdm")).get("dev-dependencies")))
    for name, environment in _table(_table(tool.get("hatch")).get("envs")).items():
        if name in ("default", "hatch-test") or name.lower() in _TESTING:
            for key in ("dependencies", "extra-dependencies"):
                yield from _strings(_table(environment).get(key))


def _poetry_requirements(dependencies: Mapping[str, object]) -> Iterator[str]:
    """Poetry's notation as pip's. Dependencies that are not in an index (git, path, url) are left out."""
    for name, told in dependencies.items():
        version = told if isinstance(told, str) else _table(told).get("version")
        if name.lower() == "python" or not isinstance(version, str):
            continue
        extras = ",".join(_strings(_table(told).get("extras")))
        bound = version.replace(" ", "")
        if bound.startswith(("^", "~")) and not bound.startswith("~="):
            bound = f">={bound[1:]}"
        elif bound[:1].isdigit():
            bound = f"=={bound}"
        yield f"{name}{f'[{extras}]' if extras else ''}{'' if bound in ('*', '==*') or '|' in bound else bound}"


def _setup_cfg(base: Base) -> Iterator[PythonRequirements]:
    yield from _asked("setup.cfg", (), _testing(_ini(base, "setup.cfg").get("options.extras_require", {})))


def _setup_py(base: Base) -> Iterator[PythonRequirements]:
    """Extras written out in setup.py, as a keyword or a variable."""
    for node in _walk(base, "setup.py"):
        if isinstance(node, ast.keyword):
            names = [node.arg or ""]
        elif isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        else:
            continue
        if isinstance(node.value, ast.Dict) and any("extra" in name.lower() for name in names):
            keys = (key.value for key in node.value.keys if isinstance(key, ast.Constant))
            yield from _asked("setup.py", (), _testing(key for key in keys if isinstance(key, str)))


def _tox(base: Base) -> Iterator[PythonRequirements]:
    """Dependencies and extras of [testenv]; conditional ones are taken without their condition."""
    testenv = _ini(base, "tox.ini").get("testenv", {})
    files, requirements = [], []
    for line in testenv.get("deps", "").splitlines():
        wanted = re.sub(r"^[\w{},!.-]+:\s+", "", line.strip()).replace("{toxinidir}/", "").replace("{tox_root}/", "")
        if not wanted or wanted.startswith("#") or "{" in wanted:
            continue
        option = re.fullmatch(r"(?:-r|--requirement)[\s=]*(\S+)", wanted)
        if option:
            files.append(_normal(PurePosixPath(option[1])))
        else:
            requirements.append(wanted.split(" #")[0].strip())
    extras = tuple(testenv.get("extras", "").replace(",", " ").split())
    if files or requirements or extras:
        yield PythonRequirements("tox.ini", tuple(files), tuple(requirements), extras)


def _nox(base: Base) -> Iterator[PythonRequirements]:
    """Packages that sessions with `test` in their name install, if they are written out."""
    files, requirements, extras = [], [], []
    for function in _walk(base, "noxfile.py"):
        if not isinstance(function, ast.FunctionDef) or "test" not in function.name:
            continue
        for call in ast.walk(function):
            if not (isinstance(call, ast.Call) and ast.unparse(call.func) == "session.install"):
                continue
            words = [argument.value if isinstance(argument, ast.Constant) else None for argument in call.args]
            for before, word in zip([None, *words], words, strict=False):
                if not isinstance(word, str) or word.startswith("-"):
                    continue
                if before in ("-r", "--requirement"):
                    files.append(_normal(PurePosixPath(word)))
                elif word.startswith("."):
                    extras += re.findall(r"[\w-]+", word.partition("[")[2])
                elif before not in ("-c", "--constraint"):
                    requirements.append(word)
    if files or requirements or extras:
        yield PythonRequirements("noxfile.py", tuple(files), tuple(requirements), tuple(extras))


def _wants_pytest(base: Base) -> bool:
    if any(base.read(name) is not None for name in _TEST_SETTINGS):
        return True
    pyproject = _table(_toml(base, "pyproject.toml").get("tool"))
    return "pytest" in pyproject or "tool:pytest" in _ini(base, "setup.cfg") or "pytest" in _text(base, "tox.ini")


def _lock(base: Base) -> tuple[tuple[str, ...], dict[str, str]]:
    """The lock file, and its pinned packages of an index."""
    for name in ("uv.lock", "poetry.lock"):
        versions: dict[str, set[str]] = {}
        for package in map(_table, _list(_toml(base, name).get("package"))):
            source = _table(package.get("source"))
            from_index = "registry" in source or not source or source.get("type") == "legacy"
            called, version = str(package.get("name")), str(package.get("version"))
            if from_index and _PLAIN_NAME.fullmatch(called) and _PLAIN_VERSION.fullmatch(version):
                versions.setdefault(called, set()).add(version)
        if versions:
            return (name,), {called: found.pop() for called, found in versions.items() if len(found) == 1}
    return (), {}


def _asked(path: str, requirements: Iterable[str], extras: Iterable[str] = ()) -> Iterator[PythonRequirements]:
    asked = PythonRequirements(path, (), tuple(requirements), tuple(extras))
    if asked.requirements or asked.extras:
        yield asked


def _testing(names: Iterable[str]) -> list[str]:
    return [name for name in names if name.lower() in _TESTING]


# Node, Go, Rust

_GO = (("GOMODCACHE", "$SCROUT_ENV/gomod"), ("GOFLAGS", "-mod=mod"), ("GOTOOLCHAIN", "local"))
_CARGO = (("CARGO_HOME", "$SCROUT_ENV/cargo"),)


def _npm(base: Base) -> Recipe | None:
    try:
        told = _table(json.loads(_text(base, "package.json") or "{}"))
    except (ValueError, RecursionError):
        return None
    if not any(_table(told.get(key)) for key in ("dependencies", "devDependencies", "optionalDependencies")):
        return None
    locks = [name for name in ("package-lock.json", "npm-shrinkwrap.json") if base.read(name) is not None]
    quiet = "--ignore-scripts --no-audit --no-fund"
    line = f"npm ci {quiet}" if locks else f"npm install {quiet} --no-package-lock"
    return Recipe("npm", (line,), ("package.json", *locks))


def _go(base: Base) -> Recipe | None:
    if not re.search(r"^require\b", _text(base, "go.mod"), re.M) or base.read("vendor/modules.txt") is not None:
        return None
    return Recipe("go", ("go mod download",), ("go.mod", "go.sum"), variables=_GO, later=(("GOPROXY", "off"),))


def _cargo(base: Base) -> Recipe | None:
    text = _text(base, "Cargo.toml")
    if not re.search(r"^\[.*(dependencies|workspace)", text, re.M):
        return None
    locked = base.read("Cargo.lock") is not None
    inputs = ("Cargo.toml", "Cargo.lock") if locked else ("Cargo.toml",)
    line = "cargo fetch --locked" if locked else "cargo fetch"
    return Recipe("cargo", (line,), inputs, variables=_CARGO, later=(("CARGO_NET_OFFLINE", "true"),))


def _text(base: Base, path: str) -> str:
    """Empty if there is no such file."""
    return (base.read(path) or b"").decode("utf-8", errors="replace")


def _names(base: Base, folder: str) -> list[str]:
    place = base.tree / folder
    if place.is_symlink() or not place.is_dir():
        return []
    return sorted(entry.name for entry in place.iterdir())


def _toml(base: Base, path: str) -> Mapping[str, object]:
    try:
        return read_toml(_text(base, path))
    except ValueError:
        return {}


def _ini(base: Base, path: str) -> dict[str, dict[str, str]]:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(_text(base, path))
    except configparser.Error:
        return {}
    return {name: dict(parser[name]) for name in parser.sections()}


def _walk(base: Base, path: str) -> Iterator[ast.AST]:
    try:
        tree = parse_python(_text(base, path))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    yield from ast.walk(tree)


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _strings(value: object) -> list[str]:
    return [each for each in _list(value) if isinstance(each, str)]


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _normal(path: PurePosixPath) -> str:
    """The path without `..`; a path that leaves the repository reads as no file."""
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)
