"""What the strongest tier promises beyond the contract of all (tests/contracts/test_tier.py): namespaces of its own."""

from __future__ import annotations

import os
import shlex
import textwrap
from dataclasses import replace

import pytest

from scrout.sandbox.task_sandbox import TaskSandbox
from scrout.sandbox.tier import Completed
from scrout.sandbox.tiers.bubblewrap import Bubblewrap


@pytest.fixture(autouse=True)
def _strongest(shop: TaskSandbox) -> None:
    if not isinstance(shop.tier, Bubblewrap):
        pytest.skip(f"the tier here is {shop.tier.name}")


async def sh(shop: TaskSandbox, command: str, timeout_s: float = 20, **limits: int) -> Completed:
    """A shell command in a fresh workspace, with some limits changed."""
    tight = TaskSandbox(shop.workspaces, shop.tier, shop.environment, replace(shop.limits, **limits))
    return await tight.shell(tight.fresh(), command, timeout_s=timeout_s)


async def py(shop: TaskSandbox, source: str, timeout_s: float = 20, **limits: int) -> Completed:
    return await sh(shop, f"python3 -c {shlex.quote(textwrap.dedent(source))}", timeout_s, **limits)


async def test_only_what_was_mounted_exists(shop: TaskSandbox) -> None:
    done = await sh(shop, "ls /var /run /sys /mnt /srv /boot /media; ls -A /etc")
    assert done.text.count("No such file or directory") == 7
    assert "shadow" not in done.text and "sudoers" not in done.text


async def test_no_interface_but_loopback_and_no_names(shop: TaskSandbox) -> None:
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


async def test_loopback_works_inside(shop: TaskSandbox) -> None:
    done = await py(
        shop,
        """
        import socket
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), 2).close()
            print("reached itself")
        """,
    )
    assert done.text == "reached itself\n"


@pytest.mark.parametrize(
    "target", ["/etc/passwd", "/opt/scrout/planted", "/opt/scrout/bin/x", "/opt/scrout/namespaces/x"]
)
async def test_what_scrout_put_there_is_read_only(shop: TaskSandbox, target: str) -> None:
    assert (await sh(shop, f"echo x >> {target}")).exit_code != 0


async def test_an_ordinary_user_without_capabilities(shop: TaskSandbox) -> None:
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
        "python3 -c 'import os; os.setuid(0)'",
        "python3 -c 'import os; os.setgroups([0])'",
        "chown 0 file.txt",
        "setpriv --reuid 0 true",
        "prlimit --pid $$ --nproc=100000:100000",
        "prlimit --pid 1 --nproc=100000:100000",
    ],
)
async def test_no_way_to_be_root_or_to_lift_a_limit(shop: TaskSandbox, attempt: str) -> None:
    assert (await sh(shop, attempt)).exit_code not in (0, None)


@pytest.mark.parametrize("more", ["", "--map-root-user", "--pid --fork", "--net", "--mount"])
async def test_no_user_namespace_can_be_made(shop: TaskSandbox, more: str) -> None:
    """In one a command would have capabilities again, and so most of the kernel's attack surface."""
    done = await sh(shop, f"unshare --user {more} id")
    assert done.exit_code != 0 and "uid=" not in done.text


async def test_the_ban_on_user_namespaces_cannot_be_lifted(shop: TaskSandbox) -> None:
    places = "/proc/sys/user/max_user_namespaces /opt/scrout/namespaces/max_user_namespaces"
    done = await sh(shop, f"for place in {places}; do echo 100 > $place; done; unshare --user id")
    assert done.exit_code != 0 and "uid=" not in done.text


async def test_the_hosts_own_limit_is_as_it_was(shop: TaskSandbox) -> None:
    with open("/proc/sys/user/max_user_namespaces") as file:  # noqa: ASYNC230, PTH123
        before = file.read()
    assert (await sh(shop, "unshare --user true")).exit_code not in (0, None)
    with open("/proc/sys/user/max_user_namespaces") as file:  # noqa: ASYNC230, PTH123
        assert file.read() == before


async def test_ptrace_of_the_sandboxs_own_init_fails_or_is_harmless(shop: TaskSandbox) -> None:
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


@pytest.mark.parametrize("place", ["/tmp", "/dev/shm"])
async def test_a_giant_file_in_memory_is_bounded(shop: TaskSandbox, place: str) -> None:
    done = await sh(shop, f"head -c 9000000 /dev/zero > {place}/big; stat -c %s {place}/big", file_mb=4)
    assert int(done.text.split()[-1]) <= 4 * 1024 * 1024


async def test_many_files_in_tmp_are_bounded(shop: TaskSandbox) -> None:
    done = await sh(shop, "for i in 1 2 3; do head -c 3000000 /dev/zero > /tmp/$i; done; du -sb /tmp", file_mb=4)
    assert "No space left" in done.text


async def test_many_empty_files_in_tmp_are_stopped(shop: TaskSandbox) -> None:
    """They cost memory of the kernel's that no size of a file system bounds."""
    done = await sh(shop, "cd /tmp && seq 5000 | xargs touch; sleep 30", files=2000)
    assert done.exit_code == 137 and "more than 2,000 files" in done.text
