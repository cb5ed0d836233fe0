"""Measures packing: how full the blocks are beside the least that any packing needs, and how quick it is.

    python bench/pack.py --corpus DIR --checkpoint DIR --json bench/results/pack.json

Fill: lengths as the paper has them (19,905 documents with 382.4 million tokens, blocks of 32,768), of which only the
mean is published, in three shapes; and the lengths of a corpus. Beside ours stands first fit in the order that
documents come in, which is what packing on the fly does. Speed: a corpus, its rows repeated until there are MILLIONS of
tokens, from its JSON lines to blocks on the disk, and what the tokenizer alone does with the same texts.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
from record import record

from scrout.config.settings import SearcherSettings
from scrout.lab.train.corpus.corpus import CORPUS
from scrout.lab.train.pack import Pack, bins, min_bins, pack
from scrout.lab.train.tokenization import ChatTokenizer

ROOM = 32_768
DOCUMENTS, MEAN = 19_905, 382_400_000 / 19_905
MILLIONS = 8
ROUNDS = 3

Lengths = npt.NDArray[np.int64]


def shapes(seed: int = 0) -> dict[str, Lengths]:
    """Three with the published mean; the first two are spread as search episodes are, the third is the worst case."""
    draw = np.random.default_rng(seed)
    share = MEAN / ROOM
    around = draw.beta(4 * share, 4 * (1 - share), DOCUMENTS) * ROOM
    wide = np.minimum(draw.lognormal(np.log(MEAN) - 0.18, 0.6, DOCUMENTS), ROOM)
    half = draw.normal(MEAN, 0.12 * ROOM, DOCUMENTS)
    named = {"beta": around, "lognormal": wide, "mostly above half a block": half}
    return {name: np.clip(np.rint(values), 300, ROOM).astype(np.int64) for name, values in named.items()}


def first_fit(lengths: Lengths) -> int:
    rests: list[int] = []
    for length in map(int, lengths):
        for number, rest in enumerate(rests):
            if rest >= length:
                rests[number] -= length
                break
        else:
            rests.append(ROOM - length)
    return len(rests)


def filled(lengths: Lengths, room: int = ROOM) -> dict[str, object]:
    started = time.perf_counter()
    blocks = len(bins(lengths, room))
    seconds = time.perf_counter() - started
    least = min_bins(lengths, room)
    tokens = int(lengths.sum())
    found = {
        "documents": len(lengths),
        "mean_tokens": round(float(lengths.mean()), 1),
        "blocks": blocks,
        "min_blocks": least,
        "above_the_bound": round(blocks / least - 1, 5),
        "fill": round(tokens / (blocks * room), 4),
        "packing_tokens_per_second": round(tokens / seconds),
    }
    if room == ROOM and len(lengths) == DOCUMENTS:
        found["first_fit_fill"] = round(tokens / (first_fit(lengths) * room), 4)
    return found


def speed(corpus: Path, template: ChatTokenizer) -> dict[str, object]:
    rows = [json.loads(line) for line in (corpus / CORPUS).read_text(encoding="utf-8").splitlines()]
    texts = [template.text(row["messages"], row["tools"]) for row in rows]
    tokens = sum(map(len, template.tokenizer(texts, add_special_tokens=False)["input_ids"]))
    times = -(-MILLIONS * 1_000_000 // tokens)
    rates, alone = [], []
    with tempfile.TemporaryDirectory() as folder:
        many = Path(folder) / "many"
        many.mkdir()
        with (many / CORPUS).open("w", encoding="utf-8") as file:
            for number in range(times):
                for row in rows:
                    file.write(json.dumps(row | {"issue_id": f"{row['issue_id']}.{number}"}) + "\n")
        digest = hashlib.sha256((many / CORPUS).read_bytes()).hexdigest()
        (many / "card.json").write_text(json.dumps({"sha256": digest}), encoding="utf-8")
        for number in range(ROUNDS):
            card = pack(many, Path(folder) / str(number), template, SearcherSettings())
            rates.append(card.tokens / card.seconds)
            started = time.perf_counter()
            template.tokenizer.backend_tokenizer.encode_batch(texts * times, add_special_tokens=False)
            alone.append(tokens * times / (time.perf_counter() - started))
        lengths = Pack(Path(folder) / "0").documents()
    return {
        "tokens": card.tokens,
        "tokens_per_second": [round(rate) for rate in rates],
        "tokenizer_alone_tokens_per_second": [round(rate) for rate in alone],
        "fill": filled(lengths),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    record(
        {
            "published_fill": 0.917,
            "fill": {name: filled(lengths) for name, lengths in shapes().items()},
            "speed": speed(given.corpus, ChatTokenizer.load(given.checkpoint)),
        },
        given.json,
    )


if __name__ == "__main__":
    main()
