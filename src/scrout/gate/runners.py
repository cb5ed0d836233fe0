"""The locus rule for other languages than Python, by what their test runners report.

No witness sees these run, so the rule is strict: the runner ran and told everything, every failed test has a place, and
each is either in the repository, or in a file of the claim's at a statement that depends on the repository. What cannot
be shown this way is not kept, and the reason says what is missing.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from scrout.gate.lexical import (
    depends,
    fails_on_purpose,
    is_test_path,
    replaces,
    repository_names,
    statement_at,
)
from scrout.gate.observation import misuse
from scrout.gate.replay_context import Classification, ReplayContext, wants_network
from scrout.gate.sources import simple_commands
from scrout.sandbox.replay import Replay
from scrout.sandbox.reports import ReportedFailure, Runner, RunnerReport, read_junit, read_runner

_JS: frozenset[Runner] = frozenset(["jest", "vitest", "node_test", "node", "junit"])
_PROGRAMS: dict[str, frozenset[Runner]] = {
    "cargo": frozenset(["cargo"]),
    "go": frozenset(["go"]),
    "node": frozenset(["node", "node_test"]),
    **dict.fromkeys(("jest", "vitest", "npm", "npx", "yarn", "pnpm"), _JS),
    **dict.fromkeys(("mvn", "mvnw"), frozenset[Runner](["maven", "junit"])),
    **dict.fromkeys(("gradle", "gradlew"), frozenset[Runner](["gradle", "junit"])),
    **dict.fromkeys(("rspec", "bundle"), frozenset[Runner](["rspec", "junit"])),
    **dict.fromkeys(("phpunit", "php", "composer"), frozenset[Runner](["phpunit", "junit"])),
}
"""What each program may report; anything else in its output was printed by somebody else."""
_PREFIXES = frozenset(["timeout", "env", "time"])
_HARMLESS = frozenset(["cd", "set", "mkdir", "head", "tail", "cat", "tee"])
_VARIABLES = frozenset(
    ["CI", "FORCE_COLOR", "LANG", "LC_ALL", "NODE_ENV", "NO_COLOR", "RAILS_ENV", "RUST_BACKTRACE", "TZ"]
)
_DECIDES_HOW = re.compile(
    r"(?:^|/)(?:\.cargo/|\.mocharc|Gemfile)"
    r"|(?:^|/)(?:package\.json|(?:jest|vitest|vite|babel|tsconfig)[\w.]*\.(?:json|[cm]?[jt]s)|\.babelrc|\.npmrc"
    r"|Cargo\.toml|build\.rs|go\.(?:mod|work)|pom\.xml|[^/]*\.gradle(?:\.kts)?|gradle\.properties"
    r"|\.rspec|Rakefile|composer\.json|phpunit[\w.]*\.xml(?:\.dist)?)$"
)
_EXCEPTION = re.compile(
    r"^[^\w\n]*+((?:[A-Za-z_][\w$]*[.:\\]+)*\w*(?:Error|Exception|Throwable))(?: \[\w+\])?(?::|$)", re.M
)
_ASSERTION = re.compile(r"Assert|Comparison|Expectation|opentest4j|ERR_ASSERTION")
_RUST_CHECK = re.compile(r"^assertion (?:failed|`)")
_UNWRAPS = re.compile(r"\.(?:unwrap|expect)(?:_err)?\(|\?")
# What a script would hold that prints a report, or makes up a stack, itself.
_FORGES = re.compile(
    r"\.stack\s{0,5}=[^=]|prepareStackTrace|Node\.js v|test result: |\bnot ok \d|--- FAIL: |\bTests: {1,20}\d"
    r"|\d examples?, \d"
)
_EXITS = re.compile(r"\bprocess\.(?:exit\b|exitCode|kill|abort|reallyExit)")
_NOT_THERE = re.compile(r"Cannot find (?:module|package) '([^']+)'|Failed to (?:resolve import|load url) \"?([^\s\"]+)")


def decides_how(path: str) -> bool:
    """Whether a file decides what a runner runs, and so what its report means."""
    return _DECIDES_HOW.search(path) is not None


def read(run: Replay, replay_context: ReplayContext) -> RunnerReport | None:
    """What a runner reported, if the command runs one and nothing else that could have printed it."""
    may_report = _invoked(run.command, replay_context)
    report = read_runner(run.output)
    if report is None or (report.runner in may_report and any(not failed.frames for failed in report.failures)):
        # Only what the command itself wrote: no reproduction brings a report along.
        written = (read_junit(text) for path, text in replay_context.written.items() if path.endswith(".xml"))
        found = next((junit for junit in written if junit and junit.failed), None)
        report = found if found and "junit" in may_report else report
    return report if report and report.runner in may_report else None


def judge(report: RunnerReport, run: Replay, replay_context: ReplayContext) -> Classification:
    """What a runner's report shows about the claim."""
    for path, text in replay_context.own.items():
        if decides_how(path):
            return Classification("nonzero_other", f"the reproduction brings {path}, which decides how tests run")
        if spec := replaces(path, text, replay_context):
            return Classification("tampered", f"the reproduction replaces the repository's {spec[:100]}")
        if _FORGES.search(text) or (report.runner == "node" and _EXITS.search(text)):
            return Classification(
                "nonzero_other", f"{path} may have printed the report, or exited, itself, so nothing is shown"
            )
    if report.build_failed:
        return _build_failure(report.build_failed, replay_context)
    if not report.failed:
        return Classification(
            "nonzero_other", f"exit code {run.exit_code}, but the {report.runner} report has no failed test"
        )
    if not (report.complete and report.failures):
        return Classification(
            "nonzero_other", f"the {report.runner} report is cut off, so not every failure can be judged"
        )
    # A test that fails by its own mistake would still fail after the right patch: one of them spoils the claim.
    findings = [_failure(failed, report.runner, replay_context) for failed in report.failures]
    return next((finding for finding in findings if finding.verdict != "real_failure"), findings[0])


def _invoked(command: str, replay_context: ReplayContext) -> frozenset[Runner]:
    """The runners that a command starts; none where it also runs something that could print a report of its own."""
    found: frozenset[Runner] = frozenset()
    for _, words in simple_commands(command):
        assigned = [word for word in words if re.match(r"\w+=", word)]
        if any(word.partition("=")[0] not in _VARIABLES for word in assigned):
            return frozenset()
        rest = [word for word in words if word not in assigned]
        while rest and (rest[0] in _PREFIXES or re.fullmatch(r"[0-9.]+[sm]?", rest[0])):
            rest = rest[1:]
        program = PurePosixPath(rest[0]).name if rest else ""
        if program in _HARMLESS:
            if program == "cat" and len(rest) > 1 and not any(">" in word for word in rest):
                return frozenset()  # shows a file, which may hold anything
            continue
        if program not in _PROGRAMS or (
            "/" in rest[0] and replay_context.relative(rest[0]).removeprefix("./") in replay_context.own
        ):
            return frozenset()
        if program in ("node", "php") and any(word in ("-e", "-p", "--eval", "--print", "-r") for word in rest):
            return frozenset()  # a one-liner has no file that could be read
        found |= _PROGRAMS[program]
    return found


def _build_failure(said: str, replay_context: ReplayContext) -> Classification:
    missing = _NOT_THERE.search(said)
    first = said.strip().splitlines()[0][:300]
    if missing is None:
        return Classification("syntax_error", f"it does not parse or compile: {first}")
    name = missing[1] or missing[2]
    if name.startswith((".", "/")):
        return Classification("missing_file", first)
    return Classification(
        "environment_missing", f"import error: {name[:100]} is not installed, so the claim cannot be judged"
    )


def _failure(failed: ReportedFailure, runner: Runner, replay_context: ReplayContext) -> Classification:
    said = " ".join(failed.message.split())[:200]
    what = f"{failed.test}: {said}" if failed.test and said else failed.test or said or "a failure"
    if needs := wants_network(failed.message, what):
        return needs
    places = [(path, frame.line) for frame in failed.frames if (path := replay_context.place(frame.path))]
    if not places:
        return Classification(
            "nonzero_other",
            f"{what}: the report names no file of the repository or the reproduction, so nothing is shown",
        )
    path, line = places[-1]
    if path not in replay_context.own:
        if is_test_path(path):
            return Classification("real_failure", f"{what}, in the repository's own test {path}:{line}")
        if not _reached_from(places, replay_context):
            return Classification(
                "nonzero_other", f"{what}: no code that uses {path} is in the report, so nothing is shown"
            )
        kind = _EXCEPTION.search(failed.message)
        if kind and misuse(kind[1], failed.message[kind.end() :].strip().partition("\n")[0], replay_context):
            return Classification("unrelated_failure", f"{what}, which neither the issue nor the scout mentions")
        return Classification("real_failure", f"{what}, raised in the repository's {path}:{line}")
    text = replay_context.own[path]
    names = repository_names(path, text, replay_context)
    if not names:
        return Classification("unrelated_failure", f"{what}: {path} uses nothing of the repository that can be seen")
    decided = depends(text, line, names)
    if not (_is_check(failed.message, runner, text, line)):
        quoted = said and any(
            part in " ".join(replay_context.issue.split()) for part in (said, said.partition(": ")[2]) if part
        )
        if quoted and decided:
            return Classification("real_failure", f"{what}, as the issue reports")
        return Classification("own_error", f"{what}, raised by the reproduction's own {path}:{line}")
    if not decided:
        return Classification("unrelated_failure", f"{what}, which does not depend on a result of the repository")
    return Classification("real_failure", f"{what}, about a result of repository code")


def _reached_from(places: list[tuple[str, int]], replay_context: ReplayContext) -> bool:
    """Whether a test of the repository or code of the claim's that uses the repository led there."""
    if not replay_context.own or any(is_test_path(path) for path, _ in places if path not in replay_context.own):
        return True
    return any(repository_names(path, text, replay_context) for path, text in replay_context.own.items())


def _is_check(message: str, runner: Runner, text: str, line: int) -> bool:
    """Whether the claim meant to fail here, by an assertion or on purpose."""
    if fails_on_purpose(text, line):
        return True
    if runner == "cargo":
        return _RUST_CHECK.match(message) is not None or _UNWRAPS.search(statement_at(text, line)) is not None
    if runner == "go":
        return not re.search(r"^panic: ", message, re.M)
    kind = _EXCEPTION.search(message)
    return kind is None or _ASSERTION.search(kind[0]) is not None
