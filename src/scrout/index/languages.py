"""The languages with a grammar: queries for the syntax tree, and the spelling of imports.

A query captures `@class`, `@function` and `@constant` (definitions), `@scope` (gives its name to the definitions
inside, and is not a definition), `@attribute` (a decorator: belongs to the definition after it) and `@import`, or
`@import.x` if there are several forms. Python and Go are read without a grammar, in `python` and `go`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

_MAX_EXPANDED = 500


class Grammar(NamedTuple):
    """The parser of a language, and its query."""

    module: str
    function: str
    query: str
    imports: Callable[[str, str], Iterator[str]]
    """Called with an import's text and the suffix of its capture."""
    calls: re.Pattern[bytes] | None = None
    """Functions whose calls are imports; a query that tests the name of every call takes longer than the parser."""


def _quoted(text: str, form: str) -> Iterator[str]:
    """The text between the quotes or brackets; a Ruby `require_relative "x"` is `./x`."""
    name = text.strip("'\"`<>")
    yield f"./{name}" if form == "relative" and not name.startswith(".") else name


def _java(text: str, form: str) -> Iterator[str]:
    """`a.b.C`, `a.b.*`, and `a.b.C.member` for a static one."""
    yield re.sub(r"^import\s+(static\s)?|[\s;]", "", text)


def _rust(text: str, form: str) -> Iterator[str]:
    """`crate::a::b`, one for each name in braces; `mod x;` is `self::x`."""
    yield from (f"self::{text}",) if form == "module" else _expanded(text, "::")


def _php(text: str, form: str) -> Iterator[str]:
    r"""`A\B\C`, one for each name in braces, without a leading backslash."""
    plain = re.sub(r"^use\s+|;|\b(function|const)\s", "", text)
    yield from (name.lstrip("\\") for name in _expanded(plain, "\\"))


def _expanded(text: str, separator: str) -> Iterator[str]:
    """The paths of a list with braces, without aliases."""
    prefixes = [""]
    count = 0
    path = ""
    for token in re.findall(r"[{},]|[^{},]+", re.sub(r"//[^\n]*+(?:\s++as\s++\w+)?|(?<!\s)\s++as\s++\w+", "", text)):
        if token == "{":
            prefixes.append(prefixes[-1] + path)
        elif token not in ",}":
            path = "".join(token.split())
            continue
        elif path:
            whole = (prefixes[-1] + path).removesuffix(f"{separator}self")
            yield whole
            count += 1
        if token == "}" and len(prefixes) > 1:
            prefixes.pop()
        path = ""
        if count > _MAX_EXPANDED or len(prefixes) > 20:
            return
    if path:
        yield prefixes[-1] + path


_JAVASCRIPT = """
(function_declaration) @function
(generator_function_declaration) @function
(class_declaration) @class
(variable_declarator name: (identifier) value: (class)) @class
(method_definition) @function
(decorator) @attribute
(variable_declarator name: (identifier) value: [(arrow_function) (function_expression) (generator_function)]) @function
(assignment_expression left: (member_expression) right: [(arrow_function) (function_expression)]) @function
(assignment_expression left: (member_expression) right: (class)) @class
(pair key: (property_identifier) value: [(arrow_function) (function_expression)]) @function
(program (lexical_declaration (variable_declarator name: (identifier)) @constant))
(program (variable_declaration (variable_declarator name: (identifier)) @constant))
(program (export_statement (lexical_declaration (variable_declarator name: (identifier)) @constant)))
(import_statement source: (string) @import)
(export_statement source: (string) @import)
(call_expression function: (import) arguments: (arguments . (string) @import))
"""
_ONLY_JAVASCRIPT = """
(field_definition property: (_) value: [(arrow_function) (function_expression)]) @function
"""
_ONLY_TYPESCRIPT = """
(abstract_class_declaration) @class
(interface_declaration) @class
(type_alias_declaration) @class
(enum_declaration) @class
(internal_module) @class
(function_signature) @function
(method_signature) @function
(abstract_method_signature) @function
(public_field_definition value: [(arrow_function) (function_expression)]) @function
(import_require_clause source: (string) @import)
"""
_JAVA = """
(class_declaration) @class
(interface_declaration) @class
(enum_declaration) @class
(record_declaration) @class
(annotation_type_declaration) @class
(method_declaration) @function
(constructor_declaration) @function
(compact_constructor_declaration) @function
(field_declaration (modifiers "static" "final") declarator: (variable_declarator)) @constant
(interface_body (constant_declaration declarator: (variable_declarator)) @constant)
(enum_constant) @constant
(import_declaration) @import
"""
_RUBY = """
(class) @class
(module) @class
(method) @function
(singleton_method) @function
(assignment left: (constant)) @constant
"""
_RUST = """
(function_item) @function
(function_signature_item) @function
(struct_item) @class
(enum_item) @class
(union_item) @class
(trait_item) @class
(type_item) @class
(macro_definition) @function
(const_item) @constant
(static_item) @constant
(impl_item) @scope
(attribute_item) @attribute
(use_declaration argument: (_) @import)
(mod_item name: (identifier) @import.module !body)
"""
_PHP = """
(function_definition) @function
(method_declaration) @function
(class_declaration) @class
(interface_declaration) @class
(trait_declaration) @class
(enum_declaration) @class
(const_element) @constant
(namespace_use_declaration) @import
"""
_C = """
(function_definition) @function
(struct_specifier name: (_) body: (_)) @class
(union_specifier name: (_) body: (_)) @class
(enum_specifier name: (_) body: (_)) @class
(type_definition type: (struct_specifier body: (_))) @class
(type_definition type: (union_specifier body: (_))) @class
(type_definition type: (enum_specifier body: (_))) @class
(preproc_def) @constant
(preproc_function_def) @function
(preproc_include path: (_) @import)
"""
_ONLY_CPP = """
(class_specifier name: (_) body: (_)) @class
(alias_declaration) @class
(concept_definition) @class
(template_declaration parameters: (_) @attribute)
"""

_REQUIRE = re.compile(rb"""\brequire\(\s{0,9}['"](?P<name>[^'"\n]{1,200})['"]""")
_RUBY_REQUIRE = re.compile(
    rb"""^[ \t]{0,80}(?:require(?:_(?P<form>relative))?|load|autoload\(?[ \t]{0,9}:\w{1,80},)\(?[ \t]{0,9}"""
    rb"""['"](?P<name>[^'"\n]{1,200})['"]""",
    re.M,
)

GRAMMARS = {
    "javascript": Grammar("tree_sitter_javascript", "language", _JAVASCRIPT + _ONLY_JAVASCRIPT, _quoted, _REQUIRE),
    "typescript": Grammar(
        "tree_sitter_typescript", "language_typescript", _JAVASCRIPT + _ONLY_TYPESCRIPT, _quoted, _REQUIRE
    ),
    "tsx": Grammar("tree_sitter_typescript", "language_tsx", _JAVASCRIPT + _ONLY_TYPESCRIPT, _quoted, _REQUIRE),
    "java": Grammar("tree_sitter_java", "language", _JAVA, _java),
    "ruby": Grammar("tree_sitter_ruby", "language", _RUBY, _quoted, _RUBY_REQUIRE),
    "rust": Grammar("tree_sitter_rust", "language", _RUST, _rust),
    "php": Grammar("tree_sitter_php", "language_php", _PHP, _php),
    "c": Grammar("tree_sitter_c", "language", _C, _quoted),
    "cpp": Grammar("tree_sitter_cpp", "language", _C + _ONLY_CPP, _quoted),
}
