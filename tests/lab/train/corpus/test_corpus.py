"""Trajectories of every layout through to a frozen corpus, and what has to stay out of it."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scrout.agent import dialects
from scrout.base import TaskError
from scrout.cli.train import command
from scrout.handoff import parse
from scrout.lab.train.corpus.corpus import CorpusRules, build_corpus, demonstrations, read_held_out
from scrout.lab.train.corpus.layouts import read
from scrout.lab.train.corpus.search import search
from scrout.lab.train.corpus.streams import UnreadableDocument, documents
from scrout.lab.train.corpus.trajectory import AgentTrajectory, changed_files, issue_of
from scrout.models.chat import Reply

SmallDisk = Callable[[int, str], subprocess.CompletedProcess[str]]
SAMPLES = Path(__file__).parents[5] / "shared" / "data" / "trajectories"
ISSUE = "total() leaves out the first price"
SCRIPT = "from shop.cart import total\nassert total([1, 2]) == 3\n"
FAILS = 'Traceback (most recent call last):\n  File "check.py", line 2\nAssertionError'
PATCH = (
    "diff --git a/shop/cart.py b/shop/cart.py\n--- a/shop/cart.py\n+++ b/shop/cart.py\n@@ -1 +1 @@\n-a\n+b\n"
    "diff --git a/tests/test_cart.py b/tests/test_cart.py\n--- a/tests/test_cart.py\n+++ b/tests/test_cart.py\n"
    "diff --git a/check.py b/check.py\nnew file mode 100644\n--- /dev/null\n+++ b/check.py\n"
)
VIEW = (
    "str_replace_editor",
    {"command": "view", "path": "/testbed/shop/cart.py", "view_range": [1, 20]},
    "1\tdef total",
)
CREATE = ("str_replace_editor", {"command": "create", "path": "/testbed/check.py", "file_text": SCRIPT}, "made")
RUN = ("bash", {"command": "cd /testbed && python check.py"}, FAILS)
EDIT = (
    "str_replace_editor",
    {"command": "str_replace", "path": "/testbed/shop/cart.py", "old_str": "a", "new_str": "b"},
    "edited",
)
LIST = ("bash", {"command": "ls"}, "shop tests")
Told = tuple[str, dict[str, Any], str]
STEPS: tuple[Told, ...] = (LIST, VIEW, CREATE, RUN, EDIT, RUN)


def opening() -> str:
    return f"<uploaded_files>\n/testbed\n</uploaded_files>\nFix it.\n<pr_description>\n{ISSUE}\n</pr_description>"


def openhands(instance_id: str = "me__shop-1", steps: tuple[Told, ...] = STEPS, **more: Any) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You."}, {"role": "user", "content": opening()}]
    for number, (name, arguments, answer) in enumerate(steps):
        tool = {"bash": "execute_bash"}.get(name, name)
        function = {"name": tool, "arguments": json.dumps(arguments)}
        calls = [{"id": f"c{number}", "type": "function", "function": function}]
        messages.append({"role": "assistant", "content": f"Step {number}.", "tool_calls": calls})
        messages.append({"role": "tool", "content": f"OBSERVATION:\n{answer}", "tool_call_id": f"c{number}"})
    result = {"git_patch": PATCH}
    return {"instance_id": instance_id, "messages": messages, "resolved": True, "test_result": result, **more}


def smith() -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You."}, {"role": "user", "content": opening()}]
    for name, arguments, answer in STEPS:
        values = "".join(f"<parameter={key}>{value}</parameter>\n" for key, value in arguments.items())
        messages.append({"role": "assistant", "content": f"I look.\n\n<function={name}>\n{values}</function>"})
        messages.append({"role": "user", "content": f"OBSERVATION:\n{answer}"})
    messages.append({"role": "assistant", "content": "<function=submit>\n</function>"})
    return {
        "instance_id": "me__shop.1a2b3c4d.x__y",
        "traj_id": "t",
        "messages": messages,
        "resolved": True,
        "patch": PATCH,
    }


def events() -> dict[str, Any]:
    history: list[dict[str, Any]] = [{"id": 0, "source": "user", "action": "message", "args": {"content": opening()}}]
    for number, (name, arguments, answer) in enumerate(STEPS, 1):
        action = {"bash": "run", "str_replace_editor": "edit"}[name]
        args = {**arguments, "thought": "I look."}
        if arguments["command"] == "view":
            action, args = "read", {"path": arguments["path"], "start": 1, "end": 20, "thought": "I look."}
        history.append({"id": number, "source": "agent", "action": action, "args": args})
        history.append({"id": 100 + number, "cause": number, "observation": action, "content": answer})
    history.append({"id": 99, "source": "agent", "action": "finish", "args": {}})
    return {
        "instance_id": "me__shop-1",
        "instruction": opening(),
        "instance": {"repo": "me/shop", "problem_statement": ISSUE},
        "history": history,
        "test_result": {"git_patch": PATCH, "report": {"resolved": True}},
    }


TYPED = (
    ("ls", "shop tests"),
    ("open shop/cart.py 10", "[File: shop/cart.py]\n1:def total"),
    ("create check.py", "[File: check.py (1 lines total)]"),
    (f"edit 1:1\n{SCRIPT}end_of_edit", "written"),
    ("python check.py", FAILS),
    ("edit 3:3\n    return sum(prices)\nend_of_edit", "edited"),
)
PROMPT = "\n(Open file: n/a)\n(Current directory: /testbed)\nbash-$"


def sweagent() -> dict[str, Any]:
    steps = [{"thought": "I look.", "action": a, "observation": o + PROMPT, "state": "{}"} for a, o in TYPED]
    history = [
        {"role": "system", "content": "You."},
        {"role": "user", "content": f"ISSUE:\n{ISSUE}\n\nINSTRUCTIONS:\nGo."},
    ]
    return {
        "environment": "main",
        "replay_config": json.dumps({"agent": {"name": "me__shop-1"}}),
        "trajectory": steps,
        "history": history,
        "info": {"submission": PATCH},
    }


def nebius() -> dict[str, Any]:
    turns = [
        {"role": "system", "text": None},
        {"role": "user", "text": f"ISSUE:\n{ISSUE}\n\nINSTRUCTIONS:\nGo.{PROMPT}"},
    ]
    for action, observation in TYPED:
        turns.append({"role": "ai", "text": f"I look.\n```\n{action}\n```"})
        turns.append({"role": "user", "text": observation + PROMPT})
    return {"instance_id": "me__shop-1_7", "target": True, "trajectory": turns, "generated_patch": PATCH}


def mini() -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You."}, {"role": "user", "content": opening()}]
    for typed, answer in (
        ("ls /testbed", "shop"),
        ("sed -n '1,20p' shop/cart.py", "def total"),
        ("python -c 'from shop.cart import total; assert total([1, 2]) == 3'", FAILS),
        ("sed -i 's/1://' shop/cart.py", ""),
    ):
        messages.append({"role": "assistant", "content": f"THOUGHT: I look.\n\n```bash\n{typed}\n```"})
        messages.append({"role": "user", "content": f"<returncode>0</returncode>\n<output>\n{answer}</output>"})
    info = {"submission": PATCH, "mini_version": "2.0.0"}
    return {"trajectory_format": "mini-swe-agent-1", "instance_id": "me__shop-1", "messages": messages, "info": info}


LAYOUTS: dict[str, Callable[[], dict[str, Any]]] = {
    "openhands messages": openhands,
    "openhands events": events,
    "swe-smith": smith,
    "swe-agent": sweagent,
    "nebius": nebius,
    "mini-swe-agent": mini,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_search(layout: str) -> None:
    trajectory = read(LAYOUTS[layout](), "here")
    assert isinstance(trajectory, AgentTrajectory), trajectory
    assert (trajectory.layout, trajectory.issue, trajectory.repository) == (layout, ISSUE, "me/shop")
    found = search(trajectory, changed_files(trajectory.patch))
    assert [ref.path for ref in found.files] == ["shop/cart.py"] and not found.missed
    assert found.reproduction is not None and found.reproduction.claim
    assert "AssertionError" in found.reproduction.observed
    if layout != "mini-swe-agent":
        assert found.reproduction.command == "python check.py"
        assert found.reproduction.files["check.py"].strip() == SCRIPT.strip()
    # Nothing of the fix is in it.
    assert not any("sed -i" in str(step.call.arguments) or step.call.name == "edit" for step in found.steps)


def test_what_was_run_after_the_first_edit_is_no_reproduction() -> None:
    trajectory = read(openhands(steps=(LIST, VIEW, EDIT, CREATE, RUN)), "here")
    assert isinstance(trajectory, AgentTrajectory)
    found = search(trajectory, ["shop/cart.py"])
    assert found.reproduction is None and len(found.steps) == 2


@pytest.mark.parametrize(
    "answer", ["bash: python: command not found", "ModuleNotFoundError: No module named 'shop'", "ok"]
)
def test_a_run_that_shows_nothing_is_no_reproduction(answer: str) -> None:
    trajectory = read(openhands(steps=(LIST, VIEW, CREATE, (*RUN[:2], answer), EDIT)), "here")
    assert isinstance(trajectory, AgentTrajectory)
    assert search(trajectory, ["shop/cart.py"]).reproduction is None


def test_a_search_for_a_word_is_no_reproduction() -> None:
    look = ("bash", {"command": "grep -rn -e python -e Error . | head"}, "Error: at last\n[exit code 1]")
    trajectory = read(openhands(steps=(look, VIEW, EDIT)), "here")
    assert isinstance(trajectory, AgentTrajectory)
    assert search(trajectory, ["shop/cart.py"]).reproduction is None


def write(folder: Path, name: str, rows: list[Any]) -> Path:
    path = folder / name
    text = "".join(json.dumps(row) + "\n" for row in rows) if ".jsonl" in name else json.dumps(rows)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


@pytest.mark.parametrize("dialect", ["xml", "native", "fenced", "json"])
def test_a_demonstration_reads_as_an_episode_does(tmp_path: Path, dialect: Any) -> None:
    build_corpus([write(tmp_path, "a.json", [openhands()])], tmp_path / "out", CorpusRules(dialect=dialect))
    (made,) = demonstrations(tmp_path / "out" / "corpus.jsonl")
    roles = [message["role"] for message in made.messages]
    answers = "tool" if dialect == "native" else "user"
    assert roles == ["system", "user", *["assistant", answers] * 4, "assistant"] and made.turns == 5
    spoken = dialects.dialect(dialect)
    for message in made.messages[2:-1:2]:
        calls = message.get("tool_calls") or ()
        assert isinstance(message["content"], str)
        turn = spoken.parse(Reply(message["content"], (), None, "stop", "")) if not calls else None
        assert calls or (turn is not None and len(turn.calls) == 1)
    handoff = parse(str(made.messages[-1]["content"]))
    assert handoff.files[0].path == "shop/cart.py" and handoff.files[0].regions == ((1, 20),)
    assert handoff.reproduction is not None and handoff.reproduction.command == "python check.py"


def test_answers_are_as_long_as_the_rules_say(tmp_path: Path) -> None:
    steps = (("bash", {"command": "ls"}, "x" * 9_000), *STEPS[1:])
    source = write(tmp_path, "a.json", [openhands(steps=steps)])
    for chars in (8_000, 500):
        card = build_corpus([source], tmp_path / str(chars), CorpusRules(observation_chars=chars))
        (made,) = demonstrations(tmp_path / str(chars) / "corpus.jsonl")
        assert str(made.messages[3]["content"]).count("x") == chars and card.observation_chars == chars


def test_an_episode_of_recons_that_is_broken_is_counted(tmp_path: Path) -> None:
    source = write(tmp_path, "a.jsonl", [{"layout": "scrout", "issue_id": "me__shop-1", "steps": 3}])
    assert build_corpus([source], tmp_path / "out", CorpusRules()).dropped == {"broken scrout": 1}


def odd(arguments: object, layout: str = "scrout") -> dict[str, Any]:
    """A document whose second call has these arguments."""
    row: dict[str, Any]
    if layout == "scrout":
        row = {"layout": "scrout", "issue_id": "me__odd-1", "repository": "me/odd", "base_commit": "", "issue": ISSUE}
        act = {"thought": "", "tool": "str_replace_editor", "arguments": arguments, "observation": "x"}
        return {**row, "steps": [act, act], "gold": {"files": ["shop/cart.py"], "patch": ""}}
    row = openhands("me__odd-1")
    row["messages"][4]["tool_calls"][0]["function"]["arguments"] = arguments
    return row


@pytest.mark.parametrize(
    "row",
    [
        odd({"command": "view"}),
        odd({"command": "view", "path": "a.py", "view_range": "9" * 5_000}),
        odd("[" * 100_000, "openhands messages"),
        odd(json.dumps({"command": "view", "path": "a.py", "view_range": "9" * 5_000}), "openhands messages"),
        openhands("me__odd-1", steps=(LIST, ("bash", {"command": f"sed -n '1,{'9' * 5_000}p' shop/cart.py"}, "x"))),
    ],
    ids=range(5),
)
def test_values_that_are_none_cost_their_document_alone(tmp_path: Path, row: dict[str, Any]) -> None:
    card = build_corpus([write(tmp_path, "a.jsonl", [openhands(), row])], tmp_path / "out", CorpusRules())
    (why,) = card.dropped
    assert (card.demonstrations, card.dropped[why]) == (1, 1) and why.startswith("broken ")


def test_of_an_issue_the_two_best_are_kept_and_the_third_is_shelved(tmp_path: Path) -> None:
    without = (LIST, VIEW, EDIT)
    longer = (LIST, LIST, LIST, VIEW, CREATE, RUN, EDIT)
    rows = [
        openhands(steps=without),
        openhands("me__shop-1_2", longer),
        openhands("me__shop-1_3"),
        openhands("me__shop-1_4", (("bash", {"command": "ls -a"}, "."), *STEPS[1:])),
    ]
    card = build_corpus([write(tmp_path, "a.jsonl", rows)], tmp_path / "out", CorpusRules())
    kept = list(demonstrations(tmp_path / "out" / "corpus.jsonl"))
    (in_reserve,) = demonstrations(tmp_path / "out" / "reserve.jsonl")
    assert [one.turns for one in kept] == [5, 5] and in_reserve.turns == 7
    assert (card.demonstrations, card.reserve, card.issues) == (2, 1, 1)
    assert card.dropped == {"beyond the best of its issue": 1} and card.reproduced == 1.0


def test_every_document_is_counted_once(tmp_path: Path) -> None:
    good = openhands()
    rows = [good, {"some": "thing"}, openhands("me__a-1", resolved=False), openhands("me__b-1", steps=(EDIT,)), [1]]
    path = write(tmp_path, "a.jsonl", rows)
    path.write_text(path.read_text() + '{"instance_id": "cut off')
    card = build_corpus([path], tmp_path / "out", CorpusRules())
    assert card.read == 6 == card.demonstrations + card.reserve + sum(card.dropped.values())
    assert card.dropped["did not solve its issue"] == 1 and card.dropped["no known layout"] == 1
    assert card.dropped["no JSON"] == 1 and card.demonstrations == 1


@pytest.mark.parametrize(
    "instance_id", ["django__django-123", "instance_NodeBB__NodeBB-1", "someone__Flask-9_3", "PSF__requests-77"]
)
def test_what_results_are_measured_on_stays_out(tmp_path: Path, instance_id: str) -> None:
    rows = [openhands(instance_id), openhands("me__shop-1", instance={"repo": "fork/django"}), openhands("me__fine-2")]
    card = build_corpus([write(tmp_path, "a.jsonl", rows)], tmp_path / "out", CorpusRules())
    assert card.dropped == {"a repository that nothing is trained on": 2} and card.blocked_hits == 0
    assert [one.issue_id for one in demonstrations(tmp_path / "out" / "corpus.jsonl")] == ["me__fine-2"]


@pytest.mark.parametrize(
    "more",
    [
        {"instance_id": "django__django-12345_run2"},
        {"instance_id": "django__django-12345-run_2"},
        {"instance_id": "django__django-12345_0_1"},
        {"instance_id": "astropy__astropy-1234__attempt1"},
        {"instance_id": "pytest-dev__pytest-PR-123"},
        {"instance_id": "swe-bench__django__django-12345"},
        {"instance_id": "django__django.abcdef12.func_pm__x"},
        {"repo": "django/django"},
        {"repo": "https://github.com/someone/Django.git"},
        {"instance": {"repo": "django"}},
        {"instance": {"repo": "swesmith/django__django.abcdef12"}},
        {"traj_id": "psf__requests-1.x"},
        {"image_name": "swebench/sweb.eval.x86_64.django_1776_django-11099:latest"},
        {"repo": "someone/django-fork"},
    ],
    ids=str,
)
def test_whatever_names_such_a_repository_keeps_it_out(tmp_path: Path, more: dict[str, Any]) -> None:
    card = build_corpus([write(tmp_path, "a.jsonl", [{**openhands(), **more}])], tmp_path / "out", CorpusRules())
    assert card.dropped == {"a repository that nothing is trained on": 1}


def test_the_folder_that_an_agent_worked_in_names_its_repository_too(tmp_path: Path) -> None:
    row = json.loads(json.dumps(openhands()).replace("/testbed", "/workspace/django__django__3.0"))
    card = build_corpus([write(tmp_path, "a.jsonl", [row])], tmp_path / "out", CorpusRules())
    assert card.dropped == {"a repository that nothing is trained on": 1}


def test_names_that_are_no_names_cost_their_row_alone(tmp_path: Path) -> None:
    rows = [openhands(), openhands("me__fine-2", repo="~nobody/x"), openhands(f"me__shop-{'9' * 5_000}")]
    card = build_corpus([write(tmp_path, "a.jsonl", rows)], tmp_path / "out", CorpusRules())
    assert (card.demonstrations, card.dropped) == (2, {"a name longer than any repository has": 1})


class Late(frozenset[str]):
    """Held-out ids that are known only when the frozen file is read again."""

    asked = 0

    def __contains__(self, name: object) -> bool:
        self.asked += 1
        return self.asked > 1


def test_the_frozen_file_itself_is_proven_free_of_what_is_held_out(tmp_path: Path) -> None:
    source = write(tmp_path, "a.jsonl", [openhands()])
    with pytest.raises(TaskError, match="1 demonstrations are of blocked repositories or held-out issues"):
        build_corpus([source], tmp_path / "out", CorpusRules(held_out=Late()))
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize("name", ["me__flask-login-5", "django__channels-12", "me__pytest-asyncio-3"])
def test_a_name_that_only_begins_like_one_is_none(tmp_path: Path, name: str) -> None:
    assert (
        build_corpus([write(tmp_path, "a.jsonl", [openhands(name)])], tmp_path / "out", CorpusRules()).demonstrations
        == 1
    )


@pytest.mark.parametrize(
    "command",
    [
        "sed -i 's/a/b/' shop/cart.py",
        "sed -E -i 's/a/b/' shop/cart.py",
        "sed -ri 's/a/b/' shop/cart.py",
        "sed --in-place 's/a/b/' shop/cart.py",
        "perl -0pi -e 's/a/b/' shop/cart.py",
        "cp /tmp/cart.py shop/cart.py",
        "mv fixed.py shop/cart.py",
        "echo x | tee shop/cart.py",
        "cd shop && cat > cart.py <<'EOF'\nfixed\nEOF",
        "python - <<'EOF'\nopen('shop/cart.py', 'w').write('x')\nEOF",
        "python -c \"import pathlib; pathlib.Path('shop/cart.py').write_text('x')\"",
        "git apply fix.diff",
        "patch < fix.diff",
    ],
)
def test_the_search_ends_before_any_command_that_mends(command: str) -> None:
    mend = ("bash", {"command": command}, "")
    trajectory = read(openhands(steps=(LIST, VIEW, mend, CREATE, RUN)), "here")
    assert isinstance(trajectory, AgentTrajectory)
    assert len(search(trajectory, ["shop/cart.py"]).steps) == 2


@pytest.mark.parametrize(
    "command",
    [
        "cat shop/cart.py",
        "grep -n total shop/cart.py 2>/dev/null | head",
        "sed -n '1,9p' shop/cart.py",
        "cd shop && nl cart.py",
        "git log -3 -- shop/cart.py",
        "python -m pytest tests/test_cart.py",
        "cat > check.py <<'EOF'\nassert 0\nEOF",
    ],
)
def test_looking_is_not_mending(command: str) -> None:
    look = ("bash", {"command": command}, "")
    trajectory = read(openhands(steps=(LIST, look, EDIT)), "here")
    assert isinstance(trajectory, AgentTrajectory)
    assert len(search(trajectory, ["shop/cart.py"]).steps) == 2


def test_a_script_of_the_agents_own_that_mends_ends_it_too() -> None:
    text = "from pathlib import Path\nPath('shop/cart.py').write_text('x')\n"
    create = ("str_replace_editor", {"command": "create", "path": "/testbed/fix.py", "file_text": text}, "made")
    trajectory = read(openhands(steps=(LIST, VIEW, create, ("bash", {"command": "python fix.py"}, ""), RUN)), "here")
    assert isinstance(trajectory, AgentTrajectory)
    assert len(search(trajectory, ["shop/cart.py"]).steps) == 3


def test_another_file_whose_name_ends_alike_was_not_looked_at() -> None:
    look = ("bash", {"command": "cat other/shop/cart.py"}, "x")
    trajectory = read(openhands(steps=(LIST, look, EDIT)), "here")
    assert isinstance(trajectory, AgentTrajectory)
    assert search(trajectory, ["shop/cart.py"]).missed == ("shop/cart.py",)


def test_an_answer_that_shows_the_fix_spoils_a_demonstration(tmp_path: Path) -> None:
    told = ("bash", {"command": "git show"}, "--- a/shop/cart.py\n+++ b/shop/cart.py\n+b")
    card = build_corpus(
        [write(tmp_path, "a.jsonl", [openhands(steps=(LIST, VIEW, told, EDIT))])], tmp_path / "out", CorpusRules()
    )
    assert card.dropped == {"an answer shows the fix": 1}


def test_calls_of_one_turn_become_turns_with_results_of_their_own() -> None:
    row = openhands(steps=(LIST, VIEW, CREATE, RUN, EDIT))
    messages = row["messages"]
    think = {"id": "t", "type": "function", "function": {"name": "think", "arguments": "{}"}}
    # A thought, the list and the view in one turn, and their results in another order.
    turn = {**messages[2], "tool_calls": [think, *messages[2]["tool_calls"], *messages[4]["tool_calls"]]}
    thought = {"role": "tool", "tool_call_id": "t", "content": "Your thought was noted."}
    row["messages"] = [*messages[:2], turn, messages[5], thought, messages[3], *messages[6:]]
    trajectory, plain = read(row, "here"), read(openhands(steps=(LIST, VIEW, CREATE, RUN, EDIT)), "here")
    assert isinstance(trajectory, AgentTrajectory) and isinstance(plain, AgentTrajectory)
    told = [[(step.call, step.observation, step.answered) for step in one.steps] for one in (trajectory, plain)]
    assert told[0] == told[1]
    assert [step.thought for step in trajectory.steps[:3]] == ["Step 0.", "", "Step 2."]


def without_result(layout: str) -> dict[str, Any]:
    """The layout's document, in which what the agent's second step brought is missing."""
    row: dict[str, Any] = LAYOUTS[layout]()
    if layout == "openhands events":
        row["history"] = [event for event in row["history"] if event.get("cause") != 2]
    elif layout == "swe-agent":
        del row["trajectory"][1]["observation"]
    elif layout == "nebius":
        del row["trajectory"][5]
    else:
        del row["messages"][5]
    return row


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_call_without_its_result_is_counted(tmp_path: Path, layout: str) -> None:
    card = build_corpus([write(tmp_path, "a.jsonl", [without_result(layout)])], tmp_path / "out", CorpusRules())
    assert card.dropped == {"a call without its result": 1} and not card.demonstrations


def test_an_empty_result_is_one(tmp_path: Path) -> None:
    steps = (("bash", {"command": "true"}, ""), *STEPS)
    assert (
        build_corpus(
            [write(tmp_path, "a.jsonl", [openhands(steps=steps)])], tmp_path / "out", CorpusRules()
        ).demonstrations
        == 1
    )


@pytest.mark.parametrize(
    "look",
    [
        (*VIEW[:2], "ERROR:\nInvalid `view_range`: [0, 40]."),
        (*VIEW[:2], "The path /testbed/shop/cart.py does not exist."),
        ("bash", {"command": "cat shop/cart.py"}, "cat: shop/cart.py: No such file or directory"),
    ],
)
def test_a_file_that_was_not_shown_was_not_found(tmp_path: Path, look: Told) -> None:
    source = write(tmp_path, "a.jsonl", [openhands(steps=(LIST, look, EDIT))])
    assert build_corpus([source], tmp_path / "out", CorpusRules()).dropped == {
        "the search did not find every file of the fix": 1
    }


def test_layouts_may_be_mixed_in_one_file(tmp_path: Path) -> None:
    rows = [make() for make in LAYOUTS.values()]
    for number, row in enumerate(rows):
        row["instance_id"] = f"me__shop-{number}"
    # One that looks like two layouts is read as the surer one, and what is neither is counted.
    rows += [{**rows[0], "history": [], "trajectory": None, "instance_id": "me__both-1"}, {"trajectory": [3]}]
    card = build_corpus([write(tmp_path, "a.jsonl", rows)], tmp_path / "out", CorpusRules())
    assert card.layouts == {name: 2 if name == "openhands messages" else 1 for name in LAYOUTS}
    assert card.dropped == {"no known layout": 1}


@pytest.mark.parametrize("known", [{}, {"me__shop-1": ()}])
def test_a_fix_without_a_file_is_counted(tmp_path: Path, known: dict[str, tuple[str, ...]]) -> None:
    row = openhands(steps=(LIST, VIEW, RUN), test_result={"git_patch": ""})
    card = build_corpus([write(tmp_path, "a.jsonl", [row])], tmp_path / "out", CorpusRules(gold=known))
    assert card.dropped == {"no file of its fix is known": 1}


def test_a_language_that_nobody_knows_is_counted_as_such(tmp_path: Path) -> None:
    row = json.loads(json.dumps(openhands()).replace("cart.py", "cart.zz"))
    card = build_corpus([write(tmp_path, "a.jsonl", [row])], tmp_path / "out", CorpusRules())
    assert (card.demonstrations, card.languages) == (1, {"unknown": 1})


def test_a_full_disk_leaves_no_corpus(tmp_path: Path, small_disk: SmallDisk) -> None:
    rows = [openhands(f"me__shop-{number}") for number in range(60)]
    source = write(tmp_path, "a.jsonl", rows)
    done = small_disk(200, f"train corpus {source} --out DISK/out; ls -A DISK/out")
    assert "No space left on device. Name a folder with room" in done.stderr
    assert not done.stdout.strip(), "nothing is left of it"


PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
"""Run by a small process: what a child has of memory counts from that of the process which it was forked from."""


@pytest.mark.slow
def test_memory_does_not_grow_with_what_is_read(tmp_path: Path) -> None:
    """Twenty times as much, in two forms. bench/corpus.py has it for hundreds of megabytes."""
    padded = openhands(steps=(("bash", {"command": "ls"}, "x" * 50_000), *STEPS[1:]))
    for name in ("a.jsonl", "a.json"):
        peaks = []
        for count in (50, 1_000):
            path = write(tmp_path, name, [{**padded, "instance_id": f"me__shop-{number}"} for number in range(count)])
            out = tmp_path / f"{name}-{count}"
            command = [sys.executable, "-m", "scrout", "train", "corpus", str(path), "--out", str(out), "--json"]
            done = subprocess.run([sys.executable, "-c", PEAK, *command], stdout=subprocess.PIPE, check=True)
            peaks.append(int(done.stdout))
        assert peaks[1] < 1.5 * peaks[0], (name, peaks)


def test_a_null_among_documents_is_counted(tmp_path: Path) -> None:
    card = build_corpus([write(tmp_path, "a.json", [None, openhands(), 3])], tmp_path / "out", CorpusRules())
    assert card.read == 3 and card.demonstrations == 1


def test_the_same_trajectory_twice_is_one_demonstration(tmp_path: Path) -> None:
    card = build_corpus([write(tmp_path, "a.json", [openhands()] * 5)], tmp_path / "out", CorpusRules())
    assert card.demonstrations == 1 and card.dropped == {"the same as another": 4}


def test_issues_that_are_held_out_stay_out(tmp_path: Path) -> None:
    held = tmp_path / "held.txt"
    held.write_text("me__shop-1_5\n\n")
    card = build_corpus(
        [write(tmp_path, "a.jsonl", [openhands()])], tmp_path / "out", CorpusRules(held_out=read_held_out(held))
    )
    assert card.dropped == {"an issue that is held out": 1} and not card.demonstrations


def test_held_out_ids_are_the_same_in_any_case(tmp_path: Path) -> None:
    held = tmp_path / "held.txt"
    held.write_text("Me__SHOP-1\n")
    card = build_corpus(
        [write(tmp_path, "a.jsonl", [openhands()])], tmp_path / "out", CorpusRules(held_out=read_held_out(held))
    )
    assert card.dropped == {"an issue that is held out": 1}


def test_a_text_that_is_no_unicode_costs_its_trajectory_alone(tmp_path: Path) -> None:
    broken = openhands("me__shop-2", (LIST, VIEW, (*RUN[:2], "\ud800 Traceback"), EDIT))
    card = build_corpus([write(tmp_path, "a.jsonl", [openhands(), broken])], tmp_path / "out", CorpusRules())
    assert (card.demonstrations, card.dropped) == (1, {"its text is no Unicode": 1})


def test_a_known_answer_counts_more_than_the_trajectorys_own_patch(tmp_path: Path) -> None:
    rules = CorpusRules(gold={"me__shop-1": ("shop/stock.py",)})
    card = build_corpus([write(tmp_path, "a.jsonl", [openhands()])], tmp_path / "out", rules)
    assert card.dropped == {"the search did not find every file of the fix": 1}


def test_arrays_lines_and_gzip_read_alike(tmp_path: Path) -> None:
    rows = [openhands(f"me__shop-{number}") for number in range(5)]
    for name in ("a.json", "a.jsonl", "b.json.gz", "b.jsonl.gz"):
        found = [document for _, document in documents(write(tmp_path, name, rows))]
        assert found == rows, name


def test_parquet_reads_like_the_others(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    from pyarrow.parquet import write_table

    path = tmp_path / "a.parquet"
    write_table(pyarrow.Table.from_pylist([openhands(), openhands("me__shop-2")]), path)
    assert build_corpus([path], tmp_path / "out", CorpusRules()).demonstrations == 2
    path.write_bytes(path.read_bytes()[:200])
    assert [type(document) for _, document in documents(path)] == [UnreadableDocument]


def test_a_row_of_parquet_that_is_no_unicode_costs_itself_alone(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    from pyarrow.parquet import write_table

    raw = pyarrow.array([b"one", b"\xff\xfe", b"three"], pyarrow.binary())
    text = pyarrow.Array.from_buffers(pyarrow.string(), 3, raw.buffers())
    write_table(pyarrow.table({"instance_id": text}), tmp_path / "a.parquet")
    found = [document for _, document in documents(tmp_path / "a.parquet")]
    assert [isinstance(one, UnreadableDocument) for one in found] == [False, True, False]


def test_a_file_that_breaks_off_gives_what_it_has(tmp_path: Path) -> None:
    whole = write(tmp_path, "a.json", [openhands(f"me__shop-{number}") for number in range(3)]).read_text()
    cut = tmp_path / "cut.json"
    cut.write_text(whole[: int(len(whole) * 0.8)])
    found = [document for _, document in documents(cut)]
    assert len(found) == 3 and isinstance(found[-1], UnreadableDocument)
    zipped = tmp_path / "cut.json.gz"
    zipped.write_bytes(gzip.compress(whole.encode())[:-40])
    *read_, last = [document for _, document in documents(zipped)]
    assert isinstance(last, UnreadableDocument) and not any(isinstance(one, UnreadableDocument) for one in read_)


def test_a_folder_with_a_corpus_is_left_alone(tmp_path: Path) -> None:
    source = write(tmp_path, "a.jsonl", [openhands()])
    first = build_corpus([source], tmp_path / "out", CorpusRules())
    with pytest.raises(TaskError, match="holds a corpus already"):
        build_corpus([source], tmp_path / "out", CorpusRules())
    again = build_corpus([source], tmp_path / "out2", CorpusRules())
    assert (first.excluded_repositories, first.excluded_issues, first.notes_by) == (23, 0, "")
    assert again == first and not (tmp_path / "out2" / ".spool").exists()


@pytest.mark.parametrize(
    ("name", "words"), [("nothing", "is not there"), ("a.txt", "is none of"), ("empty", "holds no")]
)
def test_sources_that_cannot_be_are_named(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "empty").mkdir()
    with pytest.raises(TaskError, match=words):
        build_corpus([tmp_path / name], tmp_path / "out", CorpusRules())


@pytest.mark.parametrize(
    ("name", "issue", "repository"),
    [
        ("python__mypy-15976_0", "python__mypy-15976", "python/mypy"),
        (
            "brightway-lca__brightway2-analyzer-19_23",
            "brightway-lca__brightway2-analyzer-19",
            "brightway-lca/brightway2-analyzer",
        ),
        ("getmoto__moto.694ce1f4.pr_6055", "getmoto__moto.694ce1f4.pr_6055", "getmoto/moto"),
        ("a__b.c-3", "a__b.c-3", "a/b.c"),
        ("whatever", "whatever", ""),
    ],
)
def test_attempts_at_one_issue_share_its_id(name: str, issue: str, repository: str) -> None:
    assert issue_of(name) == (issue, repository)


def test_the_command_tells_what_it_made(tmp_path: Path) -> None:
    source = write(tmp_path, "a.jsonl", [openhands(), {}])
    done = CliRunner().invoke(command, ["corpus", str(source), "--out", str(tmp_path / "out"), "--json"])
    assert json.loads(done.stdout)["dropped"] == {"no known layout": 1}


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="no sample trajectories beside the project")
def test_real_trajectories_of_every_layout_become_demonstrations(tmp_path: Path) -> None:
    card = build_corpus([SAMPLES], tmp_path / "out", CorpusRules())
    assert (
        card.read == 21
        and card.demonstrations == 18
        and set(card.dropped) == {"the search did not find every file of the fix"}
    )
    assert len(card.layouts) == 5 and card.blocked_hits == 0
