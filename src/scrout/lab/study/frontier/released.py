"""The paper's evaluation as ways to spend: its fixers, its walk at every theta, and other policies on its
probabilities.

Few pairs of a task and a fixer have an episode with handoff; stand_in.py has the rule for the others. Every way that
takes one of those says how many outcomes are so, what is solved if all of them fail or all succeed, and what it costs
with each at its fixer's measured mean.
"""

from __future__ import annotations

import numpy as np

from scrout.lab.study.policies import Policy, alone, drawn_evenly, oracle
from scrout.lab.study.sources.paper import FIXERS, OPUS, SHARED_USD, Paper
from scrout.lab.study.sources.stand_in import StoodIn, stood_in
from scrout.route.calibrate import Rule, Walk, Worth
from scrout.route.outcome_table import Ints
from scrout.route.stats import Floats

THETAS = (0.25, 0.30, 0.35, 0.40, 0.50)
ROUTER = "the paper's router"
WORTHS = (1.0, 3.0, 10.0, 30.0)
"""Dollars that a solve may be worth."""


def shared_usd(paper: Paper) -> float:
    """What searcher and sandbox cost a task of the evaluation."""
    return SHARED_USD / len(paper.evaluation.ids)


def fixers_alone(paper: Paper) -> list[Policy]:
    """Those that tried every task without a handoff."""
    return alone(paper.evaluation.table("solo").priced())


def fixers_handed(paper: Paper) -> list[Policy]:
    """Those that tried every task with one."""
    played = paper.evaluation.arm("handoff")
    whole = [fixer for at, fixer in enumerate(played.fixers) if played.measured[:, at].all()]
    some = played.only(whole)
    return [
        Policy(
            f"{fixer} + handoff",
            "handoff",
            some.resolved[:, at].astype(np.float64),
            some.cost[:, at] + shared_usd(paper),
            choices=(fixer,) * len(paper.evaluation.ids),
        )
        for at, fixer in enumerate(whole)
    ]


def bounds(paper: Paper) -> list[Policy]:
    """No choice at all, and perfect choice: the cheapest that solves, without handoff and with it."""
    without, handed = fixers_alone(paper), fixers_handed(paper)
    return [
        drawn_evenly(without),
        oracle(without, "oracle, alone"),
        *([oracle([*without, *handed], "oracle, also with handoff")] if handed else []),
    ]


def policies(paper: Paper) -> list[Policy]:
    """The paper's decisions; then its walk, and the value policy, by the blend, the text and the state."""
    said, pairs = paper.routing, stood_in(paper.evaluation, paper.solo_pinned)
    costs, order = expected_costs(paper), np.arange(len(FIXERS), dtype=np.float64)
    walk, worth = Walk(anchor=FIXERS.index(OPUS)), Worth(anchor=FIXERS.index(OPUS))
    found = [_way(ROUTER, "", np.array([FIXERS.index(name) for name in said.decisions]), pairs)]
    for space, probabilities in (("blend", said.blend), ("text", said.text), ("state", said.state)):
        thetas = {f"theta {theta:.2f}, {space}": theta for theta in THETAS}
        worths = {f"${usd:g} a solve, {space}": usd for usd in WORTHS}
        found += _ways(f"theta, {space}", walk, probabilities, order, thetas, pairs)
        found += _ways(f"worth, {space}", worth, probabilities, costs, worths, pairs)
    return found


def expected_costs(paper: Paper) -> Floats:
    """What each fixer was known to cost before the evaluation: its mean in the label run, with handoff."""
    return paper.label_run.table("handoff").mean_costs


def _ways(
    family: str, rule: Rule, probabilities: Floats, costs: Floats, settings: dict[str, float], pairs: StoodIn
) -> list[Policy]:
    chosen = rule.choices(probabilities, costs, np.array(list(settings.values())))
    return [_way(name, family, row, pairs) for name, row in zip(settings, chosen, strict=True)]


def _way(name: str, family: str, chosen: Ints, pairs: StoodIn) -> Policy:
    taken = pairs.taken(chosen)
    return Policy(
        name,
        "policy",
        taken.resolved.astype(np.float64),
        taken.cost,
        family,
        tuple(FIXERS[at] for at in chosen),
        ~taken.measured,
        taken.likely,
    )
