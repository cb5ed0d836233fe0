"""What an issue's text names, before a look at the repository. The text is hostile: matched, never followed."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from scrout.index.symbols import count_words, python_imports

MAX_TEXT_CHARS = 100_000
"""What follows in a longer text is logs."""

Where = Literal["title", "quoted", "prose", "plain", "code"]
"""`prose`: looks like code in a sentence; `plain`: an ordinary word."""

_MOST_NAMED = 500  # of a kind, so that no text makes the search slow
_MOST_MESSAGES = 30
_MIN_MESSAGE_CHARS = 12

# Boxes to tick are the form's words, not the reporter's.
_FORM_LINE = re.compile(r"^[ \t]*[-*] \[[ xX]\].*$", re.M)
_URL = re.compile(r"\bhttps?://\S+")
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)")
_PLACE = re.compile(
    r"""File "([^"\n]{1,300})", line (\d{1,7})"""
    r"""|/blob/[\w.-]{1,80}/([\w./@+-]{1,300})#L(\d{1,7})"""
    r"""|([\w./\\@+-]{1,200}\.[A-Za-z]\w{0,9}):(\d{1,7})"""
)
# A frame also says which function it is in, which stays true when lines move. Python prints the innermost last.
_FRAME = re.compile(
    r"""File "([^"\n]{1,300})", line (\d{1,7}), in ([^\W\d]\w{0,79})"""
    r"""|^[ \t]*(?:File )?([\w~./\\@+-]{1,200}\.py):(\d{1,7})(?:,|:)? in (?:\w{1,80}\.){0,4}([^\W\d]\w{0,79})"""
    r"""|^[ \t]*([\w~./\\@+-]{1,200}\.py) in (?:\w{1,80}\.){0,4}([^\W\d]\w{0,79})\(""",
    re.M,
)
# Java, JavaScript, Ruby: the innermost first.
_FRAME_FIRST = re.compile(
    r"""\bat (?:[\w$]{1,80}[./]){1,12}([\w$<>]{1,80})\(([\w$]{1,80}\.\w{1,6}):(\d{1,7})\)"""
    r"""|\bat (?:async |new )?(?:[\w$<>]{1,80}\.){0,4}([\w$]{1,80}) \(([^()\s:]{1,200}\.\w{1,4}):(\d{1,7}):\d{1,6}\)"""
    r"""|([\w./@+-]{1,200}\.rb):(\d{1,7}):in [`'](?:[\w:]{1,80}[#.])?([^\W\d]\w{0,79}[?!]?)'"""
)
_PATH = re.compile(r"[\w@+.\\/-]{3,200}")
_DECLARED = re.compile(
    r"^[ \t>*-]*(?:(?:file|module) ?)?(?:path|file|location|module)s?\b[`*_ ]*[:=][`*_ \t]*"
    r"[\"'`(]?([\w@+./-]{3,200}\.\w{1,5})\b",
    re.I | re.M,
)
_LONG_PATH = re.compile(r"[\w@+.-]{0,100}[/\\][\w@+./\\-]{1,200}")
_DOTTED = re.compile(r"\b[A-Za-z_]\w{0,79}(?:(?:\.|::|#)[A-Za-z_]\w{0,79}){1,9}")
_QUOTED = re.compile(r"`([^`\n]{2,200})`|\"([^\"\n]{2,200})\"|(?<!\w)'([^'\n]{2,200})'(?!\w)")
_RAISED = re.compile(r"^[ \t]*(?:E +)?(?:[\w.]{1,80}(?:Error|Exception|Warning)): (.{3,300})$", re.M)
_NAME = re.compile(r"[^\W\d]\w{2,79}")
_CODE_NAME = re.compile(r"\b(?:\w+_\w+|[A-Za-z]*[a-z][A-Z]\w*|[A-Z][a-z]+[A-Z]\w*|[A-Za-z_]\w+(?=\())")
_FIXED_TEXT = re.compile(r"[A-Za-z][A-Za-z ,_-]*[A-Za-z]")
_IMPORT_LINE = re.compile(r"\s*(>>> )?(from|import)\s")
# A table of installed versions names half of the world and says nothing.
_VERSION_LINE = re.compile(r"^\W{0,4}[\w .-]{1,40}[\s:=|]++v?\d++\.\d++[\w.+-]*+\s*+$")
# In a small repository they are rare enough to look telling.
_FUNCTION_WORDS = frozenset(
    re.findall(
        r"\w+",
        """a an and are as at be been but by can could do does for from had has have how i if in into is it its just
        like me my no not of on only or our out should so some such than that the their them then there these they this
        to too until us was we well were what when where which while who why will with would you your""",
    )
)
_BULLET = re.compile(r"^[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t]", re.M)
_SNAKE = re.compile(r"\b[a-z]\w*_\w+")


@dataclass(frozen=True)
class Mentions:
    """A text, taken apart."""

    text: str
    chars: int
    bullets: int
    places: tuple[tuple[str, int], ...]
    """Path and line, in the order of the text."""
    frames: tuple[tuple[str, int, str], ...]
    """Path, line and function of a traceback's frames, the innermost last; line 0: it is not given."""
    paths: tuple[str, ...]
    declared: tuple[str, ...]
    """Those behind a label such as `Path:`, where a text spells out what has to be there in the end."""
    dotted: tuple[str, ...]
    names: dict[str, frozenset[Where]]
    spoken: frozenset[str]
    """Lower-case names that stand somewhere outside of a path."""
    alone: frozenset[str]
    """Those that also stand outside of a dotted name: `shop` in `shop.mail` does not mean the package's own file."""
    spelled: tuple[str, ...]
    """Paths with a folder that stand in prose, without a line number."""
    messages: tuple[str, ...]
    imports: tuple[str, ...]
    words: dict[str, int]
    """With counts, but for those of import lines and version tables."""
    title_words: dict[str, int]
    prose_words: dict[str, int]
    code_words: dict[str, int]
    snake_case: int

    @property
    def quoted(self) -> frozenset[str]:
        """Identifiers in quotes or backticks."""
        return frozenset(name for name, where in self.names.items() if "quoted" in where)


def without_comments(text: str) -> str:
    """The text without HTML comments. One that nothing ends stays; a pattern would look for the end of each again."""
    kept = []
    position = 0
    while (start := text.find("<!--", position)) >= 0 and (end := text.find("-->", start + 4)) >= 0:
        kept.append(text[position:start])
        position = end + 3
    return "".join((*kept, text[position:]))


def read_mentions(text: str) -> Mentions:
    """Take a text apart."""
    text = _FORM_LINE.sub("", without_comments(text[:MAX_TEXT_CHARS])).strip()
    prose, code = split(text)
    title = text.partition("\n")[0]
    # Import lines have a signal of their own, weaker than a module named on purpose.
    told = "\n".join(
        line for line in text.splitlines() if not _IMPORT_LINE.match(line) and not _VERSION_LINE.match(line)
    )
    quotes = [next(part for part in match if part) for match in _QUOTED.findall(text)]
    pieces = [piece for quote in (*quotes, *_RAISED.findall(text)) for piece in (quote, *_FIXED_TEXT.findall(quote))]
    messages = [piece.strip() for piece in pieces if len(piece) >= _MIN_MESSAGE_CHARS and piece.strip().count(" ") > 1]
    paths = [found.rstrip(".") for found in _PATH.findall(told)]
    places = [(a or b or c, int(m or n or o)) for a, m, b, n, c, o in _PLACE.findall(text)[:_MOST_NAMED]]
    without_paths = _LONG_PATH.sub(" ", text)
    pointed = {path for path, _ in places}
    dotted = [re.sub(r"::|#", ".", name) for name in _DOTTED.findall(told)]
    return Mentions(
        text=text,
        chars=len(text),
        bullets=len(_BULLET.findall(text)),
        places=tuple(places),
        frames=tuple(_frames(text)),
        paths=tuple(dict.fromkeys(path for path in paths if re.search(r"[./\\]", path)))[:_MOST_NAMED],
        declared=tuple(dict.fromkeys(_DECLARED.findall(text)))[:_MOST_NAMED],
        dotted=tuple(dict.fromkeys(dotted))[:_MOST_NAMED],
        names=_names(title, prose, code),
        spoken=frozenset(name.lower() for name in _NAME.findall(without_paths)),
        alone=frozenset(name.lower() for name in _NAME.findall(_DOTTED.sub(" ", without_paths))),
        spelled=tuple(dict.fromkeys(path.rstrip(".") for path in _LONG_PATH.findall(prose) if path not in pointed)),
        messages=tuple(dict.fromkeys(messages))[:_MOST_MESSAGES],
        imports=tuple(dict.fromkeys(python_imports(re.sub(r"^[ \t]*>>> ", "", text, flags=re.M)))),
        words=_words(told),
        title_words=_words(title),
        prose_words=_words(prose),
        code_words=_words(code),
        snake_case=len(set(_SNAKE.findall(text))),
    )


def _frames(text: str) -> list[tuple[str, int, str]]:
    frames = []
    for path, line, name, path2, line2, name2, path3, name3 in _FRAME.findall(text)[:_MOST_NAMED]:
        frames.append((path or path2 or path3, int(line or line2 or 0), name or name2 or name3))
    for name, path, line, name2, path2, line2, path3, line3, name3 in _FRAME_FIRST.findall(text)[:_MOST_NAMED][::-1]:
        frames.append((path or path2 or path3, int(line or line2 or line3), name or name2 or name3))
    return frames


def split(text: str) -> tuple[str, str]:
    """Prose, and the lines of fenced or indented blocks and interpreter sessions."""
    prose, code, fenced = [], [], False
    for line in text.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        elif fenced or line.startswith(("    ", "\t")) or line.lstrip().startswith((">>> ", "... ")):
            code.append(line)
        else:
            prose.append(line)
    return "\n".join(prose), "\n".join(code)


def _names(title: str, prose: str, code: str) -> dict[str, frozenset[Where]]:
    short_quotes = [
        quote for quote in (next(filter(None, match)) for match in _QUOTED.findall(prose)) if " " not in quote
    ]
    found: dict[Where, list[str]] = {
        "title": _NAME.findall(title),
        "quoted": [name for quote in short_quotes for name in _NAME.findall(quote)],
        "prose": _CODE_NAME.findall(prose),
        "plain": _NAME.findall(prose),
        "code": _NAME.findall(code),
    }
    where: dict[str, set[Where]] = {}
    for kind, names in found.items():
        for name in list(dict.fromkeys(names))[: 2 * _MOST_NAMED]:
            if name.lower() not in _FUNCTION_WORDS:
                where.setdefault(name, set()).add(kind)
    return {name: frozenset(kinds) for name, kinds in where.items()}


def _words(text: str) -> dict[str, int]:
    counts = count_words(_URL.sub(" ", text))
    return dict(
        Counter({word: count for word, count in counts.items() if word not in _FUNCTION_WORDS}).most_common(1_000)
    )
