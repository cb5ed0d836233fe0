"""`scrout scout`: the page, the picture, and searching a part of the repository."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scrout.models.chat import ToolCall
from scrout.models.scripted import Reset, ScriptedEndpoint, ScriptedReply, Status
from scrout.money import Price, Usage

if TYPE_CHECKING:
    from conftest import Cli


def test_a_page_is_written_beside_the_handoff(cli: Cli, shop_repo: Path, issue: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    folder.mkdir()
    page = folder / "scouting.html"
    page.write_text("old")
    (shop_repo / "shop" / "cart.py").write_text("uncommitted\n")
    ended = cli("scout", "--repo", shop_repo, "--issue", issue, "--html", page)
    assert ended.code == 0, ended.err
    assert ended.out.startswith(b"<files>") and f"page written to {page}" in ended.err.replace("\n", "")
    written = page.read_text(encoding="utf-8")
    assert written.startswith("<!doctype html>") and "leaves out the first price" in written
    assert "shop/cart.py" in written and "uncommitted" not in written and "python scrout_repro.py" in written
    assert list(folder.iterdir()) == [page]


def test_json_stays_alone_on_standard_output(cli: Cli, shop_repo: Path, issue: Path, tmp_path: Path) -> None:
    ended = cli("scout", "--repo", shop_repo, "--issue", issue, "--html", tmp_path / "p.html", "--json")
    assert ended.json()["handoff"] and (tmp_path / "p.html").is_file()


@pytest.mark.parametrize(
    ("name", "said"), [("-", "Name a file"), ("folder", "cannot be written"), ("no/such.html", "Create it first")]
)
def test_a_page_that_cannot_be_written_is_refused_before_the_work(
    cli: Cli, shop_repo: Path, issue: Path, name: str, said: str
) -> None:
    (cli.cwd / "folder").mkdir()
    ended = cli("scout", "--repo", shop_repo, "--issue", issue, "--html", name)
    assert ended.code == 2 and said in ended.err and name in ended.err
    assert not ended.out and "copying" not in ended.err


def test_the_picture_has_bars_and_the_code_and_is_plain_in_a_pipe(cli: Cli, shop_repo: Path, issue: Path) -> None:
    ended = cli("scout", "--repo", shop_repo, "--issue", issue, env={"COLUMNS": "100", "LINES": "60"})
    assert "━" in ended.err and "\x1b" not in ended.err
    row = next(line for line in ended.err.splitlines() if "shop/cart.py:" in line)
    assert row.split()[0] == "1"
    # The line's number, and the line itself.
    assert any(line.split() == ["4", "def", "total(prices):"] for line in ended.err.splitlines())


def test_the_picture_fits_the_screen(cli: Cli, make_repo: Callable[..., Path], issue: Path) -> None:
    body = "".join(f"    step_{n} = {n}\n" for n in range(300))
    repo = make_repo({"shop/__init__.py": "", "shop/cart.py": f"def total(prices):\n{body}    return 0\n"})
    ended = cli("scout", "--repo", repo, "--issue", issue, env={"COLUMNS": "120", "LINES": "40"})
    picture = ended.err.partition("confidence")[2].splitlines()
    assert "step_1 = 1" in ended.err and len(picture) <= 40


MONOREPO = {
    "api/cart.py": "def total(prices):\n    return sum(prices[1:])\n",
    "web/cart.py": "def total(prices):\n    return sum(prices)\n",
}


@pytest.mark.parametrize("named", ["/etc", "../repo/api", "api/../.."])
def test_a_subtree_outside_is_refused(cli: Cli, make_repo: Callable[..., Path], issue: Path, named: str) -> None:
    repo = make_repo(MONOREPO)
    for option in (["--subtree", named], ["-c", f"scout.subtree={named}"]):
        ended = cli("scout", "--repo", repo, "--issue", issue, *option)
        assert ended.code == 2 and "outside of the repository" in ended.err and named in ended.err


@pytest.mark.parametrize("named", ["apis", "api/cart.py", "new", "3"])
def test_a_subtree_that_the_commit_lacks_is_refused(
    cli: Cli, make_repo: Callable[..., Path], issue: Path, named: str
) -> None:
    repo = make_repo(MONOREPO)
    (repo / "new").mkdir()
    (repo / "new" / "a.py").write_text("")
    ended = cli("scout", "--repo", repo, "--issue", issue, "--subtree", named)
    assert ended.code == 2 and f"'{named}' is not a folder in commit" in ended.err.replace("\n", " ")


@pytest.mark.parametrize(
    "named",
    ["web/../api", "", *(pytest.param(one, marks=pytest.mark.slow) for one in ("api", "./api/", "."))],
)
def test_a_subtree_is_named_in_any_spelling(cli: Cli, make_repo: Callable[..., Path], issue: Path, named: str) -> None:
    ended = cli("scout", "--repo", make_repo(MONOREPO), "--issue", issue, "--subtree", named, "--json")
    assert ended.code == 0, ended.err
    files = {one["path"] for one in ended.json()["handoff"]["files"]}  # type: ignore[index]
    assert "api/cart.py" in files and ("web/cart.py" in files) == (named in ("", "."))


def test_fix_and_gate_refuse_it_too(cli: Cli, make_repo: Callable[..., Path], issue: Path, tmp_path: Path) -> None:
    repo = make_repo(MONOREPO)
    claim = tmp_path / "handoff.txt"
    claim.write_text("<files>\napi/cart.py\n</files>\nSTOP\n")
    for command in (["fix", "--issue", issue], ["gate", "--handoff", claim]):
        ended = cli(*command, "--repo", repo, "-c", "scout.subtree=apis")
        assert ended.code == 2 and "'apis' is not a folder in commit" in ended.err.replace("\n", " "), command
        assert not ended.out


# The model searcher

KEY = "key-of-the-searcher-0123456789"
USAGE = Usage(input_tokens=1000, output_tokens=50)
PRICE = Price(input=Decimal(2), output=Decimal(8))
CHECK = "from shop.cart import total\\n\\nassert total([1, 2]) == 3, total([1, 2])\\n"
HANDOFF = (
    "<files>\nshop/cart.py:4-6\n</files>\n<repro>\ncommand: python check.py\nreproduced: true\n"
    "observed: AssertionError: 2\n</repro>\n<notes>\nThe slice.\n</notes>\nSTOP"
)
EPISODE = (
    ScriptedReply(calls=(ToolCall("c", "bash", json.dumps({"command": f"printf '{CHECK}' > check.py"})),), usage=USAGE),
    ScriptedReply(HANDOFF, usage=USAGE),
)


def with_model(folder: Path, base_url: str) -> Path:
    path = folder / "searcher.toml"
    path.write_text(
        f'[scout.model]\nmodel = "toy-7b"\nbase_url = "{base_url}"\nkey_env = "TOY_KEY"\n'
        "price = { input = 2.0, output = 8.0 }\nturns = 5\n"
    )
    return path


def test_a_model_searches_and_its_trace_replays_anywhere(
    cli: Cli, shop_repo: Path, issue: Path, tmp_path: Path
) -> None:
    with ScriptedEndpoint(EPISODE) as endpoint:
        config = with_model(tmp_path, endpoint.base_url)
        args = ("--config", config, "--searcher", "model", "--json")
        ended = cli("scout", "--repo", shop_repo, "--issue", issue, *args, env={"TOY_KEY": KEY})
    assert ended.code == 0, ended.err
    found = ended.json()
    assert (found["searcher"], found["stop"], found["turns"]) == ("toy-7b", "finished", 2)
    assert found["cost_usd"] == float(2 * PRICE.cost(USAGE)) and len(found["receipts"]) == 2
    assert "... toy-7b, turn 1 of 5, " in ended.err and "bash printf" in ended.err

    # Elsewhere, with no key, no endpoint, no repository, and not a program to run.
    for words in ([], ["--json"]):
        again = cli("scout", "--replay", found["trace"], *words, env={"PATH": "/nowhere"})
        assert again.code == 0, again.err
        assert "nothing was asked" in again.err and KEY not in Path(found["trace"]).read_text()
        if words:
            assert {**again.json(), "seconds": 0} == {**found, "seconds": 0}
        else:
            assert again.out.decode() == f"{found['text']}\n" and "2 turns, 2,100 tokens" in again.err


def test_a_trace_with_a_flipped_byte_is_refused(cli: Cli, shop_repo: Path, issue: Path, tmp_path: Path) -> None:
    with ScriptedEndpoint(EPISODE) as endpoint:
        config = with_model(tmp_path, endpoint.base_url)
        args = ("--config", config, "-c", "scout.searcher=model", "--json")
        trace = Path(cli("scout", "--repo", shop_repo, "--issue", issue, *args, env={"TOY_KEY": KEY}).json()["trace"])
    whole = trace.read_bytes()
    for place in (whole.index(b"leaves out") + 1, whole.rindex(b"shop/cart.py") + 1, whole.index(b"printf") + 1):
        trace.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        ended = cli("scout", "--replay", trace)
        assert ended.code == 2 and not ended.out and str(trace) in ended.err.replace("\n", ""), ended.err
    ended = cli("scout", "--replay", trace, "--issue", issue)
    assert ended.code == 2 and "--replay" in ended.err


@pytest.mark.parametrize("words", [("--searcher", "model"), ("--subtree", "shop")])
def test_a_replay_leaves_nothing_to_choose(cli: Cli, tmp_path: Path, words: tuple[str, str]) -> None:
    ended = cli("scout", "--replay", tmp_path / "trace.jsonl", *words)
    assert ended.code == 2 and f"so {words[0]} cannot be changed" in " ".join(ended.err.split()), ended.err


def test_what_a_model_needs_is_said_before_the_work(cli: Cli, shop_repo: Path, issue: Path, tmp_path: Path) -> None:
    config = with_model(tmp_path, "http://127.0.0.1:1/v1")
    args = ("--repo", shop_repo, "--issue", issue, "--searcher", "model")
    for words, said in (
        ((), "scout.model.model"),
        (("--config", config), "TOY_KEY is not set"),
        (("--config", config, "-c", "scout.model.key_env=", "-c", f"scout.model.prompts={tmp_path}"), "no system.md"),
        (("--config", config, "-c", "scout.model.max_tokens=99999"), "leave no room for a prompt"),
    ):
        ended = cli("scout", *args, *words)
        assert ended.code == 2 and said in ended.err.replace("\n", " ") and not ended.out, ended.err
    fixing = cli("fix", "--repo", shop_repo, "--issue", issue, "--config", config, "-c", "scout.searcher=model")
    assert fixing.code == 2 and "TOY_KEY is not set" in fixing.err
    assert not cli("runs", "--json").out.strip(b"[]\n ")
    assert cli("scout").code == 2


def test_a_run_with_a_model_searcher_is_in_the_ledger_to_the_cent(
    cli: Cli, shop_repo: Path, issue: Path, tmp_path: Path
) -> None:
    script = (EPISODE[0], ScriptedReply(usage=USAGE, fault=Reset()), EPISODE[1])
    with ScriptedEndpoint(script) as endpoint:
        config = with_model(tmp_path, endpoint.base_url)
        args = ("--config", config, "-c", "scout.searcher=model")
        ended = cli("fix", "--repo", shop_repo, "--issue", issue, *args, "--json", env={"TOY_KEY": KEY})
    assert ended.code == 0, ended.err
    run = ended.json()
    assert run["outcome"] == "solved" and run["gated"]["verdict"] == "real_failure"
    receipts = run["scouting"]["receipts"]
    assert [receipt["estimated"] for receipt in receipts] == [False, True, False]
    assert run["cost_usd"] == run["scouting"]["cost_usd"] == pytest.approx(sum(one["cost_usd"] for one in receipts))
    report = cli("ledger", "audit", "--json").json()
    assert (report["runs"], report["receipts"], report["problems"], report["estimated"]) == (1, 3, [], 1)
    story = cli("show", run["id"])
    assert "toy-7b" in story.out.decode() and KEY not in story.out.decode()


@pytest.mark.slow
def test_a_dead_endpoint_leaves_the_fixer_the_issue_alone(
    cli: Cli, shop_repo: Path, issue: Path, tmp_path: Path
) -> None:
    with ScriptedEndpoint([ScriptedReply(fault=Status(401))]) as endpoint:
        config = with_model(tmp_path, endpoint.base_url)
        args = ("--config", config, "-c", "scout.searcher=model")
        ended = cli("fix", "--repo", shop_repo, "--issue", issue, *args, "--json", env={"TOY_KEY": KEY})
    run = ended.json()
    assert run["scouting"]["stop"] == "endpoint" and "401" in run["scouting"]["detail"]
    assert run["scouting"]["handoff"]["files"] == [] and run["gated"]["verdict"] == "no_repro"
    assert run["outcome"] == "not_solved" and KEY not in ended.out.decode()
    again = cli("scout", "--replay", run["scouting"]["trace"])
    assert again.code == 1 and "endpoint: toy-7b at" in again.err
