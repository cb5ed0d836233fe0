"""A replay tells what ran; what a command forges in its report is dropped and never breaks the host."""

from __future__ import annotations

import asyncio
import json
import shlex
import textwrap
import threading

import pytest

from scrout.sandbox.replay import MOST_REPORT_BYTES, Raised, replay

MODULE = "def half(x):\n    if x < 0:\n        raise ValueError('negative')\n    return x / 2\n"


@pytest.fixture(scope="module")
def shop(shared_task_sandbox):  # type: ignore[no-untyped-def]
    with shared_task_sandbox({"pkg/mod.py": MODULE, "run.py": "from pkg import mod\nmod.half(-1)\n"}) as opened:
        yield opened


async def test_lines_and_exceptions_are_seen(shop) -> None:
    done = await replay(shop, shop.fresh(), "python run.py", watch=True)
    assert done.exit_code == 1 and "ValueError: negative" in done.output
    assert done.execution_trace is not None
    assert done.execution_trace.lines["pkg/mod.py"] == {1, 2, 3}
    assert Raised("pkg/mod.py", 3, "half", "ValueError", "negative") in done.execution_trace.raised


async def test_a_pipe_does_not_hide_a_failure(shop) -> None:
    done = await replay(shop, shop.fresh(), "python run.py 2>&1 | tail -1")
    assert (done.exit_code, done.output) == (1, "ValueError: negative\n")
    assert done.execution_trace is None


async def test_the_time_limit_and_a_kill(shop) -> None:
    done = await replay(shop, shop.fresh(), "sleep 9", timeout_s=0.5)
    assert done.exit_code is None and not done.killed
    assert (await replay(shop, shop.fresh(), "kill -9 $$")).killed


async def test_aliases_are_the_repository(shop) -> None:
    done = await replay(shop, shop.fresh(), "cat /testbed/run.py", aliases=("/testbed",))
    assert done.output.startswith("from pkg")


FORGED = {
    "pipe": "mkfifo $OUT/watch-1.json",
    "folder": "mkdir -p $OUT/watch-1.json/x",
    "symlink": "ln -s /etc/passwd $OUT/watch-1.json",
    "huge": "head -c 30000000 /dev/zero > $OUT/watch-1.json",
    "deep": "python3 -S -c \"print('[' * 200000)\" > $OUT/watch-1.json",
    "infinite": 'echo \'{"lines": {"REPO/a": [1e999]}, "raised": []}\' > $OUT/watch-1.json',
    "long number": "echo '{\"lines\": {\"REPO/a\": ['$(printf 9%.0s $(seq 5000))']}}' > $OUT/watch-1.json",
    "not an object": "echo '[1]' > $OUT/watch-1.json",
    "not JSON": "printf '\\xff\\xfe{' > $OUT/watch-1.json",
    "closed": "echo '{}' > $OUT/watch-1.json; chmod 000 $OUT/watch-1.json",
}


@pytest.mark.parametrize("forgery", FORGED.values(), ids=FORGED.keys())
async def test_a_forged_report_is_no_evidence(shop, forgery: str) -> None:
    workspace = shop.fresh()
    command = forgery.replace("$OUT", "/opt/scrout/outbox").replace("REPO", str(shop.base.repo))
    assert (await replay(shop, workspace, command, watch=True)).execution_trace is None
    assert (await replay(shop, workspace, "python run.py", watch=True)).execution_trace is not None


async def test_reports_of_a_command_are_bounded_together(shop) -> None:
    """Each one is small enough, all of them are not: what is beyond the bound is no report."""
    source = f"""
        import json
        for number in range(1, 13):
            told = json.dumps({{"lines": {{"{shop.base.repo}/run.py": [number]}}, "raised": []}})
            open(f"/opt/scrout/outbox/watch-{{number}}.json", "w").write(told + " " * 1_000_000)
        """
    command = f"python3 -S -c {shlex.quote(textwrap.dedent(source))}"
    execution_trace = (await replay(shop, shop.fresh(), command, watch=True)).execution_trace
    assert execution_trace is not None
    assert 1 <= len(execution_trace.lines["run.py"]) <= MOST_REPORT_BYTES // 1_000_000


async def test_reports_are_read_while_the_event_loop_goes_on(shop, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, loop_went_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def slow(text: bytes) -> object:
        loop.call_soon_threadsafe(reading.set)
        assert loop_went_on.wait(timeout=20)
        return json_loads(text)

    json_loads = json.loads
    monkeypatch.setattr("scrout.sandbox.replay.json.loads", slow)
    running = asyncio.create_task(replay(shop, shop.fresh(), "python run.py", watch=True))
    await reading.wait()
    loop_went_on.set()
    assert (await running).execution_trace is not None


async def test_paths_outside_and_broken_text_are_dropped(shop) -> None:
    repo = str(shop.base.repo)
    forged = {
        "lines": {"/etc/passwd": [1], f"{repo}/../x": [1], f"{repo}/a\nb": [1], f"{repo}/run.py": [2]},
        "raised": [["/etc/passwd", 1, "f", "E", "m"], [f"{repo}/run.py", 2, "f", "E", "half \ud800"]],
    }
    command = f"echo {shlex.quote(json.dumps(forged))} > /opt/scrout/outbox/watch-1.json"
    execution_trace = (await replay(shop, shop.fresh(), command, watch=True)).execution_trace
    assert execution_trace is not None
    assert execution_trace.lines == {"run.py": frozenset({2})}
    assert execution_trace.raised == (Raised("run.py", 2, "f", "E", "half ?"),)


async def test_a_script_without_a_file_is_seen_and_generated_code_is_not(make_repo, task_sandbox) -> None:
    source = "from dataclasses import dataclass\n\n@dataclass\nclass Point:\n    x: int\n"
    with task_sandbox(make_repo({"point.py": source})) as shop:
        script = "from point import Point\\nPoint(1)\\nraise KeyError(2)"
        done = await replay(shop, shop.fresh(), f"python -c $'{script}'", watch=True)
        assert done.execution_trace is not None
        assert done.execution_trace.lines["<string>"] == {1, 2, 3}
        assert [(event.path, event.type) for event in done.execution_trace.raised] == [("<string>", "KeyError")]


async def test_a_folder_whose_name_is_not_utf8_is_watched_too(make_repo, task_sandbox) -> None:
    with task_sandbox(make_repo({"a.py": "def f():\n    return 1\n\nf()\n"}, "caf\udce9")) as shop:
        done = await replay(shop, shop.fresh(), "python a.py", watch=True)
        assert done.execution_trace is not None and done.execution_trace.lines["a.py"] == {1, 2, 4}


@pytest.mark.parametrize(
    ("settings", "switched"),
    [
        ({"tox.ini": "[testenv]\ncommands = pytest --cov=shop\n"}, False),
        ({"pyproject.toml": '[tool.pytest.ini_options]\naddopts = "-q --cov=shop"\n'}, True),
        ({"setup.cfg": "[tool:pytest]\naddopts =\n    -q\n    --cov=shop\n"}, True),
    ],
)
async def test_coverage_is_switched_off_only_where_every_pytest_asks_for_it(
    make_repo, task_sandbox, settings: dict[str, str], switched: bool
) -> None:
    with task_sandbox(make_repo({"a.py": "", **settings})) as shop:
        done = await replay(shop, shop.fresh(), "echo options: $PYTEST_ADDOPTS", watch=True)
        assert ("--no-cov" in done.output) is switched
