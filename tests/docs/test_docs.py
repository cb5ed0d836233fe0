"""The pages in docs/ against the code: commands, options, keys, defaults, verdicts, examples, snippets and links."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple, get_args

import click
import pytest
from click.testing import CliRunner
from pydantic import BaseModel, SecretStr
from pydantic_core import PydanticUndefined

from scrout.cli.doctor import DoctorReport
from scrout.cli.main import scrout as cli
from scrout.config.settings import FIXERS, Caller, Fixer, Settings
from scrout.ledger.audit import AuditReport
from scrout.money import Price
from scrout.records import (
    CheckOutcome,
    Decision,
    GatedHandoff,
    KeptVerdict,
    NothingVerdict,
    RejectedVerdict,
    Run,
    RunOutcome,
    Scouting,
    ScoutStop,
    Stop,
)
from scrout.sandbox.tier import Tier
from scrout.scout.recon.recon import SPACE, STATE_FEATURES
from scrout.scout.recon.signals import CLUE_KINDS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = {path.relative_to(DOCS).as_posix(): path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.md"))}
HELP = {"-h", "--help"}

_FENCED = re.compile(r"^(?P<fence>`{3,})(?P<language>\w*)\n(?P<body>.*?)^(?P=fence)$", re.M | re.S)
_HEADING = re.compile(r"^#{1,6} (.+)$", re.M)
_FIRST_CELL = re.compile(r"^\| (.+?) \|", re.M)
_CODE = re.compile(r"`([^`\n]+)`")


class Block(NamedTuple):
    page: str
    language: str
    body: str


def blocks(page: str, language: str) -> list[Block]:
    found = (Block(page, match["language"], match["body"]) for match in _FENCED.finditer(PAGES[page]))
    return [block for block in found if block.language == language]


def prose(page: str) -> str:
    return without_blocks(PAGES[page])


def without_blocks(text: str) -> str:
    """Without what is fenced."""
    return _FENCED.sub("", text)


def sections(page: str) -> dict[str, str]:
    """By heading, whatever its level; a heading's backticks left out."""
    # Blocks are taken out first: a comment in one looks like a heading.
    _, *parts = re.split(r"^#{1,6} (.+)$", prose(page), flags=re.M)
    return {name.replace("`", ""): body for name, body in zip(parts[::2], parts[1::2], strict=True)}


def rows(text: str) -> list[list[str]]:
    """The cells of a section's tables, headings and rules left out."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    headings = ("---", "Option", "Key", "Verdict", "Stop", "Outcome", "Code", "Clue", "Number")
    return [row for row in cells if row[0] not in headings]


def commands() -> dict[str, click.Command]:
    """Every command that does something, and the root, by its full name."""

    def walk(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
        if isinstance(command, click.Group):
            if command.invoke_without_command:
                yield name, command
            context = click.Context(command)
            for child in command.list_commands(context):
                found = command.get_command(context, child)
                assert found is not None
                yield from walk(f"{name} {child}", found)
        else:
            yield name, command

    return {"scrout": cli, **dict(walk("scrout", cli))}


def options(command: click.Command) -> set[str]:
    given = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    return {name for option in given for name in (*option.opts, *option.secondary_opts)}


COMMANDS = commands()


# The command line


def test_the_page_of_commands_is_what_help_says() -> None:
    """Run `make docs` if it differs."""
    made = subprocess.run(
        [sys.executable, "scripts/commands_page.py"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert made.stdout == PAGES["commands.md"]


def test_every_command_has_a_section_and_every_section_a_command() -> None:
    documented = {name for name in sections("commands.md") if name == "scrout" or name.startswith("scrout ")}
    assert documented == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_commands_table_has_its_options_and_no_others(name: str) -> None:
    cells = [row[0] for row in rows(sections("commands.md")[name])]
    documented = {code.split()[0] for cell in cells for code in _CODE.findall(cell)}
    assert documented == options(COMMANDS[name]) | (HELP if name == "scrout" else set())


def test_arguments_are_named() -> None:
    for name, command in COMMANDS.items():
        for parameter in command.params:
            if isinstance(parameter, click.Argument) and parameter.metavar:
                assert f"`{parameter.metavar}`" in sections("commands.md")[name]


def test_required_options_say_so_and_others_do_not() -> None:
    for name, command in COMMANDS.items():
        required = {p.opts[0] for p in command.params if isinstance(p, click.Option) and p.required}
        told = {
            _CODE.findall(row[0])[0].split()[0] for row in rows(sections("commands.md")[name]) if "Required." in row[1]
        }
        assert told == required, name


@pytest.mark.parametrize("page", PAGES)
def test_commands_in_shell_blocks_exist_with_their_options(page: str) -> None:
    for block in blocks(page, "sh"):
        for line in block.body.splitlines():
            words = shlex.split(line.partition("|")[0])
            if words[:1] == ["scrout"]:
                _assert_real(words)


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_options_in_prose_exist(page: str) -> None:
    anywhere = set().union(*(options(command) for command in COMMANDS.values())) | HELP
    for code in _CODE.findall(prose(page)):
        words = code.split()
        if words[0] == "scrout" and len(words) > 1:
            _assert_real(words)
        # Another program's options are quoted with a value of theirs, ours alone or with a placeholder.
        elif words[0].startswith("--") and "=" not in code:
            assert words[0] in anywhere, code


def _assert_real(words: list[str]) -> None:
    name = next((n for n in (" ".join(words[:3]), " ".join(words[:2]), words[0]) if n in COMMANDS), "")
    assert name != "scrout" or words[1].startswith("-"), f"there is no command {' '.join(words)!r}"
    known = options(COMMANDS[name]) | HELP
    unknown = [word for word in words if word.startswith("-") and word != "-" and word not in known]
    assert not unknown, f"{' '.join(words)!r}: {unknown}"


def test_exit_codes_are_documented() -> None:
    assert {row[0] for row in rows(sections("cli.md")["Exit codes"])} == {"0", "1", "2", "130"}


def json_examples() -> dict[str, object]:
    """One for each command that has one; a part that says `see` another's example is that example."""
    examples: dict[str, object] = {}
    parts = re.split(r"^### `(.+)`$", PAGES["cli.md"], flags=re.M)[1:]
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        for match in _FENCED.finditer(body):
            if match["language"] == "json":
                examples[name] = json.loads(match["body"])
    run = examples["scrout fix"]
    assert isinstance(run, dict)
    for field, value in run.items():
        if isinstance(value, str) and value.startswith("see "):
            run[field] = examples[value.removeprefix("see ").strip("`")]
    return examples


RECORDS: dict[str, type[BaseModel]] = {
    "scrout fix": Run,
    "scrout scout": Scouting,
    "scrout gate": GatedHandoff,
    "scrout route": Decision,
    "scrout ledger audit": AuditReport,
    "scrout doctor": DoctorReport,
}


@pytest.mark.parametrize("name", RECORDS)
def test_json_examples_are_what_the_command_would_print(name: str) -> None:
    """Read as the record and written again, an example is the same: no field is missing, wrong or invented."""
    example = json_examples()[name]
    assert json.loads(RECORDS[name].model_validate(example).model_dump_json()) == example


def test_every_json_example_is_checked() -> None:
    assert set(json_examples()) == set(RECORDS)


# Configuration


def tables() -> dict[str, type[BaseModel]]:
    """The section of configuration.md for each table of scrout.toml."""

    def walk(prefix: str, table: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
        for name, field in table.model_fields.items():
            if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
                yield f"[{prefix}{name}]", field.annotation
                yield from walk(f"{prefix}{name}.", field.annotation)

    kinds = {name: FIXERS.get(name) for name in FIXERS.names()}
    own = {name: kind for name, kind in kinds.items() if kind.model_fields.keys() > Fixer.model_fields.keys()}
    return {"[[fixers]]": Fixer, **own, "price": Price, "[[api.callers]]": Caller, **dict(walk("", Settings))}


def test_every_table_has_a_section_and_no_other_does() -> None:
    documented = {name for name in sections("configuration.md") if name.startswith("[") or name == "price"}
    assert documented == {name for name in tables() if name not in FIXERS.names()}
    assert {name.strip("[]").split(".")[0] for name in documented} - {"price"} == set(Settings.model_fields)


@pytest.mark.parametrize("table", tables())
def test_every_key_has_its_default(table: str) -> None:
    documented = {row[0].strip("`"): row[1].strip("`") for row in rows(sections("configuration.md")[table])}
    shared = Fixer.model_fields if table in FIXERS.names() else {}
    fields = {name: field for name, field in tables()[table].model_fields.items() if name not in shared}
    nested = {name.strip("[]").rpartition(".")[2] for name in tables() if name.startswith(f"{table[:-1]}.")}
    assert set(documented) == set(fields) - nested
    for key, told in documented.items():
        default = fields[key].default
        if told == "required":
            assert default is PydanticUndefined, key
        elif told == "none":
            assert default is None, key
        else:
            assert tomllib.loads(f"value = {told}", parse_float=Decimal)["value"] == _exact(default), key


def _exact(value: object) -> object:
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return Decimal(str(value)) if isinstance(value, float) else value


@pytest.mark.parametrize("block", [block for page in PAGES for block in blocks(page, "toml")])
def test_toml_blocks_are_settings(block: Block) -> None:
    Settings.model_validate(tomllib.loads(block.body))


# How it works


def test_every_verdict_is_explained_and_kept_ones_say_so() -> None:
    told = {row[0].strip("`"): row[1] for row in rows(sections("research/how-it-works.md")["Gate"])}
    kept = dict.fromkeys(get_args(KeptVerdict), "yes")
    lost = dict.fromkeys((*get_args(RejectedVerdict), *get_args(NothingVerdict)), "no")
    assert told == kept | lost


def test_every_stop_and_outcome_is_explained() -> None:
    for section, stop in (("Scout", ScoutStop), ("Fix", Stop)):
        assert {row[0].strip("`") for row in rows(sections("research/how-it-works.md")[section])} == set(get_args(stop))
    outcomes = {row[0].strip("`") for row in rows(sections("research/how-it-works.md")["Check"])}
    assert outcomes == set(get_args(CheckOutcome)) | set(get_args(RunOutcome))


def test_the_map_has_a_line_for_each_package() -> None:
    texts = (block.body for block in blocks("research/how-it-works.md", "text"))
    map_ = next(text for text in texts if text.startswith("src/scrout/"))
    package = ROOT / "src" / "scrout"
    here = [f"{path.name}/" for path in package.iterdir() if path.is_dir() and path.name != "__pycache__"]
    assert sorted(re.findall(r"^  (\S+/) +\S", map_, re.M)) == sorted(here)


# Recon


def test_kinds_of_clues_and_the_state_are_explained_in_their_order() -> None:
    kinds = [row[0].strip("`") for row in rows(sections("research/recon.md")["What it looks at"])]
    assert kinds == list(CLUE_KINDS)
    state = sections("research/recon.md")["The state"]
    told = [row[0].strip("`") for row in rows(state)]
    here = told.index("has_*")
    told[here : here + 1] = [f"has_{kind}" for kind in kinds]
    assert told == list(STATE_FEATURES) and f"`{SPACE}`" in state


# Snippets and links


def test_python_snippets_run(tier: Tier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, in one namespace, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "snippet"}
    snippets = blocks("python-api.md", "python")
    assert snippets
    for snippet in snippets:
        exec(compile(snippet.body, "docs/python-api.md", "exec"), namespace)


def test_public_names_are_documented() -> None:
    import scrout

    cells = _FIRST_CELL.findall(prose("python-api.md"))
    documented = {re.split(r"\W", code)[0] for cell in cells for code in _CODE.findall(cell)}
    assert documented == set(scrout.__all__)


@pytest.mark.parametrize("page", PAGES)
def test_relative_links_resolve(page: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        path = (DOCS / page).parent.joinpath(name).resolve() if name else DOCS / page
        assert path.exists(), f"{page} links to {target}"
        if anchor:
            headings = _HEADING.findall(without_blocks(path.read_text(encoding="utf-8")))
            assert anchor in map(_slug, headings), f"{page}: {target}"


def test_the_index_has_each_page_once() -> None:
    linked = re.findall(r"\]\(([\w/-]+\.md)\)", PAGES["README.md"])
    assert sorted(linked) == sorted(PAGES.keys() - {"README.md"})


def _slug(heading: str) -> str:
    """A heading's anchor, as renderers of Markdown make it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


# The help of each command


HELPS = [name for name in COMMANDS if name != "scrout study"]
"""Its example is in docs/research/studies.md, one for each study."""


@pytest.mark.parametrize("name", HELPS)
def test_help_fits_one_screen_and_starts_with_an_example(name: str) -> None:
    shown = CliRunner().invoke(cli, [*name.split()[1:], "--help"], prog_name="scrout", terminal_width=80).output
    usage, _, first, *rest = shown.splitlines()
    assert usage.startswith("Usage: scrout") and len(rest) <= 37
    assert first.startswith("  Example: scrout ")
    if name != "scrout":
        _assert_real(shlex.split(first.removeprefix("  Example:")))
