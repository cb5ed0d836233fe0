"""Small edits of one statement, from templates.

An edit replaces one exact span of the source; every other character stays the same, comments and line endings included.
Nothing is run here. The templates know the syntax but no types, so most edits are wrong by design: a reproduction and
the project's tests decide. No edit leaves a function or a loop earlier, drops a statement, adds or drops a condition,
or catches more exceptions: such edits hide failures, and no reproduction shows what they lose.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from scrout.fix.repair.branches import STATEMENT_TEMPLATES
from scrout.fix.repair.calls import CALL_TEMPLATES
from scrout.fix.repair.donors import DONOR_TEMPLATES
from scrout.fix.repair.edit_site import NO_HINTS, Edit, EditSite
from scrout.fix.repair.expressions import EXPRESSION_TEMPLATES
from scrout.fix.repair.hints import Hints
from scrout.fix.repair.missing import MISSING_EXPRESSIONS, MISSING_STATEMENTS
from scrout.fix.repair.naturalness import Naturalness
from scrout.fix.repair.source import Statement, parse, statements
from scrout.fix.repair.values import VALUE_TEMPLATES

__all__ = ["PRIORS", "Edit", "edits", "edits_of", "statements"]

PRIORS: dict[str, float] = {
    "boundary": 1.0,
    "sibling": 0.8,
    "boolean": 0.75,
    "comparison": 0.7,
    "off by one": 0.65,
    "constant": 0.6,
    "arithmetic": 0.6,
    "negation": 0.55,
    "arguments": 0.5,
    "operands": 0.5,
    "variable": 0.5,
    "attribute": 0.45,
    "default": 0.35,
    "none": 0.5,
    "first value": 0.9,
    "exception type": 0.45,
    "keyword": 0.4,
    "looked up": 0.35,
    "string": 0.45,
    "types": 0.35,
    "argument": 0.3,
    "kind of constant": 0.4,
    "known number": 0.25,
    "missing call": 0.18,
    "unneeded call": 0.3,
    "reused": 0.3,
    "larger expression": 0.35,
    "display": 0.35,
    "element": 0.3,
    "order": 0.35,
    "passed on": 0.4,
    "twin": 0.25,
    "converted": 0.15,
}
"""Relative probability of each kind; a guess until outcomes can be counted."""

MAX_PER_STATEMENT = 240
USUAL = 0.35
"""Exponent of the edited code's naturalness in the score, beside the prior of its kind."""


def edits(source: str, lines: Collection[int], priors: Mapping[str, float] = PRIORS) -> Iterator[Edit]:
    """Edits of the statements on these lines, likeliest first. Each compiles; no two give the same source."""
    wanted = set(lines)
    for edit, _ in edits_of(
        source,
        [one for one in parse(source).statements if not wanted.isdisjoint(range(one.first_line, one.last_line + 1))],
        priors,
    ):
        yield edit


def edits_of(
    source: str,
    among: Collection[Statement],
    priors: Mapping[str, float] = PRIORS,
    hints: Hints = NO_HINTS,
    wording: Naturalness | None = None,
) -> Iterator[tuple[Edit, Statement]]:
    """The same for these statements, each edit with its statement; edits that are natural by `wording` come first."""
    text = parse(source)
    drafts: list[tuple[Edit, Statement]] = []
    for statement in among:
        made = _drafts(EditSite(text, statement, priors, hints))
        if wording is not None:
            made = (replace(edit, prior=edit.prior * wording.usual(source, edit) ** USUAL) for edit in made)
        ranked = sorted(made, key=lambda edit: -edit.prior)
        drafts += [(edit, statement) for edit in ranked[:MAX_PER_STATEMENT]]
    seen = {hash(source)}
    for edit, statement in sorted(drafts, key=lambda pair: (-pair[0].prior, pair[0].start)):
        result = hash(edit.apply(source))
        if result not in seen and text.compiles(edit.start, edit.end, edit.after, statement):
            seen.add(result)
            yield edit, statement


def _drafts(place: EditSite) -> Iterator[Edit]:
    for node in place.nodes:
        for template in (*EXPRESSION_TEMPLATES, *CALL_TEMPLATES, *VALUE_TEMPLATES, *MISSING_EXPRESSIONS):
            yield from template(place, node)
    for statement_template in (*STATEMENT_TEMPLATES, *DONOR_TEMPLATES, *MISSING_STATEMENTS):
        yield from statement_template(place)
