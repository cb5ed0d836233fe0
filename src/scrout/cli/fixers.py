"""`scrout fixers`: adds, lists, shows and removes the résumés that fixers are chosen by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date
from functools import cached_property
from pathlib import Path
from statistics import fmean, quantiles

import click
from rich.console import Console, Group, RenderableType

from scrout.base import FrozenModel, RouteError
from scrout.cli import options, render
from scrout.cli.groups import CommandGroup
from scrout.config.settings import FixerKey, Settings
from scrout.intervals import wilson
from scrout.money import CENT_FRACTION, Usd
from scrout.route import resume as resumes
from scrout.route.embed import Embedder, open_embedder
from scrout.route.feedback import MAX_RUNS, RESUMES, Nearness, drift, nearness, own_folder, with_source
from scrout.route.outcomes import Arm, Outcome, read_outcomes, read_texts
from scrout.route.resume import MIN_OUTCOMES, SHIPPED, Resume, build_resume, extended, keep
from scrout.route.resume_store import alone
from scrout.route.task_vectors import TaskVectors
from scrout.text import usd

TOP_GROUPS = 3
"""Maximum number of repositories that `show` names."""
WIDE = 120
"""Minimum terminal width for the column of sources."""
ARMS: tuple[Arm, ...] = ("handoff", "solo")


class Serves(FrozenModel):
    fixer: str
    borrowed: bool


class Rate(FrozenModel):
    n: int
    solved: int
    rate: float
    low: float
    high: float


class ArmReport(FrozenModel):
    arm: Arm
    solves: Rate
    cost_usd: Usd | None
    quartiles_usd: tuple[Usd, Usd, Usd] | None
    """Of the known costs; None: fewer than two are known."""


class GroupReport(FrozenModel):
    name: str
    """The common prefix of its instance_ids."""
    solves: Rate


class ResumeReport(FrozenModel):
    key: str
    """agent/model@effort; model and effort may be missing."""
    public: bool
    """True: it comes with scrout."""
    growing: bool
    """True: too few outcomes to be used."""
    solves: Rate
    serves: tuple[Serves, ...]
    cost_handoff_usd: Usd | None
    cost_solo_usd: Usd | None
    calls: float | None
    source: str
    made: date
    drift: str
    """Drift between predictions and results, with the next step. Empty: none."""


class ResumeDetails(ResumeReport):
    embedded: int
    """Its tasks with a vector of the embedder in use; the others do not affect the probabilities."""
    tasks: int
    nearness: Nearness | None
    arms: tuple[ArmReport, ...]
    groups: tuple[GroupReport, ...]


class Removed(FrozenModel):
    key: str
    n: int
    file: str


class ResumeCatalog:
    """The user's and the shipped résumés, and the pool that uses them."""

    def __init__(self, settings: Settings, shipped: Path = SHIPPED) -> None:
        self.settings = settings
        self.shipped = shipped
        self.folder = own_folder(settings.route)
        self.own = resumes.load(self.folder)
        self.public = resumes.load(shipped)
        self.counting = resumes.load(shipped, self.folder)
        self.drift = {one.key: one.notice for one in drift(self.folder)}

    def key(self, name: str) -> FixerKey:
        for fixer in self.settings.fixers:
            if fixer.name == name:
                return fixer.key
        if "/" not in name and "@" not in name and name not in map(str, (*self.own, *self.public)):
            pool = ", ".join(fixer.name for fixer in self.settings.fixers)
            raise RouteError(
                f"no fixer is called {name!r}; the pool has {pool}. Name one of them, or write its key: agent/model or "
                "agent/model@effort."
            )
        return FixerKey.parse(name)

    def resume(self, name: str) -> Resume:
        """The résumé that a pool entry uses, even if borrowed; otherwise, the résumé of a key."""
        key = self.key(name)
        pooled = any(fixer.name == name for fixer in self.settings.fixers)
        found = (self.serving(name) if pooled else None) or self.own.get(key) or self.public.get(key)
        if found is None:
            known = ", ".join(map(str, (*self.own, *self.public))) or "none"
            raise RouteError(
                f"{key} has no résumé; there is {known}. Make one with `scrout fixers add {name} --outcomes FILE`."
            )
        return found

    def serving(self, fixer: str) -> Resume | None:
        """The résumé that a pool entry uses; raises a RouteError if the router would refuse the entry."""
        from scrout.route.router import Router

        entry = self.settings.fixer(fixer)
        # A pool of only this entry, so that a wrong name in another does not matter.
        router = Router(self.settings.model_copy(update={"fixers": (entry,)}), self.folder, shipped=self.shipped)
        router.resumes = self.counting
        return router.resume_of(entry)

    @cached_property
    def served(self) -> dict[str, Resume | None]:
        """The résumé of each pool entry, without entries that the router refuses."""
        names = [fixer.name for fixer in self.settings.fixers if fixer.name not in self.refused]
        return {name: self.serving(name) for name in names}

    @cached_property
    def refused(self) -> dict[str, str]:
        """Pool entries that the router refuses, and why."""
        found = {}
        for fixer in self.settings.fixers:
            try:
                self.serving(fixer.name)
            except RouteError as error:
                found[fixer.name] = str(error)
        return found

    def every(self) -> list[Resume]:
        return [one for book in (self.own, self.public) for one in sorted(book.values(), key=lambda one: str(one.key))]

    def report(self, resume: Resume) -> ResumeReport:
        public = resume != self.own.get(resume.key)
        counted = [outcome.api_calls for outcome in resume.outcomes if outcome.api_calls is not None]
        return ResumeReport(
            key=str(resume.key),
            public=public,
            growing=resume.growing,
            solves=_rate(resume.outcomes),
            serves=tuple(
                Serves(fixer=name, borrowed=self.settings.fixer(name).key != resume.key)
                for name, one in self.served.items()
                if one == resume
            ),
            cost_handoff_usd=resume.cost_usd("handoff"),
            cost_solo_usd=resume.cost_usd("solo"),
            calls=round(fmean(counted), 1) if counted else None,
            source=resume.source,
            made=resume.made,
            drift="" if public else self.drift.get(resume.key, ""),
        )

    def details(self, resume: Resume, embedder: Embedder, texts: Sequence[str]) -> ResumeDetails:
        known = TaskVectors(self.shipped, self.folder)
        tasks = list(dict.fromkeys(outcome.task for outcome in resume.outcomes))
        has, _ = known.vectors(resumes.text_space(embedder), tasks)
        return ResumeDetails(
            **dict(self.report(resume)),
            embedded=int(has.sum()),
            tasks=len(tasks),
            nearness=nearness(texts, resume, known, embedder),
            arms=tuple(_arm(resume, arm) for arm in ARMS if any(one.arm == arm for one in resume.outcomes)),
            groups=_groups(resume.outcomes),
        )


@click.group(name="fixers", cls=CommandGroup)
def command() -> None:
    """Example: scrout fixers list

    Manage the résumés that fixers are chosen by: add, list, show, remove.
    """


@command.command(name="add")
@click.argument("name", metavar="NAME")
@click.option("--outcomes", required=True, type=options.PATH, help="CSV or JSONL, one row per outcome.")
@click.option("--tasks", type=options.PATH, help="CSV or JSONL with the texts of the tasks.")
@click.option("--source", default="", help="Where the outcomes come from.", show_default="the file's name")
@click.option(
    "--replace", is_flag=True, help="Replace an existing résumé; with --extend, new outcomes win over old ones."
)
@click.option("--extend", is_flag=True, help="Add the outcomes to an existing résumé.")
@options.common
def _add(
    name: str, outcomes: Path, tasks: Path | None, source: str, replace: bool, extend: bool, repo: Path, as_json: bool
) -> int:
    """Example: scrout fixers add my-model --outcomes outcomes.csv --tasks tasks.jsonl

    Make a fixer's résumé from 25 outcomes or more. NAME is its entry in the pool, or a key: agent/model@effort.
    """
    settings = options.read_settings(repo)
    book = ResumeCatalog(settings)
    key = book.key(name)
    texts = read_texts(tasks) if tasks else {}
    told = read_outcomes(outcomes, texts)
    source = with_source("", source.strip() or outcomes.name)
    price = next((fixer.price for fixer in settings.fixers if fixer.key == key), None)
    embedder, past = open_embedder(settings.route.embedder), _past(settings)
    with render.working() as progress, alone(book.folder, RESUMES):
        former = resumes.load(book.folder).get(key)
        if extend:
            former = former or book.public.get(key)
        elif former and not replace:
            raise RouteError(
                f"{key} already has a résumé of {former.n} outcomes ({former.source}). Add these to it with "
                f"--extend, or replace it with --replace."
            )
        if former and extend:
            source = with_source(former.source, source)
            # Costs of two price lists must not be mixed: the former price is kept only if it still applies.
            price = price if former.price == price else None
            resume = build_resume(key, extended(former, told, replace=replace), source=source, price=price)
        else:
            resume = build_resume(key, told, source=source, price=price)
        progress(f"embedding {len(told)} texts")
        keep(resume, told, embedder, book.folder)
    book = ResumeCatalog(settings)
    _give(book, book.own[key], embedder, past, as_json=as_json)
    return 0


@command.command(name="list")
@options.common
def _list(repo: Path, as_json: bool) -> int:
    """Example: scrout fixers list

    List every résumé, the fixers of the pool that use it, and predictions that no longer hold.
    """
    book = ResumeCatalog(options.read_settings(repo))
    reports = [book.report(one) for one in book.every()]
    if as_json:
        render.print_json(reports)
    elif reports:
        render.print_view(_table(reports, sources=Console().width >= WIDE))
    else:
        render.say("no résumés yet; make one with `scrout fixers add NAME --outcomes FILE`")
    bare = [name for name, one in book.served.items() if one is None]
    if bare and reports:
        render.say(f"without a résumé, so with an unknown probability: {', '.join(bare)}")
    for problem in book.refused.values():
        render.say(problem)
    for notice in filter(None, book.drift.values()):
        render.say(f"drift: {notice}")
    return 0


@command.command(name="show")
@click.argument("name", metavar="NAME")
@options.common
def _show(name: str, repo: Path, as_json: bool) -> int:
    """Example: scrout fixers show my-model

    Show one résumé. NAME is an entry of the pool, or a key as `scrout fixers list` has it.
    """
    settings = options.read_settings(repo)
    book = ResumeCatalog(settings)
    _give(book, book.resume(name), open_embedder(settings.route.embedder), _past(settings), as_json=as_json)
    return 0


@command.command(name="remove")
@click.argument("name", metavar="NAME")
@options.common
def _remove(name: str, repo: Path, as_json: bool) -> int:
    """Example: scrout fixers remove my-model

    Remove a résumé of your own. Vectors of its tasks stay, because other fixers may have tried the same tasks.
    """
    book = ResumeCatalog(options.read_settings(repo))
    key = book.key(name)
    if key not in book.own:
        known = ", ".join(map(str, book.own)) or "none"
        raise RouteError(
            f"{key} has no résumé of yours; there is {known}. `scrout fixers list` shows them. Public résumés "
            f"cannot be removed; one of your own replaces it: `scrout fixers add {key} --outcomes FILE`."
        )
    path = book.folder / resumes.file_of(book.own[key])
    with alone(book.folder, RESUMES):
        path.unlink(missing_ok=True)
    if as_json:
        render.print_json(Removed(key=str(key), n=book.own[key].n, file=str(path)))
    else:
        render.say(f"removed the résumé of {key} ({book.own[key].n} outcomes)")
    return 0


def _past(settings: Settings) -> list[str]:
    from scrout.ledger.opening import open_ledger

    with open_ledger(settings) as book:
        return [run.task.text for run in book.runs(MAX_RUNS)]


def _give(book: ResumeCatalog, resume: Resume, embedder: Embedder, past: Sequence[str], *, as_json: bool) -> None:
    with render.working() as progress:
        if past:
            progress("comparing with your runs")
        details = book.details(resume, embedder, past)
    render.show(details, _view(details), as_json=as_json)
    if details.drift:
        render.say(f"drift: {details.drift}")


def _rate(outcomes: Sequence[Outcome]) -> Rate:
    solved, n = sum(one.resolved for one in outcomes), len(outcomes)
    low, high = wilson(solved, n)
    return Rate(n=n, solved=solved, rate=round(solved / n, 4), low=round(low, 4), high=round(high, 4))


def _arm(resume: Resume, arm: Arm) -> ArmReport:
    outcomes = [one for one in resume.outcomes if one.arm == arm]
    known = [one.cost_usd for one in outcomes if one.cost_usd is not None]
    # As for the mean: a cost of exactly 0 among others is a missing receipt.
    paid = [cost for cost in known if cost > 0] or known
    quartiles = None
    if len(paid) > 1:
        first, second, third = (cost.quantize(CENT_FRACTION) for cost in quantiles(paid, n=4, method="inclusive"))
        quartiles = (first, second, third)
    return ArmReport(arm=arm, solves=_rate(outcomes), cost_usd=resume.cost_usd(arm), quartiles_usd=quartiles)


def _groups(outcomes: Sequence[Outcome]) -> tuple[GroupReport, ...]:
    largest = sorted(Counter(one.repository for one in outcomes).items(), key=lambda item: (-item[1], item[0]))
    return tuple(
        GroupReport(name=name, solves=_rate([one for one in outcomes if one.repository == name]))
        for name, _ in largest[:TOP_GROUPS]
    )


def _table(reports: Sequence[ResumeReport], *, sources: bool) -> RenderableType:
    source = ("source",) if sources else ()
    columns = ("résumé", "serves", "n", "solves", "with handoff", "without", *source, "made")
    table = render.table(*columns, right=("n", "with handoff", "without"), whole=("made",))
    for one in reports:
        render.row(
            table,
            one.key + (" (public)" if one.public else ""),
            _serves(one, "no fixer"),
            f"{one.solves.n} of {MIN_OUTCOMES}" if one.growing else str(one.solves.n),
            _interval(one.solves),
            usd(one.cost_handoff_usd),
            usd(one.cost_solo_usd),
            *((one.source,) if sources else ()),
            one.made.isoformat(),
            style="dim" if one.growing else "",
        )
    return table


def _view(one: ResumeDetails) -> RenderableType:
    lines = [
        render.line("résumé", one.key + (" (public)" if one.public else ""), "bold"),
        render.line("solves", _share(one.solves)),
    ]
    if one.growing:
        lines.append(render.line("growing", f"it counts from {MIN_OUTCOMES} outcomes on", "yellow"))
    costs = f"{usd(one.cost_handoff_usd)} with handoff, {usd(one.cost_solo_usd)} without"
    lines.append(render.line("an attempt", costs))
    lines.append(render.line("calls", "unknown" if one.calls is None else f"{one.calls:g} an attempt"))
    lines.append(render.line("serves", _serves(one, "no fixer of the pool")))
    if one.embedded < one.tasks:
        known = f"{one.embedded} of {one.tasks} tasks for the embedder in use"
        lines.append(render.line("embedded", known, "yellow"))
    if one.nearness:
        lines.append(render.line("nearness", one.nearness.words))
    lines += [render.line(arm.arm, _share(arm.solves) + _quartiles(arm)) for arm in one.arms]
    lines += [render.line("repository", f"{group.name}: {_share(group.solves)}") for group in one.groups]
    return Group(*lines, render.line("source", f"{one.source}, {one.made.isoformat()}"))


def _share(rate: Rate) -> str:
    return f"{rate.solved} of {rate.n}, {_interval(rate)}"


def _interval(rate: Rate) -> str:
    return f"{rate.rate:.2f} ({rate.low:.2f} to {rate.high:.2f})"


def _quartiles(arm: ArmReport) -> str:
    if arm.quartiles_usd is None:
        return ""
    first, middle, third = map(usd, arm.quartiles_usd)
    return f"; half of the attempts cost {first} to {third}, the middle one {middle}"


def _serves(report: ResumeReport, none: str) -> str:
    words = (f"{one.fixer} (borrowed)" if one.borrowed else one.fixer for one in report.serves)
    return ", ".join(words) or none
