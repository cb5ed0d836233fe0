"""What the model searcher is told: five texts beside this file, or a user's folder with five of the same names.

Placeholders: `$tools` in system, `$issue`, `$mark`, `$root`, `$language` and `$shortlist` in issue, `$problem` in
malformed. `${issue}`, `{issue}` and `{{issue}}` mean the same, and so do the names and files of the paper's release.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from scrout.base import ConfigError, FrozenModel

NAMES = {
    "system": "system_prompt",
    "issue": "issue_template",
    "forced": "forced_handoff_nudge",
    "malformed": "malformed_turn",
    "thought": "think_observation",
}
"""Our name of each text, and the one that the paper's release has for it."""
MAX_PROMPT_BYTES = 100_000

_SAME = {"problem_statement": "issue", "workdir": "root", "error": "problem"}
_PLACE = re.compile(r"\{\{ ?(\w+) ?\}\}|\$?\{(\w+)\}|\$(\w+)")


class Prompts(FrozenModel):
    """The five texts, as they are before anything is filled in."""

    system: str
    issue: str
    forced: str
    malformed: str
    thought: str

    def digest(self) -> str:
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]


def read_prompts(folder: str = "") -> Prompts:
    """Those of a folder; empty: our own."""
    place = Path(folder) if folder else Path(__file__).parent
    return Prompts.model_validate({name: _read(place, name, alias) for name, alias in NAMES.items()})


def fill(text: str, **values: str) -> str:
    """The text with its placeholders filled in. In one pass: what looks like a placeholder in an issue stays."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2] or found[3]
        return values.get(_SAME.get(name, name), found[0])

    return _PLACE.sub(value, text)


def has_place(text: str, name: str) -> bool:
    """Whether a text says where something goes."""
    return any(_SAME.get(word, word) == name for found in _PLACE.finditer(text) for word in found.groups() if word)


def _read(folder: Path, name: str, alias: str) -> str:
    for path in (folder / f"{stem}{suffix}" for stem in (name, alias) for suffix in (".md", ".txt")):
        try:
            with path.open("rb") as file:
                raw = file.read(MAX_PROMPT_BYTES + 1)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise ConfigError(f"the prompt {path}: {error.strerror}. Check the path.") from None
        try:
            if len(raw) <= MAX_PROMPT_BYTES:
                return raw.decode()
        except UnicodeDecodeError:
            pass
        raise ConfigError(
            f"the prompt {path} is no UTF-8 text of at most {MAX_PROMPT_BYTES:,} bytes. Shorten or save it."
        )
    raise ConfigError(
        f"the folder of prompts {folder} has no {name}.md or {name}.txt (nor {alias}.txt). It needs {', '.join(NAMES)}."
    )
