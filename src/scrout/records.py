"""The records that stages exchange, and the Run that holds them all. Every record is stored in the ledger as JSON."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Literal, get_args

from pydantic import Field

from scrout.base import FrozenModel
from scrout.handoff import Basis, Handoff
from scrout.money import Receipt, Usd, total_usd
from scrout.task import Task

SCHEMA = 1
"""Stored with every record. A change that makes old records unreadable raises it and adds a migration."""

KeptVerdict = Literal["real_failure", "reproduced_exit_zero"]
RejectedVerdict = Literal[
    "passed",
    "flaky",
    "timeout",
    "missing_file",
    "import_error",
    "environment_missing",
    "command_not_found",
    "syntax_error",
    "usage_error",
    "no_tests",
    "own_error",
    "unrelated_failure",
    "tampered",
    "killed",
    "nonzero_other",
]
NothingVerdict = Literal["no_repro", "claim_not_true", "no_command"]
Verdict = KeptVerdict | RejectedVerdict | NothingVerdict

Arm = Literal["solo", "handoff", "passthrough"]
"""A fixer's input: the issue alone, the handoff that passed the gate, or everything the scout claimed."""

KEPT: frozenset[str] = frozenset(get_args(KeptVerdict))


class State(FrozenModel):
    """The scout's hidden state as a vector for the router. Vectors can be compared only within one space."""

    space: str
    vector: tuple[float, ...]


ScoutStop = Literal["finished", "forced", "malformed", "cap_usd", "timeout", "crashed", "endpoint"]
"""`forced`: the turns ran out and one more request demanded the handoff. `malformed`: even that reply had no readable
handoff. `endpoint`: infrastructure failed, which never counts as the searcher's failure.
"""


class Scouting(FrozenModel):
    """The result of scouting."""

    handoff: Handoff
    """Empty if the searcher gave none; the fixer then works from the issue alone."""
    text: str
    """The handoff in wire form."""
    state: State | None = None
    seconds: float
    cost_usd: Usd | None = Decimal(0)
    """None: the price of a call is unknown."""
    searcher: str = "recon"
    """recon, or the model's name."""
    stop: ScoutStop = "finished"
    detail: str = ""
    """Why it ended, in words; empty if there is nothing to say."""
    turns: int = 0
    receipts: tuple[Receipt, ...] = ()
    trace: str = ""
    """File with every request and response; empty: none."""
    paid_by: str = ""
    """Another run of the same task that scouted and paid for it; empty: this run did."""


class Evidence(FrozenModel):
    """The result of replaying a command."""

    command: str | None = None
    exit_code: int | None = None
    """None: nothing ran, or the command was stopped."""
    runs: int = 0
    output_tail: str = ""
    seconds: float = 0.0


class GatedHandoff(FrozenModel):
    """The handoff after its claim was replayed. False claims are removed from record and text."""

    verdict: Verdict | Literal["not_replayed"]
    """`not_replayed`: the arm skips the gate."""
    kept: bool
    materialized: bool
    """True: the reproduction's files and command can be written into a fixer's workspace."""
    reason: str
    evidence: Evidence
    handoff: Handoff
    text: str
    flags: tuple[str, ...] = ()
    """Parts that were removed or marked because they could mislead a fixer: secrets, hidden characters, instructions.
    """
    basis: Basis | None = None
    """The basis of the kept reproduction; None: none was kept."""

    @property
    def verified(self) -> bool:
        """Whether the reproduction can judge a patch: it was kept, and the issue itself says that the behaviour is
        wrong.
        """
        return self.kept and self.basis in ("verbatim", "confirmed")


class Candidate(FrozenModel):
    """A fixer as the router rated it."""

    fixer: str
    p_solve: float | None
    """None: the fixer has no résumé."""
    p_low: float | None = None
    """With `p_high` the 95% interval of `p_solve`; None: unknown."""
    p_high: float | None = None
    p_by_space: dict[str, float] = Field(default_factory=dict)
    expected_cost_usd: Usd | None
    """Dollars per attempt; None: unknown, without outcomes or a price."""
    evidence: str = ""
    """Source of the probability: the fixer's own résumé, one borrowed from another key, or none."""
    reason: str
    """Why it was chosen or not."""


class Decision(FrozenModel):
    """The chosen fixer, and why the others were not chosen."""

    fixer: str
    theta: float
    degraded: bool
    """True: a feature space that the router could use was missing."""
    fallback: bool
    """True: no candidate met the policy's condition, so another was taken: under `paper` the anchor."""
    policy: str = "paper"
    """The rule that chose, as in `route.policy`."""
    abstained: bool = False
    """True: the task is unlike all known tasks, so the anchor was taken."""
    spaces: tuple[str, ...] = ()
    """The feature spaces that were used."""
    cost_usd: Usd | None = Decimal(0)
    """Cost of the issue's vector, if an endpoint made it; None: the price is unknown."""
    reason: str
    candidates: tuple[Candidate, ...]


Stop = Literal["finished", "nothing_found", "not_applicable", "cap_calls", "cap_usd", "timeout", "crashed", "endpoint"]


class Attempt(FrozenModel):
    """One attempt of a fixer. Its diff at the end is its submission, for whatever reason it stopped."""

    fixer: str
    patch: str
    """As git prints it; empty: no change."""
    stop: Stop
    """`endpoint`: infrastructure failed, which never counts as the fixer's failure."""
    detail: str
    seconds: float
    calls: int = 0
    cost_usd: Usd | None = Decimal(0)
    """None: the price of a call is unknown."""
    receipts: tuple[Receipt, ...] = ()
    handoff: str = "full"
    """The part of the handoff that the fixer received: full, files-only or none."""
    trace: str = ""
    """Folder with the trajectory and the agent's own log; empty: none."""


CheckOutcome = Literal["passed", "unverified", "doubtful", "failed", "no_patch"]


class Check(FrozenModel):
    """The result of checking a patch in a clean workspace."""

    outcome: CheckOutcome
    """`passed`: a verbatim or confirmed reproduction no longer fails, no test broke, and independent evidence agrees.
    `unverified`: that could not be shown. `doubtful`: the patch changes what the report does not complain about.
    """
    applies: bool
    reproduction: Literal["passes", "fails", "none"]
    tests: Literal["pass", "fail", "none", "not_run"]
    """`fail`: a test that passed before the patch fails after it, in its old or its new version. `none`: no tests were
    found.
    """
    tests_run: int = 0
    flags: tuple[str, ...] = ()
    """Remarks for a reviewer, a sentence each: a test weakened, a symlink, a test that failed by chance. Flags do not
    change the verdict.
    """
    agreement: tuple[str, ...] = ()
    """Evidence besides the reproduction, a sentence each: tests and examples that execute the changed lines."""
    doubts: tuple[str, ...] = ()
    """Why the patch is doubtful, each with the input that shows it."""
    missing: tuple[str, ...] = ()
    """What is missing for `passed`, a sentence each."""
    detail: str = ""
    evidence: tuple[Evidence, ...] = ()
    seconds: float = 0.0


RunOutcome = Literal["solved", "unverified", "not_solved", "infrastructure", "interrupted", "unjudged"]
"""`unjudged`: there was nothing to solve, such as in a conversation of `scrout/auto`. It says nothing about a fixer."""


class Run(FrozenModel):
    """One task from scouting to check, with everything it cost."""

    id: str
    task: Task
    settings_digest: str
    batch: str = ""
    """The batch it belongs to; empty: none."""
    arm: str = ""
    """Its arm in the batch, such as `handoff/routed` or `solo/repair`."""
    started: datetime
    finished: datetime | None = None
    sandbox: str
    """The isolation tier of all commands of this run."""
    environment: str
    """The source of the repository's dependencies, in words."""
    scouting: Scouting | None = None
    gated: GatedHandoff | None = None
    decision: Decision | None = None
    attempts: tuple[Attempt, ...] = ()
    checks: tuple[Check, ...] = ()
    """One per attempt, in the same order."""
    outcome: RunOutcome
    cost_usd: Usd | None = Decimal(0)
    """The total of its receipts, interrupted steps included; None: the price of a call is unknown."""

    @property
    def patch(self) -> str:
        """The last attempt's patch, which is the submission."""
        return self.attempts[-1].patch if self.attempts else ""

    @property
    def lost_usd(self) -> Decimal | None:
        """The cost of steps without a result in the run: interrupted, failed or repeated."""
        used_usd = total_usd(part.cost_usd for part in (self.scouting, self.decision, *self.attempts) if part)
        return None if self.cost_usd is None or used_usd is None else self.cost_usd - used_usd
