"""The paper's published records: their classes, their handoffs through the command line, and the benchmark on them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from click.testing import CliRunner

from scrout.cli.main import scrout
from scrout.gate.paper_classes import PaperClass, paper_class
from scrout.records import KEPT, KeptVerdict, NothingVerdict, RejectedVerdict, Verdict
from scrout.sandbox.tier import Tier

ROOT = Path(__file__).parents[2]
RECORDS = ROOT.parent / "shared/data/receipts/verify_records.jsonl"
VERDICTS: tuple[Verdict, ...] = (*get_args(KeptVerdict), *get_args(RejectedVerdict), *get_args(NothingVerdict))

needs_records = pytest.mark.skipif(not RECORDS.is_file(), reason="the paper's records are not here")


def test_every_verdict_has_a_class_and_every_class_a_verdict() -> None:
    assert {paper_class(verdict) for verdict in VERDICTS} == set(get_args(PaperClass))


def test_only_what_is_kept_is_a_genuine_failure() -> None:
    assert {verdict for verdict in VERDICTS if paper_class(verdict) == "real_failure"} <= KEPT


@needs_records
def test_the_classes_are_the_records() -> None:
    told = {json.loads(line)["failure_class"] for line in RECORDS.read_text().splitlines()}
    assert told == set(get_args(PaperClass))


@needs_records
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["one a class", "all"])
@pytest.mark.slow
def test_the_command_line_takes_every_handoff(
    every: bool,
    tier: Tier,
    light_python: Path,
    make_repo: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", str(light_python), prepend=os.pathsep)
    repo = make_repo({"lib/ansible/utils/vars.py": "def isidentifier(name):\n    return name.isidentifier()\n"})
    entries = [json.loads(line) for line in RECORDS.read_text().splitlines()]
    chosen = entries if every else list({entry["failure_class"]: entry for entry in entries}.values())
    done = []
    for entry in chosen:
        page = tmp_path / "page.txt"
        page.write_text(entry["handoff_text"])
        argv = ["gate", "--repo", str(repo), "--handoff", str(page), "--json", "-c", "gate.timeout_s=5"]
        done.append(CliRunner().invoke(scrout, argv))
    for result in done:
        assert result.exit_code == 0, result.stderr
        # Nothing of what they are about is in this repository, so nothing can be true of it.
        gated = json.loads(result.stdout)
        assert gated["verdict"] in VERDICTS
        assert not gated["kept"]
        assert "<repro>" not in gated["text"]
    assert len({json.loads(result.stdout)["verdict"] for result in done}) >= 5


@needs_records
def test_the_benchmark_counts_each_record_once_and_guesses_nothing(tmp_path: Path) -> None:
    out = tmp_path / "records.json"
    argv = [str(ROOT / "bench/gate_records.py"), "--records", str(RECORDS), "--json", str(out)]
    done = subprocess.run([sys.executable, *argv], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(out.read_text())
    rows = told["rows"]
    assert told["records"] == len(rows) == sum(told["verdicts"].values())
    assert told["scrout"] and told["machine"] and "gate_records.py" in told["command"]
    by_task = {row["task"]: row for row in rows}
    assert by_task["ansible-b5e02936"]["verdict"] == "syntax_error"
    assert by_task["ansible-b5e02936"]["differs"].startswith("kept by the release, stripped by us")
    # A message and exit code 1: whether the repository decided it is not in the record.
    assert by_task["ansible-a7d2a4e0"]["kept"] is None
    assert not any(row["kept"] for row in rows)
