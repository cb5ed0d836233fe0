"""Shared code for model folders: digest of the weights, tokenizer, and missing packages."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from scrout.base import RouteError


def digest(files: Iterable[Path]) -> str:
    """Digest of the files' content, independent of their names.

    For one file, it is the sha256 that model pages show.
    """
    found = sorted(_digest(file) for file in files)
    return found[0] if len(found) == 1 else hashlib.sha256("".join(found).encode()).hexdigest()


def _digest(file: Path) -> str:
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise RouteError(f"{file}: {error.strerror}. Get the model's files again.") from None


def missing(names: Iterable[str]) -> list[str]:
    """The packages that are not installed. A folder of that name, as at a repository's top, does not count."""
    specs = {name: find_spec(name) for name in names}
    return [name for name, spec in specs.items() if spec is None or spec.origin is None]


def open_tokenizer(path: Path, max_tokens: int) -> Any:
    """Open a tokenizer.json that truncates to this many tokens, special ones included, without padding."""
    package = importlib.import_module("tokenizers")
    try:
        tokenizer = package.Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except Exception as error:  # the package raises plain Exception
        raise RouteError(f"{path} is not a readable tokenizer: {error}. Get the model's files again.") from None
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    return tokenizer


def tokens_of(tokenizer: Any, text: str) -> list[int]:
    """The text's token numbers; empty if only special tokens remain."""
    # Command output may contain lone surrogates, which the package refuses.
    encoding = tokenizer.encode(text.encode("utf-8", "replace").decode("utf-8"))
    ids: list[int] = encoding.ids
    return [] if all(encoding.special_tokens_mask) else ids
