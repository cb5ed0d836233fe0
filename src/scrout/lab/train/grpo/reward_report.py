"""The reward, replayed over saved episodes before anything is trained on it: how it is spread, how many groups teach
nothing, whether it goes with what was found, and what policies that game it would earn on the same tasks."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import StatisticsError, correlation, fmean, pstdev, quantiles

from scrout.base import FrozenModel, GateError, SandboxError, TaskError
from scrout.batch.repositories import Repositories
from scrout.batch.task_formats import TaskRow
from scrout.config.settings import SearcherSettings, Settings
from scrout.gate.gate import gate
from scrout.handoff import FileRef, Handoff, parse
from scrout.lab.train.episodes import EPISODES, was_refused
from scrout.lab.train.grpo.reward import Reward, Weights, advantages, reward
from scrout.records import Scouting, ScoutStop
from scrout.sandbox.probe import require_tier
from scrout.sandbox.task_sandbox import open_task_sandbox
from scrout.scout.trace import FILE_NAME, Recorded

CROWD = 100
"""Files that a policy hands over which names all it sees; few repositories have fewer."""
PARTS = ("total", "found", "recall", "precision", "verified", "committed", "brevity")


@dataclass(frozen=True)
class SavedEpisode:
    """An episode as its trace tells it."""

    trace: Path
    task: str
    scouting: Scouting
    allowed: SearcherSettings
    shortlist: str
    """What it was given to start from."""
    verified: bool | None = None
    refused: bool = False
    """The endpoint did not take what the model had said."""


class Distribution(FrozenModel):
    """How one part is distributed."""

    mean: float
    deviation: float
    low: float
    quarter: float
    median: float
    three_quarters: float
    high: float


class DegeneratePolicy(FrozenModel):
    """A policy that does not search, on the same tasks."""

    policy: str
    reward: float
    """Its mean."""
    honest: float
    """The mean of the saved episodes, on the tasks that it was tried on, that found something."""
    pays: bool


class RewardReport(FrozenModel):
    """What the reward makes of saved episodes."""

    episodes: int
    """With a reward."""
    unscored: dict[str, int]
    """Without one, by the reason why."""
    tasks: int
    groups: int
    """Tasks with two episodes or more."""
    flat: int
    """Groups whose rewards are all alike, which teach nothing."""
    parts: dict[str, Distribution]
    with_recall: float | None
    """Correlation of the total with recall; None: one of them does not vary."""
    degenerate: tuple[DegeneratePolicy, ...]
    """Empty: no episode found anything, so there is nothing honest to compare with."""
    weights: Weights


def read_saved(sources: Iterable[Path]) -> tuple[list[SavedEpisode], Counter[str]]:
    """The episodes of traces, of folders with traces, and of lists such as an evaluation's episodes.jsonl."""
    found: list[SavedEpisode] = []
    left_out: Counter[str] = Counter()
    for path in dict.fromkeys(trace for source in sources for trace in _traces(source)):
        recorded = Recorded(path)
        if recorded.end is None:
            left_out["cut off"] += 1
            continue
        header, scouting = recorded.header, recorded.end.scouting
        refused = scouting.stop == "crashed" and was_refused(path)
        found.append(SavedEpisode(path, header.task_id, scouting, header.settings, header.shortlist, refused=refused))
    return found, left_out


def _traces(source: Path) -> Iterator[Path]:
    if source.is_dir():
        listed = source / EPISODES
        traces = list(_listed(listed)) if listed.is_file() else sorted(source.rglob(FILE_NAME))
        if not traces:
            raise TaskError(f"{source} holds no {FILE_NAME} and no {EPISODES}. Pass traces, or an evaluation's folder.")
        yield from traces
    elif source.name == EPISODES:
        yield from _listed(source)
    else:
        yield source


def _listed(path: Path) -> Iterator[Path]:
    """The traces that a list names, counted from where it lies."""
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise TaskError(f"{path}: {error.strerror}. Check the path.") from None
    for number, line in enumerate(lines, 1):
        if not line.endswith(b"\n"):  # cut off by a kill
            break
        try:
            episode = json.loads(line)
        except ValueError:
            raise TaskError(f"{path}, line {number} is no JSON. Pass a list that scrout wrote.") from None
        trace = episode.get("trace") if isinstance(episode, dict) else None
        if not isinstance(trace, str):
            raise TaskError(f"{path}, line {number} names no trace. Pass a list that scrout wrote.")
        if trace:
            yield path.parent / trace


async def replay_gate(
    saved: Sequence[SavedEpisode],
    rows: Mapping[str, TaskRow],
    repositories: Repositories,
    settings: Settings,
    progress: Callable[[str], None],
) -> tuple[list[SavedEpisode], Counter[str]]:
    """The same episodes with the gate's verdict on each; those that it could not reach one for are counted."""
    tier = require_tier(settings.sandbox)
    judged: list[SavedEpisode] = []
    left_out: Counter[str] = Counter()
    for task_id, group in _by_task(saved).items():
        task = repositories.task(rows[task_id])
        with ExitStack() as stack:
            task_sandbox = await asyncio.to_thread(stack.enter_context, open_task_sandbox(task, tier, settings))
            for episode in group:
                progress(f"replaying claims: {len(judged) + 1} of {len(saved)}, {task_id}")
                try:
                    gated = await gate(task, episode.scouting.handoff, task_sandbox, settings.gate)
                except (GateError, SandboxError):
                    left_out["no verdict of the gate"] += 1
                    continue
                judged.append(replace(episode, verified=gated.kept))
    return judged, left_out


def report(
    saved: Sequence[SavedEpisode],
    gold: Mapping[str, Sequence[str]],
    weights: Weights | None = None,
    left_out: Mapping[str, int] | None = None,
) -> RewardReport:
    """What the reward makes of these episodes. Those of tasks without a known fix have none."""
    weights = weights or Weights()
    unscored: Counter[str] = Counter(left_out or {})
    scored: list[tuple[SavedEpisode, Reward]] = []
    for episode in saved:
        if not gold.get(episode.task):
            unscored["files of the fix unknown"] += 1
            continue
        files, refused = gold[episode.task], episode.refused
        worth = reward(episode.scouting, files, episode.allowed, episode.verified, weights, refused=refused)
        if worth is None:
            unscored[f"infrastructure: {episode.scouting.stop}"] += 1
        else:
            scored.append((episode, worth))
    if not scored:
        why = ", ".join(f"{count} {reason}" for reason, count in unscored.items()) or "there is none"
        raise TaskError(f"no episode can be rewarded ({why}). Pass traces of the tasks in --tasks.")
    totals: dict[str, list[float]] = defaultdict(list)
    for episode, worth in scored:
        totals[episode.task].append(worth.total)
    groups = [group for group in totals.values() if len(group) > 1]
    return RewardReport(
        episodes=len(scored),
        unscored=dict(unscored),
        tasks=len(totals),
        groups=len(groups),
        flat=sum(advantages(group) is None for group in groups),
        parts={part: _spread(values) for part in PARTS if (values := _values(part, scored))},
        with_recall=_correlation([worth.total for _, worth in scored], [worth.recall for _, worth in scored]),
        degenerate=tuple(_gamed(scored, gold, weights)),
        weights=weights,
    )


def _values(part: str, scored: Sequence[tuple[SavedEpisode, Reward]]) -> list[float]:
    return [value for _, worth in scored if (value := getattr(worth, part)) is not None]


def _spread(values: Sequence[float]) -> Distribution:
    quarter, median, three = quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]] * 3
    return Distribution(
        mean=fmean(values),
        deviation=pstdev(values),
        low=min(values),
        quarter=quarter,
        median=median,
        three_quarters=three,
        high=max(values),
    )


def _correlation(left: Sequence[float], right: Sequence[float]) -> float | None:
    try:
        return correlation(left, right)
    except StatisticsError:
        return None


def _gamed(
    scored: Sequence[tuple[SavedEpisode, Reward]], gold: Mapping[str, Sequence[str]], weights: Weights
) -> Iterator[DegeneratePolicy]:
    honest = [(episode, worth.total) for episode, worth in scored if worth.found > 0]
    for policy, play in _POLICIES.items():
        earned, compared = [], []
        for episode, total in honest:
            played = play(episode, gold[episode.task])
            if played is not None:
                # Without a search there is no reproduction.
                verified = None if episode.verified is None else False
                worth = reward(played, gold[episode.task], episode.allowed, verified, weights)
                earned.append(worth.total if worth else 0.0)
                compared.append(total)
        if earned:
            mean, other = fmean(earned), fmean(compared)
            yield DegeneratePolicy(policy=policy, reward=mean, honest=other, pays=mean >= other)


def played(paths: Iterable[str], *, turns: int = 1, stop: ScoutStop = "finished") -> Scouting:
    """An episode that hands these files over and has nothing else."""
    handoff = Handoff(files=tuple(FileRef(path=path) for path in paths))
    return Scouting(handoff=handoff, text="", seconds=0, turns=turns, stop=stop)


def _at_once(episode: SavedEpisode, gold: Sequence[str]) -> Scouting | None:
    """What it was given is handed on without a look."""
    if not episode.shortlist:
        return None
    # Behind the path and its lines, two spaces away, stands why.
    lines = (line.partition("  ")[0] for line in episode.shortlist.splitlines())
    return played(ref.path for ref in parse("\n".join(("<files>", *lines, "</files>"))).files)


_POLICIES: dict[str, Callable[[SavedEpisode, Sequence[str]], Scouting | None]] = {
    "name every file": lambda episode, gold: played((*gold, *(f"other/{at}.py" for at in range(CROWD - len(gold))))),
    "never hand over": lambda episode, gold: played((), turns=episode.allowed.turns, stop="malformed"),
    "hand over nothing": lambda episode, gold: played(()),
    "hand over the shortlist at once": _at_once,
}


def _by_task(saved: Iterable[SavedEpisode]) -> dict[str, list[SavedEpisode]]:
    groups: dict[str, list[SavedEpisode]] = defaultdict(list)
    for episode in saved:
        groups[episode.task].append(episode)
    return groups
