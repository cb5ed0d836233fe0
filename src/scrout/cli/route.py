"""`scrout route`: the decision alone, without running anything."""

from __future__ import annotations

from pathlib import Path

import click
from pydantic import ValidationError

from scrout.base import RouteError, first_problem
from scrout.cli import options, render
from scrout.fix.pool import completed
from scrout.pipeline import router
from scrout.records import Scouting, State


@click.command(name="route")
@options.issue
@click.option("--scouting", "scouting_file", help="Output of `scrout scout --json` for this issue.")
@click.option(
    "--explain",
    "explained",
    is_flag=True,
    help="Show the task's difficulty, the reasons for the decision, and what would change it.",
)
@options.goal
@options.common
def command(repo: Path, issue_source: str, scouting_file: str | None, explained: bool, as_json: bool) -> int:
    """Example: scrout route --issue bug.md --explain

    Choose the fixer for an issue, and say why the others lost. It runs nothing and pays no fixer.

    With --explain or policy paper, an embedder behind an endpoint may bill for the issue's text.
    """
    settings = completed(options.read_settings(repo), render.say)
    if scouting_file == issue_source == "-":
        raise RouteError("--scouting - and --issue - cannot both read standard input. Put one of them into a file.")
    text = options.read_issue(issue_source, repo)
    state = _state(scouting_file) if scouting_file else None
    judge = router(settings)
    if explained:
        from scrout.route.explain import explain

        found = explain(judge, text, state)
        if as_json:
            render.print_json(found)
            return 0
        render.talk.print(render.explanation(found))
        made, sharper = found.decision, found.wants_state
    else:
        made = judge.route(text, state)
        if as_json:
            render.print_json(made)
            return 0
        render.talk.print(render.decision(made))
        sharper = state is None and len(settings.fixers) > 1 and judge.look(text, state).takes_state
    if sharper and not scouting_file:
        render.say(
            "note: this goes by the issue's text alone. A scouting would sharpen it: `scrout scout --issue FILE --json "
            "> scouting.json`, then `scrout route --issue FILE --scouting scouting.json`."
        )
    render.print_text(f"{made.fixer}\n")
    return 0


def _state(scouting_file: str) -> State | None:
    raw = options.read_file(scouting_file, "scouting")
    try:
        return Scouting.model_validate_json(raw).state
    except ValidationError as error:
        raise RouteError(
            f"--scouting {scouting_file} is not the output of a scouting ({first_problem(error)}). "
            "Make one with `scrout scout --json`."
        ) from None
