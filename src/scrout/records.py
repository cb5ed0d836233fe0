"""What the stages exchange, and the Run that holds it all. Every record here is stored in the ledger as JSON."""

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
"""Stored beside every record. A change that an old record cannot be read with raises it and adds a migration."""

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
"""How a fixer works: from the issue alone, with what survived the gate, or with all that the scout claimed."""

KEPT: frozenset[str] = frozenset(get_args(KeptVerdict))


class State(FrozenModel):
    """What the scout knows, as a vector for the router. Vectors compare only within one space."""

    space: str
    vector: tuple[float, ...]


ScoutStop = Literal["finished", "forced", "malformed", "cap_usd", "timeout", "crashed", "endpoint"]
"""`forced`: the turns ran out and one more request demanded the handoff. `malformed`: even that gave none that can be
read. `endpoint` is infrastructure: it never counts as the searcher's failure."""


class Scouting(FrozenModel):
    """What scouting gave."""

    handoff: Handoff
    """Empty where the searcher gave none: the fixer then works from the issue alone."""
    text: str
    """The handoff in wire form."""
    state: State | None = None
    seconds: float
    cost_usd: Usd | None = Decimal(0)
    """None: a call had no known price."""
    searcher: str = "recon"
    """recon, or the model's name."""
    stop: ScoutStop = "finished"
    detail: str = ""
    """What ended it, in words; empty: nothing worth telling."""
    turns: int = 0
    receipts: tuple[Receipt, ...] = ()
    trace: str = ""
    """File that every request and response is in; empty: there is none."""
    paid_by: str = ""
    """Another run of the same task that scouted and paid for it; empty: this one did."""


class Evidence(FrozenModel):
    """What was seen when a command was replayed."""

    command: str | None = None
    exit_code: int | None = None
    """None: nothing ran, or it was stopped before it could exit."""
    runs: int = 0
    output_tail: str = ""
    seconds: float = 0.0


class GatedHandoff(FrozenModel):
    """The handoff after its claim was replayed: what is false is gone from record and text."""

    verdict: Verdict | Literal["not_replayed"]
    """`not_replayed`: the arm passes claims through."""
    kept: bool
    materialized: bool
    """True: the reproduction's files and command are ready to be written into a fixer's workspace."""
    reason: str
    evidence: Evidence
    handoff: Handoff
    text: str
    flags: tuple[str, ...] = ()
    """What was taken out or marked because it could mislead a fixer: secrets, hidden characters, orders to it."""
    basis: Basis | None = None
    """What a kept reproduction rests on; None: none was kept."""

    @property
    def verified(self) -> bool:
        """Whether the reproduction can judge a patch: it was kept, and the report itself says that it is wrong."""
        return self.kept and self.basis in ("verbatim", "confirmed")


class Candidate(FrozenModel):
    """A fixer as the router saw it."""

    fixer: str
    p_solve: float | None
    """None: the fixer has no résumé yet."""
    p_low: float | None = None
    """With `p_high` the 95% interval of `p_solve`; None: unknown."""
    p_high: float | None = None
    p_by_space: dict[str, float] = Field(default_factory=dict)
    expected_cost_usd: Usd | None
    """Dollars an attempt; None: no outcome and no price says."""
    evidence: str = ""
    """Where the probability comes from: the fixer's own résumé, one borrowed from another key, or none."""
    reason: str
    """Why it was chosen, or why it lost."""


class Decision(FrozenModel):
    """The fixer, and why not the others."""

    fixer: str
    theta: float
    degraded: bool
    """True: a feature space that the router could have used was missing."""
    fallback: bool
    """True: no candidate did what the policy asks for, and another was taken: under `paper` the anchor."""
    policy: str = "paper"
    """The rule that chose, as `route.policy` names it."""
    abstained: bool = False
    """True: the task is far from everything known, so the anchor took it."""
    spaces: tuple[str, ...] = ()
    """The feature spaces that counted."""
    cost_usd: Usd | None = Decimal(0)
    """Of the issue's vector, where an endpoint made it; None: without a known price."""
    reason: str
    candidates: tuple[Candidate, ...]


Stop = Literal["finished", "nothing_found", "not_applicable", "cap_calls", "cap_usd", "timeout", "crashed", "endpoint"]


class Attempt(FrozenModel):
    """One fixer's try. The diff that exists is the submission, whatever stopped it."""

    fixer: str
    patch: str
    """As git would print it; empty: nothing was changed."""
    stop: Stop
    """`endpoint` is infrastructure: it never counts as the fixer's failure."""
    detail: str
    seconds: float
    calls: int = 0
    cost_usd: Usd | None = Decimal(0)
    """None: a call had no known price."""
    receipts: tuple[Receipt, ...] = ()
    handoff: str = "full"
    """What of the handoff it was given: full, files-only or none."""
    trace: str = ""
    """Folder with the trajectory and the agent's own log; empty: there is none."""


CheckOutcome = Literal["passed", "unverified", "doubtful", "failed", "no_patch"]


class Check(FrozenModel):
    """The patch, examined on a clean workspace."""

    outcome: CheckOutcome
    """`passed`: a verbatim or confirmed reproduction no longer fails, no test broke, and something independent agrees.
    `unverified`: that could not be shown. `doubtful`: the patch changes what the report does not complain about."""
    applies: bool
    reproduction: Literal["passes", "fails", "none"]
    tests: Literal["pass", "fail", "none", "not_run"]
    """`fail`: tests that passed before the patch fail after it, as they were or as it leaves them. `none`: the project
    has no tests we can find."""
    tests_run: int = 0
    flags: tuple[str, ...] = ()
    """What a reviewer should know, a sentence each: a test weakened, a symlink, a test that failed by chance. A flag
    decides nothing."""
    agreement: tuple[str, ...] = ()
    """What agrees besides the reproduction, a sentence each: tests and examples that execute the changed lines."""
    doubts: tuple[str, ...] = ()
    """Why the patch is doubtful, each with the input that shows it."""
    missing: tuple[str, ...] = ()
    """What would have to be shown for `passed`, a sentence each."""
    detail: str = ""
    evidence: tuple[Evidence, ...] = ()
    seconds: float = 0.0


RunOutcome = Literal["solved", "unverified", "not_solved", "infrastructure", "interrupted", "unjudged"]
"""`unjudged`: there was nothing to solve, such as in a conversation of `scrout/auto`. It says nothing of a fixer."""


class Run(FrozenModel):
    """One task from scouting to check, with everything it cost."""

    id: str
    task: Task
    settings_digest: str
    batch: str = ""
    """The batch it belongs to; empty: it was run alone."""
    arm: str = ""
    """What of that batch it is, such as `handoff/routed` or `solo/repair`."""
    started: datetime
    finished: datetime | None = None
    sandbox: str
    """The isolation tier that every command of this run was under."""
    environment: str
    """Where the repository's dependencies came from, in words."""
    scouting: Scouting | None = None
    gated: GatedHandoff | None = None
    decision: Decision | None = None
    attempts: tuple[Attempt, ...] = ()
    checks: tuple[Check, ...] = ()
    """One for each attempt, in the same order."""
    outcome: RunOutcome
    cost_usd: Usd | None = Decimal(0)
    """The total of its receipts, those of interrupted steps included; None: a call had no known price."""

    @property
    def patch(self) -> str:
        """The last attempt's patch: the submission."""
        return self.attempts[-1].patch if self.attempts else ""

    @property
    def lost_usd(self) -> Decimal | None:
        """The part of its cost that went to steps without a result in it: interrupted, failed, or done again."""
        used_usd = total_usd(part.cost_usd for part in (self.scouting, self.decision, *self.attempts) if part)
        return None if self.cost_usd is None or used_usd is None else self.cost_usd - used_usd
