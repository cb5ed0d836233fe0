"""One suite for every isolation tier that works here: how commands run under it, and attempts to get out of it.

Each attempt attacks one property. The unsafe tier passes the first half alone. Containers need an engine, so they are
only tried with `-m container`; every other tier but the strongest is tried with `-m slow`.
"""

from __future__ import annotations

import asyncio
import errno
import io
import os
import platform
import secrets
import shlex
import socket
import subprocess
import sys
import tarfile
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from scrout.config.settings import SandboxSettings, Settings
from scrout.sandbox.probe import probe
from scrout.sandbox.task_sandbox import TaskSandbox, open_task_sandbox
from scrout.sandbox.tier import Command, Completed, Mount, Tier
from scrout.sandbox.tiers.bubblewrap import Bubblewrap
from scrout.sandbox.tiers.container import Container, engine_environment, find_engine
from scrout.sandbox.workspace import Workspace, find_source
from scrout.task import Task

CONTAINER = pytest.param("container", marks=pytest.mark.container)
WARM = "bubblewrap, warm"
OTHERS = [pytest.param(name, marks=pytest.mark.slow) for name in ("bubblewrap on copies", WARM)]
SANDLOCK = pytest.param("sandlock", marks=pytest.mark.slow)
MOUNTING = ["bubblewrap", *OTHERS, CONTAINER]
ISOLATING = ["bubblewrap", *OTHERS, SANDLOCK, "seatbelt", CONTAINER]
ALL = [*ISOLATING, pytest.param("unsafe", marks=pytest.mark.slow)]
SECRET = "planted-" + secrets.token_hex(8)
IMAGE = "localhost/scrout-contract-empty"


@dataclass(frozen=True)
class Here:
    """What a name of the parameters stands for on this machine."""

    tier: Tier | None
    why_not: str


@pytest.fixture(scope="session")
def tiers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Here]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("probe")))
        found: dict[str, Here] = {}
        for name in ("bubblewrap", "sandlock", "seatbelt", "unsafe"):
            probed = probe(SandboxSettings.model_validate({"tier": name}))
            found[name] = Here(probed.tier, probed.detail)
        strongest = found["bubblewrap"].tier
        copying = Bubblewrap(strongest.program, overlays=False) if isinstance(strongest, Bubblewrap) else None
        found["bubblewrap on copies"] = Here(copying, found["bubblewrap"].why_not)
        found[WARM] = found["bubblewrap"]
        return found


class WithSystem(Container):
    """An image that holds nothing, and the host's programs."""

    def argv(self, command: Command, name: str) -> list[str]:
        return super().argv(replace(command, mounts=(Mount(Path("/usr"), "/usr"), *command.mounts)), name)


class Warmed(TaskSandbox):
    """Runs shell commands as an agent's are: in a sandbox that others have used before."""

    async def shell(self, workspace: Workspace, command: str, *, timeout_s: float | None = None) -> Completed:
        async with self.session(workspace) as session:
            assert (await session.shell("true")).exit_code == 0
            return await session.shell(command, timeout_s=timeout_s)


@pytest.fixture(scope="session")
def engine() -> Iterator[Here]:
    """A container engine with an image that holds nothing: the host's /usr is mounted into it."""
    program, why = find_engine()
    if not program:
        yield Here(None, why)
        return
    root = io.BytesIO()
    with tarfile.open(fileobj=root, mode="w") as archive:
        for name in ("tmp", "usr", "etc", "opt", "proc", "dev", "sys", "run", "var"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            archive.addfile(folder)
        for name in ("bin", "sbin", "lib", "lib64"):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
            archive.addfile(link)
    env = dict(engine_environment())
    subprocess.run([program, "import", "-", IMAGE], input=root.getvalue(), env=env, check=True, capture_output=True)
    tried = subprocess.run(
        [program, "run", "--rm", "--init", "-v", "/usr:/usr:ro", IMAGE, "/bin/true"],
        env=env,
        check=False,
        capture_output=True,
        text=True,
    )
    yield Here(WithSystem(program, IMAGE), "") if tried.returncode == 0 else Here(None, tried.stderr)
    subprocess.run([program, "rmi", "--force", IMAGE], env=env, check=False, capture_output=True)


@pytest.fixture(scope="module")
def shop(
    request: pytest.FixtureRequest, tiers: dict[str, Here], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TaskSandbox]:
    """One task sandbox for all tests of a tier: each of them takes fresh workspaces."""
    here: Here = request.getfixturevalue("engine") if request.param == "container" else tiers[request.param]
    if here.tier is None:
        pytest.skip(f"no {request.param} here: {here.why_not}")
    folder = tmp_path_factory.mktemp("shop")
    repo = folder / "repo"
    repo.mkdir()
    (repo / "file.txt").write_text("tracked\n")
    (repo / "run.sh").write_text("exit 3\n")
    for step in ("init -q", "add --all", "-c user.name=a -c user.email=b commit -q -m base"):
        subprocess.run(["git", *step.split()], cwd=repo, check=True)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        environment.setenv("PATH", str(Path(sys.base_prefix, "bin")), prepend=os.pathsep)
        source = find_source(repo)
        task = Task(id="task", text="an issue", repo=source.repo, base_commit=source.head)
        with open_task_sandbox(task, here.tier, Settings()) as opened:
            form = Warmed if request.param == WARM else TaskSandbox
            yield form(opened.workspaces, opened.tier, opened.environment, opened.limits)


every_tier = pytest.mark.parametrize("shop", ALL, indirect=True)
isolating = pytest.mark.parametrize("shop", ISOLATING, indirect=True)
mounting = pytest.mark.parametrize("shop", MOUNTING, indirect=True)


async def sh(shop: TaskSandbox, command: str, timeout_s: float = 20, **limits: int) -> Completed:
    """A shell command in a fresh workspace, with some limits changed."""
    tight = type(shop)(shop.workspaces, shop.tier, shop.environment, replace(shop.limits, **limits))
    return await tight.shell(tight.fresh(), command, timeout_s=timeout_s)


async def py(shop: TaskSandbox, source: str, timeout_s: float = 20, **limits: int) -> Completed:
    return await sh(shop, f"python3 -c {shlex.quote(textwrap.dedent(source))}", timeout_s, **limits)


def spelled(path: Path | str) -> str:
    """A host path for a shell, spelled so that no tier recognises and moves it."""
    return "/''" + shlex.quote(str(path)[1:])


def processes_with(marker: str) -> list[str]:
    """Host processes whose command line holds the marker, this one left out."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if folder.name != str(os.getpid()) and marker.encode() in (folder / "cmdline").read_bytes():
                found.append(folder.name)
    return found


async def assert_gone(marker: str) -> None:
    for _ in range(60):
        if not processes_with(marker):
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"still running: {processes_with(marker)}")


# How commands run


@every_tier
async def test_exit_codes_and_signals(shop: TaskSandbox) -> None:
    assert (await sh(shop, "exit 3")).exit_code == 3
    assert (await sh(shop, "bash run.sh")).exit_code == 3
    assert (await sh(shop, "kill -9 $$")).exit_code == 137
    assert (await sh(shop, "false | cat")).exit_code == 1
    assert (await shop.run(shop.fresh(), ["no-such-program"])).exit_code == 127


@every_tier
async def test_standard_error_and_output_keep_their_order(shop: TaskSandbox) -> None:
    assert (await sh(shop, "echo one; echo two >&2; echo three")).text == "one\ntwo\nthree\n"


@every_tier
async def test_input_reaches_the_command_and_may_be_ignored(shop: TaskSandbox) -> None:
    assert (await shop.run(shop.fresh(), ["cat"], stdin=b"given")).text == "given"
    assert (await shop.run(shop.fresh(), ["true"], stdin=b"x" * 1_000_000)).exit_code == 0


@every_tier
async def test_a_command_starts_at_the_repositorys_root(shop: TaskSandbox) -> None:
    done = await sh(shop, f"pwd -P; cat {shop.base.repo}/file.txt")
    assert done.text == f"{shop.base.repo}\ntracked\n"


@mounting
async def test_the_root_is_the_repositorys_own_path(shop: TaskSandbox) -> None:
    assert shop.root(shop.fresh()) == shop.base.repo


@every_tier
async def test_temporary_files_and_a_home_are_there(shop: TaskSandbox) -> None:
    done = await py(shop, "import tempfile, pathlib; tempfile.mkdtemp(); (pathlib.Path.home() / 'x').write_text('y')")
    assert (done.exit_code, done.text) == (0, "")


@every_tier
async def test_changes_stay_in_their_workspace_and_make_a_diff(shop: TaskSandbox) -> None:
    workspace = shop.fresh()
    await shop.shell(workspace, "echo changed > file.txt; rm run.sh; mkdir -p a/b; echo new > a/b/new.txt")
    assert set(workspace.changed()) == {"file.txt", "run.sh", "a/b/new.txt"}
    assert workspace.read("a/b/new.txt") == b"new\n" and workspace.read("run.sh") is None
    workspace.write("a/b/more.txt", b"more\n")
    patch = await shop.diff(workspace)
    assert "+changed" in patch and "deleted file" in patch and "+new" in patch and "+more" in patch
    other = shop.fresh()
    assert set(other.changed()) == set() and other.read("file.txt") == b"tracked\n"
    assert await shop.apply(other, patch) == ""
    assert await shop.diff(other) == patch


@every_tier
async def test_the_base_and_the_users_repository_stay_as_they_are(shop: TaskSandbox) -> None:
    done = await sh(shop, "echo changed > file.txt && rm -rf .git && echo new > new.txt && cat file.txt")
    assert done.text == "changed\n"
    for tree in (shop.base.tree, shop.base.repo):
        assert (tree / "file.txt").read_text() == "tracked\n"
        assert (tree / ".git").is_dir()
        assert not (tree / "new.txt").exists()


@every_tier
async def test_a_command_cannot_pass_for_a_broken_sandbox(shop: TaskSandbox) -> None:
    """Infrastructure failures are not counted against a model, so a command must not be able to claim one."""
    done = await sh(shop, "echo 'bwrap: no isolation today' >&2; exit 1")
    assert (done.exit_code, done.text) == (1, "bwrap: no isolation today\n")


# Bounds that hold without isolation too


@every_tier
async def test_the_callers_environment_is_not_inherited(shop: TaskSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", SECRET)
    done = await sh(shop, "env")
    assert "PATH=" in done.text and SECRET not in done.text


@every_tier
async def test_giant_output_is_bounded_and_keeps_both_ends(shop: TaskSandbox) -> None:
    done = await sh(shop, "echo first; head -c 30000000 /dev/zero | tr '\\0' x; echo; echo last", output_bytes=10_000)
    assert done.exit_code == 0
    assert len(done.output) < 10_100
    assert done.text.startswith("first\n") and done.text.endswith("last\n") and "bytes left out" in done.text


@every_tier
async def test_a_giant_file_is_bounded(shop: TaskSandbox) -> None:
    done = await sh(shop, "head -c 9000000 /dev/zero > big; stat -c %s big", file_mb=4)
    assert int(done.text.split()[-1]) <= 4 * 1024 * 1024


@every_tier
async def test_open_files_are_bounded(shop: TaskSandbox) -> None:
    done = await py(shop, "import os\nkept = [os.dup(0) for _ in range(500)]", open_files=100)
    assert done.exit_code == 1 and "Too many open files" in done.text


@every_tier
@pytest.mark.usefixtures("alone")
async def test_a_memory_hog_dies(shop: TaskSandbox) -> None:
    done = await py(shop, "x = bytearray(900_000_000); print('got it')", memory_mb=256)
    assert done.exit_code not in (0, None)
    assert "got it" not in done.text


HOGS = """
import os, time
for _ in range(4):
    if os.fork() == 0:
        held = bytearray(150_000_000)
        for place in range(0, len(held), 4096):
            held[place] = 1
        print("held", flush=True)
        time.sleep(30)
time.sleep(30)
"""


@every_tier
@pytest.mark.usefixtures("alone")
async def test_many_processes_that_eat_memory_together_are_stopped(shop: TaskSandbox) -> None:
    done = await py(shop, HOGS, total_memory_mb=300, timeout_s=3)
    refused = done.text.count("held") <= 2
    assert refused or (done.exit_code == 137 and "more than 300 MB of memory together" in done.text)


@every_tier
async def test_many_files_that_fill_the_disk_are_stopped(shop: TaskSandbox) -> None:
    fill = "for i in $(seq 40); do head -c 1000000 /dev/zero > $i; done; sleep 30"
    done = await sh(shop, fill, disk_mb=20, file_mb=2)
    assert done.exit_code == 137 and "grew by more than 20 MB" in done.text


@every_tier
async def test_too_many_files_are_stopped(shop: TaskSandbox) -> None:
    done = await sh(shop, "seq 3000 | xargs touch; sleep 30", files=1000)
    assert done.exit_code == 137 and "more than 1,000 files" in done.text


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
        print("outlived", flush=True)
    os._exit(0)
time.sleep({wait})
"""
CLOSED = "os.closerange(0, 100)"


def stubborn(marker: str, *, wait: float, close: str = "pass") -> str:
    return "python3 -c " + shlex.quote(STUBBORN.format(marker=marker, wait=wait, close=close))


@every_tier
@pytest.mark.parametrize("close", ["pass", CLOSED])
async def test_a_daemon_does_not_survive_the_end_of_its_command(shop: TaskSandbox, close: str) -> None:
    marker = "daemon-" + secrets.token_hex(6)
    done = await sh(shop, stubborn(marker, wait=0.2, close=close))
    assert done.exit_code == 0 and "outlived" not in done.text
    await assert_gone(marker)


@every_tier
async def test_a_daemon_does_not_survive_the_time_limit(shop: TaskSandbox) -> None:
    marker = "daemon-" + secrets.token_hex(6)
    done = await sh(shop, stubborn(marker, wait=60), timeout_s=1)
    assert done.timed_out and "outlived" not in done.text
    await assert_gone(marker)


@every_tier
async def test_cancelling_leaves_no_process(shop: TaskSandbox) -> None:
    marker = "daemon-" + secrets.token_hex(6)
    task = asyncio.create_task(sh(shop, stubborn(marker, wait=60)))
    for _ in range(100):
        await asyncio.sleep(0.05)
        if len(processes_with(marker)) > 1:
            break
    assert processes_with(marker)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await assert_gone(marker)


# Reading


@isolating
async def test_no_process_inside_holds_the_callers_environment(
    shop: TaskSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", SECRET)
    done = await sh(shop, "cat /proc/*/environ /proc/*/task/*/environ 2>/dev/null | tr '\\0' '\\n'; true")
    assert SECRET not in done.text


@isolating
async def test_the_home_folder_is_hidden(shop: TaskSandbox) -> None:
    home = Path(os.environ["HOME"])
    (home / ".netrc").write_text(SECRET)
    done = await sh(shop, f"cat {spelled(home)}/.netrc ~/.netrc; ls -la {spelled(home)}")
    assert SECRET not in done.text
    assert ".netrc\n" not in done.text


@isolating
async def test_the_users_own_work_tree_is_hidden(shop: TaskSandbox) -> None:
    (shop.base.repo / "untracked.env").write_text(SECRET)
    done = await sh(shop, f"cat {spelled(shop.base.repo)}/untracked.env; grep -rs {SECRET[:8]} .; true")
    assert SECRET not in done.text


@isolating
async def test_another_workspace_is_hidden(shop: TaskSandbox) -> None:
    other = shop.fresh()
    other.write("mine.txt", SECRET.encode())
    place = spelled(other.folder)
    done = await sh(shop, f"cat {place}/upper/mine.txt mine.txt; ls {place}; grep -rs {SECRET[:8]} {place}; true")
    assert SECRET not in done.text


@isolating
async def test_host_processes_are_out_of_reach(shop: TaskSandbox) -> None:
    marker = "host-" + secrets.token_hex(8)
    script = "import time; time.sleep(30)"
    host = await asyncio.create_subprocess_exec(sys.executable, "-c", script, marker, env={"KEY": SECRET})
    try:
        done = await sh(shop, "cat /proc/*/cmdline /proc/*/environ 2>/dev/null | tr '\\0' ' '; ls /proc")
        assert "cat" in done.text
        assert marker not in done.text and SECRET not in done.text
        assert (await sh(shop, f"kill -9 {host.pid}")).exit_code != 0
        assert (await sh(shop, f"cat /proc/{host.pid}/environ /proc/{host.pid}/maps")).exit_code != 0
        assert (await sh(shop, f"ls /proc/{host.pid}/root/ /proc/{host.pid}/cwd/ /proc/{host.pid}/fd/")).exit_code != 0
        assert host.returncode is None
    finally:
        host.kill()
        await host.wait()


@isolating
async def test_a_command_cannot_kill_what_runs_it(shop: TaskSandbox) -> None:
    done = await sh(shop, "kill -9 $PPID 1; kill -9 -1; echo here")
    assert done.exit_code is not None  # its own tree it may kill
    assert (await sh(shop, "echo fine")).text == "fine\n"


@isolating
@pytest.mark.parametrize(
    "path", ["/etc/shadow", "/etc/sudoers", "/root/.bashrc", "/root", "/home", "/var/log", "/var/lib"]
)
async def test_system_secrets_are_not_to_be_read(shop: TaskSandbox, path: str) -> None:
    done = await sh(shop, f"cat {path} || ls {path}/*")
    assert done.exit_code != 0
    assert "root:x" not in done.text and "root:*" not in done.text


@isolating
async def test_a_symlink_out_of_the_workspace_leads_nowhere(shop: TaskSandbox, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    at = spelled(victim)
    done = await sh(shop, f"ln -s {at} link; cat link; echo x > link; ln {at} hard; cat hard; cp {at} copy; cat copy")
    assert "untouched" not in done.text
    assert victim.read_text() == "untouched"


@isolating
async def test_the_kernels_own_secrets_are_not_to_be_read(shop: TaskSandbox) -> None:
    assert (await sh(shop, "cat /dev/mem || cat /dev/kmsg || cat /proc/kcore || dmesg")).exit_code != 0


# Writing


@isolating
@pytest.mark.parametrize("target", ["/usr/planted", "/etc/planted", "/planted", "/var/tmp/planted", "/opt/planted"])
async def test_nothing_outside_the_repository_is_writable(shop: TaskSandbox, target: str) -> None:
    done = await sh(shop, f"echo x > {target}")
    assert done.exit_code != 0
    assert not os.path.lexists(target)  # noqa: ASYNC240


@isolating
async def test_the_environment_and_the_shared_files_are_read_only(shop: TaskSandbox) -> None:
    prefix = Path(shop.environment.python).parent
    done = await sh(
        shop, f"echo x > {prefix}/planted; echo x > /opt/scrout/bin/planted; rm /opt/scrout/bin/python; true"
    )
    assert not (prefix / "planted").exists() and not (shop.workspaces.shared / "bin" / "planted").exists(), done.text
    assert (shop.workspaces.shared / "bin" / "python").is_symlink() != shop.tier.brings_tools


@isolating
async def test_a_hard_link_cannot_reach_the_base(shop: TaskSandbox) -> None:
    base = spelled(shop.base.tree / "file.txt")
    await sh(shop, f"ln file.txt other.txt && echo changed > other.txt; ln {base} own.txt && echo x > own.txt")
    assert (shop.base.tree / "file.txt").read_text() == "tracked\n"


@isolating
async def test_a_renamed_folder_cannot_leave_the_workspace(shop: TaskSandbox, tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o777)
    await sh(shop, f"mkdir d; touch d/planted; mv d {spelled(tmp_path / 'open')}/; true")
    assert list((tmp_path / "open").iterdir()) == []


# Network


@isolating
async def test_tcp_to_the_hosts_loopback_fails(shop: TaskSandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        port = server.getsockname()[1]
        done = await py(shop, f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)")
        assert done.exit_code != 0
        with pytest.raises(TimeoutError):
            server.accept()


@isolating
async def test_tcp_over_version_six_fails(shop: TaskSandbox) -> None:
    try:
        server = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this host has no IPv6 loopback")
    with server:
        server.settimeout(0.2)
        done = await py(shop, f"import socket; socket.create_connection(('::1', {server.getsockname()[1]}), 2)")
        assert done.exit_code != 0
        with pytest.raises(TimeoutError):
            server.accept()


@isolating
async def test_udp_to_the_hosts_loopback_is_lost(shop: TaskSandbox) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(0.2)
        port = server.getsockname()[1]
        await py(shop, f"import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {port}))")
        with pytest.raises(TimeoutError):
            server.recv(1)


@isolating
async def test_abstract_unix_sockets_of_the_host_are_unreachable(shop: TaskSandbox) -> None:
    name = "\0scrout-" + secrets.token_hex(8)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        server.settimeout(0.2)
        done = await py(shop, f"import socket; socket.socket(socket.AF_UNIX).connect({name!r})")
        assert done.exit_code != 0
        with pytest.raises(TimeoutError):
            server.accept()


@isolating
async def test_unix_sockets_in_the_hosts_folders_are_unreachable(shop: TaskSandbox, tmp_path: Path) -> None:
    """Such as the one of a container engine, which would be the whole host."""
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        path.chmod(0o777)
        server.listen()
        server.settimeout(0.2)
        done = await py(shop, f"import socket; socket.socket(socket.AF_UNIX).connect('/' + {str(path)[1:]!r})")
        assert done.exit_code != 0
        with pytest.raises(TimeoutError):
            server.accept()


@isolating
async def test_no_route_out_and_no_names(shop: TaskSandbox) -> None:
    done = await py(
        shop,
        """
        import socket
        try:
            socket.getaddrinfo("example.org", 80)
            print("a name")
        except OSError:
            pass
        for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
            try:
                with socket.socket(type=kind) as out:
                    out.settimeout(2)
                    out.connect(("192.0.2.1", 53))
                    print("a route", kind)
            except OSError:
                pass
        """,
    )
    assert (done.exit_code, done.text) == (0, "")


@isolating
@pytest.mark.parametrize("kind", ["socket.AF_INET, socket.SOCK_RAW, 1", "socket.AF_PACKET, socket.SOCK_RAW"])
async def test_raw_sockets_are_refused(shop: TaskSandbox, kind: str) -> None:
    assert (await py(shop, f"import socket; socket.socket({kind})")).exit_code != 0


# Privileges


@isolating
async def test_no_capabilities_and_no_new_privileges(shop: TaskSandbox) -> None:
    done = await sh(shop, "grep -E '^(Cap(Inh|Prm|Eff|Amb)|NoNewPrivs)' /proc/self/status")
    status = dict(line.split(":\t") for line in done.text.splitlines())
    assert status.pop("NoNewPrivs") == "1"
    assert len(status) == 4 and set(status.values()) == {"0" * 16}


@isolating
@pytest.mark.parametrize(
    "attempt",
    [
        "mount -t tmpfs none /tmp",
        "umount /proc",
        "mount -o remount,rw /",
        "mknod disk b 8 0",
        "chroot / true",
        "unshare --user --map-root-user true",
        "unshare --net true",
        "unshare --mount true",
        "nsenter -t 1 -m true",
        "python3 -c 'import os; os.setgroups([0, 1])'",
        "chown 12 file.txt",
        "python3 -c 'import socket; socket.sethostname(\"other\")'",
        "prlimit --pid $$ --fsize=unlimited:unlimited",
        "prlimit --pid 1 --nofile=100000:100000",
        "setpriv --reuid 12 true",
        "echo 0 > /proc/sys/kernel/randomize_va_space",
        "echo b > /proc/sysrq-trigger",
        "date -s 2001-01-01",
        "chattr +i file.txt",
        "python3 -c 'import os; os.nice(-1)'",
        "python3 -c 'import os; os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(5))'",
    ],
)
async def test_a_privileged_attempt_fails(shop: TaskSandbox, attempt: str) -> None:
    if attempt.startswith("unshare --user") and shop.tier.name == "container":
        pytest.skip("the engine's seccomp profile decides: Docker's forbids it, Podman's does not")
    assert (await sh(shop, attempt)).exit_code not in (0, None)


SYSCALL = """
import ctypes
kernel = ctypes.CDLL(None, use_errno=True)
kernel.syscall({number}, 0, 0, 0, 0)
print(ctypes.get_errno())
"""


@isolating
@pytest.mark.skipif(platform.machine() != "x86_64", reason="other machines number their calls otherwise")
@pytest.mark.parametrize("number", [169, 175, 246, 163], ids=["reboot", "init_module", "kexec_load", "acct"])
async def test_calls_for_administrators_are_refused(shop: TaskSandbox, number: int) -> None:
    done = await py(shop, SYSCALL.format(number=number))
    assert int(done.text) in (errno.EPERM, errno.EACCES, errno.ENOSYS)


@isolating
async def test_setuid_programs_gain_nothing(shop: TaskSandbox) -> None:
    as_whom = shop.tier.user
    done = await sh(shop, "cp /usr/bin/id . && chmod u+s id && ./id -u; su -c id -s /bin/sh root < /dev/null; true")
    assert done.text.split("\n")[0] in (str(as_whom), "")
    assert "CapEff:\t0000000000000000" in (await sh(shop, "grep CapEff /proc/self/status")).text


# Processes

BOMB = """
import os, time
marker = "{marker}"
count = 0
while True:
    try:
        pid = os.fork()
    except OSError:
        print("refused after", count, flush=True)
        break
    if pid == 0:
        time.sleep(60)
    count += 1
time.sleep(60)
"""


@isolating
@pytest.mark.usefixtures("alone")
async def test_a_fork_bomb_is_bounded_and_ends(shop: TaskSandbox) -> None:
    if shop.tier.name == "seatbelt":
        pytest.skip("macOS counts processes of the whole user")
    marker = "bomb-" + secrets.token_hex(6)
    peak = 0
    task = asyncio.create_task(py(shop, BOMB.format(marker=marker), timeout_s=3, processes=20))
    while not task.done():
        peak = max(peak, len(processes_with(marker)))
        await asyncio.sleep(0.1)
    done = await task
    assert done.timed_out
    assert "refused after" in done.text
    assert 5 < peak <= 30
    await assert_gone(marker)


@isolating
@pytest.mark.usefixtures("alone")
async def test_a_bomb_that_detaches_every_child_ends_too(shop: TaskSandbox) -> None:
    marker = "bomb-" + secrets.token_hex(6)
    script = f"""
        import os, time
        marker = "{marker}"
        def spread():
            for _ in range(2):
                try:
                    if os.fork() == 0:
                        os.setsid()
                        spread()
                except OSError:
                    time.sleep(0.01)
            time.sleep(60)
        spread()
        """
    done = await py(shop, script, timeout_s=1, processes=30)
    assert done.timed_out
    await assert_gone(marker)


@isolating
@pytest.mark.usefixtures("alone")
async def test_a_bomb_in_one_sandbox_leaves_others_room(shop: TaskSandbox) -> None:
    bomb = asyncio.create_task(sh(shop, "for i in $(seq 40); do sleep 3 & done 2>/dev/null; wait", 1, processes=20))
    await asyncio.sleep(0.5)
    assert (await sh(shop, "(true) && (true) | cat && echo fine", processes=20)).text == "fine\n"
    await bomb
