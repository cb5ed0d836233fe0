"""Routing: which fixer gets the task, and why not the others."""
