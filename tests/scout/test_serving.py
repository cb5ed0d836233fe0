"""The command that serves a checkpoint: its exact words, its settings, and what happens while it runs."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

import scrout
from scrout.base import ConfigError
from scrout.cli.searcher.serve import command
from scrout.config.settings import PAPER, Sampling, Settings
from scrout.scout.serving import Serving, run, serving


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    folder = tmp_path / "SuperScout 7B"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"num_hidden_layers": 28, "hidden_size": 3584}))
    return folder


def options(command: tuple[str, ...]) -> dict[str, str]:
    """Each option with its value; empty for a flag."""
    values = zip(command, (*command[1:], ""), strict=True)
    return {word: "" if value.startswith("--") else value for word, value in values if word.startswith("--")}


def test_vllm_word_for_word(weights: Path) -> None:
    plan = serving(weights, "vllm", 8100)
    assert plan.command[:3] == ("vllm", "serve", str(weights))
    given = options(plan.command[3:])
    extract, keep = json.loads(given.pop("--speculative-config")), json.loads(given.pop("--kv-transfer-config"))
    assert given == {
        "--served-model-name": "SuperScout 7B",
        "--host": "127.0.0.1",
        "--port": "8100",
        "--dtype": "bfloat16",
        "--max-model-len": "32768",
        "--generation-config": "vllm",
        "--enable-prefix-caching": "",
        "--enable-prompt-tokens-details": "",
    }
    assert extract == {
        "method": "extract_hidden_states",
        "num_speculative_tokens": 1,
        "draft_model_config": {"hf_config": {"eagle_aux_hidden_state_layer_ids": [25]}},
    }
    assert keep == {
        "kv_connector": "ExampleHiddenStatesConnector",
        "kv_role": "kv_producer",
        "kv_connector_extra_config": {"shared_storage_path": plan.folder},
    }


def test_sglang_word_for_word(weights: Path) -> None:
    plan = serving(weights, "sglang", 8100)
    assert plan.command[:2] == ("sglang", "serve") and plan.folder == ""
    assert options(plan.command[2:]) == {
        "--model-path": str(weights),
        "--served-model-name": "SuperScout 7B",
        "--host": "127.0.0.1",
        "--port": "8100",
        "--dtype": "bfloat16",
        "--context-length": "32768",
        "--sampling-defaults": "openai",
        "--enable-cache-report": "",
        "--speculative-algorithm": "EAGLE3",
        "--enable-return-aux-hidden-states": "",
        "--return-aux-hidden-state-layer-ids": "24",
        "--return-hidden-states-mode": "last",
    }


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_its_settings_are_the_papers_and_complete(weights: Path, engine: str) -> None:
    plan = serving(weights, engine, 8100, layer=-5)  # type: ignore[arg-type]
    settings = Settings.model_validate(tomllib.loads(plan.settings)).scout
    model = settings.model
    assert (settings.searcher, model.preset, model.model) == ("model", "paper", "SuperScout 7B")
    assert (model.base_url, model.state, model.checkpoint) == ("http://127.0.0.1:8100/v1", engine, str(weights))
    assert (model.state_layer, model.dialect, model.cache_salt, model.canary) == (-5, "xml", True, True)
    assert model.sampling == Sampling.model_validate(PAPER["sampling"])


def test_a_folder_with_a_strange_name_survives(tmp_path: Path) -> None:
    folder = tmp_path / 'a "b" \\ é\x7f'
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"num_hidden_layers": 28, "hidden_size": 8}))
    settings = tomllib.loads(serving(folder, "vllm", 8000).settings)
    assert settings["scout"]["model"]["checkpoint"] == str(folder)


def test_a_name_in_a_hub_is_no_folder() -> None:
    with pytest.raises(ConfigError, match="no folder and no file"):
        serving(Path("somebody/SuperScout-7B"), "vllm", 8000)


def test_what_is_not_installed_is_named(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(weights))
    with pytest.raises(ConfigError, match=r"no `vllm` on PATH.*pip install 'vllm>="):
        run(serving(weights, "vllm", 8000))


def test_no_program_of_the_current_folder_serves(
    weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be a clone of somebody else's repository."""
    plan(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "bin:./bin")
    with pytest.raises(ConfigError, match=r"no `vllm` on PATH"):
        run(serving(weights, "vllm", 8000))


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_what_is_printed_is_what_would_be_run(weights: Path, engine: str) -> None:
    told = CliRunner().invoke(command, [str(weights), "--engine", engine, "--port", "8100"]).stdout
    plan = Serving.model_validate_json(
        CliRunner().invoke(command, [str(weights), "--engine", engine, "--port", "8100", "--json"]).stdout
    )
    shell, _, settings = told.partition("# For scrout.toml:\n")
    # A shell takes a backslash at a line's end away, shlex does not.
    assert tuple(shlex.split(shell.replace("\\\n", ""), comments=True)) == plan.command
    assert settings == plan.settings and ("0.2 GB" in shell) is (engine == "vllm")


@pytest.mark.parametrize(("layer", "vllm_id"), [((), 25), (("--layer", "-6"), 23)])
def test_the_server_keeps_the_layer_that_the_settings_name(weights: Path, layer: tuple[str, ...], vllm_id: int) -> None:
    plan = Serving.model_validate_json(CliRunner().invoke(command, [str(weights), *layer, "--json"]).stdout)
    extract = json.loads(options(plan.command)["--speculative-config"])
    assert extract["draft_model_config"]["hf_config"]["eagle_aux_hidden_state_layer_ids"] == [vllm_id]
    model = Settings.model_validate(tomllib.loads(plan.settings)).scout.model
    assert model.state_layer == (-6 if layer else -4)


# Running


SERVER = """#!/bin/sh
touch {folder}/mine.safetensors
trap 'echo told to end; exit 7' TERM INT
echo ready
while :; do sleep 0.05; done
"""


def plan(tmp_path: Path) -> Serving:
    program = tmp_path / "bin" / "vllm"
    program.parent.mkdir()
    program.write_text(SERVER.format(folder=tmp_path / "states"))
    program.chmod(0o755)
    return Serving(engine="vllm", command=(str(program),), settings="", folder=str(tmp_path / "states"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.slow
def test_signals_are_passed_on_and_its_files_go(tmp_path: Path, number: int) -> None:
    program = (
        "import sys; from scrout.scout.serving import Serving, run; "
        "code = run(Serving.model_validate_json(sys.argv[1])); print('code', code)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, plan(tmp_path).model_dump_json()],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(scrout.__file__).parents[1])},
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        assert (tmp_path / "states" / "mine.safetensors").exists()
        assert (tmp_path / "states").stat().st_mode & 0o777 == 0o700
        process.send_signal(number)
        try:
            told, _ = process.communicate(timeout=20)
        finally:
            process.kill()
    assert told == "told to end\ncode 7\n" and process.returncode == 0
    assert not list((tmp_path / "states").iterdir())


def test_a_server_that_ends_by_itself_gives_its_code(tmp_path: Path) -> None:
    served = plan(tmp_path)
    Path(served.command[0]).write_text("#!/bin/sh\nexit 3\n")
    assert run(served) == 3


def test_a_folder_that_somebody_else_prepared_is_refused(tmp_path: Path) -> None:
    served = plan(tmp_path)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "states").symlink_to(tmp_path / "theirs")
    with pytest.raises(ConfigError, match="is not yours"):
        run(served)
