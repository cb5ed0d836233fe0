"""The searcher's own tools beside shell and editor: `search` and `outline`, answered from recon's index.

The index is of the base commit: what the searcher writes is not in it.
"""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Callable, Collection
from pathlib import Path

from pydantic import JsonValue

from scrout.agent.dialect import Toolbox, ToolUse
from scrout.agent.tools import BadCall, text_argument
from scrout.base import TaskError
from scrout.index.repository import File, Repository, read_repository
from scrout.models.chat import Tool
from scrout.sandbox.workspace import Base
from scrout.scout.recon.search import Ranked, search
from scrout.text import clip

MOST_FOUND = 10
MOST_DEFINITIONS = 150
MAX_QUERY_CHARS = 4_000
MAX_WHY_CHARS = 160


def _parameters(name: str, description: str) -> dict[str, JsonValue]:
    return {
        "type": "object",
        "properties": {name: {"type": "string", "description": description}},
        "required": [name],
        "additionalProperties": False,
    }


SEARCH = Tool(
    name="search",
    description=(
        "Rank the repository's files for a text: a question, an error message, names, or a sentence of the report. "
        "Returns the ten best with the lines that fit and why."
    ),
    parameters=_parameters("query", "What to look for, in words or names."),
)
OUTLINE = Tool(
    name="outline",
    description="List what a file defines (classes, functions, constants) with first and last lines.",
    parameters=_parameters("path", "The file, relative to the repository's root."),
)


class Index:
    """The toolbox of a repository's index, which is read when it is first asked."""

    tools: tuple[Tool, ...] = (SEARCH, OUTLINE)

    def __init__(self, base: Base, subtree: str = "", progress: Callable[[str], None] = lambda words: None) -> None:
        self.base = base
        self._subtree = subtree
        self._progress = progress
        self._repository: Repository | None = None

    async def use(self, call: ToolUse) -> str:
        try:
            if call.name == SEARCH.name:
                return await asyncio.to_thread(self.search, _wanted(call, "query")[:MAX_QUERY_CHARS])
            return await asyncio.to_thread(self.outline, _wanted(call, "path"))
        except TaskError as error:  # the model can go on without it
            raise BadCall(f"The index cannot be read: {error}") from None

    def search(self, query: str) -> str:
        """The best files for a text, a line each."""
        found = search(query, self._read()).ranked[:MOST_FOUND]
        return "\n".join(map(_line, found)) or "The repository holds no file that can be read."

    def shortlist(self, issue: str) -> str:
        """The files that an issue points at, a line each; empty: nothing in it points at any."""
        found = search(issue, self._read()).ranked[:MOST_FOUND]
        return "\n".join(_line(file) for file in found if file.clues)

    def outline(self, path: str) -> str:
        """What a file defines, a line each."""
        repository = self._read()
        found = _meant(path, self.base.repo, repository)
        if len(found) != 1:
            near = f" It may be one of {', '.join(found[:5])}." if found else ""
            raise BadCall(f"The index has no file {path[:200]!r}.{near}")
        file = repository.files[found[0]]
        lines = [f"{file.path}, {file.lines} lines", *_definitions(file)]
        return "\n".join(lines) if len(lines) > 1 else f"{lines[0]}: the index knows no definition in it."

    def _read(self) -> Repository:
        if self._repository is None:
            self._repository = read_repository(self.base.tree / ".git", self.base.commit, self._subtree, self._progress)
        return self._repository


class SelectedTools:
    """Of another toolbox the tools that are wanted."""

    def __init__(self, inner: Toolbox, wanted: Collection[str]) -> None:
        self.tools = tuple(tool for tool in inner.tools if tool.name in wanted)
        self._inner = inner

    async def use(self, call: ToolUse) -> str:
        return await self._inner.use(call)


def _wanted(call: ToolUse, name: str) -> str:
    text = text_argument(call, name)
    if not text.strip():
        raise BadCall(f"`{name}` is empty.")
    return text


def _line(file: Ranked) -> str:
    spans = ",".join(f"{first}-{last}" if first != last else str(first) for first, last in file.regions)
    why = "; ".join(dict.fromkeys(clue.words for clue in file.clues[:2]))
    return f"{file.path}{':' if spans else ''}{spans}" + (f"  {clip(why, MAX_WHY_CHARS)}" if why else "")


def _meant(named: str, root: Path, repository: Repository) -> list[str]:
    path = posixpath.normpath(named.strip().removeprefix(f"{root}/"))
    return [path] if path in repository.files else repository.find(path)


def _definitions(file: File) -> list[str]:
    lines = [f"{own.first}-{own.last} {own.kind} {own.name}" for own in file.definitions[:MOST_DEFINITIONS]]
    more = len(file.definitions) - len(lines)
    return [*lines, f"and {more} more"] if more > 0 else lines
