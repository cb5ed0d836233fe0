"""Our verdicts in the eight classes of the paper's census, so that counts can stand side by side.

By meaning, not by what the released gate would have said: it took every exit code but 0 for a reproduction, so syntax
errors and mistakes of the script's own are in its `real_failure`, and are in `nonzero_other` here.
"""

from __future__ import annotations

from typing import Literal, assert_never

from scrout.records import Verdict

PaperClass = Literal[
    "passed_stripped",
    "real_failure",
    "claim_not_true",
    "import_error",
    "nonzero_other",
    "missing_file",
    "no_repro",
    "no_command",
]


def paper_class(verdict: Verdict) -> PaperClass:
    """The class of the paper that a verdict falls into."""
    match verdict:
        case "real_failure" | "missing_file" | "import_error" | "no_repro" | "claim_not_true" | "no_command":
            return verdict
        case "passed" | "reproduced_exit_zero":
            return "passed_stripped"  # an exit code of 0 is all that the paper's gate looks at
        case "environment_missing":
            return "import_error"
        case "command_not_found":
            return "missing_file"
        case (
            "flaky"
            | "timeout"
            | "syntax_error"
            | "usage_error"
            | "no_tests"
            | "own_error"
            | "unrelated_failure"
            | "tampered"
            | "killed"
            | "nonzero_other"
        ):
            return "nonzero_other"
        case _:
            assert_never(verdict)
