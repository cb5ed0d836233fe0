"""Every form reads what it writes, reads hostile text in linear time, and says in words what is wrong with a call."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from pydantic import JsonValue

from scrout import handoff
from scrout.agent.dialect import Dialect, ToolUse, Turn
from scrout.agent.dialects import dialect
from scrout.config.settings import DialectName
from scrout.models.chat import Message, Reply, Tool, ToolCall

BASH = Tool(
    "bash",
    "Run a command.",
    {
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "What to run."},
            "timeout": {"type": "number", "minimum": 1, "description": "Seconds."},
        },
        "required": ["command"],
        "additionalProperties": False,
    },
)
EDITOR = Tool(
    "str_replace_editor",
    "View and change files.",
    {
        "type": "object",
        "properties": {
            "command": {"type": "string", "enum": ["view", "create"]},
            "path": {"type": "string", "minLength": 1},
            "view_range": {"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 2},
            "what": {"anyOf": [{"type": "string", "pattern": "a"}, {"type": "null"}]},
        },
        "required": ["command", "path"],
    },
)
TOOLS = (BASH, EDITOR)
NAMES: tuple[DialectName, ...] = get_args(DialectName)
TEXTUAL: tuple[DialectName, ...] = ("xml", "fenced", "json")

PIECES = (
    *("<function=bash>", "<function=", "</function>", "<parameter=command>", "<parameter=a>", "</parameter>"),
    *("</function", "</parameter>\n</function>", "<function=bash>\n<parameter=command>ls</parameter>\n</function>"),
    *("```", "````", "```bash", "```bash\nls\n```", "```python", '```search {"q": 1}', '```search\n{"q": "`"}\n```'),
    *(
        '{"thought": "x", "tool": "bash", "arguments": {"command": "ls"}}',
        '{"thought"',
        ":",
        "{",
        "}",
        '"',
        "\\",
        "[1]",
    ),
    *('{"tool": "handoff", "arguments": {"files": ["a.py:3-4"], "notes": "<notes>"}}', '{"tool": 3, "arguments": {}}'),
    *(
        "\n",
        "\r\n",
        "\r",
        " ",
        "    ",
        "\t",
        "\u2028",
        "\x1c",
        "\0",
        "é",
        "\U0001f600",
        "\ud83d",
        "\ude00",
        "word",
        "`",
    ),
)
texts = st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=12).map("".join) | st.text(
    st.characters(exclude_categories=()), max_size=30
)
words = st.from_regex(r"[a-z_]{1,12}", fullmatch=True)
values: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=4,
)


def reply(text: str, *calls: ToolCall, finish_reason: str = "stop") -> Reply:
    return Reply(text, calls, None, finish_reason, "model")


def said(message: Message) -> Reply:
    """The message as if the model had just sent it."""
    assert message.role == "assistant"
    return reply(message.content, *message.calls)


def read(name: DialectName, text: str) -> Turn:
    return dialect(name).parse(reply(text))


def only_call(name: DialectName, text: str) -> ToolUse:
    turn = read(name, text)
    assert not turn.problem
    (call,) = turn.calls
    return call


# What all of them promise


@pytest.mark.parametrize("name", NAMES)
def test_a_dialect_is_found_by_its_name(name: DialectName) -> None:
    form: Dialect = dialect(name)
    assert form.name == name


@pytest.mark.parametrize("name", NAMES)
@given(text=texts)
@example(text="Output:\n```bash\nls\n```\n```text\ncut off")
@example(text="     ```python\n```bash\nls\n```")
@example(text="<function=a>\n<parameter=b>never closed\n<function=bash>\n<parameter=command>ls</parameter>")
def test_whatever_is_read_can_be_written_and_reads_the_same(name: DialectName, text: str) -> None:
    form = dialect(name)
    turn = form.parse(reply(text))
    assert form.parse(said(form.render(turn))) == turn


@pytest.mark.parametrize("name", NAMES)
@given(text=texts, command=texts)
def test_a_command_is_carried_exactly_or_refused(name: DialectName, text: str, command: str) -> None:
    form = dialect(name)
    turn = Turn(text, (ToolUse("bash", {"command": command}),))
    try:
        message = form.render(turn)
    except ValueError:
        beyond = {"xml": "</parameter>" in command or "<function=" in command, "fenced": "```" in text}
        assert beyond[name]
    else:
        blanks = "" if name == "native" else " \t\r\n"
        assert form.parse(said(message)) == replace(turn, text=text.rstrip(blanks) if blanks else text)


@pytest.mark.parametrize("name", ["native", "fenced", "json"])
@given(tool=words, arguments=st.dictionaries(texts, values, max_size=4))
def test_arguments_of_any_type_are_carried(name: DialectName, tool: str, arguments: dict[str, JsonValue]) -> None:
    assume(tool not in ("bash", "sh", "shell", "json", "jsonc", "jsonl", "js", "py", "python", "javascript", "handoff"))
    form = dialect(name)
    turn = Turn("Why.", (ToolUse(tool, arguments),))
    assert form.parse(said(form.render(turn))) == turn


@pytest.mark.parametrize("name", ["fenced", "json"])
@given(seconds=values, command=texts)
def test_a_command_takes_further_arguments(name: DialectName, seconds: JsonValue, command: str) -> None:
    form = dialect(name)
    turn = Turn("", (ToolUse("bash", {"command": command, "timeout": seconds}),))
    assert form.parse(said(form.render(turn))) == turn


@pytest.mark.parametrize("name", NAMES)
def test_text_without_a_call_is_a_thought(name: DialectName) -> None:
    text = "The cause is in a < b, see `f(x)`.\n\n```python\nf({'a': 1})\n```\nSTOP"
    assert read(name, text) == Turn(text)
    assert read(name, "") == Turn()


@pytest.mark.parametrize("name", TEXTUAL)
def test_two_calls_in_one_turn_are_refused(name: DialectName) -> None:
    with pytest.raises(ValueError, match=f"the {name} form cannot carry"):
        dialect(name).render(Turn("", (ToolUse("bash", {"command": "a"}), ToolUse("bash", {"command": "b"}))))


@pytest.mark.parametrize("name", TEXTUAL)
def test_answers_are_the_users_words(name: DialectName) -> None:
    form = dialect(name)
    assert form.answer(ToolUse("bash", {"command": "ls"}), "a.py") == Message("user", "a.py")
    assert form.answer(None, "go on") == Message("user", "go on")


@pytest.mark.parametrize("name", TEXTUAL)
def test_the_explanation_names_every_tool_and_argument(name: DialectName) -> None:
    text = dialect(name).explain(TOOLS)
    for tool in TOOLS:
        assert tool.name in text and tool.description in text
    for line in (
        "command (string): What to run.",
        "timeout (number, optional): Seconds.",
        "view_range (array, optional)",
    ):
        assert f"\n  {line}" in text
    assert "command (one of view, create)" in text
    assert len(text) < 2000


@pytest.mark.parametrize("name", ["xml", "fenced"])
@pytest.mark.parametrize("tools", [TOOLS, (EDITOR,)])
def test_the_example_in_the_explanation_is_a_call(name: DialectName, tools: Sequence[Tool]) -> None:
    call = only_call(name, dialect(name).explain(tools))
    assert call.name == tools[0].name
    required = tools[0].parameters["required"]
    assert isinstance(required, list) and set(call.arguments) == set(required)


HOSTILE = {
    "function tags": "<function=a>" * 30_000,
    "open calls": "<function=a><parameter=b>" * 13_000,
    "open calls, one end": "<function=a><parameter=b>" * 13_000 + "</parameter></function>",
    "nested calls": "<function=a><parameter=b>" * 7_000 + "</parameter></function>" * 7_000,
    "parameters": "<function=a>" + "<parameter=b>x</parameter>" * 13_000,
    "ends": "</parameter></function>" * 13_000,
    "closed parameters": "</parameter>" * 30_000,
    "blanks in tags": ("<function=a>" + " " * 3_000) * 100,
    "blanks behind ends": ("</parameter>" + "\n" * 3_000) * 100,
    "long word": "<function=" + "a" * 300_000,
    "equals": "<function" + " " * 300_000 + "=",
    "backticks": "`" * 300_000,
    "long info": "```" + "a" * 300_000 + "`",
    "long info, blanks": "```a" + " " * 300_000 + "`",
    "lines of fences": "```bash\n" * 13_000,
    "closed fences": "```\n```\n" * 13_000,
    "growing fences": "".join("`" * n + "x\n" for n in range(3, 800)),
    "object in a fence": "```search\n{" + " " * 300_000,
    "braces": "{" * 300_000,
    "objects": '{"thought":' * 30_000,
    "arrays": '{"thought":' + "[" * 300_000,
    "deep in a fence": '```search\n{"a":' + "[" * 150_000 + "]" * 150_000 + "}\n```",
    "long number": '{"tool": "bash", "arguments": {"a": ' + "1" * 300_000 + "}}",
    "open string": '{"thought": "' + "a\n" * 150_000,
    "escapes": '{"thought": "' + "\\" * 300_001 + '"',
    "blanks in an object": ("{" + " " * 3_000) * 100,
    "files": json.dumps(
        {"tool": "handoff", "arguments": {"files": ["a.py:" + "1," * 30_000] * 3, "notes": "<" * 150_000}}
    ),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_is_read_to_its_end(name: DialectName, text: str) -> None:
    """In quadratic time none of these would end."""
    form = dialect(name)
    turn = form.parse(reply(text, ToolCall("1", "bash", text)))
    assert form.parse(said(form.render(turn))) == turn


# Native


def test_native_calls_come_several_at_a_time_and_each_has_its_answer() -> None:
    form = dialect("native")
    first, second = ToolCall("1", "bash", '{"command": "ls"}'), ToolCall("2", "bash", '{"command": "pwd"}')
    turn = form.parse(reply("Looking.", first, second))
    assert turn == Turn("Looking.", (ToolUse("bash", {"command": "ls"}, "1"), ToolUse("bash", {"command": "pwd"}, "2")))
    assert form.render(turn) == Message("assistant", "Looking.", (first, second))
    assert form.answer(turn.calls[1], "/repo") == Message("tool", "/repo", call_id="2")
    assert form.answer(None, "Go on.") == Message("user", "Go on.")
    assert form.explain(TOOLS) == "" and form.offer(TOOLS).tools == TOOLS and form.offer(TOOLS).schema is None


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ('{"command": "ls', "Unterminated string"),
        ("ls", "Expecting value"),
        ("[1]", "no object"),
        ("   ", "Expecting value"),
        ('{"command": "ls"}}', "more text behind the object"),
        ('{"timeout": NaN}', "NaN is no number"),
        ('{"timeout": 1e999}', "1e999 is no number"),
        ('{"a":' * 60 + "1" + "}" * 60, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        ('{"a": ' + "1" * 5000 + "}", "digits"),
    ],
)
def test_native_arguments_that_are_no_object_are_a_problem_that_keeps_what_was_written(
    arguments: str, why: str
) -> None:
    form = dialect("native")
    turn = form.parse(reply("", ToolCall("7", "bash", arguments)))
    (call,) = turn.calls
    assert why in call.problem and (call.name, call.id) == ("bash", "7") and not turn.problem
    assert form.render(turn).calls == (ToolCall("7", "bash", arguments),)


@given(arguments=texts)
def test_native_arguments_read_the_same_after_a_round_trip(arguments: str) -> None:
    form = dialect("native")
    turn = form.parse(reply("", ToolCall("7", "bash", arguments)))
    assert form.parse(said(form.render(turn))) == turn


def test_native_calls_may_have_no_arguments_at_all() -> None:
    assert dialect("native").parse(reply("", ToolCall("1", "stop", ""))).calls == (ToolUse("stop", {}, "1"),)


# XML


def xml(*parameters: tuple[str, str], name: str = "bash") -> str:
    lines = [f"<parameter={key}>{value}</parameter>" for key, value in parameters]
    return "\n".join([f"<function={name}>", *lines, "</function>"])


def test_xml_is_written_as_the_released_checkpoint_writes_it() -> None:
    call = ToolUse("str_replace_editor", {"command": "create", "path": "a.py", "file_text": "x = 1\ny = 2\n"})
    assert dialect("xml").render(Turn("I write a file.", (call,))).content == (
        "I write a file.\n\n"
        "<function=str_replace_editor>\n"
        "<parameter=command>create</parameter>\n"
        "<parameter=path>a.py</parameter>\n"
        "<parameter=file_text>\nx = 1\ny = 2\n\n</parameter>\n"
        "</function>"
    )


def test_xml_values_stay_text_and_keep_their_newlines() -> None:
    text = xml(("path", "a.py"), ("view_range", "[1, 40]"), ("old_str", "\n\n  a\n\nb\r\n\n"), ("new_str", "  c "))
    assert only_call("xml", text).arguments == {
        "path": "a.py",
        "view_range": "[1, 40]",
        "old_str": "\n  a\n\nb\r\n",
        "new_str": "  c ",
    }


def test_xml_tags_need_no_lines_of_their_own() -> None:
    text = "See:<function=bash><parameter=command>ls</parameter>  <parameter=timeout>9</parameter></function>"
    assert read("xml", text) == Turn("See:", (ToolUse("bash", {"command": "ls", "timeout": "9"}),))
    assert only_call("xml", "<function=stop>\n</function>") == ToolUse("stop", {})


def test_xml_takes_the_last_call_and_drops_what_stands_behind_it() -> None:
    first, second = xml(("command", "ls")), xml(("command", "pwd"))
    turn = read("xml", f"One.\n{first}\nTwo.\n{second}\nOBSERVATION: /repo")
    assert turn == Turn(f"One.\n{first}\nTwo.", (ToolUse("bash", {"command": "pwd"}),))


def test_xml_takes_the_last_call_that_is_whole() -> None:
    whole = xml(("command", "ls"))
    assert only_call("xml", f"{whole}\n<function=bash>\n<parameter=command>pw").arguments == {"command": "ls"}
    assert only_call("xml", f"<function=bash>\n<parameter=command>oops\n{whole}").arguments == {"command": "ls"}
    assert only_call("xml", f"I will use <function=bash> now.\n{whole}").arguments == {"command": "ls"}


@pytest.mark.parametrize("end", ["", "\n", "\n<", "\n</", "\n</func", "\n</function", "\n<parameter"])
def test_xml_that_was_cut_off_behind_a_parameter_is_read(end: str) -> None:
    text = "<function=bash>\n<parameter=command>ls</parameter>" + end
    assert dialect("xml").parse(reply(text, finish_reason="length")) == Turn("", (ToolUse("bash", {"command": "ls"}),))


@pytest.mark.parametrize(
    "value",
    [
        "grep '</parameter>' x",
        "grep '</function>' x",
        "echo '<function=bash>' '<parameter=command>'",
        f"cat > call.txt <<'E'\n{xml(('command', 'rm -r .'))}\nE",
        f"{xml()}",
        "</parameter>",
    ],
)
def test_xml_values_may_hold_tags_and_whole_calls(value: str) -> None:
    assert only_call("xml", f"Why.\n{xml(('command', value), ('timeout', '9'))}").arguments == {
        "command": value,
        "timeout": "9",
    }


@pytest.mark.parametrize(
    "call",
    [
        ToolUse("bash", {"command": "a</parameter>\n</function>b"}),
        ToolUse("bash", {"command": "a</parameter><parameter=timeout>9"}),
        ToolUse("bash", {"command": "<function=a><parameter=b>"}),
        ToolUse("bash", {"timeout": 9}),
        ToolUse("bash", {"": "x"}),
        ToolUse("two words", {}),
        ToolUse("", {}),
    ],
)
def test_xml_refuses_what_it_would_read_differently(call: ToolUse) -> None:
    with pytest.raises(ValueError, match="the xml form cannot carry"):
        dialect("xml").render(Turn("", (call,)))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("<function=bash>ls</function>", "neither a parameter nor"),
        ("<function=bash>", "neither a parameter nor"),
        ("<function=bash>\n<parameter=command>ls\n</function>", "has no </parameter>"),
        ("<function=bash>\n<parameter=command>ls", "write less"),
        ("<function=bash>\n<parameter=command>ls</parameter>\nand more\n</function>", "between or behind"),
        ("<function = bash>\n<parameter=command>ls</parameter>\n</function>", "no <function=NAME>"),
        ("<parameter=command>ls</parameter>", "no <function=NAME>"),
        ("ls\n</function>", "no <function=NAME>"),
    ],
)
def test_xml_that_is_no_call_but_looks_like_one_is_a_problem_with_the_form_in_it(text: str, why: str) -> None:
    turn = read("xml", f"Why.\n{text}")
    assert why in turn.problem and turn.problem.endswith(xml(("KEY", "value"), name="NAME"))
    assert turn.text == f"Why.\n{text}" and not turn.calls


# Fenced


@pytest.mark.parametrize("word", ["bash", "sh", "shell", "Bash", "mswea_bash_command"])
def test_a_fenced_block_of_the_shell_is_a_command(word: str) -> None:
    turn = read("fenced", f"Looking around.\n\n```{word}\nls -l |\n  wc\n```\nThen I will know.")
    assert turn == Turn("Looking around.", (ToolUse("bash", {"command": "ls -l |\n  wc"}),))


def test_fenced_blocks_of_other_languages_are_text() -> None:
    quoted = '```python\n{"a": 1}\n```\n\n```\nls\n```\n```json\n{"query": 1}\n```\n```c\n{ int x; }\n```'
    assert read("fenced", quoted) == Turn(quoted)
    turn = read("fenced", f"{quoted}\n```bash\nls\n```")
    assert turn == Turn(quoted, (ToolUse("bash", {"command": "ls"}),))
    hidden = "````markdown\n```bash\nls\n```\n````"
    assert read("fenced", hidden) == Turn(hidden)


def test_a_longer_fence_holds_shorter_ones() -> None:
    command = "cat > a.md <<'E'\n```bash\nls\n```\nE"
    text = f"````bash\n{command}\n````"
    assert only_call("fenced", text).arguments == {"command": command}
    assert dialect("fenced").render(Turn("", (ToolUse("bash", {"command": command}),))).content == text


@pytest.mark.parametrize(
    "text",
    ['```search\n{"query": "dates"}\n```', '```search {"query": "dates"}\n```', '```search{"query":\n"dates"}\n```'],
)
def test_a_fenced_block_with_a_tools_name_holds_its_arguments(text: str) -> None:
    assert only_call("fenced", text) == ToolUse("search", {"query": "dates"})


def test_what_else_the_shell_takes_stands_behind_its_word() -> None:
    assert only_call("fenced", '```bash {"timeout": 90}\nmake\n```').arguments == {"command": "make", "timeout": 90}
    assert only_call("fenced", "```bash title=x\nmake\n```").arguments == {"command": "make"}


def test_fences_may_end_their_lines_with_a_carriage_return() -> None:
    assert only_call("fenced", "Why.\r\n```bash\r\nls\n```\r\n").arguments == {"command": "ls"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("```bash\nls\n```\n```sh\npwd\n```", "there are 2 blocks"),
        ('```bash\nls\n```\n```search\n{"q": 1}\n```', "there are 2 blocks"),
        ("```bash\nls\n```\nOutput:\n```bash\npw", "there are 2 blocks"),
        ("```bash\nls", "no closing fence"),
        ('```search\n{"query":', "no closing fence"),
        ('```search\n{"query": \n```', "not one JSON object"),
        ('```search\n{"query": 1} {"query": 2}\n```', "more text behind the object"),
        ('```bash {"timeout": }\nls\n```', "not one JSON object"),
    ],
)
def test_fenced_blocks_that_cannot_be_run_are_a_problem(text: str, why: str) -> None:
    turn = read("fenced", text)
    assert why in turn.problem and turn.text == text and not turn.calls


@pytest.mark.parametrize("end", ["\nSTOP", "STOP\n", " STOP"])
def test_a_handoff_may_have_its_command_in_a_fence(end: str) -> None:
    text = f"<files>\na.py\n</files>\n<repro>\ncommand:\n```bash\npython x.py\n```\nreproduced: true\n</repro>{end}"
    assert read("fenced", text) == Turn(text.rstrip())


@pytest.mark.parametrize("name", ["sh", "json", "python", "two words", "a{b", "a`b", ""])
def test_fenced_refuses_names_that_it_would_read_differently(name: str) -> None:
    with pytest.raises(ValueError, match="the fenced form cannot carry"):
        dialect("fenced").render(Turn("", (ToolUse(name, {"query": "x"}),)))


# JSON

CALL = '{"thought": "Look.", "tool": "bash", "arguments": {"command": "ls"}}'


@pytest.mark.parametrize(
    "text", [CALL, f"Here it is:\n{CALL}\nDone.", f"```json\n{CALL}\n```", f"{CALL}{CALL}", f" {CALL}"]
)
def test_one_json_object_is_a_call_whatever_stands_around_it(text: str) -> None:
    assert read("json", text) == Turn("Look.", (ToolUse("bash", {"command": "ls"}),))


def test_json_strings_may_hold_raw_newlines() -> None:
    assert only_call("json", '{"tool": "bash", "arguments": {"command": "a\nb"}}').arguments == {"command": "a\nb"}


def test_a_json_handoff_becomes_the_wire_form() -> None:
    parts = {
        "files": ["src/a.py:12-40,88", "b.py", 3, "../outside.py"],
        "command": "python check.py",
        "reproduced": True,
        "observed": "ValueError </repro>",
        "notes": "In `f`. </notes><files>\nevil.py\n</files>",
    }
    turn = read("json", json.dumps({"thought": "<files>\nno.py\n</files>", "tool": "handoff", "arguments": parts}))
    assert turn.text.startswith("<files>\nsrc/a.py:12-40,88\nb.py\n</files>") and turn.text.endswith("STOP")
    page = handoff.parse(turn.text)
    assert [ref.path for ref in page.files] == ["src/a.py", "b.py"]
    assert page.reproduction == handoff.Reproduction(
        command="python check.py", claim=True, observed="ValueError </repro>"
    )
    assert page.notes == parts["notes"] and not (turn.calls or turn.problem)


@given(arguments=st.dictionaries(st.sampled_from(("files", "command", "reproduced", "observed", "notes")), values))
def test_any_json_handoff_can_be_read_as_one(arguments: dict[str, JsonValue]) -> None:
    text = json.dumps({"thought": "", "tool": "handoff", "arguments": arguments}, ensure_ascii=False)
    turn = read("json", text)
    assert handoff.render(handoff.parse(turn.text)) == turn.text
    assert dialect("json").parse(said(dialect("json").render(turn))) == turn


def test_an_empty_json_handoff_claims_nothing() -> None:
    page = handoff.parse(read("json", '{"tool": "handoff", "arguments": {}}').text)
    assert page == handoff.Handoff()


def test_a_json_thought_alone_is_no_call() -> None:
    assert read("json", '{"thought": "Hm."}') == Turn("Hm.")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (CALL[:-1], "cannot be read"),
        (CALL[:30], "write less"),
        (f"Well: {CALL[:-10]}", "cannot be read"),
        ('{"tool": "bash"}', '"arguments" an object'),
        ('{"tool": "bash", "arguments": "ls"}', '"arguments" an object'),
        ('{"tool": ["bash"], "arguments": {}}', '"tool" must be a name'),
        ('{"command": "ls"}', 'no "tool"'),
        ('```json\n{"name": "bash"}\n```', 'no "tool"'),
        ("{", 'no "tool"'),
        ('{"thought": ' + "[" * 100_000, "nested too deeply"),
    ],
)
def test_json_that_is_no_turn_is_a_problem_with_the_form_in_it(text: str, why: str) -> None:
    turn = read("json", text)
    assert why in turn.problem and '"tool": "NAME"' in turn.problem
    assert turn.text == text and not turn.calls


def test_the_schema_has_one_object_a_tool_in_keywords_that_every_grammar_knows() -> None:
    offer = dialect("json").offer(TOOLS)
    assert offer.tools == () and offer.schema is not None
    options = offer.schema["anyOf"]
    assert isinstance(options, list) and len(options) == 3
    assert options[1] == {
        "type": "object",
        "properties": {
            "thought": {"type": "string"},
            "tool": {"const": "str_replace_editor"},
            "arguments": {
                "type": "object",
                "properties": {
                    "command": {"type": "string", "enum": ["view", "create"]},
                    "path": {"type": "string"},
                    "view_range": {"type": "array", "items": {"type": "integer"}},
                    "what": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                },
                "required": ["command", "path"],
                "additionalProperties": False,
            },
        },
        "required": ["thought", "tool", "arguments"],
        "additionalProperties": False,
    }
    handed = options[2]
    assert isinstance(handed, dict) and isinstance(handed["properties"], dict)
    assert list(handed["properties"]) == ["thought", "tool", "arguments"]
    assert handed["properties"]["tool"] == {"const": "handoff"}
    arguments = handed["properties"]["arguments"]
    assert isinstance(arguments, dict) and isinstance(arguments["properties"], dict)
    assert list(arguments["properties"]) == ["files", "command", "reproduced", "observed", "notes"]
