"""Who tries, and in which order: rules on a router's numbers, without any learning of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

from scrout.config import Fixer
from scrout.records import Candidate, Check, Decision


def cheapest_first(candidates: Iterable[Candidate]) -> list[Candidate]:
    """By expected cost, unknown ones last; equals keep their order."""
    return sorted(candidates, key=lambda candidate: _cost_key(candidate.expected_cost_usd))


def clears(candidate: Candidate, theta: float) -> bool:
    """An unknown chance clears nothing."""
    return candidate.p_solve is not None and candidate.p_solve >= theta


def walk(candidates: Iterable[Candidate], theta: float, anchor: str) -> str:
    """The cheapest fixer whose chance reaches theta, else the anchor."""
    for candidate in cheapest_first(candidates):
        if clears(candidate, theta):
            return candidate.fixer
    return anchor


def anchor_of(pool: Sequence[Fixer], candidates: Iterable[Candidate], named: str = "") -> str:
    """The fixer to fall back to: the named one, else the most expensive agent, else (free fixers only) the first.

    Agents are ranked by expected cost when all of them have one, otherwise all by output price: a mean of dollars and a
    price do not compare, and a newcomer must not become the anchor by being unknown.
    """
    if named:
        return named
    agents = [fixer for fixer in pool if fixer.kind == "agent"]
    if not agents:
        return pool[0].name
    costs = {candidate.fixer: candidate.expected_cost_usd for candidate in candidates}
    by_cost = all(costs.get(fixer.name) is not None for fixer in agents)

    def dearness(fixer: Fixer) -> Decimal:
        known = costs.get(fixer.name) if by_cost else output_price(fixer)
        return Decimal(0) if known is None else known

    return max(agents, key=dearness).name


def order(decision: Decision, pool: Sequence[Fixer], escalate: bool, anchor: str = "") -> list[str]:
    """Who tries, first to last. `anchor` is the setting of that name; empty: the most expensive of the pool.

    Without escalation the chosen fixer alone. With it the free ones go first, then the chosen one, then those with a
    known chance from cheap to dear, then the anchor. A fixer of unknown chance is never tried on a guess.
    """
    if not escalate:
        return [decision.fixer]
    free = [fixer.name for fixer in pool if fixer.kind == "repair"]
    known = [candidate.fixer for candidate in cheapest_first(decision.candidates) if candidate.p_solve is not None]
    return list(dict.fromkeys([*free, decision.fixer, *known, anchor_of(pool, decision.candidates, anchor)]))


def proven_wrong(check: Check) -> bool:
    """Whether the next fixer should try: an unverified patch may be right, so it is not proven wrong."""
    return check.outcome in ("failed", "no_patch")


def output_price(fixer: Fixer) -> Decimal:
    """Dollars per million output tokens; a fixer without a model pays for none."""
    return fixer.price.output if fixer.price else Decimal(0)


def _cost_key(cost_usd: Decimal | None) -> tuple[bool, Decimal]:
    return cost_usd is None, cost_usd or Decimal(0)
