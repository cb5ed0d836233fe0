"""Whether a failing line of a test in another language than Python depends on the repository. Read by its words alone.

There is no parser here and no witness. Names that a file imports from the repository are followed through assignments,
loops and calls, statement by statement; a block is what is indented deeper than the line above it. So code that is laid
out as formatters do is read well, other code badly, and what is not recognized counts as not depending. Like depends.py
this tells an honest check from `expect(1).toBe(2)`, not an author who means to deceive.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from scrout.gate.replay_context import ReplayContext

MAX_CHARS = 30_000
"""A longer file is not followed."""
MAX_STATEMENT_LINES = 20
MAX_LINE_CHARS = 300
"""Nobody writes longer ones by hand; they are not read, and cannot make reading slow."""
MAX_ROUNDS = 10
"""How far a name is followed."""
MAX_FILES = 500
"""Of the repository's files that are searched for definitions."""

_JS = ("js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx")
_JVM = ("java", "kt", "groovy", "scala")
_TEST_PATH = re.compile(
    r"(?:^|/)(?:tests?|specs?|__tests__)/|[._-](?:tests?|specs?)\.\w+$|(?:Tests?|IT|Spec)\.(?:java|kt|groovy|scala|php)$"
)
_JS_REQUIRE = re.compile(
    r"(?:const|let|var)\s+(\{[^{}]{0,2000}\}|[\w$]+)\s*=\s*(?:await\s+)?(?:require|import)\(\s*['\"]([^'\"\n]+)['\"]\s*\)"
)
_JS_IMPORT = re.compile(r"^[^\S\n]*+import\s++([^'\";]{1,2000}?)(?<=\S)\s++from\s++['\"]([^'\"\n]+)['\"]", re.M)
_JS_MOCK = re.compile(r"\b(?:jest|vi|mock)\.(?:do)?[mM]o(?:ck|dule)\(\s*['\"]([^'\"\n]+)['\"]")
_GO_IMPORTS = re.compile(r"^import\s*(?:\(([^()]*)\)|(.*))$", re.M)
_GO_IMPORT = re.compile(r"^[^\S\n]*+(?:([\w.]++)\s++)?\"([^\"\n]+)\"", re.M)
_GO_DEFINED = re.compile(r"^(?:func|type|var|const) (\w+)", re.M)
_RUST_USE = re.compile(r"^[^\S\n]*+(?:pub\s++)?(?:use|extern\s++crate)\s++(?:::)?(\w++)([^;]{0,2000}+);", re.M)
_RUST_PUBLIC = re.compile(
    r"^[^\S\n]*+pub (?:async |const |unsafe )*(?:fn|struct|enum|trait|const|static|type) (\w+)", re.M
)
_CRATE = re.compile(r"^name\s*=\s*\"([\w-]+)\"", re.M)
_JVM_IMPORT = re.compile(r"^import\s+(static\s+)?([\w.]+)", re.M)
_JVM_PACKAGE = re.compile(r"^package\s+([\w.]+)", re.M)
_RUBY_DEFINED = re.compile(r"^[^\S\n]*+(?:class|module)\s++(?:[A-Z]\w*+::)*([A-Z]\w*)", re.M)
_RUBY_DESCRIBED = re.compile(r"\bdescribe\(?\s*+((?:\w++::)*\w++)")
_RUBY_CORE = frozenset(["Array", "Class", "Error", "Hash", "Integer", "Kernel", "Module", "Object", "String", "Symbol"])
_PHP_USE = re.compile(r"^use\s+([\w\\]+)(?:\s+as\s+(\w+))?;", re.M)

_NOISE = re.compile(
    r"//[^\n]*|(?:(?<=\s)|^)#(?![\[!])[^\n]*|/\*[^*]{0,2000}\*/|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`[^`$]*`",
    re.S | re.M,
)
_OWN_OBJECT = re.compile(r"\b(?:this|self)\.|\$this->|@")
_WORD = re.compile(r"[A-Za-z_$][\w$]*")
_KEYWORDS = frozenset(["async", "await", "const", "final", "for", "if", "let", "mut", "ref", "val", "var"])
_ASSIGNED = re.compile(r"^(.*?[\w$)\]}>]\s*)(?::=|[-+*/%|&]?(?<![=!<>])=(?![=>~]))(.*)$", re.S)
_COLLECTED = re.compile(
    r"(?<![\w$])([\w$]++)(?:\.(?:push|append|add|insert|extend|put|set|unshift)\(|\s*+<<)(.*)", re.S
)
_ANNOTATION = re.compile(r":(?!=)[^,=)}\]]*")
_FOR = re.compile(r"\bfor\b")
_LOOP = re.compile(r"\s*+\(?(.*?)(?:\bof\b|\bin\b|\brange\b|:(?!=|:))(.*)", re.S)
_CLOSURE = re.compile(r"\|([^|\n]{1,100})\||\(?(?<![\w$, ])([\w$, ]++)\)?[^\S\n]*+=>")
_LET = re.compile(r"\b(?:let!?|subject!?)\(:(\w+)\)|\b(subject)\b\s*(?:\{|do)")
_FUNCTION = re.compile(
    r"\b(?:function|func|fn|def|fun)\s+([\w$]+)\s*\(([^()\n]*)\)|\b(?:const|let)\s+([\w$]+)\s*=\s*(?:async\s*)?\(([^()\n]*)\)\s*=>"
)
_CALL = re.compile(r"(?<![\w$.])([\w$]{1,100})\(")
_GUARD = re.compile(r"^\W*(?:else\s+)?(?:if|unless|elsif|elseif|for|foreach|while|switch|match|case|when)\b")
_SECOND_BRANCH = re.compile(r"^\W*(?:else|elsif|elseif|catch|rescue|when|case)\b")
# They fail whatever is in the parentheses behind them.
_FAILS = re.compile(
    r"\b(?:t|b)\.(?:Fatal|Error|Fail|Log)\w*\(|\b(?:panic|unreachable|todo|unimplemented)!|\bthrow\b|\bpanic\(|^\s*raise\b"
    r"|\b(?:assert\.fail|fail|unreachable)\(|\b(?:assert|ok|True|assertTrue|assertThat|expect)!?\(\s*(?:t,\s*)?(?:false|0|nil|null)\b"
)


def is_test_path(path: str) -> bool:
    """Whether a path looks like a test, in any language's habit."""
    return _TEST_PATH.search(path) is not None


def repository_names(path: str, text: str, replay_context: ReplayContext) -> frozenset[str]:
    """The names by which a file of the claim's knows code of the repository; none: it does not use any."""
    if len(text) > MAX_CHARS:
        return frozenset()
    suffix = path.rpartition(".")[2]
    if suffix in _JS:
        return frozenset(_js_names(path, text, replay_context))
    if suffix == "go":
        return frozenset(_go_names(path, text, replay_context))
    if suffix == "rs":
        return frozenset(_rust_names(text, replay_context))
    if suffix in _JVM:
        return frozenset(_jvm_names(text, replay_context))
    if suffix == "rb":
        return frozenset(_ruby_names(text, replay_context))
    if suffix == "php":
        return frozenset(_php_names(text, replay_context))
    return frozenset()


def replaces(path: str, text: str, replay_context: ReplayContext) -> str | None:
    """A module of the repository that a JavaScript test puts a mock in place of; None: none that can be seen."""
    specs = _JS_MOCK.findall(text) if path.rpartition(".")[2] in _JS else []
    return next((spec for spec in specs if _js_module(path, spec, replay_context)), None)


def depends(text: str, line: int, names: frozenset[str]) -> bool:
    """Whether the statement at a line fails, or runs at all, because of something that these names stand for."""
    lines = _clean(text)
    if not 1 <= line <= len(lines):
        return False
    held = _spread(lines, names)
    start, statement = _statement_at(lines, line - 1)
    if not _FAILS.search(statement) and _touches(statement, held):
        return True
    return any(_touches(guard, held) for guard in _guards(lines, start))


def fails_on_purpose(text: str, line: int) -> bool:
    """Whether the statement at a line can do nothing but fail."""
    lines = _clean(text)
    return 1 <= line <= len(lines) and _FAILS.search(_statement_at(lines, line - 1)[1]) is not None


def statement_at(text: str, line: int) -> str:
    """The code around a line, without strings and comments; empty: there is no such line."""
    lines = _clean(text)
    return _statement_at(lines, line - 1)[1] if 1 <= line <= len(lines) else ""


def _sources(replay_context: ReplayContext, suffixes: Iterable[str], under: str = "") -> Iterator[str]:
    endings = tuple(f".{suffix}" for suffix in suffixes)
    found = sorted(name for name in replay_context.files if name.endswith(endings) and name.startswith(under))
    yield from [name for name in found if not is_test_path(name)][:MAX_FILES]


def _bound(clause: str) -> Iterator[str]:
    """`{ a, b as c, d: e }`, `* as ns` and `name`: what a clause of an import gives to the code below."""
    for part in re.sub(r"[{}()*\s]+", " ", clause.replace("*", "")).split(","):
        words = _WORD.findall(part)
        if words and words[-1] not in ("type", "self", "_"):
            yield words[-1]


def _js_names(path: str, text: str, replay_context: ReplayContext) -> Iterator[str]:
    for clause, spec in (*_JS_REQUIRE.findall(text), *_JS_IMPORT.findall(text)):
        if _js_module(path, spec, replay_context):
            yield from _bound(clause)


def _js_module(path: str, spec: str, replay_context: ReplayContext) -> bool:
    if not spec.startswith("."):
        match = re.search(r"\"name\"\s*:\s*\"([^\"\n]+)\"", replay_context.read("package.json"))
        return match is not None and (spec == match[1] or spec.startswith(f"{match[1]}/"))
    target = posixpath.normpath(posixpath.join(posixpath.dirname(path), spec))
    stem = target.rpartition(".")[0] if target.rpartition(".")[2] in _JS else target
    shapes = {
        target,
        *(f"{base}{join}.{suffix}" for base in (target, stem) for join in ("", "/index") for suffix in _JS),
    }
    return any(shape in replay_context.files and not is_test_path(shape) for shape in shapes)


def _go_names(path: str, text: str, replay_context: ReplayContext) -> Iterator[str]:
    match = re.search(r"^module\s+(\S+)", replay_context.read("go.mod"), re.M)
    for block, single in _GO_IMPORTS.findall(text) if match else ():
        for alias, package in _GO_IMPORT.findall(block or single):
            if match and (package == match[1] or package.startswith(f"{match[1]}/")):
                parts = [part for part in package.split("/") if not re.fullmatch(r"v[0-9]+", part)]
                yield alias or parts[-1]
    if re.search(r"^package \w+(?<!_test)$", text, re.M):
        folder = PurePosixPath(path).parent
        for name in _sources(replay_context, ("go",)):
            if PurePosixPath(name).parent == folder:
                yield from _GO_DEFINED.findall(replay_context.read(name))


def _rust_names(text: str, replay_context: ReplayContext) -> Iterator[str]:
    manifests = [name for name in replay_context.files if PurePosixPath(name).name == "Cargo.toml"][:MAX_FILES]
    crates = {crate.replace("-", "_") for name in manifests for crate in _CRATE.findall(replay_context.read(name))}
    yield from (crate for crate in crates if re.search(rf"\b{crate}::", text))
    for crate, rest in _RUST_USE.findall(text):
        if crate in crates:
            yield from _bound(",".join(re.split(r"::|,", rest)))
            if "*" in rest:
                for name in _sources(replay_context, ("rs",)):
                    yield from _RUST_PUBLIC.findall(replay_context.read(name))


def _jvm_names(text: str, replay_context: ReplayContext) -> Iterator[str]:
    known = [PurePosixPath(name) for name in _sources(replay_context, _JVM)]
    for static, dotted in _JVM_IMPORT.findall(text):
        parts = dotted.strip(".").split(".")
        owner = parts[:-1] if static else parts
        if owner and any(path.with_suffix("").parts[-len(owner) :] == tuple(owner) for path in known):
            yield parts[-1]
    package = _JVM_PACKAGE.search(text)
    if package:
        folders = tuple(package[1].split("."))
        yield from (path.stem for path in known if path.parent.parts[-len(folders) :] == folders)


def _ruby_names(text: str, replay_context: ReplayContext) -> Iterator[str]:
    defined = {
        name for path in _sources(replay_context, ("rb",)) for name in _RUBY_DEFINED.findall(replay_context.read(path))
    }
    used = (defined - _RUBY_CORE) & set(_WORD.findall(_NOISE.sub(" ", text)))
    yield from used
    if any(not used.isdisjoint(described.split("::")) for described in _RUBY_DESCRIBED.findall(text)):
        yield from ("described_class", "subject")


def _php_names(text: str, replay_context: ReplayContext) -> Iterator[str]:
    known = {PurePosixPath(name).stem for name in _sources(replay_context, ("php",))}
    for qualified, alias in _PHP_USE.findall(text):
        name = qualified.rpartition("\\")[2]
        if name in known:
            yield alias or name


def _clean(text: str) -> list[str]:
    """The code's lines without comments and without what strings hold, so that a word in a message is no name."""
    if len(text) > MAX_CHARS:
        return []

    def blank(match: re.Match[str]) -> str:
        quoted = match[0][0] in "\"'`"
        return ('""' if quoted else "") + "\n" * match[0].count("\n")

    lines = [line if len(line) <= MAX_LINE_CHARS else "" for line in text.split("\n")]
    return [_OWN_OBJECT.sub("", line) for line in _NOISE.sub(blank, "\n".join(lines)).split("\n")]


def _statement_at(lines: list[str], index: int) -> tuple[int, str]:
    """The statement that a line is part of, and where it starts."""
    for start in range(max(0, index - MAX_STATEMENT_LINES), index + 1):
        end, statement = _statement(lines, start)
        if end >= index and (start == index or _open(lines[start]) > 0):
            return start, statement
    return index, lines[index]


def _statement(lines: list[str], start: int) -> tuple[int, str]:
    """Lines until brackets close; a block that opens ends it, since a test's body is an argument too."""
    depth = 0
    for end in range(start, min(len(lines), start + MAX_STATEMENT_LINES)):
        depth += _open(lines[end])
        if depth <= 0 or re.search(r"(?:\{|=>|\bdo(?:\s*\|[^|]*\|)?)\s*$", lines[end]):
            return end, "\n".join(lines[start : end + 1])
    return start, lines[start]


def _open(line: str) -> int:
    if re.search(r"(?:\{|=>|\bdo(?:\s*\|[^|]*\|)?)\s*$", line):
        return 0
    return sum(line.count(bracket) for bracket in "([") - sum(line.count(bracket) for bracket in ")]")


def _touches(code: str, held: frozenset[str] | set[str]) -> bool:
    """Whether code uses one of the names; `text.split()` does not use `split`."""
    return any(True for _ in _touching(code, held))


def _touching(code: str, held: frozenset[str] | set[str]) -> Iterator[re.Match[str]]:
    for match in _WORD.finditer(code):
        after_dot = code.endswith(".", 0, match.start()) and not code.endswith("..", 0, match.start())
        if match[0] in held and not after_dot:
            yield match


def _spread(lines: list[str], names: frozenset[str]) -> set[str]:
    """The names, and every name that is given something of theirs, without regard to order."""
    held = set(names)
    statements = [_statement(lines, start)[1] for start in range(len(lines)) if lines[start].strip()]
    parameters = {
        name or other: _WORD.findall(_ANNOTATION.sub("", given or arguments))
        for statement in statements
        for name, given, other, arguments in _FUNCTION.findall(statement)
    }
    for _ in range(MAX_ROUNDS):
        before = len(held)
        for statement in statements:
            held.update(word for word in _given(statement, held, parameters) if word not in _KEYWORDS)
        if len(held) == before:
            break
    return held


def _given(statement: str, held: set[str], parameters: dict[str, list[str]]) -> Iterator[str]:
    """Names that a statement gives something held to."""
    assigned = _ASSIGNED.match(statement)
    if assigned and _touches(assigned[2], held):
        left = _ANNOTATION.sub("", assigned[1])
        words = _WORD.findall(left)
        yield from words if re.search(r"[,{(\[]", left) else words[-1:]
    begun = _FOR.search(statement)
    loop = _LOOP.match(statement, begun.end()) if begun else None
    if loop and _touches(loop[2], held):
        yield from _WORD.findall(loop[1])
    collected = _COLLECTED.search(statement)
    if collected and _touches(collected[2], held):
        yield collected[1]
    if _touches(statement, held):
        for bars, arrow in _CLOSURE.findall(statement):
            yield from _WORD.findall(bars or arrow)
        for let, subject in _LET.findall(statement):
            yield let or subject
        if not _FUNCTION.search(statement):
            last = max((match.start() for match in _touching(statement, held)), default=0)
            for call in _CALL.finditer(statement):
                if call[1] in parameters and call.end() <= last:
                    yield from parameters[call[1]]


def _guards(lines: list[str], start: int) -> Iterator[str]:
    """The conditions that a line runs under: headers of the blocks around it, and what an error's handler waits for."""
    depth = _indent(lines[start])
    handled: int | None = None
    for index in range(start - 1, -1, -1):
        line = lines[index]
        if not line.strip():
            continue
        indent = _indent(line)
        if handled is not None and indent > handled:
            yield line  # between `try` and `catch`
            continue
        if indent >= depth:
            continue
        handled = None
        if _GUARD.search(line) or re.search(r"\bif\s*\(", line):
            yield _statement(lines, index)[1]
        if _SECOND_BRANCH.search(line):
            depth = indent + 1  # what it is the other branch of stands as deep as it does
            handled = indent if re.search(r"\b(?:catch|rescue)\b", line) else None
        else:
            depth = indent


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
