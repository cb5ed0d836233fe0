"""Measures on real bugs whether "reproduced" and "solved" are true.

    python bench/real_bugs.py --mirrors DIR --work DIR --half fresh2 --rows ROWS.jsonl --json RESULT.json
    python bench/real_bugs.py --mirrors DIR --work DIR --half seen --parts reproduction --show

Rows are those of real_bugs/reports.jsonl (see its README): a report as users write it, the commit with the bug, and the
fix with its tests, which judge here and nowhere else. DIR/owner+name/repo are bare clones; environments are made as
real_bugs_mine.py makes them. For each row:

- reproduction: recon and the gate work on the report. A kept claim is true if it passes once the fix is applied.
- fix: the upstream fix, with what it changes in tests, is given to the check as if a fixer had made it. If that says
  `failed`, the project's suite runs on both commits: some fixes do break tests, and then the check is right.
- wrong: parts and mutants of the fix that its tests refute are given to the check in the same way, three a bug.
- repair: the $0 repair tries as `scrout fix` lets it; the fix's tests judge its patch.
- guard: edits of repair that pass the reproduction and the tests, without its own taste and without the guard. The
  fix's tests say which of them are wrong, and the check which of them it doubts. Upstream fixes are the other side.
- grade: the tests that grading calls passed, with the gold patch and without any, are those that the runner calls so.

Rules may be made after a look at these groups: each has had its first one. See the README.
`--rows FILE` takes each row as it finishes. A run with the same file goes on after a cut-off: it leaves out rows that
are there with the same parts and without an error. Take a new file for another version of the code.
`--given FILE` takes the reproductions of an earlier run from its result instead of working them out again, and leaves
out rows that had none.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import contextlib
import json
import os
import random
import shlex
import shutil
import sys
import tempfile
import time
import traceback
import venv
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from real_bugs_mine import PROJECTS, Bench, git
from record import record

from scrout.base import FrozenModel
from scrout.batch.grading.grade import control
from scrout.batch.grading.judge import Case as Graded
from scrout.batch.grading.judge import GradingRun, gold_digest, open_judge
from scrout.check.check import check
from scrout.config.settings import RepairSettings, Settings
from scrout.files import JsonLines
from scrout.fix.fix import fix
from scrout.fix.kind import FixJob
from scrout.fix.kinds.repair import RepairFixer
from scrout.fix.repair import repair
from scrout.fix.repair.choice import can_stand
from scrout.gate.gate import gate
from scrout.git import GitDir, make_git_dir
from scrout.handoff import Handoff, Reproduction
from scrout.intervals import wilson
from scrout.records import Attempt, Evidence, GatedHandoff
from scrout.sandbox.probe import require_tier
from scrout.sandbox.replay import replay
from scrout.sandbox.suite import find_suite, run_on_base, run_suite
from scrout.sandbox.task_sandbox import TaskSandbox, open_task_sandbox
from scrout.sandbox.tier import Tier
from scrout.sandbox.workspace import Workspace
from scrout.scout.recon.recon import recon
from scrout.task import Gold, Task

REPORTS = Path(__file__).with_name("real_bugs") / "reports.jsonl"
LEFT_OUT = ("Textualize/rich",)
"""Projects that were looked at before."""
PARTS = ("reproduction", "fix", "wrong", "repair", "guard", "grade")
WRONG_EACH = 3
TRIED_EACH = 12
"""Mutants of a fix, of which those that its tests refute count."""
SURVIVORS_EACH = 4
SURVIVORS_S = 300.0
"""Longer than a user waits: a busy machine finds fewer in the same time."""
TESTS_S = 60.0
SUITE_S = 300.0
_AUTHOR = {
    f"GIT_{role}_{key}": value
    for role in ("AUTHOR", "COMMITTER")
    for key, value in (("NAME", "bench"), ("EMAIL", "bench@localhost"), ("DATE", "2024-01-01T00:00:00Z"))
}
Row = dict[str, Any]


class FinishedRow(FrozenModel):
    """One row of a run, as the file of `--rows` keeps it."""

    parts: tuple[str, ...]
    given: str | None
    """The name of an earlier result whose reproductions were taken."""
    result: Row


class KeptRows:
    """Results of rows, kept in a file as they finish, so that a run goes on after a cut-off."""

    def __init__(self, path: Path | None, parts: tuple[str, ...], given: str | None) -> None:
        self.parts = parts
        self._given = given
        self._file = JsonLines(path, FinishedRow) if path else None
        kept = self._file.read() if self._file else []
        self.done = {
            row.result["id"]: row.result
            for row in kept
            if (row.parts, row.given) == (parts, given) and "error" not in row.result
        }

    def add(self, result: Row) -> None:
        if self._file:
            self._file.append(FinishedRow(parts=self.parts, given=self._given, result=result))


class _Enough(Exception):
    """As many edits as are wanted."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirrors", type=Path, required=True, metavar="DIR", help="folder of owner+name/repo")
    parser.add_argument("--work", type=Path, required=True, metavar="DIR", help="folder for environments and trees")
    parser.add_argument(
        "--half", choices=("seen", "held", "fresh", "fresh2", "fresh3", "fresh4", "all"), default="seen"
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--limit", type=int, help="at most this many rows, spread over the projects")
    parser.add_argument("--only", nargs="+", metavar="ID", help="these rows alone")
    parser.add_argument("--given", type=Path, metavar="FILE", help="an earlier result, whose reproductions are taken")
    parser.add_argument("--at-once", type=int, default=2, metavar="N", help="rows at a time (default: 2)")
    parser.add_argument("--show", action="store_true", help="print what became of each row")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="rows that have finished; goes on after a cut-off")
    parser.add_argument("--json", type=Path, metavar="FILE")
    asked = parser.parse_args()
    rows = [json.loads(line) for line in REPORTS.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if asked.half in (row["half"], "all") and row["repo"] not in LEFT_OUT]
    if asked.only:
        rows = [row for row in rows if row["id"] in asked.only]
    given = kept_of(asked.given) if asked.given else {}
    if asked.given:
        rows = [row | {"given": given[row["id"]]} for row in rows if row["id"] in given]
    if asked.limit:
        rows = random.Random(1).sample(rows, min(asked.limit, len(rows)))
    work = asked.work.resolve()
    os.environ["XDG_CACHE_HOME"] = str(work / "cache")
    started = time.monotonic()
    parts = tuple(part for part in PARTS if part in asked.parts)
    source = asked.given.name if asked.given else None
    kept = KeptRows(asked.rows, parts, source)
    results = asyncio.run(run_all(rows, asked.mirrors.resolve(), work, kept, asked.at_once, asked.show))
    summary = {"half": asked.half, "seconds": round(time.monotonic() - started), **summarize(results)}
    # Output of commands names the folders of this machine.
    shown = json.loads(json.dumps(results).replace(json.dumps(str(work))[1:-1], "WORK"))
    record({**summary, "rows": shown}, asked.json)


def kept_of(path: Path) -> dict[str, Row]:
    """The rows of a result with a reproduction, by id."""
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return {row["id"]: row for row in rows if row.get("files")}


async def run_all(
    rows: Sequence[Row], mirrors: Path, work: Path, kept: KeptRows, at_once: int, show: bool
) -> list[Row]:
    tier = require_tier()
    slots = asyncio.Semaphore(at_once)

    async def one(row: Row) -> Row:
        if row["id"] in kept.done:
            return kept.done[row["id"]]
        async with slots:
            result: Row = {"id": row["id"], "form": row["form"], "has_code": row["has_code"]}
            try:
                result |= await run_row(row, mirrors, work, kept.parts, tier)
            except Exception as error:  # a bug here must not hide the other rows' figures
                traceback.print_exc()
                result["error"] = f"{type(error).__name__}: {error}"[:300]
            kept.add(result)
            print(json.dumps(result if show else {"id": row["id"]}, ensure_ascii=False), file=sys.stderr, flush=True)
            return result

    return await asyncio.gather(*(one(row) for row in rows))


async def run_row(row: Row, mirrors: Path, work: Path, parts: Sequence[str], tier: Tier) -> Row:
    project = next(project for project in PROJECTS if project.repo == row["repo"])
    bench = Bench(project, mirrors / row["repo"].replace("/", "+") / "repo", work, "")
    mirror = bench.mirror
    bench.prepare()
    repo = work / "repos" / row["id"]
    commit = await asyncio.to_thread(make_repository, row, bench, repo)
    patch = git(mirror, "diff", "--no-color", row["base_commit"], row["fix_commit"], "--", *row["source_files"])
    task = Task(id=row["id"], text=row["text"], repo=repo.resolve(), base_commit=commit)
    result: Row = {}
    try:
        with open_task_sandbox(task, tier, Settings()) as task_sandbox:
            case = Case(row, task, task_sandbox, mirror, patch)
            if "grade" in parts:
                await case.grade(result)
            if set(parts) == {"grade"}:
                return result
            gated = await case.reproduction(result)
            if "fix" in parts:
                await case.fix(gated, result)
            if "wrong" in parts:
                await case.wrong(gated, result)
            if "repair" in parts:
                await case.repair(gated, result)
            if "guard" in parts:
                await case.guard(gated, result)
    finally:
        shutil.rmtree(repo, ignore_errors=True)
    return result


def make_repository(row: Row, bench: Bench, repo: Path) -> str:
    """The tree with the bug as a repository without a history, and its environment beside it."""
    shutil.rmtree(repo, ignore_errors=True)
    repo.mkdir(parents=True)
    index = {"GIT_INDEX_FILE": str(repo.with_suffix(".index"))}
    tree = f"--work-tree={repo}"
    git(bench.mirror, tree, "read-tree", row["base_commit"], **index)
    git(bench.mirror, tree, "checkout-index", "-a", "-f", "-q", check=False, **index)  # large blobs may be missing
    Path(index["GIT_INDEX_FILE"]).unlink()
    for path, text in bench.project.generated.items():
        if (repo / path).parent.is_dir():
            (repo / path).write_text(text)
    make_git_dir(repo / ".git")
    own = GitDir.of(repo).with_variables(**_AUTHOR)
    own("add", "--all", "--force")
    commit = own.text("commit-tree", own.text("write-tree"), "-m", "base")
    folder = repo / ".venv"
    venv.create(folder, symlinks=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    shutil.copytree(
        next(bench.venv.glob("lib/python*/site-packages")), packages, copy_function=os.link, dirs_exist_ok=True
    )
    (packages / "project.pth").write_text("".join(f"{repo / part}\n" for part in ("src", "lib", "")))
    return commit


class Case:
    """One bug: what scrout makes of the report, and what the fix's tests say."""

    def __init__(self, row: Row, task: Task, task_sandbox: TaskSandbox, mirror: Path, patch: str) -> None:
        self.row = row
        self.task = task
        self.task_sandbox = task_sandbox
        self.mirror = mirror
        self.patch = patch

    async def reproduction(self, result: Row) -> GatedHandoff:
        if given := self.row.get("given"):
            names = ("first_file_right", "verdict", "basis", "reason", "files", "command", "reproduction")
            result |= {name: given[name] for name in names if name in given}
            return given_reproduction(given)
        scouting = await recon(self.task, self.task_sandbox, Settings().scout)
        gated = await gate(self.task, scouting.handoff, self.task_sandbox, Settings().gate)
        result["first_file_right"] = any(ref.path in self.row["source_files"] for ref in scouting.handoff.files[:1])
        result |= {"verdict": gated.verdict, "basis": gated.basis, "reason": gated.reason[:300]}
        result["dead_ends"] = [end[:400] for end in scouting.handoff.dead_ends]
        reproduction = gated.handoff.reproduction
        if not gated.kept or reproduction is None or reproduction.command is None:
            result["reproduction"] = "none"
            return gated
        result["files"] = dict(reproduction.files)
        result["command"] = reproduction.command
        workspace = await self.patched(self.patch)
        try:
            for path, content in reproduction.files.items():
                workspace.write(path, content.encode())
            after = await replay(
                self.task_sandbox, workspace, reproduction.command, timeout_s=Settings().gate.timeout_s
            )
        finally:
            workspace.remove()
        judged = "true" if after.exit_code == 0 else "false"
        if gated.verdict == "reproduced_exit_zero":
            judged = "true" if after.output != gated.evidence.output_tail else "false"
        result["reproduction"] = judged if gated.verified else f"assumed {judged}"
        if judged == "false":
            result["after_fix"] = after.output[-600:]
        return gated

    async def fix(self, gated: GatedHandoff, result: Row) -> None:
        checked = await check(self.task.text, gated, self.attempt(self.patch + self.tests()), self.task_sandbox)
        result["fix"] = checked.outcome
        result["fix_detail"] = [checked.detail[:300], *checked.doubts, *checked.missing]
        if checked.outcome == "failed":
            result["fix_breaks"] = await self.broken_by_fix()

    async def broken_by_fix(self) -> list[str]:
        """Tests of the project that pass on the commit with the bug and fail on the commit of the fix, as both are."""
        suite = await find_suite(self.task_sandbox)
        if suite is None:
            return []
        before = await run_on_base(self.task_sandbox, suite, timeout_s=SUITE_S)
        workspace = await self.patched(self.patch + self.tests())
        try:
            after = await run_suite(self.task_sandbox, workspace, suite, (), timeout_s=SUITE_S)
        finally:
            workspace.remove()
        return sorted(before.passed & after.failed)

    async def wrong(self, gated: GatedHandoff, result: Row) -> None:
        """Wrong patches, and what the check says of each."""
        result["wrong"] = []
        for kind, patch in await self.mutants():
            if len(result["wrong"]) == WRONG_EACH:
                break
            if patch and patch != self.patch and not await self.passes(patch):
                checked = await check(self.task.text, gated, self.attempt(patch), self.task_sandbox)
                result["wrong"].append([kind, checked.outcome])
                if checked.outcome == "passed":
                    result.setdefault("wrong_passed", []).append(patch)

    async def repair(self, gated: GatedHandoff, result: Row) -> None:
        with tempfile.TemporaryDirectory() as folder:
            fixer = RepairFixer(name="repair")
            job = FixJob(
                self.task, gated, self.task_sandbox, Settings(), lambda _: None, lambda _: None, folder=Path(folder)
            )
            attempt = await fix(fixer, job)
        result["repair"] = attempt.stop
        result["repair_seconds"] = round(attempt.seconds, 1)
        if attempt.patch:
            checked = await check(self.task.text, gated, attempt, self.task_sandbox)
            right = await self.passes(attempt.patch)
            result["repair"] = f"{checked.outcome} and {'right' if right else 'wrong'}"
            result["repair_patch"] = attempt.patch

    async def guard(self, gated: GatedHandoff, result: Row) -> None:
        """Edits that survive all but the check, each with whether it is right and what the check says of it."""
        survivors: list[str] = []

        async def collect(patch: str) -> str:
            survivors.append(patch)
            if len(survivors) == SURVIVORS_EACH:
                raise _Enough
            return "more are wanted"

        settings = RepairSettings(max_seconds=SURVIVORS_S)
        tasteless = mock.patch.object(repair, can_stand.__name__, lambda one, _: one.score)
        with tasteless, contextlib.suppress(_Enough):
            await repair.repair(gated, self.task_sandbox, settings, accept=collect)
        result["survivors"] = []
        for patch in survivors:
            right = "right" if await self.passes(patch) else "wrong"
            checked = await check(self.task.text, gated, self.attempt(patch), self.task_sandbox)
            result["survivors"].append([right, checked.outcome, patch, [*checked.doubts, *checked.missing]])

    async def grade(self, result: Row) -> None:
        """What grading and the runner say of the fix and of no patch."""
        gold = Gold(patch=self.patch, test_patch=self.tests(), fail_to_pass=tuple(self.row["fail_to_pass"]))
        judged = Graded(self.task, gold, gold_digest(self.task.base_commit, gold))
        judge = await open_judge(judged, self.task_sandbox, TESTS_S)
        controlled = await control(judge)
        result["control"] = [controlled.outcome, controlled.detail]
        result["grade_differs"] = []
        for name, patch in (("gold", self.patch), ("empty", "")):
            trial = await judge.trial(patch)
            passed = trial.passed if isinstance(trial, GradingRun) else frozenset[str]()
            by_runner = (await self.run_tests(patch))[1]
            result["grade_differs"] += [[name, test] for test in sorted(passed ^ by_runner)]
        result["grade"] = controlled.outcome == "held" and not result["grade_differs"]

    def tests(self) -> str:
        """What the fix changes in tests and their data."""
        commits = (self.row["base_commit"], self.row["fix_commit"])
        return git(self.mirror, "diff", "--binary", *commits, "--", *self.row["test_files"], check=False)

    def attempt(self, patch: str) -> Attempt:
        return Attempt(fixer="bench", patch=patch, stop="finished", detail="", seconds=0)

    async def patched(self, patch: str) -> Workspace:
        workspace = self.task_sandbox.fresh()
        refusal = await self.task_sandbox.apply(workspace, patch) if patch else ""
        if refusal:
            workspace.remove()
            raise RuntimeError(f"{self.row['id']}: the patch does not apply: {refusal[:200]}")
        return workspace

    async def passes(self, patch: str) -> bool:
        """Whether the tests of the fix pass with a patch."""
        return (await self.run_tests(patch))[0]

    async def run_tests(self, patch: str) -> tuple[bool, frozenset[str]]:
        """Whether all tests of the fix pass with a patch, and those that do, as the runner prints it."""
        workspace = await self.patched(patch)
        try:
            for path in self.row["test_files"]:
                workspace.write(path, git(self.mirror, "show", f"{self.row['fix_commit']}:{path}").encode())
            names = shlex.join(self.row["fail_to_pass"])
            options = "-q -rA -p no:cacheprovider -o addopts= -o filterwarnings= -W ignore --rootdir=."
            run = await self.task_sandbox.shell(workspace, f"python -m pytest {options} {names}", timeout_s=TESTS_S)
            said = {line.removeprefix("PASSED ") for line in run.text.splitlines() if line.startswith("PASSED ")}
            return run.exit_code == 0, frozenset(said.intersection(self.row["fail_to_pass"]))
        finally:
            workspace.remove()

    async def mutants(self) -> list[tuple[str, str]]:
        """Patches that do a part of what the fix does, or something else at its place."""
        found = [("a hunk less", patch) for patch in without_a_hunk(self.patch)]
        rng = random.Random(self.row["id"])
        made: list[tuple[str, str, str]] = []
        for path in self.row["source_files"]:
            before = self.task_sandbox.base.read(path)
            after = git(self.mirror, "show", f"{self.row['fix_commit']}:{path}")
            for kind, source in mutate(after, (before or b"").decode()):
                made.append((kind, path, source))
        rng.shuffle(made)
        for kind, path, source in made[: max(0, TRIED_EACH - len(found))]:
            found.append((kind, await self.diff(path, source)))
        return found[:TRIED_EACH]

    async def diff(self, path: str, source: str) -> str:
        workspace = await self.patched(self.patch)
        try:
            workspace.write(path, source.encode())
            return await self.task_sandbox.diff(workspace)
        finally:
            workspace.remove()


def given_reproduction(given: Row) -> GatedHandoff:
    command = given.get("command", f"python {next(iter(given['files']))}")
    return GatedHandoff(
        verdict=given["verdict"],
        kept=True,
        materialized=True,
        reason=given["reason"],
        evidence=Evidence(),
        handoff=Handoff(reproduction=Reproduction(files=given["files"], command=command, claim=True)),
        text="",
        basis=given["basis"],
    )


def without_a_hunk(patch: str) -> Iterator[str]:
    """The patch without each of its hunks, if it has several."""
    parts = [part for part in ("\n" + patch).split("\n@@")]
    hunks = len(parts) - 1
    if hunks < 2:
        return
    files = patch.split("\ndiff --git ")
    for number, file in enumerate(files):
        head, *pieces = file.split("\n@@")
        for skipped in range(len(pieces)):
            kept = pieces[:skipped] + pieces[skipped + 1 :]
            changed = "\n@@".join([head, *kept]) if kept else ""
            rest = [*files[:number], *([changed] if changed else []), *files[number + 1 :]]
            text = "\ndiff --git ".join(rest)
            yield (text if text.startswith("diff --git ") else f"diff --git {text}").rstrip("\n") + "\n"


def mutate(after: str, before: str) -> Iterator[tuple[str, str]]:
    """Sources with one change at a line that the fix wrote."""
    old = set(before.splitlines())
    lines = {number for number, line in enumerate(after.splitlines(), 1) if line not in old and line.strip()}
    try:
        tree = ast.parse(after)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if getattr(node, "lineno", None) not in lines:
            continue
        if isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPS:
            swapped = ast.unparse(
                ast.Compare(node.left, [_SWAPS[type(node.ops[0])](), *node.ops[1:]], node.comparators)
            )
            yield "another comparison", put(after, node, f"({swapped})")
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            yield "another number", put(after, node, str(node.value + 1))
        elif isinstance(node, ast.BoolOp):
            other = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
            yield "another operator", put(after, node, f"({ast.unparse(ast.BoolOp(other, node.values))})")
        elif isinstance(node, ast.If | ast.IfExp) and node.test.lineno in lines:
            yield "a condition negated", put(after, node.test, f"(not ({ast.unparse(node.test)}))")
            yield "a condition dropped", put(after, node.test, "True")
        elif isinstance(node, ast.Return) and node.value is not None:
            yield "nothing returned", put(after, node.value, "None")
        elif isinstance(node, ast.Expr | ast.Assign | ast.AugAssign):
            yield "a statement dropped", put(after, node, "pass")


_SWAPS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    **{ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt},
    **{ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In},
}


def put(source: str, node: ast.AST, text: str) -> str:
    """The source with other text in the place of a node."""
    lines = source.encode().splitlines(keepends=True)
    first, last = node.lineno - 1, node.end_lineno - 1  # type: ignore[attr-defined]
    head, tail = lines[first][: node.col_offset], lines[last][node.end_col_offset :]  # type: ignore[attr-defined]
    return b"".join([*lines[:first], head + text.encode() + tail, *lines[last + 1 :]]).decode()


def summarize(results: Sequence[Row]) -> Row:
    with_code = [row for row in results if row["has_code"] and "reproduction" in row]
    reproduced = Counter(row["reproduction"] for row in with_code)
    kept = [row for row in results if row.get("reproduction") in ("true", "false")]
    wrong = [outcome for row in results for _, outcome in row.get("wrong", ())]
    return {
        "bugs": len(results),
        "projects": len({row["id"].rpartition("-")[0] for row in results}),
        "errors": [row["id"] for row in results if "error" in row],
        "first_file_right": share(sum(row.get("first_file_right", False) for row in results), len(results)),
        "reproduction_where_the_report_has_code": {
            **dict(reproduced),
            "share_true": share(reproduced["true"], len(with_code)),
            "share_false": share(reproduced["false"], len(with_code)),
        },
        "by_form": {
            form: dict(Counter(row["reproduction"] for row in with_code if row["form"] == form))
            for form in sorted({row["form"] for row in with_code})
        },
        "without_code": dict(Counter(row.get("reproduction") for row in results if not row["has_code"])),
        "upstream_fix": {
            "all": dict(Counter(row["fix"] for row in results if "fix" in row)),
            "with_a_verified_reproduction": dict(Counter(row["fix"] for row in kept if "fix" in row)),
            "share_passed": share(sum(row.get("fix") == "passed" for row in kept), sum("fix" in row for row in kept)),
            "failed_and_breaks_tests_as_it_was_committed": sum(bool(row.get("fix_breaks")) for row in kept),
        },
        "wrong_patches": {**dict(Counter(wrong)), "share_passed": share(wrong.count("passed"), len(wrong))},
        "repair": dict(Counter(row["repair"] for row in results if "repair" in row)),
        "guard": guarded(results),
        "grade_agrees": share(sum(row.get("grade", False) for row in results), sum("grade" in row for row in results)),
    }


def guarded(results: Sequence[Row]) -> Row:
    """What the check doubts of repair's edits, and of true fixes. One that a test refutes has not survived."""
    survivors = [one for row in results for one in row.get("survivors", ()) if one[1] != "failed"]
    wrong = [outcome for right, outcome, *_ in survivors if right == "wrong"]
    upstream = [
        row["fix"] for row in results if row.get("reproduction") == "true" and row.get("fix", "failed") != "failed"
    ]
    true = [*upstream, *(outcome for right, outcome, *_ in survivors if right == "right")]
    return {
        "wrong_survivors_doubted": share(wrong.count("doubtful"), len(wrong)),
        "wrong_survivors_passed": share(wrong.count("passed"), len(wrong)),
        "upstream_fixes_doubted": share(upstream.count("doubtful"), len(upstream)),
        "true_fixes_doubted": share(true.count("doubtful"), len(true)),
    }


def share(count: int, of: int) -> Row:
    low, high = wilson(count, of)
    return {
        "count": count,
        "of": of,
        "share": round(count / of, 3) if of else None,
        "low": round(low, 3),
        "high": round(high, 3),
    }


if __name__ == "__main__":
    main()
