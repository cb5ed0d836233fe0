"""From an issue's text to a claim: what is found in it, what is run in the real sandbox, what the real gate keeps."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.config.settings import GateSettings, Settings
from scrout.gate.gate import gate
from scrout.handoff import Handoff
from scrout.index.repository import read_repository
from scrout.records import GatedHandoff
from scrout.sandbox.task_sandbox import TaskSandbox, open_task_sandbox
from scrout.sandbox.tier import Tier
from scrout.sandbox.workspace import find_source
from scrout.scout.recon.blocks import find_blocks
from scrout.scout.recon.commands import MAX_COMMANDS, find_commands, find_programs
from scrout.scout.recon.expectations import StatedValue
from scrout.scout.recon.reproduce import MAX_RUNS, ReproductionAttempt, _spoken_of, reproduce
from scrout.scout.recon.scripts import find_exports, find_imports, find_objects, find_scripts
from scrout.task import Task

from ..conftest import assert_linear

FILES = {
    "till/__init__.py": "from till.money import Budget, mean, split\n\nRATE = 3\n",
    "till/money.py": '''\
"""Coins."""


class Budget:
    def __init__(self, coins):
        self.coins = coins


def split(total, people):
    return [total // people] * people


def mean(values):
    return sum(values) / len(values)


def share(total):
    return total / 3


def find(name):
    return {"gold": 1}[name]


class Stop(SystemExit):
    pass


def close():
    raise Stop("two coins have one name")
''',
    "till/__main__.py": """\
import sys

from till.money import mean, split


def main():
    if sys.argv[1] == "--mean":
        print(mean([int(word) for word in sys.argv[2:]]))
    elif int(sys.argv[1]) < 0:
        sys.exit("till: cannot split a debt")
    else:
        print(split(int(sys.argv[1]), 3))


main()
""",
    "pyproject.toml": '[project]\nname = "till"\n\n[project.scripts]\ntill = "till.__main__:main"\n',
    "tests/__init__.py": "",
    "tests/test_money.py": """\
import unittest

from till.money import find, mean


class MoneyTest(unittest.TestCase):
    def test_mean(self):
        self.assertEqual(mean([1, 3]), 2)

    def test_find_silver(self):
        self.assertEqual(find("silver"), 2)

    def test_by_chance_another_bug(self):
        raise OSError("the disk is full")
""",
    "till/shop.py": """\
class TooPoor(Exception):
    pass


def buy(price):
    raise TooPoor("no coins")


def label(coins):
    return f"{coins}  coins"


def lines(coins):
    return f"\\n{coins} coins"
""",
    "till/rates.py": "RATE = 3\n",
    "till/broken.py": "BROKEN = True\n",
    "tests/test_rates.py": "import unittest\n\nfrom till.rates import RATE\n\n\nclass RateTest(unittest.TestCase):\n"
    "    def test_rate(self):\n        self.assertEqual(RATE, 3)\n",
    "tests/test_broken.py": "import unittest\n\nimport surely_not_installed\n",
    "LICENSE": "Do as you like.\n",
}


DIES = "from till import mean\nmean([])\n"
LOSES = "import till\ntill.split(10, 3)\n"
WANTED = "[4, 3, 3]"


@contextmanager
def opened(repo: Path, files: Mapping[str, str], tier: Tier, cache: Path, python: Path) -> Iterator[TaskSandbox]:
    for name, content in files.items():
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(content)
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    for args in (("init", "-q"), ("add", "-A"), (*identity, "commit", "-qm", "x")):
        subprocess.run(["git", *args], cwd=repo, check=True)
    source = find_source(repo)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        patch.setenv("PATH", str(python), prepend=os.pathsep)
        task = Task(id="till", text="", repo=source.repo, base_commit=source.head)
        with open_task_sandbox(task, tier, Settings()) as task_sandbox:
            yield task_sandbox


@pytest.fixture(scope="module")
def till(tier: Tier, light_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TaskSandbox]:
    """A task sandbox over a small repository with bugs in it."""
    folders = tmp_path_factory.mktemp("till"), tmp_path_factory.mktemp("cache")
    with opened(folders[0], FILES, tier, folders[1], light_python) as task_sandbox:
        yield task_sandbox


async def attempt(text: str, task_sandbox: TaskSandbox, *suspects: str) -> ReproductionAttempt:
    base = task_sandbox.base
    return await reproduce(text, read_repository(base.tree / ".git", base.commit), task_sandbox, suspects)


async def judged(text: str, tried: ReproductionAttempt, task_sandbox: TaskSandbox) -> GatedHandoff:
    base = task_sandbox.base
    task = Task(id="till", text=text, repo=base.repo, base_commit=base.commit)
    return await gate(task, Handoff(reproduction=tried.reproduction), task_sandbox, GateSettings(runs=2, timeout_s=20))


def indented(code: str, spaces: int = 4) -> str:
    return "".join(f"{' ' * spaces}{line}\n" for line in code.splitlines())


@pytest.mark.parametrize(
    "shown",
    [
        f"```python\n{DIES}```\n",
        f"~~~\n{DIES}~~~\n",
        f"\n{indented(DIES)}\nThat is all.\n",
        f"Like this::\n\n{indented(DIES, 2)}\nThat is all.\n",
        f".. code-block:: python\n   :linenos:\n\n{indented(DIES, 3)}\nThat is all.\n",
        f"{{{{{{\n#!python\n{DIES}}}}}}}\n",
        f"{{{{{{#!python\n{DIES}}}}}}}\n",
        f"[code=python]\n{DIES}[/code]\n",
        f"1. first\n2. then:\n   ```py\n{indented(DIES, 3)}   ```\n",
        f"```sh\n$ python -c '{DIES.strip()}'\n```\n".replace("\nmean", "; mean"),
        ">>> import till\n>>> till.mean([])\nTraceback (most recent call last):\n  ...\nZeroDivisionError: none\n",
        "```\nIn [1]: import till\n\nIn [2]: till.mean([])\n----\nZeroDivisionError: division by zero\n```\n",
        "```python\nfrom till import mean\n```\nand later\n```python\nmean([])\n```\n",
        "```python\nmean([])\n```\n",
        "```python\nimport numpy as surely_not_needed\n```\n```python\nfor x in [[]]:\n    till.mean(x)\n```\n",
    ],
)
def test_code_is_found_in_every_form(shown: str) -> None:
    exports = find_exports({"till": FILES["till/__init__.py"]})
    scripts = find_scripts(f"It dies\n\n{shown}", {"till": ""}, exports)
    assert len(scripts) in (1, 2)
    script = scripts[-1].source
    assert "mean(" in script and ("import till" in script or "from till import mean" in script)
    assert "surely_not_needed" not in script and "It dies" not in script
    compile(script, "x", "exec")


@pytest.mark.parametrize(
    "shown", ["[till]\nmean = median\n", "till\n", "Traceback (most recent call last):\n  x\n", "1\n"]
)
def test_what_only_looks_like_code_is_no_script(shown: str) -> None:
    exports = find_exports({"till": FILES["till/__init__.py"]})
    assert find_scripts(f"It dies\n\n```\n{shown}```\n", {"till": ""}, exports) == ()


THREE = "```\n>>> till.mean([4])\n5\n>>> till.mean([5])\n6\n>>> till.mean([6])\n7\n```\n"
READ = {
    "a comment of several lines": (
        f"```python\ntill.split(10, 3)\n# -> [3, 3, 3]\n# one is lost. Should be\n#    {WANTED}\ntill.mean([9])\n```\n",
        [("till.split(10, 3)", "[3, 3, 3]", WANTED)],
    ),
    "comments above": (
        "```python\n# should be 3\ntill.mean([3])\n# should be 4\ntill.mean([4])\n```\n",
        [("till.mean([3])", "", "3"), ("till.mean([4])", "", "4")],
    ),
    "comments below": (
        "```python\ntill.mean([3])\n# should be 3\ntill.mean([4])\n# should be 4\n```\n",
        [("till.mean([3])", "", "3"), ("till.mean([4])", "", "4")],
    ),
    "a comment between two": ("```python\ntill.mean([3])\n# should be 3\ntill.mean([4])\n```\n", []),
    "a table of arguments": (
        "text | `mean()` | should be\n--- | --- | ---\n`[1, 2]` (two) | 1 | 1.5\n",
        [("mean([1, 2])", "1", "1.5")],
    ),
    "a table of a name in a call": (
        "n | `mean([n])` | expected\n--- | --- | ---\n4 | 3 | 4\n5 | raises ValueError | 5\n",
        [("mean([n])", "3", "4"), ("mean([n])", "ValueError", "5")],
    ),
    "lines around blocks": (
        "```python\nprint(till.mean([4]))\n```\nprints\n\n    3\n\nbut should print\n\n    4\n",
        [("print(till.mean([4]))", "3", "4")],
    ),
    "a table of a name that is left open": (
        "```python\ntill.find(name)\n```\nname | I get | I'd need\n---|---|---\n`a b` | 1 | 2\n",
        [("till.find(name)", "1", "2")],
    ),
    "a session with a right answer in it": (
        "```\n>>> till.mean([4])\n4\n>>> till.mean([4, 4])\n5\n```\nI expected 4 there too.\n",
        [("till.mean([4, 4])", "5", "4")],
    ),
    "calls of one sentence": (
        "`till.mean([3])` returns 3, but `till.mean([4])` returns 3 instead of 4.",
        [("till.mean([4])", "3", "4")],
    ),
    "a call that others depend on": (
        "After `till.find('a')` on a new budget, `till.mean([4])` returns 3 instead of 4.",
        [],
    ),
    "code that no mark sets apart": (
        f"It loses one:\n\npurse = 10\nprint(till.split(budget, 3))\n\nExpected: {WANTED}\nGot: [3, 3, 3]\n",
        [("print(till.split(budget, 3))", "[3, 3, 3]", WANTED)],
    ),
    "output below its code": (
        f"```python\nprint(till.split(10, 3))\n> [3, 3, 3]\n```\nI expected {WANTED}.\n",
        [("print(till.split(10, 3))", "[3, 3, 3]", WANTED)],
    ),
    "a block right below code": (
        f"```python\nprint(till.split(10, 3))\n```\n\n```\n[3, 3, 3]\n```\n\nI expected {WANTED}.\n",
        [("print(till.split(10, 3))", "[3, 3, 3]", WANTED)],
    ),
    "a value below a heading": (
        f"```python\ntill.split(10, 3)\n```\n### Expected behavior\nReturns `{WANTED}`\n",
        [("till.split(10, 3)", "", WANTED)],
    ),
    "a label that says more": (
        f"```python\ntill.split(10, 3)\n```\nActual output\n```\n[3, 3, 3]\n```\nExpected output: nothing is lost, so\n"
        f"```\n{WANTED}\n```\n",
        [("till.split(10, 3)", "[3, 3, 3]", WANTED)],
    ),
    "the first two": (
        f"{THREE}I expected 4 and 5 for the first two.\n",
        [("till.mean([4])", "5", "4"), ("till.mean([5])", "6", "5")],
    ),
    "the last": (f"{THREE}The last one should be 6.\n", [("till.mean([6])", "7", "6")]),
    "a place that is not shown": (f"{THREE}The fifth should be 6.\n", []),
    "a line of the output": (f"{THREE}The last line should be 6.\n", []),
    "a place of a single example": (
        "```\n>>> till.split(10, 3)\n[3, 3, 3]\n```\nThe first should be [4, 3, 3], and the last [4, 3, 3].\n",
        [],
    ),
    "an actual value by its place": (
        "```python\nprint(till.mean([4]))\nprint(till.mean([5]))\n```\nExpected: 4 and 5.\nGot: 5 for the first.\n",
        [("print(till.mean([4]))", "5", "4"), ("print(till.mean([5]))", "", "5")],
    ),
    "as many values as statements": (
        "```\n>>> till.mean([4])\n5\n>>> till.mean([5])\n6\n```\nI'd have expected `4` and `5`.\n",
        [("till.mean([4])", "5", "4"), ("till.mean([5])", "6", "5")],
    ),
    "more values than statements": ("```\n>>> till.mean([4])\n5\n```\nI'd have expected `4` and `5`.\n", []),
    "what is of the same kind": (
        "```\n>>> till.mean([4])\n5\n>>> till.find('a')\n'b'\n```\nI expected 4.\n",
        [],
    ),
    "an expression of the session in a sentence": (
        "```\n>>> b = till.split(9, 3)\n>>> b\n[3]\n>>> till.mean(b)\n3\n```\n`b` should be `[3, 3, 3]`.\n",
        [("b", "[3]", "[3, 3, 3]")],
    ),
    "a call in a paragraph of its own": (
        "It loses one:\n\ntill.split(10, 3)\n\nExpected: [4, 3, 3]\nGot: [3, 3, 3]\n",
        [("till.split(10, 3)", "[3, 3, 3]", "[4, 3, 3]")],
    ),
    "a call at the beginning of a line": (
        "Wrong:\n\n- till.mean([4]) -> 5, expected 4\n",
        [("till.mean([4])", "5", "4")],
    ),
    "the next sentence": (
        "When I call `till.mean([4])` I get `5`. I think it should give `4`.\n",
        [("till.mean([4])", "5", "4")],
    ),
    "the next sentence about something else": (
        "When I call `till.mean([4])` I get `5`. Budgets should give `4`.\n",
        [],
    ),
    "the only call of a report": (
        "### Steps\nCall `till.mean([4])`.\n### Expected\n`4`\n### Actual\n`5`\n",
        [("till.mean([4])", "5", "4")],
    ),
    "one of two calls of a report": (
        "### Steps\nCall `till.mean([4])` or `till.mean([5])`.\n### Expected\n`4`\n### Actual\n`5`\n",
        [],
    ),
    "an assignment in a sentence": (
        "With `b = till.split(9, 3)`, `b.total` returns `3` but should return `9`.\n",
        [("b.total", "3", "9")],
    ),
    "an exception below a heading": (
        "```python\ntill.mean([])\n```\n### Expected behavior\nThe list should be refused with a `ValueError`.\n",
        [("till.mean([])", "", "ValueError")],
    ),
    "an exception that should be gone": (
        "```python\ntill.mean([])\n```\n### Expected behavior\nThe ValueError is caught by the library.\n",
        [],
    ),
    "a value for the code below a heading": (
        "### Expected behavior\n`[4]` for the code below.\n### Code\n```python\ntill.split(4, 1)\n```\n",
        [("till.split(4, 1)", "", "[4]")],
    ),
    "a number that begins a sentence below a heading": (
        "### Expected behavior\n2 for each person.\n### Code\n```python\ntill.split(4, 2)\n```\n",
        [],
    ),
    "blocks below `prints` and `instead of`": (
        "```python\nprint(till.mean([4]))\n```\nprints\n```\n5\n```\ninstead of\n```\n4\n```\n",
        [("print(till.mean([4]))", "5", "4")],
    ),
    "a table of several names": (
        "`till.split(n, k)` for some:\n\n| n | k | got | should be |\n|---|---|---|---|\n| 10 | 3 | [3] | [4] |\n",
        [("till.split(n, k)", "[3]", "[4]")],
    ),
    "a table of arguments of what is named before": (
        "What `till.find` makes of words:\n\n| input | output | expected |\n|---|---|---|\n| `a b` | `1` | `2` |\n",
        [("till.find('a b')", "1", "2")],
    ),
    "a table below two names": (
        "What `till.find` and `till.mean` do:\n\n| input | output | expected |\n|---|---|---|\n| `a` | `1` | `2` |\n",
        [],
    ),
    "a table whose head has its argument": (
        "| word | till.find(word) | expected |\n|---|---|---|\n| a | 1 | 2 |\n",
        [("till.find(word)", "1", "2")],
    ),
    "versions below the expected": (
        "```python\ntill.split(10, 3)\n```\nExpected:\nno loss\n\nVersions:\n```\n3.11\n```\n",
        [],
    ),
}


@pytest.mark.parametrize("name", READ)
def test_a_value_belongs_to_the_statement_that_the_report_fixes(name: str) -> None:
    text, wanted = READ[name]
    exports = find_exports({"till": "import_me = 1\nfrom till.money import Budget, find, mean, split\n"})
    scripts = find_scripts(text, {"till": ""}, exports | {"mean": "from till import mean"})
    found = [
        (script.source.splitlines()[ask.line - 1].partition("  #")[0], ask.told.actual, ask.told.expected)
        for script in scripts
        for ask in script.asks
        if ask.told.expected
    ]
    assert found == wanted


def test_a_name_is_imported_as_the_report_uses_it() -> None:
    exports = find_exports({"till": "from till.money import till, mean\n"})
    assert find_scripts("```python\ntill(3)\n```", {"till": ""}, exports)[0].source.startswith("from till import till")
    assert find_scripts("```python\ntill.mean([])\n```", {"till": ""}, exports)[0].source.startswith("import till")


def test_what_tests_import_from_can_be_imported() -> None:
    assert find_imports(["from bs4.element import Tag\n"])["bs4"] == "import bs4"


def test_an_object_is_made_as_the_pages_mostly_make_it() -> None:
    imports = {"Registry": "from till import Registry", "till": "import till"}
    pages = ["    ureg = Registry()\n    Q = ureg.Quantity\n", ">>> ureg = Registry()\n>>> r = till.Registry()\n"]
    made = {"ureg": "from till import Registry\nureg = Registry()", "r": "import till\nr = till.Registry()"}
    assert find_objects(pages, imports) == made
    assert find_objects([*pages, "ureg = connect(3)\nureg = 4\nureg = 5\n"], imports) == {"r": made["r"]}
    assert find_objects(["app = Flask()\n"], imports) == {}
    spelt = ["r = till.Registry()\n", "r = Registry()\nr = Registry()\n", "r = connect(3)\nr = 4\n"]
    assert find_objects(spelt, imports) == {"r": "from till import Registry\nr = Registry()"}


def test_two_values_of_a_name_in_sentences_are_two_cases() -> None:
    text = "With `coins = 9` all is well, with `coins = 10`, `till.split(coins, 3)` returns `[3]` instead of `[4]`."
    [script] = find_scripts(text, {"till": ""}, {"till": "import till"})
    assert "coins =" not in script.source


def test_what_a_block_binds_is_not_taken_from_a_sentence() -> None:
    text = "With `coins = 9` all is well.\n```python\ncoins = 10\n```\n```python\ntill.split(coins, 3)\n```\n"
    script = find_scripts(text, {"till": ""}, {"till": "import till"})[-1]
    assert "coins = 10" in script.source and "coins = 9" not in script.source


def test_words_behind_a_label_are_a_value_only_beside_one_like_it() -> None:
    def pairs(got: str, expected: str) -> list[StatedValue]:
        text = f"```python\nprint(till.find('a b'))\n```\nExpected: {expected}\nGot: {got}\n"
        return [pair for script in find_scripts(text, {"till": ""}, {"till": "import till"}) for pair in script.pairs]

    assert pairs("it's-john's", "its-john's") == [StatedValue("it's-john's", "its-john's")]
    assert pairs("some coins", "nothing really") == []
    assert pairs("some coins", "some coins or so") == []


def test_of_several_modules_the_report_chooses() -> None:
    tests = [
        "from till.asyncparser import use\n",
        "from till.asyncparser import use\n",
        "from till.flaskparser import use\n",
    ]
    assert find_imports(tests, "A header (Flask)")["use"] == "from till.flaskparser import use"
    assert find_imports(tests, "A header")["use"] == "from till.asyncparser import use"


KEPT = {
    "an exception": f"It dies\n\n```python\n{DIES}```\n",
    "code with its traceback below": (
        f'{indented(DIES)}\n    Traceback (most recent call last):\n      File "a.py", line 2, in <module>\n'
        "        mean([])\n    ZeroDivisionError: x\n"
    ),
    "a session": ">>> import till\n>>> till.mean([])\nTraceback (most recent call last):\n ...\nZeroDivisionError: x\n",
    "a comment beside an expression": "```python\nimport till\nsum(till.split(10, 3))  # expected: 10\n```",
    "a comment beside a print": f"```python\nimport till\nprint(till.split(10, 3))  # should be {WANTED}, is not\n```",
    "a comment below an assignment": f"```python\nimport till\nx = till.split(10, 3)\n# should be {WANTED}\n```",
    "a comment on rounded decimals": "```python\nfrom till.money import share\nshare(9)  # should return 4.00\n```",
    "the sentence below": f"```python\n{LOSES}```\nThis should return `{WANTED}` but gives `[3, 3, 3]`.\n",
    "a block that is called expected": f"```python\n{LOSES}```\nExpected:\n```\n{WANTED}\n```\n",
    "the same after what was got": f"```py\n{LOSES}```\nGot:\n```\n[3, 3, 3]\n```\nExpected:\n```\n{WANTED}\n```\n",
    "a session that is called expected": f"Expected:\n```\n>>> import till\n>>> till.split(10, 3)\n{WANTED}\n```\n",
    "a sentence alone": f"`till.split(10, 3)` should return `{WANTED}`, and it does not.\n",
    "an import that is left out": f"```python\nsplit(10, 3)  # should be {WANTED}\n```\n",
    "a test case": "```python\nimport unittest\nimport till\n\nclass SplitTest(unittest.TestCase):\n"
    "    def test_sum(self):\n        self.assertEqual(sum(till.split(10, 3)), 10)\n```\n",
    "a program of the project's": "Dies with ZeroDivisionError\n\n```console\n$ till --mean\n```\n",
    "python -m": "```\n$ python3 -m till --mean\nTraceback (most recent call last):\n ...\nZeroDivisionError: x\n```\n",
    "a message that the issue quotes": "```console\n$ python -m till -3\ntill: cannot split a debt\n```\n",
    "a command in a sentence": "1. Run `till --mean`\n\nIt dies with ZeroDivisionError.\n",
    "a command in a sentence whose refusal is shown": "1. Run `till -3`\n\n```\ntill: cannot split a debt\n```\n",
    "a command without a prompt": "Dies with ZeroDivisionError:\n\n```\ntill --mean\n```\n",
    "a command in a block of another language": "```pytb\n$ till --mean\n ...\nZeroDivisionError: x\n```\n",
    "a file that a sentence names": 'Create a "check.py" file with this content:\n\n```python\nimport till\n'
    "assert sum(till.split(10, 3)) == 10\n```\n\nThen `python check.py` fails.\n",
    "files and a command": "`check.py`:\n\n```python\nimport sys\nimport till\ncoins = open(sys.argv[1]).read()\n"
    "assert sum(till.split(int(coins), 3)) == 10\n```\n"
    "coins.txt:\n```\n10\n```\n```sh\npython check.py coins.txt\n```\n",
    "a test of the project's that the issue runs": "Fails with KeyError\n\n"
    "```\n$ python -m unittest tests.test_money.MoneyTest.test_find_silver\n```\n",
}


def some(texts: Mapping[str, str], later: tuple[str, ...]) -> list[object]:
    """Those that are not told of in another form are tried by default."""
    return [
        pytest.param(text, id=name, marks=pytest.mark.slow if name in later else ()) for name, text in texts.items()
    ]


KEPT_LATER = ("a comment beside an expression", "a comment below an assignment", "the same after what was got")
KEPT_LATER += ("a session that is called expected", "an import that is left out", "python -m")


@pytest.mark.parametrize("text", some(KEPT, KEPT_LATER))
async def test_what_fails_as_told_is_claimed_and_kept(text: str, till: TaskSandbox) -> None:
    tried = await attempt(text, till)
    assert tried.reproduction is not None and tried.reproduction.claim, tried.dead_end
    assert tried.reproduction.observed and tried.execution_trace is not None and not tried.dead_end
    gated = await judged(text, tried, till)
    assert gated.verdict == "real_failure", gated.reason


NOT_KEPT = {
    "an output that is only shown": f"Got:\n```\n>>> import till\n>>> till.split(10, 3)\n{WANTED}\n```\n",
    "a value that is called wrong": f"```python\nimport till\ntill.split(10, 3)  # not as expected: {WANTED}\n```\n",
    "a right result": "```python\nimport till\ntill.split(9, 3)  # should be [3, 3, 3]\n```\n",
    "a right printed result": "```python\nimport till\nprint(till.mean([1, 2]))  # should print '1.5'\n```\n",
    "decimals that are left out": "```python\nfrom till.money import share\nshare(10)  # should be 3.33\n```\n",
    "a check of nothing": "```python\nimport till\ntill.split(9, 3)\nassert False\n```\n",
    "a check of itself": "```python\nimport till\ntill.split(9, 3)\nx = 1  # should be 2\n```\n",
    "an exit": "```python\nimport till\ntill.split(9, 3)\nraise SystemExit(3)\n```\n",
    "an error of its own": "```python\nimport till\ntill.split(coins, 3)\n```\n",
    "a name that does not exist": "```python\nimport till\ntill.surely_not_there(3)\n```\n",
    "an import that fails": "```python\nimport till.nothing\n```\n",
    "a file that is not there": "```python\nimport till\ntill.mean(open('coins.txt').read())\n```\n",
    "another exception": f"It raises KeyError\n```python\n{DIES}```\n",
    "a test that is wrong itself": "```python\nimport unittest\nimport till\nclass A(unittest.TestCase):\n"
    "    def test_a(self):\n        till.split(9, 3)\n"
    "    def test_b(self):\n        self.assertTrue(till.surely)\n```\n",
    "a refusal of a command in a sentence": "`till -3` rightly says `till: cannot split a debt`, but it is slow.\n",
    "an exception of the template alone": "<!-- Paste it:\nZeroDivisionError: x -->\n"
    f"It raises KeyError\n```python\n{DIES}```\n",
    "a refusal that nobody told of": "It is slow\n```console\n$ python -m till -3\n```\n",
}


NOT_KEPT_LATER = ("a right printed result", "a check of itself", "a name that does not exist", "an import that fails")
NOT_KEPT_LATER += ("a file that is not there",)


@pytest.mark.parametrize("text", some(NOT_KEPT, NOT_KEPT_LATER))
async def test_what_shows_no_bug_is_never_kept(text: str, till: TaskSandbox) -> None:
    tried = await attempt(text, till)
    assert tried.runs == 1
    assert bool(tried.dead_end) == (tried.reproduction is None)
    assert not (await judged(text, tried, till)).kept


BASES = {
    "the exception that is shown": (f"```python\n{DIES}```\n```\nZeroDivisionError: x\n```\n", "verbatim"),
    "an assertion of the reporter's": (
        "```python\nimport till\nassert sum(till.split(10, 3)) == 10\n```\n",
        "verbatim",
    ),
    "both values in a sentence": ("`till.split(10, 3)` returns `[3, 3, 3]` instead of `[4, 3, 3]`.", "confirmed"),
    "both values in headed blocks": (
        f"### Code\n```python\n{LOSES}```\n### Expected behavior\n```\n{WANTED}\n```\n### Actual behavior\n"
        "```\n[3, 3, 3]\n```\n",
        "confirmed",
    ),
    "a session and a sentence": (
        f"```\n>>> import till\n>>> till.split(10, 3)\n[3, 3, 3]\n```\nI expected {WANTED}.\n",
        "confirmed",
    ),
    "a table": (
        "```python\nimport till\n```\n\n| call | got | expected |\n|---|---|---|\n"
        f"| `till.split(10, 3)` | [3, 3, 3] | {WANTED} |\n",
        "confirmed",
    ),
    "output as a whole": (
        "```python\nimport till\nfor n in (10, 9):\n    print(n, till.split(n, 3))\n```\nExpected output:\n"
        "```\n10 [4, 3, 3]\n9 [3, 3, 3]\n```\nActual output:\n```\n10 [3, 3, 3]\n9 [3, 3, 3]\n```\n",
        "confirmed",
    ),
    "two values that one of several statements gives": (
        "```python\nimport till\nprint(till.split(9, 3)[:2])\nprint(till.split(10, 3))\n```\n"
        f"Got `[3, 3, 3]`, expected `{WANTED}`.\n",
        "confirmed",
    ),
    "an exception that should be another": (
        "```python\nimport till\n```\n`till.mean([])` raises ZeroDivisionError instead of ValueError.\n",
        "confirmed",
    ),
    "an exception that should be another than the one that is shown": (
        "```python\nimport till\ntill.mean([])\n```\n```\nTraceback (most recent call last):\n  ...\n"
        "ZeroDivisionError: x\n```\n### Expected behavior\nA `ValueError` should be raised.\n",
        "confirmed",
    ),
    "statements that fail on the way": (
        "```python\nimport till\ntill.mean([])  # ZeroDivisionError, right\n"
        f"till.split(10, 3)  # -> [3, 3, 3], expected {WANTED}\ntill.mean([])  # same\n```\n",
        "confirmed",
    ),
    "values in words of the script": (
        "```python\nimport till\nn = 3\ntill.split(10, 3)\n# -> [n, n, n] but should be [n + 1, n, n]\n```\n",
        "confirmed",
    ),
    "output that differs in space": (
        "```python\nimport till\nprint('coins\\n\\n' + str(till.split(9, 3)))\n```\nExpected output:\n"
        "```\ncoins\n\n  [3, 3, 3]\n```\nActual output:\n```\ncoins\n\n[3, 3, 3]\n```\n",
        "confirmed",
    ),
    "a file that the report shows": (
        "coins.txt:\n```\n10\n```\n```python\nimport till\nprint(till.split(int(open('coins.txt').read()), 3))\n```\n"
        f"Expected: {WANTED}\nGot: [3, 3, 3]\n",
        "confirmed",
    ),
    "a file that the report shows without a name": (
        "```txt\n10\n```\n```python\nimport till\nprint(till.split(int(open('coins.txt').read()), 3))\n```\n"
        f"Expected: {WANTED}\nGot: [3, 3, 3]\n",
        "confirmed",
    ),
    "a file that a session shows": (
        "```\n$ cat coins.txt\n10\n$ python\n>>> import till\n>>> till.split(int(open('coins.txt').read()), 3)\n"
        f"[3, 3, 3]\n```\nI expected {WANTED}.\n",
        "confirmed",
    ),
    "a file that the script writes": (
        "```python\nimport till\nwith open('coins.txt', 'w') as file:\n    file.write('10')\n"
        f"print(till.split(int(open('coins.txt').read()), 3))\n```\nExpected: {WANTED}\nGot: [3, 3, 3]\n",
        "confirmed",
    ),
    "white space that is free": (
        f"`till.split(10, 3)` returns `[3, 3, 3]` instead of `{WANTED}` (white space doesn't matter).",
        "confirmed",
    ),
    "an exception that the script catches": (
        "```python\nimport till\ntry:\n    till.mean([])\nexcept (KeyError, ValueError):\n    print('empty')\n```\n"
        "```\nZeroDivisionError: x\n```\nA ValueError should be raised.\n",
        "verbatim",
    ),
    "output that is code": (
        "```python\nimport till\nprint('x = 1\\nf(' + str(till.split(10, 3)) + ')')\n```\n\nExpected:\n\n"
        "```python\nx = 1\nf([4, 3, 3])\n```\n\nGot:\n\n```python\nx = 1\nf([3, 3, 3])\n```\n",
        "confirmed",
    ),
    "an exception of any name": (
        "```python\nfrom till.shop import buy\n```\n`buy(3)` raises TooPoor instead of giving a receipt.\n",
        "verbatim",
    ),
    "a value that differs in space": (
        "```python\nfrom till.shop import label\n```\n`label(3)` gives `3  coins` instead of `3 coins`.\n",
        "confirmed",
    ),
    "a string without its quotes": (
        "```python\nfrom till.shop import lines\n```\n`lines(3)` gives `\\n3 coins` instead of `3\\tcoins`.\n",
        "confirmed",
    ),
    "words behind labels": (
        "```python\nfrom till.shop import lines\nlines(3)\n```\nExpected: 3 silver\nGot: 3 coins\n",
        "confirmed",
    ),
    "another name of the script": (
        "```\n>>> import till\n>>> p = [4, 3, 3]\n>>> q = till.split(10, 3)\n>>> q\n[3, 3, 3]\n```\n"
        "I'd expect `q` to be equal to `p`.\n",
        "confirmed",
    ),
    "a statement by its place": (
        "```\n>>> import till\n>>> till.split(9, 3)\n[3, 3, 3]\n>>> till.split(10, 3)\n[3, 3, 3]\n```\n"
        f"The second one should be {WANTED}.\n",
        "confirmed",
    ),
    "another exception below a heading": (
        "```python\nimport till\ntill.mean([])\n```\n**Expected**\n\nIt should be reported in a `ValueError`.\n\n"
        "**Actual**\n\nA bare `ZeroDivisionError`.\n",
        "confirmed",
    ),
    "only what is expected": (f"```python\nimport till\ntill.split(10, 3)  # should be {WANTED}\n```\n", "assumed"),
}


@pytest.mark.parametrize("name", BASES)
async def test_a_reproduction_says_what_it_rests_on(name: str, till: TaskSandbox) -> None:
    text, basis = BASES[name]
    tried = await attempt(text, till)
    assert tried.reproduction is not None, tried.dead_end
    assert tried.reproduction.basis == basis, tried.reproduction
    gated = await judged(text, tried, till)
    assert (gated.verdict, gated.basis) == ("real_failure", basis), gated.reason


EXACT = ("    return [total", "    if total % people:\n        raise ValueError(total)\n    return [total")
MENDS = {
    "in a statement before the last one": (
        '```python\n"""Coins."""\nfrom __future__ import annotations\nimport till\n'
        "coins = till.split(3, 2)\nprint(len(coins))\n```\nExpected: ValueError\nGot: `2`\n",
        EXACT,
    ),
    "in an assignment": (
        "```python\nimport till\ncoins = till.split(3, 2)\n# is [1, 1], should raise ValueError\n```\n",
        EXACT,
    ),
    "in a statement that another check needs too": (
        "```python\nimport till\nb = till.split(3, 2)\nb[0]  # gives 1, should raise ValueError\n"
        "b * 2  # gives [1, 1, 1, 1], should raise ValueError\n```\n",
        EXACT,
    ),
    "by each of several calls": (
        "```python\nimport till\ntill.split(-1, 2)\ntill.split(3, 2)\n```\nExpected: ValueError for each of them\n"
        "Got: `[-1, -1]` and `[1, 1]`\n",
        EXACT,
    ),
    "in the place of a way out of the program": (
        "```python\nfrom till.money import close\nclose()\n```\nBut I get\n\n```\n"
        "till.money.Stop: two coins have one name\n```\n\nI'd expect LookupError, as for other names.\n",
        ("    raise Stop(", "    raise LookupError("),
    ),
    "as the exit of a program": (
        f"### To reproduce\n\n```python\n{DIES}```\n\n### Expected behavior\n\nIt says why and exits with 1\n\n"
        "### Actual behavior\n\n```\nZeroDivisionError: division by zero\n```\n",
        ("    return sum", "    if not values:\n        raise SystemExit(1)\n    return sum"),
    ),
    "that would be the right thing, as a sentence says": (
        "mean([]) raises ZeroDivisionError\n\n```\n>>> till.mean([])\nTraceback (most recent call last):\n  ...\n"
        "ZeroDivisionError: division by zero\n```\nValueError would be the right thing, I catch that already.\n",
        ("    return sum", "    if not values:\n        raise ValueError\n    return sum"),
    ),
}
"""Reports that expect an exception, each with a right fix, which raises it where the name of the case says."""


async def exit_code(tried: ReproductionAttempt, task_sandbox: TaskSandbox, *mends: tuple[str, str]) -> int | None:
    """How a reproduction ends with changes of till/money.py."""
    assert tried.reproduction is not None and tried.reproduction.command, tried.dead_end
    source = FILES["till/money.py"]
    for old, new in mends:
        assert old in source
        source = source.replace(old, new, 1)
    workspace = task_sandbox.fresh()
    try:
        for path, content in {**tried.reproduction.files, "till/money.py": source}.items():
            workspace.write(path, content.encode())
        return (await task_sandbox.shell(workspace, tried.reproduction.command, timeout_s=20)).exit_code
    finally:
        workspace.remove()


@pytest.mark.parametrize("name", MENDS)
async def test_an_expected_exception_may_be_raised(name: str, till: TaskSandbox) -> None:
    text, mend = MENDS[name]
    tried = await attempt(text, till)
    assert await exit_code(tried, till) == 1
    assert await exit_code(tried, till, mend) == 0, tried.reproduction
    gated = await judged(text, tried, till)
    assert (gated.verdict, gated.basis != "assumed") == ("real_failure", True), gated.reason


async def test_each_of_several_calls_has_to_raise(till: TaskSandbox) -> None:
    text, _ = MENDS["by each of several calls"]
    half = ("    return [total", "    if total < 0:\n        raise ValueError(total)\n    return [total")
    assert await exit_code(await attempt(text, till), till, half) == 1


async def test_an_exception_that_may_be_meant_as_right_is_accepted_and_makes_the_claim_weaker(
    till: TaskSandbox,
) -> None:
    text = f"```python\n{DIES}```\nZeroDivisionError. Elsewhere I get a ValueError for it, which I like better.\n"
    tried = await attempt(text, till)
    assert tried.reproduction is not None and tried.reproduction.basis == "assumed"
    assert await exit_code(tried, till) == 1
    assert (
        await exit_code(tried, till, ("    return sum", "    if not values:\n        raise ValueError\n    return sum"))
        == 0
    )


async def test_an_exception_that_could_come_before_a_check_of_a_value_is_no_check(till: TaskSandbox) -> None:
    text = (
        "```python\nimport till\na = till.Budget(3)\nb = till.Budget('x')\na.coins  # gives 3, should be 4\n"
        "b.coins  # gives 'x', should raise ValueError\n```\n"
    )
    tried = await attempt(text, till)
    assert tried.reproduction is None and "ValueError could rightly be raised before" in tried.dead_end


@pytest.mark.parametrize(
    "name", ["coins.db", "./coins.db", "/srv/coins", "tests/coins.txt", "--from=coins.csv", "old/"]
)
async def test_a_command_that_reads_a_file_which_is_not_there_is_no_reproduction(name: str, till: TaskSandbox) -> None:
    text = f"It dies with ValueError\n\n```console\n$ till --mean {name}\n```\n"
    tried = await attempt(text, till)
    assert tried.reproduction is None and tried.runs == 0
    assert f"reads {name.rpartition('=')[2]}, which neither the repository nor the issue has" in tried.dead_end


async def test_commands_that_lack_a_file_keep_no_other_from_being_run(till: TaskSandbox) -> None:
    lines = [*(f"till --mean {name}.db" for name in "abc"), "till --mean"]
    shown = "".join(f"$ {line}\n" for line in lines)
    tried = await attempt(f"It dies with ZeroDivisionError\n\n```console\n{shown}```\n", till)
    assert tried.reproduction is not None and tried.reproduction.command == "python -m till --mean", tried.dead_end


@pytest.mark.parametrize("words", ["--out coins.db", "-o coins.db", "--save-to=coins.db", "till/money.py", "tests/"])
async def test_a_command_may_name_what_it_makes_and_what_is_there(words: str, till: TaskSandbox) -> None:
    tried = await attempt(f"It dies with ValueError\n\n```console\n$ till --mean {words}\n```\n", till)
    assert tried.reproduction is not None, tried.dead_end


async def test_a_value_of_a_statement_that_raises_may_be_meant_as_it_is_printed(till: TaskSandbox) -> None:
    text = "`till.mean([])` raises `ZeroDivisionError` instead of returning `[0]`.\n"
    for right in ("[0]", "'[0]'"):
        mend = ("    return sum", f"    if not values:\n        return {right}\n    return sum")
        tried = await attempt(text, till)
        assert await exit_code(tried, till) == 1
        assert await exit_code(tried, till, mend) == 0, tried.reproduction


def test_what_is_echoed_is_given_to_the_program() -> None:
    files = ("till/__main__.py",)

    def typed(line: str) -> list[str]:
        text = f"```console\n(.venv) a@b ~/c (main) $ {line}\n```\n"
        return [found.command for found in find_commands(text, {"till": ""}, {"till": "till"}, files)]

    assert typed("echo -n 'a b;;' | till lint -") == ["printf %s 'a b;;' | python -m till lint -"]
    assert typed("echo a | till -") == ["printf %s 'a\n' | python -m till -"]
    for line in (
        "echo a | sh",
        "cat a | till -",
        "echo a | till - | sh",
        "echo -e a | till -",
        "echo a; till -",
        "till --version",
    ):
        assert typed(line) == []


def test_names_come_from_the_modules_that_a_report_speaks_of(till: TaskSandbox) -> None:
    base = till.base
    repository = read_repository(base.tree / ".git", base.commit)
    spoken = _spoken_of(
        "`share(9)` from `till.money`, buy is till.shop.buy, m is till.money. See till.rates.md", repository
    )
    assert spoken["share"] == "from till.money import share"
    assert spoken["buy"] == "from till.shop import buy"
    assert spoken["m"] == "import till.money as m"
    assert spoken["till.money"] == "import till.money"
    assert "md" not in spoken
    assert _spoken_of("share is from till.shop, and surely is till.money.surely", repository).keys() <= {
        "till.shop",
        "till.money",
    }


@pytest.mark.parametrize("doubt", ["(or was it the other way round?)", "for one of them", "(not sure which)"])
async def test_a_report_that_doubts_its_pairs_has_no_checks_of_values(doubt: str, till: TaskSandbox) -> None:
    text = f"```python\n{LOSES}```\nExpected: `[4, 3, 3]`\nGot: `[3, 3, 3]`\n\nThat is so {doubt}.\n"
    tried = await attempt(text, till)
    assert tried.reproduction is None or tried.reproduction.basis == "assumed", tried.reproduction


async def test_several_pairs_are_several_checks(till: TaskSandbox) -> None:
    text = (
        f"```python\nimport till\nprint(till.split(10, 3))  # [3, 3, 3], should be {WANTED}\n"
        "print(till.split(11, 3))  # [3, 3, 3], should be [4, 4, 3]\n```\n"
    )
    tried = await attempt(text, till)
    assert tried.reproduction is not None and tried.reproduction.basis == "confirmed"
    assert "till.split(10, 3): expected" in tried.reproduction.observed
    assert "till.split(11, 3): expected" in tried.reproduction.observed
    assert (await judged(text, tried, till)).verdict == "real_failure"


UNPAIRED = {
    "one expected value for two statements": (
        f"```\n>>> import till\n>>> till.split(10, 3)\n[3, 3, 3]\n>>> till.split(9, 3)\n[3, 3, 3]\n```\n"
        f"I expected {WANTED}.\n",
        "is expected of no certain statement",
    ),
    "another value than the report has": (
        f"`till.split(10, 3)` returns `[5, 5]` instead of `{WANTED}`.",
        "gives [3, 3, 3] here, where the report has [5, 5]",
    ),
    "a file that is not there": (
        "`till.split(len('x.env'), 3)` returns `[1, 1, 1]` instead of `[2, 2, 1]`.",
        "x.env does not exist",
    ),
    "one of two files without a name": (
        "```txt\n10\n```\n```txt\n11\n```\n```python\nimport till\n"
        f"print(till.split(int(open('coins.txt').read()), 3))\n```\nExpected: {WANTED}\nGot: [3, 3, 3]\n",
        "FileNotFoundError",
    ),
    "an exception that the script does not catch": (
        "```python\nimport till\ntry:\n    till.mean([])\nexcept KeyError:\n    print('empty')\n```\n"
        "```\nZeroDivisionError: x\n```\nA ValueError should be raised.\n",
        "expects ValueError, which would end it too",
    ),
    "an exception that would end it too": (
        "```python\nimport till\ntill.mean([])\ntill.mean(())\n```\n```\nZeroDivisionError: x\n```\n"
        "A ValueError should be raised.\n",
        "expects ValueError, which would end it too",
    ),
    "an output that is of something else": (
        "```python\nimport till\nfor n in (10, 9):\n    print(n, till.split(n, 3))\n```\nActual output:\n"
        "```\n10 [3, 3, 3]\n9 [3, 3, 3]\n```\nExpected output:\n```\nPython\nLinux\n```\n",
        "that should give Python Linux was not reached",
    ),
    "what need not be so to the letter": (
        f"`till.split(10, 3)` returns `[3, 3, 3]` instead of `{WANTED}`, the order does not matter.",
        "need not be so to the letter",
    ),
    "what is not told as a whole": (
        "`str(till.split(10, 3))` gives `[3, 3, 3]` where `[4, ...]` was expected.",
        "is not told as a whole",
    ),
    "a word that is a name too": (
        "```\n>>> from till.shop import label\n>>> coins = 3\n>>> print(label(3).split()[1][:1])\nc\n```\n"
        "I expected `coins` there.\n",
        "may be a word or what has that name",
    ),
    "words instead of a value": (
        "`till.split(10, 3)` returns `[3, 3, 3]` instead of `everything`.",
        "is no value that can be compared",
    ),
    "an exception that should be a value": (
        "`till.mean([])` raises ZeroDivisionError instead of ValueError. No exception should be raised.",
        "may be meant as a value",
    ),
    "what is expected comes out": ("`till.split(9, 3)` returns `[3]` instead of `[3, 3, 3]`.", "as expected"),
}


@pytest.mark.parametrize("name", UNPAIRED)
async def test_what_no_run_confirms_is_dropped_and_told(name: str, till: TaskSandbox) -> None:
    text, said = UNPAIRED[name]
    tried = await attempt(text, till)
    assert tried.reproduction is None and said in tried.dead_end


async def test_what_fails_rightly_further_down_is_left_out(till: TaskSandbox) -> None:
    text = (
        "```python\nimport till\ntill.mean([])\ntill.mean(None)  # TypeError, fine\ntill.split(9, 3)\n```\n"
        "`mean` raises ZeroDivisionError\n"
    )
    tried = await attempt(text, till)
    assert tried.reproduction is not None, tried.dead_end
    [script] = tried.reproduction.files.values()
    assert "till.mean([])" in script and "till.mean(None)" not in script and "till.split(9, 3)" in script


async def test_only_harmless_commands_of_the_issue_are_run(till: TaskSandbox) -> None:
    lines = (
        "rm -rf .",
        "pip install till",
        "sudo python -m till 3",
        "python -m till 3 && touch marked",
        "python -m till $(touch marked)x | sh",
        "python setup.py install",
        "python -m pip install till",
        "python -m http.server",
        "python -m pytest",
        "python",
        "PYTHONPATH=. python -m till 3",
    )
    text = "".join(f"```sh\n$ {line}\n```\n" for line in lines)
    assert find_commands(text, {"till": ""}, {"till": "till"}, FILES) == ()
    tried = await attempt(text, till)
    assert tried.runs == 0 and "no command that may be run" in tried.dead_end


@given(st.text(st.characters(codec="utf-8") | st.sampled_from("$`;|&><(){}'\"\\* \n")))
def test_no_text_gets_past_the_quoting(typed: str) -> None:
    for command in find_commands(f"```sh\n$ python -m till {typed}\n```", {"till": ""}, {}, ()):
        shown = subprocess.run(["bash", "-c", f"printf '%s\\0' {command.command}"], capture_output=True, check=True)
        words = shown.stdout.decode().split("\0")[:-1]
        assert words == shlex.split(command.command) and words[:3] == ["python", "-m", "till"]


@pytest.mark.parametrize("tool", ["go test ./till -run Mean", "cargo test mean"])
async def test_a_runner_that_is_not_here_is_a_dead_end(tool: str, till: TaskSandbox) -> None:
    workspace = till.fresh()
    found = await till.shell(workspace, f"command -v {tool.partition(' ')[0]}", timeout_s=20)
    workspace.remove()
    if found.exit_code == 0:
        pytest.skip(f"{tool} can be run here")
    tried = await attempt(f"```sh\n$ {tool}\n```\n", till)
    assert tried.runs == 1 and tried.reproduction is None
    assert f"`{tool}` could not be run (exit code 127)" in tried.dead_end


async def test_a_file_of_the_repository_is_never_written(till: TaskSandbox) -> None:
    names = ("pyproject.toml", "tests/test_money.py", "till/__main__.py", "json.py")
    for name in names:
        text = f"{name}:\n```\nraise KeyError('mine')\n```\n```sh\n$ python -m till {name}\n```\n"
        assert all(command.files == {} for command in find_commands(text, {"till": ""}, {}, FILES))
    # What the index does not know may still be there.
    tried = await attempt("```\n# LICENSE/x.txt\nmine\n```\n```sh\n$ python -m till LICENSE/x.txt\n```\n", till)
    assert tried.runs == 0


async def test_an_existing_test_that_fails_as_told_is_the_claim(till: TaskSandbox) -> None:
    text = "find() does not know silver: it dies with KeyError: 'silver'"
    tried = await attempt(text, till, "till/money.py")
    assert tried.origin == "test" and tried.reproduction is not None
    assert tried.reproduction.command == "python -m unittest -v tests.test_money.MoneyTest.test_find_silver"
    assert tried.reproduction.files == {} and "KeyError" in tried.reproduction.observed
    assert (await judged(text, tried, till)).verdict == "real_failure"


@pytest.mark.parametrize(
    ("suspect", "said"),
    [
        ("till/money.py", "tests/test_money.py: not one test failed as the issue says"),
        ("till/rates.py", "tests/test_rates.py: 1 tests pass, so the existing tests do not show it"),
        ("till/broken.py", "tests/test_broken.py could not be run here"),
        ("docs/nothing.py", ""),
    ],
)
async def test_existing_tests_that_say_nothing_are_a_dead_end(suspect: str, said: str, till: TaskSandbox) -> None:
    tried = await attempt("The mean is off by one", till, suspect)
    assert tried.reproduction is None and tried.origin is None
    assert said in tried.dead_end and bool(tried.runs) == bool(said)


async def test_runs_are_bounded(till: TaskSandbox) -> None:
    blocks = "".join(f"```python\nimport till\ntill.split({n}, 3)\n```\n" for n in range(9))
    commands = "".join(f"```sh\n$ python -m till {n}\n```\n" for n in range(9))
    tried = await attempt(blocks + commands, till, "till/money.py")
    assert tried.runs == MAX_RUNS
    assert tried.dead_end.count("ran without an error") == MAX_RUNS and "was not run any more" in tried.dead_end


async def test_what_could_not_be_run_to_its_end_is_told(till: TaskSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scrout.scout.recon.reproduce.MAX_RUNS", 1)
    tried = await attempt(f"`till.split(10, 3)` returns `[3, 3, 3]` instead of `{WANTED}`.", till)
    assert tried.reproduction is None and "script 1 of the issue was not run to its end" in tried.dead_end


@pytest.mark.slow
async def test_pytest_runs_tests_that_are_functions(tier: Tier, light_python: Path, tmp_path: Path) -> None:
    files = {
        "src/app/core.py": "def half(x):\n    return x // 2\n",
        "tests/test_core.py": "import sys\n\nsys.path.insert(0, 'src')\nimport pytest\nfrom app.core import half\n\n\n"
        "@pytest.mark.parametrize('x', [2, 3])\ndef test_half(x):\n"
        "    assert half(x) * 2 == x, 'half is lost by rounding'\n",
    }
    with opened(tmp_path / "app", files, tier, tmp_path / "cache", light_python) as task_sandbox:
        text = "```python\nfrom app.core import half\n\ndef test_three():\n    assert half(3) == 1.5\n```\n"
        tried = await attempt(text, task_sandbox)
        assert tried.reproduction is not None, tried.dead_end
        assert list(tried.reproduction.files) == ["test_scrout_repro.py"]
        assert (await judged(text, tried, task_sandbox)).verdict == "real_failure"
        text = "Rounding: a half is lost"
        tried = await attempt(text, task_sandbox, "src/app/core.py")
        assert tried.origin == "test" and tried.reproduction is not None and tried.reproduction.command
        assert tried.reproduction.command.endswith("'tests/test_core.py::test_half[3]'")


def test_programs_are_read_from_all_files_and_junk_from_none() -> None:
    poetry = '[tool.poetry.scripts]\na = "app.cli:main"\n[project.scripts]\nb = "app:main"\nbad = 3\n'
    setup = "[options.entry_points]\nconsole_scripts =\n    c = app.c:main\n    d;e = x:y\n"
    assert find_programs(poetry, setup) == {"a": "app.cli", "b": "app", "c": "app.c"}
    setup_py = "setup(version='1', entry_points={'console_scripts': ['e = app.e:main', \"f=app:main\"]})\n"
    assert find_programs(poetry, setup, setup_py).items() >= {"a": "app.cli", "e": "app.e", "f": "app"}.items()
    assert find_programs("", "", "setup(scripts=['a=b:c'])") == {}
    assert find_programs("[", "x\n[[") == find_programs("project = 3\n", "") == {}


@given(st.text())
def test_any_project_file_can_be_read(text: str) -> None:
    find_programs(text, text, f"console_scripts{text}")
    find_exports({"app": text})


@pytest.mark.parametrize(
    "piece",
    [
        "`till.f(1)` should be `1`\n",
        "```sh\n$ python -c 'import till; x = 1'\n```\n",
        "```sh\n$ python -m pytest a.b.c\n```\n",
        ".. code::\n\n",
        "a::\n\n  x\n",
        "{{{\n",
        "[code]\n",
        "In [1]: till.f()\nOut[1]: 3\n\n",
        "```\ntill.f()\n```\nExpected:\n```\n1\n```\n",
        "```\n# should be 1 should be 1 expected: not 1,\n```\n",
    ],
)
def test_no_text_takes_long(piece: str) -> None:
    assert_linear(lambda text: find_scripts(text, {"till": ""}, {"till": "import till"}), piece, 5_000)
    assert_linear(lambda text: find_commands(text, {"till": ""}, {}, FILES), piece, 5_000)


@pytest.mark.parametrize(
    "line", ["`till.f(1)` should be `1`\n", "`b.c` is\n", "With `a = 1`\n", "|a|expected|\n|-|-|\n|1|2|\n\n"]
)
def test_lines_below_code_take_no_longer_the_more_code_there_is(line: str) -> None:
    def make(size: int) -> str:
        code = "till.f(1)\n" * (size // 20)
        return f"```\n{code}```\n" + line * (size // 2 // len(line))

    assert_linear(lambda text: find_scripts(text, {"till": ""}, {"till": "import till"}), make, 5_000)


LINES = (
    "```",
    "```sh",
    "~~~",
    "{{{",
    "}}}",
    "[code]",
    "[/code]",
    ".. code-block:: python",
    "    x",
    "a::",
    "",
    ">>> f()",
    "$ x",
)


@given(st.lists(st.sampled_from(LINES) | st.text(max_size=9)).map("\n".join))
def test_blocks_are_pieces_of_the_text(text: str) -> None:
    kept = [line.strip() for line in text.splitlines()]
    for block in find_blocks(text):
        assert block.code.strip() and block.code.endswith("\n")
        assert all(line.strip() in kept for line in block.code.splitlines())
    assert len(find_commands(text, {}, {"x": "x"}, ())) <= MAX_COMMANDS


SPAN = """
class Span:
    def __init__(self, low, high, closed):
        self.low, self.high, self.closed = low, high, closed

    def __or__(self, other):
        return Span(self.low, self.high, self.closed)

    def __repr__(self):
        return f"[{self.low},{self.high}" + ("]" if self.closed else ")")
"""


async def test_an_object_that_is_shown_like_a_list_is_right_when_it_is_shown_as_expected(
    task_sandbox_over: Callable[..., AbstractContextManager[TaskSandbox]],
) -> None:
    text = (
        "Union loses a bound\n\n```python\n>>> from span import Span\n"
        ">>> Span(0, 2, False) | Span(1, 2, True)\n[0,2)    # wrong, has to be [0,2]\n```\n"
    )
    with task_sandbox_over({"span.py": SPAN}) as repository:
        tried = await attempt(text, repository)
        assert tried.reproduction is not None and tried.reproduction.command, tried.dead_end
        workspace = repository.fresh()
        for path, content in tried.reproduction.files.items():
            workspace.write(path, content.encode())
        assert (await repository.shell(workspace, tried.reproduction.command, timeout_s=20)).exit_code == 1
        mended = SPAN.replace("Span(self.low, self.high, self.closed)", "Span(self.low, self.high, other.closed)")
        assert mended != SPAN
        workspace.write("span.py", mended.encode())
        assert (await repository.shell(workspace, tried.reproduction.command, timeout_s=20)).exit_code == 0
        workspace.remove()
