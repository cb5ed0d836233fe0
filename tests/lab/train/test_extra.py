"""The default install has nothing of the extra: all else works without, and what needs it says so."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from scrout.cli.train import COMMANDS

ROOT = Path(__file__).parents[3]
HEAVY = ("torch", "transformers", "peft", "trl", "accelerate", "datasets", "gguf", "tokenizers", "safetensors")
WITHOUT = f"""
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {(*HEAVY, "sklearn", "pyarrow")!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
from scrout.cli.main import main
main()
"""
TASK = {"id": "me-1", "text": "wrong", "repo": "me", "base_commit": "HEAD", "gold": {"patch": "", "files": ["a.py"]}}
MODEL = "-c scout.model.model=m -c scout.model.base_url=http://127.0.0.1:9/v1 -c scout.model.price.input=0"


def scrout(folder: Path, words: str) -> subprocess.CompletedProcess[str]:
    """A command where nothing of the extra can be imported."""
    command = [sys.executable, "-c", WITHOUT, *words.split()]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_no_package_of_the_extra_is_in_the_default_install() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    default = {word.partition("[")[0] for line in project["dependencies"] for word in [line.split(">")[0].strip()]}
    assert default.isdisjoint(HEAVY)
    assert {line.split(">")[0] for line in project["optional-dependencies"]["train"]} >= {
        "torch",
        "transformers",
        "trl",
    }


def test_help_and_versions_load_nothing_of_it(tmp_path: Path) -> None:
    words = ["--version", "--help", "train --help", "doctor --help", *(f"train {name} --help" for name in COMMANDS)]
    script = (
        "import contextlib, io, sys\nfrom scrout.cli.main import main\n"
        f"for words in {words!r}:\n"
        "    sys.argv = ['scrout', *words.split()]\n"
        "    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit): main()\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]", done.stdout


@pytest.mark.parametrize(
    "words",
    [
        "pack corpus --checkpoint base --out pack",
        pytest.param("sft base pack --out run", marks=pytest.mark.slow),
        pytest.param("sft base pack --plan --gpu h100", marks=pytest.mark.slow),
        pytest.param("export adapter --base base --out out", marks=pytest.mark.slow),
        pytest.param("serve base", marks=pytest.mark.slow),
        pytest.param(
            f"grpo base tasks.jsonl --out run {MODEL} -c scout.model.price.output=0 -c scout.model.dialect=xml",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_what_needs_it_says_what_to_install(tmp_path: Path, words: str) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "config.json").write_text("{}")
    (tmp_path / "base" / "model.safetensors").write_bytes(b"x")
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    (tmp_path / "adapter" / "adapter_model.safetensors").write_bytes(b"x")
    (tmp_path / "tasks.jsonl").write_text(json.dumps(TASK) + "\n")
    before = sorted(path.name for path in tmp_path.iterdir())
    done = scrout(tmp_path, f"train {words}")
    assert done.returncode == 2 and "pip install 'scrout[train]'" in done.stderr, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == before, "nothing was begun"


def test_a_corpus_needs_nothing_of_it(tmp_path: Path) -> None:
    steps: list[dict[str, Any]] = [
        {"thought": "", "tool": "bash", "arguments": {"command": "ls"}, "observation": "a.py"},
        {"thought": "", "tool": "bash", "arguments": {"command": "cat a.py"}, "observation": "x = 1"},
    ]
    gold = {"files": ["a.py"], "patch": ""}
    row = {"layout": "scrout", "issue_id": "me__a-1", "repository": "me/a", "base_commit": "", "issue": "wrong"}
    (tmp_path / "a.jsonl").write_text(json.dumps({**row, "steps": steps, "gold": gold}) + "\n")
    done = scrout(tmp_path, "train corpus a.jsonl --out corpus --json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["demonstrations"] == 1
