"""One episode of an evaluation as it is kept, and what its trace says of the model's turns.

A trace has all that the model said; here it is read again with the dialect that the episode spoke.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Literal

from scrout.agent import dialects
from scrout.base import FrozenModel
from scrout.handoff import Kind
from scrout.lab.train.episodes import chat_exchanges, completion_of
from scrout.models.chat import Reply, ToolCall
from scrout.models.proxy.usage import of_chat
from scrout.money import Usd
from scrout.records import Scouting, ScoutStop
from scrout.scout.prompting import TracedTools, holds_handoff
from scrout.scout.trace import Exchange, Recorded

Arm = Literal["greedy", "sampled"]

_TAG = re.compile(r"^<(/?)(files|why|repro|dead_ends|notes)>[ \t]*$", re.M)
_HANDED: dict[ScoutStop, Kind] = {"finished": "spontaneous", "forced": "forced"}


class EvaluationEpisode(FrozenModel):
    """What came of one draw on one task."""

    task: str
    arm: Arm
    draw: int
    """From 0."""
    seed: int
    stop: ScoutStop
    kind: Kind | None
    """Of the handoff; None: there is none."""
    files: tuple[str, ...]
    """Named in it, the likeliest first."""
    gold: tuple[str, ...]
    well_formed: bool
    """Whether the handoff has its form to the letter, beyond what can be read."""
    calls: int
    """Turns with a call that can be read."""
    malformed: int
    """Turns with one that cannot."""
    thoughts: int
    """Turns with neither call nor handoff."""
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    cost_usd: Usd | None = Decimal(0)
    """None: a call had no known price."""
    detail: str = ""
    trace: str = ""
    """Relative to the evaluation's folder."""

    @property
    def hits(self) -> int:
        return len(set(self.files) & set(self.gold))

    @property
    def recall(self) -> float:
        """Share of the gold files that was named; 0 without a handoff."""
        return self.hits / len(set(self.gold))

    @property
    def precision(self) -> float:
        """Share of the named files that is gold; 0 where none is named."""
        return self.hits / max(1, len(set(self.files)))


@dataclass(frozen=True)
class Reading:
    """What a trace says of the model's turns."""

    calls: int = 0
    malformed: int = 0
    thoughts: int = 0
    well_formed: bool = False
    refused: bool = False
    """The endpoint did not take the last request."""


def kind_of(scouting: Scouting) -> Kind | None:
    """Of the handoff that an episode ended with; None: it ended without."""
    return _HANDED.get(scouting.stop)


def read_turns(path: Path, scouting: Scouting) -> Reading:
    """The turns of an episode, by its trace."""
    recorded = Recorded(path)
    dialect = TracedTools(dialects.dialect(recorded.header.settings.dialect), recorded.header.root)
    exchanges = list(chat_exchanges(recorded))
    replies = [reply for exchange in exchanges if (reply := _reply(exchange)) is not None]
    turns = [dialect.parse(reply) for reply in replies[: scouting.turns]]
    malformed = sum(bool(turn.problem or any(call.problem for call in turn.calls)) for turn in turns)
    calls = sum(bool(turn.calls) and not any(call.problem for call in turn.calls) for turn in turns)
    handed = kind_of(scouting)
    well_formed = False
    if handed and replies:
        last = dialect.parse(replies[-1])
        text = dialect.heard(replies[-1]) if last.calls else last.text
        well_formed = bool(scouting.handoff.files) and in_form(text)
    thoughts = len(turns) - calls - malformed - (handed == "spontaneous")
    return Reading(calls, malformed, thoughts, well_formed, bool(exchanges) and exchanges[-1].status != 200)


def in_form(text: str) -> bool:
    """Whether a handoff has its form: each block once, closed before the next, files among them, STOP at the end."""
    if not holds_handoff(text) or not text.rstrip().endswith("\nSTOP"):
        return False
    tags = [(slash, name) for slash, name in _TAG.findall(text)]
    opened = [name for slash, name in tags if not slash]
    pairs = [tag for name in opened for tag in (("", name), ("/", name))]
    return tags == pairs and len(set(opened)) == len(opened) and "files" in opened


def _reply(exchange: Exchange) -> Reply | None:
    """What an exchange gave the episode; None: nothing that it could take as a turn."""
    completion = completion_of(exchange)
    if completion is None:
        return None
    message = completion.choices[0].message
    calls = tuple(
        ToolCall(call.id or str(at), call.function.name, call.function.arguments)
        for at, call in enumerate(message.tool_calls or ())
    )
    usage = of_chat(completion.usage)
    reply = Reply(message.content or "", calls, usage, "", "")
    thought = any(isinstance(one, str) and one for one in (message.reasoning_content, message.reasoning))
    return reply if reply.text or calls or thought or (usage and usage.output_tokens) else None


def scored(
    scouting: Scouting, reading: Reading, *, task: str, arm: Arm, draw: int, seed: int, gold: tuple[str, ...]
) -> EvaluationEpisode:
    handed = kind_of(scouting)
    usages = [receipt.usage for receipt in scouting.receipts]
    return EvaluationEpisode(
        task=task,
        arm=arm,
        draw=draw,
        seed=seed,
        stop=scouting.stop,
        kind=handed,
        files=tuple(dict.fromkeys(ref.path for ref in scouting.handoff.files)) if handed else (),
        gold=gold,
        well_formed=reading.well_formed,
        calls=reading.calls,
        malformed=reading.malformed,
        thoughts=reading.thoughts,
        input_tokens=sum(u.input_tokens + u.cache_read_tokens + u.cache_write_tokens for u in usages),
        output_tokens=sum(usage.output_tokens for usage in usages),
        seconds=scouting.seconds,
        cost_usd=scouting.cost_usd,
        detail=scouting.detail,
        trace=scouting.trace,
    )
