"""The process that serves a model file: what it is given, and what is told when it does not start."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scrout.base import ModelError
from scrout.models import local_server
from scrout.models.local_server import ServedModel


def test_no_key_of_the_caller_reaches_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, python, model = tmp_path / "seen", tmp_path / "python", tmp_path / "model.gguf"
    python.write_text(f"#!/bin/sh\nenv > {seen}\necho no such model >&2\n")
    python.chmod(0o755)
    model.touch()
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-0123456789abcdef")
    with pytest.raises(ModelError, match=r"cannot serve .*no such model"):
        local_server.start(ServedModel(path=str(model)), tmp_path / "log")
    assert "PATH=" in seen.read_text() and "sk-very-secret" not in seen.read_text()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"nowhere\.gguf is not a file"):
        local_server.start(ServedModel(path=str(tmp_path / "nowhere.gguf")), tmp_path / "log")
