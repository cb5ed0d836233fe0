"""What every result file says about how it was made."""

from __future__ import annotations

import json
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

import scrout


def record(result: dict[str, object], out: Path | None) -> None:
    """Print a result with the command, versions and machine behind it, and write it where asked."""
    document = {
        "command": " ".join(["python", *(_plain(part) for part in sys.argv)]),
        "scrout": scrout.__version__,
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "machine": f"{platform.system()} {platform.release()} {platform.machine()}, {os.cpu_count()} cores, shared",
        **result,
    }
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    if out:
        out.write_text(text, encoding="utf-8")
    print(text, end="")


def _plain(part: str) -> str:
    """An argument without the folders of one machine."""
    return Path(part).name if part.startswith("/") else part
