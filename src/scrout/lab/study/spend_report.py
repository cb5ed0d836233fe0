"""Tables, figures and findings of `spend`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

from scrout.intervals import Estimate
from scrout.lab.study.figures import DASHES, SHADES
from scrout.lab.study.report import Figure, ReportTable, StudyReport, points, table, usd_interval, with_content
from scrout.lab.study.spend import ArmSpend, Booked, Item, Payback, SpendStudy
from scrout.text import usd

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CENT = 0.01


def report(result: SpendStudy) -> StudyReport:
    with_costs = [one for one in result.paybacks if one.once_usd]
    parts = with_content(
        _arm_table(result.arms),
        _arm_figure(result.arms),
        _item_table("By part of the system", result.components),
        _ledger_table(result.booked),
        _item_table("Paid once", result.once),
        _payback_table(result.paybacks),
        _payback_figure(with_costs) if with_costs else None,
    )
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
                "at the other price list of the receipts."
            )
    if result.booked:
        yield (
            f"{_total(one.usd for one in result.booked)} were paid in {sum(one.calls for one in result.booked)} calls, "
            f"{_total(one.lost_usd for one in result.booked)} of it for steps that came to nothing."
        )
        if unpriced := sum(one.unpriced_calls for one in result.booked):
            yield f"{unpriced} calls have no known price, so the true total is higher."
    for one in result.paybacks:
        solves = "" if one.solves is None else f"; solve rate {points(one.solves)} points"
        yield f"{one.system} against {one.anchor}: {_payback_words(one)}{solves}."


def _payback_words(one: Payback) -> str:
    saves = f"saves {usd_interval(one.saving)} per task"
    if one.saving.value < 0:
        more = Estimate(value=-one.saving.value, low=-one.saving.high, high=-one.saving.low)
        saves = f"costs {usd_interval(more)} more per task"
    if one.once_usd is None:
        return saves
    if not one.once_usd:
        return f"{saves}, and nothing is paid once"
    paid = f"{usd(one.once_usd)} paid once"
    if one.pays_after is None:
        return f"{saves}, so {paid} never come back"
    high = "no end" if one.pays_after_high is None else f"{one.pays_after_high:,}"
    return f"{saves}, so {paid} come back after {one.pays_after:,} tasks [{one.pays_after_low or 0:,}, {high}]"


def _arm_table(arms: Sequence[ArmSpend]) -> ReportTable:
    return table(
        "What attempts cost",
        arms,
        {
            "": lambda arm: arm.benchmark,
            "fixer, arm": lambda arm: f"{arm.fixer}, {arm.arm}",
            "attempts": lambda arm: f"{arm.tasks}" + (f" (+{arm.unknown} unknown)" if arm.unknown else ""),
            "total": lambda arm: usd(arm.usd),
            "printed": lambda arm: usd(arm.published, unknown="-"),
            "other prices": lambda arm: usd(arm.other_usd, unknown="-"),
            "per task [95%]": lambda arm: usd_interval(arm.a_task),
            "per solve [95%]": lambda arm: usd_interval(arm.a_solve),
        },
    )


def _item_table(title: str, items: Sequence[Item]) -> ReportTable:
    return table(
        title,
        items,
        {
            "": lambda item: item.name,
            "dollars": lambda item: usd(item.usd),
            "printed": lambda item: usd(item.published, unknown="-"),
        },
    )


def _ledger_table(booked: Sequence[Booked]) -> ReportTable:
    return table(
        "By arm, as the ledger has it",
        booked,
        {
            "": lambda one: one.arm,
            "paid": lambda one: usd(one.usd),
            "calls": lambda one: f"{one.calls}",
            "without a price": lambda one: f"{one.unpriced_calls}",
            "of it lost": lambda one: usd(one.lost_usd),
            "of it estimated": lambda one: usd(one.estimated_usd),
        },
        "Runs that were made again are included.",
    )


def _payback_table(found: Sequence[Payback]) -> ReportTable:
    return table(
        "Over how many tasks it pays",
        found,
        {
            "": lambda one: one.system,
            "against": lambda one: one.anchor,
            "tasks": lambda one: f"{one.tasks}",
            "per task": lambda one: usd(one.usd, 3),
            "saved per task [95%]": lambda one: usd_interval(one.saving),
            "solves, points [95%]": lambda one: points(one.solves),
            "once": lambda one: usd(one.once_usd, unknown="-"),
            "pays after tasks": _tasks_until_paid,
        },
    )


def _tasks_until_paid(one: Payback) -> str:
    if one.once_usd is None:
        return "-"
    if one.pays_after is None:
        return "never"
    if not one.once_usd:
        return "at once"
    high = "no end" if one.pays_after_high is None else f"{one.pays_after_high:,}"
    return f"{one.pays_after:,} [{one.pays_after_low or 0:,}, {high}]"


def _arm_figure(arms: Sequence[ArmSpend]) -> Figure:
    words = "; ".join(f"{arm.fixer} {arm.arm} on {arm.benchmark} {usd(arm.usd)}" for arm in arms)
    return Figure("spend-arms", "What attempts cost", partial(_draw_arms, arms=arms), words, 1.2 + 0.4 * len(arms))


def _draw_arms(axes: Axes, arms: Sequence[ArmSpend]) -> None:
    amounts = [float(arm.usd) for arm in arms]
    bars = axes.barh(
        [-row for row in range(len(arms))],
        amounts,
        color=[SHADES[0 if arm.arm == "solo" else 1] for arm in arms],
        height=0.7,
    )
    axes.bar_label(bars, [usd(arm.usd) for arm in arms], padding=3, fontsize=8)
    names = [f"{arm.fixer}, {arm.arm} ({arm.tasks})\n{arm.benchmark}" for arm in arms]
    axes.set_yticks([-row for row in range(len(arms))], names, fontsize=7.5)
    axes.set_xlim(0, 1.15 * max(*amounts, 1e-9))
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("dollars (attempts in brackets; dark: alone)")


def _payback_figure(found: Sequence[Payback]) -> Figure:
    words = "; ".join(f"{one.system} against {one.anchor} pays after {_tasks_until_paid(one)} tasks" for one in found)
    title = "What is paid once, and when it has come back (dots)"
    return Figure("spend-payback", title, partial(_draw_paybacks, found=found), words, 4.0)


def _draw_paybacks(axes: Axes, found: Sequence[Payback]) -> None:
    systems = {one.system: (float(one.once_usd or 0), one.usd) for one in found}
    anchors = {one.anchor: (0.0, one.usd + one.saving.value) for one in found}
    most = 1.4 * max([one.pays_after for one in found if one.pays_after is not None] or [1000])
    for shade, lines in ((SHADES[0], systems), (SHADES[2], anchors)):
        for at, (name, (once, each)) in enumerate(lines.items()):
            dash = DASHES[at % len(DASHES)]
            axes.plot([0, most], [once, once + most * each], color=shade, linestyle=dash, label=name)
    paid = [(one.pays_after, float(one.once_usd or 0) + one.pays_after * one.usd) for one in found if one.pays_after]
    axes.plot([x for x, _ in paid], [y for _, y in paid], "o", color=SHADES[6], markersize=5)
    axes.set(xlim=(0, most), ylim=(0, None), xlabel="tasks", ylabel="dollars in all")
    axes.legend(loc="upper left")


def _total(amounts: Iterable[Decimal]) -> str:
    return usd(sum(amounts, Decimal(0)))
