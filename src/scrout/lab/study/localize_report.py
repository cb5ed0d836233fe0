"""Tables, figures and findings of `localize`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from scrout.intervals import Estimate
from scrout.lab.study.figures import MARKERS, SHADES
from scrout.lab.study.localize import (
    RANKS,
    Division,
    GroupComparison,
    HandoffGroup,
    LocalizeStudy,
)
from scrout.lab.study.report import Figure, ReportTable, StudyReport, interval, p_value, points

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def report(result: LocalizeStudy) -> StudyReport:
    """The study for people."""
    titles: dict[Division, str] = {
        "kind": "By how the handoff came about",
        "repository": "By repository, kinds pooled",
        "language": "By language, kinds pooled",
        "outcome": f"By outcome of {result.solved_by}, kinds pooled",
    }
    parts: list[ReportTable | Figure] = []
    for by, title in titles.items():
        groups = [group for group in result.groups if group.by == by]
        if groups:
            parts.append(_sheet(title, groups))
    if result.compared:
        parts.append(_comparison(result.compared))
    parts.append(_picture([group for group in result.groups if group.by != "language" or _differs(group, result)]))
    notes = list(result.notes)
    if result.unknown:
        notes.append(f"{result.unknown} handoffs are left out: their true files are not known.")
    return StudyReport("How well a scout finds the files", tuple(_findings(result)), parts, notes)


def _findings(result: LocalizeStudy) -> Iterator[str]:
    first = result.groups[0]
    yield (
        f"{first.name}, {first.tasks} tasks: recall {interval(first.recall, _plain)}, precision "
        f"{interval(first.precision, _plain)}, every gold file named in {interval(first.all_gold)}; "
        f"{first.named:.2f} files named where {first.gold:.2f} are gold."
    )
    for group in result.groups[1:]:
        if group.by == "kind":
            yield (
                f"{group.name}, {group.tasks}: recall {interval(group.recall, _plain)}, precision "
                f"{interval(group.precision, _plain)}, every gold file in {interval(group.all_gold)}."
            )
    for one in result.compared:
        if one.measure in ("recall", "all_gold"):
            yield (
                f"{_MEASURE[one.measure]}, {one.group} against {one.others}: {points(one.apart.change)} points, "
                f"p {p_value(one.apart.p)}, adjusted {p_value(one.p_holm)}."
            )
    repositories = [group for group in result.groups if group.by == "repository"]
    if len(repositories) > 1:
        best, worst = (pick(repositories, key=lambda group: group.recall.value) for pick in (max, min))
        yield (
            f"By repository recall goes from {interval(worst.recall, _plain)} ({worst.name}) to "
            f"{interval(best.recall, _plain)} ({best.name})."
        )


_MEASURE = {"recall": "Recall", "precision": "Precision", "f1": "F1", "all_gold": "Every gold file named"}


def _sheet(title: str, groups: Sequence[HandoffGroup]) -> ReportTable:
    ranked = all(group.acc is not None for group in groups)
    rows = [
        (
            group.name,
            str(group.tasks),
            *(interval(one, _plain) for one in (group.recall, group.precision, group.f1)),
            interval(group.all_gold),
            f"{group.named:.2f}",
            f"{group.gold:.2f}",
            *(interval(group.acc[k]) for k in RANKS if ranked and group.acc is not None),
        )
        for group in groups
    ]
    columns = ("", "tasks", "recall", "precision", "F1", "all gold", "named", "gold")
    accuracy = tuple(f"Acc@{k}" for k in RANKS) if ranked else ()
    return ReportTable(title, columns + accuracy, rows, "95%: over resampled tasks; shares of tasks by Wilson.")


def _comparison(compared: Sequence[GroupComparison]) -> ReportTable:
    rows = [
        (
            f"{one.group} ({one.apart.tasks}) against {one.others} ({one.apart.others})",
            _MEASURE[one.measure],
            _plain(one.apart.mean),
            _plain(one.apart.mean_of_others),
            points(one.apart.change),
            p_value(one.apart.p),
            p_value(one.p_holm),
        )
        for one in compared
    ]
    columns = ("", "figure", "first", "second", "difference, points [95%]", "p", "Holm")
    return ReportTable("Groups compared", columns, rows, "By permuting which task is in which group.")


def _picture(groups: Sequence[HandoffGroup]) -> Figure:
    shown = list(groups)[::-1]

    def draw(axes: Axes) -> None:
        for number, (name, shift) in enumerate((("precision", 0.16), ("recall", -0.16))):
            for at, group in enumerate(shown):
                found: Estimate = getattr(group, name)
                axes.plot([found.low, found.high], [at + shift] * 2, color=SHADES[2 * number], linewidth=1.2)
                axes.plot(
                    *(found.value, at + shift),
                    marker=MARKERS[number],
                    color=SHADES[2 * number],
                    linestyle="none",
                    markersize=5,
                    label=None if at else name,
                )
        axes.set_yticks(range(len(shown)), [f"{group.name} ({group.tasks})" for group in shown], fontsize=8)
        axes.set_ylim(-0.6, len(shown) - 0.4)
        axes.set_xlim(0, 1)
        axes.set_xlabel("mean over tasks (95%)")
        axes.legend(loc="lower left")

    told = "; ".join(
        f"{group.name}: recall {_plain(group.recall.value)}, precision {_plain(group.precision.value)}"
        for group in groups
    )
    return Figure("localize", "Files named against files changed", draw, told, 1.2 + 0.42 * len(shown))


def _differs(group: HandoffGroup, result: LocalizeStudy) -> bool:
    """Whether there is another language."""
    return sum(one.by == group.by for one in result.groups) > 1


def _plain(share: float) -> str:
    return "-" if share != share else f"{share:.3f}".replace("0.", ".", 1)
