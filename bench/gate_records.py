"""Judges the paper's published verification records again, on the evidence that they hold (study/replicate/regated.py).

python bench/gate_records.py --records ../shared/data/receipts/verify_records.jsonl [--json FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from record import record

from scrout.lab.study.replicate_records import RegatedRecord, judge_all

UNDECIDED = "not decidable from the record"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, required=True)
    parser.add_argument("--json", type=Path, help="write the result here")
    options = parser.parse_args()
    lines = options.records.read_text(encoding="utf-8").splitlines()
    rows = judge_all(json.loads(line) for line in lines if line)
    print(table(rows))
    with contextlib.redirect_stdout(io.StringIO()):  # the table is the print-out
        record(summary(rows), options.json)


def differs(row: RegatedRecord) -> str:
    """Where we disagree with the release, in words; empty: nowhere, or not decided."""
    if row.kept is None:
        return ""
    if row.kept != row.release_kept:
        kept, ours = ("kept", "stripped") if row.release_kept else ("stripped", "kept")
        return f"{kept} by the release, {ours} by us: {row.reason}"
    return f"both strip it, for another reason: {row.reason}" if row.fate == "another class" else ""


def summary(rows: Sequence[RegatedRecord]) -> dict[str, object]:
    return {
        "records": len(rows),
        "verdict_decided": sum(row.verdict is not None for row in rows),
        "kept_or_stripped_decided": sum(row.kept is not None for row in rows),
        "release_kept": sum(row.release_kept for row in rows),
        "release_kept_that_we_strip": sum(row.release_kept and row.kept is False for row in rows),
        "release_stripped_that_we_keep": sum(not row.release_kept and row.kept is True for row in rows),
        "verdicts": dict(Counter(row.verdict or UNDECIDED for row in rows).most_common()),
        "rows": [{**row.model_dump(mode="json"), "differs": differs(row)} for row in rows],
    }


def table(rows: Sequence[RegatedRecord]) -> str:
    lines = [f"{'task':<24}{'release':<30}{'ours':<42}why"]
    for row in rows:
        release = f"{row.release_class}, {'kept' if row.release_kept else 'not kept'}"
        ours = (row.verdict or UNDECIDED) + {True: ", kept", False: ", not kept", None: ""}[row.kept]
        lines.append(f"{row.task:<24}{release:<30}{ours:<42}{differs(row) or row.reason}"[:240])
    told = summary(rows)
    lines.append(
        f"{told['records']} records: the verdict is decided for {told['verdict_decided']}, whether it is kept for "
        f"{told['kept_or_stripped_decided']}. Of the {told['release_kept']} that the release kept, "
        f"{told['release_kept_that_we_strip']} are stripped here; of the others, "
        f"{told['release_stripped_that_we_keep']} are kept."
    )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
