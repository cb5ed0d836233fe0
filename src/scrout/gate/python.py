"""The locus rule for Python: whether a failure was caused by the repository's behaviour or by the claim's own code."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Literal

from scrout.gate.dataflow import classes
from scrout.gate.doctests import judge_examples, read_examples
from scrout.gate.execution_trace import WatchedRun
from scrout.gate.observation import MISUSE, misuse, reported, unreported_refusal
from scrout.gate.replay_context import Classification, ReplayContext, exceptions, last_line, together
from scrout.gate.sources import deciding_word
from scrout.sandbox.replay import ExecutionTrace, Raised, Replay
from scrout.sandbox.reports import Frame, Traceback, read_tracebacks
from scrout.sandbox.suite import is_test_file
from scrout.syntax import parse_python

_SUCCESS = ("", "0", "None")
_ASSERTIONS = ("AssertionError", "Failed")
_CHAIN = re.compile(
    r"^.*(?:The above exception was the direct cause|During handling of the above exception, another).*$",
    re.M,
)
_DIRECT = "was the direct cause"
DOOR_FRAMES = 2
"""The function that a claim calls, and one that it hands its arguments on to."""
_MOCK = "unittest/mock.py"
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{4,16}\b")
_TEST = re.compile(r"^(?:={70}|_{3,} .+ _{3,})$", re.MULTILINE)


def read_failures(output: str) -> list[list[Traceback]]:
    """What ended the command, or each failed test: an exception last, what it was raised from before it."""
    found = []
    for block in _TEST.split(output):
        links = [read_tracebacks(part)[-1:] for part in _CHAIN.split(block)]
        chain = [traceback for link in links for traceback in link if traceback.frames]
        if chain:
            found.append(chain)
    return found


def failure_places(output: str, replay_context: ReplayContext) -> list[str]:
    """What ended the command, or each failed test, by type and place."""
    ends = [(chain[-1].type, chain[-1].frames[-1]) for chain in read_failures(output)]
    # Where the stack ends depends on what else is on it. Compiled text may be named after the object that it is in.
    return [
        kind
        if kind == "RecursionError"
        else f"{kind} {_ADDRESS.sub('0x', replay_context.relative(frame.path))}:{frame.line}"
        for kind, frame in ends
    ]


def is_headless(chain: Sequence[Traceback], replay_context: ReplayContext) -> bool:
    """Whether all that is left of a traceback is where a parser stopped in a text that is no file."""
    frames = [frame for traceback in chain for frame in traceback.frames]
    first = frames[0]
    return (
        len(frames) == 1 and not first.function and first.path[:1] == "<" and not replay_context.sources.of(first.path)
    )


def _calls_itself(last: Traceback, replay_context: ReplayContext) -> bool:
    """Whether a line of a function of the claim's own is on the stack more than once."""
    frames = [frame for frame in last.frames if not replay_context.is_repository_code(frame.path)]
    own = [(frame.path, frame.line, frame.function) for frame in frames]
    return len(own) > len(set(own))


def cut_off(run: Replay, replay_context: ReplayContext) -> list[list[Traceback]]:
    """Tracebacks that a pipe or a redirection hides, put together again from what the witness saw.

    They count if an exception left the claim's own code: a script, or a test that a runner called.
    """
    if not isinstance(run, WatchedRun) or run.execution_trace is None or run.exit_code == 0:
        return []
    left = {(event.type, event.message): event for event in run.escaped if event.type != "SystemExit"}
    chains = []
    for events in exceptions(run.execution_trace.raised):
        first = events[0]
        last = left.get((first.type, first.message))
        if last in events and not replay_context.is_repository_code(last.path):
            # Whoever shows the objects around may meet the same again.
            passed = events[: len(events) - events[::-1].index(last)]
            frames = tuple(Frame(event.path, event.line, event.function) for event in reversed(passed))
            chains.append([Traceback(frames, first.type, first.message)])
    return chains


def inner_failure(run: Replay, replay_context: ReplayContext) -> tuple[Classification, list[tuple[str, str]]] | None:
    """What the exceptions show that ended programs of a command, and which they are; None: there are none."""
    chains = [chain for chain in cut_off(run, replay_context) if chain[-1].type != "CalledProcessError"]
    if not chains:
        return None
    ran = exercised(run, replay_context)
    found = together([_traced(chain, ran, run, replay_context) for chain in chains])
    return found, [(chain[-1].type, chain[-1].message) for chain in chains]


def caught_and_printed(run: Replay, replay_context: ReplayContext) -> Classification | None:
    """A script that catches and prints the reported error did reproduce it, if the error left the repository."""
    execution_trace = run.execution_trace or ExecutionTrace({}, ())
    for event in execution_trace.raised:
        told = reported(event.type, event.message, replay_context.issue)
        if told and replay_context.is_repository_code(event.path) and _printed(event, run, replay_context):
            return Classification(
                "reproduced_exit_zero", f"{event.type} from {event.path}:{event.line} was caught and printed"
            )
    return None


def _printed(event: Raised, run: Replay, replay_context: ReplayContext) -> bool:
    """Whether the claim's own code got the exception and showed it."""
    execution_trace = run.execution_trace or ExecutionTrace({}, ())
    if any(not replay_context.is_repository_code(path) for path in execution_trace.lines):
        # Its script was watched: an exception that never got there was handled by the repository, as it should be.
        escaped = any(
            (other.type, other.message) == (event.type, event.message)
            and not replay_context.is_repository_code(other.path)
            for other in execution_trace.raised
        )
        return escaped and (event.type in run.output or bool(event.message and event.message in run.output))
    tracebacks = read_tracebacks(run.output)
    return any(
        (traceback.type, traceback.message) == (event.type, event.message)
        and any(replay_context.relative(frame.path) == event.path for frame in traceback.frames)
        for traceback in tracebacks
    )


def failure(run: Replay, failures: list[list[Traceback]], replay_context: ReplayContext) -> Classification:
    """The locus rule: a failure counts if the repository's behaviour caused it, not a mistake of the script."""
    word = deciding_word(run.command)
    if word:
        reason = f"the exit code {run.exit_code} may be that of `{word}` in the command itself"
        return Classification("nonzero_other", reason, trial="may pass")
    ran = exercised(run, replay_context)
    if examples := read_examples(run.output):
        return judge_examples(examples, ran, run, replay_context)
    # What a group holds was caught, each of it, and raised again together.
    if not failures or (replay_context.caught(failures[-1][-1]) and "Exception Group Traceback" not in run.output):
        return _bare_exit(run, ran, replay_context)
    return together([_traced(chain, ran, run, replay_context) for chain in failures])


def _traced(chain: Sequence[Traceback], ran: bool, run: Replay, replay_context: ReplayContext) -> Classification:
    last = chain[-1]
    what = f"{last.type}: {last.message}".rstrip(": ")[:300]
    frame = replay_context.locus(last)
    if frame is not None and replay_context.is_repository_code(frame.path):
        if last.type == "RecursionError" and _calls_itself(last, replay_context):
            return Classification("own_error", f"{what}: the reproduction's own code calls itself")
        # Of a stack that is too deep the witness keeps the outer end.
        deep = [
            one for one in last.frames if last.type == "RecursionError" and replay_context.is_repository_code(one.path)
        ]
        if not any(_witnessed(last.type, one, run.execution_trace, replay_context) for one in (frame, *deep)):
            return Classification("nonzero_other", f"{what} was printed, but the repository was not seen to raise it")
        if _is_stand_ins(last, frame, replay_context):
            return Classification("own_error", f"{what}, raised by what the reproduction gave to the repository")
        if last.type == "KeyboardInterrupt" and not replay_context.refuses(frame.path, frame.line):
            return Classification("killed", "it was interrupted from outside of the repository's code")
        if _refused(last, frame, replay_context):
            return Classification(
                "unrelated_failure", f"{what}: the repository refused, and the issue does not tell of it"
            )
        if misuse(last.type, last.message, replay_context):
            return Classification(
                "unrelated_failure",
                f"{what}, which neither the issue nor the scout mentions: likely an argument of the wrong type",
            )
        return Classification(
            "real_failure", f"{what}, raised in the repository's {replay_context.relative(frame.path)}:{frame.line}"
        )
    on_purpose = frame is not None and replay_context.raises(frame.path, frame.line, last.type)
    first = replay_context.locus(chain[0])
    theirs = first is not None and replay_context.is_repository_code(first.path)
    if (
        first
        and theirs
        and (on_purpose or _DIRECT in run.output)
        and _witnessed(chain[0].type, first, run.execution_trace, replay_context)
    ):
        where = f"{replay_context.relative(first.path)}:{first.line}"
        if _refused(chain[0], first, replay_context):
            return Classification(
                "unrelated_failure", f"{what}: the repository refused at {where}, of which no issue tells"
            )
        return Classification("real_failure", f"{what}, raised from {chain[0].type} of the repository's {where}")
    decided = frame is not None and _decided(last, frame, replay_context)
    if not (on_purpose or last.type in _ASSERTIONS):
        quoted = last.message and f"{last.type}: {last.message}" in " ".join(replay_context.issue.split())
        if quoted and decided and ran:
            # No other result helps where a class cannot do what the issue wants of it.
            kinds = [name for name in re.findall(r"'(\w+)'", last.message) if name != "NoneType"]
            of_class = last.type in MISUSE and any(not hasattr(builtins, name) for name in kinds)
            trial: Literal["", "must pass"] = "" if of_class else "must pass"
            return Classification("real_failure", f"{what}, as the issue reports", trial=trial)
        return Classification(
            "own_error", f"{what}, raised by the reproduction's own code", trial="may pass" if ran else ""
        )
    if not ran:
        return Classification("unrelated_failure", f"{what}, but no function of the repository ran")
    if not decided:
        reason = f"{what}, which does not depend on a result of the repository"
        return Classification("unrelated_failure", reason, trial="may pass")
    if frame is None or not _witnessed(last.type, frame, run.execution_trace, replay_context):
        return Classification("nonzero_other", f"{what} was printed, but was not seen to happen")
    if replay_context.is_vague(frame.path, frame.line):
        return Classification("unrelated_failure", f"{what}, about a function that the issue does not name")
    return Classification("real_failure", f"{what}, about a result of repository code", trial="must pass")


def _decided(last: Traceback, frame: Frame, replay_context: ReplayContext) -> bool:
    """Whether a result of the repository decided the failure there, or went into a check in another file."""
    if replay_context.depends(frame.path, frame.line):
        return True
    own = [one for one in last.frames if replay_context.sources.of(replay_context.relative(one.path))]
    caller = own[own.index(frame) - 1] if frame in own[1:] else frame
    return caller.path != frame.path and replay_context.depends(caller.path, caller.line)


def _is_stand_ins(last: Traceback, locus: Frame, replay_context: ReplayContext) -> bool:
    """Whether an exception comes from an object of the claim's that the repository used: a mock, or its own type."""
    called = last.frames[last.frames.index(locus) + 1 :]
    if any(frame.path.endswith(_MOCK) for frame in called):
        return True
    own = {name for text in replay_context.sources.all for name in classes(text)}
    return last.type in own and not replay_context.refuses(locus.path, locus.line)


def _refused(raised: Traceback, locus: Frame, replay_context: ReplayContext) -> bool:
    """Whether the repository said no to what the claim did, which is no bug unless the issue is about it.

    It says so by a raise of its own, or where its outermost functions cannot handle what they were given.
    """
    own = [
        number
        for number, frame in enumerate(raised.frames)
        if replay_context.sources.of(replay_context.relative(frame.path))
    ]
    theirs = [
        frame for frame in raised.frames[own[-1] + 1 if own else 0 :] if replay_context.is_repository_code(frame.path)
    ]
    at_the_door = raised.type in MISUSE and len(theirs) <= DOOR_FRAMES
    if not own or not (at_the_door or replay_context.refuses(locus.path, locus.line)):
        return False
    caller = raised.frames[own[-1]]
    names = {*replay_context.called(caller.path, caller.line), *(frame.function for frame in theirs)}
    return unreported_refusal(raised.type, raised.message, names, replay_context)


def _witnessed(kind: str, frame: Frame, execution_trace: ExecutionTrace | None, replay_context: ReplayContext) -> bool:
    """Anybody can print a traceback; the witness saw whether it happened."""
    raised = execution_trace.raised if execution_trace else ()
    path = replay_context.relative(frame.path)
    return any(event.type == kind and (event.path == path or event.path.endswith(f"/{path}")) for event in raised)


def _bare_exit(run: Replay, ran: bool, replay_context: ReplayContext) -> Classification:
    """An exit code without a traceback counts if a result of the repository decided it."""
    reason = f"exit code {run.exit_code} without a failure that can be read"
    unknown = Classification("nonzero_other", reason, trial="may pass")
    if run.execution_trace is None or not ran:
        return unknown
    exits = [
        event for event in run.execution_trace.raised if event.type == "SystemExit" and event.message not in _SUCCESS
    ]
    if exits and replay_context.is_repository_code(exits[0].path):
        said = last_line(run.output)
        if len(said) >= 8 and said in replay_context.issue:
            return Classification("real_failure", f"exit code {run.exit_code} with the message that the issue reports")
        return Classification(
            "nonzero_other", f"the repository's program refused with exit code {run.exit_code}: {said}"
        )
    if not exits:
        return unknown  # the script was not seen to exit so: the shell around it may have
    if not replay_context.depends(exits[0].path, exits[0].line):
        reason = f"exit code {run.exit_code} does not depend on a result of the repository"
        return Classification("unrelated_failure", reason, trial="may pass")
    if shown := caught_and_printed(run, replay_context):
        return Classification("real_failure", f"exit code {run.exit_code}: {shown.reason}")
    reason = f"exit code {run.exit_code}, decided by a result of repository code"
    return Classification("real_failure", reason, trial="must pass")


def exercised(run: Replay, replay_context: ReplayContext) -> bool:
    """Whether a function of the repository ran; importing runs only top levels, and test helpers prove nothing."""
    for path, lines in run.execution_trace.lines.items() if run.execution_trace else ():
        if is_test_file(path) or PurePosixPath(path).name == "conftest.py":
            continue
        content = replay_context.base.read(path) if replay_context.is_repository_code(path) else None
        if content is not None and lines & _function_lines(content):
            return True
    return False


def _function_lines(content: bytes) -> frozenset[int]:
    try:
        tree = parse_python(content)
    except (SyntaxError, ValueError):
        return frozenset()
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines.update(range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1))
    return frozenset(lines)
