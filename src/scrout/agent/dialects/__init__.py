"""The formats of tool calls, one file each."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

if TYPE_CHECKING:
    from scrout.agent.dialect import Dialect
    from scrout.config.settings import DialectName


def dialect(name: DialectName) -> Dialect:
    match name:
        case "native":
            from scrout.agent.dialects.native import Native

            return Native()
        case "xml":
            from scrout.agent.dialects.xml import Xml

            return Xml()
        case "fenced":
            from scrout.agent.dialects.fenced import Fenced

            return Fenced()
        case "json":
            from scrout.agent.dialects.json_schema import JsonSchema

            return JsonSchema()
        case _:
            assert_never(name)
