"""The repositories that nothing is ever trained on, since results are measured on them, and the gate that says so.

The gate goes by names: it knows the ways in which a repository is written down, its former names, forks under any
owner and named as such, and clones on disk by their folder and remotes. It does not read code, so a copy under a name
of its own and without its remotes passes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote

from scrout.base import TaskError

BLOCKED = frozenset(
    (
        "ansible/ansible",
        "astropy/astropy",
        "django/django",
        "element-hq/element-web",
        "flipt-io/flipt",
        "future-architect/vuls",
        "gravitational/teleport",
        "internetarchive/openlibrary",
        "matplotlib/matplotlib",
        "mwaskom/seaborn",
        "navidrome/navidrome",
        "nodebb/nodebb",
        "pallets/flask",
        "protonmail/webclients",
        "psf/requests",
        "pydata/xarray",
        "pylint-dev/pylint",
        "pytest-dev/pytest",
        "qutebrowser/qutebrowser",
        "scikit-learn/scikit-learn",
        "sphinx-doc/sphinx",
        "sympy/sympy",
        "tutao/tutanota",
    )
)
"""In lower case, as owner/name."""

# A change of owner alone needs no entry: a blocked name is refused under every owner.
_FORMER = {
    "ansible/ansible-base": "ansible/ansible",
    "ansible/ansible-core": "ansible/ansible",
    "element-hq/matrix-react-sdk": "element-hq/element-web",
    "matrix-org/matrix-react-sdk": "element-hq/element-web",
    "vector-im/riot-web": "element-hq/element-web",
    "vector-im/vector-web": "element-hq/element-web",
    "hpk42/py.test": "pytest-dev/pytest",
    "pytest-dev/py.test": "pytest-dev/pytest",
    "protonmail/proton-mail": "protonmail/webclients",
    "protonmail/webclient": "protonmail/webclients",
    "pydata/xray": "pydata/xarray",
    "xray/xray": "pydata/xarray",
}
_COPY = frozenset(("backup", "clone", "copy", "final", "fork", "forked", "mirror", "mirrored", "my", "upstream"))
"""Words that a name has besides the repository's own where it is one more of the same."""
_BY_NAME = {blocked.partition("/")[2]: blocked for blocked in BLOCKED}

_ADDRESS = re.compile(r"(?:[\w.+-]+://(?:[^/@]*@)?[^/]+/|[^/\s@]+@[^/:\s]+:|(?:www\.)?(?:github|gitlab)\.com[/:])(.+)")
_SERIAL = re.compile(r"(-\d+|-[0-9a-f]{40}.*|@[0-9a-f]{6,})$", re.S)
_ROW_TAIL = re.compile(
    r"[-._@:#](?=\d|[0-9a-f]{7,40}\b|(?:pr|pull|run|attempt|issue|trial|task|sample|traj|v\d)(?![a-z]))"
)
_IMAGE = re.compile(
    r"(?:.*/)?(?:sweb\.eval|swesmith|sweap-images|sweb)[.:](?:(?:x86_64|arm64|aarch64)\.)?(?P<row>.+)", re.S
)
"""A container's image that is named for the row of a data set."""
_IMAGE_JOINS = re.compile(r"_(?:1776|s)_")
"""What stands between owner and name there, where two underscores are not allowed."""
_PART = re.compile(r"[\w.-]+")
_REMOTE = re.compile(r"^[^\S\n]*+(?:push)?url\s*+=\s*+(\S+)", re.MULTILINE | re.IGNORECASE)


def refuse_blocked(repos: Iterable[str]) -> None:
    """Raise a TaskError that names every row which is, or comes from, a blocked repository.

    A row is a repository as owner/name, `owner__name`, `owner+name` or a bare name, an address, the id of a benchmark
    task, or the path of a folder.
    """
    found = [f"{repo!r} ({blocked})" for repo in repos if (blocked := blocked_by(repo))]
    if found:
        raise TaskError(
            f"these rows come from repositories that nothing is trained on: {', '.join(found)}. "
            "Remove them; benchmarks are for measuring only."
        )


def blocked_by(repo: str) -> str | None:
    """The blocked repository that a row stands for; None: it may be trained on."""
    return next(filter(None, map(_by_name, _names(repo.strip()))), None)


def blocked_in(name: str) -> str | None:
    """The same for whatever a data set calls one of its rows: attempts, runs and mutations are named behind the issue.

    It blocks rather too much: a name that a repository shares with a blocked one is enough, under any owner. No folder
    is looked at: a row's name is data, whatever it looks like.
    """
    name = name.strip().lower()
    if image := _IMAGE.fullmatch(name):
        name = _IMAGE_JOINS.sub("__", image["row"])
    address = _ADDRESS.match(name)
    names = [_in_address(address)] if address else [name]
    parts = [part for part in re.split(r"__|[/+\s]", name) if part]
    # The first of several is an owner, or the data set's own.
    names += (_ROW_TAIL.split(part, maxsplit=1)[0] for part in parts[1:] or parts)
    return next(filter(None, map(_by_name, names)), None)


def _names(repo: str) -> Iterator[str]:
    address = _ADDRESS.match(repo)
    if address:
        yield _in_address(address)
        return
    folder = Path(repo).expanduser()
    if repo.startswith(("/", ".", "~")) or repo.count("/") > 1 or folder.is_dir():
        yield from _folder_names(folder)
    if repo.count("/") <= 1:
        yield repo


def _in_address(address: re.Match[str]) -> str:
    return "/".join(unquote(address[1]).strip("/").split("/")[:2])


def _folder_names(folder: Path) -> Iterator[str]:
    """What a folder may be a clone of: it, the repository around it, and the repositories right inside."""
    folder = folder.resolve()
    clones = [at for at in (folder, *folder.parents) if _is_clone(at)][:1]
    if folder.is_dir():
        clones += [at for at in folder.iterdir() if at.is_dir() and _is_clone(at)]
    for at in (folder, *clones):
        yield at.name
        if at.name in ("repo", ".git"):
            yield at.parent.name
        for config in (at / "config", at / ".git" / "config"):
            if config.is_file():
                for url in _REMOTE.findall(config.read_text(encoding="utf-8", errors="replace")):
                    # A remote that is a folder goes by its own names; its remotes were its own affair.
                    yield from _names(url) if _ADDRESS.match(url) else Path(url).parts[-2:]
    yield from (part for part in folder.parts if _pair(part))


def _pair(name: str) -> tuple[str, str] | None:
    """Owner and name, with `/`, `+` or else `__` between them; None: it is something else."""
    for form in dict.fromkeys((name.removeprefix("instance_"), name)):
        at = max(form.rfind("/"), form.rfind("+"))
        owner, bare = (form[:at], form[at + 1 :]) if at >= 0 else _halves(form)
        if _PART.fullmatch(owner) and _PART.fullmatch(bare):
            return owner, bare
    return None


def _halves(form: str) -> tuple[str, str]:
    owner, _, bare = form[1:].partition("__")
    return form[:1] + owner, bare


def _is_clone(folder: Path) -> bool:
    return (folder / ".git").exists() or ((folder / "HEAD").is_file() and (folder / "objects").is_dir())


def _by_name(name: str) -> str | None:
    name = name.strip().strip("/").lower()
    for form in (name, _SERIAL.sub("", name)):
        form = form.removesuffix(".git")
        owner, bare = _pair(form) or ("", form)
        plain = "-".join(word for word in re.split(r"[-_]", bare) if word not in _COPY)
        blocked = _BY_NAME.get(bare) or _BY_NAME.get(plain) or _FORMER.get(f"{owner}/{bare}")
        if blocked:
            return blocked
    return None
