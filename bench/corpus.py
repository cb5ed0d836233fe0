"""Measures building a corpus: what it reads in a second, and that its memory does not grow with what it reads.

    python bench/corpus.py --samples DIR --json bench/results/corpus.json

The sample trajectories are written again and again, each time as another issue's, into one file of each size and form.
All of them are read by `scrout train corpus` in a process of its own, whose peak of memory counts. Every trajectory is
an issue of its own here, so that memory grows as much as it ever can.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

from record import record

from scrout.lab.train.corpus.streams import UnreadableDocument, documents, files

MB = 1e6
SIZES_MB = (100, 500)
ROW_GROUP = 100
PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(usage.ru_maxrss, usage.ru_utime + usage.ru_stime)
"""
"""Run by a small process: what a child has of memory counts from that of the process which it was forked from."""


def endless(samples: Path) -> Iterator[dict[str, Any]]:
    """The samples over and over, each time with another issue's number."""
    known = [row for path in files([samples]) for _, row in documents(path) if not isinstance(row, UnreadableDocument)]
    named = [(str(row["instance_id"]).partition("-")[0], row) for row in known if "instance_id" in row]
    for number in count(1):
        for place, (name, row) in enumerate(named):
            yield {**row, "instance_id": f"{name}-{number}{place:02}"}


def write_lines(path: Path, rows: Iterator[dict[str, Any]], size_mb: float) -> int:
    with gzip.open(path, "wt", compresslevel=1) if path.suffix == ".gz" else path.open("w") as file:
        return _until(size_mb, rows, lambda row, text: file.write(text + "\n"))


def write_array(path: Path, rows: Iterator[dict[str, Any]], size_mb: float) -> int:
    with path.open("w") as file:
        file.write("[")
        written = _until(size_mb, rows, lambda row, text: file.write(text + ",\n"))
        file.write("{}]")
        return written + 1


def write_parquet(path: Path, rows: Iterator[dict[str, Any]], size_mb: float) -> int:
    """One layout alone, since a table has one schema; arguments of calls are text in it."""
    import pyarrow  # type: ignore[import-untyped]
    from pyarrow.parquet import ParquetWriter  # type: ignore[import-untyped]

    message = {"role": pyarrow.string(), "content": pyarrow.string()}
    turns = pyarrow.list_(pyarrow.struct(list(message.items())))
    kinds = {"instance_id": pyarrow.string(), "traj_id": pyarrow.string(), "patch": pyarrow.string(), "messages": turns}
    schema = pyarrow.schema(list(kinds.items()))
    waiting: list[dict[str, Any]] = []
    with ParquetWriter(path, schema) as writer:

        def add(row: dict[str, Any], text: str) -> None:
            waiting.append(row)
            if len(waiting) == ROW_GROUP:
                writer.write_table(pyarrow.Table.from_pylist(waiting, schema))
                waiting.clear()

        chosen = ({key: row.get(key) for key in kinds} for row in rows if "traj_id" in row)
        written = _until(size_mb, chosen, add)
        if waiting:
            writer.write_table(pyarrow.Table.from_pylist(waiting, schema))
        return written


def _until(size_mb: float, rows: Iterator[dict[str, Any]], add: Callable[[dict[str, Any], str], object]) -> int:
    """Add rows until they have so many megabytes as JSON; how many there were."""
    size = number = 0
    while size < size_mb * MB:
        row = next(rows)
        text = json.dumps(row)
        add(row, text)
        size, number = size + len(text), number + 1
    return number


FORMS = {
    "jsonl": ("a.jsonl", write_lines, SIZES_MB),
    "jsonl, gzipped": ("a.jsonl.gz", write_lines, SIZES_MB),
    "json, one array": ("a.json", write_array, SIZES_MB),
    # Its reader's allocator takes longer to have what it ever needs.
    "parquet": ("a.parquet", write_parquet, (*SIZES_MB, 1000)),
}


def built(source: Path, out: Path, size_mb: float, rows: int) -> dict[str, float]:
    command = [sys.executable, "-m", "scrout", "train", "corpus", str(source), "--out", str(out), "--json"]
    command += ["-c", "scout.model.dialect=xml"]
    started = time.perf_counter()
    told = subprocess.run([sys.executable, "-c", PEAK, *command], stdout=subprocess.PIPE, check=True).stdout
    seconds = time.perf_counter() - started
    peak_kb, cpu_seconds = map(float, told.split())
    card = json.loads((out / "card.json").read_text(encoding="utf-8"))
    assert card["read"] == rows == card["demonstrations"] + card["reserve"] + sum(card["dropped"].values())
    return {
        "trajectories": rows,
        "demonstrations": card["demonstrations"],
        "issues": card["issues"],
        "peak_mb": round(peak_kb * 1024 / MB, 1),
        "mb_per_second": round(size_mb / seconds, 1),
        "mb_per_cpu_second": round(size_mb / cpu_seconds, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--samples", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found: dict[str, object] = {}
    for form, (name, write, wanted) in FORMS.items():
        sizes: dict[int, dict[str, float]] = {}
        for size_mb in wanted:
            with tempfile.TemporaryDirectory() as folder:
                rows = write(Path(folder) / name, endless(given.samples), size_mb)
                sizes[size_mb] = built(Path(folder) / name, Path(folder) / "out", size_mb, rows)
            print(form, size_mb, sizes[size_mb], file=sys.stderr)
        few, many = wanted[-2:]
        grown = 1000 * (sizes[many]["peak_mb"] - sizes[few]["peak_mb"]) / (many - few)
        found[form] = {**{f"{size} MB": told for size, told in sizes.items()}, "grown_mb_a_gb": round(grown, 1)}
    record({"forms": found}, given.json)


if __name__ == "__main__":
    main()
