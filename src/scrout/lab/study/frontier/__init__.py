"""Solve rate against cost: every fixer, mixture and policy."""
