"""How many decisions a second one `scrout api` gives, and how long a caller waits for one.

    python bench/api.py --tasks FILE.jsonl[.gz] [--seconds 10] [--out bench/results/api.json]

The server is a process of its own, over a pool of four models with shipped résumés. Callers ask as fast as it answers,
so many at a time. `distinct`: each text is asked once. `repeated`: ten texts over and over. `at the target`: requests
come at the rate of the target, whatever the answers take. `paper` embeds each text with MiniLM where that is installed
(make embedder), which `value`, the default, does not. The asking shares the machine's cores with the answering.
`auto` is one conversation of `scrout/auto` after the other against an endpoint that answers at once, beside the same
endpoint asked directly.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
from record import record
from route_timing import POOLS

from scrout.models.scripted import ScriptedEndpoint, ScriptedReply
from scrout.money import Usage
from scrout.route.embedders import minilm
from scrout.route.outcomes import read_texts

TOKEN = "0123456789abcdef0123456789"
TARGETS = {"distinct": 20, "repeated": 200}
AT_ONCE = 8
CONVERSATIONS = 60

Body = Callable[[], dict[str, object]]


@contextmanager
def server(folder: Path, base_url: str, policy: str) -> Iterator[str]:
    """Its address."""
    entries = "".join(
        f'[[fixers]]\nname = "{model}"\nkind = "agent"\nmodel = "{model}"\nbase_url = "{base_url}"\n'
        "price = { input = 1, output = 1 }\n"
        for model in POOLS[4]
    )
    caller = (
        '[[api.callers]]\nname = "bench"\ntoken_env = "BENCH_TOKEN"\nmay = ["route", "auto"]\npurse_usd = 1000\n'
        "requests_a_minute = 1000000\n"
    )
    (folder / "scrout.toml").write_text(f'[api]\nidle_s = 1\n{caller}[route]\npolicy = "{policy}"\n{entries}')
    env = {**os.environ, "BENCH_TOKEN": TOKEN, "XDG_DATA_HOME": str(folder / f"data-{policy}")}
    command = [sys.executable, "-m", "scrout", "api", "--port", "0", "--repo", str(folder), "--config"]
    with subprocess.Popen(
        [*command, str(folder / "scrout.toml")], env=env, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr
        said = process.stderr.readline()
        address = re.search(r"http://[^\s,]+", said)
        if address is None:
            sys.exit(said + process.stderr.read())
        try:
            yield address[0]
        finally:
            process.terminate()


async def ask(url: str, body: Body, seconds: float, at_once: int, rate: float | None) -> dict[str, float]:
    """As fast as answers come, or at a rate."""
    took: list[float] = []
    failed = 0
    limits = httpx.Limits(max_connections=None)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60, limits=limits) as client:

        async def one() -> None:
            nonlocal failed
            started = time.perf_counter()
            answer = await client.post("/v1/route", json=body())
            took.append(time.perf_counter() - started)
            failed += answer.status_code != 200 or answer.json()["status"] != "done"

        async def again_and_again(until: float) -> None:
            while time.perf_counter() < until:
                await one()

        await one()
        took.clear()
        began = time.perf_counter()
        if rate is None:
            await asyncio.gather(*(again_and_again(began + seconds) for _ in range(at_once)))
        else:
            asked = []
            for number in range(int(rate * seconds)):
                await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
                asked.append(asyncio.create_task(one()))
            await asyncio.gather(*asked)
        lasted = time.perf_counter() - began
    p50, p99 = np.percentile(took, [50, 99])
    return {
        "answers": len(took),
        "failed": failed,
        "answers_per_second": round(len(took) / lasted, 1),
        "p50_ms": round(1000 * float(p50), 2),
        "p99_ms": round(1000 * float(p99), 2),
    }


def talk(url: str, model: str, token: str) -> list[float]:
    """Seconds of two turns in each of some conversations: the first is routed, the second is not."""
    took = []
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60) as client:
        for number in range(CONVERSATIONS):
            turns = [{"role": "user", "content": f"conversation {number}: total() leaves out the first price"}]
            for _ in range(2):
                started = time.perf_counter()
                client.post("chat/completions", json={"model": model, "messages": turns}).raise_for_status()
                took.append(time.perf_counter() - started)
                turns = [*turns, {"role": "assistant", "content": "ok"}, {"role": "user", "content": "go on"}]
    return took


def medians(took: list[float]) -> dict[str, float]:
    return {
        "first_turn_p50_ms": round(1000 * float(np.median(took[::2])), 2),
        "second_turn_p50_ms": round(1000 * float(np.median(took[1::2])), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    texts = list(read_texts(options.tasks).values())
    fresh = itertools.count(time.time_ns())
    few = itertools.cycle(texts[:10])
    bodies: dict[str, Body] = {
        "distinct": lambda: {"issue": f"{texts[(number := next(fresh)) % len(texts)]}\n\n{number}"},
        "repeated": lambda: {"issue": next(few)},
    }
    result: dict[str, object] = {"fixers": 4, "at_once": AT_ONCE, "targets_per_second": TARGETS}
    reply = ScriptedReply(text="ok", usage=Usage(input_tokens=100, output_tokens=2))
    with (
        tempfile.TemporaryDirectory() as name,
        ScriptedEndpoint(lambda _: reply, models=POOLS[4], keep=False) as endpoint,
    ):
        policies = ("value", "paper") if not minilm.missing() else ("value",)
        for policy in policies:
            with server(Path(name), endpoint.base_url, policy) as url:
                told: dict[str, object] = {}
                for kind, body in bodies.items():
                    told[kind] = asyncio.run(ask(url, body, options.seconds, AT_ONCE, None))
                    told[f"{kind}, at the target"] = asyncio.run(
                        ask(url, body, options.seconds, AT_ONCE, TARGETS[kind])
                    )
                if policy == "value":
                    told["auto"] = {
                        "routed": medians(talk(f"{url}/v1/", "scrout/auto", TOKEN)),
                        "direct": medians(talk(f"{endpoint.base_url}/", POOLS[4][0], "none")),
                    }
                result[policy] = told
    record(result, options.out)


if __name__ == "__main__":
    main()
