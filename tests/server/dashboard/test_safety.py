"""Attacks: script in everything that somebody else wrote, other hosts, other methods, no token, odd paths, secrets."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable
from contextlib import suppress
from html.parser import HTMLParser
from pathlib import Path
from threading import Thread

import httpx
import pytest
from starlette.applications import Starlette

from scrout.base import ConfigError
from scrout.config.folders import data_folder
from scrout.config.settings import Settings
from scrout.server.access import MIN_TOKEN_CHARS, is_loopback
from scrout.server.dashboard.access import token_for
from scrout.server.dashboard.app import create_app, serve

AddRun = Callable[..., str]
SCRIPT = "<script>alert(1)</script>"
QUOTED = "\"'><img src=x onerror=alert(1)>"
HOSTILE = f"{SCRIPT}{QUOTED}</pre></title></textarea><svg onload=alert(1)><a href='javascript:alert(1)'>x</a>"
TOKEN = "correct-horse-battery-staple-42"
PAGES = ("/runs", "/batches", "/frontier", "/fixers", "/studies", "/login", "/style.css", "/nothing", "/runs?before=x")
KEY = "sk-proj-A1b2C3d4E5f6G7h8I9j0"


class Tags(HTMLParser):
    """Every element and attribute that a browser would make of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.targets: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name in ("href", "src", "action"):
                self.targets.append(value or "")


def is_harmless(page: str) -> bool:
    """No script, no handler, no picture of the attack, no way out of the dashboard."""
    tags = Tags(page)
    handlers = [name for name in tags.attributes if name.startswith("on")]
    ours = [target for target in tags.targets if target.startswith(("/", "#")) and not target.startswith("//")]
    return not tags.names & {"script", "img", "iframe", "object", "base"} and not handlers and ours == tags.targets


@pytest.fixture
def asking(web_settings: Settings) -> Callable[..., httpx.AsyncClient]:
    """asking(token, host=...): a client of a dashboard with that token."""

    def ask(token: str = TOKEN, host: str = "127.0.0.1:8765") -> httpx.AsyncClient:
        transport = httpx.ASGITransport(create_app(web_settings, token))
        return httpx.AsyncClient(transport=transport, base_url=f"http://{host}")

    return ask


@pytest.mark.parametrize(
    "where", ["text", "path", "patch", "notes", "model", "batch", "fixer", "arm", "output", "task_id"]
)
async def test_planted_script_is_text_on_every_page(where: str, add_run: AddRun, web: httpx.AsyncClient) -> None:
    planted = {"patch": f"diff --git a/{HOSTILE} b/{HOSTILE}\n@@ -1,1 +1,1 @@ {HOSTILE}\n-{HOSTILE}\n+{HOSTILE}\n"}
    given = {"batch": "b", "arm": "handoff/a"} | {where: planted.get(where, HOSTILE)}
    run = add_run(**given)
    pages = ["/runs", f"/runs/{run}", "/batches", "/frontier", "/fixers", "/studies"]
    seen = ""
    for path in pages:
        page = (await web.get(path)).text
        assert is_harmless(page), path
        seen += page
    for path, query in (
        ("/batch", {"name": given["batch"]}),
        ("/runs", {"words": HOSTILE}),
        ("/runs", {"fixer": HOSTILE}),
    ):
        answer = await web.get(path, params=query)
        assert answer.status_code == 200
        assert is_harmless(answer.text)
        seen += answer.text
    assert "&lt;script&gt;alert(1)" in seen


@pytest.mark.parametrize(
    "name", ["words", "fixer", "arm", "batch", "outcome", "since", "until", "before", "after", "x"]
)
async def test_script_in_what_is_asked_is_text(name: str, add_run: AddRun, web: httpx.AsyncClient) -> None:
    add_run()
    for path in ("/runs", "/batch", "/frontier", "/fixers", f"/runs/{HOSTILE.replace('/', '')}", "/login", "/nothing"):
        for ending in ("", ".json"):
            answer = await web.get(path + ending, params={name: HOSTILE, "name": HOSTILE})
            assert answer.status_code in (200, 307, 400, 404)
            if answer.headers.get("content-type", "").startswith("text/html"):
                assert is_harmless(answer.text), path


@pytest.mark.parametrize(
    "planted", ["%zz", "%ff%fe", "%00", "%ed%a0%80", "%c0%af", "a%0d%0aSet-Cookie:%20x=1", "%u0041", "%"]
)
async def test_odd_bytes_are_answered_in_words(planted: str, add_run: AddRun, web: httpx.AsyncClient) -> None:
    run = add_run()
    for path in (
        f"/runs?words={planted}&fixer={planted}&arm={planted}&batch={planted}",
        f"/runs?before={planted}",
        f"/batch?name={planted}",
        f"/frontier?batch={planted}",
        f"/runs/{planted}",
        f"/runs/{run}/steps/{planted}",
        f"/runs/{planted}/steps/1",
        f"/login?next={planted}",
        f"/{planted}",
    ):
        answer = await web.get(httpx.URL("http://127.0.0.1:8765").copy_with(raw_path=path.encode()))
        assert answer.status_code in (200, 307, 400, 404), path
        assert "set-cookie" not in answer.headers
        assert "content-security-policy" in answer.headers


async def test_planted_script_in_a_conversation_is_text(
    add_run: AddRun, web: httpx.AsyncClient, ledger_path: Path
) -> None:
    run = add_run()
    page = (await web.get(f"/runs/{run}.json")).json()
    step = next(one["step"] for one in page["history"] if one["name"] == "fix" and one["status"] == "started")
    folder = ledger_path.parent / "attempts" / run / str(step)
    folder.mkdir(parents=True)
    receipt = {"component": "fix", "model": HOSTILE, "usage": {}, "cost_usd": 0.5, "at": "2026-11-16T10:00:00Z"}
    call = {
        "kind": "call",
        "call": 1,
        "api": "chat",
        "status": 200,
        "said": {
            "text": HOSTILE,
            "reasoning": HOSTILE,
            "calls": [{"name": HOSTILE, "arguments": HOSTILE}],
            "finish": HOSTILE,
        },
        "receipt": receipt,
        "seconds": 1.0,
        "asked": {
            "new": [{"role": HOSTILE, "content": [{"type": "text", "text": HOSTILE}]}, HOSTILE, {"x": [HOSTILE]}]
        },
    }
    (folder / "trajectory.jsonl").write_text(
        json.dumps({"kind": "header", "model": HOSTILE}) + "\n" + json.dumps(call) + "\n"
    )
    story = (await web.get(f"/runs/{run}")).text
    assert f"/runs/{run}/steps/{step}" in story
    answer = await web.get(f"/runs/{run}/steps/{step}")
    assert answer.status_code == 200
    assert answer.text.count("&lt;script&gt;alert(1)") >= 6
    assert is_harmless(answer.text)


async def test_every_answer_has_the_rules(add_run: AddRun, web: httpx.AsyncClient) -> None:
    run = add_run()
    for path in (*PAGES, f"/runs/{run}", f"/runs/{run}.json", "/runs/x%2F..%2F"):
        answer = await web.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy, path
        assert "frame-ancestors 'none'" in policy
        assert "script-src" not in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cache-control"] == "no-store"


async def test_even_an_answer_to_a_fault_has_the_rules(
    web: httpx.AsyncClient, app: Starlette, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError(f"{SCRIPT} at {TOKEN}")

    monkeypatch.setattr(app.state.page_context.run_index, "totals", fails)
    for path in ("/runs", "/runs.json"):
        answer = await web.get(path)
        assert answer.status_code == 500
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "please report it" in answer.text
        assert TOKEN not in answer.text


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8765", "10.0.0.7", ""]
)
async def test_without_a_token_other_hosts_get_nothing(host: str, add_run: AddRun, web: httpx.AsyncClient) -> None:
    add_run("a tale of the larder")
    answer = await web.get("/runs", headers={"host": host})
    assert answer.status_code == 421
    assert "tale" not in answer.text


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8765", "[::1]:8765"])
async def test_names_of_this_machine_are_answered(host: str, web: httpx.AsyncClient) -> None:
    assert (await web.get("/runs", headers={"host": host})).status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
async def test_nothing_but_reading_is_possible(method: str, add_run: AddRun, web: httpx.AsyncClient) -> None:
    run = add_run()
    for path in ("/runs", f"/runs/{run}", "/login", "/"):
        answer = await web.request(method, path)
        assert answer.status_code == 405
        assert answer.headers["allow"] == "GET, HEAD"
    assert (await web.head("/runs")).status_code == 200


def exchange(port: int, sent: bytes) -> bytes:
    """What a server answers to these bytes, until it hangs up."""
    with socket.create_connection(("127.0.0.1", port), 10) as wire, suppress(ConnectionError):
        wire.sendall(sent)
        heard = b""
        while part := wire.recv(65536):
            heard += part
        return heard
    return b""


def test_what_no_browser_sends_is_refused_and_harms_nobody(add_run: AddRun, web_settings: Settings) -> None:
    add_run("a tale of the larder")
    server = serve(web_settings, "127.0.0.1", 0, "")
    port = int(server.url.split(":")[2].rstrip("/"))
    end = b"Host: 127.0.0.1\r\nConnection: close\r\n\r\n"
    refused = {
        "no host": b"GET /runs HTTP/1.1\r\nConnection: close\r\n\r\n",
        "an old protocol": b"GET /runs HTTP/1.0\r\n\r\n",
        "two hosts": b"GET /runs HTTP/1.1\r\nHost: evil.example\r\n" + end,
        "a host with a path": b"GET /runs HTTP/1.1\r\nHost: 127.0.0.1/evil\r\nConnection: close\r\n\r\n",
        "a null byte": b"GET /runs\0 HTTP/1.1\r\n" + end,
        "a byte that is no letter": b"GET /runs\xff HTTP/1.1\r\n" + end,
        "40 kB of query": b"GET /runs?words=" + b"a" * 40_000 + b" HTTP/1.1\r\n" + end,
        "4 MB of query": b"GET /runs?words=" + b"a" * 4_000_000 + b" HTTP/1.1\r\n" + end,
        "a proxy's method": b"CONNECT evil.example:80 HTTP/1.1\r\n" + end,
        "a body": b"POST /runs HTTP/1.1\r\nContent-Length: 3\r\n" + end + b"abc",
        "no address": b"OPTIONS * HTTP/1.1\r\n" + end,
        "out of the folder": b"GET /../../etc/passwd HTTP/1.1\r\n" + end,
        "another's host before": b"GET //evil.example/ HTTP/1.1\r\n" + end,
        "another protocol": b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
    }
    thread = Thread(target=server.run)
    thread.start()
    try:
        for name, sent in refused.items():
            answer = exchange(port, sent)
            # A server that hangs up in the middle of what is far too long has refused it, too.
            assert re.match(rb"HTTP/1\.1 4\d\d |$", answer), (name, answer[:200])
            assert b"tale" not in answer
        whole, head = (exchange(port, method + b" /runs HTTP/1.1\r\n" + end) for method in (b"GET", b"HEAD"))
    finally:
        server._server.should_exit = True
        thread.join(20)
    assert b"tale" in whole
    (start, body), (same_start, nothing) = whole.split(b"\r\n\r\n", 1), head.split(b"\r\n\r\n", 1)
    assert (sorted(same_start.lower().split(b"\r\n")), nothing) == (sorted(start.lower().split(b"\r\n")), b"")
    assert f"content-length: {len(body)}".encode() in start.lower()


async def test_without_the_token_nothing_is_told(add_run: AddRun, asking: Callable[..., httpx.AsyncClient]) -> None:
    run = add_run("a tale of the larder")
    wrong = [{}, {"authorization": f"Bearer {TOKEN}x"}, {"authorization": f"Basic {TOKEN}"}, {"authorization": TOKEN}]
    wrong += [
        {"cookie": f"scrout_session={TOKEN}"},
        {"cookie": "scrout_session=99999999999."},
        {"cookie": "scrout_session=²."},
        {"cookie": f"scrout_session={'9' * 5000}."},
    ]
    async with asking() as web:
        for headers in wrong:
            for path in ("/runs", f"/runs/{run}", "/runs.json", f"/runs/{run}.json", "/", "/nothing"):
                answer = await web.get(path, headers={k: v.encode() for k, v in headers.items()})
                assert answer.status_code == 401
                assert "tale" not in answer.text
            answer = await web.get(
                f"/runs/{run}", headers={**{k: v.encode() for k, v in headers.items()}, "accept": b"text/html"}
            )
            assert answer.status_code == 303
            assert answer.headers["location"] == f"/login?next=/runs/{run}"


async def test_the_token_opens_by_header_and_by_form(add_run: AddRun, asking: Callable[..., httpx.AsyncClient]) -> None:
    add_run("a tale of the larder")
    async with asking(host="dashboard.example") as web:
        assert "tale" in (await web.get("/runs", headers={"authorization": f"Bearer {TOKEN}"})).text
        assert 'type="password"' in (await web.get("/login?next=/batches")).text
        refused = await web.post("/login", data={"token": "no", "next": "/batches"})
        assert refused.status_code == 403
        assert "set-cookie" not in refused.headers
        opened = await web.post("/login", data={"token": TOKEN, "next": "/batches"})
        assert (opened.status_code, opened.headers["location"]) == (303, "/batches")
        cookie = opened.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert TOKEN not in cookie
        assert "tale" in (await web.get("/runs")).text


async def test_a_session_of_another_token_or_time_is_worth_nothing(asking: Callable[..., httpx.AsyncClient]) -> None:
    async with asking() as web:
        cookie = (await web.post("/login", data={"token": TOKEN})).cookies["scrout_session"]
    until, proof = cookie.split(".")
    async with asking(TOKEN + "2") as other:
        assert (await other.get("/runs", headers={"cookie": f"scrout_session={cookie}"})).status_code == 401
    async with asking() as same:
        assert (await same.get("/runs", headers={"cookie": f"scrout_session={cookie}"})).status_code == 200
        later = f"{int(until) + 1}.{proof}"
        assert (await same.get("/runs", headers={"cookie": f"scrout_session={later}"})).status_code == 401


@pytest.mark.parametrize(
    "after", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)", "/a\nb"]
)
async def test_signing_in_leads_nowhere_else(after: str, asking: Callable[..., httpx.AsyncClient]) -> None:
    async with asking() as web:
        assert (await web.post("/login", data={"token": TOKEN, "next": after})).headers["location"] == "/"


async def test_another_site_cannot_sign_a_browser_in(asking: Callable[..., httpx.AsyncClient]) -> None:
    async with asking() as web:
        answer = await web.post("/login", data={"token": TOKEN}, headers={"sec-fetch-site": "cross-site"})
        assert answer.status_code == 403
        long = await web.post("/login", content=b"token=" + b"x" * 100_000)
        assert long.status_code == 413
        many = await web.post("/login", content=b"token=x&" * 400)
        assert many.status_code == 403


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/runs/..%2F..%2Fetc%2Fpasswd",
        "/runs/%2e%2e",
        "/runs/%2Fetc%2Fpasswd",
        "/style.css/../../app.py",
        "/runs/x/steps/..",
        "/runs/x/steps/1%2F..",
    ],
)
async def test_no_path_leads_out(path: str, add_run: AddRun, web: httpx.AsyncClient) -> None:
    add_run()
    for ending in ("", ".json"):
        answer = await web.get(path + ending)
        assert answer.status_code in (400, 404)
        assert "root:" not in answer.text


async def test_a_link_among_trajectories_is_not_followed(
    add_run: AddRun, web: httpx.AsyncClient, ledger_path: Path, tmp_path: Path
) -> None:
    run = add_run()
    secret = tmp_path / "trajectory.jsonl"
    secret.write_text(json.dumps({"kind": "header", "model": "hidden treasure"}) + "\n")
    for root in (ledger_path.parent / "attempts", data_folder() / "attempts"):
        (root / run / "7").mkdir(parents=True)
        (root / run / "7" / "trajectory.jsonl").symlink_to(secret)
        (root / run / "8").symlink_to(tmp_path)
    for step in (7, 8):
        answer = await web.get(f"/runs/{run}/steps/{step}")
        assert answer.status_code == 404
        assert "treasure" not in answer.text


async def test_no_secret_is_shown(
    add_run: AddRun, app: Starlette, web: httpx.AsyncClient, ledger_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What was no secret when it was stored, and is one to the process that shows it.
    run = add_run("the key <hunter2&hunter2> of the larder", notes="see <hunter2&hunter2>")
    monkeypatch.setenv("LARDER_API_KEY", "<hunter2&hunter2>")
    for path in ("/runs", f"/runs/{run}", "/runs.json", f"/runs/{run}.json"):
        text = (await web.get(path)).text
        assert "hunter2" not in text, path
        assert "[secret]" in text


def test_other_addresses_need_a_long_token(monkeypatch: pytest.MonkeyPatch) -> None:
    assert token_for("127.0.0.1", "") == token_for("localhost", "") == token_for("::1", "") == ""
    for host in ("0.0.0.0", "192.168.1.7", "::", "example.com", "127.0.0.1.example.com"):
        assert not is_loopback(host)
        with pytest.raises(ConfigError, match="--token-env"):
            token_for(host, "")
    monkeypatch.delenv("DASH_TOKEN", raising=False)
    with pytest.raises(ConfigError, match="is not set"):
        token_for("0.0.0.0", "DASH_TOKEN")
    monkeypatch.setenv("DASH_TOKEN", "x" * (MIN_TOKEN_CHARS - 1))
    with pytest.raises(ConfigError, match=f"has {MIN_TOKEN_CHARS - 1} characters"):
        token_for("127.0.0.1", "DASH_TOKEN")
    monkeypatch.setenv("DASH_TOKEN", TOKEN)
    assert token_for("0.0.0.0", "DASH_TOKEN") == TOKEN
