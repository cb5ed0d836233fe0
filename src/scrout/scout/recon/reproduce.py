"""Turns what an issue shows into a failing reproduction, by running it: hostile code, only ever run in the sandbox.

Its scripts first, then its commands, then the project's own tests near the suspected files. A claim is made for what
was seen to fail and for nothing else; whether the bug made it fail is for the gate to say.
"""

from __future__ import annotations

import ast
import asyncio
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import PurePosixPath
from typing import Literal, Protocol

from scrout.handoff import Basis, Reproduction
from scrout.index.repository import File
from scrout.sandbox.replay import ExecutionTrace, Replay, replay
from scrout.sandbox.reports import Frame, Traceback, read_runner, read_tracebacks
from scrout.sandbox.suite import Suite, find_suite, related_tests, run_suite, test_files
from scrout.sandbox.task_sandbox import TaskSandbox
from scrout.sandbox.workspace import Base, Workspace
from scrout.scout.recon.blocks import find_blocks
from scrout.scout.recon.checks import (
    ConfirmedChecks,
    accept_exceptions,
    compose,
    compose_output,
    confirm,
    confirms_output,
    left_over,
    probe,
    read_results,
    without_later_failures,
)
from scrout.scout.recon.commands import find_commands, find_files, find_programs
from scrout.scout.recon.expectations import is_vague
from scrout.scout.recon.scripts import (
    DOTTED,
    Script,
    find_exports,
    find_imports,
    find_objects,
    find_scripts,
    judged_exceptions,
)
from scrout.syntax import parse_python
from scrout.text import without_comments

MAX_RUNS = 7
TIMEOUT_S = 30.0
"""Of one run."""
TESTS_S = 20.0
"""Of one run of the project's tests."""
TOTAL_S = 60.0
OBSERVED_CHARS = 1_000
MOST_SUSPECTS = 3
_END_CHARS = 20_000
_LEAST_SAID_CHARS = 8  # a shorter last line is in any text
_LEAST_S = 2.0  # too little to start anything in

_NOT_PACKAGES = (
    "setup",
    "conftest",
    "docs",
    "doc",
    "examples",
    "example",
    "tests",
    "test",
    "benchmarks",
    "tasks",
    "noxfile",
)
_ERROR_NAME = re.compile(r"\b([A-Z]\w*(?:Error|Exception))\b")
_NOT_PARSED = ("SyntaxError", "IndentationError", "TabError")
_NO_ENVIRONMENT = ("ImportError", "ModuleNotFoundError", *_NOT_PARSED)
_CHECKS = ("AssertionError", "Failed")
_NEEDS_MORE = {
    "FileNotFoundError": "a file that the issue does not give",
    "EOFError": "input that the issue does not give",
    "gaierror": "a network",
    "URLError": "a network",
    "ConnectionError": "a network",
    "ConnectionRefusedError": "a network",
}
_IDENTIFIER = re.compile(r"\b[A-Za-z_]\w{2,60}")
MOST_NAMES = 500
MOST_TEST_FILES = 100
MOST_PAGES = 50
_DECLARE = ("pyproject.toml", "setup.cfg", "setup.py")
_PAGES = (".md", ".rst")
_WORD = re.compile(r"[a-z_]{4,}")
_FROM = re.compile(
    r"(?<![\w.])([A-Za-z_]\w{0,60})(?:\([^`\n]{0,200}\))?`? (?:is )?(?:from|in|of) `?([A-Za-z_][\w.]{0,100}\w)"
)
_IS_MODULE = re.compile(
    r"(?<![\w.`])`?([A-Za-z_]\w{0,60})`? (?:is|=) (?:the module )?`?([A-Za-z_][\w.]{0,100}\w)(?![\w(])"
)
"""What a text calls a module: "fn is pypika.functions"."""


class IndexLookup(Protocol):
    """What is asked of the repository's index."""

    @property
    def files(self) -> Mapping[str, object]: ...
    @property
    def top_levels(self) -> Mapping[str, str]: ...
    @property
    def taken(self) -> frozenset[str]: ...
    @property
    def modules(self) -> Mapping[str, str]: ...
    @property
    def defining(self) -> Mapping[str, Sequence[tuple[File, int]]]: ...


@dataclass(frozen=True)
class ReproductionAttempt:
    """What running the issue's code gave."""

    reproduction: Reproduction | None = None
    execution_trace: ExecutionTrace | None = None
    runs: int = 0
    dead_end: str = ""
    """Why there is no reproduction; empty: there is one, or none was wanted."""
    dropped: tuple[str, ...] = ()
    """What of the report was tried before the reproduction, and why it is no part of it, in words."""
    origin: Literal["script", "command", "test"] | None = None
    """Where the reproduction comes from: the issue's code, a command that it shows, or a test of the project's."""


@dataclass(frozen=True)
class _Attempt:
    """Something of the issue's to be run."""

    origin: Literal["script", "command"]
    label: str
    command: str
    files: Mapping[str, str] = field(default_factory=dict)
    missing: str = ""
    """A file that it reads and that is not there; empty: none."""
    is_mentioned: bool = False
    """Whether it is a command in a sentence."""
    expected: str | None = None
    """The exception that the issue shows for it; None: it shows none."""
    script: Script | None = None
    """What the issue says about it; None: it is a command."""
    basis: Basis | None = None
    """What its checks rest on; None: it is as the issue has it, and the run will tell."""


async def reproduce(
    text: str, repository: IndexLookup, task_sandbox: TaskSandbox, suspects: Sequence[str] = ()
) -> ReproductionAttempt:
    """Run what the issue shows until something fails in a way that is not its own; then tests near the suspects."""
    text = without_comments(text)
    runs = _Runs(task_sandbox)
    said: list[str] = []
    weaker: ReproductionAttempt | None = None
    for attempt in await asyncio.to_thread(_attempts, text, repository, task_sandbox.base):
        if not runs.left_s():
            said.append(f"{attempt.label} was not run any more")
            break
        if attempt.missing:
            said.append(f"{attempt.label} reads {attempt.missing}, which neither the repository nor the issue has")
            continue
        made: _Attempt | None = attempt
        if attempt.script is not None and attempt.script.says_what_is_right:
            made, remarks = await _checked(attempt, attempt.script, text, runs)
            said += [f"{attempt.label}: {remark}" for remark in remarks]
        elif attempt.script is not None:
            said += [f"{attempt.label}: {remark}" for remark in left_over(attempt.script)]
        if made is not None and not runs.left_s():
            said.append(f"{attempt.label} was not run to its end")
        if made is None or not runs.left_s():
            continue
        run = await runs.run(made.command, made.files)
        reason = await asyncio.to_thread(_why_no_claim, run, made, text, task_sandbox.base)
        if reason is not None:
            said.append(f"{attempt.label} {reason}")
            continue
        basis = made.basis or _basis(run, made, text)
        if made.script is not None and made.basis is None:
            made = _up_to_failure(made, run, task_sandbox.base)
        if made.basis is None:
            made, basis = _with_right_exceptions(made, run, text, basis)
        tried = ReproductionAttempt(
            _claim(run, made.files, basis), run.execution_trace, runs.count, origin=attempt.origin
        )
        if basis != "assumed":
            return replace(tried, runs=runs.count, dropped=tuple(said))
        weaker = weaker or tried
        said.append(f"{attempt.label} fails, and the report does not tell so")
    if weaker is not None:
        return replace(weaker, runs=runs.count, dropped=tuple(said))
    nothing = "the issue holds no Python code that imports this repository, and no command that may be run"
    dead_end = f"No reproduction: {'; '.join(said) or nothing}."
    if suspects:
        shown, words = await _existing_tests(text, suspects[:MOST_SUSPECTS], runs)
        if shown is not None:
            return ReproductionAttempt(_claim(shown, {}, "assumed"), shown.execution_trace, runs.count, origin="test")
        dead_end = f"{dead_end} {words}".strip()
    return ReproductionAttempt(runs=runs.count, dead_end=dead_end)


async def _checked(
    attempt: _Attempt, script: Script, text: str, runs: _Runs
) -> tuple[_Attempt | None, tuple[str, ...]]:
    """The script with checks of what the report expects, as far as a run confirms it; and what was dropped.

    None: nothing is left to run. The script as it is: its own exception may be what the report tells.
    """
    name = next(iter(attempt.files))
    output = script.output
    if script.runner is not None:
        return attempt, ()
    if output.actual and output.expected and not is_vague(text):
        shown = await runs.run(attempt.command, attempt.files)
        if confirms_output(script, shown.output):
            return replace(
                attempt,
                files={**attempt.files, name: _writable(compose_output(script))},
                basis="confirmed",
                expected=None,
            ), ()
        if not runs.left_s():
            return None, ("it does not print what the report has",)
    run = await runs.run(attempt.command, {**attempt.files, name: _writable(probe(script))})
    results = read_results(run.output)
    found = confirm(script, results, text)
    if is_vague(text) and any(check.form != "raises" for check in found.checks):
        found = ConfirmedChecks(
            dropped=("what the report expects need not be so to the letter, or it doubts its values",)
        )
    if found.checks:
        source = _writable(compose(script, found.checks, found.failed))
        return replace(attempt, files={**attempt.files, name: source}, basis=found.basis, expected=None), found.dropped
    fails = run.exit_code != 0 or any(result.error for result in results.values())
    return (attempt if fails else None), found.dropped or ("ran without an error",)


def _up_to_failure(attempt: _Attempt, run: Replay, base: Base) -> _Attempt:
    """The attempt without what fails behind the statement that the run ended with."""
    tracebacks = read_tracebacks(run.output[-_END_CHARS:])
    frames = [frame for frame in tracebacks[-1].frames if frame.function == "<module>"] if tracebacks else []
    name = next(iter(attempt.files))
    line = next((frame.line for frame in frames if _relative(frame, base) == name), None)
    if line is None:
        return attempt
    return replace(attempt, files={**attempt.files, name: without_later_failures(attempt.files[name], line)})


def _with_right_exceptions(attempt: _Attempt, run: Replay, text: str, basis: Basis) -> tuple[_Attempt, Basis]:
    """The attempt, which passes now with another exception if the report may call that one right; and its basis."""
    tracebacks = read_tracebacks(run.output[-_END_CHARS:])
    shown = tracebacks[-1].type if tracebacks else _left_by(run)
    own = "\n".join((attempt.command, *attempt.files.values()))
    judged = judged_exceptions(text) if shown not in _CHECKS else {}
    others = {name: sure for name, sure in judged.items() if shown and name != shown and name not in own}
    if not others:
        return attempt, basis
    if attempt.script is None or attempt.script.runner is not None:
        return attempt, "assumed"
    name = next(iter(attempt.files))
    source = accept_exceptions(attempt.files[name], shown, sorted(others))
    files = {**attempt.files, name: source}
    return replace(attempt, files=files), basis if all(others.values()) else "assumed"


def _left_by(run: Replay) -> str:
    """The exception that a script ended with, if it has no traceback: those that are meant to end a program."""
    raised = run.execution_trace.raised if run.execution_trace and run.exit_code else ()
    return raised[-1].type if raised else ""


def _basis(run: Replay, attempt: _Attempt, text: str) -> Basis:
    """Whether what the issue has was seen to fail as the issue tells."""
    tracebacks = read_tracebacks(run.output[-_END_CHARS:])
    if not tracebacks:
        last = run.output.strip().rpartition("\n")[2].strip()
        told = last in text or last.partition(":")[0] in (attempt.expected, *_ERROR_NAME.findall(text))
        return "verbatim" if len(last) >= _LEAST_SAID_CHARS and told else "assumed"
    last_type = tracebacks[-1].type
    told = last_type == attempt.expected or bool(re.search(rf"(?<!\w){re.escape(last_type)}(?!\w)", text))
    return "verbatim" if told or last_type in _CHECKS else "assumed"


class _Runs:
    """Runs in fresh workspaces: so many, and so long in all."""

    def __init__(self, task_sandbox: TaskSandbox) -> None:
        self.task_sandbox = task_sandbox
        self.count = 0
        self._deadline = time.monotonic() + TOTAL_S

    def left_s(self, most_s: float = TIMEOUT_S) -> float:
        """How long one more may take; 0: there is none."""
        left_s = min(most_s, self._deadline - time.monotonic())
        return left_s if self.count < MAX_RUNS and left_s >= _LEAST_S else 0.0

    @contextmanager
    def workspace(self) -> Iterator[Workspace]:
        self.count += 1
        workspace = self.task_sandbox.fresh()
        try:
            yield workspace
        finally:
            workspace.remove()

    async def run(self, command: str, files: Mapping[str, str] | None = None, most_s: float = TIMEOUT_S) -> Replay:
        timeout_s = self.left_s(most_s)
        with self.workspace() as workspace:
            for name, content in (files or {}).items():
                workspace.write(name, content.encode())
            return await replay(self.task_sandbox, workspace, command, timeout_s=timeout_s, watch=True)


def _attempts(text: str, repository: IndexLookup, base: Base) -> list[_Attempt]:
    scripts = find_scripts(text, repository.top_levels, _names(text, repository, base))
    return [*_scripts(text, scripts, repository, base), *_commands(text, repository, base)]


def _names(text: str, repository: IndexLookup, base: Base) -> dict[str, str]:
    """The statement for each name that a report may leave it out for: an import, as the package offers it, as the
    project's tests have it, or from the one module that defines it; or how the project's pages make the object."""
    tests = [path for path in test_files(base) if path in repository.files][:MOST_TEST_FILES]
    sources = ((base.read(path) or b"").decode("utf-8", errors="replace") for path in tests)
    imports = {**_defined(text, repository), **_exports(repository, base), **find_imports(sources, text)}
    pages = sorted(path for path in repository.files if path.endswith(_PAGES))[:MOST_PAGES]
    imports |= _spoken_of(text, repository)
    documented = find_objects(((base.read(path) or b"").decode("utf-8", errors="replace") for path in pages), imports)
    return documented | imports


def _defined(text: str, repository: IndexLookup) -> dict[str, str]:
    found = {}
    for name in sorted(set(_IDENTIFIER.findall(text)))[:MOST_NAMES]:
        files = {file for file, _ in repository.defining[name]} if name in repository.defining else set()
        paths = [file.path for file in files if file.role == "source" and file.path.endswith(".py")]
        module = next((dotted for dotted, path in repository.modules.items() if paths == [path]), "")
        if (
            module
            and module.partition(".")[0] not in _NOT_PACKAGES
            and any(definition.name == name for file in files for definition in file.definitions)
        ):
            found[name] = f"from {module} import {name}"
    return found


def _spoken_of(text: str, repository: IndexLookup) -> dict[str, str]:
    """The statements for what a text gives with its module: `json2xml.dicttoxml.dicttoxml`, "fn is pypika.functions",
    "`parse` from till.money". A module's own dotted name imports it."""
    found: dict[str, str] = {}
    modules: set[str] = set()
    for dotted in dict.fromkeys(islice(DOTTED.findall(text), MOST_NAMES)):
        parts = dotted.split(".")
        known = next((end for end in range(len(parts), 1, -1) if ".".join(parts[:end]) in repository.modules), 0)
        module = ".".join(parts[:known])
        if known == 0 or parts[0] in _NOT_PACKAGES:
            continue
        modules.add(module)
        found[module] = f"import {module}"
        if len(parts) == known + 1 and _is_defined(parts[-1], module, repository):
            found[parts[-1]] = f"from {module} import {parts[-1]}"
    for name, module in _FROM.findall(text):
        if module in modules and _is_defined(name, module, repository):
            found[name] = f"from {module} import {name}"
    for name, module in _IS_MODULE.findall(text):
        if module in modules:
            found[name] = f"import {module} as {name}"
    return found


def _is_defined(name: str, module: str, repository: IndexLookup) -> bool:
    """Whether a module defines a name at its top level."""
    files = {file for file, _ in repository.defining[name]} if name in repository.defining else set()
    files = {file for file in files if file.path == repository.modules[module]}
    return any(definition.name == name for file in files for definition in file.definitions)


def _exports(repository: IndexLookup, base: Base) -> dict[str, str]:
    sources = {}
    for name, root in repository.top_levels.items():
        folder = f"{root}/{name}" if root else name
        path = next((path for path in (f"{folder}/__init__.py", f"{folder}.py") if path in repository.files), None)
        if path and name not in _NOT_PACKAGES and name.isidentifier():
            sources[name] = (base.read(path) or b"").decode("utf-8", errors="replace")
    return find_exports(sources)


def _scripts(text: str, scripts: Sequence[Script], repository: IndexLookup, base: Base) -> Iterator[_Attempt]:
    for number, script in enumerate(scripts, 1):
        name = _free_name("test_scrout_repro" if script.runner else "scrout_repro", repository.taken)
        command = Suite(script.runner, (name,)).command([name]) if script.runner else f"python {name}"
        others = find_files(text, script.source, repository.files, repository.top_levels)
        files = {name: _writable(script.source)}
        files |= {other: _writable(content) for other, content in others.items() if _is_free(other, base)}
        label = f"script {number} of the issue"
        yield _Attempt("script", label, _on_path(script.root, command), files, expected=script.expected, script=script)


def _commands(text: str, repository: IndexLookup, base: Base) -> Iterator[_Attempt]:
    declared = [(base.read(name) or b"").decode("utf-8", errors="replace") for name in _DECLARE]
    for typed in find_commands(text, repository.top_levels, find_programs(*declared), repository.files):
        if all(_is_free(name, base) for name in typed.files):
            files = {name: _writable(content) for name, content in typed.files.items()}
            missing = next((name for name in typed.inputs if not _is_in(name, base)), "")
            command = _on_path(typed.root, typed.command)
            label = f"`{typed.command[:100]}`"
            yield _Attempt("command", label, command, files, missing, typed.is_mentioned)


def _writable(content: str) -> str:
    return content.encode(errors="replace").decode()  # without lone surrogates


def _is_in(name: str, base: Base) -> bool:
    """Whether the repository has a file or folder."""
    path = os.path.normpath(name)
    return not path.startswith(("/", "..", "~")) and os.path.lexists(base.tree / path)


def _is_free(name: str, base: Base) -> bool:
    """Whether a file can be put there: nothing has the name, and only folders are on the way."""
    path = base.tree / name
    above = [folder for folder in path.parents if folder.is_relative_to(base.tree)]
    return not os.path.lexists(path) and all(
        not os.path.lexists(folder) or (folder.is_dir() and not folder.is_symlink()) for folder in above
    )


def _on_path(root: str, command: str) -> str:
    # What PYTHONPATH holds already stays: the sandbox watches a run from there.
    return f'PYTHONPATH="{root}${{PYTHONPATH:+:$PYTHONPATH}}" {command}' if root else command


def _free_name(stem: str, taken: frozenset[str]) -> str:
    name, number = f"{stem}.py", 1
    while name in taken:
        number += 1
        name = f"{stem}_{number}.py"
    return name


def _claim(run: Replay, files: Mapping[str, str], basis: Basis) -> Reproduction:
    observed = run.output.strip()[-OBSERVED_CHARS:]
    return Reproduction(files=dict(files), command=run.command, claim=True, observed=observed, basis=basis)


def _why_no_claim(run: Replay, attempt: _Attempt, text: str, base: Base) -> str | None:
    """None: it failed, and not by a fault of its own."""
    if run.exit_code is None:
        return f"did not end within {run.seconds:.0f} s"
    if run.exit_code == 0:
        return "ran without an error"
    if run.killed or run.exit_code in (126, 127):
        return f"could not be run (exit code {run.exit_code})"
    tracebacks = read_tracebacks(run.output[-_END_CHARS:])
    if not tracebacks:
        if attempt.is_mentioned and not _is_pasted(run.output, text):
            return f"ended with exit code {run.exit_code}, which may be right"
        return _without_traceback(run, attempt, text)
    last = tracebacks[-1]
    # One test that fails by its own mistake would still fail after the right patch.
    judged = tracebacks if "unittest" in run.command or "pytest" in run.command else (last,)
    own = next((one for one in judged if _is_own_error(one, attempt, text, base)), None)
    if own is not None:
        return f"stopped on an error of its own ({_told(own)})"
    if last.type in _NEEDS_MORE and last.type not in text:
        return f"wants {_NEEDS_MORE[last.type]} ({_told(last)})"
    wanted = attempt.script.wanted if attempt.script and attempt.basis is None else ()
    wanted = tuple(name for name in wanted if name not in _handled(last, attempt, base))
    if wanted and last.type not in _CHECKS:
        return f"ended in {last.type}, and the issue expects {', '.join(wanted)}, which would end it too"
    named = set(_ERROR_NAME.findall(text))
    if attempt.expected is not None and last.type != attempt.expected:
        return f"ended in {last.type}, where the issue shows {attempt.expected}"
    if last.type not in (*_CHECKS, attempt.expected) and named and last.type not in named:
        return f"ended in {_told(last)}, and the issue names {', '.join(sorted(named)[:3])}"
    return None


def _handled(traceback: Traceback, attempt: _Attempt, base: Base) -> set[str]:
    """The exceptions that the attempt's own code catches around the line where it failed."""
    own = next((frame for frame in reversed(traceback.frames) if _relative(frame, base) in attempt.files), None)
    tree = parse_python(attempt.files[_relative(own, base)]) if own else None
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.Try)] if tree else []
    around = [node for node in blocks if own and node.body[0].lineno <= own.line <= (node.body[-1].end_lineno or 0)]
    types = [handler.type for node in around for handler in node.handlers if handler.type]
    return {ast.unparse(name).rpartition(".")[2] for kind in types for name in getattr(kind, "elts", [kind])}


def _is_own_error(traceback: Traceback, attempt: _Attempt, text: str, base: Base) -> bool:
    frame = next((frame for frame in reversed(traceback.frames) if _place(frame, attempt, base)), None)
    callers = [frame for frame in traceback.frames if frame.function not in ("", "<module>")]
    compiled = any(_place(caller, attempt, base) == "repository" for caller in callers)
    if traceback.type in _NO_ENVIRONMENT and not (compiled and traceback.type in _NOT_PARSED):
        return True
    if frame is None or _place(frame, attempt, base) == "repository":
        return frame is None
    lines = attempt.files[_relative(frame, base)].splitlines()
    on_purpose = traceback.type in _CHECKS or "raise " in "".join(lines[frame.line - 1 : frame.line])
    reported = bool(traceback.message) and f"{traceback.type}: {traceback.message}" in " ".join(text.split())
    return not (on_purpose or reported)


def _place(frame: Frame, attempt: _Attempt, base: Base) -> Literal["own", "repository"] | None:
    path = _relative(frame, base)
    if path in attempt.files:
        return "own"
    inside = not path.startswith(("/", "<")) and ".." not in PurePosixPath(path).parts
    return "repository" if inside and base.read(path) is not None else None


def _relative(frame: Frame, base: Base) -> str:
    path = PurePosixPath(frame.path)
    return str(path.relative_to(base.repo)) if path.is_relative_to(base.repo) else str(path)


def _is_pasted(output: str, text: str) -> bool:
    """Whether a block of the issue shows the last line of an output."""
    last = output.strip().rpartition("\n")[2].strip()
    shown = {line.strip() for block in find_blocks(text) for line in block.code.splitlines()}
    return len(last) >= _LEAST_SAID_CHARS and last in shown


def _without_traceback(run: Replay, attempt: _Attempt, text: str) -> str | None:
    """An exit code alone: the script's own, told by the issue in the same words, or of a failed test that it names."""
    report = read_runner(run.output)
    if report is not None:
        named = report.complete and not report.build_failed and any(test.test in text for test in report.failures)
        return None if named else "failed in no test that the issue names"
    raised = run.execution_trace.raised if run.execution_trace else ()
    if any(event.type == "SystemExit" and event.path in attempt.files for event in raised):
        return None
    last = run.output.strip().rpartition("\n")[2].strip()
    if len(last) >= _LEAST_SAID_CHARS and last in text:
        return None
    if last.partition(":")[0] == attempt.expected or last.partition(":")[0] in _ERROR_NAME.findall(text):
        return None  # the traceback before it is too long to be read
    return f"ended with exit code {run.exit_code}" + (f" ({last[:120]})" if last else "")


def _told(traceback: Traceback) -> str:
    return " ".join(f"{traceback.type}: {traceback.message}".rstrip(": ").split())[:120]


async def _existing_tests(text: str, suspects: Sequence[str], runs: _Runs) -> tuple[Replay | None, str]:
    """A test near the suspects that fails, alone too, as the issue says; else what the tests gave, in words."""
    near = await asyncio.to_thread(related_tests, runs.task_sandbox.base, suspects)
    suite = await find_suite(runs.task_sandbox) if near and runs.left_s() else None
    if suite is None or not (left_s := runs.left_s(TESTS_S)):
        return None, ""
    names = ", ".join(near[:3]) + (f" and {len(near) - 3} more" if len(near) > 3 else "")
    with runs.workspace() as workspace:
        first = await run_suite(runs.task_sandbox, workspace, suite, near, timeout_s=left_s)
    if not first.finished:
        return None, f"{names} did not end within {first.replay.seconds:.0f} s."
    alone = {test: command for test in first.failed if (command := _alone(test, suite))}
    if not first.passed and not alone:
        return None, f"{names} could not be run here."
    if not alone:
        return None, f"{names}: {len(first.passed)} tests pass, so the existing tests do not show it."
    for test in sorted(alone, key=lambda test: (-_shared(test, text), test)):
        if runs.left_s(TESTS_S):
            again = await runs.run(alone[test], most_s=TESTS_S)
            if again.exit_code == 1 and _agrees(again, text):
                return again, ""
    return None, f"{names}: not one test failed as the issue says."


def _alone(test: str, suite: Suite) -> str:
    """The command for one test; empty: what failed was loading, not a test."""
    if suite.runner == "pytest":
        return suite.command([test]) if "::" in test else ""
    return f"python -m unittest -v {test}" if re.fullmatch(r"[\w.]+", test) and "_FailedTest" not in test else ""


def _agrees(run: Replay, text: str) -> bool:
    """Whether a failure has the issue's exception, or most of the words of its message."""
    tracebacks = read_tracebacks(run.output[-_END_CHARS:])
    if not tracebacks or tracebacks[-1].type in _NO_ENVIRONMENT:
        return False
    last = tracebacks[-1]
    if last.type not in _CHECKS and last.type in _ERROR_NAME.findall(text):
        return True
    words = set(_WORD.findall(last.message.lower()))
    shared = words & set(_WORD.findall(text.lower()))
    return len(shared) >= 2 and len(shared) >= 0.6 * len(words)


def _shared(name: str, text: str) -> int:
    return len(set(re.findall(r"[a-z]{3,}", name.lower())) & set(re.findall(r"[a-z]{3,}", text.lower())))
