"""Each test is one attempt to get out of the sandbox, read what is not for it, or outlive it."""

from __future__ import annotations

import asyncio
import os
import secrets
import shlex
import socket
import sys
import textwrap
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from scrout.sandbox.tier import Completed
from scrout.sandbox.workshop import Workshop

SECRET = "planted-" + secrets.token_hex(8)


async def sh(shop: Workshop, command: str, timeout_s: float = 20, **limits: int) -> Completed:
    """A shell command in a fresh workspace, with some limits changed."""
    tight = Workshop(shop.workspaces, shop.tier, shop.environment, replace(shop.limits, **limits))
    return await tight.shell(tight.fresh(), command, timeout_s=timeout_s)


async def py(shop: Workshop, source: str, timeout_s: float = 20, **limits: int) -> Completed:
    return await sh(shop, f"python3 -c {shlex.quote(textwrap.dedent(source))}", timeout_s, **limits)


def processes_with(marker: str) -> list[str]:
    """Host processes whose command line holds the marker, this one left out."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if folder.name != str(os.getpid()) and marker.encode() in (folder / "cmdline").read_bytes():
                found.append(folder.name)
    return found


async def assert_gone(marker: str) -> None:
    for _ in range(50):
        if not processes_with(marker):
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"still running: {processes_with(marker)}")


# Reading


async def test_the_callers_environment_is_not_inherited(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", SECRET)
    done = await sh(shop, "env; cat /proc/*/environ /proc/*/task/*/environ 2>/dev/null; true")
    assert "PATH=" in done.text
    assert SECRET not in done.text


async def test_the_home_folder_is_hidden(shop: Workshop) -> None:
    home = Path(os.environ["HOME"])
    (home / ".netrc").write_text(SECRET)
    done = await sh(shop, f"cat {home}/.netrc ~/.netrc; ls -la {home}; ls -la ~")
    assert SECRET not in done.text
    assert ".netrc\n" not in done.text


async def test_another_workspace_is_hidden(shop: Workshop) -> None:
    other = shop.fresh()
    other.write("mine.txt", SECRET.encode())
    done = await sh(
        shop, f"cat {other.folder}/upper/mine.txt mine.txt; grep -rs {SECRET[:8]} /tmp {other.folder}; true"
    )
    assert SECRET not in done.text


async def test_host_processes_are_invisible(shop: Workshop) -> None:
    marker = "host-" + secrets.token_hex(8)
    script = "import time; time.sleep(30)"
    host = await asyncio.create_subprocess_exec(sys.executable, "-c", script, marker, env={"KEY": SECRET})
    try:
        done = await sh(shop, "cat /proc/*/cmdline /proc/*/environ 2>/dev/null | tr '\\0' ' '; ls /proc")
        assert "cat" in done.text
        assert marker not in done.text and SECRET not in done.text
        assert (await sh(shop, f"kill -9 {host.pid}")).exit_code != 0
        assert host.returncode is None
    finally:
        host.kill()
        await host.wait()


async def test_system_secrets_are_not_mounted(shop: Workshop) -> None:
    done = await sh(
        shop, "cat /etc/shadow /etc/sudoers /root/.bashrc /var/log/syslog; ls /home /root /var /run /sys /mnt"
    )
    assert "root:x" not in done.text and "root:*" not in done.text
    assert done.text.count("No such file or directory") >= 6


# Network


async def test_tcp_to_the_hosts_loopback_fails(shop: Workshop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        port = server.getsockname()[1]
        done = await py(shop, f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)")
        assert done.exit_code != 0 and "refused" in done.text
        with pytest.raises(TimeoutError):
            server.accept()


async def test_udp_to_the_hosts_loopback_is_lost(shop: Workshop) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(0.2)
        port = server.getsockname()[1]
        await py(shop, f"import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {port}))")
        with pytest.raises(TimeoutError):
            server.recv(1)


async def test_abstract_unix_sockets_of_the_host_are_unreachable(shop: Workshop) -> None:
    name = "\0scrout-" + secrets.token_hex(8)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        done = await py(shop, f"import socket; socket.socket(socket.AF_UNIX).connect({name!r})")
        assert done.exit_code != 0 and "refused" in done.text


async def test_no_interface_but_loopback_and_no_names(shop: Workshop) -> None:
    done = await py(
        shop,
        """
        import socket
        print([name for _, name in socket.if_nameindex()])
        try:
            socket.getaddrinfo("example.org", 80)
        except OSError:
            print("no such name")
        try:
            socket.socket(type=socket.SOCK_DGRAM).connect(("192.0.2.1", 53))
        except OSError as error:
            print(error.strerror)
        """,
    )
    assert done.text.splitlines() == ["['lo']", "no such name", "Network is unreachable"]


# Writing


async def test_the_base_and_the_users_repository_stay_as_they_are(shop: Workshop) -> None:
    done = await sh(shop, "echo changed > file.txt && rm -rf .git && echo new > new.txt && cat file.txt")
    assert done.text == "changed\n"
    for tree in (shop.base.tree, shop.base.repo):
        assert (tree / "file.txt").read_text() == "tracked\n"
        assert (tree / ".git").is_dir()
        assert not (tree / "new.txt").exists()
    assert (await sh(shop, "cat file.txt; ls new.txt")).text.startswith("tracked\n")


@pytest.mark.parametrize(
    "target", ["/usr/planted", "/etc/passwd", "/opt/scrout/planted", "/planted", "/opt/scrout/bin/x"]
)
async def test_nothing_outside_the_repository_is_writable(shop: Workshop, target: str) -> None:
    done = await sh(shop, f"echo x >> {target}")
    assert done.exit_code != 0
    assert "Read-only" in done.text or "denied" in done.text


async def test_a_symlink_out_of_the_workspace_leads_nowhere(shop: Workshop, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    done = await sh(
        shop, f"ln -s {victim} link; cat link; echo x > link; echo x > ../victim; ln {victim} hard; cat hard"
    )
    assert "untouched" not in done.text
    assert victim.read_text() == "untouched"


async def test_a_hard_link_cannot_reach_the_base(shop: Workshop) -> None:
    await sh(shop, "ln file.txt other.txt && echo changed > other.txt && cat file.txt")
    assert (shop.base.tree / "file.txt").read_text() == "tracked\n"


# Privileges


async def test_an_ordinary_user_without_capabilities(shop: Workshop) -> None:
    done = await sh(shop, "id -u; id -G; grep -E '^(Cap(Inh|Prm|Eff|Amb)|NoNewPrivs)' /proc/self/status")
    lines = done.text.split("\n")
    assert lines[0] != "0"
    assert "0" not in lines[1].split()
    status = dict(line.split(":\t") for line in lines[2:] if line)
    assert status.pop("NoNewPrivs") == "1"
    assert set(status.values()) == {"0" * 16}


@pytest.mark.parametrize(
    "attempt",
    [
        "mount -t tmpfs none /tmp",
        "umount /tmp",
        "mount -o remount,rw /",
        "mknod /tmp/disk b 8 0",
        "chroot / true",
        "python3 -c 'import os; os.setuid(0)'",
        "python3 -c 'import os; os.setgroups([0])'",
        "chown 0 file.txt",
        "python3 -c 'import socket; socket.sethostname(\"other\")'",
        "prlimit --pid $$ --nproc=100000:100000",
        "prlimit --pid $$ --fsize=unlimited:unlimited",
        "prlimit --pid 1 --nproc=100000:100000",
        "setpriv --reuid 0 true",
        "echo 0 > /proc/sys/kernel/randomize_va_space",
        "echo b > /proc/sysrq-trigger",
        "date -s 2001-01-01",
        "cat /dev/mem /dev/kmsg",
        "nsenter -t 1 -m true",
    ],
)
async def test_a_privileged_attempt_fails(shop: Workshop, attempt: str) -> None:
    assert (await sh(shop, attempt)).exit_code not in (0, None)


async def test_ptrace_of_the_sandboxs_own_init_fails_or_is_harmless(shop: Workshop) -> None:
    """Process 1 holds the host's paths in its arguments; its memory must hold nothing of the caller's environment."""
    done = await py(
        shop,
        """
        import pathlib
        for name in ("environ", "mem", "root/root/.bashrc"):
            try:
                print(pathlib.Path("/proc/1", name).open("rb").read(100_000))
            except OSError as error:
                print(error.strerror)
        """,
    )
    assert os.environ["HOME"] not in done.text


async def test_setuid_programs_gain_nothing(shop: Workshop) -> None:
    done = await sh(shop, "cp /usr/bin/id . && chmod u+s id && ./id -u; su -c id -s /bin/sh root < /dev/null; mount")
    assert "uid=0" not in done.text
    assert done.text.split("\n")[0] != "0"


# Bounds


async def test_a_fork_bomb_is_bounded_and_ends(shop: Workshop) -> None:
    marker = "bomb-" + secrets.token_hex(6)
    bomb = f"""
        import os, sys, time
        marker = "{marker}"
        count = 0
        while True:
            try:
                pid = os.fork()
            except OSError as error:
                print("refused after", count, flush=True)
                break
            if pid == 0:
                time.sleep(60)
            count += 1
        time.sleep(60)
        """
    peak = 0
    task = asyncio.create_task(py(shop, bomb, timeout_s=2, processes=20))
    while not task.done():
        peak = max(peak, len(processes_with(marker)))
        await asyncio.sleep(0.1)
    done = await task
    assert done.timed_out
    assert "refused after" in done.text
    assert 5 < peak <= 30
    await assert_gone(marker)


async def test_a_bomb_in_one_sandbox_leaves_others_room(shop: Workshop) -> None:
    bomb = asyncio.create_task(sh(shop, "for i in $(seq 40); do sleep 3 & done 2>/dev/null; wait", 3, processes=20))
    await asyncio.sleep(0.7)
    assert (await sh(shop, "(true) && (true) | cat && echo fine", processes=20)).text == "fine\n"
    await bomb


async def test_a_memory_hog_dies(shop: Workshop) -> None:
    done = await py(shop, "x = bytearray(900_000_000); print('got it')", memory_mb=256)
    assert done.exit_code not in (0, None)
    assert "got it" not in done.text


async def test_giant_output_is_bounded_and_keeps_both_ends(shop: Workshop) -> None:
    done = await sh(shop, "echo first; head -c 30000000 /dev/zero | tr '\\0' x; echo; echo last", output_bytes=10_000)
    assert done.exit_code == 0
    assert len(done.output) < 10_100
    assert done.text.startswith("first\n") and done.text.endswith("last\n") and "bytes left out" in done.text


@pytest.mark.parametrize("place", [".", "/tmp", "/dev/shm"])
async def test_a_giant_file_is_bounded(shop: Workshop, place: str) -> None:
    done = await sh(shop, f"head -c 9000000 /dev/zero > {place}/big; stat -c %s {place}/big", file_mb=4)
    assert int(done.text.split()[-1]) <= 4 * 1024 * 1024


async def test_many_files_in_tmp_are_bounded(shop: Workshop) -> None:
    done = await sh(shop, "for i in 1 2 3; do head -c 3000000 /dev/zero > /tmp/$i; done; du -sb /tmp", file_mb=4)
    assert "No space left" in done.text


# Ends

STUBBORN = """
import os, signal, sys, time
marker = "{marker}"
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        {close}
        time.sleep(60)
    os._exit(0)
time.sleep({wait})
"""
CLOSED = "os.closerange(0, 100)"


def stubborn(marker: str, *, wait: float, close: str = "pass") -> str:
    return "python3 -c " + shlex.quote(STUBBORN.format(marker=marker, wait=wait, close=close))


@pytest.mark.parametrize("close", ["pass", CLOSED])
async def test_a_daemon_does_not_survive_the_end_of_its_command(shop: Workshop, close: str) -> None:
    marker = "daemon-" + secrets.token_hex(6)
    done = await sh(shop, stubborn(marker, wait=0.2, close=close))
    assert done.exit_code == 0 and done.seconds < 10
    await assert_gone(marker)


async def test_a_daemon_does_not_survive_the_time_limit(shop: Workshop) -> None:
    marker = "daemon-" + secrets.token_hex(6)
    done = await sh(shop, stubborn(marker, wait=60), timeout_s=1)
    assert done.timed_out and done.seconds < 5
    await assert_gone(marker)


async def test_cancelling_leaves_no_process(shop: Workshop) -> None:
    marker = "daemon-" + secrets.token_hex(6)
    task = asyncio.create_task(sh(shop, stubborn(marker, wait=60)))
    for _ in range(100):
        await asyncio.sleep(0.05)
        if processes_with(marker):
            break
    assert processes_with(marker)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await assert_gone(marker)


async def test_a_command_that_ignores_its_input_is_no_error(shop: Workshop) -> None:
    done = await shop.run(shop.fresh(), ["true"], stdin=b"x" * 1_000_000)
    assert done.exit_code == 0


async def test_exit_codes_and_signals(shop: Workshop) -> None:
    assert (await sh(shop, "exit 3")).exit_code == 3
    assert (await sh(shop, "kill -9 $$")).exit_code == 137
    assert (await sh(shop, "false | cat")).exit_code == 1
    assert (await shop.run(shop.fresh(), ["no-such-program"])).exit_code == 127


async def test_a_command_cannot_pass_for_a_broken_sandbox(shop: Workshop) -> None:
    """Infrastructure failures are not counted against a model, so a command must not be able to claim one."""
    done = await sh(shop, "echo 'bwrap: no isolation today' >&2; exit 1")
    assert done.exit_code == 1
    assert done.text == "bwrap: no isolation today\n"


async def test_standard_error_and_output_keep_their_order(shop: Workshop) -> None:
    done = await sh(shop, "echo one; echo two >&2; echo three")
    assert done.text == "one\ntwo\nthree\n"
