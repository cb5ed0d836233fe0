"""Which functions a patch changes, and on which lines."""

from __future__ import annotations

import difflib

from scrout.check.changed import ChangedFunction, changed_functions, words_for_tests
from scrout.check.patch import FileChange


def change(before: str, after: str, path: str = "shop/cart.py") -> FileChange:
    hunks = "\n".join(difflib.unified_diff(before.split("\n"), after.split("\n"), lineterm=""))
    section = f"diff --git a/{path} b/{path}\n{hunks}\n"
    return FileChange(path, path, section, before=before, after=after)


def only(before: str, after: str) -> ChangedFunction:
    (found,) = changed_functions([change(before, after)])
    return found


BEFORE = """\
LIMIT = 10

def over(n):
    if n > LIMIT:
        return True
    return False

class Cart:
    size = 3

    def add(self, item):
        self.items.append(item)

    def full(self):
        return len(self.items) > self.size
"""


def test_a_changed_body_is_found_with_its_lines() -> None:
    found = only(BEFORE, BEFORE.replace("n > LIMIT", "n >= LIMIT"))
    assert (found.label, found.lines, found.parameters) == ("shop/cart.py::over", {4}, ("n",))


def test_a_changed_constant_changes_the_functions_that_use_it() -> None:
    found = only(BEFORE, BEFORE.replace("LIMIT = 10", "LIMIT = 11"))
    assert (found.name, found.lines) == ("over", frozenset())
    assert only(BEFORE, BEFORE.replace("size = 3", "size = 4")).name == "Cart.full"


def test_a_constant_made_of_a_changed_one_is_changed_too() -> None:
    before = f"START = 5\nSTEPS = (START, START * 2)\n{BEFORE.replace('LIMIT = 10', 'LIMIT = STEPS[0] * 2')}"
    assert only(before, before.replace("START = 5", "START = 6")).name == "over"


def test_functions_of_other_modules_that_import_a_changed_constant_are_changed(task_sandbox_over) -> None:
    patterns = "RELEASE = '[0-9]+'\nVERSION = RELEASE + '[a-z]?'\nOTHER = 'x'\n"
    files = {
        "lib/patterns.py": patterns,
        "lib/parser.py": "from lib.patterns import VERSION as V\n\ndef parse():\n    return V\n\ndef other(): pass\n",
        "lib/far.py": "from lib.patterns import OTHER\n\ndef far():\n    return OTHER, 'VERSION'\n",
        "test_lib.py": "from lib.patterns import VERSION\n\ndef test():\n    return VERSION\n",
    }
    changes = [change(patterns, patterns.replace("[0-9]+", "[0-9.]+"), "lib/patterns.py")]
    with task_sandbox_over(files) as shop:
        found = changed_functions(changes, shop.base)
    assert [(one.label, one.lines) for one in found] == [("lib/parser.py::parse", frozenset())]


def test_comments_docstrings_and_annotations_change_nothing() -> None:
    after = BEFORE.replace("(n):", '(n: int) -> bool:\n    """Whether."""  # well')
    assert changed_functions([change(BEFORE, after)]) == ()


def test_tests_and_unreadable_files_are_left_out() -> None:
    assert changed_functions([change("def a(): 1", "def a(): 2", "tests/test_a.py")]) == ()
    assert changed_functions([change("def a(): 1", "def a(: 2")]) == ()


def test_added_and_removed_functions_are_told() -> None:
    added = only(BEFORE, f"{BEFORE}\ndef new():\n    return 1\n")
    assert added.before is None and added.after is not None
    removed = only(f"{BEFORE}\ndef new():\n    return 1\n", BEFORE)
    assert removed.after is None


def test_a_statement_over_several_lines_counts_as_a_whole() -> None:
    before = "def f(a):\n    return [\n        a,\n        1,\n    ]\n"
    assert only(before, before.replace("1,", "2,")).lines == {2, 3, 4, 5}


def test_names_for_tests() -> None:
    found = changed_functions(
        [change("class Cart:\n    def __init__(self): 1\n", "class Cart:\n    def __init__(self): 2\n")]
    )
    assert words_for_tests(found) == {"Cart"}
