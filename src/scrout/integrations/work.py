"""`work`: runs scrout on the issue, under a cap, without write access to anything but a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from scrout.base import ConfigError, ScroutError, TaskError
from scrout.config.settings import Settings
from scrout.integrations.admission import Admission, Verb
from scrout.integrations.ci_environment import WRITERS
from scrout.integrations.event import Event
from scrout.integrations.forge import ForgeError
from scrout.integrations.result import WorkResult, failure_of, result_of
from scrout.ledger.store import OpenRun
from scrout.pipeline import Kit, build_missing, open_kit, open_task, solve
from scrout.records import Run
from scrout.sandbox.workspace import find_source
from scrout.task import Task, issue_text
from scrout.text import usd

Say = Callable[[str], None]


def refuse_tokens(environment: Mapping[str, str]) -> None:
    """Commands in the sandbox see none of these variables; without them, a mistake there cannot leak them either."""
    for name in WRITERS:
        if environment.get(name, "").strip():
            raise ForgeError(
                f"{name} is set, and the step that runs an agent must not have a token that can write. Remove it "
                f"from the job."
            )


async def work(event: Event, admission: Admission, repo: Path, commit: str, settings: Settings, say: Say) -> WorkResult:
    """Always returns a result, also if scrout could not work."""
    verb = must_work(event, admission)
    begun: list[OpenRun] = []
    try:
        head = find_source(repo).head
        if head != commit:
            raise TaskError(f"{repo} is at {head[:10]}, but this run is for {commit[:10]}. Check that commit out.")
        held = capped(settings, verb, admission.held_usd)
        task = open_task(repo, issue_text(event.text.encode(errors="surrogatepass"), "this event"))
        await build_missing(task, held, say)
        with open_kit(task, held, say) as kit:
            kit = replace(kit, context=replace(kit.context, opened=begun.append))
            run = await (solve(task, kit) if verb == "fix" else _scout(task, kit))
            return result_of(run, kit.ledger.receipts(run.id), admission, verb)
    except ScroutError as error:
        say(f"failed: {error}")
        # Once a run has started, calls may have been paid for.
        unknown = begun and admission.held_usd > 0
        return failure_of(error, admission, verb, commit, cost_usd=None if unknown else Decimal(0))


def must_work(event: Event, admission: Admission) -> Verb:
    """Raise a ForgeError unless this event was admitted."""
    if admission.go != "work" or admission.verb is None:
        raise ForgeError(
            "the label was not admitted, so there is nothing to work on. Make the job depend on the output `go`."
        )
    must_be_of(event, admission)
    return admission.verb


def must_be_of(event: Event, admission: Admission) -> None:
    if (admission.issue, admission.digest) != (event.number, event.digest):
        raise ForgeError(
            "the admission is for another issue, or the issue's text has changed since. Add the label again."
        )


def capped(settings: Settings, verb: Verb, cap_usd: Decimal) -> Settings:
    """The settings with caps that keep the whole run within its reserved budget."""
    searches = settings.scout.has_model
    if settings.route.embedder.kind == "endpoint":
        raise ConfigError(
            "route.embedder is an endpoint, and its costs do not count against the run's cap. Use minilm or hashed "
            "here."
        )
    expensive = [fixer.name for fixer in settings.fixers if fixer.max_cost_usd > 0] if verb == "fix" else []
    if cap_usd <= 0:
        what = 'scout.searcher = "model"' if searches else f"the fixer {expensive[0]!r}" if expensive else ""
        if what:
            raise ConfigError(
                f"the run may cost nothing, but {what} costs money. Raise run-usd, or remove it from the settings."
            )
        return settings
    scout_usd = min(settings.scout.model.cap_usd, cap_usd) if searches else Decimal(0)
    model = settings.scout.model.model_copy(update={"cap_usd": scout_usd}) if searches else settings.scout.model
    scout = settings.scout.model_copy(update={"model": model})
    remaining_usd = cap_usd - scout_usd
    if expensive and remaining_usd <= 0:
        raise ConfigError(
            f"the run may cost {usd(cap_usd)}, and scouting may use all of it. Lower scout.model.cap_usd or raise "
            f"run-usd."
        )
    whole = remaining_usd if settings.fix.cap_usd is None else min(remaining_usd, settings.fix.cap_usd)
    # `paper` lets the last call exceed the cap.
    fix = settings.fix.model_copy(update={"caps": "hard", **({"cap_usd": whole} if expensive else {})})
    return settings.model_copy(update={"scout": scout, "fix": fix})


async def _scout(task: Task, kit: Kit) -> Run:
    """Scout, gate and route, without a fixer."""
    stages = kit.open(task)
    scouting = await stages.scout()
    await stages.gate(scouting)
    await stages.route(scouting)
    return stages.run.close("interrupted")
