"""A small real repository with real bugs, and the real sandbox over it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from scrout.config.settings import Settings
from scrout.sandbox.task_sandbox import TaskSandbox, open_task_sandbox
from scrout.sandbox.tier import Tier
from scrout.task import Task

ISSUE = """split() loses money

`split(10, 3)` gives `[3, 3, 3]`: one coin is gone. Also `mean([])` dies with `ZeroDivisionError: division by zero`
instead of a message, and `Budget` objects cannot be added: `TypeError: unsupported operand type(s) for +: 'Budget' and
'Budget'`.
"""

FILES = {
    "till/__init__.py": "from till import shelf\nfrom till.money import Budget, each, label, mean, split, strict\n"
    "RATE = 3\n",
    "till/money.py": '''\
"""Coins."""

LABELS = {"a": "apple"}


class Budget:
    def __init__(self, coins):
        self.coins = coins


def split(total, people):
    return [total // people] * people


def mean(values):
    return sum(values) / len(values)


def label(name):
    try:
        return LABELS[name]
    except KeyError:
        return "unknown"


def each(values, action):
    return [action(value) for value in values]


def strict(text):
    try:
        return int(text)
    except ValueError as error:
        raise LookupError(f"no number: {text}") from error


def rates():
    with open("data/rates/today.txt") as file:
        return file.read()


def sink(number):
    return sink(number + 1)
''',
    "till/__main__.py": """\
import argparse
import sys

from till.money import split


def main():
    parser = argparse.ArgumentParser(prog="till")
    parser.add_argument("total", type=int)
    options = parser.parse_args()
    if options.total < 0:
        sys.exit("till: cannot split a debt")
    print(split(options.total, 3))


main()
""",
    "till/shelf.py": '''\
"""What is refused on purpose, and what is not."""


class Shelf(dict):
    def __init__(self, *goods, **named):
        super().__init__(*goods, **named)


class NoSuchGoods(Exception):
    pass


def __getattr__(name):
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def price(text):
    return _checked(text, 1)


def _checked(text, depth):
    if depth < 5:
        return _checked(text, depth + 1)
    if not isinstance(text, str) or text.startswith("-"):
        raise ValueError(f"not a price: {text!r}")
    return int(text)


def summed(prices):
    """
    >>> summed([1, 2])
    4
    """
    return _sum(prices, 1)


def _sum(prices, depth):
    return sum(prices) if depth == 3 else _sum(prices, depth + 1)


def find(name):
    raise NoSuchGoods(name)


class Rack:
    def __init__(self, goods):
        self.goods = goods

    def __str__(self):
        return str(self.goods)

    def first(self):
        return max(self.goods)


def tidied(text):
    return text.strip()


def arrange(goods):
    goods.sort(reverse=True)


def doubled(function):
    def inner():
        return function() * 3

    return inner


def stop():
    raise KeyboardInterrupt


def deep(number):
    return deep(number + 1)


def dive(number):
    from till import money

    return dive(number + 1) if number < 600 else money.sink(number)


def worked_out(formula):
    return eval(formula + " +")
''',
    "till/report.py": '''\
"""Results in objects of libraries, arguments that are changed, modules that are loaded anew."""

import importlib
import sys
import xml.etree.ElementTree
from types import SimpleNamespace

del sys.modules["xml.etree.ElementTree"]
fresh = importlib.import_module("xml.etree.ElementTree")


def tag(text):
    return fresh.fromstring(text).tag.upper()


def report(coins):
    return SimpleNamespace(lines=[SimpleNamespace(text=f"{coins} coins")])


def stock():
    return {}


def coins(total):
    for coin in (2, 1):
        while total >= coin:
            total -= coin
            yield coin


class Coin:
    pass


def kind(value):
    return None if value == 2 else Coin


class Share:
    def __init__(self, people):
        self.each = 1 / len(people)


class Shelves:
    def share(self, people):
        self.halves = [6 / len(people)]

    @property
    def half(self):
        return self.halves[0]


class Purse:
    def __init__(self, rates):
        rates["fee"] = rates["fee"] * 2

    def __repr__(self):
        return f"Purse({self.coins})"

    def empty(self):
        return self.coins == 0
''',
    "data/rates/today.txt": "3\n",
    "data/rates/old.txt": "2\n",
    "tests/__init__.py": "",
    "tests/test_money.py": """\
import unittest

from till import mean


class MeanTest(unittest.TestCase):
    def test_mean(self):
        self.assertEqual(mean([1, 3]), 2)
""",
    "lib/deep/part.py": "def part():\n    return 1\n",
    "log.txt": "Traceback (most recent call last):\n"
    '  File "till/money.py", line 17, in mean\n'
    "ZeroDivisionError: division by zero\n",
}


class Named(Protocol):
    @property
    def name(self) -> str: ...


def but_slow(cases: Iterable[Named], *names: str) -> list[object]:
    """Parameters of a test; those of these names are slow. Others of the same kind stay with the default tests."""
    return [pytest.param(one, id=one.name, marks=[pytest.mark.slow] if one.name in names else []) for one in cases]


@pytest.fixture(scope="session")
def till(
    tier: Tier, light_python: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Task, TaskSandbox]]:
    """A task about the repository, and its task sandbox."""
    repo = tmp_path_factory.mktemp("till") / "repo"
    for name, content in FILES.items():
        path = repo / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (repo / "link").symlink_to("till/money.py")
    for args in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "Start")):
        _git(repo, *args)
    commit = _git(repo, "rev-parse", "HEAD")
    task = Task(id="till", text=ISSUE, repo=repo.resolve(), base_commit=commit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("PATH", str(light_python), prepend=os.pathsep)
        with open_task_sandbox(task, tier, Settings()) as task_sandbox:
            yield task, task_sandbox


def _git(repo: Path, *args: str) -> str:
    names = ("-c", "user.name=Till", "-c", "user.email=till@example.org")
    done = subprocess.run(["git", *names, *args], cwd=repo, capture_output=True, text=True, check=True)
    return done.stdout.strip()
