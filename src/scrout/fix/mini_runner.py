"""Runs mini-SWE-agent on one task: `python mini_runner.py --model NAME --url URL --key KEY --task FILE --out FILE`.

It runs inside the sandbox, with mini-swe-agent's Python, so it cannot import scrout. It uses the templates of
mini-SWE-agent's SWE-bench configuration. It has no limits of its own: the meter enforces them.
"""

from __future__ import annotations

import argparse
import json
import logging
import shlex
import sys
from pathlib import Path
from typing import Any

from minisweagent.agents.default import DefaultAgent
from minisweagent.config import builtin_config_dir, get_config_from_spec
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models import get_model


class BashEnvironment:
    """The local environment, but with bash instead of sh, as in the containers that the templates are for."""

    def __init__(self, local: LocalEnvironment) -> None:
        self.local = local

    def __getattr__(self, name: str) -> Any:
        return getattr(self.local, name)

    def execute(self, action: dict[str, Any], cwd: str = "") -> Any:
        command = shlex.join(["bash", "-c", str(action.get("command", ""))])
        return self.local.execute({**action, "command": command}, cwd)


class Lines(logging.Handler):
    """Prints every message of the conversation immediately, so that a stopped agent has a log too."""

    def emit(self, record: logging.LogRecord) -> None:
        for message in record.msg if isinstance(record.msg, tuple) else ():
            print(json.dumps(message, default=str), flush=True)


def run(arguments: argparse.Namespace) -> str:
    """Work on the task; returns how it ended."""
    _log_messages()
    config: dict[str, Any] = get_config_from_spec(builtin_config_dir / "benchmarks" / "swebench.yaml")
    agent = {**config["agent"], "step_limit": 0, "cost_limit": 0, "output_path": Path(arguments.out).expanduser()}
    # The templates name the containers' folder; the symlink of that name to the repository is optional.
    agent["instance_template"] = agent["instance_template"].replace("/testbed", str(Path.cwd()))
    told = DefaultAgent(_model(config, arguments), _environment(config), **agent).run(_task(arguments))
    return str(told.get("exit_status", ""))


def _log_messages() -> None:
    # The agent logs each message at a level that is not shown.
    logger = logging.getLogger("agent")
    logger.propagate = False
    logger.setLevel(logging.DEBUG)
    logger.addHandler(Lines())


def _task(arguments: argparse.Namespace) -> str:
    return Path(arguments.task).read_text(encoding="utf-8")


def _model(config: dict[str, Any], arguments: argparse.Namespace) -> Any:
    options: dict[str, Any] = {
        **config["model"].get("model_kwargs", {}),
        "api_base": f"{arguments.url}/v1",
        "api_key": arguments.key,
        # Disable the client's retries: only mini-SWE-agent itself retries.
        "max_retries": 0,
    }
    if arguments.effort:
        options |= {"reasoning_effort": arguments.effort, "allowed_openai_params": ["reasoning_effort"]}
    named = {
        "model_class": "litellm",
        "model_name": f"openai/{arguments.model}",
        "model_kwargs": options,
        "cost_tracking": "ignore_errors",
    }
    return get_model(config={**config["model"], **named})


def _environment(config: dict[str, Any]) -> BashEnvironment:
    settings = config["environment"]
    variables = {name: value for name, value in settings["env"].items() if name != "BASH_ENV"}
    return BashEnvironment(LocalEnvironment(cwd=str(Path.cwd()), timeout=settings["timeout"], env=variables))


def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ("model", "url", "key", "task", "out"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--effort", default="")
    status = run(parser.parse_args())
    print(f"mini-SWE-agent: {status}")
    return 0 if status == "Submitted" else 1


if __name__ == "__main__":
    sys.exit(main())
