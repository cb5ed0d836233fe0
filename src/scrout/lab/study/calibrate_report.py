"""Tables, figures and findings of `calibrate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from scrout.intervals import Estimate
from scrout.lab.study.calibrate import BASE, Calibrations, DesignCell, Shrinkage, Space, named
from scrout.lab.study.calibrate_heads import ReliabilityGroup
from scrout.lab.study.figures import DASHES, INK, MARKERS, SHADES, error_bars
from scrout.lab.study.report import (
    Figure,
    ReportTable,
    StudyReport,
    arm_words,
    interval,
    number,
    p_value,
    points,
    table,
    with_content,
)
from scrout.lab.study.stats import ALPHA
from scrout.text import percent, usd

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def report(result: Calibrations) -> StudyReport:
    parts: list[ReportTable | Figure] = []
    for space in result.spaces:
        name, where = f"calibrate-reliability-{space.arm}", f"{space.benchmark}, {arm_words(space.arm)}"
        parts += [_quality_table(space), _savings_table(space), _reliability(name, where, space.reliability)]
    parts += with_content(_published_table(result))
    if control := result.control:
        lines = {name if name == "blend" else f"{name} head": one for name, one in control.reliability.items()}
        figure = _reliability("calibrate-reliability-released", "the released router, cheapest fixer", lines)
        parts += [_swap_table(control), _order_table(control), figure]
    findings = [line for space in result.spaces for line in _space_findings(space)]
    findings += _control_findings(result.control) if result.control else []
    return StudyReport("Calibrating a router", findings, parts, _notes(result))


def _quality_table(space: Space) -> ReportTable:
    return table(
        f"{space.benchmark}, {arm_words(space.arm)}: how well probabilities are predicted",
        space.cells,
        {
            "Features, head": _cell_name,
            "AUC": lambda cell: interval(cell.auc, number),
            "AUC within": lambda cell: interval(cell.auc_within, number),
            "Brier": lambda cell: interval(cell.brier, number),
            "Brier gained": lambda cell: _signed(cell.brier_gain),
            "p (Holm)": lambda cell: "-" if cell.head == BASE else p_value(cell.p_holm),
        },
        f"{space.tasks} tasks of {space.repositories} repositories, {len(space.fixers)} fixers, {space.folds} folds of "
        "whole repositories. Within: pairs of one fixer and one fold, so that neither a fixer's strength nor a fold's "
        "luck helps. Gained: the base rates' score less this one. An exploratory look at all cells, so p is adjusted. "
        "Résumé heads are fitted as in the paper, on centroids that hold the task itself, which makes them too sure.",
    )


def _savings_table(space: Space) -> ReportTable:
    return table(
        f"{space.benchmark}, {arm_words(space.arm)}: what routing by them saves at the matched rate",
        space.cells,
        {
            "Features, head": _cell_name,
            "Theta": lambda cell: number(cell.matched.theta),
            "$/task": lambda cell: usd(cell.matched.usd, 3),
            "Saved": lambda cell: interval(cell.matched.saving),
            "Points": lambda cell: points(cell.matched.gain),
            "Over mix": lambda cell: points(cell.matched.over_mix),
            "Folds won": lambda cell: f"{cell.matched.folds_won}/{space.folds}",
        },
        f"Beside {space.strongest}, the strongest alone: {percent(space.strongest_solve)} at "
        f"{usd(space.strongest_usd, 3)} per task. Theta is chosen for each fold on the others as the cheapest that "
        "solves as much as the strongest there; the one shown is that of all tasks. Over mix: points over the best "
        "random mix at the same cost. Settings are held in the resampling. A fold is won where no less is solved for "
        "less money.",
    )


def _published_table(result: Calibrations) -> ReportTable:
    aucs = ", ".join(f"{name} {value:.3f}" for name, value in result.published_auc.items())
    return table(
        "The paper's design space, as published (not recomputed)",
        result.published,
        {
            "Features": lambda row: row.name,
            "Saved, LR": lambda row: f"{row.saving_lr_pct}%",
            "Saved, MLP": lambda row: f"{row.saving_mlp_pct}%",
            "Folds won": lambda row: row.folds,
            "Brier": lambda row: number(row.brier),
            "$/task": lambda row: usd(row.usd_per_task, 4),
        },
        f"Its embeddings and hidden states were not released, so nothing here checks these. Its AUC: {aucs}.",
    )


def _swap_table(control: Shrinkage) -> ReportTable:
    return table(
        f"Shrinkage control: the released router with its state swapped, theta {control.theta:g}",
        control.swaps,
        {
            "The probability by": lambda one: one.name,
            "Tasks diverted": lambda one: _tasks(one.diverted),
            "Decided as released": lambda one: _tasks(one.as_released),
        },
        f"Of {control.tasks} tasks; diverted: taken from the cheapest fixer. Over permutations the mean, and where 95% "
        "of them lie.",
    )


def _order_table(control: Shrinkage) -> ReportTable:
    return table(
        "How the released router's probabilities order its evaluation's tasks",
        control.orders,
        {
            "Fixer, arm, head": lambda one: f"{one.fixer}, {arm_words(one.arm)}, {one.space}",
            "Tasks": lambda one: f"{one.tasks}",
            "AUC": lambda one: interval(one.auc, number),
            "p": lambda one: p_value(one.p),
            "p (Holm)": lambda one: p_value(one.p_holm),
        },
        "An exploratory look: every fixer and arm with outcomes on most tasks. The heads were fitted on other tasks.",
    )


def _reliability(name: str, where: str, lines: Mapping[str, Sequence[ReliabilityGroup]]) -> Figure:
    words = "; ".join(
        f"{line}: " + ", ".join(f"{one.predicted:.2f} predicted, {one.solved.value:.2f} solved" for one in groups)
        for line, groups in lines.items()
    )
    return Figure(name, f"Predicted and solved: {where}", partial(_draw_reliability, lines=lines), words, 4.2)


def _draw_reliability(axes: Axes, lines: Mapping[str, Sequence[ReliabilityGroup]]) -> None:
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=":", label="as predicted")
    for at, (name, groups) in enumerate(lines.items()):
        axes.errorbar(
            [one.predicted for one in groups],
            [one.solved.value for one in groups],
            yerr=error_bars([one.solved for one in groups]),
            color=SHADES[at],
            marker=MARKERS[at],
            linestyle=DASHES[at % len(DASHES)],
            elinewidth=0.8,
            capsize=2,
            label=name,
        )
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="probability, mean of a group", ylabel="share solved")
    axes.legend(loc="upper left")


def _space_findings(space: Space) -> list[str]:
    where = f"{space.benchmark}, {arm_words(space.arm)}"
    base, *cells = space.cells
    best = min(cells, key=lambda cell: cell.brier.value)
    better = sum(cell.p_holm < ALPHA and cell.brier_gain.value > 0 for cell in cells)
    worse = sum(cell.p_holm < ALPHA and cell.brier_gain.value < 0 for cell in cells)
    routed = max(cells, key=lambda cell: cell.matched.over_mix.value)
    above = sum(cell.matched.over_mix.low > 0 for cell in cells)
    return [
        f"{where}: of {len(cells)} cells {better} are shown to predict better than base rates and {worse} worse; the "
        f"lowest Brier score is {best.brier.value:.3f} ({_cell_name(best)}, AUC within "
        f"{interval(best.auc_within, number)}), that of base rates {base.brier.value:.3f}.",
        f"{where}: matched to {space.strongest}, {above} of {len(cells)} cells are shown above a random mix at the "
        f"same cost. The best is {_cell_name(routed)}: {points(routed.matched.over_mix)} points over the mix, "
        f"{interval(routed.matched.saving)} saved at {points(routed.matched.gain)} points. Base rates, which look at "
        f"no task, save {interval(base.matched.saving)} at {points(base.matched.gain)}.",
    ]


def _control_findings(control: Shrinkage) -> list[str]:
    released, mean, permuted, text, *_ = control.swaps
    shown = "shown" if control.blend_over_text.low > 0 else "not shown"
    return [
        f"Shrinkage: with its state head the released router diverts {released.diverted.value:.0f} of {control.tasks} "
        f"tasks from the cheapest fixer, by text alone {text.diverted.value:.0f}; with a constant in the state's place "
        f"{mean.diverted.value:.0f}, with another task's state {_tasks(permuted.diverted)}. So what the state head "
        "did to the decisions, a shifted threshold does as well.",
        f"That does not say that the state knows nothing: its AUC is {_signed(control.state_over_text)} over the "
        f"text's for the cheapest fixer with handoff. But the blend's is {_signed(control.blend_over_text)}: {shown} "
        "to be above 0.",
        "Of the tasks that the text alone would take from the cheapest fixer it solves "
        f"{percent(control.solved_where_text_diverts)} with handoff, of others {percent(control.solved_elsewhere)}.",
    ]


def _notes(result: Calibrations) -> list[str]:
    embedders = " and ".join(result.embedders)
    missing = "; MiniLM is not installed here (docs/research/routing.md has its figures)"
    return [
        "Intervals are 95%, from resampling tasks. Probabilities and thetas of a fold come from the other folds; the "
        "probabilities by which a theta is chosen are of heads that saw this fold, as in `scrout calibrate`.",
        f"Texts are embedded by {embedders}{missing if len(result.embedders) == 1 else ''}.",
        *(f"Left out: {line}" for line in result.left_out),
    ]


def _cell_name(cell: DesignCell) -> str:
    return named(cell.features, cell.head)


def _tasks(found: Estimate) -> str:
    if found.low == found.high == found.value:
        return f"{found.value:.0f}"
    return f"{found.value:.1f} [{found.low:.0f}, {found.high:.0f}]"


def _signed(found: Estimate) -> str:
    return interval(found, "{:+.3f}".format)
