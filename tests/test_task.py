"""Issue texts: what is read, and what is refused with a next step."""

from pathlib import Path

import pytest

from scrout.base import TaskError
from scrout.task import MAX_ISSUE_BYTES, issue_text, task_id


def test_plain_text_is_kept_and_line_endings_become_one() -> None:
    assert issue_text("Größe\r\nfalsch\n".encode(), "x") == "Größe\nfalsch\n"
    assert issue_text(b"\xef\xbb\xbfwith a mark", "x") == "with a mark"


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "empty"),
        (b" \n\t\n", "empty"),
        (b"PNG\0\1\2", "binary"),
        ("Größe".encode("latin-1"), "UTF-8"),
        (b"x" * (MAX_ISSUE_BYTES + 1), "1,000,001 bytes"),
    ],
)
def test_bad_issues_are_refused_by_name(raw: bytes, said: str) -> None:
    with pytest.raises(TaskError, match=said) as caught:
        issue_text(raw, "issue.md")
    assert "issue.md" in str(caught.value)


def test_an_id_is_the_same_for_the_same_issue_on_the_same_commit() -> None:
    repo = Path("/somewhere/project")
    assert task_id(repo, "c1", "a") == task_id(repo, "c1", "a")
    assert len({task_id(repo, "c1", "a"), task_id(repo, "c2", "a"), task_id(repo, "c1", "b")}) == 3
    assert task_id(repo, "c1", "a").startswith("project-")
