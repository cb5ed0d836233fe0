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
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from scrout.errors import StudyError
from scrout.records import Arm
from scrout.route.outcomes import read_rows, read_texts, repository_of
from scrout.route.stats import Floats
from scrout.study.sources.benchmark import Benchmark, Kind, Played, Scouted
from scrout.study.sources.episodes import Episode, add, amount_of, flag_of, played
from scrout.study.sources.public import Public, read_public, with_tasks

OPUS, GPT, KIMI, FLASH = "Claude Opus 4.6", "GPT-5.2", "Kimi K2.5", "Gemini 3 Flash"
FIXERS = (KIMI, FLASH, GPT, OPUS)
"""From cheap to dear, as the paper's router walks."""
_RELEASED = {"kimi-k2-5": KIMI, "gemini-3-flash": FLASH, "gpt-5-2-high": GPT, "claude-4-6-opus": OPUS}
# The column of cost that the paper's tables use: what the provider charged where prices were pinned.
_SOLO = {"kimi": (KIMI, "cost_usd_pinned"), "gpt": (GPT, "cost_usd_litellm"), "opus": (OPUS, "cost_usd_litellm")}
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
    "leaderboards of SWE-bench and SWE-bench Pro; `docs/studies.md` says how they are laid out."
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
        self._public: dict[PublicName, Public] = {}

    def __str__(self) -> str:
        return f"the paper's files in {self.folder}"

    def has(self, part: Part) -> bool:
        """Whether a part of the folder is there. Asking for one that is not is an error that says where to find it."""
        return (self.folder / _PARTS[part]).is_file()

    @cached_property
    def published(self) -> Mapping[str, Any]:
        """The figures that are printed, as the file has them: by table, with `backed`."""
        return self._object({"published.json": self._json("published.json")}, "published.json", "")

    @cached_property
    def evaluation(self) -> Benchmark:
        """The 266 Python tasks of SWE-bench Pro: three fixers alone, and four with handoff on some."""
        path = _OUTCOMES
        tasks, pairs = (self._object(self._outcomes, name, path) for name in ("solo", "system_union_pairs"))
        ids = tuple(tasks)
        handed = {
            (task, self._fixer(name, f"{path}, {task}")): self._episode(
                f"{path}, {task}, {name}", row, "cost_usd_pinned"
            )
            for task in ids
            for name, row in self._object(pairs, task, f"{path}, system_union_pairs").items()
        }
        return Benchmark(
            name=f"Pro, {len(ids)} Python tasks",
            source="receipts of arXiv 2608.04804",
            ids=ids,
            repositories=tuple(self._get(tasks[task], "family", f"{path}, {task}") for task in ids),
            played={"solo": self._alone(_SOLO), "handoff": played(ids, FIXERS, handed)},
            scouted=self._scouted(ids),
            languages=dict.fromkeys(ids, "Python"),
        )

    @cached_property
    def solo_pinned(self) -> Played:
        """The evaluation's fixers alone, all at pinned prices: with these the paper's sweep fills its gaps."""
        return self._alone({short: (fixer, "cost_usd_pinned") for short, (fixer, _) in _SOLO.items()})

    @cached_property
    def _outcomes(self) -> Any:
        return self._json(_OUTCOMES)

    def _alone(self, columns: Mapping[str, tuple[str, str]]) -> Played:
        tasks = self._object(self._outcomes, "solo", _OUTCOMES)
        found = {
            (task, fixer): self._episode(
                f"{_OUTCOMES}, {task}, {short}", self._get(row, short, f"{_OUTCOMES}, {task}"), column
            )
            for task, row in tasks.items()
            for short, (fixer, column) in columns.items()
        }
        return played(tuple(tasks), [fixer for fixer, _ in columns.values()], found)

    @cached_property
    def routing(self) -> Routing:
        """What the router said, in the order of the evaluation's tasks."""
        path = "receipts/routing_scenarios.json"
        stored = self._json(path)
        names = {fixer: name for name, fixer in _RELEASED.items()}
        theta, anchor, said, decided = (
            self._get(stored, name, path) for name in ("theta", "anchor", "probability_vectors", "decisions")
        )
        chances = {
            space: np.array(
                [
                    [
                        self._chance(self._get(said, task, path), names[fixer], space, f"{path}, {task}")
                        for fixer in FIXERS
                    ]
                    for task in self.evaluation.ids
                ]
            )
            for space in ("p_text", "p_state", "p_blend")
        }
        decisions = tuple(
            self._fixer(self._get(decided, task, path), f"{path}, {task}") for task in self.evaluation.ids
        )
        return Routing(
            chances["p_text"],
            chances["p_state"],
            chances["p_blend"],
            decisions,
            float(theta),
            self._fixer(anchor, path),
        )

    @cached_property
    def label_run(self) -> Benchmark:
        """The calibration run: fresh Python tasks, each fixer alone and with handoff."""
        path = self.folder / "labelrun" / "outcomes.jsonl"
        found: dict[Arm, dict[tuple[str, str], Episode]] = {"solo": {}, "handoff": {}}
        for number, row in self._rows(path, ("task_id", "fixer", "arm", "solved", "cost_usd_pinned")):
            where = f"{path}, row {number}"
            if row["fixer"] not in FIXERS:
                raise StudyError(f"{where}: {row['fixer']!r} is none of {', '.join(FIXERS)}. Leave its rows out.")
            if row["arm"] not in found:
                raise StudyError(f"{where}: the arm {row['arm']!r} is none of {', '.join(found)}. Leave its rows out.")
            # A cost of 0 is a receipt that was lost.
            cost = amount_of(row["cost_usd_pinned"], where) or math.nan
            episode = Episode(flag_of(row["solved"], where), cost, math.nan)
            add(found[row["arm"]], (row["task_id"], row["fixer"]), episode, where)
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
        return replace(rest, played={"solo": rest.arm("solo").only(models)})

    def _read(self, name: PublicName) -> Public:
        if name not in self._public:
            read = read_public(self._there(f"outcomes/{_PUBLIC[name]}"), name)
            tasks = self.folder / "tasks" / _TASKS.get(name, "")
            self._public[name] = replace(read, benchmark=with_tasks(read.benchmark, tasks)) if tasks.is_file() else read
        return self._public[name]

    @cached_property
    def verify_records(self) -> list[Mapping[str, Any]]:
        """Whole records of claims that were replayed, of every class."""
        return [row for _, row in self._rows(self.folder / "receipts" / "verify_records.jsonl", ("task_id",))]

    def _scouted(self, ids: Sequence[str]) -> dict[str, Scouted]:
        path = "receipts/localization.json"
        places: dict[str, Mapping[str, Any]] = {}
        rows = self._get(self._json(path), "rows", path)
        if not isinstance(rows, list):
            raise StudyError(f"{self.folder / path}: 'rows' is no list. {_AS_IT_IS}")
        for number, row in enumerate(rows, 1):
            task = self._get(row, "task_id", f"{path}, row {number}")
            if task in places:
                raise StudyError(f"{self.folder / path}, row {number}: a second one of {task}. Keep one.")
            places[task] = row
        found: dict[str, Scouted] = {}
        columns = ("task_id", "handoff_type", "failure_class", "claim", "verified")
        census = self.folder / "receipts" / "verify_census.csv"
        for number, row in self._rows(census, columns):
            task, where = row["task_id"], f"{path}, {row['task_id']}"
            if task in found or task not in ids:
                wrong = "a second row of" if task in found else "no outcome of"
                raise StudyError(f"{census}, row {number}: {wrong} {task}. {_AS_IT_IS}")
            place = self._get(places, task, path)
            named, gold, recall, precision, f1 = (
                self._figure(place, name, where) for name in ("n_pred", "n_gold", "recall", "precision", "f1")
            )
            kind: Kind = "forced" if row["handoff_type"] == "forced" else "spontaneous"
            found[task] = Scouted(
                kind=kind,
                verdict=row["failure_class"],
                claimed=row["claim"] == "true",
                kept=row["verified"] == "true",
                named=int(named),
                gold=int(gold),
                recall=recall,
                precision=precision,
                f1=f1,
            )
        return found

    def _episode(self, where: str, row: Mapping[str, Any], column: str) -> Episode:
        resolved, cost, steps = (self._get(row, name, where) for name in ("resolved", column, "steps"))
        place = str(self.folder / where)
        return Episode(flag_of(resolved, place), amount_of(cost, place), amount_of(steps, place))

    def _figure(self, stored: Any, name: str, where: str) -> float:
        figure = amount_of(self._get(stored, name, where), str(self.folder / where))
        if math.isnan(figure):
            raise StudyError(f"{self.folder / where}: {name!r} is empty. {_AS_IT_IS}")
        return figure

    def _chance(self, said: Any, fixer: str, space: str, where: str) -> float:
        chance = self._get(self._get(said, fixer, where), space, f"{where}, {fixer}")
        if not isinstance(chance, int | float) or not 0 <= chance <= 1:
            raise StudyError(f"{self.folder / where}, {fixer}: {space} is {chance!r}. Write a chance from 0 to 1.")
        return float(chance)

    def _fixer(self, name: str, where: str) -> str:
        if name not in _RELEASED:
            raise StudyError(
                f"{self.folder / where}: the fixer {name!r} is not known; the receipts have {', '.join(_RELEASED)}."
            )
        return _RELEASED[name]

    def _object(self, stored: Any, name: str, where: str) -> Mapping[str, Any]:
        found = self._get(stored, name, where)
        if not isinstance(found, Mapping):
            raise StudyError(f"{self.folder / where}: {name!r} is no object. {_AS_IT_IS}")
        return found

    def _get(self, stored: Any, name: str, where: str) -> Any:
        if not isinstance(stored, Mapping) or name not in stored:
            raise StudyError(f"{self.folder / where}: no {name!r}. {_AS_IT_IS}")
        return stored[name]

    def _json(self, name: str) -> Any:
        path = self._there(name)
        try:
            return json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_once)
        except (ValueError, RecursionError) as error:
            raise StudyError(f"{path} is not JSON: {error}. {_AS_IT_IS}") from None

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


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON. Of a name that comes twice, the last would silently count."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"{twice!r} stands twice in one object")
    return found
