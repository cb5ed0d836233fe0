"""The built-in fixer: small edits, tested with the reproduction and nearby tests. It is free."""
