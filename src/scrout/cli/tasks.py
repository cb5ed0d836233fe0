"""`scrout tasks`: inspects task files, and makes tasks from published packages."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click
from rich.text import Text

from scrout.base import FrozenModel, TaskError
from scrout.batch.make.make import MadeTasks, make_tasks
from scrout.batch.tasks import TaskFile, UnusableRow, read_tasks
from scrout.cli import options, render
from scrout.cli.groups import CommandGroup
from scrout.sandbox.probe import require_tier
from scrout.text import percent

MOST_PROBLEMS = 20
"""Maximum number to show on a terminal; the JSON has all."""


class RepositoryReport(FrozenModel):
    repo: str
    tasks: int
    commits: int


class TaskFileReport(FrozenModel):
    file: Path
    digest: str
    tasks: int
    with_answer: int
    with_tests: int
    repositories: tuple[RepositoryReport, ...]
    problems: tuple[UnusableRow, ...]


class PackageReport(FrozenModel):
    package: str
    version: str
    tasks: int
    examples: int
    tried: int
    words: str
    """Why there are fewer tasks than requested; empty: all were made."""


class MadeReport(FrozenModel):
    file: Path
    tasks: int
    packages: tuple[PackageReport, ...]


@click.group(name="tasks", cls=CommandGroup)
def command() -> None:
    """Example: scrout tasks show tasks.jsonl

    Inspect task files, and make tasks from published packages.
    """


@command.command(name="show")
@click.argument("source", metavar="TASKS", type=options.PATH)
@click.option("--repo", type=options.PATH, help="The repository that a folder of issues is about.")
@options.as_json
def _show(source: Path, repo: Path | None, as_json: bool) -> int:
    """Example: scrout tasks show tasks.jsonl

    Count the tasks of a file, or of a folder of issues, and name unusable rows. Exit code 1 if there are any.
    """
    report = _report(source, read_tasks(source, repo))
    if as_json:
        render.print_json(report)
    else:
        _view_file(report)
    return 1 if report.problems else 0


@command.command(name="make")
@click.option("--packages", multiple=True, required=True, metavar="NAME...", help="Pure Python, NAME or NAME==VERSION.")
@click.argument("more", nargs=-1, metavar="")
@click.option("--out", type=options.PATH, required=True, metavar="DIR", help="Folder for tasks and clones.")
@click.option("--count", type=click.IntRange(min=1), default=8, show_default=True, help="Tasks of each package.")
@click.option("--seed", type=int, default=1, show_default=True, help="Selects the bugs.")
@click.option("--jobs", type=click.IntRange(min=1), help="Test runs at once.", show_default="one for each core")
@options.sandbox
@options.configuration
@options.as_json
def _make(
    packages: tuple[str, ...], more: tuple[str, ...], out: Path, count: int, seed: int, jobs: int | None, as_json: bool
) -> int:
    """Example: scrout tasks make --packages idna==3.10 --out own

    Make tasks from published packages: one function made wrong, an issue about it, and the answer.

    The result is DIR/tasks.jsonl. It downloads the packages' sources and what their tests need, and keeps packages
    that an earlier call finished. Exit code 1 if a package gave no tasks.
    """
    tier = require_tier(options.read_settings(Path()).sandbox)
    if out.exists() and not out.is_dir():
        raise TaskError(f"{out} is a file. Name a folder with --out.")
    with render.working() as progress:
        made = make_tasks((*packages, *more), out, tier, count=count, seed=seed, jobs=jobs or 0, progress=progress)
    report = MadeReport(
        file=out / "tasks.jsonl",
        tasks=sum(len(one.rows) for one in made),
        packages=tuple(_package(one) for one in made),
    )
    if as_json:
        render.print_json(report)
    else:
        _view_made(report)
    return 0 if all(one.tasks for one in report.packages) else 1


@command.command(name="draw")
@click.argument("source", metavar="TASKS", type=options.PATH)
@click.option("--out", type=options.PATH, required=True, metavar="DIR", help="Folder for tasks and the batch.")
@click.option("--fixers", required=True, metavar="NAMES", help="Fixers to compare, separated by commas.")
@click.option(
    "--points",
    type=click.FloatRange(min=0, max=100, min_open=True),
    default=4.0,
    show_default=True,
    help="Change of the solve rate to detect, in percentage points.",
)
@click.option(
    "--differ",
    type=click.FloatRange(min=0, max=100, min_open=True),
    default=20.0,
    show_default=True,
    help="Percent of tasks on which two arms of a fixer differ.",
)
@click.option(
    "--power",
    type=click.FloatRange(min=0, max=1, min_open=True, max_open=True),
    default=0.8,
    show_default=True,
    help="Probability of detecting it.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Selects the tasks.")
@options.as_json
def _draw(
    source: Path, out: Path, fixers: str, points: float, differ: float, power: float, seed: int, as_json: bool
) -> int:
    """Example: scrout tasks draw tasks.jsonl --out study --fixers repair,my-model

    Draw enough tasks to measure what handoff and gate do, and print how to run, grade and study them.

    The arms are solo, handoff and passthrough, paired by task. The result is DIR/tasks.jsonl. Exit code 1 if there
    are too few tasks.
    """
    from scrout.cli.study import refuse_missing

    refuse_missing()
    from scrout.lab.study.handoff_setup import draw_batch

    names = options.names(fixers)
    drawn = draw_batch(source, out, names, effect=points / 100, differ=differ / 100, wanted=power, seed=seed)
    if as_json:
        render.print_json(drawn)
        return 0 if drawn.enough else 1
    for line in drawn.commands:
        click.echo(render.inert(line))
    needed = f"{drawn.needed:,}" if drawn.needed else "more than can be counted"
    render.say(
        f"{drawn.drawn:,} tasks in {drawn.file}; {points:g} points take {needed}, and with these are found "
        f"{percent(drawn.power, 0)} of the time"
    )
    if drawn.ungraded:
        render.say(f"{drawn.ungraded:,} of them have no answer, so that nothing but the check can judge them")
    return 0 if drawn.enough else 1


def _report(source: Path, found: TaskFile) -> TaskFileReport:
    counts = Counter(row.repo for row in found.rows)
    commits = {repo: {row.base_commit for row in found.rows if row.repo == repo} for repo in counts}
    return TaskFileReport(
        file=source,
        digest=found.digest,
        tasks=len(found.rows),
        with_answer=sum(row.gold is not None and bool(row.gold.patch) for row in found.rows),
        with_tests=sum(row.gold is not None and bool(row.gold.fail_to_pass) for row in found.rows),
        repositories=tuple(
            RepositoryReport(repo=repo, tasks=tasks, commits=len(commits[repo])) for repo, tasks in counts.most_common()
        ),
        problems=found.problems,
    )


def _package(made: MadeTasks) -> PackageReport:
    return PackageReport(
        package=made.requirement.partition("==")[0],
        version=made.version,
        tasks=len(made.rows),
        examples=sum(origin.example for origin in made.origins),
        tried=made.tried,
        words=made.words,
    )


def _view_file(report: TaskFileReport) -> None:
    head = f"{report.tasks} tasks, {report.with_answer} with their answer, {report.with_tests} with tests that judge"
    render.print_view(Text(render.inert(f"{report.file}: {head}, digest {report.digest[:12]}")))
    table = render.table("repository", "tasks", "commits", right=("tasks", "commits"))
    for one in report.repositories:
        render.row(table, one.repo, str(one.tasks), str(one.commits))
    if report.repositories:
        render.print_view(table)
    options.report_unusable(report.problems, MOST_PROBLEMS)


def _view_made(report: MadeReport) -> None:
    counts = ("tasks", "with an example", "mutations tried")
    table = render.table("package", *counts, right=counts)
    for one in report.packages:
        render.row(table, f"{one.package} {one.version}".strip(), str(one.tasks), str(one.examples), str(one.tried))
    render.print_view(table)
    for one in report.packages:
        if one.words:
            render.say(f"{one.package}: {one.words}")
    render.say(f"{report.tasks} tasks in {report.file}")
