"""Searchers: each takes a task and gives a Scouting."""
