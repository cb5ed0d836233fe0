"""`scrout train serve`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from scrout.cli import render


@click.command(name="serve")
@click.argument("checkpoint", metavar="CHECKPOINT", type=click.Path(path_type=Path))
@click.option("--adapter", type=click.Path(path_type=Path), metavar="DIR", help="LoRA weights to serve with it.")
@click.option(
    "--adapters", type=click.Path(path_type=Path), metavar="DIR", help="Folder of weights that may be loaded later."
)
@click.option("--name", default="", help="Name of the bare checkpoint. Default: its folder's name.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="On loopback; 0 takes a free port."
)
@click.option("--threads", type=click.IntRange(1), metavar="N", help="Compute threads. Default: torch's choice.")
def command(
    checkpoint: Path, adapter: Path | None, adapters: Path | None, name: str, port: int, threads: int | None
) -> int:
    """Example: scrout train serve runs/merged --adapters runs --threads 1

    Serve a checkpoint to this machine as OpenAI-compatible chat completions, with transformers, until Ctrl-C.

    CHECKPOINT is a folder with config.json and weights, or a GGUF file. For small models; use vLLM for large ones:
    scrout searcher serve.
    """
    from scrout.lab.train.serving import CheckpointServer

    with CheckpointServer(
        checkpoint, adapter=adapter, adapters=adapters, name=name, port=port, threads=threads
    ) as server:
        render.say(f"{server.model} at {server.base_url}; Ctrl-C ends it. For scrout.toml:")
        render.print_text(_settings(server.model, server.base_url))
        server.wait()
    return 0


def _settings(model: str, base_url: str) -> str:
    return (
        '[scout]\nsearcher = "model"\n\n[scout.model]\n'
        f'model = {json.dumps(model)}\nbase_url = "{base_url}"\ndialect = "xml"\nprice = {{ input = 0, output = 0 }}\n'
    )
