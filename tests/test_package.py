"""The package as a whole: what importing costs, what is public, which way imports go."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import scrout

SOURCE = Path(scrout.__file__).parent

# Lower layers never import higher ones; stages never import each other.
LAYERS = [
    {"money", "errors", "html", "languages", "syntax"},
    {"task", "handoff", "records", "config", "git"},
    {"index", "sandbox", "models", "ledger", "telemetry"},
    {"agent"},
    {"scout", "gate", "route", "fix"},
    {"pipeline"},
    {"service"},
    {"batch"},
    {"study"},
    {"train", "web", "mcp", "api", "forge"},
    {"cli", "__main__"},
]
STAGES = {"scout", "gate", "route", "fix"}


def test_importing_the_package_loads_nothing_heavy() -> None:
    script = "import sys, scrout; print([m for m in ('pydantic', 'numpy', 'httpx', 'rich') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_version_loads_no_command() -> None:
    script = (
        "import sys; sys.argv = ['scrout', '--version']\n"
        "from scrout.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as e: assert e.code == 0\n"
        "print([m for m in ('pydantic', 'numpy', 'httpx', 'rich', 'asyncio') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"scrout {scrout.__version__}", "[]"]


def test_public_names_load() -> None:
    for name in scrout.__all__:
        assert getattr(scrout, name) is not None
    with pytest.raises(AttributeError):
        scrout.nothing_of_the_kind  # noqa: B018


def test_imports_go_one_way() -> None:
    rank = {name: number for number, layer in enumerate(LAYERS) for name in layer}
    for path in SOURCE.rglob("*.py"):
        relative = path.relative_to(SOURCE)
        if relative.parts[0] in ("example", "__init__.py") or "watch" in relative.parts:
            continue
        here = relative.parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("scrout."):
                there = (node.module or "").split(".")[1]
                assert rank[there] <= rank[here], f"{relative} imports scrout.{there}"
                assert not (here != there and {here, there} <= STAGES), f"stage {here} imports stage {there}"
