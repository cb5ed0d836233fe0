"""The paper's receipts and the public outcome tables, read into benchmarks. All of it is data from others.

A folder as it is expected, each part only where a study needs it:

    published.json                       figures that arXiv 2608.04804 prints, by table
    receipts/                            the paper's released receipts (CC-BY-4.0): outcomes_per_task.json,
                                         routing_scenarios.json, localization.json, verify_census.csv,
                                         verify_records.jsonl
    labelrun/                            its calibration run: outcomes.jsonl, task_inputs.jsonl.gz
    outcomes/                            per-task outcomes of public leaderboards: verified_mini_swe_agent.csv.gz,
                                         multilingual_mini_swe_agent.csv.gz, pro_sweagent_resolved_only.csv.gz
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from scrout.errors import StudyError
from scrout.records import Arm
from scrout.route.outcomes import read_rows, read_texts, repository_of
from scrout.route.stats import Floats
from scrout.study.benchmark import Benchmark, Kind, Played, Scouted

OPUS, GPT, KIMI, FLASH = "Claude Opus 4.6", "GPT-5.2", "Kimi K2.5", "Gemini 3 Flash"
FIXERS = (KIMI, FLASH, GPT, OPUS)
"""From cheap to dear, as the paper's router walks."""
_RELEASED = {"kimi-k2-5": KIMI, "gemini-3-flash": FLASH, "gpt-5-2-high": GPT, "claude-4-6-opus": OPUS}
# The column of cost that the paper's tables use: what the provider charged where prices were pinned.
_SOLO = {"kimi": (KIMI, "cost_usd_pinned"), "gpt": (GPT, "cost_usd_litellm"), "opus": (OPUS, "cost_usd_litellm")}
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
_ADVICE = (
    "The receipts and the label run are released with arXiv 2608.04804, the outcome tables are of the public "
    "leaderboards of SWE-bench and SWE-bench Pro; `docs/studies.md` says how they are laid out."
)


@dataclass(frozen=True, eq=False)
class Routing:
    """What the paper's router said of each task of its evaluation: a row a task, a column a fixer of `FIXERS`."""

    text: Floats
    """Chances by the head over task texts."""
    state: Floats
    """Chances by the head over hidden states."""
    blend: Floats
    """Their mean, by which it decides."""
    decisions: tuple[str, ...]
    theta: float
    anchor: str


class Paper:
    """A folder with the paper's files. Each is read once, when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._public: dict[PublicName, Benchmark] = {}

    def __str__(self) -> str:
        return f"the paper's files in {self.folder}"

    @cached_property
    def published(self) -> Mapping[str, Any]:
        """The figures that are printed, as the file has them: by table, with `backed`."""
        return self._json("published.json")

    @cached_property
    def evaluation(self) -> Benchmark:
        """The 266 Python tasks of SWE-bench Pro: three fixers alone, and four with handoff on some."""
        path = "receipts/outcomes_per_task.json"
        stored = self._json(path)
        ids = tuple(stored["solo"])
        solo = {
            (task, fixer): self._episode(f"{path}, {task}, {short}", row[short], column)
            for task, row in stored["solo"].items()
            for short, (fixer, column) in _SOLO.items()
        }
        handed = {
            (task, _RELEASED[name]): self._episode(f"{path}, {task}, {name}", row, "cost_usd_pinned")
            for task, pairs in stored["system_union_pairs"].items()
            for name, row in pairs.items()
        }
        return Benchmark(
            name="Pro, 266 Python tasks",
            source="receipts of arXiv 2608.04804",
            ids=ids,
            repositories=tuple(stored["solo"][task]["family"] for task in ids),
            played={"solo": played(ids, (KIMI, GPT, OPUS), solo), "handoff": played(ids, FIXERS, handed)},
            scouted=self._scouted(),
            languages=dict.fromkeys(ids, "Python"),
        )

    @cached_property
    def routing(self) -> Routing:
        """What the router said, in the order of the evaluation's tasks."""
        stored = self._json("receipts/routing_scenarios.json")
        names = {fixer: name for name, fixer in _RELEASED.items()}
        chances = {
            space: np.array(
                [
                    [stored["probability_vectors"][task][names[fixer]][space] for fixer in FIXERS]
                    for task in self.evaluation.ids
                ]
            )
            for space in ("p_text", "p_state", "p_blend")
        }
        decisions = tuple(_RELEASED[stored["decisions"][task]] for task in self.evaluation.ids)
        return Routing(
            chances["p_text"],
            chances["p_state"],
            chances["p_blend"],
            decisions,
            float(stored["theta"]),
            _RELEASED[stored["anchor"]],
        )

    @cached_property
    def label_run(self) -> Benchmark:
        """The calibration run: fresh Python tasks, each fixer alone and with handoff."""
        path = self.folder / "labelrun" / "outcomes.jsonl"
        found: dict[Arm, dict[tuple[str, str], _Episode]] = {"solo": {}, "handoff": {}}
        for number, row in self._rows(path, ("task_id", "fixer", "arm", "solved", "cost_usd_pinned")):
            arm: Arm = "handoff" if row["arm"] == "handoff" else "solo"
            where = f"{path}, row {number}"
            # A cost of 0 is a receipt that was lost.
            cost = _amount(row["cost_usd_pinned"], where) or math.nan
            _add(found[arm], (row["task_id"], row["fixer"]), _Episode(bool(row["solved"]), cost, math.nan), where)
        ids = tuple(dict.fromkeys(task for one in found.values() for task, _ in one))
        return Benchmark(
            name="label run",
            source="label run of arXiv 2608.04804",
            ids=ids,
            repositories=tuple(repository_of(task) for task in ids),
            played={arm: played(ids, FIXERS, one) for arm, one in found.items()},
            languages=dict.fromkeys(ids, "Python"),
            texts=read_texts(self._there("labelrun/task_inputs.jsonl.gz")),
        )

    def public(self, name: PublicName) -> Benchmark:
        """A public leaderboard's outcomes: every model alone."""
        if name not in self._public:
            self._public[name] = read_public(self._there(f"outcomes/{_PUBLIC[name]}"), name)
        return self._public[name]

    @cached_property
    def verify_records(self) -> list[Mapping[str, Any]]:
        """Whole records of claims that were replayed, of every class."""
        return [row for _, row in self._rows(self.folder / "receipts" / "verify_records.jsonl", ("task_id",))]

    def _scouted(self) -> dict[str, Scouted]:
        places = {row["task_id"]: row for row in self._json("receipts/localization.json")["rows"]}
        found = {}
        columns = ("task_id", "handoff_type", "failure_class", "claim", "verified")
        for _, row in self._rows(self.folder / "receipts" / "verify_census.csv", columns):
            place = places[row["task_id"]]
            kind: Kind = "forced" if row["handoff_type"] == "forced" else "spontaneous"
            found[row["task_id"]] = Scouted(
                kind=kind,
                verdict=row["failure_class"],
                claimed=row["claim"] == "true",
                kept=row["verified"] == "true",
                named=place["n_pred"],
                gold=place["n_gold"],
                recall=place["recall"],
                precision=place["precision"],
                f1=place["f1"],
            )
        return found

    def _episode(self, where: str, row: Mapping[str, Any], column: str) -> _Episode:
        try:
            return _Episode(bool(row["resolved"]), _amount(row[column], where), float(row["steps"]))
        except (KeyError, TypeError, ValueError) as error:
            raise StudyError(f"{self.folder / where}: {error!r}. Take the released file as it is. {_ADVICE}") from None

    def _json(self, name: str) -> Any:
        path = self._there(name)
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise StudyError(f"{path} is not JSON: {error}. Take the released file as it is. {_ADVICE}") from None

    def _rows(self, path: Path, columns: Sequence[str]) -> Iterable[tuple[int, Mapping[str, Any]]]:
        self._there(str(path.relative_to(self.folder)))
        for number, row in read_rows(path):
            if lacking := [name for name in columns if row.get(name) is None]:
                raise StudyError(f"{path}, row {number}: no {', '.join(lacking)}. Each row needs {', '.join(columns)}.")
            yield number, row

    def _there(self, name: str) -> Path:
        path = self.folder / name
        if not path.is_file():
            raise StudyError(f"{path} is not there. Name the folder that holds it with --data DIR. {_ADVICE}")
        return path


@dataclass(frozen=True)
class _Episode:
    resolved: bool
    cost: float
    steps: float


def read_public(path: Path, name: str) -> Benchmark:
    """A table of outcomes: a row for each model and task, with `model, instance_id, resolved` and, where known,
    `cost_usd, api_calls, mini_swe_agent_version`."""
    found: dict[tuple[str, str], _Episode] = {}
    for number, row in read_rows(path):
        where = f"{path}, row {number}"
        if lacking := [column for column in ("model", "instance_id", "resolved") if not row.get(column)]:
            raise StudyError(f"{where}: no {', '.join(lacking)}. Each row needs model, instance_id and resolved.")
        if row["resolved"] not in ("0", "1"):
            raise StudyError(f"{where}: resolved is {row['resolved']!r}. Write 1 or 0.")
        episode = _Episode(
            row["resolved"] == "1", _amount(row.get("cost_usd"), where), _amount(row.get("api_calls"), where)
        )
        _add(found, (row["instance_id"], row["model"]), episode, where)
    ids = tuple(dict.fromkeys(task for task, _ in found))
    models = tuple(dict.fromkeys(model for _, model in found))
    return Benchmark(
        name=name,
        source=f"public outcomes, {path.name}",
        ids=ids,
        repositories=tuple(repository_of(task) for task in ids),
        played={"solo": played(ids, models, found)},
    )


def played(ids: Sequence[str], fixers: Sequence[str], found: Mapping[tuple[str, str], _Episode]) -> Played:
    """Outcomes by task and fixer, as arrays."""
    shape = len(ids), len(fixers)
    measured, resolved = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
    cost, steps = np.full(shape, np.nan), np.full(shape, np.nan)
    row, column = ({name: at for at, name in enumerate(names)} for names in (ids, fixers))
    for (task, fixer), one in found.items():
        if fixer not in column:
            raise StudyError(f"an outcome of {fixer!r}, which is none of {', '.join(fixers)}. Leave its rows out.")
        at = row[task], column[fixer]
        measured[at], resolved[at], cost[at], steps[at] = True, one.resolved, one.cost, one.steps
    return Played(tuple(fixers), measured, resolved, cost, steps)


def _add(found: dict[tuple[str, str], _Episode], key: tuple[str, str], episode: _Episode, where: str) -> None:
    if key in found:
        raise StudyError(f"{where}: a second outcome of {key[1]} on {key[0]}. Keep one.")
    found[key] = episode


def _amount(value: object, where: str) -> float:
    """A number that is not negative; nan: none is told."""
    if value is None or value == "":
        return math.nan
    try:
        amount = float(str(value))
    except ValueError:
        amount = math.nan
    if not math.isfinite(amount) or amount < 0:
        raise StudyError(f"{where}: {value!r} is no cost or count. Write a number from 0, or leave it empty.")
    return amount
