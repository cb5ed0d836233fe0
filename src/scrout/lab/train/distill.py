"""recon as a teacher: its searches of tasks whose fix is known, rendered as the calls that a model would make.

Every call is run, in the sandbox and by the tools of an episode, so what is answered is real. Thoughts say what speaks
for a step, as far as a model could know it from the issue and what it has seen. Whether the search found the right
files is not asked here: the corpus keeps those that did.
"""

from __future__ import annotations

import asyncio
import json
import posixpath
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from pydantic import JsonValue

from scrout.agent.dialect import Toolbox, ToolUse
from scrout.agent.tools import Workbench, aliases
from scrout.base import FrozenModel, ScroutError, TaskError
from scrout.batch.tasks import Repositories, TaskRow
from scrout.config.settings import Settings
from scrout.files import JsonLines
from scrout.index.repository import Repository, read_repository
from scrout.lab.train.blocklist import refuse_blocked
from scrout.lab.train.corpus.trajectory import LAYOUT, ROOT, DistilledEpisode, FixAnswer, ToolStep, changed_files
from scrout.lab.train.episodes import in_parallel
from scrout.sandbox.probe import require_tier
from scrout.sandbox.task_sandbox import TaskSandbox, open_task_sandbox
from scrout.sandbox.tier import Tier
from scrout.scout.recon.executed_files import read_execution_trace
from scrout.scout.recon.mentions import Mentions
from scrout.scout.recon.ranker import load_model
from scrout.scout.recon.reproduce import ReproductionAttempt, reproduce
from scrout.scout.recon.search import Ranked, Ranking, examine, judge
from scrout.scout.recon.signals import ClueKind

TASK_S = 90.0
MAX_STEPS = 8
MIN_FILES, MAX_FILES = 2, 4
"""Files that are looked at: those that recon names, and where these are fewer, the next source."""
VIEW_LINES, LINES_BEFORE = 25, 2
MOST_NAMES, MOST_WORDS = 3, 4
_MOST_DEFINERS = 30  # a name that more files define says nothing
_WORD = re.compile(r"[A-Za-z_]\w{2,60}", re.A)
_START = json.dumps({"layout": LAYOUT})[:-1].encode()
_SEEN: frozenset[ClueKind] = frozenset(("raised", "place", "path", "executed", "message", "symbol", "words"))
"""Clues that the issue, a search or a run shows. A model knows nothing of the index's, such as past commits."""


class DistillResult(FrozenModel):
    """What came of all tasks."""

    tasks: int
    before: int
    """Taught by a former run."""
    distilled: int
    """By this one."""
    steps: float | None
    """Of an episode of this run, on average; None: it made none."""
    failed: dict[str, str]
    """Why, by task. They are tried again by the next run."""


async def distill(
    rows: Sequence[TaskRow],
    repositories: Repositories,
    out: Path,
    settings: Settings,
    *,
    parallel: int = 2,
    progress: Callable[[str], None] = lambda words: None,
) -> DistillResult:
    """An episode of every task, appended to a file as it is done. What the file holds already is not done again."""
    refuse_blocked(dict.fromkeys(name for row in rows for name in (row.repo, row.id)))
    tier = require_tier(settings.sandbox)
    known = _read(out)
    left = [row for row in rows if row.id not in known]
    steps: list[int] = []
    failed: dict[str, str] = {}

    async def work(row: TaskRow) -> None:
        try:
            made = await _distill(row, repositories, tier, settings)
        except ScroutError as error:
            failed[row.id] = str(error)
        else:
            _append(out, made)
            steps.append(len(made.steps))
        done = len(steps) + len(failed)
        progress(f"{done:,} of {len(left):,} tasks, {len(failed):,} failed: {row.id}")

    await in_parallel(left, parallel, work)
    return DistillResult(
        tasks=len(rows),
        before=len(rows) - len(left),
        distilled=len(steps),
        steps=sum(steps) / len(steps) if steps else None,
        failed=failed,
    )


def _read(path: Path) -> frozenset[str]:
    try:
        last = path.read_bytes().rpartition(b"\n")[2] if path.exists() else b""
        # A last line that a kill cut off is overwritten. Anything else without a line break is not ours to overwrite.
        if last.startswith(_START) or _START.startswith(last):
            return frozenset(one.issue_id for one in JsonLines(path, DistilledEpisode).read())
    except OSError as error:
        raise TaskError(f"{path}: {error.strerror or error}. Name a file that you may read and write.") from None
    except TaskError:
        pass
    raise TaskError(f"{path} holds other things than episodes of `scrout train distill`. Name a new file.")


def _append(path: Path, made: DistilledEpisode) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        JsonLines(path, DistilledEpisode).append(made)
    except OSError as error:
        why = error.strerror or error
        raise TaskError(f"{path}: {why}. Make room, or name a file that you may write to.") from None


async def _distill(row: TaskRow, repositories: Repositories, tier: Tier, settings: Settings) -> DistilledEpisode:
    if row.gold is None:
        raise TaskError(f"{row.id}: its fix is not known. Give the task its gold, a patch or files.")
    try:
        async with asyncio.timeout(TASK_S), AsyncExitStack() as stack:
            task = await asyncio.to_thread(repositories.task, row)
            refuse_blocked([str(task.repo)])
            # Not in a thread, nor what reads the repository: numpy parses the head of each stored array as Python, and
            # where two threads parse at once, CPython 3.11 may raise a SystemError.
            task_sandbox = stack.enter_context(open_task_sandbox(task, tier, settings))
            changed = changed_files(row.gold.patch) or row.gold.files
            gold = tuple(path for path in changed if task_sandbox.base.read(path) is not None)
            if not gold:
                raise TaskError(f"{row.id}: no file of its fix was there before. Leave it out.")
            steps = await _search(row.text, task_sandbox, settings)
    except TimeoutError:
        raise TaskError(f"{row.id}: not done after {TASK_S:g} s. Leave it out, or lower --parallel.") from None
    return DistilledEpisode(
        issue_id=row.id,
        repository=Path(row.repo).name if Path(row.repo).is_absolute() else row.repo,
        base_commit=task.base_commit,
        issue=row.text,
        steps=steps,
        gold=FixAnswer(files=gold, patch=row.gold.patch),
    )


async def _search(text: str, task_sandbox: TaskSandbox, settings: Settings) -> tuple[ToolStep, ...]:
    """What recon does, then what a model would do to find the same."""
    base, model = task_sandbox.base, load_model()
    repository = read_repository(base.tree / ".git", base.commit, settings.scout.subtree)
    examined = examine(text, repository, model.shortlist)
    # The project's own tests are left out: before a fix they pass, and running them is most of the time.
    tried = await reproduce(text, repository, task_sandbox) if settings.scout.reproduce else ReproductionAttempt()
    seen = (
        list(read_execution_trace(tried.execution_trace, examined.mentions, repository))
        if tried.execution_trace
        else []
    )
    found = judge(examined, repository, MAX_FILES, model, seen)
    workspace = task_sandbox.fresh()
    try:
        async with task_sandbox.session(workspace, aliases(task_sandbox)) as session:
            context = _Context(Workbench(session), str(base.repo))
            await _show(context, examined.mentions, repository, found, tried)
    finally:
        workspace.remove()
    return tuple(context.steps[:MAX_STEPS])


async def _show(
    context: _Context, mentions: Mentions, repository: Repository, found: Ranking, tried: ReproductionAttempt
) -> None:
    files = _files(found, repository)
    suffix = posixpath.splitext(files[0].path)[1] if files else ""
    names = _names(mentions, repository, files)
    words = [word for word in _words(mentions, repository, files) if word not in {name.lower() for name in names}]
    if names:
        listed = " and ".join(f"`{name}`" for name in names)
        await context.run(f"The report names {listed}. I look where that is.", _grep("-rnwE", names.values(), suffix))
    else:
        await context.run("The report names nothing that I could look up. I see what there is.", "ls")
    if words:
        counted = f"{_grep('-rci', words, suffix)} | grep -v ':0$' | sort -t: -k2 -nr"
        await context.run(f"I count which files have most to do with {', '.join(words)}.", counted)
    if (claim := tried.reproduction) is not None and claim.command:
        for path, content in claim.files.items():
            thought = "The report shows code. I write it to a file of its own."
            await context.edit(thought, command="create", path=path, file_text=content)
        await context.run("I run it to see whether it fails as the report says.", context.at_root(claim.command))
    for file in files:
        folder = posixpath.dirname(file.path) or "."
        if not context.has_seen(file.path):
            await context.run("There is more to look through.", f"ls '{folder}'" if _is_plain(folder) else "ls")
        first, last = _lines(file, found)
        await context.edit(_why(file), command="view", path=file.path, view_range=[first, last])


def _files(found: Ranking, repository: Repository) -> tuple[Ranked, ...]:
    sources = {path for path, file in repository.files.items() if file.role == "source"}
    further = [file for file in found.ranked[len(found.named) :] if file.path in sources]
    return (*found.named, *further[: max(0, MIN_FILES - len(found.named))])


@dataclass
class _Context:
    """Runs calls and keeps what they gave."""

    tools: Toolbox
    repo: str
    """The repository's folder on this machine. It is written into no episode."""
    steps: list[ToolStep] = field(default_factory=list)

    async def run(self, thought: str, command: str) -> None:
        await self._use(thought, ToolUse("bash", {"command": command}))

    async def edit(self, thought: str, **arguments: JsonValue) -> None:
        await self._use(thought, ToolUse("str_replace_editor", arguments))

    async def _use(self, thought: str, call: ToolUse) -> None:
        if len(self.steps) < MAX_STEPS:
            answer = self.at_root(await self.tools.use(call))
            act = ToolStep(thought=thought, tool=call.name, arguments=dict(call.arguments), observation=answer)
            self.steps.append(act)

    def has_seen(self, path: str) -> bool:
        return any(path in step.observation for step in self.steps)

    def at_root(self, text: str) -> str:
        return text.replace(self.repo, ROOT)


def _names(mentions: Mentions, repository: Repository, files: Sequence[Ranked]) -> dict[str, str]:
    """Names of the report that stand in these files, the rarest first, each with what to look for."""
    paths = {file.path for file in files}
    defined = {
        one.name.rpartition(".")[2]
        for path in paths & repository.files.keys()
        for one in repository.files[path].definitions
        if one.kind != "constant"
    }
    found = {}
    for name, where in mentions.names.items():
        written = bool(where & {"quoted", "prose"})
        near = name in defined and len(repository.defining.get(name, ())) <= _MOST_DEFINERS
        used = name not in repository.defining and _holds(repository, name.lower(), paths)
        if _WORD.fullmatch(name) and ((near and (written or not name.islower())) or (used and written)):
            found[name] = (repository.telling(name.lower()) + near, f"(def|class) {name}" if near else name)
    best = sorted(found, key=lambda name: (-found[name][0], name))[:MOST_NAMES]
    return {name: found[name][1] for name in best}


def _words(mentions: Mentions, repository: Repository, files: Sequence[Ranked]) -> list[str]:
    """Words of the report that these files hold, the rarest first; those of its title count twice."""
    paths = {file.path for file in files}
    held = [word for word in mentions.words if _WORD.fullmatch(word) and _holds(repository, word, paths)]
    worth = {word: repository.rarity(word) * (2 if word in mentions.title_words else 1) for word in held}
    return sorted(held, key=lambda word: (-worth[word], word))[:MOST_WORDS]


def _holds(repository: Repository, word: str, paths: set[str]) -> bool:
    documents = {repository.documents[repository.position[path]] for path in paths if path in repository.position}
    return not documents.isdisjoint(repository.holders(word).tolist())


def _grep(flags: str, wanted: Iterable[str], suffix: str) -> str:
    # They are made of letters, digits and underscores. Quotes keep one such as `make` from looking like a program.
    patterns = " ".join(f"-e '{one}'" for one in wanted)
    kind = f" --include='*{suffix}'" if _is_plain(suffix) else ""
    return f"grep {flags}{kind} --exclude-dir=tests {patterns} ."


def _is_plain(path: str) -> bool:
    return re.fullmatch(r"[\w./+-]+", path, re.A) is not None and not path.startswith("-")


def _lines(file: Ranked, found: Ranking) -> tuple[int, int]:
    """The best region of a file, with its head where it is too long."""
    pointed = (clue.lines for clue in file.clues if clue.kind in ("raised", "place", "message") and clue.lines)
    likely = ((one.first, one.last) for one in found.functions if one.path == file.path)
    first, last = next(chain(pointed, likely), (1, VIEW_LINES))
    first = max(1, first - LINES_BEFORE)
    return first, max(first + VIEW_LINES // 2, min(last, first + VIEW_LINES - 1))


def _why(file: Ranked) -> str:
    clues = dict.fromkeys(clue.words for clue in file.clues if clue.kind in _SEEN)
    reasons = "; ".join(list(clues)[:2])
    return f"{file.path}: {reasons}. I look at it." if reasons else f"{file.path} may belong to it. I look at it."
