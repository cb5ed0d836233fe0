"""`scrout fixers`: a fixer becomes known in one command, nonsense is refused, and the pool goes by what is known."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scrout.cli.fixers import ResumeCatalog
from scrout.config.settings import FixerKey, RouteSettings, Settings
from scrout.fix.kinds.agent import AgentFixer
from scrout.money import Price
from scrout.route.embed import HashedEmbedder
from scrout.route.feedback import LearningReport, learn
from scrout.route.outcomes import join_texts
from scrout.route.resume import SHIPPED, build_resume, keep, load, save

from .conftest import write_trusted

if TYPE_CHECKING:
    from conftest import Cli, Ended

PAGE = Path(__file__).parents[2] / "docs" / "research" / "routing.md"
HASHED = ("-c", "route.embedder.kind=hashed")
POOL = """
[[fixers]]
name = "kimi"
kind = "agent"
model = "moonshotai/kimi-k2"
effort = "high"
base_url = "http://127.0.0.1:9/v1"
price = { input = 1, output = 1 }

[[fixers]]
name = "quick-kimi"
kind = "agent"
model = "kimi-k2"
base_url = "http://127.0.0.1:9/v1"
price = { input = 1, output = 1 }

[[fixers]]
name = "repair"
kind = "repair"
"""


def refused(ended: Ended, *words: str) -> None:
    assert (ended.code, ended.out) == (2, b""), ended.err
    assert "Traceback" not in ended.err
    last = ended.err.strip().splitlines()[-1]
    for word in words:
        assert word in last, f"{word!r} is not in {last!r}"


def outcomes(folder: Path, first: int = 1, n: int = 30, name: str = "outcomes.jsonl", **changes: object) -> Path:
    path = folder / name
    rows = [
        {
            "instance_id": f"{'shop' if number % 3 else 'larder'}-{number}",
            "resolved": number % 2 == 0,
            "cost_usd": number / 100,
            "api_calls": number,
            "arm": "solo" if number % 5 == 0 else "handoff",
            "text": f"task number {number}",
        }
        | changes
        for number in range(first, first + n)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def listed(cli: Cli, *args: str | Path) -> dict[str, dict[str, object]]:
    ended = cli("fixers", "list", "--json", *args)
    assert ended.code == 0, ended.err
    return {one["key"]: one for one in json.loads(ended.out) if not one["public"]}


def test_the_documented_onboarding_works_as_it_stands(cli: Cli) -> None:
    section = PAGE.read_text(encoding="utf-8").partition("\n## Résumés\n")[2].partition("\n## ")[0]
    make, add = re.findall(r"^```sh\n(.*?)^```$", section, re.M | re.S)
    (shown,) = re.findall(r"^```text\n(.*?)^```$", section, re.M | re.S)
    assert add.count("\n") == 1 and add.startswith("scrout fixers add ")
    script = f'scrout() {{ "{sys.executable}" -m scrout "$@"; }}\n{make}\n{add}'
    done = subprocess.run(
        ["sh", "-eu", "-c", script], cwd=cli.cwd, env={**os.environ, **cli.env}, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr

    def lines(text: str) -> list[str]:
        return [re.sub(r"\d{4}-\d\d-\d\d", "DATE", line.rstrip()) for line in text.strip().splitlines()]

    assert lines(done.stdout.decode()) == lines(shown)
    assert listed(cli)["mini/kimi-k2"]["solves"]["n"] == 40


@pytest.mark.slow
def test_a_fixer_of_the_pool_goes_by_its_own_resume_and_others_borrow(cli: Cli, tmp_path: Path) -> None:
    write_trusted(cli.cwd, POOL)
    added = cli("fixers", "add", "kimi", "--outcomes", outcomes(tmp_path), "--source", "May", "--json", *HASHED)
    assert added.code == 0, added.err
    made = added.json()
    assert made["key"] == "agent/moonshotai/kimi-k2@high" and made["source"] == "May"
    assert made["serves"] == [{"fixer": "kimi", "borrowed": False}, {"fixer": "quick-kimi", "borrowed": True}]
    assert {name: made["solves"][name] for name in ("n", "solved", "rate")} == {"n": 30, "solved": 15, "rate": 0.5}
    assert made["solves"]["low"] < 0.36 and made["solves"]["high"] > 0.64
    assert (made["tasks"], made["embedded"], made["calls"], made["nearness"]) == (30, 30, 15.5, None)
    # Costs are 0.01 to 0.30; every fifth is of an attempt without a handoff.
    assert (made["cost_solo_usd"], made["cost_handoff_usd"]) == (0.175, 0.15)
    assert {arm["arm"]: (arm["solves"]["n"], arm["solves"]["solved"]) for arm in made["arms"]} == {
        "handoff": (24, 12),
        "solo": (6, 3),
    }
    assert made["arms"][1]["quartiles_usd"] == [0.1125, 0.175, 0.2375]
    assert [(group["name"], group["solves"]["n"]) for group in made["groups"]] == [("shop", 20), ("larder", 10)]

    for name in ("kimi", "quick-kimi", "agent/moonshotai/kimi-k2@high"):
        assert cli("fixers", "show", name, "--json", *HASHED).json() == made
    shown = cli("fixers", "show", "quick-kimi", *HASHED).out.decode()
    for words in ("agent/moonshotai/kimi-k2@high", "15 of 30", "quick-kimi (borrowed)", "$0.15 with handoff", "larder"):
        assert words in shown

    table = cli("fixers", "list", *HASHED, env={"COLUMNS": "200"})
    assert "quick-kimi (borrowed)" in table.out.decode() and "0.50 (0.33 to 0.67)" in table.out.decode()
    assert "unknown probability: repair" in table.err
    assert listed(cli)["agent/moonshotai/kimi-k2@high"].items() <= made.items()

    # A fixer that is told which résumé to go by.
    assert cli("fixers", "add", "mini/other", "--outcomes", outcomes(tmp_path), *HASHED).code == 0
    write_trusted(cli.cwd, POOL.replace('effort = "high"', 'effort = "high"\nresume = "mini/other"'))
    assert cli("fixers", "show", "kimi", "--json", *HASHED).json()["key"] == "mini/other"
    assert listed(cli)["mini/other"]["serves"] == [{"fixer": "kimi", "borrowed": True}]


def test_a_named_resume_that_is_not_there_serves_nobody_and_is_told(cli: Cli, tmp_path: Path, issue: Path) -> None:
    write_trusted(cli.cwd, POOL.replace('effort = "high"', 'effort = "high"\nresume = "mini/kimi-k2"'))
    assert cli("fixers", "add", "agent/kimi-k2", "--outcomes", outcomes(tmp_path), *HASHED).code == 0
    words = "fixer 'kimi' uses the résumé mini/kimi-k2, which does not exist."
    table = cli("fixers", "list", *HASHED)
    assert table.code == 0 and words in " ".join(table.err.split()), table.err
    assert "unknown probability: repair\n" in table.err
    assert listed(cli)["agent/kimi-k2"]["serves"] == [{"fixer": "quick-kimi", "borrowed": False}]
    refused(cli("fixers", "show", "kimi", *HASHED), words)
    refused(cli("route", "--repo", cli.cwd, "--issue", issue, *HASHED), words)


def test_a_named_resume_that_still_grows_serves_nobody(tmp_path: Path) -> None:
    price = Price(input=Decimal(1), output=Decimal(1))
    kimi = AgentFixer(
        name="kimi", model="kimi-k2", base_url="http://127.0.0.1:9/v1", price=price, resume="mine/kimi-k2"
    )
    rows = [join_texts(f"shop-{n}", f"task {n}", n % 2 == 0) for n in range(40)]
    for name in ("mine/kimi-k2", "mini/kimi-k2"):
        keep(build_resume(FixerKey.parse(name), rows), rows, HashedEmbedder(), tmp_path / "own")
    settings = Settings(fixers=(kimi,), route=RouteSettings(resumes=str(tmp_path / "own")))
    assert str(ResumeCatalog(settings, tmp_path / "none").resume("kimi").key) == "mine/kimi-k2"
    grown = load(tmp_path / "own")[FixerKey.parse("mine/kimi-k2")]
    save(grown.model_copy(update={"outcomes": grown.outcomes[:5]}), tmp_path / "own")
    book = ResumeCatalog(settings, tmp_path / "none")
    assert [book.report(one).serves for one in book.every()] == [(), ()] and book.refused == {}


def test_a_narrow_list_has_no_sources(cli: Cli, tmp_path: Path) -> None:
    assert cli("fixers", "add", "a/m", "--outcomes", outcomes(tmp_path), "--source", "May", *HASHED).code == 0
    for columns, told_of in (("80", False), ("119", False), ("120", True)):
        shown = cli("fixers", "list", env={"COLUMNS": columns}).out.decode()
        assert ("source" in shown, "May" in shown) == (told_of, told_of), columns
        assert "a/m" in shown
    assert listed(cli)["a/m"]["source"] == "May"


def test_texts_may_come_from_a_file_of_tasks(cli: Cli, tmp_path: Path) -> None:
    tasks = outcomes(tmp_path, name="tasks.jsonl")
    bare = outcomes(tmp_path, text=None)
    refused(cli("fixers", "add", "a/m", "--outcomes", bare), "outcomes.jsonl, row 1", "shop-1 is not known", "--tasks")
    added = cli("fixers", "add", "a/m", "--outcomes", bare, "--tasks", tasks, "--json", *HASHED)
    assert added.code == 0 and added.json()["tasks"] == 30, added.err


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ({"n": 24}, ("a/m has 24 of 25 outcomes", "1 more")),
        ({"n": 0}, ("0 of 25",)),
        ({"resolved": True}, ("solved 30 of its 30", "Add tasks that it fails")),
        ({"resolved": False}, ("solved 0 of its 30", "Add tasks that it solves")),
        ({"instance_id": "same", "arm": "solo"}, ("30 outcomes of 'same' (solo)", "Keep one")),
        ({"resolved": "perhaps"}, ("row 1", "'perhaps'", "true or false")),
        ({"cost_usd": -1}, ("row 1", "cost_usd is -1")),
    ],
)
def test_nonsense_is_refused_and_leaves_nothing(
    cli: Cli, tmp_path: Path, rows: dict[str, object], words: tuple[str, ...]
) -> None:
    refused(cli("fixers", "add", "a/m", "--outcomes", outcomes(tmp_path, **rows), *HASHED), *words)
    assert not list(tmp_path.rglob("*.resume.json")) and not list(tmp_path.rglob("*.npz"))


@pytest.mark.parametrize(
    ("name", "file", "words"),
    [
        ("kimi", "", ("no fixer is called 'kimi'", "the pool has repair", "agent/model")),
        ("a/m@high@low", "", ("'a/m@high@low' is not a fixer", "agent/model@effort")),
        ("A b/m", "", ("is not a fixer",)),
        ("a/m", "missing.csv", ("missing.csv", "No such file", ".csv or .jsonl")),
        ("a/m", ".", ("Is a directory",)),
    ],
)
def test_wrong_names_are_explained(cli: Cli, tmp_path: Path, name: str, file: str, words: tuple[str, ...]) -> None:
    refused(cli("fixers", "add", name, "--outcomes", file or outcomes(tmp_path)), *words)


@pytest.mark.slow
def test_a_resume_is_replaced_or_extended_only_when_told_so(cli: Cli, tmp_path: Path) -> None:
    def add(path: Path, *args: str) -> Ended:
        return cli("fixers", "add", "a/m", "--outcomes", path, *args, *HASHED, "--json")

    first, second = outcomes(tmp_path, n=30, name="may.jsonl"), outcomes(tmp_path, first=28, n=10, name="june.jsonl")
    assert add(first).json()["solves"]["n"] == 30
    refused(add(first), "a/m already has a résumé of 30 outcomes (may.jsonl)", "--extend", "--replace")
    refused(add(second, "--extend"), "already has an outcome of 'shop-28' (handoff) and 2 more", "--replace")
    refused(add(second, "--replace"), "a/m has 10 of 25 outcomes")
    assert listed(cli)["a/m"]["solves"]["n"] == 30

    both = add(second, "--extend", "--replace").json()
    assert (both["solves"]["n"], both["embedded"], both["source"]) == (37, 37, "may.jsonl; june.jsonl")
    more = add(outcomes(tmp_path, first=50, n=3, name="july.jsonl"), "--extend").json()
    assert (more["solves"]["n"], more["source"]) == (40, "may.jsonl; june.jsonl; july.jsonl")
    assert add(first, "--replace").json()["solves"]["n"] == 30


@pytest.mark.slow
def test_remove(cli: Cli, tmp_path: Path) -> None:
    refused(cli("fixers", "remove", "a/m"), "a/m has no résumé of yours", "there is none", "scrout fixers list")
    refused(cli("fixers", "show", "a/m"), "a/m has no résumé", "scrout fixers add a/m --outcomes FILE")
    for name in ("a/m", "a/other"):
        assert cli("fixers", "add", name, "--outcomes", outcomes(tmp_path), *HASHED).code == 0
    removed = cli("fixers", "remove", "a/m", "--json")
    assert removed.code == 0 and (removed.json()["key"], removed.json()["n"]) == ("a/m", 30)
    assert not Path(str(removed.json()["file"])).exists()
    # The tasks' vectors serve the other one still.
    assert cli("fixers", "show", "a/other", "--json", *HASHED).json()["embedded"] == 30
    said = cli("fixers", "remove", "a/other")
    assert (said.code, said.out) == (0, b"") and "removed the résumé of a/other" in said.err
    assert listed(cli) == {}


def test_public_resumes_are_listed_and_stay(cli: Cli) -> None:
    public = load(SHIPPED)
    if not public:
        pytest.skip("no résumés come with this scrout")
    key = str(next(iter(public)))
    rows = json.loads(cli("fixers", "list", "--json").out)
    assert {row["key"] for row in rows if row["public"]} == set(map(str, public))
    refused(cli("fixers", "remove", key), key, "Public résumés cannot be removed", "scrout fixers add")
    assert cli("fixers", "show", key, "--json", *HASHED).json()["public"] is True


def test_a_public_resume_serves_until_the_users_own_has_grown(tmp_path: Path) -> None:
    price = Price(input=Decimal(1), output=Decimal(1))
    kimi = AgentFixer(name="kimi", model="kimi-k2", base_url="http://127.0.0.1:9/v1", price=price)
    settings = Settings(fixers=(kimi,), route=RouteSettings(resumes=str(tmp_path / "own")))
    rows = [join_texts(f"pub-{n}", f"public task {n}", n % 2 == 0) for n in range(40)]
    keep(build_resume(FixerKey.parse("mini/kimi-k2"), rows), rows, HashedEmbedder(), tmp_path / "public")

    def verdict(number: int) -> LearningReport:
        good = "merged" if number % 2 else "wrong"
        return LearningReport(
            f"run-{number}", kimi.key, good, f"shop-{number}", f"task {number}", "solo", None, 1, None, None
        )

    def serving() -> list[tuple[str, bool, bool, list[bool]]]:
        book = ResumeCatalog(settings, tmp_path / "public")
        reports = [book.report(one) for one in book.every()]
        return [(one.key, one.public, one.growing, [by.borrowed for by in one.serves]) for one in reports]

    public = ("mini/kimi-k2", True, False, [True])
    assert serving() == [public]
    book = ResumeCatalog(settings, tmp_path / "public")
    shown = book.details(book.resume("kimi"), HashedEmbedder(), [])
    assert (shown.key, shown.public, shown.embedded) == ("mini/kimi-k2", True, 40)
    learn([verdict(n) for n in range(24)], tmp_path / "own", HashedEmbedder())
    assert serving() == [("agent/kimi-k2", False, True, []), public]
    learn([verdict(24)], tmp_path / "own", HashedEmbedder())
    assert serving() == [("agent/kimi-k2", False, False, [False]), (*public[:3], [])]


def test_the_folder_of_the_settings_counts(cli: Cli, tmp_path: Path) -> None:
    here = ("-c", f"route.resumes={tmp_path / 'mine'}")
    assert cli("fixers", "add", "a/m", "--outcomes", outcomes(tmp_path), *HASHED, *here).code == 0
    assert set(listed(cli, *here)) == {"a/m"} and listed(cli) == {}


def test_how_far_the_users_tasks_are_is_told_once_there_are_runs(
    cli: Cli, tmp_path: Path, shop_repo: Path, issue: Path
) -> None:
    issue.write_text("nothing here can be reproduced")
    assert cli("fix", "--repo", shop_repo, "--issue", issue).code == 1
    far = cli("fixers", "add", "a/m", "--outcomes", outcomes(tmp_path), *HASHED)
    assert far.code == 0 and "far from its tasks" in far.out.decode() and "median cosine" in far.out.decode()
    rows = [json.loads(line) for line in outcomes(tmp_path).read_text().splitlines()]
    rows[0]["text"] = issue.read_text()
    (tmp_path / "near.jsonl").write_text("\n".join(map(json.dumps, rows)))
    near = cli("fixers", "add", "a/near", "--outcomes", tmp_path / "near.jsonl", *HASHED, "--json").json()
    assert near["nearness"]["tasks"] == 1 and near["nearness"]["median"] > 0.99
    assert "as near to its tasks as those are to each other" in near["nearness"]["words"]


def test_a_damaged_resume_is_named(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "a%2Fm.resume.json").write_text("{}")
    refused(cli("fixers", "list", "-c", f"route.resumes={folder}"), "a%2Fm.resume.json: not a résumé")
