"""Runs the tests that judge over every patch of a batch, after a control with the gold patch.

Keeps flaky tests and infrastructure failures apart.
"""
