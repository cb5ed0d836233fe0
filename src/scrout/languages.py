"""The language of files, by their suffixes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import PurePosixPath

_ENDINGS = {
    "Python": (".py", ".pyi", ".pyx"),
    "JavaScript": (".js", ".jsx", ".mjs", ".cjs"),
    "TypeScript": (".ts", ".tsx", ".mts", ".cts"),
    "Java": (".java",),
    "Go": (".go",),
    "Rust": (".rs",),
    "Ruby": (".rb", ".rake", ".gemspec"),
    "PHP": (".php",),
    "C": (".c",),
    "C++": (".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx"),
    "C#": (".cs",),
}
_LANGUAGES = {ending: language for language, endings in _ENDINGS.items() for ending in endings}


def language_of(paths: Iterable[str]) -> str:
    """The language of most of these files; empty if none is known."""
    found = Counter(_LANGUAGES.get(PurePosixPath(path).suffix.lower(), "") for path in paths)
    found.pop("", None)
    return found.most_common(1)[0][0] if found else ""
