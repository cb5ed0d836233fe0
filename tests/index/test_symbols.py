"""What is read from one file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.index.files import role
from scrout.index.symbols import count_words, language_of, python_imports, read_symbols, split_identifier

PYTHON = b'''import os, sys as system
from a.b import c as d
from . import near
from ..far import thing

class Stock:
    """Text that says def nothing(): and class Nothing."""

    @property
    def put(self):
        return 1

if True:
    async def later():
        from late import import_
'''


def test_python_definitions_have_qualified_names_and_spans() -> None:
    found = read_symbols(PYTHON, "python")
    assert [(d.name, d.first, d.last, d.body) for d in found.definitions] == [
        ("Stock", 6, 11, 12),
        ("Stock.put", 9, 11, 11),
        ("later", 14, 15, 15),
    ]
    assert set(found.imports) == {"os", "sys", "a.b.c", ".near", "..far.thing", "late.import_"}


def test_python_that_does_not_parse_is_outlined() -> None:
    found = read_symbols(b"class A:\n    def f(self):\n        print 'x'\n\nimport b.c\n", "python")
    assert [(d.name, d.first, d.last) for d in found.definitions] == [("A", 1, 3), ("A.f", 2, 3)]
    assert found.imports == ("b.c",)


@pytest.mark.parametrize(
    ("path", "source", "expected"),
    [
        (
            "a.ts",
            "export class A {\n  async go(x: T): P {\n    if (x) {\n    }\n  }\n}\n",
            [("A", 1, 6), ("A.go", 2, 5)],
        ),
        ("a.js", "const f = async (x) => {\n  return x;\n};\nfunction g() {\n}\n", [("f", 1, 3), ("g", 4, 5)]),
        ("a.go", "func (s *S) Put(x int) {\n\treturn\n}\n\ntype S struct {\n}\n", [("Put", 1, 3), ("S", 5, 6)]),
        ("a.rs", "impl S {\n    pub fn put(&self) {\n    }\n}\npub struct S;\n", [("put", 2, 3), ("S", 5, 5)]),
        (
            "A.java",
            "public class A {\n  private int f(int x) {\n    return g(x);\n  }\n}\n",
            [("A", 1, 5), ("A.f", 2, 4)],
        ),
        ("a.rb", "class A\n  def put?\n    1\n  end\nend\n", [("A", 1, 5), ("A.put?", 2, 4)]),
        ("a.php", "<?php\nclass A {\n  public function f() {\n  }\n}\n", [("A", 2, 5), ("A.f", 3, 4)]),
        ("a.c", "static int *\nx;\nint main(int n)\n{\n  run(n);\n}\n#define MAX 3\n", [("main", 3, 6), ("MAX", 7, 7)]),
    ],
)
def test_other_languages_are_outlined(path: str, source: str, expected: list[tuple[str, int, int]]) -> None:
    found = read_symbols(source.encode(), language_of(path, role(path)))
    assert [(d.name, d.first, d.last) for d in found.definitions] == expected


def test_identifiers_are_split_by_case_and_underscore() -> None:
    assert split_identifier("parseHTML_page") == ("parsehtml_page", "parse", "html", "page")
    assert count_words("readConfig(config)") == {"readconfig": 1, "read": 1, "config": 2}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src/app/core.py", "source"),
        ("src/testing/core.py", "source"),
        ("tests/core.py", "test"),
        ("app/test_core.py", "test"),
        ("web/core.spec.ts", "test"),
        ("docs/conf.py", "docs"),
        ("README.md", "docs"),
        ("CHANGELOG.md", "changelog"),
        ("app/history.py", "source"),
        ("app/changes/core.py", "source"),
        ("examples/core.py", "example"),
        ("pyproject.toml", "config"),
        ("data/x.json", "data"),
    ],
)
def test_a_path_tells_what_a_file_is_for(path: str, expected: str) -> None:
    assert role(path) == expected


@given(
    st.binary(max_size=400), st.sampled_from(["", "python", "python-outline", "javascript", "java", "c", "go", "rust"])
)
def test_no_content_breaks_the_reader(data: bytes, language: str) -> None:
    found = read_symbols(data, language)
    lines = data.decode("utf-8", errors="replace").splitlines()
    assert all(1 <= d.first <= d.last <= max(len(lines), 1) for d in found.definitions)


@pytest.mark.parametrize("hostile", ["(" * 100_000, "-" * 200_000 + "1", "class a {\n" * 50_000, "a " * 140 + "\n"])
def test_hostile_content_is_read_in_time(hostile: str) -> None:
    for language in ("python", "java", "c", "javascript"):
        read_symbols(hostile.replace(" ", "  ").encode(), language)


@given(st.text(alphabet="fromimport as.,x\n\t ()", max_size=200))
def test_imports_never_contain_blanks(text: str) -> None:
    assert all(name and not any(letter.isspace() or letter == "," for letter in name) for name in python_imports(text))
