"""Runs the same jobs on a Ray cluster, each in a free process of it.

Every process opens the ledger itself. On more than one machine, the ledger must be a PostgreSQL server, and all
machines must share the batch's folder: trajectories are written there, and calls are recovered from them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from scrout import telemetry
from scrout.base import ConfigError, ScroutError
from scrout.batch.folder import Batch, BatchFolder
from scrout.batch.jobs import BatchJob, JobResult
from scrout.batch.tasks import Repositories
from scrout.config.settings import Settings
from scrout.ledger.store import Ledger
from scrout.sandbox.probe import require_tier

if TYPE_CHECKING:
    from scrout.batch.local_worker import LocalWorker

LOCAL = "local"
EACH = 8
"""Jobs per process of the cluster: they mostly wait for endpoints."""


class RayProcess:
    """An actor in a process of the cluster; its calls overlap."""

    def __init__(self, batch: Batch, folder: str, settings: Settings, repositories: Repositories) -> None:
        self._batch = batch
        self._folder = BatchFolder(Path(folder))
        self._settings = settings
        self._repositories = repositories
        self._worker: LocalWorker | None = None

    async def run(self, job: BatchJob, known: str) -> JobResult:
        if self._worker is None:
            from scrout.batch.local_worker import LocalWorker

            named = self._settings.ledger
            # Do not recover here: recovery briefly locks each run, and another process that wants to continue one at
            # that moment would start it again.
            book = Ledger(named.address or Path(named.path))
            tier = require_tier(self._settings.sandbox)
            self._worker = LocalWorker(self._batch, self._folder, self._settings, book, self._repositories, tier)
        return await self._worker.run(job, known, lambda words: None)

    def leave(self) -> bool:
        """Send pending telemetry: the process is about to be killed, and no exit handler will run."""
        return telemetry.flush()

    def pid(self) -> int:
        return os.getpid()


class RayWorker:
    """A Worker on a cluster, for use in a `with` block."""

    def __init__(
        self, address: str, batch: Batch, folder: BatchFolder, settings: Settings, repositories: Repositories
    ) -> None:
        self.address = address
        self.settings = settings
        self._context = (batch, str(folder.path), settings, repositories)
        self._ray: Any = None
        self._actors: list[Any] = []
        self._free: asyncio.Queue[int] = asyncio.Queue()

    def __enter__(self) -> RayWorker:
        try:
            ray: Any = import_module("ray")
        except ImportError:
            raise ConfigError("--ray needs the package ray. Install it: pip install 'scrout[ray]'") from None
        self._ray = ray
        try:
            ray.init(
                address=self.address,  # `local` is also Ray's own word: no address would join any existing cluster
                include_dashboard=False,
                log_to_driver=False,
                configure_logging=False,
            )
        except Exception as error:  # Ray also raises plain errors, for example if its processes start slowly
            raise ConfigError(
                f"Ray did not start here: {error} Run the same command again, or leave out --ray."
                if self.address == LOCAL
                else f"no Ray cluster answers at {self.address!r}: {error}. Start one: ray start --head"
            ) from None
        self._refuse_one_machine_ledger()
        for number in range(max(1, int(ray.cluster_resources().get("CPU", 1)))):
            self._actors.append(self._start())
            for _ in range(EACH):
                self._free.put_nowait(number)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if telemetry.is_on(self.settings) and error is None:
            leaving = [actor.leave.remote() for actor in self._actors]
            self._ray.wait(leaving, num_returns=len(leaving), timeout=2 * telemetry.FLUSH_S)
        self._ray.shutdown()

    async def run(self, job: BatchJob, known: str, say: Callable[[str], None]) -> JobResult:
        """Try a job once on a free process.

        If the process dies, the try has failed, and another process replaces it.
        """
        number = await self._free.get()
        actor = self._actors[number]
        try:
            say("on the cluster")
            ended: JobResult = await actor.run.remote(job, known)
        except self._ray.exceptions.RayTaskError as error:  # the process is alive, and its code has raised
            if not isinstance(error.cause, ScroutError):
                raise
            return JobResult("failed", detail=str(error.cause))
        except self._ray.exceptions.RayError as error:
            if self._actors[number] is actor:
                self._actors[number] = self._start()
            # The dead process's payments are in the ledger, or are booked when its runs continue.
            return JobResult("failed", paid_usd=None, detail=f"a process of the cluster died: {type(error).__name__}")
        else:
            return ended
        finally:
            self._free.put_nowait(number)

    def _start(self) -> Any:
        actor = self._ray.remote(num_cpus=1, max_concurrency=EACH)(RayProcess)
        return actor.remote(*self._context)

    def _refuse_one_machine_ledger(self) -> None:
        if len(self._ray.nodes()) > 1 and not self.settings.ledger.address:
            raise ConfigError(
                "the cluster has several machines, and a SQLite ledger works on one machine only. Set ledger.url to "
                "a PostgreSQL server that all of them can reach."
            )
