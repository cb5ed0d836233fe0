"""Many threads parse at once, as the checks of a batch do."""

from __future__ import annotations

import ast
import gc
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from scrout.index.tables import dumps, loads, tabulate
from scrout.syntax import SourceText, is_literal, parse_python

DEEP = f"x = {'(' * 60}1{' + 1)' * 60}\n" * 10


@pytest.fixture
def switching() -> Iterator[None]:
    """Another thread goes on in the midst of a parse, whenever garbage is collected."""

    def yield_to_others(phase: str, info: dict[str, int]) -> None:
        time.sleep(0)

    before = gc.get_threshold()
    gc.callbacks.append(yield_to_others)
    gc.set_threshold(50)
    yield
    gc.set_threshold(*before)
    gc.callbacks.remove(yield_to_others)


def test_threads_do_not_disturb_each_other(switching: None) -> None:
    with ThreadPoolExecutor(8) as threads:
        trees = list(threads.map(parse_python, [DEEP] * 24))
    assert all(isinstance(tree, ast.Module) and len(tree.body) == 10 for tree in trees)


def test_tables_that_are_read_meanwhile_do_not_disturb_them(switching: None) -> None:
    """numpy parses the head of each array that it reads."""
    stored = dumps(tabulate([]))

    def one(number: int) -> bool:
        return loads(stored) is not None if number % 2 else len(parse_python(DEEP).body) == 10

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(one, range(48)))


def test_literals() -> None:
    assert is_literal("[1, 'a', {2: None}]")
    assert not is_literal("print(1)")
    assert not is_literal("[1,")


def test_the_text_of_a_node_is_as_it_is_written() -> None:
    source = "x = 'é' + \\\n  f(1)\r\ny = [\r  2,\f3]\nz"
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.expr | ast.stmt)]
    text = SourceText(source)
    assert len(nodes) > 10
    assert [text.of(node) for node in nodes] == [ast.get_source_segment(source, node) for node in nodes]
