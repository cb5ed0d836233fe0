"""Fitting a conversation into a context: what stays, what goes, that it fits, and how often anybody has to count."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.agent.context import Window
from scrout.agent.dialect import RequestTools
from scrout.base import ConfigError
from scrout.models.chat import Message, Tool, ToolCall
from scrout.money import Usage

TOOL = Tool("bash", "Run a command.", {"type": "object", "properties": {"command": {"type": "string"}}})
NATIVE = RequestTools(tools=(TOOL,))


class Server:
    """Counts as a model with tokens of so many bytes would."""

    def __init__(self, bytes_per_token: float = 3, offers: bool = True) -> None:
        self.bytes_per_token = bytes_per_token
        self.offers = offers
        self.counted: list[int] = []

    def tokens(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> int:
        texts = [
            message.content + "".join(call.name + call.arguments for call in message.calls) for message in messages
        ]
        texts += (tool.name + tool.description + json.dumps(tool.parameters) for tool in tools)
        return sum(4 + int(len(text.encode()) / self.bytes_per_token) for text in texts)

    async def count(self, messages: Sequence[Message], tools: Sequence[Tool]) -> int | None:
        if not self.offers:
            return None
        self.counted.append(self.tokens(messages, tools))
        return self.counted[-1]


class Digits(Server):
    """Has a token for each digit, as many models do."""

    def tokens(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> int:
        digits = sum(character.isdigit() for message in messages for character in message.content)
        return super().tokens(messages, tools) + digits - int(digits / self.bytes_per_token)


SYSTEM = Message("system", "You search.")


def native_turn(number: int, answers: Sequence[str], said: str = "") -> list[Message]:
    calls = tuple(ToolCall(f"c{number}.{at}", "bash", '{"command": "ls"}') for at in range(len(answers)))
    told = [Message("tool", answer, call_id=call.id) for call, answer in zip(calls, answers, strict=True)]
    return [Message("assistant", said, calls), *(told or [Message("user", "Go on.")])]


def spoken_turn(number: int, answer: str) -> list[Message]:
    return [Message("assistant", f"call {number}"), Message("user", answer)]


def dropped(fitted: Sequence[Message]) -> int:
    """What the marker says, at the end of the issue."""
    last = fitted[1].content.rpartition("\n")[2]
    return int(last[1:].split()[0]) if last.endswith("left out here]") else 0


async def hold(window: Window, server: Server, turns: int, answer: str, told: bool = True) -> list[tuple[Message, ...]]:
    """A conversation of so many turns; what was sent in each, with the usage told or not."""
    messages, sent = [SYSTEM, Message("user", "the issue")], []
    for number in range(turns):
        fitted = await window.fit(messages, RequestTools())
        sent.append(fitted)
        if told:
            window.learn(Usage(input_tokens=server.tokens(fitted)))
        messages += spoken_turn(number, f"{number} {answer}")
    return sent


# What stays and what goes


async def test_what_fits_is_left_alone_and_nobody_counts() -> None:
    server = Server()
    messages = [SYSTEM, Message("user", "issue"), *spoken_turn(0, "x" * 500)]
    assert await Window(server, 1000, 0.8).fit(messages, RequestTools()) == tuple(messages)
    assert server.counted == []


async def test_the_oldest_turns_go_and_a_line_says_how_many() -> None:
    server = Server()
    sent = await hold(Window(server, 1000, 0.8), server, 20, "word " * 60)
    last = sent[-1]
    assert last[0] == SYSTEM and last[1].content.startswith("the issue\n\n[")
    gone = dropped(last)
    assert gone > 10 and last[2:] == tuple(
        message for number in range(gone, 19) for message in spoken_turn(number, f"{number} {'word ' * 60}")
    )
    assert [message.role for message in last[1:]] == ["user", *["assistant", "user"] * (19 - gone)]
    # As many turns as fit, by the server's own count.
    assert server.tokens(last) <= 1000 < server.tokens((*last, *spoken_turn(0, "0 " + "word " * 60)))
    assert [dropped(fitted) for fitted in sent] == sorted(dropped(fitted) for fitted in sent)


async def test_one_turn_left_out_is_one_turn() -> None:
    window = Window(Server(), 700, 0.8)
    messages = [SYSTEM, Message("user", "issue"), *(m for n in range(3) for m in spoken_turn(n, "x" * 900))]
    assert "\n\n[1 earlier turn left out here]" in (await window.fit(messages, RequestTools()))[1].content


async def test_an_issue_too_long_by_itself_is_clipped_in_the_middle() -> None:
    server = Server(4)
    issue = "".join(f"line {number}\n" for number in range(20_000))
    fitted = await Window(server, 10_000, 0.8).fit([SYSTEM, Message("user", issue)], RequestTools())
    assert fitted[0] == SYSTEM and len(fitted) == 2
    assert fitted[1].content.startswith("line 0\nline 1\n") and fitted[1].content.endswith("line 19998\nline 19999\n")
    assert "characters left out]" in fitted[1].content
    assert 3_000 < server.tokens(fitted) <= 5_000


async def test_an_answer_too_long_by_itself_is_clipped_and_stays_so() -> None:
    server = Server(4)
    window = Window(server, 4_000, 0.8)
    messages = [SYSTEM, Message("user", "issue"), *native_turn(0, ["a" * 90_000, "short"])]
    fitted = await window.fit(messages, NATIVE)
    assert fitted[2] == messages[2] and fitted[4] == messages[4]
    assert fitted[3].call_id == "c0.0" and 8_000 < len(fitted[3].content) < 16_000
    window.learn(Usage(input_tokens=server.tokens(fitted, NATIVE.tools)))
    again = await window.fit([*messages, *native_turn(1, ["b" * 20])], NATIVE)
    assert again[3] == fitted[3] or fitted[3] not in again


@pytest.mark.parametrize("offers", [True, False])
async def test_a_harder_fit_is_smaller_even_where_the_count_was_wrong(offers: bool) -> None:
    server = Server(50, offers)  # the real tokens are many more
    window = Window(server, 30_000, 0.8)
    messages = [SYSTEM, Message("user", "issue"), *(m for n in range(8) for m in spoken_turn(n, "x" * 2_000))]
    soft = await window.fit(messages, RequestTools())
    hard = await window.fit(messages, RequestTools(), harder=True)
    assert soft == tuple(messages) and 0 < len(hard) < len(soft)
    assert server.tokens(hard) <= 0.8 * server.tokens(soft)
    # What went stays away.
    assert await window.fit(messages, RequestTools()) == hard


async def test_the_papers_harder_fit() -> None:
    server = Server(1)
    window = Window(server, 30_464, 0.8)
    messages = [SYSTEM, Message("user", "issue"), *(m for n in range(90) for m in spoken_turn(n, "x" * 500))]
    assert 29_900 < server.tokens(await window.fit(messages, RequestTools())) <= 30_464
    assert 23_300 < server.tokens(await window.fit(messages, RequestTools(), harder=True)) <= 24_371


# Counting


async def test_a_server_is_asked_only_near_the_limit_and_never_about_all_of_a_long_history() -> None:
    server = Server(3)
    sent = await hold(Window(server, 10_000, 0.8), server, 60, "y" * 2_500)
    assert dropped(sent[-1]) > 40
    first = next(at for at, fitted in enumerate(sent) if dropped(fitted))
    assert len(server.counted) <= 2 * (60 - first) + 4
    assert max(server.counted) < 11_000 + 2_600


async def test_without_a_count_the_endpoints_usage_tightens_the_estimate() -> None:
    told, untold = Server(4, offers=False), Server(4, offers=False)
    with_usage = await hold(Window(told, 10_000, 0.8), told, 30, "z" * 2_000)
    without = await hold(Window(untold, 10_000, 0.8), untold, 30, "z" * 2_000, told=False)
    assert told.tokens(with_usage[-1]) > 8_500 > 5_500 > untold.tokens(without[-1])
    assert all(told.tokens(fitted) <= 10_000 for fitted in (*with_usage, *without))


@pytest.mark.parametrize("usage", [1, 10**9])
async def test_a_usage_that_cannot_be_true_does_no_lasting_harm(usage: int) -> None:
    window = Window(Server(3, offers=False), 4_000, 0.8)
    messages = [SYSTEM, Message("user", "issue")]
    for number in range(40):
        fitted = await window.fit(messages, RequestTools())
        assert fitted[0] == SYSTEM and fitted[1].content.startswith("issue")
        assert len(fitted) < 40 or number < 20
        window.learn(Usage(input_tokens=usage))
        messages += spoken_turn(number, "x" * 3_000)


async def test_a_server_that_fails_to_count_once_is_asked_again() -> None:
    server = Server(3)
    window = Window(server, 2_000, 0.8)
    messages = [SYSTEM, Message("user", "issue"), *(m for n in range(4) for m in spoken_turn(n, "x" * 1_400))]
    server.offers = False
    estimated = await window.fit(messages, RequestTools())
    assert server.tokens(estimated) <= 2_000
    server.offers = True
    counted = await window.fit([*messages, *spoken_turn(5, "x" * 4_000)], RequestTools())
    assert server.counted and server.tokens(counted) <= 2_000


async def test_turns_of_another_density_are_counted_again_before_they_are_believed() -> None:
    server = Digits(5)
    texts = ["prose " * 100] * 6 + ["1234567890" * 60] * 6
    messages = [SYSTEM, Message("user", "issue"), *(m for n, text in enumerate(texts) for m in spoken_turn(n, text))]
    fitted = await Window(server, 3_000, 0.8).fit(messages, RequestTools())
    assert dropped(fitted) and 2_000 < server.tokens(fitted) <= 3_000


@pytest.mark.parametrize("size", range(600, 1_500, 100))
async def test_a_server_that_counts_again_is_believed_again(size: int) -> None:
    server = Digits(5, offers=False)
    window = Window(server, 3_000, 0.8)
    messages = [SYSTEM, Message("user", "issue"), *(m for n in range(9) for m in spoken_turn(n, "prose " * 150))]
    await window.fit(messages, RequestTools())
    server.offers = True
    for number in range(9, 14):
        messages += spoken_turn(number, "7" * size)
        assert server.tokens(await window.fit(messages, RequestTools())) <= 3_000


answers = st.text(st.sampled_from("ab 7\n€"), max_size=60).flatmap(
    lambda text: st.integers(0, 60).map(lambda times: text * times)
)
turns = st.lists(st.tuples(st.lists(answers, max_size=3), st.sampled_from(["", "Let me see. "])), max_size=12)


@given(
    issue=answers,
    turns=turns,
    room=st.integers(1_200, 4_000),
    density=st.floats(1, 6),
    offers=st.booleans(),
    told=st.booleans(),
)
def test_it_fits_keeps_what_matters_and_orphans_nothing(
    issue: str,
    turns: list[tuple[list[str], str]],
    room: int,
    density: float,
    offers: bool,
    told: bool,
) -> None:
    # Where nobody counts and no usage is told, tokens of less than two bytes can be too many.
    server = Server(density if offers else max(density, 2), offers)
    windows = [Window(server, room, 0.8), Window(server, room, 0.8)]
    messages = [SYSTEM, Message("user", issue)]

    async def step() -> None:
        fitted, again = [await window.fit(messages, NATIVE) for window in windows]
        assert fitted == again
        assert server.tokens(fitted, NATIVE.tools) <= room
        gone = dropped(fitted)
        assert fitted[0] == SYSTEM
        shown = fitted[1].content.rsplit("\n\n[", 1)[0] if gone else fitted[1].content
        assert shown == issue or (shown[:20], shown[-20:]) == (issue[:20], issue[-20:])
        starts = [at for at, message in enumerate(messages) if message.role == "assistant"]
        expected = messages[starts[gone] :] if starts else []
        assert len(expected) == len(fitted) - 2 and (not starts or gone < len(starts))
        for sent, said in zip(fitted[2:], expected, strict=True):
            assert (sent.role, sent.calls, sent.call_id) == (said.role, said.calls, said.call_id)
            assert sent.content == said.content or "characters left out]" in sent.content
        if told:
            for window in windows:
                window.learn(Usage(input_tokens=server.tokens(fitted, NATIVE.tools)))

    async def talk() -> None:
        await step()
        for number, (results, said) in enumerate(turns):
            messages.extend(native_turn(number, results, said))
            await step()

    asyncio.run(talk())


# A local tokenizer


def words_file(folder: Path) -> Path:
    """A tokenizer.json that has a token for each word and each punctuation mark."""
    tokenizers = pytest.importorskip("tokenizers")
    known = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    known.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    known.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


async def test_a_local_tokenizer_counts_and_the_server_is_not_asked(tmp_path: Path) -> None:
    server = Server()
    window = Window(server, 1_000, 0.8, str(words_file(tmp_path)))
    turns = [m for n in range(30) for m in spoken_turn(n, "loooooooong " * 90 + "\ud800")]
    fitted = await window.fit([SYSTEM, Message("user", "issue"), *turns], RequestTools())
    assert server.counted == []
    assert dropped(fitted) == 30 - (len(fitted) - 2) // 2
    words = sum(len(message.content.split()) for message in fitted)
    assert 600 < words <= 1_000


async def test_a_tokenizer_that_is_none_names_the_file(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    (tmp_path / "bad.json").write_text("{}")
    for name in ("bad.json", "missing.json", "."):
        with pytest.raises(ConfigError, match=name):
            await Window(Server(), 1_000, 0.8, str(tmp_path / name)).fit([SYSTEM], RequestTools())


async def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ConfigError, match=r"pip install 'scrout\[tokenizer\]'"):
        await Window(Server(), 1_000, 0.8, "tokenizer.json").fit([SYSTEM], RequestTools())
