"""The search in a trajectory: where it is complete, which files it found, and what it saw fail.

It ends before the first edit of the fix, and sooner where the reproduction was seen to fail and every file of the fix
was looked at. What comes before stays as it was. Rules judge it, no model does.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from scrout.agent.dialect import ToolUse
from scrout.gate.sources import heredocs
from scrout.handoff import FileRef, Reproduction
from scrout.lab.train.corpus.trajectory import AgentStep, AgentTrajectory

MAX_OBSERVED_CHARS = 1_500
MAX_SCRIPT_CHARS = 8_000

_RUNS = re.compile(
    r"(?:^|[;&|]\s*|\s)(?:python[\d.]*|pytest|py\.test|tox|node|npm|npx|yarn|jest|go (?:test|run)|cargo (?:test|run)|"
    r"make|mvn|gradle\w*|ruby|rspec|php|phpunit|java|ctest|\./\S+)(?:\s|$)"
)
_FAILS = re.compile(
    r"Traceback \(most recent call last\)|^\w*(?:Error|Exception)\b.*|\bAssertionError\b|\bFAILED\b|\bFAIL:|--- FAIL|"
    r"\bpanic(?:ked)?\b|Segmentation fault|exit code (?:[1-9]\d*)\b|\b[1-9]\d* failed",
    re.M,
)
_NO_EVIDENCE = re.compile(
    r"command not found|No such file or directory|can't open file|No module named|ModuleNotFoundError|SyntaxError|"
    r"usage: |Permission denied|ERROR: file or directory not found|no tests ran"
)
_CHANGES = re.compile(r"\bgit\s+(?:apply|am|checkout|restore|stash|reset|revert|commit)\b|\bpatch\s+(?:-|<)")
_WRITES = re.compile(r"(?<![0-9&>])>>?\s*([^\s&|;>]+)|\btee\s+(?:-a\s+)?([^\s&|;>-][^\s&|;>]*)")
_PARTS = re.compile(r"&&|\|\||[;|\n]")
_VIEWERS = frozenset(
    (
        *("cat", "head", "tail", "less", "more", "nl", "grep", "egrep", "fgrep", "rg", "ag", "ls", "find", "wc", "awk"),
        *("cd", "echo", "pwd", "stat", "file", "cut", "sort", "uniq", "tree", "diff"),
    )
)
_GIT_VIEWS = frozenset(("log", "show", "diff", "blame", "grep", "status", "ls-files", "branch"))
_PATH = re.compile(r"[\w./@+-]+")
_FIRST_TEXT = re.compile(r"edit 1:1\s*\n(.*)|insert\s+'?(.*)", re.S)
"""What SWE-agent writes into a file that it has just made."""
_SHOWS = re.compile(r"\b(?:cat|head|tail|less|more|nl|sed\s+-n|awk)\b")
_NOT_SHOWN = re.compile(r"\s*(?:ERROR:|Invalid `|The path \S+ does not exist|File \S+ not found|\[File does not exist)")
"""How editors begin to say that they show nothing."""
_LINES = re.compile(r"sed\s+-n\s+['\"]?(\d+),(\d+)p")


@dataclass(frozen=True)
class Search:
    """What a trajectory found before it began to edit."""

    steps: tuple[AgentStep, ...]
    files: tuple[FileRef, ...]
    """Of the fix, in the order in which they were looked at."""
    reproduction: Reproduction | None
    """None: nothing was seen to fail."""
    missed: tuple[str, ...]
    """Files of the fix that it never looked at."""
    other_files: tuple[str, ...]
    """Other files that it looked at."""
    shows_fix: bool
    """Whether an answer shows the fix itself, as a diff of it does."""


@dataclass
class _Seen:
    """What is known by a step."""

    gold: Sequence[str]
    root: str
    looked: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Files with the lines that were shown; none: all."""
    written: dict[str, str] = field(default_factory=dict)
    """Files that the agent made, with their text as far as it is known."""
    made: str = ""
    """The file that the agent made last, as long as it is empty."""
    reproduction: Reproduction | None = None

    @property
    def complete(self) -> bool:
        return self.reproduction is not None and all(path in self.looked for path in self.gold)

    def relative(self, path: str) -> str:
        """Below the repository's root."""
        path = posixpath.normpath(path.strip("'\""))
        for root in filter(None, (self.root, "/testbed", "/app")):
            if path.startswith(f"{root}/"):
                return path.removeprefix(f"{root}/")
        return path.removeprefix("./")


def search(trajectory: AgentTrajectory, gold: Sequence[str]) -> Search:
    """Cut a trajectory. `gold` are the files of the fix."""
    seen = _Seen(gold, trajectory.root)
    kept: list[AgentStep] = []
    for step in trajectory.steps:
        step = _normalized(step, seen)
        if _edits(step, seen):
            break
        kept.append(step)
        _look(step, seen)
        if seen.complete:
            break
    files = [FileRef(path=path, regions=_merged(lines)) for path, lines in seen.looked.items() if path in gold]
    other_files = [path for path in seen.looked if path not in gold and path not in seen.written]
    missed = [path for path in gold if path not in seen.looked]
    shows_fix = any(f"+++ b/{path}" in step.observation for step in kept for path in gold)
    return Search(tuple(kept), tuple(files), seen.reproduction, tuple(missed), tuple(other_files), shows_fix)


def edited_files(trajectory: AgentTrajectory) -> tuple[str, ...]:
    """Files of the repository that a trajectory edits, where it left no patch."""
    seen = _Seen((), trajectory.root)
    found: dict[str, None] = {}
    for step in trajectory.steps:
        arguments = step.call.arguments
        if step.call.name == "str_replace_editor" and arguments.get("command") in ("str_replace", "insert"):
            path = seen.relative(str(arguments["path"]))
            if path not in seen.written and not path.startswith("/"):
                found[path] = None
        _look(step, seen)
    return tuple(found)


def _normalized(step: AgentStep, seen: _Seen) -> AgentStep:
    """SWE-agent makes an empty file first and then writes into it; our editor does both at once."""
    written = _FIRST_TEXT.fullmatch(str(step.call.arguments.get("command", ""))) if step.call.name == "edit" else None
    if written is None or not seen.made:
        return step
    edited, inserted = (part.rstrip() for part in written.groups(default=""))
    text = edited.removesuffix("\nend_of_edit") or inserted.removesuffix("'")
    create = {"command": "create", "path": seen.made, "file_text": f"{text}\n"}
    return replace(step, call=ToolUse("str_replace_editor", create))


def _edits(step: AgentStep, seen: _Seen) -> bool:
    """Whether a step edits a file that was there before the agent."""
    arguments = step.call.arguments
    if step.call.name == "edit":
        return True  # whatever is open: nearly always a file of the repository's
    if step.call.name == "str_replace_editor":
        if arguments.get("command") in ("str_replace", "insert"):
            return seen.relative(str(arguments["path"])) not in seen.written
        return arguments.get("command") == "create" and seen.relative(str(arguments["path"])) in seen.gold
    return _edits_by_shell(str(arguments.get("command", "")), seen)


def _edits_by_shell(command: str, seen: _Seen) -> bool:
    """Whether a command changes a file of the fix, judging by its words: a command that names one must only view it."""
    if _CHANGES.search(command):
        return True
    endings = {posixpath.basename(path) for path in seen.gold}
    words = {posixpath.basename(word) for word in _PATH.findall(command)}
    if words & endings and not _only_shows(command):
        return True
    # A script of the agent's own may do it instead.
    scripts = [text for path, text in seen.written.items() if posixpath.basename(path) in words]
    return any(ending in text and "write" in text for text in scripts for ending in endings)


def _only_shows(command: str) -> bool:
    if "<<" in command or any(not _is_nowhere(found[1] or found[2]) for found in _WRITES.finditer(command)):
        return False
    return all(_is_view(part.split()) for part in _parts(command))


def _parts(command: str) -> list[str]:
    return [part for part in _PARTS.split(command) if part.strip()]


def _is_nowhere(target: str) -> bool:
    return target.startswith(("/dev/", "&"))


def _is_view(words: list[str]) -> bool:
    while words and "=" in words[0] and not words[0].startswith("-"):
        words = words[1:]
    match words:
        case ["sed", *rest]:
            return "-n" in rest and not any(word.startswith("--in-place") or _edits_in_place(word) for word in rest)
        case ["git", verb, *_]:
            return verb in _GIT_VIEWS
        case [str(python), *rest] if python.startswith(("python", "pytest")):
            return "-c" not in rest and "-" not in rest
    return not words or words[0] in _VIEWERS


def _edits_in_place(word: str) -> bool:
    return word.startswith("-") and not word.startswith("--") and "i" in word


def _look(step: AgentStep, seen: _Seen) -> None:
    arguments = step.call.arguments
    command = str(arguments.get("command", ""))
    if step.call.name == "str_replace_editor":
        path = seen.relative(str(arguments["path"]))
        if command == "create":
            seen.written[path] = str(arguments.get("file_text", ""))
            seen.made = "" if seen.written[path] else str(arguments["path"])
        elif command == "view" and posixpath.splitext(path)[1] and not _NOT_SHOWN.match(step.observation):
            seen.looked.setdefault(path, []).extend(_range(arguments.get("view_range")))
        return
    if step.call.name != "bash":
        return
    text = next((found.body for found in heredocs(command)), "")
    for found in _WRITES.finditer(command):
        if not _is_nowhere(target := found[1] or found[2]):
            seen.written.setdefault(seen.relative(target), text)
    if _SHOWS.search(command):
        lines = [(int(a), int(b)) for a, b in _LINES.findall(command)]
        named = {seen.relative(word) for word in _PATH.findall(command)}
        for path in seen.gold:
            if path in named and f"{posixpath.basename(path)}: No such file" not in step.observation:
                seen.looked.setdefault(path, []).extend(lines)
    # `grep -rn python .` runs nothing.
    runs = _RUNS.search(command) and not all(part.split()[0] in _VIEWERS for part in _parts(command))
    if seen.reproduction is None and runs and _failed(step.observation):
        used = {path: text for path, text in seen.written.items() if path in command and text}
        fits = sum(map(len, used.values())) <= MAX_SCRIPT_CHARS
        observed = step.observation.strip()[-MAX_OBSERVED_CHARS:]
        seen.reproduction = Reproduction(
            files=used if fits else {}, command=_from_root(command, seen.root), claim=True, observed=observed
        )


def _failed(observation: str) -> bool:
    return bool(_FAILS.search(observation)) and not _NO_EVIDENCE.search(observation)


def _from_root(command: str, root: str) -> str:
    """A command as it is run from the repository's root."""
    command = re.sub(rf"^\s*cd\s+{re.escape(root)}/?\s*(?:&&|;)\s*", "", command) if root else command
    return (command.replace(f"{root}/", "") if root else command).strip()


def _range(lines: object) -> Iterator[tuple[int, int]]:
    if isinstance(lines, str):
        lines = [int(number) for number in re.findall(r"-?\d+", lines)]
    if isinstance(lines, list) and len(lines) == 2 and all(isinstance(line, int) for line in lines):
        first, last = lines
        if 0 < first <= last:
            yield first, last


def _merged(regions: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """In order, those that touch joined."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(regions):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return tuple(found)
