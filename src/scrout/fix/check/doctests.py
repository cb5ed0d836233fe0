"""The doctests of the modules that a patch touches, before and after it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, TypeAdapter, ValidationError

from scrout.base import SandboxError
from scrout.fix.check.changed import ChangedFunction, touched_modules
from scrout.fix.check.patch import FileChange
from scrout.fix.check.recording import Recording, Version, record
from scrout.fix.check.regression import Tested, some_names
from scrout.sandbox.workshop import Workshop
from scrout.text import plural

DOCTESTS_S = 20.0
MAX_MODULES = 20
_PROMPT = ">>> "
_SCRIPTS = ("setup.py", "conf.py", "noxfile.py", "__main__.py")
"""Importing one would do what it is for."""
_INSIDE = (Path(__file__).with_name("inside") / "doctests.py").read_text(encoding="utf-8")


class _Result(BaseModel):
    passed: bool
    digest: str


_RESULTS = TypeAdapter(dict[str, _Result])


@dataclass(frozen=True)
class Doctested:
    """What the doctests near a patch say of it."""

    passed: frozenset[str] = frozenset()
    """Passed before the patch and with it."""
    broken: frozenset[str] = frozenset()
    """Passed before the patch, and failed twice with it, as they were written."""
    rewritten: frozenset[str] = frozenset()
    """Passed before the patch, which changes what they say."""
    executing: tuple[str, ...] = ()
    """Those that passed, and execute changed lines."""


async def run_doctests(
    changes: Sequence[FileChange], functions: Sequence[ChangedFunction], patch: str, workshop: Workshop
) -> Doctested:
    """Run them on workspaces of their own; nothing is told where no touched module has any, or none can be run."""
    texts = {change.new: change.before or "" for change in changes}
    modules = [path for path in touched_modules(changes) if not path.endswith(_SCRIPTS) and _PROMPT in texts[path]]
    if not modules or not workshop.environment.python:
        return Doctested()
    try:
        before, _ = await _run(modules[:MAX_MODULES], functions, "", workshop)
        good = {name for name, result in before.items() if result.passed}
        if not good:
            return Doctested()
        after, recording = await _run(modules[:MAX_MODULES], functions, patch, workshop)
        kept = {name for name in good if name in after and after[name].digest == before[name].digest}
        passed = {name for name in kept if after[name].passed}
        if broken := kept - passed:
            again, _ = await _run(modules[:MAX_MODULES], functions, patch, workshop)
            broken = {name for name in broken if not (name in again and again[name].passed)}
    except SandboxError:
        return Doctested()
    executing = tuple(name for name in sorted(passed) if any(recording.tests.get(name, {}).values()))
    return Doctested(frozenset(passed), frozenset(broken), frozenset(good - kept), executing)


def with_doctests(tested: Tested, doctested: Doctested) -> Tested:
    """What tests and doctests say together: a broken doctest is a broken test."""
    count = tested.count + len(doctested.passed) + len(doctested.broken)
    rewritten = f"changes what a doctest expects: {some_names(doctested.rewritten)}"
    flags = (*tested.flags, rewritten) if doctested.rewritten else tested.flags
    if doctested.broken:
        broken = (
            f"{plural(len(doctested.broken), 'doctest')} that passed before fail now: {some_names(doctested.broken)}"
        )
        return replace(tested, tests="fail", count=count, flags=flags, detail=f"{tested.detail}; {broken}")
    if doctested.passed and tested.tests in ("none", "pass"):
        detail = f"{plural(len(doctested.passed), 'doctest')} ran and none broke"
        detail = detail if tested.tests == "none" else f"{tested.detail}; {detail}"
        return replace(tested, tests="pass", count=count, flags=flags, detail=detail)
    return replace(tested, flags=flags)


async def _run(
    modules: Sequence[str], functions: Sequence[ChangedFunction], patch: str, workshop: Workshop
) -> tuple[dict[str, _Result], Recording]:
    version: Version = "after" if patch else "before"
    order = json.dumps({"paths": list(modules), "seconds": DOCTESTS_S})
    workspace = workshop.fresh()
    try:
        if patch and await workshop.apply(workspace, patch):
            return {}, Recording()
        command = f"python -c {shlex.quote(_INSIDE)} {shlex.quote(order)}"
        done = await record(workshop, workspace, command, functions, version, timeout_s=DOCTESTS_S + 10)
    finally:
        workspace.remove()
    try:
        return _RESULTS.validate_json(done.output), done
    except ValidationError:
        return {}, done
