"""The prompt of a fixer: the task, and the part of the verified handoff that it may read.

Every fixer gets the same text. Without a handoff, that is the issue alone.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from string import Template

from scrout.agent.tools import drop_middle
from scrout.config.settings import Fixer, HandoffMode
from scrout.handoff import Handoff, render
from scrout.records import Decision, Evidence, GatedHandoff
from scrout.task import Task

PROMPTS = Path(__file__).with_name("prompts")
MAX_EVIDENCE = 2_000
"""Maximum characters of a replayed command's output in the prompt."""
EASY = 0.75
"""Under `auto`, a fixer with this probability or more works without a handoff."""


def mode_of(fixer: Fixer, general: HandoffMode, decision: Decision | None) -> HandoffMode:
    """The part of the handoff that a fixer gets: its own setting, otherwise the general one; `auto` depends on the
    task.
    """
    mode = fixer.handoff or general
    if mode != "auto":
        return mode
    candidates = decision.candidates if decision else ()
    probability = next((one.p_solve for one in candidates if one.fixer == fixer.name), None)
    return "none" if probability is not None and probability >= EASY else "full"


def limit_handoff(gated: GatedHandoff, mode: HandoffMode) -> GatedHandoff:
    """The handoff without the parts that the fixer may not read."""
    if mode == "full":
        return gated
    handoff = Handoff(files=gated.handoff.files) if mode == "files-only" else Handoff()
    return gated.model_copy(
        update={
            "kept": False,
            "materialized": False,
            "evidence": Evidence(),
            "handoff": handoff,
            "text": render(handoff) if handoff.files else "",
        }
    )


def build_prompt(task: Task, gated: GatedHandoff) -> str:
    """The task and the handoff, each between marks that their text cannot contain."""
    parts = [fill("task.md", issue=task.text, mark=mark(task.text))]
    handoff = gated.handoff
    if handoff.files or handoff.reproduction or handoff.dead_ends or handoff.notes:
        notes = _notes(gated)
        parts.append(fill("handoff.md", verified=_verified(gated), notes=notes, mark=mark(notes)))
    return "\n".join(parts)


def fill(name: str, **values: str) -> str:
    """Fill in a prompt template."""
    # One pass: a `$name` inside an issue stays as it is.
    return Template((PROMPTS / name).read_text(encoding="utf-8")).substitute(values)


def _verified(gated: GatedHandoff) -> str:
    """What was checked, and how, in a sentence or two."""
    guess = "Which files matter is the search's best guess and was not verified."
    if not gated.kept:
        return f"No way to reproduce the problem was verified. {guess}"
    evidence = gated.evidence
    if gated.verdict == "reproduced_exit_zero":
        shown = "showed the problem each time, with exit code 0"
    else:
        shown = "failed each time" + ("" if evidence.exit_code is None else f", with exit code {evidence.exit_code}")
    ran = f"its command was run {evidence.runs} times on the unchanged repository, in a sandbox, and {shown}"
    if gated.basis == "assumed":
        told = f"The reproduction in them is assumed: {ran}, but the report does not tell of this failure. Doubt it."
    elif gated.basis:
        told = f"The reproduction in them was verified ({gated.basis}): {ran}."
    else:
        told = f"The reproduction in them was verified: {ran}."
    return f"{told} Its output then is quoted at the end. {guess}"


def _notes(gated: GatedHandoff) -> str:
    parts = [gated.text.strip()]
    if gated.kept:
        reproduction = gated.handoff.reproduction
        for path, content in (reproduction.files if reproduction else {}).items():
            parts.append(f"File {path} of the reproduction (write it again if it is missing):\n{content.rstrip()}")
        parts.append(f"Output of the reproduction:\n{drop_middle(gated.evidence.output_tail.strip(), MAX_EVIDENCE)}")
    return "\n\n".join(parts)


def reproduction_text(gated: GatedHandoff) -> str:
    """The command that shows the problem and its output, for a reader who cannot run it; empty: none."""
    reproduction = gated.handoff.reproduction
    if not gated.kept or reproduction is None:
        return ""
    files = "".join(f"\n{path}:\n```\n{content.rstrip()}\n```" for path, content in reproduction.files.items())
    output = drop_middle(gated.evidence.output_tail.strip(), MAX_EVIDENCE)
    return f"\nThis shows the problem: `{reproduction.command}`{files}\nIt prints:\n```\n{output}\n```\n"


def mark(text: str) -> str:
    """A word that the text does not contain, so that it cannot imitate the end of its block."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
