"""`scrout api` in a thread or as a process, over a small project with a bug and a pool behind a scripted endpoint."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest

pytest.importorskip("starlette", reason="the API needs scrout[web]")

import scrout
from scrout.cli.main import main
from scrout.cli.main import scrout as commands
from scrout.models.scripted import ScriptedEndpoint, ScriptedReply
from scrout.models.scripted.script import ScriptedRequest
from scrout.money import Usage
from scrout.sandbox.tier import Tier
from scrout.server.api import app as serving
from scrout.server.serving import HttpServer

from ...conftest import SHOP

ISSUE = "total() in shop/cart.py leaves out the first price"
TOKEN = "a-token-of-the-tests-0123456789"
OTHER = "another-token-of-tests-987654321"
KEY = "endpoint-key-5b1d2c"
"""The endpoint's: of no shape that a rule would find."""
SERVE = "from scrout.cli.main import main; main()"
CALLER = """
[[api.callers]]
name = "ci"
token_env = "CI_AUTH"
may = ["scout", "gate", "route", "fix", "auto"]
budget_usd = 100
requests_a_minute = 100000
jobs = 8
"""
AUTH = {"Authorization": f"Bearer {TOKEN}"}


def answer(request: ScriptedRequest) -> ScriptedReply:
    """A short one, of 1,000 tokens in and 50 out: $0.0011."""
    return ScriptedReply(
        text=f"hello from {request.content['model']}", usage=Usage(input_tokens=1000, output_tokens=50)
    )


@dataclass
class Api:
    """A server that runs."""

    url: str
    client: httpx.Client
    end: Callable[[], None]
    """Tell it to end, and wait until it has."""

    def chat(self, text: str = "fix the total", **more: Any) -> httpx.Response:
        headers = more.pop("headers", {})
        body = {"model": "scrout/auto", "messages": [{"role": "user", "content": text}], **more}
        return self.client.post("/v1/chat/completions", json=body, headers=headers)

    def ended(self, job: str) -> dict[str, Any]:
        """A job at its end."""
        while True:
            found: dict[str, Any] = self.client.get(f"/v1/jobs/{job}", params={"wait": 60}).raise_for_status().json()
            if found["ended"]:
                return found

    def events(self, job: str, after: int | None = None) -> Iterator[tuple[int, str, Any]]:
        """Number, kind and data of what is told of a job."""
        headers = {} if after is None else {"Last-Event-ID": str(after)}
        about: dict[str, str] = {}
        with self.client.stream("GET", f"/v1/jobs/{job}/events", headers=headers) as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            for line in stream.iter_lines():
                if line:
                    name, _, value = line.partition(": ")
                    about[name] = value
                elif about.get("event"):
                    yield int(about["id"]), about["event"], json.loads(about["data"])
                    about = {}

    def at_work(self, job: str, words: str) -> None:
        """Waits until that is said of a job."""
        for _, kind, data in self.events(job):
            assert kind == "progress", f"it ended before: {data}"
            if words in data["said"]:
                return

    def budget(self) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get("/v1/budget").raise_for_status().json()
        return found

    def settled(self) -> dict[str, Any]:
        """The budget, once nothing is held."""
        while (found := self.budget())["held_usd"]:
            time.sleep(0.01)
        return found


@dataclass
class Process(Api):
    """One that is a process of its own."""

    process: subprocess.Popen[str]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@dataclass(frozen=True)
class Server:
    """How to run `scrout api` on one folder."""

    repo: Path
    env: Mapping[str, str] = field(default_factory=dict)
    caller: ClassVar = CALLER
    issue: ClassVar = ISSUE

    @staticmethod
    def agent(name: str, base_url: str, more: str = "") -> str:
        """An entry of the pool. A call costs what its tokens say: a dollar a million in, two out."""
        return (
            f'[[fixers]]\nname = "{name}"\nkind = "agent"\nmodel = "{name}-model"\nbase_url = "{base_url}"\n'
            f'key_env = "POOL_AUTH"\nprice = {{ input = 1, output = 2 }}\n{more}\n'
        )

    @staticmethod
    def slow(seconds: float) -> str:
        """A handoff whose claim takes so long to replay."""
        return f"<repro>\ncommand: sleep {seconds}\nreproduced: true\nobserved: boom\n</repro>\nSTOP"

    def command(self, *args: str) -> list[str]:
        return ["api", "--repo", str(self.repo), "--port", "0", *args]

    def configure(self, *parts: str) -> None:
        """Callers and pool. Not in the repository, where it would be an uncommitted change."""
        self._config.write_text("\n".join(parts))

    @property
    def _config(self) -> Path:
        return self.repo.parent / f"{self.repo.name}.toml"

    def _configured(self, args: tuple[str, ...]) -> tuple[str, ...]:
        return ("--config", str(self._config), *args) if self._config.exists() else args

    @contextmanager
    def running(self, *args: str, headers: Mapping[str, str] = AUTH, quiet: bool = True) -> Iterator[Api]:
        """In a thread of this process. `quiet`: it must have nothing to say beside where it is, however it ends."""
        made: list[HttpServer] = []
        ready = threading.Event()
        serve = serving.serve

        def serve_noted(*given: Any) -> HttpServer:
            made.append(serve(*given))
            ready.set()
            return made[0]

        def run() -> None:
            try:
                commands.main(self.command(*self._configured(args)), standalone_mode=False)
            finally:
                ready.set()

        with _environment(self.env) as (patch, _, said):
            patch.setattr(serving, "serve", serve_noted)
            thread = threading.Thread(target=run)
            thread.start()

            def end() -> None:
                for one in made:
                    one._server.should_exit = True
                thread.join()

            try:
                ready.wait()
                assert made, said()
                with httpx.Client(base_url=made[0].url, verify=False, headers=dict(headers), timeout=100) as client:
                    yield Api(made[0].url, client, end)
            finally:
                end()
            first, *rest = said().splitlines()
            assert made[0].url in first and not (quiet and rest), said()

    @contextmanager
    def process(self, *args: str) -> Iterator[Process]:
        """As a process: for what only one shows. It must have nothing to say beside where it is, however it ends."""
        command = [sys.executable, "-c", SERVE, *self.command(*self._configured(args))]
        with subprocess.Popen(command, env=dict(self.env), stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr

            def end() -> None:
                process.terminate()
                process.wait(30)

            try:
                said = ""
                while not (address := re.search(r"http://\S+?(?=,? for|, )", said)):
                    line = process.stderr.readline()
                    said += line
                    assert line, said
                with httpx.Client(base_url=address[0], verify=False, headers=AUTH, timeout=100) as client:
                    yield Process(address[0], client, end, process)
            finally:
                end()
                rest = process.stderr.read()
            assert process.returncode in (-signal.SIGTERM, -signal.SIGKILL, 0) and not rest, rest

    def _ended(self, *args: str) -> tuple[int, str, str]:
        """Exit code, standard output and standard error of a command."""
        with _environment(self.env) as (patch, out, err):
            patch.setattr(sys, "argv", ["scrout", *args])
            signals = [(number, signal.getsignal(number)) for number in (signal.SIGTERM, signal.SIGHUP)]
            try:
                with pytest.raises(SystemExit) as ended:
                    main()
            finally:
                for number, handler in signals:
                    signal.signal(number, handler)
            return int(ended.value.code or 0), out(), err()

    def fails(self, *args: str) -> str:
        """What it says when it does not start."""
        code, out, err = self._ended(*self.command(*self._configured(args)))
        assert code == 2 and not out, err
        return err

    def scrout(self, *args: str) -> str:
        """What a command of the same user says."""
        code, out, err = self._ended(*args)
        assert code == 0, err
        return out


@contextmanager
def _environment(env: Mapping[str, str]) -> Iterator[tuple[pytest.MonkeyPatch, Callable[[], str], Callable[[], str]]]:
    """This process with these variables, and what it writes to standard output and standard error meanwhile."""
    streams = [TextIOWrapper(BytesIO(), encoding="utf-8", write_through=True) for _ in range(2)]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in env.items():
            patch.setenv(name, value)
        patch.setattr(sys, "stdout", streams[0])
        patch.setattr(sys, "stderr", streams[1])
        yield patch, *(lambda stream=stream: stream.buffer.getvalue().decode() for stream in streams)  # type: ignore[misc]


def _env(folder: Path | None = None) -> dict[str, str]:
    """Of a server; `folder` is where its user's folders are, if not where this test's are."""
    # The interpreter itself rather than a version manager's script, which takes a tenth of a second to start it.
    path = os.pathsep.join((str(Path(sys.base_prefix, "bin")), os.environ["PATH"]))
    source = str(Path(scrout.__file__).parent.parent)
    own = ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")
    homes = {name: str(folder / name.lower()) for name in own} if folder else {}
    tokens = {"CI_AUTH": TOKEN, "OTHER_AUTH": OTHER, "POOL_AUTH": KEY}
    return {**os.environ, "PATH": path, "PYTHONPATH": source, **homes, **tokens}


@pytest.fixture
def serve(tier: Tier) -> Callable[[Path], Server]:
    return lambda repo: Server(repo, _env())


@pytest.fixture
def server(serve: Callable[[Path], Server], make_repo: Callable[..., Path]) -> Server:
    """For a project whose `total` is wrong, with one caller that may do anything."""
    server = serve(make_repo(SHOP))
    server.configure(CALLER)
    return server


@pytest.fixture
def endpoint() -> Iterator[ScriptedEndpoint]:
    with ScriptedEndpoint(answer, models=("small-model", "big-model")) as running:
        yield running


@pytest.fixture(scope="module")
def shared(tier: Tier, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """One server for all tests of a file, with a pool that answers and one job at a time."""
    folder = tmp_path_factory.mktemp("shared")
    for path, content in SHOP.items():
        (folder / "repo" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "repo" / path).write_text(content)
    identity = ["-c", "user.name=Test", "-c", "user.email=test@localhost"]
    for command in (["init", "-q"], ["add", "--all"], [*identity, "commit", "-q", "-m", "base"]):
        subprocess.run(["git", *command], cwd=folder / "repo", check=True)
    with ScriptedEndpoint(answer, models=("small-model",), keep=False) as running:
        server = Server(folder / "repo", _env(folder))
        server.configure(CALLER.replace("jobs = 8", "jobs = 1"), server.agent("small", running.base_url))
        # A process: the variables of one in this process would be those of every test of the file.
        with server.process() as api:
            yield api
