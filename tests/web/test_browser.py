"""The dashboard in a real Chromium: nothing fails, nothing leaves the machine, no planted script runs."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright and a Chromium on PATH")

pytestmark = pytest.mark.slow

AddRun = Callable[..., str]
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
HOSTILE = (
    "<script>window.planted = 1</script><img src=x onerror='window.planted = 1'>\"'><svg onload='window.planted=1'>"
)
LONG = "a_very_long_name_without_any_place_to_break_" * 6
PHONE = {"width": 375, "height": 740}


@pytest.fixture
def served(
    ledger_path: Path, tmp_path: Path, add_run: AddRun, make_repo: Callable[..., Path]
) -> Iterator[tuple[str, str]]:
    """A dashboard with hostile runs in it, as its own process: its address, and the id of one run."""
    repo = make_repo({"larder/shelf.py": f"# {HOSTILE}\n" + "def f():\n    return 1\n" * 30})
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repo, check=True, capture_output=True, text=True).stdout
    patch = (
        "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n " + LONG + f"\n-{HOSTILE}\n+{HOSTILE}\n"
    )
    run = ""
    for number in range(3):
        run = add_run(
            f"{HOSTILE} {LONG}\n\n```\n{LONG}\n```",
            task_id=f"task-{number}",
            repo=repo,
            commit=commit.strip(),
            fixer=HOSTILE,
            model=LONG,
            notes=HOSTILE,
            patch=patch,
            batch=HOSTILE,
            arm=f"handoff/{HOSTILE}",
            output=LONG,
        )
    add_run(batch="going-on", close=False)
    code = "from scrout.cli.serve import command; command()"
    argv = [sys.executable, "-c", code, "--port", "0", "-c", f"ledger.path={ledger_path}"]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=dict(os.environ)) as process:
        try:
            assert process.stderr is not None
            found = next(match for line in process.stderr if (match := re.search(r"http://\S+/", line)))
            yield found[0].rstrip("/"), run
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(10) == 0


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[playwright.Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium is on PATH")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield chromium
        chromium.close()


def watched(page: playwright.Page, home: str) -> list[str]:
    """What goes wrong on a page from now on."""
    wrong: list[str] = []
    page.on(
        "console", lambda said: wrong.append(f"{said.type}: {said.text}") if said.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: wrong.append(f"page: {error}"))
    # One that is given up because the next page is asked for has not failed.
    page.on("requestfailed", lambda it: None if "ABORTED" in it.failure else wrong.append(f"failed: {it.url}"))
    page.on("request", lambda asked: wrong.append(f"leaves: {asked.url}") if not asked.url.startswith(home) else None)
    page.on("dialog", lambda dialog: wrong.append("a dialog"))
    return wrong


def pages(run: str) -> list[str]:
    return ["/runs", f"/runs/{run}", "/batches", "/batch?name=going-on", "/frontier", "/fixers", "/studies", "/none"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_load_without_errors_requests_elsewhere_or_planted_script(
    scheme: str, served: tuple[str, str], browser: playwright.Browser
) -> None:
    home, run = served
    page = browser.new_page(color_scheme=scheme)
    wrong = watched(page, home)
    grounds = set()
    for path in pages(run):
        answer = page.goto(home + path)
        assert answer is not None
        assert answer.status == (404 if path == "/none" else 200)
        assert page.evaluate("window.planted") is None
        grounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert [one for one in wrong if "404" not in one] == []
    assert grounds == {"rgb(251, 251, 249)" if scheme == "light" else "rgb(20, 23, 28)"}


def test_a_phone_never_scrolls_sideways(served: tuple[str, str], browser: playwright.Browser) -> None:
    home, run = served
    page = browser.new_page(viewport=PHONE)
    for path in pages(run):
        page.goto(home + path)
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= PHONE["width"], (path, wide)


def test_the_keyboard_reaches_a_run_and_shows_where_it_is(served: tuple[str, str], browser: playwright.Browser) -> None:
    home, run = served
    page = browser.new_page()
    page.goto(home + "/runs")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
    page.keyboard.press("Enter")
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('href') || ''").endswith(run):
            break
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/runs/{run}")
    assert page.locator("h1").count() == 1


def test_the_filter_works_without_script(served: tuple[str, str], browser: playwright.Browser) -> None:
    home, _ = served
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(home + "/runs")
    assert page.locator("tbody tr").count() == 4
    page.get_by_label("Outcome").select_option("interrupted")
    page.get_by_role("button", name="Filter").click()
    assert page.locator("tbody tr").count() == 1
    page.get_by_role("link", name="Clear").click()
    assert page.locator("tbody tr").count() == 4
