"""Tables, figures and findings of `handoff`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from scrout.lab.study.figures import DASHES, MARKERS, SHADES, forest
from scrout.lab.study.handoff import (
    Effort,
    HandoffEffect,
    HandoffStudy,
    Injection,
    Pooled,
    Power,
    Side,
    SubgroupEffect,
)
from scrout.lab.study.report import (
    Figure,
    ReportTable,
    StudyReport,
    interval,
    p_value,
    paired_columns,
    points,
    table,
    usd_interval,
    with_content,
)
from scrout.lab.study.stats import ALPHA
from scrout.text import percent, usd

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def report(result: HandoffStudy) -> StudyReport:
    parts = with_content(
        _effect_table("Solo to handoff, paired by task", result.effects, result.pooled),
        _effect_figure(result.effects) if result.effects else None,
        _effect_table("Pass-through to handoff: what the gate changes", result.gates, ()),
        _effort_table(result.efforts),
        _subgroup_table(result.looks),
        _subgroup_figure(result.looks) if result.looks else None,
        _injection_table(result.injections),
        *((_power_table(result.powers), _power_figure(result.powers)) if result.powers else ()),
    )
    return StudyReport("What the handoff does", tuple(_findings(result)), parts, result.notes)


def _findings(result: HandoffStudy) -> Iterator[str]:
    if not result.comparable:
        yield (
            "Solve rates of the arms cannot be compared: these runs are judged by the check, which passes no patch "
            "without a verified reproduction, and runs alone or with claims passed through have none. Grade the batch "
            "first: scrout batch grade DIR --tasks FILE"
        )
    for one in result.pooled:
        yield (
            f"{one.benchmark}: over {len(one.fixers)} fixers and {one.pairs} pairs the handoff changes the solve rate "
            f"by {points(one.change)} points ({one.gained} gained, {one.lost} lost, p {p_value(one.p)})."
        )
    yield from _effect_findings(result.effects, "the handoff")
    yield from _effect_findings(result.gates, "the gate")
    selected = {(effect.benchmark, effect.fixer) for effect in result.effects if effect.selected}
    for effort in result.efforts:
        if effort.capped is not None and (effort.benchmark, effort.fixer) not in selected:
            before, after = _at_limit(effort)
            yield (
                f"{effort.fixer} reached the limit of calls on {before} tasks alone and on {after} with the handoff "
                f"({effort.tasks} tasks, p {p_value(effort.capped.p)}); mean steps {effort.steps:.1f}, "
                f"{effort.steps_change.value:+.1f} with it."
            )
    for look in result.looks:
        if result.claimed == (look.fixer, look.yardstick):
            yield (
                f"{look.benchmark}, {look.fixer} where {look.group}: {_side(look.inside)}; elsewhere "
                f"{_side(look.outside)}. Difference {points(look.between.change)}, p {p_value(look.between.p)}, "
                f"adjusted {p_value(look.p_holm)}."
            )
    yield from _subgroup_findings(result.looks)
    for possible, rule in (
        (True, "A rule that knows what scout and issue tell,"),
        (False, "One that also looks ahead,"),
    ):
        yield from _rule_findings([one for one in result.injections if one.possible == possible], rule)
    for power in result.powers:
        needed = ", ".join(f"{tasks or 'too many'} for {percent(share, 0)}" for share, tasks in power.needed.items())
        yield (
            f"{power.measured_on}: with {power.tasks} tasks an effect of {100 * power.effect:.0f} points "
            f"is found {percent(power.power, 0)} of the time; tasks needed: {needed}."
        )


def _effect_findings(effects: Sequence[HandoffEffect], cause: str) -> Iterator[str]:
    tested = [effect for effect in effects if effect.p_holm is not None]
    shown = [f"{one.fixer} on {one.benchmark}" for one in tested if one.p_holm is not None and one.p_holm < ALPHA]
    if tested:
        yield f"Of {len(tested)} tests of a fixer, {cause} is shown to change: {', '.join(shown) or 'none'} (Holm)."
    for effect in tested:
        yield (
            f"{effect.benchmark}, {effect.fixer}: {points(effect.paired.change)} points, b/c {effect.paired.gained}/"
            f"{effect.paired.lost}, p {p_value(effect.paired.p)} (handoffs: {effect.kinds})."
        )


def _side(side: Side) -> str:
    one = side.paired
    tests = f"b/c {one.gained}/{one.lost}, p {p_value(one.p)}, adjusted {p_value(side.p_holm)}"
    return f"{points(one.change)} points ({tests})"


def _rule_findings(found: Sequence[Injection], rule: str) -> Iterator[str]:
    """Whether giving the handoff by rule is shown to be better, or worse, than giving it always."""
    if not found:
        return
    changes = [one.over_always.change for one in found]
    each = ", ".join(f"{one.fixer} on {one.benchmark} {points(one.over_always.change)}" for one in found)
    yield (
        f"{rule} and is chosen on other repositories, is shown to beat giving the handoff always in "
        f"{sum(one.low > 0 for one in changes)} of {len(found)} simulations, and to be worse in "
        f"{sum(one.high < 0 for one in changes)} (points over always: {each})."
    )


def _subgroup_findings(looks: Sequence[SubgroupEffect]) -> Iterator[str]:
    for benchmark in dict.fromkeys(look.benchmark for look in looks):
        family = [look for look in looks if look.benchmark == benchmark]
        shown = [f"{look.fixer} where {look.group}" for look in family if look.p_holm < ALPHA]
        yield (
            f"{benchmark}: in {len(shown)} of {len(family)} exploratory looks the effect differs between the groups "
            f"after correction{': ' + '; '.join(shown) if shown else ''}."
        )


def _at_limit(effort: Effort) -> tuple[int, int]:
    """Attempts that reached the limit of calls, alone and with the handoff."""
    shares = (effort.capped.first, effort.capped.second) if effort.capped else (0.0, 0.0)
    return round(shares[0] * effort.tasks), round(shares[1] * effort.tasks)


def _effect_table(title: str, effects: Sequence[HandoffEffect], pooled: Sequence[Pooled]) -> ReportTable:
    rows: list[HandoffEffect | Pooled] = [*effects, *pooled]
    return table(
        title,
        rows,
        {
            "": lambda one: one.benchmark,
            "fixer": _fixer,
            "tasks": lambda one: (
                f"{one.tasks} ({one.pairs} pairs)" if isinstance(one, Pooled) else f"{one.paired.tasks}"
            ),
            **paired_columns(lambda one: one if isinstance(one, Pooled) else one.paired, "before", "after"),
            "Holm": lambda one: "-" if isinstance(one, Pooled) else p_value(one.p_holm),
            "$ per task more [95%]": lambda one: (
                "-" if isinstance(one, Pooled) else usd_interval(one.usd_change, sign=True)
            ),
        },
        "Exact McNemar; pooled: tasks are resampled and permuted whole. Spontaneous and forced handoffs are pooled. "
        "Selected: a router chose the tasks, so nothing is tested, and the pool is without them. In dollars the "
        "paper's receipts have attempts alone, your own runs scouting too.",
    )


def _tasks(effect: HandoffEffect | Pooled) -> str:
    if isinstance(effect, Pooled):
        return f"{effect.tasks} ({effect.pairs} pairs)"
    return str(effect.paired.tasks)


def _fixer(effect: HandoffEffect | Pooled) -> str:
    if isinstance(effect, Pooled):
        return f"pooled, {len(effect.fixers)} fixers"
    return effect.fixer + (f", {effect.tasks}" if effect.tasks else ", selected" if effect.selected else "")


def _effort_table(efforts: Sequence[Effort]) -> ReportTable:
    return table(
        "Calls of an attempt",
        efforts,
        {
            "": lambda one: one.benchmark,
            "fixer": lambda one: one.fixer,
            "tasks": lambda one: str(one.tasks),
            "solo": lambda one: f"{one.steps:.1f}",
            "change [95%]": lambda one: interval(one.steps_change, "{:+.1f}".format),
            "at the limit": lambda one: "{} to {}".format(*_at_limit(one)) if one.capped else "-",
            "p": lambda one: p_value(one.capped.p) if one.capped else "-",
        },
    )


def _subgroup_table(looks: Sequence[SubgroupEffect]) -> ReportTable:
    return table(
        "Where it helps: exploratory looks",
        looks,
        {
            "": lambda look: look.benchmark,
            "fixer": lambda look: look.fixer,
            "tasks where": lambda look: look.group,
            "inside (b/c)": lambda look: _side_change(look.inside),
            "outside (b/c)": lambda look: _side_change(look.outside),
            "p / Holm in": lambda look: f"{p_value(look.inside.paired.p)} / {p_value(look.inside.p_holm)}",
            "out": lambda look: f"{p_value(look.outside.paired.p)} / {p_value(look.outside.p_holm)}",
            "difference": lambda look: points(look.between.change),
            "p / Holm": lambda look: f"{p_value(look.between.p)} / {p_value(look.p_holm)}",
        },
        "Solo to handoff, in points with 95% intervals. Length is that of another model alone. Holm over all groups, "
        "and over all differences, of a benchmark.",
    )


def _side_change(side: Side) -> str:
    return f"{points(side.paired.change)} ({side.paired.gained}/{side.paired.lost})"


def _injection_table(found: Sequence[Injection]) -> ReportTable:
    return table(
        "Handoff only where it pays, simulated",
        found,
        {
            "": lambda one: one.benchmark,
            "fixer": lambda one: one.fixer,
            "the rule knows": lambda one: one.known,
            "chosen": lambda one: "; ".join(dict.fromkeys(one.chosen)),
            "given": lambda one: percent(one.given),
            "solved": lambda one: percent(one.over_never.second),
            "over never": lambda one: points(one.over_never.change),
            "over always": lambda one: points(one.over_always.change),
            "$ per task": lambda one: usd(one.usd, 3, unknown="-"),
        },
        "Each fold of repositories by the rule that solved most in the others. Points with 95% intervals. "
        "No one knows another model's run and the answer beforehand: such a rule shows whether it would help to.",
    )


def _power_table(powers: Sequence[Power]) -> ReportTable:
    return table(
        f"Tasks it takes to see {_effect(powers)}",
        powers,
        {
            "measured on": lambda one: one.measured_on,
            "tasks": lambda one: str(one.tasks),
            "arms differ": lambda one: percent(one.differ),
            "power": lambda one: percent(one.power),
            "seen with 80%": lambda one: "-" if one.visible is None else f"{100 * one.visible:.1f} points",
            **{f"tasks for {percent(share, 0)}": partial(_tasks_needed, share=share) for share in powers[0].needed},
        },
        "Exact McNemar, two-sided, at 5%, if the arms differ on as many tasks as they did.",
    )


def _tasks_needed(one: Power, share: float) -> str:
    return str(one.needed[share] or "too many")


def _effect(powers: Sequence[Power]) -> str:
    return f"{100 * powers[0].effect:.0f} points"


def _effect_figure(effects: Sequence[HandoffEffect]) -> Figure:
    labels = [f"{_fixer(effect)}\n{effect.benchmark}" for effect in effects]
    series = {
        name: [effect.paired.change if effect.selected == selected else None for effect in effects]
        for name, selected in (("all tasks", False), ("selected tasks", True))
        if any(effect.selected == selected for effect in effects)
    }
    words = "; ".join(f"{_fixer(one)} on {one.benchmark} {points(one.paired.change)}" for one in effects)
    return Figure(
        "handoff-effects",
        "The handoff's effect, by fixer",
        lambda axes: forest(axes, labels, series, "percentage points, solo to handoff (95%)"),
        words,
        1.5 + 0.48 * len(effects),
    )


def _subgroup_figure(looks: Sequence[SubgroupEffect]) -> Figure:
    labels = [f"{look.fixer}, {look.benchmark}:\n{look.group}" for look in looks]
    series = {
        "these tasks": [look.inside.paired.change for look in looks],
        "the others": [look.outside.paired.change for look in looks],
    }
    words = "; ".join(
        f"{look.fixer} on {look.benchmark} where {look.group} {points(look.inside.paired.change)}, "
        f"elsewhere {points(look.outside.paired.change)}"
        for look in looks
    )
    xlabel = "percentage points, solo to handoff (95%, not corrected)"
    return Figure(
        "handoff-looks",
        "Where it helps: exploratory looks",
        lambda axes: forest(axes, labels, series, xlabel, gap=0.28),
        words,
        1.5 + 0.42 * len(looks),
    )


def _power_figure(powers: Sequence[Power]) -> Figure:
    words = "; ".join(f"{one.measured_on}: {percent(one.power, 0)} with {one.tasks} tasks" for one in powers)
    title = f"How often an effect of {_effect(powers)} would be found"
    return Figure("handoff-power", title, partial(_draw_power, powers=powers), words, 4.0)


def _draw_power(axes: Axes, powers: Sequence[Power]) -> None:
    for at, one in enumerate(powers):
        color = SHADES[at % len(SHADES)]
        axes.plot(
            [tasks for tasks, _ in one.curve],
            [100 * power for _, power in one.curve],
            color=color,
            linestyle=DASHES[at % len(DASHES)],
            label=f"{one.measured_on}: arms differ on {percent(one.differ, 0)}",
        )
        axes.plot([one.tasks], [100 * one.power], marker=MARKERS[at % len(MARKERS)], color=color)
    axes.axhline(80, color=SHADES[3], linewidth=0.8)
    axes.set(xlim=(0, None), ylim=(0, 100), xlabel="tasks (marks: those there are)", ylabel="power, %")
    axes.legend(loc="lower right")
