"""Fixers: each turns a task and its gated handoff into an attempt."""
