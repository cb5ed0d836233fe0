"""Turns code from an issue into a failing reproduction, by running it: hostile code, only ever run in the sandbox.

A claim is made for what was seen to fail and for nothing else; whether the bug made it fail is for the gate to say.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from scrout.handoff import Reproduction
from scrout.index.repository import Repository
from scrout.index.symbols import parse_python
from scrout.sandbox.replay import Replay, Witness, replay
from scrout.sandbox.workshop import Workshop

MAX_SCRIPTS = 5
MAX_SCRIPT_CHARS = 65_536
TIMEOUT_S = 30.0
OBSERVED_CHARS = 1_000
_END_CHARS = 20_000

_FENCE = re.compile(r"^[ \t]*(```+|~~~+)[ \t]*([\w+#.-]*)")
_TAGS = ("", "python", "py", "python3", "pycon")
_LAST_FRAME = re.compile(r'^[ \t]*File "([^"\n]+)", line \d+', re.M)
_EXCEPTION = re.compile(r"^((?:\w+\.)*(\w*(?:Error|Exception|Exit|Interrupt|Warning|Group)))(?::.*)?$", re.M)
_NO_ENVIRONMENT = ("ImportError", "ModuleNotFoundError")
_OWN_ERRORS = ("NameError", "SyntaxError", "IndentationError", "FileNotFoundError", "EOFError")


@dataclass(frozen=True)
class Script:
    """Python from an issue that imports something of the repository."""

    source: str
    root: str
    """Folder that has to be on Python's path; empty: the repository's root is enough."""
    expected: str | None = None
    """The exception that the issue shows for it; None: it shows none."""


@dataclass(frozen=True)
class Tried:
    """What running the issue's code gave."""

    reproduction: Reproduction | None = None
    witness: Witness | None = None
    runs: int = 0
    dead_end: str = ""
    """Why there is no reproduction; empty: there is one, or none was wanted."""


async def reproduce(text: str, repository: Repository, workshop: Workshop) -> Tried:
    """Run the issue's scripts until one fails in a way that is not its own."""
    scripts = find_scripts(text, repository.top_levels)
    if not scripts:
        return Tried(dead_end="No reproduction: the issue holds no Python code that imports this repository.")
    name = _free_name(repository.taken)
    said = []
    for number, script in enumerate(scripts, 1):
        # What PYTHONPATH holds already stays: the sandbox watches a run from there.
        prefix = f'PYTHONPATH="{script.root}${{PYTHONPATH:+:$PYTHONPATH}}" ' if script.root else ""
        command = f"{prefix}python {name}"
        workspace = workshop.fresh()
        try:
            workspace.write(name, script.source.encode(errors="replace"))
            run = await replay(workshop, workspace, command, timeout_s=TIMEOUT_S, watch=True)
        finally:
            workspace.remove()
        reason = _why_no_claim(run, script, name)
        if reason is None:
            observed = run.output.strip()[-OBSERVED_CHARS:]
            claim = Reproduction(files={name: script.source}, command=command, claim=True, observed=observed)
            return Tried(claim, run.witness, number)
        said.append(f"script {number} {reason}")
    dead_end = f"No reproduction from the issue's own code, run as `{command}`: {'; '.join(said)}."
    return Tried(runs=len(said), dead_end=dead_end)


def find_scripts(text: str, top_levels: Mapping[str, str]) -> tuple[Script, ...]:
    """Candidates in the order of the text, then all blocks as one, for code that is told in pieces."""
    blocks = [_from_session(block) if ">>> " in block else (block, None) for block in _blocks(text)]
    pieces = [(source, expected) for source, expected in blocks if parse_python(source) is not None]
    if len(pieces) > 1:
        expected = next((expected for _, expected in pieces if expected), None)
        pieces.append(("\n".join(source for source, _ in pieces), expected))
    found = {}
    for source, expected in pieces:
        root = _root(source, top_levels)
        if root is not None and len(source) <= MAX_SCRIPT_CHARS:
            found[source] = Script(source, root, expected)
    return tuple(found.values())[:MAX_SCRIPTS]


def _blocks(text: str) -> Iterator[str]:
    """Fenced blocks that may be Python, and interpreter sessions outside of fences."""
    fence, tag = "", ""
    block: list[str] = []
    for line in [*text.splitlines(), ""]:
        opening = _FENCE.match(line)
        if fence:
            if opening and opening[1].startswith(fence) and not opening[2]:
                if tag in _TAGS:
                    yield textwrap.dedent("\n".join(block)) + "\n"
                fence, block = "", []
            else:
                block.append(line)
        elif opening:
            if block:
                yield "\n".join(block)
            fence, tag, block = opening[1], opening[2].lower(), []
        elif line.lstrip().startswith(">>> ") or (block and line.strip()):
            block.append(line)
        elif block:
            yield textwrap.dedent("\n".join(block)) + "\n"
            block = []


def _from_session(block: str) -> tuple[str, str | None]:
    """What was typed, and the exception that the session ends in."""
    lines = [line.lstrip() for line in block.splitlines()]
    typed = [line[4:] for line in lines if line.startswith((">>> ", "... ")) or line in (">>>", "...")]
    errors = _EXCEPTION.findall(block) if "Traceback (most recent call last)" in block else []
    return "\n".join(typed).rstrip() + "\n", errors[-1][1] if errors else None


def _root(source: str, top_levels: Mapping[str, str]) -> str | None:
    """Where what the script imports of the repository lies; None: it imports nothing of it."""
    tree = parse_python(source)
    roots = []
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Import):
            roots += [top_levels.get(alias.name.partition(".")[0]) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            roots.append(top_levels.get(node.module.partition(".")[0]))
    return max((root for root in roots if root is not None), default=None)


def _free_name(taken: frozenset[str]) -> str:
    name, number = "scrout_repro.py", 1
    while name in taken:
        number += 1
        name = f"scrout_repro_{number}.py"
    return name


def _why_no_claim(run: Replay, script: Script, name: str) -> str | None:
    """None: it failed, and not by a fault of its own."""
    if run.exit_code is None:
        return f"did not end within {TIMEOUT_S:.0f} s"
    if run.exit_code == 0:
        return "ran without an error"
    if run.killed or run.exit_code in (126, 127):
        return f"could not be run (exit code {run.exit_code})"
    end = run.output[-_END_CHARS:]
    errors = list(_EXCEPTION.finditer(end))
    frames = _LAST_FRAME.findall(end)
    kind = errors[-1][2] if errors else ""
    own = bool(frames) and frames[-1].rpartition("/")[2] == name
    if kind in _NO_ENVIRONMENT or (own and kind in _OWN_ERRORS):
        return f"stopped on an error of its own ({' '.join(errors[-1][0].split())[:120]})"
    if script.expected is not None and kind != script.expected:
        return f"ended in {kind or f'exit code {run.exit_code}'}, where the issue shows {script.expected}"
    return None
