"""The model searcher: one model looks around in a sandbox for a number of turns, hands over what it found, and stops.

The protocol is the paper's (arXiv 2608.04804): an opening with the issue; a call a turn; text without a call is a
thought, unless it holds the handoff; when the turns are used up, one more request demands it. What was sent, answered
and run is in a trace (trace.py), from which `replay` makes the same scouting again without any of it.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from scrout.agent import dialects
from scrout.agent.context import Window
from scrout.agent.dialect import Toolbox, ToolUse, Turn
from scrout.agent.loop import Conversation, ConversationTerms, about_what_was_sent, ask, converse
from scrout.agent.tools import Toolset, Workbench, aliases
from scrout.base import HandoffError, ModelError, ScroutError, TaskError
from scrout.config.folders import data_folder
from scrout.config.settings import ScoutSettings, SearcherSettings
from scrout.handoff import Handoff, Kind, normalize, parse, render
from scrout.languages import language_of
from scrout.models.chat import CallRefused, Chat, Message, Reply, Tool, secrets_of, shown
from scrout.models.proxy.client import open_proxy_client
from scrout.models.unix_socket import SocketTransport
from scrout.money import Receipt, total_usd
from scrout.records import Scouting, ScoutStop, State, Stop
from scrout.redact import redact_json
from scrout.sandbox.task_sandbox import ShellSession, TaskSandbox
from scrout.sandbox.workspace import Base
from scrout.scout.account import account_of
from scrout.scout.canary import require
from scrout.scout.hidden_state.checkpoint import digest, find
from scrout.scout.prompting import Observing, OutputAlone, Prompting, TracedTools, holds_handoff
from scrout.scout.prompts import has_place, read_prompts
from scrout.scout.reproduction_files import find_reproduction_files
from scrout.scout.toolbox import Index, SelectedTools
from scrout.scout.trace import (
    FILE_NAME,
    EpisodeEnd,
    EpisodeHeader,
    LeftFiles,
    Recorded,
    ReplayedTools,
    ReplayedTransport,
    ToolSpec,
    Trace,
    TraceOver,
    clean,
)
from scrout.task import Task
from scrout.text import usd
from scrout.trajectory import FILE_NAME as TRAJECTORY

MAX_TRY_S = 300.0
"""For one request."""
_CHANGED = "The search changed files of the repository, and what it saw may depend on that:"
_TELLING = ("command", "query", "path")
"""Arguments that say what a call is about."""
_STOPS: dict[Stop, ScoutStop] = {
    "finished": "finished",
    "cap_calls": "cap_usd",
    "cap_usd": "cap_usd",
    "timeout": "timeout",
    "crashed": "crashed",
    "endpoint": "endpoint",
}


async def episode(
    task: Task,
    task_sandbox: TaskSandbox,
    settings: ScoutSettings,
    progress: Callable[[str], None] = lambda words: None,
    book: Callable[[Receipt], None] = lambda receipt: None,
    folder: Path | None = None,
) -> Scouting:
    """Let the model search. However it ends, what it handed over and what it paid is in the scouting.

    The searcher works through the meter, like any fixer; `folder` is where that keeps the trajectory. None: beside the
    trace.
    """
    started = time.monotonic()
    key = settings.model.key()
    searcher = _with_seed(settings.model)
    index = Index(task_sandbox.base, settings.subtree, progress)
    workspace = task_sandbox.fresh()
    try:
        async with task_sandbox.session(workspace, aliases(task_sandbox)) as session:
            tools = _tools(searcher, session, index)
            header = await _header(task, task_sandbox.base, searcher, index, tools.tools)
            progressing = _Progress(searcher, progress, book)
            with closing(Trace(data_folder() / "traces" / header.salt / FILE_NAME)) as trace:
                trace.write(header)
                account = account_of(searcher, (folder or trace.path.parent) / TRAJECTORY)
                async with open_proxy_client(account, progressing.take) as client:
                    if searcher.canary:
                        progressing.tell("checking its server")
                        await require(searcher, client.socket)
                        progressing.begin()
                    recorded = trace.toolbox(tools, searcher.observation_chars, progressing.use)
                    chat = _Noting(
                        searcher.base_url,
                        searcher.model,
                        key,
                        # An endpoint that hangs is noticed before the episode's time is up, and blamed for it.
                        min(MAX_TRY_S, searcher.episode_s / 4),
                        sampling=searcher.sampling,
                        cache_salt=header.salt if searcher.cache_salt else "",
                        transport=trace.transport(
                            searcher.base_url, key, SocketTransport(client.socket, searcher.base_url)
                        ),
                    )
                    async with chat:
                        progressing.tell("reading the issue")
                        found = await _explore(header, chat, recorded)
                    left = await asyncio.to_thread(find_reproduction_files, _command(found.handoff), workspace)
                    trace.write(left)
                    if searcher.state != "none" and chat.sent:
                        progressing.tell("reading its hidden state")
                    state, problem = await _state(searcher, chat.sent, chat.offered, trace.path, client.socket)
                scouting = _scouting(header, found, left, progressing.receipts, problem).model_copy(
                    update={"state": state, "trace": str(trace.path), "seconds": round(time.monotonic() - started, 3)}
                )
                trace.write(EpisodeEnd(scouting=scouting))
    finally:
        workspace.remove()
    return scouting


async def replay(path: Path) -> Scouting:
    """The scouting of a recorded episode once more, from its trace alone; a TaskError where the two differ."""
    started = time.monotonic()
    recorded = Recorded(path)
    header, end = recorded.header, recorded.end

    async def at_once(seconds: float) -> None:
        """Nobody is there to be waited for."""

    try:
        async with Chat(
            header.settings.base_url,
            header.settings.model,
            None,
            sampling=header.settings.sampling,
            cache_salt=header.salt if header.settings.cache_salt else "",
            transport=ReplayedTransport(recorded),
            sleep=at_once,
        ) as chat:
            found = await _explore(header, chat, ReplayedTools(recorded))
        recorded.require_over()
    except TraceOver:
        # Time ran out in the midst of the last step, or the trace was cut off there.
        stop, detail = (end.scouting.stop, end.scouting.detail) if end else ("crashed", "")
        found = SearchResult(Handoff(), stop, detail, end.scouting.turns if end else 0)
    cut = "" if end else f"the trace ends without a result after {recorded.told} requests and calls"
    scouting = _scouting(header, found, recorded.left or LeftFiles(), (), cut)
    if end is not None:
        if (scouting.handoff, scouting.text, scouting.stop) != (
            end.scouting.handoff,
            end.scouting.text,
            end.scouting.stop,
        ):
            raise TaskError(
                f"{path}: the replayed episode ends otherwise than the recorded one (stop {scouting.stop!r}, recorded "
                f"{end.scouting.stop!r}). The trace was changed, or made by another scrout ({header.scrout})."
            )
        # What came after the episode, such as its hidden state and the call for it, is taken from the record.
        kept = ("state", "detail", "receipts", "cost_usd")
        scouting = scouting.model_copy(update={field: getattr(end.scouting, field) for field in kept})
    return scouting.model_copy(update={"trace": str(path), "seconds": round(time.monotonic() - started, 3)})


@dataclass(frozen=True)
class SearchResult:
    """How the search ended."""

    handoff: Handoff
    stop: ScoutStop
    detail: str
    turns: int


async def _explore(header: EpisodeHeader, chat: Chat, toolbox: Toolbox) -> SearchResult:
    """The protocol itself. It depends on nothing but the header, the endpoint's answers and the tools'."""
    settings = header.settings
    dialect, voice = TracedTools(dialects.dialect(settings.dialect), header.root), Prompting(header)
    terms = ConversationTerms(
        settings.max_tokens,
        settings.episode_s,
        turns=settings.turns,
        complain=voice.complain,
        tell_repeats=not voice.paper,
    )
    room = settings.context_tokens - settings.max_tokens - settings.margin_tokens
    window = Window(chat, room, settings.refit, settings.tokenizer)
    handed: list[Handoff] = []

    def silence(turn: Turn) -> str | None:
        handoff = _read(turn.text, "spontaneous") if holds_handoff(turn.text) else None
        if handoff is None:
            return voice.acknowledge()
        handed.append(handoff)
        return None

    started = time.monotonic()
    talk = await converse(
        chat,
        voice.opening(dialect),
        Observing(toolbox, voice),
        terms,
        dialect=dialect,
        silence=silence,
        window=window,
    )
    if talk.stop != "cap_calls":
        handoff = handed[0] if handed else Handoff()
        return SearchResult(handoff, _STOPS[talk.stop], _told(talk), talk.turns)
    try:
        async with asyncio.timeout(settings.episode_s - (time.monotonic() - started)):
            offer = dialect.offer(toolbox.tools)
            if offer.schema is not None:  # a small model follows that rather than words: only the handoff is left to it
                offer = dialect.offer(())
            reply = await ask(chat, voice.forced(talk.messages), offer, settings.max_tokens, window)
    except TimeoutError:
        return SearchResult(Handoff(), "timeout", f"not done after {settings.episode_s:g} s", talk.turns)
    except CallRefused as refused:
        return SearchResult(Handoff(), _STOPS[refused.stop], clean(str(refused)), talk.turns)
    except ModelError as error:
        stop: ScoutStop = "crashed" if about_what_was_sent(error, talk.turns) else "endpoint"
        return SearchResult(Handoff(), stop, clean(str(error)), talk.turns)
    turn = dialect.parse(reply)
    # No call is run any more, and a handoff may stand behind one.
    text = dialect.heard(reply) if turn.calls else turn.text
    forced = _read(text, "forced")
    if forced is None:
        said = f"the forced reply holds no handoff: {text.strip()[:80]!r}"
        return SearchResult(Handoff(kind="forced"), "malformed", f"{said}; {_told(talk)}", talk.turns)
    return SearchResult(forced, "forced", _told(talk), talk.turns)


class _Noting(Chat):
    """Remembers the last prompt that was sent, which the hidden state is read from."""

    sent: Sequence[Message] = ()
    offered: Sequence[Tool] = ()

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        max_tokens: int,
        *,
        schema: Mapping[str, JsonValue] | None = None,
    ) -> Reply:
        self.sent, self.offered = messages, tools
        return await super().complete(messages, tools, max_tokens, schema=schema)


class _Progress:
    """Keeps the receipts, and tells how far it is and what it does."""

    def __init__(
        self, settings: SearcherSettings, progress: Callable[[str], None], book: Callable[[Receipt], None]
    ) -> None:
        self.receipts: list[Receipt] = []
        self._before = 0
        self._settings = settings
        self._progress = progress
        self._book = book

    def begin(self) -> None:
        """What was paid so far is for no turn."""
        self._before = len(self.receipts)

    def take(self, receipt: Receipt) -> None:
        self.receipts.append(receipt)
        self._book(receipt)

    def use(self, call: ToolUse) -> None:
        said = next((str(call.arguments[key]) for key in _TELLING if key in call.arguments), "")
        self.tell(f"{call.name} {said.strip().partition(chr(10))[0][:60]}".strip())

    def tell(self, doing: str) -> None:
        turn = min(max(len(self.receipts) - self._before, 1), self._settings.turns)
        cost = total_usd(receipt.cost_usd for receipt in self.receipts)
        tokens = sum(sum(receipt.usage.model_dump().values()) for receipt in self.receipts)
        spent = usd(cost) if cost else f"{tokens:,} tokens"
        self._progress(f"{self._settings.model}, turn {turn} of {self._settings.turns}, {spent}: {doing}")


def _tools(settings: SearcherSettings, session: ShellSession, index: Index) -> Toolbox:
    # Answers come whole, as far as there is any: the trace clips them, after it has cut secrets out.
    most = session.task_sandbox.limits.output_bytes
    workbench = Workbench(
        session,
        command_s=settings.command_s,
        max_command_s=settings.max_command_s,
        observation_chars=most,
    )
    tools = Toolset(*(SelectedTools(box, settings.tools) for box in (workbench, index)), observation_chars=most)
    return OutputAlone(tools) if settings.preset == "paper" else tools


async def _header(
    task: Task, base: Base, settings: SearcherSettings, index: Index, tools: Sequence[Tool]
) -> EpisodeHeader:
    prompts = read_prompts(settings.prompts)
    name = re.sub(r"[^\w.-]", "_", task.id, flags=re.A)[:100]
    header = EpisodeHeader(
        task_id=task.id,
        base_commit=task.base_commit,
        root=clean(str(base.repo)),
        issue=task.text,
        language=_language(base) if has_place(prompts.issue, "language") else "",
        shortlist=clean(await asyncio.to_thread(index.shortlist, task.text)) if settings.shortlist else "",
        settings=settings.model_copy(update={"base_url": shown(settings.base_url)}),
        salt=f"{name}-{secrets.token_hex(4)}",
        prompts=prompts,
        prompts_digest=prompts.digest(),
        tools=tuple(ToolSpec(name=t.name, description=t.description, parameters=dict(t.parameters)) for t in tools),
        checkpoint=await asyncio.to_thread(digest, find(settings.checkpoint)) if settings.checkpoint else "",
    )
    # All of it enters the conversation or the trace, and nothing of it is worth a secret.
    known = secrets_of(settings.base_url, settings.key())
    return EpisodeHeader.model_validate(json.loads(redact_json(json.dumps(header.model_dump(mode="json")), known)))


async def _state(
    settings: SearcherSettings, messages: Sequence[Message], tools: Sequence[Tool], trace: Path, socket: Path
) -> tuple[State | None, str]:
    """The hidden state at the end of the last prompt, kept beside the trace; else None, and why in words."""
    if settings.state == "none" or not messages:
        return None, ""
    from scrout.scout.hidden_state.hidden_state import read_state, save

    try:
        state = await read_state(settings, messages, tools, socket=socket)
        save(trace.with_name("state.npz"), state)
    except (ScroutError, OSError) as error:  # the search is done and paid for: its handoff stands
        return None, f"no hidden state: {clean(str(error))}"
    return state, ""


def _scouting(
    header: EpisodeHeader, found: SearchResult, left: LeftFiles, receipts: Sequence[Receipt], remark: str
) -> Scouting:
    handoff = found.handoff
    if handoff.reproduction is not None and handoff.reproduction.command:
        files = {**handoff.reproduction.files, **left.files}
        changed = f"{_CHANGED} {', '.join(left.changed[:10])}" if left.changed else ""
        handoff = handoff.model_copy(
            update={
                "reproduction": handoff.reproduction.model_copy(update={"files": files}),
                "dead_ends": (*handoff.dead_ends, *([changed] if changed else [])),
            }
        )
    handoff = normalize(handoff)
    return Scouting(
        handoff=handoff,
        text=render(handoff, paper=header.settings.preset == "paper"),
        seconds=0,
        cost_usd=total_usd(receipt.cost_usd for receipt in receipts),
        searcher=header.settings.model,
        stop=found.stop,
        detail="; ".join(part for part in (found.detail, remark) if part),
        turns=found.turns,
        receipts=tuple(receipts),
    )


def _command(handoff: Handoff) -> str | None:
    return handoff.reproduction.command if handoff.reproduction else None


def _read(text: str, kind: Kind) -> Handoff | None:
    """The handoff that a text holds; None: it holds none."""
    try:
        return parse(text, kind)
    except HandoffError:
        return None


def _told(talk: Conversation) -> str:
    """What ended it, and what went wrong on the way."""
    wrong = {"malformed turns": talk.malformed, "thoughts": talk.thoughts, "repeated turns": talk.repeats}
    parts = [f"{name}: {number}" for name, number in wrong.items() if number]
    return "; ".join([clean(talk.detail), *parts])


def _with_seed(settings: SearcherSettings) -> SearcherSettings:
    if settings.sampling.seed is not None:
        return settings
    sampling = settings.sampling.model_copy(update={"seed": secrets.randbelow(2**31)})
    return settings.model_copy(update={"sampling": sampling})


def _language(base: Base) -> str:
    """Which most of the repository's files are in; empty: none that is known."""
    return language_of(
        base.git("ls-tree", "-r", "-z", "--name-only", base.commit).decode("utf-8", "replace").split("\0")
    )
