"""The exact command that serves a searcher's checkpoint by the paper's protocol, and the settings that belong to it.

Written after the code of vLLM 0.32.0 and SGLang 0.5.23. Neither has been run with it: `scrout searcher canary` says
whether a server does what it should.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from types import FrameType
from typing import Literal

from scrout.base import ConfigError, FrozenModel
from scrout.config.settings import SearcherSettings
from scrout.programs import NEUTRAL, find_program, variables
from scrout.scout.hidden_state import checkpoint
from scrout.scout.hidden_state.servers import storage, sweep

Engine = Literal["vllm", "sglang"]

HOST = "127.0.0.1"
CONTEXT_TOKENS = 32768
SWEEP_S = 5.0
# vLLM's first versions with hidden states lose them where a prompt is read in parts, or comes out of the cache.
INSTALL: dict[Engine, str] = {"vllm": "vllm>=0.32", "sglang": "sglang>=0.5.23"}


class Serving(FrozenModel):
    """How to serve one checkpoint."""

    engine: Engine
    command: tuple[str, ...]
    settings: str
    """TOML, for scrout.toml."""
    folder: str = ""
    """Where the server writes hidden states, for scrout to take; empty: nowhere."""


def serving(path: Path, engine: Engine, port: int, layer: int = SearcherSettings().state_layer) -> Serving:
    """The command and the settings for a checkpoint folder."""
    path = checkpoint.find(str(path)).resolve()
    depth = checkpoint.shape(path).depth(layer)
    if engine == "vllm":
        command, folder = _vllm(path, port, checkpoint.vllm_id(depth)), str(storage())
    else:
        command, folder = _sglang(path, port, checkpoint.sglang_id(depth)), ""
    return Serving(engine=engine, command=command, settings=_settings(path, engine, port, layer), folder=folder)


def run(plan: Serving) -> int:
    """Serve until the server ends, and say how it did. Signals are passed on; states that nobody takes are removed."""
    program = find_program(plan.command[0])
    if program is None:
        raise ConfigError(
            f"there is no `{plan.command[0]}` on PATH. Install it into an environment of its own, "
            f"`pip install '{INSTALL[plan.engine]}'`, activate that and try again."
        )
    folder = _own(Path(plan.folder)) if plan.folder else None
    process: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        if process is None:
            early.append(number)
        else:
            process.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        # Out of our process group, or Ctrl-C would reach it twice and cut its own cleaning up short.
        process = subprocess.Popen(
            [program, *plan.command[1:]], cwd=NEUTRAL, env=variables(), stdin=subprocess.DEVNULL, process_group=0
        )
        for number in early:
            process.send_signal(number)
        while True:
            try:
                return process.wait(timeout=SWEEP_S)
            except subprocess.TimeoutExpired:
                if folder:
                    sweep(folder)
    finally:
        for known, handler in before.items():
            signal.signal(known, handler)
        if process is not None and process.poll() is None:
            process.kill()
        if folder:
            sweep(folder, older_s=0)


def _vllm(path: Path, port: int, layer_id: int) -> tuple[str, ...]:
    extract = {
        "method": "extract_hidden_states",
        "num_speculative_tokens": 1,
        "draft_model_config": {"hf_config": {"eagle_aux_hidden_state_layer_ids": [layer_id]}},
    }
    keep = {
        "kv_connector": "ExampleHiddenStatesConnector",
        "kv_role": "kv_producer",
        "kv_connector_extra_config": {"shared_storage_path": str(storage())},
    }
    return (
        *("vllm", "serve", str(path)),
        *("--served-model-name", path.name),
        *("--host", HOST),
        *("--port", str(port)),
        *("--dtype", "bfloat16"),
        *("--max-model-len", str(CONTEXT_TOKENS)),
        # The checkpoint's own sampling would fill in whatever a request leaves out.
        *("--generation-config", "vllm"),
        "--enable-prefix-caching",
        "--enable-prompt-tokens-details",
        *("--speculative-config", json.dumps(extract)),
        *("--kv-transfer-config", json.dumps(keep)),
    )


def _sglang(path: Path, port: int, layer_id: int) -> tuple[str, ...]:
    return (
        *("sglang", "serve"),
        *("--model-path", str(path)),
        *("--served-model-name", path.name),
        *("--host", HOST),
        *("--port", str(port)),
        *("--dtype", "bfloat16"),
        *("--context-length", str(CONTEXT_TOKENS)),
        # As above; prefixes are cached unless one says otherwise.
        *("--sampling-defaults", "openai"),
        "--enable-cache-report",
        # With the next option this loads no draft model: it only says how layers are numbered.
        *("--speculative-algorithm", "EAGLE3"),
        "--enable-return-aux-hidden-states",
        *("--return-aux-hidden-state-layer-ids", str(layer_id)),
        *("--return-hidden-states-mode", "last"),
    )


def _settings(path: Path, engine: Engine, port: int, layer: int) -> str:
    lines = [
        "[scout]",
        'searcher = "model"',
        "",
        "[scout.model]",
        'preset = "paper"',
        f"model = {_quoted(path.name)}",
        f'base_url = "http://{HOST}:{port}/v1"',
        "price = { input = 0.0, output = 0.0 }",
        f'state = "{engine}"',
        f"checkpoint = {_quoted(str(path))}",
    ]
    if layer != SearcherSettings().state_layer:
        lines.append(f"state_layer = {layer}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A TOML string: JSON's is one, but for a character that TOML wants escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _own(folder: Path) -> Path:
    """Hidden states tell of what was in the prompt: nobody else may read them, or have made the folder."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise ConfigError(f"{folder} is not yours. Remove it, or have its owner do so.")
    folder.chmod(0o700)
    return folder
