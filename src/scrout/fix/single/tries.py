"""Requests answers one after the other, checks each, and keeps the best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrout.agent.tools import drop_middle
from scrout.check.check import check
from scrout.config.settings import Sampling
from scrout.fix.kind import ENDPOINT, ModelJob
from scrout.fix.prompt import fill, mark, reproduction_text
from scrout.fix.single.edits import UnusableAnswer, apply_answer
from scrout.fix.single.excerpts import Excerpt, pack
from scrout.models.chat import Chat, Message
from scrout.models.unix_socket import SocketTransport
from scrout.records import Attempt, Check, GatedHandoff
from scrout.text import plural

if TYPE_CHECKING:
    from scrout.fix.kinds.single import SingleFixer

CHARACTERS_PER_TOKEN = 3
"""Conservative estimate for code and prose together."""
RANKS = ("passed", "unverified", "doubtful", "failed", "no_patch")
"""Verdicts of the check, best first."""


@dataclass(frozen=True)
class Candidate:
    """One usable answer."""

    texts: dict[str, str]
    """The changed files."""
    about: str
    """The function that was shown first."""
    check: Check


class Tries:
    """The answers so far.

    The workspace holds the best one, so that it is submitted for whatever reason the attempt ends.
    """

    def __init__(self, fixer: SingleFixer, job: ModelJob, gated: GatedHandoff) -> None:
        self.number = 0
        self.best: Candidate | None = None
        self._problem = ""
        self._fixer = fixer
        self._job = job
        self._gated = gated
        self._touched: set[str] = set()

    @property
    def summary(self) -> str:
        tried = plural(self.number, "answer")
        if self.best is None:
            return f"{tried} tried, none usable: {self._problem}" if self._problem else f"{tried} tried"
        return (
            f"{tried} tried; the one about {self.best.about} is taken, which the check calls {self.best.check.outcome}"
        )

    async def one(self, order: list[Excerpt], temperature: float) -> None:
        """Request an answer, check it, and keep it if it is the best."""
        self.number += 1
        self._job.given.progress(f"{self._fixer.name}: answer {self.number}, about {order[0].title}")
        messages, shown = self._prompt(order)
        read = self._job.task_sandbox.base.read
        # Bytes that are not valid UTF-8 stay the same.
        texts = {one.path: (read(one.path) or b"").decode("utf-8", "surrogateescape") for one in shown}
        changed = await self._ask(messages, shown, texts, temperature)
        if changed is None:
            return
        found = Candidate(changed, shown[0].title, await self._check(changed))
        if self.best is None or RANKS.index(found.check.outcome) < RANKS.index(self.best.check.outcome):
            self.best = found
        self._put(self.best.texts)

    async def _ask(
        self, messages: list[Message], shown: list[Excerpt], texts: dict[str, str], temperature: float
    ) -> dict[str, str] | None:
        """The changed files, with one retry for an unusable answer; None: the retry was unusable too."""
        fixer = self._fixer
        sampling = Sampling(temperature=temperature)
        transport = SocketTransport(self._job.socket)
        async with Chat(
            ENDPOINT,
            fixer.model,
            None,
            fixer.cap_seconds,  # a model on a CPU may need minutes for an answer
            effort=fixer.effort,
            sampling=sampling,
            transport=transport,
        ) as chat:
            for _ in range(2):
                reply = await chat.complete(messages, (), fixer.max_tokens)
                try:
                    return apply_answer(reply.text, shown, texts)
                except UnusableAnswer as error:
                    self._problem = str(error)
                    again = fill("single_again.md", problem=self._problem)
                    messages = [*messages, Message("assistant", reply.text), Message("user", again)]
        return None

    def _prompt(self, order: list[Excerpt]) -> tuple[list[Message], list[Excerpt]]:
        room = self._fixer.prompt_tokens * CHARACTERS_PER_TOKEN
        issue = drop_middle(self._job.given.task.text, room // 4)
        reproduction = drop_middle(reproduction_text(self._gated), room // 4)
        form = fill(f"single_{self._fixer.form}.md")
        room -= len(issue) + len(reproduction) + len(form)
        shown, code = pack(order, self._job.task_sandbox.base.read, room)
        text = fill("single_task.md", issue=issue, mark=mark(issue), reproduction=reproduction, code=code, form=form)
        return [Message("system", fill("single_system.md")), Message("user", text)], shown

    async def _check(self, changed: dict[str, str]) -> Check:
        reproduction = self._gated.handoff.reproduction
        self._put(changed)
        patch = await self._job.task_sandbox.diff(
            self._job.workspace, without=tuple(reproduction.files) if reproduction else ()
        )
        self._job.given.progress(f"{self._fixer.name}: checking answer {self.number}")
        found = Attempt(fixer=self._fixer.name, patch=patch, stop="finished", detail="", seconds=0)
        given = self._job.given
        return await check(given.task.text, given.gated, found, self._job.task_sandbox)

    def _put(self, texts: dict[str, str]) -> None:
        """Write these files into the workspace, and restore all others that an answer has changed."""
        base, workspace = self._job.task_sandbox.base, self._job.workspace
        for path in self._touched - set(texts):
            workspace.write(path, base.read(path) or b"")
        for path, text in texts.items():
            workspace.write(path, text.encode("utf-8", "surrogateescape"))
        self._touched = set(texts)
