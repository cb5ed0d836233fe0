"""Between the episode and the model: what it is told, in which words, and how its paths are read."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace

from scrout.agent.dialect import Dialect, Toolbox, ToolUse, Turn
from scrout.models.chat import Message, Reply
from scrout.scout.prompts import Prompts, fill, has_place
from scrout.scout.trace import EpisodeHeader

MAX_PROBLEM_CHARS = 300
_HANDOFF = re.compile(r"^[ \t]*</?(?:files|repro|notes)[ \t]*(?:>|$)", re.A | re.I | re.M)
_THOUGHTS = re.compile(r"\A(?:\s*<think>.*?(?:</think>|\Z))+", re.S)
_LINE_ENDS = re.compile(r"[ \t\r]*(?:\n|\Z)")
_STATUS = re.compile(r"\A\[exit code [0-9]+\]\n")
_SHORTLIST = "An index ranks these files for the report, by names and words alone. It is a start, not a finding:"


def holds_handoff(text: str) -> bool:
    """Whether a text has a block of a handoff, or what is left of one."""
    return _HANDOFF.search(text) is not None


def with_context(text: str) -> str:
    """A reply without the thoughts that some models write before it, which may hold drafts of calls and handoffs."""
    head, end, rest = text.partition("</think>")
    # Some templates open the thoughts themselves. Within a line it is more likely a word of a command.
    if end and "<think>" not in head and _LINE_ENDS.match(rest):
        text = rest
    thoughts = _THOUGHTS.match(text)
    return text[thoughts.end() :] if thoughts else text


class TracedTools:
    """A dialect that knows a handoff from a call, hears no thoughts, and reads paths below the repository's root as
    relative ones."""

    def __init__(self, inner: Dialect, root: str) -> None:
        self.name, self.explain, self.offer = inner.name, inner.explain, inner.offer
        self.render, self.answer = inner.render, inner.answer
        self._inner = inner
        # At the start of a line, or of a JSON string.
        self._root = re.compile(rf'(?m)(^[ \t]*(?:[-*+][ ])?`?|"){re.escape(root)}/')

    def parse(self, reply: Reply) -> Turn:
        reply, at_home = replace(reply, text=with_context(reply.text)), self.heard(reply)
        # Notes may quote a call. The word at the end says that none is meant.
        if not reply.calls and at_home.rstrip().endswith("STOP") and holds_handoff(at_home):
            return Turn(at_home)
        turn = self._inner.parse(reply)
        return turn if turn.calls else self._inner.parse(replace(reply, text=at_home))

    def heard(self, reply: Reply) -> str:
        """The whole reply as text, calls and all."""
        return self._root.sub(r"\1", with_context(reply.text))


class Prompting:
    """What the model is told besides the tools' answers."""

    def __init__(self, header: EpisodeHeader) -> None:
        self.header = header
        self.paper = header.settings.preset == "paper"
        # The released searcher was trained on its prompts to the last byte.
        texts = header.prompts.model_dump().items()
        self.prompts = header.prompts if self.paper else Prompts(**{name: text.strip() for name, text in texts})

    def opening(self, dialect: Dialect) -> tuple[Message, ...]:
        header, prompts = self.header, self.prompts
        shortlist = header.shortlist and f"{_SHORTLIST}\n{header.shortlist}"
        issue = fill(
            prompts.issue,
            issue=header.issue,
            mark=_mark(header.issue),
            root=header.root,
            language=header.language,
            shortlist=shortlist,
        )
        if not has_place(prompts.issue, "issue"):
            issue = f"{issue.rstrip()}\n\n{header.issue}"
        if shortlist and not has_place(prompts.issue, "shortlist"):
            issue = f"{issue.rstrip()}\n\n{shortlist}"
        system = fill(prompts.system, tools=dialect.explain(header.offered()))
        return Message("system", system), Message("user", issue)

    def forced(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """All that was said, and the demand."""
        demand, last = self.prompts.forced, messages[-1]
        if self.paper or last.role != "user":
            return (*messages, Message("user", demand))
        # Chat templates that want the roles to alternate take no second message of the user's.
        return (*messages[:-1], replace(last, content=f"{last.content}\n\n{demand}"))

    def complain(self, problem: str) -> str:
        return self.observed(fill(self.prompts.malformed, problem=problem[:MAX_PROBLEM_CHARS]))

    def acknowledge(self) -> str:
        return self.observed(self.prompts.thought)

    def observed(self, text: str) -> str:
        """As it is; for the released searcher as it knows it from its training."""
        return text if not self.paper or text.startswith("OBSERVATION:") else f"OBSERVATION:\n{text}"


class Observing:
    """A toolbox whose answers look as the model expects them to."""

    def __init__(self, inner: Toolbox, voice: Prompting) -> None:
        self.tools = inner.tools
        self._inner = inner
        self._voice = voice

    async def use(self, call: ToolUse) -> str:
        return self._voice.observed(await self._inner.use(call))


class OutputAlone:
    """A toolbox whose shell tells what a command wrote, and nothing else: so it was shown to the released searcher."""

    def __init__(self, inner: Toolbox) -> None:
        self.tools = inner.tools
        self._inner = inner

    async def use(self, call: ToolUse) -> str:
        answer = await self._inner.use(call)
        return _STATUS.sub("", answer) if call.name == "bash" else answer


def _mark(text: str) -> str:
    """A word that the text cannot hold by design, so that it cannot pretend to end its own block."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
