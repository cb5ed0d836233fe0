"""One suite for every fixer with a model: the same task against the same stand-in, caps, faults and receipts alike.

The built-in agent and a small program of this suite's own are always tried. The real programs are tried with
`-m agents`, where scripts/add-agents has installed them.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pytest

from scrout.base import ConfigError
from scrout.config.settings import Fixer, HandoffMode, SandboxSettings, Settings
from scrout.fix.fix import fix
from scrout.fix.kind import FixJob
from scrout.fix.kinds.command import CommandFixer
from scrout.handoff import FileRef, Handoff, Reproduction
from scrout.models.chat import ToolCall
from scrout.models.scripted import Hang, Reset, ScriptedEndpoint, ScriptedReply, ScriptedRequest, Status
from scrout.money import Price, Receipt, Usage
from scrout.records import Attempt, Evidence, GatedHandoff
from scrout.sandbox.task_sandbox import TaskSandbox
from scrout.sandbox.tier import Tier
from scrout.task import Task
from scrout.trajectory import FILE_NAME, BilledCall, TrajectoryHeader, read

KEY = "sk-very-secret-0123456789abcdef"
USAGE = Usage(input_tokens=900, cache_read_tokens=100, output_tokens=50)
PRICE = Price(input=Decimal(3), output=Decimal(15), cache_read=Decimal("0.3"))
FILES = {"total.py": "def total(xs):\n    return sum(xs) + 1\n", "vendor/lib.py": "x = 1\n"}
FIX = "sed -i 's/ + 1//' total.py"
VERIFIED = GatedHandoff(
    verdict="real_failure",
    kept=True,
    materialized=True,
    reason="failed twice in the same way",
    evidence=Evidence(command="python repro.py", exit_code=1, runs=2, output_tail="AssertionError", seconds=0.1),
    handoff=Handoff(
        files=(FileRef(path="total.py"),),
        reproduction=Reproduction(files={"repro.py": "import total\n"}, command="python repro.py", claim=True),
    ),
    text="<files>\ntotal.py\n</files>",
)

# A CLI agent in a few lines: asks, runs what it is told by bash, and ends when it is told nothing.
PROGRAM = """
import json, os, subprocess, sys, urllib.request, urllib.error
url, model, prompt = sys.argv[1:4]
assert open(prompt).read() == sys.stdin.read() != ""
messages = [{"role": "user", "content": open(prompt).read()}]
while True:
    body = json.dumps({"model": model, "messages": messages, "max_tokens": 4096}).encode()
    headers = {"content-type": "application/json", "authorization": "Bearer " + os.environ["TOY_AGENT_KEY"]}
    asked = urllib.request.Request(url + "/v1/chat/completions", body, headers)
    for tries in range(3):
        try:
            answer = json.load(urllib.request.urlopen(asked))
            break
        except urllib.error.HTTPError as error:
            print("refused", error.code, error.read().decode(), flush=True)
            if error.code < 500 and error.code != 429:
                sys.exit(3)
        except (OSError, ValueError) as error:
            print("broken", error, flush=True)
    else:
        sys.exit(4)
    message = answer["choices"][0]["message"]
    messages.append(message)
    if not message.get("tool_calls"):
        break
    for call in message["tool_calls"]:
        command = json.loads(call["function"]["arguments"])["command"]
        done = subprocess.run(["bash", "-c", command], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        said = f"[exit code {done.returncode}]" + done.stdout + done.stderr
        print(command, "->", said, flush=True)
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": said})
print("done:", message.get("content"))
"""


@dataclass(frozen=True)
class Kind:
    """A fixer as the suite knows it: its entry, and how the stand-in tells it to run a command and to stop."""

    entry: dict[str, object]
    command: Callable[[str, ScriptedRequest], ScriptedReply]
    last: Callable[[ScriptedRequest], ScriptedReply]


def calls(tool: str, argument: str = "command") -> Callable[[str, ScriptedRequest], ScriptedReply]:
    def reply(command: str, request: ScriptedRequest) -> ScriptedReply:
        name = tool
        if tool == "codex":
            offered = [str(one.get("name")) for one in request.content["tools"]]  # type: ignore[union-attr]
            name = "exec_command" if "exec_command" in offered else "shell_command"
        key = "cmd" if name == "exec_command" else argument
        given = {key: command, "description": "work"} if tool in ("Bash", "bash") else {key: command}
        return ScriptedReply(calls=(ToolCall("call_1", name, json.dumps(given)),), usage=USAGE)

    return reply


def words(request: ScriptedRequest) -> ScriptedReply:
    return ScriptedReply("The sum had one added.", usage=USAGE)


def submit(request: ScriptedRequest) -> ScriptedReply:
    command = "git diff > patch.txt; echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat patch.txt"
    return ScriptedReply("done", calls=(ToolCall("c", "bash", json.dumps({"command": command})),), usage=USAGE)


REAL = pytest.mark.agents
KINDS = {
    "agent": Kind({"kind": "agent"}, calls("bash"), words),
    "command": Kind({"kind": "command"}, calls("bash"), words),
    "mini": Kind({"kind": "mini"}, calls("bash"), submit),
    "claude-code": Kind({"kind": "command", "preset": "claude-code"}, calls("Bash"), words),
    "codex": Kind({"kind": "command", "preset": "codex"}, calls("codex"), words),
    "opencode": Kind({"kind": "command", "preset": "opencode"}, calls("bash"), words),
}
ALWAYS = ("agent", "command")
ALL = [*ALWAYS, *(pytest.param(name, marks=REAL) for name in KINDS if name not in ALWAYS)]
PROGRAMS = Path(sys.prefix, "agents", "bin")


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> Kind:
    program = {"claude-code": "claude", "codex": "codex", "opencode": "opencode", "mini": "mini"}.get(request.param)
    if program and not (PROGRAMS / program).exists():
        pytest.skip(f"{program} is not installed: run scripts/add-agents")
    return KINDS[request.param]


@dataclass
class Bench:
    """The repository in its task sandbox, and a stand-in to try a fixer against."""

    task_sandbox: TaskSandbox
    task: Task
    folder: Path
    settings: Settings
    program: Path
    booked: list[Receipt]
    said: list[str]

    def entry(self, kind: Kind, base_url: str, **more: object) -> Fixer:
        own: dict[str, object] = {}
        if kind.entry == {"kind": "command"}:
            own = {
                "command": ["/usr/bin/python3", str(self.program / "agent.py"), "{url}", "{model}", "{prompt_file}"],
                "env": {"TOY_AGENT_KEY": "{key}"},
                "mounts": [str(self.program)],
            }
        fields = {"name": "toy", "model": "toy-1", "base_url": base_url, "key_env": "TOY_KEY", "price": PRICE}
        entries = Settings.model_validate({"fixers": [fields | kind.entry | own | more]})
        return entries.fixers[0]

    async def attempt(self, fixer: Fixer, mode: HandoffMode = "full", cap_usd: Decimal | None = None) -> Attempt:
        job = FixJob(
            self.task, VERIFIED, self.task_sandbox, self.settings, self.said.append, self.booked.append,
            folder=self.folder, mode=mode, cap_usd=cap_usd,
        )  # fmt: skip
        return await fix(fixer, job)


@pytest.fixture
def bench(
    task_sandbox_over: Callable[..., AbstractContextManager[TaskSandbox]],
    tier: Tier,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Bench]:
    if tier.name != "bubblewrap":
        pytest.skip(f"programs need bubblewrap, and this machine has {tier.name}")
    monkeypatch.setenv("TOY_KEY", KEY + "\n")
    monkeypatch.setenv("PATH", str(PROGRAMS), prepend=os.pathsep)
    program = tmp_path / "program"
    program.mkdir()
    (program / "agent.py").write_text(PROGRAM)
    settings = Settings(sandbox=SandboxSettings(timeout_s=30))
    with task_sandbox_over(FILES, settings) as shop:
        task = Task(id="toy-1", text="total() is one too high", repo=shop.base.repo, base_commit=shop.base.commit)
        yield Bench(shop, task, tmp_path / "attempt", settings, program, [], [])


def script(kind: Kind, commands: Sequence[str]) -> Callable[[ScriptedRequest], ScriptedReply]:
    """Tells the fixer to run the commands, one a call, and then that all is done."""
    asked = iter(commands)

    def reply(request: ScriptedRequest) -> ScriptedReply:
        command = next(asked, None)
        return kind.last(request) if command is None else kind.command(command, request)

    return reply


def files(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]


@pytest.mark.parametrize("kind", ALL, indirect=True)
async def test_the_same_task_with_equal_receipts(bench: Bench, kind: Kind, tmp_path: Path) -> None:
    with ScriptedEndpoint(script(kind, ["env; cat repro.py", FIX])) as endpoint:
        done = await bench.attempt(bench.entry(kind, endpoint.base_url))
    assert (done.stop, done.calls, done.handoff) == ("finished", 3, "full"), done.detail
    assert "-    return sum(xs) + 1\n+    return sum(xs)\n" in done.patch
    assert done.patch.count("diff --git") == 1, "the reproduction and what the agent leaves for itself are no fix"
    assert [receipt.usage for receipt in done.receipts] == [USAGE] * 3
    assert done.cost_usd == 3 * PRICE.cost(USAGE) == sum(receipt.cost_usd or 0 for receipt in done.receipts)
    assert done.receipts == tuple(bench.booked)
    header, *lines = read(Path(done.trace) / FILE_NAME)
    assert isinstance(header, TrajectoryHeader) and [line.call for line in lines if isinstance(line, BilledCall)] == [
        1,
        2,
        3,
    ]
    sent = {request.headers.get("authorization") or request.headers.get("x-api-key") for request in endpoint.requests}
    assert sent in ({f"Bearer {KEY}"}, {KEY})
    for place in (*(request.body.encode() for request in endpoint.requests), *files(bench.folder)):
        assert KEY.encode() not in place
    assert any("total() is one too high" in request.body for request in endpoint.requests)
    assert any("import total" in request.body for request in endpoint.requests), "the handoff came along"


@pytest.mark.parametrize("kind", ALL, indirect=True)
async def test_at_a_cap_of_calls_the_work_so_far_is_the_submission(bench: Bench, kind: Kind) -> None:
    commands = [FIX, "echo more > more.txt", "git checkout total.py"]
    with ScriptedEndpoint(script(kind, commands)) as endpoint:
        done = await bench.attempt(bench.entry(kind, endpoint.base_url, cap_calls=2))
    assert (done.stop, done.calls) == ("cap_calls", 2), done.detail
    assert "+    return sum(xs)\n" in done.patch and "more.txt" in done.patch
    assert endpoint.served == 2, "the third call never left"
    log = bench.folder / "agent.log"
    assert not log.exists() or "all 2 calls used" not in log.read_text(), "the agent is told nothing"


@pytest.mark.parametrize("kind", ["agent", "command", pytest.param("claude-code", marks=REAL)], indirect=True)
async def test_a_cap_in_dollars_is_never_passed(bench: Bench, kind: Kind) -> None:
    expensive = Usage(input_tokens=9_000, output_tokens=500)
    reply = script(kind, [FIX] + ["true"] * 40)

    def spend(request: ScriptedRequest) -> ScriptedReply:
        told = reply(request)
        return ScriptedReply(told.text, told.calls, expensive)

    with ScriptedEndpoint(spend) as endpoint:
        done = await bench.attempt(bench.entry(kind, endpoint.base_url, cap_usd="0.50"))
        assert (done.stop, done.handoff) == ("cap_usd", "full"), done.detail
        assert done.cost_usd is not None and Decimal("0.1") < done.cost_usd <= Decimal("0.50")
        assert "+    return sum(xs)\n" in done.patch
        bench.folder = bench.folder.with_name("second")
        left = await bench.attempt(bench.entry(kind, endpoint.base_url, cap_usd="0.50"), cap_usd=Decimal("0.001"))
    assert (left.stop, left.calls, left.patch) == ("cap_usd", 0, ""), (
        "what others left of a budget is less than its cap"
    )


# Of the real programs the one that is quick to begin: time goes on while others load.
@pytest.mark.parametrize("kind", [*ALWAYS, pytest.param("codex", marks=REAL)], indirect=True)
async def test_time_that_is_over(bench: Bench, kind: Kind) -> None:
    cap_s = 2 if kind in [KINDS[name] for name in ALWAYS] else 20  # real programs take longer to begin
    # More than one, because Codex does not wait for a command that takes long.
    with ScriptedEndpoint(script(kind, [f"{FIX}; sleep 600"] * 40)) as endpoint:
        done = await bench.attempt(bench.entry(kind, endpoint.base_url, cap_seconds=cap_s))
    assert done.stop == "timeout" and "+    return sum(xs)\n" in done.patch, done.detail
    assert kind.entry["kind"] == "agent" or (bench.folder / "agent.log").exists()


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("agent", 401),
        ("command", 401),
        ("command", 503),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in (("agent", 404), ("command", 404), ("agent", 503))),
    ],
    indirect=["kind"],
)
async def test_an_endpoint_that_refuses_is_infrastructure(bench: Bench, kind: Kind, status: int) -> None:
    refusal = ScriptedReply(fault=Status(status, {"retry-after": "0"}, f"no: {KEY}"))
    with ScriptedEndpoint(lambda request: refusal) as endpoint:
        done = await bench.attempt(bench.entry(kind, endpoint.base_url))
        where = endpoint.base_url
    assert (done.stop, done.calls, done.cost_usd, done.patch) == ("endpoint", 0, 0, "")
    assert f"status {status}" in done.detail and where in done.detail and KEY not in done.detail
    assert not any(KEY.encode() in content for content in files(bench.folder))


@pytest.mark.parametrize("kind", ["agent", "command"], indirect=True)
async def test_one_dropped_connection_does_not_end_a_fix(bench: Bench, kind: Kind) -> None:
    reply, first = script(kind, [FIX]), iter([ScriptedReply(fault=Reset())])
    with ScriptedEndpoint(lambda request: next(first, None) or reply(request)) as endpoint:
        done = await bench.attempt(bench.entry(kind, endpoint.base_url))
    assert (done.stop, done.calls) == ("finished", 3), done.detail
    assert [receipt.estimated for receipt in done.receipts] == [True, False, False]


@pytest.mark.parametrize("kind", ["agent", "command"], indirect=True)
async def test_an_endpoint_that_hangs_costs_what_was_held(bench: Bench, kind: Kind) -> None:
    with ScriptedEndpoint([ScriptedReply("never", fault=Hang(600))]) as endpoint:
        done = await bench.attempt(bench.entry(kind, endpoint.base_url, cap_seconds=2))
    assert (done.stop, done.calls, [receipt.estimated for receipt in done.receipts]) == ("endpoint", 1, [True])
    assert "not done after 2 s, the last" in done.detail and "without a word from the endpoint" in done.detail
    assert done.cost_usd and done.receipts[0].usage.output_tokens == 4096


@pytest.mark.parametrize("kind", ["command"], indirect=True)
async def test_what_the_meter_refuses_or_cuts_off_is_not_the_endpoints_failure(bench: Bench, kind: Kind) -> None:
    aside = """
import json, sys, threading, time, urllib.request, urllib.error
def ask(model):
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": "x"}], "max_tokens": 99}).encode()
    try: urllib.request.urlopen(urllib.request.Request(sys.argv[1] + "/v1/chat/completions", body)).read()
    except urllib.error.HTTPError as error: print(error.code)
open("work", "w").write("done")
ask(sys.argv[2])
threading.Thread(target=ask, args=(sys.argv[2],), daemon=True).start()
time.sleep(0.5)
ask("another")
"""
    (bench.program / "agent.py").write_text(aside)
    replies = [words(ScriptedRequest("", {}, "")), ScriptedReply("late", fault=Hang(600))]
    with ScriptedEndpoint(replies) as endpoint:
        done = await bench.attempt(bench.entry(kind, endpoint.base_url))
    assert (done.stop, [receipt.estimated for receipt in done.receipts]) == ("finished", [False, True]), done.detail
    assert "work" in done.patch


@pytest.mark.parametrize("kind", ["command"], indirect=True)
async def test_a_log_that_cannot_be_kept_does_not_lose_the_work(bench: Bench, kind: Kind) -> None:
    (bench.folder / "agent.log").mkdir(parents=True)
    with ScriptedEndpoint(script(kind, [FIX])) as endpoint:
        done = await bench.attempt(bench.entry(kind, endpoint.base_url))
    assert done.stop == "finished" and "+    return sum(xs)\n" in done.patch


async def test_a_mount_that_is_not_there(bench: Bench) -> None:
    entry = bench.entry(KINDS["command"], "http://127.0.0.1:9/v1", mounts=["/no/such/folder"])
    with pytest.raises(ConfigError, match=r"mounts /no/such/folder, which does not exist"):
        await bench.attempt(entry)


async def test_an_empty_budget_makes_no_call(bench: Bench) -> None:
    with ScriptedEndpoint([]) as endpoint:
        done = await bench.attempt(bench.entry(KINDS["agent"], endpoint.base_url), cap_usd=Decimal(0))
    assert (done.stop, done.calls, endpoint.served) == ("cap_usd", 0, 0)


@pytest.mark.parametrize("mode", ["none", "files-only"])
async def test_what_is_not_given_is_not_there(bench: Bench, mode: HandoffMode) -> None:
    kind = KINDS["agent"]
    with ScriptedEndpoint(script(kind, ["ls"])) as endpoint:
        done = await bench.attempt(bench.entry(kind, endpoint.base_url), mode)
    assert done.handoff == mode
    last = endpoint.requests[-1].body
    assert "repro.py" not in last and ("best guess" in last) == (mode == "files-only")


@pytest.mark.agents
async def test_aider_which_edits_by_blocks_of_text(bench: Bench) -> None:
    if not (PROGRAMS / "aider").exists():
        pytest.skip("aider is not installed: run scripts/add-agents")
    edit = "<<<<<<< SEARCH\n    return sum(xs) + 1\n=======\n    return sum(xs)\n>>>>>>> REPLACE\n"
    block = f"total.py\n```python\n{edit}```\n"
    with ScriptedEndpoint(lambda request: ScriptedReply(block, usage=USAGE)) as endpoint:
        entry = bench.entry(Kind({"kind": "command", "preset": "aider"}, calls("bash"), words), endpoint.base_url)
        done = await bench.attempt(entry)
    assert (done.stop, done.calls, done.cost_usd) == ("finished", 1, PRICE.cost(USAGE)), done.detail
    assert "+    return sum(xs)\n" in done.patch and done.patch.count("diff --git") == 1


MISDEEDS = {
    "commits": "git -c user.name=a -c user.email=a@b commit -qam fixed",
    "switches branch": "git checkout -q -b other && git -c user.name=a -c user.email=a@b commit -qam fixed",
    "breaks .git": "rm -rf .git/objects .git/HEAD; echo junk > .git/config",
    "leaves a process": "(setsid sleep 600 > /dev/null 2>&1 &)",
    "hides .git": "mv .git .tig",
}


@pytest.mark.parametrize(
    "misdeed",
    [
        "commits",
        "leaves a process",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("breaks .git", "switches branch", "hides .git")),
    ],
)
@pytest.mark.parametrize("kind", ["command"], indirect=True)
async def test_the_diff_is_the_work_whatever_was_done_around_it(bench: Bench, kind: Kind, misdeed: str) -> None:
    with ScriptedEndpoint(script(kind, [FIX, MISDEEDS[misdeed]])) as endpoint:
        done = await bench.attempt(bench.entry(kind, endpoint.base_url))
    assert done.stop == "finished" and "+    return sum(xs)\n" in done.patch, done.detail


@pytest.mark.parametrize("kind", ["command"], indirect=True)
async def test_a_program_that_crashes(bench: Bench, kind: Kind) -> None:
    (bench.program / "agent.py").write_text("open('half', 'w').write('done'); raise SystemExit('out of ideas')")
    with ScriptedEndpoint([]) as endpoint:
        done = await bench.attempt(bench.entry(kind, endpoint.base_url))
    assert (done.stop, done.calls, done.cost_usd) == ("crashed", 0, 0)
    assert "exit code 1: out of ideas" in done.detail and "half" in done.patch
    assert (bench.folder / "agent.log").read_text() == "out of ideas\n"


@pytest.mark.parametrize("kind", ["command"], indirect=True)
async def test_a_program_that_fills_the_disk(bench: Bench, kind: Kind) -> None:
    object.__setattr__(bench.task_sandbox.limits, "file_mb", 32)
    fill = "import os\nopen('half', 'w').write('done')\nf = open('/tmp/big', 'wb')\nwhile True: f.write(bytes(2**20))"
    (bench.program / "agent.py").write_text(fill)
    with ScriptedEndpoint([]) as endpoint:
        done = await bench.attempt(bench.entry(kind, endpoint.base_url))
    assert done.stop == "crashed" and "half" in done.patch


@pytest.mark.parametrize("kind", ["command"], indirect=True)
async def test_no_way_out_but_the_meter(bench: Bench, kind: Kind) -> None:
    with ScriptedEndpoint(lambda request: words(request)) as endpoint:
        port = endpoint.base_url.split(":")[2].split("/")[0]
        look = f"""
import os, socket, pathlib
for host, port in (("127.0.0.1", {port}), ("1.1.1.1", 53)):
    try: socket.create_connection((host, port), 2); print("open", host)
    except OSError: print("shut", host)
print(sorted(os.environ), sorted(p.name for p in pathlib.Path("/opt/scrout").iterdir()))
"""
        (bench.program / "agent.py").write_text(look)
        done = await bench.attempt(bench.entry(kind, endpoint.base_url))
    log = (bench.folder / "agent.log").read_text()
    assert done.stop == "finished" and log.count("shut") == 2 and "open" not in log and "TOY_KEY" not in log


async def test_a_program_that_is_not_there(bench: Bench) -> None:
    entry = CommandFixer(
        name="toy", command=("no-such-agent",), model="m", base_url="http://127.0.0.1:9/v1", price=PRICE
    )
    with pytest.raises(ConfigError, match="'no-such-agent' is not on PATH"):
        await bench.attempt(entry)
    assert not bench.folder.exists()


@pytest.mark.parametrize("value", [None, "", "  "])
async def test_a_missing_key_names_the_variable(
    bench: Bench, value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TOY_KEY") if value is None else monkeypatch.setenv("TOY_KEY", value)
    with ScriptedEndpoint([]) as endpoint:
        done = await bench.attempt(bench.entry(KINDS["agent"], endpoint.base_url))
    assert (done.stop, done.calls, done.cost_usd) == ("endpoint", 0, Decimal(0))
    assert "TOY_KEY" in done.detail and not endpoint.requests


async def test_an_endpoint_without_a_key(bench: Bench) -> None:
    with ScriptedEndpoint([words(ScriptedRequest("", {}, ""))]) as endpoint:
        done = await bench.attempt(bench.entry(KINDS["agent"], endpoint.base_url, key_env=""))
    assert done.stop == "finished" and "authorization" not in endpoint.requests[0].headers


async def test_a_subscription_has_no_price_and_is_never_free(bench: Bench) -> None:
    with ScriptedEndpoint([words(ScriptedRequest("", {}, ""))]) as endpoint:
        entry = bench.entry(KINDS["agent"], endpoint.base_url, price=None, subscription=True)
        done = await bench.attempt(entry)
    assert (done.stop, done.calls, done.cost_usd, done.receipts[0].cost_usd) == ("finished", 1, None, None)
    assert bench.said[-1] == "toy: 1 of 50 calls, unpriced"


async def test_without_a_price_no_call_is_made(bench: Bench) -> None:
    with ScriptedEndpoint([]) as endpoint, pytest.raises(ConfigError, match=r"no price is known for 'toy-1'.*price ="):
        await bench.attempt(bench.entry(KINDS["agent"], endpoint.base_url, price=None))
    assert not endpoint.requests


async def test_work_whose_diff_cannot_be_taken_is_still_paid_for(bench: Bench) -> None:
    head = bench.task_sandbox.base.tree / ".git" / "HEAD"
    head.rename(head.with_name("kept"))
    with ScriptedEndpoint(script(KINDS["agent"], ["true"])) as endpoint:
        done = await bench.attempt(bench.entry(KINDS["agent"], endpoint.base_url))
    head.with_name("kept").rename(head)  # other tests have the same base
    assert (done.stop, done.patch) == ("crashed", "") and "diff" in done.detail
    assert done.receipts == tuple(bench.booked) and done.cost_usd == 2 * PRICE.cost(USAGE)


async def test_the_shell_of_the_agent_is_the_sandbox_under_its_time_limit(bench: Bench) -> None:
    object.__setattr__(bench.task_sandbox.limits, "timeout_s", 1.0)
    hour = {"command": f"echo begun; {FIX}; sleep 3600", "timeout": 3600}
    slow = ScriptedReply(calls=(ToolCall("c", "bash", json.dumps(hour)),), usage=USAGE)
    with ScriptedEndpoint([slow, words(ScriptedRequest("", {}, ""))]) as endpoint:
        done = await bench.attempt(bench.entry(KINDS["agent"], endpoint.base_url))
    assert (done.stop, done.calls) == ("finished", 2) and "+    return sum(xs)\n" in done.patch
    assert f"toy: echo begun; {FIX}; sleep 3600" in bench.said
    seen = json.loads(endpoint.requests[1].body)
    assert seen["messages"][-1]["content"] == "[stopped after 1 s]\nbegun\n"
    assert [tool["function"]["name"] for tool in seen["tools"]] == ["bash"]
