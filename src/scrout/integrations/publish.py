"""`publish`: reports the result of the work on the forge. It runs nothing, and does not trust its input."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from scrout.integrations import markdown
from scrout.integrations.admission import Admission, OpenBudget
from scrout.integrations.ci_environment import CiEnvironment
from scrout.integrations.event import Event, digest
from scrout.integrations.forge import Forge, ForgeError, PullRefused
from scrout.integrations.patch import HeldPatch, branch_of, prepare
from scrout.integrations.remote import Remote
from scrout.integrations.result import WorkResult, read_result
from scrout.integrations.work import must_be_of, must_work

OpenRemote = Callable[[], AbstractContextManager[Remote]]


@dataclass(frozen=True)
class PublishedLinks:
    comment: str
    pull: str = ""
    problem: str = ""


@dataclass(frozen=True)
class Publisher:
    event: Event
    admission: Admission
    place: CiEnvironment
    forge: Forge
    remote: OpenRemote
    budget: OpenBudget

    def publish(self, result_file: Path) -> PublishedLinks:
        """Settle the run's cost, then report its result."""
        if self.admission.go == "nothing":
            return PublishedLinks("")
        if self.admission.go == "say":
            must_be_of(self.event, self.admission)
            return PublishedLinks(self._comment(markdown.refused(self.admission)))
        must_work(self.event, self.admission)
        try:
            result = read_result(result_file, self.event, self.admission, self.place.commit)
        except ForgeError as error:
            self._settle(None)
            said = self._comment(markdown.no_result(self.admission, str(error), self.place))
            return PublishedLinks(said, problem=str(error))
        # First: even if the forge refuses the rest, the money is spent.
        self._settle(result)
        told, pull = self._pull(result)
        now = self.forge.issue(self.event.number)
        if digest(now.title, now.body) != self.event.digest:
            told.append("The issue was edited meanwhile. This is about the text that was labelled.")
        return PublishedLinks(self._comment(markdown.comment(result, self.admission, self.place, told)), pull)

    def _settle(self, result: WorkResult | None) -> None:
        """If the cost is unknown, the whole reservation counts."""
        if self.admission.day is None:
            return
        known = result.cost_usd if result else None
        usd = self.admission.held_usd if known is None else min(known, self.admission.held_usd)
        with self.budget() as book:
            book.settle(self.admission.key, usd, self.admission.day, self.event.number)

    def _pull(self, result: WorkResult) -> tuple[list[str], str]:
        """Sentences for the comment, and the pull request's address; empty: there is none."""
        if result.verb != "fix" or result.outcome not in ("solved", "unverified"):
            what = {"not_solved": "No patch came of it.", "infrastructure": "An endpoint failed, not the fixer."}
            return ([what[result.outcome]] if result.outcome in what else []), ""
        if not result.patch:
            return ["There is no patch to publish."], ""
        if result.checked is None or result.checked.outcome not in ("passed", "unverified"):
            return ["The patch is not published: its check did not pass."], ""
        with self.remote() as remote:
            message = markdown.commit_message(self.admission, result.run)
            made = prepare(remote, self.place.commit, result.patch, message, self.event.at)
            if isinstance(made, HeldPatch):
                listed = "\n".join(f"- {reason}" for reason in made.reasons)
                return [f"There is a patch, and it is not published:\n\n{listed}"], ""
            branch = branch_of(self.event.number, self.admission.key)
            there = remote.tip(f"refs/heads/{branch}")
            if there not in ("", made.commit):
                return [
                    f"There is a patch, and the branch `{branch}` has other commits already. It was left alone."
                ], ""
            if not there:
                remote.push(made.commit, f"refs/heads/{branch}")
        body = markdown.pull_body(result, self.admission, self.place, made.files, made.notes)
        try:
            pull = self.forge.open_pull(
                head=branch, base=self.event.default_branch, title=markdown.pull_title(self.admission), body=body
            )
        except PullRefused as error:
            return [
                f"The patch is on the branch `{branch}`. No pull request could be opened: {markdown.code(str(error))} "
                "On GitHub, allow it under Settings, Actions, General, Workflow permissions."
            ], ""
        return [f"Pull request: {pull}"], pull

    def _comment(self, body: str) -> str:
        return self.forge.comment(self.event.number, body, markdown.mark(self.admission.key), self.event.at)
