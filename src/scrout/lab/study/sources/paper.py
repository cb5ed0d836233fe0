"""The paper's receipts and the public outcome tables, read into benchmarks. All of it is data from others.

A folder as it is expected, each part only where a study needs it:

    published.json                       figures that arXiv 2608.04804 prints, by table
    receipts/                            the paper's released receipts (CC-BY-4.0): outcomes_per_task.json,
                                         routing_scenarios.json, localization.json, verify_census.csv,
                                         verify_records.jsonl
    labelrun/                            its calibration run: outcomes.jsonl, task_inputs.jsonl.gz
    outcomes/                            per-task outcomes of public leaderboards: verified_mini_swe_agent.csv.gz,
                                         multilingual_mini_swe_agent.csv.gz, pro_sweagent_resolved_only.csv.gz
    tasks/                               texts and true files of their tasks, where they are to be had:
                                         swebench_verified.jsonl.gz, swebench_multilingual.jsonl.gz
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from scrout.base import RouteError, StudyError
from scrout.gate.paper_classes import PaperClass
from scrout.lab.study.sources.benchmark import (
    MAX_AMOUNT,
    ArmOutcomes,
    Benchmark,
    FixerEpisode,
    Kind,
    ScoutRecord,
    add,
    arm_outcomes,
)
from scrout.languages import language_of
from scrout.records import Arm
from scrout.route.outcome_table import Bools, Ints
from scrout.route.outcomes import read_rows, read_texts, repository_of
from scrout.route.stats import Floats

Word = TypeVar("Word", bound=str)
_COMMIT = re.compile(r"-[0-9a-f]{40}.*", re.S)


@dataclass(frozen=True)
class Public:
    benchmark: Benchmark
    versions: Mapping[str, str]
    """Of the agent, by model; empty: not told."""


def read_public(path: Path, name: str) -> Public:
    """A table of outcomes: a row for each model and task, with `model, instance_id, resolved` and, where known,
    `cost_usd, api_calls, mini_swe_agent_version`."""
    found: dict[tuple[str, str], FixerEpisode] = {}
    versions: dict[str, str] = {}
    for number, row in read_rows(path):
        where = f"{path}, row {number}"
        if lacking := [column for column in ("model", "instance_id", "resolved") if not row.get(column)]:
            raise StudyError(f"{where}: no {', '.join(lacking)}. Each row needs model, instance_id and resolved.")
        if row["resolved"] not in ("0", "1"):
            raise StudyError(f"{where}: resolved is {row['resolved']!r}. Write 1 or 0.")
        episode = FixerEpisode(
            row["resolved"] == "1", amount_of(row.get("cost_usd"), where), amount_of(row.get("api_calls"), where)
        )
        add(found, (row["instance_id"], row["model"]), episode, where)
        versions[row["model"]] = row.get("mini_swe_agent_version") or ""
    if not found:
        raise StudyError(f"{path} has no outcome. Take the table as it was published.")
    ids = tuple(dict.fromkeys(task for task, _ in found))
    benchmark = Benchmark(
        name=name,
        source=f"public outcomes, {path.name}",
        ids=ids,
        repositories=tuple(_repository(task) for task in ids),
        arms={"solo": arm_outcomes(ids, tuple(versions), found)},
    )
    return Public(benchmark, versions)


def with_tasks(benchmark: Benchmark, path: Path) -> Benchmark:
    """With the texts of a task file, and each task's language: that of most true files of its repository."""
    files: dict[str, list[str]] = {}
    for number, row in read_rows(path):
        gold = row.get("gold_files") or []
        if not isinstance(gold, list) or not all(isinstance(name, str) for name in gold):
            raise StudyError(f"{path}, row {number}: gold_files is {gold!r:.80}. Write a list of paths.")
        files.setdefault(str(row.get("repo")), []).extend(gold)
    languages = {repository: language_of(paths) for repository, paths in files.items()}
    return replace(
        benchmark,
        texts=read_texts(path),
        languages={str(row["instance_id"]): languages[str(row.get("repo"))] for _, row in read_rows(path)},
    )


def _repository(task: str) -> str:
    """Of a public task; SWE-bench Pro's ids go on with a commit, of 40 digits."""
    return _COMMIT.sub("", task.removeprefix("instance_")) if task.startswith("instance_") else repository_of(task)


OPUS, GPT, KIMI, FLASH = "Claude Opus 4.6", "GPT-5.2", "Kimi K2.5", "Gemini 3 Flash"
FIXERS = (KIMI, FLASH, GPT, OPUS)
"""From cheap to expensive, as the paper's router walks."""
_RELEASED = {"kimi-k2-5": KIMI, "gemini-3-flash": FLASH, "gpt-5-2-high": GPT, "claude-4-6-opus": OPUS}
Prices = Literal["pinned", "litellm"]
"""The price lists of the receipts: what providers charged, and litellm's."""
_SOLO = {"kimi": KIMI, "gpt": GPT, "opus": OPUS}
# Those that the paper's tables use.
_PRICES: Mapping[str, Prices] = {KIMI: "pinned", GPT: "litellm", OPUS: "litellm"}
_OUTCOMES = "receipts/outcomes_per_task.json"
SHARED_USD = 5.13
"""Searcher and sandbox of the whole evaluation, which the paper adds once to what its system's fixers cost."""
MAX_STEPS = 50
"""Where an attempt of the paper's was cut off."""

PublicName = Literal["Verified", "Multilingual", "Pro"]
_PUBLIC: Mapping[PublicName, str] = {
    "Verified": "verified_mini_swe_agent.csv.gz",
    "Multilingual": "multilingual_mini_swe_agent.csv.gz",
    "Pro": "pro_sweagent_resolved_only.csv.gz",
}
_TASKS: Mapping[PublicName, str] = {
    "Verified": "swebench_verified.jsonl.gz",
    "Multilingual": "swebench_multilingual.jsonl.gz",
}
# Its table mixes versions of the agent, and only runs of one version compare.
_VERSIONS: Mapping[PublicName, str] = {"Verified": "2.0.0"}
# The paper's column leaves it out.
_LEFT_OUT: Mapping[PublicName, str] = {"Multilingual": "mrdoob__three"}
_ADVICE = (
    "The receipts and the label run are released with arXiv 2608.04804, the outcome tables are of the public "
    "leaderboards of SWE-bench and SWE-bench Pro; `docs/research/studies.md` says how they are laid out."
)
_AS_IT_IS = f"Take the released file as it is. {_ADVICE}"

Part = Literal["published", "Verified", "Multilingual", "Pro", "evaluation", "label run", "records"]
_PARTS: Mapping[Part, str] = {
    "published": "published.json",
    **{name: f"outcomes/{file}" for name, file in _PUBLIC.items()},
    "evaluation": _OUTCOMES,
    "label run": "labelrun/outcomes.jsonl",
    "records": "receipts/verify_records.jsonl",
}
PARTS = tuple(_PARTS)
_KINDS: tuple[Kind, ...] = ("spontaneous", "forced")
_CLASSES = get_args(PaperClass)
_CLAIMS = ("true", "false", "null")
_DEEPEST = 12
"""Objects and lists within each other, which no printed table comes near."""
_LARGEST = 10**15


class Absent(StudyError):
    """A file of the paper's that is not there, as opposed to one that cannot be used."""


_Usd = Annotated[float, Field(ge=0, le=MAX_AMOUNT)]
_Share = Annotated[float, Field(ge=0, le=1)]


class _Shape(BaseModel):
    """What studies read of a printed table; anything else in it is as it may be."""

    model_config = ConfigDict(strict=True, frozen=True)


class _Evaluated(_Shape):
    gpt: _Usd = Field(default=0, alias="GPT-5.2 solo")
    opus: _Usd = Field(default=0, alias="Opus 4.6 solo")
    kimi: _Usd = Field(default=0, alias="Kimi K2.5 solo")
    system: _Usd = Field(default=0, alias="system arm")


class _Labelled(_Shape):
    fixers: _Usd = Field(default=0, alias="fixer API")
    total: _Usd = 0


class _Spend(_Shape):
    evaluation: _Evaluated = _Evaluated()
    label_run: _Labelled = _Labelled()
    training: dict[str, _Usd] = {}


class _Router(_Shape):
    router_minus_best: FiniteFloat
    p: _Share


class _Audit(_Shape):
    rows: dict[str, _Router] = {}


class _Sweep(_Shape):
    rows: dict[Annotated[str, Field(pattern=r"^(0(\.\d{1,9})?|1(\.0{1,9})?)$")], dict[str, Any]] = {}


class _Design(_Shape):
    # Each column is shown, so none may be unknown.
    model_config = ConfigDict(extra="forbid")

    saving_lr_pct: FiniteFloat
    saving_mlp_pct: FiniteFloat
    folds: str
    brier: FiniteFloat
    usd_per_task: _Usd


class _Designs(_Shape):
    rows: dict[str, _Design] = {}
    auc: dict[str, _Share] = {}


class _Published(_Shape):
    spend_usd: _Spend = _Spend()
    audit: _Audit = _Audit()
    theta_sweep: _Sweep = _Sweep()
    design_space: _Designs = _Designs()


@dataclass(frozen=True, eq=False)
class PaperRouting:
    """What the paper's router said of each task of its evaluation: a row a task, a column a fixer of `FIXERS`."""

    text: Floats
    """Probabilities by the head over task texts."""
    state: Floats
    """Probabilities by the head over hidden states."""
    blend: Floats
    """Their mean, by which it decides."""
    decisions: tuple[str, ...]
    theta: float
    anchor: str


class Paper:
    """A folder with the paper's files. Each is read once, when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._public: dict[PublicName, Public] = {}

    def __str__(self) -> str:
        return f"the paper's files in {self.folder}"

    def has(self, part: Part) -> bool:
        """Whether a part of the folder is there. Asking for one that is not is an error that says where to find it."""
        return (self.folder / _PARTS[part]).is_file()

    @cached_property
    def published(self) -> Mapping[str, Any]:
        """The figures that are printed, as the file has them: by table, with `backed`."""
        path, stored = self.folder / "published.json", self._json("published.json").stored
        if not isinstance(stored, Mapping):
            raise StudyError(f"{path}: 'published.json' is no object, and has to be one of tables by name. {_AS_IT_IS}")
        try:
            _Published.model_validate(stored)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            place, found = ", ".join(map(str, problem["loc"])), f"{problem['input']!r:.80}"
            raise StudyError(f"{path}: {place}: {problem['msg']}, and it is {found}. {_AS_IT_IS}") from None
        if odd := _odd(stored, ()):
            raise StudyError(f"{path}: {odd}. {_AS_IT_IS}")
        return stored

    @cached_property
    def evaluation(self) -> Benchmark:
        """The 266 Python tasks of SWE-bench Pro: three fixers alone, and four with handoff on some."""
        tasks = self._outcomes.object("solo")
        ids = tuple(tasks.stored)
        if not ids:
            raise StudyError(f"{self._outcomes.place}: 'solo' has no task. {_AS_IT_IS}")
        return Benchmark(
            name=f"Pro, {len(ids)} Python tasks",
            source="receipts of arXiv 2608.04804",
            ids=ids,
            repositories=tuple(tasks.row(task).word("family") for task in ids),
            arms={"solo": self._alone(_PRICES), "handoff": self._handed("pinned")},
            scouted=self._scouted(ids),
            languages=dict.fromkeys(ids, "Python"),
        )

    def evaluation_at(self, prices: Prices) -> Mapping[Arm, ArmOutcomes]:
        """What the evaluation's fixers did, all of it at one price list of the receipts."""
        return {"solo": self._alone(dict.fromkeys(_PRICES, prices)), "handoff": self._handed(prices)}

    @cached_property
    def solo_pinned(self) -> ArmOutcomes:
        """The evaluation's fixers alone, all at pinned prices: with these the paper's sweep fills its gaps."""
        return self._alone(dict.fromkeys(_PRICES, "pinned"))

    @cached_property
    def _outcomes(self) -> _Row:
        return self._json(_OUTCOMES)

    def _alone(self, prices: Mapping[str, Prices]) -> ArmOutcomes:
        tasks = self._outcomes.object("solo")
        found = {
            (task, fixer): tasks.row(task).row(short).episode(prices[fixer])
            for task in tasks.stored
            for short, fixer in _SOLO.items()
        }
        return arm_outcomes(tuple(tasks.stored), tuple(_SOLO.values()), found)

    def _handed(self, prices: Prices) -> ArmOutcomes:
        tasks, pairs = self._outcomes.object("solo").stored, self._outcomes.object("system_union_pairs")
        found = {
            (task, _fixer(name, handed.place)): handed.row(name).episode(prices)
            for task in tasks
            for handed in [pairs.object(task)]
            for name in handed.stored
        }
        return arm_outcomes(tuple(tasks), FIXERS, found)

    @cached_property
    def routing(self) -> PaperRouting:
        """What the router said, in the order of the evaluation's tasks."""
        stored, ids = self._json("receipts/routing_scenarios.json"), self.evaluation.ids
        said, decided = stored.row("probability_vectors"), stored.row("decisions")
        names = {fixer: name for name, fixer in _RELEASED.items()}

        def probabilities(space: str) -> Floats:
            return np.array([[said.row(task).row(names[fixer]).share(space) for fixer in FIXERS] for task in ids])

        return PaperRouting(
            text=probabilities("p_text"),
            state=probabilities("p_state"),
            blend=probabilities("p_blend"),
            decisions=tuple(decided.fixer(task) for task in ids),
            theta=stored.share("theta"),
            anchor=stored.fixer("anchor"),
        )

    @cached_property
    def label_run(self) -> Benchmark:
        """The calibration run: fresh Python tasks, each fixer alone and with handoff."""
        name = "labelrun/outcomes.jsonl"
        arms: tuple[Arm, ...] = ("solo", "handoff")
        found: dict[Arm, dict[tuple[str, str], FixerEpisode]] = {arm: {} for arm in arms}
        for row in self._rows(name, ("task_id", "fixer", "arm", "solved", "cost_usd_pinned")):
            key = row.word("task_id"), row.one_of("fixer", FIXERS)
            # A cost of 0 is a receipt that was lost.
            episode = FixerEpisode(row.flag("solved"), row.amount("cost_usd_pinned") or math.nan, math.nan)
            add(found[row.one_of("arm", arms)], key, episode, row.place)
        ids = tuple(dict.fromkeys(task for one in found.values() for task, _ in one))
        if not ids:
            raise StudyError(f"{self.folder / name} has no outcome. {_AS_IT_IS}")
        return Benchmark(
            name="label run",
            source="label run of arXiv 2608.04804",
            ids=ids,
            repositories=tuple(repository_of(task) for task in ids),
            arms={arm: arm_outcomes(ids, FIXERS, one) for arm, one in found.items()},
            languages=dict.fromkeys(ids, "Python"),
            texts=self._texts("labelrun/task_inputs.jsonl.gz"),
        )

    def public(self, name: PublicName) -> Benchmark:
        """A public leaderboard's outcomes: every model alone. Texts and languages where the tasks' file is there."""
        return self._read(name).benchmark

    def comparable(self, name: PublicName) -> Benchmark:
        """The same without what does not compare: other versions of the agent, and tasks that the paper leaves out."""
        read = self._read(name)
        benchmark, version = read.benchmark, _VERSIONS.get(name)
        models = [one for one in benchmark.arm("solo").fixers if version in (None, read.versions[one])]
        if not models:
            raise StudyError(f"{benchmark.source}: no run of version {version} of the agent. Take the file as it is.")
        left_out = _LEFT_OUT.get(name)
        rest = benchmark.rows(np.array([not (left_out and task.startswith(left_out)) for task in benchmark.ids]))
        return replace(rest, arms={"solo": rest.arm("solo").only(models)})

    def _read(self, name: PublicName) -> Public:
        if name not in self._public:
            path, tasks = self._there(f"outcomes/{_PUBLIC[name]}"), self.folder / "tasks" / _TASKS.get(name, "")
            with _study_errors():
                read = read_public(path, name)
                there = tasks.is_file()
                self._public[name] = replace(read, benchmark=with_tasks(read.benchmark, tasks)) if there else read
        return self._public[name]

    @cached_property
    def verify_records(self) -> list[Mapping[str, Any]]:
        """Whole records of claims that were replayed, of every class."""
        rows = self._rows("receipts/verify_records.jsonl", ("task_id",))
        return [{**row.stored, "task_id": row.word("task_id")} for row in rows]

    def _scouted(self, ids: Sequence[str]) -> dict[str, ScoutRecord]:
        census, localization = "receipts/verify_census.csv", self._json("receipts/localization.json")
        places: dict[str, _Row] = {}
        rows = localization["rows"]
        if not isinstance(rows, list):
            raise StudyError(f"{localization.place}: 'rows' is no list. {_AS_IT_IS}")
        for number, stored in enumerate(rows, 1):
            row = _Row(stored, f"{localization.place}, row {number}")
            task = row.word("task_id")
            if task in places:
                raise StudyError(f"{row.place}: a second one of {task}. Keep one.")
            places[task] = _Row(stored, f"{localization.place}, {task}")
        found: dict[str, ScoutRecord] = {}
        for row in self._rows(census, ("task_id", "handoff_type", "failure_class", "claim", "verified")):
            task = row["task_id"]
            if task in found or task not in ids:
                wrong = "a second row of" if task in found else "no outcome of"
                raise StudyError(f"{row.place}: {wrong} {task}. {_AS_IT_IS}")
            located = _Row(places, localization.place)[task]
            found[task] = ScoutRecord(
                kind=row.one_of("handoff_type", _KINDS),
                verdict=row.one_of("failure_class", _CLASSES),
                claimed=row.one_of("claim", _CLAIMS) == "true",
                kept=row.one_of("verified", _CLAIMS) == "true",
                named=located.count("n_pred"),
                gold=located.count("n_gold"),
                recall=located.share("recall"),
                precision=located.share("precision"),
                f1=located.share("f1"),
            )
        return found

    def _json(self, name: str) -> _Row:
        path = self._there(name)
        try:
            return _Row(json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_once), str(path))
        except (ValueError, RecursionError) as error:
            raise StudyError(f"{path} is not JSON: {error}. {_AS_IT_IS}") from None

    def _rows(self, name: str, columns: Sequence[str]) -> Iterator[_Row]:
        path = self._there(name)
        with _study_errors():
            rows = list(read_rows(path))
        for number, row in rows:
            if lacking := [column for column in columns if row.get(column) is None]:
                raise StudyError(f"{path}, row {number}: no {', '.join(lacking)}. Each row needs {', '.join(columns)}.")
            yield _Row(row, f"{path}, row {number}")

    def _texts(self, name: str) -> dict[str, str]:
        path = self._there(name)
        with _study_errors():
            return read_texts(path)

    def _there(self, name: str) -> Path:
        path = self.folder / name
        if not path.is_file():
            raise Absent(f"{path} is not there. Name the folder that holds it with --data DIR. {_ADVICE}")
        return path


@contextmanager
def _study_errors() -> Iterator[None]:
    """What the readers of the router say of a file, as an error of a study."""
    try:
        yield
    except RouteError as error:
        raise StudyError(str(error)) from None


@dataclass(frozen=True)
class _Row:
    """An object of a file. Each method reads one of its values; one that is not as it should be is named."""

    stored: Any
    place: str

    def __getitem__(self, name: str) -> Any:
        if not isinstance(self.stored, Mapping) or name not in self.stored:
            raise StudyError(f"{self.place}: no {name!r}. {_AS_IT_IS}")
        return self.stored[name]

    def row(self, name: str) -> _Row:
        return _Row(self[name], f"{self.place}, {name}")

    def object(self, name: str) -> _Row:
        if not isinstance(self[name], Mapping):
            raise StudyError(f"{self.place}: {name!r} is no object. {_AS_IT_IS}")
        return self.row(name)

    def word(self, name: str) -> str:
        word = self[name]
        if not isinstance(word, str) or not word.strip():
            raise StudyError(f"{self.place}: {name} is {word!r:.80}. Write a name.")
        return word

    def flag(self, name: str) -> bool:
        if not isinstance(flag := self[name], bool):
            raise StudyError(f"{self.place}: {flag!r} is no outcome. Write true or false.")
        return flag

    def amount(self, name: str) -> float:
        return amount_of(self[name], self.place)

    def count(self, name: str) -> int:
        count = self[name]
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MAX_AMOUNT:
            raise StudyError(f"{self.place}: {name!r} is {count!r}. Write a whole number from 0.")
        return count

    def share(self, name: str) -> float:
        share = self[name]
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise StudyError(f"{self.place}: {name} is {share!r}. Write a number from 0 to 1.")
        return float(share)

    def one_of(self, name: str, words: Sequence[Word]) -> Word:
        for word in words:
            if word == self[name]:
                return word
        raise StudyError(f"{self.place}: the {name} {self[name]!r} is none of {', '.join(words)}. {_AS_IT_IS}")

    def fixer(self, name: str) -> str:
        return _fixer(self[name], self.place)

    def episode(self, prices: Prices) -> FixerEpisode:
        return FixerEpisode(self.flag("resolved"), self.amount(f"cost_usd_{prices}"), self.amount("steps"))


def amount_of(value: object, where: str) -> float:
    """A number that is not negative; nan: none is told."""
    if value is None or value == "":
        return math.nan
    try:
        amount = float(str(value))
    except ValueError:
        amount = math.nan
    if isinstance(value, bool) or not 0 <= amount <= MAX_AMOUNT:
        raise StudyError(f"{where}: {value!r} is no cost or count. Write a number from 0, or leave it empty.")
    return amount


def _fixer(name: object, place: str) -> str:
    if not isinstance(name, str) or name not in _RELEASED:
        raise StudyError(f"{place}: the fixer {name!r} is not known; the receipts have {', '.join(_RELEASED)}.")
    return _RELEASED[name]


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON. Of a name that comes twice, the last would silently count."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"{twice!r} stands twice in one object")
    return found


def _odd(stored: object, place: tuple[str, ...]) -> str:
    """What no figure can be read from: an endless number, or columns without names; empty: nothing is."""
    where = ", ".join(place)
    if len(place) > _DEEPEST:
        return f"{where}: more than {_DEEPEST} objects and lists within each other"
    if isinstance(stored, float) and not math.isfinite(stored):
        return f"{where} is {stored!r}, which is no number"
    if isinstance(stored, int) and abs(stored) > _LARGEST:
        return f"{where} is larger than {_LARGEST}"
    if isinstance(stored, Mapping):
        columns = stored.get("columns", [])
        if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
            return f"{where}: 'columns' is {columns!r:.80}, and has to be a list of names"
    parts = stored.items() if isinstance(stored, Mapping) else enumerate(stored) if isinstance(stored, list) else ()
    return next((odd for name, part in parts if (odd := _odd(part, (*place, str(name))))), "")


@dataclass(frozen=True, eq=False)
class FilledPairs:
    """A row a task, a column for each of `FIXERS`. Costs have each task's part of what was paid once for all."""

    resolved: Bools
    cost: Floats
    likely: Floats
    """Cost, with the fixer's mean where nothing is known."""
    measured: Bools
    """Whether the pair was run with the handoff."""

    def taken(self, choices: Ints) -> FilledPairs:
        """The fixer of each task alone, as columns without rows."""
        at = np.arange(len(choices)), choices
        return FilledPairs(self.resolved[at], self.cost[at], self.likely[at], self.measured[at])


def fill_gaps(benchmark: Benchmark, solo: ArmOutcomes) -> FilledPairs:
    """Every pair, by the rule. `solo` has the episodes that may stand in."""
    handed = benchmark.arm("handoff").only(FIXERS)
    resolved, cost = handed.resolved & handed.measured, np.where(handed.measured, handed.cost, 0.0)
    likely = cost.copy()
    for at, fixer in enumerate(FIXERS):
        missing = ~handed.measured[:, at]
        if fixer in solo.fixers:
            column = solo.column(fixer)
            resolved[missing, at], cost[missing, at] = solo.resolved[missing, column], solo.cost[missing, column]
            likely[missing, at] = cost[missing, at]
        elif not missing.all():
            likely[missing, at] = np.nanmean(handed.cost[~missing, at])
    shared = SHARED_USD / len(benchmark.ids)
    return FilledPairs(resolved, cost + shared, likely + shared, handed.measured)
