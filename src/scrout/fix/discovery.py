"""Finds fixers for a pool on this machine: CLI agents, API keys, model servers on loopback."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from scrout.base import ConfigError
from scrout.fix.presets import PRESETS
from scrout.fix.program import find_preset
from scrout.models.listing import list_models
from scrout.programs import find_program

AGENT_MODELS = {
    "claude-code": ("ANTHROPIC_API_KEY", ("claude-haiku-4-5", "claude-opus-4-6")),
    "codex": ("OPENAI_API_KEY", ("gpt-5-mini", "gpt-5.2-codex")),
}
"""A maker's agent and key, and a cheap and a strong model with known outcomes."""
MODEL_AGENTS = ("aider", "opencode", "mini")
"""Agents that work with any model; the user must choose one."""
OTHER_AGENTS = {"gemini": "gemini-cli"}
"""Programs without a preset."""
LOCAL_SERVERS = {"Ollama": 11434, "llama.cpp": 8080, "LM Studio": 1234, "vLLM": 8000}
"""Default ports of model servers."""
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._:/@+-]{0,199}")
KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY", "DEEPSEEK_API_KEY")


@dataclass(frozen=True)
class FoundFixer:
    """An entry for the pool."""

    entry: Mapping[str, object]
    """The keys of its [[fixers]] table."""
    because: str
    """The evidence for it."""

    def toml(self) -> str:
        lines = [f"# {self.because}", "[[fixers]]"]
        lines += [f"{key} = {_value(value)}" for key, value in self.entry.items()]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Discovery:
    """Everything that was found."""

    fixers: tuple[FoundFixer, ...]
    notes: tuple[str, ...]
    """Finds that are not usable yet, with the next step."""


def discover(ports: Mapping[str, int] | None = None) -> Discovery:
    """Search this machine. It contacts only loopback, and starts nothing."""
    fixers: list[FoundFixer] = []
    notes: list[str] = []
    with ThreadPoolExecutor() as threads:
        servers = list(threads.map(_local, *zip(*(LOCAL_SERVERS if ports is None else ports).items(), strict=True)))
    fixers += [fixer for fixer in servers if fixer]
    usable = {name for name in PRESETS if _is_usable(name)}
    for agent, (key, models) in AGENT_MODELS.items():
        if agent in usable and os.environ.get(key):
            fixers += [_agent(agent, key, model) for model in models]
        elif agent in usable:
            notes.append(f"{agent} is installed and {key} is not set. Export the key, and run scrout init --force.")
        elif os.environ.get(key):
            notes.append(f"{key} is set and {agent} is not installed: {PRESETS[agent].install}")
    notes += _of_other_programs(usable)
    unused = [key for key in KEYS if os.environ.get(key) and key not in {key for key, _ in AGENT_MODELS.values()}]
    notes += [f"{key} is set: add a [[fixers]] entry with a model of its maker's (docs/fixers.md)." for key in unused]
    return Discovery(tuple(fixers), tuple(notes))


def _local(name: str, port: int) -> FoundFixer | None:
    base_url = f"http://127.0.0.1:{port}/v1"
    # Any program can listen on a port, and names are written into your settings, also into a comment, which a line
    # break would end.
    models = [model for model in list_models(base_url, {}, "").models or () if _MODEL.fullmatch(model)]
    if not models:
        return None
    others = f"; it also has {', '.join(models[1:4])}" if len(models) > 1 else ""
    entry = {
        "name": f"local-{port}",
        "kind": "single",
        "model": models[0],
        "base_url": base_url,
        "price": {"input": 0, "output": 0},
    }
    return FoundFixer(entry, f"A server listens on {name}'s port {port}{others}.")


def _agent(agent: str, key: str, model: str) -> FoundFixer:
    entry = {"name": f"{agent}-{model}", "kind": "command", "preset": agent, "model": model}
    return FoundFixer(entry, f"{agent} is installed and {key} is set.")


def _of_other_programs(usable: set[str]) -> Iterator[str]:
    for agent in MODEL_AGENTS:
        if agent in usable:
            kind = 'kind = "mini"' if agent == "mini" else f'preset = "{agent}"'
            yield f"{agent} is installed: a [[fixers]] entry with {kind} and a model makes it a fixer (docs/fixers.md)."
    for program, name in OTHER_AGENTS.items():
        if find_program(program):
            yield f"{name} is installed, and scrout has no preset for it: give its command (docs/fixers.md)."


def _is_usable(preset: str) -> bool:
    try:
        find_preset(PRESETS[preset])
    except ConfigError:
        return False
    return True


def _value(value: object) -> str:
    """A value as TOML: texts and numbers are written as in JSON."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_value(one)}' for key, one in value.items())} }}"
    return json.dumps(value, ensure_ascii=False)
