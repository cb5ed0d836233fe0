"""`scrout batch grade`: the tests that judge, run over every patch of a batch or of a file of predictions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

import click
from rich.table import Table

from scrout.base import TaskError
from scrout.batch.folder import BatchFolder
from scrout.batch.grading.grade import Verdict
from scrout.batch.grading.grade_batch import Arms, Grader, GradeStore, GradingReport, open_grade_store, report, reserve
from scrout.batch.grading.judge import TIMEOUT_S, digest
from scrout.batch.grading.patches import mark_lost, prediction_files, read_arms
from scrout.batch.session import kept_in
from scrout.batch.task_formats import TaskRow
from scrout.batch.tasks import Repositories, TaskFile, read_tasks
from scrout.cli import options, render
from scrout.cli.run_async import run_async
from scrout.config.settings import Settings
from scrout.ledger.opening import open_ledger
from scrout.ledger.store import Ledger
from scrout.sandbox.probe import require_tier
from scrout.text import percent

MOST_TOLD = 10
"""Maximum number of tasks of a kind to list; the JSON has all."""
_VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


@click.command(name="grade")
@click.argument("predictions", metavar="PREDICTIONS", type=click.Path(path_type=Path, exists=True))
@click.option("--tasks", type=options.PATH, required=True, help="The tasks, with the tests that judge.")
@click.option("--out", type=options.PATH, help="Folder for grades. Default: the batch's, or one beside PREDICTIONS.")
@click.option("--jobs", type=click.IntRange(1, 1024), default=2, show_default=True, help="Tasks at once.")
@click.option(
    "--repeats",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="Runs of each patch's tests; several show flaky tests.",
)
@click.option(
    "--timeout-s", type=click.FloatRange(min=1), default=TIMEOUT_S, show_default=True, help="For one run of tests."
)
@click.option(
    "--harness",
    type=click.Choice(["own", "official"]),
    default="own",
    show_default=True,
    help="scrout's sandbox, or the tasks' official harness in Docker.",
)
@click.option("--dataset", default="", help="Official harness: the published dataset, if it cannot read the task file.")
@click.option("--scripts", type=options.PATH, help="Official harness: a clone of SWE-bench Pro's repository.")
@click.option("--run-id", default="", help="Name for these patches; other patches are refused under it.")
@click.option("--learn", "is_learning", is_flag=True, help="Let the fixers' résumés learn from a batch's grades.")
@options.tasks_repositories
@options.sandbox
@options.configuration
@options.as_json
def command(
    predictions: Path,
    tasks: Path,
    out: Path | None,
    jobs: int,
    repeats: int,
    timeout_s: float,
    harness: Literal["own", "official"],
    dataset: str,
    scripts: Path | None,
    run_id: str,
    is_learning: bool,
    repo: Path | None,
    repos: tuple[Path, ...],
    repo_url: str,
    as_json: bool,
) -> int:
    """Example: scrout batch grade batch --tasks tasks.jsonl --repos clones/

    Run the tests that judge each patch of a batch, or of a file of predictions.

    PREDICTIONS is the folder of a batch, or a file with rows for SWE-bench's harness or SWE-bench Pro's script. The
    same command continues an interrupted grading. Exit code 0: every patch was graded. 1: infrastructure failed for
    some; the same command tries them again.
    """
    settings = options.read_settings(repo or Path())
    if is_learning and not predictions.is_dir():
        raise TaskError(
            f"--learn needs the folder of a batch, which records the fixer of each patch; {predictions} is a file."
        )
    found = read_tasks(tasks, repo)
    options.report_unusable(found.problems)
    if not any(row.gold for row in found.rows):
        raise TaskError(f"no task of {tasks} has a gold, so no patch can be graded. Give tasks with their tests.")
    arms = _arms(predictions, settings)
    with open_grade_store(out or _beside(predictions)) as book, render.working() as progress:
        name = run_id or f"scrout-{_digest(arms)[:12]}"
        if run_id or harness == "official":
            reserve(book.folder, name, arms)
        if harness == "official":
            from scrout.batch.grading.harness import Official

            official = Official(book, tasks, name, jobs, timeout_s, dataset, scripts, progress)
            official.run(found.rows, arms, prediction_files(predictions))
        else:
            where = Repositories(repos, repo_url)
            tier = require_tier(settings.sandbox)
            run_async(Grader(book, where, tier, settings, jobs, repeats, timeout_s, progress).run(found.rows, arms))
        graded = report(found.rows, arms, book)
        if is_learning:
            progress("the résumés learn")
            _teach(BatchFolder(predictions), graded, settings)
        if predictions.is_dir() and book.folder.samefile(predictions):
            _sum_up(BatchFolder(predictions), found, settings)
    _tell(graded, book, found.rows)
    render.show(graded, _table(graded), as_json=as_json)
    return 1 if graded.infrastructure else 0


def _arms(predictions: Path, settings: Settings) -> Arms:
    """The submitted patches by arm. For a batch, the ledger tells which attempts infrastructure ended."""
    arms = read_arms(predictions)
    folder = BatchFolder(predictions)
    batch = folder.read() if predictions.is_dir() else None
    if batch is None:
        return arms
    with _ledger(folder, settings) as book:
        return mark_lost(arms, book.runs_of(batch.id))


def _ledger(folder: BatchFolder, settings: Settings) -> Ledger:
    book, batch = open_ledger(kept_in(settings, folder), folder.attempts), folder.read()
    if batch is not None and not book.runs(1, batch=batch.id):
        book.close()
        raise TaskError(
            f"the ledger holds no run of the batch in {folder.path}. Name the ledger that the batch was run with, "
            f"such as -c ledger.path=FILE."
        )
    return book


def _beside(predictions: Path) -> Path:
    return predictions if predictions.is_dir() else predictions.with_name(f"{predictions.name}.grades")


def _digest(arms: Arms) -> str:
    """Digest of all patches together."""
    return digest("\0".join(f"{arm}\0{one.id}\0{one.patch}" for arm, found in arms.items() for one in found.values()))


def _teach(folder: BatchFolder, graded: GradingReport, settings: Settings) -> None:
    from scrout.batch.grading.resumes import teach
    from scrout.route.embed import open_embedder

    batch = folder.read()
    assert batch is not None  # its predictions were read
    grades = {(one.id, arm.arm): one for arm in graded.arms for one in arm.grades}
    with _ledger(folder, settings) as book:
        lessons = teach(batch, book, grades, settings, open_embedder(settings.route.embedder))
    for key, lesson in lessons.by_fixer.items():
        render.say(f"{key} has {lesson.resume.n} outcomes, {lesson.resume.solved} solved")
    render.say(
        f"learned from {lessons.learned} runs; {lessons.known} were known, {len(lessons.skipped)} taught nothing"
    )
    for words in lessons.skipped[:MOST_TOLD]:
        render.say(f"note: {words}")


def _sum_up(folder: BatchFolder, found: TaskFile, settings: Settings) -> None:
    from scrout.batch.outputs.report import write_report
    from scrout.batch.outputs.summary import summarize

    batch = folder.read()
    assert batch is not None  # its predictions were read
    try:
        former = json.loads(folder.summary.read_text(encoding="utf-8")).get("command", "")
    except (OSError, ValueError, AttributeError):
        former = ""
    with _ledger(folder, settings) as book:
        write_report(folder, summarize(folder, batch, book, found.problems, found.rows, str(former)))
    render.say(f"report: {folder.report}")


def _table(graded: GradingReport) -> Table:
    named = any(arm.arm for arm in graded.arms)
    columns = ("arm", "tasks", "resolved", "rate", "others") if named else ("tasks", "resolved", "rate", "others")
    table = render.table(*columns, right=("tasks", "resolved", "rate"))
    table.columns[-1].ratio = 1
    for arm in graded.arms:
        counts = {verdict.replace("_", " "): arm.verdicts.get(verdict, 0) for verdict in _VERDICTS}
        counts |= {"control failed": arm.control_failed, "without a prediction": arm.missing}
        resolved = str(counts.pop("resolved"))
        others = ", ".join(f"{n} {words}" for words, n in counts.items() if n)
        render.row(table, *([arm.arm] if named else []), str(arm.tasks), resolved, percent(arm.rate), others)
    return table


def _tell(graded: GradingReport, book: GradeStore, rows: Sequence[TaskRow]) -> None:
    several = [f"control_failed: {one.id}: {one.detail}" for one in graded.control_failed]
    every = [one for arm in graded.arms for one in arm.grades]
    several += [f"infrastructure: {one.id}: {one.detail}" for one in every if one.verdict == "infrastructure"]
    several += [f"flaky: {one.id}: {', '.join(one.flaky[:5])}" for one in every if one.flaky]
    several += [f"no task has the id {task_id} of a prediction" for task_id in graded.unknown]
    for words in several[:MOST_TOLD]:
        render.say(words)
    if len(several) > MOST_TOLD:
        render.say(f"{len(several) - MOST_TOLD} further notes are in the --json report")
    if graded.control_failed:
        share = f"{len(graded.control_failed)} of {len(rows)} tasks"
        render.say(f"{share} cannot tell right from wrong; they are not counted")
    render.say(f"grades: {book.folder / 'grades.jsonl'}")
