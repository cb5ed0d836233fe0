"""`scrout train evaluate`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click
from rich.console import Group, RenderableType
from rich.text import Text

from scrout.cli import options, render
from scrout.cli.train import shared
from scrout.text import percent

if TYPE_CHECKING:
    from scrout.intervals import Estimate
    from scrout.lab.train.evaluate.episode import Arm
    from scrout.lab.train.evaluate.score import FindRateSplit, Measure, Score, ScoreChange

ROWS: dict[Measure, str] = {
    "find_rate": "find rate",
    "emission": "handed over",
    "recall_per_handoff": "  recall of those",
    "precision_per_handoff": "  precision of those",
    "files_per_handoff": "  files of those",
    "all_gold_per_handoff": "  with every gold file",
    "well_formed": "handed over in form",
    "find_rate_with_forced": "find rate, forced counted too",
    "emission_forced": "forced to hand over",
    "recall_per_forced": "  recall of those",
    "precision_per_forced": "  precision of those",
    "files_per_forced": "  files of those",
    "all_gold_per_forced": "  with every gold file",
    "well_formed_forced": "forced, in form",
    "valid_calls": "turns with a valid call",
    "malformed_turns": "malformed turns",
    "malformed_episodes": "episodes with such turns",
    "timeouts": "timeouts",
}
BASELINE_COLUMNS = ("against the baseline", "tasks", "before", "after", "change [95%]")
COUNTS = ("files_per_handoff", "files_per_forced")


@click.command(name="evaluate")
@click.argument("tasks", metavar="TASKS", type=shared.PATH)
@click.option("--out", required=True, type=shared.PATH, metavar="DIR", help="Folder; continues an evaluation.")
@click.option("--arms", "arm_names", default="greedy,sampled", show_default=True, help="One, or both.")
@click.option("--draws", type=click.IntRange(1, 1000), default=1, show_default=True, help="Samples per task.")
@click.option("--temperature", type=click.FloatRange(0, 5, min_open=True), default=0.9, help="Of the arm `sampled`.")
@shared.parallel
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Only the first N tasks.")
@click.option("--baseline", type=shared.PATH, metavar="DIR", help="An evaluation to compare with.")
@shared.tasks(searcher="model")
@options.as_json
def command(
    tasks: Path,
    out: Path,
    arm_names: str,
    draws: int,
    temperature: float,
    parallel: int,
    limit: int | None,
    baseline: Path | None,
    as_json: bool,
    read: Callable[[Path], shared.TaskInputs],
) -> int:
    """Example: scrout train evaluate held_out.jsonl --repos clones --out after --draws 4

    Let the model under [scout.model] search held-out tasks whose fix is known, and score it. The same command continues
    an evaluation. Exit code 1: some episodes failed and can be tried again.
    """
    from scrout.lab.train.episodes import with_gold
    from scrout.lab.train.evaluate.evaluate import EvaluationPlan, compare_with, read_evaluation, run_evaluation

    if baseline:
        read_evaluation(baseline)  # raise an error before the work starts
    inputs = read(tasks)
    inputs.settings.scout.model.key()
    held = with_gold(inputs.rows)
    if unknown := len(inputs.rows) - len(held) + len(inputs.unusable):
        render.say(f"note: {unknown} rows of {tasks} are left out: their gold files are not known")
    plan = EvaluationPlan(_arms(arm_names), draws, temperature, parallel)
    with render.working() as progress:
        score = run_evaluation(held[:limit], out, inputs.settings, plan, inputs.repositories, progress)
    if baseline:
        score = compare_with(score, out, baseline)
    shared.show(score, lambda: _view(score), as_json=as_json)
    for name, why in list(score.not_scored.items())[:5]:
        render.say(f"not scored: {name}: {why}")
    return 0 if score.episodes == score.expected else 1


def _arms(names: str) -> tuple[Arm, ...]:
    from scrout.lab.train.evaluate.episode import Arm

    asked = {name.strip() for name in names.split(",") if name.strip()}
    if not asked or not asked <= set(get_args(Arm)):
        raise click.BadParameter(f"{names!r}: name some of {', '.join(get_args(Arm))}, with a comma between.")
    return tuple(arm for arm in get_args(Arm) if arm in asked)


def _view(score: Score) -> RenderableType:
    figures = {
        words: [_figure(arm.measures[measure], measure) for arm in score.arms] for measure, words in ROWS.items()
    }
    rows = [(words, *cells) for words, cells in figures.items() if any(cell != "-" for cell in cells)]
    heads = [f"{arm.arm}\n{arm.tasks} tasks, {arm.episodes} episodes" for arm in score.arms]
    parts: list[RenderableType] = [shared.facts(rows, (score.model, *heads))] if score.arms else []
    if score.changes:
        parts.append(shared.facts(map(_change, score.changes), BASELINE_COLUMNS))
    return Group(*parts, *(Text(render.inert(words)) for words in _findings(score)))


def _change(one: ScoreChange) -> tuple[str, ...]:
    figures = (f"{one.before:.3f}", f"{one.after:.3f}", _figure(one.change, one.measure, "+.3f"))
    return f"{ROWS[one.measure].strip()}, {one.arm}", str(one.tasks), *figures


def _figure(found: Estimate | None, measure: Measure, form: str = "") -> str:
    if found is None:
        return "-"
    form = form or (".2f" if measure in COUNTS else ".3f")
    return f"{found.value:{form}} [{found.low:{form}}, {found.high:{form}}]"


def _findings(score: Score) -> Iterator[str]:
    if score.episodes < score.expected:
        yield f"{score.expected - score.episodes} of {score.expected} episodes are missing; the same command continues."
    if score.decoding is None:
        return
    yield _split(score.decoding.every, "On all tasks that both arms have")
    if score.decoding.matched is None:
        yield "Every task has a timeout in some arm, so nothing is left with timeouts matched."
    elif score.decoding.matched.tasks < score.decoding.every.tasks:
        yield _split(score.decoding.matched, "Where no episode timed out")


def _split(split: FindRateSplit, where: str) -> str:
    rates = f"sampled finds {split.sampled:.3f}, greedy {split.greedy:.3f}"
    if split.ratio is None or split.emission_ratio is None or split.recall_ratio is None:
        return f"{where} ({split.tasks}): {rates}; there is no ratio."
    share = "" if split.emission_share is None else f" ({percent(split.emission_share, 0)} of it, in logarithms)"
    return (
        f"{where} ({split.tasks}): {rates}, {split.ratio.value:.2f} times as much "
        f"[{split.ratio.low:.2f}, {split.ratio.high:.2f}] = {split.emission_ratio.value:.2f} by handing over more "
        f"often{share} x {split.recall_ratio.value:.2f} by recall per handoff."
    )
