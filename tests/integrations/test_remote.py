"""The forge's repository over real git: what the token is seen by, and what becomes of answers that are none."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from scrout.integrations.remote import RemoteError, open_remote

from .conftest import AT, TOKEN


class Seen(BaseHTTPRequestHandler):
    """Remembers who asked; says no, or sends the asker elsewhere."""

    headers_seen: list[tuple[str, str]]
    elsewhere = ""

    def do_GET(self) -> None:
        type(self).headers_seen.append((self.path, self.headers.get("Authorization", "")))
        self.send_response(302 if self.elsewhere else 403)
        if self.elsewhere:
            self.send_header("Location", self.elsewhere)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def forge() -> Iterator[tuple[str, type[Seen]]]:
    handler = type("Handler", (Seen,), {"headers_seen": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", handler
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("kind, user", [("github", "x-access-token"), ("gitlab", "oauth2")])
def test_the_token_goes_to_the_forge_and_into_no_message(forge: tuple[str, type[Seen]], kind: str, user: str) -> None:
    url, handler = forge
    with open_remote(f"{url}/ada/larder.git", kind, TOKEN) as remote:
        with pytest.raises(RemoteError) as error:
            remote.tip("refs/heads/main")
        word = base64.b64encode(f"{user}:{TOKEN}".encode()).decode()
        assert handler.headers_seen[0][1] == f"Basic {word}"
        for told in (str(error.value), repr(remote), *(path.read_text() for path in [remote.folder / "config"])):
            assert TOKEN not in told and word not in told
        folder = remote.folder
    assert not folder.exists()


def test_a_forge_that_sends_elsewhere_is_not_followed(forge: tuple[str, type[Seen]]) -> None:
    url, handler = forge
    handler.elsewhere = f"{url}/other/place"
    with open_remote(f"{url}/ada/larder.git", "github", TOKEN) as remote, pytest.raises(RemoteError):
        remote.tip("refs/heads/main")
    assert not [path for path, _ in handler.headers_seen if path.startswith("/other")]


@pytest.mark.parametrize("url", ["ext::sh -c touch% {trap}", "ssh://127.0.0.1:9/x", "git://127.0.0.1:9/x"])
def test_other_ways_to_a_repository_are_closed(tmp_path: Path, url: str) -> None:
    trap = tmp_path / "sprung"
    with open_remote(url.format(trap=trap), "github", "") as remote, pytest.raises(RemoteError, match="not allowed"):
        remote.tip("refs/heads/main")
    assert not trap.exists()


def test_a_commit_is_the_same_for_the_same_content(tmp_path: Path) -> None:
    with open_remote("file:///nowhere", "github", "") as remote:
        tree = remote.git("mktree", stdin=b"").decode().strip()
        assert remote.commit(tree, (), "m", AT) == remote.commit(tree, (), "m", AT)
