"""The pages for contributors against the repository: files, make targets, markers, layers and links."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PAGES = ("AGENTS.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md")
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

_PATH = re.compile(r"(?<![\w/.-])((?:src|tests|scripts|bench|docs)/[\w./*-]*\w/?)")
_WORDS = re.compile(r"[a-z_]+")


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", ["AGENTS.md", "CONTRIBUTING.md"])
def test_files_that_are_named_exist(page: str) -> None:
    named = {path for path in _PATH.findall(read(page)) if "NAME" not in path}
    assert named
    assert [path for path in sorted(named) if not any(ROOT.glob(path.rstrip("/")))] == []


@pytest.mark.parametrize("page", PAGES)
def test_links_resolve(page: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", read(page)):
        assert "://" in target or (ROOT / target.partition("#")[0]).exists(), target


def test_make_targets_that_are_named_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", read("Makefile"), re.M))
    for text in (*map(read, PAGES), WORKFLOW.read_text(encoding="utf-8"), read(".github/pull_request_template.md")):
        named = re.findall(r"(?:`|^\$ |run: |&& )make ([a-z][\w-]*)", text, re.M)
        assert set(named) <= targets


def test_each_marker_has_a_row_and_can_be_installed() -> None:
    markers = {marker.partition(":")[0] for marker in PROJECT["tool"]["pytest"]["ini_options"]["markers"]}
    section = read("CONTRIBUTING.md").partition("## Tests by marker")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.M)) == markers
    assert set(re.findall(r"^(\w+)\)", read("scripts/add-part"), re.M)) == markers


def test_the_layers_are_those_of_the_import_contract() -> None:
    (contract,) = PROJECT["tool"]["importlinter"]["contracts"]
    layers = [_WORDS.findall(layer) for layer in contract["layers"]]
    drawn = read("CONTRIBUTING.md").partition("```text\n")[2].partition("```")[0].splitlines()
    assert [_WORDS.findall(re.split(r" {3,}", line)[0]) for line in drawn] == layers
    chain = read("AGENTS.md").partition("```text\n")[2].partition("```")[0]
    assert [_WORDS.findall(layer) for layer in chain.split(">")] == layers


def test_ci_reads_only_and_pins_what_it_uses() -> None:
    workflow = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] and "permissions" not in job
        used = [step["uses"] for step in job["steps"] if "uses" in step]
        assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", one) for one in used)


def test_hooks_run_what_make_lint_runs() -> None:
    (local,) = yaml.safe_load(read(".pre-commit-config.yaml"))["repos"]
    hooks = {hook["entry"].removesuffix(" --force-exclude").removeprefix(".venv/bin/") for hook in local["hooks"]}
    recipe = read("Makefile").partition("\nlint:")[2].partition("\n\n")[0]
    commands = re.findall(r"^\t\$\(BIN\)/([^|\n]+[^|\s])", recipe, re.MULTILINE)
    assert local["repo"] == "local"
    assert hooks == {command.removesuffix(" .").removesuffix(" --check") for command in commands}
