"""A trajectory as the corpus sees it, whatever agent left it: an issue, steps in our tools' words, a patch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import JsonValue

from scrout import __version__
from scrout.agent.dialect import ToolUse
from scrout.base import FrozenModel

LAYOUT = "scrout"
ROOT = "/testbed"
"""What the repository's folder is called in an episode. The sandbox shows it there too."""
_OWNER = re.compile(r"[\w.-]+")
_NAME = re.compile(r"([\w.-]+?)(?:-(\d+)(?:_\d+)?|\.[0-9a-f]{8}\..+|-[0-9a-f]{40}.*)?", re.S)
_TEST = re.compile(r"(^|/)(tests?|testing|spec|__tests__)/|(^|/)(test_[^/]*|[^/]*[_.](test|spec)s?\.\w+|conftest\.py)$")


@dataclass(frozen=True)
class AgentStep:
    """One turn of the agent and what came of it."""

    thought: str
    call: ToolUse
    """By the names and arguments of our own tools."""
    observation: str
    answered: bool = True
    """False: the document has no result of the call, so that what the agent saw is unknown."""


@dataclass(frozen=True)
class AgentTrajectory:
    """One attempt at one issue."""

    issue_id: str
    """Attempts at the same issue share it."""
    repository: str
    """owner/name, if the id names it."""
    names: tuple[str, ...]
    """Whatever its document calls it and its repository."""
    issue: str
    root: str
    """Where the agent saw the repository; empty: unknown."""
    steps: tuple[AgentStep, ...]
    patch: str
    resolved: bool | None
    """None: unknown."""
    layout: str
    where: str
    """File and row."""
    gold: tuple[str, ...] = ()
    """Files of the true fix, if the document names them."""


class ToolStep(FrozenModel):
    thought: str
    tool: str
    arguments: dict[str, JsonValue]
    observation: str


class FixAnswer(FrozenModel):
    files: tuple[str, ...]
    """That were there before."""
    patch: str


class DistilledEpisode(FrozenModel):
    """One episode of recon's: a line of what `scrout train distill` writes."""

    layout: str = LAYOUT
    scrout: str = __version__
    issue_id: str
    repository: str
    base_commit: str
    issue: str
    root: str = ROOT
    steps: tuple[ToolStep, ...]
    gold: FixAnswer


def issue_of(instance_id: str) -> tuple[str, str]:
    """The issue's own id, without the number of an attempt, and its repository as owner/name; empty: it tells none."""
    instance_id = instance_id.strip()
    for form in dict.fromkeys((instance_id.removeprefix("instance_"), instance_id)):
        owner, _, rest = form[1:].partition("__")
        owner = form[:1] + owner
        if _OWNER.fullmatch(owner) and (found := _NAME.fullmatch(rest)):
            name, number = found.groups()
            return f"{owner}__{name}-{number}" if number else instance_id, f"{owner}/{name}"
    return instance_id, ""


def changed_files(patch: str) -> tuple[str, ...]:
    """Files that a patch changes and that were there before, tests left out."""
    found = (path for path, head in _files(patch) if not any("new file mode" in line for line in head))
    return tuple(dict.fromkeys(path for path in found if not _TEST.search(path)))


def _files(patch: str) -> Iterator[tuple[str, list[str]]]:
    """Each file that keeps its name, with the lines between its name and its first change."""
    path, head = "", list[str]()
    in_head = False
    for line in [*patch.split("\n"), "diff --git "]:
        if line.startswith("diff --git "):
            if path:
                yield path, head
            both = line.removeprefix("diff --git a/").rstrip()
            half = both[: max(0, len(both) - 3) // 2]
            path, head = half if line[11:13] == "a/" and both == f"{half} b/{half}" else "", []
            in_head = True
        elif line.startswith(("@@ ", "--- ")):
            in_head = False
        elif in_head:
            head.append(line)
