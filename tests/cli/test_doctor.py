"""What `scrout doctor` says of the endpoints of a pool, and when it fails."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scrout.models.scripted import ScriptedEndpoint

if TYPE_CHECKING:
    from conftest import Cli

LISTED = json.dumps({"object": "list", "data": [{"id": "other"}, {"id": "toy"}]})


@contextmanager
def answering(status: int, content_type: str, body: str) -> Iterator[str]:
    """An endpoint that answers every question alike."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("content-type", content_type)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def doctor(cli: Cli, shop_repo: Path, tmp_path: Path) -> Callable[..., tuple[int, dict[str, str]]]:
    def ask(base_url: str, *args: str, key: str = "") -> tuple[int, dict[str, str]]:
        """The exit code, and the finding about the pool's one fixer."""
        config = tmp_path / "scrout.toml"
        named = 'key_env = "TOY_KEY"\n' if key else ""
        config.write_text(
            f'[[fixers]]\nname = "toy"\nkind = "agent"\nmodel = "toy"\nbase_url = "{base_url}"\n{named}'
            "price = { input = 1, output = 2 }\n"
        )
        ended = cli("doctor", "--repo", shop_repo, "--config", config, "--json", *args, env={"TOY_KEY": key})
        findings = {finding["name"]: finding for finding in ended.json()["findings"]}  # type: ignore[attr-defined]
        return ended.code, findings["fixer toy"]

    return ask


@pytest.mark.parametrize(
    ("status", "content_type", "body", "problem", "step"),
    [
        (401, "application/json", "{}", "refuses the key in TOY_KEY (401)", "Check the key in TOY_KEY."),
        (200, "text/html", "<html>Welcome</html>", "is a web page (status 200)", "usually ends in /v1"),
        (
            404,
            "text/html; charset=utf-8",
            "<html>Not found</html>",
            "is a web page (status 404)",
            "usually ends in /v1",
        ),
        (503, "application/json", "{}", "status 503", "Try again later."),
        (429, "application/json", "{}", "status 429", "Try again later."),
        (200, "application/json", LISTED.replace("toy", "tea"), "does not serve 'toy'", "other, tea"),
    ],
)
def test_what_is_wrong_with_an_endpoint_is_told(doctor, status, content_type, body, problem, step) -> None:  # type: ignore[no-untyped-def]
    with answering(status, content_type, body) as base_url:
        code, finding = doctor(base_url, key="sk-test-12345678")
        strict, _ = doctor(base_url, "--strict", key="sk-test-12345678")
    assert finding["status"] == "advice" and problem in finding["detail"] and step in finding["next_step"]
    assert "server runs" not in finding["next_step"]
    assert (code, strict) == (0, 1)


def test_an_endpoint_that_wants_a_key_is_told_as_such(doctor) -> None:  # type: ignore[no-untyped-def]
    with answering(401, "application/json", "{}") as base_url:
        _, finding = doctor(base_url)
    assert "wants a key (401)" in finding["detail"] and "key_env" in finding["next_step"]


def test_an_endpoint_that_is_not_there_is_told(doctor) -> None:  # type: ignore[no-untyped-def]
    with answering(200, "application/json", LISTED) as base_url:
        pass
    code, finding = doctor(base_url, "--strict")
    assert code == 1 and "cannot be reached" in finding["detail"] and "server runs" in finding["next_step"]


def test_an_endpoint_that_serves_the_model_is_in_order(doctor) -> None:  # type: ignore[no-untyped-def]
    with ScriptedEndpoint([], models=("toy",)) as endpoint:
        code, finding = doctor(endpoint.base_url, "--strict")
    assert (code, finding["status"]) == (0, "ok") and "serves toy" in finding["detail"]


def test_an_endpoint_without_a_list_may_be_in_order(doctor) -> None:  # type: ignore[no-untyped-def]
    with answering(404, "application/json", '{"error": "no such page"}') as base_url:
        code, finding = doctor(base_url, "--strict")
    assert (code, finding["status"]) == (0, "ok") and "lists no models" in finding["detail"]
