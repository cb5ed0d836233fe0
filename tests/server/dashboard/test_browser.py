"""The dashboard in a real Chromium: nothing fails or leaves the machine, no planted script runs, all can be read."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")


if TYPE_CHECKING:
    from conftest import Writer

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is on PATH; scripts/add-browser installs one")

PLANT = "window.planted = 1"
HOSTILE = (
    f"<script>{PLANT}</script><img src=x onerror='{PLANT}'>\"'><svg onload='{PLANT}'></svg></pre></title></textarea>"
    f"<a href='javascript:{PLANT}'>x</a><iframe srcdoc='<script>parent.{PLANT}</script>'></iframe>"
    "<img src='https://evil.example/x.png'><link rel=stylesheet href='https://evil.example/x.css'>"
)
HOSTILE_PATH = f"<img src=x onerror='{PLANT}'>.py"
LONG = "a_very_long_name_without_any_place_to_break_" * 6
PHONE = {"width": 390, "height": 844}
TOKEN = "correct-horse-battery-staple-42"


@dataclass(frozen=True)
class Served:
    """A dashboard with hostile runs in it, as its own process."""

    home: str
    run: str
    step: int
    """Of the run, with a conversation."""

    @property
    def pages(self) -> list[str]:
        """All kinds of pages, each with what it can hold."""
        hostile = quote(HOSTILE)
        return [
            *("/runs", f"/runs/{self.run}", f"/runs/{self.run}/steps/{self.step}", "/batches", "/batch?name=going-on"),
            *(f"/batch?name={hostile}", "/frontier", f"/frontier?batch={hostile}", "/fixers", "/studies", "/none"),
        ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("browser")


@contextmanager
def serving(folder: Path, *options: str, env: Mapping[str, str] = {}) -> Iterator[str]:
    """`scrout dashboard` over the ledger of a folder: its address."""
    code = "from scrout.cli.dashboard import command; command()"
    ledger = f"ledger.path={folder / 'ledger.db'}"
    argv = [sys.executable, "-c", code, "--port", "0", "-c", ledger, *options]
    own = {f"XDG_{name}_HOME": str(folder / name) for name in ("CACHE", "DATA", "CONFIG")}
    with subprocess.Popen(
        argv, stderr=subprocess.PIPE, text=True, cwd=folder, env={**os.environ, **own, **env}
    ) as process:
        try:
            assert process.stderr is not None
            found = next(match for line in process.stderr if (match := re.search(r"http://\S+/", line)))
            yield found[0].rstrip("/")
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(10) == 0


@pytest.fixture(scope="module")
def served(folder: Path, writer: Writer) -> Iterator[Served]:
    repo = folder / "larder"
    repo.mkdir()
    source = f"# {HOSTILE}\n" + "def f():\n    return 1\n" * 30
    for path in ("shelf.py", HOSTILE_PATH):
        (repo / path).write_text(source)
    who = ("-c", "user.name=Test", "-c", "user.email=test@localhost", "-c", "commit.gpgSign=false")
    for command in (("init", "-q"), ("add", "--all"), (*who, "commit", "-q", "-m", "base")):
        subprocess.run(["git", *command], cwd=repo, check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repo, check=True, capture_output=True, text=True).stdout
    patch = f"diff --git a/{HOSTILE} b/{HOSTILE}\n@@ -1,2 +1,2 @@ {HOSTILE}\n {LONG}\n-{HOSTILE}\n+{HOSTILE}\n"
    run = ""
    add = writer(folder / "ledger.db", folder)
    for number in range(3):
        run = add(
            f"{HOSTILE} {LONG}\n\n{HOSTILE}\n```\n{LONG}{HOSTILE}\n```",
            task_id=f"task-{number}{HOSTILE}",
            repo=repo,
            commit=head.strip(),
            path=HOSTILE_PATH,
            fixer=HOSTILE,
            model=HOSTILE + LONG,
            notes=HOSTILE,
            patch=patch,
            batch=HOSTILE,
            arm=f"handoff/{HOSTILE}",
            output=LONG + HOSTILE,
        )
    add(batch="going-on", close=False)
    with serving(folder) as home:
        yield Served(home, run, converse(folder, home, run))


def converse(folder: Path, home: str, run: str) -> int:
    """Gives the run's attempt a hostile conversation; its step."""
    import httpx

    history = httpx.get(f"{home}/runs/{run}.json").json()["history"]
    step: int = next(one["step"] for one in history if one["name"] == "fix" and one["status"] == "started")
    receipt = {"component": "fix", "model": HOSTILE, "usage": {}, "cost_usd": 0.5, "at": "2026-11-16T10:00:00Z"}
    said = {
        "text": HOSTILE,
        "reasoning": HOSTILE,
        "calls": [{"name": HOSTILE, "arguments": HOSTILE}],
        "finish": HOSTILE,
    }
    asked = {"new": [{"role": HOSTILE, "content": HOSTILE}, {"role": "tool", "content": LONG}]}
    call = {"kind": "call", "call": 1, "api": "chat", "status": 200, "said": said, "receipt": receipt, "asked": asked}
    place = folder / "attempts" / run / str(step)
    place.mkdir(parents=True)
    lines = [{"kind": "header", "model": HOSTILE}, call | {"seconds": 1.0}]
    (place / "trajectory.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return step


@pytest.fixture(scope="module")
def browser() -> Iterator[playwright.Browser]:
    # A name of somebody else's that leads here, as an attacker's would.
    rules = "--host-resolver-rules=MAP rebound.example 127.0.0.1"
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", rules])
        yield chromium
        chromium.close()


@pytest.fixture
def new_page(browser: playwright.Browser) -> Iterator[Callable[..., playwright.Page]]:
    """new_page(...): a page of a browser that knows nothing yet."""
    contexts = []

    def make(**options: object) -> playwright.Page:
        contexts.append(browser.new_context(**options))
        return contexts[-1].new_page()

    yield make
    for context in contexts:
        context.close()


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


def unfold(page: playwright.Page) -> None:
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_load_without_errors_requests_elsewhere_or_planted_script(
    scheme: str, served: Served, new_page: Callable[..., playwright.Page]
) -> None:
    page = new_page(color_scheme=scheme)
    wrong = watched(page, served.home)
    grounds, seen = set(), ""
    for path in served.pages:
        answer = page.goto(served.home + path)
        assert answer is not None
        assert answer.status == (404 if path == "/none" else 200), path
        unfold(page)
        seen += page.inner_text("body")
        grounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert page.evaluate("window.planted") is None, path
    assert [one for one in wrong if "404" not in one] == []
    assert seen.count(f"<script>{PLANT}</script>") > 40
    assert grounds == {"rgb(251, 251, 249)" if scheme == "light" else "rgb(20, 23, 28)"}


def test_what_is_asked_and_twins_run_no_script(served: Served, new_page: Callable[..., playwright.Page]) -> None:
    page = new_page()
    wrong = watched(page, served.home)
    hostile = quote(HOSTILE, safe="")
    asked = [
        f"/runs?{name}={hostile}" for name in ("words", "fixer", "arm", "batch", "outcome", "since", "before", "x")
    ]
    odd = [
        f"/runs/{hostile}",
        f"/batch?name=x{hostile}",
        f"/frontier?batch=x{hostile}",
        f"/{hostile}",
        "/runs?words=%00",
    ]
    twins = [re.sub(r"\?|$", lambda end: f".json{end[0]}", path, count=1) for path in served.pages]
    for path in [*asked, *odd, *twins, *(f"/runs/{served.run}/steps/{hostile}", f"/login?next=javascript:{PLANT}")]:
        page.goto(served.home + path)
        assert page.evaluate("window.planted") is None, path
    assert [one for one in wrong if " 404 " not in one and " 400 " not in one] == []


def test_markup_that_slipped_in_would_not_run_or_load(served: Served, new_page: Callable[..., playwright.Page]) -> None:
    page = new_page()
    page.goto(served.home + "/runs")
    left: list[str] = []
    page.on("response", lambda answer: left.append(answer.url) if "evil" in answer.url else None)
    with page.expect_console_message(lambda said: "Content Security Policy" in said.text and "evil" in said.text):
        page.evaluate("markup => { document.body.innerHTML = markup }", HOSTILE)
    page.wait_for_timeout(200)
    assert page.evaluate("window.planted") is None
    assert left == []


def test_a_name_that_was_pointed_here_is_not_answered_to(
    served: Served, new_page: Callable[..., playwright.Page]
) -> None:
    page = new_page()
    answer = page.goto(served.home.replace("127.0.0.1", "rebound.example") + "/runs")
    assert answer is not None and answer.status == 421
    assert page.locator("tbody tr").count() == 0


def test_a_token_is_asked_for_once(served: Served, folder: Path, new_page: Callable[..., playwright.Page]) -> None:
    page = new_page()
    with serving(folder, "--token-env", "DASH_TOKEN", env={"DASH_TOKEN": TOKEN}) as home:
        page.goto(f"{home}/batches?x=1")
        assert page.url.startswith(f"{home}/login")
        assert page.evaluate("document.activeElement.id") == "token"
        page.keyboard.type("not the token")
        page.keyboard.press("Enter")
        page.get_by_role("alert").wait_for()
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"{home}/batches?x=1")
        assert page.evaluate("document.cookie") == ""
        assert TOKEN not in json.dumps(page.context.cookies())
        page.goto(f"{home}/runs")
        assert page.locator("tbody tr").count() == 4


def test_a_phone_never_scrolls_sideways(served: Served, new_page: Callable[..., playwright.Page]) -> None:
    page = new_page(viewport=PHONE)
    for path in served.pages:
        page.goto(served.home + path)
        unfold(page)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= PHONE["width"], (path, wide)


def test_the_keyboard_reaches_a_run_and_shows_where_it_is(
    served: Served, new_page: Callable[..., playwright.Page]
) -> None:
    page = new_page()
    page.goto(served.home + "/runs")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
    page.keyboard.press("Enter")
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('href') || ''").endswith(served.run):
            break
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/runs/{served.run}")


def test_the_filter_works_without_script(served: Served, new_page: Callable[..., playwright.Page]) -> None:
    page = new_page(java_script_enabled=False)
    page.goto(served.home + "/runs")
    assert page.locator("tbody tr").count() == 4
    page.get_by_label("Outcome").select_option("interrupted")
    page.get_by_role("button", name="Filter").click()
    assert page.locator("tbody tr").count() == 1
    page.get_by_role("link", name="Clear").click()
    assert page.locator("tbody tr").count() == 4


# What each text stands on, by the nearest ground that is not transparent; WCAG's contrast of the two.
FAINT = """() => {
  const channel = value => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const parse = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const ground = one => {
    for (; one; one = one.parentElement) {
      const colour = parse(getComputedStyle(one).backgroundColor);
      if (colour.length < 4 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const faint = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const one = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !one.checkVisibility() || one.closest('svg, select')) continue;
    const pair = [light(parse(getComputedStyle(one).color)), light(ground(one))].sort((a, b) => b - a);
    const contrast = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (contrast < 4.5) faint.push(`${contrast.toFixed(2)} ${one.tagName}.${one.className}`);
  }
  return [...new Set(faint)];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_and_headings_are_in_order(
    scheme: str, served: Served, new_page: Callable[..., playwright.Page]
) -> None:
    page = new_page(color_scheme=scheme)
    for path in served.pages:
        page.goto(served.home + path)
        unfold(page)
        assert page.evaluate(FAINT) == [], path
        levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3')].map(one => Number(one.tagName[1]))")
        assert levels.count(1) == 1 and levels[0] == 1, (path, levels)
        assert all(after <= before + 1 for before, after in pairwise(levels)), (path, levels)
        unnamed = "[...document.querySelectorAll('input, select')].filter(one => !one.labels.length).length"
        assert page.evaluate(unnamed) == 0, path
