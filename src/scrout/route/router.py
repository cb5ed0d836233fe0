"""The router: every fixer of the pool gets a chance and a cost, and the decision keeps why each of them lost.

A fixer's chance comes from the fitted head, else from its résumé's base rate. A fixer without a résumé has an unknown
chance (p_solve None): it is never chosen on probability, only as the anchor. A folder that is missing or empty is a
fresh install, and the anchor takes every task.

Only the text space is in use. Résumés hold no centroids of a scout's state, so whenever a state comes in, or a head
asks for one, the decision is marked degraded and says why. A model's hidden state whose head was fitted on another
checkpoint is no missing space but a mistake, and refused.
"""

from __future__ import annotations

from decimal import Decimal
from functools import cached_property
from pathlib import Path

from scrout.config import Fixer, Settings
from scrout.errors import RouteError
from scrout.records import Candidate, Decision, State
from scrout.route import heads, resume
from scrout.route.embed import Embedder, HashedEmbedder, Vectors
from scrout.route.policy import anchor_of, cheapest_first, clears, output_price, walk
from scrout.route.resume import MIN_OUTCOMES, Resume


class Router:
    """Routes tasks over one pool, with the résumés and heads of one folder, which is read at the first task."""

    def __init__(self, settings: Settings, folder: Path, embedder: Embedder | None = None) -> None:
        self.settings = settings
        self.folder = folder
        self.embedder = HashedEmbedder() if embedder is None else embedder

    def route(self, text: str, state: State | None) -> Decision:
        """Choose a fixer for a task by its text and, where a head for it exists, the scout's state."""
        pool, theta = self.settings.fixers, self.settings.route.theta
        vectors = self.embedder.embed([text])
        # The sort by cost is stable, so this order ranks the fixers whose cost is unknown.
        weighed = cheapest_first([self._weigh(fixer, vectors) for fixer in sorted(pool, key=output_price)])
        chosen_name = walk(weighed, theta, anchor_of(pool, weighed, self.settings.route.anchor))
        chosen = next(candidate for candidate in weighed if candidate.fixer == chosen_name)
        if len(pool) == 1:
            only = chosen.model_copy(update={"reason": "the only fixer in the pool"})
            return Decision(
                fixer=only.fixer,
                theta=theta,
                degraded=False,
                fallback=not clears(only, theta),
                reason=only.reason,
                candidates=(only,),
            )
        unused = self._unused_spaces(state)
        reasons = [_why_chosen(weighed, chosen, theta)]
        if unused:
            reasons.append(f"degraded to the issue's text: {', '.join(unused)}")
        return Decision(
            fixer=chosen.fixer,
            theta=theta,
            degraded=bool(unused),
            fallback=not clears(chosen, theta),
            reason="; ".join(reasons),
            candidates=tuple(_explained(candidate, chosen, theta) for candidate in weighed),
        )

    @cached_property
    def _resumes(self) -> dict[str, Resume]:
        resumes = resume.load(self.folder)
        for one in resumes.values():
            self._check_embedder(f"the résumé of {one.fixer}", one.embedder)
        return resumes

    @cached_property
    def _heads(self) -> dict[str, heads.ResumeHead]:
        fitted = heads.load(self.folder)
        if heads.TEXT in fitted:
            self._check_embedder("the text head", fitted[heads.TEXT].embedder)
        return fitted

    def _check_embedder(self, what: str, name: str) -> None:
        if name != self.embedder.name:
            raise RouteError(
                f"{what} in {self.folder} was made with {name}, and tasks are embedded with {self.embedder.name}. "
                "Build it again."
            )

    def _weigh(self, fixer: Fixer, vectors: Vectors) -> Candidate:
        """The fixer's chance and cost; the reason says where the chance comes from."""
        known = self._resumes.get(fixer.name)
        head = self._heads.get(heads.TEXT)
        p_solve, by_space = None, {}
        if known is None:
            source = f"no résumé yet (it takes {MIN_OUTCOMES} outcomes), so its chance is unknown"
        elif head is None:
            p_solve = (known.solved + 1) / (known.n + 2)
            source = f"from its base rate, {known.solved} of {known.n}, as no head is fitted"
        else:
            p_solve = float(head.predict_proba(vectors, [known])[0])
            by_space = {heads.TEXT: p_solve}
            source = "from the text head"
        return Candidate(
            fixer=fixer.name,
            p_solve=p_solve,
            p_by_space=by_space,
            expected_cost_usd=_expected_cost_usd(fixer, known),
            reason=source,
        )

    def _unused_spaces(self, state: State | None) -> list[str]:
        """The spaces besides the text that could not count, each with why."""
        given = set() if state is None else {state.space}
        if state is not None:
            self._refuse_other_checkpoint(state.space)
        unused = []
        for space in sorted((set(self._heads) | given) - {heads.TEXT}):
            if space not in self._heads:
                unused.append(f"the scout's state ({space}) has no fitted head")
            elif space not in given:
                unused.append(f"the {space} head needs a state that the scout did not give")
            else:
                unused.append(f"no résumé has centroids for the {space} head")
        return unused

    def _refuse_other_checkpoint(self, space: str) -> None:
        """Numbers of two models' states mean different things, even where the models are two trainings of one."""
        mine = _checkpoint(space)
        fitted = {found for found in map(_checkpoint, self._heads) if found}
        if mine and fitted and mine not in fitted:
            raise RouteError(
                f"the scout's state is of checkpoint {mine}, and the head in {self.folder} was fitted on states of "
                f"{', '.join(sorted(fitted))}. Scout with that checkpoint, or fit a head on states of this one."
            )


def _checkpoint(space: str) -> str:
    """The digest in a space like `hidden/<digest>/layer-4/last/3584`; empty: it is no model's hidden state."""
    kind, _, rest = space.partition("/")
    return rest.partition("/")[0] if kind == "hidden" else ""


def _expected_cost_usd(fixer: Fixer, known: Resume | None) -> Decimal | None:
    if fixer.kind == "repair":
        return Decimal(0)
    if known is None:
        return None
    return known.solo_cost_usd if known.handoff_cost_usd is None else known.handoff_cost_usd


def _why_chosen(weighed: list[Candidate], chosen: Candidate, theta: float) -> str:
    if clears(chosen, theta):
        return f"{chosen.fixer} is the cheapest fixer that reaches theta: {_against(chosen, theta)}"
    if all(candidate.p_solve is None for candidate in weighed):
        return f"no fixer has a résumé yet, so the anchor {chosen.fixer} takes it"
    return f"no fixer reaches theta {_number(theta)}, so the anchor {chosen.fixer} takes it"


def _explained(candidate: Candidate, chosen: Candidate, theta: float) -> Candidate:
    """The candidate with why it won or lost, instead of only where its chance comes from."""
    source = candidate.reason
    if candidate.p_solve is None:
        reason = source
    elif not clears(candidate, theta):
        reason = f"{_against(candidate, theta)} ({source})"
    elif candidate.fixer == chosen.fixer:
        reason = f"{_against(candidate, theta)} ({source}) for {_dollars(candidate)}, and no cheaper fixer does"
    else:
        reason = f"clears theta but {_dearer(candidate, chosen)} ({_against(candidate, theta)}, {source})"
    if candidate.fixer == chosen.fixer and not clears(candidate, theta):
        reason = f"the anchor, as no fixer reaches theta {_number(theta)}; {reason}"
    return candidate.model_copy(update={"reason": reason})


def _dearer(candidate: Candidate, chosen: Candidate) -> str:
    if candidate.expected_cost_usd == chosen.expected_cost_usd:
        return f"is not cheaper than {chosen.fixer} ({_dollars(chosen)})"
    return f"costs {_dollars(candidate)} where {chosen.fixer} costs {_dollars(chosen)}"


def _against(candidate: Candidate, theta: float) -> str:
    """With as many digits as it takes to see on which side of theta the chance lies."""
    p = candidate.p_solve or 0.0
    relation = "reaches" if p >= theta else "is below"
    for digits in range(2, 7):
        if round(theta, digits) == theta and (p == theta or f"{p:.{digits}f}" != f"{theta:.{digits}f}"):
            break
    return f"{p:.{digits}f} {relation} theta {theta:.{digits}f}"


def _number(theta: float) -> str:
    return f"{theta:.2f}" if round(theta, 2) == theta else f"{theta:g}"


def _dollars(candidate: Candidate) -> str:
    cost_usd = candidate.expected_cost_usd
    if cost_usd is None:
        return "an unknown amount"
    return f"${cost_usd:.2f}" if cost_usd == 0 or cost_usd >= Decimal("0.1") else f"${cost_usd:.4f}"
