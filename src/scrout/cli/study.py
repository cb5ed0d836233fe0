"""`scrout study`: tables and figures of the paper's receipts, or of your own runs."""

from __future__ import annotations

import shlex
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from scrout.base import StudyError
from scrout.cli import options, render
from scrout.files import write_plain
from scrout.lab.study import STUDIES

if TYPE_CHECKING:
    from scrout.lab.study.report import ReportTable, StudyReport
    from scrout.lab.study.sources.source import Source

NEEDED = ("scipy", "matplotlib", "sklearn")
NOT_AS_PUBLISHED = 1
PIPE_WIDTH = 160
"""Wide enough for columns with intervals."""


@click.command(
    name="study",
    short_help="Recompute what outcomes say, from the paper's receipts or from your own runs.",
    help="Recompute what outcomes say, from the paper's receipts or from your own runs.\n\n\b\n"
    + "\n".join(f"{name:10} {what}" for name, what in STUDIES.items()),
)
@click.argument("name", type=click.Choice(tuple(STUDIES)))
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="The paper's files, a batch's folder, or a table of outcomes.",
)
@click.option("--ledger", "place", metavar="URL", help="Runs of this ledger: a path, or postgresql://...")
@click.option("--batch", default="", metavar="ID", help="Only this batch of the ledger.")
@click.option("--pool", default="", metavar="NAMES", help="Only these fixers, separated by commas.")
@click.option(
    "--tasks", type=click.Path(path_type=Path), metavar="FILE", help="Task file of these runs: answers and texts."
)
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Also write a page that opens offline.")
@click.option(
    "--figures", type=click.Path(path_type=Path), metavar="DIR", help="Also write each picture, as SVG and PNG."
)
@options.as_json
def command(
    name: str,
    data: Path | None,
    place: str | None,
    batch: str,
    pool: str,
    tasks: Path | None,
    html: Path | None,
    figures: Path | None,
    as_json: bool,
) -> int:
    refuse_missing()
    for path in (html, figures):
        if path and not path.absolute().parent.is_dir():
            raise StudyError(f"{path}: {path.absolute().parent} is not a folder. Create it first.")
    from scrout.lab.study.sources.source import open_source

    with render.working() as progress:
        source = open_source(data, place, batch, tasks, [name.strip() for name in pool.split(",") if name.strip()])
        progress(f"{name} of {source}")
        result = import_module(f"scrout.lab.study.{name}").study(source)
        report: StudyReport = import_module(f"scrout.lab.study.{name}_report").report(result)
        _write(name, report, source, html, figures)
    if as_json:
        render.print_json(result)
    else:
        render.print_view(_view(report, source), pipe_width=PIPE_WIDTH)
    for cell in report.failed:
        render.say(f"differs: {cell}")
    return NOT_AS_PUBLISHED if report.failed else 0


def refuse_missing() -> None:
    """Raise a StudyError that names the missing packages of a study."""
    from importlib.util import find_spec

    if lacking := [name for name in NEEDED if find_spec(name) is None]:
        raise StudyError(
            f"studies need packages that are not installed: {', '.join(lacking)}. Run pip install "
            "'scrout[study]', or in a clone pip install --editable '.[study]'"
        )


def _write(name: str, report: StudyReport, source: Source, html: Path | None, figures: Path | None) -> None:
    from scrout.lab.study.report import Figure
    from scrout.lab.study.saved import page, save_study
    from scrout.redact import redact_command

    command = redact_command(shlex.join(["scrout", *sys.argv[1:]]))
    try:
        save_study(name, report, str(source), command)
    except OSError as error:  # the output file was requested; the stored copy is optional
        render.say(f"note: it is not kept for the dashboard: {error.strerror or error}")
    if html:
        write_plain(html, page(report, str(source), command).encode())
    if figures:
        from scrout.lab.study.figures import save

        for part in report.parts:
            if isinstance(part, Figure):
                save(part, figures)


def _view(report: StudyReport, source: Source) -> RenderableType:
    from scrout.lab.study.report import ReportTable

    shown: list[RenderableType] = [Text(report.title, "bold"), Text(render.inert(str(source)), "dim")]
    shown += [Text(render.inert(f"- {line}")) for line in report.findings]
    for part in report.parts:
        if isinstance(part, ReportTable):
            shown += [Text(), Text(render.inert(part.title), "bold"), _table(part)]
            shown += [Padding(Text(render.inert(part.note), "dim"), (0, 0, 0, 0))] if part.note else []
    if report.notes:
        shown += [Text(), *(Text(render.inert(line), "dim") for line in report.notes)]
    return Group(*shown)


def _table(sheet: ReportTable) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(sheet.columns):
        table.add_column(render.inert(name), justify="right" if number else "left", overflow="fold")
    for row in sheet.rows:
        table.add_row(*(Text(render.inert(cell)) for cell in row))
    return table
