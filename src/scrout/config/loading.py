"""Loads settings from scrout.toml and `-c key=value`, and decides which keys of a repository's file to trust."""

from __future__ import annotations

import contextlib
import hashlib
import os
import posixpath
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from scrout.base import ConfigError
from scrout.config.folders import FILE_NAME, data_folder, user_file
from scrout.config.settings import FIXERS, Caller, Fixer, Settings
from scrout.files import read_beneath, read_toml
from scrout.money import Price

_MOST_BYTES = 1_000_000
_MAY_LOWER = (
    *(f"sandbox.{name}" for name in ("timeout_s", "memory_mb", "total_memory_mb", "processes", "file_mb", "disk_mb")),
    *("sandbox.repo_paths", "sandbox.repo_mb", "gate.timeout_s", "repair.max_candidates", "repair.max_seconds"),
    *("scout.max_files", "scout.reproduce"),
)
"""Keys that an untrusted file of a repository may set, as long as it only tightens the user's values."""
_PATHS = (
    *(
        "fix.prices",
        "fix.model_list",
        "route.resumes",
        "route.embedder.checkpoint",
        "route.embedder.path",
        "ledger.path",
    ),
    *("scout.model.prompts", "scout.model.tokenizer", "scout.model.checkpoint"),
)
"""Settings that name host files and folders. Relative paths start at the folder of the settings file."""
_MOST_TOLD = 20
"""Maximum number of problems to report per file."""
_MOST_NAMED_FILES = 10_000
_MOST_NAMED_BYTES = 200_000_000


def load(path: Path | None, overrides: Iterable[str] = ()) -> Settings:
    """Load settings from a file (None: the defaults) and `key=value` overrides, later ones winning."""
    return _settings(_read(path) if path else {}, overrides, str(path or "-c"))


def _read(path: Path) -> dict[str, Any]:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}. Write one with `scrout init`.") from None
    return _beside(_table(raw, path), path.parent)


def _table(raw: bytes, path: Path) -> dict[str, Any]:
    try:
        return read_toml(raw.decode())
    except ValueError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None


def _settings(table: dict[str, Any], overrides: Iterable[str], source: str) -> Settings:
    for override in overrides:
        set_key(table, override)
    try:
        return Settings.model_validate(table)
    except ValidationError as error:
        raise ConfigError(f"{source}: {_explain(error, table)}") from None


def _beside(table: Mapping[str, Any], folder: Path, above: str = "") -> dict[str, Any]:
    """The same table, with relative file names resolved against the settings file's folder."""

    def placed(key: str, value: Any) -> Any:
        if isinstance(value, dict):
            return _beside(value, folder, f"{key}.")
        is_path = key in _PATHS and isinstance(value, str) and value
        return _placed(value, folder) if is_path else value

    if not above and isinstance(fixers := table.get("fixers"), list):
        table = {**table, "fixers": [_files_beside(fixer, folder) for fixer in fixers]}
    return {key: placed(above + key, value) for key, value in table.items()}


def _placed(name: str, folder: Path) -> str:
    with contextlib.suppress(RuntimeError):  # it starts with the home folder of an unknown user
        if "\0" not in name:
            return str(folder.absolute() / Path(name).expanduser())
    raise ConfigError(f"{name[:200]!r} is no path on this machine. Write a whole one.")


def _files_beside(fixer: Any, folder: Path) -> Any:
    """A fixer whose relative program or model path is resolved against the settings file's folder, not the current
    one.
    """
    match fixer:
        case {"model_file": str(model)} if model:
            fixer = {**fixer, "model_file": _placed(model, folder)}
    match fixer:
        case {"command": [str(program), *arguments]} if "/" in program and not program.startswith(("/", "{")):
            fixer = {**fixer, "command": [_placed(program, folder), *arguments]}
    return fixer


def discover(repo: Path, overrides: Iterable[str] = ()) -> Settings:
    """The settings for a repository: the user's, overridden by the repository's own scrout.toml.

    The repository's file may come with a clone, and could send the user's key to an endpoint or run a program. Until
    the user trusts it, it may only tighten settings.
    """
    users, own = user_file(), repo / FILE_NAME
    table = _read(users) if users.is_file() else {}
    if not os.path.lexists(own):
        return _settings(table, overrides, str(users) if table else "-c")
    raw = _read_own(own)
    given = _table(raw, own)
    _settings(_table(raw, own), (), str(own))
    if not _mark(own, raw).exists():
        limits = _settings(_layered(table, {}), (), str(users))
        for key, value in _flat(given):
            _must_tighten(key, value, limits, own)
    return _settings(_layered(table, _beside(given, repo)), overrides, f"{own} over {users}" if table else str(own))


def _layered(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Two tables merged key by key; lists are not merged."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = _layered(old, value) if isinstance(value, dict) and isinstance(old, dict) else value
    return merged


def trust(path: Path) -> tuple[str, ...]:
    """Trust a repository's scrout.toml at this path and with this content; returns the keys that it sets.

    The files in the repository that it names must stay the same too.
    """
    raw = _read_own(path)
    table = _table(raw, path)
    _settings(_table(raw, path), (), str(path))
    mark = _mark(path, raw)
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.write_text(f"{path}\n")
    return tuple(key for key, _ in _flat(table))


def distrust(path: Path) -> bool:
    """Stop trusting it; False: it was not trusted."""
    mark = _mark(path, _read_own(path))
    trusted = mark.exists()
    mark.unlink(missing_ok=True)
    return trusted


def _read_own(path: Path) -> bytes:
    raw = read_beneath(path.parent, path.name, _MOST_BYTES)
    if raw is None:
        raise ConfigError(f"{path} is no regular file of at most {_MOST_BYTES:,} bytes. Pass a file with --config.")
    return raw


def _mark(path: Path, raw: bytes) -> Path:
    """The marker file of trust. Its name depends on the path and the content, also of the files that it names."""
    told = os.fsencode(path.parent.resolve() / path.name) + b"\0" + raw
    named = "".join(_named_digests(_table(raw, path), path))
    return data_folder() / "trusted" / hashlib.sha256(told + named.encode()).hexdigest()


def _named_digests(table: Mapping[str, Any], source: Path) -> Iterator[str]:
    """Digests of the files in the repository that its scrout.toml names, because a pull can change them.

    Other files are the user's.
    """
    top = source.parent.resolve()
    settings = ((key, value) for key, value in _flat(_beside(table, top)) if key in _PATHS)
    # A program can spend the caller's money; most words of a command are not files.
    commands = _words_of(_beside(table, top), "command")
    words = ((key, str(top / word)) for key, word in commands if _is_no_folder(top / word))
    # Programs given by a path are not looked up on PATH.
    places = (*_words_of(table, "mounts"), *_words_of(_beside(table, top), "model_file"))
    digests = _Digests(top)
    for key, value in (*settings, *words, *places):
        if not isinstance(value, str) or not value:
            continue
        # Both, because after a link `..` leads elsewhere than the text says.
        path, real = Path(os.path.normpath(value)), Path(os.path.realpath(value))
        if not any(each.is_relative_to(top) for each in (path, real)):
            continue
        digest = digests.of(path) if path == real and key != "ledger.path" else None
        if digest is None:
            raise ConfigError(
                f"{source}: {key} is {path}, which cannot be trusted: it is the ledger, a symlink, or too large. "
                f"Name a path outside of the repository, or pass the settings with --config."
            )
        yield f"\0{key}\0{digest}"


def _is_no_folder(path: Path) -> bool:
    # Not Path.is_dir, which raises for a name that is too long.
    return os.path.lexists(path) and (path.is_symlink() or not os.path.isdir(path))  # noqa: PTH112


def _words_of(table: Mapping[str, Any], name: str) -> Iterator[tuple[str, str]]:
    """Each once: a megabyte of one word would be looked for on the disk for a minute."""
    fixers = table.get("fixers")
    given = [fixer.get(name) for fixer in fixers if isinstance(fixer, dict)] if isinstance(fixers, list) else []
    words = (word for listed in given for word in (listed if isinstance(listed, list) else [listed]))
    for word in dict.fromkeys(word for word in words if isinstance(word, str) and "\0" not in word):
        yield f"fixers.{name}", word


class _Digests:
    """Digests of files and folders in a repository, each read once, with one limit for all of them."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self._left_files, self._left_bytes = _MOST_NAMED_FILES, _MOST_NAMED_BYTES
        self._known: dict[Path, str | None] = {}

    def of(self, path: Path) -> str | None:
        """The digest of a file, or of all files in a folder; None: there is a symlink, or too much data."""
        if path not in self._known:
            self._known[path] = self._read(path)
        return self._known[path]

    def _read(self, path: Path) -> str | None:
        found = hashlib.sha256()
        files = sorted(islice(_files_at(path), self._left_files + 1))
        self._left_files -= len(files)
        if self._left_files < 0:
            return None
        for file in files:
            name = str(file.relative_to(self.top))
            content = read_beneath(self.top, name, self._left_bytes)
            if content is None:
                return None
            self._left_bytes -= len(content)
            found.update(f"{name}\0{len(content)}\0".encode("utf-8", "surrogateescape") + content)
        return found.hexdigest()


def _files_at(path: Path) -> Iterator[Path]:
    """The file, or all entries of the folder, symlinks included; empty: it does not exist."""
    # Not Path's own methods, which raise for a name that is too long.
    if os.path.isdir(path) and not os.path.islink(path):  # noqa: PTH112, PTH114
        for folder, folders, names in os.walk(path):
            yield from (Path(folder, name) for name in names)
            yield from (link for name in folders if (link := Path(folder, name)).is_symlink())
    elif os.path.lexists(path):
        yield path


def _flat(table: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Every key with its table names, and its value."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield above + key, value


def _must_tighten(key: str, value: object, users: Settings, source: Path) -> None:
    """Raise a ConfigError unless the file names no program, place or key, and loosens none of the user's settings."""
    section, _, name = key.partition(".")
    limit = getattr(getattr(users, section, None), name, None)
    if key in _MAY_LOWER:
        tightens, problem = _is_number(value) and value <= limit, f"raises {key} above {limit}"  # type: ignore[operator]
    elif key == "gate.runs":
        tightens, problem = _is_number(value) and value >= limit, f"lowers {key} below {limit}"  # type: ignore[operator]
    elif key == "scout.subtree":
        folder = posixpath.normpath(str(value))
        tightens = not limit or folder == limit or folder.startswith(f"{limit}/")
        problem = f"sets {key} to a folder outside of {limit!r}"
    else:
        # A seed is neither tighter nor looser.
        tightens, problem = key == "repair.seed", f"sets {key}"
    if not tightens:
        raise ConfigError(
            f"{source} may have come with the repository, and it {problem}. Look at the file; if you trust it as it "
            f"is, run `scrout trust --repo {source.parent}`, or pass it with --config."
        )


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float))


def set_key(table: dict[str, Any], override: str, *, option: str = "-c", example: str = "route.theta=0.4") -> None:
    """Apply `key=value` to a table; the value is parsed as TOML, and is a string if that fails."""
    key, equals, raw = override.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"{option} {override!r}: write key=value, for example {option} {example}")
    try:
        value = tomllib.loads(f"value = {raw}")["value"]
    except tomllib.TOMLDecodeError:
        value = raw  # an unquoted word is a string
    *parents, last = (part.strip() for part in key.split("."))
    for parent in parents:
        child = table.setdefault(parent, {})
        if not isinstance(child, dict):
            raise ConfigError(f"{option} {override!r}: {parent!r} is not a table; set it in a file")
        table = child
    table[last] = value


def _known_beside(place: tuple[int | str, ...], given: Mapping[str, Any]) -> list[str]:
    """The known keys of the table with the unknown key."""
    if place[0] == "fixers" and len(place) > 1:
        kind = given["fixers"][place[1]].get("kind")
        known = FIXERS.get(kind) if kind in FIXERS.names() else Fixer
        return list(Price.model_fields if "price" in place else known.model_fields)
    if place[:2] == ("api", "callers") and len(place) > 2:
        return list(Caller.model_fields)
    table: type[BaseModel] = Settings
    for part in place[:-1]:
        field = table.model_fields.get(str(part))
        if field is not None and isinstance(field.default, BaseModel):
            table = type(field.default)
        elif part == "price":
            table = Price
    return list(table.model_fields)


def _explain(error: ValidationError, given: Mapping[str, Any]) -> str:
    lines = []
    for problem in error.errors(include_url=False)[:_MOST_TOLD]:
        key = ".".join(str(part) for part in problem["loc"]) or "settings"
        if problem["type"] == "extra_forbidden":
            lines.append(f"unknown key `{key}`; known here: {', '.join(_known_beside(problem['loc'], given))}")
        elif problem["type"] == "literal_error":
            lines.append(f"`{key}` is {problem['input']!r}; it may be {problem['ctx']['expected']}")
        else:
            lines.append(f"`{key}`: {problem['msg'].removeprefix('Value error, ')}")
    return "; ".join(lines)
