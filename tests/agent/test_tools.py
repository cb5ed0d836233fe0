"""Tools as a model calls them: arguments in every form, results clipped, nonsense answered in words."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from scrout.agent.dialect import ToolUse
from scrout.agent.tools import OBSERVATION_CHARS, BadCall, Bash, Toolset, Workbench, aliases, drop_middle, text_argument
from scrout.models.chat import Tool
from scrout.sandbox.task_sandbox import ShellSession, TaskSandbox
from scrout.sandbox.tier import Completed


def local(folder: Path) -> Toolset:
    async def shell(command: str, timeout_s: float) -> Completed:
        process = await asyncio.create_subprocess_exec("bash", "-c", command, cwd=folder, stdout=PIPE, stderr=STDOUT)
        output, _ = await process.communicate()
        return Completed(process.returncode, output, 0.0)

    return Toolset(Bash(shell))


async def no_shell(command: str, timeout_s: float) -> Completed:
    raise AssertionError(f"must not run: {command!r}")


NOTHING_RUNS = Toolset(Bash(no_shell))


def bash(command: JsonValue, **more: JsonValue) -> ToolUse:
    return ToolUse("bash", {"command": command, **more})


async def test_exit_code_and_both_streams(tmp_path: Path) -> None:
    seen = await local(tmp_path).use(bash("echo out; echo err >&2; touch made; exit 3"))
    assert seen == "[exit code 3]\nout\nerr\n"
    assert (tmp_path / "made").exists()


async def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    assert await local(tmp_path).use(bash(r"printf '\xff\xfeok'")) == "[exit code 0]\n\ufffd\ufffdok"


async def test_long_output_keeps_its_ends(tmp_path: Path) -> None:
    seen = await local(tmp_path).use(bash("echo first; head -c 50000 /dev/zero | tr '\\0' x; echo last"))
    assert seen.startswith("[exit code 0]\nfirst\n") and seen.endswith("xlast\n")
    whole = len("[exit code 0]\nfirst\n") + 50_000 + len("last\n")
    assert f"\n[{whole - OBSERVATION_CHARS} characters left out]\n" in seen
    assert len(seen) < OBSERVATION_CHARS + 50


@pytest.mark.parametrize(
    ("wanted", "granted_s"),
    [(5, 5), (5.5, 5.5), ("5", 5), (" 7.5 ", 7.5), (None, 20), ("", 20), (10**9, 30), ("inf", 30), ("99", 30)],
)
async def test_a_timeout_in_any_form_is_granted_up_to_the_most(wanted: JsonValue, granted_s: float) -> None:
    asked: list[float] = []

    async def stopped(command: str, timeout_s: float) -> Completed:
        asked.append(timeout_s)
        return Completed(None, b"so far", timeout_s)

    seen = await Toolset(Bash(stopped, 20, 30)).use(bash("sleep 99", timeout=wanted))
    assert (asked, seen) == ([granted_s], f"[stopped after {granted_s:g} s]\nso far")


@pytest.mark.parametrize("wanted", ["soon", "5 s", 0, -1, "nan", [], {}, [5], 10**400])
async def test_a_timeout_that_is_none_runs_nothing(wanted: JsonValue) -> None:
    seen = await NOTHING_RUNS.use(bash("ls", timeout=wanted))
    assert "`timeout`" in seen and seen.endswith("Nothing was done.")


def test_the_model_is_told_the_times_that_apply() -> None:
    (tool,) = Bash(no_shell, 20, 30).tools
    assert "20 if left out, at most 30" in str(tool.parameters)


@pytest.mark.parametrize(
    "arguments", [{}, {"command": 3}, {"command": " \n"}, {"cmd": "ls"}, {"command": "a\0b"}, {"command": "\ud800"}]
)
async def test_a_call_without_a_usable_command_runs_nothing(arguments: Mapping[str, JsonValue]) -> None:
    assert (await NOTHING_RUNS.use(ToolUse("bash", arguments))).endswith("Nothing was done.")


async def test_an_unknown_tool_is_answered_with_those_there_are() -> None:
    seen = await NOTHING_RUNS.use(ToolUse("edit"))
    assert seen == "There is no tool called 'edit'; there is `bash`. Nothing was done."
    assert len(await NOTHING_RUNS.use(ToolUse("edit" * 10_000))) < OBSERVATION_CHARS + 50


json_values = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5)


@given(name=st.sampled_from(["bash", "", "x"]), arguments=st.dictionaries(st.text() | st.just("timeout"), json_values))
def test_no_call_raises(name: str, arguments: Mapping[str, JsonValue]) -> None:
    assert asyncio.run(NOTHING_RUNS.use(ToolUse(name, arguments)))


class Oracle:
    """A toolbox of somebody else's."""

    tools: tuple[Tool, ...] = (Tool("oracle", "Knows.", {"type": "object"}),)

    async def use(self, call: ToolUse) -> str:
        if text_argument(call, "question") == "why":
            raise BadCall("Do not ask why.")
        return "yes" * 100


async def test_toolboxes_are_put_together() -> None:
    tools = Toolset(Bash(no_shell), Oracle(), observation_chars=20)
    assert [tool.name for tool in tools.tools] == ["bash", "oracle"]
    seen = await tools.use(ToolUse("oracle", {"question": "when"}))
    assert seen == "yesyesyesy\n[280 characters left out]\nsyesyesyes"
    assert (await Toolset(Oracle()).use(ToolUse("oracle", {"question": "why"}))) == "Do not ask why. Nothing was done."
    assert "`question` of `oracle` is missing" in await Toolset(Oracle()).use(ToolUse("oracle"))


# The workbench, in the real sandbox


@pytest.fixture
async def session(shop: TaskSandbox) -> AsyncIterator[ShellSession]:
    async with shop.session(shop.fresh(), aliases(shop)) as opened:
        yield opened


async def test_shell_and_editor_see_the_same_files(session: ShellSession, shop: TaskSandbox) -> None:
    bench = Workbench(session)
    assert [tool.name for tool in bench.tools] == ["bash", "str_replace_editor"]

    async def edit(**arguments: JsonValue) -> str:
        return await bench.use(ToolUse("str_replace_editor", arguments))

    assert "was written" in await edit(command="create", path="/testbed/a/new.txt", file_text="one\ntwo\n")
    assert await bench.use(bash("cat a/new.txt; echo three >> a/new.txt")) == "[exit code 0]\none\ntwo\n"
    assert (await edit(command="view", path=f"{shop.base.repo}/a/new.txt", view_range="[2, 3]")).split() == [
        *("2", "two", "3", "three")
    ]
    assert "was changed" in await edit(command="str_replace", path="a/new.txt", old_str="two\n")
    assert await bench.use(bash("cat a/new.txt; rm a/new.txt")) == "[exit code 0]\none\nthree\n"
    assert "does not exist" in await edit(command="view", path="a/new.txt")


async def test_a_command_is_stopped_and_says_so(session: ShellSession) -> None:
    bench = Workbench(session, command_s=0.5)
    assert await bench.use(bash("echo begun; sleep 60")) == "[stopped after 0.5 s]\nbegun\n"


async def test_containers_roots_lead_to_the_repository(session: ShellSession, shop: TaskSandbox) -> None:
    if not shop.tier.mounts or shop.tier.brings_tools:
        pytest.skip(f"the {shop.tier.name} tier shows the repository in one place")
    bench = Workbench(session)
    seen = await bench.use(bash("cd /testbed && cat file.txt && cat /app/file.txt /workspace/file.txt && echo x > y"))
    assert seen == "[exit code 0]\ntracked\ntracked\ntracked\n"
    assert await bench.use(bash(f"cat {shop.base.repo}/y")) == "[exit code 0]\nx\n"


@pytest.mark.parametrize(
    ("view_range", "shown"),
    [
        ([2, 3], "2 3"),
        (["2", "3"], "2 3"),
        ("[2, 3]", "2 3"),
        ("2,3", "2 3"),
        ("2 3", "2 3"),
        ("2-3", "2 3"),
        ("(2, -1)", "2 3 4"),
        ([3, -1], "3 4"),
        ([3, 99], "3 4"),
        ("[3]", None),
        ("140", None),
        ([1, 2, 3], None),
        ("all", None),
        ([3, 2], None),
        ([0, 2], None),
        ([9, 12], None),
        ([1, -2], None),
        ({"a": 1}, None),
        (7, None),
        ("", "1 2 3 4"),
        (None, "1 2 3 4"),
    ],
)
async def test_a_view_range_in_any_form(view_range: JsonValue, shown: str | None, session: ShellSession) -> None:
    session.workspace.write("n.txt", b"1\n2\n3\n4\n")
    bench = Workbench(session)
    seen = await bench.use(
        ToolUse("str_replace_editor", {"command": "view", "path": "n.txt", "view_range": view_range})
    )
    if shown is None:
        assert "view_range" in seen and seen.endswith("Nothing was done.")
    else:
        assert [line.split("\t")[1] for line in seen.splitlines()] == shown.split()


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"command": "view"},
        {"command": "undo_edit", "path": "file.txt"},
        {"command": "create", "path": "x"},
        {"command": "create", "path": "x", "file_text": 5},
        {"command": "str_replace", "path": "file.txt"},
        {"command": "str_replace", "path": "file.txt", "old_str": "\ud800"},
        {"command": ["view"], "path": "file.txt"},
    ],
)
async def test_an_edit_that_makes_no_sense_is_answered(
    arguments: Mapping[str, JsonValue], session: ShellSession
) -> None:
    seen = await Workbench(session).use(ToolUse("str_replace_editor", arguments))
    assert seen.endswith("Nothing was done.") and not list(session.workspace.changed())


@given(text=st.text(), limit=st.integers(0, 40))
def test_clip_keeps_the_ends_and_counts_the_rest(text: str, limit: int) -> None:
    clipped = drop_middle(text, limit)
    if len(text) <= limit:
        assert clipped == text
    else:
        half = limit // 2
        assert clipped == f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[len(text) - half :]}"
