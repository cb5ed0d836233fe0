"""The card of a run's folder: what the run was started with. The same command goes on, another one is refused."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from scrout.base import FrozenModel, TaskError
from scrout.files import write_atomic

C = TypeVar("C", bound=FrozenModel)
MAX_SHOWN = 80


def keep_card(path: Path, card: FrozenModel, ignore: Collection[str] = ()) -> None:
    """Write the card of a new run, or raise a TaskError if the folder's run was started with something else."""
    known = read_card(path, type(card))
    if known is None:
        write_atomic(path, card.model_dump_json(indent=2) + "\n", durable=True)
        return
    before, now = (dict(_leaves(one.model_dump(mode="json", exclude=set(ignore)))) for one in (known, card))
    changes = [
        f"{key} {before.get(key)!r:.{MAX_SHOWN}}, and now it is {now.get(key)!r:.{MAX_SHOWN}}"
        for key in sorted({*before, *now})
        if before.get(key) != now.get(key)
    ]
    if changes:
        raise TaskError(f"{path.parent} was started with {'; '.join(changes)}. Keep the former, or name a new folder.")


def require_run_or_empty(path: Path) -> None:
    """A TaskError if the folder of a card that is missing holds other files."""
    if not path.exists() and any(other.name != ".lock" for other in path.parent.iterdir()):
        raise TaskError(f"{path.parent} holds other files and no {path.name}. Name an empty or a new folder.")


def read_card(path: Path, kind: type[C]) -> C | None:
    """None: there is none."""
    try:
        return kind.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise TaskError(f"{path} cannot be read: {str(error)[:300]}. Name another folder.") from None


def _leaves(table: dict[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """The values of nested tables by their dotted keys."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
