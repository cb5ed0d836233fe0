"""Demonstrations for a searcher, cut from trajectories of agents that fixed issues."""
