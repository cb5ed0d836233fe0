"""Command groups. A help page starts with an example; the list of commands shows the line after it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from textwrap import shorten
from typing import Any

import click


class _Command(click.Command):
    def get_short_help_str(self, limit: int = 45) -> str:
        _, _, about = (self.help or "").partition("\n\n")
        return shorten(f"{about.partition('. ')[0].rstrip('.')}.", limit, placeholder="...")


class CommandGroup(click.Group):
    """A group whose commands are defined in one module."""

    command_class = _Command


class LazyGroup(click.Group):
    """Commands are imported one at a time, so that `scrout --version` imports none.

    `sections` names the commands of a package and says what each does. Each module defines its command as `command`.
    """

    def __init__(self, *, package: str, sections: Mapping[str, Mapping[str, str]], **given: Any) -> None:
        super().__init__(**given)
        self._package = package
        self._sections = sections

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for commands in self._sections.values() for name in commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command = import_module(f"{self._package}.{cmd_name.replace('-', '_')}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, self.list_commands(ctx)))
        for title, commands in self._sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(widest), about) for name, about in commands.items()])
