"""The command line, in this process or as one of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import BinaryIO

import pytest

import scrout
from scrout.cli.main import main
from scrout.config.loading import trust
from scrout.sandbox.tier import Tier

from ..conftest import SHOP, SHOP_ISSUE


def _start_afresh(before: Callable[[], None] | None) -> None:
    """Whoever runs the tests may ignore hangups, and what is ignored is inherited."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if before:
        before()


@contextmanager
def _same_signals() -> Iterator[None]:
    """`main` handles signals of its own; afterwards they are the test runner's again."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


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
    """`scrout`, run from a folder of its own."""

    cwd: Path
    env: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, *args: str | Path, stdin: bytes | BinaryIO = b"", env: Mapping[str, str] | None = None) -> Ended:
        """A command in this process, through the same entry point. A traceback fails the test by itself."""
        out = TextIOWrapper(BytesIO(), encoding="utf-8", write_through=True)
        err = TextIOWrapper(BytesIO(), "utf-8", "backslashreplace", write_through=True)
        code = self.writing(out, err, *args, stdin=stdin, env=env)
        return Ended(code, out.detach().getvalue(), err.detach().getvalue().decode())

    def writing(
        self,
        out: TextIOWrapper,
        err: TextIOWrapper,
        *args: str | Path,
        stdin: bytes | BinaryIO = b"",
        env: Mapping[str, str] | None = None,
    ) -> int:
        """The exit code of a command in this process that writes there."""
        with pytest.MonkeyPatch.context() as patch, _same_signals():
            for name, value in {**self.env, **(env or {})}.items():
                patch.setenv(name, value)
            patch.chdir(self.cwd)
            patch.setattr(sys, "argv", ["scrout", *map(str, args)])
            source = TextIOWrapper(BytesIO(stdin) if isinstance(stdin, bytes) else stdin, encoding="utf-8")
            patch.setattr(sys, "stdin", source)
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            with pytest.raises(SystemExit) as ended:
                main()
            source.detach()
        return int(ended.value.code or 0)

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
        """A process in the background, in a session of its own, and gone when the block ends."""
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


def write_trusted(folder: Path, text: str) -> Path:
    """A folder's scrout.toml, which the user has vouched for."""
    path = folder / "scrout.toml"
    path.write_text(text)
    trust(path)
    return path


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
    """The project whose `total` is wrong, shorter: what is repaired here is one statement."""
    cart = SHOP["shop/cart.py"].partition("    result")[0]
    return make_repo({**SHOP, "shop/cart.py": f"{cart}    return sum(prices[1:])\n"})


@pytest.fixture
def issue(tmp_path: Path) -> Path:
    path = tmp_path / "issue.md"
    path.write_text(SHOP_ISSUE)
    return path


@dataclass
class Forge:
    """Answers as GitHub and GitLab do for one issue each."""

    url: str = ""
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def answer(self, path: str) -> object:
        title, _, body = SHOP_ISSUE.partition("\n\n")
        return {
            "/repos/ada/shop/issues/7": {"title": title, "body": f"{body}\n![screen](https://pictures.example/1.png)"},
            "/repos/ada/shop/issues/7/comments?per_page=100": [{"body": "Same here.", "user": {"login": "grace"}}],
            "/projects/group%2Fsub%2Fshop/issues/7": {"title": title, "description": body},
        }.get(path)


@pytest.fixture
def forge(monkeypatch: pytest.MonkeyPatch) -> Iterator[Forge]:
    known = Forge()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
            found = known.answer(self.path)
            body = json.dumps({"message": "Not Found"} if found is None else found).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        known.url = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("GITHUB_API_URL", known.url)
        monkeypatch.setenv("CI_API_V4_URL", known.url)
        tokens = ("GITHUB_TOKEN", "GH_TOKEN", "GITLAB_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN")
        for name in (*tokens, "GH_HOST", "GITLAB_HOST", "GITHUB_SERVER_URL", "CI_SERVER_HOST"):
            monkeypatch.delenv(name, raising=False)
        try:
            yield known
        finally:
            server.shutdown()
            thread.join()
