"""The built-in fixer: one model and a shell, on the turn loop that the searcher uses too."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from scrout.config.settings import ChatApi
from scrout.fix.kind import ENDPOINT, Ended, ModelFixer, ModelJob

if TYPE_CHECKING:
    from scrout.sandbox.tier import Completed


class AgentFixer(ModelFixer):
    kind: Literal["agent"] = "agent"
    max_tokens: int = Field(default=4096, ge=1)
    """Output limit of one call."""

    api: ClassVar[ChatApi] = "chat"

    async def work(self, job: ModelJob) -> Ended:
        from scrout.agent.loop import ConversationTerms, converse
        from scrout.agent.tools import Bash, Toolset
        from scrout.fix.prompt import fill
        from scrout.models.chat import Chat, Message
        from scrout.models.unix_socket import SocketTransport

        longest_s = job.task_sandbox.limits.timeout_s
        opening = (Message("system", fill("system.md")), Message("user", job.prompt))
        terms = ConversationTerms(self.max_tokens, self.cap_seconds)
        async with job.task_sandbox.session(job.workspace) as session:

            async def shell(command: str, timeout_s: float) -> Completed:
                job.given.progress(f"{self.name}: {command.strip().splitlines()[0][:80]}")
                return await session.shell(command, timeout_s=timeout_s)

            toolbox = Toolset(Bash(shell, longest_s, longest_s))
            transport = SocketTransport(job.socket)
            async with Chat(ENDPOINT, self.model, None, effort=self.effort, transport=transport) as chat:
                done = await converse(chat, opening, toolbox, terms)
        return done.stop, done.detail


PART = AgentFixer
