"""One call: the model sees the likeliest functions and the failure, and answers with an edit. It has no tools."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from scrout.config.settings import ChatApi
from scrout.fix.kind import Ended, ModelFixer, ModelJob
from scrout.money import Usd

if TYPE_CHECKING:
    from scrout.fix.single.excerpts import Excerpt


class SingleFixer(ModelFixer):
    kind: Literal["single"] = "single"
    form: Literal["blocks", "function"] = "blocks"
    """The answer's format: search and replace blocks, or a whole function, which small models copy more reliably."""
    samples: int = Field(default=3, ge=1, le=20)
    """Maximum number of answers.

    Each request shows another function first; the first patch that passes the check wins.
    """
    temperature: float = Field(default=0.8, ge=0, le=2)
    """Temperature after every function has been shown first. Until then it is 0."""
    prompt_tokens: int = Field(default=6000, ge=500)
    """Approximate maximum length of the prompt."""
    max_tokens: int = Field(default=2048, ge=1)
    """Output limit of one call."""
    cap_calls: int = Field(default=8, ge=1)
    cap_usd: Usd = Field(default=Decimal("0.25"), gt=0)

    api: ClassVar[ChatApi] = "chat"

    async def work(self, job: ModelJob) -> Ended:
        from scrout.agent.loop import about_what_was_sent
        from scrout.base import ModelError
        from scrout.fix.prompt import limit_handoff
        from scrout.fix.single.excerpts import find_excerpts
        from scrout.fix.single.suspected import suspected_files
        from scrout.fix.single.tries import Tries
        from scrout.models.chat import CallRefused

        gated = limit_handoff(job.given.gated, job.given.mode)
        job.given.progress(f"{self.name}: looking for the code to show")
        excerpts = find_excerpts(
            await suspected_files(job.given.task.text, gated, job.task_sandbox), job.task_sandbox.base.read
        )
        if not excerpts:
            return "not_applicable", "no file of the handoff can be shown, and it works on nothing else"
        tries = Tries(self, job, gated)
        try:
            for order, temperature in self._plans(excerpts):
                await tries.one(order, temperature)
                # Without a reproduction, answers cannot be compared, so more of them would only cost.
                if tries.best and (tries.best.check.outcome == "passed" or not gated.verified):
                    break
        except CallRefused as refused:
            return refused.stop, f"{refused}; {tries.summary}"
        except ModelError as error:
            return ("crashed" if about_what_was_sent(error, tries.number) else "endpoint"), f"{error}; {tries.summary}"
        return ("finished" if tries.best else "nothing_found"), tries.summary

    def _plans(self, excerpts: list[Excerpt]) -> Iterator[tuple[list[Excerpt], float]]:
        """The order of excerpts and the temperature of each request: other functions before more samples of one."""
        for number in range(self.samples):
            at = number % len(excerpts)
            order = [excerpts[at], *excerpts[:at], *excerpts[at + 1 :]]
            yield order, 0.0 if number < len(excerpts) else self.temperature


PART = SingleFixer
