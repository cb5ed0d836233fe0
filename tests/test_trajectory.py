"""The record of an attempt: what can be read back from it, whole or cut off."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from scrout import trajectory
from scrout.money import Price, Receipt, Usage
from scrout.trajectory import (
    BilledCall,
    Line,
    ModelRequest,
    ModelResponse,
    RefusedCall,
    ReservedCall,
    Trajectory,
    TrajectoryEnd,
    TrajectoryHeader,
    read,
    receipts,
)

PRICE = Price(input=Decimal(1), output=Decimal(2))
WORST = Usage(input_tokens=100, output_tokens=1000)
TRUE = Usage(input_tokens=10, output_tokens=20)
HEADER = TrajectoryHeader(
    fixer="f",
    component="fix",
    model="m",
    endpoint="http://localhost/v1",
    price=PRICE,
    cap_usd=Decimal(2),
    cap_calls=9,
    rule="hard",
)


def held(call: int) -> ReservedCall:
    return ReservedCall(call=call, api="chat", held_usd=PRICE.cost(WORST), worst=WORST)


def called(call: int, text: str = "said", asked: ModelRequest | None = None) -> BilledCall:
    receipt = Receipt(
        component="fix", fixer="f", model="m", usage=TRUE, cost_usd=PRICE.cost(TRUE), at=datetime.now(UTC), call=call
    )
    said = ModelResponse(text=text)
    return BilledCall(
        call=call, api="chat", status=200, asked=asked or ModelRequest(), said=said, receipt=receipt, seconds=0.1
    )


def refused(call: int) -> RefusedCall:
    return RefusedCall(call=call, api="chat", status=429, asked=ModelRequest(), error="slow down", seconds=0.1)


def write(path: Path, *lines: Line, secrets: tuple[str, ...] = ()) -> Path:
    written = Trajectory(path, secrets)
    for line in lines:
        written.write(line)
    written.close()
    return path


WHOLE: tuple[Line, ...] = (
    HEADER,
    held(1),
    held(2),
    called(1),
    refused(2),
    held(3),
    called(3, "über"),
    held(4),
    TrajectoryEnd(stop="cap_usd"),
)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    assert tuple(read(write(tmp_path / "t", *WHOLE))) == WHOLE


def test_a_trajectory_is_its_owners_and_never_written_over(tmp_path: Path) -> None:
    path = write(tmp_path / "a" / "t", HEADER)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    with pytest.raises(FileExistsError):
        Trajectory(path)


def test_receipts_are_those_of_the_calls_and_of_holds_that_nobody_ended(tmp_path: Path) -> None:
    paid = receipts(write(tmp_path / "t", *WHOLE))
    assert [(one.call, one.usage, one.estimated) for one in paid] == [
        (1, TRUE, False),
        (3, TRUE, False),
        (4, WORST, True),
    ]
    assert paid[2].cost_usd == PRICE.cost(WORST)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write(tmp_path_factory.mktemp("whole") / "t", *WHOLE).read_bytes()


@given(st.data())
def test_a_file_cut_anywhere_still_tells_all_that_may_have_been_paid(whole: bytes, data: st.DataObject) -> None:
    """At any cut each call that was forwarded by then is there: at its cost, or at its hold, or refused."""
    cut = data.draw(st.integers(0, len(whole)))
    # A line is there once its brace is: the newline adds nothing.
    there = [line for line in whole[:cut].split(b"\n") if line.endswith(b"}") and _is_json(line)]
    kinds = [json.loads(line) for line in there]
    forwarded = {line["call"] for line in kinds if line["kind"] == "held"}
    given_back = {line["call"] for line in kinds if line["kind"] == "refused"}
    known = {line["call"] for line in kinds if line["kind"] == "call"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t")
        path.write_bytes(whole[:cut])
        paid = receipts(path)
    assert {one.call for one in paid} == forwarded - given_back
    assert {one.call for one in paid if not one.estimated} == known


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def test_a_line_torn_by_a_full_disk_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t"
    written = Trajectory(path)
    written.write(HEADER)
    written.write(held(1))
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", _Filling(os.write))
        with pytest.raises(OSError, match="No space"):
            written.write(called(1))
    written.write(held(2))
    written.write(held(3))
    written.write(called(3))
    written.close()
    assert [(one.call, one.estimated) for one in receipts(path)] == [(1, True), (2, True), (3, False)]


class _Filling:
    """A disk with room for nine more bytes."""

    def __init__(self, write: Callable[[int, bytes], int]) -> None:
        self.write = write
        self.room = 9

    def __call__(self, file: int, data: bytes) -> int:
        if not self.room:
            _no_space()
        part, self.room = data[: self.room], 0
        return self.write(file, part)


def _no_space() -> None:
    raise OSError(28, "No space left on device")


def test_secrets_are_cut_out_wherever_they_are(tmp_path: Path) -> None:
    asked = ModelRequest(
        new=({"role": "user", "content": "use open-sesame-1 now"},), rest={"open-sesame-1": ["open-sesame-1"]}
    )
    line = called(1, "the key is open-sesame-1", asked)
    shaped = called(2, "sk-" + "proj-0123456789abcdef0123")
    path = write(tmp_path / "t", HEADER, line, shaped, secrets=("open-sesame-1",))
    content = path.read_text()
    assert "sesame" not in content and "0123456789abcdef" not in content
    assert len(list(read(path))) == 3


def test_what_was_asked_can_be_made_ready_before_the_answer(tmp_path: Path) -> None:
    asked = ModelRequest(
        new=({"role": "user", "content": "use open-sesame-1, über"},), rest={"tools": ["open-sesame-1"]}
    )
    lines = called(1, "first", asked), called(2, "second", asked)
    ready, plain = Trajectory(tmp_path / "a", ["open-sesame-1"]), Trajectory(tmp_path / "b", ["open-sesame-1"])
    ready.prepare(2, asked)
    ready.prepare(1, asked)
    for line in lines:
        ready.write(line)
        plain.write(line)
    ready.close()
    plain.close()
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert "sesame" not in (tmp_path / "a").read_text() and len(list(read(tmp_path / "a"))) == 2


ODD: list[JsonValue] = [
    "\ud800",
    "a\udc00b",
    "\ud83d\ude00",
    float("inf"),
    float("nan"),
    {"\udfff": [{"\ud800": None}]},
    10**4000,
]


@pytest.mark.parametrize("odd", ODD, ids=ascii)
def test_what_no_utf8_or_json_can_hold_is_written_all_the_same(tmp_path: Path, odd: JsonValue) -> None:
    text = odd if isinstance(odd, str) else "x"
    asked = ModelRequest(new=(odd,), rest={"key": odd})
    line = called(1, text, asked)
    path = write(tmp_path / "t", HEADER, held(1), line)
    assert [kind.kind for kind in read(path)] == ["header", "held", "call"]


def test_the_halves_of_a_character_that_came_in_two_parts_are_one(tmp_path: Path) -> None:
    path = write(tmp_path / "t", called(1, "\ud83d" + "\ude00"))
    (line,) = read(path)
    assert isinstance(line, BilledCall) and line.said.text == "😀"


def test_what_is_nested_without_end_is_written_as_deep_as_it_can_be_read(tmp_path: Path) -> None:
    deep: JsonValue = "x"
    for _ in range(900):
        deep = [deep]
    path = write(tmp_path / "t", called(1, asked=ModelRequest(new=(deep,), rest={"deep": deep})))
    (line,) = read(path)
    assert isinstance(line, BilledCall) and trajectory.MAX_DEPTH < 900
