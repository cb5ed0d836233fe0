"""`scrout calibrate`: measures the router on tasks with known outcomes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click
from rich.console import Group, RenderableType
from rich.text import Text

from scrout.base import RouteError
from scrout.cli import options, render
from scrout.files import write_plain
from scrout.fix.pool import completed
from scrout.route.outcomes import Arm
from scrout.text import percent, usd

if TYPE_CHECKING:
    from scrout.intervals import Estimate
    from scrout.route.calibrate import Calibration, Policy
    from scrout.route.router import Router


@click.command(name="calibrate")
@click.option(
    "--outcomes",
    "folder",
    type=options.PATH,
    required=True,
    metavar="DIR",
    help="Folder with one CSV or JSONL file of outcomes for each fixer.",
)
@click.option("--tasks", type=options.PATH, metavar="FILE", help="Texts of the tasks, by instance_id.")
@click.option("--arm", type=click.Choice(get_args(Arm)), default="handoff", show_default=True, help="Outcomes to use.")
@click.option(
    "--policy",
    type=click.Choice(("paper", "value")),
    show_default="route.policy of the settings",
    help="Calibrate a theta (paper), or the worth of a solve (value).",
)
@click.option("--save", "kept", is_flag=True, help="Store the result with your résumés, where the router reads it.")
@click.option("--plot", type=options.PATH, metavar="FILE.svg", help="Also plot solve rate against cost.")
@options.common
def command(
    repo: Path,
    folder: Path,
    tasks: Path | None,
    arm: Arm,
    policy: Policy | None,
    kept: bool,
    plot: Path | None,
    as_json: bool,
) -> int:
    """Example: scrout calibrate --outcomes outcomes/ --tasks tasks.jsonl --save

    Measure the router on tasks with known outcomes, held out by repository, against every simpler way to spend.
    """
    if plot:
        if plot.suffix != ".svg":
            raise RouteError(f"--plot {plot}: plots are SVG. Name a file that ends in .svg.")
        options.must_be_writable(plot, "--plot")
    settings = completed(options.read_settings(repo), render.say)

    from scrout.pipeline import router
    from scrout.route.calibrate import calibrate_folder

    with render.working() as progress:
        chosen = policy or settings.route.policy
        judge = router(settings)
        found = calibrate_folder(
            folder, tasks, settings, arm=arm, policy=chosen, known=judge.folders, progress=progress
        )
    if plot:
        from scrout.route.calibration_plot import svg

        write_plain(plot, svg(found).encode())
    render.show(found, _view(found), as_json=as_json)
    for warning in found.warnings:
        render.say(f"warning: {warning}")
    if kept:
        _keep(found, judge)
    return 0


def _keep(found: Calibration, judge: Router) -> None:
    """Save the calibration; says what changed and whether it matches the pool."""
    from scrout.route.calibrate import changed, load, save

    before = [one for folder in judge.folders if (one := load(folder)) is not None]
    path = save(found, judge.folder)
    render.say(f"saved to {path}")
    now = load(judge.folder)
    assert now is not None
    for line in changed(before[-1] if before else None, now):
        render.say(f"  {line}")
    pool = {str(own.key) for fixer in judge.settings.fixers if (own := judge.resume_of(fixer)) is not None}
    if pool != set(found.fixers):
        render.say(
            "note: what a solve is worth counts for a pool of exactly these fixers: "
            f"{', '.join(found.fixers)}. Yours goes by {', '.join(sorted(pool)) or 'no résumé'}."
        )


def _view(found: Calibration) -> RenderableType:
    figures = ("solved", "$/task", "ours solves", "ours saves")
    table = render.table("", *figures, right=figures, whole=figures)
    for line in (found.ours, *found.baselines):
        mark = f" ({line.kind})" if line.kind in ("cheapest", "strongest") else ""
        name = f"ours ({line.name})" if line.kind == "ours" else line.name.removeprefix("always ") + mark
        cells = (name, percent(line.solve), usd(line.usd, 4), _points(line.solve_gain), _percent(line.saving))
        render.row(table, *cells, style="bold" if line.kind == "ours" else "")
    strongest = found.strongest
    shares = ", ".join(f"{name} {percent(share, 0)}" for name, share in found.shares.items() if share)
    left_out = f"; {found.left_out} left out, as some fixer has no outcome there" if found.left_out else ""
    said = (
        f"{found.tasks} tasks of {found.repositories} repositories in {found.folds} folds, {found.arm} arm{left_out}",
        f"probabilities by {' and '.join(found.spaces)}",
        f"beside the strongest, {strongest.name}: saves {_percent(strongest.saving) or 'nothing'}, "
        f"solves {_points(strongest.solve_gain)} points",
        f"over a random mix at the same cost: {_points(found.over_hull) or 'undefined'} points",
        f"takes {shares}",
        f"theta {found.setting:.3f}" if found.policy == "paper" else f"a solve is worth {usd(found.setting)}",
    )
    return Group(table, *(Text(render.inert(words)) for words in said))


def _points(change: Estimate | None) -> str:
    """In percentage points, with the interval."""
    return "" if change is None else f"{_tenth(change.value):+} [{_tenth(change.low)}, {_tenth(change.high)}]"


def _percent(change: Estimate | None) -> str:
    return "" if change is None else f"{percent(change.value, 0)} [{100 * change.low:.0f}, {100 * change.high:.0f}]"


def _tenth(share: float) -> float:
    """With one decimal; zero is plain 0.0."""
    return round(100 * share, 1) + 0.0
