"""Prints docs/commands.md: every command and option in the words of `--help`. `make docs` writes the page."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterator

import click

from scrout.cli.main import scrout

SHARED_BY = 4
"""An option that so many commands have, in the same words, is explained once."""

INTRO = """\
# Every command

`make docs` makes this page from `--help`. [cli.md](cli.md) says what all commands have in common: output, exit
codes and JSON.
"""


def commands(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """The root and every command that does something, by full name."""
    if name == "scrout" or not isinstance(command, click.Group) or command.invoke_without_command:
        yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            assert found is not None
            yield from commands(f"{name} {child}", found)


def options(name: str, command: click.Command) -> list[tuple[str, str]]:
    """The cells of each option's row; --help is in the root's table alone."""
    context = click.Context(command, help_option_names=["-h", "--help"])
    found = [one for one in command.get_params(context) if isinstance(one, click.Option)]
    return [(_names(one, context), _meaning(one, context)) for one in found if name == "scrout" or "-h" not in one.opts]


def _names(option: click.Option, context: click.Context) -> str:
    metavar = "" if option.is_flag else " " + option.make_metavar(context).replace(" RANGE", "")
    return _cell(", ".join(f"`{name}{metavar}`" for name in (*option.opts, *option.secondary_opts)))


def _meaning(option: click.Option, context: click.Context) -> str:
    extra = option.get_help_extra(context)
    sentences = [(option.help or "").strip()]
    sentences += ["Required."] if "required" in extra else []
    sentences += [f"Default: {extra['default'].strip('()')}."] if "default" in extra else []
    sentences += ["Can be repeated."] if option.multiple else []
    return _cell(" ".join(filter(None, sentences)))


def page() -> str:
    found = dict(commands("scrout", scrout))
    tables = {name: options(name, command) for name, command in found.items()}
    times = Counter(row for rows in tables.values() for row in rows)
    shared = [row for row, count in times.items() if count >= SHARED_BY]
    parts = [INTRO, "## Shared options\n", _table(shared)]
    for name, command in found.items():
        parts += [f"## `{name}`\n", *_help(command)]
        arguments = [one for one in command.params if isinstance(one, click.Argument) and one.metavar != ""]
        if arguments:
            metavars = ", ".join(f"`{one.make_metavar(click.Context(command))}`" for one in arguments)
            parts.append(f"Arguments: {metavars}.\n")
        own = [row for row in tables[name] if row not in shared]
        # Of those that are shared the names alone.
        others = ", ".join(re.sub(r" [^`]+`", "`", row[0]) for row in tables[name] if row in shared)
        parts.append(_table([*own, *([(others, "[Shared options](#shared-options).")] if others else [])]))
    return "\n".join(parts)


def _help(command: click.Command) -> Iterator[str]:
    """The paragraphs of the help, one line each. Click's mark \\b keeps a paragraph as it is."""
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith("\b"):
            yield f"```text\n{paragraph.removeprefix(chr(8)).strip()}\n```\n"
        else:
            yield " ".join(paragraph.split()) + "\n"


def _table(rows: list[tuple[str, str]]) -> str:
    return "".join(f"| {names} | {meaning} |\n" for names, meaning in [("Option", "Meaning"), ("---", "---"), *rows])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")
