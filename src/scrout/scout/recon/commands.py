"""Commands that an issue shows at a prompt and that may be run: the repository's own programs, and test runners.

The text is hostile, so a command is one simple command of a short list, taken apart and quoted anew word by word: no
operator, variable or substitution of the text reaches a shell. Nothing runs here.
"""

from __future__ import annotations

import configparser
import re
import shlex
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, pairwise

from scrout.files import read_toml
from scrout.scout.recon.blocks import Block, find_blocks, segments

MAX_COMMANDS = 3
_MOST_LINES = 200
_MOST_FILE_CHARS = 65_536

_SHELL_TAGS = ("sh", "bash", "shell", "console", "shell-session", "zsh")
_FILE_NAME = r"((?:[\w-]+/){0,5}[\w-]+(?:\.[\w-]+){1,3})"
_NAMED_ABOVE = re.compile(rf"(?:^|[\s`*\"'(]){_FILE_NAME}[`*\"')]*[ \t]*:?[`*]*$")
_NAMED_INSIDE = re.compile(rf"^(?:#|//)[ \t]*+(?:file(?:name)?:[ \t]*+)?{_FILE_NAME}[ \t]*+:?[ \t]*+\n", re.I)
_NAMED_IN = re.compile(rf"(?<![\w/])[`\"']{_FILE_NAME}[`\"']")
_MAKES_FILE = re.compile(r"\b(?:creat\w+|sav\w+|put|writ\w+|contain\w*|contents?|being|has)\b", re.I)
"""In the line above a block that shows the one file which the line names."""
_READ = re.compile(
    r"\b(?:open|read_text|load|read|parse|from_file)\(\s{0,4}[\"']([\w-]{1,80}\.[A-Za-z]\w{0,7})[\"']\s{0,4}\)"
)
_RESULT = re.compile(r"\b(?:outputs?|expected|actual|got|results?|prints?|should|becomes?|gives?)\b", re.I)
"""Above a block that shows what came out."""
_SCRIPT = re.compile(r"[\"']([\w.-]{1,60})\s{0,9}=\s{0,9}([\w.]{1,100}):\w")
"""An entry point, as setup.py gives it."""
_CAT = re.compile(rf"(?:cat|less|more) {_FILE_NAME}")
_ELSE_PROMPT = re.compile(r"^(?:>>>|[#%>] )", re.M)
_BACKTICKS = re.compile(r"(?<!`)`([\w./-]{1,60} [^`\n]{1,300})`(?!`)")
_SHELL_PROMPT = re.compile(r"[^'\"|$\u276f]{0,80}[$\u276f] (.*)")
_MOST_QUOTED = 5
_MOST_BARE = 3
"""Lines of a block without a language in which commands need no prompt."""
_LANGUAGES = {
    "py": ("python", "py3", "python3"),
    "yml": ("yaml",),
    "yaml": ("yml",),
    "md": ("markdown",),
    "cfg": ("ini",),
    "toml": ("ini",),
    "htm": ("html",),
    "h": ("c",),
    "js": ("javascript",),
}
"""What a block may be tagged with, by the ending of a file."""
_IMPORTED = re.compile(r"^[ \t]*(?:from|import)[ \t]+(\w+)", re.M)
_LIKE_FILE = re.compile(r"(?:\.{0,2}|~)/[\w./-]*|[\w.-]+/|[\w./-]*\w\.[A-Za-z]\w{0,7}")
_MAKES = ("out", "save", "dest", "target", "export", "report", "log", "write", "dump")
"""How a part of an option's name begins whose value is what a command writes."""
_INTERPRETER = re.compile(r"^python[0-9.]*$")
_ASKS_ABOUT = ("--version", "-V", "--help", "-h")
"""What ends a command that says nothing of a bug."""
_TEST_RUNNERS = (("go", "test"), ("cargo", "test"), ("node", "--test"))


@dataclass(frozen=True)
class TypedCommand:
    """A command that the issue shows."""

    command: str
    root: str
    """Folder that has to be on Python's path; empty: the repository's root is enough."""
    files: Mapping[str, str] = field(default_factory=dict)
    """What the issue shows of the files that the command names."""
    inputs: tuple[str, ...] = ()
    """Files that it seems to read and that the issue does not show, as it names them."""
    is_mentioned: bool = False
    """Whether it stands in a sentence, which may praise it."""


def find_commands(
    text: str, top_levels: Mapping[str, str], programs: Mapping[str, str], repository_files: Collection[str]
) -> tuple[TypedCommand, ...]:
    """Commands in the order of the text, those that may lack a file last.

    `programs` has the module of each program that the repository installs.
    """
    blocks = find_blocks(text)
    shown = _files(blocks, repository_files)
    known = {*repository_files, *shown}
    found: dict[str, TypedCommand] = {}
    typed = [line for block in blocks for line in _typed(block)][:_MOST_LINES]
    for number, line in enumerate(chain(typed, islice(_quoted(text), _MOST_LINES))):
        piped, words = _piped(_words(line, "|"))
        command = _allowed(words, top_levels, programs, known)
        if command:
            files = {name: shown[name] for word in command if (name := word.removeprefix("./")) in shown}
            inputs = tuple(_inputs(command, known))
            code = _unnamed(blocks, inputs[0], top_levels) if len(inputs) == 1 else ""
            if code and _may_be_written(name := inputs[0].removeprefix("./"), repository_files):
                files, inputs = {**files, name: code}, ()
            modules = [word.partition(".")[0] for word in command]
            modules += [module for code in files.values() for module in _IMPORTED.findall(code)]
            root = max((top_levels.get(module, "") for module in modules), default="")
            quoted = f"{piped}{shlex.join(command)}"
            found.setdefault(quoted, TypedCommand(quoted, root, files, inputs, number >= len(typed)))
    return tuple(sorted(found.values(), key=lambda typed: bool(typed.inputs)))[:MAX_COMMANDS]


def find_files(
    text: str, source: str, repository_files: Collection[str], top_levels: Mapping[str, str]
) -> dict[str, str]:
    """The files that an issue shows and that a script of it names."""
    blocks = find_blocks(text)
    shown = _files(blocks, repository_files)
    imported = {f"{module}.py" for module in _IMPORTED.findall(source)}
    found = {
        name: code
        for name, code in shown.items()
        if code.strip() != source.strip() and (name in imported or f'{name}"' in source or f"{name}'" in source)
    }
    read = {name for name in _READ.findall(source) if name not in repository_files and name not in found}
    name = read.pop() if len(read) == 1 else ""
    code = _unnamed(blocks, name, top_levels) if _may_be_written(name, repository_files) else ""
    return {**found, name: code} if code else found


def _files(blocks: Sequence[Block], repository_files: Collection[str]) -> dict[str, str]:
    named = {name: code for block in blocks for name, code in _shown(block)}
    named |= {name: block.code for block in blocks if (name := _name(block))}
    return {name: code for name, code in named.items() if _may_be_written(name, repository_files)}


def _unnamed(blocks: Sequence[Block], name: str, top_levels: Mapping[str, str]) -> str:
    """What a report shows without its name of the one file that is missing: the only block in the file's language that
    is no code of the project's users; empty: there are none, or several."""
    ending = name.rpartition(".")[2].lower()
    tags = (ending, *_LANGUAGES.get(ending, ())) if ending else ()
    found = {
        block.code
        for block in blocks
        if block.tag in tags
        and not (_name(block) or _RESULT.search(block.above))
        and not any(module in top_levels for module in _IMPORTED.findall(block.code))
    }
    return found.pop() if len(found) == 1 else ""


def _shown(block: Block) -> Iterator[tuple[str, str]]:
    """The files that a shell session shows: `$ cat setup.cfg`, with what stands below it up to the next prompt."""
    for part in f"\n{block.code}".split("\n$ ")[1:]:
        line, _, code = part.partition("\n")
        if (shown := _CAT.fullmatch(line.strip())) and code.strip() and not _ELSE_PROMPT.search(code):
            yield shown[1], f"{code}\n"


def _quoted(text: str) -> Iterator[str]:
    """Commands that sentences have between backticks."""
    for line in segments(text):
        yield from (code for code in islice(_BACKTICKS.findall(line), _MOST_QUOTED)) if isinstance(line, str) else ()


def _piped(words: list[str]) -> tuple[str, list[str]]:
    """What is echoed into a command, and that command: `echo 'a' | till -`."""
    if "|" not in words:
        return "", words
    at = words.index("|")
    echoed, command = words[1:at], words[at + 1 :]
    if words[0] != "echo" or "|" in command or any(word.startswith("-") and word != "-n" for word in echoed[:1]):
        return "", []
    end = "" if echoed[:1] == ["-n"] else "\n"
    said = " ".join(echoed[1:] if echoed[:1] == ["-n"] else echoed)
    return f"printf %s {shlex.quote(said + end)} | ", command


def find_programs(pyproject: str, setup_cfg: str, setup_py: str = "") -> dict[str, str]:
    """The module behind each program that a Python project installs."""
    found = dict(_SCRIPT.findall(setup_py)) if "console_scripts" in setup_py else {}
    try:
        declared = read_toml(pyproject)
        tables = (declared.get("project", {}).get("scripts"), declared.get("tool", {}).get("poetry", {}).get("scripts"))
        for table in tables:
            found |= {name: module for name, module in (table or {}).items() if isinstance(module, str)}
    except (ValueError, AttributeError):
        pass  # the repository's own file is broken, or not what it is for others
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(setup_cfg)
        for line in parser.get("options.entry_points", "console_scripts", fallback="").splitlines():
            name, _, module = line.partition("=")
            found[name.strip()] = module.strip()
    except configparser.Error:
        pass
    return {name: module.partition(":")[0] for name, module in found.items() if re.fullmatch(r"[\w.-]+", name)}


def inline_python(block: Block) -> Iterator[str]:
    """What a block's commands give to `python -c`."""
    for line in islice(_typed(block), _MOST_LINES):
        words = _words(line)
        if len(words) == 3 and _INTERPRETER.match(words[0]) and words[1] == "-c":
            yield f"{words[2]}\n"


def _typed(block: Block) -> Iterator[str]:
    """The commands of a shell session; a block that says it is shell may do without a prompt."""
    lines = [line.strip() for line in block.code.splitlines()]
    prompted = [prompt[1] for line in lines if (prompt := _SHELL_PROMPT.match(line))]
    is_shell = block.tag in _SHELL_TAGS or (not block.tag and len(lines) <= _MOST_BARE)
    yield from prompted or (lines if is_shell else ())


def _words(line: str, operators: str = "") -> list[str]:
    """The words of one simple command, and the `operators` between them; empty: it is none."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = "#"
    try:
        words = list(lexer)
    except ValueError:
        return []
    operator = any(word and word not in operators and not word.strip("();<>|&") for word in words)
    return [] if operator or "\0" in line else words


def _allowed(
    words: list[str], top_levels: Mapping[str, str], programs: Mapping[str, str], known: Collection[str]
) -> list[str]:
    """The command as it is to be run; empty: it is not one of those that may be."""
    if words[:1] in (["pytest"], ["py.test"]):
        words = ["python", "-m", "pytest", *words[1:]]
    if tuple(words[:2]) in _TEST_RUNNERS:
        return words
    if words[-1:] and words[-1] in _ASKS_ABOUT:
        return []
    if words and words[0] in programs:
        module = programs[words[0]].partition(".")[0]
        main = f"{top_levels.get(module, '')}/{module}/__main__.py".lstrip("/")
        return ["python", "-m", module, *words[1:]] if main in known else words
    if len(words) < 2 or not _INTERPRETER.match(words[0]):
        return []
    if words[1] != "-m":
        script = words[1].removeprefix("./")
        may_run = script in known and script != "setup.py"
    elif words[2:3] in (["pytest"], ["unittest"]):
        # Without a place it would be the whole suite.
        may_run = any(_is_place(word, known) for word in words[3:])
    else:
        may_run = len(words) > 2 and words[2].partition(".")[0] in top_levels
    return ["python", *words[1:]] if may_run else []


def _inputs(command: Sequence[str], known: Collection[str]) -> Iterator[str]:
    """The words of a command that look like a file to be read, and are none that is known."""
    if tuple(command[:2]) in _TEST_RUNNERS:
        return  # they say themselves which of their places do not exist
    start = 1 if command[0] != "python" else 3 if command[1] == "-m" else 2
    for before, word in pairwise(command[start - 1 :]):
        option, _, value = word.rpartition("=")
        name = value.partition("::")[0]
        if (
            not word.startswith("-o")
            and not _makes(option or before)
            and _LIKE_FILE.fullmatch(name)
            and not _is_place(name, known)
        ):
            yield name


def _makes(option: str) -> bool:
    parts = option.removeprefix("--").split("-") if option.startswith("--") else ()
    return option == "-o" or any(part.startswith(_MAKES) for part in parts)


def _is_place(word: str, known: Collection[str]) -> bool:
    """Whether a word names a file, or something in a module: `tests.test_a.Case.test_b`."""
    parts = word.split(".")
    modules = (parts[: len(parts) - inside] for inside in range(3))
    return word.partition("::")[0].removeprefix("./") in known or any(f"{'/'.join(m)}.py" in known for m in modules)


def _name(block: Block) -> str:
    """The file that a block shows, by the name right above it or in its first line; empty: it names none."""
    match = _NAMED_INSIDE.match(block.code) or _NAMED_ABOVE.search(block.above[-200:])
    if match is None and _MAKES_FILE.search(block.above[-200:]):
        named = list(_NAMED_IN.finditer(block.above[-200:]))
        match = named[0] if len(named) == 1 else None
    return match[1] if match and len(block.code) <= _MOST_FILE_CHARS else ""


def _may_be_written(name: str, repository_files: Collection[str]) -> bool:
    """Nothing takes the place of a file of the repository's, or of a module of Python's."""
    stem = name.rpartition("/")[2].partition(".")[0]
    return name not in repository_files and not (name.endswith(".py") and stem in sys.stdlib_module_names)
