"""Serves a model file on loopback: llama.cpp serves a GGUF as an OpenAI-compatible endpoint, in a separate process.

The process ends when its standard input closes, so it never outlives its parent. Needs the extra `local`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from scrout.base import FrozenModel, ModelError
from scrout.programs import NEUTRAL
from scrout.redact import redact

Pooling = Literal["", "mean", "cls", "last"]
"""How to pool the token vectors; empty: as the file says."""
_PASSED_ON = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "TMPDIR")
"""Variables that it may need. Keys are not among them."""
INSTALL = "Install it with: pip install 'scrout[local]'"


class ServedModel(FrozenModel):
    """What to serve, and how."""

    path: str
    """The GGUF file."""
    context_tokens: int = Field(default=4096, ge=64)
    threads: int = Field(default=1, ge=1)
    """Several threads wait for each other in a busy loop: on a shared machine, that is far slower than one."""
    embedding: bool = False
    """Vectors instead of text."""
    pooling: Pooling = ""
    key: str = ""
    """The key, because other users of the machine can reach loopback too; empty: none is required."""
    port: int = 0
    """0: a free one."""


@dataclass(frozen=True)
class LocalServer:
    """A running server."""

    base_url: str
    process: subprocess.Popen[str]


def start(model: ServedModel, log: Path) -> LocalServer:
    """Start a server and wait until it listens; raises a ModelError with its last output if it does not."""
    if not Path(model.path).is_file():
        raise ModelError(f"{model.path} is not a file. Name a GGUF model file.")
    argv = [sys.executable, "-P", "-m", "scrout.models.local_server"]
    env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    env["PYTHONPATH"] = os.pathsep.join(part for part in sys.path if part)
    with log.open("w") as words:
        process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=words, cwd=NEUTRAL, env=env, text=True
        )
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(model.model_dump_json() + "\n")
        process.stdin.flush()
        address = process.stdout.readline().strip()
    except BrokenPipeError:
        address = ""
    if not address:
        stop(process)
        said = redact(" ".join(log.read_text(errors="replace").strip().splitlines()[-3:]))
        raise ModelError(f"llama.cpp cannot serve {model.path}: {said[-500:] or 'no output'}")
    return LocalServer(f"{address}/v1", process)


def stop(process: subprocess.Popen[str]) -> None:
    """Stop it immediately."""
    process.kill()
    process.communicate()


def main() -> None:
    """Serve the model in the first line of the input until the input ends."""
    # llama.cpp logs to stdout, where the one line for the parent goes.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    model = ServedModel.model_validate_json(sys.stdin.readline())
    try:
        import xllamacpp
    except ImportError:
        sys.exit(f"xllamacpp is not installed. {INSTALL}")
    params = xllamacpp.CommonParams()
    params.model.path = model.path
    params.hostnames = ["127.0.0.1"]
    params.port = model.port
    params.api_keys = [model.key] if model.key else []
    params.n_ctx = model.context_tokens
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = model.threads
    params.ui = False
    params.warmup = False
    if model.embedding:
        params.embedding = True
        # A text must fit into one batch.
        params.n_batch = params.n_ubatch = model.context_tokens
        if model.pooling:
            params.pooling_type = getattr(xllamacpp.llama_pooling_type, f"LLAMA_POOLING_TYPE_{model.pooling.upper()}")
    server = xllamacpp.Server(params)
    print(server.listening_address, file=out, flush=True)
    sys.stdin.read()
    # A server with a request in progress stops slowly, and the parent does not wait for it.
    os._exit(0)


if __name__ == "__main__":
    main()
