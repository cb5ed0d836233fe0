"""Finds this machine's strongest isolation tier by trying each, and says what is missing if none works."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from scrout.base import SandboxError
from scrout.config.folders import cache_folder
from scrout.config.settings import SandboxSettings
from scrout.sandbox.process import system_program
from scrout.sandbox.task_sandbox import open_workspaces
from scrout.sandbox.tier import TIERS, Command, Limits, ProbedTier, Tier
from scrout.sandbox.workspace import Base, private_folder


def probe(settings: SandboxSettings | None = None) -> ProbedTier:
    """The tier that the settings name, otherwise the strongest that works. Its detail says why no stronger one does."""
    settings = settings or SandboxSettings()
    if settings.tier != "auto":
        return TIERS.get(settings.tier).probe(settings)
    failed: list[ProbedTier] = []
    for found in _try_all(settings):
        if found.tier is not None:
            reasons = "".join(f"; {other.name}: {other.detail}" for other in failed)
            return replace(found, detail=found.detail + reasons, remedy=failed[0].remedy if failed else found.remedy)
        failed.append(found)
    # Recommend the strongest tier that this system can have.
    closest = next((found for found in failed if not found.detail.startswith("not for")), failed[0])
    return replace(closest, detail="; ".join(f"{found.name}: {found.detail}" for found in failed))


def probe_all(settings: SandboxSettings | None = None) -> tuple[ProbedTier, ...]:
    """Every tier that scrout may choose automatically, strongest first."""
    return tuple(_try_all(settings or SandboxSettings()))


def require_tier(settings: SandboxSettings | None = None) -> Tier:
    """The tier to use; raises a SandboxError with the next step if there is none."""
    probed = probe(settings)
    if probed.tier is None:
        raise SandboxError(
            f"no isolation is available ({probed.detail}), and scrout runs nothing without it. {probed.remedy}"
        )
    return probed.tier


def _try_all(settings: SandboxSettings) -> Iterator[ProbedTier]:
    tiers = sorted(map(TIERS.get, TIERS.names()), key=lambda tier: -tier.strength)
    return (tier.probe(settings) for tier in tiers if tier.strength)


def missing_programs(*names: str) -> str:
    """Those of the given system programs that are missing on this machine."""
    return ", ".join(name for name in names if system_program(name) == name)


def trial(tier: Tier, detail: str) -> ProbedTier:
    """Run a trial command that writes to a repository, as real ones do. `detail` describes success."""
    try:
        _finish(tier)
    except SandboxError as error:
        return ProbedTier(tier.name, None, str(error), "Run `scrout doctor` for details.")
    return ProbedTier(tier.name, tier, detail)


def _finish(tier: Tier) -> None:
    """Run a coroutine to its end, even if an event loop is already running."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(_try(tier))
    else:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, _try(tier)).result()


async def _try(tier: Tier) -> None:
    empty = private_folder(cache_folder() / "probe")
    with open_workspaces(Base(Path("/probe"), "", empty), tier) as workspaces:
        command = Command(
            argv=["bash", "-c", "echo written > file && cat file"],
            cwd="/probe",
            view=workspaces.fresh().view,
            env={"PATH": "/usr/bin:/bin"},
            limits=Limits(timeout_s=10),
        )
        done = await tier.run(command)
        if done.exit_code != 0 or done.text.strip() != "written":
            raise SandboxError(f"a trial command ended with {done.exit_code}: {done.text.strip()[-300:]}")
