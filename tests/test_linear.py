"""No text takes long to read: CPU time grows with a text's length, whoever wrote it.

Two attacks: every pattern of the package against texts that are derived from it, and every function that reads what
others wrote against a family of texts. Four times the text may take four times as long, not sixteen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from scrout.agent.dialects import dialect
from scrout.agent.tools import drop_middle
from scrout.check.flags import flags
from scrout.check.patch import FileChange, read_patch
from scrout.check.weakened_tests import compare, lost_tests, new_skips
from scrout.config.settings import DialectName
from scrout.fix.repair.trials import parse as parse_invocation
from scrout.gate import lexical, observation
from scrout.gate.doctests import as_script, read_examples
from scrout.gate.injection import as_data, remove_injections
from scrout.gate.printed import read_check, reported_value
from scrout.gate.python import read_failures
from scrout.gate.runners import decides_how
from scrout.gate.sources import deciding_word, heredocs, own_sources, simple_commands
from scrout.gate.strip import strip
from scrout.handoff import FileRef, Handoff, HandoffError, Reproduction, parse, render
from scrout.html import escape, inline
from scrout.index.go import read_go
from scrout.index.outline import outline
from scrout.index.python import read_python
from scrout.index.symbols import read_symbols
from scrout.index.words import count_words
from scrout.integrations.markdown import block, code, plain
from scrout.lab.train.blocklist import blocked_in
from scrout.lab.train.corpus.commands import commanded
from scrout.lab.train.corpus.trajectory import changed_files, issue_of
from scrout.lab.train.history import clean, read_diff
from scrout.models.chat import Reply
from scrout.models.context_overflow import too_long
from scrout.models.proxy.apis import APIS, AnswerReader, Stream
from scrout.redact import redact, redact_command, redact_dumped, redact_json
from scrout.route.embedders.hashed import HashedEmbedder
from scrout.route.text_counts import count
from scrout.sandbox import reports, reports_by_name
from scrout.scout.prompting import holds_handoff, with_context
from scrout.scout.recon.blocks import find_blocks, read_session
from scrout.scout.recon.commands import find_commands, find_programs
from scrout.scout.recon.mentions import read_mentions
from scrout.scout.recon.scripts import find_exports, find_scripts
from scrout.scout.report import coloured, issue_section, names_in
from scrout.server.dashboard import diff

from .conftest import assert_linear, cpu_seconds
from .hostile import Used, attacks, patterns_of_package, texts

# Patterns

BOUNDED = {
    "integrations.ci_environment:_PATH": ("fullmatch", 10_000),
    "gate.printed:_EXPECTED": ("search", 60),
    "index.outline:_OUTLINES": ("match", 300),
    "route.text_counts:_PATH": ("search", 300),
    "scout.recon.commands:_NAMED_ABOVE": ("search", 200),
    "scout.recon.scripts:_EXPECTED": ("search", 500),
    "scout.recon.scripts:_NEGATED": ("search", 500),
}
"""Those that would take the square of a text's length: how they are used, and the longest text that they get."""
GUARDS = {24: 0.0005, 45: 0.001, 70: 0.002, 90: 0.003, 120: 0.004, 300: 0.01, 2_000: 0.3}
"""Seconds that a short text may take. A longer one would never end if a short one takes so long."""
SIZE = 8_000
FLOOR_S = 0.004
"""Below this the clock says more than the pattern. The square of the size takes several times as long."""
FEW = 2
MANY = 60


@cache
def all_patterns() -> tuple[Used, ...]:
    return tuple(patterns_of_package())


def _matcher(used: Used) -> Callable[[str], None]:
    default = "match" if used.only_at_start else "search"
    method, longest = BOUNDED.get(used.where, (default, 4 * SIZE))

    def work(text: str) -> None:
        value: Any = (
            text[:longest].encode(errors="replace") if isinstance(used.pattern.pattern, bytes) else text[:longest]
        )
        if method == "search":
            for _ in used.pattern.finditer(value):
                pass
        else:
            used.pattern.match(value)
            used.pattern.fullmatch(value)

    return work


def _slowness(work: Callable[[str], None], make: Callable[[int], str]) -> str:
    """How much more a longer text takes, where that is far too much; empty: it is not."""
    for size, most_s in GUARDS.items():
        if cpu_seconds(work, make(size)) > most_s and (best := min(_tries(work, make(size)))) > most_s:
            return f"{best:.3f} s for {size} characters"
    small, large = make(SIZE), make(4 * SIZE)
    if (once := cpu_seconds(work, small)) < FLOOR_S:
        return ""
    if once > 2:
        return f"{once:.3f} s for {len(small)} characters"
    for _ in range(5):
        once, four_times = cpu_seconds(work, small), cpu_seconds(work, large)
        if four_times < 9 * max(once, FLOOR_S):
            return ""
    return f"{once:.3f} s for {len(small)} characters, {four_times:.3f} s for {len(large)}"


def _tries(work: Callable[[str], None], text: str) -> Iterator[float]:
    return (cpu_seconds(work, text) for _ in range(4))


def _find_slow(used: Used, most: int) -> str:
    work, known = _matcher(used), attacks(used.pattern)
    likeliest = known[: max(most, len(known) // 4)]
    for lead, unit, end in known if most >= len(known) else likeliest[:: len(likeliest) // most]:
        for shape in range(len(texts(lead, unit, end, 1))):
            if slowness := _slowness(work, lambda size: texts(lead, unit, end, size)[shape]):  # noqa: B023
                return f"{lead!r}, {unit!r}, {end!r}: {slowness}"
    return ""


@pytest.mark.parametrize("most", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
def test_every_pattern_takes_linear_time(most: int) -> None:
    found = {used.where: slowness for used in all_patterns() if (slowness := _find_slow(used, most))}
    assert not found


@pytest.mark.parametrize("pattern", [r"<!--.*?-->", r"at (?:\w*/{1,2})*\("])
def test_a_pattern_that_takes_the_square_is_found(pattern: str) -> None:
    assert _find_slow(Used("", re.compile(pattern, re.S | re.M), only_at_start=False), FEW)


# Functions

BASE: Any = SimpleNamespace(repo=PurePosixPath("/r"), tree=Path("/nowhere"), read=lambda path: b'"name": "shop"')
NAMES = frozenset(["shop", "x"])
FILES = frozenset(["shop.js", "shop.rb", "shop.rs", "Cargo.toml", "shop/a.go", "shop/Shop.java", "Shop.php"])
SCENE: Any = SimpleNamespace(
    files=FILES, read=lambda path: 'module shop\nname = "shop"\nclass X\nend\n', issue="", base=BASE
)


def _reply(text: str) -> Reply:
    return Reply(text=text, calls=(), usage=None, finish_reason="stop", model="m")


def _handoff(text: str) -> Handoff:
    return Handoff(
        files=(FileRef(path="a.py", why=text[:1_000]),),
        notes=text,
        reproduction=Reproduction(command="python a.py", claim=True, observed=text, files={"a.py": text}),
    )


def _parsed(text: str) -> object:
    try:
        return render(parse(text))
    except HandoffError:
        return None


def _stream(text: str) -> None:
    for api in APIS.values():
        stream = Stream(api, AnswerReader(), drop_usage=True)
        data = text.encode(errors="replace")
        for at in range(0, len(data), 997):
            stream.feed(data[at : at + 997])
        stream.flush()


def _compared(path: str) -> Callable[[str], object]:
    def work(text: str) -> object:
        found = compare([FileChange(old=path, new=path, section=text, before=text, after=text[1:])])
        return [*lost_tests(found), *new_skips(found)]

    return work


def _told(text: str) -> object:
    run: Any = SimpleNamespace(output=text[:20_000])
    scene: Any = SimpleNamespace(issue=text, sources=SimpleNamespace(all=("print(1)",)), belongs=lambda name: False)
    return reported_value(run, scene)


def _in_language(path: str) -> Callable[[str], object]:
    return lambda text: (
        lexical.repository_names(path, text, SCENE),
        lexical.replaces(path, text, SCENE),
        lexical.depends(text, text.count("\n"), NAMES),
        lexical.fails_on_purpose(text, 1),
    )


def _without_heredocs(text: str) -> object:
    return [*heredocs(text)], own_sources(Reproduction(command=text, files={"a.sh": text}), {})


READERS: dict[str, Callable[[str], object]] = {
    "read_mentions": read_mentions,
    "find_blocks": find_blocks,
    "read_session": read_session,
    "find_scripts": lambda text: find_scripts(text, {"shop": ""}, {"x": "from shop import x"}),
    "find_commands": lambda text: find_commands(text, {"shop": ""}, {"shop": "shop.cli"}, FILES),
    "find_programs": lambda text: find_programs(text, text, f"console_scripts{text}"),
    "find_exports": lambda text: find_exports({"shop": text}),
    "handoff": _parsed,
    "handoff files": lambda text: _parsed(f"<files>\n{text}\n</files>"),
    "handoff repro": lambda text: _parsed(f"<repro>\ncommand: {text}\n</repro>"),
    "neutralize": lambda text: remove_injections(_handoff(text)),
    "as_data": as_data,
    "strip": lambda text: strip(_handoff(text)),
    "overlap": lambda text: observation.overlap(text, text),
    "disagreement": lambda text: observation.disagreement(text, text),
    "reported": lambda text: observation.reported("ValueError", text, text),
    "reported_value": _told,
    "read_check": lambda text: read_check(text, {}),
    "heredocs": _without_heredocs,
    "simple_commands": lambda text: [*simple_commands(text)],
    "deciding_word": deciding_word,
    "read_examples": read_examples,
    "as_script": lambda text: as_script(text, is_module=False),
    "read_failures": read_failures,
    "decides_how": decides_how,
    **{f"lexical {path}": _in_language(path) for path in ("a.js", "a.go", "a.rs", "A.java", "a.rb", "A.php")},
    "read_pytest": lambda text: reports.read_pytest(f"== short test summary info ==\n{text}"),
    "read_unittest": reports.read_unittest,
    "read_tracebacks": reports.read_tracebacks,
    "read_junit": lambda text: reports.read_junit(f"<testsuite>{escape(text)}</testsuite>"),
    **{
        f"read_runner {end[:12]!r}": lambda text, end=end: reports.read_runner(f"TAP version 13\n{text}{end}")  # type: ignore[misc]
        for end in (
            "\ntest result: FAILED. 1 passed; 1 failed;\n",
            "\n--- FAIL: TestA\nFAIL\tpkg\n",
            "\n# pass 1\n# fail 1\n",
            "\nTests: 1 failed, 2 total\n",
            "\n Tests  1 failed (1)\n",
            "\n[ERROR] Tests run: 1, Failures: 1, Errors: 0, Skipped: 0\n",
            "\n1 tests completed, 1 failed\n",
            "\n1 example, 1 failure\n",
            "\nTests: 1, Assertions: 1, Failures: 1.\n",
            "\n    ^\n\nNode.js v20\n",
        )
    },
    **{
        f"{command!r} by name": lambda text, command=command: reports_by_name.read_printed(text, command)  # type: ignore[misc]
        for command in ("pytest", "go test", "cargo test", "python -m unittest", "jest", "node --test")
    },
    "read_documents": lambda text: reports_by_name.read_documents([text]),
    "read_python": read_python,
    "read_go": read_go,
    **{
        f"outline {name}": lambda text, name=name: [*outline(text, name)]
        for name in ("javascript", "java", "c", "rust")
    },  # type: ignore[misc]
    "read_symbols": lambda text: read_symbols(text.encode(errors="replace"), "component"),
    "count_words": count_words,
    **{f"dialect {name}": lambda text, name=name: dialect(name).parse(_reply(text)) for name in get_args(DialectName)},  # type: ignore[misc]
    "aloud": lambda text: (with_context(text), holds_handoff(text)),
    "drop_middle": drop_middle,
    "stream": _stream,
    "too_long": lambda text: too_long(400, text),
    "redact": lambda text: (redact(text), redact_command(text)),
    "redact_json": lambda text: (redact_json(json.dumps(text)), redact_dumped(json.dumps(text))),
    "count": count,
    "embed": lambda text: HashedEmbedder().embed([text]),
    "read_patch": lambda text: flags(read_patch(text)),
    **{f"compare {path}": _compared(path) for path in ("test_a.py", "a.test.js", "a_test.go", "src/a.rs", "a_spec.rb")},
    "parse_invocation": lambda text: parse_invocation(text),
    "forge words": lambda text: (plain(text, 1_000), code(text), block(text)),
    "diff": diff.show,
    "inline": inline,
    "issue_section": lambda text: (issue_section(text), names_in(text)),
    "coloured": lambda text: coloured("a.py", text.split("\n"), NAMES),
    "blocked_in": blocked_in,
    "issue_of": issue_of,
    "changed_files": lambda text: (changed_files(text), read_diff(text)),
    "clean": clean,
    "commanded": lambda text: commanded(text),
}
"""What reads a text of others'."""

FEW_UNITS = ("<!--", "```\n", '"', "a ", "\n", "a.a/")
UNITS = (
    *(">>> a\n", " ", "a(", "<function=a>\n"),
    *("<files>", "</files>\n", "<function=", "<parameter=a>", "</parameter>\n", "<think>", "<script>", "<a ", "&", "%"),
    *(
        "'",
        "\\",
        "(",
        "[",
        "{",
        "{{{\n",
        "[code]\n",
        "*",
        "_",
        "#",
        "# ",
        "\t",
        "\r",
        "\r\n",
        "/",
        "//",
        "/*",
        "*/",
        ".",
    ),
    *(
        "..",
        "-",
        "- ",
        "--",
        "|",
        "||",
        ":",
        "::",
        "@",
        "=",
        "==\n",
        ",",
        ";",
        "!",
        "$",
        "$(",
        "~",
        "^",
        ">",
        "<",
        "<<a\n",
    ),
    *("@@ -1 +1 @@\n", "diff --git a/a b/a\n", "--- a/a\n+++ b/a\n", "+a\n", "Traceback (most recent call last):\n"),
    *(
        '  File "a.py", line 1, in a\n',
        '  File "',
        "Expected:\n",
        "data: \n\n",
        'data: {"a": 1}\n\n',
        "E   a\n",
        "____ a ____\n",
    ),
    *(
        "0",
        "0.",
        "1 ",
        "a",
        "a.",
        "a_",
        "A",
        "Aa",
        "é",
        "a=",
        "a=1\n",
        '"a",',
        " a",
        "a\n",
        "  a\n",
        "a: ",
        "a, ",
        "`a` ",
        "``",
    ),
    *(
        "`a` should be `1`\n",
        "import a\n",
        "from a import b\n",
        "import a from 'a'\n",
        "use a::b;\n",
        "def a():\n",
        "class A:\n",
    ),
    *(
        "func a() {\n",
        "fn a() {\n",
        "function a() {\n",
        "if a; then\n",
        "exit $a\n",
        "python -c 'a'\n",
        "$ python a.py\n",
    ),
    *(
        "ok 1 - a\n",
        "not ok 1 - a\n",
        "--- FAIL: a\n",
        "--- FAIL: a/a\n",
        "=== RUN a\n",
        "  ● a\n",
        "---- a stdout ----\n",
    ),
    *(
        "test a ... ok\n",
        "FAILED a - b\n",
        "[ERROR] a(b) <<< FAILURE!\n",
        "  1) a\n",
        "✖ a\n",
        "\n  error: a\n",
        " at a/",
        "at //",
    ),
    *(
        "Error: ",
        "AError: a\n",
        "panicked at '",
        "[failed] a\n",
        "STOP\n",
        "command: a\n",
        "-----BEGIN RSA PRIVATE KEY-----",
        "sk-",
    ),
    *(
        "https://",
        "https://a:a@",
        "a@a",
        "a/a__a-1",
        "not ",
        "should ",
        "expect ",
        "please run ",
        "ignore your ",
        "(#1",
        "* fix\n",
    ),
    *("\n\n    a\n", ".. code::\n\n", "```a\n```\n", "$ a\n", "\0", "\x1b[0m", "\u2028", "\ufeff", "ſ", "\ud800"),
)
LEADS = (
    "",
    "a",
    "<!--",
    "```\n",
    '"',
    "'",
    "(",
    "<files>\n",
    "if ",
    "at ",
    "https://",
    "a:",
    "{",
    '  File "',
    "$(",
    "not ",
)
RUNS = (" ", "\n", "a", "0", "_", ".", "/", "\t", "-", "a ", "a.", "' ", "&& ", ")", "`", '"', "a\n", " \n")


@pytest.mark.parametrize("name", READERS)
def test_readers_take_linear_time(name: str) -> None:
    for unit in FEW_UNITS:
        assert_linear(READERS[name], unit, 5_000)


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_readers_take_linear_time_for_many_texts(name: str) -> None:
    for unit in UNITS:
        assert_linear(READERS[name], unit, 5_000)
    for lead in LEADS:
        for run in RUNS:
            assert_linear(READERS[name], lambda size: lead + run * (size // len(run)) + "\0", 5_000)  # noqa: B023
            assert_linear(READERS[name], lambda size: (lead + run) * (size // len(lead + run)), 5_000)  # noqa: B023
