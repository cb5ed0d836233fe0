"""What tests of the $0 fixer share: an interpreter that starts quickly."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _quick_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter itself rather than a version manager's script, which takes a tenth of a second to start it."""
    monkeypatch.setenv("PATH", str(Path(sys.base_prefix, "bin")), prepend=os.pathsep)
