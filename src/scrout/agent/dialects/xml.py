"""The function calls of the released searcher: reasoning, then

    <function=NAME>
    <parameter=KEY>value</parameter>
    </function>

The last valid call counts; earlier ones are part of the text. Tags count only in valid positions: a parameter after the
function's tag or another parameter's end, and the function's end after a parameter's. So a value may contain such tags,
and complete calls, which nest. It cannot contain half a call, or `</parameter>` directly followed by `<parameter=...>`
or `</function>`.

All values are text. One newline after the opening tag and one before the closing tag belong to the format; a value of
several lines is written with both. At the end of a reply that was cut off, `</function>` may be missing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from scrout.agent.dialect import ToolUse, Turn
from scrout.agent.dialects.in_text import BLANK, TextDialect, describe, example
from scrout.models.chat import Tool

_WORD = r"[^<>\s]{1,64}"
# The positions where a call starts, continues or ends. Each run of whitespace follows only one tag: linear time.
_EDGE = re.compile(
    rf"<function=(?P<name>{_WORD})>\s*(?:<parameter=(?P<first>{_WORD})>|(?P<empty></function>))"
    rf"|</parameter>\s*(?:<parameter=(?P<next>{_WORD})>|(?P<end></function>|(?:</?[a-z]{{0,9}})?\Z))"
)
_OPENING = re.compile(rf"<function={_WORD}>")
_LOOKS_LIKE = re.compile(r"<(?:function|parameter)\s{0,9}=|</function>")
_FORM = "<function=NAME>\n<parameter=KEY>value</parameter>\n</function>"


class Xml(TextDialect):
    name = "xml"

    def explain(self, tools: Sequence[Tool]) -> str:
        if not tools:
            return ""
        return (
            f"You can call these functions:\n\n{describe(tools)}\n\n"
            "Say briefly what you want to find out, then make one call, as the last thing in your reply and in exactly "
            f"this form:\n\n{self.write(Turn(calls=(example(tools),)))}\n\n"
            "Each argument has a <parameter=NAME> of its own. A value is taken as it is, without quotes or escapes; it "
            "may span lines."
        )

    def read(self, text: str) -> Turn:
        edges = _last_call(text)
        if not edges:
            return Turn(text, problem=_problem(text))
        arguments = {
            edge["first"] or edge["next"]: text[edge.end() : following.start()].removeprefix("\n").removesuffix("\n")
            for edge, following in pairwise(edges)
        }
        return Turn(text[: edges[0].start()].rstrip(BLANK), (ToolUse(edges[0]["name"], arguments),))

    def write(self, turn: Turn) -> str:
        parts = [turn.text] if turn.text else []
        for call in turn.calls:
            values = {key: f"\n{value}\n" if "\n" in str(value) else value for key, value in call.arguments.items()}
            lines = (f"<parameter={key}>{value}</parameter>\n" for key, value in values.items())
            parts.append(f"<function={call.name}>\n{''.join(lines)}</function>")
        return "\n\n".join(parts)


def _last_call(text: str) -> list[re.Match[str]]:
    """The edges of the last complete call that is not inside of another's value; empty: none."""
    begun: list[list[re.Match[str]]] = []
    complete: list[list[re.Match[str]]] = []
    for edge in _EDGE.finditer(text):
        if edge["name"]:
            begun.append([edge])
        elif begun:
            begun[-1].append(edge)
        if begun and (edge["empty"] or edge["end"] is not None):
            call = begun.pop()
            while complete and complete[-1][0].start() > call[0].start():
                complete.pop()
            complete.append(call)
    return complete[-1] if complete else []


def _problem(text: str) -> str:
    """Why a text with parts of a call has no valid call; empty: it has no such parts."""
    if not _LOOKS_LIKE.search(text):
        return ""
    last = max((opening.start() for opening in _OPENING.finditer(text)), default=None)
    if last is None:
        what = "there is no <function=NAME> tag"
    elif text.find("<parameter=", last) < 0:
        what = "the function's tag is followed by neither a parameter nor </function>"
    elif text.rfind("<parameter=") > text.rfind("</parameter>"):
        what = "the last parameter has no </parameter>; if the reply was cut off, write less at once"
    else:
        what = "there is text between or behind the parameters"
    return f"{what}. A call has this form:\n{_FORM}"
