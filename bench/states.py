"""What recon measures of tasks before any fixer runs: its states, as one small array.

    python bench/states.py --tasks FILE.jsonl[.gz] --mirrors DIR --out FILE.npz [--manifest FILE.csv] [--jobs N]

DIR holds bare clones named owner+name/repo, in any case. A row has instance_id, repo, base_commit and the text; where a
file of texts has no repo and base_commit, --manifest is a CSV with them. Each state is read from text, clone and commit
alone; no command is run, so nothing counts as reproduced. FILE.npz gets `ids`, `rows` (float32), `space`, `names`.
Tasks whose commit the clone does not hold are left out and named on stderr.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import numpy as np
from localize import text_of

from scrout.base import ScroutError
from scrout.index.repository import read_repository
from scrout.lab.train.history import mirror
from scrout.scout.recon.recon import SPACE, STATE_FEATURES, survey

PIECE = 40
"""Tasks of one repository that one process reads in a row: neighbours share most of their index."""

Row = Mapping[str, str]


def read_tasks(path: Path, manifest: Path | None) -> list[dict[str, str]]:
    data = path.read_bytes()
    lines = (gzip.decompress(data) if path.suffix == ".gz" else data).split(b"\n")
    rows = [json.loads(line) for line in lines if line.strip()]
    if manifest:
        with manifest.open(newline="") as file:
            places = {row["instance_id"]: row for row in csv.DictReader(file)}
        rows = [row | {key: places[row["instance_id"]][key] for key in ("repo", "base_commit")} for row in rows]
    return rows


def measure(rows: Sequence[Row], mirrors: Path) -> list[tuple[str, tuple[float, ...]]]:
    """The states of tasks of one repository; one that cannot be read is left out."""
    found = []
    for row in rows:
        try:
            repository = read_repository(mirror(mirrors, row["repo"]), row["base_commit"])
            found.append((row["instance_id"], survey(text_of(row), repository).vector))
        except ScroutError as error:
            print(f"{row['instance_id']}: {error}", file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=Path, required=True)
    parser.add_argument("--mirrors", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--manifest", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    by_repo: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in read_tasks(options.tasks, options.manifest):
        by_repo[row["repo"]].append(row)
    pieces = []
    for rows in by_repo.values():
        rows.sort(key=lambda row: (row.get("created_at") or "", row["instance_id"]))
        pieces += [rows[at : at + PIECE] for at in range(0, len(rows), PIECE)]
    pieces.sort(key=len, reverse=True)
    states: dict[str, tuple[float, ...]] = {}
    mirrors = options.mirrors.absolute()
    with ProcessPoolExecutor(options.jobs) as pool:
        for number, done in enumerate(as_completed([pool.submit(measure, piece, mirrors) for piece in pieces]), 1):
            states |= dict(done.result())
            print(f"{number} of {len(pieces)} pieces, {len(states)} tasks", file=sys.stderr)
    ids = sorted(states)
    np.savez_compressed(
        options.out,
        ids=np.array(ids),
        rows=np.array([states[one] for one in ids], dtype=np.float32),
        space=np.array(SPACE),
        names=np.array(STATE_FEATURES),
    )


if __name__ == "__main__":
    main()
