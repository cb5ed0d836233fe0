"""The résumés and heads that ship, built from public outcomes. Run as a program:

    python -m scrout.lab.train.public --data DIR --states FILE.npz [FILE.npz] [--out src/scrout/route/shipped]

DIR holds two sets of outcomes and nothing else is read: `outcomes/multilingual_mini_swe_agent.csv.gz` (13 models on
SWE-bench Multilingual, from the public leaderboard of 2026-02) with `tasks/swebench_multilingual.jsonl.gz`, and
`labelrun/` (the calibration run of arXiv 2608.04804, CC-BY-4.0: 4 models on 100 Python tasks, solo and with handoff).
The .npz files are what bench/states.py made of these tasks. Nothing of SWE-bench Verified or Lite takes part.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np

from scrout.base import RouteError
from scrout.config.settings import EmbedderSettings, FixerKey
from scrout.route import calibrate, difficulty, heads, heldout, resume, text_counts
from scrout.route.calibrate import OutcomeTable, group_folds
from scrout.route.embed import Embedder, HashedEmbedder, open_embedder
from scrout.route.embedders import minilm
from scrout.route.outcomes import Arm, OutcomeWithText, join_texts, read_rows, read_texts, repository_of
from scrout.route.resume import SHIPPED, Resume, text_space
from scrout.route.stats import Floats
from scrout.route.task_vectors import remember
from scrout.task import title_of

AGENT = "mini"
"""mini-SWE-agent ran both sets."""
MULTILINGUAL = {
    "Claude 4.5 Haiku": "claude-haiku-4-5",
    "Claude 4.5 Opus": "claude-opus-4-5",
    "Claude 4.5 Sonnet": "claude-sonnet-4-5",
    "Claude 4.6 Opus": "claude-opus-4-6",
    "DeepSeek V3.2": "deepseek-v3.2",
    "GLM-5": "glm-5",
    "GPT 5.2 Codex": "gpt-5.2-codex",
    "GPT-5 mini": "gpt-5-mini",
    "GPT-5.2 (high reasoning)": "gpt-5.2@high",
    "Gemini 3 Flash": "gemini-3-flash",
    "Gemini 3 Pro": "gemini-3-pro",
    "Kimi K2.5": "kimi-k2.5",
    "Minimax 2.5": "minimax-m2.5",
}
LABEL_RUN = {
    "Claude Opus 4.6": "claude-opus-4-6",
    "GPT-5.2": "gpt-5.2@high",
    "Gemini 3 Flash": "gemini-3-flash",
    "Kimi K2.5": "kimi-k2.5",
}
SOURCES = {
    "multilingual": "SWE-bench Multilingual leaderboard, mini-SWE-agent 2.0.0, 2026-02",
    "label run": "label run of arXiv 2608.04804 (CC-BY-4.0)",
}
MADE = date(2026, 2, 27)
"""Of the outcomes."""


def read_multilingual(data: Path) -> dict[FixerKey, list[OutcomeWithText]]:
    texts = read_texts(data / "tasks" / "swebench_multilingual.jsonl.gz")
    found: dict[FixerKey, list[OutcomeWithText]] = defaultdict(list)
    for _, row in read_rows(data / "outcomes" / "multilingual_mini_swe_agent.csv.gz"):
        key, name = _key(MULTILINGUAL[row["model"]]), row["instance_id"]
        if name not in texts:  # the leaderboard's files cut the ids of three.js at the dot
            continue
        cost_usd, calls = Decimal(row["cost_usd"]), int(float(row["api_calls"]))
        found[key].append(join_texts(name, texts[name], row["resolved"] == "1", cost_usd, "solo", calls))
    return found


def read_label_run(data: Path) -> dict[FixerKey, list[OutcomeWithText]]:
    texts = read_texts(data / "labelrun" / "task_inputs.jsonl.gz")
    found: dict[FixerKey, list[OutcomeWithText]] = defaultdict(list)
    for _, row in read_rows(data / "labelrun" / "outcomes.jsonl"):
        key, name, cost = _key(LABEL_RUN[row["fixer"]]), row["task_id"], row["cost_usd_pinned"]
        arm: Arm = "handoff" if row["arm"] == "handoff" else "solo"
        # A cost of 0 is a receipt that was lost.
        found[key].append(join_texts(name, texts[name], bool(row["solved"]), Decimal(str(cost)) if cost else None, arm))
    return found


def read_states(paths: Iterable[Path]) -> tuple[str, tuple[str, ...], dict[str, Floats]]:
    """The space, its names, and the states by instance_id."""
    spaces: set[str] = set()
    names: tuple[str, ...] = ()
    states: dict[str, Floats] = {}
    for path in paths:
        with np.load(path, allow_pickle=False) as stored:
            spaces.add(str(stored["space"]))
            names = tuple(stored["names"].tolist())
            states |= dict(zip(stored["ids"].tolist(), stored["rows"].astype(np.float64), strict=True))
    if len(spaces) != 1:
        raise RouteError(f"states of {sorted(spaces)}: heads are fitted on one space. Make them again together.")
    return spaces.pop(), names, states


def tabulate(
    told_by: Mapping[FixerKey, Sequence[OutcomeWithText]], arm: Arm = "solo"
) -> tuple[OutcomeTable, dict[str, str]]:
    """The outcomes of one arm, a row a task and a column a fixer, and the texts by instance_id."""
    ones = {
        (one.outcome.instance_id, key): one for key, all_ in told_by.items() for one in all_ if one.outcome.arm == arm
    }
    ids, fixers = sorted({name for name, _ in ones}), sorted(told_by, key=str)
    resolved, measured = (np.zeros((len(ids), len(fixers)), dtype=bool) for _ in range(2))
    cost = np.full(resolved.shape, np.nan)
    for (name, key), one in ones.items():
        at = ids.index(name), fixers.index(key)
        measured[at], resolved[at] = True, one.outcome.resolved
        if one.outcome.cost_usd is not None:
            cost[at] = float(one.outcome.cost_usd)
    groups = tuple(repository_of(name) for name in ids)
    texts = {name: one.text for (name, _), one in ones.items()}
    return OutcomeTable(tuple(ids), groups, tuple(map(str, fixers)), resolved, cost, measured), texts


def build(data: Path, state_files: Sequence[Path], out: Path, embedders: Sequence[Embedder]) -> None:
    """Everything that ships, into an empty folder."""
    sets = {"multilingual": read_multilingual(data), "label run": read_label_run(data)}
    space, state_names, states = read_states(state_files)
    together: dict[FixerKey, list[OutcomeWithText]] = defaultdict(list)
    for found in sets.values():
        for key, ones in found.items():
            together[key] += ones
    for key, ones in together.items():
        source = "; ".join(SOURCES[name] for name, found in sets.items() if key in found)
        resume.save(Resume(key=key, outcomes=tuple(one.outcome for one in ones), source=source, made=MADE), out)
    texts = {one.outcome.instance_id: one for ones in together.values() for one in ones}
    titles = {one.outcome.task: title_of(one.text) for one in texts.values()}
    remember(out, text_counts.SPACE, {one.outcome.task: text_counts.count(one.text) for one in texts.values()}, titles)
    scouted = {one.outcome.task: states[name].astype(np.float32) for name, one in texts.items() if name in states}
    remember(out, space, scouted, titles)
    table, by_name = tabulate(together)
    counted = np.array([text_counts.count(by_name[name]) for name in table.ids], dtype=np.float64)
    difficulty.save(heldout.fit_difficulty(table, counted, text_counts.NAMES, [text_counts.SPACE]), out)
    seen = np.array([name in states for name in table.ids])
    both = np.concatenate([counted[seen], np.array([states[name] for name in table.ids if name in states])], axis=1)
    names = (*text_counts.NAMES, *state_names)
    difficulty.save(heldout.fit_difficulty(table.rows(seen), both, names, [text_counts.SPACE, space]), out)
    for embedder in embedders:
        vectors = embedder.embed([by_name[name] for name in table.ids])
        remember(
            out,
            text_space(embedder),
            {texts[n].outcome.task: v for n, v in zip(table.ids, vectors, strict=True)},
            titles,
        )
        everything = np.ones(len(table.ids), dtype=bool)
        standings = heldout.standings(table, vectors, everything)
        heads.save(heldout.fit_resumes(table, text_space(embedder), vectors, standings, everything), out)
    _calibrate(sets["multilingual"], space, states, state_names, out, embedders)


def _calibrate(
    told_by: Mapping[FixerKey, Sequence[OutcomeWithText]],
    space: str,
    states: Mapping[str, Floats],
    state_names: Sequence[str],
    out: Path,
    embedders: Sequence[Embedder],
) -> None:
    """A theta and a worth for each combination of spaces, on the tasks that every model tried."""
    table, texts = tabulate(told_by)
    table = table.rows(np.array([name in states for name in table.ids]) & table.measured.all(axis=1))
    folds = group_folds(table.groups)
    counted = np.array([text_counts.count(texts[name]) for name in table.ids], dtype=np.float64)
    both = np.concatenate([counted, np.array([states[name] for name in table.ids])], axis=1)
    probabilities = {
        (text_counts.SPACE,): heldout.by_difficulty(table, counted, text_counts.NAMES, [text_counts.SPACE], folds),
        (text_counts.SPACE, space): heldout.by_difficulty(
            table, both, (*text_counts.NAMES, *state_names), [text_counts.SPACE, space], folds
        ),
    }
    for embedder in embedders:
        vectors = embedder.embed([texts[name] for name in table.ids])
        probabilities[text_space(embedder),] = heldout.by_resumes(table, {text_space(embedder): vectors}, folds)
    for spaces, p in probabilities.items():
        policy: calibrate.Policy = "paper" if spaces[0].startswith("text/") else "value"
        found = calibrate.calibrate(table.with_probabilities(p), folds, policy=policy, arm="solo", spaces=spaces)
        calibrate.save(found, out)
        print(f"{' + '.join(spaces)}: {policy} {found.setting:.3f}", file=sys.stderr)


def _key(model: str) -> FixerKey:
    return FixerKey.parse(f"{AGENT}/{model}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--states", type=Path, nargs="+", required=True)
    parser.add_argument("--out", type=Path, default=SHIPPED)
    options = parser.parse_args()
    embedders: list[Embedder] = [HashedEmbedder()]
    if lacking := minilm.missing():
        print(f"without vectors of MiniLM, as {', '.join(lacking)} is not installed", file=sys.stderr)
    else:
        embedders.append(open_embedder(EmbedderSettings(kind="minilm")))
    if options.out.exists():
        shutil.rmtree(options.out)
    build(options.data, options.states, options.out, embedders)


if __name__ == "__main__":
    main()
