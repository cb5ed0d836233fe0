"""The router: gives every fixer of the pool a probability and a cost, and records why each one won or lost.

By default, a probability comes from the task's difficulty (difficulty.py) and the fixer's ability from its résumé;
under the policy `paper`, from the paper's heads (heads.py). Each combination of feature spaces has its own head and
settings. If a space is missing, the decision is marked degraded, and uses nothing of other combinations.

A fixer without a résumé has an unknown probability (p_solve None): it is never chosen by probability, only as the
anchor. A hidden state whose head was fitted on another checkpoint is an error, not a missing space.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from scrout.base import FrozenModel, RouteError
from scrout.config.settings import Fixer, FixerKey, Settings
from scrout.records import Candidate, Decision, State
from scrout.route import calibrate, difficulty, heads, resume, text_counts
from scrout.route.calibrate import Calibration, combination
from scrout.route.difficulty import Ability, DifficultyEstimate, DifficultyHead
from scrout.route.embed import Embedder, open_embedder
from scrout.route.outcomes import Arm, digest
from scrout.route.policy import (
    Dial,
    Goal,
    PolicyChoice,
    anchor_of,
    cheapest_first,
    choose,
    clears,
    goal_of,
    output_price,
)
from scrout.route.resume import MIN_OUTCOMES, SHIPPED, Resume, ResumeVectors, resume_vectors, text_space
from scrout.route.stats import Floats
from scrout.route.task_vectors import TaskVectors

NEAREST = 5
BORROWED_SD = 0.3
"""Assumed standard deviation, in log odds, of one model's ability between agents or efforts, so that a borrowed
résumé counts less than an own one.
"""


class Neighbour(FrozenModel):
    """A known task, and its outcomes by the pool's fixers."""

    title: str
    similarity: float
    """Cosine of the texts' vectors."""
    solved_by: tuple[str, ...]
    failed_by: tuple[str, ...]


@dataclass(frozen=True)
class _Own:
    resume: Resume | None
    cost_usd: Decimal | None
    evidence: str
    borrowed: bool
    """True: the résumé is of the same model with another agent or effort."""


@dataclass(frozen=True, eq=False)
class _View:
    spaces: tuple[str, ...]
    missing: tuple[str, ...]
    judged: DifficultyEstimate | None = None
    head: DifficultyHead | None = None
    features: Floats | None = None
    """Features of the task, for the head."""


class _Calibrated(TypedDict):
    theta: float
    solve_usd: Decimal | None
    dial: Dial | None


@dataclass(frozen=True, eq=False)
class RoutingInputs:
    candidates: tuple[Candidate, ...]
    """From cheap to expensive, without reasons."""
    goal: Goal
    head: DifficultyHead | None
    """The head for ease and effort; None: there is none, and probabilities are base rates or from the paper's heads."""
    features: Floats | None
    missing: tuple[str, ...]
    """Why each unused feature space was not used."""
    takes_state: bool
    """Whether a fitted head takes a scout's state."""


class Router:
    """Routes tasks over one pool, with the résumés and heads of the shipped folder and the user's own."""

    def __init__(
        self, settings: Settings, folder: Path, embedder: Embedder | None = None, shipped: Path = SHIPPED
    ) -> None:
        self.settings = settings
        self.folder = folder
        self.folders = (shipped, folder)
        self._embedder = embedder
        self._owns: dict[str, _Own] = {}
        self._abilities: dict[tuple[str, FixerKey], Ability] = {}
        self._standings: dict[tuple[str, FixerKey], ResumeVectors | None] = {}
        self._dials: dict[tuple[str, ...], Dial | None] = {}

    def route(self, text: str, state: State | None) -> Decision:
        """Choose a fixer for a task by its text and the scout's state."""
        pool, route = self.settings.fixers, self.settings.route
        if state is not None and len(pool) > 1:  # with one fixer, nothing depends on the state
            self._refuse_other_checkpoint(state.space)
        view, weighed = self._weigh(text, state)
        weighed = cheapest_first(weighed)
        anchor = anchor_of(pool, weighed, route.anchor)
        calibrated = self._calibrated(view.spaces)
        theta = calibrated["theta"]
        if len(pool) == 1:
            only = weighed[0].model_copy(update={"reason": "the only fixer in the pool"})
            return Decision(
                fixer=only.fixer,
                theta=theta,
                degraded=False,
                fallback=not clears(only, theta),
                reason=only.reason,
                candidates=(only,),
                policy=route.policy,
                spaces=view.spaces,
            )
        far = bool(view.judged is not None and view.judged.far[0])
        made = choose(weighed, route, anchor, far=far, **calibrated)
        degraded = f"; degraded: {', '.join(view.missing)}" if view.missing else ""
        return Decision(
            fixer=made.fixer,
            theta=theta,
            degraded=bool(view.missing),
            fallback=made.fallback,
            reason=made.reason + degraded,
            candidates=tuple(self._explained(candidate, made) for candidate in weighed),
            policy=route.policy,
            abstained=made.abstained,
            spaces=view.spaces,
        )

    def _explained(self, candidate: Candidate, made: PolicyChoice) -> Candidate:
        """The candidate with the reason why it won or lost, instead of only the source of its probability."""
        why = made.reason if candidate.fixer == made.fixer else made.lost.get(candidate.fixer, "") or candidate.reason
        if self.settings.fix.free_first and not self.settings.fixer(candidate.fixer).has_model:
            why += "; it is free and tries first where the gate verified a reproduction"
        return candidate.model_copy(update={"reason": why})

    def look(self, text: str, state: State | None) -> RoutingInputs:
        """The inputs of `route`, for explaining a decision."""
        view, weighed = self._weigh(text, state)
        candidates = cheapest_first(weighed)
        paper = self.settings.route.policy == "paper"
        spaces = self._heads if paper else {one for key in self._difficulty for one in key}
        return RoutingInputs(
            candidates=tuple(candidates),
            goal=goal_of(candidates, self.settings.route, **self._calibrated(view.spaces)),
            head=view.head,
            features=view.features,
            missing=view.missing,
            takes_state=any(space != text_counts.SPACE and not space.startswith("text/") for space in spaces),
        )

    def nearest(self, text: str, most: int = NEAREST) -> list[Neighbour]:
        """The known tasks with the nearest texts, and their outcomes by the pool's fixers."""
        place, rows = self.known.space(text_space(self.embedder))
        if not len(rows):
            return []
        vector = self.embedder.embed([text])[0]
        similar = rows @ vector
        tasks = {at: task for task, at in place.items()}
        own = digest(text)
        found: list[Neighbour] = []
        for at in np.argsort(-similar, kind="stable").tolist():
            if at in tasks and tasks[at] != own and len(found) < most:
                solved, failed = self._made_of(tasks[at])
                title = self.known.titles.get(tasks[at], "")
                found.append(Neighbour(title=title, similarity=float(similar[at]), solved_by=solved, failed_by=failed))
        return found

    @cached_property
    def known(self) -> TaskVectors:
        return TaskVectors(*self.folders)

    @cached_property
    def embedder(self) -> Embedder:
        return self._embedder or open_embedder(self.settings.route.embedder)

    @cached_property
    def resumes(self) -> dict[FixerKey, Resume]:
        return resume.load(*self.folders)

    def resume_of(self, fixer: Fixer) -> Resume | None:
        return self._own(fixer).resume

    def _own(self, fixer: Fixer) -> _Own:
        if fixer.name not in self._owns:
            found = self._find(fixer)
            borrowed = found is not None and found.key != fixer.key
            self._owns[fixer.name] = _Own(found, self._cost_usd(fixer, found), _evidence(fixer, found), borrowed)
        return self._owns[fixer.name]

    def _cost_usd(self, fixer: Fixer, own: Resume | None) -> Decimal | None:
        if not fixer.has_model:
            return Decimal(0)
        return None if own is None else own.expected_cost_usd(fixer.price, self._arm)

    @cached_property
    def _arm(self) -> Arm:
        """The arm for comparing costs: with a handoff, if all of the pool's résumés have it."""
        agents = [own for one in self.settings.fixers if one.has_model and (own := self._find(one)) is not None]
        costs = [(own.cost_usd("solo"), own.cost_usd("handoff")) for own in agents]
        known = [handoff for solo, handoff in costs if solo is not None or handoff is not None]
        return "handoff" if known and None not in known else "solo"

    def _find(self, fixer: Fixer) -> Resume | None:
        if not fixer.resume:
            return resume.find(fixer.key, self.resumes)
        key = FixerKey.parse(fixer.resume)
        if key not in self.resumes:
            names = ", ".join(sorted(map(str, self.resumes))) or "none"
            raise RouteError(
                f"fixer {fixer.name!r} uses the résumé {key}, which does not exist. These exist: {names}. Add it "
                f"with `scrout fixers add`, or name another."
            )
        named = self.resumes[key]
        return None if named.growing else named

    def _weigh(self, text: str, state: State | None) -> tuple[_View, list[Candidate]]:
        # The following sort by cost is stable, so this order ranks the fixers with unknown cost.
        pool = sorted(self.settings.fixers, key=output_price)
        if self.settings.route.policy == "paper":
            return self._by_heads(pool, text, state)
        view = self._view(text, state)
        known = {fixer.name: own for fixer in pool if (own := self._own(fixer)).resume is not None}
        probabilities = self._probabilities(view, known)
        space = combination(view.spaces)
        candidates = []
        for fixer in pool:
            if fixer.name not in probabilities:
                candidates.append(self._candidate(fixer, None, {}))
                continue
            p, low, high = probabilities[fixer.name]
            known_p = self._candidate(fixer, p, {space: p} if space else {})
            candidates.append(known_p.model_copy(update={"p_low": min(low, p), "p_high": max(high, p)}))
        return view, candidates

    def _candidate(self, fixer: Fixer, p: float | None, by_space: dict[str, float]) -> Candidate:
        about = self._own(fixer)
        unknown = f"no résumé yet (it takes {MIN_OUTCOMES} outcomes), so its probability is unknown"
        return Candidate(
            fixer=fixer.name,
            p_solve=p,
            p_by_space=by_space,
            expected_cost_usd=about.cost_usd,
            evidence="" if p is None else about.evidence,
            reason=unknown if p is None else about.evidence,
        )

    def _probabilities(self, view: _View, known: Mapping[str, _Own]) -> dict[str, tuple[float, float, float]]:
        resumes = {name: own.resume for name, own in known.items() if own.resume is not None}
        if view.head is None or view.judged is None:
            return {name: ((own.solved + 1) / (own.n + 2), *own.interval) for name, own in resumes.items()}
        if not resumes:
            return {}
        abilities = []
        for name, own in resumes.items():
            ability = self._ability(view.head, own)
            sd = math.hypot(ability.sd, BORROWED_SD) if known[name].borrowed else ability.sd
            abilities.append(Ability(ability.value, sd))
        columns = view.head.probabilities(abilities, float(view.judged.ease[0]))
        return dict(zip(resumes, zip(*(column.tolist() for column in columns), strict=True), strict=True))

    def _view(self, text: str, state: State | None) -> _View:
        """The task as the head with the most spaces sees it."""
        vectors: dict[str, npt.ArrayLike] = {text_counts.SPACE: text_counts.count(text)}
        if state is not None:
            vectors[state.space] = np.array(state.vector)
        if not self._difficulty:
            return _View((), ("no head is fitted, so probabilities are base rates",))
        usable = [head for spaces, head in self._difficulty.items() if set(spaces) <= set(vectors)]
        head = max(usable, key=lambda one: len(one.spaces), default=None)
        wanted = max(self._difficulty, key=len)
        missing = []
        if head is None or len(head.spaces) < len(wanted):
            absent = [space for space in wanted if space not in vectors]
            missing += [f"the {space} head needs a state that the scout did not give" for space in absent]
        if state is not None and (head is None or state.space not in head.spaces):
            missing.append(f"the scout's state ({state.space}) has no fitted head")
        if head is None:
            return _View((), (*missing, "no other head is fitted, so probabilities are base rates"))
        features = np.concatenate([np.asarray(vectors[space], dtype=np.float64) for space in head.spaces])
        return _View(head.spaces, tuple(missing), head.judge(features), head, features)

    def _by_heads(self, pool: Sequence[Fixer], text: str, state: State | None) -> tuple[_View, list[Candidate]]:
        """By the paper's method: the mean of the probabilities from the available spaces' heads."""
        vectors: dict[str, npt.ArrayLike] = {text_space(self.embedder): self.embedder.embed([text])}
        if state is not None:
            vectors[state.space] = np.array([state.vector], dtype=np.float64)
        fitted = [space for space in vectors if space in self._heads]
        missing = [f"{space} has no fitted head" for space in vectors if space not in self._heads]
        missing += [
            f"the {space} head needs a state that the scout did not give"
            for space in self._heads
            if space not in vectors and not space.startswith("text/")
        ]
        used: set[str] = set()
        candidates = []
        for fixer in pool:
            own = self._own(fixer).resume
            if own is None:
                candidates.append(self._candidate(fixer, None, {}))
                continue
            stands = {space: self._standing(own, space) for space in fitted}
            by_space = {
                space: float(self._heads[space].predict_proba(vectors[space], [one])[0])
                for space, one in stands.items()
                if one is not None
            }
            used |= set(by_space)
            missing += [f"{own.key} has no tasks in {space}" for space, one in stands.items() if one is None]
            p = sum(by_space.values()) / len(by_space) if by_space else (own.solved + 1) / (own.n + 2)
            candidates.append(self._candidate(fixer, p, by_space))
        return _View(tuple(sorted(used)), tuple(dict.fromkeys(missing))), candidates

    def _ability(self, head: DifficultyHead, own: Resume) -> Ability:
        key = (head.combination, own.key)
        if key not in self._abilities:
            # The fixer will work with a handoff here, so prefer that outcome if there are both.
            best = {
                outcome.instance_id: outcome for outcome in sorted(own.outcomes, key=lambda one: one.arm == "handoff")
            }
            outcomes = list(best.values())
            ease = self._ease(head, [outcome.task for outcome in outcomes])
            groups = [outcome.repository for outcome in outcomes]
            self._abilities[key] = head.ability(ease, [outcome.resolved for outcome in outcomes], groups)
        return self._abilities[key]

    def _ease(self, head: DifficultyHead, tasks: Sequence[str]) -> Floats:
        """The ease of known tasks: from this head, from one with fewer spaces if a vector is missing, or average."""
        ease, open_ = np.zeros(len(tasks)), np.ones(len(tasks), dtype=bool)
        fewer = [one for spaces, one in self._difficulty.items() if set(spaces) < set(head.spaces)]
        for one in (head, *sorted(fewer, key=lambda one: -len(one.spaces))):
            has = open_.copy()
            for space in one.spaces:
                has &= self.known.vectors(space, tasks)[0]
            if has.any():
                there = [task for task, mine in zip(tasks, has.tolist(), strict=True) if mine]
                rows = np.concatenate([self.known.vectors(space, there)[1] for space in one.spaces], axis=1)
                ease[has] = one.judge(rows).ease
                open_ &= ~has
        return ease

    def _standing(self, own: Resume, space: str) -> ResumeVectors | None:
        key = (space, own.key)
        if key not in self._standings:
            self._standings[key] = resume_vectors(own, self.known, space)
        return self._standings[key]

    @cached_property
    def _difficulty(self) -> dict[tuple[str, ...], DifficultyHead]:
        return difficulty.load(*self.folders)

    @cached_property
    def _heads(self) -> dict[str, heads.ResumeHead]:
        return heads.load(*self.folders)

    @cached_property
    def _calibration(self) -> Calibration | None:
        found = None
        for folder in self.folders:
            found = calibrate.load(folder) or found
        return found

    def _dial(self, spaces: tuple[str, ...]) -> Dial | None:
        """The calibrated dial, if it is of exactly these spaces, because probabilities of others rise differently;
        otherwise, one over the known tasks, with this pool's probabilities and costs. None: nothing is known.
        """
        found = self._calibration
        if found is not None and self._is_of_this_pool and combination(found.spaces) == combination(spaces):
            return found.dial
        if spaces not in self._dials:
            self._dials[spaces] = self._fit_dial(spaces)
        return self._dials[spaces]

    def _fit_dial(self, spaces: tuple[str, ...]) -> Dial | None:
        head = self._difficulty.get(spaces)
        owns = [self._own(fixer) for fixer in self.settings.fixers]
        priced = [(own.resume, float(own.cost_usd)) for own in owns if own.resume and own.cost_usd is not None]
        if head is None or not priced:
            return None
        tasks = set.intersection(*(set(self.known.space(space)[0]) for space in spaces))
        if not tasks:
            return None
        rows = np.concatenate([self.known.vectors(space, sorted(tasks))[1] for space in spaces], axis=1)
        ease = head.judge(rows).ease
        probabilities = [head.probability(self._ability(head, own), ease)[0] for own, _ in priced]
        return Dial.fit(np.column_stack(probabilities), np.array([cost for _, cost in priced]))

    @cached_property
    def _is_of_this_pool(self) -> bool:
        """Whether the calibration has the pool's fixers: the worth of a solve depends on them."""
        assert self._calibration is not None
        judged = {str(own.key) for fixer in self.settings.fixers if (own := self.resume_of(fixer)) is not None}
        return judged == set(self._calibration.fixers)

    def _calibrated(self, spaces: tuple[str, ...]) -> _Calibrated:
        return {"theta": self._theta(spaces), "solve_usd": self._solve_usd(spaces), "dial": self._dial(spaces)}

    def _theta(self, spaces: Sequence[str]) -> float:
        """The calibrated theta of exactly these spaces, unless the user set one."""
        route = self.settings.route
        if self._calibration is None or not self._is_of_this_pool or "theta" in route.model_fields_set:
            return route.theta
        found = self._calibration.theta(spaces)
        return route.theta if found is None else found

    def _solve_usd(self, spaces: Sequence[str]) -> Decimal | None:
        if self._calibration is None or not self._is_of_this_pool:
            return None
        found = self._calibration.solve_usd(spaces)
        return None if found is None else Decimal(str(found))

    def _made_of(self, task: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        solved: list[str] = []
        failed: list[str] = []
        for fixer in self.settings.fixers:
            own = self.resume_of(fixer)
            ends = [outcome.resolved for outcome in own.outcomes if outcome.task == task] if own else []
            if ends:
                (solved if any(ends) else failed).append(fixer.name)
        return tuple(solved), tuple(failed)

    def _refuse_other_checkpoint(self, space: str) -> None:
        """States of two models have different meanings, even if both are trainings of the same one."""
        mine = _checkpoint(space)
        spaces = {*self._heads, *(one for combined in self._difficulty for one in combined)}
        fitted = {found for found in map(_checkpoint, spaces) if found}
        if mine and fitted and mine not in fitted:
            raise RouteError(
                f"the scout's state is of checkpoint {mine}, and the head in {self.folder} was fitted on states of "
                f"{', '.join(sorted(fitted))}. Scout with that checkpoint, or fit a head on states of this one."
            )


def _checkpoint(space: str) -> str:
    """The digest in a space like `hidden/<digest>/layer-4/last/3584`; empty: it is not a model's hidden state."""
    kind, _, rest = space.partition("/")
    return rest.partition("/")[0] if kind == "hidden" else ""


def _evidence(fixer: Fixer, own: Resume | None) -> str:
    if own is None:
        return ""
    whose = "its own résumé" if own.key == fixer.key else f"the résumé of {own.key}"
    return f"{whose}, {own.solved} of {own.n} solved"
