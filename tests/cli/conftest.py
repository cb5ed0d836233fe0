"""The command line as a subprocess, a small project with a bug, and an issue about it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

import scrout
from scrout.sandbox.tier import Tier

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
ISSUE = """total() leaves out the first price

```python
from shop.cart import total

assert total([1, 2]) == 3, total([1, 2])
```

```
AssertionError: 2
```
"""


def _start_afresh(before: Callable[[], None] | None) -> None:
    """Whoever runs the tests may ignore hangups, and what is ignored is inherited."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if before:
        before()


@dataclass(frozen=True)
class Ended:
    """One command that has ended."""

    code: int
    out: bytes
    err: str

    def json(self) -> dict[str, object]:
        """Standard output, which must be one JSON document and nothing else."""
        document = json.loads(self.out)
        assert isinstance(document, dict), document
        return document


@dataclass(frozen=True)
class Cli:
    """`python -m scrout`, run from a folder of its own."""

    cwd: Path
    env: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, *args: str | Path, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Ended:
        with self.started(*args, env=env, stdin=subprocess.PIPE) as process:
            out, err = process.communicate(stdin, timeout=120)
        return Ended(process.returncode, out, err.decode())

    @contextmanager
    def started(
        self,
        *args: str | Path,
        env: Mapping[str, str] | None = None,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
        before: Callable[[], None] | None = None,
    ) -> Iterator[subprocess.Popen[bytes]]:
        """The same in the background, in a session of its own, and gone when the block ends."""
        with subprocess.Popen(
            [sys.executable, "-m", "scrout", *map(str, args)],
            cwd=self.cwd,
            env={**os.environ, **self.env, **(env or {})},
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            preexec_fn=partial(_start_afresh, before),
        ) as process:
            try:
                yield process
            finally:
                process.kill()


@pytest.fixture
def cli(tmp_path: Path, tier: Tier, monkeypatch: pytest.MonkeyPatch) -> Cli:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "cwd"
    folder.mkdir()
    here = Path(sys.executable).parent
    return Cli(
        folder,
        {
            "PYTHONPATH": str(Path(scrout.__file__).parent.parent),
            "PATH": f"{here}:{os.environ['PATH']}",
            "TERM": "xterm-256color",
        },
    )


@pytest.fixture
def shop_repo(make_repo: Callable[..., Path]) -> Path:
    """A project whose tests pass and whose `total` is wrong."""
    return make_repo(PROJECT)


@pytest.fixture
def issue(tmp_path: Path) -> Path:
    path = tmp_path / "issue.md"
    path.write_text(ISSUE)
    return path
