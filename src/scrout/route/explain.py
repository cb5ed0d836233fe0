"""Explains a decision in numbers: why a task goes to one fixer and not to another, and what would change that.

Possible changes are found by deciding again with other numbers, with the policy's own functions and no separate
formula. So every reported change was tested.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_DOWN, ROUND_UP, Decimal
from typing import Literal

import numpy as np

from scrout.base import FrozenModel, RouteError
from scrout.config.settings import Settings
from scrout.money import CENT_FRACTION, Usd
from scrout.records import Candidate, Decision, State
from scrout.route import text_counts
from scrout.route.difficulty import DifficultyHead
from scrout.route.policy import INFINITE, Goal, GoalKind, anchor_of, cheapest_first, follow, two_digits
from scrout.route.router import Neighbour, Router
from scrout.route.stats import Floats
from scrout.route.task_vectors import TaskVectors
from scrout.task import title_of
from scrout.text import percent, usd

MAX_DRIVERS = 3
MIN_LOG_ODDS = 0.02
"""Effects below half a percentage point are not reported."""

Kind = Literal["log", "count", "share", "odds", "flag"]
_WORDS: dict[str, tuple[Kind, str]] = {
    "log_chars": ("log", "{} characters of text"),
    "log_text_chars": ("log", "{} characters of text"),
    "log_requirements_chars": ("log", "{} characters of requirements"),
    "log_interface_chars": ("log", "{} characters of new interfaces"),
    "log_lines": ("log", "{} lines of text"),
    "bullets": ("count", "{} bullets"),
    "code_share": ("share", "{} of the text is code"),
    "quoted_names": ("count", "{} names in backquotes"),
    "paths": ("count", "{} paths in the text"),
    "distinct_paths": ("count", "{} paths in the text"),
    "snake_case_names": ("count", "{} names in snake_case"),
    "camel_case_names": ("count", "{} names in CamelCase"),
    "traceback": ("flag", "a traceback"),
    "files_named_by_path": ("count", "{} files that the text names by path"),
    "files_named_by_symbol": ("count", "{} files with a name that the text has"),
    "log_repository_files": ("log", "{} files in the repository"),
    "top_confidence": ("share", "the scout is {} sure of its first file"),
    "margin": ("share", "the scout's first file leads the second by {}"),
    "entropy": ("share", "the scout's suspicion is spread over its files to {}"),
    "files_expected": ("count", "{} files to change, as the scout expects"),
    "files_handed_on": ("count", "{} files in the handoff"),
    "function_score": ("odds", "the scout is {} sure of its first function"),
    "log_function_lines": ("log", "{} lines in the scout's first function"),
    "log_suspect_lines": ("log", "{} lines in the scout's first file"),
    "log_suspect_commits": ("log", "{} commits so far on the scout's first file"),
    "scripts_run": ("count", "{} scripts of the text ran"),
    "reproduced": ("flag", "a reproduced failure"),
}
_LOGS = frozenset({"bullets", "quoted_names", "paths", "snake_case_names", "camel_case_names"})
"""Names in counts-1, which takes logarithms of counts that recon stores directly."""


class Driver(FrozenModel):
    """A feature that makes the task easier or harder than an average one."""

    features: tuple[str, ...]
    """Feature names; features that measure the same thing are together."""
    words: str
    log_odds: float
    """Its contribution to the ease; below 0: it makes the task harder."""


class Difficulty(FrozenModel):
    """The task's difficulty compared with known tasks."""

    ease: float
    """Log odds to add to a fixer's ability; 0: an average task."""
    easier_than: float | None
    """The share of the known tasks that look harder; None: none is known in these spaces."""
    known_tasks: int
    effort: float
    """Cost of an attempt relative to an average task."""
    far: bool
    """True: the task is unlike all known ones, so this is unreliable."""
    drivers: tuple[Driver, ...]


class Counterfactual(FrozenModel):
    """A change of one number that would change the chosen fixer."""

    of: GoalKind | Literal["cost_usd"]
    fixer: str = ""
    """The fixer whose cost would change; empty: another number."""
    above: bool
    """False: it would have to be below the amount."""
    amount: Usd
    """A probability for theta and min_solve, otherwise dollars."""
    now: Usd | None
    """None: more than any cost."""
    dial: float | None = None
    """The dial's position for the amount; None: the goal is not a dial."""
    to: str


class Explanation(FrozenModel):
    """A decision, and everything that it is based on."""

    version: Literal[1] = 1
    title: str
    decision: Decision
    goal: str
    """The goal, in words."""
    difficulty: Difficulty | None
    """None: probabilities do not come from difficulty here."""
    changes: tuple[Counterfactual, ...]
    """The goal's first, then costs, the nearest first. Empty: there is no other fixer, or nothing to compare."""
    otherwise: str = ""
    """If the router abstained: the fixer that it would have taken for a similar, known task."""
    nearest: tuple[Neighbour, ...]
    nearest_missing: str = ""
    """Why there are no nearest tasks; empty: there are some."""
    missing: tuple[str, ...] = ()
    """Why each unused feature space was not used."""
    wants_state: bool


def explain(router: Router, text: str, state: State | None) -> Explanation:
    decision, look = router.route(text, state), router.look(text, state)
    nearest, nearest_missing = _nearest(router, text)
    settings, several = router.settings, len(decision.candidates) > 1
    return Explanation(
        title=title_of(text),
        decision=decision,
        goal=goal_words(look.goal),
        difficulty=_difficulty(look.head, look.features, router.known),
        changes=() if decision.abstained or not several else tuple(changes(look.candidates, look.goal, settings)),
        otherwise=decided(look.candidates, look.goal, settings) if decision.abstained else "",
        nearest=nearest,
        nearest_missing=nearest_missing,
        missing=look.missing,
        wants_state=state is None and look.takes_state and several,
    )


def goal_words(goal: Goal) -> str:
    """A goal in plain words."""
    match goal.kind:
        case "theta":
            theta = two_digits(goal.amount)
            return f"the cheapest fixer whose probability reaches theta, {theta}; if none does, the anchor"
        case "min_solve":
            return f"the cheapest fixer with a probability of {two_digits(goal.amount)} or more"
        case "max_usd":
            return f"the likeliest fixer for {usd(goal.amount)} or less"
        case "solve_usd":
            if goal.source == "settings":
                return f"a solve is worth {usd(goal.amount)} to you"
            if goal.source == "calibrated":
                return f"none is named; by calibration on known tasks a solve is worth {usd(goal.amount)}"
            position = f"the dial is at {goal.position:g}, from 0 (cheapest) to 1 (strongest)"
            if goal.source == "default":
                position = f"none is named, so {position}"
            if goal.amount == INFINITE:
                return f"{position}: the likeliest, whatever it costs"
            return f"{position}, where a solve is worth {usd(goal.amount)}" if goal.dial else position


def change_words(change: Counterfactual) -> str:
    """A necessary change in words, without the fixer that would be taken then."""
    side, more = ("above", "more") if change.above else ("below", "less")
    if change.of == "cost_usd":
        now = "" if change.now is None else f" instead of {usd(change.now)}"
        return f"if an attempt of {change.fixer} cost {more} than {usd(change.amount)}{now}"
    match change.of:
        case "theta" | "min_solve":
            what = "theta" if change.of == "theta" else "a least probability"
            if change.above:
                return f"with {what} above {two_digits(change.amount)}"
            # Rounded down, because a slightly higher number would not be enough.
            return f"with {what} of {two_digits(change.amount.quantize(Decimal('0.001'), ROUND_DOWN))} or less"
        case "max_usd":
            # To the cent that is enough: the nearest one may not be.
            cent = Decimal("0.01") if change.amount >= Decimal("0.01") else Decimal("0.0001")
            amount = usd(change.amount.quantize(cent, ROUND_UP if change.above else ROUND_DOWN))
            return f"with {amount} or more to spend" if change.above else f"with less than {amount} to spend"
        case "solve_usd":
            at = "at 1" if change.above and change.dial == 1 else f"{side} {change.dial:.2f}" if change.dial else ""
            dial = f" (a dial {at})" if at else ""
            return f"if a solve were worth {more} than {usd(change.amount)}{dial}"


def _nearest(router: Router, text: str) -> tuple[tuple[Neighbour, ...], str]:
    try:
        found = tuple(router.nearest(text))
    except RouteError as error:  # the decision is valid without it
        return (), str(error)
    return found, "" if found else "no task is known to the embedder of these settings"


def _difficulty(head: DifficultyHead | None, features: Floats | None, known: TaskVectors) -> Difficulty | None:
    if head is None or features is None:
        return None
    judged = head.judge(features)
    ease = float(judged.ease[0])
    others = _known_ease(head, known)
    return Difficulty(
        ease=ease,
        easier_than=float((others < ease).mean()) if len(others) else None,
        known_tasks=len(others),
        effort=float(judged.cost_factor[0]),
        far=bool(judged.far[0]),
        drivers=_drivers(head, features),
    )


def _known_ease(head: DifficultyHead, known: TaskVectors) -> Floats:
    """The ease of every task that all of the head's spaces know."""
    tasks = sorted(set.intersection(*(set(known.space(space)[0]) for space in head.spaces)))
    if not tasks:
        return np.zeros(0)
    return head.judge(np.concatenate([known.vectors(space, tasks)[1] for space in head.spaces], axis=1)).ease


def _drivers(head: DifficultyHead, features: Floats) -> tuple[Driver, ...]:
    # Ease is a sum over features, so a feature's contribution is the difference when it is set to its usual value.
    usual = np.tile(features, (len(features), 1))
    np.fill_diagonal(usual, head.mean_)
    added = head.judge(features).ease[0] - head.judge(usual).ease
    alike: dict[str, list[int]] = {}
    for at, name in enumerate(head.names):
        alike.setdefault(_WORDS[name][1] if name in _WORDS else name, []).append(at)
    logs = len(text_counts.NAMES) if head.spaces[0] == text_counts.SPACE else 0
    drivers = [
        Driver(
            features=tuple(dict.fromkeys(head.names[at] for at in places)),
            words=_measured(head.names[places[0]], features[places[0]], head.mean_[places[0]], places[0] < logs),
            log_odds=float(added[places].sum()),
        )
        for places in alike.values()
    ]
    drivers.sort(key=lambda one: -abs(one.log_odds))
    return tuple(one for one in drivers[:MAX_DRIVERS] if abs(one.log_odds) >= MIN_LOG_ODDS)


def _measured(name: str, value: float, usual: float, of_counts: bool) -> str:
    """A feature in words, with its usual value."""
    kind, words = _WORDS.get(name, ("flag" if name.startswith("has_") else "count", ""))
    if name.startswith("has_"):
        words = f"a clue of the kind {name.removeprefix('has_')!r}"
    if not words:
        return f"{name} {value:.3g} ({usual:.3g} is usual)"
    if kind == "flag":
        return f"{words if value >= 0.5 else 'without ' + words} ({percent(usual, 0)} of the known tasks have one)"
    if kind == "log" or (of_counts and name in _LOGS):
        value, usual = math.expm1(value), math.expm1(usual)
    elif kind == "odds":
        value, usual = (1 / (1 + math.exp(-number)) for number in (value, usual))
    if kind in ("share", "odds"):
        return f"{words.format(percent(value, 0))} ({percent(usual, 0)} is usual)"
    shown = _count(value)
    if shown == "1":
        words = re.sub(r"^(\{\} \w+)s\b", r"\1", words)
    return f"{words.format(shown)} ({_count(usual)} is usual)"


def changes(candidates: Sequence[Candidate], goal: Goal, settings: Settings) -> list[Counterfactual]:
    """The nearest changes: of the goal in both directions, of the chosen fixer's cost upwards, of each other's
    downwards.
    """
    taken = decided(candidates, goal, settings)
    found = [_goal_change(candidates, goal, settings, above) for above in (True, False)]
    costs = [
        _cost_change(candidates, goal, settings, one, above=one.fixer == taken)
        for one in candidates
        if one.p_solve is not None and one.expected_cost_usd is not None
    ]
    of_costs = sorted((change for change in costs if change is not None), key=lambda one: (not one.above, _step(one)))
    return [*(change for change in found if change is not None), *of_costs]


def decided(candidates: Iterable[Candidate], goal: Goal, settings: Settings) -> str:
    """The fixer that a goal takes among the candidates, as the router would."""
    ordered = cheapest_first(candidates)
    return follow(ordered, goal, anchor_of(settings.fixers, ordered, settings.route.anchor)).fixer


def _goal_change(candidates: Sequence[Candidate], goal: Goal, settings: Settings, above: bool) -> Counterfactual | None:
    def decide(amount: Decimal) -> str:
        return decided(candidates, Goal(goal.kind, amount), settings)

    probabilities, costs, worths = _numbers(candidates)
    breaks = {"theta": probabilities, "min_solve": probabilities, "max_usd": costs, "solve_usd": worths}[goal.kind]
    ceiling = Decimal(1) if goal.kind in ("theta", "min_solve") else None
    # A probability reaches an equal minimum, and a cost fits into an equal amount.
    closed = above if goal.kind == "max_usd" else goal.kind != "solve_usd" and not above
    found = _first_change(decide, goal.amount, breaks, above, closed=closed, ceiling=ceiling)
    if found is None:
        return None
    amount, to = found
    position = goal.dial.position(amount) if goal.dial else None
    now = None if goal.amount == INFINITE else goal.amount
    return Counterfactual(of=goal.kind, above=above, amount=amount, now=now, dial=position, to=to)


def _cost_change(
    candidates: Sequence[Candidate], goal: Goal, settings: Settings, one: Candidate, *, above: bool
) -> Counterfactual | None:
    others = [other for other in candidates if other.fixer != one.fixer]

    def decide(cost_usd: Decimal) -> str:
        return decided([*others, one.model_copy(update={"expected_cost_usd": cost_usd})], goal, settings)

    breaks = set(_numbers(others)[1])
    if goal.kind == "max_usd":
        breaks.add(goal.amount)
    if goal.kind == "solve_usd" and goal.amount != INFINITE:
        breaks |= {
            other.expected_cost_usd + _exact(one.p_solve, other.p_solve) * goal.amount
            for other in others
            if other.expected_cost_usd is not None and other.p_solve is not None
        }
    now = one.expected_cost_usd
    assert now is not None
    found = _first_change(decide, now, breaks, above)
    # A lower price of one fixer that makes the router choose a third is no reason to ask for that price.
    if found is None or (not above and found[1] != one.fixer):
        return None
    return Counterfactual(of="cost_usd", fixer=one.fixer, above=above, amount=found[0], now=now, to=found[1])


def _first_change(
    decide: Callable[[Decimal], str],
    now: Decimal,
    breaks: Iterable[Decimal],
    above: bool,
    *,
    closed: bool = False,
    ceiling: Decimal | None = None,
) -> tuple[Decimal, str] | None:
    """The nearest amount on one side beyond which another fixer is taken, and that fixer; None: there is none.

    Between two neighbours of `breaks` the decision is the same, so one test between them is enough. `closed`: the
    change happens at the amount itself.
    """
    current = decide(now)
    edges = sorted(
        {edge for edge in breaks if edge >= 0 and (edge >= now if above else edge <= now)}, reverse=not above
    )
    for at, edge in enumerate(edges):
        end = (2 * edge + 1 if ceiling is None else ceiling) if above else Decimal(0)
        look_at = edge if closed else (edge + (edges[at + 1] if at + 1 < len(edges) else end)) / 2
        if (closed or look_at != edge) and (to := decide(look_at)) != current:
            return edge.quantize(CENT_FRACTION), to
    return None


def _numbers(candidates: Iterable[Candidate]) -> tuple[set[Decimal], set[Decimal], set[Decimal]]:
    """Numbers where decisions can change: probabilities, costs, and the worths of a solve at which two fixers are
    equal.
    """
    candidates = list(candidates)
    probabilities = {Decimal(str(one.p_solve)) for one in candidates if one.p_solve is not None}
    costs = {one.expected_cost_usd for one in candidates if one.expected_cost_usd is not None}
    known = [
        (Decimal(str(one.p_solve)), one.expected_cost_usd)
        for one in candidates
        if one.p_solve is not None and one.expected_cost_usd is not None
    ]
    worths = {(cost - other) / (p - q) for p, cost in known for q, other in known if p > q and cost > other}
    return probabilities, costs, worths


def _step(change: Counterfactual) -> Decimal:
    """The factor by which the cost would have to change."""
    assert change.now is not None
    low, high = sorted((change.amount, change.now))
    return high / low if low else Decimal("Infinity")


def _exact(p: float | None, q: float) -> Decimal:
    return Decimal(str(p)) - Decimal(str(q))


def _count(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}".removesuffix(".0")
