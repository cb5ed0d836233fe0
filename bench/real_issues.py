"""Measures on issues that strangers wrote whether "reproduced" and "passed" are true.

    python bench/real_issues.py --data ../shared/data --mirrors DIR --work DIR --half seen --show
    python bench/real_issues.py --data ../shared/data --mirrors DIR --work DIR --half all --json FILE

The issues are rows of the data folder, by id: those of the projects below whose text has code and whose fix is in the
project's history. Nothing of a text is kept here. DIR/owner+name/repo are bare clones, as for real_bugs.py. Each row
gets the tree before the fix, as a repository without a history, and an environment with what the project needs. A row
whose package cannot be imported there is counted and left out. Then:

- reproduction: recon and the gate work on the issue. A kept claim is true if it passes with the fix's source.
- fix: the upstream fix is given to the check as if a fixer had made it.
- wrong: half of the fix's hunks where it has several, else an edit without effect in the same file, are given to the
  check in the same way, where a claim was kept. One that passes is judged by the tests that came with the fix.

`seen` and `held` are halves by the hash of the id. Rules may be made after a look at `seen` only. What a finished row
gave is kept in the work folder, so that a run that was cut off goes on where it was.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import configparser
import gzip
import hashlib
import json
import os
import re
import shutil
import sys
import time
import tomllib
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from real_bugs import Case, Row, make_repository, share
from real_bugs_mine import Bench, Project, git
from record import record

from scrout.check.check import check
from scrout.config.settings import Settings
from scrout.records import GatedHandoff
from scrout.sandbox.probe import require_tier
from scrout.sandbox.task_sandbox import open_task_sandbox
from scrout.sandbox.tier import Tier
from scrout.task import Task

NOTES = Path(__file__).with_name("real_issues") / "notes.json"
"""By id, what reading showed of a reproduction that the fix does not turn, or of an upstream fix called failed."""
ROWS = NOTES.with_name("rows.jsonl")
SOURCES = ("tasks/swebench_dev.jsonl.gz", "issues/real_issues.jsonl.gz")
PROJECTS: dict[str, tuple[str, Project]] = {
    project.repo: (package, project)
    for package, project in (
        (
            "astroid",
            Project(
                "pylint-dev/astroid",
                ("wrapt", "lazy-object-proxy", "typing-extensions", "six", "setuptools<80", "numpy<2", "attrs"),
                distribution="astroid",
            ),
        ),
        (
            "sqlfluff",
            Project(
                "sqlfluff/sqlfluff",
                (
                    *("click", "colorama", "configparser", "chardet", "diff-cover", "jinja2", "oyaml", "pathspec"),
                    *("pluggy", "regex", "toml", "tblib", "appdirs", "tqdm", "typing-extensions", "cached-property"),
                    *("pyyaml", "importlib-resources", "setuptools<80", "hypothesis"),
                ),
                distribution="sqlfluff",
            ),
        ),
        ("pydicom", Project("pydicom/pydicom", ("numpy<2", "pillow", "setuptools<80"), distribution="pydicom")),
        (
            "marshmallow",
            Project(
                "marshmallow-code/marshmallow",
                ("packaging", "python-dateutil", "simplejson", "pytz"),
                distribution="marshmallow",
            ),
        ),
        (
            "pvlib",
            Project(
                "pvlib/pvlib-python",
                (
                    *("numpy==1.23.5", "pandas==1.5.3", "scipy==1.10.1", "requests", "pytz", "h5py", "pytest-mock"),
                    *(
                        "setuptools<80",
                        "ephem",
                        "requests-mock",
                        "pytest-rerunfailures",
                        "pytest-remotedata",
                        "matplotlib<3.9",
                    ),
                ),
                distribution="pvlib",
            ),
        ),
        (
            "pyvista",
            Project(
                "pyvista/pyvista",
                (
                    *("vtk<9.4", "numpy<2", "scooby", "pooch", "matplotlib<3.9", "imageio<3", "meshio", "appdirs"),
                    *("transforms3d", "pillow", "typing-extensions", "platformdirs", "tqdm"),
                ),
                distribution="pyvista",
            ),
        ),
        (
            "sagemaker",
            Project(
                "aws/sagemaker-python-sdk",
                (
                    *("boto3", "google-pasta", "numpy<2", "protobuf<4", "protobuf3-to-dict", "smdebug-rulesconfig"),
                    *("importlib-metadata", "packaging", "pandas<2.2", "attrs", "pathos", "schema", "pyyaml"),
                    *("jsonschema", "platformdirs", "tblib", "cloudpickle", "docker", "mock", "contextlib2", "six"),
                    *("requests", "urllib3<2", "scipy", "psutil", "fabric", "setuptools<80"),
                ),
                distribution="sagemaker",
            ),
        ),
        (
            "bentoml",
            Project(
                "bentoml/BentoML",
                (
                    *("ruamel.yaml<0.18", "numpy<2", "flask<2", "markupsafe<2.1", "jinja2<3.1", "itsdangerous<2.1"),
                    *("werkzeug<2", "boto3", "requests", "packaging", "docker", "configparser", "sqlalchemy<1.4"),
                    *("protobuf<4", "grpcio<1.60", "psutil", "humanfriendly", "tabulate", "prometheus-client"),
                    *("python-dateutil", "python-json-logger", "aiohttp", "cerberus", "certifi", "multidict"),
                    *("sqlalchemy-utils<0.37", "alembic<1.8", "py-zipkin", "chardet", "schema", "simple-di", "click"),
                    *("gunicorn", "pandas<2", "cloudpickle", "setuptools<80", "deepmerge", "pip", "contextvars"),
                ),
                distribution="bentoml",
            ),
        ),
        (
            "gluonts",
            Project(
                "awslabs/gluonts",
                (
                    *("mxnet==1.9.1", "numpy==1.23.5", "pandas==1.5.3", "pydantic<2", "tqdm", "toolz", "ujson"),
                    *("typing-extensions", "holidays", "matplotlib<3.9", "setuptools<80", "pytest-timeout", "flask"),
                    *("statsmodels",),
                ),
                distribution="gluonts",
            ),
        ),
        (
            "ignite",
            Project(
                "pytorch/ignite",
                ("torch", "numpy<2", "packaging", "scikit-learn", "pandas", "tqdm", "pytest-mock"),
            ),
        ),
        (
            "pyro",
            Project(
                "pyro-ppl/pyro",
                ("torch", "numpy<2", "opt-einsum", "pyro-api", "tqdm", "graphviz", "six", "networkx", "scipy"),
            ),
        ),
        (
            "torchio",
            Project(
                "TorchIO-project/torchio",
                (
                    *("torch", "numpy<2", "SimpleITK", "nibabel", "click", "humanize", "deprecated", "tqdm", "scipy"),
                    *("typer", "rich", "einops", "packaging", "parameterized", "matplotlib<3.9"),
                ),
                distribution="torchio",
            ),
        ),
        (
            "monai",
            Project(
                "Project-MONAI/MONAI",
                ("torch", "numpy<2", "nibabel", "scipy", "scikit-image", "parameterized", "pillow", "pyyaml"),
            ),
        ),
    )
}
PARTS = ("reproduction", "fix", "half", "no_effect", "fix_alone")
"""What is done. `half` and `no_effect` are the wrong patches. `fix_alone`: the fix is checked where no claim was kept,
too; only the project's tests can speak there."""
_CODE = re.compile(r"^[ \t]*(```|~~~|>>> )|^[ \t]*Traceback \(most recent|\n\s*\n(\t| {4,})[^\s\-*\d].*[()=]", re.M)
_TEST = re.compile(r"(^|/)(tests?|testing|testsuite|test_files)/|(^|/)(test_[^/]*|[^/]*_test|tests?|conftest)\.\w+$")
_NOT_SOURCE = re.compile(
    r"(^|/)(docs?|doc_src|examples?|\.github|benchmarks?)/|\.(md|rst|txt|ipynb|yml|yaml|sql)$|(^|/)ChangeLog$"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder of tasks/ and issues/")
    parser.add_argument("--mirrors", type=Path, required=True, metavar="DIR", help="folder of owner+name/repo")
    parser.add_argument("--work", type=Path, required=True, metavar="DIR", help="folder for environments and trees")
    parser.add_argument("--half", choices=("seen", "held", "all"), default="seen")
    parser.add_argument("--code", choices=("import", "other", "all"), default="import", help="import: of the project")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS[:4])
    parser.add_argument("--projects", nargs="+", metavar="NAME", help="these instead of all, as owner/name or name")
    parser.add_argument("--each", type=int, metavar="N", help="the first N rows of each project and half, by hash")
    parser.add_argument("--only", nargs="+", metavar="ID", help="these rows alone")
    parser.add_argument("--again", action="store_true", help="forget what rows gave before")
    parser.add_argument("--find", action="store_true", help="write real_issues/rows.jsonl and do no more")
    parser.add_argument("--report", action="store_true", help="run nothing: the figures of the rows done so far")
    parser.add_argument("--show", action="store_true", help="print what became of each row")
    parser.add_argument("--json", type=Path, metavar="FILE")
    asked = parser.parse_args()
    if asked.find:
        ROWS.write_text(
            "".join(f"{json.dumps(row)}\n" for row in find_rows(asked.data, asked.mirrors)), encoding="utf-8"
        )
        return
    rows = [row for row in load(asked.data, asked.mirrors) if asked.half in (row["half"], "all")]
    rows = [row for row in rows if asked.code in (row["code"], "all")]
    if asked.projects:
        rows = [row for row in rows if {row["repo"], row["repo"].rpartition("/")[2]} & set(asked.projects)]
    if asked.only:
        rows = [row for row in rows if row["id"] in asked.only]
    if asked.each:
        rows = first_of_each(rows, asked.each)
    work = asked.work.resolve()
    os.environ["XDG_CACHE_HOME"] = str(work / "cache")
    if asked.report:
        results = [before for row in rows if (before := read_result(work, row))]
    else:
        results = asyncio.run(run_all(rows, asked.mirrors.resolve(), work, asked.parts, asked.again, asked.show))
    halves = {half: [row for row in results if row["half"] == half] for half in ("seen", "held")}
    figures = {half: summarize(part) for half, part in halves.items() if part}
    record({"rows_asked_for": len(rows), **figures, "rows": [without_texts(row) for row in results]}, asked.json)


# Rows


def first_of_each(rows: Sequence[Row], most: int) -> list[Row]:
    counts: Counter[tuple[str, str]] = Counter()
    kept = []
    for row in rows:
        counts[row["repo"], row["half"]] += 1
        if counts[row["repo"], row["half"]] <= most:
            kept.append(row)
    return kept


def find_rows(data: Path, mirrors: Path) -> list[Row]:
    """Issues with code whose fix is in the project's history. Their texts stay in the data."""
    rows: list[Row] = []
    for row in given(data):
        mirror = mirrors / row["repo"].replace("/", "+") / "repo"
        if row["repo"] not in PROJECTS or not mirror.exists() or not has_code(once(row["problem_statement"])):
            continue
        fix = row.get("fix_commit") or find_fix(mirror, row)
        if not fix or not git(mirror, "rev-parse", "-q", "--verify", f"{fix}^1", check=False):
            continue
        if any(path.endswith(".py") for path in changed_files(mirror, fix)[0]):
            name, text = row["instance_id"], once(row["problem_statement"])
            code = "import" if imports(text, PROJECTS[row["repo"]][0]) else "other"
            commits = {"base_commit": row["base_commit"], "fix_commit": fix}
            rows.append({"id": name, "repo": row["repo"], "half": half_of(name), "code": code, **commits})
    return sorted(rows, key=lambda row: hash_of(row["id"]))


def load(data: Path, mirrors: Path) -> list[Row]:
    """The rows with the texts of their issues and the files that their fixes change."""
    texts = {row["instance_id"]: once(row["problem_statement"]) for row in given(data)}
    rows = [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        sources, tests = changed_files(mirrors / row["repo"].replace("/", "+") / "repo", row["fix_commit"])
        row |= {"text": texts[row["id"]], "source_files": sources, "test_files": tests}
    return rows


def given(data: Path) -> Iterator[Row]:
    for name in SOURCES:
        with gzip.open(data / name, "rt", encoding="utf-8") as file:
            yield from map(json.loads, file)


def changed_files(mirror: Path, fix: str) -> tuple[list[str], list[str]]:
    """Source files and test files."""
    changed = git(mirror, "diff", "--no-renames", "--name-only", f"{fix}^1", fix, check=False).splitlines()
    tests = [path for path in changed if _TEST.search(path)]
    return [path for path in changed if path not in tests and not _NOT_SOURCE.search(path)], tests


def has_code(text: str) -> bool:
    return bool(_CODE.search(text))


def imports(text: str, package: str) -> bool:
    """Whether the code of a text imports the package."""
    return bool(re.search(rf"^[ \t]*(>>> |In \[\d+\]: )?(import|from) {package}\b", text, re.M))


def once(text: str) -> str:
    """A text that the data holds twice in a row, once."""
    middle = len(text.strip()) // 2
    first, second = text.strip()[:middle].strip(), text.strip()[middle:].strip()
    return first if first == second else text


def hash_of(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def half_of(name: str) -> str:
    return "held" if int(hash_of(name), 16) % 2 else "seen"


def find_fix(mirror: Path, row: Row) -> str:
    """The commit that the pull request of the id became, or nothing."""
    number = row["instance_id"].rpartition("-")[2]
    log = git(mirror, "log", "--all", "--perl-regexp", f"--grep=#{number}\\b", "--format=%H %s", check=False)
    for commit, subject in (line.split(" ", 1) for line in log.splitlines()):
        if re.search(rf"\(#{number}\)|Merge pull request #{number}\b", subject):
            changed = git(mirror, "diff", "--name-only", f"{commit}^1", commit, check=False).splitlines()
            if set(row["gold_files"]) <= set(changed):
                return commit
    return ""


# One row


async def run_all(
    rows: Sequence[Row], mirrors: Path, work: Path, parts: Sequence[str], again: bool, show: bool
) -> list[Row]:
    tier = require_tier()
    results = []
    for row in rows:
        before = {} if again else read_result(work, row)
        if before and not todo(before, parts):
            results.append(before)
            continue
        print(row["id"], file=sys.stderr, flush=True)
        result = await run_row(row, before, mirrors, work, parts, tier)
        write_result(work, result)
        if show:
            print(json.dumps(result, ensure_ascii=False), file=sys.stderr, flush=True)
        results.append(result)
    return results


def read_result(work: Path, row: Row) -> Row:
    """What is known of a row; empty: nothing."""
    done = work / "done" / f"{row['id']}.json"
    known: Row = json.loads(done.read_text(encoding="utf-8")) if done.exists() else {}
    return known


def write_result(work: Path, result: Row) -> None:
    done = work / "done" / f"{result['id']}.json"
    done.parent.mkdir(parents=True, exist_ok=True)
    done.write_text(json.dumps(result, ensure_ascii=False, indent=1), encoding="utf-8")


def todo(before: Row, parts: Sequence[str]) -> list[str]:
    """Parts that a row still lacks."""
    if "left_out" in before:
        return []
    missing = [part for part in parts if part not in before.get("parts", ())]
    if "reproduction" in before and before["reproduction"] == "none":
        return [part for part in missing if part == "fix_alone"]
    return missing


async def run_row(row: Row, before: Row, mirrors: Path, work: Path, parts: Sequence[str], tier: Tier) -> Row:
    """What was known of a row, and what the parts add."""
    result = {key: row[key] for key in ("id", "repo", "half", "code")} | before
    result.pop("error", None)
    started = time.monotonic()
    try:
        await run_parts(row, result, mirrors, work, parts, tier)
        result["parts"] = sorted({*result.get("parts", ()), *parts})
    except Exception as error:  # a bug here must not hide the other rows' figures
        traceback.print_exc()
        result["error"] = f"{type(error).__name__}: {error}"[:300]
    result["seconds"] = result.get("seconds", 0) + round(time.monotonic() - started)
    return result


async def run_parts(row: Row, result: Row, mirrors: Path, work: Path, parts: Sequence[str], tier: Tier) -> None:
    package, project = PROJECTS[row["repo"]]
    bench = Bench(project, mirrors / row["repo"].replace("/", "+") / "repo", work, "")
    bench.prepare()
    repo = work / "repos" / row["id"]
    commit = await asyncio.to_thread(make_repository, row, bench, repo)
    try:
        add_entry_points(repo, project.distribution)
        sources = row["source_files"]
        patch = git(bench.mirror, "diff", "--no-renames", f"{row['fix_commit']}^1", row["fix_commit"], "--", *sources)
        task = Task(id=row["id"], text=row["text"], repo=repo.resolve(), base_commit=commit)
        with open_task_sandbox(task, tier, Settings()) as task_sandbox:
            case = Case(row, task, task_sandbox, bench.mirror, patch)
            result |= await left_out(case, package)
            if "left_out" not in result:
                await judge(case, parts, work / "gated" / f"{row['id']}.json", result)
    finally:
        shutil.rmtree(repo, ignore_errors=True)


async def left_out(case: Case, package: str) -> Row:
    """Why a row cannot be judged, if it cannot."""
    workspace = case.task_sandbox.fresh()
    try:
        imported = await case.task_sandbox.shell(workspace, f"python -c 'import {package}'", timeout_s=120)
        refusal = await case.task_sandbox.apply(workspace, case.patch)
    finally:
        workspace.remove()
    if imported.exit_code:
        return {"left_out": "cannot be imported", "output": imported.output.decode(errors="replace")[-400:]}
    return {"left_out": "the fix does not apply", "output": refusal[-400:]} if refusal else {}


async def judge(case: Case, parts: Sequence[str], stored: Path, result: Row) -> None:
    gated = read_gated(stored) if "reproduction" in result else None
    if gated is None:
        gated = await case.reproduction(result)
        write_gated(stored, gated)
    if ("fix" if gated.kept else "fix_alone") in parts:
        await case.fix(gated, result)
    if gated.kept:
        await wrong(case, gated, parts, result)


def read_gated(stored: Path) -> GatedHandoff | None:
    return GatedHandoff.model_validate_json(stored.read_bytes()) if stored.exists() else None


def write_gated(stored: Path, gated: GatedHandoff) -> None:
    stored.parent.mkdir(exist_ok=True)
    stored.write_text(gated.model_dump_json(), encoding="utf-8")


async def wrong(case: Case, gated: GatedHandoff, parts: Sequence[str], result: Row) -> None:
    """A patch that does less than the fix, and what the check says of it."""
    kind, patch = "half", half_of_hunks(case.patch)
    if not patch:
        kind, patch = "no_effect", await without_effect(case)
    if kind not in parts:
        return
    checked = await check(case.task.text, gated, case.attempt(patch), case.task_sandbox)
    result["wrong"] = [kind, checked.outcome]
    if checked.outcome == "passed":
        result["wrong_patch"] = patch
        result["wrong_is_refuted_by"] = await refuting_tests(case, patch)


async def without_effect(case: Case) -> str:
    path = next(path for path in case.row["source_files"] if path.endswith(".py") and case.task_sandbox.base.read(path))
    workspace = case.task_sandbox.fresh()
    try:
        source = case.task_sandbox.base.read(path) or b""
        workspace.write(path, source + b"\n_NOT_USED = None\n")
        return await case.task_sandbox.diff(workspace)
    finally:
        workspace.remove()


async def refuting_tests(case: Case, patch: str) -> list[str]:
    """Tests that came with the fix, that pass with it and fail with the patch."""
    outcomes = []
    for each in (case.patch, patch):
        workspace = await case.patched(each)
        try:
            suites = [path for path in case.row["test_files"] if path.endswith(".py")]
            for path in case.row["test_files"]:
                content = git(case.mirror, "show", f"{case.row['fix_commit']}:{path}", check=False)
                workspace.write(path, content.encode())
            options = "-q -rA -p no:cacheprovider -o addopts= -o filterwarnings= -W ignore --rootdir=."
            run = await case.task_sandbox.shell(
                workspace, f"python -m pytest {options} {' '.join(suites)}", timeout_s=300
            )
            outcomes.append(set(re.findall(r"^PASSED (\S+)", run.output.decode(errors="replace"), re.M)))
        finally:
            workspace.remove()
    return sorted(outcomes[0] - outcomes[1])


def half_of_hunks(patch: str) -> str:
    """The patch with the first half of its hunks, or nothing if it has one."""
    files = [f"diff --git {part}" for part in ("\n" + patch).split("\ndiff --git ")[1:]]
    hunks = [(head, f"@@{hunk}") for head, *rest in (file.split("\n@@") for file in files) for hunk in rest]
    text, last = "", ""
    for head, hunk in hunks[: len(hunks) // 2]:
        text += hunk.rstrip("\n") + "\n" if head == last else f"{head}\n{hunk.rstrip(chr(10))}\n"
        last = head
    return text


# Environments


def add_entry_points(repo: Path, distribution: str) -> None:
    """Plugins and commands that an installation of the tree has."""
    found = dict(entry_points(repo))
    about = next(repo.glob(f".venv/lib/python*/site-packages/{distribution}-99.0.dist-info"), None)
    if about:
        text = "".join(f"[{group}]\n" + "".join(f"{line}\n" for line in lines) for group, lines in found.items())
        (about / "entry_points.txt").write_text(text)
    for line in found.get("console_scripts", ()):
        name, module, function = re.split(r"\s*[=:]\s*", line.partition("[")[0].strip())
        script = repo / ".venv/bin" / name
        script.write_text(
            f"#!{repo}/.venv/bin/python\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n"
        )
        script.chmod(0o755)


def entry_points(repo: Path) -> Iterator[tuple[str, list[str]]]:
    """Groups and their lines, as the project's build files have them."""
    setup_cfg, pyproject, setup_py = (repo / name for name in ("setup.cfg", "pyproject.toml", "setup.py"))
    if setup_cfg.exists():
        parser = configparser.RawConfigParser(strict=False)
        parser.read(setup_cfg, encoding="utf-8")
        if parser.has_section("options.entry_points"):
            for group, lines in parser["options.entry_points"].items():
                yield group, [line.strip() for line in lines.splitlines() if line.strip()]
    if pyproject.exists():
        project = tomllib.loads(pyproject.read_text(encoding="utf-8")).get("project", {})
        groups = {"console_scripts": project.get("scripts", {}), **project.get("entry-points", {})}
        yield from (
            (group, [f"{name} = {value}" for name, value in lines.items()]) for group, lines in groups.items() if lines
        )
    if setup_py.exists():
        for node in ast.walk(ast.parse(setup_py.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "entry_points":
                try:
                    groups = ast.literal_eval(node.value)
                except ValueError:
                    continue
                if isinstance(groups, dict):
                    yield from (
                        (group, [lines] if isinstance(lines, str) else lines) for group, lines in groups.items()
                    )


# Figures


def without_texts(row: Row) -> Row:
    """A row without what was copied from an issue or printed by a project, and with what reading it showed."""
    notes = json.loads(NOTES.read_text(encoding="utf-8"))
    kept = {key: value for key, value in row.items() if key not in _TEXTS}
    return {**kept, "note": notes[row["id"]]} if row["id"] in notes else kept


_TEXTS = ("files", "after_fix", "output", "dead_ends", "wrong_patch", "parts")


def summarize(results: Sequence[Row]) -> Row:
    run = [row for row in results if "reproduction" in row]
    kept = [row for row in run if row["reproduction"] != "none"]
    verified = [row for row in run if row["reproduction"] in ("true", "false")]
    true = [row for row in verified if row["reproduction"] == "true"]
    wrongs = [row["wrong"] for row in run if "wrong" in row]
    return {
        "issues_with_code": len(results),
        "projects": len({row["repo"] for row in run}),
        "left_out": dict(Counter(row["left_out"] for row in results if "left_out" in row)),
        "errors": [row["id"] for row in results if "error" in row],
        "judged": len(run),
        "verdicts": dict(Counter(row["verdict"] for row in run).most_common()),
        "basis_of_kept": dict(Counter(f"{row['basis']}: {row['reproduction']}" for row in kept).most_common()),
        "first_file_right": share(sum(row["first_file_right"] for row in run), len(run)),
        "verified": share(len(verified), len(run)),
        "verified_and_true": share(len(true), len(verified)),
        "assumed": dict(Counter(row["reproduction"] for row in kept if row not in verified)),
        "upstream_fix": {
            "all": dict(Counter(row["fix"] for row in run if "fix" in row)),
            "with_a_verified_reproduction": dict(Counter(row["fix"] for row in verified if "fix" in row)),
            "passed_of_verified": share(sum(row.get("fix") == "passed" for row in verified), len(verified)),
            "failed": share(sum(row.get("fix") == "failed" for row in run), len(run)),
        },
        "wrong_patches": {
            **{f"{kind}: {outcome}": count for (kind, outcome), count in Counter(map(tuple, wrongs)).items()},
            "passed": share(sum(outcome == "passed" for _, outcome in wrongs), len(wrongs)),
        },
        "by_project": {
            repo: dict(Counter(row.get("reproduction", "left out") for row in results if row["repo"] == repo))
            for repo in sorted({row["repo"] for row in results})
        },
    }


if __name__ == "__main__":
    main()
