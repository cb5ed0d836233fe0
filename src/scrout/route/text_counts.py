"""Counts from a task's text alone: a feature space that every task has, scouted or not."""

from __future__ import annotations

import math
import re

import numpy as np
import numpy.typing as npt

SPACE = "counts-1"
"""If the meaning of a feature below changes, change this name."""

NAMES: tuple[str, ...] = (
    "log_chars",
    "log_requirements_chars",  # long-form tasks specify requirements,
    "log_interface_chars",  # and names that must exist afterwards
    "log_lines",
    "bullets",
    "code_share",  # share of the characters inside fences
    "quoted_names",
    "paths",
    "snake_case_names",
    "camel_case_names",
    "traceback",  # 1: there is one
)

MAX_CHARS = 200_000
"""Longer texts are cut."""
MAX_PATH_CHARS = 300
"""Longer words contain no path, and searching them takes quadratic time."""

_REQUIREMENTS = re.compile(r"^Requirements:$(.*?)(?=^New interfaces introduced:$|\Z)", re.MULTILINE | re.DOTALL)
_INTERFACE = re.compile(r"^New interfaces introduced:$(.*)\Z", re.MULTILINE | re.DOTALL)
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_BULLET = re.compile(r"^[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t]+\S", re.MULTILINE)
_QUOTED = re.compile(r"`([A-Za-z_][\w.]{1,80})(?:\(\))?`")
_RUN = re.compile(r"[\w./-]+")
_PATH = re.compile(r"(?<![\w/])(?:[\w.-]{1,80}/)+[\w.-]{1,80}\.[A-Za-z]\w{0,4}\b")
_SNAKE = re.compile(r"\b[a-z][a-z0-9]*(?:_[a-z0-9]+)+\b")
_CAMEL = re.compile(r"\b[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+\b")
_TRACEBACK = re.compile(
    r"Traceback \(most recent call last\)|^[ \t]+at [\w.$<>]+\(|^panic: |stack backtrace:", re.MULTILINE
)


def count(text: str) -> npt.NDArray[np.float32]:
    text = text[:MAX_CHARS]
    chars = max(1, len(text))
    numbers = (
        math.log1p(len(text)),
        math.log1p(_length(_REQUIREMENTS, text)),
        math.log1p(_length(_INTERFACE, text)),
        math.log1p(text.count("\n")),
        math.log1p(len(_BULLET.findall(text))),
        sum(map(len, _FENCED.findall(text))) / chars,
        math.log1p(len(set(_QUOTED.findall(text)))),
        math.log1p(len(_paths(text))),
        math.log1p(len(set(_SNAKE.findall(text)))),
        math.log1p(len(set(_CAMEL.findall(text)))),
        float(bool(_TRACEBACK.search(text))),
    )
    return np.array(numbers, dtype=np.float32)


def _paths(text: str) -> set[str]:
    runs = (run for run in _RUN.findall(text) if "/" in run and len(run) <= MAX_PATH_CHARS)
    return {path for run in runs for path in _PATH.findall(run)}


def _length(section: re.Pattern[str], text: str) -> int:
    found = section.search(text)
    return len(found[1].strip()) if found else 0
