"""What reaches a terminal: nothing that a repository, an issue or a model could make it obey."""

from __future__ import annotations

import os
import pty
import re
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.cli.render import inert
from scrout.models.scripted import ScriptedEndpoint, ScriptedReply
from scrout.money import Usage

if TYPE_CHECKING:
    from conftest import Cli

# Colours and styles, moving up, clearing the line, hiding the cursor: what our own progress and tables need.
OWN = re.compile(rb"\x1b\[(?:[0-9;]*m|[0-9]*[AGJK]|\?25[lh])")
COLOUR = re.compile(rb"\x1b\[(?:[0-9;]*;)?(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;[0-9;]*)?m")
# Sets the window's title, clears the screen, and the eight-bit form of the same.
EVIL = "\x1b]0;owned\x07\x1b[2J\x9b2J\u202e"


def on_terminal(cli: Cli, *args: str | Path, env: dict[str, str] | None = None) -> bytes:
    """Everything that a command writes to a terminal, standard output and standard error alike."""
    ours, theirs = pty.openpty()
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(all_of, ours)
        with os.fdopen(theirs, "w", encoding="utf-8") as terminal:
            cli.writing(terminal, terminal, *args, env=env)
        seen = reading.result()
    os.close(ours)
    return seen


def all_of(ours: int) -> bytes:
    seen = b""
    while True:
        try:
            seen += os.read(ours, 65536)
        except OSError:  # the last writer has closed it
            return seen


def assert_harmless(seen: bytes) -> None:
    rest = OWN.sub(b"", seen)
    for sign in (b"\x1b", b"\x07", "\x9b".encode(), "\u202e".encode()):
        assert sign not in rest, rest[max(0, rest.find(sign) - 80) :][:160]


@pytest.fixture
def hostile_repo(make_repo: Callable[..., Path]) -> Path:
    return make_repo(
        {
            "cart.py": f"# {EVIL}\ndef total(prices):\n    raise ValueError({EVIL!r} + 'planted')\n",
            f"to{EVIL}tal.py": "def total(prices):\n    return 0\n",
        },
        name="re\x1b[2Jpo",
    )


def test_planted_escape_sequences_do_nothing(cli: Cli, hostile_repo: Path, tmp_path: Path) -> None:
    issue = tmp_path / f"is\x1b[2Jsue{EVIL}.md"
    issue.write_text(
        f"{EVIL} total fails\n\n```python\nfrom cart import total\ntotal([1])\n```\n\nValueError: planted {EVIL}\n"
    )
    replies = [ScriptedReply(f"I am {EVIL} done", usage=Usage(input_tokens=1, output_tokens=1))]
    with ScriptedEndpoint(replies) as endpoint:
        config = tmp_path / "agent.toml"
        config.write_text(
            f'[[fixers]]\nname = "toy"\nkind = "agent"\nmodel = "toy-1"\nbase_url = "{endpoint.base_url}"\n'
            "price = { input = 1.0, output = 2.0 }\n"
        )
        seen = on_terminal(cli, "fix", "--repo", hostile_repo, "--issue", issue, "--config", config)
    assert b"planted" in seen and b"toy" in seen
    assert_harmless(seen)
    assert_harmless(on_terminal(cli, "scout", "--repo", hostile_repo, "--issue", issue))
    assert_harmless(on_terminal(cli, "runs"))
    run_id = cli("runs", "--json").out.decode().split('"id": "')[1].split('"')[0]
    for extra in ((), ("--json",), ("--patch",)):
        assert_harmless(on_terminal(cli, "show", run_id, *extra))
    assert_harmless(on_terminal(cli, "scout", "--repo", hostile_repo, "--issue", tmp_path / f"no{EVIL}"))


@pytest.mark.slow
def test_colours_on_a_terminal_only_and_not_against_the_users_wish(cli: Cli, shop_repo: Path, issue: Path) -> None:
    args = ("fix", "--repo", shop_repo, "--issue", issue)
    piped = cli(*args)
    assert piped.code == 0 and b"\x1b" not in piped.out and "\x1b" not in piped.err
    assert COLOUR.search(on_terminal(cli, "show", "2"))
    plain = on_terminal(cli, "show", "2", env={"NO_COLOR": "1"})
    assert b"+++ b/shop/cart.py" in plain and not COLOUR.search(plain)


@pytest.mark.parametrize("both", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_reader_that_leaves_early(cli: Cli, shop_repo: Path, issue: Path, both: bool) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        args = ("scout", "--repo", shop_repo, "--issue", issue, "--json")
        with cli.started(*args, stdout=writer, stderr=writer if both else subprocess.PIPE) as process:
            _, err = process.communicate(timeout=60)
    finally:
        os.close(writer)
    # 120 is Python's word for streams that could not be flushed; with both gone there is nobody left to tell.
    assert process.returncode in ((0, 1, 120) if both else (0, 1))
    assert both or (b"Traceback" not in err and b"Broken" not in err and b"Exception" not in err), err


@given(st.text())
def test_inert_text_keeps_words_and_loses_power(text: str) -> None:
    shown = inert(text)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", shown)
    assert shown == text or any(not character.isprintable() for character in text)


def test_a_name_that_is_not_unicode_can_be_shown() -> None:
    assert inert(os.fsdecode(b"caf\xe9.py")) == "caf?.py"
