"""The package as a whole: what importing costs, what is public."""

import subprocess
import sys

import pytest

import scrout


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
