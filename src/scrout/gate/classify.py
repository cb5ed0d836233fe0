"""From what a replayed command did to a verdict. Rules are tried in order; what none of them proves is not kept.

Kept is what the repository did: an exception of its code, or a check of the claim's own that one of its results failed.
What cannot be told from here: a script that lies on purpose, for instance by comparing a right result with a wrong
expectation, or by forging what the witness reports. The issue is the only word on what is right, and it is prose.
"""

from __future__ import annotations

import re
from dataclasses import replace

from scrout.gate import python, runners
from scrout.gate.execution_trace import INSIDE, WatchedRun
from scrout.gate.printed import reported_value
from scrout.gate.replay_context import Classification, ReplayContext, last_line, wants_network
from scrout.sandbox.replay import Replay
from scrout.sandbox.reports import Traceback

_SIGPIPE = 128 + 13
_SIGINT = 128 + 2
"""Python ends so after a KeyboardInterrupt, whoever raised it."""
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
_PYTEST_NO_PATH = re.compile(r"^ERROR: (?:file or directory not found|not found): .*$", re.MULTILINE)
_PYTEST_NO_FIXTURE = re.compile(r"^E +(fixture '.*' not found)$", re.MULTILINE)

_CUT_OFF = "its output was cut off by a pipe, so how it ended is not known"


def classify(run: Replay, replay_context: ReplayContext) -> Classification:
    """What one replay shows about the claim."""
    printed = [chain for chain in python.read_failures(run.output) if not python.is_headless(chain, replay_context)]
    failures = printed or python.cut_off(run, replay_context)
    report = None if failures else runners.read(run, replay_context)
    finding = _ended_early(run) or _tampered(run, replay_context)
    if finding is None:
        if run.exit_code == 0:
            finding = _exit_zero(run, replay_context)
        elif report is not None:
            finding = runners.judge(report, run, replay_context)
        else:
            finding = _never_got_to_the_point(run, failures, replay_context) or python.failure(
                run, failures, replay_context
            )
    # Only what is printed: a later run has no witness.
    places = python.failure_places(run.output, replay_context)
    tests = sorted(failed.test for failed in report.failures) if report else []
    return replace(finding, signature=(str(run.exit_code), *places, *tests))


def _ended_early(run: Replay) -> Classification | None:
    if run.exit_code is None:
        return Classification("timeout", f"still running after {run.seconds:.0f} s")
    if run.exit_code == _SIGPIPE:
        return Classification("nonzero_other", _CUT_OFF)
    if 128 < run.exit_code <= _LAST_SIGNAL and not (run.exit_code == _SIGINT and "\nKeyboardInterrupt" in run.output):
        return Classification("killed", f"killed by signal {run.exit_code - 128}")
    return None


def _tampered(run: Replay, replay_context: ReplayContext) -> Classification | None:
    """A failure of what the claim put in place of the repository's code says nothing about the repository."""
    if isinstance(run, WatchedRun) and run.tampered:
        return Classification("tampered", run.tampered)
    if any(word in text for text in (run.command, *replay_context.own.values()) for word in INSIDE):
        return Classification("tampered", "the reproduction reaches for the gate's witness")
    return None


def _exit_zero(run: Replay, replay_context: ReplayContext) -> Classification:
    if _NO_TESTS.search(run.output):
        return Classification("no_tests", "no test was collected")
    if found := python.caught_and_printed(run, replay_context):
        return found
    if python.exercised(run, replay_context) and (value := reported_value(run, replay_context)):
        return Classification("reproduced_exit_zero", f"the repository gave {value[:100]}, which the issue calls wrong")
    return Classification("passed", "the command succeeds on the unpatched repository")


def judge_program(run: Replay, check: Replay, replay_context: ReplayContext) -> Classification:
    """What a shell's look at a program's output shows, given a run of the program alone."""
    reason = f"the exit code {check.exit_code} may be that of the shell's own check"
    other = Classification("nonzero_other", reason, trial="may pass")
    if finding := _ended_early(run) or _tampered(run, replay_context):
        return finding
    if run.exit_code != 0:
        found = classify(run, replay_context)
        return found if found.verdict == "real_failure" else other
    if not python.exercised(run, replay_context):
        return other
    value = reported_value(run, replay_context)
    return (
        Classification("real_failure", f"the program prints {value[:100]}, which the issue calls wrong")
        if value
        else other
    )


def _never_got_to_the_point(
    run: Replay, failures: list[list[Traceback]], replay_context: ReplayContext
) -> Classification | None:
    """Failures that say nothing about the repository's behaviour."""
    for last in (chain[-1] for chain in failures):
        if last.type == "BrokenPipeError" and "|" in run.command:
            return Classification("nonzero_other", _CUT_OFF)
        if last.type == "PackageNotFoundError" and last.type not in replay_context.issue:
            return Classification("environment_missing", f"{last.message[:200]} The project is not installed.")
        if last.type in ("ModuleNotFoundError", "ImportError"):
            return _import_failure(f"{last.type}: {last.message}", replay_context)
        callers = [frame for frame in last.frames if frame.function not in ("", "<module>")]
        compiled = any(
            replay_context.is_repository_code(frame.path) for frame in callers
        )  # by what the repository called
        if last.type in ("SyntaxError", "IndentationError", "TabError") and not compiled:
            return Classification("syntax_error", f"{last.type}: {last.message}")
        if needs := wants_network(last.message, last.message[:200]):
            return needs
    if path := _PYTEST_NO_PATH.search(run.output):
        return Classification("missing_file", path[0])
    if fixture := _PYTEST_NO_FIXTURE.search(run.output):
        return Classification("own_error", f"a test of the reproduction asks for a {fixture[1]}")
    if _NO_TESTS.search(run.output):
        return Classification("no_tests", "no test was collected")
    if failures:
        return None
    if _SHELL_SYNTAX.search(run.output):
        return Classification("syntax_error", f"the shell cannot read the command: {last_line(run.output)}")
    if _NO_MODULE.search(run.output):
        return _import_failure(last_line(run.output), replay_context)
    if run.exit_code in (126, 127) or _NOT_FOUND.search(run.output):
        return Classification("command_not_found", last_line(run.output) or "command not found")
    if _MISSING_FILE.search(run.output):
        return Classification("missing_file", last_line(run.output))
    if usage := list(_USAGE.finditer(run.output)):
        said = run.output[usage[-1].start() :].partition("\n")[0]
        return Classification("usage_error", said.strip()[:300])
    return None


def _import_failure(said: str, replay_context: ReplayContext) -> Classification:
    match = _NO_MODULE.search(said)
    package = (match[1] or match[2]).partition(".")[0] if match else ""
    if package and not replay_context.belongs(package):
        return Classification(
            "environment_missing",
            f"import error: {package} is not installed, so the claim cannot be judged. Install the project's "
            "dependencies into its .venv.",
        )
    return Classification("import_error", said[:300])
