"""What each command takes and gives, as other programs rely on it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scrout.config.loading import load

from .conftest import write_trusted

if TYPE_CHECKING:
    from conftest import Cli


def fingerprint(repo: Path) -> dict[str, str]:
    """Every file of a repository, .git included, with its mode and content."""
    found = {}
    for path in sorted(repo.rglob("*")):
        state = path.lstat()
        content = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(repo))] = f"{state.st_mode:o} {hashlib.sha256(content).hexdigest()}"
    return found


def bug_is_gone(repo: Path) -> bool:
    script = "from shop.cart import total; assert total([1, 2]) == 3"
    return subprocess.run([sys.executable, "-B", "-c", script], cwd=repo, capture_output=True).returncode == 0


def git(repo: Path, *args: str, stdin: bytes = b"") -> bytes:
    return subprocess.run(["git", *args], cwd=repo, input=stdin, check=True, capture_output=True).stdout


def test_scout_then_gate_then_gate_again(cli: Cli, shop_repo: Path, issue: Path, tmp_path: Path) -> None:
    before = fingerprint(shop_repo)
    scouted = cli("scout", "--repo", shop_repo, "--issue", issue, "--json")
    assert scouted.code == 0, scouted.err
    scouting = scouted.json()
    made = {"handoff", "text", "state", "seconds", "cost_usd"}
    assert set(scouting) == made | {"searcher", "stop", "detail", "turns", "receipts", "trace", "paid_by"}
    handoff = scouting["handoff"]
    assert set(handoff) == {"kind", "files", "reproduction", "dead_ends", "notes"}
    first = handoff["files"][0]
    assert set(first) == {"path", "regions", "confidence", "why"} and first["path"] == "shop/cart.py"
    assert all(1 <= start <= end for start, end in first["regions"])
    assert set(handoff["reproduction"]) == {"files", "command", "claim", "observed", "basis"}
    assert set(scouting["state"]) == {"space", "vector"} and scouting["cost_usd"] == 0

    saved = tmp_path / "scouting.json"
    saved.write_bytes(scouted.out)
    gated = cli("gate", "--repo", shop_repo, "--handoff", saved, "--issue", issue, "--json")
    assert gated.code == 0, gated.err
    result = gated.json()
    assert {"verdict", "kept", "materialized", "reason", "evidence", "text"} <= set(result)
    assert set(result["evidence"]) == {"command", "exit_code", "runs", "output_tail", "seconds"}
    assert (result["verdict"], result["kept"], result["evidence"]["exit_code"]) == ("real_failure", True, 1)

    again = cli("gate", "--repo", shop_repo, "--handoff", "-", "--issue", issue, stdin=result["text"].encode())
    assert again.code == 0, again.err
    assert again.out.decode().strip() == result["text"].strip()

    routed = cli("route", "--issue", issue, "--scouting", saved, "--json")
    assert routed.code == 0, routed.err
    decision = routed.json()
    assert {"fixer", "theta", "degraded", "fallback", "candidates"} <= set(decision)
    assert [set(candidate) for candidate in decision["candidates"]] == [
        {"fixer", "p_solve", "p_low", "p_high", "p_by_space", "expected_cost_usd", "evidence", "reason"}
    ]
    assert decision["fixer"] == cli("route", "--issue", issue).out.decode().strip() == "repair"
    assert fingerprint(shop_repo) == before


def test_fix_prints_a_patch_that_works_and_touches_nothing(cli: Cli, shop_repo: Path, issue: Path) -> None:
    before = fingerprint(shop_repo)
    fixed = cli("fix", "--repo", shop_repo, "--issue", "-", stdin=issue.read_bytes())
    assert fixed.code == 0, fixed.err
    assert fingerprint(shop_repo) == before
    assert not bug_is_gone(shop_repo)
    git(shop_repo, "apply", "-", stdin=fixed.out)
    assert bug_is_gone(shop_repo)
    assert set(git(shop_repo, "status", "--porcelain").decode().split("\n")) == {" M shop/cart.py", ""}

    (listed,) = json.loads(cli("runs", "--json").out)
    run_id = listed["id"]
    table = cli("runs").out.decode()
    assert run_id in table and "solved" in table
    shown = cli("show", run_id[:-2], "--json").json()
    assert shown["outcome"] == "solved" and shown["cost_usd"] == 0
    assert cli("show", run_id, "--patch").out == fixed.out == shown["attempts"][-1]["patch"].encode()
    story = cli("show", run_id).out.decode()
    assert all(word in story for word in ("Scout", "real_failure", "repair", "passed", "Receipt", "+++ b/shop/cart.py"))
    audit = cli("ledger", "audit", "--json")
    assert (audit.code, audit.json()["runs"], audit.json()["problems"]) == (0, 1, [])


@pytest.mark.slow
def test_fix_show_and_runs_give_the_same_run(cli: Cli, shop_repo: Path, issue: Path) -> None:
    fixed = cli("fix", "--repo", shop_repo, "--issue", issue, "--json")
    assert fixed.code == 0, fixed.err
    assert cli("show", str(fixed.json()["id"]), "--json").json() == fixed.json()
    assert json.loads(cli("runs", "--json").out) == [fixed.json()]


@pytest.mark.slow
def test_a_stored_patch_that_lost_a_secret_says_so(cli: Cli, shop_repo: Path, issue: Path) -> None:
    secret = "sk-0123456789abcdefghij"
    cart = shop_repo / "shop" / "cart.py"
    cart.write_text(cart.read_text().replace("    return", f'    key = "{secret}"\n    return'))
    fixed = cli("fix", "--repo", shop_repo, "--issue", issue, "--dirty")
    assert fixed.code == 0 and secret.encode() in fixed.out, fixed.err
    (run,) = json.loads(cli("runs", "--json").out)
    for args, code in ((("--patch",), 1), ((), 0), (("--json",), 0)):
        shown = cli("show", run["id"], *args)
        assert (shown.code, "Secrets were cut" in shown.err) == (code, True)
        assert b"[secret]" in shown.out and secret.encode() not in shown.out


def test_out_and_apply(cli: Cli, shop_repo: Path, issue: Path, tmp_path: Path) -> None:
    out = tmp_path / "a folder" / "fix.patch"
    out.parent.mkdir()
    fixed = cli("fix", "--repo", shop_repo / "shop", "--issue", issue, "--out", out, "--apply", "--fixer", "repair")
    assert (fixed.code, fixed.out) == (0, b""), fixed.err
    assert bug_is_gone(shop_repo)
    git(shop_repo, "apply", "--reverse", str(out))
    assert git(shop_repo, "status", "--porcelain") == b""


@pytest.mark.slow
def test_a_patch_that_does_not_fit_the_tree_leaves_it_alone(cli: Cli, shop_repo: Path, issue: Path) -> None:
    cart = shop_repo / "shop" / "cart.py"
    cart.write_text(cart.read_text().replace("prices[1:]", "prices[2:]"))
    before = fingerprint(shop_repo)
    fixed = cli("fix", "--repo", shop_repo, "--issue", issue, "--apply", "--json")
    assert fixed.code == 2 and "scrout show" in fixed.err and fixed.json()["outcome"] == "solved"
    assert "1 uncommitted changes are left out" in fixed.err and "--dirty" in fixed.err
    assert fingerprint(shop_repo) == before


@pytest.mark.slow
def test_dirty_works_from_the_tree_as_it_is(
    cli: Cli, make_repo: Callable[..., Path], shop_repo: Path, issue: Path
) -> None:
    fixed_at_head = (shop_repo / "shop" / "cart.py").read_text().replace("prices[1:]", "prices")
    buggy = (shop_repo / "shop" / "cart.py").read_text()
    (shop_repo / "shop" / "cart.py").write_text(fixed_at_head)
    git(shop_repo, "-c", "user.name=T", "-c", "user.email=t@localhost", "commit", "-qam", "correct")
    (shop_repo / "shop" / "cart.py").write_text(buggy)
    (shop_repo / "new.txt").write_text("untracked\n")
    before = fingerprint(shop_repo)
    run = cli("fix", "--repo", shop_repo, "--issue", issue, "--dirty", "--json")
    assert run.code == 0, run.err
    assert fingerprint(shop_repo) == before
    assert "left out" not in run.err and run.json()["task"]["dirty"] is True
    patch = run.json()["attempts"][-1]["patch"]
    assert "new.txt" not in patch
    git(shop_repo, "apply", "-", stdin=patch.encode())
    assert bug_is_gone(shop_repo)


def test_an_issue_nothing_can_be_done_about(cli: Cli, shop_repo: Path, tmp_path: Path) -> None:
    issue = tmp_path / "vague.md"
    issue.write_text("Please make everything nicer.\n")
    out = tmp_path / "patch"
    run = cli("fix", "--repo", shop_repo, "--issue", issue, "--out", out)
    assert (run.code, run.out, out.exists()) == (1, b"", False)
    assert "scrout init" in run.err and "not written" in run.err


@pytest.mark.parametrize("as_json", [False, True])
def test_advice_follows_the_kind_of_the_fixer(cli: Cli, shop_repo: Path, tmp_path: Path, as_json: bool) -> None:
    write_trusted(shop_repo, '[[fixers]]\nname = "small-edits"\nkind = "repair"\n')
    issue = tmp_path / "vague.md"
    issue.write_text("Please make everything nicer.\n")
    run = cli("fix", "--repo", shop_repo, "--issue", issue, *(["--json"] if as_json else []))
    assert run.code == 1 and "scrout init" in run.err
    assert not as_json or run.json()["attempts"][0]["fixer"] == "small-edits"


def test_init_then_the_file_loads(cli: Cli) -> None:
    assert cli("init").code == 0
    written = cli.cwd / "scrout.toml"
    assert load(written) == load(None)
    written.write_text("# mine\n")
    refused = cli("init")
    assert refused.code == 2 and "--force" in refused.err and written.read_text() == "# mine\n"
    # What is commented out must be right, too: these are the keys people uncomment.
    assert cli("init", "--force").code == 0
    lines = [
        line.removeprefix("# ") if " = " in line or "[[" in line else line for line in written.read_text().splitlines()
    ]
    written.write_text("\n".join(line for line in lines if not line.startswith(("# ", "scrout.toml"))))
    settings = load(written)
    assert [fixer.name for fixer in settings.fixers] == ["repair", "my-model"]
    assert settings.model_copy(update={"fixers": ()}) == load(None).model_copy(update={"fixers": ()})


@pytest.mark.parametrize("force", [(), ("--force",)])
@pytest.mark.parametrize("exists", [True, False])
def test_init_does_not_write_through_a_link(cli: Cli, tmp_path: Path, force: tuple[str, ...], exists: bool) -> None:
    """A clone may hold one that leads to any file of the user's."""
    target = tmp_path / "profile"
    if exists:
        target.write_text("mine\n")
    (cli.cwd / "scrout.toml").symlink_to(target)
    refused = cli("init", *force)
    assert refused.code == 2 and "symlink" in refused.err
    assert target.read_text() == "mine\n" if exists else not target.exists()


@pytest.mark.parametrize("name", ["issue.md", "issues/issue.md"])
def test_no_link_of_a_repository_is_read_as_an_issue(cli: Cli, shop_repo: Path, tmp_path: Path, name: str) -> None:
    """Or a file of the user's would be told to the endpoint, and to the sandbox."""
    private = tmp_path / "private"
    private.mkdir()
    (private / "issue.md").write_text("the secret\n")
    (shop_repo / "issues").symlink_to(private)
    (shop_repo / "issue.md").symlink_to(private / "issue.md")
    refused = cli("scout", "--repo", shop_repo, "--issue", shop_repo / name)
    assert refused.code == 2 and "symlink" in refused.err and "the secret" not in refused.err


def test_no_pipe_of_a_repository_is_waited_for(cli: Cli, shop_repo: Path) -> None:
    os.mkfifo(shop_repo / "issue.md")
    refused = cli("scout", "--repo", shop_repo, "--issue", shop_repo / "issue.md")
    assert refused.code == 2 and "pipe" in refused.err


def test_out_does_not_lead_through_a_link_of_the_repository(cli: Cli, shop_repo: Path, issue: Path) -> None:
    victim = shop_repo.parent / "victim"
    victim.mkdir()
    (shop_repo / "patches").symlink_to(victim)
    for command, option in (("fix", "--out"), ("scout", "--html")):
        refused = cli(command, "--repo", shop_repo, "--issue", issue, option, shop_repo / "patches" / "file")
        assert refused.code == 2 and "symlink" in refused.err
    assert not list(victim.iterdir())


def test_trust(cli: Cli, shop_repo: Path) -> None:
    missing = cli("trust", "--repo", shop_repo)
    assert missing.code == 2 and "scrout init" in missing.err
    (shop_repo / "scrout.toml").write_text('[[fixers]]\nname = "small-edits"\nkind = "repair"\n')
    inside = shop_repo / "shop"
    refused = cli("doctor", "--repo", inside)
    assert refused.code == 2 and "sets fixers" in refused.err and "scrout trust" in refused.err
    trusted = cli("trust", "--repo", inside, "--json")
    assert trusted.code == 0 and trusted.json() == {
        "path": str(shop_repo / "scrout.toml"),
        "trusted": True,
        "keys": ["fixers"],
    }
    assert "fixer small-edits" in cli("doctor", "--repo", inside).out.decode()
    assert cli("trust", "--repo", inside, "--revoke").code == 0
    assert cli("doctor", "--repo", inside).code == 2
    assert "was not trusted" in cli("trust", "--repo", inside, "--revoke").err


def test_what_init_wrote_is_trusted_until_it_is_changed(cli: Cli) -> None:
    assert cli("init").code == 0 and cli("doctor").code == 0
    with (cli.cwd / "scrout.toml").open("a") as file:
        file.write("\n")
    assert "scrout trust" in cli("doctor").err
    assert cli("trust").code == 0 and cli("doctor").code == 0


def test_doctor(cli: Cli, shop_repo: Path) -> None:
    healthy = cli("doctor", "--repo", shop_repo, "--json", env={"SOME_API_KEY": "sk-hidden-value"})
    assert healthy.code == 0, healthy.err
    findings = {finding["name"]: finding for finding in healthy.json()["findings"]}
    assert {"python", "git", "sandbox", "disk", "environment", "keys", "fixer repair"} <= set(findings)
    tiers = {"bubblewrap": "ok", "container": "advice", "seatbelt": "advice"}
    assert {name: findings[f"tier {name}"]["status"] for name in tiers} == tiers
    assert findings["sandbox"]["status"] == "ok" and "SOME_API_KEY" in findings["keys"]["detail"]
    assert b"sk-hidden-value" not in healthy.out
    without_git = cli("doctor", "--json", env={"PATH": "/nonexistent"})
    assert without_git.code == 1
    assert "git" in [f["name"] for f in without_git.json()["findings"] if f["status"] == "missing"]


def test_doctor_shows_no_credentials(cli: Cli, shop_repo: Path) -> None:
    def fixer(name: str, base_url: str, key_env: str) -> str:
        head = f'[[fixers]]\nname = "{name}"\nkind = "agent"\nmodel = "m"\nprice = {{input=1,output=1}}\n'
        return f'{head}base_url = "{base_url}"\nkey_env = "{key_env}"\n'

    write_trusted(
        shop_repo,
        fixer("plain", "http://ada:hunter2@127.0.0.1:9/v1?token=hunter2", "FIRST_ACCESS")
        + fixer("odd", "http://ada:hunt/hunter2@127.0.0.1:9/v1", "SECOND_ACCESS")
        + fixer("foreign", "http://127.0.0.1:9/v1", "THIRD_ACCESS")
        + fixer("blank", "http://127.0.0.1:9/v1", "FOURTH_ACCESS"),
    )
    values = {"FIRST_ACCESS": " first-value\n", "SECOND_ACCESS": "second-value", "THIRD_ACCESS": "schlüssel-value"}
    for args in ((), ("--json",)):
        ended = cli("doctor", "--repo", shop_repo, *args, env={**values, "FOURTH_ACCESS": " \n"})
        assert ended.code == 0 and "Traceback" not in ended.err, ended.err
        shown = ended.out.decode() + ended.err
        assert not [secret for secret in ("ada", "hunt", "-value") if secret in shown.replace(str(shop_repo), "")]
    findings = {finding["name"]: finding for finding in ended.json()["findings"]}
    assert findings["keys"]["detail"] == "FIRST_ACCESS, SECOND_ACCESS, THIRD_ACCESS"
    assert "http://127.0.0.1:9/v1 cannot be reached (ConnectError)" in findings["fixer plain"]["detail"]
    assert "(http://127.0.0.1:9/v1)" in findings["fixer odd"]["next_step"]
    assert "THIRD_ACCESS holds characters" in findings["fixer foreign"]["detail"]
    assert "FOURTH_ACCESS is not set" in findings["fixer blank"]["detail"]


EVERY_COMMAND = (
    "batch",
    "api",
    "tasks",
    "fix",
    "scout",
    "gate",
    "route",
    "fixers",
    "feedback",
    "calibrate",
    "study",
    "train",
    "dashboard",
    "mcp",
    "forge",
    "runs",
    "show",
    "ledger",
    "demo",
    "env",
    "searcher",
    "doctor",
    "init",
    "trust",
)


@pytest.mark.parametrize("command", EVERY_COMMAND)
def test_every_command_has_help(command: str) -> None:
    from click.testing import CliRunner

    from scrout.cli.main import COMMANDS, scrout

    shown = CliRunner().invoke(scrout, [command, "--help"])
    assert shown.exit_code == 0 and COMMANDS[command].split(".")[0][:12] in shown.output
    assert set(COMMANDS) == set(EVERY_COMMAND)


def test_help_shows_every_command_in_sections_on_one_screen() -> None:
    from click.testing import CliRunner

    from scrout.cli.main import COMMANDS, SECTIONS, scrout

    shown = CliRunner().invoke(scrout, ["--help"], terminal_width=80).output
    assert [line.rstrip(":") for line in shown.splitlines() if line.rstrip(":") in SECTIONS] == list(SECTIONS)
    named = [line.split()[0] for line in shown.splitlines() if line.startswith("  ") and line.split()[0] in COMMANDS]
    assert named == list(COMMANDS) and len(shown.splitlines()) <= 45
