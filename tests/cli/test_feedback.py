"""`scrout feedback`: a whole run with a scripted model, then what came of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scrout.config.settings import FixerKey
from scrout.models.chat import ToolCall
from scrout.models.scripted import ScriptedEndpoint, ScriptedReply
from scrout.money import Usage
from scrout.route.feedback import FILE, Feedback
from scrout.route.resume import load

if TYPE_CHECKING:
    from conftest import Cli, Ended

KEY = FixerKey(agent="agent", model="toy-1", effort="low")
USAGE = Usage(input_tokens=1000, output_tokens=100)
FIX = json.dumps({"command": r"sed -i 's/prices\[1:\]/prices/' shop/cart.py"})


def settings(folder: Path, base_url: str, model: str = "toy-1") -> Path:
    path = folder / "toy.toml"
    path.write_text(
        f'[route]\nresumes = "{folder / "resumes"}"\nembedder = {{ kind = "hashed" }}\n'
        f'[[fixers]]\nname = "toy"\nkind = "agent"\nmodel = "{model}"\neffort = "low"\nbase_url = "{base_url}"\n'
        'key_env = "TOY_KEY"\nprice = { input = 3.0, output = 15.0 }\n'
    )
    return path


def refused(ended: Ended, *words: str) -> None:
    assert (ended.code, ended.out) == (2, b""), ended.err
    last = ended.err.strip().splitlines()[-1]
    assert last.startswith("error: ") and all(word in last for word in words), last


def fixed(cli: Cli, repo: Path, issue: Path, folder: Path) -> tuple[str, Path]:
    """A run that a model solved, and its settings."""
    script = [ScriptedReply(calls=(ToolCall("c", "bash", FIX),), usage=USAGE), ScriptedReply("Done.", usage=USAGE)]
    with ScriptedEndpoint(script) as endpoint:
        config = settings(folder, endpoint.base_url)
        done = cli("fix", "--repo", repo, "--issue", issue, "--config", config, "--json", env={"TOY_KEY": "k"})
    assert done.code == 0, done.err
    assert {json.loads(request.body)["reasoning_effort"] for request in endpoint.requests} == {"low"}
    return str(done.json()["id"]), config


def test_a_verdict_is_learned_and_the_last_one_counts(cli: Cli, shop_repo: Path, issue: Path, tmp_path: Path) -> None:
    run, config = fixed(cli, shop_repo, issue, tmp_path)
    said = cli("feedback", run[:-2], "merged", "--config", config)
    assert (said.code, said.out) == (0, b""), said.err
    assert f"{run} is merged. agent/toy-1@low has 1 outcome, 1 solved; its résumé counts from 25 on." in said.err

    (resume,) = load(tmp_path / "resumes").values()
    (outcome,) = resume.outcomes
    assert resume.key == KEY and resume.growing
    assert (outcome.arm, outcome.api_calls, outcome.resolved) == ("handoff", 2, True)
    assert float(outcome.cost_usd or 0) == 2 * (1000 * 3 + 100 * 15) / 1e6
    spaces = {path.name.partition(".vectors")[0] for path in (tmp_path / "resumes").glob("*.npz")}
    assert spaces == {"text%2Fhashed-512-1", "counts-1", "recon-3"}

    again = cli("feedback", run, "reverted", "--config", config, "--json")
    assert again.code == 0, again.err
    assert again.json().items() >= {"former": "merged", "verdict": "reverted", "n": 1, "solved": 0}.items()
    assert "in place of reverted" in cli("feedback", run, "wrong", "--config", config).err
    (row,) = [one for one in json.loads(cli("fixers", "list", "--json", "--config", config).out) if not one["public"]]
    assert (row["key"], row["growing"], row["solves"]["solved"]) == ("agent/toy-1@low", True, 0)
    lines = (tmp_path / "resumes" / FILE).read_text().splitlines()
    assert [json.loads(line)["verdict"] for line in lines] == ["merged", "reverted", "wrong"]


@pytest.mark.slow
def test_drift_is_told(cli: Cli, shop_repo: Path, issue: Path, tmp_path: Path) -> None:
    run, config = fixed(cli, shop_repo, issue, tmp_path)
    folder = tmp_path / "resumes"
    folder.mkdir(exist_ok=True)
    past = [
        Feedback(run=f"past-{n}", key=KEY, verdict="wrong", when=datetime(2026, 1, 1, tzinfo=UTC), p_solve=0.8)
        for n in range(12)
    ]
    (folder / FILE).write_text("".join(one.model_dump_json() + "\n" for one in past))
    said = cli("feedback", run, "wrong", "--config", config, "--json")
    drift = said.json()["drift"]
    assert said.code == 0 and drift["n"] >= 12 and drift["z"] < -2 and drift["predicted"] > 0.5
    assert "drift: agent/toy-1@low does worse" in said.err and "scrout fixers add" in said.err
    listed = cli("fixers", "list", "--config", config)
    assert "drift: agent/toy-1@low does worse" in listed.err


def test_what_cannot_be_judged_is_refused(cli: Cli, shop_repo: Path, issue: Path, tmp_path: Path) -> None:
    config = settings(tmp_path, "http://127.0.0.1:9/v1")
    refused(cli("feedback", "2026", "merged", "--config", config), "no run", "scrout fix")
    assert cli("feedback", "2026", "perfect", "--config", config).code == 2
    failed = cli("fix", "--repo", shop_repo, "--issue", issue, "--config", config, "--json", env={"TOY_KEY": ""})
    assert failed.json()["outcome"] == "infrastructure"
    run = str(failed.json()["id"])
    refused(cli("feedback", run, "wrong", "--config", config), run, "says nothing about the fixer", "scrout fix")
    assert not (tmp_path / "resumes" / FILE).exists()


@pytest.mark.slow
def test_a_fixer_that_is_gone_or_another_model_now_is_named(
    cli: Cli, shop_repo: Path, issue: Path, tmp_path: Path
) -> None:
    run, _ = fixed(cli, shop_repo, issue, tmp_path)
    refused(cli("feedback", run, "merged"), "'toy', which is not in the pool", "--config")
    other = settings(tmp_path, "http://127.0.0.1:9/v1", model="toy-2")
    refused(cli("feedback", run, "merged", "--config", other), "toy was toy-1", "is toy-2 now", "--config")
