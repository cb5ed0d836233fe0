"""The forms of the claims for the gate's benchmark: texts with places for the parts of a bug.

A form about a bug shows that bug. A form about a target (see gate_targets.py) takes a function that works and pretends
that it does not: `pretend` makes up the bug that the claim tells of.
"""

from __future__ import annotations

import ast
import builtins
import re
import shlex
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from gate_bugs import Bug, Mutation, Outcome
from gate_targets import Target

from scrout.handoff import Reproduction

Label = Literal["true", "false", "apart"]
Needs = Literal["", "raises", "value", "wrong value"]
Split = Literal["seen", "held", "fresh", "newest"]
Family = Literal["plain", "tampering", "own failure", "hard to see"]
TargetNeeds = Literal["", "any", "helper", "class_name", "table", "defaults", "builtin", "library"]


@dataclass(frozen=True)
class Form:
    """One way to write a claim: texts in which @name@ stands for a part of the bug, see `parts`."""

    kind: str
    label: Label
    command: str
    files: tuple[tuple[str, str], ...] = ()
    needs: Needs = ""
    """What the bug must be: one that raises, one whose right result is a value, one with two values."""
    certain: bool = False
    exit_zero: bool = False
    target: TargetNeeds = ""
    """What a target must have; empty: the form is about a bug."""
    family: Family = "plain"
    split: Split = "seen"
    """All but `seen`: for measuring only. Nobody who works on the gate's rules reads them."""
    must_fail: bool = False
    """True: a false claim that passes shows nothing, because what it does has no effect here."""

    def fits(self, bug: Bug) -> bool:
        right_is_value = bug.right.kind == "value"
        return {
            "": True,
            "raises": right_is_value and bug.raises,
            "value": right_is_value,
            "wrong value": right_is_value and not bug.raises,
        }[self.needs]

    @property
    def needs_pytest(self) -> bool:
        return "pytest" in self.command or any("pytest" in text for _, text in self.files if self.family != "plain")

    @property
    def needs_decorator(self) -> bool:
        return any("@decorator@" in text for _, text in self.files)

    def write(self, bug: Bug, target: Target | None = None) -> Reproduction:
        known = parts(bug) | (target_parts(target) if target else {})
        files = {fill(path, known): fill(text, known) + "\n" for path, text in self.files}
        return Reproduction(files=files, command=fill(self.command, known), claim=True)


def in_halves(forms: Sequence[Form]) -> tuple[Form, ...]:
    """The forms of every kind, one seen and one held in turns."""
    count: Counter[str] = Counter()
    made = []
    for form in forms:
        made.append(replace(form, split="held" if count[form.kind] % 2 else "seen"))
        count[form.kind] += 1
    return tuple(made)


def fill(text: str, known: dict[str, str]) -> str:
    """Put the parts in: indented where one stands alone on its line, shell-quoted with |q, as a literal with |r."""
    text = re.sub(
        r"^( *)@(\w+)@$", lambda found: textwrap.indent(known[found[2]].strip("\n"), found[1]), text, flags=re.M
    )
    ways: dict[str, Callable[[str], str]] = {"": str, "|q": shlex.quote, "|r": repr}
    return re.sub(r"@(\w+)(\|[qr]|)@", lambda found: ways[found[2]](known[found[1]]), text)


def parts(bug: Bug) -> dict[str, str]:
    """What a form may put into its texts."""
    prelude, call = bug.example.prelude, bug.example.expression
    imports = "\n".join(line for line in prelude.splitlines() if line.startswith(("from ", "import ")))
    setup = "\n".join(line for line in prelude.splitlines() if not line.startswith(("from ", "import "))) or "pass"
    kind = bug.right.type
    if bug.right.kind == "value":
        given = f"{prelude}\nresult = {call}"
        asserted = f"{given}\nassert result == {bug.right.text}, f'got {{result!r}}'"
        if_wrong = f"{given}\nexpected = {bug.right.text}\nif result != expected:"
        in_unittest, in_pytest = f"self.assertEqual({call}, {bug.right.text})", f"assert {call} == {bug.right.text}"
    else:
        if_wrong = f"{prelude}\ntry:\n    result = {call}\nexcept {kind}:\n    print('raised as documented')\nelse:"
        asserted = f"{if_wrong}\n    raise AssertionError(f'no {kind}, but {{result!r}}')"
        in_unittest, in_pytest = (
            f"with self.assertRaises({kind}):\n    {call}",
            f"with pytest.raises({kind}):\n    {call}",
        )
    return {
        "prelude": prelude,
        "imports": imports,
        "setup": setup,
        "call": call,
        "asserted": asserted,
        "if_wrong": if_wrong,
        "in_unittest": in_unittest,
        "in_pytest": in_pytest,
        "in_one_line": f"{prelude}\nassert {call} == {bug.right.text}".replace("\n", "; "),
        "printed": f"{prelude}\nprint({call})",
        "right": bug.right.text,
        "wrong": bug.wrong.text,
        "wrong_type": bug.wrong.type,
        "symptom": bug.wrong.symptom,
        "healthy": f"{bug.healthy.prelude}\nresult = {bug.healthy.expression}",
        "healthy_value": bug.healthy_value,
        "path": bug.path,
        "source": bug.path.removesuffix(bug.mutation.path).rstrip("/") or ".",
        "module": bug.module,
        "top": bug.module.partition(".")[0],
        "function": bug.mutation.function.rpartition(".")[2],
        "outer": bug.mutation.function.partition(".")[0],
        "fake": "def fake(*args, **options):\n    "
        + (f"raise {bug.wrong.type}({bug.wrong.text!r})" if bug.raises else f"return {bug.wrong.text}"),
        "session": session(bug),
        "shown": f"{prelude}\nprint(repr({call}))",
        "distribution": bug.distribution,
        "neither": _neither(bug),
        "call_none": _absurd(bug, "None"),
        "call_object": _absurd(bug, "object()"),
        "call_own": _absurd(bug, "Own()"),
    }


def _neither(bug: Bug) -> str:
    """A value that looks like the right one and is neither that nor the wrong one."""
    if bug.right.kind != "value":
        return repr("unexpected")
    right = ast.literal_eval(bug.right.text)
    match right:
        case bool() | None:
            return repr("yes")
        case int() | float():
            return repr(right + 1000)
        case str():
            return repr(right + "?")
        case list():
            return repr([*right, right])
        case _:
            return repr([right])


def _absurd(bug: Bug, value: str) -> str:
    """The example's call with every argument replaced by one that makes no sense."""
    absurd = ast.parse(value, mode="eval").body
    for node in ast.walk(ast.parse(bug.example.expression, mode="eval")):
        if isinstance(node, ast.Call) and ast.unparse(node.func).partition(".")[0] not in dir(builtins):
            node.args = [absurd] * max(1, len(node.args))
            return ast.unparse(node)
    return bug.example.expression


def target_parts(target: Target) -> dict[str, str]:
    """What a form about a target may put into its texts as well."""
    spoil = {
        "dict": "table.update((key, Ellipsis) for key in list(table))",
        "list": "table[:] = [Ellipsis] * len(table)",
        "set": "table.difference_update(list(table))",
    }
    return {
        "from": target.module,
        "home": target.home,
        "path_tail": target.path,
        "top_path": target.path.partition("/")[0],
        "name": target.name,
        "helper": target.helper,
        "class_home": target.class_home,
        "class_name": target.class_name,
        "method": target.method,
        "table_home": target.table_home,
        "table": target.table,
        "spoil": spoil.get(target.table_type, ""),
        "defaults": str(target.defaults),
        "builtin": target.builtin,
        "library": target.library,
        "library_function": target.library_function,
        "decorator_home": target.decorator_home,
        "decorator": target.decorator,
    }


def pretend(target: Target, bug: Bug, *, raises: bool) -> Bug:
    """A bug of a function that works: what a scout would have to show, and cannot."""
    mutation = Mutation(target.path, target.name, 1, 0, 0, "", "none")
    path = bug.path.removesuffix(bug.mutation.path) + target.path
    right = Outcome("value", target.value)
    made = replace(bug, mutation=mutation, example=target.example, right=right, module=target.home, path=path)
    made = replace(made, healthy=target.example, healthy_value=target.value)
    if raises:
        kind = ("ValueError", "TypeError", "KeyError", "IndexError")[len(target.value) % 4]
        return replace(made, wrong=Outcome("raises", f"unexpected input in {target.name}", kind, True))
    return replace(made, wrong=Outcome("value", _neither(made)))


def session(bug: Bug) -> str:
    """The example as an interactive session with its right result."""
    lines = []
    for statement in ast.parse(bug.example.prelude).body:
        first, *more = ast.unparse(statement).splitlines()
        lines += [f">>> {first}", *(f"... {line}" for line in more), *(["..."] if more else [])]
    call = bug.example.expression
    if bug.right.text == "None":
        return "\n".join([*lines, f">>> {call} is None", "True"])
    return "\n".join([*lines, f">>> {call}", bug.right.text])


def script(
    kind: str,
    label: Label,
    body: str,
    command: str = "",
    needs: Needs = "",
    *,
    certain: bool = False,
    exit_zero: bool = False,
) -> Form:
    """A form with one file, which is run: a test module if it looks like one."""
    path = "test_repro.py" if "def test_" in body else "repro.py"
    return Form(kind, label, command or f"python {path}", ((path, body),), needs, certain, exit_zero)


def true(kind: str, body: str, command: str = "", needs: Needs = "", path: str = "", exit_zero: bool = False) -> Form:
    made = script(kind, "true", body, command, needs, exit_zero=exit_zero)
    return replace(made, files=((path, body),), command=command or f"python {path}") if path else made


def false(kind: str, body: str, command: str = "", needs: Needs = "", certain: bool = False) -> Form:
    return script(kind, "false", body, command, needs, certain=certain)


def bare(kind: str, *commands: str) -> Iterator[Form]:
    return (Form(kind, "false", command) for command in commands)
