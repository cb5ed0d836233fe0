"""Flags: each kind is raised by a patch that deserves it, and not by its harmless neighbour."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.check.flags import MOST_ADDED_LINES, MOST_NAME_CHARS, flags, patch_flags
from scrout.check.patch import FileChange, read_patch

Tree = Mapping[str, str | bytes | None]
Flagged = Callable[[Tree, Tree], tuple[str, ...]]


@pytest.fixture
def flagged(make_repo: Callable[..., Path]) -> Flagged:
    """flagged(before, after): the flags of the patch between two trees; None takes a file away."""

    def flag(before: Tree, after: Tree) -> tuple[str, ...]:
        repo = make_repo({path: content for path, content in before.items() if content is not None})
        for path, content in after.items():
            (repo / path).unlink(missing_ok=True)
            if content is not None:
                (repo / path).parent.mkdir(parents=True, exist_ok=True)
                (repo / path).write_bytes(content if isinstance(content, bytes) else content.encode())
        git(repo, "add", "--all")
        changes = read_patch(git(repo, "diff", "--cached", "--binary", "--full-index").decode())
        texts = {**before, **after}
        return flags(
            [replace(change, before=text(before, change.old), after=text(texts, change.new)) for change in changes]
        )

    return flag


def git(repo: Path, *args: str) -> bytes:
    return subprocess.run(["git", *args], cwd=repo, check=True, capture_output=True).stdout


def text(tree: Tree, path: str | None) -> str | None:
    content = tree.get(path) if path else None
    return content if isinstance(content, str) else None


CODE = {"shop/cart.py": "total = 1\n"}
FIX = {"shop/cart.py": "total = 2\n"}
TESTS = """\
import unittest

import pytest

LIMIT = 5

def helper():
    return LIMIT

class TestCart(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total(), 3)
        self.assertAlmostEqual(tax(), 0.19, places=7)

    def test_empty(self):
        with self.assertRaises(ValueError):
            total(None)

@pytest.mark.parametrize("given", [1, 2])
def test_given(given):
    value = total(given)
    assert value == pytest.approx(given, abs=1e-9)
"""
GIVEN = TESTS[TESTS.index("@pytest") :]


def one(found: tuple[str, ...]) -> str:
    assert len(found) == 1, found
    return found[0]


def edited(flagged: Flagged, old: str, new: str) -> tuple[str, ...]:
    assert old in TESTS
    path = "tests/test_cart.py"
    return flagged({**CODE, path: TESTS}, {**FIX, path: TESTS.replace(old, new)})


def test_a_plain_fix_has_no_flags(flagged: Flagged) -> None:
    assert flagged({**CODE, "tests/test_cart.py": TESTS}, FIX) == ()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("import pytest\n", "import pytest\nfrom shop import total\n"),
        ("class TestCart", "def test_more():\n    assert total(7) == 7\n\nclass TestCart"),
        ("class TestCart", "@pytest.mark.skip\ndef test_later():\n    assert total(7) == 7\n\nclass TestCart"),
        ("LIMIT = 5\n", "LIMIT = 5  # five\n\n\n"),
    ],
)
def test_more_tests_are_no_reason_for_a_flag(flagged: Flagged, old: str, new: str) -> None:
    assert edited(flagged, old, new) == ()


def test_a_new_test_file_is_no_reason_for_a_flag(flagged: Flagged) -> None:
    assert flagged(CODE, {**FIX, "tests/test_cart.py": TESTS}) == ()


def test_a_deleted_test_file(flagged: Flagged) -> None:
    before = {**CODE, "tests/test_cart.py": TESTS, "web/cart.test.ts": "it('adds', () => {})\n"}
    after = {**FIX, "tests/test_cart.py": None, "web/cart.test.ts": None}
    assert one(flagged(before, after)) == "deletes a test file: tests/test_cart.py, web/cart.test.ts"


@pytest.mark.parametrize("new", ["tests/cart.py", "shop/old_cart.py"])
def test_a_test_file_renamed_away(flagged: Flagged, new: str) -> None:
    found = flagged({**CODE, "tests/test_cart.py": TESTS}, {**FIX, "tests/test_cart.py": None, new: TESTS})
    assert one(found) == "deletes a test file: tests/test_cart.py"


def test_a_test_file_that_only_moves(flagged: Flagged) -> None:
    before = {**CODE, "tests/test_cart.py": TESTS}
    assert flagged(before, {**FIX, "tests/test_cart.py": None, "tests/shop/test_cart.py": TESTS}) == ()


@pytest.mark.parametrize(
    ("old", "new", "lost"),
    [
        ("def test_given(given)", "def check_given(given)", "test_given"),
        ("def test_empty(self)", "def empty(self)", "TestCart.test_empty"),
        ("class TestCart(", "class Cart(", "TestCart.test_empty, tests/test_cart.py::TestCart.test_total"),
        (GIVEN, "", "test_given"),
        ("class TestCart", '"""\nclass TestCart', ""),
    ],
)
def test_a_deleted_or_renamed_test(flagged: Flagged, old: str, new: str, lost: str) -> None:
    if lost:
        assert one(edited(flagged, old, new)) == f"deletes or renames a test: tests/test_cart.py::{lost}"
    else:
        assert "leaves Python that cannot be parsed: tests/test_cart.py" in edited(flagged, old, new)


def test_a_test_that_moves_to_another_file_is_not_lost(flagged: Flagged) -> None:
    before = {**CODE, "tests/test_cart.py": TESTS}
    after = {"tests/test_cart.py": TESTS.removesuffix(GIVEN), "tests/test_given.py": "import pytest\n" + GIVEN}
    assert flagged(before, {**FIX, **after}) == ()


def test_a_test_is_not_kept_by_another_of_its_name(flagged: Flagged) -> None:
    other = "def test_given():\n    assert total()\n"
    before = {**CODE, "tests/test_cart.py": TESTS, "tests/test_other.py": other}
    after = {"tests/test_cart.py": TESTS.removesuffix(GIVEN), "tests/test_other.py": other + "\n\nX = 1\n"}
    assert one(flagged(before, {**FIX, **after})) == "deletes or renames a test: tests/test_cart.py::test_given"


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("    def test_total", "    @unittest.skip('later')\n    def test_total", "::TestCart.test_total"),
        ("    def test_total", "    @unittest.expectedFailure\n    def test_total", "::TestCart.test_total"),
        ("class TestCart", "@unittest.skipIf(True, '')\nclass TestCart", "::TestCart"),
        (
            "class TestCart(unittest.TestCase):\n",
            "class TestCart(unittest.TestCase):\n    __test__ = False\n",
            "::TestCart",
        ),
        ("@pytest.mark.para", "@pytest.mark.xfail\n@pytest.mark.para", "::test_given"),
        ("@pytest.mark.para", "@pytest.mark.skipif(True, reason='')\n@pytest.mark.para", "::test_given"),
        ("    value = ", "    pytest.skip('not now')\n    value = ", "::test_given"),
        ("[1, 2]", "[1, pytest.param(2, marks=pytest.mark.skip)]", "::test_given"),
        ("LIMIT = 5", "LIMIT = 5\npytestmark = pytest.mark.skip", ""),
        ("    return LIMIT", "    raise unittest.SkipTest('no')", ""),
    ],
)
def test_a_newly_skipped_test(flagged: Flagged, old: str, new: str, where: str) -> None:
    assert f"skips a test: tests/test_cart.py{where}" in edited(flagged, old, new)


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("        self.assertAlmostEqual(tax(), 0.19, places=7)\n", "", "TestCart.test_total"),
        (
            "        with self.assertRaises(ValueError):\n            total(None)\n",
            "        pass\n",
            "TestCart.test_empty",
        ),
        ("    assert value == pytest.approx(given, abs=1e-9)\n", "    print(value)\n", "test_given"),
    ],
)
def test_removed_assertions(flagged: Flagged, old: str, new: str, where: str) -> None:
    assert one(edited(flagged, old, new)) == f"removes assertions from a test: tests/test_cart.py::{where}"


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("total(), 3", "total(), 4", "TestCart.test_total"),
        ("places=7", "places=1", "TestCart.test_total"),
        ("abs=1e-9", "abs=1e9", "test_given"),
        ("assertRaises(ValueError)", "assertRaises(Exception)", "TestCart.test_empty"),
        ("[1, 2]", "[1]", "test_given"),
        ("assert value == pytest.approx(given, abs=1e-9)", "assert True", "test_given"),
    ],
)
def test_changed_expectations(flagged: Flagged, old: str, new: str, where: str) -> None:
    assert one(edited(flagged, old, new)) == f"changes what a test expects: tests/test_cart.py::{where}"


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("    value = total(given)\n", "    value = total(given)\n    return\n", "::test_given"),
        ("    value = total(given)\n", "    value = given\n", "::test_given"),
        ("LIMIT = 5", "LIMIT = 6", ""),
        (GIVEN, f"if 0:\n{GIVEN}".replace("\n", "\n  "), "::test_given"),
        ("unittest.TestCase", "object", "::TestCart"),
        ("    return LIMIT", "    return 6", ""),
    ],
)
def test_other_changes_of_a_test(flagged: Flagged, old: str, new: str, where: str) -> None:
    assert one(edited(flagged, old, new)) == f"changes a test: tests/test_cart.py{where}"


JS = "describe('cart', () => {\n  it('adds', () => {\n    expect(add(1)).toBe(2)\n    note()\n  })\n})\n"
GO = 'func TestAdd(t *testing.T) {\n\tif add(1) != 2 {\n\t\tt.Errorf("no")\n\t}\n}\n'
JAVA = "class CartTest {\n  @Test\n  public void adds() {\n    assertEquals(2, add(1));\n  }\n}\n"
RUST = "pub fn add() {}\n#[cfg(test)]\nmod tests {\n  #[test]\n  fn adds() {\n    assert_eq!(add(1), 2);\n  }\n}\n"
RUBY = "describe 'cart' do\n  it 'adds' do\n    expect(add(1)).to eq(2)\n  end\nend\n"
PHP = "<?php class CartTest {\n  function testAdds() {\n    $this->assertSame(2, add(1));\n  }\n}\n"


@pytest.mark.parametrize(
    ("path", "before", "old", "new", "flag"),
    [
        ("src/cart.test.ts", JS, "it('adds'", "it.skip('adds'", "skips a test: src/cart.test.ts"),
        ("src/cart.test.ts", JS, "it('adds'", "xit('adds'", "skips a test: src/cart.test.ts"),
        ("src/cart.test.ts", JS, "describe('cart'", "describe.skip('cart'", "skips a test: src/cart.test.ts"),
        ("src/cart.test.ts", JS, "it('adds'", "it('is'", "deletes or renames a test: src/cart.test.ts::adds"),
        (
            "src/cart.test.ts",
            JS,
            "    expect(add(1)).toBe(2)\n",
            "",
            "removes assertions from a test: src/cart.test.ts",
        ),
        ("src/cart.test.ts", JS, "    expect", "    // expect", "removes assertions from a test: src/cart.test.ts"),
        ("src/cart.test.ts", JS, "toBe(2)", "toBe(3)", "changes what a test expects: src/cart.test.ts"),
        ("src/cart.test.ts", JS, "note()", "mute()", "changes a test: src/cart.test.ts"),
        ("cart_test.go", GO, "\tif add", "\tt.Skip()\n\tif add", "skips a test: cart_test.go"),
        ("cart_test.go", GO, "func TestAdd", "func testAdd", "deletes or renames a test: cart_test.go::TestAdd"),
        ("cart_test.go", GO, '\t\tt.Errorf("no")\n', "", "removes assertions from a test: cart_test.go"),
        ("src/test/CartTest.java", JAVA, "  @Test\n", "  @Test\n  @Disabled\n", "skips a test: src/test/CartTest.java"),
        ("src/test/CartTest.java", JAVA, "  @Test\n", "  @Ignore @Test\n", "skips a test: src/test/CartTest.java"),
        (
            *("src/test/CartTest.java", JAVA, "  @Test\n", ""),
            "deletes or renames a test: src/test/CartTest.java::adds",
        ),
        ("src/test/CartTest.java", JAVA, "(2,", "(3,", "changes what a test expects: src/test/CartTest.java"),
        ("src/cart.rs", RUST, "  #[test]\n", "  #[test]\n  #[ignore]\n", "skips a test: src/cart.rs"),
        ("src/cart.rs", RUST, "  #[test]\n", "", "deletes or renames a test: src/cart.rs::adds"),
        ("spec/cart_spec.rb", RUBY, "  it 'adds'", "  xit 'adds'", "skips a test: spec/cart_spec.rb"),
        ("spec/cart_spec.rb", RUBY, "eq(2)", "eq(3)", "changes what a test expects: spec/cart_spec.rb"),
        (
            "tests/CartTest.php",
            PHP,
            "{\n    $",
            "{\n    $this->markTestSkipped();\n    $",
            "skips a test: tests/CartTest.php",
        ),
        ("tests/CartTest.php", PHP, "testAdds", "adds", "deletes or renames a test: tests/CartTest.php::testAdds"),
    ],
)
def test_other_languages(flagged: Flagged, path: str, before: str, old: str, new: str, flag: str) -> None:
    assert old in before
    assert one(flagged({**CODE, path: before}, {**FIX, path: before.replace(old, new)})) == flag


@pytest.mark.parametrize(
    ("path", "before", "more"),
    [
        ("src/cart.test.ts", JS, "it('doubles', () => { expect(add(2)).toBe(4) })\n"),
        ("cart_test.go", GO, 'func TestTwo(t *testing.T) {\n\tt.Error("no")\n}\n'),
        ("src/test/CartTest.java", JAVA, "class More { @Test void more() { assertTrue(add()); } }\n"),
        ("src/cart.rs", RUST, "#[cfg(test)]\nmod more { #[test] fn more() { assert!(add()); } }\n"),
    ],
)
def test_more_tests_in_other_languages(flagged: Flagged, path: str, before: str, more: str) -> None:
    assert flagged({**CODE, path: before}, {**FIX, path: before + more}) == ()


def test_rust_code_may_change_its_own_assertions(flagged: Flagged) -> None:
    before = {"src/cart.rs": "fn add() {\n  assert!(ready());\n}\n"}
    assert flagged(before, {"src/cart.rs": "fn add() {\n  wait();\n}\n"}) == ()


def test_what_tests_stand_on(flagged: Flagged) -> None:
    found = flagged({**CODE, "tests/data/cart.json": "[1]\n"}, {**FIX, "tests/data/cart.json": "[2]\n"})
    assert one(found) == "changes what tests stand on: tests/data/cart.json"


def test_a_test_too_large_to_be_read_is_told_as_changed(flagged: Flagged) -> None:
    before = {**CODE, "tests/test_cart.py": TESTS.encode()}  # bytes are given without their text
    found = flagged(before, {**FIX, "tests/test_cart.py": TESTS.replace("3", "4").encode()})
    assert one(found) == "changes a test: tests/test_cart.py"


def test_an_expression_too_deep_to_be_read_stops_nothing(flagged: Flagged) -> None:
    deep = f"def test_deep():\n    assert {'+'.join('1' * 5000)}\n"
    found = flagged({**CODE, "test_deep.py": deep}, {**FIX, "test_deep.py": deep.replace("assert", "assert 1 +")})
    assert found == ("changes a test: test_deep.py",)


PYPROJECT = "[project]\nname = 'shop'\n[tool.pytest.ini_options]\naddopts = '-q'\n"
PACKAGE = '{"scripts": {"test": "jest", "build": "tsc"}, "version": "1"}'
SETUP = "[metadata]\nname = shop\n[tool:pytest]\naddopts = -q\n"


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("tests/conftest.py", None, "collect_ignore = ['test_cart.py']\n"),
        ("conftest.py", "x = 1\n", "x = 2\n"),
        ("pytest.ini", None, "[pytest]\naddopts = -k nothing\n"),
        ("tox.ini", "[tox]\n", "[pytest]\naddopts = --ignore=tests\n"),
        ("pyproject.toml", PYPROJECT, PYPROJECT.replace("-q", "--deselect tests/test_cart.py")),
        ("pyproject.toml", PYPROJECT, "[tool\n"),
        ("setup.cfg", SETUP, SETUP.replace("-q", "-k nothing")),
        ("package.json", PACKAGE, PACKAGE.replace("jest", "true")),
        ("package.json", PACKAGE, "[" * 40_000),
        ("pyproject.toml", PYPROJECT, "a." * 200_000),
        (".github/workflows/test.yml", "on: push\n", "on: never\n"),
        (".gitlab-ci.yml", None, "test: {script: 'true'}\n"),
        ("jest.config.js", None, "module.exports = {}\n"),
    ],
)
def test_settings_of_tests(flagged: Flagged, path: str, before: str | None, after: str) -> None:
    assert one(flagged({**CODE, path: before}, {**FIX, path: after})) == f"changes how tests are chosen or run: {path}"


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("pyproject.toml", PYPROJECT, PYPROJECT.replace("shop", "store")),
        ("setup.cfg", SETUP, SETUP.replace("shop", "store")),
        ("package.json", PACKAGE, PACKAGE.replace("tsc", "tsc -b").replace("1", "2")),
    ],
)
def test_other_settings_are_no_reason_for_a_flag(flagged: Flagged, path: str, before: str, after: str) -> None:
    assert flagged({**CODE, path: before}, {**FIX, path: after}) == ()


@pytest.mark.parametrize(
    "path",
    ["node_modules/left/pad.js", "pkg/_vendor/six.py", "uv.lock", "go.sum", "static/app.min.js", "api/shop_pb2.py"],
)
def test_files_that_nobody_writes(flagged: Flagged, path: str) -> None:
    found = flagged({**CODE, path: "old\n"}, {**FIX, path: "new = 1\n"})
    assert one(found) == f"changes vendored, generated or lock files: {path}"


@pytest.mark.parametrize("path", ["pytest.py", "json.py", "xml/__init__.py"])
def test_a_module_in_the_place_of_a_runners(flagged: Flagged, path: str) -> None:
    words = "adds a module that takes the place of one that test runners import"
    assert one(flagged(CODE, {**FIX, path: "one = 1\n"})) == f"{words}: {path}"


@pytest.mark.parametrize(("path", "before"), [("json.py", "one = 0\n"), ("lib/json.py", None)])
def test_a_module_that_was_there_or_lies_deeper_takes_no_place(flagged: Flagged, path: str, before: str | None) -> None:
    assert flagged({**CODE, path: before}, {**FIX, path: "one = 1\n"}) == ()


def test_a_file_that_says_it_is_generated(flagged: Flagged) -> None:
    found = flagged({"api.go": "// Code generated by protoc. DO NOT EDIT.\nold\n"}, {"api.go": "new\n"})
    assert one(found) == "changes vendored, generated or lock files: api.go"


def test_binary_files_and_much_text(flagged: Flagged) -> None:
    assert one(flagged(CODE, {**FIX, "logo.bin": b"\0\1"})) == "has a binary file: logo.bin"


@pytest.mark.parametrize(("lines", "length", "is_flagged"), [(1900, 10, False), (2100, 10, True), (20, 60_000, True)])
def test_large_additions(flagged: Flagged, lines: int, length: int, is_flagged: bool) -> None:
    found = flagged(CODE, {**FIX, "shop/table.py": f"# {'x' * length}\n" * lines})
    assert any(flag.startswith("adds a lot: ") for flag in found) is is_flagged
    assert MOST_ADDED_LINES == 2000


def test_a_large_binary_file_is_a_lot(flagged: Flagged) -> None:
    found = flagged(CODE, {**FIX, "big.bin": b"\0" * 1_500_000})
    assert found == ("has a binary file: big.bin", "adds a lot: 1 lines, 1,500,010 bytes")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"docs/a.md": "a\n"}, {"docs/a.md": "b\n"}),
        ({"README.md": "a\n", "CHANGES.rst": "x\n"}, {"README.md": "b\n", "CHANGES.rst": "y\n"}),
        ({}, {"tests/test_new.py": "def test_new():\n    pass\n"}),
    ],
)
def test_a_patch_beside_the_code(flagged: Flagged, before: Tree, after: Tree) -> None:
    assert one(flagged(before, after)) == "changes nothing but tests, documentation or examples"


def test_requirements_are_not_documentation(flagged: Flagged) -> None:
    assert flagged({"requirements.txt": "a==1\n"}, {"requirements.txt": "a==2\n"}) == ()


@pytest.mark.parametrize("after", ["if x:\n        y = 1\n", "if x:\n\n    y = 1\n", "if x:\n    y = 1   \n"])
def test_a_patch_of_whitespace(flagged: Flagged, after: str) -> None:
    found = flagged({"a.py": "if x:\n    y = 1\n"}, {"a.py": after})
    assert one(found) == "changes nothing but whitespace or file modes"


def test_python_that_cannot_be_parsed(flagged: Flagged) -> None:
    assert one(flagged(CODE, {"shop/cart.py": "def :\n"})) == "leaves Python that cannot be parsed: shop/cart.py"


def test_python_of_another_version_was_never_parsed(flagged: Flagged) -> None:
    assert flagged({"old.py": "print 'x'\n"}, {"old.py": "print 'y'\n"}) == ()


def link(path: str, target: str) -> str:
    head = f"diff --git a/{path} b/{path}\nnew file mode 120000\nindex 0..1\n--- /dev/null\n+++ b/{path}\n"
    return f"{head}@@ -0,0 +1 @@\n+{target}\n\\ No newline at end of file\n"


@pytest.mark.parametrize(
    ("path", "target", "leaves"),
    [
        ("shop/link", "cart.py", False),
        ("shop/link", "../cart.py", False),
        ("shop/link", "../../cart.py", True),
        ("shop/link", "/etc/passwd", True),
        ("shop/link", "../.git/config", True),
        ("shop/link", "a/../../../x", True),
    ],
)
def test_symlinks(path: str, target: str, leaves: bool) -> None:
    found = patch_flags(read_patch(link(path, target)))
    assert f"has a symlink: {path} -> {target}" in found
    assert (f"leaves the repository or enters .git: {path}" in found) is leaves


@pytest.mark.parametrize("path", ["../x.py", "/etc/x.py", ".git/hooks/pre-commit", "sub/.GIT/config", "a/../../x"])
def test_paths_outside(path: str) -> None:
    patch = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"
    assert f"leaves the repository or enters .git: {path}" in patch_flags(read_patch(patch))


def test_a_submodule() -> None:
    patch = (
        "diff --git a/lib b/lib\nindex 1..2 160000\n--- a/lib\n+++ b/lib\n@@ -1 +1 @@\n-Subproject 1\n+Subproject 2\n"
    )
    assert one(patch_flags(read_patch(patch))) == "changes a submodule: lib"


def test_a_flag_names_three_places_and_counts_the_others(flagged: Flagged) -> None:
    vendored = {f"vendor/{number}.c": "int x;\n" for number in range(9)}
    assert one(flagged(CODE, {**FIX, **vendored})).endswith(": vendor/0.c, vendor/1.c, vendor/2.c and 6 more")


def test_any_name_can_be_stored_and_printed() -> None:
    names = ['"b/vendor/\\377\\033[31m.c"', f"b/vendor/{'x' * 1000}.c"]
    for name in names:
        patch = (
            f"diff --git {name.replace('b/', 'a/', 1)} {name}\nnew file mode 100644\n+++ {name}\n@@ -0,0 +1 @@\n+x\n"
        )
        flag = one(patch_flags(read_patch(patch)))
        assert flag.isprintable() and flag.encode() and len(flag) < MOST_NAME_CHARS + 100


PIECES = st.sampled_from(
    [
        *("def test_a():\n", "    assert x\n", "class A:\n", "[tool.pytest]\n", "a = 1\n", '"', "{", "\0", "(", "\t"),
        *(
            "@Test void a() {",
            "it('a'",
            "#[test] fn a",
            "func TestA(",
            "@generated",
            "\\",
            "\r",
            "é",
            "\n",
            "if 0:\n  ",
        ),
    ]
)
TEXT = st.none() | st.lists(PIECES, max_size=12).map("".join)
PATHS = ("test_a.py", "conftest.py", "pyproject.toml", "setup.cfg", "package.json", "a_test.go", "a.test.js", "a.rs")


@given(path=st.sampled_from(PATHS), before=TEXT, after=TEXT)
def test_no_text_stops_the_flags(path: str, before: str | None, after: str | None) -> None:
    change = FileChange(path, path, "", before=before, after=after, added=("a",), removed=("b",))
    assert all(flag.isprintable() for flag in flags([change]))
