"""From what a replayed command did to a verdict. Rules are tried in order; what none of them proves is not kept."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from scrout.handoff import Reproduction
from scrout.records import Verdict
from scrout.sandbox.replay import Replay, Witness
from scrout.sandbox.reports import Traceback, read_tracebacks
from scrout.sandbox.workspace import Base

_SIGPIPE = 128 + 13
_NO_TESTS = re.compile(r"^(=* ?no tests (ran|collected)|collected 0 items|Ran 0 tests|NO TESTS RAN)", re.MULTILINE)
_MISSING_FILE = re.compile(
    r"can't open file|ERROR: (file or directory not found|not found: )|No such file or directory|"
    r"cannot find module|no such file",
    re.IGNORECASE,
)
_NOT_FOUND = re.compile(r": (command )?not found$|No module named pytest$", re.MULTILINE)
_USAGE = re.compile(r"^(usage: |.*error: (unrecognized arguments|the following arguments|argument ))", re.M | re.I)
_EXCEPTION_NAME = re.compile(r"\b([A-Z]\w*(?:Error|Exception|Warning|Interrupt|Exit))\b")


@dataclass(frozen=True)
class Finding:
    """A verdict, the reason in words, and what must be the same when the claim is replayed again."""

    verdict: Verdict
    reason: str
    signature: tuple[str, ...] = ()


def classify(run: Replay, issue: str, claim: Reproduction, base: Base) -> Finding:
    """What one replay shows about the claim."""
    tracebacks = read_tracebacks(run.output)
    last = tracebacks[-1] if tracebacks else None
    signature = (str(run.exit_code), last.type if last else "")
    finding = _ended_early(run) or (
        _exit_zero(run, tracebacks, issue, claim, base)
        if run.exit_code == 0
        else _never_got_to_the_point(run, last, base) or _failure(run, last, issue, claim, base)
    )
    return Finding(finding.verdict, finding.reason, signature)


def _ended_early(run: Replay) -> Finding | None:
    if run.exit_code is None:
        return Finding("timeout", f"still running after {run.seconds:.0f} s")
    if run.killed:
        return Finding("killed", f"killed by a signal (exit code {run.exit_code})")
    if run.exit_code == _SIGPIPE:
        return Finding("nonzero_other", "its output was cut off by a pipe, so how it ended is not known")
    return None


def _exit_zero(run: Replay, tracebacks: tuple[Traceback, ...], issue: str, claim: Reproduction, base: Base) -> Finding:
    """A script that catches and prints the reported error did reproduce it, if the error came from the repository."""
    reported = set(_EXCEPTION_NAME.findall(issue))
    own = set(claim.files)
    raised = run.witness.raised if run.witness else ()
    for event in raised:
        printed = event.type in run.output or (event.message and event.message in run.output)
        if printed and event.type in reported and _is_repository_code(event.path, own, base):
            where = f"{event.path}:{event.line}"
            return Finding("reproduced_exit_zero", f"{event.type} from {where} was caught and printed")
    for traceback in tracebacks:
        if traceback.type in reported and _reaches_repository(traceback, own, base):
            return Finding("reproduced_exit_zero", f"{traceback.type} was printed, raised in repository code")
    return Finding("passed", "the command succeeds on the unpatched repository")


def _never_got_to_the_point(run: Replay, last: Traceback | None, base: Base) -> Finding | None:
    """Failures that say nothing about the repository's behaviour."""
    if last and last.type in ("ModuleNotFoundError", "ImportError"):
        return _import_failure(last, base)
    if last and last.type in ("SyntaxError", "IndentationError", "TabError"):
        return Finding("syntax_error", f"{last.type}: {last.message}")
    if run.exit_code in (126, 127) or (last is None and _NOT_FOUND.search(run.output)):
        return Finding("command_not_found", _last_line(run.output) or "command not found")
    if _NO_TESTS.search(run.output):
        return Finding("no_tests", "no test was collected")
    if last is None and _MISSING_FILE.search(run.output):
        return Finding("missing_file", _last_line(run.output))
    if last is None and _USAGE.search(run.output):
        return Finding("usage_error", _last_line(run.output))
    return None


def _import_failure(last: Traceback, base: Base) -> Finding:
    match = re.search(r"No module named '?([\w.]+)", last.message)
    package = match[1].partition(".")[0] if match else ""
    if package and not _belongs(package, base):
        return Finding(
            "environment_missing",
            f"import error: {package} is not installed, so the claim cannot be judged. Install the project's "
            "dependencies into its .venv.",
        )
    return Finding("import_error", f"{last.type}: {last.message}")


def _belongs(package: str, base: Base) -> bool:
    """Whether a top-level package is the repository's own."""
    folders = (base.tree / folder for folder in ("", "src", "lib"))
    return any((folder / package).is_dir() or (folder / f"{package}.py").is_file() for folder in folders)


def _failure(run: Replay, last: Traceback | None, issue: str, claim: Reproduction, base: Base) -> Finding:
    """The locus rule: a failure counts if the repository's behaviour caused it, not a mistake of the script."""
    own = set(claim.files)
    exercised = run.witness is None or _exercised(run.witness, own, base)
    if last is None:
        if run.witness is None or not exercised:
            return Finding("nonzero_other", f"exit code {run.exit_code} without a failure that can be read")
        return Finding("real_failure", f"exit code {run.exit_code} after running repository code")
    what = f"{last.type}: {last.message}".rstrip(": ")[:300]
    if _reaches_repository(last, own, base):
        return Finding("real_failure", f"{what}, with repository code in the traceback")
    if not exercised:
        return Finding("unrelated_failure", f"{what}, but no function of the repository ran")
    if last.type in ("AssertionError", "Failed"):
        return Finding("real_failure", f"{what}, asserted about a result of repository code")
    if last.type in _EXCEPTION_NAME.findall(issue):
        return Finding("real_failure", f"{what}, as the issue reports")
    return Finding("own_error", f"{what}, raised by the reproduction's own code")


def _reaches_repository(traceback: Traceback, own: set[str], base: Base) -> bool:
    return any(_is_repository_code(frame.path, own, base) for frame in traceback.frames)


def _is_repository_code(path: str, own: set[str], base: Base) -> bool:
    pure = PurePosixPath(path)
    if pure.is_absolute():
        if not pure.is_relative_to(base.repo):
            return False
        pure = pure.relative_to(base.repo)
    return str(pure) not in own and base.read(str(pure)) is not None


def _exercised(witness: Witness, own: set[str], base: Base) -> bool:
    """Whether a function of the repository ran; importing a module runs only its top level."""
    for path, lines in witness.lines.items():
        content = None if path in own else base.read(path)
        if content is not None and lines & _function_lines(content):
            return True
    return False


def _function_lines(content: bytes) -> frozenset[int]:
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return frozenset()
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines.update(range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1))
    return frozenset(lines)


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""
