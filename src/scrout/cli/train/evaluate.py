"""`scrout train evaluate`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click
from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from scrout.cli import options, render
from scrout.text import percent

if TYPE_CHECKING:
    from scrout.intervals import Estimate
    from scrout.lab.train.evaluate.episode import Arm
    from scrout.lab.train.evaluate.score import FindRateSplit, Measure, Score

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
COUNTS = ("files_per_handoff", "files_per_forced")


@click.command(name="evaluate")
@click.argument("tasks", metavar="TASKS", type=click.Path(path_type=Path))
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of the evaluation; one there goes on.",
)
@click.option("--arms", "arm_names", default="greedy,sampled", show_default=True, help="With a comma between.")
@click.option("--draws", type=click.IntRange(1, 1000), default=1, show_default=True, help="A task, where sampled.")
@click.option(
    "--temperature", type=click.FloatRange(0, 5, min_open=True), default=0.9, show_default=True, help="Where sampled."
)
@click.option("--parallel", type=click.IntRange(1, 512), default=2, show_default=True, help="Episodes at once.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Only the first N tasks whose gold files are known.")
@click.option(
    "--against",
    "other",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="An evaluation to compare with, task by task.",
)
@options.tasks_repositories
@options.sandbox
@options.configuration
@options.as_json
def command(
    tasks: Path,
    out: Path,
    arm_names: str,
    draws: int,
    temperature: float,
    parallel: int,
    limit: int | None,
    other: Path | None,
    repo: Path | None,
    repos: tuple[Path, ...],
    repo_url: str,
    config: Path | None,
    overrides: tuple[str, ...],
    as_json: bool,
) -> int:
    """Let the model under [scout.model] search held-out tasks whose fix is known, greedy and sampled, and score it.

    TASKS is a task file as `scrout run` takes it, with gold files; tasks without are left out. The same command goes
    on with an evaluation that was interrupted. Exit code 1: infrastructure failed some episodes; the next call tries them
    again.
    """
    from scrout.batch.tasks import Repositories, read_tasks
    from scrout.lab.train.evaluate.evaluate import EvaluationPlan, against, read_evaluation, run_evaluation

    if other:
        read_evaluation(other)  # said before the work, not after it
    settings = options.read_settings(repo or Path(), config, (*overrides, 'scout.searcher="model"'))
    settings.scout.model.key()
    found = read_tasks(tasks, repo)
    held = [row for row in found.rows if row.gold and row.gold.files]
    if unknown := len(found.rows) - len(held) + len(found.problems):
        render.say(f"note: {unknown} rows of {tasks} are left out: their gold files are not known")
    plan = EvaluationPlan(_arms(arm_names), draws, temperature, parallel)
    with render.working() as progress:
        score = run_evaluation(held[:limit], out, settings, plan, Repositories(repos, repo_url), progress)
    if other:
        score = against(score, out, other)
    if as_json:
        render.print_json(score)
    else:
        render.print_view(_view(score))
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
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column(Text(render.inert(score.model)))
    for arm in score.arms:
        table.add_column(f"{arm.arm}\n{arm.tasks} tasks, {arm.episodes} episodes", justify="right")
    for measure, words in ROWS.items():
        cells = [_figure(arm.measures[measure], measure) for arm in score.arms]
        if any(cell != "-" for cell in cells):
            table.add_row(words, *cells)
    parts: list[RenderableType] = [table] if score.arms else []
    if score.changes:
        parts.append(_changes(score))
    return Group(*parts, *(Text(render.inert(words)) for words in _findings(score)))


def _changes(score: Score) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for title in ("against the other evaluation", "tasks", "before", "after", "change [95%]"):
        table.add_column(title, justify="left" if title.startswith("against") else "right")
    for one in score.changes:
        figures = (f"{one.before:.3f}", f"{one.after:.3f}", _figure(one.change, one.measure, "+.3f"))
        table.add_row(f"{ROWS[one.measure].strip()}, {one.arm}", str(one.tasks), *figures)
    return table


def _figure(found: Estimate | None, measure: Measure, form: str = "") -> str:
    if found is None:
        return "-"
    form = form or (".2f" if measure in COUNTS else ".3f")
    return f"{found.value:{form}} [{found.low:{form}}, {found.high:{form}}]"


def _findings(score: Score) -> Iterator[str]:
    if score.episodes < score.expected:
        yield f"{score.expected - score.episodes} of {score.expected} episodes are missing; the same command goes on."
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
