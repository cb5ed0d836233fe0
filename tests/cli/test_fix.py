"""What `scrout fix` says and how it ends, by what the check came to."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from scrout.base import TaskError
from scrout.cli import fix
from scrout.cli.main import scrout
from scrout.records import Attempt, Check, CheckOutcome, Run, RunOutcome
from scrout.task import Task

DOUBT = "price('37') gives 3700 before the patch and gives 300 with it."
MISSING = "No reproduction was verified, so nothing shows that the bug is gone."


PATCH = "diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+x\n"


def run_with(outcome: RunOutcome, checked: CheckOutcome, repo: Path, patch: str = PATCH) -> Run:
    check = Check(
        outcome=checked,
        applies=True,
        reproduction="passes",
        tests="pass",
        doubts=(DOUBT,) if checked == "doubtful" else (),
        missing=(MISSING,) if checked == "unverified" else (),
    )
    return Run(
        id="20260101-000000",
        task=Task(id="t", text="x", repo=repo, base_commit="0" * 40),
        settings_digest="",
        started=datetime(2026, 1, 1, tzinfo=UTC),
        sandbox="none",
        environment="none",
        attempts=(Attempt(fixer="repair", patch=patch, stop="finished", detail="", seconds=0),),
        checks=(check,),
        outcome=outcome,
    )


@pytest.mark.parametrize(
    ("outcome", "checked", "code", "said", "applied"),
    [
        ("solved", "passed", 0, "passed", True),
        ("unverified", "unverified", 1, MISSING, True),
        ("unverified", "doubtful", 1, DOUBT, False),
        ("not_solved", "failed", 1, "not applied: the check proved the patch wrong", False),
    ],
)
def test_only_a_solved_issue_ends_with_zero(
    outcome: RunOutcome,
    checked: CheckOutcome,
    code: int,
    said: str,
    applied: bool,
    shop_repo: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fix, "solve_with_progress", lambda *given, **options: run_with(outcome, checked, shop_repo))
    given = ["fix", "--repo", str(shop_repo), "--issue", "-", "--apply"]
    done = CliRunner().invoke(scrout, given, input="a bug", standalone_mode=False)
    assert done.return_value == code, done.output
    assert said in " ".join(done.stderr.split())
    assert (shop_repo / "x").exists() is applied


@pytest.mark.parametrize("of", ["copy from ../secret", "--- a/../secret"])
def test_a_patch_copies_no_file_of_the_host(of: str, shop_repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """git looks at where a copy goes, and not at where it is from."""
    (shop_repo.parent / "secret").write_text("secret\n")
    copy = f"diff --git a/../secret b/x\nsimilarity index 100%\n{of}\ncopy to x\n"
    run = run_with("solved", "passed", shop_repo, copy)
    monkeypatch.setattr(fix, "solve_with_progress", lambda *given, **options: run)
    given = ["fix", "--repo", str(shop_repo), "--issue", "-", "--apply"]
    done = CliRunner().invoke(scrout, given, input="a bug", standalone_mode=False)
    assert isinstance(done.exception, TaskError) or "copies a file" in done.stderr
    assert not (shop_repo / "x").exists()
