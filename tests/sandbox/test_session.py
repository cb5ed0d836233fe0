"""A session's warm sandbox: each command starts as in a sandbox of its own, and none of them gets hold of the next.

What the sandbox itself promises is attacked in tests/contracts/test_tier.py, over this form too.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shlex
import signal
import sys
import textwrap
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.config.settings import Settings
from scrout.sandbox.keeper import descendants
from scrout.sandbox.task_sandbox import ShellSession, TaskSandbox, open_task_sandbox
from scrout.sandbox.tier import Command, Completed
from scrout.sandbox.tiers.bubblewrap import Bubblewrap
from scrout.sandbox.tiers.unsafe import Unsafe
from scrout.sandbox.workspace import find_source
from scrout.task import Task


@pytest.fixture(scope="module")
def shop(shared_task_sandbox: Callable[..., AbstractContextManager[TaskSandbox]]) -> Iterator[TaskSandbox]:
    with shared_task_sandbox({"file.txt": "tracked\n"}) as opened:
        yield opened


@pytest.fixture
async def session(shop: TaskSandbox) -> AsyncIterator[ShellSession]:
    if not isinstance(shop.tier, Bubblewrap):
        pytest.skip(f"the {shop.tier.name} tier has no warm form")
    async with shop.session(shop.fresh()) as opened:
        yield opened


def python(source: str) -> str:
    return f"python3 -c {shlex.quote(textwrap.dedent(source))}"


def processes_with(marker: str) -> list[str]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if marker.encode() in (folder / "cmdline").read_bytes():
                found.append(folder.name)
    return found


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def sandbox_of(session: ShellSession) -> str:
    """Tells the sandbox that commands run in: when its first process began."""
    return (await session.shell("cut -d' ' -f22 /proc/1/stat")).text


# One sandbox, and each command anew


async def test_commands_share_a_sandbox_that_the_first_of_them_starts(session: ShellSession) -> None:
    before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208
    assert await sandbox_of(session) == await sandbox_of(session)
    assert set(os.listdir("/proc/self/fd")) > before  # noqa: PTH208


async def test_a_session_without_commands_starts_nothing(shop: TaskSandbox) -> None:
    before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208
    async with shop.session(shop.fresh()):
        assert set(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


async def test_variables_folder_functions_and_limits_start_anew(session: ShellSession) -> None:
    ask = "pwd; env | grep -v ^_=; ulimit -a; umask; type -t f; trap; set -o; shopt"
    first = await session.shell(ask)
    meddle = "mkdir -p d; cd d; export NEW=1 PATH=/nowhere:$PATH; f() { :; }; export -f f; ulimit -n 20; umask 077"
    await session.shell(f"{meddle}; trap '' INT TERM; set -f; shopt -s nullglob")
    again = await session.shell(ask)
    assert again.text == first.text and "NEW" not in again.text


async def test_a_command_sees_what_it_would_in_a_sandbox_of_its_own(session: ShellSession, shop: TaskSandbox) -> None:
    ask = "pwd; env | sort | grep -v ^_=; ulimit -a; umask; id; hostname; ls -A / /tmp /dev /etc /opt/scrout/bin; tty"
    ask += "; set -o; shopt; trap; echo $SHLVL $- $0"
    ask += "; grep -E '^(Cap|NoNew|Sig(Blk|Ign)|Seccomp:|Groups)' /proc/self/status; cat; ls /proc/self/fd | wc -l"
    ask += "; cat /proc/self/mountinfo | cut -d' ' -f5- | grep -v ' - overlay ' | grep -v /opt/scrout/shell"
    assert (await session.shell(ask)).text == (await shop.shell(shop.fresh(), ask)).text


async def test_nothing_but_the_workspace_outlasts_a_command(session: ShellSession) -> None:
    ask = "ls -laR --time-style=+ /tmp /dev/shm | grep -v ^total; ls /dev; ipcs -a; cat /tmp/home/.bashrc"
    first = await session.shell(ask)
    for leave in (
        "echo x > /tmp/left",
        "echo x > /tmp/.left",
        "echo x > /tmp/home/.bashrc",
        "mkdir -p /tmp/a && chmod 000 /tmp/a",
        "rmdir /tmp/home",
        "chmod 500 /tmp/home",
        "echo x > /dev/shm/left",
        "echo x > /dev/left",
        "ipcmk --shmem 1000",
        "ipcmk --semaphore 3",
        "ipcmk --queue",
    ):
        await session.shell(leave)
        assert (await session.shell(ask)).text == first.text, leave


async def test_the_workspace_is_shared_with_the_host_both_ways(session: ShellSession) -> None:
    workspace = session.workspace
    assert (await session.shell("cat file.txt new.txt; ls d")).exit_code != 0
    workspace.write("file.txt", b"edited\n")
    workspace.write("d/new.txt", b"new\n")
    assert (await session.shell("cat file.txt d/new.txt; echo more >> d/new.txt; rm file.txt")).text == "edited\nnew\n"
    assert workspace.read("d/new.txt") == b"new\nmore\n" and workspace.read("file.txt") is None
    workspace.write("file.txt", b"again\n")
    assert (await session.shell("cat file.txt d/new.txt")).text == "again\nnew\nmore\n"


async def test_a_repository_that_a_command_closed_is_open_for_the_next(session: ShellSession) -> None:
    await session.shell("chmod 000 .")
    assert (await session.shell("cat file.txt")).text == "tracked\n"


async def test_other_commands_and_the_diff_never_have_the_workspace_at_the_same_time(
    session: ShellSession, shop: TaskSandbox
) -> None:
    await session.shell("echo one > a; echo two > b")
    assert "+one" in await shop.diff(session.workspace)
    assert (await shop.shell(session.workspace, "cat a; echo three > c; rm b")).text == "one\n"
    assert (await session.shell("cat a b c")).text == "one\ncat: b: No such file or directory\nthree\n"
    await session.shell("echo four > d")
    assert (await shop.shell(session.workspace, "cat d")).text == "four\n"


# Output and exit codes


async def test_exit_codes_and_signals(session: ShellSession) -> None:
    for command, code in {
        "exit 3": 3,
        "false | cat": 1,
        "kill -9 $$": 137,
        "kill -INT $$": 130,
        "kill -TERM $$": 143,
        "kill -SEGV $$": 139,
        "no-such-program": 127,
        "exit 255": 255,
        "true": 0,
    }.items():
        assert (await session.shell(command)).exit_code == code, command


async def test_standard_error_and_output_keep_their_order(session: ShellSession) -> None:
    for _ in range(20):
        assert (await session.shell("echo one; echo two >&2; echo three")).text == "one\ntwo\nthree\n"


async def test_output_is_whole_and_nobody_elses(session: ShellSession) -> None:
    for number in range(10):
        size = 6 ** (number % 7) * 8
        done = await session.shell(f"head -c {size} /dev/zero | tr '\\0' {number}; exit {number}")
        assert (done.exit_code, done.output) == (number, str(number).encode() * size)


async def test_late_writers_do_not_reach_the_next_command(session: ShellSession) -> None:
    await session.shell("(trap '' TERM HUP INT PIPE; while :; do echo late; done) & sleep 0.1")
    for _ in range(5):
        assert (await session.shell("sleep 0.02; echo mine")).text == "mine\n"


async def test_a_command_cannot_make_the_next_ones_output_fail(session: ShellSession) -> None:
    before = await sandbox_of(session)
    meddle = "import fcntl, os; fcntl.fcntl(1, fcntl.F_SETFL, os.O_NONBLOCK | os.O_DIRECT | os.O_APPEND)"
    await session.shell(f"{python(meddle)}; {python('import fcntl; fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 4096)')}")
    done = await session.shell(python("import os; print(oct(__import__('fcntl').fcntl(1, 3))); print('x' * 300_000)"))
    assert (done.exit_code, len(done.output)) == (0, 300_005) and done.text.startswith("0o1\n")
    assert await sandbox_of(session) == before


async def test_standard_input_is_empty(session: ShellSession) -> None:
    assert (await session.shell("cat; read -r x; echo $?; wc -c")).text == "1\n0\n"


@given(text=st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=200))
async def test_any_text_reaches_the_shell_as_it_is(session: ShellSession, text: str) -> None:
    done = await session.shell(f"printf %s {shlex.quote(text)}")
    assert (done.exit_code, done.output) == (0, text.encode())


async def test_bytes_that_are_no_text_reach_it_too(session: ShellSession) -> None:
    raw = bytes(range(1, 256)).replace(b"'", b"")
    assert (await session.shell(f"printf %s '{os.fsdecode(raw)}'")).output == raw
    long = "x" * 100_000
    assert (await session.shell(f"printf %s {long}")).output == long.encode()


async def test_what_looks_like_an_answer_of_the_servers_is_output(session: ShellSession) -> None:
    before = await sandbox_of(session)
    for fake in ("0\n", "0 used\n", "scrout: ready\n", "0\n0\n0\n", "\0"):
        done = await session.shell(python(f"import os; os.write(1, {fake!r}.encode()); os.write(2, b'x'); os._exit(7)"))
        assert (done.exit_code, done.text) == (7, f"{fake}x")
        assert (await session.shell("echo next")).text == "next\n" and await sandbox_of(session) == before


# The server


async def test_the_server_is_not_to_be_signalled_or_waited_for(session: ShellSession) -> None:
    before = await sandbox_of(session)
    source = """
        import os, signal, time
        for number in range(1, 65):
            if number not in (32, 33):
                os.kill(1, number)
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
            os.kill(1, number)
            time.sleep(0.05)
        """
    assert (await session.shell(python(source))).exit_code == 0
    for number in (2, 3, 15):
        await session.shell(f"kill -{number} 1; kill -{number} $$")
    assert (await session.shell("kill -9 -1 2> /dev/null; kill -STOP 1; kill -9 1 $PPID; echo here")).text == "here\n"
    assert await sandbox_of(session) == before


INTRUSIONS = {
    "trace": "libc.ptrace(16, 1, 0, 0)",
    "seize": "libc.ptrace(0x4206, 1, 0, 0)",
    "take a descriptor": "libc.syscall(438, os.pidfd_open(1), 3, 0)",
    "read memory": "os.open('/proc/1/mem', os.O_RDONLY)",
    "write memory": "os.open('/proc/1/mem', os.O_WRONLY)",
    "list descriptors": "os.listdir('/proc/1/fd')",
    "write commands": "os.open('/proc/1/fd/0', os.O_WRONLY)",
    "read commands": "os.open('/proc/1/fd/0', os.O_RDONLY)",
    "write output": "os.open('/proc/1/fd/1', os.O_WRONLY)",
    "write answers": "os.open('/proc/1/fd/3', os.O_WRONLY)",
    "read the environment": "os.open('/proc/1/environ', os.O_RDONLY)",
    "be its root": "os.listdir('/proc/1/root/')",
    "read its program": "os.open('/opt/scrout/shell', os.O_RDONLY)",
    "replace its program": "os.unlink('/opt/scrout/shell')",
    "open up its program": "os.chmod('/opt/scrout/shell', 0o777)",
    "have it killed first": "open('/proc/1/oom_score_adj', 'w').write('1000')",
}


async def test_the_server_is_not_to_be_entered(session: ShellSession) -> None:
    source = f"""
        import ctypes, os
        libc = ctypes.CDLL(None, use_errno=True)
        for name, attempt in {INTRUSIONS}.items():
            try:
                print(name, "succeeded" if eval(attempt) != -1 else "refused")
            except OSError:
                print(name, "refused")
        """
    assert (await session.shell(python(source))).text.splitlines() == [f"{name} refused" for name in INTRUSIONS]


async def test_a_command_inherits_nothing_of_the_servers(session: ShellSession) -> None:
    listing = "import os; print([n for n in range(3, 4096) if os.path.lexists(f'/proc/self/fd/{n}')])"
    assert (await session.shell(python(listing))).text == "[]\n"
    seen = (await session.shell("readlink /proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2")).text.split()
    assert seen[0] == "/dev/null" and seen[1] == seen[2] and seen[1].startswith("pipe:")


async def test_a_server_brought_down_costs_one_command(session: ShellSession) -> None:
    """The one way that is left: limits of a process of the same user can be lowered."""
    before = await sandbox_of(session)
    done = await session.shell("prlimit --pid 1 --nofile=3:3; echo done")
    assert done.exit_code == 137 and done.text == "done\n\n[stopped: the command brought its sandbox down]\n"
    assert (await session.shell("echo fine")).text == "fine\n"
    assert await sandbox_of(session) != before


@pytest.mark.parametrize(
    "limit",
    [
        *("nproc=0:0", "nofile=9:9", "as=1:1"),
        *(pytest.param(limit, marks=pytest.mark.slow) for limit in ("fsize=0:0", "data=0:0", "cpu=0:0")),
    ],
)
async def test_a_server_with_lowered_limits_is_replaced(session: ShellSession, limit: str) -> None:
    await session.shell(f"prlimit --pid 1 --{limit}")
    done = [await session.shell("(echo fine) | cat; echo x > file.txt && cat file.txt", timeout_s=2) for _ in range(2)]
    assert done[-1].text == "fine\nx\n"


# Ends

LEAVE = {
    "in the background": "sleep 987{n} &",
    "in a session of its own": "setsid sleep 987{n} & sleep 0.05",
    "forked twice": "(setsid bash -c 'setsid sleep 987{n} &' &) ; sleep 0.1",
    "stopped": "sleep 987{n} & kill -STOP $!",
    "deaf": "(trap '' TERM INT HUP; sleep 987{n}; sleep 987{n}) & sleep 0.05",
    "streams closed": "sleep 987{n} <&- >&- 2>&- &",
    "many": "for i in $(seq 50); do sleep 987{n} & done",
}


async def test_no_process_outlives_its_command(session: ShellSession) -> None:
    before = await sandbox_of(session)
    for name, leave in LEAVE.items():
        number = str(secrets.randbelow(10**9))
        done = await session.shell(leave.replace("{n}", number), timeout_s=10)
        assert done.exit_code == 0, name
        assert processes_with(f"987{number}") == [], name  # at once, not soon
        assert (await session.shell("ls -d /proc/[0-9]*")).text.split() != [] and await sandbox_of(session) == before


@pytest.mark.usefixtures("alone")
async def test_a_bomb_that_flees_ends_with_its_command(session: ShellSession) -> None:
    source = """
        import os, time
        for _ in range(30):
            if os.fork() == 0:
                end = time.monotonic() + 60
                while time.monotonic() < end:  # forks away from whoever kills it
                    try:
                        if os.fork():
                            os._exit(0)
                    except OSError:
                        pass
                    os.setsid()
        """
    await session.shell(python(source), timeout_s=20)
    done = await session.shell("echo /proc/[0-9]*")
    assert len(done.text.split()) == 2


async def test_the_time_limit_ends_the_sandbox_and_the_next_command_gets_another(session: ShellSession) -> None:
    before = await sandbox_of(session)
    number = str(secrets.randbelow(10**9))
    done = await session.shell(f"echo begun; setsid sleep 987{number}", timeout_s=0.5)
    assert done.timed_out and done.text == "begun\n"
    assert processes_with(f"987{number}") == []
    assert (await session.shell("echo fine")).text == "fine\n" and await sandbox_of(session) != before


async def test_cancelling_at_any_moment_ends_everything(shop: TaskSandbox) -> None:
    number = f"987{secrets.randbelow(10**9)}"
    async with shop.session(shop.fresh()) as session:
        for delay_ms in (*range(0, 60, 6), 100):
            running = asyncio.create_task(session.shell(f"sleep {number}"))
            await asyncio.sleep(delay_ms / 1000)
            running.cancel()
            async with asyncio.timeout(10):
                await asyncio.gather(running, return_exceptions=True)
            assert processes_with(number) == []
        assert (await session.shell("echo fine")).text == "fine\n"


async def test_nothing_is_left_of_a_closed_session(shop: TaskSandbox) -> None:
    descriptors = set(os.listdir("/proc/self/fd"))  # noqa: PTH208
    marker = str(shop.fresh().folder)
    for ending in ("true", "sleep 60 &", "sleep 60", "echo x > /tmp/x", "kill -9 $$"):
        async with shop.session(shop.fresh()) as session:
            await session.shell(ending, timeout_s=0.5)
    await asyncio.sleep(0.1)
    assert set(os.listdir("/proc/self/fd")) == descriptors  # noqa: PTH208
    assert processes_with(str(Path(marker).parent)) == []


HOST = """
import asyncio, sys
from pathlib import Path
from scrout.config.settings import Settings
from scrout.sandbox.probe import require_tier
from scrout.sandbox.task_sandbox import open_task_sandbox
from scrout.sandbox.workspace import find_source
from scrout.task import Task

source = find_source(Path(sys.argv[1]))
task = Task(id="task", text="an issue", repo=source.repo, base_commit=source.head)

async def main(shop):
    async with shop.session(shop.fresh()) as session:
        await session.shell("true")
        print("warm", flush=True)
        await (session.shell(sys.argv[2], timeout_s=60) if sys.argv[2] else asyncio.sleep(60))

with open_task_sandbox(task, require_tier(Settings().sandbox), Settings()) as shop:
    asyncio.run(main(shop))
"""


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("", id="idle", marks=pytest.mark.slow),
        pytest.param("trap '' TERM HUP INT; setsid sleep 60 & sleep 60", id="busy"),
    ],
)
async def test_a_program_that_dies_takes_its_sandbox_along(session: ShellSession, command: str) -> None:
    host = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HOST, str(session.task_sandbox.base.repo), command),
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert host.stdout is not None and await host.stdout.readline() == b"warm\n"
    await asyncio.sleep(0.3)
    inside = descendants(host.pid)
    assert len(inside) >= (5 if command else 2)
    host.kill()
    await host.wait()
    for _ in range(200):
        if not (left := [pid for pid in inside if alive(pid)]):
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"still running: {left}")


async def test_two_sessions_are_independent(shop: TaskSandbox) -> None:
    async with shop.session(shop.fresh()) as one, shop.session(shop.fresh()) as other:
        loud = asyncio.create_task(one.shell("echo one > file.txt; echo one > /tmp/x; sleep 0.5; cat file.txt"))
        await asyncio.sleep(0.1)
        seen = await other.shell("cat file.txt; ls /tmp; pgrep sleep; kill -9 -1; echo other > file.txt")
        assert "tracked" in seen.text and "x" not in seen.text.split()
        assert (await loud).text == "one\n"
        assert (await other.shell("cat file.txt")).text == "other\n"


async def test_a_sandbox_that_was_killed_from_outside_is_replaced(session: ShellSession) -> None:
    before = await sandbox_of(session)
    for pid in descendants(os.getpid()):
        with suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"/opt/scrout/shell"):  # noqa: ASYNC240
                os.kill(pid, signal.SIGKILL)
    await asyncio.sleep(0.3)
    assert (await session.shell("echo fine")).text == "fine\n" and await sandbox_of(session) != before


async def test_commands_at_once_wait_for_each_other(session: ShellSession) -> None:
    texts = [f"sleep 0.0{number}; echo {number}" for number in range(5)]
    done = await asyncio.gather(*(session.shell(text) for text in texts))
    assert [one.text for one in done] == [f"{number}\n" for number in range(5)]


async def test_a_limit_that_is_passed_costs_the_sandbox_and_not_the_session(shop: TaskSandbox) -> None:
    tight = TaskSandbox(shop.workspaces, shop.tier, shop.environment, replace(shop.limits, disk_mb=5, file_mb=2))
    async with tight.session(tight.fresh()) as session:
        done = await session.shell("for i in $(seq 9); do head -c 1000000 /dev/zero > $i; done; sleep 30", timeout_s=20)
        assert done.exit_code == 137 and "grew by more than 5 MB" in done.text
        assert (await session.shell("rm ?; echo fine")).text == "fine\n"


# Tiers without a warm form


class Counting(Unsafe):
    """Counts sandboxes."""

    started = 0

    async def run(self, command: Command) -> Completed:
        self.started += 1
        return await super().run(command)


async def test_where_no_sandbox_can_stay_each_command_has_its_own(make_repo: Callable[..., Path]) -> None:
    source, tier = find_source(make_repo({"file.txt": "tracked\n"})), Counting()
    task = Task(id="task", text="an issue", repo=source.repo, base_commit=source.head)
    with open_task_sandbox(task, tier, Settings()) as shop:
        async with shop.session(shop.fresh()) as session:
            assert (await session.shell("cat file.txt; exit 3")).exit_code == 3
            assert (await session.shell("sleep 9", timeout_s=0.2)).timed_out
    assert tier.started == 2
