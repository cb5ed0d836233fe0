"""Tables, figures and findings of `localize`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from scrout.lab.study.figures import forest
from scrout.lab.study.localize import RANKS, Division, GroupComparison, HandoffGroup, LocalizeStudy
from scrout.lab.study.report import Figure, ReportTable, StudyReport, interval, p_value, points, table, with_content

MEASURES = {"recall": "Recall", "precision": "Precision", "f1": "F1", "all_gold": "Every gold file named"}


def report(result: LocalizeStudy) -> StudyReport:
    titles: dict[Division, str] = {
        "kind": "By how the handoff came about",
        "repository": "By repository, kinds pooled",
        "language": "By language, kinds pooled",
        "outcome": f"By outcome of {result.solved_by}, kinds pooled",
    }
    by_division = {by: [group for group in result.groups if group.by == by] for by in titles}
    one_language = len(by_division["language"]) < 2
    parts = with_content(
        *(_table(titles[by], groups) for by, groups in by_division.items()),
        _comparison_table(result.compared),
        _figure([group for group in result.groups if group.by != "language" or not one_language]),
    )
    notes = list(result.notes)
    if result.unknown:
        notes.append(f"{result.unknown} handoffs are left out: their true files are not known.")
    return StudyReport("How well a scout finds the files", tuple(_findings(result)), parts, notes)


def _findings(result: LocalizeStudy) -> Iterator[str]:
    first = result.groups[0]
    yield (
        f"{_group_line(first, 'every gold file named in')}; "
        f"{first.named:.2f} files named where {first.gold:.2f} are gold."
    )
    for group in result.groups[1:]:
        if group.by == "kind":
            yield f"{_group_line(group, 'every gold file named in')}."
    for one in result.compared:
        if one.measure in ("recall", "all_gold"):
            yield (
                f"{MEASURES[one.measure]}, {one.group} against {one.others}: {points(one.apart.change)} points, "
                f"p {p_value(one.apart.p)}, adjusted {p_value(one.p_holm)}."
            )
    repositories = [group for group in result.groups if group.by == "repository"]
    if len(repositories) > 1:
        best, worst = (pick(repositories, key=lambda group: group.recall.value) for pick in (max, min))
        yield (
            f"By repository recall goes from {interval(worst.recall, _share)} ({worst.name}) to "
            f"{interval(best.recall, _share)} ({best.name})."
        )


def _group_line(group: HandoffGroup, whole: str) -> str:
    return (
        f"{group.name}, {group.tasks} tasks: recall {interval(group.recall, _share)}, precision "
        f"{interval(group.precision, _share)}, {whole} {interval(group.all_gold)}"
    )


def _table(title: str, groups: Sequence[HandoffGroup]) -> ReportTable:
    ranks = RANKS if all(group.acc is not None for group in groups) else ()
    return table(
        title,
        groups,
        {
            "": lambda group: group.name,
            "tasks": lambda group: str(group.tasks),
            "recall": lambda group: interval(group.recall, _share),
            "precision": lambda group: interval(group.precision, _share),
            "F1": lambda group: interval(group.f1, _share),
            "all gold": lambda group: interval(group.all_gold),
            "named": lambda group: f"{group.named:.2f}",
            "gold": lambda group: f"{group.gold:.2f}",
            **{f"Acc@{rank}": partial(_accuracy, rank=rank) for rank in ranks},
        },
        "95%: over resampled tasks; shares of tasks by Wilson.",
    )


def _accuracy(group: HandoffGroup, rank: int) -> str:
    return interval(group.acc[rank] if group.acc else None)


def _comparison_table(compared: Sequence[GroupComparison]) -> ReportTable:
    return table(
        "Groups compared",
        compared,
        {
            "": lambda one: f"{one.group} ({one.apart.tasks}) against {one.others} ({one.apart.others})",
            "figure": lambda one: MEASURES[one.measure],
            "first": lambda one: _share(one.apart.mean),
            "second": lambda one: _share(one.apart.mean_of_others),
            "difference, points [95%]": lambda one: points(one.apart.change),
            "p": lambda one: p_value(one.apart.p),
            "Holm": lambda one: p_value(one.p_holm),
        },
        "By permuting which task is in which group.",
    )


def _figure(groups: Sequence[HandoffGroup]) -> Figure:
    labels = [f"{group.name} ({group.tasks})" for group in groups]
    series = {name: [getattr(group, name) for group in groups] for name in ("recall", "precision")}
    words = "; ".join(
        f"{group.name}: recall {_share(group.recall.value)}, precision {_share(group.precision.value)}"
        for group in groups
    )
    return Figure(
        "localize",
        "Files named against files changed",
        lambda axes: forest(axes, labels, series, "mean over tasks (95%)", scale=1, gap=0.32),
        words,
        1.5 + 0.42 * len(groups),
    )


def _share(share: float) -> str:
    return "-" if share != share else f"{share:.3f}".replace("0.", ".", 1)
