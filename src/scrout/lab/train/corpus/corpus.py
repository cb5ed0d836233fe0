"""Builds a corpus: every trajectory is read, cut, rendered and judged; the two best of each issue are kept.

Memory grows by a few numbers per issue: where its best demonstrations are on the disk. A corpus counts as made once its
frozen files were read again and are free of blocked repositories and held-out issues.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from scrout import __version__
from scrout.agent.tools import OBSERVATION_CHARS
from scrout.base import FrozenModel, TaskError
from scrout.config.settings import DialectName
from scrout.files import atomic, remove_parts, write_atomic
from scrout.lab.train.blocklist import BLOCKED, blocked_in
from scrout.lab.train.corpus.demonstration import Demonstration, DroppedTrajectory, Notes, demonstrate, template_notes
from scrout.lab.train.corpus.layouts import BROKEN, read
from scrout.lab.train.corpus.notes import BATCH, NotesModel, NotesWriter
from scrout.lab.train.corpus.search import edited_files, search
from scrout.lab.train.corpus.streams import UnreadableDocument, documents, files
from scrout.lab.train.corpus.trajectory import AgentTrajectory, changed_files, issue_of
from scrout.languages import language_of
from scrout.money import Usd
from scrout.scout.prompts import Prompts, read_prompts

KEPT, SHELVED = 2, 1
"""Demonstrations of one issue that are trained on, and further ones that are put in reserve."""
BEYOND = "beyond the best of its issue"
CORPUS, RESERVE, CARD = "corpus.jsonl", "reserve.jsonl", "card.json"
MIN_STEPS = 2
MAX_NAME = 500
MAX_EXAMPLES = 5


class CorpusCard(FrozenModel):
    """What a corpus was made of, and what was left out and why."""

    scrout: str
    dialect: str
    observation_chars: int
    """Of a tool's answer, at most."""
    prompts: str
    """Digest of the searcher's prompts; search with the same."""
    files: int
    read: int
    """Documents, whether or not they could be read."""
    demonstrations: int
    reserve: int
    issues: int
    """With a demonstration."""
    repositories: int
    turns: float
    """Of a demonstration, on average."""
    reproduced: float | None
    """Share of demonstrations with a reproduction that was seen to fail; None: there are none."""
    layouts: dict[str, int]
    """Demonstrations by layout of their source."""
    languages: dict[str, int]
    dropped: dict[str, int]
    """Documents by reason; with demonstrations and reserve they add up to `read`."""
    notes: dict[str, int]
    """Demonstrations, with those in reserve, by whose notes they have: the model's, the template's."""
    notes_usd: Usd | None
    """What the model's cost, former runs of the same corpus included; None: unknown, or none was asked."""
    notes_by: str
    """The model that was asked for notes; empty: none."""
    excluded_repositories: int
    excluded_issues: int
    """That nothing is trained on."""
    blocked_hits: int
    """In the frozen files: always 0."""
    sha256: str
    """Of the frozen file."""


@dataclass(frozen=True)
class CorpusRules:
    """What may become part of a corpus."""

    dialect: DialectName = "xml"
    held_out: Collection[str] = frozenset()
    """Ids of issues that nothing is trained on, in lower case."""
    gold: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Files of the true patch by issue, where they are known; else the trajectory's own patch tells them."""
    notes: Notes = template_notes
    notes_model: NotesModel | None = None
    """Asked for the notes of what is kept or in reserve; None: they stay as they are."""
    observation_chars: int = OBSERVATION_CHARS
    """Of a tool's answer; what is beyond is left out of its middle, as an episode with this setting does."""
    prompts: Prompts = field(default_factory=read_prompts)
    """The searcher's prompts."""


def build_corpus(
    sources: Sequence[Path], out: Path, rules: CorpusRules, progress: Callable[[str], None] = lambda words: None
) -> CorpusCard:
    """Make a corpus of all trajectories in files and folders."""
    paths = files(list(sources))
    with _folder(out) as spool:
        ranked: defaultdict[str, list[_Place]] = defaultdict(list)
        dropped: Counter[str] = Counter()
        number = 0
        for path in paths:
            for where, document in documents(path):
                number += 1
                made = document if isinstance(document, UnreadableDocument) else _made(read(document, where), rules)
                if isinstance(made, UnreadableDocument | DroppedTrajectory):
                    dropped[made.why.split(": ")[0]] += 1
                elif why := _keep_best(made, ranked[made.issue_id], spool):
                    dropped[why] += 1
                if number % 100 == 0:
                    progress(f"{path.name}: {number:,} trajectories, {len(ranked):,} issues")
        kept = [place.at for best in ranked.values() for place in best[:KEPT]]
        in_reserve = [place.at for best in ranked.values() for place in best[KEPT:]]
        with (
            NotesWriter(rules.notes_model, out, rules.dialect) if rules.notes_model else nullcontext() as notes_writer,
            atomic(out / CORPUS) as corpus,
            atomic(out / RESERVE) as reserve,
        ):
            for file, places in ((reserve, in_reserve), (corpus, kept)):
                file.writelines(_lines(spool, places, notes_writer, progress))
                file.flush()
            # Before the files get their names they are read again and found free of what nothing is trained on.
            written = Path(corpus.name), Path(reserve.name)
            card = _card(*written, rules, len(paths), number, len(ranked), dropped, notes_writer)
            write_atomic(out / CARD, card.model_dump_json(indent=2) + "\n")
    return card


def demonstrations(path: Path) -> Iterator[Demonstration]:
    for where, document in documents(path):
        if isinstance(document, UnreadableDocument):
            raise TaskError(f"{where}: {document.why}. Build the corpus again.")
        try:
            yield Demonstration.model_validate(document)
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False)[0]
            raise TaskError(f"{where}: no demonstration ({problem['loc']}: {problem['msg']}). Name a corpus.") from None


def _made(
    trajectory: AgentTrajectory | UnreadableDocument, rules: CorpusRules
) -> Demonstration | UnreadableDocument | DroppedTrajectory:
    if isinstance(trajectory, UnreadableDocument):
        return trajectory
    try:
        return _demonstration(trajectory, rules)
    except BROKEN as error:  # a broken row costs only itself
        return UnreadableDocument(f"broken {trajectory.layout}: {type(error).__name__}")


def _demonstration(trajectory: AgentTrajectory, rules: CorpusRules) -> Demonstration | DroppedTrajectory:
    names = (trajectory.issue_id, trajectory.repository, *trajectory.names)
    if max(map(len, names)) > MAX_NAME:
        return DroppedTrajectory("a name longer than any repository has")
    if blocked := _blocked(*names):
        return DroppedTrajectory(f"a repository that nothing is trained on: {blocked}")
    if trajectory.issue_id.casefold() in rules.held_out:
        return DroppedTrajectory("an issue that is held out")
    if trajectory.resolved is False:
        return DroppedTrajectory("did not solve its issue")
    known = rules.gold.get(trajectory.issue_id) or trajectory.gold
    gold = known or changed_files(trajectory.patch) or edited_files(trajectory)
    if not gold:
        return DroppedTrajectory("no file of its fix is known")
    if not _is_unicode(trajectory):
        return DroppedTrajectory("its text is no Unicode")
    found = search(trajectory, gold)
    if found.missed:
        return DroppedTrajectory("the search did not find every file of the fix")
    if len(found.steps) < MIN_STEPS:
        return DroppedTrajectory("no search before the first edit")
    if not all(step.answered for step in found.steps):
        return DroppedTrajectory("a call without its result")
    if found.shows_fix:
        return DroppedTrajectory("an answer shows the fix")
    return demonstrate(
        trajectory, found, language_of(gold), rules.dialect, rules.notes, rules.observation_chars, rules.prompts
    )


def _is_unicode(trajectory: AgentTrajectory) -> bool:
    """False: lone surrogates, which no file and no tokenizer takes."""
    fields = [(step.thought, step.observation, dict(step.call.arguments)) for step in trajectory.steps]
    try:
        json.dumps([trajectory.issue_id, trajectory.issue, trajectory.root, fields], ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a demonstration was put aside; the better one comes first."""

    worse: tuple[float, ...]
    at: int
    same: bytes
    """Alike for demonstrations of one issue that say the same."""


def _keep_best(made: Demonstration, best: list[_Place], spool: IO[bytes]) -> str:
    """Keep it if it is among the best of its issue; else the reason why it is left out."""
    same = hashlib.blake2b(json.dumps(made.messages).encode(), digest_size=16).digest()
    if any(place.same == same for place in best):
        return "the same as another"
    place = _Place(tuple(-one for one in made.quality), spool.tell(), same)
    if len(best) == KEPT + SHELVED and place.worse >= best[-1].worse:
        return BEYOND
    spool.write(_line(made))
    best.append(place)
    best.sort(key=lambda one: (one.worse, one.at))
    if len(best) <= KEPT + SHELVED:
        return ""
    best.pop()
    return BEYOND


def _blocked(*names: str) -> str | None:
    return next((blocked for name in names if name and (blocked := blocked_in(name))), None)


@contextmanager
def _folder(out: Path) -> Iterator[IO[bytes]]:
    """A file to put demonstrations aside in, in a folder that holds no corpus yet; it goes at the end."""
    if (out / CORPUS).exists():
        raise TaskError(f"{out} holds a corpus already. Name another folder.")
    spool = out / ".spool"
    try:
        out.mkdir(parents=True, exist_ok=True)
        remove_parts(out)
        with spool.open("w+b") as file:
            yield file
    except OSError as error:
        raise TaskError(f"{out}: {error.strerror or error}. Name a folder with room that you may write to.") from None
    finally:
        spool.unlink(missing_ok=True)


def _lines(
    spool: IO[bytes], places: Sequence[int], notes_writer: NotesWriter | None, progress: Callable[[str], None]
) -> Iterator[bytes]:
    """What was put aside, in order, with the notes_writer's notes."""
    for start in range(0, len(places), BATCH):
        lines = []
        for at in places[start : start + BATCH]:
            spool.seek(at)
            lines.append(spool.readline())
        if notes_writer is None:
            yield from lines
            continue
        yield from map(_line, notes_writer.improve([Demonstration.model_validate_json(line) for line in lines]))
        progress(f"notes of {start + len(lines):,} of {len(places):,}, {notes_writer.by_model:,} by the model")


def _line(made: Demonstration) -> bytes:
    return json.dumps(made.model_dump(mode="json"), ensure_ascii=False).encode() + b"\n"


def _card(
    corpus: Path,
    reserve: Path,
    rules: CorpusRules,
    paths: int,
    number: int,
    issues: int,
    dropped: Mapping[str, int],
    notes_writer: NotesWriter | None,
) -> CorpusCard:
    """Read the frozen files again and count. A blocked row that slipped through is an error, and the corpus is gone."""
    tally, in_reserve = (_Tally.of(path, rules) for path in (corpus, reserve))
    if hits := tally.hits + in_reserve.hits:
        raise TaskError(
            f"{len(hits)} demonstrations are of blocked repositories or held-out issues: {hits[:MAX_EXAMPLES]}."
        )
    by_model = notes_writer.by_model if notes_writer else 0
    return CorpusCard(
        scrout=__version__,
        dialect=rules.dialect,
        observation_chars=rules.observation_chars,
        prompts=rules.prompts.digest(),
        files=paths,
        read=number,
        demonstrations=tally.count,
        reserve=in_reserve.count,
        issues=issues,
        repositories=len(tally.repositories),
        turns=tally.turns / tally.count if tally.count else 0.0,
        reproduced=tally.reproduced / tally.count if tally.count else None,
        layouts=dict(tally.layouts.most_common()),
        languages=dict(tally.languages.most_common()),
        dropped=dict(Counter(dropped).most_common()),
        notes={"model": by_model, "template": tally.count + in_reserve.count - by_model},
        notes_usd=notes_writer.cost_usd if notes_writer else None,
        notes_by=rules.notes_model.model if rules.notes_model else "",
        excluded_repositories=len(BLOCKED),
        excluded_issues=len(rules.held_out),
        blocked_hits=0,
        sha256=sha256_of(corpus),
    )


@dataclass
class _Tally:
    """What a card says of a frozen file."""

    count: int = 0
    turns: int = 0
    reproduced: int = 0
    repositories: set[str] = field(default_factory=set)
    layouts: Counter[str] = field(default_factory=Counter)
    languages: Counter[str] = field(default_factory=Counter)
    hits: list[str] = field(default_factory=list)
    """Demonstrations that should not be there."""

    @classmethod
    def of(cls, path: Path, rules: CorpusRules) -> _Tally:
        tally = cls()
        for one in demonstrations(path):
            tally.count += 1
            tally.turns += one.turns
            tally.reproduced += one.reproduced
            tally.repositories.add(one.repository)
            tally.layouts[one.layout] += 1
            tally.languages[one.language or "unknown"] += 1
            if _blocked(one.issue_id, one.repository, *one.names) or one.issue_id.casefold() in rules.held_out:
                tally.hits.append(one.id)
        return tally


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_held_out(path: Path) -> frozenset[str]:
    """Ids of issues, one a line."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"{path} cannot be read: {error}. Name a text file with one id a line.") from None
    return frozenset(issue_of(line)[0].casefold() for line in lines if line.strip())
