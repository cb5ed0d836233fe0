"""`scrout batch show`: the result of a batch, from the summary in its folder."""

from __future__ import annotations

from pathlib import Path

import click
from rich.table import Table

from scrout.base import TaskError
from scrout.batch.folder import BatchFolder
from scrout.batch.outputs.results import Costs, Share, Summary
from scrout.cli import options, render
from scrout.text import percent, usd


@click.command(name="show")
@click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path, exists=True, file_okay=False))
@options.as_json
def command(folder: Path, as_json: bool) -> int:
    """Example: scrout batch show batch

    Show the result of a batch: solves, grades and costs of each arm.

    FOLDER is the --out of `scrout batch run`. The figures are of its last run or grading.
    """
    batch = BatchFolder(folder)
    summary = _read(batch)
    if as_json:
        render.print_json(summary)
        return 0
    render.print_view(_table(summary))
    render.say(f"batch {summary.batch.id}: {_spent(summary.costs)} spent in all; report: {batch.report}")
    return 0


def _read(batch: BatchFolder) -> Summary:
    try:
        return Summary.model_validate_json(batch.summary.read_bytes())
    except FileNotFoundError:
        raise TaskError(
            f"{batch.path} holds no summary of a batch. Name the --out of `scrout batch run`, or run that command "
            f"again to continue."
        ) from None
    except ValueError as error:
        raise TaskError(f"{batch.summary} cannot be read: {error}. Run the batch's command again.") from None


def _table(summary: Summary) -> Table:
    figures = ("done", "solved", "graded", "spent", "per task", "per solve")
    table = render.table("arm", *figures, right=figures)
    for arm in summary.arms:
        render.row(
            table,
            arm.arm,
            f"{arm.done} of {arm.tasks}",
            _share(arm.solved),
            _share(arm.graded.resolved) if arm.graded else "not yet",
            _spent(arm.paid),
            usd(arm.usd_a_task),
            usd(arm.usd_a_resolve if arm.graded else arm.usd_a_solve),
        )
    return table


def _spent(costs: Costs) -> str:
    more = f" and {costs.unpriced_calls} calls without a price" if costs.unpriced_calls else ""
    return f"{usd(costs.known_usd)}{more}"


def _share(share: Share) -> str:
    return "0" if share.rate is None else f"{share.count} of {share.of} ({percent(share.rate, 0)})"
