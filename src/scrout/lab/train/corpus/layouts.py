"""Reads what agents leave behind: OpenHands (messages, or events), SWE-agent, SWE-smith, nebius, mini-SWE-agent, and
recon as a teacher.

What a document is shows in its keys. A reader gives a trajectory, or says why there is none; it judges nothing.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from scrout.agent.dialect import ToolUse
from scrout.agent.dialects.xml import Xml
from scrout.lab.train.corpus.commands import END, Said, called, commanded
from scrout.lab.train.corpus.streams import UnreadableDocument
from scrout.lab.train.corpus.trajectory import LAYOUT, AgentStep, AgentTrajectory, DistilledEpisode, issue_of

Document = Mapping[str, Any]
BROKEN = (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError)
"""What comes of values that are not what a layout has in their place."""

_ISSUE = re.compile(r"<(pr_description|issue_description|issue)>")
_ISSUE_HEAD = re.compile(r"(?:^|\n)ISSUE:\s*\n")
_ROOT = re.compile(
    r"<uploaded_files>\s*+(?P<path>/[^\s<]++)\s*+</uploaded_files>|\(Current directory: (?P<at>/[^)\s]+)\)"
)
_FENCED = re.compile(r"```(?:bash|sh|mswea_bash_command)?[ \t]*\n(?P<command>.*?)\n?```", re.S)
_NAMES = ("instance_id", "id", "traj_id", "repo", "repository", "repo_name", "environment", "image_name")
_EVENTS = {"run": "bash", "edit": "str_replace_editor"}
"""OpenHands' actions that go by other names than its tools."""
_NAME = re.compile(r"[\w.-]+")
_OWNER = re.compile(r"(?:(?<=[/_])|\A)[A-Za-z0-9][A-Za-z0-9.-]*+__")
# What SWE-agent puts behind each answer.
_PROMPT_START = "(Open file: "
_PROMPT = re.compile(r"\(Open file: [^\n]*\)\s*\n\(Current directory: [^\n]*\)\s*\n?bash-\$\s*\Z")


def read(document: Document, where: str) -> AgentTrajectory | UnreadableDocument:
    for layout, (is_it, reader) in LAYOUTS.items():
        if is_it(document):
            try:
                return reader(document, layout, where)
            except BROKEN as error:
                return UnreadableDocument(f"broken {layout}: {type(error).__name__}")
    return UnreadableDocument("no known layout")


def _scrout(document: Document, layout: str, where: str) -> AgentTrajectory | UnreadableDocument:
    """What `scrout train distill` wrote, in our own words already."""
    taught = DistilledEpisode.model_validate(document)
    return AgentTrajectory(
        issue_id=taught.issue_id,
        repository=taught.repository,
        names=(taught.issue_id, taught.repository),
        issue=taught.issue,
        root=taught.root,
        steps=tuple(AgentStep(act.thought, ToolUse(act.tool, act.arguments), act.observation) for act in taught.steps),
        patch=taught.gold.patch,
        resolved=None,
        layout=layout,
        where=where,
        gold=taught.gold.files,
    )


def _openhands_events(document: Document, layout: str, where: str) -> AgentTrajectory | UnreadableDocument:
    history = [event for one in document["history"] for event in (one if isinstance(one, list) else [one])]
    answers = {event.get("cause"): str(event.get("content", "")) for event in history if "observation" in event}
    steps: list[AgentStep] = []
    for event in history:
        if event.get("source") != "agent" or "action" not in event:
            continue
        args = event.get("args") or {}
        said = called(_EVENTS.get(event["action"], event["action"]), args)
        if said is END:
            break
        if isinstance(said, ToolUse):
            thought, answer = str(args.get("thought") or "").strip(), answers.get(event["id"])
            steps.append(AgentStep(thought, said, answer or "", answered=answer is not None))
    opening = str(document.get("instruction") or "")
    issue = str((document.get("instance") or {}).get("problem_statement") or "") or _issue([opening])
    return _trajectory(document, layout, where, issue, _root([opening]), steps)


def _sweagent(document: Document, layout: str, where: str) -> AgentTrajectory | UnreadableDocument:
    history = [one for one in document.get("history") or () if not one.get("is_demo")]
    if any(one.get("tool_calls") for one in history):
        return _messages({**document, "messages": history}, layout, where)
    turns_read = ((one.get("thought") or "", one["action"], one.get("observation")) for one in document["trajectory"])
    steps = list(_pairs(turns_read))
    openings = [_text(one) for one in history[:4]]
    root = next((str(_state(one).get("working_dir") or "") for one in document["trajectory"]), "")
    return _trajectory(document, layout, where, _issue(openings), root or _root(openings), steps)


def _nebius(document: Document, layout: str, where: str) -> AgentTrajectory | UnreadableDocument:
    turns = document["trajectory"]
    texts = [str(one.get("text") or "") for one in turns]
    turns_read = []
    for number, one in enumerate(turns):
        if one["role"] == "ai":
            thought, command = _split(texts[number])
            turns_read.append((thought, command, texts[number + 1] if _follows(turns, number, "user") else None))
    return _trajectory(document, layout, where, _issue(texts), _root(texts), list(_pairs(turns_read)))


def _messages(document: Document, layout: str, where: str) -> AgentTrajectory | UnreadableDocument:
    messages = document["messages"]
    texts = [_text(one) for one in messages]
    steps: list[AgentStep] = []
    for number, one in enumerate(messages):
        if one["role"] != "assistant":
            continue
        said = list(_said(one, texts[number]))
        if END in said:
            break
        thought = _thought(texts[number])
        for call, answer in zip(said, _answers(one, messages, texts, number), strict=False):
            if isinstance(call, ToolUse):
                steps.append(AgentStep(thought, call, answer or "", answered=answer is not None))
                thought = ""
    openings = texts[:4]
    return _trajectory(document, layout, where, _issue(openings), _root(openings), steps)


def _said(message: Document, text: str) -> Iterator[Said]:
    """What an assistant's message wants done: in calls, in tags, or in a fenced block."""
    if message.get("tool_calls"):
        for call in message["tool_calls"]:
            given = call["function"]["arguments"]
            arguments = json.loads(given) if isinstance(given, str) else given
            yield called(call["function"]["name"], arguments)
        return
    turn = Xml().read(text)
    if turn.calls:
        yield from (called(call.name, dict(call.arguments)) for call in turn.calls)
    elif "<function=submit>" in text or "<function=finish>" in text:
        yield END
    elif command := _split(text)[1]:
        yield commanded(command)


def _answers(
    message: Document, messages: Sequence[Document], texts: Sequence[str], number: int
) -> Iterator[str | None]:
    """The result of each call of a message, by its id where it has one, else in order; None: there is none.

    Of calls in the text, the first alone was run.
    """
    until = next((at for at in range(number + 1, len(messages)) if messages[at]["role"] == "assistant"), len(messages))
    found = [
        (messages[at].get("tool_call_id"), _without_prompt(texts[at].removeprefix("OBSERVATION:\n")))
        for at in range(number + 1, until)
    ]
    calls: Sequence[Document] = message.get("tool_calls") or ({},)
    named = {name: text for name, text in found if name}
    for at, call in enumerate(calls):
        if named and call.get("id"):
            yield named.get(call["id"])
        else:
            yield found[at][1] if at < len(found) else None


def _follows(turns: Sequence[Document], number: int, role: str) -> bool:
    return number + 1 < len(turns) and turns[number + 1].get("role") == role


def _pairs(turns_read: Iterable[tuple[str, str, str | None]]) -> Iterator[AgentStep]:
    """Steps of an agent that types commands of its own, as far as it got."""
    for thought, command, answer in turns_read:
        said = commanded(command)
        if said is END:
            return
        if isinstance(said, ToolUse):
            yield AgentStep(thought.strip(), said, _without_prompt(answer or ""), answered=answer is not None)


def _trajectory(
    document: Document, layout: str, where: str, issue: str, root: str, steps: Sequence[AgentStep]
) -> AgentTrajectory | UnreadableDocument:
    names = (document.get("instance_id"), _replayed_name(document), document.get("environment"), where)
    name = next((found for one in names if isinstance(one, str) and (found := _id_in(one))), "")
    if not name:
        return UnreadableDocument("no id of its issue")
    if not issue.strip():
        return UnreadableDocument("no text of its issue")
    if not steps:
        return UnreadableDocument("no step that can be read")
    issue_id, repository = issue_of(name)
    given = document.get("instance")
    instance: Document = given if isinstance(given, Mapping) else {}
    called = (part.get(key) for part in (document, instance) for key in _NAMES)
    named = instance.get("repo")
    repository = named if isinstance(named, str) and named.count("/") == 1 else repository
    return AgentTrajectory(
        issue_id=issue_id,
        repository=repository,
        # Many agents work in a folder that is named for the repository.
        names=tuple(
            dict.fromkeys(
                one for one in (*called, name, posixpath.basename(root.rstrip("/"))) if isinstance(one, str) and one
            )
        ),
        issue=issue.strip(),
        root=root.rstrip("/"),
        steps=tuple(steps),
        patch=_patch(document).replace("\r\n", "\n"),
        resolved=_resolved(document),
        layout=layout,
        where=where,
    )


def _replayed_name(document: Document) -> str:
    replayed = document.get("replay_config")
    replayed = json.loads(replayed) if isinstance(replayed, str) else replayed or {}
    return str((replayed.get("agent") or {}).get("name") or "")


def _patch(document: Document) -> str:
    for part in (document.get("test_result"), document, document.get("info")):
        if isinstance(part, dict):
            for key in ("git_patch", "generated_patch", "patch", "submission"):
                if isinstance(part.get(key), str) and part[key].strip():
                    return str(part[key])
    return ""


def _resolved(document: Document) -> bool | None:
    report = (document.get("test_result") or {}).get("report") or document.get("report") or {}
    for value in (document.get("resolved"), document.get("target"), report.get("resolved")):
        if isinstance(value, bool):
            return value
    return None


def _text(message: Document) -> str:
    content = message.get("content")
    if isinstance(content, list):
        content = "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")


def _thought(text: str) -> str:
    """What is said besides the call."""
    turn = Xml().read(text)
    return turn.text.strip() if turn.calls else _split(text)[0]


def _split(text: str) -> tuple[str, str]:
    """What is said, and the command in the last fenced block; empty: there is none."""
    blocks = list(_FENCED.finditer(text))
    return (text[: blocks[-1].start()].strip(), blocks[-1]["command"]) if blocks else (text.strip(), "")


def _id_in(text: str) -> str:
    """The id of an issue, also in the name of a file; empty: there is none."""
    for name in _NAME.finditer(text):
        owner = _OWNER.search(text, name.start(), name.end())
        if owner is None:
            continue
        last = name.end() if name.end() == len(text) else -1
        suffix = text.find(".traj", owner.end() + 1, name.end())
        if (end := suffix if suffix >= 0 else last) > owner.end():
            return text[owner.start() : end]
    return ""


def _without_prompt(text: str) -> str:
    line = text.rfind("\n", 0, max(0, text.rfind(_PROMPT_START))) + 1
    start = text.find(_PROMPT_START, line)
    return text[:start].rstrip() if start >= 0 and _PROMPT.match(text, start) else text


def _stated(text: str) -> str | None:
    """The issue in an opening, by the tags or headings around it; None: there are none."""
    unended: set[str] = set()
    for tag in _ISSUE.finditer(text):
        end = -1 if tag[1] in unended else text.find(f"</{tag[1]}>", tag.end())
        if end >= 0:
            return text[tag.end() : end].strip()
        unended.add(tag[1])
    head = _ISSUE_HEAD.search(text)
    end = text.find("\nINSTRUCTIONS:", head.end()) if head else -1
    return text[head.end() : end].rstrip("\n") if head and end >= 0 else None


def _issue(texts: Iterable[str]) -> str:
    return next((issue for text in texts if (issue := _stated(text)) is not None), "")


def _root(texts: Iterable[str]) -> str:
    found = next((match for text in texts if (match := _ROOT.search(text))), None)
    return (found["path"] or found["at"]) if found else ""


def _state(step: Document) -> Document:
    state = step.get("state") or {}
    return json.loads(state) if isinstance(state, str) else state


def _first(document: Document, key: str) -> Document:
    rows = document.get(key)
    return rows[0] if isinstance(rows, list) and rows and isinstance(rows[0], dict) else {}


Reader = Callable[[Document, str, str], AgentTrajectory | UnreadableDocument]
LAYOUTS: dict[str, tuple[Callable[[Document], bool], Reader]] = {
    LAYOUT: (lambda one: one.get("layout") == LAYOUT, _scrout),
    "openhands events": (lambda one: bool(_first(one, "history").keys() & {"action", "source"}), _openhands_events),
    "swe-agent": (lambda one: "action" in _first(one, "trajectory"), _sweagent),
    "nebius": (lambda one: {"role", "text"} <= _first(one, "trajectory").keys(), _nebius),
    "mini-swe-agent": (
        lambda one: "messages" in one and "mini" in str(one.get("trajectory_format", "")) + str(one.get("info", "")),
        _messages,
    ),
    "swe-smith": (lambda one: "messages" in one and "traj_id" in one, _messages),
    "openhands messages": (lambda one: "role" in _first(one, "messages"), _messages),
}
"""How a layout is recognized, the surest first, and its reader."""
