"""Routing: chooses the fixer for a task, and explains the choice."""
