"""What strangers, pages, hostile bodies and hostile text get: a refusal that says what to do, and nothing else."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from scrout.config.folders import data_folder
from scrout.models.chat import ToolCall
from scrout.models.scripted import ScriptedEndpoint, ScriptedReply
from scrout.models.scripted.script import ScriptedRequest
from scrout.money import Usage

from ...conftest import SHOP_ISSUE

if TYPE_CHECKING:
    from conftest import Server

SECRET = "correct-horse-battery-staple"


def _problem(answer: httpx.Response, status: int) -> str:
    assert answer.status_code == status, (answer.status_code, answer.text)
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert told["status"] == status and told["title"] and set(told) == {"title", "status", "detail"}
    assert told["detail"].endswith(".") and "Traceback" not in told["detail"]
    return str(told["detail"])


def test_who_is_refused(server: Server) -> None:
    with server.running() as api:
        bare = httpx.Client(base_url=api.url, verify=False)
        with bare:
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": server.env["CI_AUTH"]}):
                refused = bare.get("/v1/jobs", headers=headers)
                assert "Bearer TOKEN" in _problem(refused, 401) and refused.headers["www-authenticate"] == "Bearer"
            for path in ("/v1/nothing", "/v1/jobs/x", "/openapi.json/", "/openapi.json%23", "/healthz%3F", "//healthz"):
                assert bare.get(path).status_code == 401, path
            assert bare.post("/v1/scout", json={"issue": "x"}).status_code == 401
            assert bare.get("/openapi.json").json()["openapi"] == "3.1.0"
            # A page that the user looks at, wherever it is from.
            for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": api.url}):
                assert "pages" in _problem(bare.get("/healthz", headers=headers), 403)
            for site in ("cross-site", "same-site"):
                assert bare.get("/healthz", headers={"Sec-Fetch-Site": site}).status_code == 403
            # With callers any name will do, as long as it is one.
            assert bare.get("/healthz", headers={"Host": "ci.example:8766"}).status_code == 200
            for host in ("", "a b", "evil.example/v1", "a@b"):
                assert bare.get("/healthz", headers={"Host": host}).status_code in (400, 421), host
        for path, status in {"/nothing": 404, "/v1/jobs/": 404, "/v1": 404, "/v1/jobs/no-such-job": 404}.items():
            _problem(api.client.get(path), status)
        refused = api.client.put("/v1/jobs/x")
        assert "Allow" in _problem(refused, 405) and set(refused.headers["allow"].split(", ")) == {
            "GET",
            "HEAD",
            "DELETE",
        }
        _problem(api.client.options("/v1/scout"), 405)
        _problem(api.client.get("/v1/scout"), 405)
        assert api.client.head("/v1/jobs").status_code == 200 and not api.client.head("/v1/jobs").content
        answer = api.client.get("/v1/jobs")
        assert answer.headers["cache-control"] == "no-store" and answer.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in answer.headers and "server" not in answer.headers


def test_without_callers_only_this_machine_is_answered_and_nothing_costs(server: Server) -> None:
    server.configure("")
    with server.running(headers={}) as api:
        assert api.budget()["caller"] == "local" and api.budget()["budget_usd"] == 0
        assert api.client.post("/v1/route", json={"issue": "x"}).status_code == 200
        refused = api.client.post("/v1/fix", json={"issue": "x"})
        assert refused.status_code == 403 and "under [[api.callers]]" in refused.json()["detail"]
        assert api.chat().status_code == 403
        port = api.url.rpartition(":")[2]
        for host in ("localhost", f"127.0.0.1:{port}", "[::1]:1"):
            assert api.client.get("/v1/jobs", headers={"Host": host}).status_code == 200, host
        for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "0.0.0.0", "192.168.0.1"):
            _problem(api.client.get("/v1/jobs", headers={"Host": host}), 421)
        with socket.socket() as other, pytest.raises(OSError):
            other.settimeout(5)
            other.connect(("127.0.0.2", int(port)))  # loopback too, so a server on all addresses would answer


def test_what_does_not_start(server: Server) -> None:
    env = dict(server.env)

    def fails(caller: str, **tokens: str) -> str:
        server.configure(caller)
        return type(server)(server.repo, env | tokens).fails()

    twice = server.caller + server.caller.replace('"ci"', '"other"').replace("CI_AUTH", "OTHER_AUTH")
    assert "same token" in fails(twice, OTHER_AUTH=env["CI_AUTH"])
    assert "24 or more" in fails(server.caller, CI_AUTH="short")
    (server.repo / "broken.db").write_bytes(b"no ledger at all" * 100)
    assert "broken.db" in server.fails("-c", f"ledger.path={server.repo / 'broken.db'}")
    server.configure("")
    assert "[[api.callers]]" in server.fails("--host", "0.0.0.0")
    with server.running(headers={}):
        assert "another `scrout api`" in server.fails()


@pytest.mark.slow
def test_what_else_does_not_start(server: Server) -> None:
    def fails(caller: str, **tokens: str) -> str:
        server.configure(caller)
        return type(server)(server.repo, {**server.env, **tokens}).fails()

    assert "is not set" in fails(server.caller, CI_AUTH="")
    assert "without spaces" in fails(server.caller, CI_AUTH="a token with spaces in it, long enough")
    assert "two callers" in fails(server.caller * 2)
    server.configure("")
    assert "--host ::" in server.fails("--host", "::")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert f"--port {port}" in server.fails("--port", port)


def test_bodies_that_are_none(server: Server) -> None:
    with server.running() as api:

        def send(body: str | bytes, path: str = "/v1/route", kind: str = "application/json") -> httpx.Response:
            return api.client.post(path, content=body, headers={"Content-Type": kind})

        assert send('{"issue": "x"}', kind="application/json; charset=utf-8").status_code == 200
        assert "application/json" in _problem(send('{"issue": "x"}', kind="text/plain"), 415)
        deep = "[" * 100_000
        for body in (
            *("", "x", "{", '{"issue": NaN}', '{"issue": Infinity}', '{"issue": 1e999}', deep, '{"a":' * 100_000),
            *('{"issue": "a", "issue": "b"}', '{"issue": "x"} {}', b'{"issue": "\xff"}', f'{{"run": {"9" * 5000}}}'),
        ):
            _problem(send(body), 400)
            assert send(body, "/v1/chat/completions").status_code == 400
        for body in (
            *("[]", "null", "1", '"x"', '{"issue": 1}', '{"issue": null}', '{"issue": ["x"]}', '{"isue": "x"}', "{}"),
            *('{"issue": "\\ud800"}', '{"\\ud800": 1}', '{"issue": "x", "run": "y"}', '{"issue": " "}'),
            *(f'{{"issue": "{"x" * 1_000_001}"}}', f'{{"run": "{"9" * 101}"}}', f'{{"run": {"9" * 4000}}}'),
        ):
            _problem(send(body), 422)
        for body in ('{"issue": "x", "dirty": 1}', '{"issue": "x", "repo": null}', '{"issue": ""}', '{"issue": "\\n"}'):
            _problem(send(body, "/v1/scout"), 422)
        _problem(send(b'{"issue": "' + b" " * 8_000_001), 413)
        assert "100 keys" in _problem(send(json.dumps(dict.fromkeys(map(str, range(101)), 1))), 422)
        for path in ("/v1/route", "/v1/chat/completions"):
            assert send(b"[" + b"[]," * 1_000_000 + b"1]", path).status_code == 413
        assert "bytes" in send(b" " * 32_000_001, "/v1/chat/completions").json()["error"]["message"]
        # What is text, and odd, is taken.
        odd = send('{"issue": "a\\u0000b \\u202e \\r"}').json()
        assert odd["status"] in ("done", "failed") and odd["id"]
        deep_enough = '{"model": "scrout/auto", "messages": ' + "[" * 900 + "]" * 900 + "}"
        assert send(deep_enough, "/v1/chat/completions").status_code in (400, 404)
        for query in ("wait=-1", "wait=61", "wait=nan", "wait=", "wait=1&wait=2", "wait=1_0", "wait=%D9%A1", "wait=+1"):
            _problem(api.client.post(f"/v1/route?{query}", json={"issue": "x"}), 422)
        for query in ("limit=0", "limit=501", "limit=1.5", "limit=x", "limits=5", "=1"):
            _problem(api.client.get(f"/v1/jobs?{query}"), 422)
        for key in (b"", b"two words", b"x" * 256, b"\xe9"):
            _problem(api.client.post("/v1/route", json={"issue": "x"}, headers={"Idempotency-Key": key}), 422)
        twice = [("Idempotency-Key", "a"), ("Idempotency-Key", "a")]
        _problem(api.client.post("/v1/route", json={"issue": "x"}, headers=twice), 422)
        for last in ("-1", "x", "9" * 10, "1.5"):
            _problem(api.client.get(f"/v1/jobs/{odd['id']}/events", headers={"Last-Event-ID": last}), 422)


def test_a_body_that_breaks_off_and_a_length_that_lies(server: Server) -> None:
    with server.running(quiet=False) as api:
        port = int(api.url.rpartition(":")[2])
        head = f"POST /v1/route HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.env['CI_AUTH']}\r\n"
        for rest in (
            'Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"issue": "x',
            "Content-Type: application/json\r\nContent-Length: -5\r\n\r\n",
            "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\nzz\r\n",
            "\x00\x01\r\n\r\n",
        ):
            with socket.create_connection(("127.0.0.1", port), timeout=5) as raw:
                raw.sendall((head + rest).encode("latin-1"))
        assert api.client.get("/v1/jobs").status_code == 200


def test_repositories_outside_of_the_folder_are_refused(
    serve: Callable[[Path], Server], make_repo: Callable[..., Path], tmp_path: Path
) -> None:
    outside = make_repo({"secret.py": "def secret(): ...\n"}, "outside")
    make_repo({"shop.py": "def total(): ...\n"}, "root/inside")
    root = tmp_path / "root"
    (root / "link").symlink_to(outside)
    (root / "disguised").mkdir()
    (root / "disguised" / ".git").write_text(f"gitdir: {outside / '.git'}\n")
    (root / "loop").symlink_to("loop")
    server = serve(root)
    server.configure(server.caller)
    names = [
        "",
        "..",
        "../outside",
        str(outside),
        "link",
        "inside/../link",
        "disguised",
        "loop",
        "/",
        "a\0b",
        "a" * 3000,
    ]
    with server.running() as api:
        for name in names:
            for stage in ("scout", "gate", "fix"):
                refused = api.client.post(f"/v1/{stage}", json={"issue": "secret is wrong", "repo": name})
                told = _problem(refused, 422).replace(repr(name)[1:-1][:200], "")
                assert "secret.py" not in told and str(tmp_path) not in told, name
        assert api.client.get("/v1/jobs").json() == {"jobs": []}
        found = api.client.post(
            "/v1/scout?wait=60", json={"issue": "total in shop.py is wrong", "repo": "inside"}
        ).json()
        assert found["status"] == "done", found
        run = found["run"]
    other = serve(outside)
    other.configure(other.caller)
    with other.running() as api:
        theirs = api.client.post("/v1/route", json={"run": run}).json()
        assert theirs["status"] == "failed" and "no run" in theirs["error"], "a run of another folder"


def test_a_run_is_routed_by_for_its_own_caller_alone(server: Server) -> None:
    other = server.caller.replace('"ci"', '"other"').replace("CI_AUTH", "OTHER_AUTH")
    server.env["OTHER_AUTH"] = "a-token-of-another-caller"
    server.configure(server.caller, other)
    theirs = {"Authorization": "Bearer a-token-of-another-caller"}
    with server.running() as api:
        begun = api.client.post("/v1/scout", json={"issue": "total in shop.py is wrong"}).json()
        run = api.ended(begun["id"])["run"]
        assert api.client.post("/v1/route", json={"run": run}).json()["status"] == "done"
        absent = _problem(api.client.post("/v1/route", json={"run": "x"}, headers=theirs), 422)
        assert _problem(api.client.post("/v1/route", json={"run": run}, headers=theirs), 422) == absent.replace(
            "'x'", repr(run)
        )


def test_secrets_are_in_no_answer_event_or_file(
    serve: Callable[[Path], Server], make_repo: Callable[..., Path]
) -> None:
    """Planted in the issue, the repository, a model's words and its patch; known by their variable's name, by being a
    caller's token, or by being the endpoint's key."""
    repo = make_repo({"shop.py": f"def total(prices):\n    raise ValueError('{SECRET}')\n"})
    plain = serve(repo)
    server = type(plain)(repo, {**plain.env, "SHOP_API_KEY": SECRET})
    token, key = server.env["CI_AUTH"], server.env["POOL_AUTH"]

    def script(request: ScriptedRequest) -> ScriptedReply:
        usage = Usage(input_tokens=100, output_tokens=10)
        if len(request.content["messages"]) > 2:  # type: ignore[arg-type]
            return ScriptedReply(text=f"done {SECRET} {token} {key}", usage=usage)
        write = f"printf '%s\\n' '# {SECRET} {token} {key}' > found.txt"
        return ScriptedReply(calls=(ToolCall(id="1", name="bash", arguments={"command": write}),), usage=usage)

    issue = (
        f"total in shop.py fails with {SECRET}, {token} and {key}\n\n"
        "```python\nfrom shop import total\n\ntotal([1])\n```\n"
    )
    claim = (
        f"<repro>\ncommand: echo {token} {SECRET}; false\nreproduced: true\nobserved: {key}\n</repro>\n"
        f"<notes>\n{SECRET} {token}\n</notes>\nSTOP"
    )
    with ScriptedEndpoint(script) as endpoint:
        server.configure(server.caller, server.agent("small", endpoint.base_url))
        with server.running() as api:
            texts = []
            for stage, more in (("scout", {}), ("gate", {"handoff": claim}), ("fix", {}), ("route", {})):
                body: dict[str, Any] = {"issue": issue, **more}
                headers = {"Idempotency-Key": f"key-{stage}"}
                job = api.client.post(f"/v1/{stage}", json=body, headers=headers).json()
                texts.append(json.dumps(list(api.events(job["id"]))))
                texts.append(json.dumps(api.ended(job["id"])))
            texts.append(api.client.get("/v1/jobs").text)
            refused = api.client.post("/v1/scout", json={"issue": "x", "repo": f"{SECRET}/{token}/{key}"})
            texts.append(refused.text)
            assert refused.status_code == 422
            chat = api.chat(issue, headers={"X-Scrout-Conversation": token})
            assert key not in chat.text and chat.status_code == 200
            assert '"solved"' in texts[5] or "found.txt" in texts[5], texts[5]
    stored = b"".join(path.read_bytes() for path in data_folder().glob("api.db*"))
    assert b"[secret]" in stored and "[secret]" in "".join(texts)
    for secret in (SECRET, token, key):
        assert not [text for text in texts if secret in text], secret
        assert secret.encode() not in stored, secret


HELD = (
    "scrout.server.api.app._json",
    "scrout.server.service.read_issue",
    "scrout.server.service.read_handoff",
    "scrout.scout.recon.recon.examine",
    "scrout.scout.recon.reproduce.find_scripts",
    "scrout.gate.gate.remove_injections",
    "scrout.gate.gate.classify",
    "scrout.server.api.jobs.redact_dumped",
)
"""What reads a text that a request brings, or that came of it."""


def test_others_are_answered_while_a_text_is_read(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = "<files>\nshop/cart.py\n</files>\n<repro>\ncommand: python x.py\nreproduced: true\n</repro>\nSTOP"
    with server.running() as api, ThreadPoolExecutor(1) as pool:
        for number, name in enumerate(HELD):
            begun, go_on = threading.Event(), threading.Event()
            reader = resolve_name(name)

            def held(*given: Any, reader: Any = reader, begun: Any = begun, go_on: Any = go_on) -> Any:
                begun.set()
                assert go_on.wait(60)
                return reader(*given)

            body = {"issue": f"{SHOP_ISSUE}\n{number}", "handoff": claim if name.endswith("read_handoff") else ""}
            with monkeypatch.context() as patch:
                patch.setattr(name, held)
                asking = pool.submit(api.client.post, "/v1/gate", json=body, params={"wait": 60})
                try:
                    assert begun.wait(60), name
                    answers = [httpx.get(f"{api.url}/healthz", verify=False, timeout=30) for _ in range(3)]
                    assert not asking.done() and [one.status_code for one in answers] == [200, 200, 200]
                finally:
                    go_on.set()
                assert asking.result().json()["status"] == "done", (name, asking.result().text)
