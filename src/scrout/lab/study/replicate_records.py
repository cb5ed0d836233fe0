"""The paper's whole verification records, judged again by the gate's own rules, on the evidence that they hold.

A record has the handoff, the command's exit code and the end of its output. It has no repository, no issue, no script
and no witness. So each is judged twice, without an issue: as if the repository held nothing, and as if it held every
file and package that the record names. Where the two differ, or a rule asks for what only a replay shows, the record
does not decide.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from scrout.base import FrozenModel, StudyError
from scrout.gate.classify import classify
from scrout.gate.paper_classes import paper_class
from scrout.gate.replay_context import Classification, ReplayContext
from scrout.gate.sources import deciding_word, own_sources, simple_commands
from scrout.handoff import Handoff, Reproduction, parse
from scrout.records import KEPT
from scrout.sandbox.replay import Replay
from scrout.sandbox.workspace import Base

ROOT = Path("/app")
"""Where the records' containers had the repository."""
NEEDS_REPLAY = frozenset(["real_failure", "unrelated_failure", "nonzero_other", "reproduced_exit_zero", "tampered"])
"""Verdicts that rest on what the witness or the workspace shows, unless the command itself tells."""
_NAMED = re.compile(r"(?<![\w./-])(?:/app/)?([\w./-]+\.py)\b")
_IMPORTED = re.compile(r"(?:from|import|No module named|module) '?(\w+)")
_TIMED_OUT = -1

Fate = Literal["same class", "another class", "open"]


class RegatedRecord(FrozenModel):
    """One record, as the release and as we judge it."""

    task: str
    release_class: str
    release_kept: bool
    """The release counts a claim as verified unless it saw exit code 0."""
    verdict: str | None
    """Ours; None: the record does not decide it."""
    paper_class: str | None
    """Our verdict in the paper's classes."""
    kept: bool | None
    """None: not decided. It can be decided although the verdict is not."""
    reason: str

    @property
    def fate(self) -> Fate:
        """Whether the class stays."""
        if self.paper_class is None:
            return "open"
        return "same class" if self.paper_class == self.release_class else "another class"


def judge_all(records: Iterable[Mapping[str, Any]]) -> tuple[RegatedRecord, ...]:
    return tuple(judge(record) for record in records)


def judge(record: Mapping[str, Any]) -> RegatedRecord:
    """What the gate's rules make of one record."""
    verify = record.get("verify")
    if not isinstance(verify, Mapping) or not isinstance(record.get("handoff_text"), str):
        raise StudyError(
            f"the verification record of {record.get('task_id')} lacks `verify` or `handoff_text`. Take "
            "receipts/verify_records.jsonl as it was released."
        )
    found = _judgement(record["handoff_text"], verify)
    finding = found.finding
    return RegatedRecord(
        task=_short(str(record["task_id"])),
        release_class=str(record.get("failure_class", "")),
        release_kept=verify.get("verified") is True,
        verdict=finding.verdict if finding else None,
        paper_class=paper_class(finding.verdict) if finding else None,
        kept=finding.verdict in KEPT if finding else False if found.stripped else None,
        reason=" ".join((finding.reason if finding else found.why).split()),
    )


@dataclass(frozen=True)
class _Judgement:
    finding: Classification | None
    why: str = ""
    """Why there is no finding."""
    stripped: bool = False
    """Whether the claim goes all the same."""


def _judgement(text: str, verify: Mapping[str, Any]) -> _Judgement:
    handoff = parse(text)
    claim = handoff.reproduction
    if claim is None:
        return _Judgement(Classification("no_repro", "the handoff has no reproduction"))
    if not claim.claim:
        return _Judgement(Classification("claim_not_true", "the scout does not claim to have seen it"))
    if claim.command is None:
        return _Judgement(Classification("no_command", "the claim names no command to run"))
    code = verify.get("returncode")
    if not isinstance(code, int):
        return _Judgement(None, "we can read a command in the handoff, but the release ran none")
    if code == _TIMED_OUT:
        return _Judgement(Classification("timeout", "stopped at the release's time limit"))
    if code and (word := deciding_word(claim.command)):
        why = f"the exit code {code} may be that of `{word}` in the command itself"
        return _Judgement(Classification("nonzero_other", why))
    commands = list(simple_commands(claim.command))
    if any(words[0] in ("rm", "mv", "sed") for _, words in commands):
        why = "passed or tampered: the command removes a file, and only the repository tells whose"
        return _Judgement(None, why, stripped=code == 0)
    hidden = code == 0 and any(operator == "|" for operator, _ in commands)
    return _replayed(handoff, claim, code, str(verify.get("output_tail", "")), hidden=hidden)


def _replayed(handoff: Handoff, claim: Reproduction, code: int, output: str, *, hidden: bool) -> _Judgement:
    """What the rules say of the run; `hidden`: by its exit code, which is that of the last part of a pipe."""
    findings = [_classified(handoff, claim, 1 if hidden else code, output, full=full) for full in (False, True)]
    verdicts = {finding.verdict for finding in findings}
    if len(verdicts) > 1:
        told = " or ".join(sorted(verdicts))
        why = f"{told}, depending on what the repository holds"
        return _Judgement(None, why, stripped=not verdicts & NEEDS_REPLAY)
    if verdicts & NEEDS_REPLAY:
        missing = (
            "the exit code is hidden by a pipe" if hidden else "only a replay shows whether the repository decided it"
        )
        return _Judgement(None, f"exit code {code}; {missing}")
    return _Judgement(findings[0])


def _classified(handoff: Handoff, claim: Reproduction, code: int, output: str, *, full: bool) -> Classification:
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        if full:
            _fill(tree, handoff, claim, output)
        base = Base(ROOT, "", tree)
        return classify(Replay(claim.command or "", code, output, 0.0), ReplayContext("", own_sources(claim, {}), base))


def _fill(tree: Path, handoff: Handoff, claim: Reproduction, output: str) -> None:
    """A repository with every file and package that the record names, but for the claim's own scripts."""
    named = {*_NAMED.findall(output), *(ref.path for ref in handoff.files)}
    for name in named - set(_NAMED.findall(claim.command or "")):
        if ".." not in PurePosixPath(name).parts and not name.startswith("/"):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).touch()
    for package in _IMPORTED.findall(output):
        (tree / package).mkdir(exist_ok=True)


def _short(task: str) -> str:
    project, _, commit = task.removeprefix("instance_").partition("-")
    return f"{project.partition('__')[2] or project}-{commit[:8]}"
