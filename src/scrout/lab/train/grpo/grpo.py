"""GRPO on real episodes: draw a group for each of some tasks, compare within the groups, move the adapter, repeat.

A run is a folder (run_folder.py). A step counts once its line is in steps.jsonl. One that was interrupted is done again
from the state before it and the episodes that are there, which on a CPU gives the same weights to the bit.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import httpx

from scrout.base import ConfigError, FrozenModel, ModelError
from scrout.batch.repositories import Repositories
from scrout.batch.task_formats import TaskRow
from scrout.config.settings import SearcherSettings, Settings
from scrout.files import lock_folder
from scrout.lab.train.blocklist import refuse_blocked
from scrout.lab.train.episodes import digest_tasks, with_gold
from scrout.lab.train.grpo.exchanges import read_exchanges, tokenize_exchanges
from scrout.lab.train.grpo.reward import advantages
from scrout.lab.train.grpo.rollouts import Rollout, Rollouts
from scrout.lab.train.grpo.run_folder import GrpoCard, GrpoFolder, GrpoSettings, GrpoStep, disk_errors
from scrout.lab.train.tokenization import ChatTokenizer, Document, needs_extra
from scrout.models.chat import shown
from scrout.sandbox.probe import require_tier
from scrout.scout.hidden_state.checkpoint import digest
from scrout.scout.trace import Recorded

Sync = Literal["vllm", "none"]

SYNC_S = 300.0
"""For a server to load an adapter."""
MAX_EXCERPT = 300
_PER_CALL = ("base_url", "key_env", "price", "cap_usd", "episode_s", "cache_salt")
"""Settings of the searcher that may differ from call to call."""


class GrpoResult(FrozenModel):
    """A run as far as it has come."""

    adapter: str
    """Folder of the newest one."""
    tasks: int
    left_out: int
    """Rows without known files of the fix."""
    steps: tuple[GrpoStep, ...]


@dataclass(frozen=True)
class _Batch:
    """What one step learns from."""

    documents: tuple[tuple[Document, float], ...]
    """Each with its episode's advantage."""
    used: int
    flat: int
    lost: dict[str, str]
    unfit: Counter[str]


async def train(
    checkpoint: Path,
    rows: Sequence[TaskRow],
    out: Path,
    settings: Settings,
    repositories: Repositories,
    run: GrpoSettings,
    *,
    steps: int,
    adapter: Path | None = None,
    server: Sync = "vllm",
    device: str = "auto",
    parallel: int = 4,
    progress: Callable[[str], None] = lambda words: None,
) -> GrpoResult:
    """Train until `steps` steps are done, those of earlier calls included."""
    with needs_extra():
        from scrout.lab.train.grpo.learner import Learner, loss_tokens
    settings = _for_drawing(settings, server)
    searcher = settings.scout.model
    searcher.key()  # said before the work, not after it
    usable = with_gold(rows)
    refuse_blocked(name for row in usable for name in (row.repo, row.id))
    template = ChatTokenizer.load(checkpoint)
    with disk_errors(out), lock_folder(out):
        folder = GrpoFolder(out)
        folder.open(_card(checkpoint, adapter, usable, searcher, run))
        done = folder.steps.read()
        tier = require_tier(settings.sandbox)
        rollouts = Rollouts(out, settings, tier, repositories, run, parallel, progress)
        progress("loading the checkpoint")
        first = folder.is_new(len(done))
        start = adapter if first else folder.adapter(len(done))
        learner = Learner.load(checkpoint, start, run, searcher.sampling.temperature or 1.0, device)
        if first:
            folder.save(0, learner)
        else:
            folder.restore(len(done), learner)
        for step in range(len(done), steps):
            if server == "vllm":
                progress(f"step {step + 1}: the server loads the adapter")
                await load_adapter(searcher, folder.adapter(step))
            started = time.monotonic()
            groups = await rollouts.collect(step, _tasks_of(step, usable, run), folder.adapter(step).name)
            drawn = time.monotonic()
            batch = _batch(out, groups, template)
            progress(f"step {step + 1}: learning from {len(batch.documents)} conversations")
            moved, norm = learner.update(batch.documents) if batch.documents else (0.0, 0.0)
            folder.save(step + 1, learner)
            record = GrpoStep(
                step=step + 1,
                **_rewards(groups),
                groups_used=batch.used,
                groups_flat=batch.flat,
                lost={**batch.lost, **rollouts.lost},
                unfit=dict(batch.unfit),
                documents=len(batch.documents),
                tokens=sum(loss_tokens(document) for document, _ in batch.documents),
                loss=moved,
                norm=norm,
                rollout_seconds=round(drawn - started, 3),
                learning_seconds=round(time.monotonic() - drawn, 3),
            )
            folder.steps.append(record)
            folder.clear(step + 1)
            done.append(record)
        return GrpoResult(
            adapter=str(folder.adapter(len(done))),
            tasks=len(usable),
            left_out=len(rows) - len(usable),
            steps=tuple(done),
        )


async def load_adapter(searcher: SearcherSettings, adapter: Path) -> None:
    """Have the rollout server draw with this adapter from now on, under the name that episodes ask for."""
    url, key = f"{searcher.base_url.rstrip('/')}/load_lora_adapter", searcher.key()
    body = {"lora_name": searcher.model, "lora_path": str(adapter), "load_inplace": True}
    where = f"the rollout server at {shown(searcher.base_url)}"
    try:
        async with httpx.AsyncClient(timeout=SYNC_S) as client:
            answer = await client.post(url, json=body, headers={"authorization": f"Bearer {key}"} if key else {})
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ModelError(
            f"{where} did not load {adapter.name} ({type(error).__name__}). Start it, and repeat the command: it goes "
            "on where it was."
        ) from None
    if answer.status_code != 200:
        said = " ".join(answer.text.split())[:MAX_EXCERPT]
        raise ModelError(
            f"{where} did not load {adapter.name}: status {answer.status_code}. vLLM wants --enable-lora, "
            f"--max-lora-rank and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True; --sync none leaves the server as it is. It "
            f"said: {said}"
        )


def _for_drawing(settings: Settings, server: Sync) -> Settings:
    """The settings with episodes drawn from the model's own probabilities, which are what is learned on."""
    if not settings.scout.has_model:
        raise ConfigError("scout.searcher is recon, which has no weights. Name the server under scout.model.")
    sampling = settings.scout.model.sampling
    neutral = {"top_p": (1,), "top_k": (-1, 0), "repetition_penalty": (1,), "presence_penalty": (0,)}
    for key, values in {**neutral, "frequency_penalty": (0,)}.items():
        if (value := getattr(sampling, key)) not in (None, *values):
            raise ConfigError(
                f"scout.model.sampling.{key} is {value:g}: tokens would be drawn with other probabilities than those "
                f"that are learned. Set it to {values[0]}."
            )
    if sampling.temperature == 0:
        raise ConfigError(
            "scout.model.sampling.temperature is 0: a group would be one episode many times. Set it to 1."
        )
    filled = {
        "temperature": 1.0 if sampling.temperature is None else sampling.temperature,
        "top_p": 1.0,
        "return_token_ids": server == "vllm",
    }
    drawn: dict[str, object] = {"sampling": sampling.model_copy(update=filled), "state": "none"}
    if server == "vllm":
        # A server that shares prefixes between requests may know them by the adapter's name, which stays the same.
        drawn["cache_salt"] = True
    model = settings.scout.model.model_copy(update=drawn)
    return settings.model_copy(update={"scout": settings.scout.model_copy(update={"model": model})})


def _card(
    checkpoint: Path, adapter: Path | None, rows: Sequence[TaskRow], searcher: SearcherSettings, run: GrpoSettings
) -> GrpoCard:
    return GrpoCard(
        checkpoint=digest(checkpoint),
        adapter=digest(adapter) if adapter else "",
        tasks=digest_tasks(rows),
        searcher=searcher.model_dump(mode="json", exclude=set(_PER_CALL)),
        # The memory of a machine decides it, and the result does not depend on it.
        settings=run.model_copy(update={"chunk_tokens": GrpoSettings().chunk_tokens}),
    )


def _tasks_of(step: int, rows: Sequence[TaskRow], run: GrpoSettings) -> list[TaskRow]:
    """The tasks of a step: all take turns, in an order of their own in each round."""
    chosen = []
    for place in range(step * run.tasks_per_step, (step + 1) * run.tasks_per_step):
        round_, at = divmod(place, len(rows))
        order = random.Random(f"{run.seed}/{round_}").sample(rows, len(rows))
        chosen.append(order[at])
    return list({row.id: row for row in chosen}.values())


def _batch(out: Path, groups: Mapping[str, Sequence[Rollout]], template: ChatTokenizer) -> _Batch:
    """What the groups teach: the documents of each episode that was better or worse than its group."""
    found: list[tuple[Document, float]] = []
    unfit: Counter[str] = Counter()
    lost: dict[str, str] = {}
    used = flat = 0
    for task, group in groups.items():
        rewarded = [(rollout, rollout.reward.total) for rollout in group if rollout.reward is not None]
        if len(rewarded) < 2:
            lost[task] = next((rollout.problem for rollout in group if rollout.problem), "")
            continue
        better = advantages([total for _, total in rewarded])
        if better is None:
            flat += 1
            continue
        used += 1
        for (rollout, _), advantage in zip(rewarded, better, strict=True):
            parts, problems = tokenize_exchanges(read_exchanges(Recorded(out / rollout.trace)), template)
            unfit.update(problems)
            found += ((part, advantage) for part in parts if part.loss_mask[1:].any())
    return _Batch(tuple(found), used, flat, lost, unfit)


def _rewards(groups: Mapping[str, Sequence[Rollout]]) -> dict[str, Any]:
    rollouts = [rollout for group in groups.values() for rollout in group]
    rewards = [rollout.reward for rollout in rollouts if rollout.reward is not None]
    values = {name: [value for one in rewards if (value := getattr(one, name)) is not None] for name in _PARTS}
    return {
        "reward": fmean(reward.total for reward in rewards) if rewards else None,
        "parts": {name: fmean(found) for name, found in values.items() if found},
        "episodes": len(rollouts),
        "unrewarded": dict(Counter(rollout.stop for rollout in rollouts if rollout.reward is None)),
    }


_PARTS = ("recall", "precision", "found", "verified", "committed", "brevity")
