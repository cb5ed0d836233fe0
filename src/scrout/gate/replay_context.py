"""What a replay is judged against, and what judging it gives."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Literal

from scrout.files import real_beneath
from scrout.gate.dataflow import (
    ExecutedLines,
    asks_for_truth,
    called,
    catches,
    depends,
    exports,
    fixtures,
    has_statement,
    raises,
    refuses,
    repository_calls,
)
from scrout.gate.execution_trace import WatchedRun
from scrout.gate.sources import Sources
from scrout.handoff import Basis
from scrout.records import Verdict
from scrout.sandbox.replay import Raised, Replay
from scrout.sandbox.reports import Frame, Traceback
from scrout.sandbox.suite import is_test_file
from scrout.sandbox.workspace import Base

_NO_NETWORK = re.compile(
    r"Temporary failure in name resolution|Name or service not known|Network is unreachable|Failed to resolve"
    r"|ENOTFOUND|EAI_AGAIN|getaddrinfo|dial (?:tcp|udp)|UnknownHostException|ENETUNREACH"
)


@dataclass(frozen=True)
class Classification:
    """A verdict, the reason in words, and what must be the same when the claim is replayed again."""

    verdict: Verdict
    reason: str
    signature: tuple[str, ...] = ()
    basis: Basis | None = None
    """What the run itself shows of the report; None: nothing, and the scout's word stands."""
    trial: Literal["", "must pass", "may pass"] = ""
    """Whether the claim must also pass with another result of the repository, or is kept if it does."""


def together(findings: Sequence[Classification]) -> Classification:
    """What several failures show: one that is the claim's own spoils it, since it stays after the right patch."""
    lost = [finding for finding in findings if finding.verdict != "real_failure"]
    for finding in (*(each for each in lost if not each.trial), *lost, *(each for each in findings if each.trial)):
        return finding
    return findings[0]


@dataclass(frozen=True)
class ReplayContext:
    """What a replay is judged against."""

    issue: str
    sources: Sources
    """The claim's own Python."""
    base: Base
    brought: Mapping[str, str] = field(default_factory=dict)
    """Text files that the claim brought along, by path relative to the repository's root."""
    written: Mapping[str, str] = field(default_factory=dict)
    """Text files that its command wrote there."""
    observed: str = ""
    """What the scout says it saw; empty: it does not say."""
    run: Replay | None = None
    """The replay itself, for what its witness saw of the claim's own code."""

    @cached_property
    def own(self) -> dict[str, str]:
        """All code that is the claim's."""
        return {**self.written, **self.brought}

    @cached_property
    def files(self) -> frozenset[str]:
        """What the base commit holds."""
        names = self.base.git("ls-tree", "-r", "-z", "--name-only", self.base.commit)
        return frozenset(os.fsdecode(name) for name in names.split(b"\0") if name)

    def read(self, path: str) -> str:
        """A file of the repository as text; empty: there is none."""
        return (self.base.read(path) or b"").decode("utf-8", errors="replace")

    def place(self, path: str) -> str | None:
        """The one file of the claim or the repository that a runner means; it may leave out leading folders.

        None: neither has it, or several of them could be meant.
        """
        name = self.relative(path)
        if name in self.own or name in self.files:
            return name
        for names in (self.own, self.files):
            ends = [known for known in names if known.endswith(f"/{name}")]
            if ends:
                return ends[0] if len(ends) == 1 else None
        return None

    def is_repository_code(self, path: str) -> bool:
        name = self.relative(path)
        return not name.startswith("/") and ".." not in PurePosixPath(name).parts and self.base.read(name) is not None

    def relative(self, path: str) -> str:
        pure = PurePosixPath(path)
        return str(pure.relative_to(self.base.repo)) if pure.is_relative_to(self.base.repo) else str(pure)

    def belongs(self, package: str) -> bool:
        """Whether a top-level package is the repository's own."""
        if not package.isidentifier():
            return False
        for folder in ("", "src", "lib"):
            found = real_beneath(self.base.tree, f"{folder}/{package}".lstrip("/"))
            module = real_beneath(self.base.tree, f"{folder}/{package}.py".lstrip("/"))
            if (found and found.is_dir()) or (module and module.is_file()):
                return True
        return False

    def locus(self, traceback: Traceback) -> Frame | None:
        """The innermost frame that is the repository's or the claim's; libraries only pass a failure on."""
        for caller, frame in reversed([*pairwise([None, *traceback.frames])]):
            assert frame is not None
            if caller and frame.path == "<string>" and {"eval", "exec"} & self.called(caller.path, caller.line):
                return frame  # code in a string of the claim's
            if self.is_repository_code(frame.path) or self.sources.of(self.relative(frame.path)):
                return frame
        return None

    def depends(self, path: str, line: int) -> bool:
        seen = self.seen(self.relative(path))
        # Several scripts may bear one name, and which of them failed is not known.
        texts = [text for text in self.sources.of(self.relative(path)) if has_statement(text, line)]
        meant = [text for text in texts if raises(text, line)] or texts
        return bool(meant) and all(
            depends(text, line, self.belongs, seen, self.fixtures, self.helpers) for text in meant
        )

    @cached_property
    def fixtures(self) -> dict[str, bool]:
        """Of the claim's own conftest files; one name may stand for several, of which each must use the repository."""
        found: dict[str, bool] = {}
        for path, texts in self.sources.texts.items():
            for text in texts if PurePosixPath(path).name == "conftest.py" else ():
                for name, uses in fixtures(text, self.belongs).items():
                    found[name] = uses and found.get(name, True)
        return found

    @cached_property
    def helpers(self) -> dict[str, frozenset[str]]:
        """What the claim's scripts import from each other, by the module's name."""
        found: dict[str, frozenset[str]] = {}
        for path, texts in self.sources.texts.items():
            if path.endswith(".py") and len(texts) == 1:
                name = ".".join(PurePosixPath(path).with_suffix("").parts)
                # Scripts beside each other import without the folder.
                found[name] = found[PurePosixPath(path).stem] = exports(texts[0], self.belongs)
        return found

    def seen(self, path: str) -> ExecutedLines:
        """What the witness saw of a script of the claim's."""
        if not isinstance(self.run, WatchedRun) or self.run.execution_trace is None:
            return ExecutedLines()
        names = [name for name in self.run.execution_trace.lines if name == path or name.endswith(f"/{path}")]
        name = names[0] if len(names) == 1 else path
        begun = set()
        for events in exceptions(self.run.execution_trace.raised):
            # One that began in the claim's own code stays its own, also where the repository called that code.
            if not self.is_repository_code(events[0].path):
                begun |= {(event.line, events[0].line) for event in events if event.path == events[0].path == name}
        ran = self.run.execution_trace.lines.get(name, frozenset())
        # Several scripts may bear the name of `python -c`.
        alone = len(self.sources.of(path)) == 1
        fixed = self.run.fixed.get(name, frozenset())
        return ExecutedLines(ran, frozenset(begun), fixed) if alone else ExecutedLines()

    def raises(self, path: str, line: int, kind: str) -> bool:
        return any(raises(text, line, kind) for text in self.sources.of(self.relative(path)))

    def is_vague(self, path: str, line: int) -> bool:
        """Whether the claim raises because a result is there at all, of a function that the issue does not name."""
        texts = [text for text in self.sources.of(self.relative(path)) if asks_for_truth(text, line)]
        names = {name for text in texts for name in repository_calls(text, self.belongs)}
        return bool(texts) and not any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", self.issue) for name in names)

    def refuses(self, path: str, line: int) -> bool:
        """Whether repository code raises an exception of its own making there; a test that does is checking."""
        return not is_test_file(self.relative(path)) and refuses(self.read(self.relative(path)), line)

    def called(self, path: str, line: int) -> frozenset[str]:
        """What the claim's own code calls there."""
        return frozenset(name for text in self.sources.of(self.relative(path)) for name in called(text, line))

    def caught(self, traceback: Traceback) -> bool:
        """Whether the claim's own code caught what it printed; a traceback starts where the exception was caught."""
        frame = traceback.frames[0]
        return any(catches(text, frame.line, traceback.type) for text in self.sources.of(self.relative(frame.path)))


def exceptions(raised: Sequence[Raised]) -> list[list[Raised]]:
    """Each exception with the places that it passed, from where it began."""
    found: list[list[Raised]] = []
    for event in raised:
        if found and (found[-1][0].type, found[-1][0].message) == (event.type, event.message):
            found[-1].append(event)
        else:
            found.append([event])
    return found


def wants_network(message: str, what: str) -> Classification | None:
    """A failure for want of a network, in any language's words, says nothing about the repository."""
    if not _NO_NETWORK.search(message):
        return None
    return Classification("environment_missing", f"it wants a network, and the sandbox has none: {what}")


def last_line(output: str) -> str:
    """The last line that says something, cut to what a reason holds."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""
