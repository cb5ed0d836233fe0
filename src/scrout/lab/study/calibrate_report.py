"""Tables, figures and findings of `calibrate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from scrout.intervals import Estimate
from scrout.lab.study.calibrate import (
    BASE,
    Calibrations,
    MatchedCell,
    Shrinkage,
    Space,
    named,
)
from scrout.lab.study.calibrate_heads import ReliabilityGroup
from scrout.lab.study.figures import DASHES, INK, MARKERS, SHADES
from scrout.lab.study.report import Figure, ReportTable, StudyReport, interval, p_value, points
from scrout.records import Arm
from scrout.text import percent, usd

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def report(result: Calibrations) -> StudyReport:
    """Tables and pictures of it."""
    parts: list[ReportTable | Figure] = []
    for space in result.spaces:
        parts += [_quality(space), _savings(space), _reliability_of(space)]
    if result.published:
        parts.append(_printed(result))
    if result.control:
        parts += [_swapped(result.control), _ordered(result.control), _control_picture(result.control)]
    findings = [line for space in result.spaces for line in _space_findings(space)]
    findings += _control_findings(result.control) if result.control else []
    return StudyReport("Calibrating a router", findings, parts, _notes(result))


def _quality(space: Space) -> ReportTable:
    rows = [
        [
            named(cell.features, cell.head),
            interval(cell.auc, _three),
            interval(cell.auc_within, _three) if cell.auc_within else "-",
            interval(cell.brier, _three),
            _signed(cell.brier_gain),
            "-" if cell.head == BASE else p_value(cell.p_holm),
        ]
        for cell in space.cells
    ]
    return ReportTable(
        f"{space.benchmark}, {_arm(space.arm)}: how well probabilities are predicted",
        ["Features, head", "AUC", "AUC within", "Brier", "Brier gained", "p (Holm)"],
        rows,
        f"{space.tasks} tasks of {space.repositories} repositories, {len(space.fixers)} fixers, {space.folds} folds of "
        "whole repositories. Within: pairs of one fixer and one fold, so that neither a fixer's strength nor a fold's "
        "luck helps. Gained: the base rates' score less this one. An exploratory look at all cells, so p is adjusted. "
        "Résumé heads are fitted as in the paper, on centroids that hold the task itself, which makes them too sure.",
    )


def _savings(space: Space) -> ReportTable:
    rows = [
        [
            named(cell.features, cell.head),
            f"{cell.matched.theta:.3f}",
            usd(cell.matched.usd, 3),
            _saved(cell.matched),
            points(cell.matched.gain),
            points(cell.matched.over_mix),
            f"{cell.matched.folds_won}/{space.folds}",
        ]
        for cell in space.cells
    ]
    return ReportTable(
        f"{space.benchmark}, {_arm(space.arm)}: what routing by them saves at the matched rate",
        ["Features, head", "Theta", "$/task", "Saved", "Points", "Over mix", "Folds won"],
        rows,
        f"Beside {space.strongest}, the strongest alone: {percent(space.strongest_solve)} at "
        f"{usd(space.strongest_usd, 3)} a task. Theta is chosen for each fold on the others as the cheapest that "
        "solves as much as the strongest there; the one shown is that of all tasks. Over mix: points over the best "
        "random mix at the same cost. Settings are held in the resampling. A fold is won where no less is solved for "
        "less money.",
    )


def _printed(result: Calibrations) -> ReportTable:
    rows = [
        [
            row.name,
            f"{row.saving_lr_pct}%",
            f"{row.saving_mlp_pct}%",
            row.folds,
            f"{row.brier:.3f}",
            usd(row.usd_per_task, 4),
        ]
        for row in result.published
    ]
    aucs = ", ".join(f"{name} {value:.3f}" for name, value in result.published_auc.items())
    return ReportTable(
        "The paper's design space, as published (not recomputed)",
        ["Features", "Saved, LR", "Saved, MLP", "Folds won", "Brier", "$/task"],
        rows,
        f"Its embeddings and hidden states were not released, so nothing here checks these. Its AUC: {aucs}.",
    )


def _swapped(control: Shrinkage) -> ReportTable:
    rows = [[one.name, _number(one.diverted), _number(one.as_released)] for one in control.swaps]
    return ReportTable(
        f"Shrinkage control: the released router with its state swapped, theta {control.theta:g}",
        ["The probability by", "Tasks diverted", "Decided as released"],
        rows,
        f"Of {control.tasks} tasks; diverted: taken from the cheapest fixer. Over permutations the mean, and where 95% "
        "of them lie.",
    )


def _ordered(control: Shrinkage) -> ReportTable:
    rows = [
        [
            f"{one.fixer}, {_arm(one.arm)}, {one.space}",
            str(one.tasks),
            interval(one.auc, _three),
            p_value(one.p),
            p_value(one.p_holm),
        ]
        for one in control.orders
    ]
    return ReportTable(
        "How the released router's probabilities order its evaluation's tasks",
        ["Fixer, arm, head", "Tasks", "AUC", "p", "p (Holm)"],
        rows,
        "An exploratory look: every fixer and arm with outcomes on most tasks. The heads were fitted on other tasks.",
    )


def _reliability_of(space: Space) -> Figure:
    told = "; ".join(f"{name}: {_in_words(groups)}" for name, groups in space.reliability.items())
    return Figure(
        f"calibrate-reliability-{space.arm}",
        f"Predicted and solved: {space.benchmark}, {_arm(space.arm)}",
        partial(_draw, lines=space.reliability),
        told,
        height=4.2,
    )


def _control_picture(control: Shrinkage) -> Figure:
    told = "; ".join(f"{name}: {_in_words(groups)}" for name, groups in control.reliability.items())
    return Figure(
        "calibrate-reliability-released",
        "Predicted and solved: the released router, cheapest fixer",
        partial(
            _draw, lines={f"{name} head" if name != "blend" else name: g for name, g in control.reliability.items()}
        ),
        told,
        height=4.2,
    )


def _draw(axes: Axes, lines: Mapping[str, Sequence[ReliabilityGroup]]) -> None:
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=":", label="as predicted")
    for at, (name, groups) in enumerate(lines.items()):
        x, y = [one.predicted for one in groups], [one.solved.value for one in groups]
        below = [one.solved.value - one.solved.low for one in groups]
        above = [one.solved.high - one.solved.value for one in groups]
        axes.errorbar(
            x,
            y,
            yerr=[below, above],
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
    where = f"{space.benchmark}, {_arm(space.arm)}"
    base, *looks = space.cells
    best = min(looks, key=lambda cell: cell.brier.value)
    better = sum(cell.p_holm < 0.05 and cell.brier_gain.value > 0 for cell in looks)
    worse = sum(cell.p_holm < 0.05 and cell.brier_gain.value < 0 for cell in looks)
    within = interval(best.auc_within, _three) if best.auc_within else "-"
    routed = max(looks, key=lambda cell: cell.matched.over_mix.value)
    beating = sum(cell.matched.over_mix.low > 0 for cell in looks)
    return [
        f"{where}: of {len(looks)} cells {better} are shown to predict better than base rates and {worse} worse; the "
        f"lowest Brier's score is {best.brier.value:.3f} ({named(best.features, best.head)}, AUC within {within}), "
        f"that of base rates {base.brier.value:.3f}.",
        f"{where}: matched to {space.strongest}, {beating} of {len(looks)} cells are shown above a random mix at the "
        f"same cost. The best is {named(routed.features, routed.head)}: {points(routed.matched.over_mix)} points over "
        f"the mix, {_saved(routed.matched)} saved at {points(routed.matched.gain)} points. Base rates, which "
        f"look at no task, save {_saved(base.matched)} at {points(base.matched.gain)}.",
    ]


def _control_findings(control: Shrinkage) -> list[str]:
    released, mean, permuted, text, *_ = control.swaps
    shown = "shown" if control.blend_over_text.low > 0 else "not shown"
    return [
        f"Shrinkage: with its state head the released router diverts {released.diverted.value:.0f} of {control.tasks} "
        f"tasks from the cheapest fixer, by text alone {text.diverted.value:.0f}; with a constant in the state's place "
        f"{mean.diverted.value:.0f}, with another task's state {_number(permuted.diverted)}. So what the state head "
        "did to the decisions, a shifted threshold does as well.",
        f"That does not say that the state knows nothing: its AUC is {_signed(control.state_over_text)} over the "
        f"text's for the cheapest fixer with handoff. But the blend's is {_signed(control.blend_over_text)}: {shown} "
        "to be above 0.",
        "Of the tasks that the text alone would take from the cheapest fixer it solves "
        f"{percent(control.solved_where_text_diverts)} with handoff, of others {percent(control.solved_elsewhere)}.",
    ]


def _notes(result: Calibrations) -> list[str]:
    said = [
        "Intervals are 95%, from resampling tasks. Probabilities and thetas of a fold come from the other folds; the "
        "probabilities by which a theta is chosen are of heads that saw this fold, as in `scrout calibrate`.",
        f"Texts are seen through {' and '.join(result.embedders)}"
        + (
            "."
            if len(result.embedders) > 1
            else "; MiniLM is not installed here (docs/routing-measured.md has its figures)."
        ),
    ]
    return [*said, *(f"Left out: {line}" for line in result.left_out)]


def _arm(arm: Arm) -> str:
    return "with handoff" if arm == "handoff" else arm


def _saved(found: MatchedCell) -> str:
    return interval(found.saving) if found.saving else "-"


def _number(found: Estimate) -> str:
    if found.low == found.high == found.value:
        return f"{found.value:.0f}"
    return f"{found.value:.1f} [{found.low:.0f}, {found.high:.0f}]"


def _three(number: float) -> str:
    return f"{number:.3f}"


def _signed(found: Estimate) -> str:
    return f"{found.value:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"


def _in_words(groups: Sequence[ReliabilityGroup]) -> str:
    return ", ".join(f"{one.predicted:.2f} predicted, {one.solved.value:.2f} solved" for one in groups)
