"""The searcher's prompts: our own, and folders of other people's."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.base import ConfigError
from scrout.scout.prompts import NAMES, Prompts, fill, has_place, read_prompts


def folder(path: Path, suffix: str = ".md", released: bool = False) -> Path:
    path.mkdir()
    for name, alias in NAMES.items():
        (path / f"{alias if released else name}{suffix}").write_bytes(f"{name}\r\n é".encode())
    return path


def test_our_own_prompts_have_their_places_and_tell_of_no_cap() -> None:
    ours = read_prompts()
    assert has_place(ours.system, "tools") and has_place(ours.malformed, "problem")
    assert all(has_place(ours.issue, name) for name in ("issue", "mark", "root", "shortlist"))
    words = " ".join(ours.model_dump().values()).lower()
    assert not [word for word in ("budget", "dollar", "token", "turns") if word in words]


@pytest.mark.parametrize("suffix", [".md", ".txt"])
@pytest.mark.parametrize("released", [False, True])
def test_a_folder_is_read_byte_for_byte(tmp_path: Path, suffix: str, released: bool) -> None:
    found = read_prompts(str(folder(tmp_path / "p", suffix, released)))
    assert found == Prompts(**{name: f"{name}\r\n é" for name in NAMES})
    assert found.digest() != read_prompts().digest()


def test_a_missing_or_unreadable_prompt_is_named(tmp_path: Path) -> None:
    place = folder(tmp_path / "p")
    (place / "thought.md").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=r"thought\.md is no UTF-8"):
        read_prompts(str(place))
    (place / "thought.md").unlink()
    with pytest.raises(ConfigError, match=r"has no thought\.md or thought\.txt"):
        read_prompts(str(place))
    with pytest.raises(ConfigError, match=r"has no system\.md"):
        read_prompts(str(tmp_path / "absent"))


@pytest.mark.parametrize("form", ["$issue", "${issue}", "{issue}", "{{issue}}", "{{ issue }}", "{{problem_statement}}"])
def test_every_form_of_a_placeholder_is_filled_once(form: str) -> None:
    text = "{{issue}} $issue ${mark} {root} cost $5, {} {other} $other"
    assert fill(f"a {form} b", issue=text, mark="m", root="/r") == f"a {text} b"
    assert has_place(form, "issue") and not has_place(form, "mark")
    assert fill("{} {other} $other $5 ${HOME}", issue=text) == "{} {other} $other $5 ${HOME}"


@given(st.text(), st.text())
def test_text_that_is_filled_in_arrives_as_it_is(before: str, issue: str) -> None:
    plain = before.replace("$", "").replace("{", "")
    assert fill(f"{plain}\n$issue\n", issue=issue) == f"{plain}\n{issue}\n"
