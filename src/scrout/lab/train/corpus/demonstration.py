"""One search as a model is to do it: the opening of an episode, its turns in a dialect, and the handoff at the end.

A demonstration shows what an episode shows (scout/prompting.py, agent/dialects): the same opening, and the same form of
calls and answers, clipped alike. Each turn is parsed again by the episode's parser; one that does not come back as it
was drops the demonstration.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pydantic import JsonValue

from scrout.agent import dialects
from scrout.agent.dialect import Dialect, ToolUse, Turn
from scrout.agent.tools import OBSERVATION_CHARS, Bash, StrReplaceEditor, drop_middle
from scrout.base import FrozenModel
from scrout.config.settings import DialectName, SearcherSettings
from scrout.handoff import Handoff, normalize, parse, render
from scrout.lab.train.corpus.search import Search
from scrout.lab.train.corpus.trajectory import AgentTrajectory
from scrout.models.chat import Message, Reply, Tool, message_json, tool_json
from scrout.scout.prompting import Prompting, TracedTools
from scrout.scout.prompts import Prompts, read_prompts
from scrout.scout.trace import EpisodeHeader, ToolSpec

MAX_DEAD_ENDS = 5

Notes = Callable[[AgentTrajectory, Search], str]


class Demonstration(FrozenModel):
    """One line of a corpus."""

    id: str
    issue_id: str
    repository: str
    names: tuple[str, ...]
    """Whatever its source calls it."""
    language: str
    layout: str
    where: str
    """File and row that it was cut from."""
    reproduced: bool
    """Whether something was seen to fail."""
    turns: int
    quality: tuple[float, ...]
    """The larger, the better; compared from the left."""
    files: tuple[str, ...]
    messages: tuple[dict[str, JsonValue], ...]
    """As chat templates take them; the assistant's are what is learned."""
    tools: tuple[dict[str, JsonValue], ...]
    """For templates that show tools themselves; empty: the system prompt does."""


@dataclass(frozen=True)
class DroppedTrajectory:
    """Why something became no demonstration: a few words that many share."""

    why: str


def template_notes(trajectory: AgentTrajectory, search: Search) -> str:
    """Notes without a model."""
    named = ", ".join(ref.path for ref in search.files)
    seen = "The reproduction fails as told." if search.reproduction else "Nothing was run that fails."
    return f"The change belongs into {named}. {seen}"


def demonstrate(
    trajectory: AgentTrajectory,
    search: Search,
    language: str,
    dialect_name: DialectName,
    notes: Notes = template_notes,
    observation_chars: int = OBSERVATION_CHARS,
    prompts: Prompts | None = None,
) -> Demonstration | DroppedTrajectory:
    """The demonstration that a search makes."""
    handoff = normalize(
        Handoff(
            files=search.files,
            reproduction=search.reproduction,
            dead_ends=tuple(f"{path} was looked at in vain" for path in search.other_files[:MAX_DEAD_ENDS]),
            notes=notes(trajectory, search),
        )
    )
    text = render(handoff)
    if parse(text).files != handoff.files:
        return DroppedTrajectory("its handoff does not come back as it was")
    settings = SearcherSettings(dialect=dialect_name, tools=("bash", "str_replace_editor"), shortlist=False)
    tools = _tools()
    header = EpisodeHeader(
        task_id=trajectory.issue_id,
        base_commit="",
        root=trajectory.root or "/testbed",
        issue=trajectory.issue,
        settings=settings,
        salt="",
        prompts=prompts or read_prompts(),
        prompts_digest="",
        tools=tuple(ToolSpec(name=t.name, description=t.description, parameters=dict(t.parameters)) for t in tools),
    )
    prompting, plain = Prompting(header), dialects.dialect(dialect_name)
    dialect = TracedTools(plain, header.root)
    messages = list(prompting.opening(dialect))
    for number, step in enumerate(search.steps):
        turn = Turn(step.thought, (_in_dialect(step.call, number, dialect_name),))
        try:
            said = dialect.render(turn)
        except ValueError:
            return DroppedTrajectory("a turn that the dialect cannot carry")
        if not _comes_back(said, turn, dialect):
            return DroppedTrajectory("a turn does not come back as it was")
        messages += [said, dialect.answer(turn.calls[0], drop_middle(step.observation, observation_chars))]
    messages.append(Message("assistant", text))
    if dialect.parse(Reply(text, (), None, "stop", "")).calls:
        return DroppedTrajectory("its handoff is read as a call")
    offer = dialect.offer(tools)
    return Demonstration(
        id=hashlib.sha256(f"{trajectory.issue_id}\0{trajectory.where}".encode()).hexdigest()[:16],
        issue_id=trajectory.issue_id,
        repository=trajectory.repository,
        names=trajectory.names,
        language=language,
        layout=trajectory.layout,
        where=trajectory.where.rsplit("/", 1)[-1],
        reproduced=search.reproduction is not None,
        turns=len(search.steps) + 1,
        quality=_quality(search),
        files=tuple(ref.path for ref in search.files),
        messages=tuple(message_json(message) for message in messages),
        tools=tuple(tool_json(tool) for tool in offer.tools),
    )


def _quality(search: Search) -> tuple[float, ...]:
    """A reproduction first, then how much of what was looked at belongs to the fix, then brevity."""
    looked = len(search.files) + len(search.other_files)
    return (float(search.reproduction is not None), len(search.files) / looked, -float(len(search.steps)))


def _tools() -> tuple[Tool, ...]:
    async def nowhere(command: str, timeout_s: float) -> Any:
        raise AssertionError("nothing is run here")

    return (*Bash(nowhere).tools, *StrReplaceEditor.tools)


def _in_dialect(call: ToolUse, number: int, dialect_name: DialectName) -> ToolUse:
    """As a model of that dialect would make it: some have numbers and lists as text alone."""
    if dialect_name == "native":
        return replace(call, id=f"call_{number}")
    if dialect_name == "xml":
        texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in call.arguments.items()}
        return replace(call, arguments=texts)
    return call


def _comes_back(said: Message, turn: Turn, dialect: Dialect) -> bool:
    heard = dialect.parse(Reply(said.content, said.calls, None, "stop", ""))
    calls = [[(call.name, dict(call.arguments)) for call in one.calls] for one in (heard, turn)]
    return calls[0] == calls[1] and heard.text.strip() == turn.text.strip()
