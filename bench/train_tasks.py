"""Chooses the tasks that a small searcher is trained and examined on: fixes in the history of small Python libraries.

    python bench/train_tasks.py --mirrors DIR --out DIR

`DIR` of mirrors holds bare clones as owner+name or owner+name/repo. Each library's history is read from a pinned commit
backwards by `scrout.lab.train.history`, so the tasks are the same whenever this is run. A commit's message stands for
the issue. Taken are changes of one or two Python files that were there before, with a message of no more than
MAX_CHARS. No library gives tasks to both sets. Nothing here looks at what recon finds.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from scrout.git import repository_at
from scrout.lab.train.blocklist import refuse_blocked
from scrout.lab.train.history import HistoryRow, mirror, rows

MAX_GOLD = 2
MAX_CHARS = 1_200
PER_TRAIN, PER_EVAL = 8, 3
LOOKED_AT = 60
"""Commits of a library, spread over its history, of which so many are taken."""

# repository -> the commit from which its history is read
TRAIN = {
    "PyCQA/pycodestyle": "d6c38543a95c3adec7958fc659f4081972a3f1d1",
    "PyCQA/pyflakes": "59ec4593efd4c69ce00fdb13c40fcf5f3212ab10",
    "Python-Markdown/markdown": "bb50627dc07fde6ee5ed7478464062c537ebad2c",
    "SethMMorton/natsort": "b0ea0aea274902c63b510d78112f892c33be957d",
    "Suor/funcy": "70fb6e8b0d1d2d5a78f2a66e80a98d691366cc85",
    "andialbrecht/sqlparse": "60cdc649726bf1bc4f1b336050560b336da715ec",
    "arrow-py/arrow": "b247ad073d4c350270528edb5afff8e7f4f7d9e4",
    "asottile/pyupgrade": "1915f5dfa65063de58d3df821312e9a582ef5cea",
    "astanin/python-tabulate": "268615a5c27dc40e5c22454c07b44d5c50410da0",
    "cpburnz/python-pathspec": "6568072c2703c72796cd02467feb924540157c92",
    "dateutil/dateutil": "c981f9c7aa91b83cc9bd33a09ecee9e751b06e8d",
    "executablebooks/markdown-it-py": "2c3f71ec46c4259ca375fb40c9cd47385c6c304e",
    "gruns/furl": "7c233324610338414f77a37a2f1e1dc75b4bc9b0",
    "html5lib/html5lib-python": "fd4f032bc090d44fb11a84b352dad7cbee0a4745",
    "jab/bidict": "77ade420ab2274b11e75d68fd45ec789b6ca0bc6",
    "jaraco/inflect": "262a247d2d99a47a520cdb2d46adb90df88b4326",
    "jmespath/jmespath.py": "2ad18b0e51ef3c22ef0d4bbeb11506746a39e228",
    "joke2k/django-environ": "df301b607f287df049b4efeda14717fcdbe123b1",
    "konradhalas/dacite": "9898ccbb783e7e6a35ae165e7deb9fa84edfe21c",
    "lark-parser/lark": "9bae96161b45a5bf70011c75b1ef41228d3f4caa",
    "lepture/mistune": "b5dd9949baf3729a709ef8ae591eab86e72a9e46",
    "mahmoud/boltons": "967864f89791509f9eb36b22b4579d36b72a6df2",
    "mahmoud/glom": "c225e2abeb234be7119911b96b4378cc9d8d6478",
    "marshmallow-code/marshmallow": "341b927f219205704728c05cd61f04d7e9727523",
    "more-itertools/more-itertools": "2fe1b2eeb9d75f994113fe3ac76d14b6bcd6fb10",
    "mozilla/bleach": "913ab75992b845e2c9c060c41f24d46921db4693",
    "omni-us/jsonargparse": "5559c81df94c3b66c2ba57c52e62bb0f62a8ff1e",
    "pallets/click": "2c8cd3ac958a7eb316d67f2d316c27086c4c0369",
    "pallets/jinja": "5ef70112a1ff19c05324ff889dd30405b1002044",
    "pallets/werkzeug": "1b00618e787f40dfb21eba29caf8f8be7c8e1d93",
    "prettytable/prettytable": "d7fd98561d004dce1f508ce7c6d75e9900e7d944",
    "pypa/build": "b317437d2b5cddea5c7b45f72d1ae8af915e9815",
    "pypa/packaging": "053c884615f2e83d80705251b447769ec2599653",
    "pypa/twine": "f536ac5d0c77a24a997854328e64644f576b4992",
    "pyparsing/pyparsing": "efd56db4e59f36b1673ce0eb0823e3afaa9d1201",
    "pytest-dev/pyfakefs": "bb55fb8a87c5e5c682702b86f0ca6a8002cbbf3d",
    "python-attrs/attrs": "c1dc5dcba16ed827aa6dcad896b41a3afedb4e32",
    "python-poetry/tomlkit": "d8ed1e3cdb024dfc2c6f12b45a0dfd4d4d91f727",
    "pytoolz/toolz": "568c2b8393973cd172a466546c9d95779c452438",
    "savoirfairelinux/num2words": "07814cb114157f582c40a00119c2e9faba8dcee2",
    "sciunto-org/python-bibtexparser": "b0f77f9828737af760442293e13ebf5f87827042",
    "scrapy/parsel": "05b3d37bf292d012f3d0b71fb7f0697d03af113e",
    "scrapy/w3lib": "ed01dc04608336967356417f472a691b82bcfbe4",
    "seperman/deepdiff": "60ac5b903dbd662e0e83bf7b481df97d42f693df",
    "tobgu/pyrsistent": "0c0b7aec8cd25b1d2d8ba07b10acdefd0f38f2c7",
    "tox-dev/filelock": "61511ebc1cc5d40b28f8584f1078e63f2d63fb02",
    "Delgan/loguru": "2a17be730e111cf874d0bf967c4c5da15b7e4670",
    "yt-project/unyt": "a1b056d57209ab6ba24ce354712f305ea0a59002",
    "holoviz/param": "73affe631b8255ea2681f2c4ad1a938c2536a123",
    "agronholm/anyio": "660a06d548ca72759e9d89ed722dd1ad5227afe4",
    "tox-dev/tox": "ccb12fc2e1bb9df0da860be4af175e9b97949fbc",
}
EVAL = {
    "alecthomas/voluptuous": "87825d6dbdab8830fcc6d559ecb3b88bdf68af6d",
    "pyeve/cerberus": "b392d3af7f9aa47a71b5c045e1f22a1f9df56521",
    "python-humanize/humanize": "c3a124cdeb272d7f63bc0aa66f79c6fbafd2fc6d",
    "msiemens/tinydb": "2283a2b556d5ef361b61bae8ed89c0ce0730d7c8",
    "keleshev/schema": "310a1239b62f500284ce3bd91b7dabf70467f23e",
    "scrapy/cssselect": "439ad91e8911e4b366945d1c9eea8db93dd5d368",
    "python-hyper/hyperlink": "ec7d17268809f89f044e04d71225d6a6e4df264d",
    "python-semver/python-semver": "d8813b67a2ec5d579365f51a6d8f96d02f3fcbc3",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirrors", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    assert not TRAIN.keys() & EVAL.keys()
    for name, pinned, each in (("train", TRAIN, PER_TRAIN), ("eval", EVAL, PER_EVAL)):
        path = asked.out / f"{name}_tasks.jsonl"
        written = write(path, asked.mirrors, pinned, each)
        print(f"{path}: {written} tasks of {len(pinned)} repositories")


def write(path: Path, mirrors: Path, pinned: Mapping[str, str], each: int) -> int:
    """A task file of at most so many tasks of each repository."""
    refuse_blocked(pinned)
    lines = []
    for repo, tip in pinned.items():
        clone = mirror(mirrors, repo)
        fit = [row for row in rows(clone, repo, LOOKED_AT, tip) if fits(row)]
        # By digest, so that the choice favours no age.
        for row in sorted(fit, key=lambda row: hashlib.sha256(row.instance_id.encode()).digest())[:each]:
            gold = {"patch": patch(clone, row), "files": list(row.gold_files)}
            task = {"id": row.instance_id, "text": row.problem_statement, "repo": repo, "base_commit": row.base_commit}
            lines.append(json.dumps({**task, "gold": gold}, ensure_ascii=False))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return len(lines)


def fits(row: HistoryRow) -> bool:
    """Whether a row is small enough for a small model."""
    python = all(path.endswith(".py") and not path.endswith("setup.py") for path in row.gold_files)
    return python and not row.new_files and len(row.gold_files) <= MAX_GOLD and len(row.problem_statement) <= MAX_CHARS


def patch(clone: Path, row: HistoryRow) -> str:
    """What the commit changed in the files of the answer."""
    paths = [f":(literal){path}" for path in row.gold_files]
    commit = row.instance_id.rpartition("@")[2]
    with repository_at(clone).borrowed() as git:
        diff = git("diff-tree", "-p", "--no-renames", "--no-ext-diff", row.base_commit, commit, "--", *paths)
    return diff.decode("utf-8", errors="replace")


if __name__ == "__main__":
    main()
