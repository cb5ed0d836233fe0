"""`scrout demo` solves its example, and README and docs show what it prints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Cli

ROOT = Path(__file__).parents[2]
MOST_EDITS = 1_408
"""What it took before the search stopped at an edit that cannot be beaten."""


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def timeless(story: str) -> list[str]:
    """The words without what differs between machines and runs: paths, Python, the run's name, seconds, edits tried."""
    text = " ".join(story[max(0, story.find("\nScout ")) :].split())
    text = re.sub(r'File ".*?scrout_repro\.py"', "File", text)  # a long path is folded
    text = re.sub(r"[\d,]+ (edits tried|varied inputs)", r"\1", text)
    text = re.sub(r"\b[\d.]+ (?:m?s|min)\b", "seconds", text)
    return re.sub(r"(scout|gate|fix \(repair\)|check|total: solved) [\d.]+ (\d)", r"\1 seconds \2", text).split(" ")


def test_the_demo_is_as_readme_and_docs_show_it(cli: Cli) -> None:
    demo = cli("demo")
    assert demo.code == 0, demo.err
    patch = demo.out.decode()
    (transcript,) = (one for one in blocks(ROOT / "README.md", "text") if one.startswith("run "))
    story, begins, told_patch = transcript.partition("diff --git ")
    assert begins + told_patch == patch
    assert timeless(demo.err) == timeless(story)
    (edits,) = re.findall(r"([\d,]+)\s+edits\s+tried\s+on", demo.err)
    assert 0 < int(edits.replace(",", "")) < MOST_EDITS, "it stops early"

    quickstart = ROOT / "docs" / "quickstart.md"
    (diff,) = (one for one in blocks(quickstart, "diff") if "larder" in one)
    assert patch.endswith(diff)
    (receipt,) = (one for one in blocks(quickstart, "text") if "total: solved" in one)
    assert " ".join(timeless(receipt)).strip() in " ".join(timeless(story))
