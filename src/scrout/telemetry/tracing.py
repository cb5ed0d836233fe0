"""One run as a trace: the run, its stages, an agent's attempt in one of them, its model calls and its tools.

Spans of stages are created as they happen. Spans below them are created when a stage ends, from its receipts and its
trajectory, with the actual times, because calls are made in other processes and receipts show the payments.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec

from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from pydantic import BaseModel, JsonValue

from scrout.base import ConfigError
from scrout.config.settings import Settings
from scrout.money import Receipt, total_usd
from scrout.observer import LISTENER
from scrout.records import Attempt, Run, Scouting
from scrout.task import Task
from scrout.telemetry import names
from scrout.telemetry.content import (
    NO_ANSWER,
    Censor,
    error_of,
    facts_of,
    finish_of,
    provider_of,
    server_of,
    token_facts,
)
from scrout.telemetry.exporter import Attributes, Exporter, Value, _log
from scrout.trajectory import FILE_NAME, BilledCall, RefusedCall, read

if TYPE_CHECKING:
    from scrout.observer import StepInput

MAX_TRAJECTORY_BYTES = 20_000_000
"""Longer trajectories are not read: their calls get spans from receipts alone, which only have end times."""
FAILED = frozenset({"endpoint", "crashed", "timeout"})
"""Stops that are an error of an attempt. A cap is not."""
SEARCHER = "searcher"
"""The model searcher, as an agent."""

P = ParamSpec("P")


def _quietly(tell: Callable[P, None]) -> Callable[P, None]:
    """An error in telemetry does not stop the run."""

    @wraps(tell)
    def told(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            tell(*args, **kwargs)
        except Exception as error:
            _log.warning("telemetry: %s in %s; the run goes on", type(error).__name__, tell.__name__)

    return told


@dataclass(frozen=True)
class RunAttributes:
    run_id: str
    task: Task
    batch: str
    arm: str
    sandbox: str
    resumed: bool


@dataclass(frozen=True)
class AgentSpan:
    name: str
    key: str
    """Program, model and effort; empty: it is the searcher."""
    model: str
    base_url: str


@dataclass(frozen=True)
class ToolSpan:
    tool: str
    arguments: Mapping[str, JsonValue]
    answer: str | None
    began_ns: int
    ended_ns: int
    error: str


@dataclass
class StepSpan:
    """Collects the events of the current step until its end."""

    name: str
    place: str
    agent: AgentSpan | None
    """None: no model is used in it."""
    receipts: Sequence[Receipt]
    span: Span
    began_ns: int
    result: BaseModel | None = None
    uses: list[ToolSpan] = field(default_factory=list)

    def gave(self, result: BaseModel) -> None:
        self.result = result

    def used(
        self, tool: str, arguments: Mapping[str, JsonValue], answer: str | None, began_ns: int, error: str
    ) -> None:
        self.uses.append(ToolSpan(tool, arguments, answer, began_ns, time.time_ns(), error))


class Tracing:
    """An observer that traces one run."""

    def __init__(self, out: Exporter, settings: Settings, about: RunAttributes, attempts: Path) -> None:
        self._out = out
        self._settings = settings
        self._about = about
        self._attempts = attempts
        self._censor = Censor(settings)
        self._began_ns = time.time_ns()
        self._over = False
        given: dict[str, Value] = {
            names.RUN: about.run_id,
            names.TASK: self._censor.label(about.task.id),
            names.SANDBOX: about.sandbox,
            names.RESUMED: about.resumed,
        }
        labels = {names.BATCH: about.batch, names.ARM: about.arm}
        given |= {name: self._censor.label(value) for name, value in labels.items() if value}
        self._root = out.begin_trace("scrout.run", given | self._content({names.ISSUE: about.task.text}))

    @contextmanager
    def step(
        self, name: str, inputs: Sequence[StepInput], place: str, receipts: Sequence[Receipt]
    ) -> Iterator[StepSpan]:
        began_ns = time.time_ns()
        span = self._out.span(f"scrout.{name}", self._root, {names.RUN: self._about.run_id}, began_ns=began_ns)
        step = StepSpan(name, place, self._agent(name, inputs), receipts, span, began_ns)
        token = LISTENER.set(step)
        try:
            yield step
        except BaseException as error:
            self._failed(step, error)
            raise
        else:
            self._done(step)
        finally:
            with suppress(ValueError):  # from another context: then there is nothing to reset
                LISTENER.reset(token)

    @_quietly
    def reused(self, name: str) -> None:
        given: dict[str, Value] = {names.RUN: self._about.run_id, names.REUSED: True}
        self._out.span(f"scrout.{name}", self._root, given).end()

    @_quietly
    def closed(self, run: Run) -> None:
        given: dict[str, Value] = {names.OUTCOME: run.outcome, names.ATTEMPTS: len(run.attempts)}
        told: dict[str, Value] = {names.OUTCOME: run.outcome}
        if run.cost_usd is not None:
            given[names.COST] = float(run.cost_usd)
        if run.attempts:
            given[names.FIXER] = told[names.FIXER] = self._censor.label(run.attempts[-1].fixer)
        if run.arm:
            told[names.ARM] = self._censor.label(run.arm)
        if run.outcome == "infrastructure":
            self._fail(self._root, run.outcome)
        self._root.set_attributes(given | self._content({names.PATCH: run.patch}))
        self._end()
        self._out.runs.add(1, told)
        self._out.run_durations.record((time.time_ns() - self._began_ns) / 1e9, told)
        if run.cost_usd is not None:
            self._out.run_costs.record(float(run.cost_usd), told)
        self._out.nudge()

    @_quietly
    def _done(self, step: StepSpan) -> None:
        if step.result is not None:
            found = facts_of(step.result)
            told = {name: self._censor.label(word) for name, word in found.names.items()}
            step.span.set_attributes({**told, **found.facts, **self._content(found.texts)})
        stop = step.result.stop if isinstance(step.result, Attempt | Scouting) else ""
        self._below(step, stop if stop in FAILED else "")
        step.span.end()

    @_quietly
    def _failed(self, step: StepSpan, error: BaseException) -> None:
        """The run ends here, and may continue in another process."""
        kind = type(error).__name__
        self._below(step, kind)
        for span in (step.span, self._root):
            self._fail(span, kind, str(error))
        step.span.end()
        self._root.set_attribute(names.OUTCOME, names.INTERRUPTED)
        self._end()
        self._out.nudge()

    def _end(self) -> None:
        if not self._over:
            self._over = True
            self._out.end_trace(self._root)

    def _below(self, step: StepSpan, error: str) -> None:
        """The events of a step: the agent, its calls, its tools."""
        calls = self._calls(step) if step.receipts or step.agent else {}
        parent = step.span
        if step.agent and (step.name == "fix" or step.receipts or step.uses or calls):
            parent = self._invocation(step, step.agent, error)
        for receipt in step.receipts:
            self._paid(step, parent, receipt, calls.pop(receipt.call, None) if receipt.call else None)
        for refused in calls.values():
            if isinstance(refused, RefusedCall):
                self._refused(step, parent, refused)
        for use in step.uses:
            self._used(parent, use)
        if parent is not step.span:
            parent.end()

    def _calls(self, step: StepSpan) -> dict[int, BilledCall | RefusedCall]:
        """The meter's records of calls, by number."""
        path = self._attempts / step.place / FILE_NAME
        try:
            if path.stat().st_size > MAX_TRAJECTORY_BYTES:
                return {}
            return {line.call: line for line in read(path) if isinstance(line, BilledCall | RefusedCall)}
        except OSError:  # no call was made, or none through the meter
            return {}

    def _invocation(self, step: StepSpan, agent: AgentSpan, error: str) -> Span:
        given: dict[str, Value] = {
            names.OPERATION: names.INVOKE_AGENT,
            names.PROVIDER: provider_of(agent.base_url, ""),
            names.AGENT: self._censor.label(agent.name),
            names.MODEL: self._censor.label(agent.model),
        }
        told = dict(given)
        given |= {names.CONVERSATION: step.place, names.CALLS: len(step.receipts)}
        if agent.key:
            given[names.FIXER_KEY] = self._censor.label(agent.key)
        if (cost_usd := total_usd(receipt.cost_usd for receipt in step.receipts)) is not None:
            given[names.COST] = float(cost_usd)
        span = self._out.span(f"{names.INVOKE_AGENT} {given[names.AGENT]}", step.span, given, began_ns=step.began_ns)
        if error:
            self._fail(span, error)
            told[names.ERROR_TYPE] = error
        self._out.durations.record((time.time_ns() - step.began_ns) / 1e9, told)
        return span

    def _paid(self, step: StepSpan, parent: Span, receipt: Receipt, call: BilledCall | RefusedCall | None) -> None:
        """The span of one receipt, with the known facts about its call."""
        told = self._of_call(step, receipt.model, call.api if call else "")
        ended_ns = _ns(call.at if call else receipt.at)
        began_ns = max(step.began_ns, ended_ns - round(call.seconds * 1e9)) if call else None
        given = told | token_facts(receipt.usage) | {names.CONVERSATION: step.place}
        if receipt.fixer:
            given[names.FIXER] = self._censor.label(receipt.fixer)
        if receipt.cost_usd is not None:
            given[names.COST] = float(receipt.cost_usd)
        if receipt.estimated:
            given[names.ESTIMATED] = True
        error = ""
        if isinstance(call, BilledCall):
            error = error_of(call)
            if call.said.finish:
                given[names.FINISH_REASONS] = (finish_of(call.said.finish),)
            if self._out.content:
                given[names.INPUT_MESSAGES] = self._censor.asked(call.asked)
                given[names.OUTPUT_MESSAGES] = self._censor.said(call.said, finish_of(call.said.finish))
        self._chat(parent, receipt.model, given, told, began_ns, ended_ns, error)
        counted = told | ({names.ESTIMATED: True} if receipt.estimated else {})
        usage = receipt.usage
        self._out.tokens.record(usage.prompt_tokens, counted | {names.TOKEN_TYPE: "input"})
        self._out.tokens.record(usage.output_tokens + usage.reasoning_tokens, counted | {names.TOKEN_TYPE: "output"})

    def _refused(self, step: StepSpan, parent: Span, call: RefusedCall) -> None:
        """A call that cost nothing."""
        model = step.agent.model if step.agent else ""
        told = self._of_call(step, model, call.api)
        given = told | {names.CONVERSATION: step.place}
        if self._out.content:
            given[names.INPUT_MESSAGES] = self._censor.asked(call.asked)
        ended_ns = _ns(call.at)
        began_ns = max(step.began_ns, ended_ns - round(call.seconds * 1e9))
        self._chat(parent, model, given, told, began_ns, ended_ns, str(call.status or NO_ANSWER))

    def _chat(
        self,
        parent: Span,
        model: str,
        given: Attributes,
        told: Attributes,
        began_ns: int | None,
        ended_ns: int,
        error: str,
    ) -> None:
        """`began_ns` None: only the end is known, so there is no duration."""
        start_ns = min(ended_ns, ended_ns if began_ns is None else began_ns)
        name = f"{told[names.OPERATION]} {self._censor.label(model)}"
        span = self._out.span(name, parent, given, kind=SpanKind.CLIENT, began_ns=start_ns)
        if error:
            self._fail(span, error)
        span.end(ended_ns)
        if began_ns is not None:
            failed = {names.ERROR_TYPE: error} if error else {}
            self._out.durations.record((ended_ns - start_ns) / 1e9, {**told, **failed})

    def _used(self, parent: Span, use: ToolSpan) -> None:
        given: dict[str, Value] = {
            names.OPERATION: names.EXECUTE_TOOL,
            names.TOOL: use.tool,
            names.TOOL_TYPE: "function",
        }
        if self._out.content:
            given[names.TOOL_ARGUMENTS] = self._censor.arguments(use.arguments)
            if use.answer is not None:
                given[names.TOOL_RESULT] = self._censor.content(use.answer)
        span = self._out.span(f"{names.EXECUTE_TOOL} {use.tool}", parent, given, began_ns=use.began_ns)
        told: dict[str, Value] = {names.OPERATION: names.EXECUTE_TOOL, names.TOOL: use.tool}
        if use.error:
            self._fail(span, use.error)
            told[names.ERROR_TYPE] = use.error
        ended_ns = max(use.began_ns, use.ended_ns)
        span.end(ended_ns)
        self._out.durations.record((ended_ns - use.began_ns) / 1e9, told)

    def _of_call(self, step: StepSpan, model: str, api: str) -> dict[str, Value]:
        base_url = step.agent.base_url if step.agent else ""
        return {
            names.OPERATION: names.EMBEDDINGS if api == "embeddings" else names.CHAT,
            names.PROVIDER: provider_of(base_url, api),
            names.MODEL: self._censor.label(model),
            **server_of(base_url),
        }

    def _agent(self, stage: str, inputs: Sequence[StepInput]) -> AgentSpan | None:
        searcher = self._settings.scout.model
        if stage == "scout" and self._settings.scout.has_model:
            return AgentSpan(SEARCHER, "", searcher.model, searcher.base_url)
        if stage != "fix":
            return None
        try:
            fixer = self._settings.fixer(next((given for given in inputs if isinstance(given, str)), ""))
        except ConfigError:
            return None
        return AgentSpan(fixer.name, str(fixer.key), fixer.model, fixer.base_url) if fixer.has_model else None

    def _content(self, texts: Mapping[str, str]) -> dict[str, Value]:
        """Texts that are sent only if the user enables it."""
        if not self._out.content:
            return {}
        return {name: self._censor.content(text) for name, text in texts.items() if text}

    def _fail(self, span: Span, kind: str, message: str = "") -> None:
        told = self._censor.content(message) if message and self._out.content else None
        span.set_status(Status(StatusCode.ERROR, told))
        span.set_attribute(names.ERROR_TYPE, kind)


def _ns(at: datetime) -> int:
    return round(at.timestamp() * 1e9)
