"""Takes out of a handoff what is aimed at the fixer rather than said about the repository.

Whoever wrote the issue, the repository or a model's answer may try to give the fixer orders. From prose (notes,
reasons, dead ends) the sentence goes; output is evidence, so there the line stays and is marked with `| `. Commands,
paths and code are never reworded, only secrets are cut out of them: a repository about prompts is full of such words.
For the same reason a phrase counts only where it gives an order, and not in backticks or quoted in a longer sentence.

This raises the price of an attack; it is no proof against one. What a fixer may do is for its sandbox to say.
"""

from __future__ import annotations

import re
import unicodedata

from scrout.gate.strip import without
from scrout.handoff import FileRef, Handoff, Reproduction
from scrout.redact import MARK, redact
from scrout.text import plural

DATA_MARK = "| "

# Zero-width and invisible operators, soft hyphen, text-direction marks, variation selectors beyond emoji's, tags.
_HIDDEN = re.compile("[\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e01ef]")
_CODE = re.compile(r"```[^`]{1,3000}```|`[^`\n]{1,500}`")
_QUOTED = re.compile(r"\"[^\"\n]{1,300}\"|“[^”\n]{1,300}”|(?<!\w)'[^'\n]{1,300}'(?!\w)")
_MIN_WORDS_AROUND = 3
"""A sentence that is hardly more than its quotation is the quotation."""

# Where an order starts: a sentence or a clause, or behind words that address somebody. In all of these, runs of spaces
# are one space, and every repetition is bounded: the text is hostile, and must not make the search slow.
_ORDER = (
    r"(?:^[^\w\n]{0,20}|[.;:,!?>)*-] ?|\b(?:please|now|then|first|also|and|instead|"
    r"(?:you|agents?|fixers?|assistants?)(?: (?:can|may|must|should|will|need to|have to))?) )"
)
_UP_TO_3_WORDS = r"(?:\w{1,20} ){0,3}?"
_AIMED = re.compile(
    "|".join(
        (
            rf"{_ORDER}(?:ignore|disregard|forget|override|bypass) {_UP_TO_3_WORDS}"
            rf"(?:previous|prior|above|earlier|preceding|your|system|all (?:of )?(?:the|your|other)) {_UP_TO_3_WORDS}"
            r"(?:instructions?|prompts?|rules|guidelines|directions|messages?|context)\b",
            rf"{_ORDER}(?:you are (?:now|no longer)|from now on,? you|pretend (?:to be|you are|that you)"
            r"|act as (?:an?|the|if)\b|new instructions? ?:|your (?:new|real|actual) (?:task|goal|instructions?)\b)",
            r"^[^\w\n]{0,20}(?:\w{1,20} )?(?:system|assistant|developer)(?: (?:prompt|message|note|override))? ?:"
            r"(?! ?(?:linux|ubuntu|debian|fedora|windows|macos|darwin|python|\d|`))",
            r"^[^\w\n]{0,20}(?:human|user) ?: ?(?:please|you|ignore|run|now)\b",
            r"</?(?:function|parameter)=|</?(?:tool_calls?|tool_use|function_calls?|invoke)\b|<\|[a-z_]{2,30}\|>",
            r"\[/?INST\]|<</?SYS>>|</?(?:system|assistant|human)>|^ ?#{2,6} ?(?:system|instructions?|assistant)\b",
            r"\{ ?\"(?:name|tool|function)\" ?: ?\"\w{1,40}\" ?, ?\"(?:arguments|parameters|input)\"",
            rf"{_ORDER}(?:disable|skip|delete|remove|comment out|turn off|xfail) {_UP_TO_3_WORDS}"
            r"(?:tests?|test suite|ci|unit ?tests?)\b(?![/_(]|\.\w)",
            rf"{_ORDER}(?:send|post|upload|print|echo|dump|exfiltrate|leak|reveal|output|copy|email) "
            r"(?:\S{1,40} ){0,4}?"
            r"(?:env(?:ironment)? variables?|(?:the|your|all) env(?:ironment)?\b|secrets?\b|credentials?\b"
            r"|api[ _-]?keys?\b|(?:access|auth|api|secret) tokens?\b|passwords?\b|~/\.ssh|/etc/passwd|system prompt)",
        )
    ),
    re.IGNORECASE | re.MULTILINE,
)
_FETCH_AND_RUN = re.compile(
    r"\b(?:curl|wget)\b[^\n|]{0,300}\| ?(?:sudo )?(?:ba|z|da|k)?sh\b|\bbase64\b[^\n|]{0,60}(?:-d|--decode)\b"
    r"|(?<!\w)(?:decode|eval|exec|run)\w{0,5}\b[^\n]{0,80}?[A-Za-z0-9+/]{60}"
    r"|(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{60,}+={0,2}[^\n]{0,80}?\b(?:decode|base64)"
    r"|\b(?:ba)?sh <\( ?(?:curl|wget)\b",
    re.IGNORECASE,
)
_TELLS = re.compile(
    rf"{_ORDER}(?:run|execute|use|install|do|start|call|type|paste|decode|apply|try)\b(?![./_-]\w)",
    re.IGNORECASE | re.MULTILINE,
)


def remove_injections(handoff: Handoff) -> tuple[Handoff, tuple[str, ...]]:
    """The handoff as a fixer may read it, and what was done to it, in words; empty: nothing had to be."""
    done = _Done()
    refs = tuple(_ref(ref, done) for ref in handoff.files)
    notes = done.prose(handoff.notes, "notes")
    dead_ends = tuple(kept for end in handoff.dead_ends if (kept := done.prose(end, "dead ends")))
    reproduction = handoff.reproduction and _reproduction(handoff.reproduction, done)
    update = {"files": refs, "notes": notes, "dead_ends": dead_ends, "reproduction": reproduction}
    return handoff.model_copy(update=update), done.flags()


def as_data(output: str) -> tuple[str, tuple[str, ...]]:
    """Output as a fixer may read it: lines that could pass for a role, a tool call or an order begin with `| `."""
    done = _Done()
    return done.output(output), done.flags()


def _ref(ref: FileRef, done: _Done) -> FileRef:
    return ref.model_copy(update={"why": done.prose(ref.why, "reasons")})


def _reproduction(claim: Reproduction, done: _Done) -> Reproduction:
    # Code is replayed as it was written: another text would be another claim. What it holds is said beside it.
    for text in (claim.command or "", *claim.files.values()):
        done.hidden_in_code = done.hidden_in_code or _HIDDEN.search(text) is not None
        done.secret_in_code = done.secret_in_code or redact(text) != text
    return claim.model_copy(update={"observed": done.output(claim.observed)})


class _Done:
    """Does it, and counts what was done."""

    def __init__(self) -> None:
        self.replaced = 0
        self.hidden = 0
        self.hidden_in_code = False
        self.secret_in_code = False
        self.marked = 0
        self.dropped: dict[str, int] = {}

    def secrets(self, text: str) -> str:
        cut = redact(text)
        self.replaced += cut.count(MARK) - text.count(MARK) if cut != text else 0
        return cut

    def visible(self, text: str) -> str:
        text, count = _HIDDEN.subn("", text)
        self.hidden += count
        return text

    def prose(self, text: str, where: str) -> str:
        def aimed(sentence: str) -> bool:
            if _aimed_in_prose(sentence):
                self.dropped[where] = self.dropped.get(where, 0) + 1
                return True
            return False

        return without(self.secrets(self.visible(text)), aimed)

    def output(self, text: str) -> str:
        lines = []
        for line in self.secrets(self.visible(text)).split("\n"):
            plain = _plain(line)
            if not line.startswith(DATA_MARK) and (_AIMED.search(plain) or _FETCH_AND_RUN.search(plain)):
                self.marked += 1
                line = f"{DATA_MARK}{line}"
            lines.append(line)
        return "\n".join(lines)

    def flags(self) -> tuple[str, ...]:
        told = [
            f"{plural(count, 'order')} to the fixer dropped from the {where}" for where, count in self.dropped.items()
        ]
        if self.marked:
            told.append(f"{plural(self.marked, 'line')} of output marked as data")
        if self.replaced:
            told.append(f"{plural(self.replaced, 'secret')} replaced")
        if self.hidden:
            told.append(f"{plural(self.hidden, 'hidden character')} removed")
        if self.hidden_in_code:
            told.append("the reproduction's code holds hidden characters")
        if self.secret_in_code:
            told.append("the reproduction's code holds what looks like a secret")
        return tuple(told)


def _aimed_in_prose(sentence: str) -> bool:
    plain = _plain(sentence)
    outside = _QUOTED.sub(" … ", _CODE.sub(" … ", plain))
    if len(re.findall(r"\w+", outside)) < _MIN_WORDS_AROUND:
        outside = _CODE.sub(" … ", plain)
    if _AIMED.search(outside) or _FETCH_AND_RUN.search(outside):
        return True
    # A command in backticks is an order too, if the sentence says to run it.
    return _FETCH_AND_RUN.search(plain) is not None and _TELLS.search(outside) is not None


def _plain(text: str) -> str:
    """Letters of other widths and styles as the plain ones they stand for, and one space for many."""
    return re.sub(r"[^\S\n]+", " ", unicodedata.normalize("NFKC", text))
