"""Tables, figures and findings of `spend`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from scrout.intervals import Estimate
from scrout.lab.study.figures import DASHES, SHADES
from scrout.lab.study.report import Figure, ReportTable, StudyReport, points, usd_interval
from scrout.text import usd

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from scrout.lab.study.spend import ArmSpend, Booked, Item, Payback, SpendStudy


CENT = 0.01


def report(result: SpendStudy) -> StudyReport:
    """The study for people."""
    parts: list[ReportTable | Figure] = [_arms(result.arms), _bars(result.arms)]
    if result.components:
        parts.append(_items("By part of the system", result.components))
    if result.booked:
        parts.append(_booked(result.booked))
    if result.once:
        parts.append(_items("Paid once", result.once))
    if result.paybacks:
        parts.append(_paybacks(result.paybacks))
    if drawn := [one for one in result.paybacks if one.once_usd]:
        parts.append(_lines(drawn))
    return StudyReport("Where the money went", tuple(_findings(result)), parts, result.notes)


def _findings(result: SpendStudy) -> Iterator[str]:
    for benchmark in dict.fromkeys(arm.benchmark for arm in result.arms):
        arms = [arm for arm in result.arms if arm.benchmark == benchmark]
        yield f"{benchmark}: attempts cost {_total(arm.usd for arm in arms)} in all, by {len(arms)} arms and fixers."
    for item in result.components:
        if item.published is not None and abs(float(item.usd) - item.published) >= CENT:
            yield f"{item.name}: the receipts come to {usd(item.usd)}, printed is {usd(item.published)}."
    for arm in result.arms:
        if arm.other_usd is not None:
            yield (
                f"{arm.fixer} {arm.arm}: {usd(arm.usd)} at the prices used, {usd(arm.other_usd)} "
                "at the other list of the receipts."
            )
    if result.booked:
        lost = sum((one.lost_usd for one in result.booked), Decimal(0))
        yield (
            f"{_total(one.usd for one in result.booked)} were paid in {sum(one.calls for one in result.booked)} calls, "
            f"{usd(lost)} of it for steps that came to nothing."
        )
        if unpriced := sum(one.unpriced_calls for one in result.booked):
            yield f"{unpriced} calls have no known price, so the true total is higher."
    for one in result.paybacks:
        solves = "" if one.solves is None else f"; solve rate {points(one.solves)} points"
        yield f"{one.system} against {one.anchor}: {_said(one)}{solves}."


def _said(one: Payback) -> str:
    saves = f"saves {usd_interval(one.saving)} a task"
    if one.saving.value < 0:
        more = Estimate(value=-one.saving.value, low=-one.saving.high, high=-one.saving.low)
        saves = f"costs {usd_interval(more)} a task more"
    if one.once_usd is None:
        return saves
    if not one.once_usd:
        return f"{saves}, and nothing is paid once"
    paid = f"{usd(one.once_usd)} paid once"
    if one.pays_after is None:
        return f"{saves}, so {paid} never come back"
    high = "no end" if one.pays_after_high is None else f"{one.pays_after_high:,}"
    return f"{saves}, so {paid} come back after {one.pays_after:,} tasks [{one.pays_after_low or 0:,}, {high}]"


def _arms(arms: Sequence[ArmSpend]) -> ReportTable:
    rows = [
        (
            arm.benchmark,
            f"{arm.fixer}, {arm.arm}",
            str(arm.tasks) + (f" (+{arm.unknown} unknown)" if arm.unknown else ""),
            usd(arm.usd),
            usd(arm.published, unknown="-"),
            usd(arm.other_usd, unknown="-"),
            usd_interval(arm.a_task),
            "-" if arm.a_solve is None else usd_interval(arm.a_solve),
        )
        for arm in arms
    ]
    columns = ("", "fixer, arm", "attempts", "total", "printed", "other prices", "a task [95%]", "a solve [95%]")
    return ReportTable("What attempts cost", columns, rows)


def _items(title: str, items: Sequence[Item]) -> ReportTable:
    rows = [(item.name, usd(item.usd), usd(item.published, unknown="-")) for item in items]
    return ReportTable(title, ("", "dollars", "printed"), rows)


def _booked(booked: Sequence[Booked]) -> ReportTable:
    rows = [
        (
            one.arm,
            usd(one.usd),
            str(one.calls),
            str(one.unpriced_calls),
            usd(one.lost_usd),
            usd(one.estimated_usd),
        )
        for one in booked
    ]
    columns = ("", "paid", "calls", "without a price", "of it lost", "of it estimated")
    return ReportTable("By arm, as the ledger has it", columns, rows, "Runs that were made again are in it.")


def _paybacks(found: Sequence[Payback]) -> ReportTable:
    rows = [
        (
            one.system,
            one.anchor,
            str(one.tasks),
            usd(one.usd, 3),
            usd_interval(one.saving),
            "-" if one.solves is None else points(one.solves),
            usd(one.once_usd, unknown="-"),
            _after(one),
        )
        for one in found
    ]
    columns = (
        "",
        "against",
        "tasks",
        "a task",
        "saved a task [95%]",
        "solves, points [95%]",
        "once",
        "pays after tasks",
    )
    return ReportTable("Over how many tasks it pays", columns, rows)


def _after(one: Payback) -> str:
    if one.once_usd is None:
        return "-"
    if one.pays_after is None:
        return "never"
    if not one.once_usd:
        return "at once"
    high = "no end" if one.pays_after_high is None else f"{one.pays_after_high:,}"
    return f"{one.pays_after:,} [{one.pays_after_low or 0:,}, {high}]"


def _bars(arms: Sequence[ArmSpend]) -> Figure:
    shown = list(arms)[::-1]

    def draw(axes: Axes) -> None:
        for at, arm in enumerate(shown):
            axes.barh(at, float(arm.usd), color=SHADES[0 if arm.arm == "solo" else 1], height=0.7)
            axes.annotate(
                usd(arm.usd),
                (float(arm.usd), at),
                (3, 0),
                textcoords="offset points",
                va="center",
                fontsize=8,
            )
        names = [f"{arm.fixer}, {arm.arm} ({arm.tasks})\n{arm.benchmark}" for arm in shown]
        axes.set_yticks(range(len(shown)), names, fontsize=7.5)
        axes.set_xlim(0, 1.15 * max(max(float(arm.usd) for arm in shown), 1e-9))
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("dollars (attempts in brackets; dark: alone)")

    told = "; ".join(f"{arm.fixer} {arm.arm} on {arm.benchmark} {usd(arm.usd)}" for arm in arms)
    return Figure("spend-arms", "What attempts cost", draw, told, 1.2 + 0.4 * len(shown))


def _lines(found: Sequence[Payback]) -> Figure:
    systems = {one.system: (float(one.once_usd or 0), one.usd) for one in found}
    anchors = {one.anchor: one.usd + one.saving.value for one in found}
    most = 1.4 * max([one.pays_after for one in found if one.pays_after is not None] or [1000])

    def draw(axes: Axes) -> None:
        for at, (name, (once, each)) in enumerate(systems.items()):
            style = DASHES[at % len(DASHES)]
            axes.plot([0, most], [once, once + most * each], color=SHADES[0], linestyle=style, label=name)
        for at, (name, each) in enumerate(anchors.items()):
            style = DASHES[at % len(DASHES)]
            axes.plot([0, most], [0, most * each], color=SHADES[2], linestyle=style, label=name)
        for one in found:
            if one.pays_after is not None:
                axes.plot(
                    *(one.pays_after, float(one.once_usd or 0) + one.pays_after * one.usd),
                    marker="o",
                    color=SHADES[6],
                    markersize=5,
                )
        axes.set_xlim(0, most)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("tasks")
        axes.set_ylabel("dollars in all")
        axes.legend(loc="upper left")

    told = "; ".join(f"{one.system} against {one.anchor} pays after {_after(one)} tasks" for one in found)
    return Figure("spend-payback", "What is paid once, and when it has come back (dots)", draw, told, 4.0)


def _total(amounts: Iterator[Decimal]) -> str:
    return usd(sum(amounts, Decimal(0)))
