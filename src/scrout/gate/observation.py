"""What the scout says it saw, against what the replay showed. The words are the scout's: evidence, not proof."""

from __future__ import annotations

import re
from collections.abc import Collection

from scrout.gate.replay_context import ReplayContext

LAST_LINES = 8
AGREES = 0.5
"""Share of the observation's words that must be in the last lines of the output."""
MISUSE = ("TypeError", "AttributeError")
"""What a wrong argument ends in, wherever it is first used."""
_EXCEPTION = re.compile(r"(?<![\w.])(?:\w+\.)*([A-Z]\w*(?:Error|Exception))(?=:|$)", re.M)
_TOKEN = re.compile(r"\S+")
_VARIES = re.compile(
    r"0x[0-9a-fA-F]+|\b[0-9]{1,4}[:-][0-9]{2}[:-][0-9]{2}\S*|(?<![\w.])[0-9.]++ ?m?s\b|\b[Ll]ine [0-9]+|^OBSERVATION:",
    re.M,
)
_WORD = re.compile(r"\w{2,}")
_NAMED = re.compile(r"\b[A-Z]\w*(?:Error|Exception|Warning)\b")
_SPEAKS_OF_FAILING = re.compile(
    r"\b(?:crash|rais|throw|fail|refus|reject|exception|error|traceback|cannot\b|can't\b|unable)", re.IGNORECASE
)
_LONG_ENOUGH = 8
"""Characters of a message that are not found in an issue by chance."""


def overlap(observed: str, output: str) -> float | None:
    """How much of the observation's last lines the output's last lines hold, from 0 to 1; None: it says nothing.

    Paths, addresses, times and line numbers differ between machines, so they do not count.
    """
    claimed = _words(observed)
    return len(claimed & _words(output)) / len(claimed) if claimed else None


def disagreement(observed: str, output: str) -> str:
    """How the observation contradicts the output, in words; empty: it does not."""
    claimed = _EXCEPTION.findall(observed)
    seen = set(_EXCEPTION.findall(output))
    if claimed and seen and claimed[-1] not in seen:
        return f"the scout says it saw {claimed[-1]}, which was not seen"
    share = overlap(observed, output)
    if share == 0 and output.strip():
        return "the output has nothing in common with what the scout says it saw"
    return ""


def misuse(kind: str, message: str, replay_context: ReplayContext) -> bool:
    """Whether an exception in repository code is more likely a wrong argument of the claim's than the reported bug.

    A script that passes None, or text for a number, gets a TypeError or AttributeError out of the deepest function that
    looks at it, and that is no bug. The same exception is often the bug. So such a claim is dropped only where
    everything speaks against it: the type and the message are neither in the issue nor in what the scout says it saw,
    and the scout does say that it saw something, in other words than these. A scout that saw this very failure would
    have named it; the one that is dropped had seen something else. Without an observation nothing disagrees, and the
    claim stays: dropping a true claim costs the fixer its best clue.
    """
    if kind not in MISUSE or not replay_context.observed.strip():
        return False
    told = f"{replay_context.issue}\n{replay_context.observed}"
    if kind in told or (message and message in told):
        return False
    share = overlap(replay_context.observed, f"{kind}: {message}")
    return share is not None and share < AGREES


def reported(kind: str, message: str, issue: str) -> bool:
    """Whether an issue tells of an exception: by its message, or by its type where it quotes no other message of it.

    Messages are compared by their words, since they hold values and differ between versions. What follows a type in the
    title is prose, not a message.
    """
    said = " ".join(message.split())
    if len(said) >= _LONG_ENOUGH and said in " ".join(issue.split()):
        return True
    name = re.compile(rf"(?<!\w){re.escape(kind)}(?!\w)(?::([^\n`]*))?")
    if not name.search(issue):
        return False
    quoted = [words for text in name.findall(issue.partition("\n")[2]) if (words := _words(text))]
    seen = _words(message)
    return not quoted or not seen or any(len(words & seen) / min(len(words), len(seen)) > AGREES for words in quoted)


def unreported_refusal(kind: str, message: str, called: Collection[str], replay_context: ReplayContext) -> bool:
    """Whether the repository refused what the claim did, and the issue is about something else.

    A deliberate `raise` says that the caller is wrong, and a scout that misuses a function honestly reports that it saw
    one. It is the bug only if the issue says so: somebody who is refused wrongly tells by what. Where the issue names
    no exception at all, it is enough that it speaks of a failure of what was `called`, and that the scout saw this one.
    """
    if not replay_context.issue.strip() or reported(kind, message, replay_context.issue):
        return False
    seen = kind in replay_context.observed or bool(message and message in replay_context.observed)
    named = any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", replay_context.issue) for name in called)
    return _NAMED.search(replay_context.issue) is not None or not (
        seen and named and _SPEAKS_OF_FAILING.search(replay_context.issue)
    )


def _words(text: str) -> frozenset[str]:
    without_paths = _TOKEN.sub(lambda token: " " if "/" in token[0][:-1] else token[0], text)
    lines = [line for line in _VARIES.sub(" ", without_paths).splitlines() if line.strip()]
    return frozenset(word.lower() for line in lines[-LAST_LINES:] for word in _WORD.findall(line))
