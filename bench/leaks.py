"""Shows that recon does not see the future: the same output on a full clone and on one with the base's ancestors alone.

    python bench/leaks.py --tasks FILE.jsonl[.gz] --mirrors DIR [--limit 20]

Each search runs in a process of its own with an empty cache folder. What is compared is all that the search returns,
scores included. Prints n, how many are identical, and the ids that differ; exits with 1 where one does. A task
whose commit cannot be read counts as differing.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from localize import Query, alone, read_tasks
from record import record

from scrout.base import ScroutError
from scrout.git import GitDir, make_git_dir
from scrout.index.repository import read_repository


def output(query: Query) -> str:
    """All that a search returns, as text."""
    from scrout.scout.recon.search import search

    return repr(search(query.text, read_repository(query.git_dir, query.commit)))


def past_only(git_dir: Path, commit: str, into: Path) -> Path:
    """A bare repository that holds a commit and its ancestors, and neither a name nor an object of anything else."""
    make_git_dir(into, "ref: refs/heads/base", bare=True)
    # Packed directly: cloning and fetching refuse a source that lacks a blob anywhere in its history.
    pack = str(into.resolve() / "objects" / "pack" / "pack")
    GitDir(git_dir)("pack-objects", "--revs", "--missing=allow-any", "-q", pack, stdin=commit.encode())
    GitDir(into)("update-ref", "refs/heads/base", commit)
    return into


def same(query: Query) -> bool:
    """Whether both clones give the same, each to a process of its own with an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        past = replace(query, git_dir=past_only(query.git_dir, query.commit, Path(folder) / "past.git"))
        return alone(output, query, Path(folder) / "full") == alone(output, past, Path(folder) / "past")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=Path, required=True, help="rows as JSON lines, also compressed (.gz)")
    parser.add_argument("--mirrors", type=Path, required=True, help="folder of bare clones named owner+name/repo")
    parser.add_argument("--limit", type=int, default=20, help="take so many rows, evenly spaced over the file")
    parser.add_argument("--out", type=Path, help="write the JSON object there too")
    asked = parser.parse_args()
    try:
        tasks = read_tasks(asked.tasks, asked.mirrors, asked.limit)
    except (ScroutError, OSError) as error:
        parser.error(str(error))
    differing = []
    for query, _ in tasks:
        try:
            identical = same(query)
        except ScroutError as error:
            print(f"{query.id}: {error}", file=sys.stderr)
            identical = False
        print(f"{query.id}: {'identical' if identical else 'DIFFERENT'}", file=sys.stderr)
        if not identical:
            differing.append(query.id)
    record({"n": len(tasks), "identical": len(tasks) - len(differing), "differing": differing}, asked.out)
    raise SystemExit(1 if differing else 0)


if __name__ == "__main__":
    main()
