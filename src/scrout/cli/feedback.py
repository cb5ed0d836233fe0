"""`scrout feedback`: records a run's outcome, so that the router learns from it."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import click

from scrout.base import FrozenModel
from scrout.cli import options, render
from scrout.route.feedback import Drift, Grade, Verdict, drift, own_folder, record
from scrout.route.resume import MIN_OUTCOMES
from scrout.text import plural


class FeedbackReport(FrozenModel):
    run: str
    verdict: Verdict
    former: Verdict | Grade | None
    key: str
    """Key of the résumé that learned it: agent/model@effort."""
    replaced: bool
    """True: it replaced a former outcome of the same task."""
    n: int
    solved: int
    growing: bool
    """True: the résumé has too few outcomes to be used."""
    drift: Drift | None


@click.command(name="feedback")
@click.argument("run_id", metavar="RUN")
@click.argument("verdict", metavar="VERDICT", type=click.Choice(get_args(Verdict)))
@options.common
def command(run_id: str, verdict: Verdict, repo: Path, as_json: bool) -> int:
    """Example: scrout feedback 20261115 merged

    Record how a run ended, and let its fixer's résumé learn it.

    RUN is its id or the beginning of it, as `scrout runs` lists them. VERDICT is merged, reverted or wrong. The
    last verdict on a run counts.
    """
    from scrout.ledger.opening import open_ledger
    from scrout.route.embed import open_embedder

    settings = options.read_settings(repo)
    with open_ledger(settings) as book:
        run = book.run(run_id)
    lesson, former = record(run, verdict, settings, open_embedder(settings.route.embedder))
    resume = lesson.resume
    report = FeedbackReport(
        run=run.id,
        verdict=verdict,
        former=former.verdict if former else None,
        key=str(resume.key),
        replaced=bool(lesson.replaced),
        n=resume.n,
        solved=resume.solved,
        growing=resume.growing,
        drift=next((one for one in drift(own_folder(settings.route)) if one.key == resume.key), None),
    )
    if as_json:
        render.print_json(report)
    else:
        render.say(_words(report))
    if report.drift and report.drift.notice:
        render.say(f"drift: {report.drift.notice}")
    return 0


def _words(report: FeedbackReport) -> str:
    words = f"{report.run} is {report.verdict}"
    if report.former:
        words += f", in place of {report.former}"
    elif report.replaced:
        words += ", in place of a former outcome of the same task"
    words += f". {report.key} has {plural(report.n, 'outcome')}, {report.solved} solved"
    if report.growing:
        words += f"; its résumé counts from {MIN_OUTCOMES} on"
    return f"{words}."
