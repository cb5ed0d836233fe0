"""mini-SWE-agent. It gets the task unchanged; its own templates are the rest of its prompt."""

from __future__ import annotations

from typing import ClassVar, Literal

from scrout.config.settings import ChatApi
from scrout.fix.kinds.command import ProgramFixer
from scrout.fix.presets import PRESETS, Preset


class MiniFixer(ProgramFixer):
    kind: Literal["mini"] = "mini"

    api: ClassVar[ChatApi] = "chat"

    @property
    def preset_used(self) -> Preset:
        return self._with_env(PRESETS["mini"])

    def prompt(self, task: str) -> str:
        return task


PART = MiniFixer
