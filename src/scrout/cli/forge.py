"""`scrout forge`: a label on GitHub or GitLab becomes a comment or a pull request, in three steps."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from scrout.cli import options, render
from scrout.cli.groups import CommandGroup
from scrout.files import write_plain

if TYPE_CHECKING:
    from scrout.integrations.admission import OpenBudget
    from scrout.integrations.budget import DailyBudget
    from scrout.integrations.ci_environment import CiEnvironment
    from scrout.integrations.event import Event
    from scrout.integrations.publish import OpenRemote

F = TypeVar("F", bound=Callable[..., object])

_event = click.option(
    "--event",
    "payload",
    type=options.PATH,
    help="File with the forge's payload. Default: the runner's event file.",
)
_admission = click.option(
    "--admission", "admission_word", required=True, help="Output `admission` of `scrout forge admit`."
)


@click.group(name="forge", cls=CommandGroup)
def command() -> None:
    """Example: scrout forge admit --run-usd 1 --day-usd 10

    Act on labels of issues on GitHub and GitLab, in three jobs: admit, work, publish.
    """


@command.command()
@_event
@click.option(
    "--scout-label", default="scrout", show_default=True, help="Label that asks for the handoff; empty: none."
)
@click.option(
    "--fix-label", default="scrout-fix", show_default=True, help="Label that asks for a pull request; empty: none."
)
@click.option(
    "--people", default="", metavar="LOGINS", help="Accept only these of the people who may push, separated by commas."
)
@click.option(
    "--quiet-s",
    type=click.FloatRange(0),
    default=60,
    show_default=True,
    help="Refuse if another person edited the issue in this many seconds before the label.",
)
@click.option(
    "--run-usd",
    type=options.dollars,
    default="0",
    metavar="USD",
    show_default=True,
    help="Budget of one run; 0 allows only free work.",
)
@click.option(
    "--day-usd",
    type=options.dollars,
    default="0",
    metavar="USD",
    show_default=True,
    help="Budget of all runs of a day (UTC).",
)
def admit(
    payload: Path | None,
    scout_label: str,
    fix_label: str,
    people: str,
    quiet_s: float,
    run_usd: Decimal,
    day_usd: Decimal,
) -> int:
    """Example: scrout forge admit --run-usd 1 --day-usd 10

    Decide whether a label counts, and reserve the budget of its run.

    Standard output gets the admission as JSON, the runner's outputs `go` (work, say or nothing) and `admission`.
    The exit code is 0 for every decision.
    """
    from scrout.integrations.admission import LabelRules, Verb
    from scrout.integrations.admission import admit as admitted
    from scrout.integrations.ci_environment import connect, find_ci_environment, find_token

    place = find_ci_environment(os.environ)
    token = find_token(os.environ)
    words: dict[str, Verb] = {scout_label.strip(): "scout", fix_label.strip(): "fix"}
    labels = {label: verb for label, verb in words.items() if label}
    named = frozenset(name.removeprefix("@").lower() for name in options.names(people))
    admission = admitted(
        _read_event(place, payload),
        connect(place, token),
        LabelRules(labels=labels, people=named, quiet_s=quiet_s),
        _budget(place, token),
        key=place.key,
        run_usd=run_usd,
        day_usd=day_usd,
    )
    render.say(f"{admission.go}: {admission.reason or f'{admission.verb} issue {admission.issue}'}")
    render.print_json(admission)
    _output("go", admission.go)
    _output("admission", admission.encode())
    return 0


@command.command()
@_event
@_admission
@options.repository
@click.option("--out", type=options.PATH, required=True, help="Write the result to this file.")
@options.sandbox
@options.configuration
def work(payload: Path | None, admission_word: str, repo: Path, out: Path) -> int:
    """Example: scrout forge work --admission "$ADMISSION" --out result.json

    Scout the issue, or fix it, and write a result for `publish`.

    It refuses to run if a token that may write is set. Exit code 0: there is a result, good or bad.
    """
    from scrout.base import ScroutError
    from scrout.cli.run_async import run_async
    from scrout.fix.pool import completed
    from scrout.integrations.admission import decode
    from scrout.integrations.ci_environment import find_ci_environment
    from scrout.integrations.result import failure_of
    from scrout.integrations.work import must_work, refuse_tokens
    from scrout.integrations.work import work as worked

    refuse_tokens(os.environ)
    place = find_ci_environment(os.environ)
    event = _read_event(place, payload)
    admission = decode(admission_word)
    verb = must_work(event, admission)
    options.must_be_writable(out, "--out")
    try:
        settings = completed(options.read_settings(repo), render.say)
    except ScroutError as error:  # the issue gets a comment, as for any other failure
        render.say(f"failed: {error}")
        result = failure_of(error, admission, verb, place.commit)
    else:
        with render.working() as progress:
            result = run_async(worked(event, admission, repo, place.commit, settings, progress))
    write_plain(out, result.model_dump_json(indent=2).encode())
    render.say(f"{result.outcome}; result written to {out}")
    return 0


@command.command()
@_event
@_admission
@click.option(
    "--result", "result_file", type=options.PATH, required=True, help="The file that `scrout forge work` wrote."
)
def publish(payload: Path | None, admission_word: str, result_file: Path) -> int:
    """Example: scrout forge publish --admission "$ADMISSION" --result result.json

    Comment on the issue with the result, and open a pull request if there is a patch.

    It runs nothing of the repository and trusts nothing in the result. Exit code 1: there was no usable result, and
    the issue says so.
    """
    from scrout.integrations.admission import decode
    from scrout.integrations.ci_environment import connect, find_ci_environment, find_token
    from scrout.integrations.publish import Publisher

    place = find_ci_environment(os.environ)
    token = find_token(os.environ)
    publisher = Publisher(
        event=_read_event(place, payload),
        admission=decode(admission_word),
        place=place,
        forge=connect(place, token),
        remote=_remote(place, token),
        budget=_budget(place, token),
    )
    done = publisher.publish(result_file)
    if done.problem:
        render.say(f"no usable result: {done.problem}")
    for what, address in (("comment", done.comment), ("pull", done.pull)):
        if address:
            render.print_text(f"{what} {render.inert(address)}\n")
            _output(what, address)
    return 1 if done.problem else 0


def _read_event(place: CiEnvironment, payload: Path | None) -> Event:
    from scrout.integrations.event import read_event, read_payload
    from scrout.integrations.forge import ForgeError

    path = payload or place.payload
    if path is None:
        raise ForgeError("the runner names no event file. Pass the payload's file with --event.")
    event = read_event(place.kind, read_payload(path))
    if event.repository != place.repository:
        raise ForgeError(
            f"the event is of {event.repository!r}, but this job runs in {place.repository!r}. Run it in the event's "
            f"repository."
        )
    return event


def _remote(place: CiEnvironment, token: str) -> OpenRemote:
    from scrout.integrations.remote import open_remote

    return lambda: open_remote(place.remote, place.kind, token)


def _budget(place: CiEnvironment, token: str) -> OpenBudget:
    @contextmanager
    def opened() -> Iterator[DailyBudget]:
        from scrout.integrations.budget import DailyBudget
        from scrout.integrations.remote import open_remote

        with open_remote(place.remote, place.kind, token) as remote:
            yield DailyBudget(remote)

    return opened


def _output(name: str, value: str) -> None:
    """Write outputs for later jobs: to GitHub's file, or to a file that GitLab reads as a report."""
    told = os.environ.get("GITHUB_OUTPUT") or os.environ.get("SCROUT_FORGE_OUTPUT")
    if told and "\n" not in value:
        key = name if os.environ.get("GITHUB_OUTPUT") else f"SCROUT_{name.upper()}"
        with Path(told).open("a", encoding="utf-8") as file:
            file.write(f"{key}={value}\n")
