"""A wrong value that a claim prints, or has the shell look for: it counts if the issue tells of this very value."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePosixPath

from scrout.gate.dataflow import printed_results, prints
from scrout.gate.execution_trace import WatchedRun
from scrout.gate.replay_context import ReplayContext
from scrout.gate.sources import deciding_word, simple_commands
from scrout.sandbox.replay import Replay
from scrout.syntax import parse_python

DISTINCTIVE = 12
"""Characters of a value that nothing else in an issue holds by chance."""
MAX_LINES = 200
"""Of the output that are compared."""
MAX_PLACES = 1_000
"""Of an issue that are looked at for one value."""
MAX_LINE_CHARS = 2_000
"""Of a line in which values are looked for."""

_EXPECTED = re.compile(
    r"(?:should|expect\w*|want\w*|not|instead of|rather than|used to|correct\w*|right)"
    r"\W++(?:\w++(?:[`']\w++)*\W++){0,3}$",
    re.IGNORECASE,
)
_RIGHT = re.compile(r"\b(?:should|expect\w*|want\w*|correct\w*|right|instead of|rather than)\b", re.IGNORECASE)
_ASSERTION = re.compile(r"AssertionError\b.*:$")
_QUOTES = "'\"`"
_SPACE = re.compile(r"\s+")
_GOES_ON_BEFORE = re.compile(r"[\w.\[(]")
_SCRIPT = re.compile(r"^(?:chmod \+x [^\s;&]++ *(?:&&|;) *)?(?:(?:ba)?sh +(?:-\w+ +)*)?(?:\./)?(\S+\.sh)$")
_NOISE = re.compile(r"^(?:#.*|set [-+].*|)$")
_KEPT_OUTPUT = re.compile(r"^(\w+)=\"?\$\((.*)\)\"?$")
_THEN = re.compile(r"[;\n] *+then\b")
_FI = re.compile(r"\bfi\Z")
_OTHERWISE = re.compile(r"(?<! ) *+(?:\|\||&&) *+(?:\{[^{}|]*+\}|\([^()|]*+\)|exit ++[0-9]++|echo [^|&;]*+) *+;?$")
_TEST = re.compile(r"^(?:! *)?(?:test|\[\[?) +\"?\$\((?P<program>.*)\)\"? +(?:==?|!=|-eq|-ne) +(?P<value>.*)$", re.S)
_WRITES = re.compile(
    r"^(?P<program>[^;&|<>\n]++)>\|? *+(?P<file>[\w./-]+)(?: +2>&1)? *(?:;|&&|\n) *(?P<rest>.*)$", re.S
)
_COMPARES = re.compile(r"^! *(?=diff|cmp)|^(?=diff|cmp)")
_GIVEN = re.compile(r"<\((?P<program>(?:[^()']|'[^']*'|\([^()]*\))*)\)")
_TO_NOWHERE = re.compile(r"(?<! ) *+(?:[12&]?> */dev/null|2>&1)(?=\s|$)")
_ECHOED = re.compile(r"^(! *)?(?:echo|printf '?%s(?:\\n)?'?) +\"?\$\((.*)\)\"? *(?=\|)", re.S)


@dataclass(frozen=True)
class ShellCheck:
    """A command whose exit code says whether a program printed what was expected."""

    program: str
    """The program alone."""


def read_check(command: str, own: Mapping[str, str]) -> ShellCheck | None:
    """The program whose output a command looks at; None: it does not do that, or something else as well."""
    text = command.strip()
    if (script := _SCRIPT.match(text)) and (name := str(PurePosixPath(script[1]))) in own:
        text = "\n".join(line for line in own[name].strip().split("\n") if not _NOISE.match(line.strip()))
    first, rest = _kept_output(text)
    text = rest if first else text
    if branch := _branch(text):
        if re.search(r"\bpython|[|&`]|\$\(", branch[1]):
            return None
        text = branch[0].strip()
    if first:
        text = text.replace(f"${{{first[1]}}}", f"${first[1]}").replace(f"${first[1]}", f"$({first[2]})")
    text = _OTHERWISE.sub("", _OTHERWISE.sub("", text)).strip()
    text = _ECHOED.sub(r"\1\2 ", text)
    program = _program(text)
    if program is None or deciding_word(program) or any("\n" in operator for operator, _ in simple_commands(program)):
        return None
    return ShellCheck(program)


def _branch(text: str) -> tuple[str, str] | None:
    """The condition and the rest of a text that is one `if`; None: it is not."""
    then = _THEN.search(text) if text.startswith("if ") else None
    end = _FI.search(text, then.end()) if then else None
    return (text[3 : then.start()], text[then.end() : end.start()]) if then and end else None


def _kept_output(text: str) -> tuple[re.Match[str] | None, str]:
    """A first line that keeps a program's output in a variable, and what comes after it."""
    first, _, rest = re.sub(r"(?<=\))(\"?) *; *(?=test|\[|echo|if)", r"\1\n", text, count=1).partition("\n")
    return _KEPT_OUTPUT.match(first.strip()), rest.strip()


def _program(text: str) -> str | None:
    if tested := _TEST.match(text):
        return None if "$(" in tested["program"] or "$(" in tested["value"] else tested["program"].strip()
    if written := _WRITES.match(text):
        look = _words(written["rest"])
        return written["program"].rstrip(" ") if _looks(look, 1) and look.count(written["file"]) == 1 else None
    if _COMPARES.match(text):
        return _compared(text)
    program, pipe, last = text.removeprefix("!").rpartition("|")
    words = _words(last)
    if not pipe or program.endswith("|") or not _looks(words, 0):
        return None
    return program.strip() if words[0] not in ("diff", "cmp") or words.count("-") == 1 else None


def _compared(text: str) -> str | None:
    """The program whose output `diff <(program) file` compares with a file, or with what echo prints."""
    given = [match["program"].strip() for match in _GIVEN.finditer(text)]
    words = _words(_GIVEN.sub(" - ", text).removeprefix("!"))
    programs = [program for program in given if not re.match(r"(?:echo|printf|cat) [^|;&$`]*$", program)]
    return programs[0] if _looks(words, 1) and len(programs) == 1 and words.count("-") == len(given) else None


def _words(text: str) -> list[str]:
    """Of the one command that a text is, without where its output goes; none: it is more than that."""
    commands = list(simple_commands(_TO_NOWHERE.sub("", text.strip())))
    return commands[0][1] if len(commands) == 1 else []


def _looks(words: Sequence[str], files: int) -> bool:
    """Whether the words are one command that looks at a text, and `grep` at this number of files."""
    if not words:
        return False
    plain = [word for word in words[1:] if not re.fullmatch(r"-[\w-]+|--", word)]
    if words[0] in ("diff", "cmp"):
        return len(plain) == 2
    return words[0] in ("grep", "egrep", "fgrep") and len(plain) == 1 + files


def reported_value(run: Replay, replay_context: ReplayContext) -> str | None:
    """A value in the output that the repository gave and that the issue calls wrong; None: there is none."""
    lines = [" ".join(line.split()) for line in replay_context.issue.splitlines()]
    for value in dict.fromkeys((*_values(run.output), *_filled(run.output, replay_context))):
        if is_told(value, lines) and is_result(value, replay_context):
            return value
    for value in dict.fromkeys(_given(run)):
        if is_told(value, lines) and _is_named(value, replay_context):
            return value
    block = _complained_of(run.output)
    if _is_shown(block, replay_context.issue.splitlines()) and is_result("\n".join(block), replay_context):
        return "\n".join(block)
    return next((value for value in _given_as_quoted(run, replay_context) if is_told(value, lines)), None)


def _complained_of(output: str) -> list[str]:
    """The lines of a text that an assertion shows behind its own words: `AssertionError: printed:`."""
    lines = [line.rstrip() for line in output.rstrip().splitlines()]
    start = next((at for at in range(len(lines) - 1, -1, -1) if _ASSERTION.match(lines[at])), len(lines))
    return textwrap.dedent("\n".join(lines[start + 1 :])).splitlines() if len(lines) - start <= MAX_LINES else []


def _is_shown(block: Sequence[str], issue: Sequence[str]) -> bool:
    """Whether an issue shows these lines, with their indentation, and not below a heading of what should be."""
    if len(block) < 2 or not block[0]:
        return False
    starts = [at for at, line in enumerate(issue) if line.strip() == block[0].strip()]
    for at in starts[:MAX_PLACES]:
        shown = textwrap.dedent("\n".join(line.rstrip() for line in issue[at : at + len(block)])).splitlines()
        ends = at + len(block) >= len(issue) or not issue[at + len(block)].strip(" `~}")
        above = next((said for line in reversed(issue[max(0, at - 4) : at]) if (said := line.strip(" `~{"))), "")
        if shown == list(block) and ends and not _RIGHT.search(above):
            return True
    return False


def _given(run: Replay) -> Iterator[str]:
    """Results of the repository that were seen, and that the output shows."""
    lines = run.output.splitlines()[-MAX_LINES:]
    for result in [result for call in run.calls for result in call.results] if isinstance(run, WatchedRun) else ():
        shown = re.compile(rf"(?<![\w.]){re.escape(result)}(?![\w.])")
        if result and not _is_kind(result) and any(shown.search(line) for line in lines):
            yield result


def _given_as_quoted(run: Replay, replay_context: ReplayContext) -> Iterator[str]:
    """Results that were seen of functions which the claim calls once, and as the issue does.

    So a result may also stand in the claim's own code, for example as the argument that came back unchanged.
    """
    texts = replay_context.sources.all
    if not any(prints(text, replay_context.belongs) for text in texts):
        return
    issue = _squeezed(replay_context.issue)
    called = [call for call in _calls(texts, texts_too=True) if _squeezed(call) in issue]
    names = {name for call in called for name in (call.partition("(")[0], f"__{call.partition('(')[0]}__")}
    once = [call for call in run.calls if call.times == 1 and call.name in names] if isinstance(run, WatchedRun) else []
    given = set(_given(run))
    yield from (call.result for call in once if call.result in given)


def _is_kind(result: str) -> bool:
    """Whether it is the type of an exception that was raised, or not a value."""
    return result not in ("None", "True", "False") and (result.isidentifier() or result == "a changed argument")


def _values(output: str) -> Iterator[str]:
    for line in output.splitlines()[-MAX_LINES:]:
        whole = line.strip()
        yield from dict.fromkeys(part for part in (whole, whole.partition(": ")[2], whole.partition(" ")[2]) if part)


def _filled(output: str, replay_context: ReplayContext) -> Iterator[str]:
    """Results of the repository in lines that the claim's own code words: `BUG: 3 instead of 4`."""
    lines = [line for line in output.splitlines()[-MAX_LINES:] if len(line) <= MAX_LINE_CHARS]
    for text in replay_context.sources.all:
        yield from printed_results(text, replay_context.belongs, lines)


def is_told(value: str, lines: Sequence[str]) -> bool:
    """Whether the lines of an issue tell of a value, and not as the one that should be."""
    words = " ".join(value.split())
    if not 0 < len(words) <= MAX_LINE_CHARS:
        return False
    places = ((line, at) for line in lines for at in _places(words, line))
    for line, at in islice(places, MAX_PLACES):
        before, behind = line[max(at - 1, 0) : at], line[at + len(words) : at + len(words) + 2]
        if _is_whole(before, behind) and not _EXPECTED.search(line[max(0, at - 60) : at]):
            return True
    return False


def is_right(results: Sequence[str], issue: str) -> bool:
    """Whether an issue names all of these results as those that should be, and none as one that is."""
    lines = [" ".join(line.split()) for line in issue.splitlines()]
    return bool(results) and all(_is_expected(value, lines) and not is_told(value, lines) for value in results)


def _is_expected(value: str, lines: Sequence[str]) -> bool:
    words = " ".join(value.split())
    places = ((line, at) for line in lines for at in _places(words, line)) if words else ()
    return any(
        _is_whole(line[max(at - 1, 0) : at], line[at + len(words) : at + len(words) + 2])
        and _EXPECTED.search(line[max(0, at - 60) : at])
        for line, at in islice(places, MAX_PLACES)
    )


def _places(words: str, line: str) -> Iterator[int]:
    at = line.find(words)
    while at >= 0:
        yield at
        at = line.find(words, at + 1)


def _is_whole(before: str, behind: str) -> bool:
    """Whether a value ends where it is found: a quoted one at its quote, another one with its word."""
    if before and before in _QUOTES:
        return behind[:1] == before
    if _GOES_ON_BEFORE.match(before):
        return False
    return not behind or behind[0] in f" ,;{_QUOTES}" or bool(re.fullmatch(r"[.!?:)](?:\s|$)", behind))


def is_result(value: str, replay_context: ReplayContext) -> bool:
    """Whether the value came out of the repository: no word of the claim's own, and printed by what uses it."""
    texts = replay_context.sources.all
    if not texts:
        return True  # the repository's own program
    return any(prints(text, replay_context.belongs) for text in texts) and _is_named(value, replay_context)


def _is_named(value: str, replay_context: ReplayContext) -> bool:
    """Whether nothing but a result can be meant by a value: no word of the claim's, and the issue's or its call's."""
    texts = replay_context.sources.all
    if any(value in _code(text) for text in texts):
        return False
    return len(value) >= DISTINCTIVE or any(
        _squeezed(call) in _squeezed(replay_context.issue) for call in _calls(texts)
    )


def calls_as_quoted(name: str, replay_context: ReplayContext) -> bool:
    """Whether a claim calls a function as the issue does; an issue that shows no call of it asks for none."""
    issue = _squeezed(replay_context.issue)
    if not re.search(rf"(?<!\w){re.escape(name)}\([^)]", issue):
        return True
    return any(call.startswith(f"{name}(") and _squeezed(call) in issue for call in _calls(replay_context.sources.all))


def _code(text: str) -> str:
    """Without comments."""
    try:
        return ast.unparse(parse_python(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text


def _calls(texts: Iterable[str], *, texts_too: bool = False) -> Iterator[str]:
    """Calls in the claim's own code, without what the function is an attribute of.

    `texts_too`: also those that make a text of an object.
    """
    shows = ("print", "format", "append", "write", "exit", *(() if texts_too else ("repr", "str")))
    for text in texts:
        try:
            nodes = list(ast.walk(parse_python(text)))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        for node in nodes:
            if isinstance(node, ast.Call) and not (node.args or node.keywords):
                yield ast.unparse(node)  # as a whole: a name alone says little
            elif isinstance(node, ast.Call):
                name, _, rest = ast.unparse(node).partition("(")
                if name.rpartition(".")[2] not in shows:
                    yield f"{name.rpartition('.')[2]}({rest}"


def _squeezed(text: str) -> str:
    return _SPACE.sub("", text).replace('"', "'")
