"""What an issue's text and a run of its code say about the files of a repository, one Clue each.

A signal is a function from Mentions and Repository to clues; SIGNALS lists them, and a new one is added there. The text
is hostile: it is matched, never followed, and only what the repository knows too becomes a clue.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from scrout.index.repository import Repository
from scrout.index.symbols import Definition, count_words, python_imports, split_identifier
from scrout.sandbox.replay import Witness

ClueKind = Literal[
    "raised", "place", "path", "executed", "symbol", "message", "words", "mention", "path_words", "import"
]
KINDS: tuple[ClueKind, ...] = get_args(ClueKind)

WEIGHTS: dict[ClueKind, float] = {
    "raised": 4.0,  # the failure itself was seen to pass here
    "place": 4.0,  # a line number in the text: somebody saw it pass here
    "path": 4.0,  # named outright, by path or as a module
    "executed": 3.0,  # took part in the failure, as did files that are innocent
    "symbol": 3.0,  # the text names what this file defines
    "message": 3.0,  # a quoted message is rarely in two files
    "words": 2.0,  # BM25: alone it is right about every third time
    "mention": 1.0,  # uses a quoted name that nothing here defines, such as a setting
    "path_words": 1.0,  # the path reads like the text
    "import": 0.8,  # code of the text imports it, or something that does
}
"""The most that one clue of a kind counts."""

MAX_TEXT_CHARS = 100_000
"""What follows in a longer text is logs."""

_IN_CODE = 0.4  # a name in a block of code may be scaffolding; in prose or quotes it is meant
_HOP_SHARE = 0.5  # of an import's weight, for what it imports in turn
_HOPS = 2
_MOST_NAMED = 500  # of a kind, so that no text makes the search slow
_MOST_DEFINERS = 30  # a name that more files define, such as `run`, says nothing
_MOST_USERS = 10
_MOST_MESSAGES = 30
_MOST_RANKED = 50
_LEAST_PATH_SHARE = 0.3  # below it only the names of top folders are shared
_MIN_MESSAGE_CHARS = 12
_K1, _B = 1.5, 0.75  # BM25 as in the literature

_FENCE = re.compile(r"^[ \t]*(?:```|~~~)")
_PLACE = re.compile(r"""File "([^"\n]{1,300})", line (\d{1,7})|([\w./\\@+-]{1,200}\.[A-Za-z]\w{0,9}):(\d{1,7})""")
_PATH = re.compile(r"[\w@+.\\/-]{3,200}")
_DOTTED = re.compile(r"\b[A-Za-z_]\w{0,79}(?:\.[A-Za-z_]\w{0,79}){1,9}")
_QUOTED = re.compile(r"`([^`\n]{2,200})`|\"([^\"\n]{2,200})\"|(?<!\w)'([^'\n]{2,200})'(?!\w)")
_RAISED = re.compile(r"^[ \t]*(?:[\w.]{1,80}(?:Error|Exception|Warning)): (.{3,300})$", re.M)
_NAME = re.compile(r"[^\W\d]\w{2,79}")
_CODE_NAME = re.compile(r"\b(?:\w+_\w+|[A-Za-z]*[a-z][A-Z]\w*|[A-Z][a-z]+[A-Z]\w*|[A-Za-z_]\w+(?=\())")
_FIXED_TEXT = re.compile(r"[A-Za-z][A-Za-z ,_-]*[A-Za-z]")
# In a small repository they are rare enough to look telling.
_FUNCTION_WORDS = re.compile(
    r"\b(a|an|and|are|as|at|be|but|by|can|could|do|does|for|from|has|have|how|i|if|in|is|it|its|my|no|not|of|on|or|should|so"
    r"|than|that|the|their|then|there|they|this|to|until|was|we|well|what|when|where|which|will|with|would|you|your)\b",
    re.IGNORECASE,
)
_BULLET = re.compile(r"^[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t]", re.M)
_SNAKE = re.compile(r"\b[a-z]\w*_\w+")


@dataclass(frozen=True)
class Clue:
    """One reason to look at a file."""

    kind: ClueKind
    weight: float
    path: str
    words: str
    """For people: what was found, in a few words."""
    lines: tuple[int, int] | None = None
    """First and last, both included; None: the whole file."""


@dataclass(frozen=True)
class Mentions:
    """What a text names, before anybody has looked at the repository."""

    chars: int
    bullets: int
    places: tuple[tuple[str, int], ...]
    """Path and line, in the order of the text."""
    paths: tuple[str, ...]
    dotted: tuple[str, ...]
    quoted: frozenset[str]
    """Identifiers in quotes or backticks."""
    names: dict[str, float]
    """Identifiers that look like code, with how much each counts."""
    messages: tuple[str, ...]
    imports: tuple[str, ...]
    words: dict[str, int]
    """With counts; those of the title twice, those of import lines not at all."""
    prose_words: dict[str, int]
    """The same outside of code."""
    snake_case: int

    def without_scaffolding(self) -> Mentions:
        """For when the code was run: what it went through says more than the names it uses."""
        names = {name: share for name, share in self.names.items() if share > _IN_CODE}
        return replace(self, names=names, words=self.prose_words)


Scores = npt.NDArray[np.float64]
Signal = Callable[[Mentions, Repository], Iterable[Clue]]


def read_mentions(text: str) -> Mentions:
    """Take a text apart."""
    text = text[:MAX_TEXT_CHARS]
    prose, code = _split(text)
    # Import lines have a signal of their own, weaker than a module named on purpose.
    without_imports = "\n".join(line for line in text.splitlines() if not re.match(r"\s*(>>> )?(from|import)\s", line))
    quotes = [next(part for part in match if part) for match in _QUOTED.findall(text)]
    short_quotes = [quote for quote in (next(filter(None, m)) for m in _QUOTED.findall(prose)) if " " not in quote]
    quoted = frozenset(name for quote in short_quotes for name in _NAME.findall(quote))
    names = dict.fromkeys(_NAME.findall("\n".join(code)), _IN_CODE)
    names |= dict.fromkeys(_CODE_NAME.findall(prose), 1.0) | dict.fromkeys(sorted(quoted), 1.0)
    paths = [found.rstrip(".") for found in _PATH.findall(without_imports)]
    raised = _RAISED.findall(text)
    pieces = [piece for quote in (*quotes, *raised) for piece in (quote, *_FIXED_TEXT.findall(quote))]
    messages = [piece.strip() for piece in pieces if len(piece) >= _MIN_MESSAGE_CHARS and piece.strip().count(" ") > 1]
    title = text.strip().partition("\n")[0]
    return Mentions(
        chars=len(text),
        bullets=len(_BULLET.findall(text)),
        places=tuple((a or b, int(line_a or line_b)) for a, line_a, b, line_b in _PLACE.findall(text)[:_MOST_NAMED]),
        paths=tuple(dict.fromkeys(path for path in paths if re.search(r"[./\\]", path)))[:_MOST_NAMED],
        dotted=tuple(dict.fromkeys(_DOTTED.findall(without_imports)))[:_MOST_NAMED],
        quoted=quoted,
        names=names,
        messages=tuple(dict.fromkeys(messages))[:_MOST_MESSAGES],
        imports=tuple(dict.fromkeys(python_imports(re.sub(r"^[ \t]*>>> ", "", text, flags=re.M)))),
        # The title says in the fewest words what is wrong.
        words=dict(Counter(_words(without_imports)) + Counter(_words(title))),
        prose_words=dict(Counter(_words(prose)) + Counter(_words(title))),
        snake_case=len(set(_SNAKE.findall(text))),
    )


def _split(text: str) -> tuple[str, list[str]]:
    """Prose, and the lines of fenced blocks and interpreter sessions."""
    prose, code, fenced = [], [], False
    for line in text.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        elif fenced or line.lstrip().startswith((">>> ", "... ")):
            code.append(line)
        else:
            prose.append(line)
    return "\n".join(prose), code


def _words(text: str) -> dict[str, int]:
    return count_words(_FUNCTION_WORDS.sub(" ", text))


def by_place(mentions: Mentions, repository: Repository) -> Iterator[Clue]:
    """Tracebacks and `path:line`. The last frame is where it broke, so later places count more."""
    for position, (named, line) in enumerate(mentions.places, 1):
        found = repository.find(named)
        for path in found:
            weight = WEIGHTS["place"] * (0.5 + 0.5 * position / len(mentions.places)) / len(found)
            span = repository.files[path].span(line)
            yield Clue("place", weight, path, f"the issue points at line {line}", span)


def by_path(mentions: Mentions, repository: Repository) -> Iterator[Clue]:
    """Paths and dotted names of modules, with the symbol that follows the module's name."""
    for named in mentions.paths:
        paths = repository.find(named)
        for path in paths:
            yield Clue("path", WEIGHTS["path"] / len(paths), path, "the issue names its path")
    for dotted in mentions.dotted:
        if found := repository.module(dotted):
            path, rest = found
            span = _definition(repository, path, rest)
            # One part alone, such as the `time` of `time.sleep`, is a module of ours only if it defines the rest.
            if span or dotted.removesuffix(f".{rest}").count("."):
                yield Clue("path", 0.75 * WEIGHTS["path"], path, f"the issue names {dotted}", span)


def _definition(repository: Repository, path: str, name: str) -> tuple[int, int] | None:
    for definition in repository.files[path].definitions:
        if name and (definition.name == name or name.startswith(f"{definition.name}.")):
            return definition.first, definition.last
    return None


def by_symbol(mentions: Mentions, repository: Repository) -> Iterator[Clue]:
    """Names that the text has and a file defines; the more files define one, the less each gets."""
    for name, share in (mentions.names | dict.fromkeys(mentions.dotted, 1.0)).items():
        defined = repository.defining.get(name, [])
        if len(defined) > _MOST_DEFINERS or (name.startswith("__") and "." not in name):
            continue
        sources = [pair for pair in defined if pair[0].role == "source"] or defined
        for file, definition in sources:
            weight = WEIGHTS["symbol"] * share / len(sources)
            yield Clue("symbol", weight, file.path, f"defines `{definition.name}`", (definition.first, definition.last))


def by_mention(mentions: Mentions, repository: Repository) -> Iterator[Clue]:
    """Quoted names that are defined nowhere and used in few files."""
    for name in sorted(mentions.quoted - repository.defining.keys())[:_MOST_NAMED]:
        users = [file for file in repository.files.values() if name.lower() in file.words]
        if len(users) <= _MOST_USERS:
            yield from (Clue("mention", WEIGHTS["mention"] / len(users), file.path, f"uses `{name}`") for file in users)


def by_message(mentions: Mentions, repository: Repository) -> Iterator[Clue]:
    """Quoted text and error messages that stand in a file, looked for only where all their words are."""
    wanted: dict[str, list[str]] = defaultdict(list)
    for message in mentions.messages:
        needed = count_words(message).keys() & repository.asked
        holders = [file for file in repository.files.values() if needed <= file.words.keys()]
        if len(holders) <= _MOST_USERS:
            for file in holders:
                wanted[file.path].append(message)
    holding: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for path, content in repository.read(wanted):
        for message in wanted[path]:
            if (offset := content.find(message)) >= 0:
                holding[message].append((path, content.count("\n", 0, offset) + 1))
    for message, places in holding.items():
        for path, line in places:
            words = f'holds the quoted text "{_plain(message)}"'
            yield Clue("message", WEIGHTS["message"] / len(places), path, words, repository.files[path].span(line))


def by_words(mentions: Mentions, repository: Repository) -> Iterator[Clue]:
    """BM25 over identifiers and their parts."""
    files = list(repository.files.values())
    scores = _bm25(mentions.words, [file.words for file in files], [file.length for file in files])
    holders = Counter(word for file in files for word in file.words)
    for row in np.argsort(-scores, kind="stable")[:_MOST_RANKED]:
        if scores[row] > 0:
            file = files[row]
            shared = file.words.keys() & mentions.words.keys()
            telling = sorted(shared, key=lambda word: (holders[word] / min(file.words[word], 5), word))[:3]
            weight = WEIGHTS["words"] * float(scores[row] / scores.max()) ** 2
            yield Clue("words", weight, file.path, f"shares the words {', '.join(telling)}")


def _bm25(asked: dict[str, int], documents: Sequence[dict[str, int]], lengths: Sequence[int]) -> Scores:
    """How well each document answers to the words asked for."""
    column = {word: index for index, word in enumerate(sorted(asked))}
    rows = [
        (row, column[word], count) for row, own in enumerate(documents) for word, count in own.items() if word in column
    ]
    scores = np.zeros(len(documents))
    if not rows:
        return scores
    document, word, count = np.array(rows, dtype=np.float64).T
    document, word = document.astype(np.intp), word.astype(np.intp)
    holders = np.bincount(word, minlength=len(column))
    rarity = np.log(1 + (len(documents) - holders + 0.5) / (holders + 0.5))
    wanted = rarity * np.log1p([asked[term] for term in column])
    length = np.asarray(lengths) / max(1.0, float(np.mean(lengths)))
    np.add.at(scores, document, wanted[word] * count * (_K1 + 1) / (count + _K1 * (1 - _B + _B * length[document])))
    return scores


def by_path_words(mentions: Mentions, repository: Repository) -> Iterator[Clue]:
    """How much of a path's own words, rare ones above all, the text has."""
    words = {path: frozenset(_path_words(path)) for path in repository.files}
    holders = Counter(word for own in words.values() for word in own)
    rarity = {word: float(np.log(1 + len(words) / count)) for word, count in holders.items()}
    shares = {}
    for path, own in words.items():
        if common := sorted(own & mentions.words.keys()):
            shares[path] = sum(rarity[word] for word in common) / sum(rarity[word] for word in sorted(own)), common
    shares = {path: pair for path, pair in shares.items() if pair[0] >= _LEAST_PATH_SHARE}
    for path, (share, common) in sorted(shares.items(), key=lambda pair: (-pair[1][0], pair[0]))[:_MOST_RANKED]:
        yield Clue("path_words", WEIGHTS["path_words"] * share, path, f"its path has the words {', '.join(common[:3])}")


def _path_words(path: str) -> Iterator[str]:
    for name in _NAME.findall(path.rpartition(".")[0] or path):
        yield from split_identifier(name)


def by_import(mentions: Mentions, repository: Repository) -> Iterator[Clue]:
    """Modules that code of the text imports, and, for a share, what those import."""
    reached = {found[0] for name in mentions.imports if (found := repository.module(name))}
    seen = set(reached)
    words = "the issue's code imports it"
    for hop in range(_HOPS + 1):
        for path in sorted(reached):
            # Of many files at one distance each is less likely.
            weight = WEIGHTS["import"] * _HOP_SHARE**hop / len(reached) ** 0.5
            yield Clue("import", weight, path, words)
        reached = {found for path in reached for found in repository.imported_by(path)} - seen
        seen |= reached
        words = "what the issue's code imports needs it"


SIGNALS: tuple[Signal, ...] = (
    by_place,
    by_path,
    by_symbol,
    by_mention,
    by_message,
    by_words,
    by_path_words,
    by_import,
)


def by_run(witness: Witness, mentions: Mentions, repository: Repository) -> Iterator[Clue]:
    """What a failing run of the issue's code executed, and where its exception passed.

    Everything that ran had its part, so functions that also read like the issue count most.
    """
    ran = {path: _executed(path, witness, repository) for path in sorted(witness.lines) if path in repository.files}
    functions: list[tuple[str, Definition]] = []
    documents: list[dict[str, int]] = []
    for path, content in repository.read(ran):
        lines = content.splitlines()
        for function in ran[path]:
            functions.append((path, function))
            documents.append(count_words("\n".join(lines[function.first - 1 : function.last])))
    alike = _bm25(mentions.words, documents, [sum(words.values()) for words in documents])
    # Where the issue shares no word with anything that ran, all of it is equally suspect.
    alike = alike / alike.max() if alike.any() else alike + 1
    clues: Counter[str] = Counter()
    for row in np.argsort(-alike, kind="stable"):
        path, function = functions[row]
        clues[path] += 1
        # The best function of a file speaks for it; a file does not gain by having many.
        weight = WEIGHTS["executed"] * (0.5 + 0.5 * float(alike[row])) / clues[path] ** 2
        words = f"the failing run went through `{function.name}`"
        yield Clue("executed", weight, path, words, (function.first, function.last))
    if witness.raised:
        last = witness.raised[-1]
        frames = [frame for frame in witness.raised if (frame.type, frame.message) == (last.type, last.message)]
        passed = dict.fromkeys((frame.path, frame.line) for frame in frames if frame.path in repository.files)
        for depth, (path, line) in enumerate(passed):
            words = f"the exception passed line {line}"
            yield Clue("raised", WEIGHTS["raised"] / (1 + depth), path, words, repository.files[path].span(line))


def _executed(path: str, witness: Witness, repository: Repository) -> list[Definition]:
    """The functions of a file that ran. Class bodies and signatures run on import and prove nothing."""
    file = repository.files[path]
    return sorted({found for line in witness.lines[path] if (found := file.around(line)) and line >= found.body})


def _plain(text: str) -> str:
    return " ".join("".join(letter for letter in text if letter.isprintable() and letter not in "<>").split())[:80]
