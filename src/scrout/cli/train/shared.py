"""Shared code of `scrout train`: options, task files, and output of results."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from pydantic import BaseModel
from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from scrout.cli import options, render

if TYPE_CHECKING:
    from scrout.batch.repositories import Repositories
    from scrout.batch.task_formats import TaskRow
    from scrout.batch.tasks import UnusableRow
    from scrout.config.settings import Settings

F = TypeVar("F", bound=Callable[..., object])

PATH = click.Path(path_type=Path)
out = click.option("--out", required=True, type=PATH, metavar="DIR", help="Folder of the result.")
parallel = click.option(
    "--parallel", type=click.IntRange(1, 512), default=2, show_default=True, help="Tasks at the same time."
)


@dataclass(frozen=True)
class TaskInputs:
    """A task file, and the repositories and settings for its tasks."""

    rows: tuple[TaskRow, ...]
    unusable: tuple[UnusableRow, ...]
    repositories: Repositories
    settings: Settings


def tasks(*, searcher: str = "") -> Callable[[F], F]:
    """--repos, --repo-url and the configuration.

    The command calls its argument `inputs` with a task file. `searcher` overrides scout.searcher for this command;
    empty: unchanged.
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def command(*, repos: tuple[Path, ...], repo_url: str, **given: Any) -> object:
            from scrout.batch.tasks import Repositories, read_tasks

            def read(file: Path) -> TaskInputs:
                found = read_tasks(file)
                settings = options.read_settings(Path(), *([f"scout.searcher={searcher}"] if searcher else []))
                return TaskInputs(found.rows, found.problems, Repositories(repos, repo_url), settings)

            return function(read=read, **given)

        decorated: Any = options.clones(options.configuration(command))
        return decorated  # type: ignore[no-any-return]

    return decorate


def recipe(function: F) -> F:
    """--recipe and -s, which `read_recipe` reads."""
    change = click.option("-s", "changes", multiple=True, metavar="KEY=VALUE", help="Change one key of the recipe.")
    source = click.option("--recipe", default="", metavar="NAME|FILE", help="A preset, or a TOML file of settings.")
    return source(change(function))


def show(result: BaseModel, view: Callable[[], RenderableType], *, as_json: bool) -> None:
    if as_json:
        render.print_json(result)
    else:
        render.print_view(view())


def facts(rows: Iterable[Sequence[str]], columns: Sequence[str] = ("", "")) -> Table:
    """A table of names and values."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_header=any(columns))
    for number, name in enumerate(columns):
        table.add_column(Text(render.inert(name)), justify="right" if number else "left")
    for row in rows:
        table.add_row(*(Text(render.inert(cell)) for cell in row))
    return table
