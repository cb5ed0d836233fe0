"""Opens the ledger that settings name, and books the payments of killed runs from their trajectories."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from scrout.config.folders import data_folder
from scrout.config.settings import Settings
from scrout.ledger.store import Ledger
from scrout.money import Receipt
from scrout.trajectory import FILE_NAME, receipts


def open_ledger(settings: Settings, attempts: Path | None = None) -> Ledger:
    """The ledger of these settings. `attempts` is the folder of trajectories; None: in the user's data folder."""
    named = settings.ledger
    opened = Ledger(named.address or (Path(named.path) if named.path else data_folder() / "ledger.db"))
    folder = attempts or attempts_folder()
    if folder.is_dir():
        opened.recover(partial(paid, folder))
    return opened


def attempts_folder() -> Path:
    return data_folder() / "attempts"


def paid(attempts: Path, place: str) -> Sequence[Receipt]:
    trajectory = attempts / place / FILE_NAME
    return receipts(trajectory) if trajectory.exists() else ()
