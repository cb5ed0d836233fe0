"""The shell tool, with a real shell behind it."""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import PIPE, STDOUT
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.agent.tools import MAX_OBSERVATION, Shell, clip, observe
from scrout.models.chat import ToolCall


@dataclass(frozen=True)
class Completed:
    exit_code: int | None
    output: bytes


def local_shell(folder: Path) -> Shell:
    async def shell(command: str) -> Completed:
        process = await asyncio.create_subprocess_exec("bash", "-c", command, cwd=folder, stdout=PIPE, stderr=STDOUT)
        output, _ = await process.communicate()
        return Completed(process.returncode, output)

    return shell


async def no_shell(command: str) -> Completed:
    raise AssertionError(f"must not run: {command!r}")


def bash(command: str) -> ToolCall:
    return ToolCall("1", "bash", json.dumps({"command": command}))


async def test_exit_code_and_both_streams(tmp_path: Path) -> None:
    seen = await observe(bash("echo out; echo err >&2; touch made; exit 3"), local_shell(tmp_path))
    assert seen == "[exit code 3]\nout\nerr\n"
    assert (tmp_path / "made").exists()


async def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    assert await observe(bash(r"printf '\xff\xfeok'"), local_shell(tmp_path)) == "[exit code 0]\n\ufffd\ufffdok"


async def test_a_command_that_was_stopped() -> None:
    async def stopped(command: str) -> Completed:
        return Completed(None, b"so far")

    assert await observe(bash("sleep 99"), stopped) == "[stopped before it could exit]\nso far"


async def test_long_output_keeps_its_ends(tmp_path: Path) -> None:
    seen = await observe(bash("echo first; head -c 50000 /dev/zero | tr '\\0' x; echo last"), local_shell(tmp_path))
    assert seen.startswith("[exit code 0]\nfirst\n") and seen.endswith("xlast\n")
    whole = len("[exit code 0]\nfirst\n") + 50_000 + len("last\n")
    assert f"\n[{whole - MAX_OBSERVATION} characters left out]\n" in seen
    assert len(seen) < MAX_OBSERVATION + 50


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "{",
        "ls",
        "null",
        "[]",
        '"ls"',
        "{}",
        '{"command": 3}',
        '{"command": " "}',
        '{"cmd": "ls"}',
        "[" * 10**5,
        r'{"command": "a\u0000b"}',
        r'{"command": "\ud800"}',
    ],
)
async def test_malformed_arguments_run_nothing_and_say_so(arguments: str) -> None:
    assert "Nothing was run" in await observe(ToolCall("1", "bash", arguments), no_shell)


async def test_an_unknown_tool_is_answered() -> None:
    seen = await observe(ToolCall("1", "edit" * 10_000, "{}"), no_shell)
    assert seen.startswith("There is no tool called") and len(seen) < MAX_OBSERVATION + 50


@given(arguments=st.text())
def test_no_arguments_raise(arguments: str) -> None:
    assert asyncio.run(observe(ToolCall("1", "bash", arguments), no_shell))


@given(text=st.text(), limit=st.integers(0, 40))
def test_clip_keeps_the_ends_and_counts_the_rest(text: str, limit: int) -> None:
    clipped = clip(text, limit)
    if len(text) <= limit:
        assert clipped == text
    else:
        half = limit // 2
        assert clipped == f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[len(text) - half :]}"
