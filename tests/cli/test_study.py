"""`scrout study`, as a subprocess: what cannot be studied is said in a line, with the next step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Cli


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "name what to study"),
        (("--data", "nowhere"), "nowhere is no folder"),
        (("--data", ".", "--ledger", "x.db"), "name what to study"),
        (("--data", ".", "--batch", "b"), "not with the paper's files"),
        (("--data", "."), "is not there"),
        (("--ledger", "nowhere.db"), "there is no such file"),
        (("--data", ".", "--html", "no/such/page.html"), "is no folder"),
    ],
)
def test_what_cannot_be_studied_is_said(cli: Cli, arguments: tuple[str, ...], words: str) -> None:
    ended = cli("study", "spend", *arguments)
    assert ended.code == 2 and words in ended.err and "Traceback" not in ended.err
