"""What is read from one file."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.index.files import role
from scrout.index.python import python_imports
from scrout.index.symbols import language_of, parse_python, read_symbols
from scrout.index.words import count_words, split_identifier

from ..conftest import assert_linear

LANGUAGES = (
    *("python", "go", "javascript", "typescript", "tsx", "component", "java", "java-like"),
    *("ruby", "rust", "php", "c", "cpp", "header", ""),
)
SOURCES = Path(__file__).parents[2] / "src"

PYTHON = b'''import os, sys as system
from a.b import (  # why
    c as d,
    e,
)
from . import near
from .import_utils import thing
import late, \\
    later
"""
def nothing(): import nothing
"""
LIMIT: int = {
    "def no(): pass": 1,
}
FLAGS[LIMIT] = other.attribute = 1

@register(
    "x",
)
@second
class Stock:
    """Text that says
def nothing(): and class Nothing."""

    field = 1

    @property
    def put(
        self,
    ) -> int:
        return call("""
at the left""", "#",
"left again")
    # A comment after it is not part of it.

if True:
    async def later():
        def inner(): return 1
        class Local: pass
        from late import import_
'''


def test_python_has_qualified_names_spans_and_kinds() -> None:
    found = read_symbols(PYTHON, "python")
    assert [tuple(each) for each in found.definitions] == [
        ("LIMIT", 13, 15, 16, "constant"),
        ("Stock", 18, 34, 35, "class"),
        ("Stock.put", 28, 34, 32, "function"),
        ("later", 38, 41, 39, "function"),
        ("later.inner", 39, 39, 39, "function"),
        ("later.Local", 40, 40, 41, "class"),
    ]
    expected = "os sys a.b.c a.b.e .near .import_utils.thing late later late.import_"
    assert found.imports == tuple(expected.split())
    assert found.lines == 41


def test_python_that_does_not_parse_is_read_as_far_as_it_can_be() -> None:
    found = read_symbols(b"class A:\n    def f(self):\n        print 'x\n\nimport b.c\ndef g(:\n", "python")
    assert [(d.name, d.first, d.last) for d in found.definitions] == [("A", 1, 3), ("A.f", 2, 3), ("g", 6, 6)]
    assert found.imports == ("b.c",)


def _by_parser(body: list[ast.stmt], owner: str = "") -> set[tuple[str, int, int]]:
    found = set()
    for node in body:
        inner = owner
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{owner}.{node.name}" if owner else node.name
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            found.add((inner, first, node.end_lineno or 0))
        for part in (node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            for field in ("body", "orelse", "finalbody"):
                found |= _by_parser(getattr(part, field, []), inner)
    return found


@pytest.mark.parametrize("step", [6, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "all"])
def test_python_agrees_with_the_parser_on_real_code(step: int) -> None:
    same = total = 0
    paths = sorted((*SOURCES.rglob("*.py"), *Path(subprocess.__file__).parent.glob("[a-h]*.py")))
    for path in paths[::step]:
        data = path.read_bytes()
        if (parsed := parse_python(data.decode("utf-8"))) and (found := read_symbols(data, "python")).words is not None:
            expected = _by_parser(parsed.body)
            same += len(expected & {(d.name, d.first, d.last) for d in found.definitions})
            total += len(expected)
    assert total > 2_000 / step
    assert same >= 0.998 * total


@pytest.mark.parametrize(
    ("path", "source", "expected", "imports"),
    [
        (
            "a.ts",
            "import { x } from './x';\nexport { y } from 'y';\nexport class A<T> {\n  @once()\n  async go(x: T): P {\n"
            "    if (x) {\n    }\n  }\n  done = () => {\n  };\n}\nexport interface I {\n  m(): void;\n}\n"
            "export const LIMIT = 3;\nexport type U = 1;\n",
            "A 3-11 class, A.go 4-8 function, A.done 9-10 function, I 12-14 class, I.m 13-13 function,"
            " LIMIT 15-15 constant, U 16-16 class",
            "./x y",
        ),
        (
            "a.js",
            "const fs = require('fs');\nconst f = async (x) => {\n  return x;\n};\nfunction g() {\n}\n"
            "Foo.prototype.bar = function () {\n};\nmodule.exports.baz = () => import('./late');\n"
            "make(1).it = function () {};\n",
            "fs 1-1 constant, f 2-4 function, g 5-6 function, Foo.bar 7-8 function, baz 9-9 function,"
            " it 10-10 function",
            "./late fs",
        ),
        ("a.tsx", "export const View = () => {\n  return <p>{x}</p>;\n};\n", "View 1-3 function", ""),
        (
            "a.vue",
            "<template>\n</template>\n<script lang='ts'>\n"
            "import X from './X.vue';\nexport function go() {\n}\n</script>\n",
            "go 5-6 function",
            "./X.vue",
        ),
        (
            "a.go",
            'package a\n\nimport (\n\t"fmt"\n\tx "a/b"\n)\n\nconst Max = 3\n\n'
            "func (s *S[T]) Put(\n\tx int,\n) {\nAgain:\n\treturn `\nfunc Not() {`\n}\n\n"
            "var (\n\tA = 1\n\n\tB = []int{\n\t\t2,\n\t}\n)\n\ntype S[T any] struct {\n}\n\nfunc New() {}\n",
            "Max 8-8 constant, S.Put 10-16 function, A 19-19 constant, B 21-23 constant,"
            " S 26-27 class, New 29-29 function",
            "fmt a/b",
        ),
        (
            "a.rs",
            "use crate::a::{b, c::{self, D as E}};\nmod near;\nimpl<T> Show for S<T> {\n    #[inline]\n"
            "    pub fn put(&self) {\n    }\n}\n#[derive(Debug)]\n// Why.\npub struct S<T>(T);\nconst MAX: u8 = 1;\n",
            "S.put 4-6 function, S 8-10 class, MAX 11-11 constant",
            "crate::a::b crate::a::c crate::a::c::D self::near",
        ),
        (
            "A.java",
            "import a.b.C;\nimport static a.D.e;\nimport x.*;\n@Deprecated\npublic class A {\n"
            "  static final int MAX = 1;\n  @Override\n  private int f(int x) {\n    return g(x);\n"
            "  }\n  enum K { X }\n}\n",
            "A 4-12 class, A.MAX 6-6 constant, A.f 7-10 function, A.K 11-11 class, A.K.X 11-11 constant",
            "a.b.C a.D.e x.*",
        ),
        (
            "a.rb",
            "require 'json'\nrequire_relative \"a/b\"\nautoload :X, 'x/y'\nmodule M\n  class A::B < C\n    LIMIT = 3\n"
            "    def put?\n      1\n    end\n    def x=(v)\n    end\n    def self.make; end\n  end\nend\n",
            "M 4-14 class, M.A.B 5-13 class, M.A.B.LIMIT 6-6 constant, M.A.B.put? 7-9 function, "
            "M.A.B.x= 10-11 function, M.A.B.make 12-12 function",
            "json ./a/b x/y",
        ),
        (
            "a.php",
            "<?php\nuse A\\B\\{C, D as E};\nuse \\F\\G;\n#[Mark]\nclass A {\n  const X = 1;\n"
            "  public function f() {\n  }\n}\nfunction g() {}\n",
            "A 4-9 class, A.X 6-6 constant, A.f 7-8 function, g 10-10 function",
            r"A\B\C A\B\D F\G",
        ),
        (
            "a.c",
            '#include "a.h"\n#include <b.h>\nstatic int *\nx;\nint main(int n)\n{\n  run(n);\n}\n#define MAX 3\n'
            "void (*handler(int x))(void) {\n}\ntypedef struct node {\n  int x;\n} node_t;\n",
            "main 5-8 function, MAX 9-9 constant, handler 10-11 function, node_t 12-14 class, node 12-14 class",
            "a.h b.h",
        ),
        (
            "a.h",
            "#include <vector>\nnamespace n {\ntemplate <typename T>\nclass A : B<T> {\n"
            "  int& get() const { return x; }\n};\n}\nint n::A<int>::put(int x) {\n}\n",
            "A 3-6 class, A.get 5-5 function, n.A.put 8-9 function",
            "vector",
        ),
        ("a.kt", "class A {\n  fun go(x: Int) {\n  }\n}\n", "A 1-4 class, A.go 2-3 function", ""),
    ],
)
def test_other_languages(path: str, source: str, expected: str, imports: str) -> None:
    found = read_symbols(source.encode(), language_of(path, role(path)))
    assert ", ".join(f"{d.name} {d.first}-{d.last} {d.kind}" for d in found.definitions) == expected
    assert found.imports == tuple(imports.split())


def test_what_runs_on_import_ends_where_a_body_begins() -> None:
    found = read_symbols(b"function f(a,\n  b)\n{\n}\nclass A {\n}\n", "javascript")
    assert [(d.name, d.body) for d in found.definitions] == [("f", 3), ("A", 7)]


def test_a_file_too_large_for_a_grammar_gets_an_outline() -> None:
    large = "class A {\n  go() {\n  }\n}\n" + "// a comment\n" * 20_000
    assert [d.name for d in read_symbols(large.encode(), "javascript").definitions] == ["A", "A.go"]


def test_identifiers_are_split_by_case_and_underscore() -> None:
    assert split_identifier("parseHTML_page") == ("parsehtml_page", "parse", "html", "page")
    assert count_words("readConfig(config)") == {"readconfig": 1, "read": 1, "config": 2}
    assert count_words("größe_x") == {"größe_x": 1, "gr": 1, "öß": 1}


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


# Pieces that grammars and scanners care about, so that random text reaches more than their first error.
PIECES = st.lists(
    st.sampled_from(
        [
            *"(){}[]<>'\"#`\\;:=,.@ab \n\t\r\f\x01\x00é",
            *('"""', "'''", "//", "/*", "*/", "\\\n", "\n    ", "<?php ", "<script>", "</script>"),
            *(
                "def ",
                "class ",
                "func ",
                "fn ",
                "import ",
                "from ",
                "use ",
                "struct ",
                "impl ",
                "module ",
                "end",
                "function ",
            ),
        ]
    ),
    max_size=60,
).map(lambda pieces: "".join(pieces).encode())


@given(st.one_of(PIECES, st.binary(max_size=300)), st.sampled_from(LANGUAGES))
def test_no_content_breaks_the_reader(data: bytes, language: str) -> None:
    found = read_symbols(data, language)
    assert all(1 <= d.first <= d.last <= max(found.lines, 1) for d in found.definitions), found
    assert all(d.first <= d.body <= d.last + 1 for d in found.definitions), found
    assert all(name and name.isprintable() for name in (*found.imports, *(d.name for d in found.definitions)))
    assert list(found.definitions) == sorted(found.definitions, key=lambda d: d.first)


@pytest.mark.parametrize(
    "piece",
    [
        "(",
        "(\n",
        "class a {\n",
        '\\"""',
        "\\'''" * 50 + "\n",
        "a=b<\n",
    ],
    ids=["open", "lines", "classes", "quotes", "more-quotes", "generics"],
)
@pytest.mark.parametrize(
    "language",
    [
        "python",
        "typescript",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("go", "java", "cpp", "ruby", "rust")),
    ],
)
def test_hostile_content_is_read_in_time(piece: str, language: str) -> None:
    # The recovery of some grammars grows faster than the text until it gives up.
    size = 6_000 if language in ("python", "typescript") else 24_000
    assert_linear(lambda text: read_symbols(text.encode(), language), piece, size)


@given(st.text(alphabet="fromimport as.,x\n\t ()\\", max_size=200))
def test_imports_never_contain_blanks(text: str) -> None:
    assert all(name and not any(letter.isspace() or letter == "," for letter in name) for name in python_imports(text))
