"""The built-in model fixer: one model, its tools, the issue and the surviving handoff, under the fixer's caps.

It changes files through its tools and returns how it went. Reading the diff out of the workspace is the caller's part.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from string import Template

from scrout.agent.dialect import Toolbox
from scrout.agent.loop import Terms, converse
from scrout.agent.tools import clip
from scrout.config import Fixer
from scrout.errors import ConfigError
from scrout.models.chat import Chat, Message
from scrout.money import Purse, Receipt
from scrout.records import GatedHandoff, Stop
from scrout.task import Task

PROMPTS = Path(__file__).with_name("prompts")
MAX_EVIDENCE = 2_000
"""Characters of a replayed command's output that the fixer is shown."""


@dataclass(frozen=True)
class Outcome:
    """How the agent's work ended, and what it cost."""

    stop: Stop
    detail: str
    calls: int
    cost_usd: Decimal
    receipts: tuple[Receipt, ...]


async def run_agent(
    fixer: Fixer,
    task: Task,
    gated: GatedHandoff,
    toolbox: Toolbox,
    book: Callable[[Receipt], None] = lambda receipt: None,
) -> Outcome:
    """Let the fixer's model work on the task with these tools. `book` is given each receipt as its call ends."""
    if fixer.price is None:
        raise ConfigError(f"fixer {fixer.name!r} has no price, so its cap of ${fixer.cap_usd} cannot hold; add `price`")
    key = os.environ.get(fixer.key_env, "").strip() if fixer.key_env else None
    if key == "":
        detail = f"fixer {fixer.name!r} needs a key: the environment variable {fixer.key_env} is not set. Export it."
        return Outcome("endpoint", detail, 0, Decimal(0), ())
    purse = Purse(fixer.cap_usd, fixer.cap_calls)
    terms = Terms(fixer.price, fixer.max_tokens, fixer.cap_seconds, "fix", fixer.name)
    async with Chat(fixer.base_url, fixer.model, key, effort=fixer.effort) as chat:
        done = await converse(chat, opening(task, gated), toolbox, purse, terms, book=book)
    return Outcome(done.stop, done.detail, purse.calls, purse.spent_usd, done.receipts)


def opening(task: Task, gated: GatedHandoff) -> tuple[Message, ...]:
    """What the model reads first. With nothing handed over, that is the issue alone."""
    parts = [_fill("task.md", issue=task.text, mark=_mark(task.text))]
    handoff = gated.handoff
    if handoff.files or handoff.reproduction or handoff.dead_ends or handoff.notes:
        notes = _notes(gated)
        parts.append(_fill("handoff.md", verified=_verified(gated), notes=notes, mark=_mark(notes)))
    return Message("system", _fill("system.md")), Message("user", "\n".join(parts))


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
    return (
        f"The reproduction in them was verified: its command was run {evidence.runs} times on the unchanged "
        f"repository, in a sandbox, and {shown}. Its output then is quoted at the end. {guess}"
    )


def _notes(gated: GatedHandoff) -> str:
    parts = [gated.text.strip()]
    if gated.kept:
        reproduction = gated.handoff.reproduction
        for path, content in (reproduction.files if reproduction else {}).items():
            parts.append(f"File {path} of the reproduction (write it again if it is missing):\n{content.rstrip()}")
        parts.append(f"Output of the reproduction:\n{clip(gated.evidence.output_tail.strip(), MAX_EVIDENCE)}")
    return "\n\n".join(parts)


def _fill(name: str, **values: str) -> str:
    # One pass: a `$name` inside an issue stays what it is.
    return Template((PROMPTS / name).read_text(encoding="utf-8")).substitute(values)


def _mark(text: str) -> str:
    """A word that the text cannot hold by design, so that it cannot pretend to end its own block."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
