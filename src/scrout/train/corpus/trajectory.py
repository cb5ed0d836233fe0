"""A trajectory as the corpus sees it, whatever agent left it: an issue, steps in our tools' words, a patch."""

from __future__ import annotations

import re
from dataclasses import dataclass

from scrout.agent.dialect import Call

_ID = re.compile(
    r"(?:instance_)?(?P<owner>[\w.-]+?)__(?P<name>[\w.-]+?)"
    r"(?:-(?P<number>\d+)(?:_\d+)?|\.[0-9a-f]{8}\..+|-[0-9a-f]{40}.*)?"
)
_FILE = re.compile(r"^diff --git a/(?P<path>.+?) b/(?P=path)\s*$(?P<head>(?:\r?\n(?!diff --git |@@ |--- ).*)*)", re.M)
_TEST = re.compile(r"(^|/)(tests?|testing|spec|__tests__)/|(^|/)(test_[^/]*|[^/]*[_.](test|spec)s?\.\w+|conftest\.py)$")


@dataclass(frozen=True)
class Step:
    """One turn of the agent and what came of it."""

    thought: str
    call: Call
    """By the names and arguments of our own tools."""
    observation: str
    answered: bool = True
    """False: the document has no result of the call, so that what the agent saw is unknown."""


@dataclass(frozen=True)
class Trajectory:
    """One attempt at one issue."""

    issue_id: str
    """Attempts at the same issue share it."""
    repository: str
    """owner/name, as far as the id tells."""
    names: tuple[str, ...]
    """Whatever its document calls it and its repository."""
    issue: str
    root: str
    """Where the agent saw the repository; empty: unknown."""
    steps: tuple[Step, ...]
    patch: str
    resolved: bool | None
    """None: nobody said."""
    layout: str
    where: str
    """File and row."""
    gold: tuple[str, ...] = ()
    """Files of the true fix, where the document tells them."""


def issue_of(instance_id: str) -> tuple[str, str]:
    """The issue's own id, without the number of an attempt, and its repository as owner/name; empty: it tells none."""
    found = _ID.fullmatch(instance_id.strip())
    if found is None:
        return instance_id.strip(), ""
    repository = f"{found['owner']}/{found['name']}"
    if found["number"]:
        return f"{found['owner']}__{found['name']}-{found['number']}", repository
    return instance_id.strip(), repository


def changed_files(patch: str) -> tuple[str, ...]:
    """Files that a patch changes and that were there before, tests left out."""
    return tuple(
        dict.fromkeys(
            found["path"]
            for found in _FILE.finditer(patch)
            if "new file mode" not in found["head"] and not _TEST.search(found["path"])
        )
    )
