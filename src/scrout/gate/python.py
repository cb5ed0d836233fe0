"""The locus rule for Python: whether a failure was caused by the repository's behaviour or by the claim's own code."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from scrout.gate.agree import MISUSE, misuse, reported, unreported_refusal
from scrout.gate.doctests import judge_examples, read_examples
from scrout.gate.observe import Observed
from scrout.gate.scene import Finding, Scene, exceptions, last_line
from scrout.gate.sources import deciding_word
from scrout.sandbox.replay import Raised, Replay, Witness
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


def cut_off(run: Replay, scene: Scene) -> list[list[Traceback]]:
    """Tracebacks that a pipe or a redirection hides, put together again from what the witness saw.

    They count if an exception left the claim's own code: a script, or a test that a runner called.
    """
    if not isinstance(run, Observed) or run.witness is None or run.exit_code == 0:
        return []
    left = {(event.type, event.message): event for event in run.escaped if event.type != "SystemExit"}
    chains = []
    for events in exceptions(run.witness.raised):
        first, last = events[0], events[-1]
        if left.get((first.type, first.message)) == last and not scene.is_repository_code(last.path):
            frames = tuple(Frame(event.path, event.line, event.function) for event in reversed(events))
            chains.append([Traceback(frames, first.type, first.message)])
    return chains


def caught_and_printed(run: Replay, scene: Scene) -> Finding | None:
    """A script that catches and prints the reported error did reproduce it, if the error left the repository."""
    witness = run.witness or Witness({}, ())
    for event in witness.raised:
        told = reported(event.type, event.message, scene.issue)
        if told and scene.is_repository_code(event.path) and _printed(event, run, scene):
            return Finding(
                "reproduced_exit_zero", f"{event.type} from {event.path}:{event.line} was caught and printed"
            )
    return None


def _printed(event: Raised, run: Replay, scene: Scene) -> bool:
    """Whether the claim's own code got the exception and showed it."""
    witness = run.witness or Witness({}, ())
    if any(not scene.is_repository_code(path) for path in witness.lines):
        # Its script was watched: an exception that never got there was handled by the repository, as it should be.
        escaped = any(
            (other.type, other.message) == (event.type, event.message) and not scene.is_repository_code(other.path)
            for other in witness.raised
        )
        return escaped and (event.type in run.output or bool(event.message and event.message in run.output))
    tracebacks = read_tracebacks(run.output)
    return any(
        (traceback.type, traceback.message) == (event.type, event.message)
        and any(scene.relative(frame.path) == event.path for frame in traceback.frames)
        for traceback in tracebacks
    )


def failure(run: Replay, failures: list[list[Traceback]], scene: Scene) -> Finding:
    """The locus rule: a failure counts if the repository's behaviour caused it, not a mistake of the script."""
    word = deciding_word(run.command)
    if word:
        return Finding("nonzero_other", f"the exit code {run.exit_code} may be that of `{word}` in the command itself")
    ran = exercised(run, scene)
    if examples := read_examples(run.output):
        return judge_examples(examples, ran, run, scene)
    # What a group holds was caught, each of it, and raised again together.
    if not failures or (scene.caught(failures[-1][-1]) and "Exception Group Traceback" not in run.output):
        return _bare_exit(run, ran, scene)
    # A test that fails by its own mistake would still fail after the right patch: one of them spoils the claim.
    findings = [_traced(chain, ran, run, scene) for chain in failures]
    return next((finding for finding in findings if finding.verdict != "real_failure"), findings[0])


def _traced(chain: Sequence[Traceback], ran: bool, run: Replay, scene: Scene) -> Finding:
    last = chain[-1]
    what = f"{last.type}: {last.message}".rstrip(": ")[:300]
    frame = scene.locus(last)
    if frame is not None and scene.is_repository_code(frame.path):
        if not _witnessed(last.type, frame, run.witness, scene):
            return Finding("nonzero_other", f"{what} was printed, but the repository was not seen to raise it")
        if last.type == "KeyboardInterrupt" and not scene.refuses(frame.path, frame.line):
            return Finding("killed", "it was interrupted from outside of the repository's code")
        if _refused(last, frame, scene):
            return Finding("unrelated_failure", f"{what}: the repository refused, and the issue does not tell of it")
        if misuse(last.type, last.message, scene):
            return Finding(
                "unrelated_failure",
                f"{what}, which neither the issue nor the scout mentions: likely an argument of the wrong type",
            )
        return Finding("real_failure", f"{what}, raised in the repository's {scene.relative(frame.path)}:{frame.line}")
    on_purpose = frame is not None and scene.raises(frame.path, frame.line, last.type)
    first = scene.locus(chain[0])
    theirs = first is not None and scene.is_repository_code(first.path)
    if (
        first
        and theirs
        and (on_purpose or _DIRECT in run.output)
        and _witnessed(chain[0].type, first, run.witness, scene)
    ):
        where = f"{scene.relative(first.path)}:{first.line}"
        if _refused(chain[0], first, scene):
            return Finding("unrelated_failure", f"{what}: the repository refused at {where}, of which no issue tells")
        return Finding("real_failure", f"{what}, raised from {chain[0].type} of the repository's {where}")
    decided = frame is not None and scene.depends(frame.path, frame.line)
    if not (on_purpose or last.type in _ASSERTIONS):
        quoted = last.message and f"{last.type}: {last.message}" in " ".join(scene.issue.split())
        if quoted and decided and ran:
            return Finding("real_failure", f"{what}, as the issue reports")
        return Finding("own_error", f"{what}, raised by the reproduction's own code")
    if not ran:
        return Finding("unrelated_failure", f"{what}, but no function of the repository ran")
    if not decided:
        return Finding("unrelated_failure", f"{what}, which does not depend on a result of the repository")
    if frame is None or not _witnessed(last.type, frame, run.witness, scene):
        return Finding("nonzero_other", f"{what} was printed, but was not seen to happen")
    if scene.is_vague(frame.path, frame.line):
        return Finding("unrelated_failure", f"{what}, about a function that the issue does not name")
    return Finding("real_failure", f"{what}, about a result of repository code")


def _refused(raised: Traceback, locus: Frame, scene: Scene) -> bool:
    """Whether the repository said no to what the claim did, which is no bug unless the issue is about it.

    It says so by a raise of its own, or where its outermost functions cannot handle what they were given.
    """
    own = [number for number, frame in enumerate(raised.frames) if scene.sources.of(scene.relative(frame.path))]
    theirs = [frame for frame in raised.frames[own[-1] + 1 if own else 0 :] if scene.is_repository_code(frame.path)]
    at_the_door = raised.type in MISUSE and len(theirs) <= DOOR_FRAMES
    if not own or not (at_the_door or scene.refuses(locus.path, locus.line)):
        return False
    caller = raised.frames[own[-1]]
    names = {*scene.called(caller.path, caller.line), *(frame.function for frame in theirs)}
    return unreported_refusal(raised.type, raised.message, names, scene)


def _witnessed(kind: str, frame: Frame, witness: Witness | None, scene: Scene) -> bool:
    """Anybody can print a traceback; the witness saw whether it happened."""
    raised = witness.raised if witness else ()
    path = scene.relative(frame.path)
    return any(event.type == kind and (event.path == path or event.path.endswith(f"/{path}")) for event in raised)


def _bare_exit(run: Replay, ran: bool, scene: Scene) -> Finding:
    """An exit code without a traceback counts if a result of the repository decided it."""
    unknown = Finding("nonzero_other", f"exit code {run.exit_code} without a failure that can be read")
    if run.witness is None or not ran:
        return unknown
    exits = [event for event in run.witness.raised if event.type == "SystemExit" and event.message not in _SUCCESS]
    if exits and scene.is_repository_code(exits[0].path):
        said = last_line(run.output)
        if len(said) >= 8 and said in scene.issue:
            return Finding("real_failure", f"exit code {run.exit_code} with the message that the issue reports")
        return Finding("nonzero_other", f"the repository's program refused with exit code {run.exit_code}: {said}")
    if not exits:
        return unknown  # the script was not seen to exit so: the shell around it may have
    if not scene.depends(exits[0].path, exits[0].line):
        return Finding("unrelated_failure", f"exit code {run.exit_code} does not depend on a result of the repository")
    return Finding("real_failure", f"exit code {run.exit_code}, decided by a result of repository code")


def exercised(run: Replay, scene: Scene) -> bool:
    """Whether a function of the repository ran; importing runs only top levels, and test helpers prove nothing."""
    for path, lines in run.witness.lines.items() if run.witness else ():
        if is_test_file(path) or PurePosixPath(path).name == "conftest.py":
            continue
        content = scene.base.read(path) if scene.is_repository_code(path) else None
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
