"""Mines bug fixes from the history of real projects and proves each with the project's own tests.

    python bench/real_bugs_mine.py --mirrors DIR --work DIR --out candidates.jsonl [--projects NAME...]

DIR/owner+name/repo are bare clones. A project gets one virtual environment with what its tests import (this step needs
a package index) but without the project: a tree is put on PYTHONPATH. The history is walked from the newest commit. A
commit is tried if its message speaks of a fix and it changes tests and a few lines of one to three source files. It is
proven if tests fail twice on its parent with its test files put over it, and pass twice on the commit itself.
A test that cannot be collected on the parent proves nothing: what it imports is not there yet, so it is a feature.

Tests run in bubblewrap without a network and may only write to the tree. What was tried is kept in the work folder, so
a run that was cut off, or that ran out of `--seconds-each`, goes on where it was.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath


@dataclass(frozen=True)
class Project:
    """How one project's tests are run."""

    repo: str
    """owner/name"""
    requirements: tuple[str, ...] = ()
    """What its tests import, beside pytest."""
    distribution: str = ""
    """Its name on the index, if it asks for its own version at import."""
    generated: dict[str, str] = field(default_factory=dict)
    """Files that its build writes and that it does not start without."""


VERSION_FILE = "version = __version__ = '99.0'\nversion_tuple = __version_tuple__ = (99, 0)\n"
PROJECTS = (
    Project("dgilland/pydash", ("typing-extensions", "mock")),
    Project("jsonpickle/jsonpickle", ("numpy<2", "pandas<3", "simplejson", "feedparser", "ujson", "sqlalchemy")),
    Project(
        "python-attrs/cattrs",
        (
            *("attrs", "typing-extensions", "hypothesis", "immutables", "msgpack", "pyyaml", "tomlkit", "cbor2"),
            *("orjson", "msgspec", "pymongo", "ujson"),
        ),
    ),
    Project("matthewwithanm/python-markdownify", ("beautifulsoup4", "six")),
    Project("jazzband/tablib", ("pandas<3", "xlrd", "xlwt", "openpyxl", "odfpy", "pyyaml", "tabulate", "markuppy")),
    Project(
        "jazzband/prettytable",
        ("wcwidth", "pytest-lazy-fixtures", "pytest-lazy-fixture"),
        distribution="prettytable",
        generated={"src/prettytable/_version.py": VERSION_FILE},
    ),
    Project("jquast/wcwidth", ("python-dateutil",)),
    Project("networkx/networkx", ("numpy", "scipy", "pandas<3", "matplotlib", "lxml", "sympy")),
    Project("encode/starlette", ("anyio", "httpx", "jinja2", "itsdangerous", "python-multipart", "pyyaml", "trio")),
    Project(
        "hynek/structlog",
        ("freezegun", "pretend", "pytest-asyncio", "simplejson", "twisted", "rich", "better-exceptions"),
    ),
    Project(
        "python-jsonschema/jsonschema",
        (
            *("attrs", "referencing", "rpds-py", "jsonschema-specifications", "pyrsistent", "twisted", "jsonpath-ng"),
            *(
                "fqdn",
                "idna",
                "isoduration",
                "jsonpointer",
                "rfc3339-validator",
                "rfc3987",
                "uri-template",
                "webcolors",
            ),
        ),
        distribution="jsonschema",
    ),
    Project("theskumar/python-dotenv", ("click", "sh", "ipython", "mock")),
    Project("wtforms/wtforms", ("markupsafe", "email-validator", "babel", "sqlalchemy", "python-dateutil")),
    Project("pyeve/cerberus", ("setuptools<80",), distribution="Cerberus"),
    Project("facelessuser/soupsieve", ("beautifulsoup4", "lxml", "html5lib")),
    Project("scott-griffiths/bitstring", ("bitarray", "hypothesis", "gfloat", "numpy", "tibs")),
    Project(
        "Fatal1ty/mashumaro",
        ("typing-extensions", "orjson", "msgpack", "pyyaml", "tomli-w", "ciso8601", "pendulum", "pytest-mock"),
    ),
    Project(
        "collective/icalendar",
        ("python-dateutil", "tzdata", "pytz", "hypothesis", "restructuredtext-lint", "typing-extensions"),
        generated={"src/icalendar/_version.py": VERSION_FILE},
    ),
    Project(
        "marshmallow-code/webargs",
        (
            *("marshmallow<4", "flask", "bottle", "falcon", "webtest", "webtest-aiohttp", "pytest-aiohttp"),
            *("pytest-asyncio", "django"),
        ),
        distribution="webargs",
    ),
    Project(
        "hgrecco/pint",
        (
            *("numpy<2.3", "flexcache", "flexparser", "platformdirs", "typing-extensions", "pytest-subtests"),
            *("uncertainties",),
        ),
    ),
    Project("tobymao/sqlglot", ("duckdb", "pandas<3", "python-dateutil", "pytz", "numpy", "pyperf")),
    Project("sissaschool/elementpath", ("lxml", "xmlschema")),
    Project("Textualize/rich", ("pygments", "markdown-it-py", "commonmark", "attrs", "colorama", "typing-extensions")),
    Project("asottile/pyupgrade", ("tokenize-rt",)),
    Project("jpadilla/pyjwt", ("cryptography", "typing-extensions")),
    Project("Pylons/webob", ("legacy-cgi",)),
    Project(
        "encode/httpx",
        (
            *("httpcore", "anyio", "certifi", "idna", "sniffio", "chardet", "trio", "uvicorn", "h2", "brotli"),
            *("zstandard", "click", "rich", "pygments", "socksio", "trustme", "cryptography", "rfc3986"),
            *("charset-normalizer",),
        ),
    ),
    Project("adrienverge/yamllint", ("pathspec<1", "pyyaml", "setuptools<80")),
    Project(
        "BrianPugh/cyclopts",
        (
            *("attrs", "rich", "rich-rst", "docstring-parser", "pyyaml", "pydantic", "typing-extensions", "tomli"),
            *("pytest-mock", "syrupy", "trio", "markdown", "msgspec"),
        ),
    ),
    Project(
        "PyCQA/isort",
        (
            *("colorama", "hypothesis", "hypothesmith", "natsort", "black", "toml", "tomli", "pyyaml", "pylama"),
            *("pytest-mock", "pytest-cov", "libcst", "setuptools<80"),
        ),
        generated={"isort/_version.py": VERSION_FILE},
    ),
    Project(
        "python-quantities/python-quantities",
        ("numpy<2.3", "uncertainties"),
        generated={"quantities/_version.py": VERSION_FILE},
    ),
    Project("kayak/pypika", ("parameterized",)),
    Project("macbre/sql-metadata", ("sqlparse<0.5", "sqlglot"), distribution="sql_metadata"),
    Project("chimpler/pyhocon", ("pyparsing>=2,<4", "python-dateutil", "mock")),
    Project(
        "rnag/dataclass-wizard",
        (
            *("typing-extensions", "pyyaml", "pytimeparse", "python-dotenv", "pytest-mock", "tomli-w", "tzdata"),
            *("pytest-benchmark", "tomli"),
        ),
    ),
    Project("miyuchina/mistletoe", ("parameterized", "pygments")),
    Project("rthalley/dnspython", ("cryptography", "idna", "trio", "httpx", "h2", "sniffio")),
    Project("netaddr/netaddr", ("packaging",)),
    Project("pytransitions/transitions", ("six", "mock", "dill", "graphviz")),
    Project("construct/construct", ("numpy<2.3", "arrow", "ruamel.yaml", "cloudpickle", "lz4", "cryptography")),
    Project("sqlalchemy/mako", ("markupsafe", "pygments", "babel", "dogpile.cache", "beaker", "lingua")),
    Project("kiorky/croniter", ("python-dateutil", "pytz", "tzlocal", "mock", "freezegun")),
    Project("ipython/traitlets", ("pytest-mock", "argcomplete")),
    Project("oauthlib/oauthlib", ("pyjwt", "cryptography", "blinker", "mock")),
    Project(
        "getsentry/responses",
        ("requests", "urllib3", "pyyaml", "pytest-asyncio", "pytest-httpserver", "tomli", "tomli-w", "types-pyyaml"),
        distribution="responses",
    ),
    Project("geopy/geopy", ("geographiclib", "async-generator", "pytz", "docutils", "pytest-aiohttp<1")),
    Project("google/python-fire", ("termcolor", "hypothesis", "six", "mock", "levenshtein")),
    Project("mathandy/svgpathtools", ("numpy<2.3", "scipy", "svgwrite")),
    Project("Alir3z4/html2text"),
    Project("r1chardj0n3s/parse"),
    Project("lidatong/dataclasses-json", ("marshmallow<4", "typing-inspect", "hypothesis", "mypy")),
    Project("python-hyper/h11"),
    Project("tkem/cachetools"),
    Project("phfaist/pylatexenc"),
    Project("tkarabela/pysubs2"),
    Project("rspeer/python-ftfy", ("wcwidth",)),
    Project(
        "simonw/sqlite-utils",
        (
            *("click", "click-default-group", "pluggy", "python-dateutil", "sqlite-fts4", "tabulate", "hypothesis"),
            *("setuptools<80", "typing-extensions"),
        ),
        distribution="sqlite-utils",
    ),
    Project("google/yapf", ("platformdirs", "tomli", "importlib-metadata", "toml")),
    Project(
        "python-poetry/poetry-core",
        ("pytest-mock", "build", "tomli-w", "virtualenv", "setuptools<80", "trove-classifiers"),
    ),
    Project("dflook/python-minifier"),
    Project("ikamensh/flynt", ("astor", "tomli", "ast_decompiler")),
    Project("eliben/pycparser", ("ply",)),
    Project("wbond/asn1crypto"),
    Project(
        "jg-rp/liquid",
        (
            "markupsafe",
            "python-dateutil",
            "babel",
            "pytz",
            "mock",
            "typing-extensions",
            "importlib-resources",
            "pyyaml",
        ),
    ),
    Project("cdgriffith/Box", ("ruamel.yaml", "toml", "msgpack", "tomli", "tomli-w")),
    Project("AlexandreDecan/portion", ("sortedcontainers",)),
    Project("PyCQA/autoflake", ("pyflakes", "tomli", "toml", "hypothesis")),
    Project(
        "PyCQA/docformatter",
        ("charset-normalizer", "untokenize", "mock", "tomli", "toml"),
    ),
    Project("hukkin/mdformat", ("markdown-it-py", "mdit-py-plugins", "tomli"), distribution="mdformat"),
    Project("globocom/m3u8", ("iso8601", "backports-datetime-fromisoformat", "bottle")),
    Project("caleb531/automata", ("networkx", "frozendict", "pydot", "cached-method", "typing-extensions")),
    Project("matiasb/python-unidiff"),
    Project("asottile/setup-cfg-fmt", ("identify",)),
    Project("asottile/add-trailing-comma", ("tokenize-rt",)),
    Project("dbader/schedule", ("pytz", "mock")),
    Project("py-vobject/vobject", ("python-dateutil", "pytz", "six")),
    Project("caesar0301/treelib", ("six",)),
    Project("facelessuser/pymdown-extensions", ("markdown", "pyyaml", "pygments")),
    Project("textX/textX", ("arpeggio", "click", "html5lib", "jinja2", "setuptools<80", "future")),
    Project(
        "PyFilesystem/pyfilesystem2",
        ("appdirs", "setuptools<80", "six", "parameterized", "pyftpdlib", "psutil", "mock", "pytz"),
    ),
    Project(
        "mwouts/jupytext",
        (
            *("nbformat", "mdit-py-plugins", "markdown-it-py", "packaging", "pyyaml", "toml", "pytest-asyncio"),
            *("jupyter_client", "gitpython", "notebook"),
        ),
        generated={"src/jupytext/version.py": "__version__ = '99.0'\n"},
    ),
    Project(
        "scrapinghub/dateparser",
        (
            *("python-dateutil", "pytz", "regex", "tzlocal", "convertdate", "hijridate", "parameterized", "langdetect"),
            *("freezegun", "ruamel.yaml", "requests", "gitpython"),
        ),
    ),
    Project("RDFLib/rdflib", ("pyparsing", "isodate", "html5lib", "html5rdf", "requests"), distribution="rdflib"),
    Project("neogeny/TatSu", ("rich", "colorama", "regex")),
    Project("vinitkumar/json2xml", ("defusedxml", "urllib3", "requests", "xmltodict", "dicttoxml")),
    Project("marshmallow-code/apispec", ("marshmallow<4", "packaging", "pyyaml", "setuptools<80")),
    Project("Kludex/python-multipart", ("pyyaml", "six")),
    Project("frostming/marko", ("python-slugify", "pygments", "objprint")),
    Project("rr-/docstring_parser"),
    Project("spulec/freezegun", ("python-dateutil", "pytest-asyncio", "six")),
    Project("jendrikseipp/vulture", ("toml", "tomli")),
    Project("agronholm/typeguard", ("typing-extensions", "mypy"), distribution="typeguard"),
    Project(
        "graphql-python/graphql-core",
        ("anyio", "pytest-asyncio", "pytest-describe<3", "pytest-benchmark", "pytest-timeout", "typing-extensions"),
    ),
    Project("rbarrois/python-semanticversion", ("setuptools<80",), distribution="semantic_version"),
    Project("bw2/ConfigArgParse", ("pyyaml", "mock", "toml")),
    Project("JoshData/python-email-validator", ("dnspython", "idna")),
    Project("horejsek/python-fastjsonschema", ("colorama", "requests", "pytest-benchmark", "jsonschema")),
    Project(
        "sloria/environs",
        ("marshmallow<4", "python-dotenv", "packaging", "dj-database-url", "dj-email-url", "django-cache-url"),
    ),
    Project("petl-developers/petl", ("six", "setuptools<80"), generated={"petl/version.py": VERSION_FILE}),
    Project(
        "wireservice/csvkit",
        ("agate", "agate-excel", "agate-dbf", "agate-sql", "sqlalchemy", "openpyxl", "xlrd", "six", "setuptools<80"),
        distribution="csvkit",
    ),
    Project("aio-libs/yarl", ("multidict", "idna", "propcache", "typing-extensions", "hypothesis")),
    Project("bottlepy/bottle", ("mako", "jinja2", "legacy-cgi")),
    Project("pygments/pygments", ("lxml", "wcag-contrast-ratio")),
    Project("jazzband/docopt-ng"),
    Project("adamchainz/django-upgrade", ("tokenize-rt",), distribution="django-upgrade"),
    Project("uiri/toml", ("numpy", "tox")),
    Project("h2non/jsonpath-ng", ("ply", "decorator", "six", "hypothesis", "oslotest")),
    Project("erikrose/parsimonious", ("regex",)),
    Project("pre-commit/pre-commit-hooks", ("ruamel.yaml", "tomli", "toml")),
)
"""None is a corpus of gate.py, repair_cases.py or own_tasks.py."""

SINCE = "2019-01-01"
MOST_LINES = 40
"""Changed lines of source, removed and added together."""
MOST_SOURCES = 3
MOST_TESTS = 60
"""Tests that fail without the fix. More of them mean that something else is broken."""
TEST_TIMEOUT_S = 60
_FIX = re.compile(
    r"\b(fix(es|ed|ing)?|bugs?|bugfix|crash\w*|regression|wrong\w*|incorrect\w*|correct(ly|s)?|broken|breaks|fails?"
    r"|handle[sd]?|raises?|exceptions?|\w*error|prevent|avoid|properly|don't|doesn't|closes?|resolve[sd]?|edge case"
    r"|infinite|ensure)\b",
    re.I,
)
_NO_FIX = re.compile(
    r"^\W*(feat|feature|docs?|chore|refactor\w*|style|ci|build|perf|release|bump|revert"
    r"|add(s|ed)? (support|tests?|type|a )|implement\w*|deprecat\w*|drop|remove[sd]?|rename|update|upgrade|support"
    r"|optimi[sz]e\w*|simplif\w*|clean\w*|move|introduce|allow|backport)\b"
    r"|\b(typos?|mypy|pyright|type hints?|annotations? for|typing issue|flake8|ruff|pylint|linting|lint|black|isort"
    r"|pep ?8|docstrings?|documentation|deprecat\w*|refactor\w*|speed ?up|performance|python ?3\.?1[0-9]|python ?2"
    r"|pypy|numpy 2|pre-commit|dependabot|warnings? in tests?|flaky|coverage|whitespace only|formatting only|parse and"
    r"|benchmarks?)\b",
    re.I,
)
_NOT_SOURCE = re.compile(
    r"(^|/)(docs?|examples?|bench\w*|scripts?|tools|bin|contrib|fuzzing|profiling|noxfile\.py|tasks\.py|setup\.py|"
    r"_?version\.py|__version__\.py|__meta__\.py|_unicode_data|sandbox|perf)($|/)"
)
_TEST = re.compile(r"(^|/)(tests?|testing|testsuite)/|(^|/)(test_[^/]*|[^/]*_test|tests?|conftest)\.py$")
_OTHER_CODE = (".pyx", ".c", ".rs", ".pyi", ".lark", ".g4", ".toml", ".cfg", ".ini")
_PLUGIN = '''\
"""Writes what became of each test to the file named in OUTCOMES."""

import json
import os

outcomes = {}


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        if outcomes.get(report.nodeid) != "failed":
            outcomes[report.nodeid] = report.outcome


def pytest_sessionfinish():
    with open(os.environ["OUTCOMES"], "w") as file:
        json.dump(outcomes, file)
'''


@dataclass(frozen=True)
class Commit:
    """A commit that may be a fix."""

    fix: str
    base: str
    message: str
    sources: tuple[str, ...]
    tests: tuple[str, ...]
    """Every changed file that belongs to tests, data too. Without those that the commit removes."""
    gone: tuple[str, ...]
    """Test files that the commit removes."""


@dataclass(frozen=True)
class Candidate:
    """A bug that is proven by tests."""

    id: str
    repo: str
    base_commit: str
    fix_commit: str
    message: str
    source_files: tuple[str, ...]
    test_files: tuple[str, ...]
    fail_to_pass: tuple[str, ...]
    requirements: tuple[str, ...]
    generated: dict[str, str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirrors", type=Path, required=True, metavar="DIR", help="folder of owner+name/repo")
    parser.add_argument("--work", type=Path, required=True, metavar="DIR", help="folder for environments and trees")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    parser.add_argument("--projects", nargs="+", metavar="NAME", help="these instead of all, as owner/name or name")
    parser.add_argument("--most", type=int, default=12, help="proven candidates of one project (default: 12)")
    parser.add_argument("--seconds-each", type=float, default=180, help="for one project (default: 180)")
    parser.add_argument("--bwrap", default=shutil.which("bwrap"), help="path of bubblewrap")
    asked = parser.parse_args()
    if asked.bwrap is None:
        parser.error("bubblewrap is not on PATH: install it, or give its path with --bwrap")
    work = asked.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    (work / "plugins").mkdir(exist_ok=True)
    (work / "plugins" / "outcomes.py").write_text(_PLUGIN)
    for project in PROJECTS:
        if asked.projects and not {project.repo, project.repo.rpartition("/")[2]} & set(asked.projects):
            continue
        bench = Bench(project, asked.mirrors / project.repo.replace("/", "+") / "repo", work, asked.bwrap)
        mine(bench, asked.out, asked.most, asked.seconds_each)


def mine(bench: Bench, out: Path, most: int, seconds: float) -> None:
    """Appends what can be proven in that time."""
    started = time.monotonic()
    rows = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    proven = sum(row["repo"] == bench.project.repo for row in rows)
    if proven >= most:
        return
    bench.prepare()
    tried = bench.work / "tried" / bench.project.repo.replace("/", "+")
    tried.parent.mkdir(exist_ok=True)
    known = set(tried.read_text().split()) if tried.exists() else set()
    proofs = {frozenset(row["fail_to_pass"]) for row in rows if row["repo"] == bench.project.repo}
    count = 0
    for commit, patch in commits(bench.mirror):
        if proven >= most or time.monotonic() - started > seconds:
            break
        if {commit.fix, patch} & known:
            continue
        count += 1
        candidate, why = bench.prove(commit)
        if candidate and frozenset(candidate.fail_to_pass) in proofs:
            candidate, why = None, "same tests as a newer fix"
        print(f"{bench.project.repo} {commit.fix[:10]} {why}: {commit.message.splitlines()[0][:80]}", flush=True)
        if candidate:
            proven += 1
            proofs.add(frozenset(candidate.fail_to_pass))
            with out.open("a") as file:
                file.write(json.dumps(asdict(candidate), ensure_ascii=False) + "\n")
        known |= {commit.fix, patch}
        with tried.open("a") as file:
            file.write(f"{commit.fix} {patch}\n")
    taken = time.monotonic() - started
    print(f"{bench.project.repo}: {proven} proven, {count} tried now, {taken:.0f} s", flush=True)


# History


def commits(mirror: Path) -> Iterator[tuple[Commit, str]]:
    """Commits that look like small fixes, newest first, each with a hash of its change of the source."""
    log = git(
        mirror,
        "log",
        f"--since={SINCE}",
        "--format=%x01%H%x00%P%x00%B%x00",
        "--diff-merges=first-parent",
        "--raw",
        "--no-renames",
    )
    for entry in log.split("\x01")[1:]:
        fix, parents, message, raw = entry.split("\0", 3)
        changed = dict(line.rpartition("\t")[::2][::-1] for line in raw.splitlines() if line.startswith(":"))
        if not parents or not speaks_of_fix(message) or any(path.endswith(_OTHER_CODE) for path in changed):
            continue
        tests = [path for path in changed if _TEST.search(path)]
        sources = [path for path in changed if path.endswith(".py") and path not in tests]
        if not tests or not 1 <= len(sources) <= MOST_SOURCES or any(map(_NOT_SOURCE.search, sources)):
            continue
        gone = [path for path in tests if changed[path].endswith("D")]
        if any(not changed[path].endswith("M") for path in sources):
            continue
        base = parents.split()[0]
        patch = git(mirror, "diff", "--no-renames", "-U0", base, fix, "--", *sources, check=False)
        lines = [line for line in patch.splitlines() if re.match(r"[+-](?![+-]{2} )", line)]
        if not 1 <= len(lines) <= MOST_LINES:
            continue
        kept = tuple(path for path in tests if path not in gone)
        commit = Commit(fix, base, message.strip(), tuple(sources), kept, tuple(gone))
        yield commit, hashlib.sha256("\n".join(lines).encode()).hexdigest()[:40]


def speaks_of_fix(message: str) -> bool:
    """Whether a commit message is one of a bug fix. That of a merge is in its body."""
    lines = [line for line in message.strip().splitlines() if line.strip()]
    if lines and lines[0].startswith("Merge branch"):
        return False
    if len(lines) > 1 and lines[0].startswith("Merge "):
        lines = lines[1:]
    if not lines or _NO_FIX.search(lines[0]):
        return False
    return bool(_FIX.search(" ".join(lines[:4])))


def git(mirror: Path, *arguments: str, check: bool = True, **environment: str) -> str:
    """Git without anybody's configuration."""
    alone = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "PATH": os.environ["PATH"], **environment}
    command = ["git", f"--git-dir={mirror}", "-c", "core.hooksPath=/dev/null", "-c", "core.quotePath=false", *arguments]
    done = subprocess.run(command, capture_output=True, check=False, env=alone)
    if check and done.returncode:
        sys.exit(f"git {arguments[0]} failed in {mirror}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout.decode(errors="replace")


# Trees and tests


class Bench:
    """Runs one project's tests."""

    def __init__(self, project: Project, mirror: Path, work: Path, bwrap: str) -> None:
        self.project = project
        self.mirror = mirror.resolve()
        self.work = work
        self.bwrap = bwrap
        self.venv = work / "venvs" / project.repo.replace("/", "+")
        self.tree = work / "tree"

    def prepare(self) -> None:
        """Makes the virtual environment, if it is not there."""
        if (self.venv / "ready").exists():
            return
        shutil.rmtree(self.venv, ignore_errors=True)
        venv.create(self.venv, symlinks=True)
        wanted = ("pytest<9", *self.project.requirements)
        pip = [sys.executable, "-m", "pip", "--python", str(self.venv / "bin/python"), "install", "-q", *wanted]
        subprocess.run(pip, check=True)
        if self.project.distribution:
            site = next(self.venv.glob("lib/python*/site-packages"))
            about = site / f"{self.project.distribution}-99.0.dist-info"
            about.mkdir()
            (about / "METADATA").write_text(
                f"Metadata-Version: 2.1\nName: {self.project.distribution}\nVersion: 99.0\n"
            )
        (self.venv / "ready").touch()

    def prove(self, commit: Commit) -> tuple[Candidate | None, str]:
        """The candidate, or None and why not."""
        suites = sorted(path for path in commit.tests if PurePosixPath(path).suffix == ".py" and is_suite(path))
        if not suites:
            return None, "no tests"
        if not self.checkout(commit.base) or not self.overlay(commit):
            return None, "missing objects"
        before = self.run(suites)
        failed = [name for name, outcome in before.items() if outcome == "failed"]
        if not failed:
            return None, "no test fails before" if before else "nothing runs before"
        before = self.run(suites)
        failed = [name for name in failed if before.get(name) == "failed"]
        if not self.checkout(commit.fix):
            return None, "missing objects"
        after = self.run(suites)
        fixed = [name for name in failed if after.get(name) == "passed"]
        if not fixed:
            return None, "no test passes after"
        if len(fixed) > MOST_TESTS:
            return None, "too many tests"
        again = self.run(suites)
        fixed = [name for name in fixed if again.get(name) == "passed"]
        if not fixed:
            return None, "not twice"
        candidate = Candidate(
            id=f"{self.project.repo.replace('/', '__')}-{commit.fix[:10]}",
            repo=self.project.repo,
            base_commit=commit.base,
            fix_commit=commit.fix,
            message=commit.message,
            source_files=commit.sources,
            test_files=tuple(sorted(commit.tests)),
            fail_to_pass=tuple(fixed),
            requirements=("pytest<9", *self.project.requirements),
            generated=self.project.generated,
        )
        return candidate, "PROVEN"

    def checkout(self, commit: str) -> bool:
        """Fills the tree with a commit. False: the mirror lacks objects."""
        shutil.rmtree(self.tree, ignore_errors=True)
        self.tree.mkdir(parents=True)
        index = {"GIT_INDEX_FILE": str(self.work / "index")}
        Path(index["GIT_INDEX_FILE"]).unlink(missing_ok=True)
        git(self.mirror, f"--work-tree={self.tree}", "read-tree", commit, check=False, **index)
        git(self.mirror, f"--work-tree={self.tree}", "checkout-index", "-a", "-f", "-q", check=False, **index)
        for path, text in self.project.generated.items():
            if (self.tree / path).parent.is_dir():
                (self.tree / path).write_text(text)
        return any(self.tree.iterdir())

    def overlay(self, commit: Commit) -> bool:
        """Puts the fix's test files over the tree. False: the mirror lacks one."""
        for path in commit.gone:
            (self.tree / path).unlink(missing_ok=True)
        index = {"GIT_INDEX_FILE": str(self.work / "index")}
        git(self.mirror, f"--work-tree={self.tree}", "read-tree", commit.fix, check=False, **index)
        git(
            self.mirror,
            f"--work-tree={self.tree}",
            "checkout-index",
            "-f",
            "-q",
            "--",
            *commit.tests,
            check=False,
            **index,
        )
        return all((self.tree / path).exists() for path in commit.tests)

    def run(self, suites: Collection[str]) -> dict[str, str]:
        """The outcome of each test. Empty if they take too long or pytest does not get to the end."""
        report = self.tree / ".outcomes.json"
        report.unlink(missing_ok=True)
        done = self.inside(
            ("-m", "pytest", "-q", "--maxfail=200", "-p", "no:cacheprovider", "-p", "outcomes"),
            ("--rootdir=.", "-o", "addopts=", "-o", "filterwarnings=", "-W", "ignore"),
            ("--continue-on-collection-errors", *suites),
        )
        if done is None or not report.exists():
            return {}
        outcomes: dict[str, str] = json.loads(report.read_text())
        return outcomes

    def inside(self, *arguments: Sequence[str]) -> int | None:
        """Runs Python in the tree. The exit code, or None after a timeout."""
        box = [self.bwrap, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
        box += ["--ro-bind", str(self.work), str(self.work), "--bind", str(self.tree), str(self.tree)]
        box += ["--unshare-net", "--unshare-pid", "--die-with-parent", "--chdir", str(self.tree), "--"]
        paths = (self.tree / "src", self.tree / "lib", self.tree, self.work / "plugins")
        environment = {
            "PATH": f"{self.venv}/bin:/usr/bin:/bin",
            "HOME": "/tmp",
            "LANG": "C.UTF-8",
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OUTCOMES": str(self.tree / ".outcomes.json"),
        }
        command = [*box, str(self.venv / "bin/python"), *(word for part in arguments for word in part)]
        try:
            done = subprocess.run(command, capture_output=True, env=environment, timeout=TEST_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            return None
        return done.returncode


def is_suite(path: str) -> bool:
    """Whether pytest collects tests from the file."""
    name = PurePosixPath(path).name
    return (name.startswith("test") and name not in ("testing.py", "testlib.py")) or name.endswith("_test.py")


if __name__ == "__main__":
    main()
