"""What a text says about the files of a repository: numbers for the ranker, one array a signal, and clues for people.

A signal is a function from Mentions and Repository to named arrays, aligned with `repository.paths`; what it found is
told in clues. Only what the repository knows too becomes a signal, so hostile text can at worst point at a wrong file.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from scrout.index.bm25 import Scores
from scrout.index.files import Role
from scrout.index.repository import Repository
from scrout.index.symbols import split_identifier
from scrout.scout.recon.mentions import Mentions

ClueKind = Literal["raised", "place", "path", "executed", "message", "symbol", "test", "import", "words", "history"]
CLUE_KINDS: tuple[ClueKind, ...] = get_args(ClueKind)
"""The most telling first."""

_MOST_DEFINERS = 30  # a name that more files define, such as `run`, says nothing
_MOST_USERS = 10
_MOST_TOLD = 40  # clues of a signal that scores every file
_COMMITS_ASKED = 30
_FORM_SHARE = 0.4
_TESTS_ASKED = 15
_ROLES: tuple[Role, ...] = ("source", "test", "docs", "example", "config", "data", "changelog")
_TEST_AFFIX = re.compile(r"^tests?_|[_.-]?(tests?|spec)$|(?<=[a-z])(Tests?|Spec)$")
_NAME = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True)
class Clue:
    """One reason to look at a file."""

    kind: ClueKind
    path: str
    words: str
    """For people: what was found, in a few words."""
    weight: float = 1.0
    """Against other clues of this kind."""
    lines: tuple[int, int] | None = None
    """First and last, both included; None: the whole file."""


@dataclass
class Signals:
    """What all signals together found."""

    values: dict[str, Scores] = field(default_factory=dict)
    """One number a file, aligned with `repository.paths`."""
    clues: list[Clue] = field(default_factory=list)


def read_signals(mentions: Mentions, repository: Repository) -> Signals:
    """Everything that can be told without opening a file."""
    found = Signals()
    for signal in (
        _places,
        _frames,
        _paths,
        _path_words,
        _symbols,
        _mentioned,
        _messages,
        _words,
        _imports,
        _tests,
        _history,
        _structure,
    ):
        signal(mentions, repository, found)
    return found


def _places(mentions: Mentions, repository: Repository, found: Signals) -> None:
    """Tracebacks and `path:line`. The last frame is where it broke."""
    hits, last = _zeros(repository, 2)
    for position, (named, line) in enumerate(mentions.places, 1):
        paths = repository.find(named)
        for path in paths:
            row = repository.position[path]
            hits[row] += 1 / len(paths)
            last[row] = max(last[row], position / len(mentions.places) / len(paths))
            span = repository.files[path].span(line)
            found.clues.append(Clue("place", path, f"the issue points at line {line}", position, span))
    found.values |= {"place_hits": np.log1p(hits), "place_last": last}


def _frames(mentions: Mentions, repository: Repository, found: Signals) -> None:
    """Functions that a traceback went through, found by name, since lines move. Most only passed the call on."""
    passed, last = _zeros(repository, 2)
    innermost = None
    for position, (named, line, name) in enumerate(mentions.frames, 1):
        for path in repository.find(named):
            own = [one for one in repository.files[path].definitions if one.name.rpartition(".")[2] == name]
            if own:
                innermost = repository.position[path]
                passed[innermost] = max(passed[innermost], position / len(mentions.frames))
                nearest = min(own, key=lambda definition: abs(definition.first - line))
                span = (nearest.first, nearest.last)
                found.clues.append(Clue("place", path, f"the traceback goes through `{name}`", position, span))
    if innermost is not None:
        last[innermost] = 1.0
    found.values |= {"frame": passed, "frame_last": last}


def _paths(mentions: Mentions, repository: Repository, found: Signals) -> None:
    """Paths and dotted names of modules, with the symbol that follows the module's name."""
    whole, base, module = _zeros(repository, 3)
    for named in mentions.paths:
        paths = repository.find(named)
        into = whole if "/" in named.strip("./") else base
        for path in paths:
            row = repository.position[path]
            into[row] = max(into[row], 1 / len(paths))
            found.clues.append(Clue("path", path, "the issue names its path", 4 / len(paths)))
    for dotted in mentions.dotted:
        if hit := repository.module(dotted):
            path, rest = hit
            span = _definition(repository, path, rest)
            # One part alone, such as the `time` of `time.sleep`, is a module of ours only if it defines the rest.
            if span or dotted.removesuffix(f".{rest}").count("."):
                row = repository.position[path]
                module[row] = max(module[row], 1.0 if span else 0.5)
                found.clues.append(Clue("path", path, f"the issue names {dotted}", 3.0, span))
    found.values |= {"path_whole": whole, "path_base": base, "path_module": module}


def _definition(repository: Repository, path: str, name: str) -> tuple[int, int] | None:
    for definition in repository.files[path].definitions if name else ():
        if definition.name == name or name.startswith(f"{definition.name}."):
            return definition.first, definition.last
    return None


def _path_words(mentions: Mentions, repository: Repository, found: Signals) -> None:
    """How much of a path's own words, rare ones above all, the text and its title have."""
    share, title_share, stem, stem_title, folder = _zeros(repository, 5)
    words = [_words_of(path) for path in repository.paths]
    holders = Counter(word for own in words for word in own)
    rarity = {word: float(np.log(1 + len(words) / count)) for word, count in holders.items()}
    title_names = {name.lower() for name, where in mentions.names.items() if "title" in where}
    names = {name.lower() for name in mentions.names}
    for row, (path, own) in enumerate(zip(repository.paths, words, strict=True)):
        total = sum(rarity[word] for word in own) or 1.0
        common = [word for word in own if word in mentions.words]
        if common:
            share[row] = sum(rarity[word] for word in common) / total
            title_share[row] = sum(rarity[word] for word in common if word in mentions.title_words) / total
        parts = path.split("/")
        name, spoken = parts[-1].partition(".")[0].lower(), mentions.spoken
        if name in ("__init__", "index", "mod") and len(parts) > 1:
            name, spoken = parts[-2].lower(), mentions.alone
        if name in names and name in spoken:
            stem[row] = repository.telling(name)
            stem_title[row] = stem[row] * (name in title_names)
        folder[row] = len(parts) > 1 and parts[-2].lower() in mentions.words
    found.values |= {
        "path_words": share,
        "path_words_title": title_share,
        "stem": stem,
        "stem_title": stem_title,
        "folder": folder,
    }


def _words_of(path: str) -> list[str]:
    return list(
        dict.fromkeys(
            word for name in _NAME.findall(path.rpartition(".")[0] or path) for word in split_identifier(name)
        )
    )


def _symbols(mentions: Mentions, repository: Repository, found: Signals) -> None:
    """Names that the text has and a file defines; the more files define one, the less each gets."""
    kinds = ("title", "quoted", "prose", "plain", "code")
    totals = dict(zip(kinds, _zeros(repository, len(kinds)), strict=True))
    best, classes, qualified = _zeros(repository, 3)
    places = repository.tables.places
    for name, where in mentions.names.items():
        if name not in repository.defining or (name.startswith("__") and name.endswith("__")):
            continue
        pairs = repository.defining[name]
        sources = [pair for pair in pairs if pair[0].role == "source"] or pairs
        holders = list(dict.fromkeys(file.path for file, _ in sources))
        if len(holders) > _MOST_DEFINERS:
            continue
        share = repository.telling(name.lower()) / len(holders)
        strong = bool(where & {"quoted", "prose"}) or (bool(where) and not name.islower())
        for path in holders:
            row = repository.position[path]
            for kind in where:
                totals[kind][row] += share
            if strong:
                best[row] = max(best[row], share)
        for file, definition in sources:
            first, last, kind = places[definition, [1, 2, 4]].tolist()
            if kind == 0:
                classes[repository.position[file.path]] += share
            weight = (1.0 if strong else 0.3) * share
            words = f"defines `{repository.tables.defined[definition]}`"
            found.clues.append(Clue("symbol", file.path, words, weight, (first, last)))
    for dotted in mentions.dotted:
        for name in _endings(dotted):
            if name in repository.defining:
                pairs = repository.defining[name]
                holders = list(dict.fromkeys(file.path for file, _ in pairs))
                for file, definition in pairs if len(holders) <= _MOST_DEFINERS else ():
                    row = repository.position[file.path]
                    qualified[row] = max(qualified[row], 1 / len(holders))
                    lines = tuple(places[definition, [1, 2]].tolist())
                    found.clues.append(Clue("symbol", file.path, f"defines `{name}`", 2 / len(holders), lines))
                break
    found.values |= {f"symbol_{kind}": np.sqrt(total) for kind, total in totals.items()}
    found.values |= {"symbol_best": best, "symbol_class": np.sqrt(classes), "symbol_qualified": qualified}


def _endings(dotted: str) -> Iterator[str]:
    """`a.b.C.d` gives `b.C.d` and `C.d`: a qualified name in its file."""
    parts = dotted.split(".")
    for start in range(max(0, len(parts) - 3), len(parts) - 1):
        yield ".".join(parts[start:])


def _mentioned(mentions: Mentions, repository: Repository, found: Signals) -> None:
    """Quoted and code-like names that are defined nowhere and used in few files."""
    (used,) = _zeros(repository, 1)
    for name, where in mentions.names.items():
        if name in repository.defining or not where & {"quoted", "prose"}:
            continue
        users = [
            file
            for document in repository.holders(name.lower()).tolist()
            for file in repository.holding.get(document, ())
        ]
        sources = [file for file in users if file.role == "source"] or users
        if len(sources) <= _MOST_USERS:
            for file in sources:
                used[repository.position[file.path]] += 1 / len(sources)
                found.clues.append(Clue("symbol", file.path, f"uses `{name}`", 0.3 / len(sources)))
    found.values["used"] = np.sqrt(used)


def _messages(mentions: Mentions, repository: Repository, found: Signals) -> None:
    """Quoted text and error messages that stand in a file, looked for only where all their words are."""
    (hits,) = _zeros(repository, 1)
    wanted: dict[str, list[str]] = defaultdict(list)
    for message in mentions.messages:
        needed = [word for name in _NAME.findall(message) for word in (name.lower(),) if len(word) > 2]
        holders: set[int] | None = None
        for word in needed:
            documents = set(repository.holders(word).tolist())
            holders = documents if holders is None else holders & documents
        for document in (holders or set()) if len(holders or ()) <= 2 * _MOST_USERS else ():
            for file in repository.holding.get(document, ())[:1]:
                wanted[file.path].append(message)
    places: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for path, content in repository.read(wanted):
        for message in wanted[path]:
            if (offset := content.find(message)) >= 0:
                places[message].append((path, content.count("\n", 0, offset) + 1))
    for message, held in places.items():
        for path, line in held:
            hits[repository.position[path]] += 1 / len(held)
            words = f'holds the quoted text "{_plain(message)}"'
            found.clues.append(Clue("message", path, words, 1 / len(held), repository.files[path].span(line)))
    found.values["message"] = np.sqrt(hits)


def _words(mentions: Mentions, repository: Repository, found: Signals) -> None:
    """BM25 over identifiers and their parts: of the whole text, its title, prose and code, and over defined names."""
    asked = {
        "bm25": (wanted(mentions.words, mentions.title_words), "words"),
        "bm25_title": (wanted(mentions.title_words), "words"),
        "bm25_prose": (wanted(mentions.prose_words), "words"),
        "bm25_code": (wanted(mentions.code_words), "words"),
        "bm25_names": (wanted(mentions.words, mentions.title_words), "names"),
        "bm25_names_title": (wanted(mentions.title_words), "names"),
    }
    source = np.array([file.role == "source" for file in repository.files.values()])
    for name, (words, where) in asked.items():
        scores = repository.bm25(words, where)
        # Against the best source: tests and changelogs share every word with the issue.
        top = float((scores[source] if source.any() else scores).max(initial=0.0))
        found.values[name] = np.minimum(scores / top, 2.0) if top > 0 else scores
    best = np.argsort(-found.values["bm25"], kind="stable")[:_MOST_TOLD]
    telling = sorted(mentions.words, key=lambda word: (-repository.rarity(word), word))[:60]
    holders = {word: set(repository.holders(word).tolist()) for word in telling}
    for row in best.tolist():
        path = repository.paths[row]
        shared = [word for word in telling if repository.documents[row] in holders[word]][:3]
        if shared:
            weight = float(found.values["bm25"][row])
            found.clues.append(Clue("words", path, f"shares the words {', '.join(shared)}", weight))


def wanted(words: Mapping[str, int], title: Mapping[str, int] | None = None) -> dict[str, float]:
    """How much each word counts, with other forms of it for less."""
    # The title says in the fewest words what is wrong.
    own = {word: float(np.log1p(count)) * (2.0 if word in (title or ()) else 1.0) for word, count in words.items()}
    forms = {form: _FORM_SHARE * weight for word, weight in own.items() for form in _forms(word)}
    return forms | own


def _forms(word: str) -> Iterator[str]:
    """`caches`, `caching` and `cached` also ask for `cache`, and `cache` for them. Wrong forms are in no file."""
    if len(word) < 4 or not word.isalpha():
        return
    stem = word
    for ending in ("ies", "ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) > 2:
            stem = word[: -len(ending)]
            yield from (stem, f"{stem}e", f"{stem}y")
            break
    yield from (f"{stem}s", f"{stem}ing", f"{stem}ed", f"{stem.removesuffix('e')}ing", f"{stem}d")


def _imports(mentions: Mentions, repository: Repository, found: Signals) -> None:
    """Modules that code of the text imports, and what those import in turn."""
    near, far = _zeros(repository, 2)
    reached = sorted({repository.position[hit[0]] for name in mentions.imports if (hit := repository.module(name))})
    for row in reached:
        near[row] = 1 / len(reached) ** 0.5
        found.clues.append(Clue("import", repository.paths[row], "the issue's code imports it", 1.0))
    importers, imported = repository.edges.T
    next_ = sorted(set(imported[np.isin(importers, reached)].tolist()).difference(reached))
    for row in next_:
        far[row] = 1 / len(next_) ** 0.5
    found.values |= {"import": near, "import_far": far}


def _tests(mentions: Mentions, repository: Repository, found: Signals) -> None:
    """Tests that read like the text vouch for what they import, and for the file they are named after."""
    imported_by, named_after = _zeros(repository, 2)
    files = list(repository.files.values())
    tests = np.array([file.role == "test" for file in files])
    scores = found.values["bm25"] * tests
    importers, imported = repository.edges.T
    stems: dict[str, list[int]] = defaultdict(list)
    for row, file in enumerate(files):
        if file.role == "source":
            stems[posixpath.basename(file.path).partition(".")[0].lower()].append(row)
    top = float(scores.max(initial=0.0))
    for row in np.argsort(-scores, kind="stable")[:_TESTS_ASKED].tolist():
        if scores[row] <= 0:
            break
        weight = float(scores[row]) / top
        reached = imported[importers == row]
        for other in reached.tolist():
            imported_by[other] += weight / len(reached) ** 0.5
        stem = posixpath.basename(files[row].path).partition(".")[0]
        for other in stems.get(_TEST_AFFIX.sub("", stem).lower(), ()):
            named_after[other] = max(named_after[other], weight)
            found.clues.append(
                Clue("test", files[other].path, f"tested by {files[row].path}, which reads like the issue", weight)
            )
    found.values |= {"test_imports": np.log1p(imported_by), "test_name": named_after}


def _history(mentions: Mentions, repository: Repository, found: Signals) -> None:
    """Past commits that read like the text, and how often and how lately a file changed."""
    alike, closest, churn, recency = _zeros(repository, 4)
    history = repository.history
    scores = history.bm25(wanted(mentions.words, mentions.title_words))
    top = float(scores.max(initial=0.0))
    for position in np.argsort(-scores, kind="stable")[:_COMMITS_ASKED].tolist():
        if scores[position] <= 0:
            break
        weight = float(scores[position]) / top
        commit = history.commits[position]
        for path in commit.paths:
            row = repository.position.get(path)
            if row is not None:
                alike[row] += weight / len(commit.paths) ** 0.5
                closest[row] = max(closest[row], weight / len(commit.paths) ** 0.5)
                subject = _plain(commit.message.partition("\n")[0])
                found.clues.append(Clue("history", path, f'changed in "{subject}"', weight / len(commit.paths)))
    for path, positions in history.touching.items():
        row = repository.position.get(path)
        if row is not None:
            churn[row] = np.log1p(len(positions))
            recency[row] = 1 / (1 + positions[0] / 100)
    found.values |= {"history": np.log1p(alike), "history_best": closest, "churn": churn, "recency": recency}


def _structure(mentions: Mentions, repository: Repository, found: Signals) -> None:
    """What a file is, whatever the text says."""
    files = list(repository.files.values())
    suffixes = [posixpath.splitext(file.path)[1] for file in files]
    common = Counter(suffix for suffix, file in zip(suffixes, files, strict=True) if file.role == "source")
    total = max(1, sum(common.values()))
    for role in _ROLES[1:]:
        found.values[f"is_{role}"] = np.array([float(file.role == role) for file in files])
    definitions = np.bincount(repository.tables.places[:, 0], minlength=len(repository.tables.keys))[
        repository.documents
    ]
    found.values |= {
        "is_code": np.array([float(repository.tables.keys[file.document].partition(" ")[2] != "") for file in files]),
        "main_language": np.array([common[suffix] / total for suffix in suffixes]),
        "is_package_file": np.array(
            [float(posixpath.basename(file.path).startswith(("__init__.", "index.", "mod."))) for file in files]
        ),
        "depth": np.array([float(min(file.path.count("/"), 8)) for file in files]),
        "log_lines": np.log1p([file.lines for file in files]),
        "log_definitions": np.log1p(definitions),
    }


def neighbours(probability: Scores, repository: Repository) -> dict[str, Scores]:
    """What likely files say of those around them: importers, imported, siblings, files that changed with them."""
    by_importer, by_imported, siblings, together = _zeros(repository, 4)
    importers, imported = repository.edges.T
    np.maximum.at(by_imported, importers, probability[imported])
    np.maximum.at(by_importer, imported, probability[importers])
    folders = [posixpath.dirname(path) for path in repository.paths]
    best: dict[str, tuple[float, float]] = {}
    for folder, own in zip(folders, probability.tolist(), strict=True):
        first, second = best.get(folder, (0.0, 0.0))
        best[folder] = (own, first) if own > first else (first, max(second, own))
    for row, folder in enumerate(folders):
        first, second = best[folder]
        siblings[row] = second if probability[row] == first else first
    touching = repository.history.touching
    for row in np.argsort(-probability, kind="stable")[:5].tolist():
        positions = touching.get(repository.paths[row], [])[:50]
        counts = Counter(path for position in positions for path in repository.history.commits[position].paths)
        for path, count in counts.items():
            other = repository.position.get(path)
            if other is not None and other != row and count > 1:
                together[other] = max(together[other], float(probability[row]) * count / (len(positions) + 3))
    return {
        "near_importer": by_importer,
        "near_imported": by_imported,
        "near_sibling": siblings,
        "near_changed": together,
    }


def _zeros(repository: Repository, count: int) -> Iterable[Scores]:
    return np.zeros((count, len(repository.files)))


def _plain(text: str) -> str:
    return " ".join("".join(letter for letter in text if letter.isprintable() and letter not in "<>").split())[:80]
