"""Does a patch change what the report does not complain about?

The changed functions, and the functions through which the reproduction and tests reach them, are called with varied
arguments on the base and on the patched tree, and the results are compared.
"""

from __future__ import annotations

import asyncio
import builtins
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from scrout.base import SandboxError
from scrout.check.agreement import Executed
from scrout.check.changed import ChangedFunction, unchanged_spans
from scrout.check.patch import FileChange
from scrout.check.patched import patched_workspace
from scrout.check.recording import Bounds, Entry, FunctionRecording, Observed, Version, record
from scrout.check.regression import SuiteComparison, arguments_of, without_tests
from scrout.check.swallowed_work import reported_literals, swallowed_work
from scrout.handoff import Reproduction
from scrout.sandbox.suite import Suite
from scrout.sandbox.task_sandbox import TaskSandbox
from scrout.text import clip

GUARD_S = 10.0
MAX_TESTS = 12
MAX_ENTRIES = 8
MAX_TOLD = 5
MAX_DISPUTED = 3
"""Of more tests it is not told whether each expected the bug."""
MIN_UNCHANGED = 5
"""Inputs with the same result that speak for a patch."""
AS_CALLED = "as called"
REPRODUCTION = Bounds(inputs=200, per_call=24, per_target=8, seconds=GUARD_S / 2)
TESTS = Bounds(inputs=240, per_call=10, per_target=24, seconds=GUARD_S / 2)
UNVARIED = Bounds(inputs=100, per_call=0, per_target=24, seconds=3 * GUARD_S)
"""Calls as they are: few, so that they need no haste."""
RUN_TIMEOUT_S = 40.0
"""For a run with all that it starts and collects; what is varied in it ends earlier."""

_MISTAKES = ("TypeError", "AttributeError", "IndexError", "NameError", "UnboundLocalError", "RecursionError")
"""Exceptions by which code fails, rather than refuses."""
_NEGATIVE = re.compile(r"(?<![\w.)\]])-\d")


@dataclass(frozen=True)
class GuardComparison:
    """What the changed functions did in both versions."""

    reproduction: Mapping[Version, FunctionRecording]
    tests: Mapping[Version, FunctionRecording]
    runs: tuple[_Run, ...] = ()
    """What was recorded on the patched tree: the reproduction, and tests if there are any."""


Kind = Literal["lost", "raises", "changed", "cured", "effects"]
"""What became of an input: `lost`: a real value became nothing or an exception. `raises`: nothing became an exception.
`changed`: another value. `cured`: an exception became a value, or another exception. `effects`: what it printed, or did
to its arguments, differs."""


@dataclass(frozen=True)
class Difference:
    """An input that the two versions treat differently."""

    kind: Kind
    complained: bool
    """Whether the report complains about it: on the base it takes the path of a failing call of the reproduction, or
    ends with the same exception in the same function."""
    shown: bool
    """Whether it executes only changed lines that a failing call of the reproduction executes too."""
    expected: bool
    """Whether it now ends as a failing call of the reproduction does: with the same exception, or with nothing."""
    called: bool
    """Whether the reproduction or a test calls it so; else it is a variation."""
    affected: bool
    """Whether the call that it varies is treated differently itself."""
    negative: bool
    """Whether it makes a number negative, of a call that has no negative number."""
    in_tests: bool
    context: str
    """The test; empty: it is the reproduction's."""
    function: str
    old: Observed
    new: Observed

    def sentence(self) -> str:
        call = f"{self.function}({clip(self.old.shown, 120)})"
        return f"{call} {_end(self.old)} before the patch and {_end(self.new)} with it."


@dataclass(frozen=True)
class GuardReport:
    """What the guard says of a patch."""

    doubts: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    unchanged: int = 0
    """Inputs with a real value that the report does not complain about, and whose result is the same."""
    compared: GuardComparison | None = None
    """None: there is no function that is in both versions."""

    @property
    def agrees(self) -> bool:
        return not self.doubts and self.unchanged >= MIN_UNCHANGED

    def sentence(self) -> str:
        return f"{self.unchanged} varied inputs that the report does not complain about give the same as before."


@dataclass(frozen=True)
class AlterationEffect:
    """What an alteration of a patch changes."""

    unchanged: int = 0
    """Inputs that execute the altered place, and whose result is the same."""
    undecided: str = ""
    """An input that shows a difference, of which the report, the base and the tests do not say what is right."""


@dataclass(frozen=True)
class _Run:
    """A command whose calls are varied."""

    command: str
    files: Mapping[str, str]
    bounds: Bounds
    entries: tuple[Entry, ...]


async def guard(
    changes: Sequence[FileChange],
    functions: Sequence[ChangedFunction],
    reproduction: Reproduction,
    patch: str,
    suite: Suite | None,
    executed: Executed,
    task_sandbox: TaskSandbox,
) -> GuardReport:
    """Compare the changed functions before and after the patch, from where the reproduction and tests call them."""
    if not any(function.before and function.after for function in functions):
        return GuardReport()
    step = max(1, len(executed.calling) // MAX_TESTS)
    names = arguments_of(suite, executed.calling[::step][:MAX_TESTS]) if suite else ()
    compared = await observe(changes, functions, reproduction, patch, suite, names, executed.entries, task_sandbox)
    script = "\n".join(content for path, content in reproduction.files.items() if path.endswith(".py"))
    return replace(judge(functions, script, compared, changes), compared=compared)


async def observe_altered(
    compared: GuardComparison,
    functions: Sequence[ChangedFunction],
    patch: str,
    altered: Mapping[str, str],
    task_sandbox: TaskSandbox,
) -> tuple[FunctionRecording, ...]:
    """What the same runs give on the patched tree with other files in the place of some of it."""
    runs = (_record(run, functions, patch, "after", task_sandbox, altered) for run in compared.runs)
    return tuple(await asyncio.gather(*runs))


@dataclass(frozen=True)
class DisputedTests:
    """Tests that the patch breaks and rewrites or removes, and that may have expected the bug.

    As rewritten they pass, and still call a changed function. Of a removed one all calls with another result ended with
    an exception such as the reported one.
    """

    names: frozenset[str] = frozenset()
    asserting: frozenset[str] = frozenset()
    """Those whose calls end, on the base, with the exception that the report complains about, or now with the one that
    it asks for: they expected the bug."""
    reported: frozenset[str] = frozenset()
    """Those whose calls with another result are all such as the report complains about."""


async def disputed_tests(
    changes: Sequence[FileChange],
    functions: Sequence[ChangedFunction],
    reproduction: Reproduction,
    tested: SuiteComparison,
    task_sandbox: TaskSandbox,
) -> DisputedTests:
    """They may call with other arguments as the patch rewrites them. More than a few do not all expect the bug."""
    suite, rewritten = tested.suite, arguments_of(tested.suite, sorted(tested.rewritten)) if tested.suite else ()
    if suite is None or not (tested.rewritten or tested.removed):
        return DisputedTests()
    still = frozenset[str]()
    if rewritten:
        whole, left = "".join(change.section for change in changes), _Run(suite.command(rewritten), {}, Bounds(), ())
        recorded = await _record(left, functions, whole, "after", task_sandbox)
        still = frozenset(name for name in tested.rewritten if recorded.tests.get(name))
    if len(tested.rewritten | tested.removed) > MAX_DISPUTED:
        return DisputedTests(still)
    names, source = arguments_of(suite, sorted(still | tested.removed)), without_tests(changes)
    compared = await observe(changes, functions, reproduction, source, suite, names, (), task_sandbox, UNVARIED)
    expecting = tests_of_the_bug(functions, compared)
    known = still | (tested.removed & expecting.names)
    return DisputedTests(known, known & expecting.asserting, known & expecting.reported)


def tests_of_the_bug(functions: Sequence[ChangedFunction], compared: GuardComparison) -> DisputedTests:
    """Tests by all of their calls that have another result. `names` are those where all ended with an exception such as
    the reported one, wherever it comes from."""
    complaint, touched = _Complaint(compared), _Touched(functions)
    by_test: dict[str, list[_Pair]] = {}
    for row in _pairs(compared.tests):
        if row.called and row.usable and row.differs:
            by_test.setdefault(row.context, []).append(row)

    def where(holds: Callable[[_Pair], bool]) -> frozenset[str]:
        return frozenset(name for name, rows in by_test.items() if all(map(holds, rows)))

    return DisputedTests(
        names=where(complaint.ended_alike),
        asserting=where(complaint.is_asserted),
        reported=where(lambda row: complaint.includes(row, touched)),
    )


async def observe(
    changes: Sequence[FileChange],
    functions: Sequence[ChangedFunction],
    reproduction: Reproduction,
    patch: str,
    suite: Suite | None,
    tests: Sequence[str],
    entries: Sequence[Entry],
    task_sandbox: TaskSandbox,
    bounds: Bounds | None = None,
) -> GuardComparison:
    """Vary the calls of the reproduction, and those of these tests, which come into the repository by `entries`."""
    shown = _Run(reproduction.command or "true", reproduction.files, Bounds(), ())
    first = await _record(shown, functions, patch, "after", task_sandbox)
    shown = _Run(shown.command, shown.files, bounds or REPRODUCTION, first.entries[:MAX_ENTRIES])
    of_reproduction, shown = await _both(shown, changes, functions, patch, task_sandbox)
    if not suite or not tests:
        return GuardComparison(of_reproduction, {}, (shown,))
    tested = _Run(suite.command(tests), {}, bounds or TESTS, tuple(entries[:MAX_ENTRIES]))
    of_tests, tested = await _both(tested, changes, functions, patch, task_sandbox)
    return GuardComparison(of_reproduction, of_tests, (shown, tested))


async def _both(
    run: _Run,
    changes: Sequence[FileChange],
    functions: Sequence[ChangedFunction],
    patch: str,
    task_sandbox: TaskSandbox,
) -> tuple[dict[Version, FunctionRecording], _Run]:
    """What a run gives in both versions; and the run as it was recorded on the patched tree."""
    moved = unchanged_spans(changes)
    places = {(path, old.first): new.first for path, spans in moved.items() for old, new in spans}
    after = {(path, new): old for (path, old), new in places.items()}
    changed = {change.path for change in changes}
    on_base = [
        (path, after.get((path, first), 0) if path in changed else first, name) for path, first, name in run.entries
    ]
    usable = [pair for pair in zip(run.entries, on_base, strict=True) if pair[1][1]]
    on_base_run = replace(run, entries=tuple(old for _, old in usable))
    run = replace(run, entries=tuple(new for new, _ in usable))
    before, now = await asyncio.gather(
        _record(on_base_run, functions, "", "before", task_sandbox),
        _record(run, functions, patch, "after", task_sandbox),
    )
    return {"before": before, "after": now}, run


async def _record(
    run: _Run,
    functions: Sequence[ChangedFunction],
    patch: str,
    version: Version,
    task_sandbox: TaskSandbox,
    altered: Mapping[str, str] | None = None,
) -> FunctionRecording:
    try:
        async with patched_workspace(task_sandbox, patch, {**(altered or {}), **run.files}) as workspace:
            return await record(
                task_sandbox,
                workspace,
                run.command,
                functions,
                version,
                timeout_s=RUN_TIMEOUT_S,
                bounds=run.bounds,
                entries=run.entries,
                own=list(run.files),
            )
    except SandboxError:
        return FunctionRecording()


def judge(
    functions: Sequence[ChangedFunction], script: str, compared: GuardComparison, changes: Sequence[FileChange] = ()
) -> GuardReport:
    """What speaks against a patch. `script` is the reproduction's code."""
    differences, unchanged = differences_of(functions, compared)
    strong = [one for one in differences if _is_strong(one)]
    weak = [one for one in differences if not one.complained and not _is_strong(one)]
    doubts = [*swallowed_work(functions), *reported_literals(functions, script, changes)]
    doubts += [one.sentence() for one in _first_of_each(strong)]
    flags = [f"treats an input differently: {one.sentence()}" for one in _first_of_each(weak)]
    return GuardReport(tuple(doubts[:MAX_TOLD]), tuple(flags[:MAX_TOLD]), unchanged)


def differences_of(functions: Sequence[ChangedFunction], compared: GuardComparison) -> tuple[list[Difference], int]:
    """All differences, and how many inputs with a real value have none."""
    complaint = _Complaint(compared)
    touched = _Touched(functions)
    known = frozenset[str]().union(*(touched.lines(row) for row in complaint.failing))
    forms = {(row.function, _form(row.new)) for row in complaint.failing if row.new}
    differences: list[Difference] = []
    unchanged = 0
    for recordings, in_tests in ((compared.reproduction, False), (compared.tests, True)):
        for row in _pairs(recordings):
            if row.new is None or not row.usable:
                continue
            complained = complaint.covers(row.old)
            if row.differs:
                kind = _kind(row.old, row.new)
                differences.append(
                    Difference(
                        kind,
                        complained,
                        touched.lines(row) <= known,
                        (row.function, _form(row.new)) in forms,
                        row.called,
                        row.affected,
                        row.negative,
                        in_tests,
                        row.context,
                        row.function,
                        row.old,
                        row.new,
                    )
                )
            elif not complained and row.old.kind == "returned" and row.old.real:
                unchanged += 1
    return differences, unchanged


def effect_of(
    functions: Sequence[ChangedFunction],
    compared: GuardComparison,
    altered: Sequence[FunctionRecording],
    path: str,
    line: int,
) -> AlterationEffect:
    """What an alteration of the patched tree at that line changes, of what the runs have shown."""
    place = _place(functions, path, line)
    complaint = _Complaint(compared)
    unchanged = 0
    of_runs = ((compared.reproduction, False), (compared.tests, True))
    for (recordings, in_tests), now in zip(of_runs, altered, strict=False):
        base = {call.identity: dict(call.inputs) for call in recordings["before"].calls}
        for row in _pairs({"before": recordings["after"], "after": now}):
            if row.new is None or not row.usable or place not in row.old.lines:
                continue
            if not row.differs_visibly:
                unchanged += 1
            elif not _is_decided(row, row.new, base.get(row.identity, {}).get(row.name), complaint, in_tests=in_tests):
                call = f"{row.function}({clip(row.old.shown, 120)})"
                return AlterationEffect(unchanged, f"{call} {_end(row.new)} and no longer {_end(row.old)}")
    return AlterationEffect(unchanged)


def _place(functions: Sequence[ChangedFunction], path: str, line: int) -> str:
    """A line of the patched tree, as executed lines are told; empty: it is in no changed function."""
    for number, function in enumerate(function for function in functions if function.after):
        if function.path == path and function.after and function.after.first <= line <= function.after.last:
            return f"{number}:{line}"
    return ""


def _is_decided(row: _Pair, altered: Observed, base: Observed | None, complaint: _Complaint, *, in_tests: bool) -> bool:
    """Whether it is known that the patch is right for an input that an alteration changes, or whether it matters.

    The base says so if it gives the same, unless the report complains about the input; tests vouch for their calls. And
    an alteration that fails by a mistake is wrong. What a negative number gives does not matter, nor which exception a
    variation ends with.
    """
    if not row.called and (row.negative or row.old.kind == altered.kind == "raised"):
        return True
    if row.old.kind == "returned" and _form(altered) in _MISTAKES and _form(altered) not in complaint.forms:
        return True
    return base is not None and base.result == row.old.result and (in_tests or not complaint.covers(base))


class _Complaint:
    """What the report complains about, as the reproduction shows it."""

    def __init__(self, compared: GuardComparison) -> None:
        shown = [row for row in _pairs(compared.reproduction) if row.called]
        self.failing = [row for row in shown if row.new and row.usable and row.differs] or shown
        self._paths = {frozenset(row.old.lines) for row in self.failing}
        self.forms = {_form(row.new) for row in self.failing if row.new}
        """How failing calls end with the patch."""
        self._symptoms = {(row.old.value, row.old.where) for row in self.failing if row.old.kind == "raised"}

    def covers(self, old: Observed) -> bool:
        """Whether an input takes the path of a failing call on the base, or ends with its exception in its function."""
        return frozenset(old.lines) in self._paths or self.is_symptom(old)

    def is_symptom(self, seen: Observed) -> bool:
        """Whether a call ends with the exception of a failing call, in the same function."""
        return seen.kind == "raised" and (seen.value, seen.where) in self._symptoms

    def ended_alike(self, row: _Pair) -> bool:
        """Whether a call no longer ends with the exception of a failing call, in whichever function."""
        raised = row.old.kind == "raised" and row.old.value in {value for value, _ in self._symptoms}
        return raised and row.new is not None and (row.new.kind, row.new.value) != (row.old.kind, row.old.value)

    def is_asserted(self, row: _Pair) -> bool:
        """Whether a call no longer ends with the exception of a failing call, or now as a failing call does: with the
        exception that the report asks for."""
        if row.new is None or row.old.kind != "raised":
            return False
        as_asked = row.new.kind == "raised" and _form(row.new) in self.forms
        return as_asked or (self.is_symptom(row.old) and not self.is_symptom(row.new))

    def includes(self, row: _Pair, touched: _Touched) -> bool:
        """Whether the report complains about a call, or it comes to changed lines by a part of a failing call's path,
        or by all of it and more."""
        lines = frozenset(row.old.lines)
        near = any(lines <= path or (path and path <= lines) for path in self._paths)
        return self.covers(row.old) or (near and bool(touched.lines(row)))


@dataclass(frozen=True)
class _Pair:
    """One input on both sides."""

    function: str
    called: bool
    old: Observed
    new: Observed | None
    """None: the patched code never came to this call."""
    affected: bool = False
    negative: bool = False
    context: str = ""
    identity: tuple[str, str, str] = ("", "", "")
    """Of the call."""
    name: str = ""
    """Of the input."""

    @property
    def usable(self) -> bool:
        ended = ("returned", "raised")
        return self.new is not None and self.old.kind in ended and self.new.kind in ended

    @property
    def differs(self) -> bool:
        return self.new is None or self.old.result != self.new.result

    @property
    def differs_visibly(self) -> bool:
        """Whether it differs in more than private attributes of arguments, of a call that gives a real value."""
        if self.new is None or not (self.old.kind == "returned" and self.old.real):
            return self.differs
        return self.old.visible_result != self.new.visible_result


class _Touched:
    """Which changed lines an input executes, on both sides."""

    def __init__(self, functions: Sequence[ChangedFunction]) -> None:
        before = [function for function in functions if function.before and function.old_path]
        after = [function for function in functions if function.after]
        self.old = {f"{number}:{line}" for number, one in enumerate(before) for line in one.old_lines}
        self.new = {f"{number}:{line}" for number, one in enumerate(after) for line in one.lines}

    def lines(self, row: _Pair) -> frozenset[str]:
        new = row.new.lines if row.new else ()
        old = (f"-{line}" for line in row.old.lines if line in self.old)
        return frozenset((*old, *(f"+{line}" for line in new if line in self.new)))


def _pairs(recordings: Mapping[Version, FunctionRecording]) -> Iterator[_Pair]:
    if not recordings:
        return
    after = {call.identity: dict(call.inputs) for call in recordings["after"].calls}
    for call in recordings["before"].calls:
        inputs = after.get(call.identity, {})
        function = call.target.partition("::")[2]
        affected = any(_Pair(function, True, old, inputs.get(name)).differs for name, old in call.inputs[:1])
        below_zero = any(_NEGATIVE.search(old.shown) for _, old in call.inputs[:1])
        for name, old in call.inputs:
            negative = not below_zero and bool(_NEGATIVE.search(name))
            yield _Pair(
                function,
                name == AS_CALLED,
                old,
                inputs.get(name),
                affected,
                negative,
                call.context,
                call.identity,
                name,
            )


def _form(seen: Observed) -> str:
    """How a call ended: the exception, nothing, or a value."""
    if seen.kind == "raised":
        return seen.value
    return "a value" if seen.real else "nothing"


def _kind(old: Observed, new: Observed) -> Kind:
    if (old.kind, old.value) == (new.kind, new.value):
        return "effects"
    if old.kind == "raised":
        return "cured"
    if old.real and (new.kind == "raised" or not new.real):
        return "lost"
    return "raises" if new.kind == "raised" else "changed"


def _is_strong(one: Difference) -> bool:
    """Tests vouch for what the base does with their calls, so that variations of these are not complained about."""
    if one.kind == "lost":
        return (one.in_tests or not one.complained) and not (one.shown and (one.affected or one.expected))
    if one.in_tests and one.affected:
        return False  # the test passes with a changed result of this very call, so it vouches for the change
    if one.kind == "changed" and one.negative:
        return False  # a length, a count or a share has no meaning below zero
    if one.kind == "raises" and not hasattr(builtins, one.new.value):
        return False  # the project's own exception refuses an input, of which no result was known to be right
    if one.kind in ("changed", "raises"):
        return not one.shown and not one.complained and not one.called
    if one.kind == "cured":
        return not one.shown and not one.complained and one.new.kind == "returned" and not one.new.real
    return False


def _first_of_each(differences: Sequence[Difference]) -> list[Difference]:
    """One of each kind in each function, real calls before variations."""
    found: dict[tuple[str, str], Difference] = {}
    for one in sorted(differences, key=lambda one: not one.called):
        found.setdefault((one.function, one.kind), one)
    return list(found.values())


def _end(seen: Observed) -> str:
    if seen.kind == "raised":
        return f"raises {clip(seen.value, 60)}"
    return f"gives {clip(seen.value, 80)}"
