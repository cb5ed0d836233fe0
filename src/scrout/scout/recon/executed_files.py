"""What a failing run of the issue's own code says: what it went through, and where its exception passed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from scrout.index.bm25 import bm25
from scrout.index.definition import Definition
from scrout.index.repository import Repository
from scrout.index.words import count_words
from scrout.sandbox.replay import ExecutionTrace
from scrout.scout.recon.mentions import Mentions
from scrout.scout.recon.signals import Clue, wanted

RAISED = 0.84
"""The least probability of the file that raised; each frame around it gets less. In the training tasks the last frame
of a traceback lies in a changed file so often."""
EXECUTED = 0.8
"""What the files that a failing run went through share. An assumption: the fault may also lie in what did not run."""


def read_execution_trace(execution_trace: ExecutionTrace, mentions: Mentions, repository: Repository) -> Iterator[Clue]:
    """Everything that ran had its part, so functions that also read like the issue count most."""
    ran = {
        path: _executed(path, execution_trace, repository)
        for path in sorted(execution_trace.lines)
        if path in repository.files
    }
    ran = {path: executed for path, executed in ran.items() if executed}
    functions: list[tuple[str, Definition]] = []
    documents: list[dict[str, int]] = []
    for path, content in repository.read(ran):
        lines = content.splitlines()
        for function in ran[path]:
            functions.append((path, function))
            documents.append(count_words("\n".join(lines[function.first - 1 : function.last])))
    asked = wanted(mentions.words, mentions.title_words)
    columns = {word: column for column, word in enumerate(asked)}
    rows = [(columns[w], d, n) for d, words in enumerate(documents) for w, n in words.items() if w in columns]
    term, document, count = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    lengths = np.array([sum(words.values()) for words in documents], dtype=np.int64)
    alike = bm25(np.array(list(asked.values())), term, document, count, lengths)
    # Where the issue shares no word with anything that ran, all of it is equally suspect.
    alike = alike / alike.max() if alike.any() else alike + 1
    clues: Counter[str] = Counter()
    for row in np.argsort(-alike, kind="stable").tolist():
        path, function = functions[row]
        clues[path] += 1
        # The best function of a file speaks for it; a file does not gain by having many.
        weight = EXECUTED / len(ran) / clues[path]
        words = f"the failing run went through `{function.name}`"
        yield Clue("executed", path, words, weight, (function.first, function.last))
    if execution_trace.raised:
        last = execution_trace.raised[-1]
        frames = [frame for frame in execution_trace.raised if (frame.type, frame.message) == (last.type, last.message)]
        passed = dict.fromkeys((frame.path, frame.line) for frame in frames if frame.path in repository.files)
        for depth, (path, line) in enumerate(passed):
            span = repository.files[path].span(line)
            yield Clue("raised", path, f"the exception passed line {line}", RAISED / (1 + depth), span)


def _executed(path: str, execution_trace: ExecutionTrace, repository: Repository) -> list[Definition]:
    """The functions of a file that ran. Class bodies and signatures run on import and prove nothing."""
    file = repository.files[path]
    return sorted(
        {found for line in execution_trace.lines[path] if (found := file.around(line)) and line >= found.body}
    )
