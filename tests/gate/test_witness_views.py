"""How the witness looks at the state of a repository."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

import scrout.gate

WITNESS = Path(scrout.gate.__file__).parent / "watch" / "sitecustomize.py"


@pytest.mark.parametrize(
    ("view", "thing"),
    [("_view_mapping", dict.fromkeys(range(6000))), ("_view_list", [0] * 6000), ("_view_set", set(range(6000)))],
)
def test_a_large_container_that_nobody_changes_looks_the_same_twice(view: str, thing: object) -> None:
    execution_trace = runpy.run_path(str(WITNESS))
    first, second = execution_trace[view](thing), execution_trace[view](thing)
    assert execution_trace["_all_same"](first.values(), second.values())


def test_a_large_container_that_grew_looks_different() -> None:
    execution_trace = runpy.run_path(str(WITNESS))
    thing = [0] * 6000
    first = execution_trace["_view_list"](thing)
    thing.append(0)
    assert not execution_trace["_all_same"](first.values(), execution_trace["_view_list"](thing).values())


@pytest.mark.parametrize(("line", "told"), [("del helper, m", None), ("# del helper", "helper")])
def test_a_name_that_its_own_module_deletes_is_not_missed(line: str, told: str | None, tmp_path: Path) -> None:
    witness = runpy.run_path(str(WITNESS))
    module = tmp_path / "units.py"
    module.write_text(f"from base import helper\n{line}\n")
    witness["_difference"].__globals__["_sides"][str(module)] = "repository"
    space: dict[str, object] = {"__file__": str(module)}
    node = witness["_Node"]("units", space, witness["_view_mapping"], 0)
    node.parts = {**space, "helper": some_function}
    assert witness["_difference"](node, space, False) == told
    assert witness["_difference"](node, space, True) == "helper"


def some_function() -> None:
    """Stands for a function of the repository."""
