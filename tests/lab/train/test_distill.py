"""recon as a teacher: real searches in the real sandbox, and what becomes of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scrout.base import TaskError
from scrout.cli.train import command
from scrout.git import GitDir
from scrout.lab.train.corpus.corpus import CorpusRules, build_corpus, demonstrations
from scrout.lab.train.history import rows

FILES = {
    "shop/__init__.py": "",
    "shop/cart.py": '"""A cart."""\n\n\ndef total(prices):\n    """The sum."""\n    return sum(prices[1:])\n',
    "shop/stock.py": "def count_items(items):\n    return len(items)\n",
}
ISSUE = (
    "`total` leaves out the first price\n\n```python\nfrom shop.cart import total\n\n"
    "assert total([1, 2]) == 3, total([1, 2])\n```\n"
)
MakeRepo = Callable[..., Path]
pytestmark = pytest.mark.usefixtures("tier")


def task(repo: Path, name: str = "shop-1", **more: Any) -> dict[str, Any]:
    head = GitDir.of(repo).text("rev-parse", "HEAD")
    gold = {"patch": "", "files": ["shop/cart.py"]}
    return {"id": name, "text": ISSUE, "repo": str(repo), "base_commit": head, "gold": gold, **more}


def write(path: Path, *tasks: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in tasks))
    return path


def distill(tasks: Path, out: Path, *more: str) -> dict[str, Any]:
    done = CliRunner().invoke(command, ["distill", str(tasks), "--out", str(out), "--json", *more])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def test_calls_are_run_and_become_a_demonstration(tmp_path: Path, make_repo: MakeRepo) -> None:
    repo, out = make_repo(FILES), tmp_path / "distilled" / "out.jsonl"
    tally = distill(write(tmp_path / "tasks.jsonl", task(repo)), out)
    assert (tally["tasks"], tally["distilled"], tally["failed"]) == (1, 1, {})
    steps = json.loads(out.read_text())["steps"]
    assert 3 <= len(steps) <= 8
    assert "./shop/cart.py:4:def total(prices):" in steps[0]["observation"]
    ran = next(step for step in steps if step["arguments"]["command"].startswith("python "))
    assert "AssertionError: 2" in ran["observation"] and "exit code 1" in ran["observation"]
    views = [step for step in steps if step["arguments"]["command"] == "view"]
    assert views[0]["arguments"]["path"] == "shop/cart.py" and "return sum(prices[1:])" in views[0]["observation"]
    # Where the repository lies on this machine is told to nobody.
    assert str(repo) not in out.read_text() and "/testbed" in ran["observation"]

    card = build_corpus([out], tmp_path / "corpus", CorpusRules())
    (made,) = demonstrations(tmp_path / "corpus" / "corpus.jsonl")
    assert card.layouts == {"scrout": 1} and made.reproduced and made.files == ("shop/cart.py",)


def test_a_search_that_missed_a_file_is_no_demonstration(tmp_path: Path, make_repo: MakeRepo) -> None:
    repo = make_repo({**FILES, "far/away.py": "Z = 1\n", **{f"shop/m{n}.py": "def count(): ...\n" for n in range(9)}})
    gold = {"patch": "", "files": ["shop/cart.py", "far/away.py"]}
    distill(write(tmp_path / "tasks.jsonl", task(repo, gold=gold)), tmp_path / "out.jsonl")
    card = build_corpus([tmp_path / "out.jsonl"], tmp_path / "corpus", CorpusRules())
    assert card.dropped == {"the search did not find every file of the fix": 1}


def test_what_is_done_is_not_done_again(tmp_path: Path, make_repo: MakeRepo) -> None:
    repo, out = make_repo(FILES), tmp_path / "out.jsonl"
    tasks = write(tmp_path / "tasks.jsonl", task(repo, "shop-1"), task(repo, "shop-2"))
    assert distill(tasks, out, "--limit", "1")["distilled"] == 1
    first = out.read_bytes()
    out.write_bytes(first + b'{"layout": "scrout", "iss')
    again = distill(tasks, out)
    assert (again["before"], again["distilled"]) == (1, 1)
    ids = [json.loads(line)["issue_id"] for line in out.read_text().splitlines()]
    assert out.read_bytes().startswith(first) and ids == ["shop-1", "shop-2"]


@pytest.mark.parametrize("held", ["a letter to a friend", '{"layout": "scrout"}\n', "a,b\n1,2\n"])
def test_a_file_of_other_things_is_left_alone(tmp_path: Path, make_repo: MakeRepo, held: str) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text(held)
    with pytest.raises(TaskError, match="holds other things"):
        distill(write(tmp_path / "tasks.jsonl", task(make_repo(FILES))), out)
    assert out.read_text() == held


def test_tasks_that_fail_are_told_with_their_reason(tmp_path: Path, make_repo: MakeRepo) -> None:
    repo = make_repo(FILES)
    unknown, new = task(repo, "a"), task(repo, "b", gold={"patch": "", "files": ["shop/new.py"]})
    del unknown["gold"]
    lost = task(repo, "c", base_commit="0" * 40)
    tally = distill(write(tmp_path / "tasks.jsonl", unknown, new, lost, task(repo)), tmp_path / "out.jsonl")
    assert tally["distilled"] == 1 and tally["failed"].keys() == {"a", "b", "c"}
    for name, why in {"a": "is not known", "b": "was there before", "c": "is not in"}.items():
        assert why in tally["failed"][name]


def test_blocked_repositories_are_refused_before_any_work(tmp_path: Path, make_repo: MakeRepo) -> None:
    repo, out = make_repo(FILES), tmp_path / "out.jsonl"
    for bad in (task(repo, "django__django-1"), {**task(repo, "x"), "repo": "someone/Flask"}):
        with pytest.raises(TaskError, match="nothing is trained on"):
            distill(write(tmp_path / "tasks.jsonl", task(repo), bad), out)
    assert not out.exists()


def test_rows_of_a_history_are_tasks(tmp_path: Path, make_repo: MakeRepo) -> None:
    repo = make_repo(FILES, "clones/me+shop")
    (repo / "shop/cart.py").write_text("def total(prices):\n    return sum(prices)\n")
    message = "Count the first price too\n\ntotal left out the first price of a cart, so that every bill was too low."
    identity = ("-c", "user.name=Test", "-c", "user.email=test@localhost", "-c", "commit.gpgSign=false")
    GitDir.of(repo)(*identity, "commit", "-qam", message)
    found = [row.model_dump(mode="json") for row in rows(repo, "me/shop", 5)]
    out = tmp_path / "out.jsonl"
    assert distill(write(tmp_path / "rows.jsonl", *found), out, "--repos", str(tmp_path / "clones"))["distilled"] == 1
    made = json.loads(out.read_text())
    assert made["repository"] == "me/shop" and made["gold"]["files"] == ["shop/cart.py"]
    # At the commit before the fix.
    assert any("prices[1:]" in step["observation"] for step in made["steps"])


def test_nothing_of_an_issue_is_run_as_a_command(tmp_path: Path, make_repo: MakeRepo) -> None:
    repo = make_repo({**FILES, "shop/odd.py": "def odd(): return '$(touch planted)'\n"})
    text = "`$(touch planted)` and `odd';touch planted;'` and 'x; touch planted' break `odd` and \"`touch planted`\"\n"
    distill(write(tmp_path / "tasks.jsonl", task(repo, text=text)), tmp_path / "out.jsonl")
    steps = json.loads((tmp_path / "out.jsonl").read_text())["steps"]
    commands = [str(step["arguments"]["command"]) for step in steps if step["tool"] == "bash"]
    assert commands and not any(mark in one for one in commands for mark in ("$(", ";", "`"))
    assert not any("planted" in step["observation"] for step in steps if step["arguments"]["command"].startswith("ls"))
