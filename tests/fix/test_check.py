"""The check: what proves a patch, what refutes it, and what leaves it open."""

from __future__ import annotations

import pytest

from scrout.fix.check import changed_paths, check
from scrout.handoff import Handoff, Reproduction
from scrout.records import Attempt, Check, Evidence, GatedHandoff
from scrout.sandbox.workshop import Workshop

SOURCE = "def double(n):\n    return n + n + 1\n"
TESTS = """\
import unittest
from numbers_ import double

class Double(unittest.TestCase):
    def test_grows(self):
        self.assertGreater(double(3), 3)

    def test_wrong_before(self):
        self.assertEqual(double(3), 6)
"""
SHOWN = "from numbers_ import double\nassert double(2) == 4, double(2)\n"


def gated(kept: bool = True) -> GatedHandoff:
    reproduction = Reproduction(files={"shown.py": SHOWN}, command="python shown.py", claim=True) if kept else None
    return GatedHandoff(
        verdict="real_failure" if kept else "no_repro",
        kept=kept,
        materialized=kept,
        reason="",
        evidence=Evidence(),
        handoff=Handoff(reproduction=reproduction),
        text="",
    )


async def checked(shop: Workshop, change: str, handed: GatedHandoff) -> Check:
    """Make a patch with a shell command, then check it."""
    workspace = shop.fresh()
    done = await shop.shell(workspace, change)
    assert done.exit_code == 0, done.text
    patch = await shop.diff(workspace)
    attempt = Attempt(fixer="by hand", patch=patch, stop="finished", detail="", seconds=0)
    return await check(handed, attempt, shop)


FIXED = "sed -i 's/ + 1//' numbers_.py"
REPO = {"numbers_.py": SOURCE, "test_numbers_.py": TESTS}


async def test_a_right_patch_passes(make_repo, workshop) -> None:
    with workshop(make_repo(REPO)) as shop:
        result = await checked(shop, FIXED, gated())
    assert (result.outcome, result.reproduction, result.tests) == ("passed", "passes", "pass")
    assert result.tests_run == 2
    assert result.flags == ()


async def test_a_patch_that_leaves_the_bug_fails(make_repo, workshop) -> None:
    with workshop(make_repo(REPO)) as shop:
        result = await checked(shop, "echo '# looked at' >> numbers_.py", gated())
    assert (result.outcome, result.reproduction) == ("failed", "fails")
    assert "still fails" in result.detail


async def test_a_patch_that_breaks_a_test_fails_though_the_bug_is_gone(make_repo, workshop) -> None:
    with workshop(make_repo(REPO)) as shop:
        result = await checked(
            shop, "printf 'def double(n):\\n    return 4 if n == 2 else 0\\n' > numbers_.py", gated()
        )
    assert (result.outcome, result.reproduction, result.tests) == ("failed", "passes", "fail")
    assert "test_grows" in result.detail
    assert "test_wrong_before" not in result.detail


async def test_without_a_reproduction_or_without_tests_a_patch_stays_unverified(make_repo, workshop) -> None:
    with workshop(make_repo(REPO)) as shop:
        unseen = await checked(shop, FIXED, gated(kept=False))
    assert (unseen.outcome, unseen.tests) == ("unverified", "pass")
    with workshop(make_repo({"numbers_.py": SOURCE}, "untested")) as shop:
        untested = await checked(shop, FIXED, gated())
    assert (untested.outcome, untested.reproduction, untested.tests) == ("unverified", "passes", "none")


async def test_tests_that_cannot_run_prove_nothing(make_repo, workshop) -> None:
    with workshop(make_repo({**REPO, "test_numbers_.py": "import nobody_has_this\n" + TESTS})) as shop:
        result = await checked(shop, FIXED, gated())
    assert (result.outcome, result.tests) == ("unverified", "not_run")


async def test_an_edited_test_is_flagged(make_repo, workshop) -> None:
    with workshop(make_repo(REPO)) as shop:
        result = await checked(shop, f"{FIXED}; sed -i 's/3), 3/3), 2/' test_numbers_.py", gated())
    assert result.flags == ("changes a test: test_numbers_.py",)


@pytest.mark.parametrize("trap", ["ln -s /etc/hostname shown.py", "mkdir shown.py; touch shown.py/x"])
async def test_a_patch_cannot_take_the_reproductions_place(make_repo, workshop, trap: str) -> None:
    with workshop(make_repo(REPO)) as shop:
        result = await checked(shop, trap, gated())
    assert (result.outcome, result.reproduction) == ("failed", "fails")


async def test_no_patch_and_a_patch_that_does_not_apply(make_repo, workshop) -> None:
    with workshop(make_repo(REPO)) as shop:
        empty = await check(gated(), Attempt(fixer="x", patch="", stop="nothing_found", detail="", seconds=0), shop)
        alien = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n"
        wrong = await check(gated(), Attempt(fixer="x", patch=alien, stop="finished", detail="", seconds=0), shop)
    assert empty.outcome == "no_patch"
    assert (wrong.outcome, wrong.applies) == ("failed", False)
    assert "x.py" in wrong.detail


def test_changed_paths_are_read_from_headers() -> None:
    patch = (
        'diff --git a/a.py b/b c.py\nrename\ndiff --git "a/\\303\\266.py" "b/\\303\\266.py"\n+diff --git a/no b/no\n'
    )
    assert changed_paths(patch)[0] == "b c.py"
    assert len(changed_paths(patch)) == 2
