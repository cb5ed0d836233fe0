"""The presets: how they are filled in, and, where a program is installed, the real one at work in the real sandbox.

`scripts/add-agents` installs the programs. Each fixes a small bug by its own tool against the stand-in, whose replies
are scripted: the only network it has is the relay's.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import tomllib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scrout.base import ConfigError
from scrout.fix import relay
from scrout.fix.presets import PRESETS, Preset, fill
from scrout.fix.program import find_preset
from scrout.models.chat import ToolCall
from scrout.models.scripted import ScriptedEndpoint, ScriptedReply, ScriptedRequest, Status
from scrout.money import Usage
from scrout.sandbox.task_sandbox import TaskSandbox
from scrout.sandbox.tier import Mount

if TYPE_CHECKING:
    from conftest import MakeRepo, OpenTaskSandbox

AGENTS = Path(__file__).parents[2] / ".venv" / "agents" / "bin"
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
FIELDS = {"model": "m/1", "effort": "high", "url": "http://127.0.0.1:1", "key": "dummy", "prompt_file": "/task.md"}
PORT = 8737
HOME, SOCKET, RELAY = "/tmp/home", "/opt/scrout/socket", "/opt/scrout/relay.py"
TASK = 'add() in calc.py subtracts.\nIt has to "add".\n'
USAGE = Usage(input_tokens=100, output_tokens=10)

every_preset = pytest.mark.parametrize("name", list(PRESETS))

# Filling in


def filled(preset: Preset, **changes: str) -> Preset:
    return fill(preset, **{**FIELDS, **changes})


@every_preset
def test_nothing_is_left_to_fill_in(name: str) -> None:
    done = filled(PRESETS[name])
    texts = (*done.command, *done.env.values(), *done.files.values())
    assert not [text for text in texts if re.search(r"\{[a-z_]+\}", text)]
    assert any("m/1" in text for text in texts) and any("http://127.0.0.1:1" in text for text in texts)


@every_preset
def test_an_effort_is_asked_for_only_where_one_is_set(name: str) -> None:
    with_one, without = filled(PRESETS[name]).command, filled(PRESETS[name], effort="").command
    assert with_one[: len(without)] == without
    assert "high" in " ".join(with_one[len(without) :])


@every_preset
def test_a_model_by_any_name_leaves_files_that_can_be_read(name: str) -> None:
    model = 'a "quoted" \\ name {key}'
    for path, text in filled(PRESETS[name], model=model, effort="").files.items():
        content = tomllib.loads(text) if path.endswith(".toml") else json.loads(text)
        assert content
        if name == "codex":
            assert content["review_model"] == model


@every_preset
def test_nothing_an_agent_sees_speaks_of_what_bounds_it(name: str) -> None:
    done = filled(PRESETS[name])
    seen = " ".join((*done.command, *done.env, *done.env.values(), *done.files.values())).lower()
    assert not re.search(r"budget|meter|cap\b|caps\b|spend|scrout", seen)


# The real programs


def bash(tool: str, command: str, key: str = "command", **more: str) -> ScriptedReply:
    return ScriptedReply(calls=(ToolCall("call_1", tool, json.dumps({key: command, **more})),), usage=USAGE)


def say(text: str) -> ScriptedReply:
    return ScriptedReply(text, usage=USAGE)


CALC = "def add(a, b):\n    return a - b\n"
SED = "sed -i 's/a - b/a + b/' calc.py"
APPLY = """apply_patch <<'EOF'
*** Begin Patch
*** Update File: calc.py
@@
 def add(a, b):
-    return a - b
+    return a + b
*** End Patch
EOF"""
BLOCK = """calc.py
```python
<<<<<<< SEARCH
    return a - b
=======
    return a + b
>>>>>>> REPLACE
```
"""
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat patch.txt"

SCRIPTS: dict[str, tuple[ScriptedReply, ...]] = {
    "claude-code": (bash("Bash", SED, description="fix"), say("Done.")),
    "codex": (bash("exec_command", APPLY, key="cmd"), say("Done.")),
    "aider": (say(BLOCK),),
    "opencode": (bash("bash", SED, description="fix"), say("Done.")),
    "mini": (bash("bash", f"[[ -f calc.py ]] && {SED} && git diff > patch.txt"), bash("bash", SUBMIT)),
}
"""What each is told to do, by a tool of its own."""

TRAPS = {
    ".claude/settings.json": json.dumps({"model": "other", "env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}}),
    ".codex/config.toml": 'model = "other"\nmodel_provider = "openai"\n',
    "opencode.json": json.dumps({"model": "endpoint/other", "small_model": "endpoint/other"}),
    ".aider.conf.yml": "model: openai/other\nweak-model: openai/other\nopenai-api-base: http://127.0.0.1:9\n",
    ".env": "OPENAI_API_BASE=http://127.0.0.1:9\nOPENAI_BASE_URL=http://127.0.0.1:9\nANTHROPIC_API_KEY=other\n",
    "AGENTS.md": "INSTRUCTIONS OF THE REPOSITORY\n",
    "CLAUDE.md": "INSTRUCTIONS OF THE REPOSITORY\n",
}
"""What a repository may hold to lead an agent elsewhere."""


@dataclass(frozen=True)
class Worked:
    exit_code: int | None
    output: str
    diff: str
    requests: Sequence[ScriptedRequest]
    home: Mapping[str, str]
    """The files of its home by name, of the first level."""


@asynccontextmanager
async def on_socket(path: Path, endpoint: ScriptedEndpoint) -> AsyncIterator[None]:
    """The endpoint on a unix socket, as the meter is."""
    host, port = endpoint.base_url.removeprefix("http://").removesuffix("/v1").split(":")
    talks: set[asyncio.Task[None]] = set()

    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, outer = await asyncio.open_connection(host, int(port))
        try:
            await asyncio.gather(relay.copy(reader, outer), relay.copy(inner, writer))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            for end in (outer, writer):
                end.transport.abort()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = asyncio.ensure_future(join(reader, writer))
        talks.add(talk)
        talk.add_done_callback(talks.discard)

    server = await asyncio.start_unix_server(connected, path)
    os.chmod(path, 0o666)  # noqa: PTH101
    try:
        yield
    finally:
        server.close()
        for talk in tuple(talks):
            talk.cancel()
        await asyncio.gather(*talks, return_exceptions=True)
        await asyncio.sleep(0)


async def work(
    name: str, replies: Sequence[ScriptedReply], shop: TaskSandbox, folder: Path, timeout_s: float = 180
) -> Worked:
    """Let a preset's program work in the sandbox, against these replies."""
    try:
        program = find_preset(PRESETS[name], f"{AGENTS}{os.pathsep}{os.environ['PATH']}")
    except ConfigError as error:
        pytest.skip(str(error))
    home, url = folder / "agent-home", f"http://127.0.0.1:{PORT}"
    preset = filled(PRESETS[name], model="toy", effort="", url=url, prompt_file=f"{HOME}/task.md")
    for path, text in {**preset.files, "task.md": TASK}.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text)
    for path in (home, *home.rglob("*")):
        os.chown(path, shop.tier.user, -1)
    mounts = (Mount(home, HOME, writable=True), Mount(folder / "s", SOCKET), Mount(Path(relay.__file__), RELAY))
    argv = ["python3", RELAY, SOCKET, str(PORT), "--", *program.argv, *preset.command[1:]]
    workspace = shop.fresh()
    with ScriptedEndpoint(replies, models=("toy",)) as endpoint:
        async with on_socket(folder / "s", endpoint):
            done = await shop.run(
                workspace,
                argv,
                timeout_s=timeout_s,
                variables=preset.env,
                mounts=(*program.mounts, *mounts),
                stdin=TASK.encode(),
            )
    diff = await shop.diff(workspace, without=preset.leftovers)
    left = {path.name: path.read_text(errors="replace") for path in home.iterdir() if path.is_file()}
    return Worked(done.exit_code, done.text, diff, endpoint.requests, left)


@pytest.mark.slow
@every_preset
async def test_the_real_program_fixes_a_bug_through_the_relay(
    name: str, make_repo: MakeRepo, task_sandbox: OpenTaskSandbox, tmp_path: Path
) -> None:
    script = (ScriptedReply(fault=Status(429, {"retry-after": "1"})), *SCRIPTS[name])
    with task_sandbox(make_repo({"calc.py": CALC, **TRAPS})) as shop:
        worked = await work(name, script, shop, tmp_path)

    assert worked.exit_code == 0, worked.output[-2000:]
    assert re.findall(r"^diff --git .*$", worked.diff, re.MULTILINE) == ["diff --git a/calc.py b/calc.py"]
    assert "-    return a - b\n+    return a + b\n" in worked.diff
    # Not one call beside those of the task: no title, no summary, no other model.
    assert [request.path.partition("?")[0] for request in worked.requests] == [PATHS[PRESETS[name].protocol]] * len(
        script
    )
    assert {request.content["model"] for request in worked.requests} == {"toy"}
    # One refusal for the rate of requests is waited out, and the same is asked again.
    asked = "input" if PRESETS[name].protocol == "responses" else "messages"
    assert worked.requests[0].content[asked] == worked.requests[1].content[asked]
    first = worked.requests[0].body
    assert json.dumps('It has to "add".')[1:-1] in first and "INSTRUCTIONS OF THE REPOSITORY" not in first
    assert all("dummy" in str(request.headers) for request in worked.requests)


@pytest.mark.slow
async def test_minis_trajectory_is_saved_and_printed_with_its_own_templates(
    make_repo: MakeRepo, task_sandbox: OpenTaskSandbox, tmp_path: Path
) -> None:
    with task_sandbox(make_repo({"calc.py": CALC})) as shop:
        worked = await work("mini", SCRIPTS["mini"], shop, tmp_path)
        root = str(shop.base.repo)
    saved = json.loads(worked.home["mini.traj.json"])
    assert saved["info"]["exit_status"] == "Submitted" and "+    return a + b" in saved["info"]["submission"]
    printed = [json.loads(line) for line in worked.output.splitlines() if line.startswith("{")]
    assert [message["content"] for message in printed] == [message["content"] for message in saved["messages"]]
    system, first = saved["messages"][0]["content"], saved["messages"][1]["content"]
    assert (
        system.strip()
        == "You are a helpful assistant that can interact with a computer shell to solve programming tasks."
    )
    assert first.startswith(f"<pr_description>\nConsider the following PR description:\n{TASK.rstrip()}")
    assert f"source code files in {root} " in first and "/testbed" not in first
