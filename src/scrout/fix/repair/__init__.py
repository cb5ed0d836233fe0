"""The embedded fixer: small edits, tried by running the reproduction and the tests near them. It costs nothing."""
