"""Training rows from commit history: a commit's message stands for the issue, and what it changed for the answer.

    python -m scrout.lab.train.history --mirrors DIR --repos NAMES_OR_FILE --per-repo N --out FILE.jsonl

Rows have the fields of the task sets. A commit is taken if it looks like a fix or a small feature and its message says
what it is about. A message is written by who knows the answer, so rows whose message spells out a changed path are
left out; the rest still names the right symbols more often than an issue does.
"""

from __future__ import annotations

import argparse
import atexit
import hashlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from scrout.base import FrozenModel, ScroutError, TaskError
from scrout.git import GitDir, GitError, repository_at
from scrout.index.files import role
from scrout.lab.train.blocklist import refuse_blocked
from scrout.scout.recon.mentions import without_comments

MAX_FILES = 6
MAX_LINES = 300
MIN_CHARS = 80
MIN_WORDS = 12
RICH_CHARS = 200
"""From here on a message explains; such commits are preferred."""
MAX_CHARS = 8_000
MAX_BULLETS = 5
"""A message with more is a list of many changes."""
SINCE = "2014-01-01"
"""Older messages are shorter, and older code is laid out differently."""

_CODE = frozenset(
    (
        *(".py", ".pyx", ".pxd", ".pyi", ".c", ".h", ".cc", ".cpp", ".cxx", ".hpp", ".hh", ".go", ".rs"),
        *(".java", ".kt", ".rb", ".php", ".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".vue"),
    )
)

_TRAILER = re.compile(
    r"^[^\S\n]*+(?:[A-Z]\w*+(?:-\w++)+|Author|Bug|Cc|Ref(?:erence)?s?|PR|Link|See|Issue|git-svn-id|svn path|Topic)"
    r"\s*+:(?:\s.*)?$"
    r"|^(?:Squashed commit of .*|.*squashes the following commits:?|[^\w\n]*+This is a backport of .*)$"
    r"|^#+ (?:What do these|Are there changes|Is it a substantial|Related issue|Checklist|Description|Summary).*$"
    r"|^--HG--\s*$|^extra : .*$|^[^\S\n]*+\(cherry picked from commit .*$|^[^\S\n]*+-{3,}+\s*$"
    r"|^[^\S\n]*+\[(?:ci skip|skip ci)\]\s*$"
    r"|^[^\S\n]*+Merge (?:pull request|branch|remote|commit|tag|in) .*$"
    r"|^[^\S\n]*+(?:Co-authored-by|Signed-off-by)\b.*$"
    # What squashing leaves behind of a review.
    r"|^[^\S\n]*+[*-][^\S\n](?:[^\w\n]*+(?:fix(?:ed|es)?|address(?:ed)?|apply|update[ds]?|add(?:ed)?|more|minor|further|wip|lint\w*|typos?"
    r"|black|isort|mypy|flake8|pep8|ruff|whatsnew|tests?|merge\b.*|review|revert|cleanup|clean up|nits?|changelog|"
    r"release notes?|\[pre-commit\.ci\].*|auto fixes.*|suggestions?|from code review|comments?|feedback|ci|docs?|"
    r"formatting|style|news|fragment|file|some|the|and|per|a|to|up|for)\b)+[^\w\n]*$",
    re.IGNORECASE | re.MULTILINE,
)
_NUMBER = re.compile(
    r"(?:(?<!\s)\s++)?\((?:(?:gh|pr|issue|closes?|fix(?:e[sd])?|refs?)?[\s:-]*+(?:#|gh-)\d++[,\s]*+)+\)"
    r"|\b(?:(?:this\s+)?(?:closes?|fix(?:e[sd])?|resolves?|refs?|see|re|related to|part of|xref)(?:\s*+:)?\s++)?"
    r"(?:(?:pr|issue|bug|ticket)\s*)?(?:[\w.-]{1,100}/[\w.-]{1,100})?"
    r"(?:#\d+|\bgh-?\d+\b|https?://\S{1,300}/(?:issues|pull|ticket)/\d+\S*)\s*[.,:]?",
    re.IGNORECASE,
)
_SQUASHED = re.compile(r"^[0-9a-f]{7,12} \[[^\]\n]{1,60}\] ", re.MULTILINE)
_NEWS = re.compile(r"(?:^|/)(?:news|newsfragments?|changes|changelog[^/]*|whatsnew|unreleased[^/]*)/", re.IGNORECASE)
_SUBJECT_TAG = re.compile(r"^\s*(?:\[[\w .,/-]{1,30}\]\s*)+|^\s*(?:bug|fix|enh|feat)(?:\([\w./-]+\))?\s*[:-]\s*", re.I)
_DULL = re.compile(
    r"\b(?:typos?|spelling|misspell\w*|whitespace|lint(?:er|ing)?|pep-?8|flake8|black|isort|ruff|pylint|pyupgrade|"
    r"reformat\w*|formatting|copyright|licen[cs]e|version bump|"
    r"pre-commit|codecov|coverage|ci|travis|appveyor|github actions|workflows?|cython warnings|"
    r"type (?:hints?|annotations?)|annotations?|typing|mypy|benchmarks?|asv|tests?|unused|modernize|f-strings?)\b",
    re.IGNORECASE,
)
_DOCUMENTS = re.compile(
    r"\b(?:doc(?:string|test)?s?|documentation|documenting|examples?|change ?log|what'?s ?new|release notes?|readme|"
    r"tutorials?)\b",
    re.IGNORECASE,
)
_FIXES = re.compile(
    r"\b(?:fix\w*|bugs?|crash\w*|wrong\w*|incorrect\w*|rais\w+|errors?|regression|broken|fails?)\b", re.I
)
_NEVER = re.compile(
    r"^\s*(?:merge\b|revert\b|back ?port\b|bump\b|release\b|prepare\b|version\b|v?\d+\.\d+|upgrade\b|pin\b|vendor\b|"
    r"updat(?:e|ing) (?:to|dependenc\w+|requirements|version|translations|vendored|typeshed|submodules?|copyright)|"
    r"sync typeshed|squash\w*|initial commit|wip\b|refactor\w*|rename\w*|move\w*|reorgani[sz]e\w*|clean\w*|"
    r"(?:maint|mnt|sty|doc|docs|tst|test|tests|ci|bld|build|chore|style|rls|rel|typ|refactor|revert|ref|cln|bench|"
    r"deps|security)\b\s*+(?:\([\w./-]+\))?!?\s*+[:/&,-]|"
    r"(?-i:MAINT|MNT|STY|DOCS?|TST|CI|BLD|RLS|REL|TYP|REF|CLN)\b|\[(?:pre-commit|maint|doc|docs|ci|bot)[^\]]*\])"
    r"|\b(?:black|isort|ruff format|pyupgrade|reindent)\b.{0,200}\b(?:all|everything|codebase)\b",
    re.IGNORECASE,
)


class HistoryRow(FrozenModel):
    """One commit as a task with its answer, in the layout of the task sets."""

    instance_id: str
    """owner__name@ and the first 12 digits of the commit."""
    repo: str
    base_commit: str
    """The commit's parent."""
    problem_statement: str
    gold_files: tuple[str, ...]
    """What the commit changed, without tests, documentation and changelogs, as in the task sets of this language."""
    new_files: tuple[str, ...]
    """Those of gold_files that the parent does not have."""
    gold_regions: dict[str, tuple[tuple[int, int], ...]]
    """Lines of the parent that changed, per file; an insertion is the line it follows."""
    other_files: tuple[str, ...]
    """Documentation and changelogs that changed with them."""
    created_at: str


@dataclass(frozen=True)
class CommitChange:
    """One commit that may become a row."""

    commit: str
    parent: str
    created_at: str
    message: str
    changed: tuple[str, ...]
    added: tuple[str, ...]
    other: tuple[str, ...]


def rows(clone: Path, repo: str, limit: int, tip: str = "HEAD", since: str = SINCE) -> Iterator[HistoryRow]:
    """At most `limit` rows from the history of a commit, spread over it, always the same ones; newest first."""
    with repository_at(clone).borrowed() as git:
        candidates = list(_changes(git, tip, since))
        share = max(1.0, len(candidates) / max(1, limit))
        for number in range(min(limit, len(candidates))):
            stretch = candidates[int(number * share) : int((number + 1) * share)]
            for change in sorted(stretch, key=_preference):
                row = _row(git, repo, change)
                if row is not None:
                    yield row
                    break


def _preference(change: CommitChange) -> tuple[bool, bytes]:
    # By digest: which commit of a stretch is taken does not depend on the clock or on luck.
    return len(change.message) < RICH_CHARS, hashlib.sha256(change.commit.encode()).digest()


def _changes(git: GitDir, tip: str, since: str) -> Iterator[CommitChange]:
    """The commits that look like a fix or a small feature, going by message and names of files, newest first."""
    for commit, parent, created_at, raw, files in _log(git, tip):
        if created_at < since or any(status not in "AM" for status in files.values()):
            continue
        roles = {path: role(path) for path in files}
        other = [path for path, kind in roles.items() if kind in ("docs", "changelog", "example") or _NEWS.search(path)]
        gold = [path for path, kind in roles.items() if kind != "test" and path not in other and not _testing(path)]
        added = [path for path in gold if files[path] == "A"]
        old_code = [path for path in gold if files[path] == "M" and Path(path).suffix in _CODE]
        if not old_code or len(gold) > MAX_FILES:
            continue
        message = clean(raw)
        if _telling(raw, message) and not any(path in message for path in gold):
            yield CommitChange(commit, parent, created_at, message, tuple(gold), tuple(added), tuple(other))


def clean(message: str) -> str:
    """A commit message without trailers, sign-offs, numbers of issues, and what squashing leaves behind."""
    text = _SQUASHED.sub("", without_comments(message.replace("\r\n", "\n"))).strip()
    subject, _, body = text.partition("\n")
    subject, body = (re.sub(r"\(\s*\)", "", _NUMBER.sub("", part)) for part in (subject, _TRAILER.sub("", body)))
    subject = _SUBJECT_TAG.sub("", subject).strip()
    lines = [line.rstrip() for line in body.split("\n")]
    # Squashing repeats the subject as the first item.
    lines = [line for line in lines if not line or (re.search(r"\w", line) and line.lstrip("*- ") != subject)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join([subject, *lines])).strip()


def _telling(raw: str, message: str) -> bool:
    subject = raw.strip().partition("\n")[0]
    if _NEVER.search(subject) or _DOCUMENTS.search(subject) or (_DULL.search(subject) and not _FIXES.search(subject)):
        return False
    words = re.findall(r"[A-Za-z_]{2,}", message)
    enough = len(message) >= MIN_CHARS or len(words) >= MIN_WORDS
    few = len(message) <= MAX_CHARS and len(re.findall(r"^[^\S\n]*+[*-]\s", message, re.MULTILINE)) <= MAX_BULLETS
    return enough and few and len(words) >= MIN_WORDS - 4


def _testing(path: str) -> bool:
    """The task sets count every path as a test that has one of these words in a folder or name."""
    return re.search(r"(?:^|[/_.-])(?:tests?|testing|e2e|conftest)(?:[/_.-]|$)", path, re.IGNORECASE) is not None


def _log(git: GitDir, tip: str) -> Iterator[tuple[str, str, str, str, dict[str, str]]]:
    """Commit, parent, date, message and changed files with their status, of every commit with one parent."""
    with git.start(
        *("log", "--no-merges", "--min-parents=1", "--no-renames", "--raw", "--no-abbrev", "-z"),
        *("--encoding=UTF-8", "--format=%x00%H%x00%P%x00%aI%x00%B%x00", tip),
    ) as process:
        assert process.stdout is not None
        fields = _fields(process.stdout.read)
        token = next(fields, None)
        while token is not None:
            if not re.fullmatch(r"[0-9a-f]{40,64}", token):
                token = next(fields, None)
                continue
            commit, parent, date, message = token, next(fields, ""), next(fields, ""), next(fields, "")
            files: dict[str, str] = {}
            for token in fields:
                if token.lstrip("\n").startswith(":"):
                    files[next(fields, "")] = token[-1]
                elif token.strip():
                    break
            else:
                token = None
            yield commit, parent, date, message, files


def _fields(read: Callable[[int], bytes]) -> Iterator[str]:
    """What NUL separates, as text."""
    rest = b""
    while chunk := read(1 << 20):
        *whole, rest = (rest + chunk).split(b"\0")
        yield from (part.decode("utf-8", errors="replace") for part in whole)
    if rest:
        yield rest.decode("utf-8", errors="replace")


def _row(git: GitDir, repo: str, change: CommitChange) -> HistoryRow | None:
    """None: the change is too large, binary, or its blobs are not all here."""
    try:
        diff = git(
            *("diff-tree", "-p", "-U0", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv"),
            *(change.parent, change.commit, "--", *(f":(literal){path}" for path in change.changed)),
        ).decode("utf-8", errors="replace")
    except GitError:
        return None
    regions, lines = read_diff(diff)
    if not 0 < lines <= MAX_LINES or not all(path in regions or path in change.added for path in change.changed):
        return None
    return HistoryRow(
        instance_id=f"{repo.replace('/', '__')}@{change.commit[:12]}",
        repo=repo,
        base_commit=change.parent,
        problem_statement=change.message,
        gold_files=tuple(sorted(change.changed)),
        new_files=tuple(sorted(change.added)),
        gold_regions={path: regions[path] for path in sorted(regions) if path not in change.added},
        other_files=tuple(sorted(change.other)),
        created_at=change.created_at,
    )


def read_diff(diff: str) -> tuple[dict[str, tuple[tuple[int, int], ...]], int]:
    """The old side's changed lines per file of a diff without context, and how many lines changed on both sides."""
    regions: dict[str, list[tuple[int, int]]] = {}
    path = ""
    total = left = 0
    for line in diff.split("\n"):
        if left > 0 and line[:1] in "+-":  # inside a hunk: a changed line may look like a header
            left -= 1
            continue
        hunk = re.match(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@", line)
        if hunk:
            first, old, new = int(hunk[1]), int(hunk[2] or 1), int(hunk[3] or 1)
            regions.setdefault(path, []).append((max(first, 1), max(first + old - 1, first, 1)))
            left = old + new
            total += left
        elif line.startswith("--- a/"):
            path = line.removeprefix("--- a/").rstrip("\t")
        elif line.startswith("+++ b/"):
            path = line.removeprefix("+++ b/").rstrip("\t")
    return {path: tuple(spans) for path, spans in regions.items()}, total


@cache
def open_mirror(clone: Path) -> Path:
    """A git directory of scrout's own with the clone's objects, until the process ends."""
    kept = ExitStack()
    atexit.register(kept.close)
    return kept.enter_context(repository_at(clone).borrowed()).path


def mirror(mirrors: Path, repo: str) -> Path:
    """The git folder of a repository's clone, DIR/owner+name/repo, whatever the case of its letters."""
    wanted = repo.replace("/", "+").lower()
    # Sorted: of two clones that differ in case alone it is always the same one.
    for folder in sorted(mirrors.iterdir()) if mirrors.is_dir() else ():
        if folder.name.lower() == wanted:
            return folder / "repo" if (folder / "repo").is_dir() else folder
    raise TaskError(f"{mirrors} has no clone named {repo.replace('/', '+')}. Make one with git clone --bare.")


def _asked(repos: Iterable[str]) -> list[str]:
    """Names as given, or the lines of files that are given instead."""
    names: list[str] = []
    for each in repos:
        names += Path(each).read_text(encoding="utf-8").split() if Path(each).is_file() else each.split(",")
    return [name.replace("+", "/") for name in names if name]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirrors", type=Path, required=True, help="folder of bare clones named owner+name/repo")
    parser.add_argument("--repos", nargs="+", required=True, help="owner/name, separated by commas, or a file of them")
    parser.add_argument("--per-repo", type=int, default=40)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    try:
        repos = _asked(asked.repos)
        refuse_blocked(repos)
        clones = {repo: mirror(asked.mirrors, repo) for repo in repos}
        refuse_blocked(str(clone) for clone in clones.values())
        with asked.out.open("w", encoding="utf-8") as out:
            for repo, clone in clones.items():
                count = 0
                for row in rows(clone, repo, asked.per_repo):
                    out.write(row.model_dump_json() + "\n")
                    count += 1
                print(f"{repo}: {count} rows", file=sys.stderr)
    except ScroutError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
