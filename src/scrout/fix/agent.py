"""The built-in model fixer: one model and a shell, on the turn loop that the searcher uses too.

It changes files through its tools and says how it ended. Caps, receipts and the diff are the caller's part.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from scrout.agent.loop import UNCOUNTED, ConversationTerms, converse
from scrout.agent.tools import Bash, Toolset
from scrout.config.settings import Fixer
from scrout.fix.prompt import fill
from scrout.models.chat import Chat, Message
from scrout.models.unix_socket import SocketTransport
from scrout.money import Budget
from scrout.records import Stop
from scrout.sandbox.task_sandbox import TaskSandbox
from scrout.sandbox.tier import Completed
from scrout.sandbox.workspace import Workspace

ENDPOINT = "http://meter/v1"
"""The host's name is of no account: the connection goes through the meter's socket."""


async def work(
    fixer: Fixer,
    text: str,
    socket: Path,
    workspace: Workspace,
    task_sandbox: TaskSandbox,
    progress: Callable[[str], None],
) -> tuple[Stop, str]:
    """Let the fixer's model work in the workspace until it is done; how that ended, and in words."""
    longest_s = task_sandbox.limits.timeout_s
    opening = (Message("system", fill("system.md")), Message("user", text))
    terms = ConversationTerms(UNCOUNTED, fixer.max_tokens, fixer.cap_seconds, "fix", fixer.name)
    transport = SocketTransport(socket)
    async with task_sandbox.session(workspace) as session:

        async def shell(command: str, timeout_s: float) -> Completed:
            progress(f"{fixer.name}: {command.strip().splitlines()[0][:80]}")
            return await session.shell(command, timeout_s=timeout_s)

        toolbox = Toolset(Bash(shell, longest_s, longest_s))
        async with Chat(ENDPOINT, fixer.model, None, effort=fixer.effort, transport=transport) as chat:
            done = await converse(chat, opening, toolbox, Budget(None, None), terms)
    return done.stop, done.detail
