"""The kinds of fixers: one module each, named like the kind, with the class as `PART` (scrout.fix.kind)."""
