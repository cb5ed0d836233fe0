"""A server as a real process, the SDK's own client, and a small project with a bug."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import scrout
from scrout.sandbox.tier import Tier

if TYPE_CHECKING:
    from mcp import StdioServerParameters

PROJECT = {
    "shop/__init__.py": "",
    "shop/cart.py": '''"""A cart."""


def total(prices):
    """The sum of all prices."""
    result = 0
    for price in prices[1:]:
        result += price
    return result
''',
    "tests/__init__.py": "",
    "tests/test_cart.py": """import unittest

from shop.cart import total


class CartTest(unittest.TestCase):
    def test_empty(self):
        self.assertEqual(total([]), 0)
""",
}
SERVE = "from scrout.cli.main import COMMANDS, main; COMMANDS.setdefault('mcp', ''); main()"


@dataclass(frozen=True)
class Server:
    """`scrout mcp` on one folder, started as a client would."""

    repo: Path
    env: Mapping[str, str] = field(default_factory=dict)

    def stdio(self, *args: str) -> StdioServerParameters:
        from mcp import StdioServerParameters

        return StdioServerParameters(
            command=sys.executable, args=["-c", SERVE, "mcp", "--repo", str(self.repo), *args], env=dict(self.env)
        )

    @contextmanager
    def http(self, *args: str, env: Mapping[str, str] | None = None) -> Iterator[str]:
        """The address it listens at."""
        command = [sys.executable, "-c", SERVE, "mcp", "--repo", str(self.repo), "--http", "--port", "0", *args]
        with subprocess.Popen(command, env={**self.env, **(env or {})}, stderr=subprocess.PIPE, text=True) as process:
            try:
                assert process.stderr
                line = process.stderr.readline()
                address = re.search(r"http://\S+/mcp", line)
                assert address, line + process.stderr.read()
                yield address[0]
            finally:
                process.terminate()
                process.wait(20)

    def fails(self, *args: str) -> str:
        """What it says when it does not start."""
        command = [sys.executable, "-c", SERVE, "mcp", "--repo", str(self.repo), *args]
        ended = subprocess.run(command, env=dict(self.env), capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert ended.returncode == 2 and not ended.stdout and "Traceback" not in ended.stderr, ended
        return ended.stderr


@pytest.fixture
def serve(tier: Tier) -> Callable[[Path], Server]:
    # The interpreter itself rather than a version manager's script, which takes a tenth of a second to start it.
    path = os.pathsep.join((str(Path(sys.base_prefix, "bin")), os.environ["PATH"]))
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(Path(scrout.__file__).parent.parent)}
    return lambda repo: Server(repo, env)


@pytest.fixture
def server(serve: Callable[[Path], Server], make_repo: Callable[..., Path]) -> Server:
    """For a project whose tests pass and whose `total` is wrong."""
    return serve(make_repo(PROJECT))
