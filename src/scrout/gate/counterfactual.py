"""Whether a claim fails because of what the repository gave it: run again with other results, it must pass.

A claim's own check can call the repository and fail over something else, in more ways than any reading of its source
finds. So the command is run once more, and a function of the repository that it called gives a value that the claim
itself mentions, in place of its own. A failure that no result of the repository could have avoided is the claim's own.
"""

from __future__ import annotations

import ast
import asyncio
import doctest
import json
import math
import re
import secrets
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from keyword import iskeyword
from pathlib import PurePosixPath

from scrout.gate.execution_trace import Called, WatchedRun, watching
from scrout.gate.printed import calls_as_quoted, is_result, is_right, is_told
from scrout.gate.python import failure_places
from scrout.gate.replay_context import ReplayContext
from scrout.sandbox.outbox import read_outbox
from scrout.sandbox.task_sandbox import TaskSandbox
from scrout.sandbox.workspace import Workspace, empty_folder
from scrout.syntax import parse_python

MAX_TRIALS = 30
"""Of one round."""
MAX_PASSED = 3
"""Trials that pass and are looked at more closely."""
MAX_ROUNDS = 4
"""A check of several results may need several other ones."""
MAX_CANDIDATES = 14
MAX_FUNCTIONS = 6
MAX_SIZE = 100
MAX_CHARS = 30_000
_SURE = 3
"""Candidates that are tried before stand-ins."""
MAX_VALUE_CHARS = 3_000
_REPORT_BYTES = 100_000
MAX_SURE_TRIALS = 14
_CHANGED = "a changed argument"
_WANT = "check(_scrout_wish("
_SHOWN = "_scrout_shown("
_UNLIKE = ("_scrout_unlike", "'scrout unlike'", "None", "8235430", "['scrout unlike']")
"""Values that nothing expects, but for None: a check that they pass asks for no value."""
_LOOP = """
line=$1; limit=$2; mark=$3; shift 3; number=0
for trial; do
  number=$((number + 1))
  SCROUT_WATCH_TRIAL=$trial timeout -k 1 "$limit" bash -o pipefail -c "$line" < /dev/null 2>&1
  code=$?
  printf '\\n%s %d %d\\n' "$mark" "$number" "$code"
  if [ "$code" = 0 ] && [ "$number" -ge FIRST ]; then break; fi
done
"""


@dataclass(frozen=True)
class Change:
    """A function of the repository that gives something else."""

    path: str
    line: int
    nth: int
    """Which of the claim's calls; 0: all."""
    value: str
    """An expression, in the words of the claim."""
    how: str = "return"
    name: str = ""


@dataclass(frozen=True)
class _Ended:
    exit_code: int
    output: str
    calls: int


_COMPARISONS = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__bool__", "__contains__")
"""What gives another answer here makes any check pass, so only the issue's answer counts."""
_QUOTED = re.compile(r"`([^`\n]{1,500})`|(?:[Ee]xpected|should (?:be|happen))[: ]{1,3}([^` \n][^`\n]{0,500})")

_EXCEPTION = re.compile(r"[A-Z]\w*(?:Error|Exception|Warning|Exit|Interrupt)")

Prepare = Callable[[Workspace], object]
Changes = tuple[Change, ...]


@dataclass(frozen=True)
class CounterfactualTrials:
    """Runs a claim's command with other results of the repository."""

    task_sandbox: TaskSandbox
    prepare: Prepare
    command: str
    run: WatchedRun
    replay_context: ReplayContext
    timeout_s: float

    async def explain(self, *, surely: bool = False) -> str:
        """What the repository would have to give so that the claim passes, in words; empty: nothing that was tried.

        `surely`: one value that the issue names, and not others in its place.
        """
        functions = [call for call in self.run.calls if self.replay_context.is_repository_code(call.path)][
            -MAX_FUNCTIONS:
        ]
        values = await asyncio.to_thread(candidates, self.replay_context, surely=surely)
        first: list[Change] = await asyncio.to_thread(_outputs, self.replay_context) if surely else []
        if not surely:
            first = await asyncio.to_thread(_throughs, self.replay_context, functions[::-1])
            values[_SURE:_SURE] = await asyncio.to_thread(_wishes, self.replay_context, functions)
        if not functions or not (values or first):
            return ""
        found: Changes = ()
        output, calls = self.run.output, sum(call.times for call in functions)
        for _ in range(1 if surely else MAX_ROUNDS):
            changes = [*first, *_changes(functions[::-1], values, self.replay_context)]
            tried = [(*found, change) for change in changes if change not in found]
            left = tried[: MAX_SURE_TRIALS if surely else MAX_TRIALS]
            done: list[tuple[Changes, _Ended]] = []
            for _ in range(MAX_PASSED):
                ends = await self._run(left) if left else []
                done += zip(left, ends, strict=False)
                passed = next((at for at, end in enumerate(ends) if self._passes(end)), None)
                if passed is None:
                    break
                if said := await self._confirm(left[passed], functions, surely=surely):
                    return said
                left = left[passed + 1 :]
            further = (
                (trial, end)
                for trial, end in done
                if not self._passes(end) and _got_further(end, output, calls, self.replay_context)
            )
            found, last = next(further, ((), None))
            if last is None:
                return ""
            output, calls = last.output, max(last.calls, calls)
        return ""

    async def hinges_on(self, failures: Sequence[tuple[str, str]]) -> bool:
        """Whether the command passes where programs of the claim's do not end with these exceptions.

        They end without a word instead, or print what the issue says should be.
        """
        _, right = _printable(self.replay_context.issue)
        trials: list[Changes] = [(Change("", 0, 0, json.dumps([failures, text]), "exit"),) for text in ("", *right)]
        ends = await self._run([(), *trials], stop=False)
        return len(ends) > 1 and not self._passes(ends[0]) and any(map(self._passes, ends[1:]))

    def _passes(self, end: _Ended) -> bool:
        """Whether the claim's own failures are gone; tests of the repository's may fail as before."""
        if end.exit_code == 0:
            return True
        left, before = (failure_places(output, self.replay_context) for output in (end.output, self.run.output))
        theirs = [place.partition(" ")[2].rpartition(":")[0] for place in left]
        return (
            0 < len(left) < len(before)
            and set(left) <= set(before)
            and all(map(self.replay_context.is_repository_code, theirs))
        )

    async def _confirm(self, changes: Changes, functions: Sequence[Called], *, surely: bool) -> str:
        """In a workspace that no other trial has touched. A check that anything else passes must be the issue's."""
        last = changes[-1]
        call = next((call for call in functions if (call.path, call.line) == (last.path, last.line)), None)
        issue = self.replay_context.issue
        if call and _mentions(issue, call.name) and is_right(call.results, issue):
            return ""
        unlike = [
            tuple(replace(change, value=value) for change, value in zip(changes, values, strict=True))
            for values in zip(*(_unlike(change, call, surely=surely) for change in changes), strict=False)
        ]
        # Without a change it fails again, unless it is up to chance.
        same: list[Changes] = [()] * (2 if surely else 1)
        passes = [self._passes(end) for end in await self._run([changes, *same, *unlike], stop=False)]
        if len(passes) < 1 + len(same) + len(unlike) or not passes[0] or any(passes[1 : 1 + len(same)]):
            return ""
        if any(passes[1 + len(same) :]) and (surely or call is None or not _blamed(call, last, self.replay_context)):
            return ""
        return f"it passes where {call.name if call else last.name} {_gives(last)}"

    async def _run(self, trials: Sequence[Changes], *, stop: bool = True) -> list[_Ended]:
        """How each ended, up to the first that passed."""
        key, mark = secrets.token_hex(16), secrets.token_hex(16)
        limit = math.ceil(min(self.timeout_s, 2 * self.run.seconds + 2))
        message = _messages(self.replay_context)
        paths = sorted({call.path for call in self.run.calls})
        told = [
            json.dumps(
                {
                    "number": number,
                    "message": message,
                    "paths": paths,
                    "changes": [vars(change) for change in trial],
                }
            )
            .encode()
            .hex()
            for number, trial in enumerate(trials, 1)
        ]
        workspace = self.task_sandbox.fresh()
        try:
            self.prepare(workspace)
            variables, mounts, line = watching(self.task_sandbox, workspace, self.command, key)
            loop = _LOOP.replace("FIRST", "0" if stop else str(len(trials)))
            argv = ["bash", "-c", loop, "bash", line, str(limit), mark, *told]
            done = await self.task_sandbox.run(
                workspace, argv, timeout_s=6 * self.timeout_s, variables=variables, mounts=mounts
            )
            calls = await asyncio.to_thread(_read_calls, workspace, key)
        finally:
            workspace.remove()
        ends, start = [], 0
        for end in re.finditer(rf"^{mark} ([0-9]+) ([0-9]+)$", done.text, re.MULTILINE):
            number = int(end[1])
            ends.append(_Ended(int(end[2]), done.text[start : end.start()], calls.get(number, 0)))
            start = end.end()
        return ends


def _read_calls(workspace: Workspace, key: str) -> dict[int, int]:
    """How many calls of the repository each trial came to."""
    calls: dict[int, int] = {}
    for content in read_outbox(workspace.outbox, _REPORT_BYTES):
        try:
            secret, number, count = json.loads(content)
            if secrets.compare_digest(str(secret).encode(), key.encode()):
                calls[int(number)] = max(calls.get(int(number), 0), int(count))
        except (ValueError, TypeError, OverflowError, RecursionError):
            continue
    empty_folder(workspace.outbox)
    return calls


def _got_further(end: _Ended, before: str, calls: int, replay_context: ReplayContext) -> bool:
    """Whether a failure is gone, and what is left is another of the same sort."""
    left, places = (failure_places(output, replay_context) for output in (end.output, before))
    if not left or not places:
        return False
    if left == places and set() < _complaints(end.output) < _complaints(before):
        return True
    fewer = len(left) < len(places) and set(left) <= set(places)
    kinds = {place.partition(" ")[0] for place in places}
    return fewer or (end.calls > calls and {place.partition(" ")[0] for place in left} <= kinds)


def _complaints(output: str) -> set[str]:
    """The lines of the last assertion's message: one that counts failures has a line for each."""
    _, mark, message = output.rpartition("AssertionError: ")
    return set(message.strip().splitlines()) if mark else set()


def _unlike(change: Change, call: Called | None, *, surely: bool) -> list[str]:
    """Other values in place of one that passes, which should not."""
    if change.how == "output":
        return [json.dumps([json.loads(change.value)[0], value]) for value in ("scrout unlike", "8235430")]
    if change.how == "through":
        return ["[]"]
    if surely and call and call.name in _COMPARISONS:
        return [str(change.value != "True")]
    return [value for value in (_UNLIKE if surely else _UNLIKE[:3]) if value != change.value]


def _gives(change: Change) -> str:
    if change.how == "output":
        return f"the program prints {json.loads(change.value)[1][:100]}"
    return f"gives {'one of ' if change.how == 'through' else ''}{change.value[:100]}"


def _blamed(call: Called, change: Change, replay_context: ReplayContext) -> bool:
    """Whether an issue tells of what the claim's call of a function gave, and not as what it should give."""
    issue = replay_context.issue
    if not calls_as_quoted(call.name, replay_context):
        return False
    if call.result == _CHANGED or (call.result == "None" and change.how != "return"):
        return True  # what it did is what counts
    if call.result == "None" and (_mentions(issue, call.name) or not _is_used(call.name, replay_context)):
        return True
    raised = call.result.isidentifier() and not iskeyword(call.result) and _mentions(issue, call.result)
    return raised or is_told(call.result, [" ".join(line.split()) for line in issue.splitlines()])


def _is_used(name: str, replay_context: ReplayContext) -> bool:
    """Whether the claim's own code does something with what a function gives."""
    nodes = [node for tree in _trees(replay_context) for node in ast.walk(tree)]
    left = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    calls = [node for node in nodes if isinstance(node, ast.Call) and id(node) not in left]
    return any(ast.unparse(call.func).rpartition(".")[2] == name for call in calls)


def _mentions(issue: str, word: str) -> bool:
    return bool(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", issue))


def _changes(functions: Sequence[Called], values: Sequence[str], replay_context: ReplayContext) -> list[Change]:
    """What to try, the likeliest first: what was called last, and what is compared with."""
    ranked: list[tuple[int, Change]] = []
    for far, call in enumerate(functions):
        times = [0] if call.times == 1 else [call.times, 0, *range(1, min(call.times, 3))]
        for later, value in enumerate(values):
            if call.name in _COMPARISONS and not (
                value in ("True", "False") and _mentions(replay_context.issue, value)
            ):
                continue
            if _is_of_another_sort(value, call) and not _is_asked_for(value, call, replay_context.issue):
                continue
            for again, nth in enumerate(times if call.name != "__init__" else ()):
                ranked.append((2 * far + later + 2 * again, Change(call.path, call.line, nth, value)))
            if call.result == _CHANGED:
                ranked.append((2 * far + later, Change(call.path, call.line, 0, value, "argument")))
            if call.result == "None" and call.name != "__init__":
                ranked.append((2 * far + later + 4, Change(call.path, call.line, 0, value, "print")))
    for far, name in enumerate(_attributes(replay_context)):
        for later, value in enumerate(values[:6]):
            ranked.append((3 + far + later, Change("", 0, 0, value, "attribute", name)))
    return [change for _, change in sorted(ranked, key=lambda pair: pair[0])]


def _is_of_another_sort(value: str, call: Called) -> bool:
    """Whether a value is data of another type than a function was seen to give, so that no bug of it explains that."""
    given = {_sort(result) for result in call.results}
    if not given or None in given or type(None) in given:
        return False
    return value.startswith(_SHOWN) or (_sort(value) is not None and _sort(value) not in {*given, type(None)})


def _sort(text: str) -> type | None:
    """The type of a literal; numbers are of one. None: it is no literal."""
    kind = type(ast.literal_eval(text.strip())) if _is_literal(text) else None
    return complex if kind in (bool, int, float) else kind


def _is_asked_for(value: str, call: Called, issue: str) -> bool:
    """Whether an issue is about a function, or has this value in it."""
    return _mentions(issue, call.name) or (_is_data(value) and _is_named(value, _plain(issue)))


def _attributes(replay_context: ReplayContext) -> list[str]:
    """Attributes that the claim's code reads and does not call."""
    names: dict[str, None] = {}
    for tree in _trees(replay_context):
        called = {node.func for node in ast.walk(tree) if isinstance(node, ast.Call)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and node not in called:
                names[node.attr] = None
    return list(names)[-4:]


def _throughs(replay_context: ReplayContext, functions: Sequence[Called]) -> list[Change]:
    """What functions gave, but with the values in it, and in what they give in turn, that claim and issue name."""
    issue = _plain(replay_context.issue)
    wanted = [text for text in candidates(replay_context) if _is_literal(text) and _is_named(text, issue)]
    wanted = [text for text in wanted if not is_told(text, replay_context.issue.splitlines())]
    if not wanted:
        return []
    value = f"[{', '.join(wanted)}]"
    return [Change(call.path, call.line, 0, value, "through") for call in functions]


def _is_named(text: str, issue: str) -> bool:
    """Whether an issue has a value, in its own words or in Python's."""
    value = ast.literal_eval(text.strip())
    forms = [text.strip(), value] if isinstance(value, str) else [text.strip()]
    return any(re.search(rf"(?<!\w){re.escape(_plain(form))}(?!\w)", issue) for form in forms if form.strip())


def _plain(text: str) -> str:
    return re.sub(r"\s+", "", text).replace('"', "'").replace("\\|", "|")


def _outputs(replay_context: ReplayContext) -> list[Change]:
    """What a program may print in place of a value that the issue calls wrong."""
    wrong, right = _printable(replay_context.issue)
    wrong = [value for value in wrong if is_result(value, replay_context)]
    pairs = [(one, other) for one in wrong[:3] for other in right]
    return [Change("", 0, 0, json.dumps(pair), "output", "it,") for pair in pairs]


def _printable(issue: str) -> tuple[list[str], list[str]]:
    """Values that an issue calls wrong, and those that it names otherwise."""
    lines = [" ".join(line.split()) for line in issue.splitlines()]
    quoted = [match[1] or match[2] for match in _QUOTED.finditer(issue)]
    values = dict.fromkeys(value.strip() for value in (*quoted, *lines) if value.strip())
    wrong = [value for value in values if is_told(value, lines)]
    return wrong, [value for value in values if value in quoted and value not in wrong][:3]


def candidates(replay_context: ReplayContext, *, surely: bool = False) -> list[str]:
    """Expressions for what a claim may expect, the likeliest first: what it compares with, then what else it names.

    `surely`: only what the issue names too.
    """
    ranked: dict[str, int] = {}
    for tree in _trees(replay_context):
        for text in _exceptions(tree, replay_context.issue):
            ranked[text] = 0
        for rank, node in _ranked(tree):
            text = ast.unparse(node)
            if len(text) <= MAX_VALUE_CHARS and not text.startswith("_scrout_wish"):
                ranked[text] = min(rank, ranked.get(text, rank))
    for rank, text in _texts(replay_context):
        if _is_literal(text):
            ranked.setdefault(text.strip(), rank)
        ranked.setdefault(repr(text), rank + 1)
    own = "\n".join((*replay_context.own.values(), replay_context.run.command if replay_context.run else ""))
    for value in (match[1] or match[2] for match in _QUOTED.finditer(replay_context.issue)):
        # A shell may quote it.
        if (value.strip() in own or surely) and _is_literal(value):
            ranked[value.strip()] = -2 if value.strip() in own else -1
    if surely:
        ranked = {text: rank for text, rank in ranked.items() if rank < 0}
    for text in [text for text in ranked if ranked[text] <= 0 and re.search(r"[(<]", text) and _is_text(text)]:
        # An object, by what it shows.
        ranked.setdefault(str(ast.literal_eval(text)).strip(), 1)
        ranked.setdefault(f"{_SHOWN}{text})", 2)
    for text in [text for text in ranked if ranked[text] <= 0 and not surely]:
        for part in _parts(text, replay_context):
            ranked.setdefault(part, 2)
    found = sorted((text for text in ranked if _is_expression(text)), key=lambda text: ranked[text])
    return found[:MAX_CANDIDATES]


def _parts(text: str, replay_context: ReplayContext) -> Iterator[str]:
    """What an expected value may be made of: what an f-string of the claim's puts its words around, pairs of a dict."""
    value = ast.literal_eval(text.strip()) if _is_literal(text) else None
    if isinstance(value, str):
        for before, after in [words for tree in _trees(replay_context) for words in _words_around(tree)]:
            if before + after and value.startswith(before) and value[len(before) :].endswith(after):
                part = value[len(before) : len(value) - len(after)]
                yield from (repr(part), *([part] if _is_literal(part) else []))
    if isinstance(value, list) and value and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value):
        yield f"dict({text})"


def _words_around(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Texts before and after the one value of an f-string."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            texts = [part.value if isinstance(part, ast.Constant) else None for part in node.values]
            if texts.count(None) == 1:
                at = texts.index(None)
                yield "".join(map(str, texts[:at])), "".join(map(str, texts[at + 1 :]))


def _exceptions(tree: ast.AST, issue: str) -> Iterator[str]:
    """Exceptions that the claim names in a text, and the issue too."""
    for node in ast.walk(tree):
        name = node.value if isinstance(node, ast.Constant) else None
        if isinstance(name, str) and _EXCEPTION.fullmatch(name) and _mentions(issue, name):
            yield f"_scrout_exception({name!r})"


def _wishes(replay_context: ReplayContext, functions: Sequence[Called]) -> list[str]:
    """What functions gave, but equal to what the claim compares it or its parts with."""
    compared = [node for tree in _trees(replay_context) for node in ast.walk(tree) if isinstance(node, ast.Compare)]
    numbers = [part.value for node in compared for part in node.comparators if isinstance(part, ast.Constant)]
    sizes = [number for number in numbers if type(number) is int and 0 <= number <= MAX_SIZE]
    # A result that the claim names is no other than it asks for.
    named = {repr(ast.literal_eval(text.strip())) for text in candidates(replay_context) if _is_literal(text)}
    values = dict.fromkeys(call.result for call in functions[::-1] if _is_data(call.result))
    values = {value: None for value in values if value not in named}
    shown = [part for node in compared for part in node.comparators if _is_text(ast.unparse(part))]
    wants = [ast.unparse(part) for part in shown]
    wants += [text[len(_WANT) : -2] for text in _examples(replay_context) if text.startswith(_WANT)]
    found = []
    for value in list(values)[:2]:
        found += [f"_scrout_wish({value})", *(f"_scrout_wish({value}, {size})" for size in dict.fromkeys([*sizes, 0]))][
            :3
        ]
        found += [f"_scrout_wish({value}, None, {want})" for want in wants[:3]]
    return found


def _ranked(tree: ast.AST) -> Iterator[tuple[int, ast.expr]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            for part in (*node.comparators, node.left):
                yield _rank(part), part
        elif isinstance(node, ast.Call):
            checks = re.search(r"[Aa]ssert|raises|equal|check|expect|verify", ast.unparse(node.func)[-40:])
            for part in (*node.args, *(word.value for word in node.keywords)):
                if checks:
                    yield _rank(part), part
                elif _is_literal_node(part):
                    yield 4, part
        elif isinstance(node, ast.ExceptHandler) and node.type is not None:
            yield 3, node.type
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.Return | ast.keyword | ast.NamedExpr) and node.value:
            if _is_literal_node(node.value):
                yield 2, node.value
        elif isinstance(node, ast.List | ast.Tuple | ast.Set):
            yield from ((3, part) for part in node.elts if _is_literal_node(part))
        elif isinstance(node, ast.Dict):
            yield from ((3, part) for part in node.values if _is_literal_node(part))
        elif isinstance(node, ast.MatchValue):
            yield 1, node.value


def _rank(node: ast.expr) -> int:
    if _is_literal_node(node):
        return 0
    return 1 if not any(isinstance(part, ast.Call | ast.Lambda) for part in ast.walk(node)) else 2


def _is_expression(text: str) -> bool:
    try:
        ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _is_text(text: str) -> bool:
    return _is_literal(text) and isinstance(ast.literal_eval(text), str)


def _is_data(text: str) -> bool:
    return _is_literal(text) and not iskeyword(text)


def _is_literal_node(node: ast.expr) -> bool:
    return not isinstance(node, ast.JoinedStr) and _is_literal(ast.unparse(node))


def _is_literal(text: str) -> bool:
    try:
        ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False
    return True


def _trees(replay_context: ReplayContext) -> Iterator[ast.Module]:
    for text in dict.fromkeys((*replay_context.sources.all, *_examples(replay_context))):
        try:
            if len(text) <= MAX_CHARS:
                yield parse_python(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue


def _examples(replay_context: ReplayContext) -> Iterator[str]:
    """Documentation examples as comparisons with what they expect."""
    for text in {**replay_context.own, "": replay_context.run.command if replay_context.run else ""}.values():
        if ">>>" not in text or len(text) > MAX_CHARS:
            continue
        try:
            examples = doctest.DocTestParser().get_examples(text)
        except ValueError:
            continue
        for example in examples:
            if example.exc_msg:
                yield f"raises({example.exc_msg.partition(':')[0].strip()})"
            # In a module the text ends with its quotes.
            elif want := re.split(r"^.*(?:\'{3}|\"{3})", example.want, maxsplit=1, flags=re.MULTILINE)[0].strip():
                yield f"check({want})"
                yield f"check({_SHOWN}{want!r}))"
                yield f"{_WANT}{want!r}))"


def _texts(replay_context: ReplayContext) -> Iterator[tuple[int, str]]:
    """Texts that a shell may compare with, and how far they are from likely."""
    command = replay_context.run.command if replay_context.run else ""
    shells = [command, *(text for path, text in replay_context.own.items() if path.endswith(".sh"))]
    for shell in shells:
        try:
            words = shlex.split(shell, comments=True)[:200]
        except ValueError:
            words = []
        for word in words:
            for part in (word, word.partition("=")[2]):
                if part and not re.search(r"[$`]", part):
                    yield (1 if _is_literal(part) else 4), part
    for path, text in replay_context.own.items():
        if PurePosixPath(path).suffix in (".txt", ".json", ".out", ".expected", "") and len(text) <= MAX_VALUE_CHARS:
            yield 0, text.strip()


def _messages(replay_context: ReplayContext) -> str:
    """Texts that the claim looks for in an exception."""
    found = []
    for tree in _trees(replay_context):
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg == "match" and isinstance(node.value, ast.Constant):
                found.append(str(node.value.value))
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("RaisesRegex"):
                found += [str(part.value) for part in node.args if isinstance(part, ast.Constant)]
    return " ".join(found).replace("\\", "")
