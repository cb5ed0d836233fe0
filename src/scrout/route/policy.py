"""Chooses fixers and their order, by rules on a router's numbers. Nothing is learned here.

`paper` goes from cheap to expensive and stops at the first probability that reaches theta. `value` weighs the cost of
one more solve. Each task's candidates have their expected costs, so the order follows current prices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import Field, model_validator

from scrout.base import FrozenModel, RouteError
from scrout.config.settings import Fixer, RouteSettings
from scrout.money import CENT_FRACTION
from scrout.records import Candidate, Check, Decision
from scrout.text import usd

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

DEFAULT_DIAL = 0.5
"""If there is no goal and no calibration: half of the extra spending of the strongest.

A position needs no amount in dollars, and stays sensible when prices or the pool change.
"""

GoalKind = Literal["theta", "min_solve", "max_usd", "solve_usd"]

MAX_KNOTS = 101
INFINITE = Decimal("Infinity")


@dataclass(frozen=True)
class PolicyChoice:
    fixer: str
    reason: str
    fallback: bool
    """True: no candidate meets the rule, and this one is taken instead."""
    abstained: bool = False
    """True: the task is unlike all known tasks."""
    lost: Mapping[str, str] = field(default_factory=dict)
    """By fixer, why each of the others was not taken."""


class Undominated(NamedTuple):
    """Candidates that are not dominated, and why each of the others is."""

    kept: list[Candidate]
    dropped: dict[str, str]


class Dial(FrozenModel):
    """One number from cheapest to strongest, as an alternative to dollars: it maps to the worth of a solve.

    Between the knots it is linear. On the tasks it was fitted on, spending grows evenly from 0 to 1.
    """

    positions: tuple[float, ...] = Field(min_length=2)
    """From 0 to 1, ascending."""
    solve_usds: tuple[float, ...]

    @model_validator(mode="after")
    def _knots_rise(self) -> Dial:
        for knots in (self.positions, self.solve_usds):
            if len(knots) != len(self.positions) or not all(0 <= a <= b < float("inf") for a, b in pairwise(knots)):
                raise ValueError("a dial's positions and amounts rise together, one amount for each position")
        if (self.positions[0], self.positions[-1]) != (0.0, 1.0):
            raise ValueError(f"a dial goes from 0 to 1, not from {self.positions[0]} to {self.positions[-1]}")
        return self

    @classmethod
    def fit(cls, probabilities: npt.NDArray[np.float64], costs: npt.NDArray[np.float64]) -> Dial:
        """From the probabilities of known tasks (a row a task, a column a fixer; nan: unknown) and each fixer's mean
        cost.

        Each task climbs from its cheapest fixer to its likeliest, and takes a step if a solve is worth its price. A
        position is a share of the spending that all steps add, and a step is taken from the middle of its own share: so
        spending is as near to the position as whole steps allow.
        """
        import numpy as np

        from scrout.route.stats import climbs

        prices, added = climbs(probabilities, costs)
        if not len(prices):
            return cls(positions=(0.0, 1.0), solve_usds=(0.0, 0.0))
        order = np.argsort(prices, kind="stable")
        paid, share = prices[order], added[order] / added.sum()
        middles = np.minimum(np.cumsum(share) - share / 2, 1.0)
        positions, knots = np.concatenate([[0.0], middles, [1.0]]), np.concatenate([[0.0], paid, [2 * paid[-1]]])
        if len(knots) > MAX_KNOTS:
            grid = np.linspace(0.0, 1.0, MAX_KNOTS)
            positions, knots = grid, np.interp(grid, positions, knots)
        return cls(positions=tuple(positions.tolist()), solve_usds=tuple(knots.tolist()))

    def solve_usd(self, position: float) -> Decimal:
        """The worth of a solve at a position; at 1 more than any cost, so that the likeliest is always taken."""
        if not 0 <= position <= 1:
            raise RouteError(f"the dial is at {position}. Set it to a number from 0 (cheapest) to 1 (strongest).")
        if position == 1:
            return INFINITE
        at = next(at for at in range(1, len(self.positions)) if position <= self.positions[at])
        (x0, x1), (y0, y1) = self.positions[at - 1 : at + 1], self.solve_usds[at - 1 : at + 1]
        share = (position - x0) / (x1 - x0) if x1 > x0 else 1.0
        return Decimal(str(y0 + share * (y1 - y0))).quantize(CENT_FRACTION)

    def position(self, solve_usd: Decimal) -> float:
        """The last position at which a solve is worth no more than this."""
        if solve_usd >= Decimal(str(self.solve_usds[-1])):
            return 1.0
        at = next(at for at in range(1, len(self.positions)) if Decimal(str(self.solve_usds[at])) > solve_usd)
        (x0, x1), (y0, y1) = self.positions[at - 1 : at + 1], self.solve_usds[at - 1 : at + 1]
        return x0 + (float(solve_usd) - y0) / (y1 - y0) * (x1 - x0)


@dataclass(frozen=True)
class Goal:
    """The effective goal of one task, from settings, calibration and dial."""

    kind: GoalKind
    amount: Decimal
    """A probability for `theta` and `min_solve`, otherwise dollars."""
    source: Literal["settings", "dial", "calibrated", "default"] = "settings"
    """`default`: no goal and no calibration, so the dial is at DEFAULT_DIAL."""
    dial: Dial | None = None
    """The dial's position if the amount comes from a dial; None: it does not, or the dial is unknown."""
    position: float | None = None


def choose(
    candidates: Sequence[Candidate],
    settings: RouteSettings,
    anchor: str,
    *,
    theta: float | None = None,
    solve_usd: Decimal | None = None,
    dial: Dial | None = None,
    far: bool = False,
) -> PolicyChoice:
    """The fixer for one task, by the policy and goal of the settings.

    `theta` and `solve_usd` are the calibrated ones of the available feature spaces; None: there are none. `dial` was
    fitted on known tasks; None: it is fitted on this task's candidates. `far`: the task is unlike all known tasks.
    """
    if far:
        reason = f"the task is far from every task with a known outcome, so the anchor {anchor} takes it"
        lost = {candidate.fixer: "the task is far from every known one" for candidate in candidates}
        return PolicyChoice(anchor, reason, fallback=True, abstained=True, lost=_without(lost, anchor))
    return follow(candidates, goal_of(candidates, settings, theta=theta, solve_usd=solve_usd, dial=dial), anchor)


def goal_of(
    candidates: Sequence[Candidate],
    settings: RouteSettings,
    *,
    theta: float | None = None,
    solve_usd: Decimal | None = None,
    dial: Dial | None = None,
) -> Goal:
    """The effective goal for these candidates; the arguments are those of `choose`."""
    if settings.policy == "paper":
        return Goal("theta", _exact(settings.theta if theta is None else theta))
    if settings.min_solve is not None:
        return Goal("min_solve", _exact(settings.min_solve))
    if settings.max_usd is not None:
        return Goal("max_usd", settings.max_usd)
    if settings.solve_usd is not None:
        return Goal("solve_usd", settings.solve_usd)
    if settings.dial is None and solve_usd is not None:
        return Goal("solve_usd", solve_usd, source="calibrated")
    position = DEFAULT_DIAL if settings.dial is None else settings.dial
    dial = dial or _own_dial(candidates)
    amount = dial.solve_usd(position) if dial else Decimal(0)
    source: Literal["default", "dial"] = "default" if settings.dial is None else "dial"
    return Goal("solve_usd", amount, source=source, dial=dial, position=position)


def follow(candidates: Sequence[Candidate], goal: Goal, anchor: str) -> PolicyChoice:
    """The fixer that a goal takes; the anchor if the numbers that it needs are unknown."""
    made: PolicyChoice | None
    match goal.kind:
        case "theta":
            return _walked(candidates, float(goal.amount), anchor)
        case "min_solve":
            made = at_least(candidates, float(goal.amount))
        case "max_usd":
            made = within(candidates, goal.amount)
        case "solve_usd":
            made = worth(candidates, goal.amount)
    if made is not None:
        return made
    unknown = {candidate.fixer: _unknown(candidate) for candidate in candidates}
    reason = f"no fixer's probability and cost are both known, so the anchor {anchor} takes it"
    return PolicyChoice(anchor, reason, fallback=True, lost=_without(unknown, anchor))


def worth(candidates: Iterable[Candidate], solve_usd: Decimal) -> PolicyChoice | None:
    """The maximum of probability times `solve_usd` minus cost; the cheaper one of two equals.

    None: no candidate's probability and cost are both known.
    """
    candidates = list(candidates)
    known = _known(candidates)
    if not known:
        return None
    chosen = max(known, key=lambda one: (_gain(one, solve_usd), -_cost(one), _p(one)))
    amount = "any cost" if solve_usd == INFINITE else usd(solve_usd)
    return _made(candidates, chosen, f"{_beside(chosen, known)}; a solve is taken to be worth {amount}")


def at_least(candidates: Iterable[Candidate], min_solve: float) -> PolicyChoice | None:
    """The cheapest whose probability reaches it, otherwise the likeliest. None: no probability is known."""
    candidates = list(candidates)
    probabilities = [candidate for candidate in candidates if candidate.p_solve is not None]
    if not probabilities:
        return None
    enough = [candidate for candidate in probabilities if _p(candidate) >= min_solve]
    if enough:
        chosen = min(enough, key=lambda one: (_cost_key(one.expected_cost_usd), -_p(one)))
        return _made(
            candidates, chosen, f"{_tag(chosen)}, the cheapest with a probability of {_probability(min_solve)} or more"
        )
    chosen = min(probabilities, key=lambda one: (-_p(one), _cost_key(one.expected_cost_usd)))
    reason = f"no fixer has a probability of {_probability(min_solve)}; the likeliest takes it: {_tag(chosen)}"
    return _made(candidates, chosen, reason, fallback=True)


def within(candidates: Iterable[Candidate], max_usd: Decimal) -> PolicyChoice | None:
    """The likeliest whose expected cost fits, otherwise the cheapest.

    None: no candidate has a known probability and cost.
    """
    candidates = list(candidates)
    known = _known(candidates)
    if not known:
        return None
    fitting = [candidate for candidate in known if _cost(candidate) <= max_usd]
    if fitting:
        chosen = min(fitting, key=lambda one: (-_p(one), _cost(one)))
        return _made(candidates, chosen, f"{_tag(chosen)}, the likeliest of those that cost {usd(max_usd)} or less")
    chosen = min(known, key=lambda one: (_cost(one), -_p(one)))
    reason = f"no fixer is expected to cost {usd(max_usd)} or less; the cheapest takes it: {_tag(chosen)}"
    return _made(candidates, chosen, reason, fallback=True)


def undominated(candidates: Iterable[Candidate]) -> Undominated:
    """Without the fixers that cost at least as much and solve no more than another; of two equals, the first stays.

    An unknown probability or cost neither dominates nor is dominated.
    """
    candidates = list(candidates)
    dropped: dict[str, str] = {}
    # From cheap to expensive, each has to be likelier than all before it.
    climbing: list[Candidate] = []
    for one in sorted(_known(candidates), key=lambda one: (_cost(one), -_p(one))):
        if climbing and _p(one) <= _p(climbing[-1]):
            best = next(other for other in climbing if _p(other) >= _p(one))
            dropped[one.fixer] = f"{_numbers(one)}, and {best.fixer} has {_numbers(best)}"
        else:
            climbing.append(one)
    kept = [one for one in candidates if one.fixer not in dropped]
    return Undominated(kept, dropped)


def cheapest_first(candidates: Iterable[Candidate]) -> list[Candidate]:
    """By expected cost, unknown ones last; equal ones keep their order."""
    return sorted(candidates, key=lambda candidate: _cost_key(candidate.expected_cost_usd))


def clears(candidate: Candidate, theta: float) -> bool:
    """An unknown probability never reaches theta."""
    return candidate.p_solve is not None and candidate.p_solve >= theta


def walk(candidates: Iterable[Candidate], theta: float, anchor: str) -> str:
    """The cheapest fixer whose probability reaches theta, otherwise the anchor."""
    for candidate in cheapest_first(candidates):
        if clears(candidate, theta):
            return candidate.fixer
    return anchor


def anchor_of(pool: Sequence[Fixer], candidates: Iterable[Candidate], named: str = "") -> str:
    """The fallback fixer: the named one, otherwise the likeliest agent, otherwise (free fixers only) the first.

    The most expensive is not always the strongest, so probabilities decide if every agent has one, and price only
    decides between equals. If one has none, the most expensive agent is taken: a new fixer must neither be skipped nor
    become the anchor because it is unknown. Agents are compared by expected cost if all of them have one, otherwise all
    by output price, because these two cannot be compared.
    """
    if named:
        return named
    agents = [fixer for fixer in pool if fixer.has_model]
    if not agents:
        return pool[0].name
    weighed = {candidate.fixer: candidate for candidate in candidates}
    probabilities = {name: one.p_solve for name, one in weighed.items() if one.p_solve is not None}
    costs = {name: one.expected_cost_usd for name, one in weighed.items() if one.expected_cost_usd is not None}
    by_probability = all(fixer.name in probabilities for fixer in agents)
    by_cost = all(fixer.name in costs for fixer in agents)

    def strength(fixer: Fixer) -> tuple[float, Decimal]:
        dearness = costs[fixer.name] if by_cost else output_price(fixer)
        return (probabilities[fixer.name] if by_probability else 0.0), dearness

    return max(agents, key=strength).name


def order(
    decision: Decision, pool: Sequence[Fixer], *, free_first: bool, escalate: bool, anchor: str = ""
) -> list[Fixer]:
    """The fixers that may try, in order. `anchor` is the setting of that name; empty: as in `anchor_of`.

    The chosen one, after the free ones if `free_first`. With escalation, the free ones always go first, then those with
    a known probability from cheap to expensive, then the anchor. A fixer with unknown probability is never tried.
    """
    names = [fixer.name for fixer in pool if not fixer.has_model] if free_first or escalate else []
    names.append(decision.fixer)
    if escalate:
        names += [one.fixer for one in cheapest_first(decision.candidates) if one.p_solve is not None]
        names.append(anchor_of(pool, decision.candidates, anchor))
    return [next(fixer for fixer in pool if fixer.name == name) for name in dict.fromkeys(names)]


def goes_on(fixer: Fixer, check: Check) -> bool:
    """Whether the next fixer should try.

    An unverified patch may be right, so a paid one ends the search. A free one ends it only if it passed the check.
    """
    return check.outcome != "passed" if not fixer.has_model else check.outcome in ("failed", "no_patch", "doubtful")


def output_price(fixer: Fixer) -> Decimal:
    """Dollars per million output tokens; 0 for a fixer without a model."""
    return fixer.price.output if fixer.price else Decimal(0)


def _walked(candidates: Sequence[Candidate], theta: float, anchor: str) -> PolicyChoice:
    name = walk(candidates, theta, anchor)
    chosen = next((candidate for candidate in candidates if candidate.fixer == name), None)
    lost = {candidate.fixer: _short_of(candidate, chosen, theta) for candidate in candidates}
    if chosen is not None and clears(chosen, theta):
        reason = f"{name} is the cheapest fixer that reaches theta: {_against(chosen, theta)}"
        return PolicyChoice(name, reason, fallback=False, lost=_without(lost, name))
    if all(candidate.p_solve is None for candidate in candidates):
        reason = f"no fixer has a résumé yet, so the anchor {name} takes it"
    else:
        reason = f"no fixer reaches theta {two_digits(theta)}, so the anchor {name} takes it"
    return PolicyChoice(name, reason, fallback=True, lost=_without(lost, name))


def _short_of(candidate: Candidate, chosen: Candidate | None, theta: float) -> str:
    if candidate.p_solve is None:
        return "its probability is unknown"
    if chosen is None or not clears(candidate, theta):
        return _against(candidate, theta)
    if candidate.expected_cost_usd == chosen.expected_cost_usd:
        return f"clears theta, but is not cheaper than {chosen.fixer}"
    cost, least = (
        usd(candidate.expected_cost_usd, unknown="an unknown amount"),
        usd(chosen.expected_cost_usd, unknown="an unknown amount"),
    )
    return f"clears theta, but costs {cost} where {chosen.fixer} costs {least}"


def _own_dial(candidates: Sequence[Candidate]) -> Dial | None:
    """A dial from these candidates only; None: nothing is known about them."""
    import numpy as np

    known = _known(candidates)
    if not known:
        return None
    return Dial.fit(np.array([[_p(one) for one in known]]), np.array([float(_cost(one)) for one in known]))


def _made(candidates: Iterable[Candidate], chosen: Candidate, reason: str, *, fallback: bool = False) -> PolicyChoice:
    dominated = undominated(candidates).dropped
    lost = {
        one.fixer: dominated.get(one.fixer) or _unknown(one) or _change(one, chosen)
        for one in candidates
        if one.fixer != chosen.fixer
    }
    return PolicyChoice(chosen.fixer, reason, fallback=fallback, lost=lost)


def _beside(chosen: Candidate, known: Sequence[Candidate]) -> str:
    """The chosen one with its numbers, and the cost of the next step up or, at the top, of the last step."""
    likelier = [one for one in known if _p(one) > _p(chosen)]
    if likelier:
        step = min(likelier, key=lambda one: (_cost(one) - _cost(chosen)) / _exact(_p(one) - _p(chosen)))
        return f"{_tag(chosen)}; {step.fixer} {_change(step, chosen)}"
    cheaper = [one for one in undominated(known).kept if _cost(one) < _cost(chosen)]
    if cheaper:
        below = max(cheaper, key=_cost)
        return f"{_tag(chosen)}, and none is likelier; {below.fixer} {_change(below, chosen)}"
    return f"{_tag(chosen)}, and none is likelier or cheaper"


def _change(one: Candidate, chosen: Candidate) -> str:
    if one.p_solve is None or one.expected_cost_usd is None or None in (chosen.p_solve, chosen.expected_cost_usd):
        return f"has a probability of {_probability(_p(one))}, and {chosen.fixer} has {_probability(_p(chosen))}"
    p, cost = _p(one) - _p(chosen), _cost(one) - _cost(chosen)
    if p > 0 and cost > 0:
        return f"would add {_probability(p)} for {usd(cost)} more, that is {usd(cost / _exact(p))} a further solve"
    if p < 0 and cost < 0:
        each = usd(cost / _exact(p))
        return f"would save {usd(-cost)} and lose {_probability(-p)}, that is {each} for each solve lost"
    if p > 0:
        return f"would add {_probability(p)} and save {usd(-cost)}"
    return f"would cost {usd(cost)} more and lose {_probability(-p)}"


def _gain(one: Candidate, solve_usd: Decimal) -> Decimal:
    return _exact(_p(one)) if solve_usd == INFINITE else _exact(_p(one)) * solve_usd - _cost(one)


def _known(candidates: Iterable[Candidate]) -> list[Candidate]:
    return [candidate for candidate in candidates if not _unknown(candidate)]


def _unknown(candidate: Candidate) -> str:
    """The missing numbers in words; empty: none."""
    if candidate.p_solve is None:
        return "its probability is unknown"
    return "its cost is unknown" if candidate.expected_cost_usd is None else ""


def _p(candidate: Candidate) -> float:
    return candidate.p_solve or 0.0


def _cost(candidate: Candidate) -> Decimal:
    return candidate.expected_cost_usd or Decimal(0)


def _exact(probability: float) -> Decimal:
    return Decimal(str(probability))


def _cost_key(cost_usd: Decimal | None) -> tuple[bool, Decimal]:
    return cost_usd is None, cost_usd or Decimal(0)


def _without(reasons: dict[str, str], name: str) -> dict[str, str]:
    return {fixer: reason for fixer, reason in reasons.items() if fixer != name}


def _tag(candidate: Candidate) -> str:
    return f"{candidate.fixer}: {_numbers(candidate)}"


def _numbers(candidate: Candidate) -> str:
    return f"{_probability(_p(candidate))} for {usd(candidate.expected_cost_usd, unknown='an unknown amount')}"


def _probability(p: float) -> str:
    """Two digits, or more if they would show nothing."""
    digits = next((digits for digits in range(2, 7) if p == 0 or round(p, digits) > 0), 6)
    return f"{p:.{digits}f}".removeprefix("0") if p < 1 else f"{p:.2f}"


def _against(candidate: Candidate, theta: float) -> str:
    """With enough digits to see on which side of theta the probability is."""
    p = _p(candidate)
    relation = "reaches" if p >= theta else "is below"
    for digits in range(2, 7):
        # A calibrated theta has too many digits to read.
        enough = digits > 2 or round(theta, digits) == theta
        if enough and (p == theta or f"{p:.{digits}f}" != f"{theta:.{digits}f}"):
            break
    return f"{p:.{digits}f} {relation} theta {theta:.{digits}f}"


def two_digits(probability: float | Decimal) -> str:
    """Or three, if it has more."""
    return f"{probability:.2f}" if round(probability, 2) == probability else f"{probability:.3f}"
