"""Studies: what outcomes say about fixers, handoffs, gates and routers, recomputed from receipts or from a ledger.

A study is a package of its name with a module of its name, which has two functions: `study` takes a source (the paper's
files, or one's own runs) and gives a record, which is what `--json` prints; `report` makes tables and pictures of that
record, and computes nothing.
"""
