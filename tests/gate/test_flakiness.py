"""Claims that chance decides are replayed more often than honest ones."""

from __future__ import annotations

import pytest

from scrout.gate.flakiness import CHANCE_RUNS, runs_needed


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("import random\nassert random.choice((0, 1))", "python r.py"),
        ("import os\nassert os.getpid() % 2", "python r.py"),
        ("import time\nassert int(time.time()) % 2", "python r.py"),
        ("assert hash('x') % 2", "python r.py"),
        ("assert list({'a', 'b', f()})[0] == 'a'", "python r.py"),
        ("assert next(iter(set(f()))) == 'a'", "python r.py"),
        ("x = 1", "test $RANDOM -gt 100"),
        ("x = 1", "python -c 'import uuid; assert uuid.uuid4().int % 2'"),
    ],
)
def test_probability_is_replayed_more_often(text: str, command: str) -> None:
    assert runs_needed([text], command, 2) == CHANCE_RUNS
    assert runs_needed([text], command, 20) == 20


def test_an_honest_claim_is_replayed_as_often_as_asked() -> None:
    assert runs_needed(["from shop import total\nassert total([1]) == 1\n"], "python r.py", 2) == 2
    assert runs_needed([], "python -m pytest -q test_a.py", 3) == 3
