"""The context of every page, and the parsing of query parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import get_args

from scrout.base import ScroutError
from scrout.config.folders import cache_folder, data_folder
from scrout.config.settings import LEDGER_URL, Settings
from scrout.ledger.opening import attempts_folder
from scrout.ledger.store import Ledger
from scrout.records import RunOutcome
from scrout.server.dashboard.run_index import Filter, RunIndex

MAX_ASKED_CHARS = 500
OUTCOMES: tuple[RunOutcome, ...] = get_args(RunOutcome)


class BadQuestion(ScroutError):
    """An address with invalid parameters."""


class NotThere(ScroutError):
    """An address of a page that does not exist."""


@dataclass(frozen=True)
class PageContext:
    """One ledger, opened for reading."""

    settings: Settings
    ledger: Ledger
    run_index: RunIndex
    folder: Path | None
    """The folder of the ledger's file; None: it is a database."""

    @property
    def attempts(self) -> tuple[Path, ...]:
        """Folders that may have trajectories: beside a batch's ledger, or in the user's data folder."""
        beside = (self.folder / "attempts",) if self.folder else ()
        return (*beside, attempts_folder())

    @property
    def place(self) -> str:
        """The ledger as a command names it, without secrets."""
        return str(self.folder / Path(self.ledger.name).name) if self.folder else f'"${LEDGER_URL}"'


def open_page_context(settings: Settings) -> PageContext:
    """The ledger of the settings. It is read and never written."""
    named = settings.ledger
    if named.address:
        ledger, folder = Ledger(named.address), None
    else:
        path = Path(named.path) if named.path else data_folder() / "ledger.db"
        ledger, folder = Ledger(path), path.absolute().parent
    return PageContext(settings, ledger, RunIndex(ledger, cache_folder() / "dashboard"), folder)


Asked = Mapping[str, str]


def filter_of(asked: Asked) -> Filter:
    return Filter(
        outcome=_outcome(asked),
        fixer=words(asked, "fixer"),
        arm=words(asked, "arm"),
        batch=words(asked, "batch"),
        words=words(asked, "words"),
        since=_day(asked, "since"),
        until=_day(asked, "until"),
    )


def words(asked: Asked, name: str) -> str:
    text = asked.get(name, "").strip()
    if len(text) > MAX_ASKED_CHARS:
        raise BadQuestion(f"`{name}` has {len(text):,} characters; the limit is {MAX_ASKED_CHARS}. Search for less.")
    return text


def number(asked: Asked, name: str) -> int | None:
    """None: not given."""
    text = asked.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise BadQuestion(f"`{name}` is {text[:40]!r}, which is not a number. Leave it out to start at the beginning.")
    return int(text)


def _outcome(asked: Asked) -> RunOutcome | None:
    text = asked.get("outcome", "").strip()
    if not text:
        return None
    for outcome in OUTCOMES:
        if outcome == text:
            return outcome
    raise BadQuestion(f"`outcome` is {text[:40]!r}. It is one of {', '.join(OUTCOMES)}.")


def _day(asked: Asked, name: str) -> date | None:
    text = asked.get(name, "").strip()
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise BadQuestion(f"`{name}` is {text[:40]!r}. Write a day such as 2026-11-16.") from None
