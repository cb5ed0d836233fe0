"""Tables, figures and findings of `handoff`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from scrout.lab.study.figures import DASHES, MARKERS, SHADES
from scrout.lab.study.handoff import Effort, HandoffEffect, Injection, Pooled, Side, SubgroupEffect
from scrout.lab.study.report import Figure, ReportTable, StudyReport, p_value, points, usd_interval
from scrout.text import percent, usd

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from scrout.lab.study.handoff import HandoffStudy, Power


LEVEL = 0.05


def report(result: HandoffStudy) -> StudyReport:
    """The study for people."""
    parts: list[ReportTable | Figure] = []
    if result.effects:
        parts += [_effects("Solo to handoff, paired by task", result.effects, result.pooled), _forest(result.effects)]
    if result.gates:
        parts.append(_effects("Pass-through to handoff: what the gate changes", result.gates, ()))
    if result.efforts:
        parts.append(_efforts(result.efforts))
    if result.looks:
        parts += [_looks(result.looks), _lengths(result.looks)]
    if result.injections:
        parts.append(_injections(result.injections))
    if result.powers:
        parts += [_powers(result.powers), _curves(result.powers)]
    return StudyReport("What the handoff does", tuple(_findings(result)), parts, result.notes)


def _findings(result: HandoffStudy) -> Iterator[str]:
    if not result.comparable:
        yield (
            "Solve rates of the arms cannot be compared: these runs are judged by the check, which passes no patch "
            "without a verified reproduction, and runs alone or with claims passed through have none. Grade the batch "
            "first: scrout grade DIR --tasks FILE"
        )
    for one in result.pooled:
        yield (
            f"{one.benchmark}: over {len(one.fixers)} fixers and {one.pairs} pairs the handoff changes the solve rate "
            f"by {points(one.change)} points ({one.gained} gained, {one.lost} lost, p {p_value(one.p)})."
        )
    yield from _told(result.effects, "the handoff")
    yield from _told(result.gates, "the gate")
    for effort in result.efforts:
        if effort.capped is not None and not _is_selected(effort, result.effects):
            before, after = (round(share * effort.tasks) for share in (effort.capped.first, effort.capped.second))
            yield (
                f"{effort.fixer} reached the limit of calls on {before} tasks alone and on {after} with the handoff "
                f"({effort.tasks} tasks, p {p_value(effort.capped.p)}); mean steps {effort.steps:.1f}, "
                f"{_number(effort.steps_change.value)} with it."
            )
    yield from _claimed(result)
    yield from _survivors(result.looks)
    yield from _rules(
        [one for one in result.injections if one.possible], "A rule that knows what scout and issue tell,"
    )
    yield from _rules([one for one in result.injections if not one.possible], "One that also looks ahead,")
    for one_power in result.powers:
        counts = ((count or "too many", percent(share, 0)) for share, count in one_power.needed.items())
        needed = ", ".join(f"{count} for {share}" for count, share in counts)
        yield (
            f"{one_power.measured_on}: with {one_power.tasks} tasks an effect of {100 * one_power.effect:.0f} points "
            f"is found {percent(one_power.power, 0)} of the time; tasks needed: {needed}."
        )


def _told(effects: Sequence[HandoffEffect], what: str) -> Iterator[str]:
    tested = [effect for effect in effects if effect.p_holm is not None]
    clear = [effect for effect in tested if effect.p_holm is not None and effect.p_holm < LEVEL]
    if tested:
        names = ", ".join(f"{effect.fixer} on {effect.benchmark}" for effect in clear) or "none"
        yield f"Of {len(tested)} tests of a fixer, {what} is shown to change: {names} (Holm)."
    for effect in tested:
        yield (
            f"{effect.benchmark}, {effect.fixer}: {points(effect.paired.change)} points, b/c {effect.paired.gained}/"
            f"{effect.paired.lost}, p {p_value(effect.paired.p)} (handoffs: {effect.kinds})."
        )


def _claimed(result: HandoffStudy) -> Iterator[str]:
    """The look that one benchmark suggested, on each benchmark."""
    for look in result.looks:
        if result.claimed == (look.fixer, look.yardstick):
            yield (
                f"{look.benchmark}, {look.fixer} where {look.group}: {_side(look.inside)}; elsewhere "
                f"{_side(look.outside)}. Difference {points(look.between.change)}, p {p_value(look.between.p)}, "
                f"adjusted {p_value(look.p_holm)}."
            )


def _side(side: Side) -> str:
    one = side.paired
    counts = f"b/c {one.gained}/{one.lost}, p {p_value(one.p)}, adjusted {p_value(side.p_holm)}"
    return f"{points(one.change)} points ({counts})"


def _rules(found: Sequence[Injection], who: str) -> Iterator[str]:
    """Whether giving the handoff by rule is shown to be better, or worse, than giving it always."""
    if not found:
        return
    told = ", ".join(f"{one.fixer} on {one.benchmark} {points(one.over_always.change)}" for one in found)
    better, worse = (
        sum(sign * one.over_always.change.value > 0 and one.over_always.change.clear for one in found)
        for sign in (1, -1)
    )
    yield (
        f"{who} and is chosen on other repositories, is shown to beat giving the handoff always in {better} of "
        f"{len(found)} simulations, and to be worse in {worse} (points over always: {told})."
    )


def _survivors(looks: Sequence[SubgroupEffect]) -> Iterator[str]:
    for benchmark in dict.fromkeys(look.benchmark for look in looks):
        family = [look for look in looks if look.benchmark == benchmark]
        clear = [f"{look.fixer} where {look.group}" for look in family if look.p_holm < LEVEL]
        yield (
            f"{benchmark}: in {len(clear)} of {len(family)} exploratory looks the effect differs between the groups "
            f"after correction{': ' + '; '.join(clear) if clear else ''}."
        )


def _is_selected(effort: Effort, effects: Sequence[HandoffEffect]) -> bool:
    return any(
        effect.selected for effect in effects if (effect.benchmark, effect.fixer) == (effort.benchmark, effort.fixer)
    )


def _effects(title: str, effects: Sequence[HandoffEffect], pooled: Sequence[Pooled]) -> ReportTable:
    rows = [
        (
            effect.benchmark,
            _name(effect),
            str(effect.paired.tasks),
            percent(effect.paired.first),
            percent(effect.paired.second),
            points(effect.paired.change),
            f"{effect.paired.gained}/{effect.paired.lost}",
            p_value(effect.paired.p),
            "-" if effect.p_holm is None else p_value(effect.p_holm),
            "-" if effect.usd_change is None else usd_interval(effect.usd_change, sign=True),
        )
        for effect in effects
    ]
    rows += [
        (
            one.benchmark,
            f"pooled, {len(one.fixers)} fixers",
            f"{one.tasks} ({one.pairs} pairs)",
            percent(one.first),
            percent(one.second),
            points(one.change),
            f"{one.gained}/{one.lost}",
            p_value(one.p),
            "-",
            "-",
        )
        for one in pooled
    ]
    return ReportTable(
        title,
        ("", "fixer", "tasks", "before", "after", "points [95%]", "b/c", "p", "Holm", "$ a task more [95%]"),
        rows,
        "Exact McNemar; pooled: tasks are resampled and permuted whole. Spontaneous and forced handoffs are pooled. "
        "Selected: a router chose the tasks, so nothing is tested, and the pool is without them. In dollars the "
        "paper's receipts have attempts alone, one's own runs scouting too.",
    )


def _name(effect: HandoffEffect) -> str:
    return effect.fixer + (f", {effect.tasks}" if effect.tasks else ", selected" if effect.selected else "")


def _efforts(efforts: Sequence[Effort]) -> ReportTable:
    rows = []
    for effort in efforts:
        capped = ("-", "-")
        if effort.capped is not None:
            before, after = (round(share * effort.tasks) for share in (effort.capped.first, effort.capped.second))
            capped = (f"{before} to {after}", p_value(effort.capped.p))
        more = effort.steps_change
        change = f"{_number(more.value)} [{_number(more.low)}, {_number(more.high)}]"
        rows.append((effort.benchmark, effort.fixer, str(effort.tasks), f"{effort.steps:.1f}", change, *capped))
    return ReportTable(
        "Calls of an attempt",
        ("", "fixer", "tasks", "solo", "change [95%]", "at the limit", "p"),
        rows,
    )


def _looks(looks: Sequence[SubgroupEffect]) -> ReportTable:
    rows = [
        (
            look.benchmark,
            look.fixer,
            look.group,
            *(f"{points(side.paired.change)} ({side.paired.gained}/{side.paired.lost})" for side in _sides(look)),
            *(f"{p_value(side.paired.p)} / {p_value(side.p_holm)}" for side in _sides(look)),
            points(look.between.change),
            f"{p_value(look.between.p)} / {p_value(look.p_holm)}",
        )
        for look in looks
    ]
    return ReportTable(
        "Where it helps: exploratory looks",
        ("", "fixer", "tasks where", "inside (b/c)", "outside (b/c)", "p / Holm in", "out", "difference", "p / Holm"),
        rows,
        "Solo to handoff, in points with 95% intervals. Length is that of another model alone. Holm over all groups, "
        "and over all differences, of a benchmark.",
    )


def _sides(look: SubgroupEffect) -> tuple[Side, Side]:
    return look.inside, look.outside


def _injections(found: Sequence[Injection]) -> ReportTable:
    rows = [
        (
            one.benchmark,
            one.fixer,
            one.known,
            "; ".join(dict.fromkeys(one.chosen)),
            percent(one.given),
            percent(one.over_never.second),
            points(one.over_never.change),
            points(one.over_always.change),
            usd(one.usd, 3, unknown="-"),
        )
        for one in found
    ]
    return ReportTable(
        "Handoff only where it pays, simulated",
        ("", "fixer", "the rule knows", "chosen", "given", "solved", "over never", "over always", "$ a task"),
        rows,
        "Each fold of repositories by the rule that solved most in the others. Points with 95% intervals. "
        "No one knows another model's run and the answer beforehand: such a rule shows whether it would help to.",
    )


def _powers(powers: Sequence[Power]) -> ReportTable:
    shares = list(powers[0].needed)
    rows = [
        (
            one.measured_on,
            str(one.tasks),
            percent(one.differ),
            percent(one.power),
            "-" if one.visible is None else f"{100 * one.visible:.1f} points",
            *(str(one.needed[share] or "too many") for share in shares),
        )
        for one in powers
    ]
    effect = f"{100 * powers[0].effect:.0f} points"
    return ReportTable(
        f"Tasks it takes to see {effect}",
        (
            "measured on",
            "tasks",
            "arms differ",
            "power",
            "seen with 80%",
            *(f"tasks for {percent(share, 0)}" for share in shares),
        ),
        rows,
        "Exact McNemar, two-sided, at 5%, if the arms differ on as many tasks as they did.",
    )


def _forest(effects: Sequence[HandoffEffect]) -> Figure:
    shown = list(effects)[::-1]

    def draw(axes: Axes) -> None:
        for at, effect in enumerate(shown):
            change = effect.paired.change
            shade = SHADES[5] if effect.selected else SHADES[0]
            axes.plot([100 * change.low, 100 * change.high], [at, at], color=shade)
            axes.plot(100 * change.value, at, marker=MARKERS[1 if effect.selected else 0], color=shade)
        axes.axvline(0, color=SHADES[3], linewidth=0.8)
        axes.set_yticks(range(len(shown)), [f"{_name(effect)}\n{effect.benchmark}" for effect in shown], fontsize=8)
        axes.set_ylim(-0.6, len(shown) - 0.4)
        axes.set_xlabel("percentage points, solo to handoff (95%)")

    told = "; ".join(f"{_name(effect)} on {effect.benchmark} {points(effect.paired.change)}" for effect in effects)
    return Figure("handoff-effects", "The handoff's effect, by fixer", draw, told, 1.2 + 0.48 * len(shown))


def _lengths(looks: Sequence[SubgroupEffect]) -> Figure:
    shown = list(looks)[::-1]

    def draw(axes: Axes) -> None:
        for at, look in enumerate(shown):
            for side, marker, shade, shift in ((look.inside, 0, 0, 0.14), (look.outside, 1, 2, -0.14)):
                change = side.paired.change
                axes.plot([100 * change.low, 100 * change.high], [at + shift] * 2, color=SHADES[shade], linewidth=1.1)
                label = ("these tasks", "the others")[marker] if not at else None
                axes.plot(
                    *(100 * change.value, at + shift),
                    marker=MARKERS[marker],
                    color=SHADES[shade],
                    markersize=4.5,
                    linestyle="none",
                    label=label,
                )
        axes.axvline(0, color=SHADES[3], linewidth=0.8)
        axes.set_yticks(range(len(shown)), [f"{look.fixer}, {look.benchmark}:\n{look.group}" for look in shown])
        axes.tick_params(axis="y", labelsize=7)
        axes.set_ylim(-0.6, len(shown) - 0.4)
        axes.set_xlabel("percentage points, solo to handoff (95%, not corrected)")
        axes.figure.legend(loc="outside lower center", ncols=2)

    told = "; ".join(
        f"{look.fixer} on {look.benchmark} where {look.group} {points(look.inside.paired.change)}, "
        f"elsewhere {points(look.outside.paired.change)}"
        for look in looks
    )
    return Figure("handoff-looks", "Where it helps: exploratory looks", draw, told, 1.5 + 0.42 * len(shown))


def _curves(powers: Sequence[Power]) -> Figure:
    def draw(axes: Axes) -> None:
        for at, one in enumerate(powers):
            axes.plot(
                *([tasks for tasks, _ in one.curve], [100 * power for _, power in one.curve]),
                color=SHADES[at % len(SHADES)],
                linestyle=DASHES[at % len(DASHES)],
                label=f"{one.measured_on}: arms differ on {percent(one.differ, 0)}",
            )
            axes.plot(
                *(one.tasks, 100 * one.power),
                marker=MARKERS[at % len(MARKERS)],
                color=SHADES[at % len(SHADES)],
                linestyle="none",
            )
        axes.axhline(80, color=SHADES[3], linewidth=0.8)
        axes.set_ylim(0, 100)
        axes.set_xlim(left=0)
        axes.set_xlabel("tasks (marks: those there are)")
        axes.set_ylabel("power, %")
        axes.legend(loc="lower right")

    effect = f"{100 * powers[0].effect:.0f} points"
    told = "; ".join(f"{one.measured_on}: {percent(one.power, 0)} with {one.tasks} tasks" for one in powers)
    return Figure("handoff-power", f"How often an effect of {effect} would be found", draw, told, 4.0)


def _number(amount: float) -> str:
    return f"{amount:+.1f}"
