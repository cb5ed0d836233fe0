"""The profile and command line of the macOS tier, which can be read anywhere; it is run in tests/contracts on macOS."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from scrout.sandbox.copies import at_host_paths
from scrout.sandbox.tier import Command, Copy, Limits, Mount
from scrout.sandbox.tiers.seatbelt import Seatbelt, profile


def command(folder: str = "/cache/w/upper", network: bool = False) -> Command:
    return Command(
        argv=["python", "/repo/x.py"],
        cwd="/repo",
        view=Copy(Path(folder), "/repo", Path("/cache/w/scratch"), 0, 0),
        mounts=(Mount(Path("/venv"), "/venv"), Mount(Path("/cache/w/out"), "/opt/scrout/outbox", writable=True)),
        env={"HOME": "/tmp/home", "SCROUT_WATCH_OUTBOX": "/opt/scrout/outbox"},
        limits=Limits(file_mb=2, open_files=50),
        network=network,
    )


def rules(text: str) -> list[str]:
    return text.splitlines()


def test_everything_is_denied_first_and_no_network_is_allowed() -> None:
    assert rules(profile(command()))[:2] == ["(version 1)", "(deny default)"]
    assert "network" not in profile(command())
    assert rules(profile(command(network=True)))[-1] == "(allow network*)"


def test_only_the_workspace_is_written() -> None:
    (written,) = [rule for rule in rules(profile(command())) if rule.startswith("(allow file-write*")]
    assert re.findall(r'\(subpath "([^"]*)"\)', written) == ["/cache/w/upper", "/cache/w/scratch", "/cache/w/out"]


def test_reading_is_limited_to_the_system_the_environment_and_the_workspace() -> None:
    read = next(rule for rule in rules(profile(command())) if rule.startswith("(allow file-read* (subpath"))
    folders = re.findall(r'\(subpath "([^"]*)"\)', read)
    assert {"/venv", "/cache/w/upper", "/usr"} <= set(folders)
    assert not {"/", "/Users", "/private", "/private/var", "/private/etc", "/Library", "/Volumes"} & set(folders)


@given(st.text(st.characters(exclude_characters="\0/", exclude_categories=("Cs",)), min_size=1, max_size=20))
def test_no_name_of_a_folder_breaks_out_of_its_quotes(name: str) -> None:
    plain, odd = profile(command("/cache/x")), profile(command(f"/cache/{name}"))
    unquoted = [re.sub(r'"(?:[^"\\]|\\.)*"', "", text, flags=re.DOTALL) for text in (plain, odd)]
    assert unquoted[0] == unquoted[1]


def test_the_command_line() -> None:
    argv = Seatbelt().argv(at_host_paths(command()))
    assert argv[:2] == ["/usr/bin/sandbox-exec", "-p"]
    assert argv[3:7] == ["/bin/sh", "-c", 'cd "$0" && exec "$@"', "/cache/w/upper"]
    assert argv[7:9] == ["/bin/sh", "-c"] and "ulimit -f 4096 && ulimit -n 50" in argv[9]
    assert argv[-2:] == ["python", "/cache/w/upper/x.py"]
