"""The searcher's `search` and `outline`, through the toolbox that the model uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from pydantic import JsonValue

from scrout.agent.dialect import ToolUse
from scrout.agent.tools import Toolset, Workbench
from scrout.sandbox.task_sandbox import TaskSandbox
from scrout.scout.toolbox import MOST_DEFINITIONS, MOST_FOUND, Index, SelectedTools

CART = '"""A cart."""\n\n\nclass Cart:\n    def total(self):\n        return sum(self.prices[1:])\n\n\nLIMIT = 3\n'
FILES = {
    "shop/cart.py": CART,
    "shop/stock.py": "def count(items):\n    return len(items)\n",
    "web/cart.py": "def render(cart):\n    return str(cart)\n",
    "many.py": "".join(f"def f{n}():\n    pass\n\n\n" for n in range(MOST_DEFINITIONS + 5)),
    "notes.txt": "Nothing is defined here.\n",
    **{f"pages/page_{n}.py": f"def page_{n}():\n    return 'prices'\n" for n in range(MOST_FOUND + 5)},
}


@pytest.fixture
def shop(task_sandbox_over: Callable[..., AbstractContextManager[TaskSandbox]]) -> Iterator[TaskSandbox]:
    with task_sandbox_over(FILES) as opened:
        yield opened


async def answer(shop: TaskSandbox, name: str, **arguments: JsonValue) -> str:
    return await Toolset(Index(shop.base)).use(ToolUse(name, arguments))


async def test_a_search_names_the_best_files_with_lines_and_reasons(shop: TaskSandbox) -> None:
    found = (await answer(shop, "search", query="Cart.total leaves out the first of its prices")).splitlines()
    assert len(found) == MOST_FOUND
    place, _, why = found[0].partition("  ")
    assert place.startswith("shop/cart.py:") and "total" in why
    assert all(len(line) < 300 for line in found)


async def test_a_search_reads_no_more_of_a_query_than_it_needs(shop: TaskSandbox) -> None:
    assert "shop/stock.py" in await answer(shop, "search", query="count items " + "x" * 1_000_000)


async def test_an_outline_lists_definitions_with_their_lines(shop: TaskSandbox) -> None:
    told = "shop/cart.py, 9 lines\n4-6 class Cart\n5-6 function Cart.total\n9-9 constant LIMIT"
    for path in ("shop/cart.py", "./shop/cart.py", f"{shop.base.repo}/shop/cart.py", "/testbed/shop/cart.py"):
        assert await answer(shop, "outline", path=path) == told, path
    many = (await answer(shop, "outline", path="many.py")).splitlines()
    assert len(many) == MOST_DEFINITIONS + 2 and many[-1] == "and 5 more"
    assert "no definition" in await answer(shop, "outline", path="notes.txt")


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("outline", {"path": "cart.py"}, "It may be one of shop/cart.py, web/cart.py."),
        ("outline", {"path": "shop/absent.py"}, "has no file 'shop/absent.py'"),
        ("outline", {"path": "../../etc/passwd"}, "has no file"),
        ("outline", {"path": "a\0b"}, "NUL"),
        ("outline", {}, "`path` of `outline` is missing"),
        ("search", {"query": "  "}, "`query` is empty"),
        ("search", {"query": 3}, "must be text"),
        ("grep", {"query": "x"}, "There is no tool called 'grep'"),
    ],
)
async def test_a_call_that_makes_no_sense_is_answered(
    shop: TaskSandbox, name: str, arguments: dict[str, JsonValue], said: str
) -> None:
    told = await answer(shop, name, **arguments)
    assert said in told and told.endswith("Nothing was done.")


async def test_a_repository_without_a_readable_file(
    make_repo: Callable[..., Path], task_sandbox: Callable[..., AbstractContextManager[TaskSandbox]]
) -> None:
    with task_sandbox(make_repo({"a.bin": b"\0\1"}, name="bare")) as opened:
        index = Index(opened.base)
        assert "no file" in index.search("anything") and index.shortlist("anything") == ""


async def test_only_the_chosen_tools_can_be_used(shop: TaskSandbox) -> None:
    async with shop.session(shop.fresh()) as session:
        boxes = (Workbench(session), Index(shop.base))
        tools = Toolset(*(SelectedTools(box, ("bash", "outline")) for box in boxes))
        assert [tool.name for tool in tools.tools] == ["bash", "outline"]
        assert "no tool called 'search'" in await tools.use(ToolUse("search", {"query": "x"}))
        assert "[exit code 0]\nhi\n" in await tools.use(ToolUse("bash", {"command": "echo hi"}))
