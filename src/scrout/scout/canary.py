"""A few small requests that say, before any episode, whether a server is what the settings take it for. An episode on a
wrong one looks like a bad searcher, and is paid for all the same.

What cannot be told from outside is not claimed: sampling is judged by what comes out, and only greedy against drawn.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Literal
from weakref import WeakKeyDictionary

import httpx
from pydantic import BaseModel, ValidationError

from scrout.agent.dialect import RequestTools
from scrout.agent.dialects import dialect
from scrout.agent.loop import ask
from scrout.base import FrozenModel, ModelError, ScroutError
from scrout.config.folders import data_folder
from scrout.config.settings import Sampling, SearcherSettings
from scrout.models.chat import CallRefused, Chat, Message, Reply, RequestRejected, Tool, certificates, read_body
from scrout.models.proxy.client import open_proxy_client
from scrout.models.unix_socket import SocketTransport
from scrout.money import Receipt, Usd, total_usd
from scrout.scout.account import account_of
from scrout.scout.hidden_state.hidden_state import read_state
from scrout.scout.hidden_state.in_process import Transformers
from scrout.scout.prompting import with_context
from scrout.trajectory import FILE_NAME

TIMEOUT_S = 60.0
WORDS_TOKENS = 48
"""Enough that two draws are hardly ever the same."""
FEW_TOKENS = 16
CALL_DRAWS = 3
SLACK_TOKENS = 8
"""What templates add in a count and not in a prompt, or the other way round."""
ALIKE = 0.99
"""Least cosine of a server's state and transformers'. Between bfloat16 and float32 it is .9999 in SmolLM2."""

BASH = Tool(
    "bash",
    "Runs a shell command in the repository and returns what it prints.",
    {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
)

PROMPT = (Message("system", "You look around in a repository."), Message("user", "The parser drops the last line."))
"""Whose state is looked at."""

PLAIN = RequestTools()

Outcome = Literal["ok", "failed", "note"]
Check = Callable[[], Awaitable[tuple[Outcome, str]]]


class CanaryFinding(FrozenModel):
    """What one check found."""

    name: str
    outcome: Outcome
    """`note`: worth knowing, and no reason to stop."""
    detail: str


class Canary(FrozenModel):
    """All checks, in their order. Those that a failed one makes pointless are left out."""

    model: str
    findings: tuple[CanaryFinding, ...]
    calls: int
    cost_usd: Usd | None = Decimal(0)
    """None: a call's usage or price is not known."""

    @property
    def failed(self) -> str:
        """Why no episode should start, in words; empty: one may."""
        return _failures(self.findings)


async def canary(
    settings: SearcherSettings, *, layer: bool = False, book: Callable[[Receipt], None] = lambda receipt: None
) -> Canary:
    """Check the server of these settings, for no more than they allow an episode. `layer` also loads the checkpoint
    here, and compares the states."""
    receipts: list[Receipt] = []

    def take(receipt: Receipt) -> None:
        receipts.append(receipt)
        book(receipt)

    findings = await _examine(settings, _open_account(settings, take), layer)
    costs = [None if receipt.estimated else receipt.cost_usd for receipt in receipts]
    return Canary(model=settings.model, findings=findings, calls=len(costs), cost_usd=total_usd(costs))


@asynccontextmanager
async def _open_account(settings: SearcherSettings, book: Callable[[Receipt], None]) -> AsyncIterator[Path]:
    """The meter's socket, for checks that belong to no episode."""
    folder = data_folder() / "traces" / f"canary-{secrets.token_hex(4)}"
    async with open_proxy_client(account_of(settings, folder / FILE_NAME), book) as client:
        yield client.socket


_passed: set[SearcherSettings] = set()
# A lock belongs to one event loop, and a process may have several.
_checking: WeakKeyDictionary[asyncio.AbstractEventLoop, defaultdict[SearcherSettings, asyncio.Lock]]
_checking = WeakKeyDictionary()


async def require(settings: SearcherSettings, socket: Path) -> None:
    """Check a server once in a process, through the meter's socket; a ModelError where it is not what the settings take
    it for."""
    # A seed of its own makes no other server.
    server = settings.model_copy(update={"sampling": settings.sampling.model_copy(update={"seed": None})})
    locks = _checking.setdefault(asyncio.get_running_loop(), defaultdict(asyncio.Lock))
    async with locks[server]:
        if server in _passed:
            return
        if failed := _failures(await _examine(server, nullcontext(socket))):
            raise ModelError(f"no episode starts, because {settings.model} does not pass the canary: {failed}")
        _passed.add(server)


async def _examine(
    settings: SearcherSettings, account: AbstractAsyncContextManager[Path], layer: bool = False
) -> tuple[CanaryFinding, ...]:
    """Every check. The account is opened once something answers at the address."""
    try:
        outcome, detail = await _served(settings)
    except ScroutError as error:
        outcome, detail = "failed", str(error)
    served = CanaryFinding(name="model", outcome=outcome, detail=detail)
    if outcome == "failed":
        return (served,)
    async with account as socket:
        return (served, *await _Bird(settings, socket).sing(layer))


def _failures(findings: Iterable[CanaryFinding]) -> str:
    return "; ".join(f"{one.name}: {one.detail}" for one in findings if one.outcome == "failed")


@dataclass(frozen=True)
class _Bird:
    settings: SearcherSettings
    socket: Path
    """The meter's."""

    async def sing(self, layer: bool) -> list[CanaryFinding]:
        checks: dict[str, Check] = {
            "greedy": self._greedy,
            "drawn": self._drawn,
            "max_tokens": self._max_tokens,
            "cache_salt": self._cache_salt,
            "count": self._count,
            "call": self._call,
        }
        if self.settings.state != "none":
            checks["state"] = self._state
        if layer:
            checks["layer"] = self._layer
        findings: list[CanaryFinding] = []
        for name, check in checks.items():
            over = False
            try:
                outcome, detail = await check()
            except ScroutError as error:
                outcome, detail = "failed", str(error)
                # Where not even the first request is answered, no other will be.
                over = name == "greedy"
            except CallRefused as refused:
                outcome, detail, over = "failed", str(refused), True
                if refused.stop == "cap_usd":
                    cap = f"scout.model.cap_usd is {self.settings.cap_usd}"
                    detail = f"{cap}, too little for the rest of the checks. Set it higher."
            findings.append(CanaryFinding(name=name, outcome=outcome, detail=detail))
            if over:
                break
        return findings

    async def _greedy(self) -> tuple[Outcome, str]:
        """Without temperature the same prompt gives the same reply."""
        try:
            replies = [await self._words(Sampling(temperature=0.0)) for _ in range(2)]
        except RequestRejected as error:
            if error.status == 400 and self.settings.sampling.temperature is None:
                return "note", f"the endpoint takes no temperature, so nothing was compared ({error})"
            raise
        if replies[0] != replies[1]:
            return "failed", "two greedy replies to one prompt differ: the server does not take the request's sampling"
        return "ok", "two greedy replies are the same"

    async def _drawn(self) -> tuple[Outcome, str]:
        """With temperature and other seeds they differ."""
        sampling = self.settings.sampling
        if sampling.temperature == 0:
            return "note", "scout.model.sampling.temperature is 0: nothing is drawn"
        replies = [await self._words(sampling.model_copy(update={"seed": seed})) for seed in (1, 2, 3, 1)]
        if len(set(replies[:3])) == 1:
            return "failed", (
                "draws with three seeds are the same: the server overrides the request's sampling. Start it as "
                "`scrout searcher serve` says."
            )
        again = "the same" if replies[0] == replies[3] else "another reply"
        return "ok", f"draws with other seeds differ; the same seed gives {again}"

    async def _max_tokens(self) -> tuple[Outcome, str]:
        """max_tokens is kept."""
        prompt = [Message("user", "Count from 1 to 500, separated by spaces. Write nothing else.")]
        reply = await self._ask(prompt, Sampling(temperature=0.0), FEW_TOKENS)
        written = reply.usage.output_tokens if reply.usage else None
        if written is None:
            return "note", "the endpoint reports no usage: what a reply costs is only estimated"
        if written > FEW_TOKENS:
            return "failed", f"a reply of at most {FEW_TOKENS} tokens has {written}: max_tokens is not kept"
        if reply.finish_reason != "length":
            return "note", f"a reply that must be cut ended with {reply.finish_reason!r} after {written} tokens"
        return "ok", f"a reply was cut at {written} tokens"

    async def _cache_salt(self) -> tuple[Outcome, str]:
        """A salt is taken, and another salt shares nothing."""
        if not self.settings.cache_salt:
            return "note", "scout.model.cache_salt is off: episodes may share cached prompts"
        prompt = [Message("user", f"{'The same long beginning. ' * 40}Say yes.")]
        for _ in range(2):
            reply = await self._ask(prompt, Sampling(temperature=0.0), FEW_TOKENS, f"canary-{secrets.token_hex(4)}")
            if reply.usage and reply.usage.cache_read_tokens:
                shared = reply.usage.cache_read_tokens
                return "failed", f"{shared} tokens of a salted prompt came from a cache: cache_salt has no effect"
        return "ok", "accepted"

    async def _count(self) -> tuple[Outcome, str]:
        """The server's tokenizer counts what it then reads."""
        prompt = [Message("system", "You answer in one word."), Message("user", "Is 7 prime?\n\t- yes\n\t- no")]
        async with self._chat(Sampling(temperature=0.0)) as chat:
            counted = await chat.count(prompt, ())
            reply = await ask(chat, prompt, PLAIN, FEW_TOKENS)
        if counted is None:
            return "note", "the server does not count tokens: scout.model.tokenizer, or a safe estimate, is used"
        if reply.usage is None:
            return "note", f"the server counts {counted} tokens and reports no usage to compare with"
        read = reply.usage.input_tokens + reply.usage.cache_read_tokens + reply.usage.cache_write_tokens
        if abs(counted - read) > SLACK_TOKENS:
            return "failed", f"the server counts {counted} tokens for a prompt that it then reads as {read}"
        return "ok", f"counted {counted}, read {read}"

    async def _call(self) -> tuple[Outcome, str]:
        """A known prompt gives a call that can be run."""
        form = dialect(self.settings.dialect)
        offer = form.offer([BASH])
        said = f"You look around in a repository.\n\n{form.explain([BASH])}".strip()
        prompt = [Message("system", said), Message("user", "Which files are in this folder? Use bash to run ls.")]
        text = ""
        for seed in range(1, CALL_DRAWS + 1):
            sampling = self.settings.sampling.model_copy(update={"seed": seed})
            async with self._chat(sampling) as chat:
                reply = await ask(chat, prompt, offer, self.settings.max_tokens)
            turn = form.parse(replace(reply, text=with_context(reply.text)))
            for call in turn.calls:
                command = call.arguments.get("command")
                if call.name == BASH.name and isinstance(command, str) and command.strip() and not call.problem:
                    return "ok", f"{form.name}: {command.strip().splitlines()[0][:60]}"
            text = turn.problem or turn.text
        return "failed", (
            f"{CALL_DRAWS} replies hold no call of bash in the dialect {form.name!r}. Try another scout.model.dialect. "
            f"The last says {text.strip()[:120]!r}"
        )

    async def _state(self) -> tuple[Outcome, str]:
        """There is a hidden state, finite and of the right size."""
        state = await read_state(self.settings, PROMPT, socket=self.socket)
        return "ok", f"{len(state.vector):,} numbers in {state.space}"

    async def _layer(self) -> tuple[Outcome, str]:
        """It is of the right layer: transformers gets the same from the same weights."""
        if self.settings.state not in ("vllm", "sglang"):
            return "note", f"scout.model.state is {self.settings.state!r}: there is no server's state to compare"
        served = await read_state(self.settings, PROMPT, socket=self.socket)
        own = Transformers(self.settings.checkpoint, self.settings.state_layer)
        nearest, cosine = await own.nearest(served, PROMPT)
        if nearest.space != served.space or cosine < ALIKE:
            return "failed", (
                f"the server's state of {served.space} is most like transformers' of {nearest.space} (cosine "
                f"{cosine:.4f}): it gives another layer or token, or runs other weights"
            )
        return "ok", f"most like transformers' own of the same layer, cosine {cosine:.4f}"

    async def _words(self, sampling: Sampling) -> str:
        prompt = [Message("user", "Write a list of random English nouns, separated by spaces. Write nothing else.")]
        reply = await self._ask(prompt, sampling, WORDS_TOKENS)
        return reply.text + reply.reasoning

    async def _ask(self, messages: Sequence[Message], sampling: Sampling, max_tokens: int, salt: str = "") -> Reply:
        async with self._chat(sampling, salt) as chat:
            return await ask(chat, messages, PLAIN, max_tokens)

    def _chat(self, sampling: Sampling, salt: str = "") -> Chat:
        settings, way = self.settings, SocketTransport(self.socket, self.settings.base_url)
        return Chat(
            settings.base_url,
            settings.model,
            settings.key(),
            TIMEOUT_S,
            sampling=sampling,
            cache_salt=salt,
            transport=way,
        )


async def _served(settings: SearcherSettings) -> tuple[Outcome, str]:
    """Reachable, and serving the right model with a context that is long enough."""
    key = settings.key()
    headers = {"accept-encoding": "identity", **({"authorization": f"Bearer {key}"} if key else {})}
    try:
        async with httpx.AsyncClient(verify=certificates(), timeout=TIMEOUT_S) as client:
            url = httpx.URL(settings.base_url)
            url = url.copy_with(path=f"{url.path.rstrip('/')}/models")
            async with client.stream("GET", url, headers=headers) as response:
                body = await read_body(response) or b""
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        return "failed", f"the endpoint cannot be reached ({type(error).__name__}). Is the server running?"
    try:
        listed = _Models.model_validate_json(body).data
    except ValidationError:
        return "note", f"the endpoint does not list its models (status {response.status_code})"
    mine = next((model for model in listed if model.id == settings.model), None)
    if mine is None:
        names = ", ".join(model.id for model in listed[:5]) or "none"
        return "failed", f"the endpoint serves {names}, and scout.model.model is {settings.model!r}"
    if mine.max_model_len is not None and mine.max_model_len < settings.context_tokens:
        return "failed", (
            f"the server's context is {mine.max_model_len:,} tokens, and scout.model.context_tokens is "
            f"{settings.context_tokens:,}. Set that lower, or serve it with more."
        )
    return "ok", f"{settings.model} is served"


class _Model(BaseModel):
    id: str
    max_model_len: int | None = None
    """vLLM and SGLang say it, others do not."""


class _Models(BaseModel):
    data: list[_Model]
