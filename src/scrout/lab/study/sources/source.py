"""What a study looks at: the paper's files, or one's own runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, get_args
from urllib.parse import urlsplit

from scrout.base import StudyError
from scrout.batch.folder import FILE_NAME, Batch, BatchFolder
from scrout.batch.jobs import ROUTED
from scrout.batch.outputs.arm_statistics import ArmStatistics, RunCost, TaskOutcome, costs_of, hits_of, kind_of
from scrout.batch.outputs.summary import Grades, TaskFacts, known_of, read_grades, tally_runs
from scrout.batch.tasks import TaskRow, read_tasks
from scrout.config.loading import load
from scrout.lab.study.sources.benchmark import ArmOutcomes, Benchmark, FixerEpisode, ScoutRecord, arm_outcomes
from scrout.lab.study.sources.paper import Paper, read_public, with_tasks
from scrout.languages import language_of
from scrout.ledger.store import Ledger
from scrout.records import Arm, Run

if TYPE_CHECKING:
    from scrout.batch.outputs.results import Costs


@dataclass(frozen=True, eq=False)
class Own:
    """One's own runs, as a ledger has them."""

    benchmark: Benchmark
    judged_by: str
    """`grade` where grades were given, else `check`, which is no grade."""
    costs: Mapping[str, Costs] = field(default_factory=dict)
    """What was paid by arm and fixer, `solo/NAME`, runs that do not count included; empty: unknown."""

    @property
    def fixers(self) -> Benchmark:
        """Fixers alone: what was routed is none of its own."""
        outcomes = {
            arm: one.only([fixer for fixer in one.fixers if fixer != ROUTED])
            for arm, one in self.benchmark.arms.items()
        }
        return replace(self.benchmark, arms={arm: one for arm, one in outcomes.items() if one.fixers})

    @property
    def comparable(self) -> Benchmark:
        """Fixers that were judged alike."""
        return self.alike(self.fixers)

    def alike(self, benchmark: Benchmark) -> Benchmark:
        """Only arms that were judged alike: the check passes no patch without a verified reproduction, which only
        handoffs bring."""
        if self.judged_by == "grade":
            return benchmark
        return replace(benchmark, arms={arm: one for arm, one in benchmark.arms.items() if arm == "handoff"})

    def __str__(self) -> str:
        by = "graded" if self.judged_by == "grade" else "judged by the check alone, which is no grade"
        return f"{self.benchmark.source}, {by}"


Source = Paper | Own

ARMS: tuple[Arm, ...] = get_args(Arm)
_SINGLE_RUN_ARM: Arm = "handoff"
"""What a run of its own is: it scouts, gates and fixes."""


def read_batch(path: Path, tasks: Path | None) -> Own:
    """The batch whose output folder this is, with its grades; `tasks` brings answers."""
    folder = BatchFolder(path)
    batch = folder.read()
    if batch is None:
        raise StudyError(f"{path / FILE_NAME} is not there, so {path} is no batch's folder. Name the one of --out.")
    with Ledger(_place_of(folder, batch)) as ledger:
        runs = ledger.runs_of(batch.id)
        if not runs:
            raise StudyError(
                f"the ledger of {path} has no run of batch {batch.id}. Name the one it was run with: "
                f"--ledger URL --batch {batch.id}"
            )
        return _own(ledger, [runs], read_grades(folder.grades), _rows(tasks), f"batch {batch.id} in {path}")


def read_ledger(place: str, batch: str, tasks: Path | None) -> Own:
    """A batch of a ledger, or all of its batches; where it has none, the runs that were made one by one."""
    is_url = place.startswith(("postgresql://", "postgres://"))
    if not is_url and not Path(place).is_file():
        raise StudyError(f"--ledger {place}: there is no such file. Name a ledger.db, or a postgresql:// address.")
    name = f"ledger {_without_secrets(place) if is_url else place}"
    with Ledger(place if is_url else Path(place)) as ledger:
        batches = ledger.batches()
        if batch and batch not in batches:
            there = f"It has {', '.join(batches[-5:])}" if batches else "It has none"
            raise StudyError(f"{name} has no batch {batch}. {there}; leave out --batch to study all runs.")
        chosen = [batch] if batch else batches
        if chosen:
            runs: list[Iterable[Run]] = [ledger.runs_of(one) for one in chosen]
            what = f"batch {batch}" if batch else f"{len(chosen)} batches, runs outside of them left out,"
        elif ledger.run_ids():
            runs, what = [_single_runs(ledger)], "runs made one by one, none in a batch,"
        else:
            raise StudyError(f"{name} has no run. Make some with `scrout batch run TASKS --out DIR`, or name another.")
        return _own(ledger, runs, Grades(), _rows(tasks), f"{what} of {name}")


def _place_of(folder: BatchFolder, batch: Batch) -> Path | str:
    """In the folder, unless the settings of this machine name a database."""
    if folder.ledger.is_file():
        return folder.ledger
    if address := load(None).ledger.address:
        return address
    raise StudyError(
        f"{folder.ledger} is not there: the batch was kept elsewhere. Name that: --ledger URL --batch {batch.id}"
    )


def _rows(tasks: Path | None) -> tuple[TaskRow, ...]:
    return read_tasks(tasks).rows if tasks else ()


def _single_runs(ledger: Ledger) -> Iterator[Run]:
    for run_id in ledger.run_ids():
        run = ledger.run(run_id)
        yield run.model_copy(update={"arm": _label(run)})


def _label(run: Run) -> str:
    """The arm's name; of a run that was made alone, by whom its last attempt was."""
    if run.arm:
        return run.arm
    chosen = run.decision.fixer if run.decision else ROUTED
    return f"{_SINGLE_RUN_ARM}/{run.attempts[-1].fixer if run.attempts else chosen}"


def _own(ledger: Ledger, batches: Iterable[Iterable[Run]], grades: Grades, rows: Sequence[TaskRow], source: str) -> Own:
    known = known_of(rows)
    seen = _Seen(known)
    ended: dict[tuple[str, str], TaskOutcome] = {}
    paid: dict[str, list[RunCost]] = {}
    for runs in batches:
        for label, tally in tally_runs(ledger, runs, grades, known, see=seen.see).items():
            paid.setdefault(label, []).append(tally.paid)
            ended |= _ended(label, tally)
    if known and not any(task in known for task, _ in ended):
        raise StudyError(f"none of the {len(known)} tasks of --tasks is among {source}. Name the file that was run.")
    by_grade = bool(ended) and all(task.verdict is not None for task in ended.values() if task.done)
    measured = {key: task for key, task in ended.items() if (task.graded if by_grade else task.done)}
    if not measured:
        raise StudyError(f"{source}: no run has come to an end. Go on with the batch first.")
    repositories = {name: task.repository for (name, _), task in ended.items()}
    benchmark = Benchmark(
        name="own runs",
        source=source,
        ids=tuple(repositories),
        repositories=tuple(repositories.values()),
        arms=_arms(tuple(repositories), measured, seen.calls, by_grade),
        scouted={name: seen.scouted[name] for name in repositories if name in seen.scouted},
        languages=_languages(known, repositories),
        texts={name: seen.texts[name] for name in repositories},
        paid=_by_component(part for parts in paid.values() for part in parts),
    )
    return Own(benchmark, "grade" if by_grade else "check", {label: costs_of(parts) for label, parts in paid.items()})


def _ended(label: str, tally: ArmStatistics) -> dict[tuple[str, str], TaskOutcome]:
    """What closed runs came to, by task and arm."""
    if label.partition("/")[0] not in ARMS:
        raise StudyError(f"a run has the arm {label!r}, which begins with none of {', '.join(ARMS)}. Name one batch.")
    return {(name, label): task for name, task in tally.tasks.items() if task.outcome}


def _arms(
    ids: Sequence[str],
    ended: Mapping[tuple[str, str], TaskOutcome],
    calls: Mapping[tuple[str, str], int],
    by_grade: bool,
) -> dict[Arm, ArmOutcomes]:
    """Labels such as `solo/NAME` as arms with a column for each name."""
    found: dict[Arm, dict[tuple[str, str], FixerEpisode]] = {}
    for (name, label), task in ended.items():
        kind, _, fixer = label.partition("/")
        arm = next(arm for arm in ARMS if arm == kind)
        cost = math.nan if task.paid.usd is None else float(task.paid.usd)
        episode = FixerEpisode(task.won("grade" if by_grade else "check"), cost, float(calls[name, label]))
        found.setdefault(arm, {})[name, fixer] = episode
    return {arm: arm_outcomes(ids, sorted({fixer for _, fixer in one}), one) for arm, one in found.items()}


@dataclass
class _Seen:
    known: Mapping[str, TaskFacts]
    calls: dict[tuple[str, str], int] = field(default_factory=dict)
    """Of all attempts, by task and arm."""
    scouted: dict[str, ScoutRecord] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    def see(self, run: Run) -> None:
        label = _label(run)
        self.calls[run.task.id, label] = sum(attempt.calls for attempt in run.attempts)
        self.texts[run.task.id] = run.task.text
        found = _scouted(run, self.known.get(run.task.id))
        # Arms of a task share its scouting, and only those with a gate say what that made of it.
        if found is not None and (label.startswith("handoff/") or run.task.id not in self.scouted):
            self.scouted[run.task.id] = found


def _scouted(run: Run, known: TaskFacts | None) -> ScoutRecord | None:
    """None: nobody scouted, or infrastructure failed."""
    scouting, gated = run.scouting, run.gated
    if scouting is None or scouting.searcher == "none":
        return None
    kind = kind_of(scouting)
    if kind is None:
        return None
    gold = known.files if known else frozenset[str]()
    hits = hits_of(scouting, gold)
    reproduction = scouting.handoff.reproduction
    told = ScoutRecord(
        kind=kind,
        verdict=gated.verdict if gated else "",
        claimed=reproduction is not None and reproduction.claim,
        kept=gated is not None and gated.kept,
        named=len(hits),
    )
    if not gold:
        return told
    recall, precision = sum(hits) / len(gold), sum(hits) / max(1, len(hits))
    return ScoutRecord(
        **vars(told)
        | {
            "gold": len(gold),
            "recall": recall,
            "precision": precision,
            "f1": 2 * recall * precision / (recall + precision) if recall + precision else 0.0,
            "hits": hits,
        }
    )


def _languages(known: Mapping[str, TaskFacts], tasks: Iterable[str]) -> dict[str, str]:
    """Where the answer is known, and its files say."""
    told = {task: language_of(sorted(known[task].files)) for task in tasks if task in known}
    return {task: language for task, language in told.items() if language}


def _by_component(paid: Iterable[RunCost]) -> dict[str, Decimal]:
    return {component: usd for component, usd in costs_of(paid).by_component.items()}


def _without_secrets(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"


TABLES = (".csv", ".jsonl", ".csv.gz", ".jsonl.gz")


def open_source(
    data: Path | None, place: str | None, batch: str, tasks: Path | None, pool: Sequence[str] = ()
) -> Source:
    """The paper's files, a batch's folder, a table of outcomes, or a ledger; `pool` names the fixers that count."""
    if (data is None) == (place is None):
        raise StudyError(
            "name what to study: --data (the paper's files, a batch's folder, or a table of outcomes) or --ledger URL."
        )
    found = _of_data(data, batch, tasks) if data is not None else read_ledger(str(place), batch, tasks)
    if not pool:
        return found
    if isinstance(found, Paper):
        raise StudyError("--pool goes with outcomes of yours or a table, not with all of the paper's files.")
    return _only(found, pool)


def _of_data(data: Path, batch: str, tasks: Path | None) -> Source:
    if data.is_file() and data.name.endswith(TABLES):
        read = read_public(data, data.name.split(".")[0]).benchmark
        return Own(replace(with_tasks(read, tasks) if tasks else read, source=f"outcomes of {data}"), "grade")
    if not data.is_dir():
        raise StudyError(
            f"--data {data} is no folder, and no table ({', '.join(TABLES)}). Name the folder with the paper's files, "
            "that of a batch, or a table with model, instance_id and resolved."
        )
    if (data / FILE_NAME).is_file():
        return read_batch(data, tasks)
    if batch or tasks:
        raise StudyError("--batch and --tasks go with a ledger or a batch's folder, not with the paper's files.")
    return Paper(data)


def _only(own: Own, pool: Sequence[str]) -> Own:
    """The fixers of a pool in every arm that has them all."""
    arms = {arm: outcomes for arm, outcomes in own.benchmark.arms.items() if set(pool) <= set(outcomes.fixers)}
    if not arms:
        known = sorted({fixer for outcomes in own.benchmark.arms.values() for fixer in outcomes.fixers})
        raise StudyError(f"no arm has all of {', '.join(pool)}. These have outcomes: {', '.join(known)}")
    outcomes = {arm: one.only(pool) for arm, one in arms.items()}
    return replace(own, benchmark=replace(own.benchmark, arms=outcomes))
