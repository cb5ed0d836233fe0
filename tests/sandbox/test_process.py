"""The one process that every tier starts for a command."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

from scrout.sandbox.process import READY, kill_group, run_process
from scrout.sandbox.tier import Command, Limits, Overlay


def test_a_stream_that_somebody_holds_open_is_closed_with_its_process(tmp_path: Path) -> None:
    view = Overlay(tmp_path, tmp_path, tmp_path, str(tmp_path))
    command = Command(argv=(), cwd="/", view=view, limits=Limits(timeout_s=0.3))
    script = f"echo '{READY}' >&2; echo begun; sleep 2 2> /dev/null & exit 3"
    done = asyncio.run(run_process(["/bin/sh", "-c", script], command, end=kill_group))
    assert done.timed_out and done.text == "begun\n"
    gc.collect()  # an open one warns here, and a warning fails the test
