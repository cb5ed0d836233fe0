"""An attempt of a fixer with a model: it works behind the meter, and the changes in its workspace are its patch.

For whatever reason a fixer stops, its current diff is its submission, and its payments are recorded. The meter enforces
the caps. At a cap, or when its time is over, the fixer is stopped from outside without notice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path

from scrout.agent.loop import ENDPOINT_STATUSES
from scrout.base import ConfigError, ModelError, SandboxError
from scrout.config.folders import data_folder
from scrout.config.settings import Fixer, Settings, read_key
from scrout.fix import prompt
from scrout.fix.kind import Ended, FixJob, ModelFixer, ModelJob
from scrout.fix.pool import unpriced
from scrout.models import local_models
from scrout.models.proxy.caps import Account
from scrout.models.proxy.client import ProxyClient, open_proxy_client
from scrout.money import Receipt, total_usd
from scrout.records import Attempt, GatedHandoff
from scrout.sandbox.task_sandbox import TaskSandbox
from scrout.sandbox.workspace import Workspace
from scrout.text import usd
from scrout.trajectory import FILE_NAME

HUNG_S = 120.0
"""At the time limit, an endpoint that has been silent for this long has hung; if the limit is short, half of it
counts.
"""


async def attempt(fixer: ModelFixer, job: FixJob) -> Attempt:
    """Let a fixer with a model try."""
    account = account_of(fixer, job.settings, job.folder / FILE_NAME, job.cap_usd)
    fixer.refuse(job.task_sandbox)
    started = time.monotonic()
    given = prompt.limit_handoff(job.gated, job.mode)
    paid: list[Receipt] = []
    workspace = job.task_sandbox.fresh()
    try:
        for path, content in _materialized(given).items():
            workspace.write(path, content.encode())
        ended = _refusal(fixer)
        if ended is None:
            text = prompt.build_prompt(job.task, given)
            ended = await _work(fixer, job, text, account, workspace, _with_progress(fixer, job, account, paid))
        patch, ended = await _diff(fixer, given, workspace, job.task_sandbox, ended)
    finally:
        workspace.remove()
    return Attempt(
        fixer=fixer.name,
        patch=patch,
        stop=ended[0],
        detail=ended[1],
        seconds=round(time.monotonic() - started, 3),
        calls=len(paid),
        cost_usd=total_usd(receipt.cost_usd for receipt in paid),
        receipts=tuple(paid),
        handoff=job.mode,
        trace="" if paid == [] and ended[0] == "endpoint" else str(job.folder),
    )


async def _work(
    fixer: ModelFixer,
    job: FixJob,
    text: str,
    account: Account,
    workspace: Workspace,
    take: Callable[[Receipt], None],
) -> Ended:
    try:
        async with served(fixer, account) as account, open_proxy_client(account, take) as proxy_endpoint:
            working = fixer.work(ModelJob(text, workspace, proxy_endpoint.socket, job))
            ended = await _until_a_cap(working, proxy_endpoint, fixer.cap_seconds)
    except ModelError as error:  # the meter's own errors: errors of an endpoint become the agent's stop
        return "endpoint", str(error)
    return _attribute_stop(ended, proxy_endpoint, fixer.cap_seconds)


@asynccontextmanager
async def served(fixer: Fixer, account: Account) -> AsyncIterator[Account]:
    """The account, with the URL of a local server if the fixer names a model file."""
    if not fixer.model_file:
        yield account
        return
    async with local_models.serve(fixer.model_file, fixer.context_tokens, fixer.threads) as (base_url, key):
        yield account.model_copy(update={"base_url": base_url, "key": key})


def account_of(fixer: Fixer, settings: Settings, trajectory: Path, cap_usd: Decimal | None = None) -> Account:
    """The meter's account for this attempt. Raises a ConfigError if a dollar cap cannot hold without a price."""
    if fixer.price is None and not fixer.subscription:
        raise ConfigError(unpriced(fixer))
    return Account(
        fixer=fixer.name,
        model=fixer.model,
        base_url=fixer.base_url,
        key=read_key(fixer.key_env),
        auth=fixer.auth,
        price=fixer.price,
        cap_usd=None if not fixer.max_cost_usd else min(fixer.cap_usd, fixer.cap_usd if cap_usd is None else cap_usd),
        cap_calls=fixer.cap_calls,
        rule=settings.fix.caps,
        trajectory=str(trajectory),
        outputs=str(data_folder() / "outputs.json"),
        extra=fixer.extra,
    )


def _refusal(fixer: Fixer) -> Ended | None:
    """Why no call can be made, if that is known in advance."""
    key = read_key(fixer.key_env)
    if key == "":
        return "endpoint", f"fixer {fixer.name!r} needs a key: the variable {fixer.key_env} is not set. Export it."
    if key and not all("!" <= character <= "~" for character in key):
        return "endpoint", f"the key in {fixer.key_env} holds characters that no header can carry. Export it again."
    return None


def _materialized(given: GatedHandoff) -> dict[str, str]:
    reproduction = given.handoff.reproduction
    return dict(reproduction.files) if reproduction else {}


def _with_progress(fixer: Fixer, job: FixJob, account: Account, paid: list[Receipt]) -> Callable[[Receipt], None]:
    """Stores and records receipts, and reports the budget that is used."""

    def take(receipt: Receipt) -> None:
        paid.append(receipt)
        job.record(receipt)
        spent = total_usd(one.cost_usd for one in paid)
        money = "unpriced" if spent is None else usd(spent)
        of = "" if account.cap_usd is None else f" of {usd(account.cap_usd)}"
        job.progress(f"{fixer.name}: {len(paid)} of {account.cap_calls} calls, {money}{of}")

    return take


async def _until_a_cap(working: Coroutine[None, None, Ended], proxy_endpoint: ProxyClient, limit_s: float) -> Ended:
    work = asyncio.ensure_future(working)
    try:
        await asyncio.wait({work, proxy_endpoint.ended}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        if proxy_endpoint.ended.done():
            return proxy_endpoint.ended.result()
        return work.result() if work.done() else ("timeout", f"not done after {limit_s:g} s")
    except SandboxError as error:
        return "crashed", str(error)
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


def _attribute_stop(ended: Ended, proxy_endpoint: ProxyClient, limit_s: float) -> Ended:
    """Attribute the stop to the endpoint if it failed the agent's last call, unless the request was the problem."""
    if ended[0] == "timeout" and proxy_endpoint.silent_s >= min(HUNG_S, limit_s / 2):
        return "endpoint", f"{ended[1]}, the last {proxy_endpoint.silent_s:.0f} s without a word from the endpoint"
    if ended[0] not in ("finished", "crashed", "endpoint") or not proxy_endpoint.fault:
        return ended
    if proxy_endpoint.fault_own and ended[0] == "finished":
        return ended  # an agent that continues after a rejected call has not failed
    status = proxy_endpoint.fault_status
    sent = (
        bool(proxy_endpoint.receipts) and status is not None and 400 <= status < 500 and status not in ENDPOINT_STATUSES
    )
    return ("crashed" if sent else "endpoint"), proxy_endpoint.fault


async def _diff(
    fixer: ModelFixer, given: GatedHandoff, workspace: Workspace, task_sandbox: TaskSandbox, ended: Ended
) -> tuple[str, Ended]:
    leftovers = (path for path in fixer.leftovers() if not task_sandbox.base.has(path))
    try:
        # The reproduction's files were added for the fixer; they are not part of the fix.
        return await task_sandbox.diff(workspace, without=(*_materialized(given), *leftovers)), ended
    except SandboxError as error:
        return "", ("crashed", str(error))
