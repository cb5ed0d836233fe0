"""The fix stage: a fixer of the pool makes one attempt."""

from __future__ import annotations

from scrout.base import ConfigError
from scrout.config.settings import Fixer
from scrout.fix.kind import FixerKind, FixJob
from scrout.records import Attempt


async def fix(fixer: Fixer, job: FixJob) -> Attempt:
    """Let one fixer try: a task and a gated handoff in, an attempt with its diff out."""
    if not isinstance(fixer, FixerKind):
        raise ConfigError(f"fixer {fixer.name!r} of kind {fixer.kind!r} cannot make an attempt")
    return await fixer.attempt(job)
