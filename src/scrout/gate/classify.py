"""From what a replayed command did to a verdict. Rules are tried in order; what none of them proves is not kept.

Kept is what the repository did: an exception of its code, or a check of the claim's own that one of its results failed.
What cannot be told from here: a script that lies on purpose, for instance by comparing a right result with a wrong
expectation, or by forging what the witness reports. The issue is the only word on what is right, and it is prose.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from scrout.gate.depends import catches, depends, exits_depend, raises, replaced
from scrout.gate.sources import Sources, deciding_word
from scrout.records import Verdict
from scrout.sandbox.replay import Raised, Replay, Witness
from scrout.sandbox.reports import Frame, Traceback, read_tracebacks
from scrout.sandbox.suite import is_test_file
from scrout.sandbox.workspace import Base

_SIGPIPE = 128 + 13
_LAST_SIGNAL = 128 + 64
_NO_TESTS = re.compile(r"^(=* ?no tests (ran|collected)|collected 0 items|Ran 0 tests|NO TESTS RAN)", re.MULTILINE)
_MISSING_FILE = re.compile(
    r"can't open file|ERROR: (file or directory not found|not found: )|No such file or directory|"
    r"cannot find module|no such file",
    re.IGNORECASE,
)
_SHELL_SYNTAX = re.compile(r"^bash: (?:-c: )?(?:line \d+: )?(?:unexpected EOF|syntax error)", re.MULTILINE)
_NOT_FOUND = re.compile(r": (command )?not found$", re.MULTILINE)
_NO_MODULE = re.compile(r"^\S*python[\d.]*: No module named ['\"]?([\w.]+)|No module named '?([\w.]+)", re.MULTILINE)
_USAGE = re.compile(
    r"^(usage: |.*error: (unrecognized arguments|the following arguments|argument )|unknown option )", re.M | re.I
)
_NO_NETWORK = re.compile(
    r"Temporary failure in name resolution|Name or service not known|Network is unreachable|Failed to resolve"
)
_EXCEPTION_NAME = re.compile(r"\b([A-Z]\w*(?:Error|Exception|Warning|Interrupt|Exit))\b")
_SUCCESS = ("", "0", "None")
_ASSERTIONS = ("AssertionError", "Failed")
_CHAIN = re.compile(
    r"^.*(?:The above exception was the direct cause|During handling of the above exception, another).*$",
    re.M,
)
_DIRECT = "was the direct cause"
_TEST = re.compile(r"^(?:={70}|_{3,} .+ _{3,})$", re.MULTILINE)
_PYTEST_NO_PATH = re.compile(r"^ERROR: (?:file or directory not found|not found): .*$", re.MULTILINE)
_PYTEST_NO_FIXTURE = re.compile(r"^E +(fixture '.*' not found)$", re.MULTILINE)


@dataclass(frozen=True)
class Finding:
    """A verdict, the reason in words, and what must be the same when the claim is replayed again."""

    verdict: Verdict
    reason: str
    signature: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scene:
    """What a replay is judged against."""

    issue: str
    sources: Sources
    """The claim's own Python."""
    base: Base

    def is_repository_code(self, path: str) -> bool:
        name = self.relative(path)
        return not name.startswith("/") and ".." not in PurePosixPath(name).parts and self.base.read(name) is not None

    def relative(self, path: str) -> str:
        pure = PurePosixPath(path)
        return str(pure.relative_to(self.base.repo)) if pure.is_relative_to(self.base.repo) else str(pure)

    def belongs(self, package: str) -> bool:
        """Whether a top-level package is the repository's own."""
        if not package.isidentifier():
            return False
        folders = (self.base.tree / folder for folder in ("", "src", "lib"))
        return any((folder / package).is_dir() or (folder / f"{package}.py").is_file() for folder in folders)

    def locus(self, traceback: Traceback) -> Frame | None:
        """The innermost frame that is the repository's or the claim's; libraries only pass a failure on."""
        for frame in reversed(traceback.frames):
            if self.is_repository_code(frame.path) or self.sources.of(self.relative(frame.path)):
                return frame
        return None

    def depends(self, path: str, line: int) -> bool:
        return any(depends(text, line, self.belongs) for text in self.sources.of(self.relative(path)))

    def raises(self, path: str, line: int) -> bool:
        return any(raises(text, line) for text in self.sources.of(self.relative(path)))

    def caught(self, traceback: Traceback) -> bool:
        """Whether the claim's own code caught what it printed; a traceback starts where the exception was caught."""
        frame = traceback.frames[0]
        return any(catches(text, frame.line) for text in self.sources.of(self.relative(frame.path)))


def classify(run: Replay, scene: Scene) -> Finding:
    """What one replay shows about the claim."""
    printed = _failures(run.output)
    failures = printed or _cut_off(run)
    finding = _ended_early(run) or _replaces(scene)
    if finding is None:
        if run.exit_code == 0:
            finding = _exit_zero(run, scene)
        else:
            finding = _never_got_to_the_point(run, failures, scene) or _failure(run, failures, scene)
    # Only what is printed: a later run has no witness.
    ends = [(chain[-1].type, chain[-1].frames[-1]) for chain in printed]
    places = (f"{kind} {scene.relative(frame.path)}:{frame.line}" for kind, frame in ends)
    return Finding(finding.verdict, finding.reason, (str(run.exit_code), *places))


def _failures(output: str) -> list[list[Traceback]]:
    """What ended the command, or each failed test: an exception last, what it was raised from before it."""
    found = []
    for block in _TEST.split(output):
        links = [read_tracebacks(part)[-1:] for part in _CHAIN.split(block)]
        chain = [traceback for link in links for traceback in link if traceback.frames]
        if chain:
            found.append(chain)
    return found


def _cut_off(run: Replay) -> list[list[Traceback]]:
    """A traceback of which `| tail` left only the last line, put together again from what the witness saw."""
    events = [
        event
        for event in (run.witness.raised if run.witness else ())
        if _last_line(run.output) in (event.type, f"{event.type}: {event.message}"[:300])
    ]
    frames = tuple(Frame(event.path, event.line, event.function) for event in reversed(events))
    return [[Traceback(frames, events[0].type, events[0].message)]] if events else []


def _ended_early(run: Replay) -> Finding | None:
    if run.exit_code is None:
        return Finding("timeout", f"still running after {run.seconds:.0f} s")
    if run.exit_code == _SIGPIPE:
        return Finding("nonzero_other", "its output was cut off by a pipe, so how it ended is not known")
    if 128 < run.exit_code <= _LAST_SIGNAL:
        return Finding("killed", f"killed by signal {run.exit_code - 128}")
    return None


def _replaces(scene: Scene) -> Finding | None:
    """A failure of what the claim put in place of the repository's code says nothing about the repository."""
    for text in scene.sources.all:
        name = replaced(text, scene.belongs)
        if name:
            return Finding("tampered", f"the reproduction replaces the repository's {name[:100]}")
    return None


def _exit_zero(run: Replay, scene: Scene) -> Finding:
    """A script that catches and prints the reported error did reproduce it, if the error left the repository."""
    if _NO_TESTS.search(run.output):
        return Finding("no_tests", "no test was collected")
    reported = set(_EXCEPTION_NAME.findall(scene.issue))
    witness = run.witness or Witness({}, ())
    for event in witness.raised:
        if event.type in reported and scene.is_repository_code(event.path) and _printed(event, run, scene):
            return Finding(
                "reproduced_exit_zero", f"{event.type} from {event.path}:{event.line} was caught and printed"
            )
    return Finding("passed", "the command succeeds on the unpatched repository")


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


def _never_got_to_the_point(run: Replay, failures: list[list[Traceback]], scene: Scene) -> Finding | None:
    """Failures that say nothing about the repository's behaviour."""
    for last in (chain[-1] for chain in failures):
        if last.type in ("ModuleNotFoundError", "ImportError"):
            return _import_failure(f"{last.type}: {last.message}", scene)
        if last.type in ("SyntaxError", "IndentationError", "TabError"):
            return Finding("syntax_error", f"{last.type}: {last.message}")
        if _NO_NETWORK.search(last.message):
            return Finding("environment_missing", f"it wants a network, and the sandbox has none: {last.message[:200]}")
    if path := _PYTEST_NO_PATH.search(run.output):
        return Finding("missing_file", path[0])
    if fixture := _PYTEST_NO_FIXTURE.search(run.output):
        return Finding("own_error", f"a test of the reproduction asks for a {fixture[1]}")
    if _NO_TESTS.search(run.output):
        return Finding("no_tests", "no test was collected")
    if failures:
        return None
    if _SHELL_SYNTAX.search(run.output):
        return Finding("syntax_error", f"the shell cannot read the command: {_last_line(run.output)}")
    if _NO_MODULE.search(run.output):
        return _import_failure(_last_line(run.output), scene)
    if run.exit_code in (126, 127) or _NOT_FOUND.search(run.output):
        return Finding("command_not_found", _last_line(run.output) or "command not found")
    if _MISSING_FILE.search(run.output):
        return Finding("missing_file", _last_line(run.output))
    if _USAGE.search(run.output):
        return Finding("usage_error", _last_line(run.output))
    return None


def _import_failure(said: str, scene: Scene) -> Finding:
    match = _NO_MODULE.search(said)
    package = (match[1] or match[2]).partition(".")[0] if match else ""
    if package and not scene.belongs(package):
        return Finding(
            "environment_missing",
            f"import error: {package} is not installed, so the claim cannot be judged. Install the project's "
            "dependencies into its .venv.",
        )
    return Finding("import_error", said[:300])


def _failure(run: Replay, failures: list[list[Traceback]], scene: Scene) -> Finding:
    """The locus rule: a failure counts if the repository's behaviour caused it, not a mistake of the script."""
    word = deciding_word(run.command)
    if word:
        return Finding("nonzero_other", f"the exit code {run.exit_code} may be that of `{word}` in the command itself")
    exercised = run.witness is not None and _exercised(run.witness, scene)
    # What a group holds was caught, each of it, and raised again together.
    if not failures or (scene.caught(failures[-1][-1]) and "Exception Group Traceback" not in run.output):
        return _bare_exit(run, exercised, scene)
    # A test that fails by its own mistake would still fail after the right patch: one of them spoils the claim.
    findings = [_traced(chain, exercised, run, scene) for chain in failures]
    return next((finding for finding in findings if finding.verdict != "real_failure"), findings[0])


def _traced(chain: Sequence[Traceback], exercised: bool, run: Replay, scene: Scene) -> Finding:
    last = chain[-1]
    what = f"{last.type}: {last.message}".rstrip(": ")[:300]
    frame = scene.locus(last)
    if frame is not None and scene.is_repository_code(frame.path):
        if not _witnessed(last.type, frame, run.witness, scene):
            return Finding("nonzero_other", f"{what} was printed, but the repository was not seen to raise it")
        return Finding("real_failure", f"{what}, raised in the repository's {scene.relative(frame.path)}:{frame.line}")
    on_purpose = frame is not None and scene.raises(frame.path, frame.line)
    first = scene.locus(chain[0])
    theirs = first is not None and scene.is_repository_code(first.path)
    if (
        first
        and theirs
        and (on_purpose or _DIRECT in run.output)
        and _witnessed(chain[0].type, first, run.witness, scene)
    ):
        where = f"{scene.relative(first.path)}:{first.line}"
        return Finding("real_failure", f"{what}, raised from {chain[0].type} of the repository's {where}")
    decided = frame is not None and scene.depends(frame.path, frame.line)
    if not (on_purpose or last.type in _ASSERTIONS):
        quoted = last.message and f"{last.type}: {last.message}" in " ".join(scene.issue.split())
        if quoted and decided and exercised:
            return Finding("real_failure", f"{what}, as the issue reports")
        return Finding("own_error", f"{what}, raised by the reproduction's own code")
    if not exercised:
        return Finding("unrelated_failure", f"{what}, but no function of the repository ran")
    if not decided:
        return Finding("unrelated_failure", f"{what}, which does not depend on a result of the repository")
    return Finding("real_failure", f"{what}, about a result of repository code")


def _witnessed(kind: str, frame: Frame, witness: Witness | None, scene: Scene) -> bool:
    """Anybody can print a traceback; the witness saw whether it happened."""
    raised = witness.raised if witness else ()
    path = scene.relative(frame.path)
    return any((event.type, event.path) == (kind, path) for event in raised)


def _bare_exit(run: Replay, exercised: bool, scene: Scene) -> Finding:
    """An exit code without a traceback counts if a result of the repository decided it."""
    unknown = Finding("nonzero_other", f"exit code {run.exit_code} without a failure that can be read")
    if run.witness is None or not exercised:
        return unknown
    exits = [event for event in run.witness.raised if event.type == "SystemExit" and event.message not in _SUCCESS]
    if exits and scene.is_repository_code(exits[0].path):
        said = _last_line(run.output)
        if len(said) >= 8 and said in scene.issue:
            return Finding("real_failure", f"exit code {run.exit_code} with the message that the issue reports")
        return Finding("nonzero_other", f"the repository's program refused with exit code {run.exit_code}: {said}")
    if exits:
        decided: bool | None = scene.depends(exits[0].path, exits[0].line)
    else:
        told = [exits_depend(text, scene.belongs) for text in scene.sources.all]
        decided = None if all(one is None for one in told) else all(one is not False for one in told)
    if decided is None:
        return unknown
    if not decided:
        return Finding("unrelated_failure", f"exit code {run.exit_code} does not depend on a result of the repository")
    return Finding("real_failure", f"exit code {run.exit_code}, decided by a result of repository code")


def _exercised(witness: Witness, scene: Scene) -> bool:
    """Whether a function of the repository ran; importing runs only top levels, and test helpers prove nothing."""
    for path, lines in witness.lines.items():
        if is_test_file(path) or PurePosixPath(path).name == "conftest.py":
            continue
        content = scene.base.read(path) if scene.is_repository_code(path) else None
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
