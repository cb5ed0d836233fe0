"""Ctrl-C and its relatives, at every stage: scrout ends soon with 130, leaves nothing behind, and can go on later."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scrout.models.chat import ToolCall
from scrout.models.scripted import Hang, ScriptedEndpoint, ScriptedReply
from scrout.money import Price, Usage
from scrout.trajectory import FILE_NAME, TrajectoryHeader, read

if TYPE_CHECKING:
    from conftest import Cli

TIMEOUT_S = 30.0
HANGING = """Something hangs. MARKER

```python
import time

from shop.cart import total

time.sleep(600)
assert total([1, 2]) == 3
```
"""


def holding(marker: str) -> list[int]:
    """Processes with this in their command line or working folder."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            text = (folder / "cmdline").read_bytes().decode(errors="replace") + str((folder / "cwd").readlink())
        except OSError:
            continue
        if marker in text and int(folder.name) != os.getpid():
            found.append(int(folder.name))
    return found


def mounts() -> list[str]:
    """Those of scrout's: other programs of the machine may mount what they like meanwhile."""
    lines = (line.split(" ", 2)[2] for line in Path("/proc/self/mountinfo").read_text().splitlines())
    return [line for line in lines if "scrout" in line or ("overlay" in line.split() and "containers" not in line)]


def leftovers(tmp_path: Path) -> list[Path]:
    cache = tmp_path / "xdg_cache_home" / "scrout"
    folders = [*(cache / "workspaces").glob("*"), *(cache / "bases").glob(".making-*")]
    return [folder for folder in folders if folder.is_dir()]


def wait_for(words: bytes, process: subprocess.Popen[bytes]) -> bytes:
    """Read standard error until these words pass by."""
    assert process.stderr is not None
    seen = b""
    while words not in seen:
        line = process.stderr.readline()
        assert line, f"ended before it said {words!r}: {seen.decode()}"
        seen += line
    return seen


def end(process: subprocess.Popen[bytes], number: int, *, group: bool) -> str:
    (os.killpg if group else os.kill)(process.pid, number)
    _, err = process.communicate(timeout=TIMEOUT_S)
    return err.decode()


def assert_clean(tmp_path: Path, before: list[str]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while holding(str(tmp_path)) and time.monotonic() < deadline:
        time.sleep(0.05)  # a killed namespace takes a moment to die
    assert holding(str(tmp_path)) == []
    assert mounts() == before
    assert leftovers(tmp_path) == []


# What scrout says when it gets there, the signal, and whether the whole process group receives it.
POINTS = [
    (b"copying the repository", signal.SIGTERM, False),
    pytest.param(b"copying the repository", signal.SIGINT, True, marks=pytest.mark.slow),
    pytest.param(b"scouting the repository", signal.SIGHUP, False, marks=pytest.mark.slow),
    pytest.param(b"replaying the scout's claim", signal.SIGINT, False, marks=pytest.mark.slow),
    (b"running the reproduction", signal.SIGHUP, True),
    pytest.param(b"checking the patch", signal.SIGINT, True, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("words", "number", "group"), POINTS, ids=lambda value: str(value))
def test_a_signal_at_any_stage(
    cli: Cli, shop_repo: Path, issue: Path, tmp_path: Path, words: bytes, number: int, group: bool
) -> None:
    before = mounts()
    with cli.started("fix", "--repo", shop_repo, "--issue", issue) as process:
        wait_for(words, process)
        said = end(process, number, group=group)
    assert (process.returncode, said.strip().splitlines()[-1]) == (130, "interrupted")
    assert "Traceback" not in said
    assert_clean(tmp_path, before)
    listed = cli("runs", "--json")
    assert listed.code == 0
    assert {run["outcome"] for run in json.loads(listed.out)} <= {"interrupted"}


def test_a_command_that_hangs_in_the_sandbox_dies_with_scrout(
    cli: Cli, shop_repo: Path, issue: Path, tmp_path: Path
) -> None:
    issue.write_text(HANGING)
    before = mounts()
    with cli.started("fix", "--repo", shop_repo, "--issue", issue) as process:
        wait_for(b"scouting", process)
        deadline = time.monotonic() + TIMEOUT_S
        while len(holding(str(tmp_path))) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        said = end(process, signal.SIGINT, group=False)
    assert process.returncode == 130, said
    assert_clean(tmp_path, before)


def agent_settings(folder: Path, base_url: str) -> Path:
    path = folder / "agent.toml"
    path.write_text(
        f'[[fixers]]\nname = "toy"\nkind = "agent"\nmodel = "toy-1"\nbase_url = "{base_url}"\n'
        "price = { input = 1.0, output = 2.0 }\n"
    )
    return path


@pytest.mark.slow
def test_a_call_to_a_hanging_endpoint(cli: Cli, shop_repo: Path, issue: Path, tmp_path: Path) -> None:
    before = mounts()
    with ScriptedEndpoint([ScriptedReply("never", fault=Hang(600))]) as endpoint:
        config = agent_settings(tmp_path, endpoint.base_url)
        with cli.started("fix", "--repo", shop_repo, "--issue", issue, "--config", config) as process:
            deadline = time.monotonic() + TIMEOUT_S
            while not endpoint.requests and time.monotonic() < deadline:
                time.sleep(0.05)
            said = end(process, signal.SIGTERM, group=False)
    assert process.returncode == 130, said
    assert_clean(tmp_path, before)
    (run,) = json.loads(cli("runs", "--json").out)
    assert (run["outcome"], run["attempts"]) == ("interrupted", [])
    assert cli("ledger", "audit").code == 0


PRICE = Price(input=Decimal(1), output=Decimal(2))
USAGE = Usage(input_tokens=900, output_tokens=50)


def bash(command: str) -> ScriptedReply:
    return ScriptedReply(calls=(ToolCall("c", "bash", json.dumps({"command": command})),), usage=USAGE)


@pytest.mark.parametrize("in_flight", [pytest.param(False, marks=pytest.mark.slow), True])
def test_what_an_interrupted_attempt_paid_is_in_the_ledger_and_the_next_has_the_rest(
    cli: Cli, shop_repo: Path, issue: Path, tmp_path: Path, in_flight: bool
) -> None:
    script = [bash("true"), ScriptedReply("never", fault=Hang(600))] if in_flight else [bash("sleep 600")]
    expected = PRICE.cost(USAGE)
    with ScriptedEndpoint([*script, ScriptedReply("Done.", usage=USAGE)]) as endpoint:
        config = agent_settings(tmp_path, endpoint.base_url)
        args = ("fix", "--repo", shop_repo, "--issue", issue, "--config", config, "-c", "fix.cap_usd=0.3")
        with cli.started(*args) as process:
            wait_for(b"toy: true" if in_flight else b"toy: sleep 600", process)
            deadline = time.monotonic() + TIMEOUT_S
            while len(endpoint.requests) < len(script) and time.monotonic() < deadline:
                time.sleep(0.05)
            said = end(process, signal.SIGINT, group=False)
        assert process.returncode == 130, said
        (run,) = json.loads(cli("runs", "--json").out)
        audited = cli("ledger", "audit", "--json")
        (attempt,) = cli(*args, "--json").json()["attempts"]
    assert (run["outcome"], run["attempts"]) == ("interrupted", [])
    if in_flight:  # at what was held: the prompt by a bound on its tokens, and all of the output
        expected += PRICE.cost(Usage(output_tokens=json.loads(endpoint.requests[1].body)["max_tokens"]))
        assert float(expected) < run["cost_usd"] < 2 * float(expected)
    else:
        assert run["cost_usd"] == float(expected)
    report = audited.json()
    assert (audited.code, report["runs"], report["receipts"], report["problems"]) == (0, 1, len(script), [])
    assert (report["estimated"], len(report["flags"])) == ((1, 1) if in_flight else (0, 0))
    header = next(read(Path(attempt["trace"]) / FILE_NAME))
    assert isinstance(header, TrajectoryHeader) and header.cap_usd == Decimal("0.3") - Decimal(str(run["cost_usd"]))


@pytest.mark.slow
def test_a_job_that_ignores_ctrl_c_still_ends_on_sigterm(
    cli: Cli, shop_repo: Path, issue: Path, tmp_path: Path
) -> None:
    """What a shell script's `scrout fix & kill $!` does."""
    before = mounts()

    def ignore() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    with cli.started("fix", "--repo", shop_repo, "--issue", issue, before=ignore) as process:
        wait_for(b"repair is at work", process)
        os.kill(process.pid, signal.SIGINT)
        said = end(process, signal.SIGTERM, group=False)
    assert process.returncode == 130, said
    assert_clean(tmp_path, before)


@pytest.mark.slow
def test_nohup_outlives_the_terminal(cli: Cli, shop_repo: Path, issue: Path) -> None:
    def ignore() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    issue.write_text("nothing here can be reproduced")
    with cli.started("fix", "--repo", shop_repo, "--issue", issue, "--json", before=ignore) as process:
        wait_for(b"scouting", process)
        os.killpg(process.pid, signal.SIGHUP)
        out, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1 and json.loads(out)["outcome"] == "not_solved"


@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_stopped(
    cli: Cli, shop_repo: Path, issue: Path, tmp_path: Path, make_repo: Callable[..., Path]
) -> None:
    before = mounts()
    with cli.started("fix", "--repo", shop_repo, "--issue", issue) as process:
        wait_for(b"repair is at work", process)
        end(process, signal.SIGKILL, group=False)
    (killed,) = json.loads(cli("runs", "--json").out)
    assert killed["outcome"] == "interrupted" and killed["gated"]["kept"]
    again = cli("fix", "--repo", shop_repo, "--issue", issue, "--json")
    assert again.code == 0, again.err
    assert (again.json()["id"], again.json()["outcome"]) == (killed["id"], "solved")
    assert "scouting the repository" not in again.err  # done before the kill, and not again
    assert_clean(tmp_path, before)


def test_what_a_killed_attempt_paid_is_booked_when_the_run_goes_on(
    cli: Cli, shop_repo: Path, issue: Path, tmp_path: Path
) -> None:
    script = [
        bash("true"),
        ScriptedReply("never", fault=Hang(600)),
        bash(r"sed -i 's/prices\[1:\]/prices/' shop/cart.py"),
        ScriptedReply("Done.", usage=USAGE),
    ]
    with ScriptedEndpoint(script) as endpoint:
        config = agent_settings(tmp_path, endpoint.base_url)
        args = ("fix", "--repo", shop_repo, "--issue", issue, "--config", config)
        with cli.started(*args) as process:
            deadline = time.monotonic() + TIMEOUT_S
            while len(endpoint.requests) < 2 and time.monotonic() < deadline:
                time.sleep(0.05)
            end(process, signal.SIGKILL, group=False)
        (killed,) = json.loads(cli("runs", "--json").out)
        again = cli(*args, "--json")
    assert again.code == 0, again.err
    run = again.json()
    assert killed["outcome"] == "interrupted" and killed["id"] == run["id"]
    assert "scouting the repository" not in again.err  # done before the kill, and not again
    (attempt,) = run["attempts"]
    assert (run["outcome"], attempt["calls"]) == ("solved", 2)
    sent = json.loads(endpoint.requests[1].body)
    assert run["cost_usd"] > attempt["cost_usd"] == float(2 * PRICE.cost(USAGE))
    held = PRICE.cost(Usage(output_tokens=sent["max_tokens"]))
    assert run["cost_usd"] - attempt["cost_usd"] > float(PRICE.cost(USAGE) + held), "one call, and one that was cut off"
    audited = cli("ledger", "audit", "--json")
    assert (audited.code, audited.json()["receipts"], audited.json()["problems"]) == (0, 4, [])


@pytest.mark.slow
def test_what_a_killed_run_paid_is_shown_without_going_on_with_it(
    cli: Cli, shop_repo: Path, issue: Path, tmp_path: Path
) -> None:
    with ScriptedEndpoint([bash("sleep 600")]) as endpoint:
        config = agent_settings(tmp_path, endpoint.base_url)
        with cli.started("fix", "--repo", shop_repo, "--issue", issue, "--config", config) as process:
            wait_for(b"toy: sleep 600", process)
            # As if the receipt had not got there in time.
            end(process, signal.SIGKILL, group=False)
    (run,) = json.loads(cli("runs", "--json").out)
    assert (run["outcome"], run["cost_usd"]) == ("interrupted", float(PRICE.cost(USAGE)))
    report = cli("ledger", "audit", "--json").json()
    assert (report["runs"], report["receipts"], report["problems"], report["estimated"]) == (1, 1, [], 0)
