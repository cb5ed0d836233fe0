"""Measures the gate on labelled claims: how many false ones it keeps, how many true ones it loses.

    python bench/gate.py --packages DIR --group measure3 --each 3 --json bench/results/gate.json
    python bench/gate.py --packages DIR --group dev2 --forms seen
    python bench/gate.py --packages DIR --group dev2 --labels

DIR is a cache of wheels; what is missing is downloaded with pip by name and version, which needs a package index. Each
package becomes a git repository with one seeded bug a commit (see gate_bugs.py) and a .venv with pytest. Every claim
is first run on the tree with the bug and on the tree without it: a true one must fail on the first and pass on the
second, a false one must end the same way on both. A claim for which that does not hold is dropped and counted. Then
the gate sees the tree with the bug, as it would at work. `--labels` stops before that.

Beside the gate stands the rule of the paper's release: one run, a shell without pipefail, and a claim is kept if its
command does not exit with 0. Its files are written for it here, which the release did not do.

`dev` and `dev2` are for whoever works on the gate's rules, with `--forms seen`: the held half of the harder forms is
for the figure. So are the other groups, and each is fresh only once: a rule that was made after a look at one is
measured on the next. `measure` to `measure10` and all forms have been looked at.

All forms on all packages take long. With `--each 3` every form is used for three packages at most, which take turns.
Claims are judged in a random order, so that those of a run which was cut short are a fair sample. With `--json FILE`
each result is kept beside it as it comes: the same command takes up the rest, unless the gate has changed in between,
and with `--minutes 0` it reports what there is.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import math
import os
import platform
import random
import re
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import get_args

from gate_bugs import Bug, seed_bugs
from gate_claims import Claim, make_claims
from gate_forms import Split
from gate_targets import Target, find_targets, still_work

import scrout
import scrout.gate
from scrout.base import FrozenModel
from scrout.config.settings import GateSettings, Settings
from scrout.files import JsonLines
from scrout.gate.gate import gate
from scrout.git import GitDir, make_git_dir
from scrout.intervals import wilson
from scrout.records import GatedHandoff
from scrout.sandbox.probe import require_tier
from scrout.sandbox.task_sandbox import TaskSandbox, open_task_sandbox
from scrout.sandbox.tier import Completed, Tier
from scrout.task import Task, task_id

GROUPS = {
    "dev": (
        "inflection==0.5.1",
        "more-itertools==11.2.1",
        "webcolors==25.10.0",
        "jmespath==1.1.0",
        "isodate==0.7.2",
    ),
    "measure": (
        *("toolz==1.2.0", "boltons==26.2.0", "sortedcontainers==2.4.0", "humanize==4.16.0"),
        *("natsort==8.4.0", "semver==3.1.1", "tabulate==0.10.0", "parse==1.22.4"),
    ),
    "measure2": (
        *("python-stdnum==2.2", "jsonpointer==3.11", "ordered-set==4.1.0", "anytree==2.13.0"),
        *("w3lib==2.5.0", "dictdiffer==0.10.0", "braceexpand==0.1.7", "pygtrie==2.6.2"),
    ),
    "dev2": (
        "case-conversion==3.0.2",
        "uritools==6.1.3",
        "smartypants==2.0.2",
        "pyjarowinkler==3.0.0",
        "simpleeval==1.0.8",
    ),
    "measure3": (
        *("rfc3986==2.0.0", "idna==3.20", "funcy==2.1", "fuzzywuzzy==0.18.0"),
        *("hjson==3.1.0", "uritemplate==4.2.0", "colour==0.1.5", "base58==2.1.1"),
        *("bech32==1.2.0", "dpath==2.2.0", "sqlparse==0.6.1", "python-intervals==1.10.0.post1"),
    ),
    "measure4": (
        *("emoji==2.16.0", "exrex==0.12.0", "geojson==3.3.0", "jsonpickle==4.1.4", "multipledispatch==1.0.0"),
        *("pathvalidate==3.3.1", "pyhumps==3.8.0", "pyluach==2.3.0", "pyisbn==1.4.3", "zxcvbn==4.5.0"),
        *("pyeditdistance==1.0.1", "asttokens==3.0.2", "asteval==1.0.10", "lunardate==0.3.0"),
    ),
    "measure5": (
        *("jaconv==0.5.0", "iptools==0.7.0", "configobj==5.0.9", "hashids==1.3.1", "astor==0.8.1"),
        *("jdcal==1.4.1", "sexpdata==1.0.2", "pybase62==1.0.0", "nameparser==2.6.0", "webencodings==0.6.1"),
        *("shortuuid==1.0.13", "parso==0.8.7", "strsimpy==0.2.1", "parsy==2.2"),
    ),
    "measure6": (
        *("roman==5.2", "pytimeparse==1.1.10", "munch==4.0.0", "isbnlib==3.10.14", "bitmath==2.1.1"),
        *("flatten-dict==0.5.0", "quantiphy==2.23", "aniso8601==10.0.1", "iso8601==2.1.0", "base36==0.1.1"),
        *("pluralizer==2.0.0", "pyhamcrest==2.1.0", "crccheck==1.3.1", "ansicolors==1.1.8"),
        *("langcodes==3.5.1", "toposort==1.10", "mergedeep==1.3.4"),
    ),
    "measure7": (
        *("hsluv==5.0.5", "sly==0.5", "terminaltables==3.1.10", "zhconv==1.4.1", "greenery==4.2.3", "lenses==1.2.0"),
        *("haversine==2.9.0", "prefixed==0.9.0", "whatthepatch==1.0.7", "bencode.py==4.1.0", "pysubs2==1.8.1"),
        *("json5==0.17.3", "personnummer==3.2.1", "svg.path==7.1", "segno==1.6.6", "utm==0.9.0"),
        *("permutation==0.5.0", "texttable==1.7.2"),
    ),
    "measure8": (
        *("scanf==1.5.2", "hijridate==2.6.0", "pychord==1.4.1", "textwrap3==0.9.2", "pyotp==2.12.0", "linesep==0.5.2"),
        *("funcparserlib==1.0.1", "pylev==1.4.0", "textdistance==4.6.3", "fiscalyear==0.4.0", "bracex==3.2.2"),
        *("jamo==0.4.1", "macaddress==2.0.2", "kanjize==1.6.1", "python-string-utils==1.0.0"),
    ),
    "measure9": (
        *("addict==2.4.0", "anyascii==0.3.3", "asciitree==1.0.0", "base45==0.4.4", "base91==1.0.1", "chess==1.10.0"),
        *("configupdater==4.1.1", "cssselect==1.6.0", "dotty-dict==1.3.1", "iso3166==3.0.0", "leb128==1.0.9"),
        *("korean-lunar-calendar==0.4.0", "mnemonic==0.21", "netaddr==1.3.0", "phonetics==1.0.4", "polyline==2.0.4"),
        *("pyphen==0.18.1", "radix-tree==0.0.3", "roman-numerals==4.1.0", "titlecase==2.3", "tomlkit==0.15.2"),
    ),
    "measure10": (
        *("mpmath==1.4.1", "lark==1.3.1", "pathspec==1.1.1", "bintrees==2.0.4", "decorator==5.3.1"),
        *("geographiclib==2.1", "Arpeggio==2.0.3", "immutabledict==4.3.1", "frozendict==2.5.1", "zipp==4.1.2"),
    ),
}
"""Published packages that are pure Python and need no others. Those whose examples show no seeded bug are left out."""
PYTEST = ("pytest==8.3.5", "pluggy==1.6.0", "iniconfig==2.1.0", "packaging==25.0")
"""What tests in the repositories run with; the last release of pytest that needs nothing else."""
BUGS_EACH = 9
FOLDER = "gate-bench-"
CONTAINER_PATHS = ("/app", "/testbed")
WHY_APART = (
    "These claims are false, but what they show is real: the command fails in the repository's own code or on a value "
    "that it really gives. Only somebody who knows the right behaviour, or has the fix, can tell; the gate sees the "
    "unpatched repository alone. They are not part of the precision above."
)
_AUTHOR = {
    f"GIT_{role}_{key}": value
    for role in ("AUTHOR", "COMMITTER")
    for key, value in (("NAME", "bench"), ("EMAIL", "bench@localhost"), ("DATE", "2024-01-01T00:00:00Z"))
}


@dataclass(frozen=True)
class Project:
    """A package as a repository."""

    name: str
    version: str
    repo: Path
    good: str
    """The commit without any bug."""
    bad: dict[Bug, str]
    """A commit for each bug. It has no parents: the history does not give the fix away."""
    targets: dict[Bug, tuple[Target, ...]]
    """Functions that work in spite of each bug."""


@dataclass(frozen=True)
class Result:
    """What became of one claim."""

    claim: Claim
    verified: str
    """Empty: the label holds. Else why it does not, and nothing else was done with the claim."""
    gated: GatedHandoff | None = None
    """None: the label does not hold, or only labels were asked for."""
    exit_code: int | None = None
    last_line: str = ""
    """The end of the output on the tree with the bug."""
    release_kept: bool = False
    seconds: float = 0.0


class StoredResult(FrozenModel):
    """A result in a file, for a run that is taken up where it was stopped."""

    judged: str
    """Digest of the claim and of what judged it."""
    verified: str
    gated: GatedHandoff | None
    exit_code: int | None
    last_line: str
    release_kept: bool
    seconds: float


class ResultFile:
    """Results on the disk, written as they come."""

    def __init__(self, path: Path, settings: GateSettings) -> None:
        code = b"".join(file.read_bytes() for file in sorted(Path(scrout.gate.__file__).parent.rglob("*.py")))
        self._judge = hashlib.sha256(code + settings.model_dump_json().encode()).hexdigest()
        self._lines = JsonLines(path, StoredResult)
        self._known = {stored.judged: stored for stored in self._lines.read()}

    def find(self, claim: Claim) -> Result | None:
        """What became of a claim in an earlier run, by the same gate."""
        stored = self._known.get(self._digest(claim))
        if stored is None:
            return None
        told = (stored.verified, stored.gated, stored.exit_code, stored.last_line, stored.release_kept, stored.seconds)
        return Result(claim, *told)

    def add(self, result: Result) -> None:
        self._lines.append(
            StoredResult(
                judged=self._digest(result.claim),
                verified=result.verified,
                gated=result.gated,
                exit_code=result.exit_code,
                last_line=result.last_line,
                release_kept=result.release_kept,
                seconds=result.seconds,
            )
        )

    def remove(self) -> None:
        self._lines.path.unlink(missing_ok=True)

    def _digest(self, claim: Claim) -> str:
        told = f"{self._judge} {claim.id} {claim.issue} {claim.reproduction!r}"
        return hashlib.sha256(told.encode("utf-8", "backslashreplace")).hexdigest()


class NoBugError(Exception):
    """A package shows no bug that could be seeded into it."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=Path, required=True, metavar="DIR", help="folder for downloaded wheels")
    parser.add_argument("--group", choices=sorted(GROUPS), default="dev")
    parser.add_argument("--names", nargs="+", metavar="NAME==VERSION", help="these packages instead of a group's")
    parser.add_argument("--forms", choices=(*get_args(Split), "all"), default="all", help="which forms")
    parser.add_argument("--each", type=int, metavar="N", help="use every form for at most N of the packages")
    parser.add_argument("--labels", action="store_true", help="check the labels only, without asking the gate")
    parser.add_argument("--at-once", type=int, default=2, metavar="N", help="claims that run at a time (default: 2)")
    parser.add_argument("--limit", type=int, help="at most this many claims, spread over the packages")
    parser.add_argument("--minutes", type=float, help="begin no claim after so many minutes, those to prepare included")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=10, help="seconds that a command may take (default: 10)")
    parser.add_argument("--json", type=Path, metavar="FILE")
    asked = parser.parse_args()
    started = time.monotonic()
    settings = GateSettings(timeout_s=asked.timeout)
    names = tuple(asked.names or GROUPS[asked.group])
    # Pytest is left out where only packages of the caller's are asked for and it is not there.
    download((*names, *(() if asked.names else PYTEST)), asked.packages)
    with tempfile.TemporaryDirectory(prefix=FOLDER) as folder:
        os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
        tier = require_tier()
        projects, claims = prepare(names, asked.packages, Path(folder).resolve(), asked.seed, asked.each)
        claims = [claim for claim in claims if asked.forms in (claim.form.split, "all")]
        claims = random.Random(asked.seed).sample(claims, min(asked.limit or len(claims), len(claims)))
        prepared = time.monotonic() - started
        judge = None if asked.labels else settings
        stored = ResultFile(asked.json.with_suffix(".results.jsonl"), settings) if asked.json and judge else None
        earlier = [result for claim in claims if stored and (result := stored.find(claim))]
        judged = {result.claim.id for result in earlier}
        rest = [claim for claim in claims if claim.id not in judged]
        until = started + 60 * asked.minutes if asked.minutes is not None else math.inf
        results = earlier + asyncio.run(
            run_all(rest, projects, tier, settings.timeout_s, judge, asked.at_once, until, stored)
        )
    report = {
        "command": "python bench/gate.py " + " ".join(_plain(sys.argv[1:])),
        "scrout": scrout.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "seed": asked.seed,
        "packages": {project.name: project.version for project in projects},
        "bugs": dict(Counter(sort(bug) for project in projects for bug in project.bad)),
        "settings": settings.model_dump(),
        "forms": asked.forms,
        "not_judged_in_time": len(claims) - len(results),
        "judged_in_earlier_runs": len(earlier),
        **(label_summary(results) if asked.labels else summary(results)),
        "seconds_to_prepare": round(prepared, 1),
        "seconds": round(time.monotonic() - started, 1),
    }
    text = json.dumps(report, indent=2, ensure_ascii=False) + "\n"
    if asked.json:
        asked.json.write_text(text, encoding="utf-8")
        if stored and len(results) == len(claims):
            stored.remove()
    print(text)


def _plain(arguments: Sequence[str]) -> Iterable[str]:
    """The command line without the caller's folders."""
    folders = {"--packages": "DIR", "--json": "FILE"}
    for before, argument in zip(["", *arguments], arguments, strict=False):
        yield folders.get(before, argument)


# Packages and their repositories


def download(names: Sequence[str], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    missing = [name for name in names if find_wheel(name, folder) is None]
    if missing:
        say(f"downloading {', '.join(missing)}")
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", str(folder)]
        subprocess.run([*pip, *missing], check=True, stdout=sys.stderr)


def find_wheel(requirement: str, folder: Path) -> Path | None:
    name, _, version = requirement.partition("==")
    return next(iter(sorted(folder.glob(f"{re.sub('[-.]+', '_', name)}-{version}-*.whl"))), None)


def prepare(
    names: Sequence[str], wheels: Path, folder: Path, seed: int, each: int | None = None
) -> tuple[list[Project], list[Claim]]:
    """Every package's repository with its bugs, and the claims about them; `each`: packages that a form is used for."""
    projects, claims = [], []
    for turn, name in enumerate(names):
        rng = random.Random(f"{seed} {name}")
        try:
            project, pytest = make_project(name, wheels, folder / name.partition("==")[0], rng, nested=turn % 2 == 1)
        except NoBugError as error:
            say(f"left out: {error}")
            continue
        made = make_claims(list(project.bad), project.targets, rng, pytest=pytest)
        made = [claim for claim in made if each is None or (claim.number + turn) % len(names) < each]
        say(f"{project.name} {project.version}: {len(project.bad)} bugs, {len(made)} claims")
        projects.append(project)
        claims += made
    return projects, claims


def make_project(
    requirement: str, wheels: Path, repo: Path, rng: random.Random, *, nested: bool
) -> tuple[Project, bool]:
    """A package's repository, one commit a bug; `nested` puts the source under src/. And whether it has pytest."""
    name, _, version = requirement.partition("==")
    wheel = find_wheel(requirement, wheels)
    if wheel is None:
        raise SystemExit(f"{requirement} is not in {wheels}, and pip did not put it there under that version")
    root = repo / "src" if nested else repo
    readme = unpack(wheel, root)
    bugs = seed_bugs(root, "src/" if nested else "", name, readme, rng, BUGS_EACH)
    if not bugs:
        raise NoBugError(f"no bug could be seeded into {requirement}, whose docstrings have too few examples")
    (repo / "README.md").write_text(readme, encoding="utf-8")
    (repo / ".gitignore").write_text(".venv/\n__pycache__/\n", encoding="utf-8")
    pytest = make_venv(repo, root, wheels)
    make_git_dir(repo / ".git")
    good = commit(repo)
    known = find_targets(root, readme, random.Random(f"targets {name}"))
    bad, targets = {}, {}
    for bug in bugs:
        path = repo / bug.path
        original = path.read_bytes()
        path.write_text(bug.mutation.apply(original.decode()), encoding="utf-8")
        bad[bug] = commit(repo)
        targets[bug] = still_work(root, known)
        path.write_bytes(original)
    return Project(name, version, repo, good, bad, targets), pytest


def unpack(wheel: Path, folder: Path) -> str:
    """A wheel's packages into a folder; its README is given back."""
    folder.mkdir(parents=True)
    with zipfile.ZipFile(wheel) as archive:
        members = archive.namelist()
        archive.extractall(folder, [name for name in members if ".dist-info/" not in name])
        metadata = next(name for name in members if name.endswith(".dist-info/METADATA"))
        return archive.read(metadata).decode().partition("\n\n")[2]


def make_venv(repo: Path, root: Path, wheels: Path) -> bool:
    """The repository's environment: the project installed in place, and pytest where its wheels are at hand."""
    folder = repo / ".venv"
    venv.create(folder, symlinks=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "project.pth").write_text(f"{root}\n")
    found = [wheel for name in PYTEST if (wheel := find_wheel(name, wheels))]
    if len(found) < len(PYTEST):
        return False
    for wheel in found:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(packages)
    program = folder / "bin" / "pytest"
    program.write_text(f"#!{folder}/bin/python\nimport sys\nimport pytest\nsys.exit(pytest.main())\n")
    program.chmod(0o755)
    return True


def commit(repo: Path) -> str:
    git = GitDir.of(repo).with_variables(**_AUTHOR)
    git("add", "--all")
    return git.text("commit-tree", git.text("write-tree"), "-m", "base")


# Running the claims


async def run_all(
    claims: Sequence[Claim],
    projects: Sequence[Project],
    tier: Tier,
    timeout_s: float,
    settings: GateSettings | None,
    at_once: int = 2,
    until: float = math.inf,
    stored: ResultFile | None = None,
) -> list[Result]:
    """Check every claim's label; with settings for the gate, ask it as well. After `until` no claim is begun."""
    by_name = {project.name: project for project in projects}
    slots = asyncio.Semaphore(at_once)
    done = 0

    async def one(claim: Claim) -> Result | None:
        nonlocal done
        async with slots:
            if time.monotonic() > until:
                return None
            result = await run_claim(claim, by_name[claim.bug.distribution], tier, timeout_s, settings)
        done += 1
        if stored:
            stored.add(result)
        verdict = f"dropped: {result.verified}" if result.verified else "the label holds"
        verdict = result.gated.verdict if result.gated else verdict
        say(f"{done}/{len(claims)} {claim.id} {claim.form.label} {claim.form.kind}: {verdict}")
        return result

    results = await asyncio.gather(*(one(claim) for claim in claims))
    return [result for result in results if result is not None]


async def run_claim(
    claim: Claim, project: Project, tier: Tier, timeout_s: float, settings: GateSettings | None
) -> Result:
    """Check the label on both trees, then ask both rules."""
    commit = project.bad[claim.bug]
    task = Task(id=task_id(project.repo, commit, claim.issue), text=claim.issue, repo=project.repo, base_commit=commit)
    with ExitStack() as stack:
        bad = stack.enter_context(open_task_sandbox(task, tier, Settings()))
        timed = claim.form.kind == "timeout"
        seen = None if timed else await replay(claim, bad, timeout_s)
        last_line = (seen.text.strip().splitlines() or [""])[-1] if seen is not None else ""
        exit_code = seen.exit_code if seen is not None else None
        if seen is not None and not claim.form.certain:
            original = task.model_copy(update={"base_commit": project.good})
            good = stack.enter_context(open_task_sandbox(original, tier, Settings()))
            problem = disproof(claim, seen, await replay(claim, good, timeout_s))
            if problem:
                return Result(claim, problem, None, exit_code, last_line)
        if settings is None:
            return Result(claim, "", None, exit_code, last_line)
        observed = last_line if seen is not None and seen.exit_code != 0 and last_line else claim.subject.wrong.symptom
        release_kept = True  # a run that was stopped has no exit code 0
        if seen is not None:
            # Without a pipe the two shells are the same.
            if "|" in (claim.reproduction.command or ""):
                seen = await replay(claim, bad, timeout_s, pipefail=False)
            release_kept = seen.exit_code != 0
        started = time.monotonic()
        gated = await gate(task, claim.handoff(observed), bad, settings)
        return Result(claim, "", gated, exit_code, last_line, release_kept, time.monotonic() - started)


async def replay(claim: Claim, task_sandbox: TaskSandbox, timeout_s: float, *, pipefail: bool = True) -> Completed:
    """Run a claim's command in a fresh workspace with its files."""
    workspace = task_sandbox.fresh()
    try:
        for path, content in claim.reproduction.files.items():
            workspace.write(path, content.encode())
        argv = ["bash", *(("-o", "pipefail") if pipefail else ()), "-c", claim.reproduction.command or ""]
        return await task_sandbox.run(workspace, argv, timeout_s=timeout_s, aliases=CONTAINER_PATHS)
    finally:
        workspace.remove()


def disproof(claim: Claim, bad: Completed, good: Completed) -> str:
    """Why a claim is not what its label says; empty if it is. Says nothing of what the gate should answer."""
    if bad.timed_out or good.timed_out:
        return "timed out"
    if claim.form.exit_zero:
        wrong = claim.bug.wrong.type or claim.bug.wrong.text
        shown = wrong in bad.text and wrong not in good.text
        if not claim.bug.wrong.type:  # the right value may be a part of the wrong one
            shown = wrong in bad.text and bad.text != good.text
        return "" if shown and bad.exit_code == good.exit_code == 0 else "the output does not tell the trees apart"
    tells_apart = bad.exit_code != 0 and good.exit_code == 0
    if claim.form.label == "true":
        return "" if tells_apart else f"exit codes {bad.exit_code} with the bug and {good.exit_code} without"
    if bad.exit_code == 0 and (claim.form.label == "apart" or claim.form.must_fail):
        return "it passes"
    same = bad.exit_code == good.exit_code
    return "" if same else f"depends on the bug: exit codes {bad.exit_code} with it and {good.exit_code} without"


# The report


def label_summary(results: Sequence[Result]) -> dict[str, object]:
    """How many labels hold, by family and kind, and what every claim ended with."""
    return {
        "claims": {
            "made": len(results),
            "labels_hold": dict(Counter(result.claim.form.label for result in results if not result.verified)),
        },
        "kinds": by_class(results, lambda held: {"hold": len(held)}),
        "dropped": [
            {"id": result.claim.id, "kind": result.claim.form.kind, "why": result.verified, "ended": result.last_line}
            for result in results
            if result.verified
        ],
        "ends": {
            result.claim.id: f"{result.claim.form.kind}: {result.exit_code} {result.last_line}"[:160]
            for result in results
            if not result.verified
        },
    }


def by_class(
    results: Sequence[Result], count: Callable[[Sequence[Result]], dict[str, int]]
) -> dict[str, dict[str, dict[str, int]]]:
    """Counts over the claims whose label holds, for every family and kind of form, and how many were dropped."""
    classes: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        form = result.claim.form
        label = f"{form.label}, {form.family}, {form.split}"
        for kind in ("all", form.kind):
            classes.setdefault((label, kind), []).append(result)
    counts: dict[str, dict[str, dict[str, int]]] = {}
    for (label, kind), members in sorted(classes.items()):
        held = [result for result in members if not result.verified]
        counts.setdefault(label, {})[kind] = {**count(held), "dropped": len(members) - len(held)}
    return counts


def kept_or_not(results: Sequence[Result]) -> dict[str, int]:
    kept = sum(result.gated is not None and result.gated.kept for result in results)
    return {
        "claims": len(results),
        "kept": kept,
        "kept_by_release_rule": sum(result.release_kept for result in results),
    }


def summary(results: Sequence[Result]) -> dict[str, object]:
    dropped = [result for result in results if result.gated is None]
    judged = [(result.claim, result.gated, result.release_kept) for result in results if result.gated is not None]
    seconds = [result.seconds for result in results if result.gated is not None]
    ours = [(claim, gated.kept) for claim, gated, _ in judged]
    release = [(claim, kept) for claim, _, kept in judged]
    return {
        "claims": {
            "made": len(results),
            "dropped because the label did not hold": dict(Counter(result.claim.form.kind for result in dropped)),
            "judged": dict(Counter(claim.form.label for claim, _ in ours)),
        },
        "classes": by_class(results, kept_or_not),
        "gate": rates(ours),
        "release_rule": rates(release),
        "confusion": {
            label: {
                kind: {
                    "gate": dict(
                        Counter(
                            gated.verdict
                            for claim, gated, _ in judged
                            if (claim.form.label, claim.form.kind) == (label, kind)
                        )
                    ),
                    "release_kept": sum(
                        kept for claim, kept in release if (claim.form.label, claim.form.kind) == (label, kind)
                    ),
                }
                for kind in dict.fromkeys(claim.form.kind for claim, _ in ours if claim.form.label == label)
            }
            for label in ("true", "false", "apart")
        },
        "apart": {
            "why": WHY_APART,
            "kept_by_gate": _kept(ours, "apart"),
            "kept_by_release_rule": _kept(release, "apart"),
            "claims": sum(claim.form.label == "apart" for claim, _ in ours),
        },
        "wrongly_kept": [told(result) for result in results if _is_wrong(result, "false")],
        "wrongly_lost": [told(result) for result in results if _is_wrong(result, "true")],
        "dropped": [
            {"id": result.claim.id, "kind": result.claim.form.kind, "why": result.verified} for result in dropped
        ],
        "gate_seconds_median": round(median(seconds), 2) if seconds else None,
    }


def sort(bug: Bug) -> str:
    """What a bug does, in words."""
    was, now = ("an exception" if outcome.kind == "raises" else "a value" for outcome in (bug.right, bug.wrong))
    return f"{was} became {now}" if was != now else f"{was} became another"


def rates(judged: Sequence[tuple[Claim, bool]]) -> dict[str, object]:
    """Both kinds of error of a rule, with 95% bounds."""
    true, false = (sum(claim.form.label == label for claim, _ in judged) for label in ("true", "false"))
    true_kept, false_kept = _kept(judged, "true"), _kept(judged, "false")
    return {
        "false_claims": false,
        "false_kept": false_kept,
        "false_kept_rate_at_most": round(upper_bound(false_kept, false), 4) if false else None,
        "true_claims": true,
        "true_kept": true_kept,
        "recall": round(true_kept / true, 4) if true else None,
        "recall_interval": [round(end, 4) for end in wilson(true_kept, true)] if true else None,
        "precision": _precision(true_kept, false_kept),
        "precision_with_those_apart_as_false": _precision(true_kept, false_kept + _kept(judged, "apart")),
    }


def _precision(true_kept: int, false_kept: int) -> float | None:
    return round(true_kept / (true_kept + false_kept), 4) if true_kept + false_kept else None


def _kept(judged: Sequence[tuple[Claim, bool]], label: str) -> int:
    return sum(kept for claim, kept in judged if claim.form.label == label)


def _is_wrong(result: Result, label: str) -> bool:
    return result.gated is not None and result.claim.form.label == label and result.gated.kept == (label == "false")


def told(result: Result) -> dict[str, object]:
    """A claim that was judged wrongly, in full."""
    claim, gated = result.claim, result.gated
    assert gated is not None
    return {
        "id": claim.id,
        "kind": claim.form.kind,
        "forms": claim.form.split,
        "issue": claim.issue,
        "bug": f"{claim.bug.path}:{claim.bug.mutation.line} {claim.bug.mutation.function}: {claim.bug.mutation.what}",
        "command": claim.reproduction.command,
        "files": claim.reproduction.files,
        "verdict": gated.verdict,
        "reason": gated.reason,
        "exit_code": gated.evidence.exit_code,
        # Where the repositories lay is nobody's concern, and differs from run to run.
        "output_tail": re.sub(
            rf"[^\s\"']*/{FOLDER}[^/\s]*|{re.escape(sys.base_prefix)}(?=/)", "", gated.evidence.output_tail
        )[-600:],
    }


def upper_bound(errors: int, trials: int, alpha: float = 0.05) -> float:
    """The exact (Clopper-Pearson) one-sided upper bound of an error rate: 1 - alpha**(1/n) when there was none."""
    if errors >= trials:
        return 1.0
    # Logarithms: the binomial coefficients of a thousand trials are no floats.
    ways = [math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1) for k in range(errors + 1)]
    low, high = errors / trials, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        tail = sum(
            math.exp(way + k * math.log(middle) + (trials - k) * math.log1p(-middle)) for k, way in enumerate(ways)
        )
        low, high = (middle, high) if tail > alpha else (low, middle)
    return high


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
