"""The unsafe tier: an ordinary process of the caller, with a few limits and no isolation from the host.

Covered: no environment of the caller's, bounded time, output, file size, open files and memory of each process, a
workspace that is a copy, and an end of the process tree that a command can only escape on purpose. Not covered:
everything else. A command can read and write everything the caller can, and use the network. scrout never chooses this
tier itself.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import ClassVar

from scrout.config.settings import SandboxSettings
from scrout.sandbox import keeper
from scrout.sandbox.copies import WithoutMounts, at_host_paths, in_folder
from scrout.sandbox.process import begin_argv, end_keeper, run_process
from scrout.sandbox.tier import Command, Completed, ProbedTier

KEEPER = (sys.executable, "-I", "-S", str(Path(keeper.__file__)))


class Unsafe(WithoutMounts):
    """Runs commands without isolation, because the user asked for it."""

    name: ClassVar[str] = "unsafe"
    strength: ClassVar[int] = 0
    weakness: ClassVar[str] = "NO ISOLATION: commands can read and change whatever you can"

    @classmethod
    def probe(cls, settings: SandboxSettings) -> ProbedTier:
        return ProbedTier(cls.name, cls(), cls.weakness)

    async def run(self, command: Command) -> Completed:
        here = at_host_paths(command)
        # The caller's own processes would count against a process limit, so there is none.
        begin = begin_argv(command.limits, processes=False)
        argv = [*KEEPER, str(os.getpid()), *in_folder(here.cwd), *begin, *here.argv]
        return await run_process(argv, command, end=end_keeper, env=here.env)


PART = Unsafe
