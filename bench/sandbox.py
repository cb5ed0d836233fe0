"""What the sandbox costs: a start against a bare bubblewrap start, and a workspace of a 5,000-file repository.

    python bench/sandbox.py [--starts 100] [--files 5000] [--out results/sandbox.json]

Starts are interleaved, so that whatever else the machine does touches both alike. As root each start costs more, since
the command must become somebody else: results/sandbox-ordinary-user.json has the same for a user without privileges.
Targets: a start within 10 ms of bare bubblewrap; a workspace after the first in under 100 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from record import record

from scrout.config.settings import Settings
from scrout.sandbox.probe import probe_all, require_tier
from scrout.sandbox.task_sandbox import TaskSandbox, open_task_sandbox
from scrout.sandbox.tier import Tier
from scrout.sandbox.tiers.bubblewrap import Bubblewrap
from scrout.sandbox.workspace import find_source
from scrout.task import Task

RESULTS = Path(__file__).parent / "results" / "sandbox.json"
TARGET_START_MS = 10.0
TARGET_WORKSPACE_MS = 100.0


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--starts", type=int, default=100)
    options.add_argument("--files", type=int, default=5000)
    options.add_argument("--out", type=Path, default=RESULTS)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = str(Path(folder, "cache"))
        found = asyncio.run(measure(Path(folder), chosen.starts, chosen.files))
    record({"root": os.geteuid() == 0, "load_1_min": round(os.getloadavg()[0], 2), **found}, chosen.out)


async def measure(folder: Path, starts: int, files: int) -> dict[str, object]:
    tier = require_tier()
    if not isinstance(tier, Bubblewrap):
        raise SystemExit(f"the tier here is {tier.name}; this compares bubblewrap")
    repo = make_repo(folder / "repo", files)
    source = find_source(repo)
    task = Task(id="bench", text="bench", repo=source.repo, base_commit=source.head)
    began = time.perf_counter()
    with open_task_sandbox(task, tier, Settings()) as shop:
        shop.fresh()
        first_ms = (time.perf_counter() - began) * 1000
        return {
            "bubblewrap": version(tier.program),
            "start": await compare_starts(shop, tier, starts),
            "workspace": await time_workspaces(shop, first_ms, files),
            "other_tiers_start_ms": await other_tiers(task, tier),
        }


def version(program: str) -> str:
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()


def make_repo(repo: Path, files: int) -> Path:
    for number in range(files):
        path = repo / f"package_{number % 50}" / f"module_{number // 50}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"def function_{number}():\n    return {number}\n" * 20)
    for step in ("init -q", "add --all", "-c user.name=a -c user.email=b commit -q -m base"):
        subprocess.run(["git", *step.split()], cwd=repo, check=True)
    return repo


async def compare_starts(shop: TaskSandbox, tier: Bubblewrap, starts: int) -> dict[str, float]:
    workspace = shop.fresh()
    system = [word for name in ("bin", "lib", "lib64") for word in ("--symlink", f"usr/{name}", f"/{name}")]
    bare = [tier.program, "--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr", *system]
    bare += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--", "/bin/true"]

    async def start_bare() -> None:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*bare, stdin=pipe, stdout=pipe, stderr=pipe)
        await process.communicate()
        assert process.returncode == 0

    async def start_ours() -> None:
        assert (await shop.run(workspace, ["/bin/true"])).exit_code == 0

    ours, theirs = [], []
    for _ in range(starts):
        theirs.append(await timed_ms(start_bare))
        ours.append(await timed_ms(start_ours))
    bare_ms, our_ms = statistics.median(theirs), statistics.median(ours)
    return {
        "bare_median_ms": round(bare_ms, 2),
        "scrout_median_ms": round(our_ms, 2),
        "difference_ms": round(our_ms - bare_ms, 2),
        "ratio": round(our_ms / bare_ms, 2),
        "bare_min_ms": round(min(theirs), 2),
        "scrout_min_ms": round(min(ours), 2),
        "starts_each": starts,
        "target_difference_ms": TARGET_START_MS,
    }


async def time_workspaces(shop: TaskSandbox, first_ms: float, files: int) -> dict[str, float]:
    async def use() -> None:
        assert (await shop.run(shop.fresh(), ["/bin/true"])).exit_code == 0

    async def make() -> None:
        shop.fresh()

    changed = shop.fresh()
    changed.write("package_1/module_1.py", b"changed = True\n")

    async def diff() -> None:
        assert "+changed = True" in await shop.diff(changed)

    return {
        "files": files,
        "first_ms": round(first_ms, 1),
        "later_median_ms": await median_ms(make, 30),
        "later_with_a_first_command_median_ms": await median_ms(use, 30),
        "diff_median_ms": await median_ms(diff, 10),
        "target_later_ms": TARGET_WORKSPACE_MS,
    }


async def other_tiers(task: Task, strongest: Tier) -> dict[str, float]:
    found = {}
    for probed in probe_all():
        if probed.tier is None or probed.name == strongest.name:
            continue
        with open_task_sandbox(task, probed.tier, Settings()) as shop:
            workspace = shop.fresh()

            async def start(shop: TaskSandbox = shop, workspace: object = workspace) -> None:
                await shop.run(workspace, ["/bin/true"])  # type: ignore[arg-type]

            found[probed.name] = await median_ms(start, 15)
            found[f"{probed.name}, workspace as a full copy"] = await median_ms(
                lambda: asyncio.to_thread(shop.fresh), 3
            )
    return found


async def median_ms(do: Callable[[], Awaitable[object]], times: int) -> float:
    return round(statistics.median([await timed_ms(do) for _ in range(times)]), 2)


async def timed_ms(do: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await do()
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    main()
