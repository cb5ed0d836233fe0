"""Judges the paper's published verification records again, on the evidence that they hold.

    python bench/gate_records.py --records ../shared/data/receipts/verify_records.jsonl [--json FILE]

A record has the handoff, the command's exit code and the end of its output, and which files the replay created. It has
no repository, no issue, no script and no witness. So each is judged twice by the gate's own rules, without an issue:
once as if the repository held nothing, once as if it held every file and package that the record names. Where the two
differ, or a rule asks for what only a replay shows, the record does not decide, and is counted apart.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from record import record

from scrout.gate.classify import classify
from scrout.gate.paper import paper_class
from scrout.gate.scene import Finding, Scene
from scrout.gate.sources import deciding_word, own_sources, simple_commands
from scrout.handoff import Handoff, Reproduction, parse
from scrout.records import KEPT
from scrout.sandbox.replay import Replay
from scrout.sandbox.workspace import Base

ROOT = Path("/app")
"""Where the records' containers had the repository."""
UNDECIDED = "not decidable from the record"
NEEDS_REPLAY = frozenset(["real_failure", "unrelated_failure", "nonzero_other", "reproduced_exit_zero", "tampered"])
"""Verdicts that rest on what the witness or the workspace shows, unless the command itself tells."""
_NAMED = re.compile(r"(?:/app/)?([\w./-]+\.py)\b")


@dataclass(frozen=True)
class Row:
    """One record, as the release and as we judge it."""

    task: str
    release_class: str
    release_kept: bool
    """The release counts a claim as verified unless it saw exit code 0."""
    verdict: str
    """Ours, or that the record does not decide it."""
    kept: bool | None
    """None: not decided. It can be decided although the verdict is not."""
    paper_class: str
    reason: str

    @property
    def differs(self) -> str:
        """Where we disagree with the release, in words; empty: nowhere, or not decided."""
        if self.kept is None:
            return ""
        if self.kept != self.release_kept:
            kept, ours = ("kept", "stripped") if self.release_kept else ("stripped", "kept")
            return f"{kept} by the release, {ours} by us: {self.reason}"
        if self.paper_class and self.paper_class != self.release_class:
            return f"both strip it, for another reason: {self.reason}"
        return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, required=True)
    parser.add_argument("--json", type=Path, help="write the result here")
    options = parser.parse_args()
    rows = [judge(json.loads(line)) for line in options.records.read_text(encoding="utf-8").splitlines() if line]
    print(table(rows))
    with contextlib.redirect_stdout(io.StringIO()):  # the table is the print-out
        record(summary(rows), options.json)


def judge(entry: dict[str, object]) -> Row:
    """What the gate's rules make of one record."""
    verify = entry["verify"]
    assert isinstance(verify, dict)
    finding, why, stripped = _finding(str(entry["handoff_text"]), verify)
    return Row(
        task=_short(str(entry["task_id"])),
        release_class=str(entry["failure_class"]),
        release_kept=verify["verified"] is True,
        verdict=finding.verdict if finding else UNDECIDED,
        kept=finding.verdict in KEPT if finding else False if stripped else None,
        paper_class=paper_class(finding.verdict) if finding else "",
        reason=" ".join((finding.reason if finding else why).split()),
    )


def _finding(text: str, verify: dict[str, object]) -> tuple[Finding | None, str, bool]:
    """The finding, or why there is none and whether the claim is stripped all the same."""
    handoff = parse(text)
    claim = handoff.reproduction
    if claim is None:
        return Finding("no_repro", "the handoff has no reproduction"), "", True
    if not claim.claim:
        return Finding("claim_not_true", "the scout does not claim to have seen it"), "", True
    if claim.command is None:
        return Finding("no_command", "the claim names no command to run"), "", True
    code = verify["returncode"]
    if not isinstance(code, int):
        return None, "we can read a command in the handoff, but the release ran none", False
    command = claim.command
    if code == -1:
        return Finding("timeout", "stopped at the release's time limit"), "", True
    if code and (word := deciding_word(command)):
        return Finding("nonzero_other", f"the exit code {code} may be that of `{word}` in the command itself"), "", True
    if any(words[0] in ("rm", "mv", "sed") for _, words in simple_commands(command)):
        return None, "passed or tampered: the command removes a file, and only the repository tells whose", code == 0
    hidden = code == 0 and any(operator == "|" for operator, _ in simple_commands(command))
    output = str(verify.get("output_tail", ""))
    findings = [_classified(handoff, claim, 1 if hidden else code, output, full=full) for full in (False, True)]
    verdicts = {finding.verdict for finding in findings}
    if len(verdicts) > 1:
        told = " or ".join(sorted(verdicts))
        return None, f"{told}, depending on what the repository holds", not verdicts & NEEDS_REPLAY
    if verdicts & NEEDS_REPLAY:
        missing = (
            "the exit code is hidden by a pipe" if hidden else "only a replay shows whether the repository decided it"
        )
        return None, f"exit code {code}; {missing}", False
    return findings[0], "", True


def _classified(handoff: Handoff, claim: Reproduction, code: int, output: str, *, full: bool) -> Finding:
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        if full:
            named = {*_NAMED.findall(output), *(ref.path for ref in handoff.files)}
            scripts = set(_NAMED.findall(claim.command or ""))
            for name in named - scripts:
                if ".." not in PurePosixPath(name).parts and not name.startswith("/"):
                    (tree / name).parent.mkdir(parents=True, exist_ok=True)
                    (tree / name).touch()
            for dotted in re.findall(r"(?:from|import|No module named|module) '?(\w+)", output):
                (tree / dotted).mkdir(exist_ok=True)
        base = Base(ROOT, "", tree)
        return classify(Replay(claim.command or "", code, output, 0.0), Scene("", own_sources(claim, {}), base))


def _short(task: str) -> str:
    project, _, commit = task.removeprefix("instance_").partition("-")
    return f"{project.partition('__')[2]}-{commit[:8]}"


def summary(rows: list[Row]) -> dict[str, object]:
    return {
        "records": len(rows),
        "verdict_decided": sum(row.verdict != UNDECIDED for row in rows),
        "kept_or_stripped_decided": sum(row.kept is not None for row in rows),
        "release_kept": sum(row.release_kept for row in rows),
        "release_kept_that_we_strip": sum(row.release_kept and row.kept is False for row in rows),
        "release_stripped_that_we_keep": sum(not row.release_kept and row.kept is True for row in rows),
        "verdicts": dict(Counter(row.verdict for row in rows).most_common()),
        "rows": [{**asdict(row), "differs": row.differs} for row in rows],
    }


def table(rows: list[Row]) -> str:
    lines = [f"{'task':<24}{'release':<30}{'ours':<42}why"]
    for row in rows:
        release = f"{row.release_class}, {'kept' if row.release_kept else 'not kept'}"
        ours = row.verdict + {True: ", kept", False: ", not kept", None: ""}[row.kept]
        lines.append(f"{row.task:<24}{release:<30}{ours:<42}{row.differs or row.reason}"[:240])
    told = summary(rows)
    lines.append(
        f"{told['records']} records: the verdict is decided for {told['verdict_decided']}, whether it is kept for "
        f"{told['kept_or_stripped_decided']}. Of the {told['release_kept']} that the release kept, "
        f"{told['release_kept_that_we_strip']} are stripped here; of the others, "
        f"{told['release_stripped_that_we_keep']} are kept."
    )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
