"""A step's conversation, turn by turn, from the meter's trajectory.

The trajectory's path is derived from run and step, and never read from a stored value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from pathlib import Path

from pydantic import JsonValue, TypeAdapter, ValidationError

from scrout.base import FrozenModel, LedgerError
from scrout.html import render
from scrout.money import Usage, Usd
from scrout.server.dashboard.page_context import Asked, NotThere, PageContext, number
from scrout.text import excerpt
from scrout.trajectory import FILE_NAME, BilledCall, RefusedCall

PAGE = 20
MAX_TEXT_CHARS = 12_000
MAX_MESSAGES = 30


class TurnMessage(FrozenModel):
    who: str
    text: str


class TurnView(FrozenModel):
    number: int
    asked: tuple[TurnMessage, ...]
    """The new messages."""
    reasoning: str = ""
    text: str = ""
    calls: tuple[TurnMessage, ...] = ()
    """Tool calls with their arguments."""
    error: str = ""
    finish: str = ""
    usage: Usage | None = None
    """None: nothing was billed, or usage was not reported."""
    cost_usd: Usd | None = None
    seconds: float
    at: datetime | None = None


class TurnsView(FrozenModel):
    run: str
    step: int
    name: str
    model: str
    turns: tuple[TurnView, ...]
    first: int
    """Number of turns before them."""
    more: bool


def trajectory(page_context: PageContext, run_id: str, step: int) -> Path | None:
    """The file with a step's conversation; None: none is stored."""
    for root in page_context.attempts:
        path = root / run_id / str(step) / FILE_NAME
        # Follow no symlink: a process that may write there must not choose the file to read.
        if path.is_file() and path.resolve() == root.resolve() / run_id / str(step) / FILE_NAME:
            return path
    return None


def look(page_context: PageContext, asked: Asked) -> TurnsView:
    step = number(asked, "step")
    first = number(asked, "first") or 0
    try:
        run = page_context.ledger.run(asked["run"])
        name = next((one.name for one in page_context.ledger.steps(run.id) if one.id == step), "")
    except LedgerError as error:
        raise NotThere(str(error)) from None
    path = trajectory(page_context, run.id, step or 0)
    if path is None:
        raise NotThere(
            f"no conversation of step {step} of run {run.id} is stored. The step had none, or it was pruned."
        )
    turns = list(islice(_turns(path, first), PAGE + 1))
    model = _model(path)
    return TurnsView(
        run=run.id,
        step=step or 0,
        name=name,
        model=model,
        turns=tuple(turns[:PAGE]),
        first=first,
        more=len(turns) > PAGE,
    )


def show(view: TurnsView) -> str:
    return render("dashboard/turns.html", view=view, page=PAGE)


def _turns(path: Path, first: int) -> Iterator[TurnView]:
    at = 0
    with path.open("rb") as file:
        for raw in file:
            # The writer puts the kind first; lines of earlier pages need not be parsed further.
            if not raw.startswith((b'{"kind": "call"', b'{"kind": "refused"')):
                continue
            at += 1
            if at <= first:
                continue
            try:
                line = _CALL.validate_json(raw)
            except ValidationError:
                continue
            asked = tuple(_message(one) for one in line.asked.new[:MAX_MESSAGES])
            if isinstance(line, RefusedCall):
                error = excerpt(line.error, MAX_TEXT_CHARS)
                yield TurnView(number=at, asked=asked, error=error, seconds=line.seconds, at=line.at)
                continue
            said = line.said
            yield TurnView(
                number=at,
                asked=asked,
                reasoning=excerpt(said.reasoning, MAX_TEXT_CHARS),
                text=excerpt(said.text, MAX_TEXT_CHARS),
                calls=tuple(_call(call) for call in said.calls[:MAX_MESSAGES]),
                error=excerpt(said.error, MAX_TEXT_CHARS),
                finish=said.finish[:100],
                usage=line.receipt.usage,
                cost_usd=line.receipt.cost_usd,
                seconds=line.seconds,
                at=line.at,
            )


_CALL: TypeAdapter[BilledCall | RefusedCall] = TypeAdapter(BilledCall | RefusedCall)


def _model(path: Path) -> str:
    with path.open("rb") as file:
        try:
            header = json.loads(file.readline())
            return str(header.get("model", ""))[:200]
        except (ValueError, AttributeError):
            return ""


def _message(entry: JsonValue) -> TurnMessage:
    """One message of a conversation, for any API."""
    if not isinstance(entry, dict):
        return TurnMessage(who="", text=excerpt(_plain(entry), MAX_TEXT_CHARS))
    who = entry.get("role") or entry.get("type") or ""
    rest = {key: value for key, value in entry.items() if key != "role"}
    content = rest.pop("content", None)
    texts = [_plain(content)] if content else []
    left = {key: value for key, value in rest.items() if value and key not in ("type", "tool_call_id", "id")}
    texts += [json.dumps(left, indent=1, ensure_ascii=False)] if left else []
    return TurnMessage(who=str(who)[:60], text=excerpt("\n".join(texts), MAX_TEXT_CHARS))


def _plain(content: JsonValue) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(_part(part) for part in content)
    return json.dumps(content, indent=1, ensure_ascii=False)


def _part(part: JsonValue) -> str:
    if isinstance(part, dict):
        inner = part.get("text") or part.get("content")
        if isinstance(inner, str | list):
            return _plain(inner)
    return _plain(part) if not isinstance(part, list) else json.dumps(part, ensure_ascii=False)


def _call(call: dict[str, JsonValue]) -> TurnMessage:
    text = excerpt(_arguments(call.get("arguments", "")), MAX_TEXT_CHARS)
    return TurnMessage(who=str(call.get("name") or "tool")[:100], text=text)


def _arguments(given: JsonValue) -> str:
    """Readable arguments: a single value alone, several by name."""
    try:
        values = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        values = given
    if not isinstance(values, dict) or not values:
        return given if isinstance(given, str) else json.dumps(given, indent=1, ensure_ascii=False)
    texts = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in values.items()
    }
    if len(texts) == 1:
        return next(iter(texts.values()))
    return "\n".join(f"{name}:\n{text}" if "\n" in text else f"{name}: {text}" for name, text in texts.items())
